#include "config.h"
#include "tools/trace_show.h"

/* Percentiles in millionths. */
#define P50 500000u
#define P99 990000u

/* ---- names ---- */

/* Large enough for a rail such as "mlx5_0:1". */
#define RAIL_TEXT 48

static void rail_text(char *text, const mrail_page_t *page, unsigned rail)
{
    if (rail < page->num_rails) {
        snprintf(text, RAIL_TEXT, "%s:%u", page->rails[rail].device,
                 page->rails[rail].port);
    } else {
        snprintf(text, RAIL_TEXT, "rail %u", rail);
    }
}

/* Returns the current UDP source port of a lane, or 0 if the page does not show
 * it. */
static unsigned lane_sport(const mrail_page_t *page, uint64_t peer,
                           unsigned lane)
{
    for (unsigned i = 0; i < page->num_lanes; ++i) {
        if ((page->lanes[i].peer == peer) && (page->lanes[i].slot == lane)) {
            return page->lanes[i].sport;
        }
    }
    return 0;
}

static double per_second(uint64_t bytes, double elapsed_s)
{
    return (elapsed_s > 0) ? (double)bytes / elapsed_s : 0;
}

/* ---- table ---- */

static void print_row(FILE *stream, const trace_process_t *process,
                      const trace_row_t *row, int first)
{
    const mrail_page_t *page = process->page;
    char name[PAGES_PROCESS], rail[RAIL_TEXT];

    pages_process(name, sizeof(name), page);
    rail_text(rail, page, row->rail);
    fprintf(stream,
            "%-10s %-12s %4u %016llx %5u %-4s %8llu %8.1f %8.1f %9.1f %9.1f "
            "%9.1f %6llu%s%s%s\n",
            first ? name : "", rail, row->lane, (unsigned long long)row->peer,
            lane_sport(page, row->peer, row->lane),
            mrail_ring_kind_name(row->kind), (unsigned long long)row->messages,
            per_second(row->bytes, process->elapsed_s) / 1e6,
            (double)row->low / 1e6,
            (double)trace_times_percentile(&row->times, P50) / 1e3,
            (double)trace_times_percentile(&row->times, P99) / 1e3,
            (double)row->times.max_ns / 1e3, (unsigned long long)row->failed,
            (process->host != NULL) ? "  " : "",
            (process->host != NULL) ? process->host : "",
            process->alive ? "" : "  ended");
}

static void print_note(FILE *stream, const trace_process_t *process)
{
    char name[PAGES_PROCESS];

    pages_process(name, sizeof(name), process->page);
    if (process->missed != 0) {
        fprintf(stream,
                "%s: %llu records were overwritten before they were read; set "
                "UCX_MRAIL_TELEMETRY_RECORDS higher\n",
                name, (unsigned long long)process->missed);
    }
    if (process->invalid != 0) {
        fprintf(stream, "%s: %llu records are not valid\n", name,
                (unsigned long long)process->invalid);
    }
}

void trace_notes_print(FILE *stream, const trace_process_t *processes,
                       unsigned count)
{
    for (unsigned i = 0; i < count; ++i) {
        print_note(stream, &processes[i]);
    }
}

void trace_table_print(FILE *stream, const trace_process_t *processes,
                       unsigned count)
{
    unsigned rows = 0;

    fprintf(stream,
            "%-10s %-12s %4s %-16s %5s %-4s %8s %8s %8s %9s %9s %9s %6s\n",
            "PROCESS", "RAIL", "LANE", "PEER", "SPORT", "KIND", "COUNT", "MB/S",
            "LOWEST", "P50 US", "P99 US", "MAX US", "FAILED");
    for (unsigned i = 0; i < count; ++i) {
        for (unsigned r = 0; r < processes[i].table.count; ++r) {
            print_row(stream, &processes[i], processes[i].table.rows[r],
                      r == 0);
            ++rows;
        }
    }
    if (rows == 0) {
        fprintf(stream, "no records in the trace rings of %u process%s\n",
                count, (count == 1) ? "" : "es");
    }
    trace_notes_print(stream, processes, count);
}

/* ---- JSON ---- */

static void json_peer(mrail_json_t *json, uint64_t peer)
{
    char text[20];

    snprintf(text, sizeof(text), "%016llx", (unsigned long long)peer);
    mrail_json_string(json, "peer", text);
}

static void json_rail(mrail_json_t *json, const mrail_page_t *page,
                      unsigned rail)
{
    mrail_json_uint(json, "rail", rail);
    if (rail < page->num_rails) {
        mrail_json_string(json, "device", page->rails[rail].device);
        mrail_json_uint(json, "port", page->rails[rail].port);
    }
}

