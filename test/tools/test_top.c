/* Tests mrail top (src/tools/top_rows.c and top_table.c): rows and screens
 * made from artificial telemetry pages. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "base/number.h"
#include "tools/top_show.h"

#define RANKS 6
#define SECOND 1000000000ull

typedef struct fixture {
    pages_item_t before_items[RANKS], items[RANKS];
    mrail_page_t *before_pages, *pages;
    pages_t before, now;
} fixture_t;

/* Fills in the page of rank r. There are two jobs of three ranks, and each rank
 * has two rails with one lane each. */
static void fill(mrail_page_t *page, unsigned r, int later)
{
    page->head.pid = 100 + r;
    page->start_ns = 7;
    page->update_ns = later ? 2 * SECOND : SECOND;
    page->rank = (int)(r % 3);
    snprintf(page->job, sizeof(page->job), "job%u", r / 3);
    snprintf(page->program, sizeof(page->program), "%s", (r == 4) ? "b" : "a");
    page->num_rails = 2;
    page->num_lanes = 2;
    for (unsigned i = 0; i < 2; ++i) {
        mrail_page_lane_t *lane = &page->lanes[i];

        snprintf(page->rails[i].device, sizeof(page->rails[i].device),
                 "mlx5_%u", i);
        page->rails[i].port = 1;
        page->rails[i].num_lanes = 1;
        page->rails[i].bytes = later ? 1000000ull * (10 * r + i) : 0;
        lane->rail = i;
        lane->peer = 1;
        lane->slot = (uint16_t)i;
        lane->outstanding = 5 - r;
        lane->sport = (uint16_t)(50000 + r);
        lane->moves = (uint16_t)(later ? 7 * i : 0);
        lane->stalled_ns = later ? SECOND / 10 * (r % 3 == 1 ? 9 : i) : 0;
        lane->idle_ns = later ? SECOND / 4 : 0;
    }
}

static int set_up(void **state)
{
    fixture_t *f = calloc(1, sizeof(*f));

    f->before_pages = calloc(RANKS, sizeof(*f->pages));
    f->pages = calloc(RANKS, sizeof(*f->pages));
    for (unsigned r = 0; r < RANKS; ++r) {
        fill(&f->before_pages[r], r, 0);
        fill(&f->pages[r], r, 1);
        f->before_items[r] = (pages_item_t){&f->before_pages[r], 1, -1};
        f->items[r] = (pages_item_t){&f->pages[r], r != 5, -1};
    }
    f->before = (pages_t){.items = f->before_items, .count = RANKS};
    f->now = (pages_t){.items = f->items, .count = RANKS};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture_t *f = *state;

    free(f->before_pages);
    free(f->pages);
    free(f);
    return 0;
}

/* Checks that the rows are in the order "PID.RAIL ...". */
static void check_rows(const fixture_t *f, top_filter_t filter,
                       top_order_t order, const char *want)
{
    char got[512] = "", *p = got;
    top_row_t *rows;
    unsigned num = top_rows(&f->before, &f->now, &filter, order, &rows);

    for (unsigned i = 0; i < num; ++i) {
        p += sprintf(p, "%s%u.%c", (i > 0) ? " " : "",
                     rows[i].item->page->head.pid, rows[i].device[5]);
    }
    assert_string_equal(got, want);
    free(rows);
}

static void test_orders(void **state)
{
    static const top_filter_t all = {NULL};

    check_rows(*state, all, TOP_BY_RANK,
               "100.0 100.1 101.0 101.1 102.0 102.1 "
               "103.0 103.1 104.0 104.1 105.0 105.1");
    check_rows(*state, all, TOP_BY_RATE,
               "102.1 102.0 101.1 101.0 100.1 100.0 "
               "105.1 105.0 104.1 104.0 103.1 103.0");
    check_rows(*state, all, TOP_BY_STALLED,
               "101.0 101.1 100.1 102.1 100.0 102.0 "
               "104.0 104.1 103.1 105.1 103.0 105.0");
    check_rows(*state, all, TOP_BY_IDLE,
               "100.0 100.1 101.0 101.1 102.0 102.1 "
               "103.0 103.1 104.0 104.1 105.0 105.1");
    check_rows(*state, all, TOP_BY_OUTSTANDING,
               "100.0 100.1 101.0 101.1 102.0 102.1 "
               "103.0 103.1 104.0 104.1 105.0 105.1");
}

