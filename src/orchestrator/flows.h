/*
 * Divides demands over their paths with minimal congestion, and proves a lower
 * bound. Phase 2 then minimizes the relayed bytes within that congestion.
 *
 * In this file, a lane is an alternative path of a demand, not a queue pair. A
 * path has an out part and an in part: lane r of the demand's out row, then
 * lane r of its in row. Between nodes, a lane is a rail, and the rows belong to
 * the two nodes, or to the two ranks if ranks reach rails in different ways.
 * Within a node, a lane is the rank that relays. A row has one slot per lane,
 * which holds the links and the number of relays, or marks the lane as closed.
 * Demands share rows, so an iteration over all demands takes a few vector
 * operations per demand.
 *
 * The load of a link is its bytes divided by its capacity, in seconds if
 * capacities are in bytes per second. The congestion is the largest load, and
 * no exchange can finish sooner.
 *
 * Each link has a dual price, initially 0. A path's share is proportional to
 * its weight times e^(-price) for each of its links. A price rises while the
 * load exceeds the target congestion. It falls, but not below 0, while the load
 * is under the target. This is dual ascent. Among all divisions within the
 * capacities, it approaches the one nearest to the weights (in relative
 * entropy). If no division is within the capacities, some prices rise without
 * limit, and by linear programming duality their rises prove a lower bound:
 *
 *   sum over demands (bytes x the shortest path, with the rises as lengths)
 *   -----------------------------------------------------------------------
 *             sum over links (capacity x the rise)
 *
 * Bytes that must cross a link add its length to the numerator.
 *
 * For any lengths, this value is a lower bound on the congestion of every
 * division. The reason is that bytes times path length, summed over the
 * demands, equals length times load times capacity, summed over the links, and
 * no load exceeds the congestion. The search narrows the interval between the
 * best bound and the best division, which is a single iteration or the mean of
 * several.
 *
 * An iteration need not meet a limit by itself. Incremental repair
 * (flows_repair.c) visits each demand, and moves the excess of links to lanes
 * with spare capacity. The full links then yield better prices.
 *
 * Phase 2 is the same ascent with the congestion as the target and smaller
 * weights: each relay of a path multiplies the weight by a constant factor. Its
 * bound comes from Lagrangian duality: the minimum, over the demands, of the
 * sum of relays and prices, less the prices times the capacities.
 *
 * Source: multiplicative weights of Garg and Koenemann (SIAM J. Comput. 37(2),
 * 2007), as in [NIMBLE] IV-B, but with additive lengths and all demands in each
 * iteration.
 *
 * Results are bit-identical on all platforms with IEEE 754 doubles. The code
 * uses only +, -, x, /, square roots and comparisons, in a fixed order, and is
 * compiled without contraction to fused operations. No I/O and no clock. One
 * thread at a time may use an object.
 */
#ifndef MRAIL_ORCHESTRATOR_FLOWS_H
#define MRAIL_ORCHESTRATOR_FLOWS_H

#include <stdint.h>

#define MRAIL_FLOWS_MAX_LANES 20
#define MRAIL_FLOWS_SLOT_LINKS 4
#define MRAIL_FLOWS_BRANCH_LINKS 3
#define MRAIL_FLOWS_MAX_BRANCHES 16
#define MRAIL_FLOWS_NO_LINK UINT32_MAX

/* One lane of a row. All bytes of the slot cross its links and, if it has
 * branches, one of its branches. */
typedef struct mrail_flows_slot {
    uint32_t link[MRAIL_FLOWS_SLOT_LINKS]; /* MRAIL_FLOWS_NO_LINK if unused */
    uint32_t first_branch;
    uint8_t num_branches; /* at most MRAIL_FLOWS_MAX_BRANCHES */
    uint8_t relays;       /* 0 to 2 */
    uint8_t is_closed;
} mrail_flows_slot_t;

/* One of several ways through a slot, such as one of its relays. The branches
 * of a slot share no link with each other or with the slot. */
typedef struct mrail_flows_branch {
    uint32_t link[MRAIL_FLOWS_BRANCH_LINKS];
} mrail_flows_branch_t;

typedef struct mrail_flows_links {
    uint32_t num_links;
    const double *capacity; /* by link, > 0 */
    uint32_t num_lanes;     /* 1 to MRAIL_FLOWS_MAX_LANES */
    /* Cut set of each link, or MRAIL_FLOWS_NO_LINK. NULL if there are no
     * sets. */
    const uint32_t *set;
    uint32_t num_sets;
    /* Parent of each link, or MRAIL_FLOWS_NO_LINK. Every byte on a parent also
     * crosses one of the links that name it. */
    const uint32_t *parent;
} mrail_flows_links_t;

