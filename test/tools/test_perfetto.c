/* Tests the Perfetto traces of mrail trace (src/tools/perfetto.c,
 * trace_tracks.c, trace_calls.c and trace_plans.c). A decoder turns a trace
 * into text. It knows only the Protocol Buffers encoding, and which fields are
 * messages. */
#include "config.h"
#include "base/rng.h"
#include "orchestrator/plan.h"
#include "tools/trace_plans.h"
#include "tools/trace_tracks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define US 1000ull
#define CHUNK 65536u
#define OFFSET 1000000000000000000ull

static perfetto_t trace;
static FILE *stream;
static char *bytes; /* bytes of the trace; valid after finish() */
static size_t num_bytes;
static char *text; /* text of the decoder */
static size_t text_size;

/* ---- decoder ---- */

typedef struct span {
    const uint8_t *at, *end;
} span_t;

static uint64_t take_varint(span_t *in)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        assert_true(in->at < in->end);
        value |= (uint64_t)(*in->at & 0x7f) << shift;
        if ((*in->at++ & 0x80) == 0) {
            return value;
        }
    }
    fail_msg("a varint is too long");
    return 0;
}

static uint64_t take_fixed64(span_t *in)
{
    uint64_t value = 0;

    assert_true(in->end - in->at >= 8);
    for (unsigned i = 0; i < 8; ++i) {
        value |= (uint64_t)*in->at++ << (8 * i);
    }
    return value;
}

/* The fields that are messages, as a path from the packet. Source:
 * perfetto_trace.proto. */
