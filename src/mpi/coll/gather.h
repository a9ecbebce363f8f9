/*
 * A nonblocking allgather: Bruck's algorithm over the pml, with one or more
 * ports. In each round a rank sends its blocks to as many ranks as it has
 * ports. With MCA_COLL_MRAIL_GATHER_PORTS, one round serves up to 16 ranks and
 * two serve up to 256; every round waits until all ranks have been scheduled.
 * With one port, the messages and instructions are fewest: 3 messages for 8
 * ranks, 6 for 64.
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
    char *blocks;     /* of this rank first, then of the next rank, and so on */
    size_t max_bytes; /* capacity for all blocks */
    size_t block;     /* bytes per block */
    unsigned num_ranks, self;
    unsigned num_have; /* blocks collected so far */
    unsigned ports;
    int tag;
    ompi_request_t *requests[2 * MCA_COLL_MRAIL_GATHER_PORTS];
    unsigned num_requests;
} mca_coll_mrail_gather_t;

/* max_block: bytes of the largest block that will be gathered. 0 or -ENOMEM. */
int mca_coll_mrail_gather_init(mca_coll_mrail_gather_t *gather,
                               struct ompi_communicator_t *comm,
                               size_t max_block);
/* No request may be in flight. */
void mca_coll_mrail_gather_cleanup(mca_coll_mrail_gather_t *gather);

/* Where the caller puts this rank's block before the start. */
static inline void *
mca_coll_mrail_gather_mine(const mca_coll_mrail_gather_t *gather)
{
    return gather->blocks;
}

/* ports: 1 to MCA_COLL_MRAIL_GATHER_PORTS, the same at all ranks. Until the
 * end, `tag` must not be used for other messages. OMPI_SUCCESS or
 * OMPI_ERR_*. */
int mca_coll_mrail_gather_start(mca_coll_mrail_gather_t *gather, size_t block,
                                unsigned ports, int tag);

/* Sets *done_p to 1 once all blocks have arrived. Returns the same codes as
 * mca_coll_mrail_gather_start(). */
int mca_coll_mrail_gather_progress(mca_coll_mrail_gather_t *gather,
                                   int *done_p);

/* Block of a rank. Valid after the end. */
static inline const void *
mca_coll_mrail_gather_block(const mca_coll_mrail_gather_t *gather,
                            unsigned rank)
{
    unsigned place =
        (rank + gather->num_ranks - gather->self) % gather->num_ranks;

    return gather->blocks + place * gather->block;
}

#endif
