/*
 * Emulates the files that programs access directly instead of through
 * libibverbs. UCX's InfiniBand module opens the character device
 * /dev/infiniband/uverbsN. From sysfs, it reads the type and network device of
 * each GID; without the type, it assumes RoCE version 1.
 *
 * UCX also looks for the sysfs file with the version of nvidia-peermem. Only
 * these paths are emulated, and only in a session. All others go to libc.
 */
#include "config.h"
#include "softroce/host/host.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define FAKEFS_UVERBS_MAJOR 231

#define FAKEFS_REAL(_type, _name)                                              \
    ({                                                                         \
        static _type real_func;                                                \
        if (real_func == NULL) {                                               \
            real_func = (_type)dlsym(RTLD_NEXT, _name);                        \
        }                                                                      \
        real_func;                                                             \
    })

typedef int (*fakefs_stat_func_t)(const char *, struct stat *);
typedef int (*fakefs_xstat_func_t)(int, const char *, struct stat *);
typedef int (*fakefs_access_func_t)(const char *, int);
typedef int (*fakefs_open_func_t)(const char *, int, ...);
typedef int (*fakefs_openat_func_t)(int, const char *, int, ...);

int __xstat(int version, const char *path, struct stat *st);
int __xstat64(int version, const char *path, struct stat64 *st);

/* Returns N if `path` is "<prefix>N<suffix>" of a software device, else -1. */
static int fakefs_match(const char *path, const char *prefix,
                        const char *suffix)
{
    size_t length = strlen(prefix);
    int value = 0, digits = 0;

    if (strncmp(path, prefix, length) != 0) {
        return -1;
    }
    for (path += length; (*path >= '0') && (*path <= '9') && (digits < 3);
         ++path, ++digits) {
        value = value * 10 + (*path - '0');
    }
    if ((digits == 0) || (strcmp(path, suffix) != 0)) {
        return -1;
    }
    return sroce_host_enabled() && (value < (int)sroce_host.num_devs) ? value
                                                                      : -1;
}

static int fakefs_device(const char *path)
{
    /* The first comparison is nearly always decisive, so nothing is
     * initialised: open() may run very early in a process. */
    return (path == NULL) ? -1
                          : fakefs_match(path, "/dev/infiniband/uverbs", "");
}

static void fakefs_fill_stat(int device, struct stat *st)
{
    memset(st, 0, sizeof(*st));
    st->st_mode = S_IFCHR | 0666;
    st->st_nlink = 1;
    st->st_rdev = makedev(FAKEFS_UVERBS_MAJOR, 192 + (unsigned)device);
}

/* Returns the descriptor of a file that contains `text`, or -1 and errno. */
static int fakefs_text(const char *text)
{
    int fd = memfd_create("mrail-soft", MFD_CLOEXEC);

    if (fd < 0) {
        return -1;
    }
    if ((write(fd, text, strlen(text)) != (ssize_t)strlen(text)) ||
        (lseek(fd, 0, SEEK_SET) != 0)) {
        close(fd);
        errno = EIO;
        return -1;
    }
    return fd;
}

/* Returns 1 if *fd_p is the result of open(). */
static int fakefs_open(const char *path, int *fd_p)
{
    static const char sysfs[] = "/sys/class/infiniband/soft";

    if (path == NULL) {
        return 0;
    }
    if (fakefs_match(path, sysfs, "/ports/1/gid_attrs/types/0") >= 0) {
        *fd_p = fakefs_text("RoCE v2\n");
        return 1;
    }
    if (fakefs_match(path, sysfs, "/ports/1/gid_attrs/ndevs/0") >= 0) {
        *fd_p = fakefs_text("lo\n");
        return 1;
    }
    if (fakefs_device(path) >= 0) {
        *fd_p = fakefs_text("");
        return 1;
    }
    return 0;
}

MRAIL_EXPORT int stat(const char *path, struct stat *st)
{
    int device = fakefs_device(path);

    if (device >= 0) {
        fakefs_fill_stat(device, st);
        return 0;
    }
    return FAKEFS_REAL(fakefs_stat_func_t, "stat")(path, st);
}

MRAIL_EXPORT int stat64(const char *path, struct stat64 *st)
{
    int device = fakefs_device(path);

    if (device >= 0) {
        fakefs_fill_stat(device, (struct stat *)st);
        return 0;
    }
    return FAKEFS_REAL(fakefs_stat_func_t, "stat64")(path, (struct stat *)st);
}

/* stat() as called by programs that were linked with older C libraries. */
MRAIL_EXPORT int __xstat(int version, const char *path, struct stat *st)
{
    int device = fakefs_device(path);

    if (device >= 0) {
        fakefs_fill_stat(device, st);
        return 0;
    }
    return FAKEFS_REAL(fakefs_xstat_func_t, "__xstat")(version, path, st);
}

MRAIL_EXPORT int __xstat64(int version, const char *path, struct stat64 *st)
{
    int device = fakefs_device(path);

    if (device >= 0) {
        fakefs_fill_stat(device, (struct stat *)st);
        return 0;
    }
    return FAKEFS_REAL(fakefs_xstat_func_t, "__xstat64")(version, path,
                                                         (struct stat *)st);
}

int sroce_host_has_peermem(void)
{
    return sroce_host_enabled() && (getenv("MRAIL_SOFT_PEERMEM") != NULL);
}

static int fakefs_is_peermem(const char *path)
{
    return (path != NULL) &&
           (strcmp(path, "/sys/module/nvidia_peermem/version") == 0) &&
           sroce_host_has_peermem();
}

MRAIL_EXPORT int access(const char *path, int mode)
{
    if ((fakefs_device(path) >= 0) || fakefs_is_peermem(path)) {
        return 0;
    }
    return FAKEFS_REAL(fakefs_access_func_t, "access")(path, mode);
}

/* open() has a mode argument only if it may create a file. O_TMPFILE includes
 * the O_DIRECTORY bit. */
#define FAKEFS_MODE(_flags, _mode)                                             \
    do {                                                                       \
        if (((_flags)&O_CREAT) || (((_flags)&O_TMPFILE) == O_TMPFILE)) {       \
            va_list ap;                                                        \
            va_start(ap, _flags);                                              \
            (_mode) = va_arg(ap, mode_t);                                      \
            va_end(ap);                                                        \
        }                                                                      \
    } while (0)

MRAIL_EXPORT int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    int fd;

    FAKEFS_MODE(flags, mode);
    return fakefs_open(path, &fd)
               ? fd
               : FAKEFS_REAL(fakefs_open_func_t, "open")(path, flags, mode);
}

MRAIL_EXPORT int open64(const char *path, int flags, ...)
{
    mode_t mode = 0;
    int fd;

    FAKEFS_MODE(flags, mode);
    return fakefs_open(path, &fd)
               ? fd
               : FAKEFS_REAL(fakefs_open_func_t, "open64")(path, flags, mode);
}

MRAIL_EXPORT int openat(int dir, const char *path, int flags, ...)
{
    mode_t mode = 0;
    int fd;

    FAKEFS_MODE(flags, mode);
    return fakefs_open(path, &fd) ? fd
                                  : FAKEFS_REAL(fakefs_openat_func_t, "openat")(
                                        dir, path, flags, mode);
}
