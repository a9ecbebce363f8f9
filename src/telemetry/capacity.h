/*
 * Measures the live bandwidth of one direction of a rail. The estimate falls
 * when the rail degrades or carries other traffic, rises when a higher rate is
 * observed, and expires without samples. The caller passes in the time and
 * serialises the updates of a flow; any thread may call mrail_tele_flow_live().
 *
 * Each large chunk is reported when it is posted and when its completion is
 * seen. Only intervals in which the rail was the bottleneck are measured:
 *
 *   poll       a poll of the CQ that returned completions
 *   interval   from one poll to the next. It is saturated if a chunk in flight
 *              at its start is still in flight at its end, and if more is in
 *              flight than latency explains. (A late poll that finds all chunks
 *              complete cannot tell when the rail became idle.)
 *   run        consecutive saturated intervals
 *   window     runs of 10 ms in total, over which a rate is computed
 *
 *        post post   poll      poll            poll      (late)        poll
 *   -----+----+------*---------*---------------*---...---------------*------
 *                    |<- saturated intervals ->||<- not saturated: all done ->|
 *
 * A low rate may be caused by the peers, for example near the end of an
 * exchange, when few peers still have work. A low window is attributed to the
 * rail itself only in two cases. In the first, several peers had work in flight
 * throughout, and no fewer than in the last window that was not low. In the
 * second, a single peer had work in flight, and it was also the only one in
 * that last window. MRAIL_TELE_LOW_WINDOWS such windows lower the estimate
 * immediately. Other low windows lower it only if no higher sample arrives for
 * MRAIL_TELE_CONFIRM_NS. Source: [NIMBLE] IV-A and V-E (live capacities); the
 * rules are mrail's own.
 *
 * A rail that is so slow that it gets one chunk at a time has no saturated
 * interval. mrail_tele_busy_t therefore sums the bytes of completed chunks and
 * the time with a chunk in flight, for each direction of a rail. These counters
 * never decrease. Their quotient is the rate while work was outstanding. It
 * includes latency, so it is a measure of the rail only if the chunks take
 * longer than MRAIL_TELE_QUEUE_NS on average.
 */
#ifndef MRAIL_TELEMETRY_CAPACITY_H
#define MRAIL_TELEMETRY_CAPACITY_H

#include "base/clock.h"
#include "base/util.h"

#include <stdint.h>

/* Minimum size of a measured chunk, in bytes. */
#define MRAIL_TELE_LARGE 4096
#define MRAIL_TELE_WINDOW_NS (10 * MRAIL_NS_PER_MS)
/* Shorter runs are discarded. */
#define MRAIL_TELE_RUN_NS (1 * MRAIL_NS_PER_MS)
/* Runs with fewer chunks per lane are discarded, because the bytes of one chunk
 * per lane are uncertain at each end of a run. */
#define MRAIL_TELE_RUN_CHUNKS 4
/* Slow lanes take long to complete a chunk. After this time, a run needs fewer
 * chunks. */
#define MRAIL_TELE_RUN_LONG (100 * MRAIL_NS_PER_MS)
/* Runs that are further apart than this do not form a window. */
#define MRAIL_TELE_GAP_NS (250 * MRAIL_NS_PER_MS)
/* If the data in flight takes less than this to drain at the rate of the run,
 * the bottleneck is latency, not the rail. */
#define MRAIL_TELE_QUEUE_NS (250 * MRAIL_NS_PER_US)
/* A chunk posted this soon after a poll counts as in flight when the poll
 * starts. */
#define MRAIL_TELE_EARLY_NS (200 * MRAIL_NS_PER_US)
/* This many consecutive windows lower the estimate if each is lower by more
 * than 1/8. */
#define MRAIL_TELE_LOW_WINDOWS 3
/* If a peer may be the cause of low windows, they must last this long. */
#define MRAIL_TELE_CONFIRM_NS (250 * MRAIL_NS_PER_MS)
/* A busy time that ends with an idle rail is known well enough after this many
 * polls. */
#define MRAIL_TELE_BUSY_POLLS 8
#define MRAIL_TELE_EXPIRE_NS (1 * MRAIL_NS_PER_SEC)

