/* Decides which lane moves to another source port. */
#ifndef MRAIL_RAIL_CONN_MOVE_DECIDE_H
#define MRAIL_RAIL_CONN_MOVE_DECIDE_H

#include "rail/state/engine.h"

/* Compares the peer's lanes, and moves one that shares its path with others.
 * recovery/stall_detect.c calls it at every tick. Returns 1 while a lane is
 * held and needs further ticks. Both locks held. */
int mrail_move_tick(mrail_peer_t *peer, mrail_ns_t now_ns) MRAIL_BOTH;

#endif
