/*
 * Tests move_lane.c, which moves lanes that share an uplink to other source
 * ports. The tests cover the evidence that starts a move, the steps of the QP,
 * and the requests of a peer.
 */
#include "config.h"
#include "mock_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "orchestrator/ports.h"
#include "rail/conn/conn.h"
#include "rail/data/peer_lanes.h"
#include "rail/params.h"
#include "rail/proto/wire.h"
#include "rail/state/engine.h"

#define WINDOW (250 * MRAIL_NS_PER_MS)
#define FAST (12ull << 20) /* bytes carried in a window */

static mrail_lane_t *lane_of(unsigned slot)
{
    return peer_of(0)->lanes[slot];
}

static void lock(void)
{
    pthread_mutex_lock(&engine->ctl_lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&engine->ctl_lock);
}

/* Two rails have two lanes each. Slots 0 and 2 are on the same pair of
 * rails. */
static void begin(size_t uplinks)
{
    start(64);
    engine->config.uplinks = uplinks;
    connect_lanes(0, LANES);
    assert_int_equal(mrail_peer_num_up(peer_of(0)), LANES);
    lock();
    mrail_move_tick(peer_of(0), fake_now_ns);
    unlock();
}

/* Simulates a window in which a lane was busy and carried `bytes`. */
static void work(unsigned slot, unsigned direction, uint64_t bytes)
{
    lane_of(slot)->work[direction].bytes += bytes;
    lane_of(slot)->work[direction].busy_ns += WINDOW;
    lane_of(slot)->rail->work[direction] += bytes;
}

static void end_window(void)
{
    fake_now_ns += WINDOW;
    lock();
    mrail_move_tick(peer_of(0), fake_now_ns);
    unlock();
}

/* Runs windows in which slot 2 is slower than slot 0, until the counter
 * changes. */
static unsigned windows_until(unsigned direction, const uint64_t *counter,
                              unsigned most)
{
    uint64_t before = *counter;

    for (unsigned i = 1; i <= most; ++i) {
        work(0, direction, FAST);
        work(2, direction, FAST / 2);
        end_window();
        run_control(0);
        if (*counter != before) {
            return i;
        }
    }
    return 0;
}

static void test_slow_lane_moves(void **state)
{
    uint16_t before[LANES];

    begin(MRAIL_SIZE_AUTO);
    for (unsigned slot = 0; slot < LANES; ++slot) {
        before[slot] = lane_of(slot)->sport;
    }
    /* The first windows only confirm the difference. The move comes
     * afterwards. */
    assert_in_range(
        windows_until(MRAIL_OP_PUT, &engine->counters.lanes_moved, 6), 3, 5);
    assert_int_not_equal(lane_of(2)->sport, before[2]);
    assert_int_equal(lane_of(0)->sport, before[0]);
    assert_int_equal(lane_of(1)->sport, before[1]);
    assert_int_equal(lane_of(3)->sport, before[3]);
    assert_int_equal(lane_of(2)->qp->state, IBV_QPS_RTS);
    assert_int_equal(fake_qp_label(lane_of(2)->qp),
                     mrail_ports_flow_label(lane_of(2)->sport));
    assert_int_equal(peer_of(0)->paths[2].sport, lane_of(2)->sport);
}

static void test_rules_keep_ports(void **state)
{
    begin(8);
    assert_int_equal(
        windows_until(MRAIL_OP_PUT, &engine->counters.lanes_moved, 20), 0);
    assert_null(peer_of(0)->moves);
}

/* The data of a READ comes from the peer, so the peer must move the lane. */
static void slow_read(uint64_t slow, uint64_t others, unsigned like)
{
    unsigned before = 0;

    begin(MRAIL_SIZE_AUTO);
    for (unsigned i = 0; (i < 6) && (before == 0); ++i) {
        work(0, MRAIL_OP_GET, FAST);
        work(2, MRAIL_OP_GET, slow);
        lane_of(0)->rail->work[MRAIL_OP_GET] += others;
        end_window();
        before = count_sent(MRAIL_CTL_MOVE);
    }
    assert_int_equal(before, 1);
    assert_int_equal(last(MRAIL_CTL_MOVE)->move.slot, 2);
    assert_int_equal(last(MRAIL_CTL_MOVE)->move.like, like);
    assert_int_equal(engine->counters.lanes_moved, 0);
}

