/* Shared by the files of mrail simulate. */
#ifndef MRAIL_TOOLS_SIMULATE_COMMAND_H
#define MRAIL_TOOLS_SIMULATE_COMMAND_H

#include "fabric/pattern.h"
#include "fabric/simulate.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SIMULATE_COMMAND "simulate"
#define SIMULATE_MAX_PATTERNS 8
#define SIMULATE_MAX_CASES 64

/* Results of a method with a number of lanes, over all seeds. Times in
 * seconds. */
typedef struct simulate_case {
    mrail_sim_method_t method;
    int is_planned; /* 1 if libmrail-plan first moved messages to other rails */
    unsigned lanes; /* 1 if the method does not use lanes */
    unsigned seeds;
    double time_s, least_s,
        most_s;             /* mean, minimum and maximum over the seeds */
    mrail_sim_load_t load;  /* mean over the seeds */
    mrail_sim_load_t after; /* load after the failure; num is 0 without a
                             * failure */
    uint64_t num_flows;
    uint32_t most_qps;
    double seconds;      /* time that the simulation took on this machine */
    double *link_bytes;  /* bytes with the first seed, by directed link */
    double first_time_s; /* simulated time with the first seed */
} simulate_case_t;

typedef struct simulate_run {
    const char *fabric_name;
    const mrail_fabric_t *fabric;
    const char *pattern; /* text given on the command line */
    uint64_t bytes;      /* bytes that each host sends in a phase, or 0 for
                          * demands */
    /* lower bound on the time, from the rates of the links */
    double bound_s;
    uint32_t failed_link; /* MRAIL_FABRIC_NONE if no link fails */
    double failure_s;
    simulate_case_t cases[SIMULATE_MAX_CASES];
    unsigned num_cases;
} simulate_run_t;

void simulate_table(const simulate_run_t *run, FILE *stream);
void simulate_json(const simulate_run_t *run, FILE *stream);

/* Draws a row of bars for each case. A bar shows the utilisation of a leaf
 * uplink. */
void simulate_svg(const simulate_run_t *run, FILE *stream);

/* Returns "plan" or the name of the method. */
const char *simulate_method_name(const simulate_case_t *entry);

/* Returns the time of ideal spraying, or 0 if it is not among the cases. */
double simulate_spray_s(const simulate_run_t *run);

/* Parses a failure such as "l1:3@50ms" into run->failed_link and failure_s. If
 * the text is NULL, there is no failure. */
void simulate_failure(const char *text, simulate_run_t *run);

/*
 * Reads demands in the format of `mrail plan` as messages, from a file or a
 * pattern; the other argument is NULL. Each NIC is a rank, ordered by host and
 * then by rail. Messages between NICs of the same host are omitted, because
 * they do not use links. The caller frees the messages. Exits with a message if
 * the file or pattern is invalid.
 */
mrail_sim_message_t *simulate_demands(const mrail_fabric_t *fabric,
                                      const char *file, const char *pattern,
                                      uint64_t seed, uint32_t *num_p);

/* Reassigns the messages to the rails that libmrail-plan chooses. The caller
 * frees the result. Returns 0, -ENOMEM, or another -errno with a message. */
int simulate_plan(const mrail_fabric_t *fabric,
                  const mrail_sim_message_t *messages, uint32_t num,
                  mrail_sim_message_t **planned_p, uint32_t *num_p,
                  char *reason, size_t reason_size);

#endif
