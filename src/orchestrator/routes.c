#include "config.h"
#include "routes.h"

#include "routes_internal.h"
#include "topo.h"

#include "base/util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- Links ---- */

/* Returns the set of a link. Each node has one set for its outgoing ports and
 * one for its incoming ports. Each leaf group has one for its uplinks and one
 * for its downlinks. */
static uint32_t routes_set(const mrail_routes_t *routes,
                           mrail_plan_link_kind_t kind, uint32_t a)
{
    switch (kind) {
    case MRAIL_PLAN_RAIL_OUT:
        return a;
    case MRAIL_PLAN_RAIL_IN:
        return routes->num_nodes + a;
    case MRAIL_PLAN_UPLINK_UP:
        return 2 * routes->num_nodes + a;
    case MRAIL_PLAN_UPLINK_DOWN:
        return 2 * routes->num_nodes + routes->num_leaf_groups + a;
    case MRAIL_PLAN_GPU_LINK:
    case MRAIL_PLAN_SWITCH_UP:
    case MRAIL_PLAN_SWITCH_DOWN:
    case MRAIL_PLAN_REACH_OUT:
    case MRAIL_PLAN_REACH_IN:
    default:
        return MRAIL_FLOWS_NO_LINK;
    }
}

static uint32_t routes_add_link(mrail_routes_t *routes,
                                mrail_plan_link_kind_t kind, uint32_t a,
                                uint32_t b, double capacity)
{
    if (capacity == 0) {
        return CLOSED_LINK;
    }
    assert(routes->num_links < routes->links_allocated);
    routes->links[routes->num_links] =
        (mrail_plan_link_t){.kind = kind, .a = a, .b = b, .capacity = capacity};
    routes->sets[routes->num_links] = routes_set(routes, kind, a);
    routes->parents[routes->num_links] = MRAIL_FLOWS_NO_LINK;
    return routes->num_links++;
}

static void routes_add_ports(mrail_routes_t *routes,
                             const mrail_plan_topo_t *topo)
{
    for (uint32_t i = 0; i < routes->num_nodes * routes->num_rails; ++i) {
        uint32_t node = i / routes->num_rails, rail = i % routes->num_rails;

        routes->ports[OUT][i] = routes_add_link(routes, MRAIL_PLAN_RAIL_OUT,
                                                node, rail, topo->ports[i].out);
        routes->ports[IN][i] = routes_add_link(routes, MRAIL_PLAN_RAIL_IN, node,
                                               rail, topo->ports[i].in);
    }
}

static void routes_add_uplinks(mrail_routes_t *routes,
                               const mrail_plan_topo_t *topo)
{
    for (uint32_t i = 0; i < routes->num_leaf_groups * routes->num_rails; ++i) {
        uint32_t leaf_group = i / routes->num_rails,
                 rail = i % routes->num_rails;

        if (topo->uplinks[i].out < 0) {
            routes->uplinks[OUT][i] = routes->uplinks[IN][i] =
                MRAIL_FLOWS_NO_LINK;
            continue;
        }
        routes->uplinks[OUT][i] =
            routes_add_link(routes, MRAIL_PLAN_UPLINK_UP, leaf_group, rail,
                            topo->uplinks[i].out);
        routes->uplinks[IN][i] =
            routes_add_link(routes, MRAIL_PLAN_UPLINK_DOWN, leaf_group, rail,
                            topo->uplinks[i].in);
    }
}

/* Makes each uplink and downlink of a leaf the parent of the ports below it:
 * bytes that leave or enter a leaf group on a rail also cross one of these
 * ports. */
static void routes_set_parents(mrail_routes_t *routes)
{
    for (uint32_t i = 0; i < routes->num_nodes * routes->num_rails; ++i) {
        uint32_t leaf_group = routes->nodes[i / routes->num_rails].leaf_group;
        uint32_t rail = i % routes->num_rails;

        for (unsigned way = 0;
             (leaf_group < routes->num_leaf_groups) && (way < NUM_DIRECTIONS);
             ++way) {
            uint32_t port = routes->ports[way][i];
            uint32_t uplink =
                routes->uplinks[way][leaf_group * routes->num_rails + rail];

            if ((port != CLOSED_LINK) && (uplink != CLOSED_LINK)) {
                routes->parents[port] = uplink;
            }
        }
    }
}

