/* Divides a range of bytes among lanes. Pure. */
#ifndef MRAIL_ORCHESTRATOR_CUTS_H
#define MRAIL_ORCHESTRATOR_CUTS_H

#include <stdint.h>

/* Divides a range of `bytes` among num_lanes lanes in proportion to part[]
 * (>= 0, one > 0). Ends rise; the last one is `bytes`. Ends are
 * multiples of 64 bytes if all pieces have at least `large` bytes and 64
 * KiB. */
void mrail_cuts_make(uint64_t bytes, uint64_t large, unsigned num_lanes,
                     const double *part, uint64_t *end);

/* Number of bytes in a lane. */
uint64_t mrail_cuts_bytes(const uint64_t *end, unsigned lane);

#endif
