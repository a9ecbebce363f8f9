#include "config.h"
#include "rail/data/am_ack.h"

#include "rail/conn/conn.h"
#include "rail/data/peer_lanes.h"
#include "rail/data/rx.h"
#include "rail/data/tx_post.h"

#include <errno.h>

void mrail_am_add_pending_reply(mrail_peer_t *peer)
{
    if ((mrail_peer_num_up(peer) != 0) && (peer->num_am != 0)) {
        mrail_am_add_pending_ack(peer->engine, peer->up[0]);
    }
}

/* Posts a SEND that consists of only a data header. Returns 0, or -EAGAIN if
 * the queue is full. */
static MRAIL_DATA int mrail_am_post_reply(mrail_lane_t *lane,
                                          const mrail_am_reply_t *reply)
{
    mrail_am_stream_t *stream = &lane->peer->am;
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
    mrail_am_stream_replied(stream, &lane->am, reply);
    mrail_am_fill_header(&hdr, lane, MRAIL_DATA_ACK, reply->flags);
    hdr.seq = htobe32(stream->tx_next);
    hdr.returned = htobe16(reply->returned);
    ++lane->peer->engine->counters.acks_sent;
    if (mrail_lane_post(lane, &wr) != 0) {
        mrail_lane_error(lane, "cannot post an acknowledgement");
    }
    return 0;
}

void mrail_am_request_ack(mrail_peer_t *peer)
{
    mrail_am_reply_t reply;

    mrail_am_stream_want_ack(&peer->am);
    if ((mrail_peer_num_up(peer) != 0) && (peer->num_am != 0) &&
        mrail_am_stream_reply(&peer->am, &peer->up[0]->am, &reply) &&
        (reply.flags & MRAIL_DATA_ACK_REQ)) {
        /* If the queue is full, the caller calls this function again. */
        (void)mrail_am_post_reply(peer->up[0], &reply);
    }
}

/*
 * The receive buffers of a rail are leased to its lanes as credits. A lane
 * whose sender waits for credits is granted more. If few buffers are left, idle
 * lanes must return their credits (RECALL, RETURN). proto/am_lane.h describes
 * the rules.
 */

/* Recalls credits from idle lanes of the rail. */
static MRAIL_BOTH void mrail_am_recall(mrail_engine_t *engine,
                                       const mrail_rail_t *rail)
{
    unsigned visits = MRAIL_MIN(engine->num_lanes, MRAIL_AM_RECALL_VISITS);

    while (visits-- > 0) {
        mrail_lane_t *lane = engine->lanes[engine->recall_next];

        engine->recall_next = (engine->recall_next + 1) % engine->num_lanes;
        if ((lane != NULL) && (lane->rail == rail) &&
            mrail_am_lane_is_idle(&lane->am)) {
            mrail_am_lane_recall(&lane->am);
            mrail_am_add_pending_ack(engine, lane);
        }
    }
}

void mrail_am_grow(mrail_engine_t *engine, mrail_lane_t *lane, unsigned most)
{
    mrail_am_pool_t pool;
    int more;

    if (!mrail_am_lane_may_grow(&lane->am, most)) {
        return;
    }
    mrail_ctl_take(engine);
    pool = mrail_lane_pool(engine, lane->rail);
    more = mrail_am_lane_growth(&lane->am, &pool, most);
    if ((more > 0) && (mrail_lane_add_buffers(lane, (unsigned)more) == 0)) {
        mrail_am_lane_grow(&lane->am, (unsigned)more);
        mrail_am_add_pending_ack(engine, lane);
    } else if (more != 0) {
        mrail_am_recall(engine, lane->rail);
    }
    mrail_ctl_unlock(engine);
}

void mrail_am_take_return(mrail_engine_t *engine, mrail_lane_t *lane,
                          unsigned count)
{
    int ret;

    mrail_ctl_take(engine);
    ret = mrail_am_lane_take_return(&lane->am, count);
    if (ret == 0) {
        mrail_lane_return_buffers(lane, count);
    }
    mrail_ctl_unlock(engine);
    if (ret != 0) {
        mrail_peer_error(lane->peer, "returned more credits than it holds");
    } else if (mrail_am_lane_update_due(&lane->am)) {
        mrail_am_add_pending_ack(engine, lane);
    }
}

/* Returns 1 if the lane may carry replies: it must be up. The peer may send on
 * a lane before its LANE_READY arrives here. If the lane ended before that, a
 * reply on the lane would be lost silently. */
static MRAIL_DATA int mrail_am_may_post(const mrail_lane_t *lane)
{
    return (mrail_peer_num_up(lane->peer) != 0) &&
           (lane->peer->seen_mask & (1ull << lane->slot));
}

/* Sends the reply that the lane owes. Returns 0. Returns -EAGAIN if the lane is
 * not up, its send queue is full, or the peer's request cannot be answered
 * yet. */
static MRAIL_DATA int mrail_am_send_reply(mrail_engine_t *engine,
                                          mrail_lane_t *lane)
{
    mrail_am_stream_t *stream = &lane->peer->am;
    mrail_am_reply_t reply;

    mrail_rx_flush(engine, lane->rail->index);
    if (MRAIL_UNLIKELY(!mrail_am_may_post(lane))) {
        return -EAGAIN;
    }
    if (mrail_am_stream_reply(stream, &lane->am, &reply)) {
        /* The other half of the maximum is for credit-blocked senders. */
        if ((reply.flags == 0) && mrail_am_lane_is_narrow(&lane->am)) {
            mrail_am_grow(engine, lane, MRAIL_AM_CREDITS_MAX / 2);
        }
        if (mrail_am_post_reply(lane, &reply) != 0) {
            return -EAGAIN;
        }
    }
    return stream->ack_due ? -EAGAIN : 0;
}

void mrail_am_send_acks(mrail_engine_t *engine)
{
    mrail_lane_t *lane, *tmp;

    mrail_list_for_each_safe(lane, tmp, &engine->acks, mrail_lane_t, ack_list) {
        if (lane->peer->dead || (mrail_am_send_reply(engine, lane) == 0)) {
            mrail_list_del(&lane->ack_list);
        }
    }
}
