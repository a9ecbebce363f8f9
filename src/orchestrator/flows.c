#include "config.h"
#include "flows.h"

#include "flows_inside.h"

#include "base/util.h"

#include <errno.h>
#include <string.h>

/* No load counts for more, or less, than this times the target. */
#define MOST_LOAD 2.0
#define LEAST_LOAD 0.3
/* The target is in the middle between what is proved and the best so far: above what
 * can be, loads come below it; below that, prices rise in a direction that proves
 * so.  Nearer to what is proved than this part of the wanted gap is too near. */
#define SLACK 0.6
/* After so many rounds, and whenever there have been a quarter more, a bound and the
 * mean are looked at: the last prices tell most. */
#define LOOK_ROUNDS 3
#define LOOK_PART 4
/* Most often the least congestion is that of some links that are full together, all
 * alike: those whose price rises half as quickly as any, or more. */
#define IS_ALIKE 0.5
/* Bounds from loads, before there are prices: their powers, by doublings. */
#define POWERS                                                                \
    {                                                                         \
        8, 5, 3                                                               \
    }
/* How much dearer a path is for each relay, as a price: what is more than e^-this of
 * a demand on a path with one relay more says that the others are full. */
#define RELAY_PRICE 10.0
/* Of all bytes: relaying this much more than what is proved is as good as not at all. */
#define NEXT_TO_NOTHING 1e-4
/* What is aimed at, of the congestion that is allowed: rounds swing. */
#define AIM 0.999
/* Rounds may also stay above for long: then the aim comes down by a part of that, not
 * so far that there is no such division. */
#define AIM_LEAST 0.992
#define AIM_PART 0.5
/* How prices move: step is the rise for a load of twice the target, to which comes a
 * part of the last rise (Polyak's heavy ball).  e^-price of all links of a path has
 * to be a number, so there is a highest price. */
static const struct {
    double step, momentum, price_max;
} stages[FLOWS_NUM_STAGES] = {
    [FLOWS_STAGE_SPREAD] = {.step = 0.6, .momentum = 0.75, .price_max = 30},
    [FLOWS_STAGE_SHORTEN] = {.step = 0.8, .momentum = 0.8, .price_max = 70},
    [FLOWS_STAGE_FIT] = {.step = 0.6, .momentum = 0.75, .price_max = 70},
};

/* e^-x for x >= 0, nearly: (1 + x / 1024)^-1024.  The same everywhere, unlike the
 * C library's; that it is not quite e^-x only gives prices another unit. */
static double flows_exp(double x)
{
    double v = 1.0 / (1.0 + x * (1.0 / 1024.0));

    for (unsigned i = 0; i < 10; ++i) {
        v *= v;
    }
    return v;
}

/* ---- a round --------------------------------------------------------------- */

static void flows_set_factors(mrail_flows_t *flows)
{
    const uint32_t *link = flows->slot_link;

    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        flows->factor[e] = flows_exp(flows->price[e]);
    }
    flows->factor[flows->links.num_links] = 1;
    for (uint32_t s = 0; s < flows->num_slots;
         ++s, link += MRAIL_FLOWS_SLOT_LINKS) {
        flows->slot_factor[s] = flows->slot_weight[s] *
                                ((flows->factor[link[0]] *
                                  flows->factor[link[1]]) *
                                 (flows->factor[link[2]] *
                                  flows->factor[link[3]]));
    }
}

static void flows_add_loads(mrail_flows_t *flows)
{
    double relayed = 0;

    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        double bytes = (flows->base != NULL) ? flows->base[e] : 0;

        for (uint32_t i = flows->link_first[e]; i < flows->link_first[e + 1];
             ++i) {
            bytes += flows->slot_load[flows->link_slot[i]];
        }
        flows->load[e] = bytes * flows->per_byte[e];
    }
    for (uint32_t s = 0; flows->has_relays && (s < flows->num_slots); ++s) {
        relayed += flows->slot_relays[s] * flows->slot_load[s];
    }
    flows->trial_relayed = relayed;
}

/* Rounds swing around what their mean comes near to: they are summed up, too. */
static void flows_divide(mrail_flows_t *flows)
{
    flows_set_factors(flows);
    memset(flows->slot_load, 0, flows->num_slots * sizeof(*flows->slot_load));
    mrail_passes_divide(&flows->passes, flows->slot_factor, flows->trial,
                        flows->sum, flows->slot_load);
    flows_add_loads(flows);
    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        flows->sum_load[e] += flows->load[e];
    }
    flows->sum_relayed += flows->trial_relayed;
    ++flows->num_summed;
}

