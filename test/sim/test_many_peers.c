/*
 * Tests one process with thousands of peers over four rails. An idle peer must
 * be small, and no poll, timer or other peer's error may access it. Connecting
 * must be lazy and paced. All messages must arrive in order while peers vanish
 * and rails die.
 *
 * Accesses are counted by touch_trap.h, which makes the memory of idle peers
 * inaccessible.
 */
#include "config.h"
#include "scripted_peers.h"
#include "rail/conn/conn.h"
#include "test/sim/sanitized.h"
#include "touch_trap.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MANY 4096u
#define HOT 64u
#define PEER_BYTES 4096u
#define LANE_BYTES 1024u
#define RX_QUEUE_LEN 4096u
/* Maximum number of peers that connect at the same time. */
#define CONNECTING 512u
/* Blocks of idle peers that may be touched for each hot peer: neighbours in
 * lists and in a hash table. */
#define NEIGHBOURS 4u

#define MS MRAIL_NS_PER_MS
#define SECOND MRAIL_NS_PER_SEC

static void start(unsigned max_qps)
{
    script_start(&(script_params_t){
        .num_peers = MANY, .max_qps = max_qps, .rx_queue_len = RX_QUEUE_LEN});
}

static int teardown(void **state)
{
    touch_trap_stop();
    script_stop();
    touch_trap_end();
    return 0;
}

/* Connects all peers with all lanes, and waits until no work is left. */
static void connect_all(void)
{
    script_create_eps(0, MANY);
    script_connect(0, MANY, 1);
    script_run(2 * SECOND, 10 * MS);
    assert_int_equal(script.engine->num_peers, MANY);
    assert_int_equal(script.engine->num_qps, MANY * SCRIPT_RAILS);
}

/* ---- traffic ---- */

/* Messages that remain to be sent between the engine and each of the peers
 * [traffic_first, traffic_last). */
static unsigned *to_peer, *to_engine;
static unsigned traffic_first, traffic_last;

static void add_traffic(unsigned first, unsigned last, unsigned each)
{
    traffic_first = first;
    traffic_last = last;
    to_peer = realloc(to_peer, MANY * sizeof(*to_peer));
    to_engine = realloc(to_engine, MANY * sizeof(*to_engine));
    assert_non_null(to_peer);
    assert_non_null(to_engine);
    for (unsigned i = 0; i < MANY; ++i) {
        int is_in = (i >= first) && (i < last) && !script.peers[i].vanished;

        to_peer[i] = to_engine[i] = is_in ? each : 0;
    }
}

/* Sends as many messages as possible now. Returns the number of messages that
 * remain. */
static unsigned send_some(void)
{
    unsigned left = 0;

    for (unsigned i = traffic_first; i < traffic_last; ++i) {
        script_peer_t *peer = &script.peers[i];

        while ((to_peer[i] != 0) &&
               script_send(peer, 16 + to_peer[i] * 7 % 500)) {
            --to_peer[i];
        }
        while ((to_engine[i] != 0) &&
               script_peer_send(peer, 16 + to_engine[i] * 11 % 500)) {
            --to_engine[i];
        }
        left += to_peer[i] + to_engine[i];
    }
    return left;
}

static int traffic_is_done(void)
{
    return (send_some() == 0) && script_all_delivered();
}

static void assert_traffic_arrives(mrail_ns_t limit_ns)
{
    int done = script_await(traffic_is_done, limit_ns, MS);

    if (!done) {
        for (unsigned i = 0; i < MANY; ++i) {
            const script_peer_t *peer = &script.peers[i];

            if ((to_peer[i] + to_engine[i] != 0) ||
                (peer->delivered != peer->tx_next)) {
                printf("# peer %u: %u and %u messages left, %u of %u "
                       "delivered, %u lanes, failed %u\n",
                       i, to_peer[i], to_engine[i], peer->delivered,
                       peer->tx_next, peer->num_up, peer->num_failed);
                break;
            }
        }
    }
    assert_int_equal(script.wrong, 0);
    assert_true(done);
}

