#include "config.h"
#include "levels.h"

#include "cuts.h"
#include "digest.h"
#include "flows.h"
#include "routes.h"
#include "topo.h"

#include "base/util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NO_GROUP UINT32_MAX
#define NO_PAIR UINT32_MAX
#define MAX_BYTES (UINT64_C(1) << 62)
#define MAX_ROUNDS 4000
#define MAX_FIT_ROUNDS 400
/* Of the gap: for the first division, and what is left to rounding. */
#define PART_SPREAD 0.6
#define PART_LIMIT 0.95
/* Every rail is worth this much of a demand, even to those whose rail it is not. */
#define LEAST_WORTH 0.002

typedef struct levels_rank {
    uint32_t node, rail;
    double up, down;               /* bytes per second */
    double up_bytes, down_bytes;   /* within the node, and of its own between nodes */
} levels_rank_t;

/* The demands between two nodes. */
typedef struct levels_group {
    uint64_t total, large; /* bytes; of demands that may take any relays */
    uint32_t count;
    uint32_t lanes;        /* that are up at both ends, as bits */
} levels_group_t;

struct mrail_levels {
    mrail_plan_options_t options;
    uint32_t num_nodes, num_ranks, num_rails, num_links, stride;
    levels_rank_t *ranks;
    uint32_t *relays;          /* by node, rail */
    uint32_t *first_rank;      /* of each node */
    mrail_routes_t *routes;    /* of the first level */
    mrail_flows_t *flows;
    double *capacity, *base, *bytes; /* of its links: bytes of small demands, all */
    uint32_t *group_of;        /* by pair of nodes */
    uint32_t num_groups, groups_room;
    levels_group_t *groups;
    uint32_t *row, *lanes;     /* of the groups, as the flows want them */
    double *demand;
    double *worth, *small;     /* by group, rail: bytes (stride apart) */
    uint64_t *end;             /* by group, rail: of large demands */
    const mrail_plan_demand_t *demands;
    size_t num_demands, demands_room, ends_room;
    int is_sorted;
    uint32_t *order;           /* demands by pair of nodes */
    uint32_t *first;           /* of each pair, in this order */
    uint32_t expanded;         /* the pair that ends is about, or NO_PAIR */
    uint64_t *ends;            /* by its demands, rail */
    double total;
};

/* ---- the object ------------------------------------------------------------ */

/* Ranks that reach all rails, no GPU links. */
static int levels_relax(const mrail_plan_topo_t *topo, mrail_plan_topo_t **free_p)
{
    mrail_plan_topo_t *relaxed;
    int ret = mrail_plan_topo_create(topo->num_nodes, topo->num_rails, &relaxed);

    for (unsigned i = 0; (ret == 0) && (i < topo->num_nodes * topo->num_rails);
         ++i) {
        ret = mrail_plan_topo_set_rail(relaxed, i / topo->num_rails,
                                       i % topo->num_rails, topo->ports[i].out,
                                       topo->ports[i].in);
    }
    for (unsigned i = 0; (ret == 0) && (i < topo->num_nodes); ++i) {
        ret = mrail_plan_topo_set_pod(relaxed, i, topo->nodes[i].pod);
    }
    for (unsigned i = 0; (ret == 0) && (i < topo->num_pods * topo->num_rails);
         ++i) {
        if (topo->uplinks[i].out >= 0) {
            ret = mrail_plan_topo_set_uplink(relaxed, i / topo->num_rails,
                                             i % topo->num_rails,
                                             topo->uplinks[i].out,
                                             topo->uplinks[i].in);
        }
    }
    for (unsigned i = 0; (ret == 0) && (i < topo->num_ranks); ++i) {
        ret = mrail_plan_topo_add_rank(relaxed, topo->ranks[i].node,
                                       MRAIL_PLAN_NONE);
    }
    *free_p = relaxed;
    return ret;
}

