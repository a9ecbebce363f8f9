/* The telemetry pages of this user's processes on this machine, for mrail top,
 * mrail exporter and mrail info --events. */
#ifndef MRAIL_TOOLS_PAGES_H
#define MRAIL_TOOLS_PAGES_H

#include "base/json.h"
#include "telemetry/page.h"

/* A host of an archive (collect_view.h). */
typedef struct pages_host {
    const char *name;
    const char *error; /* reason why the host is missing, or NULL */
    /* How far its clock was ahead of the archive's clock, and the maximum error
     * of this value. */
    int64_t offset_ns;
    uint64_t bound_ns;
} pages_host_t;

typedef struct pages_item {
    mrail_page_t *page;
    int alive; /* 1 if the process of the page is running */
    int host;  /* index of its host in an archive, or -1 for this machine */
} pages_item_t;

typedef struct pages {
    pages_item_t *items; /* sorted by job and rank */
    unsigned count;
    /* files that are not telemetry pages of this user and version, by reason */
    unsigned refused[MRAIL_PAGE_STATUSES];
    unsigned skipped; /* exited processes that pages_try_read() skipped */

    /* Set by the viewer for pages of an archive. */
    const pages_host_t *hosts; /* NULL for pages of this machine */
    unsigned num_hosts;
    uint64_t time_ns; /* time at which they were read, or 0 if live */
} pages_t;

/* Returns the telemetry directory: `option` (from --dir) if it is not NULL,
 * otherwise UCX_MRAIL_TELEMETRY_DIR if it is set, otherwise the default. */
const char *pages_dir(const char *option);

/* Reads all pages in `dir`, or only those of `job` if it is not NULL. If `warn`
 * is set, prints a warning for each file that cannot be read. Exits with a
 * message if `dir` cannot be read or memory runs out. */
void pages_read(pages_t *pages, const char *command, const char *dir,
                const char *job, int warn);
/* Like pages_read(), for all jobs and without warnings. Skips processes that
 * have exited and last changed their page before `oldest_s`, CLOCK_REALTIME in
 * seconds. Returns 0, or -errno with *pages empty. */
int pages_try_read(pages_t *pages, const char *dir, int64_t oldest_s);
void pages_cleanup(pages_t *pages);

/* Returns the host name of a page in an archive, or NULL. */
static inline const char *pages_host_name(const pages_t *pages,
                                          const pages_item_t *item)
{
    return ((pages->hosts != NULL) && (item->host >= 0) &&
            ((unsigned)item->host < pages->num_hosts))
               ? pages->hosts[item->host].name
               : NULL;
}

/* Writes the member "hosts": the hosts of an archive, and the accuracy of their
 * clocks. Writes no member for pages of this machine. */
void pages_json_hosts(mrail_json_t *json, const pages_host_t *hosts,
                      unsigned num_hosts);

/* Returns the page of the same process in `pages`, or NULL. */
const mrail_page_t *pages_find(const pages_t *pages, const mrail_page_t *page);

/* Buffer size for a local time such as "2026-11-20 17:04:05.123456". */
#define PAGES_TIME 32
void pages_time(char *text, size_t size, uint64_t time_ns);

/* Buffer size for "rank 3", or "pid 4711" for a process without a rank. */
#define PAGES_PROCESS 32
void pages_process(char *text, size_t size, const mrail_page_t *page);

/* An event and its page. */
typedef struct pages_event {
    const mrail_page_t *page;
    const mrail_page_event_t *event;
} pages_event_t;

/* Collects all events that the pages still contain, sorted by time. Returns
 * their number. The caller frees *events_p. */
unsigned pages_events(const pages_t *pages, const char *command,
                      pages_event_t **events_p);

#endif
