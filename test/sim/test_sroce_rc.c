/* Tests RC in virtual time, one behaviour per test. */
#include "config.h"

#include "sroce_net.h"

#include <errno.h>
#include <string.h>

#include "softroce/core/pkt.h"

#define SIG IBV_SEND_SIGNALED

static const sroce_counters_t *cnt(const net_t *w, int side)
{
    return sroce_dev_counters(w->side[side].dev);
}

/* ---- Every opcode ---- */

static void check_opcodes(const net_params_t *params, uint32_t length)
{
    const uint32_t to = 512 * 1024;
    net_side_t *a, *b;
    struct ibv_wc wc;
    net_t w;

    net_init(&w, params);
    a = &w.side[0];
    b = &w.side[1];
    net_fill(a->mem, 1, length);
    assert_int_equal(net_recv(&w, 1, 0, 77, to, length), 0);
    assert_int_equal(
        net_send(&w, 0, 0, IBV_WR_SEND_WITH_IMM, SIG, 5, 0, length, 0), 0);
    wc = net_wait(&w, b->rcq);
    assert_int_equal(wc.wr_id, 77);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RECV);
    assert_int_equal(wc.byte_len, length);
    assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
    assert_int_equal(wc.imm_data, 5);
    assert_int_equal(wc.qp_num, sroce_qp_num(b->qp[0]));
    assert_int_equal(wc.src_qp, sroce_qp_num(a->qp[0]));
    assert_int_equal(net_match(b->mem + to, 1, length), length);
    wc = net_wait(&w, a->scq);
    assert_int_equal(wc.wr_id, 5);
    assert_int_equal(wc.opcode, IBV_WC_SEND);

    net_fill(a->mem, 2, length);
    assert_int_equal(
        net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, SIG, 6, 0, length, to), 0);
    wc = net_wait(&w, a->scq);
    assert_int_equal(wc.wr_id, 6);
    assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
    assert_int_equal(net_match(b->mem + to, 2, length), length);

    net_fill(a->mem, 3, length);
    assert_int_equal(net_recv(&w, 1, 0, 78, 0, 0), 0);
    assert_int_equal(
        net_send(&w, 0, 0, IBV_WR_RDMA_WRITE_WITH_IMM, SIG, 7, 0, length, to),
        0);
    wc = net_wait(&w, b->rcq);
    assert_int_equal(wc.wr_id, 78);
    assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(wc.byte_len, length);
    assert_int_equal(wc.imm_data, 7);
    assert_int_equal(net_match(b->mem + to, 3, length), length);
    net_expect(&w, a->scq, 7, IBV_WC_SUCCESS);

    net_fill(b->mem + to, 4, length);
    assert_int_equal(
        net_send(&w, 0, 0, IBV_WR_RDMA_READ, SIG, 8, 0, length, to), 0);
    wc = net_wait(&w, a->scq);
    assert_int_equal(wc.wr_id, 8);
    assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
    assert_int_equal(wc.byte_len, length);
    assert_int_equal(net_match(a->mem, 4, length), length);
    net_run_until_idle(&w);
    net_cleanup(&w);
}

static void test_opcodes(void **state)
{
    static const uint32_t lengths[] = {0,    1,     3,     8,     255,  256,
                                       257,  1023,  1024,  1025,  4096, 4097,
                                       8192, 65536, 65537, 262144};

    for (int mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; ++mtu) {
        for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(lengths); ++i) {
            net_params_t p = {.seed = i,
                              .mtu = (enum ibv_mtu)mtu,
                              .icrc = i & 1,
                              .link = {.delay_ns = 2000}};

            check_opcodes(&p, lengths[i]);
        }
    }
}

static int post_atomic(net_t *w, enum ibv_wr_opcode op, uint64_t compare_add,
                       uint64_t swap, uint32_t remote_off, uint32_t off)
{
    net_side_t *a = &w->side[0], *b = &w->side[1];
    struct ibv_sge sge = {(uintptr_t)a->mem + off, 8, a->key};
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = op, .send_flags = SIG};
    struct ibv_send_wr *bad;

    wr.wr.atomic.remote_addr = (uintptr_t)b->mem + remote_off;
    wr.wr.atomic.rkey = b->key;
    wr.wr.atomic.compare_add = compare_add;
    wr.wr.atomic.swap = swap;
    return sroce_qp_post_send(a->qp[0], &wr, &bad);
}

