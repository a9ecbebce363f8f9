/* Posts chunks, which are parts of operations, and handles their
 * completions. */
#include "config.h"
#include "rail/data/chunk.h"

#include "rail/conn/conn.h"
#include "rail/data/done.h"
#include "rail/state/record.h"
#include "rail/state/signals.h"

#include <errno.h>

void mrail_op_close(mrail_op_t *op)
{
    mrail_engine_t *engine = op->peer->engine;

    mrail_list_del(&op->list);
    if (op->flush != NULL) {
        --op->flush->reads;
    }
    if (op->kind == MRAIL_OP_GET) {
        engine->counters.get_bytes += op->length;
    } else if (op->kind == MRAIL_OP_PUT) {
        engine->counters.put_bytes += op->length;
    }
}

void mrail_op_finish(mrail_op_t *op, int status)
{
    mrail_op_close(op);
    mrail_done_finish(op->peer->engine, &op->done,
                      op->cancelled ? -ECANCELED : status);
}

/* Fills in a scatter-gather list of the operation's `length` bytes at the
 * cursor. Returns the number of entries. */
static unsigned mrail_op_cut(const mrail_op_t *op, mrail_cursor_t *cursor,
                             unsigned rail, size_t length, struct ibv_sge *sge)
{
    unsigned count = 0;

    while (length != 0) {
        const mrail_iov_t *iov = &op->iov[cursor->index];
        size_t part = MRAIL_MIN(length, iov->length - cursor->offset);

        if (part != 0) {
            sge[count].addr = (uintptr_t)iov->buffer + cursor->offset;
            sge[count].length = (uint32_t)part;
            sge[count++].lkey =
                (iov->mem != NULL) ? iov->mem->mr[rail]->lkey : 0;
        }
        length -= part;
        cursor->offset += part;
        if (cursor->offset == iov->length) {
            ++cursor->index;
            cursor->offset = 0;
        }
    }
    return count;
}

/* Returns 1 if all buffers are host memory. The CPU reads inline data, so
 * device memory cannot be inlined. */
static int mrail_op_is_on_host(const mrail_op_t *op)
{
    for (unsigned i = 0; i < op->iov_count; ++i) {
        if ((op->iov[i].mem != NULL) && (op->iov[i].mem->buffer_id != 0)) {
            return 0;
        }
    }
    return 1;
}

static mrail_flow_t mrail_chunk_flow(const mrail_chunk_t *chunk)
{
    return (chunk->op->kind == MRAIL_OP_PUT) ? MRAIL_FLOW_OUT : MRAIL_FLOW_IN;
}

static int mrail_chunk_is_measured(const mrail_chunk_t *chunk)
{
    return MRAIL_TELEMETRY && (chunk->length >= MRAIL_TELE_LARGE);
}

/* Reports the post of a large chunk, because large chunks measure the live
 * bandwidth and the busy time of the rail. */
static void mrail_chunk_record_post(const mrail_chunk_t *chunk)
{
    mrail_lane_t *lane = chunk->lane;
    mrail_rail_t *rail = lane->rail;
    mrail_flow_t flow = mrail_chunk_flow(chunk);

    mrail_tele_flow_post(&rail->flows[flow], &lane->large[flow],
                         &lane->peer->large[rail->index][flow], chunk->length,
                         chunk->post_ns);
    mrail_tele_busy_post(&rail->busy[flow], chunk->post_ns, rail->num_emptied);
}

static void mrail_chunk_record_done(const mrail_chunk_t *chunk, size_t moved,
                                    mrail_ns_t now_ns)
{
    mrail_lane_t *lane = chunk->lane;
    mrail_rail_t *rail = lane->rail;
    mrail_flow_t flow = mrail_chunk_flow(chunk);

    mrail_tele_flow_done(&rail->flows[flow], &lane->large[flow],
                         &lane->peer->large[rail->index][flow], chunk->length,
                         moved, lane->peer->id, now_ns,
                         rail->num_wc == MRAIL_POLL_BATCH);
    mrail_tele_busy_done(&rail->busy[flow], moved, chunk->post_ns, now_ns,
                         rail->num_emptied);
}

