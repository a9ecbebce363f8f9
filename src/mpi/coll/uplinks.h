/*
 * The bytes that a plan sends through each uplink of the leaf switches, if the
 * switches have port rules. The plan chooses the rail. Within a rail, lanes
 * carry equal parts or, if the topology file lists the uplinks one by one, parts
 * in proportion to the rates of their uplinks. The source port of a lane selects
 * the uplink. A NIC with fewer lanes than uplinks uses as many uplinks as it has
 * lanes.
 */
#ifndef MRAIL_MPI_COLL_UPLINKS_H
#define MRAIL_MPI_COLL_UPLINKS_H

#include "mpi/coll/schedule.h"

/* The bytes of uplinks beyond this number are not counted. */
#define MCA_COLL_MRAIL_MAX_UPLINKS UCT_MRAIL_MAX_UPLINKS

/* Bytes by rail and uplink. Rails are in the order of uct_mrail_rails() in this
 * process. */
typedef unsigned long long
    mca_coll_mrail_uplink_bytes_t[UCT_MRAIL_MAX_RAILS]
                                 [MCA_COLL_MRAIL_MAX_UPLINKS];

typedef struct mca_coll_mrail_uplinks {
    /* bytes that the NICs of this process send up from their leaves, and bytes
     * that their leaves receive from above for them */
    mca_coll_mrail_uplink_bytes_t up, down;
} mca_coll_mrail_uplinks_t;

/* Returns the lanes of a rank, or NULL if they are unknown. */
typedef const uct_mrail_direct_lanes_t *(*mca_coll_mrail_lanes_func_t)(
    void *arg, uint32_t rank);

/* Adds the bytes that the plan sends over the NICs of this rank from leaf to
 * leaf. The schedule must have a plan. */
void mca_coll_mrail_uplinks_add(mca_coll_mrail_uplinks_t *uplinks,
                                const mca_coll_mrail_schedule_t *schedule,
                                mca_coll_mrail_lanes_func_t lanes_of,
                                void *arg);

#endif
