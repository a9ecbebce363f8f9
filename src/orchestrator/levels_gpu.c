/* Upper bounds on the load of GPU links, whatever the second level does. The
 * links are either pairwise or lead to a switch. */
#include "config.h"
#include "cuts.h"
#include "levels_internal.h"

#include "topo.h"

#include "base/util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = MRAIL_PLAN_MAX_PAIRWISE };

/* ---- Kinds of links ---- */

static int levels_is_switched(const mrail_plan_topo_t *topo)
{
    for (uint32_t i = 0; i < topo->num_ranks; ++i) {
        if (topo->ranks[i].up == 0) {
            return 0;
        }
    }
    return 1;
}

/* Returns 1 if every rank has links to all other ranks of its node. */
static int levels_is_pairwise(const mrail_plan_topo_t *topo)
{
    for (uint32_t n = 0; n < topo->num_nodes; ++n) {
        const mrail_topo_node_t *node = &topo->nodes[n];

        for (uint32_t i = 0; i < node->num_ranks * node->num_ranks; ++i) {
            uint32_t from = i / node->num_ranks, to = i % node->num_ranks;

            if ((from != to) &&
                ((node->pairwise == NULL) || (from >= SIDE) || (to >= SIDE) ||
                 (node->pairwise[from * SIDE + to] == 0))) {
                return 0;
            }
        }
    }
    return 1;
}

static int levels_create_pairs(mrail_levels_t *levels,
                               const mrail_plan_topo_t *topo)
{
    size_t ranks = levels->num_ranks, nodes = levels->num_nodes;
    levels_pairs_t *pairs = calloc(1, sizeof(*pairs));

    levels->pairs = pairs;
    if (pairs == NULL) {
        return -ENOMEM;
    }
    pairs->capacity = calloc(ranks * SIDE + 1, sizeof(*pairs->capacity));
    pairs->by_place = malloc((nodes * SIDE) * sizeof(*pairs->by_place));
    pairs->place = malloc((ranks + 1) * sizeof(*pairs->place));
    pairs->num_bytes = ranks * (SIDE + 2 * (size_t)levels->stride);
    pairs->inside = calloc(pairs->num_bytes + 1, sizeof(*pairs->inside));
    pairs->bytes = malloc((ranks * SIDE + 1) * sizeof(*pairs->bytes));
    pairs->third_party =
        malloc(2 * nodes * levels->num_rails * sizeof(*pairs->third_party));
    if ((pairs->capacity == NULL) || (pairs->by_place == NULL) ||
        (pairs->place == NULL) || (pairs->inside == NULL) ||
        (pairs->bytes == NULL) || (pairs->third_party == NULL)) {
        return -ENOMEM;
    }
    pairs->sent = pairs->inside + ranks * SIDE;
    pairs->received = pairs->sent + ranks * levels->stride;
    memset(pairs->by_place, 0xff, nodes * SIDE * sizeof(*pairs->by_place));
    for (uint32_t i = 0; i < ranks; ++i) {
        const mrail_topo_rank_t *rank = &topo->ranks[i];
        const double *pairwise = topo->nodes[rank->node].pairwise;

        pairs->place[i] = rank->place;
        if (pairwise != NULL) {
            pairs->by_place[rank->node * SIDE + rank->place] = i;
            memcpy(&pairs->capacity[i * SIDE], &pairwise[rank->place * SIDE],
                   SIDE * sizeof(*pairwise));
        }
    }
    return 0;
}

int mrail_levels_create_gpus(mrail_levels_t *levels,
                             const mrail_plan_topo_t *topo)
{
    if (levels_is_switched(topo)) {
        return 0;
    }
    return levels_is_pairwise(topo) ? levels_create_pairs(levels, topo)
                                    : -ENOTSUP;
}

void mrail_levels_destroy_gpus(mrail_levels_t *levels)
{
    levels_pairs_t *pairs = levels->pairs;

    if (pairs != NULL) {
        free(pairs->capacity);
        free(pairs->by_place);
        free(pairs->place);
        free(pairs->inside);
        free(pairs->bytes);
        free(pairs->third_party);
        free(pairs);
    }
}

/* ---- Switch ---- */

/* Counts the bytes of each rank itself, plus all bytes that its rail carries if
 * the rank is a relay. */
static double levels_most_on_switch(const mrail_levels_t *levels)
{
    const mrail_plan_link_t *links = mrail_routes_links(levels->routes);
    double most = 0;

    for (uint32_t i = 0; i < levels->num_ranks; ++i) {
        most = MRAIL_MAX(most, (double)(int64_t)levels->up_bytes[i] /
                                   levels->ranks[i].up);
        most = MRAIL_MAX(most, (double)(int64_t)levels->down_bytes[i] /
                                   levels->ranks[i].down);
    }
    for (uint32_t e = 0; e < levels->num_links; ++e) {
        int is_in = (links[e].kind == MRAIL_PLAN_RAIL_IN);
        uint64_t own;
        uint32_t relay;

        if (!is_in && (links[e].kind != MRAIL_PLAN_RAIL_OUT)) {
            continue;
        }
        relay = levels->relays[links[e].a * levels->num_rails + links[e].b];
        if (relay == MRAIL_PLAN_NONE) {
            continue;
        }
        own = is_in ? levels->up_bytes[relay] : levels->down_bytes[relay];
        most = MRAIL_MAX(most, ((double)(int64_t)own + levels->bytes[e]) /
                                   (is_in ? levels->ranks[relay].up
                                          : levels->ranks[relay].down));
    }
    return most;
}

/* ---- Pairwise links ---- */

