/* Tests late, repeated and abandoned requests for lanes. */
#include "config.h"
#include "rail/conn/conn.h"
#include "rail/data/peer_lanes.h"
#include "mock_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* A rejected request is repeated when a lane is available again. The peer no
 * longer has that request, so it must send a new request for the lane. */
static void test_late_repeat(void **state)
{
    start(4);
    connect_lanes(0, 3);
    deliver_hello(1);
    deliver_lane(1, MRAIL_CTL_LANE_REQ, 0, 20, 7);
    deliver_lane(1, MRAIL_CTL_LANE_READY, 0, 20, 7);
    assert_int_equal(peer_of(1)->lanes[0]->state, MRAIL_LANE_UP);
    deliver_lane(1, MRAIL_CTL_LANE_REQ, 1, 21, 8);
    assert_non_null(last(MRAIL_CTL_REFUSE));
    assert_int_equal(last(MRAIL_CTL_REFUSE)->seq, 21);
    (void)start_eviction(0);
    confirm_all(0);
    assert_null(peer_of(0)->lanes[2]); /* lane 2 was also requested */
    sent.num_msgs = 0;
    deliver_lane(1, MRAIL_CTL_LANE_REQ, 1, 21, 8);
    assert_null(peer_of(1)->lanes[1]);
    assert_non_null(last(MRAIL_CTL_REFUSE));
    /* The stated reason must not be a lack of QPs, because the peer would then
     * not send a new request. */
    assert_int_equal(last(MRAIL_CTL_REFUSE)->refuse.reason,
                     MRAIL_REASON_RESOURCES);
    deliver_lane(1, MRAIL_CTL_LANE_REQ, 1, 22, 9);
    assert_int_equal(peer_of(1)->lanes[1]->state, MRAIL_LANE_ACCEPTING);
    assert_int_equal(last(MRAIL_CTL_LANE_REP)->seq, 22);
}

/* The peer abandoned its request in favour of a request from this end that
 * crossed it. The late request is accepted, and then the peer sends a new
 * one. */
static void test_abandoned_request(void **state)
{
    start(64);
    connect_lanes(0, 1);
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 1, 21, 8);
    assert_int_equal(peer_of(0)->lanes[1]->state, MRAIL_LANE_ACCEPTING);
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 1, 22, 9);
    progress();
    assert_null(peer_of(0)->lanes[1]);
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 1, 23, 10);
    assert_int_equal(last(MRAIL_CTL_LANE_REP)->seq, 23);
}

/* A peer may have more lanes on a rail than this end has slots. It must work
 * without the extra lanes, and must not repeat its requests. */
static void test_more_lanes_than_here(void **state)
{
    start(64);
    connect_lanes(0, LANES);
    assert_int_equal(peer_of(0)->slot_limit, LANES);
    sent.num_msgs = 0;
    deliver_lane(0, MRAIL_CTL_LANE_REQ, LANES, 21, 8);
    assert_non_null(last(MRAIL_CTL_REFUSE));
    assert_int_equal(last(MRAIL_CTL_REFUSE)->seq, 21);
    assert_int_equal(last(MRAIL_CTL_REFUSE)->refuse.slot, LANES);
    assert_int_equal(last(MRAIL_CTL_REFUSE)->refuse.reason,
                     MRAIL_REASON_NO_RAIL);
    deliver_lane(0, MRAIL_CTL_EVICT, LANES, 22, 8);
    deliver_lane(0, MRAIL_CTL_FAIL, LANES, 23, 8);
    assert_int_equal(engine->counters.ctl_unexpected, 2);
    assert_int_equal(peer_of(0)->num_slots, LANES);
}

/* All messages of an earlier epoch arrive a second time. */
static void test_repeated_epoch(void **state)
{
    start(64);
    connect_lanes(0, 2);
    deliver_lane(0, MRAIL_CTL_CONFIRM, 1, start_eviction(0), 5);
    progress();
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 1, 11, 5);
    deliver_lane(0, MRAIL_CTL_LANE_READY, 1, 11, 5);
    progress();
    assert_int_equal(peer_of(0)->up_mask, 1);
    assert_null(peer_of(0)->lanes[1]);
}

/* A peer requests further lanes only after it has had a first lane. However,
 * that first lane may have failed, and the lane pending at this end may be a
 * different one. Only LANE_READY proves that this lane is up. */
static void test_first_is_not_ready(void **state)
{
    start(64);
    deliver_hello(0);
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 0, 12, 5);
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 1, 11, 6); /* requested before slot 0 */
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 3, 13, 7); /* requested after slot 0 */
    deliver_lane(0, MRAIL_CTL_LANE_READY, 1, 11, 6);
    progress();
    assert_int_equal(peer_of(0)->up_mask, 1 << 1);
    assert_int_equal(peer_of(0)->lanes[0]->state, MRAIL_LANE_ACCEPTING);
    assert_int_equal(peer_of(0)->lanes[3]->state, MRAIL_LANE_ACCEPTING);
    deliver_lane(0, MRAIL_CTL_LANE_READY, 0, 12, 5);
    progress();
    assert_int_equal(peer_of(0)->up_mask, 3);
    assert_int_equal(mrail_peer_num_up(peer_of(0)), 2);
    assert_int_equal(peer_of(0)->up[0]->slot, 0);
}

