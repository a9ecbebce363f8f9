/*
 * Second level of a plan (levels.h): water-filling. The demands of one pair of
 * nodes fill the rails of the pair so that few need relays. A demand needs one
 * relay for each end whose own rail it does not use. Pure.
 */
#ifndef MRAIL_ORCHESTRATOR_WATER_FILL_H
#define MRAIL_ORCHESTRATOR_WATER_FILL_H

#include "plan.h"

typedef struct mrail_water_fill_demand {
    uint32_t from_rail, to_rail; /* own rails of both ends, less than
                                  * num_rails */
    uint64_t bytes;
    int is_small; /* restricted to paths with the fewest relays */
} mrail_water_fill_demand_t;

/* Rails of `lanes` (bits, at least one) on which a demand needs the fewest
 * relays. */
uint32_t mrail_water_fill_fewest(uint32_t lanes, uint32_t from_rail,
                                 uint32_t to_rail);

/* Limit on the bytes of large demands on a rail that neither end owns, exact to
 * one byte per demand. It is a quarter of the rail's room, plus any room beyond
 * half of its owners' bytes. Bytes that own the rail at both ends count in
 * full. */
double mrail_water_fill_third_party(uint64_t room, uint64_t wanted);

/*
 * Divides the demands of a pair of nodes. Small demands are spread equally over
 * the lanes with the fewest relays; room[] does not include them.
 *
 *   room[num_rails]                bytes of large demands for each rail; the
 *                                  sum is that of the large demands
 *   is_bounded                     applies mrail_water_fill_third_party(), with
 *                                  more pieces
 *   end[num_demands x num_rails]   end of each rail's part of each demand
 */
void mrail_water_fill_make(const mrail_water_fill_demand_t *demands,
                           uint32_t num_demands, uint32_t num_rails,
                           uint32_t lanes, const uint64_t *room, int is_bounded,
                           uint64_t *end);

#endif
