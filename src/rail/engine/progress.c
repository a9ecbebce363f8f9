/* Makes progress: handles completions on the rails, and the pending work of
 * peers. */
#include "config.h"
#include "rail/engine/engine.h"

#include "rail/conn/conn.h"
#include "rail/data/am_ack.h"
#include "rail/data/am_recv.h"
#include "rail/data/chunk.h"
#include "rail/data/done.h"
#include "rail/data/flush.h"
#include "rail/data/inbox.h"
#include "rail/data/put.h"
#include "rail/data/rma_cancel.h"
#include "rail/data/rma_pump.h"
#include "rail/data/rx.h"
#include "rail/recovery/recovery.h"
#include "rail/state/signals.h"
#include "rail/state/record.h"

#include <errno.h>
#include <sched.h>

/* With several rails, a rail without completions for this many polls is polled
 * only every eighth time. An empty poll costs time, and a small message uses
 * only one rail. */
#define MRAIL_RAIL_IDLE_POLLS 512

/* Returns 1 for errors that would recur on another lane, for example because of
 * an invalid key. "Local QP operation error" is not one of them, because
 * rdma_rxe reports it if it finds no route. */
static int mrail_status_is_final(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_ACCESS_ERR:
        return 1;
    default:
        return 0;
    }
}

/* Fails the operation whose request a device has rejected and would reject on
 * any lane. `lane` is the lane of the request, whose completion has set
 * sq_done. */
static MRAIL_DATA void mrail_engine_refused(mrail_lane_t *lane,
                                            mrail_chunk_t *chunk,
                                            const char *cause)
{
    mrail_tx_t *put =
        (chunk == NULL) ? mrail_put_find(lane, lane->sq_done) : NULL;

    if (put != NULL) {
        mrail_rma_reject_put(lane->peer, put, cause);
    } else if ((chunk != NULL) && (chunk->op->kind != MRAIL_OP_VISIBLE)) {
        mrail_rma_reject(chunk->op, cause);
    } else {
        mrail_peer_error(lane->peer, cause);
    }
}

static MRAIL_DATA void mrail_engine_send_done(mrail_engine_t *engine,
                                              const struct ibv_wc *wc,
                                              mrail_ns_t *now_ns)
{
    mrail_lane_t *lane;
    mrail_chunk_t *chunk;

    if (wc->wr_id & MRAIL_WR_MARKER) {
        lane = engine->lanes[(wc->wr_id >> 8) & 0xffff];
        if (MRAIL_UNLIKELY(lane == NULL)) {
            return; /* the QP of this lane has been destroyed */
        }
        lane->sq_done = (uint32_t)(wc->wr_id >> 24) + 1;
        chunk = NULL;
    } else {
        chunk = (mrail_chunk_t *)(uintptr_t)wc->wr_id;
        lane = chunk->lane;
        lane->sq_done = chunk->sq_index;
    }
    if (MRAIL_UNLIKELY(wc->status != IBV_WC_SUCCESS)) {
        ++engine->counters.cqe_errors;
        if (mrail_status_is_final(wc->status)) {
            mrail_engine_refused(lane, chunk,
                                 mrail_rail_status_text(wc->status));
        } /* otherwise, other lanes take over the work */
        mrail_lane_error(lane, mrail_rail_status_text(wc->status));
    } else {
        mrail_put_reap(lane);
    }
    if (chunk == NULL) {
        mrail_record_batch(lane, (wc->status == IBV_WC_SUCCESS) ? 0 : -EIO,
                           now_ns);
    } else {
        if (*now_ns == 0) {
            *now_ns = mrail_clock_now();
        }
        mrail_rma_chunk_done(
            chunk, (wc->status == IBV_WC_SUCCESS) ? 0 : -ECONNRESET, *now_ns);
    }
}

static int mrail_rail_skip(mrail_rail_t *rail, int only)
{
    if (!__atomic_load_n(&rail->has_lanes, __ATOMIC_RELAXED)) {
        return 1;
    }
    return (rail->idle >= MRAIL_RAIL_IDLE_POLLS) && !only &&
           ((++rail->idle & 7) != 0);
}

/* Records that the CQ of this rail has failed. The next check fails the rail
 * over. */
static void mrail_engine_cq_error(mrail_engine_t *engine, mrail_rail_t *rail)
{
    if (!__atomic_exchange_n(&rail->cq_failed, 1, __ATOMIC_RELAXED)) {
        __atomic_store_n(&engine->error_pending, 1, __ATOMIC_SEQ_CST);
    }
}

/* Polls one rail. A callback may poll again. The inner call then continues with
 * the batch of the outer call, so completions stay in order. */
