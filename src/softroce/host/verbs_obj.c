/* libibverbs put in front: protection domains, memory, queues, addresses. */
#include "config.h"
#include "softroce/host/host.h"
#include "softroce/host/real.h"

#include <errno.h>
#include <netinet/ip.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* Only newer headers declare these. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
                                uint64_t iova, unsigned int access);

/* An object with its context's lock; NULL and errno in a forked child. */
static sroce_host_ctx_t *obj_enter(struct ibv_context *context)
{
    sroce_host_ctx_t *ctx = sroce_host_ctx(context);

    if (!sroce_host_is_mine(ctx)) {
        errno = EPERM;
        return NULL;
    }
    pthread_mutex_lock(&ctx->lock);
    return ctx;
}

static void obj_leave(sroce_host_ctx_t *ctx)
{
    pthread_mutex_unlock(&ctx->lock);
}

/* ---- Protection domains ---- */

MRAIL_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    sroce_host_pd_t *pd;
    sroce_host_ctx_t *ctx;
    int ret;

    SROCE_PASS(ibv_alloc_pd, context);
    pd = calloc(1, sizeof(*pd));
    if (pd == NULL) {
        return NULL;
    }
    ctx = obj_enter(context);
    if (ctx == NULL) {
        free(pd);
        return NULL;
    }
    ret = sroce_pd_create(ctx->core, &pd->core);
    obj_leave(ctx);
    if (ret != 0) {
        free(pd);
        errno = ret;
        return NULL;
    }
    pd->ibv.context = context;
    return &pd->ibv;
}

MRAIL_EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
    sroce_host_ctx_t *ctx;
    int ret;

    SROCE_PASS(ibv_dealloc_pd, pd);
    ctx = obj_enter(pd->context);
    if (ctx == NULL) {
        return 0;
    }
    ret = sroce_pd_destroy(sroce_host_pd(pd)->core);
    obj_leave(ctx);
    if (ret == 0) {
        free(sroce_host_pd(pd));
    }
    return ret;
}

/* ---- Memory regions ---- */

static struct ibv_mr *obj_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
                                 uint64_t iova, int access)
{
    sroce_host_mr_t *mr = calloc(1, sizeof(*mr));
    sroce_host_ctx_t *ctx;
    int ret;

    if (mr == NULL) {
        return NULL;
    }
    ctx = obj_enter(pd->context);
    if (ctx == NULL) {
        free(mr);
        return NULL;
    }
    /* Hints: relaxed ordering, huge pages.  Without them we do the same. */
    access &= ~(int)IBV_ACCESS_OPTIONAL_RANGE & ~IBV_ACCESS_HUGETLB;
    ret = sroce_mr_create(sroce_host_pd(pd)->core, addr, length, iova, access,
                          &mr->core);
    obj_leave(ctx);
    if (ret != 0) {
        free(mr);
        errno = ret;
        return NULL;
    }
    mr->ibv.context = pd->context;
    mr->ibv.pd = pd;
    mr->ibv.addr = addr;
    mr->ibv.length = length;
    mr->ibv.lkey = mr->ibv.rkey = sroce_mr_key(mr->core);
    return &mr->ibv;
}

MRAIL_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr,
                                       size_t length, int access)
{
    SROCE_PASS(ibv_reg_mr, pd, addr, length, access);
    return obj_reg_mr(pd, addr, length, (uintptr_t)addr, access);
}

MRAIL_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr,
                                            size_t length, uint64_t iova,
                                            int access)
{
    SROCE_PASS(ibv_reg_mr_iova, pd, addr, length, iova, access);
    return obj_reg_mr(pd, addr, length, iova, access);
}

MRAIL_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr,
                                             size_t length, uint64_t iova,
                                             unsigned int access)
{
    SROCE_PASS(ibv_reg_mr_iova2, pd, addr, length, iova, access);
    return obj_reg_mr(pd, addr, length, iova, (int)access);
}

MRAIL_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd,
                                              uint64_t offset, size_t length,
                                              uint64_t iova, int fd,
                                              int access)
{
    SROCE_PASS(ibv_reg_dmabuf_mr, pd, offset, length, iova, fd, access);
    errno = EOPNOTSUPP;
    return NULL;
}

MRAIL_EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd,
                              void *addr, size_t length, int access)
{
    SROCE_PASS(ibv_rereg_mr, mr, flags, pd, addr, length, access);
    errno = EOPNOTSUPP;
    return IBV_REREG_MR_ERR_INPUT;
}

