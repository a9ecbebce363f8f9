#include "config.h"
#include "tools/report.h"

#include "base/grow.h"
#include "base/util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void report_init(report_model_t *model, const char *job, uint64_t begin_ns,
                 uint64_t interval_ns)
{
    memset(model, 0, sizeof(*model));
    snprintf(model->job, sizeof(model->job), "%s", job);
    model->begin_ns = model->end_ns = begin_ns;
    model->interval_ns = interval_ns;
    model->params_rank = -1;
    report_grid_init(&model->grid, begin_ns, interval_ns);
}

void report_cleanup(report_model_t *model)
{
    for (unsigned i = 0; i < model->num_processes; ++i) {
        free(model->processes[i]->comms);
        free(model->processes[i]);
    }
    for (unsigned i = 0; i < model->num_params; ++i) {
        free(model->params[i].name);
        free(model->params[i].value);
    }
    free(model->processes);
    free(model->events);
    free(model->plans);
    report_grid_cleanup(&model->grid);
    memset(model, 0, sizeof(*model));
}

/* ---- pages ---- */

static void take_rail(report_rail_t *rail, const mrail_page_rail_t *from)
{
    rail->nominal = from->nominal;
    rail->bytes = from->bytes;
    rail->stalled_ns = from->stalled_ns;
    rail->idle_ns = from->idle_ns;
    rail->num_lanes = from->num_lanes;
    rail->is_down = from->is_down != 0;
}

static void take_page(report_process_t *process, const mrail_page_t *page)
{
    process->update_ns = page->update_ns;
    process->more_lanes = page->more_lanes;
    process->num_counters = page->num_counters;
    memcpy(process->counters, page->counters, sizeof(process->counters));
    for (unsigned i = 0; i < process->num_rails; ++i) {
        take_rail(&process->rails[i], &page->rails[i]);
    }
}

/* Names the rails, and gives each a series. Returns 0 or -ENOMEM. */
static int add_rails(report_model_t *model, report_process_t *process,
                     const mrail_page_t *page)
{
    process->num_rails = page->num_rails;
    for (unsigned i = 0; i < page->num_rails; ++i) {
        report_rail_t *rail = &process->rails[i];

        snprintf(rail->name, sizeof(rail->name), "%s:%u", page->rails[i].device,
                 page->rails[i].port);
        rail->series = report_grid_add(&model->grid);
        if (rail->series == NULL) {
            return -ENOMEM;
        }
    }
    return 0;
}

/* Adds the first sample of a process. If the process started during the
 * recording, its series begins at its start, when its rails had carried
 * nothing. A start in the future means that the clock was set back. */
static void add_first(report_model_t *model, report_process_t *process,
                      uint64_t now_ns)
{
    int is_whole =
        (process->start_ns >= model->begin_ns) && (process->start_ns <= now_ns);

    for (unsigned i = 0; i < process->num_rails; ++i) {
        report_rail_t *rail = &process->rails[i];

        if (!is_whole) {
            rail->before = rail->bytes;
        } else if (rail->bytes != 0) {
            report_series_add(&model->grid, rail->series, process->start_ns,
                              MRAIL_MIN(process->update_ns, now_ns),
                              rail->bytes);
        }
    }
}

report_process_t *report_add(report_model_t *model, uint64_t id,
                             const mrail_page_t *page, report_state_t state,
                             uint64_t now_ns)
{
    report_process_t *process = calloc(1, sizeof(*process));

    if ((process == NULL) ||
        !mrail_grow(&model->processes, model->num_processes + 1,
                    sizeof(*model->processes)) ||
        (add_rails(model, process, page) != 0)) {
        free(process);
        return NULL;
    }
    process->id = id;
    process->rank = page->rank;
    process->pid = page->head.pid;
    process->host = -1;
    process->state = state;
    process->start_ns = page->start_ns;
    snprintf(process->program, sizeof(process->program), "%s", page->program);
    take_page(process, page);
    model->processes[model->num_processes++] = process;
    add_first(model, process, now_ns);
    return process;
}

int report_sample(report_model_t *model, report_process_t *process,
                  const mrail_page_t *page, uint64_t now_ns)
{
    uint64_t from_ns = process->update_ns;
    /* A page with a wrong time must not stretch the grid. */
    uint64_t to_ns = MRAIL_MIN(page->update_ns, now_ns);

    for (unsigned i = 0; i < MRAIL_MIN(process->num_rails, page->num_rails);
         ++i) {
        report_rail_t *rail = &process->rails[i];
        uint64_t bytes = page->rails[i].bytes;

        if (bytes > rail->bytes) {
            report_series_add(&model->grid, rail->series, from_ns, to_ns,
                              bytes - rail->bytes);
        }
        if (page->rails[i].is_down && (to_ns > from_ns)) {
            report_series_mark(&model->grid, rail->series, from_ns, to_ns);
        }
    }
    take_page(process, page);
    return report_events(model, process, page);
}

/* ---- calls ---- */

