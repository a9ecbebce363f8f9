#include "config.h"
#include "levels.h"

#include "cuts.h"
#include "levels_internal.h"

#include "base/grow.h"
#include "base/util.h"

#include <errno.h>
#include <string.h>

#define MAX_ITERATIONS 4000
#define MAX_FIT_ITERATIONS 400
/* Part of the gap for the first division. */
#define PART_BALANCE 0.6
/* Minimum weight of a rail for a demand, even if neither end owns the rail. */
#define MIN_WEIGHT 0.002

/* ---- First level ---- */

static int levels_load(mrail_levels_t *levels, const double *base,
                       const double *weight)
{
    const mrail_flows_problem_t problem = {
        .num_rows = mrail_routes_num_rows(levels->routes),
        .slot = mrail_routes_slots(levels->routes),
        .num_demands = levels->num_groups,
        .row = levels->row,
        .lanes = levels->lanes,
        .demand = levels->demand,
        .base = base,
        .weight = weight};

    return mrail_flows_load(levels->flows, &problem);
}

static void levels_clear_slots(mrail_levels_t *levels)
{
    memset(levels->slot_bytes, 0,
           (size_t)mrail_routes_num_rows(levels->routes) * levels->num_rails *
               sizeof(*levels->slot_bytes));
}

static void levels_add_slots(mrail_levels_t *levels, uint32_t g, uint32_t rail,
                             double bytes)
{
    const uint32_t *row = &levels->row[2 * (size_t)g];

    levels->slot_bytes[row[0] * levels->num_rails + rail] += bytes;
    levels->slot_bytes[row[1] * levels->num_rails + rail] += bytes;
}

static void levels_add_links(mrail_levels_t *levels, double *link_bytes)
{
    const mrail_flows_slot_t *slot = mrail_routes_slots(levels->routes);
    uint32_t slots = mrail_routes_num_rows(levels->routes) * levels->num_rails;

    for (uint32_t s = 0; s < slots; ++s) {
        for (unsigned i = 0; i < MRAIL_FLOWS_SLOT_LINKS; ++i) {
            if (slot[s].link[i] != MRAIL_FLOWS_NO_LINK) {
                link_bytes[slot[s].link[i]] += levels->slot_bytes[s];
            }
        }
    }
}

/* Sets the weights of rails for large demands, and the loads of small
 * demands. */
static void levels_weigh(mrail_levels_t *levels, const double *background)
{
    levels_clear_slots(levels);
    for (uint32_t g = 0; g < levels->num_groups; ++g) {
        const levels_group_t *group = &levels->groups[g];
        const uint64_t *wanted =
            &levels->wanted[2 * (size_t)g * levels->stride];
        double *weight = &levels->weight[(size_t)g * levels->stride];
        double least = MIN_WEIGHT * (double)group->large + 1;

        for (uint32_t rail = 0; rail < levels->num_rails; ++rail) {
            int is_up = (group->lanes >> rail) & 1;
            double small = levels->small[(size_t)g * levels->stride + rail];

            if (is_up) {
                small += 0.5 * (double)(int64_t)wanted[levels->stride + rail];
            }
            weight[rail] = is_up ? (double)(int64_t)wanted[rail] + least : 0;
            levels_add_slots(levels, g, rail, small);
        }
        levels->demand[g] = (double)group->large;
    }
    for (uint32_t e = 0; e < levels->num_links; ++e) {
        levels->base[e] = (background != NULL) ? background[e] : 0;
    }
    levels_add_links(levels, levels->base);
}

static int levels_divide_rails(mrail_levels_t *levels, const double *background,
                               mrail_plan_summary_t *summary)
{
    double gap = levels->options.gap;
    int ret;

    for (uint32_t g = 0; g < levels->num_groups; ++g) {
        levels->demand[g] = (double)levels->groups[g].total;
    }
    ret = levels_load(levels, background, NULL);
    if (ret != 0) {
        return ret;
    }
    summary->iterations =
        mrail_flows_balance(levels->flows, gap * PART_BALANCE, MAX_ITERATIONS);
    summary->congestion_bound = mrail_flows_bound(levels->flows);
    summary->limit =
        summary->congestion_bound * (1 + gap * MRAIL_PLAN_PART_LIMIT);
    levels_weigh(levels, background);
    ret = levels_load(levels, levels->base, levels->weight);
    if (ret != 0) {
        return ret;
    }
    ret = mrail_flows_fit(levels->flows, summary->limit, MAX_FIT_ITERATIONS);
    if (ret < 0) {
        return ret;
    }
    summary->relay_iterations = (unsigned)ret;
    return 0;
}

