/*
 * Finds the CUDA driver API at run time. mrail is not linked to libcuda and
 * does not need cuda.h. A caller uses the functions through a table:
 *
 *     const mrail_cuda_t *cuda = mrail_cuda_find();
 *
 *     if ((cuda != NULL) && (cuda->cuMemAlloc(&address, size) == ...
 *
 * A process that uses device memory has already loaded the driver.
 * mrail_cuda_find() therefore only searches the loaded libraries, and processes
 * without GPUs never load the driver.
 */
#ifndef MRAIL_CUDA_DRIVER_H
#define MRAIL_CUDA_DRIVER_H

#include "base/util.h"
#include "cuda/abi.h"

/* X(symbol). The symbols are versioned, so their prototypes cannot change. If
 * the driver lacks a symbol, the table entry returns
 * CUDA_ERROR_NOT_SUPPORTED. */
#define MRAIL_CUDA_CALLS(X)                                                    \
    X(cuInit)                                                                  \
    X(cuDriverGetVersion)                                                      \
    X(cuGetErrorName)                                                          \
    X(cuDeviceGet)                                                             \
    X(cuDeviceGetCount)                                                        \
    X(cuDeviceGetName)                                                         \
    X(cuDeviceGetPCIBusId)                                                     \
    X(cuDeviceGetUuid_v2)                                                      \
    X(cuDeviceTotalMem_v2)                                                     \
    X(cuDeviceGetAttribute)                                                    \
    X(cuDeviceCanAccessPeer)                                                   \
    X(cuDeviceGetP2PAttribute)                                                 \
    X(cuFlushGPUDirectRDMAWrites)                                              \
    X(cuDevicePrimaryCtxRetain)                                                \
    X(cuDevicePrimaryCtxRelease_v2)                                            \
    X(cuCtxPushCurrent_v2)                                                     \
    X(cuCtxPopCurrent_v2)                                                      \
    X(cuCtxGetCurrent)                                                         \
    X(cuCtxGetDevice)                                                          \
    X(cuCtxEnablePeerAccess)                                                   \
    X(cuPointerGetAttribute)                                                   \
    X(cuPointerGetAttributes)                                                  \
    X(cuPointerSetAttribute)                                                   \
    X(cuMemGetHandleForAddressRange)                                           \
    X(cuMemAlloc_v2)                                                           \
    X(cuMemAllocManaged)                                                       \
    X(cuMemFree_v2)                                                            \
    X(cuMemHostAlloc)                                                          \
    X(cuMemFreeHost)                                                           \
    X(cuMemHostRegister_v2)                                                    \
    X(cuMemHostUnregister)                                                     \
    X(cuMemHostGetDevicePointer_v2)                                            \
    X(cuIpcGetMemHandle)                                                       \
    X(cuIpcOpenMemHandle_v2)                                                   \
    X(cuIpcCloseMemHandle)                                                     \
    X(cuMemcpyAsync)                                                           \
    X(cuMemcpyHtoDAsync_v2)                                                    \
    X(cuMemcpyDtoHAsync_v2)                                                    \
    X(cuMemcpyDtoDAsync_v2)                                                    \
    X(cuMemcpy2DAsync_v2)                                                      \
    X(cuStreamCreate)                                                          \
    X(cuStreamDestroy_v2)                                                      \
    X(cuStreamQuery)                                                           \
    X(cuStreamIsCapturing)                                                     \
    X(cuStreamSynchronize)                                                     \
    X(cuStreamWaitEvent)                                                       \
    X(cuStreamWriteValue32_v2)                                                 \
    X(cuStreamWaitValue32_v2)                                                  \
    X(cuLaunchHostFunc)                                                        \
    X(cuModuleLoadData)                                                        \
    X(cuModuleUnload)                                                          \
    X(cuModuleGetFunction)                                                     \
    X(cuLaunchKernel)                                                          \
    X(cuEventCreate)                                                           \
    X(cuEventDestroy_v2)                                                       \
    X(cuEventRecord)                                                           \
    X(cuEventQuery)

typedef struct mrail_cuda {
#define MRAIL_CUDA_MEMBER(_symbol) __typeof__(_symbol) *_symbol;
    MRAIL_CUDA_CALLS(MRAIL_CUDA_MEMBER)
#undef MRAIL_CUDA_MEMBER
} mrail_cuda_t;

extern const mrail_cuda_t *mrail_cuda_found; /* atomic; see mrail_cuda_find() */

/* Searches the libraries that this process has loaded for the driver. Returns
 * NULL if it is not among them. */
const mrail_cuda_t *mrail_cuda_search(void);

/* Returns the functions of the driver, or NULL if this process has not loaded
 * it. The result stays valid. Without the driver, a call costs about 180
 * instructions. Call it for each registration or collective call, but not for
 * each message. Any thread may call it. */
static inline const mrail_cuda_t *mrail_cuda_find(void)
{
    const mrail_cuda_t *cuda =
        __atomic_load_n(&mrail_cuda_found, __ATOMIC_ACQUIRE);

    return (cuda != NULL) ? cuda : mrail_cuda_search();
}

/* Returns 1 if mrail_cuda_find() has found the driver. The function consists of
 * one load, so callers may use it for each message. Any thread may call it. */
static inline int mrail_cuda_is_used(void)
{
    return __atomic_load_n(&mrail_cuda_found, __ATOMIC_RELAXED) != NULL;
}

/*
 * Loads and initialises the driver, for programs that use devices themselves.
 * Returns 0 if there is at least one device. Otherwise, returns -ENOENT (no
 * driver), -ENODEV (no device) or -EIO, and writes the reason to `reason`. Any
 * thread may call it.
 */
int mrail_cuda_open(const mrail_cuda_t **cuda_p, char *reason, size_t size);

/* Returns the name of an error, like "CUDA_ERROR_INVALID_VALUE". */
const char *mrail_cuda_error(CUresult error);

#endif
