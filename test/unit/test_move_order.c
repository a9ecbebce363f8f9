/*
 * Tests move_lane.c and move_decide.c with messages that are late, repeated or
 * out of order, and with lanes that fail in between. test/property/test_moves.c
 * explores all orders.
 */
#include "config.h"
#include "mock_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "rail/conn/conn.h"
#include "rail/data/peer_lanes.h"
#include "rail/params.h"
#include "rail/proto/wire.h"
#include "rail/recovery/recovery.h"
#include "rail/state/engine.h"
#include "rail/state/signals.h"
#include "rail/verbs/rail.h"

#define WINDOW (250 * MRAIL_NS_PER_MS)
#define TICK (25 * MRAIL_NS_PER_MS)
#define FAST (12ull << 20) /* bytes carried in a window */

static mrail_lane_t *lane_of(unsigned slot)
{
    return peer_of(0)->lanes[slot];
}

static void tick(mrail_ns_t after_ns)
{
    fake_now_ns += after_ns;
    pthread_mutex_lock(&engine->ctl_lock);
    (void)mrail_move_tick(peer_of(0), fake_now_ns);
    pthread_mutex_unlock(&engine->ctl_lock);
}

/* Two rails have `lanes` lanes each. Even slots are on the same pair of
 * rails. */
static void begin(unsigned lanes)
{
    start(64);
    engine->config.uplinks = MRAIL_SIZE_AUTO;
    engine->config.lanes_per_rail = lanes;
    connect_lanes(0, 2 * lanes);
    assert_int_equal(mrail_peer_num_up(peer_of(0)), 2 * lanes);
    tick(0);
}

static void work(unsigned slot, unsigned direction, uint64_t bytes)
{
    if (lane_of(slot) != NULL) {
        lane_of(slot)->work[direction].bytes += bytes;
        lane_of(slot)->work[direction].busy_ns += WINDOW;
        lane_of(slot)->rail->work[direction] += bytes;
    }
}

static void break_lane(unsigned slot)
{
    mrail_failover_request(lane_of(slot), "test");
    progress();
    run_control(20 * MRAIL_NS_PER_MS);
    progress();
    confirm_broken(0, slot, 0);
}

/* Delivers MOVE or MOVE_BACK for slot 1. */
static void request(mrail_ctl_type_t type, uint32_t seq)
{
    mrail_ctl_msg_t msg = {.type = type, .seq = seq};

    if (type == MRAIL_CTL_MOVE) {
        msg.move.slot = 1;
        msg.move.like = MRAIL_MOVE_RANDOM;
    } else {
        msg.path.slot = 1;
    }
    deliver(0, &msg);
}

/* ---- requests of the peer ---- */

static void test_repeated_move(void **state)
{
    uint16_t before;

    begin(2);
    request(MRAIL_CTL_MOVE, 7);
    before = lane_of(1)->sport;
    fake_now_ns += WINDOW;
    request(MRAIL_CTL_MOVE, 7);
    assert_int_equal(lane_of(1)->sport, before);
    assert_int_equal(engine->counters.lanes_moved, 1);
}

/* A random port is never the current one, so that each move changes the
 * port. */
static void test_every_move_counts(void **state)
{
    begin(2);
    for (unsigned i = 1; i <= 40000; ++i) {
        uint16_t before = lane_of(1)->sport;

        request(MRAIL_CTL_MOVE, i);
        run_control(WINDOW);
        assert_int_not_equal(lane_of(1)->sport, before);
        sent.num_msgs = 0;
    }
    assert_int_equal(engine->counters.lanes_moved, 40000);
}

static void test_late_move(void **state)
{
    uint16_t before;

    begin(2);
    request(MRAIL_CTL_MOVE, 8);
    before = lane_of(1)->sport;
    fake_now_ns += WINDOW;
    request(MRAIL_CTL_MOVE, 7);
    assert_int_equal(lane_of(1)->sport, before);
    assert_int_equal(engine->counters.lanes_moved, 1);
}

