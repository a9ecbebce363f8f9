/*
 * A virtual network in virtual time that drives any number of sroce devices.
 *
 * Every pair of nodes has a directed link with a delay, a rate and faults;
 * all randomness comes from one seed, so a run can be replayed exactly.
 * Single-threaded.  Nothing here reads a clock or sleeps.
 */
#ifndef SROCE_SIM_SIM_H
#define SROCE_SIM_SIM_H

#include "base/rng.h"
#include "softroce/core/sroce.h"
#include "softroce/fault/script.h"

#define SROCE_SIM_MAX_NODES 16

typedef struct sroce_sim sroce_sim_t;

/* Faults of a directed link. Probabilities in ppm. */
typedef struct sroce_sim_link {
    mrail_ns_t delay_ns;
    mrail_ns_t jitter_ns; /* more delay, uniform; keeps the order */
    uint64_t rate_Bps;    /* bytes per second; 0: no limit */
    uint32_t loss_ppm;
    uint32_t dup_ppm;
    uint32_t reorder_ppm; /* held back by up to reorder_ns */
    mrail_ns_t reorder_ns;
    uint32_t corrupt_ppm;  /* one to four bits flipped */
    uint32_t truncate_ppm; /* cut at a random length */
    int down;              /* drops everything */
} sroce_sim_link_t;

/* Sees (and may change) every packet before the link's own faults;
 * non-zero drops it. */
typedef int (*sroce_sim_filter_func_t)(void *arg, unsigned from, unsigned to,
                                       uint8_t *data, uint32_t length);

typedef struct sroce_sim_event {
    unsigned node;
    enum ibv_event_type type;
    void *user;
} sroce_sim_event_t;

/* NULL: out of memory. */
sroce_sim_t *sroce_sim_create(uint64_t seed);
/* The devices' objects must be gone. */
void sroce_sim_destroy(sroce_sim_t *sim);

/*
 * Adds a node with its device: params->ops are set here.
 * Returns the node's number, or -1 (too many, out of memory, bad parameter).
 * ip 0, qpn_base 0: nodes get different ones.
 */
int sroce_sim_node_add(sroce_sim_t *sim, sroce_dev_params_t params);
sroce_dev_t *sroce_sim_dev(const sroce_sim_t *sim, unsigned node);
uint32_t sroce_sim_ip(const sroce_sim_t *sim, unsigned node);
/* Its port: a node that is down neither sends nor receives. */
void sroce_sim_port_set(sroce_sim_t *sim, unsigned node, int up);

/* The link from one node to another, to be changed at any time. */
sroce_sim_link_t *sroce_sim_link(sroce_sim_t *sim, unsigned from, unsigned to);
void sroce_sim_link_all(sroce_sim_t *sim, const sroce_sim_link_t *link);
void sroce_sim_filter(sroce_sim_t *sim, sroce_sim_filter_func_t func,
                      void *arg);

mrail_ns_t sroce_sim_now(const sroce_sim_t *sim);
mrail_rng_t *sroce_sim_rng(sroce_sim_t *sim);

/*
 * A fault script from now on, beside what the links do.  Simulated nodes are
 * its rails: node K rail R is the simulated node K * num_rails + R; a port that
 * goes down or up raises its event.  Once; the script must have been checked
 * against nodes x rails and outlive the simulation.  0, or -1: out of memory.
 */
int sroce_sim_script(sroce_sim_t *sim, const sroce_fault_script_t *script,
                     unsigned num_nodes, unsigned num_rails);
/* A number that stands for all packets delivered so far: when, where, their
 * first header and length.  Equal runs have equal ones. */
uint64_t sroce_sim_trace(const sroce_sim_t *sim);

/* Puts a packet on the wire towards `to`, as if from `src_ip`. */
void sroce_sim_inject(sroce_sim_t *sim, unsigned to, uint32_t src_ip,
                      uint16_t sport, const void *data, uint32_t length);

/* Runs until nothing is left to happen or `until_ns` is reached.
 * 1: something is left. */
int sroce_sim_run(sroce_sim_t *sim, mrail_ns_t until_ns);
/* One step: everything of the next instant.  0: nothing is left. */
int sroce_sim_step(sroce_sim_t *sim);
/* Likewise, up to `until_ns`: 0, and it is then, if nothing is before. */
int sroce_sim_step_until(sroce_sim_t *sim, mrail_ns_t until_ns);

/* sroce_qp_destroy(), and off the node's run list. */
void sroce_sim_qp_destroy(sroce_sim_t *sim, unsigned node, sroce_qp_t *qp);

/* Async events, oldest first; 0: none. */
int sroce_sim_event_get(sroce_sim_t *sim, sroce_sim_event_t *event_p);
/* How often a CQ of the node was notified. */
unsigned sroce_sim_cq_events(const sroce_sim_t *sim, unsigned node);
/* Packets delivered to devices so far. */
uint64_t sroce_sim_delivered(const sroce_sim_t *sim);

#endif
