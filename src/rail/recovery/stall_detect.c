/*
 * Stall detection and keepalive; docs/failover.md describes them. They are
 * needed because a path that loses packets raises no event, and the NIC's own
 * timers may take seconds. At every tick, the control thread checks the lanes
 * of peers that have outstanding work, but does not visit other peers.
 *
 * Work on a slow path takes longer than a tick. The expected time follows from
 * the measured rate of the lane. The path becomes suspect only after a multiple
 * of that time, which is also the time limit for answers to its probes.
 *
 * A process that only waits for messages does not send, so it would not detect
 * a failure. The process therefore sends a small READ to each peer to which it
 * has sent no request for KEEPALIVE_INTERVAL. The peer's NIC answers the READ
 * even if the process is computing, or is stopped in a debugger.
 */
#include "config.h"
#include "rail/recovery/recovery.h"

#include "rail/conn/conn.h"
#include "rail/data/am_ack.h"
#include "rail/data/visible.h"
#include "rail/state/signals.h"

#define STALL_STILL 3u /* ticks without a completion that make a path suspect */

#define STALL_STILL_MAX 96u

/* The rate of a lane may drop by this factor without a fault, because other
 * flows may have joined its path. */
#define STALL_SLOWER 4u

/* Time allowed for an answer on a lane whose rate has not been measured yet.
 * Its path may be congested. */
#define STALL_PATIENCE_NEW (100 * MRAIL_NS_PER_MS)

/* Ticks without a completion after which other lanes are checked. */
#define STALL_COMPARE 40u

/* Ticks without a completion after which a lane counts as stuck if other lanes
 * make progress. */
#define STALL_STUCK 48u

#define STALL_FRESH 8u /* ticks for which a completion counts as recent */

/* Time since the last suspicion that resets `stalls`. */
#define STALL_RESET_NS (1 * MRAIL_NS_PER_SEC)

#define STALL_CALM 8 /* ticks without work in flight that end the checks */
/* Maximum number of peers whose keepalive is checked in one call, and the time
 * until the next call if more are due. */
#define STALL_KEEP_BATCH 64
#define STALL_KEEP_PAUSE (1 * MRAIL_NS_PER_MS)

/* Sends a READ after messages that stay unacknowledged, and after small PUTs,
 * which keep their send buffers until a later request completes. Returns 1 if
 * the lane has messages that no READ had followed yet, or small PUTs. */
static MRAIL_DATA int mrail_stall_ping(mrail_lane_t *lane, mrail_ns_t now_ns)
{
    int is_unchanged = (lane->stall_am == lane->am.sent);

    lane->stall_am = lane->am.sent;
    if (!mrail_list_empty(&lane->puts)) {
        if (!lane->last_read) {
            (void)mrail_rma_post_read(lane, NULL, now_ns);
        }
        return 1;
    }
    if ((lane->am.inflight == 0) || (lane->pinged_am == lane->am.sent)) {
        return 0;
    }
    if (is_unchanged && !lane->last_read &&
        (mrail_rma_post_read(lane, NULL, now_ns) == 0)) {
        lane->pinged_am = lane->am.sent;
        /* Without a request, the receiver acknowledges only when half a window
         * is free. The last messages of a burst to each peer would then keep
         * their send buffers while the peer is idle. */
        mrail_am_request_ack(lane->peer);
    }
    return 1;
}

/* Accumulates stalled and idle time. A drop in throughput indicates a network
 * problem only while work is outstanding. */
static void mrail_stall_account(mrail_lane_t *lane, int moved,
                                mrail_ns_t elapsed_ns)
{
    if ((lane->sched.inflight == 0) && (lane->am.inflight == 0) &&
        mrail_list_empty(&lane->puts)) {
        lane->idle_ns += elapsed_ns;
    } else if ((lane->sched.inflight != 0) && !moved) {
        lane->stalled_ns += elapsed_ns;
    }
}

/* Posts READs on the peer's idle lanes, which otherwise have no completions to
 * compare with. */
static MRAIL_DATA void mrail_stall_probe_others(mrail_lane_t *lane,
                                                mrail_ns_t now_ns)
{
    mrail_for_each_lane(other, lane->peer) {
        if (mrail_lane_is(other, MRAIL_LANE_IN_USE) && !other->last_read &&
            (other->sched.inflight == 0)) {
            (void)mrail_rma_post_read(other, NULL, now_ns);
        }
    }
}

