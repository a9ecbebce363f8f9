/* The lanes of a peer that are in use. */
#ifndef MRAIL_RAIL_DATA_PEER_LANES_H
#define MRAIL_RAIL_DATA_PEER_LANES_H

#include "rail/proto/split.h"
#include "rail/state/engine.h"

/* Starts to use lanes that came up since the last call. Data-path lock held. */
void mrail_peer_refresh(mrail_peer_t *peer) MRAIL_DATA;

/* Stores capacities for mrail_ep_set_uplinks(). Returns 0 or -ENOMEM. Data-path
 * lock held. */
int mrail_peer_set_uplinks(mrail_peer_t *peer, unsigned rail,
                           const double *uplinks, unsigned count) MRAIL_DATA;

/* Returns the rate in bytes/s that the ports of the lane report. */
static inline double mrail_lane_told_rate(const mrail_lane_t *lane)
{
    return MRAIL_MAX(MRAIL_MIN((double)lane->sched.nominal,
                               (double)lane->rail->attr.speed_bps / 8),
                     1.0);
}

/* Returns the cost of a request of a PUT or GET on the rail. */
static inline mrail_split_cost_t mrail_rma_cost(const mrail_rail_t *rail)
{
    static const mrail_split_cost_t costs[] = {
        {MRAIL_RMA_COST_NS, 0},
        {MRAIL_RMA_SOFT_COST_NS, MRAIL_RMA_SOFT_RATE},
    };

    return costs[rail->is_software != 0];
}

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
