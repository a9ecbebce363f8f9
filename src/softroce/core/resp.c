/*
 * The responder executes each of the peer's requests once, in PSN order.
 * Acknowledgements, READ data and atomic results are queued until the owner
 * pulls them.
 *
 * Invariant: a packet changes memory only after it has passed every check.
 * Source: IBA 9.7.4 (RC responder), 9.7.5.1 (duplicates), 9.9.3 (responder
 * errors).
 */
#include "config.h"

#include "softroce/core/core.h"

#include <errno.h>

void sroce_resp_reset(sroce_qp_t *qp)
{
    memset(&qp->resp, 0, sizeof(qp->resp));
}

/* ---- Receives ---- */

int sroce_resp_take_wqe(sroce_qp_t *qp)
{
    sroce_rq_t *rq = (qp->srq != NULL) ? &qp->srq->rq : &qp->rq;
    sroce_resp_t *resp = &qp->resp;
    const sroce_rwqe_t *wqe;

    if (rq->head == rq->tail) {
        return 0;
    }
    wqe = (const sroce_rwqe_t *)(rq->ring +
                                 (size_t)(rq->tail++ & (rq->size - 1)) *
                                     rq->stride);
    resp->wr_id = wqe->wr_id;
    resp->wqe_length = wqe->length;
    resp->wqe_num_sge = wqe->num_sge;
    for (uint32_t i = 0; i < wqe->num_sge; ++i) {
        resp->wqe_sge[i] = wqe->sge[i];
    }
    resp->sg.idx = resp->sg.off = 0;
    resp->have_wqe = 1;
    if ((qp->srq != NULL) && (sroce_rq_count(rq) < qp->srq->limit)) {
        const sroce_dev_ops_t *ops = &qp->dev->params.ops;

        qp->srq->limit = 0;
        ops->async_event(ops->arg, IBV_EVENT_SRQ_LIMIT_REACHED, qp->srq->user);
    }
    return 1;
}

int sroce_resp_scatter(sroce_qp_t *qp, const void *src, uint32_t length)
{
    const sroce_pd_t *pd = (qp->srq != NULL) ? qp->srq->pd : qp->pd;

    return sroce_sg_scatter(pd, qp->resp.wqe_sge, qp->resp.wqe_num_sge,
                            &qp->resp.sg, src, length);
}

void sroce_resp_recv_done(sroce_qp_t *qp, const sroce_rx_t *rx,
                          enum ibv_wc_opcode opcode, enum ibv_wc_status status,
                          uint32_t byte_len)
{
    struct ibv_wc wc = {.wr_id = qp->resp.wr_id,
                        .status = status,
                        .opcode = opcode,
                        .byte_len = byte_len,
                        .qp_num = qp->qpn,
                        .src_qp = qp->dest_qpn};

    if (rx->op->flags & SROCE_OPF_IMM) {
        wc.wc_flags |= IBV_WC_WITH_IMM;
        memcpy(&wc.imm_data,
               rx->pkt->data + rx->op->hdr_bytes - SROCE_IMM_BYTES,
               SROCE_IMM_BYTES);
    }
    if (rx->op->flags & SROCE_OPF_UD) {
        wc.wc_flags |= IBV_WC_GRH;
        wc.src_qp = sroce_get32(rx->ext + 4) & 0xffffff;
        wc.sl = SROCE_WC_SL_IPV4;
    }
    qp->resp.have_wqe = 0;
    sroce_cq_push(qp->recv_cq, &wc, rx->bth.solicited);
}

/* ---- Acknowledgements ---- */

static void resp_ack(sroce_qp_t *qp)
{
    /* A NAK that is already due also acknowledges all earlier requests. */
    if (!qp->resp.ack_due) {
        qp->resp.ack_due = 1;
        qp->resp.syndrome = SROCE_SYN_ACK;
    }
}

static void resp_nak(sroce_qp_t *qp, uint8_t syndrome, uint32_t psn)
{
    qp->resp.ack_due = 1;
    qp->resp.syndrome = syndrome;
    qp->resp.ack_psn = psn;
    qp->resp.nak_sent = 1;
}

/* Permanently rejects the request at epsn: sends a NAK and moves the QP to the
 * error state. */
static int resp_refuse(sroce_qp_t *qp, uint8_t syndrome)
{
    resp_nak(qp, syndrome, qp->resp.epsn);
    qp->resp.fatal = 1;
    ++qp->dev->cnt.nak_err_tx;
    sroce_qp_error(qp);
    return 0;
}

