#include "config.h"
#include "tools/options.h"

#include "base/util.h"
#include "base/number.h"
#include "tools/tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_COLUMNS 79
#define HELP_COLUMN 22 /* column of the explanations */
/* an option for shell completion that the help text does not show */
#define LIST_OPTIONS "--list-options"

static const mrail_option_t common[] = {
    {.names = "-h|--help", .help = "print this text and exit"},
    {.names = "--version", .help = "print the version and exit"},
    {.names = NULL}};

/* ---- Names ---- */

/* Returns 1 if `word` is one of the names, apart from "=VALUE" at its end. */
static int is_named(const char *names, const char *word)
{
    size_t length = strcspn(word, "=");

    for (const char *p = names; p != NULL; p = strchr(p, '|')) {
        p += (*p == '|');
        if (strcspn(p, "|") == length && strncmp(p, word, length) == 0) {
            return 1;
        }
    }
    return 0;
}

static int is_end(const mrail_option_t *option)
{
    return option->names == NULL && option->type != MRAIL_OPTION_HEADING;
}

static const mrail_option_t *find(const mrail_option_t *options,
                                  const char *word)
{
    for (const mrail_option_t *o = options; !is_end(o); ++o) {
        if (is_named(o->names, word)) {
            return o;
        }
    }
    return NULL;
}

static int is_optional(const mrail_option_t *option)
{
    return option->value != NULL && option->value[0] == '[';
}

/* ---- Help ---- */

/* Prints words from `column` on, wrapped. '\n' starts a new line. `at` is the
 * current column. */
static void print_wrapped(FILE *stream, const char *text, size_t at,
                          size_t column)
{
    while (*text != '\0') {
        size_t length = strcspn(text, " \n");

        if (at > column && at + 1 + length > TEXT_COLUMNS) {
            fprintf(stream, "\n%*s", (int)column, "");
            at = column;
        } else if (at < column) {
            fprintf(stream, "%*s", (int)(column - at), "");
            at = column;
        } else if (at > column) {
            fputc(' ', stream);
            ++at;
        }
        fwrite(text, 1, length, stream);
        at += length;
        text += length;
        if (*text == '\n') {
            fprintf(stream, "\n%*s", (int)column, "");
            at = column;
        }
        text += (*text != '\0');
    }
    fputc('\n', stream);
}

void mrail_options_row(FILE *stream, const char *name, const char *help)
{
    int length = fprintf(stream, "  %s", name);

    if (length > HELP_COLUMN - 2) {
        fputc('\n', stream);
        length = 0;
    }
    print_wrapped(stream, help, (size_t)length, HELP_COLUMN);
}

static void print_option(FILE *stream, const mrail_option_t *option)
{
    const char *value = (option->value != NULL) ? option->value : "";
    size_t first = strcspn(option->names, "|");
    char name[80];

    /* If an option has a short and a long name, show both. */
    snprintf(name, sizeof(name), "%.*s%s%s%s%s", (int)first, option->names,
             (first == 2) ? ", " : "",
             (first == 2) ? option->names + first + 1 : "",
             (*value == '\0' || *value == '[') ? "" : " ", value);
    mrail_options_row(stream, name, option->help);
}

static void print_options(FILE *stream, const mrail_option_t *options)
{
    for (const mrail_option_t *o = options; !is_end(o); ++o) {
        if (o->type == MRAIL_OPTION_HEADING) {
            fprintf(stream, "%s\n", o->help);
        } else if (o->help != NULL) {
            print_option(stream, o);
        }
    }
}

void mrail_options_help(const mrail_command_t *command, FILE *stream)
{
    for (unsigned i = 0; command->synopsis[i] != NULL; ++i) {
        fprintf(stream, "%s mrail %s%s%s\n", (i == 0) ? "Usage:" : "      ",
                command->name, (*command->synopsis[i] != '\0') ? " " : "",
                command->synopsis[i]);
    }
    fprintf(stream, "\n%s\n", command->about);
    print_options(stream, command->options);
    print_options(stream, common);
    if (command->more != NULL) {
        command->more(stream);
    }
    if (command->epilog != NULL) {
        fprintf(stream, "\n%s", command->epilog);
    }
}

