/* Allocates a plan in two levels, and creates the topology of its first
 * level. */
#include "config.h"
#include "levels_internal.h"

#include "topo.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Creates a topology with multi-rail ranks and without GPU links. */
static int levels_relax(const mrail_plan_topo_t *topo,
                        mrail_plan_topo_t **free_p)
{
    mrail_plan_topo_t *relaxed;
    int ret =
        mrail_plan_topo_create(topo->num_nodes, topo->num_rails, &relaxed);

    for (unsigned i = 0; (ret == 0) && (i < topo->num_nodes * topo->num_rails);
         ++i) {
        ret = mrail_plan_topo_set_rail(relaxed, i / topo->num_rails,
                                       i % topo->num_rails, topo->ports[i].out,
                                       topo->ports[i].in);
    }
    for (unsigned i = 0; (ret == 0) && (i < topo->num_nodes); ++i) {
        ret = mrail_plan_topo_set_leaf_group(relaxed, i,
                                             topo->nodes[i].leaf_group);
    }
    for (unsigned i = 0;
         (ret == 0) && (i < topo->num_leaf_groups * topo->num_rails); ++i) {
        if (topo->uplinks[i].out >= 0) {
            ret = mrail_plan_topo_set_uplink(
                relaxed, i / topo->num_rails, i % topo->num_rails,
                topo->uplinks[i].out, topo->uplinks[i].in);
        }
    }
    for (unsigned i = 0; (ret == 0) && (i < topo->num_ranks); ++i) {
        ret = mrail_plan_topo_add_rank(relaxed, topo->ranks[i].node);
        if (ret == 0) {
            ret = mrail_plan_topo_set_reach(relaxed, i, MRAIL_PLAN_ALL_RAILS,
                                            MRAIL_PLAN_UNLIMITED,
                                            MRAIL_PLAN_UNLIMITED);
        }
    }
    *free_p = relaxed;
    return ret;
}

/* Sets the ranks and the relays of nodes. Returns 0 if the topology is
 * unsupported. */
static int levels_set_ranks(mrail_levels_t *levels,
                            const mrail_plan_topo_t *topo)
{
    memset(levels->relays, 0xff,
           (size_t)levels->num_nodes * levels->num_rails *
               sizeof(*levels->relays));
    memset(levels->first_rank, 0xff,
           levels->num_nodes * sizeof(*levels->first_rank));
    for (uint32_t i = levels->num_ranks; i-- > 0;) {
        const mrail_topo_rank_t *rank = &topo->ranks[i];

        uint32_t rail;

        if ((rank->rails == 0) || ((rank->rails & (rank->rails - 1)) != 0)) {
            return 0;
        }
        rail = (uint32_t)__builtin_ctz(rank->rails);
        if (mrail_topo_is_limited(topo, i, rail) ||
            (levels->relays[rank->node * levels->num_rails + rail] !=
             MRAIL_PLAN_NONE)) {
            return 0;
        }
        levels->ranks[i] = (levels_rank_t){.up = rank->up, .down = rank->down};
        levels->places[i] = (levels_place_t){.node = rank->node, .rail = rail};
        levels->relays[rank->node * levels->num_rails + rail] = i;
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
    levels->places = calloc(levels->num_ranks + 1, sizeof(*levels->places));
    levels->up_bytes =
        calloc(2 * (size_t)levels->num_ranks + 1, sizeof(*levels->up_bytes));
    levels->relays = malloc(nodes * rails * sizeof(*levels->relays));
    levels->first_rank = malloc(nodes * sizeof(*levels->first_rank));
    levels->group_of = malloc(nodes * nodes * sizeof(*levels->group_of));
    levels->first = malloc((nodes * nodes + 1) * sizeof(*levels->first));
    if ((levels->ranks == NULL) || (levels->relays == NULL) ||
        (levels->first_rank == NULL) || (levels->group_of == NULL) ||
        (levels->first == NULL) || (levels->places == NULL) ||
        (levels->up_bytes == NULL)) {
        return -ENOMEM;
    }
    levels->down_bytes = levels->up_bytes + levels->num_ranks;
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
    levels->slot_bytes = malloc(
        ((size_t)mrail_routes_num_rows(levels->routes) * levels->num_rails +
         1) *
        sizeof(*levels->slot_bytes));
    if ((levels->capacity == NULL) || (levels->slot_bytes == NULL)) {
        return -ENOMEM;
    }
    levels->base = levels->capacity + levels->num_links;
    levels->bytes = levels->base + levels->num_links;
    for (uint32_t e = 0; e < levels->num_links; ++e) {
        levels->capacity[e] = mrail_routes_links(levels->routes)[e].capacity;
    }
    links = (mrail_flows_links_t){
        .num_links = levels->num_links,
        .capacity = levels->capacity,
        .num_lanes = levels->num_rails,
        .set = mrail_routes_sets(levels->routes),
        .parent = mrail_routes_parents(levels->routes),
        .num_sets = mrail_routes_num_sets(levels->routes)};
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

    if (topo->has_hairpin || topo->has_cross_rail) {
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
    levels->expanded = MRAIL_PLAN_NONE;
    ret = levels_allocate(levels);
    if ((ret == 0) && !levels_set_ranks(levels, topo)) {
        ret = -ENOTSUP;
    }
    if (ret == 0) {
        ret = levels_create_flows(levels, topo);
    }
    if (ret == 0) {
        ret = mrail_levels_create_gpus(levels, topo);
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
    mrail_levels_destroy_gpus(levels);
    free(levels->capacity);
    free(levels->slot_bytes);
    free(levels->ranks);
    free(levels->places);
    free(levels->up_bytes);
    free(levels->relays);
    free(levels->first_rank);
    free(levels->group_of);
    free(levels->first);
    free(levels->groups);
    free(levels->row);
    free(levels->lanes);
    free(levels->demand);
    free(levels->wanted);
    free(levels->weight);
    free(levels->small);
    free(levels->end);
    free(levels->order);
    free(levels->ends);
    free(levels->members);
    free(levels);
}

void mrail_levels_reset(mrail_levels_t *levels)
{
    mrail_flows_reset(levels->flows);
}
