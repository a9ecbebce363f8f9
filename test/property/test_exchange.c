/*
 * Tests src/fabric/simulate.c: exchanges in flow-level simulation, with random
 * messages and fabrics. The tests cover the bound, conservation of bytes,
 * Ethereal against spraying, random ports against balls in bins, and failures.
 */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/util.h"
#include "fabric/simulate.h"
#include "fabric/flowlets.h"

#define RATE 1e6 /* bytes per second of all links */
#define NEAR 1e-6
#define MAX_MESSAGES 4096

static const char leaf_spine[] = "host h[1-16]\nleaf l[1-4]\nspine s[1-4]\n"
                                 "link h[1-16] l[1-4] 1MB block\n"
                                 "link l[1-4] s[1-4] 1MB\n";
static const char parallel[] = "host h[1-8]\nleaf l[1-2]\nspine s[1-2]\n"
                               "link h[1-4] l1 1MB x2\nlink h[5-8] l2 1MB x2\n"
                               "link l[1-2] s[1-2] 1MB x4\n";
static const char three_tiers[] =
    "host h[1-32]\nleaf l[1-8]\nspine s[1-8]\ncore c[1-4]\n"
    "link h[1-32] l[1-8] 1MB block\n"
    "link l[1-4] s[1-4] 1MB\nlink l[5-8] s[5-8] 1MB\n"
    "link s[1,5] c1 1MB x4\nlink s[2,6] c2 1MB x4\n"
    "link s[3,7] c3 1MB x4\nlink s[4,8] c4 1MB x4\n";

typedef struct trial {
    mrail_fabric_t *fabric;
    uint32_t nics[256], num_nics;
    mrail_sim_message_t messages[MAX_MESSAGES];
    uint32_t num;
    double *bytes, *after;
    mrail_sim_result_t result;
} trial_t;

static trial_t trial; /* too large for the stack */

static void begin(const char *text)
{
    char reason[512] = "";

    memset(&trial, 0, sizeof(trial));
    if (mrail_fabric_parse("t", text, strlen(text), &trial.fabric, reason,
                           sizeof(reason)) != 0) {
        fail_msg("%s", reason);
    }
    for (uint32_t i = 0; i < trial.fabric->num_links; ++i) {
        if (trial.fabric->nodes[trial.fabric->links[i].lower].tier ==
            MRAIL_FABRIC_HOST) {
            trial.nics[trial.num_nics++] = i;
        }
    }
    trial.bytes = calloc(2 * trial.fabric->num_links, sizeof(double));
    trial.after = calloc(2 * trial.fabric->num_links, sizeof(double));
    assert_true(trial.bytes != NULL && trial.after != NULL);
}

static void end(void)
{
    free(trial.bytes);
    free(trial.after);
    mrail_fabric_destroy(trial.fabric);
}

static void message(uint32_t from, uint32_t to, double bytes)
{
    assert_true(trial.num < MAX_MESSAGES);
    trial.messages[trial.num++] = (mrail_sim_message_t){
        .from = trial.nics[from], .to = trial.nics[to], .bytes = bytes};
}

static void alltoall(double bytes)
{
    for (uint32_t i = 0; i < trial.num_nics; ++i) {
        for (uint32_t j = 0; j < trial.num_nics; ++j) {
            if (i != j) {
                message(i, j, bytes);
            }
        }
    }
}

static double run(mrail_sim_method_t method, unsigned lanes, uint64_t seed)
{
    mrail_sim_params_t params = {.method = method,
                                 .lanes = lanes,
                                 .seed = seed,
                                 .failed_link = MRAIL_FABRIC_NONE};

    memset(trial.bytes, 0, 2 * trial.fabric->num_links * sizeof(double));
    trial.result = (mrail_sim_result_t){.link_bytes = trial.bytes};
    assert_int_equal(mrail_sim_run(trial.fabric, &params, trial.messages,
                                   trial.num, &trial.result),
                     0);
    return trial.result.time_s;
}

static double bound(void)
{
    double time_s = 0;

    assert_int_equal(
        mrail_sim_bound(trial.fabric, trial.messages, trial.num, &time_s), 0);
    return time_s;
}

static void assert_near(double value, double wanted)
{
    if (!(fabs(value - wanted) <= NEAR * wanted)) {
        fail_msg("%.12g, not %.12g", value, wanted);
    }
}

