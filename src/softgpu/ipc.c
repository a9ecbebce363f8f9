/* IPC handles of memory and events. Pools use the same handles. */
#include "config.h"
#include "softgpu/ipc.h"
#include "softgpu/work.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

CUresult sgpu_ipc_fill(sgpu_ipc_handle_t *handle, uint32_t magic, int fd,
                       uint64_t size)
{
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    *handle = (sgpu_ipc_handle_t){.magic = magic,
                                  .node = sgpu.node,
                                  .session = sgpu.session->id,
                                  .pid = getpid(),
                                  .fd = fd,
                                  .st_dev = st.st_dev,
                                  .st_ino = st.st_ino,
                                  .size = size};
    return CUDA_SUCCESS;
}

CUresult sgpu_ipc_check(const sgpu_ctx_t *ctx, const sgpu_ipc_handle_t *handle,
                        uint32_t magic)
{
    if (sgpu_gpu_has(ctx->dev->gpu, SGPU_FAULT_IPC_ERROR)) {
        return CUDA_ERROR_MAP_FAILED;
    }
    if ((handle->magic != magic) || (handle->session != sgpu.session->id) ||
        (handle->node != sgpu.node)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    /* A process cannot open its own handles. */
    return (handle->pid == getpid()) ? CUDA_ERROR_INVALID_CONTEXT
                                     : CUDA_SUCCESS;
}

CUresult sgpu_ipc_open(const sgpu_ipc_handle_t *handle, int *fd_p)
{
    struct stat st;
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle->pid, handle->fd);
    /* O_NONBLOCK is necessary, because the descriptor number may now refer to a
     * FIFO. */
    fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if ((fstat(fd, &st) != 0) || (st.st_dev != handle->st_dev) ||
        (st.st_ino != handle->st_ino)) {
        close(fd);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    *fd_p = fd;
    return CUDA_SUCCESS;
}

/* ---- Memory ---- */

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle_p, CUdeviceptr address)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    sgpu_ipc_handle_t handle;
    sgpu_mem_t *mem;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    mem = sgpu_mem_find(address);
    if ((handle_p == NULL) || (mem == NULL) || (mem->kind != SGPU_MEM_DEVICE) ||
        (mem->pool != 0)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    ret = sgpu_ipc_fill(&handle, SGPU_IPC_MAGIC_MEM, mem->phys->fd, mem->size);
    if (ret == CUDA_SUCCESS) {
        memset(handle_p, 0, sizeof(*handle_p));
        memcpy(handle_p, &handle, sizeof(handle));
    }
    return sgpu_leave(ret);
}

/* Finds memory that this context has already opened. */
static sgpu_mem_t *ipc_find_open(const sgpu_ctx_t *ctx,
                                 const sgpu_ipc_handle_t *handle)
{
    for (sgpu_mem_t *mem = sgpu_mem_first(); mem != NULL;
         mem = sgpu_mem_after(mem)) {
        if ((mem->kind == SGPU_MEM_IMPORTED) && (mem->pool == 0) &&
            (mem->ctx == ctx->handle) &&
            (mem->phys->st_dev == handle->st_dev) &&
            (mem->phys->st_ino == handle->st_ino)) {
            return mem;
        }
    }
    return NULL;
}

CUresult sgpu_ipc_import(sgpu_ctx_t *ctx, const sgpu_ipc_handle_t *handle,
                         sgpu_mem_t **mem_p)
{
    sgpu_phys_t *phys;
    sgpu_dev_t *dev;
    CUresult ret;
    int fd;

    ret = sgpu_ipc_open(handle, &fd);
    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    ret = sgpu_phys_import(fd, &phys);
    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((handle->size > phys->size) || (handle->size == 0)) {
        sgpu_phys_put(phys);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if ((phys->gpu != ctx->dev->gpu) &&
        !sgpu_path_joins((sgpu_link_kind_t)sgpu.session->link_kind, phys->gpu,
                         ctx->dev->gpu)) {
        sgpu_phys_put(phys);
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    }
    /* The GPU may be one that CUDA_VISIBLE_DEVICES hides. */
    dev = (phys->dev != NULL) ? phys->dev : ctx->dev;
    ret = sgpu_mem_place(SGPU_MEM_IMPORTED, dev, phys, handle->size, mem_p);
    if (ret == CUDA_SUCCESS) {
        (*mem_p)->peer_is_enabled = 1;
    }
    return ret;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address_p, CUipcMemHandle opaque,
                               unsigned int flags)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    sgpu_ipc_handle_t handle;
    sgpu_mem_t *mem;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((address_p == NULL) || (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    memcpy(&handle, &opaque, sizeof(handle));
    ret = sgpu_ipc_check(ctx, &handle, SGPU_IPC_MAGIC_MEM);
    if (ret != CUDA_SUCCESS) {
        return sgpu_leave(ret);
    }
    mem = ipc_find_open(ctx, &handle);
    if (mem == NULL) {
        ret = sgpu_ipc_import(ctx, &handle, &mem);
        if (ret != CUDA_SUCCESS) {
            return sgpu_leave(ret);
        }
    }
    ++mem->opened;
    *address_p = mem->base;
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    sgpu_mem_t *mem;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    mem = sgpu_mem_find(address);
    if ((mem == NULL) || (mem->kind != SGPU_MEM_IMPORTED) || (mem->pool != 0) ||
        (mem->base != address)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (--mem->opened == 0) {
        /* Work in streams holds references to the memory until it is
         * complete. */
        sgpu_mem_remove(mem);
    }
    return sgpu_leave(CUDA_SUCCESS);
}

/* ---- Events ---- */

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle_p, CUevent event_handle)
{
    CUresult ret = sgpu_enter();
    sgpu_ipc_handle_t handle;
    sgpu_event_t *event;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    event = sgpu_handle_find(SGPU_HANDLE_EVENT, (uintptr_t)event_handle);
    if ((handle_p == NULL) || (event == NULL) || (event->page == NULL)) {
        return sgpu_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    ret = sgpu_ipc_fill(&handle, SGPU_IPC_MAGIC_EVENT, event->fd,
                        sizeof(*event->page));
    if (ret == CUDA_SUCCESS) {
        memset(handle_p, 0, sizeof(*handle_p));
        memcpy(handle_p, &handle, sizeof(handle));
    }
    return sgpu_leave(ret);
}

CUresult cuIpcOpenEventHandle(CUevent *event_p, CUipcEventHandle opaque)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    sgpu_ipc_handle_t handle;
    sgpu_event_t *event;
    int fd;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (event_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    memcpy(&handle, &opaque, sizeof(handle));
    ret = sgpu_ipc_check(ctx, &handle, SGPU_IPC_MAGIC_EVENT);
    if (ret == CUDA_SUCCESS) {
        ret = sgpu_ipc_open(&handle, &fd);
    }
    if (ret != CUDA_SUCCESS) {
        return sgpu_leave(ret);
    }
    event = sgpu_event_create(
        ctx->dev, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING, fd);
    if (event == NULL) {
        close(fd);
        return sgpu_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    *event_p = (CUevent)(uintptr_t)event->handle;
    return sgpu_leave(CUDA_SUCCESS);
}