static void json_name(mrail_json_t *json, const mrail_page_t *page,
                      const char *host)
{
    if (host != NULL) {
        mrail_json_string(json, "host", host);
    }
    mrail_json_string(json, "job", page->job);
    mrail_json_int(json, "rank", page->rank);
    mrail_json_uint(json, "pid", page->head.pid);
}

static void json_row(mrail_json_t *json, const trace_process_t *process,
                     const trace_row_t *row)
{
    mrail_json_object(json, NULL);
    json_rail(json, process->page, row->rail);
    mrail_json_uint(json, "lane", row->lane);
    json_peer(json, row->peer);
    mrail_json_uint(json, "sport",
                    lane_sport(process->page, row->peer, row->lane));
    mrail_json_string(json, "kind", mrail_ring_kind_name(row->kind));
    mrail_json_uint(json, "records", row->records);
    mrail_json_uint(json, "count", row->messages);
    mrail_json_uint(json, "failed", row->failed);
    mrail_json_uint(json, "bytes", row->bytes);
    mrail_json_fixed(json, "bytes_per_s",
                     per_second(row->bytes, process->elapsed_s), 0);
    mrail_json_uint(json, "lowest_bytes_per_s", row->low);
    mrail_json_uint(json, "p50_ns", trace_times_percentile(&row->times, P50));
    mrail_json_uint(json, "p99_ns", trace_times_percentile(&row->times, P99));
    mrail_json_uint(json, "max_ns", row->times.max_ns);
    mrail_json_object_end(json);
}

void trace_table_json(FILE *stream, const trace_process_t *processes,
                      unsigned count, double interval_s)
{
    mrail_json_t json = mrail_json_to(stream);

    mrail_json_object(&json, NULL);
    mrail_json_fixed(&json, "time_s", (double)mrail_page_now() / 1e9, 3);
    mrail_json_fixed(&json, "interval_s", interval_s, 3);
    mrail_json_array(&json, "processes");
    for (unsigned i = 0; i < count; ++i) {
        const trace_process_t *process = &processes[i];

        mrail_json_object(&json, NULL);
        json_name(&json, process->page, process->host);
        mrail_json_string(&json, "program", process->page->program);
        mrail_json_bool(&json, "alive", process->alive);
        mrail_json_fixed(&json, "elapsed_s", process->elapsed_s, 6);
        mrail_json_uint(&json, "missed", process->missed);
        mrail_json_uint(&json, "invalid", process->invalid);
        mrail_json_array(&json, "lanes");
        for (unsigned r = 0; r < process->table.count; ++r) {
            json_row(&json, process, process->table.rows[r]);
        }
        mrail_json_array_end(&json);
        mrail_json_object_end(&json);
    }
    mrail_json_array_end(&json);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
}

/* ---- records ---- */

void trace_record_print(FILE *stream, const mrail_page_t *page,
                        const char *host, const mrail_ring_record_t *record)
{
    char when[PAGES_TIME], name[PAGES_PROCESS], rail[RAIL_TEXT];

    pages_time(when, sizeof(when), record->done_ns + page->clock_offset_ns);
    pages_process(name, sizeof(name), page);
    rail_text(rail, page, record->rail);
    fprintf(stream,
            "%s  %-10s %-12s lane %2u to %016llx  %-4s %3u  %9u bytes  "
            "%11.3f us%s%s%s\n",
            when, name, rail, record->lane, (unsigned long long)record->peer,
            mrail_ring_kind_name(mrail_ring_record_kind(record)), record->count,
            record->length, (double)(record->done_ns - record->post_ns) / 1e3,
            (host != NULL) ? "  " : "", (host != NULL) ? host : "",
            (record->kind & MRAIL_RING_FAILED) ? "  failed" : "");
}

void trace_record_json(FILE *stream, const mrail_page_t *page, const char *host,
                       const mrail_ring_record_t *record)
{
    mrail_json_t json = mrail_json_to(stream);

    mrail_json_object(&json, NULL);
    json_name(&json, page, host);
    json_rail(&json, page, record->rail);
    mrail_json_uint(&json, "lane", record->lane);
    json_peer(&json, record->peer);
    mrail_json_string(&json, "kind",
                      mrail_ring_kind_name(mrail_ring_record_kind(record)));
    mrail_json_uint(&json, "count", record->count);
    mrail_json_bool(&json, "failed", (record->kind & MRAIL_RING_FAILED) != 0);
    mrail_json_uint(&json, "bytes", record->length);
    mrail_json_uint(&json, "post_ns", record->post_ns + page->clock_offset_ns);
    mrail_json_uint(&json, "done_ns", record->done_ns + page->clock_offset_ns);
    mrail_json_uint(&json, "time_ns", record->done_ns - record->post_ns);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
}
