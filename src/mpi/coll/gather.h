/*
 * An allgather that does not wait: Bruck's, over the pml, with one port or many: in
 * each round a rank sends what it has to so many others.  With
 * MCA_COLL_MRAIL_GATHER_PORTS there is one round up to 16 ranks, two up to 256: every
 * round waits for all ranks to be scheduled.  With one there are the fewest messages,
 * and the fewest instructions: three among 8 ranks, six among 64.
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
    char *blocks;     /* of this rank, the next one, ... */
    size_t max_bytes; /* of all blocks */
    size_t block;     /* bytes */
    unsigned num_ranks, self;
    unsigned num_have; /* blocks */
    unsigned ports;
    int tag;
    ompi_request_t *requests[2 * MCA_COLL_MRAIL_GATHER_PORTS];
    unsigned num_requests;
} mca_coll_mrail_gather_t;

/* max_block: bytes of the largest block.  0 or -ENOMEM. */
int mca_coll_mrail_gather_init(mca_coll_mrail_gather_t *gather,
                               struct ompi_communicator_t *comm,
                               size_t max_block);
/* Nothing is under way. */
void mca_coll_mrail_gather_cleanup(mca_coll_mrail_gather_t *gather);

/* Where the caller puts this rank's block, before it starts. */
static inline void *
mca_coll_mrail_gather_mine(const mca_coll_mrail_gather_t *gather)
{
    return gather->blocks;
}

/* ports: 1 to MCA_COLL_MRAIL_GATHER_PORTS, the same at all ranks.  OMPI_SUCCESS or
 * OMPI_ERR_...; `tag` is for this one alone until it ends. */
int mca_coll_mrail_gather_start(mca_coll_mrail_gather_t *gather, size_t block,
                                unsigned ports, int tag);

/* *done_p: 1: all blocks are there.  Returns as start does. */
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