/* The peer requests a lane and then does not reply. The engine must not fail
 * the peer, because this end does not need the lane. */
static void test_lane_not_wanted(void **state)
{
    start(64);
    connect_lanes(0, 1);
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 1, 21, 8);
    assert_int_equal(peer_of(0)->lanes[1]->state, MRAIL_LANE_ACCEPTING);
    for (unsigned i = 0; i < 100; ++i) {
        run_control(500 * MRAIL_NS_PER_MS);
        progress();
        if (last(MRAIL_CTL_EVICT) != NULL) {
            deliver_lane(0, MRAIL_CTL_CONFIRM, 1, last(MRAIL_CTL_EVICT)->seq,
                         8);
            progress();
        }
    }
    assert_int_equal(peer_of(0)->failed, 0);
}

/* A request from an earlier epoch arrives late, while the peer uses the current
 * epoch. */
static void test_earlier_epoch(void **state)
{
    mrail_lane_t *lane;
    uint32_t seq;

    start(64);
    connect_lanes(0, 2); /* slot 1: request 11, epoch 5 */
    deliver_lane(0, MRAIL_CTL_CONFIRM, 1, start_eviction(0), 5);
    progress();
    assert_null(peer_of(0)->lanes[1]);
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 1, 30, 6);
    deliver_lane(0, MRAIL_CTL_LANE_READY, 1, 30, 6);
    progress();
    lane = peer_of(0)->lanes[1];
    seq = start_eviction(0);
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 1, 11, 5); /* this request is late */
    progress();
    assert_ptr_equal(peer_of(0)->lanes[1], lane);
    refuse(0, 1, seq, MRAIL_REASON_IN_USE);
    progress();
    assert_int_equal(lane->state, MRAIL_LANE_UP);
}

/* A request for the next epoch shows that the peer has reaped the lane. That
 * confirms the eviction, and a new lane is connected. */
static void test_next_epoch(void **state)
{
    uint32_t seq;

    start(64);
    connect_lanes(0, 2);
    seq = start_eviction(0);
    sent.num_msgs = 0;
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 1, 30, 6);
    assert_non_null(last(MRAIL_CTL_REFUSE));
    /* The request is sent to the peer again immediately. */
    assert_non_null(last(MRAIL_CTL_EVICT));
    assert_int_equal(last(MRAIL_CTL_EVICT)->seq, seq);
    deliver_lane(0, MRAIL_CTL_CONFIRM, 1, seq, 5);
    progress();
    assert_null(peer_of(0)->lanes[1]);
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 1, 31, 7);
    deliver_lane(0, MRAIL_CTL_LANE_READY, 1, 31, 7);
    progress();
    assert_int_equal(peer_of(0)->lanes[1]->state, MRAIL_LANE_UP);
}

/* Epochs distinguish successive QPs of a lane, so they do not repeat soon. */
static void test_epochs(void **state)
{
    static uint8_t seen[65536];
    mrail_peer_t *peer;

    memset(seen, 0, sizeof(seen));
    start(64);
    connect_lanes(0, 1);
    peer = peer_of(0);
    for (unsigned i = 0; i < 2000; ++i) {
        const mrail_ctl_msg_t *req;

        run_control(500 * MRAIL_NS_PER_MS); /* a lane may be available again */
        sent.num_msgs = 0;
        peer->requested_slots = 2;
        mrail_ctl_work(peer);
        run_control(0);
        req = last(MRAIL_CTL_LANE_REQ);
        assert_non_null(req);
        assert_int_equal(seen[req->lane.epoch], 0);
        seen[req->lane.epoch] = 1;
        refuse(0, 1, req->seq, MRAIL_REASON_QP_BUDGET);
    }
}

/* The epochs repeat after many requests. A lane never has the epoch of the
 * previous lane of its slot, whose late messages are dropped. */
static void test_epochs_repeat(void **state)
{
    const mrail_ctl_msg_t *req;
    mrail_peer_t *peer;
    uint16_t epoch, next;

    start(64);
    connect_lanes(0, 1);
    peer = peer_of(0);
    next = (uint16_t)(engine->epoch + 1);
    epoch = (uint16_t)((next << 1) | (engine->id > peer->id));
    peer->prev_epochs[1] = (mrail_prev_epoch_t){.known = 1, .epoch = epoch};
    sent.num_msgs = 0;
    peer->requested_slots = 2;
    mrail_ctl_work(peer);
    run_control(0);
    req = last(MRAIL_CTL_LANE_REQ);
    assert_non_null(req);
    assert_int_equal(req->lane.epoch, (uint16_t)(epoch + 2));
    refuse(0, 1, req->seq, MRAIL_REASON_QP_BUDGET);
}

int main(int argc, char **argv)
{
#define TEST(_name) cmocka_unit_test_teardown(_name, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_late_repeat),
        TEST(test_abandoned_request),
        TEST(test_more_lanes_than_here),
        TEST(test_repeated_epoch),
        TEST(test_first_is_not_ready),
        TEST(test_lane_not_wanted),
        TEST(test_earlier_epoch),
        TEST(test_next_epoch),
        TEST(test_epochs),
        TEST(test_epochs_repeat),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
