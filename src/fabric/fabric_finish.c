/* Completes a fabric: builds adjacency lists, assigns addresses, and checks
 * that the network is complete. */
#include "config.h"
#include "fabric/fabric_internal.h"

#include <errno.h>
#include <stdlib.h>

/* ---- Adjacency ---- */

static int count_ports(fabric_builder_t *builder)
{
    for (uint32_t i = 0; i < builder->num_links; ++i) {
        mrail_fabric_link_t *link = &builder->links[i];
        mrail_fabric_node_t *lower = &builder->nodes[link->lower];
        mrail_fabric_node_t *upper = &builder->nodes[link->upper];

        if (lower->num_up == MRAIL_FABRIC_MAX_UPLINKS) {
            return FABRIC_FAIL(builder, builder->link_lines[i],
                               "'%s' has more than %d links to the tier above",
                               lower->name, MRAIL_FABRIC_MAX_UPLINKS);
        }
        link->lower_port = lower->num_up++;
        link->upper_port = upper->num_down++;
    }
    return 0;
}

/* Builds the adjacency lists. One array holds all lists, ordered by node; for
 * each node, `up` precedes `down`. */
static int build_lists(fabric_builder_t *builder)
{
    uint32_t *ports =
        calloc(2 * (size_t)builder->num_links + 1, sizeof(*ports));
    uint32_t *next = ports;

    if (ports == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < builder->num_nodes; ++i) {
        mrail_fabric_node_t *node = &builder->nodes[i];

        node->up = next;
        node->down = next += node->num_up;
        next += node->num_down;
    }
    for (uint32_t i = 0; i < builder->num_links; ++i) {
        const mrail_fabric_link_t *link = &builder->links[i];

        ports[builder->nodes[link->lower].up - ports + link->lower_port] = i;
        ports[builder->nodes[link->upper].down - ports + link->upper_port] = i;
    }
    return 0;
}

static int build_tiers(fabric_builder_t *builder, mrail_fabric_t *fabric)
{
    for (unsigned tier = 0; tier < MRAIL_FABRIC_NUM_TIERS; ++tier) {
        uint32_t *of = malloc((builder->num_nodes + 1) * sizeof(*of));

        if (of == NULL) {
            return -ENOMEM;
        }
        fabric->of[tier] = of;
        for (uint32_t i = 0; i < builder->num_nodes; ++i) {
            if (builder->nodes[i].tier == tier) {
                builder->nodes[i].place = fabric->num_of[tier];
                of[fabric->num_of[tier]++] = i;
            }
        }
    }
    return 0;
}

/* ---- Addresses ---- */

#define SUBNET(_addr) ((_addr) & ~0xffu)

/* Checks that all configured addresses of a leaf are in one /24 subnet that no
 * other leaf uses. */
static int check_subnet(fabric_builder_t *builder, uint32_t *subnets,
                        uint32_t i)
{
    const mrail_fabric_link_t *link = &builder->links[i];
    uint32_t *subnet = &subnets[link->upper], host = link->addr & 0xff;

    if (host < 2 || host == 255) {
        return FABRIC_FAIL(
            builder, builder->link_lines[i],
            "an address must end in .2 to .254; .1 belongs to the leaf");
    }
    if (*subnet != 0 && *subnet != SUBNET(link->addr)) {
        return FABRIC_FAIL(
            builder, builder->link_lines[i],
            "leaf '%s' has addresses in two subnets; all NICs of a leaf must "
            "be in one /24",
            builder->nodes[link->upper].name);
    }
    for (uint32_t node = 0; node < builder->num_nodes; ++node) {
        if (node != link->upper && subnets[node] == SUBNET(link->addr)) {
            return FABRIC_FAIL(builder, builder->link_lines[i],
                               "leaf '%s' also has this /24 subnet",
                               builder->nodes[node].name);
        }
    }
    *subnet = SUBNET(link->addr);
    return 0;
}

/* Returns the default subnet of a leaf. The subnet of leaf L is
 * 10.(L/256).(L%256).0/24, so all addresses differ. */
