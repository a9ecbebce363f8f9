/*
 * Uplinks that are slower than others.
 *
 * The lanes of a rail to one peer share the NICs and cables of both ends, and
 * differ only in their path between the switches. If one of them is slow, the
 * cause is on that path. With port rules (docs/fabric.md), the source port tells
 * the number of the uplink, and several lanes of an uplink must agree. Without
 * rules, there is no finding, because lanes may share an uplink by chance. The
 * data of a GET takes the uplink that the peer's source port selects.
 */
#include "config.h"
#include "tools/diagnose.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A lane is slow if its rate is below this fraction of the others' rate. */
#define SLOW 0.5
/* A lane that has carried less than this has no measured rate. A rank has many
 * lanes, so these limits are lower than those of a rail. */
#define MIN_BYTES (256u << 10)
#define MIN_CHUNKS 4u
#define MIN_BUSY_NS (10 * MRAIL_NS_PER_MS)
/* Slow lanes of an uplink without which there is no finding. */
#define MIN_SLOW 2u

/* Lanes with the same uplink number on the same rail. */
typedef struct uplink_votes {
    const char *rail;
    int uplink;
    unsigned measured, slow, ranks;
    /* a slow lane, and the median rate of the others at its rank */
    const diagnose_rank_t *rank;
    const diagnose_lane_t *lane;
    double others;
} uplink_votes_t;

static int is_measured(const diagnose_lane_t *lane)
{
    return (lane->traffic.bytes >= MIN_BYTES) &&
           (lane->traffic.chunks >= MIN_CHUNKS) &&
           (lane->traffic.busy_ns >= MIN_BUSY_NS);
}

/* Returns the median rate of the other lanes of the same rail to the same peer,
 * or 0 if none is measured. */
static double rate_of_others(const diagnose_rank_t *rank,
                             const diagnose_lane_t *self)
{
    double rates[MRAIL_PAGE_LANES];
    unsigned count = 0;

    for (unsigned i = 0; i < rank->num_lanes; ++i) {
        const diagnose_lane_t *lane = &rank->lanes[i];

        if ((lane != self) && (lane->peer == self->peer) &&
            (lane->rail == self->rail) && is_measured(lane)) {
            rates[count++] = diagnose_rate(&lane->traffic);
        }
    }
    if (count == 0) {
        return 0;
    }
    qsort(rates, count, sizeof(*rates), diagnose_double_order);
    return rates[count / 2];
}

/* Returns the votes on an uplink, which are new if there are none yet. */
static uplink_votes_t *votes_of(uplink_votes_t *votes, unsigned *count_p,
                                const char *rail, int uplink)
{
    for (unsigned i = 0; i < *count_p; ++i) {
        if ((votes[i].uplink == uplink) && (strcmp(votes[i].rail, rail) == 0)) {
            return &votes[i];
        }
    }
    votes[*count_p] = (uplink_votes_t){.rail = rail, .uplink = uplink};
    return &votes[(*count_p)++];
}

/* Returns the lane at its other end, or NULL if it is unknown. */
static const diagnose_lane_t *other_end(const diagnose_snapshot_t *snapshot,
                                        const diagnose_rank_t *rank,
                                        const diagnose_lane_t *lane)
{
    const diagnose_rank_t *peer = diagnose_peer(snapshot, lane->peer);

    for (unsigned i = 0; (peer != NULL) && (i < peer->num_lanes); ++i) {
        if ((peer->lanes[i].peer == rank->id) &&
            (peer->lanes[i].slot == lane->slot)) {
            return &peer->lanes[i];
        }
    }
    return NULL;
}

/* Returns the uplink that most of the lane's data took, or -1 if unknown. */
static int uplink_of(const diagnose_snapshot_t *snapshot,
                     const diagnose_rank_t *rank, const diagnose_lane_t *lane)
{
    const diagnose_lane_t *sender = (2 * lane->get_bytes <= lane->traffic.bytes)
                                        ? lane
                                        : other_end(snapshot, rank, lane);

    return (sender == NULL) ? -1 : sender->uplink;
}

