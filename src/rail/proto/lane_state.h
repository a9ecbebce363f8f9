/*
 * Defines the states of a lane and its sub-states by one table of states and
 * events. An event yields actions, which conn/lane.c applies to a lane.
 */
#ifndef MRAIL_RAIL_LANE_STATE_H
#define MRAIL_RAIL_LANE_STATE_H

#include <stdint.h>

/* The order matters, because the code uses ranges of states. */
typedef enum mrail_lane_state {
    MRAIL_LANE_IDLE,        /* no QP: not requested yet, or ended */
    MRAIL_LANE_CONNECTING,  /* LANE_REQ was sent; LANE_REP is awaited */
    MRAIL_LANE_UNCONNECTED, /* the device failed to connect the QP */
    MRAIL_LANE_ACCEPTING,   /* LANE_REP was sent; LANE_READY is awaited */
    MRAIL_LANE_UNVALIDATED, /* connected on a path that had failed */
    MRAIL_LANE_VALIDATING,  /* a READ is in flight on that path */
    MRAIL_LANE_UP,
    MRAIL_LANE_EVICT_WANTED,    /* this end evicts the lane once it is idle */
    MRAIL_LANE_EVICT_REQUESTED, /* as EVICT_WANTED, but the peer requests it */
    MRAIL_LANE_LEAVING,         /* accepts no new work */
    MRAIL_LANE_LEAVING_REQUESTED,
    MRAIL_LANE_DRAINING, /* released, with requests in flight */
    MRAIL_LANE_DRAINING_REQUESTED,
    MRAIL_LANE_EVICTING,  /* drained; EVICT was sent; its answer is awaited */
    MRAIL_LANE_RESTORING, /* the peer keeps it; not in use again yet */
    MRAIL_LANE_REAPING,   /* both ends have released it */
    MRAIL_LANE_CLOSING,   /* the QP is in the error state */
    MRAIL_LANE_CLOSED,    /* no more messages can arrive at this end */
    MRAIL_LANE_CONFIRMED, /* CLOSING, and the peer has closed its end */
    MRAIL_LANE_BOTH_CLOSED,
    MRAIL_LANE_FAILED, /* the peer was given up */
    MRAIL_LANE_STATES
} mrail_lane_state_t;

/* Properties of a state. */
#define MRAIL_LANE_LEADS 0x01u     /* leads to the peer, or soon will */
#define MRAIL_LANE_CONNECTED 0x02u /* connected, as far as this end knows */
#define MRAIL_LANE_IN_USE 0x04u    /* progress threads may use the lane */
#define MRAIL_LANE_NO_WORK 0x08u   /* the lane accepts no new work */
#define MRAIL_LANE_REQUESTED 0x10u /* the peer's EVICT awaits an answer */
#define MRAIL_LANE_OUT 0x20u       /* released: sends no replies */
#define MRAIL_LANE_WAITS 0x40u     /* the control thread repeats a message */
#define MRAIL_LANE_CLOSES 0x80u    /* both ends agree on what has arrived */

typedef enum mrail_lane_event {
    /* Messages of the peer. A message without a transition in the current state
     * is late or invalid. */
    MRAIL_LANE_EV_EVICT,
    MRAIL_LANE_EV_REFUSE,
    MRAIL_LANE_EV_CONFIRM,
    MRAIL_LANE_EV_FAIL,
    MRAIL_LANE_EV_MESSAGES,
    /* Decisions of this end. A decision without a transition in the current
     * state is a programming error. */
    MRAIL_LANE_EV_REQUEST = MRAIL_LANE_EV_MESSAGES,
    MRAIL_LANE_EV_ACCEPT,
    MRAIL_LANE_EV_DROP,       /* no answer, refused, or no QP */
    MRAIL_LANE_EV_NO_CONNECT, /* the device failed to connect the QP */
    MRAIL_LANE_EV_CONNECT,
    MRAIL_LANE_EV_CONNECT_ANEW, /* on a path that had failed */
    MRAIL_LANE_EV_VALIDATE,     /* the READ is being posted */
    MRAIL_LANE_EV_VALIDATED,
    MRAIL_LANE_EV_WANT,       /* another lane needs its QP */
    MRAIL_LANE_EV_KEEP,       /* the lane is in use, so it stays */
    MRAIL_LANE_EV_LEAVE,      /* must be given up; other lanes take its work */
    MRAIL_LANE_EV_CARRY,      /* must be given up; no lane takes its work */
    MRAIL_LANE_EV_RELEASE,    /* the lane is idle */
    MRAIL_LANE_EV_DRAINED,    /* the requests of the lane are complete, and a
                               * requested CONFIRM was sent */
    MRAIL_LANE_EV_NO_READY,   /* time limit */
    MRAIL_LANE_EV_SUPERSEDED, /* the peer has requested another lane instead */
    MRAIL_LANE_EV_REAPED,
    MRAIL_LANE_EV_BREAK,   /* a request failed, or the peer closed its end */
    MRAIL_LANE_EV_CLOSE,   /* the device has returned all requests */
    MRAIL_LANE_EV_REPLAY,  /* other lanes take over the lost work */
    MRAIL_LANE_EV_GIVE_UP, /* the peer failed */
    MRAIL_LANE_EVENTS
} mrail_lane_event_t;

/* Actions of a transition. */
#define MRAIL_LANE_DO_CHECK 0x01u     /* a progress thread must continue */
#define MRAIL_LANE_DO_EXCHANGE 0x02u  /* send the new state's message */
#define MRAIL_LANE_DO_CONFIRM 0x04u   /* reply with CONFIRM */
#define MRAIL_LANE_DO_RECONNECT 0x08u /* request the lane again */
#define MRAIL_LANE_DO_FAIL_OVER 0x10u /* cause MRAIL_LANE_EV_BREAK */
#define MRAIL_LANE_INVALID 0x80u      /* invalid event; the state remains */

/* Returns the next state. */
mrail_lane_state_t mrail_lane_next(mrail_lane_state_t state,
                                   mrail_lane_event_t event,
                                   unsigned *actions_p);

extern const uint8_t mrail_lane_properties[MRAIL_LANE_STATES];
const char *mrail_lane_state_name(mrail_lane_state_t state);

#endif
