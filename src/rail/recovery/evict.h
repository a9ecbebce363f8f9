/* Eviction of lanes that conn/qp_budget.c has chosen. Data-path lock held. */
#ifndef MRAIL_RAIL_RECOVERY_EVICT_H
#define MRAIL_RAIL_RECOVERY_EVICT_H

#include "rail/state/engine.h"

/* Continues evictions that are in progress. Data-path lock held. */
void mrail_evict_check(mrail_peer_t *peer, mrail_ns_t now_ns) MRAIL_DATA;

/* Returns 1 if the peer has no eviction to continue. */
static inline int mrail_evict_is_idle(const mrail_peer_t *peer)
{
    return __atomic_load_n(&peer->evict_mask, __ATOMIC_ACQUIRE) == 0;
}

#endif