static void vote(uplink_votes_t *votes, unsigned *count_p,
                 const diagnose_snapshot_t *snapshot,
                 const diagnose_rank_t *rank, const diagnose_lane_t *lane)
{
    int number = uplink_of(snapshot, rank, lane);
    double others = rate_of_others(rank, lane);
    uplink_votes_t *uplink;

    if ((number < 0) || !is_measured(lane) || (others <= 0)) {
        return;
    }
    uplink = votes_of(votes, count_p, rank->rails[lane->rail].name, number);
    ++uplink->measured;
    if (diagnose_rate(&lane->traffic) < SLOW * others) {
        ++uplink->slow;
        if (uplink->lane == NULL) {
            uplink->rank = rank;
            uplink->lane = lane;
            uplink->others = others;
        }
    }
}

/* Counts the lanes of one rank. Returns the number of uplinks. */
static unsigned votes_of_rank(uplink_votes_t *votes,
                              const diagnose_snapshot_t *snapshot,
                              const diagnose_rank_t *rank)
{
    unsigned count = 0;

    for (unsigned i = 0; i < rank->num_lanes; ++i) {
        vote(votes, &count, snapshot, rank, &rank->lanes[i]);
    }
    return count;
}

/* Adds the votes of a rank that sees a slow uplink. Lanes to peers at the same
 * leaf take no uplink and are fast, and the uplinks of other leaves do not
 * matter to this rank. So half of its lanes are enough, and other ranks need not
 * agree. */
static void add_votes(uplink_votes_t *total, unsigned *count_p,
                      const uplink_votes_t *votes)
{
    uplink_votes_t *uplink;

    if ((votes->slow == 0) || (2 * votes->slow < votes->measured)) {
        return;
    }
    uplink = votes_of(total, count_p, votes->rail, votes->uplink);
    if (uplink->ranks++ == 0) {
        uplink->rank = votes->rank;
        uplink->lane = votes->lane;
        uplink->others = votes->others;
    }
    uplink->measured += votes->measured;
    uplink->slow += votes->slow;
}

static void add_uplink(const diagnose_snapshot_t *snapshot,
                       const uplink_votes_t *uplink, diagnose_report_t *report)
{
    char subject[DIAGNOSE_SUBJECT];
    char own[DIAGNOSE_RANK_NAME], peer[DIAGNOSE_RANK_NAME];
    diagnose_finding_t *finding;

    diagnose_rank_name(uplink->rank, own, sizeof(own));
    diagnose_peer_name(snapshot, uplink->lane->peer, peer, sizeof(peer));
    snprintf(subject, sizeof(subject), "uplink %d of rail %s", uplink->uplink,
             uplink->rail);
    finding = diagnose_add(
        report, DIAGNOSE_UPLINK_SLOW, uplink->rank->rank, subject,
        "lane %u from %s to %s carried %.1f MB/s while work was "
        "outstanding, and the other lanes of this rail to that peer "
        "%.1f MB/s; at %u rank%s, %u of %u lanes of this uplink are slow",
        uplink->lane->slot, own, peer,
        diagnose_rate(&uplink->lane->traffic) / 1e6, uplink->others / 1e6,
        uplink->ranks, (uplink->ranks == 1) ? "" : "s", uplink->slow,
        uplink->measured);
    if (finding != NULL) {
        finding->ranks = uplink->ranks;
    }
}

int diagnose_check_uplinks(const diagnose_snapshot_t *snapshot,
                           diagnose_report_t *report)
{
    unsigned lanes = 0, count = 0;
    uplink_votes_t *own, *total;

    for (unsigned i = 0; i < snapshot->num_ranks; ++i) {
        lanes += snapshot->ranks[i].num_lanes;
    }
    total = calloc(lanes + MRAIL_PAGE_LANES, sizeof(*total));
    if (total == NULL) {
        return -ENOMEM;
    }
    own = total + lanes;
    for (unsigned i = 0; i < snapshot->num_ranks; ++i) {
        unsigned uplinks = votes_of_rank(own, snapshot, &snapshot->ranks[i]);

        for (unsigned k = 0; k < uplinks; ++k) {
            add_votes(total, &count, &own[k]);
        }
    }
    for (unsigned i = 0; i < count; ++i) {
        if (total[i].slow >= MIN_SLOW) {
            add_uplink(snapshot, &total[i], report);
        }
    }
    free(total);
    return 0;
}
