/* Internals of routes (routes.h), for the files that implement them. */
#ifndef MRAIL_ORCHESTRATOR_ROUTES_INTERNAL_H
#define MRAIL_ORCHESTRATOR_ROUTES_INTERNAL_H

#include "routes.h"

#define CLOSED_LINK (UINT32_MAX - 1) /* the link exists but is down */

enum { OUT, IN, NUM_DIRECTIONS };
enum { NEAR, FAR, NUM_DISTANCES };

typedef enum routes_kind {
    KIND_RAILS,
    KIND_PAIRWISE,
    KIND_SWITCH
} routes_kind_t;

/* Open lanes, by number of relays. */
typedef struct routes_row {
    uint32_t lanes[2];
    routes_kind_t kind;
} routes_row_t;

typedef struct routes_rank {
    uint32_t node, place;
    uint32_t rails;                  /* rails that it reaches, as bits */
    uint32_t usable[NUM_DIRECTIONS]; /* reached rails whose port is up */
    uint32_t class;                  /* or MRAIL_PLAN_NONE */
    int is_limited;                  /* 1 if some reach is limited */
    uint32_t up, down;               /* links to and from the switch */
    uint32_t rail_row[NUM_DIRECTIONS][NUM_DISTANCES];
    uint32_t node_row[NUM_DIRECTIONS];
    uint32_t padding; /* pads to 64 bytes, a size that is faster to index */
} routes_rank_t;

typedef struct routes_node {
    uint32_t leaf_group;
    uint8_t is_pairwise, is_switched;
    uint32_t *pairwise;  /* links, by the local indices of sender and
                          * receiver */
    uint32_t *by_place;  /* ranks, by local index */
    uint32_t last_class; /* last class of the rank, or MRAIL_PLAN_NONE */
} routes_node_t;

/* A class of ranks with the same rows. It stores the first rank, which holds
 * the rows, and the previous class of its node, or MRAIL_PLAN_NONE. */
typedef struct routes_class {
    uint32_t rank, previous;
} routes_class_t;

struct mrail_routes {
    uint32_t num_nodes, num_rails, num_ranks, num_leaf_groups, num_lanes;
    int has_hairpin, has_cross_rail, has_relays;
    routes_node_t *nodes;
    routes_rank_t *ranks;
    /* By node and rail: the index in `relays` of the first rank that reaches
     * the rail. One more entry marks the end. */
    uint32_t *first_relay;
    uint32_t *relays;
    /* Links, by rank and rail; NULL if no reach is limited. */
    uint32_t *reach[NUM_DIRECTIONS];
    uint32_t num_classes;
    routes_class_t *classes;
    uint32_t *ports[NUM_DIRECTIONS];   /* links, by node and rail */
    uint32_t *uplinks[NUM_DIRECTIONS]; /* links, by leaf group and rail */
    uint32_t num_links, links_allocated;
    mrail_plan_link_t *links;
    uint32_t *sets, *parents; /* indexed by link */
    uint32_t num_rows, rows_allocated;
    routes_row_t *rows;
    mrail_flows_slot_t *slots;
    /* The relay of each slot without branches and of each branch, or the rail
     * in the lane of the spine. */
    uint32_t *slot_relay, *branch_relay;
    uint32_t num_branches, branches_allocated;
    mrail_flows_branch_t *branches;
};

/* Adds the rows of all ranks. Returns 0 or -ENOMEM. */
int mrail_routes_add_rows(mrail_routes_t *routes);

/* Lists the links from one rank to another on the same node, and returns their
 * number. Some may be CLOSED_LINK. */
unsigned mrail_routes_hop(const mrail_routes_t *routes, uint32_t from,
                          uint32_t to, uint32_t *links);

#endif
