/*
 * Implements cuMemcpy*. A function returns before its copy is complete in the
 * same cases as in a real driver. Functions that copy between devices always
 * return early, even if their names do not end in Async. Functions that copy
 * pageable host memory never return early, even if their names end in Async.
 *
 * Source: [CUDA] driver API, "API synchronization behavior".
 */
#include "config.h"
#include "softgpu/copy.h"

#include <stdlib.h>
#include <string.h>

/* A copy of at most this number of bytes from pageable host memory is staged:
 * the call first copies the source, and then returns early. */
#define COPY_STAGED_MAX 65536u

typedef struct copy_args {
    sgpu_place_kind_t to_kind, from_kind;
    uint64_t to, from;
    uint64_t to_pitch, from_pitch;
    uint64_t width, rows;
    int is_async;
    CUcontext peers[2]; /* for cuMemcpyPeer; NULL for the current context */
} copy_args_t;

static int copy_is_pageable(const sgpu_place_t *place)
{
    return (place->gpu == NULL) && (place->mem == NULL);
}

/* Returns 1 if a context of the call has access to both ends. The copy may then
 * use the link between the devices. */
static int copy_is_direct(const sgpu_ctx_t *ctx, const copy_args_t *args,
                          const sgpu_op_t *op)
{
    const sgpu_ctx_t *contexts[3] = {ctx, NULL, NULL};

    for (unsigned i = 0; i < 2; ++i) {
        if (args->peers[i] != NULL) {
            contexts[1 + i] = sgpu_ctx_find(args->peers[i]);
        }
    }
    for (unsigned i = 0; i < 3; ++i) {
        if ((contexts[i] != NULL) &&
            sgpu_place_is_reachable(contexts[i], &op->copy.to) &&
            sgpu_place_is_reachable(contexts[i], &op->copy.from)) {
            return 1;
        }
    }
    return 0;
}

static uint64_t copy_span(const copy_args_t *args, uint64_t pitch)
{
    return (args->rows - 1) * pitch + args->width;
}

/* Creates the operation. It holds references to both ends. */
static CUresult copy_prepare(sgpu_ctx_t *ctx, const copy_args_t *args,
                             sgpu_op_t **op_p)
{
    sgpu_op_t *op = sgpu_op_create(SGPU_OP_COPY);
    CUresult ret;

    if (op == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    ret = sgpu_place_find(ctx, args->to, copy_span(args, args->to_pitch),
                          args->to_kind, 1, &op->copy.to);
    if (ret == CUDA_SUCCESS) {
        ret =
            sgpu_place_find(ctx, args->from, copy_span(args, args->from_pitch),
                            args->from_kind, 0, &op->copy.from);
    }
    if (ret != CUDA_SUCCESS) {
        sgpu_op_destroy(op);
        return ret;
    }
    op->copy.to.pitch = args->to_pitch;
    op->copy.from.pitch = args->from_pitch;
    op->copy.width = args->width;
    op->copy.rows = args->rows;
    op->copy.path = sgpu_path_find((sgpu_link_kind_t)sgpu.session->link_kind,
                                   op->copy.from.gpu, op->copy.to.gpu,
                                   copy_is_direct(ctx, args, op));
    *op_p = op;
    return CUDA_SUCCESS;
}

/* Stages the source of a small copy, so that the caller may change the source
 * immediately. */
static int copy_stage(sgpu_op_t *op)
{
    if (op->copy.rows > 1) {
        return 0;
    }
    op->copy.staged = malloc(op->copy.width);
    if (op->copy.staged == NULL) {
        return 0;
    }
    memcpy(op->copy.staged, op->copy.from.view, op->copy.width);
    op->copy.from.view = op->copy.staged;
    return 1;
}

static int copy_must_wait(sgpu_op_t *op, int is_async)
{
    const sgpu_place_t *to = &op->copy.to, *from = &op->copy.from;

    if (is_async) {
        if (copy_is_pageable(from) && (to->gpu != NULL) &&
            (op->copy.width * op->copy.rows <= COPY_STAGED_MAX) &&
            copy_stage(op)) {
            return 0;
        }
        return copy_is_pageable(to) || copy_is_pageable(from);
    }
    return (to->gpu == NULL) || (from->gpu == NULL) ||
           to->mem->is_sync_memops || from->mem->is_sync_memops;
}

/* Returns 1 if a fault script makes this copy fail. */
static int copy_must_fail(sgpu_gpu_t *gpu)
{
    uint32_t left = gpu->copy_errors;

    while ((left != 0) &&
           !atomic_compare_exchange_weak(&gpu->copy_errors, &left, left - 1)) {
    }
    return left != 0;
}

static CUresult copy_run(CUstream handle, const copy_args_t *args)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    sgpu_stream_t *stream;
    int must_wait;
    sgpu_op_t *op;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    ret = sgpu_stream_find(ctx, handle, &stream);
    if ((ret != CUDA_SUCCESS) || (args->width == 0) || (args->rows == 0)) {
        return sgpu_leave(ret);
    }
    if (copy_must_fail(ctx->dev->gpu)) {
        return sgpu_leave(CUDA_ERROR_UNKNOWN);
    }
    ret = copy_prepare(ctx, args, &op);
    if (ret != CUDA_SUCCESS) {
        return sgpu_leave(ret);
    }
    must_wait = copy_must_wait(op, args->is_async);
    ret = sgpu_stream_append(stream, op);
    if (ret != CUDA_SUCCESS) {
        sgpu_op_destroy(op);
    } else if (must_wait) {
        ret = sgpu_stream_wait(stream, op->seq);
    }
    return sgpu_leave(ret);
}