static void test_atomics(void **state)
{
    net_params_t p = {.link = {.delay_ns = 1000}};
    uint64_t *target, *result;
    net_t w;

    net_init(&w, &p);
    target = (uint64_t *)(void *)(w.side[1].mem + 64);
    result = (uint64_t *)(void *)w.side[0].mem;
    *target = 10;
    assert_int_equal(post_atomic(&w, IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 0, 64, 0),
                     0);
    net_expect(&w, w.side[0].scq, 0, IBV_WC_SUCCESS);
    assert_int_equal(*result, 10);
    assert_int_equal(*target, 15);
    assert_int_equal(post_atomic(&w, IBV_WR_ATOMIC_CMP_AND_SWP, 15, 99, 64, 0),
                     0);
    net_expect(&w, w.side[0].scq, 0, IBV_WC_SUCCESS);
    assert_int_equal(*result, 15);
    assert_int_equal(*target, 99);
    assert_int_equal(post_atomic(&w, IBV_WR_ATOMIC_CMP_AND_SWP, 15, 7, 64, 0),
                     0);
    net_expect(&w, w.side[0].scq, 0, IBV_WC_SUCCESS);
    assert_int_equal(*result, 99);
    assert_int_equal(*target, 99);
    /* The responder rejects an address that is not aligned to eight bytes. */
    assert_int_equal(post_atomic(&w, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 60, 0),
                     0);
    net_expect(&w, w.side[0].scq, 0, IBV_WC_REM_INV_REQ_ERR);
    net_cleanup(&w);
}

static void test_inline_and_sge(void **state)
{
    net_params_t p = {.link = {.delay_ns = 1000}};
    struct ibv_sge sge[3];
    struct ibv_send_wr wr = {.wr_id = 1,
                             .sg_list = sge,
                             .num_sge = 3,
                             .opcode = IBV_WR_SEND,
                             .send_flags = SIG};
    struct ibv_send_wr *bad;
    net_side_t *a, *b;
    char text[] = "inline";
    net_t w;

    net_init(&w, &p);
    a = &w.side[0];
    b = &w.side[1];
    net_fill(a->mem, 9, 6000);
    sge[0] = (struct ibv_sge){(uintptr_t)a->mem, 1500, a->key};
    sge[1] = (struct ibv_sge){(uintptr_t)a->mem + 1500, 0, a->key};
    sge[2] = (struct ibv_sge){(uintptr_t)a->mem + 1500, 4500, a->key};
    assert_int_equal(net_recv(&w, 1, 0, 1, 0, 8192), 0);
    assert_int_equal(net_recv(&w, 1, 0, 2, 8192, 8192), 0);
    assert_int_equal(sroce_qp_post_send(a->qp[0], &wr, &bad), 0);
    net_expect(&w, b->rcq, 1, IBV_WC_SUCCESS);
    assert_int_equal(net_match(b->mem, 9, 6000), 6000);
    /* Inline data needs no key, and its memory may be reused immediately. */
    sge[0] = (struct ibv_sge){(uintptr_t)text, sizeof(text), 0};
    wr.num_sge = 1;
    wr.send_flags = SIG | IBV_SEND_INLINE;
    assert_int_equal(sroce_qp_post_send(a->qp[0], &wr, &bad), 0);
    memset(text, 0, sizeof(text));
    net_expect(&w, b->rcq, 2, IBV_WC_SUCCESS);
    assert_string_equal((char *)b->mem + 8192, "inline");
    sge[0].length = 65;
    assert_int_equal(sroce_qp_post_send(a->qp[0], &wr, &bad), EINVAL);
    net_run_until_idle(&w);
    net_cleanup(&w);
}

/* ---- Queues ---- */

