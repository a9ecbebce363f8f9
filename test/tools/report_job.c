#include "config.h"
#include "report_job.h"

#include "base/util.h"
#include "orchestrator/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RATE 1200000000ull /* bytes per second of each rail of a rank */

void job_page(mrail_page_t *page, int rank, unsigned rails)
{
    memset(page, 0, sizeof(*page));
    page->head.pid = 1000 + (unsigned)rank;
    page->start_ns = page->update_ns = JOB_START;
    page->rank = rank;
    snprintf(page->job, sizeof(page->job), "job");
    snprintf(page->program, sizeof(page->program), "app");
    page->num_rails = page->num_lanes = rails;
    page->num_counters = 2;
    snprintf(page->counters[0].name, sizeof(page->counters[0].name), "chunks");
    snprintf(page->counters[1].name, sizeof(page->counters[1].name),
             "lanes_failed");
    for (unsigned i = 0; i < rails; ++i) {
        snprintf(page->rails[i].device, sizeof(page->rails[i].device),
                 "mlx5_%u", i);
        page->rails[i].port = 1;
        page->rails[i].num_lanes = 1;
        page->rails[i].nominal = 12500000000ull;
        page->lanes[i].peer = 0x1000;
        page->lanes[i].slot = (uint16_t)i;
        page->lanes[i].rail = (uint16_t)i;
    }
}

void job_event(mrail_page_t *page, uint64_t time_ns, const char *text)
{
    mrail_page_event_t *event =
        &page->events[page->num_events++ % MRAIL_PAGE_EVENTS];

    event->time_ns = time_ns;
    snprintf(event->text, sizeof(event->text), "%s", text);
}

void job_calls(mrail_calls_t *calls, int rank, unsigned size, uint64_t entered,
               uint64_t computed_ns, uint64_t called_ns)
{
    mrail_calls_comm_t *comm = &calls->comms[0];

    memset(calls, 0, sizeof(*calls));
    calls->pid = 1000 + (unsigned)rank;
    calls->rank = rank;
    comm->id = 77;
    comm->size = size;
    comm->rank = (uint32_t)rank;
    comm->entered = comm->left = entered;
    comm->computed = computed_ns;
    comm->called = called_ns;
    comm->counts[MRAIL_CALLS_BARRIER] = entered;
    snprintf(comm->name, sizeof(comm->name), "MPI_COMM_WORLD");
}

/* ---- a whole job ---- */

/* The traffic of a rank in half a second. */
static void advance(mrail_page_t *page, unsigned step, unsigned ranks)
{
    unsigned rank = (unsigned)page->rank;
    uint64_t now_ns = JOB_START + step * SECOND / 2;
    int is_out = (step >= 400) && (step < 460);

    page->update_ns = now_ns;
    for (unsigned i = 0; i < page->num_rails; ++i) {
        uint64_t part =
            RATE / 2 / ranks * (90 + (step * 7 + rank * 3 + i) % 20);

        page->rails[i].is_down = is_out && (i == 1);
        page->rails[i].bytes += page->rails[i].is_down ? 0 : part / 100;
    }
    page->counters[0].value += 100 + rank;
    if (is_out && (step == 400)) {
        job_event(page, now_ns, "mlx5_1: port error");
        job_event(page, now_ns + 2000000,
                  "mlx5_1:1: lane 1 to peer 0000000000001000 closing (failed)");
        job_event(page, now_ns + 2500000,
                  "path 1 to peer 0000000000001000: up -> retired (port down)");
        ++page->counters[1].value;
    } else if (step == 460) {
        job_event(page, now_ns, "mlx5_1: port active");
        job_event(
            page, now_ns + 90000000,
            "path 1 to peer 0000000000001000: probing -> up (reconnected)");
    }
}

