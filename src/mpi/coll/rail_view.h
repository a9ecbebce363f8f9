/*
 * The bandwidth that a rank announces for its rail: the rate of the port, or
 * the measured bandwidth if the rail is degraded or carries other traffic.
 * Pure.
 *
 * A new value discards the plan and its warm start on all ranks. Two rules
 * therefore keep noise away. A measurement replaces the port rate when it falls
 * below MCA_COLL_MRAIL_DEGRADED of it, and the port rate returns only when the
 * measurement exceeds MCA_COLL_MRAIL_RECOVERED of it. Between them, what was
 * announced last decides. And an announced value changes by a tenth or more.
 */
#ifndef MRAIL_MPI_COLL_RAIL_VIEW_H
#define MRAIL_MPI_COLL_RAIL_VIEW_H

#include <stdint.h>

/* Fractions of the port rate. */
#define MCA_COLL_MRAIL_DEGRADED 0.75
#define MCA_COLL_MRAIL_RECOVERED 0.9
/* Fraction of the announced value. */
#define MCA_COLL_MRAIL_LEAST_CHANGE 0.1

/* Returns the bandwidth to announce, in bytes per second. `last` is the one
 * announced before (0: none, or the rail was down), `live` the measured one (0:
 * unknown, because the rail was idle), and `port` the rate of the port. */
static inline uint64_t mca_coll_mrail_rail_view(uint64_t last, double live,
                                                double port)
{
    int was_degraded =
        last > 0 && (double)last < MCA_COLL_MRAIL_RECOVERED * port;
    double limit = was_degraded ? MCA_COLL_MRAIL_RECOVERED
                                : MCA_COLL_MRAIL_DEGRADED;
    double now = (live > 0 && live < limit * port) ? live : port;
    double change = now - (double)last;

    change = (change < 0) ? -change : change;
    return (change > MCA_COLL_MRAIL_LEAST_CHANGE * (double)last) ? (uint64_t)now
                                                                : last;
}

#endif
