#include "config.h"
#include "flows.h"

#include "flows_internal.h"

#include "base/util.h"

#include <errno.h>
#include <string.h>

/* Range to which loads are clamped, relative to the target. */
#define MAX_LOAD 2.0
#define MIN_LOAD 0.3
/* The target is midway between the bound and the best congestion so far, but at
 * least this fraction of the gap above the bound. If the target is above the
 * minimum, loads settle below it. If it is below the minimum, prices rise in a
 * direction that proves so. */
#define SLACK 0.6
/* Iterations before the first check of bound and mean. Each later check follows
 * a quarter more iterations, because the latest prices are the best. */
#define CHECK_ITERATIONS 3
#define CHECK_PART 4
/* The minimum congestion is usually determined by a few links that are full at
 * the same time. A link counts as one of them if its price rises at least this
 * fast, relative to the fastest. */
#define IS_EQUAL 0.5
/* Before prices exist, bounds use these powers of the loads. The numbers count
 * squarings: 8 means load^256. */
#define POWERS                                                                 \
    {                                                                          \
        8, 5, 3                                                                \
    }
/* RELIEVED: repair aims at this fraction of the gap. MAX_RELIEVED_LOAD: repair
 * is skipped if some load exceeds the limit by more than this factor. */
#define RELIEVED 0.98
#define MAX_RELIEVED_LOAD 1.3
/* After a fit, a division is repaired only if its excess is at most this
 * factor. It should stay close to its weights, and moving more bytes would add
 * relays. */
#define NEAR_LIMIT 1.01
/* Dynamics of the prices. The step is the rise at twice the target. Momentum
 * adds a part of the last rise (Polyak's heavy ball). Prices have an upper
 * bound, because the product of e^-price over all links of a path must remain a
 * normal number. Where prices prove bounds, it is as high as the number of
 * links on a path allows, because one capped price would distort all other
 * prices. */
static const struct {
    double step, momentum;
    double dual_max; /* for any number of links per slot; with is_by_depth,
                      * higher if slots have fewer links */
    int is_by_depth;
    double least_part; /* smallest part of a demand on a lane */
} phase_params[FLOWS_NUM_PHASES] = {
    [FLOWS_PHASE_BALANCE] = {.step = 0.6, .momentum = 0.75, .dual_max = 30},
    [FLOWS_PHASE_SHORTEN] = {.step = 0.8,
                             .momentum = 0.8,
                             .dual_max = 70,
                             .is_by_depth = 1,
                             .least_part = 1e-3},
    [FLOWS_PHASE_FIT] = {.step = 0.6, .momentum = 0.75, .dual_max = 70},
};

/* ---- Iteration ---- */

/* Runs `statement` for each slot `s` of the rows with demands. `link` points to
 * its links. The number of links is a compile-time constant. */
#define EACH_SLOT(flows, most_links, statement)                                \
    for (uint32_t row = 0; row < (flows)->num_rows; ++row) {                   \
        uint32_t s = (flows)->rows[row] * (flows)->kernels.width;              \
        uint32_t end = s + (flows)->kernels.width;                             \
        const uint32_t *link =                                                 \
            &(flows)->slot_link[(size_t)s * MRAIL_FLOWS_SLOT_LINKS];           \
                                                                               \
        for (; s < end; ++s, link += MRAIL_FLOWS_SLOT_LINKS) {                 \
            enum { num_links = most_links };                                   \
                                                                               \
            statement;                                                         \
        }                                                                      \
    }
#define EACH_SLOT_OF(flows, statement)                                         \
    switch ((flows)->depth) {                                                  \
    case 0:                                                                    \
    case 1:                                                                    \
        EACH_SLOT(flows, 1, statement) break;                                  \
    case 2:                                                                    \
        EACH_SLOT(flows, 2, statement) break;                                  \
    case 3:                                                                    \
        EACH_SLOT(flows, 3, statement) break;                                  \
    default:                                                                   \
        EACH_SLOT(flows, 4, statement) break;                                  \
    }

static MRAIL_INLINE double flows_product(const double *factor,
                                         const uint32_t *link, unsigned count)
{
    double product = factor[link[0]];

    for (unsigned i = 1; i < count; ++i) {
        product *= factor[link[i]];
    }
    return product;
}

static MRAIL_INLINE double flows_sum(const double *length, const uint32_t *link,
                                     unsigned count)
{
    double sum = length[link[0]];

    for (unsigned i = 1; i < count; ++i) {
        sum += length[link[i]];
    }
    return sum;
}

