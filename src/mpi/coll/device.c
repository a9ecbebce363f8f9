#include "config.h"
#include "mpi/coll/device.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

/* CUDA driver API, cuPointerGetAttribute(): CU_POINTER_ATTRIBUTE_MEMORY_TYPE, and
 * CU_MEMORYTYPE_DEVICE, which managed memory has as well. */
#define ATTRIBUTE_MEMORY_TYPE 2
#define MEMORY_TYPE_DEVICE 2u

typedef int (*get_attribute_func_t)(void *data, int attribute,
                                    unsigned long long pointer);

/* Who allocates on a device has the driver in the process by then. */
static get_attribute_func_t find(void)
{
    static get_attribute_func_t found;
    get_attribute_func_t func = __atomic_load_n(&found, __ATOMIC_RELAXED);
    void *handle;

    if (func != NULL) {
        return func;
    }
    handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (handle == NULL) {
        return NULL;
    }
    *(void **)&func = dlsym(handle, "cuPointerGetAttribute");
    /* The reference is kept: the driver is never unloaded. */
    __atomic_store_n(&found, func, __ATOMIC_RELAXED);
    return func;
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
