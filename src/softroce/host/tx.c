/*
 * When a queue pair may send.  Before a run of packets is pulled from the core
 *
 *   1. its bytes are reserved at this device's egress and at the destination's
 *      ingress rate (rate.h): this gives the time at which it may leave;
 *   2. then socket-buffer credit of the destination process is taken, as much
 *      as there is, at least for one packet.
 *
 * So nothing is sent that could overflow a socket, and nothing is pulled that
 * cannot be sent.  A UD packet names its destination only after it was pulled:
 * it is kept as a copy when there is no credit.
 */
#include "config.h"
#include "softroce/host/host.h"

#include "softroce/host/rate.h"

#include <stdlib.h>
#include <string.h>

/* A queue pair that found no credit asks again after a part of the time it has
 * waited: soon when the receiver is at work, and seldom when many wait and the
 * asking would take the processor from the receiver. */
#define TX_CREDIT_RETRY_PART 8
#define TX_CREDIT_RETRY_NS (5 * MRAIL_NS_PER_US)
#define TX_CREDIT_RETRY_MAX_NS (250 * MRAIL_NS_PER_US)
/* Most time to send what a queue pair that is destroyed has left. */
#define TX_FINISH_NS (500 * MRAIL_NS_PER_US)
/* Runs of one round, so that receiving gets its turn. */
#define TX_RUNS_PER_ROUND 8
#define TX_DELAY_MAX_BYTES (64u << 20)

typedef enum tx_result {
    TX_SENT, /* ask again */
    TX_IDLE, /* nothing to send */
    TX_WAIT  /* not before qp->wake_ns */
} tx_result_t;

static unsigned tx_slot_of(uint32_t qpn)
{
    return (qpn & 0xffffff) >> SROCE_SESSION_QPN_BITS;
}

static int tx_dest_lives(int dest_dev, unsigned dest_slot)
{
    return sroce_host_session_dev(dest_dev)->slots[dest_slot].state ==
           SROCE_SLOT_LIVE;
}

/* ---- Out of the door: loss, delay, port state ---- */

/* What is sent: header of the core's run, or of a parcel. */
typedef struct tx_load {
    uint32_t dst_ip;
    int dest_dev;
    unsigned dest_slot;
    uint16_t sport;
    uint8_t tos;
    uint16_t num_pkts;
    uint16_t seg_bytes;
    uint32_t length;
    const struct iovec *iov;
    unsigned iov_count;
} tx_load_t;

static void tx_load_drop(sroce_host_ctx_t *ctx, const tx_load_t *load,
                         sroce_counter_t reason, int has_credit)
{
    sroce_host_count(ctx, reason, load->num_pkts);
    if (has_credit) {
        sroce_credit_return(load->dest_dev, load->dest_slot,
                            sroce_host_credit(load->length, load->num_pkts));
        sroce_credit_settle(ctx);
    }
}

/* Sends with the credit that was taken for it (none outside). */
static void tx_load_send(sroce_host_ctx_t *ctx, const tx_load_t *load,
                         int has_credit)
{
    if (sroce_net_send(ctx, load->dst_ip, load->sport, load->tos,
                       load->seg_bytes, load->num_pkts, load->iov,
                       load->iov_count) != 0) {
        tx_load_drop(ctx, load, SROCE_CNT_DROP_SEND, has_credit);
        return;
    }
    if (has_credit) {
        sroce_credit_settle(ctx);
    }
    sroce_host_count(ctx, SROCE_CNT_TX_PACKETS, load->num_pkts);
    sroce_host_count(ctx, SROCE_CNT_TX_BYTES, load->length);
}

static sroce_host_parcel_t *tx_parcel_create(const tx_load_t *load)
{
    sroce_host_parcel_t *parcel = malloc(sizeof(*parcel) + load->length);
    uint8_t *p;

    if (parcel == NULL) {
        return NULL;
    }
    mrail_list_init(&parcel->list);
    parcel->due_ns = 0;
    parcel->dst_ip = load->dst_ip;
    parcel->dest_dev = load->dest_dev;
    parcel->dest_slot = load->dest_slot;
    parcel->sport = load->sport;
    parcel->tos = load->tos;
    parcel->num_pkts = load->num_pkts;
    parcel->seg_bytes = load->seg_bytes;
    parcel->length = load->length;
    p = parcel->data;
    for (unsigned i = 0; i < load->iov_count; ++i) {
        memcpy(p, load->iov[i].iov_base, load->iov[i].iov_len);
        p += load->iov[i].iov_len;
    }
    return parcel;
}

