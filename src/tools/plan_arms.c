/* The comparison methods with short algorithms; plan_arms_fast.c and
 * plan_arms_nimble.c contain the other methods. */
#include "config.h"
#include "tools/plan_arms.h"

#include "base/util.h"
#include "tools/plan_arms_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- direct ---- */

/* Returns the bytes that the baseline puts on all links of a kind. */
static double baseline_bytes(const plan_arms_net_t *net,
                             mrail_plan_link_kind_t kind)
{
    double sum = 0;

    for (unsigned i = 0; i < net->num_links; ++i) {
        sum += (net->links[i].kind == kind) ? net->links[i].bytes_before : 0;
    }
    return sum;
}

/* Returns the relayed bytes of the baseline. A path over a rail has one hop
 * between GPUs for each relay, and a path within a node has one hop more. */
static double baseline_relayed(const plan_arms_net_t *net, double planned)
{
    double hops = baseline_bytes(net, MRAIL_PLAN_GPU_LINK) +
                  baseline_bytes(net, MRAIL_PLAN_SWITCH_UP);
    double inside = planned - baseline_bytes(net, MRAIL_PLAN_RAIL_OUT);

    return MRAIL_MAX(hops - inside, 0);
}

/* The planner's baseline: each demand is sent undivided on one path with the
 * fewest relays. */
static int arm_direct(plan_arms_net_t *net, plan_arm_t *arm)
{
    mrail_plan_summary_t summary;

    mrail_plan_summary(net->plan, &summary);
    arm->seconds = summary.congestion_before;
    arm->relayed = baseline_relayed(net, summary.bytes);
    return 0;
}

/* ---- pairwise ---- */

/* Demands sorted by round, and the index at which each round begins. */
typedef struct rounds {
    mrail_plan_demand_t *demands;
    size_t *first; /* num_ranks + 1 entries */
} rounds_t;

/* Returns the round of a demand: in round k, rank i sends to rank i + k. */
static unsigned round_of(const plan_arms_net_t *net,
                         const mrail_plan_demand_t *demand)
{
    return (demand->to + net->num_ranks - demand->from) % net->num_ranks;
}

static int sort_rounds(const plan_arms_net_t *net, rounds_t *rounds)
{
    *rounds = (rounds_t){
        .demands = malloc((net->num_demands + 1) * sizeof(*rounds->demands)),
        .first = calloc(net->num_ranks + 2, sizeof(*rounds->first))};
    if (rounds->demands == NULL || rounds->first == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < net->num_demands; ++i) {
        ++rounds->first[round_of(net, &net->demands[i]) + 2];
    }
    for (unsigned k = 0; k < net->num_ranks; ++k) {
        rounds->first[k + 1] += rounds->first[k];
    }
    for (size_t i = 0; i < net->num_demands; ++i) {
        unsigned round = round_of(net, &net->demands[i]);

        rounds->demands[rounds->first[round + 1]++] = net->demands[i];
    }
    return 0;
}

/* Adds the time of a round: the largest load of its demands on the paths of the
 * method `direct`. */
static int add_round(mrail_plan_t *plan, const rounds_t *rounds, unsigned round,
                     plan_arm_t *arm)
{
    size_t first = rounds->first[round], end = rounds->first[round + 1];
    mrail_plan_summary_t summary;
    int ret;

    if (first == end) {
        return 0;
    }
    ret =
        mrail_plan_make(plan, &rounds->demands[first], end - first, 0, NULL, 0);
    if (ret != 0) {
        return ret;
    }
    mrail_plan_compare(plan);
    mrail_plan_summary(plan, &summary);
    arm->seconds += summary.congestion_before;
    arm->steps += (summary.congestion_before > 0);
    return 0;
}

static int arm_pairwise(plan_arms_net_t *net, plan_arm_t *arm)
{
    mrail_plan_options_t options = MRAIL_PLAN_DEFAULTS;
    mrail_plan_t *plan = NULL;
    rounds_t rounds;
    int ret;

    /* Only the baseline of these plans is used, so the plans need not be
     * optimal. */
    options.gap = options.relayed_gap = 1;
    options.relay_threshold = UINT64_MAX - 1;
    ret = sort_rounds(net, &rounds);
    if (ret == 0) {
        ret = mrail_plan_create(net->topo, &options, &plan);
    }
    for (unsigned round = 1; ret == 0 && round < net->num_ranks; ++round) {
        ret = add_round(plan, &rounds, round, arm);
    }
    if (ret == 0) {
        mrail_plan_summary_t summary;

        mrail_plan_summary(net->plan, &summary);
        arm->relayed = baseline_relayed(net, summary.bytes);
    }
    mrail_plan_destroy(plan);
    free(rounds.demands);
    free(rounds.first);
    return ret;
}

/* ---- RailS ---- */

/* Spreads each demand evenly over the rails that it can use. Source: [RailS],
 * whose uniform sending is optimal between equal NICs. */
