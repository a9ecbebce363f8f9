/* Ifaces: entry of callers, inboxes, and progress over the CQs. */
#include "config.h"
#include "rail/engine.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* ---- completions ---- */

static void mrail_done_run(mrail_engine_t *engine, mrail_done_t *done)
{
    mrail_iface_t *iface = done->iface;
    mrail_op_t *op;

    assert(!engine->ctl_held);
    if (iface != NULL) {
        ++iface->num_called;
    }
    ++engine->num_events;
    if (done->kind == MRAIL_DONE_OP) {
        op = MRAIL_CONTAINER_OF(done, mrail_op_t, done);
        if ((op->unpack != NULL) && (done->status == 0)) {
            op->unpack(op->unpack_arg, op->bounce->hdr, op->length);
        }
    }
    if ((done->comp != NULL) && (iface != NULL)) {
        iface->params.complete(iface->params.arg, done->comp, done->status);
    }
    switch (done->kind) {
    case MRAIL_DONE_OP:
        mrail_op_release(engine, MRAIL_CONTAINER_OF(done, mrail_op_t, done));
        break;
    case MRAIL_DONE_FLUSH:
        mrail_pool_put(&engine->groups,
                       MRAIL_CONTAINER_OF(done, mrail_flush_group_t, done));
        break;
    }
}

static int mrail_done_is_silent(const mrail_done_t *done)
{
    if (done->comp != NULL) {
        return 0;
    }
    return (done->kind != MRAIL_DONE_OP) ||
           (MRAIL_CONTAINER_OF(done, mrail_op_t, done)->unpack == NULL);
}

void mrail_done_finish(mrail_engine_t *engine, mrail_done_t *done, int status)
{
    if ((done->iface != NULL) && (done->iface == engine->current)) {
        done->status = status;
        mrail_done_run(engine, done);
    } else {
        mrail_done_defer(engine, done, status);
    }
}

void mrail_done_defer(mrail_engine_t *engine, mrail_done_t *done, int status)
{
    done->status = status;
    if ((done->iface == NULL) || mrail_done_is_silent(done)) {
        mrail_done_run(engine, done);
    } else {
        mrail_list_add_tail(&done->iface->done, &done->list);
        mrail_wakeup_signal(done->iface);
    }
}

/* ---- progress ---- */

void mrail_peer_error(mrail_peer_t *peer, const char *cause)
{
    if (!__atomic_load_n(&peer->failed, __ATOMIC_RELAXED)) {
        mrail_warn("peer %016llx: %s", (unsigned long long)peer->id, cause);
    }
    mrail_ctl_peer_failed(peer, -ECONNRESET);
}

void mrail_lane_error(mrail_lane_t *lane, const char *cause)
{
    mrail_peer_t *peer = lane->peer;

    /* Further completions of a lane that was already given up are ignored. */
    if (!(peer->broken_mask & (1ull << lane->slot)) &&
        !__atomic_load_n(&peer->failed, __ATOMIC_RELAXED)) {
        mrail_failover_request(lane, cause);
    }
}

/* Returns 1 for errors that another lane would repeat, for example because a
 * key is not valid. "Local QP operation error" is not one of them: rdma_rxe
 * reports it if it finds no route. */
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

