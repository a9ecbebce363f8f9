/*
 * Manages areas in device memory: each rank allocates one, and imports the
 * areas of all other ranks of its node.
 *
 * A rank may release its area while other ranks still copy from or to it, or
 * have it imported: the ranks of a communicator free it at different times. The
 * driver does not allow freeing imported memory. Each rank therefore frees its
 * area when all ranks have closed their imports. Until then, the area is on a
 * list of the process, and later releases free it. Source: [CUDA] driver API,
 * cuIpcOpenMemHandle().
 *
 * Freeing may wait for all work of the device, and a stream may wait for the
 * very exchange that replaces an area. An exchange therefore only retires its
 * memory, which keeps its imports. A call outside of exchanges destroys it.
 */
#include "config.h"
#include "cuda/relay_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "relay/slot.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define HANDLE_MAGIC 0x6d52637564610001ull
/* Time that a rank waits for other ranks before it defers the release. */
#define CLOSE_WAIT_NS (100 * MRAIL_NS_PER_MS)

/* ---- the driver ---- */

int mrail_cuda_relay_status(CUresult result, const char *action)
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

int mrail_cuda_relay_enter(const mrail_cuda_relay_t *relay)
{
    return mrail_cuda_relay_status(relay->cuda->cuCtxPushCurrent(relay->ctx),
                                   "use the context of the device");
}

void mrail_cuda_relay_leave(const mrail_cuda_relay_t *relay)
{
    CUcontext ctx;

    (void)relay->cuda->cuCtxPopCurrent(&ctx);
}

/* ---- areas that other ranks may still use ---- */

typedef struct deferred {
    struct deferred *next;
    const mrail_cuda_t *cuda;
    CUdevice device;
    CUcontext ctx; /* primary context of the device, retained */
    CUdeviceptr area;
    mrail_relay_shm_pool_t shm_pool;
} deferred_t;

static deferred_t *deferred_areas;
static pthread_mutex_t deferred_lock = PTHREAD_MUTEX_INITIALIZER;

/* Defers the release of this rank's area, and takes over the pool. Without
 * memory for this, the area stays allocated until the process ends. */
static void defer_area(mrail_cuda_relay_t *relay)
{
    deferred_t *deferred = malloc(sizeof(*deferred));

    if ((deferred == NULL) ||
        (relay->cuda->cuDevicePrimaryCtxRetain(&deferred->ctx, relay->device) !=
         CUDA_SUCCESS)) {
        free(deferred);
        return;
    }
    deferred->cuda = relay->cuda;
    deferred->device = relay->device;
    deferred->area = relay->own;
    deferred->shm_pool = relay->super.shm_pool;
    relay->super.shm_pool.base = NULL;
    pthread_mutex_lock(&deferred_lock);
    deferred->next = deferred_areas;
    deferred_areas = deferred;
    pthread_mutex_unlock(&deferred_lock);
}

static void free_deferred(deferred_t *deferred)
{
    const mrail_cuda_t *cuda = deferred->cuda;
    CUcontext ctx;

    if (cuda->cuCtxPushCurrent(deferred->ctx) == CUDA_SUCCESS) {
        (void)cuda->cuMemFree(deferred->area);
        (void)cuda->cuCtxPopCurrent(&ctx);
    }
    (void)cuda->cuDevicePrimaryCtxRelease(deferred->device);
    mrail_relay_shm_pool_detach(&deferred->shm_pool);
    free(deferred);
}

void mrail_cuda_areas_free_closed(void)
{
    deferred_t **next = &deferred_areas;

    pthread_mutex_lock(&deferred_lock);
    while (*next != NULL) {
        deferred_t *deferred = *next;

        if (mrail_relay_shm_pool_is_closed(&deferred->shm_pool)) {
            *next = deferred->next;
            free_deferred(deferred);
        } else {
            next = &deferred->next;
        }
    }
    pthread_mutex_unlock(&deferred_lock);
}

/* Usually, all ranks release their areas at about the same time. */
static int wait_until_closed(const mrail_relay_shm_pool_t *shm_pool)
{
    mrail_ns_t end_ns = mrail_clock_now() + CLOSE_WAIT_NS;
    int is_closed;

    do {
        is_closed = mrail_relay_shm_pool_is_closed(shm_pool);
        sched_yield();
    } while (!is_closed && (mrail_clock_now() < end_ns));
    return is_closed;
}

/* ---- areas ---- */

/* Allocates this rank's area. The caller has made the context current. */
static int area_alloc(mrail_cuda_relay_t *relay, mrail_cuda_handle_t *handle)
{
    const mrail_cuda_t *cuda = relay->cuda;
    int ret = mrail_cuda_relay_status(
        cuda->cuMemAlloc(&relay->own, relay->area_size), "allocate slots");

    if (ret != 0) {
        relay->own = 0;
        return ret;
    }
    return mrail_cuda_relay_status(
        cuda->cuIpcGetMemHandle(&handle->area, relay->own), "export slots");
}

int mrail_cuda_area_alloc(mrail_relay_memory_t *memory,
                          const mrail_relay_shape_t *shape, uint32_t me,
                          void *handle_p)
{
    mrail_cuda_relay_t *relay = (mrail_cuda_relay_t *)memory;
    mrail_relay_shape_t external = *shape;
    mrail_relay_layout_t layout;
    mrail_cuda_handle_t handle = {.magic = HANDLE_MAGIC};
    int ret;

    memset(handle_p, 0, sizeof(handle));
    external.is_external = 1;
    ret = mrail_relay_layout(&external, &layout);
    if (ret == 0) {
        relay->area_size = layout.area_size;
        ret = mrail_cuda_relay_enter(relay);
    }
    if (ret == 0) {
        ret = area_alloc(relay, &handle);
        mrail_cuda_relay_leave(relay);
    }
    if (ret == 0) {
        ret = mrail_relay_memory_create_pool(memory, &external, me,
                                             handle.shm_pool_name);
    }
    if (ret == 0) {
        memcpy(handle_p, &handle, sizeof(handle));
    }
    return ret;
}

