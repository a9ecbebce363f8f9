/*
 * Decides which lanes to request on which rails. Handles exhausted QP budgets,
 * QPs and receive buffers, and rejected requests.
 */
#include "config.h"
#include "rail/conn/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Mean delay before a request that failed for lack of QPs is repeated. */
#define MRAIL_CTL_RETRY (200 * MRAIL_NS_PER_MS)

/* Attempts, 20 ms apart, before a warning. A connection of the process to
 * itself then fails. */
#define MRAIL_CTL_SPACE_TRIES 250

int mrail_ctl_is_first(const mrail_peer_t *peer, unsigned slot)
{
    for (unsigned i = 0; i < peer->slot_limit; ++i) {
        const mrail_lane_t *lane = peer->lanes[i];

        if ((i != slot) && (lane != NULL) && (lane->am.window != 0) &&
            mrail_lane_is(lane, MRAIL_LANE_LEADS)) {
            return 0;
        }
    }
    return 1;
}

/* Returns 1 if the QP budget allows another lane. A quarter of the budget is
 * reserved for the first lanes of later peers, which must not wait until
 * another lane is evicted. */
static MRAIL_CTL int mrail_ctl_has_budget(mrail_engine_t *engine, int first)
{
    unsigned used = engine->num_lanes - engine->num_lane_free;
    unsigned most = engine->config.max_qps - engine->config.max_qps / 4;

    if (used >= most) {
        mrail_evict_lanes(engine, 0);
    }
    return used < (first ? engine->config.max_qps : most);
}

mrail_lane_t *mrail_ctl_get_lane(mrail_peer_t *peer, unsigned slot)
{
    mrail_engine_t *engine = peer->engine;
    mrail_lane_t *lane = peer->lanes[slot];

    if (lane != NULL) {
        return lane;
    }
    if (!mrail_ctl_has_budget(engine, mrail_ctl_is_first(peer, slot))) {
        return NULL;
    }
    lane = calloc(1, sizeof(*lane));
    if (lane != NULL) {
        lane->peer = peer;
        lane->slot = (uint16_t)slot;
        lane->index = (engine->num_lane_free != 0)
                          ? engine->lane_free[--engine->num_lane_free]
                          : (uint16_t)engine->num_lanes++;
        mrail_list_init(&lane->ack_list);
        mrail_list_init(&lane->rail_list);
        mrail_list_init(&lane->flying);
        mrail_list_init(&lane->puts);
        mrail_list_init(&lane->lost);
        __atomic_store_n(&peer->lanes[slot], lane, __ATOMIC_RELEASE);
    }
    return lane;
}

/* Enters the lane in the lane table. Completions of its QP now refer to it, so
 * it may be released only under the data-path lock. */
static MRAIL_CTL void mrail_ctl_list_lane(mrail_lane_t *lane)
{
    __atomic_store_n(&lane->peer->engine->lanes[lane->index], lane,
                     __ATOMIC_RELEASE);
    __atomic_store_n(&lane->rail->has_lanes, 1, __ATOMIC_RELEASE);
}

int mrail_ctl_connect(mrail_lane_t *lane, const mrail_wire_lane_t *remote)
{
    int ret = -EIO; /* a lost device would return no completions */

    if (!lane->rail->fatal) {
        ret = mrail_lane_connect(lane, remote);
    }
    if (ret == 0) { /* early enough, because the peer does not send before it
                     * receives the answer */
        mrail_ctl_list_lane(lane);
    }
    return ret;
}

/* Creates a QP on the first rail that has one left. Returns 0 or -errno. */
static MRAIL_CTL int mrail_ctl_create_own_qp(mrail_lane_t *lane)
{
    mrail_peer_t *peer = lane->peer;
    int ret = -ENODEV;

    for (unsigned base = 0; (ret != 0) && (base < peer->num_pairs); ++base) {
        peer->base = base;
        ret = mrail_lane_create_qp(
            lane, &peer->engine->rails[peer->pairs[base].local]);
    }
    return ret;
}