int mrail_chunk_send(mrail_chunk_t *chunk, mrail_lane_t *lane,
                     mrail_cursor_t *cursor, mrail_ns_t now_ns)
{
    mrail_op_t *op = chunk->op;
    struct ibv_sge sge[MRAIL_MAX_IOV];
    struct ibv_send_wr wr;

    wr.wr_id = (uintptr_t)chunk;
    wr.next = NULL;
    wr.sg_list = sge;
    wr.num_sge =
        (int)mrail_op_cut(op, cursor, lane->rail->index, chunk->length, sge);
    wr.opcode =
        (op->kind == MRAIL_OP_PUT) ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
    wr.send_flags = IBV_SEND_SIGNALED;
    if ((op->kind == MRAIL_OP_PUT) && (chunk->length <= lane->max_inline) &&
        mrail_op_is_on_host(op)) {
        wr.send_flags |= IBV_SEND_INLINE; /* saves the NIC a DMA read */
    }
    wr.wr.rdma.remote_addr = op->remote_address + chunk->offset;
    wr.wr.rdma.rkey = op->rkey->rkey[lane->remote_rail];

    mrail_stall_wake(op->peer);
    chunk->lane = lane;
    chunk->post_ns = now_ns;
    chunk->sq_index = lane->sq_posted + 1;
    if (MRAIL_FAILOVER) {
        chunk->am_number = lane->am.sent;
    }
    if (MRAIL_UNLIKELY(mrail_lane_post(lane, &wr) != 0)) {
        --lane->sq_posted; /* this request will have no completion */
        mrail_lane_error(lane, "cannot post a chunk");
        return -EAGAIN;
    }
    mrail_list_add_tail(&lane->flying, &chunk->list);
    if (lane->sched.inflight == 0) {
        lane->sched.since_ns = now_ns;
    }
    lane->sched.inflight += chunk->length;
    if (mrail_chunk_is_measured(chunk)) {
        mrail_chunk_record_post(chunk);
    }
    ++lane->rail->num_chunks;
    lane->rail->inflight += chunk->length;
    op->peer->dirty_mask |= (uint64_t)(op->kind == MRAIL_OP_PUT) << lane->slot;
    return 0;
}

int mrail_chunk_post(mrail_op_t *op, mrail_lane_t *lane, size_t length,
                     mrail_ns_t now_ns)
{
    mrail_engine_t *engine = op->peer->engine;
    mrail_chunk_t *chunk = mrail_pool_get(&engine->chunks);
    mrail_cursor_t cursor = op->cursor;

    if (chunk == NULL) {
        return -EAGAIN;
    }
    chunk->op = op;
    chunk->length = (uint32_t)length;
    chunk->offset = op->length - op->left;
    if (mrail_chunk_send(chunk, lane, &cursor, now_ns) != 0) {
        mrail_pool_put(&engine->chunks, chunk);
        return -EAGAIN;
    }
    op->cursor = cursor;
    op->left -= length;
    ++op->pending;
    ++engine->counters.chunks;
    return 0;
}

void mrail_chunk_finish(mrail_chunk_t *chunk)
{
    mrail_op_t *op = chunk->op;

    mrail_pool_put(&op->peer->engine->chunks, chunk);
    --op->pending;
    if ((op->pending == 0) && (op->left == 0)) {
        mrail_op_finish(op, op->status);
    }
}

static void mrail_rma_read_done(mrail_lane_t *lane, int status)
{
    uint64_t bit = 1ull << lane->slot;

    if (--lane->reads == 0) {
        lane->peer->reading_mask &= ~bit;
    }
    if (status != 0) {
        lane->peer->dirty_mask |= bit;
    }
}

/* Adds a chunk to the completed work of its lane. Must precede
 * mrail_sched_done(), which updates the time of the last completion. */
static void mrail_rma_count_work(const mrail_chunk_t *chunk, mrail_ns_t now_ns)
{
    mrail_lane_t *lane = chunk->lane;
    mrail_lane_work_t *work = &lane->work[chunk->op->kind];
    mrail_ns_t from_ns =
        MRAIL_MAX(chunk->post_ns, lane->sched.meter.sums.last_ns);

    work->bytes += chunk->length;
    work->busy_ns += (now_ns > from_ns) ? now_ns - from_ns : 0;
    lane->rail->work[chunk->op->kind] += chunk->length;
}

void mrail_rma_chunk_done(mrail_chunk_t *chunk, int status, mrail_ns_t now_ns)
{
    mrail_lane_t *lane = chunk->lane;

    mrail_list_del(&chunk->list);
    if (chunk->op->kind == MRAIL_OP_VISIBLE) {
        mrail_rma_read_done(lane, status);
    }
    lane->sched.inflight -= chunk->length;
    lane->sched.since_ns = now_ns;
    lane->peer->pump_ns = 0;
    --lane->rail->num_chunks;
    lane->rail->inflight -= chunk->length;
    lane->rma_carried += (MRAIL_TELEMETRY && (status == 0)) ? chunk->length : 0;
    if (mrail_chunk_is_measured(chunk)) {
        mrail_chunk_record_done(chunk, (status == 0) ? chunk->length : 0,
                                now_ns);
    }
    if (MRAIL_LIKELY(status == 0) && (chunk->length >= MRAIL_RMA_MEASURED)) {
        mrail_rma_count_work(chunk, now_ns);
        mrail_sched_done(&lane->sched, chunk->length, chunk->post_ns, now_ns);
    }
    mrail_record_chunk(chunk, status, now_ns);
    if (MRAIL_UNLIKELY(status != 0)) {
        /* A cancelled operation is not replayed. It finishes later, because the
         * control lock may be held here. */
        mrail_list_add_tail(chunk->op->cancelled ? &lane->peer->arrived
                                                 : &lane->lost,
                            &chunk->list);
        return;
    }
    if (chunk->op->quota != NULL) {
        chunk->op->quota->carried[lane->rail->index] += chunk->length;
    }
    /* Unposted work is posted only after all rails have been polled, because
     * the choice of a lane depends on the load of all lanes. */
    mrail_chunk_finish(chunk);
}
