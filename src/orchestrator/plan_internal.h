/* What a plan (plan.h) consists of, for the files that it is made in. */
#ifndef MRAIL_ORCHESTRATOR_PLAN_INTERNAL_H
#define MRAIL_ORCHESTRATOR_PLAN_INTERNAL_H

#include "flows.h"
#include "levels.h"
#include "plan.h"
#include "routes.h"

/* So many demands are planned in two levels, where that is possible. */
#define MRAIL_PLAN_MANY 3000

/* Bytes of all demands together. */
#define MRAIL_PLAN_MAX_BYTES (UINT64_C(1) << 62)

/* Instead of a group: the demand is whole on the path that it takes alone. */
#define MRAIL_PLAN_ALONE (MRAIL_PLAN_NONE - 1)

/* That path. */
typedef struct plan_alone {
    mrail_route_t route;
    uint32_t lane;
} plan_alone_t;

/* A division of demands, in whole bytes.  Those with the same route are a group: their
 * bytes lie side by side on a line, which is cut into lanes. */
typedef struct plan_division {
    const mrail_plan_demand_t *demands;
    size_t num_demands, demands_room;
    uint64_t *start;    /* of each demand, on its group's line */
    uint32_t *group_of; /* of each; MRAIL_PLAN_NONE: not planned; or _ALONE */
    uint32_t num_groups, groups_room;
    uint64_t *totals;       /* bytes of each */
    uint32_t *row, *lanes;  /* routes of the groups, as the flows want them */
    double *bytes;          /* likewise */
    uint64_t *end;          /* of each lane, on the line, by group, lane */
    uint64_t digest;        /* of the demands */
    mrail_levels_t *levels; /* who knows instead of all this; or NULL */
    mrail_plan_summary_t summary;
} plan_division_t;

struct mrail_plan {
    mrail_plan_options_t options;
    mrail_routes_t *routes;
    mrail_flows_t *flows;
    double *capacity; /* of each link */
    uint32_t num_nodes, num_ranks;
    uint32_t *free_node; /* of each rank; MRAIL_PLAN_NONE: it is bound */
    uint32_t *shared;    /* group by pair of nodes, of free ranks */
    uint64_t generation;
    plan_division_t now, next;
    mrail_levels_t *levels[2]; /* one of them knows what is, or none; or NULL */
    uint64_t *whole;           /* ends of the lanes of what is not cut */
    double *slot_bytes;
    double *link_bytes, *link_before, *link_base;
    int is_all_single_rail; /* no rank reaches all rails */
    plan_alone_t *alone;    /* of each demand of the next division */
    size_t alone_room;
    double *worth;        /* of its groups' lanes */
    uint32_t weight_room; /* groups */
    double *set_sums;     /* bytes, capacity by set of links */
    double *rank_cut;     /* by rank, out, in: its own port and its GPU links */
    double *rank_bytes;   /* likewise: what it sends, gets */
};

int mrail_plan_grow_demands(plan_division_t *division, size_t count);
/* The next division's groups: a new one; 0 or -ENOMEM. */
int mrail_plan_add_group(mrail_plan_t *plan, const mrail_route_t *route,
                         uint32_t *group_p);
/* Cuts the line of a group in proportion to `part` of its lanes; adds to the bytes of
 * slots; its part of the hash. */
uint64_t mrail_plan_cut(mrail_plan_t *plan, uint32_t g, const double *part);

/* 0; -ERANGE: all has to be divided at once; -ENOMEM. */
int mrail_plan_divide_contended(mrail_plan_t *plan);

/* Bytes of slots: none; some of a route's lane. */
void mrail_loads_clear(mrail_plan_t *plan);
void mrail_loads_add(mrail_plan_t *plan, const mrail_route_t *route,
                     unsigned lane, double bytes);
/* From slots to links; gives the bytes that relays pass. */
double mrail_loads_to_links(mrail_plan_t *plan, double *link_bytes);
/* The largest load of these, in seconds. */
double mrail_loads_congestion(const mrail_plan_t *plan,
                              const double *link_bytes);

#endif
