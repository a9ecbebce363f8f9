/*
 * The in-flight limit of an exchange without a plan.
 *
 * In step k of P - 1, rank r sends to r + k and receives from r - k. A rank
 * that starts all steps simultaneously queues every message before any
 * completes. Ranks that share its cores then start late, and rails are idle at
 * the beginning and end of a short exchange. A step therefore waits for earlier
 * steps while too many bytes are in flight. The limit is the number of bytes
 * that the rank's share of its rails can move in a given time. The functions
 * are pure.
 *
 * Each rank decides alone. A step waits only for earlier steps, which later
 * steps do not delay. Deadlocks are therefore impossible, even if the ranks
 * decide differently.
 */
#ifndef MRAIL_MPI_COLL_INFLIGHT_H
#define MRAIL_MPI_COLL_INFLIGHT_H

#include "mpi/coll/topology.h"

#include <stdint.h>

/* Minimum number of steps in flight: while one transfers data, the next can
 * wait for its peer's answer. */
#define MCA_COLL_MRAIL_MIN_STEPS 2u

/* The messages that a rank sends (or receives) in one exchange. */
typedef struct mca_coll_mrail_load {
    uint64_t sum, largest; /* bytes */
    uint64_t count;        /* number of messages, at least 1 */
} mca_coll_mrail_load_t;

static inline void mca_coll_mrail_load_add(mca_coll_mrail_load_t *load,
                                           uint64_t bytes)
{
    ++load->count;
    load->sum += bytes;
    load->largest = (bytes > load->largest) ? bytes : load->largest;
}

/*
 * Returns the number of bytes that this rank's share of its rails moves in
 * inflight_us microseconds, according to rank 0's parameters. Returns 0 on all
 * ranks if the call should go to the previous module, because some rank does
 * not use mrail, all ranks are on one node, or inflight_us is 0.
 */
uint64_t
mca_coll_mrail_inflight_bytes(const mca_coll_mrail_rank_entry_t *entries,
                              unsigned num_ranks, unsigned self);

/* Returns the in-flight limit of an exchange in bytes. UINT64_MAX means no
 * limit. */
uint64_t mca_coll_mrail_inflight_window(uint64_t inflight_bytes,
                                        const mca_coll_mrail_load_t *out,
                                        const mca_coll_mrail_load_t *in);

#endif
