/*
 * PUT and GET: operations, split into chunks that the lanes pull.
 *
 * Invariants: An operation is in peer->ops from acceptance to completion, and
 * in peer->uncut while some of its bytes are not posted. Every chunk is
 * signalled, so that each lane's load and rate are known. A chunk that comes
 * back undone remains counted in its operation. The lane lists it, and later
 * the peer, until another lane has carried it or the peer fails.
 */
#include "config.h"
#include "rail/engine.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* If no lane has room, the choice is repeated after a completion of the peer,
 * or after this time. The time is needed because completions of other peers
 * also make room on a rail, and because mrail_sched_pick() may keep a lane
 * waiting. */
#define MRAIL_RMA_PUMP_NS (20 * MRAIL_NS_PER_US)

static void mrail_op_start(mrail_op_t *op, mrail_ep_t *ep, mrail_op_kind_t kind,
                           void *comp)
{
    memset(op, 0, sizeof(*op));
    op->done.iface = ep->iface;
    op->done.comp = comp;
    op->done.ep_id = ep->id;
    op->done.kind = MRAIL_DONE_OP;
    mrail_list_init(&op->done.list);
    mrail_list_init(&op->uncut);
    op->peer = ep->peer;
    op->kind = kind;
}

void mrail_op_release(mrail_engine_t *engine, mrail_op_t *op)
{
    if (op->bounce != NULL) {
        mrail_tx_put(op->bounce);
    }
    mrail_pool_put(&engine->ops, op);
}

/* Accepts the operation for its peer. Cannot fail. */
static void mrail_op_accept(mrail_op_t *op, size_t length)
{
    mrail_peer_t *peer = op->peer;

    op->id = peer->op_next++;
    op->length = op->left = length;
    peer->uncut_bytes += length;
    mrail_list_add_tail(&peer->ops, &op->list);
    mrail_list_add_tail(&peer->uncut, &op->uncut);
}

static void mrail_op_close(mrail_op_t *op)
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

static void mrail_op_finish(mrail_op_t *op, int status)
{
    mrail_op_close(op);
    mrail_done_finish(op->peer->engine, &op->done,
                      op->cancelled ? -ECANCELED : status);
}

/* Returns 0, or the reason why nothing may be posted to the peer. */
static int mrail_rma_ready(mrail_ep_t *ep)
{
    mrail_peer_t *peer = ep->peer;

    if (MRAIL_UNLIKELY(ep->failed != 0)) {
        return mrail_ep_error(ep);
    }
    if (MRAIL_UNLIKELY(mrail_peer_num_up(peer) == 0)) {
        mrail_peer_request_lanes(peer, 0);
        return -EAGAIN;
    }
    /* PUTs and GETs must not follow a fence even on its ordered lane. If the
     * lane fails, the number of arrived messages proves which earlier WRITEs
     * arrived, but a PUT proves nothing. The WRITEs would be replayed although
     * the peer may already have read the data of the PUT. */
    if (MRAIL_UNLIKELY(peer->num_fences != 0)) {
        return -EAGAIN;
    }
    return 0;
}

/* ---- chunks ---- */

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

static mrail_flow_t mrail_chunk_flow(const mrail_chunk_t *chunk)
{
    return (chunk->op->kind == MRAIL_OP_PUT) ? MRAIL_FLOW_OUT : MRAIL_FLOW_IN;
}

static int mrail_chunk_is_measured(const mrail_chunk_t *chunk)
{
    return MRAIL_TELEMETRY && (chunk->length >= MRAIL_TELE_LARGE);
}

/* Large chunks measure the live bandwidth of the rail. */
static void mrail_chunk_record_post(const mrail_chunk_t *chunk)
{
    mrail_lane_t *lane = chunk->lane;
    mrail_rail_t *rail = lane->rail;
    mrail_flow_t flow = mrail_chunk_flow(chunk);

    mrail_tele_flow_post(&rail->flows[flow], &lane->large[flow],
                         &lane->peer->large[rail->index][flow], chunk->length,
                         chunk->post_ns);
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
}

/* Posts the chunk on the lane, with its bytes starting at the cursor. Returns
 * 0, or -EAGAIN if the lane failed and nothing happened. */