static void test_queues_overflow(void **state)
{
    net_params_t p = {.max_wr = 16, .link = {.delay_ns = 1000}};
    net_t w;

    net_init(&w, &p);
    for (int i = 0; i < 16; ++i) {
        assert_int_equal(net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, 0, 1, 0, 8, 0),
                         0);
        assert_int_equal(net_recv(&w, 0, 0, 1, 0, 8), 0);
    }
    assert_int_equal(net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, 0, 1, 0, 8, 0),
                     ENOMEM);
    assert_int_equal(net_recv(&w, 0, 0, 1, 0, 8), ENOMEM);
    net_run_until_idle(&w);
    /* Unsignaled work generates no completion, but its WQE becomes free. */
    assert_int_equal(sroce_cq_pending(w.side[0].scq), 0);
    assert_int_equal(net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, SIG, 2, 0, 8, 0), 0);
    net_expect(&w, w.side[0].scq, 2, IBV_WC_SUCCESS);
    net_cleanup(&w);
}

static void test_cq_overrun(void **state)
{
    net_params_t p = {.cqe = 8, .link = {.delay_ns = 1000}};
    struct ibv_wc wc[16];
    net_t w;

    net_init(&w, &p);
    for (uint64_t i = 0; i < 10; ++i) {
        net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, SIG, i, 0, 8, 0);
    }
    net_run_until_idle(&w);
    assert_true(net_saw_event(&w, IBV_EVENT_CQ_ERR, &w.side[0].scq));
    assert_int_equal(sroce_cq_poll(w.side[0].scq, 16, wc), 8);
    assert_int_equal(wc[7].wr_id, 7);
    net_cleanup(&w);
}

static void test_cq_notify(void **state)
{
    net_params_t p = {.link = {.delay_ns = 1000}};
    net_side_t *b;
    net_t w;

    net_init(&w, &p);
    b = &w.side[1];
    for (int i = 0; i < 4; ++i) {
        net_recv(&w, 1, 0, 1, 0, 64);
    }
    sroce_cq_arm(b->rcq, 1);
    net_send(&w, 0, 0, IBV_WR_SEND, 0, 1, 0, 8, 0);
    net_run_until_idle(&w);
    assert_int_equal(sroce_sim_cq_events(w.sim, 1), 0);
    net_send(&w, 0, 0, IBV_WR_SEND, IBV_SEND_SOLICITED, 1, 0, 8, 0);
    net_run_until_idle(&w);
    assert_int_equal(sroce_sim_cq_events(w.sim, 1), 1);
    net_send(&w, 0, 0, IBV_WR_SEND, IBV_SEND_SOLICITED, 1, 0, 8, 0);
    net_run_until_idle(&w);
    assert_int_equal(sroce_sim_cq_events(w.sim, 1), 1); /* not armed */
    sroce_cq_arm(b->rcq, 0);
    net_send(&w, 0, 0, IBV_WR_SEND, 0, 1, 0, 8, 0);
    net_run_until_idle(&w);
    assert_int_equal(sroce_sim_cq_events(w.sim, 1), 2);
    net_cleanup(&w);
}

/* ---- RNR ---- */

static void test_rnr_waits(void **state)
{
    /* Timer code 20 is 10.24 ms. */
    net_params_t p = {.min_rnr_timer = 20, .link = {.delay_ns = 1000}};
    mrail_ns_t start;
    net_t w;

    net_init(&w, &p);
    start = sroce_sim_now(w.sim);
    net_fill(w.side[0].mem, 1, 5000);
    net_send(&w, 0, 0, IBV_WR_SEND, SIG, 1, 0, 5000, 0);
    sroce_sim_run(w.sim, start + 5 * MRAIL_NS_PER_MS);
    assert_int_equal(cnt(&w, 0)->nak_rnr_rx, 1);
    assert_int_equal(sroce_cq_pending(w.side[0].scq), 0);
    net_recv(&w, 1, 0, 9, 0, 5000);
    net_expect(&w, w.side[1].rcq, 9, IBV_WC_SUCCESS);
    assert_in_range(sroce_sim_now(w.sim) - start, 10240 * 1000, 10300 * 1000);
    assert_int_equal(net_match(w.side[1].mem, 1, 5000), 5000);
    net_expect(&w, w.side[0].scq, 1, IBV_WC_SUCCESS);
    net_cleanup(&w);
}

