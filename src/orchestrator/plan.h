/*
 * libmrail-plan assigns the bytes of an exchange to rails and relays with
 * minimal congestion.
 *
 *   topology (nodes, ranks, rails, GPU links, uplinks) + demands  ->  plan
 *
 * The load of a link is its bytes divided by its capacity, in seconds. The
 * congestion is the largest load, and no exchange can finish sooner. The
 * planner has three goals, in this order:
 *
 * - a congestion within a given gap of the proven minimum;
 * - within that congestion, few relayed bytes;
 * - few pieces.
 *
 * Paths between nodes: rail r of one node reaches rail r of the other. Rails
 * match by number because they share a leaf switch. A rank that does not reach
 * rail r needs a relay for it: a rank of its node that reaches rail r, and to
 * which it has a GPU link. The same holds at the receiver's end. If several
 * ranks can relay, the planner divides the bytes among them. Paths within a
 * node: the direct link, or one rank as a relay. Source: [NIMBLE] IV-B. Small
 * demands avoid relays where possible.
 *
 * The same topology, demands and options give a bit-identical plan on every
 * platform with IEEE 754 doubles.
 *
 * The library needs neither UCX nor MPI. It uses no I/O, no clock and no global
 * state. One thread at a time may use an object. Functions that can fail return
 * 0 or -errno, and have no effect on failure:
 *
 *   -ENOMEM  no memory
 *   -EINVAL  a node, rank or rail that does not exist, a count of zero, or a
 *            capacity that is neither 0 nor within the limits below
 *   -ENOSPC  a count above the limits below
 *
 * Functions list further errors at their declarations.
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
/* Maximum ranks per node with pairwise GPU links. */
#define MRAIL_PLAN_MAX_PAIRWISE 16u
/* Capacity range of a link that is up, in bytes per second. If capacities were
 * further apart, the smaller ones would lose digits. */
#define MRAIL_PLAN_MIN_CAPACITY 1.0
#define MRAIL_PLAN_MAX_CAPACITY 1e18
/* Maximum number of relays that a rank uses for one rail. If more ranks of its
 * node reach the rail, different ranks use different relays. */
#define MRAIL_PLAN_MAX_RELAYS 8u
/* Maximum pieces per demand: on each rail, one for each boundary between relays
 * at both ends, plus those between the rails of both ends through the spine. */
#define MRAIL_PLAN_MAX_PIECES 272u
/* Maximum bytes of the background on a link. */
#define MRAIL_PLAN_MAX_BACKGROUND (UINT64_C(1) << 62)
#define MRAIL_PLAN_NONE UINT32_MAX
#define MRAIL_PLAN_ALL_RAILS UINT32_MAX
/* Capacity of a rank's reach if only the port limits it. */
#define MRAIL_PLAN_UNLIMITED (-1.0)

/* ---- Topology ---- */

typedef struct mrail_plan_topo mrail_plan_topo_t;

/* Creates a topology of num_nodes nodes with num_rails rails each, numbered
 * from 0. It has no ranks and no GPU links, all rails are down, and all nodes
 * are in one leaf group. Capacities are in bytes per second. */
int mrail_plan_topo_create(unsigned num_nodes, unsigned num_rails,
                           mrail_plan_topo_t **topo_p);
void mrail_plan_topo_destroy(mrail_plan_topo_t *topo); /* NULL is allowed */

/* Sets the capacities of a rail's port for sending and receiving. 0 means that
 * the port is down. */
int mrail_plan_topo_set_rail(mrail_plan_topo_t *topo, unsigned node,
                             unsigned rail, double out, double in);

/* Adds the next rank, numbered from 0, to a node. The rank does not reach any
 * rail yet. */
int mrail_plan_topo_add_rank(mrail_plan_topo_t *topo, unsigned node);

/* Lets a rank reach a rail of its node directly, so that it needs no relay for
 * the rail and may relay for other ranks. `rail` may be MRAIL_PLAN_ALL_RAILS.
 * `out` and `in` limit the bytes that the rank itself sends and receives over
 * the rail's port, including those that it relays. A limit exists, for example,
 * if the NIC is on another socket. MRAIL_PLAN_UNLIMITED means that only the
 * port limits the rank. If both are 0, the rank does not reach the rail.
 * Also returns -EINVAL if only one of them is 0. */
