/*
 * Random exchanges on random topologies, for checks of the planner. A seed
 * determines everything. The topology is plain numbers; world_build() makes the
 * planner's topology from it, and plan_paths.h lists the paths.
 */
#ifndef MRAIL_TEST_PLAN_TOPOLOGY_H
#define MRAIL_TEST_PLAN_TOPOLOGY_H

#include "orchestrator/plan.h"

#include "base/rng.h"

#define WORLD_MAX_NODES 16
#define WORLD_MAX_RAILS MRAIL_PLAN_MAX_RAILS
#define WORLD_MAX_LEAF_GROUPS 4
#define WORLD_MAX_PER_NODE MRAIL_PLAN_MAX_PAIRWISE
#define WORLD_MAX_RANKS (WORLD_MAX_NODES * WORLD_MAX_PER_NODE)
#define WORLD_MAX_DEMANDS 24000
/* The planner plans so many in two levels, where it can. */
#define WORLD_MANY_DEMANDS 3000

/* Bytes per second; 0: dead, or not there. */
typedef struct world {
    uint64_t seed;
    mrail_rng_t rng;
    unsigned num_nodes, num_rails, num_leaf_groups, num_ranks;
    double out[WORLD_MAX_NODES][WORLD_MAX_RAILS];
    double in[WORLD_MAX_NODES][WORLD_MAX_RAILS];
    unsigned node[WORLD_MAX_RANKS]; /* of each rank */
    unsigned rail[WORLD_MAX_RANKS]; /* or MRAIL_PLAN_NONE */
    double link[WORLD_MAX_RANKS][WORLD_MAX_RANKS];
    double up[WORLD_MAX_RANKS], down[WORLD_MAX_RANKS]; /* the switch's */
    unsigned pod[WORLD_MAX_NODES];
    /* 0: as many as are needed */
    int has_uplinks[WORLD_MAX_LEAF_GROUPS][WORLD_MAX_RAILS];
    double uplink_up[WORLD_MAX_LEAF_GROUPS][WORLD_MAX_RAILS];
    double uplink_down[WORLD_MAX_LEAF_GROUPS][WORLD_MAX_RAILS];
    int loop, cross;
    int many; /* demands */
    mrail_plan_options_t options;
    const char *pattern; /* of the demands */
    unsigned num_demands;
    mrail_plan_demand_t *demands; /* one of these */
    mrail_plan_demand_t room[2][WORLD_MAX_DEMANDS];
} world_t;

/* The world of this seed.  Some of its demands may have no path. */
void world_make(world_t *world, uint64_t seed);

/* Its topology; `backwards`: told in the opposite order, as far as the numbers
 * of the ranks let one.  Ends the program if the planner refuses something. */
mrail_plan_topo_t *world_build(const world_t *world, int backwards);

/* The demands that there were stay where they are (a plan is still using them):
 * a copy of them, to be changed, or others. */
void world_copy_demands(world_t *world);
void world_other_demands(world_t *world);

/* The demands whose `keep` is not 0 stay. */
void world_keep(world_t *world, const uint8_t *keep);

#endif
