/*
 * Tests all operations between two devices, in both directions, and checks all
 * data.
 *
 * usage: vm_data DEVICE listen|HOST PORT [--name PREFIX]
 *                [--min BYTES] [--max BYTES] [--rc | --ud] [--sl N]
 *                [--timeout N]
 *
 * The end with --name prints the result lines, "ok - PREFIX: WHAT". Both ends
 * must be given the same sizes and kind.
 *
 *   --rc       SEND, a run of SENDs, WRITE, WRITE with immediate, READ and
 *              atomics, from --min (1) to --max bytes
 *   --ud       datagrams
 *   --sl       the value that wc.sl must have for datagrams received here (2
 *              means IPv4, which UCX relies on)
 *   --timeout  exponent of the local ACK timeout; 18 is one second
 */
#include "config.h"
#include "vm_pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES (16u << 20)
#define GUARD 64 /* bytes before and after a message, which must not change */
#define GUARD_BYTE 0xa5
#define GRH 40
#define QKEY 0x1234567
#define IMM 0xcafe0000u
#define RUN 32 /* messages in flight in a run */
#define RUN_BYTES 9001

typedef struct data {
    vm_pair_t pair;
    struct ibv_qp *qp;
    vm_end_t theirs;
    uint8_t *source;   /* sent by this end, or READ from it */
    uint8_t *target;   /* received by this end, between guards */
    struct ibv_mr *mr; /* for both areas, source first */
    size_t area;       /* size of each area */
    const char *name;
    uint32_t min, max;
    int ud, sl;
    uint8_t timeout;  /* local ACK timeout exponent */
    char reason[200]; /* empty if this end has no error */
} data_t;

typedef void (*transfer_func_t)(data_t *d, int active, uint32_t bytes,
                                uint32_t seed);