int mrail_plan_topo_set_reach(mrail_plan_topo_t *topo, unsigned rank,
                              unsigned rail, double out, double in);

/* Sets the capacity of the link between the GPUs of two ranks on one node. 0
 * means that there is no link. */
int mrail_plan_topo_set_link(mrail_plan_topo_t *topo, unsigned from,
                             unsigned to, double capacity);

/* Sets the capacities of a rank's links to and from the switch of its node (>
 * 0). A node has either a switch or pairwise links. With a switch, no rank
 * relays within the node. */
int mrail_plan_topo_set_switch(mrail_plan_topo_t *topo, unsigned rank,
                               double up, double down);

/* The first function puts a node into a leaf group, and the second sets the
 * uplinks of a leaf. Nodes in different leaf groups reach each other through
 * the uplinks of their leaf switches. A leaf group has one leaf per rail, and
 * its number is below MRAIL_PLAN_MAX_NODES. The capacities up and down are
 * totals over all uplinks of the leaf (0 if down). A leaf whose uplinks are not
 * set is never a bottleneck. */
int mrail_plan_topo_set_leaf_group(mrail_plan_topo_t *topo, unsigned node,
                                   unsigned leaf_group);
int mrail_plan_topo_set_uplink(mrail_plan_topo_t *topo, unsigned leaf_group,
                               unsigned rail, double up, double down);

/* Sets the capacity of each uplink of a leaf (0 if down). All leaves must have
 * the same number of uplinks, 1 to MRAIL_PLAN_MAX_UPLINKS, and uplink i of each
 * leaf of a rail must lead to the same spine. The totals of the leaf become the
 * sums of these capacities. A later call of mrail_plan_topo_set_uplink()
 * discards the single capacities. Returns 0, -EINVAL, -ENOMEM, or -ENOTSUP if
 * another leaf has a different number of uplinks. */
#define MRAIL_PLAN_MAX_UPLINKS 64u
int mrail_plan_topo_set_uplinks(mrail_plan_topo_t *topo, unsigned leaf_group,
                                unsigned rail, unsigned count, const double *up,
                                const double *down);

/* Controls traffic between ranks of one node that no GPU link or switch
 * connects directly. If enabled, they use the rails, like ranks of different
 * nodes. If disabled, a third rank of the node relays; without a relay, their
 * traffic is not planned, because its limit is unknown. */
void mrail_plan_topo_set_hairpin(mrail_plan_topo_t *topo, int enable);

/* If enabled, ranks without a common rail can also reach each other without a
 * relay, through the spine. The path leaves over a rail of the sender and
 * enters over a rail of the receiver. It uses the uplinks of both leaves, even
 * within a leaf group. A rail is common if the sender's port out and the
 * receiver's port in are up. */
void mrail_plan_topo_set_cross_rail(mrail_plan_topo_t *topo, int enable);

unsigned mrail_plan_topo_num_nodes(const mrail_plan_topo_t *topo);
unsigned mrail_plan_topo_num_rails(const mrail_plan_topo_t *topo);
unsigned mrail_plan_topo_num_ranks(const mrail_plan_topo_t *topo);
/* Returns the leaf group of an existing node. */
unsigned mrail_plan_topo_leaf_group_of(const mrail_plan_topo_t *topo,
                                       unsigned node);
/* Return the node of an existing rank, and a mask of the rails that it reaches.
 * The last function writes its limits on a rail, or 0 if it does not reach the
 * rail. */
unsigned mrail_plan_topo_node_of(const mrail_plan_topo_t *topo, unsigned rank);
uint32_t mrail_plan_topo_rails_of(const mrail_plan_topo_t *topo, unsigned rank);
void mrail_plan_topo_reach(const mrail_plan_topo_t *topo, unsigned rank,
                           unsigned rail, double *out_p, double *in_p);

/* ---- Plans ---- */

/* Bytes that one rank sends to another. Demands of 0 bytes, or of a rank to
 * itself, are not planned. */
typedef struct mrail_plan_demand {
    uint32_t from, to;
    uint64_t bytes;
} mrail_plan_demand_t;

