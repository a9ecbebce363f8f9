/* Signals to sleeping ifaces, and the start of stall detection. The caller
 * holds the data-path lock or the control lock. */
#ifndef MRAIL_RAIL_STATE_SIGNALS_H
#define MRAIL_RAIL_STATE_SIGNALS_H

#include "rail/state/engine.h"

/* Starts stall detection for the peer, because it has work in flight. Data-path
 * lock held. */
void mrail_stall_begin(mrail_peer_t *peer);

static inline void mrail_stall_wake(mrail_peer_t *peer)
{
    if (MRAIL_FAILOVER && MRAIL_UNLIKELY(!peer->stall_checking)) {
        mrail_stall_begin(peer);
    }
}

/* Makes the next poll check the peer, because it has failed or its lane masks
 * have changed. */
void mrail_peer_check(mrail_peer_t *peer);

/* Wakes the iface if it sleeps. */
void mrail_wakeup_signal(mrail_iface_t *iface);

/* Signals all ifaces that are armed for at least the events of `least`. */
void mrail_wakeup_all(mrail_engine_t *engine, mrail_armed_t least);

/* Makes the control thread check its work immediately. Any thread may call
 * it. */
void mrail_control_thread_wake(mrail_engine_t *engine);

#endif
