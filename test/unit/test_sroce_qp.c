/* Tests QP state transitions, attributes and limits, and edge cases of
 * CQs, SRQs and keys. */
#include "config.h"

#include "sroce_net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "softroce/core/core.h"

#define NUM_STATES 7 /* RESET .. ERR */

static const int all_masks[] = {IBV_QP_CUR_STATE,
                                IBV_QP_EN_SQD_ASYNC_NOTIFY,
                                IBV_QP_ACCESS_FLAGS,
                                IBV_QP_PKEY_INDEX,
                                IBV_QP_PORT,
                                IBV_QP_QKEY,
                                IBV_QP_AV,
                                IBV_QP_PATH_MTU,
                                IBV_QP_TIMEOUT,
                                IBV_QP_RETRY_CNT,
                                IBV_QP_RNR_RETRY,
                                IBV_QP_RQ_PSN,
                                IBV_QP_MAX_QP_RD_ATOMIC,
                                IBV_QP_ALT_PATH,
                                IBV_QP_MIN_RNR_TIMER,
                                IBV_QP_SQ_PSN,
                                IBV_QP_MAX_DEST_RD_ATOMIC,
                                IBV_QP_PATH_MIG_STATE,
                                IBV_QP_CAP,
                                IBV_QP_DEST_QPN};

/* A legal transition, with a required and an illegal attribute. */
typedef struct move {
    enum ibv_qp_state from;
    enum ibv_qp_state to;
    int need;
    int wrong;
} move_t;

/* Taken from ibv_modify_qp(3), independently of qp_moves.c. */
static const move_t rc_legal[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, IBV_QP_AV},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
     IBV_QP_SQ_PSN},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT |
         IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT,
     IBV_QP_AV},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_AV},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_AV},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_DEST_QPN},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_AV},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_AV},
};

static const move_t ud_legal[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
     IBV_QP_AV},
    {IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_RQ_PSN},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_TIMEOUT},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_SQ_PSN},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_AV},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_AV},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_AV},
    {IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_AV},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_AV},
};

static const move_t *find_move(enum ibv_qp_type type, enum ibv_qp_state from,
                               enum ibv_qp_state to)
{
    const move_t *table = (type == IBV_QPT_RC) ? rc_legal : ud_legal;
    unsigned n = (type == IBV_QPT_RC) ? MRAIL_ARRAY_SIZE(rc_legal)
                                      : MRAIL_ARRAY_SIZE(ud_legal);

    for (unsigned i = 0; i < n; ++i) {
        if ((table[i].from == from) && (table[i].to == to)) {
            return &table[i];
        }
    }
    return NULL;
}

static void check_legal(enum ibv_qp_type type, const move_t *m)
{
    int mask = IBV_QP_STATE | m->need;

    assert_int_equal(sroce_qp_move_check(type, m->from, m->to, mask), 0);
    assert_int_equal(
        sroce_qp_move_check(type, m->from, m->to, mask | IBV_QP_CUR_STATE),
        (m->to == IBV_QPS_RTS) ? 0 : EINVAL);
    assert_int_equal(sroce_qp_move_check(type, m->from, m->to, mask | m->wrong),
                     EINVAL);
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(all_masks); ++i) {
        if (m->need & all_masks[i]) {
            assert_int_equal(
                sroce_qp_move_check(type, m->from, m->to, mask & ~all_masks[i]),
                EINVAL);
        }
    }
}

static void check_every_move(enum ibv_qp_type type)
{
    for (int from = 0; from < NUM_STATES; ++from) {
        for (int to = 0; to < NUM_STATES; ++to) {
            const move_t *m =
                find_move(type, (enum ibv_qp_state)from, (enum ibv_qp_state)to);

            if (m != NULL) {
                check_legal(type, m);
                continue;
            }
            /* Transitions to RESET and ERR are always legal. Any other
             * transition that is not in the list is illegal, with any
             * attributes. */
            for (unsigned bits = 0; bits < 2000; ++bits) {
                int mask = IBV_QP_STATE | (int)(mrail_mix64(bits) & 0x1fffff);
                int ok = (to == IBV_QPS_RESET) || (to == IBV_QPS_ERR);

                ok = ok && (mask == IBV_QP_STATE);
                assert_int_equal(
                    sroce_qp_move_check(type, (enum ibv_qp_state)from,
                                        (enum ibv_qp_state)to, mask),
                    ok ? 0 : EINVAL);
            }
            assert_int_equal(
                sroce_qp_move_check(type, (enum ibv_qp_state)from,
                                    (enum ibv_qp_state)to, IBV_QP_STATE),
                ((to == IBV_QPS_RESET) || (to == IBV_QPS_ERR)) ? 0 : EINVAL);
        }
    }
}

