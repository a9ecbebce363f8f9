/*
 * mrail diagnose finds the rank, rail, uplink or path that delays a job.
 *
 *   diagnose.c              options, jobs
 *   diagnose_read.c         a snapshot of a job: files, /proc
 *   diagnose_rails.c        the part of it that concerns rails and paths
 *   diagnose_check.c        from a snapshot to findings: processes
 *   diagnose_check_rails.c  the same for rails and paths
 *   diagnose_uplinks.c      the same for uplinks
 *   diagnose_calls.c        the same for MPI calls, with diagnose_hang.c and
 *                           diagnose_late.c
 *   diagnose_show.c         findings as text and as JSON
 *
 * The sources of findings access no files and no clock: findings depend on the
 * snapshot alone. Sources: [ICCL] 3.4 and 6.
 */
#ifndef MRAIL_TOOLS_DIAGNOSE_H
#define MRAIL_TOOLS_DIAGNOSE_H

#include "telemetry/calls.h"
#include "tools/collect_view.h"

#include <stdio.h>

/* ---- snapshot ---- */

/* Recent chunks that were completed. */
typedef struct diagnose_traffic {
    uint64_t bytes;
    uint64_t busy_ns; /* time in which at least one chunk was outstanding */
    uint64_t chunks;
} diagnose_traffic_t;

typedef struct diagnose_rail {
    char name[48];    /* such as "mlx5_0:1" */
    uint64_t nominal; /* bytes per second of the port, or 0 if unknown */
    diagnose_traffic_t traffic;
    int is_down; /* the last event of the port was an error */
} diagnose_rail_t;

typedef struct diagnose_lane {
    uint64_t peer;
    uint16_t slot; /* number among the lanes to the peer */
    uint16_t rail; /* index */
    /* number of the uplink that data from this end takes; -1: no port rules */
    int uplink;
    diagnose_traffic_t traffic;
    uint64_t get_bytes; /* of the traffic; their data comes from the peer */
} diagnose_lane_t;

/* A peer to or from which the rank carried chunks. */
typedef struct diagnose_exchange {
    uint64_t peer;
    uint64_t last_ns; /* time at which the last chunk was completed */
} diagnose_exchange_t;

/* If a rank has more peers, those with the latest chunks. */
#define DIAGNOSE_EXCHANGES 256u

/* A path that is retired. */
typedef struct diagnose_path {
    uint64_t peer;
    unsigned slot;
    int rail; /* index, or -1 if unknown */
    char event[80];
    uint64_t ago_ns;
} diagnose_path_t;

#define DIAGNOSE_PATHS 64u

typedef struct diagnose_rank {
    int rank;
    unsigned pid;
    const char *host; /* in an archive; NULL for this machine */
    int alive;
    char state; /* state of the process, as in proc_pid_stat(5), or '?' if
                 * unknown */
    /* Fractions of the sample time in which its threads ran, and waited for a
     * core; summed over threads. Negative if unknown. */
    double run, delay;
    uint64_t start_ns; /* when its telemetry began; 0 if unknown */
    uint64_t last_ns;  /* last update */
    /* Two samples of the calls, or NULL if unknown. */
    const mrail_calls_t *calls, *earlier;
    uint64_t id; /* peer id of this process, or 0 if unknown */
    diagnose_rail_t rails[MRAIL_PAGE_RAILS];
    unsigned num_rails;
    diagnose_lane_t lanes[MRAIL_PAGE_LANES];
    unsigned num_lanes;
    diagnose_exchange_t exchanges[DIAGNOSE_EXCHANGES];
    unsigned num_exchanges;
    diagnose_path_t paths[DIAGNOSE_PATHS];
    unsigned num_paths;
} diagnose_rank_t;

/* Times are CLOCK_MONOTONIC; in an archive, they are as in collect_view.h. */
typedef struct diagnose_snapshot {
    diagnose_rank_t *ranks; /* sorted by rank */
    unsigned num_ranks;
    /* The time of the samples. The hosts of an archive have different times.
     * This is the earliest one, so that waits do not seem too long. */
    uint64_t now_ns;
    uint64_t sample_ns;         /* time between the two samples */
    const collect_view_t *view; /* the archive, or NULL for this machine */
    uint64_t patience_ns;       /* shorter waits are not suspicious */
} diagnose_snapshot_t;

/* ---- findings ---- */

/* Causes in descending order of importance. */
typedef enum diagnose_cause {
    DIAGNOSE_ENDED,
    DIAGNOSE_STOPPED,
    DIAGNOSE_MISMATCH,
    DIAGNOSE_RAIL_DOWN,
    DIAGNOSE_PATH,
    DIAGNOSE_UPLINK_SLOW,
    DIAGNOSE_RAIL_SLOW,
    DIAGNOSE_CORES,
    DIAGNOSE_COMPUTE,
    DIAGNOSE_NUM_CAUSES
} diagnose_cause_t;

typedef struct diagnose_cause_text {
    const char *name;    /* name in JSON */
    const char *culprit; /* "compute", "rank", "rail", "path" or "uplink" */
    const char *text;    /* completes "rank 3 ..." or "rail mlx5_0:1 ..." */
} diagnose_cause_text_t;

extern const diagnose_cause_text_t diagnose_causes[DIAGNOSE_NUM_CAUSES];

#define DIAGNOSE_SUBJECT 144

typedef struct diagnose_finding {
    diagnose_cause_t cause;
    int rank;       /* -1 for no particular rank */
    unsigned ranks; /* UPLINK_SLOW: number of ranks that see it */
    /* "rank 3", "rail mlx5_0:1"; in an archive, "rail mlx5_0:1 of HOST" */
    char subject[DIAGNOSE_SUBJECT];
    char evidence[480];
} diagnose_finding_t;

