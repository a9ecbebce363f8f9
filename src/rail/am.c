/*
 * Active messages: one ordered stream to each peer over all its AM lanes.
 *
 * Invariants:
 * - A message stays in peer->unacked until the peer's cumulative
 *   acknowledgement covers it. If its lane fails first, it is also in
 *   peer->replay_am until another lane takes it.
 * - A lane carries at most as many AMs as its receiver has buffers (credits),
 *   so RNR does not occur.
 * - Credits travel with every message. The receiver also sends a separate
 *   message when half a window is free. The sender could not request credits at
 *   the right time: a buffer that is held back, or waits for its iface, may
 *   return long after its message was acknowledged.
 * - Standalone ACKs take no credit; MRAIL_ACK_RESERVE limits their number.
 */
#include "config.h"
#include "rail/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- buffers ---- */

mrail_tx_t *mrail_tx_get(mrail_pool_t *pool)
{
    return mrail_pool_get(pool);
}

void mrail_tx_put(mrail_tx_t *tx)
{
    mrail_pool_put(tx->pool, tx);
}

int mrail_rx_start(mrail_engine_t *engine, mrail_rail_t *rail, mrail_rx_t *rx,
                   uint32_t lkey)
{
    struct ibv_recv_wr *bad;

    mrail_list_init(&rx->list);
    rx->rail = rail;
    rx->orphan = 0;
    rx->lane = NULL;
    rx->hdr = (mrail_data_hdr_t *)((char *)rx + MRAIL_RX_HEADROOM);
    rx->sge.addr = (uintptr_t)rx->hdr;
    /* The buffer size is rounded up. The limit makes the device refuse a longer
     * message. */
    rx->sge.length = (uint32_t)engine->config.seg_size;
    rx->sge.lkey = lkey;
    rx->wr.wr_id = (uintptr_t)rx | MRAIL_WR_RECV;
    rx->wr.next = NULL;
    rx->wr.sg_list = &rx->sge;
    rx->wr.num_sge = 1;
    return -ibv_post_srq_recv(rail->srq, &rx->wr, &bad);
}

/* Notes that the lane owes its peer a reply. */
static void mrail_am_add_pending_ack(mrail_engine_t *engine, mrail_lane_t *lane)
{
    if (mrail_list_empty(&lane->ack_list) && !lane->out) {
        mrail_list_add_tail(&engine->acks, &lane->ack_list);
    }
}

void mrail_am_add_pending_reply(mrail_peer_t *peer)
{
    if ((mrail_peer_num_up(peer) != 0) && (peer->num_am != 0)) {
        mrail_am_add_pending_ack(peer->engine, peer->up[0]);
    }
}

void mrail_am_restored(mrail_lane_t *lane)
{
    /* A lane that carries no messages has no credits to report, and the peer
     * has no buffer for a reply on it. */
    if (lane->am_lane) {
        mrail_am_add_pending_ack(lane->peer->engine, lane);
    }
}

/* A credit update is due when half a window, rounded up, is free, so that at
 * most two updates are unread. It is due at once if the peer has no credit
 * left. The peer may need the credit to replay a missing message, and all other
 * credits may be occupied by messages that wait for it. */
static int mrail_am_has_credit_update(const mrail_lane_t *lane)
{
    unsigned unadvertised = (uint16_t)(lane->am_granted - lane->am_advertised);

    return (unadvertised >= (lane->credits + 1) / 2) ||
           ((unadvertised != 0) && (lane->am_received == lane->am_advertised));
}

/* Grants the peer one more message on the lane. */
static inline void mrail_am_grant(mrail_engine_t *engine, mrail_lane_t *lane)
{
    ++lane->am_granted;
    if (mrail_am_has_credit_update(lane)) {
        mrail_am_add_pending_ack(engine, lane);
    }
}

void mrail_rx_repost(mrail_engine_t *engine, unsigned rail)
{
    mrail_rx_t *const *batch = engine->repost[rail];
    unsigned count = engine->num_repost[rail];
    struct ibv_recv_wr *bad;

    engine->num_repost[rail] = 0;
    batch[count - 1]->wr.next = NULL;
    if (ibv_post_srq_recv(engine->rails[rail].srq, &batch[0]->wr, &bad) != 0) {
        /* Cannot happen: the SRQ has room for all buffers. */
        mrail_error("%s: the shared receive queue refused a buffer",
                    engine->rails[rail].attr.device);
        return;
    }
    for (unsigned i = 0; i < count; ++i) {
        mrail_lane_t *lane = batch[i]->lane;

        if (MRAIL_LIKELY(lane != NULL)) {
            mrail_am_grant(engine, lane);
        } else if (MRAIL_UNLIKELY(batch[i]->orphan)) {
            batch[i]->orphan = 0;
            __atomic_fetch_add(&engine->rails[rail].srq_back, 1,
                               __ATOMIC_RELAXED);
        }
    }
}

static void mrail_rx_free_copy(mrail_engine_t *engine, mrail_rx_t *rx)
{
    if (rx->lane != NULL) {
        mrail_am_grant(engine, rx->lane);
    }
    free(rx);
}

