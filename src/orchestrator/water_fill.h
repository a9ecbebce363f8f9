/*
 * The second level of a plan (levels.h): the demands of one pair of nodes fill the
 * rails that were given to the pair, so that few need relays.  A rail that is the own
 * one of both ends takes none, of one end one, of none two.  Pure.
 */
#ifndef MRAIL_ORCHESTRATOR_WATER_FILL_H
#define MRAIL_ORCHESTRATOR_WATER_FILL_H

#include "plan.h"

typedef struct mrail_water_fill_demand {
    uint32_t from_rail, to_rail; /* own ones of its ends, less than num_rails */
    uint64_t bytes;
    int is_small; /* may only take paths with the fewest relays */
} mrail_water_fill_demand_t;

/* Rails on which a demand needs the fewest relays, of `lanes` (bits, one at least). */
uint32_t mrail_water_fill_fewest(uint32_t lanes, uint32_t from_rail,
                                 uint32_t to_rail);

/* Upper bound of third-party bytes of large demands on a rail, except
 * for a byte each. It is a quarter of its room, and the part above half of the bytes that
 * own the rail at one end (all of those that own it at both ends). */
double mrail_water_fill_third_party(uint64_t room, uint64_t wanted);

/*
 * room[num_rails]: bytes of large demands that each rail takes; their sum is
 * that of the demands. Small demands are spread evenly over the lanes with the
 * fewest relays, in addition. is_bounded: third-party bytes are bounded,
 * possibly with more pieces. end[num_demands x num_rails]: the end of each
 * rail's part of each demand.
 */
void mrail_water_fill_make(const mrail_water_fill_demand_t *demands,
                           uint32_t num_demands, uint32_t num_rails,
                           uint32_t lanes, const uint64_t *room, int is_bounded,
                           uint64_t *end);

#endif
