/* The steps by which the engine executes each kind of operation. */
#include "config.h"
#include "softgpu/work.h"

#include <stdlib.h>
#include <string.h>

/* Interval at which the engine polls a value that another process or device
 * writes. After many polls, the longer interval applies. */
#define OP_POLL_NS (20 * MRAIL_NS_PER_US)
#define OP_POLL_LONG_NS (200 * MRAIL_NS_PER_US)
#define OP_POLLS 500

static sgpu_step_t op_wait(sgpu_op_t *op, mrail_ns_t wake_ns)
{
    op->wake_ns = wake_ns;
    return SGPU_STEP_AGAIN;
}

/* ---- Copies ---- */

/* Copies `bytes` from the current position on, row by row. */
static void op_copy_bytes(const sgpu_op_t *op, uint64_t bytes)
{
    uint64_t width = op->copy.width, at = op->copy.done;

    while (bytes > 0) {
        uint64_t row = at / width, column = at % width;
        uint64_t n = MRAIL_MIN(bytes, width - column);

        memmove(op->copy.to.view + row * op->copy.to.pitch + column,
                op->copy.from.view + row * op->copy.from.pitch + column, n);
        at += n;
        bytes -= n;
    }
}

static void op_count_copy(const sgpu_op_t *op)
{
    sgpu_gpu_t *from = op->copy.from.gpu, *to = op->copy.to.gpu;
    uint64_t bytes = op->copy.width * op->copy.rows;

    if ((from == NULL) && (to == NULL)) {
        return;
    }
    if (from == NULL) {
        sgpu_count(to, SGPU_CNT_COPIES_IN, 1);
        sgpu_count(to, SGPU_CNT_BYTES_IN, bytes);
    } else if (to == NULL) {
        sgpu_count(from, SGPU_CNT_COPIES_OUT, 1);
        sgpu_count(from, SGPU_CNT_BYTES_OUT, bytes);
    } else if (from == to) {
        sgpu_count(from, SGPU_CNT_COPIES_LOCAL, 1);
        sgpu_count(from, SGPU_CNT_BYTES_LOCAL, bytes);
    } else {
        sgpu_count(from, SGPU_CNT_COPIES_PEER, 1);
        sgpu_count(from, SGPU_CNT_BYTES_PEER, bytes);
    }
}

/* A copy holds references to its memory, so it releases the lock while it moves
 * bytes. It moves the bytes of a chunk early. The chunk is complete only at the
 * time at which a real copy would have crossed the links. */
static sgpu_step_t op_step_copy(sgpu_stream_t *stream, sgpu_op_t *op,
                                mrail_ns_t now_ns)
{
    uint64_t total = op->copy.width * op->copy.rows;
    mrail_ns_t ready_ns = MRAIL_MAX(op->ready_ns, op->copy.end_ns);
    uint32_t bytes;

    if (op->copy.end_ns > now_ns) {
        return op_wait(op, op->copy.end_ns);
    }
    if (op->copy.done == total) {
        stream->ideal_ns = MRAIL_MAX(op->copy.end_ns, op->ready_ns);
        op_count_copy(op);
        return SGPU_STEP_DONE;
    }
    if (sgpu_path_is_cut(&op->copy.path)) {
        sgpu_stream_fail(stream, CUDA_ERROR_NVLINK_UNCORRECTABLE);
        return SGPU_STEP_DONE;
    }
    bytes = sgpu_path_chunk(&op->copy.path, total - op->copy.done);
    op->copy.end_ns =
        sgpu_path_reserve(&op->copy.path, bytes, ready_ns, now_ns);
    pthread_mutex_unlock(&sgpu.lock);
    op_copy_bytes(op, bytes);
    pthread_mutex_lock(&sgpu.lock);
    op->copy.done += bytes;
    return op_wait(op, op->copy.end_ns);
}