/* Like resp_refuse(), but for errors that no receive completion reports. The
 * application gets an event instead. */
static int resp_fatal(sroce_qp_t *qp, uint8_t syndrome)
{
    sroce_qp_event(qp, (syndrome == SROCE_SYN_NAK_ACCESS)
                           ? IBV_EVENT_QP_ACCESS_ERR
                           : IBV_EVENT_QP_REQ_ERR);
    return resp_refuse(qp, syndrome);
}

/* Returns 1 if the QP allows the access; otherwise rejects the request. Source:
 * IBA 11.6.2, Remote Invalid Request Error: "the operation is not supported by
 * this receive queue". */
static int resp_qp_allows(sroce_qp_t *qp, int access)
{
    return (qp->access & access) || resp_fatal(qp, SROCE_SYN_NAK_INV);
}

static int resp_rnr(sroce_qp_t *qp)
{
    ++qp->dev->cnt.nak_rnr_tx;
    resp_nak(qp, SROCE_SYN_RNR | (qp->attr.min_rnr_timer & 0x1f),
             qp->resp.epsn);
    return 0;
}

/* Advances epsn once the request has been executed. */
static int resp_done(sroce_qp_t *qp, const sroce_rx_t *rx, uint32_t psns)
{
    qp->resp.epsn = mrail_psn_add(qp->resp.epsn, psns);
    if (rx->bth.ack_req) {
        resp_ack(qp);
    }
    return 1;
}

/* ---- SEND, WRITE ---- */

/* Returns 1 if the payload length is legal for this opcode. */
static int resp_length_ok(const sroce_qp_t *qp, const sroce_rx_t *rx)
{
    uint32_t mtu = 1u << qp->mtu_shift;

    if (!(rx->op->flags & SROCE_OPF_LAST)) {
        return rx->payload_bytes == mtu;
    }
    return (rx->payload_bytes <= mtu) &&
           ((rx->payload_bytes > 0) || (rx->op->flags & SROCE_OPF_FIRST));
}

static int resp_send_msg(sroce_qp_t *qp, const sroce_rx_t *rx)
{
    sroce_resp_t *resp = &qp->resp;
    int ret;

    if (rx->op->flags & SROCE_OPF_FIRST) {
        if (!resp->have_wqe && !sroce_resp_take_wqe(qp)) {
            return resp_rnr(qp);
        }
        resp->bytes = 0;
    }
    if (resp->bytes + rx->payload_bytes > resp->wqe_length) {
        sroce_resp_recv_done(qp, rx, IBV_WC_RECV, IBV_WC_LOC_LEN_ERR, 0);
        return resp_refuse(qp, SROCE_SYN_NAK_INV);
    }
    ret = sroce_resp_scatter(qp, rx->payload, rx->payload_bytes);
    if (ret != 0) {
        sroce_resp_recv_done(qp, rx, IBV_WC_RECV, IBV_WC_LOC_PROT_ERR, 0);
        return resp_refuse(qp, SROCE_SYN_NAK_OP);
    }
    resp->bytes += rx->payload_bytes;
    resp->msg = SROCE_MSG_SEND;
    if (rx->op->flags & SROCE_OPF_LAST) {
        resp->msg = SROCE_MSG_NONE;
        ++resp->msn;
        sroce_resp_recv_done(qp, rx, IBV_WC_RECV, IBV_WC_SUCCESS, resp->bytes);
    }
    return resp_done(qp, rx, 1);
}

/* Reads the RETH in the first packet. Returns 0 if the request is rejected. */
static int resp_write_start(sroce_qp_t *qp, const sroce_rx_t *rx)
{
    sroce_resp_t *resp = &qp->resp;
    uint32_t length = sroce_get32(rx->ext + 12);

    if ((rx->op->flags & SROCE_OPF_LAST) ? (length != rx->payload_bytes)
                                         : (length <= rx->payload_bytes)) {
        return resp_fatal(qp, SROCE_SYN_NAK_INV);
    }
    resp->addr = sroce_get64(rx->ext);
    resp->rkey = sroce_get32(rx->ext + 8);
    resp->left = length;
    resp->bytes = 0;
    if (!resp_qp_allows(qp, IBV_ACCESS_REMOTE_WRITE)) {
        return 0;
    }
    if ((length != 0) &&
        (sroce_mr_find(qp->dev, qp->pd, resp->rkey, resp->addr, length,
                       IBV_ACCESS_REMOTE_WRITE) == NULL)) {
        return resp_fatal(qp, SROCE_SYN_NAK_ACCESS);
    }
    return 1;
}