/* Later versions may add fields at the end. Initialise this struct with
 * MRAIL_PLAN_DEFAULTS. */
typedef struct mrail_plan_options {
    size_t struct_size; /* size of this struct as the caller knows it */
    /* Gap of the congestion, from 0.001 to 1. 0 means 0.02. The planner does
     * not always reach a gap below 0.01; the summary shows whether it has. */
    double gap;
    /* Gap of the relayed bytes, from 0.001 to 1. 0 means 0.03. An excess of
     * 1/10000 of all bytes is allowed in addition. */
    double relayed_gap;
    /* Size in bytes above which demands may use more relays than necessary.
     * UINT64_MAX means 1 MB (1e6). */
    uint64_t relay_threshold;
    /* Size in bytes below which pieces are avoided if the gap allows.
     * UINT64_MAX means 64 KiB. */
    uint64_t min_piece;
} mrail_plan_options_t;

#define MRAIL_PLAN_DEFAULTS                                                    \
    (mrail_plan_options_t)                                                     \
    {                                                                          \
        .struct_size = sizeof(mrail_plan_options_t),                           \
        .relay_threshold = UINT64_MAX, .min_piece = UINT64_MAX                 \
    }

/* Bytes of a demand on one path. */
typedef struct mrail_plan_piece {
    uint64_t offset, bytes; /* offset in the demand; bytes > 0 */
    uint32_t relay_out;     /* rank on the sender's node, or MRAIL_PLAN_NONE */
    /* Rank on the receiver's node, or MRAIL_PLAN_NONE. Always MRAIL_PLAN_NONE
     * within a node if the path uses no rail. */
    uint32_t relay_in;
    /* The two are equal, except on paths through the spine. MRAIL_PLAN_NONE
     * means that the path uses only GPU links. */
    uint32_t rail_out, rail_in;
} mrail_plan_piece_t;

/*
 * Result of mrail_plan_make().
 *
 * Pieces are whole bytes, so a value may violate a bound by up to 64 bytes per
 * piece.
 */
typedef struct mrail_plan_summary {
    double congestion;       /* seconds */
    double congestion_bound; /* seconds; lower bound for all plans */
    /* seconds; congestion that may be used to save relays */
    double limit;
    double relayed;       /* bytes times relays */
    double relayed_bound; /* lower bound for all plans within the limit */
    double bytes;         /* total of all planned demands */
    /* Set by mrail_plan_compare(), otherwise 0. */
    double congestion_before, direct_bytes;
    uint64_t num_pieces;
    uint64_t hash; /* hash of the whole plan */
    unsigned iterations, relay_iterations;
} mrail_plan_summary_t;

typedef enum mrail_plan_link_kind {
    MRAIL_PLAN_RAIL_OUT,    /* a: node, b: rail */
    MRAIL_PLAN_RAIL_IN,     /* a: node, b: rail */
    MRAIL_PLAN_UPLINK_UP,   /* a: leaf group, b: rail */
    MRAIL_PLAN_UPLINK_DOWN, /* a: leaf group, b: rail */
    MRAIL_PLAN_GPU_LINK,    /* a, b: ranks */
    MRAIL_PLAN_SWITCH_UP,   /* a: rank */
    MRAIL_PLAN_SWITCH_DOWN, /* a: rank */
    MRAIL_PLAN_REACH_OUT,   /* a: rank, b: rail; only if it is limited */
    MRAIL_PLAN_REACH_IN     /* a: rank, b: rail; only if it is limited */
} mrail_plan_link_kind_t;

typedef struct mrail_plan_link {
    mrail_plan_link_kind_t kind;
    uint32_t a, b;   /* meaning depends on kind; b is 0 if only a is used */
    double capacity; /* bytes per second */
    double bytes;    /* planned bytes and background */
    /* baseline; set by mrail_plan_compare(), otherwise 0 */
    double bytes_before;
} mrail_plan_link_t;

typedef struct mrail_plan mrail_plan_t;

/* Creates a plan for the current state of the topology. After a change of the
 * topology, a new plan is needed. If `options` is NULL, the defaults apply. The
 * plan is empty until the first mrail_plan_make().
 *
 * Also returns -EINVAL if no rail and no link is up, or if an option is
 * invalid. An option is invalid if it is out of range, or unknown to this
 * version of the library and not 0. */
