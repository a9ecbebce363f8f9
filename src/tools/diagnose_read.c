#include "config.h"
#include "tools/diagnose.h"

#include "base/grow.h"
#include "tools/proc.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct process {
    char path
        [MRAIL_TELE_PATH]; /* of the page or, without a page, of the calls */
    mrail_page_t *page;    /* may be NULL */
    mrail_calls_t *calls, *earlier;
    int alive;
    int host; /* index in an archive, or -1 for this machine */
    proc_threads_t before;
    int begins_job; /* 1 for the first process of its job */
} process_t;

struct diagnose_reading {
    const char *command;
    process_t *processes;
    unsigned num_processes;
    const collect_view_t *view; /* NULL for this machine */
    uint64_t sample_ns, now_ns;
    diagnose_rank_t *ranks; /* ranks of the last job that diagnose_job()
                             * returned */
};

static void *allocate(const diagnose_reading_t *reading, size_t size)
{
    void *memory = calloc(1, size);

    if (memory == NULL) {
        mrail_tool_fail(reading->command, "out of memory");
    }
    return memory;
}

/* ---- files ---- */

/* Returns the process of a file. Processes in different PID namespaces may have
 * the same pid, but ranks of a job are different. */
static process_t *process_of(diagnose_reading_t *reading, const char *path,
                             unsigned pid, int rank, const char *job)
{
    int host = mrail_tele_file_host(path);
    process_t *process;

    for (unsigned i = 0; i < reading->num_processes; ++i) {
        process = &reading->processes[i];
        if (process->host != host) {
            continue;
        }
        if (((process->calls != NULL) && (process->calls->pid == pid) &&
             (process->calls->rank == rank) &&
             (strcmp(process->calls->job, job) == 0)) ||
            ((process->page != NULL) && (process->page->head.pid == pid) &&
             (process->page->rank == rank) &&
             (strcmp(process->page->job, job) == 0))) {
            return process;
        }
    }
    if (!mrail_grow(&reading->processes, reading->num_processes + 1,
                    sizeof(*reading->processes))) {
        mrail_tool_fail(reading->command, "out of memory");
    }
    process = &reading->processes[reading->num_processes++];
    memset(process, 0, sizeof(*process));
    process->host = host;
    return process;
}

static int is_read(const diagnose_reading_t *reading, const char *path,
                   mrail_page_status_t status)
{
    if ((status == MRAIL_PAGE_ALIVE) || (status == MRAIL_PAGE_ENDED)) {
        return 1;
    }
    if (status != MRAIL_PAGE_GONE) { /* GONE: the process exited normally */
        fprintf(stderr, "mrail %s: %s: %s\n", reading->command, path,
                mrail_page_status_text(status));
    }
    return 0;
}

static void read_calls(const char *path, void *arg)
{
    diagnose_reading_t *reading = arg;
    mrail_calls_t *calls = allocate(reading, sizeof(*calls));
    mrail_page_status_t status = mrail_calls_read(path, calls);
    process_t *process;

    if (!is_read(reading, path, status)) {
        free(calls);
        return;
    }
    process = process_of(reading, path, calls->pid, calls->rank, calls->job);
    free(process->earlier);
    process->earlier = process->calls;
    process->calls = calls;
    process->alive = status == MRAIL_PAGE_ALIVE;
    snprintf(process->path, sizeof(process->path), "%s", path);
    if ((process->earlier == NULL) && (reading->view == NULL)) {
        process->before = proc_threads(calls->pid);
    }
}

static void read_page(const char *path, void *arg)
{
    diagnose_reading_t *reading = arg;
    mrail_page_t *page = allocate(reading, sizeof(*page));
    mrail_page_status_t status = mrail_page_read(path, page);
    process_t *process;

    if (!is_read(reading, path, status)) {
        free(page);
        return;
    }
    process = process_of(reading, path, page->head.pid, page->rank, page->job);
    free(process->page);
    process->page = page;
    process->alive = status == MRAIL_PAGE_ALIVE;
    snprintf(process->path, sizeof(process->path), "%s", path);
}

static void each(const diagnose_reading_t *reading, const char *dir,
                 mrail_tele_kind_t kind,
                 void (*visit)(const char *path, void *arg))
{
    int ret = mrail_tele_file_each(dir, kind, visit, (void *)reading);

    if (ret < 0) {
        mrail_tool_fail(reading->command, "cannot read %s: %s", dir,
                        strerror(-ret));
    }
}

