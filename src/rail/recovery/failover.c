/*
 * Implements failover: closes a failed lane and replays the work that it did
 * not deliver. docs/failover.md describes the protocol and its invariants.
 *
 * A thread that holds either lock requests a failover through fail_mask. The
 * rest runs under both locks, on a progress thread or, while the process does
 * not call the library, on the control thread.
 */
#include "config.h"
#include "rail/recovery/recovery.h"

#include "rail/conn/conn.h"
#include "rail/data/am_replay.h"
#include "rail/data/flush.h"
#include "rail/data/peer_lanes.h"
#include "rail/data/rma_replay.h"
#include "rail/data/rx.h"
#include "rail/state/signals.h"
#include "telemetry/page.h"

#include <errno.h>

/* Time after which a QP in the error state counts as drained, for devices that
 * do not report the Last WQE Reached event. */
#define MRAIL_CLOSE_GRACE (10 * MRAIL_NS_PER_MS)

/* Time after which a QP in the error state is destroyed, although the device
 * has not returned all requests. */
#define MRAIL_CLOSE_LIMIT (1 * MRAIL_NS_PER_SEC)

/* Time within which a lane on a path that had failed must complete one READ. */
#define MRAIL_PATH_VALIDATION_LIMIT (1 * MRAIL_NS_PER_SEC)

/* Holds back new work like a fence, because it must not overtake missing data.
 * A pending fence loses its ordered lane, which may be the one that failed. */
static MRAIL_DATA void mrail_failover_barrier(mrail_peer_t *peer)
{
    if (!peer->recovering) {
        peer->recovering = 1;
        ++peer->num_fences;
        __atomic_fetch_add(&peer->engine->num_recovering, 1, __ATOMIC_RELAXED);
    }
    peer->ordered_lane = NULL;
    peer->ordered_lane_closed = 1;
    mrail_flush_again(peer);
    mrail_peer_activate(peer);
}

/* Detaches messages that wait for delivery. They are still delivered, but do
 * not return credits to the lane. Until delivery, their buffers are missing
 * from the SRQ. */
static void mrail_failover_disown_list(const mrail_list_t *list,
                                       mrail_lane_t *lane)
{
    mrail_rx_t *rx;

    mrail_list_for_each(rx, list, mrail_rx_t, am.list) {
        if (rx->lane != lane) {
            continue;
        }
        rx->lane = NULL;
        if ((rx->rail != NULL) && (lane->buffers != 0)) {
            rx->orphan = 1;
            --lane->buffers;
        }
    }
}

void mrail_failover_disown(mrail_lane_t *lane)
{
    mrail_engine_t *engine = lane->peer->engine;

    mrail_rx_flush(engine, lane->rail->index);
    mrail_failover_disown_list(&lane->peer->am.hold, lane);
    for (unsigned i = 0; i < MRAIL_MAX_IFACES; ++i) {
        if (engine->ifaces[i] != NULL) {
            mrail_failover_disown_list(&engine->ifaces[i]->inbox, lane);
        }
    }
}

void mrail_lane_stop(mrail_lane_t *lane)
{
    if ((lane->qp == NULL) || (mrail_qp_to_error(lane->qp) == 0) ||
        lane->rail->fatal) { /* all calls to a lost device fail */
        return;
    }
    mrail_warn("%s:%u: cannot move qp 0x%x to the error state; destroyed it",
               lane->rail->attr.device, lane->rail->attr.port,
               lane->qp->qp_num);
    mrail_failover_disown(lane);
    mrail_lane_destroy_qp(lane);
}

int mrail_lane_is_overdue(const mrail_lane_t *lane, mrail_ns_t now_ns)
{
    return (lane->qp != NULL) && (lane->sq_posted != lane->sq_done) &&
           (now_ns >= lane->close_ns + MRAIL_CLOSE_LIMIT) &&
           !mrail_rail_fetch(lane->rail);
}

void mrail_lane_give_up_qp(mrail_lane_t *lane)
{
    mrail_warn("%s:%u: the device has not returned all requests of qp 0x%x; "
               "destroyed it",
               lane->rail->attr.device, lane->rail->attr.port,
               lane->qp->qp_num);
    mrail_failover_disown(lane);
    mrail_lane_destroy_qp(lane);
    lane->last_cqe.is_set = 0;
}

