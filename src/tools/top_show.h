/* mrail top shows rows and lanes in several formats. */
#ifndef MRAIL_TOOLS_TOP_SHOW_H
#define MRAIL_TOOLS_TOP_SHOW_H

#include "tools/top_rows.h"

#include <stdio.h>

/* Prints the rows grouped by job with a header for each job, then the last
 * events. */
void top_table(FILE *stream, const pages_t *before, const pages_t *now,
               const top_filter_t *filter, top_order_t order);

/* Prints the lanes grouped by job with a header for each job. */
void top_lanes(FILE *stream, const pages_t *now, const top_filter_t *filter);

/* Prints one screen of `lines` lines: headers, the rows of page *page_p (from
 * 0; adjusted to the valid range), the last events, and a line that lists the
 * keys. */
void top_screenful(FILE *stream, const pages_t *before, const pages_t *now,
                   const top_filter_t *filter, top_order_t order,
                   unsigned lines, unsigned *page_p);

/* Returns the name of an order, as in --sort. */
const char *top_order_text(top_order_t order, char text[16]);

/* Prints one object on one line to stdout. */
void top_json(const pages_t *before, const pages_t *now,
              const top_filter_t *filter);

#endif
