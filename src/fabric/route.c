#include "config.h"
#include "fabric/route.h"

#include "base/util.h"
#include "orchestrator/ports.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct mrail_router {
    const mrail_fabric_t *fabric;
    mrail_route_mode_t mode;
    uint64_t seed;
    uint8_t *is_down; /* by link */
    size_t words;
    /* Sets of leaves, by node, over links that are up. `below` has the leaves
     * reached over downward links alone, and `through` has all leaves
     * reached. */
    uint64_t *below, *through;
};

#define LEAF_IN(_set, _leaf) (((_set)[(_leaf) / 64] >> ((_leaf) % 64)) & 1)

/* ---- Reachability ---- */

static void merge(uint64_t *set, const uint64_t *other, size_t words)
{
    for (size_t i = 0; i < words; ++i) {
        set[i] |= other[i];
    }
}

static void find_below(mrail_router_t *router, uint32_t n)
{
    const mrail_fabric_t *fabric = router->fabric;
    const mrail_fabric_node_t *node = &fabric->nodes[n];
    uint64_t *set = &router->below[n * router->words];

    if (node->tier == MRAIL_FABRIC_LEAF) {
        set[node->place / 64] |= UINT64_C(1) << (node->place % 64);
        return;
    }
    for (uint32_t i = 0; i < node->num_down; ++i) {
        if (!router->is_down[node->down[i]]) {
            merge(set,
                  &router->below[fabric->links[node->down[i]].lower *
                                 router->words],
                  router->words);
        }
    }
}

static void find_through(mrail_router_t *router, uint32_t n)
{
    const mrail_fabric_t *fabric = router->fabric;
    const mrail_fabric_node_t *node = &fabric->nodes[n];
    uint64_t *set = &router->through[n * router->words];

    merge(set, &router->below[n * router->words], router->words);
    for (uint32_t i = 0; i < node->num_up; ++i) {
        if (!router->is_down[node->up[i]]) {
            merge(set,
                  &router->through[fabric->links[node->up[i]].upper *
                                   router->words],
                  router->words);
        }
    }
}

static void find_reach(mrail_router_t *router)
{
    const mrail_fabric_t *fabric = router->fabric;
    size_t size = fabric->num_nodes * router->words * sizeof(uint64_t);

    memset(router->below, 0, size);
    memset(router->through, 0, size);
    for (unsigned t = MRAIL_FABRIC_LEAF; t < MRAIL_FABRIC_NUM_TIERS; ++t) {
        for (uint32_t i = 0; i < fabric->num_of[t]; ++i) {
            find_below(router, fabric->of[t][i]);
        }
    }
    for (unsigned t = MRAIL_FABRIC_NUM_TIERS; t-- > MRAIL_FABRIC_LEAF;) {
        for (uint32_t i = 0; i < fabric->num_of[t]; ++i) {
            find_through(router, fabric->of[t][i]);
        }
    }
}

mrail_router_t *mrail_router_create(const mrail_fabric_t *fabric,
                                    mrail_route_mode_t mode, uint64_t seed)
{
    mrail_router_t *router = calloc(1, sizeof(*router));
    size_t size;

    if (router == NULL) {
        return NULL;
    }
    *router =
        (mrail_router_t){.fabric = fabric,
                         .mode = mode,
                         .seed = seed,
                         .words = fabric->num_of[MRAIL_FABRIC_LEAF] / 64 + 1};
    size = fabric->num_nodes * router->words;
    router->is_down = calloc(fabric->num_links + 1, 1);
    router->below = calloc(size, sizeof(*router->below));
    router->through = calloc(size, sizeof(*router->through));
    if (router->is_down == NULL || router->below == NULL ||
        router->through == NULL) {
        mrail_router_destroy(router);
        return NULL;
    }
    find_reach(router);
    return router;
}

void mrail_router_destroy(mrail_router_t *router)
{
    if (router != NULL) {
        free(router->is_down);
        free(router->below);
        free(router->through);
        free(router);
    }
}

