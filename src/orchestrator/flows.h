/*
 * Splits demands over the paths that each may take, so that the most loaded link
 * is loaded as little as possible, with a proof of how little is possible; and
 * then, within that, so that as little as possible goes through relays.
 *
 * A path is a way out and a way in: lane r of the demand's row of ways out, then
 * lane r of its row of ways in.  (Between nodes a lane is a rail, and the rows are
 * those of the two nodes, or of the two ranks if these reach rails in different
 * ways; within a node a lane is the rank that relays.)  A row has a slot for each
 * lane: the links that it takes, how many relays, or that it is closed.  Demands
 * share rows, so that a round over all of them is a few vector operations each.
 *
 * A demand's bytes are divided among its lanes; a link's load is what goes over it,
 * divided by its capacity: seconds, if capacities are bytes per second.  The
 * largest load is the congestion: no exchange can end before.
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
 * Rounds need not end within a limit by themselves: what is above it on some links is
 * moved, demand by demand, to lanes with room (flows_repair.c), which is a division
 * as good as any; and from what is full then follow better prices.
 *
 * Fewer relays within a congestion is the same ascent with weights that are smaller
 * by a factor for each relay of a path, and that congestion as the target; with
 * another bound from the same duality (Lagrange's): what the demands would relay if
 * they only minded relays and prices, less what the prices take for the capacities.
 *
 * Source: the multiplicative weights of Garg and Koenemann (SIAM J. Comput. 37(2),
 * 2007), as NIMBLE IV-B uses them, with additive lengths and all demands in each
 * round.
 *
 * Results are the same to the bit on all machines with IEEE 754 doubles: nothing
 * but +, -, x, /, square roots and comparisons, in a fixed order (this file is
 * compiled without contraction to fused operations).  No I/O, no clock; one thread
 * per object.
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

/* What is to be divided. */
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

/* Sets what is to be divided next; its arrays stay the caller's, and as they are
 * until it is divided; a copy is made of the slots.  Rows that were there before are
 * still the same (others may be added, or not be there).  Prices are kept: where problems
 * are similar, the division begins where the last one ended.  0, or -ENOMEM: there
 * is nothing to divide. */
int mrail_flows_load(mrail_flows_t *flows,
                     const mrail_flows_problem_t *problem);
/* All prices are 0 again. */
void mrail_flows_forget(mrail_flows_t *flows);

/* Divides, until the congestion is proved to be at most 1 + gap (> 0) times the
 * least one, or max_iterations (> 0) are over: the number of rounds. */
unsigned mrail_flows_spread(mrail_flows_t *flows, double gap,
                            unsigned max_iterations);

/* Divides again, with fewer relays, until what is relayed is proved to be at most
 * 1 + gap (> 0) times the least that is possible with a congestion of `limit`, but
 * for a ten-thousandth of all bytes, or max_iterations are over: the number of rounds.
 * `limit` is not below the congestion of the last division, which stays if nothing
 * better is found. */
unsigned mrail_flows_shorten(mrail_flows_t *flows, double limit, double gap,
                             unsigned max_iterations);

/* Both at once, which mostly is possible: what a set of links has to carry is the least
 * congestion, and a division within `gap` of it (which is given as the limit) is found
 * in the first rounds (`tries`).  0: not here; nothing is divided, and it has to be
 * done in two steps. */
unsigned mrail_flows_warm_start(mrail_flows_t *flows, double gap,
                                double relayed_gap, unsigned tries,
                                unsigned max_iterations, double *limit_p);

/* Divides again, as near to what lanes are worth as a congestion of `limit` allows:
 * the number of rounds, or -ERANGE: not found in max_iterations, and the last division
 * stays.  Nothing is proved. */
int mrail_flows_fit(mrail_flows_t *flows, double limit,
                    unsigned max_iterations);

/* Divides by what lanes are worth, and moves what is above `limit` to lanes with room,
 * those with fewer relays first: 0, or -ERANGE: that is not enough, and the last division
 * stays.  Nothing is proved. */
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
