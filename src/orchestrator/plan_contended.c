/*
 * Plans many demands of single-rail ranks. Each demand takes its direct path
 * undivided, unless this path has a contended link. Only the demands over
 * contended links are divided; all other demands are fixed loads.
 *
 * The method works if the minimum congestion is the load of a cut: all ports of
 * a node, or the port and GPU links of a rank. Otherwise, all demands are
 * divided together.
 */
#include "config.h"
#include "plan_internal.h"

#include "digest.h"

#include "base/grow.h"
#include "base/util.h"

#include <errno.h>
#include <string.h>

#define MAX_FIT_ITERATIONS 400
/* With fewer demands, dividing all of them together is as fast. */
#define MIN_DEMANDS 1000
/* With more contended demands, all demands are divided together. */
#define MAX_CONTENDED 20000
#define RELAYED_TOLERANCE 1e-4
/* Factor by which each relay reduces a lane's weight: e^-10, as in
 * flows_search.c. */
#define RELAY_WEIGHT 4.5399929762484854e-5

static int contended_grow(mrail_plan_t *plan)
{
    plan_division_t *next = &plan->next;
    int ret = mrail_plan_grow_demands(next, next->num_demands);

    if ((ret == 0) && (next->num_demands > plan->direct_allocated)) {
        if (!mrail_grow(&plan->direct, next->num_demands,
                        sizeof(*plan->direct))) {
            return -ENOMEM;
        }
        plan->direct_allocated = next->num_demands;
    }
    return ret;
}

/* Adds the bytes of a demand to link_base. The demand has another path with
 * equally few relays. */
static void contended_add_undecided(mrail_plan_t *plan,
                                    const plan_direct_t *direct, double bytes)
{
    const mrail_flows_slot_t *slots = mrail_routes_slots(plan->routes);
    size_t lanes = mrail_routes_num_lanes(plan->routes);

    for (unsigned i = 0; i < 2 * MRAIL_FLOWS_SLOT_LINKS; ++i) {
        const mrail_flows_slot_t *slot =
            &slots[direct->route.row[i / MRAIL_FLOWS_SLOT_LINKS] * lanes +
                   direct->lane];
        uint32_t link = slot->link[i % MRAIL_FLOWS_SLOT_LINKS];

        if (link != MRAIL_FLOWS_NO_LINK) {
            plan->link_base[link] += bytes;
        }
    }
}

/* Puts all demands on their direct paths. Computes the bytes of slots and the
 * digest. Returns 0, or -ERANGE, which also covers invalid demands. */
static int contended_place_direct(mrail_plan_t *plan)
{
    plan_division_t *next = &plan->next;
    uint64_t total = 0, digest = 0;

    mrail_loads_clear(plan);
    memset(plan->link_base, 0,
           mrail_routes_num_links(plan->routes) * sizeof(*plan->link_base));
    memset(plan->rank_bytes, 0,
           2 * (size_t)plan->num_ranks * sizeof(*plan->rank_bytes));
    for (size_t i = 0; i < next->num_demands; ++i) {
        const mrail_plan_demand_t *demand = &next->demands[i];
        plan_direct_t *direct = &plan->direct[i];
        int ret = 0;

        if ((demand->from >= plan->num_ranks) ||
            (demand->to >= plan->num_ranks) ||
            (demand->bytes > MRAIL_PLAN_MAX_BYTES - total)) {
            return -ERANGE;
        }
        total += demand->bytes;
        digest += mrail_digest_demand(demand, i);
        next->group_of[i] = MRAIL_PLAN_NONE;
        if ((demand->bytes > 0) && (demand->from != demand->to)) {
            ret = mrail_routes_find(
                plan->routes, demand->from, demand->to,
                demand->bytes <= plan->options.relay_threshold, &direct->route);
        }
        if (ret < 0) {
            return -ERANGE;
        }
        if (ret > 0) {
            direct->lane = mrail_routes_direct(plan->routes, demand->from,
                                               demand->to, &direct->route);
            next->group_of[i] = MRAIL_PLAN_DIRECT;
            next->start[i] = 0;
            next->summary.bytes += (double)(int64_t)demand->bytes;
            mrail_loads_add(plan, &direct->route, direct->lane,
                            (double)(int64_t)demand->bytes);
            if (mrail_routes_shortest(plan->routes, &direct->route) !=
                1u << direct->lane) {
                contended_add_undecided(plan, direct,
                                        (double)(int64_t)demand->bytes);
            }
            plan->rank_bytes[2 * (size_t)demand->from] +=
                (double)(int64_t)demand->bytes;
            plan->rank_bytes[2 * (size_t)demand->to + 1] +=
                (double)(int64_t)demand->bytes;
        }
    }
    next->digest = digest;
    return 0;
}

