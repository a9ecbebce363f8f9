#include "config.h"
#include "mpi/stream/stream_internal.h"

#include <pthread.h>

static const char *const sentences[MRAIL_STREAM_NUM_REASONS] = {
    [MRAIL_STREAM_NO_THREADS] =
        "mrail: communication in streams needs MPI_THREAD_MULTIPLE; initialise "
        "MPI with MPI_Init_thread",
    [MRAIL_STREAM_NO_DRIVER] =
        "mrail: communication in streams needs a GPU: this process has not "
        "loaded and initialised the CUDA driver",
    [MRAIL_STREAM_NO_CONTEXT] =
        "mrail: no CUDA context is current; make the stream's context current",
    [MRAIL_STREAM_NO_MEMORY] =
        "mrail: out of memory for communication in streams",
    [MRAIL_STREAM_OTHER_RANK] =
        "mrail: another rank cannot attach its stream to the communicator",
    [MRAIL_STREAM_NOT_ATTACHED] =
        "mrail: the communicator has no stream; create it with "
        "mrail_stream_comm_create",
    [MRAIL_STREAM_GAPS] =
        "mrail: messages from and to device memory need a datatype without "
        "gaps",
    [MRAIL_STREAM_MIXED] =
        "mrail: the buffer is not within one allocation, or has been freed",
    [MRAIL_STREAM_REFUSED] =
        "mrail: the CUDA driver rejects commands in the stream; the stream was "
        "destroyed, or its context has an error",
    [MRAIL_STREAM_COPY] =
        "mrail: a copy between host and device memory has failed",
    [MRAIL_STREAM_CAPTURE] =
        "mrail: the stream is being captured into a graph, and graphs cannot "
        "contain communication",
};

int mrail_stream_fail(mrail_stream_reason_t reason)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int class, codes[MRAIL_STREAM_NUM_REASONS];
    int code;

    pthread_mutex_lock(&lock);
    if (class == 0) {
        MPI_Add_error_class(&class);
        MPI_Add_error_string(class, "mrail: communication in a CUDA stream");
    }
    if (codes[reason] == 0) {
        MPI_Add_error_code(class, &codes[reason]);
        MPI_Add_error_string(codes[reason], sentences[reason]);
    }
    code = codes[reason];
    pthread_mutex_unlock(&lock);
    return code;
}
