#include "config.h"
#include "plan.h"

#include "cuts.h"
#include "digest.h"
#include "plan_internal.h"

#include "base/grow.h"
#include "base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More iterations would take longer than they save in the exchange. */
#define MAX_ITERATIONS 4000
#define MAX_RELAY_ITERATIONS 1000
/* Iterations allowed in the first and in the second warm start. */
#define FIRST_TRIES 2
#define TRIES 8

/* ---- Grouping demands ---- */

int mrail_plan_grow_demands(plan_division_t *division, size_t count)
{
    if (count <= division->demands_allocated) {
        return 0;
    }
    if (!mrail_grow(&division->start, count, sizeof(*division->start)) ||
        !mrail_grow(&division->group_of, count, sizeof(*division->group_of))) {
        return -ENOMEM;
    }
    division->demands_allocated = count;
    return 0;
}

static int plan_grow_groups(plan_division_t *division, unsigned num_lanes)
{
    size_t allocated = (size_t)division->groups_allocated * 2 + 64;

    if (!mrail_grow(&division->totals, allocated, sizeof(*division->totals)) ||
        !mrail_grow(&division->row, 2 * allocated, sizeof(*division->row)) ||
        !mrail_grow(&division->lanes, allocated, sizeof(*division->lanes)) ||
        !mrail_grow(&division->bytes, allocated, sizeof(*division->bytes)) ||
        !mrail_grow(&division->end, allocated * num_lanes,
                    sizeof(*division->end))) {
        return -ENOMEM;
    }
    if ((division->branch_end != NULL) &&
        !mrail_grow(&division->position, 2 * allocated * num_lanes,
                    sizeof(*division->position))) {
        return -ENOMEM;
    }
    division->groups_allocated = (uint32_t)allocated;
    return 0;
}

int mrail_plan_add_group(mrail_plan_t *plan, const mrail_route_t *route,
                         uint32_t *group_p)
{
    plan_division_t *next = &plan->next;

    if ((next->num_groups == next->groups_allocated) &&
        (plan_grow_groups(next, mrail_routes_num_lanes(plan->routes)) != 0)) {
        return -ENOMEM;
    }
    next->row[2 * (size_t)next->num_groups] = route->row[0];
    next->row[2 * (size_t)next->num_groups + 1] = route->row[1];
    next->lanes[next->num_groups] = route->lanes;
    next->totals[next->num_groups] = 0;
    *group_p = next->num_groups++;
    return 0;
}

/* Creates the group of a demand, or sets MRAIL_PLAN_NONE if the demand is not
 * planned. If `shared` is not NULL, also stores the group in *shared for later
 * demands. */
static int plan_make_group(mrail_plan_t *plan,
                           const mrail_plan_demand_t *demand, uint32_t *shared,
                           uint32_t *group_p)
{
    mrail_route_t route;
    int ret;

    *group_p = MRAIL_PLAN_NONE;
    ret = mrail_routes_find(plan->routes, demand->from, demand->to,
                            demand->bytes <= plan->options.relay_threshold,
                            &route);
    if (ret > 0) {
        ret = mrail_plan_add_group(plan, &route, group_p);
    }
    if ((ret == 0) && (shared != NULL)) {
        *shared = *group_p;
    }
    return ret;
}

/* Demands between the same two classes of ranks, on different nodes, share a
 * group. The first one creates it. */
static MRAIL_INLINE int plan_find_group(mrail_plan_t *plan,
                                        const mrail_plan_demand_t *demand,
                                        uint32_t *group_p)
{
    uint32_t from = plan->class_of[demand->from];
    uint32_t to = plan->class_of[demand->to], *shared = NULL;

    if ((from != MRAIL_PLAN_NONE) && (to != MRAIL_PLAN_NONE) && (from != to)) {
        shared = &plan->shared[(size_t)from * plan->num_classes + to];
        if (MRAIL_LIKELY(*shared != MRAIL_PLAN_NONE)) {
            *group_p = *shared;
            return 0;
        }
        if (plan->class_node[from] == plan->class_node[to]) {
            shared = NULL;
        }
    }
    return plan_make_group(plan, demand, shared, group_p);
}

