#include "config.h"
#include "tools/diagnose.h"

#include "tools/options.h"
#include "tools/pages.h"
#include "tools/tool.h"

#include <string.h>

#define COMMAND "diagnose"

typedef struct diagnose {
    const char *dir;
    const char *archive;  /* NULL for the processes of this machine */
    collect_view_t *view; /* of the archive */
    const char *job;
    double patience_s;
    double sample_s;
    int json;
} diagnose_t;

static int diagnose_one(const diagnose_t *diagnose, diagnose_reading_t *reading,
                        unsigned index)
{
    diagnose_snapshot_t snapshot = {.patience_ns =
                                        (uint64_t)(diagnose->patience_s * 1e9)};
    const char *job = diagnose_job(reading, index, &snapshot);
    diagnose_report_t report;

    if ((diagnose->job != NULL) && (strcmp(diagnose->job, job) != 0)) {
        return 0;
    }
    if (diagnose_check(&snapshot, &report) != 0) {
        mrail_tool_fail(COMMAND, "out of memory");
    }
    if (diagnose->json) {
        diagnose_json(stdout, job, &snapshot, &report);
    } else {
        diagnose_print(stdout, job, &snapshot, &report);
    }
    return 1;
}

static int diagnose_run(const diagnose_t *diagnose)
{
    diagnose_reading_t *reading =
        diagnose_read(COMMAND, diagnose->dir, diagnose->view,
                      (uint64_t)(diagnose->sample_s * 1e9));
    unsigned num = diagnose_num_jobs(reading);
    int shown = 0;

    for (unsigned i = 0; i < num; ++i) {
        shown += diagnose_one(diagnose, reading, i);
    }
    diagnose_free(reading);
    if (shown == 0) {
        mrail_tool_fail(COMMAND,
                        "no process %s%s has telemetry in %s; it must run with "
                        "UCX_TLS=mrail and UCX_MRAIL_TELEMETRY=y",
                        (diagnose->job != NULL) ? "of job " : "of this user",
                        (diagnose->job != NULL) ? diagnose->job : "",
                        (diagnose->view != NULL) ? diagnose->archive
                                                 : diagnose->dir);
    }
    return 0;
}

#define FIELD(_name) offsetof(diagnose_t, _name)

static const mrail_option_t options[] = {
    {"--job", "NAME", "show only the processes of this job", MRAIL_OPTION_TEXT,
     FIELD(job), 0, 0, NULL},
    {"--wait", "TIME",
     "suspect a rank if another rank has waited for it this long, 0.1 to "
     "3600 seconds (default: 2)",
     MRAIL_OPTION_SECONDS, FIELD(patience_s), 100, 3600000, NULL},
    {"--sample", "TIME",
     "time between the two samples of processes and calls, 0.1 to 60 seconds "
     "(default: 0.7)",
     MRAIL_OPTION_SECONDS, FIELD(sample_s), 100, 60000, NULL},
    {"--json", NULL, "print a JSON object for each job", MRAIL_OPTION_FLAG,
     FIELD(json), 0, 0, NULL},
    {"--dir", "DIR",
     "telemetry directory, instead of UCX_MRAIL_TELEMETRY_DIR "
     "(default: " MRAIL_TELE_DIR ")",
     MRAIL_OPTION_TEXT, FIELD(dir), 0, 0, NULL},
    {"--archive", "FILE",
     "examine an archive of mrail collect, at the time of its samples",
     MRAIL_OPTION_TEXT, FIELD(archive), 0, 0, NULL},
    {.names = NULL}};

static const char *const synopsis[] = {
    "[--job NAME] [--wait TIME] [--json]",
    "--archive FILE [--job NAME] [--wait TIME] [--json]", NULL};

static const mrail_command_t command = {
    .name = COMMAND,
    .synopsis = synopsis,
    .about =
        "Reports the causes of delays in the jobs of this user on this\n"
        "machine: a rank that has exited, is stopped, or makes its MPI\n"
        "calls in a different order; a rail, an uplink or a path; too few\n"
        "cores; or a rank that computes while other ranks wait. Shows the\n"
        "evidence and, for each rank:\n"
        "\n"
        "  STATE    state of its process (ps)     RUNS, WAITS  share of time in which\n"
        "  CALLS    collectives entered           it had a core, or waited for one;\n"
        "  IN       current MPI call              above 100 % with several threads\n"
        "  COMP MS  time between two collectives: the median, and the longest\n",
    .options = options,
    .epilog = "Exit status: 0 done, 1 no process, or failure, 2 usage.\n"};

int main(int argc, char **argv)
{
    diagnose_t diagnose = {.patience_s = 2, .sample_s = 0.7};

    int status;

    mrail_options_parse(&command, argv, &diagnose);
    if ((diagnose.archive != NULL) && (diagnose.dir != NULL)) {
        mrail_tool_usage(COMMAND, "--archive cannot be combined with --dir");
    }
    diagnose.dir = pages_dir(diagnose.dir);
    if (diagnose.archive != NULL) {
        diagnose.view = collect_view_open(COMMAND, diagnose.archive);
    }
    status = diagnose_run(&diagnose);
    collect_view_close(diagnose.view);
    return status;
}
