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
    /* Sets of leaves, by node. Over links that are up, `below` contains the
     * leaves reached over downward links alone, and `through` contains all
     * leaves reached. `above` is `below` with all links up. */
    uint64_t *below, *through, *above;
    uint32_t *place;    /* by link: position among the links that join the
                         * same two nodes */
    uint32_t *parallel; /* by node: largest number of links down to the same
                         * node */
};

#define LEAF_IN(_set, _leaf) (((_set)[(_leaf) / 64] >> ((_leaf) % 64)) & 1)
#define ANY_PLACE MRAIL_FABRIC_NONE

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

static void find_places(mrail_router_t *router)
{
    const mrail_fabric_t *fabric = router->fabric;

    for (uint32_t i = 0; i < fabric->num_links; ++i) {
        uint32_t *most = &router->parallel[fabric->links[i].upper];

        router->place[i] = mrail_fabric_place(fabric, i);
        *most = MRAIL_MAX(*most, router->place[i] + 1);
    }
}

static int router_alloc(mrail_router_t *router)
{
    const mrail_fabric_t *fabric = router->fabric;
    size_t size = fabric->num_nodes * router->words;

    router->is_down = calloc(fabric->num_links + 1, 1);
    router->below = calloc(size, sizeof(*router->below));
    router->through = calloc(size, sizeof(*router->through));
    router->above = calloc(size, sizeof(*router->above));
    router->place = calloc(fabric->num_links + 1, sizeof(*router->place));
    router->parallel = calloc(fabric->num_nodes, sizeof(*router->parallel));
    return (router->is_down == NULL || router->below == NULL ||
            router->through == NULL || router->above == NULL ||
            router->place == NULL || router->parallel == NULL)
               ? -ENOMEM
               : 0;
}

mrail_router_t *mrail_router_create(const mrail_fabric_t *fabric,
                                    mrail_route_mode_t mode, uint64_t seed)
{
    mrail_router_t *router = calloc(1, sizeof(*router));

    if (router == NULL) {
        return NULL;
    }
    *router =
        (mrail_router_t){.fabric = fabric,
                         .mode = mode,
                         .seed = seed,
                         .words = fabric->num_of[MRAIL_FABRIC_LEAF] / 64 + 1};
    if (router_alloc(router) != 0) {
        mrail_router_destroy(router);
        return NULL;
    }
    find_reach(router);
    memcpy(router->above, router->below,
           fabric->num_nodes * router->words * sizeof(*router->above));
    find_places(router);
    return router;
}

void mrail_router_destroy(mrail_router_t *router)
{
    if (router != NULL) {
        free(router->is_down);
        free(router->below);
        free(router->through);
        free(router->above);
        free(router->place);
        free(router->parallel);
        free(router);
    }
}

void mrail_router_link(mrail_router_t *router, uint32_t link, int is_up)
{
    router->is_down[link] = !is_up;
    find_reach(router);
}

int mrail_router_is_up(const mrail_router_t *router, uint32_t link)
{
    return !router->is_down[link];
}

/* ---- The choices of a switch, before any hash selects one ---- */

static int set_has(const mrail_router_t *router, const uint64_t *sets,
                   uint32_t node, uint32_t leaf)
{
    return (int)LEAF_IN(&sets[node * router->words], leaf);
}

int mrail_router_reaches(const mrail_router_t *router, uint32_t node,
                         uint32_t leaf)
{
    return set_has(router, router->through, node, leaf);
}

int mrail_router_is_local(const mrail_router_t *router, uint32_t node,
                          uint32_t leaf)
{
    return set_has(router, router->above, node, leaf);
}

uint32_t mrail_router_parallel(const mrail_router_t *router, uint32_t node)
{
    return (router->mode != MRAIL_ROUTE_ECMP &&
            router->fabric->nodes[node].tier > MRAIL_FABRIC_LEAF &&
            (router->parallel[node] > 1 ||
             router->mode == MRAIL_ROUTE_ETHEREAL))
               ? router->parallel[node]
               : 0;
}

