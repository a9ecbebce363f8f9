/*
 * A nonblocking allgather: Bruck's algorithm over the pml, with one or more
 * ports. In each round, a rank sends its blocks to as many ranks as it has
 * ports. With MCA_COLL_MRAIL_GATHER_PORTS ports, one round suffices for up to
 * 16 ranks and two for up to 256. Few rounds are fast, because in every round
 * all ranks must be scheduled before any can continue. One port, on the other
 * hand, takes the fewest messages and instructions: 3 messages for 8 ranks, 6
 * for 64.
 */
#ifndef MRAIL_MPI_COLL_GATHER_H
#define MRAIL_MPI_COLL_GATHER_H

#include "ompi_config.h"

#include "ompi/communicator/communicator.h"
#include "ompi/request/request.h"

#include <stddef.h>

#define MCA_COLL_MRAIL_GATHER_PORTS 15u

typedef struct mca_coll_mrail_gather {
    struct ompi_communicator_t *comm;
    char *blocks;     /* block of this rank, then of the next rank, and so on */
    size_t max_bytes; /* capacity for all blocks */
    size_t block;     /* bytes per block */
    unsigned num_ranks, self;
    unsigned num_have; /* blocks collected so far */
    unsigned ports;
    int tag;
    ompi_request_t *requests[2 * MCA_COLL_MRAIL_GATHER_PORTS];
    unsigned num_requests;
} mca_coll_mrail_gather_t;

/* Prepares the object. max_block is the size in bytes of the largest block that
 * will be gathered. Returns 0 or -ENOMEM. */
int mca_coll_mrail_gather_init(mca_coll_mrail_gather_t *gather,
                               struct ompi_communicator_t *comm,
                               size_t max_block);
/* Frees the memory of the object. No request may be in flight. */
void mca_coll_mrail_gather_cleanup(mca_coll_mrail_gather_t *gather);

/* Returns the address at which the caller stores this rank's block before the
 * start. */
static inline void *
mca_coll_mrail_gather_mine(const mca_coll_mrail_gather_t *gather)
{
    return gather->blocks;
}

/* Starts a gather. `ports` is 1 to MCA_COLL_MRAIL_GATHER_PORTS, and equal on
 * all ranks. Until the gather ends, `tag` must not be used for other messages.
 * Returns OMPI_SUCCESS or OMPI_ERR_*. */
int mca_coll_mrail_gather_start(mca_coll_mrail_gather_t *gather, size_t block,
                                unsigned ports, int tag);

/* Sets *done_p to 1 once all blocks have arrived. Returns the same codes as
 * mca_coll_mrail_gather_start(). */
int mca_coll_mrail_gather_progress(mca_coll_mrail_gather_t *gather,
                                   int *done_p);

/* Returns the block of a rank, once the gather has ended. */
static inline const void *
mca_coll_mrail_gather_block(const mca_coll_mrail_gather_t *gather,
                            unsigned rank)
{
    unsigned place =
        (rank + gather->num_ranks - gather->self) % gather->num_ranks;

    return gather->blocks + place * gather->block;
}

#endif
