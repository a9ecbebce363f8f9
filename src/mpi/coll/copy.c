#include "config.h"
#include "mpi/coll/copy.h"

#include "cuda/memory.h"

#include "base/grow.h"
#include "base/util.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- streams ---- */

/* A GPU has a copy engine for each direction. One stream per engine keeps all
 * engines busy. */
typedef enum direction {
    TO_HOST,
    TO_DEVICE,
    ON_DEVICES,
    /* Copies from different GPUs use different links. */
    NUM_STREAMS = ON_DEVICES + 8,
} direction_t;

typedef struct streams {
    CUcontext ctx;
    CUstream list[NUM_STREAMS]; /* NULL if not created yet */
} streams_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static streams_t *all_streams; /* streams of all contexts used so far */
static size_t num_streams;
static unsigned num_copies; /* number of copies on devices */

/* Returns the streams of a context, or NULL. The caller holds the lock. */
static streams_t *find_streams(CUcontext ctx)
{
    for (size_t i = 0; i < num_streams; ++i) {
        if (all_streams[i].ctx == ctx) {
            return &all_streams[i];
        }
    }
    if (!mrail_grow(&all_streams, num_streams + 1, sizeof(*all_streams))) {
        return NULL;
    }
    all_streams[num_streams] = (streams_t){.ctx = ctx};
    return &all_streams[num_streams++];
}

/* Copies in a stream of the current context, and records an event after the
 * copy. */
static CUresult copy_in(const mrail_cuda_t *cuda, CUstream stream, void *to,
                        const void *from, size_t bytes, CUevent event)
{
    CUresult result =
        cuda->cuMemcpyAsync((uintptr_t)to, (uintptr_t)from, bytes, stream);

    return (result == CUDA_SUCCESS) ? cuda->cuEventRecord(event, stream)
                                    : result;
}

/* Starts a copy on a stream of the context. If the stream is invalid, the
 * function recreates it, because a new context may have the address of a
 * destroyed context. */
static CUresult copy_with_lock(const mrail_cuda_t *cuda, CUcontext ctx,
                               direction_t direction, void *to,
                               const void *from, size_t bytes, CUevent event)
{
    streams_t *streams = find_streams(ctx);
    unsigned place = direction;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    if (direction == ON_DEVICES) {
        place += num_copies++ % (NUM_STREAMS - ON_DEVICES);
    }
    for (int attempt = 0; attempt < 2 && streams != NULL; ++attempt) {
        CUstream *stream = &streams->list[place];
        int is_new = *stream == NULL;

        result = is_new ? cuda->cuStreamCreate(stream, CU_STREAM_NON_BLOCKING)
                        : CUDA_SUCCESS;
        if (result == CUDA_SUCCESS) {
            result = copy_in(cuda, *stream, to, from, bytes, event);
        } else {
            *stream = NULL;
        }
        if (result == CUDA_SUCCESS || is_new) {
            break;
        }
        *stream = NULL;
    }
    return result;
}

static CUresult copy_in_context(const mrail_cuda_t *cuda, direction_t direction,
                                void *to, const void *from, size_t bytes,
                                mca_coll_mrail_copy_t *copy)
{
    CUresult result = cuda->cuCtxGetCurrent(&copy->ctx);

    if (result == CUDA_SUCCESS) {
        result = cuda->cuEventCreate(&copy->event, CU_EVENT_DISABLE_TIMING);
    }
    if (result != CUDA_SUCCESS) {
        copy->event = NULL;
        return result;
    }
    pthread_mutex_lock(&lock);
    result = copy_with_lock(cuda, copy->ctx, direction, to, from, bytes,
                            copy->event);
    pthread_mutex_unlock(&lock);
    if (result != CUDA_SUCCESS) {
        (void)cuda->cuEventDestroy(copy->event);
        copy->event = NULL;
    }
    return result;
}

static int fail(size_t bytes, const char *reason)
{
    fprintf(stderr,
            "mrail: coll: a copy of %zu bytes of device memory failed: %s\n",
            bytes, reason);
    return -EIO;
}

int mca_coll_mrail_copy_start(void *to, const void *from, size_t bytes,
                              mca_coll_mrail_copy_t *copy)
{
    mrail_cuda_range_t target, source;
    const mrail_cuda_range_t *range;
    direction_t direction = ON_DEVICES;
    CUresult result;
    int ret = mrail_cuda_recognise(to, bytes, &target);

    *copy = (mca_coll_mrail_copy_t){0};
    ret = (ret == 0) ? mrail_cuda_recognise(from, bytes, &source) : ret;
    if (ret < 0) {
        return fail(bytes, mrail_cuda_range_text(ret));
    }
    range = &target;
    if (target.memory == MRAIL_CUDA_HOST) {
        direction = TO_HOST;
        range = &source;
    } else if (source.memory == MRAIL_CUDA_HOST) {
        direction = TO_DEVICE;
    }
    if (range->memory == MRAIL_CUDA_HOST) {
        memmove(to, from, bytes);
        return 0;
    }
    if (mrail_cuda_enter(range) < 0) {
        return fail(bytes, "the CUDA context of the memory has been destroyed");
    }
    result =
        copy_in_context(mrail_cuda_find(), direction, to, from, bytes, copy);
    mrail_cuda_leave(range);
    return (result == CUDA_SUCCESS) ? 0 : fail(bytes, mrail_cuda_error(result));
}

