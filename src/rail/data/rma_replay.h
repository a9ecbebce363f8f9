/* Replay of the chunks of failed lanes. */
#ifndef MRAIL_RAIL_DATA_RMA_REPLAY_H
#define MRAIL_RAIL_DATA_RMA_REPLAY_H

#include "rail/state/engine.h"

/* Treats the lane's chunks in flight as failed, because its device returns no
 * more completions. */
void mrail_rma_abandon(mrail_lane_t *lane, mrail_ns_t now_ns) MRAIL_DATA;

/* Moves undelivered chunks of the lane to the peer, for the replay. */
void mrail_rma_take_lost(mrail_lane_t *lane) MRAIL_BOTH;

/* Completes the chunks in peer->arrived. Calls callbacks, so the caller must
 * hold only the data-path lock. */
void mrail_rma_finish_arrived(mrail_peer_t *peer) MRAIL_DATA MRAIL_NO_CTL;

/* Replays small PUTs and chunks as long as a lane can accept them. */
void mrail_rma_replay(mrail_peer_t *peer, mrail_ns_t now_ns) MRAIL_DATA;

/* Finishes all operations of a failed peer with `status`. */
void mrail_rma_fail(mrail_peer_t *peer, int status) MRAIL_DATA MRAIL_NO_CTL;

#endif
