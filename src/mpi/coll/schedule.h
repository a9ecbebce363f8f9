/*
 * The schedule of a rank in a planned exchange: the bytes that take the direct
 * path, and those that take relays. Every rank computes the same plan from the
 * same agreement records. This code does not use MPI.
 *
 * The schedule covers the demands that the records list. All other demands are
 * small and travel directly, as whole messages. Their sums are a fixed load on
 * the rails.
 */
#ifndef MRAIL_MPI_COLL_SCHEDULE_H
#define MRAIL_MPI_COLL_SCHEDULE_H

#include "mpi/coll/record.h"
#include "mpi/coll/topology.h"
#include "mpi/coll/unplanned.h"
#include "orchestrator/plan.h"
#include "relay/relay.h"

#include <stddef.h>
#include <stdint.h>

/* Minimum size of a READ in bytes. Fewer direct bytes are sent as a message,
 * because an offer and an answer would cost more than they save. */
#define MCA_COLL_MRAIL_READ_MIN 65536u

/* Size in bytes of a chunk of a message between device memory (staged.h). */
#define MCA_COLL_MRAIL_CHUNK ((uint64_t)1 << 20)

typedef struct mca_coll_mrail_schedule_entry {
    uint32_t peer;
    int is_whole;   /* 1 if it is the whole message between the two ranks */
    int is_read;    /* 1 if the receiver READs the bytes; see direct.h */
    int is_chunked; /* 1 if it consists of chunks when sent as a message; see
                     * staged.h */
    uint64_t offset, bytes; /* offset within the message; bytes > 0 */
    /* by rail number of the topology: the bytes that this rail of the receiver
     * should carry; all 0 if any rail may carry them */
    uint64_t quota[UCT_MRAIL_MAX_RAILS];
} mca_coll_mrail_schedule_entry_t;

/* A rail of a node. */
typedef struct mca_coll_mrail_rail {
    double port;    /* lowest rate that a rank reports; used while records
                     * are read */
    double out, in; /* capacity in bytes per second; 0 if the rail is down or
                     * not used */
    uint64_t small_out, small_in; /* bytes of small demands */
} mca_coll_mrail_rail_t;

/* Bits of `announced`. */
#define MCA_COLL_MRAIL_ANNOUNCED_OUT 1u
#define MCA_COLL_MRAIL_ANNOUNCED_IN 2u

/* Lower bounds on the time of an exchange, computed from the loads of the
 * links, in seconds. */
typedef struct mca_coll_mrail_forecast {
    double unplanned; /* time without a plan; see unplanned.h */
    /* time with the plan; if none was made, a lower bound for all plans */
    double planned;
    double cost;    /* time to make the plan; the ranks agree on it */
    int is_planned; /* 1 if there is a plan */
    int is_gain;    /* 1 if the plan saves more time than it costs */
    /* why no plan can be executed, although it would save time; else NULL */
    const char *refusal;
    /* 1 if plans would have saved time, but so far less than a plan costs */
    int is_deferred;
    /* 1 if the exchange has no plan, because ranks have device memory */
    int is_device;
} mca_coll_mrail_forecast_t;

typedef struct mca_coll_mrail_schedule {
    const mca_coll_mrail_topology_t *topology;
    /* agreement records of all ranks, from which the schedule was made */
    mca_coll_mrail_records_t records;
    /* by rank: MCA_COLL_MRAIL_ANNOUNCED_* if the records list a demand from
     * this rank to it, or from it to this rank. Unlisted demands are small. */
    uint8_t *announced;
    /* rails of all nodes according to the records, and scratch memory */
    mca_coll_mrail_rail_t *rails, *new_rails;
    mrail_plan_topo_t *topo;
    mrail_plan_t *plan;
    /* 1 if relay buffers are on GPUs, and bytes within a node take GPU links */
    int is_on_devices;
    mca_coll_mrail_unplanned_t *unplanned; /* model of the links of `plan` */
    mrail_plan_demand_t *demands;
    size_t num_demands, max_demands;
    mca_coll_mrail_schedule_entry_t *sends,
        *recvs; /* direct messages of this rank; at most one per peer */
    size_t num_sends, num_recvs;
    mrail_relay_flow_t *flows; /* flows of all ranks */
    size_t num_flows, max_flows;
    unsigned *channels;    /* by rank; see mrail_relay_channels() */
    unsigned max_channels; /* the largest of `channels` */
    uint64_t hash;         /* hash of the plan; without one, a constant */
    uint64_t relayed;      /* bytes from this rank that take a relay */
    mca_coll_mrail_forecast_t forecast;
    double missed; /* seconds that plans would have saved since the demands or
                    * the capacities changed */
    int is_valid;
} mca_coll_mrail_schedule_t;

/* Creates an empty schedule. The caller owns `topology`, which must not change.
 * Returns 0 or -ENOMEM. */
int mca_coll_mrail_schedule_create(const mca_coll_mrail_topology_t *topology,
                                   mca_coll_mrail_schedule_t **schedule_p);
void mca_coll_mrail_schedule_destroy(mca_coll_mrail_schedule_t *schedule);

/* Returns the rule that selects the listed demands. */
static inline mca_coll_mrail_record_rule_t
mca_coll_mrail_schedule_rule(const mca_coll_mrail_topology_t *topology)
{
    /* On emulated nodes, messages within a node would use the rails. All these
     * demands therefore use relay buffers. */
    return (mca_coll_mrail_record_rule_t){
        .threshold = topology->params.relay_threshold,
        .is_near_announced = topology->is_soft};
}

/* Returns the bytes that the record of rank `from` lists for rank `to`, or
 * 0. */
static inline uint64_t
mca_coll_mrail_schedule_bytes(const mca_coll_mrail_schedule_t *schedule,
                              uint32_t from, uint32_t to)
{
    return mca_coll_mrail_record_find(
        mca_coll_mrail_records_get(&schedule->records, from), to);
}

/* Returns 1 if the schedule is valid for these records: it exists, and demands,
 * sums, gaps and the capacities of the rails are the same. The caller calls
 * this function once for each exchange. A schedule without a plan becomes
 * invalid once plans of these demands would have saved the cost of a plan. */
int mca_coll_mrail_schedule_fit(mca_coll_mrail_schedule_t *schedule,
                                const mca_coll_mrail_records_t *records);

/*
 * Makes the schedule for these records, all of which
 * mca_coll_mrail_record_check() has accepted. Returns 0, -errno of
 * mrail_plan_make(), or -ENOMEM. After a failure, there is no schedule.
 *
 * forecast.is_gain is 1 if the schedule is worth executing. Single-rail ranks
 * always execute a plan. For multi-rail ranks, a plan is made only if the
 * forecast shows that it can save time. With params.plan_budget, a plan is made
 * only once the missed savings reach its cost. Without a plan, the schedule is
 * empty.
 */
int mca_coll_mrail_schedule_make(mca_coll_mrail_schedule_t *schedule,
                                 const mca_coll_mrail_records_t *records);

/* Discards the warm start. The caller calls this function if ranks have
 * different plans, so that all of them start from the same state. */
void mca_coll_mrail_schedule_discard_warm_start(
    mca_coll_mrail_schedule_t *schedule);

/* Returns 1 if a message of this rank consists of chunks (staged.h). */
int mca_coll_mrail_schedule_has_chunks(
    const mca_coll_mrail_schedule_t *schedule);

/* Returns a hash of the planner's results for fixed inputs on this host, or 0
 * on failure. Processes with different values cannot plan together. */
uint64_t mca_coll_mrail_schedule_fingerprint(void);

#endif
