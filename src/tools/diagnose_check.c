#include "config.h"
#include "tools/diagnose.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* A rail is slow if its rate is below this fraction of the other rails' rate.
 * The chunks of a process share its rails, so the rates of healthy rails differ
 * by less. */
#define SLOW 0.5
/* A rail that carries more than this multiple of the other rails' bytes is not
 * slow. */
#define SLOW_LOAD 1.5
/* A rail that has carried less than this has no measured rate. */
#define MIN_BYTES (1u << 20)
#define MIN_CHUNKS 8u
#define MIN_BUSY_NS (20 * MRAIL_NS_PER_MS)

/* A rank is starved if it waits for a core for more than the first fraction of
 * its time, and three quarters of the other ranks wait for less than the
 * second. The gap between the two fractions is necessary because the waiting
 * times of all ranks on an overloaded machine vary by chance. */
#define STARVED 0.6
#define NOT_STARVED 0.3

const diagnose_cause_text_t diagnose_causes[DIAGNOSE_NUM_CAUSES] = {
    [DIAGNOSE_ENDED] = {"ended", "rank", "has exited"},
    [DIAGNOSE_STOPPED] = {"stopped", "rank", "is stopped"},
    [DIAGNOSE_MISMATCH] = {"mismatch", "rank",
                           "makes its calls in a different order"},
    [DIAGNOSE_RAIL_DOWN] = {"rail-down", "rail", "is down"},
    [DIAGNOSE_PATH] = {"path", "path", "loses packets on a path"},
    [DIAGNOSE_UPLINK_SLOW] = {"uplink-slow", "uplink", "is slow"},
    [DIAGNOSE_RAIL_SLOW] = {"rail-slow", "rail", "is slow"},
    [DIAGNOSE_CORES] = {"cores", "compute", "waits for a core"},
    [DIAGNOSE_COMPUTE] = {"compute", "compute", "keeps other ranks waiting"},
};

/* ---- findings ---- */

static diagnose_finding_t *find(diagnose_report_t *report,
                                diagnose_cause_t cause, const char *subject)
{
    for (unsigned i = 0; i < report->num_findings; ++i) {
        if ((report->findings[i].cause == cause) &&
            (strcmp(report->findings[i].subject, subject) == 0)) {
            return &report->findings[i];
        }
    }
    return NULL;
}

diagnose_finding_t *diagnose_add(diagnose_report_t *report,
                                 diagnose_cause_t cause, int rank,
                                 const char *subject, const char *format, ...)
{
    diagnose_finding_t *finding;
    char name[sizeof(finding->subject)];
    va_list args;

    if (subject != NULL) {
        snprintf(name, sizeof(name), "%s", subject);
    } else {
        snprintf(name, sizeof(name), "rank %d", rank);
    }
    if (find(report, cause, name) != NULL) {
        return NULL;
    }
    if (report->num_findings == DIAGNOSE_FINDINGS) {
        ++report->more;
        return NULL;
    }
    finding = &report->findings[report->num_findings++];
    finding->cause = cause;
    finding->rank = rank;
    memcpy(finding->subject, name, sizeof(name));
    va_start(args, format);
    vsnprintf(finding->evidence, sizeof(finding->evidence), format, args);
    va_end(args);
    return finding;
}

static int finding_order(const void *a, const void *b)
{
    const diagnose_finding_t *x = a, *y = b;

    if (x->cause != y->cause) {
        return (x->cause > y->cause) - (x->cause < y->cause);
    }
    return strcmp(x->subject, y->subject);
}

/* ---- processes ---- */

static int any_alive(const diagnose_snapshot_t *snapshot)
{
    for (unsigned i = 0; i < snapshot->num_ranks; ++i) {
        if (snapshot->ranks[i].alive) {
            return 1;
        }
    }
    return 0;
}

/* Returns 1 if the rank has ended, and belongs to an earlier run of the job.
 * lives_from_ns: start of the first of the running processes. */
static int is_earlier(const diagnose_rank_t *ranks, unsigned count,
                      const diagnose_rank_t *rank, uint64_t lives_from_ns)
{
    if (rank->alive || (rank->rank < 0)) {
        return 0; /* processes without a rank do not replace each other */
    }
    for (unsigned i = 0; i < count; ++i) {
        if ((ranks[i].rank == rank->rank) &&
            (ranks[i].alive || (ranks[i].last_ns > rank->last_ns))) {
            return 1;
        }
    }
    return rank->last_ns < lives_from_ns;
}

