/*
 * A fault script in virtual time, and its effects on the packets of a
 * simulation. Rail R of node K in the script is node K * num_rails + R of the
 * simulation.
 *
 * Only sim.c and faults.c use this interface; tests use sroce_sim_script() in
 * sim.h. The script has its own seed, so its random numbers are independent of
 * those of link faults.
 */
#ifndef SROCE_SIM_FAULTS_H
#define SROCE_SIM_FAULTS_H

#include "base/rng.h"
#include "softroce/fault/timeline.h"

typedef struct sroce_sim_faults sroce_sim_faults_t;

/* Services that sim.c provides. */
typedef struct sroce_sim_fault_ops {
    void (*port)(void *arg, unsigned node, int up);
    /* Called when a pause has ended, to deliver the held packets. */
    void (*resume)(void *arg, unsigned node);
    void (*fail_qps)(void *arg, unsigned node, uint32_t nth);
    void (*write_delay)(void *arg, unsigned node, mrail_ns_t delay_ns);
    void *arg;
} sroce_sim_fault_ops_t;

#define SROCE_SIM_MAX_COPIES 2

/* The effect of the script on a packet. */
typedef struct sroce_sim_effect {
    unsigned copies;     /* 0 if the packet is lost */
    mrail_ns_t leave_ns; /* arrival at the link; never before now */
    mrail_ns_t delay_ns; /* delay in addition to the link's delay */
    mrail_ns_t late_ns[SROCE_SIM_MAX_COPIES]; /* extra delay due to
                                               * reordering */
    int corrupt[SROCE_SIM_MAX_COPIES];
} sroce_sim_effect_t;

/* Starts the script now. Returns NULL if memory runs out. */
sroce_sim_faults_t *sroce_sim_faults_create(const sroce_fault_script_t *script,
                                            unsigned num_nodes,
                                            unsigned num_rails,
                                            const sroce_sim_fault_ops_t *ops,
                                            mrail_ns_t now_ns);
void sroce_sim_faults_destroy(sroce_sim_faults_t *faults);

/* Returns the time of the next sroce_sim_faults_run(). */
mrail_ns_t sroce_sim_faults_next(const sroce_sim_faults_t *faults);
void sroce_sim_faults_run(sroce_sim_faults_t *faults, mrail_ns_t now_ns);

/* Counts a packet that is being sent, and determines its faults. */
void sroce_sim_faults_packet(sroce_sim_faults_t *faults, unsigned from,
                             unsigned to, const uint8_t *data, uint32_t length,
                             mrail_ns_t now_ns, sroce_sim_effect_t *effect_p);
int sroce_sim_faults_is_paused(const sroce_sim_faults_t *faults, unsigned node);
/* Returns 1 if packets in flight to the node are lost (blackhole rx). */
int sroce_sim_faults_drops_rx(const sroce_sim_faults_t *faults, unsigned node);
mrail_rng_t *sroce_sim_faults_rng(sroce_sim_faults_t *faults);

#endif
