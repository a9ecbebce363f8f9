#include "config.h"
#include "routes.h"

#include "topo.h"

#include "base/grow.h"
#include "base/util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CLOSED_LINK (UINT32_MAX - 1) /* the link exists but is down */

enum { OUT, IN, NUM_DIRECTIONS };
enum { NEAR, FAR, NUM_DISTANCES };

typedef enum routes_kind {
    KIND_RAILS,
    KIND_PAIRWISE,
    KIND_SWITCH
} routes_kind_t;

/* Open lanes, by number of relays. */
typedef struct routes_row {
    uint32_t lanes[2];
    routes_kind_t kind;
} routes_row_t;

typedef struct routes_rank {
    uint32_t node, place;
    uint32_t rails;                  /* rails that it reaches, as bits */
    uint32_t usable[NUM_DIRECTIONS]; /* those whose port is up */
    uint32_t class;                  /* or MRAIL_PLAN_NONE */
    int is_limited;                  /* 1: some reach is limited */
    uint32_t up, down;               /* links to and from the switch */
    uint32_t rail_row[NUM_DIRECTIONS][NUM_DISTANCES];
    uint32_t node_row[NUM_DIRECTIONS];
    uint32_t padding; /* to 64 bytes, which is faster to index */
} routes_rank_t;

typedef struct routes_node {
    uint32_t leaf_group;
    uint8_t is_pairwise, is_switched;
    uint32_t *pairwise;  /* links, by the places of sender and receiver */
    uint32_t *by_place;  /* ranks, by place */
    uint32_t last_class; /* its last class, or MRAIL_PLAN_NONE */
} routes_node_t;

/* Ranks with the same rows: the first of them, which holds the rows, and the
 * previous class of its node, or MRAIL_PLAN_NONE. */
typedef struct routes_class {
    uint32_t rank, previous;
} routes_class_t;

struct mrail_routes {
    uint32_t num_nodes, num_rails, num_ranks, num_leaf_groups, num_lanes;
    int has_hairpin, has_cross_rail, has_relays;
    routes_node_t *nodes;
    routes_rank_t *ranks;
    /* The ranks that reach a rail, by node and rail: index of the first one in
     * relays. One more entry marks the end. */
    uint32_t *first_relay;
    uint32_t *relays;
    /* Links, by rank and rail; NULL if no reach is limited. */
    uint32_t *reach[NUM_DIRECTIONS];
    uint32_t num_classes;
    routes_class_t *classes;
    uint32_t *ports[NUM_DIRECTIONS];   /* links, by node and rail */
    uint32_t *uplinks[NUM_DIRECTIONS]; /* links, by leaf group and rail */
    uint32_t num_links, links_room;
    mrail_plan_link_t *links;
    uint32_t *sets, *parents; /* indexed by link */
    uint32_t num_rows, rows_room;
    routes_row_t *rows;
    mrail_flows_slot_t *slots;
    /* By slot without branches, and by branch: the relay; in the lane of the
     * spine the rail. */
    uint32_t *slot_relay, *branch_relay;
    uint32_t num_branches, branches_room;
    mrail_flows_branch_t *branches;
};

/* ---- Links ---- */

/* Returns the set of a link. There is a set for the ports out of each node, one
 * for the ports into it, and two for the uplinks and downlinks of each leaf
 * group. */
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
    assert(routes->num_links < routes->links_room);
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
 * bytes that leave or enter a leaf group on a rail also pass one of these
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
        routes->links_room += 2 * reach;
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
    routes->links_room = 2 * (ports + uplinks + routes->num_ranks);
    for (uint32_t i = 0; i < routes->num_nodes; ++i) {
        routes->links_room +=
            (topo->nodes[i].pairwise != NULL)
                ? MRAIL_PLAN_MAX_PAIRWISE * MRAIL_PLAN_MAX_PAIRWISE
                : 0;
    }
    if (routes_allocate_relays(routes, topo) != 0) {
        return -ENOMEM;
    }
    routes->nodes = calloc(routes->num_nodes, sizeof(*routes->nodes));
    routes->ranks = calloc(routes->num_ranks + 1, sizeof(*routes->ranks));
    routes->links = calloc(routes->links_room, sizeof(*routes->links));
    routes->sets = malloc(2 * routes->links_room * sizeof(*routes->sets));
    if ((next == NULL) || (routes->nodes == NULL) || (routes->ranks == NULL) ||
        (routes->links == NULL) || (routes->sets == NULL)) {
        return -ENOMEM;
    }
    routes->parents = routes->sets + routes->links_room;
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

