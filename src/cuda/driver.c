#include "config.h"
#include "cuda/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>

#define DRIVER_LIBRARY "libcuda.so.1"

const mrail_cuda_t *mrail_cuda_found;

static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;
static mrail_cuda_t
    driver_calls; /* driver_lock protects it until it is complete */
static unsigned long long searched_at; /* atomic: count_loads() at the last
                                        * search without result */

static CUresult driver_lacks(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

static void *driver_symbol(void *library, const char *name)
{
    void *symbol = dlsym(library, name);

    return (symbol != NULL) ? symbol : (void *)driver_lacks;
}

/* Loads the library and keeps it loaded. The caller holds driver_lock. */
static const mrail_cuda_t *driver_load(int flags)
{
    void *library = dlopen(DRIVER_LIBRARY, RTLD_NOW | RTLD_LOCAL | flags);

    if (library == NULL) {
        return NULL;
    }
#define DRIVER_SET(_symbol)                                                    \
    *(void **)&driver_calls._symbol = driver_symbol(library, #_symbol);
    MRAIL_CUDA_CALLS(DRIVER_SET)
#undef DRIVER_SET
    __atomic_store_n(&mrail_cuda_found, &driver_calls, __ATOMIC_RELEASE);
    return &driver_calls;
}

static int read_loads(struct dl_phdr_info *info, size_t size, void *arg)
{
    *(unsigned long long *)arg = info->dlpi_adds;
    return 1; /* all libraries report the same number */
}

/* Returns the number of libraries that this process has ever loaded. */
static unsigned long long count_loads(void)
{
    unsigned long long loads = 0;

    (void)dl_iterate_phdr(read_loads, &loads);
    return loads;
}

/* A search walks the names of all libraries (about 12,000 instructions). The
 * function therefore searches again only after another library was loaded. */
const mrail_cuda_t *mrail_cuda_search(void)
{
    unsigned long long loads = count_loads();
    const mrail_cuda_t *cuda;

    if (loads == __atomic_load_n(&searched_at, __ATOMIC_RELAXED)) {
        return NULL;
    }
    pthread_mutex_lock(&driver_lock);
    cuda = mrail_cuda_found;
    if (cuda == NULL) {
        cuda = driver_load(RTLD_NOLOAD);
    }
    pthread_mutex_unlock(&driver_lock);
    if (cuda == NULL) {
        __atomic_store_n(&searched_at, loads, __ATOMIC_RELAXED);
    }
    return cuda;
}

int mrail_cuda_open(const mrail_cuda_t **cuda_p, char *reason, size_t size)
{
    const mrail_cuda_t *cuda;
    CUresult result;
    int count = 0;

    pthread_mutex_lock(&driver_lock);
    cuda = mrail_cuda_found;
    if (cuda == NULL) {
        cuda = driver_load(0);
    }
    pthread_mutex_unlock(&driver_lock);
    if (cuda == NULL) {
        snprintf(reason, size, "no CUDA driver (%s)", DRIVER_LIBRARY);
        return -ENOENT;
    }
    result = cuda->cuInit(0);
    if (result == CUDA_SUCCESS) {
        result = cuda->cuDeviceGetCount(&count);
    }
    if ((result == CUDA_ERROR_NO_DEVICE) ||
        ((result == CUDA_SUCCESS) && (count == 0))) {
        snprintf(reason, size, "the CUDA driver has no device");
        return -ENODEV;
    }
    if (result != CUDA_SUCCESS) {
        snprintf(reason, size, "cannot initialise the CUDA driver: %s",
                 mrail_cuda_error(result));
        return -EIO;
    }
    *cuda_p = cuda;
    return 0;
}

const char *mrail_cuda_error(CUresult error)
{
    const char *name;

    return (mrail_cuda_is_used() &&
            (mrail_cuda_found->cuGetErrorName(error, &name) == CUDA_SUCCESS))
               ? name
               : "unknown CUDA error";
}