static const char *job_of(const process_t *process)
{
    return (process->calls != NULL) ? process->calls->job : process->page->job;
}

/* Marks the process with which each job begins. */
static void find_jobs(diagnose_reading_t *reading)
{
    for (unsigned i = 0; i < reading->num_processes; ++i) {
        const char *job = job_of(&reading->processes[i]);
        unsigned k = 0;

        while (strcmp(job_of(&reading->processes[k]), job) != 0) {
            ++k;
        }
        reading->processes[i].begins_job = k == i;
    }
}

/* Takes two samples of this machine's processes. */
static void read_here(diagnose_reading_t *reading, const char *dir,
                      uint64_t sample_ns)
{
    struct timespec t = {.tv_sec = (time_t)(sample_ns / MRAIL_NS_PER_SEC),
                         .tv_nsec = (long)(sample_ns % MRAIL_NS_PER_SEC)};
    uint64_t begin_ns = mrail_clock_now();

    each(reading, dir, MRAIL_TELE_CALLS, read_calls);
    (void)nanosleep(&t, NULL);
    each(reading, dir, MRAIL_TELE_CALLS, read_calls);
    each(reading, dir, MRAIL_TELE_PAGE, read_page);
    reading->now_ns = mrail_clock_now();
    reading->sample_ns = reading->now_ns - begin_ns;
}

/* Reads the two samples of an archive. */
static void read_view(diagnose_reading_t *reading, const collect_view_t *view)
{
    each(reading, view->earlier, MRAIL_TELE_CALLS, read_calls);
    each(reading, view->dir, MRAIL_TELE_CALLS, read_calls);
    each(reading, view->dir, MRAIL_TELE_PAGE, read_page);
    for (unsigned i = 0; i < view->manifest.num_hosts; ++i) {
        reading->sample_ns =
            MRAIL_MAX(reading->sample_ns, view->manifest.hosts[i].sample_ns);
    }
}

diagnose_reading_t *diagnose_read(const char *command, const char *dir,
                                  const collect_view_t *view,
                                  uint64_t sample_ns)
{
    diagnose_reading_t *reading = calloc(1, sizeof(*reading));

    if (reading == NULL) {
        mrail_tool_fail(command, "out of memory");
    }
    reading->command = command;
    reading->view = view;
    if (view != NULL) {
        read_view(reading, view);
    } else {
        read_here(reading, dir, sample_ns);
    }
    find_jobs(reading);
    return reading;
}

void diagnose_free(diagnose_reading_t *reading)
{
    for (unsigned i = 0; i < reading->num_processes; ++i) {
        free(reading->processes[i].page);
        free(reading->processes[i].calls);
        free(reading->processes[i].earlier);
    }
    free(reading->processes);
    free(reading->ranks);
    free(reading);
}

/* ---- ranks ---- */

static void fill_sample(const diagnose_reading_t *reading,
                        const process_t *process, diagnose_rank_t *rank)
{
    proc_threads_t now = proc_threads(rank->pid);
    proc_shares_t shares =
        proc_shares(&process->before, &now, reading->sample_ns);

    if (!proc_is_owner(rank->pid, process->path)) {
        return;
    }
    rank->state = proc_state(rank->pid);
    rank->run = shares.run;
    rank->delay = shares.delay;
}

/* Like fill_sample(), for a process of an archive. */
static void fill_sample_of_view(const collect_view_t *view,
                                const process_t *process, diagnose_rank_t *rank)
{
    const collect_process_t *sample =
        collect_view_process(view, process->host, rank->pid, rank->rank);

    if (sample != NULL) {
        rank->state = sample->state;
        rank->run = sample->run;
        rank->delay = sample->delay;
    }
}

static uint64_t sample_time(const diagnose_reading_t *reading,
                            const process_t *process)
{
    return (reading->view != NULL)
               ? collect_view_time(reading->view, process->host)
               : reading->now_ns;
}

/* Returns the time at which the telemetry of a process began. */
static uint64_t start_of(const process_t *process)
{
    return (process->calls != NULL)
               ? process->calls->start_ns
               : process->page->start_ns - process->page->clock_offset_ns;
}

/* Returns the time at which a process that has exited was last active: its
 * start, the end of its last collective, or the last update of its page. */
