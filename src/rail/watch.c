/*
 * Looks now and then whether what was sent comes back: a path that swallows
 * packets makes no event, and the NIC's own timers may take seconds.
 *
 * While anything is under way, the service thread looks every tick.  Reads
 * and writes have completions of their own; behind messages, whose sends have
 * none, one small READ is sent when they have not been acknowledged for a tick.
 * A lane on which something is under way and nothing has come back for a while
 * is STALLED, an event for its path (paths.c), which then has to answer.  If it
 * does, by a datagram, the lane is slow, or its QP gets no answers: if nothing has
 * come back for long, and something has on other lanes to the peer, which get a
 * READ if there is nothing to do for them, it is STUCK.
 *
 * Who only waits sends nothing: to a peer to which nothing was sent for KEEPALIVE
 * seconds goes one small READ.  A READ, since a NIC answers it for a process that
 * computes, or that a debugger has stopped.
 *
 * Inside the guard, with the control lock.
 */
#include "config.h"
#include "rail/ctl.h"

#define WATCH_STILL 3u   /* ticks without a completion that are suspicious */
#define WATCH_STILL_MAX 96u
#define WATCH_ASK 40u   /* ... after which other lanes are asked, */
#define WATCH_STUCK 48u /* ... and the lane is stuck, if they answer */
#define WATCH_FRESH 8u  /* they have moved within so many */
#define WATCH_FORGET (1 * MRAIL_NS_PER_SEC) /* since the last suspicion */
#define WATCH_CALM 8    /* ticks with nothing under way that end the watch */

/* Messages that may be at the peer, or nowhere: 1 if there are some. */
static int mrail_watch_ping(mrail_lane_t *lane, mrail_ns_t now_ns)
{
    int quiet = (lane->watch_am == lane->am_sent);

    lane->watch_am = lane->am_sent;
    if ((lane->am_inflight == 0) || (lane->pinged_am == lane->am_sent)) {
        return 0;
    }
    if (quiet && !lane->last_read &&
        (mrail_rma_post_read(lane, NULL, now_ns) == 0)) {
        lane->pinged_am = lane->am_sent;
    }
    return 1;
}

/* A drop in throughput is the network's only if something was outstanding. */
static void mrail_watch_account(mrail_lane_t *lane, int moved,
                                mrail_ns_t elapsed_ns)
{
    if ((lane->sched.inflight == 0) && (lane->am_inflight == 0)) {
        lane->idle_ns += elapsed_ns;
    } else if ((lane->sched.inflight != 0) && !moved) {
        lane->stalled_ns += elapsed_ns;
    }
}

static int mrail_watch_is_usable(const mrail_lane_t *lane)
{
    return (lane != NULL) && (lane->state == MRAIL_LANE_UP) && !lane->out &&
           (lane->trial == MRAIL_TRIAL_NONE);
}

/* Lanes with nothing to do do not move. */
static void mrail_watch_ask_others(mrail_lane_t *lane, mrail_ns_t now_ns)
{
    mrail_peer_t *peer = lane->peer;

    for (unsigned slot = 0; slot < MRAIL_MAX_SLOTS; ++slot) {
        mrail_lane_t *other = peer->lanes[slot];

        if (mrail_watch_is_usable(other) && !other->last_read &&
            (other->sched.inflight == 0)) {
            (void)mrail_rma_post_read(other, NULL, now_ns);
        }
    }
}

/* It has stood still for lane->still ticks. */
static void mrail_watch_still(mrail_lane_t *lane, mrail_ns_t now_ns)
{
    mrail_peer_t *peer = lane->peer;
    mrail_path_t *path = &peer->paths[lane->slot];

    if ((lane->still % WATCH_STILL_MAX) == WATCH_ASK) {
        mrail_watch_ask_others(lane, now_ns);
    }
    if ((lane->still >= WATCH_STUCK) &&
        (now_ns <= peer->moved_ns + WATCH_FRESH * MRAIL_WATCH_TICK)) {
        mrail_path_event(peer, lane->slot, MRAIL_HEALTH_STUCK, now_ns);
    } else if ((lane->still == (WATCH_STILL << path->stalls)) ||
               ((lane->still % WATCH_STILL_MAX) == 0)) {
        /* One that is slow, not dead, is given more time at each. */
        path->stalls += ((WATCH_STILL << path->stalls) < WATCH_STILL_MAX);
        path->stall_ns = now_ns;
        mrail_path_event(peer, lane->slot, MRAIL_HEALTH_STALLED, now_ns);
    }
}