#define DIAGNOSE_FINDINGS 32u

typedef struct diagnose_report {
    diagnose_finding_t findings[DIAGNOSE_FINDINGS]; /* sorted by cause */
    unsigned num_findings;
    unsigned more;    /* findings that did not fit into the array */
    double contended; /* smallest share of time that any rank waits for a core
                       */
} diagnose_report_t;

/* Finds the causes of delay in a snapshot. Returns 0 or -ENOMEM. */
int diagnose_check(const diagnose_snapshot_t *snapshot,
                   diagnose_report_t *report);

/* ---- shared by the sources ---- */

/* Adds a finding, unless one with the same cause and subject exists. If
 * `subject` is NULL, the subject is the rank. Returns the new finding, or NULL
 * if none was added. */
diagnose_finding_t *diagnose_add(diagnose_report_t *report,
                                 diagnose_cause_t cause, int rank,
                                 const char *subject, const char *format, ...)
    MRAIL_PRINTF(5, 6);

/* Removes ranks of earlier runs of a job, which remain if a batch system starts
 * a killed job again under the same name. These ranks have ended, and another
 * process has the same rank, or the running processes began later. Keeps the
 * order, and returns the new number of ranks. */
unsigned diagnose_drop_earlier(diagnose_rank_t *ranks, unsigned count);

/* Returns the rank with this peer id, or NULL if the snapshot has none. */
const diagnose_rank_t *diagnose_peer(const diagnose_snapshot_t *snapshot,
                                     uint64_t id);

/* Findings about rails and paths. Those about uplinks must be in the report. */
void diagnose_check_rails(const diagnose_snapshot_t *snapshot,
                          diagnose_report_t *report);

/* Findings about uplinks. Returns 0 or -ENOMEM. */
int diagnose_check_uplinks(const diagnose_snapshot_t *snapshot,
                           diagnose_report_t *report);

/* Returns 1 if two ranks run on the same host. */
int diagnose_is_same_host(const diagnose_rank_t *a, const diagnose_rank_t *b);

/* Writes "rank 3" or, in an archive, "rank 3 on HOST". */
#define DIAGNOSE_RANK_NAME 96
void diagnose_rank_name(const diagnose_rank_t *rank, char *text, size_t size);

/* Writes the name of a rank, or "peer ID" if no rank of the snapshot has this
 * id. */
void diagnose_peer_name(const diagnose_snapshot_t *snapshot, uint64_t id,
                        char *text, size_t size);

/* Returns the bytes per second while chunks were outstanding. */
static inline double diagnose_rate(const diagnose_traffic_t *traffic)
{
    return (traffic->busy_ns == 0)
               ? 0
               : (double)traffic->bytes * 1e9 / (double)traffic->busy_ns;
}

/* Findings about MPI calls. Returns 0 or -ENOMEM. */
int diagnose_check_calls(const diagnose_snapshot_t *snapshot,
                         diagnose_report_t *report);

/* Compares two doubles, for qsort(3). */
static inline int diagnose_double_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Returns the share of its run time that a rank waited for a core, 0 to 1, or
 * 0 if it is unknown or the rank mostly sleeps. */
static inline double diagnose_delay_share(const diagnose_rank_t *rank)
{
    /* A rank that mostly sleeps is not delayed by a short wait for a core. */
    return ((rank->delay < 0) || (rank->run + rank->delay < 0.05))
               ? 0
               : rank->delay / (rank->run + rank->delay);
}

/* Returns 1 if a rank waits for a core most of the time, and the other ranks do
 * not. If all ranks wait, none of them delays the job. */
int diagnose_is_starved(const diagnose_snapshot_t *snapshot,
                        const diagnose_rank_t *rank);

/* The times that a rank computed between its last collectives. */
typedef struct diagnose_gaps {
    unsigned count;
    uint64_t median_ns, p90_ns, max_ns;
} diagnose_gaps_t;
diagnose_gaps_t diagnose_gaps(const mrail_calls_comm_t *comm);

/* Adds records of the trace ring to the exchanges of a rank, and to the traffic
 * of its rails and lanes. For traffic, only the chunks of the last seconds
 * count. Sorts the records in place. */
void diagnose_add_records(diagnose_rank_t *rank, mrail_ring_record_t *records,
                          unsigned count);

/* Fills in the rails, lanes and paths of a rank from its page, which is the file
 * `path`. Exits with a message if memory runs out. */
void diagnose_fill_rails(const char *command, const char *path,
                         const mrail_page_t *page, diagnose_rank_t *rank);

/* Reads the processes of this user in `dir`, with two samples that are
 * sample_ns apart. An archive already has two samples, so `dir` and sample_ns
 * are not used with a view. Exits with a message if memory runs out. */
typedef struct diagnose_reading diagnose_reading_t;
diagnose_reading_t *diagnose_read(const char *command, const char *dir,
                                  const collect_view_t *view,
                                  uint64_t sample_ns);
/* Returns the number of jobs, and the name and the snapshot of one. */
unsigned diagnose_num_jobs(const diagnose_reading_t *reading);
const char *diagnose_job(diagnose_reading_t *reading, unsigned index,
                         diagnose_snapshot_t *snapshot_p);
void diagnose_free(diagnose_reading_t *reading);

void diagnose_print(FILE *stream, const char *job,
                    const diagnose_snapshot_t *snapshot,
                    const diagnose_report_t *report);
void diagnose_json(FILE *stream, const char *job,
                   const diagnose_snapshot_t *snapshot,
                   const diagnose_report_t *report);

#endif
