#include "config.h"
#include "topo.h"

#include "base/grow.h"
#include "base/util.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int mrail_plan_topo_create(unsigned num_nodes, unsigned num_rails,
                           mrail_plan_topo_t **topo_p)
{
    mrail_plan_topo_t *topo;

    if ((num_nodes == 0) || (num_rails == 0)) {
        return -EINVAL;
    }
    if ((num_nodes > MRAIL_PLAN_MAX_NODES) ||
        (num_rails > MRAIL_PLAN_MAX_RAILS)) {
        return -ENOSPC;
    }
    topo = calloc(1, sizeof(*topo));
    if (topo == NULL) {
        return -ENOMEM;
    }
    topo->num_nodes = num_nodes;
    topo->num_rails = num_rails;
    topo->nodes = calloc(num_nodes, sizeof(*topo->nodes));
    topo->ports = calloc((size_t)num_nodes * num_rails, sizeof(*topo->ports));
    if ((topo->nodes == NULL) || (topo->ports == NULL)) {
        mrail_plan_topo_destroy(topo);
        return -ENOMEM;
    }
    *topo_p = topo;
    return 0;
}

void mrail_plan_topo_destroy(mrail_plan_topo_t *topo)
{
    if (topo == NULL) {
        return;
    }
    for (unsigned i = 0; (topo->nodes != NULL) && (i < topo->num_nodes); ++i) {
        free(topo->nodes[i].pairwise);
    }
    free(topo->nodes);
    free(topo->ports);
    for (size_t i = 0; i < topo->num_leaf_groups * (size_t)topo->num_rails;
         ++i) {
        free(topo->spreads[i]);
    }
    free(topo->spreads);
    free(topo->uplinks);
    free(topo->ranks);
    free(topo->reach);
    free(topo);
}

static int topo_is_capacity(double capacity)
{
    return (capacity == 0) || ((capacity >= MRAIL_PLAN_MIN_CAPACITY) &&
                               (capacity <= MRAIL_PLAN_MAX_CAPACITY));
}

int mrail_plan_topo_set_rail(mrail_plan_topo_t *topo, unsigned node,
                             unsigned rail, double out, double in)
{
    if ((node >= topo->num_nodes) || (rail >= topo->num_rails) ||
        !topo_is_capacity(out) || !topo_is_capacity(in)) {
        return -EINVAL;
    }
    topo->ports[(size_t)node * topo->num_rails + rail] =
        (mrail_topo_port_t){.out = out, .in = in};
    return 0;
}

int mrail_plan_topo_add_rank(mrail_plan_topo_t *topo, unsigned node)
{
    mrail_topo_rank_t *ranks = topo->ranks;

    if (node >= topo->num_nodes) {
        return -EINVAL;
    }
    if (topo->num_ranks == MRAIL_PLAN_MAX_RANKS) {
        return -ENOSPC;
    }
    if (topo->num_ranks == topo->ranks_allocated) {
        unsigned allocated = topo->ranks_allocated * 2 + 16;

        ranks = realloc(ranks, allocated * sizeof(*ranks));
        if (ranks == NULL) {
            return -ENOMEM;
        }
        topo->ranks = ranks;
        topo->ranks_allocated = allocated;
    }
    ranks[topo->num_ranks++] = (mrail_topo_rank_t){
        .node = node, .place = topo->nodes[node].num_ranks++};
    return 0;
}

static int topo_is_limit(double capacity)
{
    return (capacity == MRAIL_PLAN_UNLIMITED) || topo_is_capacity(capacity);
}

/* Stores the limits of the ranks once the first rail is limited. */
static int topo_grow_reach(mrail_plan_topo_t *topo)
{
    size_t rails = MRAIL_PLAN_MAX_RAILS;
    mrail_topo_port_t *reach;

    if (topo->reach_allocated >= topo->num_ranks) {
        return 0;
    }
    reach =
        realloc(topo->reach, topo->ranks_allocated * rails * sizeof(*reach));
    if (reach == NULL) {
        return -ENOMEM;
    }
    for (size_t i = topo->reach_allocated * rails;
         i < topo->ranks_allocated * rails; ++i) {
        reach[i] = (mrail_topo_port_t){.out = MRAIL_PLAN_UNLIMITED,
                                       .in = MRAIL_PLAN_UNLIMITED};
    }
    topo->reach = reach;
    topo->reach_allocated = topo->ranks_allocated;
    return 0;
}

