/*
 * Implements PUT and GET as operations that are split into chunks, which the
 * lanes pull. A small buffered PUT needs neither; see put.h.
 *
 * Invariants: An operation is in peer->ops from acceptance to completion, and
 * in peer->uncut while some of its bytes are not posted. Every chunk is
 * signalled, so that each lane's load and rate are known. A chunk that fails
 * still counts as pending in its operation. It remains on a list of the lane,
 * and later of the peer, until another lane carries it or the peer fails.
 */
#include "config.h"
#include "rail/data/rma.h"

#include "rail/conn/conn.h"
#include "rail/data/chunk.h"
#include "rail/data/done.h"
#include "rail/data/peer_lanes.h"
#include "rail/data/put.h"
#include "rail/data/rma_pump.h"

#include <errno.h>
#include <string.h>

static void mrail_op_start(mrail_op_t *op, mrail_ep_t *ep, mrail_op_kind_t kind,
                           void *comp)
{
    mrail_op_init(op, ep->peer, kind);
    op->done.iface = ep->iface;
    op->done.comp = comp;
    op->done.ep_id = ep->id;
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

/* Returns 0 if PUTs and GETs may be posted to the peer, and otherwise
 * -errno. */
static MRAIL_DATA int mrail_rma_ready(mrail_ep_t *ep)
{
    mrail_peer_t *peer = ep->peer;

    if (MRAIL_UNLIKELY(ep->failed != 0)) {
        return mrail_ep_error(ep);
    }
    if (MRAIL_UNLIKELY(mrail_peer_num_up(peer) == 0)) {
        mrail_peer_request_lanes(peer, 0);
        return -EAGAIN;
    }
    /* PUTs and GETs wait for a fence, even on its ordered lane. If the lane
     * fails, the number of arrived messages proves which earlier WRITEs have
     * arrived, but a PUT leaves no such evidence. The engine would replay the
     * earlier WRITEs although the peer may already have read the data of the
     * PUT. */
    if (MRAIL_UNLIKELY(peer->num_fences != 0)) {
        return -EAGAIN;
    }
    return 0;
}

/* Accepts an operation that has been filled in, and starts it. */
static MRAIL_DATA void mrail_rma_submit(mrail_op_t *op, size_t length)
{
    mrail_peer_t *peer = op->peer;
    mrail_engine_t *engine = peer->engine;

    op->whole = (op->quota == NULL) &&
                (length < engine->config.stripe_thresh) &&
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
                           mrail_quota_t *quota, void *comp)
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
    op->quota = quota;
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
                           rkey, NULL, comp);
}

int mrail_ep_get_zcopy(mrail_ep_t *ep, const mrail_iov_t *iov,
                       unsigned iov_count, uint64_t remote_address,
                       const mrail_rkey_t *rkey, void *comp)
{
    return mrail_rma_zcopy(ep, MRAIL_OP_GET, iov, iov_count, remote_address,
                           rkey, NULL, comp);
}

int mrail_ep_set_uplinks(mrail_ep_t *ep, unsigned rail, const double *uplinks,
                         unsigned count)
{
    int ret;

    mrail_iface_enter(ep->iface);
    ret = mrail_peer_set_uplinks(ep->peer, rail, uplinks, count);
    mrail_iface_leave(ep->iface);
    return ret;
}

int mrail_ep_get_quota(mrail_ep_t *ep, const mrail_iov_t *iov,
                       unsigned iov_count, uint64_t remote_address,
                       const mrail_rkey_t *rkey, mrail_quota_t *quota,
                       void *comp)
{
    return mrail_rma_zcopy(ep, MRAIL_OP_GET, iov, iov_count, remote_address,
                           rkey, quota, comp);
}

