#include "config.h"
#include "tools/tool.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Noreturn void out_of_memory(void)
{
    fputs("mrail: out of memory\n", stderr);
    exit(MRAIL_TOOL_FAILED);
}

void mrail_tool_args_add(mrail_tool_args_t *args, const char *word)
{
    char **items = realloc(args->items, (args->count + 2) * sizeof(*items));
    char *copy = strdup(word);

    if (items == NULL || copy == NULL) {
        out_of_memory();
    }
    args->items = items;
    args->items[args->count++] = copy;
    args->items[args->count] = NULL;
}

void mrail_tool_args_addf(mrail_tool_args_t *args, const char *fmt, ...)
{
    char *word;
    va_list ap;
    int length;

    va_start(ap, fmt);
    length = vasprintf(&word, fmt, ap);
    va_end(ap);
    if (length < 0) {
        out_of_memory();
    }
    mrail_tool_args_add(args, word);
    free(word);
}

void mrail_tool_args_cleanup(mrail_tool_args_t *args)
{
    for (unsigned i = 0; i < args->count; ++i) {
        free(args->items[i]);
    }
    free(args->items);
    args->items = NULL;
    args->count = 0;
}

static void print_quoted(const char *word, FILE *stream)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_-+=/.,:^%@";

    if (*word != '\0' && strspn(word, plain) == strlen(word)) {
        fputs(word, stream);
        return;
    }
    fputc('\'', stream);
    for (; *word != '\0'; ++word) {
        if (*word == '\'') {
            fputs("'\\''", stream);
        } else {
            fputc(*word, stream);
        }
    }
    fputc('\'', stream);
}

void mrail_tool_args_print(const mrail_tool_args_t *args, FILE *stream)
{
    for (unsigned i = 0; i < args->count; ++i) {
        if (i > 0) {
            fputc(' ', stream);
        }
        print_quoted(args->items[i], stream);
    }
    fputc('\n', stream);
}

void mrail_tool_usage(const char *verb, const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "mrail %s: ", verb);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\nTry: mrail %s --help\n", verb);
    exit(MRAIL_TOOL_USAGE);
}

void mrail_tool_fail(const char *verb, const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "mrail %s: ", verb);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(MRAIL_TOOL_FAILED);
}

/* Digits at *text_p into *value_p; moves *text_p behind them. */
static int parse_digits(const char **text_p, uint64_t *value_p)
{
    const char *text = *text_p;
    uint64_t value = 0;

    if (!isdigit((unsigned char)*text)) {
        return -EINVAL;
    }
    for (; isdigit((unsigned char)*text); ++text) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value)) {
            return -ERANGE;
        }
    }
    *text_p = text;
    *value_p = value;
    return 0;
}

int mrail_tool_parse_uint(const char *text, uint64_t min, uint64_t max,
                          uint64_t *value_p)
{
    uint64_t value;
    int ret = parse_digits(&text, &value);

    if (ret < 0) {
        return ret;
    }
    if (*text != '\0') {
        return -EINVAL;
    }
    if (value < min || value > max) {
        return -ERANGE;
    }
    *value_p = value;
    return 0;
}

int mrail_tool_parse_size(const char *text, uint64_t max, uint64_t *value_p)
{
    uint64_t value;
    unsigned shift = 0;
    int ret = parse_digits(&text, &value);

    if (ret < 0) {
        return ret;
    }
    switch (tolower((unsigned char)*text)) {
    case 'g':
        shift += 10; /* fall through */
    case 'm':
        shift += 10; /* fall through */
    case 'k':
        shift += 10;
        ++text;
        break;
    default:
        break;
    }
    if (*text != '\0') {
        return -EINVAL;
    }
    if (value > (max >> shift)) {
        return -ERANGE;
    }
    *value_p = value << shift;
    return 0;
}

int mrail_tool_parse_ppm(const char *text, uint32_t *ppm_p)
{
    uint64_t whole = 0;
    uint32_t ppm = 0;
    uint32_t unit = 100000;

    if (*text == '.' ? !isdigit((unsigned char)text[1])
                     : parse_digits(&text, &whole) < 0) {
        return -EINVAL;
    }
    if (*text == '.') {
        for (++text; isdigit((unsigned char)*text) && unit > 0; ++text) {
            ppm += (uint32_t)(*text - '0') * unit;
            unit /= 10;
        }
    }
    if (*text != '\0') {
        return -EINVAL;
    }
    if (whole > 1 || (whole == 1 && ppm > 0)) {
        return -ERANGE;
    }
    *ppm_p = ppm + (uint32_t)whole * 1000000;
    return 0;
}

void mrail_tool_own_dir(char *dir, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", dir, size - 1);
    char *slash;

    if (length > 0) {
        dir[length] = '\0';
        slash = strrchr(dir, '/');
        if (slash != NULL) {
            *slash = '\0';
            return;
        }
    }
    snprintf(dir, size, ".");
}

/* 1 if `dir` ended in `tail`, which is cut off then. */
static int cut_tail(char *dir, const char *tail)
{
    size_t dir_length = strlen(dir);
    size_t length = strlen(tail);

    if (dir_length <= length || strcmp(dir + dir_length - length, tail) != 0) {
        return 0;
    }
    dir[dir_length - length] = '\0';
    return 1;
}

void mrail_tool_installed(const char *relative, const char *fallback,
                          char *path, size_t size)
{
    char dir[MRAIL_TOOL_PATH_MAX];

    mrail_tool_own_dir(dir, sizeof(dir));
    if (cut_tail(dir, "/bin") || cut_tail(dir, "/libexec/mrail")) {
        int length = snprintf(path, size, "%s/%s", dir, relative);

        if (length > 0 && (size_t)length < size && access(path, F_OK) == 0) {
            return;
        }
    }
    snprintf(path, size, "%s", fallback);
}

void mrail_tool_json_string(FILE *stream, const char *text)
{
    fputc('"', stream);
    for (; *text != '\0'; ++text) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\') {
            fprintf(stream, "\\%c", c);
        } else if (c < 0x20) {
            fprintf(stream, "\\u%04x", c);
        } else {
            fputc(c, stream);
        }
    }
    fputc('"', stream);
}

const char mrail_tool_no_value[] = "";

const char *mrail_tool_option(char **argv, int *i_p, const char *name)
{
    size_t length = strlen(name);
    const char *word = argv[*i_p];

    if (strncmp(word, name, length) != 0) {
        return NULL;
    }
    if (word[length] == '=') {
        return word + length + 1;
    }
    if (word[length] != '\0') {
        return NULL;
    }
    if (argv[*i_p + 1] == NULL) {
        return mrail_tool_no_value;
    }
    return argv[++*i_p];
}

int mrail_tool_is_help(const char *word)
{
    return strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0;
}

void mrail_tool_version(const char *word)
{
    if (strcmp(word, "--version") == 0) {
        puts(PACKAGE_STRING);
        exit(0);
    }
}
