#include "config.h"
#include "tools/diagnose.h"

#include "base/json.h"

#include <string.h>

/* Maximum number of ranks in a table, which must fit on a screen. */
#define MAX_ROWS 32u

/* ---- ranks ---- */

/* Returns the communicator in which a rank currently is or was last, or
 * NULL. */
static const mrail_calls_comm_t *current(const diagnose_rank_t *rank)
{
    const mrail_calls_comm_t *best = NULL;
    uint64_t best_ns = 0;

    for (unsigned i = 0; (rank->calls != NULL) && (i < MRAIL_CALLS_COMMS);
         ++i) {
        const mrail_calls_comm_t *comm = &rank->calls->comms[i];
        const mrail_calls_record_t *last =
            (comm->id != 0) ? mrail_calls_record(comm, comm->entered - 1)
                            : NULL;

        if ((last != NULL) && (last->entered >= best_ns)) {
            best = comm;
            best_ns = last->entered;
        }
    }
    return best;
}

/* Activity of a rank, and its start. */
typedef struct activity {
    char text[64];
    uint64_t since_ns; /* 0 if unknown */
    const mrail_calls_comm_t *comm;
} activity_t;

static activity_t activity_of(const diagnose_rank_t *rank)
{
    activity_t activity = {.text = "?", .comm = current(rank)};
    const mrail_calls_record_t *last;

    if (activity.comm == NULL) {
        return activity;
    }
    last = mrail_calls_record(activity.comm, activity.comm->entered - 1);
    if (activity.comm->entered > activity.comm->left) {
        mrail_calls_name(activity.text, last->kind);
        activity.since_ns = last->entered;
    } else if (mrail_calls_is_waiting(rank->calls)) {
        mrail_calls_name(activity.text, rank->calls->wait.kind);
        activity.since_ns = rank->calls->wait.since;
    } else {
        snprintf(activity.text, sizeof(activity.text), "outside %s",
                 mrail_calls_has_waits(rank->calls) ? "MPI" : "collectives");
        activity.since_ns = last->left;
    }
    return activity;
}

static double for_s(const diagnose_snapshot_t *snapshot, uint64_t since_ns)
{
    return ((since_ns == 0) || (since_ns > snapshot->now_ns))
               ? 0
               : (double)(snapshot->now_ns - since_ns) / 1e9;
}

/* ---- text ---- */

static void print_percent(FILE *stream, double share)
{
    if (share < 0) {
        fprintf(stream, " %6s", "?");
    } else {
        fprintf(stream, " %5.0f%%", 100 * share);
    }
}

static void print_rank(FILE *stream, const diagnose_snapshot_t *snapshot,
                       const diagnose_rank_t *rank)
{
    activity_t activity = activity_of(rank);
    diagnose_gaps_t gaps = {0};

    if (activity.comm != NULL) {
        gaps = diagnose_gaps(activity.comm);
    }
    fprintf(stream, "%5d %8u %-5s", rank->rank, rank->pid,
            !rank->alive ? "ended" : (char[]){rank->state, '\0'});
    print_percent(stream, rank->run);
    print_percent(stream, rank->delay);
    fprintf(stream, " %10llu  %-22s %7.1f %9.1f %8.1f%s%s\n",
            (activity.comm != NULL) ? (unsigned long long)activity.comm->entered
                                    : 0,
            activity.text, for_s(snapshot, activity.since_ns),
            (double)gaps.median_ns / 1e6, (double)gaps.max_ns / 1e6,
            (rank->host != NULL) ? "  " : "",
            (rank->host != NULL) ? rank->host : "");
}

/* Breaks a text into lines of at most 76 characters, with an indentation of two
 * spaces. */
static void print_wrapped(FILE *stream, const char *text)
{
    while (*text != '\0') {
        size_t length = strlen(text);

        if (length > 76) {
            for (length = 76; (length > 1) && (text[length] != ' '); --length) {
            }
        }
        fprintf(stream, "    %.*s\n", (int)length, text);
        text += length;
        text += strspn(text, " ");
    }
}

static unsigned num_alive(const diagnose_snapshot_t *snapshot)
{
    unsigned count = 0;

    for (unsigned i = 0; i < snapshot->num_ranks; ++i) {
        count += (unsigned)snapshot->ranks[i].alive;
    }
    return count;
}

