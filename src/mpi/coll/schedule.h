/*
 * The schedule of a rank in a planned exchange: which bytes take the direct
 * path, and which take relays. Every rank computes the same plan from the same
 * agreement records. No MPI here.
 */
#ifndef MRAIL_MPI_COLL_SCHEDULE_H
#define MRAIL_MPI_COLL_SCHEDULE_H

#include "mpi/coll/topology.h"
#include "orchestrator/plan.h"
#include "relay/relay.h"

#include <stddef.h>
#include <stdint.h>

/*
 * The agreement record of a rank, as 64-bit words:
 *   [0]      flags, below
 *   [1]      bytes per second of its rail's port; 0: the rail is down
 *   [2] [3]  measured bytes per second, out and in; 0: unknown
 *   [4 + i]  bytes for rank i
 */

/* Flag: only the previous module can serve the call. */
#define MCA_COLL_MRAIL_CANNOT 1u
/* Flag: has, or recently had, a demand worth planning. */
#define MCA_COLL_MRAIL_WANTED 2u
#define MCA_COLL_MRAIL_GAPS_OUT 4u /* sends data with gaps */
#define MCA_COLL_MRAIL_GAPS_IN 8u  /* receives data with gaps */
#define MCA_COLL_MRAIL_PORT 1u
#define MCA_COLL_MRAIL_OUT 2u
#define MCA_COLL_MRAIL_IN 3u
#define MCA_COLL_MRAIL_RECORD_WORDS 4u /* number of words before the demands */

typedef struct mca_coll_mrail_schedule_entry {
    uint32_t peer;
    int is_whole;           /* 1: the whole message between the two ranks */
    uint64_t offset, bytes; /* offset within the message; bytes > 0 */
} mca_coll_mrail_schedule_entry_t;

/* A rail of a node. */
typedef struct mca_coll_mrail_rail {
    double port;    /* lowest rate that a rank reports; only while reading */
    double out, in; /* capacity in bytes per second; 0: down, or not used */
} mca_coll_mrail_rail_t;

typedef struct mca_coll_mrail_schedule {
    const mca_coll_mrail_topology_t *topology;
    /* agreement records of all ranks, by rank, from which the schedule was
     * made */
    uint64_t *records;
    /* rails of all nodes according to the records, and scratch memory */
    mca_coll_mrail_rail_t *rails, *new_rails;
    mrail_plan_topo_t *topo;
    mrail_plan_t *plan;
    mrail_plan_demand_t *demands;
    size_t num_demands, max_demands;
    mca_coll_mrail_schedule_entry_t *sends,
        *recvs; /* direct messages of this rank; at most one per peer */
    size_t num_sends, num_recvs;
    mrail_relay_flow_t *flows; /* flows of all ranks */
    size_t num_flows, max_flows;
    unsigned *channels;    /* by rank; see mrail_relay_channels() */
    unsigned max_channels; /* the largest of them */
    uint64_t hash;         /* hash of the plan and its flows */
    uint64_t relayed;      /* bytes from this rank that take a relay */
    int is_valid;
} mca_coll_mrail_schedule_t;

/* The caller keeps `topology`, which must not change. */
int mca_coll_mrail_schedule_create(const mca_coll_mrail_topology_t *topology,
                                   mca_coll_mrail_schedule_t **schedule_p);
void mca_coll_mrail_schedule_destroy(mca_coll_mrail_schedule_t *schedule);

/* Returns the number of words in a record. */
static inline size_t
mca_coll_mrail_record_words(const mca_coll_mrail_topology_t *topology)
{
    return MCA_COLL_MRAIL_RECORD_WORDS + topology->num_ranks;
}

/* Returns the bytes from rank `from` to rank `to` according to the schedule's
 * records. */
static inline uint64_t
mca_coll_mrail_schedule_bytes(const mca_coll_mrail_schedule_t *schedule,
                              uint32_t from, uint32_t to)
{
    return schedule
        ->records[from * mca_coll_mrail_record_words(schedule->topology) +
                  MCA_COLL_MRAIL_RECORD_WORDS + to];
}

/* Returns 1 if the schedule holds for these records: it exists, and demands,
 * gaps and the capacities of the rails are the same. */
int mca_coll_mrail_schedule_fit(mca_coll_mrail_schedule_t *schedule,
                                const uint64_t *records);

/* Makes the schedule for these records. Returns 0; or -errno of
 * mrail_plan_make(), or -ENOMEM. After a failure, there is no schedule. */
int mca_coll_mrail_schedule_make(mca_coll_mrail_schedule_t *schedule,
                                 const uint64_t *records);

/* Discards the warm start. Called if ranks have different plans, so that all of
 * them start from the same state. */
void mca_coll_mrail_schedule_discard_warm_start(
    mca_coll_mrail_schedule_t *schedule);

/* Returns a hash of the planner's answers to fixed questions on this machine,
 * or 0 on failure. Processes with different values cannot plan together. */
uint64_t mca_coll_mrail_schedule_fingerprint(void);

#endif
