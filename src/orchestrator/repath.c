#include "config.h"
#include "orchestrator/repath.h"

#include "base/util.h"
#include "orchestrator/ports.h"

#include <assert.h>

const mrail_repath_params_t mrail_repath_defaults = {
    .start_ppm = 250000,
    .stop_ppm = 120000,
    .confirm = 3,
    .settle = 1,
    .max_moves = 8,
    .explore = 8,
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

/* Of the lanes that count in a window. */
typedef struct repath_rates {
    unsigned num;
    unsigned slowest; /* at random among equals */
    uint64_t least, most, sum;
} repath_rates_t;

static repath_rates_t compare_lanes(mrail_repath_t *repath,
                                    const uint64_t *bytes, uint64_t saturated)
{
    repath_rates_t rates = {.least = UINT64_MAX};
    unsigned equals = 0;

    for (unsigned i = 0; i < repath->lanes; ++i) {
        if (!((saturated >> i) & 1)) {
            continue;
        }
        ++rates.num;
        rates.sum += bytes[i];
        rates.most = MRAIL_MAX(rates.most, bytes[i]);
        equals = (bytes[i] < rates.least) ? 0 : equals;
        if (bytes[i] <= rates.least) {
            rates.least = bytes[i];
            ++equals;
            if (mrail_rng_below(&repath->rng, equals) == 0) {
                rates.slowest = i;
            }
        }
    }
    return rates;
}

static int is_unequal(const repath_rates_t *rates, uint32_t tolerance_ppm)
{
    return (double)(rates->most - rates->least) >
           (double)rates->least * (tolerance_ppm / 1e6);
}

static uint16_t choose_port(mrail_repath_t *repath, const uint16_t *sports)
{
    for (;;) {
        uint16_t sport =
            (uint16_t)(MRAIL_PORTS_FIRST +
                       mrail_rng_below(&repath->rng, MRAIL_PORTS_COUNT));
        int is_used = 0;

        for (unsigned i = 0; i < repath->lanes; ++i) {
            is_used |= (sports[i] == sport);
        }
        if (!is_used) {
            return sport;
        }
    }
}

static void end_episode(mrail_repath_t *repath, mrail_ns_t now_ns,
                        int is_balanced)
{
    const mrail_repath_params_t *params = &repath->params;

    if (is_balanced) {
        repath->backoff_ns =
            (repath->moves != 0) ? params->min_backoff_ns : repath->backoff_ns;
        repath->moves = repath->unequal = 0;
        return;
    }
    repath->moves = repath->unequal = 0;
    ++repath->num_failed;
    repath->quiet_until_ns = now_ns + repath->backoff_ns;
    repath->backoff_ns =
        MRAIL_MIN(2 * repath->backoff_ns, params->max_backoff_ns);
}

/* 1 if the lanes are balanced, as far as an episode that is (or is not) under way
 * asks for it. */
static int is_balanced(const mrail_repath_t *repath,
                       const repath_rates_t *rates, uint64_t capacity)
{
    const mrail_repath_params_t *params = &repath->params;
    uint32_t tolerance_ppm =
        (repath->moves != 0) ? params->stop_ppm : params->start_ppm;

    return !is_unequal(rates, tolerance_ppm) &&
           (double)rates->sum >= (double)capacity * (params->full_ppm / 1e6);
}

/* 1 if more moves are unlikely to help. */
static int is_hopeless(mrail_repath_t *repath, const repath_rates_t *rates)
{
    const mrail_repath_params_t *params = &repath->params;

    if (repath->moves == 0 || rates->sum > repath->best_sum / 20 * 21) {
        repath->best_sum = rates->sum;
        repath->fruitless = 0;
    }
    return repath->moves >= params->max_moves * rates->num ||
           (!is_unequal(rates, params->stop_ppm) &&
            repath->fruitless >= params->explore);
}

int mrail_repath_window(mrail_repath_t *repath, mrail_ns_t now_ns,
                        const uint64_t *bytes, const uint16_t *sports,
                        uint64_t saturated, uint64_t capacity,
                        mrail_repath_move_t *move_p)
{
    const mrail_repath_params_t *params = &repath->params;
    repath_rates_t rates;

    if (repath->settling != 0) {
        --repath->settling;
        return 0;
    }
    rates = compare_lanes(repath, bytes, saturated);
    /* A lane without a byte has a dead path: failover handles it. */
    if (rates.num < 2 || rates.least == 0 || now_ns < repath->quiet_until_ns) {
        return 0;
    }
    if (is_balanced(repath, &rates, capacity)) {
        end_episode(repath, now_ns, 1);
        return 0;
    }
    if (repath->moves == 0 && ++repath->unequal < params->confirm) {
        return 0;
    }
    if (is_hopeless(repath, &rates)) {
        end_episode(repath, now_ns, 0);
        return 0;
    }
    repath->num_episodes += (repath->moves == 0);
    ++repath->moves;
    ++repath->fruitless;
    ++repath->num_moves;
    repath->settling = params->settle;
    move_p->lane = rates.slowest;
    move_p->sport = choose_port(repath, sports);
    return 1;
}
