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

/* Index num_links is the absent link, with no price, length or load. Further
 * copies of it pad arrays of links to link_room. */
struct mrail_flows {
    mrail_flows_links_t links;
    mrail_kernels_t kernels;
    double widest;          /* largest capacity of a link */
    uint32_t link_room;     /* links with padding, for vectors */
    unsigned depth;         /* largest number of links of a slot */
    uint32_t links_in_cuts; /* links from this one on are in no set and have no
                        * parent */
    mrail_rail_masks_t masks; /* sets of lanes since creation */
    uint32_t rail_masks_set;  /* entries of mask_lanes that are set */
    const double *base;       /* bytes of other demands, by link; or NULL */
    uint32_t *mask;           /* by demand: number of its mask */
    uint32_t *open;           /* by demand: allowed lanes, bits */
    uint32_t *over;           /* demands left for a repair */
    double *mask_lanes;       /* factors of all masks, then lengths of all */
    /* Slots of all rows with padding: used, with links set, allocated. */
    uint32_t num_slots, slots_set, slots_room;
    size_t num_bytes, bytes_room; /* bytes of all demands, with padding */
    uint32_t *slot_link;          /* by slot, MRAIL_FLOWS_SLOT_LINKS each */
    uint8_t *slot_open;
    uint8_t *slot_common; /* by slot: links that other open lanes of its row
                           * share, bits; second half of slot_open */
    uint32_t *link_first; /* by link, and the end: index in link_slots */
    uint32_t *link_slots; /* open slots by link */
    int has_relays;       /* some open slot has relays */
    uint32_t *row_open;  /* by row: open lanes, bits; first of several arrays */
    uint32_t *row_taken; /* by row: lanes that a demand may take */
    uint32_t *row_over;  /* by row: lanes above the limit, in a repair */
    uint32_t *row_shut;  /* by row: lanes whose exclusive links are full, in a
                          * repair */
    uint32_t *row_relays; /* by row, FLOWS_ROW_RELAYS each: lanes with 0, 1, 2
                        * relays */
    uint32_t *row_set;    /* by row, FLOWS_ROW_SETS each: sets that cut all open
                        * lanes */
    uint32_t *rows;       /* rows with demands */
    uint32_t num_rows;
    double *row_bytes;          /* by row: bytes of its demands */
    double *slot_relays;        /* first of five arrays in one allocation */
    double *slot_direct_weight; /* without relays and prices; 0: closed */
    double *slot_weight;        /* without prices */
    double *slot_factor; /* with prices; in proofs: lengths; in repairs 1: above
                          * the limit */
    double *slot_load;   /* bytes of this iteration */
    unsigned phase;
    double *duals[FLOWS_NUM_PHASES];  /* by link; one allocation with other
                                    * arrays */
    double *per_byte;                 /* by link: seconds */
    double *width;                    /* by link: capacity */
    double *dual;                     /* by link: dual price in this phase */
    double *factor;                   /* e^-price */
    double *load;                     /* seconds */
    double *sums;                     /* by link: partial sums of bytes */
    double *length;                   /* for a bound */
    double *proof;                    /* lengths of the best bound; 0: none */
    double *since;                    /* prices at the last bound */
    double *rise;                     /* of prices in the last iteration */
    double *sum_load;                 /* sum over iterations since the last
                                    * check */
    double *excess;                   /* bytes above a limit */
    double *set_bytes, *set_capacity; /* of cut sets */
    double *all_bytes;                /* by demand, lane; three times: */
    double *trial;                    /* of this iteration */
    double *sum;                      /* sum over iterations */
    double *bytes;                    /* of the best division */
    unsigned num_summed;
    int is_first; /* the next iteration is the first one and is not summed */
    double trial_relayed, sum_relayed;
    double congestion, relayed; /* of `bytes` */
    double bound, relayed_bound;
    double proved; /* bound from loads and prices, without cuts */
};

#define FLOWS_ROW_SETS 2
#define FLOWS_ROW_RELAYS 3

/* Slots and bytes of one demand. */
typedef struct mrail_flows_lanes {
    uint32_t out, in; /* first slots */
    double *bytes;
} mrail_flows_lanes_t;

mrail_flows_lanes_t mrail_flows_lanes(mrail_flows_t *flows, uint32_t k);

/* Computes link loads from the best division in place of this iteration's. */
void mrail_flows_load_bytes(mrail_flows_t *flows);

/* Part of the allowed congestion that prices aim at, because iterations
 * oscillate. */
#define FLOWS_AIM 0.999
/* Margin for rounding that moves leave. */
#define FLOWS_WITHIN (1 - 1e-9)

/* Functions of flows.c for flows_search.c: start of a phase, with weights
 * multiplied by relay_factor per relay; start of the iterations; reset of the
 * sum; one iteration; its congestion; the mean of the iterations in its place;
 * storing it as the best. */
void mrail_flows_begin(mrail_flows_t *flows, unsigned phase,
                       double relay_factor);
void mrail_flows_begin_iterations(mrail_flows_t *flows);
void mrail_flows_reset_sum(mrail_flows_t *flows);
void mrail_flows_divide(mrail_flows_t *flows);
double mrail_flows_trial_congestion(const mrail_flows_t *flows);
void mrail_flows_try_mean(mrail_flows_t *flows);
void mrail_flows_keep_trial(mrail_flows_t *flows, double congestion);
/* Iteration of the next check. */
unsigned mrail_flows_after(unsigned iteration);
/* 1: a price exceeds the maximum. */
int mrail_flows_raise_duals(mrail_flows_t *flows, double target);
double mrail_flows_dual_max(const mrail_flows_t *flows);
/* Bounds from the current lengths, and the initial bounds. Then the two sums of
 * a bound for the current lengths: bytes times shortest paths, and capacities
 * times lengths. */
void mrail_flows_prove(mrail_flows_t *flows);
void mrail_flows_prove_first(mrail_flows_t *flows);
double mrail_flows_shortest(mrail_flows_t *flows, double per_relay);
double mrail_flows_volume(const mrail_flows_t *flows);

/* Computes link loads from the slots. */
void mrail_flows_add_loads(mrail_flows_t *flows);

/* Lower bound of the congestion from the cut sets. */
double mrail_flows_cut_bound(mrail_flows_t *flows);

/* Incremental repair, in the file flows_repair.c. The first function moves the
 * excess over a limit to lanes with room, few relays first. The second function
 * then moves relayed bytes to lanes with fewer relays. Both update the loads
 * and relayed bytes of the iteration. */
void mrail_flows_relieve(mrail_flows_t *flows, double limit);
void mrail_flows_remove_relays(mrail_flows_t *flows, double limit);

/* Raises the current lengths of full links until each demand's bytes are
 * consistent with its shortest paths. `bytes` is the division that was repaired
 * last. Lengths are relays times `per_relay`, at most `most`. */
void mrail_flows_value_full(mrail_flows_t *flows, double *bytes, double limit,
                            double per_relay, double most);

void mrail_flows_reset_duals(mrail_flows_t *flows, unsigned phase);

#endif