/* With a single message, the NIC is the bottleneck of every path. */
static void test_single_flow(void **state)
{
    begin(parallel);
    message(0, 8, 5 * RATE);
    for (unsigned m = 0; m < MRAIL_SIM_NUM_METHODS; ++m) {
        assert_near(run((mrail_sim_method_t)m, 8, 1), 5);
    }
    end();
}

/* Every method must be at most as fast as the bound, and must carry all bytes
 * through the NICs. */
static void test_bound(void **state)
{
    static const char *const texts[] = {leaf_spine, parallel, three_tiers};

    for (unsigned t = 0; t < MRAIL_ARRAY_SIZE(texts); ++t) {
        for (uint64_t seed = 1; seed <= 12; ++seed) {
            mrail_rng_t rng;
            double sum = 0;

            begin(texts[t]);
            mrail_rng_init(&rng, seed);
            for (unsigned i = 0; i < 60; ++i) {
                uint32_t from = mrail_rng_below(&rng, trial.num_nics);
                uint32_t to = mrail_rng_below(&rng, trial.num_nics - 1);
                double bytes = RATE * (1 + mrail_rng_below(&rng, 5));

                message(from, to + (to >= from), bytes);
                sum += bytes;
            }
            for (unsigned m = 0; m < MRAIL_SIM_NUM_METHODS; ++m) {
                double up = 0, down = 0;
                double time_s =
                    run((mrail_sim_method_t)m, 1 + (unsigned)seed % 5, seed);

                assert_true(time_s >= bound() * (1 - NEAR));
                for (uint32_t i = 0; i < trial.num_nics; ++i) {
                    up += trial.bytes[MRAIL_ROUTE_UP(trial.nics[i])];
                    down += trial.bytes[MRAIL_ROUTE_DOWN(trial.nics[i])];
                }
                assert_near(up, sum);
                assert_near(down, sum);
                for (uint32_t i = 0; i < 2 * trial.fabric->num_links; ++i) {
                    assert_true(trial.bytes[i] <= RATE * time_s * (1 + NEAR));
                }
                assert_true(time_s == run((mrail_sim_method_t)m,
                                          1 + (unsigned)seed % 5, seed));
            }
            end();
        }
    }
}

/* [Ethereal] Theorem 1: equal flows take as long as spraying, and every uplink
 * carries the same number of bytes. The same holds for DNLB with a lane for
 * each path. */
static void check_equal(double spray_s, mrail_sim_method_t method,
                        unsigned lanes)
{
    mrail_sim_load_t load;

    assert_near(run(method, lanes, 1), spray_s);
    load = mrail_sim_uplinks(trial.fabric, MRAIL_FABRIC_NONE, trial.bytes,
                             spray_s, MRAIL_FABRIC_NONE);
    assert_true(load.mean > 0.4 && load.cv < NEAR);
}

static void test_ethereal(void **state)
{
    static const char *const texts[] = {leaf_spine, parallel, three_tiers};
    static const unsigned lanes[] = {4, 8, 4};

    for (unsigned t = 0; t < MRAIL_ARRAY_SIZE(texts); ++t) {
        begin(texts[t]);
        alltoall(RATE);
        check_equal(run(MRAIL_SIM_SPRAY, 1, 1), MRAIL_SIM_ETHEREAL, 1);
        check_equal(run(MRAIL_SIM_SPRAY, 1, 1), MRAIL_SIM_DNLB, lanes[t]);
        /* Each NIC sends to the NIC half the fabric away. */
        trial.num = 0;
        for (uint32_t i = 0; i < trial.num_nics; ++i) {
            message(i, (i + trial.num_nics / 2) % trial.num_nics, RATE);
        }
        check_equal(run(MRAIL_SIM_SPRAY, 1, 1), MRAIL_SIM_ETHEREAL, 1);
        check_equal(run(MRAIL_SIM_SPRAY, 1, 1), MRAIL_SIM_DNLB, lanes[t]);
        assert_int_equal(trial.result.most_qps, lanes[t]);
        end();
    }
}

/* N senders use N paths, with m equal flows each on random ports. The time must
 * match the fullest of N bins after N m balls are thrown. Lanes that pull their
 * work must not be slower. */
