#include "config.h"
#include "orchestrator/repath.h"

#include "base/util.h"

#include <assert.h>
#include <string.h>

const mrail_repath_params_t mrail_repath_defaults = {
    .start_ppm = 250000,
    .stop_ppm = 120000,
    .clear_ppm = 600000,
    .copy_ppm = 800000,
    .confirm = 3,
    .calm = 8,
    .patience = 20,
    .sample = 4,
    .settle = 1,
    .max_moves = 8,
    .trials = 8,
    .gain_ppm = 50000,
    .loss_ppm = 50000,
    .full_ppm = 900000,
    .margin_ppm = 50000,
    .drop_ppm = 200000,
    .max_repeats = 2,
    .min_backoff_ns = 10 * MRAIL_NS_PER_SEC,
    .max_backoff_ns = 600 * MRAIL_NS_PER_SEC,
};

void mrail_repath_init(mrail_repath_t *repath,
                       const mrail_repath_params_t *params, unsigned lanes,
                       uint64_t seed)
{
    assert(lanes >= 1 && lanes <= MRAIL_REPATH_MAX_LANES);
    *repath = (mrail_repath_t){
        .params = (params != NULL) ? *params : mrail_repath_defaults,
        .lanes = lanes};
    repath->backoff_ns = repath->params.min_backoff_ns;
    mrail_rng_init(&repath->rng, seed);
}

/* Rates of the lanes that count in a window. */
typedef struct repath_rates {
    unsigned num;
    /* chosen at random among equal lanes */
    unsigned slowest, fastest;
    uint64_t least, most, sum;
} repath_rates_t;

/* Chooses uniformly among equal candidates. The caller calls it for each
 * candidate, with the number of candidates so far, and keeps the last candidate
 * for which it returns 1. */
static int is_drawn(mrail_repath_t *repath, unsigned equals)
{
    return mrail_rng_below(&repath->rng, equals) == 0;
}

static repath_rates_t compare_lanes(mrail_repath_t *repath,
                                    const uint64_t *bytes, uint64_t saturated)
{
    repath_rates_t rates = {.least = UINT64_MAX};
    unsigned slow = 0, fast = 0;

    for (unsigned i = 0; i < repath->lanes; ++i) {
        if (!((saturated >> i) & 1)) {
            continue;
        }
        ++rates.num;
        rates.sum += bytes[i];
        slow = (bytes[i] < rates.least) ? 0 : slow;
        if (bytes[i] <= rates.least) {
            rates.least = bytes[i];
            rates.slowest = is_drawn(repath, ++slow) ? i : rates.slowest;
        }
        fast = (bytes[i] > rates.most) ? 0 : fast;
        if (bytes[i] >= rates.most) {
            rates.most = bytes[i];
            rates.fastest = is_drawn(repath, ++fast) ? i : rates.fastest;
        }
    }
    return rates;
}

/* Adds a window to the totals. A single window contains few chunks of a slow
 * lane, so its rates are noisy. `sum` is the number of bytes in the window. */
static void add_window(mrail_repath_t *repath, const uint64_t *bytes,
                       uint64_t saturated, uint64_t sum)
{
    if (repath->seen == 0 || repath->counted != saturated) {
        memset(repath->total, 0, sizeof(repath->total));
        repath->counted = saturated;
        repath->least_sum = UINT64_MAX;
        repath->most_sum = 0;
        repath->seen = 0;
    }
    for (unsigned i = 0; i < repath->lanes; ++i) {
        repath->total[i] += bytes[i];
    }
    repath->least_sum = MRAIL_MIN(repath->least_sum, sum);
    repath->most_sum = MRAIL_MAX(repath->most_sum, sum);
    ++repath->seen;
}

static int is_unequal(const repath_rates_t *rates, uint32_t tolerance_ppm)
{
    return (double)(rates->most - rates->least) >
           (double)rates->least * (tolerance_ppm / 1e6);
}

static void end_episode(mrail_repath_t *repath, mrail_ns_t now_ns,
                        int is_balanced)
{
    const mrail_repath_params_t *params = &repath->params;

    if (is_balanced) {
        repath->backoff_ns =
            (repath->moves != 0) ? params->min_backoff_ns : repath->backoff_ns;
    } else {
        ++repath->num_failed;
        repath->backoff_until_ns = now_ns + repath->backoff_ns;
        repath->backoff_ns =
            MRAIL_MIN(2 * repath->backoff_ns, params->max_backoff_ns);
    }
    repath->moves = repath->unequal = repath->seen = 0;
}

/* Returns 1 if the sum of the rates is at least this fraction of the rail's
 * rate, or is near the most that trials showed the fabric to carry. */
