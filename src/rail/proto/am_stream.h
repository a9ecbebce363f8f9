/*
 * Implements the ordered streams of active messages to and from a peer, over
 * all AM lanes: sequence numbers, acknowledgements, order of arrival, replay.
 *
 * Owns the list of unacknowledged messages, the replay queue, and the list of
 * messages that arrived out of order. The caller owns the messages themselves,
 * sends them, and delivers the peer's messages.
 *
 * Invariants:
 * - A message stays in `unacked` until the peer's cumulative acknowledgement
 *   covers it. If its lane fails first, it is also in `replay` until another
 *   lane sends it.
 * - A lane carries at most as many messages as its receiver has buffers
 *   (credits), so RNR does not occur.
 * - Standalone acknowledgements consume no credits; MRAIL_ACK_RESERVE limits
 *   their number.
 *
 * The functions do no I/O, read no clock and take no lock.
 * test/property/test_am_streams.c runs both ends.
 */
#ifndef MRAIL_RAIL_PROTO_AM_STREAM_H
#define MRAIL_RAIL_PROTO_AM_STREAM_H

#include "base/list.h"
#include "rail/proto/am_lane.h"
#include "rail/proto/wire.h"

/* A message of this end until it is acknowledged. */
typedef struct mrail_am_msg {
    mrail_list_t list;     /* entry in stream->unacked, by seq */
    mrail_list_t replay;   /* entry in stream->replay, by seq */
    mrail_am_lane_t *lane; /* &stream->detached after its lane has failed */
    uint32_t seq;
    uint32_t length; /* bytes on the wire */
    uint16_t number; /* lane->sent before this message */
} mrail_am_msg_t;

/* A message from the peer. */
typedef struct mrail_am_arrival {
    mrail_list_t list; /* entry in stream->hold, by seq */
    uint32_t seq;      /* valid in that list */
} mrail_am_arrival_t;

typedef struct mrail_am_stream {
    /* messages of this end */
    uint32_t tx_next;         /* sequence number of the next message */
    uint32_t tx_acked;        /* all earlier messages have arrived */
    mrail_list_t unacked;     /* mrail_am_msg_t */
    mrail_list_t replay;      /* mrail_am_msg_t of failed lanes */
    uint64_t inflight;        /* bytes of unacknowledged messages */
    mrail_am_lane_t detached; /* stands in for failed lanes as the lane of a
                               * message; only its `inflight` is used */
    uint32_t ack_wanted;      /* a flush waits until tx_acked reaches this */
    int ack_requested;        /* an ACK_REQ is unanswered */

    /* messages from the peer */
    int ack_due;          /* the peer's ACK_REQ is unanswered */
    uint32_t ack_due_seq; /* the answer is due when all messages before this
                           * have arrived */
    uint32_t rx_next;     /* sequence number of the next expected message */
    mrail_list_t hold;    /* mrail_am_arrival_t ahead of rx_next */
} mrail_am_stream_t;

/* The content of a standalone acknowledgement, besides the counts that each
 * message carries. */
typedef struct mrail_am_reply {
    uint8_t flags;     /* flags of mrail_data_hdr_t */
    uint16_t returned; /* with RETURN: number of credits that count as used */
} mrail_am_reply_t;

void mrail_am_stream_init(mrail_am_stream_t *stream);

/* ---- the end that sends ---- */

/*
 * Returns 1 if the lane has a credit for a new message. The last credit is
 * reserved for replayed messages: messages that wait for a missing one may
 * occupy all other credits, and the sender must still be able to replay the
 * missing one. A new message may use the last credit if all unacknowledged
 * messages are on this lane, because its QP delivers them in order.
 */
static inline int mrail_am_stream_may_send(const mrail_am_stream_t *stream,
                                           const mrail_am_lane_t *lane)
{
    const unsigned kept = MRAIL_FAILOVER ? MRAIL_REPLAY_CREDITS : 0;
    unsigned credits = mrail_am_lane_credits(lane);

    return MRAIL_LIKELY(credits > kept) ||
           ((credits != 0) && (lane->inflight == stream->inflight));
}

/* Adds a message, which the lane sends next. */
static inline void mrail_am_stream_send(mrail_am_stream_t *stream,
                                        mrail_am_lane_t *lane,
                                        mrail_am_msg_t *msg, size_t length)
{
    msg->number = lane->sent++;
    msg->seq = stream->tx_next++;
    msg->lane = lane;
    msg->length = (uint32_t)length;
    lane->inflight += length;
    stream->inflight += MRAIL_FAILOVER ? length : 0;
    mrail_list_add_tail(&stream->unacked, &msg->list);
}

/* Removes a message, because it has arrived or the peer has failed. */
static inline void mrail_am_stream_remove(mrail_am_stream_t *stream,
                                          mrail_am_msg_t *msg)
{
    mrail_list_del(&msg->list);
    msg->lane->inflight -= msg->length;
    stream->inflight -= MRAIL_FAILOVER ? msg->length : 0;
}

/* Returns the first message of the replay queue, or NULL if it is empty. */
static inline mrail_am_msg_t *
mrail_am_stream_lost(const mrail_am_stream_t *stream)
{
    return mrail_list_empty(&stream->replay)
               ? NULL
               : mrail_list_head(&stream->replay, mrail_am_msg_t, replay);
}

/* Processes a cumulative acknowledgement. Returns 1 if it covers further
 * messages; the caller then removes them with mrail_am_stream_take_acked().
 * Ignores numbers that were not sent. Also ignores numbers that cover a message
 * in the replay queue, because this message has not arrived. */
