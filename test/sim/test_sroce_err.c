/* Tests failing requests and dropped packets, in virtual time. */
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

/* ---- Errors ---- */

static void test_retry_exceeded(void **state)
{
    /* Timeout 10 is 4.194304 ms. It applies to each of five attempts. */
    net_params_t p = {
        .timeout = 10, .retry_cnt = 4, .link = {.delay_ns = 1000}};
    mrail_ns_t start, t = 4194304;
    net_t w;

    net_init(&w, &p);
    sroce_sim_port_set(w.sim, 1, 0);
    start = sroce_sim_now(w.sim);
    net_send(&w, 0, 0, IBV_WR_SEND, 0, 1, 0, 100, 0);
    net_send(&w, 0, 0, IBV_WR_RDMA_READ, 0, 2, 0, 100, 0);
    net_recv(&w, 0, 0, 3, 0, 100);
    net_expect(&w, w.side[0].scq, 1, IBV_WC_RETRY_EXC_ERR);
    assert_in_range(sroce_sim_now(w.sim) - start, 5 * t, 5 * t + 100000);
    net_expect(&w, w.side[0].scq, 2, IBV_WC_WR_FLUSH_ERR);
    net_expect(&w, w.side[0].rcq, 3, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(cnt(&w, 0)->timeouts, 5);
    net_run_until_idle(&w);
    net_cleanup(&w);
}

/* While the owner of a device is paused, its QPs must not use up retries. */
static void test_late_timers(void **state)
{
    net_params_t p = {.timeout = 10,
                      .retry_cnt = 255,
                      .probe_ns = MRAIL_NS_NEVER,
                      .link = {.delay_ns = 1000}};
    sroce_txrun_t run;
    mrail_ns_t now;
    net_t w;

    net_init(&w, &p);
    now = sroce_sim_now(w.sim);
    net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, SIG, 1, 0, 100, 0);
    assert_int_equal(sroce_qp_pull(w.side[0].qp[0], now, 65000, 1, &run), 1);
    for (int i = 0; i < 3; ++i) {
        now += 200 * MRAIL_NS_PER_MS;
        assert_true(sroce_dev_timers(w.side[0].dev, now) > now);
        assert_int_equal(sroce_cq_pending(w.side[0].scq), 0);
    }
    now += 200 * MRAIL_NS_PER_MS;
    sroce_dev_timers(w.side[0].dev, now);
    net_expect(&w, w.side[0].scq, 1, IBV_WC_RETRY_EXC_ERR);
    net_cleanup(&w);
}

static void test_port_back_in_time(void **state)
{
    net_params_t p = {.timeout = 10, .link = {.delay_ns = 1000}};
    net_t w;

    net_init(&w, &p);
    net_fill(w.side[0].mem, 1, 100000);
    sroce_sim_port_set(w.sim, 1, 0);
    net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, SIG, 1, 0, 100000, 0);
    sroce_sim_run(w.sim, sroce_sim_now(w.sim) + 20 * MRAIL_NS_PER_MS);
    sroce_sim_port_set(w.sim, 1, 1);
    net_expect(&w, w.side[0].scq, 1, IBV_WC_SUCCESS);
    assert_int_equal(net_match(w.side[1].mem, 1, 100000), 100000);
    net_run_until_idle(&w);
    net_cleanup(&w);
}

typedef struct remote_error {
    enum ibv_wr_opcode opcode;
    int32_t addr_shift; /* offset added to the remote address */
    uint32_t key_xor;
    uint32_t length;
    uint32_t recv_length; /* 0: no receive */
    enum ibv_wc_status status;
    enum ibv_wc_status recv_status; /* SUCCESS: no receive completes */
    enum ibv_event_type event;
} remote_error_t;

