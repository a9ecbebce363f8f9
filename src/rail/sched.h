/*
 * Which lane takes the next chunk.  Pure: lanes are described by numbers,
 * time is an argument.
 *
 * Work is pulled: nothing is assigned to a lane before it has window space, so
 * a lane that finishes early takes what a lagging lane has not started.  Near
 * the end of the work a slow lane is left idle if it would finish last.
 */
#ifndef MRAIL_RAIL_SCHED_H
#define MRAIL_RAIL_SCHED_H

#include "telemetry/window.h"

#include <stddef.h>

typedef struct mrail_sched_lane {
    mrail_tele_window_t meter; /* measured throughput */
    uint64_t nominal;          /* bytes/s, of the port, shared by its lanes */
    uint64_t inflight;         /* bytes posted and not completed */
    mrail_ns_t since_ns;       /* the oldest of them are served since then */
    uint64_t refill;           /* bytes: the least window; see ..._done() */
    int usable;                /* may take a chunk now */
} mrail_sched_lane_t;

typedef struct mrail_sched_params {
    size_t chunk;  /* bytes; 0: from the measured rate */
    size_t window; /* bytes; 0: from the measured rate */
    size_t even;   /* bytes; see mrail_sched_equal_split() */
    int alone;     /* the peer will never have another lane */
} mrail_sched_params_t;

/* Automatic chunks: the time that one should take, bounds in bytes, and the
 * least that a lane is given when its share of the work is smaller. */
#define MRAIL_SCHED_CHUNK_NS (1 * MRAIL_NS_PER_MS)
#define MRAIL_SCHED_CHUNK_LOW (64u << 10)
#define MRAIL_SCHED_CHUNK_MAX (1u << 20)
#define MRAIL_SCHED_CHUNK_MIN (16u << 10)
/* The only lane shares its work with nobody: cuts cost, and bring nothing but a sample
 * of what the rail gives (telemetry/capacity.h).  So there are few. */
#define MRAIL_SCHED_CHUNK_ALONE (16u << 20)
#define MRAIL_SCHED_ALONE_NS (10 * MRAIL_NS_PER_MS)
/* An operation that is small for its lanes is given to each of them at once:
 * see mrail_sched_equal_split(). */
#define MRAIL_SCHED_EQUAL_SPLIT_MAX (256u << 10)
#define MRAIL_SCHED_EQUAL_SPLIT_SLOW                                           \
    (1u << 20) /* where the least chunk takes too long,
                                            and parts of this size many ms */
/* Lanes whose measured rates differ by no more are taken for equally fast. */
#define MRAIL_SCHED_EQUAL_RATES 1.25
/* Work that an automatic window holds: enough to bridge the time in which a
 * process is not scheduled, little enough that a lane which stalls holds back
 * no more.  At least two chunks, more for a lane that ran dry, at most
 * MRAIL_SCHED_WINDOW_MAX bytes. */
#define MRAIL_SCHED_WINDOW_NS (10 * MRAIL_NS_PER_MS)
#define MRAIL_SCHED_WINDOW_MAX (32u << 20)

/*
 * Reports a successful chunk that is large enough to measure; inflight and
 * since_ns exclude it. A lane that is found empty could have taken more. The
 * time when it became empty is unknown, so its measured rate is too low, and a
 * window from that rate would leave it empty for longer each time. So the
 * window doubles until the lane is found busy again.
 */
static inline void mrail_sched_done(mrail_sched_lane_t *lane, size_t length,
                                    mrail_ns_t post_ns, mrail_ns_t now_ns)
{
    mrail_tele_window_add(&lane->meter, length, post_ns, now_ns);
    lane->refill = (lane->inflight == 0) ? 2 * lane->meter.sums.batch_bytes : 0;
}

/*
 * Bytes of an equal part of an operation for each of `count` lanes, if the
 * operation is so small that a lane takes its part in one chunk; else 0. If
 * many operations share a rail, each is slow, and the rest that remains when
 * one lane ends early costs as much as the whole. Equal parts end together.
 */
static inline size_t mrail_sched_equal_split(size_t length, unsigned count)
{
    return (length <= (size_t)MRAIL_SCHED_EQUAL_SPLIT_SLOW * count)
               ? (length + count - 1) / count
               : 0;
}

/*
 * Picks among lanes[0..count) for the next piece of an operation.  limit > 0:
 * its bytes that are not cut yet; queued >= limit: those of all operations that
 * wait, so that the end of one is not taken for the end of the work.  Returns
 * the index and the bytes to cut in *segment_p (1..limit), or -1: wait for a
 * completion (only when some lane has work in flight, or none is usable).
 */
int mrail_sched_pick(mrail_sched_lane_t *const *lanes, unsigned count,
                     size_t limit, size_t queued,
                     const mrail_sched_params_t *params, mrail_ns_t now_ns,
                     size_t *segment_p);

/* The usable lane on which `length` bytes, kept whole, finish first; ties go
 * to the first.  -1: none is usable. */
int mrail_sched_pick_whole(mrail_sched_lane_t *const *lanes, unsigned count,
                           size_t length);

#endif
