/*
 * Exchanges over a fabric in flow-level simulation: messages, the paths that a method
 * gives them, and the time that they take.
 *
 * Ports, lanes and splitting are those of src/orchestrator, which the transport
 * uses, too. Rates are max-min fair (fluid.h). Packets, queues, congestion control
 * and PFC are left out. Pure and deterministic: the same seed gives the same result.
 */
#ifndef MRAIL_FABRIC_SIMULATE_H
#define MRAIL_FABRIC_SIMULATE_H

#include "fabric/fabric.h"
#include "fabric/route.h"

typedef enum mrail_sim_method {
    MRAIL_SIM_STOCK, /* one flow; all have the source port of stock UCX; ECMP */
    MRAIL_SIM_ECMP,  /* one flow with a random source port; ECMP */
    MRAIL_SIM_MPRDMA,   /* `lanes` equal flows with random ports; ECMP */
    MRAIL_SIM_PARALET,  /* `lanes` flows with random ports that pull from one
                         * message; ECMP. [ParaLet] 5.1 */
    MRAIL_SIM_DNLB,     /* `lanes` flows that pull, ports by mrail_ports_lane();
                         * port rules. [CTCCL] 3.2 */
    MRAIL_SIM_ETHEREAL, /* whole flows and pieces by mrail_ethereal_split(); port
                         * rules. [Ethereal] 3.2 */
    MRAIL_SIM_SPRAY, /* each message over all paths equally: ideal spraying */
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
    unsigned lanes; /* 1 to 64: of MPRDMA, PARALET and DNLB */
    uint64_t seed;
    double quantum_s;     /* mrail_fluid_run() */
    uint32_t failed_link; /* MRAIL_FABRIC_NONE: none */
    double failure_s;     /* when it fails, for good */
    int drop;             /* port rules of a failed uplink drop */
} mrail_sim_params_t;

typedef struct mrail_sim_result {
    double time_s;   /* end of the last message */
    double spread_s; /* ... minus that of the first one */
    uint64_t num_flows;
    uint32_t most_qps; /* of a NIC: its flows as a sender */
    uint64_t num_fills;
    double
        *link_bytes; /* by directed link; the caller's array of 2 * num_links */
    double *after_bytes; /* the same after the failure only, or NULL */
} mrail_sim_result_t;

/*
 * Runs all messages from time 0. Bytes are added to result->link_bytes. 0; -ENOMEM;
 * -EHOSTUNREACH: a message has no path.
 */
int mrail_sim_run(const mrail_fabric_t *fabric,
                  const mrail_sim_params_t *params,
                  const mrail_sim_message_t *messages, uint32_t num,
                  mrail_sim_result_t *result);

/* The least time by the rates of NICs and bundles, whatever the paths. 0 or -ENOMEM. */
int mrail_sim_bound(const mrail_fabric_t *fabric,
                    const mrail_sim_message_t *messages, uint32_t num,
                    double *time_s_p);

/* ---- Load of uplinks ---- */

typedef struct mrail_sim_load {
    double mean, least, most; /* utilisation, 1: the rate of the link */
    double cv;                /* standard deviation over mean */
    double variance_percent; /* of the utilisation in per cent, as in [CTCCL] */
    uint32_t num;
} mrail_sim_load_t;

/*
 * Load of the links from leaves upwards in time_s. leaf: place of one leaf, or
 * MRAIL_FABRIC_NONE for all. Failed links are left out.
 */
mrail_sim_load_t mrail_sim_uplinks(const mrail_fabric_t *fabric, uint32_t leaf,
                                   const double *link_bytes, double time_s,
                                   uint32_t failed_link);

#endif
