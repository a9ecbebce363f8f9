/* mrail trace: follows the trace rings of this user's processes. This file
 * handles options, files and intervals. */
#include "config.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/number.h"
#include "telemetry/follow.h"
#include "tools/options.h"
#include "tools/tool.h"
#include "tools/trace_show.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COMMAND "trace"
/* Interval at which a ring is read. A ring of 4096 records takes longer to
 * fill, even with chunks of 64 KiB at 200 Gb/s. */
#define LOOK_NS (10 * MRAIL_NS_PER_MS)
#define BATCH 512u

/* A process whose ring is followed. */
typedef struct trace_source {
    char path[MRAIL_TELE_PATH];
    mrail_page_t *page;
    mrail_follow_t follow;      /* fd is -1 after the process has ended */
    int has_past;               /* this interval includes earlier records */
    int is_broken;              /* the file is no longer valid */
    mrail_ring_reader_t before; /* counts at the start of the interval */
    trace_table_t table;
} trace_source_t;

typedef struct trace {
    const char *selector; /* process id or job; NULL: all processes */
    const char *dir;
    const char *ranks;
    double interval_s;
    uint64_t count; /* 0: no limit */
    int past;
    int raw;
    int json;

    int complain; /* reports files that cannot be read */
    trace_source_t **sources;
    unsigned num_sources;
} trace_t;

/* ---- processes ---- */

static int is_wanted(const trace_t *trace, const mrail_page_t *page)
{
    char pid[16];

    snprintf(pid, sizeof(pid), "%u", page->head.pid);
    if ((trace->selector != NULL) && (strcmp(trace->selector, pid) != 0) &&
        (strcmp(trace->selector, page->job) != 0)) {
        return 0;
    }
    return (trace->ranks == NULL) ||
           ((page->rank >= 0) &&
            (mrail_number_in_list(trace->ranks, (uint64_t)page->rank) == 1));
}

static int is_known(const trace_t *trace, const char *path)
{
    for (unsigned i = 0; i < trace->num_sources; ++i) {
        if (strcmp(trace->sources[i]->path, path) == 0) {
            return 1;
        }
    }
    return 0;
}

static void source_free(trace_source_t *source)
{
    trace_table_clear(&source->table);
    free(source->page);
    free(source);
}

/* Returns the process of the page at `path`, or NULL with the reason in
 * *status_p. ALIVE: the process is not wanted. */
static trace_source_t *source_open(const trace_t *trace, const char *path,
                                   mrail_page_status_t *status_p)
{
    trace_source_t *source = calloc(1, sizeof(*source));
    mrail_page_status_t status;

    if (source != NULL) {
        source->page = malloc(sizeof(*source->page));
    }
    if ((source == NULL) || (source->page == NULL)) {
        mrail_tool_fail(COMMAND, "out of memory");
    }
    snprintf(source->path, sizeof(source->path), "%s", path);
    status = mrail_page_read(path, source->page);
    *status_p = status;
    if ((status == MRAIL_PAGE_ALIVE) || (status == MRAIL_PAGE_ENDED)) {
        *status_p = MRAIL_PAGE_ALIVE;
        if (is_wanted(trace, source->page)) {
            *status_p = mrail_follow_open(&source->follow, path);
            if (*status_p == MRAIL_PAGE_ALIVE) {
                source->has_past = trace->past || (status == MRAIL_PAGE_ENDED);
                return source;
            }
        }
    }
    source_free(source);
    return NULL;
}

static void visit(const char *path, void *arg)
{
    trace_t *trace = arg;
    trace_source_t *source;
    mrail_page_status_t status;

    if (is_known(trace, path)) {
        return;
    }
    source = source_open(trace, path, &status);
    if (source == NULL) {
        /* GONE: the process ended normally after the directory was read. */
        if (trace->complain && (status != MRAIL_PAGE_ALIVE) &&
            (status != MRAIL_PAGE_GONE)) {
            fprintf(stderr, "mrail trace: %s: %s\n", path,
                    mrail_page_status_text(status));
        }
        return;
    }
    if (!source->has_past) {
        (void)mrail_follow_skip(&source->follow);
    }
    source->before = source->follow.reader;
    if (!mrail_grow(&trace->sources, trace->num_sources + 1,
                    sizeof(*trace->sources))) {
        mrail_tool_fail(COMMAND, "out of memory");
    }
    trace->sources[trace->num_sources++] = source;
}

