/*
 * Receive buffers of a lane in the rail's SRQ, and the credits that they back.
 */
#ifndef MRAIL_RAIL_CONN_LANE_BUFFERS_H
#define MRAIL_RAIL_CONN_LANE_BUFFERS_H

#include "rail/state/engine.h"

/* Returns the state of the rail's receive buffers. */
mrail_am_pool_t mrail_lane_pool(const mrail_engine_t *engine,
                                mrail_rail_t *rail) MRAIL_CTL;

/* Adds receive buffers for `count` more messages of the peer. Returns 0 or
 * -errno. */
int mrail_lane_add_buffers(mrail_engine_t *engine, mrail_lane_t *lane,
                           unsigned count) MRAIL_CTL;

/* Removes the buffers of `count` messages from the lane. */
void mrail_lane_return_buffers(mrail_lane_t *lane, unsigned count) MRAIL_CTL;

/* Sets the window of a new lane, which carries active messages if its slot is
 * below num_pairs, and reserves a buffer for each message that the peer may
 * send. If the SRQ is too small for all lanes, the last ones share the buffers
 * of the others. The NIC retries a message that finds no buffer (RNR). Returns 0
 * or -errno. */
int mrail_lane_reserve_buffers(mrail_engine_t *engine, mrail_lane_t *lane,
                               unsigned num_pairs) MRAIL_CTL;

#endif