int mrail_plan_create(const mrail_plan_topo_t *topo,
                      const mrail_plan_options_t *options,
                      mrail_plan_t **plan_p);
void mrail_plan_destroy(mrail_plan_t *plan); /* NULL is allowed */

/*
 * Plans these demands. The caller must not change or free the array until the
 * next call, or until it destroys the plan.
 *
 * `generation` identifies the demands. A nonzero value that equals the
 * generation of the last successful call asserts that the demands are
 * unchanged. The call then does not read them, and the plan remains unchanged.
 * Otherwise planning starts from the last plan, which is faster for similar
 * demands. The same sequence of calls gives the same plans.
 *
 * The following errors leave the plan unchanged and write a message to
 * `reason`, truncated to reason_size. `reason` may be NULL if reason_size is 0.
 *
 *   -EINVAL        a rank of a demand does not exist
 *   -ENOSPC        there are 2^32 - 1 demands or more
 *   -EOVERFLOW     the sum of all bytes exceeds 2^62
 *   -EHOSTUNREACH  a demand has no path
 */
int mrail_plan_make(mrail_plan_t *plan, const mrail_plan_demand_t *demands,
                    size_t num_demands, uint64_t generation, char *reason,
                    size_t reason_size);

/*
 * Sets the background of a link: the bytes that it carries besides the demands
 * of later plans, for example the bytes of small unplanned messages. `link` is
 * a number as in mrail_plan_link(). Initially, there is no background. It
 * counts towards the loads of links, the congestion and its bounds, but not
 * towards the bytes or relayed bytes of a plan. Returns -EINVAL if the link
 * does not exist, or -ENOSPC above MRAIL_PLAN_MAX_BACKGROUND.
 */
int mrail_plan_set_background(mrail_plan_t *plan, unsigned link,
                              uint64_t bytes);

/* Discards the warm start of the last plan, so that the next plan is made as if
 * it were the first. */
void mrail_plan_discard_warm_start(mrail_plan_t *plan);

/* The following three functions fill structs to which later versions may add
 * fields at the end. The inline functions below pass the size of the caller's
 * version. The library writes no more than that, and sets fields unknown to it
 * to 0. */
unsigned mrail_plan_pieces_sized(const mrail_plan_t *plan, size_t i,
                                 mrail_plan_piece_t *pieces, size_t size);
void mrail_plan_summary_sized(const mrail_plan_t *plan,
                              mrail_plan_summary_t *summary_p, size_t size);
void mrail_plan_link_sized(const mrail_plan_t *plan, unsigned i,
                           mrail_plan_link_t *link_p, size_t size);

/* Writes the pieces of demand i < num_demands, by ascending offset and without
 * gaps. Returns their number, or 0 if the demand is not planned. `pieces` must
 * hold MRAIL_PLAN_MAX_PIECES elements. */
static inline unsigned mrail_plan_pieces(const mrail_plan_t *plan, size_t i,
                                         mrail_plan_piece_t *pieces)
{
    return mrail_plan_pieces_sized(plan, i, pieces, sizeof(*pieces));
}

/* Counts the pieces and computes the baseline, in which each demand is whole on
 * one path with the fewest relays. If some of these paths leave over a rail
 * that the sender reaches, (from + to) selects one of them; otherwise, it
 * selects among all. If a rank has several relays for that rail, or several
 * rails towards the spine, its index within the node selects one of them. Takes
 * time linear in the number of demands. */
void mrail_plan_compare(mrail_plan_t *plan);

static inline void mrail_plan_summary(const mrail_plan_t *plan,
                                      mrail_plan_summary_t *summary_p)
{
    mrail_plan_summary_sized(plan, summary_p, sizeof(*summary_p));
}

/* Describe the links of the topology, with the bytes planned on them. */
unsigned mrail_plan_num_links(const mrail_plan_t *plan);
static inline void mrail_plan_link(const mrail_plan_t *plan, unsigned i,
                                   mrail_plan_link_t *link_p)
{
    mrail_plan_link_sized(plan, i, link_p, sizeof(*link_p));
}

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
