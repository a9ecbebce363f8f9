/* Implements the queries of a plan: pieces, baseline and link loads. */
#include "config.h"
#include "plan_internal.h"

#include "base/util.h"

#include <string.h>

/* The part of a line that belongs to one demand. */
typedef struct plan_span {
    mrail_route_t route;
    uint64_t begin, end; /* positions on the line */
    unsigned num_lanes;
    const uint64_t *lane_end; /* indexed by lane */
    /* by lane and end of the path: position on the line of the slot; NULL if
     * there are no branches */
    const uint64_t *position;
    unsigned lane; /* lane of the next part */
} plan_span_t;

/* Bytes of a demand on one lane, and on one branch at each end. */
typedef struct plan_part {
    uint64_t bytes;
    unsigned lane, branch[2];
} plan_part_t;

/* Assigns the whole demand to its direct lane. */
static void plan_span_direct(const mrail_plan_t *plan,
                             const mrail_plan_demand_t *demand,
                             plan_span_t *span)
{
    unsigned lanes = mrail_routes_num_lanes(plan->routes);
    unsigned direct = mrail_routes_direct(plan->routes, demand->from,
                                          demand->to, &span->route);

    for (unsigned lane = 0; lane < lanes; ++lane) {
        plan->whole[lane] = (lane < direct) ? 0 : demand->bytes;
    }
    span->num_lanes = lanes;
    span->lane_end = plan->whole;
}

/* Returns 0 if demand i is not planned. */
static int plan_span(const mrail_plan_t *plan, size_t i, plan_span_t *span)
{
    const plan_division_t *now = &plan->now;
    size_t lanes = mrail_routes_num_lanes(plan->routes), group;

    if (now->group_of[i] == MRAIL_PLAN_NONE) {
        return 0;
    }
    group = now->group_of[i];
    if (group == MRAIL_PLAN_DIRECT) {
        const mrail_plan_demand_t *demand = &now->demands[i];

        *span = (plan_span_t){.end = demand->bytes};
        (void)mrail_routes_find(plan->routes, demand->from, demand->to,
                                demand->bytes <= plan->options.relay_threshold,
                                &span->route);
        plan_span_direct(plan, demand, span);
        return 1;
    }
    *span = (plan_span_t){
        .route = {.row = {now->row[2 * group], now->row[2 * group + 1]},
                  .lanes = now->lanes[group]},
        .begin = now->start[i],
        .end = now->start[i] + now->demands[i].bytes,
        .num_lanes = (unsigned)lanes,
        .lane_end = &now->end[group * lanes],
        .position = (now->branch_end != NULL)
                        ? &now->position[2 * group * lanes]
                        : NULL};
    return 1;
}

/* Limits the part to the current branch at one end of the path. */
static void plan_limit_to_branch(const mrail_plan_t *plan,
                                 const plan_span_t *span, unsigned end,
                                 plan_part_t *part)
{
    size_t lanes = mrail_routes_num_lanes(plan->routes);
    const mrail_flows_slot_t *slot = &mrail_routes_slots(
        plan->routes)[span->route.row[end] * lanes + span->lane];
    const uint64_t *branch_end = &plan->now.branch_end[slot->first_branch];
    uint64_t lane_begin = (span->lane > 0) ? span->lane_end[span->lane - 1] : 0;
    uint64_t at =
        span->position[2 * span->lane + end] + span->begin - lane_begin;
    unsigned branch = 0;

    if (slot->num_branches == 0) {
        return;
    }
    while ((branch + 1u < slot->num_branches) && (branch_end[branch] <= at)) {
        ++branch;
    }
    part->branch[end] = branch;
    if (branch + 1u < slot->num_branches) {
        part->bytes = MRAIL_MIN(part->bytes, branch_end[branch] - at);
    }
}

/* Removes the next part from the start of a span. Returns 0 if there is
 * none. */
static int plan_next_part(const mrail_plan_t *plan, plan_span_t *span,
                          plan_part_t *part)
{
    for (; span->lane < span->num_lanes; ++span->lane) {
        uint64_t stop = MRAIL_MIN(span->lane_end[span->lane], span->end);

        if (stop <= span->begin) {
            continue;
        }
        *part = (plan_part_t){.bytes = stop - span->begin, .lane = span->lane};
        for (unsigned end = 0; (span->position != NULL) && (end < 2); ++end) {
            plan_limit_to_branch(plan, span, end, part);
        }
        span->begin += part->bytes;
        return 1;
    }
    return 0;
}

