/*
 * Eviction of lanes; docs/architecture.md describes the protocol. A progress
 * thread decides whether a lane is idle, and reaps it. If the process does not
 * call the library, the control thread does both.
 */
#include "config.h"
#include "rail/recovery/recovery.h"

#include "rail/conn/conn.h"
#include "rail/data/am_ack.h"
#include "rail/data/peer_lanes.h"
#include "rail/data/rx.h"
#include "rail/data/visible.h"
#include "rail/state/signals.h"

#include <errno.h>

static int mrail_list_has_lane(const mrail_list_t *list,
                               const mrail_lane_t *lane)
{
    const mrail_rx_t *rx;

    mrail_list_for_each(rx, list, mrail_rx_t, am.list) {
        if (rx->lane == lane) {
            return 1;
        }
    }
    return 0;
}

/* Returns 1 if messages of the lane are waiting for delivery, and thus occupy
 * its buffers. */
static MRAIL_DATA int mrail_lane_has_messages(mrail_engine_t *engine,
                                              const mrail_lane_t *lane)
{
    mrail_rx_flush(engine, lane->rail->index);
    for (unsigned i = 0; i < MRAIL_MAX_IFACES; ++i) {
        const mrail_iface_t *iface = engine->ifaces[i];

        if ((iface != NULL) && mrail_list_has_lane(&iface->inbox, lane)) {
            return 1;
        }
    }
    return mrail_list_has_lane(&lane->peer->am.hold, lane);
}

/* Returns 1 if this is the only lane for messages to the peer. */
static int mrail_lane_is_last(const mrail_lane_t *lane)
{
    return (lane->am.window != 0) && (lane->peer->num_am == 1);
}

/* Returns 1 if the lane must stay in use. `reading` is the number of bytes in
 * flight of the eviction's last READ. */
static MRAIL_DATA int mrail_lane_in_use(const mrail_lane_t *lane,
                                        uint64_t reading)
{
    const mrail_peer_t *peer = lane->peer;

    return (lane->am.inflight != 0) || (lane->sched.inflight > reading) ||
           (peer->ordered_lane == lane) || mrail_lane_is_last(lane) ||
           (peer->num_fences > (unsigned)peer->recovering) ||
           (!lane->evict_forced && !mrail_list_empty(&peer->uncut)) ||
           mrail_lane_has_messages(peer->engine, lane);
}

/* Returns 1 if another lane can take over the work. Lanes that are being
 * evicted themselves do not count. */
static int mrail_lane_has_successor(const mrail_lane_t *lane)
{
    const mrail_peer_t *peer = lane->peer;

    for (unsigned i = 0; i < peer->num_up; ++i) {
        if ((peer->up[i] != lane) &&
            !mrail_lane_is(peer->up[i], MRAIL_LANE_NO_WORK)) {
            return 1;
        }
    }
    return 0;
}

/* Keeps a lane that is in use. A lane that must be evicted (evict_forced) is an
 * exception: it is assigned no new work, and drains. */
static MRAIL_BOTH void mrail_evict_keep(mrail_lane_t *lane)
{
    if (lane->am.inflight != 0) {
        /* A peer that sends no messages does not acknowledge either, so request
         * an acknowledgement. */
        mrail_am_request_ack(lane->peer);
    }
    if (lane->evict_forced && !mrail_lane_is_last(lane)) {
        /* As long as no other lane can carry the pending work, this lane
         * carries it. */
        mrail_lane_event(lane,
                         (mrail_lane_has_successor(lane) ||
                          (mrail_list_empty(&lane->peer->uncut) &&
                           mrail_list_empty(&lane->peer->replay_rma)))
                             ? MRAIL_LANE_EV_LEAVE
                             : MRAIL_LANE_EV_CARRY,
                         "another lane needs its QP");
        mrail_peer_refresh(lane->peer); /* another lane becomes the primary
                                         * lane */
        return;
    }
    if (mrail_lane_is(lane, MRAIL_LANE_REQUESTED)) {
        if (mrail_ctl_send_refuse(lane->peer, lane->slot, lane->peer_request,
                                  MRAIL_REASON_IN_USE) == -EAGAIN) {
            return; /* no send buffer; retry at the next check */
        }
        lane->peer_refused = lane->peer_request;
    }
    ++lane->peer->engine->counters.lanes_kept;
    lane->last_read = lane->evict_forced = 0;
    mrail_lane_event(lane, MRAIL_LANE_EV_KEEP, "in use");
}

/* Takes the lane out of use, or keeps it. The caller repeats the call as long
 * as the lane's bit in evict_mask is set. */