static int is_message(const char *path)
{
    static const char *const messages[] = {".1",      ".1.6",    ".1.6.1",
                                           ".1.11",   ".1.11.4", ".1.60",
                                           ".1.60.3", ".1.60.8"};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(messages); ++i) {
        if (strcmp(path, messages[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

static void decode(FILE *out, const char *parent, span_t in)
{
    while (in.at < in.end) {
        uint64_t tag = take_varint(&in), length;
        char path[64];

        snprintf(path, sizeof(path), "%s.%" PRIu64, parent, tag >> 3);
        fprintf(out, "%" PRIu64, tag >> 3);
        switch (tag & 7) {
        case 0:
            fprintf(out, ":%" PRIu64 " ", take_varint(&in));
            break;
        case 1:
            fprintf(out, ":%#" PRIx64 " ", take_fixed64(&in));
            break;
        case 2:
            length = take_varint(&in);
            assert_true(length <= (uint64_t)(in.end - in.at));
            if (is_message(path)) {
                fputc('{', out);
                decode(out, path, (span_t){in.at, in.at + length});
                fputs("} ", out);
            } else {
                fprintf(out, ":'%.*s' ", (int)length, (const char *)in.at);
            }
            in.at += length;
            break;
        default:
            fail_msg("wire type %u", (unsigned)(tag & 7));
        }
    }
}

/* ---- helpers ---- */

static int fresh(void **state)
{
    stream = open_memstream(&bytes, &num_bytes);
    perfetto_begin(&trace, stream, OFFSET + 7, 7, 9);
    return 0;
}

/* Ends the trace and decodes it. */
static void finish(void)
{
    FILE *out;

    fclose(stream);
    stream = NULL;
    assert_int_equal(trace.bytes, num_bytes);
    free(text);
    out = open_memstream(&text, &text_size);
    decode(
        out, "",
        (span_t){(const uint8_t *)bytes, (const uint8_t *)bytes + num_bytes});
    fclose(out);
}

static int done(void **state)
{
    if (stream != NULL) {
        fclose(stream);
    }
    free(bytes);
    free(text);
    bytes = text = NULL;
    return 0;
}

static void has(const char *part)
{
    if (strstr(text, part) == NULL) {
        print_message("no '%s' in: %s\n", part, text);
        fail();
    }
}

static unsigned count(const char *part)
{
    unsigned number = 0;

    for (const char *at = strstr(text, part); at != NULL;
         at = strstr(at + 1, part)) {
        ++number;
    }
    return number;
}

/* ---- format ---- */

static void test_clocks(void **state)
{
    finish();
    has("1{10:1 6{1{1:1 2:1000000000000000007 } 1{1:3 2:7 } 1{1:6 2:9 } 2:1 } "
        "} ");
}

static void test_tracks(void **state)
{
    perfetto_track(&trace,
                   &(perfetto_track_t){
                       .id = 1, .name = "rank 3", .pid = 4711, .order = -1});
    perfetto_track(&trace, &(perfetto_track_t){.id = 300,
                                               .parent = 1,
                                               .name = "rate",
                                               .unit = "bytes/s",
                                               .order = 2});
    finish();
    has("60{1:1 2:'rank 3' 3{1:4711 6:'rank 3' } 11:3 "
        "12:18446744073709551615 } ");
    has("60{1:300 5:1 2:'rate' 8{6:'bytes/s' } 11:3 12:2 } ");
}

static void test_events(void **state)
{
    const perfetto_arg_t args[] = {{.name = "bytes", .value = UINT64_MAX},
                                   {.name = "rail", .text = "soft1:1"}};

    perfetto_event(&trace, &(perfetto_event_t){.kind = PERFETTO_BEGIN,
                                               .time_ns = 1ull << 62,
                                               .track = 2,
                                               .category = "chunk",
                                               .name = "put",
                                               .flow = 0x123456789abcdef0,
                                               .args = args,
                                               .num_args = 2});
    perfetto_event(&trace, &(perfetto_event_t){
                               .kind = PERFETTO_END, .time_ns = 5, .track = 2});
    perfetto_event(&trace, &(perfetto_event_t){.kind = PERFETTO_COUNTER,
                                               .time_ns = 6,
                                               .track = 3,
                                               .value = 0});
    finish();
    has("1{10:1 8:4611686018427387904 58:1 11{9:1 11:2 22:'chunk' 23:'put' "
        "47:0x123456789abcdef0 4{10:'bytes' 3:18446744073709551615 } "
        "4{10:'rail' 6:'soft1:1' } } } ");
    has("1{10:1 8:5 58:1 11{9:2 11:2 } } ");
    has("1{10:1 8:6 58:1 11{9:4 11:3 30:0 } } ");
}

/* The largest event fits: all texts are too long, and contain bytes that are
 * not printable. */
static void test_long_texts(void **state)
{
    char longest[2 * PERFETTO_TEXT];
    perfetto_arg_t args[PERFETTO_ARGS];

    memset(longest, 0x80, sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    longest[0] = '\n';
    for (unsigned i = 0; i < PERFETTO_ARGS; ++i) {
        args[i] = (perfetto_arg_t){.name = longest, .text = longest};
    }
    perfetto_event(&trace, &(perfetto_event_t){.kind = PERFETTO_INSTANT,
                                               .time_ns = UINT64_MAX,
                                               .track = UINT64_MAX,
                                               .category = longest,
                                               .name = longest,
                                               .flow = UINT64_MAX,
                                               .args = args,
                                               .num_args = PERFETTO_ARGS});
    finish();
    memset(longest, '?', sizeof(longest));
    longest[PERFETTO_TEXT] = '\'';
    longest[PERFETTO_TEXT + 1] = '\0';
    has(longest);
    longest[PERFETTO_TEXT] = '?';
    longest[PERFETTO_TEXT + 1] = '\0';
    assert_int_equal(count(longest), 0);
}

/* ---- records ---- */

static mrail_page_t page;
static mrail_calls_t calls;

static int ranks(const void *arg, uint64_t peer)
{
    return (peer == 7) ? 2 : -1;
}

static trace_tracks_t *create(int has_past)
{
    const trace_tracks_config_t config = {.page = &page,
                                          .offset_ns = OFFSET,
                                          .has_past = has_past,
                                          .rank_of = ranks};

    return trace_tracks_create(&trace, &config);
}

static int fresh_tracks(void **state)
{
    memset(&page, 0, sizeof(page));
    memset(&calls, 0, sizeof(calls));
    page.head.pid = 4711;
    page.rank = 3;
    page.num_rails = 2;
    snprintf(page.program, sizeof(page.program), "app");
    snprintf(page.job, sizeof(page.job), "42");
    for (unsigned i = 0; i < page.num_rails; ++i) {
        snprintf(page.rails[i].device, sizeof(page.rails[i].device), "soft%u",
                 i);
        page.rails[i].port = 1;
    }
    return fresh(state);
}

static void add(trace_tracks_t *tracks, uint64_t post_ns, uint64_t done_ns,
                unsigned kind, uint32_t length)
{
    const mrail_ring_record_t record = {.post_ns = post_ns,
                                        .done_ns = done_ns,
                                        .peer = 7,
                                        .length = length,
                                        .lane = 2,
                                        .rail = 1,
                                        .kind = (uint8_t)kind,
                                        .count = 1};

    assert_int_equal(trace_tracks_record(tracks, &record), 0);
}

static void test_record(void **state)
{
    trace_tracks_t *tracks = create(0);

    add(tracks, 10 * US, 30 * US, MRAIL_RING_PUT, CHUNK);
    trace_tracks_destroy(tracks);
    finish();
    has("60{1:1 2:'rank 3 (app, job 42)' 3{1:4711 6:'rank 3 (app, job 42)' } ");
    has("2:'rail soft1:1' ");
    has("2:'bandwidth of soft1:1' 8{6:'bytes/s' } ");
    has("2:'lane 2 to rank 2' ");
    has("8:1000000000000010000 58:1 11{9:3 11:3 22:'post' 23:'put' 47:");
    has("8:1000000000000010000 58:1 11{9:1 11:4 22:'chunk' 23:'put' 47:");
    has("4{10:'bytes' 3:65536 } 4{10:'rail' 6:'soft1:1' } "
        "4{10:'peer' 6:'rank 2' } } } ");
    has("8:1000000000000030000 58:1 11{9:2 11:4 } ");
}

/* Overlapping slices are on separate tracks; a track is reused as soon as its
 * last slice has ended. */
static void test_overlap(void **state)
{
    trace_tracks_t *tracks = create(0);

    add(tracks, 10, 30, MRAIL_RING_PUT, CHUNK);
    add(tracks, 20, 40, MRAIL_RING_PUT, CHUNK);
    add(tracks, 30, 50, MRAIL_RING_PUT, CHUNK);
    add(tracks, 39, 60, MRAIL_RING_PUT, CHUNK);
    trace_tracks_destroy(tracks);
    finish();
    assert_int_equal(count("2:'lane 2 to rank 2' "), 3);
}

/* The bandwidth counter accounts for all bytes that did not fail. */
static void test_bandwidth(void **state)
{
    trace_tracks_t *tracks = create(0);
    const uint64_t step_ns = TRACE_BANDWIDTH_NS;

    add(tracks, 0, step_ns + 1, MRAIL_RING_GET, 1000);
    add(tracks, 0, 2 * step_ns - 1, MRAIL_RING_GET, 500);
    add(tracks, 0, 2 * step_ns - 1, MRAIL_RING_GET | MRAIL_RING_FAILED, 5);
    add(tracks, 0, 7 * step_ns, MRAIL_RING_AM, 30);
    trace_tracks_finish(tracks, NULL, 8 * step_ns);
    trace_tracks_destroy(tracks);
    finish();
    has("8:1000000000010000000 58:1 11{9:4 11:6 30:150000 } ");
    has("8:1000000000020000000 58:1 11{9:4 11:6 30:0 } ");
    has("8:1000000000070000000 58:1 11{9:4 11:6 30:3000 } ");
    has("8:1000000000080000000 58:1 11{9:4 11:6 30:0 } ");
    assert_int_equal(count("11{9:4 "), 4);
    has("23:'get failed' ");
    has("23:'rail totals' 4{10:'rail' 6:'soft1:1' } "
        "4{10:'bytes in records' 3:1530 } 4{10:'bytes carried' 3:0 } ");
    has("23:'totals' 4{10:'records' 3:4 } 4{10:'bytes' 3:1530 } "
        "4{10:'failed' 3:1 } ");
}

static void test_bytes_since_start(void **state)
{
    trace_tracks_t *tracks;

    page.rails[0].bytes = 100;
    tracks = create(0);
    page.rails[0].bytes = 350;
    trace_tracks_page(tracks, &page);
    trace_tracks_finish(tracks, NULL, US);
    trace_tracks_destroy(tracks);
    finish();
    has("4{10:'bytes in records' 3:0 } 4{10:'bytes carried' 3:250 } ");
}

static void test_lost(void **state)
{
    trace_tracks_t *tracks = create(0);
    mrail_ring_reader_t reader = {.missed = 5};

    trace_tracks_missing(tracks, &reader, US);
    trace_tracks_missing(tracks, &reader, 2 * US);
    reader.missed = 8;
    reader.invalid = 1;
    trace_tracks_missing(tracks, &reader, 3 * US);
    assert_int_equal(trace_tracks_totals(tracks)->missed, 8);
    assert_int_equal(trace_tracks_totals(tracks)->invalid, 1);
    trace_tracks_destroy(tracks);
    finish();
    assert_int_equal(count("23:'records lost' "), 2);
    has("4{10:'overwritten' 3:3 } 4{10:'invalid' 3:1 } ");
}

/* With random records in the ring, the writer does not crash, its memory is
 * bounded, and every slice has an end. */
static void test_random_records(void **state)
{
    trace_tracks_t *tracks = create(1);
    const trace_totals_t *totals = trace_tracks_totals(tracks);
    mrail_rng_t rng;

    mrail_rng_init(&rng, 3);
    for (unsigned i = 0; i < TRACE_MAX_LANES + 1000; ++i) {
        const mrail_ring_record_t record = {
            .post_ns = mrail_rng_next(&rng) >> 1,
            .done_ns = UINT64_MAX >> 1,
            .peer = mrail_rng_next(&rng),
            .length = (uint32_t)mrail_rng_next(&rng),
            .lane = (uint8_t)mrail_rng_next(&rng),
            .rail = (uint8_t)mrail_rng_next(&rng),
            .kind = (uint8_t)mrail_rng_below(&rng, MRAIL_RING_KINDS),
            .count = 1};

        assert_int_equal(trace_tracks_record(tracks, &record), 0);
    }
    assert_int_equal(totals->unshown, 1000);
    for (unsigned i = 0; i < TRACE_MAX_SLOTS + 10; ++i) {
        add(tracks, i, UINT64_MAX >> 1, MRAIL_RING_PUT, 1);
    }
    assert_int_equal(totals->unshown, 1000 + TRACE_MAX_SLOTS + 10);
    trace_tracks_finish(tracks, NULL, US);
    trace_tracks_destroy(tracks);
    finish();
    assert_int_equal(count("11{9:1 "), TRACE_MAX_LANES);
    assert_int_equal(count("11{9:2 "), TRACE_MAX_LANES);
}

static void test_many_slots(void **state)
{
    trace_tracks_t *tracks = create(1);

    for (unsigned i = 0; i < TRACE_MAX_SLOTS + 10; ++i) {
        add(tracks, i, 1 << 30, MRAIL_RING_PUT, 1);
    }
    assert_int_equal(trace_tracks_totals(tracks)->unshown, 10);
    assert_int_equal(trace_tracks_totals(tracks)->records, TRACE_MAX_SLOTS);
    trace_tracks_destroy(tracks);
}

/* ---- events ---- */

static void add_page_event(const char *what)
{
    mrail_page_event_t *event =
        &page.events[page.num_events % MRAIL_PAGE_EVENTS];

    event->time_ns = OFFSET + ++page.num_events;
    snprintf(event->text, sizeof(event->text), "%s", what);
}

static void test_page_events(void **state)
{
    trace_tracks_t *tracks;

    add_page_event("before");
    tracks = create(0);
    add_page_event("soft1: port error");
    trace_tracks_page(tracks, &page);
    trace_tracks_page(tracks, &page);
    for (unsigned i = 0; i < MRAIL_PAGE_EVENTS + 3; ++i) {
        add_page_event("many");
    }
    trace_tracks_page(tracks, &page);
    assert_int_equal(trace_tracks_totals(tracks)->missed_events, 3);
    trace_tracks_destroy(tracks);
    finish();
    assert_int_equal(count("'before'"), 0);
    assert_int_equal(count("8:1000000000000000002 58:1 11{9:3 11:2 22:'health' "
                           "23:'soft1: port error' } "),
                     1);
    assert_int_equal(count("23:'many' "), MRAIL_PAGE_EVENTS);
}

/* ---- calls ---- */

static mrail_calls_comm_t *add_comm(void)
{
    mrail_calls_comm_t *comm = &calls.comms[4];

    comm->id = 77;
    comm->size = 4;
    comm->rank = 3;
    snprintf(comm->name, sizeof(comm->name), "MPI_COMM_WORLD");
    return comm;
}

/* Adds a collective that is left at left_ns, or not yet if that is 0. */
static void add_call(mrail_calls_comm_t *comm, uint64_t entered_ns,
                     uint64_t left_ns, unsigned kind)
{
    comm->records[comm->entered++ % MRAIL_CALLS_RECORDS] =
        (mrail_calls_record_t){
            .entered = entered_ns, .left = left_ns, .kind = kind, .root = -1};
    if (left_ns != 0) {
        comm->left = comm->entered;
    }
    comm->first = (comm->entered < MRAIL_CALLS_RECORDS)
                      ? 0
                      : comm->entered - MRAIL_CALLS_RECORDS + 1;
}

static void test_collectives(void **state)
{
    trace_tracks_t *tracks = create(0);
    mrail_calls_comm_t *comm = add_comm();

    add_call(comm, 10, 20, MRAIL_CALLS_BCAST); /* before the trace */
    trace_tracks_calls(tracks, &calls);
    add_call(comm, 30, 40, MRAIL_CALLS_ALLTOALLV);
    add_call(comm, 38, 0, MRAIL_CALLS_BARRIER);
    trace_tracks_calls(tracks, &calls);
    trace_tracks_calls(tracks, &calls);
    trace_tracks_finish(tracks, &calls, 60);
    assert_int_equal(trace_tracks_totals(tracks)->calls, 2);
    trace_tracks_destroy(tracks);
    finish();
    has("2:'calls of MPI_COMM_WORLD' ");
    assert_int_equal(count("Bcast"), 0);
    assert_int_equal(count("8:1000000000000000030 58:1 11{9:1 11:4 "
                           "22:'collective' 23:'MPI_Alltoallv' 47:"),
                     1);
    has("4{10:'number' 3:1 } 4{10:'ranks' 3:4 } } ");
    has("8:1000000000000000040 58:1 11{9:2 11:4 } ");
    /* The call has not ended, and does not begin before the previous call
     * ended. */
    has("8:1000000000000000040 58:1 11{9:1 11:4 22:'collective' "
        "23:'MPI_Barrier' 47:");
}

/* The same collective has the same arrow on each rank. */
static void test_flow_of_ranks(void **state)
{
    trace_tracks_t *one = create(1), *other = create(1);
    const char *at;
    char flow[32];

    add_call(add_comm(), 30, 40, MRAIL_CALLS_ALLREDUCE);
    trace_tracks_calls(one, &calls);
    calls.comms[9] = calls.comms[4];
    calls.comms[4].id = 0;
    calls.comms[9].records[0].entered = 35;
    trace_tracks_calls(other, &calls);
    trace_tracks_destroy(one);
    trace_tracks_destroy(other);
    finish();
    at = strstr(text, "'MPI_Allreduce' 47:");
    assert_non_null(at);
    snprintf(flow, sizeof(flow), "%.22s", at + strlen("'MPI_Allreduce' "));
    assert_int_equal(count(flow), 2);
}

static void test_lost_calls(void **state)
{
    trace_tracks_t *tracks = create(1);
    mrail_calls_comm_t *comm = add_comm();

    add_call(comm, 1, 2, MRAIL_CALLS_BARRIER);
    trace_tracks_calls(tracks, &calls);
    for (unsigned i = 1; i < 100; ++i) {
        add_call(comm, 10 * i, 10 * i + 2, MRAIL_CALLS_BARRIER);
    }
    trace_tracks_calls(tracks, &calls);
    trace_tracks_finish(tracks, &calls, 2000);
    assert_int_equal(trace_tracks_totals(tracks)->calls,
                     1 + MRAIL_CALLS_RECORDS - 1);
    assert_int_equal(trace_tracks_totals(tracks)->missed_calls,
                     100 - MRAIL_CALLS_RECORDS);
    trace_tracks_destroy(tracks);
    finish();
    has("4{10:'calls lost' 3:36 } ");
}

static void test_waits(void **state)
{
    trace_tracks_t *tracks = create(0);

    calls.num_past = 1;
    trace_tracks_calls(tracks, &calls);
    calls.past[1] = (mrail_calls_past_t){.since = 100,
                                         .until = 200,
                                         .kind = MRAIL_CALLS_RECV,
                                         .peer = 5,
                                         .tag = 6};
    calls.num_past = 2;
    calls.wait = (mrail_calls_wait_t){
        .count = 1, .since = 300, .kind = MRAIL_CALLS_WAIT, .peer = -1};
    trace_tracks_finish(tracks, &calls, 400);
    trace_tracks_destroy(tracks);
    finish();
    has("8:1000000000000000100 58:1 11{9:1 11:4 22:'wait' 23:'MPI_Recv' "
        "4{10:'peer' 3:5 } 4{10:'tag' 3:6 } } ");
    has("8:1000000000000000200 58:1 11{9:2 11:4 } ");
    has("8:1000000000000000300 58:1 11{9:1 11:4 22:'wait' 23:'MPI_Wait' } ");
    assert_int_equal(count("22:'wait' "), 2);
}

/* ---- forecasts ---- */

static mrail_plans_t forecasts;
static trace_plans_t plans;

static int fresh_plans(void **state)
{
    memset(&forecasts, 0, sizeof(forecasts));
    return fresh_tracks(state);
}

static void start_plans(int has_past)
{
    trace_plans_init(&plans, &trace, 1, OFFSET, has_past);
}

static void add_load(mrail_plans_comm_t *comm, unsigned kind, unsigned node,
                     unsigned rail, double unplanned)
{
    const mrail_plans_link_t link = {.kind = kind,
                                     .a = node,
                                     .b = rail,
                                     .unplanned = unplanned,
                                     .planned = unplanned / 2};

    mrail_plans_add(comm, &link);
}

/* Makes a forecast in a slot: 700 ns without a plan, and 300 ns with it. */
static mrail_plans_comm_t *forecast(unsigned place, uint64_t time_ns)
{
    mrail_plans_comm_t *comm = &forecasts.comms[place];

    mrail_plans_begin(comm);
    comm->time_ns = OFFSET + time_ns;
    comm->unplanned_s = 700e-9;
    comm->planned_s = 300e-9;
    comm->size = 4;
    comm->is_planned = comm->is_executed = 1;
    comm->num_links = 0;
    snprintf(comm->name, sizeof(comm->name), "MPI_COMM_WORLD");
    mrail_plans_end(comm);
    return comm;
}

/* The slice begins with the collective, and lasts for the predicted time. */
static void test_forecast(void **state)
{
    mrail_calls_comm_t *comm = add_comm();
    mrail_plans_comm_t *plan = forecast(2, 1050);

    add_load(plan, MRAIL_PLAN_RAIL_OUT, 0, 0, 1000);
    add_load(plan, MRAIL_PLAN_RAIL_OUT, 1, 0, 500);
    add_load(plan, MRAIL_PLAN_RAIL_IN, 1, 0, 1000);
    add_load(plan, MRAIL_PLAN_RAIL_OUT, 0, 1, 60);
    add_load(plan, MRAIL_PLAN_RAIL_OUT, 0, 40, 8);
    add_call(comm, 100, 110, MRAIL_CALLS_ALLTOALLV);
    add_call(comm, 1000, 1420, MRAIL_CALLS_ALLTOALLV);
    add_call(comm, 1040, 1041, MRAIL_CALLS_BARRIER);
    start_plans(1);
    trace_plans_add(&plans, &forecasts, &calls);
    trace_plans_add(&plans, &forecasts, &calls); /* nothing is shown twice */
    trace_plans_finish(&plans, &calls);
    assert_int_equal(plans.shown, 1);
    assert_int_equal(plans.missed, 0);
    finish();
    has("5:1 2:'plans of MPI_COMM_WORLD' 11:3 12:9 } ");
    has("8:1000000000000001000 58:1 11{9:1 11:1 22:'forecast' "
        "23:'forecast: by the plan' 4{10:'forecast' 3:1 } 4{10:'ranks' 3:4 } "
        "4{10:'collective' 3:1 } 4{10:'predicted ns without a plan' 3:700 } "
        "4{10:'predicted ns with the plan' 3:300 } 4{10:'measured ns' 3:420 } "
        "4{10:'rail 0: bytes with the plan' 3:750 } "
        "4{10:'rail 0: bytes without a plan' 3:1500 } ");
    has("4{10:'rail 1: bytes without a plan' 3:60 } ");
    has("4{10:'rail 7: bytes without a plan' 3:0 } "
        "4{10:'other rails: bytes with the plan' 3:4 } "
        "4{10:'other rails: bytes without a plan' 3:8 } } } ");
    has("8:1000000000000001300 58:1 11{9:2 11:1 } ");
}

/* A forecast is shown only after its collective has ended, because it includes
 * the measured time. */
static void test_forecast_of_a_call_that_goes_on(void **state)
{
    mrail_calls_comm_t *comm = add_comm();

    start_plans(0);
    trace_plans_add(&plans, NULL, &calls);
    add_call(comm, 1000, 0, MRAIL_CALLS_ALLTOALL);
    (void)forecast(0, 1050);
    trace_plans_add(&plans, &forecasts, &calls);
    assert_int_equal(plans.shown, 0);
    comm->records[0].left = 1900;
    comm->left = 1;
    trace_plans_add(&plans, &forecasts, &calls);
    assert_int_equal(plans.shown, 1);
    add_call(comm, 2000, 0, MRAIL_CALLS_ALLTOALL);
    (void)forecast(0, 2050);
    trace_plans_add(&plans, &forecasts, &calls);
    trace_plans_finish(&plans, &calls);
    finish();
    assert_int_equal(count("'measured ns' 3:900 "), 1);
    assert_int_equal(count("'measured ns' "), 1);
    has("8:1000000000000002000 58:1 11{9:1 ");
}

/* Without the call, or with other calls, the slice begins at the forecast's own
 * time. */
static void test_forecast_without_a_call(void **state)
{
    mrail_calls_comm_t *comm = add_comm();
    mrail_plans_comm_t *plan = forecast(0, 5000);

    plan->is_executed = 0;
    plan = forecast(1, 6000);
    plan->is_planned = 0;
    plan->unplanned_s = NAN;
    plan->name[0] = '\0';
    add_call(comm, 100, 110, MRAIL_CALLS_ALLTOALL);
    add_call(comm, 4990, 5010, MRAIL_CALLS_BCAST);
    start_plans(1);
    trace_plans_add(&plans, &forecasts, &calls);
    trace_plans_finish(&plans, NULL);
    assert_int_equal(plans.shown, 2);
    finish();
    has("8:1000000000000005000 58:1 11{9:1 11:1 22:'forecast' 23:'forecast: "
        "the plan is not used' ");
    has("8:1000000000000005700 58:1 11{9:2 11:1 } ");
    has("'plans of a communicator' ");
    has("8:1000000000000006000 58:1 11{9:3 11:2 22:'forecast' 23:'forecast: "
        "without a plan' 4{10:'forecast' 3:1 } 4{10:'ranks' 3:4 } } } ");
    assert_int_equal(count("'collective' "), 0);
}

/* A nonblocking call returns immediately, before the forecast. */
static void test_forecast_of_a_nonblocking_call(void **state)
{
    add_call(add_comm(), 1000, 1001,
             MRAIL_CALLS_ALLTOALLV | MRAIL_CALLS_NONBLOCKING);
    (void)forecast(0, 1500);
    start_plans(1);
    trace_plans_add(&plans, &forecasts, &calls);
    finish();
    has("8:1000000000000001000 58:1 11{9:1 ");
    assert_int_equal(count("'measured ns' "), 0);
}

/* A later trace does not show earlier forecasts, and counts those that it
 * missed. */
static void test_missed_forecasts(void **state)
{
    (void)forecast(0, 1000);
    (void)forecast(0, 2000);
    start_plans(0);
    trace_plans_add(&plans, &forecasts, NULL);
    assert_int_equal(plans.shown, 0);
    (void)forecast(0, 3000);
    (void)forecast(0, 4000);
    (void)forecast(0, 5000);
    (void)forecast(1, 5000);
    trace_plans_add(&plans, &forecasts, NULL);
    assert_int_equal(plans.shown, 2);
    assert_int_equal(plans.missed, 2);
    forecasts.comms[0].begun = 0; /* it is changing */
    trace_plans_add(&plans, &forecasts, NULL);
    assert_int_equal(plans.shown, 2);
    finish();
    has("4{10:'forecast' 3:5 } ");
}

/* A communicator that reuses another communicator's slot has its own tracks. */
static void test_forecasts_of_a_reused_place(void **state)
{
    mrail_plans_comm_t *plan = forecast(0, 1000);

    start_plans(1);
    trace_plans_add(&plans, &forecasts, NULL);
    plan->earlier = ++plan->begun;
    plan = forecast(0, 3000);
    snprintf(plan->name, sizeof(plan->name), "other");
    plan = forecast(0, 4000);
    snprintf(plan->name, sizeof(plan->name), "other");
    trace_plans_add(&plans, &forecasts, NULL);
    assert_int_equal(plans.shown, 2);
    assert_int_equal(plans.missed, 1);
    finish();
    has("2:'plans of other' ");
    assert_int_equal(count("2:'plans of "), 2);
    has("23:'forecast: by the plan' 4{10:'forecast' 3:2 } ");
}

/* Overlapping slices are on tracks with the same name; their number is
 * limited. */
static void test_overlapping_forecasts(void **state)
{
    start_plans(1);
    for (unsigned i = 0; i < TRACE_PLAN_SLOTS + 3; ++i) {
        (void)forecast(0, 1000 + i);
        trace_plans_add(&plans, &forecasts, NULL);
    }
    (void)forecast(0, 1300);
    trace_plans_add(&plans, &forecasts, NULL);
    assert_int_equal(plans.shown, TRACE_PLAN_SLOTS + 1);
    assert_int_equal(plans.missed, 3);
    finish();
    assert_int_equal(count("2:'plans of MPI_COMM_WORLD' "), TRACE_PLAN_SLOTS);
}

/* Each slice has an end, for all file contents and all calls. */
static void test_random_forecasts(void **state)
{
    mrail_rng_t rng;

    mrail_rng_init(&rng, 5);
    start_plans(1);
    for (unsigned round = 0; round < 50; ++round) {
        unsigned char *to = (unsigned char *)&forecasts;
        const mrail_plans_counts_t same = {.begun = {0}};

        for (size_t i = 0; i < sizeof(forecasts); ++i) {
            to[i] = (unsigned char)mrail_rng_next(&rng);
        }
        forecasts.magic = MRAIL_PLANS_MAGIC;
        forecasts.version = MRAIL_PLANS_VERSION;
        forecasts.size = sizeof(forecasts);
        assert_int_equal(mrail_plans_check(&forecasts, &same, &same),
                         MRAIL_PAGE_ALIVE);
        trace_plans_add(&plans, &forecasts, &calls);
    }
    trace_plans_finish(&plans, NULL);
    assert_true(plans.shown > 0);
    finish();
    assert_int_equal(count("11{9:1 "), count("11{9:2 "));
}

#define TEST(_func) cmocka_unit_test_setup_teardown(_func, fresh, done)
#define PLANS(_func) cmocka_unit_test_setup_teardown(_func, fresh_plans, done)
#define TRACKS(_func) cmocka_unit_test_setup_teardown(_func, fresh_tracks, done)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_clocks),
        TEST(test_tracks),
        TEST(test_events),
        TEST(test_long_texts),
        TRACKS(test_record),
        TRACKS(test_overlap),
        TRACKS(test_bandwidth),
        TRACKS(test_bytes_since_start),
        TRACKS(test_lost),
        TRACKS(test_random_records),
        TRACKS(test_many_slots),
        TRACKS(test_page_events),
        TRACKS(test_collectives),
        TRACKS(test_flow_of_ranks),
        TRACKS(test_lost_calls),
        TRACKS(test_waits),
        PLANS(test_forecast),
        PLANS(test_forecast_of_a_call_that_goes_on),
        PLANS(test_forecast_without_a_call),
        PLANS(test_forecast_of_a_nonblocking_call),
        PLANS(test_missed_forecasts),
        PLANS(test_forecasts_of_a_reused_place),
        PLANS(test_overlapping_forecasts),
        PLANS(test_random_forecasts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