int mrail_router_drops(const mrail_router_t *router)
{
    return router->mode == MRAIL_ROUTE_RULES_DROP ||
           router->mode == MRAIL_ROUTE_ETHEREAL;
}

/* Writes the live links up or down from which a path leads to the leaf. If
 * `place` is set, only links at this position count. Returns their number. */
static uint32_t find_hops(const mrail_router_t *router, uint32_t n,
                          uint32_t leaf, uint32_t place, int is_up,
                          uint32_t hops[MRAIL_ROUTE_MAX_CHOICES])
{
    const mrail_fabric_t *fabric = router->fabric;
    const mrail_fabric_node_t *node = &fabric->nodes[n];
    const uint64_t *sets = is_up ? router->through : router->below;
    const uint32_t *list = is_up ? node->up : node->down;
    uint32_t num = is_up ? node->num_up : node->num_down, count = 0;

    for (uint32_t i = 0; i < num && count < MRAIL_ROUTE_MAX_CHOICES; ++i) {
        const mrail_fabric_link_t *link = &fabric->links[list[i]];

        if (!router->is_down[list[i]] &&
            (place == ANY_PLACE || router->place[list[i]] == place) &&
            set_has(router, sets, is_up ? link->upper : link->lower, leaf)) {
            hops[count++] =
                is_up ? MRAIL_ROUTE_UP(list[i]) : MRAIL_ROUTE_DOWN(list[i]);
        }
    }
    return count;
}

uint32_t mrail_router_hops(const mrail_router_t *router, uint32_t node,
                           uint32_t leaf,
                           uint32_t hops[MRAIL_ROUTE_MAX_CHOICES])
{
    int is_up = !set_has(router, router->below, node, leaf);

    return find_hops(router, node, leaf, ANY_PLACE, is_up, hops);
}

int mrail_router_parallel_hops(const mrail_router_t *router, uint32_t n,
                               uint32_t leaf, uint32_t place,
                               uint32_t hops[MRAIL_ROUTE_MAX_CHOICES])
{
    const mrail_fabric_t *fabric = router->fabric;
    const mrail_fabric_node_t *node = &fabric->nodes[n];

    for (uint32_t i = 0; i < node->num_down; ++i) {
        if (router->place[node->down[i]] == place &&
            set_has(router, router->above, fabric->links[node->down[i]].lower,
                    leaf)) {
            return (int)find_hops(router, n, leaf, place, 0, hops);
        }
    }
    return -ENOENT;
}

/* ---- A flow ---- */

typedef struct flow {
    const mrail_router_t *router;
    uint32_t from, to; /* host links */
    uint32_t leaf;     /* index of the destination's leaf */
    uint16_t sport;
} flow_t;

/* Returns a switch's choice among `count` equal links, by a hash of the
 * addresses, the source port, and the switch's seed. Returns MRAIL_FABRIC_NONE
 * if `count` is 0. */
static uint32_t choose_by_hash(const flow_t *flow, uint32_t node,
                               const uint32_t *hops, uint32_t count)
{
    const mrail_fabric_link_t *links = flow->router->fabric->links;
    uint64_t addresses =
        ((uint64_t)links[flow->from].addr << 32) | links[flow->to].addr;
    uint64_t hash = mrail_mix64(flow->router->seed ^
                                mrail_mix64(node + UINT64_C(0x9e3779b9)));

    if (count == 0) {
        return MRAIL_FABRIC_NONE;
    }
    hash = mrail_mix64(hash ^ addresses);
    return hops[mrail_mix64(hash ^ flow->sport) % count];
}

/* Returns the uplink for the port's segment, or NONE if it is down or does not
 * lead to the destination. */