/* ---- Rows ---- */

/* Adds a row with all lanes closed. */
static uint32_t routes_add_row(mrail_routes_t *routes, routes_kind_t kind)
{
    uint32_t lanes = routes->num_lanes, row = routes->num_rows++;

    assert(row < routes->rows_room);
    routes->rows[row] = (routes_row_t){.kind = kind};
    memset(&routes->slots[(size_t)row * lanes], 0xff, /* no links, so closed */
           lanes * sizeof(*routes->slots));
    memset(&routes->slot_relay[(size_t)row * lanes], 0xff,
           lanes * sizeof(*routes->slot_relay));
    return row;
}

/* One way through a slot. */
typedef struct routes_way {
    uint32_t relay; /* or the rail towards the spine */
    uint32_t link[MRAIL_FLOWS_BRANCH_LINKS];
} routes_way_t;

/* Opens a lane over these links, unless one of them is down. */
static void routes_open(mrail_routes_t *routes, uint32_t row, uint32_t lane,
                        unsigned relays, const uint32_t *links,
                        unsigned num_links)
{
    mrail_flows_slot_t *slot =
        &routes->slots[(size_t)row * routes->num_lanes + lane];
    unsigned count = 0;

    for (unsigned i = 0; i < num_links; ++i) {
        if (links[i] == CLOSED_LINK) {
            return;
        }
    }
    for (unsigned i = 0; i < num_links; ++i) {
        if (links[i] != MRAIL_FLOWS_NO_LINK) {
            assert(count < MRAIL_FLOWS_SLOT_LINKS);
            slot->link[count++] = links[i];
        }
    }
    slot->num_branches = 0;
    slot->relays = (uint8_t)relays;
    slot->is_closed = 0;
    routes->rows[row].lanes[relays] |= 1u << lane;
    routes->has_relays |= (relays != 0);
}

static int routes_grow_branches(mrail_routes_t *routes)
{
    size_t room = (size_t)routes->branches_room * 2 + 64;

    if (routes->num_branches + MRAIL_FLOWS_MAX_BRANCHES <=
        routes->branches_room) {
        return 0;
    }
    if (!mrail_grow(&routes->branches, room, sizeof(*routes->branches)) ||
        !mrail_grow(&routes->branch_relay, room,
                    sizeof(*routes->branch_relay))) {
        return -ENOMEM;
    }
    routes->branches_room = (uint32_t)room;
    return 0;
}

/* Opens a lane over these links and one of several ways. A single way needs no
 * branch, if the slot has room for its links. */
static int routes_open_ways(mrail_routes_t *routes, uint32_t row, uint32_t lane,
                            unsigned relays, const uint32_t *links,
                            unsigned num_links, const routes_way_t *ways,
                            unsigned num_ways)
{
    size_t s = (size_t)row * routes->num_lanes + lane;
    uint32_t all[MRAIL_FLOWS_SLOT_LINKS + MRAIL_FLOWS_BRANCH_LINKS];
    unsigned count = 0;

    if ((num_ways == 0) || (routes_grow_branches(routes) != 0)) {
        return (num_ways == 0) ? 0 : -ENOMEM;
    }
    for (unsigned i = 0; i < num_links + MRAIL_FLOWS_BRANCH_LINKS; ++i) {
        uint32_t link =
            (i < num_links) ? links[i] : ways[0].link[i - num_links];

        if (link != MRAIL_FLOWS_NO_LINK) {
            all[count++] = link;
        }
    }
    if ((num_ways == 1) && (count <= MRAIL_FLOWS_SLOT_LINKS)) {
        routes_open(routes, row, lane, relays, all, count);
        routes->slot_relay[s] = ways[0].relay;
        return 0;
    }
    routes_open(routes, row, lane, relays, links, num_links);
    if (routes->slots[s].is_closed) {
        return 0;
    }
    routes->slots[s].first_branch = routes->num_branches;
    routes->slots[s].num_branches = (uint8_t)num_ways;
    for (unsigned i = 0; i < num_ways; ++i) {
        memcpy(routes->branches[routes->num_branches].link, ways[i].link,
               sizeof(ways[i].link));
        routes->branch_relay[routes->num_branches++] = ways[i].relay;
    }
    return 0;
}