/* Adds the bytes of a slot to the sums of its links. Four adjacent slots add to
 * separate sums: slots of a row often share a link, and a single sum would
 * serialize them. */
static MRAIL_INLINE void flows_add(double *sums, const uint32_t *link,
                                   unsigned count, uint32_t slot, double bytes)
{
    for (unsigned i = 0; i < count; ++i) {
        sums[link[i] * MRAIL_KERNELS_VECTOR + slot % MRAIL_KERNELS_VECTOR] +=
            bytes;
    }
}

static void flows_set_factors(mrail_flows_t *flows)
{
    const double *factor = flows->factor, *weight = flows->slot_weight;
    double *slot = flows->slot_factor;

    mrail_kernels_exp(flows->num_padded_links, flows->dual, flows->factor);
    EACH_SLOT_OF(flows,
                 slot[s] = weight[s] * flows_product(factor, link, num_links))
    if (flows->num_forks > 0) {
        mrail_flows_branch_factors(flows);
    }
}

void mrail_flows_add_loads(mrail_flows_t *flows, const double *branch_bytes)
{
    double *sums = flows->sums;
    const double *bytes = flows->slot_load;

    memset(sums, 0,
           (size_t)flows->num_padded_links * MRAIL_KERNELS_VECTOR *
               sizeof(*sums));
    for (uint32_t e = 0; (flows->base != NULL) && (e < flows->links.num_links);
         ++e) {
        sums[e * MRAIL_KERNELS_VECTOR] = flows->base[e];
    }
    EACH_SLOT_OF(flows, flows_add(sums, link, num_links, s, bytes[s]))
    if (flows->num_forks > 0) {
        mrail_flows_add_branch_loads(flows, branch_bytes);
    }
    for (uint32_t e = 0; e < flows->num_padded_links;
         ++e, sums += MRAIL_KERNELS_VECTOR) {
        flows->load[e] =
            ((sums[0] + sums[2]) + (sums[1] + sums[3])) * flows->per_byte[e];
    }
    flows->trial_relayed =
        flows->has_relays
            ? mrail_kernels_dot(flows->num_slots, flows->slot_relays,
                                flows->slot_load)
            : 0;
}

/* Adds the branches of this iteration to the sum. */
static void flows_sum_branches(mrail_flows_t *flows)
{
    const double *trial = mrail_flows_tail(flows, flows->trial);
    double *sum = mrail_flows_tail(flows, flows->sum);

    for (uint32_t b = 0; b < flows->num_branches; ++b) {
        sum[b] = ((flows->num_summed == 0) ? 0 : sum[b]) + trial[b];
    }
}

/* Iterations oscillate around their limit, so their mean is the result. The
 * first iteration is excluded, because it either mostly repeats the last
 * division or is far off. */
void mrail_flows_divide(mrail_flows_t *flows)
{
    flows_set_factors(flows);
    memset(flows->slot_load, 0, flows->num_slots * sizeof(*flows->slot_load));
    mrail_kernels_divide(&flows->kernels,
                         flows->is_first          ? MRAIL_KERNELS_NO_SUM
                         : flows->num_summed == 0 ? MRAIL_KERNELS_SET_SUM
                                                  : MRAIL_KERNELS_ADD_SUM,
                         flows->slot_factor, flows->trial, flows->sum,
                         flows->slot_load);
    if (flows->num_forks > 0) {
        mrail_flows_divide_branches(flows,
                                    mrail_flows_tail(flows, flows->trial));
    }
    mrail_flows_add_loads(flows, mrail_flows_tail(flows, flows->trial));
    if (flows->is_first) {
        flows->is_first = 0;
        return;
    }
    flows_sum_branches(flows);
    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        flows->sum_load[e] += flows->load[e];
    }
    flows->sum_relayed += flows->trial_relayed;
    ++flows->num_summed;
}

void mrail_flows_reset_sum(mrail_flows_t *flows)
{
    memset(flows->sum_load, 0,
           flows->links.num_links * sizeof(*flows->sum_load));
    flows->sum_relayed = 0;
    flows->num_summed = 0;
}

/* Replaces the iteration by the mean of the summed iterations, if there are
 * any. */
