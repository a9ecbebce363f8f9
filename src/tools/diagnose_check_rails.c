/*
 * Findings about rails and paths.
 *
 * Hosts of an archive have rails of the same names. The ranks of a host agree on
 * whether one of its rails is slow, and the finding names the hosts.
 */
#include "config.h"
#include "tools/diagnose.h"

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

/* ---- rails ---- */

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

/* A rail of one host, as seen by the ranks of that host. */
typedef struct rail_votes {
    unsigned measured, slow, down;
    const diagnose_rank_t *first; /* a rank for which it is slow or down */
    double rate, usual; /* at that rank: its rate, and at the speed of others */
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
        votes->usual = others * (double)MRAIL_MAX(rail->nominal, 1u);
    }
}

/* Counts the votes of the ranks on the host of this rank. */
static rail_votes_t rail_count(const diagnose_snapshot_t *snapshot,
                               const diagnose_rank_t *of_host, const char *name)
{
    rail_votes_t votes = {0};

    for (unsigned i = 0; i < snapshot->num_ranks; ++i) {
        const diagnose_rank_t *rank = &snapshot->ranks[i];

        for (unsigned k = 0;
             diagnose_is_same_host(rank, of_host) && (k < rank->num_rails);
             ++k) {
            if (strcmp(rank->rails[k].name, name) == 0) {
                rail_vote(&votes, rank, k);
            }
        }
    }
    return votes;
}

/* A fault of the rails of one name. */
typedef struct rail_fault {
    unsigned hosts, ranks; /* that have it */
    rail_votes_t votes;    /* of the host with the lowest relative rate */
    char names[120];       /* of the first hosts */
} rail_fault_t;

/* Maximum number of hosts in a list. */
#define LISTED 4u

static void add_host(rail_fault_t *fault, const rail_votes_t *votes,
                     unsigned ranks)
{
    size_t length = strlen(fault->names);

    if (fault->hosts < LISTED) {
        snprintf(fault->names + length, sizeof(fault->names) - length, "%s%s",
                 (fault->hosts == 0) ? "" : ", ",
                 (votes->first->host != NULL) ? votes->first->host : "");
    } else if (fault->hosts == LISTED) {
        snprintf(fault->names + length, sizeof(fault->names) - length, " ...");
    }
    if ((fault->hosts == 0) ||
        (votes->rate * fault->votes.usual < fault->votes.rate * votes->usual)) {
        fault->votes = *votes;
    }
    ++fault->hosts;
    fault->ranks += ranks;
}

/* Writes "rail mlx5_0:1" and, in an archive, its host or their number. */
static void fault_subject(const rail_fault_t *fault, const char *name,
                          char text[DIAGNOSE_SUBJECT])
{
    const char *host = fault->votes.first->host;

    if (host == NULL) {
        snprintf(text, DIAGNOSE_SUBJECT, "rail %s", name);
    } else if (fault->hosts == 1) {
        snprintf(text, DIAGNOSE_SUBJECT, "rail %s of %s", name, host);
    } else {
        snprintf(text, DIAGNOSE_SUBJECT, "rail %s of %u hosts", name,
                 fault->hosts);
    }
}

