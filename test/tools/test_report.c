/* Tests mrail report (src/tools/report_*.c): the data that it collects from
 * telemetry pages. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "report_job.h"

typedef struct fixture {
    report_model_t model;
    mrail_page_t page;
    mrail_calls_t calls;
} fixture_t;

static int set_up(void **state)
{
    fixture_t *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    report_init(&f->model, "job", JOB_START, SECOND / 2);
    job_page(&f->page, 0, 2);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture_t *f = *state;

    report_cleanup(&f->model);
    free(f);
    return 0;
}

static report_process_t *add(fixture_t *f, uint64_t id)
{
    report_process_t *process =
        report_add(&f->model, id, &f->page, REPORT_RUNNING, f->page.update_ns);

    assert_non_null(process);
    return process;
}

static void sample(fixture_t *f, report_process_t *process)
{
    assert_int_equal(
        report_sample(&f->model, process, &f->page, f->page.update_ns), 0);
}

static uint64_t sum_of(const report_series_t *series)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < REPORT_POINTS; ++i) {
        sum += series->bytes[i];
    }
    return sum;
}

/* ---- series ---- */

static void test_spread(void **state)
{
    fixture_t *f = *state;
    report_grid_t *grid = &f->model.grid;
    report_series_t *series = report_grid_add(grid);

    /* 0.25 s to 1.25 s: 1/4, 1/2 and 1/4 of the bytes */
    report_series_add(grid, series, JOB_START + SECOND / 4,
                      JOB_START + SECOND * 5 / 4, 1000);
    assert_int_equal(grid->count, 3);
    assert_int_equal(series->bytes[0], 250);
    assert_int_equal(series->bytes[1], 500);
    assert_int_equal(series->bytes[2], 250);
    /* the end of a period is not part of the next interval */
    report_series_add(grid, series, JOB_START + SECOND,
                      JOB_START + SECOND * 3 / 2, 7);
    assert_int_equal(grid->count, 3);
    assert_int_equal(series->bytes[2], 257);
}

static void test_times_before_the_origin(void **state)
{
    fixture_t *f = *state;
    report_grid_t *grid = &f->model.grid;
    report_series_t *series = report_grid_add(grid);

    report_series_add(grid, series, 5, JOB_START - 5, 100);
    report_series_add(grid, series, JOB_START + 9, JOB_START + 9, 100);
    report_series_add(grid, series, JOB_START + 9, JOB_START + 3, 100);
    assert_int_equal(grid->count, 1);
    assert_int_equal(series->bytes[0], 300);
}

/* No byte is lost, and memory use is constant. */
static void test_no_byte_is_lost(void **state)
{
    fixture_t *f = *state;
    report_grid_t *grid = &f->model.grid;
    report_series_t *series[2] = {report_grid_add(grid), report_grid_add(grid)};
    uint64_t sums[2] = {0}, now_ns = JOB_START;
    mrail_rng_t rng;

    mrail_rng_init(&rng, 1);
    for (unsigned i = 0; i < 20000; ++i) {
        unsigned which = (unsigned)(mrail_rng_next(&rng) % 2);
        uint64_t bytes = mrail_rng_next(&rng) >> (20 + i % 40);
        uint64_t from_ns = now_ns;

        now_ns += mrail_rng_next(&rng) % (3 * SECOND);
        report_series_add(grid, series[which], from_ns, now_ns, bytes);
        sums[which] += bytes;
    }
    assert_int_equal(sum_of(series[0]), sums[0]);
    assert_int_equal(sum_of(series[1]), sums[1]);
    assert_in_range(grid->count, REPORT_POINTS / 2, REPORT_POINTS);
    assert_true(grid->until_ns == now_ns);
}

static void test_wide_intervals_stay_down(void **state)
{
    fixture_t *f = *state;
    report_grid_t *grid = &f->model.grid;
    report_series_t *series = report_grid_add(grid);

    report_series_mark(grid, series, JOB_START + 10 * SECOND,
                       JOB_START + 11 * SECOND);
    report_grid_cover(grid, JOB_START + 500 * SECOND); /* 1 s each */
    assert_int_equal(grid->count, 500);
    for (unsigned i = 0; i < REPORT_POINTS; ++i) {
        assert_int_equal(series->down[i], i == 10);
    }
}

