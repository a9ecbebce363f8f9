/*
 * Flow-level simulation of exchanges over a fabric: messages, the paths that a
 * method gives them, and the time that they take.
 *
 * Ports, lanes and splitting come from src/orchestrator, which the transport
 * uses as well. Rates are max-min fair (fluid.h). Packets, queues, congestion
 * control and PFC are left out. Pure and deterministic: the same seed gives the
 * same result.
 */
#ifndef MRAIL_FABRIC_SIMULATE_H
#define MRAIL_FABRIC_SIMULATE_H

#include "fabric/fabric.h"
#include "fabric/route.h"

typedef enum mrail_sim_method {
    MRAIL_SIM_STOCK,   /* one flow, always from stock UCX's source port; ECMP */
    MRAIL_SIM_ECMP,    /* one flow with a random source port; ECMP */
    MRAIL_SIM_MPRDMA,  /* `lanes` equal flows with random ports; ECMP */
    MRAIL_SIM_PARALET, /* `lanes` flows with random ports, which pull from one
                         * message; ECMP. [ParaLet] 5.1 */
    MRAIL_SIM_DNLB,    /* `lanes` flows, which pull, with ports from
                         * mrail_ports_lane(); port rules. [CTCCL] 3.2 */
    MRAIL_SIM_ETHEREAL, /* whole flows and pieces, from mrail_ethereal_split();
                         * port rules. [Ethereal] 3.2 */
    MRAIL_SIM_SPRAY, /* each message equally over all paths: ideal spraying */
    MRAIL_SIM_NUM_METHODS
} mrail_sim_method_t;

/* "stock", "ecmp", "mprdma", "paralet", "dnlb", "ethereal", "spray". */
const char *mrail_sim_method_name(mrail_sim_method_t method);

typedef struct mrail_sim_message {
    uint32_t from, to; /* host links: NICs */
    double bytes;      /* > 0 */
} mrail_sim_message_t;

typedef struct mrail_sim_params {
    mrail_sim_method_t method;
    unsigned lanes; /* 1 to 64; for MPRDMA, PARALET and DNLB */
    uint64_t seed;
    double quantum_s;     /* mrail_fluid_run() */
    uint32_t failed_link; /* MRAIL_FABRIC_NONE: none */
    double failure_s;     /* when the link fails; it does not return */
    int drop;             /* port rules drop the packets of a failed uplink */
} mrail_sim_params_t;

typedef struct mrail_sim_result {
    double time_s;   /* when the last message ends */
    double spread_s; /* ... minus when the first one ends; after a link failure,
                      * the first one that ends after it */
    uint64_t num_flows;
    uint32_t most_qps; /* of any NIC: the flows that it sends */
    uint64_t num_fills;
    double
        *link_bytes; /* by directed link; the caller's array of 2 * num_links */
    double *after_bytes; /* the same, counted only after the failure, or NULL */
} mrail_sim_result_t;

/*
 * Runs all messages from time 0. Adds the bytes carried to result->link_bytes.
 * Returns 0, -ENOMEM, or -EHOSTUNREACH if a message has no path.
 */
int mrail_sim_run(const mrail_fabric_t *fabric,
                  const mrail_sim_params_t *params,
                  const mrail_sim_message_t *messages, uint32_t num,
                  mrail_sim_result_t *result);

/* The lower bound on the time of an exchange, from the rates of NICs and
 * bundles: no choice of paths can be faster. Returns 0 or -ENOMEM. */
int mrail_sim_bound(const mrail_fabric_t *fabric,
                    const mrail_sim_message_t *messages, uint32_t num,
                    double *time_s_p);

/* ---- Load of uplinks ---- */

typedef struct mrail_sim_load {
    double mean, least, most; /* utilisation, 1: the rate of the link */
    double cv;                /* standard deviation over mean */
    double variance_percent;  /* of the utilisation in per cent, as in
                               * [CTCCL] */
    uint32_t num;
} mrail_sim_load_t;

/*
 * Load of the links upwards from leaves, over time_s. `leaf` is the place of
 * one leaf, or MRAIL_FABRIC_NONE for all. Failed links are left out.
 */
mrail_sim_load_t mrail_sim_uplinks(const mrail_fabric_t *fabric, uint32_t leaf,
                                   const double *link_bytes, double time_s,
                                   uint32_t failed_link);

#endif