static void test_slow_read_requests_move(void **state)
{
    slow_read(FAST * 2 / 3, FAST, MRAIL_MOVE_RANDOM);
}

/* Other peers use the rail, so it may be saturated. In that case, the path of
 * lane 0 has the most spare capacity. */
static void test_very_slow_read_requests_copy(void **state)
{
    slow_read(FAST / 3, FAST, 0);
}

/* Only these lanes use the rail, and they do not fill it. Another path may
 * therefore be unused. */
static void test_very_slow_read_of_an_idle_rail(void **state)
{
    slow_read(FAST / 3, 0, MRAIL_MOVE_RANDOM);
}

static void request_like(uint16_t slot, uint16_t like)
{
    static uint32_t seq;

    deliver(0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_MOVE,
                                  .seq = ++seq,
                                  .move = {.slot = slot, .like = like}});
}

static void ask(uint16_t slot)
{
    request_like(slot, MRAIL_MOVE_RANDOM);
}

static void tick(mrail_ns_t after_ns)
{
    fake_now_ns += after_ns;
    lock();
    mrail_move_tick(peer_of(0), fake_now_ns);
    unlock();
}

/* Data of READs must not arrive over two paths. The request therefore waits for
 * the READs of the lane, and the lane takes no other READs until then. */
static void test_request_waits_for_reads(void **state)
{
    begin(MRAIL_SIZE_AUTO);
    lane_of(2)->sched.inflight = 4096;
    for (unsigned i = 0; (i < 6) && !lane_of(2)->held; ++i) {
        work(0, MRAIL_OP_GET, FAST);
        work(2, MRAIL_OP_GET, FAST * 2 / 3);
        lane_of(0)->rail->work[MRAIL_OP_GET] += FAST;
        end_window();
    }
    assert_true(lane_of(2)->held);
    assert_false(lane_of(0)->held);
    tick(25 * MRAIL_NS_PER_MS);
    run_control(0);
    assert_int_equal(count_sent(MRAIL_CTL_MOVE), 0);

    lane_of(2)->sched.inflight = 0;
    tick(25 * MRAIL_NS_PER_MS);
    assert_int_equal(count_sent(MRAIL_CTL_MOVE), 1);
    assert_true(lane_of(2)->held);
    tick(25 * MRAIL_NS_PER_MS);
    assert_false(lane_of(2)->held);
    assert_int_equal(count_sent(MRAIL_CTL_MOVE), 1);
}

/* If the READs do not end, the lane is released without a move. */
static void test_endless_reads_release_the_lane(void **state)
{
    begin(MRAIL_SIZE_AUTO);
    lane_of(2)->sched.inflight = 4096;
    for (unsigned i = 0; (i < 6) && !lane_of(2)->held; ++i) {
        work(0, MRAIL_OP_GET, FAST);
        work(2, MRAIL_OP_GET, FAST * 2 / 3);
        lane_of(0)->rail->work[MRAIL_OP_GET] += FAST;
        end_window();
    }
    assert_true(lane_of(2)->held);
    tick(600 * MRAIL_NS_PER_MS);
    assert_false(lane_of(2)->held);
    run_control(0);
    assert_int_equal(count_sent(MRAIL_CTL_MOVE), 0);
    lane_of(2)->sched.inflight = 0;
}

static void test_peer_requests_move(void **state)
{
    uint16_t before;

    begin(MRAIL_SIZE_AUTO);
    before = lane_of(1)->sport;
    ask(1);
    assert_int_equal(engine->counters.lanes_moved, 1);
    assert_int_not_equal(lane_of(1)->sport, before);
    /* A second request in the same window must have no effect. */
    before = lane_of(1)->sport;
    ask(1);
    assert_int_equal(lane_of(1)->sport, before);
    fake_now_ns += WINDOW;
    ask(1);
    assert_int_equal(engine->counters.lanes_moved, 2);
    /* No lane exists in these slots. */
    ask(LANES);
    ask(MRAIL_MAX_SLOTS);
    ask(UINT16_MAX);
    assert_int_equal(engine->counters.ctl_unexpected, 3);
    assert_int_equal(engine->counters.lanes_moved, 2);
    /* The number of moves of each lane, which saturates. */
    assert_int_equal(peer_of(0)->paths[1].moves, 2);
    assert_int_equal(peer_of(0)->paths[0].moves, 0);
    peer_of(0)->paths[1].moves = UINT16_MAX;
    fake_now_ns += WINDOW;
    ask(1);
    assert_int_equal(engine->counters.lanes_moved, 3);
    assert_int_equal(peer_of(0)->paths[1].moves, UINT16_MAX);
}

