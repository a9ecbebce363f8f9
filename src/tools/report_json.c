/* The figures of a report as JSON. Times are seconds since the start of the
 * job, except those of names with "epoch". */
#include "config.h"
#include "tools/report.h"

#include "base/json.h"
#include "base/util.h"

#include <stdlib.h>
#include <string.h>

typedef struct writer {
    mrail_json_t json;
    const report_model_t *model;
    report_facts_t facts;
    report_rails_t rails;
} writer_t;

/* Writes a time relative to the start of the job. */
static void put_time(writer_t *writer, const char *key, uint64_t time_ns)
{
    mrail_json_fixed(&writer->json, key,
                     ((double)time_ns - (double)writer->facts.start_ns) / 1e9,
                     6);
}

static void put_seconds(writer_t *writer, const char *key, uint64_t ns)
{
    mrail_json_fixed(&writer->json, key, (double)ns / 1e9, 6);
}

/* ---- the recording ---- */

static void put_summary(writer_t *writer)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    if (stream != NULL) {
        report_summary(stream, writer->model, &writer->facts);
        fclose(stream);
    }
    mrail_json_string(&writer->json, "summary", text);
    free(text);
}

static void put_recording(writer_t *writer)
{
    static const char *const ends[] = {[REPORT_BY_JOB] = "job ended",
                                       [REPORT_BY_TIME] = "time is over",
                                       [REPORT_BY_SIGNAL] = "interrupted",
                                       [REPORT_NOT_LIVE] = "job had ended",
                                       [REPORT_OF_ARCHIVE] = "archive"};
    const report_model_t *model = writer->model;
    mrail_json_t *json = &writer->json;

    mrail_json_newline(json);
    mrail_json_object(json, "recording");
    mrail_json_bool(json, "live",
                    (model->end != REPORT_NOT_LIVE) &&
                        (model->end != REPORT_OF_ARCHIVE));
    mrail_json_fixed(json, "start_epoch_s",
                     (double)writer->facts.start_ns / 1e9, 6);
    put_time(writer, "begin_s", model->begin_ns);
    put_time(writer, "end_s", model->end_ns);
    put_seconds(writer, "interval_s", model->interval_ns);
    mrail_json_uint(json, "samples", model->samples);
    mrail_json_string(json, "end", ends[model->end]);
    mrail_json_uint(json, "events_left_out", model->events_left_out);
    mrail_json_uint(json, "events_missed", model->events_missed);
    mrail_json_uint(json, "records_missed", model->records_missed);
    mrail_json_uint(json, "files_refused", model->files_refused);
    mrail_json_object_end(json);
}

static void put_archive(writer_t *writer)
{
    const report_archive_t *archive = writer->model->archive;
    mrail_json_t *json = &writer->json;

    mrail_json_newline(json);
    if (archive == NULL) {
        mrail_json_null(json, "archive");
        return;
    }
    mrail_json_object(json, "archive");
    mrail_json_fixed(json, "collected_epoch_s", (double)archive->time_ns / 1e9,
                     6);
    mrail_json_fixed(json, "error_s", (double)archive->bound_ns / 1e9, 9);
    mrail_json_uint(json, "hosts_missing", archive->num_missing);
    mrail_json_uint(json, "processes_left_out", archive->left_out);
    mrail_json_uint(json, "files_lost", archive->lost_files);
    pages_json_hosts(json, archive->hosts, archive->num_hosts);
    mrail_json_object_end(json);
}

static void put_totals(writer_t *writer)
{
    const report_facts_t *facts = &writer->facts;
    mrail_json_t *json = &writer->json;

    mrail_json_newline(json);
    mrail_json_object(json, "totals");
    mrail_json_uint(json, "processes", writer->model->num_processes);
    mrail_json_uint(json, "running", facts->num_running);
    mrail_json_uint(json, "killed", facts->num_killed);
    mrail_json_uint(json, "lost", facts->num_lost);
    mrail_json_uint(json, "bytes", facts->bytes);
    mrail_json_uint(json, "bytes_before", facts->before);
    mrail_json_fixed(json, "mean_bytes_per_s", facts->mean, 0);
    mrail_json_fixed(json, "peak_bytes_per_s", facts->peak, 0);
    mrail_json_uint(json, "lanes_failed", facts->failovers);
    mrail_json_object_end(json);
}

