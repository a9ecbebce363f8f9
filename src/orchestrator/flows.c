#include "config.h"
#include "flows.h"

#include "base/util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Of a price, for a load of twice the target; no more than these at a time. */
#define STEP 0.4
#define STEP_UP 1.0
#define STEP_DOWN (-0.7)
/* Then all are halved: e^-price of all links of a path has to be a number, and what
 * proves is how prices rise, not where they are. */
#define PRICE_MAX 30.0
/* The target is a little above what is proved: one that is below all that can be
 * would never be met.  In parts of the gap that is wanted. */
#define SLACK 0.6
/* A bound is looked for after the second round, and whenever there have been a
 * quarter more since: the last prices tell most. */
#define FIRST_LOOK 1
#define LOOK_PART 4
/* Bounds from loads, before there are prices: powers 8 to 256. */
#define FIRST_POWER 3
#define LAST_POWER 8

struct mrail_flows {
    const mrail_flows_problem_t *problem;
    unsigned num_paths;
    double *price;   /* of each link */
    double *factor;  /* e^-price */
    double *load;
    double *length;  /* for a bound */
    double *since;   /* prices when a bound was looked for last */
    double *weight;  /* of each path, without prices */
    double *trial;   /* bytes of each path in this round */
    double *sum;     /* ... and in rounds since the last look, together */
    double *sum_load; /* of links, likewise */
    unsigned num_summed;
    double *bytes;   /* ... in the best one */
    double congestion; /* of `bytes`; 0: there are none yet */
    double bound;
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

int mrail_flows_create(const mrail_flows_problem_t *problem,
                       mrail_flows_t **flows_p)
{
    unsigned num_paths = problem->first_path[problem->num_demands];
    mrail_flows_t *flows = calloc(1, sizeof(*flows));
    double *memory;

    if (flows == NULL) {
        return -ENOMEM;
    }
    memory = calloc(6 * (size_t)problem->num_links + 4 * (size_t)num_paths + 1,
                    sizeof(*memory));
    if (memory == NULL) {
        free(flows);
        return -ENOMEM;
    }
    flows->problem = problem;
    flows->num_paths = num_paths;
    flows->price = memory;
    flows->factor = flows->price + problem->num_links;
    flows->load = flows->factor + problem->num_links;
    flows->length = flows->load + problem->num_links;
    flows->since = flows->length + problem->num_links;
    flows->weight = flows->since + problem->num_links;
    flows->trial = flows->weight + num_paths;
    flows->bytes = flows->trial + num_paths;
    flows->sum = flows->bytes + num_paths;
    flows->sum_load = flows->sum + num_paths;
    *flows_p = flows;
    return 0;
}

void mrail_flows_destroy(mrail_flows_t *flows)
{
    free(flows->price);
    free(flows);
}

/* A path for itself is worth what its narrowest link is. */
static void flows_weigh(mrail_flows_t *flows)
{
    const mrail_flows_problem_t *problem = flows->problem;

    for (unsigned p = 0; p < flows->num_paths; ++p) {
        double least = problem->capacity[problem->link[problem->first_link[p]]];

        for (unsigned i = problem->first_link[p] + 1;
             i < problem->first_link[p + 1]; ++i) {
            least = MRAIL_MIN(least, problem->capacity[problem->link[i]]);
        }
        flows->weight[p] = least;
    }
}

/* Divides all demands by the prices: flows->trial and flows->load. */
static void flows_divide(mrail_flows_t *flows)
{
    const mrail_flows_problem_t *problem = flows->problem;
    const unsigned *first_link = problem->first_link;
    const unsigned *link = problem->link;
    double *trial = flows->trial;

    for (unsigned e = 0; e < problem->num_links; ++e) {
        flows->factor[e] = flows_exp(flows->price[e]);
        flows->load[e] = 0;
    }
    for (unsigned k = 0; k < problem->num_demands; ++k) {
        unsigned begin = problem->first_path[k];
        unsigned end = problem->first_path[k + 1];
        double sum = 0, per_weight;

        for (unsigned p = begin; p < end; ++p) {
            double weight = flows->weight[p];

            for (unsigned i = first_link[p]; i < first_link[p + 1]; ++i) {
                weight *= flows->factor[link[i]];
            }
            trial[p] = weight;
            sum += weight;
        }
        per_weight = problem->demand[k] / sum;
        for (unsigned p = begin; p < end; ++p) {
            trial[p] *= per_weight;
            for (unsigned i = first_link[p]; i < first_link[p + 1]; ++i) {
                flows->load[link[i]] += trial[p];
            }
        }
    }
    for (unsigned e = 0; e < problem->num_links; ++e) {
        flows->load[e] /= problem->capacity[e];
    }
}

static double flows_trial_congestion(const mrail_flows_t *flows)
{
    double most = 0;

    for (unsigned e = 0; e < flows->problem->num_links; ++e) {
        most = MRAIL_MAX(most, flows->load[e]);
    }
    return most;
}

/* Rounds swing around what their mean comes near to. */
static void flows_sum_up(mrail_flows_t *flows)
{
    for (unsigned p = 0; p < flows->num_paths; ++p) {
        flows->sum[p] += flows->trial[p];
    }
    for (unsigned e = 0; e < flows->problem->num_links; ++e) {
        flows->sum_load[e] += flows->load[e];
    }
    ++flows->num_summed;
}

static void flows_forget_sum(mrail_flows_t *flows)
{
    memset(flows->sum, 0, flows->num_paths * sizeof(*flows->sum));
    memset(flows->sum_load, 0,
           flows->problem->num_links * sizeof(*flows->sum_load));
    flows->num_summed = 0;
}

/* The mean in place of the round. */
static void flows_try_mean(mrail_flows_t *flows)
{
    double part = 1.0 / (double)flows->num_summed;

    for (unsigned p = 0; p < flows->num_paths; ++p) {
        flows->trial[p] = flows->sum[p] * part;
    }
    for (unsigned e = 0; e < flows->problem->num_links; ++e) {
        flows->load[e] = flows->sum_load[e] * part;
    }
    flows_forget_sum(flows);
}

static void flows_keep_trial(mrail_flows_t *flows)
{
    memcpy(flows->bytes, flows->trial,
           flows->num_paths * sizeof(*flows->bytes));
    flows->congestion = flows_trial_congestion(flows);
}

static void flows_halve_prices(mrail_flows_t *flows)
{
    for (unsigned e = 0; e < flows->problem->num_links; ++e) {
        flows->price[e] *= 0.5;
        flows->since[e] = flows->price[e];
    }
}

static void flows_raise_prices(mrail_flows_t *flows, double target)
{
    double most = 0;

    for (unsigned e = 0; e < flows->problem->num_links; ++e) {
        double over = flows->load[e] / target - 1.0;

        over = MRAIL_MAX(MRAIL_MIN(over, STEP_UP), STEP_DOWN);
        flows->price[e] = MRAIL_MAX(flows->price[e] + STEP * over, 0.0);
        most = MRAIL_MAX(most, flows->price[e]);
    }
    if (most > PRICE_MAX) {
        flows_halve_prices(flows);
    }
}

/* Sum over the demands of their bytes times their shortest path. */
static double flows_shortest(const mrail_flows_t *flows)
{
    const mrail_flows_problem_t *problem = flows->problem;
    double total = 0;

    for (unsigned k = 0; k < problem->num_demands; ++k) {
        double shortest = -1;

        for (unsigned p = problem->first_path[k];
             p < problem->first_path[k + 1]; ++p) {
            double length = 0;

            for (unsigned i = problem->first_link[p];
                 i < problem->first_link[p + 1]; ++i) {
                length += flows->length[problem->link[i]];
            }
            if ((shortest < 0) || (length < shortest)) {
                shortest = length;
            }
        }
        total += problem->demand[k] * shortest;
    }
    return total;
}

static double flows_volume(const mrail_flows_t *flows)
{
    double volume = 0;

    for (unsigned e = 0; e < flows->problem->num_links; ++e) {
        volume += flows->problem->capacity[e] * flows->length[e];
    }
    return volume;
}

/* By the lengths that are set. */
static void flows_prove(mrail_flows_t *flows)
{
    double volume = flows_volume(flows);

    if (volume > 0) {
        flows->bound =
            MRAIL_MAX(flows->bound, flows_shortest(flows) / volume);
    }
}

/* Before there are prices: links count by a high power of their load. */
static void flows_prove_by_loads(mrail_flows_t *flows, unsigned doublings)
{
    const mrail_flows_problem_t *problem = flows->problem;
    double most = flows_trial_congestion(flows);

    for (unsigned e = 0; e < problem->num_links; ++e) {
        double v = flows->load[e] / most;

        for (unsigned i = 0; i < doublings; ++i) {
            v = (v < 1e-30) ? 0 : v * v; /* no denormals */
        }
        flows->length[e] = v / problem->capacity[e];
    }
    flows_prove(flows);
}

/* How prices have risen since the last time. */
static void flows_prove_by_rises(mrail_flows_t *flows)
{
    for (unsigned e = 0; e < flows->problem->num_links; ++e) {
        flows->length[e] = MRAIL_MAX(flows->price[e] - flows->since[e], 0.0);
        flows->since[e] = flows->price[e];
    }
    flows_prove(flows);
}

static void flows_keep_less_loaded(mrail_flows_t *flows)
{
    double congestion = flows_trial_congestion(flows);

    if ((flows->congestion == 0) || (congestion < flows->congestion)) {
        flows_keep_trial(flows);
    }
}

static void flows_begin(mrail_flows_t *flows)
{
    flows_weigh(flows);
    flows_forget_sum(flows);
    flows->congestion = flows->bound = 0;
    memcpy(flows->since, flows->price,
           flows->problem->num_links * sizeof(*flows->since));
}

unsigned mrail_flows_spread(mrail_flows_t *flows, double gap,
                            unsigned max_rounds)
{
    unsigned round, look = FIRST_LOOK;

    flows_begin(flows);
    for (round = 0; round < max_rounds; ++round) {
        flows_divide(flows);
        flows_keep_less_loaded(flows);
        flows_sum_up(flows);
        for (unsigned power = FIRST_POWER; (round == 0) && (power <= LAST_POWER);
             ++power) {
            flows_prove_by_loads(flows, power);
        }
        if (flows->congestion <= flows->bound * (1 + gap)) {
            return round + 1;
        }
        flows_raise_prices(flows, flows->bound * (1 + SLACK * gap));
        if (round == look) {
            flows_prove_by_rises(flows);
            flows_try_mean(flows);
            flows_keep_less_loaded(flows);
            look = round + 1 + round / LOOK_PART;
        }
    }
    return round;
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