/* Returns a lower bound on the congestion from cuts: every path between nodes
 * crosses one port on each node, and a rank's traffic passes its own rail's
 * port or its GPU links. */
static double contended_bound(const mrail_plan_t *plan)
{
    const uint32_t *sets = mrail_routes_sets(plan->routes);
    uint32_t num_sets = mrail_routes_num_sets(plan->routes);
    double bound = mrail_loads_congestion(plan, plan->background);

    for (uint32_t set = 0; set < num_sets; ++set) {
        plan->set_sums[2 * set] = plan->set_sums[2 * set + 1] = 0;
    }
    for (uint32_t e = 0; e < mrail_routes_num_links(plan->routes); ++e) {
        if (sets[e] != MRAIL_FLOWS_NO_LINK) {
            plan->set_sums[2 * sets[e]] += plan->link_next[e];
            plan->set_sums[2 * sets[e] + 1] += plan->capacity[e];
        }
    }
    for (uint32_t set = 0; set < num_sets; ++set) {
        if (plan->set_sums[2 * set + 1] > 0) {
            bound = MRAIL_MAX(bound, plan->set_sums[2 * set] /
                                         plan->set_sums[2 * set + 1]);
        }
    }
    for (uint32_t i = 0; i < 2 * plan->num_ranks; ++i) {
        if (plan->rank_cut[i] > 0) {
            bound = MRAIL_MAX(bound, plan->rank_bytes[i] / plan->rank_cut[i]);
        }
    }
    return bound;
}

/* Returns a lower bound on relayed bytes: the relays of the direct paths, plus
 * the excess of the ports, not counting demands that have an equally short
 * path. Each additional relay moves bytes off one outgoing and one incoming
 * port, so the larger excess counts. If the direct paths need no relays, an
 * additional relay moves bytes off only one of the two ports, so both excesses
 * count. */
static double contended_relayed_bound(const mrail_plan_t *plan, double relayed,
                                      double limit)
{
    const mrail_plan_link_t *links = mrail_routes_links(plan->routes);
    double out = 0, in = 0;

    for (uint32_t e = 0; e < mrail_routes_num_links(plan->routes); ++e) {
        double more =
            plan->link_next[e] - plan->link_base[e] - limit * plan->capacity[e];

        if ((more > 0) && (links[e].kind == MRAIL_PLAN_RAIL_OUT)) {
            out += more;
        } else if ((more > 0) && (links[e].kind == MRAIL_PLAN_RAIL_IN)) {
            in += more;
        }
    }
    return relayed + ((relayed == 0) ? out + in : MRAIL_MAX(out, in));
}

static int contended_is_full(const mrail_plan_t *plan, uint32_t row,
                             uint32_t lane, double limit)
{
    const mrail_flows_slot_t *slot = &mrail_routes_slots(
        plan->routes)[(size_t)row * mrail_routes_num_lanes(plan->routes) +
                      lane];

    for (unsigned i = 0; i < MRAIL_FLOWS_SLOT_LINKS; ++i) {
        uint32_t link = slot->link[i];

        if ((link != MRAIL_FLOWS_NO_LINK) &&
            (plan->link_next[link] > limit * plan->capacity[link])) {
            return 1;
        }
    }
    return 0;
}

