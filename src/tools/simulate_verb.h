/* mrail simulate: what its files share. */
#ifndef MRAIL_TOOLS_SIMULATE_VERB_H
#define MRAIL_TOOLS_SIMULATE_VERB_H

#include "fabric/pattern.h"
#include "fabric/simulate.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SIMULATE_VERB "simulate"
#define SIMULATE_MAX_PATTERNS 8
#define SIMULATE_MAX_CASES 64

/* A method with a number of lanes, over all seeds. Times in seconds. */
typedef struct simulate_case {
    mrail_sim_method_t method;
    int is_planned; /* libmrail-plan first moves messages to other rails */
    unsigned lanes; /* 1 where the method has none */
    unsigned seeds;
    double time_s, least_s,
        most_s;             /* mean, smallest and largest of the seeds */
    mrail_sim_load_t load;  /* means over the seeds */
    mrail_sim_load_t after; /* after the failure; num 0: none */
    uint64_t num_flows;
    uint32_t most_qps;
    double seconds;      /* of this machine */
    double *link_bytes;  /* of the first seed, by directed link */
    double first_time_s; /* of the first seed */
} simulate_case_t;

typedef struct simulate_run {
    const char *fabric_name;
    const mrail_fabric_t *fabric;
    const char *pattern;  /* as typed */
    uint64_t bytes;       /* that each host sends in a phase; 0: demands */
    double bound_s;       /* lower bound from the rates of links */
    uint32_t failed_link; /* or MRAIL_FABRIC_NONE */
    double failure_s;
    simulate_case_t cases[SIMULATE_MAX_CASES];
    unsigned num_cases;
} simulate_run_t;

void simulate_table(const simulate_run_t *run, FILE *stream);
void simulate_json(const simulate_run_t *run, FILE *stream);

/* A drawing: a row of bars for each case, the utilisation of each leaf uplink. */
void simulate_svg(const simulate_run_t *run, FILE *stream);

/* "plan", or the name of the method. */
const char *simulate_method_name(const simulate_case_t *entry);

/* The time of ideal spraying, if it is a case; else 0. */
double simulate_spray_s(const simulate_run_t *run);

/* Reads "l1:3@50ms" into run->failed_link and failure_s; NULL: no failure. */
void simulate_failure(const char *text, simulate_run_t *run);

/*
 * Demands of `mrail plan` as messages: from a file, or by a pattern (the other one
 * is NULL). Each NIC is a rank, in the order of hosts, then of rails. Messages
 * between NICs of one host take no link and are left out. The caller frees them. A
 * wrong file or pattern ends the process.
 */
mrail_sim_message_t *simulate_demands(const mrail_fabric_t *fabric,
                                      const char *file, const char *pattern,
                                      uint64_t seed, uint32_t *num_p);

/* The same messages over the rails that libmrail-plan gives them; the caller frees
 * them. 0; -ENOMEM; or another -errno with a sentence. */
int simulate_plan(const mrail_fabric_t *fabric,
                  const mrail_sim_message_t *messages, uint32_t num,
                  mrail_sim_message_t **planned_p, uint32_t *num_p, char *why,
                  size_t why_size);

#endif