unsigned diagnose_drop_earlier(diagnose_rank_t *ranks, unsigned count)
{
    uint64_t lives_from_ns = UINT64_MAX;
    unsigned kept = 0;

    for (unsigned i = 0; i < count; ++i) {
        if (ranks[i].alive) {
            lives_from_ns = MRAIL_MIN(lives_from_ns, ranks[i].start_ns);
        }
    }
    if (lives_from_ns == UINT64_MAX) {
        lives_from_ns = 0;
    }
    /* The ranks from `i` on are complete, and so are those that were kept. */
    for (unsigned i = 0; i < count; ++i) {
        if (!is_earlier(ranks, kept, &ranks[i], lives_from_ns) &&
            !is_earlier(ranks + i, count - i, &ranks[i], lives_from_ns)) {
            if (kept != i) {
                ranks[kept] = ranks[i];
            }
            ++kept;
        }
    }
    return kept;
}

/* Adds findings for processes that exited before the other processes, or that
 * are stopped. These findings do not require further evidence. If all processes
 * have exited, names the processes that exited long before the last one. */
static void check_processes(const diagnose_snapshot_t *snapshot,
                            diagnose_report_t *report)
{
    int lives = any_alive(snapshot);
    uint64_t last_ns = 0;

    for (unsigned i = 0; i < snapshot->num_ranks; ++i) {
        last_ns = MRAIL_MAX(last_ns, snapshot->ranks[i].last_ns);
    }
    for (unsigned i = 0; i < snapshot->num_ranks; ++i) {
        const diagnose_rank_t *rank = &snapshot->ranks[i];

        if (!rank->alive &&
            (lives || (rank->last_ns + snapshot->patience_ns < last_ns))) {
            diagnose_add(report, DIAGNOSE_ENDED, rank->rank, NULL,
                         "process %u was killed, or exited without "
                         "MPI_Finalize",
                         rank->pid);
        } else if ((rank->state == 'T') || (rank->state == 't')) {
            diagnose_add(report, DIAGNOSE_STOPPED, rank->rank, NULL,
                         "process %u is in state %c: a signal or a debugger "
                         "stopped it",
                         rank->pid, rank->state);
        }
    }
}

/* Returns the number of other live ranks that waited for a core for at most
 * this share of their run time. */
static unsigned num_at_most(const diagnose_snapshot_t *snapshot,
                            const diagnose_rank_t *rank, double share)
{
    unsigned count = 0;

    for (unsigned i = 0; i < snapshot->num_ranks; ++i) {
        count += (&snapshot->ranks[i] != rank) && snapshot->ranks[i].alive &&
                 (diagnose_delay_share(&snapshot->ranks[i]) <= share);
    }
    return count;
}

int diagnose_is_starved(const diagnose_snapshot_t *snapshot,
                        const diagnose_rank_t *rank)
{
    unsigned others = snapshot->num_ranks - 1;

    return (others > 0) && (diagnose_delay_share(rank) > STARVED) &&
           (4 * num_at_most(snapshot, rank, NOT_STARVED) >= 3 * others);
}

static void check_cores(const diagnose_snapshot_t *snapshot,
                        diagnose_report_t *report)
{
    report->contended = 1;
    for (unsigned i = 0; i < snapshot->num_ranks; ++i) {
        const diagnose_rank_t *rank = &snapshot->ranks[i];
        double share = diagnose_delay_share(rank);
        char subject[32];

        report->contended = MRAIL_MIN(report->contended, share);
        snprintf(subject, sizeof(subject), "rank %d", rank->rank);
        if (diagnose_is_starved(snapshot, rank) &&
            (find(report, DIAGNOSE_COMPUTE, subject) == NULL)) {
            diagnose_add(report, DIAGNOSE_CORES, rank->rank, NULL,
                         "it waited for a core during %.0f %% of the time in "
                         "which it could have run, much longer than the other "
                         "ranks: other processes use its cores",
                         100 * share);
        }
    }
}

/* ---- rails and paths ---- */

static int is_measured(const diagnose_rail_t *rail)
{
    return (rail->traffic.bytes >= MIN_BYTES) &&
           (rail->traffic.chunks >= MIN_CHUNKS) &&
           (rail->traffic.busy_ns >= MIN_BUSY_NS);
}

