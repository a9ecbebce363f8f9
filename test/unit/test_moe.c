/* Tests the routing of tokens to experts. */
#include "config.h"
#include "tools/moe.h"

#include "base/util.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define RANKS 4
#define EXPERTS 8

static uint64_t copies[RANKS * RANKS], load[2 * EXPERTS];

static mrail_moe_t layer(uint64_t tokens, unsigned top_k, uint32_t skew_ppm,
                         double capacity)
{
    return (mrail_moe_t){.tokens = tokens,
                         .ranks = RANKS,
                         .experts = EXPERTS,
                         .top_k = top_k,
                         .skew_ppm = skew_ppm,
                         .capacity = capacity,
                         .seed = 7};
}

static uint64_t sum(const uint64_t *values, unsigned num)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < num; ++i) {
        total += values[i];
    }
    return total;
}

/* Each rank sends top_k copies of each of its tokens. The load of an expert is
 * the number of tokens that its rank receives. */
static void test_totals(void **state)
{
    for (uint64_t tokens = 1; tokens < 400; tokens = 3 * tokens + 1) {
        for (unsigned top_k = 1; top_k <= EXPERTS; ++top_k) {
            mrail_moe_t moe = layer(tokens, top_k, 500000, 0);

            assert_int_equal(mrail_moe_route(&moe, tokens, copies, load), 0);
            for (unsigned rank = 0; rank < RANKS; ++rank) {
                uint64_t in = 0;

                assert_int_equal(sum(copies + rank * RANKS, RANKS),
                                 mrail_moe_tokens(&moe, rank) * top_k);
                for (unsigned from = 0; from < RANKS; ++from) {
                    in += copies[from * RANKS + rank];
                }
                assert_int_equal(in, load[2 * rank] + load[2 * rank + 1]);
            }
            assert_int_equal(sum(load, EXPERTS), tokens * top_k);
        }
    }
}

/* If each token uses all experts, no expert occurs twice. */
static void test_experts_differ(void **state)
{
    mrail_moe_t moe = layer(1000, EXPERTS, 900000, 0);

    mrail_moe_route(&moe, 0, copies, load);
    for (unsigned i = 0; i < EXPERTS; ++i) {
        assert_int_equal(load[i], 1000);
    }
}

/* Expert 0 receives the skewed tokens and its share of the others, within five
 * standard deviations. The other experts share the rest equally. */
static void test_skew(void **state)
{
    static const uint32_t skews[] = {0, 400000, 900000, 999999};
    const double tokens = 100000;

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(skews); ++i) {
        mrail_moe_t moe = layer(100000, 1, skews[i], 0);
        double skew = skews[i] / 1e6;
        double hot = tokens * (skew + (1 - skew) / EXPERTS);
        double other = tokens * (1 - skew) / EXPERTS;

        mrail_moe_route(&moe, 3, copies, load);
        assert_true((double)load[0] > hot - 800 && (double)load[0] < hot + 800);
        for (unsigned k = 1; k < EXPERTS; ++k) {
            assert_true((double)load[k] > other - 800 &&
                        (double)load[k] < other + 800);
        }
    }
}

static void test_capacity(void **state)
{
    mrail_moe_t moe = layer(1000, 2, 900000, 1.25);
    uint64_t dropped;

    assert_int_equal(mrail_moe_limit(&moe), 313); /* 1.25 * 2000 / 8, up */
    dropped = mrail_moe_route(&moe, 0, copies, load);
    assert_int_equal(load[0], 313);
    for (unsigned i = 1; i < EXPERTS; ++i) {
        assert_true(load[i] <= 313);
    }
    assert_int_equal(dropped, 2000 - sum(load, EXPERTS));
    assert_int_equal(sum(copies, RANKS * RANKS), sum(load, EXPERTS));
}

/* Only the seed and the step determine the routing. */
static void test_seed(void **state)
{
    mrail_moe_t moe = layer(1000, 2, 500000, 0);
    uint64_t first[RANKS * RANKS];

    mrail_moe_route(&moe, 5, first, load);
    mrail_moe_route(&moe, 6, copies, load);
    assert_memory_not_equal(first, copies, sizeof(first));
    mrail_moe_route(&moe, 5, copies, load);
    assert_memory_equal(first, copies, sizeof(first));
    moe.seed = 8;
    mrail_moe_route(&moe, 5, copies, load);
    assert_memory_not_equal(first, copies, sizeof(first));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_totals), cmocka_unit_test(test_experts_differ),
        cmocka_unit_test(test_skew), cmocka_unit_test(test_capacity),
        cmocka_unit_test(test_seed)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
