/* The lanes of a peer that are in use. */
#ifndef MRAIL_RAIL_DATA_PEER_LANES_H
#define MRAIL_RAIL_DATA_PEER_LANES_H

#include "rail/state/engine.h"

/* Updates the list of lanes in use from up_mask. Data-path lock held. */
void mrail_peer_refresh(mrail_peer_t *peer) MRAIL_DATA;

/* Stores capacities for mrail_ep_set_uplinks(). Returns 0 or -ENOMEM. Data-path
 * lock held. */
int mrail_peer_set_uplinks(mrail_peer_t *peer, unsigned rail,
                           const double *uplinks, unsigned count) MRAIL_DATA;

/* Returns the number of lanes in use. Data-path lock held. */
static inline MRAIL_DATA unsigned mrail_peer_num_up(mrail_peer_t *peer)
{
    if (MRAIL_UNLIKELY(__atomic_load_n(&peer->up_mask, __ATOMIC_ACQUIRE) !=
                       peer->seen_mask)) {
        mrail_peer_refresh(peer);
    }
    return peer->num_up;
}

#endif
