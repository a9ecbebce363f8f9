/*
 * A nonblocking allgather and a nonblocking reduction over the pml: Bruck's
 * algorithm with one or more ports. In each round, a rank sends the blocks that
 * it has collected to as many ranks as it has ports. With
 * MCA_COLL_MRAIL_GATHER_PORTS ports, one round is enough for up to 16 ranks,
 * and two for up to 256. Fewer rounds take less time, because every round must
 * wait until all ranks have been scheduled. One port, on the other hand, needs
 * the fewest messages and instructions: 3 messages for 8 ranks, and 6 for 64.
 *
 * A gather collects one block from every rank. The blocks may differ in size if
 * all ranks know all sizes. The reduction computes the bitwise AND of two words
 * from every rank, in 16-byte messages for any number of ranks.
 */
#ifndef MRAIL_MPI_COLL_GATHER_H
#define MRAIL_MPI_COLL_GATHER_H

#include "ompi_config.h"

#include "ompi/communicator/communicator.h"
#include "ompi/request/request.h"

#include <stddef.h>
#include <stdint.h>

#define MCA_COLL_MRAIL_GATHER_PORTS 15u
#define MCA_COLL_MRAIL_REDUCE_WORDS 2u

typedef struct mca_coll_mrail_gather {
    struct ompi_communicator_t *comm;
    char *blocks;     /* block of this rank, then of the next rank, and so on */
    size_t max_bytes; /* capacity for all blocks */
    size_t block;     /* bytes per block; unused if there are `starts` */
    /* offset of each block, in the order of `blocks`, and the end of the last
     * one; NULL if all blocks have the same size */
    const size_t *starts;
    int is_reduction;
    /* operand of this rank, which the result replaces; then operands of other
     * ranks */
    uint64_t *words;
    unsigned num_operands; /* operands of other ranks */
    unsigned num_ranks, self;
    unsigned num_have; /* number of blocks collected so far */
    unsigned ports;
    int tag;
    ompi_request_t *requests[2 * MCA_COLL_MRAIL_GATHER_PORTS];
    unsigned num_requests;
} mca_coll_mrail_gather_t;

/* Initialises the object without memory for blocks. Returns 0 or -ENOMEM. */
int mca_coll_mrail_gather_init(mca_coll_mrail_gather_t *gather,
                               struct ompi_communicator_t *comm);
/* Reserves memory for blocks of this total size, and preserves their content.
 * Returns 0, or -ENOMEM with the object unchanged. */
int mca_coll_mrail_gather_reserve(mca_coll_mrail_gather_t *gather,
                                  size_t bytes);
/* Frees the memory of the object. All requests must have completed. */
void mca_coll_mrail_gather_cleanup(mca_coll_mrail_gather_t *gather);

/* Returns the address to which the caller writes this rank's block before the
 * start. */
static inline void *
mca_coll_mrail_gather_mine(const mca_coll_mrail_gather_t *gather)
{
    return gather->blocks;
}

/* Start a gather of equal blocks; a gather of blocks that begin at starts[0] =
 * 0, starts[1] and so on, in the order of `blocks`; and a reduction of `words`.
 * Memory for the blocks must be reserved, and `starts` must stay valid. `ports`
 * is 1 to MCA_COLL_MRAIL_GATHER_PORTS, and equal on all ranks. Other messages
 * must not use `tag` until the operation is complete. Return OMPI_SUCCESS or
 * OMPI_ERR_*. */
int mca_coll_mrail_gather_start(mca_coll_mrail_gather_t *gather, size_t block,
                                unsigned ports, int tag);
int mca_coll_mrail_gather_start_sized(mca_coll_mrail_gather_t *gather,
                                      const size_t *starts, unsigned ports,
                                      int tag);
int mca_coll_mrail_reduce_start(mca_coll_mrail_gather_t *gather, unsigned ports,
                                int tag);

/* Sets *done_p to 1 once all blocks have arrived, or `words` contains the
 * result. Returns the same codes as mca_coll_mrail_gather_start(). */
int mca_coll_mrail_gather_progress(mca_coll_mrail_gather_t *gather,
                                   int *done_p);

/* Returns the index of a rank's block in `blocks`. */
static inline unsigned
mca_coll_mrail_gather_place(const mca_coll_mrail_gather_t *gather,
                            unsigned rank)
{
    return (rank >= gather->self) ? rank - gather->self
                                  : rank + gather->num_ranks - gather->self;
}

/* Returns the block of a rank, once the gather is complete. */
static inline const void *
mca_coll_mrail_gather_block(const mca_coll_mrail_gather_t *gather,
                            unsigned rank)
{
    unsigned place = mca_coll_mrail_gather_place(gather, rank);

    return gather->blocks + ((gather->starts != NULL) ? gather->starts[place]
                                                      : place * gather->block);
}

#endif
