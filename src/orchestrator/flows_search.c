/*
 * Implements phase 2, which minimizes relays within a given congestion. It
 * combines the ascent of flows.c, with a cost for relays, with repair of the
 * iterations and prices for full links.
 */
#include "config.h"
#include "flows_internal.h"

#include "base/util.h"

#include <string.h>

/* Cost of each relay of a path, as a price. If more than e^-this of a demand
 * takes a path with one more relay than necessary, the other paths are full. */
#define RELAY_COST 10.0
/* Placeholder for the relayed bytes while there is no division. */
#define NO_DIVISION 1e300
/* Fraction of the gap. If a division is this close to its bound, removing
 * relays is unnecessary. */
#define DIRECT 0.1
/* Full links are priced up to this fraction of the maximum price. The remaining
 * range allows for differences. */
#define PART_OF_MOST 0.5
/* The search restarts without price jumps at this iteration. */
#define PLAIN_ITERATION 100
/* Fraction of the limit. A link with less spare capacity than this is full. */
#define FULL 1e-6
/* Fraction of all bytes. Smaller differences in relayed bytes are ignored. */
#define RELAYED_TOLERANCE 1e-4
/* Lower bound of the target, which decreases while iterations stay above the
 * limit. Below this value, there may be no division. */
#define MIN_TARGET 0.992
#define TARGET_STEP 0.5

static double flows_exp(double x)
{
    double v[MRAIL_KERNELS_VECTOR] = {x};

    mrail_kernels_exp(MRAIL_KERNELS_VECTOR, v, v);
    return v[0];
}

/* Updates the bound for the current lengths, with the same relay cost as the
 * weights. */
static void flows_prove_relayed(mrail_flows_t *flows, double limit)
{
    double least = mrail_flows_shortest(flows, RELAY_COST) -
                   limit * mrail_flows_volume(flows);

    flows->relayed_bound = MRAIL_MAX(flows->relayed_bound, least / RELAY_COST);
}

/* Computes bounds from the prices, and from the prices rounded to whole relays.
 * Prices converge to whole relays, except for the small shares on costly
 * paths. */
static void flows_prove_by_duals(mrail_flows_t *flows, double limit)
{
    memcpy(flows->length, flows->dual,
           flows->links.num_links * sizeof(*flows->length));
    flows_prove_relayed(flows, limit);
    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        flows->length[e] =
            RELAY_COST * (double)(unsigned)(flows->dual[e] / RELAY_COST + 0.5);
    }
    flows_prove_relayed(flows, limit);
}

/* State of a search. */
typedef struct flows_search {
    double limit, target; /* congestion; target relative to it */
    double gap, nothing;  /* gap of the relayed bytes; difference that is
                          * ignored */
    double limit_gap; /* gap of the limit above its bound, in a warm start */
    int is_warm;      /* 1 if prices of an earlier problem exist */
    unsigned tries;   /* iterations to find a division within the limit */
    double least;     /* relayed bytes without any limit */
    int is_kept;      /* 1 if the last check kept its repaired division */
    int is_plain;     /* 1 if prices do not jump */
    int has_jumped;   /* 1 if prices jumped at the last check */
} flows_search_t;

static void flows_keep_less_relayed(mrail_flows_t *flows, double limit)
{
    double congestion = mrail_flows_trial_congestion(flows);

    if ((congestion <= limit) && (flows->trial_relayed < flows->relayed)) {
        mrail_flows_keep_trial(flows, congestion);
    }
}

/* Keeps a repaired division if it is the best so far, and recomputes the sum of
 * its loads. This discards the iteration, because the two buffers are
 * swapped. */
static void flows_keep_repaired(mrail_flows_t *flows, flows_search_t *search)
{
    double *bytes = flows->trial;

    search->is_kept = (mrail_flows_trial_congestion(flows) <= search->limit) &&
                      (flows->trial_relayed < flows->relayed);
    if (search->is_kept) {
        flows->trial = flows->bytes;
        flows->bytes = bytes;
        mrail_flows_load_bytes(flows);
        flows->congestion = mrail_flows_trial_congestion(flows);
        flows->relayed = flows->trial_relayed;
    }
}

/* If the iteration is above the limit but relays less, mixes it with the best
 * division, which is below the limit. */
