/* Tests the return of a path to its own source port. */
#include "config.h"
#include "rail/proto/port_return.h"

#include "base/rng.h"
#include "base/util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define SEC MRAIL_NS_PER_SEC
#define STEP (10 * MRAIL_NS_PER_MS)

static mrail_port_return_t path;
static mrail_ns_t now_ns;

static void begin(void)
{
    now_ns = 1000 * SEC;
    mrail_port_return_init(&path);
}

/* Runs until a probe is sent, for at most this time. Returns the time that
 * passed, or MRAIL_NS_NEVER. */
static mrail_ns_t await_probe(mrail_ns_t most_ns)
{
    mrail_ns_t begun_ns = now_ns;

    for (; now_ns <= begun_ns + most_ns; now_ns += STEP) {
        if (mrail_port_return_probe(&path, now_ns)) {
            return now_ns - begun_ns;
        }
    }
    return MRAIL_NS_NEVER;
}

/* Answers probes until the path returns. Returns the number of answers. */
static unsigned answer_all(void)
{
    for (unsigned count = 1;; ++count) {
        assert_true(await_probe(100 * SEC) != MRAIL_NS_NEVER);
        if (mrail_port_return_answer(&path, now_ns + 1)) {
            return count;
        }
    }
}

static void test_own_port_is_not_probed(void **state)
{
    begin();
    assert_true(await_probe(1000 * SEC) == MRAIL_NS_NEVER);
}

static void test_returns_after_answers(void **state)
{
    begin();
    mrail_port_return_left(&path, now_ns);
    assert_true(await_probe(10 * SEC) == MRAIL_PORT_RETURN_MIN);
    assert_int_equal(mrail_port_return_answer(&path, now_ns), 0);
    assert_true(await_probe(10 * SEC) == MRAIL_PORT_RETURN_SPACING);
    assert_int_equal(mrail_port_return_answer(&path, now_ns), 0);
    assert_int_equal(mrail_port_return_answer(&path, now_ns), 0); /* twice */
    assert_true(await_probe(10 * SEC) == MRAIL_PORT_RETURN_SPACING);
    assert_int_equal(mrail_port_return_answer(&path, now_ns), 1);
    assert_true(await_probe(1000 * SEC) == MRAIL_NS_NEVER);
}

static void test_lost_probes_wait_longer(void **state)
{
    mrail_ns_t wait_ns, before_ns = 0;

    begin();
    mrail_port_return_left(&path, now_ns);
    for (unsigned i = 0; i < 12; ++i) {
        wait_ns = await_probe(1000 * SEC);
        assert_true(wait_ns != MRAIL_NS_NEVER && wait_ns >= before_ns);
        assert_true(wait_ns <=
                    MRAIL_PORT_RETURN_MAX + MRAIL_PORT_RETURN_TIMEOUT + STEP);
        before_ns = wait_ns;
    }
    assert_true(before_ns >= MRAIL_PORT_RETURN_MAX);
    assert_int_equal(answer_all(), MRAIL_PORT_RETURN_ANSWERS);
}

/* An answer counts only if the probe before it was also answered. */
static void test_answers_in_sequence(void **state)
{
    begin();
    mrail_port_return_left(&path, now_ns);
    for (unsigned i = 0; i < 20; ++i) {
        assert_true(await_probe(1000 * SEC) != MRAIL_NS_NEVER);
        assert_int_equal(mrail_port_return_answer(&path, now_ns), 0);
        assert_true(await_probe(1000 * SEC) != MRAIL_NS_NEVER);
        assert_int_equal(mrail_port_return_answer(&path, now_ns), 0);
        assert_true(await_probe(1000 * SEC) != MRAIL_NS_NEVER); /* lost */
        now_ns += MRAIL_PORT_RETURN_TIMEOUT;
        assert_int_equal(mrail_port_return_probe(&path, now_ns), 0);
        assert_int_equal(mrail_port_return_answer(&path, now_ns), 0); /* late */
    }
}