/* A damaged page may contain any time. */
static void test_absurd_times(void **state)
{
    fixture_t *f = *state;
    report_process_t *process = add(f, 1);

    f->page.update_ns = UINT64_MAX;
    f->page.rails[0].bytes = 50;
    assert_int_equal(
        report_sample(&f->model, process, &f->page, JOB_START + SECOND), 0);
    assert_int_equal(f->model.grid.count, 2);
    report_grid_cover(&f->model.grid, UINT64_MAX);
    assert_in_range(f->model.grid.count, 1, REPORT_POINTS);
    assert_int_equal(sum_of(process->rails[0].series), 50);
}

/* ---- pages ---- */

static void test_before_the_recording(void **state)
{
    fixture_t *f = *state;
    report_process_t *process;

    f->page.start_ns = JOB_START - 5 * SECOND;
    f->page.rails[0].bytes = 1000;
    process = add(f, 1);
    f->page.update_ns += SECOND;
    f->page.rails[0].bytes = 1300;
    sample(f, process);
    assert_int_equal(process->rails[0].before, 1000);
    assert_int_equal(process->rails[0].bytes, 1300);
    assert_int_equal(sum_of(process->rails[0].series), 300);
}

/* If a process starts during the recording, all of its bytes are in its
 * series. */
static void test_later_process(void **state)
{
    fixture_t *f = *state;
    report_process_t *process;

    f->page.start_ns = JOB_START + 2 * SECOND;
    f->page.update_ns = JOB_START + 3 * SECOND;
    f->page.rails[1].bytes = 80;
    process = add(f, 1);
    assert_int_equal(process->rails[1].before, 0);
    assert_int_equal(process->rails[1].series->bytes[3], 0);
    assert_int_equal(process->rails[1].series->bytes[4], 40);
    assert_int_equal(process->rails[1].series->bytes[5], 40);
}

/* A clock that was set back does not move bytes into the series. */
static void test_start_in_the_future(void **state)
{
    fixture_t *f = *state;
    report_process_t *process;

    f->page.start_ns = JOB_START + 3600 * SECOND;
    f->page.update_ns = JOB_START + 3700 * SECOND;
    f->page.rails[0].bytes = 80;
    process =
        report_add(&f->model, 1, &f->page, REPORT_KILLED, JOB_START + SECOND);
    assert_non_null(process);
    assert_int_equal(process->rails[0].before, 80);
    assert_int_equal(sum_of(process->rails[0].series), 0);
}

static void test_smaller_bytes_count_as_none(void **state)
{
    fixture_t *f = *state;
    report_process_t *process = add(f, 1);

    f->page.update_ns += SECOND;
    f->page.rails[0].bytes = 100;
    sample(f, process);
    f->page.update_ns += SECOND;
    f->page.rails[0].bytes = 60;
    sample(f, process);
    assert_int_equal(sum_of(process->rails[0].series), 100);
}

static void test_down(void **state)
{
    fixture_t *f = *state;
    report_process_t *process = add(f, 1);

    for (unsigned i = 1; i <= 6; ++i) {
        f->page.update_ns += SECOND / 2;
        f->page.rails[1].is_down = (i == 3) || (i == 4);
        sample(f, process);
    }
    for (unsigned i = 0; i < 6; ++i) {
        assert_int_equal(process->rails[0].series->down[i], 0);
        assert_int_equal(process->rails[1].series->down[i],
                         (i == 2) || (i == 3));
    }
}

/* ---- records ---- */

static void test_records(void **state)
{
    fixture_t *f = *state;
    report_process_t *process;
    mrail_ring_record_t record = {.post_ns = SECOND,
                                  .done_ns = 2 * SECOND,
                                  .length = 600,
                                  .rail = 1,
                                  .kind = MRAIL_RING_GET};

    f->page.start_ns = JOB_START - SECOND;
    f->page.rails[1].bytes = 1000;
    process = add(f, 1);
    report_record(&f->model, process, &record, JOB_START);
    assert_int_equal(process->rails[1].before, 400);
    assert_int_equal(sum_of(process->rails[1].series), 600);
    assert_int_equal(process->rails[1].series->bytes[2], 300);
    record.kind |= MRAIL_RING_FAILED; /* another lane replays it */
    report_record(&f->model, process, &record, JOB_START);
    record.kind = MRAIL_RING_PUT;
    record.rail = 200;
    report_record(&f->model, process, &record, JOB_START);
    assert_int_equal(sum_of(process->rails[1].series), 600);
    record.rail = 1; /* the page is older than the record */
    report_record(&f->model, process, &record, JOB_START);
    assert_int_equal(process->rails[1].before, 0);
    assert_int_equal(process->rails[1].bytes, 1200);
}

