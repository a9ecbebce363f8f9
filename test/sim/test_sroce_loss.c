/* Tests goodput and fairness under loss, in virtual time. */
#include "config.h"

#include "sroce_net.h"

#include <stdio.h>

#define MSG 65536u

/* Returns the goodput of back-to-back messages in bytes per virtual second. */
static double goodput(const net_params_t *p, enum ibv_wr_opcode opcode,
                      unsigned messages)
{
    unsigned posted = 0, done = 0;
    mrail_ns_t start;
    double seconds;
    net_t w;

    net_init(&w, p);
    start = sroce_sim_now(w.sim);
    while (done < messages) {
        struct ibv_wc wc;

        while ((posted < messages) && (posted - done < 16)) {
            assert_int_equal(net_send(&w, 0, 0, opcode, IBV_SEND_SIGNALED,
                                      posted++, 0, MSG, 0),
                             0);
        }
        wc = net_wait(&w, w.side[0].scq);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, done);
        ++done;
    }
    seconds = (double)(sroce_sim_now(w.sim) - start) / MRAIL_NS_PER_SEC;
    net_run_until_idle(&w);
    net_cleanup(&w);
    return (double)messages * MSG / seconds;
}

static net_params_t lossy(uint32_t loss_ppm)
{
    /* A software rail has 3 GB/s, 30 us per direction, and the usual timeout of
     * 67 ms. */
    net_params_t p = {.seed = 5,
                      .mtu = IBV_MTU_4096,
                      .timeout = 14,
                      .link = {.delay_ns = 30000,
                               .rate_Bps = 3000000000,
                               .loss_ppm = loss_ppm}};

    return p;
}

static void check_goodput(enum ibv_wr_opcode opcode, uint32_t loss_ppm,
                          double at_least)
{
    net_params_t p = lossy(loss_ppm);
    double got = goodput(&p, opcode, 2000);

    print_message("opcode %d, loss %u ppm: %.0f MB/s\n", opcode, loss_ppm,
                  got / 1e6);
    assert_true(got >= at_least);
}

static void test_write_goodput(void **state)
{
    check_goodput(IBV_WR_RDMA_WRITE, 0, 2.8e9);
    check_goodput(IBV_WR_RDMA_WRITE, 1000, 600e6);
    check_goodput(IBV_WR_RDMA_WRITE, 10000, 100e6);
}

static void test_read_goodput(void **state)
{
    check_goodput(IBV_WR_RDMA_READ, 0, 2e9);
    check_goodput(IBV_WR_RDMA_READ, 10000, 100e6);
}

/* If the last packet of a message is lost, a probe must repair the loss long
 * before the local ACK timeout. */
static void test_probe_saves_the_timeout(void **state)
{
    net_params_t p = lossy(10000);
    mrail_ns_t start, worst = 0;
    net_t w;

    net_init(&w, &p);
    for (unsigned i = 0; i < 3000; ++i) {
        start = sroce_sim_now(w.sim);
        net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, i, 0, 8, 0);
        net_expect(&w, w.side[0].scq, i, IBV_WC_SUCCESS);
        worst = MRAIL_MAX(worst, sroce_sim_now(w.sim) - start);
    }
    print_message("worst latency of one packet at 1 %% loss: %.1f ms\n",
                  (double)worst / 1e6);
    assert_true(worst < 20 * MRAIL_NS_PER_MS);
    net_run_until_idle(&w);
    net_cleanup(&w);
}

/* A message has so many packets that the PSNs wrap. Some of the packets are
 * lost. */
static void test_large_messages(void **state)
{
    const uint32_t length = 12u << 20;
    net_params_t p = lossy(200);
    net_side_t *a, *b;
    net_t w;

    p.mtu = IBV_MTU_256;
    p.mem_bytes = 2u * length;
    p.psn[0] = 0xffff00;
    net_init(&w, &p);
    a = &w.side[0];
    b = &w.side[1];
    net_fill(a->mem, 1, length);
    net_fill(b->mem + length, 2, length);
    net_send(&w, 0, 0, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 1, 0, length, 0);
    net_send(&w, 0, 0, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 2, length, length,
             length);
    net_expect(&w, a->scq, 1, IBV_WC_SUCCESS);
    net_expect(&w, a->scq, 2, IBV_WC_SUCCESS);
    assert_int_equal(net_match(b->mem, 1, length), length);
    assert_int_equal(net_match(a->mem + length, 2, length), length);
    net_run_until_idle(&w);
    net_cleanup(&w);
}

/* Drops the third packet of node 1, once. */
static int drop_third(void *arg, unsigned from, unsigned to, uint8_t *data,
                      uint32_t length)
{
    unsigned *count = arg;

    (void)to;
    (void)data;
    (void)length;
    return (from == 1) && (++*count == 3);
}

/* A responder may process requests strictly in order, as rdma_rxe does. It then
 * sends all of a READ before it processes the request for the lost part.
 * Timeouts must not expire while responses arrive. */
static void test_read_lost_early(void **state)
{
    net_params_t p = {.link = {.delay_ns = 1000}};
    /* takes 0.4 s, longer than eight timeouts */
    const uint32_t length = 400000;
    unsigned count = 0;
    net_t w;

    net_init(&w, &p);
    sroce_sim_link(w.sim, 1, 0)->rate_Bps = 1000000;
    sroce_sim_filter(w.sim, drop_third, &count);
    net_fill(w.side[1].mem, 5, length);
    net_send(&w, 0, 0, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 1, 0, length, 0);
    net_expect(&w, w.side[0].scq, 1, IBV_WC_SUCCESS);
    assert_int_equal(net_match(w.side[0].mem, 5, length), length);
    net_run_until_idle(&w);
    net_cleanup(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_write_goodput),
        cmocka_unit_test(test_read_goodput),
        cmocka_unit_test(test_probe_saves_the_timeout),
        cmocka_unit_test(test_large_messages),
        cmocka_unit_test(test_read_lost_early),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
