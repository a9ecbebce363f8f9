/*
 * Sends active messages: chooses a lane, and posts the message.
 *
 * Every message carries a credit update. The receiver also sends a separate
 * update when half a window is free. The sender could not request updates at
 * the right time, because a buffer whose message waits for an earlier message,
 * or for its iface, may return long after the message was acknowledged.
 */
#include "config.h"

#include "rail/conn/conn.h"
#include "rail/data/peer_lanes.h"
#include "rail/data/tx_post.h"
#include "rail/state/engine.h"
#include "rail/state/signals.h"

#include <errno.h>
#include <string.h>

/* Returns 1 if a new message may use the lane. */
static int mrail_am_lane_usable(const mrail_lane_t *lane)
{
    return mrail_am_stream_may_send(&lane->peer->am, &lane->am) &&
           (mrail_lane_sq_free(lane) != 0);
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

        if (!mrail_am_lane_usable(lane) ||
            mrail_lane_is(lane, MRAIL_LANE_NO_WORK)) {
            continue;
        }
        rate = (rate != 0) ? rate : lane->sched.nominal;
        finish_s = (double)(lane->am.inflight + lane->sched.inflight + length) /
                   (double)rate;
        if ((best == NULL) || (finish_s < best_s)) {
            best = lane;
            best_s = finish_s;
        }
    }
    return best;
}

/* Marks one lane without credits as credit-blocked. The next message on the
 * lane reports this, and the peer enlarges its window. The function chooses the
 * lane that has carried the fewest messages. If the window of the primary lane
 * always grew, that lane would attract nearly all messages. Only one window
 * grows at a time, because unneeded buffers cost memory and cache. */
static void mrail_am_mark_blocked(mrail_peer_t *peer)
{
    mrail_lane_t *least = NULL;

    for (unsigned i = 0; i < peer->num_am; ++i) {
        mrail_lane_t *lane = peer->up[i];

        if ((mrail_am_lane_credits(&lane->am) <= MRAIL_REPLAY_CREDITS) &&
            ((least == NULL) ||
             mrail_seq16_before(lane->am.sent, least->am.sent))) {
            least = lane;
        }
    }
    if (least != NULL) {
        least->am.blocked = 1;
    }
}

/* Selects the lane that would finish first, so that large messages use all
 * rails. Requests the lanes of the other rails once enough bytes are in
 * flight. */
static MRAIL_DATA mrail_lane_t *
mrail_am_better_lane(mrail_peer_t *peer, mrail_lane_t *usable, size_t length)
{
    mrail_lane_t *lane;

    if (MRAIL_UNLIKELY(peer->num_fences != 0)) {
        return usable;
    }
    if (MRAIL_UNLIKELY(peer->up[0]->am.inflight >= MRAIL_AM_EXPAND)) {
        mrail_peer_request_lanes(peer, 1);
    }
    lane = mrail_am_spread(peer, length);
    return (lane != NULL) ? lane : usable;
}

/* Returns a lane for an AM of `length` bytes when the primary lane cannot carry
 * it. Returns NULL, with -EAGAIN or another -errno in *ret_p, if there is no
 * lane. */
static MRAIL_DATA mrail_lane_t *mrail_am_lane(mrail_ep_t *ep, size_t length,
                                              int *ret_p)
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
        if ((lane != NULL) && !peer->ordered_lane_closed &&
            (lane->am.window != 0) &&
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

/* Fast path: returns the primary lane if it is usable, and otherwise any lane
 * that is. */
static inline MRAIL_DATA mrail_lane_t *
mrail_am_primary(mrail_ep_t *ep, size_t length, int *ret_p)
{
    mrail_peer_t *peer = ep->peer;

    if (MRAIL_LIKELY((ep->failed == 0) && (mrail_peer_num_up(peer) != 0) &&
                     (peer->num_fences == 0) &&
                     mrail_am_lane_usable(peer->up[0]))) {
        return peer->up[0];
    }
    return mrail_am_lane(ep, length, ret_p);
}

/* Adds the message to the stream and posts it. A post error is a failure of the
 * lane, not of the message. */
static MRAIL_DATA void mrail_am_commit(mrail_ep_t *ep, mrail_lane_t *lane,
                                       mrail_tx_t *tx, uint8_t am_id,
                                       size_t length)
{
    mrail_peer_t *peer = ep->peer;
    uint8_t flags = 0;

    if (MRAIL_UNLIKELY(lane->am.blocked)) {
        lane->am.blocked = 0;
        flags = MRAIL_DATA_CREDIT_BLOCKED;
    }
    mrail_am_fill_header(tx->hdr, lane, MRAIL_DATA_AM, flags);
    tx->hdr->am_id = am_id;
    tx->hdr->seq = htobe32(peer->am.tx_next);
    tx->hdr->iface = htobe16(ep->remote_iface);
    mrail_am_stream_send(&peer->am, &lane->am, &tx->am, length);
    lane->am_carried += MRAIL_TELEMETRY ? length : 0;

    mrail_am_post(lane, tx);
    /* These run after the post, and load the peer again, which reduces register
     * pressure. */
    peer = lane->peer;
    ++peer->engine->counters.am_sent;
    mrail_stall_wake(peer);
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
    /* The length is not known yet, so this choice may change. */
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
        /* Large buffers are scarce, so a small message must not occupy one. */
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