static int is_full(const mrail_repath_t *repath, uint64_t sum,
                   uint64_t capacity, double fraction, mrail_ns_t now_ns)
{
    double known = 1 - repath->params.drop_ppm / 1e6;

    return (double)sum >= (double)capacity * fraction ||
           (now_ns < repath->known_until_ns &&
            (double)sum >= (double)repath->known_sum * known);
}

/* Returns the fraction of the rail's rate below which `num` lanes with equal
 * rates may collide. The rates are equal within start_ppm if each uplink in use
 * has at least four lanes. With n = num / 4 of n + 1 uplinks in use, the lanes
 * reach n / (n + 1) of the rail's rate. Fewer lanes per uplink have equal rates
 * only if their number is a multiple of the uplinks in use, such as 8 lanes on
 * 4 of 5 uplinks; this case is not detected. */
static double collided_fraction(const mrail_repath_t *repath, unsigned num)
{
    unsigned uplinks = MRAIL_MAX(num / 4, 2);
    double fraction =
        (double)uplinks / (uplinks + 1) + repath->params.margin_ppm / 1e6;

    return MRAIL_MIN(fraction, repath->params.full_ppm / 1e6);
}

static int make_move(mrail_repath_t *repath, unsigned lane,
                     mrail_repath_target_t target, mrail_repath_move_t *move_p)
{
    repath->num_episodes += (repath->moves == 0);
    repath->balanced = 0;
    ++repath->moves;
    ++repath->num_moves;
    repath->settling = repath->params.settle;
    repath->seen = 0;
    *move_p = (mrail_repath_move_t){.lane = lane, .target = target};
    return 1;
}

/* Moves the slowest lane, or the last lane again if its move lowered the sum.
 * `mean` averages the windows since the last move. */
static int move_slowest(mrail_repath_t *repath, const repath_rates_t *mean,
                        int full, mrail_repath_move_t *move_p)
{
    const mrail_repath_params_t *params = &repath->params;
    double loss = 1 - params->loss_ppm / 1e6;
    /* A shortage of processor time lowers the sums of some windows, so a
     * comparison of means would often find a loss. */
    int is_loss = repath->moves != 0 && repath->repeats < params->max_repeats &&
                  ((repath->counted >> repath->last_lane) & 1) &&
                  (double)repath->most_sum < (double)repath->before_sum * loss;
    unsigned lane = is_loss ? repath->last_lane : mean->slowest;
    int copies =
        full && is_unequal(mean, params->copy_ppm) && lane != mean->fastest;

    ++repath->repeats;
    if (!is_loss) {
        repath->before_sum = repath->least_sum;
        repath->last_lane = lane;
        repath->repeats = 0;
    }
    (void)make_move(repath, lane,
                    copies ? MRAIL_REPATH_COPY : MRAIL_REPATH_RANDOM, move_p);
    move_p->other = copies ? mean->fastest : lane;
    return 1;
}

/* Forgets an open episode or trial. */
static void abandon(mrail_repath_t *repath)
{
    repath->moves = repath->unequal = repath->seen = 0;
    repath->trial.windows = 0;
}

static int start_trial(mrail_repath_t *repath, const repath_rates_t *mean,
                       mrail_repath_move_t *move_p)
{
    repath->trial = (mrail_repath_trial_t){.windows = repath->params.sample,
                                           .lane = mean->slowest,
                                           .counted = repath->counted,
                                           .mean_sum = mean->sum / repath->seen,
                                           .most_sum = repath->most_sum,
                                           .least_sum = UINT64_MAX};
    /* do not check for a loss, because the trial itself decides */
    repath->before_sum = 0;
    return make_move(repath, mean->slowest, MRAIL_REPATH_RANDOM, move_p);
}

/* A trial is a gain if the lane is now faster than the other lanes, or if every
 * window of the trial has a larger sum than every window before it. The first
 * condition compares lanes in the same windows, and the second one compares
 * extremes, so that a varying supply of processor time does not look like a
 * gain. */
static int is_gain(const mrail_repath_t *repath, unsigned num)
{
    const mrail_repath_params_t *params = &repath->params;
    const mrail_repath_trial_t *trial = &repath->trial;
    double others = (double)(trial->total - trial->lane_total) / (num - 1);

    return (double)trial->lane_total > others * (1 + params->start_ppm / 1e6) ||
           (double)trial->least_sum >
               (double)trial->most_sum * (1 + params->gain_ppm / 1e6);
}

/* Handles a window of a trial. Returns 1 if the lane must move back. A window
 * in which a different set of lanes was saturated does not count, because its
 * sum is not comparable. After too many such windows, the trial ends without a
 * result. */