static uint32_t default_subnet(const mrail_fabric_node_t *leaf)
{
    return 0x0a000000u | (leaf->place << 8);
}

/* Returns the lowest address of the leaf that no NIC uses. */
static uint32_t free_addr(const fabric_builder_t *builder,
                          const mrail_fabric_node_t *leaf, uint32_t subnet)
{
    for (uint32_t host = 2; host < 255; ++host) {
        int is_used = 0;

        for (uint32_t i = 0; i < leaf->num_down && !is_used; ++i) {
            is_used = builder->links[leaf->down[i]].addr == (subnet | host);
        }
        if (!is_used) {
            return subnet | host;
        }
    }
    return 0;
}

static int check_addresses(fabric_builder_t *builder, uint32_t *subnets)
{
    for (uint32_t i = 0; i < builder->num_links; ++i) {
        const mrail_fabric_link_t *link = &builder->links[i];
        int ret = 0;

        if (link->addr == 0) {
            continue;
        }
        for (uint32_t j = 0; j < i; ++j) {
            if (builder->links[j].addr == link->addr) {
                return FABRIC_FAIL(
                    builder,
                    MRAIL_MAX(builder->link_lines[i], builder->link_lines[j]),
                    "'%s' and '%s' have the same address, %u.%u.%u.%u",
                    builder->nodes[builder->links[j].lower].name,
                    builder->nodes[link->lower].name, link->addr >> 24,
                    (link->addr >> 16) & 0xff, (link->addr >> 8) & 0xff,
                    link->addr & 0xff);
            }
        }
        ret = check_subnet(builder, subnets, i);
        if (ret != 0) {
            return ret;
        }
    }
    return 0;
}

static int assign_addresses(fabric_builder_t *builder, uint32_t *subnets)
{
    for (uint32_t node = 0; node < builder->num_nodes; ++node) {
        const mrail_fabric_node_t *leaf = &builder->nodes[node];
        uint32_t subnet = subnets[node];

        if (leaf->tier != MRAIL_FABRIC_LEAF) {
            continue;
        }
        if (leaf->num_down > MRAIL_FABRIC_MAX_NICS) {
            return FABRIC_FAIL(
                builder, builder->node_lines[node],
                "leaf '%s' has %u NICs; at most %d are supported", leaf->name,
                leaf->num_down, MRAIL_FABRIC_MAX_NICS);
        }
        if (subnet == 0) {
            subnet = default_subnet(leaf);
            for (uint32_t i = 0; i < builder->num_nodes; ++i) {
                if (subnets[i] == subnet) {
                    return FABRIC_FAIL(
                        builder, builder->node_lines[node],
                        "the default subnet of leaf '%s' is already used by "
                        "'%s'; add an address line for the former",
                        leaf->name, builder->nodes[i].name);
                }
            }
        }
        for (uint32_t i = 0; i < leaf->num_down; ++i) {
            mrail_fabric_link_t *link = &builder->links[leaf->down[i]];

            if (link->addr == 0) {
                link->addr = free_addr(builder, leaf, subnet);
            }
        }
    }
    return 0;
}

/* Assigns the indices of NICs. All leaves of a pod have the same spines, so the
 * first spine represents all of them. */
static void assign_indices(fabric_builder_t *builder, uint32_t *next)
{
    const mrail_fabric_t *fabric = builder->fabric;

    for (uint32_t l = 0; l < fabric->num_of[MRAIL_FABRIC_LEAF]; ++l) {
        const mrail_fabric_node_t *leaf =
            &builder->nodes[fabric->of[MRAIL_FABRIC_LEAF][l]];
        uint32_t spine = (leaf->num_up != 0) ? builder->links[leaf->up[0]].upper
                                             : MRAIL_FABRIC_NONE;
        int is_below_core =
            spine != MRAIL_FABRIC_NONE && builder->nodes[spine].num_up != 0;

        for (uint32_t i = 0; i < leaf->num_down; ++i) {
            mrail_fabric_link_t *link = &builder->links[leaf->down[i]];

            link->nic_index = is_below_core ? next[spine]++ : link->addr & 0xff;
        }
    }
}