static void test_balls_in_bins(void **state)
{
    static const struct {
        unsigned n, m, seeds;
    } cases[] = {{16, 1, 3000}, {16, 8, 800}, {32, 4, 1000}, {32, 16, 250}};

    for (unsigned c = 0; c < MRAIL_ARRAY_SIZE(cases); ++c) {
        unsigned n = cases[c].n, m = cases[c].m;
        double sum = 0, pulling = 0, exact;
        char text[256];

        snprintf(text, sizeof(text),
                 "host h[1-%u]\nleaf l[1-2]\nspine s[1-%u]\n"
                 "link h[1-%u] l[1-2] 1MB block\nlink l[1-2] s[1-%u] 1MB\n",
                 2 * n, n, 2 * n, n);
        begin(text);
        for (uint32_t i = 0; i < n; ++i) {
            message(i, n + i, RATE);
        }
        for (uint64_t seed = 1; seed <= cases[c].seeds; ++seed) {
            sum += run(MRAIL_SIM_MPRDMA, m, seed);
            pulling += run(MRAIL_SIM_PARALET, m, seed);
        }
        exact = mrail_flowlets_slowdown_exact(n, m);
        sum /= cases[c].seeds;
        pulling /= cases[c].seeds;
        print_message("n %u, m %u: %.4f simulated, %.4f exact, %.4f by "
                      "equation (1); %.4f with lanes that pull\n",
                      n, m, sum, exact, mrail_flowlets_slowdown(n, m), pulling);
        assert_true(fabs(sum / exact - 1) < 0.01);
        assert_true(pulling <= sum * (1 + NEAR));
        end();
    }
}

static int run_failing(mrail_sim_method_t method, uint32_t link,
                       double failure_s)
{
    mrail_sim_params_t params = {.method = method,
                                 .lanes = 4,
                                 .seed = 1,
                                 .failed_link = link,
                                 .failure_s = failure_s};

    memset(trial.bytes, 0, 2 * trial.fabric->num_links * sizeof(double));
    memset(trial.after, 0, 2 * trial.fabric->num_links * sizeof(double));
    trial.result = (mrail_sim_result_t){.link_bytes = trial.bytes,
                                        .after_bytes = trial.after};
    return mrail_sim_run(trial.fabric, &params, trial.messages, trial.num,
                         &trial.result);
}

/* If a host's link fails, its messages have no path, with any method. A failure
 * after the last message of that host changes nothing. */
static void test_host_fails(void **state)
{
    begin(leaf_spine);
    message(0, 4, RATE);
    message(8, 12, 3 * RATE);
    for (unsigned m = 0; m < MRAIL_SIM_NUM_METHODS; ++m) {
        assert_int_equal(run_failing((mrail_sim_method_t)m, trial.nics[4], 0.5),
                         -EHOSTUNREACH);
        assert_int_equal(run_failing((mrail_sim_method_t)m, trial.nics[4], 1.5),
                         0);
        assert_near(trial.result.time_s, 3);
    }
    end();
}

/* If any link between switches fails, nothing may cross it afterwards, and all
 * bytes must still arrive. */
static void test_link_fails(void **state)
{
    static const char *const texts[] = {leaf_spine, parallel, three_tiers};

    for (unsigned t = 0; t < MRAIL_ARRAY_SIZE(texts); ++t) {
        begin(texts[t]);
        alltoall(RATE);
        for (uint32_t link = 0; link < trial.fabric->num_links; ++link) {
            if (trial.fabric->nodes[trial.fabric->links[link].lower].tier ==
                MRAIL_FABRIC_HOST) {
                continue;
            }
            for (unsigned m = MRAIL_SIM_DNLB; m < MRAIL_SIM_NUM_METHODS; ++m) {
                double down = 0;

                assert_int_equal(run_failing((mrail_sim_method_t)m, link, 0.5),
                                 0);
                assert_true(trial.after[MRAIL_ROUTE_UP(link)] == 0);
                assert_true(trial.after[MRAIL_ROUTE_DOWN(link)] == 0);
                for (uint32_t i = 0; i < trial.num_nics; ++i) {
                    down += trial.bytes[MRAIL_ROUTE_DOWN(trial.nics[i])];
                }
                assert_near(down, RATE * trial.num);
            }
        }
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_flow),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_ethereal),
        cmocka_unit_test(test_balls_in_bins),
        cmocka_unit_test(test_host_fails),
        cmocka_unit_test(test_link_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
