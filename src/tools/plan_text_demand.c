/* Parses demands. plan_text.h describes the text. */
#include "config.h"
#include "tools/plan_text.h"

#include "base/text.h"
#include "base/number.h"
#include "tools/tool.h"

#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* One range of FROM and one range of TO. */
typedef struct entry {
    uint64_t bytes;
    unsigned first_from, last_from, first_to, last_to;
    unsigned next; /* next entry of the same list, or 0 for the last */
} entry_t;

/* Entries are kept in lists: one list for each sender that a line names alone,
 * and one for all lines with several senders. A long text of single pairs
 * therefore does not have to be searched for every sender. */
typedef struct reader {
    unsigned num_ranks;
    unsigned *alone; /* first entry for each sender, or 0 */
    unsigned several;
    entry_t *entries; /* entries[0] is unused */
    size_t num, allocated;
    mrail_text_line_t *line;
    /* bytes of all entries */
    uint64_t total;
    uint64_t *row; /* the current sender's row */
    mrail_plan_demand_t *demands;
    size_t num_demands, demands_allocated;
} reader_t;

/* Enlarges the array if necessary, so that another item fits after the first
 * `num` items. */
static int grow(void **items_p, size_t num, size_t *allocated_p,
                size_t item_size)
{
    size_t allocated = (*allocated_p == 0) ? 64 : 2 * *allocated_p;
    void *items;

    if (num < *allocated_p) {
        return 0;
    }
    items = realloc(*items_p, allocated * item_size);
    if (items == NULL) {
        return -ENOMEM;
    }
    *items_p = items;
    *allocated_p = allocated;
    return 0;
}

static int add_entry(reader_t *reader, const entry_t *entry)
{
    unsigned *list = (entry->first_from == entry->last_from)
                         ? &reader->alone[entry->first_from]
                         : &reader->several;
    void *entries = reader->entries;
    int ret = grow(&entries, reader->num, &reader->allocated, sizeof(*entry));

    if (ret != 0) {
        return ret;
    }
    reader->entries = entries;
    reader->entries[reader->num] = *entry;
    reader->entries[reader->num].next = *list;
    *list = (unsigned)reader->num++;
    return 0;
}

/* ---- Lines ---- */

/* Returns the number of pairs of different ranks. */
static uint64_t pairs_of(const entry_t *entry)
{
    uint64_t num_from = entry->last_from - entry->first_from + 1;
    uint64_t num_to = entry->last_to - entry->first_to + 1;
    unsigned first = MRAIL_MAX(entry->first_from, entry->first_to);
    unsigned last = MRAIL_MIN(entry->last_from, entry->last_to);

    return num_from * num_to - ((first <= last) ? last - first + 1 : 0);
}

/* Adds the bytes of the entry to the total, which must not exceed 2^62. */
static int add_total(reader_t *reader, const entry_t *entry)
{
    uint64_t bytes;

    if (__builtin_mul_overflow(entry->bytes, pairs_of(entry), &bytes) ||
        bytes > PLAN_TEXT_MAX_TOTAL - reader->total) {
        return mrail_text_fail(reader->line,
                               "with this line, the total exceeds 2^62 bytes");
    }
    reader->total += bytes;
    return 0;
}

static int add_parts(reader_t *reader, const mrail_text_list_t *from,
                     const mrail_text_list_t *to, uint64_t bytes)
{
    for (unsigned i = 0; i < from->num * to->num; ++i) {
        unsigned f = i / to->num, t = i % to->num;
        entry_t entry = {.bytes = bytes,
                         .first_from = from->first[f],
                         .last_from = from->last[f],
                         .first_to = to->first[t],
                         .last_to = to->last[t]};
        int ret = add_total(reader, &entry);

        if (ret == 0) {
            ret = add_entry(reader, &entry);
        }
        if (ret != 0) {
            return ret;
        }
    }
    return 0;
}

static int read_bytes(mrail_text_line_t *line, const char *word,
                      uint64_t *bytes_p)
{
    int ret = mrail_number_size(word, PLAN_TEXT_MAX_TOTAL, bytes_p);

    if (ret == -ERANGE) {
        return mrail_text_fail(line,
                               "'%.40s' is too large: at most 2^62 "
                               "bytes",
                               word);
    }
    return (ret == 0) ? 0
                      : mrail_text_fail(line,
                                        "'%.40s' is not a number of bytes: "
                                        "digits, then k, m or g",
                                        word);
}

static int sum_rows(reader_t *reader);

