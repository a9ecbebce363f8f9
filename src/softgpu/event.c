/*
 * Events. A record is an operation of a stream. The event stores the stream and
 * the sequence number of its last record. An interprocess event also has a page
 * in a memory file, which other processes map.
 */
#include "config.h"
#include "softgpu/work.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EVENT_POLL_NS (50 * MRAIL_NS_PER_US)

void sgpu_event_get(sgpu_event_t *event)
{
    ++event->refs;
}

void sgpu_event_put(sgpu_event_t *event)
{
    if (--event->refs > 0) {
        return;
    }
    if (event->stream != NULL) {
        sgpu_stream_put(event->stream);
    }
    if (event->page != NULL) {
        munmap(event->page, sizeof(*event->page));
        close(event->fd);
    }
    free(event);
}

static sgpu_event_page_t *event_map(int fd)
{
    struct stat st;
    void *page;

    if ((fstat(fd, &st) != 0) ||
        (st.st_size != (off_t)sizeof(sgpu_event_page_t))) {
        return NULL;
    }
    page = mmap(NULL, sizeof(sgpu_event_page_t), PROT_READ | PROT_WRITE,
                MAP_SHARED, fd, 0);
    return (page != MAP_FAILED) ? page : NULL;
}

sgpu_event_t *sgpu_event_create(sgpu_dev_t *dev, unsigned flags, int fd)
{
    sgpu_event_t *event = calloc(1, sizeof(*event));

    if (event == NULL) {
        return NULL;
    }
    event->refs = 1;
    event->dev = dev;
    event->flags = flags;
    event->fd = fd;
    if (fd >= 0) {
        event->page = event_map(fd);
    }
    if ((fd < 0) || (event->page != NULL)) {
        event->handle = sgpu_handle_create(SGPU_HANDLE_EVENT, event);
    }
    if (event->handle == 0) {
        if (event->page != NULL) {
            munmap(event->page, sizeof(*event->page));
        }
        free(event);
        return NULL;
    }
    return event;
}

