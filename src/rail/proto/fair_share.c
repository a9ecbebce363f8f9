#include "config.h"
#include "rail/proto/fair_share.h"

#include "base/util.h"

#include <string.h>

/* ---- division ---- */

#define FAIR_SHARE_ITERATIONS 48
/* Largest growth of a rail's weight in one iteration. */
#define FAIR_SHARE_STEP 8.0

/* Distributes the bytes of each class over its rails by their rates and
 * weights. */
static void fair_share_distribute(mrail_fair_share_class_t *classes,
                                  unsigned num_classes, const double *rate,
                                  const double *weight, unsigned num_rails,
                                  double *busy_s)
{
    memset(busy_s, 0, num_rails * sizeof(*busy_s));
    for (unsigned i = 0; i < num_classes; ++i) {
        mrail_fair_share_class_t *class = &classes[i];
        double sum = 0;

        for (unsigned r = 0; r < num_rails; ++r) {
            class->part[r] =
                ((class->rails >> r) & 1) ? rate[r] * weight[r] : 0;
            sum += class->part[r];
        }
        for (unsigned r = 0; (sum > 0) && (r < num_rails); ++r) {
            class->part[r] *= class->bytes / sum;
            busy_s[r] += (rate[r] > 0) ? class->part[r] / rate[r] : 0;
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
 * Each rail has a weight. In each iteration, the weight of a rail that is less
 * busy than the busiest rail grows in proportion, until all rails are busy for
 * the same time. A rail may stay less busy if no class can use both it and a
 * busier rail. Source: iterative proportional fitting, Deming and Stephan 1940.
 */
double mrail_fair_share_divide(mrail_fair_share_class_t *classes,
                               unsigned num_classes, const double *rate,
                               unsigned num_rails)
{
    double weight[MRAIL_FAIR_SHARE_RAILS], busy_s[MRAIL_FAIR_SHARE_RAILS];
    double longest_s;

    for (unsigned r = 0; r < num_rails; ++r) {
        weight[r] = 1;
    }
    fair_share_distribute(classes, num_classes, rate, weight, num_rails,
                          busy_s);
    for (unsigned iteration = 0; iteration < FAIR_SHARE_ITERATIONS;
         ++iteration) {
        longest_s = fair_share_longest(busy_s, num_rails);
        for (unsigned r = 0; r < num_rails; ++r) {
            if (busy_s[r] > 0) {
                weight[r] *= MRAIL_MIN(longest_s / busy_s[r], FAIR_SHARE_STEP);
            }
        }
        fair_share_distribute(classes, num_classes, rate, weight, num_rails,
                              busy_s);
    }
    return fair_share_longest(busy_s, num_rails);
}

/* ---- periods ---- */

void mrail_fair_share_begin(mrail_fair_share_t *fair_share, mrail_ns_t now_ns)
{
    ++fair_share->period;
    fair_share->passed_ns = MRAIL_MIN(now_ns - fair_share->period_ns,
                                      2 * MRAIL_FAIR_SHARE_PERIOD_NS);
    fair_share->period_ns = now_ns;
    fair_share->overflow = 0;
    for (unsigned i = 0; i < MRAIL_FAIR_SHARE_CLASSES; ++i) {
        fair_share->class[i].peers = 0;
        fair_share->class[i].bytes = 0;
    }
}

/* Returns the entry of a class. A new class uses a free entry, or the entry of
 * a class that has had no peer for two periods. */
static unsigned fair_share_place(mrail_fair_share_t *fair_share, uint32_t rails)
{
    unsigned place = MRAIL_FAIR_SHARE_NONE;

    for (unsigned i = 0; i < MRAIL_FAIR_SHARE_CLASSES; ++i) {
        if (fair_share->class[i].rails == rails) {
            return i;
        }
        if ((place == MRAIL_FAIR_SHARE_NONE) &&
            ((fair_share->class[i].rails == 0) ||
             (fair_share->period - fair_share->last[i] > 1))) {
            place = i;
        }
    }
    if (place != MRAIL_FAIR_SHARE_NONE) {
        memset(&fair_share->class[place], 0, sizeof(fair_share->class[place]));
        memset(fair_share->token[place], 0, sizeof(fair_share->token[place]));
        fair_share->class[place].rails = rails;
    }
    return place;
}

unsigned mrail_fair_share_add(mrail_fair_share_t *fair_share, uint32_t rails,
                              uint64_t bytes)
{
    unsigned place = fair_share_place(fair_share, rails);

    if (place == MRAIL_FAIR_SHARE_NONE) {
        ++fair_share->overflow;
        return place;
    }
    fair_share->last[place] = fair_share->period;
    ++fair_share->class[place].peers;
    fair_share->class[place].bytes += (double)bytes;
    return place;
}

static int fair_share_has(const mrail_fair_share_class_t *class, unsigned rail)
{
    return (class->peers != 0) && ((class->rails >> rail) & 1);
}

/* Returns 1 if the rates are known for all rails that any class uses. */
static int fair_share_is_known(const mrail_fair_share_t *fair_share,
                               const mrail_fair_share_rail_t *rails,
                               unsigned num_rails)
{
    for (unsigned i = 0; i < MRAIL_FAIR_SHARE_CLASSES; ++i) {
        for (unsigned r = 0; r < num_rails; ++r) {
            if (fair_share_has(&fair_share->class[i], r) &&
                (rails[r].rate == 0)) {
                return 0;
            }
        }
    }
    return 1;
}

/* Returns the class that needs the rail most per peer, or MRAIL_FAIR_SHARE_NONE
 * if only one class uses the rail. */
static unsigned
fair_share_bottleneck_class(const mrail_fair_share_t *fair_share, unsigned rail)
{
    unsigned bottleneck = MRAIL_FAIR_SHARE_NONE, count = 0;
    double most = -1;

    for (unsigned i = 0; i < MRAIL_FAIR_SHARE_CLASSES; ++i) {
        const mrail_fair_share_class_t *class = &fair_share->class[i];

        if (fair_share_has(class, rail)) {
            ++count;
            if (class->part[rail] / class->peers > most) {
                most = class->part[rail] / class->peers;
                bottleneck = i;
            }
        }
    }
    return (count > 1) ? bottleneck : MRAIL_FAIR_SHARE_NONE;
}

/* ---- throttling ---- */

static void fair_share_measure(mrail_fair_share_seen_t *seen,
                               const mrail_fair_share_rail_t *rail,
                               mrail_ns_t now_ns)
{
    seen->from_ns = now_ns;
    seen->moved = rail->moved;
    seen->done = rail->done;
}

/* Returns 1 if the rail has been measured for long enough. */
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

/* Starts throttling, or ends it if the rail's rate has dropped. If the rate
 * under throttling is higher than the rate without it, later rates are compared
 * with the higher one. */
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
    } else if (rate < (1 - MRAIL_FAIR_SHARE_HEADROOM) * seen->rate) {
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
        fair_share_measure(seen, rail, now_ns);
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
        fair_share_measure(seen, rail, now_ns);
    }
    seen->is_shared = 1;
    seen->shared_ns = now_ns;
}

/* ---- end of a period ---- */

static void fair_share_hold(mrail_fair_share_t *fair_share, unsigned r,
                            const mrail_fair_share_rail_t *rail)
{
    unsigned bottleneck = fair_share->seen[r].bottleneck;
    double least = MRAIL_FAIR_SHARE_LEAST * (double)rail->rate *
                   (double)fair_share->passed_ns / MRAIL_NS_PER_SEC;

    for (unsigned i = 0; i < MRAIL_FAIR_SHARE_CLASSES; ++i) {
        if (fair_share_has(&fair_share->class[i], r) && (i != bottleneck)) {
            fair_share->ratio[i][r] =
                fair_share->class[i].part[r] /
                MRAIL_MAX(fair_share->class[bottleneck].part[r], 1.0);
            fair_share->token[i][r] = MRAIL_MIN(fair_share->token[i][r] + least,
                                                MRAIL_FAIR_SHARE_KEEP);
        }
    }
}

/* Returns 1 if several classes have work and the rates of their rails are
 * known. */
static int fair_share_is_active(const mrail_fair_share_t *fair_share,
                                const mrail_fair_share_rail_t *rails,
                                unsigned num_rails)
{
    unsigned classes = 0;

    for (unsigned i = 0; i < MRAIL_FAIR_SHARE_CLASSES; ++i) {
        classes += (fair_share->class[i].peers != 0);
    }
    return (classes > 1) && (fair_share->overflow == 0) &&
           fair_share_is_known(fair_share, rails, num_rails);
}

static void fair_share_divide(mrail_fair_share_t *fair_share,
                              const mrail_fair_share_rail_t *rails,
                              unsigned num_rails)
{
    double rate[MRAIL_FAIR_SHARE_RAILS] = {0};

    for (unsigned r = 0; r < num_rails; ++r) {
        rate[r] = (double)rails[r].rate;
    }
    mrail_fair_share_divide(fair_share->class, MRAIL_FAIR_SHARE_CLASSES, rate,
                            num_rails);
}

void mrail_fair_share_end(mrail_fair_share_t *fair_share,
                          const mrail_fair_share_rail_t *rails,
                          unsigned num_rails)
{
    fair_share->active = fair_share_is_active(fair_share, rails, num_rails);
    if (fair_share->active) {
        fair_share_divide(fair_share, rails, num_rails);
    }
    for (unsigned r = 0; r < num_rails; ++r) {
        mrail_fair_share_seen_t *seen = &fair_share->seen[r];

        for (unsigned i = 0; i < MRAIL_FAIR_SHARE_CLASSES; ++i) {
            fair_share->ratio[i][r] = -1;
        }
        seen->bottleneck = fair_share->active
                               ? fair_share_bottleneck_class(fair_share, r)
                               : MRAIL_FAIR_SHARE_NONE;
        if (seen->bottleneck == MRAIL_FAIR_SHARE_NONE) {
            seen->is_shared = 0;
            continue;
        }
        fair_share_look(seen, &rails[r], fair_share->period_ns);
        if (seen->is_held) {
            fair_share_hold(fair_share, r, &rails[r]);
        }
    }
}

void mrail_fair_share_post(mrail_fair_share_t *fair_share, unsigned class,
                           unsigned rail, uint64_t bytes)
{
    if (fair_share->ratio[class][rail] >= 0) {
        fair_share->token[class][rail] -= (double)bytes;
        return;
    }
    if (fair_share->seen[rail].bottleneck != class) {
        return;
    }
    for (unsigned i = 0; i < MRAIL_FAIR_SHARE_CLASSES; ++i) {
        if (fair_share->ratio[i][rail] >= 0) {
            fair_share->token[i][rail] =
                MRAIL_MIN(fair_share->token[i][rail] +
                              fair_share->ratio[i][rail] * (double)bytes,
                          MRAIL_FAIR_SHARE_KEEP);
        }
    }
}