static int check_trial(mrail_repath_t *repath, const uint64_t *bytes,
                       uint64_t saturated, const repath_rates_t *rates,
                       mrail_ns_t now_ns, mrail_repath_move_t *move_p)
{
    const mrail_repath_params_t *params = &repath->params;
    mrail_repath_trial_t *trial = &repath->trial;

    if (saturated != trial->counted) {
        trial->windows =
            (++trial->skipped > params->sample) ? 0 : trial->windows;
        return 0;
    }
    trial->total += rates->sum;
    trial->lane_total += bytes[trial->lane];
    trial->least_sum = MRAIL_MIN(trial->least_sum, rates->sum);
    if (--trial->windows != 0) {
        return 0;
    }
    if (is_gain(repath, rates->num)) {
        repath->fruitless = 0;
        return 0;
    }
    (void)make_move(repath, trial->lane, MRAIL_REPATH_BACK, move_p);
    if (now_ns > repath->fruitless_ns + params->max_backoff_ns) {
        repath->fruitless = 0;
    }
    repath->fruitless_ns = now_ns;
    if (++repath->fruitless == params->trials) {
        repath->fruitless = 0;
        repath->known_sum = trial->mean_sum;
        repath->known_until_ns = now_ns + params->max_backoff_ns;
        end_episode(repath, now_ns, 0);
    }
    return 1;
}

typedef enum repath_result {
    RESULT_OPEN, /* more windows are needed */
    RESULT_BALANCED,
    RESULT_UNEQUAL,
    RESULT_SLOW, /* the rates are equal, but their sum is far below the rate of
                  * the rail */
} repath_result_t;

/* Returns 1 if there have been enough windows since the last move to prove a
 * difference of this size. */
static int is_clear(const mrail_repath_t *repath, const repath_rates_t *mean)
{
    const mrail_repath_params_t *params = &repath->params;

    return is_unequal(mean, params->clear_ppm) ||
           (is_unequal(mean, params->start_ppm) &&
            repath->seen >= params->sample / 2) ||
           repath->seen >= params->sample;
}

/* Evaluates the windows so far. `mean` averages the windows since the last
 * move, and `last` is the last window. `full`: the lanes do not all collide. */
static repath_result_t find_result(mrail_repath_t *repath,
                                   const repath_rates_t *mean,
                                   const repath_rates_t *last, int full)
{
    const mrail_repath_params_t *params = &repath->params;
    int is_begun = repath->moves != 0;
    unsigned confirm =
        (repath->balanced >= params->calm) ? params->patience : params->confirm;

    if (is_begun && !is_clear(repath, mean)) {
        return RESULT_OPEN;
    }
    if (!is_begun && !is_unequal(last, params->start_ppm) && full) {
        return RESULT_BALANCED;
    }
    if (!is_begun && ++repath->unequal < confirm) {
        return RESULT_OPEN;
    }
    if (is_unequal(mean, is_begun ? params->stop_ppm : params->start_ppm)) {
        return RESULT_UNEQUAL;
    }
    return full ? RESULT_BALANCED : RESULT_SLOW;
}

int mrail_repath_window(mrail_repath_t *repath, mrail_ns_t now_ns,
                        const uint64_t *bytes, uint64_t saturated,
                        uint64_t capacity, mrail_repath_move_t *move_p)
{
    const mrail_repath_params_t *params = &repath->params;
    repath_rates_t last, mean;
    repath_result_t result;
    uint64_t sum;

    if (repath->settling != 0) {
        --repath->settling;
        return 0;
    }
    if (now_ns > repath->last_ns + params->min_backoff_ns) {
        abandon(repath); /* the rates of that time may no longer be valid */
    }
    last = compare_lanes(repath, bytes, saturated);
    /* A lane without a single byte has a dead path, which failover handles. */
    if (last.num < 2 || last.least == 0 || now_ns < repath->backoff_until_ns) {
        return 0;
    }
    repath->last_ns = now_ns;
    if (repath->trial.windows != 0) {
        return check_trial(repath, bytes, saturated, &last, now_ns, move_p);
    }
    add_window(repath, bytes, saturated, last.sum);
    mean = compare_lanes(repath, repath->total, saturated);
    sum = mean.sum / repath->seen;
    result = find_result(repath, &mean, &last,
                         is_full(repath, sum, capacity,
                                 collided_fraction(repath, mean.num), now_ns));
    if (result == RESULT_OPEN) {
        return 0;
    }
    /* If the capacity is unknown, equal lanes may collide. */
    repath->balanced += (result == RESULT_BALANCED && capacity != 0);
    if (result == RESULT_BALANCED ||
        repath->moves >= params->max_moves * mean.num) {
        end_episode(repath, now_ns, result == RESULT_BALANCED);
        return 0;
    }
    return (result == RESULT_UNEQUAL)
               ? move_slowest(repath, &mean,
                              is_full(repath, sum, capacity,
                                      params->full_ppm / 1e6, now_ns),
                              move_p)
               : start_trial(repath, &mean, move_p);
}