static int plan_error(int ret, const char *sentence, char *reason,
                      size_t reason_size)
{
    if (reason_size > 0) {
        snprintf(reason, reason_size, "%s", sentence);
    }
    return ret;
}

static int plan_refuse(int ret, const mrail_plan_demand_t *demand, size_t i,
                       char *reason, size_t reason_size)
{
    const char *cause =
        (ret == -EINVAL)      ? "no such rank"
        : (ret == -EOVERFLOW) ? "the total would exceed 2^62 bytes"
        : (ret == -EHOSTUNREACH)
            ? "the two ranks cannot reach a rail that is up at both ends"
            : "out of memory";

    if (reason_size > 0) {
        snprintf(reason, reason_size,
                 "demand %zu, rank %" PRIu32 " to rank %" PRIu32 ", %" PRIu64
                 " bytes: %s",
                 i, demand->from, demand->to, demand->bytes, cause);
    }
    return ret;
}

/* Resets the shared groups of all pairs of classes. */
static void plan_reset_shared(mrail_plan_t *plan)
{
    size_t classes = plan->num_classes;

    memset(plan->shared, 0xff, classes * classes * sizeof(*plan->shared));
}

/* Sums over the demands. They are kept in registers, because each demand
 * updates them. Demands of a group are usually consecutive. */
typedef struct plan_sums {
    uint64_t bytes, digest;
    uint32_t group;       /* group of the last demand, or MRAIL_PLAN_NONE */
    uint64_t group_bytes; /* bytes on the group's line so far */
} plan_sums_t;

static MRAIL_INLINE void plan_start_group(plan_division_t *next,
                                          plan_sums_t *sums, uint32_t group)
{
    if (sums->group != group) {
        if (sums->group != MRAIL_PLAN_NONE) {
            next->totals[sums->group] = sums->group_bytes;
        }
        sums->group = group;
        sums->group_bytes =
            (group != MRAIL_PLAN_NONE) ? next->totals[group] : 0;
    }
}

static MRAIL_INLINE int plan_add_demand(mrail_plan_t *plan,
                                        const mrail_plan_demand_t *demand,
                                        size_t i, plan_sums_t *sums)
{
    plan_division_t *next = &plan->next;
    uint32_t group = MRAIL_PLAN_NONE;

    if ((demand->from >= plan->num_ranks) || (demand->to >= plan->num_ranks)) {
        return -EINVAL;
    }
    if (demand->bytes > MRAIL_PLAN_MAX_BYTES - sums->bytes) {
        return -EOVERFLOW;
    }
    sums->bytes += demand->bytes;
    sums->digest += mrail_digest_demand(demand, i);
    if ((demand->bytes > 0) && (demand->from != demand->to)) {
        int ret = plan_find_group(plan, demand, &group);

        if (ret != 0) {
            return ret;
        }
    }
    next->group_of[i] = group;
    if (group != MRAIL_PLAN_NONE) {
        plan_start_group(next, sums, group);
        next->start[i] = sums->group_bytes;
        sums->group_bytes += demand->bytes;
    }
    return 0;
}

static int plan_group(mrail_plan_t *plan, char *reason, size_t reason_size)
{
    plan_division_t *next = &plan->next;
    plan_sums_t sums = {.group = MRAIL_PLAN_NONE};

    next->num_groups = 0;
    for (size_t i = 0; i < next->num_demands; ++i) {
        int ret = plan_add_demand(plan, &next->demands[i], i, &sums);

        if (ret != 0) {
            return plan_refuse(ret, &next->demands[i], i, reason, reason_size);
        }
    }
    plan_start_group(next, &sums, MRAIL_PLAN_NONE);
    next->digest = sums.digest;
    for (uint32_t g = 0; g < next->num_groups; ++g) {
        next->bytes[g] = (double)(int64_t)next->totals[g];
    }
    return 0;
}

/* ---- Division ---- */

