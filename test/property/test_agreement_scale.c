/*
 * Tests the agreement data of large jobs: one process simulates all ranks. Each
 * rank has large demands for a few ranks and small ones for all.
 *
 * Checks that the agreement data and memory per rank stay small, and that a
 * rank's schedule contains all of its bytes. Prints the times of planning and
 * of an unchanged call, relative to a calibration loop.
 */
#include "config.h"
#include "mpi/coll/record.h"
#include "mpi/coll/schedule.h"
#include "mpi/coll/topology.h"
#include "test/sim/sanitized.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/util.h"

#define PER_NODE 8u
#define THRESHOLD 1000000u
#define SMALL 20000u
#define RAIL 50000000000u /* bytes per second */
#define TIMES 9

/* Bytes from a rank to all other ranks, by rank. */
static void draw_demands(uint64_t *bytes, uint32_t from, uint32_t num_ranks,
                         uint32_t large_ppm, uint64_t seed)
{
    mrail_rng_t rng;

    mrail_rng_init(&rng, seed * num_ranks + from);
    for (uint32_t to = 0; to < num_ranks; ++to) {
        bytes[to] = mrail_rng_hit(&rng, large_ppm)
                        ? THRESHOLD + 1 + mrail_rng_below(&rng, 8000000)
                        : SMALL;
    }
    bytes[from] = 0;
}

static mca_coll_mrail_topology_t *topology_of(uint32_t num_ranks)
{
    mca_coll_mrail_rank_entry_t *entries = calloc(num_ranks, sizeof(*entries));
    mca_coll_mrail_topology_t *topology;
    const char *reason;

    assert_non_null(entries);
    for (uint32_t i = 0; i < num_ranks; ++i) {
        entries[i] = (mca_coll_mrail_rank_entry_t){
            .version = 5,
            .node = 1 + i / PER_NODE,
            .num_rails = 1,
            .leaf = {1 + i % PER_NODE},
            .params = {.relay_threshold = THRESHOLD,
                       .relay_chunk_size = 131072,
                       .relay_buffers = 16,
                       .relay_memory = 64u << 20,
                       .copy_bandwidth = 450000000000ull,
                       .cross_rail = 1}};
    }
    assert_int_equal(mca_coll_mrail_topology_create(entries, num_ranks, 0, NULL,
                                                    NULL, &topology, &reason),
                     0);
    free(entries);
    return topology;
}

static size_t write_record(const mca_coll_mrail_topology_t *topology,
                           uint32_t self, const uint64_t *bytes,
                           uint64_t *words)
{
    static const mca_coll_mrail_rail_rate_t rail = {.port = RAIL};
    mca_coll_mrail_record_rule_t rule = mca_coll_mrail_schedule_rule(topology);
    mca_coll_mrail_record_writer_t writer;

    mca_coll_mrail_record_begin(&writer, &rule, self, &rail, 1, words);
    for (uint32_t i = 0; i < topology->num_ranks; ++i) {
        int is_near = topology->node_of[i] == topology->node_of[self];

        if (i != self) {
            mca_coll_mrail_record_send(&writer, i, bytes[i], is_near);
            mca_coll_mrail_record_recv(&writer, i, SMALL, is_near);
        }
    }
    return mca_coll_mrail_record_end(&writer, 0);
}

static void write_all(const mca_coll_mrail_topology_t *topology,
                      uint32_t large_ppm, uint64_t seed, uint64_t *bytes,
                      uint64_t *words, mca_coll_mrail_records_t *records)
{
    for (uint32_t i = 0; i < topology->num_ranks; ++i) {
        size_t length, total = records->first[i];

        draw_demands(bytes, i, topology->num_ranks, large_ppm, seed);
        length = write_record(topology, i, bytes, words);
        assert_int_equal(
            mca_coll_mrail_records_reserve(records, total + length), 0);
        memcpy(mca_coll_mrail_records_add(records, i, length), words,
               length * sizeof(*words));
    }
}

/* Returns the bytes that a rank collects in the gathers of these records. */
static size_t gathered(const mca_coll_mrail_records_t *records)
{
    size_t total = records->first[records->num_ranks], longest = 0, block;

    for (uint32_t i = 0; i < records->num_ranks; ++i) {
        longest = MRAIL_MAX(longest, mca_coll_mrail_records_length(records, i));
    }
    block = mca_coll_mrail_record_block(records->num_ranks, longest, total,
                                        total + total / 2);
    return sizeof(uint64_t) *
           ((block >= longest) ? block * records->num_ranks : total);
}

