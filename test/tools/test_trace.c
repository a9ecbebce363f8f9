/* Tests mrail trace (src/tools/trace_table.c and trace_show.c): figures of
 * lanes and lines of output, from records that the test sets. */
#include "config.h"
#include "base/rng.h"
#include "tools/trace_show.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define US 1000ull
#define CHUNK 65536u

static trace_table_t table;
static mrail_page_t page;

static int fresh(void **state)
{
    trace_table_clear(&table);
    memset(&page, 0, sizeof(page));
    page.rank = 3;
    page.head.pid = 4711;
    page.clock_offset_ns = 1000000000000000000ull;
    page.num_rails = 2;
    page.num_lanes = 1;
    snprintf(page.rails[1].device, sizeof(page.rails[1].device), "soft1");
    page.rails[1].port = 1;
    page.lanes[0] = (mrail_page_lane_t){.peer = 7, .slot = 2, .sport = 50000};
    return 0;
}

static void add(uint64_t post_ns, uint64_t done_ns, unsigned kind,
                uint32_t length)
{
    const mrail_ring_record_t record = {
        .post_ns = post_ns,
        .done_ns = done_ns,
        .peer = 7,
        .length = length,
        .lane = 2,
        .rail = 1,
        .kind = (uint8_t)kind,
        .count = 1,
    };

    assert_int_equal(trace_table_add(&table, &record), 0);
}

/* ---- times ---- */

/* The result is never below the exact value, and at most 1/32 above it. */
static void test_percentiles(void **state)
{
    static uint64_t values[5000];
    static const uint32_t parts[] = {1, 10000, 500000, 990000, 999999, 1000000};
    mrail_rng_t rng;

    for (uint64_t seed = 0; seed < 50; ++seed) {
        trace_times_t *times = calloc(1, sizeof(*times));
        unsigned count = 1 + (unsigned)(seed * 97);

        mrail_rng_init(&rng, seed);
        for (unsigned i = 0; i < count; ++i) {
            uint64_t value =
                mrail_rng_next(&rng) >> (24 + mrail_rng_below(&rng, 40));
            unsigned at = i;

            trace_times_add(times, value);
            for (; (at > 0) && (values[at - 1] > value); --at) {
                values[at] = values[at - 1];
            }
            values[at] = value;
        }
        for (unsigned p = 0; p < MRAIL_ARRAY_SIZE(parts); ++p) {
            uint64_t rank = ((uint64_t)count * parts[p] + 999999) / 1000000;
            uint64_t exact = values[rank - 1];
            uint64_t got = trace_times_percentile(times, parts[p]);

            assert_in_range(got, exact, exact + exact / 32);
        }
        assert_int_equal(times->max_ns, values[count - 1]);
        free(times);
    }
}

static void test_extreme_times(void **state)
{
    trace_times_t *times = calloc(1, sizeof(*times));

    assert_int_equal(trace_times_percentile(times, 500000), 0);
    trace_times_add(times, 0);
    assert_int_equal(trace_times_percentile(times, 1000000), 0);
    trace_times_add(times, UINT64_MAX);
    assert_int_equal(trace_times_percentile(times, 1000000),
                     (1ull << TRACE_MAX_BITS) - 1);
    free(times);
}

/* ---- rows ---- */

static void test_rows(void **state)
{
    add(0, 10 * US, MRAIL_RING_PUT, CHUNK);
    add(0, 30 * US, MRAIL_RING_PUT, CHUNK);
    add(0, 40 * US, MRAIL_RING_PUT | MRAIL_RING_FAILED, CHUNK);
    add(5 * US, 9 * US, MRAIL_RING_AM, 100);
    trace_table_finish(&table);
    assert_int_equal(table.count, 2);
    assert_int_equal(table.rows[0]->kind, MRAIL_RING_PUT);
    assert_int_equal(table.rows[0]->records, 3);
    assert_int_equal(table.rows[0]->failed, 1);
    assert_int_equal(table.rows[0]->bytes, 2 * CHUNK);
    assert_int_equal(table.rows[0]->times.count, 2);
    assert_int_equal(table.rows[0]->times.max_ns, 30 * US);
    assert_int_equal(table.rows[1]->kind, MRAIL_RING_AM);
    assert_int_equal(table.rows[1]->bytes, 100);
    assert_int_equal(table.last_ns, 40 * US);
    trace_table_clear(&table);
    assert_int_equal(table.count, 0);
}

/* Rows remain separate, however many there are, and are returned sorted. */
static void test_many_rows(void **state)
{
    mrail_rng_t rng;
    uint64_t sum = 0;

    mrail_rng_init(&rng, 5);
    for (unsigned i = 0; i < 20000; ++i) {
        const mrail_ring_record_t record = {
            .peer = mrail_rng_below(&rng, 20),
            .lane = (uint8_t)mrail_rng_below(&rng, 8),
            .rail = (uint8_t)mrail_rng_below(&rng, 4),
            .kind = (uint8_t)mrail_rng_below(&rng, 2),
            .count = 1,
        };

        assert_int_equal(trace_table_add(&table, &record), 0);
    }
    assert_int_equal(table.count, 20 * 8 * 4 * 2);
    trace_table_finish(&table);
    for (unsigned i = 0; i < table.count; ++i) {
        const trace_row_t *row = table.rows[i];

        sum += row->records;
        if (i > 0) {
            assert_true(table.rows[i - 1]->rail <= row->rail);
        }
    }
    assert_int_equal(sum, 20000);
}

/* 64 KiB complete every 100 us, except eight chunks at a quarter of that rate.
 * The mean hides these chunks, and the lowest rate shows them. */
