/*
 * Maps the paths of demands in a topology (plan.h) to rows of lanes for a
 * division (flows.h), and maps lanes back to rails and relays.
 *
 * A lane is a rail or, if there is one, the path through the spine. The
 * branches of a lane are the relays that lead to the rail, or the rails that
 * lead to the spine; a slot with only one way has no branches. Within a node
 * with pairwise links, a lane is the local index of the relay; the receiver's
 * own index means no relay. With a switch there is one lane. Ranks of a class
 * share their rows: they are on one node, reach the same rails without limits,
 * and use no relays.
 *
 * No I/O. One thread at a time may use an object.
 */
#ifndef MRAIL_ORCHESTRATOR_ROUTES_H
#define MRAIL_ORCHESTRATOR_ROUTES_H

#include "flows.h"
#include "plan.h"

typedef struct mrail_routes mrail_routes_t;

/* Returns 0, -ENOMEM, or -EINVAL if there are no links. The topology is not
 * needed afterwards. */
int mrail_routes_create(const mrail_plan_topo_t *topo,
                        mrail_routes_t **routes_p);
void mrail_routes_destroy(mrail_routes_t *routes);

/* The out row, the in row, and the allowed lanes as bits. */
typedef struct mrail_route {
    uint32_t row[2];
    uint32_t lanes;
} mrail_route_t;

/* Finds the route of a demand between two different ranks. A small demand may
 * use only the lanes with the fewest relays. Returns 1; 0 if the demand is not
 * planned; or -EHOSTUNREACH if it has no path. */
int mrail_routes_find(const mrail_routes_t *routes, uint32_t from, uint32_t to,
                      int is_small, mrail_route_t *route_p);

/* Returns 1 if both ranks are on one node and connected by its GPU links. */
int mrail_routes_is_inside(const mrail_routes_t *routes, uint32_t from,
                           uint32_t to);

/* Returns the lanes of a route with the fewest relays, as bits. */
uint32_t mrail_routes_shortest(const mrail_routes_t *routes,
                               const mrail_route_t *route);

/* Returns the lane of a demand in the baseline that mrail_plan_compare()
 * computes. */
unsigned mrail_routes_direct(const mrail_routes_t *routes, uint32_t from,
                             uint32_t to, const mrail_route_t *route);

/* Writes the relays and rails of a piece on this lane. The branches are those
 * of the out slot and the in slot, or 0 if a slot has none. */
void mrail_routes_explain(const mrail_routes_t *routes, uint32_t to,
                          const mrail_route_t *route, unsigned lane,
                          unsigned branch_out, unsigned branch_in,
                          mrail_plan_piece_t *piece);

uint32_t mrail_routes_num_lanes(const mrail_routes_t *routes);
/* Returns 1 if any lane has relays. */
int mrail_routes_has_relays(const mrail_routes_t *routes);

/* Return the number of rows, their slots, and the branches of all slots. */
uint32_t mrail_routes_num_rows(const mrail_routes_t *routes);
const mrail_flows_slot_t *mrail_routes_slots(const mrail_routes_t *routes);
uint32_t mrail_routes_num_branches(const mrail_routes_t *routes);
const mrail_flows_branch_t *mrail_routes_branches(const mrail_routes_t *routes);

/* Return the class of a rank, or MRAIL_PLAN_NONE, and the number of classes, at
 * most MRAIL_PLAN_MAX_NODES. */
uint32_t mrail_routes_class(const mrail_routes_t *routes, uint32_t rank);
uint32_t mrail_routes_num_classes(const mrail_routes_t *routes);

/* Cut sets are the ports of a node, or the uplinks of a leaf group, in one
 * direction. The second function returns the set of each link, or
 * MRAIL_FLOWS_NO_LINK. */
uint32_t mrail_routes_num_sets(const mrail_routes_t *routes);
const uint32_t *mrail_routes_sets(const mrail_routes_t *routes);
/* Returns the leaf's uplink or downlink for each port, or
 * MRAIL_FLOWS_NO_LINK. */
const uint32_t *mrail_routes_parents(const mrail_routes_t *routes);

/* These return the number of links, and the kind, names and capacity of each.
 * `bytes` is 0. */
uint32_t mrail_routes_num_links(const mrail_routes_t *routes);
const mrail_plan_link_t *mrail_routes_links(const mrail_routes_t *routes);

#endif