MRAIL_EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
    sroce_host_ctx_t *ctx;
    int ret;

    SROCE_PASS(ibv_dereg_mr, mr);
    ctx = obj_enter(mr->context);
    if (ctx == NULL) {
        return 0;
    }
    ret = sroce_mr_destroy(MRAIL_CONTAINER_OF(mr, sroce_host_mr_t, ibv)->core);
    obj_leave(ctx);
    if (ret == 0) {
        free(MRAIL_CONTAINER_OF(mr, sroce_host_mr_t, ibv));
    }
    return ret;
}

/* ---- Completion channels and queues ---- */

MRAIL_EXPORT struct ibv_comp_channel *
ibv_create_comp_channel(struct ibv_context *context)
{
    sroce_host_channel_t *channel;
    int ret;

    SROCE_PASS(ibv_create_comp_channel, context);
    channel = calloc(1, sizeof(*channel));
    if (channel == NULL) {
        return NULL;
    }
    ret = sroce_event_pipe(&channel->ibv.fd, &channel->write_fd);
    if (ret != 0) {
        free(channel);
        errno = -ret;
        return NULL;
    }
    channel->ibv.context = context;
    return &channel->ibv;
}

MRAIL_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    SROCE_PASS(ibv_destroy_comp_channel, channel);
    if (channel->refcnt != 0) {
        return EBUSY;
    }
    close(channel->fd);
    close(MRAIL_CONTAINER_OF(channel, sroce_host_channel_t, ibv)->write_fd);
    free(MRAIL_CONTAINER_OF(channel, sroce_host_channel_t, ibv));
    return 0;
}

static void obj_cq_init(sroce_host_cq_t *cq, struct ibv_context *context,
                        struct ibv_comp_channel *channel, void *cq_context)
{
    cq->ctx = sroce_host_ctx(context);
    cq->ibv.context = context;
    cq->ibv.channel = channel;
    cq->ibv.cq_context = cq_context;
    cq->ibv.cqe = (int)sroce_cq_depth(cq->core);
    pthread_mutex_init(&cq->ibv.mutex, NULL);
    pthread_cond_init(&cq->ibv.cond, NULL);
    if (channel != NULL) {
        ++channel->refcnt;
    }
}

MRAIL_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe,
                                          void *cq_context,
                                          struct ibv_comp_channel *channel,
                                          int comp_vector)
{
    sroce_host_ctx_t *ctx;
    sroce_host_cq_t *cq;
    int ret;

    SROCE_PASS(ibv_create_cq, context, cqe, cq_context, channel, comp_vector);
    if ((cqe < 1) || (comp_vector < 0) ||
        (comp_vector >= context->num_comp_vectors)) {
        errno = EINVAL;
        return NULL;
    }
    cq = calloc(1, sizeof(*cq));
    if (cq == NULL) {
        return NULL;
    }
    ctx = obj_enter(context);
    if (ctx == NULL) {
        free(cq);
        return NULL;
    }
    ret = sroce_cq_create(ctx->core, (unsigned)cqe, cq, &cq->core);
    if (ret == 0) {
        obj_cq_init(cq, context, channel, cq_context);
    }
    obj_leave(ctx);
    if (ret != 0) {
        free(cq);
        errno = ret;
        return NULL;
    }
    return &cq->ibv;
}

MRAIL_EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
    sroce_host_ctx_t *ctx;
    int ret;

    SROCE_PASS(ibv_resize_cq, cq, cqe);
    ctx = obj_enter(cq->context);
    if (ctx == NULL) {
        return EPERM;
    }
    ret = (cqe < 1) ? EINVAL
                    : sroce_cq_resize(sroce_host_cq(cq)->core, (unsigned)cqe);
    if (ret == 0) {
        cq->cqe = (int)sroce_cq_depth(sroce_host_cq(cq)->core);
    }
    obj_leave(ctx);
    return ret;
}

MRAIL_EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
    sroce_host_cq_t *host = sroce_host_cq(cq);
    sroce_host_ctx_t *ctx;
    int ret;

    SROCE_PASS(ibv_destroy_cq, cq);
    ctx = obj_enter(cq->context);
    if (ctx == NULL) {
        return 0;
    }
    ret = sroce_cq_destroy(host->core);
    if (ret != 0) {
        obj_leave(ctx);
        return ret;
    }
    sroce_event_forget_cq(host);
    sroce_event_forget(ctx, cq, &host->async_reported,
                       &cq->async_events_completed);
    while (host->events_reported != cq->comp_events_completed) {
        pthread_cond_wait(&ctx->acked, &ctx->lock);
    }
    if (cq->channel != NULL) {
        --cq->channel->refcnt;
    }
    obj_leave(ctx);
    free(host);
    return 0;
}

