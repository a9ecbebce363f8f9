#include "config.h"
#include "rail/fair_share.h"

#include "base/util.h"

#include <string.h>

/* ---- division ---- */

#define FAIR_SHARE_ROUNDS 48
/* Largest growth of a rail's weight in one iteration. */
#define FAIR_SHARE_STEP 8.0

/* Spreads each class over its rails by their rates and weights. */
static void fair_share_spread(mrail_fair_share_class_t *sets,
                              unsigned num_classes, const double *rate,
                              const double *worth, unsigned num_rails,
                              double *busy_s)
{
    memset(busy_s, 0, num_rails * sizeof(*busy_s));
    for (unsigned i = 0; i < num_classes; ++i) {
        mrail_fair_share_class_t *set = &sets[i];
        double sum = 0;

        for (unsigned r = 0; r < num_rails; ++r) {
            set->part[r] = ((set->rails >> r) & 1) ? rate[r] * worth[r] : 0;
            sum += set->part[r];
        }
        for (unsigned r = 0; (sum > 0) && (r < num_rails); ++r) {
            set->part[r] *= set->bytes / sum;
            busy_s[r] += (rate[r] > 0) ? set->part[r] / rate[r] : 0;
        }
    }
}

static double fair_share_longest(const double *busy_s, unsigned num_rails)
{
    double longest_s = 0;

    for (unsigned r = 0; r < num_rails; ++r) {
        longest_s = MRAIL_MAX(longest_s, busy_s[r]);
    }
    return longest_s;
}

/*
 * Each rail has a weight. The weight of a rail that would be busy longer falls
 * in proportion, until all rails are busy equally long. A rail may stay less
 * busy if no class can use both it and a busier one. Source: iterative
 * proportional fitting, Deming and Stephan 1940.
 */
double mrail_fair_share_divide(mrail_fair_share_class_t *sets,
                               unsigned num_classes, const double *rate,
                               unsigned num_rails)
{
    double worth[MRAIL_FAIR_SHARE_RAILS], busy_s[MRAIL_FAIR_SHARE_RAILS];
    double longest_s;

    for (unsigned r = 0; r < num_rails; ++r) {
        worth[r] = 1;
    }
    fair_share_spread(sets, num_classes, rate, worth, num_rails, busy_s);
    for (unsigned round = 0; round < FAIR_SHARE_ROUNDS; ++round) {
        longest_s = fair_share_longest(busy_s, num_rails);
        for (unsigned r = 0; r < num_rails; ++r) {
            if (busy_s[r] > 0) {
                worth[r] *= MRAIL_MIN(longest_s / busy_s[r], FAIR_SHARE_STEP);
            }
        }
        fair_share_spread(sets, num_classes, rate, worth, num_rails, busy_s);
    }
    return fair_share_longest(busy_s, num_rails);
}

/* ---- periods ---- */

void mrail_fair_share_begin(mrail_fair_share_t *shares, mrail_ns_t now_ns)
{
    ++shares->period;
    shares->passed_ns =
        MRAIL_MIN(now_ns - shares->period_ns, 2 * MRAIL_FAIR_SHARE_PERIOD_NS);
    shares->period_ns = now_ns;
    shares->overflow = 0;
    for (unsigned i = 0; i < MRAIL_FAIR_SHARE_CLASSES; ++i) {
        shares->set[i].peers = 0;
        shares->set[i].bytes = 0;
    }
}

/* The entry of a class, or that of a class without a peer for two periods. */
static unsigned fair_share_place(mrail_fair_share_t *shares, uint32_t rails)
{
    unsigned place = MRAIL_FAIR_SHARE_NONE;

    for (unsigned i = 0; i < MRAIL_FAIR_SHARE_CLASSES; ++i) {
        if (shares->set[i].rails == rails) {
            return i;
        }
        if ((place == MRAIL_FAIR_SHARE_NONE) &&
            ((shares->set[i].rails == 0) ||
             (shares->period - shares->last[i] > 1))) {
            place = i;
        }
    }
    if (place != MRAIL_FAIR_SHARE_NONE) {
        memset(&shares->set[place], 0, sizeof(shares->set[place]));
        memset(shares->token[place], 0, sizeof(shares->token[place]));
        shares->set[place].rails = rails;
    }
    return place;
}