/* Two nodes with two rails each, before and after planning, in MB. */
static const struct {
    mrail_plan_link_kind_t kind;
    unsigned node, rail;
    double unplanned, planned;
} links[] = {{MRAIL_PLAN_RAIL_OUT, 0, 0, 900, 300},
             {MRAIL_PLAN_RAIL_OUT, 0, 1, 20, 310},
             {MRAIL_PLAN_RAIL_IN, 1, 0, 600, 300},
             {MRAIL_PLAN_RAIL_IN, 1, 1, 10, 310}};

static void fill_plan(mrail_plans_comm_t *comm)
{
    mrail_plans_begin(comm);
    comm->time_ns = JOB_START + SECOND;
    comm->unplanned_s = 0.072;
    comm->planned_s = 0.0248;
    comm->size = 32;
    comm->is_planned = comm->is_executed = 1;
    snprintf(comm->name, sizeof(comm->name), "MPI_COMM_WORLD");
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(links); ++i) {
        const mrail_plans_link_t link = {.kind = links[i].kind,
                                         .a = links[i].node,
                                         .b = links[i].rail,
                                         .capacity = 12.5e9,
                                         .unplanned = links[i].unplanned * 1e6,
                                         .planned = links[i].planned * 1e6};

        mrail_plans_add(comm, &link);
    }
    mrail_plans_end(comm);
}

static int take_plans(report_model_t *model)
{
    mrail_plans_t *plans = calloc(1, sizeof(*plans));
    int ret = -ENOMEM;

    if (plans != NULL) {
        fill_plan(&plans->comms[0]);
        ret = report_plans(model, plans);
    }
    free(plans);
    return ret;
}

/* Samples one process. */
static int record_rank(report_model_t *model, int rank, unsigned ranks,
                       unsigned rails, unsigned time_s)
{
    mrail_page_t *page = malloc(sizeof(*page));
    mrail_calls_t *calls = malloc(sizeof(*calls));
    report_process_t *process = NULL;
    int ret = -ENOMEM;

    if ((page != NULL) && (calls != NULL)) {
        job_page(page, rank, rails);
        process = report_add(model, 0x1000 + (uint64_t)rank, page,
                             REPORT_RUNNING, JOB_START);
        ret = (process == NULL) ? -ENOMEM : 0;
    }
    for (unsigned step = 1; (ret == 0) && (step <= 2 * time_s); ++step) {
        advance(page, step, ranks);
        ret = report_sample(model, process, page, page->update_ns);
    }
    if (ret == 0) {
        job_calls(calls, rank, ranks, 20 * time_s,
                  time_s * SECOND * ((rank == 2) ? 45 : 20) / 100,
                  time_s * SECOND * ((rank == 2) ? 50 : 75) / 100);
        ret = report_calls(process, calls);
        process->state = REPORT_ENDED;
    }
    free(page);
    free(calls);
    return ret;
}

int job_record(report_model_t *model, const char *job, unsigned ranks,
               unsigned rails, unsigned time_s)
{
    int ret = 0;

    report_init(model, job, JOB_START, SECOND / 2);
    snprintf(model->host, sizeof(model->host), "node17");
    for (unsigned i = 0; (ret == 0) && (i < ranks); ++i) {
        ret = record_rank(model, (int)i, ranks, rails, time_s);
    }
    ret = (ret == 0) ? take_plans(model) : ret;
    model->samples = 2 * time_s;
    report_finish(model, JOB_START + time_s * SECOND, REPORT_BY_JOB);
    return ret;
}

void job_archive(report_model_t *model, report_archive_t *archive,
                 const pages_host_t *hosts, unsigned num_hosts,
                 unsigned present)
{
    for (unsigned i = 0; i < model->num_processes; ++i) {
        model->processes[i]->host = (int)(i * present / model->num_processes);
    }
    *archive = (report_archive_t){.time_ns = model->end_ns,
                                  .bound_ns = 123456,
                                  .hosts = hosts,
                                  .num_hosts = num_hosts,
                                  .num_missing = num_hosts - present};
    snprintf(model->host, sizeof(model->host), "%u of %u hosts", present,
             num_hosts);
    model->archive = archive;
    model->end = REPORT_OF_ARCHIVE;
}
