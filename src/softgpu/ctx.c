/* Contexts. Each thread has a stack of contexts. The top is the current
 * context. */
#include "config.h"
#include "softgpu/work.h"

#include <stdlib.h>

static __thread CUcontext stack[SGPU_CTX_STACK];
static __thread unsigned depth;

sgpu_ctx_t *sgpu_ctx_find(CUcontext ctx)
{
    return sgpu_handle_find(SGPU_HANDLE_CTX, (uintptr_t)ctx);
}

sgpu_ctx_t *sgpu_ctx_current(void)
{
    return (depth != 0) ? sgpu_ctx_find(stack[depth - 1]) : NULL;
}

CUresult sgpu_ctx_error(uint64_t handle)
{
    const sgpu_ctx_t *ctx = sgpu_handle_find(SGPU_HANDLE_CTX, handle);

    return (ctx != NULL) ? ctx->error : CUDA_SUCCESS;
}

static void ctx_unlink_streams(sgpu_ctx_t *ctx)
{
    while (!mrail_list_empty(&ctx->streams)) {
        sgpu_stream_destroy(
            mrail_list_head(&ctx->streams, sgpu_stream_t, list));
    }
}

static CUresult ctx_create(sgpu_dev_t *dev, unsigned flags, int is_primary,
                           sgpu_ctx_t **ctx_p)
{
    sgpu_ctx_t *ctx = calloc(1, sizeof(*ctx));
    CUresult ret = CUDA_ERROR_OUT_OF_MEMORY;

    if (ctx == NULL) {
        return ret;
    }
    mrail_list_init(&ctx->streams);
    mrail_list_init(&ctx->modules);
    ctx->dev = dev;
    ctx->id = ++sgpu.next_id;
    ctx->flags = flags;
    ctx->refs = 1;
    ctx->is_primary = is_primary;
    ctx->handle = sgpu_handle_create(SGPU_HANDLE_CTX, ctx);
    if (ctx->handle == 0) {
        goto err_free;
    }
    ret = sgpu_stream_create(ctx, 0, 0, &ctx->legacy);
    if (ret == CUDA_SUCCESS) {
        ret = sgpu_stream_create(ctx, 0, 0, &ctx->per_thread);
    }
    if (ret == CUDA_SUCCESS) {
        ret = sgpu_engine_start(dev);
    }
    if (ret != CUDA_SUCCESS) {
        goto err_handle;
    }
    mrail_list_add_tail(&sgpu.ctxs, &ctx->list);
    *ctx_p = ctx;
    return CUDA_SUCCESS;

err_handle:
    ctx_unlink_streams(ctx);
    sgpu_handle_destroy(ctx->handle);
err_free:
    free(ctx);
    return ret;
}

/* Waits for the work of the device, and frees everything that belongs to the
 * context. */
static void ctx_destroy(sgpu_ctx_t *ctx)
{
    uint64_t handle = ctx->handle;

    /* Destroy the handle first, so that other threads do not find the context
     * while this thread waits. */
    sgpu_handle_destroy(handle);
    mrail_list_del(&ctx->list);
    if (ctx->is_primary) {
        ctx->dev->primary = NULL;
    }
    sgpu_dev_drain(ctx->dev);
    sgpu_modules_unload(ctx);
    ctx_unlink_streams(ctx);
    for (sgpu_mem_t *mem = sgpu_mem_first(), *next; mem != NULL; mem = next) {
        next = sgpu_mem_after(mem);
        if (mem->ctx == handle) {
            sgpu_mem_remove(mem);
        }
    }
    free(ctx);
}

static int ctx_has_work(const sgpu_dev_t *dev, uint64_t last_serial)
{
    sgpu_stream_t *stream;

    mrail_list_for_each(stream, &dev->busy, sgpu_stream_t, busy) {
        if (mrail_list_head(&stream->ops, sgpu_op_t, list)->serial <=
            last_serial) {
            return 1;
        }
    }
    return 0;
}

void sgpu_dev_drain(sgpu_dev_t *dev)
{
    uint64_t last_serial = sgpu.last_serial;

    while (ctx_has_work(dev, last_serial)) {
        pthread_cond_wait(&sgpu.done, &sgpu.lock);
    }
}