/* Prints "NAMES<tab>VALUE<tab>HELP" for each option that the help text
 * shows. */
static void list_options(const mrail_option_t *options)
{
    for (const mrail_option_t *o = options; !is_end(o); ++o) {
        if (o->type != MRAIL_OPTION_HEADING && o->help != NULL) {
            printf("%s\t%s\t%.*s\n", o->names,
                   (o->value != NULL) ? o->value : "",
                   (int)strcspn(o->help, "\n"), o->help);
        }
    }
}

static _Noreturn void print_and_exit(const mrail_command_t *command,
                                     const char *word)
{
    if (strcmp(word, "--version") == 0) {
        puts(PACKAGE_STRING);
    } else if (strcmp(word, LIST_OPTIONS) == 0) {
        list_options(command->options);
        list_options(common);
    } else {
        mrail_options_help(command, stdout);
    }
    exit((fflush(stdout) == 0) ? 0 : MRAIL_TOOL_FAILED);
}

/* ---- Values ---- */

static void *field_of(const mrail_option_t *option, void *target)
{
    return (char *)target + option->offset;
}

static void set_uint(const mrail_command_t *command,
                     const mrail_option_t *option, const char *name,
                     const char *text, void *target)
{
    uint64_t value;

    if (mrail_number_uint(text, option->min, option->max, &value) != 0) {
        mrail_tool_usage(command->name,
                         "%s %s: expected a number from %" PRIu64
                         " to %" PRIu64,
                         name, text, option->min, option->max);
    }
    if (option->type == MRAIL_OPTION_UNSIGNED) {
        *(unsigned *)field_of(option, target) = (unsigned)value;
    } else {
        *(uint64_t *)field_of(option, target) = value;
    }
}

static void set_size(const mrail_command_t *command,
                     const mrail_option_t *option, const char *name,
                     const char *text, void *target)
{
    int ret = mrail_number_size(text, option->max, field_of(option, target));

    if (ret == -ERANGE) {
        mrail_tool_usage(command->name,
                         "%s %s: expected at most %" PRIu64 " bytes", name,
                         text, option->max);
    }
    if (ret != 0) {
        mrail_tool_usage(command->name,
                         "%s %s: expected bytes: digits, then k, m or g "
                         "(KiB, MiB, GiB)",
                         name, text);
    }
}

static void set_ppm(const mrail_command_t *command,
                    const mrail_option_t *option, const char *name,
                    const char *text, void *target)
{
    uint32_t ppm;

    if (mrail_number_ppm(text, &ppm) != 0 || ppm < option->min) {
        mrail_tool_usage(command->name,
                         "%s %s: expected a fraction from %g to 1 with at most "
                         "six decimals",
                         name, text, (double)option->min * 1e-6);
    }
    *(uint32_t *)field_of(option, target) = ppm;
}

static void set_seconds(const mrail_command_t *command,
                        const mrail_option_t *option, const char *name,
                        const char *text, void *target)
{
    double min = (double)option->min / 1e3, max = (double)option->max / 1e3;

    if (mrail_number_seconds(text, min, max, field_of(option, target)) != 0) {
        mrail_tool_usage(command->name,
                         "%s %s: expected a time from %g to %g seconds, such "
                         "as 2, 0.5 or 500ms",
                         name, text, min, max);
    }
}

static void set_choice(const mrail_command_t *command,
                       const mrail_option_t *option, const char *name,
                       const char *text, void *target)
{
    unsigned index = 0;

    for (const char *p = option->value;; ++index) {
        size_t length = strcspn(p, "|");

        if (strlen(text) == length && strncmp(p, text, length) == 0) {
            *(unsigned *)field_of(option, target) = index;
            return;
        }
        p += length;
        if (*p++ == '\0') {
            break;
        }
    }
    mrail_tool_usage(command->name, "%s %s: expected one of %s", name, text,
                     option->value);
}

