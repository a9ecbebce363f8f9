/*
 * Second level of a plan (levels.h): water-filling. The demands of a pair of
 * nodes fill the pair's rails such that few bytes need relays. A demand needs
 * one relay at each end whose own rail it does not use. Pure.
 */
#ifndef MRAIL_ORCHESTRATOR_WATER_FILL_H
#define MRAIL_ORCHESTRATOR_WATER_FILL_H

#include "plan.h"

typedef struct mrail_water_fill_demand {
    /* own rails of the two ends, below num_rails */
    uint32_t from_rail, to_rail;
    uint64_t bytes;
    int is_small; /* 1: may only use paths with the fewest relays */
} mrail_water_fill_demand_t;

/* Returns the rails of `lanes` (bits, at least one) on which a demand needs the
 * fewest relays. */
uint32_t mrail_water_fill_fewest(uint32_t lanes, uint32_t from_rail,
                                 uint32_t to_rail);

/* Returns the limit on third-party bytes, which are bytes of large demands on a
 * rail that neither end owns. It is exact to one byte per demand: a quarter of
 * the rail's room, plus any room beyond half of its owners' bytes. Bytes for
 * which both ends own the rail count in full. */
double mrail_water_fill_third_party(uint64_t room, uint64_t wanted);

/*
 * Divides the demands of a pair of nodes. Small demands are spread equally over
 * the lanes with the fewest relays and are not included in room[].
 *
 *   room[num_rails]                bytes of large demands for each rail; adds
 *                                  up to all large demands
 *   is_bounded                     mrail_water_fill_third_party() must hold, at
 *                                  the cost of more pieces
 *   end[num_demands x num_rails]   where each rail's part of each demand ends
 */
void mrail_water_fill_make(const mrail_water_fill_demand_t *demands,
                           uint32_t num_demands, uint32_t num_rails,
                           uint32_t lanes, const uint64_t *room, int is_bounded,
                           uint64_t *end);

#endif
