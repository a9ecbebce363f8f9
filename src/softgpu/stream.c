/*
 * Implements streams, which are queues of operations that the engine of the
 * device executes in order. The legacy stream of a context waits for all
 * earlier work in blocking streams (those without CU_STREAM_NON_BLOCKING), and
 * blocking streams wait for the work of the legacy stream.
 */
#include "config.h"
#include "softgpu/work.h"

#include <stdlib.h>

CUresult sgpu_stream_create(sgpu_ctx_t *ctx, unsigned flags, int has_handle,
                            sgpu_stream_t **stream_p)
{
    sgpu_stream_t *stream = calloc(1, sizeof(*stream));

    if (stream == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (has_handle) {
        stream->handle = sgpu_handle_create(SGPU_HANDLE_STREAM, stream);
        if (stream->handle == 0) {
            free(stream);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    mrail_list_init(&stream->busy);
    mrail_list_init(&stream->ops);
    stream->ctx = ctx;
    stream->ctx_handle = ctx->handle;
    stream->dev = ctx->dev;
    stream->refs = 1;
    stream->flags = flags;
    stream->id = ++sgpu.next_id;
    mrail_list_add_tail(&ctx->streams, &stream->list);
    *stream_p = stream;
    return CUDA_SUCCESS;
}

CUresult sgpu_stream_find(sgpu_ctx_t *ctx, CUstream handle,
                          sgpu_stream_t **stream_p)
{
    if ((handle == NULL) || (handle == CU_STREAM_LEGACY)) {
        *stream_p = ctx->legacy;
    } else if (handle == CU_STREAM_PER_THREAD) {
        *stream_p = ctx->per_thread;
    } else {
        *stream_p = sgpu_handle_find(SGPU_HANDLE_STREAM, (uintptr_t)handle);
    }
    return (*stream_p != NULL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

void sgpu_stream_get(sgpu_stream_t *stream)
{
    ++stream->refs;
}

void sgpu_stream_put(sgpu_stream_t *stream)
{
    if (--stream->refs == 0) {
        free(stream);
    }
}

void sgpu_stream_destroy(sgpu_stream_t *stream)
{
    if (stream->handle != 0) {
        sgpu_handle_destroy(stream->handle);
    }
    mrail_list_del(&stream->list);
    stream->ctx = NULL;
    sgpu_stream_put(stream);
}

sgpu_op_t *sgpu_op_create(sgpu_op_kind_t kind)
{
    sgpu_op_t *op = calloc(1, sizeof(*op));

    if (op != NULL) {
        op->kind = kind;
        mrail_list_init(&op->list);
    }
    return op;
}

static void stream_push(sgpu_stream_t *stream, sgpu_op_t *op)
{
    op->seq = ++stream->enqueued;
    op->serial = ++sgpu.last_serial;
    op->ready_ns = mrail_clock_now();
    if (mrail_list_empty(&stream->ops)) {
        mrail_list_add_tail(&stream->dev->busy, &stream->busy);
        sgpu_stream_get(stream);
    }
    mrail_list_add_tail(&stream->ops, &op->list);
}

/* Makes `stream` wait for the last operation of `other`. */
static CUresult stream_wait_for(sgpu_stream_t *stream, sgpu_stream_t *other)
{
    sgpu_op_t *op = sgpu_op_create(SGPU_OP_AFTER);

    if (op == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    op->after.stream = other;
    op->after.seq = other->enqueued;
    sgpu_stream_get(other);
    stream_push(stream, op);
    return CUDA_SUCCESS;
}

static CUresult stream_wait_for_all(sgpu_stream_t *legacy)
{
    sgpu_stream_t *other;
    CUresult ret = CUDA_SUCCESS;

    mrail_list_for_each(other, &legacy->ctx->streams, sgpu_stream_t, list) {
        if ((other == legacy) || (other->flags & CU_STREAM_NON_BLOCKING) ||
            (other->completed == other->enqueued) ||
            (other->seen_by_legacy == other->enqueued)) {
            continue;
        }
        ret = stream_wait_for(legacy, other);
        if (ret != CUDA_SUCCESS) {
            break;
        }
        other->seen_by_legacy = other->enqueued;
    }
    return ret;
}

CUresult sgpu_stream_append(sgpu_stream_t *stream, sgpu_op_t *op)
{
    sgpu_stream_t *legacy = stream->ctx->legacy;
    CUresult ret = CUDA_SUCCESS;

    if (stream == legacy) {
        ret = stream_wait_for_all(legacy);
    } else if (!(stream->flags & CU_STREAM_NON_BLOCKING) &&
               (legacy->completed < legacy->enqueued) &&
               (stream->legacy_seen < legacy->enqueued)) {
        ret = stream_wait_for(stream, legacy);
        stream->legacy_seen = legacy->enqueued;
    }
    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    stream_push(stream, op);
    sgpu_engine_signal();
    return CUDA_SUCCESS;
}

CUresult sgpu_stream_wait(sgpu_stream_t *stream, uint64_t seq)
{
    uint64_t ctx = stream->ctx_handle;

    sgpu_stream_get(stream);
    while (stream->completed < seq) {
        pthread_cond_wait(&sgpu.done, &sgpu.lock);
    }
    sgpu_stream_put(stream);
    return sgpu_ctx_error(ctx);
}

void sgpu_stream_fail(const sgpu_stream_t *stream, CUresult error)
{
    sgpu_ctx_t *ctx = sgpu_handle_find(SGPU_HANDLE_CTX, stream->ctx_handle);

    if ((ctx != NULL) && (ctx->error == CUDA_SUCCESS)) {
        ctx->error = error;
    }
}

/* ---- The driver's functions ---- */

CUresult cuStreamCreateWithPriority(CUstream *stream_p, unsigned int flags,
                                    int priority)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    sgpu_stream_t *stream;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((stream_p == NULL) || ((flags & ~(unsigned)CU_STREAM_NON_BLOCKING))) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    ret = sgpu_stream_create(ctx, flags, 1, &stream);
    if (ret == CUDA_SUCCESS) {
        stream->priority = MRAIL_MAX(-5, MRAIL_MIN(priority, 0));
        *stream_p = (CUstream)(uintptr_t)stream->handle;
    }
    return sgpu_leave(ret);
}

CUresult cuStreamCreate(CUstream *stream_p, unsigned int flags)
{
    return cuStreamCreateWithPriority(stream_p, flags, 0);
}

/* Enters the library (sgpu_enter()), and finds the stream. */
static CUresult stream_enter(CUstream handle, sgpu_stream_t **stream_p)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    ret = sgpu_stream_find(ctx, handle, stream_p);
    return (ret == CUDA_SUCCESS) ? ret : sgpu_leave(ret);
}

CUresult cuStreamDestroy_v2(CUstream handle)
{
    sgpu_stream_t *stream;
    CUresult ret = stream_enter(handle, &stream);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (stream->handle == 0) {
        return sgpu_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    sgpu_stream_destroy(stream);
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuStreamQuery(CUstream handle)
{
    sgpu_stream_t *stream;
    CUresult ret = stream_enter(handle, &stream);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    return sgpu_leave((stream->completed == stream->enqueued)
                          ? CUDA_SUCCESS
                          : CUDA_ERROR_NOT_READY);
}

CUresult cuStreamSynchronize(CUstream handle)
{
    sgpu_stream_t *stream;
    CUresult ret = stream_enter(handle, &stream);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (stream == stream->ctx->legacy) {
        ret = stream_wait_for_all(stream);
        sgpu_engine_signal();
    }
    if (ret == CUDA_SUCCESS) {
        ret = sgpu_stream_wait(stream, stream->enqueued);
    }
    return sgpu_leave(ret);
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int *flags_p)
{
    sgpu_stream_t *stream;
    CUresult ret = stream_enter(handle, &stream);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (flags_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *flags_p = stream->flags;
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuStreamGetPriority(CUstream handle, int *priority_p)
{
    sgpu_stream_t *stream;
    CUresult ret = stream_enter(handle, &stream);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (priority_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *priority_p = stream->priority;
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *ctx_p)
{
    sgpu_stream_t *stream;
    CUresult ret = stream_enter(handle, &stream);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (ctx_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *ctx_p = (CUcontext)(uintptr_t)stream->ctx->handle;
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *id_p)
{
    sgpu_stream_t *stream;
    CUresult ret = stream_enter(handle, &stream);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (id_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *id_p = stream->id;
    return sgpu_leave(CUDA_SUCCESS);
}

/* Graphs are not supported, so streams are never being captured. */
CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status_p)
{
    sgpu_stream_t *stream;
    CUresult ret = stream_enter(handle, &stream);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (status_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *status_p = CU_STREAM_CAPTURE_STATUS_NONE;
    return sgpu_leave(CUDA_SUCCESS);
}
