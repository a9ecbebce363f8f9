/* Finds ranks that wait for other ranks, in hangs or because of calls in a
 * different order. */
#include "config.h"
#include "tools/diagnose_calls.h"

#include <stdlib.h>
#include <string.h>

/* Returns the time at which a rank began to wait in a communicator: in a
 * collective, or in MPI_Wait after a nonblocking collective. Returns 0 if it
 * does not wait, or has not waited long. */
static uint64_t waits_since(const diagnose_check_t *check,
                            const diagnose_member_t *member)
{
    const mrail_calls_record_t *last =
        mrail_calls_record(member->comm, member->comm->entered - 1);
    const mrail_calls_t *calls = member->rank->calls;
    uint64_t since = 0;

    if (last == NULL) {
        return 0;
    }
    if (diagnose_is_inside(member->comm)) {
        since = last->entered;
    } else if (mrail_calls_is_waiting(calls) &&
               (calls->wait.kind == MRAIL_CALLS_WAIT) &&
               (last->kind & MRAIL_CALLS_NONBLOCKING)) {
        since = MRAIL_MAX(calls->wait.since, last->entered);
    }
    return (since + check->snapshot->patience_ns <= check->now_ns) ? since : 0;
}

/* Maximum number of ranks in a list. */
#define LISTED 6u

/* Writes a list such as "ranks 0,1,3 and 12 others". */
static void list_ranks(char *text, size_t size, const int *ranks,
                       unsigned count)
{
    size_t at = (size_t)snprintf(text, size, "rank%s", (count == 1) ? "" : "s");

    for (unsigned i = 0; i < MRAIL_MIN(count, LISTED); ++i) {
        at += (size_t)snprintf(text + at, size - at, "%s%d",
                               (i == 0) ? " " : ",", ranks[i]);
    }
    if (count > LISTED) {
        snprintf(text + at, size - at, " and %u others", count - LISTED);
    }
}

/* ---- hang ---- */

typedef struct hang {
    const mrail_calls_record_t *record; /* the call in which ranks wait */
    uint64_t number;                    /* number of that call */
    uint64_t since;
    const diagnose_member_t *first; /* the rank that has waited longest */
    unsigned num_waiting;
    unsigned num_absent; /* ranks that neither wait nor are in a collective */
    char waiting[96];    /* list of ranks */
} hang_t;

/* Finds the last call in which ranks wait. Returns 0 if there is none. */
static int find_hang(const diagnose_check_t *check,
                     const diagnose_group_t *group, hang_t *hang)
{
    int ranks[LISTED];
    unsigned count = 0;

    memset(hang, 0, sizeof(*hang));
    for (unsigned i = 0; i < group->count; ++i) {
        const diagnose_member_t *member = &group->members[i];
        uint64_t since = waits_since(check, member);

        if (since == 0) {
            continue;
        }
        if (count < LISTED) {
            ranks[count] = member->rank->rank;
        }
        ++count;
        if ((hang->first == NULL) || (since < hang->since)) {
            hang->since = since;
            hang->first = member;
        }
        if ((hang->record == NULL) || (member->comm->entered > hang->number)) {
            hang->number = member->comm->entered;
            hang->record =
                mrail_calls_record(member->comm, member->comm->entered - 1);
        }
    }
    hang->num_waiting = count;
    list_ranks(hang->waiting, sizeof(hang->waiting), ranks, count);
    return count != 0;
}

/* Returns 1 if a rank has not entered the call, and is not known to wait. */
static int is_absent(const diagnose_member_t *member, const hang_t *hang)
{
    const mrail_calls_t *calls = member->rank->calls;

    return (member->comm->entered < hang->number) &&
           (diagnose_inside_of(calls) == NULL) &&
           !mrail_calls_is_waiting(calls);
}

/* Adds a finding about a rank that has not entered the call. Returns 0 if it
 * waits elsewhere. */
static int check_absent(const diagnose_check_t *check,
                        const diagnose_member_t *member, const hang_t *hang)
{
    const diagnose_rank_t *rank = member->rank;
    char call[MRAIL_CALLS_NAME], reason[280];

    if ((check->lives && !rank->alive) || (rank->state == 'T') ||
        (rank->state == 't')) {
        return 1; /* the rank already has a finding */
    }
    if (!is_absent(member, hang)) {
        return 0;
    }
    if (!mrail_calls_has_waits(rank->calls) && (hang->num_absent > 1)) {
        return 1; /* it may wait for a message of another one of them */
    }
    mrail_calls_name(call, hang->record->kind);
    snprintf(reason, sizeof(reason),
             "it has not entered %s, call %llu of %s, in which %s wait"
             "%s for %.1f s",
             call, (unsigned long long)hang->number,
             diagnose_comm_name(member->comm), hang->waiting,
             (hang->num_waiting == 1) ? "s" : "",
             diagnose_seconds(hang->since, check->now_ns));
    diagnose_add_compute(check, rank, reason);
    return 1;
}

