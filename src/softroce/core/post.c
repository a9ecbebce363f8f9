/*
 * Implements the send queue: its memory, and the posting of work requests.
 * Posting checks everything that can be checked without a packet. A request
 * that fails a check is not posted.
 */
#include "config.h"

#include "softroce/core/core.h"

#include <errno.h>
#include <stdlib.h>

int sroce_req_init(sroce_req_t *req, struct ibv_qp_cap *cap)
{
    size_t data;

    if ((cap->max_send_wr > SROCE_MAX_WR) ||
        (cap->max_send_sge > SROCE_MAX_SGE) ||
        (cap->max_inline_data > SROCE_MAX_INLINE)) {
        return EINVAL;
    }
    req->max_wr = cap->max_send_wr;
    req->max_sge = cap->max_send_sge;
    req->max_inline = cap->max_inline_data;
    for (req->size = 1; req->size < req->max_wr; req->size <<= 1) {
    }
    data = MRAIL_MAX(req->max_sge * sizeof(struct ibv_sge), req->max_inline);
    req->stride = (uint32_t)((sizeof(sroce_swqe_t) + data + 63) & ~63ull);
    req->ring = aligned_alloc(64, (size_t)req->size * req->stride);
    return (req->ring == NULL) ? ENOMEM : 0;
}

void sroce_req_reset(sroce_qp_t *qp)
{
    sroce_req_t *req = &qp->req;
    sroce_req_t keep = *req;

    memset(req, 0, sizeof(*req));
    req->ring = keep.ring;
    req->stride = keep.stride;
    req->size = keep.size;
    req->max_wr = keep.max_wr;
    req->max_sge = keep.max_sge;
    req->max_inline = keep.max_inline;
    req->window = qp->dev->params.window_pkts;
    req->ack_ns = req->probe_ns = req->rnr_ns = MRAIL_NS_NEVER;
}

/* Kind of a work request + 1, by QP type and opcode. 0 marks an illegal
 * combination. */
static const int8_t wr_kind[2][IBV_WR_ATOMIC_FETCH_AND_ADD + 1] = {
    /* RC */
    {[IBV_WR_SEND] = SROCE_WK_SEND + 1,
     [IBV_WR_SEND_WITH_IMM] = SROCE_WK_SEND + 1,
     [IBV_WR_RDMA_WRITE] = SROCE_WK_WRITE + 1,
     [IBV_WR_RDMA_WRITE_WITH_IMM] = SROCE_WK_WRITE + 1,
     [IBV_WR_RDMA_READ] = SROCE_WK_READ + 1,
     [IBV_WR_ATOMIC_CMP_AND_SWP] = SROCE_WK_ATOMIC + 1,
     [IBV_WR_ATOMIC_FETCH_AND_ADD] = SROCE_WK_ATOMIC + 1},
    /* UD */
    {[IBV_WR_SEND] = SROCE_WK_SEND + 1,
     [IBV_WR_SEND_WITH_IMM] = SROCE_WK_SEND + 1},
};

static int post_data(sroce_qp_t *qp, sroce_swqe_t *wqe,
                     const struct ibv_send_wr *wr)
{
    uint8_t *to = (uint8_t *)wqe->sge;
    uint64_t length = 0;

    for (int i = 0; i < wr->num_sge; ++i) {
        length += wr->sg_list[i].length;
    }
    if (length > SROCE_MAX_MSG) {
        return EINVAL;
    }
    wqe->length = (uint32_t)length;
    if (wr->send_flags & IBV_SEND_INLINE) {
        if ((wqe->kind > SROCE_WK_WRITE) || (length > qp->req.max_inline)) {
            return EINVAL;
        }
        wqe->num_sge = 0;
        for (int i = 0; i < wr->num_sge; ++i) {
            memcpy(to, (const void *)(uintptr_t)wr->sg_list[i].addr,
                   wr->sg_list[i].length);
            to += wr->sg_list[i].length;
        }
        return 0;
    }
    if ((uint32_t)wr->num_sge > qp->req.max_sge) {
        return EINVAL;
    }
    wqe->num_sge = (uint8_t)wr->num_sge;
    for (int i = 0; i < wr->num_sge; ++i) {
        wqe->sge[i] = wr->sg_list[i];
    }
    return 0;
}

