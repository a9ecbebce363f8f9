/*
 * The options of a verb as one table, which gives the parser, the text of
 * --help, and the list that the completions of bash and zsh read.
 *
 * Every verb has -h, --help and --version. An option's value is the next word or
 * follows '='. A value that is missing or wrong, and an unknown option, end the
 * process with a message and status 2.
 */
#ifndef MRAIL_TOOLS_OPTIONS_H
#define MRAIL_TOOLS_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* How a value is read, and the C type of the field that it is written to. */
typedef enum mrail_option_type {
    MRAIL_OPTION_FLAG,     /* int: 1 */
    MRAIL_OPTION_TEXT,     /* const char *: the word itself */
    MRAIL_OPTION_UNSIGNED, /* unsigned, min to max */
    MRAIL_OPTION_UINT64,   /* uint64_t, min to max */
    MRAIL_OPTION_SIZE,     /* uint64_t, bytes up to max */
    MRAIL_OPTION_PPM,      /* uint32_t, a fraction in millionths from min on */
    MRAIL_OPTION_SECONDS,  /* double, min to max milliseconds */
    MRAIL_OPTION_CHOICE,   /* unsigned: index into the words of `value` */
    MRAIL_OPTION_CALL,     /* func() reads it */
    MRAIL_OPTION_HEADING,  /* no option: a line of the help text */
} mrail_option_type_t;

/* `value` is NULL for an optional one that was not given. Refuses a wrong value by
 * mrail_tool_usage(). */
typedef void (*mrail_option_func_t)(void *target, const char *value);

typedef struct mrail_option {
    /* With the dashes; several with '|' between them: help shows the first. */
    const char *names;
    /* The value's name in the help text: "N", "FILE", "a|b|c" of a choice,
     * "[=LIST]" if it may be left out and then only follows '='. NULL: none. */
    const char *value;
    const char *help; /* wrapped when printed; NULL: hidden */
    mrail_option_type_t type;
    size_t offset; /* of the field in the target */
    uint64_t min, max;
    mrail_option_func_t func;
} mrail_option_t;

typedef struct mrail_command {
    const char *verb;              /* "run", "soft ctl" */
    const char *const *synopsis;   /* without "mrail VERB"; ends with NULL */
    const char *about;             /* lines before the options */
    const mrail_option_t *options; /* ends with a row without type and names */
    const char *epilog;            /* lines after them, or NULL */
    void (*more)(FILE *stream); /* prints between options and epilog, or NULL */

    /* A word that is not an option of the table, in argv[0]: takes it and words
     * after it. How many it took; 0: they are operands (a word) or a usage error
     * (an option). NULL: always 0. */
    unsigned (*other)(void *target, char **argv);

    /* Called with the words of each option of the table that was read; NULL: not
     * called. */
    void (*took)(void *target, const mrail_option_t *option, char *const *words,
                 unsigned num);

    int operands; /* 1: words may be left over; 0: that is a usage error */
} mrail_command_t;

/* Reads argv[1] and further words into `target`. The index in argv of the first
 * operand, behind "--" if that is there; of the final NULL if there is none. */
int mrail_options_parse(const mrail_command_t *command, char **argv,
                        void *target);

/* A row of a help text: a name and its explanation, wrapped. */
void mrail_options_row(FILE *stream, const char *name, const char *help);

/* The help text, as --help prints it. */
void mrail_options_help(const mrail_command_t *command, FILE *stream);

#endif