/* Copies a struct to the caller's version, which may have a different size. */
static void plan_copy_sized(void *to, size_t size, const void *from,
                            size_t known)
{
    memcpy(to, from, MRAIL_MIN(size, known));
    if (size > known) {
        memset((char *)to + known, 0, size - known);
    }
}

unsigned mrail_plan_pieces_sized(const mrail_plan_t *plan, size_t i,
                                 mrail_plan_piece_t *pieces, size_t size)
{
    const mrail_plan_demand_t *demand = &plan->now.demands[i];
    mrail_plan_piece_t piece = {0};
    unsigned count = 0;
    plan_span_t span;
    plan_part_t part;

    if (!plan_span(plan, i, &span)) {
        return 0;
    }
    while (plan_next_part(plan, &span, &part)) {
        piece.offset += piece.bytes;
        piece.bytes = part.bytes;
        mrail_routes_explain(plan->routes, demand->to, &span.route, part.lane,
                             part.branch[0], part.branch[1], &piece);
        plan_copy_sized((char *)pieces + count * size, size, &piece,
                        sizeof(piece));
        ++count;
    }
    return count;
}

/* Counts the pieces, the bytes on direct paths, and the loads. */
static void plan_walk(mrail_plan_t *plan, mrail_plan_summary_t *summary)
{
    plan_span_t span;
    plan_part_t part;

    mrail_loads_clear(plan);
    for (size_t i = 0; i < plan->now.num_demands; ++i) {
        const mrail_plan_demand_t *demand = &plan->now.demands[i];
        unsigned direct;

        if (!plan_span(plan, i, &span)) {
            continue;
        }
        direct = mrail_routes_direct(plan->routes, demand->from, demand->to,
                                     &span.route);
        while (plan_next_part(plan, &span, &part)) {
            double bytes = (double)part.bytes;

            mrail_loads_add(plan, &span.route, part.lane, bytes);
            summary->direct_bytes += (part.lane == direct) ? bytes : 0;
            ++summary->num_pieces;
        }
    }
    summary->relayed =
        mrail_loads_to_links(plan, plan->now.branch_end, plan->link_bytes);
    mrail_loads_add_background(plan, plan->link_bytes);
    summary->congestion = mrail_loads_congestion(plan, plan->link_bytes);
}

static void plan_walk_before(mrail_plan_t *plan, mrail_plan_summary_t *summary)
{
    plan_span_t span;

    mrail_loads_clear(plan);
    for (size_t i = 0; i < plan->now.num_demands; ++i) {
        const mrail_plan_demand_t *demand = &plan->now.demands[i];

        if (plan_span(plan, i, &span)) {
            mrail_loads_add(plan, &span.route,
                            mrail_routes_direct(plan->routes, demand->from,
                                                demand->to, &span.route),
                            (double)demand->bytes);
        }
    }
    (void)mrail_loads_to_links(plan, NULL, plan->link_before);
    mrail_loads_add_background(plan, plan->link_before);
    summary->congestion_before =
        mrail_loads_congestion(plan, plan->link_before);
}

void mrail_plan_compare(mrail_plan_t *plan)
{
    mrail_plan_summary_t *summary = &plan->now.summary;

    summary->direct_bytes = 0;
    summary->num_pieces = 0;
    plan_walk(plan, summary);
    plan_walk_before(plan, summary);
}

void mrail_plan_summary_sized(const mrail_plan_t *plan,
                              mrail_plan_summary_t *summary_p, size_t size)
{
    plan_copy_sized(summary_p, size, &plan->now.summary,
                    sizeof(plan->now.summary));
}

unsigned mrail_plan_num_links(const mrail_plan_t *plan)
{
    return mrail_routes_num_links(plan->routes);
}

void mrail_plan_link_sized(const mrail_plan_t *plan, unsigned i,
                           mrail_plan_link_t *link_p, size_t size)
{
    mrail_plan_link_t link = mrail_routes_links(plan->routes)[i];

    link.bytes = plan->link_bytes[i];
    link.bytes_before = plan->link_before[i];
    plan_copy_sized(link_p, size, &link, sizeof(link));
}