/* Ranks and the relays of nodes; 0: not what this file is for. */
static int levels_set_ranks(mrail_levels_t *levels, const mrail_plan_topo_t *topo)
{
    memset(levels->relays, 0xff,
           (size_t)levels->num_nodes * levels->num_rails *
               sizeof(*levels->relays));
    memset(levels->first_rank, 0xff,
           levels->num_nodes * sizeof(*levels->first_rank));
    for (uint32_t i = levels->num_ranks; i-- > 0;) {
        const mrail_topo_rank_t *rank = &topo->ranks[i];

        if ((rank->rail == MRAIL_PLAN_NONE) || (rank->up == 0)) {
            return 0;
        }
        levels->ranks[i] = (levels_rank_t){.node = rank->node,
                                           .rail = rank->rail,
                                           .up = rank->up,
                                           .down = rank->down};
        levels->relays[rank->node * levels->num_rails + rank->rail] = i;
        levels->first_rank[rank->node] = i;
    }
    for (uint32_t i = 0; i < levels->num_nodes * levels->num_rails; ++i) {
        if ((levels->relays[i] == MRAIL_PLAN_NONE) &&
            (topo->nodes[i / levels->num_rails].num_ranks > 0) &&
            ((topo->ports[i].out > 0) || (topo->ports[i].in > 0))) {
            return 0;
        }
    }
    return 1;
}

static int levels_allocate(mrail_levels_t *levels)
{
    size_t nodes = levels->num_nodes, rails = levels->num_rails;

    levels->ranks = calloc(levels->num_ranks + 1, sizeof(*levels->ranks));
    levels->relays = malloc(nodes * rails * sizeof(*levels->relays));
    levels->first_rank = malloc(nodes * sizeof(*levels->first_rank));
    levels->group_of = malloc(nodes * nodes * sizeof(*levels->group_of));
    levels->first = malloc((nodes * nodes + 1) * sizeof(*levels->first));
    if ((levels->ranks == NULL) || (levels->relays == NULL) ||
        (levels->first_rank == NULL) || (levels->group_of == NULL) ||
        (levels->first == NULL)) {
        return -ENOMEM;
    }
    memset(levels->group_of, 0xff, nodes * nodes * sizeof(*levels->group_of));
    return 0;
}

static int levels_create_flows(mrail_levels_t *levels,
                               const mrail_plan_topo_t *topo)
{
    mrail_plan_topo_t *relaxed = NULL;
    mrail_flows_links_t links;
    int ret = levels_relax(topo, &relaxed);

    if (ret == 0) {
        ret = mrail_routes_create(relaxed, &levels->routes);
    }
    if (relaxed != NULL) {
        mrail_plan_topo_destroy(relaxed);
    }
    if (ret != 0) {
        return ret;
    }
    levels->num_links = mrail_routes_num_links(levels->routes);
    levels->capacity =
        calloc(3 * (size_t)levels->num_links, sizeof(*levels->capacity));
    if (levels->capacity == NULL) {
        return -ENOMEM;
    }
    levels->base = levels->capacity + levels->num_links;
    levels->bytes = levels->base + levels->num_links;
    for (uint32_t e = 0; e < levels->num_links; ++e) {
        levels->capacity[e] = mrail_routes_links(levels->routes)[e].capacity;
    }
    links = (mrail_flows_links_t){.num_links = levels->num_links,
                                  .capacity = levels->capacity,
                                  .num_lanes = levels->num_rails};
    ret = mrail_flows_create(&links, &levels->flows);
    levels->stride = (ret == 0) ? mrail_flows_stride(levels->flows) : 0;
    return ret;
}