/* ---- rails ---- */

/* Sets the sum of a rail over all processes. Returns its bytes. */
static uint64_t sum_rail(const writer_t *writer, unsigned index,
                         report_series_t *sum, uint64_t *nominal_p)
{
    const report_model_t *model = writer->model;
    uint64_t bytes = 0;

    memset(sum, 0, sizeof(*sum));
    *nominal_p = 0;
    for (unsigned i = 0; i < model->num_processes; ++i) {
        const report_process_t *process = model->processes[i];

        for (unsigned r = 0; r < process->num_rails; ++r) {
            const report_rail_t *rail = &process->rails[r];

            if (strcmp(rail->name, writer->rails.names[index]) != 0) {
                continue;
            }
            bytes += rail->bytes;
            *nominal_p = MRAIL_MAX(*nominal_p, rail->nominal);
            for (unsigned k = 0; k < REPORT_POINTS; ++k) {
                sum->bytes[k] += rail->series->bytes[k];
                sum->down[k] |= rail->series->down[k];
            }
        }
    }
    return bytes;
}

/* Writes the periods in which a rail was down, each as [first interval, last
 * interval]. */
static void put_down(mrail_json_t *json, const report_series_t *series,
                     unsigned count)
{
    mrail_json_array(json, "down");
    for (unsigned i = 0; i < count; ++i) {
        if (series->down[i] && ((i == 0) || !series->down[i - 1])) {
            mrail_json_array(json, NULL);
            mrail_json_uint(json, NULL, i);
        }
        if (series->down[i] && ((i + 1 == count) || !series->down[i + 1])) {
            mrail_json_uint(json, NULL, i);
            mrail_json_array_end(json);
        }
    }
    mrail_json_array_end(json);
}

static void put_points(mrail_json_t *json, const report_series_t *series,
                       unsigned count)
{
    mrail_json_array(json, "points");
    for (unsigned i = 0; i < count; ++i) {
        mrail_json_uint(json, NULL, series->bytes[i]);
    }
    mrail_json_array_end(json);
}

static void put_rails(writer_t *writer)
{
    static report_series_t sum;
    const report_grid_t *grid = &writer->model->grid;
    mrail_json_t *json = &writer->json;

    mrail_json_newline(json);
    mrail_json_object(json, "grid");
    put_time(writer, "begin_s", grid->origin_ns);
    put_time(writer, "end_s", grid->until_ns);
    put_seconds(writer, "width_s", grid->width_ns);
    mrail_json_uint(json, "points", grid->count);
    mrail_json_object_end(json);
    mrail_json_newline(json);
    mrail_json_array(json, "rails");
    for (unsigned i = 0; i < writer->rails.count; ++i) {
        uint64_t nominal, bytes = sum_rail(writer, i, &sum, &nominal);

        mrail_json_newline(json);
        mrail_json_object(json, NULL);
        mrail_json_string(json, "name", writer->rails.names[i]);
        mrail_json_uint(json, "nominal_bytes_per_s", nominal);
        mrail_json_uint(json, "bytes", bytes);
        put_points(json, &sum, grid->count);
        put_down(json, &sum, grid->count);
        mrail_json_object_end(json);
    }
    mrail_json_array_end(json);
}

/* ---- processes ---- */

static void put_own_rails(writer_t *writer, const report_process_t *process)
{
    mrail_json_t *json = &writer->json;

    mrail_json_array(json, "rails");
    for (unsigned i = 0; i < process->num_rails; ++i) {
        const report_rail_t *rail = &process->rails[i];
        int index = report_rail_index(&writer->rails, rail->name);

        if (index < 0) {
            continue;
        }
        mrail_json_newline(json);
        mrail_json_object(json, NULL);
        mrail_json_int(json, "rail", index);
        mrail_json_uint(json, "lanes", rail->num_lanes);
        mrail_json_bool(json, "is_down", rail->is_down);
        mrail_json_uint(json, "bytes", rail->bytes);
        mrail_json_uint(json, "bytes_before", rail->before);
        put_seconds(writer, "stalled_s", rail->stalled_ns);
        put_seconds(writer, "idle_s", rail->idle_ns);
        put_points(json, rail->series, writer->model->grid.count);
        mrail_json_object_end(json);
    }
    mrail_json_array_end(json);
}