static int routes_add_pairwise(mrail_routes_t *routes,
                               const mrail_plan_topo_t *topo, uint32_t node)
{
    enum { SIDE = MRAIL_PLAN_MAX_PAIRWISE };
    const double *capacity = topo->nodes[node].pairwise;
    uint32_t *pairwise;

    if (capacity == NULL) {
        return 0;
    }
    pairwise = malloc((SIDE * SIDE + SIDE) * sizeof(*pairwise));
    if (pairwise == NULL) {
        return -ENOMEM;
    }
    routes->nodes[node].pairwise = pairwise;
    routes->nodes[node].by_place = pairwise + SIDE * SIDE;
    for (uint32_t place = 0; place < SIDE; ++place) {
        routes->nodes[node].by_place[place] = MRAIL_PLAN_NONE;
    }
    for (uint32_t rank = 0; rank < routes->num_ranks; ++rank) {
        const routes_rank_t *r = &routes->ranks[rank];

        if ((r->node == node) && (r->place < SIDE)) {
            routes->nodes[node].by_place[r->place] = rank;
        }
    }
    for (uint32_t i = 0; i < SIDE * SIDE; ++i) {
        const uint32_t *by_place = routes->nodes[node].by_place;

        pairwise[i] =
            routes_add_link(routes, MRAIL_PLAN_GPU_LINK, by_place[i / SIDE],
                            by_place[i % SIDE], capacity[i]);
    }
    return 0;
}

static void routes_add_switches(mrail_routes_t *routes,
                                const mrail_plan_topo_t *topo)
{
    for (uint32_t rank = 0; rank < routes->num_ranks; ++rank) {
        routes->ranks[rank].up = routes_add_link(routes, MRAIL_PLAN_SWITCH_UP,
                                                 rank, 0, topo->ranks[rank].up);
        routes->ranks[rank].down = routes_add_link(
            routes, MRAIL_PLAN_SWITCH_DOWN, rank, 0, topo->ranks[rank].down);
    }
}

/* Adds a link for each limited reach. */
static void routes_add_reach(mrail_routes_t *routes,
                             const mrail_plan_topo_t *topo)
{
    for (uint32_t i = 0;
         (topo->reach != NULL) && (i < routes->num_ranks * routes->num_rails);
         ++i) {
        uint32_t rank = i / routes->num_rails, rail = i % routes->num_rails;
        mrail_topo_port_t reach = mrail_topo_reach(topo, rank, rail);
        int is_reached = (routes->ranks[rank].rails >> rail) & 1;

        routes->reach[OUT][i] = routes->reach[IN][i] = MRAIL_FLOWS_NO_LINK;
        if (is_reached && (reach.out != MRAIL_PLAN_UNLIMITED)) {
            routes->reach[OUT][i] = routes_add_link(
                routes, MRAIL_PLAN_REACH_OUT, rank, rail, reach.out);
        }
        if (is_reached && (reach.in != MRAIL_PLAN_UNLIMITED)) {
            routes->reach[IN][i] = routes_add_link(routes, MRAIL_PLAN_REACH_IN,
                                                   rank, rail, reach.in);
        }
        routes->ranks[rank].is_limited |=
            (routes->reach[OUT][i] != MRAIL_FLOWS_NO_LINK) ||
            (routes->reach[IN][i] != MRAIL_FLOWS_NO_LINK);
    }
}

/* ---- Memory ---- */

