/*
 * A virtual network in virtual time for any number of sroce devices.
 *
 * A directed link connects each pair of nodes; it has a delay, a rate and
 * faults. All randomness comes from one seed, so a run can be replayed exactly.
 * Single-threaded. Reads no clock and never sleeps.
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
    mrail_ns_t jitter_ns; /* extra delay, uniform; keeps the order */
    uint64_t rate_Bps;    /* bytes per second; 0: no limit */
    uint32_t loss_ppm;
    uint32_t dup_ppm;
    uint32_t reorder_ppm; /* extra delay of up to reorder_ns */
    mrail_ns_t reorder_ns;
    uint32_t corrupt_ppm;  /* one to four flipped bits */
    uint32_t truncate_ppm; /* cut to a random length */
    int down;              /* 1: drops all packets */
} sroce_sim_link_t;

/* Called for every packet before the faults of the link. It may change the
 * packet; non-zero drops it. */
typedef int (*sroce_sim_filter_func_t)(void *arg, unsigned from, unsigned to,
                                       uint8_t *data, uint32_t length);

typedef struct sroce_sim_event {
    unsigned node;
    enum ibv_event_type type;
    void *user;
} sroce_sim_event_t;

/* NULL: out of memory. */
sroce_sim_t *sroce_sim_create(uint64_t seed);
/* The objects of the devices must be destroyed already. */
void sroce_sim_destroy(sroce_sim_t *sim);

/*
 * Adds a node with a device and sets params.ops. Returns the number of the
 * node, or -1 (too many nodes, out of memory, illegal parameter). With ip 0 or
 * qpn_base 0, nodes get distinct values.
 */
int sroce_sim_node_add(sroce_sim_t *sim, sroce_dev_params_t params);
sroce_dev_t *sroce_sim_dev(const sroce_sim_t *sim, unsigned node);
uint32_t sroce_sim_ip(const sroce_sim_t *sim, unsigned node);
/* Sets the port state. A node whose port is down neither sends nor receives. */
void sroce_sim_port_set(sroce_sim_t *sim, unsigned node, int up);

/* The link between two nodes. Tests may change it at any time. */
sroce_sim_link_t *sroce_sim_link(sroce_sim_t *sim, unsigned from, unsigned to);
void sroce_sim_link_all(sroce_sim_t *sim, const sroce_sim_link_t *link);
void sroce_sim_filter(sroce_sim_t *sim, sroce_sim_filter_func_t func,
                      void *arg);

mrail_ns_t sroce_sim_now(const sroce_sim_t *sim);
mrail_rng_t *sroce_sim_rng(sroce_sim_t *sim);

/*
 * Starts a fault script, in addition to the faults of the links. Rail R of node
 * K is the simulated node K * num_rails + R. A port that goes down or up raises
 * its event. Only one script per simulation. The caller has checked the script
 * against nodes x rails and keeps it until the end. 0, or -1: out of memory.
 */
int sroce_sim_script(sroce_sim_t *sim, const sroce_fault_script_t *script,
                     unsigned num_nodes, unsigned num_rails);
/* Hash of all deliveries so far: time, node, first header bytes and length.
 * Equal runs have equal hashes. */
uint64_t sroce_sim_trace(const sroce_sim_t *sim);

/* Sends a packet to node `to` with source address `src_ip`. */
void sroce_sim_inject(sroce_sim_t *sim, unsigned to, uint32_t src_ip,
                      uint16_t sport, const void *data, uint32_t length);

/* Runs until `until_ns`, or until no event is left. 1: events are left. */
int sroce_sim_run(sroce_sim_t *sim, mrail_ns_t until_ns);
/* Runs the events of the next instant. 0: no event is left. */
int sroce_sim_step(sroce_sim_t *sim);
/* The same, up to `until_ns`. 0: no event is before it, and the clock is at
 * `until_ns`. */
int sroce_sim_step_until(sroce_sim_t *sim, mrail_ns_t until_ns);

/* Calls sroce_qp_destroy() and removes the QP from the node's run list. */
void sroce_sim_qp_destroy(sroce_sim_t *sim, unsigned node, sroce_qp_t *qp);

/* Takes the oldest async event. 0: none. */
int sroce_sim_event_get(sroce_sim_t *sim, sroce_sim_event_t *event_p);
/* Number of CQ events of the node. */
unsigned sroce_sim_cq_events(const sroce_sim_t *sim, unsigned node);
/* Packets delivered to devices so far. */
uint64_t sroce_sim_delivered(const sroce_sim_t *sim);

#endif
