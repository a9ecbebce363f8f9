/*
 * Tests the replay after lanes have failed, and the credit that is
 * reserved for replay. Most tests send two messages, the first on lane 0 and
 * the second on lane 1.
 */
#include "config.h"
#include "rail/conn/conn.h"
#include "mock_peer.h"

#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define LENGTH 4096 /* too long to stay on the first lane */

static size_t pack(void *dest, void *arg)
{
    memset(dest, 0, LENGTH);
    return LENGTH;
}

/* The peer requests the lane of a slot and grants this many credits. */
static void connect_lane(unsigned slot, uint32_t seq, uint16_t credits)
{
    mrail_ctl_msg_t msg;

    fake_lane_msg(&msg, MRAIL_CTL_LANE_REQ, slot, seq, (uint16_t)seq);
    msg.lane.credits = credits;
    deliver(0, &msg);
    deliver_lane(0, MRAIL_CTL_LANE_READY, slot, seq, (uint16_t)seq);
    assert_true(mrail_lane_is(peer_of(0)->lanes[slot], MRAIL_LANE_CONNECTED));
    progress();
}

/* Returns the lane of the n-th unacknowledged message. */
static const mrail_lane_t *lane_of(unsigned n)
{
    const mrail_am_msg_t *msg;

    mrail_list_for_each(msg, &peer_of(0)->am.unacked, mrail_am_msg_t, list) {
        if (n-- == 0) {
            return mrail_list_entry(msg->lane, mrail_lane_t, am);
        }
    }
    return NULL;
}

static void send_two(uint16_t credits)
{
    mrail_ep_t *ep;

    start(64);
    deliver_hello(0);
    connect_lane(0, 10, credits);
    connect_lane(1, 11, credits);
    ep = ep_to(0);
    for (unsigned i = 0; i < 2; ++i) {
        assert_int_equal(mrail_ep_am_bcopy(ep, 1, pack, NULL), LENGTH);
        assert_ptr_equal(lane_of(i), peer_of(0)->lanes[i]);
    }
    progress();
}

/* Delivers a message from the peer that acknowledges the first `ack` messages
 * and grants credits on a lane. */
static void deliver_ack(unsigned slot, uint32_t ack, uint16_t credit)
{
    mrail_lane_t *lane = peer_of(0)->lanes[slot];
    mrail_data_hdr_t hdr = {.version = MRAIL_WIRE_VERSION,
                            .type = MRAIL_DATA_ACK,
                            .tag = lane->rx_tag,
                            .ack = htobe32(ack),
                            .credit = htobe16(credit)};

    assert_true(fake_deliver(lane->qp, &hdr, sizeof(hdr), IBV_WC_SUCCESS));
}

static void acknowledge(unsigned slot, uint32_t ack, uint16_t credit)
{
    deliver_ack(slot, ack, credit);
    progress();
}

/* The first message may be missing as well, because its lane is not drained
 * yet. The only credit is therefore reserved for it. */
static void test_last_credit_waits_for_the_first(void **state)
{
    mrail_lane_t *lane;

    send_two(8);
    break_lanes(0, 2);
    confirm_broken(0, 1, 0);
    connect_lane(1, 30, 1);
    lane = peer_of(0)->lanes[1];
    assert_int_equal(lane->am.sent, 0);
    assert_int_equal(engine->counters.am_replayed, 0);
    confirm_broken(0, 0, 0);
    assert_int_equal(engine->counters.am_replayed, 1);
    assert_ptr_equal(lane_of(0), lane);
    assert_ptr_not_equal(lane_of(1), lane);
    acknowledge(1, 1, 2);
    assert_int_equal(engine->counters.am_replayed, 2);
    assert_ptr_equal(lane_of(0), lane);
    acknowledge(1, 2, 3);
    assert_true(mrail_list_empty(&peer_of(0)->am.unacked));
    assert_int_equal(peer_of(0)->recovering, 0);
}

