/*
 * The requester selects and builds the next packet of the send queue, and moves
 * back after a loss. post.c fills the send queue, and comp.c processes
 * acknowledgements.
 *
 * Invariant: tail <= cur <= alloc <= head; psn_una <= psn_next <= psn_max.
 * Source: IBA 9.7.3 (RC requester), 9.7.6 (timers and retries).
 */
#include "config.h"

#include "softroce/core/core.h"

#define WINDOW_MIN 4
#define WINDOW_GROW                                                            \
    8                  /* acknowledged packets per packet of window
                             * growth */
#define ACKREQ_PKTS 16 /* maximum number of packets between AckReqs */
#define MAX_PSNS                                                               \
    (1u << 22) /* outstanding; half of the range of PSN
                             * comparison */
#define MAX_PROBES 3
#define ACK_TIMER_NS 4096ull /* IBA 9.7.6.1.3: 4.096 us * 2^timeout */
/*
 * If a timer expires this late, the process was descheduled. Its peer probably
 * was too, so the timer restarts, at most MAX_LATE_TIMEOUTS times in a row.
 * NICs do not need this rule.
 */
#define LATE_NS (50 * MRAIL_NS_PER_MS)
#define MAX_LATE_TIMEOUTS 3

/* ---- Choice of the next packet ---- */

static uint32_t req_in_flight(const sroce_req_t *req)
{
    return (uint32_t)mrail_psn_diff(req->psn_next, req->psn_una) - req->rd_psns;
}

/* Returns 1 if the QP's limits allow the first packet of this WQE. */
static int req_may_start(const sroce_qp_t *qp, const sroce_swqe_t *wqe)
{
    const sroce_req_t *req = &qp->req;
    uint32_t out;

    if ((qp->state != IBV_QPS_RTS) && (req->cur == req->alloc)) {
        return 0; /* draining: no new WQE */
    }
    if ((wqe->flags & IBV_SEND_FENCE) && (req->rd_out != 0)) {
        return 0;
    }
    out = (uint32_t)mrail_psn_diff(req->psn_next, req->psn_una);
    if ((out != 0) && (out + wqe->num_pkts > MAX_PSNS)) {
        return 0;
    }
    return (wqe->kind < SROCE_WK_READ) ||
           (req->rd_out < qp->attr.max_rd_atomic);
}

/* [SEND, WRITE][not first, first][not last, last] */
static const uint8_t req_opcode[2][2][2] = {
    {{SROCE_OP_SEND_MIDDLE, SROCE_OP_SEND_LAST},
     {SROCE_OP_SEND_FIRST, SROCE_OP_SEND_ONLY}},
    {{SROCE_OP_WRITE_MIDDLE, SROCE_OP_WRITE_LAST},
     {SROCE_OP_WRITE_FIRST, SROCE_OP_WRITE_ONLY}},
};

