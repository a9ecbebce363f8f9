/* The model of links that the comparison methods use. */
#include "config.h"
#include "tools/plan_arms_net.h"

#include "base/util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NONE MRAIL_PLAN_NONE
#define SIDE MRAIL_PLAN_MAX_PAIRWISE

/* ---- Memory ---- */

/* An array in `words`: its pointer and its length. */
typedef struct part {
    uint32_t **array_p;
    size_t length;
} part_t;

/* Allocates all arrays, filled with MRAIL_PLAN_NONE. */
static int allocate_words(plan_arms_net_t *net)
{
    size_t ports = (size_t)net->num_nodes * net->num_rails;
    size_t ends = (size_t)net->num_ranks * net->num_rails, total = 0;
    const part_t parts[] = {{&net->port[0], ports},
                            {&net->port[1], ports},
                            {&net->reach[0], ends},
                            {&net->reach[1], ends},
                            {&net->to_switch[0], net->num_ranks},
                            {&net->to_switch[1], net->num_ranks},
                            {&net->gpu_link, (size_t)net->num_ranks * SIDE},
                            {&net->place, net->num_ranks},
                            {&net->first, net->num_nodes + 1},
                            {&net->ranks, net->num_ranks},
                            {&net->num_relays[0], ends},
                            {&net->num_relays[1], ends},
                            {&net->relays[0], ends * MRAIL_PLAN_MAX_RELAYS},
                            {&net->relays[1], ends * MRAIL_PLAN_MAX_RELAYS}};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(parts); ++i) {
        total += parts[i].length;
    }
    net->words = malloc(total * sizeof(*net->words));
    if (net->words == NULL) {
        return -ENOMEM;
    }
    memset(net->words, 0xff, total * sizeof(*net->words));
    total = 0;
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(parts); ++i) {
        *parts[i].array_p = net->words + total;
        total += parts[i].length;
    }
    return 0;
}

/* ---- Ranks and links ---- */

/* Sorts the ranks by node. */
static void sort_ranks(plan_arms_net_t *net)
{
    memset(net->first, 0, (net->num_nodes + 1) * sizeof(*net->first));
    for (uint32_t rank = 0; rank < net->num_ranks; ++rank) {
        net->place[rank] =
            net->first[mrail_plan_topo_node_of(net->topo, rank) + 1]++;
    }
    for (uint32_t node = 0; node < net->num_nodes; ++node) {
        net->first[node + 1] += net->first[node];
    }
    for (uint32_t rank = 0; rank < net->num_ranks; ++rank) {
        uint32_t node = mrail_plan_topo_node_of(net->topo, rank);

        net->ranks[net->first[node] + net->place[rank]] = rank;
    }
}

/* Returns the address at which the number of a link is stored, or NULL for
 * uplinks, which the methods do not use. */
static uint32_t *place_of(plan_arms_net_t *net, const mrail_plan_link_t *link)
{
    size_t rail_at = (size_t)link->a * net->num_rails + link->b;

    switch (link->kind) {
    case MRAIL_PLAN_RAIL_OUT:
        return &net->port[PLAN_ARMS_OUT][rail_at];
    case MRAIL_PLAN_RAIL_IN:
        return &net->port[PLAN_ARMS_IN][rail_at];
    case MRAIL_PLAN_REACH_OUT:
        return &net->reach[PLAN_ARMS_OUT][rail_at];
    case MRAIL_PLAN_REACH_IN:
        return &net->reach[PLAN_ARMS_IN][rail_at];
    case MRAIL_PLAN_SWITCH_UP:
        return &net->to_switch[PLAN_ARMS_OUT][link->a];
    case MRAIL_PLAN_SWITCH_DOWN:
        return &net->to_switch[PLAN_ARMS_IN][link->a];
    case MRAIL_PLAN_GPU_LINK:
        return &net->gpu_link[(size_t)link->a * SIDE + net->place[link->b]];
    default:
        return NULL;
    }
}

static void read_links(plan_arms_net_t *net)
{
    for (uint32_t i = 0; i < net->num_links; ++i) {
        uint32_t *place_p;

        mrail_plan_link(net->plan, i, &net->links[i]);
        place_p = place_of(net, &net->links[i]);
        if (place_p != NULL && net->links[i].capacity > 0) {
            *place_p = i;
        }
    }
}

static void count_leaf_groups(plan_arms_net_t *net)
{
    net->num_leaf_groups = 1;
    for (unsigned node = 1; node < net->num_nodes; ++node) {
        if (mrail_plan_topo_leaf_group_of(net->topo, node) !=
            mrail_plan_topo_leaf_group_of(net->topo, 0)) {
            net->num_leaf_groups = 2;
        }
    }
}

/* ---- Relays ---- */

int plan_arms_net_reaches(const plan_arms_net_t *net, uint32_t rank,
                          unsigned rail)
{
    return (mrail_plan_topo_rails_of(net->topo, rank) >> rail) & 1;
}