static void test_every_move(void **state)
{
    check_every_move(IBV_QPT_RC);
    check_every_move(IBV_QPT_UD);
    assert_int_equal(sroce_qp_move_check(IBV_QPT_RC, IBV_QPS_RTS,
                                         IBV_QPS_UNKNOWN, IBV_QP_STATE),
                     EINVAL);
}

/* A rejected transition must change nothing. */
static void test_invalid_values(void **state)
{
    net_params_t p = {.num_qps = 1};
    struct ibv_qp_attr good, bad, now;
    sroce_qp_t *qp;
    net_t w;

    net_init(&w, &p);
    qp = net_qp_create(&w, 0);
    bad = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 2};
    assert_int_equal(sroce_qp_modify(qp, &bad, NET_RC_INIT), EINVAL);
    bad.port_num = 1;
    bad.pkey_index = 1;
    assert_int_equal(sroce_qp_modify(qp, &bad, NET_RC_INIT), EINVAL);
    bad.pkey_index = 0;
    assert_int_equal(sroce_qp_modify(qp, &bad, NET_RC_INIT), 0);
    good = net_rtr_attr(&w, 0, 5);
    bad = good;
    bad.path_mtu = (enum ibv_mtu)6;
    assert_int_equal(sroce_qp_modify(qp, &bad, NET_RC_RTR), EINVAL);
    bad = good;
    bad.dest_qp_num = 1 << 24;
    assert_int_equal(sroce_qp_modify(qp, &bad, NET_RC_RTR), EINVAL);
    bad = good;
    bad.ah_attr.grh.dgid.raw[10] = 0; /* not IPv4-mapped */
    assert_int_equal(sroce_qp_modify(qp, &bad, NET_RC_RTR), EINVAL);
    bad = good;
    bad.ah_attr.is_global = 0;
    assert_int_equal(sroce_qp_modify(qp, &bad, NET_RC_RTR), EINVAL);
    bad = good;
    bad.max_dest_rd_atomic = SROCE_MAX_RD_ATOMIC + 1;
    assert_int_equal(sroce_qp_modify(qp, &bad, NET_RC_RTR), EINVAL);
    sroce_qp_query(qp, &now);
    assert_int_equal(now.qp_state, IBV_QPS_INIT);
    assert_int_equal(now.dest_qp_num, 0);
    assert_int_equal(sroce_qp_modify(qp, &good, NET_RC_RTR), 0);
    sroce_qp_query(qp, &now);
    assert_int_equal(now.qp_state, IBV_QPS_RTR);
    assert_int_equal(now.dest_qp_num, 5);
    assert_int_equal(now.rq_psn, good.rq_psn);
    assert_int_equal(now.path_mtu, IBV_MTU_1024);
    sroce_sim_qp_destroy(w.sim, 0, qp);
    net_cleanup(&w);
}

static void test_posting_by_state(void **state)
{
    net_params_t p = {.num_qps = 1};
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *invalid_send;
    struct ibv_recv_wr rwr = {.wr_id = 4}, *invalid_recv;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    sroce_qp_t *qp;
    net_t w;

    net_init(&w, &p);
    qp = net_qp_create(&w, 0);
    assert_int_equal(sroce_qp_post_send(qp, &wr, &invalid_send), EINVAL);
    assert_ptr_equal(invalid_send, &wr);
    assert_int_equal(sroce_qp_post_recv(qp, &rwr, &invalid_recv), EINVAL);
    assert_int_equal(sroce_qp_modify(qp, &attr, NET_RC_INIT), 0);
    assert_int_equal(sroce_qp_post_recv(qp, &rwr, &invalid_recv), 0);
    assert_int_equal(sroce_qp_post_send(qp, &wr, &invalid_send), EINVAL);
    net_qp_to(qp, IBV_QPS_ERR);
    net_expect(&w, w.side[0].rcq, 4, IBV_WC_WR_FLUSH_ERR);
    /* In ERR, all work is accepted and flushed. */
    wr.wr_id = 9;
    assert_int_equal(sroce_qp_post_send(qp, &wr, &invalid_send), 0);
    assert_int_equal(sroce_qp_post_recv(qp, &rwr, &invalid_recv), 0);
    net_expect(&w, w.side[0].scq, 9, IBV_WC_WR_FLUSH_ERR);
    net_expect(&w, w.side[0].rcq, 4, IBV_WC_WR_FLUSH_ERR);
    sroce_sim_qp_destroy(w.sim, 0, qp);
    net_cleanup(&w);
}

