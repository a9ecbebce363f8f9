/*
 * Rate limiters that all processes of a device share without a lock
 * (base/gcra.h). A sender *reserves* a departure time for its batch.
 * Reservations are served in order, and a sender has one batch reserved at a
 * time, which is fair for any number of senders and any polling rates.
 *
 * An idle limiter saves up at most SROCE_RATE_IDLE_NS. A sender with a backlog
 * may be late because it was descheduled. It may then catch up by
 * SROCE_RATE_LATE_NS, because the queue of a real NIC would not have been late.
 *
 * Small packets (acknowledgements, wire-up, barriers) do not queue behind other
 * senders' batches. They count against the rate, but wait only if small packets
 * alone exceed it.
 *
 * Any thread of any process may call these functions.
 */
#ifndef MRAIL_SROCE_RATE_H
#define MRAIL_SROCE_RATE_H

#include "base/gcra.h"
#include "softroce/host/session.h"

#define SROCE_RATE_IDLE_NS (200 * MRAIL_NS_PER_US)
#define SROCE_RATE_LATE_NS (10 * MRAIL_NS_PER_MS)
/* Maximum time that a batch of more than one packet may take to send. */
#define SROCE_RATE_BATCH_NS (200 * MRAIL_NS_PER_US)
#define SROCE_RATE_SMALL_BYTES 512

/* Reserves `bytes`, and returns the time at which they may leave, or 0 if they
 * may leave immediately. depth_ns is SROCE_RATE_IDLE_NS or
 * SROCE_RATE_LATE_NS. */
static inline mrail_ns_t sroce_rate_reserve(sroce_bucket_t *bucket,
                                            uint32_t bytes, mrail_ns_t depth_ns,
                                            mrail_ns_t now_ns)
{
    uint64_t rate_bytes_per_s =
        atomic_load_explicit(&bucket->rate_bytes_per_s, memory_order_relaxed);
    uint64_t cost;
    mrail_ns_t at_ns;

    if (MRAIL_LIKELY(rate_bytes_per_s == 0)) {
        return 0;
    }
    cost = mrail_gcra_cost(rate_bytes_per_s, bytes);
    at_ns = mrail_gcra_advance(&bucket->tat, cost, now_ns - depth_ns);
    if (bytes <= SROCE_RATE_SMALL_BYTES) {
        at_ns = mrail_gcra_advance(&bucket->small_tat, cost, now_ns - depth_ns);
    }
    return at_ns;
}

/* Returns 1 if a small packet can leave immediately. */
static inline int sroce_rate_small_ready(const sroce_bucket_t *bucket,
                                         mrail_ns_t now_ns)
{
    return (bucket->rate_bytes_per_s == 0) ||
           (bucket->small_tat <= now_ns * 64);
}

/* Returns reserved bytes that were not sent. If the rate had no limit at the
 * time of the reservation, this may exceed the bytes that the limiter has
 * reserved. */
static inline void sroce_rate_refund(sroce_bucket_t *bucket, uint32_t bytes)
{
    uint64_t rate_bytes_per_s =
        atomic_load_explicit(&bucket->rate_bytes_per_s, memory_order_relaxed);
    uint64_t tat, cost;

    if (MRAIL_LIKELY(rate_bytes_per_s == 0)) {
        return;
    }
    tat = atomic_load_explicit(&bucket->tat, memory_order_relaxed);
    cost = mrail_gcra_cost(rate_bytes_per_s, bytes);
    while (!atomic_compare_exchange_weak(&bucket->tat, &tat,
                                         tat - MRAIL_MIN(tat, cost))) {
    }
}

/* Returns the maximum size of a batch, or `max` if there is no rate limit. */
static inline uint32_t sroce_rate_batch(const sroce_bucket_t *bucket,
                                        uint32_t max)
{
    uint64_t rate_bytes_per_s =
        atomic_load_explicit(&bucket->rate_bytes_per_s, memory_order_relaxed);

    if (MRAIL_LIKELY(rate_bytes_per_s == 0)) {
        return max;
    }
    return (uint32_t)MRAIL_MIN((uint64_t)max, rate_bytes_per_s *
                                                  SROCE_RATE_BATCH_NS /
                                                  MRAIL_NS_PER_SEC);
}

#endif