/* Connects the QP of the lane to itself. Returns 0 or -EIO. */
static MRAIL_CTL int mrail_ctl_connect_own(mrail_lane_t *lane)
{
    mrail_wire_lane_t wire = {
        .index = lane->index,
        .credits = (uint16_t)lane->am.window,
        .src_rail = (uint8_t)lane->rail->index,
        .qpn = lane->qp->qp_num,
        .psn = lane->psn,
        .max_dest_rd_atomic = (uint8_t)lane->rail->max_dest_rd_atomic,
        .epoch = lane->epoch,
    };

    mrail_lane_event(lane, MRAIL_LANE_EV_ACCEPT, "self");
    mrail_ctl_choose_port(lane);
    if (mrail_ctl_connect(lane, &wire) != 0) {
        mrail_ctl_drop_request(lane, "no QP");
        return -EIO;
    }
    mrail_ctl_lane_up(lane, "self");
    return 0;
}

int mrail_ctl_connect_self(mrail_peer_t *peer)
{
    mrail_engine_t *engine = peer->engine;
    mrail_ctl_msg_t hello;
    mrail_lane_t *lane;

    lane = mrail_ctl_get_lane(peer, 0);
    if ((lane == NULL) && mrail_evict_lanes(engine, 1) &&
        (++peer->tries < MRAIL_CTL_SPACE_TRIES)) {
        return -EAGAIN;
    }
    mrail_ctl_fill_hello(engine, &hello, MRAIL_CTL_HELLO);
    mrail_ctl_learn(peer, &hello);
    if (peer->tables == NULL) { /* out of memory: the peer has failed */
        if (lane != NULL) {
            mrail_lane_drop(lane);
        }
        return 0;
    }
    peer->num_slots = 1;
    if (lane == NULL) {
        mrail_ctl_budget(engine);
    }
    if ((lane == NULL) || (mrail_ctl_create_own_qp(lane) != 0)) {
        mrail_ctl_peer_failed(peer, -ENOMEM);
        return 0;
    }
    if (mrail_ctl_connect_own(lane) != 0) {
        mrail_ctl_peer_failed(peer, -EIO);
    }
    return 0;
}

/* Returns the epoch of a new lane, which distinguishes its messages from late
 * messages of earlier lanes. The epochs of this end repeat after 32768 requests
 * to any peer, but the slot's previous epoch is skipped. The lowest bit
 * distinguishes them from the epochs that the peer chooses. */
static uint16_t mrail_ctl_next_epoch(mrail_peer_t *peer, unsigned slot)
{
    const mrail_prev_epoch_t *past = &peer->prev_epochs[slot];
    mrail_engine_t *engine = peer->engine;
    uint16_t epoch;

    do {
        ++engine->epoch;
        epoch = (uint16_t)((engine->epoch << 1) | (engine->id > peer->id));
    } while (past->known && (past->epoch == epoch));
    return epoch;
}

/* Creates the QP of a lane, and requests the lane from the peer. Returns 0 or
 * -errno. */
static MRAIL_CTL int mrail_ctl_request_lane(mrail_peer_t *peer, unsigned slot)
{
    mrail_engine_t *engine = peer->engine;
    mrail_rail_t *rail = mrail_path_rail(peer, slot);
    mrail_lane_t *lane = mrail_ctl_get_lane(peer, slot);
    int ret;

    if (lane == NULL) {
        if (!mrail_ctl_is_first(peer, slot)) {
            return -EDQUOT;
        }
        if (mrail_evict_lanes(engine, 1)) {
            if (++peer->tries == MRAIL_CTL_SPACE_TRIES) {
                mrail_warn("UCX_MRAIL_MAX_QPS=%u: the connection to peer "
                           "%016llx waits until another lane is evicted",
                           engine->config.max_qps,
                           (unsigned long long)peer->id);
            }
            return -EAGAIN;
        }
        mrail_ctl_budget(engine);
        return -EDQUOT;
    }
    ret = mrail_lane_create_qp(lane, rail);
    if (ret != 0) {
        mrail_log(rail->no_qp_warned ? MRAIL_LOG_DEBUG : MRAIL_LOG_WARN,
                  "%s: cannot create a QP: %s", rail->attr.device,
                  strerror(-ret));
        rail->no_qp_warned = 1;
        mrail_lane_drop(lane);
        return (ret == -EAGAIN) ? -EIO : ret;
    }
    lane->epoch = mrail_ctl_next_epoch(peer, slot);
    lane->remote_rail = peer->pairs[mrail_peer_pair(peer, slot)].remote;
    mrail_ctl_choose_port(lane);
    mrail_lane_event(lane, MRAIL_LANE_EV_REQUEST, "wanted");
    return 0;
}

