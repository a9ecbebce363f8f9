#include "config.h"
#include "mpi/coll/device.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>

/* CUDA driver API: CU_POINTER_ATTRIBUTE_MEMORY_TYPE of cuPointerGetAttribute(),
 * and CU_MEMORYTYPE_DEVICE, which also covers managed memory. */
#define ATTRIBUTE_MEMORY_TYPE 2
#define MEMORY_TYPE_DEVICE 2u

typedef int (*get_attribute_func_t)(void *data, int attribute,
                                    unsigned long long pointer);

static get_attribute_func_t found; /* atomic; NULL: the driver is not loaded */
static unsigned long long
    looked_at; /* atomic: count_loads() at the last search */

static int read_loads(struct dl_phdr_info *info, size_t size, void *arg)
{
    *(unsigned long long *)arg = info->dlpi_adds;
    return 1; /* all objects report the same numbers, so stop */
}

/* Returns how many libraries this process has ever loaded. */
static unsigned long long count_loads(void)
{
    unsigned long long loads = 0;

    (void)dl_iterate_phdr(read_loads, &loads);
    return loads;
}

/* Finds the driver's function; NULL: the driver is not loaded. A process that
 * allocates device memory has loaded the driver. The search walks the names of
 * all libraries (about 12,000 instructions), so it is repeated only after
 * another library was loaded. */
static get_attribute_func_t find(void)
{
    get_attribute_func_t func = __atomic_load_n(&found, __ATOMIC_RELAXED);
    unsigned long long loads;
    void *handle;

    if (func != NULL) {
        return func;
    }
    loads = count_loads();
    if (loads == __atomic_load_n(&looked_at, __ATOMIC_RELAXED)) {
        return NULL;
    }
    handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (handle == NULL) {
        __atomic_store_n(&looked_at, loads, __ATOMIC_RELAXED);
        return NULL;
    }
    *(void **)&func = dlsym(handle, "cuPointerGetAttribute");
    /* The library handle is kept open, so the driver is never unloaded. */
    __atomic_store_n(&found, func, __ATOMIC_RELAXED);
    return func;
}

int mca_coll_mrail_has_devices(void)
{
    return find() != NULL;
}

int mca_coll_mrail_is_device(const void *pointer)
{
    get_attribute_func_t func = find();
    unsigned type = 0;

    return func != NULL &&
           func(&type, ATTRIBUTE_MEMORY_TYPE,
                (unsigned long long)(uintptr_t)pointer) == 0 &&
           type == MEMORY_TYPE_DEVICE;
}
