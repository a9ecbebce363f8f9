#include "config.h"
#include "kernels.h"

#include "base/util.h"

#include <assert.h>

/* A vector as wide as an AVX2 register, with the alignment of a double. */
typedef double vec_t __attribute__((vector_size(32), aligned(8), may_alias));
typedef int64_t mask_t __attribute__((vector_size(32), aligned(8)));

#if defined(__x86_64__)
#define HAS_AVX2_TWINS 1
#define TARGET_AVX2 __attribute__((target("avx2")))
#endif

#define CHOSEN(a, is, b)                                                       \
    ((vec_t)((((a)is(b)) & (mask_t)(a)) | (~((a)is(b)) & (mask_t)(b))))
#define LESSER(a, b) CHOSEN(a, <, b)
#define GREATER(a, b) CHOSEN(a, >, b)

/* The number of iterations is a compile-time constant; the loop must be
 * unrolled. */
#if defined(__clang__)
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED _Pragma("GCC unroll 5")
#endif
#define EACH_VECTOR(v, count)                                                  \
    UNROLLED                                                                   \
    for (unsigned v = 0; v < (count); ++v)

/* The order of additions is the same on all platforms. */
#define SUM_OF(v) (((v)[0] + (v)[2]) + ((v)[1] + (v)[3]))

/* Loads of a row's slots, kept in registers while consecutive demands share the
 * row. In memory, each demand would have to wait for the previous one's
 * store. */
typedef struct row_regs {
    vec_t load[MRAIL_KERNELS_MAX_WIDTH / MRAIL_KERNELS_VECTOR];
    vec_t *at; /* NULL before the first row */
} row_regs_t;

static MRAIL_INLINE void load_row(row_regs_t *row_regs, unsigned num_vecs,
                                  vec_t *load)
{
    if (row_regs->at == load) {
        return;
    }
    EACH_VECTOR(v, num_vecs)
    {
        if (row_regs->at != NULL) {
            row_regs->at[v] = row_regs->load[v];
        }
        row_regs->load[v] = load[v];
    }
    row_regs->at = load;
}

static MRAIL_INLINE void store_row(const row_regs_t *row_regs,
                                   unsigned num_vecs)
{
    for (unsigned v = 0; (row_regs->at != NULL) && (v < num_vecs); ++v) {
        row_regs->at[v] = row_regs->load[v];
    }
}

static MRAIL_INLINE void divide(const mrail_kernels_t *kernels,
                                unsigned num_vecs, int is_masked,
                                mrail_kernels_sum_t what, const double *factor,
                                double *bytes, double *sum, double *load)
{
    const unsigned width = num_vecs * MRAIL_KERNELS_VECTOR;
    const uint32_t *row = kernels->row, num_demands = kernels->num_demands;
    row_regs_t row_regs = {.at = NULL};

    for (uint32_t k = 0; k < num_demands; ++k, row += 2) {
        size_t out = (size_t)row[0] * width, in = (size_t)row[1] * width;
        const vec_t *factor_out = (const vec_t *)&factor[out];
        const vec_t *factor_in = (const vec_t *)&factor[in];
        vec_t *load_in = (vec_t *)&load[in];
        vec_t *bytes_of = (vec_t *)&bytes[(size_t)k * width];
        vec_t *sum_of = (vec_t *)&sum[(size_t)k * width];
        vec_t part[MRAIL_KERNELS_MAX_WIDTH / MRAIL_KERNELS_VECTOR];
        vec_t total = {0}, kept = {0};
        double least, per_weight;

        EACH_VECTOR(v, num_vecs)
        {
            part[v] = factor_out[v] * factor_in[v];
            if (is_masked) {
                part[v] *= *(const vec_t *)&kernels
                                ->mask_factor[(size_t)kernels->mask[k] * width +
                                              v * MRAIL_KERNELS_VECTOR];
            }
            total = total + part[v];
        }
        least = kernels->least_part * SUM_OF(total);
        EACH_VECTOR(v, num_vecs)
        {
            part[v] = (vec_t)((part[v] >= least) & (mask_t)part[v]);
            kept = kept + part[v];
        }
        per_weight = kernels->demand[k] / SUM_OF(kept);
        load_row(&row_regs, num_vecs, (vec_t *)&load[out]);
        EACH_VECTOR(v, num_vecs)
        {
            part[v] *= per_weight;
            bytes_of[v] = part[v];
            if (what == MRAIL_KERNELS_SET_SUM) {
                sum_of[v] = part[v];
            } else if (what == MRAIL_KERNELS_ADD_SUM) {
                sum_of[v] += part[v];
            }
            row_regs.load[v] += part[v];
            load_in[v] += part[v];
        }
    }
    store_row(&row_regs, num_vecs);
}

