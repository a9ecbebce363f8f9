/*
 * Rules for moves of a lane to another source port. The sending end decides
 * which MOVE and MOVE_BACK it carries out. The reading end decides when it
 * holds its lane and sends them. conn/move_lane.c changes the ports, and
 * conn/move_decide.c sends the requests.
 *
 * Requests have no answers, and may be lost, repeated or overtaken. The sending
 * end therefore carries out each number at most once, and only if it has seen
 * no newer one. It drops a request that it cannot carry out immediately,
 * because the reader's measurements assume an immediate move.
 *
 * Time is an argument. test/property/test_moves.c explores all orders.
 */
#ifndef MRAIL_RAIL_PROTO_PORT_MOVE_H
#define MRAIL_RAIL_PROTO_PORT_MOVE_H

#include "base/clock.h"

#include <stdint.h>

/* Time between two moves of a lane that the peer requests. */
#define MRAIL_MOVE_WINDOW (250 * MRAIL_NS_PER_MS)

/* Longest time for the send queue, or the reader's READs, to drain. */
#define MRAIL_MOVE_TIMEOUT (500 * MRAIL_NS_PER_MS)

/* Time for which a lane stays held after its request, so that the request can
 * arrive and be carried out. */
#define MRAIL_MOVE_HOLD (20 * MRAIL_NS_PER_MS)

/* ---- The end that sends the data ---- */

typedef struct mrail_port_move {
    mrail_ns_t end_ns;   /* time limit of the move in progress; 0 if no move is
                          * in progress */
    mrail_ns_t begun_ns; /* start of the last move; 0 if there was none */
    uint32_t seq;        /* number of the move in progress; 0 if this end
                          * decided on it */
    uint32_t undo_seq;   /* number of the last complete move */
    uint16_t to;         /* source port of the move in progress */
    uint16_t undo;       /* source port before the last complete move; 0 if
                          * there was none, or it was undone */
    uint8_t is_back;     /* the move in progress cannot be undone */
} mrail_port_move_t;

/* Handles a MOVE, or a decision of this end (seq is 0). *newest_p is the newest
 * number of the peer's requests for this lane number; it may be NULL if seq is
 * 0. Returns 1 if the lane must begin to move. */
int mrail_port_move_request(mrail_port_move_t *move, uint32_t *newest_p,
                            uint32_t seq, mrail_ns_t now_ns);

/* Handles a MOVE_BACK, or a decision of this end (seq is 0). `sport` is the
 * lane's current port. Returns the port to which the lane must begin to move,
 * or 0. */
uint16_t mrail_port_move_back(mrail_port_move_t *move, uint32_t *newest_p,
                              uint32_t seq, uint16_t sport);

/* Begins a move. After mrail_port_move_back(), is_back is 1. */
void mrail_port_move_begin(mrail_port_move_t *move, uint16_t to, uint32_t seq,
                           int is_back, mrail_ns_t now_ns);

/* Completes the move in progress. Returns the new source port. */
uint16_t mrail_port_move_done(mrail_port_move_t *move, uint16_t sport);

/* ---- The end that reads ---- */

typedef enum mrail_move_request_state {
    MRAIL_MOVE_REQUEST_NONE,
    MRAIL_MOVE_REQUEST_DRAINS, /* the lane is held until its READs complete */
    MRAIL_MOVE_REQUEST_SENT    /* the lane is held while the peer moves it */
} mrail_move_request_state_t;

typedef struct mrail_move_request {
    mrail_ns_t since_ns; /* time at which the state began */
    uint32_t seq;        /* number of the last MOVE; 0 if it cannot be undone */
    uint16_t like;       /* field of MOVE */
    uint8_t state;
    uint8_t is_back; /* MOVE_BACK, instead of MOVE */
} mrail_move_request_t;

typedef enum mrail_move_request_action {
    MRAIL_MOVE_REQUEST_WAIT,
    MRAIL_MOVE_REQUEST_SEND,   /* send the request; call _request_sent() */
    MRAIL_MOVE_REQUEST_RELEASE /* the lane may carry new work again */
} mrail_move_request_action_t;

/* Both functions hold the lane, unless mrail_move_request_back() has nothing to
 * undo. */
void mrail_move_request_begin(mrail_move_request_t *request, uint32_t seq,
                              uint16_t like, mrail_ns_t now_ns);
void mrail_move_request_back(mrail_move_request_t *request, mrail_ns_t now_ns);

/* Decides how a held lane continues. is_idle is 1 if none of its READs is in
 * flight. is_same is 1 if it is still the lane that was held. */
mrail_move_request_action_t
mrail_move_request_next(mrail_move_request_t *request, int is_idle, int is_same,
                        mrail_ns_t now_ns);

void mrail_move_request_sent(mrail_move_request_t *request, mrail_ns_t now_ns);

#endif
