/* Divides a range of bytes among lanes. */
#ifndef MRAIL_ORCHESTRATOR_CUTS_H
#define MRAIL_ORCHESTRATOR_CUTS_H

#include <stdint.h>

/* Divides `bytes` among num_lanes lanes in proportion to part[] (each >= 0, at
 * least one > 0). end[] is ascending, and its last entry is `bytes`. If every
 * piece has at least `large` bytes and at least 64 KiB, the ends are multiples
 * of 64 bytes. */
void mrail_cuts_make(uint64_t bytes, uint64_t large, unsigned num_lanes,
                     const double *part, uint64_t *end);

/* Returns the number of bytes in a lane. */
uint64_t mrail_cuts_bytes(const uint64_t *end, unsigned lane);

#endif
