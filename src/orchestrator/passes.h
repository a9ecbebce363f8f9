/*
 * Passes over all demands of a division (flows.h): where its time goes.  Vectors of
 * four lanes, in code for AVX2 where the processor has it; each lane and each sum
 * is calculated in the same order everywhere, so the results are the same.
 *
 * Rows have `width` slots, a multiple of MRAIL_PASSES_VECTOR, at most
 * MRAIL_PASSES_MAX_WIDTH.  Pure.
 */
#ifndef MRAIL_ORCHESTRATOR_PASSES_H
#define MRAIL_ORCHESTRATOR_PASSES_H

#include <stdint.h>

#define MRAIL_PASSES_VECTOR 4
#define MRAIL_PASSES_MAX_WIDTH 20

typedef struct mrail_passes {
    uint32_t num_demands, width;
    const uint32_t *row;  /* of each demand: out, in */
    const double *demand; /* bytes of each */
    /* Lanes that a demand must not take, although its rows have them: the number of
     * a mask of each demand; NULL: there are none. */
    const uint32_t *mask;
    const double *mask_factor; /* by mask, lane: 1, or 0 */
    const double *mask_length; /* likewise: 0, or longer than all that is not */
} mrail_passes_t;

/* Divides each demand among its lanes, in proportion to the product of its two
 * rows' factors (one at least > 0): `bytes` is set, `sum` grows by it, and so does
 * the load of the slots of both rows. */
void mrail_passes_divide(const mrail_passes_t *passes, const double *factor,
                         double *bytes, double *sum, double *load);

/* Sum over the demands of their bytes times their shortest lane. */
double mrail_passes_shortest(const mrail_passes_t *passes,
                             const double *length);

#endif
