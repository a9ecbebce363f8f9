/*
 * Selects the lane of the next chunk. The lanes, described by numbers, and the
 * time are arguments.
 *
 * Lanes pull work: a lane is assigned a chunk only when its window has space. A
 * lane that finishes early thus takes over work that a slow lane has not
 * started. Near the end of the work, a slow lane stays idle if it would finish
 * last.
 *
 * With port rules, the uplink of each lane is known, and the lanes of a peer
 * load their uplinks equally. A lane accepts no chunk while it is more than
 * half a chunk ahead of the lane with the fewest bytes. This bound does not
 * apply if the rates differ so much that a lane must be faulty.
 */
#ifndef MRAIL_RAIL_SCHED_H
#define MRAIL_RAIL_SCHED_H

#include "telemetry/window.h"

#include <stddef.h>

typedef struct mrail_sched_lane {
    mrail_tele_window_t meter; /* measured throughput */
    uint64_t nominal;          /* bytes/s of the port, divided among its
                                * lanes */
    uint64_t inflight;         /* bytes posted and not completed */
    mrail_ns_t since_ns;       /* start of service of the oldest bytes in
                                * flight */
    uint64_t refill;           /* smallest window, in bytes; see
                                * mrail_sched_done() */
    uint64_t taken;            /* bytes of chunks that mrail_sched_pick()
                                * assigned to the lane since the peer's lanes
                                * changed */
    uint64_t quota_taken;      /* bytes of those chunks that had a quota */
    int usable;                /* the lane can accept a chunk now */
} mrail_sched_lane_t;

typedef struct mrail_sched_params {
    size_t chunk;       /* bytes; 0 to derive it from the measured rate */
    size_t window;      /* bytes; 0 to derive it from the measured rate */
    size_t equal_split; /* bytes; see mrail_sched_equal_split() */
    int alone;          /* the peer will never have another lane */
    int has_rules;      /* switches have port rules: lanes have known, equal
                         * uplinks */
    int has_quota;      /* all lanes belong to one rail, which has quota
                         * left; other operations may load rails unequally,
                         * so their bytes do not count */
} mrail_sched_params_t;

/* Automatic chunk size: the time of a chunk, its bounds in bytes, and the
 * minimum for a lane with a smaller part of the work. */
#define MRAIL_SCHED_CHUNK_NS (1 * MRAIL_NS_PER_MS)
#define MRAIL_SCHED_CHUNK_LOW (64u << 10)
#define MRAIL_SCHED_CHUNK_MAX (1u << 20)
#define MRAIL_SCHED_CHUNK_MIN (16u << 10)
/* Chunk size for the only lane to a peer. With no other lane to share work
 * with, splitting costs time and only yields samples of the rail's rate
 * (telemetry/capacity.h), so there are few chunks. */
#define MRAIL_SCHED_CHUNK_ALONE (16u << 20)
#define MRAIL_SCHED_ALONE_NS (10 * MRAIL_NS_PER_MS)
/* An operation that is small for its lanes is split equally over all of them;
 * see mrail_sched_equal_split(). The larger limit applies to slow lanes, on
 * which the smallest chunk takes too long. */
#define MRAIL_SCHED_EQUAL_SPLIT_MAX (256u << 10)
#define MRAIL_SCHED_EQUAL_SPLIT_SLOW (1u << 20)
/* Lanes whose measured rates differ by at most this factor count as equally
 * fast. With port rules the factor is larger: all uplinks are meant to be
 * equal, and only equal parts load them equally. A difference beyond it
 * indicates a fault. */
#define MRAIL_SCHED_EQUAL_RATES 1.25
#define MRAIL_SCHED_EQUAL_RATES_RULES 2.0
/* Duration of the work in an automatic window. It bridges the time for which a
 * process is descheduled, and bounds the work that a stalled lane holds back. A
 * window has at least two chunks, more for a lane that ran dry, and at most
 * MRAIL_SCHED_WINDOW_MAX bytes. */
#define MRAIL_SCHED_WINDOW_NS (10 * MRAIL_NS_PER_MS)
#define MRAIL_SCHED_WINDOW_MAX (32u << 20)

/*
 * Reports a successful chunk that is large enough to measure; inflight and
 * since_ns already exclude it. A lane that ran dry could have carried more.
 * Since the time when it ran dry is unknown, its measured rate is too low, and
 * a window derived from this rate would let it run dry for longer each time.
 * The window therefore doubles until the lane is found busy again.
 */
static inline void mrail_sched_done(mrail_sched_lane_t *lane, size_t length,
                                    mrail_ns_t post_ns, mrail_ns_t now_ns)
{
    mrail_tele_window_add(&lane->meter, length, post_ns, now_ns);
    lane->refill = (lane->inflight == 0) ? 2 * lane->meter.sums.batch_bytes : 0;
}

/*
 * Returns the bytes of an equal part of an operation for each of `count` lanes,
 * or 0 if a lane cannot carry its part in one chunk. If many operations share a
 * rail, each of them is slow. If one lane finished early, the rest on another
 * lane would then take as long as the whole operation, whereas equal parts
 * finish together.
 */
static inline size_t mrail_sched_equal_split(size_t length, unsigned count)
{
    return (length <= (size_t)MRAIL_SCHED_EQUAL_SPLIT_SLOW * count)
               ? (length + count - 1) / count
               : 0;
}

/*
 * Picks one of lanes[0..count) for the next chunk of an operation. `limit` (>
 * 0) is the number of bytes of this operation that are not yet cut into chunks.
 * `queued` (>= limit) is the number of such bytes of all waiting operations;
 * without it, the end of one operation would look like the end of all work.
 * Returns the index and, in *segment_p, the size (1..limit). Returns -1 if the
 * caller must wait for a completion, which happens only if some lane has work
 * in flight, or no lane is usable.
 */
int mrail_sched_pick(mrail_sched_lane_t *const *lanes, unsigned count,
                     size_t limit, size_t queued,
                     const mrail_sched_params_t *params, mrail_ns_t now_ns,
                     size_t *segment_p);

/* Returns the usable lane that would finish an unsplit chunk of `length` bytes
 * first, or -1 if none is usable. The lowest index wins a tie. */
int mrail_sched_pick_whole(mrail_sched_lane_t *const *lanes, unsigned count,
                           size_t length);

#endif
