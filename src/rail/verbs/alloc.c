/* Registered memory of a rail. */
#include "config.h"
#include "rail/verbs/alloc.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

void mrail_rail_explain(const char *device, size_t length, int error)
{
    struct rlimit limit;

    if ((error == ENOMEM) && (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) &&
        (limit.rlim_cur != RLIM_INFINITY)) {
        mrail_error("%s: cannot register %zu bytes: the locked-memory limit is "
                    "%llu kB; raise it (ulimit -l unlimited)",
                    device, length, (unsigned long long)limit.rlim_cur / 1024);
    }
}

struct ibv_mr *mrail_rail_alloc(mrail_rail_t *rail, size_t length, int access,
                                void **buffer_p)
{
    struct ibv_mr *mr;
    int error;

    if (posix_memalign(buffer_p, 4096, length) != 0) {
        *buffer_p = NULL;
        errno = ENOMEM;
        return NULL;
    }
    memset(*buffer_p, 0, length);
    mr = ibv_reg_mr(rail->pd, *buffer_p, length, access);
    if (mr == NULL) {
        error = errno;
        mrail_rail_explain(rail->attr.device, length, error);
        free(*buffer_p);
        *buffer_p = NULL;
        errno = error;
    }
    return mr;
}
