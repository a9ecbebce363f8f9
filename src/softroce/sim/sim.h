/*
 * Simulates a network in virtual time for any number of sroce devices.
 *
 * Each ordered pair of nodes is connected by a directed link, which has a
 * delay, a rate and faults. All randomness comes from one seed, so that a run
 * can be replayed exactly. Single-threaded; reads no clock and never sleeps.
 */
#ifndef SROCE_SIM_SIM_H
#define SROCE_SIM_SIM_H

#include "base/rng.h"
#include "softroce/core/sroce.h"
#include "softroce/fault/script.h"

#define SROCE_SIM_MAX_NODES 16

typedef struct sroce_sim sroce_sim_t;

/* Faults of a directed link. Probabilities are in ppm. */
typedef struct sroce_sim_link {
    mrail_ns_t delay_ns;
    mrail_ns_t jitter_ns; /* uniform extra delay, which preserves the order */
    uint64_t rate_Bps;    /* bytes per second; 0 for no limit */
    uint32_t loss_ppm;
    uint32_t dup_ppm;
    uint32_t reorder_ppm; /* probability of an extra delay up to reorder_ns */
    mrail_ns_t reorder_ns;
    uint32_t corrupt_ppm;  /* one to four flipped bits */
    uint32_t truncate_ppm; /* truncated to a random length */
    int down;              /* 1 if all packets are dropped */
} sroce_sim_link_t;

/* Called for every packet before the link's faults are applied. It may change
 * the packet, and returns non-zero to drop it. */
typedef int (*sroce_sim_filter_func_t)(void *arg, unsigned from, unsigned to,
                                       uint8_t *data, uint32_t length);

typedef struct sroce_sim_event {
    unsigned node;
    enum ibv_event_type type;
    void *user;
} sroce_sim_event_t;

/* Returns NULL if memory runs out. */
sroce_sim_t *sroce_sim_create(uint64_t seed);
/* The caller must have destroyed all objects on the devices. */
void sroce_sim_destroy(sroce_sim_t *sim);

/*
 * Adds a node with a device; sets params.ops. Returns the node's number, or -1
 * (too many nodes, out of memory, illegal parameter). If ip or qpn_base is 0,
 * each node gets its own value.
 */
int sroce_sim_node_add(sroce_sim_t *sim, sroce_dev_params_t params);
sroce_dev_t *sroce_sim_dev(const sroce_sim_t *sim, unsigned node);
uint32_t sroce_sim_ip(const sroce_sim_t *sim, unsigned node);
/* Sets the port state. A node whose port is down neither sends nor receives. */
void sroce_sim_port_set(sroce_sim_t *sim, unsigned node, int up);

/* Returns the link between two nodes. Tests may change it at any time. */
sroce_sim_link_t *sroce_sim_link(sroce_sim_t *sim, unsigned from, unsigned to);
void sroce_sim_link_all(sroce_sim_t *sim, const sroce_sim_link_t *link);
void sroce_sim_filter(sroce_sim_t *sim, sroce_sim_filter_func_t func,
                      void *arg);

mrail_ns_t sroce_sim_now(const sroce_sim_t *sim);
mrail_rng_t *sroce_sim_rng(sroce_sim_t *sim);

/*
 * Starts a fault script, whose faults are added to the faults of the links.
 * Rail R of node K is the simulated node K * num_rails + R. Port changes raise
 * the corresponding events. A simulation runs only one script. The caller must
 * have checked it against nodes x rails, and keeps it until the end. Returns 0,
 * or -1 if memory runs out.
 */
int sroce_sim_script(sroce_sim_t *sim, const sroce_fault_script_t *script,
                     unsigned num_nodes, unsigned num_rails);
/* Returns a hash of all deliveries so far: time, node, first header bytes and
 * length. Equal runs yield equal hashes. */
uint64_t sroce_sim_trace(const sroce_sim_t *sim);

/* Sends a packet from source address `src_ip` to node `to`. */
void sroce_sim_inject(sroce_sim_t *sim, unsigned to, uint32_t src_ip,
                      uint16_t sport, const void *data, uint32_t length);

/* Runs until `until_ns` or until no events are left. Returns 1 if events
 * remain. */
int sroce_sim_run(sroce_sim_t *sim, mrail_ns_t until_ns);
/* Runs the events of the next instant. Returns 0 if no event is left. */
int sroce_sim_step(sroce_sim_t *sim);
/* Like sroce_sim_step(), but does not go beyond `until_ns`. If there is no
 * event before then, sets the clock to `until_ns` and returns 0. */
int sroce_sim_step_until(sroce_sim_t *sim, mrail_ns_t until_ns);

/* Calls sroce_qp_destroy() and removes the QP from the node's run list. */
void sroce_sim_qp_destroy(sroce_sim_t *sim, unsigned node, sroce_qp_t *qp);

/* Removes the oldest async event and returns it. Returns 0 if there is none. */
int sroce_sim_event_get(sroce_sim_t *sim, sroce_sim_event_t *event_p);
/* Returns the number of CQ events on the node. */
unsigned sroce_sim_cq_events(const sroce_sim_t *sim, unsigned node);
/* Returns the number of packets delivered to devices so far. */
uint64_t sroce_sim_delivered(const sroce_sim_t *sim);

#endif
