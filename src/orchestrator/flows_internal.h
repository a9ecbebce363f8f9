/* Internals of a division (flows.h), for the files that implement it. */
#ifndef MRAIL_ORCHESTRATOR_FLOWS_INTERNAL_H
#define MRAIL_ORCHESTRATOR_FLOWS_INTERNAL_H

#include "flows.h"
#include "rail_masks.h"
#include "kernels.h"

#include <stddef.h>

/* Length of a closed lane: longer than all paths together. */
#define MRAIL_FLOWS_CLOSED 1e300

enum {
    FLOWS_PHASE_BALANCE,
    FLOWS_PHASE_SHORTEN,
    FLOWS_PHASE_FIT,
    FLOWS_NUM_PHASES
};

/* A slot with branches. */
typedef struct mrail_flows_fork {
    uint32_t slot, first, count; /* slot, and the range of its branches */
} mrail_flows_fork_t;

/* Index num_links stands for an absent link, which has no price, length or
 * load. Copies of it pad the arrays of links to link_room. */
struct mrail_flows {
    mrail_flows_links_t links;
    mrail_kernels_t kernels;
    double widest;             /* largest capacity of a link */
    uint32_t num_padded_links; /* number of links, padded for vectors */
    unsigned depth;            /* largest number of links in a slot */
    unsigned half_links;       /* largest number in a slot with a branch */
    uint32_t links_in_cuts;    /* links from this number on have no set and no
                               * parent */
    mrail_rail_masks_t masks;  /* all sets of lanes seen since creation */
    uint32_t rail_masks_set;   /* number of valid entries in mask_lanes */
    const double *base;        /* bytes that stay, by link; or NULL */
    uint32_t *mask;            /* by demand: number of its mask */
    uint32_t *open;            /* by demand: allowed lanes as bits */
    uint32_t *over;            /* demands that the repair has not finished */
    /* factors of all masks, followed by their lengths */
    double *mask_lanes;
    /* Number of slots of all rows, padded: in use; with links set;
     * allocated. */
    uint32_t num_slots, slots_set, slots_allocated;
    /* Bytes of all demands, padded, and then those of all branches. */
    size_t num_bytes, bytes_allocated;
    const mrail_flows_branch_t *branch;
    uint32_t num_branches;
    double *branch_weight; /* without relays and prices; holds the next array */
    double *branch_factor; /* weight with prices */
    mrail_flows_fork_t *forks; /* slots with branches, in use */
    uint32_t num_forks;
    uint32_t *fork_of;   /* by slot, or MRAIL_FLOWS_NO_LINK */
    uint32_t *slot_link; /* by slot, MRAIL_FLOWS_SLOT_LINKS each */
    uint8_t *slot_open;
    /* By slot: links shared with other open lanes of the row, as bits. Second
     * half of slot_open. */
    uint8_t *slot_common;
    /* by link: index in link_slots; one more entry marks the end */
    uint32_t *link_first;
    uint32_t *link_slots; /* open slots by link */
    int has_relays;       /* 1 if some open slot needs relays */
    /* by row: open lanes as bits; first of several arrays */
    uint32_t *row_open;
    uint32_t *row_taken; /* by row: lanes that some demand may use */
    uint32_t *row_over;  /* by row: lanes above the limit, during repair */
    /* by row: lanes whose exclusive links are full, during repair */
    uint32_t *row_shut;
    /* by row, FLOWS_ROW_RELAYS each: lanes with 0, 1 and 2 relays */
    uint32_t *row_relays;
    /* by row, FLOWS_ROW_SETS each: sets that cut all open lanes */
    uint32_t *row_set;
    uint32_t *rows; /* rows with demands */
    uint32_t num_rows;
    double *row_bytes;   /* by row: bytes of its demands */
    double *slot_relays; /* first of five arrays in one allocation */
    /* weight without relays and prices; 0 if closed */
    double *slot_direct_weight;
    double *slot_weight; /* weight without prices */
    /* weight with prices; in proofs the length; in repairs 1 if above the
     * limit */
    double *slot_factor;
    double *slot_load; /* bytes in this iteration */
    unsigned phase;
    /* by link; in one allocation with other arrays */
    double *duals[FLOWS_NUM_PHASES];
    double *per_byte; /* by link: seconds */
    double *width;    /* by link: capacity */
    double *dual;     /* by link: dual price in the current phase */
    double *factor;   /* e^-price */
    double *load;     /* seconds */
    double *sums;     /* by link: partial sums of the bytes */
    double *length;   /* lengths for a bound */
    double *proof;    /* lengths that gave the best bound; 0 if none */
    double *since;    /* prices at the last check */
    double *rise;     /* price changes in the last iteration */
    /* sum over the iterations since the last check */
    double *sum_load;
    double *excess;                   /* bytes above a limit */
    double *set_bytes, *set_capacity; /* bytes and capacity of cut sets */
    /* by demand and lane: holds the next three arrays */
    double *all_bytes;
    double *trial; /* division of this iteration */
    double *sum;   /* sum over several iterations */
    double *bytes; /* best division so far */
    unsigned num_summed;
    int is_first; /* 1 if the next iteration is the first one and is not
                   * summed */
    double trial_relayed, sum_relayed;
    double congestion, relayed; /* values of `bytes` */
    double bound, relayed_bound;
    double proved; /* best bound from loads and prices, without cuts */
};

