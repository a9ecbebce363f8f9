/*
 * Internals of a topology (plan.h), for the files that derive paths from it.
 * Only the functions in plan.h modify it.
 */
#ifndef MRAIL_ORCHESTRATOR_TOPO_H
#define MRAIL_ORCHESTRATOR_TOPO_H

#include "plan.h"

typedef struct mrail_topo_node {
    uint32_t leaf_group;
    uint32_t num_ranks;
    uint8_t is_pairwise, is_switched; /* kinds of GPU links */
    /* MRAIL_PLAN_MAX_PAIRWISE squared, by sender and receiver (their indices in
     * the node); NULL if none */
    double *pairwise;
} mrail_topo_node_t;

typedef struct mrail_topo_rank {
    uint32_t node;
    uint32_t rails;  /* the rails that it reaches, as bits */
    uint32_t place;  /* index within its node, from 0 */
    double up, down; /* to and from the switch; 0 if there is no switch */
} mrail_topo_rank_t;

/* Capacities in both directions: out and in, or up and down. Negative means
 * unlimited. */
typedef struct mrail_topo_port {
    double out, in;
} mrail_topo_port_t;

/* The uplinks of a leaf, each with its own capacity. */
typedef struct mrail_topo_spread {
    double up[MRAIL_PLAN_MAX_UPLINKS], down[MRAIL_PLAN_MAX_UPLINKS];
} mrail_topo_spread_t;

struct mrail_plan_topo {
    unsigned num_nodes, num_rails;
    mrail_topo_node_t *nodes;
    mrail_topo_port_t *ports;   /* by node and rail */
    unsigned num_leaf_groups;   /* leaf groups whose uplinks may be set */
    mrail_topo_port_t *uplinks; /* by leaf group and rail: totals */
    /* by leaf group and rail; NULL if only the total is known */
    mrail_topo_spread_t **spreads;
    unsigned num_uplinks; /* uplinks of each leaf in `spreads`; 0 if there are
                           * none */
    unsigned num_ranks, ranks_allocated;
    mrail_topo_rank_t *ranks;
    /* by rank and rail, MRAIL_PLAN_MAX_RAILS each; NULL if all are unlimited */
    mrail_topo_port_t *reach;
    unsigned reach_allocated; /* number of ranks */
    int has_hairpin, has_cross_rail;
};

/* Returns the limits of a rank on a rail that it reaches. */
mrail_topo_port_t mrail_topo_reach(const mrail_plan_topo_t *topo, unsigned rank,
                                   unsigned rail);

int mrail_topo_is_limited(const mrail_plan_topo_t *topo, unsigned rank,
                          unsigned rail);

static inline uint32_t mrail_topo_group_of(const mrail_plan_topo_t *topo,
                                           unsigned rank)
{
    return topo->nodes[topo->ranks[rank].node].leaf_group;
}

/* Returns the uplinks of a leaf. Negative means not set. */
mrail_topo_port_t mrail_topo_uplinks(const mrail_plan_topo_t *topo,
                                     unsigned leaf_group, unsigned rail);

/* Returns the capacity of the link between the GPUs of two ranks of a node, or
 * 0 if there is no link. */
double mrail_topo_pairwise(const mrail_plan_topo_t *topo, unsigned from,
                           unsigned to);

/* Writes the capacity of each path between two leaves of a rail. Path i goes up
 * uplink i of the first leaf and down uplink i of the second, and has the
 * smaller of their capacities. Returns the number of paths, or 0 if neither
 * leaf has uplinks of known capacity. */
unsigned mrail_topo_uplink_paths(const mrail_plan_topo_t *topo,
                                 unsigned from_group, unsigned to_group,
                                 unsigned rail,
                                 double paths[MRAIL_PLAN_MAX_UPLINKS]);

#endif
