/* Manages areas in device memory: each rank allocates one, and imports the
 * areas of all other ranks of its node. */
#include "config.h"
#include "cuda/relay_internal.h"

#include "base/log.h"
#include "relay/slot.h"

#include <errno.h>
#include <string.h>

#define HANDLE_MAGIC 0x6d52637564610001ull

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

/* Imports the areas of the other ranks. The caller has made the context
 * current. */
static int import_areas(mrail_cuda_relay_t *relay, const void *const *handles)
{
    for (uint32_t i = 0; i < relay->num_local; ++i) {
        CUdeviceptr area = relay->own;
        mrail_cuda_handle_t handle;
        int ret = 0;

        memcpy(&handle, handles[i], sizeof(handle));
        if (handle.magic != HANDLE_MAGIC) {
            return -EINVAL;
        }
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

    external.is_external = 1;
    memcpy(&first, handles[0], sizeof(first));
    ret = (relay->own != 0) ? mrail_relay_memory_attach_pool(
                                  &relay->super, &external, first.shm_pool_name)
                            : -EINVAL;
    if (ret == 0) {
        ret = mrail_cuda_relay_enter(relay);
    }
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

void mrail_cuda_area_release(const mrail_cuda_relay_t *relay)
{
    for (uint32_t i = 0; i < relay->num_local; ++i) {
        if ((relay->super.areas[i] != NULL) && (i != relay->me)) {
            (void)relay->cuda->cuIpcCloseMemHandle(
                (uintptr_t)relay->super.areas[i]);
        }
    }
    if (relay->own != 0) {
        (void)relay->cuda->cuMemFree(relay->own);
    }
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
