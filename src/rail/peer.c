#include "config.h"
#include "rail/peer.h"

#include "rail/ctl.h"
#include "telemetry/page.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

mrail_peer_t *mrail_peer_find(mrail_engine_t *engine, uint64_t id)
{
    mrail_list_t *head = &engine->buckets[mrail_mix64(id) % MRAIL_BUCKETS];
    mrail_peer_t *peer;

    mrail_list_for_each(peer, head, mrail_peer_t, list) {
        if (peer->id == id) {
            return peer;
        }
    }
    return NULL;
}

mrail_peer_t *mrail_peer_create(mrail_engine_t *engine, uint64_t id)
{
    mrail_peer_t *peer = calloc(1, sizeof(*peer));

    if (peer == NULL) {
        return NULL;
    }
    peer->engine = engine;
    peer->detached.peer = peer;
    peer->id = id;
    peer->op_next = 1;
    mrail_paths_init(peer);
    ++engine->num_peers;
    mrail_list_init(&peer->work);
    mrail_list_init(&peer->eps);
    mrail_list_init(&peer->unacked);
    mrail_list_init(&peer->replay_am);
    mrail_list_init(&peer->replay_rma);
    mrail_list_init(&peer->arrived);
    mrail_list_init(&peer->hold);
    mrail_list_init(&peer->ops);
    mrail_list_init(&peer->uncut);
    mrail_list_init(&peer->flushes_pending);
    mrail_list_init(&peer->active);
    mrail_list_init(&peer->ended);
    mrail_list_add_tail(&engine->buckets[mrail_mix64(id) % MRAIL_BUCKETS],
                        &peer->list);
    return peer;
}

void mrail_peer_free(mrail_peer_t *peer)
{
    mrail_ctl_drop_handles(peer, NULL);
    mrail_list_del(&peer->list);
    mrail_list_del(&peer->work);
    mrail_list_del(&peer->active);
    mrail_list_del(&peer->ended);
    --peer->engine->num_peers;
    free(peer->moves);
    free(peer);
}

/* Puts a lane that takes new work at up[0], which small messages use, if there
 * is another lane for messages. */
static void mrail_peer_choose_primary(mrail_peer_t *peer)
{
    for (unsigned i = 1; (i < peer->num_am) && peer->up[0]->leaving; ++i) {
        mrail_lane_t *lane = peer->up[i];

        if (!lane->leaving) {
            peer->up[i] = peer->up[0];
            peer->sched[i] = peer->sched[0];
            peer->up[0] = lane;
            peer->sched[0] = &lane->sched;
        }
    }
}

/* Returns the smallest length for which the time on the wire, length / rate,
 * exceeds the processing time, cost + length / copy rate. */
static uint32_t mrail_peer_am_spread(const mrail_peer_t *peer)
{
    double rate, bytes;

    if (peer->num_up == 0) {
        return UINT32_MAX;
    }
    rate = MRAIL_MIN((double)peer->up[0]->sched.nominal,
                     (double)peer->up[0]->rail->attr.speed_bps / 8);
    if (rate >= (double)MRAIL_AM_COPY_RATE) {
        return UINT32_MAX;
    }
    bytes = (double)MRAIL_AM_COST_NS / MRAIL_NS_PER_SEC /
            (1 / rate - 1 / (double)MRAIL_AM_COPY_RATE);
    return (uint32_t)MRAIL_MIN(MRAIL_MAX(bytes, MRAIL_AM_SPREAD_MIN),
                               (double)UINT32_MAX);
}

void mrail_peer_refresh(mrail_peer_t *peer)
{
    uint64_t mask = __atomic_load_n(&peer->up_mask, __ATOMIC_ACQUIRE);

    if (peer->dead) {
        return; /* the lane came up too late */
    }
    peer->seen_mask = mask;
    peer->pump_ns = 0;
    peer->num_up = 0;
    /* Slots below num_pairs carry AMs, so AM lanes come first. */
    peer->num_am = 0;
    for (unsigned slot = 0; slot < MRAIL_MAX_SLOTS; ++slot) {
        if (mask & (1ull << slot)) {
            mrail_lane_t *lane = peer->lanes[slot];

            if (lane->out) { /* the peer wants to keep it */
                lane->out = 0;
                mrail_am_restored(lane);
            }
            peer->num_am += lane->am_lane;
            peer->up[peer->num_up] = lane;
            peer->sched[peer->num_up++] = &lane->sched;
        }
    }
    mrail_peer_choose_primary(peer);
    peer->am_spread = mrail_peer_am_spread(peer);
}

