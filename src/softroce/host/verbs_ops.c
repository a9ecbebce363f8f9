/* A context's data-path operations. */
#include "config.h"
#include "softroce/host/host.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

/* After this many empty polls in a row, the thread yields. If there are more
 * ranks than cores, the peer that it is waiting for may not be running. */
#define OPS_EMPTY_POLLS 20
/* Maximum progress calls in one poll while packets move but no work completes.
 * A transfer then need not wait for the application's next poll. */
#define OPS_MAX_PROGRESS 4

#define OPS_EAGER_POSTS 4
#define OPS_BURST_POSTS 32
#define OPS_BURST_BYTES 1024

static __thread unsigned ops_empty_polls;

static void ops_count_call(sroce_host_ctx_t *ctx)
{
    atomic_store_explicit(
        &ctx->app_calls,
        atomic_load_explicit(&ctx->app_calls, memory_order_relaxed) + 1,
        memory_order_relaxed);
}

static void ops_disarm(sroce_host_ctx_t *ctx)
{
    int armed = atomic_load_explicit(&ctx->armed, memory_order_relaxed);

    if (MRAIL_UNLIKELY(armed != 0)) {
        atomic_store_explicit(&ctx->armed, armed - 1, memory_order_relaxed);
    }
}

static int ops_poll_progress(sroce_host_cq_t *cq, int num, struct ibv_wc *wc)
{
    sroce_host_ctx_t *ctx = cq->ctx;
    unsigned num_calls = 0;
    int got;

    do {
        ctx->worked = 0;
        sroce_progress(ctx);
        got = sroce_cq_poll(cq->core, num, wc);
    } while ((got == 0) && ctx->worked && (++num_calls < OPS_MAX_PROGRESS));
    return got;
}

static int ops_poll_cq(struct ibv_cq *ibv_cq, int num, struct ibv_wc *wc)
{
    sroce_host_cq_t *cq = sroce_host_cq(ibv_cq);
    sroce_host_ctx_t *ctx = cq->ctx;
    int got, worked;

    if (!sroce_host_is_mine(ctx)) {
        return 0;
    }
    ops_count_call(ctx);
    pthread_mutex_lock(&ctx->lock);
    ops_disarm(ctx);
    ++ctx->poll_epoch;
    ctx->worked = 0;
    got = sroce_cq_poll(cq->core, num, wc);
    if (got == 0) {
        got = ops_poll_progress(cq, num, wc);
    } else if (!mrail_list_empty(&ctx->ready)) {
        sroce_tx_progress(ctx, mrail_clock_now());
    }
    worked = ctx->worked;
    pthread_mutex_unlock(&ctx->lock);
    if ((got != 0) || worked) {
        ops_empty_polls = 0;
    } else if (++ops_empty_polls >= OPS_EMPTY_POLLS) {
        sched_yield();
    }
    return got;
}

static int ops_req_notify_cq(struct ibv_cq *ibv_cq, int solicited_only)
{
    sroce_host_cq_t *cq = sroce_host_cq(ibv_cq);

    if (!sroce_host_is_mine(cq->ctx)) {
        return EPERM;
    }
    pthread_mutex_lock(&cq->ctx->lock);
    sroce_cq_arm(cq->core, solicited_only);
    sroce_control_arm(cq->ctx);
    pthread_mutex_unlock(&cq->ctx->lock);
    return 0;
}

/*
 * Returns 1 if the post must be sent immediately. This applies to large posts,
 * and to the first few posts since the last poll. A longer burst of small posts
 * is collected, because one system call can send up to 64 packets of the same
 * size. The next poll sends it, or the control thread within about a
 * millisecond.
 */
static int ops_send_now(sroce_host_qp_t *qp, const struct ibv_send_wr *wr)
{
    if (qp->poll_epoch != qp->ctx->poll_epoch) {
        qp->poll_epoch = qp->ctx->poll_epoch;
        qp->posts = 0;
    }
    ++qp->posts;
    return (qp->posts <= OPS_EAGER_POSTS) ||
           (qp->posts % OPS_BURST_POSTS == 0) ||
           ((wr->num_sge > 0) && (wr->sg_list[0].length >= OPS_BURST_BYTES));
}

static int ops_post_send(struct ibv_qp *ibv_qp, struct ibv_send_wr *wr,
                         struct ibv_send_wr **bad_wr)
{
    sroce_host_qp_t *qp = sroce_host_qp(ibv_qp);
    sroce_host_ctx_t *ctx = qp->ctx;
    int ret;

    if (!sroce_host_is_mine(ctx)) {
        *bad_wr = wr;
        return EPERM;
    }
    ops_count_call(ctx);
    pthread_mutex_lock(&ctx->lock);
    ret = sroce_qp_post_send(qp->core, wr, bad_wr);
    if ((qp->sched == SROCE_QP_SCHED_READY) && ops_send_now(qp, wr)) {
        sroce_tx_progress(ctx, mrail_clock_now());
    }
    pthread_mutex_unlock(&ctx->lock);
    return ret;
}

static int ops_post_recv(struct ibv_qp *ibv_qp, struct ibv_recv_wr *wr,
                         struct ibv_recv_wr **bad_wr)
{
    sroce_host_qp_t *qp = sroce_host_qp(ibv_qp);
    int ret;

    if (!sroce_host_is_mine(qp->ctx)) {
        *bad_wr = wr;
        return EPERM;
    }
    pthread_mutex_lock(&qp->ctx->lock);
    ret = sroce_qp_post_recv(qp->core, wr, bad_wr);
    pthread_mutex_unlock(&qp->ctx->lock);
    return ret;
}

static int ops_post_srq_recv(struct ibv_srq *ibv_srq, struct ibv_recv_wr *wr,
                             struct ibv_recv_wr **bad_wr)
{
    sroce_host_srq_t *srq = sroce_host_srq(ibv_srq);
    int ret;

    if (!sroce_host_is_mine(srq->ctx)) {
        *bad_wr = wr;
        return EPERM;
    }
    pthread_mutex_lock(&srq->ctx->lock);
    ret = sroce_srq_post_recv(srq->core, wr, bad_wr);
    pthread_mutex_unlock(&srq->ctx->lock);
    return ret;
}

void sroce_host_ctx_set_ops(sroce_host_ctx_t *ctx)
{
    struct ibv_context_ops *ops = &ctx->verbs.context.ops;

    ops->poll_cq = ops_poll_cq;
    ops->req_notify_cq = ops_req_notify_cq;
    ops->post_send = ops_post_send;
    ops->post_recv = ops_post_recv;
    ops->post_srq_recv = ops_post_srq_recv;
    ctx->verbs.query_port = sroce_dev_op_query_port;
}