/* Cuts large demands into whole bytes. Sums the loads of all demands on the
 * rails' links. */
static void levels_cut(mrail_levels_t *levels, mrail_plan_summary_t *summary)
{
    const double *bytes = mrail_flows_bytes(levels->flows);
    uint32_t rails = levels->num_rails;

    levels_clear_slots(levels);
    for (uint32_t g = 0; g < levels->num_groups; ++g) {
        uint64_t *end = &levels->end[(size_t)g * rails];

        if (levels->groups[g].large == 0) {
            memset(end, 0, rails * sizeof(*end));
            continue;
        }
        mrail_cuts_make(levels->groups[g].large, levels->options.min_piece,
                        rails, &bytes[(size_t)g * levels->stride], end);
        for (uint32_t rail = 0; rail < rails; ++rail) {
            uint64_t on_rail = mrail_cuts_bytes(end, rail);

            if (on_rail > 0) {
                levels_add_slots(levels, g, rail, (double)on_rail);
                summary->hash = mrail_mix64(summary->hash ^ (on_rail + rail));
            }
        }
    }
    memcpy(levels->bytes, levels->base,
           levels->num_links * sizeof(*levels->bytes));
    levels_add_links(levels, levels->bytes);
    for (uint32_t e = 0; e < levels->num_links; ++e) {
        summary->congestion = MRAIL_MAX(summary->congestion,
                                        levels->bytes[e] / levels->capacity[e]);
    }
}

static int levels_grow_demands(mrail_levels_t *levels, size_t num_demands)
{
    if (num_demands > levels->demands_room) {
        if (!mrail_grow(&levels->order, num_demands, sizeof(*levels->order))) {
            return -ENOMEM;
        }
        levels->demands_room = num_demands;
    }
    return 0;
}

/* Makes room for the demands of the largest pair of nodes. */
static int levels_grow_ends(mrail_levels_t *levels)
{
    size_t most = 0;

    for (uint32_t g = 0; g < levels->num_groups; ++g) {
        most = MRAIL_MAX(most, levels->groups[g].count);
    }
    if (most > levels->ends_room) {
        if (!mrail_grow(&levels->members, most, sizeof(*levels->members)) ||
            !mrail_grow(&levels->ends, most * levels->num_rails,
                        sizeof(*levels->ends))) {
            return -ENOMEM;
        }
        levels->ends_room = most;
    }
    return 0;
}

/* ---- Second level ---- */

/* Returns the pair of nodes of a demand, or MRAIL_PLAN_NONE if it is within a
 * node or empty. */
static uint32_t levels_pair(const mrail_levels_t *levels,
                            const mrail_plan_demand_t *demand)
{
    uint32_t from = levels->places[demand->from].node;
    uint32_t to = levels->places[demand->to].node;

    return ((from == to) || (demand->bytes == 0))
               ? MRAIL_PLAN_NONE
               : from * levels->num_nodes + to;
}

/* Sorts the demands by pair of nodes with a counting sort, which keeps their
 * order within a pair. */
static void levels_sort(mrail_levels_t *levels)
{
    size_t pairs = (size_t)levels->num_nodes * levels->num_nodes;
    uint32_t *first = levels->first, total;

    memset(first, 0, (pairs + 1) * sizeof(*first));
    for (size_t i = 0; i < levels->num_demands; ++i) {
        uint32_t pair = levels_pair(levels, &levels->demands[i]);

        if (pair != MRAIL_PLAN_NONE) {
            ++first[(size_t)pair + 1];
        }
    }
    for (size_t pair = 0; pair < pairs; ++pair) {
        first[pair + 1] += first[pair];
    }
    total = first[pairs];
    for (size_t i = levels->num_demands; i-- > 0;) {
        uint32_t pair = levels_pair(levels, &levels->demands[i]);

        if (pair != MRAIL_PLAN_NONE) {
            levels->order[--first[(size_t)pair + 1]] = (uint32_t)i;
        }
    }
    /* The start of each pair is now one entry too far to the right. */
    memmove(first, first + 1, pairs * sizeof(*first));
    first[pairs] = total;
    levels->is_sorted = 1;
}

