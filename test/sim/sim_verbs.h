/*
 * Implements verbs on simulated devices: sroce cores on a virtual network in
 * virtual time provide the functions of libibverbs that src/rail calls. Devices
 * act only when the simulation runs, never inside a call. There is one network
 * at a time, for use by one thread.
 */
#ifndef MRAIL_TEST_SIM_VERBS_H
#define MRAIL_TEST_SIM_VERBS_H

#include <infiniband/verbs.h>

#include "softroce/sim/sim.h"

/* Opens a network of num_nodes x num_rails devices. Rail r of node n is the
 * simulated node n * num_rails + r and has the address 10.0.r.(n + 1). Aborts
 * if memory runs out. */
sroce_sim_t *sim_verbs_open(uint64_t seed, unsigned num_nodes,
                            unsigned num_rails);
/* Closes the network. All objects must have been destroyed. */
void sim_verbs_close(void);

/* Selects the node whose devices the following calls see. */
void sim_verbs_as(unsigned node);

/* The first function returns the number of unpolled completions, and the second
 * one whether asynchronous events are pending. */
unsigned sim_verbs_pending(const struct ibv_cq *cq);
int sim_verbs_has_event(const struct ibv_context *ctx);

#endif
