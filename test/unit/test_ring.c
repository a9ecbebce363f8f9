/*
 * Tests the trace ring without concurrency: records, wrap-around, overruns,
 * and headers and records that no writer of this version produces.
 */
#include "config.h"
#include "telemetry/ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RECORDS 64u

static union {
    mrail_ring_header_t header;
    uint8_t bytes[sizeof(mrail_ring_header_t) +
                  RECORDS * sizeof(mrail_ring_record_t)];
} memory;
static mrail_ring_t ring;
static mrail_ring_reader_t reader;
static mrail_ring_record_t records[RECORDS];

static int fresh(void **state)
{
    memset(&memory, 0, sizeof(memory));
    mrail_ring_init(&ring, &memory, RECORDS);
    return mrail_ring_reader_init(&reader, &memory.header, sizeof(memory));
}

static void write_records(uint64_t first, uint64_t end)
{
    for (uint64_t n = first; n < end; ++n) {
        mrail_ring_write(&ring, n, 2 * n, ~n,
                         mrail_ring_tail((uint32_t)n, 9, 3, MRAIL_RING_GET, 1));
    }
}

static const mrail_ring_record_t *place(uint32_t at)
{
    return (const mrail_ring_record_t *)(memory.bytes +
                                         sizeof(mrail_ring_header_t)) +
           at;
}

/* Reads one span. `late` is the number of records that are written while it is
 * being copied. */
static int read_span(uint32_t max, uint64_t late)
{
    mrail_ring_span_t span;
    int ret = mrail_ring_begin(&reader, memory.header.head, max, &span);

    if (ret <= 0) {
        return ret;
    }
    assert_in_range(span.count, 1, MRAIL_MIN(max, RECORDS - span.place));
    assert_int_equal(span.place, span.first % RECORDS);
    memcpy(records, place(span.place), span.count * sizeof(records[0]));
    write_records(ring.head, ring.head + late);
    return mrail_ring_end(&reader, memory.header.head, &span, records);
}

static void test_round(void **state)
{
    assert_int_equal(mrail_ring_round(0), 0);
    assert_int_equal(mrail_ring_round(1), MRAIL_RING_MIN);
    assert_int_equal(mrail_ring_round(64), 64);
    assert_int_equal(mrail_ring_round(65), 128);
    assert_int_equal(mrail_ring_round(4096), 4096);
    assert_int_equal(mrail_ring_round(MRAIL_RING_MAX), MRAIL_RING_MAX);
    assert_int_equal(mrail_ring_round(UINT32_MAX), MRAIL_RING_MAX);
}

static void test_fields(void **state)
{
    assert_int_equal(read_span(RECORDS, 0), 0);
    mrail_ring_write(&ring, 11, 12, 0x1234567890abcdef,
                     mrail_ring_tail(0xfedcba98, 63, 15,
                                     MRAIL_RING_AM | MRAIL_RING_FAILED, 200));
    assert_int_equal(read_span(RECORDS, 0), 1);
    assert_int_equal(records[0].post_ns, 11);
    assert_int_equal(records[0].done_ns, 12);
    assert_int_equal(records[0].peer, 0x1234567890abcdef);
    assert_int_equal(records[0].length, 0xfedcba98);
    assert_int_equal(records[0].lane, 63);
    assert_int_equal(records[0].rail, 15);
    assert_int_equal(records[0].kind, MRAIL_RING_AM | MRAIL_RING_FAILED);
    assert_int_equal(mrail_ring_record_kind(&records[0]), MRAIL_RING_AM);
    assert_int_equal(records[0].count, 200);
    assert_int_equal(read_span(RECORDS, 0), 0);
}

/* A reader that keeps up must see every record once, in order. */
static void test_keeps_up(void **state)
{
    uint64_t next = 0;

    for (uint64_t n = 0; n < 10 * RECORDS; n += 7) {
        write_records(n, n + 7);
        for (int count; (count = read_span(5, 0)) != 0;) {
            assert_true(count > 0);
            for (int i = 0; i < count; ++i) {
                assert_int_equal(records[i].post_ns, next++);
            }
        }
        assert_int_equal(next, n + 7);
    }
    assert_int_equal(reader.missed, 0);
    assert_int_equal(reader.invalid, 0);
}

/* The slot of the next record is never read, because the writer may be writing
 * it. */
static void test_first_read(void **state)
{
    write_records(0, 3 * RECORDS);
    assert_int_equal(read_span(RECORDS, 0), RECORDS - 1);
    assert_int_equal(records[0].post_ns, 2 * RECORDS + 1);
    assert_int_equal(reader.missed, 0); /* older than the reader */
}

