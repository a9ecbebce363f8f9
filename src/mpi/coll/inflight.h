/*
 * How much of an exchange without a plan a rank has under way at a time.
 *
 * In step k of P - 1 rank r sends to r + k and receives from r - k.  A rank that
 * begins all steps at once has every message cut up and queued before any is through:
 * others that share its processors begin late, and rails idle at both ends of a short
 * exchange.  So steps wait for earlier ones while as much is under way as the rank's
 * share of its rails moves in a given time.  Pure.
 *
 * Every rank decides for itself: a step waits for earlier ones only, which no later one
 * holds up, so no rank waits for ever whatever the others have decided.
 */
#ifndef MRAIL_MPI_COLL_INFLIGHT_H
#define MRAIL_MPI_COLL_INFLIGHT_H

#include "mpi/coll/topology.h"

#include <stdint.h>

/* Steps that are under way at least, however long: one comes in while the next one's
 * answer is awaited. */
#define MCA_COLL_MRAIL_MIN_STEPS 2u

/* What one rank sends, or receives, in an exchange. */
typedef struct mca_coll_mrail_load {
    uint64_t sum, largest; /* bytes */
    uint64_t count;        /* messages; not 0 */
} mca_coll_mrail_load_t;

static inline void mca_coll_mrail_load_add(mca_coll_mrail_load_t *load,
                                           uint64_t bytes)
{
    ++load->count;
    load->sum += bytes;
    load->largest = (bytes > load->largest) ? bytes : load->largest;
}

/*
 * Bytes that this rank's share of its rails moves in params.pace microseconds, of rank
 * 0's params.  0, the same at all ranks: the previous module exchanges, because a rank
 * does not use mrail, or has GPUs, all are on one node, or pace is 0.
 */
uint64_t
mca_coll_mrail_inflight_bytes(const mca_coll_mrail_rank_entry_t *members,
                              unsigned num_ranks, unsigned self);

/* What may be under way in an exchange, in bytes; UINT64_MAX: all of it. */
uint64_t mca_coll_mrail_inflight_window(uint64_t inflight_bytes,
                                        const mca_coll_mrail_load_t *out,
                                        const mca_coll_mrail_load_t *in);

#endif
