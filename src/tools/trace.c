/* mrail trace follows the trace rings of this user's processes. This file
 * handles options and intervals. */
#include "config.h"
#include "base/clock.h"
#include "base/number.h"
#include "tools/options.h"
#include "tools/tool.h"
#include "tools/trace_file.h"
#include "tools/trace_show.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define COMMAND "trace"

typedef struct trace {
    trace_sources_t sources;
    trace_file_t file;    /* path NULL: tables or records */
    const char *archive;  /* NULL for the processes of this machine */
    collect_view_t *view; /* of the archive */
    double interval_s;
    uint64_t count; /* 0 for no limit */
    int raw;
    int json;
} trace_t;

/* ---- records ---- */

static void take_record(void *arg, trace_source_t *source,
                        const mrail_ring_record_t *record)
{
    const trace_t *trace = arg;

    if (!trace->raw) {
        if (trace_table_add(&source->table, record) != 0) {
            mrail_tool_fail(COMMAND, "out of memory");
        }
    } else if (trace->json) {
        trace_record_json(stdout, source->page, source->host, record);
    } else {
        trace_record_print(stdout, source->page, source->host, record);
    }
}

static void follow_interval(trace_t *trace)
{
    mrail_ns_t now_ns = mrail_clock_now();
    mrail_ns_t end_ns = now_ns + (mrail_ns_t)(trace->interval_s * 1e9);

    while (now_ns < end_ns) {
        mrail_ns_t left_ns = MRAIL_MIN(end_ns - now_ns, TRACE_LOOK_NS);
        struct timespec t = {.tv_nsec = (long)left_ns};

        for (unsigned i = 0; i < trace->sources.count; ++i) {
            trace_source_t *source = trace->sources.items[i];

            if (trace_source_is_open(source)) {
                trace_source_take(source, take_record, trace);
            }
        }
        fflush(stdout);
        (void)nanosleep(&t, NULL);
        now_ns = mrail_clock_now();
    }
}

/* ---- intervals ---- */

/* Reads the last records of the interval, and describes the process. */
static trace_process_t finish_source(trace_t *trace, trace_source_t *source)
{
    const mrail_ring_reader_t *reader = &source->follow.reader;
    trace_process_t process = {.elapsed_s = trace->interval_s};

    /* The process may exit at any time, so its last records are read after the
     * check. */
    process.alive = mrail_follow_is_alive(&source->follow);
    trace_source_read_page(source);
    trace_source_take(source, take_record, trace);
    trace_table_finish(&source->table);
    if (source->has_past) {
        process.elapsed_s =
            (double)(source->table.last_ns - source->table.first_ns) / 1e9;
    }
    process.page = source->page;
    process.host = source->host;
    process.table = source->table;
    process.missed = reader->missed - source->before.missed;
    process.invalid = reader->invalid - source->before.invalid;
    return process;
}

static void show(const trace_t *trace, const trace_process_t *processes,
                 unsigned count)
{
    if (trace->raw) {
        trace_notes_print(stderr, processes, count);
    } else if (trace->json) {
        trace_table_json(stdout, processes, count, trace->interval_s);
    } else {
        trace_table_print(stdout, processes, count);
    }
    fflush(stdout);
}

/* Starts the next interval. Closes the ring of a process that has exited. */
static void restart_source(trace_source_t *source, int alive)
{
    trace_table_clear(&source->table);
    source->before = source->follow.reader;
    source->has_past = 0;
    if (!alive || source->is_broken) {
        mrail_follow_close(&source->follow);
    }
}

/* Shows the figures of an interval. Returns the number of running processes. */
static unsigned end_interval(trace_t *trace)
{
    trace_process_t *processes =
        calloc(trace->sources.count + 1, sizeof(*processes));
    unsigned count = 0, alive = 0, at = 0;

    if (processes == NULL) {
        mrail_tool_fail(COMMAND, "out of memory");
    }
    for (unsigned i = 0; i < trace->sources.count; ++i) {
        if (trace_source_is_open(trace->sources.items[i])) {
            processes[count++] = finish_source(trace, trace->sources.items[i]);
        }
    }
    show(trace, processes, count);
    for (unsigned i = 0; i < trace->sources.count; ++i) {
        trace_source_t *source = trace->sources.items[i];

        if (trace_source_is_open(source)) {
            restart_source(source, processes[at++].alive);
            alive += trace_source_is_open(source);
        }
    }
    free(processes);
    return alive;
}

static void run(trace_t *trace)
{
    unsigned alive = 1;

    for (uint64_t i = 0;
         (alive != 0) && ((trace->count == 0) || (i < trace->count)); ++i) {
        trace_sources_find(&trace->sources);
        follow_interval(trace);
        alive = end_interval(trace);
    }
}

/* ---- options ---- */

static void take_ranks(void *target, const char *text)
{
    if (mrail_number_in_list(text, 0) < 0) {
        mrail_tool_usage(COMMAND, "--rank %s: expected a list such as 0,4-7",
                         text);
    }
    ((trace_t *)target)->sources.ranks = text;
}

#define FIELD(_name) offsetof(trace_t, _name)

