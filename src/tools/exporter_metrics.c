#include "config.h"
#include "tools/exporter.h"

#include "base/util.h"
#include "tools/top_rows.h"

#include <string.h>

static exporter_value_t number(uint64_t value)
{
    return (exporter_value_t){EXPORTER_NUMBER, value};
}

static exporter_value_t seconds(uint64_t ns)
{
    return (exporter_value_t){EXPORTER_NS, ns};
}

static exporter_value_t none(void)
{
    return (exporter_value_t){EXPORTER_NONE, 0};
}

/* ---- the exporter ---- */

static exporter_value_t of_build(const exporter_subject_t *subject)
{
    return number(1);
}

static exporter_value_t of_jobs(const exporter_subject_t *subject)
{
    return number(subject->view->selection.num_jobs);
}

static exporter_value_t of_processes(const exporter_subject_t *subject)
{
    return number(subject->view->selection.count);
}

static exporter_value_t of_jobs_left_out(const exporter_subject_t *subject)
{
    return number(subject->view->selection.jobs_left_out);
}

static exporter_value_t of_left_out(const exporter_subject_t *subject)
{
    return number(subject->view->selection.left_out[subject->row]);
}

static exporter_value_t of_refused(const exporter_subject_t *subject)
{
    const exporter_view_t *view = subject->view;

    switch (subject->row) {
    case 0:
        return number(view->refused[MRAIL_PAGE_FOREIGN] + view->others);
    case 1:
        return number(view->refused[MRAIL_PAGE_OTHER]);
    default:
        return number(view->refused[MRAIL_PAGE_BROKEN]);
    }
}

static exporter_value_t of_scrapes(const exporter_subject_t *subject)
{
    return number(subject->view->self.scrapes);
}

static exporter_value_t of_duration(const exporter_subject_t *subject)
{
    return seconds(subject->view->self.duration_ns);
}

static exporter_value_t of_cpu(const exporter_subject_t *subject)
{
    return seconds(subject->view->self.cpu_ns);
}

static exporter_value_t of_start(const exporter_subject_t *subject)
{
    return seconds(subject->view->self.start_ns);
}

/* ---- processes ---- */

static exporter_value_t of_info(const exporter_subject_t *subject)
{
    return number(1);
}

static exporter_value_t of_alive(const exporter_subject_t *subject)
{
    return number(subject->process->alive != 0);
}

static exporter_value_t of_process_start(const exporter_subject_t *subject)
{
    return seconds(subject->process->page->start_ns);
}

static exporter_value_t of_update(const exporter_subject_t *subject)
{
    return seconds(subject->process->page->update_ns);
}

static exporter_value_t of_in_call(const exporter_subject_t *subject)
{
    uint64_t in_call_ns = subject->process->in_call_ns;

    return (in_call_ns == EXPORTER_UNKNOWN) ? none() : seconds(in_call_ns);
}

static exporter_value_t of_events(const exporter_subject_t *subject)
{
    return number(subject->process->page->num_events);
}

static exporter_value_t of_more_lanes(const exporter_subject_t *subject)
{
    return number(subject->process->page->more_lanes);
}

/* Returns the counter with that name. All pages of a version list their
 * counters in the same order, so the search usually succeeds at the first
 * index. */
static exporter_value_t of_counter(const mrail_page_t *page, const char *name)
{
    static unsigned hint;
    unsigned count = page->num_counters;

    for (unsigned i = 0; i < count; ++i) {
        unsigned at = (hint + i) % count;

        if (strcmp(page->counters[at].name, name) == 0) {
            hint = at;
            return number(page->counters[at].value);
        }
    }
    return none();
}

/* ---- rails ---- */

static const mrail_page_rail_t *rail_of(const exporter_subject_t *subject)
{
    return &subject->process->page->rails[subject->rail];
}

static exporter_value_t of_rail_bytes(const exporter_subject_t *subject)
{
    return number(rail_of(subject)->bytes);
}

static exporter_value_t of_rail_stalled(const exporter_subject_t *subject)
{
    return seconds(rail_of(subject)->stalled_ns);
}

static exporter_value_t of_rail_idle(const exporter_subject_t *subject)
{
    return seconds(rail_of(subject)->idle_ns);
}

static exporter_value_t of_rail_up(const exporter_subject_t *subject)
{
    return number(rail_of(subject)->is_down == 0);
}

static exporter_value_t of_rail_lanes(const exporter_subject_t *subject)
{
    return number(rail_of(subject)->num_lanes);
}

