/*
 * mrail trace computes the figures of a process's lanes from the records of its
 * trace ring, with one row for each lane and kind of record. No I/O.
 */
#ifndef MRAIL_TOOLS_TRACE_TABLE_H
#define MRAIL_TOOLS_TRACE_TABLE_H

#include "telemetry/ring.h"
#include "telemetry/window.h"

/*
 * A histogram of times, in buckets at most 1/32 as wide as their values. It
 * needs the same memory for any number of records. Times are limited to 2^40 ns
 * (18 minutes). Source: the buckets are those of HdrHistogram.
 */
#define TRACE_SUB_BITS 5u
#define TRACE_MAX_BITS 40u
#define TRACE_BUCKETS ((TRACE_MAX_BITS - TRACE_SUB_BITS + 1) << TRACE_SUB_BITS)

typedef struct trace_times {
    uint64_t count;
    uint64_t max_ns;
    uint32_t buckets[TRACE_BUCKETS];
} trace_times_t;

void trace_times_add(trace_times_t *times, uint64_t ns);

/* Returns a percentile: the time that the given fraction of the records does
 * not exceed, 0 < part_ppm <= 1000000. The result is at least the exact value,
 * and at most 1/32 more. It is 0 if there are no records. */
uint64_t trace_times_percentile(const trace_times_t *times, uint32_t part_ppm);

typedef struct trace_row {
    uint64_t peer;
    unsigned lane;
    unsigned rail;
    mrail_ring_kind_t kind;
    uint64_t records;
    uint64_t failed;
    uint64_t messages; /* `count` of the records */
    uint64_t bytes;    /* bytes, excluding failed chunks */
    /* Lowest rate over MRAIL_TELE_WINDOW consecutive chunks, in bytes per
     * second; 0 if unknown. */
    uint64_t low;
    mrail_tele_window_t window;
    trace_times_t times;
} trace_row_t;

/* All zero: empty. */
typedef struct trace_table {
    trace_row_t **rows;
    unsigned count;
    uint32_t *slots; /* hash table: index in `rows` plus 1; 0 if free */
    unsigned num_slots;
    uint64_t first_ns; /* earliest post; 0: no record */
    uint64_t last_ns;  /* latest completion */
} trace_table_t;

/* Adds a record. Returns 0, or -ENOMEM with the table unchanged. */
int trace_table_add(trace_table_t *table, const mrail_ring_record_t *record);

/* Ends an interval: completes `low`, and sorts the rows by rail, lane, peer and
 * kind. Records may be added only after trace_table_clear(). */
void trace_table_finish(trace_table_t *table);

/* Removes all rows. */
void trace_table_clear(trace_table_t *table);

#endif