static int finish_addresses(fabric_builder_t *builder)
{
    uint32_t *subnets = calloc(builder->num_nodes, sizeof(*subnets));
    int ret = -ENOMEM;

    if (subnets != NULL) {
        ret = check_addresses(builder, subnets);
    }
    if (ret == 0) {
        ret = assign_addresses(builder, subnets);
    }
    if (ret == 0) {
        memset(subnets, 0, builder->num_nodes * sizeof(*subnets));
        assign_indices(builder, subnets);
    }
    free(subnets);
    return ret;
}

/* ---- Completeness ---- */

/* Sets of leaves, by node. below[node] contains the leaves that the node
 * reaches over downward links alone; through[node] contains all leaves that it
 * reaches. */
typedef struct reach {
    size_t words;
    uint64_t *below, *through;
} reach_t;

#define REACH_HAS(_set, _leaf) (((_set)[(_leaf) / 64] >> ((_leaf) % 64)) & 1)

static void reach_merge(uint64_t *set, const uint64_t *other, size_t words)
{
    for (size_t i = 0; i < words; ++i) {
        set[i] |= other[i];
    }
}

static void reach_fill(reach_t *reach, const mrail_fabric_t *fabric)
{
    size_t words = reach->words;

    for (unsigned tier = MRAIL_FABRIC_LEAF; tier < MRAIL_FABRIC_NUM_TIERS;
         ++tier) {
        for (uint32_t i = 0; i < fabric->num_of[tier]; ++i) {
            uint32_t n = fabric->of[tier][i];
            const mrail_fabric_node_t *node = &fabric->nodes[n];

            if (tier == MRAIL_FABRIC_LEAF) {
                reach->below[n * words + i / 64] |= UINT64_C(1) << (i % 64);
                continue;
            }
            for (uint32_t port = 0; port < node->num_down; ++port) {
                reach_merge(
                    &reach->below[n * words],
                    &reach
                         ->below[fabric->links[node->down[port]].lower * words],
                    words);
            }
        }
    }
    for (unsigned tier = MRAIL_FABRIC_NUM_TIERS; tier-- > MRAIL_FABRIC_LEAF;) {
        for (uint32_t i = 0; i < fabric->num_of[tier]; ++i) {
            uint32_t n = fabric->of[tier][i];
            const mrail_fabric_node_t *node = &fabric->nodes[n];

            reach_merge(&reach->through[n * words], &reach->below[n * words],
                        words);
            for (uint32_t port = 0; port < node->num_up; ++port) {
                reach_merge(
                    &reach->through[n * words],
                    &reach
                         ->through[fabric->links[node->up[port]].upper * words],
                    words);
            }
        }
    }
}

/* Checks that rail `rail` of host `from` reaches rail `rail` of host `to`. */
static int check_pair(fabric_builder_t *builder, const reach_t *reach,
                      uint32_t from, uint32_t to)
{
    const mrail_fabric_t *fabric = builder->fabric;
    const mrail_fabric_node_t *leaf = &fabric->nodes[from];
    uint32_t place = fabric->nodes[to].place;

    if (!REACH_HAS(&reach->through[from * reach->words], place)) {
        return FABRIC_FAIL(builder, builder->node_lines[from],
                           "leaf '%s' does not reach leaf '%s', but both have "
                           "the same rail of hosts: a link is missing",
                           leaf->name, fabric->nodes[to].name);
    }
    for (uint32_t port = 0; port < leaf->num_up; ++port) {
        uint32_t spine = fabric->links[leaf->up[port]].upper;

        if (!REACH_HAS(&reach->through[spine * reach->words], place)) {
            return FABRIC_FAIL(
                builder, builder->link_lines[leaf->up[port]],
                "'%s' does not reach leaf '%s', which leaf '%s' reaches by "
                "other uplinks: a link is missing",
                fabric->nodes[spine].name, fabric->nodes[to].name, leaf->name);
        }
    }
    return 0;
}

/* Checks that leaves that serve the same rail of some hosts reach each other
 * through every uplink. */
