/*
 * mrail top: the rails that it shows, as rows: what two samples of the telemetry
 * pages tell, filtered and sorted. No I/O.
 */
#ifndef MRAIL_TOOLS_TOP_ROWS_H
#define MRAIL_TOOLS_TOP_ROWS_H

#include "tools/pages.h"

/* In the order of the words of TOP_ORDERS. */
typedef enum top_order {
    TOP_BY_RANK,
    TOP_BY_RATE,
    TOP_BY_STALLED,
    TOP_BY_IDLE,
    TOP_BY_OUTSTANDING,
    TOP_ORDER_NUM
} top_order_t;

#define TOP_ORDERS "rank|rate|stalled|idle|out"

/* NULL: all. Names are patterns of fnmatch(3). */
typedef struct top_filter {
    const char *ranks; /* "0,4-7"; a valid list */
    const char *program;
    const char *rail; /* "mlx5_*", or "mlx5_0:1" with its port */
} top_filter_t;

typedef struct top_figures {
    double bytes_per_s; /* over the interval; 0 if there is one sample only */
    double stalled;     /* mean fraction of its lanes' time */
    double idle;
    uint64_t outstanding; /* bytes */
} top_figures_t;

typedef struct top_row {
    const pages_item_t *item;
    const mrail_page_rail_t *rail;
    char device[48]; /* "mlx5_0:1" */
    top_figures_t figures;
    unsigned position; /* before it was sorted */
} top_row_t;

/* `before`: NULL or an earlier sample of the same process. */
top_figures_t top_figures(const mrail_page_t *before, const mrail_page_t *now,
                          unsigned rail);

int top_filter_process(const top_filter_t *filter, const mrail_page_t *page);
int top_filter_rail(const top_filter_t *filter, const mrail_page_rail_t *rail);

/* The rows of `now`, jobs together, within a job by `order`: by rank, or with the
 * largest value first. How many; *rows_p is the caller's to free, NULL if there is
 * none. Out of memory ends the process. */
unsigned top_rows(const pages_t *before, const pages_t *now,
                  const top_filter_t *filter, top_order_t order,
                  top_row_t **rows_p);

#endif