/* MOVE_BACK overtakes its MOVE. */
static void test_move_after_its_end(void **state)
{
    uint16_t before;

    begin(2);
    before = lane_of(1)->sport;
    request(MRAIL_CTL_MOVE_BACK, 7);
    fake_now_ns += WINDOW;
    request(MRAIL_CTL_MOVE, 7);
    assert_int_equal(lane_of(1)->sport, before);
    assert_int_equal(engine->counters.lanes_moved, 0);
}

/* The engine dropped a MOVE that arrived too soon. It must not process that
 * MOVE later, because the peer has measured without it since then. */
static void test_move_too_soon(void **state)
{
    uint16_t before;

    begin(2);
    request(MRAIL_CTL_MOVE, 7);
    request(MRAIL_CTL_MOVE, 8);
    before = lane_of(1)->sport;
    fake_now_ns += WINDOW;
    request(MRAIL_CTL_MOVE, 8);
    assert_int_equal(lane_of(1)->sport, before);
    assert_int_equal(engine->counters.lanes_moved, 1);
}

/* MOVE_BACK arrives while the send queue is still drained for its MOVE. */
static void test_back_while_draining(void **state)
{
    uint16_t before;

    begin(2);
    before = lane_of(1)->sport;
    fake_sq_draining = 1;
    request(MRAIL_CTL_MOVE, 7);
    run_control(WINDOW);
    request(MRAIL_CTL_MOVE_BACK, 7);
    fake_sq_draining = 0;
    run_control(MRAIL_NS_PER_MS);
    assert_int_equal(lane_of(1)->qp->state, IBV_QPS_RTS);
    assert_int_equal(lane_of(1)->sport, before);
}

/* MOVE_BACK for a move that did not happen leaves the previous move
 * unchanged. */
static void test_back_after_no_move(void **state)
{
    uint16_t before;

    begin(2);
    request(MRAIL_CTL_MOVE, 7);
    before = lane_of(1)->sport;
    fake_now_ns += WINDOW;
    fake_sq_draining = 1;
    request(MRAIL_CTL_MOVE, 8);
    for (unsigned i = 0; i < 10; ++i) {
        run_control(60 * MRAIL_NS_PER_MS);
    }
    assert_int_equal(lane_of(1)->qp->state, IBV_QPS_RTS);
    request(MRAIL_CTL_MOVE_BACK, 8);
    assert_int_equal(lane_of(1)->qp->state, IBV_QPS_RTS);
    fake_sq_draining = 0;
    assert_int_equal(lane_of(1)->sport, before);
    assert_int_equal(engine->counters.lanes_moved, 1);
}

/* The device temporarily cannot report the QP state. The QP must not stay in
 * SQD. */
static void test_device_does_not_answer(void **state)
{
    begin(2);
    fake_sq_draining = 1;
    request(MRAIL_CTL_MOVE, 7);
    fake_sq_draining = 0;
    fake_no_query = 1;
    run_control(MRAIL_NS_PER_MS);
    fake_no_query = 0;
    run_control(MRAIL_NS_PER_MS);
    assert_int_equal(lane_of(1)->qp->state, IBV_QPS_RTS);
    assert_int_equal(engine->counters.lanes_moved, 1);
}

/* ---- lanes that fail, and held lanes ---- */

/* The lane whose new port is being tested fails. The test of the port then ends
 * without a gain. */
static void test_lane_of_a_trial_fails(void **state)
{
    uint16_t before[6];
    unsigned moved = 6;

    begin(3);
    for (unsigned slot = 0; slot < 6; ++slot) {
        before[slot] = lane_of(slot)->sport;
    }
    for (unsigned i = 0; i < 40; ++i) {
        for (unsigned slot = 0; slot < 6; slot += 2) {
            work(slot, MRAIL_OP_PUT, FAST);
        }
        tick(WINDOW);
        run_control(0);
        for (unsigned slot = 0; (moved == 6) && (slot < 6); ++slot) {
            if (lane_of(slot)->sport != before[slot]) {
                moved = slot;
                break_lane(slot);
            }
        }
    }
    assert_int_not_equal(moved, 6);
    assert_null(lane_of(moved));
}