#define FLOWS_ROW_SETS 2
#define FLOWS_ROW_RELAYS 3

/* Slots and bytes of one demand. */
typedef struct mrail_flows_lanes {
    uint32_t out, in; /* first slots */
    double *bytes;
} mrail_flows_lanes_t;

mrail_flows_lanes_t mrail_flows_lanes(mrail_flows_t *flows, uint32_t k);

/* Returns the bytes by branch of a division (trial, sum or bytes). */
static inline double *mrail_flows_tail(const mrail_flows_t *flows,
                                       double *division)
{
    return division + flows->num_bytes - flows->num_branches;
}

/* Recomputes the link loads from the best division instead of this
 * iteration. */
void mrail_flows_load_bytes(mrail_flows_t *flows);

/* Prices aim at this fraction of the permitted congestion, because iterations
 * oscillate. */
#define FLOWS_TARGET 0.999
/* Margin for rounding in moves. */
#define FLOWS_WITHIN (1 - 1e-9)

/* Functions of flows.c that flows_search.c uses. They start a phase, with
 * weights multiplied by relay_factor for each relay; start the iterations;
 * reset the sum; run an iteration; return its congestion; replace it by the
 * mean; and keep it as the best. */
void mrail_flows_begin(mrail_flows_t *flows, unsigned phase,
                       double relay_factor);
void mrail_flows_begin_iterations(mrail_flows_t *flows);
void mrail_flows_reset_sum(mrail_flows_t *flows);
void mrail_flows_divide(mrail_flows_t *flows);
double mrail_flows_trial_congestion(const mrail_flows_t *flows);
void mrail_flows_try_mean(mrail_flows_t *flows);
void mrail_flows_keep_trial(mrail_flows_t *flows, double congestion);
/* Returns the iteration of the next check. */
unsigned mrail_flows_after(unsigned iteration);
/* Returns 1 if a price exceeds the maximum. */
int mrail_flows_raise_duals(mrail_flows_t *flows, double target);
double mrail_flows_dual_max(const mrail_flows_t *flows);
/* The first two functions update the bound: from the current lengths, and
 * before the first iteration. The last two functions return the two sums of a
 * bound for the current lengths: bytes times shortest paths, and capacities
 * times lengths. */
void mrail_flows_prove(mrail_flows_t *flows);
void mrail_flows_prove_first(mrail_flows_t *flows);
double mrail_flows_shortest(mrail_flows_t *flows, double per_relay);
double mrail_flows_volume(const mrail_flows_t *flows);

/* Computes the link loads from the slots and from these bytes by branch. */
void mrail_flows_add_loads(mrail_flows_t *flows, const double *branch_bytes);

/* Functions of flows_branches.c. They list the slots with branches; multiply
 * the factors of these slots by the factors of their branches; divide the bytes
 * of the slots accordingly; add the bytes to the sums of links; and add the
 * length of the shortest branch to the lengths of the slots. */
int mrail_flows_set_branches(mrail_flows_t *flows,
                             const mrail_flows_problem_t *problem);
void mrail_flows_branch_factors(mrail_flows_t *flows);
void mrail_flows_divide_branches(mrail_flows_t *flows, double *branch_bytes);
void mrail_flows_add_branch_loads(mrail_flows_t *flows,
                                  const double *branch_bytes);
void mrail_flows_add_branch_lengths(mrail_flows_t *flows);

/* Returns a lower bound on the congestion from the cut sets. */
double mrail_flows_cut_bound(mrail_flows_t *flows);

/* Incremental repair, implemented in flows_repair.c. The first function moves
 * the excess over a limit to lanes with spare capacity, preferring few relays.
 * The second then moves relayed bytes to lanes with fewer relays. Both update
 * the loads and the relayed bytes of the iteration. */
void mrail_flows_relieve(mrail_flows_t *flows, double limit);
void mrail_flows_remove_relays(mrail_flows_t *flows, double limit);

/* Raises the current lengths of full links until the bytes of each demand agree
 * with its shortest paths. `bytes` is the division repaired last. Each relay of
 * a path has length `per_relay`, and no link becomes longer than `most`. */
void mrail_flows_value_full(mrail_flows_t *flows, double *bytes, double limit,
                            double per_relay, double most);

void mrail_flows_reset_duals(mrail_flows_t *flows, unsigned phase);

#endif