static void test_rnr_retry_exceeded(void **state)
{
    net_params_t p = {.rnr_retry = 3, .link = {.delay_ns = 1000}};
    net_t w;

    net_init(&w, &p);
    net_send(&w, 0, 0, IBV_WR_SEND, 0, 1, 0, 100, 0);
    net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, 0, 2, 0, 100, 0);
    net_expect(&w, w.side[0].scq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
    net_expect(&w, w.side[0].scq, 2, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(cnt(&w, 0)->nak_rnr_rx, 4);
    assert_int_equal(sroce_qp_state(w.side[0].qp[0]), IBV_QPS_ERR);
    net_cleanup(&w);
}

static void test_rnr_forever(void **state)
{
    net_params_t p = {.rnr_retry = 7, .link = {.delay_ns = 1000}};
    net_t w;

    net_init(&w, &p);
    net_send(&w, 0, 0, IBV_WR_SEND, SIG, 1, 0, 100, 0);
    sroce_sim_run(w.sim, sroce_sim_now(w.sim) + 10 * MRAIL_NS_PER_SEC);
    assert_true(cnt(&w, 0)->nak_rnr_rx > 1000);
    net_recv(&w, 1, 0, 9, 0, 100);
    net_expect(&w, w.side[0].scq, 1, IBV_WC_SUCCESS);
    net_cleanup(&w);
}

/* ---- SRQ ---- */

static void test_srq(void **state)
{
    net_params_t p = {.use_srq = 1, .num_qps = 4, .link = {.delay_ns = 1000}};
    struct ibv_srq_attr attr = {.srq_limit = 3};
    net_side_t *b;
    net_t w;

    net_init(&w, &p);
    b = &w.side[1];
    for (uint32_t i = 0; i < 8; ++i) {
        net_recv(&w, 1, 0, i, i * 4096, 4096);
    }
    assert_int_equal(sroce_srq_modify(b->srq, &attr, IBV_SRQ_LIMIT), 0);
    for (unsigned q = 0; q < 4; ++q) {
        net_send(&w, 0, q, IBV_WR_SEND, SIG, q, 0, 4000, 0);
    }
    net_run_until_idle(&w);
    assert_int_equal(sroce_cq_pending(b->rcq), 4);
    assert_false(net_saw_event(&w, IBV_EVENT_SRQ_LIMIT_REACHED, &b->srq));
    net_send(&w, 0, 0, IBV_WR_SEND, SIG, 1, 0, 8, 0);
    net_send(&w, 0, 0, IBV_WR_SEND, SIG, 1, 0, 8, 0);
    net_run_until_idle(&w);
    assert_true(net_saw_event(&w, IBV_EVENT_SRQ_LIMIT_REACHED, &b->srq));
    sroce_srq_query(b->srq, &attr);
    assert_int_equal(attr.srq_limit, 0);
    net_qp_to(b->qp[2], IBV_QPS_ERR);
    assert_true(net_saw_event(&w, IBV_EVENT_QP_LAST_WQE_REACHED, b));
    net_cleanup(&w);
}

/* A receive from an SRQ that holds half a message is flushed before
 * LAST_WQE_REACHED. */
static void test_srq_half_message(void **state)
{
    net_params_t p = {.use_srq = 1,
                      .link = {.delay_ns = 1000, .rate_Bps = 1000000}};
    net_side_t *b;
    net_t w;

    net_init(&w, &p);
    b = &w.side[1];
    net_recv(&w, 1, 0, 42, 0, 100000);
    net_send(&w, 0, 0, IBV_WR_SEND, 0, 1, 0, 100000, 0);
    sroce_sim_run(w.sim, sroce_sim_now(w.sim) + 5 * MRAIL_NS_PER_MS);
    net_qp_to(b->qp[0], IBV_QPS_ERR);
    net_expect(&w, b->rcq, 42, IBV_WC_WR_FLUSH_ERR);
    assert_true(net_saw_event(&w, IBV_EVENT_QP_LAST_WQE_REACHED, b));
    net_expect(&w, w.side[0].scq, 1, IBV_WC_RETRY_EXC_ERR);
    net_cleanup(&w);
}

/* ---- Loss, one packet at a time ---- */

typedef struct drop_nth {
    unsigned from;
    unsigned nth; /* drop the nth packet of that side, counted from 0 */
    unsigned count;
} drop_nth_t;

static int drop_filter(void *arg, unsigned from, unsigned to, uint8_t *data,
                       uint32_t length)
{
    drop_nth_t *d = arg;

    return (from == d->from) && (d->count++ == d->nth);
}

/* Any single loss in either direction is repaired quickly. */
static void test_every_single_loss(void **state)
{
    for (unsigned from = 0; from < 2; ++from) {
        for (unsigned nth = 0; nth < 40; ++nth) {
            net_params_t p = {.timeout = 18, .link = {.delay_ns = 1000}};
            drop_nth_t d = {from, nth, 0};
            net_t w;

            net_init(&w, &p);
            sroce_sim_filter(w.sim, drop_filter, &d);
            net_fill(w.side[0].mem, 1, 10000);
            net_fill(w.side[0].mem + 10000, 2, 3000);
            net_recv(&w, 1, 0, 9, 20000, 10000);
            net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, SIG, 1, 10000, 3000, 0);
            net_send(&w, 0, 0, IBV_WR_SEND, SIG, 2, 0, 10000, 0);
            net_send(&w, 0, 0, IBV_WR_RDMA_READ, SIG, 3, 50000, 10000, 20000);
            net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, SIG | IBV_SEND_FENCE, 4,
                     50000, 10000, 40000);
            for (uint64_t i = 1; i <= 4; ++i) {
                net_expect(&w, w.side[0].scq, i, IBV_WC_SUCCESS);
            }
            assert_int_equal(net_match(w.side[1].mem + 40000, 1, 10000), 10000);
            assert_int_equal(net_match(w.side[1].mem, 2, 3000), 3000);
            net_expect(&w, w.side[1].rcq, 9, IBV_WC_SUCCESS);
            net_run_until_idle(&w);
            assert_int_equal(sroce_cq_pending(w.side[1].rcq), 0);
            net_cleanup(&w);
        }
    }
}