static void flows_forget_sum(mrail_flows_t *flows)
{
    memset(flows->sum, 0, flows->num_bytes * sizeof(*flows->sum));
    memset(flows->sum_load, 0,
           flows->links.num_links * sizeof(*flows->sum_load));
    flows->sum_relayed = 0;
    flows->num_summed = 0;
}

/* The mean in place of the round. */
static void flows_try_mean(mrail_flows_t *flows)
{
    double part = 1.0 / (double)flows->num_summed;

    for (size_t i = 0; i < flows->num_bytes; ++i) {
        flows->trial[i] = flows->sum[i] * part;
    }
    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        flows->load[e] = flows->sum_load[e] * part;
    }
    flows->trial_relayed = flows->sum_relayed * part;
    flows_forget_sum(flows);
}

mrail_flows_lanes_t mrail_flows_lanes(mrail_flows_t *flows, uint32_t k)
{
    const uint32_t *row = &flows->passes.row[2 * (size_t)k];

    return (mrail_flows_lanes_t){
        .out = row[0] * flows->passes.width,
        .in = row[1] * flows->passes.width,
        .bytes = &flows->bytes[(size_t)k * flows->passes.width]};
}

void mrail_flows_load_bytes(mrail_flows_t *flows)
{
    memset(flows->slot_load, 0, flows->num_slots * sizeof(*flows->slot_load));
    for (uint32_t k = 0; k < flows->passes.num_demands; ++k) {
        mrail_flows_lanes_t lanes = mrail_flows_lanes(flows, k);

        for (uint32_t lane = 0; lane < flows->passes.width; ++lane) {
            flows->slot_load[lanes.out + lane] += lanes.bytes[lane];
            flows->slot_load[lanes.in + lane] += lanes.bytes[lane];
        }
    }
    flows_add_loads(flows);
}

static double flows_trial_congestion(const mrail_flows_t *flows)
{
    double most = 0;

    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        most = MRAIL_MAX(most, flows->load[e]);
    }
    return most;
}

static void flows_keep_trial(mrail_flows_t *flows, double congestion)
{
    memcpy(flows->bytes, flows->trial,
           flows->num_bytes * sizeof(*flows->bytes));
    flows->congestion = congestion;
    flows->relayed = flows->trial_relayed;
}

static void flows_halve_prices(mrail_flows_t *flows)
{
    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        flows->price[e] *= 0.5;
        flows->since[e] = flows->price[e];
    }
}

/* 0; or 1: a price is above the highest one. */
static int flows_raise_prices(mrail_flows_t *flows, double target)
{
    double step = stages[flows->stage].step, most = 0;
    double momentum = stages[flows->stage].momentum;

    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        double load = flows->load[e] / target, old = flows->price[e];

        load = MRAIL_MAX(MRAIL_MIN(load, MOST_LOAD), LEAST_LOAD);
        flows->price[e] = MRAIL_MAX(
            old + step * (load - 1.0) + momentum * flows->rise[e], 0.0);
        flows->rise[e] = flows->price[e] - old;
        most = MRAIL_MAX(most, flows->price[e]);
    }
    return most > stages[flows->stage].price_max;
}

/* ---- proofs ---------------------------------------------------------------- */

/* Sum over the demands of their bytes times their shortest path: the lengths that
 * are set, and so much for each relay. */
static double flows_shortest(mrail_flows_t *flows, double per_relay)
{
    const uint32_t *link = flows->slot_link;
    double *length = flows->slot_factor;

    flows->length[flows->links.num_links] = 0;
    for (uint32_t s = 0; s < flows->num_slots;
         ++s, link += MRAIL_FLOWS_SLOT_LINKS) {
        length[s] = !flows->slot_open[s]
                        ? MRAIL_FLOWS_CLOSED
                        : (flows->slot_relays[s] * per_relay +
                           ((flows->length[link[0]] + flows->length[link[1]]) +
                            (flows->length[link[2]] + flows->length[link[3]])));
    }
    return mrail_passes_shortest(&flows->passes, length);
}

static double flows_volume(const mrail_flows_t *flows)
{
    double volume = 0;

    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        volume += flows->links.capacity[e] * flows->length[e];
    }
    return volume;
}

/* By the lengths that are set. */
static void flows_prove(mrail_flows_t *flows)
{
    double volume = flows_volume(flows);

    if (volume > 0) {
        flows->bound =
            MRAIL_MAX(flows->bound, flows_shortest(flows, 0) / volume);
    }
}

