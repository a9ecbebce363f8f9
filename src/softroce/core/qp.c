/* Implements queue pairs: creation, attributes, errors and flush. */
#include "config.h"

#include "softroce/core/core.h"

#include <errno.h>
#include <stdlib.h>

/* ---- Creation and destruction ---- */

static int qp_number(sroce_dev_t *dev, uint32_t *idx_p)
{
    for (uint32_t n = 0; n < dev->params.qpn_count; ++n) {
        uint32_t idx = (dev->next_qp + n) % dev->params.qpn_count;

        if (dev->qps[idx] == NULL) {
            /* A QPN is reused as late as possible. */
            dev->next_qp = idx + 1;
            *idx_p = idx;
            return 0;
        }
    }
    return ENOMEM;
}

static int qp_init_rings(sroce_qp_t *qp, struct ibv_qp_cap *cap)
{
    int ret;

    cap->max_send_wr = MRAIL_MAX(cap->max_send_wr, 1);
    cap->max_send_sge = MRAIL_MAX(cap->max_send_sge, 1);
    ret = sroce_req_init(&qp->req, cap);
    if (ret != 0) {
        return ret;
    }
    if (qp->srq != NULL) {
        cap->max_recv_wr = cap->max_recv_sge = 0;
        return 0;
    }
    cap->max_recv_wr = MRAIL_MAX(cap->max_recv_wr, 1);
    cap->max_recv_sge = MRAIL_MAX(cap->max_recv_sge, 1);
    ret = sroce_rq_init(&qp->rq, cap->max_recv_wr, cap->max_recv_sge);
    if (ret != 0) {
        free(qp->req.ring);
    }
    return ret;
}

static void qp_wire_up(sroce_qp_t *qp, const sroce_qp_params_t *params)
{
    qp->type = params->type;
    qp->state = IBV_QPS_RESET;
    qp->user = params->user;
    qp->send_cq = params->send_cq;
    qp->recv_cq = params->recv_cq;
    qp->sq_sig_all = (params->sq_sig_all != 0);
    qp->mtu_shift = (uint8_t)(7 + qp->dev->params.max_mtu);
    ++qp->send_cq->users;
    ++qp->recv_cq->users;
    ++qp->pd->users;
    if (qp->srq != NULL) {
        ++qp->srq->users;
    }
    sroce_req_reset(qp);
}

int sroce_qp_create(sroce_pd_t *pd, sroce_qp_params_t *params,
                    sroce_qp_t **qp_p)
{
    sroce_dev_t *dev = pd->dev;
    sroce_qp_t *qp;
    uint32_t idx;
    int ret;

    if ((params->type != IBV_QPT_RC) && (params->type != IBV_QPT_UD)) {
        return EOPNOTSUPP;
    }
    if ((params->send_cq == NULL) || (params->recv_cq == NULL)) {
        return EINVAL;
    }
    if ((qp_number(dev, &idx) != 0) ||
        (sroce_timer_reserve(dev, dev->num_qps + 1) != 0)) {
        return ENOMEM;
    }
    qp = calloc(1, sizeof(*qp));
    if (qp == NULL) {
        return ENOMEM;
    }
    qp->dev = dev;
    qp->pd = pd;
    qp->qpn = dev->params.qpn_base + idx;
    qp->srq = params->srq;
    ret = qp_init_rings(qp, &params->cap);
    if (ret != 0) {
        free(qp);
        return ret;
    }
    qp->cap = params->cap;
    qp_wire_up(qp, params);
    dev->qps[idx] = qp;
    ++dev->num_qps;
    *qp_p = qp;
    return 0;
}

void sroce_qp_destroy(sroce_qp_t *qp)
{
    sroce_dev_t *dev = qp->dev;

    sroce_timer_del(qp);
    sroce_cq_invalidate_qp(qp->send_cq, qp->qpn);
    sroce_cq_invalidate_qp(qp->recv_cq, qp->qpn);
    --qp->send_cq->users;
    --qp->recv_cq->users;
    --qp->pd->users;
    if (qp->srq != NULL) {
        --qp->srq->users;
    }
    dev->qps[qp->qpn - dev->params.qpn_base] = NULL;
    --dev->num_qps;
    sroce_rq_cleanup(&qp->rq);
    free(qp->req.ring);
    free(qp);
}

uint32_t sroce_qp_num(const sroce_qp_t *qp)
{
    return qp->qpn;
}

enum ibv_qp_state sroce_qp_state(const sroce_qp_t *qp)
{
    return qp->state;
}

/* ---- Events ---- */

void sroce_qp_event(sroce_qp_t *qp, enum ibv_event_type type)
{
    const sroce_dev_ops_t *ops = &qp->dev->params.ops;

    ops->async_event(ops->arg, type, qp->user);
}

void sroce_qp_notify(sroce_qp_t *qp)
{
    const sroce_dev_ops_t *ops = &qp->dev->params.ops;
    sroce_txinfo_t info;

    if (!qp->active && sroce_qp_peek(qp, 0, &info)) {
        qp->active = 1;
        ops->qp_active(ops->arg, qp, qp->user);
    }
}

