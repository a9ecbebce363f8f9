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

/* Bounded: the most of large demands that a rail takes although it is the own one of neither
 * end, but for a byte each: a quarter of its room, and what is more than half of the
 * bytes for which it is the own one (of those for which it is at both ends: all). */
double mrail_water_fill_third_party(uint64_t room, uint64_t wanted);

/*
 * room[num_rails]: bytes of large demands that each rail takes, as many together as
 * there are.  Small demands are spread evenly over the lanes with the fewest relays,
 * beside that.
 * is_bounded: strangers are, though more pieces may be made.
 * end[num_demands x num_rails]: where each rail's part of each demand ends.
 */
void mrail_water_fill_make(const mrail_water_fill_demand_t *demands,
                           uint32_t num_demands, uint32_t num_rails,
                           uint32_t lanes, const uint64_t *room, int is_bounded,
                           uint64_t *end);

#endif