/* Before there are prices: links count by a high power of their load. */
static void flows_prove_by_loads(mrail_flows_t *flows, unsigned doublings)
{
    double most = flows_trial_congestion(flows);

    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        double v = flows->load[e] / most;

        for (unsigned i = 0; i < doublings; ++i) {
            v = (v < 1e-30) ? 0 : v * v; /* no denormals */
        }
        flows->length[e] = v / flows->links.capacity[e];
    }
    flows_prove(flows);
}

/* How prices have risen since the last time; and those that rose most, alike. */
static void flows_prove_by_rises(mrail_flows_t *flows)
{
    double most = 0;

    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        flows->length[e] = MRAIL_MAX(flows->price[e] - flows->since[e], 0.0);
        most = MRAIL_MAX(most, flows->length[e]);
        flows->since[e] = flows->price[e];
    }
    flows_prove(flows);
    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        flows->length[e] = (flows->length[e] > IS_ALIKE * most) ? 1 : 0;
    }
    flows_prove(flows);
}

/* By the lengths that are set, a relay being as dear as in the weights. */
static void flows_prove_relayed(mrail_flows_t *flows, double limit)
{
    double least =
        flows_shortest(flows, RELAY_PRICE) - limit * flows_volume(flows);

    flows->relayed_bound = MRAIL_MAX(flows->relayed_bound, least / RELAY_PRICE);
}

/* The prices as they are; and as whole relays, which they come near to: but for
 * shares that have to be left to the dearer paths, that is what full links are
 * worth. */
static void flows_prove_by_prices(mrail_flows_t *flows, double limit)
{
    memcpy(flows->length, flows->price,
           flows->links.num_links * sizeof(*flows->length));
    flows_prove_relayed(flows, limit);
    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        flows->length[e] =
            RELAY_PRICE * (double)(unsigned)(flows->price[e] / RELAY_PRICE + 0.5);
    }
    flows_prove_relayed(flows, limit);
}

/* ---- the two stages -------------------------------------------------------- */

static void flows_begin(mrail_flows_t *flows, unsigned stage, double relay_factor)
{
    for (uint32_t s = 0; s < flows->num_slots; ++s) {
        double weight = flows->slot_worth[s];

        for (double relay = 0; relay < flows->slot_relays[s]; ++relay) {
            weight *= relay_factor;
        }
        flows->slot_weight[s] = weight;
    }
    flows->stage = stage;
    flows->price = flows->prices[stage];
    memcpy(flows->since, flows->price,
           flows->links.num_links * sizeof(*flows->since));
    memset(flows->rise, 0, flows->links.num_links * sizeof(*flows->rise));
    flows_forget_sum(flows);
}

/* When to look next. */
static unsigned flows_after(unsigned round)
{
    return round + MRAIL_MAX(LOOK_ROUNDS, round / LOOK_PART);
}

static void flows_keep_less_loaded(mrail_flows_t *flows)
{
    double congestion = flows_trial_congestion(flows);

    if ((flows->congestion == 0) || (congestion < flows->congestion)) {
        flows_keep_trial(flows, congestion);
    }
}

static double flows_target(const mrail_flows_t *flows, double gap)
{
    return MRAIL_MAX((flows->bound + flows->congestion) * 0.5,
                     flows->bound * (1 + SLACK * gap));
}

static int flows_is_within(const mrail_flows_t *flows, double gap)
{
    return flows->congestion <= flows->bound * (1 + gap);
}

unsigned mrail_flows_spread(mrail_flows_t *flows, double gap,
                            unsigned max_rounds)
{
    static const unsigned powers[] = POWERS;
    unsigned round, look = LOOK_ROUNDS;

    flows_begin(flows, FLOWS_STAGE_SPREAD, 1);
    flows->congestion = flows->bound = 0;
    for (round = 1; round <= max_rounds; ++round) {
        flows_divide(flows);
        flows_keep_less_loaded(flows);
        for (unsigned i = 0; (round == 1) && (i < MRAIL_ARRAY_SIZE(powers)) &&
                             !flows_is_within(flows, gap);
             ++i) {
            flows_prove_by_loads(flows, powers[i]);
        }
        if (flows_is_within(flows, gap)) {
            return round;
        }
        if (flows_raise_prices(flows, flows_target(flows, gap))) {
            flows_halve_prices(flows); /* how they rise proves, not where they are */
        }
        if (round == look) {
            flows_prove_by_rises(flows);
            flows_try_mean(flows);
            flows_keep_less_loaded(flows);
            look = flows_after(round);
        }
    }
    return max_rounds;
}

static void flows_keep_less_relayed(mrail_flows_t *flows, double limit)
{
    double congestion = flows_trial_congestion(flows);

    if ((congestion <= limit) && (flows->trial_relayed < flows->relayed)) {
        flows_keep_trial(flows, congestion);
    }
}