/* The two samples of an archive show the bytes between them. */
static void test_earlier_sample(void **state)
{
    fixture_t *f = *state;
    mrail_page_t *earlier = calloc(1, sizeof(*earlier));
    report_process_t *process;

    assert_non_null(earlier);
    f->page.start_ns = JOB_START - SECOND;
    f->page.rails[0].bytes = 1000;
    f->page.rails[1].bytes = 700;
    *earlier = f->page;
    f->page.rails[0].bytes = 1600;
    f->page.update_ns += SECOND;
    process = add(f, 1);
    assert_int_equal(process->rails[0].before, 1600);
    earlier->rails[1].bytes = 900; /* cannot be */
    report_earlier(&f->model, process, earlier);
    assert_int_equal(process->rails[0].before, 1000);
    assert_int_equal(process->rails[0].bytes, 1600);
    assert_int_equal(process->rails[0].series->bytes[0], 300);
    assert_int_equal(process->rails[0].series->bytes[1], 300);
    assert_int_equal(process->rails[1].before, 700);
    assert_int_equal(sum_of(process->rails[1].series), 0);
    free(earlier);
}

/* ---- events ---- */

static void test_kinds(void **state)
{
    static const struct {
        const char *text;
        report_kind_t kind;
        int rail, is_recovery;
        uint64_t peer;
    } cases[] = {
        {"mlx5_1: port error", REPORT_PORT, 1, 0, 0},
        {"mlx5_1: port active", REPORT_PORT, 1, 1, 0},
        {"mlx5_1:1: lane 3 to peer 00000000000017a4 closing (failed)",
         REPORT_LANE, 1, 0, 0x17a4},
        {"path 1 to peer 0000000000001000: up -> suspect (no completions)",
         REPORT_PATH, 1, 0, 0x1000},
        {"path 0 to peer 0000000000001000: probing -> up (reconnected)",
         REPORT_PATH, 0, 1, 0x1000},
        {"path 9 to peer 0000000000001000: up -> retired (probes lost)",
         REPORT_PATH, -1, 0, 0x1000},
        {"lane 1 to peer 0000000000001000: source port 5 -> 7 (shares its path)",
         REPORT_MOVE, 1, 1, 0x1000},
        {"peer 0000000000001000 is gone: it has shut down", REPORT_PEER, -1, 0,
         0x1000},
        {"something else", REPORT_OTHER, -1, 0, 0},
        {"", REPORT_OTHER, -1, 0, 0},
        {"mlx5_10: port error", REPORT_OTHER, -1, 0, 0}};
    fixture_t *f = *state;
    report_process_t *process = add(f, 1);

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(cases); ++i) {
        job_event(&f->page, JOB_START + i, cases[i].text);
    }
    sample(f, process);
    sample(f, process); /* nothing is counted twice */
    assert_int_equal(f->model.num_events, MRAIL_ARRAY_SIZE(cases));
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(cases); ++i) {
        const report_event_t *event = &f->model.events[i];

        if ((event->kind != cases[i].kind) || (event->rail != cases[i].rail) ||
            (event->is_recovery != cases[i].is_recovery) ||
            (event->peer != cases[i].peer)) {
            fail_msg("'%s': kind %d, rail %d, recovery %d", event->text,
                     event->kind, event->rail, event->is_recovery);
        }
    }
}

static void test_overwritten_events(void **state)
{
    fixture_t *f = *state;
    report_process_t *process = add(f, 1);

    for (unsigned i = 0; i < MRAIL_PAGE_EVENTS + 30; ++i) {
        job_event(&f->page, JOB_START + i, "something");
    }
    sample(f, process);
    assert_int_equal(f->model.events_missed, 30);
    assert_int_equal(f->model.num_events, MRAIL_PAGE_EVENTS);
    assert_int_equal(f->model.events[0].time_ns, JOB_START + 30);
}