void mrail_rx_release(mrail_engine_t *engine, mrail_rx_t *rx)
{
    unsigned rail, count;

    if (MRAIL_UNLIKELY(rx->rail == NULL)) {
        mrail_rx_free_copy(engine, rx);
        return;
    }
    rail = rx->rail->index;
    count = engine->num_repost[rail];
    engine->repost[rail][count] = rx;
    if (count != 0) {
        engine->repost[rail][count - 1]->wr.next = &rx->wr;
    }
    engine->num_repost[rail] = ++count;
    if (count == MRAIL_REPOST_BATCH) {
        mrail_rx_repost(engine, rail);
    }
}

/* Releases the buffer of a message that took no credit. It is one of the few
 * reserved buffers, so it returns at once. */
static void mrail_rx_release_free(mrail_engine_t *engine, mrail_rx_t *rx)
{
    const mrail_rail_t *rail = rx->rail;

    rx->lane = NULL;
    mrail_rx_release(engine, rx);
    if (rail != NULL) {
        mrail_rx_flush(engine, rail->index);
    }
}

/* ---- sending ---- */

/*
 * The last credit is reserved for replayed messages: messages that wait for a
 * missing one may occupy all other credits, and the missing one must still get
 * through. A new message may take the last credit if all unacknowledged
 * messages are on this lane, because its QP delivers them in order.
 */
static int mrail_am_lane_usable(const mrail_lane_t *lane)
{
    const unsigned kept = MRAIL_FAILOVER ? MRAIL_REPLAY_CREDITS : 0;
    unsigned credits = mrail_lane_credits(lane);

    if (MRAIL_UNLIKELY(credits <= kept) &&
        ((credits == 0) || (lane->am_inflight != lane->peer->am_inflight))) {
        return 0;
    }
    return mrail_lane_sq_free(lane) != 0;
}

/* Returns the lane that would finish `length` bytes first. */
static mrail_lane_t *mrail_am_spread(mrail_peer_t *peer, size_t length)
{
    mrail_lane_t *best = NULL;
    double best_s = 0;

    for (unsigned i = 0; i < peer->num_am; ++i) {
        mrail_lane_t *lane = peer->up[i];
        uint64_t rate = mrail_tele_window_rate(&lane->sched.meter);
        double finish_s;

        if (!mrail_am_lane_usable(lane) || lane->leaving) {
            continue;
        }
        rate = (rate != 0) ? rate : lane->sched.nominal;
        finish_s = (double)(lane->am_inflight + lane->sched.inflight + length) /
                   (double)rate;
        if ((best == NULL) || (finish_s < best_s)) {
            best = lane;
            best_s = finish_s;
        }
    }
    return best;
}

/* A credit-blocked sender says so in its next message on one lane without
 * credits, and the peer enlarges the window of that lane. The lane that has
 * carried the fewest messages is chosen: if the window of the first lane always
 * grew, that lane would attract nearly all messages. Only one window grows at a
 * time, because unneeded buffers cost memory and cache. */
static void mrail_am_mark_blocked(mrail_peer_t *peer)
{
    mrail_lane_t *least = NULL;

    for (unsigned i = 0; i < peer->num_am; ++i) {
        mrail_lane_t *lane = peer->up[i];

        if ((mrail_lane_credits(lane) <= MRAIL_REPLAY_CREDITS) &&
            ((least == NULL) ||
             mrail_seq16_before(lane->am_sent, least->am_sent))) {
            least = lane;
        }
    }
    if (least != NULL) {
        least->credit_blocked = 1;
    }
}

/* Selects the lane that finishes first, because large messages use all rails.
 * Requests the lanes of the other rails once enough bytes are in flight. */
static mrail_lane_t *mrail_am_better_lane(mrail_peer_t *peer,
                                          mrail_lane_t *usable, size_t length)
{
    mrail_lane_t *lane;

    if (MRAIL_UNLIKELY(peer->num_fences != 0)) {
        return usable;
    }
    if (MRAIL_UNLIKELY(peer->up[0]->am_inflight >= MRAIL_AM_EXPAND)) {
        mrail_peer_request_lanes(peer, 1);
    }
    lane = mrail_am_spread(peer, length);
    return (lane != NULL) ? lane : usable;
}

/* Returns a lane for an AM of `length` bytes when the primary lane cannot take
 * it. Returns NULL, with -EAGAIN or -errno in *ret_p, if there is none. */
static mrail_lane_t *mrail_am_lane(mrail_ep_t *ep, size_t length, int *ret_p)
{
    mrail_peer_t *peer = ep->peer;
    mrail_lane_t *lane = NULL;

    *ret_p = -EAGAIN;
    if (MRAIL_UNLIKELY(ep->failed != 0)) {
        *ret_p = mrail_ep_error(ep);
        return NULL;
    }
    if (MRAIL_UNLIKELY(mrail_peer_num_up(peer) == 0)) {
        mrail_peer_request_lanes(peer, 0);
        return NULL;
    }
    if (MRAIL_UNLIKELY(peer->num_fences != 0)) {
        lane = peer->ordered_lane;
        if ((lane != NULL) && !peer->ordered_lane_closed && lane->am_lane &&
            (peer->seen_mask & (1ull << lane->slot)) && /* not suspect */
            mrail_am_lane_usable(lane)) {
            return lane;
        }
        return NULL;
    }
    lane = mrail_am_better_lane(peer, NULL, length);
    if (lane == NULL) {
        mrail_am_mark_blocked(peer);
    }
    return lane;
}

