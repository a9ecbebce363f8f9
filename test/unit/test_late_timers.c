/*
 * If a process is not scheduled in time, its timers are late, and replies and
 * completions wait unread. The process must not interpret this delay as a
 * failed path.
 *
 * Two rules prevent this error. First, at most one deadline of a path expires
 * per run of the timers. The control thread reads all datagrams between two
 * runs, and a reply to any of the last three probes counts. Second, silence
 * counts against a path only if another path worked during that time.
 */
#include "config.h"
#include "mock_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "rail/conn/conn.h"
#include "rail/engine/engine.h"
#include "rail/proto/wire.h"

#define LATE (300 * MRAIL_NS_PER_MS) /* more than all probes of a path */

static mrail_control_timers_t timers;

static void begin(void)
{
    start(64);
    connect_lanes(0, LANES);
    mrail_control_init(&timers, engine);
    (void)mrail_control_run(engine, &timers);
}

static void stall(unsigned slot)
{
    pthread_mutex_lock(&engine->ctl_lock);
    mrail_path_event(peer_of(0), slot, MRAIL_HEALTH_STALLED, fake_now_ns);
    pthread_mutex_unlock(&engine->ctl_lock);
}

static mrail_health_state_t health(unsigned slot)
{
    return peer_of(0)->paths[slot].health.state;
}

/* Runs the timers late. Then the datagrams are read: the peer has answered the
 * probes from number *seen_p on, apart from those of the path `lost`. */
static void run_late(unsigned *seen_p, unsigned lost)
{
    unsigned sent_before = sent.num_msgs;

    fake_now_ns += LATE;
    (void)mrail_control_run(engine, &timers);
    fake_reap(engine);
    for (; *seen_p < sent_before; ++*seen_p) {
        mrail_ctl_msg_t reply = {.type = MRAIL_CTL_PROBE_REP,
                                 .seq = sent.msgs[*seen_p].seq};
        unsigned slot = sent.msgs[*seen_p].path.slot;

        if ((sent.msgs[*seen_p].type == MRAIL_CTL_PROBE) && (slot != lost)) {
            deliver_only(0, slot % 2, &reply);
        }
    }
}

/* All probes are answered, but each answer is read too late. */
static void test_late_answers(void **state)
{
    unsigned seen;

    begin();
    seen = sent.num_msgs;
    for (unsigned i = 0; i < 50; ++i) {
        stall(i % LANES);
        run_late(&seen, LANES);
        run_late(&seen, LANES);
        for (unsigned slot = 0; slot < LANES; ++slot) {
            assert_int_not_equal(health(slot), MRAIL_HEALTH_RETIRED);
        }
    }
    assert_int_equal(engine->counters.lanes_failed, 0);
}

/* The peer is not scheduled, so it answers nothing. When it runs again, all
 * paths work. */
static void test_silent_peer(void **state)
{
    unsigned seen;

    begin();
    seen = sent.num_msgs;
    for (unsigned slot = 0; slot < LANES; ++slot) {
        stall(slot);
    }
    for (unsigned i = 0; i < 8; ++i) { /* less than the peer timeout */
        fake_now_ns += LATE;
        (void)mrail_control_run(engine, &timers);
        fake_reap(engine);
    }
    run_late(&seen, LANES);
    run_late(&seen, LANES);
    for (unsigned slot = 0; slot < LANES; ++slot) {
        assert_int_equal(health(slot), MRAIL_HEALTH_UP);
    }
    assert_int_equal(engine->counters.lanes_failed, 0);
}

/* A failed path is detected even though timers fire late. */
static void test_dead_path(void **state)
{
    unsigned seen;

    begin();
    seen = sent.num_msgs;
    stall(1);
    for (unsigned i = 0; i < 10; ++i) {
        run_late(&seen, 1);
    }
    assert_int_not_equal(health(1), MRAIL_HEALTH_UP);
    assert_int_equal(engine->counters.lanes_failed, 1);
    assert_int_equal(health(0), MRAIL_HEALTH_UP);
}

int main(void)
{
#define CASE(_name) cmocka_unit_test_teardown(_name, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_late_answers),
        CASE(test_silent_peer),
        CASE(test_dead_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
