#include "config.h"
#include "tools/top_rows.h"

#include "base/clock.h"
#include "base/util.h"
#include "base/number.h"
#include "tools/tool.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Comparing two samples ---- */

static const mrail_page_lane_t *find_lane(const mrail_page_t *page,
                                          const mrail_page_lane_t *lane)
{
    for (unsigned i = 0; i < page->num_lanes; ++i) {
        const mrail_page_lane_t *other = &page->lanes[i];

        if ((other->peer == lane->peer) && (other->slot == lane->slot)) {
            return other;
        }
    }
    return NULL;
}

/* Returns the increase of a counter, which may have been reset. */
static double increase(uint64_t before, uint64_t now)
{
    return (now > before) ? (double)(now - before) : 0;
}

top_figures_t top_figures(const mrail_page_t *before, const mrail_page_t *now,
                          unsigned rail)
{
    double elapsed_ns =
        (before != NULL) ? increase(before->update_ns, now->update_ns) : 0;
    top_figures_t figures = {0};
    unsigned lanes = 0;

    for (unsigned i = 0; i < now->num_lanes; ++i) {
        const mrail_page_lane_t *lane = &now->lanes[i];
        const mrail_page_lane_t *old =
            (before != NULL) ? find_lane(before, lane) : NULL;

        if (lane->rail != rail) {
            continue;
        }
        figures.outstanding += lane->outstanding;
        if (old != NULL) {
            ++lanes;
            figures.stalled += increase(old->stalled_ns, lane->stalled_ns);
            figures.idle += increase(old->idle_ns, lane->idle_ns);
        }
    }
    if (elapsed_ns > 0) {
        figures.bytes_per_s =
            increase(before->rails[rail].bytes, now->rails[rail].bytes) *
            MRAIL_NS_PER_SEC / elapsed_ns;
        figures.stalled /= elapsed_ns * MRAIL_MAX(lanes, 1u);
        figures.idle /= elapsed_ns * MRAIL_MAX(lanes, 1u);
    }
    return figures;
}

/* ---- Filters ---- */

int top_filter_process(const top_filter_t *filter, const mrail_page_t *page)
{
    if ((filter->program != NULL) &&
        (fnmatch(filter->program, page->program, 0) != 0)) {
        return 0;
    }
    return (filter->ranks == NULL) ||
           ((page->rank >= 0) &&
            (mrail_number_in_list(filter->ranks, (uint64_t)page->rank) == 1));
}

static void name_device(const mrail_page_rail_t *rail, char *text, size_t size)
{
    snprintf(text, size, "%s:%u", rail->device, rail->port);
}

int top_filter_rail(const top_filter_t *filter, const mrail_page_rail_t *rail)
{
    char device[48];

    name_device(rail, device, sizeof(device));
    return (filter->rail == NULL) ||
           (fnmatch(filter->rail, rail->device, 0) == 0) ||
           (fnmatch(filter->rail, device, 0) == 0);
}

/* ---- Order ---- */

static int same_job(const top_row_t *x, const top_row_t *y)
{
    return strcmp(x->item->page->job, y->item->page->job) == 0;
}

/* Sorts by descending value. Rows with equal values keep their order. */
static int by_value(const top_row_t *x, const top_row_t *y, double a, double b)
{
    if (!same_job(x, y) || (a == b)) {
        return (x->position > y->position) - (x->position < y->position);
    }
    return (a < b) ? 1 : -1;
}

static int by_rate(const void *a, const void *b)
{
    const top_row_t *x = a, *y = b;

    return by_value(x, y, x->figures.bytes_per_s, y->figures.bytes_per_s);
}

static int by_stalled(const void *a, const void *b)
{
    const top_row_t *x = a, *y = b;

    return by_value(x, y, x->figures.stalled, y->figures.stalled);
}

static int by_idle(const void *a, const void *b)
{
    const top_row_t *x = a, *y = b;

    return by_value(x, y, x->figures.idle, y->figures.idle);
}

static int by_outstanding(const void *a, const void *b)
{
    const top_row_t *x = a, *y = b;

    return by_value(x, y, (double)x->figures.outstanding,
                    (double)y->figures.outstanding);
}

typedef int (*order_func_t)(const void *a, const void *b);

/* The pages are already sorted by job and rank. */
static const order_func_t orders[TOP_ORDER_NUM] = {
    [TOP_BY_RANK] = NULL,
    [TOP_BY_RATE] = by_rate,
    [TOP_BY_STALLED] = by_stalled,
    [TOP_BY_IDLE] = by_idle,
    [TOP_BY_OUTSTANDING] = by_outstanding};

/* ---- Rows ---- */

static size_t count_rails(const pages_t *pages)
{
    size_t count = 0;

    for (unsigned i = 0; i < pages->count; ++i) {
        count += pages->items[i].page->num_rails;
    }
    return count;
}

unsigned top_rows(const pages_t *before, const pages_t *now,
                  const top_filter_t *filter, top_order_t order,
                  top_row_t **rows_p)
{
    top_row_t *rows = calloc(count_rails(now) + 1, sizeof(*rows));
    unsigned num = 0;

    if (rows == NULL) {
        mrail_tool_fail("top", "out of memory");
    }
    for (unsigned i = 0; i < now->count; ++i) {
        const pages_item_t *item = &now->items[i];
        const mrail_page_t *old = pages_find(before, item->page);

        for (unsigned r = 0; (r < item->page->num_rails) &&
                             top_filter_process(filter, item->page);
             ++r) {
            const mrail_page_rail_t *rail = &item->page->rails[r];

            if (top_filter_rail(filter, rail)) {
                rows[num] =
                    (top_row_t){.item = item,
                                .rail = rail,
                                .figures = top_figures(old, item->page, r),
                                .position = num};
                name_device(rail, rows[num].device, sizeof(rows[num].device));
                ++num;
            }
        }
    }
    if (orders[order] != NULL) {
        qsort(rows, num, sizeof(*rows), orders[order]);
    }
    *rows_p = rows;
    return num;
}
