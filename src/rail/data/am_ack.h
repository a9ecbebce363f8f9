/* Acknowledgements and credit messages. */
#ifndef MRAIL_RAIL_DATA_AM_ACK_H
#define MRAIL_RAIL_DATA_AM_ACK_H

#include "rail/state/engine.h"

void mrail_am_request_ack(mrail_peer_t *peer) MRAIL_DATA;

/* Schedules the pending reply on the current primary lane. */
void mrail_am_add_pending_reply(mrail_peer_t *peer) MRAIL_DATA;

void mrail_am_send_acks(mrail_engine_t *engine) MRAIL_DATA;

/* Enlarges a window that is too small for the peer's messages, up to `most`
 * credits, if there are buffers left. */
void mrail_am_grow(mrail_engine_t *engine, mrail_lane_t *lane,
                   unsigned most) MRAIL_DATA MRAIL_NO_CTL;

/* Revokes `count` credits that the peer returns. They count as received
 * messages. */
void mrail_am_take_return(mrail_engine_t *engine, mrail_lane_t *lane,
                          unsigned count) MRAIL_DATA MRAIL_NO_CTL;

#endif