static MRAIL_INLINE void load_rows(const mrail_kernels_t *kernels,
                                   unsigned num_vecs, const double *bytes,
                                   double *load)
{
    const unsigned width = num_vecs * MRAIL_KERNELS_VECTOR;
    const uint32_t *row = kernels->row, num_demands = kernels->num_demands;
    row_regs_t row_regs = {.at = NULL};

    for (uint32_t k = 0; k < num_demands; ++k, row += 2, bytes += width) {
        vec_t *in = (vec_t *)&load[(size_t)row[1] * width];

        load_row(&row_regs, num_vecs, (vec_t *)&load[(size_t)row[0] * width]);
        EACH_VECTOR(v, num_vecs)
        {
            row_regs.load[v] += ((const vec_t *)bytes)[v];
            in[v] += ((const vec_t *)bytes)[v];
        }
    }
    store_row(&row_regs, num_vecs);
}

static MRAIL_INLINE uint32_t find_small(const mrail_kernels_t *kernels,
                                        unsigned num_vecs, const double *bytes,
                                        double least, uint32_t first)
{
    unsigned width = num_vecs * MRAIL_KERNELS_VECTOR;
    uint32_t k = first;

    for (; k < kernels->num_demands; ++k) {
        const vec_t *lane = (const vec_t *)&bytes[(size_t)k * width];
        mask_t small = {0};

        for (unsigned v = 0; v < num_vecs; ++v) {
            small |= (lane[v] > 0) & (lane[v] < least);
        }
        if ((small[0] | small[1] | small[2] | small[3]) != 0) {
            break;
        }
    }
    return k;
}

static MRAIL_INLINE uint32_t find_over(const mrail_kernels_t *kernels,
                                       unsigned num_vecs, const double *bytes,
                                       const double *excess, uint32_t first)
{
    unsigned width = num_vecs * MRAIL_KERNELS_VECTOR;
    uint32_t k = first;

    for (; k < kernels->num_demands; ++k) {
        const vec_t *lane = (const vec_t *)&bytes[(size_t)k * width];
        const vec_t *out =
            (const vec_t *)&excess[(size_t)kernels->row[2 * (size_t)k] * width];
        const vec_t *in =
            (const vec_t
                 *)&excess[(size_t)kernels->row[2 * (size_t)k + 1] * width];
        mask_t over = {0};

        for (unsigned v = 0; v < num_vecs; ++v) {
            over |= (lane[v] > 0) & ((out[v] > 0) | (in[v] > 0));
        }
        if ((over[0] | over[1] | over[2] | over[3]) != 0) {
            break;
        }
    }
    return k;
}

static MRAIL_INLINE double shortest(const mrail_kernels_t *kernels,
                                    unsigned num_vecs, int is_masked,
                                    const double *length)
{
    unsigned width = num_vecs * MRAIL_KERNELS_VECTOR;
    double total = 0;

    for (uint32_t k = 0; k < kernels->num_demands; ++k) {
        const vec_t *out =
            (const vec_t *)&length[(size_t)kernels->row[2 * (size_t)k] * width];
        const vec_t *in =
            (const vec_t
                 *)&length[(size_t)kernels->row[2 * (size_t)k + 1] * width];
        vec_t least = {0};

        for (unsigned v = 0; v < num_vecs; ++v) {
            vec_t other = out[v] + in[v];

            if (is_masked) {
                other += *(const vec_t *)&kernels
                              ->mask_length[(size_t)kernels->mask[k] * width +
                                            v * MRAIL_KERNELS_VECTOR];
            }
            if (v == 0) {
                least = other;
            } else {
                least = LESSER(other, least);
            }
        }
        total += kernels->demand[k] * MRAIL_MIN(MRAIL_MIN(least[0], least[2]),
                                                MRAIL_MIN(least[1], least[3]));
    }
    return total;
}

static MRAIL_INLINE void exp_of(uint32_t count, const double *x, double *exp)
{
    for (uint32_t i = 0; i < count; i += MRAIL_KERNELS_VECTOR) {
        vec_t v = 1.0 / (1.0 + *(const vec_t *)&x[i] * (1.0 / 1024.0));

        for (unsigned k = 0; k < 10; ++k) {
            v = v * v;
        }
        *(vec_t *)&exp[i] = v;
    }
}

