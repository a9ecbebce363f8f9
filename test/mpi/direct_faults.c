#include "config.h"
#include "direct_faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

static uct_mrail_direct_ops_t real, *replaced;
static unsigned num_calls;

const uct_mrail_direct_ops_t *direct_find_ops(void)
{
    void *file = dlopen("libuct_mrail.so.0", RTLD_NOW | RTLD_NOLOAD);
    const uct_mrail_direct_ops_t *ops;
    uct_mrail_direct_func_t direct;

    if (file == NULL) {
        return NULL;
    }
    *(void **)&direct = dlsym(file, "uct_mrail_direct");
    ops = (direct != NULL) ? direct() : NULL;
    return (ops != NULL && ops->struct_size == sizeof(*ops) &&
            ops->get_size == sizeof(uct_mrail_direct_get_t))
               ? ops
               : NULL;
}

/* ---- functions that fail ---- */

static int fail_mem_get(void *address, size_t length,
                        uct_mrail_direct_mem_t **mem_p)
{
    return (num_calls++ % 3 == 0) ? -ENOMEM
                                  : real.mem_get(address, length, mem_p);
}

static int fail_get(uct_mrail_direct_ep_t *ep, uct_mrail_direct_get_t *get)
{
    return (num_calls++ % 2 == 0) ? -EIO : real.get(ep, get);
}

static int busy_get(uct_mrail_direct_ep_t *ep, uct_mrail_direct_get_t *get)
{
    return (num_calls++ % 2 == 0) ? -EAGAIN : real.get(ep, get);
}

static int bad_get(uct_mrail_direct_ep_t *ep, uct_mrail_direct_get_t *get)
{
    get->status = -EIO;
    return (num_calls++ % 2 == 0) ? 0 : real.get(ep, get);
}

/* The function table is constant, but its memory belongs to this process and
 * can be made writable. */
int direct_faults_init(void)
{
    const uct_mrail_direct_ops_t *ops = direct_find_ops();
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = (uintptr_t)ops / page * page;
    uintptr_t last = ((uintptr_t)ops + sizeof(*ops) + page - 1) / page * page;

    if (ops == NULL ||
        mprotect((void *)first, last - first, PROT_READ | PROT_WRITE) != 0) {
        return 0;
    }
    real = *ops;
    replaced = (uct_mrail_direct_ops_t *)(uintptr_t)ops;
    return 1;
}

void direct_faults_set(direct_fault_t fault)
{
    num_calls = 0;
    *replaced = real;
    switch (fault) {
    case DIRECT_NO_FAULT:
        break;
    case DIRECT_FAIL_MEM_GET:
        replaced->mem_get = fail_mem_get;
        break;
    case DIRECT_FAIL_GET:
        replaced->get = fail_get;
        break;
    case DIRECT_BAD_GET:
        replaced->get = bad_get;
        break;
    case DIRECT_BUSY_GET:
        replaced->get = busy_get;
        break;
    }
}
