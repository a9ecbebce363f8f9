/*
 * Verbs of simulated devices: what src/rail calls of libibverbs, over sroce
 * cores on a virtual network in virtual time.  Devices move only when the
 * simulation is run, never inside a call.  One world at a time, one thread.
 */
#ifndef MRAIL_TEST_SIM_VERBS_H
#define MRAIL_TEST_SIM_VERBS_H

#include <infiniband/verbs.h>

#include "softroce/sim/sim.h"

/* A network of num_nodes x num_rails devices: rail r of node n is the simulated
 * node n * num_rails + r, and has the address 10.0.r.(n + 1).  Aborts where there
 * is no memory. */
sroce_sim_t *sim_verbs_open(uint64_t seed, unsigned num_nodes,
                            unsigned num_rails);
/* All objects must be gone. */
void sim_verbs_close(void);

/* The node whose devices there are from now on, as its process sees them. */
void sim_verbs_as(unsigned node);

/* Completions that nobody has polled; asynchronous events. */
unsigned sim_verbs_pending(const struct ibv_cq *cq);
int sim_verbs_has_event(const struct ibv_context *ctx);

#endif
