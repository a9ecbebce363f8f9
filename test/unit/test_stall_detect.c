/*
 * Tests idle time and stalled time (stall_detect.c). If throughput drops,
 * stalled time shows that the network is the cause, and idle time shows that it
 * is not. The tests also cover when a stall makes a path suspect, and when it
 * makes the engine retire the path's lane.
 */
#include "config.h"
#include "rail/conn/conn.h"
#include "rail/data/peer_lanes.h"
#include "rail/data/rma.h"
#include "rail/engine/engine.h"
#include "rail/proto/sched.h"
#include "rail/recovery/recovery.h"
#include "rail/state/engine.h"
#include "rail/state/signals.h"
#include "mock_peer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define TICK (25 * MRAIL_NS_PER_MS)

static uint8_t memory[8 << 20];
static mrail_mem_t *mem;
static mrail_rkey_t *rkey;

static const mrail_lane_t *lane_of(unsigned slot)
{
    return peer_of(0)->lanes[slot];
}

static void tick(mrail_ns_t after_ns)
{
    fake_now_ns += after_ns;
    pthread_mutex_lock(&engine->ctl_lock);
    mrail_stall_tick(engine, fake_now_ns);
    pthread_mutex_unlock(&engine->ctl_lock);
}

/* Connects two lanes, and lets one tick pass. */
static void begin(void)
{
    uint8_t packed[256];

    start(64);
    connect_lanes(0, 2);
    assert_int_equal(mrail_mem_reg(engine, memory, sizeof(memory), &mem), 0);
    mrail_rkey_pack(mem, packed); /* the peer's memory has the same layout */
    assert_int_equal(mrail_rkey_unpack(packed, &rkey), 0);
    mrail_stall_begin(peer_of(0));
    tick(TICK);
    tick(0);
    assert_int_equal(lane_of(0)->idle_ns, 0);
    assert_int_equal(lane_of(0)->stalled_ns, 0);
}

/* Completes all work in flight when a test ends. */
static void end(void)
{
    for (unsigned i = 0; (i < 1000) && !mrail_list_empty(&peer_of(0)->ops);
         ++i) {
        progress();
    }
    assert_true(mrail_list_empty(&peer_of(0)->ops));
    mrail_rkey_release(rkey);
    mrail_mem_dereg(mem);
}

static void put(size_t length)
{
    mrail_iov_t iov = {.buffer = memory, .length = length, .mem = mem};

    assert_int_equal(mrail_ep_put_zcopy(ep_to(0), &iov, 1, 0x5000, rkey, NULL),
                     -EINPROGRESS);
}

/* Returns the slot that a small PUT uses. */
static unsigned busy_slot(void)
{
    assert_true((lane_of(0)->sched.inflight != 0) !=
                (lane_of(1)->sched.inflight != 0));
    return (lane_of(0)->sched.inflight == 0);
}

/* Starts a small PUT. Returns its slot. */
static unsigned begin_busy(void)
{
    begin();
    put(64);
    return busy_slot();
}

static void test_nothing_in_flight(void **state)
{
    begin();
    tick(TICK);
    tick(2 * TICK);
    for (unsigned slot = 0; slot < 2; ++slot) {
        assert_int_equal(lane_of(slot)->idle_ns, 3 * TICK);
        assert_int_equal(lane_of(slot)->stalled_ns, 0);
    }
    end();
}

static void test_no_completion(void **state)
{
    unsigned busy;

    busy = begin_busy();
    tick(TICK);
    tick(TICK);
    assert_int_equal(lane_of(busy)->stalled_ns, 2 * TICK);
    assert_int_equal(lane_of(busy)->idle_ns, 0);
    assert_int_equal(lane_of(!busy)->stalled_ns, 0);
    assert_int_equal(lane_of(!busy)->idle_ns, 2 * TICK);
    end();
}

/* The path becomes suspect after a while, but stalled time continues to
 * accumulate. */
static void test_no_completion_for_long(void **state)
{
    unsigned busy;

    busy = begin_busy();
    for (unsigned i = 0; i < 10; ++i) {
        tick(TICK);
    }
    assert_int_equal(peer_of(0)->paths[busy].health.state,
                     MRAIL_HEALTH_SUSPECT);
    assert_int_equal(lane_of(busy)->stalled_ns, 10 * TICK);
    assert_int_equal(lane_of(busy)->idle_ns, 0);
    end();
}

/* There is more work than fits on the lanes. Each interval therefore has
 * completions, and work is in flight at each tick. */
