/*
 * Shows the errors and events of a device as a program sees them.
 *
 * usage: vm_events port DEVICE
 *          prints "ready", then the name of each asynchronous event, until it
 *          is killed
 *        vm_events qp DEVICE listen|HOST PORT
 *          the listening end moves its queue pair to the error state while the
 *          other end has requests in flight; both check the completions
 *        vm_events path DEVICE listen|HOST PORT
 *          the connecting end sends, prints "sending", and continues until a
 *          completion is an error, for at most 30 s; it then checks the rest
 */
#include "config.h"
#include "vm_pair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEPTH 8
#define BYTES 8192

static void *memory;
static struct ibv_mr *mr;

static void post_recv(struct ibv_qp *qp)
{
    struct ibv_sge sge = {(uintptr_t)memory, BYTES, mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1},
                       *bad_wr;

    if (ibv_post_recv(qp, &wr, &bad_wr) != 0) {
        vm_die("ibv_post_recv failed");
    }
}

static void post_send(struct ibv_qp *qp)
{
    struct ibv_sge sge = {(uintptr_t)memory, BYTES, mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad_wr;

    if (ibv_post_send(qp, &wr, &bad_wr) != 0) {
        vm_die("ibv_post_send failed");
    }
}

static int watch_port(const char *device)
{
    struct ibv_async_event event;
    vm_pair_t pair;

    vm_pair_open(&pair, device);
    printf("ready\n");
    fflush(stdout);
    while (ibv_get_async_event(pair.ctx, &event) == 0) {
        printf("%s\n", ibv_event_type_str(event.event_type));
        fflush(stdout);
        ibv_ack_async_event(&event);
    }
    return 1;
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    if (ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) != 0) {
        vm_die("ibv_query_qp failed");
    }
    return attr.qp_state;
}

/* Checks that the `rest` requests behind the failed one complete as flushed,
 * and that the queue pair is in the error state. */
static void expect_flushed(vm_pair_t *pair, struct ibv_qp *qp, unsigned rest)
{
    struct ibv_wc wc;

    for (unsigned i = 0; i < rest; ++i) {
        if (!vm_cq_wait(pair, 5, &wc)) {
            vm_die("%u of %u requests behind the failed one did not complete",
                   rest - i, rest);
        }
        if (wc.status != IBV_WC_WR_FLUSH_ERR) {
            vm_die("a request behind the failed one: %s",
                   ibv_wc_status_str(wc.status));
        }
    }
    if (state_of(qp) != IBV_QPS_ERR) {
        vm_die("the queue pair is in state %d, not in error", state_of(qp));
    }
}

static void qp_listens(vm_pair_t *pair, struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct ibv_wc wc;

    vm_cq_wait_success(pair, &wc); /* exactly one message */
    vm_pair_step(pair);            /* the acknowledgement has now arrived */
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE) != 0) {
        vm_die("RTS to ERR failed");
    }
    expect_flushed(pair, qp, DEPTH - 1);
    vm_pair_step(pair);
    vm_pair_step(pair);
    printf("receives flushed\n");
}

static void qp_connects(vm_pair_t *pair, struct ibv_qp *qp)
{
    double began;
    struct ibv_wc wc;

    post_send(qp);
    vm_cq_wait_success(pair, &wc);
    vm_pair_step(pair);
    vm_pair_step(pair);
    began = vm_now_s();
    for (unsigned i = 0; i < DEPTH; ++i) {
        post_send(qp);
    }
    if (!vm_cq_wait(pair, 20, &wc)) {
        vm_die("no completion within 20 s");
    }
    if (wc.status != IBV_WC_RETRY_EXC_ERR) {
        vm_die("completion: %s", ibv_wc_status_str(wc.status));
    }
    printf("%s after %.1f s\n", ibv_wc_status_str(wc.status),
           vm_now_s() - began);
    expect_flushed(pair, qp, DEPTH - 1);
    vm_pair_step(pair);
}

static void path_listens(vm_pair_t *pair, struct ibv_qp *qp)
{
    struct ibv_wc wc;

    while (vm_cq_wait(pair, 40, &wc) && (wc.wr_id == 1)) {
        post_recv(qp);
    }
}

static void path_connects(vm_pair_t *pair, struct ibv_qp *qp)
{
    double began = vm_now_s();
    struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

    for (unsigned i = 0; i < DEPTH; ++i) {
        post_send(qp);
    }
    printf("sending\n");
    fflush(stdout);
    while (vm_now_s() - began < 30) {
        if (!vm_cq_wait(pair, 30, &wc)) {
            vm_die("no completion within 30 s");
        }
        if (wc.status != IBV_WC_SUCCESS) {
            break;
        }
        usleep(1000);
        post_send(qp);
    }
    /* In Linux 6.1, the status of the first request is either retries exceeded
     * or a local error (no route). Linux 6.12 may flush all requests, including
     * the first one. */
    if (wc.status == IBV_WC_SUCCESS) {
        vm_die("no error within 30 s");
    }
    printf("%s after %.1f s\n", ibv_wc_status_str(wc.status),
           vm_now_s() - began);
    expect_flushed(pair, qp, DEPTH - 1);
}

int main(int argc, char **argv)
{
    vm_path_t path = {.timeout = 14, .retry_cnt = 3}; /* 67 ms */
    vm_pair_t pair;
    vm_end_t theirs;
    struct ibv_qp *qp;
    int qp_mode;

    if ((argc == 3) && (strcmp(argv[1], "port") == 0)) {
        return watch_port(argv[2]);
    }
    if (argc != 5) {
        vm_die(
            "usage: vm_events port DEVICE | qp|path DEVICE listen|HOST PORT");
    }
    qp_mode = strcmp(argv[1], "qp") == 0;
    vm_pair_open(&pair, argv[2]);
    vm_pair_connect(&pair, (strcmp(argv[3], "listen") == 0) ? NULL : argv[3],
                    argv[4]);
    memory = calloc(1, BYTES);
    mr = ibv_reg_mr(pair.pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
    if (mr == NULL) {
        vm_die("ibv_reg_mr: %s", strerror(errno));
    }
    qp = vm_qp_create(&pair, IBV_QPT_RC, DEPTH);
    vm_qp_connect(&pair, qp, mr, &path, &theirs);
    for (unsigned i = 0; !pair.second && (i < DEPTH); ++i) {
        post_recv(qp);
    }
    vm_pair_step(&pair);
    if (qp_mode) {
        (pair.second ? qp_connects : qp_listens)(&pair, qp);
    } else {
        (pair.second ? path_connects : path_listens)(&pair, qp);
    }
    return 0;
}
