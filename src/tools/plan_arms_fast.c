/*
 * Implements the method FAST. Source: [FAST]. The bytes between two nodes are
 * first split evenly across the rails, so that the NICs of a node are equally
 * loaded. Then stages follow, in which each node sends to at most one node and
 * receives from at most one node (plan_arms_stages.c). The traffic within nodes
 * overlaps with the stages.
 */
#include "config.h"
#include "tools/plan_arms_priv.h"

#include "base/util.h"

#include <errno.h>
#include <stdlib.h>

/* A demand between two nodes. */
typedef struct entry {
    size_t tile; /* sending node * num_nodes + receiving node */
    const mrail_plan_demand_t *demand;
    double left; /* bytes that are not assigned to a rail yet */
} entry_t;

typedef struct fast {
    entry_t *entries;
    size_t num_entries;
    uint64_t *bytes;          /* by tile */
    double *seconds_per_byte; /* by tile */
} fast_t;

static int compare_entries(const void *a, const void *b)
{
    const entry_t *x = a, *y = b;

    if (x->tile != y->tile) {
        return (x->tile > y->tile) - (x->tile < y->tile);
    }
    return (x->demand > y->demand) - (x->demand < y->demand);
}

/* Lists the demands between nodes, by tile, and adds all other demands to the
 * net. */
static void list_entries(plan_arms_net_t *net, fast_t *fast, plan_arm_t *arm)
{
    for (size_t i = 0; i < net->num_demands; ++i) {
        const mrail_plan_demand_t *d = &net->demands[i];
        plan_arms_kind_t kind = plan_arms_net_kind(net, i);
        size_t from = mrail_plan_topo_node_of(net->topo, d->from);
        size_t to = mrail_plan_topo_node_of(net->topo, d->to);

        if (kind == PLAN_ARMS_LINKED || kind == PLAN_ARMS_RELAYED) {
            plan_arms_net_add_inside(net, i, kind);
        } else if (kind == PLAN_ARMS_RAILS && from == to) {
            snprintf(
                arm->reason, sizeof(arm->reason),
                "rank %u and rank %u are on one node and use rails, but stages "
                "are only between nodes",
                d->from, d->to);
            return;
        } else if (kind == PLAN_ARMS_RAILS) {
            fast->entries[fast->num_entries++] =
                (entry_t){.tile = from * net->num_nodes + to,
                          .demand = d,
                          .left = (double)d->bytes};
        }
    }
    qsort(fast->entries, fast->num_entries, sizeof(*fast->entries),
          compare_entries);
}

/* Assigns bytes of an entry to rails with free capacity. `relays` selects the
 * rails: bit 1 is set if the sender needs a relay, and bit 0 if the receiver
 * needs one. */
static void fill_rails(plan_arms_net_t *net, entry_t *entry, uint32_t rails,
                       unsigned relays, double *residual)
{
    const mrail_plan_demand_t *d = entry->demand;

    for (unsigned rail = 0; rail < net->num_rails; ++rail) {
        unsigned needs = 2u * !plan_arms_net_reaches(net, d->from, rail) +
                         !plan_arms_net_reaches(net, d->to, rail);
        double bytes = MRAIL_MIN(entry->left, residual[rail]);

        if (((rails >> rail) & 1) && needs == relays && bytes > 0) {
            plan_arms_net_add_rail(net, d, rail, bytes);
            entry->left -= bytes;
            residual[rail] -= bytes;
        }
    }
}

/* Divides the bytes of a tile evenly over the rails. The senders keep as many
 * bytes as their own rails can carry, and move the rest to other GPUs of the
 * node. */
