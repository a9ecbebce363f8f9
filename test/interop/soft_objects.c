/*
 * What pyverbs does not reach: descriptors, acknowledgements that a destroy
 * waits for, objects in use, lists of work requests, fork.
 * usage: soft_objects (in a session); prints "ok - NAME" lines.
 *
 * Source: the manual pages ibv_get_cq_event(3), ibv_get_async_event(3),
 * ibv_req_notify_cq(3), ibv_post_send(3), ibv_fork_init(3),
 * ibv_create_ah_from_wc(3); IBA 11.6.3 (asynchronous events).
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BYTES 8192
#define QKEY 0x1234
#define WAIT_MS 5000
#define QUIET_MS 30

static int failures;

/* In a test function: says what is wrong and leaves it. */
#define EXPECT(_cond)                                                         \
    do {                                                                      \
        if (!(_cond)) {                                                       \
            printf("not ok - %s: line %d: %s (errno %d)\n", __func__,         \
                   __LINE__, #_cond, errno);                                  \
            ++failures;                                                       \
            return;                                                           \
        }                                                                     \
    } while (0)
#define OK() printf("ok - %s\n", __func__)

/* One end: a context of its own. */
typedef struct end {
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *scq, *rcq; /* both report to the channel */
    struct ibv_srq *srq;      /* or NULL */
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    union ibv_gid gid;
    uint8_t mem[BYTES];
} end_t;

static end_t a, b;

static void must(int good, const char *what)
{
    if (!good) {
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
                           (rc ? IBV_QP_AV | IBV_QP_PATH_MTU |
                                     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                     IBV_QP_MAX_DEST_RD_ATOMIC |
                                     IBV_QP_MIN_RNR_TIMER : 0)) == 0,
         "to RTR");
    at.qp_state = IBV_QPS_RTS;
    must(ibv_modify_qp(e->qp, &at,
                       IBV_QP_STATE | IBV_QP_SQ_PSN |
                           (rc ? IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT |
                                     IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT :
                                 0)) == 0,
         "to RTS");
}

static void pair_open(enum ibv_qp_type type, int use_srq)
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

static void pair_close(void)
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

/* One completion; its status, -1: none came. */
static int wait_wc(struct ibv_cq *cq, struct ibv_wc *wc)
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

static int post_recv(end_t *e, uint64_t wr_id)
{
    struct ibv_sge sge = {(uintptr_t)e->mem + 4096, 256, e->mr->lkey};
    struct ibv_recv_wr wr = {wr_id, NULL, &sge, 1}, *bad;

    return (e->srq != NULL) ? ibv_post_srq_recv(e->srq, &wr, &bad) :
                              ibv_post_recv(e->qp, &wr, &bad);
}

static int post_send(end_t *e, uint64_t wr_id, unsigned flags)
{
    struct ibv_sge sge = {(uintptr_t)e->mem, 8, e->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = wr_id,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = flags};
    struct ibv_send_wr *bad;

    return ibv_post_send(e->qp, &wr, &bad);
}

/* A SEND from a to b that completes at both ends. */
static int carries(unsigned flags)
{
    struct ibv_wc wc;

    return (post_recv(&b, 7) == 0) && (post_send(&a, 8, flags) == 0) &&
           (wait_wc(a.scq, &wc) == IBV_WC_SUCCESS) && (wc.wr_id == 8) &&
           (wait_wc(b.rcq, &wc) == IBV_WC_SUCCESS) && (wc.wr_id == 7);
}

static void nonblocking(int fd)
{
    must(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0, "fcntl");
}

static int readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, ms) == 1;
}

/* An event of this type and of this object comes; acknowledged. */
static int async_comes(end_t *e, enum ibv_event_type type)
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

static int to_state(end_t *e, enum ibv_qp_state state)
{
    struct ibv_qp_attr at = {.qp_state = state};

    return ibv_modify_qp(e->qp, &at, IBV_QP_STATE);
}

