/*
 * Simulates exchanges over a fabric at flow level: the paths that a method
 * assigns to messages, and the time that the messages take.
 *
 * Source ports come from src/orchestrator, which the transport uses as well.
 * Splitting is modelled separately: lanes pull from a message, or ethereal.c
 * splits it. Rates are max-min fair (fluid.h). Packets, queues, congestion
 * control and PFC are not modelled. The simulation is deterministic: the same
 * seed gives the same result.
 */
#ifndef MRAIL_FABRIC_SIMULATE_H
#define MRAIL_FABRIC_SIMULATE_H

#include "base/clock.h"
#include "fabric/fabric.h"
#include "fabric/route.h"

typedef enum mrail_sim_method {
    MRAIL_SIM_STOCK,  /* one flow, always from stock UCX's source port; ECMP */
    MRAIL_SIM_ECMP,   /* one flow with a random source port; ECMP */
    MRAIL_SIM_MPRDMA, /* `lanes` equal flows with random ports; ECMP */
    /* `lanes` flows with random ports, which pull from one message; ECMP.
     * Source: [ParaLet] 5.1 */
    MRAIL_SIM_PARALET,
    /* `lanes` flows, which pull, with ports from mrail_ports_lane(); port
     * rules. Source: [CTCCL] 3.2 */
    MRAIL_SIM_DNLB,
    /* whole flows and pieces, from mrail_ethereal_split(), in random order over
     * the good paths; the source port chooses every link. Source: [Ethereal] 3
     */
    MRAIL_SIM_ETHEREAL,
    MRAIL_SIM_SPRAY, /* ideal spraying: each message is split equally across all
                      * paths */
    MRAIL_SIM_NUM_METHODS
} mrail_sim_method_t;

/* Returns "stock", "ecmp", "mprdma", "paralet", "dnlb", "ethereal" or
 * "spray". */
const char *mrail_sim_method_name(mrail_sim_method_t method);

typedef struct mrail_sim_message {
    uint32_t from, to; /* NICs, named by their host links */
    double bytes;      /* > 0 */
} mrail_sim_message_t;

/* The states of the paths from all NICs to all leaves. They persist across
 * runs, so that a later phase avoids paths that failed in an earlier one. */
typedef struct mrail_sim_paths mrail_sim_paths_t;

/* Returns NULL if memory runs out. */
mrail_sim_paths_t *mrail_sim_paths_create(const mrail_fabric_t *fabric);
void mrail_sim_paths_destroy(mrail_sim_paths_t *paths);

typedef struct mrail_sim_params {
    mrail_sim_method_t method;
    unsigned lanes; /* MPRDMA, PARALET, DNLB: 1 to 64 */
    uint64_t seed;
    double quantum_s;     /* argument of mrail_fluid_run() */
    uint32_t failed_link; /* MRAIL_FABRIC_NONE if none */
    double failure_s;     /* time when the link fails for good */
    int drop; /* DNLB: port rules drop the packets of a failed uplink */
    /* ETHEREAL: flows between leaves start at random in [0, stagger_ns]; less
     * than UINT32_MAX */
    mrail_ns_t stagger_ns;
    /* ETHEREAL: time for which a failed path is bad, at least 1 */
    mrail_ns_t retry_ns;
    /* ETHEREAL: path states, which the run updates; NULL if all paths are good
     * at first */
    mrail_sim_paths_t *paths;
    mrail_ns_t start_ns; /* time of `paths` at time 0 of the run */
} mrail_sim_params_t;

typedef struct mrail_sim_result {
    double time_s; /* time when the last message ends */
    /* time between the ends of the first and the last message; after a link
     * failure, only messages that end later count */
    double spread_s;
    uint64_t num_flows;
    uint32_t most_qps; /* maximum number of flows that a NIC sends */
    uint64_t num_fills;
    /* by directed link; the caller's array of 2 * num_links */
    double *link_bytes;
    /* bytes after the failure, also by directed link; NULL if not needed */
    double *after_bytes;
} mrail_sim_result_t;

/*
 * Runs all messages from time 0. Adds the bytes carried to result->link_bytes.
 * Returns 0, -ENOMEM, or -EHOSTUNREACH if a message has no path.
 */
int mrail_sim_run(const mrail_fabric_t *fabric,
                  const mrail_sim_params_t *params,
                  const mrail_sim_message_t *messages, uint32_t num,
                  mrail_sim_result_t *result);

/* Computes a lower bound on the time of an exchange from the rates of NICs and
 * bundles. Every choice of paths takes at least this time. Returns 0 or
 * -ENOMEM. */
int mrail_sim_bound(const mrail_fabric_t *fabric,
                    const mrail_sim_message_t *messages, uint32_t num,
                    double *time_s_p);

/* ---- Load of uplinks ---- */

typedef struct mrail_sim_load {
    double mean, least, most; /* utilisation, where 1 is the rate of the link */
    double cv;                /* standard deviation over mean */
    /* variance of the utilisation, computed in per cent as in [CTCCL] */
    double variance_percent;
    uint32_t num;
} mrail_sim_load_t;

/* Computes the load of the uplinks of leaves over time_s. `leaf` is the index
 * of one leaf, or MRAIL_FABRIC_NONE for all. Failed links are left out. */
mrail_sim_load_t mrail_sim_uplinks(const mrail_fabric_t *fabric, uint32_t leaf,
                                   const double *link_bytes, double time_s,
                                   uint32_t failed_link);

#endif