/* The first request and a full batch are sent immediately. Other requests may
 * wait for more to follow. */
static void test_urgent(void **state)
{
    net_params_t p = {.link = {.delay_ns = 1000}};
    sroce_txrun_t run;
    sroce_qp_t *qp;
    net_t w;

    net_init(&w, &p);
    qp = w.side[0].qp[0];
    net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, 0, 1, 0, 8, 0);
    assert_true(sroce_qp_urgent(qp)); /* because nothing is in flight */
    assert_int_equal(sroce_qp_pull(qp, sroce_sim_now(w.sim), 65000, 64, &run),
                     1);
    net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, 0, 2, 0, 8, 0);
    assert_false(sroce_qp_urgent(qp));
    for (uint64_t i = 0; i < 15; ++i) {
        net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, 0, 3, 0, 8, 0);
    }
    assert_true(sroce_qp_urgent(qp));
    /* All 16 requests leave as one run of equal-sized packets. */
    assert_int_equal(sroce_qp_pull(qp, sroce_sim_now(w.sim), 65000, 64, &run),
                     16);
    assert_int_equal(run.seg_bytes * 16, run.length);
    assert_int_equal(run.iov_count, 1);
    net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, SIG, 4, 0, 4096, 0);
    assert_true(sroce_qp_urgent(qp));
    net_expect(&w, w.side[0].scq, 4, IBV_WC_SUCCESS);
    net_run_until_idle(&w);
    assert_false(sroce_qp_peek(qp, sroce_sim_now(w.sim), &(sroce_txinfo_t){0}));
    net_cleanup(&w);
}

/* The responses to the peer's long READ must alternate with requests of this
 * side. */