/* Adds a way over these links, unless one of them is down. */
static void routes_add_way(routes_way_t *ways, unsigned *count_p,
                           uint32_t relay, const uint32_t *links,
                           unsigned num_links)
{
    routes_way_t way = {.relay = relay};

    memset(way.link, 0xff, sizeof(way.link)); /* no links */
    assert(num_links <= MRAIL_FLOWS_BRANCH_LINKS);
    for (unsigned i = 0; i < num_links; ++i) {
        if (links[i] == CLOSED_LINK) {
            return;
        }
        way.link[i] = links[i];
    }
    ways[(*count_p)++] = way;
}

/* Lists the links from one rank to another on the same node. */
static unsigned routes_hop(const mrail_routes_t *routes, uint32_t from,
                           uint32_t to, uint32_t *links)
{
    const routes_rank_t *a = &routes->ranks[from], *b = &routes->ranks[to];
    const routes_node_t *node = &routes->nodes[a->node];

    if (node->is_switched) {
        links[0] = a->up;
        links[1] = b->down;
        return 2;
    }
    links[0] =
        ((node->pairwise == NULL) ||
         (MRAIL_MAX(a->place, b->place) >= MRAIL_PLAN_MAX_PAIRWISE))
            ? CLOSED_LINK
            : node->pairwise[a->place * MRAIL_PLAN_MAX_PAIRWISE + b->place];
    return 1;
}

static unsigned routes_port(const mrail_routes_t *routes, unsigned way,
                            unsigned distance, uint32_t node, uint32_t rail,
                            uint32_t *links)
{
    uint32_t leaf_group = routes->nodes[node].leaf_group;

    links[0] = routes->ports[way][node * routes->num_rails + rail];
    if ((distance == NEAR) || (leaf_group >= routes->num_leaf_groups)) {
        return 1;
    }
    links[1] = routes->uplinks[way][leaf_group * routes->num_rails + rail];
    return 2;
}

static uint32_t routes_reach(const mrail_routes_t *routes, unsigned way,
                             uint32_t rank, uint32_t rail)
{
    return (routes->reach[way] != NULL)
               ? routes->reach[way][rank * routes->num_rails + rail]
               : MRAIL_FLOWS_NO_LINK;
}

/* Opens a rail through the ranks of the node that reach it. On a switch, all
 * these ways share the rank's own link. */
static int routes_open_relayed(mrail_routes_t *routes, uint32_t row,
                               unsigned way, unsigned distance, uint32_t rank,
                               uint32_t rail)
{
    const routes_rank_t *r = &routes->ranks[rank];
    uint32_t at = r->node * routes->num_rails + rail;
    const uint32_t *relays = &routes->relays[routes->first_relay[at]];
    uint32_t num = routes->first_relay[at + 1] - routes->first_relay[at];
    int is_switched = routes->nodes[r->node].is_switched;
    uint32_t links[MRAIL_FLOWS_SLOT_LINKS];
    unsigned count = routes_port(routes, way, distance, r->node, rail, links);
    routes_way_t ways[MRAIL_PLAN_MAX_RELAYS];
    unsigned num_ways = 0;

    if (is_switched) {
        links[count++] = (way == OUT) ? r->up : r->down;
    }
    for (uint32_t i = 0; (i < num) && (num_ways < MRAIL_PLAN_MAX_RELAYS); ++i) {
        uint32_t relay = relays[(r->place + i) % num], hop[3];
        unsigned hops = routes_hop(routes, (way == OUT) ? rank : relay,
                                   (way == OUT) ? relay : rank, hop);

        if (is_switched) {
            hop[0] = hop[(way == OUT) ? 1 : 0];
            hops = 1;
        }
        hop[hops++] = routes_reach(routes, way, relay, rail);
        routes_add_way(ways, &num_ways, relay, hop, hops);
    }
    return routes_open_ways(routes, row, rail, 1, links, count, ways, num_ways);
}

