/*
 * The paths of a demand and their links, as plan.h describes them. This code
 * was written from that text, independently of the planner under test.
 *
 * Where plan.h leaves a choice, this code assumes that two ranks on a switch
 * are linked. The paths with the fewest relays are numbered in ascending order
 * of the rail (or relay rank), and the path through the spine comes last. The
 * relays for a rail are numbered from the position of the rank that needs them.
 */
#ifndef MRAIL_TEST_PLAN_PATHS_H
#define MRAIL_TEST_PLAN_PATHS_H

#include "plan_topology.h"

/* paths of one demand */
#define PATHS_MAX                                                              \
    (MACHINE_MAX_RAILS * MRAIL_PLAN_MAX_RELAYS * MRAIL_PLAN_MAX_RELAYS +       \
     MACHINE_MAX_RAILS * MACHINE_MAX_RAILS)
#define PATH_MAX_LINKS 12
#define PATHS_NOT_PLANNED -1

typedef struct path {
    uint32_t relay_out, relay_in, rail_out, rail_in; /* as in a piece */
    unsigned num_relays, num_links;
    unsigned lane; /* rail or relay rank; paths through the spine share one */
    uint32_t link[PATH_MAX_LINKS]; /* numbers below paths_num_links() */
} path_t;

/* Returns the size of the largest demand that is restricted to some of its
 * paths. */
uint64_t paths_relay_threshold(const machine_t *machine);

/* Returns the number of paths, 0 if there is none, or PATHS_NOT_PLANNED if the
 * demand needs no plan. Paths are ordered by relays, then by rails (or relay
 * ranks). */
int paths_of(const machine_t *machine, const mrail_plan_demand_t *demand,
             path_t *paths);

/* Returns the index of the path that the demand would take if there were no
 * others. See mrail_plan_compare(). */
int paths_alone(const machine_t *machine, const mrail_plan_demand_t *demand,
                const path_t *paths, int count);

/* Returns the number of links. An absent link has a number and capacity 0,
 * whereas a link without a limit has no number. */
uint32_t paths_num_links(const machine_t *machine);
uint32_t paths_link(const machine_t *machine, mrail_plan_link_kind_t kind,
                    unsigned a, unsigned b);
double paths_capacity(const machine_t *machine, uint32_t link);

#endif