void mrail_flows_try_mean(mrail_flows_t *flows)
{
    double part;

    if (flows->num_summed == 0) {
        return;
    }
    part = 1.0 / (double)flows->num_summed;
    for (size_t i = 0; i < flows->num_bytes; ++i) {
        flows->trial[i] = flows->sum[i] * part;
    }
    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        flows->load[e] = flows->sum_load[e] * part;
    }
    flows->trial_relayed = flows->sum_relayed * part;
    mrail_flows_reset_sum(flows);
}

mrail_flows_lanes_t mrail_flows_lanes(mrail_flows_t *flows, uint32_t k)
{
    const uint32_t *row = &flows->kernels.row[2 * (size_t)k];

    return (mrail_flows_lanes_t){
        .out = row[0] * flows->kernels.width,
        .in = row[1] * flows->kernels.width,
        .bytes = &flows->bytes[(size_t)k * flows->kernels.width]};
}

void mrail_flows_load_bytes(mrail_flows_t *flows)
{
    memset(flows->slot_load, 0, flows->num_slots * sizeof(*flows->slot_load));
    mrail_kernels_load(&flows->kernels, flows->bytes, flows->slot_load);
    mrail_flows_add_loads(flows, mrail_flows_tail(flows, flows->bytes));
}

double mrail_flows_trial_congestion(const mrail_flows_t *flows)
{
    return mrail_kernels_max(flows->num_padded_links, flows->load);
}

void mrail_flows_keep_trial(mrail_flows_t *flows, double congestion)
{
    mrail_copy(flows->bytes, flows->trial,
               flows->num_bytes * sizeof(*flows->bytes));
    flows->congestion = congestion;
    flows->relayed = flows->trial_relayed;
}

static void flows_halve_duals(mrail_flows_t *flows)
{
    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        flows->dual[e] *= 0.5;
        flows->since[e] = flows->dual[e];
    }
}

/* Returns 1 if a price exceeds the maximum, otherwise 0. */
int mrail_flows_raise_duals(mrail_flows_t *flows, double target)
{
    const mrail_kernels_step_t step = {.per_target = 1 / target,
                                       .least = MIN_LOAD,
                                       .most = MAX_LOAD,
                                       .step = phase_params[flows->phase].step,
                                       .momentum =
                                           phase_params[flows->phase].momentum};

    return mrail_kernels_raise(flows->num_padded_links, &step, flows->load,
                               flows->dual,
                               flows->rise) > mrail_flows_dual_max(flows);
}

double mrail_flows_dual_max(const mrail_flows_t *flows)
{
    double most = phase_params[flows->phase].dual_max;
    unsigned links = MRAIL_MAX(flows->half_links, 1u);

    if (!phase_params[flows->phase].is_by_depth) {
        links = MRAIL_MAX(links, MRAIL_FLOWS_SLOT_LINKS);
    }
    return most * MRAIL_FLOWS_SLOT_LINKS / links;
}

/* ---- Bounds ---- */

/* Returns the sum over the demands of bytes times the length of the shortest
 * path, for the current lengths plus `per_relay` for each relay. Adds the
 * lengths of the bytes that no division can move. */
double mrail_flows_shortest(mrail_flows_t *flows, double per_relay)
{
    const double *relays = flows->slot_relays, *length = flows->length;
    double *slot = flows->slot_factor, fixed = 0;

    for (uint32_t e = 0; (flows->base != NULL) && (e < flows->links.num_links);
         ++e) {
        fixed += length[e] * flows->base[e];
    }
    EACH_SLOT_OF(flows, slot[s] = flows->slot_open[s]
                                      ? relays[s] * per_relay +
                                            flows_sum(length, link, num_links)
                                      : MRAIL_FLOWS_CLOSED)
    if (flows->num_forks > 0) {
        mrail_flows_add_branch_lengths(flows);
    }
    return fixed + mrail_kernels_shortest(&flows->kernels, slot);
}

double mrail_flows_volume(const mrail_flows_t *flows)
{
    return mrail_kernels_dot(flows->num_padded_links, flows->width,
                             flows->length);
}

/* Computes the bound for the current lengths. Keeps the lengths if their bound
 * is the best so far. */
void mrail_flows_prove(mrail_flows_t *flows)
{
    double volume = mrail_flows_volume(flows), proved;

    if (volume <= 0) {
        return;
    }
    proved = mrail_flows_shortest(flows, 0) / volume;
    if (proved > flows->proved) {
        flows->proved = proved;
        memcpy(flows->proof, flows->length,
               flows->num_padded_links * sizeof(*flows->proof));
    }
    flows->bound = MRAIL_MAX(flows->bound, proved);
}

