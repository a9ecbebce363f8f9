/* Replaces the functions of libibverbs for queue pairs, shared receive queues
 * and addresses. */
#include "config.h"
#include "softroce/host/host.h"
#include "softroce/host/real.h"

#include <errno.h>
#include <netinet/ip.h>
#include <stdlib.h>
#include <string.h>

/* Not declared in older headers. */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op,
                               uint32_t flags);

/* ---- Shared receive queues ---- */

MRAIL_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd,
                                            struct ibv_srq_init_attr *attr)
{
    sroce_host_ctx_t *ctx;
    sroce_host_srq_t *srq;
    int ret;

    SROCE_PASS(ibv_create_srq, pd, attr);
    srq = calloc(1, sizeof(*srq));
    if (srq == NULL) {
        return NULL;
    }
    ctx = sroce_host_lock(pd->context);
    if (ctx == NULL) {
        free(srq);
        return NULL;
    }
    ret =
        sroce_srq_create(sroce_host_pd(pd)->core, &attr->attr, srq, &srq->core);
    sroce_host_unlock(ctx);
    if (ret != 0) {
        free(srq);
        errno = ret;
        return NULL;
    }
    srq->ctx = ctx;
    srq->ibv.context = pd->context;
    srq->ibv.srq_context = attr->srq_context;
    srq->ibv.pd = pd;
    pthread_mutex_init(&srq->ibv.mutex, NULL);
    pthread_cond_init(&srq->ibv.cond, NULL);
    return &srq->ibv;
}

MRAIL_EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr,
                                int attr_mask)
{
    sroce_host_ctx_t *ctx;
    int ret;

    SROCE_PASS(ibv_modify_srq, srq, attr, attr_mask);
    ctx = sroce_host_lock(srq->context);
    if (ctx == NULL) {
        return EPERM;
    }
    ret = sroce_srq_modify(sroce_host_srq(srq)->core, attr, attr_mask);
    sroce_host_unlock(ctx);
    return ret;
}

MRAIL_EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
    sroce_host_ctx_t *ctx;

    SROCE_PASS(ibv_query_srq, srq, attr);
    ctx = sroce_host_lock(srq->context);
    if (ctx == NULL) {
        return EPERM;
    }
    sroce_srq_query(sroce_host_srq(srq)->core, attr);
    sroce_host_unlock(ctx);
    return 0;
}

MRAIL_EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
    sroce_host_srq_t *host = sroce_host_srq(srq);
    sroce_host_ctx_t *ctx;
    int ret;

    SROCE_PASS(ibv_destroy_srq, srq);
    ctx = sroce_host_lock(srq->context);
    if (ctx == NULL) {
        return 0;
    }
    ret = sroce_srq_destroy(host->core);
    if (ret == 0) {
        sroce_event_invalidate(ctx, srq, &host->events_reported,
                               &srq->events_completed);
    }
    sroce_host_unlock(ctx);
    if (ret == 0) {
        free(host);
    }
    return ret;
}

/* ---- Queue pairs ---- */

static int obj_qp_create(sroce_host_ctx_t *ctx, struct ibv_pd *pd,
                         struct ibv_qp_init_attr *attr, sroce_host_qp_t *qp)
{
    sroce_qp_params_t params = {
        .type = attr->qp_type,
        .send_cq = sroce_host_cq(attr->send_cq)->core,
        .recv_cq = sroce_host_cq(attr->recv_cq)->core,
        .srq = attr->srq ? sroce_host_srq(attr->srq)->core : NULL,
        .cap = attr->cap,
        .sq_sig_all = attr->sq_sig_all,
        .user = qp};
    int ret;

