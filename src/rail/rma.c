/*
 * PUT and GET: operations, cut into segments that the lanes pull.
 *
 * Invariants.  An operation is on peer->ops from acceptance to completion, and
 * on peer->uncut while it has bytes that no lane has taken.  Every segment is
 * signalled, so that each lane's load and speed are known.  A failed post or
 * completion never aborts: the peer fails, and the operation with it.
 */
#include "config.h"
#include "rail/engine.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static void mrail_op_start(mrail_op_t *op, mrail_ep_t *ep, mrail_op_kind_t kind,
                           void *comp)
{
    memset(op, 0, sizeof(*op));
    op->done.iface = ep->iface;
    op->done.comp = comp;
    op->done.kind = MRAIL_DONE_OP;
    mrail_list_init(&op->done.list);
    mrail_list_init(&op->uncut);
    op->peer = ep->peer;
    op->kind = kind;
}

void mrail_op_release(mrail_op_t *op)
{
    if (op->bounce != NULL) {
        mrail_tx_put(op->bounce);
    }
    mrail_pool_put(&op->peer->engine->ops, op);
}

/* Puts the operation on the peer's books.  Cannot fail. */
static void mrail_op_accept(mrail_op_t *op, size_t length)
{
    mrail_peer_t *peer = op->peer;

    op->id = peer->op_next++;
    op->length = op->left = length;
    peer->uncut_bytes += length;
    mrail_list_add_tail(&peer->ops, &op->list);
    mrail_list_add_tail(&peer->uncut, &op->uncut);
}

static void mrail_op_finish(mrail_op_t *op, int status)
{
    mrail_engine_t *engine = op->peer->engine;

    mrail_list_del(&op->list);
    if (op->kind == MRAIL_OP_GET) {
        engine->counters.get_bytes += op->length;
    } else if (op->kind == MRAIL_OP_PUT) {
        engine->counters.put_bytes += op->length;
    }
    mrail_done_finish(engine, &op->done, status);
}

/* 0, or why nothing may be posted to the ep's peer. */
static int mrail_rma_ready(mrail_ep_t *ep)
{
    mrail_peer_t *peer = ep->peer;

    if (MRAIL_UNLIKELY(ep->failed != 0)) {
        return ep->failed;
    }
    if (MRAIL_UNLIKELY(mrail_peer_num_up(peer) == 0)) {
        mrail_peer_want(peer, 0);
        return -EAGAIN;
    }
    if (MRAIL_UNLIKELY((peer->num_fences != 0) &&
                       ((peer->pin == NULL) || peer->pin_closed))) {
        return -EAGAIN;
    }
    return 0;
}

/* ---- segments ----------------------------------------------------------- */

/* Scatter-gather list of the operation's next `length` bytes. */
static unsigned mrail_op_cut(mrail_op_t *op, unsigned rail, size_t length,
                             struct ibv_sge *sge)
{
    unsigned count = 0;

    while (length != 0) {
        const mrail_iov_t *iov = &op->iov[op->iov_index];
        size_t part = MRAIL_MIN(length, iov->length - op->iov_offset);

        if (part != 0) {
            sge[count].addr = (uintptr_t)iov->buffer + op->iov_offset;
            sge[count].length = (uint32_t)part;
            sge[count++].lkey = (iov->mem != NULL) ? iov->mem->mr[rail]->lkey
                                                   : 0;
        }
        length -= part;
        op->iov_offset += part;
        if (op->iov_offset == iov->length) {
            ++op->iov_index;
            op->iov_offset = 0;
        }
    }
    return count;
}

/* 0, or -EAGAIN: no memory for a segment, or the lane failed; the operation
 * is as it was. */