/* ---- Primary contexts ---- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx_p, CUdevice ordinal)
{
    sgpu_dev_t *dev;
    CUresult ret = sgpu_enter_dev(ordinal, &dev);
    sgpu_ctx_t *ctx;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (ctx_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (dev->primary != NULL) {
        ++dev->primary->refs;
    } else {
        ret = ctx_create(dev, dev->primary_flags, 1, &ctx);
        if (ret != CUDA_SUCCESS) {
            return sgpu_leave(ret);
        }
        dev->primary = ctx;
    }
    *ctx_p = (CUcontext)(uintptr_t)dev->primary->handle;
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal)
{
    sgpu_dev_t *dev;
    CUresult ret = sgpu_enter_dev(ordinal, &dev);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (dev->primary == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_CONTEXT);
    }
    if (--dev->primary->refs == 0) {
        ctx_destroy(dev->primary);
    }
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice ordinal)
{
    sgpu_dev_t *dev;
    CUresult ret = sgpu_enter_dev(ordinal, &dev);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (dev->primary != NULL) {
        ctx_destroy(dev->primary);
    }
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned int flags)
{
    sgpu_dev_t *dev;
    CUresult ret = sgpu_enter_dev(ordinal, &dev);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((flags & ~(unsigned)CU_CTX_FLAGS_MASK) != 0) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    dev->primary_flags = flags;
    if (dev->primary != NULL) {
        dev->primary->flags = flags;
    }
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned int *flags_p,
                                    int *active_p)
{
    sgpu_dev_t *dev;
    CUresult ret = sgpu_enter_dev(ordinal, &dev);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((flags_p == NULL) || (active_p == NULL)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *flags_p = dev->primary_flags;
    *active_p = (dev->primary != NULL);
    return sgpu_leave(CUDA_SUCCESS);
}

/* ---- Other contexts ---- */

CUresult cuCtxCreate_v2(CUcontext *ctx_p, unsigned int flags, CUdevice ordinal)
{
    sgpu_dev_t *dev;
    CUresult ret = sgpu_enter_dev(ordinal, &dev);
    sgpu_ctx_t *ctx;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((ctx_p == NULL) || ((flags & ~(unsigned)CU_CTX_FLAGS_MASK) != 0)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (depth == SGPU_CTX_STACK) {
        return sgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    ret = ctx_create(dev, flags, 0, &ctx);
    if (ret == CUDA_SUCCESS) {
        *ctx_p = (CUcontext)(uintptr_t)ctx->handle;
        stack[depth++] = *ctx_p;
    }
    return sgpu_leave(ret);
}

/* Execution affinity and graphics contexts are not supported. */
CUresult cuCtxCreate_v3(CUcontext *ctx_p, CUexecAffinityParam *params, int num,
                        unsigned int flags, CUdevice ordinal)
{
    return (num != 0) ? CUDA_ERROR_NOT_SUPPORTED
                      : cuCtxCreate_v2(ctx_p, flags, ordinal);
}

CUresult cuCtxCreate_v4(CUcontext *ctx_p, CUctxCreateParams *params,
                        unsigned int flags, CUdevice ordinal)
{
    return (params != NULL) ? CUDA_ERROR_NOT_SUPPORTED
                            : cuCtxCreate_v2(ctx_p, flags, ordinal);
}

CUresult cuCtxDestroy_v2(CUcontext handle)
{
    CUresult ret = sgpu_enter();
    sgpu_ctx_t *ctx;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    ctx = sgpu_ctx_find(handle);
    if ((ctx == NULL) || ctx->is_primary) {
        return sgpu_leave(CUDA_ERROR_INVALID_CONTEXT);
    }
    if ((depth != 0) && (stack[depth - 1] == handle)) {
        --depth;
    }
    ctx_destroy(ctx);
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
    CUresult ret = sgpu_enter();

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (sgpu_ctx_find(ctx) == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_CONTEXT);
    }
    if (depth == SGPU_CTX_STACK) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    stack[depth++] = ctx;
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuCtxPopCurrent_v2(CUcontext *ctx_p)
{
    CUresult ret = sgpu_enter();

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (depth == 0) {
        return sgpu_leave(CUDA_ERROR_INVALID_CONTEXT);
    }
    --depth;
    if (ctx_p != NULL) {
        *ctx_p = stack[depth];
    }
    return sgpu_leave(CUDA_SUCCESS);
}

/* Replaces the top of the stack. NULL removes it. */
CUresult cuCtxSetCurrent(CUcontext ctx)
{
    CUresult ret = sgpu_enter();

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((ctx != NULL) && (sgpu_ctx_find(ctx) == NULL)) {
        return sgpu_leave(CUDA_ERROR_INVALID_CONTEXT);
    }
    if (depth != 0) {
        --depth;
    }
    if (ctx != NULL) {
        stack[depth++] = ctx;
    }
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetCurrent(CUcontext *ctx_p)
{
    CUresult ret = sgpu_enter();

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (ctx_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *ctx_p = (depth != 0) ? stack[depth - 1] : NULL;
    return sgpu_leave(CUDA_SUCCESS);
}
