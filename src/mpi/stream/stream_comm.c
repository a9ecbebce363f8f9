/* Attaches streams to communicators. */
#include "config.h"
#include "mpi/stream/stream_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- life cycle ---- */

static void comm_free(mrail_stream_comm_t *owner)
{
    const mrail_cuda_t *cuda = mrail_cuda_find();

    if (owner != NULL && cuda->cuCtxPushCurrent(owner->ctx) == CUDA_SUCCESS) {
        (void)cuda->cuMemFreeHost(owner->finished);
        (void)cuda->cuCtxPopCurrent(NULL);
    }
    free(owner);
}

/* Called by MPI_Comm_free(). After an error in the context, some ops may never
 * begin. Their memory is not freed. */
static int comm_detach(MPI_Comm comm, int key, void *value, void *extra)
{
    const mrail_cuda_t *cuda = mrail_cuda_find();
    mrail_stream_comm_t *owner = value;
    CUresult result = cuda->cuCtxPushCurrent(owner->ctx);

    if (result == CUDA_SUCCESS) {
        result = cuda->cuStreamSynchronize(owner->stream);
        (void)cuda->cuCtxPopCurrent(NULL);
    }
    if (result == CUDA_SUCCESS) {
        comm_free(owner);
    }
    return MPI_SUCCESS;
}

/* Returns 1 if the environment requests a host function. */
static int wants_function(void)
{
    const char *hold = getenv("MRAIL_STREAM_HOLD");

    return hold != NULL && strcmp(hold, "function") == 0;
}

static unsigned wait_flags(const mrail_cuda_t *cuda)
{
    CUdevice device;
    int flushes = 0;

    if (cuda->cuCtxGetDevice(&device) == CUDA_SUCCESS) {
        (void)cuda->cuDeviceGetAttribute(
            &flushes, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, device);
    }
    return CU_STREAM_WAIT_VALUE_GEQ |
           (flushes ? CU_STREAM_WAIT_VALUE_FLUSH : 0);
}

/* Returns MPI_SUCCESS or an error. */
static int comm_create(CUstream stream, mrail_stream_comm_t **owner_p)
{
    const mrail_cuda_t *cuda = mrail_cuda_find();
    mrail_stream_comm_t *owner;
    CUcontext ctx = NULL;
    int level = MPI_THREAD_SINGLE;

    MPI_Query_thread(&level);
    if (level < MPI_THREAD_MULTIPLE) {
        return mrail_stream_fail(MRAIL_STREAM_NO_THREADS);
    }
    if (cuda == NULL ||
        cuda->cuCtxGetCurrent(&ctx) == CUDA_ERROR_NOT_INITIALIZED) {
        return mrail_stream_fail(MRAIL_STREAM_NO_DRIVER);
    }
    if (ctx == NULL) {
        return mrail_stream_fail(MRAIL_STREAM_NO_CONTEXT);
    }
    owner = calloc(1, sizeof(*owner));
    if (owner == NULL) {
        return mrail_stream_fail(MRAIL_STREAM_NO_MEMORY);
    }
    owner->ctx = ctx;
    if (cuda->cuMemHostAlloc((void **)&owner->finished, sizeof(uint32_t),
                             CU_MEMHOSTALLOC_PORTABLE) != CUDA_SUCCESS ||
        mrail_stream_thread_start() != 0) {
        comm_free(owner);
        return mrail_stream_fail(MRAIL_STREAM_NO_MEMORY);
    }
    *owner->finished = 0;
    owner->stream = stream;
    owner->wait_flags = wait_flags(cuda);
    owner->holds_by_function =
        wants_function() ||
        cuda->cuStreamWaitValue32(stream, (uintptr_t)owner->finished, 0,
                                  owner->wait_flags) != CUDA_SUCCESS;
    *owner_p = owner;
    return MPI_SUCCESS;
}

/* ---- attributes ---- */

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static int key = MPI_KEYVAL_INVALID;

static void create_key(void)
{
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, comm_detach, &key, NULL);
}

mrail_stream_comm_t *mrail_stream_comm_find(MPI_Comm comm)
{
    mrail_stream_comm_t *owner = NULL;
    int found = 0;

    if (comm == MPI_COMM_NULL || key == MPI_KEYVAL_INVALID) {
        return NULL;
    }
    MPI_Comm_get_attr(comm, key, &owner, &found);
    return found ? owner : NULL;
}

int mrail_stream_comm_create(MPI_Comm comm, struct CUstream_st *stream,
                             MPI_Comm *stream_comm_p)
{
    mrail_stream_comm_t *owner = NULL;
    int error = comm_create(stream, &owner);
    int is_ok = error == MPI_SUCCESS, all_ok = 0, ret;
    MPI_Comm copy;

    ret = MPI_Allreduce(&is_ok, &all_ok, 1, MPI_INT, MPI_MIN, comm);
    if (error == MPI_SUCCESS) {
        error = (ret != MPI_SUCCESS) ? ret
                : all_ok             ? MPI_Comm_dup(comm, &copy)
                         : mrail_stream_fail(MRAIL_STREAM_OTHER_RANK);
    }
    if (error != MPI_SUCCESS) {
        comm_free(owner);
        return error;
    }
    pthread_once(&key_once, create_key);
    MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
    MPI_Comm_set_attr(copy, key, owner);
    owner->comm = copy;
    *stream_comm_p = copy;
    return MPI_SUCCESS;
}