static int check_rails(fabric_builder_t *builder, const reach_t *reach)
{
    const mrail_fabric_t *fabric = builder->fabric;
    const uint32_t *leaves = fabric->of[MRAIL_FABRIC_LEAF];
    uint32_t num = fabric->num_of[MRAIL_FABRIC_LEAF];
    /* Bit r (below 64) is set if the leaf serves rail r of some host. */
    uint64_t *rails = calloc(num + 1, sizeof(*rails));
    int ret = (rails == NULL) ? -ENOMEM : 0;

    for (uint32_t i = 0; i < fabric->num_links && ret == 0; ++i) {
        const mrail_fabric_link_t *link = &fabric->links[i];

        if (fabric->nodes[link->lower].tier == MRAIL_FABRIC_HOST) {
            rails[fabric->nodes[link->upper].place] |=
                UINT64_C(1) << MRAIL_MIN(link->lower_port, 63);
        }
    }
    for (uint32_t i = 0; i < num && ret == 0; ++i) {
        for (uint32_t j = 0; j < num && ret == 0; ++j) {
            if (i != j && (rails[i] & rails[j]) != 0) {
                ret = check_pair(builder, reach, leaves[i], leaves[j]);
            }
        }
    }
    free(rails);
    return ret;
}

static int check_links(fabric_builder_t *builder)
{
    const mrail_fabric_t *fabric = builder->fabric;

    for (uint32_t i = 0; i < fabric->num_nodes; ++i) {
        const mrail_fabric_node_t *node = &fabric->nodes[i];

        if (node->tier == MRAIL_FABRIC_HOST && node->num_up == 0) {
            return FABRIC_FAIL(builder, builder->node_lines[i],
                               "host '%s' has no link to a leaf", node->name);
        }
        if (node->tier > MRAIL_FABRIC_LEAF && node->num_down == 0) {
            return FABRIC_FAIL(builder, builder->node_lines[i],
                               "%s '%s' has no link to a node below",
                               mrail_fabric_tier_name(node->tier), node->name);
        }
    }
    return 0;
}

static int check_complete(fabric_builder_t *builder)
{
    const mrail_fabric_t *fabric = builder->fabric;
    size_t words = fabric->num_of[MRAIL_FABRIC_LEAF] / 64 + 1;
    size_t size = words * builder->num_nodes;
    reach_t reach = {.words = words};
    int ret = -ENOMEM;

    reach.below = calloc(size, sizeof(*reach.below));
    reach.through = calloc(size, sizeof(*reach.through));
    if (reach.below != NULL && reach.through != NULL) {
        reach_fill(&reach, fabric);
        ret = check_links(builder);
    }
    if (ret == 0) {
        ret = check_rails(builder, &reach);
    }
    free(reach.below);
    free(reach.through);
    return ret;
}

/* ---- Finish ---- */

/* Moves the builder's arrays to the fabric. */
static int take_arrays(fabric_builder_t *builder)
{
    mrail_fabric_t *fabric = calloc(1, sizeof(*fabric));
    int ret;

    if (fabric == NULL) {
        return -ENOMEM;
    }
    builder->fabric = fabric;
    ret = build_lists(builder);
    if (ret == 0) {
        ret = build_tiers(builder, fabric);
    }
    fabric->num_nodes = builder->num_nodes;
    fabric->num_links = builder->num_links;
    fabric->nodes = builder->nodes;
    fabric->links = builder->links;
    return ret;
}

int fabric_finish(fabric_builder_t *builder)
{
    unsigned end = builder->line->number;
    int ret;

    if (builder->num_links == 0) {
        return FABRIC_FAIL(
            builder, end,
            "a fabric needs at least one host, one leaf and a link between "
            "them");
    }
    ret = count_ports(builder);
    if (ret != 0) {
        return ret;
    }
    ret = take_arrays(builder);
    if (ret == 0) {
        ret = finish_addresses(builder);
    }
    if (ret == 0) {
        ret = check_complete(builder);
    }
    if (builder->fabric != NULL) {
        builder->nodes = NULL; /* the fabric owns them now */
        builder->links = NULL;
    }
    if (ret != 0) {
        mrail_fabric_destroy(builder->fabric);
    }
    return ret;
}
