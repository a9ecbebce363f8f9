/* Allocates the registered memory of a rail. */
#include "config.h"
#include "rail/verbs/rail.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

int mrail_rail_explain(const char *device, size_t length, int error)
{
    struct rlimit limit;

    if ((error == ENOMEM) && (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) &&
        (limit.rlim_cur != RLIM_INFINITY)) {
        mrail_error("%s: cannot register %zu bytes: the locked-memory limit is "
                    "%llu kB; raise it (ulimit -l unlimited)",
                    device, length, (unsigned long long)limit.rlim_cur / 1024);
    }
    return -error;
}

/* The flags must be constants. With variable flags, the macro ibv_reg_mr() in
 * verbs.h calls a function for optional access bits, which mrail does not
 * use. */
struct ibv_mr *mrail_rail_reg(mrail_rail_t *rail, void *address, size_t length,
                              mrail_access_t access)
{
    switch (access) {
    case MRAIL_ACCESS_READ:
        return ibv_reg_mr(rail->pd, address, length,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    case MRAIL_ACCESS_FULL:
        return ibv_reg_mr(rail->pd, address, length,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                              IBV_ACCESS_REMOTE_READ);
    default:
        return ibv_reg_mr(rail->pd, address, length, IBV_ACCESS_LOCAL_WRITE);
    }
}

struct ibv_mr *mrail_rail_reg_dmabuf(mrail_rail_t *rail, int fd,
                                     uint64_t offset, void *address,
                                     size_t length)
{
    return ibv_reg_dmabuf_mr(rail->pd, offset, length, (uintptr_t)address, fd,
                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                 IBV_ACCESS_REMOTE_READ);
}

int mrail_rail_dereg(struct ibv_mr *mr)
{
    int ret = ibv_dereg_mr(mr);

    if (ret > 0) {
        errno = ret;
    }
    return (ret == 0) ? 0 : -1;
}

struct ibv_mr *mrail_rail_alloc(mrail_rail_t *rail, size_t length,
                                size_t alignment, mrail_access_t access,
                                void **buffer_p)
{
    struct ibv_mr *mr;
    int error;

    if (posix_memalign(buffer_p, alignment, length) != 0) {
        *buffer_p = NULL;
        errno = ENOMEM;
        return NULL;
    }
    if (alignment == MRAIL_HUGE_PAGE) {
        (void)madvise(*buffer_p, length, MADV_HUGEPAGE); /* may be disabled */
    }
    mr = mrail_rail_reg(rail, *buffer_p, length, access);
    if (mr == NULL) {
        error = errno;
        free(*buffer_p);
        *buffer_p = NULL;
        errno = error;
    }
    return mr;
}
