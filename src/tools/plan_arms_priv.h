/* Shared by the files of the comparison methods. */
#ifndef MRAIL_TOOLS_PLAN_ARMS_PRIV_H
#define MRAIL_TOOLS_PLAN_ARMS_PRIV_H

#include "tools/plan_arms_net.h"

#include <stdio.h>

/* Compute one method into a zeroed `arm`, on a net without bytes. Return 0 or
 * -ENOMEM. */
int plan_arm_fast(plan_arms_net_t *net, plan_arm_t *arm);
int plan_arm_nimble(plan_arms_net_t *net, plan_arm_t *arm);

/* Divides an exchange between nodes into stages, and writes their number and
 * the sum of their times. Both matrices are indexed by sender * num_nodes +
 * receiver. The sum of a row or column must be below 2^63. Consumes `bytes`,
 * which is all 0 afterwards. Returns 0 or -ENOMEM. */
#define PLAN_ARMS_MAX_STAGE_NODES 128u
int plan_arms_stages(uint64_t *bytes, const double *seconds_per_byte,
                     unsigned num_nodes, double *seconds_p, unsigned *num_p);

/* Records that the method does not support a demand, because its ranks have no
 * rail in common. */
static inline void plan_arm_no_rail(plan_arm_t *arm,
                                    const mrail_plan_demand_t *demand)
{
    snprintf(
        arm->reason, sizeof(arm->reason),
        "rank %u and rank %u have no common rail, and the method has no other "
        "path",
        demand->from, demand->to);
}

#endif
