/* Sums the ranks' demands by pair of nodes. */
#include "config.h"
#include "levels_internal.h"

#include "digest.h"

#include "base/grow.h"
#include "base/util.h"

#include <errno.h>
#include <string.h>

#define MAX_BYTES (UINT64_C(1) << 62)
/* Upper bounds on the size and number of demands, below which sums cannot
 * overflow without a check per demand. Larger demands are planned at once. */
#define HUGE_BYTES (UINT64_C(1) << 40)
#define MAX_RUN ((size_t)1 << 20)

static int levels_grow_groups(mrail_levels_t *levels)
{
    size_t room = (size_t)levels->groups_room * 2 + 64;
    size_t lanes = room * levels->stride;

    if (!mrail_grow(&levels->groups, room, sizeof(*levels->groups)) ||
        !mrail_grow(&levels->row, 2 * room, sizeof(*levels->row)) ||
        !mrail_grow(&levels->lanes, room, sizeof(*levels->lanes)) ||
        !mrail_grow(&levels->demand, room, sizeof(*levels->demand)) ||
        !mrail_grow(&levels->wanted, 2 * lanes, sizeof(*levels->wanted)) ||
        !mrail_grow(&levels->weight, lanes, sizeof(*levels->weight)) ||
        !mrail_grow(&levels->small, lanes, sizeof(*levels->small)) ||
        !mrail_grow(&levels->end, room * levels->num_rails,
                    sizeof(*levels->end))) {
        return -ENOMEM;
    }
    levels->groups_room = (uint32_t)room;
    return 0;
}

static int levels_add_group(mrail_levels_t *levels, uint32_t from_node,
                            uint32_t to_node, uint32_t *group_p)
{
    uint32_t g = levels->num_groups, stride = levels->stride;
    mrail_route_t route;

    if ((g == levels->groups_room) && (levels_grow_groups(levels) != 0)) {
        return -ENOMEM;
    }
    if (mrail_routes_find(levels->routes, levels->first_rank[from_node],
                          levels->first_rank[to_node], 0, &route) <= 0) {
        return -ERANGE;
    }
    levels->groups[g] = (levels_group_t){.lanes = route.lanes};
    levels->row[2 * g] = route.row[0];
    levels->row[2 * g + 1] = route.row[1];
    levels->lanes[g] = route.lanes;
    memset(&levels->weight[(size_t)g * stride], 0, stride * sizeof(double));
    memset(&levels->wanted[2 * (size_t)g * stride], 0,
           2 * stride * sizeof(*levels->wanted));
    memset(&levels->small[(size_t)g * stride], 0, stride * sizeof(double));
    *group_p = levels->num_groups++;
    return 0;
}

static void levels_add_small(mrail_levels_t *levels, uint32_t g, uint32_t lanes,
                             uint64_t bytes)
{
    double *small = &levels->small[(size_t)g * levels->stride];
    unsigned first = (unsigned)__builtin_ctz(lanes);
    uint32_t others = lanes & (lanes - 1);
    double part;

    if (others == 0) {
        small[first] += (double)bytes;
    } else if ((others & (others - 1)) == 0) {
        small[first] += (double)bytes * 0.5;
        small[__builtin_ctz(others)] += (double)bytes * 0.5;
    } else {
        part = (double)bytes / (double)__builtin_popcount(lanes);
        for (; lanes != 0; lanes &= lanes - 1) {
            small[__builtin_ctz(lanes)] += part;
        }
    }
}

/* Sums over the demands. */
typedef struct levels_sums {
    uint64_t total, digest;
} levels_sums_t;

/* Handles one sender's demands for which the own rail of one end is down. Small
 * demands go entirely to the rails that need the fewest relays, whereas
 * normally half of each goes to the receiver's rail. */
static __attribute__((noinline)) void
levels_add_degraded(mrail_levels_t *levels, uint32_t g,
                    const mrail_plan_demand_t *demand,
                    const mrail_plan_demand_t *end)
{
    uint64_t *small = &levels->wanted[(2 * (size_t)g + 1) * levels->stride];

    for (; demand < end; ++demand) {
        uint32_t rail = levels->places[demand->to].rail;

        if (demand->bytes <= levels->options.relay_threshold) {
            uint32_t own = levels->places[demand->from].rail;
            uint32_t lanes =
                mrail_water_fill_fewest(levels->groups[g].lanes, own, rail);

            small[rail] -= demand->bytes;
            levels_add_small(levels, g, lanes, demand->bytes);
            if ((lanes & ((1u << own) | (1u << rail))) == 0) {
                levels->groups[g].lost += demand->bytes;
            }
        }
    }
}

/* Adds the demands from one rank to the ranks of another node, which are
 * usually consecutive. Returns their number. With many demands, this loop
 * dominates planning time. It looks up common values once and keeps the rest in
 * registers, which is why the function above is not inlined. It does not branch
 * on small demands, because the branch would be unpredictable. */
