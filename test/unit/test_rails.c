/*
 * Tests the list of rails of this process: order, speeds and states. The
 * counters must include every large chunk, successful or not.
 */
#include "config.h"
#include "rail/conn/conn.h"
#include "mock_peer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define GBPS 125000000ull /* bytes per second */
#define NUM_RAILS 2

static uint8_t memory[8 << 20];
static mrail_mem_t *mem;
static mrail_rkey_t *rkey;
static mrail_ep_t *ep;
static mrail_rail_now_t rails[MRAIL_MAX_RAILS];

static void ask(void)
{
    memset(rails, 0xff, sizeof(rails));
    assert_int_equal(mrail_rails_now(rails), NUM_RAILS);
}

/* This test comes first, because it needs the state of a new process. */
static void test_no_engine(void **state)
{
    assert_int_equal(mrail_rails_now(rails), 0);
    start(64);
    assert_true(fake_fork_safe);
    ask();
    teardown(NULL);
    assert_int_equal(mrail_rails_now(rails), 0);
}

static void assert_order(unsigned first)
{
    ask();
    for (unsigned i = 0; i < NUM_RAILS; ++i) {
        const mrail_rail_attr_t *attr =
            &engine->rails[(first + i) % NUM_RAILS].attr;

        assert_int_equal(rails[i].subnet, attr->subnet);
        assert_string_equal(rails[i].device, attr->device);
        assert_memory_equal(rails[i].gid, attr->gid, sizeof(attr->gid));
        assert_true(rails[i].is_up);
        assert_int_equal(rails[i].live_in, 0);
        assert_int_equal(rails[i].live_out, 0);
    }
}

static void test_order(void **state)
{
    start(64);
    assert_order(0);
    engine->rails[0].attr.subnet = 1ull << 40;
    engine->rails[1].attr.subnet = 7;
    assert_order(1);
    engine->rails[0].attr.subnet = 7; /* the rail is found by its address */
    assert_order(0);
    engine->rails[1].attr.gid[0] = 0;
    engine->rails[0].attr.gid[0] = 1;
    assert_order(1);
}

static void port(unsigned rail, mrail_health_event_t event)
{
    pthread_mutex_lock(&engine->ctl_lock);
    mrail_paths_port(engine, &engine->rails[rail], event, fake_now_ns);
    pthread_mutex_unlock(&engine->ctl_lock);
}

static void test_is_up(void **state)
{
    start(64);
    port(1, MRAIL_HEALTH_PORT_DOWN);
    ask();
    assert_true(rails[0].is_up && !rails[1].is_up);
    port(1, MRAIL_HEALTH_PORT_UP);
    ask();
    assert_true(rails[1].is_up);
    pthread_mutex_lock(&engine->ctl_lock);
    mrail_failover_rail(engine, &engine->rails[0], "test");
    pthread_mutex_unlock(&engine->ctl_lock);
    ask();
    assert_true(rails[1].is_up && !rails[0].is_up);
}

/* Port queries take place every 100 ms. Fields that a port does not report keep
 * their value. */
static void test_speed(void **state)
{
    uint64_t rate_bps;

    start(64);
    rate_bps = engine->rails[0].attr.rate_bps;
    fake_ports[0].active_speed = 4; /* 10 Gb/s per lane of the link */
    fake_ports[0].active_width = 1;
    ask();
    assert_int_equal(rails[0].speed, 10 * GBPS);
    fake_ports[0].active_speed = 1; /* 2.5 Gb/s per lane */
    fake_now_ns += 99 * MRAIL_NS_PER_MS;
    ask();
    assert_int_equal(rails[0].speed, 10 * GBPS);
    fake_now_ns += 1 * MRAIL_NS_PER_MS;
    ask();
    assert_int_equal(rails[0].speed, 5 * GBPS / 2);
    fake_ports[0].active_speed = 4;
    fake_now_ns += 200 * MRAIL_NS_PER_MS;
    fake_fail_in = 1;
    ask();
    assert_int_equal(fake_fail_in, 0);
    assert_int_equal(rails[0].speed, 5 * GBPS / 2);
    /* UCX and the scheduler continue to use a different rate. */
    assert_int_equal(engine->rails[0].attr.rate_bps, rate_bps);
    assert_int_not_equal(rate_bps, 10 * 8 * GBPS);
    fake_ports_reset();
}

/* Connects two lanes on different rails. */
static void connect_two(void)
{
    uint8_t packed[256];

    start(64);
    connect_lanes(0, 2);
    ep = ep_to(0);
    assert_int_equal(mrail_mem_reg(engine, memory, sizeof(memory), &mem), 0);
    mrail_rkey_pack(mem, packed);
    assert_int_equal(mrail_rkey_unpack(packed, &rkey), 0);
}

static void transfer(size_t length, int is_get)
{
    mrail_iov_t iov = {.buffer = memory, .length = length, .mem = mem};

    assert_int_equal(is_get
                         ? mrail_ep_get_zcopy(ep, &iov, 1, 0x5000, rkey, NULL)
                         : mrail_ep_put_zcopy(ep, &iov, 1, 0x5000, rkey, NULL),
                     -EINPROGRESS);
}

static uint64_t sum_of(mrail_flow_t flow, uint64_t *inflight_p)
{
    uint64_t posted = 0;

    *inflight_p = 0;
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        posted += engine->rails[i].flows[flow].posted;
        *inflight_p += engine->rails[i].flows[flow].inflight;
    }
    return posted;
}