static void test_overrun_before_a_read(void **state)
{
    write_records(0, 1);
    assert_int_equal(read_span(RECORDS, 0), 1);
    write_records(1, 1 + RECORDS + 20);
    /* The ring holds records 21 to 84, and 22 is the oldest safe one. */
    assert_int_equal(read_span(RECORDS, 0), RECORDS - 22);
    assert_int_equal(records[0].post_ns, 22);
    assert_int_equal(reader.missed, 21);
    assert_int_equal(read_span(RECORDS, 0), 21);
    assert_int_equal(records[20].post_ns, RECORDS + 20);
    assert_int_equal(reader.missed, 21);
}

static void test_overrun_during_a_read(void **state)
{
    write_records(0, 40);
    /* 40 records are copied while 30 others are written, so 0 to 6 may be
     * overwritten. */
    assert_int_equal(read_span(RECORDS, 30), 33);
    assert_int_equal(records[0].post_ns, 7);
    assert_int_equal(reader.missed, 7);
    assert_int_equal(read_span(RECORDS, 1000), 0);
    assert_int_equal(reader.missed, 7 + 24);
    assert_int_equal(reader.next, 64);
}

static void test_skip(void **state)
{
    write_records(0, 10);
    mrail_ring_skip(&reader, memory.header.head);
    assert_int_equal(read_span(RECORDS, 0), 0);
    write_records(10, 12);
    assert_int_equal(read_span(RECORDS, 0), 2);
    assert_int_equal(records[0].post_ns, 10);
    assert_int_equal(reader.missed, 0);
}

/* ---- content that no writer produces ---- */

static void refused(int error)
{
    mrail_ring_reader_t untouched = {.next = 5};

    assert_int_equal(
        mrail_ring_reader_init(&untouched, &memory.header, sizeof(memory)),
        error);
    assert_int_equal(untouched.next, 5);
    memset(&memory, 0, sizeof(memory));
    mrail_ring_init(&ring, &memory, RECORDS);
}

static void test_headers(void **state)
{
    ++memory.header.magic;
    refused(-EINVAL);
    ++memory.header.version;
    refused(-EPROTO);
    ++memory.header.header_size;
    refused(-EPROTO);
    --memory.header.record_size;
    refused(-EPROTO);
    memory.header.num_records = 0;
    refused(-EINVAL);
    memory.header.num_records = RECORDS - 1;
    refused(-EINVAL);
    memory.header.num_records = 2 * RECORDS; /* more than the file holds */
    refused(-EINVAL);
    memory.header.num_records = 1u << 31;
    refused(-EINVAL);
    assert_int_equal(
        mrail_ring_reader_init(&reader, &memory.header, sizeof(memory) - 1),
        -EINVAL);
    assert_int_equal(mrail_ring_reader_init(&reader, &memory.header, 64),
                     -EINVAL);
}

static void test_head_goes_back(void **state)
{
    mrail_ring_span_t span;

    write_records(0, 10);
    assert_int_equal(read_span(RECORDS, 0), 10);
    memory.header.head = 9;
    assert_int_equal(read_span(RECORDS, 0), -EINVAL);
    assert_int_equal(mrail_ring_begin(&reader, 12, RECORDS, &span), 1);
    assert_int_equal(mrail_ring_end(&reader, 11, &span, records), -EINVAL);
}

static void test_records_out_of_range(void **state)
{
    mrail_ring_write(&ring, 2, 1, 0, mrail_ring_tail(1, 0, 0, 0, 1));
    mrail_ring_write(&ring, 1, 2, 0,
                     mrail_ring_tail(2, 0, 0, MRAIL_RING_KINDS, 1));
    mrail_ring_write(&ring, 1, 2, 0, mrail_ring_tail(3, 0, 0, 0, 1));
    mrail_ring_write(&ring, 1, 2, 0, mrail_ring_tail(4, 0, 0, 0, 0));
    assert_int_equal(read_span(RECORDS, 0), 1);
    assert_int_equal(records[0].length, 3);
    assert_int_equal(reader.invalid, 3);
    assert_int_equal(reader.missed, 0);
}

#define TEST(_func) cmocka_unit_test_setup(_func, fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_round),
        TEST(test_fields),
        TEST(test_keeps_up),
        TEST(test_first_read),
        TEST(test_overrun_before_a_read),
        TEST(test_overrun_during_a_read),
        TEST(test_skip),
        TEST(test_headers),
        TEST(test_head_goes_back),
        TEST(test_records_out_of_range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
