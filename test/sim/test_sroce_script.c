/*
 * Tests fault scripts in virtual time: the effect of each action on traffic,
 * the end of `for`, triggers by packet and byte, and exact replay.
 */
#include "config.h"

#include "sroce_net.h"

#include <stdio.h>
#include <string.h>

#define MS MRAIL_NS_PER_MS
#define US MRAIL_NS_PER_US

typedef struct fault_run {
    net_t w;
    sroce_fault_script_t *script;
    mrail_ns_t start;
    unsigned next_id;
} fault_run_t;

/* Starts a script on two nodes with one rail each. */
static void fault_run_start(fault_run_t *run, const net_params_t *params,
                            const char *text)
{
    char reason[SROCE_FAULT_REASON_MAX];

    net_init(&run->w, params);
    run->next_id = 0;
    if ((sroce_fault_script_parse("t", text, strlen(text), &run->script, reason,
                                  sizeof(reason)) != 0) ||
        (sroce_fault_script_check(run->script, 2, 1, 0, reason,
                                  sizeof(reason)) != 0)) {
        fail_msg("%s", reason);
    }
    run->start = sroce_sim_now(run->w.sim);
    assert_int_equal(sroce_sim_script(run->w.sim, run->script, 2, 1), 0);
}

static void fault_run_stop(fault_run_t *run)
{
    net_cleanup(&run->w);
    sroce_fault_script_destroy(run->script);
}

static void fault_run_until(fault_run_t *run, mrail_ns_t at_ns)
{
    sroce_sim_run(run->w.sim, run->start + at_ns);
}

static const sroce_counters_t *counters(const fault_run_t *run, unsigned node)
{
    return sroce_dev_counters(sroce_sim_dev(run->w.sim, node));
}

static void post(fault_run_t *run, int side, enum ibv_wr_opcode opcode,
                 uint32_t length)
{
    assert_int_equal(net_send(&run->w, side, 0, opcode, IBV_SEND_SIGNALED,
                              run->next_id++, 0, length, 0),
                     0);
}

/* Executes one WRITE from `side`, and checks its status. Returns the time that
 * it took. */
static mrail_ns_t write_takes(fault_run_t *run, int side, uint32_t length,
                              enum ibv_wc_status status)
{
    mrail_ns_t begun = sroce_sim_now(run->w.sim);
    struct ibv_wc wc;

    post(run, side, IBV_WR_RDMA_WRITE, length);
    wc = net_wait(&run->w, run->w.side[side].scq);
    assert_int_equal(wc.status, status);
    return sroce_sim_now(run->w.sim) - begun;
}

/* Returns parameters for a delay of 10 us per direction, a timeout of 4.2 ms, 7
 * retries and no probes. */
static net_params_t lossless(void)
{
    net_params_t params = {.seed = 3,
                           .icrc = 1,
                           .probe_ns = MRAIL_NS_NEVER,
                           .link = {.delay_ns = 10 * US}};

    return params;
}

static void test_down(void **state)
{
    net_params_t params = lossless();
    sroce_sim_event_t event;
    fault_run_t run;

    fault_run_start(&run, &params, "at 1ms for 9ms node 1 down");
    fault_run_until(&run, 1 * MS);
    assert_int_equal(sroce_sim_event_get(run.w.sim, &event), 1);
    assert_int_equal(event.node, 1);
    assert_int_equal(event.type, IBV_EVENT_PORT_ERR);
    /* Packets are lost until the port returns. The next timeout then
     * retransmits them. */
    assert_true(write_takes(&run, 0, 100, IBV_WC_SUCCESS) >= 9 * MS);
    assert_true(sroce_sim_now(run.w.sim) < run.start + 20 * MS);
    assert_int_equal(sroce_sim_event_get(run.w.sim, &event), 1);
    assert_int_equal(event.type, IBV_EVENT_PORT_ACTIVE);
    assert_int_equal(sroce_sim_event_get(run.w.sim, &event), 0);
    assert_true(counters(&run, 0)->timeouts > 0);
    assert_int_equal(write_takes(&run, 0, 100, IBV_WC_SUCCESS), 20 * US);
    fault_run_stop(&run);
}