/* Returns the rate as a fraction of the port's rate, so that rails with
 * different ports can be compared. */
static double speed_of(const diagnose_rail_t *rail)
{
    return diagnose_rate(&rail->traffic) / (double)MRAIL_MAX(rail->nominal, 1u);
}

/* Returns the bytes, divided by the port's rate. */
static double load_of(const diagnose_rail_t *rail)
{
    return (double)rail->traffic.bytes / (double)MRAIL_MAX(rail->nominal, 1u);
}

/* Returns the median of a value over the other measured rails of a rank, or 0 if
 * there are none. */
static double median_of_others(const diagnose_rank_t *rank, unsigned self,
                               double (*value)(const diagnose_rail_t *rail))
{
    double values[MRAIL_PAGE_RAILS];
    unsigned count = 0;

    for (unsigned i = 0; i < rank->num_rails; ++i) {
        if ((i != self) && is_measured(&rank->rails[i])) {
            values[count++] = value(&rank->rails[i]);
        }
    }
    if (count == 0) {
        return 0;
    }
    qsort(values, count, sizeof(*values), diagnose_double_order);
    return values[count / 2];
}

/* Lanes pull chunks, so a slow rail carries less than the other rails. A rail
 * that carries more is not slow, but busy with the chunks of other ranks. */
static int is_slow_rail(const diagnose_rank_t *rank, unsigned index)
{
    const diagnose_rail_t *rail = &rank->rails[index];

    return is_measured(rail) &&
           (speed_of(rail) < SLOW * median_of_others(rank, index, speed_of)) &&
           (load_of(rail) <=
            SLOW_LOAD * median_of_others(rank, index, load_of));
}

/* A rail as seen by several ranks. */
typedef struct rail_votes {
    const char *name;
    unsigned measured, slow, down;
    const diagnose_rank_t *first; /* a rank for which it is slow or down */
    double rate, speed_of_others; /* values at that rank */
    uint64_t nominal;
} rail_votes_t;

static void rail_vote(rail_votes_t *votes, const diagnose_rank_t *rank,
                      unsigned index)
{
    const diagnose_rail_t *rail = &rank->rails[index];
    double others = median_of_others(rank, index, speed_of);
    int is_slow = is_slow_rail(rank, index);

    votes->measured += is_measured(rail) && (others > 0);
    votes->slow += is_slow;
    votes->down += rail->is_down;
    if ((is_slow || rail->is_down) && (votes->first == NULL)) {
        votes->first = rank;
        votes->rate = diagnose_rate(&rail->traffic);
        votes->speed_of_others = others;
        votes->nominal = MRAIL_MAX(rail->nominal, 1u);
    }
}

static rail_votes_t rail_count(const diagnose_snapshot_t *snapshot,
                               const char *name)
{
    rail_votes_t votes = {.name = name};

    for (unsigned i = 0; i < snapshot->num_ranks; ++i) {
        const diagnose_rank_t *rank = &snapshot->ranks[i];

        for (unsigned k = 0; k < rank->num_rails; ++k) {
            if (strcmp(rank->rails[k].name, name) == 0) {
                rail_vote(&votes, rank, k);
            }
        }
    }
    return votes;
}

/* Returns 1 if an uplink of the rail is slow, which delays the rail. If more
 * ranks see the slow rail than the slow uplink, the rail has another cause. */
static int has_slow_uplink(const diagnose_report_t *report, const char *rail,
                           unsigned ranks)
{
    for (unsigned i = 0; i < report->num_findings; ++i) {
        const diagnose_finding_t *finding = &report->findings[i];
        const char *of = strstr(finding->subject, " of rail ");

        if ((finding->cause == DIAGNOSE_UPLINK_SLOW) && (of != NULL) &&
            (finding->ranks >= ranks) &&
            (strcmp(of + strlen(" of rail "), rail) == 0)) {
            return 1;
        }
    }
    return 0;
}

