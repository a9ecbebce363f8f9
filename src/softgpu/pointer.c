/* Queries about addresses, and dma-buf descriptors of memory. */
#include "config.h"
#include "softgpu/state.h"

#include <string.h>
#include <unistd.h>

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base_p, size_t *size_p,
                                 CUdeviceptr address)
{
    CUresult ret = sgpu_enter();
    sgpu_mem_t *mem;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    mem = sgpu_mem_find(address);
    if (mem == NULL) {
        return sgpu_leave(CUDA_ERROR_NOT_FOUND);
    }
    if (base_p != NULL) {
        *base_p = mem->base;
    }
    if (size_p != NULL) {
        *size_p = mem->size;
    }
    return sgpu_leave(CUDA_SUCCESS);
}

/* Writes an attribute of `size` bytes. These are the lowest bytes of the
 * number, because all machines that NVIDIA supports are little-endian. */
static CUresult pointer_put(void *data, uint64_t value, size_t size)
{
    memcpy(data, &value, size);
    return CUDA_SUCCESS;
}

static uint64_t pointer_access(const sgpu_mem_t *mem)
{
    uint32_t bit = 1u << mem->dev->ordinal;

    return ((mem->readers & bit) ? CU_MEM_ACCESS_FLAGS_PROT_READ : 0) |
           ((mem->writers & bit) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : 0);
}

/* mem is NULL if the driver does not know the address. */
static CUresult pointer_attribute(void *data, CUpointer_attribute attribute,
                                  const sgpu_mem_t *mem, uint64_t address)
{
    int is_device = (mem != NULL) && !sgpu_mem_is_host(mem);
    int is_managed = (mem != NULL) && (mem->kind == SGPU_MEM_MANAGED);
    int can_ipc = (mem != NULL) && (mem->kind == SGPU_MEM_DEVICE);

    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        /* Memory of cuMemMap does not belong to a context. */
        return pointer_put(
            data,
            ((mem != NULL) && (mem->kind != SGPU_MEM_MAPPED)) ? mem->ctx : 0,
            8);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        return pointer_put(data,
                           (mem == NULL) ? 0
                           : is_device   ? CU_MEMORYTYPE_DEVICE
                                         : CU_MEMORYTYPE_HOST,
                           4);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        return pointer_put(data, (mem != NULL) ? address : 0, 8);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (is_device && !is_managed) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        return pointer_put(data, (mem != NULL) ? address : 0, 8);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        return pointer_put(data, (mem != NULL) && mem->is_sync_memops, 4);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return pointer_put(data, (mem != NULL) ? mem->id : 0, 8);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        return pointer_put(data, (unsigned)is_managed, 4);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return pointer_put(data,
                           (mem != NULL) ? mem->dev->ordinal : (uint32_t)-2, 4);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        return pointer_put(data, can_ipc && (mem->pool == 0), 4);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        return pointer_put(data, (mem != NULL) ? mem->base : 0, 8);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        return pointer_put(data, (mem != NULL) ? mem->size : 0, 8);
    case CU_POINTER_ATTRIBUTE_MAPPED:
        return pointer_put(data, mem != NULL, 4);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        return pointer_put(data,
                           (is_device && mem->phys->is_shareable)
                               ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                               : CU_MEM_HANDLE_TYPE_NONE,
                           8);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        return pointer_put(data, is_device && !is_managed, 4);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return pointer_put(data, (mem != NULL) ? pointer_access(mem) : 0, 4);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        return pointer_put(data, (mem != NULL) ? mem->pool : 0, 8);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* Fails for addresses that the driver does not know. */
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                               CUdeviceptr address)
{
    CUresult ret = sgpu_enter();
    const sgpu_mem_t *mem;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    mem = sgpu_mem_find(address);
    ret = ((data == NULL) || (mem == NULL))
              ? CUDA_ERROR_INVALID_VALUE
              : pointer_attribute(data, attribute, mem, address);
    return sgpu_leave(ret);
}

/* Returns default values for addresses that the driver does not know, and for
 * attributes that the address does not have. */
CUresult cuPointerGetAttributes(unsigned int num, CUpointer_attribute *attrs,
                                void **data, CUdeviceptr address)
{
    CUresult ret = sgpu_enter();
    const sgpu_mem_t *mem;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((attrs == NULL) || (data == NULL)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    mem = sgpu_mem_find(address);
    for (unsigned i = 0; i < num; ++i) {
        if ((attrs[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER) && (mem != NULL) &&
            !sgpu_mem_is_host(mem) && (mem->kind != SGPU_MEM_MANAGED)) {
            pointer_put(data[i], 0, 8);
            continue;
        }
        ret = pointer_attribute(data[i], attrs[i], mem, address);
        if (ret != CUDA_SUCCESS) {
            break;
        }
    }
    return sgpu_leave(ret);
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                               CUdeviceptr address)
{
    CUresult ret = sgpu_enter();
    sgpu_mem_t *mem;
    unsigned flag;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    mem = sgpu_mem_find(address);
    if ((value == NULL) || (mem == NULL) || sgpu_mem_is_host(mem) ||
        (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    memcpy(&flag, value, sizeof(flag));
    mem->is_sync_memops = (flag != 0);
    return sgpu_leave(CUDA_SUCCESS);
}

/* Exports a range. A dma-buf is a descriptor of the memory file. Its offset is
 * the beginning of the range. */
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address,
                                       size_t size, CUmemRangeHandleType type,
                                       unsigned long long flags)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    CUresult ret = sgpu_enter();
    sgpu_mem_t *mem;
    int fd;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    mem = sgpu_mem_find(address);
    if ((handle == NULL) || (mem == NULL) || sgpu_mem_is_host(mem) ||
        (mem->kind == SGPU_MEM_MANAGED) ||
        (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD) || (size == 0) ||
        (address % page != 0) || (size % page != 0) ||
        (address - mem->base + size >
         MRAIL_DIV_ROUND_UP(mem->size, page) * page)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if ((flags > 1) || sgpu_gpu_has(mem->phys->gpu, SGPU_FAULT_NO_DMABUF)) {
        return sgpu_leave(CUDA_ERROR_NOT_SUPPORTED);
    }
    fd = sgpu_phys_reopen(mem->phys, mem->offset + (address - mem->base));
    if (fd < 0) {
        return sgpu_leave(CUDA_ERROR_OPERATING_SYSTEM);
    }
    memcpy(handle, &fd, sizeof(fd));
    return sgpu_leave(CUDA_SUCCESS);
}
