/* The MPI calls of an op and the copies of staged messages. The progress thread
 * makes them. */
#include "config.h"
#include "mpi/stream/stream_internal.h"

#include <stdlib.h>

void mrail_stream_op_free(mrail_stream_op_t *op)
{
    free(op->send.counts);
    free(op->recv.counts);
    free(op);
}

static void *message_buffer(const mrail_stream_op_t *op, void *buffer)
{
    return op->is_staged ? op->block.memory : buffer;
}

/* Starts the MPI call. Returns its result. */
static int start_mpi(mrail_stream_op_t *op)
{
    const mrail_stream_side_t *send = &op->send, *recv = &op->recv;
    MPI_Comm comm = op->owner->comm;

    op->state = MRAIL_STREAM_MPI;
    switch (op->kind) {
    case MRAIL_STREAM_ALLTOALLV:
        return MPI_Ialltoallv(send->buffer, send->counts, send->offsets,
                              send->type, recv->buffer, recv->counts,
                              recv->offsets, recv->type, comm, &op->request);
    case MRAIL_STREAM_SEND:
        return MPI_Isend(message_buffer(op, send->buffer), send->count,
                         send->type, op->peer, op->tag, comm, &op->request);
    default:
        return MPI_Irecv(message_buffer(op, recv->buffer), recv->count,
                         recv->type, op->peer, op->tag, comm, &op->request);
    }
}

static int start_copy(mrail_stream_op_t *op, void *to, const void *from,
                      size_t bytes, mrail_stream_state_t state)
{
    op->state = state;
    return (mca_coll_mrail_copy_start(to, from, bytes, &op->copy) == 0)
               ? MPI_SUCCESS
               : mrail_stream_fail(MRAIL_STREAM_COPY);
}

static int start(mrail_stream_op_t *op)
{
    int error = __atomic_load_n(&op->owner->error, __ATOMIC_RELAXED);

    if (error != MPI_SUCCESS || !op->is_staged) {
        return (error != MPI_SUCCESS) ? error : start_mpi(op);
    }
    if (mca_coll_mrail_block_get(op->bytes, 0, &op->block) < 0) {
        return mrail_stream_fail(MRAIL_STREAM_NO_MEMORY);
    }
    mca_coll_mrail_block_lock(&op->block, -1);
    return (op->kind == MRAIL_STREAM_SEND)
               ? start_copy(op, op->block.memory, op->send.buffer, op->bytes,
                            MRAIL_STREAM_COPY_OUT)
               : start_mpi(op);
}

/* Returns 1 if the op is complete. */
static int end_mpi(mrail_stream_op_t *op, int *error_p)
{
    MPI_Status status;
    MPI_Count bytes = 0;
    int is_done = 0;

    *error_p = MPI_Test(&op->request, &is_done, &status);
    if (*error_p != MPI_SUCCESS || !is_done) {
        return *error_p != MPI_SUCCESS;
    }
    if (op->kind == MRAIL_STREAM_RECV && op->status != MPI_STATUS_IGNORE) {
        *op->status = status;
    }
    if (op->kind != MRAIL_STREAM_RECV || !op->is_staged) {
        return 1;
    }
    MPI_Get_elements_x(&status, MPI_BYTE, &bytes);
    *error_p = start_copy(op, op->recv.buffer, op->block.memory, (size_t)bytes,
                          MRAIL_STREAM_COPY_IN);
    return *error_p != MPI_SUCCESS;
}

/* Returns 1 if the copy is complete. */
static int end_copy(mrail_stream_op_t *op, int *error_p)
{
    int ret = mca_coll_mrail_copy_test(&op->copy);

    if (ret < 0) {
        *error_p = mrail_stream_fail(MRAIL_STREAM_COPY);
    }
    return ret != 0;
}

static int progress(mrail_stream_op_t *op, int *error_p)
{
    switch (op->state) {
    case MRAIL_STREAM_NEW:
        *error_p = start(op);
        return *error_p != MPI_SUCCESS;
    case MRAIL_STREAM_COPY_OUT:
        if (!end_copy(op, error_p)) {
            return 0;
        }
        if (*error_p == MPI_SUCCESS) {
            *error_p = start_mpi(op);
        }
        return *error_p != MPI_SUCCESS;
    case MRAIL_STREAM_MPI:
        return end_mpi(op, error_p);
    default:
        return end_copy(op, error_p);
    }
}

/* Staging blocks are locked for the device of the stream, so its context must be
 * current. */
int mrail_stream_op_progress(mrail_stream_op_t *op, int *error_p)
{
    const mrail_cuda_t *cuda = mrail_cuda_find();
    CUcontext ctx;
    int has_context = cuda->cuCtxPushCurrent(op->owner->ctx) == CUDA_SUCCESS;
    int is_complete = progress(op, error_p);

    if (has_context) {
        (void)cuda->cuCtxPopCurrent(&ctx);
    }
    return is_complete;
}
