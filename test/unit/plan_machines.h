/* Small topologies for the planner's unit tests, and checks of their plans. A
 * topology that cannot be created fails the test. */
#ifndef MRAIL_TEST_PLAN_MACHINES_H
#define MRAIL_TEST_PLAN_MACHINES_H

#include "orchestrator/plan.h"

#define NONE MRAIL_PLAN_NONE
#define GAP 0.02 /* the default */
#define G 1e9

void set_rails(mrail_plan_topo_t *topo, double capacity);
/* One rank per rail of each node, by node. Rails of 1 GB/s. Pairwise links of
 * `gpu` between the ranks of a node, if > 0. */
mrail_plan_topo_t *bound(unsigned nodes, unsigned rails, double gpu);
/* The same, with a switch in each node, 100 GB/s down. */
mrail_plan_topo_t *switched(unsigned nodes, unsigned rails, double up);
/* One rank per node, which reaches all rails of 1 GB/s. */
mrail_plan_topo_t *free_ranks(unsigned nodes, unsigned rails);

/* Creates a plan and destroys the topology. */
mrail_plan_t *plan_of(mrail_plan_topo_t *topo);
void make(mrail_plan_t *plan, const mrail_plan_demand_t *demands, size_t count);
/* The same, and plans one demand. */
mrail_plan_t *plan_one(mrail_plan_topo_t *topo, uint32_t from, uint32_t to,
                       uint64_t bytes);

mrail_plan_summary_t summary_of(const mrail_plan_t *plan);
/* Bytes on a link. -1: there is no such link. */
double load_of(const mrail_plan_t *plan, mrail_plan_link_kind_t kind,
               unsigned a, unsigned b);

void assert_near(double is, double wanted, double part);
/* Checks the plan against the known minimum. */
mrail_plan_summary_t assert_congestion(const mrail_plan_t *plan, double least);

#endif
