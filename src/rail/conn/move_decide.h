/* Decides which lane moves to another source port. */
#ifndef MRAIL_RAIL_CONN_MOVE_DECIDE_H
#define MRAIL_RAIL_CONN_MOVE_DECIDE_H

#include "rail/state/engine.h"

/* Compares the peer's lanes, at every tick of recovery/stall_detect.c, and
 * moves one that shares its path with others. Both locks held. */
void mrail_move_tick(mrail_peer_t *peer, mrail_ns_t now_ns) MRAIL_BOTH;

/* Sends requests that waited for a send buffer. */
void mrail_move_run_requests(mrail_peer_t *peer) MRAIL_CTL;

#endif