    mrail_list_init(&qp->list);
    qp->sched = SROCE_QP_SCHED_IDLE;
    qp->dest_dev = -1;
    qp->ctx = ctx;
    qp->ibv.qp_type = attr->qp_type;
    ret = sroce_qp_create(sroce_host_pd(pd)->core, &params, &qp->core);
    if (ret != 0) {
        return ret;
    }
    attr->cap = params.cap;
    qp->ibv.context = pd->context;
    qp->ibv.qp_context = attr->qp_context;
    qp->ibv.pd = pd;
    qp->ibv.send_cq = attr->send_cq;
    qp->ibv.recv_cq = attr->recv_cq;
    qp->ibv.srq = attr->srq;
    qp->ibv.qp_num = sroce_qp_num(qp->core);
    qp->ibv.state = IBV_QPS_RESET;
    qp->sq_sig_all = attr->sq_sig_all;
    pthread_mutex_init(&qp->ibv.mutex, NULL);
    pthread_cond_init(&qp->ibv.cond, NULL);
    return 0;
}

/* Checks that all objects belong to the same opened device. */
static int obj_qp_objects_ok(const struct ibv_context *context,
                             const struct ibv_qp_init_attr *attr)
{
    return (attr->send_cq != NULL) && (attr->recv_cq != NULL) &&
           (attr->send_cq->context == context) &&
           (attr->recv_cq->context == context) &&
           ((attr->srq == NULL) || (attr->srq->context == context));
}

MRAIL_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd,
                                          struct ibv_qp_init_attr *attr)
{
    sroce_host_ctx_t *ctx;
    sroce_host_qp_t *qp;
    int ret;

    SROCE_PASS(ibv_create_qp, pd, attr);
    if (!obj_qp_objects_ok(pd->context, attr)) {
        errno = EINVAL;
        return NULL;
    }
    qp = calloc(1, sizeof(*qp));
    if (qp == NULL) {
        return NULL;
    }
    ctx = sroce_host_lock(pd->context);
    if (ctx == NULL) {
        free(qp);
        return NULL;
    }
    ret = obj_qp_create(ctx, pd, attr, qp);
    sroce_host_unlock(ctx);
    if (ret != 0) {
        free(qp);
        errno = ret;
        return NULL;
    }
    return &qp->ibv;
}

MRAIL_EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
    SROCE_PASS(ibv_qp_to_qp_ex, qp);
    return NULL;
}

MRAIL_EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr,
                               int attr_mask)
{
    sroce_host_qp_t *host = sroce_host_qp(qp);
    sroce_host_ctx_t *ctx;
    int ret;

    SROCE_PASS(ibv_modify_qp, qp, attr, attr_mask);
    ctx = sroce_host_lock(qp->context);
    if (ctx == NULL) {
        return EPERM;
    }
    ret = sroce_qp_modify(host->core, attr, attr_mask);
    if (ret == 0) {
        if (attr_mask & IBV_QP_DEST_QPN) {
            host->dest_qpn = attr->dest_qp_num;
        }
        if (attr_mask & IBV_QP_STATE) {
            qp->state = attr->qp_state;
        }
        sroce_progress(ctx);
    }
    sroce_host_unlock(ctx);
    return ret;
}

MRAIL_EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr,
                              int attr_mask, struct ibv_qp_init_attr *init)
{
    sroce_host_ctx_t *ctx;

    SROCE_PASS(ibv_query_qp, qp, attr, attr_mask, init);
    ctx = sroce_host_lock(qp->context);
    if (ctx == NULL) {
        return EPERM;
    }
    memset(attr, 0, sizeof(*attr));
    sroce_qp_query(sroce_host_qp(qp)->core, attr);
    qp->state = attr->qp_state;
    memset(init, 0, sizeof(*init));
    init->qp_context = qp->qp_context;
    init->send_cq = qp->send_cq;
    init->recv_cq = qp->recv_cq;
    init->srq = qp->srq;
    init->cap = attr->cap;
    init->qp_type = qp->qp_type;
    init->sq_sig_all = sroce_host_qp(qp)->sq_sig_all;
    sroce_host_unlock(ctx);
    return 0;
}

