/*
 * Pairs the rails of two engines.
 *
 * Rails pair by subnet (leaf), not by number. Within a subnet, n local and m
 * remote rails form max(n, m) pairs; the smaller side is reused in rotation. If
 * no subnet is common, the network between the engines is assumed to be routed,
 * and all rails form one group. Both ends compute the same list, with the sides
 * exchanged.
 */
#ifndef MRAIL_RAIL_PAIRING_H
#define MRAIL_RAIL_PAIRING_H

#include <stdint.h>

#define MRAIL_MAX_PAIRS 32

typedef struct mrail_rail_pair {
    uint8_t local;
    uint8_t remote;
} mrail_rail_pair_t;

/* Returns the number of pairs written, at most MRAIL_MAX_PAIRS, or 0 if either
 * count is 0. Counts are at most MRAIL_MAX_RAILS. */
unsigned mrail_rails_pair(const uint64_t *local_subnets, unsigned num_local,
                          const uint64_t *remote_subnets, unsigned num_remote,
                          mrail_rail_pair_t *pairs);

/*
 * Returns the pair of rails for attempt n (from 0) to send a first message to a
 * peer only some of whose rails are known. Paired rails come first, in
 * rotation, starting with the pairs of remote rail 0. After MRAIL_MAX(pairs, 4)
 * attempts, every second attempt tries any two rails, because the network may
 * route between unpaired rails. Counts are as for mrail_rails_pair(), and not
 * 0.
 */
mrail_rail_pair_t mrail_rails_try(const uint64_t *local_subnets,
                                  unsigned num_local,
                                  const uint64_t *remote_subnets,
                                  unsigned num_remote, unsigned n);

#endif