/* 1 if anything is under way. */
static int mrail_watch_lane(mrail_lane_t *lane, mrail_ns_t now_ns,
                            mrail_ns_t elapsed_ns)
{
    mrail_path_t *path = &lane->peer->paths[lane->slot];
    int moved = (lane->watch_done != lane->sq_done);

    if (lane->trial != MRAIL_TRIAL_NONE) {
        return 1; /* it has a time limit of its own */
    }
    mrail_watch_account(lane, moved, elapsed_ns);

    lane->watch_done = lane->sq_done;
    if (moved) {
        lane->peer->moved_ns = now_ns;
        if (now_ns >= path->stall_ns + WATCH_FORGET) {
            path->stalls = 0;
        }
    }
    if (moved && (lane->still != 0)) {
        mrail_path_event(lane->peer, lane->slot, MRAIL_HEALTH_MOVED, now_ns);
    }
    if (lane->sched.inflight == 0) {
        lane->still = 0;
        return mrail_watch_ping(lane, now_ns);
    }
    lane->still = moved ? 0 : lane->still + 1;
    if (lane->still != 0) {
        mrail_watch_still(lane, now_ns);
    }
    return 1;
}

static int mrail_watch_peer(mrail_peer_t *peer, mrail_ns_t now_ns,
                            mrail_ns_t elapsed_ns)
{
    int busy = 0;

    for (unsigned slot = 0; slot < MRAIL_MAX_SLOTS; ++slot) {
        mrail_lane_t *lane = peer->lanes[slot];

        if ((lane != NULL) && (lane->state == MRAIL_LANE_UP) && !lane->out) {
            busy |= mrail_watch_lane(lane, now_ns, elapsed_ns);
        }
    }
    return busy;
}

static mrail_lane_t *mrail_watch_idle_lane(const mrail_peer_t *peer)
{
    for (unsigned slot = 0; slot < MRAIL_MAX_SLOTS; ++slot) {
        mrail_lane_t *lane = peer->lanes[slot];

        if (mrail_watch_is_usable(lane) && !lane->leaving && !lane->last_read &&
            (peer->paths[slot].health.state == MRAIL_HEALTH_UP)) {
            return lane;
        }
    }
    return NULL;
}

static uint64_t mrail_watch_posted(const mrail_peer_t *peer)
{
    uint64_t posted = 0;

    for (unsigned slot = 0; slot < MRAIL_MAX_SLOTS; ++slot) {
        posted += (peer->lanes[slot] != NULL) ? peer->lanes[slot]->sq_posted
                                              : 0;
    }
    return posted;
}

void mrail_watch_keepalive(mrail_engine_t *engine, mrail_ns_t now_ns)
{
    mrail_peer_t *peer;

    for (unsigned i = 0; i < MRAIL_BUCKETS; ++i) {
        mrail_list_for_each(peer, &engine->buckets[i], mrail_peer_t, list) {
            uint64_t posted = mrail_watch_posted(peer);
            mrail_lane_t *lane = mrail_watch_idle_lane(peer);

            if ((peer->state == MRAIL_PEER_KNOWN) && !peer->dead &&
                (posted == peer->kept_posted) && (lane != NULL) &&
                (mrail_rma_post_read(lane, NULL, now_ns) == 0)) {
                mrail_watch_wake(engine);
            }
            peer->kept_posted = mrail_watch_posted(peer);
        }
    }
}

void mrail_watch_begin(mrail_engine_t *engine)
{
    __atomic_store_n(&engine->watching, 1, __ATOMIC_RELAXED);
    mrail_service_wake(engine);
}

void mrail_watch_tick(mrail_engine_t *engine, mrail_ns_t now_ns)
{
    mrail_ns_t elapsed_ns =
        (engine->watch_ns != 0) ? now_ns - engine->watch_ns : 0;
    mrail_peer_t *peer;
    int busy = 0;

    for (unsigned i = 0; i < MRAIL_BUCKETS; ++i) {
        mrail_list_for_each(peer, &engine->buckets[i], mrail_peer_t, list) {
            if ((peer->state == MRAIL_PEER_KNOWN) && !peer->dead) {
                busy |= mrail_watch_peer(peer, now_ns, elapsed_ns);
            }
        }
    }
    engine->watch_ns = now_ns;
    engine->calm_ticks = busy ? 0 : engine->calm_ticks + 1;
    if (engine->calm_ticks == WATCH_CALM) {
        engine->calm_ticks = 0;
        engine->watch_ns = 0; /* nobody looks for a while */
        __atomic_store_n(&engine->watching, 0, __ATOMIC_RELAXED);
    }
}
