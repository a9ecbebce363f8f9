/*
 * Models flows as fluids on links with capacities. Their rates are max-min
 * fair, and change over time.
 *
 * A group is a number of bytes that one or more flows carry together. Examples
 * are a message with a single flow, and a message whose lanes pull from it. At
 * any time, the rates of all flows are max-min fair: a flow can become faster
 * only by slowing down another flow that is no faster. The rates are computed
 * by progressive filling: the link with the lowest capacity per flow fixes the
 * rates of its flows, then the next link, and so on. Rates change when a group
 * starts or ends. Source: Bertsekas and Gallager, Data Networks, 6.5.2.
 *
 * The model is deterministic, but not thread-safe. Times are in seconds, rates
 * in bytes per second.
 */
#ifndef MRAIL_FABRIC_FLUID_H
#define MRAIL_FABRIC_FLUID_H

#include <stdint.h>

#define MRAIL_FLUID_MAX_HOPS 8

typedef struct mrail_fluid mrail_fluid_t;

/* Creates an object without groups. capacity[i] > 0 is the capacity of link i.
 * Returns NULL if memory runs out. */
mrail_fluid_t *mrail_fluid_create(uint32_t num_links, const double *capacity);
void mrail_fluid_destroy(mrail_fluid_t *fluid);

/* Adds a group of `bytes` > 0. Returns its number, counting from 0, or
 * -ENOMEM. */
int64_t mrail_fluid_group_add(mrail_fluid_t *fluid, double bytes);

/* Makes the last group start at start_s >= 0 instead of at time 0. */
void mrail_fluid_group_start(mrail_fluid_t *fluid, double start_s);

/* Adds a flow over num (1 to MRAIL_FLUID_MAX_HOPS) different links to the last
 * group. Returns 0 or -ENOMEM. */
int mrail_fluid_flow_add(mrail_fluid_t *fluid, const uint32_t *links,
                         unsigned num);

/*
 * Runs all groups from time 0 to their end, or until `until_s`. If quantum_s is
 * 0, rates change exactly when a group starts or ends. Otherwise, to bound the
 * work, they change at most once per quantum. Groups then start up to half a
 * quantum early or late, and the rate of a group that ends within a quantum
 * stays unused until the quantum ends. Returns 0, -ENOMEM, or -EDEADLK if a
 * group has no flow.
 */
int mrail_fluid_run(mrail_fluid_t *fluid, double until_s, double quantum_s);

/* After a run, returns the time when the group ended, or infinity if it has
 * not. */
double mrail_fluid_end(const mrail_fluid_t *fluid, uint32_t group);

/* Returns the time when the last group ended. */
double mrail_fluid_makespan(const mrail_fluid_t *fluid);

/* Returns the number of bytes that the link has carried. */
double mrail_fluid_link_bytes(const mrail_fluid_t *fluid, uint32_t link);

/* Returns the bytes of the group that have not been carried yet. */
double mrail_fluid_remaining(const mrail_fluid_t *fluid, uint32_t group);

/* Returns the rate of a flow in the last interval. Flows are numbered in the
 * order in which they were added. */
double mrail_fluid_rate(const mrail_fluid_t *fluid, uint32_t flow);

uint32_t mrail_fluid_num_groups(const mrail_fluid_t *fluid);

/* Returns the number of groups that have not ended. */
uint32_t mrail_fluid_num_left(const mrail_fluid_t *fluid);

/* Returns the number of times that the rates were computed. */
uint64_t mrail_fluid_num_fills(const mrail_fluid_t *fluid);

#endif
