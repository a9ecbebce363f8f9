/*
 * Splits equal flows over uplinks with the fewest pieces: Algorithm 1 of
 * Ethereal. Source: [Ethereal] 3.2 and the proof of Theorem 1.
 *
 * n equal flows go to one leaf over s uplinks. Each uplink carries floor(n/s)
 * whole flows. The remaining r = n mod s flows are each split into s/g pieces,
 * where g = gcd(r, s), and each uplink carries r/g pieces. Every uplink then
 * carries the same load as under optimal packet spraying. This adds the minimum
 * number of pieces: r (s - g)/g.
 *
 * Time and random numbers are arguments. Any thread may call the functions.
 */
#ifndef MRAIL_FABRIC_ETHEREAL_H
#define MRAIL_FABRIC_ETHEREAL_H

#include "base/clock.h"
#include "base/rng.h"

#include <stdint.h>

typedef struct mrail_ethereal_split {
    uint32_t flows, uplinks; /* n, s */
    uint32_t whole;          /* floor(n/s): whole flows per uplink */
    uint32_t split;          /* r: flows that are split */
    uint32_t pieces;         /* s/g per split flow; 1 if r is 0 */
    uint32_t pieces_each;    /* r/g: pieces per uplink */
} mrail_ethereal_split_t;

/* Splits `flows` flows over `uplinks` (>= 1) usable uplinks. */
mrail_ethereal_split_t mrail_ethereal_split(uint32_t flows, uint32_t uplinks);

/* Returns the total number of pieces. A whole flow counts as one piece. */
uint64_t mrail_ethereal_num_pieces(const mrail_ethereal_split_t *split);

typedef struct mrail_ethereal_piece {
    uint32_t flow;          /* 0 to n - 1 */
    uint32_t piece, pieces; /* piece number `piece` of `pieces` equal pieces */
    uint32_t uplink;        /* 0 to s - 1, counting only usable uplinks */
} mrail_ethereal_piece_t;

/* Returns piece i < mrail_ethereal_num_pieces(). Pieces are ordered by flow. */
mrail_ethereal_piece_t mrail_ethereal_piece(const mrail_ethereal_split_t *split,
                                            uint64_t i);

/* The usable paths. A failed path is bad until its timer expires. Source:
 * [Ethereal] 3.3. */
typedef struct mrail_ethereal_paths {
    uint32_t num;
    mrail_ns_t *bad_until_ns; /* by path; 0 if good */
} mrail_ethereal_paths_t;

/* Marks `num` (>= 1) paths as good. The caller owns bad_until_ns[num]. */
void mrail_ethereal_paths_init(mrail_ethereal_paths_t *paths,
                               mrail_ns_t *bad_until_ns, uint32_t num);

/* Marks a failed path as bad until now_ns + retry_ns. */
void mrail_ethereal_path_fail(mrail_ethereal_paths_t *paths, uint32_t path,
                              mrail_ns_t now_ns, mrail_ns_t retry_ns);

/* Writes the usable paths in ascending order to usable[paths->num]. If none is
 * usable, writes all paths, because an exchange must try some path. Returns
 * their number, at least 1. */
uint32_t mrail_ethereal_paths_usable(const mrail_ethereal_paths_t *paths,
                                     mrail_ns_t now_ns, uint32_t *usable);

/* Returns a random start time of a flow in a batch, uniform in [0, max_ns],
 * max_ns < UINT32_MAX. This keeps synchronised senders from repeatedly causing
 * the same incast. Source: [Ethereal] 3.1. */
mrail_ns_t mrail_ethereal_stagger(mrail_rng_t *rng, mrail_ns_t max_ns);

/* Fills order[] with a random permutation of 0 to count - 1 (Fisher and
 * Yates). */
void mrail_ethereal_shuffle(mrail_rng_t *rng, uint32_t *order, uint32_t count);

#endif
