#include "config.h"
#include "rail/proto/am_stream.h"

void mrail_am_stream_init(mrail_am_stream_t *stream)
{
    *stream = (mrail_am_stream_t){0};
    mrail_list_init(&stream->unacked);
    mrail_list_init(&stream->replay);
    mrail_list_init(&stream->hold);
}

mrail_am_msg_t *mrail_am_stream_take_any(mrail_am_stream_t *stream)
{
    mrail_am_msg_t *msg =
        mrail_list_head(&stream->unacked, mrail_am_msg_t, list);

    if (mrail_list_empty(&stream->unacked)) {
        return NULL;
    }
    mrail_list_del(&msg->replay);
    mrail_am_stream_remove(stream, msg);
    return msg;
}

static void mrail_am_stream_add_replay(mrail_am_stream_t *stream,
                                       mrail_am_msg_t *msg)
{
    mrail_list_t *pos = &stream->replay;

    while ((pos->prev != &stream->replay) &&
           mrail_seq32_before(
               msg->seq,
               mrail_list_entry(pos->prev, mrail_am_msg_t, replay)->seq)) {
        pos = pos->prev;
    }
    mrail_list_insert_before(pos, &msg->replay);
}

static void mrail_am_msg_move(mrail_am_msg_t *msg, mrail_am_lane_t *to)
{
    msg->lane->inflight -= msg->length;
    to->inflight += msg->length;
    msg->lane = to;
}

void mrail_am_stream_lose(mrail_am_stream_t *stream, mrail_am_lane_t *lane,
                          uint16_t arrived)
{
    mrail_am_msg_t *msg;

    mrail_list_for_each(msg, &stream->unacked, mrail_am_msg_t, list) {
        if (msg->lane == lane) {
            if (!mrail_seq16_before(msg->number, arrived)) {
                mrail_am_stream_add_replay(stream, msg);
            }
            mrail_am_msg_move(msg, &stream->detached);
        }
    }
}

/* Returns 1 if all earlier messages that may still be missing are on this lane,
 * whose QP delivers them first. Messages of a failed lane that need no replay
 * have arrived. */
static int mrail_am_stream_is_next_on(const mrail_am_stream_t *stream,
                                      const mrail_am_lane_t *lane,
                                      const mrail_am_msg_t *msg)
{
    const mrail_am_msg_t *before;

    mrail_list_for_each(before, &stream->unacked, mrail_am_msg_t, list) {
        if (before == msg) {
            return 1;
        }
        if ((before->lane != lane) && (before->lane != &stream->detached)) {
            return 0;
        }
    }
    return 1;
}

int mrail_am_stream_may_replay(const mrail_am_stream_t *stream,
                               const mrail_am_lane_t *lane,
                               const mrail_am_msg_t *msg)
{
    unsigned credits = mrail_am_lane_credits(lane);

    return (credits > MRAIL_REPLAY_CREDITS) ||
           ((credits != 0) && mrail_am_stream_is_next_on(stream, lane, msg));
}

void mrail_am_stream_replay(mrail_am_stream_t *stream, mrail_am_lane_t *lane,
                            mrail_am_msg_t *msg)
{
    mrail_list_del(&msg->replay);
    mrail_am_msg_move(msg, lane);
    msg->number = lane->sent++;
}

int mrail_am_stream_hold(mrail_am_stream_t *stream, mrail_am_arrival_t *arrival)
{
    mrail_am_arrival_t *pos;

    if (mrail_seq32_before(arrival->seq, stream->rx_next)) {
        return 0;
    }
    mrail_list_for_each(pos, &stream->hold, mrail_am_arrival_t, list) {
        if (pos->seq == arrival->seq) {
            return 0;
        }
        if (mrail_seq32_before(arrival->seq, pos->seq)) {
            break;
        }
    }
    mrail_list_insert_before(&pos->list, &arrival->list);
    return 1;
}

int mrail_am_stream_reply(const mrail_am_stream_t *stream,
                          mrail_am_lane_t *lane, mrail_am_reply_t *reply_p)
{
    mrail_am_reply_t reply = {.returned =
                                  (uint16_t)mrail_am_lane_returns(lane)};

    lane->return_due = (reply.returned != 0);
    if (stream->ack_due &&
        !mrail_seq32_before(stream->rx_next, stream->ack_due_seq)) {
        reply.flags |= MRAIL_DATA_ACK_REP;
    }
    if (!stream->ack_requested &&
        mrail_seq32_before(stream->tx_acked, stream->ack_wanted)) {
        reply.flags |= MRAIL_DATA_ACK_REQ;
    }
    if (lane->recall_due) {
        reply.flags |= MRAIL_DATA_RECALL;
    }
    if (reply.returned != 0) {
        reply.flags |= MRAIL_DATA_RETURN;
    }
    *reply_p = reply;
    return (reply.flags != 0) || mrail_am_lane_update_due(lane);
}

void mrail_am_stream_replied(mrail_am_stream_t *stream, mrail_am_lane_t *lane,
                             const mrail_am_reply_t *reply)
{
    if (reply->flags & MRAIL_DATA_ACK_REP) {
        stream->ack_due = 0;
    }
    if (reply->flags & MRAIL_DATA_ACK_REQ) {
        stream->ack_requested = 1;
    }
    lane->recall_due = lane->return_due = 0;
    lane->sent += reply->returned;
}
