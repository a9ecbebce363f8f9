/*
 * Runs the control protocol: decides which message a peer or a lane sends next,
 * and when. lane_request.c requests lanes, ctl_send.c builds messages, and
 * ctl_recv.c handles received ones. All of this code runs under the control
 * lock, mostly on the control thread.
 *
 * The sender repeats each request until the answer arrives, so requests are
 * idempotent. If two peers request the same lane at the same time, the peer
 * with the lower id becomes the initiator.
 */
#include "config.h"
#include "rail/conn/conn.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

/* Repeats after which a silent peer no longer keeps other peers from
 * connecting. */
#define MRAIL_CTL_SILENT 3

/* Time limit for sending BYE, for all peers together. */
#define MRAIL_CTL_BYE_LIMIT (100 * MRAIL_NS_PER_MS)

/* Interval of EVICTs if the peer has not answered the first of them. */
#define MRAIL_CTL_SLOW (5 * MRAIL_NS_PER_SEC)

/* Returns the number of repeats that fill the peer timeout. */
static unsigned mrail_ctl_repeats(const mrail_peer_t *peer)
{
    return (unsigned)(mrail_ctl_peer_timeout(peer) / MRAIL_CTL_RTO_MAX) + 5;
}

static unsigned mrail_ctl_tries(const mrail_peer_t *peer)
{
    return MRAIL_MAX((unsigned)MRAIL_CTL_TRIES, mrail_ctl_repeats(peer));
}

/* Fails the peer if no lane for messages has been usable for too long. A lane
 * whose path is not up counts as unusable, because its requests may wait for
 * the NIC's timers forever (rdma_rxe with the link down). If there is no lane
 * at all, requests a lane on every pair of rails whose path works now or
 * later. */
static MRAIL_CTL mrail_ns_t mrail_ctl_run_unreachable(mrail_peer_t *peer,
                                                      mrail_ns_t now_ns)
{
    int held = 0;

    for (unsigned slot = 0; slot < peer->slot_limit; ++slot) {
        if (!mrail_peer_lane_is(peer, slot, MRAIL_LANE_IN_USE) ||
            (peer->lanes[slot]->am.window == 0)) {
            continue;
        }
        if (peer->paths[slot].health.state == MRAIL_HEALTH_UP) {
            peer->unreachable_ns = 0;
            return MRAIL_NS_NEVER;
        }
        held = 1;
    }
    if (!peer->based && (peer->requested_slots == 0)) {
        return MRAIL_NS_NEVER;
    }
    if (!held && peer->based) {
        peer->requested_slots =
            MRAIL_MAX(peer->requested_slots, peer->num_pairs);
    }
    if (peer->unreachable_ns == 0) {
        peer->unreachable_ns = now_ns;
    }
    if (now_ns >= peer->unreachable_ns + mrail_ctl_peer_timeout(peer)) {
        mrail_ctl_give_up(peer);
        return MRAIL_NS_NEVER;
    }
    return peer->unreachable_ns + mrail_ctl_peer_timeout(peer);
}

/* Fails a peer that has not closed its end of a failed lane in time. */
static MRAIL_CTL mrail_ns_t mrail_ctl_run_unconfirmed(mrail_lane_t *lane)
{
    mrail_error("peer %016llx has not answered on any rail since %s:%u failed: "
                "its process has exited, or no path leads to it",
                (unsigned long long)lane->peer->id, lane->rail->attr.device,
                lane->rail->attr.port);
    mrail_ctl_peer_failed(lane->peer, -ETIMEDOUT);
    return MRAIL_NS_NEVER;
}

/* Handles a requested lane without an answer, or a granted lane without
 * LANE_READY. */
static MRAIL_CTL mrail_ns_t mrail_ctl_run_unanswered(mrail_lane_t *lane)
{
    int is_first = mrail_ctl_is_first(lane->peer, lane->slot);

    if ((lane->state == MRAIL_LANE_ACCEPTING) && is_first) {
        mrail_ctl_peer_failed(lane->peer, -ETIMEDOUT); /* no other lane leads
                                                        * to the peer */
    } else if (lane->state == MRAIL_LANE_ACCEPTING) {
        /* If the request was a late repeat of a refused request, the peer does
         * not have the lane. The answer to EVICT shows whether it does. */
        mrail_lane_event(lane, MRAIL_LANE_EV_NO_READY, "no answer");
    } else if (is_first) {
        mrail_ctl_give_up(lane->peer);
    } else {
        mrail_ctl_not_granted(lane, MRAIL_REASON_RESOURCES, "no answer");
    }
    return MRAIL_NS_NEVER;
}

/* Sends a HELLO before each repeat of the first lane request, because a peer
 * that missed the answer to its own HELLO ignores lane requests. A repeat that
 * waits for a send buffer is not preceded by a second HELLO, which would use up
 * more buffers. Returns 0 or -errno. */
