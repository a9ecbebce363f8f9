/*
 * Time in nanoseconds since an arbitrary origin.
 *
 * Code without I/O, such as src/rail/proto, does not read the clock. It takes
 * `now_ns` as an argument, so that tests can run it in virtual time. For other
 * code, a simulation replaces mrail_clock_now().
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