static void test_lowest_rate(void **state)
{
    uint64_t now_ns = US;

    for (unsigned i = 0; i < 1000; ++i) {
        uint64_t done_ns =
            now_ns + (((i >= 500) && (i < 508)) ? 400 * US : 100 * US);

        add(now_ns, done_ns, MRAIL_RING_PUT, CHUNK);
        now_ns = done_ns;
    }
    trace_table_finish(&table);
    assert_int_equal(table.rows[0]->low,
                     (uint64_t)((double)CHUNK * 1e9 / (400.0 * US)));
}

/* A poll that returns eight completions does not look like a low rate. */
static void test_late_poll(void **state)
{
    for (unsigned round = 0; round < 20; ++round) {
        for (unsigned i = 0; i < 8; ++i) {
            add(round * 800 * US + 1, (round + 1) * 800 * US, MRAIL_RING_GET,
                CHUNK);
        }
    }
    trace_table_finish(&table);
    assert_in_range(table.rows[0]->low, 655000000, 656500000);
}

/* The time of a batch does not show how long all of its bytes took. */
static void test_no_lowest_rate_of_messages(void **state)
{
    for (unsigned i = 0; i < 20; ++i) {
        add(i * 100 * US, i * 100 * US + 5, MRAIL_RING_AM, 4 * CHUNK);
    }
    trace_table_finish(&table);
    assert_int_equal(table.rows[0]->low, 0);
}

static void test_few_or_small_records(void **state)
{
    for (unsigned i = 0; i < 7; ++i) {
        add(i * US, i * US + 1, MRAIL_RING_PUT, CHUNK);
    }
    for (unsigned i = 0; i < 100; ++i) {
        add(i * US, i * US + 1, MRAIL_RING_GET, 8);
    }
    trace_table_finish(&table);
    assert_int_equal(table.count, 2);
    assert_int_equal(table.rows[0]->low, 0);
    assert_int_equal(table.rows[1]->low, 0);
}

/* ---- output ---- */

static char *text;
static size_t text_size;

static FILE *open_text(void)
{
    free(text);
    text = NULL;
    return open_memstream(&text, &text_size);
}

static void has(const char *part)
{
    if (strstr(text, part) == NULL) {
        print_message("no '%s' in: %s\n", part, text);
        fail();
    }
}

static void test_table_text(void **state)
{
    trace_process_t process = {
        .page = &page, .alive = 1, .elapsed_s = 0.001, .missed = 5};
    FILE *stream = open_text();

    add(0, 100 * US, MRAIL_RING_PUT, CHUNK);
    trace_table_finish(&table);
    process.table = table;
    trace_table_print(stream, &process, 1);
    fclose(stream);
    has("rank 3     soft1:1         2 0000000000000007 50000 put         1"
        "     65.5      0.0     100.0     100.0     100.0      0\n");
    has("rank 3: 5 records were overwritten before they were read; set "
        "UCX_MRAIL_TELEMETRY_RECORDS higher\n");
    assert_null(strstr(text, "not valid"));
}

static void test_table_without_records(void **state)
{
    const trace_process_t process = {
        .page = &page, .elapsed_s = 1, .invalid = 2};
    FILE *stream = open_text();

    trace_table_print(stream, &process, 1);
    fclose(stream);
    has("no records in the trace rings of 1 process\n");
    has("rank 3: 2 records are not valid\n");
}

/* A rail number beyond the page's rails, as a damaged file may contain. */
static void test_unknown_rail(void **state)
{
    const mrail_ring_record_t record = {
        .done_ns = 1500, .rail = 255, .lane = 255, .kind = 0x80, .count = 1};
    FILE *stream = open_text();

    trace_record_print(stream, &page, NULL, &record);
    fclose(stream);
    has("rail 255");
    has("1.500 us  failed\n");
}

static void test_json(void **state)
{
    trace_process_t process = {.page = &page, .alive = 1, .elapsed_s = 0.5};
    const mrail_ring_record_t record = {.post_ns = 5,
                                        .done_ns = 25,
                                        .peer = 7,
                                        .length = 100,
                                        .lane = 2,
                                        .rail = 1,
                                        .kind = MRAIL_RING_AM,
                                        .count = 64};
    FILE *stream = open_text();

    trace_record_json(stream, &page, NULL, &record);
    fclose(stream);
    assert_string_equal(
        text, "{\"job\": \"\", \"rank\": 3, \"pid\": 4711, \"rail\": 1, "
              "\"device\": \"soft1\", \"port\": 1, \"lane\": 2, "
              "\"peer\": \"0000000000000007\", \"kind\": \"am\", "
              "\"count\": 64, \"failed\": false, \"bytes\": 100, "
              "\"post_ns\": 1000000000000000005, "
              "\"done_ns\": 1000000000000000025, \"time_ns\": 20}\n");
    add(0, 100 * US, MRAIL_RING_PUT, CHUNK);
    trace_table_finish(&table);
    process.table = table;
    stream = open_text();
    trace_table_json(stream, &process, 1, 0.5);
    fclose(stream);
    has("\"bytes_per_s\": 131072, ");
    has("\"p50_ns\": 100000, ");
    free(text);
    text = NULL;
}

#define TEST(_func) cmocka_unit_test_setup_teardown(_func, fresh, fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percentiles),
        cmocka_unit_test(test_extreme_times),
        TEST(test_rows),
        TEST(test_many_rows),
        TEST(test_lowest_rate),
        TEST(test_late_poll),
        TEST(test_no_lowest_rate_of_messages),
        TEST(test_few_or_small_records),
        TEST(test_table_text),
        TEST(test_table_without_records),
        TEST(test_unknown_rail),
        TEST(test_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