static MRAIL_BOTH void mrail_failover_close(mrail_lane_t *lane)
{
    mrail_peer_t *peer = lane->peer;
    uint64_t bit = 1ull << lane->slot;
    const char *cause =
        lane->confirm_wanted ? "requested by the peer" : "failed";

    if (!(mrail_lane_event(lane, MRAIL_LANE_EV_BREAK, cause) &
          MRAIL_LANE_DO_EXCHANGE)) {
        return;
    }
    mrail_path_event(peer, lane->slot, MRAIL_HEALTH_CQE_ERROR,
                     mrail_clock_now());
    __atomic_fetch_and(&peer->fail_mask, ~bit, __ATOMIC_RELAXED);
    mrail_page_event(peer->engine->page,
                     "%s:%u: lane %u to peer %016llx closing (%s)",
                     lane->rail->attr.device, lane->rail->attr.port, lane->slot,
                     (unsigned long long)peer->id, cause);
    ++peer->engine->counters.lanes_failed;
    mrail_peer_clear_up(peer, bit);
    __atomic_fetch_and(&peer->evict_mask, ~bit, __ATOMIC_RELEASE);
    peer->broken_mask |= bit;
    lane->last_cqe.is_set = 0;       /* an eviction may have set it */
    mrail_list_del(&lane->ack_list); /* replies use another lane */
    mrail_lane_stop(lane);
    lane->close_ns = mrail_clock_now();
    mrail_failover_barrier(peer);
    mrail_peer_refresh(peer);
}

void mrail_failover_start(mrail_peer_t *peer)
{
    uint64_t mask = __atomic_exchange_n(&peer->fail_mask, 0, __ATOMIC_ACQUIRE);

    mrail_for_each_slot(slot, mask) {
        if (peer->lanes[slot] != NULL) {
            mrail_failover_close(peer->lanes[slot]);
        }
    }
}

/* Abandons the requests of a lane whose device is lost or whose QP has been
 * destroyed, because they will not complete. Destroys the QP first, so that the
 * device no longer reads or writes memory for the lane. Returns 1 when this is
 * done, and 0 if it is too early. */
static MRAIL_BOTH int mrail_failover_abandon(mrail_lane_t *lane,
                                             mrail_ns_t now_ns)
{
    if (((lane->qp != NULL) && (now_ns < lane->close_ns + MRAIL_CLOSE_GRACE)) ||
        !mrail_rail_is_drained(lane->rail, &lane->last_cqe)) {
        return 0;
    }
    if (lane->qp != NULL) {
        mrail_lane_destroy_qp(lane);
        lane->last_cqe.is_set = 0;
        return 0; /* the last completions of the QP may follow */
    }
    mrail_rma_abandon(lane, now_ns);
    lane->sq_done = lane->sq_posted;
    return 1;
}

/* Returns 1 if the device has returned all requests, and all completions have
 * been handled. */
static MRAIL_BOTH int mrail_failover_is_drained(mrail_lane_t *lane,
                                                mrail_ns_t now_ns)
{
    if (lane->rail->fatal || (lane->qp == NULL)) {
        return mrail_failover_abandon(lane, now_ns);
    }
    mrail_lane_drain(lane);
    if (mrail_lane_is_overdue(lane, now_ns)) {
        mrail_lane_give_up_qp(lane);
        return 0;
    }
    return (lane->sq_posted == lane->sq_done) &&
           (__atomic_load_n(&lane->last_wqe, __ATOMIC_ACQUIRE) ||
            (now_ns >= lane->close_ns + MRAIL_CLOSE_GRACE)) &&
           mrail_rail_is_drained(lane->rail, &lane->last_cqe);
}

/* Completes the failover after both ends have closed the lane. */
static MRAIL_BOTH void mrail_failover_complete(mrail_lane_t *lane)
{
    mrail_peer_t *peer = lane->peer;

    mrail_am_stream_lose(&peer->am, &lane->am, lane->peer_has);
    mrail_rma_take_lost(lane);
    mrail_failover_disown(lane);
    /* An ACK_REQ or its answer may have been lost with the lane, so the request
     * is repeated. An earlier repeat would be useless, because the answer could
     * be lost until the peer has closed its end. */
    peer->am.ack_requested = 0;
    peer->broken_mask &= ~(1ull << lane->slot);
    mrail_lane_retire(lane, MRAIL_LANE_EV_REPLAY, "closed by both ends");
    mrail_ctl_work(peer);
}

