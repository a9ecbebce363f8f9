#include "config.h"
#include "cuda/relay_copy.h"

#include "base/log.h"
#include "relay/slot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HANDLE_MAGIC 0x6d52637564610001ull

/* The handle that a rank exports. A zeroed handle is invalid. */
typedef struct handle {
    char shm_pool_name[MRAIL_RELAY_NAME_SIZE];
    uint64_t magic;
    CUipcMemHandle area;
} handle_t;

_Static_assert(sizeof(handle_t) <= MRAIL_RELAY_HANDLE_SIZE, "it has room");

typedef enum direction { TO_AREA, FROM_AREA, NUM_DIRECTIONS } direction_t;

struct queue;

/* A copy in flight, or an element of the free list. */
typedef struct copy {
    CUevent event;
    struct queue *queue;
    struct copy *next; /* next copy in the queue or in the free list */
} copy_t;

/* The copies in one stream, which complete in order. */
typedef struct queue {
    CUstream stream;
    copy_t *first;
    copy_t **last_p; /* link to which the next copy is appended */
} queue_t;

typedef struct copy_memory {
    mrail_relay_memory_t super;
    const mrail_cuda_t *cuda;
    CUdevice device;
    CUcontext ctx;
    size_t area_size;
    CUdeviceptr own;    /* 0: not allocated */
    uint32_t num_local; /* 0: not imported */
    uint32_t me;
    queue_t (*queues)[NUM_DIRECTIONS]; /* by area */
    copy_t *copies;
    size_t num_copies;
    copy_t *free;
} copy_memory_t;

/* ---- the driver ---- */

static int status_of(CUresult result, const char *action)
{
    if (result == CUDA_SUCCESS) {
        return 0;
    }
    mrail_debug("relays: cannot %s: %s", action, mrail_cuda_error(result));
    switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return -ENOMEM;
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
    case CUDA_ERROR_PEER_ACCESS_NOT_ENABLED:
        return -EACCES;
    case CUDA_ERROR_NOT_SUPPORTED:
        return -EOPNOTSUPP;
    default:
        return -EIO;
    }
}

static int enter(const copy_memory_t *memory)
{
    return status_of(memory->cuda->cuCtxPushCurrent(memory->ctx),
                     "use the context of the device");
}

static void leave(const copy_memory_t *memory)
{
    CUcontext ctx;

    (void)memory->cuda->cuCtxPopCurrent(&ctx);
}

/* ---- areas ---- */

/* Allocates this rank's area. The caller has made the context current. */
static int area_alloc(copy_memory_t *memory, handle_t *handle)
{
    const mrail_cuda_t *cuda = memory->cuda;
    int ret = status_of(cuda->cuMemAlloc(&memory->own, memory->area_size),
                        "allocate slots");

    if (ret != 0) {
        memory->own = 0;
        return ret;
    }
    return status_of(cuda->cuIpcGetMemHandle(&handle->area, memory->own),
                     "export slots");
}

static int copy_alloc(mrail_relay_memory_t *super,
                      const mrail_relay_shape_t *shape, uint32_t me,
                      void *handle_p)
{
    copy_memory_t *memory = (copy_memory_t *)super;
    mrail_relay_shape_t external = *shape;
    mrail_relay_layout_t layout;
    handle_t handle = {.magic = HANDLE_MAGIC};
    int ret;

    memset(handle_p, 0, sizeof(handle));
    external.is_external = 1;
    ret = mrail_relay_layout(&external, &layout);
    if (ret == 0) {
        memory->area_size = layout.area_size;
        ret = enter(memory);
    }
    if (ret == 0) {
        ret = area_alloc(memory, &handle);
        leave(memory);
    }
    if (ret == 0) {
        ret = mrail_relay_memory_create_pool(super, &external, me,
                                             handle.shm_pool_name);
    }
    if (ret == 0) {
        memcpy(handle_p, &handle, sizeof(handle));
    }
    return ret;
}

/* ---- import ---- */

/* Imports the areas of the other ranks. The caller has made the context
 * current. */
