/*
 * Divides demands over their candidate paths: first the least congestion, with
 * a proved lower bound; then, within that congestion, the fewest relayed bytes.
 *
 * A path is a way out and a way in: choice r of the demand's row of ways out,
 * then choice r of its row of ways in. (The code calls a choice a lane. Between
 * nodes a lane is a rail, and the rows belong to the two nodes, or to the two
 * ranks if these reach rails in different ways. Within a node a lane is the
 * relaying rank.) A row has a slot for each lane: its links, its number of
 * relays, or a mark that it is closed. Demands share rows, so an iteration over
 * all demands needs a few vector operations for each.
 *
 * A demand's bytes are divided among its lanes. The load of a link is its bytes
 * divided by its capacity: seconds, if capacities are bytes per second. The
 * largest load is the congestion: no exchange ends sooner.
 *
 * Each link has a dual price, 0 at first. A path's share of its demand is
 * proportional to its own weight times e^(-price) of each of its links. A price
 * rises where the load is above the least congestion that may still be
 * possible, and falls, not below 0, where it is lower. This is the dual ascent
 * for the division that is nearest to the weights (relative entropy) among all
 * divisions within the capacities. If there is none, some prices rise for ever,
 * and their increases prove it, by linear-programming duality:
 *
 *     sum over demands (bytes x the shortest path, with the increases as lengths)
 *     --------------------------------------------------------------------------
 *               sum over links (capacity x the increase)
 *
 * is a lower bound of the congestion for any lengths. Bytes times the length of
 * their path, summed over the demands, equals length times load times capacity,
 * summed over the links, and no load is above the congestion. Both ends
 * converge: the best division so far (of an iteration, or the mean of some),
 * and the best bound.
 *
 * An iteration need not meet a limit by itself. Incremental repair
 * (flows_repair.c) moves bytes above it, demand by demand, to lanes with room.
 * The result is a valid division, and the full links then give better prices.
 *
 * Fewer relays within a congestion is the same ascent, with weights that fall
 * by a factor for each relay and with that congestion as the target. Its bound
 * comes from Lagrangian duality: the relays of the demands at these prices,
 * less the prices of the capacities.
 *
 * Source: the multiplicative weights of Garg and Koenemann (SIAM J. Comput.
 * 37(2), 2007), as [NIMBLE] IV-B uses them, with additive lengths and all
 * demands in each iteration.
 *
 * Results are bit-identical on all machines with IEEE 754 doubles: only +, -,
 * x, /, square roots and comparisons, in a fixed order. (This file is compiled
 * without contraction to fused operations.) No I/O, no clock; one thread per
 * object.
 */
#ifndef MRAIL_ORCHESTRATOR_FLOWS_H
#define MRAIL_ORCHESTRATOR_FLOWS_H

#include <stdint.h>

#define MRAIL_FLOWS_MAX_LANES 20
#define MRAIL_FLOWS_SLOT_LINKS 4
#define MRAIL_FLOWS_NO_LINK UINT32_MAX

/* One lane of a row. */
typedef struct mrail_flows_slot {
    uint32_t link[MRAIL_FLOWS_SLOT_LINKS]; /* MRAIL_FLOWS_NO_LINK: not there */
    uint8_t relays;                        /* 0 to 2 */
    uint8_t is_closed;
} mrail_flows_slot_t;

typedef struct mrail_flows_links {
    uint32_t num_links;
    const double *capacity; /* of each, > 0 */
    uint32_t num_lanes;     /* 1 to MRAIL_FLOWS_MAX_LANES */
    /* Sets of links that may be a cut: the number of that of each link, or
     * MRAIL_FLOWS_NO_LINK.  NULL: there are none. */
    const uint32_t *set;
    uint32_t num_classes;
    /* Of each link one that what goes through it may go through, too, or
     * MRAIL_FLOWS_NO_LINK: whatever goes through that one goes through one of those
     * that name it. */
    const uint32_t *parent;
} mrail_flows_links_t;

