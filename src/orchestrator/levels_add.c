/* Demands of ranks become demands of pairs of nodes. */
#include "config.h"
#include "levels_inside.h"

#include "digest.h"

#include "base/grow.h"
#include "base/util.h"

#include <errno.h>
#include <string.h>

#define MAX_BYTES (UINT64_C(1) << 62)

static int levels_grow_groups(mrail_levels_t *levels)
{
    size_t room = (size_t)levels->groups_room * 2 + 64;
    size_t lanes = room * levels->stride;

    if (!mrail_grow(&levels->groups, room, sizeof(*levels->groups)) ||
        !mrail_grow(&levels->row, 2 * room, sizeof(*levels->row)) ||
        !mrail_grow(&levels->lanes, room, sizeof(*levels->lanes)) ||
        !mrail_grow(&levels->demand, room, sizeof(*levels->demand)) ||
        !mrail_grow(&levels->worth, lanes, sizeof(*levels->worth)) ||
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
    memset(&levels->worth[(size_t)g * stride], 0, stride * sizeof(double));
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

/* Demands of one rank to another node that follow each other, as they mostly do: what
 * they have in common is written down once.  Inline, so that it stays in registers. */
typedef struct levels_run {
    uint32_t from, to_node, group;
    uint64_t bytes, large; /* of the run */
    uint32_t count;
} levels_run_t;

static MRAIL_INLINE void levels_end_run(mrail_levels_t *levels,
                                        levels_run_t *run)
{
    levels_rank_t *from = &levels->ranks[run->from];

    if (run->count == 0) {
        return;
    }
    from->up_bytes += (double)(int64_t)run->bytes;
    if (run->group != MRAIL_PLAN_NONE) {
        levels_group_t *group = &levels->groups[run->group];

        group->total += run->bytes;
        group->large += run->large;
        group->count += run->count;
        levels->worth[(size_t)run->group * levels->stride + from->rail] +=
            (double)(int64_t)run->large;
    }
}

static MRAIL_INLINE int levels_begin_run(mrail_levels_t *levels,
                                         levels_run_t *run, uint32_t from,
                                         uint32_t to_node)
{
    uint32_t from_node = levels->ranks[from].node;
    uint32_t *group =
        &levels->group_of[(size_t)from_node * levels->num_nodes + to_node];

    levels_end_run(levels, run);
    *run = (levels_run_t){.from = from, .to_node = to_node, .group = MRAIL_PLAN_NONE};
    if (from_node == to_node) {
        return 0;
    }
    if (*group == MRAIL_PLAN_NONE) {
        int ret = levels_add_group(levels, from_node, to_node, group);

        if (ret != 0) {
            return ret;
        }
    }
    run->group = *group;
    return 0;
}

static MRAIL_INLINE void levels_add(mrail_levels_t *levels, levels_run_t *run,
                                    levels_rank_t *to, uint64_t bytes)
{
    to->down_bytes += (double)(int64_t)bytes;
    run->bytes += bytes;
    ++run->count;
    if (run->group == MRAIL_PLAN_NONE) {
        return;
    }
    if (bytes > levels->options.relay_above) {
        run->large += bytes;
        levels->worth[(size_t)run->group * levels->stride + to->rail] +=
            (double)bytes;
    } else {
        levels_add_small(levels, run->group,
                         mrail_filling_fewest(levels->groups[run->group].lanes,
                                       levels->ranks[run->from].rail, to->rail),
                         bytes);
    }
}

static void levels_begin(mrail_levels_t *levels)
{
    size_t nodes = levels->num_nodes;

    memset(levels->group_of, 0xff, nodes * nodes * sizeof(*levels->group_of));
    for (uint32_t i = 0; i < levels->num_ranks; ++i) {
        levels->ranks[i].up_bytes = levels->ranks[i].down_bytes = 0;
    }
    levels->num_groups = 0;
    levels->total = 0;
    levels->is_sorted = 0;
    levels->expanded = MRAIL_PLAN_NONE;
}

int mrail_levels_add_demands(mrail_levels_t *levels, uint64_t *digest_p)
{
    levels_run_t run = {.from = MRAIL_PLAN_NONE};
    uint64_t total = 0, digest = 0;

    levels_begin(levels);
    for (size_t i = 0; i < levels->num_demands; ++i) {
        const mrail_plan_demand_t *demand = &levels->demands[i];
        levels_rank_t *to;

        if ((demand->from >= levels->num_ranks) ||
            (demand->to >= levels->num_ranks) ||
            (demand->bytes > MAX_BYTES - total)) {
            return -ERANGE;
        }
        digest += mrail_digest_demand(demand, i);
        if ((demand->bytes == 0) || (demand->from == demand->to)) {
            continue;
        }
        total += demand->bytes;
        to = &levels->ranks[demand->to];
        if ((demand->from != run.from) || (to->node != run.to_node)) {
            int ret =
                levels_begin_run(levels, &run, demand->from, to->node);

            if (ret != 0) {
                return ret;
            }
        }
        levels_add(levels, &run, to, demand->bytes);
    }
    levels_end_run(levels, &run);
    levels->total = (double)total;
    *digest_p = digest;
    return 0;
}