/* Fast path: returns the primary lane if nothing prevents its use. Messages
 * that must not wait also use the primary lane. */
static inline mrail_lane_t *mrail_am_primary(mrail_ep_t *ep, size_t length,
                                             int *ret_p)
{
    mrail_peer_t *peer = ep->peer;

    if (MRAIL_LIKELY((ep->failed == 0) && (mrail_peer_num_up(peer) != 0) &&
                     (peer->num_fences == 0) &&
                     mrail_am_lane_usable(peer->up[0]))) {
        return peer->up[0];
    }
    return mrail_am_lane(ep, length, ret_p);
}

static void mrail_am_fill_header(mrail_data_hdr_t *hdr, mrail_lane_t *lane,
                                 uint8_t type, uint8_t flags)
{
    hdr->version = MRAIL_WIRE_VERSION;
    hdr->type = type;
    hdr->flags = flags;
    hdr->tag = lane->tx_tag;
    hdr->ack = htobe32(lane->peer->rx_next);
    hdr->credit = htobe16(lane->am_granted);
    lane->am_advertised = lane->am_granted;
    hdr->returned = 0;
    hdr->reserved = 0;
}

/* Posts a message on the lane. Its header must be complete. */
static MRAIL_INLINE void mrail_am_post(mrail_lane_t *lane, mrail_tx_t *tx)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)tx->hdr,
        .length = tx->length,
        .lkey = tx->mem->mr[lane->rail->index]->lkey,
    };
    struct ibv_send_wr wr;

    wr.wr_id = mrail_lane_marker(lane);
    wr.next = NULL;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = (tx->length <= lane->max_inline) ? IBV_SEND_INLINE : 0;
    if (MRAIL_UNLIKELY(mrail_lane_post(lane, &wr) != 0)) {
        mrail_lane_error(lane, "post");
    }
}

/* Adds the message to the stream. A later post error is a failure of the lane,
 * not of the message. */
static void mrail_am_commit(mrail_ep_t *ep, mrail_lane_t *lane, mrail_tx_t *tx,
                            uint8_t am_id, size_t length)
{
    mrail_peer_t *peer = ep->peer;
    mrail_engine_t *engine;
    uint8_t flags = 0;

    tx->number = lane->am_sent++;
    if (MRAIL_UNLIKELY(lane->credit_blocked)) {
        lane->credit_blocked = 0;
        flags = MRAIL_DATA_CREDIT_BLOCKED;
    }
    mrail_am_fill_header(tx->hdr, lane, MRAIL_DATA_AM, flags);
    tx->hdr->am_id = am_id;
    tx->hdr->seq = htobe32(peer->tx_next);
    tx->hdr->iface = htobe16(ep->remote_iface);
    tx->seq = peer->tx_next++;
    tx->lane = lane;
    tx->length = (uint32_t)length;
    lane->am_inflight += length;
    lane->carried += MRAIL_TELEMETRY ? length : 0;
    peer->am_inflight += MRAIL_FAILOVER ? length : 0;
    mrail_list_add_tail(&peer->unacked, &tx->list);

    mrail_am_post(lane, tx);
    /* Done after the post: loading the engine again keeps fewer registers
     * alive. */
    engine = lane->peer->engine;
    ++engine->counters.am_sent;
    mrail_stall_wake(engine);
}

int mrail_ep_am_short(mrail_ep_t *ep, uint8_t am_id, const void *header,
                      unsigned header_length, const void *payload,
                      unsigned length)
{
    size_t total = sizeof(mrail_data_hdr_t) + header_length + length;
    mrail_iface_t *iface = ep->iface;
    mrail_lane_t *lane;
    mrail_tx_t *tx;
    char *data;
    int ret;

    mrail_iface_enter(iface);
    lane = mrail_am_primary(ep, total, &ret);
    if (lane == NULL) {
        goto out;
    }
    tx = mrail_tx_get(&iface->engine->tx_small);
    if (tx == NULL) {
        ret = -EAGAIN;
        goto out;
    }
    data = (char *)(tx->hdr + 1);
    mrail_copy(data, header, header_length);
    mrail_copy(data + header_length, payload, length);
    mrail_am_commit(ep, lane, tx, am_id, total);
    ret = 0;
out:
    mrail_iface_leave(iface);
    return ret;
}

ptrdiff_t mrail_ep_am_bcopy(mrail_ep_t *ep, uint8_t am_id,
                            mrail_pack_func_t pack, void *arg)
{
    mrail_iface_t *iface = ep->iface;
    mrail_engine_t *engine = iface->engine;
    mrail_tx_t *tx, *small;
    mrail_lane_t *lane;
    size_t length, total;
    ptrdiff_t result;
    int ret;

    mrail_iface_enter(iface);
    /* The length is not known yet, so any lane will do for now. */
    lane = mrail_am_primary(ep, 0, &ret);
    if (lane == NULL) {
        result = ret;
        goto out;
    }
    tx = mrail_tx_get(&engine->tx_big);
    if (tx == NULL) {
        result = -EAGAIN;
        goto out;
    }
    length = pack(tx->hdr + 1, arg);
    total = sizeof(mrail_data_hdr_t) + length;
    if (total <= MRAIL_TX_SMALL_AREA) {
        /* Large buffers are few, so a small message must not keep one. */
        small = mrail_tx_get(&engine->tx_small);
        if (small != NULL) {
            memcpy(small->hdr + 1, tx->hdr + 1, length);
            mrail_tx_put(tx);
            tx = small;
        }
    }
    if (total >= ep->peer->am_spread) {
        lane = mrail_am_better_lane(ep->peer, lane, total);
    }
    mrail_am_commit(ep, lane, tx, am_id, total);
    result = (ptrdiff_t)length;
out:
    mrail_iface_leave(iface);
    return result;
}

