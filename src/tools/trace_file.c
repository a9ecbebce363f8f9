#include "config.h"
#include "tools/trace_file.h"

#include "base/clock.h"
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

#define COMMAND "trace"
/* Number of reads of the rings between two reads of calls and events, and
 * between two searches for new processes. */
#define LOOKS_CALLS 5u
#define LOOKS_FIND 100u
/* Clock offsets that differ by less belong to the same clock: the difference is
 * that of two measurements. */
#define SAME_CLOCK_NS MRAIL_NS_PER_SEC

typedef struct writing {
    const trace_file_t *file;
    trace_sources_t *sources;
    FILE *stream;
    perfetto_t trace;
    uint64_t offset_ns; /* CLOCK_REALTIME minus CLOCK_MONOTONIC, of this
                         * process */
    mrail_ns_t begin_ns;
    unsigned num_traced;  /* sources that have tracks */
    mrail_calls_t *calls; /* memory for a copy */
    mrail_plans_t *plans; /* the same */
} writing_t;

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

static FILE *open_stream(const trace_file_t *file)
{
    int fd =
        open(file->path,
             O_WRONLY | O_CREAT | O_CLOEXEC | (file->force ? O_TRUNC : O_EXCL),
             0666);
    FILE *stream = (fd < 0) ? NULL : fdopen(fd, "w");

    if ((stream == NULL) && (errno == EEXIST)) {
        mrail_tool_fail(COMMAND, "%s exists; --force replaces it", file->path);
    }
    if (stream == NULL) {
        mrail_tool_fail(COMMAND, "cannot write %s: %s", file->path,
                        strerror(errno));
    }
    return stream;
}

static uint64_t clock_of(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * MRAIL_NS_PER_SEC + (uint64_t)t.tv_nsec;
}

static void begin(writing_t *writing)
{
    uint64_t monotonic_ns = clock_of(CLOCK_MONOTONIC);
    uint64_t real_ns = clock_of(CLOCK_REALTIME);

    writing->begin_ns = monotonic_ns;
    writing->offset_ns = real_ns - monotonic_ns;
    perfetto_begin(&writing->trace, writing->stream, real_ns, monotonic_ns,
                   clock_of(CLOCK_BOOTTIME));
}

/* Closes the file. Exits if anything could not be written. */
static void end(writing_t *writing)
{
    int error = ferror(writing->stream) ? errno : 0;

    if ((fclose(writing->stream) != 0) && (error == 0)) {
        error = errno;
    }
    if (error != 0) {
        mrail_tool_fail(COMMAND, "cannot write %s: %s; the trace is incomplete",
                        writing->file->path, strerror(error));
    }
}

/* ---- processes ---- */

static int rank_of(const void *arg, uint64_t peer)
{
    const trace_sources_t *sources = arg;

    for (unsigned i = 0; i < sources->count; ++i) {
        if (sources->items[i]->id == peer) {
            return sources->items[i]->page->rank;
        }
    }
    return -1;
}

/* Opens another file of a process, if it is one. */
static void open_other(const trace_source_t *source, const char *path,
                       int *fd_p)
{
    const char *id = strrchr(source->path, '.');
    struct stat st;

    /* The names are the same up to the id. */
    if ((*fd_p < 0) && (id != NULL) &&
        (strncmp(path, source->path, (size_t)(id - source->path) + 1) == 0)) {
        *fd_p = mrail_tele_file_open(path, &st);
    }
}

static void open_calls(const char *path, void *arg)
{
    trace_source_t *source = arg;

    open_other(source, path, &source->calls_fd);
}

static void open_plans(const char *path, void *arg)
{
    trace_source_t *source = arg;

    open_other(source, path, &source->plans_fd);
}

/* A process creates the file with its first forecast. */
static void open_new_plans(const char *path, void *arg)
{
    const trace_sources_t *sources = arg;

    for (unsigned i = 0; i < sources->count; ++i) {
        if (trace_source_is_open(sources->items[i])) {
            open_plans(path, sources->items[i]);
        }
    }
}

/* The other files of a process are in the same directory as its page. */
static void find_others(trace_source_t *source)
{
    char dir[MRAIL_TELE_PATH];
    char *slash;

    snprintf(dir, sizeof(dir), "%s", source->path);
    slash = strrchr(dir, '/');
    if (slash != NULL) {
        slash[1] = '\0';
        /* Callers append "/NAME", so remove the slash, except from "/". */
        slash[(slash == dir) ? 1 : 0] = '\0';
        (void)mrail_tele_file_each(dir, MRAIL_TELE_CALLS, open_calls, source);
        (void)mrail_tele_file_each(dir, MRAIL_TELE_PLANS, open_plans, source);
    }
}

/* Returns the offset for a process. The processes of this machine share a
 * clock, so all use the same value, which keeps the order of their events. A
 * file from another machine has a clock of its own. */
