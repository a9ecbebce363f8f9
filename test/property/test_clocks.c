/*
 * The estimate of a clock's offset (src/tools/collect_clock.c), over seeds. Two
 * simulated hosts exchange timestamps in virtual time. Delays differ between
 * the directions and between the exchanges.
 *
 *   fixed   the true offset is within the bound, and the bound is at most half
 *           of the shortest round trip
 *   drift   a clock that drifts during the exchange: the same for the offset at
 *           the shortest round trip, plus the drift
 *   bad     stamps in which time runs backwards, or beyond the range
 */
#include "config.h"
#include "base/rng.h"
#include "base/util.h"
#include "tools/collect_clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

#define SEEDS 20000
#define MAX_STAMPS 16u
#define START UINT64_C(1764263404000000000) /* an arbitrary date */

static uint64_t magnitude(int64_t value)
{
    return (value < 0) ? (uint64_t)0 - (uint64_t)value : (uint64_t)value;
}

/* Returns a delay between 1 us and about a second; most are short. */
static uint64_t delay_ns(mrail_rng_t *rng)
{
    return (1000u << mrail_rng_below(rng, 20)) + mrail_rng_below(rng, 1000);
}

/* Returns an offset of up to about a year in either direction. */
static int64_t offset_ns(mrail_rng_t *rng)
{
    int64_t offset =
        (int64_t)(mrail_rng_next(rng) >> (9 + mrail_rng_below(rng, 50)));

    return (mrail_rng_below(rng, 2) == 0) ? offset : -offset;
}

/* Simulates exchanges. The remote clock is ahead by `offset`, and then gains
 * drift_ppb. Returns the shortest round trip. */
static uint64_t simulate(mrail_rng_t *rng, int64_t offset, int64_t drift_ppb,
                         collect_stamp_t *stamps, unsigned count)
{
    uint64_t now = START, shortest = UINT64_MAX;

    for (unsigned i = 0; i < count; ++i) {
        uint64_t there = delay_ns(rng), back = delay_ns(rng);
        int64_t gained =
            (int64_t)(now + there - START) / 1000 * drift_ppb / 1000000;

        stamps[i].sent = now;
        stamps[i].remote = (uint64_t)((int64_t)(now + there) + offset + gained);
        stamps[i].received = now + there + back;
        shortest = MRAIL_MIN(shortest, there + back);
        now = stamps[i].received + delay_ns(rng);
    }
    return shortest;
}

static void test_fixed(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; ++seed) {
        collect_stamp_t stamps[MAX_STAMPS];
        int64_t offset, estimate;
        unsigned count;
        uint64_t shortest, bound;
        mrail_rng_t rng;

        mrail_rng_init(&rng, seed);
        count = 1 + mrail_rng_below(&rng, MAX_STAMPS);
        offset = offset_ns(&rng);
        shortest = simulate(&rng, offset, 0, stamps, count);
        assert_int_equal(
            collect_clock_estimate(stamps, count, &estimate, &bound), 0);
        if ((magnitude(estimate - offset) > bound) ||
            (bound > (shortest + 1) / 2)) {
            fail_msg("seed %llu: offset %lld, estimate %lld, bound %llu, "
                     "shortest round trip %llu",
                     (unsigned long long)seed, (long long)offset,
                     (long long)estimate, (unsigned long long)bound,
                     (unsigned long long)shortest);
        }
    }
}

/* A clock that is 1/1000 too fast or slow gains up to 32 ms here. */
static void test_drift(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; ++seed) {
        collect_stamp_t stamps[MAX_STAMPS];
        int64_t offset, estimate, drift_ppb;
        unsigned count;
        uint64_t elapsed, bound, most;
        mrail_rng_t rng;

        mrail_rng_init(&rng, seed);
        count = 1 + mrail_rng_below(&rng, MAX_STAMPS);
        offset = offset_ns(&rng);
        drift_ppb = (int64_t)mrail_rng_below(&rng, 2000001) - 1000000;
        simulate(&rng, offset, drift_ppb, stamps, count);
        assert_int_equal(
            collect_clock_estimate(stamps, count, &estimate, &bound), 0);
        elapsed = stamps[count - 1].received - START;
        most = bound + elapsed / 1000 + 1000;
        if (magnitude(estimate - offset) > most) {
            fail_msg("seed %llu: offset %lld, estimate %lld, at most %llu",
                     (unsigned long long)seed, (long long)offset,
                     (long long)estimate, (unsigned long long)most);
        }
    }
}

static void test_bad(void **state)
{
    const collect_stamp_t bad[] = {{START + 1, START, START},
                                   {0, COLLECT_CLOCK_MAX + 1, 1},
                                   {0, 0, COLLECT_CLOCK_MAX + 1}};
    collect_stamp_t stamps[4] = {
        bad[0], bad[1], bad[2], {START, START + 500, START + 100}};
    int64_t offset = -7;
    uint64_t bound = 8;

    assert_int_equal(collect_clock_estimate(bad, 3, &offset, &bound), -EINVAL);
    assert_int_equal(collect_clock_estimate(bad, 0, &offset, &bound), -EINVAL);
    assert_int_equal(offset, -7);
    assert_int_equal(bound, 8);
    assert_int_equal(collect_clock_estimate(stamps, 4, &offset, &bound), 0);
    assert_int_equal(offset, 450);
    assert_int_equal(bound, 50);
}

/* The clock was set between two exchanges, so their intervals do not
 * overlap. */
static void test_set(void **state)
{
    const collect_stamp_t stamps[] = {{START, START + 1000, START + 100},
                                      {START + 200, START + 9000, START + 220}};
    uint64_t bound;
    int64_t offset;

    assert_int_equal(collect_clock_estimate(stamps, 2, &offset, &bound), 0);
    assert_int_equal(offset, 8790);
    assert_int_equal(bound, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_drift),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