int mrail_levels_create(const mrail_plan_topo_t *topo,
                        const mrail_plan_options_t *options,
                        mrail_levels_t **levels_p)
{
    mrail_levels_t *levels;
    int ret;

    if (topo->has_loop || topo->has_cross) {
        return -ENOTSUP;
    }
    levels = calloc(1, sizeof(*levels));
    if (levels == NULL) {
        return -ENOMEM;
    }
    levels->options = *options;
    levels->num_nodes = topo->num_nodes;
    levels->num_ranks = topo->num_ranks;
    levels->num_rails = topo->num_rails;
    levels->expanded = NO_PAIR;
    ret = levels_allocate(levels);
    if ((ret == 0) && !levels_set_ranks(levels, topo)) {
        ret = -ENOTSUP;
    }
    if (ret == 0) {
        ret = levels_create_flows(levels, topo);
    }
    if (ret != 0) {
        mrail_levels_destroy(levels);
        return ret;
    }
    *levels_p = levels;
    return 0;
}

void mrail_levels_destroy(mrail_levels_t *levels)
{
    if (levels->flows != NULL) {
        mrail_flows_destroy(levels->flows);
    }
    if (levels->routes != NULL) {
        mrail_routes_destroy(levels->routes);
    }
    free(levels->capacity);
    free(levels->ranks);
    free(levels->relays);
    free(levels->first_rank);
    free(levels->group_of);
    free(levels->first);
    free(levels->groups);
    free(levels->row);
    free(levels->lanes);
    free(levels->demand);
    free(levels->worth);
    free(levels->small);
    free(levels->end);
    free(levels->order);
    free(levels->ends);
    free(levels);
}

void mrail_levels_forget(mrail_levels_t *levels)
{
    mrail_flows_forget(levels->flows);
}

/* ---- demands of pairs of nodes --------------------------------------------- */

/* Room for `count` of `size` each; 0: there is none. */
static int levels_grow(void *array_p, size_t count, size_t size)
{
    void **array = array_p;
    void *grown = realloc(*array, count * size);

    *array = (grown != NULL) ? grown : *array;
    return grown != NULL;
}