/* The estimate. All zero means unknown. */
typedef struct mrail_tele_capacity {
    double live;        /* bytes per second */
    uint64_t peer;      /* peer of the last sample that was not low; 0 if there
                         * were several peers */
    unsigned peers;     /* number of peers in flight during that sample */
    mrail_ns_t last_ns; /* end of the last window */
    unsigned low;       /* consecutive low windows */
    unsigned low_sure;  /* low windows that are attributed to the rail itself */
    mrail_ns_t low_ns;  /* end of the first low window */
    double low_best;    /* highest rate among the low windows after the first */
    uint64_t low_peer;  /* peer of low_best, and number of peers */
    unsigned low_peers;
} mrail_tele_capacity_t;

typedef struct mrail_tele_rate_sample {
    double rate;    /* bytes per second */
    unsigned peers; /* number of peers with work in flight the whole time */
    uint64_t peer;  /* the only peer with work in flight; 0 if several */
} mrail_tele_rate_sample_t;

/* Adds a completed window. */
void mrail_tele_capacity_add(mrail_tele_capacity_t *capacity,
                             const mrail_tele_rate_sample_t *sample,
                             mrail_ns_t now_ns);

typedef struct mrail_tele_run {
    mrail_ns_t from_ns; /* 0 if no run is open */
    mrail_ns_t to_ns;
    uint64_t bytes;
    unsigned chunks;
    unsigned lanes; /* maximum number of lanes with work in flight */
    unsigned peers; /* minimum number of peers with work in flight */
    uint64_t peer;  /* the only peer; 0 if several */
} mrail_tele_run_t;

/* One direction of a rail. Initially all zero. */
typedef struct mrail_tele_flow {
    uint64_t posted; /* total number of chunks */
    uint64_t done;
    uint64_t inflight; /* bytes */
    uint64_t moved;    /* total bytes */
    uint64_t bytes;    /* bytes completed in this poll */
    uint64_t peer;     /* the only peer; 0 if several */
    unsigned lanes;    /* number of lanes with work in flight now */
    unsigned peers;
    unsigned least_peers; /* minimum of `peers` since the start of this poll */
    /* 1 if the poll was full, so more completions may be waiting */
    int is_full;
    mrail_ns_t poll_ns;   /* time of this poll */
    mrail_ns_t before_ns; /* time of the previous poll */
    uint64_t poll_done;   /* `done` at the start of the poll */
    /* value of `posted` at the end of the poll, or slightly later */
    uint64_t early;
    uint64_t early_before; /* value of `early` in the previous poll */
    mrail_tele_run_t run;
    mrail_tele_run_t sum; /* earlier runs of the window; times are durations */
    mrail_ns_t sum_ns;    /* time of the last addition */
    mrail_tele_capacity_t capacity;
    uint64_t shown;      /* atomic: bytes per second */
    mrail_ns_t shown_ns; /* atomic: time of the last update of `shown` */
} mrail_tele_flow_t;

/* Starts a poll, and classifies the interval that ended with the previous
 * poll. */
void mrail_tele_flow_poll(mrail_tele_flow_t *flow, mrail_ns_t now_ns,
                          int is_full);

/* Reports a posted chunk. lane_count is the number of chunks in flight on its
 * lane in this direction. peer_count is the number of its peer's lanes with
 * chunks in flight on this rail. */
static inline void mrail_tele_flow_post(mrail_tele_flow_t *flow,
                                        uint16_t *lane_count,
                                        uint16_t *peer_count, uint64_t bytes,
                                        mrail_ns_t now_ns)
{
    ++flow->posted;
    flow->inflight += bytes;
    if (now_ns <= flow->poll_ns + MRAIL_TELE_EARLY_NS) {
        flow->early = flow->posted;
    }
    if ((*lane_count)++ == 0) {
        ++flow->lanes;
        flow->peers += ((*peer_count)++ == 0);
    }
}

/* Reports a completed chunk. `moved` is its number of bytes, or 0 if it failed.
 * is_full: the CQ may contain further completions. */