static int mrail_seg_post(mrail_op_t *op, mrail_lane_t *lane, size_t length,
                          mrail_ns_t now_ns)
{
    const struct {
        unsigned iov_index;
        size_t iov_offset;
    } cursor = {op->iov_index, op->iov_offset};
    mrail_engine_t *engine = op->peer->engine;
    struct ibv_sge sge[MRAIL_MAX_IOV];
    struct ibv_send_wr wr;
    mrail_seg_t *seg = mrail_pool_get(&engine->segs);

    if (seg == NULL) {
        return -EAGAIN;
    }
    wr.wr_id = (uintptr_t)seg;
    wr.next = NULL;
    wr.sg_list = sge;
    wr.num_sge = (int)mrail_op_cut(op, lane->rail->index, length, sge);
    wr.opcode = (op->kind == MRAIL_OP_PUT) ? IBV_WR_RDMA_WRITE
                                           : IBV_WR_RDMA_READ;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = op->remote_address;
    wr.wr.rdma.rkey = op->rkey->rkey[lane->remote_rail];

    seg->op = op;
    seg->lane = lane;
    seg->length = (uint32_t)length;
    seg->post_ns = now_ns;
    seg->sq_index = lane->sq_posted + 1;
    if (MRAIL_UNLIKELY(mrail_lane_post(lane, &wr) != 0)) {
        --lane->sq_posted; /* no completion will come for it */
        op->iov_index = cursor.iov_index;
        op->iov_offset = cursor.iov_offset;
        mrail_pool_put(&engine->segs, seg);
        mrail_lane_error(lane, "post of a segment");
        return -EAGAIN;
    }
    op->remote_address += length;
    op->left -= length;
    ++op->pending;
    if (lane->sched.inflight == 0) {
        lane->sched.since_ns = now_ns;
    }
    lane->sched.inflight += length;
    ++lane->rail->num_segs;
    lane->dirty |= (op->kind == MRAIL_OP_PUT);
    ++engine->counters.segments;
    return 0;
}

static void mrail_rma_mark_usable(mrail_peer_t *peer)
{
    for (unsigned i = 0; i < peer->num_up; ++i) {
        mrail_lane_t *lane = peer->up[i];
        /* What a fence is pinned to does not go before the fence is through. */
        int open = (peer->pin == NULL) ? !lane->leaving : (lane == peer->pin);

        lane->sched.usable =
            open && (mrail_lane_sq_free(lane) > lane->sq_depth / 4) &&
            (lane->rail->num_segs < lane->rail->max_segs) &&
            (lane->sched.inflight < (1ull << 30));
    }
}

/* Posts what the lanes have room for of one operation: 1 if all of it. */
static int mrail_op_pump(mrail_op_t *op, mrail_ns_t now_ns)
{
    mrail_peer_t *peer = op->peer;
    const mrail_config_t *config = &peer->engine->config;
    mrail_sched_params_t params = {
        .segment = (config->segment == MRAIL_SIZE_AUTO) ? 0 : config->segment,
        .window = (config->window == MRAIL_SIZE_AUTO) ? 0 : config->window,
        .alone = (peer->num_slots == 1),
    };

    while (op->left != 0) {
        size_t length = op->left;
        int index;

        mrail_rma_mark_usable(peer);
        index = op->whole
                    ? mrail_sched_pick_whole(peer->sched, peer->num_up, length)
                    : mrail_sched_pick(peer->sched, peer->num_up, op->left,
                                       peer->uncut_bytes, &params, now_ns,
                                       &length);
        if ((index < 0) ||
            (mrail_seg_post(op, peer->up[index], length, now_ns) != 0)) {
            return 0;
        }
        peer->uncut_bytes -= length;
    }
    return 1;
}

void mrail_rma_pump(mrail_peer_t *peer, mrail_ns_t now_ns)
{
    while (!mrail_list_empty(&peer->uncut) && (mrail_peer_num_up(peer) != 0)) {
        mrail_op_t *op = mrail_list_head(&peer->uncut, mrail_op_t, uncut);

        if (!mrail_op_pump(op, now_ns)) {
            mrail_peer_activate(peer);
            return;
        }
        mrail_list_del(&op->uncut);
    }
}

