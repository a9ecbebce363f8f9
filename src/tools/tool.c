#include "config.h"
#include "tools/tool.h"

#include "base/clock.h"

#include <errno.h>
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

void mrail_tool_usage(const char *command, const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "mrail %s: ", command);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\nTry: mrail %s --help\n", command);
    exit(MRAIL_TOOL_USAGE);
}

void mrail_tool_fail(const char *command, const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "mrail %s: ", command);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(MRAIL_TOOL_FAILED);
}

void mrail_tool_progress(const char *command, unsigned done, unsigned total,
                         const char *what)
{
    static mrail_ns_t next_ns;
    static int is_shown;
    mrail_ns_t now_ns = mrail_clock_now();

    if (next_ns == 0) {
        next_ns = now_ns + 2 * MRAIL_NS_PER_SEC;
    }
    if (done == total) {
        fputs(is_shown ? "\r\033[K" : "", stderr);
        next_ns = 0;
        is_shown = 0;
    } else if (now_ns >= next_ns && isatty(STDERR_FILENO)) {
        fprintf(stderr, "\rmrail %s: %u of %u %s", command, done, total, what);
        next_ns = now_ns + MRAIL_NS_PER_SEC;
        is_shown = 1;
    }
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

    /* Find the directories that both configured paths share, but never all of
     * `configured`: its last directory proves that the tree is an
     * installation. */
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

/* ---- Files ---- */

const char *mrail_tool_file_name(const char *path)
{
    return (strcmp(path, "-") == 0) ? "stdin" : path;
}

/* Reads the rest of a stream, up to slightly more than the limit, and appends a
 * NUL byte. Returns NULL if memory runs out. */
static char *read_stream(FILE *file, size_t max, size_t *length_p)
{
    size_t capacity = 65536, length = 0, got = 1;
    char *text = malloc(capacity);

    while (text != NULL && got > 0 && length <= max) {
        got = fread(text + length, 1, capacity - length - 1, file);
        length += got;
        if (length == capacity - 1) {
            char *larger = realloc(text, 2 * capacity);

            if (larger == NULL) {
                free(text);
            }
            text = larger;
            capacity *= 2;
        }
    }
    if (text != NULL) {
        text[length] = '\0';
    }
    *length_p = length;
    return text;
}

char *mrail_tool_read(const char *command, const char *path, size_t max,
                      size_t *length_p)
{
    FILE *file = (strcmp(path, "-") == 0) ? stdin : fopen(path, "re");
    char *text;
    int error;

    if (file == NULL) {
        mrail_tool_usage(command, "%s: %s", path, strerror(errno));
    }
    errno = 0;
    text = read_stream(file, max, length_p);
    error = ferror(file) ? errno : 0;
    if (file != stdin) {
        fclose(file);
    }
    if (error != 0) {
        free(text);
        mrail_tool_usage(command, "%s: %s", mrail_tool_file_name(path),
                         strerror(error));
    }
    if (text == NULL) {
        mrail_tool_fail(command, "%s: out of memory",
                        mrail_tool_file_name(path));
    }
    return text;
}
