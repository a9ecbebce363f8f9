/*
 * Which rail of one engine talks to which rail of another.  Pure.
 *
 * Rails match by subnet (leaf), not by ordinal: inside a subnet with n local
 * and m remote rails there are max(n, m) pairs, the smaller side reused in
 * turn.  When no subnet is common, the network between them is assumed to be
 * routed and all rails form one group.  Both ends compute the same list, with
 * the sides exchanged.
 */
#ifndef MRAIL_RAIL_PAIRING_H
#define MRAIL_RAIL_PAIRING_H

#include <stdint.h>

#define MRAIL_MAX_PAIRS 32

typedef struct mrail_rail_pair {
    uint8_t local;
    uint8_t remote;
} mrail_rail_pair_t;

/* Returns the number of pairs written, at most MRAIL_MAX_PAIRS; 0 if either
 * count is 0.  Counts are at most MRAIL_MAX_RAILS. */
unsigned mrail_rails_pair(const uint64_t *local_subnets, unsigned num_local,
                          const uint64_t *remote_subnets, unsigned num_remote,
                          mrail_rail_pair_t *pairs);

/*
 * The rail pair of the n-th try (n from 0) of a first message to a peer of
 * which some rails are known. Paired rails come first, in rotation, starting
 * with those of remote rail 0. After MRAIL_MAX(pairs, 4) tries every second try
 * takes any pair, because unpaired rails may be routed. Counts as above, and
 * not 0.
 */
mrail_rail_pair_t mrail_rails_try(const uint64_t *local_subnets,
                                  unsigned num_local,
                                  const uint64_t *remote_subnets,
                                  unsigned num_remote, unsigned n);

#endif
