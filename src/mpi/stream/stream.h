/*
 * MPI communication in CUDA streams. A call of this library puts a message or
 * an exchange into a stream and returns. The message starts when the work
 * before it in the stream is complete, and later work in the stream waits until
 * the message is complete. The CPU need not synchronise with the stream. Names
 * and semantics follow MPICH's MPIX_*_enqueue.
 *
 *     MPI_Comm comm;
 *
 *     mrail_stream_comm_create(MPI_COMM_WORLD, stream, &comm);
 *     produce<<<blocks, threads, 0, stream>>>(send);
 *     mrail_alltoallv_enqueue(send, send_counts, send_offsets, MPI_FLOAT,
 *                             recv, recv_counts, recv_offsets, MPI_FLOAT,
 *                             comm);
 *     consume<<<blocks, threads, 0, stream>>>(recv);
 *     cudaStreamSynchronize(stream);
 *     MPI_Comm_free(&comm);
 *
 * MPI must have been initialised with MPI_THREAD_MULTIPLE, because a thread of
 * the library makes the MPI calls. The process must have loaded the CUDA
 * driver. For exchanges of device memory, it must have loaded the driver before
 * MPI_Init.
 *
 * All functions return MPI_SUCCESS or an MPI error code, which
 * MPI_Error_string() explains. They do not call error handlers. If
 * communication fails later, the stream continues. Further communication on the
 * communicator is skipped, and every later call on it returns the error.
 *
 * Any thread may call these functions. Threads that use the same communicator
 * must order their calls, as for the stream itself. See mrail-stream(3).
 */
#ifndef MRAIL_STREAM_H
#define MRAIL_STREAM_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* CUstream and cudaStream_t are pointers to this type. */
struct CUstream_st;

/*
 * Duplicates `comm` and attaches a stream of this process to the duplicate. The
 * call is collective. Each rank may choose any stream; NULL is the default
 * stream. The context of the stream must be current. MPI_Comm_free() waits for
 * the communication on the duplicate. The stream must exist until then.
 *
 * Errors leave *stream_comm_p unchanged: MPI was not initialised with
 * MPI_THREAD_MULTIPLE, the process has not loaded a CUDA driver, no context is
 * current, or memory ran out. If one rank fails, all ranks return the same
 * error.
 */
int mrail_stream_comm_create(MPI_Comm comm, struct CUstream_st *stream,
                             MPI_Comm *stream_comm_p);

/*
 * Like MPI_Alltoallv(), but ordered in the stream of `stream_comm`. Buffers may
 * be in host or device memory, if MPI_Alltoallv() can use them. The function
 * copies the arrays. Buffers and datatypes must stay valid until the stream has
 * completed the exchange.
 */
int mrail_alltoallv_enqueue(const void *send, const int *send_counts,
                            const int *send_offsets, MPI_Datatype send_type,
                            void *recv, const int *recv_counts,
                            const int *recv_offsets, MPI_Datatype recv_type,
                            MPI_Comm stream_comm);

/*
 * Like MPI_Send() and MPI_Recv(). Device memory goes through pinned host
 * memory, and its datatype must have no gaps. *status is written before the
 * stream continues, and must stay valid until then. `status` may be
 * MPI_STATUS_IGNORE.
 *
 * The stream waits for a message until it is complete. If two ranks both put a
 * send before the receive into their streams, they may wait for each other, as
 * with MPI_Send(). Use two communicators with two streams.
 */
int mrail_send_enqueue(const void *buffer, int count, MPI_Datatype type, int to,
                       int tag, MPI_Comm stream_comm);
int mrail_recv_enqueue(void *buffer, int count, MPI_Datatype type, int from,
                       int tag, MPI_Comm stream_comm, MPI_Status *status);

/* Returns the first error of communication on `stream_comm` so far, or
 * MPI_SUCCESS. After a synchronisation of the stream, the result covers all
 * calls before the synchronisation. */
int mrail_stream_error(MPI_Comm stream_comm);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
