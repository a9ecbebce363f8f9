/* Replay of the chunks of failed lanes. */
#ifndef MRAIL_RAIL_DATA_RMA_REPLAY_H
#define MRAIL_RAIL_DATA_RMA_REPLAY_H

#include "rail/state/engine.h"

/* Treats all requests of the lane as not completed, because its device returns
 * nothing more. */
void mrail_rma_abandon(mrail_lane_t *lane, mrail_ns_t now_ns) MRAIL_DATA;

/* Moves undelivered chunks of the lane to the peer, for the replay. */
void mrail_rma_take_lost(mrail_lane_t *lane) MRAIL_BOTH;

/* Completes the chunks in peer->arrived. Callbacks run: no lock but the
 * data-path lock may be held. */
void mrail_rma_finish_arrived(mrail_peer_t *peer) MRAIL_DATA MRAIL_NO_CTL;

/* Replays chunks while there is room. */
void mrail_rma_replay(mrail_peer_t *peer, mrail_ns_t now_ns) MRAIL_DATA;

/* Finishes all operations of a failed peer with `status`. */
void mrail_rma_fail(mrail_peer_t *peer, int status) MRAIL_DATA MRAIL_NO_CTL;

#endif
