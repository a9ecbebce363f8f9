#include "soft_pair.h"

#include <fcntl.h>
#include <poll.h>
#include <time.h>

end_t a, b;
int failures;

static void must(int ok, const char *what)
{
    if (!ok) {
        printf("not ok - set-up: %s (errno %d)\n", what, errno);
        exit(1);
    }
}

static void end_open(end_t *e, enum ibv_qp_type type, int use_srq)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = 16, .max_sge = 2}};
    struct ibv_qp_init_attr init = {
        .cap = {16, 16, 2, 2, 0}, .qp_type = type, .sq_sig_all = 1};

    memset(e, 0, sizeof(*e));
    must((list != NULL) && (list[0] != NULL), "no device");
    e->ctx = ibv_open_device(list[0]);
    must(e->ctx != NULL, "ibv_open_device");
    ibv_free_device_list(list);
    must(ibv_query_gid(e->ctx, 1, 0, &e->gid) == 0, "ibv_query_gid");
    e->pd = ibv_alloc_pd(e->ctx);
    e->channel = ibv_create_comp_channel(e->ctx);
    must((e->pd != NULL) && (e->channel != NULL), "domain, channel");
    e->scq = ibv_create_cq(e->ctx, 64, &e->scq, e->channel, 0);
    e->rcq = ibv_create_cq(e->ctx, 64, &e->rcq, e->channel, 0);
    e->mr = ibv_reg_mr(e->pd, e->mem, BYTES,
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    must((e->scq != NULL) && (e->rcq != NULL) && (e->mr != NULL), "queues");
    if (use_srq) {
        e->srq = ibv_create_srq(e->pd, &srq);
        must(e->srq != NULL, "ibv_create_srq");
    }
    init.send_cq = e->scq;
    init.recv_cq = e->rcq;
    init.srq = e->srq;
    e->qp = ibv_create_qp(e->pd, &init);
    must(e->qp != NULL, "ibv_create_qp");
}

static void end_connect(end_t *e, const end_t *peer)
{
    int rc = (e->qp->qp_type == IBV_QPT_RC);
    struct ibv_qp_attr at = {.qp_state = IBV_QPS_INIT,
                             .port_num = 1,
                             .qkey = QKEY,
                             .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
                             .path_mtu = IBV_MTU_1024,
                             .dest_qp_num = peer->qp->qp_num,
                             .max_dest_rd_atomic = 1,
                             .max_rd_atomic = 1,
                             .min_rnr_timer = 1,
                             .timeout = 14,
                             .retry_cnt = 7,
                             .rnr_retry = 7};
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

    at.ah_attr.is_global = 1;
    at.ah_attr.port_num = 1;
    at.ah_attr.grh.dgid = peer->gid;
    at.ah_attr.grh.hop_limit = 64;
    must(ibv_modify_qp(e->qp, &at,
                       mask | (rc ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY)) == 0,
         "to INIT");
    at.qp_state = IBV_QPS_RTR;
    must(ibv_modify_qp(e->qp, &at,
                       IBV_QP_STATE |
                           (rc ? IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                     IBV_QP_MIN_RNR_TIMER
                               : 0)) == 0,
         "to RTR");
    at.qp_state = IBV_QPS_RTS;
    must(ibv_modify_qp(e->qp, &at,
                       IBV_QP_STATE | IBV_QP_SQ_PSN |
                           (rc ? IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT |
                                     IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT
                               : 0)) == 0,
         "to RTS");
}

void pair_open(enum ibv_qp_type type, int use_srq)
{
    end_open(&a, type, 0);
    end_open(&b, type, use_srq);
    end_connect(&a, &b);
    end_connect(&b, &a);
}

static void end_close(end_t *e)
{
    must((e->qp == NULL) || (ibv_destroy_qp(e->qp) == 0), "destroy QP");
    must((e->srq == NULL) || (ibv_destroy_srq(e->srq) == 0), "destroy SRQ");
    must(ibv_dereg_mr(e->mr) == 0, "dereg");
    must((e->scq == NULL) || (ibv_destroy_cq(e->scq) == 0), "destroy CQ");
    must((e->rcq == NULL) || (ibv_destroy_cq(e->rcq) == 0), "destroy CQ");
    must(ibv_destroy_comp_channel(e->channel) == 0, "destroy channel");
    must(ibv_dealloc_pd(e->pd) == 0, "dealloc PD");
    must(ibv_close_device(e->ctx) == 0, "close");
}

void pair_close(void)
{
    end_close(&a);
    end_close(&b);
}

static double now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

int wait_wc(struct ibv_cq *cq, struct ibv_wc *wc)
{
    double end = now_ms() + WAIT_MS;

    while (now_ms() < end) {
        if (ibv_poll_cq(cq, 1, wc) == 1) {
            return (int)wc->status;
        }
        ibv_poll_cq(a.scq, 0, NULL);
        ibv_poll_cq(b.scq, 0, NULL);
    }
    return -1;
}

int post_recv(end_t *e, uint64_t wr_id)
{
    struct ibv_sge sge = {(uintptr_t)e->mem + 4096, 256, e->mr->lkey};
    struct ibv_recv_wr wr = {wr_id, NULL, &sge, 1}, *bad_wr;

    return (e->srq != NULL) ? ibv_post_srq_recv(e->srq, &wr, &bad_wr)
                            : ibv_post_recv(e->qp, &wr, &bad_wr);
}

int post_send(end_t *e, uint64_t wr_id, unsigned flags)
{
    struct ibv_sge sge = {(uintptr_t)e->mem, 8, e->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = wr_id,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = flags};
    struct ibv_send_wr *bad_wr;

    return ibv_post_send(e->qp, &wr, &bad_wr);
}

int carries(unsigned flags)
{
    struct ibv_wc wc;

    return (post_recv(&b, 7) == 0) && (post_send(&a, 8, flags) == 0) &&
           (wait_wc(a.scq, &wc) == IBV_WC_SUCCESS) && (wc.wr_id == 8) &&
           (wait_wc(b.rcq, &wc) == IBV_WC_SUCCESS) && (wc.wr_id == 7);
}

void nonblocking(int fd)
{
    must(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0, "fcntl");
}

int readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, ms) == 1;
}

int async_comes(end_t *e, enum ibv_event_type type)
{
    struct ibv_async_event event;

    if (!readable(e->ctx->async_fd, WAIT_MS) ||
        (ibv_get_async_event(e->ctx, &event) != 0)) {
        return 0;
    }
    ibv_ack_async_event(&event);
    if (event.event_type != type) {
        printf("# %s, not %s\n", ibv_event_type_str(event.event_type),
               ibv_event_type_str(type));
        return 0;
    }
    switch (type) {
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return event.element.srq == e->srq;
    case IBV_EVENT_CQ_ERR:
        return event.element.cq == e->scq;
    default:
        return event.element.qp == e->qp;
    }
}

int to_state(end_t *e, enum ibv_qp_state state)
{
    struct ibv_qp_attr at = {.qp_state = state};

    return ibv_modify_qp(e->qp, &at, IBV_QP_STATE);
}

int drain(end_t *e, int notify)
{
    struct ibv_qp_attr at = {.qp_state = IBV_QPS_SQD,
                             .en_sqd_async_notify = (uint8_t)notify};

    return ibv_modify_qp(e->qp, &at, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
}
