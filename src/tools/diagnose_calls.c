/*
 * Findings about MPI calls.
 *
 *   hang   ranks wait in a collective that another rank has not entered
 *   order  ranks make different calls at the same position of their sequences
 *   late   a rank computes longer than the other ranks before each collective
 *   wait   a rank waits for a message of a rank that computes
 */
#include "config.h"
#include "tools/diagnose_calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A rank that waits for a core for a larger share of its time has a longer time
 * limit. */
#define CONTENDED 0.5

/* ---- ranks ---- */

/* Returns the time at which a rank left its last collective. */
static uint64_t left_at(const mrail_calls_t *calls)
{
    uint64_t at = calls->start_ns;

    for (unsigned i = 0; i < MRAIL_CALLS_COMMS; ++i) {
        const mrail_calls_comm_t *comm = &calls->comms[i];
        const mrail_calls_record_t *last =
            (comm->id != 0) ? mrail_calls_record(comm, comm->left - 1) : NULL;

        if (last != NULL) {
            at = MRAIL_MAX(at, last->left);
        }
    }
    return at;
}

const mrail_calls_comm_t *diagnose_inside_of(const mrail_calls_t *calls)
{
    for (unsigned i = 0; i < MRAIL_CALLS_COMMS; ++i) {
        if ((calls->comms[i].id != 0) && diagnose_is_inside(&calls->comms[i])) {
            return &calls->comms[i];
        }
    }
    return NULL;
}

void diagnose_add_compute(const diagnose_check_t *check,
                          const diagnose_rank_t *rank, const char *reason)
{
    double delay = diagnose_delay_share(rank);
    double left_s = diagnose_seconds(left_at(rank->calls), check->now_ns);
    double ran_ns = 1e9 * left_s * (1 - delay);
    double patience_ns = (double)check->snapshot->patience_ns;
    int is_starved = diagnose_is_starved(check->snapshot, rank);

    if (!is_starved && (delay > CONTENDED) &&
        (1e9 * left_s < 2 * patience_ns)) {
        return;
    }
    diagnose_add(check->report,
                 (is_starved && (ran_ns < patience_ns)) ? DIAGNOSE_CORES
                                                        : DIAGNOSE_COMPUTE,
                 rank->rank, NULL,
                 "%s; it left its last collective %.1f s ago, is in state %c, "
                 "and waited for a core during %.0f %% of the time in which it "
                 "could have run%s",
                 reason, left_s, rank->state, 100 * delay,
                 mrail_calls_has_waits(rank->calls)
                     ? ""
                     : "; or it waits for a message, which this job does not "
                       "record");
}

/* ---- wait ---- */

/* Returns the rank to which a rank waits to send a message, or from which it
 * waits to receive one. Returns NULL if there is none, if it is unknown, if two
 * jobs of the same name have this rank, or if the wait is still shorter than
 * --wait. */
static const diagnose_rank_t *awaited(const diagnose_check_t *check,
                                      const diagnose_rank_t *rank)
{
    const diagnose_rank_t *found = NULL;
    const mrail_calls_wait_t *wait;
    uint64_t id;

    if ((rank->calls == NULL) || !mrail_calls_is_waiting(rank->calls) ||
        (rank->calls->wait.comm >= MRAIL_CALLS_COMMS)) {
        return NULL;
    }
    wait = &rank->calls->wait;
    id = rank->calls->comms[wait->comm].id;
    if ((id == 0) || (wait->peer < 0) ||
        (wait->since + check->snapshot->patience_ns > check->now_ns)) {
        return NULL;
    }
    for (unsigned i = 0; i < check->snapshot->num_ranks; ++i) {
        const diagnose_rank_t *other = &check->snapshot->ranks[i];

        for (unsigned k = 0; (other->calls != NULL) && (k < MRAIL_CALLS_COMMS);
             ++k) {
            if ((other->calls->comms[k].id == id) &&
                (other->calls->comms[k].rank == (uint32_t)wait->peer)) {
                if ((found != NULL) && (found != other)) {
                    return NULL;
                }
                found = other;
            }
        }
    }
    return found;
}

