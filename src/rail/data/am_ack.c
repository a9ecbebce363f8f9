/* Acknowledgements and credit messages. */
#include "config.h"
#include "rail/data/am_ack.h"

#include "base/seq.h"
#include "rail/conn/lane.h"
#include "rail/conn/lane_buffers.h"
#include "rail/conn/lane_error.h"
#include "rail/data/am_post.h"
#include "rail/data/peer_lanes.h"
#include "rail/data/rx.h"

#include <errno.h>
#include <pthread.h>

void mrail_am_add_pending_reply(mrail_peer_t *peer)
{
    if ((mrail_peer_num_up(peer) != 0) && (peer->num_am != 0)) {
        mrail_am_add_pending_ack(peer->engine, peer->up[0]);
    }
}

/* Posts a SEND that consists of only a data header. `returned`: number of
 * credits to return. Returns 0, or -EAGAIN if the queue is full. */
static MRAIL_DATA int mrail_am_post_ack(mrail_lane_t *lane, uint8_t flags,
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

/* Requests an acknowledgement if a flush is waiting for one and no request is
 * pending. Returns 0, or -EAGAIN if the send queue is full. */
static MRAIL_DATA int mrail_am_post_ack_request(mrail_peer_t *peer)
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

/*
 * The receive buffers of a rail are leased to its lanes as credits. A lane
 * whose sender waits for credits gets more. If buffers become scarce, lanes
 * that have received nothing recently must return theirs (RECALL). Senders
 * return credits by counting them as used (RETURN), so the counts of both ends
 * stay absolute, and credit updates may cross in flight.
 */

/* Returns the largest window of a lane: an equal share of half the queue. With
 * this limit, lanes with work do not starve each other, and later lanes find
 * buffers. */
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

/* Recalls credits from idle lanes of the rail. A lane is idle if it has
 * received nothing since the previous search visited it. Control lock held. */
static MRAIL_DATA void mrail_am_recall(mrail_engine_t *engine,
                                       const mrail_rail_t *rail)
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

void mrail_am_grow(mrail_engine_t *engine, mrail_lane_t *lane, unsigned most)
{
    mrail_rail_t *rail = lane->rail;
    unsigned more, leased;

    if ((lane->credits >= most) ||
        ((size_t)lane->credits * lane->am_length >= MRAIL_AM_WINDOW_BYTES)) {
        return;
    }
    mrail_ctl_take(engine);
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
    mrail_ctl_unlock(engine);
}

void mrail_am_take_return(mrail_engine_t *engine, mrail_lane_t *lane,
                          unsigned count)
{
    if ((count > (uint16_t)(lane->am_advertised - lane->am_received)) ||
        (count >= lane->credits)) {
        mrail_peer_error(lane->peer, "it returns more credits than it has");
        return;
    }
    lane->am_received += (uint16_t)count;
    lane->credits -= count;
    mrail_ctl_take(engine);
    mrail_lane_return_buffers(lane, count);
    mrail_ctl_unlock(engine);
    if (mrail_am_has_credit_update(lane)) {
        mrail_am_add_pending_ack(engine, lane);
    }
}

/* Sends a RECALL, a RETURN, or both. Returns 0, or -EAGAIN if the send queue is
 * full. */
static MRAIL_DATA int mrail_am_send_recall(mrail_lane_t *lane)
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
 * a lane before its LANE_READY arrives here. If the lane ended before that, a
 * reply on it would be lost unnoticed. */
static MRAIL_DATA int mrail_am_may_post(const mrail_lane_t *lane)
{
    return (mrail_peer_num_up(lane->peer) != 0) &&
           (lane->peer->seen_mask & (1ull << lane->slot));
}

/* Sends the lane's replies. Returns 0. Returns -EAGAIN if the lane is not up,
 * its send queue is full, or the peer's request cannot be answered yet. */
static MRAIL_DATA int mrail_am_send_pending_acks(mrail_engine_t *engine,
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
        /* Frequent credit-only messages mean that the window is too small, so
         * enlarge it, but only to half the maximum, because the rest is for
         * credit-blocked senders. */
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
