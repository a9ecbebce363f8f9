/* mrail report writes an HTML page about a job. This file handles options and
 * the loop. */
#include "config.h"
#include "tools/report_files.h"

#include "base/clock.h"
#include "base/util.h"
#include "tools/options.h"
#include "tools/pages.h"
#include "tools/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COMMAND "report"
/* Time between two searches for new processes. */
#define FIND_NS MRAIL_NS_PER_SEC

typedef struct report {
    const char *dir;
    const char *file;     /* the archive; NULL for this machine */
    collect_view_t *view; /* of the archive */
    const char *job;
    const char *path;  /* NULL for no page */
    double time_s;     /* 0 for no limit */
    double interval_s; /* 0 for the default */
    int json, force;
    FILE *stream;
    report_model_t model;
    report_files_t files;
    report_archive_t archive;
} report_t;

static volatile sig_atomic_t is_interrupted;

static void interrupt(int number)
{
    is_interrupted = 1;
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = interrupt};

    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

/* ---- the file ---- */

/* Opens the file before the recording. An old report remains intact until the
 * new one is written. */
static void open_file(report_t *report)
{
    int fd = open(report->path,
                  O_WRONLY | O_CREAT | O_CLOEXEC | (report->force ? 0 : O_EXCL),
                  0666);

    report->stream = (fd < 0) ? NULL : fdopen(fd, "w");
    if ((report->stream == NULL) && (errno == EEXIST)) {
        mrail_tool_fail(COMMAND, "%s exists; --force replaces it",
                        report->path);
    }
    if (report->stream == NULL) {
        mrail_tool_fail(COMMAND, "cannot write %s: %s", report->path,
                        strerror(errno));
    }
}

_Noreturn static void fail_write(const report_t *report, int error)
{
    mrail_tool_fail(COMMAND, "cannot write %s: %s; the report is incomplete",
                    report->path, strerror(error));
}

static void write_file(report_t *report)
{
    int error;

    /* A device cannot be truncated, and need not be. */
    if ((ftruncate(fileno(report->stream), 0) != 0) && (errno != EINVAL)) {
        fail_write(report, errno);
    }
    if (report_page(report->stream, &report->model) != 0) {
        mrail_tool_fail(COMMAND, "out of memory");
    }
    error = ferror(report->stream) ? errno : 0;
    if ((fclose(report->stream) != 0) && (error == 0)) {
        error = errno;
    }
    if (error != 0) {
        fail_write(report, error);
    }
}

static void write_json(const report_t *report)
{
    report_json(stdout, &report->model);
    if ((fflush(stdout) != 0) || ferror(stdout)) {
        mrail_tool_fail(COMMAND, "cannot write to stdout: %s", strerror(errno));
    }
}

/* ---- the recording ---- */

static void show_progress(const report_t *report, double elapsed_s)
{
    unsigned total = (unsigned)ceil(report->time_s);

    if (report->time_s > 0) {
        mrail_tool_progress(COMMAND, MRAIL_MIN((unsigned)elapsed_s, total - 1),
                            total, "seconds");
    }
}

static void report_sleep(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds,
                         .tv_nsec = (long)(fmod(seconds, 1) * 1e9)};

    (void)nanosleep(&t, NULL); /* a signal ends it */
}

/* Follows the job. Returns why the recording ends. */
static report_end_t record(report_t *report)
{
    mrail_ns_t begin_ns = mrail_clock_now(), found_ns = begin_ns;
    report_end_t end = REPORT_BY_JOB;

    catch_signals();
    while (report_look(&report->files) > 0) {
        mrail_ns_t now_ns = mrail_clock_now();
        double elapsed_s = (double)(now_ns - begin_ns) / 1e9;

        if (is_interrupted) {
            end = REPORT_BY_SIGNAL;
            break;
        }
        if ((report->time_s > 0) && (elapsed_s >= report->time_s)) {
            end = REPORT_BY_TIME;
            break;
        }
        if (now_ns - found_ns >= FIND_NS) {
            report_find(&report->files);
            found_ns = now_ns;
        }
        show_progress(report, elapsed_s);
        report_sleep((report->time_s > 0)
                         ? fmin(report->interval_s, report->time_s - elapsed_s)
                         : report->interval_s);
    }
    mrail_tool_progress(COMMAND, 1, 1, "");
    return end;
}

/* Returns the time of the report: the current time, or the archive's time. */
static uint64_t now(const report_t *report)
{
    return (report->view != NULL) ? report_archive_time(report->view)
                                  : mrail_page_now();
}

/* Collects all data of the job. */
static void collect(report_t *report, int is_live)
{
    report_end_t end =
        (report->view != NULL) ? REPORT_OF_ARCHIVE : REPORT_NOT_LIVE;

    if (is_live) {
        end = record(report);
    } else {
        report_rings(&report->files);
    }
    report_read_plans(&report->files);
    report_finish(&report->model, now(report), end);
}