static int plan_load(mrail_plan_t *plan)
{
    const mrail_flows_problem_t problem = {
        .num_rows = mrail_routes_num_rows(plan->routes),
        .slot = mrail_routes_slots(plan->routes),
        .branch = mrail_routes_branches(plan->routes),
        .num_branches = mrail_routes_num_branches(plan->routes),
        .num_demands = plan->next.num_groups,
        .row = plan->next.row,
        .lanes = plan->next.lanes,
        .demand = plan->next.bytes,
        .base = (plan->background_end > 0) ? plan->background : NULL};

    return mrail_flows_load(plan->flows, &problem);
}

static int plan_warm_start(mrail_plan_t *plan, unsigned tries)
{
    const mrail_plan_options_t *options = &plan->options;
    mrail_plan_summary_t *summary = &plan->next.summary;

    summary->relay_iterations = mrail_flows_warm_start(
        plan->flows, options->gap * MRAIL_PLAN_PART_LIMIT, options->relayed_gap,
        tries, MAX_RELAY_ITERATIONS, &summary->limit);
    return summary->relay_iterations > 0;
}

/* Returns 1 if the congestion is within the gap. */
static int plan_balance(mrail_plan_t *plan, unsigned max_iterations)
{
    mrail_plan_summary_t *summary = &plan->next.summary;
    double gap = plan->options.gap * MRAIL_PLAN_PART_LIMIT;

    summary->iterations = mrail_flows_balance(plan->flows, gap, max_iterations);
    summary->limit = MRAIL_MAX(mrail_flows_congestion(plan->flows),
                               mrail_flows_bound(plan->flows) * (1 + gap));
    return mrail_flows_congestion(plan->flows) <=
           mrail_flows_bound(plan->flows) * (1 + gap);
}

/* Divides the demands, with a warm start if possible. */
static void plan_divide(mrail_plan_t *plan)
{
    mrail_plan_summary_t *summary = &plan->next.summary;
    int has_relays = mrail_routes_has_relays(plan->routes);

    if (!plan_warm_start(plan, FIRST_TRIES)) {
        int is_balanced = plan_balance(plan, 1);

        if (!is_balanced && !plan_warm_start(plan, TRIES)) {
            is_balanced = 1;
            (void)plan_balance(plan, MAX_ITERATIONS);
        }
        if (is_balanced && has_relays) {
            summary->relay_iterations = mrail_flows_shorten(
                plan->flows, summary->limit, plan->options.relayed_gap,
                MAX_RELAY_ITERATIONS);
        }
    }
    summary->congestion_bound = mrail_flows_bound(plan->flows);
    summary->relayed_bound =
        has_relays ? mrail_flows_relayed_bound(plan->flows) : 0;
}

/* ---- Results ---- */

/* Appends a group's bytes on each lane to the lines of its two slots. */
static void plan_place_on_lines(mrail_plan_t *plan, uint32_t g,
                                const uint64_t *end)
{
    size_t lanes = mrail_routes_num_lanes(plan->routes);
    uint64_t *position = &plan->next.position[2 * g * lanes];

    for (unsigned lane = 0; lane < lanes; ++lane) {
        for (unsigned i = 0; i < 2; ++i) {
            uint32_t row = plan->next.row[2 * (size_t)g + i];
            uint64_t *total = &plan->slot_total[row * lanes + lane];

            position[2 * lane + i] = *total;
            *total += mrail_cuts_bytes(end, lane);
        }
    }
}

uint64_t mrail_plan_cut(mrail_plan_t *plan, uint32_t g, const double *part)
{
    unsigned lanes = mrail_routes_num_lanes(plan->routes);
    plan_division_t *next = &plan->next;
    const uint32_t *row = &next->row[2 * (size_t)g];
    double *out = &plan->slot_bytes[(size_t)row[0] * lanes];
    double *in = &plan->slot_bytes[(size_t)row[1] * lanes];
    uint64_t *end = &next->end[(size_t)g * lanes], last = 0;
    uint64_t hash = mrail_digest(g, ((uint64_t)row[0] << 32) | row[1]);

    mrail_cuts_make(next->totals[g], plan->options.min_piece, lanes, part, end);
    for (unsigned lane = 0; lane < lanes; ++lane) {
        double bytes = (double)(int64_t)(end[lane] - last);

        out[lane] += bytes;
        in[lane] += bytes;
        hash += mrail_digest(((uint64_t)(lane + 1) << 32) | g, end[lane]);
        last = end[lane];
    }
    if (plan->slot_total != NULL) {
        plan_place_on_lines(plan, g, end);
    }
    return hash;
}

