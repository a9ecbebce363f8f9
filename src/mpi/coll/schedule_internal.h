/*
 * Declarations shared by the files of the schedule:
 *
 *   schedule.c          decides whether there is a plan, and makes it
 *   schedule_machine.c  describes the topology to the planner
 *   schedule_cut.c      cuts the plan into messages and flows
 */
#ifndef MRAIL_MPI_COLL_SCHEDULE_INTERNAL_H
#define MRAIL_MPI_COLL_SCHEDULE_INTERNAL_H

#include "mpi/coll/schedule.h"

static inline size_t
mca_coll_mrail_schedule_num_rails(const mca_coll_mrail_topology_t *topology)
{
    return (size_t)topology->num_nodes * topology->num_rails;
}

/* Returns a rail of a node in an array of the rails of all nodes. */
static inline mca_coll_mrail_rail_t *
mca_coll_mrail_schedule_rail(const mca_coll_mrail_topology_t *topology,
                             mca_coll_mrail_rail_t *rails, unsigned node,
                             unsigned rail)
{
    return &rails[(size_t)node * topology->num_rails + rail];
}

void mca_coll_mrail_schedule_discard_plan(mca_coll_mrail_schedule_t *schedule);

/* ---- schedule_machine.c ---- */

/* Sets new_rails to the capacities and the small demands of these records. */
void mca_coll_mrail_schedule_read_rails(
    mca_coll_mrail_schedule_t *schedule,
    const mca_coll_mrail_records_t *records);
/* Returns 1 if new_rails are the rails of the plan. */
int mca_coll_mrail_schedule_same_rails(
    const mca_coll_mrail_schedule_t *schedule);
/* Creates a plan object for schedule->records if there is none, or if its rails
 * differ. Returns 0 or -errno. */
int mca_coll_mrail_schedule_need_plan(mca_coll_mrail_schedule_t *schedule);
/* Passes the sums of small demands to the planner. Returns 0 or -errno. */
int mca_coll_mrail_schedule_set_background(mca_coll_mrail_schedule_t *schedule);

/* ---- schedule_cut.c ---- */

/* Fills in sends, recvs and flows. Returns 0 or -ENOMEM. */
int mca_coll_mrail_schedule_cut(mca_coll_mrail_schedule_t *schedule);
/* Fills in sends, recvs and flows without a plan: all demands are direct
 * messages, or stay within a node. Returns 0 or -ENOMEM. */
int mca_coll_mrail_schedule_cut_direct(mca_coll_mrail_schedule_t *schedule);

#endif
