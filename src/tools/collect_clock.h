/*
 * Computes how far the clock of another host is ahead, from timestamps that two
 * processes exchanged.
 *
 * Each exchange gives an interval that contains the difference, because the
 * other host read its clock after the request was sent, and before the answer
 * was received:
 *
 *   remote - received <= offset <= remote - sent
 *
 * Delays need not be equal in both directions. All exchanges together give the
 * intersection of their intervals. Its middle is the estimate, and half of its
 * length is the error bound. Source: [Cristian] Probabilistic clock
 * synchronization, 1989.
 */
#ifndef MRAIL_TOOLS_COLLECT_CLOCK_H
#define MRAIL_TOOLS_COLLECT_CLOCK_H

#include <stdint.h>

/* Times are ns, at most COLLECT_CLOCK_MAX. */
#define COLLECT_CLOCK_MAX (UINT64_C(1) << 62)
typedef struct collect_stamp {
    uint64_t sent;     /* when the request was sent, on the local clock */
    uint64_t remote;   /* the time in the answer */
    uint64_t received; /* when the answer was received, on the local clock */
} collect_stamp_t;

/* Estimates the remote clock minus the local clock. If the intervals
 * contradict each other, because a clock was set or drifts, uses the
 * shortest interval. Returns 0, or -EINVAL with the results unchanged if
 * there is no valid stamp. */
int collect_clock_estimate(const collect_stamp_t *stamps, unsigned count,
                           int64_t *offset_ns_p, uint64_t *bound_ns_p);

#endif
