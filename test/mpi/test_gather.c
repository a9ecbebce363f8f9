/* The gathers and the reduction of coll/mrail among up to 600 ranks, all of
 * them in this process. */
#include "config.h"
#include "mpi/coll/gather.h"

#include "mock_pml.h"

#include "ompi/constants.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/util.h"

#define MAX_RANKS MOCK_PML_MAX_RANKS

static int set_up(void **state)
{
    mock_pml_init();
    return 0;
}

/* ---- all ranks ---- */

static mca_coll_mrail_gather_t gathers[MAX_RANKS];

static void open_all(unsigned ranks, size_t bytes)
{
    mock_pml_resize(ranks);
    for (unsigned i = 0; i < ranks; ++i) {
        assert_int_equal(
            mca_coll_mrail_gather_init(&gathers[i], mock_pml_comm(i)), 0);
        assert_int_equal(mca_coll_mrail_gather_reserve(&gathers[i], bytes), 0);
    }
}

/* Advances the ranks in random order until all have ended. */
static void finish_all(unsigned ranks, mrail_rng_t *rng)
{
    unsigned left = ranks;
    uint8_t done[MAX_RANKS] = {0};

    while (left > 0) {
        unsigned i = mrail_rng_below(rng, ranks);
        int is_done = 0;

        if (!done[i]) {
            assert_int_equal(
                mca_coll_mrail_gather_progress(&gathers[i], &is_done),
                OMPI_SUCCESS);
            done[i] = (uint8_t)is_done;
            left -= (unsigned)is_done;
        }
    }
}

static void close_all(unsigned ranks)
{
    assert_true(mock_pml_is_idle());
    for (unsigned i = 0; i < ranks; ++i) {
        mca_coll_mrail_gather_cleanup(&gathers[i]);
    }
}

static void check_equal_blocks(unsigned ranks, unsigned ports, mrail_rng_t *rng)
{
    open_all(ranks, ranks * sizeof(uint32_t));
    for (unsigned i = 0; i < ranks; ++i) {
        *(uint32_t *)mca_coll_mrail_gather_mine(&gathers[i]) = 7 * i + 1;
        assert_int_equal(mca_coll_mrail_gather_start(
                             &gathers[i], sizeof(uint32_t), ports, 5),
                         OMPI_SUCCESS);
    }
    finish_all(ranks, rng);
    for (unsigned i = 0; i < ranks; ++i) {
        for (unsigned k = 0; k < ranks; ++k) {
            assert_int_equal(
                *(const uint32_t *)mca_coll_mrail_gather_block(&gathers[i], k),
                7 * k + 1);
        }
    }
    close_all(ranks);
}

/* Checks blocks of different sizes. Block k consists of sizes[k] bytes of value
 * k. Many blocks are empty. */
static void check_sized_blocks(unsigned ranks, unsigned ports, mrail_rng_t *rng)
{
    static size_t starts[MAX_RANKS][MAX_RANKS + 1];
    size_t sizes[MAX_RANKS], total = 0;

    for (unsigned k = 0; k < ranks; ++k) {
        sizes[k] = mrail_rng_hit(rng, 500000) ? 0 : mrail_rng_below(rng, 40);
        total += sizes[k];
    }
    open_all(ranks, total + 1);
    for (unsigned i = 0; i < ranks; ++i) {
        for (unsigned k = 0; k < ranks; ++k) {
            starts[i][k + 1] = starts[i][k] + sizes[(i + k) % ranks];
        }
        memset(mca_coll_mrail_gather_mine(&gathers[i]), (int)(i & 0xff),
               sizes[i]);
        assert_int_equal(
            mca_coll_mrail_gather_start_sized(&gathers[i], starts[i], ports, 5),
            OMPI_SUCCESS);
    }
    finish_all(ranks, rng);
    for (unsigned i = 0; i < ranks; ++i) {
        for (unsigned k = 0; k < ranks; ++k) {
            const uint8_t *block = mca_coll_mrail_gather_block(&gathers[i], k);

            for (size_t at = 0; at < sizes[k]; ++at) {
                assert_int_equal(block[at], k & 0xff);
            }
        }
    }
    close_all(ranks);
}

/* Returns the number of messages per rank. */
static unsigned check_reduction(unsigned ranks, unsigned ports,
                                mrail_rng_t *rng)
{
    uint64_t want[MCA_COLL_MRAIL_REDUCE_WORDS] = {UINT64_MAX, UINT64_MAX};

    open_all(ranks, 0);
    mock_pml_count();
    for (unsigned i = 0; i < ranks; ++i) {
        for (unsigned k = 0; k < MCA_COLL_MRAIL_REDUCE_WORDS; ++k) {
            uint64_t word = ~(UINT64_C(1) << mrail_rng_below(rng, 64));

            gathers[i].words[k] =
                mrail_rng_below(rng, ranks) < 20 ? word : UINT64_MAX;
            want[k] &= gathers[i].words[k];
        }
        assert_int_equal(mca_coll_mrail_reduce_start(&gathers[i], ports, 5),
                         OMPI_SUCCESS);
    }
    finish_all(ranks, rng);
    for (unsigned i = 0; i < ranks; ++i) {
        assert_memory_equal(gathers[i].words, want, sizeof(want));
    }
    close_all(ranks);
    return mock_pml_count() / ranks;
}

/* ---- tests ---- */

static void test_all_sizes(void **state)
{
    static const unsigned more[] = {127, 255, 256, 257, 300, 511, 512, 600};
    mrail_rng_t rng;

    mrail_rng_init(&rng, 1);
    for (unsigned n = 2; n < 70 + MRAIL_ARRAY_SIZE(more); ++n) {
        unsigned ranks = (n < 70) ? n : more[n - 70];

        for (unsigned ports = 1; ports <= MCA_COLL_MRAIL_GATHER_PORTS;
             ports += 7) {
            check_equal_blocks(ranks, ports, &rng);
            check_sized_blocks(ranks, ports, &rng);
            (void)check_reduction(ranks, ports, &rng);
        }
    }
}

static void test_number_of_messages(void **state)
{
    mrail_rng_t rng;

    mrail_rng_init(&rng, 2);
    assert_int_equal(check_reduction(8, 1, &rng), 3);
    assert_int_equal(check_reduction(64, 1, &rng), 6);
    assert_int_equal(check_reduction(512, 1, &rng), 9);
    assert_int_equal(check_reduction(16, 15, &rng), 15);
    assert_int_equal(check_reduction(512, 15, &rng), 31);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_sizes),
        cmocka_unit_test(test_number_of_messages),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