static void test_invalid_requests(void **state)
{
    net_params_t p = {.num_qps = 1};
    struct ibv_sge sge[5] = {{0}};
    struct ibv_send_wr wr = {.sg_list = sge}, second = {.wr_id = 2}, *bad;
    net_t w;

    net_init(&w, &p);
    wr.opcode = IBV_WR_SEND_WITH_INV;
    assert_int_equal(sroce_qp_post_send(w.side[0].qp[0], &wr, &bad), EINVAL);
    wr.opcode = IBV_WR_SEND;
    wr.num_sge = 5;
    assert_int_equal(sroce_qp_post_send(w.side[0].qp[0], &wr, &bad), EINVAL);
    wr.num_sge = -1;
    assert_int_equal(sroce_qp_post_send(w.side[0].qp[0], &wr, &bad), EINVAL);
    wr.num_sge = 2;
    sge[0].length = SROCE_MAX_MSG;
    sge[1].length = 1;
    assert_int_equal(sroce_qp_post_send(w.side[0].qp[0], &wr, &bad), EINVAL);
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.num_sge = 1;
    sge[0].length = 7;
    assert_int_equal(sroce_qp_post_send(w.side[0].qp[0], &wr, &bad), EINVAL);
    /* The first request is posted, and the second one is returned in bad_wr. */
    wr.opcode = IBV_WR_SEND;
    wr.num_sge = 0;
    wr.next = &second;
    second.opcode = (enum ibv_wr_opcode)77;
    assert_int_equal(sroce_qp_post_send(w.side[0].qp[0], &wr, &bad), EINVAL);
    assert_ptr_equal(bad, &second);
    net_qp_to(w.side[0].qp[0], IBV_QPS_ERR);
    net_expect(&w, w.side[0].scq, 0, IBV_WC_WR_FLUSH_ERR);
    net_cleanup(&w);
}

static void test_limits(void **state)
{
    sroce_dev_params_t dp = {
        .max_mtu = IBV_MTU_1024, .qpn_base = 16, .qpn_count = 2};
    sroce_qp_params_t qpp = {.type = IBV_QPT_RC};
    struct ibv_srq_attr sa = {.max_wr = 0};
    sroce_qp_t *qp[3];
    sroce_pd_t *pd;
    sroce_cq_t *cq;
    sroce_srq_t *srq;
    sroce_sim_t *sim = sroce_sim_create(1);
    sroce_dev_t *dev;

    assert_int_equal(sroce_sim_node_add(sim, dp), 0);
    dev = sroce_sim_dev(sim, 0);
    assert_int_equal(sroce_pd_create(dev, &pd), 0);
    assert_int_equal(sroce_cq_create(dev, 0, NULL, &cq), EINVAL);
    assert_int_equal(sroce_cq_create(dev, SROCE_MAX_CQE + 1, NULL, &cq),
                     EINVAL);
    assert_int_equal(sroce_cq_create(dev, 3, NULL, &cq), 0);
    assert_true(sroce_cq_depth(cq) >= 3);
    assert_int_equal(sroce_srq_create(pd, &sa, NULL, &srq), EINVAL);
    assert_int_equal(sroce_qp_create(pd, &qpp, &qp[0]), EINVAL);
    qpp.send_cq = qpp.recv_cq = cq;
    qpp.type = IBV_QPT_UC;
    assert_int_equal(sroce_qp_create(pd, &qpp, &qp[0]), EOPNOTSUPP);
    qpp.type = IBV_QPT_RC;
    qpp.cap.max_send_wr = SROCE_MAX_WR + 1;
    assert_int_equal(sroce_qp_create(pd, &qpp, &qp[0]), EINVAL);
    qpp.cap.max_send_wr = 1;
    qpp.cap.max_inline_data = SROCE_MAX_INLINE + 1;
    assert_int_equal(sroce_qp_create(pd, &qpp, &qp[0]), EINVAL);
    qpp.cap.max_inline_data = 0;
    assert_int_equal(sroce_qp_create(pd, &qpp, &qp[0]), 0);
    assert_int_equal(sroce_qp_create(pd, &qpp, &qp[1]), 0);
    assert_int_equal(sroce_qp_create(pd, &qpp, &qp[2]), ENOMEM);
    assert_ptr_equal(sroce_dev_qp(dev, 16), qp[0]);
    assert_null(sroce_dev_qp(dev, 18));
    assert_null(sroce_dev_qp(dev, 15));
    assert_int_equal(sroce_cq_destroy(cq), EBUSY);
    assert_int_equal(sroce_pd_destroy(pd), EBUSY);
    sroce_qp_destroy(qp[0]);
    sroce_qp_destroy(qp[1]);
    assert_int_equal(sroce_cq_destroy(cq), 0);
    assert_int_equal(sroce_pd_destroy(pd), 0);
    sroce_sim_destroy(sim);
}