/* Runs windows in which slot 2 reads slowly, until the lane is held. */
static void hold_slot_2(void)
{
    for (unsigned i = 0; (i < 6) && !lane_of(2)->held; ++i) {
        work(0, MRAIL_OP_GET, FAST);
        work(2, MRAIL_OP_GET, FAST * 2 / 3);
        lane_of(0)->rail->work[MRAIL_OP_GET] += FAST;
        tick(WINDOW);
    }
    assert_true(lane_of(2)->held);
}

/* The peer has only one lane left for each pair, so there is no lane for
 * comparison. The held lane must resume work. */
static void test_other_lanes_fail(void **state)
{
    begin(2);
    hold_slot_2();
    break_lane(1);
    break_lane(3);
    assert_int_equal(mrail_peer_num_up(peer_of(0)), 2);
    tick(TICK);
    tick(TICK);
    assert_false(lane_of(2)->held);
}

static void stall_tick(unsigned inflight)
{
    lane_of(2)->sched.inflight = inflight;
    fake_now_ns += TICK;
    pthread_mutex_lock(&engine->ctl_lock);
    mrail_stall_tick(engine, fake_now_ns);
    pthread_mutex_unlock(&engine->ctl_lock);
}

/* The work ends so early in a window that the checks of the peer end together
 * with the window. */
static void test_checks_end(void **state)
{
    begin(2);
    for (unsigned i = 0; (i < 6) && !lane_of(2)->held; ++i) {
        mrail_stall_wake(peer_of(0));
        work(0, MRAIL_OP_GET, FAST);
        work(2, MRAIL_OP_GET, FAST * 2 / 3);
        lane_of(0)->rail->work[MRAIL_OP_GET] += FAST;
        for (unsigned k = 0; k < 10; ++k) {
            stall_tick((k < 2) ? 4096 : 0);
        }
    }
    assert_true(lane_of(2)->held);
    for (unsigned k = 0; k < 4; ++k) {
        stall_tick(0);
    }
    assert_false(lane_of(2)->held);
}

/* If no send buffer is free, the lane is held until the request is sent, since
 * READs must not run while the peer moves it. */
static void test_no_buffer(void **state)
{
    begin(2);
    lane_of(2)->sched.inflight = 4096;
    hold_slot_2();
    fake_ud_hold = 1;
    for (unsigned i = 0; i < 4 * MRAIL_UD_TX; ++i) { /* answers fill them */
        mrail_ctl_msg_t probe = {
            .type = MRAIL_CTL_PROBE, .seq = 100 + i, .path = {.slot = i % 2}};

        deliver_only(0, i % 2, &probe);
    }
    lane_of(2)->sched.inflight = 0;
    for (unsigned i = 0; i < 4; ++i) {
        tick(TICK);
        run_control(0);
        assert_true(lane_of(2)->held);
    }
    fake_ud_hold = 0;
    for (unsigned i = 0; i < 2; ++i) {
        while (fake_complete_send(engine->rails[i].ud_cq, IBV_WC_SUCCESS)) {
        }
    }
    run_control(0);
    tick(TICK);
    assert_int_equal(count_sent(MRAIL_CTL_MOVE), 1);
    assert_true(lane_of(2)->held);
    tick(TICK);
    assert_false(lane_of(2)->held);
}

int main(void)
{
#define CASE(_name) cmocka_unit_test_teardown(_name, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_repeated_move),      CASE(test_every_move_counts),
        CASE(test_late_move),          CASE(test_move_after_its_end),
        CASE(test_move_too_soon),      CASE(test_back_while_draining),
        CASE(test_back_after_no_move), CASE(test_device_does_not_answer),
        CASE(test_other_lanes_fail),   CASE(test_checks_end),
        CASE(test_no_buffer),          CASE(test_lane_of_a_trial_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
