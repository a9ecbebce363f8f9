/*
 * The number of lanes that carry one PUT or GET, and the shortest transfer that
 * may leave the first lane. Pure.
 *
 * The model of an operation of L bytes on the k fastest lanes:
 *
 *     time(k) = max(L / (rate of these lanes), L / processor) + k * chunk
 *
 * Splitting saves time on the wire, but every chunk costs processor time. A
 * software device moves the bytes with the processor, so splitting gains
 * nothing beyond its rate.
 */
#ifndef MRAIL_RAIL_SPLIT_H
#define MRAIL_RAIL_SPLIT_H

#include <stddef.h>
#include <stdint.h>

typedef struct mrail_split_cost {
    uint32_t chunk_ns;    /* processor time of a part, besides its bytes */
    uint64_t bytes_per_s; /* rate at which the processor moves or copies bytes;
                           * 0: it does neither */
} mrail_split_cost_t;

/*
 * Returns the number of lanes, from 1 to `count`, with the shortest time, and
 * the smaller number in a tie. rates[0..count): bytes/s, greater than 0; count
 * >= 1. Sorts part of `rates`. The result does not fall if `length` or
 * cost->bytes_per_s rises, and does not rise with cost->chunk_ns.
 */
unsigned mrail_split_lanes(size_t length, double *rates, unsigned count,
                           const mrail_split_cost_t *cost);

/* Returns the smallest length in bytes whose time on a wire of `rate` bytes/s
 * exceeds its processing time, or UINT32_MAX if there is none. Shorter
 * transfers cannot fill the first lane, so others gain nothing. */
uint32_t mrail_split_spread(double rate, const mrail_split_cost_t *cost);

#endif
