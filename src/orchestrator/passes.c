#include "config.h"
#include "passes.h"

#include "base/util.h"

#include <assert.h>

/* As wide as AVX2's, and no better aligned than what they are made of. */
typedef double vec_t __attribute__((vector_size(32), aligned(8), may_alias));
typedef int64_t mask_t __attribute__((vector_size(32), aligned(8)));

#if defined(__x86_64__)
#define HAS_AVX2_TWINS 1
#define TARGET_AVX2 __attribute__((target("avx2")))
#endif

/* In this order, on all machines. */
#define SUM_OF(v) (((v)[0] + (v)[2]) + ((v)[1] + (v)[3]))

static MRAIL_INLINE void divide(const mrail_passes_t *passes, unsigned num_vecs,
                                int is_masked, const double *factor,
                                double *bytes, double *sum, double *load)
{
    unsigned width = num_vecs * MRAIL_PASSES_VECTOR;

    for (uint32_t k = 0; k < passes->num_demands; ++k) {
        size_t out = (size_t)passes->row[2 * (size_t)k] * width;
        size_t in = (size_t)passes->row[2 * (size_t)k + 1] * width;
        const vec_t *factor_out = (const vec_t *)&factor[out];
        const vec_t *factor_in = (const vec_t *)&factor[in];
        vec_t *load_out = (vec_t *)&load[out], *load_in = (vec_t *)&load[in];
        vec_t *bytes_of = (vec_t *)&bytes[(size_t)k * width];
        vec_t *sum_of = (vec_t *)&sum[(size_t)k * width];
        vec_t part[MRAIL_PASSES_MAX_WIDTH / MRAIL_PASSES_VECTOR];
        vec_t total = {0};
        double per_weight;

        for (unsigned v = 0; v < num_vecs; ++v) {
            part[v] = factor_out[v] * factor_in[v];
            if (is_masked) {
                part[v] *= *(const vec_t *)&passes->mask_factor
                    [(size_t)passes->mask[k] * width + v * MRAIL_PASSES_VECTOR];
            }
            total = total + part[v];
        }
        per_weight = passes->demand[k] / SUM_OF(total);
        for (unsigned v = 0; v < num_vecs; ++v) {
            part[v] *= per_weight;
            bytes_of[v] = part[v];
            sum_of[v] += part[v];
            load_out[v] += part[v];
            load_in[v] += part[v];
        }
    }
}

#define LESSER(a, b)                                                          \
    ((vec_t)((((a) < (b)) & (mask_t)(a)) | (~((a) < (b)) & (mask_t)(b))))

static MRAIL_INLINE double shortest(const mrail_passes_t *passes,
                                    unsigned num_vecs, int is_masked,
                                    const double *length)
{
    unsigned width = num_vecs * MRAIL_PASSES_VECTOR;
    double total = 0;

    for (uint32_t k = 0; k < passes->num_demands; ++k) {
        const vec_t *out = (const vec_t *)
            &length[(size_t)passes->row[2 * (size_t)k] * width];
        const vec_t *in = (const vec_t *)
            &length[(size_t)passes->row[2 * (size_t)k + 1] * width];
        vec_t least = {0};

        for (unsigned v = 0; v < num_vecs; ++v) {
            vec_t other = out[v] + in[v];

            if (is_masked) {
                other += *(const vec_t *)&passes->mask_length
                    [(size_t)passes->mask[k] * width + v * MRAIL_PASSES_VECTOR];
            }
            if (v == 0) {
                least = other;
            } else {
                least = LESSER(other, least);
            }
        }
        total += passes->demand[k] * MRAIL_MIN(MRAIL_MIN(least[0], least[2]),
                                               MRAIL_MIN(least[1], least[3]));
    }
    return total;
}

/* With a number of vectors that the compiler knows, and with masks or without, for
 * each set of instructions: `call` is one of the above, with `num_vecs` and
 * `is_masked` as its arguments. */
#define BY_WIDTH(masked, call)                                                \
    switch (passes->width / MRAIL_PASSES_VECTOR) {                            \
    case 1: { enum { num_vecs = 1, is_masked = masked }; call; break; }       \
    case 2: { enum { num_vecs = 2, is_masked = masked }; call; break; }       \
    case 3: { enum { num_vecs = 3, is_masked = masked }; call; break; }       \
    case 4: { enum { num_vecs = 4, is_masked = masked }; call; break; }       \
    default: { enum { num_vecs = 5, is_masked = masked }; call; break; }      \
    }
#define BY_KIND(call)                                                         \
    if (passes->mask != NULL) {                                               \
        BY_WIDTH(1, call)                                                     \
    } else {                                                                  \
        BY_WIDTH(0, call)                                                     \
    }

static void divide_anywhere(const mrail_passes_t *passes, const double *factor,
                            double *bytes, double *sum, double *load)
{
    BY_KIND(divide(passes, num_vecs, is_masked, factor, bytes, sum, load))
}

static double shortest_anywhere(const mrail_passes_t *passes,
                                const double *length)
{
    double total;

    BY_KIND(total = shortest(passes, num_vecs, is_masked, length))
    return total;
}

#ifdef HAS_AVX2_TWINS
TARGET_AVX2 static void divide_avx2(const mrail_passes_t *passes,
                                    const double *factor, double *bytes,
                                    double *sum, double *load)
{
    BY_KIND(divide(passes, num_vecs, is_masked, factor, bytes, sum, load))
}

TARGET_AVX2 static double shortest_avx2(const mrail_passes_t *passes,
                                        const double *length)
{
    double total;

    BY_KIND(total = shortest(passes, num_vecs, is_masked, length))
    return total;
}
#endif

static void passes_check(const mrail_passes_t *passes)
{
    assert(passes->width >= MRAIL_PASSES_VECTOR);
    assert(passes->width <= MRAIL_PASSES_MAX_WIDTH);
    assert(passes->width % MRAIL_PASSES_VECTOR == 0);
    (void)passes;
}

void mrail_passes_divide(const mrail_passes_t *passes, const double *factor,
                         double *bytes, double *sum, double *load)
{
    passes_check(passes);
#ifdef HAS_AVX2_TWINS
    if (__builtin_cpu_supports("avx2")) {
        divide_avx2(passes, factor, bytes, sum, load);
        return;
    }
#endif
    divide_anywhere(passes, factor, bytes, sum, load);
}

double mrail_passes_shortest(const mrail_passes_t *passes,
                             const double *length)
{
    passes_check(passes);
#ifdef HAS_AVX2_TWINS
    if (__builtin_cpu_supports("avx2")) {
        return shortest_avx2(passes, length);
    }
#endif
    return shortest_anywhere(passes, length);
}