static const mrail_option_t options[] = {
    {.help = "Tables:", .type = MRAIL_OPTION_HEADING},
    {"--interval", "TIME",
     "time that a table covers, 0.1 to 3600 seconds (default: 1)",
     MRAIL_OPTION_SECONDS, FIELD(interval_s), 100, 3600000, NULL},
    {"--count", "N",
     "number of intervals (default: unlimited on a terminal, otherwise 1)",
     MRAIL_OPTION_UINT64, FIELD(count), 1, UINT32_MAX, NULL},
    {"--raw", NULL, "print each record on a line", MRAIL_OPTION_FLAG,
     FIELD(raw), 0, 0, NULL},
    {"--json", NULL,
     "an object for each interval, or with --raw for each record",
     MRAIL_OPTION_FLAG, FIELD(json), 0, 0, NULL},
    {.help = "Perfetto trace:", .type = MRAIL_OPTION_HEADING},
    {"-o|--output", "FILE", "write a trace for https://ui.perfetto.dev",
     MRAIL_OPTION_TEXT, FIELD(file.path), 0, 0, NULL},
    {"--duration", "TIME",
     "time that the trace covers, 0.1 to 86400 seconds (until the processes "
     "exit, or ctrl-C)",
     MRAIL_OPTION_SECONDS, FIELD(file.duration_s), 100, 86400000, NULL},
    {"--limit", "SIZE", "size of FILE at which the trace ends (default: 1G)",
     MRAIL_OPTION_SIZE, FIELD(file.limit), 1, UINT64_C(1) << 40, NULL},
    {"--force", NULL, "replace FILE if it exists", MRAIL_OPTION_FLAG,
     FIELD(file.force), 0, 0, NULL},
    {.help = "Both:", .type = MRAIL_OPTION_HEADING},
    {"--rank", "LIST", "only these ranks: 0,4-7", MRAIL_OPTION_CALL, 0, 0, 0,
     take_ranks},
    {"--past", NULL, "begin with the records that are already in the rings",
     MRAIL_OPTION_FLAG, FIELD(sources.past), 0, 0, NULL},
    {"--dir", "DIR",
     "telemetry directory, instead of UCX_MRAIL_TELEMETRY_DIR "
     "(default: " MRAIL_TELE_DIR ")",
     MRAIL_OPTION_TEXT, FIELD(sources.dir), 0, 0, NULL},
    {"--archive", "FILE", "trace the records in a mrail collect archive",
     MRAIL_OPTION_TEXT, FIELD(archive), 0, 0, NULL},
    {.names = NULL}};

static const char *const synopsis[] = {
    "[--interval TIME] [--count N] [PID|JOB|PAGE...]",
    "--raw [--json] [--count N] [PID|JOB|PAGE...]",
    "-o FILE [--duration TIME] [PID|JOB|PAGE...]",
    "--archive FILE [--raw] [--json] [-o FILE] [PID|JOB...]", NULL};

static const mrail_command_t command = {
    .name = COMMAND,
    .synopsis = synopsis,
    .about =
        "Follows the chunks and active messages of this user's processes on this\n"
        "machine, or of some processes, jobs or telemetry pages.  For each lane and\n"
        "kind it shows:\n"
        "\n"
        "  COUNT   chunks or messages      MB/S    over the interval\n"
        "  LOWEST  lowest rate over eight chunks in a row, in MB/s\n"
        "  P50, P99, MAX   time from post to completion, in microseconds\n"
        "  FAILED  chunks that failed; other lanes replay them\n"
        "\n"
        "With -o, it writes all of them to a file that Perfetto opens, with the MPI\n"
        "calls and the events of the processes.\n"
        "\n"
        "A process that was killed is shown once, with its last records. Following\n"
        "does not slow the processes down.\n",
    .options = options,
    .epilog =
        "Exit status: 0 done, 1 no process to follow, or failure, 2 usage.\n",
    .operands = 1};

static void check_options(const trace_t *trace)
{
    if ((trace->file.path != NULL) && (trace->raw || trace->json)) {
        mrail_tool_usage(COMMAND, "-o cannot be combined with --raw or --json");
    }
    if ((trace->file.path == NULL) &&
        (trace->file.force || (trace->file.duration_s > 0))) {
        mrail_tool_usage(COMMAND, "%s requires -o FILE",
                         trace->file.force ? "--force" : "--duration");
    }
    if ((trace->archive != NULL) && (trace->sources.dir != NULL)) {
        mrail_tool_usage(COMMAND, "--archive cannot be combined with --dir");
    }
}

/* Opens the archive as the source of the records. An archive does not change,
 * so its records are those of one interval, which has already passed. */
static void open_archive(trace_t *trace)
{
    trace->view = collect_view_open(COMMAND, trace->archive);
    trace->sources.view = trace->view;
    trace->sources.dir = trace->view->dir;
    trace->sources.past = 1;
    trace->count = 1;
    trace->interval_s = 0;
}

int main(int argc, char **argv)
{
    trace_t trace = {.file.limit = UINT64_C(1) << 30,
                     .interval_s = 1,
                     .count = isatty(STDOUT_FILENO) ? 0 : 1};
    int at = mrail_options_parse(&command, argv, &trace), status = 0;

    check_options(&trace);
    trace.sources.selectors = argv + at;
    trace.sources.dir = pages_dir(trace.sources.dir);
    if (trace.archive != NULL) {
        open_archive(&trace);
    }
    if (trace.file.path != NULL) {
        status = trace_file_write(&trace.file, &trace.sources);
    } else {
        run(&trace);
    }
    trace_sources_cleanup(&trace.sources);
    collect_view_close(trace.view);
    return status;
}
