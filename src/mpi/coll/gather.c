#include "config.h"
#include "mpi/coll/gather.h"

#include "mpi/coll/request.h"

#include "base/grow.h"
#include "base/util.h"

#include "ompi/constants.h"
#include "ompi/mca/pml/pml.h"

#include <errno.h>
#include <stdlib.h>

int mca_coll_mrail_gather_init(mca_coll_mrail_gather_t *gather,
                               struct ompi_communicator_t *comm)
{
    *gather = (mca_coll_mrail_gather_t){
        .comm = comm,
        .num_ranks = (unsigned)ompi_comm_size(comm),
        .self = (unsigned)ompi_comm_rank(comm),
    };
    gather->words =
        calloc((MCA_COLL_MRAIL_GATHER_PORTS + 1) * MCA_COLL_MRAIL_REDUCE_WORDS,
               sizeof(*gather->words));
    return (gather->words != NULL) ? 0 : -ENOMEM;
}

int mca_coll_mrail_gather_reserve(mca_coll_mrail_gather_t *gather, size_t bytes)
{
    if (bytes > gather->max_bytes) {
        if (!mrail_grow(&gather->blocks, bytes, 1)) {
            return -ENOMEM;
        }
        gather->max_bytes = bytes;
    }
    return 0;
}

void mca_coll_mrail_gather_cleanup(mca_coll_mrail_gather_t *gather)
{
    /* After a failure, messages may still arrive, so keep their buffers. */
    if (gather->num_requests == 0) {
        free(gather->blocks);
        free(gather->words);
    }
    gather->blocks = NULL;
    gather->words = NULL;
    gather->max_bytes = 0;
}

static int post_recv(mca_coll_mrail_gather_t *gather, void *buffer,
                     size_t bytes, unsigned from)
{
    int ret = MCA_PML_CALL(irecv(buffer, bytes, MPI_BYTE, (int)from,
                                 gather->tag, gather->comm,
                                 &gather->requests[gather->num_requests]));

    gather->num_requests += ret == OMPI_SUCCESS;
    return ret;
}

static int post_send(mca_coll_mrail_gather_t *gather, const void *buffer,
                     size_t bytes, unsigned to)
{
    int ret = MCA_PML_CALL(isend(buffer, bytes, MPI_BYTE, (int)to, gather->tag,
                                 MCA_PML_BASE_SEND_STANDARD, gather->comm,
                                 &gather->requests[gather->num_requests]));

    gather->num_requests += ret == OMPI_SUCCESS;
    return ret;
}

static size_t start_of(const mca_coll_mrail_gather_t *gather, unsigned place)
{
    return (gather->starts != NULL) ? gather->starts[place]
                                    : place * gather->block;
}

/* Sends up to num_have blocks, beginning with this rank's own, to the rank at
 * distance `far` below this one. Receives the same number of blocks from the
 * rank at distance `far` above. Both ends know the sizes, so they omit empty
 * messages. */
static int start_port_blocks(mca_coll_mrail_gather_t *gather, unsigned far,
                             unsigned from, unsigned to)
{
    unsigned count = MRAIL_MIN(gather->num_have, gather->num_ranks - far);
    size_t first = start_of(gather, far);
    size_t in = start_of(gather, far + count) - first;
    size_t out = start_of(gather, count);
    int ret = OMPI_SUCCESS;

    if (in > 0) {
        ret = post_recv(gather, gather->blocks + first, in, from);
    }
    if (out > 0 && ret == OMPI_SUCCESS) {
        ret = post_send(gather, gather->blocks, out, to);
    }
    return ret;
}

/* Starts the exchange of a reduction's operands with two ranks. An operand may
 * arrive twice, which does not change the result. */
static int start_port_words(mca_coll_mrail_gather_t *gather, unsigned from,
                            unsigned to)
{
    size_t bytes = MCA_COLL_MRAIL_REDUCE_WORDS * sizeof(*gather->words);
    uint64_t *operand = gather->words + (gather->num_operands + 1) *
                                            MCA_COLL_MRAIL_REDUCE_WORDS;
    int ret = post_recv(gather, operand, bytes, from);

    if (ret != OMPI_SUCCESS) {
        return ret;
    }
    ++gather->num_operands;
    return post_send(gather, gather->words, bytes, to);
}

static unsigned blocks_after(const mca_coll_mrail_gather_t *gather)
{
    return MRAIL_MIN((gather->ports + 1) * gather->num_have, gather->num_ranks);
}

static int start_round(mca_coll_mrail_gather_t *gather)
{
    unsigned ranks = gather->num_ranks, after = blocks_after(gather);
    int ret = OMPI_SUCCESS;

    for (unsigned far = gather->num_have; far < after && ret == OMPI_SUCCESS;
         far += gather->num_have) {
        unsigned from = (gather->self + far) % ranks;
        unsigned to = (gather->self + ranks - far) % ranks;

        ret = gather->is_reduction ? start_port_words(gather, from, to)
                                   : start_port_blocks(gather, far, from, to);
    }
    return ret;
}

static void end_round(mca_coll_mrail_gather_t *gather)
{
    const uint64_t *operand = gather->words + MCA_COLL_MRAIL_REDUCE_WORDS;

    for (unsigned i = 0; i < gather->num_operands;
         ++i, operand += MCA_COLL_MRAIL_REDUCE_WORDS) {
        for (unsigned k = 0; k < MCA_COLL_MRAIL_REDUCE_WORDS; ++k) {
            gather->words[k] &= operand[k];
        }
    }
    gather->num_operands = 0;
    gather->num_have = blocks_after(gather);
}

static int start(mca_coll_mrail_gather_t *gather, unsigned ports, int tag)
{
    if (gather->num_requests > 0) {
        return OMPI_ERROR; /* an earlier request failed */
    }
    gather->ports = ports;
    gather->tag = tag;
    gather->num_have = 1;
    gather->num_operands = 0;
    return start_round(gather);
}

int mca_coll_mrail_gather_start(mca_coll_mrail_gather_t *gather, size_t block,
                                unsigned ports, int tag)
{
    gather->is_reduction = 0;
    gather->starts = NULL;
    gather->block = block;
    return start(gather, ports, tag);
}

int mca_coll_mrail_gather_start_sized(mca_coll_mrail_gather_t *gather,
                                      const size_t *starts, unsigned ports,
                                      int tag)
{
    gather->is_reduction = 0;
    gather->starts = starts;
    return start(gather, ports, tag);
}

int mca_coll_mrail_reduce_start(mca_coll_mrail_gather_t *gather, unsigned ports,
                                int tag)
{
    gather->is_reduction = 1;
    return start(gather, ports, tag);
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
        end_round(gather);
        if (gather->num_have == gather->num_ranks) {
            *done_p = 1;
            break;
        }
        ret = start_round(gather);
    }
    return ret;
}
