#include "config.h"
#include "tools/diagnose.h"

#include "base/grow.h"
#include "tools/tool.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Times of the threads of a process, ns since their start. */
typedef struct threads {
    uint64_t run, delay;
    int is_known;
} threads_t;

typedef struct process {
    char path[MRAIL_TELE_PATH]; /* path of the page; "": none */
    mrail_page_t *page;         /* NULL: none */
    mrail_calls_t *calls, *earlier;
    int alive;
    threads_t before;
} process_t;

struct diagnose_reading {
    const char *command;
    process_t *processes;
    unsigned num_processes;
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

/* ---- /proc ---- */

/* Adds the times of a thread. Source: Documentation/scheduler/sched-stats.rst
 * of Linux. */
static void threads_add(threads_t *threads, const char *path)
{
    unsigned long long run, delay;
    FILE *stream = fopen(path, "re");

    if (stream == NULL) {
        return; /* the thread has ended */
    }
    if (fscanf(stream, "%llu %llu", &run, &delay) == 2) {
        threads->run += run;
        threads->delay += delay;
        threads->is_known = 1;
    }
    fclose(stream);
}

static threads_t threads_of(unsigned pid)
{
    threads_t threads = {0};
    const struct dirent *entry;
    char path[320];
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%u/task", pid);
    dir = opendir(path);
    if (dir == NULL) {
        return threads;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            snprintf(path, sizeof(path), "/proc/%u/task/%.32s/schedstat", pid,
                     entry->d_name);
            threads_add(&threads, path);
        }
    }
    closedir(dir);
    return threads;
}

/* The state follows the name of the program, which may contain anything. */
static char state_of(unsigned pid)
{
    char path[64], text[512], state = '?';
    const char *end;
    FILE *stream;
    size_t length;

    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    stream = fopen(path, "re");
    if (stream == NULL) {
        return state;
    }
    length = fread(text, 1, sizeof(text) - 1, stream);
    text[length] = '\0';
    end = strrchr(text, ')');
    if ((end != NULL) && (end[1] == ' ') && (end[2] != '\0')) {
        state = end[2];
    }
    fclose(stream);
    return state;
}

/* ---- files ---- */

static process_t *process_of(diagnose_reading_t *reading, unsigned pid,
                             const char *job)
{
    process_t *process;

    for (unsigned i = 0; i < reading->num_processes; ++i) {
        process = &reading->processes[i];
        if (((process->calls != NULL) && (process->calls->pid == pid) &&
             (strcmp(process->calls->job, job) == 0)) ||
            ((process->page != NULL) && (process->page->head.pid == pid) &&
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
    return process;
}

static int is_read(const diagnose_reading_t *reading, const char *path,
                   mrail_page_status_t status)
{
    if ((status == MRAIL_PAGE_ALIVE) || (status == MRAIL_PAGE_ENDED)) {
        return 1;
    }
    if (status != MRAIL_PAGE_GONE) { /* GONE: the process ended normally */
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
    process = process_of(reading, calls->pid, calls->job);
    free(process->earlier);
    process->earlier = process->calls;
    process->calls = calls;
    process->alive = status == MRAIL_PAGE_ALIVE;
    if (process->earlier == NULL) {
        process->before = threads_of(calls->pid);
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
    process = process_of(reading, page->head.pid, page->job);
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

diagnose_reading_t *diagnose_read(const char *command, const char *dir,
                                  uint64_t sample_ns)
{
    diagnose_reading_t *reading = calloc(1, sizeof(*reading));
    struct timespec t = {.tv_sec = (time_t)(sample_ns / MRAIL_NS_PER_SEC),
                         .tv_nsec = (long)(sample_ns % MRAIL_NS_PER_SEC)};
    uint64_t begin_ns = mrail_clock_now();

    if (reading == NULL) {
        mrail_tool_fail(command, "out of memory");
    }
    reading->command = command;
    each(reading, dir, MRAIL_TELE_CALLS, read_calls);
    (void)nanosleep(&t, NULL);
    each(reading, dir, MRAIL_TELE_CALLS, read_calls);
    each(reading, dir, MRAIL_TELE_PAGE, read_page);
    reading->now_ns = mrail_clock_now();
    reading->sample_ns = reading->now_ns - begin_ns;
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
    threads_t now = threads_of(rank->pid);

    rank->state = state_of(rank->pid);
    if (now.is_known && process->before.is_known &&
        (now.run >= process->before.run) &&
        (now.delay >= process->before.delay) && (reading->sample_ns > 0)) {
        rank->run = (double)(now.run - process->before.run) /
                    (double)reading->sample_ns;
        rank->delay = (double)(now.delay - process->before.delay) /
                      (double)reading->sample_ns;
    }
}

/* Returns when a process that has ended was last active: the end of its last
 * collective, or the last update of its page. */
static uint64_t last_sign(const process_t *process)
{
    uint64_t last_ns = 0;

    if (process->page != NULL) {
        last_ns = process->page->update_ns - process->page->clock_offset_ns;
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
    rank->last_ns = process->alive ? reading->now_ns : last_sign(process);
    if (process->calls != NULL) {
        rank->rank = process->calls->rank;
        rank->pid = process->calls->pid;
    }
    if (process->page != NULL) {
        diagnose_fill_rails(reading->command, process->path, process->page,
                            rank);
    }
    if (process->alive) {
        fill_sample(reading, process, rank);
    }
}

/* ---- jobs ---- */

static const char *job_of(const process_t *process)
{
    return (process->calls != NULL) ? process->calls->job : process->page->job;
}

/* Returns the process with which a job begins, or NULL. */
static const process_t *find_job(const diagnose_reading_t *reading,
                                 unsigned index)
{
    for (unsigned i = 0; i < reading->num_processes; ++i) {
        unsigned k = 0;

        while (strcmp(job_of(&reading->processes[k]),
                      job_of(&reading->processes[i])) != 0) {
            ++k;
        }
        if ((k == i) && (index-- == 0)) {
            return &reading->processes[i];
        }
    }
    return NULL;
}

unsigned diagnose_num_jobs(const diagnose_reading_t *reading)
{
    unsigned count = 0;

    while (find_job(reading, count) != NULL) {
        ++count;
    }
    return count;
}

static int rank_order(const void *a, const void *b)
{
    const diagnose_rank_t *x = a, *y = b;

    return (x->rank != y->rank) ? (x->rank > y->rank) - (x->rank < y->rank)
                                : (x->pid > y->pid) - (x->pid < y->pid);
}

const char *diagnose_job(diagnose_reading_t *reading, unsigned index,
                         diagnose_snapshot_t *snapshot_p)
{
    const char *job = job_of(find_job(reading, index));
    unsigned count = 0;
    uint64_t last_ns = 0;

    free(reading->ranks);
    reading->ranks =
        allocate(reading, reading->num_processes * sizeof(*reading->ranks));
    for (unsigned i = 0; i < reading->num_processes; ++i) {
        if (strcmp(job_of(&reading->processes[i]), job) == 0) {
            fill_rank(reading, &reading->processes[i], &reading->ranks[count]);
            last_ns = MRAIL_MAX(last_ns, reading->ranks[count].last_ns);
            ++count;
        }
    }
    qsort(reading->ranks, count, sizeof(*reading->ranks), rank_order);
    snapshot_p->ranks = reading->ranks;
    snapshot_p->num_ranks = count;
    snapshot_p->now_ns = last_ns;
    snapshot_p->sample_ns = reading->sample_ns;
    return job;
}