static MRAIL_CTL int mrail_ctl_greet(mrail_lane_t *lane)
{
    int ret;

    if (lane->peer->based || (lane->state != MRAIL_LANE_CONNECTING) ||
        (lane->tries == 0) || lane->greeted) {
        return 0;
    }
    ret = mrail_ctl_send_hello(lane->peer, lane->tries);
    lane->greeted = (ret != -EAGAIN);
    return ret;
}

/* Returns the time until the next repeat. A busy peer may take a long time to
 * answer EVICT, but its control thread shows that it is alive. If that thread
 * is silent as well, the peer fails, which frees the QP. */
static MRAIL_CTL mrail_ns_t mrail_ctl_lane_rto(mrail_lane_t *lane)
{
    if ((lane->state == MRAIL_LANE_EVICTING) &&
        (lane->tries >= mrail_ctl_tries(lane->peer))) {
        mrail_ctl_probe(lane->peer);
        return MRAIL_CTL_SLOW;
    }
    return mrail_ctl_rto(lane->tries);
}

/* Sends due messages of one lane. Returns its next deadline. */
static MRAIL_CTL mrail_ns_t mrail_ctl_run_lane(mrail_lane_t *lane,
                                               mrail_ns_t now_ns)
{
    static const mrail_ctl_type_t messages[MRAIL_LANE_STATES] = {
        [MRAIL_LANE_CONNECTING] = MRAIL_CTL_LANE_REQ,
        [MRAIL_LANE_ACCEPTING] = MRAIL_CTL_LANE_REP,
        [MRAIL_LANE_EVICTING] = MRAIL_CTL_EVICT,
        [MRAIL_LANE_CLOSING] = MRAIL_CTL_FAIL,
        [MRAIL_LANE_CLOSED] = MRAIL_CTL_FAIL,
    };
    mrail_peer_t *peer = lane->peer;

    if (!mrail_lane_is(lane, MRAIL_LANE_WAITS)) {
        return (lane->move.end_ns != 0) ? mrail_move_run(lane, now_ns)
                                        : MRAIL_NS_NEVER;
    }
    if (mrail_lane_is(lane, MRAIL_LANE_CLOSES) &&
        (now_ns >= lane->close_ns + mrail_ctl_peer_timeout(peer))) {
        return mrail_ctl_run_unconfirmed(lane);
    }
    if (now_ns < lane->deadline_ns) {
        return lane->deadline_ns;
    }
    if (mrail_lane_is(lane, MRAIL_LANE_LEADS) &&
        (lane->tries >= mrail_ctl_tries(peer))) {
        return mrail_ctl_run_unanswered(lane);
    }
    if ((mrail_ctl_greet(lane) == -EAGAIN) ||
        (mrail_ctl_send_lane(lane, messages[lane->state]) == -EAGAIN)) {
        return mrail_ctl_await_buffer(peer);
    }
    lane->greeted = 0;
    if (lane->tries == MRAIL_CTL_SILENT) {
        mrail_ctl_connected(peer);
    }
    peer->engine->counters.ctl_resent += (lane->tries != 0);
    lane->deadline_ns = now_ns + mrail_ctl_lane_rto(lane);
    ++lane->tries;
    return lane->deadline_ns;
}

static MRAIL_CTL mrail_ns_t mrail_ctl_run_lanes(mrail_peer_t *peer,
                                                mrail_ns_t now_ns)
{
    mrail_ns_t next_ns = mrail_ctl_run_unreachable(peer, now_ns);

    for (unsigned k = 0; k < peer->slot_limit; ++k) {
        unsigned slot = mrail_ctl_turn(peer, k);

        next_ns = mrail_ns_min(next_ns, mrail_path_run(peer, slot, now_ns));
        next_ns = mrail_ns_min(next_ns,
                               mrail_ctl_poll_lane_request(peer, slot, now_ns));
        if (peer->lanes[slot] != NULL) {
            next_ns = mrail_ns_min(
                next_ns, mrail_ctl_run_lane(peer->lanes[slot], now_ns));
        }
    }
    return mrail_ns_min(next_ns, mrail_ctl_run_retry(peer, now_ns));
}