/* Lists the relays of a rank for a rail in the order of the planner, which
 * begins after the rank's own index. Relays are the ranks of its node that
 * reach the rail and to which it has a link. The planner's bound covers only
 * these relays. */
static void list_relays(plan_arms_net_t *net, uint32_t rank, unsigned rail,
                        const uint32_t *all, uint32_t num)
{
    size_t at = (size_t)rank * net->num_rails + rail;

    for (unsigned way = 0; way < PLAN_ARMS_WAYS; ++way) {
        uint32_t *relays = &net->relays[way][at * MRAIL_PLAN_MAX_RELAYS];
        uint32_t count = 0;

        for (uint32_t i = 0; i < num && count < MRAIL_PLAN_MAX_RELAYS; ++i) {
            uint32_t relay = all[(net->place[rank] + i) % num];

            if ((way == PLAN_ARMS_OUT)
                    ? plan_arms_net_is_linked(net, rank, relay)
                    : plan_arms_net_is_linked(net, relay, rank)) {
                relays[count++] = relay;
            }
        }
        net->num_relays[way][at] = count;
    }
}

static int find_relays(plan_arms_net_t *net)
{
    uint32_t *all = malloc(net->num_ranks * sizeof(*all));

    if (all == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < net->num_nodes * net->num_rails; ++i) {
        uint32_t node = i / net->num_rails, rail = i % net->num_rails, num = 0;

        for (uint32_t r = net->first[node]; r < net->first[node + 1]; ++r) {
            if (plan_arms_net_reaches(net, net->ranks[r], rail)) {
                all[num++] = net->ranks[r];
            }
        }
        for (uint32_t r = net->first[node]; r < net->first[node + 1]; ++r) {
            if (plan_arms_net_reaches(net, net->ranks[r], rail)) {
                size_t at = (size_t)net->ranks[r] * net->num_rails + rail;

                net->num_relays[PLAN_ARMS_OUT][at] = 0;
                net->num_relays[PLAN_ARMS_IN][at] = 0;
            } else {
                list_relays(net, net->ranks[r], rail, all, num);
            }
        }
    }
    free(all);
    return 0;
}

/* ---- Creation ---- */

int plan_arms_net_init(plan_arms_net_t *net, const mrail_plan_topo_t *topo,
                       const mrail_plan_t *plan,
                       const mrail_plan_demand_t *demands, size_t num_demands)
{
    *net = (plan_arms_net_t){.topo = topo,
                             .plan = plan,
                             .demands = demands,
                             .num_demands = num_demands,
                             .num_nodes = mrail_plan_topo_num_nodes(topo),
                             .num_rails = mrail_plan_topo_num_rails(topo),
                             .num_ranks = mrail_plan_topo_num_ranks(topo),
                             .num_links = mrail_plan_num_links(plan)};
    net->links = calloc(net->num_links, sizeof(*net->links));
    net->bytes = calloc(net->num_links, sizeof(*net->bytes));
    if (net->links == NULL || net->bytes == NULL || allocate_words(net) != 0) {
        goto err_cleanup;
    }
    sort_ranks(net);
    read_links(net);
    count_leaf_groups(net);
    if (net->num_ranks > 0 && find_relays(net) != 0) {
        goto err_cleanup;
    }
    return 0;

err_cleanup:
    plan_arms_net_cleanup(net);
    return -ENOMEM;
}

void plan_arms_net_cleanup(plan_arms_net_t *net)
{
    free(net->links);
    free(net->bytes);
    free(net->words);
    *net = (plan_arms_net_t){0};
}

void plan_arms_net_clear(plan_arms_net_t *net)
{
    memset(net->bytes, 0, net->num_links * sizeof(*net->bytes));
    net->relayed = 0;
}

/* ---- Paths ---- */

unsigned plan_arms_net_hop(const plan_arms_net_t *net, uint32_t from,
                           uint32_t to, uint32_t links[2])
{
    links[0] = net->to_switch[PLAN_ARMS_OUT][from];
    links[1] = net->to_switch[PLAN_ARMS_IN][to];
    if (links[0] != NONE && links[1] != NONE) {
        return 2;
    }
    if (net->place[to] >= SIDE) {
        return 0;
    }
    links[0] = net->gpu_link[(size_t)from * SIDE + net->place[to]];
    return links[0] != NONE;
}

int plan_arms_net_is_linked(const plan_arms_net_t *net, uint32_t from,
                            uint32_t to)
{
    uint32_t links[2];

    return plan_arms_net_hop(net, from, to, links) > 0;
}

unsigned plan_arms_net_end(const plan_arms_net_t *net, unsigned way,
                           uint32_t rank, uint32_t at, unsigned rail,
                           uint32_t links[PLAN_ARMS_END_LINKS])
{
    uint32_t node = mrail_plan_topo_node_of(net->topo, rank);
    uint32_t limit = net->reach[way][(size_t)at * net->num_rails + rail];
    unsigned num = 0;

    links[num++] = net->port[way][(size_t)node * net->num_rails + rail];
    if (limit != NONE) {
        links[num++] = limit;
    }
    if (at != rank) {
        num += (way == PLAN_ARMS_OUT)
                   ? plan_arms_net_hop(net, rank, at, &links[num])
                   : plan_arms_net_hop(net, at, rank, &links[num]);
    }
    return num;
}