void mrail_peer_request_lanes(mrail_peer_t *peer, int all)
{
    mrail_engine_t *engine = peer->engine;

    if (all ? __atomic_load_n(&peer->expand_wanted, __ATOMIC_RELAXED)
            : peer->connect_wanted) {
        return;
    }
    peer->connect_wanted = 1;
    if (all) {
        __atomic_store_n(&peer->expand_wanted, 1, __ATOMIC_RELAXED);
    }
    mrail_ctl_lock(engine);
    peer->requested_slots =
        all ? MRAIL_MAX_SLOTS : MRAIL_MAX(peer->requested_slots, 1u);
    mrail_list_del(&peer->work);
    mrail_list_add_tail(&engine->work, &peer->work);
    pthread_mutex_unlock(&engine->ctl_lock);
    mrail_control_thread_wake(engine);
}

void mrail_peer_activate(mrail_peer_t *peer)
{
    if (mrail_list_empty(&peer->active)) {
        mrail_list_add_tail(&peer->engine->active, &peer->active);
    }
}

/* Returns 1 if the devices have returned all work requests. Until then they may
 * access the memory of pending operations. A lost device returns nothing; its
 * QPs end before the operations do. */
static int mrail_peer_drained(const mrail_peer_t *peer)
{
    for (unsigned slot = 0; slot < MRAIL_MAX_SLOTS; ++slot) {
        const mrail_lane_t *lane = peer->lanes[slot];

        if ((peer->seen_mask & (1ull << slot)) && !lane->rail->fatal &&
            (lane->qp != NULL) && (lane->sq_posted != lane->sq_done)) {
            return 0;
        }
    }
    return 1;
}

/* The request must be the last on a QP in the error state: when it completes,
 * all earlier requests are complete, including unsignalled successful ones. */
void mrail_lane_drain(mrail_lane_t *lane)
{
    struct ibv_send_wr wr = {
        .wr_id = mrail_lane_marker(lane),
        .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED,
    };

    if (lane->drained || (lane->qp == NULL) || lane->rail->fatal ||
        (mrail_lane_sq_free(lane) == 0)) {
        return; /* no room: try again after a completion */
    }
    lane->drained = 1;
    if (mrail_lane_post(lane, &wr) != 0) {
        --lane->sq_posted; /* this request will have no completion */
        lane->drained = 0;
        /* Even if the device accepts no more requests in this state, it still
         * completes chunks, which are all signalled. Unsignalled requests touch
         * only engine memory, so they can be written off. */
        if (mrail_list_empty(&lane->flying)) {
            lane->sq_done = lane->sq_posted;
        }
    }
}

void mrail_lane_stop(mrail_lane_t *lane)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if ((lane->qp == NULL) ||
        (ibv_modify_qp(lane->qp, &attr, IBV_QP_STATE) == 0) ||
        lane->rail->fatal) { /* a lost device refuses everything */
        return;
    }
    mrail_warn("%s:%u: qp 0x%x does not enter the error state: destroyed",
               lane->rail->attr.device, lane->rail->attr.port,
               lane->qp->qp_num);
    mrail_failover_disown(lane);
    mrail_lane_destroy_qp(lane->peer->engine, lane);
}

static void mrail_peer_drain_all(mrail_peer_t *peer)
{
    for (unsigned slot = 0; slot < MRAIL_MAX_SLOTS; ++slot) {
        if (peer->seen_mask & (1ull << slot)) {
            mrail_lane_drain(peer->lanes[slot]);
        }
    }
}