static uint64_t last_sign(const process_t *process)
{
    uint64_t last_ns = start_of(process);

    if (process->page != NULL) {
        last_ns = MRAIL_MAX(last_ns, process->page->update_ns -
                                         process->page->clock_offset_ns);
    }
    for (unsigned i = 0; (process->calls != NULL) && (i < MRAIL_CALLS_COMMS);
         ++i) {
        if (process->calls->comms[i].id != 0) {
            last_ns = MRAIL_MAX(last_ns, process->calls->comms[i].last);
        }
    }
    return last_ns;
}

static void fill_rank(const diagnose_reading_t *reading,
                      const process_t *process, diagnose_rank_t *rank)
{
    rank->alive = process->alive;
    rank->state = '?';
    rank->run = rank->delay = -1;
    rank->calls = process->calls;
    rank->earlier = process->earlier;
    rank->start_ns = start_of(process);
    rank->last_ns =
        process->alive ? sample_time(reading, process) : last_sign(process);
    if ((reading->view != NULL) && (process->host >= 0)) {
        rank->host = reading->view->hosts[process->host].name;
    }
    if (process->calls != NULL) {
        rank->rank = process->calls->rank;
        rank->pid = process->calls->pid;
    }
    if (process->page != NULL) {
        diagnose_fill_rails(reading->command, process->path, process->page,
                            rank);
    }
    if (process->alive && (reading->view != NULL)) {
        fill_sample_of_view(reading->view, process, rank);
    } else if (process->alive) {
        fill_sample(reading, process, rank);
    }
}

/* ---- jobs ---- */

/* Returns the process with which a job begins, or NULL. */
static const process_t *find_job(const diagnose_reading_t *reading,
                                 unsigned index)
{
    for (unsigned i = 0; i < reading->num_processes; ++i) {
        if (reading->processes[i].begins_job && (index-- == 0)) {
            return &reading->processes[i];
        }
    }
    return NULL;
}

unsigned diagnose_num_jobs(const diagnose_reading_t *reading)
{
    unsigned count = 0;

    for (unsigned i = 0; i < reading->num_processes; ++i) {
        count += (unsigned)reading->processes[i].begins_job;
    }
    return count;
}

static int rank_order(const void *a, const void *b)
{
    const diagnose_rank_t *x = a, *y = b;

    return (x->rank != y->rank) ? (x->rank > y->rank) - (x->rank < y->rank)
                                : (x->pid > y->pid) - (x->pid < y->pid);
}

/* Returns the time of a snapshot: the time of its latest sample or, in an
 * archive, of the earliest sample of a running process. */
static uint64_t snapshot_time(const diagnose_reading_t *reading, unsigned count)
{
    uint64_t latest_ns = 0, earliest_ns = UINT64_MAX;

    for (unsigned i = 0; i < count; ++i) {
        const diagnose_rank_t *rank = &reading->ranks[i];

        latest_ns = MRAIL_MAX(latest_ns, rank->last_ns);
        if (rank->alive) {
            earliest_ns = MRAIL_MIN(earliest_ns, rank->last_ns);
        }
    }
    return ((reading->view != NULL) && (earliest_ns != UINT64_MAX))
               ? earliest_ns
               : latest_ns;
}

const char *diagnose_job(diagnose_reading_t *reading, unsigned index,
                         diagnose_snapshot_t *snapshot_p)
{
    const char *job = job_of(find_job(reading, index));
    unsigned count = 0;

    free(reading->ranks);
    for (unsigned i = 0; i < reading->num_processes; ++i) {
        count += strcmp(job_of(&reading->processes[i]), job) == 0;
    }
    reading->ranks = allocate(reading, count * sizeof(*reading->ranks));
    count = 0;
    for (unsigned i = 0; i < reading->num_processes; ++i) {
        if (strcmp(job_of(&reading->processes[i]), job) == 0) {
            fill_rank(reading, &reading->processes[i], &reading->ranks[count]);
            ++count;
        }
    }
    qsort(reading->ranks, count, sizeof(*reading->ranks), rank_order);
    count = diagnose_drop_earlier(reading->ranks, count);
    snapshot_p->ranks = reading->ranks;
    snapshot_p->num_ranks = count;
    snapshot_p->now_ns = snapshot_time(reading, count);
    snapshot_p->sample_ns = reading->sample_ns;
    snapshot_p->view = reading->view;
    return job;
}
