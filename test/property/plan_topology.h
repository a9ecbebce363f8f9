/*
 * Random exchanges on random topologies, for checks of the planner. A seed
 * determines everything. The topology is stored as plain numbers.
 * machine_build() makes the planner's topology from it, and plan_paths.h lists
 * the paths.
 */
#ifndef MRAIL_TEST_PLAN_TOPOLOGY_H
#define MRAIL_TEST_PLAN_TOPOLOGY_H

#include "orchestrator/plan.h"

#include "base/rng.h"

#define MACHINE_MAX_NODES 16
#define MACHINE_MAX_RAILS MRAIL_PLAN_MAX_RAILS
#define MACHINE_MAX_LEAF_GROUPS 4
#define MACHINE_MAX_PER_NODE MRAIL_PLAN_MAX_PAIRWISE
#define MACHINE_MAX_RANKS (MACHINE_MAX_NODES * MACHINE_MAX_PER_NODE)
#define MACHINE_MAX_DEMANDS 24000
/* With this many demands, the planner repairs incrementally where it can. */
#define MACHINE_MANY_DEMANDS 3000

/* Capacities are in bytes per second. A capacity of 0 means down or absent. */
typedef struct machine {
    uint64_t seed;
    mrail_rng_t rng;
    unsigned num_nodes, num_rails, num_leaf_groups, num_ranks;
    double out[MACHINE_MAX_NODES][MACHINE_MAX_RAILS];
    double in[MACHINE_MAX_NODES][MACHINE_MAX_RAILS];
    unsigned node[MACHINE_MAX_RANKS];  /* node of each rank */
    unsigned place[MACHINE_MAX_RANKS]; /* index of each rank in its node */
    uint32_t rails[MACHINE_MAX_RANKS]; /* rails that it reaches, as bits */
    /* Limits on these rails; negative: unlimited. */
    double reach_out[MACHINE_MAX_RANKS][MACHINE_MAX_RAILS];
    double reach_in[MACHINE_MAX_RANKS][MACHINE_MAX_RAILS];
    double link[MACHINE_MAX_RANKS][MACHINE_MAX_RANKS];
    double up[MACHINE_MAX_RANKS],
        down[MACHINE_MAX_RANKS]; /* links to the switch */
    unsigned leaf_group[MACHINE_MAX_NODES];
    /* 0 means no limit. */
    int has_uplinks[MACHINE_MAX_LEAF_GROUPS][MACHINE_MAX_RAILS];
    double uplink_up[MACHINE_MAX_LEAF_GROUPS][MACHINE_MAX_RAILS];
    double uplink_down[MACHINE_MAX_LEAF_GROUPS][MACHINE_MAX_RAILS];
    int hairpin, cross_rail;
    int many; /* 1 if there are many demands */
    mrail_plan_options_t options;
    const char *pattern; /* kind of the demands */
    unsigned num_demands;
    mrail_plan_demand_t *demands; /* demands of this pattern */
    /* background by link number of plan_paths.h, or NULL */
    double *background;
    mrail_plan_demand_t spare_demands[2][MACHINE_MAX_DEMANDS];
} machine_t;

/* Makes the topology of this seed. Some of its demands may have no path. */
void machine_make(machine_t *machine, uint64_t seed);

/* Returns the planner's topology. With `backwards`, builds it in reverse order
 * as far as the numbers of ranks allow. Ends the program if the planner rejects
 * anything. */
mrail_plan_topo_t *machine_build(const machine_t *machine, int backwards);

/* The first function copies the demands, and the second one generates new ones.
 * Both leave the previous demands in place, because a plan still uses them. */
void machine_copy_demands(machine_t *machine);
void machine_other_demands(machine_t *machine);

/* Removes the demands whose `keep` is 0. */
void machine_keep(machine_t *machine, const uint8_t *keep);

#endif
