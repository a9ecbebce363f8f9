/* Lines of bytes, cut into lanes.  Pure. */
#ifndef MRAIL_ORCHESTRATOR_CUTS_H
#define MRAIL_ORCHESTRATOR_CUTS_H

#include <stdint.h>

/* Where each of num_lanes lanes ends on a line of `bytes`, which are divided in
 * proportion to part[] (>= 0, one > 0): rising, the last one at `bytes`.  Cuts are at
 * multiples of 64 bytes if pieces of `large` bytes would be 64 of them or more. */
void mrail_cuts_make(uint64_t bytes, uint64_t large, unsigned num_lanes,
                     const double *part, uint64_t *end);

/* The bytes of a lane. */
uint64_t mrail_cuts_bytes(const uint64_t *end, unsigned lane);

#endif