static int event_make_file(void)
{
    int fd = memfd_create("mrail-gpu-event", MFD_CLOEXEC);

    if ((fd >= 0) && ((fchmod(fd, 0600) != 0) ||
                      (ftruncate(fd, sizeof(sgpu_event_page_t)) != 0))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

CUresult cuEventCreate(CUevent *event_p, unsigned int flags)
{
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING |
                           CU_EVENT_INTERPROCESS;
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    sgpu_event_t *event;
    int fd = -1;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((event_p == NULL) || ((flags & ~known) != 0) ||
        ((flags & CU_EVENT_INTERPROCESS) &&
         !(flags & CU_EVENT_DISABLE_TIMING))) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (flags & CU_EVENT_INTERPROCESS) {
        fd = event_make_file();
        if (fd < 0) {
            return sgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
        }
    }
    event = sgpu_event_create(ctx->dev, flags, fd);
    if (event == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return sgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *event_p = (CUevent)(uintptr_t)event->handle;
    return sgpu_leave(CUDA_SUCCESS);
}

static sgpu_event_t *event_find(CUevent handle)
{
    return sgpu_handle_find(SGPU_HANDLE_EVENT, (uintptr_t)handle);
}

static CUresult event_enter(CUevent handle, sgpu_event_t **event_p)
{
    CUresult ret = sgpu_enter();

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    *event_p = event_find(handle);
    return (*event_p != NULL) ? CUDA_SUCCESS
                              : sgpu_leave(CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuEventDestroy_v2(CUevent handle)
{
    sgpu_event_t *event;
    CUresult ret = event_enter(handle, &event);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    sgpu_handle_destroy(event->handle);
    sgpu_event_put(event);
    return sgpu_leave(CUDA_SUCCESS);
}

static CUresult event_record(sgpu_event_t *event, sgpu_stream_t *stream)
{
    sgpu_op_t *op = sgpu_op_create(SGPU_OP_RECORD);
    CUresult ret;

    if (op == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    op->record.event = event;
    sgpu_event_get(event);
    ret = sgpu_stream_append(stream, op);
    if (ret != CUDA_SUCCESS) {
        sgpu_op_destroy(op);
        return ret;
    }
    if (event->page != NULL) {
        op->record.number = atomic_fetch_add(&event->page->recorded, 1) + 1;
    }
    sgpu_stream_get(stream);
    if (event->stream != NULL) {
        sgpu_stream_put(event->stream);
    }
    event->stream = stream;
    event->seq = op->seq;
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent handle, CUstream stream_handle)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    sgpu_stream_t *stream;
    sgpu_event_t *event;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    event = event_find(handle);
    ret = sgpu_stream_find(ctx, stream_handle, &stream);
    if ((ret != CUDA_SUCCESS) || (event == NULL) ||
        (event->dev != stream->dev)) {
        return sgpu_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    return sgpu_leave(event_record(event, stream));
}

/* The flags affect only graphs, which are not supported. */
CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream_handle,
                                unsigned int flags)
{
    return (flags != 0) ? CUDA_ERROR_NOT_SUPPORTED
                        : cuEventRecord(handle, stream_handle);
}

static int event_is_done(const sgpu_event_t *event)
{
    if (event->page != NULL) {
        return (event->page->recorded == 0) ||
               sgpu_event_page_is_done(event->page, event->page->recorded);
    }
    return (event->stream == NULL) || (event->stream->completed >= event->seq);
}

/* Returns the error of the context whose stream recorded the event last. */
static CUresult event_error(const sgpu_event_t *event)
{
    return (event->stream != NULL) ? sgpu_ctx_error(event->stream->ctx_handle)
                                   : CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent handle)
{
    sgpu_event_t *event;
    CUresult ret = event_enter(handle, &event);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    ret = event_error(event);
    if ((ret == CUDA_SUCCESS) && !event_is_done(event)) {
        ret = CUDA_ERROR_NOT_READY;
    }
    return sgpu_leave(ret);
}

/* Waits until the last record of any process is complete, or until an error
 * occurs. */
static void event_await_page(const sgpu_event_t *event)
{
    const struct timespec pause = {.tv_nsec = EVENT_POLL_NS};
    const sgpu_event_page_t *page = event->page;
    uint64_t number = page->recorded;

    while ((number != 0) && !sgpu_event_page_is_done(page, number) &&
           (event_error(event) == CUDA_SUCCESS)) {
        pthread_mutex_unlock(&sgpu.lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&sgpu.lock);
    }
}

CUresult cuEventSynchronize(CUevent handle)
{
    sgpu_event_t *event;
    CUresult ret = event_enter(handle, &event);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    sgpu_event_get(event);
    if (event->page != NULL) {
        event_await_page(event);
    } else if (event->stream != NULL) {
        (void)sgpu_stream_wait(event->stream, event->seq);
    }
    ret = event_error(event);
    sgpu_event_put(event);
    return sgpu_leave(ret);
}

CUresult cuEventElapsedTime_v2(float *ms_p, CUevent start_handle,
                               CUevent end_handle)
{
    sgpu_event_t *start, *end;
    CUresult ret = event_enter(start_handle, &start);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    end = event_find(end_handle);
    if ((end == NULL) || (start->stream == NULL) || (end->stream == NULL) ||
        ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)) {
        return sgpu_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    if (!event_is_done(start) || !event_is_done(end)) {
        return sgpu_leave(CUDA_ERROR_NOT_READY);
    }
    if (ms_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *ms_p = (float)((double)(int64_t)(end->time_ns - start->time_ns) /
                    MRAIL_NS_PER_MS);
    return sgpu_leave(CUDA_SUCCESS);
}

/* Adds an operation that waits for the last record of the event. */
static CUresult event_wait(sgpu_stream_t *stream, sgpu_event_t *event)
{
    sgpu_op_t *op;
    CUresult ret;

    if (event_is_done(event)) {
        return CUDA_SUCCESS;
    }
    op = sgpu_op_create((event->page != NULL) ? SGPU_OP_AFTER_EVENT
                                              : SGPU_OP_AFTER);
    if (op == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (event->page != NULL) {
        op->after_event.event = event;
        op->after_event.number = event->page->recorded;
        sgpu_event_get(event);
    } else {
        op->after.stream = event->stream;
        op->after.seq = event->seq;
        sgpu_stream_get(event->stream);
    }
    ret = sgpu_stream_append(stream, op);
    if (ret != CUDA_SUCCESS) {
        sgpu_op_destroy(op);
    }
    return ret;
}

CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle,
                           unsigned int flags)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    sgpu_stream_t *stream;
    sgpu_event_t *event;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (flags != 0) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    event = event_find(handle);
    ret = sgpu_stream_find(ctx, stream_handle, &stream);
    if ((ret != CUDA_SUCCESS) || (event == NULL)) {
        return sgpu_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    return sgpu_leave(event_wait(stream, event));
}