/* Returns the entry of a rank for a communicator, or NULL. */
static const mrail_calls_comm_t *part_of(const diagnose_rank_t *rank,
                                         uint64_t id)
{
    for (unsigned i = 0; i < MRAIL_CALLS_COMMS; ++i) {
        if (rank->calls->comms[i].id == id) {
            return &rank->calls->comms[i];
        }
    }
    return NULL;
}

/* Adds a finding if a rank waits in this communicator for another rank, which
 * waits for it in a second communicator. */
static void check_crossed(const diagnose_check_t *check,
                          const diagnose_member_t *absent, const hang_t *hang)
{
    const mrail_calls_comm_t *second = diagnose_inside_of(absent->rank->calls);
    const mrail_calls_comm_t *awaited;
    char call[MRAIL_CALLS_NAME];

    if ((second == NULL) || (second == absent->comm)) {
        return;
    }
    awaited = part_of(hang->first->rank, second->id);
    if ((awaited == NULL) || (awaited->entered >= second->entered)) {
        return;
    }
    mrail_calls_name(call, hang->record->kind);
    diagnose_add(
        check->report, DIAGNOSE_MISMATCH, absent->rank->rank, NULL,
        "it waits for rank %d in %s, and that rank waits for it in %s of %s",
        hang->first->rank->rank, diagnose_comm_name(second), call,
        diagnose_comm_name(absent->comm));
}

void diagnose_check_hang(const diagnose_check_t *check,
                         const diagnose_group_t *group)
{
    hang_t hang;

    if (!find_hang(check, group, &hang)) {
        return;
    }
    for (unsigned i = 0; i < group->count; ++i) {
        hang.num_absent += (unsigned)is_absent(&group->members[i], &hang);
    }
    for (unsigned i = 0; i < group->count; ++i) {
        const diagnose_member_t *member = &group->members[i];

        if ((member->comm->entered < hang.number) &&
            !check_absent(check, member, &hang)) {
            check_crossed(check, member, &hang);
        }
    }
}

/* ---- order ---- */

static int is_same(const mrail_calls_record_t *a, const mrail_calls_record_t *b)
{
    return (a->kind == b->kind) && (a->root == b->root);
}

/* Returns the number of members whose call n is the same as the call of this
 * member. */
static unsigned agreeing(const diagnose_group_t *group, uint64_t n,
                         const mrail_calls_record_t *record)
{
    unsigned count = 0;

    for (unsigned i = 0; i < group->count; ++i) {
        const mrail_calls_record_t *other =
            mrail_calls_record(group->members[i].comm, n);

        count += (other != NULL) && is_same(record, other);
    }
    return count;
}

static void call_text(char *text, size_t size,
                      const mrail_calls_record_t *record)
{
    char name[MRAIL_CALLS_NAME];

    mrail_calls_name(name, record->kind);
    if (record->root >= 0) {
        snprintf(text, size, "%s with root %d", name, record->root);
    } else {
        snprintf(text, size, "%s", name);
    }
}

/* Names the rank whose call was made by the fewest ranks. With two ranks,
 * either may be wrong, so the text names both. Returns 1 if the calls
 * differ. */
static int check_call(const diagnose_check_t *check,
                      const diagnose_group_t *group, uint64_t n)
{
    const diagnose_member_t *odd = NULL, *usual = NULL;
    unsigned fewest = 0, most = 0;
    char calls[2][64];

    for (unsigned i = 0; i < group->count; ++i) {
        const mrail_calls_record_t *record =
            mrail_calls_record(group->members[i].comm, n);
        unsigned count;

        if (record == NULL) {
            continue;
        }
        count = agreeing(group, n, record);
        if ((odd == NULL) || (count <= fewest)) {
            fewest = count;
            odd = &group->members[i];
        }
        if (count > most) {
            most = count;
            usual = &group->members[i];
        }
    }
    if ((odd == NULL) || is_same(mrail_calls_record(odd->comm, n),
                                 mrail_calls_record(usual->comm, n))) {
        return 0;
    }
    call_text(calls[0], sizeof(calls[0]), mrail_calls_record(odd->comm, n));
    call_text(calls[1], sizeof(calls[1]), mrail_calls_record(usual->comm, n));
    diagnose_add(check->report, DIAGNOSE_MISMATCH, odd->rank->rank, NULL,
                 "call %llu of %s is %s at rank %d, but %s at rank %d and %u "
                 "other%s",
                 (unsigned long long)n + 1, diagnose_comm_name(odd->comm),
                 calls[0], odd->rank->rank, calls[1], usual->rank->rank,
                 most - 1, (most == 2) ? "" : "s");
    return 1;
}

int diagnose_check_order(const diagnose_check_t *check,
                         const diagnose_group_t *group)
{
    uint64_t first = UINT64_MAX, end = 0;

    for (unsigned i = 0; i < group->count; ++i) {
        first = MRAIL_MIN(first, group->members[i].comm->first);
        end = MRAIL_MAX(end, group->members[i].comm->entered);
    }
    /* Check each call, because ranks may be many calls apart if the calls do
     * not synchronise. */
    for (uint64_t n = MRAIL_MAX(first, end - MRAIL_MIN(end, 1000u)); n < end;
         ++n) {
        if (check_call(check, group, n)) {
            return 1;
        }
    }
    return 0;
}
