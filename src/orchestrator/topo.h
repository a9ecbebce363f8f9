/*
 * Internal structures of a topology (plan.h), for the code that makes paths.
 * The functions of plan.h fill it in; all others only read it.
 */
#ifndef MRAIL_ORCHESTRATOR_TOPO_H
#define MRAIL_ORCHESTRATOR_TOPO_H

#include "plan.h"

typedef struct mrail_topo_node {
    uint32_t pod;
    uint32_t num_ranks;
    uint8_t is_meshed, is_switched; /* it has such links */
    double *
        mesh; /* MRAIL_PLAN_MAX_PAIRWISE squared, by from, to (places in the node);
                     NULL: none */
} mrail_topo_node_t;

typedef struct mrail_topo_rank {
    uint32_t node, rail; /* MRAIL_PLAN_NONE: reaches all */
    uint32_t place;      /* in its node, from 0 */
    double up, down;     /* to and from the switch; 0: none */
} mrail_topo_rank_t;

/* Capacities of both directions: out and in, or up and down. */
typedef struct mrail_topo_port {
    double out, in;
} mrail_topo_port_t;

struct mrail_plan_topo {
    unsigned num_nodes, num_rails;
    mrail_topo_node_t *nodes;
    mrail_topo_port_t *ports;   /* by node, rail */
    unsigned num_leaf_groups;   /* whose uplinks may have been set */
    mrail_topo_port_t *uplinks; /* by pod, rail; < 0: as many as are needed */
    unsigned num_ranks, ranks_room;
    mrail_topo_rank_t *ranks;
    int has_hairpin, has_cross_rail;
};

/* From one rank's GPU to another one's of the same node; 0: no link. */
double mrail_topo_pairwise(const mrail_plan_topo_t *topo, unsigned from,
                           unsigned to);

#endif