static int routes_allocate_relays(mrail_routes_t *routes,
                                  const mrail_plan_topo_t *topo)
{
    size_t ports = (size_t)routes->num_nodes * routes->num_rails;
    size_t reach = (size_t)routes->num_ranks * routes->num_rails, count = 0;

    for (uint32_t rank = 0; rank < routes->num_ranks; ++rank) {
        count += (size_t)__builtin_popcount(topo->ranks[rank].rails);
    }
    routes->first_relay =
        calloc(ports + 2 + count, sizeof(*routes->first_relay));
    routes->classes =
        malloc((MRAIL_MIN(routes->num_ranks, MRAIL_PLAN_MAX_NODES) + 1) *
               sizeof(*routes->classes));
    if ((routes->first_relay == NULL) || (routes->classes == NULL)) {
        return -ENOMEM;
    }
    routes->relays = routes->first_relay + ports + 2;
    if (topo->reach != NULL) {
        routes->reach[OUT] =
            malloc((2 * reach + 1) * sizeof(*routes->reach[OUT]));
        if (routes->reach[OUT] == NULL) {
            return -ENOMEM;
        }
        routes->reach[IN] = routes->reach[OUT] + reach;
        routes->links_allocated += 2 * reach;
    }
    return 0;
}

static int routes_allocate(mrail_routes_t *routes,
                           const mrail_plan_topo_t *topo)
{
    size_t ports = (size_t)routes->num_nodes * routes->num_rails;
    size_t uplinks = (size_t)routes->num_leaf_groups * routes->num_rails;
    uint32_t *next = malloc(2 * (ports + uplinks) * sizeof(*next));

    routes->ports[OUT] = next;
    routes->links_allocated = 2 * (ports + uplinks + routes->num_ranks);
    for (uint32_t i = 0; i < routes->num_nodes; ++i) {
        routes->links_allocated +=
            (topo->nodes[i].pairwise != NULL)
                ? MRAIL_PLAN_MAX_PAIRWISE * MRAIL_PLAN_MAX_PAIRWISE
                : 0;
    }
    if (routes_allocate_relays(routes, topo) != 0) {
        return -ENOMEM;
    }
    routes->nodes = calloc(routes->num_nodes, sizeof(*routes->nodes));
    routes->ranks = calloc(routes->num_ranks + 1, sizeof(*routes->ranks));
    routes->links = calloc(routes->links_allocated, sizeof(*routes->links));
    routes->sets = malloc(2 * routes->links_allocated * sizeof(*routes->sets));
    if ((next == NULL) || (routes->nodes == NULL) || (routes->ranks == NULL) ||
        (routes->links == NULL) || (routes->sets == NULL)) {
        return -ENOMEM;
    }
    routes->parents = routes->sets + routes->links_allocated;
    for (unsigned way = 0; way < NUM_DIRECTIONS; ++way) {
        routes->ports[way] = next;
        next += ports;
        routes->uplinks[way] = next;
        next += uplinks;
    }
    return 0;
}

static void routes_set_places(mrail_routes_t *routes,
                              const mrail_plan_topo_t *topo)
{
    for (uint32_t i = 0; i < routes->num_nodes; ++i) {
        routes->nodes[i].leaf_group = topo->nodes[i].leaf_group;
        routes->nodes[i].is_pairwise = topo->nodes[i].is_pairwise;
        routes->nodes[i].is_switched = topo->nodes[i].is_switched;
        routes->nodes[i].last_class = MRAIL_PLAN_NONE;
    }
    for (uint32_t rank = 0; rank < routes->num_ranks; ++rank) {
        const mrail_topo_rank_t *r = &topo->ranks[rank];

        routes->ranks[rank] = (routes_rank_t){.node = r->node,
                                              .rails = r->rails,
                                              .place = r->place,
                                              .class = MRAIL_PLAN_NONE};
        for (uint32_t rail = 0; rail < routes->num_rails; ++rail) {
            const mrail_topo_port_t *port =
                &topo->ports[r->node * routes->num_rails + rail];
            uint32_t bit = r->rails & (1u << rail);

            routes->ranks[rank].usable[OUT] |= (port->out > 0) ? bit : 0;
            routes->ranks[rank].usable[IN] |= (port->in > 0) ? bit : 0;
        }
    }
}