static sgpu_step_t op_step_set(sgpu_stream_t *stream, sgpu_op_t *op,
                               mrail_ns_t now_ns)
{
    char *view = op->set.to.view;

    pthread_mutex_unlock(&sgpu.lock);
    for (uint64_t i = 0; i < op->set.num; ++i) {
        memcpy(view + i * op->set.unit, &op->set.value, op->set.unit);
    }
    pthread_mutex_lock(&sgpu.lock);
    if (op->set.to.gpu != NULL) {
        sgpu_count(op->set.to.gpu, SGPU_CNT_MEMSETS, 1);
    }
    stream->ideal_ns = now_ns;
    return SGPU_STEP_DONE;
}

/* ---- Host functions ---- */

static sgpu_step_t op_step_func(sgpu_stream_t *stream, sgpu_op_t *op,
                                mrail_ns_t now_ns)
{
    if (op->func.is_done) {
        sgpu_count(stream->dev->gpu, SGPU_CNT_HOST_FUNCS, 1);
        stream->ideal_ns = now_ns;
        return SGPU_STEP_DONE;
    }
    if (!op->func.is_started) {
        op->func.is_started = 1;
        mrail_list_add_tail(&stream->dev->funcs, &op->func.due);
        pthread_cond_signal(&stream->dev->func_wake);
    }
    return op_wait(op, MRAIL_NS_NEVER);
}

/* ---- Order between streams ---- */

static sgpu_step_t op_step_record(sgpu_stream_t *stream, sgpu_op_t *op,
                                  mrail_ns_t now_ns)
{
    sgpu_event_t *event = op->record.event;

    if ((event->stream == stream) && (event->seq == op->seq)) {
        event->time_ns = now_ns;
    }
    if (event->page != NULL) {
        event->page->done[op->record.number % SGPU_EVENT_RECORDS] =
            op->record.number;
    }
    return SGPU_STEP_DONE;
}

static sgpu_step_t op_step_after(sgpu_stream_t *stream, sgpu_op_t *op,
                                 mrail_ns_t now_ns)
{
    if (op->after.stream->completed < op->after.seq) {
        return op_wait(op, MRAIL_NS_NEVER);
    }
    stream->ideal_ns = now_ns;
    return SGPU_STEP_DONE;
}

static sgpu_step_t op_step_after_event(sgpu_stream_t *stream, sgpu_op_t *op,
                                       mrail_ns_t now_ns)
{
    if (!sgpu_event_page_is_done(op->after_event.event->page,
                                 op->after_event.number)) {
        return op_wait(op, now_ns + OP_POLL_NS);
    }
    stream->ideal_ns = now_ns;
    return SGPU_STEP_DONE;
}

/* ---- Values in memory ---- */

static int op_value_is_met(const sgpu_op_t *op)
{
    uint64_t wanted = op->value.value, found;
    uint64_t mask = op->value.is_64 ? UINT64_MAX : UINT32_MAX;

    found = op->value.is_64 ? atomic_load((_Atomic uint64_t *)op->value.view)
                            : atomic_load((_Atomic uint32_t *)op->value.view);
    switch (op->value.flags) {
    case CU_STREAM_WAIT_VALUE_EQ:
        return found == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
        return (found & wanted) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
        return (~(found | wanted) & mask) != 0;
    default: /* GEQ, cyclic */
        return op->value.is_64
                   ? ((int64_t)(found - wanted) >= 0)
                   : ((int32_t)((uint32_t)found - (uint32_t)wanted) >= 0);
    }
}

static sgpu_step_t op_step_wait_value(sgpu_stream_t *stream, sgpu_op_t *op,
                                      mrail_ns_t now_ns)
{
    if (!op_value_is_met(op)) {
        return op_wait(op, now_ns + ((++op->value.polls < OP_POLLS)
                                         ? OP_POLL_NS
                                         : OP_POLL_LONG_NS));
    }
    stream->ideal_ns = now_ns;
    return SGPU_STEP_DONE;
}