static void flows_mix_less_relayed(mrail_flows_t *flows, double limit)
{
    double over = mrail_flows_trial_congestion(flows) - limit;
    double part =
        (limit - flows->congestion) / (over + limit - flows->congestion);

    if ((over <= 0) || (part <= 0) || (flows->congestion == 0) ||
        (flows->trial_relayed >= flows->relayed)) {
        return;
    }
    for (size_t i = 0; i < flows->num_bytes; ++i) {
        flows->bytes[i] += part * (flows->trial[i] - flows->bytes[i]);
    }
    mrail_flows_load_bytes(flows);
    flows->congestion = mrail_flows_trial_congestion(flows);
    flows->relayed = flows->trial_relayed;
}

static double flows_lower_target(const mrail_flows_t *flows, double limit,
                                 double target)
{
    double over = mrail_flows_trial_congestion(flows) / limit - 1;

    return (over > 0) ? MRAIL_MAX(target - TARGET_STEP * over, MIN_TARGET)
                      : target;
}

static double flows_total(const mrail_flows_t *flows)
{
    double total = 0;

    for (uint32_t k = 0; k < flows->kernels.num_demands; ++k) {
        total += flows->kernels.demand[k];
    }
    return total;
}

/* Caps prices at the highest value at which a link can save relays. */
static void flows_cap_duals(mrail_flows_t *flows)
{
    double most = mrail_flows_dual_max(flows);

    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        if (flows->dual[e] > most) {
            flows->dual[e] = most;
            flows->rise[e] = 0;
        }
    }
}

static int flows_is_found(const mrail_flows_t *flows,
                          const flows_search_t *search)
{
    return flows->relayed <=
           flows->relayed_bound * (1 + search->gap) + search->nothing;
}

/* Prices full links, and keeps these prices if they prove more than the current
 * ones. */
static void flows_update_duals(mrail_flows_t *flows, flows_search_t *search)
{
    double before = flows->relayed_bound;
    size_t size = flows->num_padded_links * sizeof(*flows->dual);

    memcpy(flows->length, flows->dual, size);
    mrail_flows_value_full(flows, search->is_kept ? flows->bytes : flows->trial,
                           search->limit * FLOWS_WITHIN, RELAY_COST,
                           PART_OF_MOST * mrail_flows_dual_max(flows));
    flows_prove_relayed(flows, search->limit);
    if (flows->relayed_bound > before) {
        memcpy(flows->dual, flows->length, size);
        memset(flows->rise, 0, size);
        mrail_flows_reset_sum(flows);
        search->has_jumped = 1;
    }
}

/* Raises the limit, because excess that repair cannot move indicates a cut. */
static void flows_raise_limit(mrail_flows_t *flows, flows_search_t *search)
{
    double before = flows->bound;

    for (uint32_t e = 0; e < flows->num_padded_links; ++e) {
        flows->length[e] = (flows->excess[e] > 0) ? 1 : 0;
    }
    mrail_flows_prove(flows);
    for (uint32_t e = 0; e < flows->num_padded_links; ++e) {
        flows->length[e] =
            (flows->load[e] >= search->limit * (1 - FULL)) ? 1 : 0;
    }
    mrail_flows_prove(flows);
    if (flows->bound > before) {
        search->limit = flows->bound * (1 + search->limit_gap);
        search->has_jumped = 1;
        mrail_flows_reset_duals(flows, flows->phase);
        mrail_flows_begin_iterations(flows);
        flows->relayed_bound = search->least;
    }
}

/* Checks the last iterations. Returns 1 if the search is complete. */
static int flows_check_relayed(mrail_flows_t *flows, flows_search_t *search,
                               unsigned iteration)
{
    search->has_jumped = 0;
    if ((iteration > 1) || search->is_warm) {
        flows_prove_by_duals(flows, search->limit);
    }
    if (iteration > 1) {
        mrail_flows_try_mean(flows);
        flows_keep_less_relayed(flows, search->limit);
        search->target =
            flows_lower_target(flows, search->limit, search->target);
    }
    if (flows_is_found(flows, search)) {
        return 1;
    }
    mrail_flows_relieve(flows, search->limit * FLOWS_WITHIN);
    if (flows->trial_relayed >
        flows->relayed_bound * (1 + DIRECT * search->gap) + search->nothing) {
        mrail_flows_remove_relays(flows, search->limit * FLOWS_WITHIN);
    }
    flows_keep_repaired(flows, search);
    if (!search->is_kept) {
        flows_mix_less_relayed(flows, search->limit);
    }
    if (flows_is_found(flows, search)) {
        return 1;
    }
    if (flows->congestion == 0) {
        flows_raise_limit(flows, search);
    }
    if (!search->has_jumped && !search->is_plain) {
        flows_update_duals(flows, search);
    }
    return flows_is_found(flows, search);
}