static MRAIL_CTL mrail_ns_t mrail_ctl_run_hello(mrail_peer_t *peer,
                                                mrail_ns_t now_ns)
{
    unsigned waits;

    if (now_ns < peer->deadline_ns) {
        return peer->deadline_ns;
    }
    if (peer->tries >= mrail_ctl_tries(peer) + peer->num_boots) {
        mrail_error("peer %016llx does not answer: there is no route to it, or "
                    "its process has exited",
                    (unsigned long long)peer->id);
        mrail_ctl_peer_failed(peer, -ETIMEDOUT);
        return MRAIL_NS_NEVER;
    }
    if (mrail_ctl_send_hello(peer, peer->tries) == -EAGAIN) {
        return mrail_ctl_await_buffer(peer);
    }
    peer->engine->counters.ctl_resent += (peer->tries != 0);
    if (++peer->tries == peer->num_boots + MRAIL_CTL_SILENT) {
        mrail_ctl_connected(peer);
    }
    /* Some rails in the peer's address may be dead, so the first HELLO to each
     * of them has the shortest timeout. */
    waits = peer->tries - MRAIL_MIN(peer->tries, peer->num_boots);
    peer->deadline_ns = now_ns + mrail_ctl_rto(waits);
    return peer->deadline_ns;
}

static MRAIL_CTL mrail_ns_t mrail_ctl_run_probe(mrail_peer_t *peer,
                                                mrail_ns_t now_ns)
{
    if (now_ns < peer->probe_ns) {
        return peer->probe_ns;
    }
    if (peer->probe_tries > mrail_ctl_repeats(peer)) {
        mrail_warn("peer %016llx does not answer probes",
                   (unsigned long long)peer->id);
        mrail_ctl_peer_failed(peer, -ETIMEDOUT);
        return MRAIL_NS_NEVER;
    }
    if (mrail_ctl_send_plain(peer, MRAIL_CTL_PROBE, peer->probe_request,
                             peer->probe_tries) == -EAGAIN) {
        return mrail_ctl_await_buffer(peer);
    }
    peer->probe_ns = now_ns + mrail_ctl_rto(peer->probe_tries++);
    return peer->probe_ns;
}

static MRAIL_CTL mrail_ns_t mrail_ctl_run_peer(mrail_peer_t *peer,
                                               mrail_ns_t now_ns)
{
    mrail_ns_t next_ns = MRAIL_NS_NEVER;

    if (__atomic_load_n(&peer->failed, __ATOMIC_ACQUIRE) != 0) {
        /* Do not modify the lanes: a progress thread ends them
         * (mrail_peer_try_end()), and may already be waiting for this lock. */
        peer->state = MRAIL_PEER_GONE;
        mrail_ctl_connected(peer);
        return MRAIL_NS_NEVER;
    }
    if ((peer->state == MRAIL_PEER_NEW) && (peer->requested_slots != 0)) {
        if (peer->id == peer->engine->id) {
            if (mrail_ctl_connect_self(peer) == -EAGAIN) {
                return now_ns + MRAIL_CTL_RTO_MIN;
            }
        } else if (mrail_ctl_may_connect(peer)) {
            peer->state = MRAIL_PEER_HELLO;
            peer->request = ++peer->engine->ctl_seq;
            peer->deadline_ns = 0;
        }
    }
    if (peer->state == MRAIL_PEER_HELLO) {
        next_ns = mrail_ctl_run_hello(peer, now_ns);
    } else if (peer->state == MRAIL_PEER_KNOWN) {
        next_ns = mrail_ctl_run_lanes(peer, now_ns);
        if (peer->probe_tries != 0) {
            next_ns = mrail_ns_min(next_ns, mrail_ctl_run_probe(peer, now_ns));
        }
    }
    return next_ns;
}

/* Puts the peers whose timers have expired on the work list. */
static MRAIL_CTL void mrail_ctl_take_due(mrail_engine_t *engine,
                                         mrail_ns_t now_ns)
{
    mrail_heap_node_t *first;

    while (((first = mrail_heap_first(&engine->timers)) != NULL) &&
           (first->key <= now_ns)) {
        mrail_heap_del(&engine->timers, first);
        mrail_ctl_work(mrail_heap_entry(first, mrail_peer_t, timer));
    }
}

/* Puts as many blocked peers on the work list as there are free send buffers,
 * beginning with the peers that have waited longest. */
static MRAIL_CTL void mrail_ctl_take_unblocked(mrail_engine_t *engine)
{
    mrail_peer_t *peer;
    unsigned num_free = 0;

    if (mrail_list_empty(&engine->blocked)) {
        return;
    }
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        num_free += mrail_rail_ud_space(&engine->rails[i]);
    }
    for (; (num_free != 0) && !mrail_list_empty(&engine->blocked); --num_free) {
        peer = mrail_list_head(&engine->blocked, mrail_peer_t, blocked);
        mrail_list_del(&peer->blocked);
        mrail_ctl_work(peer);
    }
}

/* Returns the time of the next iteration. */
static mrail_ns_t mrail_ctl_next(const mrail_engine_t *engine,
                                 mrail_ns_t now_ns)
{
    const mrail_heap_node_t *first = mrail_heap_first(&engine->timers);
    mrail_ns_t next_ns = (first != NULL) ? first->key : MRAIL_NS_NEVER;

    if (!mrail_list_empty(&engine->work)) {
        return now_ns;
    }
    return mrail_list_empty(&engine->blocked)
               ? next_ns
               : MRAIL_MIN(next_ns, now_ns + MRAIL_CTL_NO_BUFFER);
}

