/*
 * Pools that processes share. The descriptor of a shared pool refers to a file
 * that identifies the pool. As with cuIpcGetMemHandle, each pointer needs its
 * own handle.
 */
#include "config.h"
#include "softgpu/ipc.h"
#include "softgpu/pool.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define POOL_MAGIC 0x6d7261696c706f6full /* "mrailpoo" */

typedef struct pool_file {
    uint64_t magic;
    uint64_t session;
    uint32_t node, gpu;
    uint64_t id; /* identifies the pool */
} pool_file_t;

_Static_assert(sizeof(sgpu_ipc_handle_t) <= sizeof(CUmemPoolPtrExportData),
               "handles fit");

static int pool_make_file(const sgpu_pool_t *pool)
{
    const pool_file_t file = {.magic = POOL_MAGIC,
                              .session = sgpu.session->id,
                              .node = sgpu.node,
                              .gpu = pool->dev->gpu->index,
                              .id = pool->id};
    int fd = memfd_create("mrail-gpu-pool", MFD_CLOEXEC);

    if ((fd >= 0) && ((fchmod(fd, 0600) != 0) ||
                      (write(fd, &file, sizeof(file)) != sizeof(file)))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

CUresult cuMemPoolExportToShareableHandle(void *shareable, CUmemoryPool handle,
                                          CUmemAllocationHandleType type,
                                          unsigned long long flags)
{
    sgpu_pool_t *pool;
    CUresult ret = sgpu_pool_enter(handle, &pool);
    int fd;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((shareable == NULL) || (flags != 0) || !pool->is_shareable ||
        (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    fd = pool_make_file(pool);
    if (fd < 0) {
        return sgpu_leave(CUDA_ERROR_OPERATING_SYSTEM);
    }
    memcpy(shareable, &fd, sizeof(fd));
    return sgpu_leave(CUDA_SUCCESS);
}

/* Reads the file of a pool. The caller continues to own the descriptor. */
static CUresult pool_read_file(int fd, sgpu_dev_t **dev_p, uint64_t *id_p)
{
    pool_file_t file;

    if ((pread(fd, &file, sizeof(file), 0) != sizeof(file)) ||
        (file.magic != POOL_MAGIC) || (file.session != sgpu.session->id) ||
        (file.node != sgpu.node)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    for (unsigned i = 0; i < sgpu.num_devs; ++i) {
        if (sgpu.devs[i].gpu->index == file.gpu) {
            *dev_p = &sgpu.devs[i];
            *id_p = file.id;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_p,
                                            void *shareable,
                                            CUmemAllocationHandleType type,
                                            unsigned long long flags)
{
    CUresult ret = sgpu_enter();
    sgpu_pool_t *pool;
    sgpu_dev_t *dev;
    uint64_t id;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((pool_p == NULL) || (flags != 0) ||
        (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    ret = pool_read_file((int)(intptr_t)shareable, &dev, &id);
    if (ret == CUDA_SUCCESS) {
        ret = sgpu_pool_create(dev, &pool);
    }
    if (ret == CUDA_SUCCESS) {
        pool->is_imported = 1;
        pool->id = id;
        *pool_p = (CUmemoryPool)(uintptr_t)pool->handle;
    }
    return sgpu_leave(ret);
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data_p,
                                CUdeviceptr address)
{
    CUresult ret = sgpu_enter();
    sgpu_pool_t *pool = NULL;
    sgpu_ipc_handle_t handle;
    sgpu_mem_t *mem;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    mem = sgpu_mem_find(address);
    if ((mem != NULL) && (mem->base == address) && (mem->pool != 0)) {
        pool = sgpu_handle_find(SGPU_HANDLE_POOL, mem->pool);
    }
    if ((data_p == NULL) || (pool == NULL) || !pool->is_shareable) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    ret = sgpu_ipc_fill(&handle, SGPU_IPC_MAGIC_POOL, mem->phys->fd, mem->size);
    if (ret == CUDA_SUCCESS) {
        handle.pool = pool->id;
        memset(data_p, 0, sizeof(*data_p));
        memcpy(data_p, &handle, sizeof(handle));
    }
    return sgpu_leave(ret);
}

CUresult cuMemPoolImportPointer(CUdeviceptr *address_p,
                                CUmemoryPool pool_handle,
                                CUmemPoolPtrExportData *data)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    sgpu_ipc_handle_t handle;
    sgpu_pool_t *pool;
    sgpu_mem_t *mem;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    pool = sgpu_handle_find(SGPU_HANDLE_POOL, (uintptr_t)pool_handle);
    if ((address_p == NULL) || (data == NULL) || (pool == NULL) ||
        !pool->is_imported) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    memcpy(&handle, data, sizeof(handle));
    ret = sgpu_ipc_check(ctx, &handle, SGPU_IPC_MAGIC_POOL);
    if ((ret == CUDA_SUCCESS) && (handle.pool != pool->id)) {
        ret = CUDA_ERROR_INVALID_HANDLE;
    }
    if (ret == CUDA_SUCCESS) {
        ret = sgpu_ipc_import(ctx, &handle, &mem);
    }
    if (ret == CUDA_SUCCESS) {
        mem->pool = pool->handle;
        pool->used += mem->size;
        *address_p = mem->base;
    }
    return sgpu_leave(ret);
}
