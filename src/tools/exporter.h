/*
 * mrail exporter serves the telemetry of this user's processes as metrics for
 * Prometheus.
 *
 *   exporter.c          options, signals
 *   exporter_listen.c   the address of --listen
 *   exporter_scrape.c   one scrape: reads the files, writes the text
 *   exporter_select.c   which processes are exported
 *   exporter_metrics.c  the table of metrics
 *   exporter_text.c     from a view to the text of a scrape
 *   exporter_http.c     HTTP, by libmicrohttpd (exporter_http.h)
 *
 * The sources from exporter_select.c to exporter_text.c read no files and no
 * clock: pages and times are arguments. The functions are not thread-safe.
 *
 * Sources: prometheus.io/docs/instrumenting/exposition_formats (0.0.4),
 * prometheus.io/docs/practices/naming, OpenMetrics 1.0.
 */
#ifndef MRAIL_TOOLS_EXPORTER_H
#define MRAIL_TOOLS_EXPORTER_H

#include "telemetry/calls.h"
#include "tools/pages.h"

#include <stdio.h>

/* ---- which processes are exported ---- */

typedef struct exporter_limits {
    unsigned max_jobs;
    unsigned max_ranks; /* processes of a job on this machine */
    uint64_t keep_ns;   /* time for which a killed process is exported */
} exporter_limits_t;

/* Reasons why processes are left out. */
typedef enum exporter_reason {
    EXPORTER_LIMIT,     /* max_jobs or max_ranks */
    EXPORTER_ENDED,     /* it ended more than keep_ns ago */
    EXPORTER_DUPLICATE, /* it has the labels of another process */
    EXPORTER_REASONS
} exporter_reason_t;

#define EXPORTER_UNKNOWN UINT64_MAX

/* A process that is exported. */
typedef struct exporter_process {
    const mrail_page_t *page;
    int alive;
    /* time in its current MPI call, or 0 outside MPI; EXPORTER_UNKNOWN if it
     * does not record its calls */
    uint64_t in_call_ns;
} exporter_process_t;

typedef struct exporter_selection {
    exporter_process_t *processes; /* sorted by job, rank and process id */
    unsigned count;
    unsigned num_jobs;
    unsigned jobs_left_out;
    unsigned left_out[EXPORTER_REASONS]; /* processes */
} exporter_selection_t;

/* Selects processes of `pages`. If there are too many jobs, jobs with a running
 * process take precedence, then jobs that started earlier, so that the
 * selection is stable. `now_ns` is CLOCK_REALTIME. Returns 0, or -ENOMEM with
 * *selection empty. The selection refers to `pages`. */
int exporter_select(const pages_t *pages, const exporter_limits_t *limits,
                    uint64_t now_ns, exporter_selection_t *selection);
void exporter_selection_cleanup(exporter_selection_t *selection);

/* Returns the time for which a process has been in its current MPI call, or 0.
 * `now_ns` is CLOCK_MONOTONIC. */
uint64_t exporter_in_call(const mrail_calls_t *calls, uint64_t now_ns);

/* ---- metrics ---- */

/* Figures of the exporter itself. */
typedef struct exporter_self {
    uint64_t scrapes;     /* scrapes before this one */
    uint64_t duration_ns; /* duration of the last scrape */
    uint64_t cpu_ns;
    uint64_t start_ns; /* CLOCK_REALTIME */
} exporter_self_t;

/* Everything that a scrape shows. */
typedef struct exporter_view {
    exporter_selection_t selection;
    unsigned refused[MRAIL_PAGE_STATUSES]; /* number of files */
    unsigned others;                       /* number of files of other users */
    int per_lane;
    exporter_self_t self;
} exporter_view_t;

/* The labels of a metric. A rail also has the labels of its process, and a lane
 * also has the labels of its rail. EXPORTER_ONE has the labels of its row. */
typedef enum exporter_scope {
    EXPORTER_ONE,
    EXPORTER_PROCESS, /* mpi_job, rank, pid */
    EXPORTER_RAIL,    /* rail */
    EXPORTER_LANE,    /* peer, lane */
    EXPORTER_PROGRAM  /* labels of EXPORTER_PROCESS, and program */
} exporter_scope_t;

typedef enum exporter_type { EXPORTER_GAUGE, EXPORTER_COUNTER } exporter_type_t;

/* A sample: a whole number, or a time in ns, which is printed in seconds. */
typedef struct exporter_value {
    enum { EXPORTER_NONE, EXPORTER_NUMBER, EXPORTER_NS } kind;
    uint64_t value;
} exporter_value_t;

/* The subject of a sample. The fields below its scope are not valid. */
typedef struct exporter_subject {
    const exporter_view_t *view;
    unsigned row; /* EXPORTER_ONE: number of the sample */
    const exporter_process_t *process;
    unsigned rail;
    const mrail_page_lane_t *lane;
} exporter_subject_t;

typedef struct exporter_metric {
    const char *name;
    exporter_type_t type;
    exporter_scope_t scope;
    const char *help; /* one sentence, without backslash and newline */
    exporter_value_t (*value)(const exporter_subject_t *subject);
    /* 1 if the metric also applies to processes that have exited */
    int of_ended;
    /* For EXPORTER_ONE: the labels of each sample, followed by NULL; or NULL
     * for one sample without labels. */
    const char *const *labels;
    const char *counter; /* name of the counter on the page, which replaces
                          * value() */
} exporter_metric_t;

extern const exporter_metric_t exporter_metrics[];
extern const unsigned exporter_num_metrics;

/* Returns the sample of a metric. */
exporter_value_t exporter_value(const exporter_metric_t *metric,
                                const exporter_subject_t *subject);

/* ---- text ---- */

typedef enum exporter_format {
    EXPORTER_PLAIN,      /* text format 0.0.4 */
    EXPORTER_OPENMETRICS /* OpenMetrics 1.0 */
} exporter_format_t;

/* Returns the format that a value of the header Accept requests. The value may
 * be NULL. */
exporter_format_t exporter_format(const char *accept);
const char *exporter_content_type(exporter_format_t format);

/* Writes the text of a scrape. Returns 0 or -ENOMEM. */
int exporter_text(FILE *stream, const exporter_view_t *view,
                  exporter_format_t format);

/* Writes the value of a label into a buffer of EXPORTER_ESCAPED(size of the
 * text) bytes. */
#define EXPORTER_ESCAPED(_size) (2 * (_size) + 1)
void exporter_escape(char *to, const char *text);

/* ---- scrapes ---- */

typedef struct exporter {
    const char *dir;
    exporter_limits_t limits;
    int per_lane;
    exporter_self_t self;
} exporter_t;

/* Reads the files and writes their text into *text_p, which the caller frees.
 * Returns 0, or -errno if `dir` cannot be read or memory runs out. */
int exporter_scrape(exporter_t *exporter, exporter_format_t format,
                    char **text_p, size_t *size_p);

#endif
