/* Tests mrail exporter (src/tools/exporter_*.c): the text of a scrape, and the
 * selection of processes, from artificial telemetry pages. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rail/state/engine.h"
#include "tools/exporter.h"

#define PROCESSES 6u
#define SECOND 1000000000ull
#define NOW (1000 * SECOND)

typedef struct fixture {
    mrail_page_t *pages;
    pages_item_t items[PROCESSES];
    pages_t all;
    exporter_limits_t limits;
    exporter_view_t view;
    char *text;
} fixture_t;

/* Two jobs of three ranks. Each rank has two rails with one lane each. */
static void fill(mrail_page_t *page, unsigned i)
{
    page->head.pid = 100 + i;
    page->start_ns = (10 + i) * SECOND;
    page->update_ns = NOW - SECOND / 2;
    page->rank = (int)(i % 3);
    snprintf(page->job, sizeof(page->job), "job%u", i / 3);
    snprintf(page->program, sizeof(page->program), "app");
    page->num_rails = page->num_lanes = 2;
    page->num_counters = 1;
    snprintf(page->counters[0].name, sizeof(page->counters[0].name),
             "lanes_failed");
    page->counters[0].value = 7 + i;
    for (unsigned r = 0; r < 2; ++r) {
        snprintf(page->rails[r].device, sizeof(page->rails[r].device),
                 "mlx5_%u", r);
        page->rails[r].port = 1;
        page->rails[r].num_lanes = 1;
        page->rails[r].bytes = UINT64_MAX - r;
        page->rails[r].stalled_ns = SECOND + r;
        page->rails[r].is_down = r;
        page->rails[r].live_out = r;
        page->rails[r].work_out = (mrail_page_work_t){10, SECOND, 12, 13};
        page->rails[r].work_in = (mrail_page_work_t){20, 21, 22, 2 * SECOND};
        page->lanes[r].rail = r;
        page->lanes[r].peer = 0xabc;
        page->lanes[r].slot = (uint16_t)r;
        page->lanes[r].outstanding = 40 + r;
        snprintf(page->lanes[r].state, sizeof(page->lanes[r].state), "%s",
                 (r == 0) ? "up" : "suspect");
    }
}

static int set_up(void **state)
{
    fixture_t *f = calloc(1, sizeof(*f));

    f->pages = calloc(PROCESSES, sizeof(*f->pages));
    for (unsigned i = 0; i < PROCESSES; ++i) {
        fill(&f->pages[i], i);
        f->items[i] = (pages_item_t){&f->pages[i], 1, -1};
    }
    f->all = (pages_t){.items = f->items, .count = PROCESSES};
    f->limits = (exporter_limits_t){10, 10, 300 * SECOND};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture_t *f = *state;

    exporter_selection_cleanup(&f->view.selection);
    free(f->text);
    free(f->pages);
    free(f);
    return 0;
}

/* Formats the fixture's pages. */
static const char *text_as(fixture_t *f, exporter_format_t format)
{
    size_t size;
    FILE *stream;

    free(f->text);
    f->text = NULL;
    exporter_selection_cleanup(&f->view.selection);
    assert_int_equal(
        exporter_select(&f->all, &f->limits, NOW, &f->view.selection), 0);
    stream = open_memstream(&f->text, &size);
    assert_int_equal(exporter_text(stream, &f->view, format), 0);
    fclose(stream);
    return f->text;
}

static const char *text_of(fixture_t *f)
{
    return text_as(f, EXPORTER_PLAIN);
}

static void has(const char *text, const char *line)
{
    const char *found = strstr(text, line);
    size_t length = strlen(line);

    if ((found == NULL) || (found[length] != '\n') ||
        ((found != text) && (found[-1] != '\n'))) {
        fail_msg("no line '%s'", line);
    }
}

static void lacks(const char *text, const char *part)
{
    if (strstr(text, part) != NULL) {
        fail_msg("there is '%s'", part);
    }
}

static unsigned count(const char *text, const char *part)
{
    unsigned number = 0;

    while ((text = strstr(text, part)) != NULL) {
        ++number;
        ++text;
    }
    return number;
}

/* ---- samples ---- */

