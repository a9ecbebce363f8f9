/*
 * Finds the links that a flow takes through a fabric, with ECMP hashing or port
 * rules.
 *
 * `mrail lab` writes the same choices to the tables of its switches
 * (tools/lab_route.c), and `mrail simulate` calls mrail_route_find().
 *
 * Without rules, a switch hashes the 5-tuple, with its own seed, over all live
 * links on paths to the destination's leaf (ECMP). With rules:
 * - A packet from below that must go further up takes the uplink of its source
 *   port's segment. A spine below cores uses the segment within the leaf's
 *   segment.
 * - Where a packet turns around, it goes down on a link with the same position
 *   among parallel links as the link on which it came up, as in the paper's
 *   spine VRFs.
 * - A spine below a core hashes packets from the core over its links to the
 *   leaf, because VRFs do not apply to them. Only in MRAIL_ROUTE_ETHEREAL, the
 *   spine keeps the position of the leaf uplink that the source port selects
 *   (docs/decisions/0038-ethereal-below-cores.md). Sources: [CTCCL] 3.2 and
 *   4.1, [Ethereal] 3.2; ports from orchestrator/ports.h.
 *
 * A directed link has the number 2 * link on the way up, and 2 * link + 1 on
 * the way down. Only mrail_router_link() changes a router.
 */
#ifndef MRAIL_FABRIC_ROUTE_H
#define MRAIL_FABRIC_ROUTE_H

#include "fabric/fabric.h"

#define MRAIL_ROUTE_MAX_HOPS 6 /* host, leaf, spine, core, and down again */
/* equal links among which a switch chooses; it ignores further links */
#define MRAIL_ROUTE_MAX_CHOICES 8192

#define MRAIL_ROUTE_UP(_link) (2 * (_link))
#define MRAIL_ROUTE_DOWN(_link) (2 * (_link) + 1)

typedef enum mrail_route_mode {
    MRAIL_ROUTE_ECMP,
    MRAIL_ROUTE_RULES,      /* ECMP over the other uplinks if one fails */
    MRAIL_ROUTE_RULES_DROP, /* packets of a failed segment are dropped */
    /* drops like MRAIL_ROUTE_RULES_DROP; the source port chooses every link */
    MRAIL_ROUTE_ETHEREAL,
} mrail_route_mode_t;

typedef struct mrail_router mrail_router_t;

/* Creates a router, which the fabric must outlive. Returns NULL if memory runs
 * out. */
mrail_router_t *mrail_router_create(const mrail_fabric_t *fabric,
                                    mrail_route_mode_t mode, uint64_t seed);
void mrail_router_destroy(mrail_router_t *router);

/* Takes a link down or up, in both directions. */
void mrail_router_link(mrail_router_t *router, uint32_t link, int is_up);
int mrail_router_is_up(const mrail_router_t *router, uint32_t link);

/* ---- The choices of a switch; `leaf` is the index of a leaf ---- */

/* Returns 1 if some path of live links leads from the node to the leaf. */
int mrail_router_reaches(const mrail_router_t *router, uint32_t node,
                         uint32_t leaf);

/* Returns 1 if the leaf is the node or below it, even if links are down. Port
 * rules exempt packets to a local leaf. */
int mrail_router_is_local(const mrail_router_t *router, uint32_t node,
                          uint32_t leaf);

/* Returns 1 if switches drop the packets of a failed segment. */
int mrail_router_drops(const mrail_router_t *router);

/* Writes the directed links of the ordinary routes to a leaf: down if possible,
 * and up otherwise. Returns their number. */
uint32_t mrail_router_hops(const mrail_router_t *router, uint32_t node,
                           uint32_t leaf,
                           uint32_t hops[MRAIL_ROUTE_MAX_CHOICES]);

/* If the switch distinguishes the parallel links below it, returns the number
 * of their positions; otherwise 0. */
uint32_t mrail_router_parallel(const mrail_router_t *router, uint32_t node);

/* Writes the live links down to a leaf that are at position `place` among
 * parallel links. Returns their number, or -ENOENT if no link at this position
 * leads to the leaf, even when all links are up. */
int mrail_router_parallel_hops(const mrail_router_t *router, uint32_t node,
                               uint32_t leaf, uint32_t place,
                               uint32_t hops[MRAIL_ROUTE_MAX_CHOICES]);

/* ---- Paths ---- */

typedef struct mrail_route {
    unsigned num;
    uint32_t links[MRAIL_ROUTE_MAX_HOPS]; /* directed links, in order */
} mrail_route_t;

/*
 * Finds the route from the NIC of host link `from` to that of host link `to`.
 * The NICs must differ. Returns 0, or -EHOSTUNREACH if a link that the flow
 * must take is down or does not exist.
 */
int mrail_route_find(const mrail_router_t *router, uint32_t from, uint32_t to,
                     uint16_t sport, mrail_route_t *route_p);

#endif
