/* Lanes: their state, and their QP. */
#ifndef MRAIL_RAIL_CONN_LANE_H
#define MRAIL_RAIL_CONN_LANE_H

#include "rail/state/engine.h"

/*
 * Posts a work request. The caller must have checked mrail_lane_sq_free(). Some
 * AM sends and acknowledgements are signalled, so that the engine sees the
 * queue drain. Returns 0, or the -errno of ibv_post_send(3), which means that
 * the lane has failed.
 */
int mrail_lane_post(mrail_lane_t *lane, struct ibv_send_wr *wr) MRAIL_DATA;

/* Posts a final request on a QP in the error state. Its completion proves that
 * all earlier requests have completed, including unsignalled ones. Call this
 * until sq_done equals sq_posted. Data-path lock held. */
void mrail_lane_drain(mrail_lane_t *lane) MRAIL_DATA;

/* Creates the QP on the rail, and reserves its receive buffers. Returns 0 or
 * -errno. */
int mrail_lane_create_qp(mrail_engine_t *engine, mrail_lane_t *lane,
                         mrail_rail_t *rail) MRAIL_CTL;

/* Destroys the QP, if there is one, and returns its receive buffers to the
 * rail. */
void mrail_lane_destroy_qp(mrail_engine_t *engine,
                           mrail_lane_t *lane) MRAIL_CTL;

/* Destroys the QP and frees its entry in the lane table. The lane itself
 * remains, because messages and statistics may refer to it. */
void mrail_lane_end(mrail_engine_t *engine, mrail_lane_t *lane) MRAIL_BOTH;

/* Ends and frees the lane, which must have nothing in flight. If the lane was
 * ever connected, the data-path lock must be held as well. */
void mrail_lane_release(mrail_engine_t *engine, mrail_lane_t *lane) MRAIL_BOTH;

/* Like mrail_lane_release(), with the event that ends the epoch. Keeps what is
 * needed to answer late messages about the epoch. */
void mrail_lane_retire(mrail_lane_t *lane, mrail_lane_event_t event,
                       const char *cause) MRAIL_BOTH;

/* Connects the QP to the remote end, so that it can receive and send. Returns 0
 * or -errno. */
int mrail_lane_connect(mrail_engine_t *engine, mrail_lane_t *lane,
                       const mrail_wire_lane_t *remote,
                       const mrail_wire_rail_t *remote_rail) MRAIL_CTL;

/* The only writer of the state: applies an event, and logs the transition.
 * Returns the actions; it has already carried out DO_CHECK and DO_EXCHANGE.
 * Counts a message that is invalid in this state as unexpected. */
unsigned mrail_lane_event(mrail_lane_t *lane, mrail_lane_event_t event,
                          const char *cause) MRAIL_CTL;

#endif