/* A request may name a lane whose path this lane should take. That works only
 * if both lanes are on the same rails with different ports. Otherwise the lane
 * moves to a random port. */
static void test_peer_requests_copy(void **state)
{
    begin(MRAIL_SIZE_AUTO);
    request_like(2, 0);
    assert_int_equal(engine->counters.lanes_moved, 1);
    assert_int_equal(lane_of(2)->sport, lane_of(0)->sport);
    assert_int_equal(fake_qp_label(lane_of(2)->qp),
                     mrail_ports_flow_label(lane_of(0)->sport));
    fake_now_ns += WINDOW;
    request_like(2, 0);
    assert_int_not_equal(lane_of(2)->sport, lane_of(0)->sport);
    fake_now_ns += WINDOW;
    request_like(2, 1);
    assert_int_not_equal(lane_of(2)->sport, lane_of(1)->sport);
    fake_now_ns += WINDOW;
    request_like(2, LANES + 2);
    fake_now_ns += WINDOW;
    request_like(2, MRAIL_MAX_SLOTS);
    assert_int_equal(engine->counters.lanes_moved, 5);
}

static void request_seq(mrail_ctl_type_t type, uint32_t seq)
{
    mrail_ctl_msg_t msg = {.type = type, .seq = seq};

    fake_now_ns += WINDOW;
    if (type == MRAIL_CTL_MOVE) {
        msg.move.slot = 1;
        msg.move.like = MRAIL_MOVE_RANDOM;
    } else {
        msg.path.slot = 1;
    }
    deliver(0, &msg);
}

/* The peer has measured no gain, so the lane moves back. If the corresponding
 * MOVE was lost or is not the latest one, MOVE_BACK must have no effect. */
static void test_peer_takes_it_back(void **state)
{
    uint16_t first, second;

    begin(MRAIL_SIZE_AUTO);
    first = lane_of(1)->sport;
    request_seq(MRAIL_CTL_MOVE_BACK, 0);
    request_seq(MRAIL_CTL_MOVE_BACK, 5);
    assert_int_equal(lane_of(1)->sport, first);
    request_seq(MRAIL_CTL_MOVE, 7);
    second = lane_of(1)->sport;
    assert_int_not_equal(second, first);
    request_seq(MRAIL_CTL_MOVE_BACK, 6);
    assert_int_equal(lane_of(1)->sport, second);
    request_seq(MRAIL_CTL_MOVE_BACK, 7);
    assert_int_equal(lane_of(1)->sport, first);
    request_seq(MRAIL_CTL_MOVE_BACK, 7);
    assert_int_equal(lane_of(1)->sport, first);
    assert_int_equal(engine->counters.lanes_moved, 2);
}

static void test_rules_ignore_the_peer(void **state)
{
    begin(4);
    ask(1);
    assert_int_equal(engine->counters.lanes_moved, 0);
    assert_int_equal(lane_of(1)->qp->state, IBV_QPS_RTS);
}

/* The path must change only after the send queue has been drained. */
static void test_drains_first(void **state)
{
    uint16_t before;

    begin(MRAIL_SIZE_AUTO);
    before = lane_of(1)->sport;
    fake_sq_draining = 1;
    ask(1);
    run_control(MRAIL_NS_PER_MS);
    assert_int_equal(lane_of(1)->qp->state, IBV_QPS_SQD);
    assert_int_equal(lane_of(1)->sport, before);
    fake_sq_draining = 0;
    run_control(MRAIL_NS_PER_MS);
    assert_int_equal(lane_of(1)->qp->state, IBV_QPS_RTS);
    assert_int_not_equal(lane_of(1)->sport, before);
}