static inline void mrail_tele_flow_done(mrail_tele_flow_t *flow,
                                        uint16_t *lane_count,
                                        uint16_t *peer_count, uint64_t bytes,
                                        uint64_t moved, uint64_t peer,
                                        mrail_ns_t now_ns, int is_full)
{
    if (now_ns > flow->poll_ns) {
        mrail_tele_flow_poll(flow, now_ns, is_full);
    }
    if (peer != flow->peer) {
        flow->peer = (flow->bytes == 0) ? peer : 0;
    }
    ++flow->done;
    flow->inflight -= bytes;
    flow->bytes += moved;
    flow->moved += moved;
    if (--*lane_count == 0) {
        --flow->lanes;
        if (--*peer_count == 0) {
            --flow->peers;
            flow->least_peers = MRAIL_MIN(flow->least_peers, flow->peers);
        }
    }
}

/* Returns the estimate in bytes per second, or 0 if it is unknown. Any thread
 * may call it. */
uint64_t mrail_tele_flow_live(const mrail_tele_flow_t *flow, mrail_ns_t now_ns);

/* Sums over completed chunks. */
typedef struct mrail_tele_work {
    uint64_t bytes;
    uint64_t busy_ns; /* time with at least one chunk in flight */
    uint64_t chunks;
    uint64_t chunk_ns; /* times from post to completion */
} mrail_tele_work_t;

/* The busy time of one direction of a rail. Initially all zero. The caller
 * serialises all functions. */
typedef struct mrail_tele_busy {
    uint64_t inflight;      /* number of chunks */
    mrail_ns_t from_ns;     /* start of the busy time that is not yet counted */
    unsigned from_polls;    /* polls of the CQ until then */
    unsigned polls;         /* polls of the CQ during the last busy time */
    mrail_ns_t poll_ns;     /* time of the last poll with chunks */
    mrail_tele_work_t poll; /* work of the last poll, not yet part of `total` */
    mrail_tele_work_t total;
} mrail_tele_busy_t;

/* Returns 1 if the work of the last poll counts. Two polls do not count. Failed
 * chunks carry nothing, and wait for timeouts. A late poll that finds all
 * chunks complete cannot tell when the rail became idle. */
static inline int mrail_tele_busy_counts(const mrail_tele_busy_t *busy)
{
    return (busy->poll.bytes != 0) &&
           ((busy->inflight != 0) || (busy->polls >= MRAIL_TELE_BUSY_POLLS) ||
            (busy->poll.busy_ns <= MRAIL_TELE_QUEUE_NS));
}

static inline void mrail_tele_work_add(mrail_tele_work_t *sum,
                                       const mrail_tele_work_t *work)
{
    sum->bytes += work->bytes;
    sum->busy_ns += work->busy_ns;
    sum->chunks += work->chunks;
    sum->chunk_ns += work->chunk_ns;
}

static inline void mrail_tele_busy_settle(mrail_tele_busy_t *busy)
{
    if (mrail_tele_busy_counts(busy)) {
        mrail_tele_work_add(&busy->total, &busy->poll);
    }
    busy->poll = (mrail_tele_work_t){0};
}

/* Reports a posted chunk. `polls` is the number of polls of the CQ so far, and
 * may wrap around. */
static inline void mrail_tele_busy_post(mrail_tele_busy_t *busy,
                                        mrail_ns_t now_ns, unsigned polls)
{
    if (busy->inflight == 0) {
        mrail_tele_busy_settle(busy);
        busy->from_ns = now_ns;
        busy->from_polls = polls;
    }
    ++busy->inflight;
}

/* Reports a completed chunk that was posted at post_ns. `moved` is its number
 * of bytes, or 0 if it failed. */
static inline void mrail_tele_busy_done(mrail_tele_busy_t *busy, uint64_t moved,
                                        mrail_ns_t post_ns, mrail_ns_t now_ns,
                                        unsigned polls)
{
    if (now_ns != busy->poll_ns) {
        mrail_tele_busy_settle(busy);
        busy->poll_ns = now_ns;
        busy->poll.busy_ns =
            (now_ns > busy->from_ns) ? now_ns - busy->from_ns : 0;
        busy->polls = polls - busy->from_polls;
        busy->from_ns = now_ns;
        busy->from_polls = polls;
    }
    --busy->inflight;
    if (moved != 0) {
        busy->poll.bytes += moved;
        ++busy->poll.chunks;
        busy->poll.chunk_ns += (now_ns > post_ns) ? now_ns - post_ns : 0;
    }
}

/* Returns the counters. While chunks are in flight, they lack the time since
 * the last poll. */
mrail_tele_work_t mrail_tele_busy_read(const mrail_tele_busy_t *busy);

#endif