static int post_ud(sroce_qp_t *qp, sroce_swqe_t *wqe,
                   const struct ibv_send_wr *wr)
{
    const sroce_ah_t *ah = (const sroce_ah_t *)wr->wr.ud.ah;

    if ((ah == NULL) || (wqe->length > (1u << qp->mtu_shift))) {
        return EINVAL;
    }
    wqe->ud.dst_ip = ah->av.ip;
    wqe->ud.tos = ah->av.tos;
    wqe->ud.qpn = wr->wr.ud.remote_qpn & 0xffffff;
    /* IBA 10.2.5: the high bit selects the Q_Key of the QP. */
    wqe->ud.qkey =
        (wr->wr.ud.remote_qkey >> 31) ? qp->attr.qkey : wr->wr.ud.remote_qkey;
    wqe->ud.sport = sroce_av_sport(&ah->av, qp->qpn, wqe->ud.qpn);
    return 0;
}

static int post_rc(sroce_qp_t *qp, sroce_swqe_t *wqe,
                   const struct ibv_send_wr *wr)
{
    wqe->num_pkts = sroce_num_pkts(wqe->length, qp->mtu_shift);
    switch (wqe->kind) {
    case SROCE_WK_READ:
        wqe->remote_addr = wr->wr.rdma.remote_addr;
        wqe->rkey = wr->wr.rdma.rkey;
        return (qp->attr.max_rd_atomic == 0) ? EINVAL : 0;
    case SROCE_WK_WRITE:
        wqe->remote_addr = wr->wr.rdma.remote_addr;
        wqe->rkey = wr->wr.rdma.rkey;
        return 0;
    case SROCE_WK_ATOMIC:
        wqe->remote_addr = wr->wr.atomic.remote_addr;
        wqe->rkey = wr->wr.atomic.rkey;
        wqe->atomic.compare_add = wr->wr.atomic.compare_add;
        wqe->atomic.swap = wr->wr.atomic.swap;
        wqe->num_pkts = 1;
        return ((qp->attr.max_rd_atomic == 0) || (wqe->length != 8)) ? EINVAL
                                                                     : 0;
    default:
        return 0;
    }
}

static int post_one(sroce_qp_t *qp, const struct ibv_send_wr *wr)
{
    sroce_req_t *req = &qp->req;
    sroce_swqe_t *wqe;
    int kind, ret;

    if (((unsigned)wr->opcode > IBV_WR_ATOMIC_FETCH_AND_ADD) ||
        (wr->num_sge < 0)) {
        return EINVAL;
    }
    kind = wr_kind[qp->type == IBV_QPT_UD][wr->opcode] - 1;
    if (MRAIL_UNLIKELY(kind < 0)) {
        return EINVAL;
    }
    if (MRAIL_UNLIKELY(req->head - req->tail >= req->max_wr)) {
        return ENOMEM;
    }
    wqe = sroce_req_wqe(req, req->head);
    wqe->wr_id = wr->wr_id;
    wqe->opcode = (uint8_t)wr->opcode;
    wqe->flags = (uint8_t)wr->send_flags;
    wqe->kind = (uint8_t)kind;
    wqe->imm = wr->imm_data;
    ret = post_data(qp, wqe, wr);
    if (ret == 0) {
        ret = (qp->type == IBV_QPT_UD) ? post_ud(qp, wqe, wr)
                                       : post_rc(qp, wqe, wr);
    }
    if (ret == 0) {
        ++req->head;
    }
    return ret;
}

int sroce_qp_post_send(sroce_qp_t *qp, struct ibv_send_wr *wr,
                       struct ibv_send_wr **bad_wr)
{
    int ret = 0;

    if (MRAIL_UNLIKELY(qp->state < IBV_QPS_RTS)) {
        *bad_wr = wr;
        return EINVAL;
    }
    for (; wr != NULL; wr = wr->next) {
        ret = post_one(qp, wr);
        if (MRAIL_UNLIKELY(ret != 0)) {
            *bad_wr = wr;
            break;
        }
    }
    if (MRAIL_UNLIKELY(qp->state == IBV_QPS_ERR)) {
        sroce_qp_error(qp);
    } else if (MRAIL_UNLIKELY(qp->state == IBV_QPS_SQE)) {
        sroce_qp_sq_error(qp);
    } else {
        sroce_qp_notify(qp);
    }
    return ret;
}