/* Returns 1 if one rank sends the message for which the other one waits. */
static int is_match(const mrail_calls_t *sender, const mrail_calls_t *receiver)
{
    const mrail_calls_wait_t *send = &sender->wait, *receive = &receiver->wait;
    const mrail_calls_comm_t *to, *from;

    if (!mrail_calls_is_waiting(sender) || !mrail_calls_is_waiting(receiver) ||
        (send->comm >= MRAIL_CALLS_COMMS) ||
        (receive->comm >= MRAIL_CALLS_COMMS)) {
        return 0;
    }
    from = &sender->comms[send->comm];
    to = &receiver->comms[receive->comm];
    return (send->kind == MRAIL_CALLS_SEND) &&
           ((receive->kind == MRAIL_CALLS_RECV) ||
            (receive->kind == MRAIL_CALLS_PROBE)) &&
           (from->id == to->id) && (send->peer == (int32_t)to->rank) &&
           (receive->peer == (int32_t)from->rank) &&
           ((receive->tag < 0) || (receive->tag == send->tag)); /* any tag */
}

/* Returns 1 if a rank completed a chunk to or from a peer within --wait. */
static int has_traffic(const diagnose_check_t *check,
                       const diagnose_rank_t *rank, uint64_t peer)
{
    for (unsigned i = 0; i < rank->num_exchanges; ++i) {
        const diagnose_exchange_t *exchange = &rank->exchanges[i];

        if ((exchange->peer == peer) &&
            (exchange->last_ns + check->snapshot->patience_ns >
             check->now_ns)) {
            return 1;
        }
    }
    return 0;
}

/* Returns 1 if a port of a rank is down, or a path to the peer is retired. */
static int has_failure(const diagnose_rank_t *rank, uint64_t peer)
{
    for (unsigned i = 0; i < rank->num_rails; ++i) {
        if (rank->rails[i].is_down) {
            return 1;
        }
    }
    for (unsigned i = 0; i < rank->num_paths; ++i) {
        if (rank->paths[i].peer == peer) {
            return 1;
        }
    }
    return 0;
}

/* Returns 1 if the wait of a rank for another one may end by itself: one sends
 * what the other receives, data moves between them, or a failed rail delays the
 * data. Two ranks that exchange long messages wait for each other as well. */
static int may_end(const diagnose_check_t *check, const diagnose_rank_t *rank,
                   const diagnose_rank_t *other)
{
    return is_match(rank->calls, other->calls) ||
           is_match(other->calls, rank->calls) ||
           has_traffic(check, rank, other->id) ||
           has_traffic(check, other, rank->id) ||
           has_failure(rank, other->id) || has_failure(other, rank->id);
}

/* Returns 1 if a chain of waits that do not end leads back to the rank. */
static int is_cycle(const diagnose_check_t *check, const diagnose_rank_t *rank)
{
    const diagnose_rank_t *at = rank, *next;

    for (unsigned i = 0; i < check->snapshot->num_ranks; ++i) {
        next = awaited(check, at);
        if ((next == NULL) || may_end(check, at, next)) {
            return 0;
        }
        if (next == rank) {
            return 1;
        }
        at = next;
    }
    return 0;
}

static void check_wait(const diagnose_check_t *check,
                       const diagnose_rank_t *rank)
{
    const diagnose_rank_t *peer = awaited(check, rank);
    char call[MRAIL_CALLS_NAME], reason[280];

    if ((peer == NULL) || (check->lives && !peer->alive) ||
        (peer->state == 'T') || (peer->state == 't')) {
        return; /* a process that has exited or is stopped already has a
                 * finding */
    }
    mrail_calls_name(call, rank->calls->wait.kind);
    snprintf(reason, sizeof(reason),
             "rank %d waits for it in %s with tag %d for "
             "%.1f s",
             rank->rank, call, rank->calls->wait.tag,
             diagnose_seconds(rank->calls->wait.since, check->now_ns));
    if (is_cycle(check, rank)) {
        diagnose_add(check->report, DIAGNOSE_MISMATCH, peer->rank, NULL,
                     "%s, and it waits for that rank in turn", reason);
    } else if ((diagnose_inside_of(peer->calls) == NULL) &&
               !mrail_calls_is_waiting(peer->calls) &&
               mrail_calls_has_waits(peer->calls)) {
        diagnose_add_compute(check, peer, reason);
    }
}

