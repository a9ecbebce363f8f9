/*
 * mrail top computes, filters and sorts the rows of rails from two samples of
 * the telemetry pages. No I/O.
 */
#ifndef MRAIL_TOOLS_TOP_ROWS_H
#define MRAIL_TOOLS_TOP_ROWS_H

#include "tools/pages.h"

/* Sort orders, in the order of TOP_ORDERS. */
typedef enum top_order {
    TOP_BY_RANK,
    TOP_BY_RATE,
    TOP_BY_STALLED,
    TOP_BY_IDLE,
    TOP_BY_OUTSTANDING,
    TOP_ORDER_NUM
} top_order_t;

#define TOP_ORDERS "rank|rate|stalled|idle|out"

/* Filters of the rows, or NULL. Names are fnmatch(3) patterns. */
typedef struct top_filter {
    const char *ranks; /* a valid list such as "0,4-7" */
    const char *program;
    const char *rail; /* "mlx5_*", or "mlx5_0:1" with the port */
} top_filter_t;

typedef struct top_figures {
    double bytes_per_s; /* over the interval; 0 with a single sample */
    double stalled;     /* mean fraction of the time for which its lanes were
                         * stalled */
    double idle;
    uint64_t outstanding; /* bytes */
} top_figures_t;

typedef struct top_row {
    const pages_item_t *item;
    const mrail_page_rail_t *rail;
    char device[48]; /* such as "mlx5_0:1" */
    top_figures_t figures;
    unsigned position; /* index before sorting */
} top_row_t;

/* `before` is an earlier sample of the same process, or NULL. */
top_figures_t top_figures(const mrail_page_t *before, const mrail_page_t *now,
                          unsigned rail);

int top_filter_process(const top_filter_t *filter, const mrail_page_t *page);
int top_filter_rail(const top_filter_t *filter, const mrail_page_rail_t *rail);

/* Computes the rows of `now`. Rows are grouped by job, and sorted within a job
 * by rank or by descending value. Returns their number. The caller frees
 * *rows_p, which is NULL if there are none. Exits if memory runs out. */
unsigned top_rows(const pages_t *before, const pages_t *now,
                  const top_filter_t *filter, top_order_t order,
                  top_row_t **rows_p);

#endif