static void tx_parcel_load(const sroce_host_parcel_t *parcel, struct iovec *iov,
                           tx_load_t *load)
{
    iov->iov_base = (void *)parcel->data;
    iov->iov_len = parcel->length;
    *load = (tx_load_t){.dst_ip = parcel->dst_ip,
                        .dest_dev = parcel->dest_dev,
                        .dest_slot = parcel->dest_slot,
                        .sport = parcel->sport,
                        .tos = parcel->tos,
                        .num_pkts = parcel->num_pkts,
                        .seg_bytes = parcel->seg_bytes,
                        .length = parcel->length,
                        .iov = iov,
                        .iov_count = 1};
}

/* Takes the packets out that the dice hit; what is left stays in order. */
static void tx_parcel_lose(sroce_host_ctx_t *ctx, sroce_host_parcel_t *parcel,
                           uint32_t loss_ppm)
{
    uint32_t kept = 0;
    uint16_t num = 0;

    for (uint32_t pos = 0; pos < parcel->length; pos += parcel->seg_bytes) {
        uint32_t length = MRAIL_MIN(parcel->seg_bytes, parcel->length - pos);

        if (mrail_rng_hit(&ctx->rng, loss_ppm)) {
            sroce_host_count(ctx, SROCE_CNT_DROP_LOSS, 1);
            continue;
        }
        memmove(parcel->data + kept, parcel->data + pos, length);
        kept += length;
        ++num;
    }
    parcel->length = kept;
    parcel->num_pkts = num;
}

static void tx_delay_add(sroce_host_ctx_t *ctx, sroce_host_parcel_t *parcel)
{
    mrail_list_t *pos = &ctx->delayed;

    /* Nearly always the last: only a setting that was just lowered, or
     * another destination's, comes before. */
    while ((pos->prev != &ctx->delayed) &&
           (mrail_list_entry(pos->prev, sroce_host_parcel_t, list)->due_ns >
            parcel->due_ns)) {
        pos = pos->prev;
    }
    mrail_list_insert_before(pos, &parcel->list);
    ctx->delayed_bytes += parcel->length;
}

/* Loss and delay work on a copy: they are for tests, not for speed. */
static void tx_load_disturb(sroce_host_ctx_t *ctx, const tx_load_t *load,
                            uint32_t loss_ppm, uint32_t delay_us,
                            int has_credit, mrail_ns_t now_ns)
{
    sroce_host_parcel_t *parcel = tx_parcel_create(load);
    struct iovec iov;
    tx_load_t rest;
    int64_t lost;

    if ((parcel == NULL) ||
        (ctx->delayed_bytes + load->length > TX_DELAY_MAX_BYTES)) {
        tx_load_drop(ctx, load, SROCE_CNT_DROP_DELAY, has_credit);
        free(parcel);
        return;
    }
    tx_parcel_lose(ctx, parcel, loss_ppm);
    tx_parcel_load(parcel, &iov, &rest);
    /* A parcel in the delay line has no credit: it takes it when it leaves,
     * or a long delay would hold up the receiver's whole buffer. */
    lost = sroce_host_credit(load->length, load->num_pkts);
    if (delay_us == 0) {
        lost -= sroce_host_credit(rest.length, rest.num_pkts);
    }
    if (has_credit) {
        sroce_credit_return(load->dest_dev, load->dest_slot, lost);
    }
    if (rest.num_pkts == 0) {
        sroce_credit_settle(ctx);
        free(parcel);
    } else if (delay_us != 0) {
        sroce_credit_settle(ctx);
        parcel->due_ns = now_ns + delay_us * MRAIL_NS_PER_US;
        tx_delay_add(ctx, parcel);
    } else {
        tx_load_send(ctx, &rest, has_credit);
        free(parcel);
    }
}

static void tx_load_emit(sroce_host_ctx_t *ctx, const tx_load_t *load,
                         int has_credit, mrail_ns_t now_ns)
{
    const sroce_session_dev_t *dest = sroce_host_session_dev(load->dest_dev);
    uint32_t loss_ppm = ctx->sdev->loss_ppm;
    uint32_t delay_us = ctx->sdev->delay_us;

    if (ctx->sdev->down || ((dest != NULL) && dest->down)) {
        tx_load_drop(ctx, load, SROCE_CNT_DROP_DOWN, has_credit);
        return;
    }
    if (dest != NULL) {
        loss_ppm = MRAIL_MIN(loss_ppm + dest->loss_ppm, 1000000u);
        delay_us += dest->delay_us;
    }
    if (MRAIL_UNLIKELY((loss_ppm | delay_us) != 0)) {
        tx_load_disturb(ctx, load, loss_ppm, delay_us, has_credit, now_ns);
        return;
    }
    tx_load_send(ctx, load, has_credit);
}

