#include "config.h"
#include "fabric/flowlets.h"

#include "base/util.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* ---- Normal distribution ---- */

/* Returns 1 - Phi(z). The result is accurate in the upper tail, because erfc()
 * avoids cancellation there. */
static double upper_tail(double z)
{
    return 0.5 * erfc(z / M_SQRT2);
}

static double density(double z)
{
    return exp(-0.5 * z * z) / sqrt(2 * M_PI);
}

/*
 * Solves upper_tail(z) == q for 0 < q <= 0.5 by Newton's method on the
 * logarithm, which is concave. For z >= 0, upper_tail(z) <= exp(-z^2/2)/2, so
 * the starting point lies above z. The iteration descends to z without passing
 * it.
 */
static double upper_quantile(double q)
{
    double z = sqrt(-2 * log(2 * q));

    for (int i = 0; i < 100; ++i) {
        double tail = upper_tail(z);
        double step = (log(tail) - log(q)) * tail / density(z);

        z += step;
        if (fabs(step) <= 1e-14 * (1 + fabs(z))) {
            break;
        }
    }
    return z;
}

double mrail_flowlets_normal_quantile(double p)
{
    assert(p > 0 && p < 1);
    return (p > 0.5) ? upper_quantile(1 - p) : -upper_quantile(p);
}

double mrail_flowlets_extreme(double n)
{
    assert(n > 1);
    return (n >= 2) ? upper_quantile(1 / n) : -upper_quantile(1 - 1 / n);
}

double mrail_flowlets_nodes(double z)
{
    return 1 / upper_tail(z);
}

/* ---- Equation (1) ---- */

double mrail_flowlets_slowdown(double n, unsigned m)
{
    assert(m >= 1);
    return 1 + mrail_flowlets_extreme(n) / sqrt(m);
}

uint32_t mrail_flowlets_count(double n, double slowdown)
{
    double root = mrail_flowlets_extreme(n) / (slowdown - 1);
    double m = ceil(root * root);

    assert(slowdown > 1);
    if (root <= 1) {
        return 1;
    }
    return (m < (double)UINT32_MAX) ? (uint32_t)m : UINT32_MAX;
}

uint64_t mrail_flowlets_size(uint64_t bdp, uint32_t m, uint64_t min,
                             uint64_t max)
{
    uint64_t size;

    assert(m >= 1 && min <= max);
    size = (bdp > UINT64_MAX / 4) ? UINT64_MAX / m : bdp * 4 / m;
    return MRAIL_MIN(MRAIL_MAX(size, min), max);
}

/* ---- Exact balls in bins ---- */

/*
 * Distribution of the total number of balls in several bins. The count of each
 * bin is Poisson with mean m, truncated at `limit`. p[i] is the probability of
 * first + i balls. Totals more than WINDOW standard deviations from the mean
 * are omitted; their probability is below 1e-30.
 */
typedef struct flowlets_sum {
    long first;
    long count;
    double *p;
} flowlets_sum_t;

#define WINDOW 12

/* Computes the distribution for one bin. */
static void sum_init(flowlets_sum_t *sum, unsigned m, unsigned limit)
{
    sum->first = 0;
    sum->count = (long)limit + 1;
    for (long j = 0; j < sum->count; ++j) {
        sum->p[j] = exp((double)j * log(m) - m - lgamma((double)j + 1));
    }
}

/* Computes sum = a + b, the distribution for the bins of both. sum->p must be
 * large enough. */
static void sum_add(flowlets_sum_t *sum, const flowlets_sum_t *a,
                    const flowlets_sum_t *b, double mean)
{
    long width = (long)(WINDOW * sqrt(mean)) + 2 * WINDOW;
    long first = MRAIL_MAX(a->first + b->first, (long)mean - width);
    long last = MRAIL_MIN(a->first + a->count + b->first + b->count - 2,
                          (long)mean + width);

    sum->first = first;
    sum->count = last - first + 1;
    for (long total = first; total <= last; ++total) {
        long from = MRAIL_MAX(a->first, total - b->first - b->count + 1);
        long to = MRAIL_MIN(a->first + a->count - 1, total - b->first);
        double p = 0;

        for (long i = from; i <= to; ++i) {
            p += a->p[i - a->first] * b->p[total - i - b->first];
        }
        sum->p[total - first] = p;
    }
}

/* Returns P(a + b = total). */
static double sum_at(const flowlets_sum_t *a, const flowlets_sum_t *b,
                     long total)
{
    long from = MRAIL_MAX(a->first, total - b->first - b->count + 1);
    long to = MRAIL_MIN(a->first + a->count - 1, total - b->first);
    double p = 0;

    for (long i = from; i <= to; ++i) {
        p += a->p[i - a->first] * b->p[total - i - b->first];
    }
    return p;
}

/* Also swaps the arrays, because each belongs to its sum. */
static void sum_swap(flowlets_sum_t *a, flowlets_sum_t *b)
{
    flowlets_sum_t old = *a;

    *a = *b;
    *b = old;
}

/* Returns P(no bin of n receives more than `limit` of the n m balls). The
 * arrays of sums[0..3) must be large enough. */
static double at_most(unsigned n, unsigned m, unsigned limit,
                      flowlets_sum_t *sums)
{
    flowlets_sum_t *power = &sums[0], *rest = &sums[1], *scratch = &sums[2];
    double balls = (double)n * m;
    unsigned bins = 1, rest_bins = 0;

    /* Compute the distribution of the sum of n - 1 bins by repeated squaring.
     * The n-th bin is added only for the one total that is needed. */
    sum_init(power, m, limit);
    for (unsigned left = n - 1; left != 0; left >>= 1) {
        if (left & 1) {
            if (rest_bins == 0) {
                rest->first = power->first;
                rest->count = power->count;
                for (long i = 0; i < power->count; ++i) {
                    rest->p[i] = power->p[i];
                }
            } else {
                sum_add(scratch, power, rest, (double)(bins + rest_bins) * m);
                sum_swap(rest, scratch);
            }
            rest_bins += bins;
        }
        if (left > 1) {
            sum_add(scratch, power, power, 2.0 * bins * m);
            sum_swap(power, scratch);
            bins *= 2;
        }
    }
    sum_init(power, m, limit);
    /* Independent Poisson bins, conditioned on their total, are distributed
     * like balls thrown into bins. The probability is therefore divided by the
     * probability of that total without the limit. */
    return exp(log(sum_at(power, rest, (long)balls)) + balls -
               balls * log(balls) + lgamma(balls + 1));
}

double mrail_flowlets_slowdown_exact(unsigned n, unsigned m)
{
    size_t allocated;
    flowlets_sum_t sums[3];
    double mean = m; /* E(fullest) = sum over k >= 0 of P(fullest > k) */
    double *p;

    assert(n >= 1 && m >= 1 && (uint64_t)n * m <= 65536);
    if (n == 1) {
        return 1;
    }
    /* A single bin has up to n m + 1 values, and a sum has one for each total
     * in its window. */
    allocated = (size_t)n * m + (size_t)(2 * WINDOW * sqrt((double)n * m)) +
                4 * WINDOW + 2;
    p = malloc(3 * allocated * sizeof(*p));
    if (p == NULL) {
        return NAN;
    }
    for (unsigned i = 0; i < 3; ++i) {
        sums[i] = (flowlets_sum_t){.p = p + i * allocated};
    }
    for (unsigned limit = m; limit < n * m; ++limit) {
        double more = 1 - at_most(n, m, limit, sums);

        mean += MRAIL_MAX(more, 0);
        if (more < 1e-13) {
            break;
        }
    }
    free(p);
    return mean / m;
}