static int drain(end_t *e, int notify)
{
    struct ibv_qp_attr at = {.qp_state = IBV_QPS_SQD,
                             .en_sqd_async_notify = (uint8_t)notify};

    return ibv_modify_qp(e->qp, &at,
                         IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
}

/* ---- Objects in use ---- */

static void objects_in_use_stay(void)
{
    pair_open(IBV_QPT_RC, 1);
    EXPECT(ibv_dealloc_pd(b.pd) == EBUSY);
    EXPECT(ibv_destroy_cq(b.scq) == EBUSY);
    EXPECT(ibv_destroy_cq(b.rcq) == EBUSY);
    EXPECT(ibv_destroy_srq(b.srq) == EBUSY);
    EXPECT(ibv_destroy_comp_channel(b.channel) == EBUSY);
    EXPECT(carries(0));
    EXPECT(ibv_destroy_qp(b.qp) == 0);
    b.qp = NULL;
    EXPECT(ibv_dealloc_pd(b.pd) == EBUSY); /* SRQ, MR */
    EXPECT(ibv_destroy_srq(b.srq) == 0);
    b.srq = NULL;
    EXPECT(ibv_dealloc_pd(b.pd) == EBUSY); /* MR */
    pair_close();
    OK();
}

/* ibv_close_device(3) does not release what was made: it may leak, no more. */
static void closed_with_everything_in_use(void)
{
    pair_open(IBV_QPT_RC, 1);
    EXPECT(carries(0));
    EXPECT(post_recv(&b, 1) == 0);
    EXPECT(post_send(&a, 1, 0) == 0);
    EXPECT(ibv_close_device(a.ctx) == 0);
    EXPECT(ibv_close_device(b.ctx) == 0);
    pair_open(IBV_QPT_RC, 0);
    EXPECT(carries(0));
    pair_close();
    OK();
}

/* ---- Lists of work requests ---- */

static void first_bad_request_is_told(void)
{
    struct ibv_sge good = {0}, good_b, many[3];
    struct ibv_send_wr s[3], *bad_s = NULL;
    struct ibv_recv_wr r[3], *bad_r = NULL;
    struct ibv_wc wc;

    pair_open(IBV_QPT_RC, 1);
    good = (struct ibv_sge){(uintptr_t)a.mem, 8, a.mr->lkey};
    good_b = (struct ibv_sge){(uintptr_t)b.mem, 8, b.mr->lkey};
    memset(s, 0, sizeof(s));
    memset(r, 0, sizeof(r));
    for (int i = 0; i < 3; ++i) {
        many[i] = good;
        s[i] = (struct ibv_send_wr){.wr_id = (uint64_t)i,
                                    .next = (i < 2) ? &s[i + 1] : NULL,
                                    .sg_list = &good,
                                    .num_sge = 1,
                                    .opcode = IBV_WR_SEND};
        r[i] = (struct ibv_recv_wr){(uint64_t)i, (i < 2) ? &r[i + 1] : NULL,
                                    &good, 1};
    }
    r[1].sg_list = s[1].sg_list = many;
    r[1].num_sge = s[1].num_sge = 3; /* 2 is the most */
    EXPECT(ibv_post_recv(a.qp, r, &bad_r) == EINVAL);
    EXPECT(bad_r == &r[1]);
    r[0].sg_list = &good_b;
    bad_r = NULL;
    EXPECT(ibv_post_srq_recv(b.srq, r, &bad_r) == EINVAL);
    EXPECT(bad_r == &r[1]);
    EXPECT(ibv_post_recv(b.qp, r, &bad_r) == EINVAL); /* it has an SRQ */
    EXPECT(bad_r == &r[0]);
    EXPECT(ibv_post_send(a.qp, s, &bad_s) == EINVAL);
    EXPECT(bad_s == &s[1]);
    EXPECT((wait_wc(a.scq, &wc) == IBV_WC_SUCCESS) && (wc.wr_id == 0));
    EXPECT((wait_wc(b.rcq, &wc) == IBV_WC_SUCCESS) && (wc.wr_id == 0));
    EXPECT(ibv_poll_cq(a.scq, 1, &wc) == 0); /* the third was not taken */
    pair_close();
    OK();
}

/* ---- Completion channels ---- */

static void nothing_to_read_is_eagain(void)
{
    struct ibv_async_event event;
    struct ibv_cq *cq;
    void *context;

    pair_open(IBV_QPT_RC, 0);
    nonblocking(b.channel->fd);
    nonblocking(b.ctx->async_fd);
    errno = 0;
    EXPECT(ibv_get_cq_event(b.channel, &cq, &context) == -1);
    EXPECT(errno == EAGAIN);
    errno = 0;
    EXPECT(ibv_get_async_event(b.ctx, &event) == -1);
    EXPECT(errno == EAGAIN);
    EXPECT(carries(0)); /* not armed: no event */
    EXPECT(!readable(b.channel->fd, QUIET_MS));
    pair_close();
    OK();
}

static void armed_once_tells_once(void)
{
    struct ibv_cq *cq = NULL;
    void *context = NULL;

    pair_open(IBV_QPT_RC, 0);
    EXPECT(ibv_req_notify_cq(b.rcq, 0) == 0);
    EXPECT(ibv_req_notify_cq(b.rcq, 0) == 0);
    EXPECT(carries(0));
    EXPECT(carries(0));
    EXPECT(readable(b.channel->fd, WAIT_MS));
    EXPECT(ibv_get_cq_event(b.channel, &cq, &context) == 0);
    EXPECT((cq == b.rcq) && (context == &b.rcq));
    ibv_ack_cq_events(cq, 1);
    EXPECT(!readable(b.channel->fd, QUIET_MS));
    pair_close();
    OK();
}

/* The completion that was there before does not count. */
static void only_new_completions_tell(void)
{
    struct ibv_wc wc;

    pair_open(IBV_QPT_RC, 0);
    EXPECT(post_recv(&b, 1) == 0);
    EXPECT(post_send(&a, 2, 0) == 0);
    EXPECT(wait_wc(a.scq, &wc) == IBV_WC_SUCCESS);
    EXPECT(ibv_req_notify_cq(b.rcq, 0) == 0);
    EXPECT(!readable(b.channel->fd, QUIET_MS));
    EXPECT(wait_wc(b.rcq, &wc) == IBV_WC_SUCCESS);
    EXPECT(carries(0));
    EXPECT(readable(b.channel->fd, WAIT_MS));
    pair_close();
    OK();
}

static void solicited_only(void)
{
    struct ibv_cq *cq;
    void *context;

    pair_open(IBV_QPT_RC, 0);
    EXPECT(ibv_req_notify_cq(b.rcq, 1) == 0);
    EXPECT(carries(0));
    EXPECT(!readable(b.channel->fd, QUIET_MS));
    EXPECT(carries(IBV_SEND_SOLICITED));
    EXPECT(readable(b.channel->fd, WAIT_MS));
    EXPECT(ibv_get_cq_event(b.channel, &cq, &context) == 0);
    ibv_ack_cq_events(cq, 1);
    /* A failed completion is solicited too. */
    EXPECT(ibv_req_notify_cq(b.rcq, 1) == 0);
    EXPECT(post_recv(&b, 1) == 0);
    EXPECT(to_state(&b, IBV_QPS_ERR) == 0);
    EXPECT(readable(b.channel->fd, WAIT_MS));
    pair_close();
    OK();
}

/* Armed for any completion, a request for solicited ones takes nothing back. */
static void solicited_does_not_disarm(void)
{
    pair_open(IBV_QPT_RC, 0);
    EXPECT(ibv_req_notify_cq(b.rcq, 0) == 0);
    EXPECT(ibv_req_notify_cq(b.rcq, 1) == 0);
    EXPECT(carries(0));
    EXPECT(readable(b.channel->fd, WAIT_MS));
    pair_close();
    OK();
}

static void *destroy_cq(void *arg)
{
    int ret;

    ret = ibv_destroy_cq(b.rcq);
    *(_Atomic int *)arg = 1 + ret;
    return NULL;
}

static void destroy_waits_for_acknowledgements(void)
{
    _Atomic int done = 0;
    struct ibv_cq *cq = NULL;
    void *context;
    pthread_t thread;

    pair_open(IBV_QPT_RC, 0);
    for (int i = 0; i < 3; ++i) {
        EXPECT(ibv_req_notify_cq(b.rcq, 0) == 0);
        EXPECT(carries(0));
        EXPECT(ibv_get_cq_event(b.channel, &cq, &context) == 0);
    }
    EXPECT(ibv_destroy_qp(b.qp) == 0);
    b.qp = NULL;
    EXPECT(pthread_create(&thread, NULL, destroy_cq, &done) == 0);
    usleep(QUIET_MS * 1000);
    EXPECT(done == 0);
    ibv_ack_cq_events(cq, 2);
    usleep(QUIET_MS * 1000);
    EXPECT(done == 0);
    ibv_ack_cq_events(cq, 1);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(done == 1);
    b.rcq = NULL;
    pair_close();
    OK();
}

/* ibv_create_cq(3): the channel is optional. */
static void armed_without_a_channel(void)
{
    struct ibv_qp_init_attr init = {.cap = {1, 1, 1, 1, 0},
                                    .qp_type = IBV_QPT_RC};
    struct ibv_wc wc;
    struct ibv_cq *cq;
    struct ibv_qp *qp;

    pair_open(IBV_QPT_RC, 0);
    cq = ibv_create_cq(a.ctx, 1, NULL, NULL, 0);
    EXPECT((cq != NULL) && (cq->channel == NULL));
    init.send_cq = init.recv_cq = cq;
    qp = ibv_create_qp(a.pd, &init);
    EXPECT(qp != NULL);
    EXPECT(ibv_destroy_qp(a.qp) == 0);
    a.qp = qp;
    EXPECT(ibv_req_notify_cq(cq, 0) == 0);
    EXPECT(to_state(&a, IBV_QPS_ERR) == 0);
    EXPECT(post_recv(&a, 9) == 0); /* is flushed */
    EXPECT((wait_wc(cq, &wc) == IBV_WC_WR_FLUSH_ERR) && (wc.wr_id == 9));
    EXPECT(ibv_destroy_qp(qp) == 0);
    a.qp = NULL;
    EXPECT(ibv_destroy_cq(cq) == 0);
    pair_close();
    OK();
}

/* Requests under way are dropped; the peer's queue pair lives on. */
static void destroyed_with_requests_under_way(void)
{
    struct ibv_qp_attr at;
    struct ibv_qp_init_attr init;

    pair_open(IBV_QPT_RC, 0);
    for (int i = 0; i < 8; ++i) {
        EXPECT(post_send(&a, 1, 0) == 0); /* no receive: RNR */
    }
    EXPECT(ibv_destroy_qp(a.qp) == 0);
    a.qp = NULL;
    EXPECT(ibv_poll_cq(a.scq, 0, NULL) == 0);
    EXPECT(ibv_query_qp(b.qp, &at, IBV_QP_STATE, &init) == 0);
    EXPECT(at.qp_state == IBV_QPS_RTS);
    pair_close();
    OK();
}

/* An event that nobody has read goes with its queue. */
static void unread_events_go_with_the_queue(void)
{
    pair_open(IBV_QPT_RC, 0);
    EXPECT(ibv_req_notify_cq(b.rcq, 0) == 0);
    EXPECT(carries(0));
    EXPECT(readable(b.channel->fd, WAIT_MS));
    EXPECT(to_state(&b, IBV_QPS_ERR) == 0);
    EXPECT(ibv_destroy_qp(b.qp) == 0);
    EXPECT(ibv_destroy_cq(b.rcq) == 0);
    b.qp = NULL;
    b.rcq = NULL;
    EXPECT(!readable(b.channel->fd, QUIET_MS));
    pair_close();
    OK();
}

static void *sleep_and_send(void *arg)
{
    usleep(QUIET_MS * 1000);
    post_send(&a, 1, 0);
    return arg;
}

/* Nobody polls: the one that waits is woken all the same. */
static void a_waiting_thread_is_woken(void)
{
    struct ibv_wc wc;
    struct ibv_cq *cq;
    pthread_t thread;
    void *context;

    pair_open(IBV_QPT_RC, 0);
    EXPECT(post_recv(&b, 5) == 0);
    EXPECT(ibv_req_notify_cq(b.rcq, 0) == 0);
    EXPECT(pthread_create(&thread, NULL, sleep_and_send, NULL) == 0);
    EXPECT(ibv_get_cq_event(b.channel, &cq, &context) == 0);
    EXPECT(cq == b.rcq);
    ibv_ack_cq_events(cq, 1);
    EXPECT(ibv_poll_cq(cq, 1, &wc) == 1);
    EXPECT(wc.wr_id == 5);
    EXPECT(pthread_join(thread, NULL) == 0);
    pair_close();
    OK();
}

/* ---- Asynchronous events ---- */

static void events_of_a_queue_pair(void)
{
    pair_open(IBV_QPT_RC, 1);
    EXPECT(drain(&a, 1) == 0);
    EXPECT(async_comes(&a, IBV_EVENT_SQ_DRAINED));
    EXPECT(to_state(&a, IBV_QPS_RTS) == 0);
    EXPECT(drain(&a, 0) == 0);
    EXPECT(to_state(&a, IBV_QPS_RTS) == 0);
    EXPECT(to_state(&a, IBV_QPS_SQD) == 0);
    EXPECT(!readable(a.ctx->async_fd, QUIET_MS)); /* nobody asked */
    EXPECT(to_state(&b, IBV_QPS_ERR) == 0);
    EXPECT(async_comes(&b, IBV_EVENT_QP_LAST_WQE_REACHED));
    EXPECT(to_state(&b, IBV_QPS_ERR) == 0); /* it was there */
    EXPECT(!readable(b.ctx->async_fd, QUIET_MS));
    EXPECT(to_state(&b, IBV_QPS_RESET) == 0);
    pair_close();
    OK();
}

/* The peer speaks before this end is in RTS. */
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
    EXPECT(ibv_modify_qp(b.qp, &at, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
                                        IBV_QP_PORT |
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

/* A WRITE with a wrong key: nothing else tells the owner of the memory. */
static void refused_access_is_an_event(void)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE}, *bad;
    struct ibv_wc wc;

    pair_open(IBV_QPT_RC, 0);
    sge = (struct ibv_sge){(uintptr_t)a.mem, 8, a.mr->lkey};
    wr.wr.rdma.remote_addr = (uintptr_t)b.mem;
    wr.wr.rdma.rkey = b.mr->rkey ^ 0x10000;
    EXPECT(ibv_post_send(a.qp, &wr, &bad) == 0);
    EXPECT(wait_wc(a.scq, &wc) == IBV_WC_REM_ACCESS_ERR);
    EXPECT(async_comes(&b, IBV_EVENT_QP_ACCESS_ERR));
    EXPECT(!readable(a.ctx->async_fd, QUIET_MS)); /* it has a completion */
    pair_close();
    OK();
}

/* A READ that the queue pair does not allow. */
static void unsupported_operation_is_an_event(void)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_READ}, *bad;
    struct ibv_wc wc;

    pair_open(IBV_QPT_RC, 0);
    sge = (struct ibv_sge){(uintptr_t)a.mem, 8, a.mr->lkey};
    wr.wr.rdma.remote_addr = (uintptr_t)b.mem;
    wr.wr.rdma.rkey = b.mr->rkey;
    EXPECT(ibv_post_send(a.qp, &wr, &bad) == 0);
    EXPECT(wait_wc(a.scq, &wc) == IBV_WC_REM_INV_REQ_ERR);
    EXPECT(async_comes(&b, IBV_EVENT_QP_REQ_ERR));
    pair_close();
    OK();
}

