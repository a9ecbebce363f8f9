/*
 * Implements the comparison methods of `mrail plan`: other methods for an
 * exchange, on the same topology and with the same model. The time of a link is
 * its bytes divided by its capacity, and all links work in parallel. The time
 * of a method that proceeds in steps is the sum of its steps.
 *
 * Each method follows its source. Where the source leaves a question open,
 * docs/planner.md states the assumption.
 *
 * The methods use only the public functions of plan.h, and no I/O or clock.
 */
#ifndef MRAIL_TOOLS_PLAN_ARMS_H
#define MRAIL_TOOLS_PLAN_ARMS_H

#include "orchestrator/plan.h"

#include <stddef.h>

#define PLAN_ARMS_REASON_MAX 128

typedef enum plan_arm_id {
    PLAN_ARM_DIRECT,   /* each demand undivided, on a path with the fewest
                        * relays */
    PLAN_ARM_PAIRWISE, /* the same paths, in the rounds of [Thakur] */
    PLAN_ARM_RAILS,    /* each demand spread evenly over the rails [RailS] */
    PLAN_ARM_SABRE,    /* lower bound by the NICs of each node [SABRE] */
    PLAN_ARM_FAST,     /* stages between pairs of nodes [FAST] */
    PLAN_ARM_NIMBLE,   /* least expensive path for each increment [NIMBLE] */
    PLAN_NUM_ARMS
} plan_arm_id_t;

typedef struct plan_arm {
    double seconds; /* predicted time */
    double relayed; /* bytes times relays; negative if undefined */
    unsigned steps; /* rounds or stages, one after the other; 0 if all bytes are
                     * sent at the same time */
    /* The reason why the method does not support the topology, or "". */
    char reason[PLAN_ARMS_REASON_MAX];
} plan_arm_t;

/* Return the name of a method, and the label of its source in
 * docs/references.md. plan_arm_is_bound() returns 1 if the method is a bound
 * rather than an exchange. */
const char *plan_arm_name(plan_arm_id_t id);
const char *plan_arm_source(plan_arm_id_t id);
int plan_arm_is_bound(plan_arm_id_t id);

/* Computes all methods. `plan` must have been made for this topology and these
 * demands without background, and compared with mrail_plan_compare(). Returns
 * 0, or -ENOMEM with `arms` unchanged. */
int plan_arms_compare(const mrail_plan_topo_t *topo, const mrail_plan_t *plan,
                      const mrail_plan_demand_t *demands, size_t num_demands,
                      plan_arm_t arms[PLAN_NUM_ARMS]);

#endif
