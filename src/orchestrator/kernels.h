/*
 * Kernels: loops over all demands of a division (flows.h) and over all links.
 * The planner spends its time here. Vectors have four doubles; the code uses
 * AVX2 where the processor has it. Each lane and each sum has the same order of
 * operations everywhere, so results are equal.
 *
 * Rows have `width` slots, a multiple of MRAIL_KERNELS_VECTOR, at most
 * MRAIL_KERNELS_MAX_WIDTH. Pure.
 */
#ifndef MRAIL_ORCHESTRATOR_KERNELS_H
#define MRAIL_ORCHESTRATOR_KERNELS_H

#include <stdint.h>

#define MRAIL_KERNELS_VECTOR 4
#define MRAIL_KERNELS_MAX_WIDTH 20

typedef struct mrail_kernels {
    uint32_t num_demands, width;
    const uint32_t *row;  /* by demand: out row and in row; they differ */
    const double *demand; /* bytes of each */
    /* Mask number of each demand, for lanes of its rows that it must not take;
     * NULL: no masks. */
    const uint32_t *mask;
    const double *mask_factor; /* by mask, lane: 1, or 0 */
    const double *mask_length; /* by mask, lane: 0, or longer than all other
                                * lengths */
    double least_part;         /* of a demand; a lane with a smaller part gets
                                * nothing */
} mrail_kernels_t;

typedef enum mrail_kernels_sum {
    MRAIL_KERNELS_NO_SUM, /* sum is unchanged */
    MRAIL_KERNELS_SET_SUM,
    MRAIL_KERNELS_ADD_SUM
} mrail_kernels_sum_t;

/* Divides each demand among its lanes in proportion to the product of its rows'
 * factors (one product > 0). Sets `bytes`, sets or adds to `sum`, and adds to
 * the load of the slots of both rows. */
void mrail_kernels_divide(const mrail_kernels_t *kernels,
                          mrail_kernels_sum_t what, const double *factor,
                          double *bytes, double *sum, double *load);

/* Adds the bytes of demands to the load of the slots of both rows. */
void mrail_kernels_load(const mrail_kernels_t *kernels, const double *bytes,
                        double *load);

/* Sum over the demands of bytes times the shortest lane. */
double mrail_kernels_shortest(const mrail_kernels_t *kernels,
                              const double *length);

/* First demand from `first` on with a lane above 0 and below `least` bytes; or
 * num_demands. */
uint32_t mrail_kernels_find_small(const mrail_kernels_t *kernels,
                                  const double *bytes, double least,
                                  uint32_t first);

/* First demand from `first` on with bytes on a lane whose slots have an excess
 * > 0; or num_demands. */
uint32_t mrail_kernels_find_over(const mrail_kernels_t *kernels,
                                 const double *bytes, const double *excess,
                                 uint32_t first);

/* Functions of arrays whose `count` is a multiple of MRAIL_KERNELS_VECTOR: */

/* Approximates e^-x for x >= 0 by (1 + x / 1024)^-1024. Unlike the C library's
 * exp(), the result is equal on all machines. The error only changes the unit
 * of prices. */
void mrail_kernels_exp(uint32_t count, const double *x, double *exp);

typedef struct mrail_kernels_step {
    double per_target;     /* 1 / load of constant prices */
    double least, most;    /* limits of a load relative to the target */
    double step, momentum; /* factors of the load above the target, and of the
                            * last rise */
} mrail_kernels_step_t;

/* Updates prices, not below 0. Returns the largest price. */
double mrail_kernels_raise(uint32_t count, const mrail_kernels_step_t *step,
                           const double *load, double *dual, double *rise);

/* The largest value (>= 0), and the dot product of two arrays. */
double mrail_kernels_most(uint32_t count, const double *value);
double mrail_kernels_dot(uint32_t count, const double *a, const double *b);

#endif