static void test_progress(void **state)
{
    begin();
    put(sizeof(memory));
    for (unsigned i = 0; i < 3; ++i) {
        fake_complete_all(engine, IBV_WC_SUCCESS);
        mrail_iface_progress(ifaces[0]);
        for (unsigned slot = 0; slot < 2; ++slot) {
            assert_int_not_equal(lane_of(slot)->sched.inflight, 0);
        }
        tick(TICK);
    }
    for (unsigned slot = 0; slot < 2; ++slot) {
        assert_int_equal(lane_of(slot)->idle_ns, 0);
        assert_int_equal(lane_of(slot)->stalled_ns, 0);
    }
    end();
}

/* All work has completed since the last tick. The time of completion is
 * unknown, so the interval counts neither as idle nor as stalled. */
static void test_all_completed(void **state)
{
    unsigned busy;

    busy = begin_busy();
    tick(TICK);
    end();
    tick(TICK);
    assert_int_equal(lane_of(busy)->stalled_ns, TICK);
    tick(TICK);
    assert_int_equal(lane_of(busy)->stalled_ns, TICK);
    assert_in_range(lane_of(busy)->idle_ns, TICK, 2 * TICK);
}

/* The send of a message has no completion, and a peer with nothing to send may
 * not acknowledge it. Until the READ after the message completes, the lane
 * therefore counts neither as idle nor as stalled. */
static void test_messages(void **state)
{
    int byte = 1;

    begin();
    assert_int_equal(
        mrail_ep_am_short(ep_to(0), 1, NULL, 0, &byte, sizeof(byte)), 0);
    assert_int_not_equal(lane_of(0)->am.inflight, 0);
    tick(TICK);
    assert_int_equal(sent.num_reads, 0);
    tick(TICK);
    assert_int_equal(sent.num_reads, 1);
    assert_int_equal(lane_of(0)->idle_ns, 0);
    assert_int_equal(lane_of(0)->stalled_ns, 0);
    tick(TICK);
    assert_int_equal(lane_of(0)->stalled_ns, TICK);
    assert_int_equal(lane_of(0)->idle_ns, 0);
    end();
}

/* While ticks are stopped, the time counts neither as idle nor as stalled. */
static void test_after_a_pause(void **state)
{
    mrail_ns_t idle_ns;

    begin();
    for (unsigned i = 0; (i < 20) && engine->stall_checking; ++i) {
        tick(TICK);
    }
    assert_int_equal(engine->stall_checking, 0); /* ticks have stopped */
    idle_ns = lane_of(0)->idle_ns;
    put(64);
    assert_int_equal(engine->stall_checking, 1);
    tick(60 * MRAIL_NS_PER_SEC);
    assert_int_equal(lane_of(0)->idle_ns, idle_ns);
    assert_int_equal(lane_of(busy_slot())->stalled_ns, 0);
    end();
}

/* ---- suspicion ---- */

static mrail_health_state_t health(unsigned slot)
{
    return peer_of(0)->paths[slot].health.state;
}

/* The peer answers the first outstanding probe of the path. */
static void answer_probe(unsigned slot)
{
    deliver(0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_PROBE_REP,
                                  .seq = peer_of(0)->paths[slot].probes[0]});
}

/* Counts the ticks until the lane is suspect, and then answers its probe. */
static unsigned ticks_to_suspicion(unsigned slot)
{
    for (unsigned i = 1; i < 200; ++i) {
        tick(TICK);
        if (health(slot) == MRAIL_HEALTH_SUSPECT) {
            answer_probe(slot);
            assert_int_equal(health(slot), MRAIL_HEALTH_UP);
            return i;
        }
    }
    return 0;
}

static void complete_on(const mrail_lane_t *lane)
{
    while (fake_complete_send(lane->rail->cq, IBV_WC_SUCCESS)) {
    }
    mrail_iface_progress(ifaces[0]);
}

/* Chunks complete one by one. At each tick, work is in flight, but no chunk
 * takes long. */
static void move_for(unsigned busy, unsigned ticks)
{
    mrail_ep_t *ep = ep_to(0);

    for (unsigned i = 0; i < ticks; ++i) {
        mrail_iov_t iov = {.buffer = memory, .length = 64, .mem = mem};

        complete_on(lane_of(busy));
        assert_int_equal(mrail_ep_put_zcopy(ep, &iov, 1, 0x5000, rkey, NULL),
                         -EINPROGRESS);
        tick(TICK);
    }
}

/* A slow path is given more time after each suspicion. After some time without
 * stalls, it is given less again. */