/* An uplink that fails soon after each return is tried less often. */
static void test_unstable_uplink(void **state)
{
    mrail_ns_t wait_ns = 0;

    begin();
    for (unsigned i = 0; i < 10; ++i) {
        mrail_port_return_left(&path, now_ns);
        wait_ns = await_probe(1000 * SEC);
        assert_true(wait_ns == MRAIL_MIN(MRAIL_PORT_RETURN_MIN << i,
                                         MRAIL_PORT_RETURN_MAX));
        assert_int_equal(mrail_port_return_answer(&path, now_ns), 0);
        assert_int_equal(answer_all(), MRAIL_PORT_RETURN_ANSWERS - 1);
        now_ns += SEC;
    }
    now_ns += MRAIL_PORT_RETURN_FLAP;
    mrail_port_return_left(&path, now_ns);
    assert_true(await_probe(10 * SEC) == MRAIL_PORT_RETURN_MIN);
}

/* A path without a lane is due less and less often. */
static void test_no_lane(void **state)
{
    unsigned visits = 0;

    begin();
    mrail_port_return_left(&path, now_ns);
    for (mrail_ns_t end_ns = now_ns + 1000 * SEC; now_ns < end_ns;
         now_ns = path.due_ns) {
        mrail_port_return_postpone(&path, now_ns);
        ++visits;
    }
    assert_in_range(visits, 15, 25);
    assert_int_equal(answer_all(), MRAIL_PORT_RETURN_ANSWERS);
}

/* A path that leaves its port several times in one failure backs off once. */
static void test_several_ports(void **state)
{
    begin();
    for (unsigned i = 0; i < 50; ++i) {
        mrail_port_return_left(&path, now_ns);
        now_ns += STEP;
    }
    assert_true(await_probe(10 * SEC) <= MRAIL_PORT_RETURN_MIN);
}

/* In any sequence of events, a path returns only after three consecutive
 * answers, a working uplink is used again within a bounded time, and probes are
 * rare. */
static void test_random_outages(void **state)
{
    unsigned returns = 0;

    for (uint64_t seed = 1; seed <= 500; ++seed) {
        unsigned answers = 0, probes = 0;
        mrail_ns_t begun_ns;
        mrail_rng_t rng;

        mrail_rng_init(&rng, seed);
        begin();
        begun_ns = now_ns;
        mrail_port_return_left(&path, now_ns);
        while (now_ns < begun_ns + 600 * SEC && path.due_ns != MRAIL_NS_NEVER) {
            unsigned draw = mrail_rng_below(&rng, 5000);

            now_ns += STEP;
            if (draw < 2) {
                mrail_port_return_postpone(&path, now_ns);
                answers = 0;
            } else if (mrail_port_return_probe(&path, now_ns)) {
                ++probes;
                if (draw < 2000) {
                    ++answers;
                    if (mrail_port_return_answer(&path, now_ns)) {
                        assert_int_equal(answers, MRAIL_PORT_RETURN_ANSWERS);
                        ++returns;
                    }
                } else if (draw < 2250) {
                    mrail_port_return_unsent(&path, now_ns);
                } else {
                    answers = 0; /* lost */
                }
            }
        }
        assert_true(probes <= 600);
        if (path.due_ns != MRAIL_NS_NEVER) {
            begun_ns = now_ns;
            assert_in_range(answer_all(), 1, MRAIL_PORT_RETURN_ANSWERS);
            assert_true(now_ns <= begun_ns + MRAIL_PORT_RETURN_MAX + SEC);
        }
    }
    assert_in_range(returns, 50, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_port_is_not_probed),
        cmocka_unit_test(test_returns_after_answers),
        cmocka_unit_test(test_lost_probes_wait_longer),
        cmocka_unit_test(test_answers_in_sequence),
        cmocka_unit_test(test_unstable_uplink),
        cmocka_unit_test(test_no_lane),
        cmocka_unit_test(test_several_ports),
        cmocka_unit_test(test_random_outages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
