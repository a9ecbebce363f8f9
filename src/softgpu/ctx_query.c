/* Properties of contexts, and access to the memory of other devices. */
#include "config.h"
#include "softgpu/state.h"

CUresult cuCtxGetDevice(CUdevice *dev_p)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (dev_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *dev_p = (CUdevice)ctx->dev->ordinal;
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetFlags(unsigned int *flags_p)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (flags_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *flags_p = ctx->flags;
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuCtxSetFlags(unsigned int flags)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((flags & ~(unsigned)CU_CTX_FLAGS_MASK) != 0) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    ctx->flags = flags;
    return sgpu_leave(CUDA_SUCCESS);
}

/* Finds a context by its handle. NULL stands for the current context. */
static CUresult query_enter(CUcontext handle, sgpu_ctx_t **ctx_p)
{
    CUresult ret = sgpu_enter();

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    *ctx_p = (handle != NULL) ? sgpu_ctx_find(handle) : sgpu_ctx_current();
    return (*ctx_p != NULL) ? CUDA_SUCCESS
                            : sgpu_leave(CUDA_ERROR_INVALID_CONTEXT);
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long *id_p)
{
    sgpu_ctx_t *ctx;
    CUresult ret = query_enter(handle, &ctx);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (id_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *id_p = ctx->id;
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int *version_p)
{
    sgpu_ctx_t *ctx;
    CUresult ret = query_enter(handle, &ctx);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (version_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *version_p = 3020;
    return sgpu_leave(CUDA_SUCCESS);
}

/* Priorities are accepted, but have no effect. */
CUresult cuCtxGetStreamPriorityRange(int *least_p, int *greatest_p)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (least_p != NULL) {
        *least_p = 0;
    }
    if (greatest_p != NULL) {
        *greatest_p = -5;
    }
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuCtxSynchronize(void)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    uint64_t handle;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    handle = ctx->handle;
    sgpu_dev_drain(ctx->dev);
    return sgpu_leave(sgpu_ctx_error(handle));
}

static CUresult query_peer(sgpu_ctx_t *ctx, CUcontext handle, uint32_t *bit_p)
{
    sgpu_ctx_t *peer = sgpu_ctx_find(handle);

    if (peer == NULL) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (peer->dev == ctx->dev) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *bit_p = 1u << peer->dev->ordinal;
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    uint32_t bit;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (flags != 0) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    ret = query_peer(ctx, peer, &bit);
    if (ret != CUDA_SUCCESS) {
        return sgpu_leave(ret);
    }
    if (!sgpu_path_joins((sgpu_link_kind_t)sgpu.session->link_kind,
                         ctx->dev->gpu, sgpu_ctx_find(peer)->dev->gpu)) {
        return sgpu_leave(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    }
    if (ctx->peers & bit) {
        return sgpu_leave(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    }
    ctx->peers |= bit;
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    uint32_t bit;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    ret = query_peer(ctx, peer, &bit);
    if (ret != CUDA_SUCCESS) {
        return sgpu_leave(ret);
    }
    if (!(ctx->peers & bit)) {
        return sgpu_leave(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    }
    ctx->peers &= ~bit;
    return sgpu_leave(CUDA_SUCCESS);
}