static void test_suspicion_expires(void **state)
{
    unsigned busy;

    busy = begin_busy();
    assert_int_equal(ticks_to_suspicion(busy), 3);
    assert_int_equal(ticks_to_suspicion(busy), 3); /* at tick 6 */
    assert_int_equal(ticks_to_suspicion(busy), 6); /* at tick 12 */
    move_for(busy, 20);                            /* half a second */
    assert_int_equal(ticks_to_suspicion(busy), 24);
    move_for(busy, 60); /* 1.5 s */
    assert_int_equal(ticks_to_suspicion(busy), 3);
    end();
}

/* Gives a lane 100 ms of work at its measured rate. */
static unsigned begin_slow(void)
{
    unsigned busy = begin_busy();
    mrail_lane_t *lane = peer_of(0)->lanes[busy];

    mrail_tele_window_add(&lane->sched.meter, 10 * lane->sched.inflight,
                          fake_now_ns - MRAIL_NS_PER_SEC, fake_now_ns);
    return busy;
}

/* The expected duration of the work follows from the measured rate. The lane
 * becomes suspect only after more than four times that duration. */
static void test_slow_lane(void **state)
{
    unsigned busy = begin_slow();

    assert_int_equal(ticks_to_suspicion(busy), 16);
    end();
}

/* The lane has no measured rate, but other lanes of its rail have 100 ms of
 * work ahead of it. */
static void test_new_lane_behind_others(void **state)
{
    unsigned busy = begin_busy();
    mrail_lane_t *lane = peer_of(0)->lanes[busy];
    uint64_t others = lane->rail->speed_bps / 8 / 10;

    lane->rail->inflight += others;
    assert_int_equal(ticks_to_suspicion(busy), 16);
    lane->rail->inflight -= others;
    end();
}

/* The probes of the path wait in the same queue, so they are also late. A late
 * answer still shows that the path works. */
static void test_late_answer(void **state)
{
    unsigned busy = begin_slow();

    for (unsigned i = 0; i < 16; ++i) {
        tick(TICK);
    }
    assert_int_equal(health(busy), MRAIL_HEALTH_SUSPECT);
    run_control(60 * MRAIL_NS_PER_MS);
    assert_int_equal(peer_of(0)->paths[busy].num_probes, 1);
    run_control(60 * MRAIL_NS_PER_MS);
    assert_int_equal(health(busy), MRAIL_HEALTH_SUSPECT);
    assert_int_equal(peer_of(0)->paths[busy].num_probes, 2);
    answer_probe(busy);
    assert_int_equal(health(busy), MRAIL_HEALTH_UP);
    end();
}

/* Runs the control thread every millisecond, so that deadlines are met to a
 * millisecond. */
static void run_for(unsigned ms)
{
    for (unsigned i = 0; i < ms; ++i) {
        run_control(MRAIL_NS_PER_MS);
    }
}

/* Like run_for(), but the other path answers each probe immediately. */
static void run_with_answers(unsigned other, unsigned ms)
{
    for (unsigned i = 0; i < ms; ++i) {
        if (peer_of(0)->paths[other].num_probes != 0) {
            answer_probe(other);
        }
        run_control(MRAIL_NS_PER_MS);
    }
}

/* Starts a small PUT on a lane whose earlier work completed in almost no
 * time. */
static unsigned begin_used(void)
{
    unsigned busy = begin_busy();

    mrail_tele_window_add(&peer_of(0)->lanes[busy]->sched.meter, 1 << 20,
                          fake_now_ns - 1000, fake_now_ns);
    return busy;
}

/* Makes the path suspect without an answer to its probe. */
static void begin_suspect(unsigned busy)
{
    for (unsigned i = 0; i < 3; ++i) {
        tick(TICK);
    }
    assert_int_equal(health(busy), MRAIL_HEALTH_SUSPECT);
}

/* If no path is answered, the peer may be too busy to reply. The engine
 * therefore retires no path. */
static void test_silent_peer(void **state)
{
    unsigned busy = begin_used();

    begin_suspect(busy);
    run_for(1000);
    assert_int_equal(health(busy), MRAIL_HEALTH_SUSPECT);
    assert_int_equal(health(!busy), MRAIL_HEALTH_UP);
    answer_probe(busy);
    assert_int_equal(health(busy), MRAIL_HEALTH_UP);
    end();
}

/* When the peer replies again, the replies on all paths arrive together. The
 * replies on another path may come first. */