mrail_ns_t mrail_ctl_run(mrail_engine_t *engine, mrail_ns_t now_ns)
{
    mrail_list_t turn;
    mrail_peer_t *peer;
    mrail_ns_t next_ns;

    mrail_ctl_take_due(engine, now_ns);
    mrail_ctl_take_unblocked(engine);
    /* A visit may create more work for the same peer or another peer. That work
     * is left for the next iteration, which then follows immediately. */
    mrail_list_init(&turn);
    mrail_list_move_all(&turn, &engine->work);
    while (!mrail_list_empty(&turn)) {
        peer = mrail_list_head(&turn, mrail_peer_t, work);
        mrail_list_del(&peer->work);
        next_ns = mrail_ctl_run_peer(peer, now_ns);
        if (next_ns == MRAIL_NS_NEVER) {
            mrail_heap_del(&engine->timers, &peer->timer);
        } else {
            mrail_heap_set(&engine->timers, &peer->timer, next_ns);
        }
    }
    return mrail_ctl_next(engine, now_ns);
}

static mrail_ns_t mrail_ctl_later(mrail_ns_t since_ns, mrail_ns_t suspended_ns,
                                  mrail_ns_t now_ns)
{
    return (since_ns == 0) ? 0 : MRAIL_MIN(since_ns + suspended_ns, now_ns);
}

void mrail_ctl_suspended(mrail_engine_t *engine, mrail_ns_t suspended_ns,
                         mrail_ns_t now_ns)
{
    mrail_peer_t *peer;

    mrail_list_for_each(peer, &engine->peers, mrail_peer_t, list) {
        peer->unreachable_ns =
            mrail_ctl_later(peer->unreachable_ns, suspended_ns, now_ns);
        peer->reconnect_ns =
            mrail_ctl_later(peer->reconnect_ns, suspended_ns, now_ns);
        mrail_for_each_lane(lane, peer) {
            if (mrail_lane_is(lane, MRAIL_LANE_CLOSES)) {
                lane->close_ns =
                    mrail_ctl_later(lane->close_ns, suspended_ns, now_ns);
            }
        }
    }
}

/* Sends BYE over every pair, because BYE has no answer and some pairs may be
 * dead. Returns 1 if a pair had no send buffer. */
static MRAIL_CTL int mrail_ctl_say_bye(mrail_peer_t *peer)
{
    mrail_engine_t *engine = peer->engine;
    mrail_ctl_msg_t msg = {.type = MRAIL_CTL_BYE, .seq = ++engine->ctl_seq};

    for (unsigned way = 0; way < peer->num_pairs; ++way) {
        uint64_t bit = 1ull << way;

        if ((peer->bye_mask & bit) &&
            (mrail_ctl_send_by(peer, way, &msg) != -EAGAIN)) {
            peer->bye_mask &= ~bit;
        }
    }
    for (unsigned k = 0; k < engine->num_rails; ++k) {
        /* Frees send buffers for the next BYE. Received datagrams are
         * discarded. */
        mrail_rail_ud_reap(&engine->rails[k]);
    }
    return peer->bye_mask != 0;
}

/* Visits all peers once. Returns the number of peers that still need a BYE. */
static MRAIL_CTL unsigned mrail_ctl_bye_round(mrail_engine_t *engine)
{
    unsigned count = 0;
    mrail_peer_t *peer;

    mrail_list_for_each(peer, &engine->peers, mrail_peer_t, list) {
        count += (peer->bye_mask != 0) && mrail_ctl_say_bye(peer);
    }
    return count;
}

/* Sends BYE to all peers. A rail without send buffers delays only its own
 * messages. The time is limited, because the device of the rail may be dead and
 * never return a buffer. */
void mrail_ctl_bye(mrail_engine_t *engine)
{
    mrail_ns_t until_ns = mrail_clock_now() + MRAIL_CTL_BYE_LIMIT;
    mrail_peer_t *peer;

    mrail_ctl_take(engine);
    mrail_list_for_each(peer, &engine->peers, mrail_peer_t, list) {
        /* Include peers that have failed, because they may be alive and must
         * not wait for this process. */
        if ((peer->id != engine->id) && (peer->failed != -ESHUTDOWN)) {
            peer->bye_mask = (1ull << peer->num_pairs) - 1;
        }
    }
    while ((mrail_ctl_bye_round(engine) != 0) &&
           (mrail_clock_now() < until_ns)) {
        sched_yield();
    }
    mrail_ctl_unlock(engine);
}
