/*
 * Receive buffers of a lane in the rail's SRQ, and the credits that they back.
 */
#ifndef MRAIL_RAIL_CONN_LANE_BUFFERS_H
#define MRAIL_RAIL_CONN_LANE_BUFFERS_H

#include "rail/state/engine.h"

/* Adds receive buffers for `count` more messages of the peer. Returns 0 or
 * -errno. */
int mrail_lane_add_buffers(mrail_engine_t *engine, mrail_lane_t *lane,
                           unsigned count) MRAIL_CTL;

/* Shrinks the lane's window by `count` messages. */
void mrail_lane_return_buffers(mrail_lane_t *lane, unsigned count);

/* Reserves a buffer for each message that the peer may send now. If the SRQ is
 * too small for all lanes, the last ones share the buffers of the others, and
 * the NIC retries messages that find no buffer (RNR). */
int mrail_lane_reserve_buffers(mrail_engine_t *engine,
                               mrail_lane_t *lane) MRAIL_CTL;

/* Sets the credits of a lane. Slots [0, pairs) carry active messages: slot 0
 * with full credits, the others with a quarter. A lane takes at most a
 * sixteenth of the free part of the rail's SRQ, so that a small SRQ has room
 * for many peers. */
void mrail_lane_set_credits(mrail_engine_t *engine, mrail_lane_t *lane,
                            unsigned num_pairs) MRAIL_CTL;

#endif