/* ---- memory ---- */

static void assert_bytes(const char *what, size_t bytes, unsigned count,
                         size_t limit)
{
    printf("# %s: %zu bytes each, limit %zu\n", what, bytes / count, limit);
    assert_true(bytes / count <= limit);
}

static void test_an_idle_peer_is_small(void **state)
{
    const unsigned warm = 64, count = MANY - warm;
    size_t before, first, all;

#ifdef TEST_SANITIZED
    puts("mallinfo2() does not count with a sanitizer's allocator");
    skip();
#endif
    start(32768);
    script_create_eps(0, warm);
    script_connect(0, warm, 1);
    script_run(SECOND, 10 * MS);
    before = script_engine_bytes();
    script_create_eps(warm, MANY);
    script_connect(warm, MANY, 0);
    script_run(SECOND, 10 * MS);
    first = script_engine_bytes();
    script_connect(warm, MANY, 1);
    script_run(SECOND, 10 * MS);
    all = script_engine_bytes();
    assert_bytes("a further lane", all - first, count * (SCRIPT_RAILS - 1),
                 LANE_BYTES);
    assert_bytes("a peer with one lane", first - before, count,
                 PEER_BYTES + LANE_BYTES);
    assert_bytes("a peer with four lanes", all - before, count,
                 PEER_BYTES + SCRIPT_RAILS * LANE_BYTES);
}

/* The receive buffers of all peers come from the queues of the rails. */
static void test_receive_buffers_have_a_budget(void **state)
{
    start(32768);
    connect_all();
    for (unsigned i = 0; i < SCRIPT_RAILS; ++i) {
        assert_true(script.engine->rails[i].srq_used <= RX_QUEUE_LEN);
    }
}

/* After a while, the messages of an idle peer are acknowledged, and their
 * buffers are free for others. */
static void test_an_idle_peer_holds_no_send_buffers(void **state)
{
    start(32768);
    script_create_eps(0, MANY);
    script_connect(0, MANY, 0);
    add_traffic(0, MANY, 1);
    memset(to_engine, 0, MANY * sizeof(*to_engine)); /* it would carry the
                                                      * acknowledgement */
    assert_traffic_arrives(10 * SECOND);
    script_run(2 * SECOND, 10 * MS);
    assert_int_equal(script.engine->tx_small.num_used, 0);
    assert_int_equal(script.engine->tx_big.num_used, 0);
}

/* ---- accesses to idle peers ---- */

static size_t idle_from, idle_to;

/* Connects `hot` peers, then all other peers, which stay idle. */
static void connect_hot_and_idle(unsigned hot, unsigned max_qps, int all)
{
    start(max_qps);
    touch_trap_record((size_t)MANY * 32 * 4096, 64);
    script_create_eps(0, hot);
    script_connect(0, hot, 1);
    idle_from = touch_trap_position();
    script_create_eps(hot, MANY);
    script_connect(hot, MANY, all);
    idle_to = touch_trap_position();
    touch_trap_stop();
    script_run(2 * SECOND, 10 * MS);
}

static void watch(void)
{
    touch_trap_watch(idle_from, idle_to);
}

static void assert_touched(const char *what, unsigned limit)
{
    unsigned touched = touch_trap_touched();

    printf("# %s: %u blocks of idle peers touched, limit %u\n", what, touched,
           limit);
    assert_true(touched <= limit);
}

static void test_a_poll_touches_no_idle_peer(void **state)
{
    connect_hot_and_idle(HOT, 32768, 1);
    watch();
    for (unsigned i = 0; i < 1000; ++i) {
        mrail_iface_progress(script.iface);
    }
    assert_touched("1000 polls", 0);
}

static void test_traffic_touches_no_idle_peer(void **state)
{
    connect_hot_and_idle(HOT, 32768, 1);
    add_traffic(0, HOT, 200);
    watch();
    for (unsigned i = 0; i < 500; ++i) {
        send_some();
        script_run(MS, MS);
    }
    assert_touched("messages of 64 peers, 500 ms", NEIGHBOURS * HOT);
    assert_true(traffic_is_done());
    assert_int_equal(script.wrong, 0);
}