static void check_rail(const diagnose_snapshot_t *snapshot, const char *name,
                       diagnose_report_t *report)
{
    rail_votes_t votes = rail_count(snapshot, name);
    char subject[64];

    snprintf(subject, sizeof(subject), "rail %s", name);
    if (votes.down > 0) {
        diagnose_add(
            report, DIAGNOSE_RAIL_DOWN, votes.first->rank, subject,
            "its port is down at %u rank%s, first at rank %d; the other rails "
            "carry its traffic",
            votes.down, (votes.down == 1) ? "" : "s", votes.first->rank);
    } else if ((votes.slow > 0) && (2 * votes.slow >= votes.measured) &&
               !has_slow_uplink(report, name, votes.slow)) {
        diagnose_add(report, DIAGNOSE_RAIL_SLOW, votes.first->rank, subject,
                     "at rank %d it carried %.1f MB/s while work was "
                     "outstanding; at the speed of the other rails, it would "
                     "carry %.1f MB/s; %u of %u ranks agree",
                     votes.first->rank, votes.rate / 1e6,
                     votes.speed_of_others * (double)votes.nominal / 1e6,
                     votes.slow, votes.measured);
    }
}

static void check_rails(const diagnose_snapshot_t *snapshot,
                        diagnose_report_t *report)
{
    for (unsigned i = 0; i < snapshot->num_ranks; ++i) {
        for (unsigned k = 0; k < snapshot->ranks[i].num_rails; ++k) {
            check_rail(snapshot, snapshot->ranks[i].rails[k].name, report);
        }
    }
}

const diagnose_rank_t *diagnose_peer(const diagnose_snapshot_t *snapshot,
                                     uint64_t id)
{
    for (unsigned i = 0; i < snapshot->num_ranks; ++i) {
        if ((id != 0) && (snapshot->ranks[i].id == id)) {
            return &snapshot->ranks[i];
        }
    }
    return NULL;
}

void diagnose_peer_name(const diagnose_snapshot_t *snapshot, uint64_t id,
                        char *text, size_t size)
{
    const diagnose_rank_t *peer = diagnose_peer(snapshot, id);

    if (peer != NULL) {
        snprintf(text, size, "rank %d", peer->rank);
    } else {
        snprintf(text, size, "peer %016llx", (unsigned long long)id);
    }
}

/* Returns 1 if the retired path has another cause: its peer cannot answer, or a
 * port is down. */
static int is_explained(const diagnose_rank_t *rank,
                        const diagnose_path_t *path,
                        const diagnose_rank_t *peer)
{
    return ((peer != NULL) &&
            (!peer->alive || (peer->state == 'T') || (peer->state == 't'))) ||
           ((path->rail >= 0) && rank->rails[path->rail].is_down) ||
           ((path->rail >= 0) && (peer != NULL) &&
            ((unsigned)path->rail < peer->num_rails) &&
            peer->rails[path->rail].is_down);
}

static void check_path(const diagnose_snapshot_t *snapshot,
                       const diagnose_rank_t *rank, const diagnose_path_t *path,
                       diagnose_report_t *report)
{
    const diagnose_rank_t *peer = diagnose_peer(snapshot, path->peer);
    char subject[64], other[32];

    if (!rank->alive || (rank->state == 'T') ||
        is_explained(rank, path, peer)) {
        return;
    }
    if (path->rail >= 0) {
        snprintf(subject, sizeof(subject), "rail %s",
                 rank->rails[path->rail].name);
    } else {
        snprintf(subject, sizeof(subject), "path %u", path->slot);
    }
    diagnose_peer_name(snapshot, path->peer, other, sizeof(other));
    diagnose_add(report, DIAGNOSE_PATH, rank->rank, subject,
                 "path %u from rank %d to %s has carried nothing for %.1f s "
                 "(%s), although the port is up",
                 path->slot, rank->rank, other, (double)path->ago_ns / 1e9,
                 path->event);
}

int diagnose_check(const diagnose_snapshot_t *snapshot,
                   diagnose_report_t *report)
{
    int ret;

    memset(report, 0, sizeof(*report));
    check_processes(snapshot, report);
    ret = diagnose_check_uplinks(snapshot, report);
    if (ret != 0) {
        return ret;
    }
    check_rails(snapshot, report);
    for (unsigned i = 0; i < snapshot->num_ranks; ++i) {
        for (unsigned k = 0; k < snapshot->ranks[i].num_paths; ++k) {
            check_path(snapshot, &snapshot->ranks[i],
                       &snapshot->ranks[i].paths[k], report);
        }
    }
    ret = diagnose_check_calls(snapshot, report);
    check_cores(snapshot, report);
    qsort(report->findings, report->num_findings, sizeof(*report->findings),
          finding_order);
    return ret;
}
