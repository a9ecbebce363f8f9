/* Tests the throttling of peers with lanes and operations, on an engine that
 * has not been opened. */
#include "config.h"
#include "rail/conn/conn.h"
#include "rail/data/throttle.h"
#include "rail/proto/fair_share.h"
#include "rail/state/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#define RAILS 4
#define POLLS 30 /* longer than a measurement */
#define BYTES 11200000

typedef struct {
    mrail_peer_t peer;
    mrail_op_t op;
    mrail_lane_t lane[RAILS];
    mrail_lane_t *up[RAILS];
    mrail_sched_lane_t *sched[RAILS];
} other_t;

static mrail_engine_t engine;
static other_t others[2]; /* on all rails, and on all except rail 1 */
static mrail_ns_t now_ns;

static void other_init(other_t *other, unsigned without, mrail_op_kind_t kind)
{
    mrail_peer_t *peer = &other->peer;

    memset(other, 0, sizeof(*other));
    peer->engine = &engine;
    peer->up = other->up;
    peer->sched = other->sched;
    mrail_list_init(&peer->uncut);
    mrail_list_init(&peer->active);
    for (unsigned r = 0; r < RAILS; ++r) {
        other->lane[r].rail = &engine.rails[r];
        other->lane[r].peer = peer;
        if (r != without) {
            peer->up[peer->num_up] = &other->lane[r];
            peer->sched[peer->num_up++] = &other->lane[r].sched;
        }
    }
    other->lane[0].sched.inflight = 1;
    other->op.kind = kind;
    other->op.peer = peer;
    other->op.left = peer->uncut_bytes = BYTES;
    mrail_list_init(&other->op.uncut);
    mrail_list_add_tail(&peer->uncut, &other->op.uncut);
    mrail_peer_activate(peer);
}

static void fixture_init(mrail_op_kind_t first, mrail_op_kind_t second,
                         unsigned without)
{
    memset(&engine, 0, sizeof(engine));
    mrail_list_init(&engine.active);
    now_ns = 7 * MRAIL_NS_PER_SEC;
    engine.num_rails = RAILS;
    for (unsigned r = 0; r < RAILS; ++r) {
        engine.rails[r].index = r;
    }
    other_init(&others[0], RAILS, first);
    other_init(&others[1], without, second);
}

/* Runs periods in which all rails move 100 MB/s in both directions. */
static void run(unsigned count)
{
    for (; count != 0; --count) {
        now_ns += MRAIL_FAIR_SHARE_PERIOD_NS;
        for (unsigned i = 0; i < RAILS * MRAIL_FLOWS; ++i) {
            mrail_tele_flow_t *flow =
                &engine.rails[i / MRAIL_FLOWS].flows[i % MRAIL_FLOWS];

            flow->shown = 100000000;
            flow->shown_ns = now_ns;
            flow->moved += 200000;
            flow->done += 5;
        }
        mrail_throttle_poll(&engine, now_ns);
    }
}

/* Returns a mask in which bit r is set if the lane of rail r may be used after
 * enough posts to spend all tokens. */
static unsigned usable(other_t *other)
{
    mrail_fair_share_t *fair_share = mrail_throttle_fair_share(&other->peer);
    unsigned mask = 0;

    for (unsigned i = 0; i < other->peer.num_up; ++i) {
        other->peer.up[i]->sched.usable = 1;
    }
    if (fair_share != NULL) {
        for (unsigned i = 0; i < other->peer.num_up; ++i) {
            unsigned r = other->peer.up[i]->rail->index;

            mrail_fair_share_post(fair_share, other->peer.fair_share_class, r,
                                  1 << 30);
        }
        mrail_throttle_mark(&other->peer, fair_share);
    }
    for (unsigned r = 0; r < RAILS; ++r) {
        mask |= (unsigned)other->lane[r].sched.usable << r;
    }
    return mask;
}

static void test_throttles(void **state)
{
    static const mrail_op_kind_t kinds[] = {MRAIL_OP_GET, MRAIL_OP_PUT};

    for (unsigned i = 0; i < 2; ++i) {
        fixture_init(kinds[i], kinds[i], 1);
        run(POLLS);
        assert_int_equal(usable(&others[0]), 2);
        assert_int_equal(usable(&others[1]), 0xd);
    }
}

/* The two directions of a rail are independent. */
static void test_directions(void **state)
{
    fixture_init(MRAIL_OP_GET, MRAIL_OP_PUT, 1);
    run(POLLS);
    assert_null(mrail_throttle_fair_share(&others[0].peer));
    assert_null(mrail_throttle_fair_share(&others[1].peer));
}

static void test_same_rails(void **state)
{
    fixture_init(MRAIL_OP_GET, MRAIL_OP_GET, RAILS);
    run(POLLS);
    assert_null(mrail_throttle_fair_share(&others[0].peer));
}

/* A peer without work, or with only undivided work, must not throttle any other
 * peer. */
static void test_no_work(void **state)
{
    fixture_init(MRAIL_OP_GET, MRAIL_OP_GET, 1);
    run(POLLS);
    assert_int_equal(usable(&others[0]), 2);
    others[1].op.whole = 1;
    run(1);
    assert_int_equal(usable(&others[0]), 0xf);
    others[1].op.whole = 0;
    run(1);
    assert_int_equal(usable(&others[0]), 2);
    mrail_list_del(&others[1].op.uncut);
    run(1);
    assert_int_equal(usable(&others[0]), 0xf);
}

/* A peer that arrives between two periods must not be throttled before the next
 * period. */
static void test_between_periods(void **state)
{
    fixture_init(MRAIL_OP_GET, MRAIL_OP_GET, 1);
    run(POLLS);
    mrail_list_del(&others[0].peer.active);
    run(1);
    assert_null(mrail_throttle_fair_share(&others[0].peer));
    mrail_peer_activate(&others[0].peer);
    assert_null(mrail_throttle_fair_share(&others[0].peer));
    run(1);
    assert_non_null(mrail_throttle_fair_share(&others[0].peer));
}

/* A completion must wake a sleeping iface. */
static void test_nothing_in_flight(void **state)
{
    fixture_init(MRAIL_OP_GET, MRAIL_OP_GET, 1);
    run(POLLS);
    others[0].lane[0].sched.inflight = 0;
    assert_int_equal(usable(&others[0]), 0xf);
    others[0].lane[1].sched.inflight = 1;
    assert_int_equal(usable(&others[0]), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_throttles),
        cmocka_unit_test(test_directions),
        cmocka_unit_test(test_same_rails),
        cmocka_unit_test(test_no_work),
        cmocka_unit_test(test_between_periods),
        cmocka_unit_test(test_nothing_in_flight),
    };

    return cmocka_run_group_tests_name("yield", tests, NULL, NULL);
}
