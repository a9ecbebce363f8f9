/* Tests asynchronous events. Source: ibv_get_async_event(3); IBA 11.6.3. */
#include "soft_pair.h"

static void events_of_a_queue_pair(void)
{
    pair_open(IBV_QPT_RC, 1);
    EXPECT(drain(&a, 1) == 0);
    EXPECT(async_comes(&a, IBV_EVENT_SQ_DRAINED));
    EXPECT(to_state(&a, IBV_QPS_RTS) == 0);
    EXPECT(drain(&a, 0) == 0);
    EXPECT(to_state(&a, IBV_QPS_RTS) == 0);
    EXPECT(to_state(&a, IBV_QPS_SQD) == 0);
    /* No event was requested, so none may arrive. */
    EXPECT(!readable(a.ctx->async_fd, QUIET_MS));
    EXPECT(to_state(&b, IBV_QPS_ERR) == 0);
    EXPECT(async_comes(&b, IBV_EVENT_QP_LAST_WQE_REACHED));
    /* the QP is already in ERR, so there is no second event */
    EXPECT(to_state(&b, IBV_QPS_ERR) == 0);
    EXPECT(!readable(b.ctx->async_fd, QUIET_MS));
    EXPECT(to_state(&b, IBV_QPS_RESET) == 0);
    pair_close();
    OK();
}

/* The peer's message arrives before this end is in RTS. */
static void communication_established(void)
{
    struct ibv_qp_attr at = {.qp_state = IBV_QPS_INIT,
                             .port_num = 1,
                             .path_mtu = IBV_MTU_1024,
                             .max_dest_rd_atomic = 1,
                             .min_rnr_timer = 1};
    struct ibv_wc wc;

    pair_open(IBV_QPT_RC, 0);
    EXPECT(to_state(&b, IBV_QPS_RESET) == 0);
    EXPECT(ibv_modify_qp(b.qp, &at,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                             IBV_QP_ACCESS_FLAGS) == 0);
    EXPECT(post_recv(&b, 3) == 0);
    at.qp_state = IBV_QPS_RTR;
    at.dest_qp_num = a.qp->qp_num;
    at.ah_attr.is_global = 1;
    at.ah_attr.port_num = 1;
    at.ah_attr.grh.dgid = a.gid;
    EXPECT(ibv_modify_qp(b.qp, &at,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                             IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC |
                             IBV_QP_MIN_RNR_TIMER) == 0);
    EXPECT(post_send(&a, 4, 0) == 0);
    EXPECT(wait_wc(b.rcq, &wc) == IBV_WC_SUCCESS);
    EXPECT(async_comes(&b, IBV_EVENT_COMM_EST));
    EXPECT(wait_wc(a.scq, &wc) == IBV_WC_SUCCESS);
    pair_close();
    OK();
}

/* A WRITE with a wrong key. The responder learns of the error only through the
 * async event. */
static void refused_access_is_an_event(void)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE},
                       *bad_wr;
    struct ibv_wc wc;

    pair_open(IBV_QPT_RC, 0);
    sge = (struct ibv_sge){(uintptr_t)a.mem, 8, a.mr->lkey};
    wr.wr.rdma.remote_addr = (uintptr_t)b.mem;
    wr.wr.rdma.rkey = b.mr->rkey ^ 0x10000;
    EXPECT(ibv_post_send(a.qp, &wr, &bad_wr) == 0);
    EXPECT(wait_wc(a.scq, &wc) == IBV_WC_REM_ACCESS_ERR);
    EXPECT(async_comes(&b, IBV_EVENT_QP_ACCESS_ERR));
    /* The completion reports the error, so there is no event. */
    EXPECT(!readable(a.ctx->async_fd, QUIET_MS));
    pair_close();
    OK();
}

/* Sends a READ that the queue pair does not allow. */
static void unsupported_operation_is_an_event(void)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_READ},
                       *bad_wr;
    struct ibv_wc wc;

    pair_open(IBV_QPT_RC, 0);
    sge = (struct ibv_sge){(uintptr_t)a.mem, 8, a.mr->lkey};
    wr.wr.rdma.remote_addr = (uintptr_t)b.mem;
    wr.wr.rdma.rkey = b.mr->rkey;
    EXPECT(ibv_post_send(a.qp, &wr, &bad_wr) == 0);
    EXPECT(wait_wc(a.scq, &wc) == IBV_WC_REM_INV_REQ_ERR);
    EXPECT(async_comes(&b, IBV_EVENT_QP_REQ_ERR));
    pair_close();
    OK();
}

/* A failed receive produces a completion but no event. */
static void a_failed_receive_is_no_event(void)
{
    struct ibv_sge sge;
    struct ibv_recv_wr wr = {6, NULL, &sge, 1}, *bad_wr;
    struct ibv_wc wc;

    pair_open(IBV_QPT_RC, 0);
    /* 8 bytes arrive, but the receive holds only 4. */
    sge = (struct ibv_sge){(uintptr_t)b.mem, 4, b.mr->lkey};
    EXPECT(ibv_post_recv(b.qp, &wr, &bad_wr) == 0);
    EXPECT(post_send(&a, 1, 0) == 0);
    EXPECT(wait_wc(a.scq, &wc) == IBV_WC_REM_INV_REQ_ERR);
    EXPECT(wait_wc(b.rcq, &wc) == IBV_WC_LOC_LEN_ERR);
    EXPECT(!readable(b.ctx->async_fd, QUIET_MS));
    pair_close();
    OK();
}

static void *destroy_qp(void *arg)
{
    int ret;

    ret = ibv_destroy_qp(b.qp);
    *(_Atomic int *)arg = 1 + ret;
    return NULL;
}

static void destroy_waits_for_async_acknowledgement(void)
{
    struct ibv_async_event event;
    _Atomic int done = 0;
    pthread_t thread;

    pair_open(IBV_QPT_RC, 1);
    EXPECT(to_state(&b, IBV_QPS_ERR) == 0);
    EXPECT(ibv_get_async_event(b.ctx, &event) == 0);
    EXPECT(pthread_create(&thread, NULL, destroy_qp, &done) == 0);
    usleep(QUIET_MS * 1000);
    EXPECT(done == 0);
    ibv_ack_async_event(&event);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(done == 1);
    b.qp = NULL;
    pair_close();
    OK();
}

void async_tests(void)
{
    events_of_a_queue_pair();
    communication_established();
    refused_access_is_an_event();
    unsupported_operation_is_an_event();
    a_failed_receive_is_no_event();
    destroy_waits_for_async_acknowledgement();
}
