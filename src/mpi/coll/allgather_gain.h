/*
 * Decides when MPI_Allgatherv gains from two exchanges (mrail_coll_allgatherv.c)
 * instead of an algorithm that passes whole blocks from rank to rank. All ranks
 * know the sizes of all blocks, so they decide alike without messages.
 */
#ifndef MRAIL_MPI_COLL_ALLGATHER_GAIN_H
#define MRAIL_MPI_COLL_ALLGATHER_GAIN_H

#include <stdint.h>

/*
 * `largest` and `total` are bytes of the largest block and of all blocks.
 *
 * Open MPI's algorithms for large blocks pass each block along a chain of ranks:
 * at least half of them, P / 2, because a block may travel in both directions.
 * Steps follow one another, and each lasts as long as its largest block. About
 * N / 2 of the steps cross nodes, so (P - N) / 2 are copies within nodes, of
 * `largest` bytes each. The two exchanges copy `total` bytes within nodes, and
 * use all rails of a node between nodes. They gain if they copy less, whatever
 * the rates of the rails are.
 */
static inline int mca_coll_mrail_allgather_gains(uint64_t largest,
                                                 uint64_t total,
                                                 unsigned num_ranks,
                                                 unsigned num_nodes)
{
    return num_nodes > 1 && largest * (num_ranks - num_nodes) >= 2 * total;
}

/* Returns the offset of part `part` of a block that is divided into `num` parts
 * of equal size. */
static inline uint64_t
mca_coll_mrail_allgather_offset(uint64_t bytes, unsigned part, unsigned num)
{
    return bytes / num * part + bytes % num * part / num;
}

#endif
