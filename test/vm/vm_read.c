/*
 * Checks that a READ that completes successfully has transferred all bytes,
 * even if packets are lost, delayed or reordered. Only libibverbs and the
 * kernel are involved.
 *
 * usage: vm_read DEVICE listen|HOST PORT [--seconds N] [--bytes N] [--depth N]
 *                [--timeout N] [--sends]
 *
 * The end that connects reads from the memory of the end that listens. When its
 * queue pair fails, both ends set up a new one. Both ends must be given the
 * same options.
 *
 *   --seconds  how long READs are posted (10)
 *   --bytes    size of a READ (65536)
 *   --depth    READs in flight (8)
 *   --timeout  exponent of the local ACK timeout; 12 is 17 ms (12)
 *   --sends    a SEND follows each READ
 *
 * Prints the numbers of READs, of READs that succeeded without all bytes, and
 * of failed queue pairs. A queue pair whose first error is a flush has skipped
 * an error: no request of it failed before. Exit status: 0 all bytes arrived, 1
 * error, 2 bytes were missing.
 */
#include "config.h"
#include "vm_pair.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MAX_DEPTH 16
#define AREA (4u << 20) /* memory that is read */
#define PAGE 4096       /* minimum distance between two READs' memory */
#define MESSAGE 6000    /* bytes of a SEND: two packets */
#define RECEIVES 64     /* posted by the end that listens */
#define ID_SEND 100     /* wr_id of a SEND; that of a READ is its slot */
#define ID_RECV 101
#define POISON 0xa5

typedef struct reader {
    vm_pair_t pair;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    vm_end_t theirs;
    uint8_t *memory;          /* the data, the slots of the READs, a receive */
    uint32_t from[MAX_DEPTH]; /* where the READ of a slot reads */
    unsigned depth, in_flight;
    uint32_t bytes;
    double seconds;
    int sends;
    uint8_t timeout;
    unsigned reads, wrong, qps_failed, flushed_first;
} reader_t;

static uint8_t *slot_of(const reader_t *r, unsigned slot)
{
    return r->memory + AREA + (size_t)slot * r->bytes;
}

static void post(reader_t *r, enum ibv_wr_opcode opcode, uint64_t id,
                 void *addr, uint32_t bytes, uint64_t remote)
{
    struct ibv_sge sge = {(uintptr_t)addr, bytes, r->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = id,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {remote, r->theirs.rkey}},
                       *bad_wr;

    if (ibv_post_send(r->qp, &wr, &bad_wr) != 0) {
        vm_die("ibv_post_send failed");
    }
    ++r->in_flight;
}

static void post_read(reader_t *r, unsigned slot)
{
    uint32_t pages = (AREA - r->bytes) / PAGE;

    r->from[slot] = (uint32_t)(random() % (pages + 1)) * PAGE;
    memset(slot_of(r, slot), POISON, r->bytes);
    post(r, IBV_WR_RDMA_READ, slot, slot_of(r, slot), r->bytes,
         r->theirs.addr + r->from[slot]);
    if (r->sends) {
        post(r, IBV_WR_SEND, ID_SEND, r->memory, MESSAGE, 0);
    }
}

static void post_recv(reader_t *r)
{
    /* The data of the SENDs is not checked. The receives share a buffer. */
    struct ibv_sge sge = {(uintptr_t)slot_of(r, r->depth), MESSAGE,
                          r->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = ID_RECV, .sg_list = &sge, .num_sge = 1},
                       *bad_wr;

    if (ibv_post_recv(r->qp, &wr, &bad_wr) != 0) {
        vm_die("ibv_post_recv failed");
    }
}

/* Both ends hold the same data, so a READ has the right bytes if they equal
 * those of this end. */
static void check(reader_t *r, unsigned slot)
{
    const uint8_t *have = slot_of(r, slot), *want = r->memory + r->from[slot];
    uint32_t first = 0, wrong = 0, poison = 0;

    ++r->reads;
    if (memcmp(have, want, r->bytes) == 0) {
        return;
    }
    for (uint32_t i = 0; i < r->bytes; ++i) {
        if (have[i] != want[i]) {
            first = (wrong == 0) ? i : first;
            ++wrong;
            poison += have[i] == POISON;
        }
    }
    ++r->wrong;
    printf("READ %u succeeded: %u of %u bytes wrong (%u unwritten), first at "
           "%u\n",
           r->reads, wrong, r->bytes, poison, first);
    fflush(stdout);
}

static void qp_setup(reader_t *r)
{
    vm_path_t path = {
        .flow_label = 0x123, .timeout = r->timeout, .retry_cnt = 6};

    r->qp = vm_qp_create(&r->pair, IBV_QPT_RC, RECEIVES);
    vm_qp_connect(&r->pair, r->qp, r->mr, &path, &r->theirs);
    for (unsigned i = 0; !r->pair.second && (i < RECEIVES); ++i) {
        post_recv(r);
    }
    vm_pair_step(&r->pair);
}

