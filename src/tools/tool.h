/*
 * Shared by the verbs of `mrail`: argument lists, numbers from the command
 * line, places of the installation, JSON strings. Tools only: functions may
 * print to stderr and end the process with status 1 (failure) or 2 (usage).
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

/* A list of words, ended by NULL, as execv() takes it.  Zero-initialised is
 * empty.  Words are copied.  Running out of memory ends the process. */
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

/* Decimal digits only, min <= value <= max: 0, or -EINVAL (not a number) or
 * -ERANGE with *value_p untouched. */
int mrail_tool_parse_uint(const char *text, uint64_t min, uint64_t max,
                          uint64_t *value_p);

/* Bytes: digits and an optional k, m or g (powers of 1024, any case).  Errors
 * as above. */
int mrail_tool_parse_size(const char *text, uint64_t max, uint64_t *value_p);

/* A fraction from 0 to 1, "0.7", exactly, in millionths: digits, at most six
 * of them after the point.  Errors as above. */
int mrail_tool_parse_ppm(const char *text, uint32_t *ppm_p);

/* Folder of the running program, without links; "." if it cannot be read. */
void mrail_tool_own_dir(char *dir, size_t size);

/* `target`, a configured path, in a tree that was moved or staged as a whole:
 * a program of the folder `configured` now is in `own_dir`.  The parts that the
 * two configured paths do not share stay as they are.  0; -ENOENT: own_dir does
 * not end as `configured` does, or the path is too long. */
int mrail_tool_moved(const char *own_dir, const char *configured,
                     const char *target, char *path, size_t size);

/* Absolute path of a file of the installation that the running program belongs
 * to: mrail_tool_moved() if it exists there, else `target` as configured. */
void mrail_tool_installed(const char *target, char *path, size_t size);

/* A JSON string with its quotes; U+FFFD for each byte that is not UTF-8. */
void mrail_tool_json_string(FILE *stream, const char *text);

/* 1 if the word is -h or --help. */
int mrail_tool_is_help(const char *word);

/* If the word is --version, prints it and ends the process. */
void mrail_tool_version(const char *word);

/* Stands for the value of an option that is the last word. */
extern const char mrail_tool_no_value[];

/* The value of option `name` (with its dashes) at argv[*i_p]: behind '=', or the
 * next word, and then *i_p moves there.  mrail_tool_no_value: the option is the
 * last word.  NULL: argv[*i_p] is not this option. */
const char *mrail_tool_option(char **argv, int *i_p, const char *name);

#endif