static void test_samples(void **state)
{
    static const char *const work[][2] = {
        {"send_chunk_bytes", "10"},    {"send_busy_seconds", "1.000000000"},
        {"send_chunks", "12"},         {"send_chunk_seconds", "0.000000013"},
        {"receive_chunk_bytes", "20"}, {"receive_busy_seconds", "0.000000021"},
        {"receive_chunks", "22"},      {"receive_chunk_seconds", "2.000000000"},
    };
    fixture_t *f = *state;
    const char *text = text_of(f);

    has(text, "# TYPE mrail_rail_bytes_total counter");
    has(text, "mrail_rail_bytes_total{mpi_job=\"job0\",rank=\"1\",pid=\"101\","
              "rail=\"mlx5_0:1\"} 18446744073709551615");
    has(text, "mrail_rail_stalled_seconds_total{mpi_job=\"job1\",rank=\"0\","
              "pid=\"103\",rail=\"mlx5_1:1\"} 1.000000001");
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(work); ++i) {
        char line[160];

        snprintf(line, sizeof(line),
                 "mrail_rail_%s_total{mpi_job=\"job1\",rank=\"0\","
                 "pid=\"103\",rail=\"mlx5_1:1\"} %s",
                 work[i][0], work[i][1]);
        has(text, line);
    }
    has(text, "mrail_rail_up{mpi_job=\"job1\",rank=\"2\",pid=\"105\","
              "rail=\"mlx5_1:1\"} 0");
    has(text, "mrail_rail_paths_not_up{mpi_job=\"job0\",rank=\"0\","
              "pid=\"100\",rail=\"mlx5_1:1\"} 1");
    has(text, "mrail_rail_in_flight_bytes{mpi_job=\"job0\",rank=\"0\","
              "pid=\"100\",rail=\"mlx5_1:1\"} 41");
    has(text, "mrail_lane_failovers_total{mpi_job=\"job1\",rank=\"0\","
              "pid=\"103\"} 10");
    has(text, "mrail_process_info{mpi_job=\"job0\",rank=\"0\",pid=\"100\","
              "program=\"app\"} 1");
    has(text, "mrail_process_start_time_seconds{mpi_job=\"job0\",rank=\"0\","
              "pid=\"100\"} 10.000000000");
    has(text, "mrail_exporter_processes 6");
    has(text, "mrail_exporter_jobs 2");
    has(text, "mrail_exporter_build_info{version=\"" PACKAGE_VERSION "\"} 1");
    /* An unknown bandwidth has no sample. */
    lacks(text, "send_bandwidth_bytes_per_second{mpi_job=\"job0\",rank=\"0\","
                "pid=\"100\",rail=\"mlx5_0:1\"}");
    lacks(text, "mrail_process_mpi_call_seconds{");
    lacks(text, "mrail_lane_bytes_total");
    f->view.per_lane = 1;
    text = text_of(f);
    has(text, "mrail_lane_up{mpi_job=\"job0\",rank=\"0\",pid=\"100\","
              "rail=\"mlx5_1:1\",peer=\"0000000000000abc\",lane=\"1\"} 0");
    assert_int_equal(count(text, "\nmrail_lane_bytes_total{"), 2 * PROCESSES);
}

static void test_counts_of_files(void **state)
{
    fixture_t *f = *state;

    f->view.refused[MRAIL_PAGE_FOREIGN] = 2;
    f->view.refused[MRAIL_PAGE_OTHER] = 3;
    f->view.refused[MRAIL_PAGE_BROKEN] = 4;
    f->view.others = 5;
    has(text_of(f), "mrail_exporter_refused_files{reason=\"other_user\"} 7");
    has(f->text, "mrail_exporter_refused_files{reason=\"other_version\"} 3");
    has(f->text, "mrail_exporter_refused_files{reason=\"broken\"} 4");
}

static void test_process_without_job(void **state)
{
    fixture_t *f = *state;

    f->pages[0].job[0] = '\0';
    f->pages[0].rank = -1;
    has(text_of(f), "mrail_process_up{mpi_job=\"\",rank=\"\",pid=\"100\"} 1");
}