static MRAIL_DATA unsigned mrail_engine_poll_rail(mrail_engine_t *engine,
                                                  unsigned index,
                                                  mrail_ns_t *now_ns)
{
    mrail_rail_t *rail = &engine->rails[index];
    unsigned count = 0;
    int n;

    if (MRAIL_LIKELY(rail->next_wc == rail->num_wc)) {
        n = mrail_rail_poll(rail);
        if (n <= 0) {
            if (MRAIL_UNLIKELY(n < 0)) {
                mrail_engine_cq_error(engine, rail);
            }
            ++rail->idle;
            /* The rail is idle, so post a partial batch of buffers. */
            mrail_rx_flush(engine, index);
            return 0;
        }
    }
    rail->idle = 0;
    while (rail->next_wc < rail->num_wc) {
        const struct ibv_wc *wc = &rail->wc[rail->next_wc++];

        ++count;
        if (!(wc->wr_id & MRAIL_WR_MARKER) && (wc->wr_id & MRAIL_WR_RECV)) {
            mrail_am_recv(engine,
                          (mrail_rx_t *)(uintptr_t)(wc->wr_id & ~MRAIL_WR_RECV),
                          wc);
        } else {
            mrail_engine_send_done(engine, wc, now_ns);
        }
    }
    return count;
}

static MRAIL_BOTH void mrail_engine_check_peer(mrail_peer_t *peer)
{
    int status = __atomic_load_n(&peer->failed, __ATOMIC_ACQUIRE);

    if ((status != 0) && !peer->dead) {
        mrail_peer_start_fail(peer, status);
        mrail_ctl_work(peer);
    } else if (__atomic_load_n(&peer->fail_mask, __ATOMIC_RELAXED) &&
               !peer->dead) {
        mrail_failover_start(peer);
    }
    if (!mrail_evict_is_idle(peer)) {
        mrail_peer_activate(peer);
    }
}

static MRAIL_DATA void mrail_engine_check_peers(mrail_engine_t *engine)
{
    mrail_peer_t *peer, *next;

    __atomic_store_n(&engine->error_pending, 0, __ATOMIC_RELAXED);
    mrail_data_ctl_lock(engine);
    mrail_failover_check_rails(engine);
    next = __atomic_exchange_n(&engine->check_first, NULL, __ATOMIC_ACQUIRE);
    while ((peer = next) != NULL) {
        next = peer->check_next;
        /* A change after this exchange lists the peer again. Earlier changes
         * are ordered before the check. */
        (void)__atomic_exchange_n(&peer->check_listed, 0, __ATOMIC_ACQ_REL);
        mrail_engine_check_peer(peer);
    }
    mrail_data_ctl_unlock(engine);
    mrail_control_thread_wake(engine);
}

/* Reports the failed endpoints of the iface. A callback may destroy any
 * endpoint, which also removes it from the list. */
static void mrail_iface_report_failed(mrail_iface_t *iface)
{
    while (!mrail_list_empty(&iface->failed_eps)) {
        mrail_ep_t *ep =
            mrail_list_head(&iface->failed_eps, mrail_ep_t, failed_list);

        mrail_list_del(&ep->failed_list);
        if (ep->failure_reported) {
            continue;
        }
        ep->failure_reported = 1;
        /* A regular BYE is not a failure. */
        if ((iface->params.ep_failed != NULL) && (ep->failed != -ESHUTDOWN)) {
            iface->params.ep_failed(iface->params.arg, ep, ep->failed);
        }
    }
}

/* Runs ep_failed before the operations fail, because the callback reports the
 * reason, and an MPI library aborts the job at the first failed operation. */
static MRAIL_DATA void mrail_engine_end_peer(mrail_engine_t *engine,
                                             mrail_peer_t *peer)
{
    if (mrail_peer_try_end(peer)) {
        if (engine->current != NULL) {
            mrail_iface_report_failed(engine->current);
        }
        mrail_peer_fail(peer, peer->failed);
    }
}

/* Visits the active peers. If the caller is a callback (in_callback), failovers
 * and evictions do not continue, because the lane of its message must
 * remain. */
static MRAIL_DATA void mrail_engine_visit(mrail_engine_t *engine,
                                          mrail_ns_t *now_ns, int in_callback)
{
    mrail_peer_t *peer, *tmp;
    /* A callback may poll again. Only the outermost call removes peers, because
     * `tmp` of an outer call must remain in the list. */
    int outermost = (engine->nesting++ == 0);

    if (*now_ns == 0) {
        *now_ns = mrail_clock_now();
    }
    mrail_list_for_each_safe(peer, tmp, &engine->active, mrail_peer_t, active) {
        if (MRAIL_UNLIKELY(peer->dead)) {
            mrail_engine_end_peer(engine, peer);
            if ((peer->dead == 2) && outermost) {
                mrail_list_del(&peer->active);
            }
            continue;
        }
        if (MRAIL_FAILOVER && MRAIL_UNLIKELY(peer->recovering) &&
            !in_callback) {
            mrail_failover_run(peer, *now_ns);
        }
        if (MRAIL_UNLIKELY(peer->am.ack_due)) {
            mrail_am_add_pending_reply(peer);
        }
        mrail_rma_poll(peer, *now_ns);
        if (!mrail_list_empty(&peer->flushes_pending)) {
            mrail_flush_check(peer, *now_ns);
        }
        if (MRAIL_UNLIKELY(!mrail_evict_is_idle(peer)) && !in_callback &&
            !peer->dead) { /* a callback above may have failed the peer */
            mrail_evict_check(peer, *now_ns);
        }
        if (outermost && mrail_list_empty(&peer->uncut) &&
            mrail_list_empty(&peer->flushes_pending) &&
            mrail_evict_is_idle(peer) && !peer->recovering &&
            !peer->am.ack_due) {
            mrail_list_del(&peer->active);
        }
    }
    --engine->nesting;
}