static sgpu_step_t op_step_write_value(sgpu_stream_t *stream, sgpu_op_t *op,
                                       mrail_ns_t now_ns)
{
    if (op->value.is_64) {
        atomic_store((_Atomic uint64_t *)op->value.view, op->value.value);
    } else {
        atomic_store((_Atomic uint32_t *)op->value.view,
                     (uint32_t)op->value.value);
    }
    return SGPU_STEP_DONE;
}

static sgpu_step_t op_step_kernel(sgpu_stream_t *stream, sgpu_op_t *op,
                                  mrail_ns_t now_ns)
{
    if (sgpu_launch_step(op->kernel.launch) == SGPU_STEP_AGAIN) {
        return op_wait(op, MRAIL_NS_NEVER);
    }
    stream->ideal_ns = now_ns;
    return SGPU_STEP_DONE;
}

/* The end of the operation releases the memory. */
static sgpu_step_t op_step_free(sgpu_stream_t *stream, sgpu_op_t *op,
                                mrail_ns_t now_ns)
{
    return SGPU_STEP_DONE;
}

sgpu_step_t sgpu_op_step(sgpu_stream_t *stream, sgpu_op_t *op,
                         mrail_ns_t now_ns)
{
    static sgpu_step_t (*const steps[SGPU_OP_NUM])(sgpu_stream_t *, sgpu_op_t *,
                                                   mrail_ns_t) = {
        [SGPU_OP_COPY] = op_step_copy,
        [SGPU_OP_SET] = op_step_set,
        [SGPU_OP_FUNC] = op_step_func,
        [SGPU_OP_RECORD] = op_step_record,
        [SGPU_OP_AFTER] = op_step_after,
        [SGPU_OP_AFTER_EVENT] = op_step_after_event,
        [SGPU_OP_WAIT_VALUE] = op_step_wait_value,
        [SGPU_OP_WRITE_VALUE] = op_step_write_value,
        [SGPU_OP_KERNEL] = op_step_kernel,
        [SGPU_OP_FREE] = op_step_free,
    };

    return steps[op->kind](stream, op, now_ns);
}

/* An operation cannot be dropped while threads execute its host function or
 * kernel, or if its callback must receive the error. */
int sgpu_op_can_drop(const sgpu_op_t *op)
{
    switch (op->kind) {
    case SGPU_OP_FUNC:
        return !op->func.is_started && (op->func.callback == NULL);
    case SGPU_OP_KERNEL:
        return !sgpu_launch_is_running(op->kernel.launch);
    default:
        return 1;
    }
}

static void op_put_mem(sgpu_mem_t *mem)
{
    if (mem != NULL) {
        sgpu_mem_put(mem);
    }
}

void sgpu_op_destroy(sgpu_op_t *op)
{
    switch (op->kind) {
    case SGPU_OP_COPY:
        op_put_mem(op->copy.to.mem);
        op_put_mem(op->copy.from.mem);
        free(op->copy.staged);
        break;
    case SGPU_OP_SET:
        op_put_mem(op->set.to.mem);
        break;
    case SGPU_OP_RECORD:
        sgpu_event_put(op->record.event);
        break;
    case SGPU_OP_AFTER:
        sgpu_stream_put(op->after.stream);
        break;
    case SGPU_OP_AFTER_EVENT:
        sgpu_event_put(op->after_event.event);
        break;
    case SGPU_OP_WAIT_VALUE:
    case SGPU_OP_WRITE_VALUE:
        op_put_mem(op->value.mem);
        break;
    case SGPU_OP_KERNEL:
        sgpu_launch_destroy(op->kernel.launch);
        break;
    case SGPU_OP_FREE:
        if (op->free.mem->is_freed) {
            sgpu_mem_remove(op->free.mem);
        }
        break;
    case SGPU_OP_FUNC:
    case SGPU_OP_NUM:
        break;
    }
    free(op);
}
