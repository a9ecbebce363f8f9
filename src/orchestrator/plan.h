/*
 * libmrail-plan: decides which bytes of an exchange go over which rails and
 * through which relays, so that the most loaded link is loaded as little as
 * possible.
 *
 *     topology (nodes, ranks, rails, GPU links, uplinks) + demands  ->  plan
 *
 * The first objective is the congestion: the largest load of a link, in seconds
 * (its bytes divided by its capacity). No exchange ends sooner. The plan's
 * congestion is proved to be within a wanted gap of the optimum. Within that,
 * the plan relays as few bytes as possible, and then has few pieces.
 *
 * Paths between nodes: rail r of one node to rail r of the other. (Rails match
 * by number; they share a leaf switch.) A rank bound to another rail of its
 * node reaches rail r through a relay: the rank of
 * its node that is bound to rail r. A GPU link connects the two. The same holds at the other end.
 * Within a node: the direct link, or one rank as a relay. Source: [NIMBLE]
 * IV-B. Small demands use no relay if they can.
 *
 * Plans are bit-identical for the same topology, demands and options, on every
 * machine with IEEE 754 doubles.
 *
 * Needs neither UCX nor MPI. No I/O, no clock, no global state; one thread per
 * object. Functions that can fail return 0 or -errno and leave their output
 * unchanged:
 *
 *   -ENOMEM   out of memory
 *   -EINVAL   a number that does not exist or must not be 0; a capacity that is neither 0 nor
 *             within the limits below
 *   -ENOSPC   more than the limits below
 *
 * Other errors are named at the functions.
 */
#ifndef MRAIL_PLAN_H
#define MRAIL_PLAN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

#define MRAIL_PLAN_MAX_NODES 4096u
#define MRAIL_PLAN_MAX_RAILS 16u
#define MRAIL_PLAN_MAX_RANKS 16384u
/* Ranks of a node that have links to each other in pairs. */
#define MRAIL_PLAN_MAX_PAIRWISE 16u
/* Bytes per second of a link that is not dead: what is wider or narrower than any by
 * ever so much would leave nothing to the digits of the others. */
#define MRAIL_PLAN_MIN_CAPACITY 1.0
#define MRAIL_PLAN_MAX_CAPACITY 1e18
/* Pieces of a demand. */
#define MRAIL_PLAN_MAX_PIECES 20u
#define MRAIL_PLAN_NONE UINT32_MAX

/* ---- topology ---- */

typedef struct mrail_plan_topo mrail_plan_topo_t;

/* Nodes and rails of each, numbered from 0; no ranks yet, all rails dead, nodes in
 * one pod, no GPU links.  Capacities are bytes per second. */
int mrail_plan_topo_create(unsigned num_nodes, unsigned num_rails,
                           mrail_plan_topo_t **topo_p);
void mrail_plan_topo_destroy(mrail_plan_topo_t *topo); /* NULL: nothing */

/* Sets the capacities of a rail's port, out and in; 0: dead. */
int mrail_plan_topo_set_rail(mrail_plan_topo_t *topo, unsigned node,
                             unsigned rail, double out, double in);

/* The next rank, numbered from 0, on a node; bound to a rail of it, or, with
 * MRAIL_PLAN_NONE, reaching all of them by itself.  Its relay to a rail is the
 * first rank of its node that was bound to it. */
int mrail_plan_topo_add_rank(mrail_plan_topo_t *topo, unsigned node,
                             unsigned rail);

/* A link from one rank's GPU to that of another one of its node; 0: none. */
int mrail_plan_topo_set_link(mrail_plan_topo_t *topo, unsigned from,
                             unsigned to, double capacity);

/* A rank's links to and from the switch of its node (> 0): with a switch no rank
 * relays within the node.  A node has links in pairs, or a switch. */
int mrail_plan_topo_set_switch(mrail_plan_topo_t *topo, unsigned rank,
                               double up, double down);