/* Opens the path through the spine, over each rail that the rank reaches. */
static int routes_open_spine(mrail_routes_t *routes, uint32_t row, unsigned way,
                             uint32_t rank)
{
    const routes_rank_t *r = &routes->ranks[rank];
    routes_way_t ways[MRAIL_FLOWS_MAX_BRANCHES];
    unsigned num_ways = 0;

    for (uint32_t rail = 0; rail < routes->num_rails; ++rail) {
        if ((r->rails >> rail) & 1) {
            uint32_t links[3];
            unsigned count =
                routes_port(routes, way, FAR, r->node, rail, links);

            links[count++] = routes_reach(routes, way, rank, rail);
            routes_add_way(ways, &num_ways, rail, links, count);
        }
    }
    return routes_open_ways(routes, row, routes->num_rails, 0, NULL, 0, ways,
                            num_ways);
}

/* Opens the rails that a rank reaches by itself or through relays. */
static int routes_open_rails(mrail_routes_t *routes, uint32_t row, unsigned way,
                             unsigned distance, uint32_t rank)
{
    const routes_rank_t *r = &routes->ranks[rank];
    uint32_t links[MRAIL_FLOWS_SLOT_LINKS];
    int ret = 0;

    for (uint32_t rail = 0; (rail < routes->num_rails) && (ret == 0); ++rail) {
        if ((r->rails >> rail) & 1) {
            unsigned count =
                routes_port(routes, way, distance, r->node, rail, links);

            links[count++] = routes_reach(routes, way, rank, rail);
            routes_open(routes, row, rail, 0, links, count);
        } else {
            ret = routes_open_relayed(routes, row, way, distance, rank, rail);
        }
    }
    return (routes->has_cross_rail && (ret == 0))
               ? routes_open_spine(routes, row, way, rank)
               : ret;
}

/* Returns 1 if the rows of a rank depend only on its node and its rails. */
static int routes_is_general(const mrail_routes_t *routes, uint32_t rank)
{
    const routes_rank_t *r = &routes->ranks[rank];
    uint32_t relayed = 0;

    for (unsigned way = 0; way < NUM_DIRECTIONS; ++way) {
        for (unsigned distance = 0; distance < NUM_DISTANCES; ++distance) {
            relayed |= routes->rows[r->rail_row[way][distance]].lanes[1];
        }
    }
    return (relayed == 0) && !r->is_limited &&
           ((__builtin_popcount(r->rails) > 1) || (routes->num_rails == 1));
}

/* Gives a rank the rows of an earlier rank of its class, and discards its own.
 * Without one, the rank begins a class. */
static void routes_classify(mrail_routes_t *routes, uint32_t rank,
                            uint32_t num_rows, uint32_t num_branches)
{
    routes_rank_t *r = &routes->ranks[rank];
    routes_node_t *node = &routes->nodes[r->node];
    uint32_t c = node->last_class;

    if (!routes_is_general(routes, rank)) {
        return;
    }
    while ((c != MRAIL_PLAN_NONE) &&
           (routes->ranks[routes->classes[c].rank].rails != r->rails)) {
        c = routes->classes[c].previous;
    }
    if (c != MRAIL_PLAN_NONE) {
        r->class = c;
        memcpy(r->rail_row, routes->ranks[routes->classes[c].rank].rail_row,
               sizeof(r->rail_row));
        routes->num_rows = num_rows;
        routes->num_branches = num_branches;
    } else if (routes->num_classes < MRAIL_PLAN_MAX_NODES) {
        routes->classes[routes->num_classes] =
            (routes_class_t){.rank = rank, .previous = node->last_class};
        node->last_class = r->class = routes->num_classes++;
    }
}