static int resp_write_msg(sroce_qp_t *qp, const sroce_rx_t *rx)
{
    sroce_resp_t *resp = &qp->resp;
    uint32_t n = rx->payload_bytes;
    uint8_t *to;

    /* Take the receive WQE first. If there is none, no part of the packet may
     * be executed, because the peer repeats it after the RNR NAK. */
    if ((rx->op->flags & SROCE_OPF_IMM) && !resp->have_wqe &&
        !sroce_resp_take_wqe(qp)) {
        return resp_rnr(qp);
    }
    if ((rx->op->flags & SROCE_OPF_FIRST) && !resp_write_start(qp, rx)) {
        return 0;
    }
    if ((rx->op->flags & SROCE_OPF_LAST) ? (n != resp->left)
                                         : (n >= resp->left)) {
        return resp_fatal(qp, SROCE_SYN_NAK_INV);
    }
    if (n != 0) {
        to = sroce_mr_find(qp->dev, qp->pd, resp->rkey, resp->addr, n,
                           IBV_ACCESS_REMOTE_WRITE);
        if (to == NULL) {
            return resp_fatal(qp, SROCE_SYN_NAK_ACCESS);
        }
        if (MRAIL_LIKELY(qp->dev->write_delay_ns == 0) ||
            !sroce_delayed_write_add(qp->dev, qp->pd, resp->rkey, resp->addr,
                                     rx->payload, n, rx->now_ns)) {
            memcpy(to, rx->payload, n);
        }
    }
    resp->addr += n;
    resp->left -= n;
    resp->bytes += n;
    resp->msg = SROCE_MSG_WRITE;
    if (rx->op->flags & SROCE_OPF_LAST) {
        resp->msg = SROCE_MSG_NONE;
        ++resp->msn;
        if (rx->op->flags & SROCE_OPF_IMM) {
            sroce_resp_recv_done(qp, rx, IBV_WC_RECV_RDMA_WITH_IMM,
                                 IBV_WC_SUCCESS, resp->bytes);
        }
    }
    return resp_done(qp, rx, 1);
}

/* ---- READ, atomics ---- */

static sroce_rdres_t *resp_rd_at(sroce_resp_t *resp, uint32_t i)
{
    return &resp->rd[(resp->rd_head - resp->rd_count + i) %
                     SROCE_MAX_RD_ATOMIC];
}

/* Cancels the oldest repeated response. A new request proves that the peer no
 * longer waits for it. */
static int resp_rd_cancel(sroce_resp_t *resp)
{
    for (uint32_t i = 0; i < resp->rd_count; ++i) {
        sroce_rdres_t *rd = resp_rd_at(resp, i);

        if (rd->pending && rd->again) {
            rd->pending = 0;
            --resp->rd_pending;
            return 1;
        }
    }
    return 0;
}

/* Allocates an entry, evicting the oldest if necessary. Returns NULL if the
 * peer exceeds the limit on outstanding READs and atomics. */
static sroce_rdres_t *resp_rd_new(sroce_qp_t *qp)
{
    sroce_resp_t *resp = &qp->resp;
    sroce_rdres_t *rd;

    if ((resp->rd_pending >= qp->attr.max_dest_rd_atomic) &&
        !resp_rd_cancel(resp)) {
        return NULL;
    }
    rd = &resp->rd[resp->rd_head++ % SROCE_MAX_RD_ATOMIC];
    if (resp->rd_count < SROCE_MAX_RD_ATOMIC) {
        ++resp->rd_count;
    } else {
        resp->rd_pending -= rd->pending;
    }
    memset(rd, 0, sizeof(*rd));
    sroce_delayed_write_place_all(
        qp->dev); /* a READ places earlier WRITEs first */
    rd->pending = 1;
    ++resp->rd_pending;
    rd->psn = rd->cur_psn = resp->epsn;
    return rd;
}

static void resp_rd_fill(sroce_qp_t *qp, sroce_rdres_t *rd,
                         const sroce_rx_t *rx)
{
    rd->addr = sroce_get64(rx->ext);
    rd->rkey = sroce_get32(rx->ext + 8);
    rd->length = sroce_get32(rx->ext + 12);
    rd->cur_psn = rx->bth.psn;
    rd->cur_total = rd->cur_left = sroce_num_pkts(rd->length, qp->mtu_shift);
}