/* ---- acknowledgements ---- */

/* Posts a SEND that consists of a data header only. `returned`: number of
 * credits to return. Returns 0, or -EAGAIN if the queue is full. */
static int mrail_am_post_ack(mrail_lane_t *lane, uint8_t flags,
                             uint16_t returned)
{
    mrail_data_hdr_t hdr = {0};
    struct ibv_sge sge = {.addr = (uintptr_t)&hdr, .length = sizeof(hdr)};
    struct ibv_send_wr wr = {
        .wr_id = mrail_lane_marker(lane),
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_INLINE,
    };

    if (mrail_lane_sq_free(lane) == 0) {
        return -EAGAIN;
    }
    mrail_am_fill_header(&hdr, lane, MRAIL_DATA_ACK, flags);
    hdr.seq = htobe32(lane->peer->tx_next);
    hdr.returned = htobe16(returned);
    ++lane->peer->engine->counters.acks_sent;
    if (mrail_lane_post(lane, &wr) != 0) {
        mrail_lane_error(lane, "post of an acknowledgement");
    }
    return 0;
}

/* Requests an acknowledgement if a flush waits and no request is pending.
 * Returns 0, or -EAGAIN if the send queue is full. */
static int mrail_am_post_ack_request(mrail_peer_t *peer)
{
    int ret;

    if (peer->ack_requested ||
        !mrail_seq32_before(peer->tx_acked, peer->ack_wanted) ||
        (mrail_peer_num_up(peer) == 0) || (peer->num_am == 0)) {
        return 0;
    }
    ret = mrail_am_post_ack(peer->up[0], MRAIL_DATA_ACK_REQ, 0);
    peer->ack_requested = (ret == 0);
    return ret;
}

void mrail_am_request_ack(mrail_peer_t *peer)
{
    peer->ack_wanted = peer->tx_next;
    mrail_am_post_ack_request(peer);
}

/* ---- windows ---- */

/*
 * The receive buffers of a rail are leased to its lanes as credits. A lane
 * whose sender waits for credits gets more. If few buffers are left, lanes
 * that received nothing recently must return theirs (RECALL). The senders
 * return credits by counting them as used (RETURN). Thus the counts of both
 * ends stay absolute, and credit updates may cross.
 */

/* Returns the largest window of a lane: an equal part of half of the queue.
 * With this limit, lanes with work do not starve each other, and later lanes
 * find buffers. */
static unsigned mrail_am_max_credits(const mrail_engine_t *engine,
                                     const mrail_rail_t *rail, unsigned most)
{
    unsigned part = rail->srq_depth / 2 / MRAIL_MAX(rail->num_am_lanes, 1u);

    return MRAIL_MIN(most, MRAIL_MAX(part, engine->config.am_credits));
}

void mrail_am_recall_lane(mrail_engine_t *engine, mrail_lane_t *lane)
{
    lane->recall_due = lane->was_recalled = 1;
    mrail_am_add_pending_ack(engine, lane);
}

/* Recalls credits from idle lanes of the rail. A lane is idle if it received
 * nothing since the previous search visited it. Control lock held. */
static void mrail_am_recall(mrail_engine_t *engine, const mrail_rail_t *rail)
{
    unsigned visits = MRAIL_MIN(engine->num_lanes, MRAIL_AM_RECALL_VISITS);

    while (visits-- > 0) {
        mrail_lane_t *lane = engine->lanes[engine->recall_next];

        engine->recall_next = (engine->recall_next + 1) % engine->num_lanes;
        if ((lane == NULL) || (lane->rail != rail) ||
            (lane->credits <= MRAIL_AM_CREDITS_FLOOR)) {
            continue;
        }
        if (lane->am_received != lane->recall_received) {
            lane->recall_received = lane->am_received;
            lane->was_recalled = 0;
        } else if (!lane->was_recalled) {
            mrail_am_recall_lane(engine, lane);
        }
    }
}

/* Doubles the peer's window, which is too small for its messages, while buffers
 * are left. */
static void mrail_am_grow(mrail_engine_t *engine, mrail_lane_t *lane,
                          unsigned most)
{
    mrail_rail_t *rail = lane->rail;
    unsigned more, leased;

    if ((lane->credits >= most) ||
        ((size_t)lane->credits * lane->am_length >= MRAIL_AM_WINDOW_BYTES)) {
        return;
    }
    pthread_mutex_lock(&engine->ctl_lock);
    leased = rail->srq_used - mrail_rail_spare(rail);
    most = mrail_am_max_credits(engine, rail, most);
    if (lane->credits < most) {
        more = MRAIL_MIN(lane->credits, most - lane->credits);
        if ((leased + more <= rail->srq_depth / 2) &&
            (mrail_lane_add_buffers(engine, lane, more) == 0)) {
            lane->credits += more;
            lane->am_granted += (uint16_t)more;
            mrail_am_add_pending_ack(engine, lane);
        } else {
            mrail_am_recall(engine, rail);
        }
    }
    pthread_mutex_unlock(&engine->ctl_lock);
}

