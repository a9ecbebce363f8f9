/*
 * Plans in two levels, for many ranks. The first level assigns the bytes
 * between each pair of nodes to rails. The second level divides them among
 * pairs of ranks.
 *
 * The first level assumes that ranks reach all rails of their node and that GPU
 * links are unlimited. The real topology can do no better, so the bounds hold
 * for it as well. A second division of the node pairs minimizes relays within
 * the permitted congestion, by splitting each demand evenly between the rails
 * of its two ends. The second level runs on request: the demands of a node pair
 * fill its rails, first without relays, then with one relay.
 *
 * Small demands must use paths with the fewest relays. They are placed first,
 * spread equally over these paths.
 *
 * The topology must meet three conditions: all ranks are single-rail, each rail
 * that is up has a relay, and GPUs are on a switch or all linked in pairs. If
 * GPU links might exceed the limit of the plan, the result is -ERANGE, and all
 * ranks are planned at once. For a switch this check uses a bound; for pairs it
 * computes the load.
 *
 * No I/O; one thread per object.
 */
#ifndef MRAIL_ORCHESTRATOR_LEVELS_H
#define MRAIL_ORCHESTRATOR_LEVELS_H

#include "plan.h"

/* Part of the gap that is available to a division. The rest is for rounding. */
#define MRAIL_PLAN_PART_LIMIT 0.95

typedef struct mrail_levels mrail_levels_t;

/* Returns 0, -ENOTSUP if the topology is unsupported, -ENOMEM or -EINVAL. */
int mrail_levels_create(const mrail_plan_topo_t *topo,
                        const mrail_plan_options_t *options,
                        mrail_levels_t **levels_p);
void mrail_levels_destroy(mrail_levels_t *levels);
void mrail_levels_reset(mrail_levels_t *levels);

/* Returns 0 and the summary, in which congestion and relayed are upper bounds.
 * `background` has the bytes on rails and uplinks that no plan can move, or is
 * NULL.
 * Returns -ERANGE if all ranks must be planned at once or a demand is invalid,
 * or -ENOMEM. */
int mrail_levels_divide(mrail_levels_t *levels,
                        const mrail_plan_demand_t *demands, size_t num_demands,
                        const double *background,
                        mrail_plan_summary_t *summary_p);

uint32_t mrail_levels_num_rails(const mrail_levels_t *levels);

/* Returns the offset, in bytes, at which each rail's part of demand i ends. The
 * demand must be between two nodes and not empty. The result is valid until the
 * next call. */
const uint64_t *mrail_levels_ends(mrail_levels_t *levels, size_t i);

/* Return the number of links of rails and uplinks, and their bytes. These are
 * the first of the topology's links. */
uint32_t mrail_levels_num_links(const mrail_levels_t *levels);
const double *mrail_levels_links(const mrail_levels_t *levels,
                                 uint32_t *num_links_p);

#endif
