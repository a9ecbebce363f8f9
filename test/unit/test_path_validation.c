/*
 * After the failure of a path, a new lane on it first carries a single READ,
 * which must succeed before the lane takes other work
 * (docs/decisions/0009-path-validation-by-read.md). The tests also cover the
 * order of requests if only some lanes are available after a failure.
 */
#include "config.h"
#include "mock_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "rail/conn/conn.h"
#include "rail/data/peer_lanes.h"
#include "rail/engine/engine.h"
#include "rail/state/engine.h"

#define VALIDATION_NS (1 * MRAIL_NS_PER_SEC) /* time limit for the READ */

static mrail_health_state_t health(unsigned slot)
{
    return peer_of(0)->paths[slot].health.state;
}

/* Runs the progress thread while the device completes nothing. */
static void look(void)
{
    for (unsigned i = 0; i < 4; ++i) {
        mrail_iface_progress(ifaces[0]);
    }
}

/* Lanes 0 and 1 are up. Lane 0 fails and is connected again. */
static mrail_lane_t *connect_anew(void)
{
    start(64);
    connect_lanes(0, 2);
    break_lanes(0, 1);
    confirm_broken(0, 0, 0);
    assert_int_equal(health(0), MRAIL_HEALTH_RETIRED);
    sent.num_reads = 0;
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 0, 50, 7);
    deliver_lane(0, MRAIL_CTL_LANE_READY, 0, 50, 7);
    assert_int_equal(peer_of(0)->lanes[0]->state, MRAIL_LANE_UNVALIDATED);
    return peer_of(0)->lanes[0];
}

/* A path that has not failed before needs no validation. */
static void test_first_epoch_needs_none(void **state)
{
    start(64);
    deliver_hello(0);
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 0, 10, 5);
    deliver_lane(0, MRAIL_CTL_LANE_READY, 0, 10, 5);
    assert_int_equal(peer_of(0)->up_mask, 1);
    look();
    assert_int_equal(sent.num_reads, 0);
}

static void test_used_after_a_read(void **state)
{
    mrail_lane_t *lane = connect_anew();

    peer_of(0)->paths[0].stalls = 3;
    assert_int_equal(peer_of(0)->up_mask, 2);
    look();
    assert_int_equal(sent.num_reads, 1);
    assert_ptr_equal(sent.read_qp, lane->qp);
    assert_int_equal(peer_of(0)->up_mask, 2);
    assert_int_not_equal(health(0), MRAIL_HEALTH_UP);
    fake_complete_all(engine, IBV_WC_SUCCESS);
    look();
    assert_int_equal(sent.num_reads, 1);
    assert_int_equal(peer_of(0)->up_mask, 3);
    assert_int_equal(health(0), MRAIL_HEALTH_UP);
    assert_int_equal(mrail_peer_num_up(peer_of(0)), 2);
    assert_int_equal(lane->state, MRAIL_LANE_UP);
    /* Success resets the count of stalls. */
    assert_int_equal(peer_of(0)->paths[0].stalls, 0);
}

/* The READ delays only the use of its own lane. A flush does not wait for the
 * READ. */
static void test_flush_does_not_wait_for_it(void **state)
{
    (void)connect_anew();
    look();
    assert_int_equal(sent.num_reads, 1);
    assert_int_equal(mrail_ep_flush(ep_to(0), NULL), 0);
}

static void test_read_fails(void **state)
{
    mrail_lane_t *lane = connect_anew();

    look();
    fake_complete_all(engine, IBV_WC_RETRY_EXC_ERR);
    look();
    assert_int_equal(lane->state, MRAIL_LANE_CLOSING);
    assert_int_equal(peer_of(0)->up_mask, 2);
    assert_int_equal(health(0), MRAIL_HEALTH_RETIRED);
    assert_int_equal(peer_of(0)->failed, 0);
}

/* The READ never completes, for example because the timeout of the device is
 * late or missing. */