static void set_value(const mrail_command_t *command,
                      const mrail_option_t *option, const char *name,
                      const char *value, void *target)
{
    switch (option->type) {
    case MRAIL_OPTION_FLAG:
        *(int *)field_of(option, target) = 1;
        break;
    case MRAIL_OPTION_TEXT:
        *(const char **)field_of(option, target) = value;
        break;
    case MRAIL_OPTION_UNSIGNED:
    case MRAIL_OPTION_UINT64:
        set_uint(command, option, name, value, target);
        break;
    case MRAIL_OPTION_SIZE:
        set_size(command, option, name, value, target);
        break;
    case MRAIL_OPTION_PPM:
        set_ppm(command, option, name, value, target);
        break;
    case MRAIL_OPTION_SECONDS:
        set_seconds(command, option, name, value, target);
        break;
    case MRAIL_OPTION_CHOICE:
        set_choice(command, option, name, value, target);
        break;
    case MRAIL_OPTION_CALL:
        option->func(target, value);
        break;
    case MRAIL_OPTION_HEADING:
        break;
    }
}

/* ---- Words ---- */

/* Returns the option's value, from argv[0] or argv[1]. *taken_p receives the
 * number of words that were used. */
static const char *value_of(const mrail_command_t *command,
                            const mrail_option_t *option, char **argv,
                            unsigned *taken_p)
{
    const char *equals = strchr(argv[0], '=');
    size_t length = strcspn(argv[0], "=");

    *taken_p = 1;
    if (option->value == NULL) {
        if (equals != NULL) {
            mrail_tool_usage(command->name, "%.*s does not take a value",
                             (int)length, argv[0]);
        }
        return NULL;
    }
    if (equals != NULL || is_optional(option)) {
        return (equals != NULL) ? equals + 1 : NULL;
    }
    if (argv[1] == NULL || strcmp(argv[1], "--") == 0) {
        mrail_tool_usage(command->name, "%s requires a value: %s %s", argv[0],
                         argv[0], option->value);
    }
    *taken_p = 2;
    return argv[1];
}

/* Parses the option at argv[0] and returns the number of words used, or 0 if
 * the table has no such option. */
static unsigned take_option(const mrail_command_t *command, char **argv,
                            void *target)
{
    const mrail_option_t *option = find(command->options, argv[0]);
    size_t length = strcspn(argv[0], "=");
    const char *value;
    unsigned taken;
    char name[64];

    if (option == NULL) {
        return 0;
    }
    value = value_of(command, option, argv, &taken);
    snprintf(name, sizeof(name), "%.*s", (int)length, argv[0]);
    set_value(command, option, name, value, target);
    if (command->took != NULL) {
        command->took(target, option, argv, taken);
    }
    return taken;
}

int mrail_options_parse(const mrail_command_t *command, char **argv,
                        void *target)
{
    int i = 1;

    while (argv[i] != NULL && strcmp(argv[i], "--") != 0) {
        int is_option = argv[i][0] == '-' && argv[i][1] != '\0';
        unsigned taken;

        if (find(common, argv[i]) != NULL ||
            strcmp(argv[i], LIST_OPTIONS) == 0) {
            print_and_exit(command, argv[i]);
        }
        taken = is_option ? take_option(command, argv + i, target) : 0;
        if (taken == 0 && command->other != NULL) {
            taken = command->other(target, argv + i);
        }
        if (taken == 0 && is_option) {
            mrail_tool_usage(command->name, "unknown option '%s'", argv[i]);
        }
        if (taken == 0) {
            break;
        }
        i += (int)taken;
    }
    i += (argv[i] != NULL && strcmp(argv[i], "--") == 0);
    if (argv[i] != NULL && !command->operands) {
        mrail_tool_usage(command->name, "unknown argument '%s'", argv[i]);
    }
    return i;
}