uint64_t mrail_plan_cut_branches(mrail_plan_t *plan)
{
    const mrail_flows_slot_t *slot = mrail_routes_slots(plan->routes);
    const double *bytes = mrail_flows_branch_bytes(plan->flows);
    uint64_t *end = plan->next.branch_end, hash = 0;
    size_t slots = (size_t)mrail_routes_num_rows(plan->routes) *
                   mrail_routes_num_lanes(plan->routes);

    for (size_t s = 0; (plan->slot_total != NULL) && (s < slots); ++s) {
        uint32_t first = slot[s].first_branch;
        unsigned count = slot[s].is_closed ? 0 : slot[s].num_branches;
        double sum = 0;

        for (unsigned b = 0; b < count; ++b) {
            plan->branch_part[b] = MRAIL_MAX(bytes[first + b], 0.0);
            sum += plan->branch_part[b];
        }
        if ((count == 0) || (plan->slot_total[s] == 0)) {
            memset(&end[first], 0, count * sizeof(*end));
            continue;
        }
        if (sum <= 0) {
            plan->branch_part[0] = 1;
        }
        mrail_cuts_make(plan->slot_total[s], plan->options.min_piece, count,
                        plan->branch_part, &end[first]);
        for (unsigned b = 0; b < count; ++b) {
            hash +=
                mrail_digest((UINT64_C(1) << 63) | (first + b), end[first + b]);
        }
    }
    return hash;
}

/* Cuts all lines into whole bytes. Computes their loads, relayed bytes and
 * hash. */
static void plan_sum_up(mrail_plan_t *plan)
{
    plan_division_t *next = &plan->next;
    mrail_plan_summary_t *summary = &next->summary;
    uint32_t stride = mrail_flows_stride(plan->flows);
    const double *part = mrail_flows_bytes(plan->flows);
    uint64_t hash = next->digest;

    mrail_loads_clear(plan);
    for (uint32_t g = 0; g < next->num_groups; ++g, part += stride) {
        summary->bytes += next->bytes[g];
        hash += mrail_plan_cut(plan, g, part);
    }
    if (next->num_groups > 0) {
        hash += mrail_plan_cut_branches(plan);
    }
    summary->hash = mrail_mix64(hash);
    summary->relayed =
        mrail_loads_to_links(plan, next->branch_end, plan->link_next);
    mrail_loads_add_background(plan, plan->link_next);
    summary->congestion = mrail_loads_congestion(plan, plan->link_next);
}

/* Returns the direct lane of demand i in its group. */
static unsigned plan_direct_lane(const mrail_plan_t *plan, size_t i,
                                 mrail_route_t *route)
{
    const plan_division_t *next = &plan->next;
    size_t group = next->group_of[i];

    *route =
        (mrail_route_t){.row = {next->row[2 * group], next->row[2 * group + 1]},
                        .lanes = next->lanes[group]};
    return mrail_routes_direct(plan->routes, next->demands[i].from,
                               next->demands[i].to, route);
}

/* Returns 1 if each group has one demand. */
static int plan_has_pairs_only(const plan_division_t *next)
{
    size_t count = 0;

    for (size_t i = 0; i < next->num_demands; ++i) {
        count += (next->group_of[i] != MRAIL_PLAN_NONE);
    }
    return count == next->num_groups;
}

/* Plans the trivial case, in which each demand is whole on its direct path.
 * This division has the fewest relays and pieces, so it is optimal if it is
 * within the limit. Returns 1 in that case, with the lines cut. Lanes with
 * branches are left to the division. */