/* Handles a lane that can never come up. The peer continues without the lane,
 * or fails if it is a first lane. */
static MRAIL_CTL void mrail_ctl_refused(mrail_peer_t *peer, unsigned slot,
                                        const char *reason)
{
    if (peer->based) {
        mrail_path_event(peer, slot, MRAIL_HEALTH_REFUSED, mrail_clock_now());
        if (peer->paths[slot].health.state == MRAIL_HEALTH_RETIRED) {
            return; /* the lane was up, and may return */
        }
    }
    peer->refused_mask |= 1ull << slot;
    if (!peer->based) {
        mrail_error("cannot connect to peer %016llx: %s",
                    (unsigned long long)peer->id, reason);
        mrail_ctl_peer_failed(peer, -ECONNREFUSED);
    } else {
        mrail_debug("peer %016llx: continuing without lane %u: %s",
                    (unsigned long long)peer->id, slot, reason);
    }
}

/* Handles a lack of QP budget, QPs, receive buffers or memory: postpones the
 * request for the lane. */
static MRAIL_CTL void mrail_ctl_no_space(mrail_peer_t *peer, unsigned slot)
{
    mrail_debug("peer %016llx: no QP for lane %u at present",
                (unsigned long long)peer->id, slot);
    peer->no_space_mask |= 1ull << slot;
    /* The delay is random, so that two ends without free QPs do not retry in
     * lockstep. */
    peer->retry_ns = mrail_clock_now() + MRAIL_CTL_RETRY / 2 +
                     mrail_rng_next(&peer->engine->rng) % MRAIL_CTL_RETRY;
    mrail_ctl_work(peer);
}

mrail_ns_t mrail_ctl_run_retry(mrail_peer_t *peer, mrail_ns_t now_ns)
{
    if (peer->no_space_mask == 0) {
        return MRAIL_NS_NEVER;
    }
    if (now_ns < peer->retry_ns) {
        return peer->retry_ns;
    }
    peer->no_space_mask = 0;
    peer->requested_slots = MRAIL_MIN(peer->requested_slots, 1u);
    __atomic_store_n(&peer->expand_wanted, 0, __ATOMIC_RELAXED);
    return MRAIL_NS_NEVER;
}

/* Moves the first lane to an open path. Until a lane has come up, there is no
 * agreed base pair, so the lane need not wait for a particular path. */
static MRAIL_CTL void mrail_ctl_find_base(mrail_peer_t *peer)
{
    for (unsigned slot = 1; slot < peer->num_pairs; ++slot) {
        if (mrail_path_is_open(peer, slot)) {
            mrail_paths_rebase(peer, mrail_peer_pair(peer, slot));
            return;
        }
    }
}

/* Returns 1 for an error after which another pair of rails may have a QP and
 * buffers for the lane. */
static int mrail_ctl_is_rail_full(int ret)
{
    return (ret != 0) && (ret != -EAGAIN) && (ret != -EDQUOT);
}

/* Requests the lane before any lane to the peer has come up. Uses the first
 * pair of rails with a QP and receive buffers at this end. Returns 0 or
 * -errno. */
