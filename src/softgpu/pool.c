/*
 * Memory pools. An allocation receives its memory immediately, and
 * cuMemFreeAsync returns it when the stream reaches the call. Pools do not keep
 * free memory, so their thresholds have no effect.
 */
#include "config.h"
#include "softgpu/pool.h"
#include "softgpu/work.h"

#include <stdlib.h>
#include <unistd.h>

CUresult sgpu_pool_create(sgpu_dev_t *dev, sgpu_pool_t **pool_p)
{
    sgpu_pool_t *pool = calloc(1, sizeof(*pool));

    if (pool == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pool->dev = dev;
    pool->id = mrail_mix64(sgpu.session->id ^ (uint64_t)getpid() << 32 ^
                           ++sgpu.next_id);
    pool->handle = sgpu_handle_create(SGPU_HANDLE_POOL, pool);
    if (pool->handle == 0) {
        free(pool);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *pool_p = pool;
    return CUDA_SUCCESS;
}

static CUresult pool_default(sgpu_dev_t *dev, sgpu_pool_t **pool_p)
{
    CUresult ret = CUDA_SUCCESS;

    if (dev->default_pool == NULL) {
        ret = sgpu_pool_create(dev, &dev->default_pool);
        if (ret == CUDA_SUCCESS) {
            dev->default_pool->is_default = 1;
        }
    }
    *pool_p = dev->default_pool;
    return ret;
}

static CUresult pool_current(sgpu_dev_t *dev, sgpu_pool_t **pool_p)
{
    if (dev->pool != NULL) {
        *pool_p = dev->pool;
        return CUDA_SUCCESS;
    }
    return pool_default(dev, pool_p);
}

static sgpu_pool_t *pool_find(CUmemoryPool handle)
{
    return sgpu_handle_find(SGPU_HANDLE_POOL, (uintptr_t)handle);
}

void sgpu_pool_return(uint64_t handle, uint64_t size)
{
    sgpu_pool_t *pool = sgpu_handle_find(SGPU_HANDLE_POOL, handle);

    if (pool != NULL) { /* NULL if the pool was destroyed before its memory */
        pool->used -= size;
    }
}

static CUresult pool_get(CUmemoryPool *pool_p, CUdevice ordinal,
                         CUresult (*find)(sgpu_dev_t *, sgpu_pool_t **))
{
    sgpu_dev_t *dev;
    CUresult ret = sgpu_enter_dev(ordinal, &dev);
    sgpu_pool_t *pool;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (pool_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    ret = find(dev, &pool);
    if (ret == CUDA_SUCCESS) {
        *pool_p = (CUmemoryPool)(uintptr_t)pool->handle;
    }
    return sgpu_leave(ret);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_p, CUdevice dev)
{
    return pool_get(pool_p, dev, pool_default);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool_p, CUdevice dev)
{
    return pool_get(pool_p, dev, pool_current);
}

CUresult cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool handle)
{
    sgpu_dev_t *dev;
    CUresult ret = sgpu_enter_dev(ordinal, &dev);
    sgpu_pool_t *pool;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    pool = pool_find(handle);
    if ((pool == NULL) || (pool->dev != dev)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    dev->pool = pool;
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuMemPoolCreate(CUmemoryPool *pool_p, const CUmemPoolProps *props)
{
    CUresult ret = sgpu_enter();
    sgpu_pool_t *pool;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((pool_p == NULL) || (props == NULL) ||
        (props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) ||
        (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE) ||
        (props->location.id < 0) ||
        ((unsigned)props->location.id >= sgpu.num_devs)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if ((props->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0) {
        return sgpu_leave(CUDA_ERROR_NOT_SUPPORTED);
    }
    ret = sgpu_pool_create(&sgpu.devs[props->location.id], &pool);
    if (ret == CUDA_SUCCESS) {
        pool->is_shareable =
            (props->handleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        *pool_p = (CUmemoryPool)(uintptr_t)pool->handle;
    }
    return sgpu_leave(ret);
}

CUresult sgpu_pool_enter(CUmemoryPool handle, sgpu_pool_t **pool_p)
{
    CUresult ret = sgpu_enter();

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    *pool_p = pool_find(handle);
    return (*pool_p != NULL) ? CUDA_SUCCESS
                             : sgpu_leave(CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
    sgpu_pool_t *pool;
    CUresult ret = sgpu_pool_enter(handle, &pool);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (pool->is_default) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (pool->dev->pool == pool) {
        pool->dev->pool = NULL;
    }
    sgpu_handle_destroy(pool->handle);
    free(pool);
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
    sgpu_pool_t *pool;
    CUresult ret = sgpu_pool_enter(handle, &pool);

    return (ret != CUDA_SUCCESS) ? ret : sgpu_leave(CUDA_SUCCESS);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle,
                               CUmemPool_attribute attribute, void *value)
{
    sgpu_pool_t *pool;
    CUresult ret = sgpu_pool_enter(handle, &pool);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((value == NULL) || (attribute < 1) || (attribute > 8)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
        pool->threshold = *(const cuuint64_t *)value;
    }
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle,
                               CUmemPool_attribute attribute, void *value_p)
{
    sgpu_pool_t *pool;
    CUresult ret = sgpu_pool_enter(handle, &pool);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (value_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *(cuuint64_t *)value_p = pool->threshold;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *(cuuint64_t *)value_p = pool->used;
        break;
    default:
        return sgpu_leave(CUDA_ERROR_NOT_SUPPORTED);
    }
    return sgpu_leave(CUDA_SUCCESS);
}

/* Allocates memory. If `handle` is NULL, the memory comes from the current pool
 * of the stream's device. */
static CUresult pool_alloc(CUdeviceptr *address_p, size_t size,
                           CUmemoryPool handle, CUstream stream_handle)
{
    sgpu_pool_t *pool = NULL;
    sgpu_stream_t *stream;
    sgpu_ctx_t *ctx;
    sgpu_mem_t *mem;
    CUresult ret = sgpu_enter_ctx(&ctx);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    ret = sgpu_stream_find(ctx, stream_handle, &stream);
    if (ret != CUDA_SUCCESS) {
        return sgpu_leave(ret);
    }
    if (handle != NULL) {
        pool = pool_find(handle);
    } else {
        ret = pool_current(stream->dev, &pool);
    }
    if ((ret == CUDA_SUCCESS) &&
        ((address_p == NULL) || (pool == NULL) || pool->is_imported)) {
        ret = CUDA_ERROR_INVALID_VALUE;
    }
    if (ret == CUDA_SUCCESS) {
        ret = sgpu_mem_alloc(pool->dev, SGPU_MEM_DEVICE, size, pool->handle,
                             &mem);
    }
    if (ret == CUDA_SUCCESS) {
        pool->used += size;
        *address_p = mem->base;
    }
    return sgpu_leave(ret);
}

CUresult cuMemAllocAsync(CUdeviceptr *address_p, size_t size, CUstream stream)
{
    return pool_alloc(address_p, size, NULL, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address_p, size_t size,
                                 CUmemoryPool pool, CUstream stream)
{
    return (pool == NULL) ? CUDA_ERROR_INVALID_VALUE
                          : pool_alloc(address_p, size, pool, stream);
}

/* From now on, only kernels that are already in streams can access the address.
 * The memory is freed when the stream reaches this operation. */
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle)
{
    sgpu_stream_t *stream;
    sgpu_ctx_t *ctx;
    sgpu_mem_t *mem;
    sgpu_op_t *op;
    CUresult ret = sgpu_enter_ctx(&ctx);

    if ((ret != CUDA_SUCCESS) || (address == 0)) {
        return (ret != CUDA_SUCCESS) ? ret : sgpu_leave(ret);
    }
    mem = sgpu_mem_find(address);
    ret = sgpu_stream_find(ctx, handle, &stream);
    if ((ret != CUDA_SUCCESS) || (mem == NULL) || (mem->base != address) ||
        ((mem->kind != SGPU_MEM_DEVICE) && (mem->pool == 0))) {
        return sgpu_leave((ret != CUDA_SUCCESS) ? ret
                                                : CUDA_ERROR_INVALID_VALUE);
    }
    op = sgpu_op_create(SGPU_OP_FREE);
    if (op == NULL) {
        return sgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    op->free.mem = mem;
    ret = sgpu_stream_append(stream, op);
    if (ret != CUDA_SUCCESS) {
        sgpu_op_destroy(op);
    } else {
        mem->is_freed = 1;
    }
    return sgpu_leave(ret);
}