/* Lists the ranks that reach each rail, in ascending order, with a counting
 * sort. */
static void routes_set_relays(mrail_routes_t *routes)
{
    uint32_t rails = routes->num_rails, *first = routes->first_relay;

    for (uint32_t rank = 0; rank < routes->num_ranks; ++rank) {
        for (uint32_t r = routes->ranks[rank].rails; r != 0; r &= r - 1) {
            ++first[routes->ranks[rank].node * rails +
                    (uint32_t)__builtin_ctz(r) + 2];
        }
    }
    for (uint32_t i = 2; i < routes->num_nodes * rails + 2; ++i) {
        first[i] += first[i - 1];
    }
    for (uint32_t rank = 0; rank < routes->num_ranks; ++rank) {
        for (uint32_t r = routes->ranks[rank].rails; r != 0; r &= r - 1) {
            routes->relays[first[routes->ranks[rank].node * rails +
                                 (uint32_t)__builtin_ctz(r) + 1]++] = rank;
        }
    }
}

static int routes_add_links(mrail_routes_t *routes,
                            const mrail_plan_topo_t *topo)
{
    routes_add_ports(routes, topo);
    routes_add_uplinks(routes, topo);
    routes_set_parents(routes);
    for (uint32_t i = 0; i < routes->num_nodes; ++i) {
        if (routes_add_pairwise(routes, topo, i) != 0) {
            return -ENOMEM;
        }
        if (topo->nodes[i].is_pairwise) {
            uint32_t places =
                MRAIL_MIN(topo->nodes[i].num_ranks, MRAIL_PLAN_MAX_PAIRWISE);

            routes->num_lanes = MRAIL_MAX(routes->num_lanes, places);
        }
    }
    routes_add_switches(routes, topo);
    routes_add_reach(routes, topo);
    return (routes->num_links > 0) ? 0 : -EINVAL;
}

/* ---- Object ---- */

int mrail_routes_create(const mrail_plan_topo_t *topo,
                        mrail_routes_t **routes_p)
{
    mrail_routes_t *routes = calloc(1, sizeof(*routes));
    int ret;

    if (routes == NULL) {
        return -ENOMEM;
    }
    routes->num_nodes = topo->num_nodes;
    routes->num_rails = topo->num_rails;
    routes->num_ranks = topo->num_ranks;
    routes->num_leaf_groups = topo->num_leaf_groups;
    routes->has_hairpin = topo->has_hairpin;
    routes->has_cross_rail = topo->has_cross_rail;
    routes->num_lanes = topo->num_rails + (topo->has_cross_rail ? 1 : 0);
    ret = routes_allocate(routes, topo);
    if (ret == 0) {
        routes_set_places(routes, topo);
        routes_set_relays(routes);
        ret = routes_add_links(routes, topo);
    }
    if (ret == 0) {
        ret = mrail_routes_add_rows(routes);
    }
    if (ret != 0) {
        mrail_routes_destroy(routes);
        return ret;
    }
    *routes_p = routes;
    return 0;
}

void mrail_routes_destroy(mrail_routes_t *routes)
{
    for (uint32_t i = 0; (routes->nodes != NULL) && (i < routes->num_nodes);
         ++i) {
        free(routes->nodes[i].pairwise);
    }
    free(routes->nodes);
    free(routes->ranks);
    free(routes->ports[OUT]);
    free(routes->first_relay);
    free(routes->reach[OUT]);
    free(routes->classes);
    free(routes->slot_relay);
    free(routes->branches);
    free(routes->branch_relay);
    free(routes->sets);
    free(routes->links);
    free(routes->rows);
    free(routes->slots);
    free(routes);
}

/* ---- Demands ---- */