static void test_does_not_drain(void **state)
{
    uint16_t before;

    begin(MRAIL_SIZE_AUTO);
    before = lane_of(1)->sport;
    fake_sq_draining = 1;
    ask(1);
    for (unsigned i = 0; i < 10; ++i) {
        run_control(60 * MRAIL_NS_PER_MS);
    }
    assert_int_equal(lane_of(1)->qp->state, IBV_QPS_RTS);
    assert_int_equal(lane_of(1)->sport, before);
    assert_int_equal(lane_of(1)->state, MRAIL_LANE_UP);
}

/* If the device rejects the first step or the new path, the lanes stay up and
 * keep their ports. */
static void test_device_refuses(void **state)
{
    for (unsigned step = 1; step <= 2; ++step) {
        uint16_t before;

        begin(MRAIL_SIZE_AUTO);
        before = lane_of(1)->sport;
        lock();
        fake_fail_in = step + 1; /* the query of the device comes first */
        mrail_move_to(lane_of(1), MRAIL_MOVE_RANDOM, 1, fake_now_ns);
        if (step == 2) {
            mrail_move_run(lane_of(1), fake_now_ns);
        }
        fake_fail_in = 0;
        unlock();
        assert_int_equal(lane_of(1)->sport, before);
        assert_int_equal(lane_of(1)->qp->state, IBV_QPS_RTS);
        assert_int_equal(lane_of(1)->state, MRAIL_LANE_UP);
        assert_true(lane_of(1)->rail->ports_fixed);
        fake_now_ns += WINDOW;
        ask(1);
        assert_int_equal(lane_of(1)->qp->state, IBV_QPS_RTS);
        assert_int_equal(engine->counters.lanes_moved, 0);
        teardown(state);
    }
    start(64);
}

/* The QP is in the error state, but its completions have not been polled. The
 * lane does not move. The engine must not conclude that the device cannot move
 * lanes. */
static void test_qp_in_error(void **state)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    begin(MRAIL_SIZE_AUTO);
    assert_int_equal(ibv_modify_qp(lane_of(1)->qp, &attr, IBV_QP_STATE), 0);
    ask(1);
    assert_int_equal(lane_of(1)->move.end_ns, 0);
    assert_false(lane_of(1)->rail->ports_fixed);
    assert_int_equal(engine->counters.lanes_moved, 0);
}

/* The QP enters the error state between the steps. */
static void test_qp_in_error_while_draining(void **state)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    begin(MRAIL_SIZE_AUTO);
    fake_sq_draining = 1;
    ask(1);
    assert_int_equal(ibv_modify_qp(lane_of(1)->qp, &attr, IBV_QP_STATE), 0);
    run_control(MRAIL_NS_PER_MS);
    assert_int_equal(lane_of(1)->move.end_ns, 0);
    assert_false(lane_of(1)->rail->ports_fixed);
    assert_int_equal(engine->counters.lanes_moved, 0);
}

/* A lane that fails in the middle of a move is closed like any other. */
static void test_fails_while_draining(void **state)
{
    begin(MRAIL_SIZE_AUTO);
    fake_sq_draining = 1;
    ask(1);
    break_lanes(0, 2);
    fake_sq_draining = 0;
    run_control(MRAIL_NS_PER_MS);
    assert_int_equal(engine->counters.lanes_moved, 0);
    confirm_broken(0, 1, 0);
}

int main(void)
{
#define CASE(_name) cmocka_unit_test_teardown(_name, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_slow_lane_moves),
        CASE(test_rules_keep_ports),
        CASE(test_slow_read_requests_move),
        CASE(test_very_slow_read_requests_copy),
        CASE(test_very_slow_read_of_an_idle_rail),
        CASE(test_request_waits_for_reads),
        CASE(test_endless_reads_release_the_lane),
        CASE(test_peer_requests_move),
        CASE(test_peer_requests_copy),
        CASE(test_peer_takes_it_back),
        CASE(test_rules_ignore_the_peer),
        CASE(test_drains_first),
        CASE(test_does_not_drain),
        CASE(test_device_refuses),
        CASE(test_fails_while_draining),
        CASE(test_qp_in_error),
        CASE(test_qp_in_error_while_draining),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