static uint32_t choose_by_rule(const flow_t *flow, uint32_t n)
{
    const mrail_router_t *router = flow->router;
    const mrail_fabric_t *fabric = router->fabric;
    const mrail_fabric_node_t *node = &fabric->nodes[n];
    unsigned leaf, spine;
    uint32_t link;

    if (node->tier == MRAIL_FABRIC_LEAF) {
        link = node->up[mrail_ports_segment_of(node->num_up, flow->sport)];
    } else {
        mrail_ports_segment_of_nested(mrail_fabric_leaf_uplinks(fabric, n),
                                      node->num_up, flow->sport, &leaf, &spine);
        link = node->up[spine];
    }
    return (!router->is_down[link] &&
            mrail_router_reaches(router, fabric->links[link].upper, flow->leaf))
               ? MRAIL_ROUTE_UP(link)
               : MRAIL_FABRIC_NONE;
}

/* Returns the position, among the links to the same spine, of the uplink that
 * the source port selects on the first leaf below a spine. */
static uint32_t place_of_segment(const mrail_router_t *router, uint32_t spine,
                                 uint16_t sport)
{
    const mrail_fabric_t *fabric = router->fabric;
    const mrail_fabric_node_t *leaf =
        &fabric->nodes[fabric->links[fabric->nodes[spine].down[0]].lower];

    return router->place[leaf->up[mrail_ports_segment_of(leaf->num_up, sport)]];
}

/* Returns the position of the parallel links that a switch prefers for a flow
 * that arrives on the directed link `in`, or ANY_PLACE. */
static uint32_t preferred_place(const flow_t *flow, uint32_t n, uint32_t in)
{
    const mrail_router_t *router = flow->router;

    if (mrail_router_parallel(router, n) == 0) {
        return ANY_PLACE;
    }
    if (in % 2 == 0) {
        return router->place[in / 2];
    }
    return (router->mode == MRAIL_ROUTE_ETHEREAL)
               ? place_of_segment(router, n, flow->sport)
               : ANY_PLACE;
}

/* Returns the directed link on which a switch sends a flow that arrives on
 * `in`, or MRAIL_FABRIC_NONE if it drops the flow. */
static uint32_t forward(const flow_t *flow, uint32_t n, uint32_t in)
{
    const mrail_router_t *router = flow->router;
    uint32_t hops[MRAIL_ROUTE_MAX_CHOICES];
    uint32_t place = preferred_place(flow, n, in), link;

    if (place != ANY_PLACE) {
        int num =
            mrail_router_parallel_hops(router, n, flow->leaf, place, hops);

        if (num > 0 || (num == 0 && mrail_router_drops(router))) {
            return choose_by_hash(flow, n, hops, (uint32_t)num);
        }
    }
    if (router->mode != MRAIL_ROUTE_ECMP && in % 2 == 0 &&
        router->fabric->nodes[n].num_up > 0 &&
        !mrail_router_is_local(router, n, flow->leaf)) {
        link = choose_by_rule(flow, n);
        if (link != MRAIL_FABRIC_NONE || mrail_router_drops(router)) {
            return link;
        }
    }
    return choose_by_hash(flow, n, hops,
                          mrail_router_hops(router, n, flow->leaf, hops));
}

int mrail_route_find(const mrail_router_t *router, uint32_t from, uint32_t to,
                     uint16_t sport, mrail_route_t *route_p)
{
    const mrail_fabric_link_t *links = router->fabric->links;
    uint32_t node = links[from].upper, target = links[to].upper;
    uint32_t link = MRAIL_ROUTE_UP(from);
    mrail_route_t route = {.num = 0};
    flow_t flow = {.router = router,
                   .from = from,
                   .to = to,
                   .leaf = router->fabric->nodes[target].place,
                   .sport = sport};

    assert(from != to);
    if (router->is_down[from] || router->is_down[to]) {
        return -EHOSTUNREACH;
    }
    route.links[route.num++] = link;
    while (node != target) {
        link = forward(&flow, node, link);
        if (link == MRAIL_FABRIC_NONE) {
            return -EHOSTUNREACH;
        }
        assert(route.num + 1 < MRAIL_ROUTE_MAX_HOPS);
        route.links[route.num++] = link;
        node = (link % 2 == 0) ? links[link / 2].upper : links[link / 2].lower;
    }
    route.links[route.num++] = MRAIL_ROUTE_DOWN(to);
    *route_p = route;
    return 0;
}
