/*
 * Exchanges between processes, each with its own device, over src/relay with
 * payloads in device memory. The ranks of a node use IPC. A network of
 * mailboxes in shared host memory connects nodes.
 *
 * All data is checked. The bytes are a function of sender, receiver and
 * exchange.
 */
#ifndef MRAIL_TEST_RELAY_JOB_H
#define MRAIL_TEST_RELAY_JOB_H

#include "relay/relay.h"

#include <stddef.h>
#include <stdint.h>

#define JOB_RANKS 4u
#define JOB_FLOWS 16u

typedef struct relay_job {
    unsigned num_ranks;
    uint32_t node_of[JOB_RANKS]; /* ranks of a node are consecutive */
    mrail_relay_flow_t flows[JOB_FLOWS];
    unsigned num_flows;
    unsigned out_slots, in_slots;
    size_t chunk;
    unsigned num_exchanges;
    int has_no_checks; /* 1 for no checks, in measurements */
    int with_kernel;   /* 1 to copy with a kernel, 0 with copy engines */
    /* If not NULL, rank 0 calls it after each of its steps. */
    void (*trouble)(void);
} relay_job_t;

/* The measurements of one rank. */
typedef struct relay_job_result {
    double seconds; /* the shortest exchange */
    uint64_t chunks;
    int error;            /* error of mrail_relay_progress() */
    unsigned num_unready; /* tests of copies that were not complete */
} relay_job_result_t;

/* Runs the job, with rank r on device r modulo the number of devices. results[r]
 * is that of rank r. Returns 0 if every rank succeeded. */
int relay_job_run(const relay_job_t *job, relay_job_result_t *results);

#endif
