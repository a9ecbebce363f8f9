/*
 * Tests the throughput window with small cases, and with a 400 Gb/s lane in
 * virtual time with another flow from 100 us on (metered_lane.h), over many
 * seeds.
 *
 * Derivation of the limits. Let s be the time of a chunk at the current rate,
 * and J the longest time between polls (1 us). While a lane has work, the busy
 * time of each chunk begins at the end of the previous chunk. The times of a
 * window therefore add up to the time from one completion to the W-th
 * completion after it. For any polls in between, that is W * s with an error
 * below J. It follows that:
 *
 *   noise     The relative error of a rate is at most J / (W * s - J). At the
 *             full rate (s = 1.31 us), that is 0.106 for W = 8 and 0.025 for
 *             W = 32; at half of that rate, it is 0.051 and 0.013. Noise is
 *             proportional to 1 / W. At W = 1, it is at least 8 times as large
 *             as at W = 8 (it is more, because 1 / x is convex), and W = 1
 *             raises false alarms (below three quarters of the rate).
 *   arrival   The last completion is at most s + J old. At a quarter of the
 *             rate, that is 6.3 us. In the second sample, at 20 us, a window
 *             of 8 contains 13.7 us of the new rate, and its own rate is below
 *             0.54. A window of 32 takes 41.9 us. For its rate to drop to
 *             three quarters, it must be 14 us longer, and so contain 18.6 us
 *             of the new rate. The first sample shows nothing.
 *   bursts    At the end of a burst, W = 8 is below 0.48 (after the first
 *             burst, 10 us later: below 0.5). At the end of a pause, it
 *             contains only the pause and is above 0.69. It therefore falls
 *             below 0.5 and rises above 0.65 once per burst, by 0.21. A window
 *             of 32 contains two whole bursts and pauses, and at most one
 *             burst or pause more, 10 us in 84: 0.44 to 0.57. It never rises
 *             by more than the difference and never above 0.65, so it makes a
 *             single step.
 *   leave     20 us later, a window of 8 contains only the full rate. A window
 *             of 32 is above three quarters after 27 us, in the third sample.
 */
#include "config.h"
#include "metered_lane.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#define SEEDS 300

#define check(seed, condition)                                                 \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fail_msg("seed %u: not " #condition ": see build/window_figure "   \
                     "%u",                                                     \
                     seed, seed);                                              \
        }                                                                      \
    } while (0)

/* ---- small cases ---- */

#define BYTES 100000
#define SERVE_NS 1000ull /* 100 GB/s */
#define FULL 100000000000ull

typedef struct {
    mrail_tele_sums_t sums;
    mrail_tele_sample_t samples[32];
    unsigned size;
    mrail_ns_t now_ns;
} driver_t;

static void driver_init(driver_t *driver, unsigned size)
{
    memset(driver, 0, sizeof(*driver));
    driver->size = size;
    driver->now_ns = 5000;
}

static uint64_t driver_rate(const driver_t *driver)
{
    return mrail_tele_sums_rate(&driver->sums);
}

/* Posts `count` segments in one batch. After that, each takes serve_ns. */
static void driver_serve(driver_t *driver, unsigned count, mrail_ns_t serve_ns)
{
    mrail_ns_t post_ns = driver->now_ns;

    while (count-- != 0) {
        driver->now_ns += serve_ns;
        mrail_tele_sums_add(&driver->sums, driver->samples, driver->size, BYTES,
                            post_ns, driver->now_ns);
    }
}

static void test_steady(void **state)
{
    for (unsigned i = 0; i < METERED_WINDOWS; ++i) {
        driver_t driver;

        driver_init(&driver, metered_size[i]);
        assert_int_equal(driver_rate(&driver), 0);
        for (unsigned k = 0; k < 100; ++k) {
            driver_serve(&driver, 1, SERVE_NS);
            assert_int_equal(driver_rate(&driver), FULL);
        }
        driver_serve(&driver, 100, SERVE_NS);
        assert_int_equal(driver_rate(&driver), FULL);
    }
}

