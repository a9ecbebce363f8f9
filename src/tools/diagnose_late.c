/* Ranks that compute longer than the other ranks. */
#include "config.h"
#include "tools/diagnose_calls.h"

#include <stdlib.h>
#include <string.h>

/* A rank is late if it computes longer than the other ranks by this fraction of
 * the time, in at least LATE_QUARTERS of four periods. Because a few long times
 * may be due to chance, the rank must also be late without them. */
#define LATE 0.25
#define LATE_QUARTERS 3u
#define LATE_TRIMMED 0.2
#define LATE_TRIM 8u /* 1/8 of the calls are ignored at each end */
#define LATE_MIN_CALLS 24u
#define LATE_MIN_NS (500 * MRAIL_NS_PER_MS)

/* Returns the time between calls n - 1 and n of a rank, or 0. */
static uint64_t gap_before(const mrail_calls_comm_t *comm, uint64_t n)
{
    const mrail_calls_record_t *record = mrail_calls_record(comm, n);
    const mrail_calls_record_t *before =
        (n > 0) ? mrail_calls_record(comm, n - 1) : NULL;

    return ((record == NULL) || (before == NULL) || (before->left == 0) ||
            (record->entered < before->left))
               ? 0
               : record->entered - before->left;
}

static int uint64_order(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

diagnose_gaps_t diagnose_gaps(const mrail_calls_comm_t *comm)
{
    uint64_t gaps[MRAIL_CALLS_RECORDS];
    diagnose_gaps_t result = {0};

    for (uint64_t n = comm->first + 1; n < comm->entered; ++n) {
        gaps[result.count++] = gap_before(comm, n);
    }
    if (result.count > 0) {
        qsort(gaps, result.count, sizeof(*gaps), uint64_order);
        result.median_ns = gaps[result.count / 2];
        result.p90_ns = gaps[result.count * 9 / 10];
        result.max_ns = gaps[result.count - 1];
    }
    return result;
}

/* Returns the time that a rank computed before the calls from `from` to `to`,
 * or 0. */
static uint64_t computed(const mrail_calls_comm_t *comm, uint64_t from,
                         uint64_t to)
{
    uint64_t sum = 0;

    for (uint64_t n = from; n < to; ++n) {
        sum += gap_before(comm, n);
    }
    return sum;
}

/* Returns the median of the times that the other members computed. */
static uint64_t computed_by_others(const diagnose_group_t *group, unsigned self,
                                   uint64_t from, uint64_t to,
                                   uint64_t *scratch)
{
    unsigned count = 0;

    for (unsigned i = 0; i < group->count; ++i) {
        if (i != self) {
            scratch[count++] = computed(group->members[i].comm, from, to);
        }
    }
    qsort(scratch, count, sizeof(*scratch), uint64_order);
    return scratch[count / 2];
}

/* The range of calls for which all members still have records. It is empty if
 * more calls were made while the members' files were read one after another. */
typedef struct window {
    uint64_t from, to;
    uint64_t length_ns;
} window_t;

static window_t find_window(const diagnose_group_t *group)
{
    window_t window = {.to = UINT64_MAX};
    const mrail_calls_record_t *first, *last;

    for (unsigned i = 0; i < group->count; ++i) {
        window.from = MRAIL_MAX(window.from, group->members[i].comm->first + 1);
        window.to = MRAIL_MIN(window.to, group->members[i].comm->left);
    }
    if (window.from + LATE_MIN_CALLS > window.to) {
        return (window_t){0};
    }
    first = mrail_calls_record(group->members[0].comm, window.from - 1);
    last = mrail_calls_record(group->members[0].comm, window.to - 1);
    if ((first == NULL) || (last == NULL) || (last->left <= first->left)) {
        return (window_t){0};
    }
    window.length_ns = last->left - first->left;
    return window;
}

/* Returns in how many quarters of the window a rank was late. */
static unsigned late_quarters(const diagnose_group_t *group, unsigned self,
                              const window_t *window, uint64_t *scratch)
{
    uint64_t quarter = (window->to - window->from) / 4;
    unsigned late = 0;

    for (unsigned i = 0; i < 4; ++i) {
        uint64_t from = window->from + i * quarter, to = from + quarter;
        uint64_t own = computed(group->members[self].comm, from, to);
        uint64_t others = computed_by_others(group, self, from, to, scratch);

        late += (own > others) &&
                ((double)(own - others) > LATE / 4 * (double)window->length_ns);
    }
    return late;
}

static int int64_order(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Returns the time by which a rank computed longer than the other ranks,
 * without the largest and the smallest differences of single calls. */
static int64_t trimmed_excess(const diagnose_group_t *group, unsigned self,
                              const window_t *window, uint64_t *scratch)
{
    int64_t excess[MRAIL_CALLS_RECORDS], sum = 0;
    unsigned count = 0, trim;

    for (uint64_t n = window->from; n < window->to; ++n) {
        excess[count++] =
            (int64_t)gap_before(group->members[self].comm, n) -
            (int64_t)computed_by_others(group, self, n, n + 1, scratch);
    }
    qsort(excess, count, sizeof(*excess), int64_order);
    trim = count / LATE_TRIM;
    for (unsigned i = trim; i < count - trim; ++i) {
        sum += excess[i];
    }
    return sum;
}

static int is_late(const diagnose_group_t *group, unsigned self,
                   const window_t *window, uint64_t *scratch)
{
    return (late_quarters(group, self, window, scratch) >= LATE_QUARTERS) &&
           ((double)trimmed_excess(group, self, window, scratch) >
            LATE_TRIMMED * (double)window->length_ns);
}

/* The time that a rank computed, out of total_s. */
typedef struct late {
    double own_s, others_s, total_s;
    uint64_t calls;
} late_t;

/* Returns the median share of time for which the other ranks waited for a
 * core. */
static double delay_of_others(const diagnose_group_t *group, unsigned self)
{
    double shares[MRAIL_CALLS_RECORDS];
    unsigned count = 0;

    for (unsigned i = 0; (i < group->count) && (count < MRAIL_CALLS_RECORDS);
         ++i) {
        if (i != self) {
            shares[count++] = diagnose_delay_share(group->members[i].rank);
        }
    }
    qsort(shares, count, sizeof(*shares), diagnose_double_order);
    return shares[count / 2];
}

/* Returns 1 if the rank would also be late if each rank had a core. */
static int has_more_work(const diagnose_group_t *group, unsigned self,
                         const late_t *late)
{
    double own_s =
        late->own_s * (1 - diagnose_delay_share(group->members[self].rank));
    double others_s = late->others_s * (1 - delay_of_others(group, self));

    return own_s - others_s > LATE * (late->total_s - late->own_s + own_s);
}

static void add_late(const diagnose_check_t *check,
                     const diagnose_group_t *group, unsigned self, late_t late)
{
    const diagnose_member_t *member = &group->members[self];
    diagnose_gaps_t gaps = diagnose_gaps(member->comm);
    int works = has_more_work(group, self, &late);

    if (!works && !diagnose_is_starved(check->snapshot, member->rank)) {
        return; /* there are too few cores, and the ranks have unequal shares of
                 * them */
    }
    diagnose_add(
        check->report, works ? DIAGNOSE_COMPUTE : DIAGNOSE_CORES,
        member->rank->rank, NULL,
        "it spent %.0f %% of the last %.1f s (%llu collectives of %s) "
        "outside MPI, and the other ranks %.0f %%; before a call, it computed "
        "for %.1f ms (median), %.1f ms (90 %%), %.1f ms at most; it waited "
        "for a core during %.0f %% of its time",
        100 * late.own_s / late.total_s, late.total_s,
        (unsigned long long)late.calls, diagnose_comm_name(member->comm),
        100 * late.others_s / late.total_s, (double)gaps.median_ns / 1e6,
        (double)gaps.p90_ns / 1e6, (double)gaps.max_ns / 1e6,
        100 * diagnose_delay_share(member->rank));
}

/* Returns 1 if two samples of a rank have sums of enough calls. */
static int has_sums(const diagnose_member_t *member)
{
    return (member->earlier != NULL) &&
           (member->comm->computed >= member->earlier->computed) &&
           (member->comm->entered > member->earlier->entered + LATE_MIN_CALLS);
}

/* Compares the sums of two samples. This is necessary if calls are so frequent
 * that the records cover too short a period, or those of all members no common
 * one. Only the samples of one host are from the same period. */
static void check_late_by_sums(const diagnose_check_t *check,
                               const diagnose_group_t *group, unsigned self,
                               uint64_t *scratch)
{
    const diagnose_member_t *member = &group->members[self];
    double total_s = (double)check->snapshot->sample_ns / 1e9, own, others;
    unsigned count = 0;

    for (unsigned i = 0; i < group->count; ++i) {
        const diagnose_member_t *other = &group->members[i];

        if (!diagnose_is_same_host(member->rank, other->rank)) {
            continue;
        }
        if (!has_sums(other)) {
            return;
        }
        if (i != self) {
            scratch[count++] = other->comm->computed - other->earlier->computed;
        }
    }
    if (count == 0) {
        return;
    }
    qsort(scratch, count, sizeof(*scratch), uint64_order);
    others = (double)scratch[count / 2] / 1e9;
    own = (double)(member->comm->computed - member->earlier->computed) / 1e9;
    if ((total_s > 0) && (own - others > LATE * total_s)) {
        add_late(check, group, self,
                 (late_t){MRAIL_MIN(own, total_s), others, total_s,
                          member->comm->entered - member->earlier->entered});
    }
}

static late_t late_in(const diagnose_group_t *group, unsigned self,
                      const window_t *window, uint64_t *scratch)
{
    uint64_t own =
        computed(group->members[self].comm, window->from, window->to);
    uint64_t others =
        computed_by_others(group, self, window->from, window->to, scratch);

    return (late_t){(double)own / 1e9, (double)others / 1e9,
                    (double)window->length_ns / 1e9, window->to - window->from};
}

void diagnose_check_late(const diagnose_check_t *check,
                         const diagnose_group_t *group, uint64_t *scratch)
{
    window_t window = find_window(group);

    if (group->count < 2) {
        return;
    }
    for (unsigned i = 0; i < group->count; ++i) {
        if (window.length_ns < LATE_MIN_NS) {
            check_late_by_sums(check, group, i, scratch);
        } else if (is_late(group, i, &window, scratch)) {
            add_late(check, group, i, late_in(group, i, &window, scratch));
        }
    }
}
