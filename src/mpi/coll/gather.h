/*
 * A nonblocking allgather: Bruck's algorithm over the pml, with one or more
 * ports. In each round a rank sends its blocks to as many ranks as there are
 * ports. With MCA_COLL_MRAIL_GATHER_PORTS one round serves up to 16 ranks and
 * two serve up to 256; every round waits until all ranks are scheduled. One
 * port takes the fewest messages and instructions: 3 messages among 8 ranks, 6
 * among 64.
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
    char *blocks;     /* of this rank, the next rank, and so on */
    size_t max_bytes; /* capacity for all blocks */
    size_t block;     /* bytes of a block */
    unsigned num_ranks, self;
    unsigned num_have; /* blocks collected */
    unsigned ports;
    int tag;
    ompi_request_t *requests[2 * MCA_COLL_MRAIL_GATHER_PORTS];
    unsigned num_requests;
} mca_coll_mrail_gather_t;

/* max_block: bytes of the largest block. 0 or -ENOMEM. */
int mca_coll_mrail_gather_init(mca_coll_mrail_gather_t *gather,
                               struct ompi_communicator_t *comm,
                               size_t max_block);
/* No request may be in flight. */
void mca_coll_mrail_gather_cleanup(mca_coll_mrail_gather_t *gather);

/* Place of this rank's block; the caller fills it before the start. */
static inline void *
mca_coll_mrail_gather_mine(const mca_coll_mrail_gather_t *gather)
{
    return gather->blocks;
}

/* ports: 1 to MCA_COLL_MRAIL_GATHER_PORTS, equal at all ranks. `tag` must not
 * be used for other messages until the end. OMPI_SUCCESS or OMPI_ERR_*. */
int mca_coll_mrail_gather_start(mca_coll_mrail_gather_t *gather, size_t block,
                                unsigned ports, int tag);

/* *done_p: 1: all blocks have arrived. Returns as
 * mca_coll_mrail_gather_start(). */
int mca_coll_mrail_gather_progress(mca_coll_mrail_gather_t *gather,
                                   int *done_p);

/* The block of a rank, after the end. */
static inline const void *
mca_coll_mrail_gather_block(const mca_coll_mrail_gather_t *gather,
                            unsigned rank)
{
    unsigned place =
        (rank + gather->num_ranks - gather->self) % gather->num_ranks;

    return gather->blocks + place * gather->block;
}

#endif
