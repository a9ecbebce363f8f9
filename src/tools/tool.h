/*
 * Shared by the verbs of `mrail`: argument lists, messages, places of the
 * installation. Tools only: functions may print to stderr and end the process
 * with status 1 (failure) or 2 (usage).
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

/* A list of words that ends with NULL, for execv(). Zero-initialised, it is
 * empty. Words are copied. A lack of memory ends the process. */
typedef struct mrail_tool_args {
    char **items;
    unsigned count;
} mrail_tool_args_t;

void mrail_tool_args_add(mrail_tool_args_t *args, const char *word);
void mrail_tool_args_addf(mrail_tool_args_t *args, const char *fmt, ...)
    MRAIL_PRINTF(2, 3);
void mrail_tool_args_cleanup(mrail_tool_args_t *args);

/* One line that a POSIX shell reads back as the same words. */
void mrail_tool_args_print(const mrail_tool_args_t *args, FILE *stream);

/* "mrail VERB: sentence" and "Try: mrail VERB --help", then exit(2). */
_Noreturn void mrail_tool_usage(const char *verb, const char *fmt, ...)
    MRAIL_PRINTF(2, 3);

/* "mrail VERB: sentence", then exit(1). */
_Noreturn void mrail_tool_fail(const char *verb, const char *fmt, ...)
    MRAIL_PRINTF(2, 3);

/* The name of a file in messages: "stdin" for "-". */
const char *mrail_tool_file_name(const char *path);

/* Reads a file, or stdin for "-", with a zero byte behind it; the caller frees it.
 * A file that is much longer than `max` is cut, so that its parser refuses it. A file
 * that cannot be read is a usage error; a lack of memory ends the process, too. */
char *mrail_tool_read(const char *verb, const char *path, size_t max,
                      size_t *length_p);

/* Says on a terminal's stderr how far a long task is, at most once a second and
 * not in its first two seconds: "mrail VERB: DONE of TOTAL WHAT". With done ==
 * total it removes the line. Not thread-safe. */
void mrail_tool_progress(const char *verb, unsigned done, unsigned total,
                         const char *what);

/* Folder of the running program, without links; "." if it cannot be read. */
void mrail_tool_own_dir(char *dir, size_t size);

/* Maps `target`, a configured path, into a tree that was moved or staged as a
 * whole. A program of the configured folder `configured` now is in `own_dir`.
 * The parts that the two configured paths do not share stay as they are. 0;
 * -ENOENT: own_dir does not end as `configured` does, or the path is too
 * long. */
int mrail_tool_moved(const char *own_dir, const char *configured,
                     const char *target, char *path, size_t size);

/* Absolute path of a file of the installation that the running program belongs
 * to: mrail_tool_moved() if it exists there, else `target` as configured. */
void mrail_tool_installed(const char *target, char *path, size_t size);

#endif
