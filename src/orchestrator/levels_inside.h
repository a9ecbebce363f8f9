/* What a plan in two levels (levels.h) consists of, for the files it is made in. */
#ifndef MRAIL_ORCHESTRATOR_LEVELS_INSIDE_H
#define MRAIL_ORCHESTRATOR_LEVELS_INSIDE_H

#include "filling.h"
#include "flows.h"
#include "levels.h"
#include "routes.h"

typedef struct levels_rank {
    double up, down;               /* bytes per second */
} levels_rank_t;

/* Apart from the rest: looked up for every demand. */
typedef struct levels_spot {
    uint32_t node, rail;
} levels_spot_t;

/* The demands between two nodes. */
typedef struct levels_group {
    uint64_t total, large; /* bytes; of demands that may take any relays */
    uint32_t count;
    uint32_t lanes;        /* that are up at both ends, as bits */
} levels_group_t;

struct mrail_levels {
    mrail_plan_options_t options;
    uint32_t num_nodes, num_ranks, num_rails, num_links, stride;
    levels_rank_t *ranks;
    levels_spot_t *spots;      /* likewise */
    uint64_t *up_bytes, *down_bytes; /* of each rank: within the node, and of its own
                                        between nodes */
    uint32_t *relays;          /* by node, rail */
    uint32_t *first_rank;      /* of each node */
    mrail_routes_t *routes;    /* of the first level */
    mrail_flows_t *flows;
    double *capacity, *base, *bytes; /* of its links: bytes of small demands, all */
    double *slot_bytes;        /* of its rows */
    uint32_t *group_of;        /* by pair of nodes */
    uint32_t num_groups, groups_room;
    levels_group_t *groups;
    uint32_t *row, *lanes;     /* of the groups, as the flows want them */
    double *demand;
    uint64_t *wanted;          /* by group, large or small, rail: bytes of demands that
                                  it is the own one of, at either end (stride apart) */
    double *worth, *small;     /* by group, rail (stride apart): what it is worth to
                                  large demands; bytes of small ones, besides half of
                                  what is wanted */
    uint64_t *end;             /* by group, rail: of large demands */
    const mrail_plan_demand_t *demands;
    size_t num_demands, demands_room, ends_room;
    int is_sorted;
    uint32_t *order;           /* demands by pair of nodes */
    uint32_t *first;           /* of each pair, in this order */
    uint32_t expanded;         /* the pair that ends is about, or MRAIL_PLAN_NONE */
    mrail_filling_demand_t *members; /* of it */
    uint64_t *ends;            /* by these, rail */
    double total;
};

/* The demands, added up by pairs of nodes and by ranks, and a digest of all: 0;
 * -ENOMEM; -ERANGE: something is wrong with them. */
int mrail_levels_add_demands(mrail_levels_t *levels, uint64_t *digest_p);

#endif
