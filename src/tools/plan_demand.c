/* Generates the demands of patterns as rows of bytes, one row per sender. */
#include "config.h"
#include "tools/plan_demand.h"

#include "base/rng.h"
#include "tools/demand.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

typedef unsigned __int128 wide_t;

/* State of one call of plan_demand_make(). */
typedef struct generator {
    const plan_demand_pattern_t *pattern;
    unsigned num_ranks;
    unsigned experts;
    uint64_t seed;
    uint64_t *row; /* bytes per receiver */
    /* zipf: by receiver; moe: running sum by expert; incast: position in
     * `order` */
    uint64_t *weights;
    uint32_t *order; /* ranks or experts in an order determined by the seed */
    mrail_plan_demand_t *demands;
    size_t num, allocated;
    char *reason;
    size_t reason_size;
} generator_t;

typedef struct kind_ops {
    /* Called before the first row. Returns 0, or -errno with a message in
     * maker->reason. May be NULL. */
    int (*prepare)(generator_t *generator);
    /* Fills maker->row, which is initially zero. The sender's own entry
     * is ignored. */
    void (*fill)(generator_t *generator, unsigned from);
} kind_ops_t;

/* Fills `order` with 0 to num - 1 in a random order determined by the seed. */
static void shuffle(uint32_t *order, unsigned num, uint64_t seed)
{
    mrail_rng_t rng;

    mrail_rng_init(&rng, seed);
    for (unsigned i = 0; i < num; ++i) {
        unsigned j = mrail_rng_below(&rng, i + 1);

        order[i] = order[j];
        order[j] = i;
    }
}

/* ---- uniform, hotspot ---- */

static void fill_uniform(generator_t *generator, unsigned from)
{
    mrail_demand_row(generator->num_ranks, from, generator->pattern->size,
                     MRAIL_DEMAND_UNIFORM, MRAIL_DEMAND_SHIFT, generator->row);
}

static void fill_hotspot(generator_t *generator, unsigned from)
{
    const plan_demand_pattern_t *pattern = generator->pattern;

    mrail_demand_row(generator->num_ranks, from, pattern->size,
                     (uint32_t)pattern->fraction_ppm,
                     pattern->one ? MRAIL_DEMAND_SINGLE : MRAIL_DEMAND_SHIFT,
                     generator->row);
}

/* ---- zipf ---- */

/* Generates the weights of the ranks. The i-th rank in the order has the i-th
 * weight. */
static int prepare_zipf(generator_t *generator)
{
    uint64_t *sorted = malloc(generator->num_ranks * sizeof(*sorted));

    if (sorted == NULL) {
        return -ENOMEM;
    }
    plan_zipf(generator->num_ranks, generator->pattern->exponent_ppm, sorted);
    shuffle(generator->order, generator->num_ranks, generator->seed);
    for (unsigned i = 0; i < generator->num_ranks; ++i) {
        generator->weights[generator->order[i]] = sorted[i];
    }
    free(sorted);
    return 0;
}

/* Divides the bytes by weight, rounded down. Fewer bytes remain than there are
 * ranks, so each rank after the sender receives one more byte until all bytes
 * are used. */
static void fill_zipf(generator_t *generator, unsigned from)
{
    uint64_t size = generator->pattern->size, left = size, sum = 0;

    if (generator->num_ranks == 1) {
        return;
    }
    for (unsigned to = 0; to < generator->num_ranks; ++to) {
        sum += (to != from) ? generator->weights[to] : 0;
    }
    for (unsigned to = 0; to < generator->num_ranks; ++to) {
        if (to != from) {
            generator->row[to] =
                (uint64_t)((wide_t)size * generator->weights[to] / sum);
            left -= generator->row[to];
        }
    }
    for (unsigned i = 1; left > 0; ++i, --left) {
        ++generator->row[(from + i) % generator->num_ranks];
    }
}

/* ---- moe ---- */

static int prepare_moe(generator_t *generator)
{
    const plan_demand_pattern_t *pattern = generator->pattern;
    uint64_t sum = 0, *sorted;

    if (pattern->k > generator->experts) {
        snprintf(generator->reason, generator->reason_size,
                 "k=%llu: a token goes to k different experts, but there are "
                 "only %u",
                 (unsigned long long)pattern->k, generator->experts);
        return -EINVAL;
    }
    sorted = malloc(generator->experts * sizeof(*sorted));
    if (sorted == NULL) {
        return -ENOMEM;
    }
    plan_zipf(generator->experts, pattern->exponent_ppm, sorted);
    shuffle(generator->order, generator->experts, generator->seed);
    for (unsigned i = 0; i < generator->experts; ++i) {
        generator->weights[generator->order[i]] = sorted[i];
    }
    for (unsigned i = 0; i < generator->experts; ++i) {
        generator->weights[i] += sum;
        sum = generator->weights[i];
    }
    free(sorted);
    return 0;
}