static int resp_read_allowed(const sroce_qp_t *qp, const sroce_rx_t *rx)
{
    uint32_t length = sroce_get32(rx->ext + 12);

    return (length <= SROCE_MAX_MSG) &&
           ((length == 0) ||
            (sroce_mr_find(qp->dev, qp->pd, sroce_get32(rx->ext + 8),
                           sroce_get64(rx->ext), length,
                           IBV_ACCESS_REMOTE_READ) != NULL));
}

static int resp_read_msg(sroce_qp_t *qp, const sroce_rx_t *rx)
{
    sroce_rdres_t *rd;

    if (!resp_qp_allows(qp, IBV_ACCESS_REMOTE_READ)) {
        return 0;
    }
    if (!resp_read_allowed(qp, rx)) {
        return resp_fatal(qp, SROCE_SYN_NAK_ACCESS);
    }
    rd = resp_rd_new(qp);
    if (rd == NULL) {
        return resp_fatal(qp, SROCE_SYN_NAK_INV);
    }
    resp_rd_fill(qp, rd, rx);
    rd->num_pkts = rd->cur_total;
    ++qp->resp.msn;
    qp->resp.epsn = mrail_psn_add(qp->resp.epsn, rd->num_pkts);
    return 1;
}

static uint64_t resp_atomic_run(uint64_t *p, const sroce_rx_t *rx)
{
    uint64_t swap_add = sroce_get64(rx->ext + 12);
    uint64_t old = sroce_get64(rx->ext + 20);

    if (rx->bth.opcode == SROCE_OP_FETCH_ADD) {
        return __atomic_fetch_add(p, swap_add, __ATOMIC_SEQ_CST);
    }
    __atomic_compare_exchange_n(p, &old, swap_add, 0, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
    return old;
}

static int resp_atomic_msg(sroce_qp_t *qp, const sroce_rx_t *rx)
{
    sroce_rdres_t *rd;
    uint8_t *p;

    if (!resp_qp_allows(qp, IBV_ACCESS_REMOTE_ATOMIC)) {
        return 0;
    }
    p = sroce_mr_find(qp->dev, qp->pd, sroce_get32(rx->ext + 8),
                      sroce_get64(rx->ext), sizeof(uint64_t),
                      IBV_ACCESS_REMOTE_ATOMIC);
    if (p == NULL) {
        return resp_fatal(qp, SROCE_SYN_NAK_ACCESS);
    }
    if (((uintptr_t)p & 7) != 0) {
        return resp_fatal(qp, SROCE_SYN_NAK_INV);
    }
    rd = resp_rd_new(qp);
    if (rd == NULL) {
        return resp_fatal(qp, SROCE_SYN_NAK_INV);
    }
    rd->atomic = 1;
    rd->num_pkts = rd->cur_total = rd->cur_left = 1;
    rd->value = resp_atomic_run((uint64_t *)(void *)p, rx);
    ++qp->resp.msn;
    qp->resp.epsn = mrail_psn_add(qp->resp.epsn, 1);
    return 1;
}

/* ---- Order ---- */

static void resp_rd_repeat(sroce_qp_t *qp, sroce_rdres_t *rd,
                           const sroce_rx_t *rx)
{
    uint32_t off = (uint32_t)mrail_psn_diff(rx->bth.psn, rd->psn);

    if (rd->atomic) {
        rd->cur_left = 1;
    } else {
        uint32_t length = sroce_get32(rx->ext + 12);

        if (!(qp->access & IBV_ACCESS_REMOTE_READ) ||
            !resp_read_allowed(qp, rx) ||
            (off + sroce_num_pkts(length, qp->mtu_shift) != rd->num_pkts)) {
            return;
        }
        resp_rd_fill(qp, rd, rx);
    }
    qp->resp.rd_pending += !rd->pending;
    rd->pending = 1;
}

/* Handles a request before epsn. Sends the response again, and executes only
 * READs again. */
static int resp_duplicate(sroce_qp_t *qp, const sroce_rx_t *rx)
{
    sroce_resp_t *resp = &qp->resp;
    int atomic = (rx->op->flags & SROCE_OPF_ATOMIC) != 0;

    ++qp->dev->cnt.rx_dup;
    if (!(rx->op->flags & (SROCE_OPF_READ | SROCE_OPF_ATOMIC))) {
        resp_ack(qp);
        return 1;
    }
    for (uint32_t i = 0; i < resp->rd_count; ++i) {
        sroce_rdres_t *rd = resp_rd_at(resp, i);
        int32_t in = mrail_psn_diff(rx->bth.psn, rd->psn);

        if ((in >= 0) && (in < (int32_t)rd->num_pkts) &&
            (rd->atomic == atomic)) {
            resp_rd_repeat(qp, rd, rx);
            return 1;
        }
    }
    return 1;
}

/* Handles a request past epsn, which means that packets were lost. Sends one
 * NAK, and another if the peer repeats packets without filling the gap. */
static int resp_out_of_order(sroce_qp_t *qp, const sroce_rx_t *rx)
{
    sroce_resp_t *resp = &qp->resp;

    ++qp->dev->cnt.ooo;
    if (resp->nak_sent && (mrail_psn_diff(rx->bth.psn, resp->ooo_psn) > 0)) {
        resp->ooo_psn = rx->bth.psn;
        return 0;
    }
    if (resp->nak_sent &&
        (SROCE_SYN_KIND(resp->syndrome) == SROCE_SYN_KIND_RNR)) {
        return 0;
    }
    if (!resp->nak_sent) {
        resp->ooo_psn = rx->bth.psn;
    }
    ++qp->dev->cnt.nak_seq_tx;
    resp_nak(qp, SROCE_SYN_NAK_SEQ, resp->epsn);
    return 0;
}

/* Returns 1 if a SEND or WRITE packet continues the message in progress. */
static int resp_sequence_ok(const sroce_resp_t *resp, uint16_t flags)
{
    if (flags & SROCE_OPF_FIRST) {
        return resp->msg == SROCE_MSG_NONE;
    }
    return resp->msg ==
           ((flags & SROCE_OPF_SEND) ? SROCE_MSG_SEND : SROCE_MSG_WRITE);
}

int sroce_resp_rx(sroce_qp_t *qp, sroce_rx_t *rx)
{
    sroce_resp_t *resp = &qp->resp;
    uint16_t flags = rx->op->flags;
    int32_t diff = mrail_psn_diff(rx->bth.psn, resp->epsn);

    if (MRAIL_UNLIKELY((qp->state == IBV_QPS_RTR) && !resp->comm_est)) {
        resp->comm_est = 1;
        sroce_qp_event(qp, IBV_EVENT_COMM_EST);
    }
    if (MRAIL_UNLIKELY(diff != 0)) {
        return (diff < 0) ? resp_duplicate(qp, rx) : resp_out_of_order(qp, rx);
    }
    if (MRAIL_UNLIKELY(resp->nak_sent)) {
        resp->nak_sent = 0;
        /* The gap is closed, so a NAK that was due becomes an ACK. */
        resp->syndrome = SROCE_SYN_ACK;
    }
    if (!resp_sequence_ok(resp, flags) ||
        ((flags & SROCE_OPF_PAYLOAD) && !resp_length_ok(qp, rx))) {
        return resp_fatal(qp, SROCE_SYN_NAK_INV);
    }
    if (flags & SROCE_OPF_WRITE) {
        return resp_write_msg(qp, rx);
    }
    if (flags & SROCE_OPF_SEND) {
        return resp_send_msg(qp, rx);
    }
    return (flags & SROCE_OPF_READ) ? resp_read_msg(qp, rx)
                                    : resp_atomic_msg(qp, rx);
}

/* ---- Responses ---- */

static sroce_rdres_t *resp_rd_first(sroce_resp_t *resp)
{
    for (uint32_t i = 0; i < resp->rd_count; ++i) {
        sroce_rdres_t *rd = resp_rd_at(resp, i);

        if (rd->pending) {
            return rd;
        }
    }
    return NULL;
}

static uint8_t resp_rd_opcode(const sroce_rdres_t *rd)
{
    if (rd->atomic) {
        return SROCE_OP_ATOMIC_ACK;
    }
    if (rd->cur_total == 1) {
        return SROCE_OP_READ_ONLY;
    }
    if (rd->cur_left == rd->cur_total) {
        return SROCE_OP_READ_FIRST;
    }
    return (rd->cur_left == 1) ? SROCE_OP_READ_LAST : SROCE_OP_READ_MIDDLE;
}

uint32_t sroce_resp_next_bytes(sroce_qp_t *qp)
{
    const sroce_rdres_t *rd = resp_rd_first(&qp->resp);

    return sroce_pkt_bytes(&sroce_ops[resp_rd_opcode(rd)],
                           MRAIL_MIN(rd->length, 1u << qp->mtu_shift));
}

uint32_t sroce_resp_run_bytes(sroce_qp_t *qp)
{
    const sroce_rdres_t *rd = resp_rd_first(&qp->resp);
    uint64_t bytes = (uint64_t)rd->length + 32ull * rd->cur_left;

    return (uint32_t)MRAIL_MIN(bytes, SROCE_RUN_BYTES);
}

/* Rejects a pending READ whose memory has since been deregistered. */
static int resp_rd_refuse(sroce_qp_t *qp, sroce_rdres_t *rd)
{
    rd->pending = 0;
    --qp->resp.rd_pending;
    resp_fatal(qp, SROCE_SYN_NAK_ACCESS);
    qp->resp.ack_psn = rd->cur_psn;
    return 0;
}

static void resp_rd_advance(sroce_qp_t *qp, sroce_rdres_t *rd, uint32_t bytes)
{
    if (!rd->atomic) {
        rd->cur_psn = mrail_psn_add(rd->cur_psn, 1);
        rd->addr += bytes;
        rd->length -= bytes;
    }
    if (--rd->cur_left == 0) {
        rd->pending = 0;
        rd->again = 1;
        --qp->resp.rd_pending;
    }
}

int sroce_resp_send(sroce_qp_t *qp, sroce_tx_t *tx)
{
    sroce_rdres_t *rd = resp_rd_first(&qp->resp);
    uint8_t opcode = resp_rd_opcode(rd);
    const sroce_op_t *op = &sroce_ops[opcode];
    uint32_t n = MRAIL_MIN(rd->length, 1u << qp->mtu_shift);
    uint32_t bytes = sroce_pkt_bytes(op, n);
    const uint8_t *from = NULL;
    uint8_t *hdr;

    if (!sroce_tx_fits(tx, bytes, qp->av.ip, qp->sport, qp->av.tos)) {
        return 0;
    }
    if (n != 0) {
        from = sroce_mr_find(qp->dev, qp->pd, rd->rkey, rd->addr, n,
                             IBV_ACCESS_REMOTE_READ);
        if (from == NULL) {
            return resp_rd_refuse(qp, rd);
        }
    }
    hdr = sroce_tx_begin(tx, op->hdr_bytes);
    sroce_bth_put(hdr, opcode, 0, sroce_pad(n), qp->dest_qpn, 0, rd->cur_psn);
    if (op->hdr_bytes > SROCE_BTH_BYTES) {
        sroce_aeth_put(hdr + SROCE_BTH_BYTES, SROCE_SYN_ACK, qp->resp.msn);
    }
    if (rd->atomic) {
        sroce_put64(hdr + SROCE_BTH_BYTES + SROCE_AETH_BYTES, rd->value);
    }
    if (n != 0) {
        sroce_tx_payload(tx, from, n);
    }
    sroce_tx_end(tx, qp->dev, bytes, n, qp->av.ip, qp->sport, qp->av.tos);
    resp_rd_advance(qp, rd, n);
    return 1;
}

int sroce_resp_send_ack(sroce_qp_t *qp, sroce_tx_t *tx)
{
    sroce_resp_t *resp = &qp->resp;
    uint32_t psn = resp->ack_psn;
    uint8_t *hdr;

    if (!sroce_tx_fits(tx, SROCE_ACK_BYTES, qp->av.ip, qp->sport, qp->av.tos)) {
        return 0;
    }
    if (resp->syndrome == SROCE_SYN_ACK) {
        psn = mrail_psn_add(resp->epsn, MRAIL_PSN_MASK);
    }
    hdr = sroce_tx_begin(tx, SROCE_BTH_BYTES + SROCE_AETH_BYTES);
    sroce_bth_put(hdr, SROCE_OP_ACK, 0, 0, qp->dest_qpn, 0, psn);
    sroce_aeth_put(hdr + SROCE_BTH_BYTES, resp->syndrome, resp->msn);
    sroce_tx_end(tx, qp->dev, SROCE_ACK_BYTES, 0, qp->av.ip, qp->sport,
                 qp->av.tos);
    resp->ack_due = resp->ack_late = resp->fatal = 0;
    return 1;
}