unsigned mrail_engine_poll(mrail_engine_t *engine, mrail_iface_t *current)
{
    mrail_iface_t *outer = engine->current;
    mrail_ns_t now_ns = 0; /* read at most once */

    engine->current = current;
    engine->num_events = 0;
    for (unsigned rail = 0; rail < engine->num_rails; ++rail) {
        if (!mrail_rail_skip(&engine->rails[rail], engine->num_rails == 1)) {
            engine->num_events += mrail_engine_poll_rail(engine, rail, &now_ns);
        }
    }
    if (MRAIL_UNLIKELY(
            __atomic_load_n(&engine->error_pending, __ATOMIC_RELAXED))) {
        mrail_engine_check_peers(engine);
    }
    if (!mrail_list_empty(&engine->active)) {
        mrail_engine_visit(engine, &now_ns, outer != NULL);
    }
    if (!mrail_list_empty(&engine->acks)) {
        mrail_am_send_acks(engine);
    }
    if (MRAIL_UNLIKELY(engine->reap_pending) && (outer == NULL)) {
        mrail_peer_reap(engine);
    }
    engine->total_events += engine->num_events;
    if (mrail_data_lock_is_shared(&engine->data_lock) &&
        (engine->num_events != 0)) {
        mrail_wakeup_all(engine, MRAIL_ARMED_ANY);
    }
    engine->current = outer;
    return engine->num_events;
}

/* Delivers messages and completions that arrived while another iface was making
 * progress. */
static MRAIL_DATA unsigned mrail_iface_empty_inbox(mrail_iface_t *iface)
{
    mrail_engine_t *engine = iface->engine;
    mrail_iface_t *outer = engine->current;
    unsigned count = 0;

    engine->current = iface;
    while (!mrail_list_empty(&iface->inbox)) {
        mrail_rx_t *rx = mrail_inbox_take(iface);

        ++iface->num_called;
        iface->params.am(iface->params.arg, rx->hdr->am_id, rx->hdr + 1,
                         rx->length);
        mrail_inbox_release(iface, rx);
        ++count;
    }
    while (!mrail_list_empty(&iface->done)) {
        mrail_done_t *done = mrail_list_head(&iface->done, mrail_done_t, list);

        mrail_list_del(&done->list);
        mrail_done_run(engine, done);
        ++count;
    }
    for (unsigned rail = 0; rail < engine->num_rails; ++rail) {
        mrail_rx_flush(engine, rail);
    }
    engine->current = outer;
    return count;
}

unsigned mrail_iface_progress(mrail_iface_t *iface)
{
    mrail_engine_t *engine = iface->engine;
    unsigned count = 0, called;

    if (mrail_data_lock_is_wanted(&engine->data_lock) && (iface->depth == 0)) {
        sched_yield();
        return 0;
    }
    mrail_iface_enter(iface);
    iface->seen_changes =
        __atomic_load_n(&engine->num_changes, __ATOMIC_ACQUIRE);
    called = iface->num_called;
    if (MRAIL_UNLIKELY(!mrail_list_empty(&iface->failed_eps))) {
        mrail_iface_report_failed(iface); /* before their operations fail */
    }
    if (MRAIL_UNLIKELY(!mrail_list_empty(&iface->inbox) ||
                       !mrail_list_empty(&iface->done))) {
        count = mrail_iface_empty_inbox(iface);
    }
    count += mrail_engine_poll(engine, iface);
    if (MRAIL_UNLIKELY(!mrail_list_empty(&iface->failed_eps))) {
        mrail_iface_report_failed(iface);
    }
    iface->seen_events = engine->total_events;
    /* UCP expects an iface without endpoints to report only its own events, not
     * the events of other ifaces of this process. */
    if (mrail_list_empty(&iface->eps)) {
        count = iface->num_called - called;
    }
    mrail_iface_leave(iface);
    return count;
}

uint64_t mrail_iface_activity(const mrail_iface_t *iface)
{
    return iface->seen_events + iface->seen_changes;
}
