/* Division of byte lines into lanes. Pure. */
#ifndef MRAIL_ORCHESTRATOR_CUTS_H
#define MRAIL_ORCHESTRATOR_CUTS_H

#include <stdint.h>

/* Computes the ends of num_lanes lanes on a line of `bytes`, in proportion to
 * part[] (>= 0, one > 0). Ends rise; the last one is `bytes`. Ends are
 * multiples of 64 bytes if all pieces have at least `large` bytes and 64
 * KiB. */
void mrail_cuts_make(uint64_t bytes, uint64_t large, unsigned num_lanes,
                     const double *part, uint64_t *end);

/* Bytes of a lane. */
uint64_t mrail_cuts_bytes(const uint64_t *end, unsigned lane);

#endif