static void test_read_does_not_come_back(void **state)
{
    mrail_lane_t *lane = connect_anew();

    look();
    run_control(VALIDATION_NS - 1);
    look();
    assert_int_equal(lane->state, MRAIL_LANE_VALIDATING);
    assert_int_equal(peer_of(0)->up_mask, 2);
    run_control(1);
    look();
    assert_int_equal(lane->state, MRAIL_LANE_CLOSING);
    assert_int_equal(sent.num_reads, 1);
    assert_int_equal(health(0), MRAIL_HEALTH_RETIRED);
}

static void test_read_is_not_posted(void **state)
{
    mrail_lane_t *lane = connect_anew();

    fake_fail_in = 1;
    look();
    assert_int_equal(sent.num_reads, 1);
    assert_int_equal(lane->state, MRAIL_LANE_CLOSING);
    assert_int_equal(peer_of(0)->up_mask, 2);
}

/* A lane takes no work during validation. If no other lane is up, the peer
 * therefore counts as unreachable, and further lanes are requested. */
static void test_lane_under_validation_carries_no_work(void **state)
{
    mrail_peer_t *peer;

    (void)connect_anew();
    look();
    peer = peer_of(0);
    assert_int_equal(peer->unreachable_ns, 0);
    mrail_failover_request(peer->lanes[1], "test");
    look();
    peer->requested_slots = 1;
    run_control(MRAIL_NS_PER_MS);
    assert_int_equal(peer->up_mask, 0);
    assert_int_not_equal(peer->unreachable_ns, 0);
    assert_int_equal(peer->requested_slots, 2);
    fake_complete_all(engine, IBV_WC_SUCCESS);
    look();
    assert_int_equal(peer->up_mask, 1);
    assert_int_equal(peer->unreachable_ns, 0);
}

/* ---- order of requests ---- */

static void test_turn_rotates(void **state)
{
    mrail_peer_t *peer;

    start(64);
    connect_lanes(0, 2);
    peer = peer_of(0);
    for (unsigned k = 0; k < LANES; ++k) {
        assert_int_equal(mrail_ctl_turn(peer, k), k);
    }
    break_lanes(0, 1);
    assert_int_equal(mrail_ctl_turn(peer, 0), 1);
    assert_int_equal(mrail_ctl_turn(peer, 1), 0);
    /* Lanes that carry no messages are requested later. */
    assert_int_equal(mrail_ctl_turn(peer, 2), 2);
    assert_int_equal(mrail_ctl_turn(peer, 3), 3);
}

/* Two lanes are requested, but only one is available. The lane must not be on
 * the path that has just failed. */
static void test_other_pair_is_requested_first(void **state)
{
    mrail_peer_t *peer;
    unsigned before;

    start(1);
    connect_lanes(0, 1);
    peer = peer_of(0);
    break_lanes(0, 1);
    confirm_broken(0, 0, 0);
    before = count_sent(MRAIL_CTL_LANE_REQ);
    peer->requested_slots = 2;
    peer->no_space_mask = 0;    /* no lane has been available so far */
    peer->paths[0].restore = 1; /* its probes are answered */
    mrail_ctl_work(peer);
    run_control(0);
    assert_int_equal(count_sent(MRAIL_CTL_LANE_REQ), before + 1);
    assert_int_equal(last(MRAIL_CTL_LANE_REQ)->lane.slot, 1);
    assert_null(peer->lanes[0]);
}

int main(int argc, char **argv)
{
#define TEST(_name) cmocka_unit_test_teardown(_name, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_first_epoch_needs_none),
        TEST(test_used_after_a_read),
        TEST(test_flush_does_not_wait_for_it),
        TEST(test_read_fails),
        TEST(test_read_does_not_come_back),
        TEST(test_read_is_not_posted),
        TEST(test_lane_under_validation_carries_no_work),
        TEST(test_turn_rotates),
        TEST(test_other_pair_is_requested_first),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
