/*
 * Verbs of simulated devices: the functions of libibverbs that src/rail calls,
 * over sroce cores on a virtual network in virtual time. Devices act only when
 * the simulation runs, never inside a call. One network at a time, one thread.
 */
#ifndef MRAIL_TEST_SIM_VERBS_H
#define MRAIL_TEST_SIM_VERBS_H

#include <infiniband/verbs.h>

#include "softroce/sim/sim.h"

/* A network of num_nodes x num_rails devices. Rail r of node n is the simulated
 * node n * num_rails + r with the address 10.0.r.(n + 1). Aborts when out of
 * memory. */
sroce_sim_t *sim_verbs_open(uint64_t seed, unsigned num_nodes,
                            unsigned num_rails);
/* All objects must be destroyed already. */
void sim_verbs_close(void);

/* Selects the node whose devices the following calls see. */
void sim_verbs_as(unsigned node);

/* Completions that were not polled; asynchronous events. */
unsigned sim_verbs_pending(const struct ibv_cq *cq);
int sim_verbs_has_event(const struct ibv_context *ctx);

#endif
