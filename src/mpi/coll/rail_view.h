/*
 * The bandwidth that a rank announces for its rail: the port rate, and
 * the measured bandwidth in each direction. The functions are pure.
 *
 * A new value may discard the plan and its warm start on all ranks, so two
 * rules suppress noise:
 *
 * - A measurement counts as the port rate until it falls below
 *   MCA_COLL_MRAIL_DEGRADED of the expected rate. The rail then carries other
 *   traffic or is degraded. The measurement counts as the port rate
 *   again when it exceeds MCA_COLL_MRAIL_RECOVERED of the expected rate.
 * - A rank announces a new value only if it differs from the old one by more
 *   than MCA_COLL_MRAIL_LEAST_CHANGE of the old one.
 *
 * The expected rate is the port rate, or less if the topology file states
 * further limits of the rail. The planner knows these limits, so a measurement
 * that they explain must not lower the port rate as well.
 */
#ifndef MRAIL_MPI_COLL_RAIL_VIEW_H
#define MRAIL_MPI_COLL_RAIL_VIEW_H

#include <stdint.h>

/* Fractions of the expected rate. */
#define MCA_COLL_MRAIL_DEGRADED 0.75
#define MCA_COLL_MRAIL_RECOVERED 0.9
/* Fraction of the announced value. */
#define MCA_COLL_MRAIL_LEAST_CHANGE 0.1

static inline uint64_t mca_coll_mrail_rail_announce(uint64_t last, double now)
{
    double change = now - (double)last;

    change = (change < 0) ? -change : change;
    return (change > MCA_COLL_MRAIL_LEAST_CHANGE * (double)last) ? (uint64_t)now
                                                                 : last;
}

/* Returns the port rate to announce, in bytes per second; 0 if the rail is
 * down. `last` is the rate announced before; `port`, the current one. */
static inline uint64_t mca_coll_mrail_rail_port(uint64_t last, double port)
{
    return mca_coll_mrail_rail_announce(last, port);
}

/* Returns the measured bandwidth to announce, in bytes per second; 0 if
 * unknown, because the rail was idle. `last` is the bandwidth announced before,
 * `live` the measured one (0 if unknown), `port` the port rate, and
 * `expected` the expected rate, at most `port`. */
static inline uint64_t mca_coll_mrail_rail_live(uint64_t last, double live,
                                                double port, double expected)
{
    int was_degraded =
        last > 0 && (double)last < MCA_COLL_MRAIL_RECOVERED * expected;
    double limit =
        was_degraded ? MCA_COLL_MRAIL_RECOVERED : MCA_COLL_MRAIL_DEGRADED;

    if (live <= 0) {
        return 0;
    }
    return mca_coll_mrail_rail_announce(last, (live < limit * expected) ? live
                                                                        : port);
}

#endif
