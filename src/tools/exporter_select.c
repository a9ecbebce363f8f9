#include "config.h"
#include "tools/exporter.h"

#include "base/util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The processes of a job: a range of the pages, which are sorted by job. */
typedef struct job {
    unsigned first, count;
    unsigned position; /* position by name among the jobs */
    int alive;
    uint64_t start_ns; /* start of its first process */
} job_t;

static int is_kept(const pages_item_t *item, const exporter_limits_t *limits,
                   uint64_t now_ns)
{
    uint64_t update_ns = item->page->update_ns;
    /* If the time is in the future, the clock was set or the page is
     * damaged. */
    uint64_t age_ns =
        (now_ns > update_ns) ? now_ns - update_ns : update_ns - now_ns;

    return item->alive || (age_ns <= limits->keep_ns);
}

static int is_same_process(const mrail_page_t *a, const mrail_page_t *b)
{
    return (a->rank == b->rank) && (a->head.pid == b->head.pid) &&
           (strcmp(a->job, b->job) == 0);
}

/* Adds the process of `item`, unless it is left out. Pages of one process are
 * adjacent, and the page with the latest start is the current one. */
static void add_process(exporter_selection_t *selection,
                        const pages_item_t *item,
                        const exporter_limits_t *limits, uint64_t now_ns)
{
    exporter_process_t *last =
        (selection->count == 0) ? NULL
                                : &selection->processes[selection->count - 1];
    exporter_process_t process = {.page = item->page,
                                  .alive = item->alive,
                                  .in_call_ns = EXPORTER_UNKNOWN};

    if (!is_kept(item, limits, now_ns)) {
        ++selection->left_out[EXPORTER_ENDED];
    } else if ((last == NULL) || !is_same_process(last->page, item->page)) {
        selection->processes[selection->count++] = process;
    } else {
        ++selection->left_out[EXPORTER_DUPLICATE];
        if ((item->alive > last->alive) ||
            ((item->alive == last->alive) &&
             (item->page->start_ns > last->page->start_ns))) {
            *last = process;
        }
    }
}

/* ---- limits ---- */

static int job_order(const void *a, const void *b)
{
    const job_t *x = a, *y = b;

    if (x->alive != y->alive) {
        return x->alive ? -1 : 1;
    }
    if (x->start_ns != y->start_ns) {
        return (x->start_ns < y->start_ns) ? -1 : 1;
    }
    return (x->position > y->position) - (x->position < y->position);
}

static int by_position(const void *a, const void *b)
{
    const job_t *x = a, *y = b;

    return (x->position > y->position) - (x->position < y->position);
}

static unsigned find_jobs(const exporter_selection_t *selection, job_t *jobs)
{
    unsigned num = 0;

    for (unsigned i = 0; i < selection->count; ++i) {
        const exporter_process_t *process = &selection->processes[i];
        job_t *job;

        if ((i == 0) ||
            (strcmp(process[-1].page->job, process->page->job) != 0)) {
            jobs[num] =
                (job_t){.first = i, .position = num, .start_ns = UINT64_MAX};
            ++num;
        }
        job = &jobs[num - 1];
        ++job->count;
        job->alive |= process->alive;
        job->start_ns = MRAIL_MIN(job->start_ns, process->page->start_ns);
    }
    return num;
}

/* Keeps the first processes of the first jobs, without changing their order. */
static void apply_limits(exporter_selection_t *selection, job_t *jobs,
                         unsigned num_jobs, const exporter_limits_t *limits)
{
    unsigned shown = MRAIL_MIN(num_jobs, limits->max_jobs);
    unsigned total = selection->count;

    qsort(jobs, num_jobs, sizeof(*jobs), job_order);
    qsort(jobs, shown, sizeof(*jobs), by_position);
    selection->count = 0;
    for (unsigned i = 0; i < shown; ++i) {
        unsigned count = MRAIL_MIN(jobs[i].count, limits->max_ranks);

        memmove(selection->processes + selection->count,
                selection->processes + jobs[i].first,
                count * sizeof(*selection->processes));
        selection->count += count;
    }
    selection->num_jobs = shown;
    selection->jobs_left_out = num_jobs - shown;
    selection->left_out[EXPORTER_LIMIT] = total - selection->count;
}

int exporter_select(const pages_t *pages, const exporter_limits_t *limits,
                    uint64_t now_ns, exporter_selection_t *selection)
{
    job_t *jobs = calloc(pages->count + 1, sizeof(*jobs));

    memset(selection, 0, sizeof(*selection));
    selection->processes =
        calloc(pages->count + 1, sizeof(*selection->processes));
    if ((jobs == NULL) || (selection->processes == NULL)) {
        free(jobs);
        exporter_selection_cleanup(selection);
        return -ENOMEM;
    }
    for (unsigned i = 0; i < pages->count; ++i) {
        add_process(selection, &pages->items[i], limits, now_ns);
    }
    apply_limits(selection, jobs, find_jobs(selection, jobs), limits);
    free(jobs);
    return 0;
}

void exporter_selection_cleanup(exporter_selection_t *selection)
{
    free(selection->processes);
    memset(selection, 0, sizeof(*selection));
}

/* ---- MPI calls ---- */

uint64_t exporter_in_call(const mrail_calls_t *calls, uint64_t now_ns)
{
    uint64_t since_ns = now_ns;

    if (mrail_calls_is_waiting(calls)) {
        since_ns = MRAIL_MIN(since_ns, calls->wait.since);
    }
    for (unsigned i = 0; i < MRAIL_CALLS_COMMS; ++i) {
        const mrail_calls_comm_t *comm = &calls->comms[i];
        const mrail_calls_record_t *record =
            (comm->id != 0 && comm->entered > comm->left)
                ? mrail_calls_record(comm, comm->entered - 1)
                : NULL;

        if (record != NULL) {
            since_ns = MRAIL_MIN(since_ns, record->entered);
        }
    }
    return now_ns - since_ns;
}
