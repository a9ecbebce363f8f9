/* Internal structures of a plan in two levels (levels.h). */
#ifndef MRAIL_ORCHESTRATOR_LEVELS_INTERNAL_H
#define MRAIL_ORCHESTRATOR_LEVELS_INTERNAL_H

#include "water_fill.h"
#include "flows.h"
#include "levels.h"
#include "routes.h"

typedef struct levels_rank {
    double up, down; /* bytes per second */
} levels_rank_t;

/* Apart from the rest: looked up for every demand. */
typedef struct levels_spot {
    uint32_t node, rail;
} levels_spot_t;

/* The demands between two nodes. */
typedef struct levels_group {
    uint64_t total, large; /* bytes; of demands that may take any relays */
    uint64_t lost; /* bytes of small demands with an own rail at neither end */
    uint32_t count;
    uint32_t lanes; /* that are up at both ends, as bits */
} levels_group_t;

/* Where GPUs are linked in pairs; MRAIL_PLAN_MAX_PAIRWISE places a node. */
typedef struct levels_pairs {
    double *capacity;   /* by rank, place of the other one */
    uint32_t *by_place; /* ranks by node, place; MRAIL_PLAN_NONE */
    uint32_t *place;    /* of each rank */
    size_t
        num_bytes; /* in the three that follow, which are one piece of memory */
    uint64_t *inside; /* by rank, place of the receiver: bytes within a node */
    uint64_t
        *sent;     /* by rank, rail of the receiver (stride apart): to others */
    uint64_t *got; /* likewise, rail of the sender: from others */
    uint64_t *bytes; /* like `inside`: of a link in all */
    double *third; /* by node, rail, out and then in: at most so many bytes lie
                           there for whom it is the own rail of neither end */
} levels_pairs_t;

struct mrail_levels {
    mrail_plan_options_t options;
    uint32_t num_nodes, num_ranks, num_rails, num_links, stride;
    levels_rank_t *ranks;
    levels_spot_t *spots; /* likewise */
    uint64_t *up_bytes,
        *down_bytes;        /* of each rank: within the node, and of its own
                                        between nodes; not with pairs */
    levels_pairs_t *pairs;  /* or NULL: a switch */
    uint32_t *relays;       /* by node, rail */
    uint32_t *first_rank;   /* of each node */
    mrail_routes_t *routes; /* of the first level */
    mrail_flows_t *flows;
    double *capacity, *base,
        *bytes;         /* of its links: bytes of small demands, all */
    double *slot_bytes; /* of its rows */
    uint32_t *group_of; /* by pair of nodes */
    uint32_t num_groups, groups_room;
    levels_group_t *groups;
    uint32_t *row, *lanes; /* of the groups, as the flows want them */
    double *demand;
    uint64_t *wanted; /* by group, large or small, rail: bytes of demands that
                                  it is the own one of, at either end (stride apart) */
    double *worth, *small; /* by group, rail (stride apart): what it is worth to
                                  large demands; bytes of small ones, besides half of
                                  what is wanted */
    uint64_t *end;         /* by group, rail: of large demands */
    const mrail_plan_demand_t *demands;
    size_t num_demands, demands_room, ends_room;
    int is_sorted;
    uint32_t *order;   /* demands by pair of nodes */
    uint32_t *first;   /* of each pair, in this order */
    uint32_t expanded; /* the pair that ends is about, or MRAIL_PLAN_NONE */
    mrail_water_fill_demand_t *members; /* of it */
    uint64_t *ends;                     /* by these, rail */
    double total;
};

/* The demands, added up by pairs of nodes and by ranks, and a digest of all: 0;
 * -ENOMEM; -ERANGE: something is wrong with them. */
int mrail_levels_add_demands(mrail_levels_t *levels, uint64_t *digest_p);

/* For links between GPUs, once the stride is known: 0; -ENOTSUP, -ENOMEM. */
int mrail_levels_create_gpus(mrail_levels_t *levels,
                             const mrail_plan_topo_t *topo);
void mrail_levels_destroy_gpus(mrail_levels_t *levels);
/* The largest load of these links, in seconds, that the second level may come to. */
double mrail_levels_most_on_gpus(mrail_levels_t *levels);
/* Starts the sums of pairwise links: first the traffic within nodes, then a
 * demand between two nodes, whose rails end there; then the largest load. */
void mrail_levels_begin_pairs(mrail_levels_t *levels);
void mrail_levels_add_to_pairs(mrail_levels_t *levels,
                               const mrail_plan_demand_t *demand,
                               const uint64_t *end);
double mrail_levels_load_of_pairs(const mrail_levels_t *levels);

#endif
