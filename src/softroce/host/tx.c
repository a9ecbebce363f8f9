/*
 * Decides when a queue pair may send. Before it pulls a run of packets from the
 * core
 *
 *   1. it reserves the bytes at the egress rate of this device and at the
 *      ingress rate of the destination (rate.h), which yields the departure
 *      time;
 *   2. it reserves socket-buffer credit of the destination process, for at
 *      least one packet.
 *
 * As a result, no packet can overflow a socket, and every packet that was
 * pulled can be sent. A UD packet's destination is known only after the pull.
 * If credit is short then, a copy of the packet waits.
 */
#include "config.h"
#include "softroce/host/host.h"

#include "softroce/host/egress.h"
#include "softroce/host/rate.h"

#include <stdlib.h>
#include <string.h>

/* A queue pair without credit retries after a fraction of the time that it has
 * waited so far. If the receiver makes progress, the retry thus comes soon. If
 * many senders have waited for a long time, retries are rare, because frequent
 * retries would deprive the receiver of its core. */
#define TX_CREDIT_RETRY_PART 8
#define TX_CREDIT_RETRY_NS (5 * MRAIL_NS_PER_US)
#define TX_CREDIT_RETRY_MAX_NS (250 * MRAIL_NS_PER_US)
/* Time limit for sending the requests that are still queued on a queue pair
 * that is being destroyed. */
#define TX_FINISH_NS (500 * MRAIL_NS_PER_US)
/* Maximum number of runs per call, so that the call returns and packets are
 * received again. */
#define TX_MAX_RUNS 8

typedef enum tx_result {
    TX_SENT, /* call again */
    TX_IDLE, /* nothing to send */
    TX_WAIT  /* wait until qp->wake_ns */
} tx_result_t;

static unsigned tx_slot_of(uint32_t qpn)
{
    return (qpn & 0xffffff) >> SROCE_SESSION_QPN_BITS;
}

/* ---- The next run of a queue pair ---- */

static void tx_set_sched(sroce_host_qp_t *qp, sroce_host_qp_sched_t sched)
{
    sroce_host_ctx_t *ctx = qp->ctx;

    mrail_list_del(&qp->list);
    qp->sched = sched;
    if (sched == SROCE_QP_SCHED_READY) {
        mrail_list_add_tail(&ctx->ready, &qp->list);
    } else if (sched == SROCE_QP_SCHED_WAITING) {
        mrail_list_add_tail(&ctx->waiting, &qp->list);
        ctx->next_wake_ns = MRAIL_MIN(ctx->next_wake_ns, qp->wake_ns);
    }
}

static tx_result_t tx_wait(sroce_host_qp_t *qp, sroce_counter_t reason,
                           mrail_ns_t until_ns)
{
    sroce_host_count(qp->ctx, reason, 1);
    qp->wake_ns = until_ns;
    return TX_WAIT;
}

static tx_result_t tx_wait_credit(sroce_host_qp_t *qp, mrail_ns_t now_ns)
{
    mrail_ns_t waited_ns =
        (qp->credit_since_ns != 0) ? now_ns - qp->credit_since_ns : 0;
    mrail_ns_t pause_ns =
        MRAIL_MAX(waited_ns / TX_CREDIT_RETRY_PART, TX_CREDIT_RETRY_NS);

    return tx_wait(qp, SROCE_CNT_WAIT_CREDIT,
                   now_ns + MRAIL_MIN(pause_ns, TX_CREDIT_RETRY_MAX_NS));
}

static void tx_refund(sroce_host_qp_t *qp, uint32_t bytes)
{
    sroce_session_dev_t *dest = sroce_host_session_dev(qp->dest_dev);

    sroce_rate_refund(&qp->ctx->sdev->egress, bytes);
    if (dest != NULL) {
        sroce_rate_refund(&dest->ingress, bytes);
    }
}

/* Reserves `bytes` in both directions and returns the departure time. */
static mrail_ns_t tx_reserve(sroce_host_qp_t *qp, uint32_t bytes,
                             mrail_ns_t now_ns)
{
    sroce_session_dev_t *dest = sroce_host_session_dev(qp->dest_dev);
    mrail_ns_t depth_ns =
        qp->backlogged ? SROCE_RATE_LATE_NS : SROCE_RATE_IDLE_NS;
    mrail_ns_t at_ns =
        sroce_rate_reserve(&qp->ctx->sdev->egress, bytes, depth_ns, now_ns);

    if (dest != NULL) {
        mrail_ns_t in_ns =
            sroce_rate_reserve(&dest->ingress, bytes, depth_ns, now_ns);

        at_ns = MRAIL_MAX(at_ns, in_ns);
    }
    return at_ns;
}

