/*
 * mrail trace selects the processes that a call follows. Opens their telemetry
 * files, and reads their records.
 *
 * For tools only: the functions may print to stderr, and exit with status 1.
 */
#ifndef MRAIL_TOOLS_TRACE_SOURCE_H
#define MRAIL_TOOLS_TRACE_SOURCE_H

#include "telemetry/follow.h"
#include "tools/collect_view.h"
#include "tools/trace_plans.h"
#include "tools/trace_table.h"
#include "tools/trace_tracks.h"

/* Interval at which a ring is read. A ring of 4096 records takes longer to
 * fill, even with chunks of 64 KiB at 200 Gb/s. */
#define TRACE_LOOK_NS (10 * MRAIL_NS_PER_MS)

/* A process whose ring is followed. */
typedef struct trace_source {
    char path[MRAIL_TELE_PATH];
    uint64_t id;           /* by which its peers know the process */
    const char *host;      /* in an archive; NULL for this machine */
    mrail_page_t *page;    /* the last copy */
    mrail_follow_t follow; /* fd is -1 after the process has exited */
    int has_past;          /* earlier records are wanted */
    int is_broken;         /* the file is no longer valid */

    /* tables */
    mrail_ring_reader_t before; /* counts at the start of the interval */
    trace_table_t table;

    /* mrail trace -o */
    trace_tracks_t *tracks;
    trace_plans_t *plans;
    int calls_fd; /* the file of its MPI calls; -1 if none */
    int plans_fd; /* the file of its forecasts; -1 if none yet */
} trace_source_t;

typedef struct trace_sources {
    /* Process ids, jobs, and paths of telemetry files, which contain a slash.
     * Ends with NULL. Empty: all processes. */
    char *const *selectors;
    const char *dir;
    const char *ranks; /* a list; NULL for all */
    int past;          /* 1 to include the records that are already in the
                        * rings */
    int past_of_new;   /* 1 to do so for processes that later calls find */
    const collect_view_t *view; /* an archive, which does not change; or NULL */

    int has_searched; /* files that cannot be read have been reported */
    trace_source_t **items;
    unsigned count;
} trace_sources_t;

/* Opens the rings of wanted processes that are not open yet. The first call
 * reports files that cannot be read, and exits if there is no process. */
void trace_sources_find(trace_sources_t *sources);

/* Closes all files and frees the memory. */
void trace_sources_cleanup(trace_sources_t *sources);

static inline int trace_source_is_open(const trace_source_t *source)
{
    return source->follow.fd >= 0;
}

typedef void (*trace_take_func_t)(void *arg, trace_source_t *source,
                                  const mrail_ring_record_t *record);

/* Calls `take` with the new records. Stops after not many more records than two
 * rings hold, because the writer may be as fast as this reader. */
void trace_source_take(trace_source_t *source, trace_take_func_t take,
                       void *arg);

/* Copies the page again, to update lanes, events and the clock offset. If the
 * page is no longer valid, the old copy is kept. */
void trace_source_read_page(trace_source_t *source);

#endif