static void levels_expand(mrail_levels_t *levels, uint32_t pair)
{
    uint32_t group = levels->group_of[pair], rails = levels->num_rails;
    uint32_t first = levels->first[pair],
             count = levels->first[pair + 1] - first;
    uint64_t room[MRAIL_PLAN_MAX_RAILS];

    for (uint32_t m = 0; m < count; ++m) {
        const mrail_plan_demand_t *demand =
            &levels->demands[levels->order[first + m]];

        levels->members[m] = (mrail_water_fill_demand_t){
            .from_rail = levels->places[demand->from].rail,
            .to_rail = levels->places[demand->to].rail,
            .bytes = demand->bytes,
            .is_small = demand->bytes <= levels->options.relay_threshold};
    }
    for (uint32_t rail = 0; rail < rails; ++rail) {
        room[rail] =
            mrail_cuts_bytes(&levels->end[(size_t)group * rails], rail);
    }
    mrail_water_fill_make(levels->members, count, rails,
                          levels->groups[group].lanes, room,
                          levels->pairs != NULL, levels->ends);
    levels->expanded = pair;
}

/* Returns the load of the pairwise links, computed from the complete second
 * level. */
static double levels_on_pairs(mrail_levels_t *levels)
{
    uint32_t pairs = levels->num_nodes * levels->num_nodes;

    levels_sort(levels);
    mrail_levels_begin_pairs(levels);
    for (uint32_t pair = 0; pair < pairs; ++pair) {
        uint32_t first = levels->first[pair];
        uint32_t count = levels->first[pair + 1] - first;

        if (count == 0) {
            continue;
        }
        levels_expand(levels, pair);
        for (uint32_t m = 0; m < count; ++m) {
            mrail_levels_add_to_pairs(
                levels, &levels->demands[levels->order[first + m]],
                &levels->ends[(size_t)m * levels->num_rails]);
        }
    }
    return mrail_levels_load_of_pairs(levels);
}

/* ---- Both levels ---- */

int mrail_levels_divide(mrail_levels_t *levels,
                        const mrail_plan_demand_t *demands, size_t num_demands,
                        const double *background,
                        mrail_plan_summary_t *summary_p)
{
    mrail_plan_summary_t summary = {0};
    double limit, gpus;
    uint64_t digest;
    int ret;

    if (num_demands >= UINT32_MAX) {
        return -ERANGE;
    }
    levels->demands = demands;
    levels->num_demands = num_demands;
    ret = mrail_levels_add_demands(levels, &digest);
    if ((ret == 0) && (levels->num_groups == 0)) {
        ret = -ERANGE;
    }
    if (ret == 0) {
        ret = levels_grow_demands(levels, num_demands);
    }
    if (ret == 0) {
        ret = levels_grow_ends(levels);
    }
    if (ret == 0) {
        ret = levels_divide_rails(levels, background, &summary);
    }
    if (ret != 0) {
        return ret;
    }
    summary.hash = mrail_mix64(digest);
    levels_cut(levels, &summary);
    limit = summary.congestion_bound * (1 + levels->options.gap);
    gpus = mrail_levels_most_on_gpus(levels);
    if ((gpus > limit) && (levels->pairs != NULL)) {
        gpus = levels_on_pairs(levels);
    }
    summary.congestion = MRAIL_MAX(summary.congestion, gpus);
    if (summary.congestion > limit) {
        return -ERANGE;
    }
    summary.bytes = levels->total;
    summary.relayed = 2 * levels->total;
    *summary_p = summary;
    return 0;
}

uint32_t mrail_levels_num_rails(const mrail_levels_t *levels)
{
    return levels->num_rails;
}

const uint64_t *mrail_levels_ends(mrail_levels_t *levels, size_t i)
{
    const mrail_plan_demand_t *demand = &levels->demands[i];
    uint32_t pair = levels_pair(levels, demand), low, high;

    if (!levels->is_sorted) {
        levels_sort(levels);
    }
    if (levels->expanded != pair) {
        levels_expand(levels, pair);
    }
    low = levels->first[pair];
    high = levels->first[pair + 1] - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (levels->order[middle] < i) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return &levels
                ->ends[(size_t)(low - levels->first[pair]) * levels->num_rails];
}

uint32_t mrail_levels_num_links(const mrail_levels_t *levels)
{
    return levels->num_links;
}

const double *mrail_levels_links(const mrail_levels_t *levels,
                                 uint32_t *num_links_p)
{
    *num_links_p = levels->num_links;
    return levels->bytes;
}
