/* Internal structures of a division (flows.h). */
#ifndef MRAIL_ORCHESTRATOR_FLOWS_INTERNAL_H
#define MRAIL_ORCHESTRATOR_FLOWS_INTERNAL_H

#include "flows.h"
#include "rail_masks.h"
#include "phases.h"

#include <stddef.h>

/* The length of what is closed: longer than all paths together. */
#define MRAIL_FLOWS_CLOSED 1e300

enum {
    FLOWS_STAGE_SPREAD,
    FLOWS_STAGE_SHORTEN,
    FLOWS_STAGE_FIT,
    FLOWS_NUM_STAGES
};

/* The link that is not there has the number num_links: no price, no length, no load.
 * Arrays of links are filled up with more of these (link_room). */
struct mrail_flows {
    mrail_flows_links_t links;
    mrail_phases_t passes;
    double widest;      /* capacity of a link */
    uint32_t link_room; /* links and what fills them up, for vectors */
    unsigned depth;     /* links of a slot, at most */
    uint32_t
        links_in_cuts; /* those from here on are in no set, have no parent */
    mrail_rail_masks_t masks; /* sets of lanes, since the object was made */
    uint32_t rail_masks_set;  /* that there are lanes of */
    const double *base;       /* bytes of links besides; NULL: none */
    uint32_t *mask;           /* number of that of each demand */
    uint32_t *open;           /* lanes that each demand may take, as bits */
    uint32_t *over;           /* demands that a repair has to look at again */
    double *mask_lanes;       /* factors of all, then lengths of all */
    /* Of all rows, with those that fill up the width: now, with links, room. */
    uint32_t num_slots, slots_set, slots_room;
    size_t num_bytes, bytes_room; /* of all demands, likewise */
    uint32_t *slot_link;          /* MRAIL_FLOWS_SLOT_LINKS of each slot */
    uint8_t *slot_open;
    uint8_t *slot_common; /* its links that another open lane of its row takes,
                             too, as bits; the second half of slot_open */
    uint32_t *link_first; /* of each link, and the end: in link_slots */
    uint32_t *link_slots; /* open slots by link */
    int has_relays;       /* one of them */
    uint32_t
        *row_open; /* lanes of each row, as bits; the first of several arrays */
    uint32_t *row_taken; /* ... that a demand may take */
    uint32_t *row_over;  /* ... with a link above the limit, in a repair */
    uint32_t *row_shut;  /* ... where a link that no other lane of the row takes
                           has no room, likewise */
    uint32_t
        *row_relays;   /* FLOWS_ROW_RELAYS of each: with no relay, one, two */
    uint32_t *row_set; /* FLOWS_ROW_SETS of each: all its open lanes are cut by
                             these */
    uint32_t *rows;    /* those with demands */
    uint32_t num_rows;
    double *row_bytes;   /* of the demands of each */
    double *slot_relays; /* the first of five arrays in one piece of memory */
    double
        *slot_direct_weight; /* without relays and prices; 0 if it is closed */
    double *slot_weight;     /* without prices */
    double *slot_factor; /* with them; in proofs, lengths; in repairs 1: above
                             the limit */
    double *slot_load;   /* bytes of this round */
    unsigned stage;
    double
        *prices[FLOWS_NUM_STAGES]; /* of each link, and others in one piece */
    double *per_byte;              /* of each link: seconds */
    double *width;                 /* ... capacity */
    double *price;                 /* of each link: those of this stage */
    double *factor;                /* e^-price */
    double *load;                  /* seconds */
    double *sums;                  /* of each link: bytes, in parts */
    double *length;                /* for a bound */
    double *proof;                 /* lengths that proved most; 0: none did */
    double *since;                 /* prices when a bound was looked for last */
    double *rise;                  /* of the prices in the last round */
    double *sum_load;              /* of rounds since the last look, together */
    double *excess;                /* bytes above a limit */
    double *set_bytes, *set_capacity; /* of cuts */
    double *all_bytes; /* of each lane of each demand, three times: */
    double *trial;     /* ... in this round */
    double *sum;       /* ... likewise together */
    double *bytes;     /* ... in the best one */
    unsigned num_summed;
    int is_first; /* the next round, which is not summed up */
    double trial_relayed, sum_relayed;
    double congestion, relayed; /* of `bytes` */
    double bound, relayed_bound;
    double proved; /* by the loads and prices of these rounds, not by cuts */
};

#define FLOWS_ROW_SETS 2
#define FLOWS_ROW_RELAYS 3

/* Of one demand: its slots and bytes. */
typedef struct mrail_flows_lanes {
    uint32_t out, in; /* first slots */
    double *bytes;
} mrail_flows_lanes_t;

mrail_flows_lanes_t mrail_flows_lanes(mrail_flows_t *flows, uint32_t k);

/* Replaces the loads of this iteration by those of the best division so far. */
void mrail_flows_load_bytes(mrail_flows_t *flows);

/* Aimed at, of the congestion that is allowed: rounds swing. */
#define FLOWS_AIM 0.999
/* Reserve for rounding in moves. */
#define FLOWS_WITHIN (1 - 1e-9)

/* flows.c, for flows_search.c.  Weights with so much less for each relay, and nothing in
 * sum, or that alone; a round; its congestion; the mean of the rounds in its place. */
void mrail_flows_begin(mrail_flows_t *flows, unsigned stage,
                       double relay_factor);
void mrail_flows_begin_iterations(mrail_flows_t *flows);
void mrail_flows_forget_sum(mrail_flows_t *flows);
void mrail_flows_divide(mrail_flows_t *flows);
double mrail_flows_trial_congestion(const mrail_flows_t *flows);
void mrail_flows_try_mean(mrail_flows_t *flows);
void mrail_flows_keep_trial(mrail_flows_t *flows, double congestion);
/* When to look next. */
unsigned mrail_flows_after(unsigned round);
/* 1: a price is above the highest one. */
int mrail_flows_raise_duals(mrail_flows_t *flows, double target);
double mrail_flows_dual_max(const mrail_flows_t *flows);
/* Proofs by the lengths that are set, and the first ones; bytes times the shortest
 * paths, capacities times lengths, of these. */
void mrail_flows_prove(mrail_flows_t *flows);
void mrail_flows_prove_first(mrail_flows_t *flows);
double mrail_flows_shortest(mrail_flows_t *flows, double per_relay);
double mrail_flows_volume(const mrail_flows_t *flows);

/* Sums up the loads of a division. */
void mrail_flows_add_loads(mrail_flows_t *flows);

/* The least congestion, by the cuts that there are. */
double mrail_flows_cut_bound(mrail_flows_t *flows);

/* flows_repair.c: moves what this round puts on links above a limit to lanes with
 * room, those first that take few relays; then, of what is still relayed, what can be
 * moved to lanes that take fewer.  Loads and relays of the round are what they are
 * then. */
void mrail_flows_relieve(mrail_flows_t *flows, double limit);
void mrail_flows_straighten(mrail_flows_t *flows, double limit);

/* Finds lengths, in relays times `per_relay`, from the full links of the
 * division that was repaired last. Lengths rise until no demand would gain by
 * another lane. No length exceeds `most`. */
void mrail_flows_value_full(mrail_flows_t *flows, double *bytes, double limit,
                            double per_relay, double most);

void mrail_flows_reset_duals(mrail_flows_t *flows, unsigned stage);

#endif