static copy_args_t copy_linear(sgpu_place_kind_t to_kind, uint64_t to,
                               sgpu_place_kind_t from_kind, uint64_t from,
                               size_t size)
{
    return (copy_args_t){.to_kind = to_kind,
                         .from_kind = from_kind,
                         .to = to,
                         .from = from,
                         .width = size,
                         .rows = 1};
}

static CUresult copy_async(CUstream stream, copy_args_t args)
{
    args.is_async = 1;
    return copy_run(stream, &args);
}

static CUresult copy_sync(copy_args_t args)
{
    return copy_run(NULL, &args);
}

/* Assigns the arguments of a linear copy between two kinds of memory. */
#define COPY(_to_kind, _from_kind)                                             \
    copy_linear(SGPU_PLACE_##_to_kind, (uintptr_t)to, SGPU_PLACE_##_from_kind, \
                (uintptr_t)from, size)

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size)
{
    return copy_sync(COPY(ANY, ANY));
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size,
                       CUstream stream)
{
    return copy_async(stream, COPY(ANY, ANY));
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size)
{
    return copy_sync(COPY(DEVICE, HOST));
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size,
                              CUstream stream)
{
    return copy_async(stream, COPY(DEVICE, HOST));
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size)
{
    return copy_sync(COPY(HOST, DEVICE));
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size,
                              CUstream stream)
{
    return copy_async(stream, COPY(HOST, DEVICE));
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size)
{
    return copy_sync(COPY(DEVICE, DEVICE));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size,
                              CUstream stream)
{
    return copy_async(stream, COPY(DEVICE, DEVICE));
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from,
                      CUcontext from_ctx, size_t size)
{
    copy_args_t args = COPY(DEVICE, DEVICE);

    args.peers[0] = to_ctx;
    args.peers[1] = from_ctx;
    return copy_sync(args);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from,
                           CUcontext from_ctx, size_t size, CUstream stream)
{
    copy_args_t args = COPY(DEVICE, DEVICE);

    args.peers[0] = to_ctx;
    args.peers[1] = from_ctx;
    return copy_async(stream, args);
}

/* ---- Two-dimensional copies ---- */

/* One end of a two-dimensional copy. */
static CUresult copy_end(CUmemorytype type, const void *host,
                         CUdeviceptr device, size_t x, size_t y, size_t *pitch,
                         const CUDA_MEMCPY2D *copy, uint64_t *address_p,
                         sgpu_place_kind_t *kind_p)
{
    if (type == CU_MEMORYTYPE_ARRAY) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (*pitch == 0) {
        *pitch = x + copy->WidthInBytes;
    }
    if (((type != CU_MEMORYTYPE_HOST) && (type != CU_MEMORYTYPE_DEVICE) &&
         (type != CU_MEMORYTYPE_UNIFIED)) ||
        (x + copy->WidthInBytes > *pitch)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *kind_p = (type == CU_MEMORYTYPE_HOST)     ? SGPU_PLACE_HOST
              : (type == CU_MEMORYTYPE_DEVICE) ? SGPU_PLACE_DEVICE
                                               : SGPU_PLACE_ANY;
    *address_p = (type == CU_MEMORYTYPE_HOST) ? (uintptr_t)host : device;
    *address_p += y * *pitch + x;
    return CUDA_SUCCESS;
}

static CUresult copy_rows(const CUDA_MEMCPY2D *copy, int is_async,
                          CUstream stream)
{
    copy_args_t args = {.is_async = is_async};
    size_t to_pitch, from_pitch;
    CUresult ret;

    if (copy == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    to_pitch = copy->dstPitch;
    from_pitch = copy->srcPitch;
    ret = copy_end(copy->dstMemoryType, copy->dstHost, copy->dstDevice,
                   copy->dstXInBytes, copy->dstY, &to_pitch, copy, &args.to,
                   &args.to_kind);
    if (ret == CUDA_SUCCESS) {
        ret = copy_end(copy->srcMemoryType, copy->srcHost, copy->srcDevice,
                       copy->srcXInBytes, copy->srcY, &from_pitch, copy,
                       &args.from, &args.from_kind);
    }
    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    args.to_pitch = to_pitch;
    args.from_pitch = from_pitch;
    args.width = copy->WidthInBytes;
    args.rows = copy->Height;
    return copy_run(stream, &args);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy)
{
    return copy_rows(copy, 0, NULL);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy)
{
    return copy_rows(copy, 0, NULL);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    return copy_rows(copy, 1, stream);
}