static int plan_is_direct(mrail_plan_t *plan)
{
    plan_division_t *next = &plan->next;
    mrail_plan_summary_t *summary = &next->summary;
    double part[MRAIL_FLOWS_MAX_LANES];
    uint64_t hash = next->digest;
    mrail_route_t route;

    mrail_loads_clear(plan);
    for (size_t i = 0; i < next->num_demands; ++i) {
        if (next->group_of[i] != MRAIL_PLAN_NONE) {
            unsigned lane = plan_direct_lane(plan, i, &route);

            mrail_loads_add(plan, &route, lane, (double)next->demands[i].bytes);
        }
    }
    summary->relayed = mrail_loads_to_links(plan, NULL, plan->link_next);
    mrail_loads_add_background(plan, plan->link_next);
    summary->congestion = mrail_loads_congestion(plan, plan->link_next);
    if (summary->congestion > summary->limit) {
        return 0;
    }
    memset(part, 0, sizeof(part));
    for (size_t i = 0; i < next->num_demands; ++i) {
        if (next->group_of[i] != MRAIL_PLAN_NONE) {
            unsigned lane = plan_direct_lane(plan, i, &route);

            part[lane] = 1;
            hash += mrail_plan_cut(plan, next->group_of[i], part);
            summary->bytes += next->bytes[next->group_of[i]];
            part[lane] = 0;
        }
    }
    summary->hash = mrail_mix64(hash);
    return 1;
}

/* Makes the next division the current one. */
static void plan_accept(mrail_plan_t *plan, uint64_t generation)
{
    plan_division_t old = plan->now;
    double *link_bytes = plan->link_bytes;

    plan->now = plan->next;
    plan->next = old;
    plan->link_bytes = plan->link_next;
    plan->link_next = link_bytes;
    plan->generation = generation;
}

/* Plans all demands in one division. */
static int plan_divide_groups(mrail_plan_t *plan, char *reason,
                              size_t reason_size)
{
    plan_division_t *next = &plan->next;
    int ret = mrail_plan_grow_demands(next, next->num_demands);

    if (ret == 0) {
        ret = plan_group(plan, reason, reason_size);
        plan_reset_shared(plan);
    }
    next->summary.congestion_bound =
        mrail_loads_congestion(plan, plan->background);
    if ((ret == 0) && (next->num_groups > 0)) {
        ret = plan_load(plan);
        if (ret == 0) {
            plan_divide(plan);
            if ((plan->slot_total == NULL) && plan_has_pairs_only(next) &&
                plan_is_direct(plan)) {
                return 0;
            }
            mrail_flows_merge(plan->flows, (double)plan->options.min_piece,
                              next->summary.limit);
        }
    }
    if (ret == 0) {
        plan_sum_up(plan);
    }
    return ret;
}

int mrail_plan_make(mrail_plan_t *plan, const mrail_plan_demand_t *demands,
                    size_t num_demands, uint64_t generation, char *reason,
                    size_t reason_size)
{
    plan_division_t *next = &plan->next;
    int ret;

    if ((generation != 0) && (generation == plan->generation)) {
        return 0;
    }
    if (num_demands >= UINT32_MAX) {
        return plan_error(-ENOSPC, "a plan can have at most 2^32 - 2 demands",
                          reason, reason_size);
    }
    next->demands = demands;
    next->num_demands = num_demands;
    next->summary = (mrail_plan_summary_t){0};
    ret = mrail_plan_divide_contended(plan);
    if (ret == -ERANGE) {
        next->summary = (mrail_plan_summary_t){0};
        ret = plan_divide_groups(plan, reason, reason_size);
    }
    if (ret == -ENOMEM) {
        return plan_error(ret, "out of memory", reason, reason_size);
    }
    if (ret == 0) {
        if (plan->background_end > 0) {
            next->summary.hash =
                mrail_mix64(next->summary.hash ^ plan->background_digest);
        }
        plan_accept(plan, generation);
    }
    return ret;
}

void mrail_plan_discard_warm_start(mrail_plan_t *plan)
{
    plan->generation = 0;
    mrail_flows_reset(plan->flows);
}