/* ---- Error and flush ---- */

static void qp_flush_sq(sroce_qp_t *qp)
{
    sroce_req_t *req = &qp->req;

    req->cur = req->alloc = req->head;
    req->cur_off = 0;
    req->failed = req->rnr_wait = req->drained_event = 0;
    while (req->tail != req->head) {
        sroce_comp_wqe(qp, IBV_WC_WR_FLUSH_ERR);
    }
}

static void qp_flush_one_recv(sroce_qp_t *qp)
{
    struct ibv_wc wc = {.wr_id = qp->resp.wr_id,
                        .status = IBV_WC_WR_FLUSH_ERR,
                        .opcode = IBV_WC_RECV,
                        .qp_num = qp->qpn};

    qp->resp.have_wqe = 0;
    sroce_cq_push(qp->recv_cq, &wc, 0);
}

static void qp_flush_rq(sroce_qp_t *qp)
{
    if (qp->resp.have_wqe) {
        qp_flush_one_recv(qp);
    }
    while ((qp->srq == NULL) && sroce_resp_take_wqe(qp)) {
        qp_flush_one_recv(qp);
    }
}

void sroce_qp_error(sroce_qp_t *qp)
{
    enum ibv_qp_state old = qp->state;

    qp->state = IBV_QPS_ERR;
    sroce_timer_del(qp);
    qp_flush_sq(qp);
    qp_flush_rq(qp);
    if ((old != IBV_QPS_ERR) && (qp->srq != NULL)) {
        sroce_qp_event(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
    }
}

void sroce_qp_sq_error(sroce_qp_t *qp)
{
    qp->state = IBV_QPS_SQE;
    qp_flush_sq(qp);
}

int sroce_qp_post_recv(sroce_qp_t *qp, struct ibv_recv_wr *wr,
                       struct ibv_recv_wr **bad_wr)
{
    int ret;

    if ((qp->srq != NULL) || (qp->state == IBV_QPS_RESET)) {
        *bad_wr = wr;
        return EINVAL;
    }
    ret = sroce_rq_post(&qp->rq, wr, bad_wr);
    if (MRAIL_UNLIKELY(qp->state == IBV_QPS_ERR)) {
        qp_flush_rq(qp);
    }
    return ret;
}

/* ---- Attributes ---- */

static int qp_check_values(const sroce_qp_t *qp, const struct ibv_qp_attr *attr,
                           int mask)
{
    sroce_av_t av;

    if (((mask & IBV_QP_CUR_STATE) && (attr->cur_qp_state != qp->state)) ||
        ((mask & IBV_QP_PKEY_INDEX) && (attr->pkey_index != 0)) ||
        ((mask & IBV_QP_PORT) && (attr->port_num != 1)) ||
        ((mask & IBV_QP_PATH_MTU) &&
         ((attr->path_mtu < IBV_MTU_256) ||
          (attr->path_mtu > qp->dev->params.max_mtu))) ||
        ((mask & IBV_QP_DEST_QPN) && (attr->dest_qp_num >= (1u << 24))) ||
        ((mask & IBV_QP_MAX_QP_RD_ATOMIC) &&
         (attr->max_rd_atomic > SROCE_MAX_RD_ATOMIC)) ||
        ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) &&
         (attr->max_dest_rd_atomic > SROCE_MAX_RD_ATOMIC)) ||
        ((mask & IBV_QP_TIMEOUT) && (attr->timeout > 31)) ||
        ((mask & IBV_QP_RETRY_CNT) && (attr->retry_cnt > 7)) ||
        ((mask & IBV_QP_RNR_RETRY) && (attr->rnr_retry > 7)) ||
        ((mask & IBV_QP_MIN_RNR_TIMER) && (attr->min_rnr_timer > 31)) ||
        ((mask & IBV_QP_AV) && (sroce_av_init(&av, &attr->ah_attr) != 0))) {
        return EINVAL;
    }
    return 0;
}

static void qp_set_path(sroce_qp_t *qp, const struct ibv_qp_attr *attr,
                        int mask)
{
    if (mask & IBV_QP_AV) {
        qp->attr.ah_attr = attr->ah_attr;
        (void)sroce_av_init(&qp->av, &attr->ah_attr);
    }
    if (mask & IBV_QP_DEST_QPN) {
        qp->dest_qpn = qp->attr.dest_qp_num = attr->dest_qp_num;
    }
    if (mask & (IBV_QP_AV | IBV_QP_DEST_QPN)) {
        qp->sport = sroce_av_sport(&qp->av, qp->qpn, qp->dest_qpn);
    }
    if (mask & IBV_QP_PATH_MTU) {
        qp->attr.path_mtu = attr->path_mtu;
        qp->mtu_shift = (uint8_t)(7 + attr->path_mtu);
    }
    if (mask & IBV_QP_RQ_PSN) {
        qp->attr.rq_psn = attr->rq_psn & MRAIL_PSN_MASK;
        qp->resp.epsn = qp->attr.rq_psn;
    }
    if (mask & IBV_QP_SQ_PSN) {
        qp->attr.sq_psn = attr->sq_psn & MRAIL_PSN_MASK;
        qp->req.psn_una = qp->req.psn_next = qp->attr.sq_psn;
        qp->req.psn_alloc = qp->req.psn_max = qp->attr.sq_psn;
    }
}