/* ---- groups ---- */

static int member_order(const void *a, const void *b)
{
    const diagnose_member_t *x = a, *y = b;

    if (x->comm->id != y->comm->id) {
        return (x->comm->id > y->comm->id) - (x->comm->id < y->comm->id);
    }
    return (x->comm->rank > y->comm->rank) - (x->comm->rank < y->comm->rank);
}

static const mrail_calls_comm_t *earlier_of(const diagnose_rank_t *rank,
                                            unsigned index)
{
    const mrail_calls_comm_t *comm;

    if (rank->earlier == NULL) {
        return NULL;
    }
    comm = &rank->earlier->comms[index];
    return (comm->id == rank->calls->comms[index].id) ? comm : NULL;
}

static unsigned collect(const diagnose_snapshot_t *snapshot,
                        diagnose_member_t *members)
{
    unsigned count = 0;

    for (unsigned i = 0; i < snapshot->num_ranks; ++i) {
        const diagnose_rank_t *rank = &snapshot->ranks[i];

        for (unsigned k = 0; (rank->calls != NULL) && (k < MRAIL_CALLS_COMMS);
             ++k) {
            if (rank->calls->comms[k].id != 0) {
                members[count++] = (diagnose_member_t){
                    rank, &rank->calls->comms[k], earlier_of(rank, k)};
            }
        }
    }
    qsort(members, count, sizeof(*members), member_order);
    return count;
}

/* Returns 1 if two members have the same rank: two jobs of the same name run at
 * the same time, and the group is not one communicator. */
static int is_ambiguous(const diagnose_group_t *group)
{
    for (unsigned i = 1; i < group->count; ++i) {
        if (group->members[i].comm->rank == group->members[i - 1].comm->rank) {
            return 1;
        }
    }
    return 0;
}

static void check_group(const diagnose_check_t *check,
                        const diagnose_group_t *group, uint64_t *scratch)
{
    if (!is_ambiguous(group) && !diagnose_check_order(check, group)) {
        diagnose_check_hang(check, group);
        diagnose_check_late(check, group, scratch);
    }
}

int diagnose_check_calls(const diagnose_snapshot_t *snapshot,
                         diagnose_report_t *report)
{
    diagnose_check_t check = {snapshot, report, snapshot->now_ns, 0};
    size_t most = (size_t)snapshot->num_ranks * MRAIL_CALLS_COMMS + 1;
    diagnose_member_t *members = calloc(most, sizeof(*members));
    uint64_t *scratch = calloc(snapshot->num_ranks + 1, sizeof(*scratch));
    unsigned count, end;

    if ((members == NULL) || (scratch == NULL)) {
        free(members);
        free(scratch);
        return -ENOMEM;
    }
    for (unsigned i = 0; i < snapshot->num_ranks; ++i) {
        check.lives |= snapshot->ranks[i].alive;
    }
    count = collect(snapshot, members);
    for (unsigned i = 0; i < count; i = end) {
        for (end = i + 1;
             (end < count) && (members[end].comm->id == members[i].comm->id);
             ++end) {
        }
        check_group(&check, &(diagnose_group_t){&members[i], end - i}, scratch);
    }
    for (unsigned i = 0; i < snapshot->num_ranks; ++i) {
        check_wait(&check, &snapshot->ranks[i]);
    }
    free(members);
    free(scratch);
    return 0;
}