static MRAIL_CTL int mrail_ctl_request_first(mrail_peer_t *peer, unsigned slot)
{
    unsigned count = peer->num_pairs, base = peer->base;
    int ret = mrail_ctl_request_lane(peer, slot);

    for (unsigned k = 1; mrail_ctl_is_rail_full(ret) && (k < count); ++k) {
        unsigned next = (base + k) % count;

        if (mrail_path_is_open(peer, (next + count - peer->base) % count)) {
            mrail_paths_rebase(peer, next);
            ret = mrail_ctl_request_lane(peer, slot);
        }
    }
    return ret;
}

/* Returns 1 if a pair of rails cannot be used now, but possibly later. */
static int mrail_ctl_has_closed_path(const mrail_peer_t *peer)
{
    for (unsigned slot = 0; slot < peer->num_pairs; ++slot) {
        if (!mrail_path_is_open(peer, slot) &&
            !mrail_path_rail(peer, slot)->fatal) {
            return 1;
        }
    }
    return 0;
}

/* Replaces the failed lane of the process to itself, on the first rail that
 * works and has a QP. */
static MRAIL_CTL void mrail_ctl_reconnect_self(mrail_peer_t *peer)
{
    mrail_lane_t *lane;

    for (unsigned k = 0; k < peer->num_pairs; ++k) {
        mrail_rail_t *rail = mrail_path_rail(peer, 0);

        if (mrail_path_is_open(peer, 0) && !rail->port_down) {
            lane = mrail_ctl_get_lane(peer, 0);
            if (lane == NULL) {
                break;
            }
            lane->epoch = mrail_ctl_next_epoch(peer, 0);
            if (mrail_lane_create_qp(lane, rail) != 0) {
                mrail_lane_drop(lane);
            } else if (mrail_ctl_connect_own(lane) == 0) {
                return;
            }
        }
        mrail_paths_rebase(peer, (peer->base + 1) % peer->num_pairs);
    }
    mrail_ctl_no_space(peer, 0);
}

mrail_ns_t mrail_ctl_poll_lane_request(mrail_peer_t *peer, unsigned slot,
                                       mrail_ns_t now_ns)
{
    mrail_lane_t *lane = peer->lanes[slot];
    int ret;

    if ((slot >= MRAIL_MIN(peer->requested_slots, peer->num_slots)) ||
        ((peer->refused_mask | peer->no_space_mask) & (1ull << slot)) ||
        ((lane != NULL) && (lane->state != MRAIL_LANE_IDLE))) {
        return MRAIL_NS_NEVER;
    }
    if (peer->id == peer->engine->id) {
        if (slot == 0) {
            mrail_ctl_reconnect_self(peer);
        }
        return MRAIL_NS_NEVER; /* the process has one lane to itself */
    }
    if (!peer->based && ((slot != 0) || !mrail_ctl_is_first(peer, slot))) {
        return MRAIL_NS_NEVER; /* further lanes are requested only after the
                                * first lane, which the peer may have requested,
                                * has determined the base pair */
    }
    if (!peer->based && !mrail_path_is_open(peer, slot)) {
        mrail_ctl_find_base(peer);
    }
    if (!mrail_path_is_open(peer, slot)) {
        return MRAIL_NS_NEVER;
    }
    ret = peer->based ? mrail_ctl_request_lane(peer, slot)
                      : mrail_ctl_request_first(peer, slot);
    if (ret == -EAGAIN) {
        peer->unreachable_ns = 0;
        return now_ns + MRAIL_CTL_RTO_MIN;
    }
    if (!peer->based && mrail_ctl_is_rail_full(ret) &&
        mrail_ctl_has_closed_path(peer)) {
        peer->reconnect_cause =
            "no working rail has a QP or receive buffer left";
        return now_ns + MRAIL_CTL_RETRY; /* repeated until the peer counts as
                                          * unreachable */
    }
    if ((ret != 0) && peer->based) {
        if (ret != -EDQUOT) {
            mrail_path_event(peer, slot, MRAIL_HEALTH_REFUSED, now_ns);
        }
        mrail_ctl_no_space(peer, slot);
    } else if (ret != 0) {
        mrail_ctl_refused(peer, slot, "could not create a QP");
    }
    return MRAIL_NS_NEVER;
}

