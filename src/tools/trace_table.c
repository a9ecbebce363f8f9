#include "config.h"
#include "tools/trace_table.h"

#include "base/grow.h"
#include "telemetry/capacity.h"

#include <errno.h>
#include <stdlib.h>

/* ---- times ---- */

#define SUB_BUCKETS (1u << TRACE_SUB_BITS)

/* Returns the bucket of a time. The first SUB_BUCKETS buckets are 1 ns wide.
 * Each following group of SUB_BUCKETS covers twice the range of the one before
 * it. */
static unsigned times_bucket(uint64_t ns)
{
    unsigned top;

    if (ns < SUB_BUCKETS) {
        return (unsigned)ns;
    }
    top = 63u - (unsigned)__builtin_clzll(ns);
    return ((top - TRACE_SUB_BITS) << TRACE_SUB_BITS) +
           (unsigned)(ns >> (top - TRACE_SUB_BITS));
}

/* Returns the largest time of a bucket. */
static uint64_t times_limit(unsigned bucket)
{
    unsigned shift;

    if (bucket < 2 * SUB_BUCKETS) {
        return bucket;
    }
    shift = (bucket >> TRACE_SUB_BITS) - 1;
    return (((uint64_t)SUB_BUCKETS + (bucket & (SUB_BUCKETS - 1)) + 1)
            << shift) -
           1;
}

void trace_times_add(trace_times_t *times, uint64_t ns)
{
    ns = MRAIL_MIN(ns, (1ull << TRACE_MAX_BITS) - 1);
    ++times->count;
    times->max_ns = MRAIL_MAX(times->max_ns, ns);
    ++times->buckets[times_bucket(ns)];
}

uint64_t trace_times_percentile(const trace_times_t *times, uint32_t part_ppm)
{
    /* rounded up, without overflow for any count */
    uint64_t rank = times->count / 1000000 * part_ppm +
                    (times->count % 1000000 * part_ppm + 999999) / 1000000;
    uint64_t sum = 0;

    for (unsigned i = 0; (i < TRACE_BUCKETS) && (times->count != 0); ++i) {
        sum += times->buckets[i];
        if (sum >= rank) {
            return MRAIL_MIN(times_limit(i), times->max_ns);
        }
    }
    return 0;
}

/* ---- rows ---- */

static int row_matches(const trace_row_t *row,
                       const mrail_ring_record_t *record)
{
    return (row->peer == record->peer) && (row->lane == record->lane) &&
           (row->rail == record->rail) &&
           (row->kind == mrail_ring_record_kind(record));
}

static uint64_t row_hash(uint64_t peer, unsigned lane, unsigned rail,
                         mrail_ring_kind_t kind)
{
    return mrail_mix64(peer ^ (uint64_t)lane << 32 ^ (uint64_t)rail << 40 ^
                       (uint64_t)kind << 48);
}

/* Returns the slot of the record's row, or the free slot for a new row. */
static uint32_t *table_find(const trace_table_t *table,
                            const mrail_ring_record_t *record)
{
    uint64_t at = row_hash(record->peer, record->lane, record->rail,
                           mrail_ring_record_kind(record));

    for (;; ++at) {
        uint32_t *slot = &table->slots[at & (table->num_slots - 1)];

        if ((*slot == 0) || row_matches(table->rows[*slot - 1], record)) {
            return slot;
        }
    }
}

/* Doubles the hash table, so that at least half of it is free. */
static int table_grow(trace_table_t *table)
{
    unsigned num_slots = MRAIL_MAX(2 * table->num_slots, 64u);
    uint32_t *slots = calloc(num_slots, sizeof(*slots));

    if (slots == NULL) {
        return -ENOMEM;
    }
    if (!mrail_grow(&table->rows, num_slots / 2, sizeof(*table->rows))) {
        free(slots);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < table->count; ++i) {
        const trace_row_t *row = table->rows[i];
        uint64_t at = row_hash(row->peer, row->lane, row->rail, row->kind);

        while (slots[at & (num_slots - 1)] != 0) {
            ++at;
        }
        slots[at & (num_slots - 1)] = i + 1;
    }
    free(table->slots);
    table->slots = slots;
    table->num_slots = num_slots;
    return 0;
}

