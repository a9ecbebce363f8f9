/*
 * Divides demands over their paths so that the congestion is minimal, with a
 * proved lower bound. Phase 2 minimizes the relayed bytes within that
 * congestion.
 *
 * A path is an out part and an in part: lane r of the demand's out row, then
 * lane r of its in row. In this file a lane is an alternative path of a demand,
 * not a queue pair. Between nodes a lane is a rail, and the rows belong to the
 * two nodes. They belong to the two ranks if ranks reach rails in different
 * ways. Within a node a lane is the rank that relays. A row has a slot for each
 * lane: its links and its number of relays, or the mark that it is closed.
 * Demands share rows, so an iteration over all demands takes a few vector
 * operations per demand.
 *
 * The load of a link is its bytes divided by its capacity: seconds, if
 * capacities are bytes per second. The largest load is the congestion. No
 * exchange can end earlier.
 *
 * Each link has a dual price, initially 0. The share of a path is proportional
 * to its weight times e^(-price) of each of its links. A price rises while the
 * load is above the target congestion. It falls, not below 0, while the load is
 * under the target. This is the dual ascent for the division nearest to the
 * weights (relative entropy) among all divisions within the capacities. If no
 * division is within the capacities, some prices rise without limit. By linear
 * programming duality, the rises prove a lower bound:
 *
 *   sum over demands (bytes x the shortest path, with the rises as lengths)
 *   -----------------------------------------------------------------------
 *             sum over links (capacity x the rise)
 *
 * No division has a congestion below this value, for any lengths. Reason: bytes
 * times path length, summed over the demands, equals length times load times
 * capacity, summed over the links. No load exceeds the congestion. The search
 * narrows the interval between the best bound and the best division. That
 * division is one iteration's, or the mean of some iterations.
 *
 * An iteration need not meet a limit by itself. Incremental repair
 * (flows_repair.c) moves the excess of links to lanes with room, demand by
 * demand. The full links then give better prices.
 *
 * Phase 2 is the same ascent with the congestion as the target and
 * smaller weights: each relay of a path multiplies the weight by a constant
 * factor. Lagrangian duality gives its bound. It is the least sum of relays and
 * prices over the demands, less the prices times the capacities.
 *
 * Source: multiplicative weights of Garg and Koenemann (SIAM J. Comput. 37(2),
 * 2007), as in [NIMBLE] IV-B, with additive lengths and all demands in each
 * iteration.
 *
 * Results are the same, bit by bit, on all machines with IEEE 754 doubles. The
 * code uses only +, -, x, /, square roots and comparisons, in a fixed order,
 * and is compiled without contraction to fused operations. No I/O, no clock;
 * one thread per object.
 */
#ifndef MRAIL_ORCHESTRATOR_FLOWS_H
#define MRAIL_ORCHESTRATOR_FLOWS_H

#include <stdint.h>

#define MRAIL_FLOWS_MAX_LANES 20
#define MRAIL_FLOWS_SLOT_LINKS 4
#define MRAIL_FLOWS_NO_LINK UINT32_MAX

/* One lane of a row. */
typedef struct mrail_flows_slot {
    uint32_t link[MRAIL_FLOWS_SLOT_LINKS]; /* MRAIL_FLOWS_NO_LINK: unused */
    uint8_t relays;                        /* 0 to 2 */
    uint8_t is_closed;
} mrail_flows_slot_t;

typedef struct mrail_flows_links {
    uint32_t num_links;
    const double *capacity; /* by link, > 0 */
    uint32_t num_lanes;     /* 1 to MRAIL_FLOWS_MAX_LANES */
    /* Number of the cut set of each link, or MRAIL_FLOWS_NO_LINK. NULL: no
     * sets. */
    const uint32_t *set;
    uint32_t num_sets;
    /* Parent of each link, or MRAIL_FLOWS_NO_LINK. Bytes of a parent pass one
     * of the links that name it. */
    const uint32_t *parent;
} mrail_flows_links_t;

