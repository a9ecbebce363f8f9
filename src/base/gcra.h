/*
 * A rate limit that processes share without a lock. Its state is one number in
 * shared memory: the time at which the next byte may leave. GCRA calls this
 * number the theoretical arrival time (TAT). A sender atomically adds the cost
 * of its bytes to this time. The previous value is the time at which the bytes
 * may leave, so senders are served in order. If a process is killed, its
 * reservation simply expires.
 *
 * Time is CLOCK_MONOTONIC in 1/64 ns.
 */
#ifndef MRAIL_BASE_GCRA_H
#define MRAIL_BASE_GCRA_H

#include "base/clock.h"
#include "base/util.h"

#include <stdatomic.h>

#define MRAIL_GCRA_PER_NS 64

/* Returns the transmission time of the bytes at the given rate, which must not
 * be 0. */
static inline uint64_t mrail_gcra_cost(uint64_t rate_bytes_per_s,
                                       uint32_t bytes)
{
    return (uint64_t)bytes * (MRAIL_GCRA_PER_NS * MRAIL_NS_PER_SEC) /
           rate_bytes_per_s;
}

/* Raises a TAT to at least `floor`, then adds the cost. The floor limits the
 * burst after an idle period. Returns the TAT before the addition, in ns. */
static inline mrail_ns_t mrail_gcra_advance(_Atomic uint64_t *tat_p,
                                            uint64_t cost, mrail_ns_t floor_ns)
{
    uint64_t floor = floor_ns * MRAIL_GCRA_PER_NS;
    uint64_t tat = atomic_load_explicit(tat_p, memory_order_relaxed);
    uint64_t from;

    do {
        from = MRAIL_MAX(tat, floor);
    } while (!atomic_compare_exchange_weak(tat_p, &tat, from + cost));
    return from / MRAIL_GCRA_PER_NS;
}

#endif