int mca_coll_mrail_copy_test(mca_coll_mrail_copy_t *copy)
{
    const mrail_cuda_t *cuda;
    CUcontext ctx;
    CUresult result;

    if (copy->event == NULL) {
        return 1;
    }
    cuda = mrail_cuda_find();
    result = cuda->cuCtxPushCurrent(copy->ctx);
    if (result == CUDA_SUCCESS) {
        result = cuda->cuEventQuery(copy->event);
        if (result != CUDA_ERROR_NOT_READY) {
            (void)cuda->cuEventDestroy(copy->event);
        }
        (void)cuda->cuCtxPopCurrent(&ctx);
    }
    if (result == CUDA_ERROR_NOT_READY) {
        return 0;
    }
    copy->event = NULL;
    return (result == CUDA_SUCCESS) ? 1 : fail(0, mrail_cuda_error(result));
}

int mca_coll_mrail_copy_wait(mca_coll_mrail_copy_t *copy)
{
    int ret;

    while ((ret = mca_coll_mrail_copy_test(copy)) == 0) {
        sched_yield();
    }
    return MRAIL_MIN(ret, 0);
}

int mca_coll_mrail_copy_now(void *to, const void *from, size_t bytes)
{
    mca_coll_mrail_copy_t copy;
    int ret = mca_coll_mrail_copy_start(to, from, bytes, &copy);

    return (ret == 0) ? mca_coll_mrail_copy_wait(&copy) : ret;
}

/* ---- host memory ---- */

/* Maximum number and total size in bytes of the blocks that the process keeps
 * for later calls. */
#define MAX_KEPT 8u
#define MAX_KEPT_BYTES ((size_t)256 << 20)
/* Block sizes are multiples of this number of bytes, so that later calls can
 * reuse the blocks. */
#define BLOCK_UNIT ((size_t)1 << 16)

static mca_coll_mrail_block_t kept[MAX_KEPT];
static unsigned num_kept;
static size_t kept_bytes;

/* Calls func with the context of the thread. If the driver rejects this context,
 * calls it again with the primary context of the GPU. */
static CUresult with_context(CUresult (*func)(const mca_coll_mrail_block_t *),
                             const mca_coll_mrail_block_t *block)
{
    mrail_cuda_range_t range = {.device = block->gpu};
    CUresult result = func(block);

    if ((result == CUDA_ERROR_INVALID_CONTEXT ||
         result == CUDA_ERROR_CONTEXT_IS_DESTROYED) &&
        mrail_cuda_enter(&range) == 0) {
        result = func(block);
        mrail_cuda_leave(&range);
    }
    return result;
}

static CUresult register_block(const mca_coll_mrail_block_t *block)
{
    return mrail_cuda_find()->cuMemHostRegister(block->memory, block->size,
                                                CU_MEMHOSTREGISTER_PORTABLE);
}

static CUresult unregister_block(const mca_coll_mrail_block_t *block)
{
    return mrail_cuda_find()->cuMemHostUnregister(block->memory);
}

/* Memory that the driver does not unregister stays mapped. Other memory at its
 * address would count as registered, but the GPU would access the old pages. */
static void block_free(mca_coll_mrail_block_t *block)
{
    CUresult result =
        block->is_locked ? with_context(unregister_block, block) : CUDA_SUCCESS;

    if (result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED ||
        result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED) {
        (void)munmap(block->memory, block->size);
    }
}

/* Reuses the smallest kept block that is large enough. Returns 0 if there is
 * none. */
static int take_kept(size_t size, mca_coll_mrail_block_t *block)
{
    unsigned best = MAX_KEPT;

    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < num_kept; ++i) {
        if (kept[i].size >= size &&
            (best == MAX_KEPT || kept[i].size < kept[best].size)) {
            best = i;
        }
    }
    if (best < MAX_KEPT) {
        *block = kept[best];
        kept[best] = kept[--num_kept];
        kept_bytes -= block->size;
    }
    pthread_mutex_unlock(&lock);
    return best < MAX_KEPT;
}

/* Allocates a block. The memory does not come from the driver, which would free
 * it together with the context. It is shared, so that fork() does not make the
 * next write of this process replace a page that the GPU still accesses. */
int mca_coll_mrail_block_get(size_t size, int is_sparse,
                             mca_coll_mrail_block_t *block)
{
    void *memory;

    if (!is_sparse && take_kept(size, block)) {
        return 0;
    }
    size = MRAIL_DIV_ROUND_UP(MRAIL_MAX(size, 1), BLOCK_UNIT) * BLOCK_UNIT;
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return -ENOMEM;
    }
    *block = (mca_coll_mrail_block_t){
        .memory = memory, .size = size, .is_pageable = is_sparse};
    return 0;
}

void mca_coll_mrail_block_lock(mca_coll_mrail_block_t *block, int gpu)
{
    if (!block->is_locked && !block->is_pageable) {
        block->gpu = gpu;
        block->is_locked = with_context(register_block, block) == CUDA_SUCCESS;
        block->is_pageable = !block->is_locked;
    }
}

void mca_coll_mrail_block_put(mca_coll_mrail_block_t *block)
{
    int is_kept;

    if (block->memory == NULL) {
        return;
    }
    pthread_mutex_lock(&lock);
    is_kept = block->is_locked && num_kept < MAX_KEPT &&
              kept_bytes + block->size <= MAX_KEPT_BYTES;
    if (is_kept) {
        kept[num_kept++] = *block;
        kept_bytes += block->size;
    }
    pthread_mutex_unlock(&lock);
    if (!is_kept) {
        block_free(block);
    }
    *block = (mca_coll_mrail_block_t){0};
}

void mca_coll_mrail_copy_close(void)
{
    while (num_kept > 0) {
        block_free(&kept[--num_kept]);
    }
    kept_bytes = 0;
    /* The driver destroyed the streams together with their contexts. */
    free(all_streams);
    all_streams = NULL;
    num_streams = 0;
}