/* A blackhole affects only one direction and raises no event. Data arrives, but
 * acknowledgements do not. */
static void test_blackhole(void **state)
{
    static const struct {
        const char *text;
        int arrives;
    } cases[] = {
        {"at 0s node 1 blackhole tx", 1},   {"at 0s node 1 blackhole rx", 0},
        {"at 0s node 0 blackhole tx", 0},   {"at 0s node 0 blackhole rx", 1},
        {"at 0s node 1 blackhole both", 0}, {"at 0s node 1 drop_acks", 1}};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(cases); ++i) {
        net_params_t params = lossless();
        sroce_sim_event_t event;
        fault_run_t run;

        fault_run_start(&run, &params, cases[i].text);
        net_fill(run.w.side[0].mem, 7, 1000);
        write_takes(&run, 0, 1000, IBV_WC_RETRY_EXC_ERR);
        assert_int_equal(net_match(run.w.side[1].mem, 7, 1000) == 1000,
                         cases[i].arrives);
        assert_int_equal(sroce_sim_event_get(run.w.sim, &event), 0);
        fault_run_stop(&run);
    }
}

/* With drop_acks, a node acknowledges nothing, but its own requests are still
 * answered. */
static void test_drop_acks_still_probes(void **state)
{
    net_params_t params = lossless();
    fault_run_t run;

    fault_run_start(&run, &params, "at 0s for 50ms node 1 drop_acks");
    assert_int_equal(write_takes(&run, 1, 100, IBV_WC_SUCCESS), 20 * US);
    assert_true(write_takes(&run, 0, 100, IBV_WC_RETRY_EXC_ERR) > 4 * MS);
    fault_run_stop(&run);
}

/* A WRITE is acknowledged immediately but becomes visible later. After the end
 * of `for`, it is visible immediately. */
static void test_write_delay(void **state)
{
    net_params_t params = lossless();
    fault_run_t run;

    fault_run_start(&run, &params,
                    "at 0s for 50ms node 1 write_delay 5ms\n"
                    "at 60ms node 1 write_delay 5ms\n"
                    "at 63ms clear");
    net_fill(run.w.side[0].mem, 7, 1000);
    assert_true(write_takes(&run, 0, 1000, IBV_WC_SUCCESS) < 1 * MS);
    assert_int_equal(net_match(run.w.side[1].mem, 7, 1000), 0);
    fault_run_until(&run, 10 * MS);
    assert_int_equal(net_match(run.w.side[1].mem, 7, 1000), 1000);
    fault_run_until(&run, 60 * MS);
    net_fill(run.w.side[0].mem, 8, 1000);
    assert_true(write_takes(&run, 0, 1000, IBV_WC_SUCCESS) < 1 * MS);
    assert_int_equal(net_match(run.w.side[1].mem, 8, 1000), 0);
    fault_run_until(&run, 63 * MS);
    assert_int_equal(net_match(run.w.side[1].mem, 8, 1000), 1000);
    fault_run_stop(&run);
}

static void test_pause(void **state)
{
    net_params_t params = lossless();
    mrail_ns_t takes;
    fault_run_t run;

    params.timeout = 14; /* 67 ms */
    fault_run_start(&run, &params,
                    "at 1ms for 20ms node 1 pause\n"
                    "at 30ms for 20ms node 0 pause");
    fault_run_until(&run, 1 * MS);
    post(&run, 0, IBV_WR_RDMA_WRITE, 100);
    fault_run_until(&run, 10 * MS);
    assert_int_equal(counters(&run, 1)->rx_pkts, 0);
    takes = sroce_sim_now(run.w.sim) - (run.start + 1 * MS);
    takes += write_takes(&run, 0, 5000, IBV_WC_SUCCESS);
    assert_int_equal(net_wait(&run.w, run.w.side[0].scq).status,
                     IBV_WC_SUCCESS);
    /* The WRITE waited at the paused port and continued immediately when the
     * pause ended. */
    assert_int_equal(takes, 20 * MS + 10 * US);
    fault_run_until(&run, 30 * MS);
    takes = write_takes(&run, 0, 5000, IBV_WC_SUCCESS);
    assert_int_equal(takes, 20 * MS + 20 * US);
    assert_int_equal(counters(&run, 0)->tx_retrans, 0);
    assert_int_equal(counters(&run, 1)->rx_dup, 0);
    assert_int_equal(counters(&run, 1)->ooo, 0);
    fault_run_stop(&run);
}

