/*
 * The candidate paths of demands in a topology (plan.h), as rows of lanes for
 * the division (flows.h), and the meaning of a lane.
 *
 * A lane is a rail, or the path through the spine if there is one. Within a
 * node with pairwise links it is the position of the relaying rank (the
 * receiver's own position: none). With a switch there is one lane. Multi-rail
 * ranks of a node share their rows.
 *
 * No I/O; one thread per object.
 */
#ifndef MRAIL_ORCHESTRATOR_ROUTES_H
#define MRAIL_ORCHESTRATOR_ROUTES_H

#include "flows.h"
#include "plan.h"

typedef struct mrail_routes mrail_routes_t;

/* 0, or -ENOMEM, or -EINVAL: there is no link at all.  The topology is not looked at
 * afterwards. */
int mrail_routes_create(const mrail_plan_topo_t *topo,
                        mrail_routes_t **routes_p);
void mrail_routes_destroy(mrail_routes_t *routes);

/* Ways out and in, and the lanes of both that may be taken, as bits. */
typedef struct mrail_route {
    uint32_t row[2];
    uint32_t lanes;
} mrail_route_t;

/* 1, and the route of a demand between two different ranks that exist: of a small one
 * the lanes with the fewest relays; 0: there is nothing to plan; -EHOSTUNREACH. */
int mrail_routes_find(const mrail_routes_t *routes, uint32_t from, uint32_t to,
                      int is_small, mrail_route_t *route_p);

/* Are they two ranks of one node that it has GPU links for? */
int mrail_routes_is_inside(const mrail_routes_t *routes, uint32_t from,
                           uint32_t to);

/* Those of a route's lanes that take the fewest relays, as bits. */
uint32_t mrail_routes_shortest(const mrail_routes_t *routes,
                               const mrail_route_t *route);

/* The lane that a demand would take alone: see mrail_plan_compare(). */
unsigned mrail_routes_direct(const mrail_routes_t *routes, uint32_t from,
                             uint32_t to, const mrail_route_t *route);

/* Relays, rails of a piece on this lane. */
void mrail_routes_explain(const mrail_routes_t *routes, uint32_t from,
                          uint32_t to, const mrail_route_t *route,
                          unsigned lane, mrail_plan_piece_t *piece);

uint32_t mrail_routes_num_lanes(const mrail_routes_t *routes);
/* A lane anywhere takes relays. */
int mrail_routes_has_relays(const mrail_routes_t *routes);

/* All rows, and their slots. */
uint32_t mrail_routes_num_rows(const mrail_routes_t *routes);
const mrail_flows_slot_t *mrail_routes_slots(const mrail_routes_t *routes);

/* Sets of links that may be a cut: the ports of a node, or the uplinks of a pod, in one
 * direction.  Of each link the number of its set, or MRAIL_FLOWS_NO_LINK. */
uint32_t mrail_routes_num_sets(const mrail_routes_t *routes);
const uint32_t *mrail_routes_sets(const mrail_routes_t *routes);
/* Of each port the uplink or downlink of its leaf, or MRAIL_FLOWS_NO_LINK. */
const uint32_t *mrail_routes_parents(const mrail_routes_t *routes);

/* Kind, names and capacity of each link; bytes are 0. */
uint32_t mrail_routes_num_links(const mrail_routes_t *routes);
const mrail_plan_link_t *mrail_routes_links(const mrail_routes_t *routes);

#endif
