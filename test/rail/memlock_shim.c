/*
 * A library interposed before a verbs library. Registrations count against
 * RLIMIT_MEMLOCK and fail with ENOMEM beyond it, as the kernel does for a user
 * without CAP_IPC_LOCK. The shim is needed because software rails pin no
 * memory, and root may pin any amount.
 */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <sys/resource.h>

#undef ibv_reg_mr

typedef struct ibv_mr *(*reg_mr_func_t)(struct ibv_pd *pd, void *addr,
                                        size_t length, int access);

__attribute__((visibility("default"))) struct ibv_mr *
ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
                          int access)
{
    static size_t pinned;
    static reg_mr_func_t next;
    struct rlimit limit;

    if (next == NULL) {
        next = (reg_mr_func_t)(uintptr_t)dlsym(RTLD_NEXT, "ibv_reg_mr");
    }
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (__atomic_add_fetch(&pinned, length, __ATOMIC_RELAXED) >
        limit.rlim_cur) {
        __atomic_sub_fetch(&pinned, length, __ATOMIC_RELAXED);
        errno = ENOMEM;
        return NULL;
    }
    return next(pd, addr, length, access);
}