static void test_keys(void **state)
{
    net_params_t p = {.num_qps = 1};
    sroce_mr_t *mr;
    net_side_t *s;
    net_t w;
    int rw = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

    net_init(&w, &p);
    s = &w.side[0];
    assert_int_equal(
        sroce_mr_create(s->pd, s->mem, 100, 0, IBV_ACCESS_REMOTE_WRITE, &mr),
        EINVAL);
    assert_int_equal(
        sroce_mr_create(s->pd, s->mem, 100, UINT64_MAX - 50, rw, &mr), EINVAL);
    assert_int_equal(sroce_mr_create(s->pd, s->mem + 10, 100, 0x1000, rw, &mr),
                     0);
    assert_ptr_equal(sroce_mr_find(s->dev, s->pd, mr->key, 0x1000, 100, rw),
                     s->mem + 10);
    assert_ptr_equal(sroce_mr_find(s->dev, s->pd, mr->key, 0x1063, 1, rw),
                     s->mem + 10 + 0x63);
    assert_null(sroce_mr_find(s->dev, s->pd, mr->key, 0x1000, 101, rw));
    assert_null(sroce_mr_find(s->dev, s->pd, mr->key, 0xfff, 1, rw));
    assert_null(sroce_mr_find(s->dev, s->pd, mr->key, 0x1064, 1, rw));
    assert_null(sroce_mr_find(s->dev, s->pd, mr->key, 0x1001, UINT64_MAX, rw));
    assert_null(sroce_mr_find(s->dev, s->pd, mr->key, 0x1000, 1,
                              IBV_ACCESS_REMOTE_READ));
    assert_null(sroce_mr_find(s->dev, s->pd, mr->key + 256, 0x1000, 1, rw));
    assert_null(sroce_mr_find(s->dev, s->pd, UINT32_MAX, 0x1000, 1, rw));
    assert_null(sroce_mr_find(s->dev, NULL, mr->key, 0x1000, 1, rw));
    assert_int_equal(sroce_mr_destroy(mr), 0);
    net_cleanup(&w);
}

/* With a secret, a key must not reveal any other key. Otherwise, keys must
 * behave as they do without a secret: they work, their number grows, and they
 * are reused late. */
static void test_secret_keys(void **state)
{
    sroce_dev_params_t dp = {.max_mtu = IBV_MTU_1024, .qpn_count = 4};
    sroce_sim_t *sim = sroce_sim_create(1);
    static uint8_t mem[100];
    uint32_t key[2][200];
    sroce_mr_t *mr[200];
    sroce_pd_t *pd;

    for (unsigned node = 0; node < 2; ++node) {
        sroce_dev_t *dev;

        dp.key_secret = mrail_mix64(node + 1);
        assert_int_equal(sroce_sim_node_add(sim, dp), node);
        dev = sroce_sim_dev(sim, node);
        assert_int_equal(sroce_pd_create(dev, &pd), 0);
        for (unsigned i = 0; i < 200; ++i) {
            assert_int_equal(sroce_mr_create(pd, mem, 100, 0, 0, &mr[i]), 0);
            key[node][i] = sroce_mr_key(mr[i]);
            assert_ptr_equal(sroce_mr_find(dev, pd, key[node][i], 0, 100, 0),
                             mem);
            assert_true((node == 0) || (key[0][i] != key[1][i]));
            /* The key must not be the successor of a known key. */
            assert_true((i < 3) ||
                        (key[node][i] - key[node][i - 1] !=
                         key[node][i - 1] - key[node][i - 2]) ||
                        (key[node][i] - key[node][i - 1] !=
                         key[node][i - 2] - key[node][i - 3]));
        }
        for (unsigned i = 0; i < 200; ++i) {
            assert_int_equal(sroce_mr_destroy(mr[i]), 0);
            assert_null(sroce_mr_find(dev, pd, key[node][i], 0, 1, 0));
        }
        assert_int_equal(sroce_pd_destroy(pd), 0);
    }
    sroce_sim_destroy(sim);
}