void mrail_rma_seg_done(mrail_engine_t *engine, mrail_seg_t *seg, int status,
                        mrail_ns_t now_ns)
{
    mrail_lane_t *lane = seg->lane;
    mrail_op_t *op = seg->op;

    lane->sched.inflight -= seg->length;
    lane->sched.since_ns = now_ns;
    --lane->rail->num_segs;
    if (MRAIL_LIKELY(status == 0) && (seg->length >= 4096)) {
        mrail_tele_window_add(&lane->sched.meter, seg->length, seg->post_ns,
                              now_ns);
    }
    mrail_pool_put(&engine->segs, seg);
    if (MRAIL_UNLIKELY(status != 0) && (op->done.status == 0)) {
        op->done.status = status;
    }
    --op->pending;
    /* What is uncut waits until all rails were looked at: to choose well, the
     * loads of all lanes must be known. */
    if ((op->pending == 0) && (op->left == 0) &&
        MRAIL_LIKELY(op->done.status == 0)) {
        mrail_op_finish(op, 0);
    }
    /* With an error the lane has failed, and the peer: mrail_rma_fail() ends
     * the operation, when the devices have let go of all of it. */
}

int mrail_rma_post_read(mrail_lane_t *lane, mrail_ns_t now_ns)
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
    if (mrail_seg_post(op, lane, op->length, now_ns) != 0) {
        mrail_pool_put(&engine->ops, op);
        return -EAGAIN;
    }
    op->id = peer->op_next++;
    mrail_list_add_tail(&peer->ops, &op->list);
    lane->dirty = 0;
    return 0;
}

int mrail_rma_post_visible(mrail_peer_t *peer, mrail_ns_t now_ns)
{
    for (unsigned i = 0; i < peer->num_up; ++i) {
        if (peer->up[i]->dirty &&
            (mrail_rma_post_read(peer->up[i], now_ns) != 0)) {
            return 0;
        }
    }
    return 1;
}

void mrail_rma_fail(mrail_peer_t *peer, int status)
{
    peer->uncut_bytes = 0;
    while (!mrail_list_empty(&peer->ops)) {
        mrail_op_t *op = mrail_list_head(&peer->ops, mrail_op_t, list);

        mrail_list_del(&op->uncut);
        op->left = 0;
        mrail_op_finish(op, status);
    }
}

/* ---- public ------------------------------------------------------------- */

/* Accepts an operation that has been filled in, and starts it. */
static void mrail_rma_submit(mrail_op_t *op, size_t length)
{
    mrail_peer_t *peer = op->peer;
    mrail_engine_t *engine = peer->engine;

    op->whole = (length < engine->config.stripe_thresh) &&
                (length <= MRAIL_SEGMENT_MAX);
    if (!op->whole) {
        mrail_peer_want(peer, 1);
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

/* An operation through a registered buffer of ours; NULL with *ret_p. */
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
        return NULL; /* the lanes are full: no more buffers for what waits */
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
        mrail_op_release(op);
        return;
    }
    mrail_op_accept(op, length);
    mrail_rma_pump(op->peer, mrail_clock_now());
    if (MRAIL_UNLIKELY(op->left != 0)) {
        /* The caller may release its key as soon as we return. */
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

static int mrail_rma_is_open(const mrail_peer_t *peer, uint64_t id)
{
    const mrail_op_t *op;

    mrail_list_for_each(op, &peer->ops, mrail_op_t, list) {
        if (op->id == id) {
            return 1;
        }
    }
    return 0;
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

/* The device's rules make this wait short: one round trip.  Messages that
 * arrive meanwhile wait in the inbox, for callbacks are not allowed here. */
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
            mrail_op_release(op);
        }
        goto out;
    }
    op->done.iface = NULL; /* completes without its iface's progress */
    op->unpack = mrail_get_short_unpack;
    op->unpack_arg = &get;
    id = ep->peer->op_next;
    mrail_rma_submit_bounce(op, length, remote_address, rkey);
    while (!get.done && mrail_rma_is_open(ep->peer, id)) {
        mrail_engine_poll(engine, NULL);
    }
    ret = get.done ? 0 : -ECONNRESET;
out:
    mrail_iface_leave(iface);
    return ret;
}
