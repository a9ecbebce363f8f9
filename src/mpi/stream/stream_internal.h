/*
 * Declares communicators with a CUDA stream, and the operations in the stream:
 *
 *   stream.c         user calls; one op for each
 *   stream_comm.c    data attached to a communicator
 *   stream_error.c   error codes and their messages
 *   stream_op.c      MPI calls and copies of an op, which the thread makes
 *   stream_thread.c  the progress thread, one for each process
 *
 * An op puts two commands into the stream. The first command is a host function
 * that only passes the op to the thread. Host functions must not call CUDA, and
 * may delay the host functions of other streams. The second command blocks the
 * stream until the counter of finished ops in pinned memory reaches the number
 * of this op.
 */
#ifndef MRAIL_MPI_STREAM_INTERNAL_H
#define MRAIL_MPI_STREAM_INTERNAL_H

#include "mpi/stream/stream.h"

#include "base/list.h"
#include "cuda/driver.h"
#include "mpi/coll/copy.h"

#include <stdint.h>

/* ---- errors ---- */

typedef enum mrail_stream_reason {
    MRAIL_STREAM_NO_THREADS,
    MRAIL_STREAM_NO_DRIVER,
    MRAIL_STREAM_NO_CONTEXT,
    MRAIL_STREAM_NO_MEMORY,
    MRAIL_STREAM_OTHER_RANK,
    MRAIL_STREAM_NOT_ATTACHED,
    MRAIL_STREAM_GAPS,
    MRAIL_STREAM_MIXED,
    MRAIL_STREAM_REFUSED,
    MRAIL_STREAM_COPY,
    MRAIL_STREAM_CAPTURE,
    MRAIL_STREAM_NUM_REASONS
} mrail_stream_reason_t;

/* Returns the MPI error code for a reason. MPI must be initialised. */
int mrail_stream_fail(mrail_stream_reason_t reason);

/* ---- communicators ---- */

typedef struct mrail_stream_comm {
    MPI_Comm comm;
    CUstream stream;
    CUcontext ctx;         /* current when the stream was attached */
    unsigned wait_flags;   /* flags for cuStreamWaitValue32() */
    int holds_by_function; /* 1 if a host function blocks the stream */
    /* number of finished ops, in pinned memory that the GPU reads; the thread
     * writes it */
    uint32_t *finished;
    uint32_t num_ops; /* number of ops so far; the user's threads write it */
    int error;        /* first error of an op; atomic */
} mrail_stream_comm_t;

/* Returns the data attached to a communicator, or NULL. */
mrail_stream_comm_t *mrail_stream_comm_find(MPI_Comm comm);

/* ---- operations ---- */

typedef enum mrail_stream_kind {
    MRAIL_STREAM_ALLTOALLV,
    MRAIL_STREAM_SEND,
    MRAIL_STREAM_RECV
} mrail_stream_kind_t;

/* One end of an op. A message uses only `count`. */
typedef struct mrail_stream_side {
    void *buffer;
    int count;
    int *counts, *offsets;
    MPI_Datatype type;
} mrail_stream_side_t;

/* States of an op in the progress thread, in this order. */
typedef enum mrail_stream_state {
    MRAIL_STREAM_NEW,
    MRAIL_STREAM_COPY_OUT, /* device memory to host memory */
    MRAIL_STREAM_MPI,      /* an MPI request is in progress */
    MRAIL_STREAM_COPY_IN   /* host memory to device memory */
} mrail_stream_state_t;

typedef struct mrail_stream_op {
    mrail_list_t node;
    mrail_stream_comm_t *owner;
    uint32_t number; /* number in the stream, from 1 */
    mrail_stream_kind_t kind;
    mrail_stream_side_t send, recv;
    int peer, tag;
    MPI_Status *status; /* the user's status, or MPI_STATUS_IGNORE */
    mrail_stream_state_t state;
    MPI_Request request;
    size_t bytes;  /* length of a message */
    int is_staged; /* 1 if the message moves through `block` */
    mca_coll_mrail_block_t block;
    mca_coll_mrail_copy_t copy;
} mrail_stream_op_t;

/* Advances an op. Returns 1 once it is complete; *error_p then receives its
 * result. */
int mrail_stream_op_progress(mrail_stream_op_t *op, int *error_p);
void mrail_stream_op_free(mrail_stream_op_t *op);

/* ---- progress thread ---- */

/* Starts the thread unless it is running. Returns 0 or an errno value. The
 * thread exits in MPI_Finalize(), after the ops that have started. */
int mrail_stream_thread_start(void);

/* Host functions; `arg` is an op. The second one also frees it. */
void mrail_stream_begin(void *arg);
void mrail_stream_hold(void *arg);

#endif
