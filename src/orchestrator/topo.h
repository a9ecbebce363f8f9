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
    /* MRAIL_PLAN_MAX_PAIRWISE squared, by sender and receiver (places in the
     * node); NULL: none */
    double *pairwise;
} mrail_topo_node_t;

typedef struct mrail_topo_rank {
    uint32_t node, rail; /* MRAIL_PLAN_NONE: multi-rail */
    uint32_t place;      /* index within its node, from 0 */
    double up, down;     /* to and from the switch; 0: no switch */
} mrail_topo_rank_t;

/* Capacities in both directions: out and in, or up and down. */
typedef struct mrail_topo_port {
    double out, in;
} mrail_topo_port_t;

struct mrail_plan_topo {
    unsigned num_nodes, num_rails;
    mrail_topo_node_t *nodes;
    mrail_topo_port_t *ports; /* by node and rail */
    unsigned num_leaf_groups; /* leaf groups whose uplinks may be set */
    /* by leaf group and rail; negative: unlimited */
    mrail_topo_port_t *uplinks;
    unsigned num_ranks, ranks_room;
    mrail_topo_rank_t *ranks;
    int has_hairpin, has_cross_rail;
};

/* Returns the capacity of the link between the GPUs of two ranks of a node, or
 * 0 if there is no link. */
double mrail_topo_pairwise(const mrail_plan_topo_t *topo, unsigned from,
                           unsigned to);

#endif
