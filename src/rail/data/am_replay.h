/* Replay of the active messages of failed lanes. proto/am_stream.h has the
 * rules. */
#ifndef MRAIL_RAIL_DATA_AM_REPLAY_H
#define MRAIL_RAIL_DATA_AM_REPLAY_H

#include "rail/state/engine.h"

/* Drops the messages of a failed peer: unacknowledged ones, and those that are
 * held until an earlier one arrives. */
void mrail_am_fail(mrail_peer_t *peer) MRAIL_DATA;

/* Resends messages while there are credits. */
void mrail_am_replay(mrail_peer_t *peer) MRAIL_DATA;

#endif