/* A resize must keep pending completions. A QP that is destroyed must leave
 * none in its CQs. */
static void test_cq_contents(void **state)
{
    net_params_t p = {.num_qps = 2, .cqe = 16, .link = {.delay_ns = 1000}};
    sroce_cq_t *cq;
    struct ibv_wc wc;
    net_t w;

    net_init(&w, &p);
    cq = w.side[0].scq;
    for (uint64_t i = 0; i < 8; ++i) {
        net_send(&w, 0, i & 1, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, i, 0, 8,
                 0);
        net_run_until_idle(&w);
    }
    assert_int_equal(sroce_cq_poll(cq, 1, &wc), 1);
    assert_int_equal(wc.wr_id, 0);
    assert_int_equal(sroce_cq_resize(cq, 6), EINVAL);
    assert_int_equal(sroce_cq_resize(cq, 64), 0);
    assert_int_equal(sroce_cq_pending(cq), 7);
    sroce_sim_qp_destroy(w.sim, 0, w.side[0].qp[0]);
    w.side[0].qp[0] = NULL;
    for (uint64_t i = 1; i < 8; i += 2) {
        net_expect(&w, cq, i, IBV_WC_SUCCESS);
    }
    assert_int_equal(sroce_cq_pending(cq), 0);
    net_cleanup(&w);
}

static void test_srq_resize(void **state)
{
    net_params_t p = {
        .num_qps = 1, .use_srq = 1, .max_wr = 8, .link = {.delay_ns = 1000}};
    struct ibv_srq_attr attr = {.max_wr = 4};
    net_t w;

    net_init(&w, &p);
    for (uint64_t i = 0; i < 8; ++i) {
        assert_int_equal(net_recv(&w, 1, 0, i, 0, 64), 0);
    }
    assert_int_equal(net_recv(&w, 1, 0, 8, 0, 64), ENOMEM);
    assert_int_equal(sroce_srq_modify(w.side[1].srq, &attr, IBV_SRQ_MAX_WR),
                     EINVAL);
    attr.max_wr = 100;
    assert_int_equal(sroce_srq_modify(w.side[1].srq, &attr, IBV_SRQ_MAX_WR), 0);
    assert_int_equal(net_recv(&w, 1, 0, 8, 0, 64), 0);
    for (uint64_t i = 0; i < 9; ++i) {
        net_send(&w, 0, 0, IBV_WR_SEND, 0, i, 0, 8, 0);
        net_expect(&w, w.side[1].rcq, i, IBV_WC_SUCCESS);
    }
    attr.srq_limit = 101;
    assert_int_equal(sroce_srq_modify(w.side[1].srq, &attr, IBV_SRQ_LIMIT),
                     EINVAL);
    net_cleanup(&w);
}

/* Compares the heap with a list while setting, lowering and deleting keys in
 * random order. */
static void test_timer_heap(void **state)
{
    enum { NUM = 300 };
    static sroce_qp_t qps[NUM];
    sroce_dev_t dev = {.num_timers = 0};
    mrail_ns_t want[NUM];
    mrail_rng_t rng;

    mrail_rng_init(&rng, 11);
    assert_int_equal(sroce_timer_reserve(&dev, NUM), 0);
    for (unsigned i = 0; i < NUM; ++i) {
        qps[i].dev = &dev;
        want[i] = MRAIL_NS_NEVER;
    }
    for (unsigned n = 0; n < 20000; ++n) {
        unsigned i = mrail_rng_below(&rng, NUM);
        mrail_ns_t ns = 1 + mrail_rng_below(&rng, 1000000);
        mrail_ns_t least = MRAIL_NS_NEVER;

        if (mrail_rng_below(&rng, 3) == 0) {
            sroce_timer_del(&qps[i]);
            want[i] = MRAIL_NS_NEVER;
        } else {
            /* A later deadline takes effect only when the earlier key
             * expires. */
            sroce_timer_set(&qps[i], ns);
            want[i] = MRAIL_MIN(want[i], ns);
        }
        for (unsigned k = 0; k < NUM; ++k) {
            least = MRAIL_MIN(least, want[k]);
        }
        assert_true(sroce_dev_deadline(&dev) == least);
    }
    free(dev.timers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_move),
        cmocka_unit_test(test_invalid_values),
        cmocka_unit_test(test_posting_by_state),
        cmocka_unit_test(test_invalid_requests),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_secret_keys),
        cmocka_unit_test(test_cq_contents),
        cmocka_unit_test(test_srq_resize),
        cmocka_unit_test(test_timer_heap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