/* Returns the maximum bytes of a batch, which is at least one packet. */
static uint32_t tx_batch(const sroce_host_qp_t *qp, const sroce_txinfo_t *info)
{
    sroce_session_dev_t *dest = sroce_host_session_dev(qp->dest_dev);
    uint32_t bytes = MRAIL_MIN(info->run_bytes, SROCE_RUN_BYTES);

    bytes = sroce_rate_batch(&qp->ctx->sdev->egress, bytes);
    if (dest != NULL) {
        bytes = sroce_rate_batch(&dest->ingress, bytes);
    }
    return MRAIL_MAX(bytes, info->next_bytes);
}

static void tx_run_load(const sroce_host_qp_t *qp, unsigned dest_slot,
                        const sroce_txrun_t *run, sroce_egress_load_t *load)
{
    *load = (sroce_egress_load_t){.dst_ip = run->dst_ip,
                                  .dest_dev = qp->dest_dev,
                                  .dest_slot = dest_slot,
                                  .sport = run->sport,
                                  .tos = run->tos,
                                  .num_pkts = run->num_pkts,
                                  .seg_bytes = run->seg_bytes,
                                  .length = run->length,
                                  .iov = run->iov,
                                  .iov_count = run->iov_count};
}

/* Sends a run of an RC queue pair, whose destination is known before the pull.
 * *sent_p is set to the number of bytes pulled. */
static tx_result_t tx_pull_rc(sroce_host_qp_t *qp, const sroce_txinfo_t *info,
                              uint32_t max_bytes, mrail_ns_t now_ns,
                              uint32_t *sent_p)
{
    sroce_host_ctx_t *ctx = qp->ctx;
    unsigned slot = tx_slot_of(qp->dest_qpn);
    unsigned num = MRAIL_DIV_ROUND_UP(max_bytes, info->next_bytes);
    int in_session =
        (qp->dest_dev >= 0) && sroce_egress_dest_is_alive(qp->dest_dev, slot);
    sroce_egress_load_t load;

    num = MRAIL_MIN(num, SROCE_RUN_PKTS);
    if ((qp->dest_dev < 0) &&
        (sroce_host.session->flags & SROCE_SESSION_F_ICRC)) {
        /* Send single packets only. The kernel or the NIC would split a burst
         * and give its packets consecutive IPv4 identifications, which the ICRC
         * covers. */
        num = 1;
    }
    if (in_session) {
        num = sroce_credit_take_queued(qp, slot, info->next_bytes, num, now_ns);
        if (num == 0) {
            return tx_wait_credit(qp, now_ns);
        }
        max_bytes = MRAIL_MIN(max_bytes, num * info->next_bytes);
    }
    ctx->run.length = 0;
    ctx->run.num_pkts = 0;
    sroce_qp_pull(qp->core, now_ns, max_bytes, num, &ctx->run);
    if (in_session) {
        /* Credit may have been reserved for more or longer packets than the run
         * has. */
        sroce_credit_return(
            qp->dest_dev, slot,
            sroce_host_credit(num * info->next_bytes, num) -
                sroce_host_credit(ctx->run.length, ctx->run.num_pkts));
    }
    *sent_p = ctx->run.length;
    if (ctx->run.num_pkts == 0) {
        sroce_credit_commit(ctx);
        return TX_SENT;
    }
    tx_run_load(qp, slot, &ctx->run, &load);
    if ((qp->dest_dev >= 0) && !in_session) {
        sroce_egress_drop(ctx, &load, SROCE_CNT_DROP_NO_PEER, 0);
    } else {
        sroce_egress_send(ctx, &load, in_session, now_ns);
    }
    return TX_SENT;
}

/* Sends one packet of a UD queue pair, whose destination is known only from the
 * packet. */