static void test_escaping(void **state)
{
    fixture_t *f = *state;
    char escaped[EXPORTER_ESCAPED(8)];

    snprintf(f->pages[0].job, sizeof(f->pages[0].job), "a\"b\\c");
    snprintf(f->pages[0].rails[0].device, 32, "%s", "\"} 1\\");
    has(text_of(f), "mrail_rail_lanes{mpi_job=\"a\\\"b\\\\c\",rank=\"0\","
                    "pid=\"100\",rail=\"\\\"} 1\\\\:1\"} 1");
    exporter_escape(escaped, "\n\"\\");
    assert_string_equal(escaped, "\\n\\\"\\\\");
    /* The longest texts fit. */
    memset(f->pages[0].job, '"', sizeof(f->pages[0].job) - 1);
    memset(f->pages[0].program, '\\', sizeof(f->pages[0].program) - 1);
    memset(f->pages[0].rails[0].device, '"',
           sizeof(f->pages[0].rails[0].device) - 1);
    f->pages[0].rails[0].port = UINT32_MAX;
    assert_int_equal(count(text_of(f), "\\\":4294967295\"}"), 16);
    assert_int_equal(count(f->text, "\\\\\"} 1\n"), 1);
}

static void test_openmetrics(void **state)
{
    fixture_t *f = *state;
    const char *text = text_as(f, EXPORTER_OPENMETRICS);

    has(text, "# TYPE mrail_rail_bytes counter");
    has(text, "# TYPE mrail_rail_lanes gauge");
    assert_true(count(text, "\nmrail_rail_bytes_total{") == 2 * PROCESSES);
    assert_string_equal(text + strlen(text) - 7, "\n# EOF\n");
    lacks(text_of(f), "# EOF");
    assert_int_equal(exporter_format(NULL), EXPORTER_PLAIN);
    assert_int_equal(exporter_format("text/plain"), EXPORTER_PLAIN);
    assert_int_equal(exporter_format("application/openmetrics-text; "
                                     "version=0.0.1,*/*"),
                     EXPORTER_OPENMETRICS);
}

/* ---- the table ---- */

static int ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), part = strlen(end);

    return (length >= part) && (strcmp(text + length - part, end) == 0);
}

/* prometheus.io/docs/practices/naming. */
static void test_names(void **state)
{
    for (unsigned i = 0; i < exporter_num_metrics; ++i) {
        const exporter_metric_t *metric = &exporter_metrics[i];

        assert_true(strncmp(metric->name, "mrail_", 6) == 0);
        assert_true(strspn(metric->name, "abcdefghijklmnopqrstuvwxyz_") ==
                    strlen(metric->name));
        assert_int_equal(ends_with(metric->name, "_total"),
                         metric->type == EXPORTER_COUNTER);
        assert_true(ends_with(metric->help, "."));
        assert_null(strpbrk(metric->help, "\\\n\""));
        assert_true((metric->value == NULL) != (metric->counter == NULL));
        for (unsigned k = 0; k < i; ++k) {
            assert_string_not_equal(metric->name, exporter_metrics[k].name);
        }
    }
}

/* Each counter of the transport must have a metric, and each metric must have
 * an existing counter. */
static void test_every_counter(void **state)
{
#define COUNTER_NAME(_name) #_name,
    static const char *const names[] = {MRAIL_COUNTERS(COUNTER_NAME)};
#undef COUNTER_NAME
    unsigned found = 0, metrics = 0;

    for (unsigned i = 0; i < exporter_num_metrics; ++i) {
        const char *counter = exporter_metrics[i].counter;

        metrics += (counter != NULL);
        for (unsigned k = 0; k < MRAIL_ARRAY_SIZE(names); ++k) {
            found += (counter != NULL) && (strcmp(counter, names[k]) == 0);
        }
    }
    assert_int_equal(found, MRAIL_ARRAY_SIZE(names));
    assert_int_equal(metrics, MRAIL_ARRAY_SIZE(names));
}

/* ---- selection ---- */