/* Takes back `count` credits that the peer returns. They count as received
 * messages. */
static void mrail_am_take_return(mrail_engine_t *engine, mrail_lane_t *lane,
                                 unsigned count)
{
    if ((count > (uint16_t)(lane->am_advertised - lane->am_received)) ||
        (count >= lane->credits)) {
        mrail_peer_error(lane->peer, "it returns more credits than it has");
        return;
    }
    lane->am_received += (uint16_t)count;
    lane->credits -= count;
    pthread_mutex_lock(&engine->ctl_lock);
    mrail_lane_return_buffers(lane, count);
    pthread_mutex_unlock(&engine->ctl_lock);
    if (mrail_am_has_credit_update(lane)) {
        mrail_am_add_pending_ack(engine, lane);
    }
}

/* Sends a RECALL, a RETURN, or both. Returns 0, or -EAGAIN if the send queue is
 * full. */
static int mrail_am_send_recall(mrail_lane_t *lane)
{
    unsigned credits = mrail_lane_credits(lane), returned = 0;
    uint8_t flags = 0;

    if (lane->recall_due) {
        flags |= MRAIL_DATA_RECALL;
    }
    if (lane->return_due && (credits > MRAIL_AM_CREDITS_FLOOR)) {
        flags |= MRAIL_DATA_RETURN;
        returned = credits - MRAIL_AM_CREDITS_FLOOR;
    }
    if ((flags != 0) &&
        (mrail_am_post_ack(lane, flags, (uint16_t)returned) != 0)) {
        return -EAGAIN;
    }
    lane->recall_due = lane->return_due = 0;
    lane->am_sent += (uint16_t)returned;
    return 0;
}

/* Returns 1 if the lane may carry replies: it must be up. The peer may send on
 * a lane before its LANE_READY arrives here, but if that lane ended, nothing
 * would wait for a reply on it. */
static int mrail_am_may_post(const mrail_lane_t *lane)
{
    return (mrail_peer_num_up(lane->peer) != 0) &&
           (lane->peer->seen_mask & (1ull << lane->slot));
}

/* Sends the lane's replies. Returns 0. Returns -EAGAIN if the lane is not up,
 * its send queue is full, or the peer's request cannot be answered yet. */
static int mrail_am_send_pending_acks(mrail_engine_t *engine,
                                      mrail_lane_t *lane)
{
    mrail_peer_t *peer = lane->peer;

    mrail_rx_flush(engine, lane->rail->index);
    if (MRAIL_UNLIKELY(!mrail_am_may_post(lane))) {
        return -EAGAIN;
    }
    if (peer->ack_due &&
        !mrail_seq32_before(peer->rx_next, peer->ack_due_seq)) {
        if (mrail_am_post_ack(lane, MRAIL_DATA_ACK_REP, 0) != 0) {
            return -EAGAIN;
        }
        peer->ack_due = 0;
    } else if (mrail_am_has_credit_update(lane)) {
        /* Frequent credit-only messages show that the window is small, so it
         * grows. It grows only to half the maximum: the maximum is for senders
         * that are credit-blocked. */
        if (++lane->credit_updates == MRAIL_AM_CREDIT_UPDATE_GROW) {
            lane->credit_updates = 0;
            mrail_am_grow(engine, lane, MRAIL_AM_CREDITS_MAX / 2);
        }
        if (mrail_am_post_ack(lane, 0, 0) != 0) {
            return -EAGAIN;
        }
    }
    if (MRAIL_UNLIKELY(lane->recall_due || lane->return_due) &&
        (mrail_am_send_recall(lane) != 0)) {
        return -EAGAIN;
    }
    return ((mrail_am_post_ack_request(peer) != 0) || peer->ack_due) ? -EAGAIN
                                                                     : 0;
}

void mrail_am_send_acks(mrail_engine_t *engine)
{
    mrail_lane_t *lane, *tmp;

    mrail_list_for_each_safe(lane, tmp, &engine->acks, mrail_lane_t, ack_list) {
        if (lane->peer->dead ||
            (mrail_am_send_pending_acks(engine, lane) == 0)) {
            mrail_list_del(&lane->ack_list);
        }
    }
}

/* Drops the message, because it has arrived or the peer has failed. */
static inline void mrail_am_invalidate(mrail_peer_t *peer, mrail_tx_t *tx)
{
    mrail_list_del(&tx->list);
    tx->lane->am_inflight -= tx->length;
    peer->am_inflight -= MRAIL_FAILOVER ? tx->length : 0;
    mrail_tx_put(tx);
}

