/* Merges the pieces of each demand, which reduces pieces and unnecessary
 * relays. */
#include "config.h"
#include "flows_internal.h"

#include "base/util.h"

#include <math.h>

static double flows_lane_relays(const mrail_flows_t *flows,
                                const mrail_flows_lanes_t *lanes, uint32_t lane)
{
    return flows->slot_relays[lanes->out + lane] +
           flows->slot_relays[lanes->in + lane];
}

static double flows_add_to_link(mrail_flows_t *flows, uint32_t link,
                                double bytes)
{
    flows->load[link] += bytes * flows->per_byte[link];
    return flows->load[link];
}

/* Factor by which an emptied fork shrinks, so that its proportions are
 * preserved. */
#define EMPTY_FORK 1e-12

/* Adds bytes, possibly negative, to the branches of a slot, in proportion to
 * the bytes that they have. Returns the largest load of their links. */
static double flows_add_to_fork(mrail_flows_t *flows, uint32_t s, double bytes)
{
    double *tail = mrail_flows_tail(flows, flows->bytes), sum = 0, most = 0;
    const mrail_flows_fork_t *fork;

    if (flows->fork_of[s] == MRAIL_FLOWS_NO_LINK) {
        return 0;
    }
    fork = &flows->forks[flows->fork_of[s]];
    for (uint32_t b = fork->first; b < fork->first + fork->count; ++b) {
        sum += tail[b];
    }
    for (uint32_t b = fork->first; b < fork->first + fork->count; ++b) {
        const uint32_t *link = flows->branch[b].link;
        double part = bytes * ((sum > 0) ? tail[b] / sum : 1.0 / fork->count);

        part = MRAIL_MAX(part, tail[b] * (EMPTY_FORK - 1));
        tail[b] += part;
        for (unsigned i = 0; i < MRAIL_FLOWS_BRANCH_LINKS; ++i) {
            if (link[i] != MRAIL_FLOWS_NO_LINK) {
                double load = flows_add_to_link(flows, link[i], part);

                most = MRAIL_MAX(most, load);
            }
        }
    }
    return most;
}

/* Adds bytes, possibly negative, to the links of a lane. Returns the largest of
 * their loads. */
static double flows_add_to_lane(mrail_flows_t *flows,
                                const mrail_flows_lanes_t *lanes, uint32_t lane,
                                double bytes)
{
    double most = 0;

    if (flows->num_forks > 0) {
        double out = flows_add_to_fork(flows, lanes->out + lane, bytes);
        double in = flows_add_to_fork(flows, lanes->in + lane, bytes);

        most = MRAIL_MAX(out, in);
    }

    for (unsigned i = 0; i < 2 * MRAIL_FLOWS_SLOT_LINKS; ++i) {
        size_t slot =
            lane + ((i < MRAIL_FLOWS_SLOT_LINKS) ? lanes->out : lanes->in);
        uint32_t link = flows->slot_link[slot * MRAIL_FLOWS_SLOT_LINKS +
                                         i % MRAIL_FLOWS_SLOT_LINKS];

        if (link != flows->links.num_links) {
            double load = flows_add_to_link(flows, link, bytes);

            most = MRAIL_MAX(most, load);
        }
    }
    return most;
}

/* Among the demand's lanes with the fewest relays, finds the one whose load is
 * lowest once the bytes are added. */
static uint32_t flows_best_lane(mrail_flows_t *flows,
                                const mrail_flows_lanes_t *lanes, double bytes,
                                double *load_p)
{
    double fewest = 4, least = 0;
    uint32_t best = 0;

    for (uint32_t lane = 0; lane < flows->kernels.width; ++lane) {
        if (lanes->bytes[lane] > 0) {
            fewest = MRAIL_MIN(fewest, flows_lane_relays(flows, lanes, lane));
        }
    }
    *load_p = -1;
    for (uint32_t lane = 0; lane < flows->kernels.width; ++lane) {
        if ((lanes->bytes[lane] <= 0) ||
            (flows_lane_relays(flows, lanes, lane) > fewest)) {
            continue;
        }
        least = flows_add_to_lane(flows, lanes, lane, bytes);
        (void)flows_add_to_lane(flows, lanes, lane, -bytes);
        if ((*load_p < 0) || (least < *load_p)) {
            *load_p = least;
            best = lane;
        }
    }
    return best;
}

static void flows_merge_lanes(mrail_flows_t *flows,
                              const mrail_flows_lanes_t *lanes, double least,
                              double limit)
{
    double small[MRAIL_KERNELS_MAX_WIDTH] = {0}, sum = 0, load;
    unsigned num_small = 0;
    uint32_t best;

    for (uint32_t lane = 0; lane < flows->kernels.width; ++lane) {
        if ((lanes->bytes[lane] > 0) && (lanes->bytes[lane] < least)) {
            small[lane] = lanes->bytes[lane];
            sum += small[lane];
            ++num_small;
            (void)flows_add_to_lane(flows, lanes, lane, -small[lane]);
        }
    }
    if (num_small == 0) {
        return;
    }
    best = flows_best_lane(flows, lanes, sum, &load);
    if (load > limit) {
        for (uint32_t lane = 0; lane < flows->kernels.width; ++lane) {
            (void)flows_add_to_lane(flows, lanes, lane, small[lane]);
        }
        return;
    }
    (void)flows_add_to_lane(flows, lanes, best, sum);
    for (uint32_t lane = 0; lane < flows->kernels.width; ++lane) {
        /* the numbers are equal, so this is exactly 0 */
        lanes->bytes[lane] -= small[lane];
    }
    lanes->bytes[best] += sum;
}

static uint32_t flows_next_small(const mrail_flows_t *flows, double least,
                                 uint32_t first)
{
    return mrail_kernels_find_small(&flows->kernels, flows->bytes, least,
                                    first);
}

void mrail_flows_merge(mrail_flows_t *flows, double least, double limit)
{
    uint32_t k = flows_next_small(flows, least, 0);

    if (k < flows->kernels.num_demands) {
        mrail_flows_load_bytes(flows);
    }
    for (; k < flows->kernels.num_demands;
         k = flows_next_small(flows, least, k + 1)) {
        mrail_flows_lanes_t lanes = mrail_flows_lanes(flows, k);

        flows_merge_lanes(flows, &lanes, least, limit);
    }
}