static void test_an_error_touches_no_idle_peer(void **state)
{
    connect_hot_and_idle(HOT, 32768, 1);
    watch();
    mrail_failover_request(script.peers[0].ep->peer->lanes[1], "test");
    script_run(500 * MS, MS);
    assert_touched("a failed lane", NEIGHBOURS * HOT);
}

static void test_an_event_touches_no_idle_peer(void **state)
{
    struct ibv_async_event event = {.event_type = IBV_EVENT_QP_FATAL};

    connect_hot_and_idle(HOT, 32768, 1);
    event.element.qp = script.peers[0].lanes[1].qp;
    watch();
    fake_async_event = &event;
    mrail_control_async(script.engine, &script.engine->rails[0]);
    ++fake_num_wakes;
    script_run(500 * MS, MS);
    assert_touched("an event of a QP", NEIGHBOURS * HOT);
    assert_int_equal(script.engine->counters.lanes_failed, 1);
}

static void test_a_lost_peer_touches_no_idle_peer(void **state)
{
    connect_hot_and_idle(HOT, 32768, 1);
    watch();
    mrail_ctl_peer_failed(script.peers[0].ep->peer, -ETIMEDOUT);
    script_run(500 * MS, MS);
    assert_int_equal(script.peers[0].num_failed, 1);
    script_run(500 * MS, MS); /* the user keeps the endpoint for a while */
    script_destroy_ep(&script.peers[0]);
    script_run(100 * MS, MS);
    assert_touched("a lost peer", NEIGHBOURS * HOT);
    assert_int_equal(script.engine->num_peers, MANY - 1);
}

/* The QP budget is exhausted, and hot peers request lanes that idle peers
 * have. */
static void test_a_search_for_lanes_is_bounded(void **state)
{
    connect_hot_and_idle(HOT, MANY + MANY / 2, 0);
    /* After the first lanes of all peers, 128 QPs are left. */
    script_connect(HOT, 2 * HOT, 1);
    for (unsigned i = 2 * HOT; i < 4 * HOT; ++i) {
        mrail_iface_enter(script.iface);
        mrail_peer_request_lanes(script.peers[i].ep->peer, 1);
        mrail_iface_leave(script.iface);
    }
    watch();
    script_run(500 * MS, MS);
    /* The 128 peers that request lanes have their own blocks. In addition, each
     * of up to six searches may touch 256 blocks. */
    assert_touched("searches for lanes", 2 * HOT * 4 + 6 * 256);
}

/* ---- connecting ---- */

static void test_connecting_is_lazy(void **state)
{
    start(32768);
    script_create_eps(0, MANY);
    script_run(100 * MS, MS);
    for (unsigned type = 0; type < MRAIL_CTL_LAST; ++type) {
        assert_int_equal(script.num_control[type], 0);
    }
    assert_int_equal(script.engine->num_qps, 0);
}

/* All peers are sent a message at the same time. Each must connect with one
 * HELLO and one LANE_REQ, and only a limited number may connect at the same
 * time. */
static void test_connecting_is_paced(void **state)
{
    mrail_ns_t begin_ns;

    start(32768);
    script_create_eps(0, MANY);
    begin_ns = fake_now_ns;
    script_connect(0, MANY, 0);
    printf("# %u peers connect in %llu ms, at most %u at the same time\n", MANY,
           (unsigned long long)((fake_now_ns - begin_ns) / MS),
           script.max_connecting);
    assert_int_equal(script.num_control[MRAIL_CTL_HELLO], MANY);
    assert_int_equal(script.num_control[MRAIL_CTL_LANE_REQ], MANY);
    assert_true(script.max_connecting <= CONNECTING);
}

