/*
 * Tests completion channels: when a CQ raises an event, on which channel, and
 * when a channel can be destroyed. Source: ibv_get_cq_event(3),
 * ibv_req_notify_cq(3).
 */
#include "soft_pair.h"

#include <poll.h>

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
    EXPECT(carries(0)); /* the CQ is not armed, so there is no event */
    EXPECT(!readable(b.channel->fd, QUIET_MS));
    pair_close();
    OK();
}

static void armed_once_notifies_once(void)
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

/* Earlier completions raise no event. */
static void only_new_completions_notify(void)
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
    /* The completion of a failed request also counts as solicited. */
    EXPECT(ibv_req_notify_cq(b.rcq, 1) == 0);
    EXPECT(post_recv(&b, 1) == 0);
    EXPECT(to_state(&b, IBV_QPS_ERR) == 0);
    EXPECT(readable(b.channel->fd, WAIT_MS));
    pair_close();
    OK();
}

/* The CQ is armed for any completion. A later request for solicited completions
 * must not restrict that. */
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
    EXPECT(post_recv(&a, 9) == 0); /* a receive that is flushed later */
    EXPECT((wait_wc(cq, &wc) == IBV_WC_WR_FLUSH_ERR) && (wc.wr_id == 9));
    EXPECT(ibv_destroy_qp(qp) == 0);
    a.qp = NULL;
    EXPECT(ibv_destroy_cq(cq) == 0);
    pair_close();
    OK();
}

/* Destroys a queue pair with requests in flight, which are dropped. The peer's
 * queue pair must continue to work. */
static void destroyed_with_requests_under_way(void)
{
    struct ibv_qp_attr at;
    struct ibv_qp_init_attr init;

    pair_open(IBV_QPT_RC, 0);
    for (int i = 0; i < 8; ++i) {
        EXPECT(post_send(&a, 1, 0) == 0); /* the peer answers with RNR */
    }
    EXPECT(ibv_destroy_qp(a.qp) == 0);
    a.qp = NULL;
    EXPECT(ibv_poll_cq(a.scq, 0, NULL) == 0);
    EXPECT(ibv_query_qp(b.qp, &at, IBV_QP_STATE, &init) == 0);
    EXPECT(at.qp_state == IBV_QPS_RTS);
    pair_close();
    OK();
}

/* Destroying a CQ discards its unread events. */
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

/* No thread polls, but a thread that waits on the channel is woken. */
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

void channel_tests(void)
{
    nothing_to_read_is_eagain();
    armed_once_notifies_once();
    only_new_completions_notify();
    solicited_only();
    solicited_does_not_disarm();
    destroy_waits_for_acknowledgements();
    armed_without_a_channel();
    destroyed_with_requests_under_way();
    unread_events_go_with_the_queue();
    a_waiting_thread_is_woken();
}
