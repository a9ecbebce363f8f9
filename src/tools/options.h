/*
 * Command-line options as a table, from which the parser, the --help text and
 * the completions for bash and zsh are derived.
 *
 * Every command has -h, --help and --version. The value of an option is the
 * next word, or follows '='. On an unknown option or a missing or invalid
 * value, the process exits with a message and status 2.
 */
#ifndef MRAIL_TOOLS_OPTIONS_H
#define MRAIL_TOOLS_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* How to parse a value, and the C type of the field that receives it. */
typedef enum mrail_option_type {
    MRAIL_OPTION_FLAG,     /* int: set to 1 */
    MRAIL_OPTION_TEXT,     /* const char *: the word itself */
    MRAIL_OPTION_UNSIGNED, /* unsigned, min to max */
    MRAIL_OPTION_UINT64,   /* uint64_t, min to max */
    MRAIL_OPTION_SIZE,     /* uint64_t, bytes up to max */
    /* uint32_t, a fraction in millionths, at least min */
    MRAIL_OPTION_PPM,
    MRAIL_OPTION_SECONDS, /* double, min to max milliseconds */
    MRAIL_OPTION_CHOICE,  /* unsigned: index into the words of `value` */
    MRAIL_OPTION_CALL,    /* func() parses the value */
    MRAIL_OPTION_HEADING, /* a heading in the help text instead of an option */
} mrail_option_type_t;

/* `value` is NULL if an optional value was omitted. The function must report an
 * invalid value with mrail_tool_usage(). */
typedef void (*mrail_option_func_t)(void *target, const char *value);

typedef struct mrail_option {
    /* Names with their dashes, separated by '|'. The help text shows the first
     * name. */
    const char *names;
    /* Name of the value in the help text: "N", "FILE", or "a|b|c" for a choice.
     * "[=LIST]" is an optional value, which must follow '='. NULL if the option
     * has no value. */
    const char *value;
    const char *help; /* wrapped when printed; NULL hides the option */
    mrail_option_type_t type;
    size_t offset; /* offset of the field in the target */
    uint64_t min, max;
    mrail_option_func_t func;
} mrail_option_t;

typedef struct mrail_command {
    const char *name;              /* such as "run" or "soft ctl" */
    const char *const *synopsis;   /* without "mrail COMMAND"; the last element
                                    * is NULL */
    const char *about;             /* text before the options */
    const mrail_option_t *options; /* the last row has neither type nor names */
    const char *epilog;            /* text after the options, or NULL */
    /* prints text between options and epilog, or NULL */
    void (*more)(FILE *stream);

    /* Called if the word at argv[0] is not an option in the table. Returns the
     * number of words that it consumed. If this is 0, an option is a usage
     * error, and any other word starts the operands. NULL has the same effect
     * as a function that always returns 0. */
    unsigned (*other)(void *target, char **argv);

    /* Called with the words of each parsed option. May be NULL. */
    void (*took)(void *target, const mrail_option_t *option, char *const *words,
                 unsigned num);

    int operands; /* 1 if operands are allowed; otherwise they are a usage
                   * error */
} mrail_command_t;

/* Parses the words from argv[1] on into `target`. Returns the index in argv of
 * the first operand (after "--", if present), or of the final NULL. */
int mrail_options_parse(const mrail_command_t *command, char **argv,
                        void *target);

/* Prints a row of a help text: a name and its wrapped explanation. */
void mrail_options_row(FILE *stream, const char *name, const char *help);

/* Prints the help text of --help. */
void mrail_options_help(const mrail_command_t *command, FILE *stream);

#endif
