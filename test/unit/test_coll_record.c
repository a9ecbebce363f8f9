/* Tests agreement records: every record that a rank writes can be read, and all
 * others are rejected. */
#include "config.h"
#include "mpi/coll/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/util.h"

#define NUM_RANKS 40u
/* one of the low flags, and one of the high flags */
#define FLAGS (MCA_COLL_MRAIL_GAPS_OUT | MCA_COLL_MRAIL_DEVICE_IN)
#define CAPACITY (MCA_COLL_MRAIL_RECORD_MAX_HEAD + NUM_RANKS)

static const mca_coll_mrail_record_rule_t rule = {.threshold = 1000};
static const mca_coll_mrail_rail_rate_t one_rail = {.port = 100};

/* Writes the record of `self`, with the same bytes in both directions. */
static size_t write_record(uint64_t *words, uint32_t self,
                           const mca_coll_mrail_rail_rate_t *rails,
                           unsigned num_rails, const uint64_t *bytes,
                           uint32_t num_ranks)
{
    mca_coll_mrail_record_writer_t writer;

    mca_coll_mrail_record_begin(&writer, &rule, self, rails, num_rails, words);
    for (uint32_t i = 0; i < num_ranks; ++i) {
        if (i != self) {
            mca_coll_mrail_record_send(&writer, i, bytes[i], 0);
            mca_coll_mrail_record_recv(&writer, i, bytes[i], 0);
        }
    }
    return mca_coll_mrail_record_end(&writer, FLAGS);
}

static uint64_t draw(mrail_rng_t *rng)
{
    uint64_t bits = (uint64_t)mrail_rng_below(rng, UINT32_MAX) << 32 |
                    mrail_rng_below(rng, UINT32_MAX);

    return bits >> mrail_rng_below(rng, 64);
}

static void assert_near(uint64_t is, uint64_t wanted)
{
    uint64_t gap = (is > wanted) ? is - wanted : wanted - is;

    assert_true(gap <= wanted / 2048);
    assert_true((is == 0) == (wanted == 0));
}

/* ---- valid records ---- */

static void test_rates_of_rails(void **state)
{
    static const uint64_t edges[] = {
        0, 1, 1023, 1024, 1025, 2047, 2048, 4095, UINT64_MAX - 1, UINT64_MAX};
    mca_coll_mrail_rail_rate_t rails[UCT_MRAIL_MAX_RAILS];
    uint64_t words[CAPACITY], bytes[NUM_RANKS] = {0};
    mrail_rng_t rng;

    mrail_rng_init(&rng, 1);
    for (unsigned round = 0; round < 1000; ++round) {
        unsigned num = 1 + mrail_rng_below(&rng, UCT_MRAIL_MAX_RAILS);
        size_t length;

        for (unsigned k = 0; k < num; ++k) {
            rails[k] = (mca_coll_mrail_rail_rate_t){
                .port = (round < MRAIL_ARRAY_SIZE(edges)) ? edges[round]
                                                          : draw(&rng),
                .out = draw(&rng),
                .in = draw(&rng)};
        }
        length = write_record(words, 3, rails, num, bytes, NUM_RANKS);
        assert_true(mca_coll_mrail_record_check(words, length, 3, NUM_RANKS));
        assert_int_equal(mca_coll_mrail_record_num_rails(words), num);
        for (unsigned k = 0; k < num; ++k) {
            mca_coll_mrail_rail_rate_t rail =
                mca_coll_mrail_record_rail(words, k);

            assert_near(rail.port, rails[k].port);
            assert_near(rail.out, rails[k].out);
            assert_near(rail.in, rails[k].in);
        }
        assert_int_equal(mca_coll_mrail_record_rail(words, num).port, 0);
    }
}