static void wrong(data_t *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void wrong(data_t *d, const char *fmt, ...)
{
    va_list ap;

    if (d->reason[0] == '\0') {
        va_start(ap, fmt);
        vsnprintf(d->reason, sizeof(d->reason), fmt, ap);
        va_end(ap);
    }
}

/* ---- data ---- */

#define WORD sizeof(uint64_t)

static uint64_t word_at(uint32_t seed, uint32_t i)
{
    uint64_t x = (uint64_t)(seed + i) * 0x9e3779b97f4a7c15ull;

    return x ^ (x >> 29);
}

static void fill(uint8_t *buffer, uint32_t bytes, uint32_t seed)
{
    uint32_t i;
    uint64_t word;

    for (i = 0; i + WORD <= bytes; i += WORD) {
        word = word_at(seed, i);
        memcpy(buffer + i, &word, WORD);
    }
    word = word_at(seed, i);
    memcpy(buffer + i, &word, bytes - i);
}

static void check(data_t *d, const uint8_t *buffer, uint32_t bytes,
                  uint32_t seed)
{
    uint64_t word, have;
    uint32_t i;

    for (i = 0; i + WORD <= bytes; i += WORD) {
        memcpy(&have, buffer + i, WORD);
        if (have != word_at(seed, i)) {
            wrong(d, "%u bytes: the first wrong byte is %u", bytes, i);
            return;
        }
    }
    word = word_at(seed, i);
    if (memcmp(buffer + i, &word, bytes - i) != 0) {
        wrong(d, "%u bytes: the first wrong byte is %u", bytes, i);
    }
}

static void clear_target(data_t *d, uint32_t bytes)
{
    memset(d->target, GUARD_BYTE, bytes + 2 * GUARD);
}

static void check_target(data_t *d, uint32_t bytes, uint32_t seed)
{
    check(d, d->target + GUARD, bytes, seed);
    for (unsigned i = 0; i < GUARD; ++i) {
        if ((d->target[i] != GUARD_BYTE) ||
            (d->target[GUARD + bytes + i] != GUARD_BYTE)) {
            wrong(d, "%u bytes: bytes outside the message have changed", bytes);
            return;
        }
    }
}

/* ---- posting ---- */

static void post_recv(data_t *d, void *addr, uint32_t bytes)
{
    struct ibv_sge sge = {(uintptr_t)addr, bytes, d->mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = (bytes != 0)}, *bad_wr;

    if (ibv_post_recv(d->qp, &wr, &bad_wr) != 0) {
        vm_die("ibv_post_recv failed");
    }
}

static void post(data_t *d, enum ibv_wr_opcode opcode, void *addr,
                 uint32_t bytes, uint64_t remote, struct ibv_send_wr *wr)
{
    struct ibv_sge sge = {(uintptr_t)addr, bytes, d->mr->lkey};
    struct ibv_send_wr *bad_wr;

    wr->sg_list = &sge;
    wr->num_sge = 1;
    wr->opcode = opcode;
    wr->send_flags = IBV_SEND_SIGNALED;
    if ((opcode != IBV_WR_ATOMIC_CMP_AND_SWP) &&
        (opcode != IBV_WR_ATOMIC_FETCH_AND_ADD) && !d->ud) {
        wr->wr.rdma.remote_addr = remote;
        wr->wr.rdma.rkey = d->theirs.rkey;
    }
    if (ibv_post_send(d->qp, wr, &bad_wr) != 0) {
        vm_die("ibv_post_send failed");
    }
}

static void finish(data_t *d, enum ibv_wc_opcode opcode, uint32_t bytes)
{
    struct ibv_wc wc;

    vm_cq_wait_success(&d->pair, &wc);
    if (wc.opcode != opcode) {
        wrong(d, "%u bytes: completion opcode %d, not %d", bytes, wc.opcode,
              opcode);
    }
}

static uint64_t their_source(const data_t *d)
{
    return d->theirs.addr;
}

static uint64_t their_target(const data_t *d)
{
    return d->theirs.addr + d->area + GUARD;
}

/* ---- operations: both ends, for one size ---- */

static void do_send(data_t *d, int active, uint32_t bytes, uint32_t seed)
{
    struct ibv_send_wr wr = {0};
    struct ibv_wc wc;

    if (active) {
        fill(d->source, bytes, seed);
        vm_pair_step(&d->pair);
        post(d, IBV_WR_SEND, d->source, bytes, 0, &wr);
        finish(d, IBV_WC_SEND, bytes);
        return;
    }
    clear_target(d, bytes);
    post_recv(d, d->target + GUARD, bytes);
    vm_pair_step(&d->pair);
    vm_cq_wait_success(&d->pair, &wc);
    if ((wc.byte_len != bytes) || (wc.opcode != IBV_WC_RECV)) {
        wrong(d, "%u bytes: received %u", bytes, wc.byte_len);
    }
    check_target(d, bytes, seed);
}

static void do_write(data_t *d, int active, uint32_t bytes, uint32_t seed)
{
    struct ibv_send_wr wr = {0};

    if (active) {
        fill(d->source, bytes, seed);
        vm_pair_step(&d->pair);
        post(d, IBV_WR_RDMA_WRITE, d->source, bytes, their_target(d), &wr);
        finish(d, IBV_WC_RDMA_WRITE, bytes);
        vm_pair_step(&d->pair);
        return;
    }
    clear_target(d, bytes);
    vm_pair_step(&d->pair);
    vm_pair_step(&d->pair);
    check_target(d, bytes, seed);
}

static void do_write_imm(data_t *d, int active, uint32_t bytes, uint32_t seed)
{
    struct ibv_send_wr wr = {.imm_data = htonl(IMM + seed)};
    struct ibv_wc wc;

    if (active) {
        fill(d->source, bytes, seed);
        vm_pair_step(&d->pair);
        post(d, IBV_WR_RDMA_WRITE_WITH_IMM, d->source, bytes, their_target(d),
             &wr);
        finish(d, IBV_WC_RDMA_WRITE, bytes);
        return;
    }
    clear_target(d, bytes);
    post_recv(d, NULL, 0);
    vm_pair_step(&d->pair);
    vm_cq_wait_success(&d->pair, &wc);
    if ((wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM) || (wc.byte_len != bytes) ||
        !(wc.wc_flags & IBV_WC_WITH_IMM) ||
        (wc.imm_data != htonl(IMM + seed))) {
        wrong(d, "%u bytes: completion opcode %d, %u bytes, immediate 0x%x",
              bytes, wc.opcode, wc.byte_len, ntohl(wc.imm_data));
    }
    check_target(d, bytes, seed);
}

static void do_read(data_t *d, int active, uint32_t bytes, uint32_t seed)
{
    struct ibv_send_wr wr = {0};

    if (!active) {
        fill(d->source, bytes, seed);
        vm_pair_step(&d->pair);
        vm_pair_step(&d->pair);
        return;
    }
    clear_target(d, bytes);
    vm_pair_step(&d->pair);
    post(d, IBV_WR_RDMA_READ, d->target + GUARD, bytes, their_source(d), &wr);
    finish(d, IBV_WC_RDMA_READ, bytes);
    check_target(d, bytes, seed);
    vm_pair_step(&d->pair);
}

static uint32_t run_bytes(uint32_t i)
{
    return 1 + i * 283 % RUN_BYTES;
}

/* Sends many messages that are in flight together, to test their order and the
 * loss of one of them. */
static void do_run(data_t *d, int active, uint32_t bytes, uint32_t seed)
{
    struct ibv_send_wr wr = {0};
    struct ibv_wc wc;

    for (uint32_t i = 0; !active && (i < RUN); ++i) {
        post_recv(d, d->target + (size_t)i * RUN_BYTES, RUN_BYTES);
    }
    for (uint32_t i = 0; active && (i < RUN); ++i) {
        fill(d->source + (size_t)i * RUN_BYTES, run_bytes(i), seed + i);
    }
    vm_pair_step(&d->pair);
    for (uint32_t i = 0; active && (i < RUN); ++i) {
        post(d, IBV_WR_SEND, d->source + (size_t)i * RUN_BYTES, run_bytes(i), 0,
             &wr);
    }
    for (uint32_t i = 0; i < RUN; ++i) {
        vm_cq_wait_success(&d->pair, &wc);
        if (!active && (wc.byte_len != run_bytes(i))) {
            wrong(d, "message %u of a run has %u bytes, not %u", i, wc.byte_len,
                  run_bytes(i));
        }
    }
    for (uint32_t i = 0; !active && (i < RUN); ++i) {
        check(d, d->target + (size_t)i * RUN_BYTES, run_bytes(i), seed + i);
    }
    (void)bytes;
}

/* Executes one atomic operation. Returns the original value. */
static uint64_t atomic_one(data_t *d, enum ibv_wr_opcode opcode,
                           uint64_t compare_add, uint64_t swap)
{
    struct ibv_send_wr wr = {.wr.atomic = {.remote_addr = their_source(d),
                                           .rkey = d->theirs.rkey,
                                           .compare_add = compare_add,
                                           .swap = swap}};
    uint64_t before;

    post(d, opcode, d->target, 8, 0, &wr);
    finish(d,
           (opcode == IBV_WR_ATOMIC_CMP_AND_SWP) ? IBV_WC_COMP_SWAP
                                                 : IBV_WC_FETCH_ADD,
           8);
    memcpy(&before, d->target, 8);
    return before;
}

/* Tests a fetch-and-add with a carry beyond 32 bits, a compare-and-swap that
 * succeeds, and one that fails. */
static void do_atomic(data_t *d, int active, uint32_t bytes, uint32_t seed)
{
    const uint64_t start = 0xfffffff0ull, add = 0x100000003ull;
    uint64_t value = start, last;

    (void)bytes;
    (void)seed;
    memcpy(d->source, &start, 8);
    vm_pair_step(&d->pair);
    for (unsigned i = 0; active && (i < 20); ++i, value += add) {
        last = atomic_one(d, IBV_WR_ATOMIC_FETCH_AND_ADD, add, 0);
        if (last != value) {
            wrong(d, "fetch and add gave 0x%llx, not 0x%llx",
                  (unsigned long long)last, (unsigned long long)value);
        }
    }
    value = start + 20 * add;
    for (unsigned i = 0; i < 20; ++i) {
        int matches = (i % 2) == 0;

        if (active) {
            last = atomic_one(d, IBV_WR_ATOMIC_CMP_AND_SWP,
                              matches ? value : value + 1, value + 7);
            if (last != value) {
                wrong(d, "compare and swap gave 0x%llx, not 0x%llx",
                      (unsigned long long)last, (unsigned long long)value);
            }
        }
        value += matches ? 7 : 0;
    }
    vm_pair_step(&d->pair);
    if (!active && (memcmp(d->source, &value, 8) != 0)) {
        wrong(d, "the word does not have the result of the atomics");
    }
}

/* ---- datagrams ---- */

/* The header of an IPv4 packet is in the last 20 of the 40 bytes. Source: IBA
 * annex A17.4. */
static void check_grh(data_t *d, const struct ibv_wc *wc)
{
    const uint8_t *ip = d->target + GUARD + 20;

    if (!(wc->wc_flags & IBV_WC_GRH)) {
        wrong(d, "no GRH flag");
    } else if ((ip[0] >> 4) != 4) {
        wrong(d, "no IPv4 header where the GRH is");
    } else if ((memcmp(ip + 12, d->theirs.gid.raw + 12, 4) != 0) ||
               (memcmp(ip + 16, d->pair.gid.raw + 12, 4) != 0)) {
        wrong(d, "the addresses of the GRH are not those of the ends");
    }
    if ((d->sl >= 0) && (wc->sl != d->sl)) {
        wrong(d, "wc.sl %u, not %d", wc->sl, d->sl);
    }
}

static struct ibv_ah *make_ah(data_t *d)
{
    struct ibv_ah_attr attr;
    struct ibv_ah *ah;

    vm_ah_fill(&d->pair, &d->theirs.gid, 0, &attr);
    ah = ibv_create_ah(d->pair.pd, &attr);
    if (ah == NULL) {
        vm_die("ibv_create_ah: %s", strerror(errno));
    }
    return ah;
}

static void do_datagram(data_t *d, int active, uint32_t bytes, uint32_t seed)
{
    struct ibv_send_wr wr = {.imm_data = htonl(IMM + seed)};
    struct ibv_wc wc;

    if (active) {
        wr.wr.ud.ah = make_ah(d);
        wr.wr.ud.remote_qpn = d->theirs.qpn;
        wr.wr.ud.remote_qkey = QKEY;
        fill(d->source, bytes, seed);
        vm_pair_step(&d->pair);
        post(d, IBV_WR_SEND_WITH_IMM, d->source, bytes, 0, &wr);
        finish(d, IBV_WC_SEND, bytes);
        ibv_destroy_ah(wr.wr.ud.ah);
        return;
    }
    clear_target(d, bytes + GRH);
    post_recv(d, d->target + GUARD, bytes + GRH);
    vm_pair_step(&d->pair);
    vm_cq_wait_success(&d->pair, &wc);
    if ((wc.byte_len != bytes + GRH) || (wc.src_qp != d->theirs.qpn) ||
        (wc.imm_data != htonl(IMM + seed))) {
        wrong(d, "%u bytes: received %u of QP %u, immediate 0x%x", bytes,
              wc.byte_len, wc.src_qp, ntohl(wc.imm_data));
    }
    check_grh(d, &wc);
    check(d, d->target + GUARD + GRH, bytes, seed);
    if (d->target[GUARD + GRH + bytes] != GUARD_BYTE) {
        wrong(d, "%u bytes: bytes after the datagram have changed", bytes);
    }
}

static void ud_connect(data_t *d)
{
    vm_end_t mine = {.gid = d->pair.gid, .qpn = d->qp->qp_num};
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
    int ret;

    vm_pair_swap(&d->pair, &mine, &d->theirs, sizeof(mine));
    ret = ibv_modify_qp(d->qp, &attr,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                            IBV_QP_QKEY);
    attr.qp_state = IBV_QPS_RTR;
    ret = ret ? ret : ibv_modify_qp(d->qp, &attr, IBV_QP_STATE);
    attr.qp_state = IBV_QPS_RTS;
    ret = ret ? ret : ibv_modify_qp(d->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
    if (ret != 0) {
        vm_die("the UD QP cannot be set up: %s", strerror(ret));
    }
}

/* ---- results ---- */

/* Exchanges the results, so that each end has the results of both. The end with
 * a name prints them. */
static void result(data_t *d, const char *what, int from, double seconds)
{
    char theirs[sizeof(d->reason)];
    const char *reason;

    vm_pair_swap(&d->pair, d->reason, theirs, sizeof(theirs));
    reason = (d->reason[0] != '\0') ? d->reason : theirs;
    if (d->name != NULL) {
        const char *to = (from == d->pair.second) ? "sent by this end"
                                                  : "received by this end";

        if (reason[0] == '\0') {
            printf("ok - %s: %s, %s (%.1f s)\n", d->name, what, to, seconds);
        } else {
            printf("not ok - %s: %s, %s: %s\n", d->name, what, to, reason);
        }
        fflush(stdout);
    }
    d->reason[0] = '\0';
}

static void each_size(data_t *d, const char *what, transfer_func_t transfer,
                      const uint32_t *sizes, unsigned num_sizes)
{
    for (int from = 0; from < 2; ++from) {
        double began = vm_now_s();
        int active = (from == d->pair.second);

        for (unsigned i = 0; i < num_sizes; ++i) {
            if ((sizes[i] >= d->min) && (sizes[i] <= d->max)) {
                transfer(d, active, sizes[i], 1000 * i + (uint32_t)from);
            }
        }
        result(d, what, from, vm_now_s() - began);
    }
}

static void check_rc(data_t *d)
{
    static const uint32_t sizes[] = {
        1,    2,     3,     4,     7,     8,       63,       64,       255,
        256,  257,   1023,  1024,  4095,  4096,    4097,     8191,     8192,
        8193, 12289, 65535, 65536, 65537, 1000003, 1u << 20, MAX_BYTES};
    static const uint32_t once[] = {0, 0, 0};
    static const struct {
        const char *what;
        transfer_func_t transfer;
    } ops[] = {{"SEND", do_send},
               {"WRITE", do_write},
               {"WRITE with immediate", do_write_imm},
               {"READ", do_read}};
    vm_path_t path = {
        .flow_label = 0x123, .timeout = d->timeout, .retry_cnt = 7};

    vm_qp_connect(&d->pair, d->qp, d->mr, &path, &d->theirs);
    for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); ++i) {
        each_size(d, ops[i].what, ops[i].transfer, sizes,
                  sizeof(sizes) / sizeof(sizes[0]));
    }
    if (d->min == 0) { /* these tests have their own sizes */
        each_size(d, "32 SENDs in flight", do_run, once, 3);
        each_size(d, "atomics", do_atomic, once, 1);
    }
}