/* Sends a parcel if its destination has credit for all of it; 0: not now. */
static int tx_parcel_try(sroce_host_ctx_t *ctx, sroce_host_parcel_t *parcel)
{
    int inside = (parcel->dest_dev >= 0);
    struct iovec iov;
    tx_load_t load;
    unsigned got;

    tx_parcel_load(parcel, &iov, &load);
    if (inside && !tx_dest_lives(parcel->dest_dev, parcel->dest_slot)) {
        tx_load_drop(ctx, &load, SROCE_CNT_DROP_NO_PEER, 0);
        return 1;
    }
    if (inside) {
        int64_t credit;

        got = sroce_credit_take(ctx, parcel->dest_dev, parcel->dest_slot,
                                parcel->seg_bytes, parcel->num_pkts);
        credit = sroce_host_credit(got * parcel->seg_bytes, got);
        if (got < parcel->num_pkts) {
            sroce_credit_return(parcel->dest_dev, parcel->dest_slot, credit);
            sroce_credit_settle(ctx);
            return 0;
        }
        /* Charged as full packets; the last one's difference goes back. */
        sroce_credit_return(
            parcel->dest_dev, parcel->dest_slot,
            credit - sroce_host_credit(parcel->length, parcel->num_pkts));
    }
    tx_load_send(ctx, &load, inside);
    return 1;
}

static void tx_delay_round(sroce_host_ctx_t *ctx, mrail_ns_t now_ns)
{
    while (!mrail_list_empty(&ctx->delayed)) {
        sroce_host_parcel_t *parcel =
            mrail_list_head(&ctx->delayed, sroce_host_parcel_t, list);

        if ((parcel->due_ns > now_ns) || !tx_parcel_try(ctx, parcel)) {
            return;
        }
        mrail_list_del(&parcel->list);
        ctx->delayed_bytes -= MRAIL_MIN(ctx->delayed_bytes, parcel->length);
        free(parcel);
    }
}

/* ---- A queue pair's turn ---- */

static void tx_place(sroce_host_qp_t *qp, sroce_host_qp_place_t place)
{
    sroce_host_ctx_t *ctx = qp->ctx;

    mrail_list_del(&qp->list);
    qp->place = place;
    if (place == SROCE_QP_READY) {
        mrail_list_add_tail(&ctx->ready, &qp->list);
    } else if (place == SROCE_QP_WAIT) {
        mrail_list_add_tail(&ctx->waiting, &qp->list);
        ctx->next_wake_ns = MRAIL_MIN(ctx->next_wake_ns, qp->wake_ns);
    }
}