/* Sets the leaf group of a node (numbers from 0, less than
 * MRAIL_PLAN_MAX_NODES) and the capacity of uplinks. Nodes of different groups
 * reach each other through the uplinks of their leaf switches, one leaf for
 * each group and rail. The capacity is that of all uplinks of a leaf together,
 * up and down (0: dead). Uplinks that were not set are unlimited. */
int mrail_plan_topo_set_leaf_group(mrail_plan_topo_t *topo, unsigned node,
                                   unsigned pod);
int mrail_plan_topo_set_uplink(mrail_plan_topo_t *topo, unsigned pod,
                               unsigned rail, double up, double down);

/* Ranks of one node without a direct GPU link (or switch) between them talk over the
 * rails, as if they were on different nodes.  If not, and if no rank of the node can
 * relay, their traffic is not planned: there is no limit to it that is known here. */
void mrail_plan_topo_set_hairpin(mrail_plan_topo_t *topo, int loop);

/* Ranks bound to different rails also reach each other without a relay, through
 * the spine: out of one rail, into the other, over the uplinks of both leaves,
 * within a group, too. */
void mrail_plan_topo_set_cross_rail(mrail_plan_topo_t *topo, int cross);

unsigned mrail_plan_topo_num_nodes(const mrail_plan_topo_t *topo);
unsigned mrail_plan_topo_num_rails(const mrail_plan_topo_t *topo);
unsigned mrail_plan_topo_num_ranks(const mrail_plan_topo_t *topo);
/* The node and the rail (or MRAIL_PLAN_NONE) of a rank that exists. */
unsigned mrail_plan_topo_node_of(const mrail_plan_topo_t *topo, unsigned rank);
unsigned mrail_plan_topo_rail_of(const mrail_plan_topo_t *topo, unsigned rank);

/* ---- plans ---- */

/* The bytes from one rank to another. A demand of a rank to itself, or of 0
 * bytes, is ignored. */
typedef struct mrail_plan_demand {
    uint32_t from, to;
    uint64_t bytes;
} mrail_plan_demand_t;

typedef struct mrail_plan_options {
    double gap; /* of the congestion, 0.001 to 1; 0: 0.02.  Less than 0.01
                             is not always reached: the summary tells */
    double relayed_gap; /* of what is relayed, likewise; 0: 0.03; but for a
                             ten-thousandth of all bytes */
    uint64_t
        relay_above;    /* demands of more bytes may take more relays than they
                             have to; UINT64_MAX: 1 MB (1e6) */
    uint64_t min_piece; /* smaller pieces are avoided where that costs nothing
                             within the gap; UINT64_MAX: 64 KiB */
} mrail_plan_options_t;

#define MRAIL_PLAN_DEFAULTS                                                    \
    (mrail_plan_options_t)                                                     \
    {                                                                          \
        .relay_above = UINT64_MAX, .min_piece = UINT64_MAX                     \
    }

/* Bytes that take one path. */
typedef struct mrail_plan_piece {
    uint64_t offset, bytes; /* of the demand's; bytes > 0 */
    uint32_t relay_out;     /* rank of the sender's node, or MRAIL_PLAN_NONE */
    uint32_t relay_in;      /* rank of the receiver's node; likewise; none if
                                    both ranks are of one node and no rail is used */
    uint32_t rail_out, rail_in; /* the same, but for paths through the spine;
                                    MRAIL_PLAN_NONE: over GPU links only */
} mrail_plan_piece_t;

