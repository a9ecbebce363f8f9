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

int mrail_tool_moved(const char *own_dir, const char *configured,
                     const char *target, char *path, size_t size)
{
    const char *last = strrchr(configured, '/');
    size_t same = 0, tail, own = strlen(own_dir);
    int length;

    /* The folders that both configured paths share, but never all of
     * `configured`: its last folder shows that the tree is an installation. */
    for (size_t i = 0;
         last != NULL && configured + i <= last && configured[i] == target[i];
         ++i) {
        same = (configured[i] == '/') ? i : same;
    }
    tail = strlen(configured + same);
    if (own < tail || strcmp(own_dir + own - tail, configured + same) != 0) {
        return -ENOENT;
    }
    length = snprintf(path, size, "%.*s%s", (int)(own - tail), own_dir,
                      target + same);
    return (length > 0 && (size_t)length < size) ? 0 : -ENOENT;
}

void mrail_tool_installed(const char *target, char *path, size_t size)
{
    static const char *const places[] = {MRAIL_BINDIR, MRAIL_PKGLIBEXECDIR};
    char dir[MRAIL_TOOL_PATH_MAX];

    mrail_tool_own_dir(dir, sizeof(dir));
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(places); ++i) {
        if (mrail_tool_moved(dir, places[i], target, path, size) == 0 &&
            access(path, F_OK) == 0) {
            return;
        }
    }
    snprintf(path, size, "%s", target);
}

/* Bytes of the UTF-8 character (RFC 3629) at `text`; 0: it is none. */
static size_t utf8_length(const unsigned char *text)
{
    /* By first byte: the range of the second one, and how many there are. */
    static const struct {
        unsigned char first, last, low, high;
        size_t length;
    } forms[] = {{0x00, 0x7f, 0x00, 0xff, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2},
                 {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
                 {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
                 {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
                 {0xf4, 0xf4, 0x80, 0x8f, 4}};
    unsigned f = 0;

    while (text[0] < forms[f].first || text[0] > forms[f].last) {
        if (++f == MRAIL_ARRAY_SIZE(forms)) {
            return 0;
        }
    }
    if (forms[f].length == 1) {
        return 1;
    }
    if (text[1] < forms[f].low || text[1] > forms[f].high) {
        return 0;
    }
    for (size_t i = 2; i < forms[f].length; ++i) {
        if (text[i] < 0x80 || text[i] > 0xbf) {
            return 0;
        }
    }
    return forms[f].length;
}

void mrail_tool_json_string(FILE *stream, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;

    fputc('"', stream);
    while (*p != '\0') {
        size_t length = utf8_length(p);

        if (length == 0) {
            fputs("\\ufffd", stream);
            length = 1;
        } else if (*p == '"' || *p == '\\') {
            fprintf(stream, "\\%c", *p);
        } else if (*p < 0x20) {
            fprintf(stream, "\\u%04x", *p);
        } else {
            fwrite(p, 1, length, stream);
        }
        p += length;
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
