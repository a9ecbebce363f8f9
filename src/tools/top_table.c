/* mrail top formats rows as text. */
#include "config.h"
#include "tools/top_show.h"

#include "base/util.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

#define LAST_EVENTS 8
#define SCREEN_EVENTS 4 /* fewer if the rows need the lines */

static const char *job_text(const mrail_page_t *page)
{
    return (page->job[0] != '\0') ? page->job : "(none)";
}

static void print_titles(FILE *stream, const pages_t *pages)
{
    fprintf(stream, "%-10s %8s %-14s %-12s %5s %8s %7s %7s %6s %9s%s\n",
            "PROCESS", "PID", "PROGRAM", "RAIL", "LANES", "MB/S", "OF",
            "STALLED", "IDLE", "OUT", (pages->hosts != NULL) ? "  HOST" : "");
}

/* Prints a row. `first` is 1 if the row above belongs to another process, or if
 * there is none. */
static void print_row(FILE *stream, const pages_t *pages, const top_row_t *row,
                      int first)
{
    const mrail_page_t *page = row->item->page;
    const char *host = pages_host_name(pages, row->item);
    char process[PAGES_PROCESS];

    pages_process(process, sizeof(process), page);
    fprintf(
        stream,
        "%-10s %8u %-14.14s %-12s %5u %8.1f %7.0f %6.0f%% %5.0f%% %9llu%s%s%s\n",
        first ? process : "", page->head.pid, first ? page->program : "",
        row->device, row->rail->num_lanes, row->figures.bytes_per_s / 1e6,
        (double)row->rail->nominal / 1e6, row->figures.stalled * 100,
        row->figures.idle * 100, (unsigned long long)row->figures.outstanding,
        (host != NULL) ? "  " : "", (host != NULL) ? host : "",
        row->item->alive ? "" : "  ended");
}

/* Prints at most `most` of the latest events. */
static void print_events(FILE *stream, const pages_t *pages,
                         const top_filter_t *filter, unsigned most)
{
    pages_event_t *events;
    unsigned count = pages_events(pages, "top", &events), kept = 0;
    char when[PAGES_TIME], process[PAGES_PROCESS];

    for (unsigned i = 0; i < count; ++i) {
        if (top_filter_process(filter, events[i].page)) {
            events[kept++] = events[i];
        }
    }
    if (kept > 0) {
        fprintf(stream, "\nlast events (mrail info --events shows all)\n");
    }
    for (unsigned i = (kept > most) ? kept - most : 0; i < kept; ++i) {
        pages_time(when, sizeof(when), events[i].event->time_ns);
        pages_process(process, sizeof(process), events[i].page);
        fprintf(stream, "%s  %-10s %s\n", when, process, events[i].event->text);
    }
    free(events);
}

void top_table(FILE *stream, const pages_t *before, const pages_t *now,
               const top_filter_t *filter, top_order_t order)
{
    const pages_item_t *item = NULL;
    top_row_t *rows;
    unsigned num = top_rows(before, now, filter, order, &rows);

    for (unsigned i = 0; i < num; ++i) {
        const mrail_page_t *page = rows[i].item->page;

        if ((item == NULL) || (strcmp(item->page->job, page->job) != 0)) {
            fprintf(stream, "%sjob %s\n", (item == NULL) ? "" : "\n",
                    job_text(page));
            print_titles(stream, now);
            item = NULL;
        }
        print_row(stream, now, &rows[i], item != rows[i].item);
        item = rows[i].item;
    }
    if (num == 0) {
        fprintf(stream, "no rail of %u processes matches\n", now->count);
    }
    free(rows);
    print_events(stream, now, filter, LAST_EVENTS);
}

/* ---- Single screen ---- */

const char *top_order_text(top_order_t order, char text[16])
{
    const char *word = TOP_ORDERS;

    for (unsigned i = 0; i < order; ++i) {
        word = strchr(word, '|') + 1;
    }
    snprintf(text, 16, "%.*s", (int)strcspn(word, "|"), word);
    return text;
}

/* Formats the rows as text, with a line before the first row of each job. */
static char *screen_text(const pages_t *pages, const top_row_t *rows,
                         unsigned num, unsigned *lines_p)
{
    const pages_item_t *item = NULL;
    unsigned lines = num;
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    if (stream == NULL) {
        mrail_tool_fail("top", "out of memory");
    }
    for (unsigned i = 0; i < num; ++i) {
        if ((item == NULL) ||
            (strcmp(item->page->job, rows[i].item->page->job) != 0)) {
            fprintf(stream, "job %s\n", job_text(rows[i].item->page));
            ++lines;
        }
        /* A page may start with any row, so each row names its process. */
        print_row(stream, pages, &rows[i], 1);
        item = rows[i].item;
    }
    if (fclose(stream) != 0) {
        mrail_tool_fail("top", "out of memory");
    }
    *lines_p = lines;
    return text;
}

/* Prints `num` lines of a text, starting with line `first`. */
static void print_lines(FILE *stream, const char *text, unsigned first,
                        unsigned num)
{
    for (unsigned i = 0; *text != '\0'; ++i) {
        size_t length = strcspn(text, "\n") + 1;

        if ((i >= first) && (i < first + num)) {
            fwrite(text, 1, length, stream);
        }
        text += length;
    }
}

void top_screenful(FILE *stream, const pages_t *before, const pages_t *now,
                   const top_filter_t *filter, top_order_t order,
                   unsigned lines, unsigned *page_p)
{
    /* Lines for the header, the events with an empty line and a title, and the
     * keys. */
    const unsigned other = 1 + SCREEN_EVENTS + 2 + 1;
    unsigned page_lines = (lines > other + 4) ? lines - other : 4;
    unsigned num, total, pages;
    char *text, word[16];
    top_row_t *rows;

    num = top_rows(before, now, filter, order, &rows);
    text = screen_text(now, rows, num, &total);
    free(rows);
    pages = MRAIL_MAX(MRAIL_DIV_ROUND_UP(total, page_lines), 1u);
    *page_p = MRAIL_MIN(*page_p, pages - 1);
    print_titles(stream, now);
    print_lines(stream, text, *page_p * page_lines, page_lines);
    free(text);
    print_events(stream, now, filter, SCREEN_EVENTS);
    fprintf(stream,
            "page %u of %u, by %s; space: next page, b: back, s: sort, q: quit",
            *page_p + 1, pages, top_order_text(order, word));
}
