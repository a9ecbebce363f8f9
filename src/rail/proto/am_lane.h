/*
 * Tracks the credits of both ends of a lane, which are its part in the streams
 * of active messages.
 *
 * Owns the counts of both directions and the size of the receive window.
 * Decides when a window grows, when an update is due, and which credits return.
 * The caller owns the receive buffers behind the credits, and sends the
 * messages.
 *
 * All counts are absolute, modulo 2^16, like MAX_DATA in [RFC 9000] 4. Each end
 * writes only its own counts, so updates may be repeated, lost or overtaken. An
 * end that returns credits counts them as used: its peer counts them as
 * received.
 *
 * The functions do no I/O, read no clock and take no lock.
 * test/property/test_am_streams.c runs both ends.
 */
#ifndef MRAIL_RAIL_PROTO_AM_LANE_H
#define MRAIL_RAIL_PROTO_AM_LANE_H

#include "base/seq.h"
#include "base/util.h"

/* Receive buffers of a lane beyond its credits, for messages that consume no
 * credits. A credit update follows every half window, and a peer that has not
 * read the updates cannot send more than one window, so at most two updates are
 * unread. On any lane that carries messages, each end has at most one ACK_REQ
 * and one answer in flight. Their buffers return as soon as they are read.
 * Updates of a grown window and requests of failed lanes may exceed this; the
 * NIC then retries. */
#define MRAIL_CREDIT_UPDATE_RESERVE 2
#define MRAIL_ACK_RESERVE 2
/* Reserve for one RECALL message. A further RECALL follows only if the lane has
 * been used since. A RETURN needs no reserve, because it uses the buffer of a
 * credit that it returns. */
#define MRAIL_RECALL_RESERVE 1
#define MRAIL_AM_LANE_RESERVE                                                  \
    (MRAIL_CREDIT_UPDATE_RESERVE + MRAIL_ACK_RESERVE + MRAIL_RECALL_RESERVE)

/* Credits of a window that are reserved for replayed messages. */
#define MRAIL_REPLAY_CREDITS 1
/* Maximum number of credits on a lane whose peer uses all of them. */
#define MRAIL_AM_CREDITS_MAX 512
#define MRAIL_AM_CREDITS_FLOOR 2 /* credits that an idle lane keeps */

typedef struct mrail_am_lane {
    /* messages of this end */
    uint64_t inflight;  /* bytes not acknowledged */
    uint16_t sent;      /* messages */
    uint16_t limit;     /* total that this end may send */
    uint8_t blocked;    /* a message had to wait for credits */
    uint8_t return_due; /* the peer has requested the idle credits */

    /* messages from the peer */
    uint16_t granted;    /* total that the peer may send */
    uint16_t received;   /* total that the peer has sent; at most granted */
    uint16_t advertised; /* value of granted in the last message to the peer */
    uint16_t recall_received; /* value of received at the last search for idle
                               * credits */
    uint8_t recall_due;       /* the peer must return idle credits */
    uint8_t was_recalled;     /* no messages since the last RECALL */
    uint8_t updates; /* credit-only messages since the window last grew */
    uint32_t length; /* bytes of the last received message */
    unsigned window; /* receive buffers for the peer's messages; 0 if the lane
                          * carries none */
} mrail_am_lane_t;

/* The receive buffers of a rail, which its lanes share. */
typedef struct mrail_am_pool {
    unsigned depth;     /* buffers that the rail's SRQ can hold */
    unsigned leased;    /* buffers that belong to lanes */
    unsigned num_lanes; /* lanes with a window */
    unsigned credits;   /* configured window of a primary lane */
} mrail_am_pool_t;

/* Starts a new lane with the window that mrail_am_lane_window() returned. */
void mrail_am_lane_start(mrail_am_lane_t *am, unsigned window);

/* Returns the window of a new lane: the configured window for a primary lane
 * (is_first), a quarter of it for other lanes, and at least 2. If it is larger
 * than 2, the window with its reserve is at most 1/16 of the free buffers, so
 * that a small queue serves many peers. */