void mrail_peer_start_fail(mrail_peer_t *peer, int status)
{
    mrail_ep_t *ep;

    mrail_peer_refresh(peer);
    /* Released lanes that are not drained count as well. */
    peer->seen_mask |= peer->closing_mask | peer->broken_mask;
    for (unsigned slot = 0; slot < MRAIL_MAX_SLOTS; ++slot) {
        const mrail_lane_t *lane = peer->lanes[slot];

        /* This includes a suspect lane, whatever its control state is. */
        if ((lane != NULL) && (lane->qp != NULL) &&
            ((lane->state == MRAIL_LANE_UP) ||
             (lane->sq_posted != lane->sq_done))) {
            peer->seen_mask |= 1ull << slot;
        }
    }
    for (unsigned slot = 0; slot < MRAIL_MAX_SLOTS; ++slot) {
        mrail_lane_t *lane = peer->lanes[slot];

        /* This includes the QP of a lane that is not up yet, because nothing
         * more may arrive there. */
        if ((lane == NULL) ||
            ((lane->qp == NULL) && !(peer->seen_mask & (1ull << slot)))) {
            continue;
        }
        lane->last_cqe.is_set = 0;
        mrail_lane_stop(lane);
        if ((lane->qp == NULL) && (lane->state != MRAIL_LANE_IDLE) &&
            (lane->state != MRAIL_LANE_FAILED)) {
            mrail_lane_set_state(lane, MRAIL_LANE_FAILED, "peer failed");
            __atomic_fetch_and(&peer->up_mask, ~(1ull << slot),
                               __ATOMIC_RELEASE);
        }
    }
    peer->dead = 1;
    peer->num_up = peer->num_am = 0;
    mrail_peer_activate(peer);
    mrail_list_for_each(ep, &peer->eps, mrail_ep_t, peer_list) {
        ep->failed = status;
    }
}

/* Frees the QPs for other peers. The devices have returned everything. */
static void mrail_peer_end_lanes(mrail_peer_t *peer)
{
    mrail_engine_t *engine = peer->engine;

    mrail_data_ctl_lock(engine);
    mrail_page_event(engine->page, "peer %016llx is gone: %s",
                     (unsigned long long)peer->id,
                     (peer->failed == -ESHUTDOWN) ? "it said goodbye"
                                                  : strerror(-peer->failed));
    for (unsigned slot = 0; slot < MRAIL_MAX_SLOTS; ++slot) {
        mrail_lane_t *lane = peer->lanes[slot];

        if (lane != NULL) {
            if ((lane->state != MRAIL_LANE_IDLE) &&
                (lane->state != MRAIL_LANE_FAILED)) {
                mrail_lane_set_state(lane, MRAIL_LANE_FAILED, "peer failed");
            }
            mrail_lane_end(engine, lane);
            /* A lost device has not returned these chunks, nor has a device
             * whose QP is gone. */
            mrail_rma_abandon(lane, mrail_clock_now());
        }
    }
    __atomic_store_n(&peer->up_mask, 0, __ATOMIC_RELEASE);
    peer->seen_mask = 0;
    peer->state = MRAIL_PEER_GONE; /* no message creates another lane */
    ++engine->num_dead;
    mrail_data_ctl_unlock(engine);
}

/* Returns 1 if destroying the QPs would lose completions. */
static int mrail_peer_has_completions(const mrail_peer_t *peer)
{
    int has = 0;

    for (unsigned slot = 0; slot < MRAIL_MAX_SLOTS; ++slot) {
        mrail_lane_t *lane = peer->lanes[slot];

        if ((lane != NULL) && (lane->qp != NULL)) {
            has |= !mrail_rail_is_drained(lane->rail, &lane->last_cqe);
        }
    }
    return has;
}

int mrail_peer_try_end(mrail_peer_t *peer)
{
    if (peer->dead != 1) {
        return 0;
    }
    mrail_peer_drain_all(peer);
    if (!mrail_peer_drained(peer) || mrail_peer_has_completions(peer)) {
        return 0;
    }
    mrail_peer_end_lanes(peer);
    peer->dead = 2;
    mrail_peer_release(peer);
    __atomic_fetch_add(&peer->engine->num_changes, 1, __ATOMIC_SEQ_CST);
    mrail_wakeup_all(peer->engine, MRAIL_ARMED_OWN);
    return 1;
}

