/*
 * The completer processes the peer's responses to the requester (ACKs, NAKs,
 * READ data and atomic results), and completes work requests.
 *
 * Invariant: each work request completes once, in order. psn_una is the PSN of
 * the oldest unacknowledged packet. Source: IBA 9.7.5 (acknowledgement),
 * 9.7.6.1.4 (implied NAK), 9.9.2 (requester errors).
 */
#include "config.h"

#include "softroce/core/core.h"

static const uint8_t wc_opcode[] = {
    [IBV_WR_SEND] = IBV_WC_SEND,
    [IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
    [IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
    [IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
    [IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
    [IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
    [IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
};

void sroce_comp_wqe(sroce_qp_t *qp, enum ibv_wc_status status)
{
    sroce_req_t *req = &qp->req;
    const sroce_swqe_t *wqe = sroce_req_wqe(req, req->tail++);

    if (qp->sq_sig_all || (wqe->flags & IBV_SEND_SIGNALED) ||
        (status != IBV_WC_SUCCESS)) {
        struct ibv_wc wc = {.wr_id = wqe->wr_id,
                            .status = status,
                            .opcode =
                                (enum ibv_wc_opcode)wc_opcode[wqe->opcode],
                            .byte_len = wqe->length,
                            .qp_num = qp->qpn};

        sroce_cq_push(qp->send_cq, &wc, 0);
    }
}

void sroce_comp_fail(sroce_qp_t *qp, enum ibv_wc_status status)
{
    sroce_comp_wqe(qp, status);
    if (qp->type == IBV_QPT_UD) {
        sroce_qp_sq_error(qp);
    } else {
        sroce_qp_error(qp);
    }
}

void sroce_comp_tail_moved(sroce_qp_t *qp)
{
    sroce_req_t *req = &qp->req;

    if (MRAIL_UNLIKELY(req->failed) && (req->tail == req->fail_idx)) {
        sroce_comp_fail(qp, req->fail_status);
        return;
    }
    if (MRAIL_UNLIKELY(req->drained_event) && (req->tail == req->alloc)) {
        req->drained_event = 0;
        sroce_qp_event(qp, IBV_EVENT_SQ_DRAINED);
    }
}

/* Completes and frees the READ or atomic at the tail. */
static void comp_read_done(sroce_qp_t *qp)
{
    sroce_req_t *req = &qp->req;

    /* After a backward seek, tail == cur means that the WQE has not been
     * resent, so rd_out does not include it. */
    if (req->tail != req->cur) {
        --req->rd_out;
    }
    req->read_off = 0;
    req->read_sg.idx = req->read_sg.off = 0;
    sroce_comp_wqe(qp, IBV_WC_SUCCESS);
}

/*
 * The peer has received every PSN before `psn`. Completes the SENDs and WRITEs
 * that end there, but stops at a READ or atomic: only a response completes one.
 */
static void comp_until(sroce_qp_t *qp, uint32_t psn, mrail_ns_t now_ns)
{
    sroce_req_t *req = &qp->req;
    uint32_t una = req->psn_una;

    while (req->tail != req->alloc) {
        const sroce_swqe_t *wqe = sroce_req_wqe(req, req->tail);
        uint32_t end = mrail_psn_add(wqe->first_psn, wqe->num_pkts);

        if (wqe->kind >= SROCE_WK_READ) {
            break;
        }
        if (mrail_psn_diff(psn, end) < 0) {
            if (mrail_psn_diff(psn, req->psn_una) > 0) {
                req->psn_una = psn;
            }
            break;
        }
        req->psn_una = end;
        /* After a backward seek, cur may be at the tail, and then moves with
         * it. sroce_req_progress() sets psn_next. */
        if (req->tail == req->cur) {
            req->cur_off = 0;
            ++req->cur;
        }
        sroce_comp_wqe(qp, IBV_WC_SUCCESS);
    }
    if (una != req->psn_una) {
        sroce_req_progress(qp, (uint32_t)mrail_psn_diff(req->psn_una, una),
                           now_ns);
    }
}

/* Responses from the peer were lost. Requests them again, once per psn_una. */
static void comp_gap(sroce_qp_t *qp)
{
    sroce_req_t *req = &qp->req;

    if (req->gap_seen && (req->gap_psn == req->psn_una)) {
        return;
    }
    req->gap_seen = 1;
    req->gap_psn = req->psn_una;
    ++qp->dev->cnt.read_gaps;
    sroce_req_shrink(qp);
    sroce_req_seek(qp, req->psn_una);
}

static void comp_rnr(sroce_qp_t *qp, uint32_t psn, uint8_t timer,
                     mrail_ns_t now_ns)
{
    sroce_req_t *req = &qp->req;

    ++qp->dev->cnt.nak_rnr_rx;
    if (req->rnr_wait) {
        return; /* a duplicate */
    }
    if (req->psn_una != psn) {
        comp_gap(qp);
        return;
    }
    if (qp->attr.rnr_retry != 7) {
        if (req->rnr_left == 0) {
            sroce_comp_fail(qp, IBV_WC_RNR_RETRY_EXC_ERR);
            return;
        }
        --req->rnr_left;
    }
    sroce_req_seek(qp, psn);
    req->rnr_wait = 1;
    req->rnr_ns = now_ns + sroce_rnr_timer_us[timer] * MRAIL_NS_PER_US;
    req->ack_ns = req->probe_ns = MRAIL_NS_NEVER;
    sroce_timer_set(qp, req->rnr_ns);
}

static void comp_nak(sroce_qp_t *qp, uint32_t psn, uint8_t syndrome)
{
    sroce_req_t *req = &qp->req;
    enum ibv_wc_status status = IBV_WC_REM_INV_REQ_ERR;

    if (syndrome == SROCE_SYN_NAK_SEQ) {
        ++qp->dev->cnt.nak_seq_rx;
        sroce_req_shrink(qp);
        if (req->psn_next != req->psn_una) {
            sroce_req_seek(qp, req->psn_una);
        }
        return;
    }
    ++qp->dev->cnt.nak_err_rx;
    if (syndrome == SROCE_SYN_NAK_ACCESS) {
        status = IBV_WC_REM_ACCESS_ERR;
    } else if (syndrome == SROCE_SYN_NAK_OP) {
        status = IBV_WC_REM_OP_ERR;
    }
    /* Responses to READs before `psn` were lost, and the peer's QP is in the
     * error state and will not resend them. These READs are therefore
     * flushed. */
    while (req->tail != req->alloc) {
        const sroce_swqe_t *wqe = sroce_req_wqe(req, req->tail);

        if (mrail_psn_diff(psn, mrail_psn_add(wqe->first_psn, wqe->num_pkts)) <
            0) {
            sroce_comp_fail(qp, status);
            return;
        }
        sroce_comp_wqe(qp, IBV_WC_WR_FLUSH_ERR);
    }
}

static int comp_ack(sroce_qp_t *qp, const sroce_rx_t *rx)
{
    sroce_req_t *req = &qp->req;
    uint8_t syndrome = rx->ext[0];
    uint32_t psn = rx->bth.psn, end;
    int kind = SROCE_SYN_KIND(syndrome);

    /* An ACK carries the last PSN received, a NAK the first PSN not
     * received. */
    end = mrail_psn_add(psn, kind == SROCE_SYN_KIND_ACK);
    if (mrail_psn_diff(end, req->psn_una) < 0) {
        ++qp->dev->cnt.rx_stale;
        return 0;
    }
    if ((mrail_psn_diff(end, req->psn_max) > 0) ||
        ((kind != SROCE_SYN_KIND_ACK) && (psn == req->psn_max))) {
        ++qp->dev->cnt.drop_psn;
        return 0;
    }
    comp_until(qp, end, rx->now_ns);
    if (kind == SROCE_SYN_KIND_ACK) {
        if (mrail_psn_diff(end, req->psn_una) > 0) {
            comp_gap(qp);
        }
    } else if (kind == SROCE_SYN_KIND_RNR) {
        comp_rnr(qp, psn, syndrome & 0x1f, rx->now_ns);
    } else if ((syndrome >= SROCE_SYN_NAK_SEQ) &&
               (syndrome <= SROCE_SYN_NAK_OP)) {
        comp_nak(qp, psn, syndrome);
    }
    sroce_comp_tail_moved(qp);
    return 1;
}

/*
 * Finds the WQE to which a READ or atomic response belongs. Earlier SENDs and
 * WRITEs complete first, which leaves that WQE at the tail. Returns NULL if the
 * response must be dropped.
 */
static sroce_swqe_t *comp_find_read(sroce_qp_t *qp, const sroce_rx_t *rx)
{
    sroce_req_t *req = &qp->req;
    sroce_swqe_t *wqe;

    if (mrail_psn_diff(rx->bth.psn, req->psn_una) < 0) {
        ++qp->dev->cnt.rx_stale;
        return NULL;
    }
    if (mrail_psn_diff(rx->bth.psn, req->psn_max) >= 0) {
        ++qp->dev->cnt.drop_psn;
        return NULL;
    }
    comp_until(qp, rx->bth.psn, rx->now_ns);
    if (req->psn_una != rx->bth.psn) {
        comp_gap(qp);
        /* The peer is still answering the old request and will answer the
         * repeated one afterwards, so restart the ACK timer. */
        if ((req->ack_ns != MRAIL_NS_NEVER) &&
            (req->psn_next != req->psn_una)) {
            sroce_req_set_ack_timer(qp, rx->now_ns);
        }
        return NULL;
    }
    wqe = sroce_req_wqe(req, req->tail);
    if ((req->tail == req->alloc) || (wqe->kind < SROCE_WK_READ) ||
        ((wqe->kind == SROCE_WK_ATOMIC) !=
         ((rx->op->flags & SROCE_OPF_ATOMIC) != 0))) {
        ++qp->dev->cnt.drop_psn;
        return NULL;
    }
    return wqe;
}

static void comp_read_progress(sroce_qp_t *qp, mrail_ns_t now_ns, int done)
{
    sroce_req_t *req = &qp->req;

    req->psn_una = mrail_psn_add(req->psn_una, 1);
    if (req->tail != req->cur) {
        --req->rd_psns;
    }
    if (done) {
        comp_read_done(qp);
    }
    sroce_req_progress(qp, 1, now_ns);
    sroce_comp_tail_moved(qp);
}

static int comp_read_data(sroce_qp_t *qp, const sroce_rx_t *rx)
{
    sroce_req_t *req = &qp->req;
    sroce_swqe_t *wqe = comp_find_read(qp, rx);
    uint32_t left;

    if (wqe == NULL) {
        return 0;
    }
    left = wqe->length - req->read_off;
    if (rx->payload_bytes != MRAIL_MIN(left, 1u << qp->mtu_shift)) {
        ++qp->dev->cnt.drop_length;
        return 0;
    }
    if (sroce_sg_scatter(qp->pd, wqe->sge, wqe->num_sge, &req->read_sg,
                         rx->payload, rx->payload_bytes) != 0) {
        sroce_comp_fail(qp, IBV_WC_LOC_PROT_ERR);
        return 0;
    }
    req->read_off += rx->payload_bytes;
    comp_read_progress(qp, rx->now_ns, req->read_off == wqe->length);
    return 1;
}

static int comp_atomic(sroce_qp_t *qp, const sroce_rx_t *rx)
{
    sroce_swqe_t *wqe = comp_find_read(qp, rx);
    sroce_sgcur_t sg = {0, 0};
    uint64_t value;

    if (wqe == NULL) {
        return 0;
    }
    value = sroce_get64(rx->ext + SROCE_AETH_BYTES);
    if (sroce_sg_scatter(qp->pd, wqe->sge, wqe->num_sge, &sg, &value,
                         sizeof(value)) != 0) {
        sroce_comp_fail(qp, IBV_WC_LOC_PROT_ERR);
        return 0;
    }
    comp_read_progress(qp, rx->now_ns, 1);
    return 1;
}

int sroce_comp_rx(sroce_qp_t *qp, sroce_rx_t *rx)
{
    if (rx->bth.opcode == SROCE_OP_ACK) {
        return comp_ack(qp, rx);
    }
    if (rx->op->flags & SROCE_OPF_ATOMIC) {
        return comp_atomic(qp, rx);
    }
    return comp_read_data(qp, rx);
}