/* A peer that does not answer must not prevent other peers from connecting. */
static void test_silent_peers_do_not_delay_others(void **state)
{
    start(32768);
    for (unsigned i = 0; i < 2 * CONNECTING; ++i) {
        script.peers[i].vanished = 1;
    }
    script_create_eps(0, MANY);
    for (unsigned i = 0; i < 2 * CONNECTING; ++i) {
        (void)script_send(&script.peers[i], 16);
    }
    script_run(100 * MS, MS);
    script_connect(2 * CONNECTING, MANY, 0);
    add_traffic(2 * CONNECTING, MANY, 1);
    assert_traffic_arrives(5 * SECOND);
}

/* If peers fail while they wait to connect, the queue behind them must
 * continue. */
static void test_failed_peers_leave_the_queue(void **state)
{
    start(32768);
    script_create_eps(0, MANY);
    for (unsigned i = 0; i < MANY; ++i) {
        (void)script_send(&script.peers[i], 16);
    }
    pthread_mutex_lock(&script.engine->ctl_lock);
    mrail_ctl_run(script.engine, fake_now_ns);
    for (unsigned i = MANY / 2; i < MANY - 1; ++i) {
        mrail_ctl_peer_failed(script.peers[i].ep->peer, -ETIMEDOUT);
    }
    pthread_mutex_unlock(&script.engine->ctl_lock);
    assert_true(script.engine->num_connecting != 0);
    script_connect(0, MANY / 2, 0);
    script_connect(MANY - 1, MANY, 0);
    assert_int_equal(script.engine->num_connecting, 0);
    assert_true(mrail_list_empty(&script.engine->connect_queue));
}

/* ---- traffic ---- */

static void test_burst(void **state)
{
    start(32768);
    script_create_eps(0, MANY);
    add_traffic(0, MANY, 4);
    assert_traffic_arrives(30 * SECOND);
    for (unsigned i = 0; i < SCRIPT_RAILS; ++i) {
        assert_true(script.engine->rails[i].srq_used <= RX_QUEUE_LEN);
    }
}

static void test_hot_peers(void **state)
{
    const size_t length = 256 << 10;

    start(32768);
    connect_all();
    for (unsigned i = 0; i < HOT; ++i) {
        for (unsigned k = 0; k < 4; ++k) {
            assert_true(script_put(&script.peers[i * (MANY / HOT)], length));
        }
    }
    add_traffic(0, HOT, 1000);
    assert_traffic_arrives(30 * SECOND);
    for (unsigned i = 0; i < HOT; ++i) {
        assert_int_equal(script.peers[i * (MANY / HOT)].put_bytes, 4 * length);
    }
    assert_int_equal(script.completed, 4 * HOT);
}

/* ---- peers and rails that fail ---- */

static int vanished_are_reported(void)
{
    for (unsigned i = 0; i < MANY; i += 10) {
        if (script.peers[i].num_failed == 0) {
            return 0;
        }
    }
    return 1;
}

static void test_a_tenth_vanishes(void **state)
{
    unsigned gone = 0;

    start(32768);
    connect_all();
    add_traffic(0, MANY, 2);
    for (unsigned i = 0; i < MANY; i += 10, ++gone) {
        if (i % 20 == 0) { /* with messages in flight */
            (void)send_some();
        }
        script.peers[i].vanished = 1;
        to_peer[i] = to_engine[i] = 0;
    }
    assert_traffic_arrives(10 * SECOND);
    assert_true(script_await(vanished_are_reported, 40 * SECOND, 5 * MS));
    for (unsigned i = 0; i < MANY; ++i) {
        assert_int_equal(script.peers[i].num_failed, (i % 10) == 0);
    }
    for (unsigned i = 0; i < MANY; i += 10) {
        script_destroy_ep(&script.peers[i]);
    }
    script_run(SECOND, 5 * MS);
    assert_int_equal(script.engine->num_peers, MANY - gone);
    assert_int_equal(script.engine->num_dead, 0);
    assert_int_equal(script.engine->num_qps, (MANY - gone) * SCRIPT_RAILS);
    add_traffic(0, MANY, 2);
    assert_traffic_arrives(10 * SECOND);
}