int mrail_plan_topo_set_reach(mrail_plan_topo_t *topo, unsigned rank,
                              unsigned rail, double out, double in)
{
    int is_limited =
        (out != MRAIL_PLAN_UNLIMITED) || (in != MRAIL_PLAN_UNLIMITED);
    int is_all = (rail == MRAIL_PLAN_ALL_RAILS);

    if ((rank >= topo->num_ranks) || (!is_all && (rail >= topo->num_rails)) ||
        !topo_is_limit(out) || !topo_is_limit(in) ||
        ((out == 0) != (in == 0))) {
        return -EINVAL;
    }
    if (is_limited && (out != 0) && (topo_grow_reach(topo) != 0)) {
        return -ENOMEM;
    }
    for (unsigned r = is_all ? 0 : rail;
         r < (is_all ? topo->num_rails : rail + 1); ++r) {
        topo->ranks[rank].rails &= ~(1u << r);
        topo->ranks[rank].rails |= (out != 0) ? 1u << r : 0;
        if (rank < topo->reach_allocated) {
            topo->reach[(size_t)rank * MRAIL_PLAN_MAX_RAILS + r] =
                (mrail_topo_port_t){.out = out, .in = in};
        }
    }
    return 0;
}

mrail_topo_port_t mrail_topo_reach(const mrail_plan_topo_t *topo, unsigned rank,
                                   unsigned rail)
{
    static const mrail_topo_port_t unlimited = {.out = MRAIL_PLAN_UNLIMITED,
                                                .in = MRAIL_PLAN_UNLIMITED};

    return (rank < topo->reach_allocated)
               ? topo->reach[(size_t)rank * MRAIL_PLAN_MAX_RAILS + rail]
               : unlimited;
}

static int topo_is_pair(const mrail_plan_topo_t *topo, unsigned from,
                        unsigned to)
{
    return (from < topo->num_ranks) && (to < topo->num_ranks) && (from != to) &&
           (topo->ranks[from].node == topo->ranks[to].node);
}

int mrail_plan_topo_set_link(mrail_plan_topo_t *topo, unsigned from,
                             unsigned to, double capacity)
{
    mrail_topo_node_t *node;
    unsigned place_from, place_to;

    if (!topo_is_pair(topo, from, to) || !topo_is_capacity(capacity)) {
        return -EINVAL;
    }
    node = &topo->nodes[topo->ranks[from].node];
    place_from = topo->ranks[from].place;
    place_to = topo->ranks[to].place;
    if (node->is_switched) {
        return -EINVAL;
    }
    if (MRAIL_MAX(place_from, place_to) >= MRAIL_PLAN_MAX_PAIRWISE) {
        return -ENOSPC;
    }
    if (node->pairwise == NULL) {
        node->pairwise =
            calloc(MRAIL_PLAN_MAX_PAIRWISE * MRAIL_PLAN_MAX_PAIRWISE,
                   sizeof(*node->pairwise));
        if (node->pairwise == NULL) {
            return -ENOMEM;
        }
    }
    node->pairwise[place_from * MRAIL_PLAN_MAX_PAIRWISE + place_to] = capacity;
    node->is_pairwise = 1;
    return 0;
}

int mrail_plan_topo_set_switch(mrail_plan_topo_t *topo, unsigned rank,
                               double up, double down)
{
    if ((rank >= topo->num_ranks) || !topo_is_capacity(up) ||
        !topo_is_capacity(down) || (up == 0) || (down == 0) ||
        topo->nodes[topo->ranks[rank].node].is_pairwise) {
        return -EINVAL;
    }
    topo->ranks[rank].up = up;
    topo->ranks[rank].down = down;
    topo->nodes[topo->ranks[rank].node].is_switched = 1;
    return 0;
}