static void check_remote_error(const remote_error_t *e)
{
    net_params_t p = {.link = {.delay_ns = 1000}};
    struct ibv_send_wr wr = {.wr_id = 1, .num_sge = 1, .opcode = e->opcode};
    struct ibv_send_wr *bad;
    struct ibv_sge sge;
    net_side_t *a, *b;
    net_t w;

    net_init(&w, &p);
    a = &w.side[0];
    b = &w.side[1];
    sge = (struct ibv_sge){(uintptr_t)a->mem, e->length, a->key};
    wr.sg_list = &sge;
    wr.wr.rdma.remote_addr = (uintptr_t)b->mem + (uint64_t)e->addr_shift;
    wr.wr.rdma.rkey = b->key ^ e->key_xor;
    memset(a->mem, 0x5a, e->length);
    if (e->recv_length != 0) {
        net_recv(&w, 1, 0, 9, 0, e->recv_length);
        net_recv(&w, 1, 0, 10, 0, e->recv_length);
    }
    assert_int_equal(sroce_qp_post_send(a->qp[0], &wr, &bad), 0);
    net_send(&w, 0, 0, IBV_WR_SEND, 0, 2, 0, 8, 0);
    net_expect(&w, a->scq, 1, e->status);
    net_expect(&w, a->scq, 2, IBV_WC_WR_FLUSH_ERR);
    if (e->recv_status != IBV_WC_SUCCESS) {
        net_expect(&w, b->rcq, 9, e->recv_status);
        net_expect(&w, b->rcq, 10, IBV_WC_WR_FLUSH_ERR);
    }
    assert_int_equal(sroce_qp_state(b->qp[0]), IBV_QPS_ERR);
    /* An event must report the error if no completion of this side does. */
    assert_int_equal(net_saw_event(&w, e->event, b) != 0,
                     e->recv_status == IBV_WC_SUCCESS);
    net_run_until_idle(&w);
    net_cleanup(&w);
}

static void test_remote_errors(void **state)
{
    static const remote_error_t errors[] = {
        {IBV_WR_RDMA_WRITE, 0, 0x100, 100, 0, IBV_WC_REM_ACCESS_ERR,
         IBV_WC_SUCCESS, IBV_EVENT_QP_ACCESS_ERR},
        {IBV_WR_RDMA_WRITE, 0, 1, 100, 0, IBV_WC_REM_ACCESS_ERR, IBV_WC_SUCCESS,
         IBV_EVENT_QP_ACCESS_ERR},
        {IBV_WR_RDMA_WRITE, -1, 0, 100, 0, IBV_WC_REM_ACCESS_ERR,
         IBV_WC_SUCCESS, IBV_EVENT_QP_ACCESS_ERR},
        {IBV_WR_RDMA_WRITE, (1 << 20) - 5000, 0, 5001, 0, IBV_WC_REM_ACCESS_ERR,
         IBV_WC_SUCCESS, IBV_EVENT_QP_ACCESS_ERR},
        {IBV_WR_RDMA_READ, (1 << 20) - 5000, 0, 5001, 0, IBV_WC_REM_ACCESS_ERR,
         IBV_WC_SUCCESS, IBV_EVENT_QP_ACCESS_ERR},
        {IBV_WR_SEND, 0, 0, 5000, 4999, IBV_WC_REM_INV_REQ_ERR,
         IBV_WC_LOC_LEN_ERR, IBV_EVENT_QP_REQ_ERR},
        {IBV_WR_SEND, 0, 0, 50, 49, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR,
         IBV_EVENT_QP_REQ_ERR},
    };

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(errors); ++i) {
        check_remote_error(&errors[i]);
    }
}

/* A receive in unregistered memory must cause a remote operation error. */
static void test_recv_protection(void **state)
{
    net_params_t p = {.link = {.delay_ns = 1000}};
    net_t w;

    net_init(&w, &p);
    net_recv(&w, 1, 0, 9, (1 << 20) - 100, 200);
    net_send(&w, 0, 0, IBV_WR_SEND, 0, 1, 0, 200, 0);
    net_expect(&w, w.side[0].scq, 1, IBV_WC_REM_OP_ERR);
    net_expect(&w, w.side[1].rcq, 9, IBV_WC_LOC_PROT_ERR);
    net_cleanup(&w);
}

/* A request with an invalid lkey must fail, but only after all earlier work. */
static void test_local_protection(void **state)
{
    net_params_t p = {.link = {.delay_ns = 1000}};
    net_t w;

    net_init(&w, &p);
    net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, SIG, 1, 0, 5000, 0);
    net_send(&w, 0, 0, IBV_WR_RDMA_READ, SIG, 2, 5000, 5000, 0);
    net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, 0, 3, (1 << 20) - 8, 9, 0);
    net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, 0, 4, 0, 8, 0);
    net_expect(&w, w.side[0].scq, 1, IBV_WC_SUCCESS);
    net_expect(&w, w.side[0].scq, 2, IBV_WC_SUCCESS);
    net_expect(&w, w.side[0].scq, 3, IBV_WC_LOC_PROT_ERR);
    net_expect(&w, w.side[0].scq, 4, IBV_WC_WR_FLUSH_ERR);
    net_run_until_idle(&w);
    net_cleanup(&w);
}