static uint32_t routes_fewest_relays(const mrail_routes_t *routes,
                                     const uint32_t row[2], uint32_t allowed)
{
    const uint32_t *out = routes->rows[row[OUT]].lanes;
    const uint32_t *in = routes->rows[row[IN]].lanes;
    uint32_t lanes = out[0] & in[0] & allowed;

    if (lanes == 0) {
        lanes = ((out[0] & in[1]) | (out[1] & in[0])) & allowed;
    }
    return (lanes != 0) ? lanes : (out[1] & in[1] & allowed);
}

static int routes_is_direct(const mrail_routes_t *routes, uint32_t from,
                            uint32_t to)
{
    uint32_t links[2];
    unsigned count = mrail_routes_hop(routes, from, to, links);

    return (links[0] != CLOSED_LINK) && (links[count - 1] != CLOSED_LINK);
}

int mrail_routes_is_inside(const mrail_routes_t *routes, uint32_t from,
                           uint32_t to)
{
    const routes_rank_t *a = &routes->ranks[from], *b = &routes->ranks[to];
    const routes_node_t *node = &routes->nodes[a->node];

    if (a->node != b->node) {
        return 0;
    }
    return node->is_switched
               ? routes_is_direct(routes, from, to)
               : (node->is_pairwise &&
                  (MRAIL_MAX(a->place, b->place) < MRAIL_PLAN_MAX_PAIRWISE));
}

/* Returns the lanes that the two ranks may use with these rows. Ranks with a
 * common rail do not use the spine, where the path might be the same. */
static MRAIL_INLINE uint32_t routes_lanes(const mrail_routes_t *routes,
                                          uint32_t from, uint32_t to,
                                          const uint32_t row[2])
{
    if (!routes->has_cross_rail ||
        (routes->rows[row[OUT]].kind != KIND_RAILS) ||
        ((routes->ranks[from].usable[OUT] & routes->ranks[to].usable[IN]) ==
         0)) {
        return UINT32_MAX;
    }
    return ~(1u << routes->num_rails);
}

/* Returns 0 if the demand is not planned. */
static int routes_find_rows(const mrail_routes_t *routes, uint32_t from,
                            uint32_t to, uint32_t row[2])
{
    const routes_rank_t *a = &routes->ranks[from], *b = &routes->ranks[to];

    if ((a->node != b->node) ||
        (routes->has_hairpin && !routes_is_direct(routes, from, to))) {
        unsigned distance = (routes->nodes[a->node].leaf_group ==
                             routes->nodes[b->node].leaf_group)
                                ? NEAR
                                : FAR;

        row[OUT] = a->rail_row[OUT][distance];
        row[IN] = b->rail_row[IN][distance];
        return 1;
    }
    if (!mrail_routes_is_inside(routes, from, to)) {
        return 0;
    }
    row[OUT] = a->node_row[OUT];
    row[IN] = b->node_row[IN];
    return 1;
}

int mrail_routes_find(const mrail_routes_t *routes, uint32_t from, uint32_t to,
                      int is_small, mrail_route_t *route_p)
{
    const routes_row_t *out, *in;
    uint32_t allowed;

    if (!routes_find_rows(routes, from, to, route_p->row)) {
        return 0;
    }
    out = &routes->rows[route_p->row[OUT]];
    in = &routes->rows[route_p->row[IN]];
    allowed = routes_lanes(routes, from, to, route_p->row);
    route_p->lanes = (out->lanes[0] | out->lanes[1]) &
                     (in->lanes[0] | in->lanes[1]) & allowed;
    if (route_p->lanes == 0) {
        return (out->kind == KIND_RAILS) ? -EHOSTUNREACH : 0;
    }
    if (is_small) {
        route_p->lanes =
            routes_fewest_relays(routes, route_p->row, route_p->lanes);
    }
    return 1;
}

uint32_t mrail_routes_shortest(const mrail_routes_t *routes,
                               const mrail_route_t *route)
{
    return routes_fewest_relays(routes, route->row, route->lanes);
}

