/* mrail top: what it prints. */
#ifndef MRAIL_TOOLS_TOP_SHOW_H
#define MRAIL_TOOLS_TOP_SHOW_H

#include "tools/top_rows.h"

#include <stdio.h>

/* Jobs one after the other, each with a line of titles, then the last events. */
void top_table(FILE *stream, const pages_t *before, const pages_t *now,
               const top_filter_t *filter, top_order_t order);

/* One screen of `lines` lines: titles, rows of page *page_p (from 0; brought into
 * range), the last events, and a line that names the keys. */
void top_screenful(FILE *stream, const pages_t *before, const pages_t *now,
                   const top_filter_t *filter, top_order_t order,
                   unsigned lines, unsigned *page_p);

/* The word of an order, as --sort takes it. */
const char *top_order_text(top_order_t order, char text[16]);

/* One object on one line, on stdout. */
void top_json(const pages_t *before, const pages_t *now,
              const top_filter_t *filter);

#endif
