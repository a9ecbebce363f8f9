/*
 * What a rank does in a planned exchange: which bytes go straight to or come straight
 * from whom, and which pass relays.  Every rank makes the same plan from the same
 * words; no MPI in here.
 */
#ifndef MRAIL_MPI_COLL_SCHEDULE_H
#define MRAIL_MPI_COLL_SCHEDULE_H

#include "mpi/coll/topology.h"
#include "orchestrator/plan.h"
#include "relay/relay.h"

#include <stddef.h>
#include <stdint.h>

/*
 * What each rank says when all are asked, as 64-bit words:
 *   [0] flags, below
 *   [1] bytes per second that its rail's port can carry; 0: it is down
 *   [2] [3] bytes per second that this rank has been seen to get out of it, and in;
 *       as [1] if nothing else is known
 *   [4 + i] bytes for rank i
 */
#define MCA_COLL_MRAIL_CANNOT 1u   /* only the previous module can serve it */
#define MCA_COLL_MRAIL_WANTED 2u   /* had much to send lately, or has now */
#define MCA_COLL_MRAIL_GAPS_OUT 4u /* its bytes lie apart in its memory */
#define MCA_COLL_MRAIL_GAPS_IN 8u  /* likewise those that it receives */
#define MCA_COLL_MRAIL_PORT 1u
#define MCA_COLL_MRAIL_OUT 2u
#define MCA_COLL_MRAIL_IN 3u
#define MCA_COLL_MRAIL_RECORD_WORDS 4u /* in front of the row */

typedef struct mca_coll_mrail_slice {
    uint32_t peer;
    int is_whole;           /* all that there is between the two */
    uint64_t offset, bytes; /* of the pair's; bytes > 0 */
} mca_coll_mrail_slice_t;

typedef struct mca_coll_mrail_schedule {
    const mca_coll_mrail_topology_t *topology;
    uint64_t *words; /* of all ranks, in the order of ranks: what this is the
                               plan of */
    mrail_plan_topo_t *topo;
    mrail_plan_t *plan;
    mrail_plan_demand_t *demands;
    size_t num_demands;
    mca_coll_mrail_slice_t *sends,
        *recvs; /* straight, of this rank, by peer, of
                               which each has one at most */
    size_t num_sends, num_recvs;
    mrail_relay_flow_t *flows; /* of all ranks */
    size_t num_flows, max_flows;
    uint64_t hash;    /* of plan and flows */
    uint64_t relayed; /* bytes from this rank that pass a relay */
    int is_valid;
} mca_coll_mrail_schedule_t;

/* `world` stays the caller's, and as it is. */
int mca_coll_mrail_schedule_create(const mca_coll_mrail_topology_t *topology,
                                   mca_coll_mrail_schedule_t **schedule_p);
void mca_coll_mrail_schedule_destroy(mca_coll_mrail_schedule_t *slices);

/* words[rank]: record_words() of each. */
static inline size_t
mca_coll_mrail_record_words(const mca_coll_mrail_topology_t *topology)
{
    return MCA_COLL_MRAIL_RECORD_WORDS + topology->num_ranks;
}

/* What rank `from` has for rank `to`, of the words that were planned. */
static inline uint64_t
mca_coll_mrail_schedule_bytes(const mca_coll_mrail_schedule_t *slices,
                              uint32_t from, uint32_t to)
{
    return slices->words[from * mca_coll_mrail_record_words(slices->topology) +
                         MCA_COLL_MRAIL_RECORD_WORDS + to];
}

/* 1: they are the plan of these words as they are. */
int mca_coll_mrail_schedule_fit(const mca_coll_mrail_schedule_t *slices,
                                const uint64_t *words);

/* Plans for these words.  0, or -errno of mrail_plan_make() and -ENOMEM: there is no
 * plan. */
int mca_coll_mrail_schedule_make(mca_coll_mrail_schedule_t *slices,
                                 const uint64_t *words);

/* Ranks have come to different plans: they begin anew, all of them. */
void mca_coll_mrail_schedule_forget(mca_coll_mrail_schedule_t *slices);

/* What planning comes to on this machine: processes with another answer cannot plan
 * together.  0: it failed. */
uint64_t mca_coll_mrail_schedule_version(void);

#endif
