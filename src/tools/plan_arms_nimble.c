/*
 * Implements the method NIMBLE. Source: [NIMBLE] IV-B, V-B. The ranks take
 * turns. Each rank routes a fraction of its remaining bytes over the path that
 * currently costs the least. The cost of a path is the cost of its most
 * expensive link, so any increasing function of the load orders paths without
 * relays in the same way.
 *
 * Where the paper leaves details open, this file makes the following choices.
 * The load of a link includes the bytes to be routed, because otherwise all
 * idle links would cost the same, even slow ones. The fraction is 1/4. A relay
 * raises the cost by the fraction 1 MB / (bytes of the demand). Demands of at
 * most 1 MB use only the relays that they need.
 */
#include "config.h"
#include "tools/plan_arms_priv.h"

#include "base/util.h"

#include <errno.h>
#include <stdlib.h>

#define SMALL 1e6 /* maximum bytes of a demand without extra relays */
#define FRACTION 0.25
/* A remainder of at most this many bytes is not divided. */
#define LEAST_INCREMENT 65536.0

typedef struct nimble_path {
    uint32_t links[2 * PLAN_ARMS_END_LINKS];
    unsigned num_links, num_relays;
    double cost;
} nimble_path_t;

typedef struct nimble_demand {
    const mrail_plan_demand_t *demand;
    double left;      /* bytes */
    double increment; /* bytes to be routed */
    plan_arms_kind_t kind;
    uint32_t rails;
} nimble_demand_t;

/* Returns the largest load of the links after adding `bytes`. */
static double largest_load(const plan_arms_net_t *net, const uint32_t *links,
                           unsigned num, double bytes)
{
    double most = 0;

    for (unsigned i = 0; i < num; ++i) {
        double load =
            (net->bytes[links[i]] + bytes) / net->links[links[i]].capacity;

        most = MRAIL_MAX(most, load);
    }
    return most;
}

/* Stores the better of two paths in *best. */
static void take_better(const plan_arms_net_t *net, const nimble_demand_t *d,
                        nimble_path_t *path, nimble_path_t *best)
{
    double bytes = (double)d->demand->bytes;
    int is_better;

    path->cost = largest_load(net, path->links, path->num_links, d->increment) *
                 (1 + path->num_relays * SMALL / bytes);
    is_better =
        path->cost < best->cost ||
        (path->cost <= best->cost && path->num_relays < best->num_relays);
    if (bytes <= SMALL && path->num_relays != best->num_relays) {
        is_better = path->num_relays < best->num_relays;
    }
    if (best->num_links == 0 || is_better) {
        *best = *path;
    }
}

/* Appends the links at one end of a path, over the least loaded relay if one is
 * necessary. */
static void add_end(const plan_arms_net_t *net, const nimble_demand_t *d,
                    unsigned way, unsigned rail, nimble_path_t *path)
{
    uint32_t rank = (way == PLAN_ARMS_OUT) ? d->demand->from : d->demand->to;
    size_t at = (size_t)rank * net->num_rails + rail;
    uint32_t *links = &path->links[path->num_links];
    uint32_t num = net->num_relays[way][at], best = rank;
    double least = 0;

    for (uint32_t i = 0; i < num; ++i) {
        uint32_t relay = net->relays[way][at * MRAIL_PLAN_MAX_RELAYS + i];
        double load = largest_load(
            net, links, plan_arms_net_end(net, way, rank, relay, rail, links),
            d->increment);

        if (i == 0 || load < least) {
            least = load;
            best = relay;
        }
    }
    path->num_links += plan_arms_net_end(net, way, rank, best, rail, links);
    path->num_relays += (num > 0);
}

static nimble_path_t best_rail(const plan_arms_net_t *net,
                               const nimble_demand_t *d)
{
    nimble_path_t best = {.num_links = 0};

    for (unsigned rail = 0; rail < net->num_rails; ++rail) {
        nimble_path_t path = {.num_links = 0};

        if ((d->rails >> rail) & 1) {
            add_end(net, d, PLAN_ARMS_OUT, rail, &path);
            add_end(net, d, PLAN_ARMS_IN, rail, &path);
            take_better(net, d, &path, &best);
        }
    }
    return best;
}

/* Returns the best of the direct path and the paths through a third rank. A
 * switch offers only the direct path ([NIMBLE] VII). */
static nimble_path_t best_inside(const plan_arms_net_t *net,
                                 const nimble_demand_t *d)
{
    uint32_t from = d->demand->from, to = d->demand->to;
    uint32_t node = mrail_plan_topo_node_of(net->topo, from);
    nimble_path_t best = {.num_links = 0}, path = {.num_links = 0};

    path.num_links = plan_arms_net_hop(net, from, to, path.links);
    if (path.num_links > 0) {
        take_better(net, d, &path, &best);
    }
    for (uint32_t i = net->first[node];
         path.num_links != 2 && i < net->first[node + 1]; ++i) {
        uint32_t third = net->ranks[i];
        nimble_path_t relayed = {.num_links = 2, .num_relays = 1};

        if (third != from && third != to &&
            plan_arms_net_hop(net, from, third, &relayed.links[0]) == 1 &&
            plan_arms_net_hop(net, third, to, &relayed.links[1]) == 1) {
            take_better(net, d, &relayed, &best);
        }
    }
    return best;
}

/* Routes the next increment of a demand. */
static void route_increment(plan_arms_net_t *net, nimble_demand_t *d)
{
    nimble_path_t path;

    d->increment = (d->left <= LEAST_INCREMENT) ? d->left : d->left * FRACTION;
    path =
        (d->kind == PLAN_ARMS_RAILS) ? best_rail(net, d) : best_inside(net, d);
    plan_arms_net_add(net, path.links, path.num_links, d->increment);
    net->relayed += d->increment * path.num_relays;
    d->left -= d->increment;
}

/* Lists the demands that are planned. Returns their number. */
static size_t list_demands(const plan_arms_net_t *net, nimble_demand_t *list,
                           plan_arm_t *arm)
{
    size_t num = 0;

    for (size_t i = 0; i < net->num_demands; ++i) {
        nimble_demand_t d = {.demand = &net->demands[i],
                             .left = (double)net->demands[i].bytes,
                             .kind = plan_arms_net_kind(net, i)};

        if (d.kind == PLAN_ARMS_NOT_PLANNED) {
            continue;
        }
        if (d.kind == PLAN_ARMS_RAILS) {
            d.rails = plan_arms_net_rails(net, d.demand);
            if (d.rails == 0) {
                plan_arm_no_rail(arm, d.demand);
                return 0;
            }
        }
        list[num++] = d;
    }
    return num;
}

int plan_arm_nimble(plan_arms_net_t *net, plan_arm_t *arm)
{
    nimble_demand_t *list = malloc((net->num_demands + 1) * sizeof(*list));
    size_t num;

    if (list == NULL) {
        return -ENOMEM;
    }
    num = list_demands(net, list, arm);
    while (num > 0) {
        size_t kept = 0;

        for (size_t i = 0; i < num; ++i) {
            route_increment(net, &list[i]);
            if (list[i].left > 0) {
                list[kept++] = list[i];
            }
        }
        num = kept;
    }
    arm->seconds = plan_arms_net_congestion(net);
    arm->relayed = net->relayed;
    free(list);
    return 0;
}