static exporter_value_t of_rail_paths_not_up(const exporter_subject_t *subject)
{
    /* The states of a path that is not up; src/rail/proto/health.h. */
    static const char *const states[] = {"suspect", "down", "retired",
                                         "probing"};
    const mrail_page_t *page = subject->process->page;
    uint64_t count = 0;

    for (unsigned i = 0; i < page->num_lanes; ++i) {
        for (unsigned k = 0; k < MRAIL_ARRAY_SIZE(states); ++k) {
            count += (page->lanes[i].rail == subject->rail) &&
                     (strcmp(page->lanes[i].state, states[k]) == 0);
        }
    }
    return number(count);
}

static exporter_value_t of_rail_in_flight(const exporter_subject_t *subject)
{
    return number(
        top_figures(NULL, subject->process->page, subject->rail).outstanding);
}

static exporter_value_t of_rail_speed(const exporter_subject_t *subject)
{
    return number(rail_of(subject)->nominal);
}

static exporter_value_t known(uint64_t value)
{
    return (value == 0) ? none() : number(value);
}

static exporter_value_t of_rail_out(const exporter_subject_t *subject)
{
    return known(rail_of(subject)->live_out);
}

static exporter_value_t of_rail_in(const exporter_subject_t *subject)
{
    return known(rail_of(subject)->live_in);
}

#define WORK(_name, _field, _unit)                                             \
    static exporter_value_t of_rail_##_name##_out(                             \
        const exporter_subject_t *subject)                                     \
    {                                                                          \
        return _unit(rail_of(subject)->work_out._field);                       \
    }                                                                          \
                                                                               \
    static exporter_value_t of_rail_##_name##_in(                              \
        const exporter_subject_t *subject)                                     \
    {                                                                          \
        return _unit(rail_of(subject)->work_in._field);                        \
    }

WORK(work_bytes, bytes, number)
WORK(busy, busy_ns, seconds)
WORK(chunks, chunks, number)
WORK(chunk_time, chunk_ns, seconds)

/* ---- lanes ---- */

static exporter_value_t of_lane_bytes(const exporter_subject_t *subject)
{
    return number(subject->lane->bytes);
}

static exporter_value_t of_lane_stalled(const exporter_subject_t *subject)
{
    return seconds(subject->lane->stalled_ns);
}

static exporter_value_t of_lane_idle(const exporter_subject_t *subject)
{
    return seconds(subject->lane->idle_ns);
}

static exporter_value_t of_lane_up(const exporter_subject_t *subject)
{
    return number(strcmp(subject->lane->state, "up") == 0);
}

static exporter_value_t of_lane_in_flight(const exporter_subject_t *subject)
{
    return number(subject->lane->outstanding);
}

static exporter_value_t of_lane_rate(const exporter_subject_t *subject)
{
    return known(subject->lane->rate);
}

static exporter_value_t of_lane_sport(const exporter_subject_t *subject)
{
    return number(subject->lane->sport);
}

/* ---- the table ---- */

static const char *const build_labels[] = {"version=\"" PACKAGE_VERSION "\"",
                                           NULL};
/* order of exporter_reason_t */
static const char *const left_out_labels[] = {
    "reason=\"limit\"", "reason=\"ended\"", "reason=\"duplicate\"", NULL};
/* order of of_refused() */
static const char *const refused_labels[] = {"reason=\"other_user\"",
                                             "reason=\"other_version\"",
                                             "reason=\"broken\"", NULL};

#define GAUGE EXPORTER_GAUGE
#define COUNTER EXPORTER_COUNTER
#define ONE EXPORTER_ONE
#define PROCESS EXPORTER_PROCESS
#define RAIL EXPORTER_RAIL
#define LANE EXPORTER_LANE
/* A counter of the page, by its name there. */
#define COUNT(_counter, _name, _help)                                          \
    {                                                                          \
        "mrail_" _name "_total", COUNTER, PROCESS, _help, NULL, 1, NULL,       \
            _counter                                                           \
    }