/* The window must contain exactly the last W segments. */
static void test_size(void **state)
{
    for (unsigned i = 0; i < METERED_WINDOWS; ++i) {
        unsigned size = metered_size[i];
        driver_t driver;

        driver_init(&driver, size);
        driver_serve(&driver, 50, SERVE_NS);
        for (unsigned k = 1; k <= size; ++k) {
            driver_serve(&driver, 1, 4 * SERVE_NS);
            assert_int_equal(driver_rate(&driver),
                             FULL * size / (size + 3 * k));
        }
        for (unsigned k = 1; k <= size; ++k) {
            assert_true(driver_rate(&driver) < FULL);
            driver_serve(&driver, 1, SERVE_NS);
        }
        assert_int_equal(driver_rate(&driver), FULL);
    }
}

/* Idle time must not lower the rate. */
static void test_idle_gap(void **state)
{
    for (unsigned i = 0; i < METERED_WINDOWS; ++i) {
        for (mrail_ns_t gap_ns = 1; gap_ns < MRAIL_NS_PER_SEC; gap_ns *= 10) {
            driver_t driver;

            driver_init(&driver, metered_size[i]);
            driver_serve(&driver, 40, SERVE_NS);
            driver.now_ns += gap_ns;
            for (unsigned k = 0; k < 40; ++k) {
                driver_serve(&driver, 1, SERVE_NS);
                assert_int_equal(driver_rate(&driver), FULL);
            }
        }
    }
}

/* If work is in flight but nothing completes, all of the time must count. It
 * leaves the window after W segments. */
static void test_stalled_gap(void **state)
{
    for (unsigned i = 0; i < METERED_WINDOWS; ++i) {
        unsigned size = metered_size[i];
        mrail_ns_t post_ns;
        driver_t driver;

        driver_init(&driver, size);
        driver_serve(&driver, 40, SERVE_NS);
        post_ns = driver.now_ns;
        driver.now_ns += 9 * SERVE_NS;
        for (unsigned k = 0; k < 40; ++k) {
            driver.now_ns += SERVE_NS;
            mrail_tele_sums_add(&driver.sums, driver.samples, size, BYTES,
                                post_ns, driver.now_ns);
            assert_int_equal(driver_rate(&driver),
                             (k < size) ? FULL * size / (size + 9) : FULL);
        }
    }
}

/* A gap begins with idle time and continues with stalled time. Only the stalled
 * time must count. */
static void test_mixed_gap(void **state)
{
    driver_t driver;

    driver_init(&driver, 8);
    driver_serve(&driver, 40, SERVE_NS);
    driver.now_ns += 1000 * SERVE_NS;
    driver_serve(&driver, 1, 5 * SERVE_NS);
    assert_int_equal(driver_rate(&driver), FULL * 8 / 12);
}

/* After a pause of the process, one poll returns up to 16 completions, which is
 * more than a window. The rate of the lane is unchanged. */
static void test_batches(void **state)
{
    for (unsigned i = 0; i < METERED_WINDOWS; ++i) {
        driver_t driver;

        driver_init(&driver, metered_size[i]);
        for (unsigned k = 0; k < 200; ++k) {
            unsigned batch = ((k % 16) == 0) ? 16 : 1;
            mrail_ns_t post_ns = driver.now_ns;

            driver.now_ns += batch * SERVE_NS;
            for (unsigned n = 0; n < batch; ++n) {
                mrail_tele_sums_add(&driver.sums, driver.samples, driver.size,
                                    BYTES, post_ns, driver.now_ns);
            }
            assert_int_equal(driver_rate(&driver), FULL);
        }
    }
}

/* Of a large batch, only the last W completions count. They leave the window
 * when W others have arrived. */
static void test_batch_leaves_the_window(void **state)
{
    for (unsigned i = 0; i < METERED_WINDOWS; ++i) {
        unsigned size = metered_size[i];
        driver_t driver;

        for (unsigned batch = 2; batch <= 16; batch *= 2) {
            unsigned kept = (batch < size) ? batch : size;
            mrail_ns_t post_ns;

            driver_init(&driver, size);
            driver_serve(&driver, 40, SERVE_NS);
            post_ns = driver.now_ns;
            driver.now_ns += batch * 4 * SERVE_NS;
            for (unsigned n = 0; n < batch; ++n) {
                mrail_tele_sums_add(&driver.sums, driver.samples, size, BYTES,
                                    post_ns, driver.now_ns);
            }
            assert_int_equal(driver_rate(&driver),
                             FULL * size / (size + 3 * kept));
            driver_serve(&driver, size - 1, SERVE_NS);
            assert_int_equal(driver_rate(&driver), FULL * size / (size + 3));
            driver_serve(&driver, 1, SERVE_NS);
            assert_int_equal(driver_rate(&driver), FULL);
        }
    }
}

