#include "config.h"
#include "rail/shares.h"

#include "base/util.h"

#include <string.h>

/* ---- the division -------------------------------------------------------- */

#define SHARES_ROUNDS 48
/* A rail is worth at most so many times more after a round. */
#define SHARES_STEP 8.0

/* Each set over its rails, by what they give and what they are worth. */
static void shares_spread(mrail_shares_set_t *sets, unsigned num_sets,
                          const double *rate, const double *worth,
                          unsigned num_rails, double *busy_s)
{
    memset(busy_s, 0, num_rails * sizeof(*busy_s));
    for (unsigned i = 0; i < num_sets; ++i) {
        mrail_shares_set_t *set = &sets[i];
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

static double shares_longest(const double *busy_s, unsigned num_rails)
{
    double longest_s = 0;

    for (unsigned r = 0; r < num_rails; ++r) {
        longest_s = MRAIL_MAX(longest_s, busy_s[r]);
    }
    return longest_s;
}

/*
 * Every rail has a worth.  One that would be busy for longer than another is
 * worth less, in that proportion, until all are busy for as long as each other,
 * or those that are not have nobody left who could use them and something else.
 * Source: iterative proportional fitting, Deming and Stephan 1940.
 */
double mrail_shares_divide(mrail_shares_set_t *sets, unsigned num_sets,
                           const double *rate, unsigned num_rails)
{
    double worth[MRAIL_SHARES_RAILS], busy_s[MRAIL_SHARES_RAILS];
    double longest_s;

    for (unsigned r = 0; r < num_rails; ++r) {
        worth[r] = 1;
    }
    shares_spread(sets, num_sets, rate, worth, num_rails, busy_s);
    for (unsigned round = 0; round < SHARES_ROUNDS; ++round) {
        longest_s = shares_longest(busy_s, num_rails);
        for (unsigned r = 0; r < num_rails; ++r) {
            if (busy_s[r] > 0) {
                worth[r] *= MRAIL_MIN(longest_s / busy_s[r], SHARES_STEP);
            }
        }
        shares_spread(sets, num_sets, rate, worth, num_rails, busy_s);
    }
    return shares_longest(busy_s, num_rails);
}

/* ---- turns --------------------------------------------------------------- */

void mrail_shares_begin(mrail_shares_t *shares, mrail_ns_t now_ns)
{
    ++shares->turn;
    shares->passed_ns =
        MRAIL_MIN(now_ns - shares->turn_ns, 2 * MRAIL_SHARES_TURN_NS);
    shares->turn_ns = now_ns;
    shares->overflow = 0;
    for (unsigned i = 0; i < MRAIL_SHARES_SETS; ++i) {
        shares->set[i].peers = 0;
        shares->set[i].bytes = 0;
    }
}

/* The place of a set, or of one that has had no peer for two turns. */
static unsigned shares_place(mrail_shares_t *shares, uint32_t rails)
{
    unsigned place = MRAIL_SHARES_NONE;

    for (unsigned i = 0; i < MRAIL_SHARES_SETS; ++i) {
        if (shares->set[i].rails == rails) {
            return i;
        }
        if ((place == MRAIL_SHARES_NONE) &&
            ((shares->set[i].rails == 0) ||
             (shares->turn - shares->last[i] > 1))) {
            place = i;
        }
    }
    if (place != MRAIL_SHARES_NONE) {
        memset(&shares->set[place], 0, sizeof(shares->set[place]));
        memset(shares->token[place], 0, sizeof(shares->token[place]));
        shares->set[place].rails = rails;
    }
    return place;
}

unsigned mrail_shares_add(mrail_shares_t *shares, uint32_t rails,
                          uint64_t bytes)
{
    unsigned place = shares_place(shares, rails);

    if (place == MRAIL_SHARES_NONE) {
        ++shares->overflow;
        return place;
    }
    shares->last[place] = shares->turn;
    ++shares->set[place].peers;
    shares->set[place].bytes += (double)bytes;
    return place;
}

static int shares_has(const mrail_shares_set_t *set, unsigned rail)
{
    return (set->peers != 0) && ((set->rails >> rail) & 1);
}

/* A rail that some set reaches gives nobody knows what. */
static int shares_is_known(const mrail_shares_t *shares,
                           const mrail_shares_rail_t *rails, unsigned num_rails)
{
    for (unsigned i = 0; i < MRAIL_SHARES_SETS; ++i) {
        for (unsigned r = 0; r < num_rails; ++r) {
            if (shares_has(&shares->set[i], r) && (rails[r].rate == 0)) {
                return 0;
            }
        }
    }
    return 1;
}

/* Who needs most of it for each peer; none if they are not several. */
static unsigned shares_owner(const mrail_shares_t *shares, unsigned rail)
{
    unsigned owner = MRAIL_SHARES_NONE, count = 0;
    double most = -1;

    for (unsigned i = 0; i < MRAIL_SHARES_SETS; ++i) {
        const mrail_shares_set_t *set = &shares->set[i];

        if (shares_has(set, rail)) {
            ++count;
            if (set->part[rail] / set->peers > most) {
                most = set->part[rail] / set->peers;
                owner = i;
            }
        }
    }
    return (count > 1) ? owner : MRAIL_SHARES_NONE;
}

/* ---- holding back -------------------------------------------------------- */

static void shares_watch(mrail_shares_seen_t *seen,
                         const mrail_shares_rail_t *rail, mrail_ns_t now_ns)
{
    seen->from_ns = now_ns;
    seen->moved = rail->moved;
    seen->done = rail->done;
}

/* It has been watched for long enough to tell something. */
static int shares_has_seen(const mrail_shares_seen_t *seen,
                           const mrail_shares_rail_t *rail, mrail_ns_t now_ns)
{
    mrail_ns_t length_ns = now_ns - seen->from_ns;

    return (length_ns >= MRAIL_SHARES_LOOK_NS) &&
           ((rail->done - seen->done >= MRAIL_SHARES_SEGMENTS) ||
            (length_ns >= MRAIL_SHARES_LOOK_LONG) ||
            (seen->is_held && (length_ns >= 3 * seen->look_ns / 2)));
}

static void shares_let_go(mrail_shares_seen_t *seen, mrail_ns_t now_ns)
{
    seen->is_held = 0;
    seen->free_ns = now_ns + seen->pause_ns;
    seen->pause_ns = MRAIL_MIN(3 * seen->pause_ns, MRAIL_SHARES_PAUSE_MAX);
}

/* Bytes per second while nobody was held back, or more. */
static void shares_compare(mrail_shares_seen_t *seen, double rate,
                           mrail_ns_t now_ns)
{
    if (!seen->is_held) {
        seen->rate = rate;
        seen->look_ns = now_ns - seen->from_ns;
        if (now_ns >= seen->free_ns) {
            seen->is_held = 1;
            seen->held_ns = now_ns;
        }
    } else if (rate < (1 - MRAIL_SHARES_ROOM) * seen->rate) {
        shares_let_go(seen, now_ns);
    } else {
        seen->rate = MRAIL_MAX(seen->rate, rate);
        if (now_ns - seen->held_ns > 2 * seen->pause_ns) {
            seen->pause_ns = MRAIL_SHARES_LOOK_NS;
        }
    }
}

/* Several sets have work for the rail. */
static void shares_look(mrail_shares_seen_t *seen,
                        const mrail_shares_rail_t *rail, mrail_ns_t now_ns)
{
    mrail_ns_t length_ns = now_ns - seen->from_ns;

    if (!seen->is_shared) {
        shares_watch(seen, rail, now_ns);
        if (now_ns > seen->shared_ns + MRAIL_SHARES_OLD_NS) {
            seen->is_held = 0;
            seen->free_ns = 0;
            seen->pause_ns = MRAIL_SHARES_LOOK_NS;
        }
    } else if (shares_has_seen(seen, rail, now_ns)) {
        shares_compare(seen,
                       (double)(rail->moved - seen->moved) * MRAIL_NS_PER_SEC /
                           (double)length_ns,
                       now_ns);
        shares_watch(seen, rail, now_ns);
    }
    seen->is_shared = 1;
    seen->shared_ns = now_ns;
}

/* ---- turns, at their end ------------------------------------------------- */

static void shares_hold(mrail_shares_t *shares, unsigned r,
                        const mrail_shares_rail_t *rail)
{
    unsigned owner = shares->seen[r].owner;
    double least = MRAIL_SHARES_LEAST * (double)rail->rate *
                   (double)shares->passed_ns / MRAIL_NS_PER_SEC;

    for (unsigned i = 0; i < MRAIL_SHARES_SETS; ++i) {
        if (shares_has(&shares->set[i], r) && (i != owner)) {
            shares->ratio[i][r] = shares->set[i].part[r] /
                                  MRAIL_MAX(shares->set[owner].part[r], 1.0);
            shares->token[i][r] =
                MRAIL_MIN(shares->token[i][r] + least, MRAIL_SHARES_KEEP);
        }
    }
}

/* Several sets have work, and it is known what their rails give. */
static int shares_is_active(const mrail_shares_t *shares,
                            const mrail_shares_rail_t *rails,
                            unsigned num_rails)
{
    unsigned sets = 0;

    for (unsigned i = 0; i < MRAIL_SHARES_SETS; ++i) {
        sets += (shares->set[i].peers != 0);
    }
    return (sets > 1) && (shares->overflow == 0) &&
           shares_is_known(shares, rails, num_rails);
}

static void shares_divide(mrail_shares_t *shares,
                          const mrail_shares_rail_t *rails, unsigned num_rails)
{
    double rate[MRAIL_SHARES_RAILS] = {0};

    for (unsigned r = 0; r < num_rails; ++r) {
        rate[r] = (double)rails[r].rate;
    }
    mrail_shares_divide(shares->set, MRAIL_SHARES_SETS, rate, num_rails);
}

void mrail_shares_settle(mrail_shares_t *shares,
                         const mrail_shares_rail_t *rails, unsigned num_rails)
{
    shares->active = shares_is_active(shares, rails, num_rails);
    if (shares->active) {
        shares_divide(shares, rails, num_rails);
    }
    for (unsigned r = 0; r < num_rails; ++r) {
        mrail_shares_seen_t *seen = &shares->seen[r];

        for (unsigned i = 0; i < MRAIL_SHARES_SETS; ++i) {
            shares->ratio[i][r] = -1;
        }
        seen->owner =
            shares->active ? shares_owner(shares, r) : MRAIL_SHARES_NONE;
        if (seen->owner == MRAIL_SHARES_NONE) {
            seen->is_shared = 0;
            continue;
        }
        shares_look(seen, &rails[r], shares->turn_ns);
        if (seen->is_held) {
            shares_hold(shares, r, &rails[r]);
        }
    }
}

void mrail_shares_post(mrail_shares_t *shares, unsigned set, unsigned rail,
                       uint64_t bytes)
{
    if (shares->ratio[set][rail] >= 0) {
        shares->token[set][rail] -= (double)bytes;
        return;
    }
    if (shares->seen[rail].owner != set) {
        return;
    }
    for (unsigned i = 0; i < MRAIL_SHARES_SETS; ++i) {
        if (shares->ratio[i][rail] >= 0) {
            shares->token[i][rail] = MRAIL_MIN(
                shares->token[i][rail] + shares->ratio[i][rail] * (double)bytes,
                MRAIL_SHARES_KEEP);
        }
    }
}