/* Returns 1 if the direct path has branches at one of its ends. */
static int contended_has_branches(const mrail_plan_t *plan,
                                  const plan_direct_t *direct)
{
    const mrail_flows_slot_t *slots = mrail_routes_slots(plan->routes);
    size_t lanes = mrail_routes_num_lanes(plan->routes);

    return (slots[direct->route.row[0] * lanes + direct->lane].num_branches >
            0) ||
           (slots[direct->route.row[1] * lanes + direct->lane].num_branches >
            0);
}

static int contended_is_divided(const mrail_plan_t *plan,
                                const plan_direct_t *direct, double limit)
{
    if (contended_has_branches(plan, direct)) {
        return 1;
    }
    return ((direct->route.lanes & (direct->route.lanes - 1)) != 0) &&
           (contended_is_full(plan, direct->route.row[0], direct->lane,
                              limit) ||
            contended_is_full(plan, direct->route.row[1], direct->lane, limit));
}

/* Creates a group for each demand over a contended link that has another path,
 * and for each demand whose path has branches. */
static int contended_choose(mrail_plan_t *plan, double limit)
{
    plan_division_t *next = &plan->next;

    next->num_groups = 0;
    for (size_t i = 0; i < next->num_demands; ++i) {
        const plan_direct_t *direct = &plan->direct[i];
        uint32_t group;
        int ret;

        if ((next->group_of[i] == MRAIL_PLAN_NONE) ||
            !contended_is_divided(plan, direct, limit)) {
            continue;
        }
        if (next->num_groups == MAX_CONTENDED) {
            return -ERANGE;
        }
        ret = mrail_plan_add_group(plan, &direct->route, &group);
        if (ret != 0) {
            return ret;
        }
        next->group_of[i] = group;
        next->totals[group] = next->demands[i].bytes;
        next->bytes[group] = (double)(int64_t)next->demands[i].bytes;
        mrail_loads_add(plan, &direct->route, direct->lane,
                        -next->bytes[group]);
    }
    return 0;
}

static int contended_weigh(mrail_plan_t *plan)
{
    const mrail_flows_slot_t *slots = mrail_routes_slots(plan->routes);
    size_t lanes = mrail_routes_num_lanes(plan->routes);
    size_t stride = mrail_flows_stride(plan->flows);
    plan_division_t *next = &plan->next;

    if ((next->num_groups > plan->weight_allocated) &&
        !mrail_grow(&plan->weight, next->num_groups * stride,
                    sizeof(*plan->weight))) {
        return -ENOMEM;
    }
    plan->weight_allocated =
        MRAIL_MAX(plan->weight_allocated, next->num_groups);
    memset(plan->weight, 0, next->num_groups * stride * sizeof(*plan->weight));
    for (size_t g = 0; g < next->num_groups; ++g) {
        for (size_t lane = 0; lane < lanes; ++lane) {
            const mrail_flows_slot_t *out =
                &slots[next->row[2 * g] * lanes + lane];
            const mrail_flows_slot_t *in =
                &slots[next->row[2 * g + 1] * lanes + lane];
            double weight = (next->lanes[g] >> lane) & 1;

            for (unsigned r = out->relays + in->relays; (weight > 0) && (r > 0);
                 --r) {
                weight *= RELAY_WEIGHT;
            }
            plan->weight[g * stride + lane] = weight;
        }
    }
    return 0;
}