static void assert_none_under_way(void)
{
    const mrail_peer_t *peer = peer_of(0);

    for (unsigned i = 0; i < engine->num_rails; ++i) {
        for (unsigned flow = 0; flow < MRAIL_FLOWS; ++flow) {
            const mrail_tele_flow_t *f = &engine->rails[i].flows[flow];

            assert_int_equal(f->posted, f->done);
            assert_int_equal(f->inflight, 0);
            assert_int_equal(f->lanes, 0);
            assert_int_equal(f->peers, 0);
            assert_int_equal(engine->rails[i].busy[flow].inflight, 0);
            assert_int_equal(peer->large[i][flow], 0);
        }
    }
}

static void finish(void)
{
    for (unsigned i = 0; (i < 1000) && !mrail_list_empty(&peer_of(0)->ops);
         ++i) {
        progress();
    }
    assert_true(mrail_list_empty(&peer_of(0)->ops));
    assert_none_under_way();
    mrail_rkey_release(rkey);
    mrail_mem_dereg(mem);
}

static void test_directions(void **state)
{
    uint64_t inflight;

    connect_two();
    transfer(MRAIL_TELE_LARGE - 1, 0);
    assert_int_equal(sum_of(MRAIL_FLOW_OUT, &inflight), 0);
    transfer(sizeof(memory), 0);
    assert_true(sum_of(MRAIL_FLOW_OUT, &inflight) > 0);
    assert_true(inflight > 0);
    assert_int_equal(sum_of(MRAIL_FLOW_IN, &inflight), 0);
    transfer(sizeof(memory), 1);
    finish();
    assert_true(sum_of(MRAIL_FLOW_IN, &inflight) > 0);
}

static void test_broken_lane(void **state)
{
    uint64_t inflight;

    const mrail_tele_flow_t *flow;

    connect_two();
    transfer(sizeof(memory), 0);
    flow = &peer_of(0)->lanes[0]->rail->flows[MRAIL_FLOW_OUT];
    inflight = flow->inflight;
    assert_true(inflight > 0);
    assert_true(fake_complete_send(peer_of(0)->lanes[0]->rail->cq,
                                   IBV_WC_RETRY_EXC_ERR));
    mrail_iface_progress(ifaces[0]);
    assert_int_equal(flow->done, 1);
    assert_int_equal(flow->bytes, 0);
    assert_true(flow->inflight < inflight);
    break_lanes(0, 1);
    confirm_broken(0, 0, 0);
    finish();
}

/* Both rails were busy since begin_ns, and carried these bytes. */
static void assert_busy(mrail_ns_t begin_ns, uint64_t bytes)
{
    double length_ns = (double)(fake_now_ns - begin_ns), moved = 0;

    for (unsigned slot = 0; slot < 2; ++slot) {
        const mrail_rail_t *rail = peer_of(0)->lanes[slot]->rail;
        mrail_tele_work_t work =
            mrail_tele_busy_read(&rail->busy[MRAIL_FLOW_IN]);

        assert_true((double)work.busy_ns > 0.95 * length_ns);
        assert_true((double)work.busy_ns <= length_ns);
        assert_true((work.chunks > 190) && (work.chunks <= 200));
        moved += (double)work.bytes;
        work = mrail_tele_busy_read(&rail->busy[MRAIL_FLOW_OUT]);
        assert_int_equal(work.busy_ns, 0);
    }
    assert_true((moved > 0.95 * (double)bytes) && (moved <= (double)bytes));
}

/* One segment completes every half millisecond, alternately on each rail. */
static void test_live(void **state)
{
    uint64_t bytes = 0, before;
    mrail_ns_t begin_ns;
    double rate;

    connect_two();
    begin_ns = fake_now_ns;
    for (unsigned i = 0; i < 400; ++i) {
        mrail_rail_t *rail =
            &engine->rails[peer_of(0)->lanes[i & 1]->rail->index];

        while (peer_of(0)->uncut_bytes < sizeof(memory)) {
            transfer(sizeof(memory), 1);
        }
        fake_now_ns += 500 * MRAIL_NS_PER_US;
        assert_true(fake_complete_send(rail->cq, IBV_WC_SUCCESS));
        before = rail->flows[MRAIL_FLOW_IN].done;
        mrail_iface_progress(ifaces[0]);
        assert_int_equal(rail->flows[MRAIL_FLOW_IN].done, before + 1);
    }
    for (unsigned slot = 0; slot < 2; ++slot) {
        bytes += peer_of(0)->lanes[slot]->rma_carried;
    }
    rate = (double)bytes * MRAIL_NS_PER_SEC / (double)(fake_now_ns - begin_ns);
    ask();
    rate /= (double)(rails[0].live_in + rails[1].live_in);
    assert_true((rate > 0.5) && (rate < 1.2));
    assert_busy(begin_ns, bytes);
    assert_int_equal(rails[0].live_out, 0);
    fake_now_ns += 2 * MRAIL_NS_PER_SEC;
    ask();
    assert_int_equal(rails[0].live_in + rails[1].live_in, 0);
    finish();
}

#define ON_ENGINE(_test) cmocka_unit_test_teardown(_test, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_engine),
        ON_ENGINE(test_order),
        ON_ENGINE(test_is_up),
        ON_ENGINE(test_speed),
        ON_ENGINE(test_directions),
        ON_ENGINE(test_broken_lane),
        ON_ENGINE(test_live),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
