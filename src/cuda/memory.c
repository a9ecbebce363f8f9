#include "config.h"
#include "cuda/memory.h"

#include "base/log.h"

#include <errno.h>
#include <unistd.h>

/* Fills in *range_p. An address that the driver does not know is host
 * memory. */
static void memory_look(const mrail_cuda_t *cuda, uint64_t address,
                        mrail_cuda_range_t *range_p)
{
    mrail_cuda_range_t range = {0};
    unsigned type = 0, is_managed = 0;
    CUpointer_attribute attributes[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,   CU_POINTER_ATTRIBUTE_BUFFER_ID,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        CU_POINTER_ATTRIBUTE_CONTEXT};
    void *values[] = {&type,       &is_managed, &range.device, &range.buffer_id,
                      &range.base, &range.size, &range.ctx};

    *range_p = (mrail_cuda_range_t){.memory = MRAIL_CUDA_HOST};
    if ((cuda->cuPointerGetAttributes(MRAIL_ARRAY_SIZE(attributes), attributes,
                                      values, address) != CUDA_SUCCESS) ||
        (!is_managed && (type != CU_MEMORYTYPE_DEVICE))) {
        return;
    }
    range.memory = is_managed ? MRAIL_CUDA_MANAGED : MRAIL_CUDA_DEVICE;
    *range_p = range;
}

int mrail_cuda_recognise(const void *address, size_t length,
                         mrail_cuda_range_t *range_p)
{
    const mrail_cuda_t *cuda = mrail_cuda_find();
    uint64_t first = (uintptr_t)address;
    mrail_cuda_range_t end;

    if (cuda == NULL) {
        *range_p = (mrail_cuda_range_t){.memory = MRAIL_CUDA_HOST};
        return 0;
    }
    memory_look(cuda, first, range_p);
    if ((length <= 1) ||
        ((range_p->memory != MRAIL_CUDA_HOST) &&
         (length <= range_p->size - (first - range_p->base)))) {
        return 0;
    }
    memory_look(cuda, first + length - 1, &end);
    if ((range_p->memory == MRAIL_CUDA_HOST) !=
        (end.memory == MRAIL_CUDA_HOST)) {
        return -EFAULT;
    }
    return (range_p->memory == MRAIL_CUDA_HOST) ? 0 : -ERANGE;
}

const char *mrail_cuda_range_text(int status)
{
    return (status == -EFAULT)
               ? "one part of the buffer is host memory, another device memory"
               : "the buffer is not within one allocation of device memory";
}

/* Memory without a context needs the primary context of its device. */
int mrail_cuda_enter(const mrail_cuda_range_t *range)
{
    const mrail_cuda_t *cuda = mrail_cuda_found;
    CUcontext ctx = range->ctx;
    CUdevice device;

    if ((ctx == NULL) &&
        ((cuda->cuDeviceGet(&device, range->device) != CUDA_SUCCESS) ||
         (cuda->cuDevicePrimaryCtxRetain(&ctx, device) != CUDA_SUCCESS))) {
        return -EIO;
    }
    if (cuda->cuCtxPushCurrent(ctx) == CUDA_SUCCESS) {
        return 0;
    }
    if (range->ctx == NULL) {
        (void)cuda->cuDevicePrimaryCtxRelease(device);
    }
    return -EIO;
}

void mrail_cuda_leave(const mrail_cuda_range_t *range)
{
    const mrail_cuda_t *cuda = mrail_cuda_found;
    CUcontext ctx;
    CUdevice device;

    (void)cuda->cuCtxPopCurrent(&ctx);
    if ((range->ctx == NULL) &&
        (cuda->cuDeviceGet(&device, range->device) == CUDA_SUCCESS)) {
        (void)cuda->cuDevicePrimaryCtxRelease(device);
    }
}

int mrail_cuda_export(const mrail_cuda_range_t *range, const void *address,
                      size_t length, int *fd_p, uint64_t *offset_p)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t first = (uintptr_t)address;
    uint64_t start = first - first % page;
    uint64_t size = MRAIL_DIV_ROUND_UP(first + length - start, page) * page;
    CUresult result;
    int fd;

    if (range->memory != MRAIL_CUDA_DEVICE) {
        return -EOPNOTSUPP;
    }
    if (mrail_cuda_enter(range) != 0) {
        return -EIO;
    }
    result = mrail_cuda_found->cuMemGetHandleForAddressRange(
        &fd, start, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    mrail_cuda_leave(range);
    if (result != CUDA_SUCCESS) {
        mrail_debug("no dma-buf of %zu bytes on GPU %d: %s", length,
                    range->device, mrail_cuda_error(result));
        return ((result == CUDA_ERROR_NOT_SUPPORTED) ||
                (result == CUDA_ERROR_INVALID_VALUE))
                   ? -EOPNOTSUPP
                   : -EIO;
    }
    *fd_p = fd;
    *offset_p = first - start;
    return 0;
}

void mrail_cuda_sync_copies(const mrail_cuda_range_t *range)
{
    unsigned on = 1;

    if (mrail_cuda_enter(range) != 0) {
        return;
    }
    /* Memory of cuMemMap() does not have this attribute, because it belongs to
     * no context. */
    (void)mrail_cuda_found->cuPointerSetAttribute(
        &on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, range->base);
    mrail_cuda_leave(range);
}
