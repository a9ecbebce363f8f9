/*
 * Random exchanges on random topologies, for checks of the planner. A seed
 * determines everything. The topology is plain numbers; machine_build() makes the
 * planner's topology from it, and plan_paths.h lists the paths.
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
/* The planner plans so many in two levels, where it can. */
#define MACHINE_MANY_DEMANDS 3000

/* Bytes per second; 0: dead, or not there. */
typedef struct machine {
    uint64_t seed;
    mrail_rng_t rng;
    unsigned num_nodes, num_rails, num_leaf_groups, num_ranks;
    double out[MACHINE_MAX_NODES][MACHINE_MAX_RAILS];
    double in[MACHINE_MAX_NODES][MACHINE_MAX_RAILS];
    unsigned node[MACHINE_MAX_RANKS]; /* of each rank */
    unsigned rail[MACHINE_MAX_RANKS]; /* or MRAIL_PLAN_NONE */
    double link[MACHINE_MAX_RANKS][MACHINE_MAX_RANKS];
    double up[MACHINE_MAX_RANKS], down[MACHINE_MAX_RANKS]; /* the switch's */
    unsigned leaf_group[MACHINE_MAX_NODES];
    /* 0: as many as are needed */
    int has_uplinks[MACHINE_MAX_LEAF_GROUPS][MACHINE_MAX_RAILS];
    double uplink_up[MACHINE_MAX_LEAF_GROUPS][MACHINE_MAX_RAILS];
    double uplink_down[MACHINE_MAX_LEAF_GROUPS][MACHINE_MAX_RAILS];
    int hairpin, cross_rail;
    int many; /* demands */
    mrail_plan_options_t options;
    const char *pattern; /* of the demands */
    unsigned num_demands;
    mrail_plan_demand_t *demands; /* one of these */
    mrail_plan_demand_t room[2][MACHINE_MAX_DEMANDS];
} machine_t;

/* The machine of this seed.  Some of its demands may have no path. */
void machine_make(machine_t *machine, uint64_t seed);

/* Its topology; `backwards`: told in the opposite order, as far as the numbers
 * of the ranks let one.  Ends the program if the planner refuses something. */
mrail_plan_topo_t *machine_build(const machine_t *machine, int backwards);

/* The demands that there were stay where they are (a plan is still using them):
 * a copy of them, to be changed, or others. */
void machine_copy_demands(machine_t *machine);
void machine_other_demands(machine_t *machine);

/* The demands whose `keep` is not 0 stay. */
void machine_keep(machine_t *machine, const uint8_t *keep);

#endif
