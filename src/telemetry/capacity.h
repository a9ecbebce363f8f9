/*
 * What one direction of a rail gives when it is kept busy: lowered when it carries
 * what others send, or degrades; raised again; forgotten.  Pure: times are
 * arguments.  Who feeds a flow serialises; mrail_tele_flow_live() is for any thread.
 *
 * A flow is told of each large chunk when it is posted and when it is seen
 * complete.  It measures only where the rail was the one that was waited for:
 *
 *   round      completions that were seen at one time
 *   stretch    from one round to the next; proven if a chunk that was under
 * way at its begin still is at its end (a process that comes late to look finds
 * nothing that proves when the rail ran dry), and if there is more under way
 * than latency explains run        proven stretches in a row window     runs of
 * 10 ms in all, over which a rate is taken
 *
 *        post post   round     round           round     (late)        round
 *   -----+----+------*---------*---------------*---...---------------*------
 *                    |<-- proven stretches -->||<-- unproven: all was back -->|
 *
 * A low rate may be a peer's: only windows in which several peers had work under
 * way all the time, or the one that has been seen to get more, lower the estimate
 * at once; any other only if nothing better was seen for a while.
 * Source: NIMBLE IV-A and V-E (capacities are live); the rules are ours.
 */
#ifndef MRAIL_TELEMETRY_CAPACITY_H
#define MRAIL_TELEMETRY_CAPACITY_H

#include "base/clock.h"
#include "base/util.h"

#include <stdint.h>

/* Chunks below this are not told of. */
#define MRAIL_TELE_LARGE 4096
#define MRAIL_TELE_WINDOW_NS (10 * MRAIL_NS_PER_MS)
/* A run shorter than this counts for nothing, ... */
#define MRAIL_TELE_RUN_NS (1 * MRAIL_NS_PER_MS)
/* ... and so does one with fewer chunks than this for each lane: of each
 * lane, a part of one chunk at either end is not known. */
#define MRAIL_TELE_RUN_CHUNKS 4
/* But the chunks of slow lanes may be long. */
#define MRAIL_TELE_RUN_LONG (100 * MRAIL_NS_PER_MS)
/* Runs that are further apart make no window. */
#define MRAIL_TELE_GAP_NS (250 * MRAIL_NS_PER_MS)
/* What is under way is work for less than this: it waits for answers, not for the
 * rail, which may have given more. */
#define MRAIL_TELE_QUEUE_NS (250 * MRAIL_NS_PER_US)
/* A post so soon after a round was there when the stretch began. */
#define MRAIL_TELE_EARLY_NS (200 * MRAIL_NS_PER_US)
/* Windows in a row, all low by more than an eighth, that lower the estimate. */
#define MRAIL_TELE_LOW_WINDOWS 3
/* ... if they may be a peer's fault: after so long. */
#define MRAIL_TELE_DOUBT_NS (250 * MRAIL_NS_PER_MS)
#define MRAIL_TELE_EXPIRE_NS (1 * MRAIL_NS_PER_SEC)

/* The estimate.  All zero: nothing is known. */
typedef struct mrail_tele_capacity {
    double live;        /* bytes per second */
    uint64_t who;       /* the peer that was last seen to get it; 0: several */
    mrail_ns_t last_ns; /* end of the last window */
    unsigned low;       /* windows in a row that were low */
    unsigned low_sure;  /* ... of them, by no fault of a peer */
    mrail_ns_t low_ns;  /* end of the first of them */
    double low_best;    /* the best of the others */
    uint64_t low_who;   /* ... and whose */
} mrail_tele_capacity_t;

typedef struct mrail_tele_sight {
    double rate;    /* bytes per second */
    int is_several; /* several peers had work under way all the time */
    uint64_t who;   /* the peer that all of it was for; 0: several */
} mrail_tele_sight_t;

/* A window has ended. */
void mrail_tele_capacity_add(mrail_tele_capacity_t *capacity,
                             const mrail_tele_sight_t *sight,
                             mrail_ns_t now_ns);

typedef struct mrail_tele_run {
    mrail_ns_t from_ns; /* 0: there is none */
    mrail_ns_t to_ns;
    uint64_t bytes;
    unsigned chunks;
    unsigned lanes; /* with work under way, at most */
    unsigned peers; /* ... at least */
    uint64_t who;   /* 0: for several */
} mrail_tele_run_t;

/* One direction of a rail.  All zero at first. */
typedef struct mrail_tele_flow {
    uint64_t posted; /* chunks ever */
    uint64_t done;
    uint64_t inflight; /* bytes */
    uint64_t moved;    /* bytes ever */
    uint64_t bytes;    /* of this round */
    uint64_t who;      /* for whom; 0: several */
    unsigned lanes;    /* with work under way, now */
    unsigned peers;
    unsigned least_peers;  /* since this round began */
    int is_full;           /* this round may not have seen all */
    mrail_ns_t round_ns;   /* time of this round */
    mrail_ns_t before_ns;  /* ... of the one before */
    uint64_t round_done;   /* `done` when it began */
    uint64_t early;        /* `posted` when it ended, or a little later */
    uint64_t early_before; /* ... of the one before */
    mrail_tele_run_t run;
    mrail_tele_run_t sum; /* of the window's earlier runs; times are lengths */
    mrail_ns_t sum_ns;    /* when something was last added */
    mrail_tele_capacity_t capacity;
    uint64_t shown;      /* atomic: bytes per second */
    mrail_ns_t shown_ns; /* atomic: when that was found */
} mrail_tele_flow_t;

/* A round begins: what can be said of the stretch before the last one. */
void mrail_tele_flow_round(mrail_tele_flow_t *flow, mrail_ns_t now_ns,
                           int is_full);

/* A chunk was posted: lane_count are those of its lane in this direction,
 * peer_count the lanes of its peer that have some, on this rail. */
static inline void mrail_tele_flow_post(mrail_tele_flow_t *flow,
                                        uint16_t *lane_count,
                                        uint16_t *peer_count, uint64_t bytes,
                                        mrail_ns_t now_ns)
{
    ++flow->posted;
    flow->inflight += bytes;
    if (now_ns <= flow->round_ns + MRAIL_TELE_EARLY_NS) {
        flow->early = flow->posted;
    }
    if ((*lane_count)++ == 0) {
        ++flow->lanes;
        flow->peers += ((*peer_count)++ == 0);
    }
}

/* It has come back; moved: its bytes, or 0 if it failed.  is_full: there may be
 * others that are complete, and were not looked at. */
static inline void mrail_tele_flow_done(mrail_tele_flow_t *flow,
                                        uint16_t *lane_count,
                                        uint16_t *peer_count, uint64_t bytes,
                                        uint64_t moved, uint64_t who,
                                        mrail_ns_t now_ns, int is_full)
{
    if (now_ns > flow->round_ns) {
        mrail_tele_flow_round(flow, now_ns, is_full);
    }
    if (who != flow->who) {
        flow->who = (flow->bytes == 0) ? who : 0;
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

/* Bytes per second; 0: nothing is known.  Any thread. */
uint64_t mrail_tele_flow_live(const mrail_tele_flow_t *flow, mrail_ns_t now_ns);

#endif
