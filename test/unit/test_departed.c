/*
 * After a peer has left, its structures, lanes and address handles are freed.
 * Late messages and completions must not reach a freed peer.
 */
#include "config.h"
#include "rail/conn/conn.h"
#include "mock_peer.h"

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define LENGTH 64
#define MANY 10000
#define WARM_UP 2000 /* peers until pools and tables stop growing */

static uint8_t memory[LENGTH];

static size_t pack(void *dest, void *arg)
{
    memset(dest, 0, LENGTH);
    return LENGTH;
}

static void bye(unsigned peer_index)
{
    deliver_only(peer_index, 0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_BYE});
}

/* Lets the device return its datagrams, and lets progress calls free unused
 * memory. */
static void settle(void)
{
    run_control(2 * MRAIL_NS_PER_MS);
    progress();
    run_control(2 * MRAIL_NS_PER_MS);
    progress();
}

static void assert_freed(unsigned peer_index)
{
    settle();
    assert_null(peer_of(peer_index));
}

/* A peer connects, both ends send a message, and the peer leaves. */
static void visit(unsigned peer_index)
{
    mrail_ep_t *ep;

    sent.num_msgs = 0;
    connect_lanes(peer_index, 2);
    ep = ep_to(peer_index);
    assert_int_equal(mrail_ep_am_bcopy(ep, 1, pack, NULL), LENGTH);
    message(peer_index, 0, 0);
    progress();
    ep_close(ep);
    bye(peer_index);
    settle();
}

static void test_many_come_and_go(void **state)
{
    size_t used = 0;

    start(64);
    for (unsigned peer_index = 0; peer_index < MANY; ++peer_index) {
        if (peer_index == WARM_UP) {
            used = mallinfo2().uordblks;
        }
        visit(peer_index);
        assert_int_equal(engine->num_peers, 0);
    }
    assert_int_equal(engine->num_dead, 0);
    assert_int_equal(engine->num_qps, 0);
    assert_int_equal(fake_num_ahs, 0);
    assert_true(engine->num_lanes <= LANES);
    assert_true(mrail_list_empty(&engine->work));
    assert_null(mrail_heap_first(&engine->timers));
    assert_true(mrail_list_empty(&engine->active));
    assert_true(mrail_list_empty(&engine->acks));
    /* The limit is less than one byte per peer, so any leak exceeds it. */
    assert_true(mallinfo2().uordblks < used + (MANY - WARM_UP));
}

static void test_silent_peer_is_freed(void **state)
{
    start(64);
    connect_lanes(0, 2);
    mrail_ctl_peer_failed(peer_of(0), -ETIMEDOUT);
    progress();
    assert_freed(0);
    assert_int_equal(fake_num_ahs, 0);
}

static void test_endpoint_keeps_its_peer(void **state)
{
    mrail_ep_t *ep;

    start(64);
    connect_lanes(0, 2);
    ep = ep_to(0);
    bye(0);
    settle();
    assert_non_null(peer_of(0));
    assert_int_equal(peer_of(0)->dead, 2);
    assert_int_equal(mrail_ep_am_bcopy(ep, 1, pack, NULL), -ESHUTDOWN);
    ep_close(ep);
    assert_freed(0);
}

static unsigned num_reports;

static void on_ep_failed(void *arg, mrail_ep_t *ep, int status)
{
    assert_int_equal(status, -ESHUTDOWN);
    ++num_reports;
}

/* A regular exit is reported only to a user that checks the endpoint, before or
 * after the exit, and only once. */
static void test_exit_is_reported_after_check(void **state)
{
    for (unsigned before = 0; before < 2; ++before) {
        mrail_ep_t *ep;

        start(64);
        num_reports = 0;
        ifaces[0]->params.ep_failed = on_ep_failed;
        connect_lanes(0, 2);
        ep = ep_to(0);
        if (before) {
            assert_int_equal(mrail_ep_check(ep), 0);
        }
        bye(0);
        settle();
        assert_int_equal(num_reports, 0);
        for (unsigned i = 0; i < 2; ++i) {
            assert_int_equal(mrail_ep_check(ep), 0);
            mrail_iface_progress(ifaces[0]);
            assert_int_equal(num_reports, 1);
        }
        ep_close(ep);
        assert_freed(0);
        teardown(NULL);
    }
    start(64);
}

/* The engine has given up the peer, which may still be alive. The peer must not
 * receive BYE, which it would interpret as a regular close. */
static void test_given_up_peer_gets_no_bye(void **state)
{
    mrail_ep_t *ep;

    start(64);
    connect_lanes(0, 2);
    ep = ep_to(0);
    mrail_ctl_peer_failed(peer_of(0), -ETIMEDOUT);
    settle();
    ep_close(ep);
    assert_freed(0);
    assert_int_equal(count_sent(MRAIL_CTL_BYE), 0);
}

static void test_late_datagrams(void **state)
{
    start(64);
    visit(0);
    assert_null(peer_of(0));
    for (unsigned i = 0; i < 2; ++i) {
        deliver_hello(0);
        deliver_lane(0, MRAIL_CTL_LANE_REQ, 0, 40, 9);
        deliver_lane(0, MRAIL_CTL_FAIL, 0, 41, 9);
        deliver(0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_PROBE, .seq = 42});
        assert_null(peer_of(0));
        bye(0);
        settle();
    }
    assert_int_equal(engine->num_peers, 0);
    assert_int_equal(engine->num_qps, 0);
    /* A message from a new process must not be dropped as a late datagram from
     * an old process. */
    deliver_hello(1);
    assert_non_null(peer_of(1));
}