/* A run of equal rails at the end takes one word. */
static void test_equal_rails(void **state)
{
    mca_coll_mrail_rail_rate_t rails[UCT_MRAIL_MAX_RAILS];
    uint64_t words[CAPACITY], bytes[NUM_RANKS] = {0};

    for (unsigned k = 0; k < UCT_MRAIL_MAX_RAILS; ++k) {
        rails[k] = (mca_coll_mrail_rail_rate_t){.port = 50000000000};
    }
    assert_int_equal(
        write_record(words, 0, rails, UCT_MRAIL_MAX_RAILS, bytes, NUM_RANKS),
        MCA_COLL_MRAIL_RECORD_MIN_HEAD);
    rails[5].out = 7;
    assert_int_equal(
        write_record(words, 0, rails, UCT_MRAIL_MAX_RAILS, bytes, NUM_RANKS),
        MCA_COLL_MRAIL_RECORD_MIN_HEAD + 6);
    for (unsigned k = 0; k < UCT_MRAIL_MAX_RAILS; ++k) {
        assert_near(mca_coll_mrail_record_rail(words, k).port, 50000000000);
        assert_int_equal(mca_coll_mrail_record_rail(words, k).out,
                         (k == 5) ? 7 : 0);
    }
}

static void test_demands(void **state)
{
    uint64_t words[CAPACITY], bytes[NUM_RANKS];
    mrail_rng_t rng;

    mrail_rng_init(&rng, 2);
    for (unsigned round = 0; round < 1000; ++round) {
        uint32_t self = mrail_rng_below(&rng, NUM_RANKS);
        uint64_t small = 0;
        size_t length, count = 0;

        for (unsigned i = 0; i < NUM_RANKS; ++i) {
            bytes[i] = draw(&rng) & MCA_COLL_MRAIL_RECORD_MAX_BYTES;
        }
        bytes[self] = 0;
        length = write_record(words, self, &one_rail, 1, bytes, NUM_RANKS);
        assert_true(
            mca_coll_mrail_record_check(words, length, self, NUM_RANKS));
        assert_int_equal(mca_coll_mrail_record_length(words), length);
        assert_int_equal(mca_coll_mrail_record_flags(words), FLAGS);
        for (uint32_t i = 0; i < NUM_RANKS; ++i) {
            int is_announced = bytes[i] > rule.threshold;

            assert_true(mca_coll_mrail_record_find(words, i) ==
                        (is_announced ? bytes[i] : 0));
            small += is_announced ? 0 : bytes[i];
            if (is_announced) {
                assert_int_equal(mca_coll_mrail_record_to(words, count), i);
                assert_true(mca_coll_mrail_record_bytes(words, count) ==
                            bytes[i]);
                ++count;
            }
        }
        assert_int_equal(mca_coll_mrail_record_num_demands(words), count);
        assert_near(mca_coll_mrail_record_small_out(words), small);
        assert_near(mca_coll_mrail_record_small_in(words), small);
    }
}

/* Demands within a node do not cross rails. On emulated nodes, all of them are
 * announced. */
static void test_demands_within_a_node(void **state)
{
    mca_coll_mrail_record_rule_t soft = {.threshold = 1000,
                                         .is_near_announced = 1};
    mca_coll_mrail_record_writer_t writer;
    uint64_t words[CAPACITY];

    mca_coll_mrail_record_begin(&writer, &rule, 0, &one_rail, 1, words);
    mca_coll_mrail_record_send(&writer, 1, 500, 1);
    mca_coll_mrail_record_send(&writer, 2, 5000, 1);
    mca_coll_mrail_record_recv(&writer, 1, 500, 1);
    (void)mca_coll_mrail_record_end(&writer, 0);
    assert_int_equal(mca_coll_mrail_record_num_demands(words), 1);
    assert_int_equal(mca_coll_mrail_record_small_out(words), 0);
    assert_int_equal(mca_coll_mrail_record_small_in(words), 0);
    mca_coll_mrail_record_begin(&writer, &soft, 0, &one_rail, 1, words);
    mca_coll_mrail_record_send(&writer, 1, 1, 1);
    mca_coll_mrail_record_send(&writer, 2, 0, 1);
    mca_coll_mrail_record_send(&writer, 3, 1, 0);
    mca_coll_mrail_record_recv(&writer, 1, 1, 1);
    (void)mca_coll_mrail_record_end(&writer, 0);
    assert_int_equal(mca_coll_mrail_record_num_demands(words), 1);
    assert_int_equal(mca_coll_mrail_record_find(words, 1), 1);
    assert_int_equal(mca_coll_mrail_record_small_out(words), 1);
}