void mrail_router_link(mrail_router_t *router, uint32_t link, int is_up)
{
    router->is_down[link] = !is_up;
    find_reach(router);
}

/* ---- A flow ---- */

typedef struct flow {
    const mrail_router_t *router;
    uint32_t from, to; /* host links */
    uint32_t leaf;     /* index of the destination's leaf */
    uint16_t sport;
    unsigned leaf_uplinks; /* uplinks of the source's leaf */
    /* position of the last upward link among those that join the same two
     * switches */
    unsigned parallel;
} flow_t;

/* Returns a switch's choice among `count` equal links, from the source and
 * destination addresses, both ports, and the switch's seed. */
static uint32_t hash_choice(const flow_t *flow, uint32_t node, uint32_t count)
{
    const mrail_fabric_link_t *links = flow->router->fabric->links;
    uint64_t addresses =
        ((uint64_t)links[flow->from].addr << 32) | links[flow->to].addr;
    uint64_t hash = mrail_mix64(flow->router->seed ^
                                mrail_mix64(node + UINT64_C(0x9e3779b9)));

    hash = mrail_mix64(hash ^ addresses);
    return (uint32_t)(mrail_mix64(hash ^ flow->sport) % count);
}

static int is_useful(const flow_t *flow, uint32_t link, uint32_t next,
                     const uint64_t *sets)
{
    const mrail_router_t *router = flow->router;

    return !router->is_down[link] &&
           LEAF_IN(&sets[next * router->words], flow->leaf);
}

/* ECMP: returns the useful link that the hash chooses, or MRAIL_FABRIC_NONE. */
static uint32_t choose_by_hash(const flow_t *flow, uint32_t n, int up)
{
    const mrail_fabric_t *fabric = flow->router->fabric;
    const mrail_fabric_node_t *node = &fabric->nodes[n];
    const uint64_t *sets = up ? flow->router->through : flow->router->below;
    const uint32_t *list = up ? node->up : node->down;
    uint32_t num = up ? node->num_up : node->num_down;
    uint32_t useful[MRAIL_FABRIC_MAX_UPLINKS > MRAIL_FABRIC_MAX_NODES
                        ? MRAIL_FABRIC_MAX_UPLINKS
                        : MRAIL_FABRIC_MAX_NODES];
    uint32_t count = 0;

    for (uint32_t i = 0; i < num && count < MRAIL_ARRAY_SIZE(useful); ++i) {
        const mrail_fabric_link_t *link = &fabric->links[list[i]];

        if (is_useful(flow, list[i], up ? link->upper : link->lower, sets)) {
            useful[count++] = list[i];
        }
    }
    return (count == 0) ? MRAIL_FABRIC_NONE
                        : useful[hash_choice(flow, n, count)];
}

/* Returns the uplink for the port's segment, or NONE if it is down or does not
 * lead to the destination. */
static uint32_t choose_by_rule(const flow_t *flow, uint32_t n)
{
    const mrail_fabric_t *fabric = flow->router->fabric;
    const mrail_fabric_node_t *node = &fabric->nodes[n];
    unsigned leaf, spine;
    uint32_t link;

    if (node->tier == MRAIL_FABRIC_LEAF) {
        leaf = mrail_ports_segment_of(node->num_up, flow->sport);
        link = node->up[leaf];
    } else {
        mrail_ports_segment_of_nested(flow->leaf_uplinks, node->num_up,
                                      flow->sport, &leaf, &spine);
        link = node->up[spine];
    }
    return is_useful(flow, link, fabric->links[link].upper,
                     flow->router->through)
               ? link
               : MRAIL_FABRIC_NONE;
}

static uint32_t choose_up(const flow_t *flow, uint32_t n)
{
    uint32_t link = MRAIL_FABRIC_NONE;

    if (flow->router->fabric->nodes[n].num_up == 0) {
        return MRAIL_FABRIC_NONE;
    }
    if (flow->router->mode != MRAIL_ROUTE_ECMP) {
        link = choose_by_rule(flow, n);
        if (link != MRAIL_FABRIC_NONE ||
            flow->router->mode == MRAIL_ROUTE_RULES_DROP) {
            return link;
        }
    }
    return choose_by_hash(flow, n, 1);
}