static void put_comm(writer_t *writer, const report_comm_t *comm)
{
    mrail_json_t *json = &writer->json;
    char name[MRAIL_CALLS_NAME], id[20];

    snprintf(id, sizeof(id), "%016llx", (unsigned long long)comm->id);
    mrail_json_object(json, NULL);
    mrail_json_string(json, "id", id);
    mrail_json_string(json, "name", comm->name);
    mrail_json_uint(json, "size", comm->size);
    mrail_json_uint(json, "rank", comm->rank);
    mrail_json_uint(json, "entered", comm->entered);
    mrail_json_uint(json, "left", comm->left);
    put_seconds(writer, "outside_s", comm->computed_ns);
    put_seconds(writer, "inside_s", comm->called_ns);
    mrail_json_object(json, "calls");
    for (uint32_t kind = 0; kind < MRAIL_CALLS_NUM_KINDS; ++kind) {
        if (comm->counts[kind] > 0) {
            mrail_calls_name(name, kind);
            mrail_json_uint(json, name, comm->counts[kind]);
        }
    }
    mrail_json_object_end(json);
    mrail_json_object_end(json);
}

static void put_process(writer_t *writer, const report_process_t *process)
{
    static const char *const states[] = {[REPORT_RUNNING] = "running",
                                         [REPORT_ENDED] = "ended",
                                         [REPORT_KILLED] = "killed",
                                         [REPORT_LOST] = "lost"};
    mrail_json_t *json = &writer->json;

    mrail_json_newline(json);
    mrail_json_object(json, NULL);
    mrail_json_int(json, "rank", process->rank);
    mrail_json_uint(json, "pid", process->pid);
    mrail_json_string(json, "host", report_host_of(writer->model, process));
    mrail_json_string(json, "program", process->program);
    mrail_json_string(json, "state", states[process->state]);
    put_time(writer, "start_s", process->start_ns);
    put_time(writer, "update_s", process->update_ns);
    put_own_rails(writer, process);
    mrail_json_object(json, "counters");
    for (unsigned i = 0; i < process->num_counters; ++i) {
        mrail_json_uint(json, process->counters[i].name,
                        process->counters[i].value);
    }
    mrail_json_object_end(json);
    mrail_json_bool(json, "records_calls", process->has_calls);
    mrail_json_array(json, "communicators");
    for (unsigned i = 0; i < process->num_comms; ++i) {
        put_comm(writer, &process->comms[i]);
    }
    mrail_json_array_end(json);
    mrail_json_uint(json, "communicators_left_out", process->more_comms);
    mrail_json_object_end(json);
}

static void put_processes(writer_t *writer)
{
    mrail_json_newline(&writer->json);
    mrail_json_array(&writer->json, "processes");
    for (unsigned i = 0; i < writer->model->num_processes; ++i) {
        put_process(writer, writer->model->processes[i]);
    }
    mrail_json_array_end(&writer->json);
}

static void put_slowest(writer_t *writer)
{
    const report_facts_t *facts = &writer->facts;
    mrail_json_t *json = &writer->json;
    char id[20];

    mrail_json_newline(json);
    mrail_json_object(json, "slowest");
    if (facts->comm == 0) {
        mrail_json_null(json, "communicator");
    } else {
        snprintf(id, sizeof(id), "%016llx", (unsigned long long)facts->comm);
        mrail_json_string(json, "communicator", id);
    }
    if (facts->slowest < 0) {
        mrail_json_null(json, "rank");
    } else {
        mrail_json_int(json, "rank",
                       writer->model->processes[facts->slowest]->rank);
    }
    mrail_json_fixed(json, "median_outside_s", facts->computed_s, 6);
    mrail_json_fixed(json, "longer_s", facts->slowest_s, 6);
    mrail_json_object_end(json);
}

/* ---- events ---- */

