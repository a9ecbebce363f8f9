/*
 * Plans in two levels, for many ranks: first the bytes of pairs of nodes over
 * rails, then the bytes of each pair of ranks.
 *
 * Level 1 assumes that ranks reach all rails of their node, and that GPU links
 * are unlimited. A bound of this relaxation holds for the real topology. The
 * bytes of a pair of nodes are then divided again within
 * the permitted congestion. The result is as close as possible to the division with the fewest relays: half
 * of each demand on the rail of either end. Level 2 runs on request: the
 * demands of a pair of nodes fill its rails, first those that need no relay
 * there, then those that need one.
 *
 * Small demands must use a path with the fewest relays. They are spread evenly
 * over these paths beforehand.
 *
 * Requirements: all ranks are single-rail ranks, each rail that is up has a
 * relay, and ranks are attached to a switch or all linked pairwise. If links to
 * a switch might be too full for the plan, or pairwise links are (which is then
 * checked), all ranks must be planned at once.
 *
 * No I/O; one thread per object.
 */
#ifndef MRAIL_ORCHESTRATOR_LEVELS_H
#define MRAIL_ORCHESTRATOR_LEVELS_H

#include "plan.h"

typedef struct mrail_levels mrail_levels_t;

/* 0; -ENOTSUP: not for this topology; or -ENOMEM, -EINVAL. */
int mrail_levels_create(const mrail_plan_topo_t *topo,
                        const mrail_plan_options_t *options,
                        mrail_levels_t **levels_p);
void mrail_levels_destroy(mrail_levels_t *levels);
void mrail_levels_forget(mrail_levels_t *levels);

/* 0, and the summary (congestion and relayed are upper bounds); -ENOMEM; -ERANGE: do
 * it at once for all ranks, also if there is something to complain about. */
int mrail_levels_divide(mrail_levels_t *levels,
                        const mrail_plan_demand_t *demands, size_t num_demands,
                        mrail_plan_summary_t *summary_p);

uint32_t mrail_levels_num_rails(const mrail_levels_t *levels);

/* Where the rails of demand i (between two nodes, with bytes) end, from 0 to its
 * bytes.  Holds until the next call. */
const uint64_t *mrail_levels_ends(mrail_levels_t *levels, size_t i);

/* Bytes on the links of rails and uplinks, which are the first of the topology's. */
const double *mrail_levels_links(const mrail_levels_t *levels,
                                 uint32_t *num_links_p);

#endif
