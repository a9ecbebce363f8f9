/*
 * A seeded pseudo-random generator. The same seed gives the same sequence on
 * every platform, so that a failed run can be replayed. Not suitable for
 * secrets. Source: splitmix64 (Steele, Lea, Flood 2014).
 */
#ifndef MRAIL_BASE_RNG_H
#define MRAIL_BASE_RNG_H

#include "base/util.h"

typedef struct mrail_rng {
    uint64_t state; /* any value */
} mrail_rng_t;

static inline void mrail_rng_init(mrail_rng_t *rng, uint64_t seed)
{
    rng->state = seed;
}

static inline uint64_t mrail_rng_next(mrail_rng_t *rng)
{
    rng->state += 0x9e3779b97f4a7c15ull;
    return mrail_mix64(rng->state);
}

/* Returns a uniformly distributed number in [0, bound), with bound >= 1. The
 * bias of the multiply-shift method is below 2^-32. */
static inline uint32_t mrail_rng_below(mrail_rng_t *rng, uint32_t bound)
{
    return (uint32_t)(((mrail_rng_next(rng) >> 32) * (uint64_t)bound) >> 32);
}

/* Returns non-zero with probability ppm / 1e6. */
static inline int mrail_rng_hit(mrail_rng_t *rng, uint32_t ppm)
{
    return (ppm != 0) && (mrail_rng_below(rng, 1000000) < ppm);
}

#endif