/* Returns the maximum bytes of a pair of nodes on a rail that neither end owns.
 * They consist of the bound of water_fill.h for large demands, and of small
 * demands whose own rails are both down. */
static double levels_third_party(const mrail_levels_t *levels, uint32_t g,
                                 uint32_t rail)
{
    const levels_group_t *group = &levels->groups[g];
    uint64_t wanted = levels->wanted[2 * (size_t)g * levels->stride + rail];
    uint64_t room =
        mrail_cuts_bytes(&levels->end[(size_t)g * levels->num_rails], rail);

    if (((group->lanes >> rail) & 1) == 0) {
        return 0;
    }
    return mrail_water_fill_third_party(room, wanted) + (double)group->count +
           (double)(int64_t)group->lost /
               (double)__builtin_popcount(group->lanes);
}

static void levels_add_thirds(mrail_levels_t *levels)
{
    uint32_t rails = levels->num_rails, nodes = levels->num_nodes;
    double *out = levels->pairs->third_party, *in = out + (size_t)nodes * rails;

    memset(out, 0, 2 * (size_t)nodes * rails * sizeof(*out));
    for (uint32_t from = 0; from < nodes; ++from) {
        for (uint32_t to = 0; to < nodes; ++to) {
            uint32_t g = levels->group_of[(size_t)from * nodes + to];

            for (uint32_t rail = 0; (g != MRAIL_PLAN_NONE) && (rail < rails);
                 ++rail) {
                double third_party = levels_third_party(levels, g, rail);

                out[(size_t)from * rails + rail] += third_party;
                in[(size_t)to * rails + rail] += third_party;
            }
        }
    }
}

static double levels_sum(const uint64_t *bytes, uint32_t count)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < count; ++i) {
        sum += bytes[i];
    }
    return (double)(int64_t)sum;
}

/* Returns the maximum bytes on a link because one of its ends is a relay: those
 * bytes of `other` that may use the relay's rail. `bytes` is indexed by rank
 * and by the far rank's own rail. */
static double levels_most_relayed(const mrail_levels_t *levels,
                                  const uint64_t *bytes, uint32_t relay,
                                  uint32_t other, const double *third_party)
{
    const levels_place_t *rank_place = &levels->places[relay];

    if ((levels->relays[rank_place->node * levels->num_rails +
                        rank_place->rail] != relay) ||
        (levels->places[other].rail == rank_place->rail)) {
        return 0;
    }
    bytes += (size_t)other * levels->stride;
    return MRAIL_MIN(
        (double)(int64_t)bytes[rank_place->rail] +
            third_party[(size_t)rank_place->node * levels->num_rails +
                        rank_place->rail],
        levels_sum(bytes, levels->num_rails));
}

static double levels_most_on_pairs(mrail_levels_t *levels)
{
    const levels_pairs_t *pairs = levels->pairs;
    const double *in =
        pairs->third_party + levels->num_nodes * levels->num_rails;
    double most = 0;

    levels_add_thirds(levels);
    for (uint32_t from = 0; from < levels->num_ranks; ++from) {
        for (uint32_t place = 0; place < SIDE; ++place) {
            uint32_t to =
                pairs->by_place[levels->places[from].node * SIDE + place];
            double bytes;

            if ((to == MRAIL_PLAN_NONE) || (to == from)) {
                continue;
            }
            bytes = (double)(int64_t)pairs->inside[from * SIDE + place] +
                    levels_most_relayed(levels, pairs->sent, to, from,
                                        pairs->third_party) +
                    levels_most_relayed(levels, pairs->received, from, to, in);
            most =
                MRAIL_MAX(most, bytes / pairs->capacity[from * SIDE + place]);
        }
    }
    return most;
}

void mrail_levels_begin_pairs(mrail_levels_t *levels)
{
    memcpy(levels->pairs->bytes, levels->pairs->inside,
           (size_t)levels->num_ranks * SIDE * sizeof(*levels->pairs->bytes));
}

static void levels_hop(levels_pairs_t *pairs, uint32_t from, uint32_t to,
                       uint64_t bytes)
{
    pairs->bytes[(size_t)from * SIDE + pairs->place[to]] += bytes;
}

void mrail_levels_add_to_pairs(mrail_levels_t *levels,
                               const mrail_plan_demand_t *demand,
                               const uint64_t *end)
{
    const levels_place_t *from = &levels->places[demand->from];
    const levels_place_t *to = &levels->places[demand->to];
    const uint32_t *out = &levels->relays[from->node * levels->num_rails];
    const uint32_t *in = &levels->relays[to->node * levels->num_rails];
    uint64_t last = 0;

    for (uint32_t rail = 0; rail < levels->num_rails; ++rail) {
        uint64_t bytes = end[rail] - last;

        last = end[rail];
        if ((bytes > 0) && (from->rail != rail)) {
            levels_hop(levels->pairs, demand->from, out[rail], bytes);
        }
        if ((bytes > 0) && (to->rail != rail)) {
            levels_hop(levels->pairs, in[rail], demand->to, bytes);
        }
    }
}

double mrail_levels_load_of_pairs(const mrail_levels_t *levels)
{
    const levels_pairs_t *pairs = levels->pairs;
    double most = 0;

    for (size_t i = 0; i < (size_t)levels->num_ranks * SIDE; ++i) {
        if (pairs->bytes[i] > 0) {
            most = MRAIL_MAX(most, (double)(int64_t)pairs->bytes[i] /
                                       pairs->capacity[i]);
        }
    }
    return most;
}

double mrail_levels_most_on_gpus(mrail_levels_t *levels)
{
    return (levels->pairs != NULL) ? levels_most_on_pairs(levels)
                                   : levels_most_on_switch(levels);
}
