/*
 * Passes over all demands of a division (flows.h), and over all links: where its
 * time goes.  Vectors of four, in code for AVX2 where the processor has it; each
 * lane and each sum is calculated in the same order everywhere, so the results are
 * the same.
 *
 * Rows have `width` slots, a multiple of MRAIL_PHASES_VECTOR, at most
 * MRAIL_PHASES_MAX_WIDTH.  Pure.
 */
#ifndef MRAIL_ORCHESTRATOR_PHASES_H
#define MRAIL_ORCHESTRATOR_PHASES_H

#include <stdint.h>

#define MRAIL_PHASES_VECTOR 4
#define MRAIL_PHASES_MAX_WIDTH 20

typedef struct mrail_phases {
    uint32_t num_demands, width;
    const uint32_t *row; /* of each demand: out, in, which are different rows */
    const double *demand; /* bytes of each */
    /* Lanes that a demand must not take, although its rows have them: the number of
     * a mask of each demand; NULL: there are none. */
    const uint32_t *mask;
    const double *mask_factor; /* by mask, lane: 1, or 0 */
    const double *mask_length; /* likewise: 0, or longer than all that is not */
    double least_part;         /* of a demand: a lane that would get less gets
                                  nothing */
} mrail_phases_t;

typedef enum mrail_phases_sum {
    MRAIL_PHASES_NO_SUM, /* stays as it is */
    MRAIL_PHASES_SET_SUM,
    MRAIL_PHASES_ADD_SUM
} mrail_phases_sum_t;

/* Divides each demand among its lanes, in proportion to the product of its two
 * rows' factors (one at least > 0): `bytes` is set, `sum` set or grows by it,
 * and so does the load of the slots of both rows. */
void mrail_phases_divide(const mrail_phases_t *passes, mrail_phases_sum_t what,
                         const double *factor, double *bytes, double *sum,
                         double *load);

/* Adds the bytes of demands to the load of the slots of both rows. */
void mrail_phases_load(const mrail_phases_t *passes, const double *bytes,
                       double *load);

/* Sum over the demands of their bytes times their shortest lane. */
double mrail_phases_shortest(const mrail_phases_t *passes,
                             const double *length);

/* The first demand from `first` on that has less than `least` bytes on a lane, but some;
 * num_demands: there is none. */
uint32_t mrail_phases_find_small(const mrail_phases_t *passes,
                                 const double *bytes, double least,
                                 uint32_t first);

/* Likewise, that has some on a lane one of whose slots has an excess > 0. */
uint32_t mrail_phases_find_over(const mrail_phases_t *passes,
                                const double *bytes, const double *excess,
                                uint32_t first);

/* Of arrays whose `count` is a multiple of MRAIL_PHASES_VECTOR: */

/* e^-x for x >= 0, nearly: (1 + x / 1024)^-1024.  The same everywhere, unlike the
 * C library's; that it is not quite e^-x only gives prices another unit. */
void mrail_phases_exp(uint32_t count, const double *x, double *exp);

typedef struct mrail_phases_step {
    double per_target;     /* 1 / the load at which prices stay */
    double least, most;    /* no load counts for less, or more, of the target */
    double step, momentum; /* of the load above it, of the last rise */
} mrail_phases_step_t;

/* Prices rise, or fall, but not below 0; gives the highest. */
double mrail_phases_raise(uint32_t count, const mrail_phases_step_t *step,
                          const double *load, double *price, double *rise);

/* The largest of these (>= 0), and the sum of the products of two. */
double mrail_phases_most(uint32_t count, const double *value);
double mrail_phases_dot(uint32_t count, const double *a, const double *b);

#endif