static int levels_grow_groups(mrail_levels_t *levels)
{
    size_t room = (size_t)levels->groups_room * 2 + 64;
    size_t lanes = room * levels->stride;

    if (!levels_grow(&levels->groups, room, sizeof(*levels->groups)) ||
        !levels_grow(&levels->row, 2 * room, sizeof(*levels->row)) ||
        !levels_grow(&levels->lanes, room, sizeof(*levels->lanes)) ||
        !levels_grow(&levels->demand, room, sizeof(*levels->demand)) ||
        !levels_grow(&levels->worth, lanes, sizeof(*levels->worth)) ||
        !levels_grow(&levels->small, lanes, sizeof(*levels->small)) ||
        !levels_grow(&levels->end, room * levels->num_rails,
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

/* Rails on which a demand needs the fewest relays, of those that are up. */
static uint32_t levels_fewest(uint32_t lanes, uint32_t from_rail, uint32_t to_rail)
{
    uint32_t own = ((1u << from_rail) | (1u << to_rail)) & lanes;

    return (own != 0) ? own : lanes;
}

static void levels_add_small(mrail_levels_t *levels, uint32_t g, uint32_t lanes,
                             uint64_t bytes)
{
    double *small = &levels->small[(size_t)g * levels->stride];
    double part = (double)bytes / (double)__builtin_popcount(lanes);

    for (; lanes != 0; lanes &= lanes - 1) {
        small[__builtin_ctz(lanes)] += part;
    }
}

static void levels_add(mrail_levels_t *levels, uint32_t g, levels_rank_t *from,
                       levels_rank_t *to, uint64_t bytes)
{
    levels_group_t *group = &levels->groups[g];

    group->total += bytes;
    ++group->count;
    if (bytes > levels->options.relay_above) {
        double *worth = &levels->worth[(size_t)g * levels->stride];

        group->large += bytes;
        worth[from->rail] += (double)bytes;
        worth[to->rail] += (double)bytes;
    } else {
        levels_add_small(levels, g,
                         levels_fewest(group->lanes, from->rail, to->rail),
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
    levels->expanded = NO_PAIR;
}

static int levels_add_demands(mrail_levels_t *levels, uint64_t *digest_p)
{
    uint64_t total = 0, digest = 0;

    levels_begin(levels);
    for (size_t i = 0; i < levels->num_demands; ++i) {
        const mrail_plan_demand_t *demand = &levels->demands[i];
        levels_rank_t *from, *to;
        uint32_t *group;
        int ret;

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
        from = &levels->ranks[demand->from];
        to = &levels->ranks[demand->to];
        from->up_bytes += (double)demand->bytes;
        to->down_bytes += (double)demand->bytes;
        if (from->node == to->node) {
            continue;
        }
        group = &levels->group_of[(size_t)from->node * levels->num_nodes +
                                  to->node];
        if (MRAIL_UNLIKELY(*group == NO_GROUP)) {
            ret = levels_add_group(levels, from->node, to->node, group);
            if (ret != 0) {
                return ret;
            }
        }
        levels_add(levels, *group, from, to, demand->bytes);
    }
    levels->total = (double)total;
    *digest_p = digest;
    return 0;
}

/* ---- the first level ------------------------------------------------------- */

static int levels_load(mrail_levels_t *levels, const double *base,
                       const double *worth)
{
    const mrail_flows_problem_t problem = {
        .num_rows = mrail_routes_num_rows(levels->routes),
        .slot = mrail_routes_slots(levels->routes),
        .num_demands = levels->num_groups,
        .row = levels->row,
        .lanes = levels->lanes,
        .demand = levels->demand,
        .base = base,
        .worth = worth};

    return mrail_flows_load(levels->flows, &problem);
}

/* Bytes on the links of a rail between two nodes. */
static void levels_add_links(const mrail_levels_t *levels, uint32_t g,
                             uint32_t rail, double bytes, double *link_bytes)
{
    const mrail_flows_slot_t *slots = mrail_routes_slots(levels->routes);

    for (unsigned way = 0; way < 2; ++way) {
        const mrail_flows_slot_t *slot =
            &slots[(size_t)levels->row[2 * g + way] * levels->num_rails + rail];

        for (unsigned i = 0; i < MRAIL_FLOWS_SLOT_LINKS; ++i) {
            if (slot->link[i] != MRAIL_FLOWS_NO_LINK) {
                link_bytes[slot->link[i]] += bytes;
            }
        }
    }
}

/* What the rails are worth to large demands; what small ones put on the links. */
static void levels_weigh(mrail_levels_t *levels)
{
    memset(levels->base, 0, levels->num_links * sizeof(*levels->base));
    for (uint32_t g = 0; g < levels->num_groups; ++g) {
        const levels_group_t *group = &levels->groups[g];
        double *worth = &levels->worth[(size_t)g * levels->stride];
        double least = LEAST_WORTH * (double)group->large + 1;

        for (uint32_t rail = 0; rail < levels->num_rails; ++rail) {
            double small = levels->small[(size_t)g * levels->stride + rail];

            worth[rail] =
                ((group->lanes >> rail) & 1) ? worth[rail] + least : 0;
            if (small > 0) {
                levels_add_links(levels, g, rail, small, levels->base);
            }
        }
        levels->demand[g] = (double)group->large;
    }
}

static int levels_divide_rails(mrail_levels_t *levels,
                               mrail_plan_summary_t *summary)
{
    double gap = levels->options.gap;
    int ret;

    for (uint32_t g = 0; g < levels->num_groups; ++g) {
        levels->demand[g] = (double)levels->groups[g].total;
    }
    ret = levels_load(levels, NULL, NULL);
    if (ret != 0) {
        return ret;
    }
    summary->rounds =
        mrail_flows_spread(levels->flows, gap * PART_SPREAD, MAX_ROUNDS);
    summary->congestion_bound = mrail_flows_bound(levels->flows);
    summary->limit = summary->congestion_bound * (1 + gap * PART_LIMIT);
    levels_weigh(levels);
    ret = levels_load(levels, levels->base, levels->worth);
    if (ret != 0) {
        return ret;
    }
    return mrail_flows_fit(levels->flows, summary->limit, MAX_FIT_ROUNDS);
}

/* Whole bytes of large demands, and what all put on the links of rails. */
static void levels_cut(mrail_levels_t *levels, mrail_plan_summary_t *summary)
{
    const double *bytes = mrail_flows_bytes(levels->flows);
    uint32_t rails = levels->num_rails;

    memcpy(levels->bytes, levels->base,
           levels->num_links * sizeof(*levels->bytes));
    for (uint32_t g = 0; g < levels->num_groups; ++g) {
        uint64_t *end = &levels->end[(size_t)g * rails];

        if (levels->groups[g].large == 0) {
            memset(end, 0, rails * sizeof(*end));
            continue;
        }
        mrail_cuts_make(levels->groups[g].large, levels->options.min_piece, rails,
                        &bytes[(size_t)g * levels->stride], end);
        for (uint32_t rail = 0; rail < rails; ++rail) {
            uint64_t on_rail = mrail_cuts_bytes(end, rail);

            if (on_rail > 0) {
                levels_add_links(levels, g, rail, (double)on_rail,
                                 levels->bytes);
                summary->hash = mrail_mix64(summary->hash ^ (on_rail + rail));
            }
        }
    }
    for (uint32_t e = 0; e < levels->num_links; ++e) {
        summary->congestion = MRAIL_MAX(summary->congestion,
                                        levels->bytes[e] / levels->capacity[e]);
    }
}

/* The most that the links to the switch can carry: all of the rank's own bytes, and
 * all that its rail brings, or takes, for others. */
static double levels_most_on_switch(const mrail_levels_t *levels)
{
    const mrail_plan_link_t *links = mrail_routes_links(levels->routes);
    double most = 0;

    for (uint32_t i = 0; i < levels->num_ranks; ++i) {
        const levels_rank_t *rank = &levels->ranks[i];

        most = MRAIL_MAX(most, MRAIL_MAX(rank->up_bytes / rank->up,
                                         rank->down_bytes / rank->down));
    }
    for (uint32_t e = 0; e < levels->num_links; ++e) {
        const levels_rank_t *rank;
        uint32_t relay;

        if ((links[e].kind != MRAIL_PLAN_RAIL_OUT) &&
            (links[e].kind != MRAIL_PLAN_RAIL_IN)) {
            continue;
        }
        relay = levels->relays[links[e].a * levels->num_rails + links[e].b];
        if (relay == MRAIL_PLAN_NONE) {
            continue;
        }
        rank = &levels->ranks[relay];
        most = MRAIL_MAX(
            most, (links[e].kind == MRAIL_PLAN_RAIL_IN)
                      ? (rank->up_bytes + levels->bytes[e]) / rank->up
                      : (rank->down_bytes + levels->bytes[e]) / rank->down);
    }
    return most;
}

static int levels_grow_demands(mrail_levels_t *levels, size_t num_demands)
{
    if (num_demands > levels->demands_room) {
        if (!levels_grow(&levels->order, num_demands, sizeof(*levels->order))) {
            return -ENOMEM;
        }
        levels->demands_room = num_demands;
    }
    return 0;
}

/* For the demands of any pair of nodes. */
static int levels_grow_ends(mrail_levels_t *levels)
{
    size_t most = 0;

    for (uint32_t g = 0; g < levels->num_groups; ++g) {
        most = MRAIL_MAX(most, levels->groups[g].count);
    }
    most = most * levels->num_rails;
    if (most > levels->ends_room) {
        if (!levels_grow(&levels->ends, most, sizeof(*levels->ends))) {
            return -ENOMEM;
        }
        levels->ends_room = most;
    }
    return 0;
}

int mrail_levels_divide(mrail_levels_t *levels,
                        const mrail_plan_demand_t *demands, size_t num_demands,
                        mrail_plan_summary_t *summary_p)
{
    mrail_plan_summary_t summary = {0};
    uint64_t digest;
    int ret;

    if (num_demands >= UINT32_MAX) {
        return -ERANGE;
    }
    levels->demands = demands;
    levels->num_demands = num_demands;
    ret = levels_add_demands(levels, &digest);
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
        ret = levels_divide_rails(levels, &summary);
    }
    if (ret != 0) {
        return ret;
    }
    summary.hash = mrail_mix64(digest);
    levels_cut(levels, &summary);
    summary.congestion =
        MRAIL_MAX(summary.congestion, levels_most_on_switch(levels));
    if (summary.congestion >
        summary.congestion_bound * (1 + levels->options.gap)) {
        return -ERANGE;
    }
    summary.bytes = levels->total;
    summary.relayed = 2 * levels->total;
    *summary_p = summary;
    return 0;
}

/* ---- the second level ------------------------------------------------------ */

/* By counting: demands of a pair of nodes stay in their order. */
static void levels_sort(mrail_levels_t *levels)
{
    size_t pairs = (size_t)levels->num_nodes * levels->num_nodes;
    uint32_t *first = levels->first;

    memset(first, 0, (pairs + 1) * sizeof(*first));
    for (size_t i = 0; i < levels->num_demands; ++i) {
        const mrail_plan_demand_t *d = &levels->demands[i];

        ++first[(size_t)levels->ranks[d->from].node * levels->num_nodes +
                levels->ranks[d->to].node + 1];
    }
    for (size_t pair = 0; pair < pairs; ++pair) {
        first[pair + 1] += first[pair];
    }
    for (size_t i = levels->num_demands; i-- > 0;) {
        const mrail_plan_demand_t *d = &levels->demands[i];
        size_t pair = (size_t)levels->ranks[d->from].node * levels->num_nodes +
                      levels->ranks[d->to].node;

        levels->order[--first[pair + 1]] = (uint32_t)i;
    }
    memmove(first, first + 1, pairs * sizeof(*first));
    first[pairs] = (uint32_t)levels->num_demands;
    levels->is_sorted = 1;
}

typedef struct levels_filling {
    mrail_levels_t *levels;
    const uint32_t *members;
    uint32_t num_members, lanes;
    uint64_t left[MRAIL_PLAN_MAX_RAILS];  /* room of each rail, for large demands */
    double wanted[MRAIL_PLAN_MAX_RAILS];  /* by those for which it is the own one */
} levels_filling_t;

/* Bytes of a member on each rail, until they are summed up. */
static uint64_t *filling_bytes(const levels_filling_t *filling, uint32_t m)
{
    return &filling->levels->ends[(size_t)m * filling->levels->num_rails];
}

static void filling_rails(const levels_filling_t *filling, uint32_t m,
                          uint32_t *from_p, uint32_t *to_p)
{
    const mrail_plan_demand_t *demand =
        &filling->levels->demands[filling->members[m]];

    *from_p = filling->levels->ranks[demand->from].rail;
    *to_p = filling->levels->ranks[demand->to].rail;
}

static uint64_t filling_rest(const levels_filling_t *filling, uint32_t m)
{
    uint64_t bytes = filling->levels->demands[filling->members[m]].bytes;

    for (uint32_t rail = 0; rail < filling->levels->num_rails; ++rail) {
        bytes -= filling_bytes(filling, m)[rail];
    }
    return bytes;
}

static int filling_is_large(const levels_filling_t *filling, uint32_t m)
{
    return filling->levels->demands[filling->members[m]].bytes >
           filling->levels->options.relay_above;
}

static void filling_put(levels_filling_t *filling, uint32_t m, uint32_t rail)
{
    uint64_t bytes = MRAIL_MIN(filling_rest(filling, m), filling->left[rail]);

    filling_bytes(filling, m)[rail] += bytes;
    filling->left[rail] -= bytes;
}

/* Small ones: evenly over the rails with the fewest relays. */
static void filling_put_small(levels_filling_t *filling, uint32_t m)
{
    static const double alike[MRAIL_PLAN_MAX_RAILS] = {1, 1, 1, 1, 1, 1, 1, 1,
                                                       1, 1, 1, 1, 1, 1, 1, 1};
    uint64_t end[MRAIL_PLAN_MAX_RAILS];
    uint32_t from, to, lanes;

    filling_rails(filling, m, &from, &to);
    lanes = levels_fewest(filling->lanes, from, to);
    mrail_cuts_make(filling_rest(filling, m), UINT64_MAX,
                    (unsigned)__builtin_popcount(lanes), alike, end);
    for (unsigned i = 0; lanes != 0; lanes &= lanes - 1, ++i) {
        filling_bytes(filling, m)[__builtin_ctz(lanes)] =
            mrail_cuts_bytes(end, i);
    }
}

/* Without a relay: both ends have the same rail. */
static void filling_put_matching(levels_filling_t *filling)
{
    for (uint32_t m = 0; m < filling->num_members; ++m) {
        uint32_t from, to;

        if (!filling_is_large(filling, m)) {
            filling_put_small(filling, m);
            continue;
        }
        filling_rails(filling, m, &from, &to);
        if (from == to) {
            filling_put(filling, m, from);
        } else {
            double rest = (double)filling_rest(filling, m);

            filling->wanted[from] += rest;
            filling->wanted[to] += rest;
        }
    }
}

/* With one relay: on the rail of one end, first that of the two for which there is
 * less demand, for its room. */
static void filling_put_own(levels_filling_t *filling)
{
    for (uint32_t m = 0; m < filling->num_members; ++m) {
        uint32_t from, to, first;
        double rest;

        filling_rails(filling, m, &from, &to);
        if (!filling_is_large(filling, m) || (from == to)) {
            continue;
        }
        rest = (double)filling_rest(filling, m);
        first = (filling->wanted[from] * (double)filling->left[to] <=
                 filling->wanted[to] * (double)filling->left[from])
                    ? from
                    : to;
        filling_put(filling, m, first);
        filling_put(filling, m, (first == from) ? to : from);
        filling->wanted[from] -= rest;
        filling->wanted[to] -= rest;
    }
}

/* With two. */
static void filling_put_rest(levels_filling_t *filling)
{
    for (uint32_t m = 0; m < filling->num_members; ++m) {
        for (uint32_t rail = 0; filling_is_large(filling, m) &&
                                (rail < filling->levels->num_rails);
             ++rail) {
            filling_put(filling, m, rail);
        }
    }
}

static void levels_expand(mrail_levels_t *levels, uint32_t pair)
{
    uint32_t group = levels->group_of[pair], rails = levels->num_rails;
    levels_filling_t filling = {
        .levels = levels,
        .members = &levels->order[levels->first[pair]],
        .num_members = levels->first[pair + 1] - levels->first[pair],
        .lanes = levels->groups[group].lanes};

    memset(levels->ends, 0,
           (size_t)filling.num_members * rails * sizeof(*levels->ends));
    for (uint32_t rail = 0; rail < rails; ++rail) {
        filling.left[rail] =
            mrail_cuts_bytes(&levels->end[(size_t)group * rails], rail);
    }
    filling_put_matching(&filling);
    filling_put_own(&filling);
    filling_put_rest(&filling);
    for (uint32_t m = 0; m < filling.num_members; ++m) {
        uint64_t *end = filling_bytes(&filling, m);

        for (uint32_t rail = 1; rail < rails; ++rail) {
            end[rail] += end[rail - 1];
        }
    }
    levels->expanded = pair;
}

const uint64_t *mrail_levels_ends(mrail_levels_t *levels, size_t i)
{
    const mrail_plan_demand_t *demand = &levels->demands[i];
    uint32_t pair = levels->ranks[demand->from].node * levels->num_nodes +
                    levels->ranks[demand->to].node;
    uint32_t low, high;

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
    return &levels->ends[(size_t)(low - levels->first[pair]) *
                         levels->num_rails];
}

const double *mrail_levels_links(const mrail_levels_t *levels,
                                 uint32_t *num_links_p)
{
    *num_links_p = levels->num_links;
    return levels->bytes;
}
