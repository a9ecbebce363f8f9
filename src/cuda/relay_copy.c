#include "config.h"
#include "cuda/relay_copy.h"

#include "cuda/relay_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A copy in flight, or an element of the free list. */
struct mrail_cuda_copy {
    CUevent event;
    mrail_cuda_queue_t *queue;
    mrail_cuda_copy_t *next; /* next copy in the queue or in the free list */
};

/* The copies in one stream, which complete in order. */
struct mrail_cuda_queue {
    CUstream stream;
    mrail_cuda_copy_t *first;
    mrail_cuda_copy_t **last_p; /* link to which the next copy is appended */
};

/* ---- import ---- */

/* Creates the streams. The caller has made the context current. */
static int create_queues(mrail_cuda_relay_t *relay)
{
    uint32_t num = mrail_cuda_relay_channels(relay);
    int ret = 0;

    relay->queues = calloc(num, sizeof(*relay->queues));
    if (relay->queues == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; (ret == 0) && (i < num); ++i) {
        mrail_cuda_queue_t *queue = &relay->queues[i];

        queue->last_p = &queue->first;
        ret = mrail_cuda_relay_status(
            relay->cuda->cuStreamCreate(&queue->stream, CU_STREAM_NON_BLOCKING),
            "create a stream");
    }
    return ret;
}

/* Creates the copies. Each slot has at most one copy in flight. The caller has
 * made the context current. */
static int create_copies(mrail_cuda_relay_t *relay)
{
    size_t num = (size_t)relay->num_local * relay->num_slots;
    int ret = 0;

    relay->copies = calloc(num, sizeof(*relay->copies));
    if (relay->copies == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; (ret == 0) && (i < num); ++i) {
        mrail_cuda_copy_t *copy = &relay->copies[i];

        ret = mrail_cuda_relay_status(
            relay->cuda->cuEventCreate(&copy->event, CU_EVENT_DISABLE_TIMING),
            "create an event");
        if (ret == 0) {
            ++relay->num_copies;
            copy->next = relay->free;
            relay->free = copy;
        }
    }
    return ret;
}

int mrail_cuda_copy_import(mrail_relay_memory_t *memory,
                           const mrail_relay_shape_t *shape, uint32_t me,
                           const void *const *handles)
{
    mrail_cuda_relay_t *relay = (mrail_cuda_relay_t *)memory;
    int ret = mrail_cuda_area_import(relay, shape, me, handles);

    if (ret == 0) {
        ret = mrail_cuda_relay_enter(relay);
    }
    if (ret != 0) {
        return ret;
    }
    ret = create_queues(relay);
    if (ret == 0) {
        ret = create_copies(relay);
    }
    mrail_cuda_relay_leave(relay);
    return ret;
}

/* ---- release ---- */

static void release_queues(const mrail_cuda_relay_t *relay)
{
    const mrail_cuda_t *cuda = relay->cuda;
    uint32_t num =
        (relay->queues != NULL) ? mrail_cuda_relay_channels(relay) : 0;

    for (uint32_t i = 0; i < num; ++i) {
        CUstream stream = relay->queues[i].stream;

        if (stream != NULL) {
            (void)cuda->cuStreamSynchronize(stream);
            (void)cuda->cuStreamDestroy(stream);
        }
    }
    for (size_t i = 0; i < relay->num_copies; ++i) {
        (void)cuda->cuEventDestroy(relay->copies[i].event);
    }
}

void mrail_cuda_copy_release(mrail_relay_memory_t *memory)
{
    mrail_cuda_relay_t *relay = (mrail_cuda_relay_t *)memory;

    /* If the context was destroyed, the driver has already freed all of its
     * objects. */
    if (mrail_cuda_relay_enter(relay) == 0) {
        release_queues(relay);
        mrail_cuda_relay_leave(relay);
    }
    mrail_cuda_area_release(relay);
    mrail_relay_memory_release_pool(memory);
    free(relay->queues);
    free(relay->copies);
    memset(memory->areas, 0, sizeof(memory->areas));
    relay->own = 0;
    relay->is_shared = 0;
    relay->has_joined = 0;
    relay->num_local = 0;
    relay->queues = NULL;
    relay->copies = NULL;
    relay->num_copies = 0;
    relay->free = NULL;
}

/* ---- copies ---- */

int mrail_cuda_copy_start(mrail_relay_memory_t *memory, void *to,
                          const void *from, size_t length, void **copy_p)
{
    mrail_cuda_relay_t *relay = (mrail_cuda_relay_t *)memory;
    uint32_t channel = mrail_cuda_area_channel(relay, to, from);
    mrail_cuda_copy_t *copy = relay->free;
    mrail_cuda_queue_t *queue;
    int ret;

    if ((channel == UINT32_MAX) || (copy == NULL)) {
        return -EINVAL;
    }
    queue = &relay->queues[channel];
    ret = mrail_cuda_relay_enter(relay);
    if (ret != 0) {
        return ret;
    }
    ret = mrail_cuda_relay_status(
        relay->cuda->cuMemcpyDtoDAsync((uintptr_t)to, (uintptr_t)from, length,
                                       queue->stream),
        "copy between devices");
    if (ret == 0) {
        ret = mrail_cuda_relay_status(
            relay->cuda->cuEventRecord(copy->event, queue->stream),
            "record an event");
    }
    mrail_cuda_relay_leave(relay);
    if (ret == 0) {
        relay->free = copy->next;
        copy->next = NULL;
        copy->queue = queue;
        *queue->last_p = copy;
        queue->last_p = &copy->next;
        *copy_p = copy;
    }
    return ret;
}

