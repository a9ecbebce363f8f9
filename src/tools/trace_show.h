/* mrail trace prints records and tables. */
#ifndef MRAIL_TOOLS_TRACE_SHOW_H
#define MRAIL_TOOLS_TRACE_SHOW_H

#include "base/json.h"
#include "tools/pages.h"
#include "tools/trace_table.h"

#include <stdio.h>

/* A process and its records of one interval. */
typedef struct trace_process {
    const mrail_page_t *page;
    const char *host; /* in an archive; NULL for this machine */
    int alive;
    trace_table_t table;
    double elapsed_s; /* time that the records cover */
    uint64_t missed;  /* records that were overwritten before they were read */
    uint64_t invalid; /* records that were dropped */
} trace_process_t;

/* Prints a row for each lane and kind of record. trace_table_finish() must have
 * been called. */
void trace_table_print(FILE *stream, const trace_process_t *processes,
                       unsigned count);

/* Prints how many records are missing, if any. */
void trace_notes_print(FILE *stream, const trace_process_t *processes,
                       unsigned count);

/* Prints the rows of trace_table_print() as one JSON object on one line. */
void trace_table_json(FILE *stream, const trace_process_t *processes,
                      unsigned count, double interval_s);

/* Prints one record, as text or as a JSON object on one line. `host` is NULL
 * for this machine. */
void trace_record_print(FILE *stream, const mrail_page_t *page,
                        const char *host, const mrail_ring_record_t *record);
void trace_record_json(FILE *stream, const mrail_page_t *page, const char *host,
                       const mrail_ring_record_t *record);

#endif