static uint64_t offset_for(const writing_t *writing, const mrail_page_t *page)
{
    uint64_t a = page->clock_offset_ns, b = writing->offset_ns;
    uint64_t difference_ns = (a > b) ? a - b : b - a;

    return (difference_ns < SAME_CLOCK_NS) ? b : a;
}

static void start_source(writing_t *writing, trace_source_t *source)
{
    const trace_tracks_config_t config = {.page = source->page,
                                          .host = source->host,
                                          .number = writing->num_traced,
                                          .offset_ns =
                                              offset_for(writing, source->page),
                                          .has_past = source->has_past,
                                          .rank_of = rank_of,
                                          .arg = writing->sources};

    source->tracks = trace_tracks_create(&writing->trace, &config);
    source->plans = malloc(sizeof(*source->plans));
    if ((source->tracks == NULL) || (source->plans == NULL)) {
        mrail_tool_fail(COMMAND, "out of memory");
    }
    trace_plans_init(source->plans, &writing->trace,
                     trace_tracks_id(source->tracks), config.offset_ns,
                     config.has_past);
    find_others(source);
}

/* Starts the tracks of processes that have been found since the last call. */
static void start_sources(writing_t *writing)
{
    for (; writing->num_traced < writing->sources->count;
         ++writing->num_traced) {
        start_source(writing, writing->sources->items[writing->num_traced]);
    }
}

static void take_record(void *arg, trace_source_t *source,
                        const mrail_ring_record_t *record)
{
    if (trace_tracks_record(source->tracks, record) != 0) {
        mrail_tool_fail(COMMAND, "out of memory");
    }
}

/* Returns the time on the clock of the process's records. */
static uint64_t now_of(const trace_sources_t *sources,
                       const trace_source_t *source)
{
    return (sources->view != NULL)
               ? collect_view_time(sources->view,
                                   mrail_tele_file_host(source->path))
               : mrail_clock_now();
}

/* Reads the new records, and reports whether the file is still valid. */
static void take(const trace_sources_t *sources, trace_source_t *source)
{
    int was_broken = source->is_broken;

    trace_source_take(source, take_record, NULL);
    trace_tracks_missing(source->tracks, &source->follow.reader,
                         now_of(sources, source));
    if (source->is_broken && !was_broken) {
        trace_tracks_note(source->tracks, now_of(sources, source),
                          "the telemetry file is no longer valid");
    }
}

/* Returns a copy of the process's calls, or NULL. */
static const mrail_calls_t *read_calls(const writing_t *writing,
                                       const trace_source_t *source)
{
    mrail_page_status_t status;

    if (source->calls_fd < 0) {
        return NULL;
    }
    status = mrail_calls_read_fd(source->calls_fd, writing->calls);
    return ((status == MRAIL_PAGE_ALIVE) || (status == MRAIL_PAGE_ENDED))
               ? writing->calls
               : NULL;
}

/* Returns a copy of the process's forecasts, or NULL. */
static const mrail_plans_t *read_plans(const writing_t *writing,
                                       const trace_source_t *source)
{
    mrail_page_status_t status;

    if (source->plans_fd < 0) {
        return NULL;
    }
    status = mrail_plans_read_fd(source->plans_fd, writing->plans);
    return (((status == MRAIL_PAGE_ALIVE) || (status == MRAIL_PAGE_ENDED)) &&
            (writing->plans->pid == source->page->head.pid))
               ? writing->plans
               : NULL;
}

static void look_at_calls(const writing_t *writing, trace_source_t *source)
{
    /* A forecast is older than the calls in which it is found. */
    const mrail_plans_t *plans = read_plans(writing, source);
    const mrail_calls_t *calls = read_calls(writing, source);

    if (calls != NULL) {
        trace_tracks_calls(source->tracks, calls);
    }
    trace_plans_add(source->plans, plans, calls);
    trace_source_read_page(source);
    trace_tracks_page(source->tracks, source->page);
}

/* Writes the rest of a process, and closes its files. */
static void finish_source(const writing_t *writing, trace_source_t *source)
{
    const mrail_plans_t *plans;
    const mrail_calls_t *calls;

    take(writing->sources, source);
    trace_source_read_page(source);
    trace_tracks_page(source->tracks, source->page);
    plans = read_plans(writing, source);
    calls = read_calls(writing, source);
    trace_plans_add(source->plans, plans, calls);
    trace_plans_finish(source->plans, calls);
    trace_tracks_finish(source->tracks, calls,
                        now_of(writing->sources, source));
    mrail_follow_close(&source->follow);
}