static void test_ended(void **state)
{
    fixture_t *f = *state;
    const char *text;

    f->items[1].alive = f->items[2].alive = 0;
    f->pages[1].update_ns = NOW - 299 * SECOND;
    f->pages[2].update_ns = NOW - 301 * SECOND;
    text = text_of(f);
    has(text, "mrail_process_up{mpi_job=\"job0\",rank=\"1\",pid=\"101\"} 0");
    has(text, "mrail_lane_failovers_total{mpi_job=\"job0\",rank=\"1\","
              "pid=\"101\"} 8");
    /* A process that has ended has no rails, so their state would be
     * misleading. */
    lacks(text, "mrail_rail_up{mpi_job=\"job0\",rank=\"1\"");
    lacks(text, "rank=\"2\",pid=\"102\"");
    has(text, "mrail_exporter_left_out_processes{reason=\"ended\"} 1");
    /* The clock was set, or the page is damaged. */
    f->pages[1].update_ns = UINT64_MAX;
    lacks(text_of(f), "pid=\"101\"");
    has(f->text, "mrail_exporter_left_out_processes{reason=\"ended\"} 2");
    f->limits.keep_ns = 0;
    f->pages[1].update_ns = NOW - SECOND;
    lacks(text_of(f), "pid=\"101\"");
}

static void test_limits(void **state)
{
    fixture_t *f = *state;

    f->limits.max_ranks = 2;
    lacks(text_of(f), "rank=\"2\"");
    has(f->text, "mrail_exporter_left_out_processes{reason=\"limit\"} 2");
    has(f->text, "mrail_exporter_left_out_jobs 0");
    f->limits = (exporter_limits_t){1, 10, 300 * SECOND};
    /* The job that started first is kept. */
    lacks(text_of(f), "job1");
    has(f->text, "mrail_exporter_left_out_jobs 1");
    has(f->text, "mrail_exporter_left_out_processes{reason=\"limit\"} 3");
    /* A job that has ended is dropped first. */
    f->items[0].alive = f->items[1].alive = f->items[2].alive = 0;
    lacks(text_of(f), "job0");
    has(f->text, "mrail_exporter_jobs 1");
    has(f->text, "mrail_process_up{mpi_job=\"job1\",rank=\"0\",pid=\"103\"} 1");
}

/* Prometheus rejects a scrape with duplicate series. */
static void test_equal_series(void **state)
{
    fixture_t *f = *state;

    f->pages[1].rank = 0; /* the same labels as process 0 */
    f->pages[1].head.pid = 100;
    f->pages[1].counters[0].value = 55;
    snprintf(f->pages[3].rails[1].device, 32, "mlx5_0");
    f->pages[4].lanes[1].slot = 0;
    f->view.per_lane = 1;
    has(text_of(f),
        "mrail_exporter_left_out_processes{reason=\"duplicate\"} 1");
    /* The process that started last counts. */
    has(f->text, "mrail_lane_failovers_total{mpi_job=\"job0\",rank=\"0\","
                 "pid=\"100\"} 55");
    assert_int_equal(count(f->text, "\nmrail_rail_up{mpi_job=\"job1\","
                                    "rank=\"0\""),
                     1);
    assert_int_equal(count(f->text, "\nmrail_lane_up{mpi_job=\"job1\","
                                    "rank=\"0\""),
                     1);
    assert_int_equal(count(f->text, "\nmrail_lane_up{mpi_job=\"job1\","
                                    "rank=\"1\""),
                     1);
}

static void test_no_process(void **state)
{
    fixture_t *f = *state;

    f->all.count = 0;
    has(text_of(f), "mrail_exporter_processes 0");
    has(f->text, "# TYPE mrail_rail_bytes_total counter");
    lacks(f->text, "\nmrail_rail_bytes_total{");
}

int main(void)
{
#define WITH_PAGES(_test)                                                      \
    cmocka_unit_test_setup_teardown(_test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_PAGES(test_samples),
        WITH_PAGES(test_counts_of_files),
        WITH_PAGES(test_process_without_job),
        WITH_PAGES(test_escaping),
        WITH_PAGES(test_openmetrics),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_every_counter),
        WITH_PAGES(test_ended),
        WITH_PAGES(test_limits),
        WITH_PAGES(test_equal_series),
        WITH_PAGES(test_no_process),
    };

    return cmocka_run_group_tests_name("exporter", tests, NULL, NULL);
}