static void test_turns(void **state)
{
    net_params_t p = {.mtu = IBV_MTU_4096, .link = {.delay_ns = 1000}};
    unsigned responses = 0;
    sroce_txrun_t run;
    net_t w;

    net_init(&w, &p);
    net_send(&w, 1, 0, IBV_WR_RDMA_READ, SIG, 1, 0, 500000, 0);
    assert_true(sroce_sim_step(w.sim)); /* the request arrives */
    net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, SIG, 2, 0, 500000, 0);
    for (int i = 0; i < 8; ++i) {
        assert_true(sroce_qp_pull(w.side[0].qp[0], sroce_sim_now(w.sim), 20000,
                                  4, &run) > 0);
        responses += (run.scratch[0] >= SROCE_OP_READ_FIRST);
    }
    assert_int_equal(responses, 4);
    /* The test pulled packets that the simulation never saw. They count as lost
     * and are retransmitted. */
    net_expect(&w, w.side[0].scq, 2, IBV_WC_SUCCESS);
    net_expect(&w, w.side[1].scq, 1, IBV_WC_SUCCESS);
    net_run_until_idle(&w);
    net_cleanup(&w);
}

/* ---- SQD, source ports ---- */

static void test_sqd_moves_port(void **state)
{
    net_params_t p = {.flow_label = 0x4001,
                      .timeout = 14,
                      .link = {.delay_ns = 1000, .rate_Bps = 10000000}};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD,
                               .en_sqd_async_notify = 1};
    sroce_txrun_t run;
    sroce_qp_t *qp;
    net_t w;

    net_init(&w, &p);
    qp = w.side[0].qp[0];
    for (uint64_t i = 0; i < 4; ++i) {
        net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, SIG, i, 0, 200000, 0);
    }
    sroce_sim_run(w.sim, sroce_sim_now(w.sim) + 1 * MRAIL_NS_PER_MS);
    assert_int_equal(
        sroce_qp_modify(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
        0);
    sroce_qp_query(qp, &attr);
    assert_int_equal(attr.sq_draining, 1);
    net_run_until_idle(&w);
    assert_true(net_saw_event(&w, IBV_EVENT_SQ_DRAINED, &w.side[0]));
    sroce_qp_query(qp, &attr);
    assert_int_equal(attr.sq_draining, 0);
    assert_in_range(sroce_cq_pending(w.side[0].scq), 1, 3);
    /* In SQD, new work must wait. */
    assert_int_equal(net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, SIG, 4, 0, 8, 0), 0);
    net_run_until_idle(&w);
    assert_in_range(sroce_cq_pending(w.side[0].scq), 1, 3);
    attr = net_rtr_attr(&w, 0, 0);
    attr.ah_attr.grh.flow_label = 0x4321;
    assert_int_equal(sroce_qp_modify(qp, &attr, IBV_QP_AV), 0);
    net_qp_to(qp, IBV_QPS_RTS);
    assert_true(sroce_qp_pull(qp, sroce_sim_now(w.sim), 65000, 1, &run) == 1);
    assert_int_equal(run.sport, 0xc000 | (0x0321 ^ 1));
    for (uint64_t i = 0; i < 5; ++i) {
        net_expect(&w, w.side[0].scq, i, IBV_WC_SUCCESS);
    }
    net_run_until_idle(&w);
    net_cleanup(&w);
}

static void test_sport(void **state)
{
    sroce_av_t av = {.flow_label = 0x4001};

    assert_int_equal(sroce_av_sport(&av, 1, 2), 0xc000);
    av.flow_label = 0x3fff;
    assert_int_equal(sroce_av_sport(&av, 1, 2), 0xffff);
    av.flow_label = 0xfffff;
    assert_int_equal(sroce_av_sport(&av, 1, 2), 0xc000 | (0x3fff ^ 0x3f));
    av.flow_label = 0;
    for (uint32_t q = 2; q < 2000; ++q) {
        assert_true(sroce_av_sport(&av, q, 3 * q) >= 0xc000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opcodes),
        cmocka_unit_test(test_atomics),
        cmocka_unit_test(test_inline_and_sge),
        cmocka_unit_test(test_queues_overflow),
        cmocka_unit_test(test_cq_overrun),
        cmocka_unit_test(test_cq_notify),
        cmocka_unit_test(test_rnr_waits),
        cmocka_unit_test(test_rnr_retry_exceeded),
        cmocka_unit_test(test_rnr_forever),
        cmocka_unit_test(test_srq),
        cmocka_unit_test(test_srq_half_message),
        cmocka_unit_test(test_every_single_loss),
        cmocka_unit_test(test_urgent),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_sqd_moves_port),
        cmocka_unit_test(test_sport),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
