/* The telemetry pages of this user on this machine, for mrail top and mrail
 * info --events. */
#ifndef MRAIL_TOOLS_PAGES_H
#define MRAIL_TOOLS_PAGES_H

#include "telemetry/page.h"

typedef struct pages_item {
    mrail_page_t *page;
    int alive; /* its process runs */
} pages_item_t;

typedef struct pages {
    pages_item_t *items; /* by job and rank */
    unsigned count;
    unsigned refused; /* files that are no telemetry pages, or cannot be read */
} pages_t;

/* The folder of telemetry pages: `option` (of --dir), else
 * UCX_MRAIL_TELEMETRY_DIR as the transport reads it, else the default. */
const char *pages_dir(const char *option);

/* Reads all pages in `dir`, or those of `job` unless it is NULL. With
 * `complain` it says on stderr which files cannot be read and why. A `dir` that
 * cannot be read, or a lack of memory, ends the process. */
void pages_read(pages_t *pages, const char *verb, const char *dir,
                const char *job, int complain);
void pages_cleanup(pages_t *pages);

/* The page of the same process in `pages`, or NULL. */
const mrail_page_t *pages_find(const pages_t *pages, const mrail_page_t *page);

/* "2026-11-20 17:04:05.123456", local time. */
#define PAGES_TIME 32
void pages_time(char *text, size_t size, uint64_t time_ns);

/* "rank 3", or "pid 4711" of a process without a rank. */
#define PAGES_WHO 32
void pages_who(char *text, size_t size, const mrail_page_t *page);

/* One event of a page. */
typedef struct pages_event {
    const mrail_page_t *page;
    const mrail_page_event_t *event;
} pages_event_t;

/* All events that the pages still hold, sorted by time. Returns their number;
 * the caller frees *events_p. */
unsigned pages_events(const pages_t *pages, const char *verb,
                      pages_event_t **events_p);

#endif