/* Returns the time that the lane needs for its work in flight at its measured
 * rate. All work on the rail may be ahead of it, because other lanes may just
 * have started. */
static mrail_ns_t mrail_stall_expected(const mrail_lane_t *lane)
{
    uint64_t rate = mrail_tele_window_rate(&lane->sched.meter);
    double own_s =
        (rate == 0) ? 0 : (double)lane->sched.inflight / (double)rate;
    double all_s = (double)lane->rail->inflight * 8 /
                   (double)MRAIL_MAX(lane->rail->speed_bps, 1ull);

    return (mrail_ns_t)(MRAIL_MAX(own_s, all_s) * MRAIL_NS_PER_SEC);
}

/* Returns the time allowed for an answer to a probe, which waits behind the
 * lane's work in flight. */
static mrail_ns_t mrail_stall_patience(const mrail_lane_t *lane)
{
    mrail_ns_t least_ns = (mrail_tele_window_rate(&lane->sched.meter) == 0)
                              ? STALL_PATIENCE_NEW
                              : 0;

    return MRAIL_MIN(MRAIL_MAX(mrail_stall_expected(lane), least_ns),
                     MRAIL_PATH_PATIENCE_MAX);
}

/* Returns the number of ticks without a completion that a slow lane may
 * explain. */
static unsigned mrail_stall_slow_ticks(const mrail_lane_t *lane)
{
    return (unsigned)MRAIL_MIN(STALL_SLOWER * mrail_stall_expected(lane) /
                                   MRAIL_STALL_TICK,
                               (mrail_ns_t)STALL_STILL_MAX);
}

/* Handles a lane that has had no completion for lane->still ticks. */
static MRAIL_BOTH void mrail_stall_still(mrail_lane_t *lane, mrail_ns_t now_ns)
{
    mrail_peer_t *peer = lane->peer;
    mrail_path_t *path = &peer->paths[lane->slot];

    if (lane->still == 1) {
        lane->still_limit = MRAIL_MIN(MRAIL_MAX(mrail_stall_slow_ticks(lane),
                                                STALL_STILL << path->stalls),
                                      STALL_STILL_MAX);
    }
    if ((lane->still % STALL_STILL_MAX) == STALL_COMPARE) {
        mrail_stall_probe_others(lane, now_ns);
    }
    if ((lane->still >=
         MRAIL_MAX(STALL_STUCK, 2 * mrail_stall_slow_ticks(lane))) &&
        (now_ns <= peer->moved_ns + STALL_FRESH * MRAIL_STALL_TICK)) {
        mrail_path_event(peer, lane->slot, MRAIL_HEALTH_QP_STUCK, now_ns);
    } else if ((lane->still == lane->still_limit) ||
               ((lane->still % STALL_STILL_MAX) == 0)) {
        /* A slow path that answers has more time after each suspicion. */
        path->stalls += ((STALL_STILL << path->stalls) < STALL_STILL_MAX);
        path->stall_ns = now_ns;
        path->patience_ns = mrail_stall_patience(lane);
        lane->still_limit =
            MRAIL_MAX(lane->still_limit, STALL_STILL << path->stalls);
        mrail_path_event(peer, lane->slot, MRAIL_HEALTH_STALLED, now_ns);
    }
}

/* Checks one lane. Returns 1 if it has work in flight. */
static MRAIL_BOTH int mrail_stall_lane(mrail_lane_t *lane, mrail_ns_t now_ns,
                                       mrail_ns_t elapsed_ns)
{
    mrail_path_t *path = &lane->peer->paths[lane->slot];
    int moved = (lane->stall_done != lane->sq_done);

    mrail_stall_account(lane, moved, elapsed_ns);

    lane->stall_done = lane->sq_done;
    if (moved) {
        lane->peer->moved_ns = now_ns;
        mrail_paths_rail_alive(lane->rail, now_ns);
        if (now_ns >= path->stall_ns + STALL_RESET_NS) {
            path->stalls = 0;
            path->patience_ns = 0;
        }
    }
    if (moved && (lane->still != 0)) {
        mrail_path_event(lane->peer, lane->slot, MRAIL_HEALTH_PROGRESS, now_ns);
    }
    if (lane->sched.inflight == 0) {
        lane->still = 0;
        return mrail_stall_ping(lane, now_ns);
    }
    lane->still = moved ? 0 : lane->still + 1;
    if (lane->still != 0) {
        mrail_stall_still(lane, now_ns);
    }
    return 1;
}