/* Opens the rings of processes that have started since the last call. */
static void find_processes(trace_t *trace)
{
    int ret = mrail_page_each(trace->dir, visit, trace);

    if (ret < 0) {
        mrail_tool_fail(COMMAND, "cannot read %s: %s", trace->dir,
                        strerror(-ret));
    }
}

/* ---- records ---- */

static void take_record(const trace_t *trace, trace_source_t *source,
                        const mrail_ring_record_t *record)
{
    if (!trace->raw) {
        if (trace_table_add(&source->table, record) != 0) {
            mrail_tool_fail(COMMAND, "out of memory");
        }
    } else if (trace->json) {
        trace_record_json(stdout, source->page, record);
    } else {
        trace_record_print(stdout, source->page, record);
    }
}

static int is_open(const trace_source_t *source)
{
    return source->follow.fd >= 0;
}

/* Reads the new records, but not many more than two rings hold, because the
 * writer may be as fast as this reader. */
static void take_records(const trace_t *trace, trace_source_t *source)
{
    static mrail_ring_record_t records[BATCH];
    uint32_t reads = 4 + 2 * source->follow.reader.num_records / BATCH;
    int count = !source->is_broken;

    for (; (count > 0) && (reads > 0); --reads) {
        count = mrail_follow_read(&source->follow, records, BATCH);
        for (int i = 0; i < count; ++i) {
            take_record(trace, source, &records[i]);
        }
    }
    if (count < 0) {
        fprintf(stderr, "mrail trace: %s: %s\n", source->path,
                mrail_page_status_text(MRAIL_PAGE_BROKEN));
        source->is_broken = 1;
    }
}

static void follow_interval(const trace_t *trace)
{
    mrail_ns_t now_ns = mrail_clock_now();
    mrail_ns_t end_ns = now_ns + (mrail_ns_t)(trace->interval_s * 1e9);

    while (now_ns < end_ns) {
        mrail_ns_t left_ns = MRAIL_MIN(end_ns - now_ns, LOOK_NS);
        struct timespec t = {.tv_nsec = (long)left_ns};

        for (unsigned i = 0; i < trace->num_sources; ++i) {
            if (is_open(trace->sources[i])) {
                take_records(trace, trace->sources[i]);
            }
        }
        fflush(stdout);
        (void)nanosleep(&t, NULL);
        now_ns = mrail_clock_now();
    }
}

/* ---- intervals ---- */

/* Copies the page again, to update the lanes and the clock offset. If the
 * process has removed the page, the old copy is kept. */
static void read_page(trace_source_t *source)
{
    static mrail_page_t page;
    mrail_page_status_t status = mrail_page_read(source->path, &page);

    if ((status == MRAIL_PAGE_ALIVE) || (status == MRAIL_PAGE_ENDED)) {
        *source->page = page;
    }
}