/* Input of a division. */
typedef struct mrail_flows_problem {
    uint32_t num_rows;
    const mrail_flows_slot_t *slot; /* num_rows x num_lanes */
    /* Branches of all slots. The caller owns them, and must not change them
     * once they are loaded. */
    const mrail_flows_branch_t *branch;
    uint32_t num_branches;
    uint32_t num_demands;
    const uint32_t *row; /* by demand: out row and in row, which differ */
    /* By demand, as bits. At least one lane is open in both rows. No path
     * contains a link twice. */
    const uint32_t *lanes;
    const double *demand; /* bytes per demand, > 0 */
    /* Bytes by link that no division can move. NULL if none. */
    const double *base;
    /* Weights by demand and lane, mrail_flows_stride() apart, which replace
     * those derived from link capacities. 0 if the lane is not allowed. */
    const double *weight;
} mrail_flows_problem_t;

typedef struct mrail_flows mrail_flows_t;

/* Creates an object for these links. The caller must not change or free them
 * while the object exists. Returns 0 or -ENOMEM. */
int mrail_flows_create(const mrail_flows_links_t *links,
                       mrail_flows_t **flows_p);
void mrail_flows_destroy(mrail_flows_t *flows);

/* Loads the next problem. The caller must not change or free its arrays until
 * the division is complete; slots are copied. Existing rows must stay the same,
 * but a problem may add rows or use only some of them. Prices are kept as a
 * warm start for similar problems. Returns 0, or -ENOMEM with no problem
 * loaded. */
int mrail_flows_load(mrail_flows_t *flows,
                     const mrail_flows_problem_t *problem);
/* Resets all prices to 0. */
void mrail_flows_reset(mrail_flows_t *flows);

/* Phase 1. Divides until the congestion is proved to be at most 1 + gap (> 0)
 * times the minimum, or until max_iterations (> 0) is reached. Returns the
 * number of iterations. */
unsigned mrail_flows_balance(mrail_flows_t *flows, double gap,
                             unsigned max_iterations);

/* Phase 2. Reduces the relayed bytes within a congestion of `limit`. The goal
 * is 1 + gap (> 0) times the proven minimum, plus 1/10000 of all bytes. `limit`
 * must not be below the congestion of the last division, which remains if no
 * better one is found. Returns the number of iterations, at most
 * max_iterations. */
unsigned mrail_flows_shorten(mrail_flows_t *flows, double limit, double gap,
                             unsigned max_iterations);

/* Runs both phases in one search. Succeeds if the minimum congestion is the
 * load of a cut set, and if `tries` iterations find a division within `gap` of
 * it. Writes the permitted congestion to *limit_p. Returns the number of
 * iterations, or 0 if it found none and both phases are needed. */
unsigned mrail_flows_warm_start(mrail_flows_t *flows, double gap,
                                double relayed_gap, unsigned tries,
                                unsigned max_iterations, double *limit_p);

/* Divides as close to the weights as a congestion of `limit` allows. Returns
 * the number of iterations, or -ERANGE if max_iterations was not enough; the
 * last division then remains. Does not update the bounds. */
int mrail_flows_fit(mrail_flows_t *flows, double limit,
                    unsigned max_iterations);

/* Divides by the weights, then moves the excess over `limit` to lanes with
 * spare capacity, fewest relays first. Returns 0, or -ERANGE if that fails; the
 * last division then remains. Does not update the bounds. */
int mrail_flows_repair(mrail_flows_t *flows, double limit);

/* To reduce the number of pieces, merges parts of less than `least` bytes into
 * one lane of their demand. The congestion stays within `limit`, and relays do
 * not increase. */
void mrail_flows_merge(mrail_flows_t *flows, double least, double limit);

/* Returns the number of array entries per demand: at least the number of
 * lanes. */
uint32_t mrail_flows_stride(const mrail_flows_t *flows);
/* Returns the bytes by demand and lane. They add up to the demand, except for
 * rounding. */
const double *mrail_flows_bytes(const mrail_flows_t *flows);
/* Returns the bytes by branch. Those of a slot add up to its bytes, without
 * those in `base`, except for rounding. */
const double *mrail_flows_branch_bytes(const mrail_flows_t *flows);
/* Return the congestion of the division, and its lower bound, in seconds. */
double mrail_flows_congestion(const mrail_flows_t *flows);
double mrail_flows_bound(const mrail_flows_t *flows);
/* Return the bytes times relays, and the lower bound that mrail_flows_shorten()
 * proved for its limit. */
double mrail_flows_relayed(const mrail_flows_t *flows);
double mrail_flows_relayed_bound(const mrail_flows_t *flows);

#endif