/* In every interval, each idle peer must receive one request, but not all peers
 * at the same time. */
static void test_keepalives_are_spread(void **state)
{
    uint64_t before, most = 0, total;

    start(32768);
    connect_all();
    total = script.num_requests;
    for (unsigned i = 0; i < 2100; ++i) {
        before = script.num_requests;
        script_run(10 * MS, 10 * MS);
        most = MRAIL_MAX(most, script.num_requests - before);
    }
    total = script.num_requests - total;
    printf("# %llu requests in 21 s, at most %llu in 10 ms\n",
           (unsigned long long)total, (unsigned long long)most);
    /* At the end of the first interval, the requests that set up the connection
     * count. */
    assert_true(total >= MANY);
    assert_true(total <= 2 * MANY + MANY / 4);
    assert_true(most <= MANY / 4);
}

static void check_lost_rail(void (*lose)(unsigned rail), const char *what)
{
    const unsigned rail = 2;
    unsigned warnings, control, lost;

    start(32768);
    connect_all();
    add_traffic(0, HOT, 400);
    for (unsigned i = 0; i < 3; ++i) {
        send_some();
        script_run(MS, MS);
    }
    warnings = script.num_warnings;
    lose(rail);
    assert_traffic_arrives(5 * SECOND);
    /* From now on, the rail carries only a few datagrams. */
    script_run(SECOND, MS);
    lost = script.lost_requests;
    add_traffic(0, MANY, 4);
    assert_traffic_arrives(10 * SECOND);
    script_run(5 * SECOND, 5 * MS);
    control = script.lost_control[rail];
    printf("# %s: %u warnings, %u datagrams and %u later requests on the lost "
           "rail\n",
           what, script.num_warnings - warnings, control,
           script.lost_requests - lost);
    for (unsigned i = 0; i < MANY; ++i) {
        assert_int_equal(script.peers[i].num_failed, 0);
    }
    assert_true(script.num_warnings - warnings <= 4);
    assert_int_equal(script.lost_requests, lost);
    assert_true(control <= MANY / 4);
}

static void test_a_rail_loses_everything(void **state)
{
    check_lost_rail(script_lose_rail, "silent loss");
}

static void test_a_port_goes_down(void **state)
{
    check_lost_rail(script_port_down, "port down");
}

static void test_a_device_is_lost(void **state)
{
    check_lost_rail(script_fatal, "device lost");
}

static int all_lanes_are_up(void)
{
    for (unsigned i = 0; i < MANY; ++i) {
        if (script.peers[i].num_up != SCRIPT_SLOTS) {
            return 0;
        }
    }
    return 1;
}

static void check_mended_rail(void (*lose)(unsigned rail),
                              void (*mend)(unsigned rail))
{
    const unsigned rail = 2;

    start(32768);
    connect_all();
    add_traffic(0, HOT, 400);
    send_some();
    lose(rail);
    assert_traffic_arrives(5 * SECOND);
    script_run(3 * SECOND, 5 * MS);
    assert_int_equal(script.engine->rails[rail].outage, 1);
    mend(rail);
    assert_true(script_await(all_lanes_are_up, 20 * SECOND, 5 * MS));
    assert_int_equal(script.engine->rails[rail].outage, 0);
    assert_true(mrail_list_empty(&script.engine->rails[rail].affected));
    assert_int_equal(script.engine->rails[rail].num_probers, 0);
    add_traffic(0, MANY, 4);
    assert_traffic_arrives(10 * SECOND);
}

static void test_a_silent_rail_comes_back(void **state)
{
    check_mended_rail(script_lose_rail, script_mend_rail);
}

static void test_a_port_comes_back(void **state)
{
    check_mended_rail(script_port_down, script_port_up);
}

/* The peers whose paths probe the rail fail, so others must take over, also if
 * the user keeps the endpoints. */
