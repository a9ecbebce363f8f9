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
    .sample = 4,
    .settle = 1,
    .max_moves = 8,
    .trials = 8,
    .gain_ppm = 50000,
    .loss_ppm = 50000,
    .full_ppm = 900000,
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

/* Adds a window to the sums. A single window contains few chunks of a slow
 * lane, so its rates are noisy. */
static void add_window(mrail_repath_t *repath, const uint64_t *bytes,
                       uint64_t saturated)
{
    if (repath->seen == 0 || repath->counted != saturated) {
        memset(repath->total, 0, sizeof(repath->total));
        repath->counted = saturated;
        repath->seen = 0;
    }
    for (unsigned i = 0; i < repath->lanes; ++i) {
        repath->total[i] += bytes[i];
    }
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
    repath->moves = repath->unequal = repath->fruitless = repath->seen = 0;
}

/* Returns 1 if the sum of the rates is the most that the rail or the fabric is
 * known to carry. */
static int is_full(const mrail_repath_t *repath, uint64_t sum,
                   uint64_t capacity, mrail_ns_t now_ns)
{
    double slack = 1 - repath->params.gain_ppm / 1e6;

    return (double)sum >= (double)capacity * (repath->params.full_ppm / 1e6) ||
           (now_ns < repath->known_until_ns &&
            (double)sum >= (double)repath->known_sum * slack);
}

static int make_move(mrail_repath_t *repath, unsigned lane,
                     mrail_repath_target_t target, mrail_repath_move_t *move_p)
{
    repath->num_episodes += (repath->moves == 0);
    ++repath->moves;
    ++repath->num_moves;
    repath->settling = repath->params.settle;
    repath->seen = 0;
    *move_p = (mrail_repath_move_t){.lane = lane, .target = target};
    return 1;
}

/* Moves the slowest lane, or the last lane again if its move lowered the sum.
 * `mean` averages the windows since the last move, and `sum` is the sum of the
 * mean rates. */
static int move_slowest(mrail_repath_t *repath, const repath_rates_t *mean,
                        uint64_t sum, int full, mrail_repath_move_t *move_p)
{
    const mrail_repath_params_t *params = &repath->params;
    double loss = 1 - params->loss_ppm / 1e6;
    int is_loss = repath->moves != 0 &&
                  ((repath->counted >> repath->last_lane) & 1) &&
                  (double)sum < (double)repath->before_sum * loss;
    unsigned lane = is_loss ? repath->last_lane : mean->slowest;
    int copies =
        full && is_unequal(mean, params->copy_ppm) && lane != mean->fastest;

    if (!is_loss) {
        repath->before_sum = sum;
        repath->last_lane = lane;
    }
    (void)make_move(repath, lane,
                    copies ? MRAIL_REPATH_COPY : MRAIL_REPATH_RANDOM, move_p);
    move_p->other = copies ? mean->fastest : lane;
    return 1;
}

static int start_trial(mrail_repath_t *repath, unsigned lane, uint64_t base,
                       mrail_repath_move_t *move_p)
{
    repath->trial_windows = repath->params.sample;
    repath->trial_lane = lane;
    repath->trial_base = base;
    repath->trial_total = 0;
    /* do not check for a loss, because the trial itself decides */
    repath->before_sum = 0;
    return make_move(repath, lane, MRAIL_REPATH_RANDOM, move_p);
}

/* Handles a window of a trial. Returns 1 if the lane must move back. */
static int check_trial(mrail_repath_t *repath, const repath_rates_t *rates,
                       mrail_ns_t now_ns, mrail_repath_move_t *move_p)
{
    const mrail_repath_params_t *params = &repath->params;
    double gain = 1 + params->gain_ppm / 1e6;

    repath->trial_total += rates->sum;
    if (--repath->trial_windows != 0) {
        return 0;
    }
    if ((double)repath->trial_total >
        (double)repath->trial_base * gain * params->sample) {
        repath->fruitless = 0;
        return 0;
    }
    (void)make_move(repath, repath->trial_lane, MRAIL_REPATH_BACK, move_p);
    if (++repath->fruitless == params->trials) {
        repath->known_sum = repath->trial_base;
        repath->known_until_ns = now_ns + params->max_backoff_ns;
        end_episode(repath, now_ns, 0);
    }
    return 1;
}

typedef enum repath_result {
    RESULT_OPEN, /* more windows are needed */
    RESULT_BALANCED,
    RESULT_UNEQUAL,
    RESULT_SLOW, /* the rates are equal, but their sum is below the capacity of
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
 * move, and `last` is the last window. */
static repath_result_t find_result(mrail_repath_t *repath,
                                   const repath_rates_t *mean,
                                   const repath_rates_t *last,
                                   uint64_t capacity, mrail_ns_t now_ns)
{
    const mrail_repath_params_t *params = &repath->params;
    int is_begun = repath->moves != 0;
    int full = is_full(repath, mean->sum / repath->seen, capacity, now_ns);

    if (is_begun && !is_clear(repath, mean)) {
        return RESULT_OPEN;
    }
    if (!is_begun && !is_unequal(last, params->start_ppm) && full) {
        return RESULT_BALANCED;
    }
    if (!is_begun && ++repath->unequal < params->confirm) {
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
    repath_rates_t last, mean;
    repath_result_t result;
    uint64_t sum;

    if (repath->settling != 0) {
        --repath->settling;
        return 0;
    }
    last = compare_lanes(repath, bytes, saturated);
    /* A lane without a single byte has a dead path, which failover handles. */
    if (last.num < 2 || last.least == 0 || now_ns < repath->backoff_until_ns) {
        return 0;
    }
    if (repath->trial_windows != 0) {
        return check_trial(repath, &last, now_ns, move_p);
    }
    add_window(repath, bytes, saturated);
    mean = compare_lanes(repath, repath->total, saturated);
    result = find_result(repath, &mean, &last, capacity, now_ns);
    if (result == RESULT_OPEN) {
        return 0;
    }
    if (result == RESULT_BALANCED ||
        repath->moves >= repath->params.max_moves * mean.num) {
        end_episode(repath, now_ns, result == RESULT_BALANCED);
        return 0;
    }
    sum = mean.sum / repath->seen;
    return (result == RESULT_UNEQUAL)
               ? move_slowest(repath, &mean, sum,
                              is_full(repath, sum, capacity, now_ns), move_p)
               : start_trial(repath, mean.slowest, sum, move_p);
}