/* Returns the delay of the next attempt. The first attempt on each pair of
 * rails follows immediately. Later attempts have growing delays, so that both
 * ends can do other work. */
static mrail_ns_t mrail_ctl_reconnect_delay(mrail_peer_t *peer)
{
    unsigned attempt = ++peer->reconnects / peer->num_pairs;

    return (attempt == 0) ? 0 : mrail_ctl_rto(attempt - 1);
}

void mrail_ctl_drop_request(mrail_lane_t *lane, const char *cause)
{
    mrail_lane_event(lane, MRAIL_LANE_EV_DROP, cause);
    mrail_lane_drop(lane);
}

void mrail_ctl_reconnect(mrail_lane_t *lane, const char *cause)
{
    mrail_peer_t *peer = lane->peer;
    unsigned slot = lane->slot;
    mrail_ns_t now_ns = mrail_clock_now();
    mrail_ns_t delay_ns = mrail_ctl_reconnect_delay(peer);

    mrail_ctl_drop_request(lane, cause);
    mrail_ctl_work(peer);
    if (!peer->based) {
        peer->reconnect_cause = cause;
        peer->reconnect_ns =
            (peer->reconnects == 1) ? now_ns : peer->reconnect_ns;
        /* Count from the first repeat, because unreachable_ns is reset whenever
         * the peer answers that this end must wait. */
        if ((peer->reconnects >= MRAIL_CTL_TRIES) &&
            (now_ns >= peer->reconnect_ns + mrail_ctl_peer_timeout(peer))) {
            mrail_ctl_give_up(peer);
            return;
        }
        mrail_paths_rebase(peer, mrail_peer_pair(peer, 1));
    }
    /* Request the lane again immediately, so that a late request of the peer
     * cannot replace it. */
    (void)mrail_ctl_poll_lane_request(peer, slot, now_ns);
    lane = peer->lanes[slot];
    if ((lane != NULL) && (lane->state == MRAIL_LANE_CONNECTING)) {
        lane->deadline_ns = now_ns + delay_ns;
    }
}

void mrail_ctl_not_connected(mrail_lane_t *lane)
{
    if (lane->peer->based) {
        mrail_lane_event(lane, MRAIL_LANE_EV_NO_CONNECT, "device error");
        mrail_ctl_list_lane(lane);
        mrail_failover_request(lane, "its QP cannot be connected");
    } else {
        mrail_ctl_reconnect(lane, "the QP of the lane cannot be connected");
    }
}

void mrail_ctl_not_granted(mrail_lane_t *lane, unsigned reason,
                           const char *text)
{
    mrail_peer_t *peer = lane->peer;
    unsigned slot = lane->slot;

    if (!peer->based && (reason == MRAIL_REASON_RESOURCES)) {
        mrail_ctl_reconnect(lane, text);
        return;
    }
    mrail_ctl_drop_request(lane, "refused");
    if (peer->based && (reason == MRAIL_REASON_QP_BUDGET)) {
        mrail_ctl_no_space(peer, slot);
    } else if (peer->based && (reason == MRAIL_REASON_RESOURCES)) {
        mrail_path_event(peer, slot, MRAIL_HEALTH_REFUSED, mrail_clock_now());
        mrail_ctl_no_space(peer, slot);
    } else {
        mrail_ctl_refused(peer, slot, text);
    }
}

/* Returns the k-th slot in the order of requests. Lanes for messages come
 * first, because there may be resources for only some lanes. They rotate, so
 * that a lane that keeps failing although its probes pass does not block other
 * lanes. */
unsigned mrail_ctl_turn(const mrail_peer_t *peer, unsigned k)
{
    unsigned count = MRAIL_MIN(peer->num_pairs, MRAIL_MAX_SLOTS);

    return (k < count) ? (peer->turn + k) % count : k;
}
