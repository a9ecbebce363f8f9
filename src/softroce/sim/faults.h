/*
 * A fault script in virtual time: its effect on the packets of a simulation.
 * Node node * num_rails + rail of the simulation is a rail of the script.
 *
 * Only sim.c and faults.c use this interface; tests use sroce_sim_script() of
 * sim.h. The script has its own random numbers, from its seed. Faults of links
 * do not change them, and vice versa.
 */
#ifndef SROCE_SIM_FAULTS_H
#define SROCE_SIM_FAULTS_H

#include "base/rng.h"
#include "softroce/fault/timeline.h"

typedef struct sroce_sim_faults sroce_sim_faults_t;

/* Services of sim.c. */
typedef struct sroce_sim_fault_ops {
    void (*port)(void *arg, unsigned node, int up);
    /* A pause is over: delivers the held packets. */
    void (*resume)(void *arg, unsigned node);
    void (*fail_qps)(void *arg, unsigned node, uint32_t nth);
    void (*write_delay)(void *arg, unsigned node, mrail_ns_t delay_ns);
    void *arg;
} sroce_sim_fault_ops_t;

#define SROCE_SIM_MAX_COPIES 2

/* The fate of a packet. */
typedef struct sroce_sim_fate {
    unsigned copies;     /* 0: lost */
    mrail_ns_t leave_ns; /* time at the link; never before now */
    mrail_ns_t delay_ns; /* added to the link's delay */
    mrail_ns_t late_ns[SROCE_SIM_MAX_COPIES]; /* extra delay, with reordering */
    int corrupt[SROCE_SIM_MAX_COPIES];
} sroce_sim_fate_t;

/* Starts the script now. NULL: out of memory. */
sroce_sim_faults_t *sroce_sim_faults_create(const sroce_fault_script_t *script,
                                            unsigned num_nodes,
                                            unsigned num_rails,
                                            const sroce_sim_fault_ops_t *ops,
                                            mrail_ns_t now_ns);
void sroce_sim_faults_destroy(sroce_sim_faults_t *faults);

/* Time of the next call of sroce_sim_faults_run(). */
mrail_ns_t sroce_sim_faults_next(const sroce_sim_faults_t *faults);
void sroce_sim_faults_run(sroce_sim_faults_t *faults, mrail_ns_t now_ns);

/* Draws the faults of a sent packet and counts it. */
void sroce_sim_faults_packet(sroce_sim_faults_t *faults, unsigned from,
                             unsigned to, const uint8_t *data, uint32_t length,
                             mrail_ns_t now_ns, sroce_sim_fate_t *fate_p);
int sroce_sim_faults_is_paused(const sroce_sim_faults_t *faults, unsigned node);
/* 1 if packets in flight to the node are lost (blackhole rx). */
int sroce_sim_faults_is_deaf(const sroce_sim_faults_t *faults, unsigned node);
mrail_rng_t *sroce_sim_faults_rng(sroce_sim_faults_t *faults);

#endif
