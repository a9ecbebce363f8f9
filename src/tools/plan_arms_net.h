/*
 * Models the links of a topology for the comparison methods, with the bytes
 * that a method puts on each link. The links come from a plan.
 */
#ifndef MRAIL_TOOLS_PLAN_ARMS_NET_H
#define MRAIL_TOOLS_PLAN_ARMS_NET_H

#include "tools/plan_arms.h"

#include <stdint.h>

enum { PLAN_ARMS_OUT, PLAN_ARMS_IN, PLAN_ARMS_WAYS };

/* How a demand travels. */
typedef enum plan_arms_kind {
    PLAN_ARMS_NOT_PLANNED, /* no bytes, or no known limit */
    PLAN_ARMS_LINKED,      /* a GPU link or switch connects the ranks */
    PLAN_ARMS_RELAYED,     /* on one node, but only through a third rank */
    PLAN_ARMS_RAILS        /* over rails */
} plan_arms_kind_t;

typedef struct plan_arms_net {
    const mrail_plan_topo_t *topo;
    const mrail_plan_t *plan;
    const mrail_plan_demand_t *demands;
    size_t num_demands;
    unsigned num_nodes, num_rails, num_ranks, num_links, num_leaf_groups;
    mrail_plan_link_t *links; /* links in the order of the plan */
    double *bytes;            /* by link, for the current method */
    double relayed;           /* bytes times relays, for the current method */
    uint32_t *words;          /* memory of the following arrays */
    /* Link number of a port, by direction and node * num_rails + rail;
     * MRAIL_PLAN_NONE if the rail is down. */
    uint32_t *port[PLAN_ARMS_WAYS];
    /* Link number of a rank's limit on a rail, by direction and rank *
     * num_rails + rail; MRAIL_PLAN_NONE if there is no limit. */
    uint32_t *reach[PLAN_ARMS_WAYS];
    /* Link number between a GPU and the switch, by direction and rank;
     * MRAIL_PLAN_NONE if there is no link. */
    uint32_t *to_switch[PLAN_ARMS_WAYS];
    /* Link number between two GPUs, by rank and the other rank's `place`;
     * MRAIL_PLAN_NONE if there is no link. */
    uint32_t *gpu_link;
    uint32_t *place; /* index of a rank in its node, by rank */
    /* The ranks of node n are ranks[first[n]] to ranks[first[n + 1] - 1]. */
    uint32_t *first, *ranks;
    /* The same relays as in the planner, up to MRAIL_PLAN_MAX_RELAYS for each
     * direction and rank * num_rails + rail. */
    uint32_t *num_relays[PLAN_ARMS_WAYS], *relays[PLAN_ARMS_WAYS];
} plan_arms_net_t;

/* Returns 0 or -ENOMEM. `plan` and `demands` must outlive the net. */
int plan_arms_net_init(plan_arms_net_t *net, const mrail_plan_topo_t *topo,
                       const mrail_plan_t *plan,
                       const mrail_plan_demand_t *demands, size_t num_demands);
void plan_arms_net_cleanup(plan_arms_net_t *net);

/* Removes all bytes. */
void plan_arms_net_clear(plan_arms_net_t *net);

plan_arms_kind_t plan_arms_net_kind(const plan_arms_net_t *net, size_t demand);

/* Returns a mask of the rails that the demand can use: those that are up at
 * both ends, and that each end reaches itself or through a relay. */
uint32_t plan_arms_net_rails(const plan_arms_net_t *net,
                             const mrail_plan_demand_t *demand);

int plan_arms_net_reaches(const plan_arms_net_t *net, uint32_t rank,
                          unsigned rail);

/* Returns 1 if a GPU link or switch leads directly from one rank of a node to
 * the other. */
int plan_arms_net_is_linked(const plan_arms_net_t *net, uint32_t from,
                            uint32_t to);

/* Writes the links from one GPU of a node to another, and returns their number:
 * 1 or 2, or 0 if the two are not linked. */
unsigned plan_arms_net_hop(const plan_arms_net_t *net, uint32_t from,
                           uint32_t to, uint32_t links[2]);

/* Writes the links at one end of a path over a rail, and returns their number.
 * `at` is the rank at the port: the rank itself or its relay. */
#define PLAN_ARMS_END_LINKS 4
unsigned plan_arms_net_end(const plan_arms_net_t *net, unsigned way,
                           uint32_t rank, uint32_t at, unsigned rail,
                           uint32_t links[PLAN_ARMS_END_LINKS]);

void plan_arms_net_add(plan_arms_net_t *net, const uint32_t *links,
                       unsigned num, double bytes);

/* Adds bytes of a demand to a rail, spread evenly over the relays at each
 * end. */
void plan_arms_net_add_rail(plan_arms_net_t *net,
                            const mrail_plan_demand_t *demand, unsigned rail,
                            double bytes);

/* Adds a demand of kind LINKED to its link, or one of kind RELAYED as the plan
 * divides it. */
void plan_arms_net_add_inside(plan_arms_net_t *net, size_t demand,
                              plan_arms_kind_t kind);

/* Returns the largest load of a link, in seconds. */
double plan_arms_net_congestion(const plan_arms_net_t *net);

#endif