/* Returns a link's position among those that join the same two nodes. */
static unsigned parallel_number(const mrail_fabric_t *fabric, uint32_t link)
{
    const mrail_fabric_link_t *self = &fabric->links[link];
    const mrail_fabric_node_t *lower = &fabric->nodes[self->lower];
    unsigned number = 0;

    for (uint32_t port = 0; port < self->lower_port; ++port) {
        number += (fabric->links[lower->up[port]].upper == self->upper);
    }
    return number;
}

/* Port rules: returns the parallel link in the same position if it is up. */
static uint32_t choose_paired(const flow_t *flow, uint32_t n)
{
    const mrail_fabric_t *fabric = flow->router->fabric;
    const mrail_fabric_node_t *node = &fabric->nodes[n];
    uint32_t first = MRAIL_FABRIC_NONE, count = 0;

    for (uint32_t i = 0; i < node->num_down; ++i) {
        const mrail_fabric_link_t *link = &fabric->links[node->down[i]];

        if (!LEAF_IN(&flow->router->below[link->lower * flow->router->words],
                     flow->leaf)) {
            continue;
        }
        if (first == MRAIL_FABRIC_NONE) {
            first = link->lower;
        }
        if (link->lower == first && count++ == flow->parallel) {
            return flow->router->is_down[node->down[i]] ? MRAIL_FABRIC_NONE
                                                        : node->down[i];
        }
    }
    return MRAIL_FABRIC_NONE;
}

static uint32_t choose_down(const flow_t *flow, uint32_t n)
{
    uint32_t link = MRAIL_FABRIC_NONE;

    if (flow->router->mode != MRAIL_ROUTE_ECMP) {
        link = choose_paired(flow, n);
    }
    return (link != MRAIL_FABRIC_NONE) ? link : choose_by_hash(flow, n, 0);
}

/* Routes from switch `n` to the destination's leaf. Returns 0 or
 * -EHOSTUNREACH. */
static int cross_switches(flow_t *flow, uint32_t n, mrail_route_t *route)
{
    const mrail_router_t *router = flow->router;
    const mrail_fabric_t *fabric = router->fabric;

    while (!LEAF_IN(&router->below[n * router->words], flow->leaf)) {
        uint32_t link = choose_up(flow, n);

        if (link == MRAIL_FABRIC_NONE) {
            return -EHOSTUNREACH;
        }
        flow->parallel = parallel_number(fabric, link);
        route->links[route->num++] = MRAIL_ROUTE_UP(link);
        n = fabric->links[link].upper;
    }
    while (fabric->nodes[n].tier != MRAIL_FABRIC_LEAF) {
        uint32_t link = choose_down(flow, n);

        if (link == MRAIL_FABRIC_NONE) {
            return -EHOSTUNREACH;
        }
        route->links[route->num++] = MRAIL_ROUTE_DOWN(link);
        n = fabric->links[link].lower;
    }
    return 0;
}

int mrail_route_find(const mrail_router_t *router, uint32_t from, uint32_t to,
                     uint16_t sport, mrail_route_t *route_p)
{
    const mrail_fabric_t *fabric = router->fabric;
    uint32_t source = fabric->links[from].upper;
    uint32_t target = fabric->links[to].upper;
    mrail_route_t route = {.num = 0};
    flow_t flow = {.router = router,
                   .from = from,
                   .to = to,
                   .leaf = fabric->nodes[target].place,
                   .sport = sport,
                   .leaf_uplinks = fabric->nodes[source].num_up};
    int ret;

    assert(from != to);
    if (router->is_down[from] || router->is_down[to]) {
        return -EHOSTUNREACH;
    }
    route.links[route.num++] = MRAIL_ROUTE_UP(from);
    ret = cross_switches(&flow, source, &route);
    if (ret == 0) {
        route.links[route.num++] = MRAIL_ROUTE_DOWN(to);
        *route_p = route;
    }
    return ret;
}