/* Reads the last records of the interval, and describes the process. */
static trace_process_t finish_source(const trace_t *trace,
                                     trace_source_t *source)
{
    const mrail_ring_reader_t *reader = &source->follow.reader;
    trace_process_t process = {.elapsed_s = trace->interval_s};

    /* The process may end at any time, so its last records are read after the
     * check. */
    process.alive = mrail_follow_is_alive(&source->follow);
    read_page(source);
    take_records(trace, source);
    trace_table_finish(&source->table);
    if (source->has_past) {
        process.elapsed_s =
            (double)(source->table.last_ns - source->table.first_ns) / 1e9;
    }
    process.page = source->page;
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

/* Starts the next interval. Closes the ring of a process that has ended. */
static void restart_source(trace_source_t *source, int alive)
{
    trace_table_clear(&source->table);
    source->before = source->follow.reader;
    source->has_past = 0;
    if (!alive || source->is_broken) {
        mrail_follow_close(&source->follow);
    }
}

/* Shows the figures of an interval. Returns the number of processes that still
 * run. */
static unsigned end_interval(trace_t *trace)
{
    trace_process_t *processes =
        calloc(trace->num_sources + 1, sizeof(*processes));
    unsigned count = 0, alive = 0, at = 0;

    if (processes == NULL) {
        mrail_tool_fail(COMMAND, "out of memory");
    }
    for (unsigned i = 0; i < trace->num_sources; ++i) {
        if (is_open(trace->sources[i])) {
            processes[count++] = finish_source(trace, trace->sources[i]);
        }
    }
    show(trace, processes, count);
    for (unsigned i = 0; i < trace->num_sources; ++i) {
        trace_source_t *source = trace->sources[i];

        if (is_open(source)) {
            restart_source(source, processes[at++].alive);
            alive += is_open(source);
        }
    }
    free(processes);
    return alive;
}

static int run(trace_t *trace)
{
    unsigned alive = 1;

    trace->complain = 1;
    find_processes(trace);
    trace->complain = 0;
    if (trace->num_sources == 0) {
        mrail_tool_fail(COMMAND,
                        "no process %s%s keeps records in %s; it must run with "
                        "UCX_TLS=mrail and UCX_MRAIL_TELEMETRY=y",
                        (trace->selector != NULL) ? "or job " : "of this user",
                        (trace->selector != NULL) ? trace->selector : "",
                        trace->dir);
    }
    for (uint64_t i = 0;
         (alive != 0) && ((trace->count == 0) || (i < trace->count)); ++i) {
        if (i != 0) {
            find_processes(trace);
        }
        follow_interval(trace);
        alive = end_interval(trace);
    }
    for (unsigned i = 0; i < trace->num_sources; ++i) {
        if (is_open(trace->sources[i])) {
            mrail_follow_close(&trace->sources[i]->follow);
        }
        source_free(trace->sources[i]);
    }
    free(trace->sources);
    return 0;
}

/* ---- options ---- */

static void take_ranks(void *target, const char *text)
{
    if (mrail_number_in_list(text, 0) < 0) {
        mrail_tool_usage(COMMAND, "--rank %s: expected a list such as 0,4-7",
                         text);
    }
    ((trace_t *)target)->ranks = text;
}

#define FIELD(_name) offsetof(trace_t, _name)

static const mrail_option_t options[] = {
    {"--interval", "TIME", "time that a table covers, 0.1 to 3600 seconds (1)",
     MRAIL_OPTION_SECONDS, FIELD(interval_s), 100, 3600000, NULL},
    {"--count", "N",
     "number of intervals (unlimited on a terminal, otherwise 1)",
     MRAIL_OPTION_UINT64, FIELD(count), 1, UINT32_MAX, NULL},
    {"--rank", "LIST", "only these ranks: 0,4-7", MRAIL_OPTION_CALL, 0, 0, 0,
     take_ranks},
    {"--past", NULL, "begin with the records that are already in the rings",
     MRAIL_OPTION_FLAG, FIELD(past), 0, 0, NULL},
    {"--raw", NULL, "print each record on a line", MRAIL_OPTION_FLAG,
     FIELD(raw), 0, 0, NULL},
    {"--json", NULL,
     "an object for each interval, or with --raw for each record",
     MRAIL_OPTION_FLAG, FIELD(json), 0, 0, NULL},
    {"--dir", "DIR",
     "directory of the telemetry pages, instead of UCX_MRAIL_TELEMETRY_DIR "
     "(" MRAIL_TELE_DIR ")",
     MRAIL_OPTION_TEXT, FIELD(dir), 0, 0, NULL},
    {.names = NULL}};

static const char *const synopsis[] = {
    "[--interval TIME] [--count N] [--rank LIST] [PID|JOB]",
    "--raw [--json] [--count N] [--rank LIST] [PID|JOB]", NULL};

static const mrail_command_t command = {
    .name = COMMAND,
    .synopsis = synopsis,
    .about =
        "Follows the chunks and active messages of this user's processes on this\n"
        "machine, or of one process or job. For each lane and kind it shows:\n"
        "\n"
        "  COUNT   chunks or messages      MB/S    over the interval\n"
        "  LOWEST  lowest rate over eight chunks in a row, in MB/s\n"
        "  P50, P99, MAX   time from post to completion, in microseconds\n"
        "  FAILED  chunks that failed; other lanes replay them\n"
        "\n"
        "A process that was killed is shown once, with its last records. Following\n"
        "does not slow the processes down.\n",
    .options = options,
    .epilog =
        "Exit status: 0 done, 1 no process to follow, or failure, 2 usage.\n",
    .operands = 1};

int main(int argc, char **argv)
{
    trace_t trace = {.interval_s = 1, .count = isatty(STDOUT_FILENO) ? 0 : 1};
    int at = mrail_options_parse(&command, argv, &trace);

    trace.selector = argv[at];
    if ((trace.selector != NULL) && (argv[at + 1] != NULL)) {
        mrail_tool_usage(COMMAND, "%s: expected one process or job",
                         argv[at + 1]);
    }
    trace.dir = pages_dir(trace.dir);
    return run(&trace);
}