static MRAIL_BOTH void mrail_evict_leave(mrail_lane_t *lane, mrail_ns_t now_ns)
{
    mrail_peer_t *peer = lane->peer;
    uint64_t bit = 1ull << lane->slot;

    lane->last_read &= (lane->sched.inflight != 0);
    if (mrail_lane_in_use(lane, lane->last_read ? sizeof(uint64_t) : 0)) {
        mrail_evict_keep(lane);
    } else if (peer->dirty_mask & bit) { /* make the data visible at the peer
                                          * before the lane is idle */
        lane->last_read = (mrail_rma_post_read(lane, NULL, now_ns) == 0);
    } else if (!lane->last_read) {
        mrail_peer_clear_up(peer, bit);
        mrail_lane_event(lane, MRAIL_LANE_EV_RELEASE, "idle");
        mrail_list_del(&lane->ack_list);
        mrail_peer_refresh(peer);
    }
}

/* Drains the lane. Unsignalled requests may be incomplete, so a final,
 * signalled request follows them. */
static MRAIL_BOTH void mrail_evict_drain(mrail_lane_t *lane, mrail_ns_t now_ns)
{
    if (lane->sq_posted != lane->sq_done) {
        if (!lane->last_read) {
            lane->last_read = (mrail_rma_post_read(lane, NULL, now_ns) == 0);
        }
        return;
    }
    if (mrail_lane_is(lane, MRAIL_LANE_REQUESTED) &&
        (mrail_ctl_send_confirm(lane->peer, lane->slot, lane->epoch,
                                lane->peer_request, 0) == -EAGAIN)) {
        return; /* no send buffer; retry at the next check */
    }
    mrail_lane_event(lane, MRAIL_LANE_EV_DRAINED, "drained");
    mrail_control_thread_wake(lane->peer->engine);
}

/* Frees the lane once all of its messages have been delivered. The peer's last
 * messages may still be in the CQ, or wait for another iface. Destroying the QP
 * too early would lose these messages and their buffers. */
static MRAIL_BOTH void mrail_evict_reap(mrail_lane_t *lane)
{
    mrail_peer_t *peer = lane->peer;
    mrail_engine_t *engine = peer->engine;

    if (!mrail_rail_is_drained(lane->rail, &lane->last_cqe) ||
        mrail_lane_has_messages(engine, lane)) {
        return;
    }
    ++engine->counters.lanes_evicted;
    mrail_lane_retire(lane, MRAIL_LANE_EV_REAPED, "evicted");
    /* The next large transfer requests the lane again. */
    peer->requested_slots = 1;
    __atomic_store_n(&peer->expand_wanted, 0, __ATOMIC_RELAXED);
    mrail_ctl_work(peer); /* the peer may already have requested a new lane */
}

/* Puts a lane back into use because the peer still uses it, and sends the
 * updates that have become due in the meantime. A lane that carries no messages
 * has no credits to report, and the peer has no buffer for a reply on it. */
static MRAIL_BOTH void mrail_evict_restore(mrail_lane_t *lane)
{
    lane->last_read = lane->evict_forced = 0;
    mrail_ctl_lane_up(lane, "in use by the peer");
    if (lane->am.window != 0) {
        mrail_am_add_pending_ack(lane->peer->engine, lane);
    }
}

static MRAIL_BOTH void mrail_evict_step(mrail_peer_t *peer, unsigned slot,
                                        mrail_ns_t now_ns)
{
    mrail_lane_t *lane = peer->lanes[slot];

    switch ((lane != NULL) ? lane->state : MRAIL_LANE_IDLE) {
    case MRAIL_LANE_UNVALIDATED ... MRAIL_LANE_VALIDATING:
        mrail_failover_validate(lane, now_ns);
        break;
    case MRAIL_LANE_EVICT_WANTED ... MRAIL_LANE_LEAVING_REQUESTED:
        /* Update the lanes in use first, because the lane may just have come
         * up. */
        (void)mrail_peer_num_up(peer);
        mrail_evict_leave(lane, now_ns);
        break;
    case MRAIL_LANE_DRAINING ... MRAIL_LANE_DRAINING_REQUESTED:
        mrail_evict_drain(lane, now_ns);
        break;
    case MRAIL_LANE_RESTORING:
        mrail_evict_restore(lane);
        break;
    case MRAIL_LANE_REAPING:
        mrail_evict_reap(lane);
        break;
    default:
        __atomic_fetch_and(&peer->evict_mask, ~(1ull << slot),
                           __ATOMIC_RELEASE);
        break;
    }
}

void mrail_evict_check(mrail_peer_t *peer, mrail_ns_t now_ns)
{
    uint64_t mask = __atomic_load_n(&peer->evict_mask, __ATOMIC_ACQUIRE);

    mrail_data_ctl_lock(peer->engine);
    mrail_for_each_slot(slot, mask) {
        mrail_evict_step(peer, slot, now_ns);
    }
    mrail_data_ctl_unlock(peer->engine);
}