typedef struct mrail_plan_summary {
    double congestion,
        congestion_bound; /* seconds; no plan is below the bound */
    double limit;         /* the congestion that was allowed to save relays */
    double relayed,
        relayed_bound; /* bytes times relays. No plan within the congestion
                        * limit is below the bound. A plan in two levels has no
                        * relay bound (0), and its congestion and relayed bytes
                        * are upper bounds until mrail_plan_compare(). Rounding
                        * to whole bytes may exceed all bounds slightly: by at
                        * most a grain (64) a piece */
    double bytes;      /* of all demands that are planned */
    /* By mrail_plan_compare(), or 0: */
    double congestion_before, direct_bytes;
    uint64_t num_pieces;
    uint64_t hash; /* of all of the plan */
    unsigned rounds, relay_iterations;
} mrail_plan_summary_t;

typedef enum mrail_plan_link_kind {
    MRAIL_PLAN_RAIL_OUT, /* node, rail */
    MRAIL_PLAN_RAIL_IN,
    MRAIL_PLAN_UPLINK_UP, /* pod, rail */
    MRAIL_PLAN_UPLINK_DOWN,
    MRAIL_PLAN_GPU_LINK,  /* rank, rank */
    MRAIL_PLAN_SWITCH_UP, /* rank */
    MRAIL_PLAN_SWITCH_DOWN
} mrail_plan_link_kind_t;

typedef struct mrail_plan_link {
    mrail_plan_link_kind_t kind;
    uint32_t a, b;   /* by kind; b is 0 if it names one thing only */
    double capacity; /* bytes per second */
    double bytes;    /* of GPU links, in two levels: by mrail_plan_compare() */
    double bytes_before; /* by mrail_plan_compare(), or 0 */
} mrail_plan_link_t;

typedef struct mrail_plan mrail_plan_t;

/* For this topology as it is now: what is changed in it later needs another one.
 * `options` NULL: the defaults.  A plan for nothing until the first
 * mrail_plan_make().  -EINVAL: an option is out of range, or nothing is up in the
 * topology, neither a rail nor a link. */
int mrail_plan_create(const mrail_plan_topo_t *topo,
                      const mrail_plan_options_t *options,
                      mrail_plan_t **plan_p);
void mrail_plan_destroy(mrail_plan_t *plan); /* NULL: nothing */

/*
 * Plans for these demands.  They stay the caller's, and stay as they are until the
 * next call or the plan's end.  `stamp`: not 0, and the same as in the last call
 * that succeeded: the demands are the same, and so is the plan; nothing is looked
 * at.  Otherwise it begins where the last plan ended, which is quicker if the
 * demands are similar; the same sequence of calls gives the same plans.
 *
 * Besides the general errors, with a sentence in `why` (cut to why_size; may be NULL
 * if 0), and the plan as it was:
 *   -EINVAL        a demand of a rank that does not exist;
 *   -EOVERFLOW     the bytes sum up to more than 2^62;
 *   -EHOSTUNREACH  there is no path for a demand.
 */
int mrail_plan_make(mrail_plan_t *plan, const mrail_plan_demand_t *demands,
                    size_t num_demands, uint64_t stamp, char *why,
                    size_t why_size);

/* Forgets where the last plan ended: the next one is as if it were the first. */
void mrail_plan_forget(mrail_plan_t *plan);

/* The pieces of demand i < num_demands, by rising offset, without gaps: how many; 0
 * if nothing had to be planned.  `pieces` has room for MRAIL_PLAN_MAX_PIECES. */
unsigned mrail_plan_pieces(const mrail_plan_t *plan, size_t i,
                           mrail_plan_piece_t *pieces);

/* Walks through all demands for figures of interest to a person: pieces, and
 * the loads without a plan. There each demand goes whole over one path with the
 * fewest relays: over the sender's own rail if it has the fewest,
 * otherwise over one of them, selected by from + to. */
void mrail_plan_compare(mrail_plan_t *plan);

void mrail_plan_summary(const mrail_plan_t *plan,
                        mrail_plan_summary_t *summary_p);

/* The links of the topology and what goes over them. */
unsigned mrail_plan_num_links(const mrail_plan_t *plan);
void mrail_plan_link(const mrail_plan_t *plan, unsigned i,
                     mrail_plan_link_t *link_p);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