static void mrail_engine_send_done(mrail_engine_t *engine,
                                   const struct ibv_wc *wc, mrail_ns_t *now_ns)
{
    mrail_lane_t *lane;
    mrail_chunk_t *chunk;

    if (wc->wr_id & MRAIL_WR_MARKER) {
        lane = engine->lanes[(wc->wr_id >> 8) & 0xffff];
        if (MRAIL_UNLIKELY(lane == NULL)) {
            return; /* the QP of this lane is gone */
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
        if (!mrail_status_is_final(wc->status)) {
            /* Other lanes take over the work. */
        } else if ((chunk != NULL) && (chunk->op->kind != MRAIL_OP_VISIBLE)) {
            mrail_rma_reject(chunk->op, ibv_wc_status_str(wc->status));
        } else {
            mrail_peer_error(lane->peer, ibv_wc_status_str(wc->status));
        }
        mrail_lane_error(lane, ibv_wc_status_str(wc->status));
    }
    if (chunk != NULL) {
        if (*now_ns == 0) {
            *now_ns = mrail_clock_now();
        }
        mrail_rma_chunk_done(
            chunk, (wc->status == IBV_WC_SUCCESS) ? 0 : -ECONNRESET, *now_ns);
    }
}

/* With several rails, a rail without completions for this many polls is polled
 * only every eighth time. An empty poll costs time, and a small message uses
 * only one rail. */
#define MRAIL_RAIL_IDLE_POLLS 512

static int mrail_rail_skip(mrail_rail_t *rail, int only)
{
    if (!__atomic_load_n(&rail->has_lanes, __ATOMIC_RELAXED)) {
        return 1;
    }
    return (rail->idle >= MRAIL_RAIL_IDLE_POLLS) && !only &&
           ((++rail->idle & 7) != 0);
}

/* Notes that this rail delivers no more completions. The next check fails it
 * over. */
static void mrail_engine_cq_error(mrail_engine_t *engine, mrail_rail_t *rail)
{
    if (!__atomic_exchange_n(&rail->cq_failed, 1, __ATOMIC_RELAXED)) {
        __atomic_store_n(&engine->error_pending, 1, __ATOMIC_SEQ_CST);
    }
}

/* A callback may poll again. The inner call then continues with the batch of
 * the outer one, so completions stay in order. */
static unsigned mrail_engine_poll_rail(mrail_engine_t *engine, unsigned index,
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
            /* Without other work, a partial batch of buffers is posted. */
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

static void mrail_engine_check_peers(mrail_engine_t *engine)
{
    mrail_peer_t *peer;
    int status;

    __atomic_store_n(&engine->error_pending, 0, __ATOMIC_RELAXED);
    mrail_data_ctl_lock(engine);
    mrail_failover_check_rails(engine);
    for (unsigned i = 0; i < MRAIL_BUCKETS; ++i) {
        mrail_list_for_each(peer, &engine->buckets[i], mrail_peer_t, list) {
            status = __atomic_load_n(&peer->failed, __ATOMIC_ACQUIRE);
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
    }
    mrail_data_ctl_unlock(engine);
    mrail_control_thread_wake(engine);
}

/* Returns an endpoint whose failure was not reported to its user; NULL: there
 * is none. */
static mrail_ep_t *mrail_iface_next_failed(mrail_iface_t *iface)
{
    mrail_ep_t *ep;

    mrail_list_for_each(ep, &iface->eps, mrail_ep_t, list) {
        if ((ep->failed != 0) && !ep->failure_reported &&
            ((ep->peer->dead == 2) || ep->rejected)) {
            return ep;
        }
    }
    return NULL;
}

/* The callback may destroy any endpoint, so each search starts from the
 * beginning. */
static void mrail_iface_tell_failed(mrail_iface_t *iface)
{
    mrail_ep_t *ep;

    iface->has_rejected = 0;
    while ((ep = mrail_iface_next_failed(iface)) != NULL) {
        ep->failure_reported = 1;
        /* A regular BYE is not a failure. */
        if ((iface->params.ep_failed != NULL) && (ep->failed != -ESHUTDOWN)) {
            iface->params.ep_failed(iface->params.arg, ep, ep->failed);
        }
    }
}

/* Runs ep_failed before the operations fail: an MPI library ends the job at the
 * first failed operation, and the callback reports the reason. */
static void mrail_engine_end_peer(mrail_engine_t *engine, mrail_peer_t *peer)
{
    if (mrail_peer_try_end(peer)) {
        if (engine->current != NULL) {
            mrail_iface_tell_failed(engine->current);
        }
        mrail_peer_fail(peer, peer->failed);
    }
}

/* in_callback: a callback polls. The lane of its message must stay, so no
 * failover or eviction continues. */
static void mrail_engine_visit(mrail_engine_t *engine, mrail_ns_t *now_ns,
                               int in_callback)
{
    mrail_peer_t *peer, *tmp;
    /* A callback may poll again. Only the outermost call removes peers, because
     * `tmp` of an outer call must stay in the list. */
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
        if (MRAIL_UNLIKELY(peer->ack_due)) {
            mrail_am_add_pending_reply(peer);
        }
        mrail_rma_poll(peer, *now_ns);
        if (!mrail_list_empty(&peer->flushes_pending)) {
            mrail_flush_check(peer, *now_ns);
        }
        if (MRAIL_UNLIKELY(!mrail_evict_is_idle(peer)) && !in_callback &&
            !peer->dead) { /* a completion may just have ended the peer */
            mrail_evict_check(peer, *now_ns);
        }
        if (outermost && mrail_list_empty(&peer->uncut) &&
            mrail_list_empty(&peer->flushes_pending) &&
            mrail_evict_is_idle(peer) && !peer->recovering && !peer->ack_due) {
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

/* Delivers messages and completions that arrived while another iface was in
 * progress. */
static unsigned mrail_iface_empty_inbox(mrail_iface_t *iface)
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
    if (MRAIL_UNLIKELY(iface->has_rejected)) { /* before its operations fail */
        mrail_iface_tell_failed(iface);
    }
    if (MRAIL_UNLIKELY(!mrail_list_empty(&iface->inbox) ||
                       !mrail_list_empty(&iface->done))) {
        count = mrail_iface_empty_inbox(iface);
    }
    count += mrail_engine_poll(engine, iface);
    if (MRAIL_UNLIKELY((engine->num_dead != 0) || iface->has_rejected)) {
        mrail_iface_tell_failed(iface);
    }
    iface->seen_events = engine->total_events;
    /* UCP expects an iface without endpoints to report only its own events, and
     * not those of other ifaces of this process. */
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

/* ---- creation and destruction ---- */

int mrail_iface_create(mrail_engine_t *engine,
                       const mrail_iface_params_t *params,
                       mrail_iface_t **iface_p)
{
    mrail_iface_t *iface = calloc(1, sizeof(*iface));
    unsigned index = 0, others;

    if (iface == NULL) {
        return -ENOMEM;
    }
    iface->engine = engine;
    iface->params = *params;
    mrail_list_init(&iface->eps);
    mrail_list_init(&iface->inbox);
    mrail_list_init(&iface->done);
    iface->epoll_fd = iface->wake_fd = -1;

    pthread_mutex_lock(&engine->ctl_lock);
    others = engine->num_ifaces++;
    pthread_mutex_unlock(&engine->ctl_lock);
    if (others != 0) {
        /* Waits for a thread that holds the data-path lock and may need the
         * control lock, so the control lock must not be held here. */
        mrail_data_lock_share(&engine->data_lock);
    }
    pthread_mutex_lock(&engine->ctl_lock);
    while ((index < MRAIL_MAX_IFACES) && (engine->ifaces[index] != NULL)) {
        ++index;
    }
    if (index < MRAIL_MAX_IFACES) {
        iface->id = engine->next_iface[index];
        engine->next_iface[index] += MRAIL_MAX_IFACES;
        __atomic_store_n(&engine->ifaces[index], iface, __ATOMIC_RELEASE);
    } else {
        --engine->num_ifaces;
    }
    pthread_mutex_unlock(&engine->ctl_lock);
    if (index == MRAIL_MAX_IFACES) {
        mrail_error("more than %u interfaces in one process", MRAIL_MAX_IFACES);
        free(iface);
        return -EMFILE;
    }
    *iface_p = iface;
    return 0;
}

/* Detaches the iface's pending operations, which then complete without a
 * callback. */
static void mrail_iface_invalidate(mrail_iface_t *iface, mrail_peer_t *peer)
{
    mrail_flush_t *flush;
    mrail_op_t *op;

    mrail_list_for_each(op, &peer->ops, mrail_op_t, list) {
        if (op->done.iface == iface) {
            op->done.iface = NULL;
            op->unpack = NULL;
        }
    }
    mrail_list_for_each(flush, &peer->flushes_pending, mrail_flush_t, list) {
        if ((flush->group != NULL) && (flush->group->done.iface == iface)) {
            flush->group->done.iface = NULL;
        }
    }
}

void mrail_iface_destroy(mrail_iface_t *iface)
{
    mrail_engine_t *engine = iface->engine;
    mrail_peer_t *peer;

    mrail_iface_enter(iface);
    iface->params.complete = NULL;
    while (!mrail_list_empty(&iface->inbox)) {
        mrail_inbox_release(iface, mrail_inbox_take(iface));
    }
    while (!mrail_list_empty(&iface->done)) {
        mrail_done_t *done = mrail_list_head(&iface->done, mrail_done_t, list);

        mrail_list_del(&done->list);
        done->comp = NULL;
        if (done->kind == MRAIL_DONE_OP) { /* its memory must not be written
                                            * either */
            MRAIL_CONTAINER_OF(done, mrail_op_t, done)->unpack = NULL;
        }
        mrail_done_run(engine, done);
    }
    pthread_mutex_lock(&engine->ctl_lock);
    engine->ifaces[iface->id % MRAIL_MAX_IFACES] = NULL;
    --engine->num_ifaces;
    for (unsigned i = 0; i < MRAIL_BUCKETS; ++i) {
        mrail_list_for_each(peer, &engine->buckets[i], mrail_peer_t, list) {
            mrail_iface_invalidate(iface, peer);
        }
    }
    pthread_mutex_unlock(&engine->ctl_lock);
    mrail_iface_leave(iface);
    mrail_wakeup_close(iface);
    free(iface);
}

/* ---- addresses ---- */

size_t mrail_iface_addr_size(const mrail_iface_t *iface)
{
    return MRAIL_IFACE_ADDR_SIZE;
}

size_t mrail_device_addr_size(const mrail_engine_t *engine)
{
    return MRAIL_DEVICE_ADDR_SIZE;
}

/* Returns the rail that receives first messages. It rotates over the processes
 * of a node, so that their HELLOs do not all arrive on the first rail. */
static unsigned mrail_boot_rail(const mrail_engine_t *engine)
{
    return (unsigned)(engine->id % engine->num_rails);
}

void mrail_iface_addr_pack(const mrail_iface_t *iface, void *buffer)
{
    const mrail_engine_t *engine = iface->engine;
    mrail_wire_iface_addr_t addr = {
        .iface = iface->id,
        .ud_qpn = engine->rails[mrail_boot_rail(engine)].ud_qp->qp_num,
        .id = engine->id,
        .cookie = engine->cookie,
    };

    /* The address is constant, so it includes rails that are down. */
    addr.num_more = MRAIL_MIN(engine->num_rails - 1, MRAIL_ADDR_MORE_IPV4);
    for (unsigned i = 0; i < addr.num_more; ++i) {
        const mrail_rail_t *rail =
            &engine
                 ->rails[(mrail_boot_rail(engine) + 1 + i) % engine->num_rails];

        memcpy(addr.more[i].gid, rail->attr.gid, sizeof(addr.more[i].gid));
        addr.more[i].ud_qpn = rail->ud_qp->qp_num;
    }
    mrail_iface_addr_encode(&addr, buffer);
}

void mrail_device_addr_pack(const mrail_engine_t *engine, void *buffer)
{
    const mrail_rail_t *rail = &engine->rails[mrail_boot_rail(engine)];
    mrail_wire_device_addr_t addr = {
        .num_rails = (uint8_t)engine->num_rails,
        .rail = (uint8_t)rail->index,
        .subnet = rail->attr.subnet,
    };

    memcpy(addr.gid, rail->attr.gid, sizeof(addr.gid));
    mrail_device_addr_encode(&addr, buffer);
}

int mrail_addr_is_reachable(mrail_engine_t *engine, const void *device_addr,
                            const void *iface_addr)
{
    mrail_wire_device_addr_t device;
    mrail_wire_iface_addr_t iface;
    unsigned version;

    if ((mrail_device_addr_decode(&device, device_addr, &version) != 0) ||
        ((iface_addr != NULL) &&
         (mrail_iface_addr_decode(&iface, iface_addr, &version) != 0))) {
        if (!__atomic_exchange_n(&engine->version_warned, 1,
                                 __ATOMIC_RELAXED)) {
            mrail_warn("a peer's address is of version %u, this process's of "
                       "version %u: it is not reached through mrail; "
                       "use the same mrail on all nodes",
                       version, MRAIL_ADDR_VERSION);
        }
        return 0;
    }
    return 1;
}