static void test_answers_in_a_burst(void **state)
{
    unsigned busy = begin_used();

    begin_suspect(busy);
    run_for(500);
    answer_probe(!busy);
    run_for(19); /* in this time, at most one more probe is sent */
    assert_int_equal(health(busy), MRAIL_HEALTH_SUSPECT);
    answer_probe(busy);
    assert_int_equal(health(busy), MRAIL_HEALTH_UP);
    end();
}

/* Both paths were silent, and the other path recovered after 200 ms. This path
 * must therefore be given the same time. */
static void test_shared_silence(void **state)
{
    unsigned busy = begin_used();

    begin_suspect(busy);
    pthread_mutex_lock(&engine->ctl_lock);
    mrail_path_event(peer_of(0), !busy, MRAIL_HEALTH_STALLED, fake_now_ns);
    pthread_mutex_unlock(&engine->ctl_lock);
    run_for(200);
    answer_probe(!busy);
    assert_int_equal(health(!busy), MRAIL_HEALTH_UP);
    run_with_answers(!busy, 390);
    assert_int_equal(health(busy), MRAIL_HEALTH_SUSPECT);
    run_with_answers(!busy, 50);
    assert_int_equal(health(busy), MRAIL_HEALTH_RETIRED);
    end();
}

/* The lane was never used, so its path may be congested and is given more
 * time. */
static void test_new_path_is_silent(void **state)
{
    unsigned busy = begin_busy();

    begin_suspect(busy);
    run_with_answers(!busy, 290);
    assert_int_equal(health(busy), MRAIL_HEALTH_SUSPECT);
    run_with_answers(!busy, 20);
    assert_int_equal(health(busy), MRAIL_HEALTH_RETIRED);
    end();
}

/* The other path answers immediately, so this one is retired soon. */
static void test_one_path_is_silent(void **state)
{
    unsigned busy = begin_used();

    begin_suspect(busy);
    run_with_answers(!busy, 55);
    assert_int_equal(health(busy), MRAIL_HEALTH_SUSPECT);
    run_with_answers(!busy, 10);
    assert_int_equal(health(busy), MRAIL_HEALTH_RETIRED);
    end();
}

/* Probes of the path are answered, but requests of this lane do not complete.
 * The other lane is idle, so a READ is posted on it for comparison, and that
 * READ completes. */
static void test_stuck(void **state)
{
    unsigned busy, ticks = 0;

    busy = begin_busy();
    sent.num_reads = 0;
    while (ticks < 24) { /* at ticks 3, 6, 12 and 24 */
        ticks += ticks_to_suspicion(busy);
    }
    assert_int_equal(ticks, 24);
    assert_int_equal(sent.num_reads, 0);
    for (; ticks < 40; ++ticks) {
        tick(TICK);
    }
    assert_int_equal(sent.num_reads, 1);
    assert_ptr_equal(sent.read_qp, lane_of(!busy)->qp);
    complete_on(lane_of(!busy));
    for (; ticks < 47; ++ticks) {
        tick(TICK);
        assert_int_equal(health(busy), MRAIL_HEALTH_UP);
    }
    tick(TICK);
    assert_int_equal(health(busy), MRAIL_HEALTH_RETIRED);
    mrail_iface_progress(ifaces[0]);
    assert_int_equal(lane_of(busy)->state, MRAIL_LANE_CLOSING);
    assert_int_equal(health(!busy), MRAIL_HEALTH_UP);
    run_control(20 * MRAIL_NS_PER_MS);
    progress();
    confirm_broken(0, busy, 0);
    end();
}

/* If no request completes on any lane, no lane is worse than another. */
static void test_not_stuck_alone(void **state)
{
    unsigned busy, suspected = 0;

    busy = begin_busy();
    for (unsigned i = 0; i < 400; ++i) {
        tick(TICK);
        suspected += (health(busy) == MRAIL_HEALTH_SUSPECT);
        for (unsigned slot = 0; slot < 2; ++slot) {
            answer_probe(slot);
            assert_int_not_equal(health(slot), MRAIL_HEALTH_RETIRED);
        }
    }
    assert_int_equal(lane_of(busy)->state, MRAIL_LANE_UP);
    assert_int_equal(suspected, 9); /* after 3, 6, ... 96, 192, 288, 384 */
    end();
}

/* A WRITE has completed but may not be visible yet. The flush needs a READ on
 * that lane, which is held. */