unsigned mrail_am_lane_window(const mrail_am_pool_t *pool, int is_first);

/* Returns the number of messages that this end may still send. */
static inline unsigned mrail_am_lane_credits(const mrail_am_lane_t *am)
{
    return (uint16_t)(am->limit - am->sent);
}

/* Applies the limit from a message from the peer. Older messages do not lower
 * it. */
static inline void mrail_am_lane_limit(mrail_am_lane_t *am, uint16_t limit)
{
    if (mrail_seq16_before(am->limit, limit)) {
        am->limit = limit;
    }
}

/* Returns the limit for a message to the peer. */
static inline uint16_t mrail_am_lane_advertise(mrail_am_lane_t *am)
{
    am->advertised = am->granted;
    return am->granted;
}

/* Counts a message from the peer. Returns 0 if the peer had no credit left. */
static inline int mrail_am_lane_receive(mrail_am_lane_t *am, uint32_t length)
{
    if (MRAIL_UNLIKELY(am->received == am->granted)) {
        return 0;
    }
    ++am->received;
    am->length = length;
    return 1;
}

/* Returns 1 if a credit update is due. It is due when half a window, rounded
 * up, is free, so that at most two updates are unread. It is due earlier if the
 * peer has only its reserved credit left. The peer may need this credit to
 * replay a missing message, while messages that wait for it occupy all other
 * credits. The peer may use this credit only when the update shows that all
 * earlier messages have arrived. */
static inline int mrail_am_lane_update_due(const mrail_am_lane_t *am)
{
    unsigned unadvertised = (uint16_t)(am->granted - am->advertised);
    unsigned left = (uint16_t)(am->advertised - am->received);

    return (unadvertised >= (am->window + 1) / 2) ||
           ((unadvertised != 0) && (left <= MRAIL_REPLAY_CREDITS));
}

/* Grants the peer one more message. Returns 1 if an update is due. */
static inline int mrail_am_lane_grant(mrail_am_lane_t *am)
{
    ++am->granted;
    return mrail_am_lane_update_due(am);
}

/* Counts an update without other content. Returns 1 if the window is too small
 * for the peer's messages. */
int mrail_am_lane_is_narrow(mrail_am_lane_t *am);

/* Returns 1 if a larger window would help, up to `most` credits. */
int mrail_am_lane_may_grow(const mrail_am_lane_t *am, unsigned most);

/* Returns the number of credits by which the window grows: it doubles, up to
 * an equal share of half the queue. With this limit, lanes with work do not
 * starve each other, and later lanes find buffers. Returns 0 if the window has
 * its full size, or -ENOBUFS if idle lanes must return credits first. */
int mrail_am_lane_growth(const mrail_am_lane_t *am, const mrail_am_pool_t *pool,
                         unsigned most);

/* Adds `count` credits, for which the caller has buffers. */
void mrail_am_lane_grow(mrail_am_lane_t *am, unsigned count);

/* Visits the lane in a search for idle credits. Returns 1 if the peer must
 * return them, because it has not sent a message since the previous search. */
int mrail_am_lane_is_idle(mrail_am_lane_t *am);

/* Requests the idle credits, at most once until another message arrives. */
void mrail_am_lane_recall(mrail_am_lane_t *am);

/* Revokes `count` credits that the peer returns. Returns 0, or -EPROTO if the
 * peer cannot have that many. */
int mrail_am_lane_take_return(mrail_am_lane_t *am, unsigned count);

/* Returns the number of credits that this end returns now. */
static inline unsigned mrail_am_lane_returns(const mrail_am_lane_t *am)
{
    unsigned credits = mrail_am_lane_credits(am);

    return am->return_due && (credits > MRAIL_AM_CREDITS_FLOOR)
               ? credits - MRAIL_AM_CREDITS_FLOOR
               : 0;
}

#endif
