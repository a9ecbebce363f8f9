/*
 * A program waits for events while its queue pairs fail, as after a fatal
 * device error. Each of them must raise IBV_EVENT_QP_FATAL, enter the error
 * state, and flush its receives. All other queue pairs must stay unchanged.
 *
 * usage: soft_errqp QPS EXPECTED COMMAND (in a session). Starts COMMAND, which
 * makes the queue pairs fail.
 */
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_QPS 64
#define LIMIT_MS 2000
#define QUIET_MS 200 /* time in which no further event may come */

static struct ibv_qp *qps[MAX_QPS];
static int fatal[MAX_QPS];
static char buffer[64];

static struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *cq,
                              struct ibv_mr *mr, uint64_t wr_id)
{
    struct ibv_qp_init_attr init = {.send_cq = cq,
                                    .recv_cq = cq,
                                    .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 4,
                                            .max_recv_wr = 4,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1}};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    struct ibv_sge sge = {(uintptr_t)buffer, sizeof(buffer), mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad_wr;
    struct ibv_qp *qp = ibv_create_qp(pd, &init);

    if ((qp == NULL) ||
        ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                          IBV_QP_ACCESS_FLAGS) ||
        ibv_post_recv(qp, &wr, &bad_wr)) {
        perror("queue pair");
        exit(1);
    }
    return qp;
}

static unsigned take_events(struct ibv_context *context, unsigned num,
                            unsigned expected)
{
    unsigned seen = 0;

    for (;;) {
        struct pollfd pollfd = {.fd = context->async_fd, .events = POLLIN};
        struct ibv_async_event event;

        if (poll(&pollfd, 1, (seen < expected) ? LIMIT_MS : QUIET_MS) != 1) {
            return seen;
        }
        if (ibv_get_async_event(context, &event) != 0) {
            return 0;
        }
        printf("%s\n", ibv_event_type_str(event.event_type));
        for (unsigned i = 0; i < num; ++i) {
            if ((event.event_type == IBV_EVENT_QP_FATAL) &&
                (event.element.qp == qps[i])) {
                fatal[i] = 1;
                ++seen;
            }
        }
        ibv_ack_async_event(&event);
    }
}

static int check_states(unsigned num)
{
    int failed = 0;

    for (unsigned i = 0; i < num; ++i) {
        struct ibv_qp_init_attr init;
        struct ibv_qp_attr attr;

        if ((ibv_query_qp(qps[i], &attr, IBV_QP_STATE, &init) != 0) ||
            (attr.qp_state != (fatal[i] ? IBV_QPS_ERR : IBV_QPS_INIT))) {
            fprintf(stderr, "queue pair %u: state %d, event %d\n", i,
                    attr.qp_state, fatal[i]);
            failed = 1;
        }
    }
    return failed;
}

int main(int argc, char **argv)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    unsigned num = (argc > 1) ? (unsigned)atoi(argv[1]) : 0, flushed = 0;
    unsigned expected = (argc > 2) ? (unsigned)atoi(argv[2]) : 0, seen;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    struct ibv_wc wc;
    int failed;

    if ((argc != 4) || (num == 0) || (num > MAX_QPS) || (list == NULL) ||
        (list[0] == NULL) || ((context = ibv_open_device(list[0])) == NULL) ||
        ((pd = ibv_alloc_pd(context)) == NULL) ||
        ((cq = ibv_create_cq(context, 256, NULL, NULL, 0)) == NULL) ||
        ((mr = ibv_reg_mr(pd, buffer, sizeof(buffer),
                          IBV_ACCESS_LOCAL_WRITE)) == NULL)) {
        fprintf(stderr, "set-up\n");
        return 1;
    }
    for (unsigned i = 0; i < num; ++i) {
        qps[i] = make_qp(pd, cq, mr, i);
    }
    if (system(argv[3]) != 0) {
        fprintf(stderr, "'%s' failed\n", argv[3]);
        return 1;
    }
    seen = take_events(context, num, expected);
    failed = check_states(num);
    while (ibv_poll_cq(cq, 1, &wc) == 1) {
        failed |= (wc.status != IBV_WC_WR_FLUSH_ERR) || !fatal[wc.wr_id];
        ++flushed;
    }
    if (failed || (seen != expected) || (flushed != expected)) {
        fprintf(stderr, "%u events and %u flushed receives, not %u\n", seen,
                flushed, expected);
        return 1;
    }
    return 0;
}