static int has_calls(const diagnose_snapshot_t *snapshot)
{
    for (unsigned i = 0; i < snapshot->num_ranks; ++i) {
        if (snapshot->ranks[i].calls != NULL) {
            return 1;
        }
    }
    return 0;
}

static void print_table(FILE *stream, const diagnose_snapshot_t *snapshot)
{
    fprintf(stream, "\n%5s %8s %-5s %6s %6s %10s  %-22s %7s %9s %8s%s\n",
            "RANK", "PID", "STATE", "RUNS", "WAITS", "CALLS", "IN", "FOR S",
            "COMP MS", "MAX MS", (snapshot->view != NULL) ? "  HOST" : "");
    for (unsigned i = 0; i < MRAIL_MIN(snapshot->num_ranks, MAX_ROWS); ++i) {
        print_rank(stream, snapshot, &snapshot->ranks[i]);
    }
    if (snapshot->num_ranks > MAX_ROWS) {
        fprintf(stream, "and %u more ranks; --json shows all\n",
                snapshot->num_ranks - MAX_ROWS);
    }
}

void diagnose_print(FILE *stream, const char *job,
                    const diagnose_snapshot_t *snapshot,
                    const diagnose_report_t *report)
{
    fprintf(stream, "job %s: %u process%s %s, %u running\n",
            (*job != '\0') ? job : "(without a name)", snapshot->num_ranks,
            (snapshot->num_ranks == 1) ? "" : "es",
            (snapshot->view != NULL) ? "in the archive" : "on this machine",
            num_alive(snapshot));
    if (report->num_findings == 0) {
        fprintf(stream, "  no cause of a delay was found\n");
    }
    for (unsigned i = 0; i < report->num_findings; ++i) {
        const diagnose_finding_t *finding = &report->findings[i];

        fprintf(stream, "  %s: %s %s\n",
                diagnose_causes[finding->cause].culprit, finding->subject,
                diagnose_causes[finding->cause].text);
        print_wrapped(stream, finding->evidence);
    }
    if (report->more > 0) {
        fprintf(stream, "  and %u more findings\n", report->more);
    }
    if (report->contended > 0.5) {
        fprintf(stream,
                "  note: each rank waits for a core during at least %.0f %% of "
                "its time; the\n"
                "    machine has more work than cores\n",
                100 * report->contended);
    }
    if (!has_calls(snapshot)) {
        fprintf(stream, "  the job does not record its MPI calls: it runs "
                        "without coll/mrailcalls\n");
    }
    print_table(stream, snapshot);
}

/* ---- JSON ---- */

static void json_findings(mrail_json_t *json, const diagnose_report_t *report)
{
    mrail_json_array(json, "findings");
    for (unsigned i = 0; i < report->num_findings; ++i) {
        const diagnose_finding_t *finding = &report->findings[i];

        mrail_json_newline(json);
        mrail_json_object(json, NULL);
        mrail_json_string(json, "culprit",
                          diagnose_causes[finding->cause].culprit);
        mrail_json_string(json, "cause", diagnose_causes[finding->cause].name);
        mrail_json_string(json, "subject", finding->subject);
        mrail_json_int(json, "rank", finding->rank);
        mrail_json_string(json, "evidence", finding->evidence);
        mrail_json_object_end(json);
    }
    mrail_json_array_end(json);
}

static void json_counts(mrail_json_t *json, const mrail_calls_comm_t *comm)
{
    const mrail_calls_record_t *last =
        mrail_calls_record(comm, comm->entered - 1);
    char name[MRAIL_CALLS_NAME];

    mrail_json_object(json, "calls");
    for (uint32_t kind = 0; kind < MRAIL_CALLS_NUM_KINDS; ++kind) {
        uint64_t inside = (comm->entered > comm->left) && (last != NULL) &&
                          ((last->kind & ~MRAIL_CALLS_NONBLOCKING) == kind);

        if (comm->counts[kind] > 0) {
            mrail_calls_name(name, kind);
            mrail_json_object(json, name);
            mrail_json_uint(json, "entered", comm->counts[kind]);
            mrail_json_uint(json, "left",
                            comm->counts[kind] -
                                MRAIL_MIN(inside, comm->counts[kind]));
            mrail_json_object_end(json);
        }
    }
    mrail_json_object_end(json);
}