/* Reads all rings. Returns the number of processes that are still open. */
static unsigned look(writing_t *writing, unsigned number)
{
    unsigned num_open = 0;

    if (number % LOOKS_FIND == LOOKS_FIND - 1) {
        trace_sources_find(writing->sources);
        start_sources(writing);
        (void)mrail_tele_file_each(writing->sources->dir, MRAIL_TELE_PLANS,
                                   open_new_plans, writing->sources);
    }
    for (unsigned i = 0; i < writing->sources->count; ++i) {
        trace_source_t *source = writing->sources->items[i];
        int alive;

        if (!trace_source_is_open(source)) {
            continue;
        }
        /* The process may exit at any time, so its last records are read after
         * the check. */
        alive = (writing->sources->view == NULL) &&
                mrail_follow_is_alive(&source->follow) && !source->is_broken;
        if (!alive) {
            finish_source(writing, source);
            continue;
        }
        take(writing->sources, source);
        if (number % LOOKS_CALLS == 0) {
            look_at_calls(writing, source);
        }
        ++num_open;
    }
    return num_open;
}

/* ---- the loop ---- */

static void show_progress(const writing_t *writing, double elapsed_s)
{
    const trace_file_t *file = writing->file;

    if (file->duration_s > 0) {
        unsigned total = (unsigned)ceil(file->duration_s);

        mrail_tool_progress(COMMAND, MRAIL_MIN((unsigned)elapsed_s, total - 1),
                            total, "seconds");
    } else {
        unsigned total = (unsigned)(file->limit >> 20) + 1;

        mrail_tool_progress(
            COMMAND,
            MRAIL_MIN((unsigned)(writing->trace.bytes >> 20), total - 1), total,
            "MiB");
    }
}

static void follow(writing_t *writing)
{
    const struct timespec t = {.tv_nsec = (long)TRACE_LOOK_NS};
    const trace_file_t *file = writing->file;
    double elapsed_s = 0;

    for (unsigned i = 0; look(writing, i) != 0; ++i) {
        elapsed_s = (double)(mrail_clock_now() - writing->begin_ns) / 1e9;
        if (is_interrupted || ferror(writing->stream) ||
            ((file->duration_s > 0) && (elapsed_s >= file->duration_s))) {
            break;
        }
        if (writing->trace.bytes >= file->limit) {
            fprintf(stderr,
                    "mrail trace: the trace ends after %.1f s, because it has "
                    "reached --limit\n",
                    elapsed_s);
            break;
        }
        show_progress(writing, elapsed_s);
        (void)nanosleep(&t, NULL);
    }
    mrail_tool_progress(COMMAND, 1, 1, "");
}

static void finish(writing_t *writing)
{
    for (unsigned i = 0; i < writing->sources->count; ++i) {
        trace_source_t *source = writing->sources->items[i];

        if (trace_source_is_open(source)) {
            finish_source(writing, source);
        }
    }
}

/* ---- the result ---- */

static void note(const trace_source_t *source, uint64_t count, const char *what)
{
    char name[PAGES_PROCESS];

    if (count != 0) {
        pages_process(name, sizeof(name), source->page);
        fprintf(stderr, "%s: %llu %s\n", name, (unsigned long long)count, what);
    }
}

static void report(const writing_t *writing)
{
    uint64_t records = 0;

    for (unsigned i = 0; i < writing->sources->count; ++i) {
        const trace_source_t *source = writing->sources->items[i];
        const trace_totals_t *totals = trace_tracks_totals(source->tracks);

        records += totals->records;
        note(source, totals->missed,
             "records were overwritten before they were read; set "
             "UCX_MRAIL_TELEMETRY_RECORDS higher");
        note(source, totals->invalid, "records are not valid");
        note(source, totals->unshown, "records do not fit into the trace");
        note(source, totals->missed_calls,
             "MPI calls were overwritten before they were read");
        note(source, totals->missed_events,
             "events were overwritten before they were read");
        note(source, source->plans->missed,
             "forecasts were replaced before they were read");
    }
    printf("%s: %llu records of %u process%s, %.1f MiB; open it at "
           "https://ui.perfetto.dev\n",
           writing->file->path, (unsigned long long)records,
           writing->sources->count, (writing->sources->count == 1) ? "" : "es",
           (double)writing->trace.bytes / (1 << 20));
}

int trace_file_write(const trace_file_t *file, trace_sources_t *sources)
{
    writing_t writing = {.file = file, .sources = sources};

    sources->past_of_new = 1;
    trace_sources_find(sources);
    writing.calls = malloc(sizeof(*writing.calls));
    writing.plans = malloc(sizeof(*writing.plans));
    if ((writing.calls == NULL) || (writing.plans == NULL)) {
        mrail_tool_fail(COMMAND, "out of memory");
    }
    writing.stream = open_stream(file);
    catch_signals();
    begin(&writing);
    start_sources(&writing);
    follow(&writing);
    finish(&writing);
    end(&writing);
    report(&writing);
    free(writing.calls);
    free(writing.plans);
    return 0;
}
