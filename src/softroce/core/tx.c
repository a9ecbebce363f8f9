/*
 * Runs of packets, each sent by one sendmsg() with UDP_SEGMENT. A QP fills a
 * run from three sources: READ and atomic responses, requests, and
 * acknowledgements.
 *
 * Responses and requests alternate at the head of the run, so that neither
 * starves. An acknowledgement is short and goes last, so that it may share a
 * run with requests. If it does not fit, it goes first in the next run.
 */
#include "config.h"

#include "softroce/core/core.h"

/* Smaller payloads are copied into the scratch memory, which costs less than an
 * iovec. */
#define COPY_MAX 256
/* The sender processes a queue immediately if it holds this many requests, or
 * if its last request is this long. */
#define RUN_WQES 16
#define RUN_WQE_BYTES 2048

int sroce_tx_fits(const sroce_tx_t *tx, uint32_t bytes, uint32_t dst_ip,
                  uint16_t sport, uint8_t tos)
{
    const sroce_txrun_t *run = tx->run;

    if ((run->length + bytes > tx->max_bytes) ||
        (run->num_pkts >= tx->max_pkts)) {
        return 0;
    }
    if (run->num_pkts == 0) {
        return 1;
    }
    return !tx->closed && (bytes <= run->seg_bytes) &&
           (dst_ip == run->dst_ip) && (sport == run->sport) &&
           (tos == run->tos) &&
           (run->iov_count + SROCE_MAX_SGE + 2 <= SROCE_RUN_IOV) &&
           (run->scratch_used + SROCE_HDR_MAX + SROCE_TRAILER_MAX <=
            SROCE_RUN_SCRATCH);
}

uint8_t *sroce_tx_begin(sroce_tx_t *tx, uint32_t hdr_bytes)
{
    sroce_txrun_t *run = tx->run;
    uint8_t *hdr = run->scratch + run->scratch_used;

    tx->mark_iov = run->iov_count;
    tx->mark_scratch = run->scratch_used;
    run->iov[run->iov_count].iov_base = hdr;
    run->iov[run->iov_count++].iov_len = hdr_bytes;
    run->scratch_used += hdr_bytes;
    return hdr;
}

void sroce_tx_abort(sroce_tx_t *tx)
{
    tx->run->iov_count = tx->mark_iov;
    tx->run->scratch_used = tx->mark_scratch;
}

static int tx_copies(const sroce_txrun_t *run, uint32_t bytes)
{
    return (bytes <= COPY_MAX) &&
           (run->scratch_used + bytes + SROCE_TRAILER_MAX <= SROCE_RUN_SCRATCH);
}

void sroce_tx_payload(sroce_tx_t *tx, const void *src, uint32_t bytes)
{
    sroce_txrun_t *run = tx->run;

    if (tx_copies(run, bytes)) {
        memcpy(run->scratch + run->scratch_used, src, bytes);
        run->scratch_used += bytes;
        run->iov[run->iov_count - 1].iov_len += bytes;
    } else {
        run->iov[run->iov_count].iov_base = (void *)(uintptr_t)src;
        run->iov[run->iov_count++].iov_len = bytes;
    }
}

int sroce_tx_payload_sg(sroce_tx_t *tx, const sroce_qp_t *qp,
                        const struct ibv_sge *sge, uint32_t num_sge,
                        sroce_sgcur_t *cur, uint32_t bytes)
{
    sroce_txrun_t *run = tx->run;
    struct iovec *iov = &run->iov[run->iov_count];
    int n;

    n = sroce_sg_iov(qp, sge, num_sge, cur, bytes, iov,
                     SROCE_RUN_IOV - run->iov_count);
    if (n < 0) {
        return n;
    }
    if (!tx_copies(run, bytes)) {
        run->iov_count += (uint32_t)n;
        return 0;
    }
    for (int i = 0; i < n; ++i) {
        memcpy(run->scratch + run->scratch_used, iov[i].iov_base,
               iov[i].iov_len);
        run->scratch_used += (uint32_t)iov[i].iov_len;
    }
    run->iov[run->iov_count - 1].iov_len += bytes;
    return 0;
}

/* Adds the pad and ICRC, to the last iovec if it ends in the scratch memory. */
static void tx_trailer(sroce_tx_t *tx, const sroce_dev_t *dev, uint32_t bytes,
                       uint32_t pad, uint32_t dst_ip, uint16_t sport)
{
    sroce_txrun_t *run = tx->run;
    uint8_t *trailer = run->scratch + run->scratch_used;
    struct iovec *last = &run->iov[run->iov_count - 1];
    uint32_t icrc = 0;

    if ((uint8_t *)last->iov_base + last->iov_len != trailer) {
        ++last;
        ++run->iov_count;
        last->iov_base = trailer;
        last->iov_len = 0;
    }
    memset(trailer, 0, pad);
    last->iov_len += pad;
    if (dev->params.icrc_tx) {
        icrc =
            sroce_icrc(dev->params.ip, dst_ip, sport, bytes,
                       &run->iov[tx->mark_iov], run->iov_count - tx->mark_iov);
    }
    for (int i = 0; i < SROCE_ICRC_BYTES; ++i) {
        trailer[pad + i] = (uint8_t)(icrc >> (8 * i));
    }
    last->iov_len += SROCE_ICRC_BYTES;
    run->scratch_used += pad + SROCE_ICRC_BYTES;
}

/* Merges a header and the preceding trailer into one iovec if they are
 * adjacent. */
