/*
 * Time in nanoseconds since an arbitrary origin.
 *
 * Only the outermost code (a progress call, the control thread, a tool) reads
 * the clock. All other code takes `now_ns` as an argument, so that tests can
 * run in virtual time.
 */
#ifndef MRAIL_BASE_CLOCK_H
#define MRAIL_BASE_CLOCK_H

#include <stdint.h>

#define MRAIL_NS_PER_US 1000ull
#define MRAIL_NS_PER_MS 1000000ull
#define MRAIL_NS_PER_SEC 1000000000ull
#define MRAIL_NS_NEVER UINT64_MAX

typedef uint64_t mrail_ns_t;

/* Returns the earlier of two times. */
static inline mrail_ns_t mrail_ns_min(mrail_ns_t a, mrail_ns_t b)
{
    return (a < b) ? a : b;
}

/* Returns CLOCK_MONOTONIC in nanoseconds. Any thread may call it. */
mrail_ns_t mrail_clock_now(void);

#endif