static MRAIL_BOTH void mrail_failover_step(mrail_lane_t *lane,
                                           mrail_ns_t now_ns)
{
    mrail_peer_t *peer = lane->peer;

    /* If no send buffer is free for the answer, the next check retries. */
    if ((lane->state != MRAIL_LANE_CLOSED) &&
        (lane->state != MRAIL_LANE_BOTH_CLOSED) &&
        mrail_failover_is_drained(lane, now_ns) &&
        (!lane->confirm_wanted ||
         (mrail_ctl_send_confirm(peer, lane->slot, lane->epoch,
                                 lane->peer_request,
                                 lane->am.received) != -EAGAIN))) {
        mrail_lane_event(lane, MRAIL_LANE_EV_CLOSE, "drained");
    }
    if (lane->state == MRAIL_LANE_BOTH_CLOSED) {
        mrail_failover_complete(lane);
    }
}

/* Posts the READ outside any operation, so that no fence or flush waits for
 * it. */
static MRAIL_DATA int mrail_failover_post_validation(mrail_lane_t *lane)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)(lane->rail->flush_page + 1),
        .length = sizeof(uint64_t),
        .lkey = lane->rail->flush_mr->lkey,
    };
    struct ibv_send_wr wr = {
        .wr_id = mrail_lane_marker(lane),
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_READ,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr =
                        lane->peer->rails[lane->remote_rail].flush_addr,
                    .rkey = lane->peer->flush_rkey.rkey[lane->remote_rail]},
    };

    return mrail_lane_post(lane, &wr);
}

void mrail_failover_validate(mrail_lane_t *lane, mrail_ns_t now_ns)
{
    if (lane->state == MRAIL_LANE_UNVALIDATED) {
        mrail_lane_event(lane, MRAIL_LANE_EV_VALIDATE, "its path had failed");
        lane->validation_ns = now_ns;
        mrail_stall_wake(lane->peer);
        if (mrail_failover_post_validation(lane) != 0) {
            mrail_failover_request(lane, "its QP accepts no requests");
        }
    } else if (lane->sq_posted == lane->sq_done) {
        mrail_lane_event(lane, MRAIL_LANE_EV_VALIDATED, "a READ has completed");
        mrail_ctl_lane_join(lane);
    } else if (now_ns >= lane->validation_ns + MRAIL_PATH_VALIDATION_LIMIT) {
        mrail_failover_request(lane, "a READ has not completed in time");
    }
}

void mrail_failover_end(mrail_peer_t *peer)
{
    if (peer->recovering) {
        peer->recovering = 0;
        __atomic_fetch_sub(&peer->engine->num_recovering, 1, __ATOMIC_RELAXED);
        mrail_flush_open(peer);
        /* Operations that could not start during the recovery may now succeed. */
        __atomic_fetch_add(&peer->engine->num_changes, 1, __ATOMIC_SEQ_CST);
        mrail_wakeup_all(peer->engine, MRAIL_ARMED_ANY);
    }
}

void mrail_failover_run(mrail_peer_t *peer, mrail_ns_t now_ns)
{
    mrail_data_ctl_lock(peer->engine);
    mrail_for_each_slot(slot, peer->broken_mask) {
        mrail_failover_step(peer->lanes[slot], now_ns);
    }
    mrail_data_ctl_unlock(peer->engine);
    mrail_rma_finish_arrived(peer);
    if (peer->dead) {
        return; /* a callback has failed the peer */
    }
    mrail_am_replay(peer);
    mrail_rma_replay(peer, now_ns);
    if ((peer->broken_mask == 0) && mrail_list_empty(&peer->am.replay) &&
        mrail_list_empty(&peer->replay_rma) &&
        mrail_list_empty(&peer->lost_puts)) {
        mrail_failover_end(peer);
    }
}