/* Computes bounds from the cuts, and from the best lengths of the last
 * problem. */
void mrail_flows_prove_first(mrail_flows_t *flows)
{
    flows->bound = MRAIL_MAX(flows->bound, mrail_flows_cut_bound(flows));
    flows->proved = 0;
    memcpy(flows->length, flows->proof,
           flows->num_padded_links * sizeof(*flows->length));
    mrail_flows_prove(flows);
}

/* Computes a bound before prices exist, using a high power of the loads as
 * lengths. */
static void flows_prove_by_loads(mrail_flows_t *flows, unsigned doublings)
{
    double most = mrail_flows_trial_congestion(flows);

    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        double v = flows->load[e] / most;

        for (unsigned i = 0; i < doublings; ++i) {
            v = (v < 1e-30) ? 0 : v * v; /* avoid denormals */
        }
        flows->length[e] = v / flows->links.capacity[e];
    }
    mrail_flows_prove(flows);
}

/* Computes two bounds. The first uses the rises since the last check as
 * lengths. The second uses equal lengths for the links that rose the most. */
static void flows_prove_by_rises(mrail_flows_t *flows)
{
    double most = 0;

    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        flows->length[e] = MRAIL_MAX(flows->dual[e] - flows->since[e], 0.0);
        most = MRAIL_MAX(most, flows->length[e]);
        flows->since[e] = flows->dual[e];
    }
    mrail_flows_prove(flows);
    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        flows->length[e] = (flows->length[e] > IS_EQUAL * most) ? 1 : 0;
    }
    mrail_flows_prove(flows);
}

/* ---- Phases ---- */

void mrail_flows_begin_iterations(mrail_flows_t *flows)
{
    memcpy(flows->since, flows->dual,
           flows->links.num_links * sizeof(*flows->since));
    memset(flows->rise, 0, flows->links.num_links * sizeof(*flows->rise));
    mrail_flows_reset_sum(flows);
    flows->is_first = 1;
}

void mrail_flows_begin(mrail_flows_t *flows, unsigned phase,
                       double relay_factor)
{
    for (uint32_t s = 0; s < flows->num_slots; ++s) {
        double weight = flows->slot_direct_weight[s];

        for (double relay = 0; relay < flows->slot_relays[s]; ++relay) {
            weight *= relay_factor;
        }
        flows->slot_weight[s] = weight;
    }
    flows->phase = phase;
    flows->kernels.least_part = phase_params[phase].least_part;
    flows->dual = flows->duals[phase];
    mrail_flows_begin_iterations(flows);
}

/* Returns the iteration of the next check. */
unsigned mrail_flows_after(unsigned iteration)
{
    return iteration + MRAIL_MAX(CHECK_ITERATIONS, iteration / CHECK_PART);
}

/* Keeps the iteration if it is the best one. Returns the smaller of its
 * congestion and `best` (0 if none yet). */
static double flows_keep_less_loaded(mrail_flows_t *flows, double best)
{
    double congestion = mrail_flows_trial_congestion(flows);

    if ((flows->congestion == 0) || (congestion < flows->congestion)) {
        mrail_flows_keep_trial(flows, congestion);
    }
    return ((best == 0) || (congestion < best)) ? congestion : best;
}

/* Returns a target derived from the congestion and bound of the iterations
 * alone. Repairs and cuts do not show where the iterations converge. */
static double flows_target(const mrail_flows_t *flows, double best, double gap)
{
    return MRAIL_MAX((flows->proved + best) * 0.5,
                     flows->proved * (1 + SLACK * gap));
}

static int flows_is_within(const mrail_flows_t *flows, double gap)
{
    return flows->congestion <= flows->bound * (1 + gap);
}

/* If the congestion is only slightly too high, moves the excess to lanes with
 * spare capacity. */
static void flows_relieve_balance(mrail_flows_t *flows, double gap)
{
    double limit = flows->bound * (1 + RELIEVED * gap);

    if (!flows_is_within(flows, gap) &&
        (mrail_flows_trial_congestion(flows) <= limit * MAX_RELIEVED_LOAD)) {
        mrail_flows_relieve(flows, limit);
        (void)flows_keep_less_loaded(flows, 0);
    }
}

