/*
 * Splits demands over the paths that each may take, so that the most loaded link
 * is loaded as little as possible; with a proof of how little is possible.
 *
 * A demand's bytes are divided among its candidate paths; a link's load is what
 * goes over it, divided by its capacity: seconds, if capacities are bytes per
 * second.  The largest load is the congestion: no exchange can end before.
 *
 * Each link has a price, 0 at first.  A path's share of its demand is
 * proportional to its own weight times e^(-price) of each of its links; prices
 * rise where the load is above the least congestion that may still be possible,
 * and fall, not below 0, where it is under.  That is the dual ascent of finding,
 * among all divisions that keep within the capacities, the one nearest to the
 * weights (relative entropy).  If none keeps within them, some prices rise for
 * ever, and how they rise proves it: by the duality of linear programs,
 *
 *     sum over demands (bytes x the shortest path, with the rises as lengths)
 *     -----------------------------------------------------------------------
 *               sum over links (capacity x the rise)
 *
 * is a congestion that no division can be below, whatever the lengths are: bytes
 * times the path that they take, summed up over the demands, is length times load
 * times capacity, summed up over the links, and no load is above the congestion.
 * Both ends close in: the best division so far (of a round, or the mean of some
 * rounds), and the best bound.
 *
 * Source: the multiplicative weights of Garg and Koenemann (SIAM J. Comput. 37(2),
 * 2007), as NIMBLE IV-B uses them, with additive lengths and all demands in each
 * round.
 *
 * Results are the same to the bit on all machines with IEEE 754 doubles: nothing
 * but +, -, x, / and comparisons, in a fixed order (this file is compiled without
 * contraction to fused operations).  No I/O, no clock; one thread per object.
 */
#ifndef MRAIL_ORCHESTRATOR_FLOWS_H
#define MRAIL_ORCHESTRATOR_FLOWS_H

#define MRAIL_FLOWS_MAX_LINKS 8 /* of a path */

/* What is to be divided.  Arrays of n + 1 say where the entries of each of n begin,
 * and at last where they end. */
typedef struct mrail_flows_problem {
    unsigned num_links;
    const double *capacity;        /* of each link, > 0 */
    unsigned num_demands;
    const double *demand;          /* bytes of each, > 0 */
    const unsigned *first_path;    /* num_demands + 1; each has a path */
    const unsigned *first_link;    /* first_path[num_demands] + 1; each path has
                                      1 to MRAIL_FLOWS_MAX_LINKS links */
    const unsigned *link;          /* of the paths; none twice in one */
} mrail_flows_problem_t;

typedef struct mrail_flows mrail_flows_t;

/* The problem and its arrays stay the caller's, and stay as they are, but for
 * `demand`, which may change between calls (prices are kept: the next division
 * begins where the last one ended).  0, or -ENOMEM. */
int mrail_flows_create(const mrail_flows_problem_t *problem,
                       mrail_flows_t **flows_p);
void mrail_flows_destroy(mrail_flows_t *flows);

/* Divides, until the congestion is proved to be at most 1 + gap (> 0) times the
 * least one, or max_rounds (> 0) are over: the number of rounds. */
unsigned mrail_flows_spread(mrail_flows_t *flows, double gap,
                            unsigned max_rounds);

/* Bytes on each path; those of a demand's paths sum up to it, but for rounding. */
const double *mrail_flows_bytes(const mrail_flows_t *flows);
/* The congestion of these, and one that no division is below: seconds. */
double mrail_flows_congestion(const mrail_flows_t *flows);
double mrail_flows_bound(const mrail_flows_t *flows);

#endif