static void test_delay(void **state)
{
    net_params_t params = lossless();
    fault_run_t run;

    fault_run_start(&run, &params, "at 0s for 10ms node 1 delay 100us");
    assert_int_equal(write_takes(&run, 0, 100, IBV_WC_SUCCESS), 220 * US);
    fault_run_until(&run, 10 * MS);
    assert_int_equal(write_takes(&run, 0, 100, IBV_WC_SUCCESS), 20 * US);
    fault_run_stop(&run);
}

static void test_rate(void **state)
{
    net_params_t params = lossless();
    mrail_ns_t takes;
    fault_run_t run;

    params.timeout = 20;
    params.window_pkts = 4096;
    fault_run_start(&run, &params,
                    "at 0s for 1s node 1 rate 10M\n"
                    "at 2s node 0 rate 20M");
    takes = write_takes(&run, 0, 1000000, IBV_WC_SUCCESS);
    assert_true((takes > 100 * MS) && (takes < 110 * MS));
    fault_run_until(&run, 1500 * MS);
    assert_true(write_takes(&run, 0, 1000000, IBV_WC_SUCCESS) < MS);
    fault_run_until(&run, 2000 * MS);
    takes = write_takes(&run, 0, 1000000, IBV_WC_SUCCESS);
    assert_true((takes > 50 * MS) && (takes < 55 * MS));
    fault_run_stop(&run);
}

/* Runs script `text` during many WRITEs, all of which succeed. Returns the
 * counters. */
static void send_with_faults(const char *text, sroce_counters_t *from,
                             sroce_counters_t *to)
{
    net_params_t params = lossless();
    fault_run_t run;

    params.max_wr = 512;
    fault_run_start(&run, &params, text);
    net_fill(run.w.side[0].mem, 9, 4000);
    for (unsigned i = 0; i < 300; ++i) {
        write_takes(&run, 0, 4000, IBV_WC_SUCCESS);
    }
    assert_int_equal(net_match(run.w.side[1].mem, 9, 4000), 4000);
    *from = *counters(&run, 0);
    *to = *counters(&run, 1);
    fault_run_stop(&run);
}

static void test_rng(void **state)
{
    sroce_counters_t from, to;

    send_with_faults("at 0s clear", &from, &to);
    assert_int_equal(from.tx_retrans + to.ooo + to.rx_dup + to.drop_icrc, 0);
    send_with_faults("at 0s node 0 drop 2%", &from, &to);
    assert_true((from.tx_retrans > 0) && (to.drop_icrc == 0));
    send_with_faults("at 0s node 1 duplicate 10%", &from, &to);
    assert_true((to.rx_dup > 50) && (from.timeouts == 0));
    send_with_faults("at 0s node 0 reorder 5% 50us", &from, &to);
    assert_true((to.ooo > 0) && (to.drop_icrc == 0));
    send_with_faults("at 0s node 1 corrupt 3%", &from, &to);
    assert_true((to.drop_icrc > 10) && (from.tx_retrans > 0));
}