/* A receive that failed is told by its completion, and by that only. */
static void a_failed_receive_is_no_event(void)
{
    struct ibv_sge sge;
    struct ibv_recv_wr wr = {6, NULL, &sge, 1}, *bad;
    struct ibv_wc wc;

    pair_open(IBV_QPT_RC, 0);
    sge = (struct ibv_sge){(uintptr_t)b.mem, 4, b.mr->lkey}; /* 8 come */
    EXPECT(ibv_post_recv(b.qp, &wr, &bad) == 0);
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

/* ---- Datagrams ---- */

static int post_ud(end_t *e, struct ibv_ah *ah, uint32_t qpn)
{
    struct ibv_sge sge = {(uintptr_t)e->mem, 8, e->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND}, *bad;

    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = qpn;
    wr.wr.ud.remote_qkey = QKEY;
    return ibv_post_send(e->qp, &wr, &bad);
}

static void the_way_back_of_a_datagram(void)
{
    struct ibv_ah_attr at = {.is_global = 1, .port_num = 1};
    struct ibv_ah *ah, *back;
    struct ibv_wc wc;

    pair_open(IBV_QPT_UD, 0);
    at.grh.dgid = b.gid;
    at.grh.traffic_class = 0x28;
    ah = ibv_create_ah(a.pd, &at);
    EXPECT(ah != NULL);
    memcpy(a.mem, "thither", 8);
    memcpy(b.mem, "hither!", 8);
    EXPECT(post_recv(&b, 1) == 0);
    EXPECT(post_recv(&a, 2) == 0);
    EXPECT(post_ud(&a, ah, b.qp->qp_num) == 0);
    EXPECT(wait_wc(b.rcq, &wc) == IBV_WC_SUCCESS);
    EXPECT((wc.byte_len == 48) && (wc.wc_flags & IBV_WC_GRH));
    EXPECT(memcmp(b.mem + 4096 + 40, "thither", 8) == 0);
    EXPECT(b.mem[4096 + 20 + 1] == 0x28); /* traffic class */
    back = ibv_create_ah_from_wc(b.pd, &wc, (struct ibv_grh *)(b.mem + 4096),
                                 1);
    EXPECT(back != NULL);
    EXPECT(post_ud(&b, back, wc.src_qp) == 0);
    EXPECT(wait_wc(a.rcq, &wc) == IBV_WC_SUCCESS);
    EXPECT(wc.src_qp == b.qp->qp_num);
    EXPECT(memcmp(a.mem + 4096 + 40, "hither!", 8) == 0);
    EXPECT(ibv_destroy_ah(ah) == 0);
    EXPECT(ibv_destroy_ah(back) == 0);
    pair_close();
    OK();
}

/* ---- Fork ---- */

/* In the child: the parent's objects do nothing, and own ones work. */
static int child_lives(void)
{
    struct ibv_wc wc;

    if ((post_send(&a, 66, 0) == 0) || (post_recv(&b, 66) == 0) ||
        (ibv_poll_cq(a.scq, 1, &wc) != 0) ||
        (ibv_req_notify_cq(a.scq, 0) == 0) || (ibv_alloc_pd(a.ctx) != NULL)) {
        return 1;
    }
    /* As a library that cleans up at exit. */
    if ((ibv_destroy_qp(a.qp) != 0) || (ibv_dereg_mr(a.mr) != 0) ||
        (ibv_destroy_cq(a.scq) != 0) || (ibv_dealloc_pd(a.pd) != 0) ||
        (ibv_close_device(a.ctx) != 0)) {
        return 2;
    }
    pair_open(IBV_QPT_RC, 0);
    if (!carries(0)) {
        return 3;
    }
    pair_close();
    return 0;
}

static void fork_leaves_the_parent_alone(void)
{
    int status = 0;
    pid_t pid;

    for (int i = 0; i < 3; ++i) {
        pair_open(IBV_QPT_RC, 0);
        EXPECT(carries(0));
        if (i > 0) {
            EXPECT(ibv_fork_init() == 0);
        }
        fflush(stdout);
        pid = fork();
        if (pid == 0) {
            _exit(child_lives());
        }
        for (int turn = 0; turn < 200; ++turn) {
            EXPECT(carries(0));
        }
        EXPECT(waitpid(pid, &status, 0) == pid);
        EXPECT(WIFEXITED(status) && (WEXITSTATUS(status) == 0));
        EXPECT(carries(0));
        pair_close();
    }
    EXPECT(ibv_is_fork_initialized() == IBV_FORK_UNNEEDED);
    OK();
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    objects_in_use_stay();
    closed_with_everything_in_use();
    first_bad_request_is_told();
    nothing_to_read_is_eagain();
    armed_once_tells_once();
    only_new_completions_tell();
    solicited_only();
    solicited_does_not_disarm();
    destroy_waits_for_acknowledgements();
    armed_without_a_channel();
    destroyed_with_requests_under_way();
    unread_events_go_with_the_queue();
    a_waiting_thread_is_woken();
    events_of_a_queue_pair();
    communication_established();
    refused_access_is_an_event();
    unsupported_operation_is_an_event();
    a_failed_receive_is_no_event();
    destroy_waits_for_async_acknowledgement();
    the_way_back_of_a_datagram();
    fork_leaves_the_parent_alone();
    return (failures == 0) ? 0 : 1;
}