static tx_result_t tx_pull_ud(sroce_host_qp_t *qp, const sroce_txinfo_t *info,
                              mrail_ns_t now_ns, uint32_t *sent_p)
{
    sroce_host_ctx_t *ctx = qp->ctx;
    sroce_egress_load_t load;
    unsigned slot;
    int in_session;

    ctx->run.length = 0;
    if (sroce_qp_pull(qp->core, now_ns, info->next_bytes, 1, &ctx->run) == 0) {
        *sent_p = 0;
        return TX_SENT;
    }
    *sent_p = ctx->run.length;
    slot = tx_slot_of(
        sroce_rx_dest_qpn(ctx->run.iov[0].iov_base, ctx->run.length));
    tx_run_load(qp, slot, &ctx->run, &load);
    in_session = (qp->dest_dev >= 0);
    if (in_session && !sroce_egress_dest_is_alive(qp->dest_dev, slot)) {
        sroce_egress_drop(ctx, &load, SROCE_CNT_DROP_NO_PEER, 0);
        return TX_SENT;
    }
    if (in_session &&
        (sroce_credit_take(ctx, qp->dest_dev, slot, load.length, 1) == 0)) {
        qp->held = sroce_egress_batch_create(&load);
        if (qp->held == NULL) {
            sroce_egress_drop(ctx, &load, SROCE_CNT_DROP_SEND, 0);
            return TX_SENT;
        }
        return tx_wait_credit(qp, now_ns);
    }
    sroce_egress_send(ctx, &load, in_session, now_ns);
    return TX_SENT;
}

static tx_result_t tx_pull(sroce_host_qp_t *qp, const sroce_txinfo_t *info,
                           uint32_t max_bytes, mrail_ns_t now_ns,
                           uint32_t *sent_p)
{
    return (qp->ibv.qp_type == IBV_QPT_UD)
               ? tx_pull_ud(qp, info, now_ns, sent_p)
               : tx_pull_rc(qp, info, max_bytes, now_ns, sent_p);
}

/* Sends a small packet, such as an acknowledgement, which overtakes the batch
 * that the queue pair is waiting to send. */
static tx_result_t tx_send_small(sroce_host_qp_t *qp,
                                 const sroce_txinfo_t *info, mrail_ns_t now_ns)
{
    sroce_session_dev_t *dest = sroce_host_session_dev(qp->dest_dev);
    tx_result_t result;
    uint32_t sent = 0;

    if ((info->next_bytes > SROCE_RATE_SMALL_BYTES) ||
        !sroce_rate_small_ready(&qp->ctx->sdev->egress, now_ns) ||
        ((dest != NULL) && !sroce_rate_small_ready(&dest->ingress, now_ns))) {
        qp->wake_ns = qp->departure_ns;
        return TX_WAIT;
    }
    tx_reserve(qp, info->next_bytes, now_ns);
    result = tx_pull(qp, info, info->next_bytes, now_ns, &sent);
    tx_refund(qp, info->next_bytes - sent);
    return result;
}

static tx_result_t tx_serve_qp(sroce_host_qp_t *qp, mrail_ns_t now_ns)
{
    sroce_host_ctx_t *ctx = qp->ctx;
    sroce_txinfo_t info;
    tx_result_t result;
    uint32_t max_bytes, sent = 0;

    if (MRAIL_UNLIKELY(qp->held != NULL)) {
        if (!sroce_egress_batch_send(ctx, qp->held, now_ns)) {
            return tx_wait_credit(qp, now_ns);
        }
        free(qp->held);
        qp->held = NULL;
    }
    if (!sroce_qp_peek(qp->core, now_ns, &info)) {
        if (qp->reserved_bytes != 0) {
            tx_refund(qp, qp->reserved_bytes);
            qp->reserved_bytes = 0;
        }
        qp->backlogged = 0;
        return TX_IDLE;
    }
    if (info.dst_ip != qp->dest_ip) {
        qp->dest_ip = info.dst_ip;
        qp->dest_dev = sroce_session_find(sroce_host.session, info.dst_ip);
    }
    if (qp->reserved_bytes == 0) {
        qp->reserved_bytes = tx_batch(qp, &info);
        qp->departure_ns = tx_reserve(qp, qp->reserved_bytes, now_ns);
        if (qp->departure_ns > now_ns) {
            return tx_wait(qp, SROCE_CNT_WAIT_RATE, qp->departure_ns);
        }
    } else if (qp->departure_ns > now_ns) {
        return tx_send_small(qp, &info, now_ns);
    }
    max_bytes = MRAIL_MAX(qp->reserved_bytes, info.next_bytes);
    result = tx_pull(qp, &info, max_bytes, now_ns, &sent);
    if (result == TX_SENT || (sent != 0)) {
        if (sent < qp->reserved_bytes) {
            tx_refund(qp, qp->reserved_bytes - sent);
        }
        qp->reserved_bytes = 0;
        qp->backlogged = 1;
    }
    return result;
}