static MRAIL_INLINE size_t levels_add_run(mrail_levels_t *levels, uint32_t g,
                                          size_t first, uint64_t *digest_p,
                                          const int in_pairs)
{
    const mrail_plan_demand_t *begin = &levels->demands[first];
    const mrail_plan_demand_t *demand = begin;
    const mrail_plan_demand_t *end =
        begin + MRAIL_MIN(levels->num_demands - first, MAX_RUN);
    const levels_place_t *places = levels->places;
    const uint64_t relay_threshold = levels->options.relay_threshold;
    const uint32_t from = begin->from, num_ranks = levels->num_ranks;
    const uint32_t to_node = places[begin->to].node, stride = levels->stride;
    const uint32_t lanes = levels->groups[g].lanes;
    const uint32_t own = places[from].rail;
    const int is_up = (lanes >> own) & 1;
    uint64_t *wanted = &levels->wanted[2 * (size_t)g * stride];
    uint64_t *down_bytes = levels->down_bytes, *sent = NULL, *received = NULL;
    uint64_t key = ((uint64_t)from << 32) + first;
    uint64_t total = 0, small = 0, degraded = 0, digest = 0, large;

    if (in_pairs) {
        sent = &levels->pairs->sent[(size_t)from * stride];
        received = &levels->pairs->received[own];
    }
    for (; demand < end; ++demand, ++key) {
        uint32_t to = demand->to, rail;
        uint64_t bytes = demand->bytes, small_mask;

        if ((demand->from != from) || (to >= num_ranks) ||
            (places[to].node != to_node) || (bytes >= HUGE_BYTES)) {
            break;
        }
        rail = places[to].rail;
        small_mask = -(uint64_t)(bytes <= relay_threshold);
        total += bytes;
        small += bytes & small_mask;
        if (in_pairs) {
            sent[rail] += bytes;
            received[(size_t)to * stride] += bytes;
        } else {
            down_bytes[to] += bytes;
        }
        wanted[(small_mask & stride) + rail] += bytes;
        digest += mrail_digest(key + to, bytes);
        degraded += bytes & small_mask & (((uint64_t)lanes >> rail & 1) - 1);
    }
    large = total - small;
    if (is_up) {
        levels->small[(size_t)g * stride + own] += (double)(int64_t)degraded;
        small -= degraded;
    } else if (small > 0) {
        levels_add_degraded(levels, g, begin, demand);
        small = 0;
    }
    wanted[own] += large;
    wanted[stride + own] += small;
    levels->groups[g].total += total;
    levels->groups[g].large += large;
    levels->groups[g].count += (uint32_t)(demand - begin);
    *digest_p += digest;
    return (size_t)(demand - begin);
}

static __attribute__((noinline)) size_t
levels_add_run_switch(mrail_levels_t *levels, uint32_t g, size_t first,
                      uint64_t *digest_p)
{
    return levels_add_run(levels, g, first, digest_p, 0);
}

static __attribute__((noinline)) size_t
levels_add_run_pairs(mrail_levels_t *levels, uint32_t g, size_t first,
                     uint64_t *digest_p)
{
    return levels_add_run(levels, g, first, digest_p, 1);
}

static void levels_add_inside(mrail_levels_t *levels,
                              const mrail_plan_demand_t *demand)
{
    const levels_pairs_t *pairs = levels->pairs;

    if (pairs != NULL) {
        pairs->inside[(size_t)demand->from * MRAIL_PLAN_MAX_PAIRWISE +
                      pairs->place[demand->to]] += demand->bytes;
    } else {
        levels->up_bytes[demand->from] += demand->bytes;
        levels->down_bytes[demand->to] += demand->bytes;
    }
}

/* Adds demand i, together with the following demands from the same rank to the
 * same node. Sets *end_p to the next demand. Returns 0, -ENOMEM or -ERANGE. */
static int levels_add_some(mrail_levels_t *levels, size_t i,
                           levels_sums_t *sums, size_t *end_p)
{
    const mrail_plan_demand_t *demand = &levels->demands[i];
    uint32_t from_node, to_node, *group;
    uint64_t before, added;

    if ((demand->from >= levels->num_ranks) ||
        (demand->to >= levels->num_ranks) || (demand->bytes >= HUGE_BYTES)) {
        return -ERANGE;
    }
    *end_p = i + 1;
    from_node = levels->places[demand->from].node;
    to_node = levels->places[demand->to].node;
    if ((from_node == to_node) || (demand->bytes == 0)) {
        sums->digest += mrail_digest_demand(demand, i);
        if (demand->from != demand->to) {
            sums->total += demand->bytes;
            levels_add_inside(levels, demand);
        }
        return (sums->total > MAX_BYTES) ? -ERANGE : 0;
    }
    group = &levels->group_of[(size_t)from_node * levels->num_nodes + to_node];
    if (*group == MRAIL_PLAN_NONE) {
        int ret = levels_add_group(levels, from_node, to_node, group);

        if (ret != 0) {
            return ret;
        }
    }
    before = levels->groups[*group].total;
    *end_p = i + (levels->pairs ? levels_add_run_pairs : levels_add_run_switch)(
                     levels, *group, i, &sums->digest);
    added = levels->groups[*group].total - before;
    levels->up_bytes[demand->from] += added;
    sums->total += added;
    return (sums->total > MAX_BYTES) ? -ERANGE : 0;
}

static void levels_begin(mrail_levels_t *levels)
{
    size_t nodes = levels->num_nodes;

    memset(levels->group_of, 0xff, nodes * nodes * sizeof(*levels->group_of));
    memset(levels->up_bytes, 0,
           2 * (size_t)levels->num_ranks * sizeof(*levels->up_bytes));
    if (levels->pairs != NULL) {
        memset(levels->pairs->inside, 0,
               levels->pairs->num_bytes * sizeof(*levels->pairs->inside));
    }
    levels->num_groups = 0;
    levels->total = 0;
    levels->is_sorted = 0;
    levels->expanded = MRAIL_PLAN_NONE;
}

int mrail_levels_add_demands(mrail_levels_t *levels, uint64_t *digest_p)
{
    levels_sums_t sums = {0};

    levels_begin(levels);
    for (size_t i = 0; i < levels->num_demands;) {
        int ret = levels_add_some(levels, i, &sums, &i);

        if (ret != 0) {
            return ret;
        }
    }
    levels->total = (double)(int64_t)sums.total;
    *digest_p = sums.digest;
    return 0;
}