static void mrail_am_acked(mrail_peer_t *peer, uint32_t ack)
{
    /* Refuses numbers before tx_acked and numbers that were not sent. */
    if ((ack == peer->tx_acked) || mrail_seq32_before(ack, peer->tx_acked) ||
        mrail_seq32_before(peer->tx_next, ack)) {
        return;
    }
    /* Ignores an acknowledgement that covers a message in the replay queue:
     * that message has not arrived, so the number is wrong. */
    if (MRAIL_UNLIKELY(!mrail_list_empty(&peer->replay_am)) &&
        mrail_seq32_before(
            mrail_list_head(&peer->replay_am, mrail_tx_t, replay)->seq, ack)) {
        return;
    }
    peer->tx_acked = ack;
    if (mrail_seq32_before(peer->ack_wanted, ack)) {
        peer->ack_wanted = ack; /* a stale value would look new after the
                                 * numbers wrap */
    }
    while (!mrail_list_empty(&peer->unacked)) {
        mrail_tx_t *tx = mrail_list_head(&peer->unacked, mrail_tx_t, list);

        if (!mrail_seq32_before(tx->seq, ack)) {
            break;
        }
        mrail_am_invalidate(peer, tx);
    }
}

/* ---- replay ---- */

static void mrail_am_add_replay(mrail_peer_t *peer, mrail_tx_t *tx)
{
    mrail_list_t *pos = &peer->replay_am;

    while ((pos->prev != &peer->replay_am) &&
           mrail_seq32_before(
               tx->seq, mrail_list_entry(pos->prev, mrail_tx_t, replay)->seq)) {
        pos = pos->prev;
    }
    mrail_list_insert_before(pos, &tx->replay);
}

void mrail_am_take_lost(mrail_lane_t *lane)
{
    mrail_peer_t *peer = lane->peer;
    mrail_tx_t *tx;

    mrail_list_for_each(tx, &peer->unacked, mrail_tx_t, list) {
        if (tx->lane != lane) {
            continue;
        }
        if (!mrail_seq16_before(tx->number, lane->peer_has)) {
            mrail_am_add_replay(peer, tx);
        }
        lane->am_inflight -= tx->length;
        peer->detached.am_inflight += tx->length;
        tx->lane = &peer->detached;
    }
}

/* Returns 1 if all earlier messages that may still be missing are on this lane,
 * whose QP delivers them first. Messages of a failed lane that need no replay
 * have arrived. */
static int mrail_am_is_next_on(const mrail_lane_t *lane, const mrail_tx_t *tx)
{
    const mrail_peer_t *peer = lane->peer;
    const mrail_tx_t *before;

    mrail_list_for_each(before, &peer->unacked, mrail_tx_t, list) {
        if (before == tx) {
            return 1;
        }
        if ((before->lane != lane) && (before->lane != &peer->detached)) {
            return 0;
        }
    }
    return 1;
}

/* Returns a lane with a credit for a replayed message. The reserved credit may
 * be used only if the message is delivered on arrival, because delivery returns
 * the credit. If the message instead waited for earlier ones on another lane,
 * and that lane failed, this lane would have no credit to replay them. */
static mrail_lane_t *mrail_am_replay_lane(mrail_peer_t *peer,
                                          const mrail_tx_t *tx)
{
    for (unsigned i = 0; i < peer->num_am; ++i) {
        mrail_lane_t *lane = peer->up[i];
        unsigned credits = mrail_lane_credits(lane);

        if ((mrail_lane_sq_free(lane) != 0) &&
            ((credits > MRAIL_REPLAY_CREDITS) ||
             ((credits != 0) && mrail_am_is_next_on(lane, tx)))) {
            return lane;
        }
    }
    return NULL;
}

void mrail_am_replay(mrail_peer_t *peer)
{
    const mrail_flush_t *barrier = mrail_flush_barrier(peer);

    while (!mrail_list_empty(&peer->replay_am) &&
           (mrail_peer_num_up(peer) != 0)) {
        mrail_tx_t *tx = mrail_list_head(&peer->replay_am, mrail_tx_t, replay);
        mrail_lane_t *lane = mrail_am_replay_lane(peer, tx);

        if ((lane == NULL) || ((barrier != NULL) &&
                               !mrail_seq32_before(tx->seq, barrier->am_seq))) {
            return;
        }
        mrail_list_del(&tx->replay);
        peer->detached.am_inflight -= tx->length;
        lane->am_inflight += tx->length;
        tx->lane = lane;
        tx->number = lane->am_sent++;
        mrail_am_fill_header(tx->hdr, lane, MRAIL_DATA_AM, 0);
        ++peer->engine->counters.am_replayed;
        mrail_stall_wake(peer->engine);
        mrail_am_post(lane, tx);
    }
}

void mrail_am_fail(mrail_peer_t *peer)
{
    while (!mrail_list_empty(&peer->replay_am)) {
        mrail_list_del(peer->replay_am.next);
    }
    while (!mrail_list_empty(&peer->unacked)) {
        mrail_tx_t *tx = mrail_list_head(&peer->unacked, mrail_tx_t, list);

        mrail_am_invalidate(peer, tx);
    }
    while (!mrail_list_empty(&peer->hold)) {
        mrail_rx_t *rx = mrail_list_head(&peer->hold, mrail_rx_t, list);

        mrail_list_del(&rx->list);
        mrail_rx_release_free(peer->engine, rx);
    }
}

/* ---- receiving ---- */

