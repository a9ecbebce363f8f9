/* The calls that put operations into a stream. */
#include "config.h"
#include "mpi/stream/stream_internal.h"

#include "base/util.h"
#include "cuda/memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- arguments ---- */

/* Determines how a message moves. Returns MPI_SUCCESS or an error. */
static int check_message(mrail_stream_op_t *op, const mrail_stream_side_t *side)
{
    MPI_Count size = 0, lower = 0, extent = 0;
    mrail_cuda_range_t range;

    MPI_Type_size_x(side->type, &size);
    MPI_Type_get_extent_x(side->type, &lower, &extent);
    op->bytes = (size_t)size * (size_t)side->count;
    if (op->bytes == 0) {
        return MPI_SUCCESS;
    }
    if (mrail_cuda_recognise(side->buffer, op->bytes, &range) < 0) {
        return mrail_stream_fail(MRAIL_STREAM_MIXED);
    }
    op->is_staged = range.memory != MRAIL_CUDA_HOST;
    return (op->is_staged && (lower != 0 || extent != size))
               ? mrail_stream_fail(MRAIL_STREAM_GAPS)
               : MPI_SUCCESS;
}

/* Copies the arrays of a side. Returns 0 if memory runs out. */
static int copy_arrays(mrail_stream_side_t *side, size_t ranks,
                       const int *counts, const int *offsets)
{
    side->counts = malloc(2 * ranks * sizeof(int));
    if (side->counts == NULL) {
        return 0;
    }
    side->offsets = side->counts + ranks;
    memcpy(side->counts, counts, ranks * sizeof(int));
    memcpy(side->offsets, offsets, ranks * sizeof(int));
    return 1;
}

/* ---- commands in the stream ---- */

/* Returns 1 if commands become part of a graph, which may run several times. */
static int is_capturing(const mrail_cuda_t *cuda, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    return cuda->cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Puts the commands of an op into the stream. Once the first command is in the
 * stream, the op will begin. If the driver rejects the second command, the
 * stream does not wait for the op, and the error remains set. */
static int put(mrail_stream_op_t *op)
{
    const mrail_cuda_t *cuda = mrail_cuda_find();
    mrail_stream_comm_t *owner = op->owner;
    uint32_t number;
    CUresult result;

    if (is_capturing(cuda, owner->stream)) {
        mrail_stream_op_free(op);
        return mrail_stream_fail(MRAIL_STREAM_CAPTURE);
    }
    number = ++owner->num_ops;
    op->number = number;
    if (cuda->cuLaunchHostFunc(owner->stream, mrail_stream_begin, op) !=
        CUDA_SUCCESS) {
        --owner->num_ops;
        mrail_stream_op_free(op);
        return mrail_stream_fail(MRAIL_STREAM_REFUSED);
    }
    result = owner->holds_by_function
                 ? cuda->cuLaunchHostFunc(owner->stream, mrail_stream_hold, op)
                 : cuda->cuStreamWaitValue32(owner->stream,
                                             (uintptr_t)owner->finished, number,
                                             owner->wait_flags);
    if (result != CUDA_SUCCESS) {
        int error = mrail_stream_fail(MRAIL_STREAM_REFUSED);

        __atomic_store_n(&owner->error, error, __ATOMIC_RELAXED);
        return error;
    }
    return MPI_SUCCESS;
}

/* Returns the first error of the communicator. */
static int find(MPI_Comm comm, mrail_stream_comm_t **owner_p)
{
    *owner_p = mrail_stream_comm_find(comm);
    return (*owner_p == NULL)
               ? mrail_stream_fail(MRAIL_STREAM_NOT_ATTACHED)
               : __atomic_load_n(&(*owner_p)->error, __ATOMIC_RELAXED);
}

static mrail_stream_op_t *op_create(mrail_stream_comm_t *owner,
                                    mrail_stream_kind_t kind)
{
    mrail_stream_op_t *op = calloc(1, sizeof(*op));

    if (op != NULL) {
        op->owner = owner;
        op->kind = kind;
        op->status = MPI_STATUS_IGNORE;
    }
    return op;
}

/* ---- calls ---- */

int mrail_alltoallv_enqueue(const void *send, const int *send_counts,
                            const int *send_offsets, MPI_Datatype send_type,
                            void *recv, const int *recv_counts,
                            const int *recv_offsets, MPI_Datatype recv_type,
                            MPI_Comm stream_comm)
{
    mrail_stream_comm_t *owner;
    mrail_stream_op_t *op;
    int error = find(stream_comm, &owner), ranks = 0;

    if (error != MPI_SUCCESS) {
        return error;
    }
    MPI_Comm_size(stream_comm, &ranks);
    op = op_create(owner, MRAIL_STREAM_ALLTOALLV);
    if (op == NULL) {
        return mrail_stream_fail(MRAIL_STREAM_NO_MEMORY);
    }
    op->send.buffer = (void *)send;
    op->send.type = send_type;
    op->recv.buffer = recv;
    op->recv.type = recv_type;
    if ((send != MPI_IN_PLACE &&
         !copy_arrays(&op->send, (size_t)ranks, send_counts, send_offsets)) ||
        !copy_arrays(&op->recv, (size_t)ranks, recv_counts, recv_offsets)) {
        mrail_stream_op_free(op);
        return mrail_stream_fail(MRAIL_STREAM_NO_MEMORY);
    }
    return put(op);
}

static int put_message(mrail_stream_kind_t kind, mrail_stream_side_t side,
                       int peer, int tag, MPI_Comm comm, MPI_Status *status)
{
    mrail_stream_comm_t *owner;
    mrail_stream_op_t *op;
    int error = find(comm, &owner);

    if (error != MPI_SUCCESS) {
        return error;
    }
    op = op_create(owner, kind);
    if (op == NULL) {
        return mrail_stream_fail(MRAIL_STREAM_NO_MEMORY);
    }
    error = (side.count < 0) ? MPI_ERR_COUNT : check_message(op, &side);
    if (error != MPI_SUCCESS) {
        mrail_stream_op_free(op);
        return error;
    }
    if (kind == MRAIL_STREAM_SEND) {
        op->send = side;
    } else {
        op->recv = side;
    }
    op->peer = peer;
    op->tag = tag;
    op->status = status;
    return put(op);
}

int mrail_send_enqueue(const void *buffer, int count, MPI_Datatype type, int to,
                       int tag, MPI_Comm stream_comm)
{
    mrail_stream_side_t side = {
        .buffer = (void *)buffer, .count = count, .type = type};

    return put_message(MRAIL_STREAM_SEND, side, to, tag, stream_comm,
                       MPI_STATUS_IGNORE);
}

int mrail_recv_enqueue(void *buffer, int count, MPI_Datatype type, int from,
                       int tag, MPI_Comm stream_comm, MPI_Status *status)
{
    mrail_stream_side_t side = {.buffer = buffer, .count = count, .type = type};

    return put_message(MRAIL_STREAM_RECV, side, from, tag, stream_comm, status);
}

int mrail_stream_error(MPI_Comm stream_comm)
{
    mrail_stream_comm_t *owner;

    return find(stream_comm, &owner);
}
