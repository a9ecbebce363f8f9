/* Computes the bytes of slots and links. */
#include "config.h"
#include "plan_internal.h"

#include "digest.h"

#include "base/util.h"

#include <errno.h>
#include <string.h>

/* Adds the bytes of a slot to the links of its branches. */
static void loads_add_branches(const mrail_plan_t *plan,
                               const mrail_flows_slot_t *slot,
                               const uint64_t *branch_end, double slot_bytes,
                               double *link_bytes)
{
    const mrail_flows_branch_t *branch = mrail_routes_branches(plan->routes);
    uint64_t last = 0;

    for (uint32_t b = slot->first_branch;
         b < slot->first_branch + slot->num_branches; ++b) {
        double bytes = (b == slot->first_branch) ? slot_bytes : 0;

        if (branch_end != NULL) {
            bytes = (double)(int64_t)(branch_end[b] - last);
            last = branch_end[b];
        }
        for (unsigned i = 0; i < MRAIL_FLOWS_BRANCH_LINKS; ++i) {
            if (branch[b].link[i] != MRAIL_FLOWS_NO_LINK) {
                link_bytes[branch[b].link[i]] += bytes;
            }
        }
    }
}

double mrail_loads_to_links(mrail_plan_t *plan, const uint64_t *branch_end,
                            double *link_bytes)
{
    const mrail_flows_slot_t *slot = mrail_routes_slots(plan->routes);
    size_t slots = (size_t)mrail_routes_num_rows(plan->routes) *
                   mrail_routes_num_lanes(plan->routes);
    double relayed = 0;

    memset(link_bytes, 0,
           mrail_routes_num_links(plan->routes) * sizeof(*link_bytes));
    for (size_t s = 0; s < slots; ++s) {
        double bytes = plan->slot_bytes[s];

        if (bytes == 0) {
            continue;
        }
        for (unsigned i = 0; (i < MRAIL_FLOWS_SLOT_LINKS) &&
                             (slot[s].link[i] != MRAIL_FLOWS_NO_LINK);
             ++i) {
            link_bytes[slot[s].link[i]] += bytes;
        }
        relayed += slot[s].relays * bytes;
    }
    for (size_t s = 0; (plan->slot_total != NULL) && (s < slots); ++s) {
        if (plan->slot_bytes[s] != 0) {
            loads_add_branches(plan, &slot[s], branch_end, plan->slot_bytes[s],
                               link_bytes);
        }
    }
    return relayed;
}

void mrail_loads_add_background(const mrail_plan_t *plan, double *link_bytes)
{
    for (uint32_t e = 0; e < plan->background_end; ++e) {
        link_bytes[e] += plan->background[e];
    }
}

static uint64_t loads_background_digest(uint32_t link, double bytes)
{
    return (bytes > 0) ? mrail_digest(link, (uint64_t)bytes) : 0;
}

int mrail_plan_set_background(mrail_plan_t *plan, unsigned link, uint64_t bytes)
{
    if (link >= mrail_routes_num_links(plan->routes)) {
        return -EINVAL;
    }
    if (bytes > MRAIL_PLAN_MAX_BACKGROUND) {
        return -ENOSPC;
    }
    plan->background_digest -=
        loads_background_digest(link, plan->background[link]);
    plan->background[link] = (double)(int64_t)bytes;
    plan->background_digest +=
        loads_background_digest(link, plan->background[link]);
    plan->background_end = MRAIL_MAX(plan->background_end, link + 1);
    while ((plan->background_end > 0) &&
           (plan->background[plan->background_end - 1] == 0)) {
        --plan->background_end;
    }
    plan->generation = 0;
    return 0;
}

double mrail_loads_congestion(const mrail_plan_t *plan,
                              const double *link_bytes)
{
    double most = 0;

    for (uint32_t e = 0; e < mrail_routes_num_links(plan->routes); ++e) {
        most = MRAIL_MAX(most, link_bytes[e] / plan->capacity[e]);
    }
    return most;
}

void mrail_loads_clear(mrail_plan_t *plan)
{
    memset(plan->slot_bytes, 0,
           (size_t)mrail_routes_num_rows(plan->routes) *
               mrail_routes_num_lanes(plan->routes) *
               sizeof(*plan->slot_bytes));
    if (plan->slot_total != NULL) {
        memset(plan->slot_total, 0,
               (size_t)mrail_routes_num_rows(plan->routes) *
                   mrail_routes_num_lanes(plan->routes) *
                   sizeof(*plan->slot_total));
    }
}

void mrail_loads_add(mrail_plan_t *plan, const mrail_route_t *route,
                     unsigned lane, double bytes)
{
    size_t lanes = mrail_routes_num_lanes(plan->routes);

    plan->slot_bytes[route->row[0] * lanes + lane] += bytes;
    plan->slot_bytes[route->row[1] * lanes + lane] += bytes;
}