/* Returns a copy of the message on the heap, or NULL. */
static mrail_rx_t *mrail_rx_copy(const mrail_rx_t *rx)
{
    size_t length = sizeof(*rx->hdr) + rx->length;
    mrail_rx_t *copy = malloc(MRAIL_RX_HEADROOM + length);

    if (copy != NULL) {
        mrail_list_init(&copy->list);
        copy->rail = NULL;
        copy->lane = NULL;
        copy->orphan = 0;
        copy->hdr = (mrail_data_hdr_t *)((char *)copy + MRAIL_RX_HEADROOM);
        copy->length = rx->length;
        memcpy(copy->hdr, rx->hdr, length);
    }
    return copy;
}

/* Copies the message: the iface may not make progress for a long time, and
 * other ifaces need the buffer and the credit. Without room for the copy, the
 * inbox keeps the message itself. */
static mrail_rx_t *mrail_inbox_copy(mrail_iface_t *iface, mrail_rx_t *rx)
{
    size_t size = MRAIL_RX_HEADROOM + sizeof(*rx->hdr) + rx->length;
    mrail_rx_t *copy;

    if (rx->rail == NULL) { /* a held message that is already a copy */
        if (rx->lane != NULL) {
            mrail_am_grant(iface->engine, rx->lane);
            rx->lane = NULL;
        }
        iface->inbox_bytes += size;
        return rx;
    }
    if (iface->inbox_bytes + size > MRAIL_INBOX_BYTES) {
        return rx;
    }
    copy = mrail_rx_copy(rx);
    if (copy == NULL) {
        return rx;
    }
    iface->inbox_bytes += size;
    mrail_rx_release(iface->engine, rx);
    return copy;
}

mrail_rx_t *mrail_inbox_take(mrail_iface_t *iface)
{
    mrail_rx_t *rx = mrail_list_head(&iface->inbox, mrail_rx_t, list);

    mrail_list_del(&rx->list);
    return rx;
}

void mrail_inbox_release(mrail_iface_t *iface, mrail_rx_t *rx)
{
    if (rx->rail != NULL) {
        mrail_rx_release(iface->engine, rx);
        return;
    }
    iface->inbox_bytes -= MRAIL_RX_HEADROOM + sizeof(*rx->hdr) + rx->length;
    mrail_rx_free_copy(iface->engine, rx);
}

static void mrail_am_deliver(mrail_engine_t *engine, mrail_rx_t *rx)
{
    mrail_iface_t *iface = mrail_iface_find(engine, be16toh(rx->hdr->iface));

    /* Messages in the inbox come first. A get_short in a callback may have put
     * them there. */
    if (MRAIL_LIKELY((iface != NULL) && (iface == engine->current) &&
                     mrail_list_empty(&iface->inbox))) {
        ++iface->num_called;
        iface->params.am(iface->params.arg, rx->hdr->am_id, rx->hdr + 1,
                         rx->length);
        mrail_rx_release(engine, rx);
    } else if (iface != NULL) {
        rx = mrail_inbox_copy(iface, rx);
        mrail_list_add_tail(&iface->inbox, &rx->list);
        mrail_wakeup_signal(iface);
    } else {
        ++engine->counters.rx_no_iface;
        mrail_rx_release(engine, rx);
    }
}

/* Moves a held message to the heap if the rail has granted more credits than it
 * has buffers. Held messages could otherwise occupy all buffers, so that the
 * missing message finds none. The copy keeps its credit, which bounds the
 * memory. */
static mrail_rx_t *mrail_am_give_back_buffer(mrail_engine_t *engine,
                                             mrail_rx_t *rx)
{
    mrail_rx_t *copy;

    if (MRAIL_LIKELY(__atomic_load_n(&rx->rail->srq_short, __ATOMIC_RELAXED) ==
                     0)) {
        return rx;
    }
    copy = mrail_rx_copy(rx);
    if (copy == NULL) {
        return rx;
    }
    copy->lane = rx->lane;
    mrail_rx_release_free(engine, rx);
    return copy;
}

/* Keeps a message that is ahead of its turn, in order. The message keeps its
 * credit, so the sender's credits bound the held messages of a peer. */
static void mrail_am_hold(mrail_engine_t *engine, mrail_peer_t *peer,
                          mrail_rx_t *rx, uint32_t seq)
{
    mrail_rx_t *pos;

    mrail_list_for_each(pos, &peer->hold, mrail_rx_t, list) {
        uint32_t other = be32toh(pos->hdr->seq);

        if (other == seq) {
            ++engine->counters.am_duplicate;
            mrail_rx_release(engine, rx);
            return;
        }
        if (mrail_seq32_before(seq, other)) {
            break;
        }
    }
    rx = mrail_am_give_back_buffer(engine, rx);
    mrail_list_insert_before(&pos->list, &rx->list);
    ++engine->counters.am_held;
}

