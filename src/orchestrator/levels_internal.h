/* Internals of a plan in two levels (levels.h), for the files that implement
 * it. */
#ifndef MRAIL_ORCHESTRATOR_LEVELS_INTERNAL_H
#define MRAIL_ORCHESTRATOR_LEVELS_INTERNAL_H

#include "water_fill.h"
#include "flows.h"
#include "levels.h"
#include "routes.h"

typedef struct levels_rank {
    double up, down; /* bytes per second */
} levels_rank_t;

/* In an array of its own, because it is looked up for every demand. */
typedef struct levels_place {
    uint32_t node, rail;
} levels_place_t;

/* Demands between two nodes. */
typedef struct levels_group {
    /* bytes of all demands; of those that may use any relay */
    uint64_t total, large;
    uint64_t lost; /* bytes of small demands for which both own rails are
                    * down */
    uint32_t count;
    uint32_t lanes; /* rails that are up at both ends, as bits */
} levels_group_t;

/* Pairwise GPU links, with MRAIL_PLAN_MAX_PAIRWISE places per node. */
typedef struct levels_pairs {
    double *capacity;   /* by rank and place of the other rank */
    uint32_t *by_place; /* by node and place: rank, or MRAIL_PLAN_NONE */
    uint32_t *place;    /* by rank */
    size_t num_bytes;   /* bytes of the next three arrays, in one allocation */
    /* by rank and place of the receiver: bytes within a node */
    uint64_t *inside;
    /* by rank and rail of the receiver (stride apart): bytes to other nodes */
    uint64_t *sent;
    /* by rank and rail of the sender: bytes from other nodes */
    uint64_t *received;
    /* by rank and place of the receiver: total bytes on a link */
    uint64_t *bytes;
    /* by node, rail, out then in: maximum third-party bytes */
    double *third_party;
} levels_pairs_t;

struct mrail_levels {
    mrail_plan_options_t options;
    uint32_t num_nodes, num_ranks, num_rails, num_links, stride;
    levels_rank_t *ranks;
    levels_place_t *places; /* by rank */
    /* by rank: bytes within the node and own bytes between nodes; unused with
     * pairwise links */
    uint64_t *up_bytes, *down_bytes;
    levels_pairs_t *pairs;  /* NULL: ranks are on a switch */
    uint32_t *relays;       /* by node and rail */
    uint32_t *first_rank;   /* by node */
    mrail_routes_t *routes; /* routes of the first level */
    mrail_flows_t *flows;
    /* by link: capacity; bytes of background and small demands; all bytes */
    double *capacity, *base, *bytes;
    double *slot_bytes; /* by slot */
    uint32_t *group_of; /* by pair of nodes */
    uint32_t num_groups, groups_room;
    levels_group_t *groups;
    uint32_t *row, *lanes; /* routes of the groups, as in flows.h */
    double *demand;
    /* By group, large or small, and rail (stride apart): bytes of demands that
     * own the rail at either end. */
    uint64_t *wanted;
    /* by group and rail (stride apart): weight for large demands; bytes of
     * small demands that are not in half of `wanted` */
    double *weight, *small;
    uint64_t *end; /* by group and rail: ends of large demands */
    const mrail_plan_demand_t *demands;
    size_t num_demands, demands_room, ends_room;
    int is_sorted;
    uint32_t *order; /* demands sorted by pair of nodes */
    uint32_t *first; /* by pair: index in `order` */
    /* pair to which `ends` belongs, or MRAIL_PLAN_NONE */
    uint32_t expanded;
    mrail_water_fill_demand_t *members; /* demands of that pair */
    uint64_t *ends;                     /* by demand of that pair and rail */
    double total;
};

/* Sums the demands by pair of nodes and by rank, and computes their digest.
 * Returns 0, -ENOMEM, or -ERANGE if a demand is invalid. */
int mrail_levels_add_demands(mrail_levels_t *levels, uint64_t *digest_p);

/* Creates the GPU links. The stride must be set. Returns 0, -ENOTSUP or
 * -ENOMEM. */
int mrail_levels_create_gpus(mrail_levels_t *levels,
                             const mrail_plan_topo_t *topo);
void mrail_levels_destroy_gpus(mrail_levels_t *levels);
/* Returns an upper bound in seconds on the GPU link load that the second level
 * causes. */
double mrail_levels_most_on_gpus(mrail_levels_t *levels);
/* Compute the load of pairwise links. The functions start with the traffic
 * within nodes, add a demand between nodes given the ends of its rails, and
 * return the largest load in seconds. */
void mrail_levels_begin_pairs(mrail_levels_t *levels);
void mrail_levels_add_to_pairs(mrail_levels_t *levels,
                               const mrail_plan_demand_t *demand,
                               const uint64_t *end);
double mrail_levels_load_of_pairs(const mrail_levels_t *levels);

#endif