/* Waits until the requests behind the failed one have completed. */
static void drain(reader_t *r, const struct ibv_wc *first)
{
    struct ibv_wc wc;

    ++r->qps_failed;
    r->flushed_first += first->status == IBV_WC_WR_FLUSH_ERR;
    printf("queue pair %u fails, in flight %u: %s\n", r->qps_failed,
           r->in_flight, ibv_wc_status_str(first->status));
    fflush(stdout);
    while (r->in_flight > 0) {
        if (!vm_cq_wait(&r->pair, 20, &wc)) {
            vm_die("no completion within 20 s");
        }
        --r->in_flight;
        if ((wc.status == IBV_WC_SUCCESS) && (wc.wr_id < MAX_DEPTH)) {
            check(r, (unsigned)wc.wr_id);
        }
    }
}

static void read_all(reader_t *r)
{
    double until = vm_now_s() + r->seconds;
    struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
    int again;

    for (unsigned i = 0; i < r->depth; ++i) {
        post_read(r, i);
    }
    while (r->in_flight > 0) {
        if (!vm_cq_wait(&r->pair, 20, &wc)) {
            vm_die("no completion within 20 s");
        }
        --r->in_flight;
        if (wc.status != IBV_WC_SUCCESS) {
            drain(r, &wc);
            break;
        }
        if (wc.wr_id < MAX_DEPTH) {
            check(r, (unsigned)wc.wr_id);
            if (vm_now_s() < until) {
                post_read(r, (unsigned)wc.wr_id);
            }
        }
    }
    again = vm_now_s() < until;
    r->seconds = until - vm_now_s();
    if (again) {
        vm_pair_step(&r->pair);
        ibv_destroy_qp(r->qp);
        qp_setup(r);
        read_all(r);
    }
}

/* Keeps the receives posted until the other end speaks. A one-byte message
 * requests another queue pair, and the end of the connection ends this
 * process. */
static void serve(reader_t *r)
{
    struct pollfd fd = {r->pair.sock, POLLIN, 0};
    struct ibv_wc wc;
    char byte = 0;

    for (;;) {
        while (ibv_poll_cq(r->pair.cq, 1, &wc) == 1) {
            if (wc.status == IBV_WC_SUCCESS) {
                post_recv(r);
            }
        }
        if (poll(&fd, 1, 1) == 0) {
            continue;
        }
        if (recv(r->pair.sock, &byte, 1, MSG_PEEK) != 1) {
            return;
        }
        vm_pair_step(&r->pair);
        ibv_destroy_qp(r->qp);
        qp_setup(r);
    }
}

static void take_options(reader_t *r, int argc, char **argv)
{
    static const struct option options[] = {
        {"seconds", 1, NULL, 's'}, {"bytes", 1, NULL, 'b'},
        {"depth", 1, NULL, 'd'},   {"timeout", 1, NULL, 't'},
        {"sends", 0, NULL, 'n'},   {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 's':
            r->seconds = atof(optarg);
            break;
        case 'b':
            r->bytes = (uint32_t)strtoul(optarg, NULL, 0);
            break;
        case 'd':
            r->depth = (unsigned)atoi(optarg);
            break;
        case 't':
            r->timeout = (uint8_t)atoi(optarg);
            break;
        case 'n':
            r->sends = 1;
            break;
        default:
            vm_die("unknown option; see the top of vm_read.c");
        }
    }
    if ((argc - optind != 3) || (r->bytes == 0) || (r->bytes > AREA) ||
        (r->depth == 0) || (r->depth > MAX_DEPTH)) {
        vm_die("usage: vm_read DEVICE listen|HOST PORT [OPTION...]");
    }
}

int main(int argc, char **argv)
{
    reader_t r = {.seconds = 10, .bytes = 65536, .depth = 8, .timeout = 12};
    size_t size;
    const char *host;

    take_options(&r, argc, argv);
    host = argv[optind + 1];
    vm_pair_open(&r.pair, argv[optind]);
    vm_pair_connect(&r.pair, (strcmp(host, "listen") == 0) ? NULL : host,
                    argv[optind + 2]);
    size = AREA + (size_t)r.depth * r.bytes + MESSAGE;
    r.memory = calloc(1, size);
    r.mr = (r.memory == NULL)
               ? NULL
               : ibv_reg_mr(r.pair.pd, r.memory, size,
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    if (r.mr == NULL) {
        vm_die("memory: %s", strerror(errno));
    }
    for (uint32_t i = 0; i < AREA; i += 4) {
        uint32_t word = (i + 1) * 2654435761u;

        memcpy(r.memory + i, &word, 4);
    }
    qp_setup(&r);
    if (!r.pair.second) {
        serve(&r);
        return 0;
    }
    read_all(&r);
    printf("%u READs, %u successes with wrong bytes; %u queue pairs "
           "failed, %u of them with a flush as the first error\n",
           r.reads, r.wrong, r.qps_failed, r.flushed_first);
    return (r.wrong != 0) ? 2 : 0;
}