static int import_areas(copy_memory_t *memory, const void *const *handles)
{
    for (uint32_t i = 0; i < memory->num_local; ++i) {
        CUdeviceptr area = memory->own;
        handle_t handle;
        int ret = 0;

        memcpy(&handle, handles[i], sizeof(handle));
        if (handle.magic != HANDLE_MAGIC) {
            return -EINVAL;
        }
        if (i != memory->me) {
            ret = status_of(
                memory->cuda->cuIpcOpenMemHandle(
                    &area, handle.area, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                "import the slots of another rank");
        }
        if (ret != 0) {
            return ret;
        }
        memory->super.areas[i] = (void *)(uintptr_t)area;
    }
    return 0;
}

/* Creates the streams. The caller has made the context current. */
static int create_queues(copy_memory_t *memory)
{
    int ret = 0;

    memory->queues = calloc(memory->num_local, sizeof(*memory->queues));
    if (memory->queues == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; (ret == 0) && (i < memory->num_local); ++i) {
        for (int to = 0; (ret == 0) && (to < NUM_DIRECTIONS); ++to) {
            queue_t *queue = &memory->queues[i][to];

            queue->last_p = &queue->first;
            ret = status_of(memory->cuda->cuStreamCreate(
                                &queue->stream, CU_STREAM_NON_BLOCKING),
                            "create a stream");
        }
    }
    return ret;
}

/* Creates the copies. Each slot has at most one copy in flight. The caller has
 * made the context current. */
static int create_copies(copy_memory_t *memory, uint32_t slots)
{
    size_t num = (size_t)memory->num_local * slots;
    int ret = 0;

    memory->copies = calloc(num, sizeof(*memory->copies));
    if (memory->copies == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; (ret == 0) && (i < num); ++i) {
        copy_t *copy = &memory->copies[i];

        ret = status_of(
            memory->cuda->cuEventCreate(&copy->event, CU_EVENT_DISABLE_TIMING),
            "create an event");
        if (ret == 0) {
            ++memory->num_copies;
            copy->next = memory->free;
            memory->free = copy;
        }
    }
    return ret;
}

static int copy_import(mrail_relay_memory_t *super,
                       const mrail_relay_shape_t *shape, uint32_t me,
                       const void *const *handles)
{
    copy_memory_t *memory = (copy_memory_t *)super;
    mrail_relay_shape_t external = *shape;
    handle_t first;
    int ret;

    external.is_external = 1;
    memcpy(&first, handles[0], sizeof(first));
    ret = (memory->own != 0) ? mrail_relay_memory_attach_pool(
                                   super, &external, first.shm_pool_name)
                             : -EINVAL;
    if (ret == 0) {
        ret = enter(memory);
    }
    if (ret != 0) {
        return ret;
    }
    memory->num_local = shape->num_local;
    memory->me = me;
    ret = import_areas(memory, handles);
    if (ret == 0) {
        ret = create_queues(memory);
    }
    if (ret == 0) {
        ret = create_copies(memory, shape->out_slots + shape->in_slots);
    }
    leave(memory);
    return ret;
}

/* ---- release ---- */

static void release_queues(copy_memory_t *memory)
{
    const mrail_cuda_t *cuda = memory->cuda;

    for (uint32_t i = 0; (memory->queues != NULL) && (i < memory->num_local);
         ++i) {
        for (int to = 0; to < NUM_DIRECTIONS; ++to) {
            CUstream stream = memory->queues[i][to].stream;

            if (stream != NULL) {
                (void)cuda->cuStreamSynchronize(stream);
                (void)cuda->cuStreamDestroy(stream);
            }
        }
    }
    for (size_t i = 0; i < memory->num_copies; ++i) {
        (void)cuda->cuEventDestroy(memory->copies[i].event);
    }
}

static void release_areas(copy_memory_t *memory)
{
    for (uint32_t i = 0; i < memory->num_local; ++i) {
        if ((memory->super.areas[i] != NULL) && (i != memory->me)) {
            (void)memory->cuda->cuIpcCloseMemHandle(
                (uintptr_t)memory->super.areas[i]);
        }
    }
    if (memory->own != 0) {
        (void)memory->cuda->cuMemFree(memory->own);
    }
}

static void copy_release(mrail_relay_memory_t *super)
{
    copy_memory_t *memory = (copy_memory_t *)super;

    /* If the context was destroyed, the driver has already freed all of its
     * objects. */
    if (enter(memory) == 0) {
        release_queues(memory);
        release_areas(memory);
        leave(memory);
    }
    mrail_relay_memory_release_pool(super);
    free(memory->queues);
    free(memory->copies);
    memset(super->areas, 0, sizeof(super->areas));
    memory->own = 0;
    memory->num_local = 0;
    memory->queues = NULL;
    memory->copies = NULL;
    memory->num_copies = 0;
    memory->free = NULL;
}

/* ---- copies ---- */

static int is_in_area(const copy_memory_t *memory, uint32_t rank,
                      const void *address)
{
    uintptr_t first = (uintptr_t)memory->super.areas[rank];

    return (uintptr_t)address - first < memory->area_size;
}

/* Returns the queue of the link over which the bytes move, or NULL. */
static queue_t *queue_of(const copy_memory_t *memory, const void *to,
                         const void *from)
{
    for (uint32_t i = 0; i < memory->num_local; ++i) {
        if (is_in_area(memory, i, to)) {
            return &memory->queues[i][TO_AREA];
        }
        if (is_in_area(memory, i, from)) {
            return &memory->queues[i][FROM_AREA];
        }
    }
    return NULL;
}

static int copy_start(mrail_relay_memory_t *super, void *to, const void *from,
                      size_t length, void **copy_p)
{
    copy_memory_t *memory = (copy_memory_t *)super;
    queue_t *queue = queue_of(memory, to, from);
    copy_t *copy = memory->free;
    int ret;

    if ((queue == NULL) || (copy == NULL)) {
        return -EINVAL;
    }
    ret = enter(memory);
    if (ret != 0) {
        return ret;
    }
    ret = status_of(memory->cuda->cuMemcpyDtoDAsync(
                        (uintptr_t)to, (uintptr_t)from, length, queue->stream),
                    "copy between devices");
    if (ret == 0) {
        ret = status_of(memory->cuda->cuEventRecord(copy->event, queue->stream),
                        "record an event");
    }
    leave(memory);
    if (ret == 0) {
        memory->free = copy->next;
        copy->next = NULL;
        copy->queue = queue;
        *queue->last_p = copy;
        queue->last_p = &copy->next;
        *copy_p = copy;
    }
    return ret;
}

static void dequeue(copy_memory_t *memory, queue_t *queue)
{
    copy_t *copy = queue->first;

    queue->first = copy->next;
    if (queue->first == NULL) {
        queue->last_p = &queue->first;
    }
    copy->next = memory->free;
    memory->free = copy;
}

/* Only the oldest copy of a queue needs a query, which calls the driver.
 * cuEventQuery() needs no current context. */
static int copy_test(mrail_relay_memory_t *super, void *started)
{
    copy_memory_t *memory = (copy_memory_t *)super;
    copy_t *copy = started;
    CUresult result;

    if (copy != copy->queue->first) {
        return 0;
    }
    result = memory->cuda->cuEventQuery(copy->event);
    if (result == CUDA_ERROR_NOT_READY) {
        return 0;
    }
    dequeue(memory, copy->queue);
    return (result == CUDA_SUCCESS)
               ? 1
               : status_of(result, "complete a copy between devices");
}

static const mrail_relay_memory_ops_t copy_ops = {
    .handle_size = sizeof(handle_t),
    .alloc = copy_alloc,
    .import = copy_import,
    .release = copy_release,
    .copy_start = copy_start,
    .copy_test = copy_test,
};

/* ---- the object ---- */

int mrail_cuda_relay_create(const mrail_cuda_t *cuda, int ordinal,
                            mrail_relay_memory_t **memory_p)
{
    copy_memory_t *memory = calloc(1, sizeof(*memory));
    int ret;

    if (memory == NULL) {
        return -ENOMEM;
    }
    mrail_relay_memory_init(&memory->super, &copy_ops);
    memory->cuda = cuda;
    ret = status_of(cuda->cuDeviceGet(&memory->device, ordinal),
                    "find the device");
    if (ret == 0) {
        ret = status_of(
            cuda->cuDevicePrimaryCtxRetain(&memory->ctx, memory->device),
            "use the device");
    }
    if (ret != 0) {
        free(memory);
        return ret;
    }
    *memory_p = &memory->super;
    return 0;
}

void mrail_cuda_relay_area(const mrail_relay_memory_t *super, void **area_p,
                           size_t *size_p)
{
    const copy_memory_t *memory = (const copy_memory_t *)super;

    *area_p = (void *)(uintptr_t)memory->own;
    *size_p = memory->area_size;
}

void mrail_cuda_relay_destroy(mrail_relay_memory_t *super)
{
    copy_memory_t *memory = (copy_memory_t *)super;

    if (memory != NULL) {
        copy_release(super);
        (void)memory->cuda->cuDevicePrimaryCtxRelease(memory->device);
        free(memory);
    }
}
