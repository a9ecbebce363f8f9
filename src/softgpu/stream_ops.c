/* Implements operations in streams other than copies and events: memory sets,
 * host functions, and values in memory. */
#include "config.h"
#include "softgpu/copy.h"

/* ---- Memory sets ---- */

/* Sets memory. If is_async is 0 and the memory is host memory or has
 * SYNC_MEMOPS, the call returns only after the memory has been set, as in a
 * real driver. */
static CUresult set_run(CUdeviceptr to, unsigned unit, uint32_t value,
                        size_t num, int is_async, CUstream handle)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    sgpu_stream_t *stream;
    sgpu_op_t *op;
    int must_wait;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    ret = sgpu_stream_find(ctx, handle, &stream);
    if ((ret != CUDA_SUCCESS) || (num == 0)) {
        return sgpu_leave(ret);
    }
    if ((num > SIZE_MAX / unit) || (to % unit != 0)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    op = sgpu_op_create(SGPU_OP_SET);
    if (op == NULL) {
        return sgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    ret =
        sgpu_place_find(ctx, to, num * unit, SGPU_PLACE_DEVICE, 1, &op->set.to);
    if (ret == CUDA_SUCCESS) {
        op->set.value = value;
        op->set.unit = unit;
        op->set.num = num;
        must_wait = !is_async && ((op->set.to.gpu == NULL) ||
                                  op->set.to.mem->is_sync_memops);
        ret = sgpu_stream_append(stream, op);
    }
    if (ret != CUDA_SUCCESS) {
        sgpu_op_destroy(op);
    } else if (must_wait) {
        ret = sgpu_stream_wait(stream, op->seq);
    }
    return sgpu_leave(ret);
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t num)
{
    return set_run(to, 1, value, num, 0, NULL);
}

CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t num)
{
    return set_run(to, 2, value, num, 0, NULL);
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t num)
{
    return set_run(to, 4, value, num, 0, NULL);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t num,
                         CUstream stream)
{
    return set_run(to, 1, value, num, 1, stream);
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t num,
                          CUstream stream)
{
    return set_run(to, 2, value, num, 1, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t num,
                          CUstream stream)
{
    return set_run(to, 4, value, num, 1, stream);
}

/* ---- Host functions ---- */

static CUresult func_run(CUstream handle, CUhostFn func,
                         CUstreamCallback callback, void *arg)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    sgpu_stream_t *stream;
    sgpu_op_t *op;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    ret = sgpu_stream_find(ctx, handle, &stream);
    if (ret != CUDA_SUCCESS) {
        return sgpu_leave(ret);
    }
    op = sgpu_op_create(SGPU_OP_FUNC);
    if (op == NULL) {
        return sgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    mrail_list_init(&op->func.due);
    op->func.func = func;
    op->func.callback = callback;
    op->func.stream = handle;
    op->func.ctx_handle = ctx->handle;
    op->func.arg = arg;
    ret = sgpu_stream_append(stream, op);
    if (ret != CUDA_SUCCESS) {
        sgpu_op_destroy(op);
    }
    return sgpu_leave(ret);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn func, void *arg)
{
    return (func == NULL) ? CUDA_ERROR_INVALID_VALUE
                          : func_run(stream, func, NULL, arg);
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback func, void *arg,
                             unsigned int flags)
{
    return ((func == NULL) || (flags != 0)) ? CUDA_ERROR_INVALID_VALUE
                                            : func_run(stream, NULL, func, arg);
}

/* ---- Values in memory ---- */

typedef struct value_args {
    sgpu_op_kind_t kind;
    int is_64;
    CUdeviceptr address;
    uint64_t value;
    unsigned flags;
} value_args_t;

static CUresult value_append(sgpu_ctx_t *ctx, sgpu_stream_t *stream,
                             const value_args_t *args)
{
    unsigned size = args->is_64 ? 8 : 4;
    unsigned last_flag =
        (args->kind == SGPU_OP_WAIT_VALUE) ? CU_STREAM_WAIT_VALUE_NOR : 0;
    sgpu_place_t place;
    sgpu_op_t *op;
    CUresult ret;

    if ((args->address % size != 0) || (args->flags > last_flag)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    ret = sgpu_place_find(ctx, args->address, size, SGPU_PLACE_DEVICE,
                          args->kind == SGPU_OP_WRITE_VALUE, &place);
    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    op = sgpu_op_create(args->kind);
    if (op == NULL) {
        sgpu_place_put(&place);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    op->value.mem = place.mem;
    op->value.view = place.view;
    op->value.value = args->value;
    op->value.is_64 = args->is_64;
    op->value.flags = args->flags;
    ret = sgpu_stream_append(stream, op);
    if (ret != CUDA_SUCCESS) {
        sgpu_op_destroy(op);
    }
    return ret;
}

static CUresult value_run(CUstream handle, value_args_t args)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    sgpu_stream_t *stream;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    ret = sgpu_stream_find(ctx, handle, &stream);
    if (ret == CUDA_SUCCESS) {
        ret = value_append(ctx, stream, &args);
    }
    return sgpu_leave(ret);
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address,
                                cuuint32_t value, unsigned int flags)
{
    return value_run(
        stream, (value_args_t){SGPU_OP_WAIT_VALUE, 0, address, value, flags});
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address,
                                cuuint64_t value, unsigned int flags)
{
    return value_run(
        stream, (value_args_t){SGPU_OP_WAIT_VALUE, 1, address, value, flags});
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address,
                                 cuuint32_t value, unsigned int flags)
{
    return value_run(
        stream, (value_args_t){SGPU_OP_WRITE_VALUE, 0, address, value, flags});
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address,
                                 cuuint64_t value, unsigned int flags)
{
    return value_run(
        stream, (value_args_t){SGPU_OP_WRITE_VALUE, 1, address, value, flags});
}

/* Converts one entry. Entries for waiting and for writing have the same
 * layout. */
static CUresult value_of_param(const CUstreamBatchMemOpParams *param,
                               value_args_t *args_p)
{
    value_args_t args = {.address = param->waitValue.address,
                         .flags = param->waitValue.flags};

    switch (param->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        args.kind = SGPU_OP_WAIT_VALUE;
        break;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        args.kind = SGPU_OP_WRITE_VALUE;
        break;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    args.is_64 = (param->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64) ||
                 (param->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64);
    args.value = args.is_64 ? param->waitValue.value64 : param->waitValue.value;
    *args_p = args;
    return CUDA_SUCCESS;
}

CUresult cuStreamBatchMemOp_v2(CUstream handle, unsigned int num,
                               CUstreamBatchMemOpParams *params,
                               unsigned int flags)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    sgpu_stream_t *stream;
    value_args_t args;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    ret = sgpu_stream_find(ctx, handle, &stream);
    if ((ret == CUDA_SUCCESS) &&
        ((flags != 0) || (num > 256) || ((params == NULL) && (num != 0)))) {
        ret = CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; (ret == CUDA_SUCCESS) && (i < num); ++i) {
        ret = value_of_param(&params[i], &args);
        if (ret == CUDA_SUCCESS) {
            ret = value_append(ctx, stream, &args);
        }
    }
    return sgpu_leave(ret);
}