static tx_result_t tx_wait(sroce_host_qp_t *qp, sroce_counter_t why,
                           mrail_ns_t until_ns)
{
    sroce_host_count(qp->ctx, why, 1);
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

/* Reserves `bytes` in both directions; when they may leave. */
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

/* Most bytes of a batch, at least one packet. */
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
                        const sroce_txrun_t *run, tx_load_t *load)
{
    *load = (tx_load_t){.dst_ip = run->dst_ip,
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

/* RC: the destination is known before.  *sent_p: bytes that left the core. */
static tx_result_t tx_pull_rc(sroce_host_qp_t *qp, const sroce_txinfo_t *info,
                              uint32_t max_bytes, mrail_ns_t now_ns,
                              uint32_t *sent_p)
{
    sroce_host_ctx_t *ctx = qp->ctx;
    unsigned slot = tx_slot_of(qp->dest_qpn);
    unsigned num = MRAIL_DIV_ROUND_UP(max_bytes, info->next_bytes);
    int inside = (qp->dest_dev >= 0) && tx_dest_lives(qp->dest_dev, slot);
    tx_load_t load;

    num = MRAIL_MIN(num, SROCE_RUN_PKTS);
    if ((qp->dest_dev < 0) &&
        (sroce_host.session->flags & SROCE_SESSION_F_ICRC)) {
        /* A burst is cut into packets by the stack or the NIC, which number
         * them; the ICRC covers that IPv4 identification. */
        num = 1;
    }
    if (inside) {
        num = sroce_credit_take_turn(qp, slot, info->next_bytes, num, now_ns);
        if (num == 0) {
            return tx_wait_credit(qp, now_ns);
        }
        max_bytes = MRAIL_MIN(max_bytes, num * info->next_bytes);
    }
    ctx->run.length = 0;
    ctx->run.num_pkts = 0;
    sroce_qp_pull(qp->core, now_ns, max_bytes, num, &ctx->run);
    if (inside) {
        /* There may be fewer, or shorter ones. */
        sroce_credit_return(
            qp->dest_dev, slot,
            sroce_host_credit(num * info->next_bytes, num) -
                sroce_host_credit(ctx->run.length, ctx->run.num_pkts));
    }
    *sent_p = ctx->run.length;
    if (ctx->run.num_pkts == 0) {
        sroce_credit_settle(ctx);
        return TX_SENT;
    }
    tx_run_load(qp, slot, &ctx->run, &load);
    if ((qp->dest_dev >= 0) && !inside) {
        tx_load_drop(ctx, &load, SROCE_CNT_DROP_NO_PEER, 0);
    } else {
        tx_load_emit(ctx, &load, inside, now_ns);
    }
    return TX_SENT;
}

/* UD: one packet; its destination is in the packet. */
static tx_result_t tx_pull_ud(sroce_host_qp_t *qp, const sroce_txinfo_t *info,
                              mrail_ns_t now_ns, uint32_t *sent_p)
{
    sroce_host_ctx_t *ctx = qp->ctx;
    tx_load_t load;
    unsigned slot;
    int inside;

    ctx->run.length = 0;
    if (sroce_qp_pull(qp->core, now_ns, info->next_bytes, 1, &ctx->run) == 0) {
        *sent_p = 0;
        return TX_SENT;
    }
    *sent_p = ctx->run.length;
    slot = tx_slot_of(
        sroce_rx_dest_qpn(ctx->run.iov[0].iov_base, ctx->run.length));
    tx_run_load(qp, slot, &ctx->run, &load);
    inside = (qp->dest_dev >= 0);
    if (inside && !tx_dest_lives(qp->dest_dev, slot)) {
        tx_load_drop(ctx, &load, SROCE_CNT_DROP_NO_PEER, 0);
        return TX_SENT;
    }
    if (inside &&
        (sroce_credit_take(ctx, qp->dest_dev, slot, load.length, 1) == 0)) {
        qp->held = tx_parcel_create(&load);
        if (qp->held == NULL) {
            tx_load_drop(ctx, &load, SROCE_CNT_DROP_SEND, 0);
            return TX_SENT;
        }
        return tx_wait_credit(qp, now_ns);
    }
    tx_load_emit(ctx, &load, inside, now_ns);
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

/* An acknowledgement (or another small packet) overtakes the batch for which
 * the queue pair waits. */
static tx_result_t tx_turn_small(sroce_host_qp_t *qp,
                                 const sroce_txinfo_t *info, mrail_ns_t now_ns)
{
    sroce_session_dev_t *dest = sroce_host_session_dev(qp->dest_dev);
    tx_result_t result;
    uint32_t sent = 0;

    if ((info->next_bytes > SROCE_RATE_SMALL_BYTES) ||
        !sroce_rate_small_ready(&qp->ctx->sdev->egress, now_ns) ||
        ((dest != NULL) && !sroce_rate_small_ready(&dest->ingress, now_ns))) {
        qp->wake_ns = qp->grant_ns;
        return TX_WAIT;
    }
    tx_reserve(qp, info->next_bytes, now_ns);
    result = tx_pull(qp, info, info->next_bytes, now_ns, &sent);
    tx_refund(qp, info->next_bytes - sent);
    return result;
}

static tx_result_t tx_turn(sroce_host_qp_t *qp, mrail_ns_t now_ns)
{
    sroce_host_ctx_t *ctx = qp->ctx;
    sroce_txinfo_t info;
    tx_result_t result;
    uint32_t granted, sent = 0;

    if (MRAIL_UNLIKELY(qp->held != NULL)) {
        if (!tx_parcel_try(ctx, qp->held)) {
            return tx_wait_credit(qp, now_ns);
        }
        free(qp->held);
        qp->held = NULL;
    }
    if (!sroce_qp_peek(qp->core, now_ns, &info)) {
        if (qp->grant_bytes != 0) {
            tx_refund(qp, qp->grant_bytes);
            qp->grant_bytes = 0;
        }
        qp->backlogged = 0;
        return TX_IDLE;
    }
    if (info.dst_ip != qp->dest_ip) {
        qp->dest_ip = info.dst_ip;
        qp->dest_dev = sroce_session_find(sroce_host.session, info.dst_ip);
    }
    if (qp->grant_bytes == 0) {
        qp->grant_bytes = tx_batch(qp, &info);
        qp->grant_ns = tx_reserve(qp, qp->grant_bytes, now_ns);
        if (qp->grant_ns > now_ns) {
            return tx_wait(qp, SROCE_CNT_WAIT_RATE, qp->grant_ns);
        }
    } else if (qp->grant_ns > now_ns) {
        return tx_turn_small(qp, &info, now_ns);
    }
    granted = MRAIL_MAX(qp->grant_bytes, info.next_bytes);
    result = tx_pull(qp, &info, granted, now_ns, &sent);
    if (result == TX_SENT || (sent != 0)) {
        if (sent < qp->grant_bytes) {
            tx_refund(qp, qp->grant_bytes - sent);
        }
        qp->grant_bytes = 0;
        qp->backlogged = 1;
    }
    return result;
}

void sroce_tx_activate(sroce_host_qp_t *qp)
{
    if (qp->place == SROCE_QP_IDLE) {
        tx_place(qp, SROCE_QP_READY);
    }
}

void sroce_tx_finish(sroce_host_qp_t *qp)
{
    mrail_ns_t until_ns = mrail_clock_now() + TX_FINISH_NS;
    mrail_ns_t now_ns;

    /* A NIC acknowledges by itself; here a peer would find nobody when the
     * application destroys the queue pair right after its last completion. */
    while ((qp->place != SROCE_QP_IDLE) &&
           ((now_ns = mrail_clock_now()) < until_ns)) {
        qp->ctx->look_again = 1;
        sroce_tx_round(qp->ctx, now_ns);
    }
}

void sroce_tx_remove(sroce_host_qp_t *qp)
{
    tx_place(qp, SROCE_QP_IDLE);
    if (qp->grant_bytes != 0) {
        tx_refund(qp, qp->grant_bytes);
        qp->grant_bytes = 0;
    }
    free(qp->held);
    qp->held = NULL;
}

/* Those whose time has come go to the ready; after a receive the others may
 * have acknowledgements to send, so they look too. */
static void tx_wake(sroce_host_ctx_t *ctx, mrail_ns_t now_ns)
{
    sroce_host_qp_t *qp, *tmp;
    int all = ctx->look_again;

    ctx->look_again = 0;
    if (!all && (ctx->next_wake_ns > now_ns)) {
        return;
    }
    ctx->next_wake_ns = MRAIL_NS_NEVER;
    mrail_list_for_each_safe(qp, tmp, &ctx->waiting, sroce_host_qp_t, list)
    {
        if (all || (qp->wake_ns <= now_ns)) {
            tx_place(qp, SROCE_QP_READY);
        } else {
            ctx->next_wake_ns = MRAIL_MIN(ctx->next_wake_ns, qp->wake_ns);
        }
    }
}

void sroce_tx_round(sroce_host_ctx_t *ctx, mrail_ns_t now_ns)
{
    unsigned runs = 0;

    if (!mrail_list_empty(&ctx->delayed)) {
        tx_delay_round(ctx, now_ns);
    }
    if (!mrail_list_empty(&ctx->waiting)) {
        tx_wake(ctx, now_ns);
    }
    while (!mrail_list_empty(&ctx->ready) && (runs < TX_RUNS_PER_ROUND)) {
        sroce_host_qp_t *qp =
            mrail_list_head(&ctx->ready, sroce_host_qp_t, list);

        switch (tx_turn(qp, now_ns)) {
        case TX_IDLE:
            tx_place(qp, SROCE_QP_IDLE);
            break;
        case TX_WAIT:
            tx_place(qp, SROCE_QP_WAIT);
            break;
        case TX_SENT:
            tx_place(qp, SROCE_QP_READY);
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
            mrail_list_head(&ctx->delayed, sroce_host_parcel_t, list)->due_ns;

        deadline = MRAIL_MIN(deadline, due);
    }
    return deadline;
}

void sroce_tx_cleanup(sroce_host_ctx_t *ctx)
{
    while (!mrail_list_empty(&ctx->delayed)) {
        sroce_host_parcel_t *parcel =
            mrail_list_head(&ctx->delayed, sroce_host_parcel_t, list);

        mrail_list_del(&parcel->list);
        free(parcel);
    }
}