/* Returns the text before the list of hosts, which one host does not need. */
static const char *list_mark(const rail_fault_t *fault)
{
    return (fault->hosts > 1) ? "; hosts: " : "";
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

static void add_down(const rail_fault_t *fault, const char *name,
                     diagnose_report_t *report)
{
    char subject[DIAGNOSE_SUBJECT], rank[DIAGNOSE_RANK_NAME];

    fault_subject(fault, name, subject);
    diagnose_rank_name(fault->votes.first, rank, sizeof(rank));
    diagnose_add(report, DIAGNOSE_RAIL_DOWN, fault->votes.first->rank, subject,
                 "its port is down at %u rank%s, first at %s; the other rails "
                 "carry its traffic%s%s",
                 fault->ranks, (fault->ranks == 1) ? "" : "s", rank,
                 list_mark(fault), (fault->hosts > 1) ? fault->names : "");
}

static void add_slow(const rail_fault_t *fault, const char *name,
                     diagnose_report_t *report)
{
    char subject[DIAGNOSE_SUBJECT], rank[DIAGNOSE_RANK_NAME];

    fault_subject(fault, name, subject);
    diagnose_rank_name(fault->votes.first, rank, sizeof(rank));
    diagnose_add(report, DIAGNOSE_RAIL_SLOW, fault->votes.first->rank, subject,
                 "at %s it carried %.1f MB/s while work was outstanding; at "
                 "the speed of the other rails, it would carry %.1f MB/s; %u "
                 "of %u ranks agree%s%s",
                 rank, fault->votes.rate / 1e6, fault->votes.usual / 1e6,
                 fault->votes.slow, fault->votes.measured, list_mark(fault),
                 (fault->hosts > 1) ? fault->names : "");
}

static int is_first_of_host(const diagnose_snapshot_t *snapshot, unsigned index)
{
    /* The ranks of a host are usually adjacent. */
    for (unsigned i = index; i-- > 0;) {
        if (diagnose_is_same_host(&snapshot->ranks[i],
                                  &snapshot->ranks[index])) {
            return 0;
        }
    }
    return 1;
}

static void check_rail(const diagnose_snapshot_t *snapshot, const char *name,
                       diagnose_report_t *report)
{
    rail_fault_t down = {0}, slow = {0};

    for (unsigned i = 0; i < snapshot->num_ranks; ++i) {
        rail_votes_t votes;

        if (!is_first_of_host(snapshot, i)) {
            continue;
        }
        votes = rail_count(snapshot, &snapshot->ranks[i], name);
        if (votes.down > 0) {
            add_host(&down, &votes, votes.down);
        } else if ((votes.slow > 0) && (2 * votes.slow >= votes.measured)) {
            add_host(&slow, &votes, votes.slow);
        }
    }
    if (down.hosts > 0) {
        add_down(&down, name, report);
    }
    if ((slow.hosts > 0) && !has_slow_uplink(report, name, slow.ranks)) {
        add_slow(&slow, name, report);
    }
}

/* Returns 1 if no earlier rank or rail has the name of this rail. */
static int is_first_of_name(const diagnose_snapshot_t *snapshot, unsigned rank,
                            unsigned rail)
{
    const char *name = snapshot->ranks[rank].rails[rail].name;

    for (unsigned i = 0; i <= rank; ++i) {
        unsigned count = (i == rank) ? rail : snapshot->ranks[i].num_rails;

        for (unsigned k = 0; k < count; ++k) {
            if (strcmp(snapshot->ranks[i].rails[k].name, name) == 0) {
                return 0;
            }
        }
    }
    return 1;
}

/* ---- paths ---- */

/* Returns the index of the rail at the peer's end of a path, or -1 if it is
 * unknown. Ranks may number their rails differently. */
static int rail_at_peer(const diagnose_rank_t *peer, uint64_t id, unsigned slot)
{
    for (unsigned i = 0; i < peer->num_lanes; ++i) {
        if ((peer->lanes[i].peer == id) && (peer->lanes[i].slot == slot)) {
            return peer->lanes[i].rail;
        }
    }
    for (unsigned i = 0; i < peer->num_paths; ++i) { /* the lane is closed */
        if ((peer->paths[i].peer == id) && (peer->paths[i].slot == slot)) {
            return peer->paths[i].rail;
        }
    }
    return -1;
}

/* Returns 1 if the port at the peer's end is down or, if it is unknown, any port
 * of the peer. */
static int is_down_at_peer(const diagnose_rank_t *peer, uint64_t id,
                           unsigned slot)
{
    int rail = rail_at_peer(peer, id, slot);

    for (unsigned i = 0; i < peer->num_rails; ++i) {
        if (peer->rails[i].is_down && ((rail < 0) || ((unsigned)rail == i))) {
            return 1;
        }
    }
    return 0;
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
           ((peer != NULL) && is_down_at_peer(peer, rank->id, path->slot));
}

static void check_path(const diagnose_snapshot_t *snapshot,
                       const diagnose_rank_t *rank, const diagnose_path_t *path,
                       diagnose_report_t *report)
{
    const diagnose_rank_t *peer = diagnose_peer(snapshot, path->peer);
    char subject[DIAGNOSE_SUBJECT];
    char own[DIAGNOSE_RANK_NAME], other[DIAGNOSE_RANK_NAME];

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
    diagnose_rank_name(rank, own, sizeof(own));
    diagnose_peer_name(snapshot, path->peer, other, sizeof(other));
    diagnose_add(report, DIAGNOSE_PATH, rank->rank, subject,
                 "path %u from %s to %s has carried nothing for %.1f s "
                 "(%s), although the port is up",
                 path->slot, own, other, (double)path->ago_ns / 1e9,
                 path->event);
}

void diagnose_check_rails(const diagnose_snapshot_t *snapshot,
                          diagnose_report_t *report)
{
    for (unsigned i = 0; i < snapshot->num_ranks; ++i) {
        for (unsigned k = 0; k < snapshot->ranks[i].num_rails; ++k) {
            if (is_first_of_name(snapshot, i, k)) {
                check_rail(snapshot, snapshot->ranks[i].rails[k].name, report);
            }
        }
    }
    for (unsigned i = 0; i < snapshot->num_ranks; ++i) {
        for (unsigned k = 0; k < snapshot->ranks[i].num_paths; ++k) {
            check_path(snapshot, &snapshot->ranks[i],
                       &snapshot->ranks[i].paths[k], report);
        }
    }
}
