#include "config.h"
#include "mpi/coll/gather.h"

#include "mpi/coll/request.h"

#include "base/util.h"

#include "ompi/constants.h"
#include "ompi/mca/pml/pml.h"

#include <errno.h>
#include <stdlib.h>

int mca_coll_mrail_gather_init(mca_coll_mrail_gather_t *gather,
                               struct ompi_communicator_t *comm,
                               size_t max_block)
{
    *gather = (mca_coll_mrail_gather_t){
        .comm = comm,
        .num_ranks = (unsigned)ompi_comm_size(comm),
        .self = (unsigned)ompi_comm_rank(comm),
    };
    gather->blocks = calloc(gather->num_ranks, max_block);
    return (gather->blocks != NULL) ? 0 : -ENOMEM;
}

void mca_coll_mrail_gather_cleanup(mca_coll_mrail_gather_t *gather)
{
    /* After a failure, messages may still arrive, so keep their buffers. */
    if (gather->num_requests == 0) {
        free(gather->blocks);
    }
    gather->blocks = NULL;
}

/* Sends the blocks collected so far, including this rank's, to the rank `far`
 * below this one, and receives as many from the rank `far` above. */
static int start_port(mca_coll_mrail_gather_t *gather, unsigned far)
{
    unsigned ranks = gather->num_ranks;
    unsigned from = (gather->self + far) % ranks;
    unsigned to = (gather->self + ranks - far) % ranks;
    size_t bytes = MRAIL_MIN(gather->num_have, ranks - far) * gather->block;
    int ret = MCA_PML_CALL(irecv(gather->blocks + far * gather->block, bytes,
                                 MPI_BYTE, (int)from, gather->tag, gather->comm,
                                 &gather->requests[gather->num_requests]));

    if (ret != OMPI_SUCCESS) {
        return ret;
    }
    ++gather->num_requests;
    ret = MCA_PML_CALL(isend(gather->blocks, bytes, MPI_BYTE, (int)to,
                             gather->tag, MCA_PML_BASE_SEND_STANDARD,
                             gather->comm,
                             &gather->requests[gather->num_requests]));
    gather->num_requests += ret == OMPI_SUCCESS;
    return ret;
}

static unsigned blocks_after(const mca_coll_mrail_gather_t *gather)
{
    return MRAIL_MIN((gather->ports + 1) * gather->num_have, gather->num_ranks);
}

static int start_round(mca_coll_mrail_gather_t *gather)
{
    unsigned after = blocks_after(gather);
    int ret = OMPI_SUCCESS;

    for (unsigned far = gather->num_have; far < after && ret == OMPI_SUCCESS;
         far += gather->num_have) {
        ret = start_port(gather, far);
    }
    return ret;
}

int mca_coll_mrail_gather_start(mca_coll_mrail_gather_t *gather, size_t block,
                                unsigned ports, int tag)
{
    if (gather->num_requests > 0) {
        return OMPI_ERROR; /* an earlier request failed */
    }
    gather->block = block;
    gather->ports = ports;
    gather->tag = tag;
    gather->num_have = 1;
    return start_round(gather);
}

int mca_coll_mrail_gather_progress(mca_coll_mrail_gather_t *gather, int *done_p)
{
    int ret = OMPI_SUCCESS;

    *done_p = 0;
    while (ret == OMPI_SUCCESS) {
        ret = mca_coll_mrail_requests_take(gather->requests,
                                           &gather->num_requests);
        if (ret != OMPI_SUCCESS || gather->num_requests > 0) {
            break;
        }
        gather->num_have = blocks_after(gather);
        if (gather->num_have == gather->num_ranks) {
            *done_p = 1;
            break;
        }
        ret = start_round(gather);
    }
    return ret;
}