/* Removes relays from the best division where capacity allows. */
static void flows_remove_relays_best(mrail_flows_t *flows,
                                     flows_search_t *search)
{
    mrail_copy(flows->trial, flows->bytes,
               flows->num_bytes * sizeof(*flows->trial));
    mrail_flows_load_bytes(flows);
    mrail_flows_remove_relays(flows, search->limit * FLOWS_WITHIN);
    flows_keep_repaired(flows, search);
}

/* Restarts from prices of 0, without jumps. After a jump, prices may be off for
 * a long time, whereas slow rises from 0 reach the right values. */
static void flows_begin_plain(mrail_flows_t *flows, flows_search_t *search)
{
    search->is_plain = 1;
    search->target = FLOWS_TARGET;
    flows->kernels.least_part = 0;
    mrail_flows_reset_duals(flows, flows->phase);
    mrail_flows_begin_iterations(flows);
}

/* Searches for a division with few relays. Returns the number of iterations, or
 * 0 if it found no division. */
static unsigned flows_search(mrail_flows_t *flows, flows_search_t *search,
                             unsigned max_iterations)
{
    unsigned look = 1;
    double dual_max;

    mrail_flows_begin(flows, FLOWS_PHASE_SHORTEN, flows_exp(RELAY_COST));
    dual_max = mrail_kernels_max(flows->num_padded_links, flows->dual);
    search->is_warm = dual_max > 0;
    if (dual_max > mrail_flows_dual_max(flows)) {
        flows_cap_duals(flows); /* paths may now have more links */
    }
    search->target = FLOWS_TARGET;
    search->nothing = RELAYED_TOLERANCE * flows_total(flows);
    memset(flows->length, 0, flows->num_padded_links * sizeof(*flows->length));
    search->least = mrail_flows_shortest(flows, RELAY_COST) / RELAY_COST;
    flows->relayed_bound = search->least;
    if ((flows->congestion > 0) && !flows_is_found(flows, search)) {
        flows_remove_relays_best(flows, search);
    }
    for (unsigned iteration = 1; iteration <= max_iterations; ++iteration) {
        mrail_flows_divide(flows);
        flows_keep_less_relayed(flows, search->limit);
        if (flows_is_found(flows, search)) {
            return iteration;
        }
        if (mrail_flows_raise_duals(flows, search->limit * search->target)) {
            flows_cap_duals(flows);
        }
        if (iteration == look) {
            if (flows_check_relayed(flows, search, iteration)) {
                return iteration;
            }
            look = search->has_jumped ? iteration + 1
                                      : mrail_flows_after(iteration);
        }
        if ((iteration == search->tries) && (flows->congestion == 0)) {
            return 0;
        }
        if (iteration == PLAIN_ITERATION) {
            flows_begin_plain(flows, search);
            look = mrail_flows_after(iteration);
        }
    }
    flows_remove_relays_best(flows, search);
    return max_iterations;
}

unsigned mrail_flows_warm_start(mrail_flows_t *flows, double gap,
                                double relayed_gap, unsigned tries,
                                unsigned max_iterations, double *limit_p)
{
    flows_search_t search = {
        .gap = relayed_gap, .limit_gap = gap, .tries = tries};
    unsigned iterations;

    flows->congestion = 0;
    flows->relayed = NO_DIVISION;
    mrail_flows_prove_first(flows);
    search.limit = flows->bound * (1 + gap);
    iterations =
        (search.limit > 0) ? flows_search(flows, &search, max_iterations) : 0;
    if (iterations == 0) {
        mrail_flows_reset_duals(flows, FLOWS_PHASE_SHORTEN);
        return 0;
    }
    *limit_p = search.limit;
    return iterations;
}

unsigned mrail_flows_shorten(mrail_flows_t *flows, double limit, double gap,
                             unsigned max_iterations)
{
    flows_search_t search = {.limit = limit, .gap = gap};

    return flows_search(flows, &search, max_iterations);
}