static void test_filters(void **state)
{
    check_rows(*state, (top_filter_t){.ranks = "0,2-9"}, TOP_BY_RANK,
               "100.0 100.1 102.0 102.1 103.0 103.1 105.0 105.1");
    check_rows(*state, (top_filter_t){.rail = "mlx5_1"}, TOP_BY_RANK,
               "100.1 101.1 102.1 103.1 104.1 105.1");
    check_rows(*state, (top_filter_t){.rail = "*_0:1", .program = "b"},
               TOP_BY_RANK, "104.0");
    check_rows(*state, (top_filter_t){.program = "none*"}, TOP_BY_RATE, "");
}

static void test_figures(void **state)
{
    fixture_t *f = *state;
    top_figures_t figures = top_figures(&f->before_pages[2], &f->pages[2], 1);

    assert_true(figures.bytes_per_s == 21e6);
    assert_true(figures.stalled > 0.0999 && figures.stalled < 0.1001);
    assert_true(figures.idle > 0.2499 && figures.idle < 0.2501);
    assert_true(figures.outstanding == 3);
    /* Without an earlier sample, there is no rate. */
    figures = top_figures(NULL, &f->pages[2], 1);
    assert_true(figures.bytes_per_s == 0 && figures.stalled == 0);
}

/* On a small screen, the pages together show every row once, and no page is too
 * long. */
static void test_screens(void **state)
{
    static const top_filter_t all = {NULL};
    fixture_t *f = *state;

    for (unsigned lines = 1; lines < 40; ++lines) {
        unsigned rows = 0, pages = 0, page = 0, shown = 0;

        do {
            char *text = NULL;
            size_t size;
            FILE *stream = open_memstream(&text, &size);
            unsigned height = 1;

            shown = page;
            top_screenful(stream, &f->before, &f->now, &all, TOP_BY_RATE, lines,
                          &shown);
            fclose(stream);
            if (shown == page) {
                ++pages;
                for (const char *p = text; (p = strstr(p, "mlx5_")) != NULL;
                     ++p) {
                    ++rows;
                }
            }
            for (const char *p = text; (p = strchr(p, '\n')) != NULL; ++p) {
                ++height;
            }
            assert_true(height <= MRAIL_MAX(lines, 12u));
            assert_non_null(strstr(text, ", by rate;"));
            free(text);
        } while (shown == page++);
        assert_int_equal(rows, 2 * RANKS);
        assert_true(pages >= 1);
    }
}

static void test_table(void **state)
{
    fixture_t *f = *state;
    top_filter_t filter = {.ranks = "2"};
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    top_table(stream, &f->before, &f->now, &filter, TOP_BY_RANK);
    fclose(stream);
    assert_non_null(strstr(text, "job job0\nPROCESS "));
    assert_non_null(strstr(text, "\n\njob job1\nPROCESS "));
    assert_non_null(strstr(text, "rank 2 "));
    assert_non_null(strstr(text, "  ended\n"));
    assert_null(strstr(text, "rank 1 "));
    free(text);
}

/* One line per lane, with its source port and its number of moves. */
static void test_lanes(void **state)
{
    fixture_t *f = *state;
    top_filter_t filter = {.ranks = "1", .rail = "mlx5_1"};
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    f->pages[1].more_lanes = 3;
    top_lanes(stream, &f->now, &filter);
    fclose(stream);
    assert_string_equal(
        text,
        "job job0\n"
        "PROCESS         PID PEER             LANE RAIL         SPORT MOVES     "
        "MB/S       OUT  STATE\n"
        "rank 1          101 0000000000000001    1 mlx5_1:1     50001     7     "
        " 0.0         4  \n"
        "\n"
        "job job1\n"
        "PROCESS         PID PEER             LANE RAIL         SPORT MOVES     "
        "MB/S       OUT  STATE\n"
        "rank 1          104 0000000000000001    1 mlx5_1:1     50004     7     "
        " 0.0         1  \n"
        "3 more lanes are not in the pages\n");
    free(text);
}

static void test_rank_lists(void **state)
{
    assert_int_equal(mrail_number_in_list("0,4-7", 0), 1);
    assert_int_equal(mrail_number_in_list("0,4-7", 3), 0);
    assert_int_equal(mrail_number_in_list("0,4-7", 7), 1);
    assert_int_equal(mrail_number_in_list("0,4-7", 8), 0);
    assert_int_equal(mrail_number_in_list("7-4", 5), -EINVAL);
    assert_int_equal(mrail_number_in_list("", 5), -EINVAL);
    assert_int_equal(mrail_number_in_list("1,", 1), -EINVAL);
    assert_int_equal(mrail_number_in_list("1-", 1), -EINVAL);
    assert_int_equal(mrail_number_in_list("1x", 1), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_orders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_filters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_figures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_screens, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_table, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lanes, set_up, tear_down),
        cmocka_unit_test(test_rank_lists),
    };

    return cmocka_run_group_tests_name("top", tests, NULL, NULL);
}