/* With more credits, the second message need not wait. */
static void test_other_credits_do_not_wait(void **state)
{
    send_two(8);
    break_lanes(0, 2);
    confirm_broken(0, 1, 0);
    connect_lane(1, 30, 2);
    assert_int_equal(engine->counters.am_replayed, 1);
    assert_int_equal(mrail_am_lane_credits(&peer_of(0)->lanes[1]->am), 1);
}

/* The first message was sent on the lane that takes the second one, so the
 * second one cannot overtake it and need not wait. */
static void test_last_credit_behind_the_first(void **state)
{
    mrail_lane_t *lane;

    send_two(2);
    lane = peer_of(0)->lanes[0];
    assert_int_equal(mrail_am_lane_credits(&lane->am), 1);
    mrail_failover_request(peer_of(0)->lanes[1], "test");
    progress();
    run_control(20 * MRAIL_NS_PER_MS);
    progress();
    confirm_broken(0, 1, 0);
    assert_ptr_equal(lane_of(1), lane);
    assert_int_equal(mrail_am_lane_credits(&lane->am), 0);
}

/* The first message has arrived, although its lane has failed. */
static void test_last_credit_behind_an_arrival(void **state)
{
    mrail_lane_t *lane;

    send_two(8);
    break_lanes(0, 2);
    confirm_broken(0, 1, 0);
    confirm_broken(0, 0, 1);
    connect_lane(1, 30, 1);
    lane = peer_of(0)->lanes[1];
    assert_int_equal(engine->counters.am_replayed, 1);
    assert_ptr_equal(lane_of(1), lane);
    assert_int_equal(mrail_am_lane_credits(&lane->am), 0);
}

/* Few buffers are reserved for messages without credit. Such a buffer must be
 * reposted immediately, because the next message without credit may come when
 * the peer has used all its credits. */
static void test_buffer_without_credit_goes_back_at_once(void **state)
{
    unsigned rail;

    start(64);
    connect_lanes(0, 1);
    rail = peer_of(0)->lanes[0]->rail->index;
    message(0, 0, 0);
    mrail_iface_progress(ifaces[0]);
    /* The buffer waits to be reposted in a batch. */
    assert_int_equal(engine->num_repost[rail], 1);
    deliver_ack(0, 0, 8);
    mrail_iface_progress(ifaces[0]);
    assert_int_equal(engine->num_repost[rail], 0);
}

static void send_all(mrail_ep_t *ep)
{
    ptrdiff_t ret;

    do {
        ret = mrail_ep_am_bcopy(ep, 1, pack, NULL);
    } while (ret == LENGTH);
    assert_int_equal(ret, -EAGAIN);
}

/* A credit-blocked sender asks for credits on the lane with the smallest
 * window, and on only one lane at a time. */
static void test_credit_blocked_on_smallest_window(void **state)
{
    const mrail_lane_t *first, *second;
    mrail_ep_t *ep;

    start(64);
    deliver_hello(0);
    connect_lane(0, 10, 8);
    connect_lane(1, 11, 4);
    ep = ep_to(0);
    first = peer_of(0)->lanes[0];
    second = peer_of(0)->lanes[1];
    send_all(ep);
    assert_int_equal(second->am.sent, 4 - MRAIL_REPLAY_CREDITS);
    assert_true(second->am.blocked);
    assert_false(first->am.blocked);
    /* A lane reports only once, with its next message, that it was blocked. */
    acknowledge(1, 0, 20);
    assert_int_equal(mrail_ep_am_bcopy(ep, 1, pack, NULL), LENGTH);
    assert_false(second->am.blocked);
    /* The other lane now has the smaller window. */
    send_all(ep);
    assert_true(first->am.sent < second->am.sent);
    assert_true(first->am.blocked);
    assert_false(second->am.blocked);
}

int main(int argc, char **argv)
{
#define TEST(_name) cmocka_unit_test_teardown(_name, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_last_credit_waits_for_the_first),
        TEST(test_other_credits_do_not_wait),
        TEST(test_last_credit_behind_the_first),
        TEST(test_last_credit_behind_an_arrival),
        TEST(test_buffer_without_credit_goes_back_at_once),
        TEST(test_credit_blocked_on_smallest_window),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
