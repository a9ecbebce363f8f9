/* Computes the digest of a list of demands. */
#ifndef MRAIL_ORCHESTRATOR_DIGEST_H
#define MRAIL_ORCHESTRATOR_DIGEST_H

#include "plan.h"

/* Returns the digest of two numbers. Digests are combined by addition, so the
 * steps do not depend on each other. */
static inline uint64_t mrail_digest(uint64_t key, uint64_t bytes)
{
    return (bytes + UINT64_C(0x9e3779b97f4a7c15)) *
           (2 * key * UINT64_C(0xbf58476d1ce4e5b9) + 1);
}

/* Returns the digest of demand i. */
static inline uint64_t mrail_digest_demand(const mrail_plan_demand_t *demand,
                                           size_t i)
{
    return mrail_digest((((uint64_t)demand->from << 32) | demand->to) + i,
                        demand->bytes);
}

#endif