/* Returns the entry of a communicator, a new one if necessary, or NULL if the
 * table is full. */
static report_comm_t *comm_entry(report_process_t *process, uint64_t id,
                                 int *error_p)
{
    *error_p = 0;
    for (unsigned i = 0; i < process->num_comms; ++i) {
        if (process->comms[i].id == id) {
            return &process->comms[i];
        }
    }
    if (process->num_comms == REPORT_COMMS) {
        return NULL;
    }
    if (!mrail_grow(&process->comms, process->num_comms + 1,
                    sizeof(*process->comms))) {
        *error_p = -ENOMEM;
        return NULL;
    }
    memset(&process->comms[process->num_comms], 0, sizeof(*process->comms));
    process->comms[process->num_comms].id = id;
    return &process->comms[process->num_comms++];
}

int report_calls(report_process_t *process, const mrail_calls_t *calls)
{
    int error;

    process->has_calls = 1;
    process->more_comms = calls->more_comms;
    for (unsigned i = 0; i < MRAIL_CALLS_COMMS; ++i) {
        const mrail_calls_comm_t *from = &calls->comms[i];
        report_comm_t *comm;

        if (from->id == 0) {
            continue;
        }
        comm = comm_entry(process, from->id, &error);
        if (error != 0) {
            return error;
        }
        if (comm == NULL) {
            ++process->more_comms;
            continue;
        }
        comm->entered = from->entered;
        comm->left = from->left;
        comm->computed_ns = from->computed;
        comm->called_ns = from->called;
        comm->size = from->size;
        comm->rank = from->rank;
        memcpy(comm->name, from->name, sizeof(comm->name));
        memcpy(comm->counts, from->counts, sizeof(comm->counts));
    }
    return 0;
}

/* ---- plans ---- */

int report_plans(report_model_t *model, const mrail_plans_t *plans)
{
    model->more_plans += plans->more_comms;
    for (unsigned i = 0; i < MRAIL_PLANS_COMMS; ++i) {
        if (plans->comms[i].begun == 0) {
            continue;
        }
        if (model->num_plans == REPORT_PLANS) {
            ++model->more_plans;
            continue;
        }
        if (!mrail_grow(&model->plans, model->num_plans + 1,
                        sizeof(*model->plans))) {
            return -ENOMEM;
        }
        model->plans[model->num_plans++] = plans->comms[i];
    }
    return 0;
}

/* ---- records ---- */

void report_earlier(report_model_t *model, report_process_t *process,
                    const mrail_page_t *earlier)
{
    for (unsigned i = 0; i < MRAIL_MIN(process->num_rails, earlier->num_rails);
         ++i) {
        report_rail_t *rail = &process->rails[i];
        uint64_t bytes =
            rail->before - MRAIL_MIN(rail->before, earlier->rails[i].bytes);

        if (bytes > 0) {
            rail->before -= bytes;
            report_series_add(&model->grid, rail->series, earlier->update_ns,
                              process->update_ns, bytes);
        }
    }
}

void report_record(report_model_t *model, report_process_t *process,
                   const mrail_ring_record_t *record, uint64_t offset_ns)
{
    report_rail_t *rail = &process->rails[record->rail];
    uint64_t before;

    if ((record->rail >= process->num_rails) ||
        (record->kind & MRAIL_RING_FAILED)) {
        return;
    }
    /* rail->before counts bytes of the page that no record has explained. A
     * record may be newer than the page, so they may include only a part of its
     * bytes. */
    before = MRAIL_MIN(rail->before, record->length);
    rail->before -= before;
    rail->bytes += record->length - before;
    report_series_add(&model->grid, rail->series, record->post_ns + offset_ns,
                      record->done_ns + offset_ns, record->length);
}

/* ---- end ---- */

static int process_order(const void *a, const void *b)
{
    const report_process_t *x = *(report_process_t *const *)a;
    const report_process_t *y = *(report_process_t *const *)b;

    return (x->rank != y->rank) ? (x->rank > y->rank) - (x->rank < y->rank)
                                : (x->pid > y->pid) - (x->pid < y->pid);
}

static int event_order(const void *a, const void *b)
{
    const report_event_t *x = a, *y = b;
    int ranks = (x->process->rank > y->process->rank) -
                (x->process->rank < y->process->rank);

    return (x->time_ns != y->time_ns)
               ? (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns)
               : ranks;
}

void report_finish(report_model_t *model, uint64_t end_ns, report_end_t end)
{
    model->end_ns = MRAIL_MAX(end_ns, model->begin_ns);
    model->end = end;
    if ((end != REPORT_NOT_LIVE) && (end != REPORT_OF_ARCHIVE)) {
        report_grid_cover(&model->grid, model->end_ns);
    }
    if (model->num_processes > 1) {
        qsort(model->processes, model->num_processes, sizeof(*model->processes),
              process_order);
    }
    if (model->num_events > 1) {
        qsort(model->events, model->num_events, sizeof(*model->events),
              event_order);
    }
}