static int arm_rails(plan_arms_net_t *net, plan_arm_t *arm)
{
    for (size_t i = 0; i < net->num_demands; ++i) {
        plan_arms_kind_t kind = plan_arms_net_kind(net, i);
        const mrail_plan_demand_t *demand = &net->demands[i];
        uint32_t rails;

        if (kind == PLAN_ARMS_LINKED || kind == PLAN_ARMS_RELAYED) {
            plan_arms_net_add_inside(net, i, kind);
        }
        if (kind != PLAN_ARMS_RAILS) {
            continue;
        }
        rails = plan_arms_net_rails(net, demand);
        if (rails == 0) {
            plan_arm_no_rail(arm, demand);
            return 0;
        }
        for (unsigned rail = 0; rail < net->num_rails; ++rail) {
            if ((rails >> rail) & 1) {
                plan_arms_net_add_rail(net, demand, rail,
                                       (double)demand->bytes /
                                           __builtin_popcount(rails));
            }
        }
    }
    arm->seconds = plan_arms_net_congestion(net);
    arm->relayed = net->relayed;
    return 0;
}

/* ---- SABRE ---- */

/* Returns the time that all NICs of a node together need for its bytes. */
static double nics_time(const plan_arms_net_t *net, unsigned way, unsigned node,
                        double bytes)
{
    double capacity = 0;

    for (unsigned rail = 0; rail < net->num_rails; ++rail) {
        uint32_t port = net->port[way][(size_t)node * net->num_rails + rail];

        capacity += (port != MRAIL_PLAN_NONE) ? net->links[port].capacity : 0;
    }
    return (bytes > 0) ? bytes / capacity : 0;
}

/* Computes the time of the node whose NICs need the most time. Unequal NICs are
 * loaded in proportion to their capacities, because the result would otherwise
 * not be a bound. Source: [SABRE]. */
static int arm_sabre(plan_arms_net_t *net, plan_arm_t *arm)
{
    double *bytes = calloc(2 * (size_t)net->num_nodes, sizeof(*bytes));

    if (bytes == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < net->num_demands; ++i) {
        const mrail_plan_demand_t *d = &net->demands[i];

        if (plan_arms_net_kind(net, i) == PLAN_ARMS_RAILS) {
            bytes[mrail_plan_topo_node_of(net->topo, d->from)] +=
                (double)d->bytes;
            bytes[net->num_nodes + mrail_plan_topo_node_of(net->topo, d->to)] +=
                (double)d->bytes;
        }
    }
    for (unsigned i = 0; i < 2 * net->num_nodes; ++i) {
        double time =
            nics_time(net, i / net->num_nodes, i % net->num_nodes, bytes[i]);

        arm->seconds = MRAIL_MAX(arm->seconds, time);
    }
    arm->relayed = -1;
    free(bytes);
    return 0;
}

/* ---- All methods ---- */

typedef struct arm_ops {
    const char *name, *source;
    int (*compute)(plan_arms_net_t *net, plan_arm_t *arm);
    int is_bound;
    int needs_one_group; /* 1 if the method models neither leaf groups nor
                          * uplinks */
} arm_ops_t;

static const arm_ops_t all_arms[PLAN_NUM_ARMS] = {
    [PLAN_ARM_DIRECT] = {"direct", "mrail-plan(3)", arm_direct, 0, 0},
    [PLAN_ARM_PAIRWISE] = {"pairwise", "[Thakur]", arm_pairwise, 0, 0},
    [PLAN_ARM_RAILS] = {"RailS", "[RailS]", arm_rails, 0, 1},
    [PLAN_ARM_SABRE] = {"SABRE", "[SABRE]", arm_sabre, 1, 0},
    [PLAN_ARM_FAST] = {"FAST", "[FAST]", plan_arm_fast, 0, 1},
    [PLAN_ARM_NIMBLE] = {"NIMBLE", "[NIMBLE]", plan_arm_nimble, 0, 1}};

const char *plan_arm_name(plan_arm_id_t id)
{
    return all_arms[id].name;
}

const char *plan_arm_source(plan_arm_id_t id)
{
    return all_arms[id].source;
}

int plan_arm_is_bound(plan_arm_id_t id)
{
    return all_arms[id].is_bound;
}

static int compute(plan_arms_net_t *net, const arm_ops_t *ops, plan_arm_t *arm)
{
    int ret;

    *arm = (plan_arm_t){0};
    if (ops->needs_one_group && net->num_leaf_groups > 1) {
        snprintf(arm->reason, sizeof(arm->reason),
                 "the nodes are in several leaf groups, but the method "
                 "does not model uplinks");
        return 0;
    }
    plan_arms_net_clear(net);
    ret = ops->compute(net, arm);
    if (arm->reason[0] != '\0') {
        arm->seconds = arm->relayed = 0;
        arm->steps = 0;
    }
    return ret;
}

int plan_arms_compare(const mrail_plan_topo_t *topo, const mrail_plan_t *plan,
                      const mrail_plan_demand_t *demands, size_t num_demands,
                      plan_arm_t arms[PLAN_NUM_ARMS])
{
    plan_arm_t computed[PLAN_NUM_ARMS];
    plan_arms_net_t net;
    int ret = plan_arms_net_init(&net, topo, plan, demands, num_demands);

    if (ret != 0) {
        return ret;
    }
    for (unsigned id = 0; ret == 0 && id < PLAN_NUM_ARMS; ++id) {
        ret = compute(&net, &all_arms[id], &computed[id]);
    }
    plan_arms_net_cleanup(&net);
    if (ret == 0) {
        memcpy(arms, computed, sizeof(computed));
    }
    return ret;
}
