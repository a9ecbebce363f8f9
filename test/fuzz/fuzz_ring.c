/*
 * The trace ring of another process. The header, the records, and the head at
 * each read may have arbitrary values.
 *
 * Also checked: no copy reaches beyond the ring, each accepted record is in
 * range, and the table and the tracks of mrail trace accept it.
 */
#include "config.h"
#include "fuzz.h"
#include "telemetry/ring.h"
#include "tools/trace_table.h"
#include "tools/trace_tracks.h"

#include <errno.h>

#define MAX_RECORDS 256u

static uint64_t take_u64(fuzz_in_t *in)
{
    uint64_t hi = fuzz_u32(in);

    return hi << 32 | fuzz_u32(in);
}

/* Reads a head from the input: a small step from the last one, or any
 * number. */
static uint64_t take_head(fuzz_in_t *in, uint64_t head)
{
    uint8_t how = fuzz_u8(in);

    return (how == 0xff) ? take_u64(in) : head + how;
}

static void check_record(const mrail_ring_record_t *record)
{
    FUZZ_CHECK(mrail_ring_record_kind(record) < MRAIL_RING_KINDS, "kind %u",
               record->kind);
    FUZZ_CHECK(mrail_ring_kind_name(mrail_ring_record_kind(record)) != NULL,
               "kind %u has no name", record->kind);
    FUZZ_CHECK(record->done_ns >= record->post_ns, "the time is negative");
}

static void check_table(trace_table_t *table)
{
    trace_table_finish(table);
    for (unsigned i = 0; i < table->count; ++i) {
        const trace_row_t *row = table->rows[i];
        uint64_t p50_ns = trace_times_percentile(&row->times, 500000);
        uint64_t p99_ns = trace_times_percentile(&row->times, 990000);

        FUZZ_CHECK((p50_ns <= p99_ns) && (p99_ns <= row->times.max_ns),
                   "percentiles");
        FUZZ_CHECK(row->failed + row->times.count == row->records, "counts");
    }
    trace_table_clear(table);
}

static int no_rank(const void *arg, uint64_t peer)
{
    return -1;
}

/* Returns tracks whose trace is discarded. */
static trace_tracks_t *open_tracks(void)
{
    static mrail_page_t page;
    static perfetto_t trace;
    const trace_tracks_config_t config = {.page = &page, .rank_of = no_rank};

    if (trace.stream == NULL) {
        perfetto_begin(&trace, fopen("/dev/null", "we"), 0, 0, 0);
        FUZZ_CHECK(trace.stream != NULL, "/dev/null");
    }
    return trace_tracks_create(&trace, &config);
}

static void check_tracks(trace_tracks_t *tracks, uint64_t num_records)
{
    const trace_totals_t *totals = trace_tracks_totals(tracks);

    trace_tracks_finish(tracks, NULL, 0);
    FUZZ_CHECK(totals->records + totals->unshown == num_records, "%llu records",
               (unsigned long long)num_records);
    trace_tracks_destroy(tracks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_in_t in = {data, data + size};
    mrail_ring_header_t header = {
        .magic = MRAIL_RING_MAGIC,
        .version = MRAIL_RING_VERSION,
        .header_size = sizeof(header),
        .record_size = sizeof(mrail_ring_record_t),
        .num_records = 64u << (fuzz_u8(&in) % 3),
    };
    mrail_ring_record_t records[MAX_RECORDS];
    mrail_ring_reader_t reader;
    trace_table_t table = {0};
    trace_tracks_t *tracks;
    uint64_t head = 0, before, accepted = 0;
    int ret;

    if (fuzz_u8(&in) & 1) {
        fuzz_bytes(&in, &header, 5 * sizeof(uint32_t));
    }
    if (mrail_ring_reader_init(&reader, &header,
                               mrail_ring_size(MAX_RECORDS)) != 0) {
        return 0;
    }
    FUZZ_CHECK((reader.num_records >= MRAIL_RING_MIN) &&
                   (reader.num_records <= MAX_RECORDS),
               "%u records", reader.num_records);
    tracks = open_tracks();
    FUZZ_CHECK(tracks != NULL, "out of memory");
    while (fuzz_left(&in) > 0) {
        mrail_ring_span_t span;

        head = take_head(&in, head);
        before = reader.next;
        ret = mrail_ring_begin(&reader, head, 1 + fuzz_u8(&in), &span);
        FUZZ_CHECK((ret == 0) || (ret == 1) || (ret == -EINVAL), "%d", ret);
        if (ret <= 0) {
            continue;
        }
        FUZZ_CHECK(reader.next >= before, "the reader moves backwards");
        FUZZ_CHECK((span.place < reader.num_records) &&
                       (span.count <= reader.num_records - span.place),
                   "%u at %u of %u", span.count, span.place,
                   reader.num_records);
        fuzz_bytes(&in, records, span.count * sizeof(records[0]));
        head = take_head(&in, head);
        ret = mrail_ring_end(&reader, head, &span, records);
        FUZZ_CHECK((ret >= -EINVAL) && (ret <= (int)span.count), "%d", ret);
        for (int i = 0; i < ret; ++i) {
            check_record(&records[i]);
            FUZZ_CHECK(trace_table_add(&table, &records[i]) == 0,
                       "out of memory");
            FUZZ_CHECK(trace_tracks_record(tracks, &records[i]) == 0,
                       "out of memory");
            ++accepted;
        }
    }
    check_table(&table);
    check_tracks(tracks, accepted);
    return 0;
}
