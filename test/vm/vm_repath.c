/*
 * Moves a connected queue pair to other UDP source ports while it is busy: RTS
 * to SQD, a new address vector in SQD, and SQD to RTS. The receiver checks that
 * every message arrives once, in order and unchanged.
 *
 * usage: vm_repath DEVICE listen|HOST PORT SPORT SPORT...
 *
 * Both ends must be given the same source ports, 0xC001 to 0xFFFF. The end that
 * connects sends. It moves its queue pair while some of the messages are in
 * flight. The other end also moves its queue pair, so that acknowledgements use
 * the same port.
 */
#include "config.h"
#include "vm_pair.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOTS 16
#define BYTES 20000 /* five packets */
#define PER_PORT 150

typedef struct repath {
    vm_pair_t pair;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    vm_end_t theirs;
    uint8_t *memory; /* SLOTS messages */
    unsigned num_ports;
    char **ports;
} repath_t;

static void fill(uint8_t *message, uint32_t number)
{
    for (uint32_t i = 0; i < BYTES; i += 4) {
        uint32_t word = number * 2654435761u + i;

        memcpy(message + i, &word, 4);
    }
    memcpy(message, &number, 4);
}

static void check(const uint8_t *message, uint32_t number)
{
    static uint8_t want[BYTES];
    uint32_t got;

    memcpy(&got, message, 4);
    if (got != number) {
        vm_die("message %u arrived instead of %u", got, number);
    }
    fill(want, number);
    if (memcmp(message, want, BYTES) != 0) {
        vm_die("message %u is damaged", number);
    }
}

static uint32_t label_of(const char *port)
{
    return (uint32_t)strtoul(port, NULL, 0) & 0x3fff;
}

/* Moves the queue pair to another port. Waits until it has drained, and reports
 * unsupported steps. */
static void move(repath_t *r, const char *port)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD,
                               .en_sqd_async_notify = 1};
    struct ibv_async_event event;
    struct pollfd fd = {r->pair.ctx->async_fd, POLLIN, 0};
    int ret;

    ret =
        ibv_modify_qp(r->qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
    if (ret != 0) {
        vm_die("RTS to SQD: %s", strerror(ret));
    }
    if ((poll(&fd, 1, 10000) != 1) ||
        (ibv_get_async_event(r->pair.ctx, &event) != 0)) {
        vm_die("no SQ_DRAINED event within 10 s");
    }
    if (event.event_type != IBV_EVENT_SQ_DRAINED) {
        vm_die("event: %s", ibv_event_type_str(event.event_type));
    }
    ibv_ack_async_event(&event);
    vm_ah_fill(&r->pair, &r->theirs.gid, label_of(port), &attr.ah_attr);
    /* IBV_QP_STATE is omitted, because rdma_rxe in Linux 6.12 treats it as
     * another drain request. */
    ret = ibv_modify_qp(r->qp, &attr, IBV_QP_AV);
    if (ret != 0) {
        vm_die("a new path in SQD: %s", strerror(ret));
    }
    attr.qp_state = IBV_QPS_RTS;
    ret = ibv_modify_qp(r->qp, &attr, IBV_QP_STATE);
    if (ret != 0) {
        vm_die("SQD to RTS: %s", strerror(ret));
    }
}

static struct ibv_sge slot_of(repath_t *r, uint32_t number)
{
    return (struct ibv_sge){
        .addr = (uintptr_t)(r->memory + (size_t)(number % SLOTS) * BYTES),
        .length = BYTES,
        .lkey = r->mr->lkey};
}

static void post_recv(repath_t *r, uint32_t number)
{
    struct ibv_sge sge = slot_of(r, number);
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad_wr;

    if (ibv_post_recv(r->qp, &wr, &bad_wr) != 0) {
        vm_die("ibv_post_recv failed");
    }
}

static void post_send(repath_t *r, uint32_t number)
{
    struct ibv_sge sge = slot_of(r, number);
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad_wr;

    if (ibv_post_send(r->qp, &wr, &bad_wr) != 0) {
        vm_die("ibv_post_send failed");
    }
}

static void receive(repath_t *r)
{
    uint32_t all = r->num_ports * PER_PORT;
    struct ibv_wc wc;

    for (uint32_t i = 0; i < all; ++i) {
        /* Like the sender, the receiver moves while messages for the current
         * port are still in flight. */
        if ((i % PER_PORT == PER_PORT / 2) && (i > PER_PORT)) {
            move(r, r->ports[i / PER_PORT]);
        }
        vm_cq_wait_success(&r->pair, &wc);
        check(r->memory + (size_t)(i % SLOTS) * BYTES, i);
        if (i + SLOTS < all) {
            post_recv(r, i + SLOTS);
        }
    }
}

static void fill_slot(repath_t *r, uint32_t number)
{
    fill(r->memory + (size_t)(number % SLOTS) * BYTES, number);
}

static void await_sent(repath_t *r, uint32_t *done, uint32_t until)
{
    struct ibv_wc wc;

    for (; *done < until; ++*done) {
        vm_cq_wait_success(&r->pair, &wc);
    }
}

/* The last messages of a port are prepared and then posted in one batch, so
 * that the queue is full when the drain starts. If its last acknowledgement
 * arrives at that moment, rdma_rxe may raise no event. */
static void transmit(repath_t *r)
{
    uint32_t all = r->num_ports * PER_PORT, done = 0, end;

    for (uint32_t port = 0; port < r->num_ports; ++port) {
        end = (port + 1) * PER_PORT;
        for (uint32_t i = end - PER_PORT; i < end - SLOTS; ++i) {
            await_sent(r, &done, (i < SLOTS) ? 0 : i - SLOTS + 1);
            fill_slot(r, i);
            post_send(r, i);
        }
        await_sent(r, &done, end - SLOTS);
        for (uint32_t i = end - SLOTS; i < end; ++i) {
            fill_slot(r, i);
        }
        for (uint32_t i = end - SLOTS; i < end; ++i) {
            post_send(r, i);
        }
        if (end < all) {
            move(r, r->ports[port + 1]);
        }
    }
    await_sent(r, &done, all);
}

int main(int argc, char **argv)
{
    repath_t r = {.num_ports = (unsigned)argc - 4, .ports = argv + 4};
    vm_path_t path = {.timeout = 14, .retry_cnt = 6};
    const char *host = NULL;

    if (argc < 5) {
        vm_die("usage: vm_repath DEVICE listen|HOST PORT SPORT...");
    }
    if (strcmp(argv[2], "listen") != 0) {
        host = argv[2];
    }
    path.flow_label = label_of(r.ports[0]);
    vm_pair_open(&r.pair, argv[1]);
    vm_pair_connect(&r.pair, host, argv[3]);
    r.memory = calloc(SLOTS, BYTES);
    r.mr = ibv_reg_mr(r.pair.pd, r.memory, SLOTS * BYTES,
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if ((r.memory == NULL) || (r.mr == NULL)) {
        vm_die("memory: %s", strerror(errno));
    }
    r.qp = vm_qp_create(&r.pair, IBV_QPT_RC, SLOTS);
    vm_qp_connect(&r.pair, r.qp, r.mr, &path, &r.theirs);
    for (uint32_t i = 0; !r.pair.second && (i < SLOTS); ++i) {
        post_recv(&r, i);
    }
    vm_pair_step(&r.pair);
    if (r.pair.second) {
        transmit(&r);
    } else {
        receive(&r);
    }
    vm_pair_step(&r.pair);
    printf("%u messages over %u ports\n", r.num_ports * PER_PORT, r.num_ports);
    return 0;
}