static void balance(plan_arms_net_t *net, entry_t *entries, size_t num,
                    uint32_t rails, double bytes)
{
    double residual[MRAIL_PLAN_MAX_RAILS];

    for (unsigned rail = 0; rail < net->num_rails; ++rail) {
        residual[rail] = bytes / __builtin_popcount(rails);
    }
    for (unsigned relays = 0; relays < 4; ++relays) {
        for (size_t i = 0; i < num; ++i) {
            fill_rails(net, &entries[i], rails, relays, residual);
        }
    }
    /* Ignore rounding errors. */
    for (size_t i = 0; i < num; ++i) {
        if (entries[i].left > 0) {
            plan_arms_net_add_rail(net, entries[i].demand,
                                   (unsigned)__builtin_ctz(rails),
                                   entries[i].left);
        }
    }
}

/* Returns the time per byte between two nodes if bytes are divided evenly over
 * these rails: the time of the slowest rail. */
static double byte_time(const plan_arms_net_t *net, size_t tile, uint32_t rails)
{
    const size_t node[] = {tile / net->num_nodes, tile % net->num_nodes};
    double slowest = MRAIL_PLAN_MAX_CAPACITY;

    for (unsigned i = 0; i < 2 * net->num_rails; ++i) {
        unsigned rail = i / 2, way = i % 2;

        if ((rails >> rail) & 1) {
            uint32_t port = net->port[way][node[way] * net->num_rails + rail];

            slowest = MRAIL_MIN(slowest, net->links[port].capacity);
        }
    }
    return 1 / (slowest * __builtin_popcount(rails));
}

/* Balances all tiles. */
static void balance_tiles(plan_arms_net_t *net, fast_t *fast, plan_arm_t *arm)
{
    size_t first = 0, end;

    for (; first < fast->num_entries && arm->reason[0] == '\0'; first = end) {
        size_t tile = fast->entries[first].tile;
        uint32_t rails = UINT32_MAX;

        for (end = first; end < fast->num_entries &&
                          fast->entries[end].tile == tile && rails != 0;
             ++end) {
            const mrail_plan_demand_t *d = fast->entries[end].demand;

            rails &= plan_arms_net_rails(net, d);
            fast->bytes[tile] += d->bytes;
            if (rails == 0) {
                plan_arm_no_rail(arm, d);
            }
        }
        if (rails != 0) {
            balance(net, &fast->entries[first], end - first, rails,
                    (double)fast->bytes[tile]);
            fast->seconds_per_byte[tile] = byte_time(net, tile, rails);
        }
    }
}

static int compute(plan_arms_net_t *net, fast_t *fast, plan_arm_t *arm)
{
    double congestion;
    int ret;

    list_entries(net, fast, arm);
    balance_tiles(net, fast, arm);
    if (arm->reason[0] != '\0') {
        return 0;
    }
    ret = plan_arms_stages(fast->bytes, fast->seconds_per_byte, net->num_nodes,
                           &arm->seconds, &arm->steps);
    congestion = plan_arms_net_congestion(net);
    arm->seconds = MRAIL_MAX(arm->seconds, congestion);
    arm->relayed = net->relayed;
    return ret;
}

int plan_arm_fast(plan_arms_net_t *net, plan_arm_t *arm)
{
    size_t tiles = (size_t)net->num_nodes * net->num_nodes;
    fast_t fast = {0};
    int ret = -ENOMEM;

    if (net->num_nodes > PLAN_ARMS_MAX_STAGE_NODES) {
        snprintf(
            arm->reason, sizeof(arm->reason),
            "there are %u nodes, but stages can be computed for at most %u",
            net->num_nodes, PLAN_ARMS_MAX_STAGE_NODES);
        return 0;
    }
    fast.entries = malloc((net->num_demands + 1) * sizeof(*fast.entries));
    fast.bytes = calloc(tiles, sizeof(*fast.bytes));
    fast.seconds_per_byte = calloc(tiles, sizeof(*fast.seconds_per_byte));
    if (fast.entries != NULL && fast.bytes != NULL &&
        fast.seconds_per_byte != NULL) {
        ret = compute(net, &fast, arm);
    }
    free(fast.entries);
    free(fast.bytes);
    free(fast.seconds_per_byte);
    return ret;
}