const exporter_metric_t exporter_metrics[] = {
    {"mrail_exporter_build_info", GAUGE, ONE,
     "Version of this exporter, as a label.", of_build, 0, build_labels, NULL},
    {"mrail_exporter_jobs", GAUGE, ONE, "Jobs that are exported.", of_jobs, 0,
     NULL, NULL},
    {"mrail_exporter_processes", GAUGE, ONE, "Processes that are exported.",
     of_processes, 0, NULL, NULL},
    {"mrail_exporter_left_out_jobs", GAUGE, ONE,
     "Jobs that are not exported, because of --max-jobs.", of_jobs_left_out, 0,
     NULL, NULL},
    {"mrail_exporter_left_out_processes", GAUGE, ONE,
     "Processes that are not exported, by reason.", of_left_out, 0,
     left_out_labels, NULL},
    {"mrail_exporter_refused_files", GAUGE, ONE,
     "Files that cannot be read as telemetry pages, by reason.", of_refused, 0,
     refused_labels, NULL},
    {"mrail_exporter_scrapes_total", COUNTER, ONE, "Scrapes before this one.",
     of_scrapes, 0, NULL, NULL},
    {"mrail_exporter_last_scrape_duration_seconds", GAUGE, ONE,
     "Time that the previous scrape took.", of_duration, 0, NULL, NULL},
    {"mrail_exporter_cpu_seconds_total", COUNTER, ONE,
     "CPU time of this exporter.", of_cpu, 0, NULL, NULL},
    {"mrail_exporter_start_time_seconds", GAUGE, ONE,
     "Start of this exporter, in seconds since 1970.", of_start, 0, NULL, NULL},

    {"mrail_process_info", GAUGE, EXPORTER_PROGRAM,
     "Program of a process, as a label.", of_info, 1, NULL, NULL},
    {"mrail_process_up", GAUGE, PROCESS,
     "1 if the process is running, 0 if it terminated abnormally.", of_alive, 1,
     NULL, NULL},
    {"mrail_process_start_time_seconds", GAUGE, PROCESS,
     "Start of the transport, in seconds since 1970.", of_process_start, 1,
     NULL, NULL},
    {"mrail_process_update_time_seconds", GAUGE, PROCESS,
     "Last update of the telemetry page, in seconds since 1970.", of_update, 1,
     NULL, NULL},
    {"mrail_process_mpi_call_seconds", GAUGE, PROCESS,
     "Time in the current MPI collective or wait, 0 outside of both.",
     of_in_call, 0, NULL, NULL},
    {"mrail_process_events_total", COUNTER, PROCESS,
     "Events of ports, paths, lanes and peers.", of_events, 1, NULL, NULL},
    {"mrail_process_left_out_lanes", GAUGE, PROCESS,
     "Lanes that do not fit into the telemetry page.", of_more_lanes, 0, NULL,
     NULL},

    COUNT("am_sent", "messages_sent", "Active messages sent."),
    COUNT("am_received", "messages_received", "Active messages received."),
    COUNT("am_held", "messages_held",
          "Active messages that waited for an earlier one."),
    COUNT("am_duplicate", "messages_duplicate",
          "Active messages that arrived twice and were dropped."),
    COUNT("am_replayed", "messages_replayed",
          "Active messages retransmitted after a lane failed."),
    COUNT("acks_sent", "acknowledgements_sent",
          "Acknowledgements sent as separate messages."),
    COUNT("put_bytes", "put_bytes", "Bytes of completed PUTs."),
    COUNT("get_bytes", "get_bytes", "Bytes of completed GETs."),
    COUNT("chunks", "chunks", "Chunks of PUTs and GETs that were posted."),
    COUNT("rma_replayed", "chunks_replayed",
          "Chunks and small PUTs reposted after a lane failed."),
    COUNT("fences", "fences", "Fences."),
    COUNT("flushes", "flushes", "Flushes of an endpoint."),
    COUNT("lanes_failed", "lane_failovers",
          "Lanes closed after a failure, whose work other lanes took over."),
    COUNT("lanes_evicted", "lane_evictions",
          "Idle lanes closed in favour of other peers."),
    COUNT("lanes_kept", "lane_evictions_cancelled",
          "Evictions of lanes that were cancelled."),
    COUNT("lanes_moved", "lane_moves",
          "Lanes that moved to another UDP source port."),
    COUNT("cqe_errors", "completion_errors",
          "Completions with an error status."),
    COUNT("rx_bad_header", "receive_bad_header",
          "Received messages whose header matches no lane."),
    COUNT("rx_no_credit", "receive_no_credit",
          "Received messages beyond the credits of their sender."),
    COUNT("rx_no_iface", "receive_no_interface",
          "Received messages for an interface that does not exist."),
    COUNT("ctl_sent", "control_sent", "Control messages sent."),
    COUNT("ctl_received", "control_received", "Control messages received."),
    COUNT("ctl_resent", "control_resent", "Control messages repeated."),
    COUNT("ctl_bad_format", "control_bad_format",
          "Control messages dropped because of their format."),
    COUNT("ctl_bad_version", "control_bad_version",
          "Control messages dropped because of their version."),
    COUNT("ctl_bad_cookie", "control_bad_cookie",
          "Control messages dropped because of their cookie."),
    COUNT("ctl_unexpected", "control_unexpected",
          "Control messages that were late or not expected."),

    {"mrail_rail_bytes_total", COUNTER, RAIL,
     "Bytes carried by all lanes of the rail.", of_rail_bytes, 1, NULL, NULL},
    {"mrail_rail_stalled_seconds_total", COUNTER, RAIL,
     "Time with work outstanding but no completion, summed over lanes.",
     of_rail_stalled, 1, NULL, NULL},
    {"mrail_rail_idle_seconds_total", COUNTER, RAIL,
     "Time without work while other lanes had work, summed over lanes.",
     of_rail_idle, 1, NULL, NULL},
    {"mrail_rail_up", GAUGE, RAIL,
     "0 if the port is down or the rail no longer carries traffic.", of_rail_up,
     0, NULL, NULL},
    {"mrail_rail_lanes", GAUGE, RAIL, "Lanes that are connected.",
     of_rail_lanes, 0, NULL, NULL},
    {"mrail_rail_paths_not_up", GAUGE, RAIL,
     "Paths that are not up, including paths without a lane.",
     of_rail_paths_not_up, 0, NULL, NULL},
    {"mrail_rail_in_flight_bytes", GAUGE, RAIL, "Bytes in flight.",
     of_rail_in_flight, 0, NULL, NULL},
    {"mrail_rail_speed_bytes_per_second", GAUGE, RAIL,
     "Nominal rate of the port.", of_rail_speed, 0, NULL, NULL},
    {"mrail_rail_send_bandwidth_bytes_per_second", GAUGE, RAIL,
     "Measured bandwidth for PUTs, absent if unknown.", of_rail_out, 0, NULL,
     NULL},
    {"mrail_rail_receive_bandwidth_bytes_per_second", GAUGE, RAIL,
     "Measured bandwidth for GETs, absent if unknown.", of_rail_in, 0, NULL,
     NULL},
    {"mrail_rail_send_chunk_bytes_total", COUNTER, RAIL,
     "Bytes of completed chunks of PUTs, of at least 4 KiB each.",
     of_rail_work_bytes_out, 1, NULL, NULL},
    {"mrail_rail_send_busy_seconds_total", COUNTER, RAIL,
     "Time with at least one chunk of PUTs in flight.", of_rail_busy_out, 1,
     NULL, NULL},
    {"mrail_rail_send_chunks_total", COUNTER, RAIL, "Completed chunks of PUTs.",
     of_rail_chunks_out, 1, NULL, NULL},
    {"mrail_rail_send_chunk_seconds_total", COUNTER, RAIL,
     "Time from post to completion of chunks of PUTs, summed over chunks.",
     of_rail_chunk_time_out, 1, NULL, NULL},
    {"mrail_rail_receive_chunk_bytes_total", COUNTER, RAIL,
     "Bytes of completed chunks of GETs, of at least 4 KiB each.",
     of_rail_work_bytes_in, 1, NULL, NULL},
    {"mrail_rail_receive_busy_seconds_total", COUNTER, RAIL,
     "Time with at least one chunk of GETs in flight.", of_rail_busy_in, 1,
     NULL, NULL},
    {"mrail_rail_receive_chunks_total", COUNTER, RAIL,
     "Completed chunks of GETs.", of_rail_chunks_in, 1, NULL, NULL},
    {"mrail_rail_receive_chunk_seconds_total", COUNTER, RAIL,
     "Time from post to completion of chunks of GETs, summed over chunks.",
     of_rail_chunk_time_in, 1, NULL, NULL},

    {"mrail_lane_bytes_total", COUNTER, LANE,
     "Bytes carried by the queue pair of the lane.", of_lane_bytes, 0, NULL,
     NULL},
    {"mrail_lane_stalled_seconds_total", COUNTER, LANE,
     "Time with work outstanding but no completion.", of_lane_stalled, 0, NULL,
     NULL},
    {"mrail_lane_idle_seconds_total", COUNTER, LANE,
     "Time without work while other lanes had work.", of_lane_idle, 0, NULL,
     NULL},
    {"mrail_lane_up", GAUGE, LANE, "1 if the lane and its path are up.",
     of_lane_up, 0, NULL, NULL},
    {"mrail_lane_in_flight_bytes", GAUGE, LANE, "Bytes in flight.",
     of_lane_in_flight, 0, NULL, NULL},
    {"mrail_lane_bandwidth_bytes_per_second", GAUGE, LANE,
     "Rate over the last eight chunks, absent if unknown.", of_lane_rate, 0,
     NULL, NULL},
    {"mrail_lane_source_port", GAUGE, LANE, "UDP source port.", of_lane_sport,
     0, NULL, NULL},
};

const unsigned exporter_num_metrics = MRAIL_ARRAY_SIZE(exporter_metrics);

exporter_value_t exporter_value(const exporter_metric_t *metric,
                                const exporter_subject_t *subject)
{
    return (metric->counter != NULL)
               ? of_counter(subject->process->page, metric->counter)
               : metric->value(subject);
}