/* Input of a division. */
typedef struct mrail_flows_problem {
    uint32_t num_rows;
    const mrail_flows_slot_t *slot; /* num_rows x num_lanes */
    uint32_t num_demands;
    const uint32_t *row;   /* by demand: out row and in row; they differ */
    const uint32_t *lanes; /* by demand, bits. At least one lane is open in both
                            * rows. No path contains a link twice. */
    const double *demand;  /* bytes of each, > 0 */
    /* For mrail_flows_fit() and mrail_flows_repair(); otherwise NULL. */
    const double *base;   /* bytes of other demands, by link */
    const double *weight; /* Weights by demand and lane, mrail_flows_stride()
                          * apart, in place of those from link capacities. 0:
                          * the lane is not allowed. */
} mrail_flows_problem_t;

typedef struct mrail_flows mrail_flows_t;

/* Creates an object for these links. The links stay the caller's and do not
 * change. 0, or -ENOMEM. */
int mrail_flows_create(const mrail_flows_links_t *links,
                       mrail_flows_t **flows_p);
void mrail_flows_destroy(mrail_flows_t *flows);

/* Loads the next problem. Its arrays stay the caller's, unchanged until the
 * division ends; slots are copied. Existing rows stay the same; a problem may
 * add rows or use fewer. Prices are kept as a warm start for similar problems.
 * 0; or -ENOMEM, and no problem is loaded. */
int mrail_flows_load(mrail_flows_t *flows,
                     const mrail_flows_problem_t *problem);
/* Resets all prices to 0. */
void mrail_flows_reset(mrail_flows_t *flows);

/* Phase 1. Divides until the congestion is proved to be at most 1 + gap (> 0)
 * times the minimum, or for max_iterations (> 0). Returns the number of
 * iterations. */
unsigned mrail_flows_balance(mrail_flows_t *flows, double gap,
                             unsigned max_iterations);

/* Phase 2. Reduces the relayed bytes within a congestion of `limit`. The goal
 * is 1 + gap (> 0) times the proved minimum, plus 1/10000 of all bytes. Returns
 * the number of iterations, at most max_iterations. `limit` must not be below
 * the congestion of the last division. That division stays if no better one is
 * found. */
unsigned mrail_flows_shorten(mrail_flows_t *flows, double limit, double gap,
                             unsigned max_iterations);

/* Both phases at once. Succeeds if the minimum congestion is the load of a cut
 * set and `tries` iterations find a division within `gap` of it. Stores that
 * congestion as the limit. Returns the number of iterations; 0 means that no
 * division was made and both phases are necessary. */
unsigned mrail_flows_warm_start(mrail_flows_t *flows, double gap,
                                double relayed_gap, unsigned tries,
                                unsigned max_iterations, double *limit_p);

/* Divides as near to the weights as a congestion of `limit` allows. Returns the
 * number of iterations. -ERANGE: max_iterations found none, and the last
 * division stays. Proves nothing. */
int mrail_flows_fit(mrail_flows_t *flows, double limit,
                    unsigned max_iterations);

/* Divides by the weights, then moves the excess over `limit` to lanes with
 * room, fewest relays first. 0; or -ERANGE: that fails, and the last division
 * stays. Proves nothing. */
int mrail_flows_repair(mrail_flows_t *flows, double limit);

/* Merges parts below `least` bytes into one lane of their demand, for fewer
 * pieces. The congestion stays within `limit`, and the number of relays does
 * not rise. */
void mrail_flows_merge(mrail_flows_t *flows, double least, double limit);

/* Entries between the bytes of two demands: at least the number of lanes. */
uint32_t mrail_flows_stride(const mrail_flows_t *flows);
/* Bytes by demand and lane. Their sum per demand is the demand, up to
 * rounding. */
const double *mrail_flows_bytes(const mrail_flows_t *flows);
/* Congestion of the division and its lower bound, in seconds. */
double mrail_flows_congestion(const mrail_flows_t *flows);
double mrail_flows_bound(const mrail_flows_t *flows);
/* Bytes times relays, and the lower bound of mrail_flows_shorten() within its
 * limit. */
double mrail_flows_relayed(const mrail_flows_t *flows);
double mrail_flows_relayed_bound(const mrail_flows_t *flows);

#endif