int mrail_plan_topo_set_leaf_group(mrail_plan_topo_t *topo, unsigned node,
                                   unsigned leaf_group)
{
    if ((node >= topo->num_nodes) || (leaf_group >= MRAIL_PLAN_MAX_NODES)) {
        return -EINVAL;
    }
    topo->nodes[node].leaf_group = leaf_group;
    return 0;
}

/* Enlarges the arrays for the uplinks of a leaf group. */
static int topo_grow_uplinks(mrail_plan_topo_t *topo, unsigned leaf_group)
{
    size_t count = (leaf_group + 1) * (size_t)topo->num_rails;
    size_t before = topo->num_leaf_groups * (size_t)topo->num_rails;

    if (leaf_group < topo->num_leaf_groups) {
        return 0;
    }
    if (!mrail_grow(&topo->uplinks, count, sizeof(*topo->uplinks)) ||
        !mrail_grow(&topo->spreads, count, sizeof(*topo->spreads))) {
        return -ENOMEM;
    }
    for (size_t i = before; i < count; ++i) {
        topo->uplinks[i] = (mrail_topo_port_t){.out = MRAIL_PLAN_UNLIMITED,
                                               .in = MRAIL_PLAN_UNLIMITED};
        topo->spreads[i] = NULL;
    }
    topo->num_leaf_groups = leaf_group + 1;
    return 0;
}

/* Sets the totals of a leaf's uplinks. Takes ownership of `spread`, which may
 * be NULL. */
static int topo_set_leaf(mrail_plan_topo_t *topo, unsigned leaf_group,
                         unsigned rail, double up, double down,
                         mrail_topo_spread_t *spread)
{
    size_t at = leaf_group * (size_t)topo->num_rails + rail;

    if ((leaf_group >= MRAIL_PLAN_MAX_NODES) || (rail >= topo->num_rails) ||
        !topo_is_capacity(up) || !topo_is_capacity(down)) {
        return -EINVAL;
    }
    if (topo_grow_uplinks(topo, leaf_group) != 0) {
        return -ENOMEM;
    }
    free(topo->spreads[at]);
    topo->spreads[at] = spread;
    topo->uplinks[at] = (mrail_topo_port_t){.out = up, .in = down};
    return 0;
}

int mrail_plan_topo_set_uplink(mrail_plan_topo_t *topo, unsigned leaf_group,
                               unsigned rail, double up, double down)
{
    return topo_set_leaf(topo, leaf_group, rail, up, down, NULL);
}

int mrail_plan_topo_set_uplinks(mrail_plan_topo_t *topo, unsigned leaf_group,
                                unsigned rail, unsigned count, const double *up,
                                const double *down)
{
    mrail_topo_spread_t *spread;
    double all_up = 0, all_down = 0;
    int ret;

    if ((count == 0) || (count > MRAIL_PLAN_MAX_UPLINKS)) {
        return -EINVAL;
    }
    if ((topo->num_uplinks != 0) && (topo->num_uplinks != count)) {
        return -ENOTSUP;
    }
    for (unsigned i = 0; i < count; ++i) {
        if (!topo_is_capacity(up[i]) || !topo_is_capacity(down[i])) {
            return -EINVAL;
        }
        all_up += up[i];
        all_down += down[i];
    }
    spread = calloc(1, sizeof(*spread));
    if (spread == NULL) {
        return -ENOMEM;
    }
    memcpy(spread->up, up, count * sizeof(*up));
    memcpy(spread->down, down, count * sizeof(*down));
    ret = topo_set_leaf(topo, leaf_group, rail, all_up, all_down, spread);
    if (ret != 0) {
        free(spread);
        return ret;
    }
    topo->num_uplinks = count;
    return 0;
}

void mrail_plan_topo_set_hairpin(mrail_plan_topo_t *topo, int enable)
{
    topo->has_hairpin = enable;
}

