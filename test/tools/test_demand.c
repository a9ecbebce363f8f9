/* Tests src/tools/demand.c, the demands of the alltoallv benchmark. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "tools/demand.h"

static void test_shift(void **state)
{
    uint64_t row[8];

    mrail_demand_row(8, 2, 6000, 700000, MRAIL_DEMAND_SHIFT, row);
    for (unsigned d = 0; d < 8; ++d) {
        assert_int_equal(row[d], (d == 2) ? 0 : (d == 6) ? 4200 : 300);
    }
    mrail_demand_row(8, 5, 6000, 700000, MRAIL_DEMAND_SHIFT, row);
    assert_int_equal(row[1], 4200);
    assert_int_equal(row[5], 0);
}

static void test_one(void **state)
{
    uint64_t row[8];

    for (unsigned rank = 1; rank < 8; ++rank) {
        mrail_demand_row(8, rank, 6000, 700000, MRAIL_DEMAND_SINGLE, row);
        for (unsigned d = 0; d < 8; ++d) {
            assert_int_equal(row[d], (d == rank) ? 0 : (d == 0) ? 4200 : 300);
        }
    }
    /* The hot receiver is rank 0. It cannot send a larger part to itself, so it
     * sends equally to all other ranks. */
    mrail_demand_row(8, 0, 7000, 700000, MRAIL_DEMAND_SINGLE, row);
    for (unsigned d = 0; d < 8; ++d) {
        assert_int_equal(row[d], (d == 0) ? 0 : 1000);
    }
}

static void test_uniform_and_odd_bytes(void **state)
{
    uint64_t row[4];

    mrail_demand_row(4, 1, 11, MRAIL_DEMAND_UNIFORM, MRAIL_DEMAND_SHIFT, row);
    assert_int_equal(row[0], 3);
    assert_int_equal(row[1], 0);
    assert_int_equal(row[2], 4);
    assert_int_equal(row[3], 4);
}

static void test_extremes(void **state)
{
    uint64_t row[3];

    mrail_demand_row(1, 0, 100, 500000, MRAIL_DEMAND_SHIFT, row);
    assert_int_equal(row[0], 0);
    mrail_demand_row(2, 0, 100, 500000, MRAIL_DEMAND_SHIFT, row);
    assert_int_equal(row[1], 100);
    mrail_demand_row(3, 0, 100, 1000000, MRAIL_DEMAND_SHIFT, row);
    assert_int_equal(row[1], 100);
    assert_int_equal(row[2], 0);
    mrail_demand_row(3, 0, 100, 0, MRAIL_DEMAND_SHIFT, row);
    assert_int_equal(row[1], 0);
    assert_int_equal(row[2], 100);
}

/* Every row must sum to the size, contain nothing for the rank itself, and have
 * entries that differ by at most one byte. */
static void test_rows_are_whole(void **state)
{
    mrail_rng_t rng;
    uint64_t row[64];

    mrail_rng_init(&rng, 2026);
    for (unsigned i = 0; i < 20000; ++i) {
        unsigned ranks = 2 + mrail_rng_below(&rng, 63);
        unsigned rank = mrail_rng_below(&rng, ranks);
        uint64_t size = mrail_rng_next(&rng) >> (21 + i % 40);
        uint32_t ppm = mrail_rng_below(&rng, 1000001);
        mrail_demand_pattern_t pattern = (mrail_demand_pattern_t)(i % 2);
        unsigned hot =
            (pattern == MRAIL_DEMAND_SINGLE) ? 0 : (rank + ranks / 2) % ranks;
        uint64_t sum = 0, least = UINT64_MAX, most = 0;

        mrail_demand_row(ranks, rank, size, ppm, pattern, row);
        for (unsigned d = 0; d < ranks; ++d) {
            sum += row[d];
            if (d != rank && d != hot) {
                least = (row[d] < least) ? row[d] : least;
                most = (row[d] > most) ? row[d] : most;
            }
        }
        assert_true(sum == size);
        assert_true(row[rank] == 0);
        assert_true(ranks == 2 || most - least <= 1);
        if (ranks > 2 && hot != rank) {
            assert_true(row[hot] == size * ppm / 1000000);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shift),
        cmocka_unit_test(test_one),
        cmocka_unit_test(test_uniform_and_odd_bytes),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_rows_are_whole),
    };

    return cmocka_run_group_tests_name("demand", tests, NULL, NULL);
}