/* These are macros, because the calling convention for vectors depends on the
 * instruction set. */
#define ALL(value)                                                             \
    (vec_t)                                                                    \
    {                                                                          \
        (value), (value), (value), (value)                                     \
    }
#define MAX_OF(v)                                                              \
    MRAIL_MAX(MRAIL_MAX((v)[0], (v)[2]), MRAIL_MAX((v)[1], (v)[3]))

static MRAIL_INLINE double raise_all(uint32_t count,
                                     const mrail_kernels_step_t *step,
                                     const double *load, double *dual,
                                     double *rise)
{
    const vec_t floor = ALL(step->least);
    const vec_t top = ALL(step->most), zero = ALL(0);
    vec_t most = zero;

    for (uint32_t i = 0; i < count; i += MRAIL_KERNELS_VECTOR) {
        vec_t over = *(const vec_t *)&load[i] * step->per_target;
        vec_t old = *(vec_t *)&dual[i], next;

        over = LESSER(over, top);
        over = GREATER(over, floor);
        next = old + (over - 1.0) * step->step +
               *(vec_t *)&rise[i] * step->momentum;
        next = GREATER(next, zero);
        *(vec_t *)&rise[i] = next - old;
        *(vec_t *)&dual[i] = next;
        most = GREATER(next, most);
    }
    return MAX_OF(most);
}

static MRAIL_INLINE double most_of_all(uint32_t count, const double *value)
{
    vec_t most = ALL(0);

    for (uint32_t i = 0; i < count; i += MRAIL_KERNELS_VECTOR) {
        most = GREATER(*(const vec_t *)&value[i], most);
    }
    return MAX_OF(most);
}

static MRAIL_INLINE double dot(uint32_t count, const double *a, const double *b)
{
    vec_t total = ALL(0);

    for (uint32_t i = 0; i < count; i += MRAIL_KERNELS_VECTOR) {
        total = total + *(const vec_t *)&a[i] * *(const vec_t *)&b[i];
    }
    return SUM_OF(total);
}

/* Instantiates `call`, one of the functions above, for each vector count, with
 * or without masks. Both are compile-time constants: `num_vecs` and
 * `is_masked`. */
#define BY_WIDTH(masked, call)                                                 \
    switch (kernels->width / MRAIL_KERNELS_VECTOR) {                           \
    case 1: {                                                                  \
        enum { num_vecs = 1, is_masked = (masked) };                           \
        call;                                                                  \
        break;                                                                 \
    }                                                                          \
    case 2: {                                                                  \
        enum { num_vecs = 2, is_masked = (masked) };                           \
        call;                                                                  \
        break;                                                                 \
    }                                                                          \
    case 3: {                                                                  \
        enum { num_vecs = 3, is_masked = (masked) };                           \
        call;                                                                  \
        break;                                                                 \
    }                                                                          \
    case 4: {                                                                  \
        enum { num_vecs = 4, is_masked = (masked) };                           \
        call;                                                                  \
        break;                                                                 \
    }                                                                          \
    default: {                                                                 \
        enum { num_vecs = 5, is_masked = (masked) };                           \
        call;                                                                  \
        break;                                                                 \
    }                                                                          \
    }
#define BY_KIND(call)                                                          \
    if (kernels->mask != NULL) {                                               \
        BY_WIDTH(1, call)                                                      \
    } else {                                                                   \
        BY_WIDTH(0, call)                                                      \
    }

/* Compiles each function twice, for two instruction sets. */
#define TWIN(type, name, arguments, ...)                                       \
    static type name##_anywhere arguments __VA_ARGS__ AVX2_TWIN(               \
        type, name, arguments, __VA_ARGS__)

#ifdef HAS_AVX2_TWINS
#define AVX2_TWIN(type, name, arguments, ...)                                  \
    TARGET_AVX2 static type name##_avx2 arguments __VA_ARGS__