static void req_describe(const sroce_qp_t *qp, sroce_swqe_t *wqe,
                         sroce_txreq_t *next_p)
{
    uint32_t mtu = 1u << qp->mtu_shift;
    uint32_t left = wqe->length - qp->req.cur_off;
    int last = (left <= mtu);

    next_p->wqe = wqe;
    next_p->payload_bytes = 0;
    if (wqe->kind == SROCE_WK_READ) {
        next_p->opcode = SROCE_OP_READ_REQ;
    } else if (wqe->kind == SROCE_WK_ATOMIC) {
        next_p->opcode = (wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
                             ? SROCE_OP_CMP_SWAP
                             : SROCE_OP_FETCH_ADD;
    } else {
        next_p->opcode = req_opcode[wqe->kind][qp->req.cur_off == 0][last];
        /* Each opcode with immediate data follows the one without. */
        next_p->opcode += last && ((wqe->opcode == IBV_WR_SEND_WITH_IMM) ||
                                   (wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM));
        next_p->payload_bytes = MRAIL_MIN(left, mtu);
    }
    next_p->op = &sroce_ops[next_p->opcode];
    next_p->bytes = sroce_pkt_bytes(next_p->op, next_p->payload_bytes);
}

static int req_next_ud(sroce_qp_t *qp, sroce_txreq_t *next_p)
{
    sroce_swqe_t *wqe = sroce_req_wqe(&qp->req, qp->req.cur);

    if (qp->state != IBV_QPS_RTS) {
        return 0;
    }
    next_p->wqe = wqe;
    next_p->opcode =
        (wqe->opcode == IBV_WR_SEND) ? SROCE_OP_UD_SEND : SROCE_OP_UD_SEND_IMM;
    next_p->op = &sroce_ops[next_p->opcode];
    next_p->payload_bytes = wqe->length;
    next_p->bytes = sroce_pkt_bytes(next_p->op, wqe->length);
    return 1;
}

int sroce_req_next(sroce_qp_t *qp, sroce_txreq_t *next_p)
{
    sroce_req_t *req = &qp->req;
    sroce_swqe_t *wqe;

    if ((req->cur == req->head) || req->rnr_wait) {
        return 0;
    }
    if (MRAIL_UNLIKELY(req->failed) && (req->cur == req->fail_idx)) {
        return 0;
    }
    if (qp->type == IBV_QPT_UD) {
        return req_next_ud(qp, next_p);
    }
    if ((qp->state != IBV_QPS_RTS) && (qp->state != IBV_QPS_SQD)) {
        return 0;
    }
    wqe = sroce_req_wqe(req, req->cur);
    if ((req->cur_off == 0) && !req_may_start(qp, wqe)) {
        return 0;
    }
    if ((wqe->kind < SROCE_WK_READ) && (req_in_flight(req) >= req->window)) {
        return 0;
    }
    req_describe(qp, wqe, next_p);
    return 1;
}

/* ---- Packets ---- */

/*
 * Returns 1 if the packet must request an acknowledgement. This is the case if
 * the requester would otherwise stall (on the last queued packet, and before
 * the window is full), and every ACKREQ_PKTS packets.
 */
static int req_wants_ack(const sroce_qp_t *qp, const sroce_txreq_t *next)
{
    const sroce_req_t *req = &qp->req;
    uint32_t interval = MRAIL_MIN(ACKREQ_PKTS, req->window / 2);

    if ((next->op->flags & SROCE_OPF_LAST) &&
        ((req->cur + 1 == req->head) || (qp->state != IBV_QPS_RTS))) {
        return 1;
    }
    return req->probe_due || (req->since_ackreq + 1 >= interval) ||
           (req_in_flight(req) + 1 >= req->window);
}

static void req_headers(const sroce_qp_t *qp, const sroce_txreq_t *next,
                        uint8_t *hdr, int ack_req)
{
    const sroce_swqe_t *wqe = next->wqe;
    uint16_t flags = next->op->flags;
    uint8_t *ext = hdr + SROCE_BTH_BYTES;
    int solicited =
        (wqe->flags & IBV_SEND_SOLICITED) && (flags & SROCE_OPF_LAST);

    sroce_bth_put(hdr, next->opcode, solicited, sroce_pad(next->payload_bytes),
                  qp->dest_qpn, ack_req, qp->req.psn_next);
    if (flags & SROCE_OPF_ATOMIC) {
        int cas = (next->opcode == SROCE_OP_CMP_SWAP);

        sroce_put64(ext, wqe->remote_addr);
        sroce_put32(ext + 8, wqe->rkey);
        sroce_put64(ext + 12, cas ? wqe->atomic.swap : wqe->atomic.compare_add);
        sroce_put64(ext + 20, cas ? wqe->atomic.compare_add : 0);
        return;
    }
    if ((flags & SROCE_OPF_FIRST) &&
        (flags & (SROCE_OPF_WRITE | SROCE_OPF_READ))) {
        sroce_reth_put(ext, wqe->remote_addr + qp->req.cur_off, wqe->rkey,
                       wqe->length - qp->req.cur_off);
        ext += SROCE_RETH_BYTES;
    }
    if (flags & SROCE_OPF_IMM) {
        memcpy(ext, &wqe->imm, SROCE_IMM_BYTES);
    }
}

static int req_payload(sroce_qp_t *qp, sroce_tx_t *tx,
                       const sroce_txreq_t *next)
{
    sroce_swqe_t *wqe = next->wqe;
    int ret;

    if (next->payload_bytes == 0) {
        return 0;
    }
    if (wqe->flags & IBV_SEND_INLINE) {
        sroce_tx_payload(tx, (uint8_t *)wqe->sge + qp->req.cur_off,
                         next->payload_bytes);
        return 0;
    }
    ret = sroce_tx_payload_sg(tx, qp, wqe->sge, wqe->num_sge, &qp->req.cur_sg,
                              next->payload_bytes);
    if (MRAIL_UNLIKELY(ret != 0)) {
        sroce_tx_abort(tx);
        qp->req.failed = 1;
        qp->req.fail_status = IBV_WC_LOC_PROT_ERR;
        qp->req.fail_idx = qp->req.cur;
        /* A fence waits until the peer has acknowledged earlier requests. */
        if (qp->type == IBV_QPT_RC) {
            sroce_req_probe(qp);
        }
        sroce_comp_tail_moved(qp);
    }
    return ret;
}

static void req_sent_timers(sroce_qp_t *qp, int ack_req, uint32_t psn,
                            mrail_ns_t now_ns)
{
    sroce_req_t *req = &qp->req;

    req->since_ackreq = ack_req ? 0 : req->since_ackreq + 1;
    req->probe_due = 0;
    if (req->ack_ns == MRAIL_NS_NEVER && req->probe_ns == MRAIL_NS_NEVER) {
        sroce_req_set_ack_timer(qp, now_ns);
    }
    if (ack_req && !req->rtt_active) {
        req->rtt_active = 1;
        req->rtt_psn = psn;
        req->rtt_start_ns = now_ns;
    }
}

static void req_advance(sroce_qp_t *qp, const sroce_txreq_t *next)
{
    sroce_req_t *req = &qp->req;
    sroce_swqe_t *wqe = next->wqe;
    uint32_t psns = 1;

    if (wqe->kind == SROCE_WK_READ) {
        psns = wqe->num_pkts - (req->cur_off >> qp->mtu_shift);
    }
    req->psn_next = mrail_psn_add(req->psn_next, psns);
    if (mrail_psn_diff(req->psn_next, req->psn_max) > 0) {
        req->psn_max = req->psn_next;
    } else {
        ++qp->dev->cnt.tx_retrans;
        req->rtt_active = 0; /* Karn: ambiguous sample */
    }
    if (wqe->kind >= SROCE_WK_READ) {
        ++req->rd_out;
        req->rd_psns += psns;
    } else {
        req->cur_off += next->payload_bytes;
        if (!(next->op->flags & SROCE_OPF_LAST)) {
            return;
        }
    }
    ++req->cur;
    req->cur_off = 0;
    req->cur_sg.idx = req->cur_sg.off = 0;
}

static int req_send_ud(sroce_qp_t *qp, sroce_tx_t *tx,
                       const sroce_txreq_t *next)
{
    sroce_req_t *req = &qp->req;
    sroce_swqe_t *wqe = next->wqe;
    uint8_t *hdr;

    if (!sroce_tx_fits(tx, next->bytes, wqe->ud.dst_ip, wqe->ud.sport,
                       wqe->ud.tos)) {
        return 0;
    }
    hdr = sroce_tx_begin(tx, next->op->hdr_bytes);
    if (req_payload(qp, tx, next) != 0) {
        return 0;
    }
    sroce_bth_put(hdr, next->opcode, wqe->flags & IBV_SEND_SOLICITED,
                  sroce_pad(wqe->length), wqe->ud.qpn, 0, req->psn_next);
    sroce_put32(hdr + SROCE_BTH_BYTES, wqe->ud.qkey);
    sroce_put32(hdr + SROCE_BTH_BYTES + 4, qp->qpn);
    if (next->op->flags & SROCE_OPF_IMM) {
        memcpy(hdr + SROCE_BTH_BYTES + SROCE_DETH_BYTES, &wqe->imm,
               SROCE_IMM_BYTES);
    }
    sroce_tx_end(tx, qp->dev, next->bytes, wqe->length, wqe->ud.dst_ip,
                 wqe->ud.sport, wqe->ud.tos);
    req->psn_next = mrail_psn_add(req->psn_next, 1);
    req->alloc = ++req->cur;
    req->cur_sg.idx = req->cur_sg.off = 0;
    sroce_comp_wqe(qp, IBV_WC_SUCCESS);
    return 1;
}

int sroce_req_send(sroce_qp_t *qp, sroce_tx_t *tx, const sroce_txreq_t *next)
{
    sroce_req_t *req = &qp->req;
    uint32_t psn = req->psn_next;
    int ack_req;
    uint8_t *hdr;

    if (qp->type == IBV_QPT_UD) {
        return req_send_ud(qp, tx, next);
    }
    if (!sroce_tx_fits(tx, next->bytes, qp->av.ip, qp->sport, qp->av.tos)) {
        return 0;
    }
    if (req->cur == req->alloc) {
        next->wqe->first_psn = req->psn_alloc;
        req->psn_alloc = mrail_psn_add(req->psn_alloc, next->wqe->num_pkts);
        ++req->alloc;
    }
    hdr = sroce_tx_begin(tx, next->op->hdr_bytes);
    ack_req = req_wants_ack(qp, next);
    req_headers(qp, next, hdr, ack_req);
    if (req_payload(qp, tx, next) != 0) {
        return 0;
    }
    sroce_tx_end(tx, qp->dev, next->bytes, next->payload_bytes, qp->av.ip,
                 qp->sport, qp->av.tos);
    req_sent_timers(qp, ack_req, psn, tx->now_ns);
    req_advance(qp, next);
    return 1;
}

/* ---- Losses ---- */

/* Recounts the READs and atomics in [tail, cur) and the PSNs of the responses
 * still missing. */
static void req_count_reads(sroce_qp_t *qp)
{
    sroce_req_t *req = &qp->req;

    req->rd_out = 0;
    req->rd_psns = 0;
    for (uint32_t i = req->tail; i != req->cur; ++i) {
        const sroce_swqe_t *wqe = sroce_req_wqe(req, i);
        int32_t have = mrail_psn_diff(req->psn_una, wqe->first_psn);

        if (wqe->kind >= SROCE_WK_READ) {
            ++req->rd_out;
            req->rd_psns += wqe->num_pkts - (uint32_t)MRAIL_MAX(have, 0);
        }
    }
}

void sroce_req_seek(sroce_qp_t *qp, uint32_t psn)
{
    sroce_req_t *req = &qp->req;

    req->cur_off = 0;
    req->cur_sg.idx = req->cur_sg.off = 0;
    for (req->cur = req->tail; req->cur != req->alloc; ++req->cur) {
        const sroce_swqe_t *wqe = sroce_req_wqe(req, req->cur);
        int32_t in = mrail_psn_diff(psn, wqe->first_psn);

        if (in < (int32_t)wqe->num_pkts) {
            req->cur_off = (uint32_t)in << qp->mtu_shift;
            if (wqe->kind < SROCE_WK_READ) {
                sroce_sg_seek(wqe->sge, wqe->num_sge, &req->cur_sg,
                              req->cur_off);
            }
            break;
        }
    }
    req->psn_next = psn;
    req_count_reads(qp);
}

void sroce_req_shrink(sroce_qp_t *qp)
{
    sroce_req_t *req = &qp->req;

    if (!req->recovering) {
        req->recovering = 1;
        req->recover_psn = req->psn_max;
        req->window = MRAIL_MAX(WINDOW_MIN, req->window / 2);
        req->window = MRAIL_MIN(req->window, qp->dev->params.window_pkts);
        req->window_acked = 0;
    }
}

static void req_rtt_sample(sroce_req_t *req, mrail_ns_t now_ns)
{
    mrail_ns_t rtt;

    if (!req->rtt_active || (mrail_psn_diff(req->psn_una, req->rtt_psn) <= 0)) {
        return;
    }
    rtt = now_ns - req->rtt_start_ns;
    req->rtt_active = 0;
    req->srtt_ns = (req->srtt_ns == 0) ? rtt : (7 * req->srtt_ns + rtt) / 8;
}

void sroce_req_progress(sroce_qp_t *qp, uint32_t pkts, mrail_ns_t now_ns)
{
    sroce_req_t *req = &qp->req;

    req->retry_left = qp->attr.retry_cnt;
    req->rnr_left = qp->attr.rnr_retry;
    req->probes = 0;
    req->late_timeouts = 0;
    req->gap_seen = 0;
    req_rtt_sample(req, now_ns);
    if (req->recovering &&
        (mrail_psn_diff(req->psn_una, req->recover_psn) >= 0)) {
        req->recovering = 0;
    }
    if (req->window < qp->dev->params.window_pkts) {
        req->window_acked += pkts;
        req->window += req->window_acked / WINDOW_GROW;
        req->window_acked %= WINDOW_GROW;
        req->window = MRAIL_MIN(req->window, qp->dev->params.window_pkts);
    }
    if (mrail_psn_diff(req->psn_una, req->psn_next) > 0) {
        sroce_req_seek(qp, req->psn_una);
    }
    if (req->psn_una == req->psn_next) {
        req->ack_ns = req->probe_ns = MRAIL_NS_NEVER;
    } else {
        sroce_req_set_ack_timer(qp, now_ns);
    }
}

/* ---- Timers ---- */

void sroce_req_set_ack_timer(sroce_qp_t *qp, mrail_ns_t now_ns)
{
    sroce_req_t *req = &qp->req;
    mrail_ns_t probe = qp->dev->params.probe_ns;

    req->ack_ns = (qp->attr.timeout == 0)
                      ? MRAIL_NS_NEVER
                      : now_ns + (ACK_TIMER_NS << qp->attr.timeout);
    req->probe_ns = MRAIL_NS_NEVER;
    if ((probe != MRAIL_NS_NEVER) && (req->probes < MAX_PROBES)) {
        probe = MRAIL_MAX(probe, 4 * req->srtt_ns) << req->probes;
        req->probe_ns = now_ns + probe;
    }
    sroce_timer_set(qp, sroce_req_deadline(qp));
}

mrail_ns_t sroce_req_deadline(const sroce_qp_t *qp)
{
    const sroce_req_t *req = &qp->req;

    if (req->rnr_wait) {
        return req->rnr_ns;
    }
    return MRAIL_MIN(req->ack_ns, req->probe_ns);
}

void sroce_req_probe(sroce_qp_t *qp)
{
    sroce_req_t *req = &qp->req;
    uint32_t last = mrail_psn_add(req->psn_next, (uint32_t)-1);
    const sroce_swqe_t *wqe;

    if (req->psn_next == req->psn_una) {
        return;
    }
    wqe = sroce_req_wqe(req, (req->cur_off != 0) ? req->cur : req->cur - 1);
    if (wqe->kind >= SROCE_WK_READ) {
        return; /* no probe: a repeated READ request repeats all its data */
    }
    ++qp->dev->cnt.probes;
    sroce_req_seek(qp, last);
    req->probe_due = 1;
}

static void req_timeout(sroce_qp_t *qp, mrail_ns_t now_ns)
{
    sroce_req_t *req = &qp->req;
    mrail_ns_t late_ns = now_ns - req->ack_ns;

    if (req->psn_next == req->psn_una) {
        /* The owner has not pulled the repeated packets yet, so none is
         * outstanding. */
        sroce_req_set_ack_timer(qp, now_ns);
        return;
    }
    if ((late_ns > LATE_NS) && (late_ns > (ACK_TIMER_NS << qp->attr.timeout)) &&
        (req->late_timeouts < MAX_LATE_TIMEOUTS)) {
        ++req->late_timeouts;
        sroce_req_set_ack_timer(qp, now_ns);
        return;
    }
    ++qp->dev->cnt.timeouts;
    if (req->retry_left == 0) {
        sroce_comp_fail(qp, IBV_WC_RETRY_EXC_ERR);
        return;
    }
    --req->retry_left;
    req->gap_seen = 0;
    req->probes = 0;
    sroce_req_shrink(qp);
    sroce_req_seek(qp, req->psn_una);
    req->ack_ns = req->probe_ns = MRAIL_NS_NEVER;
}

mrail_ns_t sroce_req_timer(sroce_qp_t *qp, mrail_ns_t now_ns)
{
    sroce_req_t *req = &qp->req;

    if ((qp->state != IBV_QPS_RTS) && (qp->state != IBV_QPS_SQD)) {
        return MRAIL_NS_NEVER;
    }
    if (req->rnr_wait) {
        if (now_ns < req->rnr_ns) {
            return req->rnr_ns;
        }
        req->rnr_wait = 0;
        req->rnr_ns = MRAIL_NS_NEVER;
    }
    if (now_ns >= req->ack_ns) {
        req_timeout(qp, now_ns);
    } else if (now_ns >= req->probe_ns) {
        ++req->probes;
        sroce_req_probe(qp);
        req->probe_ns =
            (req->probes < MAX_PROBES)
                ? now_ns +
                      (MRAIL_MAX(qp->dev->params.probe_ns, 4 * req->srtt_ns)
                       << req->probes)
                : MRAIL_NS_NEVER;
    }
    return sroce_req_deadline(qp);
}