static void test_error_qp(void **state)
{
    net_params_t params = lossless();
    unsigned failed[2] = {0, 0};
    sroce_sim_event_t event;
    fault_run_t run;

    params.num_qps = 6;
    params.use_srq = 1;
    fault_run_start(&run, &params,
                    "at 1ms node 1 qp_error 3\nat 5ms node 0 qp_error");
    fault_run_until(&run, 2 * MS);
    for (unsigned i = 0; i < 6; ++i) {
        assert_int_equal(sroce_qp_state(run.w.side[1].qp[i]),
                         (i % 3 == 2) ? IBV_QPS_ERR : IBV_QPS_RTS);
        assert_int_equal(sroce_qp_state(run.w.side[0].qp[i]), IBV_QPS_RTS);
    }
    while (sroce_sim_event_get(run.w.sim, &event)) {
        failed[1] += (event.type == IBV_EVENT_QP_FATAL) && (event.node == 1);
        failed[0] += (event.type == IBV_EVENT_QP_LAST_WQE_REACHED);
    }
    assert_int_equal(failed[1], 2);
    assert_int_equal(failed[0], 2);
    /* Work that is in flight when the QP fails is flushed. */
    fault_run_until(&run, 4990 * US);
    assert_int_equal(net_send(&run.w, 0, 0, IBV_WR_RDMA_WRITE,
                              IBV_SEND_SIGNALED, 77, 0, 100, 0),
                     0);
    net_expect(&run.w, run.w.side[0].scq, 77, IBV_WC_WR_FLUSH_ERR);
    for (unsigned i = 0; i < 6; ++i) {
        assert_int_equal(sroce_qp_state(run.w.side[0].qp[i]), IBV_QPS_ERR);
    }
    fault_run_stop(&run);
}

/* The trigger takes effect after the N-th packet, so that packet is still sent
 * and the next one is not. `byte` counts in the same way. */
static void test_triggers(void **state)
{
    static const char *const texts[] = {"at packet 3 node 0 blackhole tx",
                                        "at byte 3100 node 0 blackhole tx"};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(texts); ++i) {
        net_params_t params = lossless();
        fault_run_t run;

        fault_run_start(&run, &params, texts[i]);
        net_fill(run.w.side[0].mem, 4, 5000);
        write_takes(&run, 0, 5000, IBV_WC_RETRY_EXC_ERR);
        assert_int_equal(counters(&run, 1)->rx_pkts, 3);
        assert_int_equal(net_match(run.w.side[1].mem, 4, 5000), 3 * 1024);
        fault_run_stop(&run);
    }
}

/* ---- Replay ---- */

static const char random_text[] =
    "seed %llu\n"
    "at 0s node 0 drop 3%%\n"
    "at 100us for 500us every 1ms node 1 reorder 10%% 40us\n"
    "at 200us for 300us every 1ms node 0 duplicate 20%%\n"
    "at 300us for 100us every 1ms pause\n"
    "at 1ms corrupt 1%%\n"
    "at packet 40 for 2ms every 70 node 0 delay 30us\n"
    "at byte 64k for 200us every 100k node 1 rate 50M\n";

static uint64_t trace_of(uint64_t seed, uint64_t script_seed)
{
    net_params_t params = lossless();
    char text[512];
    uint64_t trace;
    fault_run_t run;

    params.seed = seed;
    snprintf(text, sizeof(text), random_text, (unsigned long long)script_seed);
    fault_run_start(&run, &params, text);
    net_fill(run.w.side[0].mem, 5, 9000);
    for (unsigned i = 0; i < 60; ++i) {
        write_takes(&run, 0, 9000, IBV_WC_SUCCESS);
    }
    assert_int_equal(net_match(run.w.side[1].mem, 5, 9000), 9000);
    trace = sroce_sim_trace(run.w.sim);
    fault_run_stop(&run);
    return trace;
}

static void test_replays(void **state)
{
    uint64_t first = net_first_seed(), last = 0;

    for (uint64_t seed = first; seed < first + net_num_seeds(20); ++seed) {
        uint64_t trace;

        net_announce("test_sroce_script", seed);
        trace = trace_of(7, seed);
        assert_true(trace_of(7, seed) == trace);
        /* With another seed, of the script or of the simulation, the run must
         * be different. */
        assert_true(trace != last);
        assert_true(trace_of(8, seed) != trace);
        last = trace;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_down),
        cmocka_unit_test(test_blackhole),
        cmocka_unit_test(test_drop_acks_still_probes),
        cmocka_unit_test(test_write_delay),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_delay),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_rng),
        cmocka_unit_test(test_error_qp),
        cmocka_unit_test(test_triggers),
        cmocka_unit_test(test_replays)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