/* The input of a division. */
typedef struct mrail_flows_problem {
    uint32_t num_rows;
    const mrail_flows_slot_t *slot; /* num_rows x num_lanes */
    uint32_t num_demands;
    const uint32_t *row;   /* of each demand: out, in: different ones */
    const uint32_t *lanes; /* of each: those that it may take, as bits; one
                                       at least is open in both rows, and no link is
                                       twice in the path of one */
    const double *demand;  /* bytes of each, > 0 */
    /* For mrail_flows_fit(), mrail_flows_settle(); otherwise NULL. */
    const double *base;  /* bytes that each link carries besides */
    const double *worth; /* of each lane of each demand, instead of what
                                       their links can carry: mrail_flows_stride()
                                       apart; 0: it must not be taken */
} mrail_flows_problem_t;

typedef struct mrail_flows mrail_flows_t;

/* Links stay the same from problem to problem, and the caller's.  0, or -ENOMEM. */
int mrail_flows_create(const mrail_flows_links_t *links,
                       mrail_flows_t **flows_p);
void mrail_flows_destroy(mrail_flows_t *flows);

/* Sets the next input. Its arrays stay owned by the caller and unchanged until
 * the division ends; slots are copied. Rows that existed before must be the
 * same; others may be added or missing. Prices are kept, so similar problems
 * start where the last one ended. 0, or -ENOMEM: there is no input. */
int mrail_flows_load(mrail_flows_t *flows,
                     const mrail_flows_problem_t *problem);
/* All prices are 0 again. */
void mrail_flows_forget(mrail_flows_t *flows);

/* Divides, until the congestion is proved to be at most 1 + gap (> 0) times the
 * least one, or max_iterations (> 0) are over: the number of rounds. */
unsigned mrail_flows_spread(mrail_flows_t *flows, double gap,
                            unsigned max_iterations);

/* Divides again with fewer relays. Ends when relayed bytes are proved to be at
 * most 1 + gap (> 0) times the least with a congestion of `limit`, except for
 * 1/10000 of all bytes, or after max_iterations. Returns the number of
 * iterations. `limit` is not below the congestion of the last division, which
 * stays if no better one is found. */
unsigned mrail_flows_shorten(mrail_flows_t *flows, double limit, double gap,
                             unsigned max_iterations);

/* Warm start: both phases at once. Mostly the load of a set of links is the
 * least congestion, and a division within `gap` of it (the limit) is found in
 * the first iterations (`tries`). 0: not found; nothing is divided, and both
 * phases are needed. */
unsigned mrail_flows_warm_start(mrail_flows_t *flows, double gap,
                                double relayed_gap, unsigned tries,
                                unsigned max_iterations, double *limit_p);

/* Divides again, as near to what lanes are worth as a congestion of `limit` allows:
 * the number of rounds, or -ERANGE: not found in max_iterations, and the last division
 * stays.  Nothing is proved. */
int mrail_flows_fit(mrail_flows_t *flows, double limit,
                    unsigned max_iterations);

/* Divides by the weights of lanes, and moves bytes above `limit` to lanes with
 * room, lanes with fewer relays first. 0, or -ERANGE if that is not enough;
 * then the last division stays. Proves nothing. */
int mrail_flows_settle(mrail_flows_t *flows, double limit);

/* Puts what lanes carry of a demand that is less than `least` bytes together on one
 * of its lanes, where that leaves the congestion within `limit` and relays no more:
 * fewer pieces. */
void mrail_flows_merge(mrail_flows_t *flows, double least, double limit);

/* Distance from the bytes of one demand to those of the next: the number of lanes,
 * or a little more. */
uint32_t mrail_flows_stride(const mrail_flows_t *flows);
/* Bytes on each lane of each demand; those of a demand sum up to it, but for
 * rounding. */
const double *mrail_flows_bytes(const mrail_flows_t *flows);
/* The congestion of these, and one that no division is below: seconds. */
double mrail_flows_congestion(const mrail_flows_t *flows);
double mrail_flows_bound(const mrail_flows_t *flows);
/* Bytes times the relays that they pass; and what mrail_flows_shorten() proved that
 * nothing within its limit is below. */
double mrail_flows_relayed(const mrail_flows_t *flows);
double mrail_flows_relayed_bound(const mrail_flows_t *flows);

#endif