static void mrail_am_accept(mrail_engine_t *engine, mrail_peer_t *peer,
                            mrail_rx_t *rx)
{
    uint32_t seq = be32toh(rx->hdr->seq);

    if (MRAIL_UNLIKELY(seq != peer->rx_next)) {
        if (mrail_seq32_before(seq, peer->rx_next)) {
            ++engine->counters.am_duplicate;
            mrail_rx_release(engine, rx);
        } else {
            mrail_am_hold(engine, peer, rx, seq);
        }
        return;
    }
    ++peer->rx_next;
    mrail_am_deliver(engine, rx);
    while (MRAIL_UNLIKELY(!mrail_list_empty(&peer->hold))) {
        rx = mrail_list_head(&peer->hold, mrail_rx_t, list);
        if (be32toh(rx->hdr->seq) != peer->rx_next) {
            break;
        }
        mrail_list_del(&rx->list);
        ++peer->rx_next;
        mrail_am_deliver(engine, rx);
    }
}

/* Returns the lane of a received header, or NULL if the header does not name a
 * lane of this engine. */
static mrail_lane_t *mrail_am_find_lane(mrail_engine_t *engine,
                                        const mrail_data_hdr_t *hdr,
                                        const struct ibv_wc *wc)
{
    unsigned index = be16toh(hdr->lane);
    mrail_lane_t *lane;

    if ((wc->byte_len < sizeof(*hdr)) || (hdr->version != MRAIL_WIRE_VERSION) ||
        (index >= engine->config.max_qps)) {
        return NULL;
    }
    lane = __atomic_load_n(&engine->lanes[index], __ATOMIC_ACQUIRE);
    /* Does not read lane->qp->qp_num: a header may name any lane, even one
     * whose QP the control thread is destroying. */
    if ((lane == NULL) ||
        (__atomic_load_n(&lane->qpn, __ATOMIC_RELAXED) != wc->qp_num) ||
        (lane->rx_tag != hdr->tag)) {
        return NULL;
    }
    return lane;
}

/* Takes one of the lane's credits. Returns 0 if the peer sent without a credit,
 * which would take buffers of other peers. */
static int mrail_am_take_credit(mrail_engine_t *engine, mrail_lane_t *lane)
{
    if (MRAIL_UNLIKELY(lane->am_received == lane->am_granted)) {
        ++engine->counters.rx_no_credit;
        mrail_peer_error(lane->peer, "it sends more than it has credits for");
        return 0;
    }
    ++lane->am_received;
    return 1;
}

static void mrail_am_take_ack(mrail_engine_t *engine, mrail_lane_t *lane,
                              const mrail_data_hdr_t *hdr)
{
    uint16_t credit = be16toh(hdr->credit);

    if (mrail_seq16_before(lane->am_limit, credit)) {
        lane->am_limit = credit;
    }
    mrail_am_acked(lane->peer, be32toh(hdr->ack));
    if (MRAIL_UNLIKELY(hdr->flags & MRAIL_DATA_ACK_REP)) {
        lane->peer->ack_requested = 0;
        mrail_am_add_pending_ack(engine, lane); /* another request may be
                                                 * waiting */
    }
    if (MRAIL_UNLIKELY(hdr->flags & MRAIL_DATA_RECALL)) {
        lane->return_due = 1;
        mrail_am_add_pending_ack(engine, lane);
    }
    if (hdr->flags & MRAIL_DATA_ACK_REQ) {
        lane->peer->ack_due = 1;
        lane->peer->ack_due_seq = be32toh(hdr->seq);
        /* The lane may be out of use by now. The answer then takes another
         * lane, possibly one that is up but not yet in use here. */
        if (lane->out) {
            mrail_peer_activate(lane->peer);
        } else {
            mrail_am_add_pending_ack(engine, lane);
        }
    }
}

void mrail_am_recv(mrail_engine_t *engine, mrail_rx_t *rx,
                   const struct ibv_wc *wc)
{
    mrail_lane_t *lane;

    rx->lane = NULL;
    if (MRAIL_UNLIKELY(wc->status != IBV_WC_SUCCESS)) {
        /* A QP in the error state has returned this buffer unused, so it goes
         * back to the SRQ. */
        ++engine->counters.cqe_errors;
        mrail_rx_release_free(engine, rx);
        return;
    }
    lane = mrail_am_find_lane(engine, rx->hdr, wc);
    if (MRAIL_UNLIKELY(lane == NULL)) {
        ++engine->counters.rx_bad_header;
        mrail_rx_release_free(engine, rx);
        return;
    }
    mrail_am_take_ack(engine, lane, rx->hdr);
    if (MRAIL_LIKELY(rx->hdr->type == MRAIL_DATA_AM)) {
        if (!mrail_am_take_credit(engine, lane)) {
            mrail_rx_release_free(engine, rx);
            return;
        }
        rx->lane = lane;
        rx->length = wc->byte_len - (uint32_t)sizeof(mrail_data_hdr_t);
        lane->am_length = rx->length;
        ++engine->counters.am_received;
        if (MRAIL_UNLIKELY(rx->hdr->flags & MRAIL_DATA_CREDIT_BLOCKED)) {
            mrail_am_grow(engine, lane, MRAIL_AM_CREDITS_MAX);
        }
        mrail_am_accept(engine, lane->peer, rx);
    } else {
        engine->counters.rx_bad_header += (rx->hdr->type != MRAIL_DATA_ACK);
        if (MRAIL_UNLIKELY(rx->hdr->flags & MRAIL_DATA_RETURN)) {
            mrail_am_take_return(engine, lane, be16toh(rx->hdr->returned));
        }
        mrail_rx_release_free(engine, rx);
    }
}