static inline int mrail_am_stream_ack(mrail_am_stream_t *stream, uint32_t ack)
{
    if ((ack == stream->tx_acked) ||
        mrail_seq32_before(ack, stream->tx_acked) ||
        mrail_seq32_before(stream->tx_next, ack)) {
        return 0;
    }
    if (MRAIL_UNLIKELY(!mrail_list_empty(&stream->replay)) &&
        mrail_seq32_before(mrail_am_stream_lost(stream)->seq, ack)) {
        return 0;
    }
    stream->tx_acked = ack;
    if (mrail_seq32_before(stream->ack_wanted, ack)) {
        stream->ack_wanted = ack; /* a stale value would look new after the
                                   * numbers wrap */
    }
    return 1;
}

/* Removes and returns the next message before `ack`, or NULL if none is
 * left. */
static inline mrail_am_msg_t *
mrail_am_stream_take_acked(mrail_am_stream_t *stream, uint32_t ack)
{
    mrail_am_msg_t *msg =
        mrail_list_head(&stream->unacked, mrail_am_msg_t, list);

    if (mrail_list_empty(&stream->unacked) ||
        !mrail_seq32_before(msg->seq, ack)) {
        return NULL;
    }
    mrail_am_stream_remove(stream, msg);
    return msg;
}

/* Removes and returns any message of a failed peer, or NULL if none is left. */
mrail_am_msg_t *mrail_am_stream_take_any(mrail_am_stream_t *stream);

/* ---- replay ---- */

/* Moves the lane's messages that did not arrive to the replay queue. Both ends
 * must have closed the lane. `arrived` is the number of its messages that did
 * arrive, modulo 2^16. */
void mrail_am_stream_lose(mrail_am_stream_t *stream, mrail_am_lane_t *lane,
                          uint16_t arrived);

/* Returns 1 if the lane has a credit for the replayed message. The reserved
 * credit may be used only if the message is delivered on arrival, because
 * delivery returns the credit. If the message instead waited for earlier ones
 * on another lane, and that lane failed, this lane would have no credit to
 * replay them. */
int mrail_am_stream_may_replay(const mrail_am_stream_t *stream,
                               const mrail_am_lane_t *lane,
                               const mrail_am_msg_t *msg);

/* Moves a message from the replay queue to the lane, which sends it next. */
void mrail_am_stream_replay(mrail_am_stream_t *stream, mrail_am_lane_t *lane,
                            mrail_am_msg_t *msg);

/* ---- the end that receives ---- */

/* Accepts message number `seq` of the peer. Returns 1 if it is the next message
 * in order, which the caller then delivers. */
static inline int mrail_am_stream_arrive(mrail_am_stream_t *stream,
                                         uint32_t seq)
{
    if (MRAIL_UNLIKELY(seq != stream->rx_next)) {
        return 0;
    }
    ++stream->rx_next;
    return 1;
}

/* Holds a message that arrived out of order; its `seq` must be set. The message
 * keeps its credit, so the sender's credits bound the number of held messages.
 * Returns 0 if the message has arrived before. */
int mrail_am_stream_hold(mrail_am_stream_t *stream,
                         mrail_am_arrival_t *arrival);

/* Removes and returns the next message in order, or NULL if it has not
 * arrived. */
static inline mrail_am_arrival_t *
mrail_am_stream_take_next(mrail_am_stream_t *stream)
{
    mrail_am_arrival_t *arrival =
        mrail_list_head(&stream->hold, mrail_am_arrival_t, list);

    if (MRAIL_LIKELY(mrail_list_empty(&stream->hold)) ||
        (arrival->seq != stream->rx_next)) {
        return NULL;
    }
    mrail_list_del(&arrival->list);
    ++stream->rx_next;
    return arrival;
}

/* ---- standalone acknowledgements ---- */

/* Requests an acknowledgement of all messages. The next reply carries the
 * request, unless an earlier one is unanswered. */
static inline void mrail_am_stream_want_ack(mrail_am_stream_t *stream)
{
    stream->ack_wanted = stream->tx_next;
}

/* Processes `flags` and `seq` of a message header. Returns 1 if the peer
 * expects a reply. */
static inline int mrail_am_stream_take_flags(mrail_am_stream_t *stream,
                                             mrail_am_lane_t *lane,
                                             uint8_t flags, uint32_t seq)
{
    if (flags & MRAIL_DATA_ACK_REP) {
        stream->ack_requested = 0; /* another request may be waiting */
    }
    if (flags & MRAIL_DATA_RECALL) {
        lane->return_due = 1;
    }
    if (flags & MRAIL_DATA_ACK_REQ) {
        stream->ack_due = 1;
        stream->ack_due_seq = seq;
    }
    return (flags &
            (MRAIL_DATA_ACK_REP | MRAIL_DATA_RECALL | MRAIL_DATA_ACK_REQ)) != 0;
}

/* Returns 1 if a lane owes the peer a message now, and describes it. Drops a
 * request for credits that this end does not have. */
int mrail_am_stream_reply(const mrail_am_stream_t *stream,
                          mrail_am_lane_t *lane, mrail_am_reply_t *reply_p);

/* Records that the lane sends this reply. */
void mrail_am_stream_replied(mrail_am_stream_t *stream, mrail_am_lane_t *lane,
                             const mrail_am_reply_t *reply);

#endif