MRAIL_EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
    sroce_host_qp_t *host = sroce_host_qp(qp);
    sroce_host_ctx_t *ctx;

    SROCE_PASS(ibv_destroy_qp, qp);
    ctx = sroce_host_lock(qp->context);
    if (ctx == NULL) {
        return 0;
    }
    sroce_tx_finish(host);
    sroce_tx_remove(host);
    sroce_qp_destroy(host->core);
    sroce_event_invalidate(ctx, qp, &host->events_reported,
                           &qp->events_completed);
    sroce_host_unlock(ctx);
    free(host);
    return 0;
}

MRAIL_EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    SROCE_PASS(ibv_query_ece, qp, ece);
    return EOPNOTSUPP;
}

MRAIL_EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    SROCE_PASS(ibv_set_ece, qp, ece);
    return EOPNOTSUPP;
}

/* Returns 0, which means "not guaranteed". Packets are placed in order, but
 * memcpy() may not copy in order. */
MRAIL_EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp,
                                            enum ibv_wr_opcode op,
                                            uint32_t flags)
{
    if (!sroce_host_enabled()) {
        int (*real)(struct ibv_qp *, enum ibv_wr_opcode, uint32_t) =
            SROCE_REAL(ibv_query_qp_data_in_order);

        return (real == NULL) ? 0 : real(qp, op, flags);
    }
    return 0;
}

/* The device does not support multicast: a UD packet has one destination. */
MRAIL_EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid,
                                  uint16_t lid)
{
    SROCE_PASS(ibv_attach_mcast, qp, gid, lid);
    return EOPNOTSUPP;
}

MRAIL_EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid,
                                  uint16_t lid)
{
    SROCE_PASS(ibv_detach_mcast, qp, gid, lid);
    return EOPNOTSUPP;
}

/* ---- Address handles ---- */

MRAIL_EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd,
                                          struct ibv_ah_attr *attr)
{
    sroce_ah_t *ah;
    int ret;

    SROCE_PASS(ibv_create_ah, pd, attr);
    ah = calloc(1, sizeof(*ah));
    if (ah == NULL) {
        return NULL;
    }
    ret = sroce_av_init(&ah->av, attr);
    if (ret != 0) {
        free(ah);
        errno = ret;
        return NULL;
    }
    ah->ibv.context = pd->context;
    ah->ibv.pd = pd;
    return &ah->ibv;
}

MRAIL_EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
    SROCE_PASS(ibv_destroy_ah, ah);
    free(MRAIL_CONTAINER_OF(ah, sroce_ah_t, ibv));
    return 0;
}

/* Of the 40 bytes in front of a datagram, the second half is its IPv4 header.
 * Source: IBA annex A17.4.5.2. */
MRAIL_EXPORT int ibv_init_ah_from_wc(struct ibv_context *context,
                                     uint8_t port_num, struct ibv_wc *wc,
                                     struct ibv_grh *grh,
                                     struct ibv_ah_attr *attr)
{
    struct iphdr ip;

    SROCE_PASS(ibv_init_ah_from_wc, context, port_num, wc, grh, attr);
    if (!(wc->wc_flags & IBV_WC_GRH) || (port_num != 1)) {
        errno = EINVAL;
        return -1;
    }
    memcpy(&ip, (const uint8_t *)grh + 20, sizeof(ip));
    memset(attr, 0, sizeof(*attr));
    attr->is_global = 1;
    attr->port_num = port_num;
    attr->grh.hop_limit = 64;
    attr->grh.traffic_class = ip.tos;
    attr->grh.dgid.raw[10] = attr->grh.dgid.raw[11] = 0xff;
    memcpy(attr->grh.dgid.raw + 12, &ip.saddr, sizeof(ip.saddr));
    return 0;
}

MRAIL_EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd,
                                                  struct ibv_wc *wc,
                                                  struct ibv_grh *grh,
                                                  uint8_t port_num)
{
    struct ibv_ah_attr attr;

    SROCE_PASS(ibv_create_ah_from_wc, pd, wc, grh, port_num);
    if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr) != 0) {
        return NULL;
    }
    return ibv_create_ah(pd, &attr);
}