/* ---- import ---- */

/* Returns 1 if all ranks have allocated an area. Otherwise, no rank of the node
 * imports any area, because all ranks see the same handles. */
static int are_valid(const void *const *handles, uint32_t num_local)
{
    for (uint32_t i = 0; i < num_local; ++i) {
        mrail_cuda_handle_t handle;

        memcpy(&handle, handles[i], sizeof(handle));
        if (handle.magic != HANDLE_MAGIC) {
            return 0;
        }
    }
    return 1;
}

/* Imports the areas of the other ranks. The caller has made the context
 * current. */
static int import_areas(mrail_cuda_relay_t *relay, const void *const *handles)
{
    for (uint32_t i = 0; i < relay->num_local; ++i) {
        CUdeviceptr area = relay->own;
        mrail_cuda_handle_t handle;
        int ret = 0;

        memcpy(&handle, handles[i], sizeof(handle));
        if (i != relay->me) {
            ret = mrail_cuda_relay_status(
                relay->cuda->cuIpcOpenMemHandle(
                    &area, handle.area, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                "import the slots of another rank");
        }
        if (ret != 0) {
            return ret;
        }
        relay->super.areas[i] = (void *)(uintptr_t)area;
    }
    return 0;
}

int mrail_cuda_area_import(mrail_cuda_relay_t *relay,
                           const mrail_relay_shape_t *shape, uint32_t me,
                           const void *const *handles)
{
    mrail_relay_shape_t external = *shape;
    mrail_cuda_handle_t first;
    int ret;

    if ((relay->own == 0) || !are_valid(handles, shape->num_local)) {
        return -EINVAL;
    }
    relay->is_shared = shape->num_local > 1;
    external.is_external = 1;
    memcpy(&first, handles[0], sizeof(first));
    ret = mrail_relay_memory_attach_pool(&relay->super, &external,
                                         first.shm_pool_name);
    if (ret != 0) {
        return ret;
    }
    mrail_relay_shm_pool_join(&relay->super.shm_pool);
    relay->has_joined = 1;
    ret = mrail_cuda_relay_enter(relay);
    if (ret != 0) {
        return ret;
    }
    relay->num_local = shape->num_local;
    relay->num_slots = shape->out_slots + shape->in_slots;
    relay->me = me;
    ret = import_areas(relay, handles);
    mrail_cuda_relay_leave(relay);
    return ret;
}

/* Closes the imports. If the context was destroyed, the driver has done so. */
static void close_imports(const mrail_cuda_relay_t *relay)
{
    if (mrail_cuda_relay_enter(relay) != 0) {
        return;
    }
    for (uint32_t i = 0; i < relay->num_local; ++i) {
        if ((relay->super.areas[i] != NULL) && (i != relay->me)) {
            (void)relay->cuda->cuIpcCloseMemHandle(
                (uintptr_t)relay->super.areas[i]);
        }
    }
    mrail_cuda_relay_leave(relay);
}

void mrail_cuda_area_release(mrail_cuda_relay_t *relay)
{
    const mrail_relay_shm_pool_t *shm_pool = &relay->super.shm_pool;

    close_imports(relay);
    if (relay->has_joined) {
        mrail_relay_shm_pool_close(shm_pool);
    }
    mrail_cuda_areas_free_closed();
    if (relay->own == 0) {
        return;
    }
    if (relay->is_shared && !relay->has_joined) {
        /* Other ranks may have imported the area, and this rank could not attach
         * the pool that reports the end of their use. */
        mrail_debug("relays: %zu bytes of slots stay allocated",
                    relay->area_size);
    } else if (relay->is_shared && !wait_until_closed(shm_pool)) {
        defer_area(relay);
    } else if (mrail_cuda_relay_enter(relay) == 0) {
        (void)relay->cuda->cuMemFree(relay->own);
        mrail_cuda_relay_leave(relay);
    }
}

/* The device of another rank may read the bytes. */
int mrail_cuda_area_received(mrail_relay_memory_t *memory)
{
    mrail_cuda_relay_t *relay = (mrail_cuda_relay_t *)memory;
    int ret;

    if (!relay->needs_flush) {
        return 0;
    }
    ret = mrail_cuda_relay_enter(relay);
    if (ret == 0) {
        ret = mrail_cuda_relay_status(
            relay->cuda->cuFlushGPUDirectRDMAWrites(
                CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES),
            "flush the writes of NICs");
        mrail_cuda_relay_leave(relay);
    }
    return ret;
}

static int is_in_area(const mrail_cuda_relay_t *relay, uint32_t rank,
                      const void *address)
{
    uintptr_t first = (uintptr_t)relay->super.areas[rank];

    return (uintptr_t)address - first < relay->area_size;
}

uint32_t mrail_cuda_area_channel(const mrail_cuda_relay_t *relay,
                                 const void *to, const void *from)
{
    for (uint32_t i = 0; i < relay->num_local; ++i) {
        if (is_in_area(relay, i, to)) {
            return i * MRAIL_CUDA_RELAY_DIRECTIONS + MRAIL_CUDA_RELAY_TO_AREA;
        }
        if (is_in_area(relay, i, from)) {
            return i * MRAIL_CUDA_RELAY_DIRECTIONS + MRAIL_CUDA_RELAY_FROM_AREA;
        }
    }
    return UINT32_MAX;
}