static int mrail_chunk_send(mrail_chunk_t *chunk, mrail_lane_t *lane,
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
    if ((op->kind == MRAIL_OP_PUT) && (chunk->length <= lane->max_inline)) {
        wr.send_flags |= IBV_SEND_INLINE; /* saves the NIC a DMA read */
    }
    wr.wr.rdma.remote_addr = op->remote_address + chunk->offset;
    wr.wr.rdma.rkey = op->rkey->rkey[lane->remote_rail];

    mrail_stall_wake(op->peer->engine);
    chunk->lane = lane;
    chunk->post_ns = now_ns;
    if (MRAIL_TELEMETRY) {
        lane->posted_ns = now_ns;
    }
    chunk->sq_index = lane->sq_posted + 1;
    if (MRAIL_FAILOVER) {
        chunk->am_number = lane->am_sent;
    }
    if (MRAIL_UNLIKELY(mrail_lane_post(lane, &wr) != 0)) {
        --lane->sq_posted; /* this request will have no completion */
        mrail_lane_error(lane, "post of a chunk");
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

/* Posts the next `length` bytes of the operation. Returns 0. Returns -EAGAIN,
 * with the operation unchanged, if memory is short or the lane has failed. */
static int mrail_chunk_post(mrail_op_t *op, mrail_lane_t *lane, size_t length,
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

static void mrail_rma_mark_usable(mrail_peer_t *peer)
{
    for (unsigned i = 0; i < peer->num_up; ++i) {
        mrail_lane_t *lane = peer->up[i];

        lane->sched.usable =
            !lane->leaving && !lane->held &&
            (mrail_lane_sq_free(lane) > lane->sq_depth / 4) &&
            (lane->rail->num_chunks < lane->rail->max_chunks) &&
            (lane->sched.inflight < (1ull << 30));
    }
}

/* Posts the whole operation on one lane. Returns 1 if there was room. */
static int mrail_op_pump_whole(mrail_op_t *op, mrail_ns_t now_ns)
{
    mrail_peer_t *peer = op->peer;
    size_t length = op->left;
    int index;

    mrail_rma_mark_usable(peer);
    index = mrail_sched_pick_whole(peer->sched, peer->num_up, length);
    if ((index < 0) ||
        (mrail_chunk_post(op, peer->up[index], length, now_ns) != 0)) {
        return 0;
    }
    peer->uncut_bytes -= length;
    return 1;
}

/* Posts as many chunks as the lanes have room for. Returns 1 if the operation
 * is completely posted. */
static int mrail_op_pump_cut(mrail_op_t *op, mrail_ns_t now_ns)
{
    mrail_peer_t *peer = op->peer;
    const mrail_config_t *config = &peer->engine->config;
    mrail_sched_params_t params = {
        .chunk = (config->rma_chunk_size == MRAIL_SIZE_AUTO)
                     ? 0
                     : config->rma_chunk_size,
        .window = (config->window == MRAIL_SIZE_AUTO) ? 0 : config->window,
        .equal_split = mrail_sched_equal_split(op->length, peer->num_up),
        .alone = (peer->num_slots == 1),
        .has_rules = (config->uplinks != MRAIL_SIZE_AUTO),
    };
    mrail_fair_share_t *fair_share;

    if (MRAIL_TELEMETRY && (now_ns >= peer->engine->fair_share_ns)) {
        mrail_throttle_poll(peer->engine, now_ns);
    }
    fair_share = mrail_throttle_fair_share(peer);
    while (op->left != 0) {
        size_t length = op->left;
        int index;

        mrail_rma_mark_usable(peer);
        if (fair_share != NULL) {
            mrail_throttle_mark(peer, fair_share);
        }
        index = mrail_sched_pick(peer->sched, peer->num_up, op->left,
                                 peer->uncut_bytes, &params, now_ns, &length);
        if ((index < 0) ||
            (mrail_chunk_post(op, peer->up[index], length, now_ns) != 0)) {
            return 0;
        }
        peer->uncut_bytes -= length;
        if (fair_share != NULL) {
            mrail_fair_share_post(fair_share, peer->fair_share_class,
                                  peer->up[index]->rail->index, length);
        }
    }
    return 1;
}

void mrail_rma_pump(mrail_peer_t *peer, mrail_ns_t now_ns)
{
    while (!mrail_list_empty(&peer->uncut) && (mrail_peer_num_up(peer) != 0)) {
        mrail_op_t *op = mrail_list_head(&peer->uncut, mrail_op_t, uncut);

        if (!(op->whole ? mrail_op_pump_whole(op, now_ns)
                        : mrail_op_pump_cut(op, now_ns))) {
            peer->pump_ns = now_ns + MRAIL_RMA_PUMP_NS;
            mrail_peer_activate(peer);
            return;
        }
        mrail_list_del(&op->uncut);
    }
}

void mrail_rma_poll(mrail_peer_t *peer, mrail_ns_t now_ns)
{
    if (now_ns >= peer->pump_ns) {
        mrail_rma_pump(peer, now_ns);
    }
}

static void mrail_chunk_finish(mrail_chunk_t *chunk)
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

/* Must precede mrail_sched_done(), which updates the time of the last
 * completion. */
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
    lane->carried += (MRAIL_TELEMETRY && (status == 0)) ? chunk->length : 0;
    if (mrail_chunk_is_measured(chunk)) {
        mrail_chunk_record_done(chunk, (status == 0) ? chunk->length : 0,
                                now_ns);
    }
    if (MRAIL_LIKELY(status == 0) && (chunk->length >= 4096)) {
        mrail_rma_count_work(chunk, now_ns);
        mrail_sched_done(&lane->sched, chunk->length, chunk->post_ns, now_ns);
    }
    if (MRAIL_UNLIKELY(status != 0)) {
        /* A cancelled operation is not replayed. It finishes later, because the
         * control lock may be held here. */
        mrail_list_add_tail(chunk->op->cancelled ? &lane->peer->arrived
                                                 : &lane->lost,
                            &chunk->list);
        return;
    }
    /* Unposted work waits until all rails have been polled, because a good
     * choice needs the load of all lanes. */
    mrail_chunk_finish(chunk);
}

/* ---- replay ---- */

void mrail_rma_abandon(mrail_lane_t *lane, mrail_ns_t now_ns)
{
    while (!mrail_list_empty(&lane->flying)) {
        mrail_rma_chunk_done(
            mrail_list_head(&lane->flying, mrail_chunk_t, list), -EIO, now_ns);
    }
}

/* Inserts the chunk sorted by operation, so that work behind a fence comes
 * last. */
static void mrail_rma_add_replay(mrail_peer_t *peer, mrail_chunk_t *chunk)
{
    mrail_list_t *pos = &peer->replay_rma;

    while ((pos->prev != &peer->replay_rma) &&
           (mrail_list_entry(pos->prev, mrail_chunk_t, list)->op->id >
            chunk->op->id)) {
        pos = pos->prev;
    }
    mrail_list_insert_before(pos, &chunk->list);
}

/* A READ has not arrived even if the peer has seen the request, because its
 * data may be lost. */
static int mrail_chunk_has_arrived(const mrail_chunk_t *chunk)
{
    return (chunk->op->kind == MRAIL_OP_VISIBLE) ||
           ((chunk->op->kind == MRAIL_OP_PUT) &&
            mrail_seq16_before(chunk->am_number, chunk->lane->peer_has));
}

/*
 * The peer's QP accepts nothing more. WRITEs that completed are therefore
 * visible, and the others can be replayed. A WRITE that a later message proves
 * delivered must not be replayed, because the peer may since have reused the
 * memory.
 */
void mrail_rma_take_lost(mrail_lane_t *lane)
{
    while (!mrail_list_empty(&lane->lost)) {
        mrail_chunk_t *chunk =
            mrail_list_head(&lane->lost, mrail_chunk_t, list);

        mrail_list_del(&chunk->list);
        if (mrail_chunk_has_arrived(chunk) || (chunk->op->status != 0)) {
            mrail_list_add_tail(&lane->peer->arrived, &chunk->list);
        } else {
            mrail_rma_add_replay(lane->peer, chunk);
        }
    }
    lane->peer->dirty_mask &= ~(1ull << lane->slot);
}

/* A completion may end the peer; mrail_rma_fail() then empties the list. */
void mrail_rma_finish_arrived(mrail_peer_t *peer)
{
    while (!mrail_list_empty(&peer->arrived)) {
        mrail_chunk_t *chunk =
            mrail_list_head(&peer->arrived, mrail_chunk_t, list);

        mrail_list_del(&chunk->list);
        mrail_chunk_finish(chunk);
    }
}

/* ---- operations that fail alone ---- */

/* Fails the flushes that cover the operation, because a buffered PUT has no
 * completion of its own to report the failure. */
static void mrail_rma_reject_flushes(const mrail_op_t *op)
{
    mrail_flush_t *flush;

    mrail_list_for_each(flush, &op->peer->flushes_pending, mrail_flush_t,
                        list) {
        if ((flush->group != NULL) && (flush->op_id >= op->id) &&
            (flush->group->done.iface == op->done.iface)) {
            flush->group->done.status = op->status;
        }
    }
}

static void mrail_rma_reject_eps(const mrail_op_t *op)
{
    mrail_ep_t *ep;

    mrail_list_for_each(ep, &op->peer->eps, mrail_ep_t, peer_list) {
        if ((ep->iface == op->done.iface) && (ep->failed == 0)) {
            ep->failed = op->status;
            ep->rejected = 1;
            ep->iface->has_rejected = 1;
            mrail_wakeup_signal(ep->iface);
        }
    }
}

void mrail_rma_reject(mrail_op_t *op, const char *cause)
{
    mrail_peer_t *peer = op->peer;
    mrail_chunk_t *chunk, *tmp;

    if (op->status != 0) {
        return;
    }
    mrail_warn("peer %016llx: a %s of %zu bytes fails (%s), and its endpoint "
               "with it",
               (unsigned long long)peer->id,
               (op->kind == MRAIL_OP_PUT) ? "PUT" : "GET", op->length, cause);
    op->status = -EIO;
    if (!mrail_list_empty(&op->uncut)) {
        mrail_list_del(&op->uncut);
        peer->uncut_bytes -= op->left;
        op->left = 0;
    }
    /* Chunks that are still in flight complete when their lane has failed. */
    mrail_list_for_each_safe(chunk, tmp, &peer->replay_rma, mrail_chunk_t,
                             list) {
        if (chunk->op == op) {
            mrail_list_del(&chunk->list);
            mrail_list_add_tail(&peer->arrived, &chunk->list);
        }
    }
    mrail_rma_reject_flushes(op);
    mrail_rma_reject_eps(op);
}

static mrail_cursor_t mrail_op_seek(const mrail_op_t *op, uint64_t offset)
{
    mrail_cursor_t cursor = {0, 0};

    while (offset >= op->iov[cursor.index].length) {
        offset -= op->iov[cursor.index++].length;
    }
    cursor.offset = offset;
    return cursor;
}

void mrail_rma_replay(mrail_peer_t *peer, mrail_ns_t now_ns)
{
    while (!mrail_list_empty(&peer->replay_rma) &&
           (mrail_peer_num_up(peer) != 0)) {
        mrail_chunk_t *chunk =
            mrail_list_head(&peer->replay_rma, mrail_chunk_t, list);
        mrail_cursor_t cursor = mrail_op_seek(chunk->op, chunk->offset);
        int index;

        mrail_rma_mark_usable(peer);
        index =
            mrail_sched_pick_whole(peer->sched, peer->num_up, chunk->length);
        if (index < 0) {
            return;
        }
        mrail_list_del(&chunk->list);
        if (mrail_chunk_send(chunk, peer->up[index], &cursor, now_ns) != 0) {
            mrail_rma_add_replay(peer, chunk);
            return;
        }
        ++peer->engine->counters.rma_replayed;
    }
}

/* ---- visibility ---- */

int mrail_rma_post_read(mrail_lane_t *lane, mrail_flush_t *flush,
                        mrail_ns_t now_ns)
{
    mrail_peer_t *peer = lane->peer;
    mrail_engine_t *engine = peer->engine;
    mrail_op_t *op;

    if (mrail_lane_sq_free(lane) == 0) {
        return -EAGAIN;
    }
    op = mrail_pool_get(&engine->ops);
    if (op == NULL) {
        return -EAGAIN;
    }
    memset(op, 0, sizeof(*op));
    op->done.kind = MRAIL_DONE_OP;
    mrail_list_init(&op->done.list);
    mrail_list_init(&op->uncut);
    op->peer = peer;
    op->kind = MRAIL_OP_VISIBLE;
    op->iov[0].buffer = lane->rail->flush_page + 1;
    op->iov[0].length = sizeof(uint64_t);
    op->iov[0].mem = &engine->flush_mem;
    op->iov_count = 1;
    op->remote_address = peer->rails[lane->remote_rail].flush_addr;
    op->rkey = &peer->flush_rkey;
    op->length = op->left = sizeof(uint64_t);
    if (mrail_chunk_post(op, lane, op->length, now_ns) != 0) {
        mrail_pool_put(&engine->ops, op);
        return -EAGAIN;
    }
    /* The operation belongs to no caller, so it uses up no id. The flush that
     * waits counts it. */
    op->id = peer->op_next;
    mrail_list_add_tail(&peer->ops, &op->list);
    if (flush != NULL) {
        op->flush = flush;
        ++flush->reads;
    }
    ++lane->reads;
    peer->dirty_mask &= ~(1ull << lane->slot);
    peer->reading_mask |= 1ull << lane->slot;
    return 0;
}

/* Returns 1 if the lane is neither in use nor ended. Its path is suspect, or it
 * is closing. The flush waits until it is used again or has ended. */
static int mrail_lane_is_away(const mrail_lane_t *lane)
{
    return (lane != NULL) &&
           ((lane->state == MRAIL_LANE_CLOSING) ||
            ((lane->state == MRAIL_LANE_UP) &&
             !(lane->peer->seen_mask & (1ull << lane->slot))));
}

int mrail_rma_post_visible(mrail_peer_t *peer, mrail_flush_t *flush,
                           mrail_ns_t now_ns)
{
    (void)mrail_peer_num_up(peer); /* picks up lanes that came up */
    if (!flush->last_stage) {
        flush->last_stage = 1;
        /* This includes slots where another flush has posted a READ, because
         * the completion of that READ is reported to the other flush only. */
        flush->unseen = peer->dirty_mask | peer->reading_mask;
    }
    for (unsigned slot = 0; (flush->unseen != 0) && (slot < MRAIL_MAX_SLOTS);
         ++slot) {
        uint64_t bit = 1ull << slot;
        mrail_lane_t *lane = peer->lanes[slot];

        if (!(flush->unseen & bit) || mrail_lane_is_away(lane)) {
            continue;
        }
        if ((lane != NULL) && (lane->state == MRAIL_LANE_UP) &&
            (mrail_rma_post_read(lane, flush, now_ns) != 0)) {
            continue;
        }
        flush->unseen &= ~bit; /* an ended lane was drained or closed */
    }
    return flush->unseen == 0;
}

static void mrail_rma_drop(mrail_engine_t *engine, mrail_list_t *chunks)
{
    while (!mrail_list_empty(chunks)) {
        mrail_chunk_t *chunk = mrail_list_head(chunks, mrail_chunk_t, list);

        mrail_list_del(&chunk->list);
        mrail_pool_put(&engine->chunks, chunk);
    }
}

void mrail_rma_fail(mrail_peer_t *peer, int status)
{
    peer->uncut_bytes = 0;
    peer->dirty_mask = peer->reading_mask = 0;
    for (unsigned slot = 0; slot < MRAIL_MAX_SLOTS; ++slot) {
        if (peer->lanes[slot] != NULL) {
            mrail_rma_drop(peer->engine, &peer->lanes[slot]->flying);
            mrail_rma_drop(peer->engine, &peer->lanes[slot]->lost);
        }
    }
    mrail_rma_drop(peer->engine, &peer->replay_rma);
    mrail_rma_drop(peer->engine, &peer->arrived);
    while (!mrail_list_empty(&peer->ops)) {
        mrail_op_t *op = mrail_list_head(&peer->ops, mrail_op_t, list);

        mrail_list_del(&op->uncut);
        op->left = 0;
        mrail_op_finish(op, status);
    }
}

/* ---- cancellation ---- */

/* Drops chunks of the endpoint that no device holds. */
static void mrail_rma_drop_of(mrail_engine_t *engine, mrail_list_t *chunks,
                              uint64_t ep_id)
{
    mrail_chunk_t *chunk, *tmp;

    mrail_list_for_each_safe(chunk, tmp, chunks, mrail_chunk_t, list) {
        if (chunk->op->done.ep_id == ep_id) {
            --chunk->op->pending;
            mrail_list_del(&chunk->list);
            mrail_pool_put(&engine->chunks, chunk);
        }
    }
}

static void mrail_op_cancel(mrail_op_t *op)
{
    mrail_peer_t *peer = op->peer;

    if (op->left != 0) {
        mrail_list_del(&op->uncut);
        peer->uncut_bytes -= op->left;
        op->left = 0;
    }
    op->cancelled = 1;
    op->peer->pump_ns = 0; /* other operations have room now */
    op->unpack = NULL;
    if (op->pending == 0) {
        mrail_op_close(op);
        mrail_done_defer(peer->engine, &op->done, -ECANCELED);
    } else if ((op->bounce != NULL) && (op->done.comp == NULL)) {
        op->done.ep_id = 0; /* the user does not wait for it */
    }
}

void mrail_rma_cancel(mrail_ep_t *ep)
{
    mrail_peer_t *peer = ep->peer;
    mrail_op_t *op, *tmp;

    for (unsigned slot = 0; slot < MRAIL_MAX_SLOTS; ++slot) {
        if (peer->lanes[slot] != NULL) {
            mrail_rma_drop_of(peer->engine, &peer->lanes[slot]->lost, ep->id);
        }
    }
    mrail_rma_drop_of(peer->engine, &peer->replay_rma, ep->id);
    mrail_rma_drop_of(peer->engine, &peer->arrived, ep->id);
    mrail_list_for_each_safe(op, tmp, &peer->ops, mrail_op_t, list) {
        if (op->done.ep_id == ep->id) {
            mrail_op_cancel(op);
        }
    }
}

int mrail_rma_has_ep(const mrail_peer_t *peer, uint64_t ep_id)
{
    const mrail_op_t *op;

    mrail_list_for_each(op, &peer->ops, mrail_op_t, list) {
        if (op->done.ep_id == ep_id) {
            return 1;
        }
    }
    return 0;
}

/* ---- public ---- */

/* Accepts an operation that has been filled in, and starts it. */
static void mrail_rma_submit(mrail_op_t *op, size_t length)
{
    mrail_peer_t *peer = op->peer;
    mrail_engine_t *engine = peer->engine;

    op->whole = (length < engine->config.stripe_thresh) &&
                (length <= MRAIL_RMA_CHUNK_MAX);
    if (!op->whole) {
        mrail_peer_request_lanes(peer, 1);
    }
    mrail_op_accept(op, length);
    mrail_rma_pump(peer, mrail_clock_now());
}

static int mrail_rma_zcopy(mrail_ep_t *ep, mrail_op_kind_t kind,
                           const mrail_iov_t *iov, unsigned iov_count,
                           uint64_t remote_address, const mrail_rkey_t *rkey,
                           void *comp)
{
    mrail_iface_t *iface = ep->iface;
    size_t length = 0;
    mrail_op_t *op;
    int ret;

    for (unsigned i = 0; i < iov_count; ++i) {
        length += iov[i].length;
    }
    mrail_iface_enter(iface);
    ret = mrail_rma_ready(ep);
    if ((ret != 0) || (length == 0)) {
        goto out;
    }
    op = mrail_pool_get(&iface->engine->ops);
    if (op == NULL) {
        ret = -EAGAIN;
        goto out;
    }
    mrail_op_start(op, ep, kind, comp);
    mrail_copy(op->iov, iov, iov_count * sizeof(*iov));
    op->iov_count = iov_count;
    op->remote_address = remote_address;
    op->rkey = rkey;
    mrail_rma_submit(op, length);
    ret = -EINPROGRESS;
out:
    mrail_iface_leave(iface);
    return ret;
}

int mrail_ep_put_zcopy(mrail_ep_t *ep, const mrail_iov_t *iov,
                       unsigned iov_count, uint64_t remote_address,
                       const mrail_rkey_t *rkey, void *comp)
{
    return mrail_rma_zcopy(ep, MRAIL_OP_PUT, iov, iov_count, remote_address,
                           rkey, comp);
}

int mrail_ep_get_zcopy(mrail_ep_t *ep, const mrail_iov_t *iov,
                       unsigned iov_count, uint64_t remote_address,
                       const mrail_rkey_t *rkey, void *comp)
{
    return mrail_rma_zcopy(ep, MRAIL_OP_GET, iov, iov_count, remote_address,
                           rkey, comp);
}

/* Prepares an operation that uses a registered buffer of the engine. Returns
 * NULL, with the error in *ret_p, on failure. */
static mrail_op_t *mrail_rma_bounce(mrail_ep_t *ep, mrail_op_kind_t kind,
                                    mrail_pool_t *pool, void *comp, int *ret_p)
{
    mrail_engine_t *engine = ep->iface->engine;
    mrail_tx_t *tx;
    mrail_op_t *op;

    *ret_p = mrail_rma_ready(ep);
    if (*ret_p != 0) {
        return NULL;
    }
    *ret_p = -EAGAIN;
    if (MRAIL_UNLIKELY(!mrail_list_empty(&ep->peer->uncut))) {
        return NULL; /* the lanes are full; waiting operations must not take
                      * more buffers */
    }
    tx = mrail_tx_get(pool);
    if (tx == NULL) {
        return NULL;
    }
    op = mrail_pool_get(&engine->ops);
    if (op == NULL) {
        mrail_tx_put(tx);
        return NULL;
    }
    mrail_op_start(op, ep, kind, comp);
    op->bounce = tx;
    op->iov[0].buffer = tx->hdr;
    op->iov[0].mem = tx->mem;
    op->iov_count = 1;
    return op;
}

static void mrail_rma_submit_bounce(mrail_op_t *op, size_t length,
                                    uint64_t remote_address,
                                    const mrail_rkey_t *rkey)
{
    op->iov[0].length = length;
    op->remote_address = remote_address;
    op->rkey = rkey;
    op->whole = 1;
    if (length == 0) {
        mrail_op_release(op->peer->engine, op);
        return;
    }
    mrail_op_accept(op, length);
    mrail_rma_pump(op->peer, mrail_clock_now());
    if (MRAIL_UNLIKELY(op->left != 0)) {
        /* The caller may release its key as soon as the call returns. */
        op->own_rkey = *rkey;
        op->rkey = &op->own_rkey;
    }
}

int mrail_ep_put_short(mrail_ep_t *ep, const void *buffer, unsigned length,
                       uint64_t remote_address, const mrail_rkey_t *rkey)
{
    mrail_iface_t *iface = ep->iface;
    mrail_op_t *op;
    int ret;

    mrail_iface_enter(iface);
    op = mrail_rma_bounce(ep, MRAIL_OP_PUT, &iface->engine->tx_small, NULL,
                          &ret);
    if (op != NULL) {
        mrail_copy(op->bounce->hdr, buffer, length);
        mrail_rma_submit_bounce(op, length, remote_address, rkey);
        ret = 0;
    }
    mrail_iface_leave(iface);
    return ret;
}

ptrdiff_t mrail_ep_put_bcopy(mrail_ep_t *ep, mrail_pack_func_t pack, void *arg,
                             uint64_t remote_address, const mrail_rkey_t *rkey)
{
    mrail_iface_t *iface = ep->iface;
    ptrdiff_t result;
    mrail_op_t *op;
    int ret;

    mrail_iface_enter(iface);
    op = mrail_rma_bounce(ep, MRAIL_OP_PUT, &iface->engine->tx_big, NULL, &ret);
    if (op == NULL) {
        result = ret;
    } else {
        result = (ptrdiff_t)pack(op->bounce->hdr, arg);
        mrail_rma_submit_bounce(op, (size_t)result, remote_address, rkey);
    }
    mrail_iface_leave(iface);
    return result;
}

int mrail_ep_get_bcopy(mrail_ep_t *ep, mrail_unpack_func_t unpack, void *arg,
                       size_t length, uint64_t remote_address,
                       const mrail_rkey_t *rkey, void *comp)
{
    mrail_iface_t *iface = ep->iface;
    mrail_op_t *op;
    int ret;

    mrail_iface_enter(iface);
    op = mrail_rma_bounce(ep, MRAIL_OP_GET, &iface->engine->tx_big, comp, &ret);
    if (op != NULL) {
        if (length == 0) {
            unpack(arg, op->bounce->hdr, 0);
            ret = 0;
        } else {
            op->unpack = unpack;
            op->unpack_arg = arg;
            ret = -EINPROGRESS;
        }
        mrail_rma_submit_bounce(op, length, remote_address, rkey);
    }
    mrail_iface_leave(iface);
    return ret;
}

/* Returns the operation of that id, or NULL if it is complete. */
static mrail_op_t *mrail_rma_find(const mrail_peer_t *peer, uint64_t id)
{
    mrail_op_t *op;

    mrail_list_for_each(op, &peer->ops, mrail_op_t, list) {
        if (op->id == id) {
            return op;
        }
    }
    return NULL;
}

typedef struct mrail_get_short {
    void *buffer;
    int done;
} mrail_get_short_t;

static void mrail_get_short_unpack(void *arg, const void *data, size_t length)
{
    mrail_get_short_t *get = arg;

    memcpy(get->buffer, data, length);
    get->done = 1;
}

/* After this time, a get_short ends if another thread waits for the lock. */
#define MRAIL_GET_SHORT_LIMIT (25 * MRAIL_NS_PER_MS)

/* Returns 1 if this thread alone may not be able to complete the READ. Failover
 * needs the control thread and, in a callback, the end of the callback. Only
 * the control thread detects a stalled lane. */
static int mrail_get_short_must_end(const mrail_peer_t *peer,
                                    mrail_ns_t start_ns)
{
    const mrail_data_lock_t *lock = &peer->engine->data_lock;

    if (peer->recovering) {
        return 1;
    }
    return (mrail_data_lock_is_borrowed(lock) ||
            mrail_data_lock_is_wanted(lock)) &&
           (mrail_clock_now() >= start_ns + MRAIL_GET_SHORT_LIMIT);
}

/* Returns 0, -EAGAIN or -ECONNRESET. */
static int mrail_get_short_wait(mrail_peer_t *peer, uint64_t id,
                                const mrail_get_short_t *get)
{
    mrail_ns_t start_ns = mrail_clock_now();
    mrail_op_t *op;

    while (!get->done) {
        op = mrail_rma_find(peer, id);
        if (op == NULL) {
            return -ECONNRESET;
        }
        if (MRAIL_UNLIKELY(mrail_get_short_must_end(peer, start_ns))) {
            mrail_op_cancel(op);
            return -EAGAIN;
        }
        mrail_engine_poll(peer->engine, NULL);
    }
    return 0;
}

/* The UCT interface requires this function to wait, for one round trip.
 * Messages that arrive in the meantime wait in the inbox, because callbacks are
 * not allowed here. */
int mrail_ep_get_short(mrail_ep_t *ep, void *buffer, unsigned length,
                       uint64_t remote_address, const mrail_rkey_t *rkey)
{
    mrail_get_short_t get = {.buffer = buffer};
    mrail_iface_t *iface = ep->iface;
    mrail_engine_t *engine = iface->engine;
    mrail_op_t *op;
    uint64_t id;
    int ret;

    mrail_iface_enter(iface);
    op = mrail_rma_bounce(ep, MRAIL_OP_GET,
                          (length <= MRAIL_TX_SMALL_AREA) ? &engine->tx_small
                                                          : &engine->tx_big,
                          NULL, &ret);
    if ((op == NULL) || (length == 0)) {
        if (op != NULL) {
            mrail_op_release(engine, op);
        }
        goto out;
    }
    op->done.iface = NULL; /* completes without progress of its iface */
    op->unpack = mrail_get_short_unpack;
    op->unpack_arg = &get;
    id = ep->peer->op_next;
    mrail_rma_submit_bounce(op, length, remote_address, rkey);
    ret = mrail_get_short_wait(ep->peer, id, &get);
out:
    mrail_iface_leave(iface);
    return ret;
}