static void flows_prove_by_powers(mrail_flows_t *flows, double gap)
{
    static const unsigned powers[] = POWERS;

    for (unsigned i = 0;
         (i < MRAIL_ARRAY_SIZE(powers)) && !flows_is_within(flows, gap); ++i) {
        flows_prove_by_loads(flows, powers[i]);
    }
}

unsigned mrail_flows_balance(mrail_flows_t *flows, double gap,
                             unsigned max_iterations)
{
    unsigned next_check = CHECK_ITERATIONS;
    double best = 0;

    mrail_flows_begin(flows, FLOWS_PHASE_BALANCE, 1);
    flows->congestion = 0;
    mrail_flows_prove_first(flows);
    for (unsigned iteration = 1; iteration <= max_iterations; ++iteration) {
        mrail_flows_divide(flows);
        best = flows_keep_less_loaded(flows, best);
        if (iteration == 1) {
            flows_prove_by_powers(flows, gap);
        }
        if (flows_is_within(flows, gap)) {
            return iteration;
        }
        if (mrail_flows_raise_duals(flows, flows_target(flows, best, gap))) {
            flows_halve_duals(flows); /* allowed, because the bound needs only
                                       * the rises */
        }
        if (iteration == next_check) {
            flows_prove_by_rises(flows);
            mrail_flows_try_mean(flows);
            best = flows_keep_less_loaded(flows, best);
            next_check = mrail_flows_after(iteration);
        } else if (iteration > 1) {
            continue;
        }
        flows_relieve_balance(flows, gap);
        if (flows_is_within(flows, gap)) {
            return iteration;
        }
    }
    return max_iterations;
}

/* Moves a small excess over the limit to lanes with spare capacity. Returns the
 * resulting congestion. */
static double flows_relieve_near(mrail_flows_t *flows, double limit)
{
    double congestion = mrail_flows_trial_congestion(flows);

    if ((congestion > limit) && (congestion <= limit * NEAR_LIMIT)) {
        mrail_flows_relieve(flows, limit * FLOWS_WITHIN);
        congestion = mrail_flows_trial_congestion(flows);
    }
    return congestion;
}

/* Sets the same weight for all open slots, because the mask of each demand
 * holds its weights. */
static void flows_begin_fit(mrail_flows_t *flows)
{
    mrail_flows_begin(flows, FLOWS_PHASE_FIT, 1);
    for (uint32_t s = 0; s < flows->num_slots; ++s) {
        flows->slot_weight[s] = flows->slot_open[s] ? 1 : 0;
    }
}

int mrail_flows_repair(mrail_flows_t *flows, double limit)
{
    double congestion;

    mrail_flows_reset_duals(flows, FLOWS_PHASE_FIT);
    flows_begin_fit(flows);
    mrail_flows_divide(flows);
    mrail_flows_relieve(flows, limit * FLOWS_WITHIN);
    mrail_flows_remove_relays(flows, limit * FLOWS_WITHIN);
    congestion = mrail_flows_trial_congestion(flows);
    if (congestion > limit) {
        return -ERANGE;
    }
    mrail_flows_keep_trial(flows, congestion);
    return 0;
}

int mrail_flows_fit(mrail_flows_t *flows, double limit, unsigned max_iterations)
{
    unsigned next_check = CHECK_ITERATIONS;

    flows_begin_fit(flows);
    for (unsigned iteration = 1; iteration <= max_iterations; ++iteration) {
        double congestion;

        mrail_flows_divide(flows);
        congestion = mrail_flows_trial_congestion(flows);
        if ((congestion > limit) && (iteration == next_check)) {
            mrail_flows_try_mean(flows);
            congestion = flows_relieve_near(flows, limit);
            next_check = mrail_flows_after(iteration);
        }
        if (congestion <= limit) {
            mrail_flows_keep_trial(flows, congestion);
            return (int)iteration;
        }
        if (mrail_flows_raise_duals(flows, limit * FLOWS_TARGET)) {
            break;
        }
    }
    mrail_flows_reset_duals(flows, FLOWS_PHASE_FIT);
    return -ERANGE;
}

uint32_t mrail_flows_stride(const mrail_flows_t *flows)
{
    return flows->kernels.width;
}

const double *mrail_flows_bytes(const mrail_flows_t *flows)
{
    return flows->bytes;
}

const double *mrail_flows_branch_bytes(const mrail_flows_t *flows)
{
    return mrail_flows_tail(flows, flows->bytes);
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