/* Port events are kept, however many events there are. */
static void test_space_for_events(void **state)
{
    fixture_t *f = *state;
    report_process_t *process = add(f, 1);

    for (unsigned i = 0; i < REPORT_EVENTS + 100; ++i) {
        job_event(&f->page, JOB_START + i, "something");
        sample(f, process);
    }
    job_event(&f->page, JOB_START, "mlx5_0: port error");
    sample(f, process);
    assert_int_equal(f->model.events_left_out, 100);
    assert_int_equal(f->model.num_events, REPORT_EVENTS + 1);
    report_finish(&f->model, JOB_START + SECOND, REPORT_BY_JOB);
    for (unsigned i = 1; i < f->model.num_events; ++i) {
        assert_true(f->model.events[i - 1].time_ns <=
                    f->model.events[i].time_ns);
    }
}

/* ---- calls ---- */

/* A communicator's figures remain after it was freed. */
static void test_freed_communicator(void **state)
{
    fixture_t *f = *state;
    report_process_t *process = add(f, 1);

    job_calls(&f->calls, 0, 4, 10, 5 * SECOND, 6 * SECOND);
    assert_int_equal(report_calls(process, &f->calls), 0);
    f->calls.comms[0].id = 0;
    assert_int_equal(report_calls(process, &f->calls), 0);
    assert_int_equal(process->num_comms, 1);
    assert_int_equal(report_comm_of(process, 77)->entered, 10);
    for (unsigned i = 0; i < REPORT_COMMS; ++i) {
        f->calls.comms[1].id = 1000 + i;
        assert_int_equal(report_calls(process, &f->calls), 0);
    }
    assert_int_equal(process->num_comms, REPORT_COMMS);
    assert_int_equal(process->more_comms, 1);
}

static int slowest_of(fixture_t *f, const uint64_t *computed_s, unsigned count)
{
    report_facts_t facts;

    for (unsigned i = 0; i < count; ++i) {
        f->page.rank = (int)i;
        job_calls(&f->calls, (int)i, count, 10, computed_s[i] * SECOND,
                  (20 - computed_s[i]) * SECOND);
        assert_int_equal(report_calls(add(f, i + 1), &f->calls), 0);
    }
    report_finish(&f->model, JOB_START + 20 * SECOND, REPORT_BY_JOB);
    facts = report_facts(&f->model);
    return facts.slowest;
}

static void test_slowest(void **state)
{
    assert_int_equal(slowest_of(*state, (uint64_t[]){5, 5, 9, 6}, 4), 2);
}

static void test_none_is_slowest(void **state)
{
    assert_int_equal(slowest_of(*state, (uint64_t[]){5, 5, 6, 6}, 4), -1);
}

static void test_one_rank_is_not_slow(void **state)
{
    assert_int_equal(slowest_of(*state, (uint64_t[]){15}, 1), -1);
}

/* ---- plans ---- */

static void test_space_for_plans(void **state)
{
    static mrail_plans_t plans;
    fixture_t *f = *state;

    plans.comms[0].begun = plans.comms[3].begun = 2;
    plans.more_comms = 5;
    for (unsigned i = 0; i < REPORT_PLANS; ++i) {
        assert_int_equal(report_plans(&f->model, &plans), 0);
    }
    assert_int_equal(f->model.num_plans, REPORT_PLANS);
    assert_int_equal(f->model.more_plans, REPORT_PLANS * 5 + REPORT_PLANS);
}

#define TEST(_name) cmocka_unit_test_setup_teardown(_name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_spread),
        TEST(test_times_before_the_origin),
        TEST(test_no_byte_is_lost),
        TEST(test_wide_intervals_stay_down),
        TEST(test_absurd_times),
        TEST(test_before_the_recording),
        TEST(test_later_process),
        TEST(test_start_in_the_future),
        TEST(test_smaller_bytes_count_as_none),
        TEST(test_down),
        TEST(test_records),
        TEST(test_earlier_sample),
        TEST(test_kinds),
        TEST(test_overwritten_events),
        TEST(test_space_for_events),
        TEST(test_freed_communicator),
        TEST(test_slowest),
        TEST(test_none_is_slowest),
        TEST(test_one_rank_is_not_slow),
        TEST(test_space_for_plans),
    };

    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
