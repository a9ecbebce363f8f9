/* Acknowledgements and credit messages. */
#ifndef MRAIL_RAIL_DATA_AM_ACK_H
#define MRAIL_RAIL_DATA_AM_ACK_H

#include "rail/state/engine.h"

void mrail_am_request_ack(mrail_peer_t *peer) MRAIL_DATA;

/* Moves a pending reply to the current first lane. */
void mrail_am_add_pending_reply(mrail_peer_t *peer) MRAIL_DATA;

void mrail_am_send_acks(mrail_engine_t *engine) MRAIL_DATA;

/* Enlarges the window, which is too small for the peer's messages, while
 * buffers are left. `most`: its largest size. */
void mrail_am_grow(mrail_engine_t *engine, mrail_lane_t *lane,
                   unsigned most) MRAIL_DATA MRAIL_NO_CTL;

/* Takes back `count` credits that the peer returns. They count as received
 * messages. */
void mrail_am_take_return(mrail_engine_t *engine, mrail_lane_t *lane,
                          unsigned count) MRAIL_DATA MRAIL_NO_CTL;

#endif
