/*
 * Plans in two levels, for many ranks. The first level assigns the bytes of
 * pairs of nodes to rails. The second level divides them among pairs of ranks.
 *
 * In the first level, ranks reach all rails of their node, and GPU links have
 * no limit. Its bounds hold for the real topology, which can do less. A second
 * division of the node pairs stays within the allowed congestion and minimizes
 * relays: half of each demand aims at each end's rail. The second level runs on
 * request. The demands of a node pair fill its rails: first without relays,
 * then with one relay.
 *
 * Small demands need a path with the fewest relays. They are first spread
 * equally over these paths.
 *
 * The topology must meet three conditions: all ranks are single-rail, each rail
 * that is up has a relay, and GPUs are on a switch or all linked in pairs. If
 * GPU links might exceed the limit of the plan, the result is -ERANGE, and all
 * ranks are planned at once. For a switch this check is a bound; for pairs it
 * computes the load.
 *
 * No I/O; one thread per object.
 */
#ifndef MRAIL_ORCHESTRATOR_LEVELS_H
#define MRAIL_ORCHESTRATOR_LEVELS_H

#include "plan.h"

typedef struct mrail_levels mrail_levels_t;

/* 0; -ENOTSUP: unsupported topology; or -ENOMEM, -EINVAL. */
int mrail_levels_create(const mrail_plan_topo_t *topo,
                        const mrail_plan_options_t *options,
                        mrail_levels_t **levels_p);
void mrail_levels_destroy(mrail_levels_t *levels);
void mrail_levels_reset(mrail_levels_t *levels);

/* 0 and the summary, where congestion and relayed are upper bounds. -ENOMEM.
 * -ERANGE: plan all ranks at once; also for invalid demands. */
int mrail_levels_divide(mrail_levels_t *levels,
                        const mrail_plan_demand_t *demands, size_t num_demands,
                        mrail_plan_summary_t *summary_p);

uint32_t mrail_levels_num_rails(const mrail_levels_t *levels);

/* Ends of the rails of demand i, from 0 to its bytes. The demand is between two
 * nodes and not empty. Valid until the next call. */
const uint64_t *mrail_levels_ends(mrail_levels_t *levels, size_t i);

/* Bytes on the links of rails and uplinks, which come first among the
 * topology's links. */
const double *mrail_levels_links(const mrail_levels_t *levels,
                                 uint32_t *num_links_p);

#endif
