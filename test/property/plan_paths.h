/*
 * The paths of a demand and their links, as plan.h describes them. This code
 * was written from that text, not from the planner that it checks.
 *
 * Where plan.h is silent: two ranks at a switch are linked. Paths with the
 * fewest relays are numbered by rising rail (or relay rank); the path through
 * the spine is last.
 */
#ifndef MRAIL_TEST_PLAN_PATHS_H
#define MRAIL_TEST_PLAN_PATHS_H

#include "plan_topology.h"

#define PATHS_MAX 32 /* of one demand */
#define PATH_MAX_LINKS 8
#define PATHS_NOT_PLANNED -1

typedef struct path {
    uint32_t relay_out, relay_in, rail_out, rail_in; /* as in a piece */
    unsigned num_relays, num_links;
    uint32_t link[PATH_MAX_LINKS]; /* below paths_num_links() */
} path_t;

/* Larger demands may take all paths. */
uint64_t paths_relay_threshold(const machine_t *machine);

/* Number of paths. 0: there is none; PATHS_NOT_PLANNED: the demand needs no
 * plan. Paths are in order of relays, then of rails (or relay ranks). */
int paths_of(const machine_t *machine, const mrail_plan_demand_t *demand,
             path_t *paths);

/* Index of the path without other demands: see mrail_plan_compare(). */
int paths_alone(const machine_t *machine, const mrail_plan_demand_t *demand,
                const path_t *paths, int count);

/* Number of links. Absent links have a number and capacity 0; unlimited ones
 * have no number. */
uint32_t paths_num_links(const machine_t *machine);
uint32_t paths_link(const machine_t *machine, mrail_plan_link_kind_t kind,
                    unsigned a, unsigned b);
double paths_capacity(const machine_t *machine, uint32_t link);

#endif
