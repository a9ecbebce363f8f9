/*
 * mrail report writes one page about a job.
 *
 *   report.c         options, the loop
 *   report_files.c   the telemetry files of the job
 *   report_rings.c   records of processes that have exited, or of an archive
 *   report_archive.c a mrail collect archive
 *   report_env.c     parameters, from the environment of a rank
 *   report_model.c   collects the samples of a job
 *   report_events.c  the events of its processes
 *   report_series.c  bandwidth over time (report_series.h)
 *   report_facts.c   totals, and the summary
 *   report_json.c    the figures as JSON, with report_json_plans.c
 *   report_page.c    the HTML page, which contains the JSON
 *
 * The sources from report_model.c on read no files and no clock: pages and
 * times are arguments. Memory is bounded by the number of processes. The
 * functions are not thread-safe.
 */
#ifndef MRAIL_TOOLS_REPORT_H
#define MRAIL_TOOLS_REPORT_H

#include "telemetry/calls.h"
#include "telemetry/plans.h"
#include "tools/pages.h"
#include "tools/report_series.h"

#include <stdio.h>

/* ---- what is collected; times are CLOCK_REALTIME ---- */

typedef struct report_rail {
    char name[48];    /* such as "mlx5_0:1" */
    uint64_t nominal; /* bytes per second of the port; 0 if unknown */
    uint64_t before;  /* bytes that are not in the series */
    uint64_t bytes;   /* all bytes, at the last sample */
    uint64_t stalled_ns, idle_ns;
    unsigned num_lanes;
    int is_down;
    report_series_t *series;
} report_rail_t;

/* The collectives of a communicator, at the last sample. */
typedef struct report_comm {
    uint64_t id;
    uint64_t entered, left;
    uint64_t computed_ns, called_ns; /* between collectives, and in them */
    uint32_t size, rank;
    char name[48];
    uint64_t counts[MRAIL_CALLS_NUM_KINDS];
} report_comm_t;

#define REPORT_COMMS 64u /* of a process */

typedef enum report_state {
    REPORT_RUNNING,
    REPORT_ENDED,  /* it has removed its page */
    REPORT_KILLED, /* it was killed, and its page remains */
    REPORT_LOST    /* its page is no longer valid */
} report_state_t;

typedef struct report_process {
    uint64_t id; /* by which its peers know it; 0 if unknown */
    int rank;
    unsigned pid;
    int host; /* index of its host in an archive; -1 for this machine */
    report_state_t state;
    char program[64];
    uint64_t start_ns;
    uint64_t update_ns; /* last update of its page */
    uint32_t more_lanes;
    uint64_t next_event;
    report_rail_t rails[MRAIL_PAGE_RAILS];
    unsigned num_rails;
    mrail_page_counter_t counters[MRAIL_PAGE_COUNTERS];
    unsigned num_counters;
    int has_calls;
    report_comm_t *comms;
    unsigned num_comms;
    unsigned more_comms; /* communicators that did not fit */
} report_process_t;

typedef enum report_kind {
    REPORT_PORT, /* an event of a port or rail */
    REPORT_PATH, /* a path changed its state */
    REPORT_LANE, /* a lane failed */
    REPORT_MOVE, /* a lane moved to another source port */
    REPORT_PEER, /* a peer left */
    REPORT_OTHER,
    REPORT_KINDS
} report_kind_t;

typedef struct report_event {
    uint64_t time_ns;
    const report_process_t *process;
    report_kind_t kind;
    int rail;        /* index among the rails of the process; -1 if unknown */
    int is_recovery; /* something works again */
    uint64_t peer;   /* id; 0 if none */
    char text[120];
} report_event_t;

/* Further events are only counted. The few port events have a limit of their
 * own. */
#define REPORT_EVENTS 4000u
#define REPORT_PORT_EVENTS 1000u

typedef struct report_param {
    char *name, *value;
} report_param_t;

#define REPORT_PARAMS 128u

#define REPORT_PLANS 64u

typedef enum report_end {
    REPORT_BY_JOB,    /* its processes have exited */
    REPORT_BY_TIME,   /* --time */
    REPORT_BY_SIGNAL, /* SIGINT or SIGTERM */
    REPORT_NOT_LIVE,  /* they had exited before the recording */
    REPORT_OF_ARCHIVE /* the files are those of an archive */
} report_end_t;

/* The mrail collect archive that the report is based on. */
typedef struct report_archive {
    uint64_t time_ns;  /* when it was collected */
    uint64_t bound_ns; /* the largest error bound of a host's clock */
    const pages_host_t *hosts;
    unsigned num_hosts;
    unsigned num_missing; /* hosts that are missing */
    unsigned left_out;    /* processes that did not fit */
    unsigned lost_files;  /* files that are truncated or invalid */
} report_archive_t;