static void check_ud(data_t *d)
{
    static const uint32_t sizes[] = {1, 5, 64, 1000, 1024, 4095, 4096};

    ud_connect(d);
    each_size(d, "datagrams", do_datagram, sizes,
              sizeof(sizes) / sizeof(sizes[0]));
}

static const char usage[] =
    "usage: vm_data DEVICE listen|HOST PORT [--name PREFIX] [--min BYTES] "
    "[--max BYTES] [--rc | --ud] [--sl N] [--timeout N]";

static void take_options(data_t *d, int argc, char **argv)
{
    static const struct option options[] = {
        {"name", 1, NULL, 'n'},    {"max", 1, NULL, 'm'}, {"min", 1, NULL, 'i'},
        {"rc", 0, NULL, 'r'},      {"ud", 0, NULL, 'u'},  {"sl", 1, NULL, 's'},
        {"timeout", 1, NULL, 't'}, {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'n':
            d->name = optarg;
            break;
        case 'm':
            d->max = (uint32_t)strtoul(optarg, NULL, 0);
            break;
        case 'i':
            d->min = (uint32_t)strtoul(optarg, NULL, 0);
            break;
        case 'r':
            d->ud = 0;
            break;
        case 'u':
            d->ud = 1;
            break;
        case 's':
            d->sl = atoi(optarg);
            break;
        case 't':
            d->timeout = (uint8_t)atoi(optarg);
            break;
        default:
            vm_die("%s", usage);
        }
    }
    if ((argc - optind != 3) || (d->max > MAX_BYTES)) {
        vm_die("%s", usage);
    }
}

int main(int argc, char **argv)
{
    data_t d = {.max = MAX_BYTES, .sl = -1, .timeout = 18};
    const char *host;

    take_options(&d, argc, argv);
    host = argv[optind + 1];
    vm_pair_open(&d.pair, argv[optind]);
    vm_pair_connect(&d.pair, (strcmp(host, "listen") == 0) ? NULL : host,
                    argv[optind + 2]);
    d.area = MAX_BYTES + 4096;
    if (posix_memalign((void **)&d.source, 4096, 2 * d.area) != 0) {
        vm_die("out of memory");
    }
    d.target = d.source + d.area;
    d.mr = ibv_reg_mr(d.pair.pd, d.source, 2 * d.area,
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                          IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    if (d.mr == NULL) {
        vm_die("ibv_reg_mr: %s", strerror(errno));
    }
    d.qp = vm_qp_create(&d.pair, d.ud ? IBV_QPT_UD : IBV_QPT_RC, RUN + 1);
    (d.ud ? check_ud : check_rc)(&d);
    vm_pair_step(&d.pair);
    return 0;
}
