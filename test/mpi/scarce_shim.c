/*
 * A preloaded library that makes the n-th system request that coll/mrail
 * makes after scarce_arm() fail. Requests are for private memory, for shared memory, and
 * for the shared-memory file.
 */
#include "config.h"
#include "scarce_shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define COMPONENT "mca_coll_mrail.so"
#define PUBLIC __attribute__((visibility("default")))

/* glibc's own functions are called directly, because dlsym() may allocate. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static uintptr_t first, last; /* the component's code; 0 if not armed */
static unsigned refuse_at, num_seen;

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    if (strstr(info->dlpi_name, COMPONENT) == NULL) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];

        if (part->p_type == PT_LOAD && (part->p_flags & PF_X)) {
            last = info->dlpi_addr + part->p_vaddr + part->p_memsz;
            __atomic_store_n(&first, info->dlpi_addr + part->p_vaddr,
                             __ATOMIC_RELEASE);
        }
    }
    return 1;
}

PUBLIC int scarce_arm(unsigned n)
{
    num_seen = 0;
    refuse_at = n;
    return dl_iterate_phdr(look_at, NULL);
}

PUBLIC unsigned scarce_disarm(void)
{
    __atomic_store_n(&first, 0, __ATOMIC_RELEASE);
    return num_seen;
}

/* Returns 1 if the request of `caller` must fail. */
static int is_refused(const void *caller)
{
    uintptr_t from = __atomic_load_n(&first, __ATOMIC_ACQUIRE);

    return from != 0 && (uintptr_t)caller >= from && (uintptr_t)caller < last &&
           __atomic_add_fetch(&num_seen, 1, __ATOMIC_RELAXED) == refuse_at;
}
#define IS_REFUSED() is_refused(__builtin_return_address(0))

PUBLIC void *malloc(size_t size)
{
    return IS_REFUSED() ? NULL : __libc_malloc(size);
}

PUBLIC void *calloc(size_t count, size_t size)
{
    return IS_REFUSED() ? NULL : __libc_calloc(count, size);
}

PUBLIC void *realloc(void *old, size_t size)
{
    return IS_REFUSED() ? NULL : __libc_realloc(old, size);
}

PUBLIC int open(const char *path, int flags, ...)
{
    static int (*next)(const char *path, int flags, ...);
    mode_t mode = 0;
    va_list args;

    if (IS_REFUSED()) {
        errno = ENFILE;
        return -1;
    }
    if (flags & (O_CREAT | O_TMPFILE)) {
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "open");
    }
    return next(path, flags, mode);
}

PUBLIC int posix_fallocate(int fd, off_t offset, off_t length)
{
    static int (*next)(int fd, off_t offset, off_t length);

    if (IS_REFUSED()) {
        return ENOSPC;
    }
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "posix_fallocate");
    }
    return next(fd, offset, length);
}

PUBLIC void *mmap(void *at, size_t length, int prot, int flags, int fd,
                  off_t offset)
{
    static void *(*next)(void *at, size_t length, int prot, int flags, int fd,
                         off_t offset);

    if (IS_REFUSED()) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "mmap");
    }
    return next(at, length, prot, flags, fd, offset);
}