/* Keys of destroyed regions must be rejected, and must not be reused soon. */
static void test_stale_key(void **state)
{
    net_params_t p = {.link = {.delay_ns = 1000}};
    net_side_t *b;
    uint32_t old;
    net_t w;

    net_init(&w, &p);
    b = &w.side[1];
    old = b->key;
    for (int i = 0; i < 200; ++i) {
        assert_int_equal(sroce_mr_destroy(b->mr), 0);
        assert_int_equal(
            sroce_mr_create(b->pd, b->mem, 1 << 20, (uintptr_t)b->mem,
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
                            &b->mr),
            0);
        assert_int_not_equal(sroce_mr_key(b->mr), old);
    }
    net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, 0, 1, 0, 8, 0);
    net_expect(&w, w.side[0].scq, 1, IBV_WC_REM_ACCESS_ERR);
    net_cleanup(&w);
}

/* ---- Invalid packets ---- */

static void put_packet(uint8_t *p, uint8_t opcode, uint32_t qpn, uint32_t psn)
{
    memset(p, 0, 64);
    sroce_bth_put(p, opcode, 0, 0, qpn, 1, psn);
}

static void test_drops_are_counted(void **state)
{
    net_params_t p = {.psn = {100, 200}, .link = {.delay_ns = 1000}};
    uint32_t ip, qpn;
    uint8_t pkt[64];
    net_t w;

    net_init(&w, &p);
    ip = sroce_sim_ip(w.sim, 0);
    qpn = sroce_qp_num(w.side[1].qp[0]);
    put_packet(pkt, SROCE_OP_SEND_ONLY, qpn, 100);
    sroce_sim_inject(w.sim, 1, ip, 0xc000, pkt, 15);
    net_run_until_idle(&w);
    assert_int_equal(cnt(&w, 1)->drop_length, 1);
    sroce_sim_inject(w.sim, 1, ip + 1, 0xc000, pkt, 16);
    net_run_until_idle(&w);
    assert_int_equal(cnt(&w, 1)->drop_source, 1);
    put_packet(pkt, 0x3f, qpn, 100);
    sroce_sim_inject(w.sim, 1, ip, 0xc000, pkt, 16);
    put_packet(pkt, SROCE_OP_UD_SEND, qpn, 100);
    sroce_sim_inject(w.sim, 1, ip, 0xc000, pkt, 24);
    net_run_until_idle(&w);
    assert_int_equal(cnt(&w, 1)->drop_opcode, 2);
    put_packet(pkt, SROCE_OP_SEND_ONLY, qpn + 1, 100);
    sroce_sim_inject(w.sim, 1, ip, 0xc000, pkt, 16);
    net_run_until_idle(&w);
    assert_int_equal(cnt(&w, 1)->drop_qpn, 1);
    put_packet(pkt, SROCE_OP_SEND_ONLY, qpn, 100);
    pkt[1] |= 1; /* transport version */
    sroce_sim_inject(w.sim, 1, ip, 0xc000, pkt, 16);
    net_run_until_idle(&w);
    assert_int_equal(cnt(&w, 1)->drop_header, 1);
    put_packet(pkt, SROCE_OP_WRITE_ONLY, qpn, 100);
    sroce_sim_inject(w.sim, 1, ip, 0xc000, pkt, 31);
    net_run_until_idle(&w);
    assert_int_equal(cnt(&w, 1)->drop_length, 2);
    put_packet(pkt, SROCE_OP_ACK, qpn, 777);
    pkt[12] = SROCE_SYN_ACK;
    sroce_sim_inject(w.sim, 1, ip, 0xc000, pkt, 20);
    net_run_until_idle(&w);
    assert_int_equal(cnt(&w, 1)->drop_psn, 1);
    assert_int_equal(sroce_qp_state(w.side[1].qp[0]), IBV_QPS_RTS);
    net_cleanup(&w);
}

static void test_icrc_refused(void **state)
{
    net_params_t p = {.icrc = 1,
                      .timeout = 10,
                      .link = {.delay_ns = 1000, .corrupt_ppm = 200000}};
    net_t w;

    net_init(&w, &p);
    net_fill(w.side[0].mem, 3, 200000);
    net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, SIG, 1, 0, 200000, 0);
    net_expect(&w, w.side[0].scq, 1, IBV_WC_SUCCESS);
    assert_int_equal(net_match(w.side[1].mem, 3, 200000), 200000);
    assert_true(cnt(&w, 1)->drop_icrc > 10);
    net_run_until_idle(&w);
    net_cleanup(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_retry_exceeded),
        cmocka_unit_test(test_late_timers),
        cmocka_unit_test(test_port_back_in_time),
        cmocka_unit_test(test_remote_errors),
        cmocka_unit_test(test_recv_protection),
        cmocka_unit_test(test_local_protection),
        cmocka_unit_test(test_stale_key),
        cmocka_unit_test(test_drops_are_counted),
        cmocka_unit_test(test_icrc_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