static void test_flush_with_held_lane(void **state)
{
    mrail_ep_t *ep;
    unsigned busy;

    begin();
    ep = ep_to(0);
    put(64);
    busy = busy_slot();
    for (unsigned i = 0; !mrail_list_empty(&peer_of(0)->ops); ++i) {
        progress();
    }
    assert_int_equal(peer_of(0)->dirty_mask, 1u << busy);
    pthread_mutex_lock(&engine->ctl_lock);
    mrail_path_event(peer_of(0), busy, MRAIL_HEALTH_PORT_DOWN, fake_now_ns);
    pthread_mutex_unlock(&engine->ctl_lock);
    mrail_iface_progress(ifaces[0]);
    /* Every send begins with this call. */
    assert_int_equal(mrail_peer_num_up(peer_of(0)), 1);
    assert_int_equal(sent.num_reads, 0);
    assert_int_equal(mrail_ep_flush(ep, NULL), -EINPROGRESS);
    progress();
    assert_int_equal(sent.num_reads, 0);
    deliver(0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_PROBE_REP,
                                  .seq = peer_of(0)->paths[busy].probes[0]});
    /* the reply is to an earlier probe */
    if (health(busy) != MRAIL_HEALTH_UP) {
        pthread_mutex_lock(&engine->ctl_lock);
        mrail_path_event(peer_of(0), busy, MRAIL_HEALTH_PROBE_REPLY,
                         fake_now_ns);
        pthread_mutex_unlock(&engine->ctl_lock);
    }
    mrail_iface_progress(ifaces[0]);
    assert_int_equal(sent.num_reads, 1);
    assert_ptr_equal(sent.read_qp, lane_of(busy)->qp);
    assert_int_equal(mrail_ep_flush(ep, NULL), -EINPROGRESS);
    progress();
    assert_int_equal(mrail_ep_flush(ep, NULL), 0);
    end();
}

/* As in the previous test, but the lane is being closed. No READ is needed,
 * because the WRITE is visible once the lane is closed at both ends. */
static void test_flush_with_closing_lane(void **state)
{
    mrail_ep_t *ep;
    unsigned busy;

    begin();
    ep = ep_to(0);
    put(64);
    busy = busy_slot();
    while (!mrail_list_empty(&peer_of(0)->ops)) {
        progress();
    }
    mrail_failover_request(peer_of(0)->lanes[busy], "test");
    progress();
    assert_int_equal(lane_of(busy)->state, MRAIL_LANE_CLOSING);
    assert_int_equal(mrail_ep_flush(ep, NULL), -EINPROGRESS);
    run_control(20 * MRAIL_NS_PER_MS);
    progress();
    assert_int_equal(mrail_ep_flush(ep, NULL), -EINPROGRESS);
    confirm_broken(0, busy, 0);
    assert_int_equal(mrail_ep_flush(ep, NULL), 0);
    assert_int_equal(sent.num_reads, 0);
    end();
}

/* The READ of one flush is in flight. A second flush, with or without a
 * completion callback, must not complete before that READ. */
static void test_flush_behind_another_read(void **state)
{
    mrail_ep_t *ep;

    begin();
    ep = ep_to(0);
    put(64);
    while (!mrail_list_empty(&peer_of(0)->ops)) {
        progress();
    }
    assert_int_equal(mrail_ep_flush(ep, NULL), -EINPROGRESS);
    mrail_iface_progress(ifaces[0]);
    assert_int_equal(sent.num_reads, 1);
    assert_int_equal(peer_of(0)->dirty_mask, 0);
    assert_int_equal(mrail_ep_flush(ep, &memory[0]), -EINPROGRESS);
    mrail_iface_progress(ifaces[0]);
    assert_int_equal(sent.num_reads, 2);
    assert_int_equal(mrail_ep_flush(ep, NULL), -EINPROGRESS);
    progress();
    assert_int_equal(mrail_ep_flush(ep, NULL), 0);
    assert_int_equal(peer_of(0)->reading_mask, 0);
    end();
}

int main(int argc, char **argv)
{
#define TEST(_name) cmocka_unit_test_teardown(_name, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_in_flight),
        TEST(test_no_completion),
        TEST(test_no_completion_for_long),
        TEST(test_progress),
        TEST(test_all_completed),
        TEST(test_messages),
        TEST(test_after_a_pause),
        TEST(test_suspicion_expires),
        TEST(test_slow_lane),
        TEST(test_new_lane_behind_others),
        TEST(test_late_answer),
        TEST(test_silent_peer),
        TEST(test_answers_in_a_burst),
        TEST(test_shared_silence),
        TEST(test_one_path_is_silent),
        TEST(test_new_path_is_silent),
        TEST(test_stuck),
        TEST(test_not_stuck_alone),
        TEST(test_flush_with_held_lane),
        TEST(test_flush_with_closing_lane),
        TEST(test_flush_behind_another_read),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
