/*
 * Interposed before a verbs library. Registrations count against RLIMIT_MEMLOCK
 * and fail with ENOMEM beyond it, as the kernel does for a user without
 * CAP_IPC_LOCK. The shim is needed because software rails pin no memory, and
 * root may pin any amount.
 */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <sys/resource.h>

#undef ibv_reg_mr

typedef struct ibv_mr *(*reg_mr_func_t)(struct ibv_pd *pd, void *addr,
                                        size_t length, int access);
typedef struct ibv_mr *(*reg_iova_func_t)(struct ibv_pd *pd, void *addr,
                                          size_t length, uint64_t iova,
                                          unsigned int access);

/* The macro ibv_reg_mr() calls the second function if `access` is not a
 * constant. */
__attribute__((visibility("default"))) struct ibv_mr *
ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
__attribute__((visibility("default"))) struct ibv_mr *
ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                 unsigned int access);

/* Returns 0 if the limit does not allow `length` more bytes. */
static int pin(size_t length)
{
    static size_t pinned;
    struct rlimit limit;

    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (__atomic_add_fetch(&pinned, length, __ATOMIC_RELAXED) <=
        limit.rlim_cur) {
        return 1;
    }
    __atomic_sub_fetch(&pinned, length, __ATOMIC_RELAXED);
    errno = ENOMEM;
    return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
                          int access)
{
    reg_mr_func_t next =
        (reg_mr_func_t)(uintptr_t)dlsym(RTLD_NEXT, "ibv_reg_mr");

    return pin(length) ? next(pd, addr, length, access) : NULL;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
                                uint64_t iova, unsigned int access)
{
    reg_iova_func_t next =
        (reg_iova_func_t)(uintptr_t)dlsym(RTLD_NEXT, "ibv_reg_mr_iova2");

    return pin(length) ? next(pd, addr, length, iova, access) : NULL;
}
