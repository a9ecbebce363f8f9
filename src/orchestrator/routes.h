/*
 * Maps the paths of demands in a topology (plan.h) to rows of lanes for a
 * division (flows.h), and maps lanes back to rails and relays.
 *
 * Lanes are rails, plus one for the path through the spine if there is one.
 * Within a node with pairwise links, a lane is the place of the relay; the
 * receiver's own place means no relay. With a switch there is one lane.
 * Multi-rail ranks of a node share their rows.
 *
 * No I/O; one thread per object.
 */
#ifndef MRAIL_ORCHESTRATOR_ROUTES_H
#define MRAIL_ORCHESTRATOR_ROUTES_H

#include "flows.h"
#include "plan.h"

typedef struct mrail_routes mrail_routes_t;

/* 0, or -ENOMEM, or -EINVAL: no link exists. The topology is not used
 * afterwards. */
int mrail_routes_create(const mrail_plan_topo_t *topo,
                        mrail_routes_t **routes_p);
void mrail_routes_destroy(mrail_routes_t *routes);

/* Out row, in row, and the allowed lanes as bits. */
typedef struct mrail_route {
    uint32_t row[2];
    uint32_t lanes;
} mrail_route_t;

/* 1 and the route of a demand between two different ranks. A small demand gets
 * the lanes with the fewest relays. 0: the demand is not planned.
 * -EHOSTUNREACH. */
int mrail_routes_find(const mrail_routes_t *routes, uint32_t from, uint32_t to,
                      int is_small, mrail_route_t *route_p);

/* 1: both ranks are on one node and its GPU links connect them. */
int mrail_routes_is_inside(const mrail_routes_t *routes, uint32_t from,
                           uint32_t to);

/* Lanes of a route with the fewest relays, as bits. */
uint32_t mrail_routes_shortest(const mrail_routes_t *routes,
                               const mrail_route_t *route);

/* Lane of a demand in the baseline of mrail_plan_compare(). */
unsigned mrail_routes_direct(const mrail_routes_t *routes, uint32_t from,
                             uint32_t to, const mrail_route_t *route);

/* Sets the relays and rails of a piece on this lane. */
void mrail_routes_explain(const mrail_routes_t *routes, uint32_t from,
                          uint32_t to, const mrail_route_t *route,
                          unsigned lane, mrail_plan_piece_t *piece);

uint32_t mrail_routes_num_lanes(const mrail_routes_t *routes);
/* 1: some lane has relays. */
int mrail_routes_has_relays(const mrail_routes_t *routes);

/* All rows, and their slots. */
uint32_t mrail_routes_num_rows(const mrail_routes_t *routes);
const mrail_flows_slot_t *mrail_routes_slots(const mrail_routes_t *routes);

/* Cut sets of links. A set is the ports of a node or the uplinks of a leaf
 * group, in one direction. The second function gives the set of each link, or
 * MRAIL_FLOWS_NO_LINK. */
uint32_t mrail_routes_num_sets(const mrail_routes_t *routes);
const uint32_t *mrail_routes_sets(const mrail_routes_t *routes);
/* Uplink or downlink of each port's leaf, or MRAIL_FLOWS_NO_LINK. */
const uint32_t *mrail_routes_parents(const mrail_routes_t *routes);

/* Kind, names and capacity of each link; bytes are 0. */
uint32_t mrail_routes_num_links(const mrail_routes_t *routes);
const mrail_plan_link_t *mrail_routes_links(const mrail_routes_t *routes);

#endif
