/*
 * The paths that a demand may take, and the links of each, as plan.h describes
 * them: written from that text, not from the planner, which is judged by it.
 *
 * Where plan.h leaves room this is how it is read: ranks of a node have a link
 * between them over a switch if both are at it; the paths with the fewest
 * relays are counted by rising rail (rank that relays), the one through the
 * spine is the last.
 */
#ifndef MRAIL_TEST_PLAN_PATHS_H
#define MRAIL_TEST_PLAN_PATHS_H

#include "plan_topology.h"

#define PATHS_MAX 32 /* of a demand */
#define PATH_MAX_LINKS 8
#define PATHS_NOT_PLANNED -1

typedef struct path {
    uint32_t relay_out, relay_in, rail_out, rail_in; /* as in a piece */
    unsigned num_relays, num_links;
    uint32_t link[PATH_MAX_LINKS]; /* less than paths_num_links() */
} path_t;

/* Demands of more bytes may take all of them. */
uint64_t paths_relay_above(const machine_t *machine);

/* How many paths; 0: it cannot be sent; PATHS_NOT_PLANNED: it need not be
 * planned. Those of fewer relays come first, and of as many those by lower
 * rails (ranks that relay). */
int paths_of(const machine_t *machine, const mrail_plan_demand_t *demand,
             path_t *paths);

/* Which of these the demand would take alone: mrail_plan_compare(). */
int paths_alone(const machine_t *machine, const mrail_plan_demand_t *demand,
                const path_t *paths, int count);

/* Numbers of links, of things that are not there, too: those have capacity 0;
 * what has no limit has no number. */
uint32_t paths_num_links(const machine_t *machine);
uint32_t paths_link(const machine_t *machine, mrail_plan_link_kind_t kind,
                    unsigned a, unsigned b);
double paths_capacity(const machine_t *machine, uint32_t link);

#endif