static void check_probing_peers(int keep)
{
    const unsigned rail = 2;
    unsigned gone = 0;

    start(32768);
    connect_all();
    add_traffic(0, HOT, 400);
    send_some();
    script_lose_rail(rail);
    assert_traffic_arrives(5 * SECOND);
    script_run(SECOND, 5 * MS);
    for (unsigned i = 0; i < MANY; ++i) {
        mrail_peer_t *peer = script.peers[i].ep->peer;
        int probes = 0;

        for (unsigned slot = 0; slot < SCRIPT_SLOTS; ++slot) {
            probes |= peer->paths[slot].prober;
        }
        if (probes) {
            mrail_ctl_peer_failed(peer, -ETIMEDOUT);
            ++gone;
        }
    }
    assert_int_equal(gone, MRAIL_RAIL_PROBERS);
    script_run(100 * MS, MS);
    for (unsigned i = 0; (i < MANY) && !keep; ++i) {
        if (script.peers[i].num_failed != 0) {
            script_destroy_ep(&script.peers[i]);
        }
    }
    script_run(100 * MS, MS);
    assert_int_equal(script.engine->num_peers, keep ? MANY : MANY - gone);
    assert_true(script.engine->rails[rail].num_probers != 0);
    script_mend_rail(rail);
    script_run(15 * SECOND, 5 * MS);
    assert_int_equal(script.engine->rails[rail].outage, 0);
    assert_int_equal(script.engine->num_qps, (MANY - gone) * SCRIPT_RAILS);
}

static void test_probing_peers_leave(void **state)
{
    check_probing_peers(0);
}

static void test_probing_peers_fail(void **state)
{
    check_probing_peers(1);
}

/* The fault is at the other end, and affects many peers at the same time. The
 * rail still leads to all other peers. */
static void test_a_working_rail_has_no_outage(void **state)
{
    const unsigned rail = 2;

    start(32768);
    connect_all();
    add_traffic(0, HOT, 400);
    send_some();
    for (unsigned i = 0; i < HOT; ++i) {
        script.peers[i].lost_rails = 1 << rail;
    }
    assert_traffic_arrives(5 * SECOND);
    script_run(3 * SECOND, 5 * MS);
    assert_int_equal(script.engine->rails[rail].outage, 0);
    printf("# %llu lanes failed, %u peers have lost a rail\n",
           (unsigned long long)script.engine->counters.lanes_failed, HOT);
    assert_true(script.engine->counters.lanes_failed <= HOT);
    for (unsigned i = HOT; i < MANY; ++i) {
        assert_int_equal(script.peers[i].num_up, SCRIPT_SLOTS);
    }
}

static int free_traffic(void **state)
{
    free(to_peer);
    free(to_engine);
    return 0;
}

int main(void)
{
#define TEST(_name) cmocka_unit_test_teardown(_name, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_an_idle_peer_is_small),
        TEST(test_receive_buffers_have_a_budget),
        TEST(test_an_idle_peer_holds_no_send_buffers),
        TEST(test_a_poll_touches_no_idle_peer),
        TEST(test_traffic_touches_no_idle_peer),
        TEST(test_an_error_touches_no_idle_peer),
        TEST(test_an_event_touches_no_idle_peer),
        TEST(test_a_lost_peer_touches_no_idle_peer),
        TEST(test_a_search_for_lanes_is_bounded),
        TEST(test_connecting_is_lazy),
        TEST(test_connecting_is_paced),
        TEST(test_silent_peers_do_not_delay_others),
        TEST(test_failed_peers_leave_the_queue),
        TEST(test_burst),
        TEST(test_hot_peers),
        TEST(test_a_tenth_vanishes),
        TEST(test_keepalives_are_spread),
        TEST(test_a_rail_loses_everything),
        TEST(test_a_port_goes_down),
        TEST(test_a_device_is_lost),
        TEST(test_a_silent_rail_comes_back),
        TEST(test_a_port_comes_back),
        TEST(test_probing_peers_leave),
        TEST(test_probing_peers_fail),
        TEST(test_a_working_rail_has_no_outage),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, free_traffic);
}