static MRAIL_BOTH int mrail_stall_peer(mrail_peer_t *peer, mrail_ns_t now_ns,
                                       mrail_ns_t elapsed_ns)
{
    int busy = 0;

    mrail_for_each_lane(lane, peer) {
        if (mrail_lane_is(lane, MRAIL_LANE_IN_USE)) {
            busy |= mrail_stall_lane(lane, now_ns, elapsed_ns);
        } else { /* a validation has its own time limit */
            busy |= mrail_lane_is(lane, MRAIL_LANE_CONNECTED) &&
                    !mrail_lane_is(lane, MRAIL_LANE_OUT);
        }
    }
    return busy;
}

static mrail_lane_t *mrail_stall_idle_lane(const mrail_peer_t *peer)
{
    mrail_for_each_lane(lane, peer) {
        if (mrail_lane_is(lane, MRAIL_LANE_IN_USE) && !lane->last_read &&
            !mrail_lane_is(lane, MRAIL_LANE_NO_WORK) &&
            (peer->paths[lane->slot].health.state == MRAIL_HEALTH_UP)) {
            return lane;
        }
    }
    return NULL;
}

static uint64_t mrail_stall_posted(const mrail_peer_t *peer)
{
    uint64_t posted = 0;

    mrail_for_each_lane(lane, peer) {
        posted += lane->sq_posted;
    }
    return posted;
}

static MRAIL_DATA void mrail_stall_keep_peer(mrail_peer_t *peer,
                                             mrail_ns_t now_ns)
{
    mrail_lane_t *lane = mrail_stall_idle_lane(peer);

    if ((peer->state == MRAIL_PEER_KNOWN) && !peer->dead && (lane != NULL) &&
        (mrail_stall_posted(peer) == peer->kept_posted) &&
        (mrail_rma_post_read(lane, NULL, now_ns) == 0)) {
        mrail_stall_wake(peer);
    }
    peer->kept_posted = mrail_stall_posted(peer);
}

mrail_ns_t mrail_stall_keepalive(mrail_engine_t *engine, mrail_ns_t now_ns)
{
    mrail_peer_t *peer;

    for (unsigned i = 0; i < STALL_KEEP_BATCH; ++i) {
        if (mrail_list_empty(&engine->keepalives)) {
            return mrail_peer_next_keepalive(engine, now_ns);
        }
        peer = mrail_list_head(&engine->keepalives, mrail_peer_t, keepalive);
        if (now_ns < peer->keepalive_ns) {
            return peer->keepalive_ns;
        }
        mrail_stall_keep_peer(peer, now_ns);
        peer->keepalive_ns = mrail_peer_next_keepalive(engine, now_ns);
        mrail_list_del(&peer->keepalive);
        mrail_list_add_tail(&engine->keepalives, &peer->keepalive);
    }
    return now_ns + STALL_KEEP_PAUSE;
}

/* Checks the peer's lanes. Returns 1 if they need no further checks. */
static MRAIL_BOTH int mrail_stall_tick_peer(mrail_peer_t *peer,
                                            mrail_ns_t now_ns)
{
    mrail_ns_t elapsed_ns = (peer->stall_ns != 0) ? now_ns - peer->stall_ns : 0;

    if ((peer->state != MRAIL_PEER_KNOWN) || peer->dead) {
        return 1;
    }
    peer->stall_ns = now_ns;
    if (mrail_stall_peer(peer, now_ns, elapsed_ns)) {
        peer->quiescent_ticks = 0;
    } else {
        ++peer->quiescent_ticks;
    }
    if (mrail_move_tick(peer, now_ns)) {
        peer->quiescent_ticks = 0;
    }
    return peer->quiescent_ticks == STALL_CALM;
}

void mrail_stall_tick(mrail_engine_t *engine, mrail_ns_t now_ns)
{
    mrail_peer_t *peer, *tmp;

    mrail_list_for_each_safe(peer, tmp, &engine->stalling, mrail_peer_t,
                             stalling) {
        if (mrail_stall_tick_peer(peer, now_ns)) {
            mrail_list_del(&peer->stalling);
            peer->stall_checking = 0;
        }
    }
    __atomic_store_n(&engine->stall_checking,
                     !mrail_list_empty(&engine->stalling), __ATOMIC_RELAXED);
}