unsigned mrail_routes_direct(const mrail_routes_t *routes, uint32_t from,
                             uint32_t to, const mrail_route_t *route)
{
    uint32_t lanes = mrail_routes_shortest(routes, route);
    uint32_t own = lanes & routes->ranks[from].rails;
    unsigned turn;

    if ((routes->rows[route->row[OUT]].kind == KIND_RAILS) && (own != 0)) {
        lanes = own;
    }
    if ((lanes & (lanes - 1)) == 0) {
        return (unsigned)__builtin_ctz(lanes);
    }
    turn = (from + to) % (unsigned)__builtin_popcount(lanes);
    while (turn-- > 0) {
        lanes &= lanes - 1;
    }
    return (unsigned)__builtin_ctz(lanes);
}

/* Returns the relay of a branch or, if the slot has no branches, the relay of
 * the slot, which may be none. */
static uint32_t routes_relay(const mrail_routes_t *routes, uint32_t row,
                             unsigned lane, unsigned branch)
{
    size_t s = (size_t)row * routes->num_lanes + lane;

    return (routes->slots[s].num_branches > 0)
               ? routes->branch_relay[routes->slots[s].first_branch + branch]
               : routes->slot_relay[s];
}

void mrail_routes_explain(const mrail_routes_t *routes, uint32_t to,
                          const mrail_route_t *route, unsigned lane,
                          unsigned branch_out, unsigned branch_in,
                          mrail_plan_piece_t *piece)
{
    const routes_rank_t *b = &routes->ranks[to];
    uint32_t out, in;

    piece->relay_out = piece->relay_in = MRAIL_PLAN_NONE;
    piece->rail_out = piece->rail_in = MRAIL_PLAN_NONE;
    switch (routes->rows[route->row[OUT]].kind) {
    case KIND_RAILS:
        out = routes_relay(routes, route->row[OUT], lane, branch_out);
        in = routes_relay(routes, route->row[IN], lane, branch_in);
        if (lane == routes->num_rails) {
            piece->rail_out = out;
            piece->rail_in = in;
        } else {
            piece->rail_out = piece->rail_in = lane;
            piece->relay_out = out;
            piece->relay_in = in;
        }
        break;
    case KIND_PAIRWISE:
        if (lane != b->place) {
            piece->relay_out = routes->nodes[b->node].by_place[lane];
        }
        break;
    case KIND_SWITCH:
        break;
    }
}

uint32_t mrail_routes_num_lanes(const mrail_routes_t *routes)
{
    return routes->num_lanes;
}

int mrail_routes_has_relays(const mrail_routes_t *routes)
{
    return routes->has_relays;
}

uint32_t mrail_routes_num_rows(const mrail_routes_t *routes)
{
    return routes->num_rows;
}

const mrail_flows_slot_t *mrail_routes_slots(const mrail_routes_t *routes)
{
    return routes->slots;
}

uint32_t mrail_routes_num_branches(const mrail_routes_t *routes)
{
    return routes->num_branches;
}

const mrail_flows_branch_t *mrail_routes_branches(const mrail_routes_t *routes)
{
    return routes->branches;
}

uint32_t mrail_routes_class(const mrail_routes_t *routes, uint32_t rank)
{
    return routes->ranks[rank].class;
}

uint32_t mrail_routes_num_classes(const mrail_routes_t *routes)
{
    return routes->num_classes;
}

uint32_t mrail_routes_num_links(const mrail_routes_t *routes)
{
    return routes->num_links;
}

const mrail_plan_link_t *mrail_routes_links(const mrail_routes_t *routes)
{
    return routes->links;
}

uint32_t mrail_routes_num_sets(const mrail_routes_t *routes)
{
    return 2 * (routes->num_nodes + routes->num_leaf_groups);
}

const uint32_t *mrail_routes_sets(const mrail_routes_t *routes)
{
    return routes->sets;
}

const uint32_t *mrail_routes_parents(const mrail_routes_t *routes)
{
    return routes->parents;
}
