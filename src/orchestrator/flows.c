#include "config.h"
#include "flows.h"

#include "passes.h"

#include "base/util.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of a price, for a load of twice the target, and how much of its last rise is added
 * (Polyak's heavy ball); no more than these at a time. */
#define STEP 0.6
#define MOMENTUM 0.75
#define STEP_UP 1.0
#define STEP_DOWN (-0.7)
/* Then all are halved: e^-price of all links of a path has to be a number, and what
 * proves is how prices rise, not where they are. */
#define PRICE_MAX 30.0
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
/* Bounds from loads, before there are prices: powers 8 to 256. */
#define FIRST_POWER 3
#define LAST_POWER 8
/* How much dearer a path is for each relay, as a price: what is more than e^-this of
 * a demand on a path with one relay more says that the others are full. */
#define RELAY_PRICE 6.0
/* What is aimed at, of the congestion that is allowed: rounds swing. */
#define AIM 0.99
/* The length of what is closed: longer than all paths together. */
#define CLOSED 1e300

/* For each stage, prices that the next division begins with. */
enum { STAGE_SPREAD, STAGE_SHORTEN, NUM_STAGES };

/* The link that is not there has the number num_links: no price, no length, and a
 * load that nobody asks for. */
struct mrail_flows {
    mrail_flows_problem_t problem;
    mrail_passes_t passes;
    uint32_t num_slots;   /* of all rows, with those that fill up the width */
    size_t num_bytes;     /* of all demands, likewise */
    uint32_t *slot_link;  /* MRAIL_FLOWS_SLOT_LINKS of each slot */
    uint8_t *slot_open;
    double *slot_relays;
    double *slot_worth;   /* without relays and prices; 0 if it is closed */
    double *slot_weight;  /* without prices */
    double *slot_factor;  /* with them; in proofs, lengths */
    double *slot_load;    /* bytes of this round */
    double *prices[NUM_STAGES];
    double *price;        /* of each link: those of this stage */
    double *factor;       /* e^-price */
    double *load;         /* seconds */
    double *length;       /* for a bound */
    double *since;        /* prices when a bound was looked for last */
    double *rise;         /* of the prices in the last round */
    double *sum_load;     /* of rounds since the last look, together */
    double *trial;        /* bytes of each lane of each demand in this round */
    double *sum;          /* ... likewise together */
    double *bytes;        /* ... in the best one */
    unsigned num_summed;
    double trial_relayed, sum_relayed;
    double congestion, relayed; /* of `bytes` */
    double bound, relayed_bound;
    void *memory;
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

/* ---- what does not change ------------------------------------------------- */

static double *flows_take(double **next_p, size_t count)
{
    double *taken = *next_p;

    *next_p += count;
    return taken;
}

static int flows_allocate(mrail_flows_t *flows)
{
    size_t links = (size_t)flows->problem.num_links + 1;
    size_t slots = flows->num_slots, bytes = flows->num_bytes;
    double *next = calloc((7 + NUM_STAGES) * links + 5 * slots + 3 * bytes,
                          sizeof(*next));

    flows->memory = next;
    flows->slot_link =
        malloc(slots * MRAIL_FLOWS_SLOT_LINKS * sizeof(*flows->slot_link));
    flows->slot_open = malloc(slots);
    if ((next == NULL) || (flows->slot_link == NULL) ||
        (flows->slot_open == NULL)) {
        return -ENOMEM;
    }
    flows->trial = flows_take(&next, bytes);
    flows->sum = flows_take(&next, bytes);
    flows->bytes = flows_take(&next, bytes);
    flows->slot_relays = flows_take(&next, slots);
    flows->slot_worth = flows_take(&next, slots);
    flows->slot_weight = flows_take(&next, slots);
    flows->slot_factor = flows_take(&next, slots);
    flows->slot_load = flows_take(&next, slots);
    for (unsigned stage = 0; stage < NUM_STAGES; ++stage) {
        flows->prices[stage] = flows_take(&next, links);
    }
    flows->factor = flows_take(&next, links);
    flows->load = flows_take(&next, links);
    flows->length = flows_take(&next, links);
    flows->since = flows_take(&next, links);
    flows->rise = flows_take(&next, links);
    flows->sum_load = flows_take(&next, links);
    return 0;
}

/* Half of what a path is worth for itself, which is what its narrowest link is:
 * the root, so that two halves alike make it whole. */
static double flows_worth(const mrail_flows_problem_t *problem,
                          const mrail_flows_slot_t *slot, double widest)
{
    double least = widest;

    for (unsigned i = 0; i < MRAIL_FLOWS_SLOT_LINKS; ++i) {
        if (slot->link[i] != MRAIL_FLOWS_NO_LINK) {
            least = MRAIL_MIN(least, problem->capacity[slot->link[i]]);
        }
    }
    return sqrt(least / widest);
}

static void flows_set_slot(mrail_flows_t *flows, uint32_t s,
                           const mrail_flows_slot_t *slot, double widest)
{
    uint32_t *link = &flows->slot_link[(size_t)s * MRAIL_FLOWS_SLOT_LINKS];

    for (unsigned i = 0; i < MRAIL_FLOWS_SLOT_LINKS; ++i) {
        link[i] = ((slot == NULL) || (slot->link[i] == MRAIL_FLOWS_NO_LINK))
                      ? flows->problem.num_links
                      : slot->link[i];
    }
    flows->slot_open[s] = (slot != NULL) && !slot->is_closed;
    if (flows->slot_open[s]) {
        flows->slot_relays[s] = slot->relays;
        flows->slot_worth[s] = flows_worth(&flows->problem, slot, widest);
    }
}

static void flows_set_slots(mrail_flows_t *flows)
{
    const mrail_flows_problem_t *problem = &flows->problem;
    uint32_t lanes = problem->num_lanes, width = flows->passes.width;
    double widest = 0;

    for (uint32_t e = 0; e < problem->num_links; ++e) {
        widest = MRAIL_MAX(widest, problem->capacity[e]);
    }
    for (uint32_t s = 0; s < flows->num_slots; ++s) {
        uint32_t row = s / width, lane = s % width;

        flows_set_slot(flows, s,
                       (lane < lanes)
                           ? &problem->slot[(size_t)row * lanes + lane]
                           : NULL,
                       widest);
    }
}

int mrail_flows_create(const mrail_flows_problem_t *problem,
                       mrail_flows_t **flows_p)
{
    uint32_t width = MRAIL_PASSES_VECTOR *
                     MRAIL_DIV_ROUND_UP(problem->num_lanes, MRAIL_PASSES_VECTOR);
    mrail_flows_t *flows = calloc(1, sizeof(*flows));

    if (flows == NULL) {
        return -ENOMEM;
    }
    flows->problem = *problem;
    flows->passes = (mrail_passes_t){.num_demands = problem->num_demands,
                                     .width = width,
                                     .row = problem->row,
                                     .demand = problem->demand};
    flows->num_slots = problem->num_rows * width;
    flows->num_bytes = (size_t)problem->num_demands * width;
    if (flows_allocate(flows) != 0) {
        mrail_flows_destroy(flows);
        return -ENOMEM;
    }
    flows_set_slots(flows);
    *flows_p = flows;
    return 0;
}

void mrail_flows_destroy(mrail_flows_t *flows)
{
    free(flows->slot_open);
    free(flows->slot_link);
    free(flows->memory);
    free(flows);
}

/* ---- a round --------------------------------------------------------------- */

static void flows_set_factors(mrail_flows_t *flows)
{
    const uint32_t *link = flows->slot_link;

    for (uint32_t e = 0; e < flows->problem.num_links; ++e) {
        flows->factor[e] = flows_exp(flows->price[e]);
    }
    flows->factor[flows->problem.num_links] = 1;
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
    const uint32_t *link = flows->slot_link;
    double relayed = 0;

    memset(flows->load, 0,
           (flows->problem.num_links + 1) * sizeof(*flows->load));
    for (uint32_t s = 0; s < flows->num_slots;
         ++s, link += MRAIL_FLOWS_SLOT_LINKS) {
        double bytes = flows->slot_load[s];

        for (unsigned i = 0; i < MRAIL_FLOWS_SLOT_LINKS; ++i) {
            flows->load[link[i]] += bytes;
        }
        relayed += flows->slot_relays[s] * bytes;
    }
    flows->trial_relayed = relayed;
    for (uint32_t e = 0; e < flows->problem.num_links; ++e) {
        flows->load[e] /= flows->problem.capacity[e];
    }
}

/* Rounds swing around what their mean comes near to: they are summed up, too. */
static void flows_divide(mrail_flows_t *flows)
{
    flows_set_factors(flows);
    memset(flows->slot_load, 0, flows->num_slots * sizeof(*flows->slot_load));
    mrail_passes_divide(&flows->passes, flows->slot_factor, flows->trial,
                        flows->sum, flows->slot_load);
    flows_add_loads(flows);
    for (uint32_t e = 0; e < flows->problem.num_links; ++e) {
        flows->sum_load[e] += flows->load[e];
    }
    flows->sum_relayed += flows->trial_relayed;
    ++flows->num_summed;
}

static void flows_forget_sum(mrail_flows_t *flows)
{
    memset(flows->sum, 0, flows->num_bytes * sizeof(*flows->sum));
    memset(flows->sum_load, 0,
           flows->problem.num_links * sizeof(*flows->sum_load));
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
    for (uint32_t e = 0; e < flows->problem.num_links; ++e) {
        flows->load[e] = flows->sum_load[e] * part;
    }
    flows->trial_relayed = flows->sum_relayed * part;
    flows_forget_sum(flows);
}

static double flows_trial_congestion(const mrail_flows_t *flows)
{
    double most = 0;

    for (uint32_t e = 0; e < flows->problem.num_links; ++e) {
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
    for (uint32_t e = 0; e < flows->problem.num_links; ++e) {
        flows->price[e] *= 0.5;
        flows->since[e] = flows->price[e];
    }
}

static void flows_raise_prices(mrail_flows_t *flows, double target)
{
    double most = 0;

    for (uint32_t e = 0; e < flows->problem.num_links; ++e) {
        double over = flows->load[e] / target - 1.0, old = flows->price[e];

        over = MRAIL_MAX(MRAIL_MIN(over, STEP_UP), STEP_DOWN);
        flows->price[e] = MRAIL_MAX(
            old + STEP * over + MOMENTUM * flows->rise[e], 0.0);
        flows->rise[e] = flows->price[e] - old;
        most = MRAIL_MAX(most, flows->price[e]);
    }
    if (most > PRICE_MAX) {
        flows_halve_prices(flows);
    }
}

/* ---- proofs ---------------------------------------------------------------- */

/* Sum over the demands of their bytes times their shortest path: the lengths that
 * are set, and so much for each relay. */
static double flows_shortest(mrail_flows_t *flows, double per_relay)
{
    const uint32_t *link = flows->slot_link;
    double *length = flows->slot_factor;

    flows->length[flows->problem.num_links] = 0;
    for (uint32_t s = 0; s < flows->num_slots;
         ++s, link += MRAIL_FLOWS_SLOT_LINKS) {
        length[s] = !flows->slot_open[s]
                        ? CLOSED
                        : (flows->slot_relays[s] * per_relay +
                           ((flows->length[link[0]] + flows->length[link[1]]) +
                            (flows->length[link[2]] + flows->length[link[3]])));
    }
    return mrail_passes_shortest(&flows->passes, length);
}

static double flows_volume(const mrail_flows_t *flows)
{
    double volume = 0;

    for (uint32_t e = 0; e < flows->problem.num_links; ++e) {
        volume += flows->problem.capacity[e] * flows->length[e];
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

    for (uint32_t e = 0; e < flows->problem.num_links; ++e) {
        double v = flows->load[e] / most;

        for (unsigned i = 0; i < doublings; ++i) {
            v = (v < 1e-30) ? 0 : v * v; /* no denormals */
        }
        flows->length[e] = v / flows->problem.capacity[e];
    }
    flows_prove(flows);
}

/* How prices have risen since the last time; and those that rose most, alike. */
static void flows_prove_by_rises(mrail_flows_t *flows)
{
    double most = 0;

    for (uint32_t e = 0; e < flows->problem.num_links; ++e) {
        flows->length[e] = MRAIL_MAX(flows->price[e] - flows->since[e], 0.0);
        most = MRAIL_MAX(most, flows->length[e]);
        flows->since[e] = flows->price[e];
    }
    flows_prove(flows);
    for (uint32_t e = 0; e < flows->problem.num_links; ++e) {
        flows->length[e] = (flows->length[e] > IS_ALIKE * most) ? 1 : 0;
    }
    flows_prove(flows);
}

/* The prices as they are, a relay being as dear as in the weights. */
static void flows_prove_relayed(mrail_flows_t *flows, double limit)
{
    double least;

    memcpy(flows->length, flows->price,
           flows->problem.num_links * sizeof(*flows->length));
    least = flows_shortest(flows, RELAY_PRICE) - limit * flows_volume(flows);
    flows->relayed_bound = MRAIL_MAX(flows->relayed_bound, least / RELAY_PRICE);
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
    flows->price = flows->prices[stage];
    memcpy(flows->since, flows->price,
           flows->problem.num_links * sizeof(*flows->since));
    memset(flows->rise, 0, flows->problem.num_links * sizeof(*flows->rise));
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

unsigned mrail_flows_spread(mrail_flows_t *flows, double gap,
                            unsigned max_rounds)
{
    unsigned round, look = LOOK_ROUNDS;

    flows_begin(flows, STAGE_SPREAD, 1);
    flows->congestion = flows->bound = 0;
    for (round = 1; round <= max_rounds; ++round) {
        flows_divide(flows);
        flows_keep_less_loaded(flows);
        for (unsigned power = FIRST_POWER; (round == 1) && (power <= LAST_POWER);
             ++power) {
            flows_prove_by_loads(flows, power);
        }
        if (flows->congestion <= flows->bound * (1 + gap)) {
            return round;
        }
        flows_raise_prices(flows, flows_target(flows, gap));
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

unsigned mrail_flows_shorten(mrail_flows_t *flows, double limit, double gap,
                             unsigned max_rounds)
{
    unsigned round, look = LOOK_ROUNDS;

    flows_begin(flows, STAGE_SHORTEN, flows_exp(RELAY_PRICE));
    flows->relayed_bound = 0;
    for (round = 1; round <= max_rounds; ++round) {
        flows_divide(flows);
        flows_keep_less_relayed(flows, limit);
        flows_prove_relayed(flows, limit);
        if (flows->relayed <= flows->relayed_bound * (1 + gap)) {
            return round;
        }
        flows_raise_prices(flows, limit * AIM);
        if (round == look) {
            flows_try_mean(flows);
            flows_keep_less_relayed(flows, limit);
            look = flows_after(round);
        }
    }
    return max_rounds;
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