static int routes_add_rail_rows(mrail_routes_t *routes, uint32_t rank)
{
    uint32_t num_rows = routes->num_rows, num_branches = routes->num_branches;
    routes_rank_t *r = &routes->ranks[rank];
    int ret = 0;

    for (unsigned way = 0; way < NUM_DIRECTIONS; ++way) {
        for (unsigned distance = 0; (distance < NUM_DISTANCES) && (ret == 0);
             ++distance) {
            if ((distance == FAR) && (routes->num_leaf_groups == 0)) {
                r->rail_row[way][FAR] = r->rail_row[way][NEAR];
                continue;
            }
            r->rail_row[way][distance] = routes_add_row(routes, KIND_RAILS);
            ret = routes_open_rails(routes, r->rail_row[way][distance], way,
                                    distance, rank);
        }
    }
    if (ret == 0) {
        routes_classify(routes, rank, num_rows, num_branches);
    }
    return ret;
}

/* Opens the paths between a rank and the relays of its node, by place. The
 * place of the receiver stands for the direct path. */
static void routes_open_pairwise(mrail_routes_t *routes, uint32_t row,
                                 unsigned way, uint32_t rank)
{
    const routes_rank_t *r = &routes->ranks[rank];
    const uint32_t *by_place = routes->nodes[r->node].by_place;
    uint32_t links[MRAIL_FLOWS_SLOT_LINKS];

    for (uint32_t place = 0; place < MRAIL_PLAN_MAX_PAIRWISE; ++place) {
        uint32_t other = by_place[place];

        if (other == rank) {
            if (way == IN) {
                routes_open(routes, row, place, 0, NULL, 0);
            }
        } else if (other != MRAIL_PLAN_NONE) {
            unsigned count = routes_hop(routes, (way == OUT) ? rank : other,
                                        (way == OUT) ? other : rank, links);

            routes_open(routes, row, place, (way == IN) ? 1 : 0, links, count);
        }
    }
}

static void routes_add_node_rows(mrail_routes_t *routes, uint32_t rank)
{
    routes_rank_t *r = &routes->ranks[rank];
    const routes_node_t *node = &routes->nodes[r->node];

    for (unsigned way = 0; way < NUM_DIRECTIONS; ++way) {
        if (node->is_switched) {
            r->node_row[way] = routes_add_row(routes, KIND_SWITCH);
            routes_open(routes, r->node_row[way], 0, 0,
                        (way == OUT) ? &r->up : &r->down, 1);
        } else if (node->is_pairwise && (r->place < MRAIL_PLAN_MAX_PAIRWISE)) {
            r->node_row[way] = routes_add_row(routes, KIND_PAIRWISE);
            routes_open_pairwise(routes, r->node_row[way], way, rank);
        }
    }
}

/* Allocates the maximum number of rows. */
static int routes_add_rows(mrail_routes_t *routes)
{
    routes->rows_room =
        routes->num_ranks * NUM_DIRECTIONS * (NUM_DISTANCES + 1);
    routes->rows = malloc((routes->rows_room + 1) * sizeof(*routes->rows));
    routes->slots = malloc(((size_t)routes->rows_room + 1) * routes->num_lanes *
                           sizeof(*routes->slots));
    routes->slot_relay = malloc(((size_t)routes->rows_room + 1) *
                                routes->num_lanes * sizeof(uint32_t));
    if ((routes->rows == NULL) || (routes->slots == NULL) ||
        (routes->slot_relay == NULL)) {
        return -ENOMEM;
    }
    for (uint32_t rank = 0; rank < routes->num_ranks; ++rank) {
        if (routes_add_rail_rows(routes, rank) != 0) {
            return -ENOMEM;
        }
    }
    for (uint32_t rank = 0; rank < routes->num_ranks; ++rank) {
        routes_add_node_rows(routes, rank);
    }
    return 0;
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
        ret = routes_add_rows(routes);
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
    unsigned count = routes_hop(routes, from, to, links);

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
 * common rail do not use the spine, which might lead to the same path. */
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

/* Returns the relay of a branch of a slot, or the relay of a slot without
 * branches, which may be none. */
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
