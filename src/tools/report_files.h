/*
 * mrail report reads the telemetry files of a job, from a directory or an
 * archive.
 *
 * For tools only: the functions may print to stderr, and exit with status 1.
 */
#ifndef MRAIL_TOOLS_REPORT_FILES_H
#define MRAIL_TOOLS_REPORT_FILES_H

#include "tools/collect_view.h"
#include "tools/report.h"

/* A process whose files are open. They stay readable after the process has
 * removed them. */
typedef struct report_file {
    char path[MRAIL_TELE_PATH];
    int fd;       /* -1: the process has exited; its last page was read */
    int calls_fd; /* the file of its MPI calls; -1 if none */
    int plans_fd; /* the file of its forecasts; -1 if none */
    report_process_t *process;
} report_file_t;

typedef struct report_files {
    const char *dir;
    const char *source;         /* the directory or archive, for messages */
    const collect_view_t *view; /* the archive; NULL for this machine */
    /* 1: the files come from an archive or from processes that have exited, so
     * they are read once, and no file stays open. */
    int is_still;
    char job[48];
    report_model_t *model;
    report_file_t *items;
    unsigned count;
} report_files_t;

/* Selects a job: the job with this name or, if `job` is NULL, the only running
 * job, or else the only job. Sets *is_live_p if any of its processes is
 * running, and *refused_p to the number of unreadable files, which it names on
 * stderr. Exits if there is no such job, or more than one. */
void report_select(report_files_t *files, const char *job, int *is_live_p,
                   unsigned *refused_p);

/* Opens the files of the job that are not open yet. If the files no longer
 * change, reads their contents; it must then be called only once. */
void report_find(report_files_t *files);

/* Takes a sample of all processes. Returns the number of running ones. */
unsigned report_look(report_files_t *files);

/* Takes the forecasts of the files that are open. Call it once, at the end. */
void report_read_plans(report_files_t *files);

/* For files that no longer change: reads the records of the trace rings. For
 * archived processes without records, uses the bytes between both samples. */
void report_rings(report_files_t *files);

/* Describes the archive `files->view`, which must exist as long as the model. */
void report_take_archive(report_files_t *files, report_archive_t *archive);

/* Returns the time of the latest sample in an archive. */
uint64_t report_archive_time(const collect_view_t *view);

void report_close(report_files_t *files);

/* Takes the parameters of a rank from the environment of its process, which
 * must run. Does nothing if it cannot be read, or belongs to another job. */
void report_env(report_model_t *model, const report_process_t *process);

#endif