unsigned mrail_fair_share_add(mrail_fair_share_t *shares, uint32_t rails,
                              uint64_t bytes)
{
    unsigned place = fair_share_place(shares, rails);

    if (place == MRAIL_FAIR_SHARE_NONE) {
        ++shares->overflow;
        return place;
    }
    shares->last[place] = shares->period;
    ++shares->set[place].peers;
    shares->set[place].bytes += (double)bytes;
    return place;
}

static int fair_share_has(const mrail_fair_share_class_t *set, unsigned rail)
{
    return (set->peers != 0) && ((set->rails >> rail) & 1);
}

/* 1 if the rates of all rails of some class are known. */
static int fair_share_is_known(const mrail_fair_share_t *shares,
                               const mrail_fair_share_rail_t *rails,
                               unsigned num_rails)
{
    for (unsigned i = 0; i < MRAIL_FAIR_SHARE_CLASSES; ++i) {
        for (unsigned r = 0; r < num_rails; ++r) {
            if (fair_share_has(&shares->set[i], r) && (rails[r].rate == 0)) {
                return 0;
            }
        }
    }
    return 1;
}

/* The class that needs the rail most, per peer; none if only one class uses the
 * rail. */
static unsigned shares_bottleneck_class(const mrail_fair_share_t *shares,
                                        unsigned rail)
{
    unsigned bottleneck = MRAIL_FAIR_SHARE_NONE, count = 0;
    double most = -1;

    for (unsigned i = 0; i < MRAIL_FAIR_SHARE_CLASSES; ++i) {
        const mrail_fair_share_class_t *set = &shares->set[i];

        if (fair_share_has(set, rail)) {
            ++count;
            if (set->part[rail] / set->peers > most) {
                most = set->part[rail] / set->peers;
                bottleneck = i;
            }
        }
    }
    return (count > 1) ? bottleneck : MRAIL_FAIR_SHARE_NONE;
}

/* ---- throttling ---- */

static void fair_share_watch(mrail_fair_share_seen_t *seen,
                             const mrail_fair_share_rail_t *rail,
                             mrail_ns_t now_ns)
{
    seen->from_ns = now_ns;
    seen->moved = rail->moved;
    seen->done = rail->done;
}

/* 1 if the rail was measured for long enough. */
static int fair_share_has_seen(const mrail_fair_share_seen_t *seen,
                               const mrail_fair_share_rail_t *rail,
                               mrail_ns_t now_ns)
{
    mrail_ns_t length_ns = now_ns - seen->from_ns;

    return (length_ns >= MRAIL_FAIR_SHARE_LOOK_NS) &&
           ((rail->done - seen->done >= MRAIL_FAIR_SHARE_CHUNKS) ||
            (length_ns >= MRAIL_FAIR_SHARE_LOOK_LONG) ||
            (seen->is_held && (length_ns >= 3 * seen->look_ns / 2)));
}

static void fair_share_let_go(mrail_fair_share_seen_t *seen, mrail_ns_t now_ns)
{
    seen->is_held = 0;
    seen->free_ns = now_ns + seen->pause_ns;
    seen->pause_ns = MRAIL_MIN(3 * seen->pause_ns, MRAIL_FAIR_SHARE_PAUSE_MAX);
}

/* The rate is at least that of the time without throttling. */
static void fair_share_compare(mrail_fair_share_seen_t *seen, double rate,
                               mrail_ns_t now_ns)
{
    if (!seen->is_held) {
        seen->rate = rate;
        seen->look_ns = now_ns - seen->from_ns;
        if (now_ns >= seen->free_ns) {
            seen->is_held = 1;
            seen->held_ns = now_ns;
        }
    } else if (rate < (1 - MRAIL_FAIR_SHARE_ROOM) * seen->rate) {
        fair_share_let_go(seen, now_ns);
    } else {
        seen->rate = MRAIL_MAX(seen->rate, rate);
        if (now_ns - seen->held_ns > 2 * seen->pause_ns) {
            seen->pause_ns = MRAIL_FAIR_SHARE_LOOK_NS;
        }
    }
}