/* The address of an endpoint may name a process that has already left. */
static void test_endpoint_to_departed_peer(void **state)
{
    mrail_ep_t *ep;

    start(64);
    visit(0);
    ep = ep_to(0);
    progress();
    assert_int_equal(mrail_ep_am_bcopy(ep, 1, pack, NULL), -ESHUTDOWN);
    assert_int_equal(mrail_ep_flush(ep, &completions), 0);
    assert_int_equal(mrail_ep_check(ep), 0); /* no callback is set */
    settle();
    assert_int_equal(engine->num_dead, 1);
    ep_close(ep);
    assert_freed(0);
    assert_int_equal(engine->num_peers, 0);
    assert_int_equal(engine->num_dead, 0);
}

/* The device may still be reading the address handle. */
static void test_datagram_in_flight(void **state)
{
    start(64);
    connect_lanes(0, 2);
    fake_ud_hold = 1;
    deliver(0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_PROBE, .seq = 42});
    assert_int_equal(engine->rails[0].ud_tx_pending, 1);
    bye(0);
    settle();
    assert_freed(0);
    assert_true(fake_num_ahs != 0);
    fake_ud_hold = 0;
    assert_true(fake_complete_send(engine->rails[0].ud_cq, IBV_WC_SUCCESS));
    run_control(0);
    assert_int_equal(fake_num_ahs, 0);
}

static void leave_and_progress(void)
{
    bye(0);
    progress();
    settle();
    /* The engine still uses the peer after the callback, so it must not be
     * freed here. */
    assert_non_null(peer_of(0));
}

static void test_peer_leaves_in_its_callback(void **state)
{
    start(64);
    connect_lanes(0, 2);
    in_callback = leave_and_progress;
    message(0, 0, 0);
    message(0, 0, 0);
    mrail_iface_progress(ifaces[0]);
    assert_null(in_callback);
    assert_freed(0);
}

/* Undelivered messages outlive their peer: as copies in the inbox, or in
 * receive buffers if the inbox is full. */
static void test_messages_outlive_their_peer(void **state)
{
    const mrail_rx_t *rx;

    start(64);
    connect_lanes(0, 2);
    message(0, 0, 1);
    mrail_iface_progress(ifaces[0]);
    ifaces[1]->inbox_bytes += MRAIL_INBOX_BYTES;
    message(0, 0, 1);
    mrail_iface_progress(ifaces[0]);
    ifaces[1]->inbox_bytes -= MRAIL_INBOX_BYTES;
    bye(0);
    assert_freed(0);
    assert_false(mrail_list_empty(&ifaces[1]->inbox));
    mrail_list_for_each(rx, &ifaces[1]->inbox, mrail_rx_t, am.list) {
        assert_null(rx->lane);
    }
    mrail_iface_progress(ifaces[1]);
    assert_true(mrail_list_empty(&ifaces[1]->inbox));
    assert_int_equal(fake_num_receives(engine->rails[0].srq),
                     engine->rails[0].srq_used);
}

/* The operation fails while a different iface polls. The operation's own iface
 * learns of the failure only after the peer has been freed. */
static void test_completions_outlive_their_peer(void **state)
{
    uint8_t packed[4 + 4 * MRAIL_MAX_RAILS];
    mrail_iov_t iov = {.buffer = memory, .length = LENGTH};
    mrail_rkey_t *rkey;
    mrail_mem_t *mem;
    mrail_ep_t *ep;

    start(64);
    assert_int_equal(mrail_mem_reg(engine, memory, sizeof(memory), &mem), 0);
    mrail_rkey_pack(mem, packed);
    assert_int_equal(mrail_rkey_unpack(packed, &rkey), 0);
    connect_lanes(0, 2);
    ep = ep_to(0);
    iov.mem = mem;
    assert_int_equal(
        mrail_ep_put_zcopy(ep, &iov, 1, 0x5000, rkey, &completions),
        -EINPROGRESS);
    ep_close(ep);
    bye(0);
    for (unsigned i = 0; i < 4; ++i) {
        run_control(2 * MRAIL_NS_PER_MS);
        mrail_iface_progress(ifaces[1]);
        fake_complete_all(engine, IBV_WC_WR_FLUSH_ERR);
    }
    assert_null(peer_of(0));
    assert_int_equal(completions.count, 0);
    mrail_iface_progress(ifaces[0]);
    assert_int_equal(completions.count, 1);
    assert_int_equal(completions.status[0], -ESHUTDOWN);
    assert_int_equal(engine->ops.num_used, 0);
    mrail_rkey_release(rkey);
    mrail_mem_dereg(mem);
}

int main(void)
{
#define TEST(_name) cmocka_unit_test_teardown(_name, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_many_come_and_go),
        TEST(test_silent_peer_is_freed),
        TEST(test_endpoint_keeps_its_peer),
        TEST(test_exit_is_reported_after_check),
        TEST(test_given_up_peer_gets_no_bye),
        TEST(test_late_datagrams),
        TEST(test_endpoint_to_departed_peer),
        TEST(test_datagram_in_flight),
        TEST(test_peer_leaves_in_its_callback),
        TEST(test_messages_outlive_their_peer),
        TEST(test_completions_outlive_their_peer),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