mrail_op_t *mrail_rma_bounce(mrail_ep_t *ep, mrail_op_kind_t kind,
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
        return NULL; /* the lanes are full, and waiting operations must not use
                      * up more buffers */
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

void mrail_rma_submit_bounce(mrail_op_t *op, size_t length,
                             uint64_t remote_address, const mrail_rkey_t *rkey)
{
    op->iov[0].length = length;
    op->remote_address = remote_address;
    /* The caller may release its key as soon as the call returns. Chunks that
     * are posted later, or again, still need it. */
    op->own_rkey = *rkey;
    op->rkey = &op->own_rkey;
    op->whole = 1;
    if (length == 0) {
        mrail_op_release(op->peer->engine, op);
        return;
    }
    mrail_op_accept(op, length);
    mrail_rma_pump(op->peer, mrail_clock_now());
}

/* Returns the lane for a small PUT, or NULL if the PUT cannot be posted now.
 * Also returns NULL if the PUT is so long that it needs an operation, because
 * longer PUTs may use other lanes, or measure the rate of their lane. */
static inline MRAIL_DATA mrail_lane_t *mrail_put_lane(mrail_ep_t *ep,
                                                      size_t length)
{
    mrail_peer_t *peer = ep->peer;
    mrail_lane_t *lane;

    if (MRAIL_UNLIKELY((ep->failed != 0) || (mrail_peer_num_up(peer) == 0) ||
                       (peer->num_fences != 0) || (length == 0) ||
                       (length >= peer->am_spread) ||
                       (length >= MRAIL_RMA_MEASURED) ||
                       !mrail_list_empty(&peer->uncut))) {
        return NULL;
    }
    lane = peer->up[0];
    return (mrail_lane_is(lane, MRAIL_LANE_NO_WORK) || lane->held) ? NULL
                                                                   : lane;
}

/* Starts a small PUT, whose data must already be in the buffer. Cannot fail. */
static inline MRAIL_DATA void mrail_put_start(mrail_ep_t *ep,
                                              mrail_lane_t *lane,
                                              mrail_tx_t *tx, size_t length,
                                              uint64_t remote_address,
                                              const mrail_rkey_t *rkey)
{
    tx->am.length = (uint32_t)length;
    tx->put.id = ep->peer->op_next++;
    tx->put.remote_address = remote_address;
    tx->put.ep_id = ep->id;
    tx->put.iface = ep->iface->id;
    tx->put.rkey = *rkey;
    (void)mrail_put_post(lane, tx);
}

/* Copies the data of a small PUT, and starts it. Returns 0 or -EAGAIN. */
static inline MRAIL_DATA int mrail_put_copy(mrail_ep_t *ep, mrail_lane_t *lane,
                                            const void *buffer, size_t length,
                                            uint64_t remote_address,
                                            const mrail_rkey_t *rkey)
{
    mrail_tx_t *tx;

    if (!mrail_put_has_space(lane)) {
        return -EAGAIN;
    }
    tx = mrail_tx_get(&ep->iface->engine->tx_small);
    if (MRAIL_UNLIKELY(tx == NULL)) {
        return -EAGAIN;
    }
    memcpy(tx->hdr, buffer, length);
    mrail_put_start(ep, lane, tx, length, remote_address, rkey);
    return 0;
}

int mrail_ep_put_short(mrail_ep_t *ep, const void *buffer, unsigned length,
                       uint64_t remote_address, const mrail_rkey_t *rkey)
{
    mrail_iface_t *iface = ep->iface;
    mrail_lane_t *lane;
    mrail_op_t *op;
    int ret;

    mrail_iface_enter(iface);
    lane = mrail_put_lane(ep, length);
    if (MRAIL_LIKELY(lane != NULL)) {
        ret = mrail_put_copy(ep, lane, buffer, length, remote_address, rkey);
        goto out;
    }
    op = mrail_rma_bounce(ep, MRAIL_OP_PUT, &iface->engine->tx_small, NULL,
                          &ret);
    if (op != NULL) {
        mrail_copy(op->bounce->hdr, buffer, length);
        mrail_rma_submit_bounce(op, length, remote_address, rkey);
        ret = 0;
    }
out:
    mrail_iface_leave(iface);
    return ret;
}

ptrdiff_t mrail_ep_put_bcopy(mrail_ep_t *ep, mrail_pack_func_t pack, void *arg,
                             uint64_t remote_address, const mrail_rkey_t *rkey)
{
    mrail_iface_t *iface = ep->iface;
    mrail_engine_t *engine = iface->engine;
    mrail_lane_t *lane;
    ptrdiff_t result;
    mrail_op_t *op;
    int ret;

    mrail_iface_enter(iface);
    op = mrail_rma_bounce(ep, MRAIL_OP_PUT, &engine->tx_big, NULL, &ret);
    if (op == NULL) {
        result = ret;
        goto out;
    }
    result = (ptrdiff_t)pack(op->bounce->hdr, arg);
    lane = mrail_put_lane(ep, (size_t)result);
    if ((lane != NULL) && mrail_put_has_space(lane)) {
        mrail_put_start(ep, lane, op->bounce, (size_t)result, remote_address,
                        rkey);
        mrail_pool_put(&engine->ops, op);
    } else {
        mrail_rma_submit_bounce(op, (size_t)result, remote_address, rkey);
    }
out:
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

mrail_op_t *mrail_rma_find(const mrail_peer_t *peer, uint64_t id)
{
    mrail_op_t *op;

    mrail_list_for_each(op, &peer->ops, mrail_op_t, list) {
        /* A READ of a flush has the id of the next operation. */
        if ((op->id == id) && (op->kind != MRAIL_OP_VISIBLE)) {
            return op;
        }
    }
    return NULL;
}
