/* Choice of the lanes that carry the next bytes of operations. */
#ifndef MRAIL_RAIL_DATA_RMA_PUMP_H
#define MRAIL_RAIL_DATA_RMA_PUMP_H

#include "rail/state/engine.h"

/* Posts as much work as the lanes can accept. */
void mrail_rma_pump(mrail_peer_t *peer, mrail_ns_t now_ns) MRAIL_DATA;

/* Like mrail_rma_pump(), but returns immediately before peer->pump_ns, so that
 * it can be called at every poll. */
void mrail_rma_poll(mrail_peer_t *peer, mrail_ns_t now_ns) MRAIL_DATA;

/* Sets `usable` for each lane in use, depending on whether it can accept a
 * chunk now. */
void mrail_rma_mark_usable(mrail_peer_t *peer) MRAIL_DATA;

#endif
