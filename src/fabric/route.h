/*
 * The links that a flow takes through a fabric: ECMP by a hash, or port rules.
 *
 * Going up, a switch chooses among its uplinks that lead to the destination. Rules send
 * a source port to the uplink of its segment; on a spine below cores, to the
 * segment inside the leaf's. ECMP hashes the 5-tuple with a seed per switch. Going
 * down, parallel links are chosen by the hash, or (rules) by the number of the
 * parallel link that the flow came up by, as the paper's spine VRFs do.
 * Sources: [CTCCL] 3.2 and 4.1; ports by orchestrator/ports.h.
 *
 * A directed link is 2 * link for the way up, and 2 * link + 1 for the way down.
 * Pure; a router does not change after it was made, except by link failures.
 */
#ifndef MRAIL_FABRIC_ROUTE_H
#define MRAIL_FABRIC_ROUTE_H

#include "fabric/fabric.h"

#define MRAIL_ROUTE_MAX_HOPS 6 /* host, leaf, spine, core and down again */

#define MRAIL_ROUTE_UP(_link) (2 * (_link))
#define MRAIL_ROUTE_DOWN(_link) (2 * (_link) + 1)

typedef enum mrail_route_mode {
    MRAIL_ROUTE_ECMP,
    MRAIL_ROUTE_RULES,      /* a failed uplink: ECMP over the others */
    MRAIL_ROUTE_RULES_DROP, /* a failed uplink: its packets are dropped */
} mrail_route_mode_t;

typedef struct mrail_router mrail_router_t;

/* The fabric outlives the router. NULL without memory. */
mrail_router_t *mrail_router_create(const mrail_fabric_t *fabric,
                                    mrail_route_mode_t mode, uint64_t seed);
void mrail_router_destroy(mrail_router_t *router);

/* A link fails or returns, in both directions. */
void mrail_router_link(mrail_router_t *router, uint32_t link, int is_up);

typedef struct mrail_route {
    unsigned num;
    uint32_t links[MRAIL_ROUTE_MAX_HOPS]; /* directed, in order */
} mrail_route_t;

/*
 * The route from the NIC of host link `from` to that of host link `to`, two
 * different NICs. 0; -EHOSTUNREACH: a link that the flow has to take is down, or
 * there is none.
 */
int mrail_route_find(const mrail_router_t *router, uint32_t from, uint32_t to,
                     uint16_t sport, mrail_route_t *route_p);

#endif
