/* The lanes of a peer that are in use. */
#include "config.h"
#include "rail/data/peer_lanes.h"

/* If up[0], the lane of small messages, is leaving, swaps it with another
 * message lane that takes new work. */
static void mrail_peer_choose_primary(mrail_peer_t *peer)
{
    for (unsigned i = 1;
         (i < peer->num_am) && mrail_lane_is(peer->up[0], MRAIL_LANE_NO_WORK);
         ++i) {
        mrail_lane_t *lane = peer->up[i];

        if (!mrail_lane_is(lane, MRAIL_LANE_NO_WORK)) {
            peer->up[i] = peer->up[0];
            peer->sched[i] = peer->sched[0];
            peer->up[0] = lane;
            peer->sched[0] = &lane->sched;
        }
    }
}

static void mrail_peer_set_spread(mrail_peer_t *peer)
{
    static const mrail_split_cost_t am_cost = {MRAIL_AM_COST_NS,
                                               MRAIL_AM_COPY_RATE};
    mrail_split_cost_t rma_cost;
    double rate;

    peer->am_spread = peer->rma_spread = UINT32_MAX;
    if (peer->num_up != 0) {
        rate = mrail_lane_told_rate(peer->up[0]);
        rma_cost = mrail_rma_cost(peer->up[0]->rail);
        peer->am_spread =
            MRAIL_MAX(mrail_split_spread(rate, &am_cost), MRAIL_AM_SPREAD_MIN);
        peer->rma_spread =
            MRAIL_MAX(mrail_split_spread(rate, &rma_cost), MRAIL_AM_SPREAD_MIN);
    }
}

void mrail_peer_refresh(mrail_peer_t *peer)
{
    uint64_t mask = __atomic_load_n(&peer->up_mask, __ATOMIC_ACQUIRE);

    if (peer->dead) {
        return; /* the lane came up too late */
    }
    peer->seen_mask = mask;
    peer->pump_ns = 0;
    peer->num_up = 0;
    /* Slots below num_pairs carry AMs, so AM lanes come first. */
    peer->num_am = 0;
    mrail_for_each_slot(slot, mask) {
        mrail_lane_t *lane = mrail_peer_lane(peer, slot);

        lane->sched.taken = 0;
        lane->sched.quota_taken = 0;
        peer->num_am += (lane->am.window != 0);
        peer->rails_used |= 1u << lane->rail->index;
        peer->up[peer->num_up] = lane;
        peer->sched[peer->num_up++] = &lane->sched;
    }
    mrail_peer_choose_primary(peer);
    mrail_peer_set_spread(peer);
}