/* What relays less and is above the limit, mixed with what is below it. */
static void flows_mix_less_relayed(mrail_flows_t *flows, double limit)
{
    double over = flows_trial_congestion(flows) - limit;
    double part = (limit - flows->congestion) / (over + limit - flows->congestion);

    if ((over <= 0) || (part <= 0) || (flows->trial_relayed >= flows->relayed)) {
        return;
    }
    for (size_t i = 0; i < flows->num_bytes; ++i) {
        flows->bytes[i] += part * (flows->trial[i] - flows->bytes[i]);
    }
    mrail_flows_load_bytes(flows);
    flows->congestion = flows_trial_congestion(flows);
    flows->relayed = flows->trial_relayed;
}

static double flows_lower_aim(const mrail_flows_t *flows, double limit, double aim)
{
    double over = flows_trial_congestion(flows) / limit - 1;

    return (over > 0) ? MRAIL_MAX(aim - AIM_PART * over, AIM_LEAST) : aim;
}

static double flows_total(const mrail_flows_t *flows)
{
    double total = 0;

    for (uint32_t k = 0; k < flows->passes.num_demands; ++k) {
        total += flows->passes.demand[k];
    }
    return total;
}

/* Dearer than that a link need not be: what is worth many relays is left alone. */
static void flows_cap_prices(mrail_flows_t *flows)
{
    double most = stages[flows->stage].price_max;

    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        if (flows->price[e] > most) {
            flows->price[e] = most;
            flows->rise[e] = 0;
        }
    }
}

unsigned mrail_flows_shorten(mrail_flows_t *flows, double limit, double gap,
                             unsigned max_rounds)
{
    double nothing = NEXT_TO_NOTHING * flows_total(flows);
    unsigned round, look = LOOK_ROUNDS;
    double aim = AIM;

    flows_begin(flows, FLOWS_STAGE_SHORTEN, flows_exp(RELAY_PRICE));
    flows->relayed_bound = 0;
    for (round = 1; round <= max_rounds; ++round) {
        flows_divide(flows);
        flows_keep_less_relayed(flows, limit);
        if ((round == 1) || (round == look)) {
            flows_prove_by_prices(flows, limit);
        }
        if (flows->relayed <= flows->relayed_bound * (1 + gap) + nothing) {
            return round;
        }
        if (flows_raise_prices(flows, limit * aim)) {
            flows_cap_prices(flows);
        }
        if (round == look) {
            flows_try_mean(flows);
            flows_keep_less_relayed(flows, limit);
            aim = flows_lower_aim(flows, limit, aim);
            flows_mix_less_relayed(flows, limit);
            look = flows_after(round);
        }
    }
    mrail_flows_straighten(flows, limit);
    flows->congestion = flows_trial_congestion(flows);
    flows->relayed = flows->trial_relayed;
    return max_rounds;
}

int mrail_flows_fit(mrail_flows_t *flows, double limit, unsigned max_rounds)
{
    unsigned look = LOOK_ROUNDS;

    flows_begin(flows, FLOWS_STAGE_FIT, 1);
    for (uint32_t s = 0; s < flows->num_slots; ++s) {
        flows->slot_weight[s] = flows->slot_open[s] ? 1 : 0;
    }
    for (unsigned round = 1; round <= max_rounds; ++round) {
        double congestion;

        flows_divide(flows);
        congestion = flows_trial_congestion(flows);
        if ((congestion > limit) && (round == look)) {
            flows_try_mean(flows);
            congestion = flows_trial_congestion(flows);
            look = flows_after(round);
        }
        if (congestion <= limit) {
            flows_keep_trial(flows, congestion);
            return (int)round;
        }
        if (flows_raise_prices(flows, limit * AIM)) {
            break;
        }
    }
    mrail_flows_forget_prices(flows, FLOWS_STAGE_FIT);
    return -ERANGE;
}

uint32_t mrail_flows_stride(const mrail_flows_t *flows)
{
    return flows->passes.width;
}

const double *mrail_flows_bytes(const mrail_flows_t *flows)
{
    return flows->bytes;
}

double mrail_flows_congestion(const mrail_flows_t *flows)
{
    return flows->congestion;
}

double mrail_flows_bound(const mrail_flows_t *flows)
{
    return flows->bound;
}

double mrail_flows_relayed(const mrail_flows_t *flows)
{
    return flows->relayed;
}

double mrail_flows_relayed_bound(const mrail_flows_t *flows)
{
    return flows->relayed_bound;
}