/* Returns whether a rank can use a rail in one direction. */
static int is_usable(const plan_arms_net_t *net, unsigned way, uint32_t rank,
                     unsigned rail)
{
    uint32_t node = mrail_plan_topo_node_of(net->topo, rank);

    return net->port[way][(size_t)node * net->num_rails + rail] != NONE &&
           (plan_arms_net_reaches(net, rank, rail) ||
            net->num_relays[way][(size_t)rank * net->num_rails + rail] > 0);
}

uint32_t plan_arms_net_rails(const plan_arms_net_t *net,
                             const mrail_plan_demand_t *demand)
{
    uint32_t rails = 0;

    for (unsigned rail = 0; rail < net->num_rails; ++rail) {
        if (is_usable(net, PLAN_ARMS_OUT, demand->from, rail) &&
            is_usable(net, PLAN_ARMS_IN, demand->to, rail)) {
            rails |= 1u << rail;
        }
    }
    return rails;
}

plan_arms_kind_t plan_arms_net_kind(const plan_arms_net_t *net, size_t demand)
{
    const mrail_plan_demand_t *d = &net->demands[demand];
    mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];

    if (d->bytes == 0 || d->from == d->to) {
        return PLAN_ARMS_NOT_PLANNED;
    }
    if (mrail_plan_topo_node_of(net->topo, d->from) !=
        mrail_plan_topo_node_of(net->topo, d->to)) {
        return PLAN_ARMS_RAILS;
    }
    if (plan_arms_net_is_linked(net, d->from, d->to)) {
        return PLAN_ARMS_LINKED;
    }
    if (mrail_plan_pieces(net->plan, demand, pieces) == 0) {
        return PLAN_ARMS_NOT_PLANNED;
    }
    return (pieces[0].rail_out == NONE) ? PLAN_ARMS_RELAYED : PLAN_ARMS_RAILS;
}

/* ---- Bytes ---- */

void plan_arms_net_add(plan_arms_net_t *net, const uint32_t *links,
                       unsigned num, double bytes)
{
    for (unsigned i = 0; i < num; ++i) {
        net->bytes[links[i]] += bytes;
    }
}

static void add_end(plan_arms_net_t *net, unsigned way, uint32_t rank,
                    unsigned rail, double bytes)
{
    size_t at = (size_t)rank * net->num_rails + rail;
    uint32_t links[PLAN_ARMS_END_LINKS], num = net->num_relays[way][at];

    if (num == 0) {
        plan_arms_net_add(net, links,
                          plan_arms_net_end(net, way, rank, rank, rail, links),
                          bytes);
        return;
    }
    for (uint32_t i = 0; i < num; ++i) {
        uint32_t relay = net->relays[way][at * MRAIL_PLAN_MAX_RELAYS + i];

        plan_arms_net_add(net, links,
                          plan_arms_net_end(net, way, rank, relay, rail, links),
                          bytes / num);
    }
    net->relayed += bytes;
}

void plan_arms_net_add_rail(plan_arms_net_t *net,
                            const mrail_plan_demand_t *demand, unsigned rail,
                            double bytes)
{
    add_end(net, PLAN_ARMS_OUT, demand->from, rail, bytes);
    add_end(net, PLAN_ARMS_IN, demand->to, rail, bytes);
}

static void add_hop(plan_arms_net_t *net, uint32_t from, uint32_t to,
                    double bytes)
{
    uint32_t links[2];

    plan_arms_net_add(net, links, plan_arms_net_hop(net, from, to, links),
                      bytes);
}

void plan_arms_net_add_inside(plan_arms_net_t *net, size_t demand,
                              plan_arms_kind_t kind)
{
    const mrail_plan_demand_t *d = &net->demands[demand];
    mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];
    unsigned num;

    if (kind == PLAN_ARMS_LINKED) {
        add_hop(net, d->from, d->to, (double)d->bytes);
        return;
    }
    num = mrail_plan_pieces(net->plan, demand, pieces);
    for (unsigned i = 0; i < num; ++i) {
        double bytes = (double)pieces[i].bytes;

        add_hop(net, d->from, pieces[i].relay_out, bytes);
        add_hop(net, pieces[i].relay_out, d->to, bytes);
        net->relayed += bytes;
    }
}

/* ---- Loads ---- */

double plan_arms_net_congestion(const plan_arms_net_t *net)
{
    double most = 0;

    for (uint32_t i = 0; i < net->num_links; ++i) {
        if (net->bytes[i] > 0) {
            most = MRAIL_MAX(most, net->bytes[i] / net->links[i].capacity);
        }
    }
    return most;
}
