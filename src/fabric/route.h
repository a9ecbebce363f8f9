/*
 * Routing: the links that a flow takes through a fabric, with ECMP hashing or
 * with port rules.
 *
 * On the way up, a switch chooses among the uplinks that lead to the
 * destination. Rules send a source port to the uplink of its segment; a spine
 * below cores uses the segment within the leaf's segment. ECMP hashes the
 * 5-tuple with a seed per switch. On the way down, ECMP also chooses among
 * parallel links by hash. Rules choose the link with the same index as the one
 * on which the flow came up, like the paper's spine VRFs. Sources: [CTCCL] 3.2
 * and 4.1; ports from orchestrator/ports.h.
 *
 * A directed link has the number 2 * link on the way up, and 2 * link + 1 on
 * the way down. Pure. After its creation, only link failures change a router.
 */
#ifndef MRAIL_FABRIC_ROUTE_H
#define MRAIL_FABRIC_ROUTE_H

#include "fabric/fabric.h"

#define MRAIL_ROUTE_MAX_HOPS 6 /* host, leaf, spine, core, and down again */

#define MRAIL_ROUTE_UP(_link) (2 * (_link))
#define MRAIL_ROUTE_DOWN(_link) (2 * (_link) + 1)

typedef enum mrail_route_mode {
    MRAIL_ROUTE_ECMP,
    MRAIL_ROUTE_RULES,      /* ECMP over the other uplinks if one fails */
    MRAIL_ROUTE_RULES_DROP, /* packets of a failed uplink are dropped */
} mrail_route_mode_t;

typedef struct mrail_router mrail_router_t;

/* Creates a router, which the fabric must outlive. Returns NULL if memory runs
 * out. */
mrail_router_t *mrail_router_create(const mrail_fabric_t *fabric,
                                    mrail_route_mode_t mode, uint64_t seed);
void mrail_router_destroy(mrail_router_t *router);

/* Takes a link down or up, in both directions. */
void mrail_router_link(mrail_router_t *router, uint32_t link, int is_up);

typedef struct mrail_route {
    unsigned num;
    uint32_t links[MRAIL_ROUTE_MAX_HOPS]; /* directed, in order */
} mrail_route_t;

/*
 * Finds the route from the NIC of host link `from` to that of host link `to`.
 * The NICs must differ. Returns 0, or -EHOSTUNREACH if a link that the flow
 * must take is down or does not exist.
 */
int mrail_route_find(const mrail_router_t *router, uint32_t from, uint32_t to,
                     uint16_t sport, mrail_route_t *route_p);

#endif
