/*
 * Builds the rows of routes, which describe the lanes of a rank with their
 * links and relays. Allocates the maximum number of rows.
 */
#include "config.h"
#include "routes_internal.h"

#include "base/grow.h"
#include "base/util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Adds a row with all lanes closed. */
static uint32_t routes_add_row(mrail_routes_t *routes, routes_kind_t kind)
{
    uint32_t lanes = routes->num_lanes, row = routes->num_rows++;

    assert(row < routes->rows_allocated);
    routes->rows[row] = (routes_row_t){.kind = kind};
    memset(&routes->slots[(size_t)row * lanes], 0xff, /* no links, so closed */
           lanes * sizeof(*routes->slots));
    memset(&routes->slot_relay[(size_t)row * lanes], 0xff,
           lanes * sizeof(*routes->slot_relay));
    return row;
}

/* One way through a slot. */
typedef struct routes_way {
    uint32_t relay; /* the relay, or the rail towards the spine */
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
    size_t allocated = (size_t)routes->branches_allocated * 2 + 64;

    if (routes->num_branches + MRAIL_FLOWS_MAX_BRANCHES <=
        routes->branches_allocated) {
        return 0;
    }
    if (!mrail_grow(&routes->branches, allocated, sizeof(*routes->branches)) ||
        !mrail_grow(&routes->branch_relay, allocated,
                    sizeof(*routes->branch_relay))) {
        return -ENOMEM;
    }
    routes->branches_allocated = (uint32_t)allocated;
    return 0;
}

/* Opens a lane over these links and one of several ways. A single way needs no
 * branch if its links fit in the slot. */
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

/* Adds a way over these links to `ways`, unless one of the links is down. */
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

unsigned mrail_routes_hop(const mrail_routes_t *routes, uint32_t from,
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
        unsigned hops = mrail_routes_hop(routes, (way == OUT) ? rank : relay,
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

/* Assigns a rank the rows of an earlier rank of its class, and discards its
 * own. If there is no earlier rank, starts a new class. */
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

/* Opens the paths between a rank and the relays of its node, by local index.
 * The receiver's index stands for the direct path. */
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
            unsigned count =
                mrail_routes_hop(routes, (way == OUT) ? rank : other,
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

int mrail_routes_add_rows(mrail_routes_t *routes)
{
    routes->rows_allocated =
        routes->num_ranks * NUM_DIRECTIONS * (NUM_DISTANCES + 1);
    routes->rows = malloc((routes->rows_allocated + 1) * sizeof(*routes->rows));
    routes->slots = malloc(((size_t)routes->rows_allocated + 1) *
                           routes->num_lanes * sizeof(*routes->slots));
    routes->slot_relay = malloc(((size_t)routes->rows_allocated + 1) *
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