static int read_line(mrail_text_line_t *line, void *arg)
{
    reader_t *reader = arg;
    mrail_text_list_t from, to;
    uint64_t bytes;

    reader->line = line;
    if (line->num == 0) {
        return sum_rows(reader);
    }
    if (line->num != 3) {
        return mrail_text_fail(line, "too %s words: FROM TO BYTES",
                               (line->num < 3) ? "few" : "many");
    }
    if (mrail_text_list(line, line->words[0], "rank", reader->num_ranks,
                        &from) != 0 ||
        mrail_text_list(line, line->words[1], "rank", reader->num_ranks, &to) !=
            0 ||
        read_bytes(line, line->words[2], &bytes) != 0) {
        return -EINVAL;
    }
    if (reader->num_ranks > 1 && mrail_text_list_count(&from) == 1 &&
        mrail_text_list_count(&to) == 1 && from.first[0] == to.first[0]) {
        return mrail_text_fail(line, "rank %u does not send to itself",
                               from.first[0]);
    }
    return (bytes == 0) ? 0 : add_parts(reader, &from, &to, bytes);
}

/* ---- Sums ---- */

static void add_to_row(reader_t *reader, unsigned from, const entry_t *entry)
{
    for (unsigned to = entry->first_to; to <= entry->last_to; ++to) {
        reader->row[to] += (to != from) ? entry->bytes : 0;
    }
}

static int add_demand(reader_t *reader, unsigned from, unsigned to)
{
    void *demands = reader->demands;
    int ret;

    if (reader->num_demands == PLAN_TEXT_MAX_DEMANDS) {
        return mrail_text_fail(reader->line,
                               "the demands have more than %zu pairs of ranks",
                               PLAN_TEXT_MAX_DEMANDS);
    }
    ret = grow(&demands, reader->num_demands, &reader->demands_allocated,
               sizeof(*reader->demands));
    if (ret == 0) {
        reader->demands = demands;
        reader->demands[reader->num_demands++] =
            (mrail_plan_demand_t){from, to, reader->row[to]};
        reader->row[to] = 0;
    }
    return ret;
}

static int sum_row(reader_t *reader, unsigned from)
{
    int ret = 0;

    for (unsigned i = reader->alone[from]; i != 0;
         i = reader->entries[i].next) {
        add_to_row(reader, from, &reader->entries[i]);
    }
    for (unsigned i = reader->several; i != 0; i = reader->entries[i].next) {
        const entry_t *entry = &reader->entries[i];

        if (from >= entry->first_from && from <= entry->last_from) {
            add_to_row(reader, from, entry);
        }
    }
    for (unsigned to = 0; to < reader->num_ranks && ret == 0; ++to) {
        ret = (reader->row[to] > 0) ? add_demand(reader, from, to) : 0;
    }
    return ret;
}

static int sum_rows(reader_t *reader)
{
    int ret = 0;

    for (unsigned from = 0; from < reader->num_ranks && ret == 0; ++from) {
        ret = sum_row(reader, from);
    }
    return ret;
}

int plan_text_demands(const char *name, const char *text, size_t length,
                      unsigned num_ranks, mrail_plan_demand_t **demands_p,
                      size_t *num_p, char *reason, size_t size)
{
    reader_t reader = {.num_ranks = num_ranks, .num = 1};
    int ret = -ENOMEM;

    reader.alone = calloc(num_ranks, sizeof(*reader.alone));
    reader.row = calloc(num_ranks, sizeof(*reader.row));
    if (reader.alone == NULL || reader.row == NULL) {
        snprintf(reason, size, "%.*s:1: out of memory", MRAIL_TEXT_MAX_NAME,
                 name);
    } else {
        ret = mrail_text_each(name, text, length, PLAN_TEXT_MAX_BYTES,
                              read_line, &reader, reason, size);
    }
    if (ret == 0) {
        *demands_p = reader.demands;
        *num_p = reader.num_demands;
        reader.demands = NULL;
    }
    free(reader.alone);
    free(reader.row);
    free(reader.entries);
    free(reader.demands);
    return ret;
}

/* ---- Line of a demand ---- */

typedef struct finder {
    unsigned num_ranks, from, to;
    unsigned number; /* line number, or 0 if not found yet */
} finder_t;

static int find_line(mrail_text_line_t *line, void *arg)
{
    finder_t *finder = arg;
    mrail_text_list_t from, to;
    uint64_t bytes;

    if (finder->number == 0 && line->num == 3 &&
        mrail_text_list(line, line->words[0], "rank", finder->num_ranks,
                        &from) == 0 &&
        mrail_text_list(line, line->words[1], "rank", finder->num_ranks, &to) ==
            0 &&
        read_bytes(line, line->words[2], &bytes) == 0 && bytes > 0 &&
        mrail_text_list_has(&from, finder->from) &&
        mrail_text_list_has(&to, finder->to)) {
        finder->number = line->number;
    }
    return 0;
}

unsigned plan_text_demand_line(const char *text, size_t length,
                               unsigned num_ranks, unsigned from, unsigned to)
{
    finder_t finder = {.num_ranks = num_ranks, .from = from, .to = to};
    char reason[PLAN_TEXT_REASON_MAX];

    (void)mrail_text_each("", text, length, PLAN_TEXT_MAX_BYTES, find_line,
                          &finder, reason, sizeof(reason));
    return finder.number;
}
