/* Internals of a plan (plan.h), for the files that implement it. */
#ifndef MRAIL_ORCHESTRATOR_PLAN_INTERNAL_H
#define MRAIL_ORCHESTRATOR_PLAN_INTERNAL_H

#include "flows.h"
#include "plan.h"
#include "routes.h"

/* Fraction of the gap that a division may use. The rest covers rounding to
 * whole bytes. */
#define MRAIL_PLAN_PART_LIMIT 0.95

/* Upper bound on the sum of all demands. */
#define MRAIL_PLAN_MAX_BYTES (UINT64_C(1) << 62)

/* Used instead of a group: the demand takes its direct path undivided. */
#define MRAIL_PLAN_DIRECT (MRAIL_PLAN_NONE - 1)

/* Direct path of a demand. */
typedef struct plan_direct {
    mrail_route_t route;
    uint32_t lane;
} plan_direct_t;

/* A division of demands in whole bytes. Demands with the same route form a
 * group. Their bytes are laid end to end on a line, which is divided among the
 * lanes. */
typedef struct plan_division {
    const mrail_plan_demand_t *demands;
    size_t num_demands, demands_allocated;
    uint64_t *start; /* by demand: position on its group's line */
    /* by demand: its group, MRAIL_PLAN_NONE (not planned) or
     * MRAIL_PLAN_DIRECT */
    uint32_t *group_of;
    uint32_t num_groups, groups_allocated;
    uint64_t *totals;      /* bytes by group */
    uint32_t *row, *lanes; /* routes of the groups, as in flows.h */
    double *bytes;         /* `totals` as doubles */
    uint64_t *end;         /* by group and lane: position on the line */
    /* A slot with branches also has a line: the bytes of all groups, in their
     * order. By group, lane and end of the path: position on that line. NULL if
     * there are no branches. */
    uint64_t *position;
    uint64_t *branch_end; /* by branch: position on the line of its slot */
    uint64_t digest;      /* digest of the demands */
    mrail_plan_summary_t summary;
} plan_division_t;

struct mrail_plan {
    mrail_plan_options_t options;
    mrail_routes_t *routes;
    mrail_flows_t *flows;
    double *capacity; /* by link */
    uint32_t num_nodes, num_ranks, num_classes;
    uint32_t *class_of;   /* by rank; MRAIL_PLAN_NONE if none */
    uint32_t *class_node; /* by class */
    uint32_t *shared;     /* by pair of classes: the group of their demands */
    uint64_t generation;
    plan_division_t now, next;
    uint64_t *whole; /* lane ends of an undivided demand */
    double *slot_bytes;
    uint64_t *slot_total; /* bytes by slot; NULL if there are no branches */
    double *branch_part;  /* by branch */
    double *link_bytes;   /* by link: bytes of the current plan */
    double *link_next;    /* by link: bytes of the next plan */
    double *link_before, *link_base;
    double *background;         /* by link */
    uint32_t background_end;    /* number of the last link with background, plus
                                 * 1 */
    uint64_t background_digest; /* 0 if there is none */
    int is_all_single_rail;     /* 1 if each rank reaches one rail */
    plan_direct_t *direct;      /* by demand of the next division */
    size_t direct_allocated;
    double *weight;            /* by group and lane of the next division */
    uint32_t weight_allocated; /* number of groups */
    double *set_sums;          /* bytes and capacity by cut set */
    /* by rank, out and in: capacity of its port and GPU links */
    double *rank_cut;
    double *rank_bytes; /* by rank: bytes sent and received */
};

int mrail_plan_grow_demands(plan_division_t *division, size_t count);
/* Adds a group to the next division. Returns 0 or -ENOMEM. */
int mrail_plan_add_group(mrail_plan_t *plan, const mrail_route_t *route,
                         uint32_t *group_p);
/* Divides a group's line among its lanes in proportion to `part`, and adds the
 * bytes to the slots. Returns the group's contribution to the hash. */
uint64_t mrail_plan_cut(mrail_plan_t *plan, uint32_t g, const double *part);

/* Cuts the lines of slots with branches, and returns the contribution to the
 * hash. Call mrail_loads_clear() and then mrail_plan_cut() for all groups
 * before. */
uint64_t mrail_plan_cut_branches(mrail_plan_t *plan);

/* Plans the demands as described in plan_contended.c. Returns 0, -ENOMEM, or
 * -ERANGE if all demands must be divided together. */
int mrail_plan_divide_contended(mrail_plan_t *plan);

/* These functions clear the bytes of slots, and add bytes on a lane of a
 * route. */
void mrail_loads_clear(mrail_plan_t *plan);
void mrail_loads_add(mrail_plan_t *plan, const mrail_route_t *route,
                     unsigned lane, double bytes);
/* Computes the bytes of links from the bytes of slots and the ends of branches.
 * Without ends, the first branch of a slot carries all its bytes. Returns the
 * relayed bytes. */
double mrail_loads_to_links(mrail_plan_t *plan, const uint64_t *branch_end,
                            double *link_bytes);
void mrail_loads_add_background(const mrail_plan_t *plan, double *link_bytes);
/* Returns the largest load in seconds. */
double mrail_loads_congestion(const mrail_plan_t *plan,
                              const double *link_bytes);

#endif
