/* Tests minimal splitting (src/fabric/ethereal.c): Theorem 1 of
 * [Ethereal] over all numbers of flows and uplinks, path states, orders and
 * start times. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/util.h"
#include "fabric/ethereal.h"

#define MAX_FLOWS 130
#define MAX_UPLINKS 64

/* The paper's example ([Ethereal] 2.2): five flows, four paths. */
static void test_example(void **state)
{
    mrail_ethereal_split_t split = mrail_ethereal_split(5, 4);

    assert_int_equal(split.whole, 1);
    assert_int_equal(split.split, 1);
    assert_int_equal(split.pieces, 4);
    assert_int_equal(split.pieces_each, 1);
    assert_int_equal(mrail_ethereal_num_pieces(&split), 8);
}

static uint32_t gcd(uint32_t a, uint32_t b)
{
    return (b == 0) ? a : gcd(b, a % b);
}

/* Computes the load of an uplink, in units of 1/pieces of a flow, by adding up
 * the pieces. */
static void check_split(uint32_t flows, uint32_t uplinks)
{
    mrail_ethereal_split_t split = mrail_ethereal_split(flows, uplinks);
    uint64_t num = mrail_ethereal_num_pieces(&split);
    uint64_t load[MAX_UPLINKS] = {0};
    uint32_t parts[MAX_FLOWS] = {0};
    uint32_t r = flows % uplinks, g = gcd(r, uplinks);

    for (uint64_t i = 0; i < num; ++i) {
        mrail_ethereal_piece_t piece = mrail_ethereal_piece(&split, i);

        assert_true(piece.flow < flows && piece.uplink < uplinks);
        assert_int_equal(piece.piece, parts[piece.flow]++);
        assert_true(piece.pieces == 1 || piece.pieces == split.pieces);
        load[piece.uplink] += split.pieces / piece.pieces;
    }
    for (uint32_t u = 0; u < uplinks; ++u) {
        /* The load must be exactly n/s flows, as with optimal spraying. */
        assert_int_equal(load[u] * uplinks, (uint64_t)flows * split.pieces);
    }
    for (uint32_t f = 0; f < flows; ++f) {
        assert_int_equal(parts[f], (f < flows - r) ? 1 : split.pieces);
    }
    assert_int_equal(num - flows,
                     (r == 0) ? 0 : (uint64_t)r * (uplinks - g) / g);
}

static void test_every_load_is_that_of_spraying(void **state)
{
    for (uint32_t flows = 0; flows < MAX_FLOWS; ++flows) {
        for (uint32_t uplinks = 1; uplinks <= MAX_UPLINKS; ++uplinks) {
            check_split(flows, uplinks);
        }
    }
}

/* Splitting each remaining flow into fewer pieces must never give equal loads,
 * because r c / s is not an integer for any c below s/g. */
static void test_split_is_minimal(void **state)
{
    for (uint32_t flows = 1; flows < MAX_FLOWS; ++flows) {
        for (uint32_t uplinks = 1; uplinks <= MAX_UPLINKS; ++uplinks) {
            mrail_ethereal_split_t split = mrail_ethereal_split(flows, uplinks);

            for (uint32_t c = 1; split.split != 0 && c < split.pieces; ++c) {
                assert_int_not_equal(split.split * c % uplinks, 0);
            }
        }
    }
}

/* A failed path is bad until its timer expires. Until then, new work avoids
 * it. */
static void test_path_states(void **state)
{
    mrail_ethereal_paths_t paths;
    mrail_ns_t bad_until_ns[4];
    uint32_t good[4];

    mrail_ethereal_paths_init(&paths, bad_until_ns, 4);
    assert_int_equal(mrail_ethereal_paths_usable(&paths, 5, good), 4);
    mrail_ethereal_path_fail(&paths, 1, 5, 100);
    assert_int_equal(mrail_ethereal_paths_usable(&paths, 104, good), 3);
    assert_int_equal(good[0], 0);
    assert_int_equal(good[1], 2);
    assert_int_equal(good[2], 3);
    /* A second failure restarts the timer. */
    mrail_ethereal_path_fail(&paths, 1, 50, 100);
    assert_int_equal(mrail_ethereal_paths_usable(&paths, 149, good), 3);
    assert_int_equal(mrail_ethereal_paths_usable(&paths, 150, good), 4);
    /* If no path is good, all of them are tried. */
    for (uint32_t u = 0; u < 4; ++u) {
        mrail_ethereal_path_fail(&paths, u, 200, 100);
    }
    assert_int_equal(mrail_ethereal_paths_usable(&paths, 250, good), 4);
}

static void test_order_is_a_permutation(void **state)
{
    uint32_t first[MAX_UPLINKS] = {0}, order[MAX_UPLINKS], seen;
    mrail_rng_t rng;

    for (uint64_t seed = 0; seed < 500; ++seed) {
        uint32_t count = 1 + (uint32_t)(seed % MAX_UPLINKS);
        uint64_t mask = 0;

        mrail_rng_init(&rng, seed);
        mrail_ethereal_shuffle(&rng, order, count);
        for (uint32_t i = 0; i < count; ++i) {
            assert_true(order[i] < count);
            mask |= UINT64_C(1) << order[i];
        }
        assert_true(mask == UINT64_MAX >> (64 - count));
    }
    /* Over 8000 orders of 8 items, each item comes first about equally
     * often. */
    mrail_rng_init(&rng, 1);
    for (unsigned i = 0; i < 8000; ++i) {
        mrail_ethereal_shuffle(&rng, order, 8);
        ++first[order[0]];
    }
    for (seen = 0; seen < 8; ++seen) {
        assert_true(first[seen] > 880 && first[seen] < 1120);
    }
}

static void test_start_times(void **state)
{
    mrail_ns_t least = 1000, most = 0;
    mrail_rng_t rng;

    mrail_rng_init(&rng, 7);
    for (unsigned i = 0; i < 10000; ++i) {
        mrail_ns_t at_ns = mrail_ethereal_stagger(&rng, 1000);

        least = MRAIL_MIN(least, at_ns);
        most = MRAIL_MAX(most, at_ns);
    }
    assert_int_equal(least, 0);
    assert_int_equal(most, 1000);
    assert_int_equal(mrail_ethereal_stagger(&rng, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example),
        cmocka_unit_test(test_every_load_is_that_of_spraying),
        cmocka_unit_test(test_split_is_minimal),
        cmocka_unit_test(test_path_states),
        cmocka_unit_test(test_order_is_a_permutation),
        cmocka_unit_test(test_start_times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
