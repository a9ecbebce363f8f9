/*
 * Passes over all demands of a division (flows.h) and over all links. The
 * planner spends its time here. Vectors have four doubles; the code uses AVX2
 * where the processor has it. Each lane and each sum has the same order of
 * operations everywhere, so results are equal.
 *
 * Rows have `width` slots, a multiple of MRAIL_PHASES_VECTOR, at most
 * MRAIL_PHASES_MAX_WIDTH. Pure.
 */
#ifndef MRAIL_ORCHESTRATOR_PHASES_H
#define MRAIL_ORCHESTRATOR_PHASES_H

#include <stdint.h>

#define MRAIL_PHASES_VECTOR 4
#define MRAIL_PHASES_MAX_WIDTH 20

typedef struct mrail_phases {
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
} mrail_phases_t;

typedef enum mrail_phases_sum {
    MRAIL_PHASES_NO_SUM, /* sum is unchanged */
    MRAIL_PHASES_SET_SUM,
    MRAIL_PHASES_ADD_SUM
} mrail_phases_sum_t;

/* Divides each demand among its lanes in proportion to the product of its rows'
 * factors (one product > 0). Sets `bytes`, sets or adds to `sum`, and adds to
 * the load of the slots of both rows. */
void mrail_phases_divide(const mrail_phases_t *phases, mrail_phases_sum_t what,
                         const double *factor, double *bytes, double *sum,
                         double *load);

/* Adds the bytes of demands to the load of the slots of both rows. */
void mrail_phases_load(const mrail_phases_t *phases, const double *bytes,
                       double *load);

/* Sum over the demands of bytes times the shortest lane. */
double mrail_phases_shortest(const mrail_phases_t *phases,
                             const double *length);

/* First demand from `first` on with a lane above 0 and below `least` bytes; or
 * num_demands. */
uint32_t mrail_phases_find_small(const mrail_phases_t *phases,
                                 const double *bytes, double least,
                                 uint32_t first);

/* First demand from `first` on with bytes on a lane whose slots have an excess
 * > 0; or num_demands. */
uint32_t mrail_phases_find_over(const mrail_phases_t *phases,
                                const double *bytes, const double *excess,
                                uint32_t first);

/* Functions of arrays whose `count` is a multiple of MRAIL_PHASES_VECTOR: */

/* Approximates e^-x for x >= 0 by (1 + x / 1024)^-1024. Unlike the C library's
 * exp(), the result is equal on all machines. The error only changes the unit
 * of prices. */
void mrail_phases_exp(uint32_t count, const double *x, double *exp);

typedef struct mrail_phases_step {
    double per_target;     /* 1 / load of constant prices */
    double least, most;    /* limits of a load relative to the target */
    double step, momentum; /* factors of the load above the target, and of the
                            * last rise */
} mrail_phases_step_t;

/* Updates prices, not below 0. Returns the largest price. */
double mrail_phases_raise(uint32_t count, const mrail_phases_step_t *step,
                          const double *load, double *price, double *rise);

/* The largest value (>= 0), and the dot product of two arrays. */
double mrail_phases_most(uint32_t count, const double *value);
double mrail_phases_dot(uint32_t count, const double *a, const double *b);

#endif
