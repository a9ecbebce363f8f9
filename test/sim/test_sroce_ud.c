/* Tests UD in virtual time, one behaviour per test. */
#include "config.h"

#include "sroce_net.h"

#include <errno.h>
#include <string.h>

#define SIG IBV_SEND_SIGNALED

static const sroce_counters_t *cnt(const net_t *w, int side)
{
    return sroce_dev_counters(w->side[side].dev);
}

static void ud_ah(const net_t *w, int to, sroce_ah_t *ah)
{
    struct ibv_qp_attr attr = net_rtr_attr(w, !to, 0);

    attr.ah_attr.grh.traffic_class = 0x68;
    assert_int_equal(sroce_av_init(&ah->av, &attr.ah_attr), 0);
}

static int ud_send(net_t *w, const sroce_ah_t *ah, uint32_t qkey,
                   uint32_t length)
{
    net_side_t *a = &w->side[0];
    struct ibv_sge sge = {(uintptr_t)a->mem, length, a->key};
    struct ibv_send_wr wr = {.wr_id = length,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND_WITH_IMM,
                             .imm_data = 99,
                             .send_flags = SIG};
    struct ibv_send_wr *bad;

    wr.wr.ud.ah = (struct ibv_ah *)(uintptr_t)&ah->ibv;
    wr.wr.ud.remote_qpn = sroce_qp_num(w->side[1].qp[0]);
    wr.wr.ud.remote_qkey = qkey;
    return sroce_qp_post_send(a->qp[0], &wr, &bad);
}

static void test_ud(void **state)
{
    net_params_t p = {.type = IBV_QPT_UD, .link = {.delay_ns = 1000}};
    uint32_t src_ip, dst_ip;
    sroce_ah_t ah = {.av = {0}};
    struct ibv_wc wc;
    net_side_t *b;
    net_t w;

    net_init(&w, &p);
    b = &w.side[1];
    ud_ah(&w, 1, &ah);
    net_fill(w.side[0].mem, 7, 4096);
    for (uint32_t length = 0; length <= 4096; length += 1365) {
        net_recv(&w, 1, 0, 5, 0, 4096 + 40);
        assert_int_equal(ud_send(&w, &ah, NET_QKEY, length), 0);
        net_expect(&w, w.side[0].scq, length, IBV_WC_SUCCESS);
        wc = net_wait(&w, b->rcq);
        assert_int_equal(wc.byte_len, length + 40);
        assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
        assert_int_equal(wc.imm_data, 99);
        assert_int_equal(wc.sl, 2);
        assert_int_equal(wc.src_qp, sroce_qp_num(w.side[0].qp[0]));
        assert_int_equal(net_match(b->mem + 40, 7, length), length);
        assert_int_equal(b->mem[20], 0x45);
        assert_int_equal(b->mem[21], 0x68);
        src_ip = sroce_sim_ip(w.sim, 0);
        dst_ip = sroce_sim_ip(w.sim, 1);
        assert_memory_equal(b->mem + 32, &src_ip, 4);
        assert_memory_equal(b->mem + 36, &dst_ip, 4);
    }
    assert_int_equal(ud_send(&w, &ah, NET_QKEY, 4097), EINVAL);
    /* Datagrams without a receive, with a wrong Q_Key, or too long must be
     * dropped and counted. */
    ud_send(&w, &ah, NET_QKEY, 8);
    net_run_until_idle(&w);
    assert_int_equal(cnt(&w, 1)->drop_no_wqe, 1);
    net_recv(&w, 1, 0, 6, 0, 40 + 8);
    ud_send(&w, &ah, NET_QKEY + 1, 8);
    ud_send(&w, &ah, NET_QKEY, 9);
    net_run_until_idle(&w);
    assert_int_equal(cnt(&w, 1)->drop_qkey, 1);
    assert_int_equal(cnt(&w, 1)->drop_too_long, 1);
    ud_send(&w, &ah, NET_QKEY, 8);
    net_expect(&w, b->rcq, 6, IBV_WC_SUCCESS);
    net_cleanup(&w);
}

static void test_ud_sq_error(void **state)
{
    net_params_t p = {.type = IBV_QPT_UD, .link = {.delay_ns = 1000}};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                               .cur_qp_state = IBV_QPS_SQE};
    sroce_ah_t ah = {.av = {0}};
    net_t w;

    net_init(&w, &p);
    ud_ah(&w, 1, &ah);
    assert_int_equal(sroce_mr_destroy(w.side[0].mr), 0);
    ud_send(&w, &ah, NET_QKEY, 8);
    net_expect(&w, w.side[0].scq, 8, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(sroce_qp_state(w.side[0].qp[0]), IBV_QPS_SQE);
    ud_send(&w, &ah, NET_QKEY, 9);
    net_expect(&w, w.side[0].scq, 9, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(sroce_qp_modify(w.side[0].qp[0], &attr,
                                     IBV_QP_STATE | IBV_QP_CUR_STATE),
                     0);
    assert_int_equal(sroce_mr_create(w.side[0].pd, w.side[0].mem, 1 << 20,
                                     (uintptr_t)w.side[0].mem, 0,
                                     &w.side[0].mr),
                     0);
    net_cleanup(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ud),
        cmocka_unit_test(test_ud_sq_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