static size_t allocated(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

/* Returns the processor time of this process, in microseconds. */
static double used_us(void)
{
    struct timespec now;

    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* Returns the time of a fixed piece of work. */
static double calibrate(void)
{
    double from_us = used_us();
    volatile uint64_t sum = 0;

    for (uint64_t i = 0; i < 100000; ++i) {
        sum = mrail_mix64(sum + i);
    }
    return used_us() - from_us;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, TIMES, sizeof(*values), compare);
    return values[TIMES / 2];
}

/* Checks that the schedule of rank 0 contains each byte that it has
 * announced. */
static void check_rank(const mca_coll_mrail_schedule_t *schedule)
{
    const uint64_t *record = mca_coll_mrail_records_get(&schedule->records, 0);
    uint64_t listed = 0, covered = 0;

    for (size_t i = 0; i < mca_coll_mrail_record_num_demands(record); ++i) {
        listed += mca_coll_mrail_record_bytes(record, i);
    }
    for (size_t i = 0; i < schedule->num_sends; ++i) {
        covered += schedule->sends[i].bytes;
    }
    for (size_t i = 0; i < schedule->num_flows; ++i) {
        covered +=
            (schedule->flows[i].from == 0) ? schedule->flows[i].bytes : 0;
    }
    assert_true(listed == covered);
}

/* Returns the time of the local part of a call whose demands repeat the
 * previous call's. */
static double time_unchanged(const mca_coll_mrail_schedule_t *schedule,
                             const uint64_t *bytes, uint64_t *words)
{
    double times[TIMES];

    for (unsigned i = 0; i < TIMES; ++i) {
        double from_us = used_us();
        size_t length = write_record(schedule->topology, 0, bytes, words);

        assert_int_equal(length,
                         mca_coll_mrail_records_length(&schedule->records, 0));
        assert_memory_equal(words,
                            mca_coll_mrail_records_get(&schedule->records, 0),
                            length * sizeof(*words));
        assert_true(mca_coll_mrail_schedule_fit(
            (mca_coll_mrail_schedule_t *)schedule, &schedule->records));
        times[i] = used_us() - from_us;
    }
    return median(times);
}

static void run(uint32_t num_ranks, uint32_t large_ppm, size_t most_data,
                size_t most_memory)
{
    mca_coll_mrail_topology_t *topology = topology_of(num_ranks);
    size_t capacity = MCA_COLL_MRAIL_RECORD_MAX_HEAD + (size_t)num_ranks;
    uint64_t *words = calloc(capacity, sizeof(*words));
    uint64_t *bytes = calloc(num_ranks, sizeof(*bytes));
    double times[TIMES], calibration[TIMES], first, loop;
    mca_coll_mrail_schedule_t *schedule;
    mca_coll_mrail_records_t records;
    size_t before = allocated(), data, memory;

    assert_true(words != NULL && bytes != NULL);
    assert_int_equal(mca_coll_mrail_records_init(&records, num_ranks), 0);
    assert_int_equal(mca_coll_mrail_schedule_create(topology, &schedule), 0);
    for (unsigned i = 0; i < TIMES; ++i) {
        double from_us;

        write_all(topology, large_ppm, i, bytes, words, &records);
        calibration[i] = calibrate();
        from_us = used_us();
        assert_int_equal(mca_coll_mrail_schedule_make(schedule, &records), 0);
        times[i] = used_us() - from_us;
        check_rank(schedule);
    }
    memory = allocated() - before;
    data = gathered(&records);
    loop = median(calibration);
    first = times[0];
    draw_demands(bytes, 0, num_ranks, large_ppm, TIMES - 1);
    print_message("# %u ranks, %.2f %% of the demands large (%zu): %zu bytes "
                  "of agreement data, %.1f MB of memory; plan %.0f us (first "
                  "%.0f), %.1f x the calibration loop; unchanged %.1f us\n",
                  num_ranks, large_ppm / 1e4, schedule->num_demands, data,
                  (double)memory / 1e6, median(times), first,
                  median(times) / loop, time_unchanged(schedule, bytes, words));
    assert_in_range(data, 1, most_data);
#ifndef TEST_SANITIZED
    assert_in_range(memory, 1, most_memory);
#else
    (void)most_memory;
#endif
    mca_coll_mrail_schedule_destroy(schedule);
    mca_coll_mrail_records_cleanup(&records);
    mca_coll_mrail_topology_destroy(topology);
    free(words);
    free(bytes);
}

static void test_512_ranks(void **state)
{
    run(512, 10000, 64u << 10, 16u << 20);
}

/* Nearly as many large demands per rank as with 512 ranks. More demands would
 * mean more bytes to announce. */
static void test_4096_ranks(void **state)
{
    run(4096, 1000, 256u << 10, 64u << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_512_ranks),
        cmocka_unit_test(test_4096_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