/* ---- the disturbed lane ---- */

static void test_data_path(void **state)
{
    metered_point_t points[METERED_POINTS];

    for (unsigned seed = 1; seed <= SEEDS; ++seed) {
        metered_run(seed, points);
        for (unsigned i = 0; i < METERED_POINTS; ++i) {
            check(seed, points[i].meter == points[i].rate[METERED_W8]);
            check(seed, points[i].at_ns == (i + 1) * METERED_SAMPLE_NS);
        }
    }
}

static void run_seed(unsigned seed, metered_result_t *result)
{
    metered_point_t points[METERED_POINTS];

    metered_run(seed, points);
    for (unsigned i = 0; i < METERED_WINDOWS; ++i) {
        metered_check(points, i, &result[i]);
    }
}

static void test_noise(void **state)
{
    double square[METERED_WINDOWS] = {0};
    unsigned false_alarms = 0;

    for (unsigned seed = 1; seed <= SEEDS; ++seed) {
        metered_result_t result[METERED_WINDOWS];

        run_seed(seed, result);
        check(seed, result[METERED_W8].worst < 0.106);
        check(seed, result[METERED_W32].worst < 0.025);
        check(seed, result[METERED_W8].stable_worst < 0.051 / 2);
        check(seed, result[METERED_W32].stable_worst < 0.013 / 2);
        for (unsigned i = 0; i < METERED_WINDOWS; ++i) {
            square[i] += result[i].square;
        }
        false_alarms += result[METERED_W1].false_alarms;
    }
    assert_true(square[METERED_W1] > 8 * 8 * square[METERED_W8]);
    assert_true(square[METERED_W8] > 3 * 3 * square[METERED_W32]);
    assert_true(false_alarms > SEEDS / 30);
}

static void test_arrival(void **state)
{
    for (unsigned seed = 1; seed <= SEEDS; ++seed) {
        metered_result_t result[METERED_WINDOWS];

        run_seed(seed, result);
        check(seed, result[METERED_W8].false_alarms == 0);
        check(seed, result[METERED_W8].seen_ns <= 2 * METERED_SAMPLE_NS);
        check(seed, result[METERED_W32].false_alarms == 0);
        check(seed, result[METERED_W32].seen_ns >= 2 * METERED_SAMPLE_NS);
        check(seed, result[METERED_W32].seen_ns != MRAIL_NS_NEVER);
    }
}

static void test_bursts(void **state)
{
    for (unsigned seed = 1; seed <= SEEDS; ++seed) {
        metered_result_t result[METERED_WINDOWS];

        run_seed(seed, result);
        check(seed, result[METERED_W8].dips == METERED_BURSTS);
        check(seed, result[METERED_W8].rise > 0.21);
        check(seed, result[METERED_W32].dips == 0);
        check(seed, result[METERED_W32].rise < 0.57 - 0.44);
    }
}

static void test_leave(void **state)
{
    for (unsigned seed = 1; seed <= SEEDS; ++seed) {
        metered_result_t result[METERED_WINDOWS];

        run_seed(seed, result);
        check(seed, result[METERED_W8].gone_ns <= 2 * METERED_SAMPLE_NS);
        check(seed, result[METERED_W32].gone_ns >= 3 * METERED_SAMPLE_NS);
        check(seed, result[METERED_W32].gone_ns != MRAIL_NS_NEVER);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steady),
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_idle_gap),
        cmocka_unit_test(test_stalled_gap),
        cmocka_unit_test(test_mixed_gap),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_batch_leaves_the_window),
        cmocka_unit_test(test_data_path),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_arrival),
        cmocka_unit_test(test_bursts),
        cmocka_unit_test(test_leave),
    };

    return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}
