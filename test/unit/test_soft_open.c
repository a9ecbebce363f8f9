/* Tests the replacements for libc's open(), which pass on the mode only if the
 * call may create a file. dlsym() is wrapped and returns functions of this
 * test. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "softroce/host/host.h"

sroce_host_proc_t sroce_host;
static mode_t mode_seen;

int sroce_host_enabled(void)
{
    return 0;
}

static int record_openat(int dir, const char *path, int flags, ...)
{
    va_list ap;

    va_start(ap, flags); /* fakefs.c always passes a mode */
    mode_seen = va_arg(ap, mode_t);
    va_end(ap);
    return (int)syscall(SYS_openat, dir, path, flags, mode_seen);
}

static int record_open(const char *path, int flags, ...)
{
    va_list ap;

    va_start(ap, flags);
    mode_seen = va_arg(ap, mode_t);
    va_end(ap);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode_seen);
}

void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name);

void *__wrap_dlsym(void *handle, const char *name)
{
    if (strcmp(name, "openat") == 0) {
        return (void *)record_openat;
    }
    return (strncmp(name, "open", 4) == 0) ? (void *)record_open
                                           : __real_dlsym(handle, name);
}

/* Calls open() with an arbitrary value in the register of the third
 * argument. */
static mode_t mode_of(int flags)
{
    int (*volatile plain)(const char *, int, ...) = open;
    int (*volatile large)(const char *, int, ...) = open64;
    int (*volatile at)(int, const char *, int, ...) = openat;
    mode_t modes[3];
    int fd;

    mode_seen = 07777;
    fd = plain("/tmp", flags, (mode_t)0640);
    modes[0] = mode_seen;
    close(fd);
    mode_seen = 07777;
    fd = large("/tmp", flags, (mode_t)0640);
    modes[1] = mode_seen;
    close(fd);
    mode_seen = 07777;
    fd = at(AT_FDCWD, "/tmp", flags, (mode_t)0640);
    modes[2] = mode_seen;
    close(fd);
    assert_int_equal(modes[0], modes[1]);
    assert_int_equal(modes[0], modes[2]);
    return modes[0];
}

static void test_mode(void **state)
{
    assert_int_equal(mode_of(O_RDWR | O_TMPFILE), 0640);
    /* The path is a directory, so the call fails. */
    assert_int_equal(mode_of(O_RDWR | O_CREAT), 0640);
}

static void test_no_mode(void **state)
{
    assert_int_equal(mode_of(O_RDONLY), 0);
    assert_int_equal(mode_of(O_RDONLY | O_DIRECTORY), 0);
    assert_int_equal(mode_of(O_RDONLY | O_DIRECTORY | O_CLOEXEC), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mode),
        cmocka_unit_test(test_no_mode),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
