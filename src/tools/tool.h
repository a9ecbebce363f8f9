/*
 * Declares functions that the commands of `mrail` share: argument lists,
 * messages and installation paths. Only tools may use them, because functions
 * may print to stderr and exit with status 1 (failure) or 2 (usage).
 */
#ifndef MRAIL_TOOLS_TOOL_H
#define MRAIL_TOOLS_TOOL_H

#include "base/util.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define MRAIL_TOOL_FAILED 1
#define MRAIL_TOOL_USAGE 2
#define MRAIL_TOOL_PATH_MAX 4096

/* A list of words for execv(), terminated by NULL. A zero-initialised list is
 * empty. Words are copied. The process exits if memory runs out. */
typedef struct mrail_tool_args {
    char **items;
    unsigned count;
} mrail_tool_args_t;

void mrail_tool_args_add(mrail_tool_args_t *args, const char *word);
void mrail_tool_args_addf(mrail_tool_args_t *args, const char *fmt, ...)
    MRAIL_PRINTF(2, 3);
void mrail_tool_args_cleanup(mrail_tool_args_t *args);

/* Prints the words on one line, quoted for a POSIX shell. */
void mrail_tool_args_print(const mrail_tool_args_t *args, FILE *stream);

/* Prints "mrail COMMAND: MESSAGE" and "Try: mrail COMMAND --help", then exits
 * with status 2. */
_Noreturn void mrail_tool_usage(const char *command, const char *fmt, ...)
    MRAIL_PRINTF(2, 3);

/* Prints "mrail COMMAND: MESSAGE", then exits with status 1. */
_Noreturn void mrail_tool_fail(const char *command, const char *fmt, ...)
    MRAIL_PRINTF(2, 3);

/* Returns the name of a file for messages, which is "stdin" for "-". */
const char *mrail_tool_file_name(const char *path);

/* Reads a file, or stdin for "-", and appends a NUL byte. The caller frees the
 * text. If a file is longer than `max`, reads slightly more than `max` bytes,
 * so that the parser rejects the text. Exits if memory runs out, or with a
 * usage error if the file cannot be read. */
char *mrail_tool_read(const char *command, const char *path, size_t max,
                      size_t *length_p);

/* If stderr is a terminal, shows the progress of a long task: "mrail COMMAND:
 * DONE of TOTAL WHAT". Does not print during the first two seconds, and then
 * prints at most once a second. If done == total, removes the line. Not
 * thread-safe. */
void mrail_tool_progress(const char *command, unsigned done, unsigned total,
                         const char *what);

/* Returns the directory of the running program with symbolic links resolved, or
 * "." if it cannot be determined. */
void mrail_tool_own_dir(char *dir, size_t size);

/* Maps the configured path `target` into a tree that was moved or staged as a
 * whole, given that a program configured for the directory `configured` is now
 * in `own_dir`. The parts in which the two configured paths differ are
 * unchanged. Returns 0, or -ENOENT if own_dir does not end like `configured` or
 * the path is too long. */
int mrail_tool_moved(const char *own_dir, const char *configured,
                     const char *target, char *path, size_t size);

/* Returns the absolute path of a file in the running program's installation:
 * the path from mrail_tool_moved() if the file exists there, otherwise
 * `target`. */
void mrail_tool_installed(const char *target, char *path, size_t size);

#endif
