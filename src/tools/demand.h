/*
 * Computes the demands of the alltoallv benchmark, which are the bytes that
 * each rank sends to each other rank. The functions are deterministic: every
 * rank computes the same demands.
 */
#ifndef MRAIL_TOOLS_DEMAND_H
#define MRAIL_TOOLS_DEMAND_H

#include <stdint.h>

/* value of hotspot_ppm for no hot receiver */
#define MRAIL_DEMAND_UNIFORM UINT32_MAX

typedef enum mrail_demand_pattern {
    MRAIL_DEMAND_SHIFT, /* the hot receiver of rank r is r + ranks/2 */
    MRAIL_DEMAND_SINGLE /* the hot receiver of every rank is rank 0 */
} mrail_demand_pattern_t;

/*
 * Computes row `rank` of the demands, bytes[d] for each d < ranks. The row sums
 * to exactly `size`, or to 0 if ranks is 1. bytes[rank] is 0.
 *
 * The fraction hotspot_ppm (0 to 1,000,000) goes to the hot receiver, and the
 * rest is divided evenly among the other ranks. Remainder bytes go to the ranks
 * that follow `rank`. The row is uniform if the hot receiver is the rank
 * itself, or if hotspot_ppm is MRAIL_DEMAND_UNIFORM. With two ranks, all bytes
 * go to the other rank. ranks >= 1, rank < ranks, size < 2^44.
 */
void mrail_demand_row(unsigned ranks, unsigned rank, uint64_t size,
                      uint32_t hotspot_ppm, mrail_demand_pattern_t pattern,
                      uint64_t *bytes);

#endif