#define CALL(name, ...)                                                        \
    (__builtin_cpu_supports("avx2") ? name##_avx2(__VA_ARGS__)                 \
                                    : name##_anywhere(__VA_ARGS__))
#else
#define AVX2_TWIN(type, name, arguments, ...)
#define CALL(name, ...) name##_anywhere(__VA_ARGS__)
#endif

TWIN(void, divide_by_kind,
     (const mrail_kernels_t *kernels, mrail_kernels_sum_t what,
      const double *factor, double *bytes, double *sum, double *load),
     {
         if (what == MRAIL_KERNELS_NO_SUM) {
             BY_KIND(divide(kernels, num_vecs, is_masked, MRAIL_KERNELS_NO_SUM,
                            factor, bytes, sum, load))
         } else if (what == MRAIL_KERNELS_SET_SUM) {
             BY_KIND(divide(kernels, num_vecs, is_masked, MRAIL_KERNELS_SET_SUM,
                            factor, bytes, sum, load))
         } else {
             BY_KIND(divide(kernels, num_vecs, is_masked, MRAIL_KERNELS_ADD_SUM,
                            factor, bytes, sum, load))
         }
     })

TWIN(void, load_by_kind,
     (const mrail_kernels_t *kernels, const double *bytes, double *load),
     {BY_WIDTH(0, load_rows(kernels, num_vecs, bytes, load))})

TWIN(uint32_t, small_by_width,
     (const mrail_kernels_t *kernels, const double *bytes, double least,
      uint32_t first),
     {
         uint32_t found;

         BY_WIDTH(0, found = find_small(kernels, num_vecs, bytes, least, first))
         return found;
     })

TWIN(uint32_t, over_by_width,
     (const mrail_kernels_t *kernels, const double *bytes, const double *excess,
      uint32_t first),
     {
         uint32_t found;

         BY_WIDTH(0, found = find_over(kernels, num_vecs, bytes, excess, first))
         return found;
     })

TWIN(double, shortest_by_kind,
     (const mrail_kernels_t *kernels, const double *length), {
         double total;

         BY_KIND(total = shortest(kernels, num_vecs, is_masked, length))
         return total;
     })

TWIN(void, exp_twin, (uint32_t count, const double *x, double *exp),
     { exp_of(count, x, exp); })

TWIN(double, raise_twin,
     (uint32_t count, const mrail_kernels_step_t *step, const double *load,
      double *dual, double *rise),
     { return raise_all(count, step, load, dual, rise); })

TWIN(double, max_twin, (uint32_t count, const double *value),
     { return most_of_all(count, value); })

TWIN(double, dot_twin, (uint32_t count, const double *a, const double *b),
     { return dot(count, a, b); })

static void kernels_check(const mrail_kernels_t *kernels)
{
    assert(kernels->width >= MRAIL_KERNELS_VECTOR);
    assert(kernels->width <= MRAIL_KERNELS_MAX_WIDTH);
    assert(kernels->width % MRAIL_KERNELS_VECTOR == 0);
    (void)kernels;
}

void mrail_kernels_divide(const mrail_kernels_t *kernels,
                          mrail_kernels_sum_t what, const double *factor,
                          double *bytes, double *sum, double *load)
{
    kernels_check(kernels);
    CALL(divide_by_kind, kernels, what, factor, bytes, sum, load);
}

void mrail_kernels_load(const mrail_kernels_t *kernels, const double *bytes,
                        double *load)
{
    kernels_check(kernels);
    CALL(load_by_kind, kernels, bytes, load);
}

double mrail_kernels_shortest(const mrail_kernels_t *kernels,
                              const double *length)
{
    kernels_check(kernels);
    return CALL(shortest_by_kind, kernels, length);
}

uint32_t mrail_kernels_find_small(const mrail_kernels_t *kernels,
                                  const double *bytes, double least,
                                  uint32_t first)
{
    kernels_check(kernels);
    return CALL(small_by_width, kernels, bytes, least, first);
}

uint32_t mrail_kernels_find_over(const mrail_kernels_t *kernels,
                                 const double *bytes, const double *excess,
                                 uint32_t first)
{
    kernels_check(kernels);
    return CALL(over_by_width, kernels, bytes, excess, first);
}

void mrail_kernels_exp(uint32_t count, const double *x, double *exp)
{
    assert(count % MRAIL_KERNELS_VECTOR == 0);
    CALL(exp_twin, count, x, exp);
}

double mrail_kernels_raise(uint32_t count, const mrail_kernels_step_t *step,
                           const double *load, double *dual, double *rise)
{
    assert(count % MRAIL_KERNELS_VECTOR == 0);
    return CALL(raise_twin, count, step, load, dual, rise);
}

double mrail_kernels_max(uint32_t count, const double *value)
{
    assert(count % MRAIL_KERNELS_VECTOR == 0);
    return CALL(max_twin, count, value);
}

double mrail_kernels_dot(uint32_t count, const double *a, const double *b)
{
    assert(count % MRAIL_KERNELS_VECTOR == 0);
    return CALL(dot_twin, count, a, b);
}