static void json_comm(mrail_json_t *json, const diagnose_snapshot_t *snapshot,
                      const mrail_calls_comm_t *comm)
{
    const mrail_calls_record_t *last =
        mrail_calls_record(comm, comm->entered - 1);
    diagnose_gaps_t gaps = diagnose_gaps(comm);
    int inside = comm->entered > comm->left;

    mrail_json_object(json, NULL);
    mrail_json_string(json, "name", comm->name);
    mrail_json_uint(json, "rank", comm->rank);
    mrail_json_uint(json, "size", comm->size);
    mrail_json_uint(json, "entered", comm->entered);
    mrail_json_uint(json, "left", comm->left);
    mrail_json_fixed(json, "since_s",
                     (last == NULL)
                         ? 0
                         : for_s(snapshot, inside ? last->entered : last->left),
                     3);
    mrail_json_uint(json, "computed_ns", comm->computed);
    mrail_json_uint(json, "called_ns", comm->called);
    mrail_json_uint(json, "gap_median_ns", gaps.median_ns);
    mrail_json_uint(json, "gap_p90_ns", gaps.p90_ns);
    mrail_json_uint(json, "gap_max_ns", gaps.max_ns);
    json_counts(json, comm);
    mrail_json_object_end(json);
}

static void json_share(mrail_json_t *json, const char *key, double share)
{
    if (share < 0) {
        mrail_json_null(json, key);
    } else {
        mrail_json_fixed(json, key, share, 3);
    }
}

static void json_rails(mrail_json_t *json, const diagnose_rank_t *rank)
{
    mrail_json_array(json, "rails");
    for (unsigned i = 0; i < rank->num_rails; ++i) {
        const diagnose_rail_t *rail = &rank->rails[i];

        mrail_json_object(json, NULL);
        mrail_json_string(json, "name", rail->name);
        mrail_json_bool(json, "down", rail->is_down);
        mrail_json_uint(json, "chunks", rail->traffic.chunks);
        mrail_json_uint(json, "bytes", rail->traffic.bytes);
        mrail_json_uint(json, "busy_ns", rail->traffic.busy_ns);
        mrail_json_object_end(json);
    }
    mrail_json_array_end(json);
}

static void json_rank(mrail_json_t *json, const diagnose_snapshot_t *snapshot,
                      const diagnose_rank_t *rank)
{
    activity_t activity = activity_of(rank);

    mrail_json_newline(json);
    mrail_json_object(json, NULL);
    if (rank->host != NULL) {
        mrail_json_string(json, "host", rank->host);
    }
    mrail_json_int(json, "rank", rank->rank);
    mrail_json_uint(json, "pid", rank->pid);
    mrail_json_bool(json, "alive", rank->alive);
    mrail_json_string(json, "state", (char[]){rank->state, '\0'});
    json_share(json, "runs", rank->run);
    json_share(json, "waits", rank->delay);
    mrail_json_string(json, "in", activity.text);
    mrail_json_fixed(json, "for_s", for_s(snapshot, activity.since_ns), 3);
    json_rails(json, rank);
    mrail_json_array(json, "communicators");
    for (unsigned i = 0; (rank->calls != NULL) && (i < MRAIL_CALLS_COMMS);
         ++i) {
        if (rank->calls->comms[i].id != 0) {
            json_comm(json, snapshot, &rank->calls->comms[i]);
        }
    }
    mrail_json_array_end(json);
    mrail_json_object_end(json);
}

void diagnose_json(FILE *stream, const char *job,
                   const diagnose_snapshot_t *snapshot,
                   const diagnose_report_t *report)
{
    mrail_json_t json = mrail_json_to(stream);

    mrail_json_object(&json, NULL);
    mrail_json_string(&json, "job", job);
    if (snapshot->view != NULL) {
        pages_json_hosts(&json, snapshot->view->hosts,
                         snapshot->view->manifest.num_hosts);
    }
    mrail_json_string(&json, "culprit",
                      (report->num_findings == 0)
                          ? "none"
                          : diagnose_causes[report->findings[0].cause].culprit);
    json_findings(&json, report);
    mrail_json_fixed(&json, "contended", report->contended, 3);
    mrail_json_array(&json, "ranks");
    for (unsigned i = 0; i < snapshot->num_ranks; ++i) {
        json_rank(&json, snapshot, &snapshot->ranks[i]);
    }
    mrail_json_array_end(&json);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
}