/* Measures a rail for which several classes have work. */
static void fair_share_look(mrail_fair_share_seen_t *seen,
                            const mrail_fair_share_rail_t *rail,
                            mrail_ns_t now_ns)
{
    mrail_ns_t length_ns = now_ns - seen->from_ns;

    if (!seen->is_shared) {
        fair_share_watch(seen, rail, now_ns);
        if (now_ns > seen->shared_ns + MRAIL_FAIR_SHARE_OLD_NS) {
            seen->is_held = 0;
            seen->free_ns = 0;
            seen->pause_ns = MRAIL_FAIR_SHARE_LOOK_NS;
        }
    } else if (fair_share_has_seen(seen, rail, now_ns)) {
        fair_share_compare(seen,
                           (double)(rail->moved - seen->moved) *
                               MRAIL_NS_PER_SEC / (double)length_ns,
                           now_ns);
        fair_share_watch(seen, rail, now_ns);
    }
    seen->is_shared = 1;
    seen->shared_ns = now_ns;
}

/* ---- end of a period ---- */

static void fair_share_hold(mrail_fair_share_t *shares, unsigned r,
                            const mrail_fair_share_rail_t *rail)
{
    unsigned bottleneck = shares->seen[r].bottleneck;
    double least = MRAIL_FAIR_SHARE_LEAST * (double)rail->rate *
                   (double)shares->passed_ns / MRAIL_NS_PER_SEC;

    for (unsigned i = 0; i < MRAIL_FAIR_SHARE_CLASSES; ++i) {
        if (fair_share_has(&shares->set[i], r) && (i != bottleneck)) {
            shares->ratio[i][r] =
                shares->set[i].part[r] /
                MRAIL_MAX(shares->set[bottleneck].part[r], 1.0);
            shares->token[i][r] =
                MRAIL_MIN(shares->token[i][r] + least, MRAIL_FAIR_SHARE_KEEP);
        }
    }
}

/* 1 if several classes have work and the rates of their rails are known. */
static int fair_share_is_active(const mrail_fair_share_t *shares,
                                const mrail_fair_share_rail_t *rails,
                                unsigned num_rails)
{
    unsigned sets = 0;

    for (unsigned i = 0; i < MRAIL_FAIR_SHARE_CLASSES; ++i) {
        sets += (shares->set[i].peers != 0);
    }
    return (sets > 1) && (shares->overflow == 0) &&
           fair_share_is_known(shares, rails, num_rails);
}

static void fair_share_divide(mrail_fair_share_t *shares,
                              const mrail_fair_share_rail_t *rails,
                              unsigned num_rails)
{
    double rate[MRAIL_FAIR_SHARE_RAILS] = {0};

    for (unsigned r = 0; r < num_rails; ++r) {
        rate[r] = (double)rails[r].rate;
    }
    mrail_fair_share_divide(shares->set, MRAIL_FAIR_SHARE_CLASSES, rate,
                            num_rails);
}

void mrail_fair_share_classtle(mrail_fair_share_t *shares,
                               const mrail_fair_share_rail_t *rails,
                               unsigned num_rails)
{
    shares->active = fair_share_is_active(shares, rails, num_rails);
    if (shares->active) {
        fair_share_divide(shares, rails, num_rails);
    }
    for (unsigned r = 0; r < num_rails; ++r) {
        mrail_fair_share_seen_t *seen = &shares->seen[r];

        for (unsigned i = 0; i < MRAIL_FAIR_SHARE_CLASSES; ++i) {
            shares->ratio[i][r] = -1;
        }
        seen->bottleneck = shares->active ? shares_bottleneck_class(shares, r)
                                          : MRAIL_FAIR_SHARE_NONE;
        if (seen->bottleneck == MRAIL_FAIR_SHARE_NONE) {
            seen->is_shared = 0;
            continue;
        }
        fair_share_look(seen, &rails[r], shares->period_ns);
        if (seen->is_held) {
            fair_share_hold(shares, r, &rails[r]);
        }
    }
}

void mrail_fair_share_post(mrail_fair_share_t *shares, unsigned set,
                           unsigned rail, uint64_t bytes)
{
    if (shares->ratio[set][rail] >= 0) {
        shares->token[set][rail] -= (double)bytes;
        return;
    }
    if (shares->seen[rail].bottleneck != set) {
        return;
    }
    for (unsigned i = 0; i < MRAIL_FAIR_SHARE_CLASSES; ++i) {
        if (shares->ratio[i][rail] >= 0) {
            shares->token[i][rail] = MRAIL_MIN(
                shares->token[i][rail] + shares->ratio[i][rail] * (double)bytes,
                MRAIL_FAIR_SHARE_KEEP);
        }
    }
}