/* Writes a peer's rank, or null if its page was not read. */
static void put_peer(writer_t *writer, uint64_t peer)
{
    for (unsigned i = 0; (peer != 0) && (i < writer->model->num_processes);
         ++i) {
        if (writer->model->processes[i]->id == peer) {
            mrail_json_int(&writer->json, "peer_rank",
                           writer->model->processes[i]->rank);
            return;
        }
    }
    mrail_json_null(&writer->json, "peer_rank");
}

static void put_event(writer_t *writer, const report_event_t *event)
{
    const report_process_t *process = event->process;
    mrail_json_t *json = &writer->json;
    int rail = (event->rail < 0)
                   ? -1
                   : report_rail_index(&writer->rails,
                                       process->rails[event->rail].name);

    mrail_json_newline(json);
    mrail_json_object(json, NULL);
    put_time(writer, "time_s", event->time_ns);
    mrail_json_int(json, "rank", process->rank);
    mrail_json_string(json, "kind", report_kind_names[event->kind]);
    if (rail < 0) {
        mrail_json_null(json, "rail");
    } else {
        mrail_json_int(json, "rail", rail);
    }
    put_peer(writer, event->peer);
    mrail_json_bool(json, "recovery", event->is_recovery);
    mrail_json_string(json, "text", event->text);
    mrail_json_object_end(json);
}

static void put_events(writer_t *writer)
{
    mrail_json_newline(&writer->json);
    mrail_json_array(&writer->json, "events");
    for (unsigned i = 0; i < writer->model->num_events; ++i) {
        put_event(writer, &writer->model->events[i]);
    }
    mrail_json_array_end(&writer->json);
}

/* ---- counters, parameters ---- */

/* Sums up by name: all processes of a version have the same counters. */
static void put_counters(writer_t *writer)
{
    const report_model_t *model = writer->model;
    const report_process_t *first =
        (model->num_processes > 0) ? model->processes[0] : NULL;

    mrail_json_newline(&writer->json);
    mrail_json_object(&writer->json, "counters");
    for (unsigned i = 0; (first != NULL) && (i < first->num_counters); ++i) {
        const char *name = first->counters[i].name;
        uint64_t sum = 0;

        for (unsigned k = 0; k < model->num_processes; ++k) {
            const report_process_t *process = model->processes[k];

            for (unsigned c = 0; c < process->num_counters; ++c) {
                if (strcmp(process->counters[c].name, name) == 0) {
                    sum += process->counters[c].value;
                }
            }
        }
        mrail_json_uint(&writer->json, name, sum);
    }
    mrail_json_object_end(&writer->json);
}

static void put_params(writer_t *writer)
{
    const report_model_t *model = writer->model;
    mrail_json_t *json = &writer->json;

    mrail_json_newline(json);
    mrail_json_object(json, "configuration");
    if (model->params_rank < 0) {
        mrail_json_null(json, "rank");
    } else {
        mrail_json_int(json, "rank", model->params_rank);
    }
    mrail_json_object(json, "environment");
    for (unsigned i = 0; i < model->num_params; ++i) {
        mrail_json_string(json, model->params[i].name, model->params[i].value);
    }
    mrail_json_object_end(json);
    mrail_json_object_end(json);
}

void report_json(FILE *stream, const report_model_t *model)
{
    writer_t writer = {.json = mrail_json_to(stream),
                       .model = model,
                       .facts = report_facts(model),
                       .rails = report_rail_names(model)};
    mrail_json_t *json = &writer.json;

    mrail_json_object(json, NULL);
    mrail_json_uint(json, "report", 1);
    mrail_json_string(json, "version", PACKAGE_VERSION);
    mrail_json_string(json, "job", model->job);
    mrail_json_string(json, "host", model->host);
    put_summary(&writer);
    put_recording(&writer);
    put_archive(&writer);
    put_totals(&writer);
    put_rails(&writer);
    put_processes(&writer);
    put_slowest(&writer);
    put_events(&writer);
    put_counters(&writer);
    report_json_plans(json, model, writer.facts.start_ns);
    put_params(&writer);
    mrail_json_newline(json);
    mrail_json_object_end(json);
    mrail_json_end(json);
}
