#include "config.h"
#include "tools/diagnose.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- ranks ---- */

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

int diagnose_is_same_host(const diagnose_rank_t *a, const diagnose_rank_t *b)
{
    return (a->host == b->host) || ((a->host != NULL) && (b->host != NULL) &&
                                    (strcmp(a->host, b->host) == 0));
}

void diagnose_rank_name(const diagnose_rank_t *rank, char *text, size_t size)
{
    if (rank->host != NULL) {
        snprintf(text, size, "rank %d on %s", rank->rank, rank->host);
    } else {
        snprintf(text, size, "rank %d", rank->rank);
    }
}

void diagnose_peer_name(const diagnose_snapshot_t *snapshot, uint64_t id,
                        char *text, size_t size)
{
    const diagnose_rank_t *peer = diagnose_peer(snapshot, id);

    if (peer != NULL) {
        diagnose_rank_name(peer, text, size);
    } else {
        snprintf(text, size, "peer %016llx", (unsigned long long)id);
    }
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
    diagnose_check_rails(snapshot, report);
    ret = diagnose_check_calls(snapshot, report);
    check_cores(snapshot, report);
    qsort(report->findings, report->num_findings, sizeof(*report->findings),
          finding_order);
    return ret;
}
