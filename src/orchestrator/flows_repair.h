/*
 * Declares the functions of incremental repair (flows_repair.c) that the code
 * for branches (flows_branches.c) shares. Few topologies have branches, so the
 * loops do not contain their code.
 */
#ifndef MRAIL_ORCHESTRATOR_FLOWS_REPAIR_H
#define MRAIL_ORCHESTRATOR_FLOWS_REPAIR_H

#include "flows_internal.h"

#include "base/util.h"

/* Relative rounding tolerance. A link this close to the limit counts as
 * full. */
#define ROUNDING_TOLERANCE 1e-9

typedef struct repair {
    mrail_flows_t *flows;
    double limit;
    const uint32_t *out, *in; /* links of the demand's lane 0 */
    uint32_t row_out, row_in, first_out, first_in,
        open;                  /* rows, first slots, and lanes of the demand */
    double *all_bytes, *bytes; /* bytes of all demands, and of this demand */
    double *branch_bytes;
} repair_t;

/* Updates the marks of all slots that use a link. */
void mrail_repair_mark_link(mrail_flows_t *flows, uint32_t link);

static MRAIL_INLINE void repair_add_to_link(const repair_t *repair,
                                            uint32_t link, double bytes)
{
    double *excess = &repair->flows->excess[link], before = *excess;

    *excess = before + bytes;
    if (((before > 0) != (*excess > 0)) || ((before < 0) != (*excess < 0))) {
        mrail_repair_mark_link(repair->flows, link);
    }
}

static MRAIL_INLINE int repair_is_full(const repair_t *repair, uint32_t link)
{
    return repair->flows->excess[link] >=
           -ROUNDING_TOLERANCE * repair->limit * repair->flows->width[link];
}

/* The remaining functions require that some slot has branches, except
 * mrail_repair_balance_forks().
 *
 * Return the larger excess of the branches at both ends of a lane; 1 if a
 * branch of the slot is above the limit; and 1 if the lane has branches at one
 * end. */
double mrail_repair_forks_excess(const repair_t *repair, uint32_t lane);
uint32_t mrail_repair_is_fork_over(const mrail_flows_t *flows, uint32_t s);
int mrail_repair_has_fork(const repair_t *repair, uint32_t lane);

/* In each fork, moves bytes from branches above the limit to other branches. */
void mrail_repair_balance_forks(const repair_t *repair);
/* Adds bytes, possibly negative, to the branches at both ends of a lane. */
void mrail_repair_add_to_forks(const repair_t *repair, uint32_t lane,
                               double bytes);

/* Return the length of the shortest branches at both ends of a lane, and the
 * number of ends at which all branches are full. */
double mrail_repair_forks_length(const repair_t *repair, uint32_t lane);
unsigned mrail_repair_num_full_forks(const repair_t *repair, uint32_t lane);
/* Makes each branch of a slot longer than the shortest one by at least `by`, if
 * all branches are full. The length of a link never exceeds `most`. */
void mrail_repair_lengthen_fork(const repair_t *repair, uint32_t s, double by,
                                double most);

#endif
