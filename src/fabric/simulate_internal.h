/* The state of a run, shared by the files of the flow-level simulation. */
#ifndef MRAIL_FABRIC_SIMULATE_INTERNAL_H
#define MRAIL_FABRIC_SIMULATE_INTERNAL_H

#include "fabric/simulate.h"

#include "base/rng.h"
#include "fabric/bundle.h"
#include "fabric/fluid.h"

#include <stddef.h>

/* A flow and its message, kept so that the flow can be rerouted after a
 * failure. */
typedef struct sim_flow {
    uint32_t message;
    uint32_t path; /* ETHEREAL: the path that `sport` leads to */
    double start_s;
    uint16_t sport;
} sim_flow_t;

typedef struct sim {
    const mrail_fabric_t *fabric;
    const mrail_sim_params_t *params;
    const mrail_sim_message_t *messages;
    uint32_t num_messages;
    mrail_rng_t rng;
    mrail_router_t *router;
    mrail_bundles_t bundles;
    mrail_fluid_t *fluid;
    uint32_t *qps; /* indexed by host link */
    uint64_t num_flows;
    /* all flows in the order of their groups, kept for rerouting after the
     * failure */
    sim_flow_t *flows;
    size_t flows_allocated;
    double carried_s;             /* simulated time before time 0 of `fluid` */
    int has_failed;               /* params->failed_link has failed */
    mrail_sim_paths_t *paths;     /* ETHEREAL: params->paths or own_paths */
    mrail_sim_paths_t *own_paths; /* destroyed with the run */
} sim_t;

/* Adds a flow of message m to the last group. Returns 0, -ENOMEM, or
 * -EHOSTUNREACH if there is no path. */
int mrail_sim_add_flow(sim_t *sim, uint32_t m, uint16_t sport);

/* Adds a group with one new flow. Returns the same values as
 * mrail_sim_add_flow(). */
int mrail_sim_add_single(sim_t *sim, uint32_t m, double bytes, uint16_t sport);

/* ---- Ethereal ---- */

/* Adds all messages in batches of equal flows towards a leaf. */
int mrail_sim_add_ethereal(sim_t *sim);

/* Marks the path of a flow as bad, and adds the flow on a random good path of
 * its NIC to the last group. Returns 0, -ENOMEM, or -EHOSTUNREACH if no path
 * works. */
int mrail_sim_reroute(sim_t *sim, const sim_flow_t *flow);

#endif
