/* Small topologies for the planner's unit tests, and checks of their plans. If
 * a topology cannot be created, the test fails. */
#ifndef MRAIL_TEST_PLAN_MACHINES_H
#define MRAIL_TEST_PLAN_MACHINES_H

#include "orchestrator/plan.h"

#define NONE MRAIL_PLAN_NONE
#define GAP 0.02 /* default of the planner */
#define G 1e9

void set_rails(mrail_plan_topo_t *topo, double capacity);
/* Adds a rank that reaches one rail without limits, or, with NONE, all
 * rails. */
int add_rank(mrail_plan_topo_t *topo, unsigned node, unsigned rail);
/* Makes one rank per rail of each node, node by node. Each rail carries 1 GB/s.
 * If `gpu` is positive, the ranks of a node have pairwise links of that
 * capacity. */
mrail_plan_topo_t *bound(unsigned nodes, unsigned rails, double gpu);
/* Like bound(), but with a switch in each node that has 100 GB/s downwards. */
mrail_plan_topo_t *switched(unsigned nodes, unsigned rails, double up);
/* Makes one rank per node, which reaches all rails. Each rail carries 1
 * GB/s. */
mrail_plan_topo_t *multi_rail_ranks(unsigned nodes, unsigned rails);

/* Creates a plan and destroys the topology. */
mrail_plan_t *plan_of(mrail_plan_topo_t *topo);
void make(mrail_plan_t *plan, const mrail_plan_demand_t *demands, size_t count);
/* Like plan_of(), but also plans one demand. */
mrail_plan_t *plan_one(mrail_plan_topo_t *topo, uint32_t from, uint32_t to,
                       uint64_t bytes);

mrail_plan_summary_t summary_of(const mrail_plan_t *plan);
/* Returns the bytes on a link, or -1 if there is no such link. */
double load_of(const mrail_plan_t *plan, mrail_plan_link_kind_t kind,
               unsigned a, unsigned b);

void assert_near(double is, double wanted, double part);
/* Checks that the plan has the minimum congestion, which is known. */
mrail_plan_summary_t assert_congestion(const mrail_plan_t *plan, double least);

#endif