typedef struct report_model {
    char job[48];
    char host[64];                   /* or the number of hosts, as text */
    const report_archive_t *archive; /* NULL for this machine */
    uint64_t begin_ns, end_ns;       /* the recording */
    uint64_t interval_ns;
    uint64_t samples;
    report_end_t end;
    report_grid_t grid;
    report_process_t **processes; /* after report_finish(): sorted by rank */
    unsigned num_processes;
    report_event_t *events; /* after report_finish(): sorted by time */
    unsigned num_events;
    unsigned num_port_events;
    uint64_t events_left_out; /* those that did not fit */
    uint64_t events_missed;   /* overwritten before they were read */
    uint64_t records_missed;  /* the same for records of chunks */
    unsigned files_refused;
    report_param_t params[REPORT_PARAMS];
    unsigned num_params;
    int params_rank;           /* rank of `params`; -1 if none */
    mrail_plans_comm_t *plans; /* the last forecast of each communicator */
    unsigned num_plans;
    unsigned more_plans; /* those that did not fit */
} report_model_t;

/* Starts a model. The grid begins at `begin_ns`. */
void report_init(report_model_t *model, const char *job, uint64_t begin_ns,
                 uint64_t interval_ns);
void report_cleanup(report_model_t *model);

/* Adds a process as it was at `now_ns`, when its page was first read. If it
 * started before the recording, its bytes until now are not in the series.
 * Returns NULL if memory runs out. */
report_process_t *report_add(report_model_t *model, uint64_t id,
                             const mrail_page_t *page, report_state_t state,
                             uint64_t now_ns);

/* Takes a sample of a page. `now_ns` is the time of the sample. Returns 0 or
 * -ENOMEM. */
int report_sample(report_model_t *model, report_process_t *process,
                  const mrail_page_t *page, uint64_t now_ns);

/* Takes a sample of the MPI calls. Returns 0 or -ENOMEM. */
int report_calls(report_process_t *process, const mrail_calls_t *calls);

/* Puts the bytes that a process has carried since an earlier sample into its
 * series. Call it at most once, and not for a process with records. */
void report_earlier(report_model_t *model, report_process_t *process,
                    const mrail_page_t *earlier);

/* Adds a record of a process that has exited, or of an archive. `offset_ns` is
 * CLOCK_REALTIME minus the clock of the record. */
void report_record(report_model_t *model, report_process_t *process,
                   const mrail_ring_record_t *record, uint64_t offset_ns);

/* Takes the new events of a page. Returns 0 or -ENOMEM. */
int report_events(report_model_t *model, report_process_t *process,
                  const mrail_page_t *page);

/* Takes the forecasts of a process. Call it once for each process. Returns 0 or
 * -ENOMEM. */
int report_plans(report_model_t *model, const mrail_plans_t *plans);

/* Ends the recording, and sorts processes and events. */
void report_finish(report_model_t *model, uint64_t end_ns, report_end_t end);

/* ---- facts, after report_finish() ---- */

typedef struct report_facts {
    uint64_t start_ns;  /* start of the first process; times in JSON count from
                         * here */
    uint64_t bytes;     /* all bytes of all rails */
    uint64_t before;    /* those that are not in the series */
    double mean, peak;  /* bytes per second in the series */
    uint64_t failovers; /* lanes that failed */
    unsigned num_rails; /* rails with different names */
    unsigned num_running, num_killed, num_lost;
    /* The communicator by which ranks are compared; 0 if none. */
    uint64_t comm;
    int slowest;       /* index of a process; -1 if none stands out */
    double slowest_s;  /* by how much longer it computed than the median */
    double computed_s; /* that median */
} report_facts_t;

report_facts_t report_facts(const report_model_t *model);

/* Names of all rails, in the order of the processes. */
#define REPORT_RAILS 64u
typedef struct report_rails {
    const char *names[REPORT_RAILS];
    unsigned count;
} report_rails_t;
report_rails_t report_rail_names(const report_model_t *model);
/* Returns the index of a name, or -1. */
int report_rail_index(const report_rails_t *rails, const char *name);

const report_comm_t *report_comm_of(const report_process_t *process,
                                    uint64_t id);

/* Returns the host name of a process in an archive, or NULL. */
static inline const char *report_host_of(const report_model_t *model,
                                         const report_process_t *process)
{
    return ((model->archive != NULL) && (process->host >= 0) &&
            ((unsigned)process->host < model->archive->num_hosts))
               ? model->archive->hosts[process->host].name
               : NULL;
}

/* Writes the summary of the report. */
void report_summary(FILE *stream, const report_model_t *model,
                    const report_facts_t *facts);

/* ---- output ---- */

extern const char *const report_kind_names[REPORT_KINDS];

void report_json(FILE *stream, const report_model_t *model);

/* Writes the members of the forecasts. `start_ns` is the start of the job. */
void report_json_plans(mrail_json_t *json, const report_model_t *model,
                       uint64_t start_ns);

/* Writes the page. Returns 0 or -ENOMEM. The caller checks the stream for write
 * errors. */
int report_page(FILE *stream, const report_model_t *model);

/* Lines of the page's template, which ends with NULL. The build makes it from
 * report.html, report.css and report_*.js. */
extern const char *const report_template[];

#endif