static int contended_divide(mrail_plan_t *plan, double limit)
{
    plan_division_t *next = &plan->next;
    mrail_flows_problem_t problem = {
        .num_rows = mrail_routes_num_rows(plan->routes),
        .slot = mrail_routes_slots(plan->routes),
        .branch = mrail_routes_branches(plan->routes),
        .num_branches = mrail_routes_num_branches(plan->routes),
        .num_demands = next->num_groups,
        .row = next->row,
        .lanes = next->lanes,
        .demand = next->bytes,
        .base = plan->link_base};
    int ret = contended_weigh(plan);

    if (ret != 0) {
        return ret;
    }
    problem.weight = plan->weight;
    ret = mrail_flows_load(plan->flows, &problem);
    if (ret != 0) {
        return ret;
    }
    if (mrail_flows_repair(plan->flows, limit) != 0) {
        ret = mrail_flows_fit(plan->flows, limit, MAX_FIT_ITERATIONS);
    }
    if (ret < 0) {
        return ret;
    }
    next->summary.relay_iterations = (unsigned)ret;
    mrail_flows_merge(plan->flows, (double)plan->options.min_piece, limit);
    return 0;
}

/* Cuts the groups into whole bytes. Computes link loads, relayed bytes and
 * hash. */
static void contended_sum_up(mrail_plan_t *plan, double base_relayed)
{
    plan_division_t *next = &plan->next;
    const double *part = mrail_flows_bytes(plan->flows);
    uint64_t hash = next->digest;

    mrail_loads_clear(plan);
    for (uint32_t g = 0; g < next->num_groups; ++g) {
        hash += mrail_plan_cut(
            plan, g, &part[g * (size_t)mrail_flows_stride(plan->flows)]);
    }
    if (next->num_groups > 0) {
        hash += mrail_plan_cut_branches(plan);
    }
    next->summary.hash = mrail_mix64(hash);
    next->summary.relayed =
        base_relayed +
        mrail_loads_to_links(plan, next->branch_end, plan->link_next);
    for (uint32_t e = 0; e < mrail_routes_num_links(plan->routes); ++e) {
        plan->link_next[e] += plan->link_base[e];
    }
    next->summary.congestion = mrail_loads_congestion(plan, plan->link_next);
}

/* Returns 1 if both gaps are met. Relayed bytes may exceed their gap by 1/10000
 * of all bytes. */
static int contended_is_within(const mrail_plan_t *plan)
{
    const mrail_plan_options_t *options = &plan->options;
    const mrail_plan_summary_t *summary = &plan->next.summary;

    return (summary->congestion <=
            summary->congestion_bound * (1 + options->gap)) &&
           (summary->relayed <=
            summary->relayed_bound * (1 + options->relayed_gap) +
                RELAYED_TOLERANCE * summary->bytes);
}

int mrail_plan_divide_contended(mrail_plan_t *plan)
{
    plan_division_t *next = &plan->next;
    mrail_plan_summary_t *summary = &next->summary;
    double base_relayed;
    int ret;

    if (!plan->is_all_single_rail || !mrail_routes_has_relays(plan->routes) ||
        (mrail_routes_num_sets(plan->routes) > 2 * plan->num_nodes) ||
        (next->num_demands < MIN_DEMANDS)) {
        return -ERANGE;
    }
    ret = contended_grow(plan);
    if (ret == 0) {
        ret = contended_place_direct(plan);
    }
    if (ret != 0) {
        return ret;
    }
    base_relayed = mrail_loads_to_links(plan, NULL, plan->link_next);
    mrail_loads_add_background(plan, plan->link_next);
    summary->congestion_bound = contended_bound(plan);
    summary->limit = summary->congestion_bound *
                     (1 + plan->options.gap * MRAIL_PLAN_PART_LIMIT);
    summary->relayed_bound =
        contended_relayed_bound(plan, base_relayed, summary->limit);
    ret = contended_choose(plan, summary->limit);
    base_relayed = mrail_loads_to_links(plan, NULL, plan->link_base);
    mrail_loads_add_background(plan, plan->link_base);
    if ((ret == 0) && (next->num_groups > 0)) {
        ret = contended_divide(plan, summary->limit);
    }
    if (ret != 0) {
        return ret;
    }
    contended_sum_up(plan, base_relayed);
    return contended_is_within(plan) ? 0 : -ERANGE;
}
