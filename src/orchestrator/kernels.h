/*
 * Declares the kernels, which are loops over all demands of a division
 * (flows.h) and over all links. The planner spends most of its time here.
 * Vectors have four doubles; the code uses AVX2 if the processor has it. Every
 * lane and every sum uses the same order of operations on every platform, so
 * the results are identical.
 *
 * Rows have `width` slots: a multiple of MRAIL_KERNELS_VECTOR, at most
 * MRAIL_KERNELS_MAX_WIDTH.
 */
#ifndef MRAIL_ORCHESTRATOR_KERNELS_H
#define MRAIL_ORCHESTRATOR_KERNELS_H

#include <stdint.h>

#define MRAIL_KERNELS_VECTOR 4
#define MRAIL_KERNELS_MAX_WIDTH 20

typedef struct mrail_kernels {
    uint32_t num_demands, width;
    const uint32_t *row;  /* by demand: out row and in row, which differ */
    const double *demand; /* bytes per demand */
    /* By demand: number of the mask that excludes some lanes of its rows. NULL
     * if there are no masks. */
    const uint32_t *mask;
    const double *mask_factor; /* by mask and lane: 1, or 0 if excluded */
    /* by mask and lane: 0, or a length greater than all others if excluded */
    const double *mask_length;
    /* fraction of a demand below which a lane receives no bytes */
    double least_part;
} mrail_kernels_t;

typedef enum mrail_kernels_sum {
    MRAIL_KERNELS_NO_SUM, /* leaves `sum` unchanged */
    MRAIL_KERNELS_SET_SUM,
    MRAIL_KERNELS_ADD_SUM
} mrail_kernels_sum_t;

/* Divides each demand among its lanes in proportion to the product of its rows'
 * factors, at least one of which is > 0. Writes `bytes`, writes or adds to
 * `sum`, and adds to the load of the slots in both rows. */
void mrail_kernels_divide(const mrail_kernels_t *kernels,
                          mrail_kernels_sum_t what, const double *factor,
                          double *bytes, double *sum, double *load);

/* Adds the bytes of each demand to the load of the slots in both rows. */
void mrail_kernels_load(const mrail_kernels_t *kernels, const double *bytes,
                        double *load);

/* Returns the sum over the demands of bytes times the length of the shortest
 * lane. */
double mrail_kernels_shortest(const mrail_kernels_t *kernels,
                              const double *length);

/* Finds the first demand, from `first` on, with more than 0 but less than
 * `least` bytes on some lane. Returns num_demands if there is none. */
uint32_t mrail_kernels_find_small(const mrail_kernels_t *kernels,
                                  const double *bytes, double least,
                                  uint32_t first);

/* Finds the first demand, from `first` on, with bytes on a lane whose slots
 * have an excess > 0. Returns num_demands if there is none. */
uint32_t mrail_kernels_find_over(const mrail_kernels_t *kernels,
                                 const double *bytes, const double *excess,
                                 uint32_t first);

/* The following functions work on arrays whose `count` is a multiple of
 * MRAIL_KERNELS_VECTOR. */

/* Approximates e^-x for x >= 0 by (1 + x / 1024)^-1024. Unlike exp() of the C
 * library, the result is the same on all platforms. The error only changes the
 * unit of prices. */
void mrail_kernels_exp(uint32_t count, const double *x, double *exp);

typedef struct mrail_kernels_step {
    double per_target; /* 1 / load at which prices remain constant */
    /* range to which loads are clamped, relative to the target */
    double least, most;
    /* factors of the load above the target and of the last rise */
    double step, momentum;
} mrail_kernels_step_t;

/* Updates the prices, which never fall below 0. Returns the largest price. */
double mrail_kernels_raise(uint32_t count, const mrail_kernels_step_t *step,
                           const double *load, double *dual, double *rise);

/* Return the largest value (0 if all are negative), and the dot product of two
 * arrays. */
double mrail_kernels_max(uint32_t count, const double *value);
double mrail_kernels_dot(uint32_t count, const double *a, const double *b);

#endif