static unsigned draw_expert(const generator_t *generator, mrail_rng_t *rng)
{
    uint64_t sum = generator->weights[generator->experts - 1];
    uint64_t at = (uint64_t)(((wide_t)mrail_rng_next(rng) * sum) >> 64);
    unsigned low = 0, high = generator->experts - 1;

    while (low < high) {
        unsigned middle = (low + high) / 2;

        if (generator->weights[middle] > at) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static int has_expert(const unsigned *chosen, unsigned num, unsigned expert)
{
    for (unsigned i = 0; i < num; ++i) {
        if (chosen[i] == expert) {
            return 1;
        }
    }
    return 0;
}

/* Chooses a random expert that was not yet chosen for the token. After many
 * unsuccessful attempts, returns the most popular expert that is left. */
static unsigned choose_expert(const generator_t *generator, mrail_rng_t *rng,
                              const unsigned *chosen, unsigned num)
{
    unsigned i = 0;

    for (unsigned tries = 0; tries < 64; ++tries) {
        unsigned expert = draw_expert(generator, rng);

        if (!has_expert(chosen, num, expert)) {
            return expert;
        }
    }
    while (has_expert(chosen, num, generator->order[i])) {
        ++i;
    }
    return generator->order[i];
}

#define MAX_K 64u

/* Blocks of consecutive experts are assigned to each rank. A token is sent to a
 * rank only once, even if the rank hosts several of its experts. */
static void fill_moe(generator_t *generator, unsigned from)
{
    const plan_demand_pattern_t *pattern = generator->pattern;
    mrail_rng_t rng;

    mrail_rng_init(&rng, mrail_mix64(generator->seed + from + 1));
    for (uint64_t token = 0; token < pattern->tokens; ++token) {
        unsigned chosen[MAX_K], ranks[MAX_K], num_ranks = 0;

        for (unsigned i = 0; i < pattern->k; ++i) {
            unsigned rank;

            chosen[i] = choose_expert(generator, &rng, chosen, i);
            rank = (unsigned)((uint64_t)chosen[i] * generator->num_ranks /
                              generator->experts);
            if (!has_expert(ranks, num_ranks, rank)) {
                ranks[num_ranks++] = rank;
                generator->row[rank] += pattern->hidden;
            }
        }
    }
}

/* ---- stencil ---- */

/* Returns the length of a row: the smallest divisor not below the square root.
 * For example, 12 ranks form 3 rows of 4. In one dimension there is only one
 * row. */
static unsigned row_length(const generator_t *generator)
{
    unsigned rows = 1;

    if (generator->pattern->dims == 1) {
        return generator->num_ranks;
    }
    for (unsigned i = 2; i * i <= generator->num_ranks; ++i) {
        rows = (generator->num_ranks % i == 0) ? i : rows;
    }
    return generator->num_ranks / rows;
}

/* Returns 1 for the two ends in one dimension, and for the boundary of the grid
 * in two dimensions. */
static int at_boundary(unsigned rank, unsigned length, unsigned rows)
{
    unsigned x = rank % length, y = rank / length;

    return x == 0 || x == length - 1 || (rows > 1 && (y == 0 || y == rows - 1));
}

/* Each rank sends to its neighbours. The grid does not wrap around. */
static void fill_stencil(generator_t *generator, unsigned from)
{
    const plan_demand_pattern_t *pattern = generator->pattern;
    unsigned length = row_length(generator),
             rows = generator->num_ranks / length;
    unsigned x = from % length, y = from / length;
    unsigned next[4], num = 0;

    if (x > 0) {
        next[num++] = from - 1;
    }
    if (x + 1 < length) {
        next[num++] = from + 1;
    }
    if (y > 0) {
        next[num++] = from - length;
    }
    if (y + 1 < rows) {
        next[num++] = from + length;
    }
    for (unsigned i = 0; i < num; ++i) {
        generator->row[next[i]] =
            pattern->size * ((at_boundary(from, length, rows) ||
                              at_boundary(next[i], length, rows))
                                 ? pattern->boundary
                                 : 1);
    }
}

/* ---- incast ---- */

/* The first ranks in the order receive, and the next ranks send. */
static int prepare_incast(generator_t *generator)
{
    const plan_demand_pattern_t *pattern = generator->pattern;

    if (pattern->receivers + pattern->senders > generator->num_ranks ||
        pattern->receivers == generator->num_ranks) {
        snprintf(
            generator->reason, generator->reason_size,
            "%llu receivers and %llu senders are too many: there are %u ranks, "
            "and a rank cannot be both",
            (unsigned long long)pattern->receivers,
            (unsigned long long)MRAIL_MAX(pattern->senders, 1u),
            generator->num_ranks);
        return -EINVAL;
    }
    shuffle(generator->order, generator->num_ranks, generator->seed);
    for (unsigned i = 0; i < generator->num_ranks; ++i) {
        generator->weights[generator->order[i]] = i; /* position in the order */
    }
    return 0;
}

static void fill_incast(generator_t *generator, unsigned from)
{
    const plan_demand_pattern_t *pattern = generator->pattern;
    uint64_t place = generator->weights[from];
    uint64_t odd = pattern->size % pattern->receivers;

    if (place < pattern->receivers ||
        (pattern->senders != 0 &&
         place >= pattern->receivers + pattern->senders)) {
        return;
    }
    /* If the size is not divisible, some receivers receive one byte more. The
     * choice of these receivers differs between senders, so that no receiver
     * receives all extra bytes. */
    for (unsigned i = 0; i < pattern->receivers; ++i) {
        unsigned at = (unsigned)((place + i) % pattern->receivers);

        generator->row[generator->order[at]] =
            pattern->size / pattern->receivers + ((i < odd) ? 1 : 0);
    }
}

static const kind_ops_t kinds[PLAN_DEMAND_NUM_KINDS] = {
    [PLAN_DEMAND_UNIFORM] = {NULL, fill_uniform},
    [PLAN_DEMAND_HOTSPOT] = {NULL, fill_hotspot},
    [PLAN_DEMAND_ZIPF] = {prepare_zipf, fill_zipf},
    [PLAN_DEMAND_MOE] = {prepare_moe, fill_moe},
    [PLAN_DEMAND_STENCIL] = {NULL, fill_stencil},
    [PLAN_DEMAND_INCAST] = {prepare_incast, fill_incast},
};

/* ---- All rows ---- */

/* Appends the row to the demands and clears it. */
static int take_row(generator_t *generator, unsigned from)
{
    if (generator->allocated - generator->num < generator->num_ranks) {
        size_t allocated = 2 * generator->allocated + generator->num_ranks;
        mrail_plan_demand_t *demands =
            realloc(generator->demands, allocated * sizeof(*demands));

        if (demands == NULL) {
            return -ENOMEM;
        }
        generator->demands = demands;
        generator->allocated = allocated;
    }
    generator->row[from] = 0;
    for (unsigned to = 0; to < generator->num_ranks; ++to) {
        if (generator->row[to] > 0) {
            generator->demands[generator->num++] =
                (mrail_plan_demand_t){from, to, generator->row[to]};
            generator->row[to] = 0;
        }
    }
    if (generator->num > PLAN_DEMAND_MAX) {
        snprintf(generator->reason, generator->reason_size,
                 "the demands have more than %zu pairs of ranks",
                 PLAN_DEMAND_MAX);
        return -ENOSPC;
    }
    return 0;
}

static int make(generator_t *generator)
{
    const kind_ops_t *ops = &kinds[generator->pattern->kind];
    unsigned num = MRAIL_MAX(generator->num_ranks, generator->experts);
    int ret = 0;

    generator->row = calloc(generator->num_ranks, sizeof(*generator->row));
    generator->weights = calloc(num, sizeof(*generator->weights));
    generator->order = calloc(num, sizeof(*generator->order));
    if (generator->row == NULL || generator->weights == NULL ||
        generator->order == NULL) {
        return -ENOMEM;
    }
    if (ops->prepare != NULL) {
        ret = ops->prepare(generator);
    }
    for (unsigned from = 0; from < generator->num_ranks && ret == 0; ++from) {
        ops->fill(generator, from);
        ret = take_row(generator, from);
    }
    return ret;
}

int plan_demand_make(const plan_demand_pattern_t *pattern, unsigned num_ranks,
                     uint64_t seed, mrail_plan_demand_t **demands_p,
                     size_t *num_p, char *reason, size_t size)
{
    generator_t generator = {.pattern = pattern,
                             .num_ranks = num_ranks,
                             .seed = seed,
                             .reason = reason,
                             .reason_size = size};
    int ret;

    if (pattern->kind == PLAN_DEMAND_MOE) {
        generator.experts =
            (unsigned)((pattern->experts != 0) ? pattern->experts
                                               : 4 * (uint64_t)num_ranks);
    }
    ret = make(&generator);
    if (ret == -ENOMEM) {
        snprintf(reason, size, "out of memory for the demands of %u ranks",
                 num_ranks);
    }
    if (ret == 0) {
        *demands_p = generator.demands;
        *num_p = generator.num;
        generator.demands = NULL;
    }
    free(generator.demands);
    free(generator.row);
    free(generator.weights);
    free(generator.order);
    return ret;
}