/* Returns the record's row, which may be new, or NULL. */
static trace_row_t *table_row(trace_table_t *table,
                              const mrail_ring_record_t *record)
{
    trace_row_t *row;
    uint32_t *slot;

    if ((2 * table->count >= table->num_slots) && (table_grow(table) != 0)) {
        return NULL;
    }
    slot = table_find(table, record);
    if (*slot != 0) {
        return table->rows[*slot - 1];
    }
    row = calloc(1, sizeof(*row));
    if (row == NULL) {
        return NULL;
    }
    row->peer = record->peer;
    row->lane = record->lane;
    row->rail = record->rail;
    row->kind = mrail_ring_record_kind(record);
    table->rows[table->count++] = row;
    *slot = table->count;
    return row;
}

/* Updates the lowest rate with the rate of the window. Completions with the
 * same timestamp belong together, so the window is complete only when a later
 * timestamp follows. */
static void row_note_low(trace_row_t *row)
{
    uint64_t rate = mrail_tele_window_rate(&row->window);

    if ((row->window.sums.count == MRAIL_TELE_WINDOW) && (rate != 0) &&
        ((row->low == 0) || (rate < row->low))) {
        row->low = rate;
    }
}

/* Latency limits the rate of smaller records. A batch records the times of its
 * last message, but the bytes of all its messages. */
static void row_measure(trace_row_t *row, const mrail_ring_record_t *record)
{
    if ((record->length < MRAIL_TELE_LARGE) || (row->kind == MRAIL_RING_AM)) {
        return;
    }
    if (record->done_ns > row->window.sums.last_ns) {
        row_note_low(row);
    }
    mrail_tele_window_add(&row->window, record->length, record->post_ns,
                          record->done_ns);
}

int trace_table_add(trace_table_t *table, const mrail_ring_record_t *record)
{
    trace_row_t *row = table_row(table, record);

    if (row == NULL) {
        return -ENOMEM;
    }
    ++row->records;
    row->messages += record->count;
    if (record->kind & MRAIL_RING_FAILED) {
        ++row->failed;
    } else {
        row->bytes += record->length;
        row_measure(row, record);
        trace_times_add(&row->times, record->done_ns - record->post_ns);
    }
    if ((table->first_ns == 0) || (record->post_ns < table->first_ns)) {
        table->first_ns = record->post_ns;
    }
    table->last_ns = MRAIL_MAX(table->last_ns, record->done_ns);
    return 0;
}

static int row_order(const void *a, const void *b)
{
    const trace_row_t *x = *(trace_row_t *const *)a;
    const trace_row_t *y = *(trace_row_t *const *)b;

    if (x->rail != y->rail) {
        return (x->rail < y->rail) ? -1 : 1;
    }
    if (x->lane != y->lane) {
        return (x->lane < y->lane) ? -1 : 1;
    }
    if (x->peer != y->peer) {
        return (x->peer < y->peer) ? -1 : 1;
    }
    return (x->kind > y->kind) - (x->kind < y->kind);
}

void trace_table_finish(trace_table_t *table)
{
    for (unsigned i = 0; i < table->count; ++i) {
        row_note_low(table->rows[i]);
    }
    if (table->count > 1) {
        qsort(table->rows, table->count, sizeof(*table->rows), row_order);
    }
}

void trace_table_clear(trace_table_t *table)
{
    for (unsigned i = 0; i < table->count; ++i) {
        free(table->rows[i]);
    }
    free(table->rows);
    free(table->slots);
    memset(table, 0, sizeof(*table));
}
