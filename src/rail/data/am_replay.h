/* Replay of the active messages of failed lanes. proto/am_stream.h describes
 * the rules. */
#ifndef MRAIL_RAIL_DATA_AM_REPLAY_H
#define MRAIL_RAIL_DATA_AM_REPLAY_H

#include "rail/state/engine.h"

/* Drops the messages of a failed peer: unacknowledged messages, and received
 * messages that are held until an earlier message arrives. */
void mrail_am_fail(mrail_peer_t *peer) MRAIL_DATA;

/* Resends messages as long as there are credits. */
void mrail_am_replay(mrail_peer_t *peer) MRAIL_DATA;

#endif
