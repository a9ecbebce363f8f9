#include "config.h"
#include "tools/collect_write.h"

#include "tools/collect_tar.h"
#include "tools/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The name of the unfinished file, for the signal handler. */
static char temporary[MRAIL_TOOL_PATH_MAX];

static void on_signal(int number)
{
    unlink(temporary);
    signal(number, SIG_DFL);
    raise(number);
}

static void handle_signals(void (*handler)(int number))
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(numbers); ++i) {
        signal(numbers[i], handler);
    }
}

static int has_end(const char *path, const char *end)
{
    size_t length = strlen(path), end_length = strlen(end);

    return (length > end_length) &&
           (strcmp(path + length - end_length, end) == 0);
}

_Noreturn static void fail(const char *command, const char *path,
                           const char *reason)
{
    if (temporary[0] != '\0') {
        unlink(temporary);
    }
    mrail_tool_fail(command, "cannot write %s: %s", path, reason);
}

static int open_temporary(const char *command, const char *path)
{
    int fd, length = snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path);

    if ((length < 0) || ((size_t)length >= sizeof(temporary))) {
        temporary[0] = '\0';
        fail(command, path, strerror(ENAMETOOLONG));
    }
    fd = mkostemp(temporary, O_CLOEXEC); /* its mode is 0600 */
    if (fd < 0) {
        int number = errno;

        temporary[0] = '\0';
        fail(command, path, strerror(number));
    }
    handle_signals(on_signal);
    return fd;
}

uint64_t collect_write_file(const char *command, const char *path,
                            const collect_manifest_t *manifest)
{
    int gzip = has_end(path, ".gz") || has_end(path, ".tgz");
    char error[COLLECT_ERROR];
    struct stat st = {.st_size = 0};
    int fd;

    if (strcmp(path, "-") == 0) {
        if (collect_tar_write(STDOUT_FILENO, 0, manifest, error) != 0) {
            fail(command, "stdout", error);
        }
        return 0;
    }
    fd = open_temporary(command, path);
    if (collect_tar_write(fd, gzip, manifest, error) != 0) {
        fail(command, path, error);
    }
    if ((fstat(fd, &st) != 0) || (close(fd) != 0) ||
        (rename(temporary, path) != 0)) {
        fail(command, path, strerror(errno));
    }
    handle_signals(SIG_DFL);
    temporary[0] = '\0';
    return (uint64_t)st.st_size;
}