static void dequeue(mrail_cuda_relay_t *relay, mrail_cuda_queue_t *queue)
{
    mrail_cuda_copy_t *copy = queue->first;

    queue->first = copy->next;
    if (queue->first == NULL) {
        queue->last_p = &queue->first;
    }
    copy->next = relay->free;
    relay->free = copy;
}

/* Only the oldest copy of a queue needs a query, which calls the driver.
 * cuEventQuery() needs no current context. */
int mrail_cuda_copy_test(mrail_relay_memory_t *memory, void *started)
{
    mrail_cuda_relay_t *relay = (mrail_cuda_relay_t *)memory;
    mrail_cuda_copy_t *copy = started;
    CUresult result;

    if (copy != copy->queue->first) {
        return 0;
    }
    result = relay->cuda->cuEventQuery(copy->event);
    if (result == CUDA_ERROR_NOT_READY) {
        return 0;
    }
    dequeue(relay, copy->queue);
    return (result == CUDA_SUCCESS)
               ? 1
               : mrail_cuda_relay_status(result,
                                         "complete a copy between devices");
}

/* ---- the object ---- */

static const mrail_relay_memory_ops_t copy_ops = {
    .handle_size = sizeof(mrail_cuda_handle_t),
    .alloc = mrail_cuda_area_alloc,
    .import = mrail_cuda_copy_import,
    .release = mrail_cuda_copy_release,
    .copy_start = mrail_cuda_copy_start,
    .copy_test = mrail_cuda_copy_test,
    .received = mrail_cuda_area_received,
};

/* Returns an attribute of the device. Old drivers lack some of them. */
static int attribute(const mrail_cuda_relay_t *relay, CUdevice_attribute number,
                     int otherwise)
{
    int value;

    return (relay->cuda->cuDeviceGetAttribute(&value, number, relay->device) ==
            CUDA_SUCCESS)
               ? value
               : otherwise;
}

/* Before compute capability 9.0, a kernel that is running may miss the writes
 * of NICs even if the device orders them. Source: NCCL, which flushes for the
 * same devices. */
static int needs_flush(const mrail_cuda_relay_t *relay, int with_kernel)
{
    int ordering =
        attribute(relay, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
                  CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE);
    int major =
        attribute(relay, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);

    return (ordering < CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES) ||
           (with_kernel && (major < 9));
}

int mrail_cuda_relay_can_receive(const mrail_relay_memory_t *memory)
{
    const mrail_cuda_relay_t *relay = (const mrail_cuda_relay_t *)memory;
    int options = attribute(
        relay, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 0);

    return !relay->needs_flush ||
           ((options & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST) != 0);
}

int mrail_cuda_relay_init(mrail_cuda_relay_t *relay, const mrail_cuda_t *cuda,
                          int ordinal, const mrail_relay_memory_ops_t *ops)
{
    int ret;

    mrail_relay_memory_init(&relay->super, ops);
    relay->cuda = cuda;
    ret = mrail_cuda_relay_status(cuda->cuDeviceGet(&relay->device, ordinal),
                                  "find the device");
    if (ret == 0) {
        relay->needs_flush = needs_flush(relay, ops != &copy_ops);
    }
    return (ret == 0) ? mrail_cuda_relay_status(cuda->cuDevicePrimaryCtxRetain(
                                                    &relay->ctx, relay->device),
                                                "use the device")
                      : ret;
}

int mrail_cuda_relay_create(const mrail_cuda_t *cuda, int ordinal,
                            mrail_relay_memory_t **memory_p)
{
    mrail_cuda_relay_t *relay = calloc(1, sizeof(*relay));
    int ret = (relay != NULL)
                  ? mrail_cuda_relay_init(relay, cuda, ordinal, &copy_ops)
                  : -ENOMEM;

    if (ret != 0) {
        free(relay);
        return ret;
    }
    *memory_p = &relay->super;
    return 0;
}

void mrail_cuda_relay_area(const mrail_relay_memory_t *memory, void **area_p,
                           size_t *size_p)
{
    const mrail_cuda_relay_t *relay = (const mrail_cuda_relay_t *)memory;

    *area_p = (void *)(uintptr_t)relay->own;
    *size_p = relay->area_size;
}

/* Memory that exchanges no longer use. */
static mrail_cuda_relay_t *retired;
static pthread_mutex_t retired_lock = PTHREAD_MUTEX_INITIALIZER;

void mrail_cuda_relay_retire(mrail_relay_memory_t *memory)
{
    mrail_cuda_relay_t *relay = (mrail_cuda_relay_t *)memory;

    if (memory == NULL) {
        return;
    }
    mrail_relay_memory_seal(memory);
    if (memory->ops->end != NULL) {
        memory->ops->end(memory);
    }
    pthread_mutex_lock(&retired_lock);
    relay->next = retired;
    retired = relay;
    pthread_mutex_unlock(&retired_lock);
}

void mrail_cuda_relay_destroy_retired(void)
{
    mrail_cuda_relay_t *relay, *next;

    pthread_mutex_lock(&retired_lock);
    relay = retired;
    retired = NULL;
    pthread_mutex_unlock(&retired_lock);
    for (; relay != NULL; relay = next) {
        next = relay->next;
        mrail_cuda_relay_destroy(&relay->super);
    }
    mrail_cuda_areas_free_closed();
}

void mrail_cuda_relay_destroy(mrail_relay_memory_t *memory)
{
    mrail_cuda_relay_t *relay = (mrail_cuda_relay_t *)memory;

    if (memory != NULL) {
        memory->ops->release(memory);
        (void)relay->cuda->cuDevicePrimaryCtxRelease(relay->device);
        free(relay);
    }
}