/* A demand beyond the limits of a record is left to Open MPI. */
static void test_beyond_the_limits(void **state)
{
    static const struct {
        uint32_t to;
        uint64_t bytes;
        unsigned flags;
    } cases[] = {
        {MCA_COLL_MRAIL_RECORD_MAX_RANKS - 1, 5000, 0},
        {MCA_COLL_MRAIL_RECORD_MAX_RANKS, 5000, MCA_COLL_MRAIL_CANNOT},
        {MCA_COLL_MRAIL_RECORD_MAX_RANKS, 500, 0},
        {1, MCA_COLL_MRAIL_RECORD_MAX_BYTES, 0},
        {1, MCA_COLL_MRAIL_RECORD_MAX_BYTES + 1, MCA_COLL_MRAIL_CANNOT},
    };

    for (size_t i = 0; i < MRAIL_ARRAY_SIZE(cases); ++i) {
        mca_coll_mrail_record_writer_t writer;
        uint64_t words[CAPACITY];
        size_t length;

        mca_coll_mrail_record_begin(&writer, &rule, 0, &one_rail, 1, words);
        mca_coll_mrail_record_send(&writer, cases[i].to, cases[i].bytes, 0);
        length = mca_coll_mrail_record_end(&writer, 0);
        assert_int_equal(mca_coll_mrail_record_flags(words), cases[i].flags);
        assert_true(mca_coll_mrail_record_check(words, length, 0, UINT32_MAX));
    }
}

/* The digests of all ranks add up to 0 if and only if all counts match. */
static void test_mismatched_counts(void **state)
{
    mrail_rng_t rng;

    mrail_rng_init(&rng, 3);
    for (unsigned round = 0; round < 200; ++round) {
        uint32_t ranks = 2 + mrail_rng_below(&rng, 6);
        uint32_t odd_from = mrail_rng_below(&rng, ranks);
        uint32_t odd_to = (odd_from + 1) % ranks;
        uint64_t bytes[8][8], sum = 0, words[CAPACITY];

        for (unsigned i = 0; i < 64; ++i) {
            bytes[i / 8][i % 8] = mrail_rng_below(&rng, 2000);
        }
        bytes[odd_from][odd_to] *= mrail_rng_below(&rng, 2);
        for (uint32_t self = 0; self < ranks; ++self) {
            mca_coll_mrail_record_writer_t writer;

            mca_coll_mrail_record_begin(&writer, &rule, self, &one_rail, 1,
                                        words);
            for (uint32_t i = 0; i < ranks; ++i) {
                uint64_t more =
                    round % 2 == 1 && i == odd_from && self == odd_to;

                if (i != self) {
                    mca_coll_mrail_record_send(&writer, i, bytes[self][i], 0);
                    mca_coll_mrail_record_recv(&writer, i,
                                               bytes[i][self] + more, 0);
                }
            }
            (void)mca_coll_mrail_record_end(&writer, 0);
            sum += mca_coll_mrail_record_digest(words);
        }
        assert_int_equal(sum != 0, round % 2);
    }
}

/* ---- invalid records ---- */