void mrail_plan_topo_set_cross_rail(mrail_plan_topo_t *topo, int enable)
{
    topo->has_cross_rail = enable;
}

unsigned mrail_plan_topo_num_nodes(const mrail_plan_topo_t *topo)
{
    return topo->num_nodes;
}

unsigned mrail_plan_topo_num_rails(const mrail_plan_topo_t *topo)
{
    return topo->num_rails;
}

unsigned mrail_plan_topo_num_ranks(const mrail_plan_topo_t *topo)
{
    return topo->num_ranks;
}

unsigned mrail_plan_topo_node_of(const mrail_plan_topo_t *topo, unsigned rank)
{
    return topo->ranks[rank].node;
}

uint32_t mrail_plan_topo_rails_of(const mrail_plan_topo_t *topo, unsigned rank)
{
    return topo->ranks[rank].rails;
}

unsigned mrail_plan_topo_leaf_group_of(const mrail_plan_topo_t *topo,
                                       unsigned node)
{
    return topo->nodes[node].leaf_group;
}

void mrail_plan_topo_reach(const mrail_plan_topo_t *topo, unsigned rank,
                           unsigned rail, double *out_p, double *in_p)
{
    mrail_topo_port_t reach = {0};

    if ((topo->ranks[rank].rails >> rail) & 1) {
        reach = mrail_topo_reach(topo, rank, rail);
    }
    *out_p = reach.out;
    *in_p = reach.in;
}

int mrail_topo_is_limited(const mrail_plan_topo_t *topo, unsigned rank,
                          unsigned rail)
{
    mrail_topo_port_t reach = mrail_topo_reach(topo, rank, rail);

    return (reach.out != MRAIL_PLAN_UNLIMITED) ||
           (reach.in != MRAIL_PLAN_UNLIMITED);
}

mrail_topo_port_t mrail_topo_uplinks(const mrail_plan_topo_t *topo,
                                     unsigned leaf_group, unsigned rail)
{
    static const mrail_topo_port_t none = {.out = MRAIL_PLAN_UNLIMITED,
                                           .in = MRAIL_PLAN_UNLIMITED};

    return (leaf_group < topo->num_leaf_groups)
               ? topo->uplinks[leaf_group * topo->num_rails + rail]
               : none;
}

double mrail_topo_pairwise(const mrail_plan_topo_t *topo, unsigned from,
                           unsigned to)
{
    const mrail_topo_rank_t *a = &topo->ranks[from], *b = &topo->ranks[to];
    const mrail_topo_node_t *node = &topo->nodes[a->node];

    if ((node->pairwise == NULL) || (a->node != b->node) ||
        (MRAIL_MAX(a->place, b->place) >= MRAIL_PLAN_MAX_PAIRWISE)) {
        return 0;
    }
    return node->pairwise[a->place * MRAIL_PLAN_MAX_PAIRWISE + b->place];
}

static const mrail_topo_spread_t *
topo_spread(const mrail_plan_topo_t *topo, unsigned leaf_group, unsigned rail)
{
    return (leaf_group < topo->num_leaf_groups)
               ? topo->spreads[leaf_group * topo->num_rails + rail]
               : NULL;
}

unsigned mrail_topo_uplink_paths(const mrail_plan_topo_t *topo,
                                 unsigned from_group, unsigned to_group,
                                 unsigned rail,
                                 double paths[MRAIL_PLAN_MAX_UPLINKS])
{
    const mrail_topo_spread_t *from = topo_spread(topo, from_group, rail);
    const mrail_topo_spread_t *to = topo_spread(topo, to_group, rail);

    if ((from == NULL) && (to == NULL)) {
        return 0;
    }
    for (unsigned i = 0; i < topo->num_uplinks; ++i) {
        paths[i] = MRAIL_MIN((from != NULL) ? from->up[i] : INFINITY,
                             (to != NULL) ? to->down[i] : INFINITY);
    }
    return topo->num_uplinks;
}