MRAIL_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel,
                                  struct ibv_cq **cq, void **cq_context)
{
    SROCE_PASS(ibv_get_cq_event, channel, cq, cq_context);
    return sroce_event_get_cq(channel, cq, cq_context);
}

MRAIL_EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
    if (!sroce_host_enabled()) {
        SROCE_REAL(ibv_ack_cq_events)(cq, nevents);
        return;
    }
    sroce_event_ack_cq(sroce_host_cq(cq), nevents);
}

MRAIL_EXPORT int ibv_get_async_event(struct ibv_context *context,
                                     struct ibv_async_event *event)
{
    SROCE_PASS(ibv_get_async_event, context, event);
    return sroce_event_get_async(sroce_host_ctx(context), event);
}

MRAIL_EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
    if (!sroce_host_enabled()) {
        SROCE_REAL(ibv_ack_async_event)(event);
        return;
    }
    sroce_event_ack_async(event);
}

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
    ctx = obj_enter(pd->context);
    if (ctx == NULL) {
        free(srq);
        return NULL;
    }
    ret = sroce_srq_create(sroce_host_pd(pd)->core, &attr->attr, srq,
                           &srq->core);
    obj_leave(ctx);
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
    ctx = obj_enter(srq->context);
    if (ctx == NULL) {
        return EPERM;
    }
    ret = sroce_srq_modify(sroce_host_srq(srq)->core, attr, attr_mask);
    obj_leave(ctx);
    return ret;
}

MRAIL_EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
    sroce_host_ctx_t *ctx;

    SROCE_PASS(ibv_query_srq, srq, attr);
    ctx = obj_enter(srq->context);
    if (ctx == NULL) {
        return EPERM;
    }
    sroce_srq_query(sroce_host_srq(srq)->core, attr);
    obj_leave(ctx);
    return 0;
}

MRAIL_EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
    sroce_host_srq_t *host = sroce_host_srq(srq);
    sroce_host_ctx_t *ctx;
    int ret;

    SROCE_PASS(ibv_destroy_srq, srq);
    ctx = obj_enter(srq->context);
    if (ctx == NULL) {
        return 0;
    }
    ret = sroce_srq_destroy(host->core);
    if (ret == 0) {
        sroce_event_forget(ctx, srq, &host->events_reported,
                           &srq->events_completed);
    }
    obj_leave(ctx);
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
    qp->place = SROCE_QP_IDLE;
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
    pthread_mutex_init(&qp->ibv.mutex, NULL);
    pthread_cond_init(&qp->ibv.cond, NULL);
    return 0;
}

MRAIL_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd,
                                          struct ibv_qp_init_attr *attr)
{
    sroce_host_ctx_t *ctx;
    sroce_host_qp_t *qp;
    int ret;

    SROCE_PASS(ibv_create_qp, pd, attr);
    if ((attr->send_cq == NULL) || (attr->recv_cq == NULL)) {
        errno = EINVAL;
        return NULL;
    }
    qp = calloc(1, sizeof(*qp));
    if (qp == NULL) {
        return NULL;
    }
    ctx = obj_enter(pd->context);
    if (ctx == NULL) {
        free(qp);
        return NULL;
    }
    ret = obj_qp_create(ctx, pd, attr, qp);
    obj_leave(ctx);
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
    ctx = obj_enter(qp->context);
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
    obj_leave(ctx);
    return ret;
}

MRAIL_EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr,
                              int attr_mask, struct ibv_qp_init_attr *init)
{
    sroce_host_ctx_t *ctx;

    SROCE_PASS(ibv_query_qp, qp, attr, attr_mask, init);
    ctx = obj_enter(qp->context);
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
    obj_leave(ctx);
    return 0;
}

MRAIL_EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
    sroce_host_qp_t *host = sroce_host_qp(qp);
    sroce_host_ctx_t *ctx;

    SROCE_PASS(ibv_destroy_qp, qp);
    ctx = obj_enter(qp->context);
    if (ctx == NULL) {
        return 0;
    }
    sroce_tx_finish(host);
    sroce_tx_remove(host);
    sroce_qp_destroy(host->core);
    sroce_event_forget(ctx, qp, &host->events_reported,
                       &qp->events_completed);
    obj_leave(ctx);
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

/* The device has no multicast: UD packets go to one address. */
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

/* The 40 bytes before a datagram hold an IPv4 header in their second half.
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