void mrail_peer_fail(mrail_peer_t *peer, int status)
{
    mrail_failover_end(peer);
    mrail_am_fail(peer);
    mrail_rma_fail(peer, status);
    mrail_flush_fail(peer, status);
}

/* ---- peers that are freed ---- */

int mrail_peer_departed(const mrail_engine_t *engine, uint64_t id)
{
    uint64_t count = MRAIL_MIN(engine->num_departed, (uint64_t)MRAIL_DEPARTED);

    for (uint64_t i = 0; i < count; ++i) {
        if (engine->departed[i].id == id) {
            return engine->departed[i].status;
        }
    }
    return 0;
}

void mrail_peer_set_departed(mrail_peer_t *peer, int status)
{
    __atomic_store_n(&peer->failed, status, __ATOMIC_RELEASE);
    peer->state = MRAIL_PEER_GONE;
    peer->dead = 2;
    ++peer->engine->num_dead;
    __atomic_fetch_add(&peer->engine->num_changes, 1, __ATOMIC_SEQ_CST);
}

void mrail_peer_release(mrail_peer_t *peer)
{
    mrail_engine_t *engine = peer->engine;

    if ((peer->dead != 2) || !mrail_list_empty(&peer->eps)) {
        return;
    }
    if (mrail_list_empty(&peer->ended)) {
        mrail_list_add_tail(&engine->ended, &peer->ended);
    }
    engine->reap_pending = 1;
}

/* Detaches undelivered messages from their lanes. They are still delivered, but
 * their buffers return without a credit. */
static void mrail_peer_disown(const mrail_peer_t *peer)
{
    mrail_engine_t *engine = peer->engine;
    mrail_rx_t *rx;

    for (unsigned i = 0; i < engine->num_rails; ++i) {
        mrail_rx_flush(engine, i);
    }
    for (unsigned i = 0; i < MRAIL_MAX_IFACES; ++i) {
        if (engine->ifaces[i] == NULL) {
            continue;
        }
        mrail_list_for_each(rx, &engine->ifaces[i]->inbox, mrail_rx_t, list) {
            if ((rx->lane != NULL) && (rx->lane->peer == peer)) {
                rx->lane = NULL;
            }
        }
    }
}

static void mrail_peer_drop(mrail_peer_t *peer)
{
    mrail_engine_t *engine = peer->engine;

    assert(mrail_list_empty(&peer->ops) && mrail_list_empty(&peer->unacked) &&
           mrail_list_empty(&peer->hold) &&
           mrail_list_empty(&peer->flushes_pending) && !peer->recovering);
    mrail_peer_disown(peer);
    for (unsigned slot = 0; slot < MRAIL_MAX_SLOTS; ++slot) {
        mrail_lane_t *lane = peer->lanes[slot];

        if (lane != NULL) {
            mrail_list_del(&lane->ack_list);
            mrail_stats_keep_lane(lane);
            free(lane);
        }
    }
    if (mrail_peer_departed(engine, peer->id) == 0) {
        engine->departed[engine->num_departed++ % MRAIL_DEPARTED] =
            (mrail_departed_t){.id = peer->id, .status = peer->failed};
    }
    mrail_debug("peer %016llx is freed", (unsigned long long)peer->id);
    --engine->num_dead;
    mrail_peer_free(peer);
}

/* A peer that was given up gets no BYE here. If it is alive, a BYE would look
 * like a regular end, whereas its own probes detect the failure. */
void mrail_peer_reap(mrail_engine_t *engine)
{
    mrail_peer_t *peer, *tmp;

    engine->reap_pending = 0;
    mrail_data_ctl_lock(engine);
    mrail_list_for_each_safe(peer, tmp, &engine->ended, mrail_peer_t, ended) {
        if (!mrail_list_empty(&peer->eps)) {
            mrail_list_del(&peer->ended); /* freed when its last endpoint is
                                           * gone */
        } else {
            mrail_peer_drop(peer);
        }
    }
    mrail_data_ctl_unlock(engine);
}
