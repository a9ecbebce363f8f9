/* Failover: closes a failed lane and replays the work that it did not
 * deliver. */
#ifndef MRAIL_RAIL_RECOVERY_FAILOVER_H
#define MRAIL_RAIL_RECOVERY_FAILOVER_H

#include "rail/state/engine.h"

/* Starts the failover of requested lanes. Both locks held. */
void mrail_failover_start(mrail_peer_t *peer) MRAIL_BOTH;

/* Continues the failover while the peer is recovering. Data-path lock held. */
void mrail_failover_run(mrail_peer_t *peer, mrail_ns_t now_ns) MRAIL_DATA;

/* Hands undelivered messages of the lane over to the engine. They return no
 * credits, and their buffers are no longer reserved for a lane. Both locks
 * held. */
void mrail_failover_disown(mrail_lane_t *lane) MRAIL_BOTH;

/* Continues the lane's path validation. Both locks held. */
void mrail_failover_validate(mrail_lane_t *lane, mrail_ns_t now_ns) MRAIL_BOTH;

/* Ends the recovery: the replay is complete, or the peer is gone. */
void mrail_failover_end(mrail_peer_t *peer) MRAIL_DATA;

/* Moves the QP to the error state, in which it sends and receives nothing. If
 * the device refuses, destroys the QP; completions already in the CQ stay
 * there. Both locks held. */
void mrail_lane_stop(mrail_lane_t *lane) MRAIL_BOTH;

#endif