static void qp_set_values(sroce_qp_t *qp, const struct ibv_qp_attr *attr,
                          int mask)
{
    if (mask & IBV_QP_ACCESS_FLAGS) {
        qp->access = (int)attr->qp_access_flags;
    }
    if (mask & IBV_QP_QKEY) {
        qp->attr.qkey = attr->qkey;
    }
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC) {
        qp->attr.max_rd_atomic = attr->max_rd_atomic;
    }
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) {
        qp->attr.max_dest_rd_atomic = attr->max_dest_rd_atomic;
    }
    if (mask & IBV_QP_TIMEOUT) {
        qp->attr.timeout = attr->timeout;
    }
    if (mask & IBV_QP_RETRY_CNT) {
        qp->attr.retry_cnt = qp->req.retry_left = attr->retry_cnt;
    }
    if (mask & IBV_QP_RNR_RETRY) {
        qp->attr.rnr_retry = qp->req.rnr_left = attr->rnr_retry;
    }
    if (mask & IBV_QP_MIN_RNR_TIMER) {
        qp->attr.min_rnr_timer = attr->min_rnr_timer;
    }
    if (mask & IBV_QP_PORT) {
        qp->attr.port_num = attr->port_num;
    }
    qp_set_path(qp, attr, mask);
}

static void qp_reset(sroce_qp_t *qp)
{
    sroce_timer_del(qp);
    sroce_cq_invalidate_qp(qp->send_cq, qp->qpn);
    sroce_cq_invalidate_qp(qp->recv_cq, qp->qpn);
    sroce_req_reset(qp);
    sroce_resp_reset(qp);
    qp->rq.head = qp->rq.tail = 0;
    memset(&qp->attr, 0, sizeof(qp->attr));
    qp->access = 0;
}

static void qp_enter_error(sroce_qp_t *qp)
{
    qp->resp.ack_due = qp->resp.fatal = 0;
    qp->resp.rd_pending = qp->resp.rd_count = 0;
    sroce_qp_error(qp);
}

unsigned sroce_dev_fail_qps(sroce_dev_t *dev, uint32_t nth)
{
    uint32_t seen = 0;
    unsigned num = 0;

    for (uint32_t i = 0; i < dev->params.qpn_count; ++i) {
        sroce_qp_t *qp = dev->qps[i];

        if ((qp == NULL) || (qp->state == IBV_QPS_RESET) ||
            (qp->state == IBV_QPS_ERR) || (++seen % MRAIL_MAX(nth, 1u) != 0)) {
            continue;
        }
        qp_enter_error(qp);
        sroce_qp_event(qp, IBV_EVENT_QP_FATAL);
        ++num;
    }
    return num;
}

/* Carries out the effects of a state transition, except those on attributes. */
static void qp_enter(sroce_qp_t *qp, enum ibv_qp_state to,
                     const struct ibv_qp_attr *attr, int mask)
{
    enum ibv_qp_state from = qp->state;

    if (to == IBV_QPS_ERR) {
        qp_enter_error(qp);
        return;
    }
    if ((to == IBV_QPS_RESET) && (from != IBV_QPS_RESET)) {
        qp_reset(qp);
    }
    qp->state = to;
    if ((to == IBV_QPS_SQD) && (from == IBV_QPS_RTS)) {
        qp->req.drained_event =
            (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) && attr->en_sqd_async_notify;
        /* Packets in flight may not have requested an acknowledgement, so send
         * a probe that does. */
        if (qp->type == IBV_QPT_RC) {
            sroce_req_probe(qp);
        }
        sroce_comp_tail_moved(qp);
    }
}

int sroce_qp_modify(sroce_qp_t *qp, const struct ibv_qp_attr *attr,
                    int attr_mask)
{
    enum ibv_qp_state to =
        (attr_mask & IBV_QP_STATE) ? attr->qp_state : qp->state;

    if ((sroce_qp_move_check(qp->type, qp->state, to, attr_mask) != 0) ||
        (qp_check_values(qp, attr, attr_mask) != 0)) {
        return EINVAL;
    }
    qp_set_values(qp, attr, attr_mask);
    qp_enter(qp, to, attr, attr_mask);
    sroce_qp_notify(qp);
    return 0;
}

void sroce_qp_query(const sroce_qp_t *qp, struct ibv_qp_attr *attr)
{
    *attr = qp->attr;
    attr->qp_state = attr->cur_qp_state = qp->state;
    attr->path_mtu = (enum ibv_mtu)(qp->mtu_shift - 7);
    attr->path_mig_state = IBV_MIG_MIGRATED;
    attr->qp_access_flags = (unsigned)qp->access;
    attr->cap = qp->cap;
    attr->rq_psn = qp->resp.epsn;
    attr->sq_psn = qp->req.psn_next;
    attr->sq_draining =
        (qp->state == IBV_QPS_SQD) && (qp->req.tail != qp->req.alloc);
}
