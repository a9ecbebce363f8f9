/* Stall detection, for lanes whose packets are lost silently, and keepalive.
 * Both locks held. */
#ifndef MRAIL_RAIL_RECOVERY_STALL_DETECT_H
#define MRAIL_RAIL_RECOVERY_STALL_DETECT_H

#include "rail/state/engine.h"

#define MRAIL_STALL_TICK (25 * MRAIL_NS_PER_MS)

/* Checks the lanes of all peers in engine->stalling. */
void mrail_stall_tick(mrail_engine_t *engine, mrail_ns_t now_ns) MRAIL_BOTH;

/* Checks some of the peers whose keepalive is due. Returns the time of the next
 * call. */
mrail_ns_t mrail_stall_keepalive(mrail_engine_t *engine,
                                 mrail_ns_t now_ns) MRAIL_BOTH;

#endif
