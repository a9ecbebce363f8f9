/* The lanes of a peer that are in use. */
#include "config.h"
#include "rail/data/peer_lanes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* If up[0], the lane for small messages, takes no new work, swaps it with
 * another message lane that does. */
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

/* Returns the smallest length for which the time on the wire, length / rate,
 * exceeds the processing time, cost + length / copy rate. */
static uint32_t mrail_peer_am_spread(const mrail_peer_t *peer)
{
    double rate, bytes;

    if (peer->num_up == 0) {
        return UINT32_MAX;
    }
    rate = MRAIL_MIN((double)peer->up[0]->sched.nominal,
                     (double)peer->up[0]->rail->attr.speed_bps / 8);
    if (rate >= (double)MRAIL_AM_COPY_RATE) {
        return UINT32_MAX;
    }
    bytes = (double)MRAIL_AM_COST_NS / MRAIL_NS_PER_SEC /
            (1 / rate - 1 / (double)MRAIL_AM_COPY_RATE);
    return (uint32_t)MRAIL_MIN(MRAIL_MAX(bytes, MRAIL_AM_SPREAD_MIN),
                               (double)UINT32_MAX);
}

/* ---- uplinks ---- */

/* Capacities of the uplinks over which data from the peer reaches each local
 * rail. */
struct mrail_uplinks {
    unsigned count; /* uplinks per leaf */
    /* All 0 if unknown. */
    double rates[MRAIL_MAX_RAILS][MRAIL_MAX_UPLINKS];
};

/* Returns the share of a lane's uplink capacity that the lane may use. Sets
 * *sum_p to the sum of the shares of all lanes on the same rail, and *count_p
 * to the number of those lanes. */
static double mrail_peer_uplink_part(const mrail_peer_t *peer,
                                     const mrail_lane_t *lane, double *sum_p,
                                     unsigned *count_p)
{
    const double *rates = peer->uplinks->rates[lane->rail->index];
    unsigned sharers = 0;

    *sum_p = 0;
    *count_p = 0;
    for (unsigned i = 0; i < peer->num_up; ++i) {
        const mrail_lane_t *other = peer->up[i];
        int is_first = 1;

        if (other->rail != lane->rail) {
            continue;
        }
        for (unsigned k = 0; k < i; ++k) {
            is_first &= (peer->up[k]->rail != lane->rail) ||
                        (peer->up[k]->uplink != other->uplink);
        }
        *sum_p += is_first ? rates[other->uplink] : 0;
        sharers += (other->uplink == lane->uplink);
        ++*count_p;
    }
    return rates[lane->uplink] / sharers;
}

/* Sets the nominal rate of each lane to the part of its rail's rate that its
 * uplink can carry. */
static void mrail_peer_share_uplinks(mrail_peer_t *peer)
{
    const mrail_config_t *config = &peer->engine->config;

    if ((peer->uplinks == NULL) || (config->uplinks != peer->uplinks->count)) {
        return;
    }
    for (unsigned i = 0; i < peer->num_up; ++i) {
        mrail_lane_t *lane = peer->up[i];
        unsigned count;
        double sum, part = mrail_peer_uplink_part(peer, lane, &sum, &count);

        lane->uplink_down = (sum > 0) && (part == 0);
        lane->sched.nominal = lane->nominal;
        if (part > 0) {
            lane->sched.nominal =
                (uint64_t)((double)lane->nominal * part * count / sum) + 1;
        }
    }
}

int mrail_peer_set_uplinks(mrail_peer_t *peer, unsigned rail,
                           const double *uplinks, unsigned count)
{
    if (peer->uplinks == NULL) {
        peer->uplinks = calloc(1, sizeof(*peer->uplinks));
        if (peer->uplinks == NULL) {
            return -ENOMEM;
        }
    }
    peer->uplinks->count = count;
    memcpy(peer->uplinks->rates[rail], uplinks, count * sizeof(*uplinks));
    mrail_peer_refresh(peer);
    return 0;
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
    mrail_peer_share_uplinks(peer);
    mrail_peer_choose_primary(peer);
    peer->am_spread = mrail_peer_am_spread(peer);
}