static void tx_merge(sroce_tx_t *tx)
{
    sroce_txrun_t *run = tx->run;
    uint32_t at = tx->mark_iov;
    struct iovec *prev;

    if (at == 0) {
        return;
    }
    prev = &run->iov[at - 1];
    if ((uint8_t *)prev->iov_base + prev->iov_len != run->iov[at].iov_base) {
        return;
    }
    prev->iov_len += run->iov[at].iov_len;
    --run->iov_count;
    for (; at < run->iov_count; ++at) {
        run->iov[at] = run->iov[at + 1];
    }
}

void sroce_tx_end(sroce_tx_t *tx, sroce_dev_t *dev, uint32_t bytes,
                  uint32_t payload_bytes, uint32_t dst_ip, uint16_t sport,
                  uint8_t tos)
{
    sroce_txrun_t *run = tx->run;

    tx_trailer(tx, dev, bytes, sroce_pad(payload_bytes), dst_ip, sport);
    tx_merge(tx);
    if (run->num_pkts == 0) {
        run->dst_ip = dst_ip;
        run->sport = sport;
        run->tos = tos;
        run->seg_bytes = (uint16_t)bytes;
    }
    tx->closed = (bytes < run->seg_bytes);
    ++run->num_pkts;
    run->length += bytes;
    ++dev->cnt.tx_pkts;
    dev->cnt.tx_bytes += bytes;
}

static int tx_ack_ready(const sroce_qp_t *qp)
{
    return qp->resp.ack_due && (qp->resp.rd_pending == 0);
}

static int tx_may_send(const sroce_qp_t *qp)
{
    return ((qp->state >= IBV_QPS_RTR) && (qp->state <= IBV_QPS_SQE)) ||
           qp->resp.fatal;
}

/* Estimates the size in bytes of a run of requests that starts with this
 * packet. */
static uint32_t tx_run_bytes(const sroce_qp_t *qp, const sroce_txreq_t *next)
{
    const sroce_req_t *req = &qp->req;
    uint64_t bytes = next->wqe->length - req->cur_off;

    if ((next->op->flags & (SROCE_OPF_READ | SROCE_OPF_ATOMIC)) ||
        (bytes <= next->payload_bytes)) {
        bytes = next->bytes;
    } else {
        bytes += (sroce_num_pkts((uint32_t)bytes, qp->mtu_shift) + 1) * 32;
    }
    bytes += (uint64_t)(req->head - req->cur - 1) * next->bytes;
    return (uint32_t)MRAIL_MIN(bytes, SROCE_RUN_BYTES);
}

int sroce_qp_peek(sroce_qp_t *qp, mrail_ns_t now_ns, sroce_txinfo_t *info_p)
{
    sroce_txreq_t next;
    int has_req;

    (void)now_ns;
    info_p->dst_ip = qp->av.ip;
    info_p->only_ack = 0;
    if (MRAIL_UNLIKELY(!tx_may_send(qp))) {
        qp->active = 0;
        return 0;
    }
    has_req = sroce_req_next(qp, &next);
    if ((qp->resp.rd_pending != 0) && !(has_req && qp->requests_first)) {
        info_p->next_bytes = sroce_resp_next_bytes(qp);
        info_p->run_bytes = sroce_resp_run_bytes(qp);
        return 1;
    }
    if (has_req) {
        info_p->next_bytes = next.bytes;
        info_p->run_bytes = tx_run_bytes(qp, &next);
        if (qp->resp.ack_late && tx_ack_ready(qp)) {
            info_p->next_bytes = SROCE_ACK_BYTES;
        }
        if (qp->type == IBV_QPT_UD) {
            info_p->dst_ip = next.wqe->ud.dst_ip;
        }
        return 1;
    }
    if (tx_ack_ready(qp)) {
        info_p->next_bytes = info_p->run_bytes = SROCE_ACK_BYTES;
        info_p->only_ack = 1;
        return 1;
    }
    qp->active = 0;
    return 0;
}

int sroce_qp_urgent(const sroce_qp_t *qp)
{
    const sroce_req_t *req = &qp->req;

    return (qp->type != IBV_QPT_RC) || (req->psn_next == req->psn_una) ||
           (req->head - req->cur >= RUN_WQES) ||
           ((req->head != req->cur) &&
            (sroce_req_wqe(req, req->head - 1)->length >= RUN_WQE_BYTES));
}

static void tx_requests(sroce_qp_t *qp, sroce_tx_t *tx)
{
    sroce_txreq_t next;

    while (sroce_req_next(qp, &next) && sroce_req_send(qp, tx, &next)) {
    }
}

unsigned sroce_qp_pull(sroce_qp_t *qp, mrail_ns_t now_ns, uint32_t max_bytes,
                       unsigned max_pkts, sroce_txrun_t *run)
{
    sroce_tx_t tx = {.run = run,
                     .now_ns = now_ns,
                     .max_bytes = MRAIL_MIN(max_bytes, SROCE_RUN_BYTES),
                     .max_pkts = MRAIL_MIN(max_pkts, SROCE_RUN_PKTS)};

    run->num_pkts = 0;
    run->length = 0;
    run->iov_count = 0;
    run->scratch_used = 0;
    if (MRAIL_UNLIKELY(!tx_may_send(qp))) {
        return 0;
    }
    if (qp->resp.ack_late && tx_ack_ready(qp)) {
        sroce_resp_send_ack(qp, &tx);
    }
    if (qp->requests_first) {
        tx_requests(qp, &tx);
    }
    while ((qp->resp.rd_pending != 0) && sroce_resp_send(qp, &tx)) {
    }
    tx_requests(qp, &tx);
    qp->requests_first = !qp->requests_first;
    if (tx_ack_ready(qp)) {
        qp->resp.ack_late = (sroce_resp_send_ack(qp, &tx) == 0);
    }
    return run->num_pkts;
}
