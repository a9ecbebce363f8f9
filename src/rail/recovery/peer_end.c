/*
 * Ends a failed peer: stops its QPs, waits until the devices have returned all
 * requests, and only then fails its operations.
 */
#include "config.h"
#include "rail/recovery/recovery.h"

#include "rail/conn/conn.h"
#include "rail/data/am_replay.h"
#include "rail/data/flush.h"
#include "rail/data/peer_lanes.h"
#include "rail/data/rma_replay.h"
#include "rail/state/signals.h"
#include "telemetry/page.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* Marks a lane without a QP as failed. */
static MRAIL_CTL void mrail_peer_give_up_lane(mrail_lane_t *lane)
{
    mrail_lane_event(lane, MRAIL_LANE_EV_GIVE_UP, "peer failed");
    __atomic_fetch_and(&lane->peer->up_mask, ~(1ull << lane->slot),
                       __ATOMIC_RELEASE);
}

/* Destroys the QP of a device that has not returned its requests in time. */
static MRAIL_DATA void mrail_peer_give_up_qp(mrail_lane_t *lane)
{
    mrail_engine_t *engine = lane->peer->engine;

    if (mrail_lane_is_overdue(lane, mrail_clock_now())) {
        mrail_data_ctl_lock(engine);
        mrail_lane_give_up_qp(lane);
        mrail_peer_give_up_lane(lane);
        mrail_data_ctl_unlock(engine);
    }
}

/* Drains the lanes. Returns 1 if the devices have returned all work requests,
 * and their completions have been handled. Until then, the devices may access
 * the memory of pending operations. A lost device does not return requests; its
 * QPs are destroyed before the operations fail. */
static MRAIL_DATA int mrail_peer_drain(mrail_peer_t *peer)
{
    int is_drained = 1, waits = 0;

    mrail_for_each_slot(slot, peer->seen_mask) {
        mrail_lane_t *lane = peer->lanes[slot];

        mrail_lane_drain(lane);
        mrail_peer_give_up_qp(lane);
        is_drained &= lane->rail->fatal || (lane->qp == NULL) ||
                      (lane->sq_posted == lane->sq_done);
    }
    /* Destroying the QPs must not lose completions. The completions of a QP that
     * had to be destroyed earlier may still be in the queue. */
    mrail_for_each_lane(lane, peer) {
        if (is_drained &&
            ((lane->qp != NULL) || (lane->sq_posted != lane->sq_done))) {
            waits |= !mrail_rail_is_drained(lane->rail, &lane->last_cqe);
        }
    }
    return is_drained && !waits;
}

void mrail_peer_start_fail(mrail_peer_t *peer, int status)
{
    mrail_ep_t *ep;

    mrail_peer_refresh(peer);
    peer->seen_mask |= peer->broken_mask;
    mrail_for_each_lane(lane, peer) {
        uint64_t bit = 1ull << lane->slot;

        /* This includes a suspect lane, and a released lane that is not
         * drained. */
        if ((lane->qp != NULL) && (mrail_lane_is(lane, MRAIL_LANE_CONNECTED) ||
                                   (lane->sq_posted != lane->sq_done))) {
            peer->seen_mask |= bit;
        }
        /* Include the QP of a lane that is not up yet, because no more messages
         * may arrive there. */
        if ((lane->qp == NULL) && !(peer->seen_mask & bit)) {
            continue;
        }
        lane->last_cqe.is_set = 0;
        lane->close_ns = mrail_clock_now();
        mrail_lane_stop(lane);
        if (lane->qp == NULL) {
            mrail_peer_give_up_lane(lane);
        }
    }
    mrail_paths_remove(peer); /* other peers probe the rails instead */
    peer->dead = 1;
    peer->num_up = peer->num_am = 0;
    mrail_peer_activate(peer);
    mrail_list_for_each(ep, &peer->eps, mrail_ep_t, peer_list) {
        ep->failed = status;
    }
}

/* Releases the QPs for use by other peers. The devices must have returned all
 * requests. */
static MRAIL_DATA void mrail_peer_end_lanes(mrail_peer_t *peer)
{
    mrail_engine_t *engine = peer->engine;

    mrail_data_ctl_lock(engine);
    mrail_page_event(engine->page, "peer %016llx is gone: %s",
                     (unsigned long long)peer->id,
                     (peer->failed == -ESHUTDOWN) ? "it has shut down"
                                                  : strerror(-peer->failed));
    mrail_for_each_lane(lane, peer) {
        mrail_lane_event(lane, MRAIL_LANE_EV_GIVE_UP, "peer failed");
        mrail_lane_end(lane);
        /* These chunks are left if the device is lost or the QP was
         * destroyed. */
        mrail_rma_abandon(lane, mrail_clock_now());
    }
    __atomic_store_n(&peer->up_mask, 0, __ATOMIC_RELEASE);
    peer->seen_mask = 0;
    peer->state = MRAIL_PEER_GONE; /* messages do not create lanes any longer */
    ++engine->num_dead;
    mrail_data_ctl_unlock(engine);
}

int mrail_peer_try_end(mrail_peer_t *peer)
{
    mrail_ep_t *ep;

    if (peer->dead != 1) {
        return 0;
    }
    if (!mrail_peer_drain(peer)) {
        return 0;
    }
    mrail_peer_end_lanes(peer);
    peer->dead = 2;
    mrail_list_for_each(ep, &peer->eps, mrail_ep_t, peer_list) {
        mrail_ep_report_failed(ep);
    }
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

static MRAIL_BOTH void mrail_peer_drop(mrail_peer_t *peer)
{
    mrail_engine_t *engine = peer->engine;

    assert(mrail_list_empty(&peer->ops) &&
           mrail_list_empty(&peer->am.unacked) &&
           mrail_list_empty(&peer->am.hold) &&
           mrail_list_empty(&peer->lost_puts) &&
           mrail_list_empty(&peer->flushes_pending) && !peer->recovering);
    mrail_for_each_lane(lane, peer) {
        if (lane->rail != NULL) {
            mrail_failover_disown(lane);
        }
        mrail_list_del(&lane->ack_list);
        mrail_stats_keep_lane(lane);
        free(lane);
    }
    if (mrail_peer_departed(engine, peer->id) == 0) {
        engine->departed[engine->num_departed++ % MRAIL_DEPARTED] =
            (mrail_departed_t){.id = peer->id, .status = peer->failed};
    }
    mrail_debug("peer %016llx is freed", (unsigned long long)peer->id);
    --engine->num_dead;
    mrail_peer_free(peer);
}

/* Sends no BYE to failed peers. If a peer is alive, a BYE would look like a
 * regular exit, whereas its own probes detect the failure. */
void mrail_peer_reap(mrail_engine_t *engine)
{
    mrail_peer_t *peer, *tmp;

    engine->reap_pending = 0;
    mrail_data_ctl_lock(engine);
    mrail_list_for_each_safe(peer, tmp, &engine->ended, mrail_peer_t, ended) {
        if (!mrail_list_empty(&peer->eps)) {
            mrail_list_del(&peer->ended); /* freed after its last endpoint is
                                           * destroyed */
        } else if (peer->check_listed) {
            engine->reap_pending = 1; /* the next poll checks it */
        } else {
            mrail_peer_drop(peer);
        }
    }
    mrail_data_ctl_unlock(engine);
}