static void test_impossible_records(void **state)
{
    uint64_t words[CAPACITY], bytes[NUM_RANKS] = {0}, bad[CAPACITY];
    size_t length;

    bytes[4] = bytes[5] = 5000;
    length = write_record(words, 3, &one_rail, 1, bytes, NUM_RANKS);
    assert_int_equal(length, 5);
    assert_true(mca_coll_mrail_record_check(words, length, 3, NUM_RANKS));
    assert_false(mca_coll_mrail_record_check(words, 0, 3, NUM_RANKS));
    assert_false(mca_coll_mrail_record_check(words, length - 1, 3, NUM_RANKS));
    assert_false(mca_coll_mrail_record_check(words, length + 1, 3, NUM_RANKS));
    /* The receiver does not exist, or is the sender itself. */
    assert_false(mca_coll_mrail_record_check(words, length, 3, 5));
    assert_false(mca_coll_mrail_record_check(words, length, 4, NUM_RANKS));
#define REFUSED(_word, _value)                                                 \
    do {                                                                       \
        memcpy(bad, words, sizeof(bad));                                       \
        bad[_word] = (_value);                                                 \
        assert_false(mca_coll_mrail_record_check(bad, length, 3, NUM_RANKS));  \
    } while (0)
    REFUSED(3, words[4]);          /* the same rank twice */
    REFUSED(4, words[3]);          /* also the same rank twice */
    REFUSED(4, words[4] & 0xffff); /* a demand of no bytes */
    /* one more word for rails than there are rails, and one demand fewer */
    REFUSED(0, words[0] + 0x1000 - 0x10000);
}

/* Random bytes that pass the check can be read in full. */
static void test_random_records(void **state)
{
    unsigned accepted = 0;
    mrail_rng_t rng;

    mrail_rng_init(&rng, 4);
    for (unsigned round = 0; round < 200000; ++round) {
        size_t length = 3 + mrail_rng_below(&rng, 6);
        uint64_t *words = calloc(length, sizeof(*words));
        volatile uint64_t sum = 0; /* so that all values are read */

        assert_non_null(words);
        for (size_t i = 0; i < length; ++i) {
            words[i] = draw(&rng);
        }
        words[0] =
            (words[0] & ~UINT64_C(0xffffff00)) | mrail_rng_below(&rng, 4) << 8 |
            mrail_rng_below(&rng, 4) << 12 | mrail_rng_below(&rng, 4) << 16;
        for (size_t i = 3; i < length; ++i) {
            words[i] = (words[i] & ~UINT64_C(0xffff)) |
                       mrail_rng_below(&rng, NUM_RANKS);
        }
        if (mca_coll_mrail_record_check(words, length, 0, NUM_RANKS)) {
            ++accepted;
            for (uint32_t i = 0; i < NUM_RANKS; ++i) {
                sum += mca_coll_mrail_record_find(words, i);
                sum += mca_coll_mrail_record_rail(words, i).in;
            }
            sum += mca_coll_mrail_record_small_in(words);
        }
        free(words);
    }
    assert_true(accepted > 1000);
}

/* A plan depends on demands and sums, but not on other parts of a record. */
static void test_same_demands(void **state)
{
    mca_coll_mrail_rail_rate_t rails[3] = {{.port = 5}, {.port = 6}};
    uint64_t a[CAPACITY], b[CAPACITY], bytes[NUM_RANKS] = {0};

    bytes[2] = 5000;
    bytes[3] = 50;
    (void)write_record(a, 1, &one_rail, 1, bytes, NUM_RANKS);
    (void)write_record(b, 1, rails, 3, bytes, NUM_RANKS);
    b[1] = 77;
    assert_true(mca_coll_mrail_record_same_demands(a, b));
    /* flags for the memory type of the rank's buffers */
    b[MCA_COLL_MRAIL_RECORD_MIN_HEAD - 1] ^=
        (uint64_t)(MCA_COLL_MRAIL_DEVICE_IN >> 8) << 48;
    assert_false(mca_coll_mrail_record_same_demands(a, b));
    bytes[3] = 51;
    (void)write_record(b, 1, rails, 3, bytes, NUM_RANKS);
    assert_false(mca_coll_mrail_record_same_demands(a, b));
    bytes[3] = 50;
    bytes[2] = 5001;
    (void)write_record(b, 1, rails, 3, bytes, NUM_RANKS);
    assert_false(mca_coll_mrail_record_same_demands(a, b));
    (void)write_record(b, 1, &one_rail, 1, bytes, NUM_RANKS);
    assert_false(mca_coll_mrail_record_same_demands(a, b));
}

