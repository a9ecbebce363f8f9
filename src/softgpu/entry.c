/*
 * Implements the entry points that need special treatment: cuGetProcAddress,
 * variants of functions that share a binary interface, and unsupported
 * functions.
 */
#include "config.h"
/* This file defines symbols with the plain names. */
#define CUDA_ABI_NO_PLAIN_NAMES
#include "softgpu/not_served.h"
#include "softgpu/served.h"
#include "softgpu/state.h"

#include <string.h>

/* ---- Unsupported functions ---- */

enum {
#define ENTRY_INDEX(_symbol) ENTRY_INDEX_##_symbol,
    SGPU_NOT_SERVED(ENTRY_INDEX)
#undef ENTRY_INDEX
        ENTRY_NOT_SERVED
};

_Static_assert(ENTRY_NOT_SERVED <= SGPU_SESSION_NOT_SERVED,
               "every function has a counter");

static CUresult entry_refuse(unsigned index)
{
    sgpu_session_once();
    if (sgpu.session != NULL) {
        atomic_fetch_add_explicit(&sgpu.session->not_served[index], 1,
                                  memory_order_relaxed);
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* These functions ignore the arguments that their callers pass. */
#define ENTRY_STUB(_symbol)                                                    \
    MRAIL_EXPORT CUresult _symbol(void);                                       \
    CUresult _symbol(void)                                                     \
    {                                                                          \
        return entry_refuse(ENTRY_INDEX_##_symbol);                            \
    }
SGPU_NOT_SERVED(ENTRY_STUB)
#undef ENTRY_STUB

/* ---- Variants ---- */

MRAIL_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *address_p,
                                         CUipcMemHandle handle,
                                         unsigned int flags);
MRAIL_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice dev);
MRAIL_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice dev);
MRAIL_EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev,
                                                 unsigned int flags);
MRAIL_EXPORT CUresult cuMemHostRegister(void *pointer, size_t size,
                                        unsigned int flags);
MRAIL_EXPORT CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address,
                                          cuuint32_t value, unsigned int flags);
MRAIL_EXPORT CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address,
                                          cuuint64_t value, unsigned int flags);
MRAIL_EXPORT CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address,
                                           cuuint32_t value,
                                           unsigned int flags);
MRAIL_EXPORT CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address,
                                           cuuint64_t value,
                                           unsigned int flags);
MRAIL_EXPORT CUresult cuStreamBatchMemOp(CUstream stream, unsigned int num,
                                         CUstreamBatchMemOpParams *params,
                                         unsigned int flags);
MRAIL_EXPORT CUresult cuEventElapsedTime(float *ms_p, CUevent start,
                                         CUevent end);
MRAIL_EXPORT CUresult cuGetProcAddress(const char *symbol, void **func_p,
                                       int version, cuuint64_t flags);

CUresult cuIpcOpenMemHandle(CUdeviceptr *address_p, CUipcMemHandle handle,
                            unsigned int flags)
{
    return cuIpcOpenMemHandle_v2(address_p, handle, flags);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
    return cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
    return cuDevicePrimaryCtxReset_v2(dev);
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
    return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

CUresult cuMemHostRegister(void *pointer, size_t size, unsigned int flags)
{
    return cuMemHostRegister_v2(pointer, size, flags);
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address,
                             cuuint32_t value, unsigned int flags)
{
    return cuStreamWaitValue32_v2(stream, address, value, flags);
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address,
                             cuuint64_t value, unsigned int flags)
{
    return cuStreamWaitValue64_v2(stream, address, value, flags);
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address,
                              cuuint32_t value, unsigned int flags)
{
    return cuStreamWriteValue32_v2(stream, address, value, flags);
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address,
                              cuuint64_t value, unsigned int flags)
{
    return cuStreamWriteValue64_v2(stream, address, value, flags);
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned int num,
                            CUstreamBatchMemOpParams *params,
                            unsigned int flags)
{
    return cuStreamBatchMemOp_v2(stream, num, params, flags);
}

CUresult cuEventElapsedTime(float *ms_p, CUevent start, CUevent end)
{
    return cuEventElapsedTime_v2(ms_p, start, end);
}

CUresult cuGetProcAddress(const char *symbol, void **func_p, int version,
                          cuuint64_t flags)
{
    return cuGetProcAddress_v2(symbol, func_p, version, flags, NULL);
}

/* ---- cuGetProcAddress ---- */

typedef struct entry_row {
    const char *symbol;
    int since; /* release of CUDA, or 0 if unsupported */
    void *func;
} entry_row_t;

static const entry_row_t entry_rows[] = {
#define ENTRY_ROW(_symbol, _since) {#_symbol, _since, (void *)_symbol},
    SGPU_SERVED(ENTRY_ROW)
#undef ENTRY_ROW
#define ENTRY_ROW(_symbol) {#_symbol, 0, (void *)_symbol},
        SGPU_NOT_SERVED(ENTRY_ROW)
#undef ENTRY_ROW
};

/* Returns 1 if the symbol is the name, or the name with a version suffix. */
static int entry_is_variant(const char *symbol, const char *name)
{
    size_t length = strlen(name);

    return (strncmp(symbol, name, length) == 0) &&
           ((symbol[length] == '\0') ||
            ((strncmp(symbol + length, "_v", 2) == 0) &&
             (strspn(symbol + length + 2, "0123456789") ==
              strlen(symbol + length + 2))));
}

CUresult cuGetProcAddress_v2(const char *symbol, void **func_p, int version,
                             cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status_p)
{
    const entry_row_t *best = NULL;
    int status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;

    if ((symbol == NULL) || (func_p == NULL)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *func_p = NULL;
    /* Per-thread default streams are not supported. */
    for (unsigned i = 0;
         !(flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) &&
         (i < MRAIL_ARRAY_SIZE(entry_rows));
         ++i) {
        const entry_row_t *row = &entry_rows[i];

        if (!entry_is_variant(row->symbol, symbol)) {
            continue;
        }
        if (row->since > version) {
            status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        } else if ((best == NULL) || (row->since > best->since)) {
            best = row;
        }
    }
    if (best != NULL) {
        *func_p = best->func;
        status = CU_GET_PROC_ADDRESS_SUCCESS;
    }
    if (status_p != NULL) {
        *status_p = status;
    }
    return (best != NULL) ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