void sroce_tx_activate(sroce_host_qp_t *qp)
{
    if (qp->sched == SROCE_QP_SCHED_IDLE) {
        tx_set_sched(qp, SROCE_QP_SCHED_READY);
    }
}

void sroce_tx_finish(sroce_host_qp_t *qp)
{
    mrail_ns_t until_ns = mrail_clock_now() + TX_FINISH_NS;
    mrail_ns_t now_ns;

    /* Send pending acknowledgements first. A NIC would send them in any case.
     * Here, the application may destroy the queue pair right after its last
     * completion, before they have been sent. */
    while ((qp->sched != SROCE_QP_SCHED_IDLE) &&
           ((now_ns = mrail_clock_now()) < until_ns)) {
        qp->ctx->recheck_waiting = 1;
        sroce_tx_progress(qp->ctx, now_ns);
    }
}

void sroce_tx_remove(sroce_host_qp_t *qp)
{
    tx_set_sched(qp, SROCE_QP_SCHED_IDLE);
    if (qp->reserved_bytes != 0) {
        tx_refund(qp, qp->reserved_bytes);
        qp->reserved_bytes = 0;
    }
    free(qp->held);
    qp->held = NULL;
}

/* Moves waiting queue pairs to `ready` once they are due. After a receive,
 * moves all of them, because they may have acknowledgements to send. */
static void tx_wake(sroce_host_ctx_t *ctx, mrail_ns_t now_ns)
{
    sroce_host_qp_t *qp, *tmp;
    int all = ctx->recheck_waiting;

    ctx->recheck_waiting = 0;
    if (!all && (ctx->next_wake_ns > now_ns)) {
        return;
    }
    ctx->next_wake_ns = MRAIL_NS_NEVER;
    mrail_list_for_each_safe(qp, tmp, &ctx->waiting, sroce_host_qp_t, list) {
        if (all || (qp->wake_ns <= now_ns)) {
            tx_set_sched(qp, SROCE_QP_SCHED_READY);
        } else {
            ctx->next_wake_ns = MRAIL_MIN(ctx->next_wake_ns, qp->wake_ns);
        }
    }
}

void sroce_tx_progress(sroce_host_ctx_t *ctx, mrail_ns_t now_ns)
{
    unsigned runs = 0;

    if (MRAIL_UNLIKELY(sroce_host_is_paused(ctx))) {
        return;
    }
    if (!mrail_list_empty(&ctx->delayed)) {
        sroce_egress_delayed(ctx, now_ns);
    }
    if (!mrail_list_empty(&ctx->waiting)) {
        tx_wake(ctx, now_ns);
    }
    while (!mrail_list_empty(&ctx->ready) && (runs < TX_MAX_RUNS)) {
        sroce_host_qp_t *qp =
            mrail_list_head(&ctx->ready, sroce_host_qp_t, list);

        switch (tx_serve_qp(qp, now_ns)) {
        case TX_IDLE:
            tx_set_sched(qp, SROCE_QP_SCHED_IDLE);
            break;
        case TX_WAIT:
            tx_set_sched(qp, SROCE_QP_SCHED_WAITING);
            break;
        case TX_SENT:
            tx_set_sched(qp, SROCE_QP_SCHED_READY);
            ctx->worked = 1;
            ++runs;
            break;
        }
    }
}

mrail_ns_t sroce_tx_deadline(const sroce_host_ctx_t *ctx)
{
    mrail_ns_t deadline = MRAIL_NS_NEVER;

    if (!mrail_list_empty(&ctx->ready)) {
        return 0;
    }
    if (!mrail_list_empty(&ctx->waiting)) {
        deadline = ctx->next_wake_ns;
    }
    if (!mrail_list_empty(&ctx->delayed)) {
        mrail_ns_t due =
            mrail_list_head(&ctx->delayed, sroce_host_batch_t, list)->due_ns;

        deadline = MRAIL_MIN(deadline, due);
    }
    return deadline;
}

void sroce_tx_cleanup(sroce_host_ctx_t *ctx)
{
    while (!mrail_list_empty(&ctx->delayed)) {
        sroce_host_batch_t *batch =
            mrail_list_head(&ctx->delayed, sroce_host_batch_t, list);

        mrail_list_del(&batch->list);
        free(batch);
    }
}
