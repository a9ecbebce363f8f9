/*
 * The bandwidth that a rank announces for its rail: the rate of the port, and
 * the measured bandwidth in each direction. Pure.
 *
 * A new value may invalidate the plan and its warm start on all ranks, so two
 * rules suppress noise. First, the port rate is announced until the measurement
 * falls below MCA_COLL_MRAIL_DEGRADED of it, because the rail carries other
 * traffic or is degraded. It is announced again when the measurement exceeds
 * MCA_COLL_MRAIL_RECOVERED of it. Second, a new value must differ from the
 * announced one by more than MCA_COLL_MRAIL_LEAST_CHANGE.
 */
#ifndef MRAIL_MPI_COLL_RAIL_VIEW_H
#define MRAIL_MPI_COLL_RAIL_VIEW_H

#include <stdint.h>

/* Fractions of the port rate. */
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

/* Returns the port rate to announce, in bytes per second; 0: the rail is down.
 * `last` is the one announced before. */
static inline uint64_t mca_coll_mrail_rail_port(uint64_t last, double port)
{
    return mca_coll_mrail_rail_announce(last, port);
}

/* Returns the measured bandwidth to announce, in bytes per second; 0: unknown,
 * because the rail was idle. `last` is the one announced before, `live` the
 * measured one (0: unknown), and `port` the rate of the port. */
static inline uint64_t mca_coll_mrail_rail_live(uint64_t last, double live,
                                                double port)
{
    int was_degraded =
        last > 0 && (double)last < MCA_COLL_MRAIL_RECOVERED * port;
    double limit =
        was_degraded ? MCA_COLL_MRAIL_RECOVERED : MCA_COLL_MRAIL_DEGRADED;

    if (live <= 0) {
        return 0;
    }
    return mca_coll_mrail_rail_announce(last,
                                        (live < limit * port) ? live : port);
}

#endif