/* Opens the files of the job. Returns 1 if it can be followed. */
static int start(report_t *report)
{
    report_model_t *model = &report->model;
    report_files_t *files = &report->files;
    unsigned refused;
    int is_live;

    files->view = report->view;
    files->dir = (report->view != NULL) ? report->view->dir : report->dir;
    files->source = (report->view != NULL) ? report->file : report->dir;
    files->model = model;
    report_select(files, report->job, &is_live, &refused);
    files->is_still = !is_live || (report->view != NULL);
    report_init(model, files->job, now(report),
                (uint64_t)(report->interval_s * 1e9));
    model->files_refused = refused;
    if (report->view != NULL) {
        report_take_archive(files, &report->archive);
    } else {
        (void)gethostname(model->host, sizeof(model->host) - 1);
    }
    report_find(files);
    model->samples = (unsigned)files->is_still;
    /* The processes may have exited since then. */
    if (model->num_processes == 0) {
        mrail_tool_fail(COMMAND, "job %s ended before its files were read",
                        files->job);
    }
    return !files->is_still;
}

static void run(report_t *report)
{
    int is_live = start(report);
    unsigned count;

    if (report->path != NULL) {
        open_file(report);
    }
    collect(report, is_live);
    if (report->path != NULL) {
        write_file(report);
    }
    if (report->json) {
        write_json(report);
    } else {
        count = report->model.num_processes;
        printf("%s: %u process%s; open it in a browser\n", report->path, count,
               (count == 1) ? "" : "es");
    }
    report_close(&report->files);
    report_cleanup(&report->model);
}

/* ---- options ---- */

#define FIELD(_name) offsetof(report_t, _name)

static const mrail_option_t options[] = {
    {"-o|--output", "FILE", "write the report to FILE, an HTML page",
     MRAIL_OPTION_TEXT, FIELD(path), 0, 0, NULL},
    {"--json", NULL, "print the figures of the report as a JSON object",
     MRAIL_OPTION_FLAG, FIELD(json), 0, 0, NULL},
    {"--force", NULL, "replace FILE if it exists", MRAIL_OPTION_FLAG,
     FIELD(force), 0, 0, NULL},
    {"--time", "TIME",
     "follow a running job for this time, 0.1 to 604800 seconds (until it "
     "ends, or ctrl-C)",
     MRAIL_OPTION_SECONDS, FIELD(time_s), 100, 604800000, NULL},
    {"--interval", "TIME",
     "time between two samples of a running job, 0.1 to 60 seconds (default: "
     "0.5)",
     MRAIL_OPTION_SECONDS, FIELD(interval_s), 100, 60000, NULL},
    {"--dir", "DIR",
     "telemetry directory, instead of UCX_MRAIL_TELEMETRY_DIR "
     "(default: " MRAIL_TELE_DIR ")",
     MRAIL_OPTION_TEXT, FIELD(dir), 0, 0, NULL},
    {"--archive", "FILE", "report on a job from a mrail collect archive",
     MRAIL_OPTION_TEXT, FIELD(file), 0, 0, NULL},
    {.names = NULL}};

static const char *const synopsis[] = {
    "-o FILE [--time TIME] [JOB]", "--json [--time TIME] [JOB]",
    "--archive FILE [-o FILE] [--json] [JOB]", NULL};

static const mrail_command_t command = {
    .name = COMMAND,
    .synopsis = synopsis,
    .about =
        "Writes one HTML page about a job of this user on this machine: bandwidth\n"
        "over time, failures, the load of the rails, the slowest ranks, counters and\n"
        "parameters. The page needs no network.\n"
        "\n"
        "Follows a running job until it ends. For a job that ended abnormally, it\n"
        "reports what the telemetry files still contain. Without JOB, there must be\n"
        "only one job, or only one running job. With --archive, the page shows the\n"
        "ranks of all hosts in the archive, at the time it was collected.\n",
    .options = options,
    .epilog = "Exit status: 0 done, 1 no such job, or failure, 2 usage.\n",
    .operands = 1};

static void check_options(const report_t *report)
{
    if ((report->path == NULL) && !report->json) {
        mrail_tool_usage(COMMAND, "give -o FILE, or --json");
    }
    if ((report->path == NULL) && report->force) {
        mrail_tool_usage(COMMAND, "--force requires -o FILE");
    }
    if ((report->file != NULL) &&
        ((report->dir != NULL) || (report->time_s > 0) ||
         (report->interval_s > 0))) {
        mrail_tool_usage(COMMAND, "--archive cannot be combined with %s",
                         (report->dir != NULL)  ? "--dir"
                         : (report->time_s > 0) ? "--time"
                                                : "--interval");
    }
}

int main(int argc, char **argv)
{
    report_t report = {.interval_s = 0};
    int at = mrail_options_parse(&command, argv, &report);

    check_options(&report);
    if ((argv[at] != NULL) && (argv[at + 1] != NULL)) {
        mrail_tool_usage(COMMAND, "unknown argument '%s'", argv[at + 1]);
    }
    report.job = argv[at];
    report.dir = pages_dir(report.dir);
    report.interval_s = (report.interval_s > 0) ? report.interval_s : 0.5;
    if (report.file != NULL) {
        report.view = collect_view_open(COMMAND, report.file);
    }
    run(&report);
    collect_view_close(report.view);
    return 0;
}
