/*
 * Plans in two levels, for many ranks: bytes of pairs of nodes over rails first, then
 * those of each pair of ranks.
 *
 * In the first level ranks reach all rails of their node, and GPU links carry
 * anything: what is proved there holds for the real thing, which can do less.  The
 * bytes of a pair of nodes then are divided anew within the congestion that is
 * allowed, as near as possible to what would need the fewest relays: half of each
 * demand on the rail of either end.  In the second level, when it is asked for, the
 * demands of a pair of nodes fill its rails, those first that need no relay on one,
 * then those that need one.
 *
 * Small demands, which have to take a path with the fewest relays, are spread evenly
 * over these beforehand.
 *
 * For nodes whose ranks are all bound to rails, with a relay to each rail that is up,
 * and attached to a switch or all linked to each other.  If the links to a switch might
 * be fuller than the plan allows, or those in pairs are (which then is looked at), the
 * answer is that it has to be done at once for all ranks.
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