/* ---- blocks ---- */

static void test_blocks(void **state)
{
    const size_t least = MCA_COLL_MRAIL_RECORD_MIN_HEAD;

    /* All demands of 64 ranks fit, and so do the headers of many ranks. */
    assert_int_equal(mca_coll_mrail_record_first_block(64), least + 64);
    assert_int_equal(mca_coll_mrail_record_first_block(512), 16);
    assert_int_equal(mca_coll_mrail_record_first_block(100000), least);
    /* equal lengths */
    assert_int_equal(mca_coll_mrail_record_block(512, 500, 512 * 500, 1 << 20),
                     500);
    /* one long record among short ones, in a small job and in a large one */
    assert_int_equal(mca_coll_mrail_record_block(8, 900, 1000, 1 << 20), 900);
    assert_int_equal(mca_coll_mrail_record_block(512, 515, 2000, 1 << 20),
                     least);
    /* no memory for the padding */
    assert_int_equal(mca_coll_mrail_record_block(8, 900, 1000, 7199), least);
    /* In a small job, a few more demands always fit. */
    assert_int_equal(mca_coll_mrail_record_block(8, 3, 24, 7199), least + 8);
    assert_int_equal(mca_coll_mrail_record_block(8, 3, 24, 40), 5);
    assert_int_equal(mca_coll_mrail_record_block(512, 0, 0, 1 << 20), 4);
}

/* ---- the records of all ranks ---- */

static void test_all_records(void **state)
{
    mca_coll_mrail_records_t records, copy;
    uint64_t words[CAPACITY], bytes[NUM_RANKS] = {0};
    size_t total = 0;

    assert_int_equal(mca_coll_mrail_records_init(&records, 3), 0);
    assert_int_equal(mca_coll_mrail_records_init(&copy, 3), 0);
    assert_true(mca_coll_mrail_records_equal(&records, &copy));
    assert_int_equal(mca_coll_mrail_records_reserve(&records, 3 * CAPACITY), 0);
    for (uint32_t i = 0; i < 3; ++i) {
        size_t length;

        memset(bytes, 0, sizeof(bytes));
        for (uint32_t to = 0; to < i; ++to) {
            bytes[to] = 7000 + i;
        }
        length = write_record(words, i, &one_rail, 1, bytes, 3);
        memcpy(mca_coll_mrail_records_add(&records, i, length), words,
               length * sizeof(*words));
        assert_int_equal(mca_coll_mrail_records_length(&records, i), length);
        total += length;
    }
    assert_int_equal(records.first[3], total);
    assert_false(mca_coll_mrail_records_equal(&records, &copy));
    assert_int_equal(mca_coll_mrail_records_copy(&copy, &records), 0);
    assert_true(mca_coll_mrail_records_equal(&records, &copy));
    assert_int_equal(
        mca_coll_mrail_record_find(mca_coll_mrail_records_get(&copy, 2), 1),
        7002);
    ++copy.words[total - 1];
    assert_false(mca_coll_mrail_records_equal(&records, &copy));
    mca_coll_mrail_records_cleanup(&records);
    mca_coll_mrail_records_cleanup(&copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates_of_rails),
        cmocka_unit_test(test_equal_rails),
        cmocka_unit_test(test_demands),
        cmocka_unit_test(test_demands_within_a_node),
        cmocka_unit_test(test_beyond_the_limits),
        cmocka_unit_test(test_mismatched_counts),
        cmocka_unit_test(test_impossible_records),
        cmocka_unit_test(test_random_records),
        cmocka_unit_test(test_same_demands),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_all_records),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
