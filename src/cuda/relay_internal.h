/*
 * Declares the object behind a relay memory on a device. relay_area.c allocates
 * and imports areas. relay_copy.c copies with copy engines, and relay_kernel.c
 * with a kernel.
 */
#ifndef MRAIL_CUDA_RELAY_INTERNAL_H
#define MRAIL_CUDA_RELAY_INTERNAL_H

#include "cuda/driver.h"
#include "relay/memory.h"

/* A link is used in one of two directions. */
typedef enum mrail_cuda_relay_direction {
    MRAIL_CUDA_RELAY_TO_AREA,
    MRAIL_CUDA_RELAY_FROM_AREA,
    MRAIL_CUDA_RELAY_DIRECTIONS
} mrail_cuda_relay_direction_t;

typedef struct mrail_cuda_copy mrail_cuda_copy_t;
typedef struct mrail_cuda_queue mrail_cuda_queue_t;

typedef struct mrail_cuda_relay {
    mrail_relay_memory_t super;
    const mrail_cuda_t *cuda;
    CUdevice device;
    CUcontext ctx;   /* the primary context of the device */
    int needs_flush; /* 1 if writes of NICs must be flushed */
    size_t area_size;
    CUdeviceptr own;    /* 0: not allocated */
    int is_shared;      /* 1 if other ranks may have imported the area */
    int has_joined;     /* 1 if this rank has joined the pool (shm_pool.h) */
    uint32_t num_local; /* 0: not imported */
    uint32_t me;
    uint32_t num_slots; /* slots of one owner, in any area (slot.h); each has at
                         * most one copy in flight */
    /* ---- relay_copy.c ---- */
    mrail_cuda_queue_t *queues; /* by channel */
    mrail_cuda_copy_t *copies;
    size_t num_copies;
    mrail_cuda_copy_t *free;
    struct mrail_cuda_relay *next; /* next retired object */
} mrail_cuda_relay_t;

/* Returns 0, or the -errno of a driver error (relay_copy.h). */
int mrail_cuda_relay_status(CUresult result, const char *action);

/* Makes the context of the device current, and the previous one again. */
int mrail_cuda_relay_enter(const mrail_cuda_relay_t *relay);
void mrail_cuda_relay_leave(const mrail_cuda_relay_t *relay);

/* ---- areas ---- */

/* The handle that a rank exports. A zeroed handle is invalid. */
typedef struct mrail_cuda_handle {
    char shm_pool_name[MRAIL_RELAY_NAME_SIZE];
    uint64_t magic;
    CUipcMemHandle area;
} mrail_cuda_handle_t;

_Static_assert(sizeof(mrail_cuda_handle_t) <= MRAIL_RELAY_HANDLE_SIZE,
               "the handle must fit");

/* As in mrail_relay_memory_ops_t. */
int mrail_cuda_area_alloc(mrail_relay_memory_t *memory,
                          const mrail_relay_shape_t *shape, uint32_t me,
                          void *handle);

/* Attaches the pool, and imports the areas of the other ranks. */
int mrail_cuda_area_import(mrail_cuda_relay_t *relay,
                           const mrail_relay_shape_t *shape, uint32_t me,
                           const void *const *handles);

/* Closes the imports, and frees this rank's area once all ranks have closed
 * theirs. Waits for this for up to 100 ms, and otherwise leaves it to later
 * releases. Must not be called in an exchange (relay_area.c). */
void mrail_cuda_area_release(mrail_cuda_relay_t *relay);

/* Frees the areas left by earlier releases that no rank uses any more. */
void mrail_cuda_areas_free_closed(void);

/* Makes the writes of NICs to the area visible to all devices, if necessary. */
int mrail_cuda_area_received(mrail_relay_memory_t *memory);

/* Returns the number of channels: one for each area and direction. */
static inline uint32_t
mrail_cuda_relay_channels(const mrail_cuda_relay_t *relay)
{
    return relay->num_local * MRAIL_CUDA_RELAY_DIRECTIONS;
}

/* Returns the channel over which the bytes move, or UINT32_MAX if neither end is
 * in an area. Copies of one channel use the same link. */
uint32_t mrail_cuda_area_channel(const mrail_cuda_relay_t *relay,
                                 const void *to, const void *from);

/* ---- copies by copy engines ---- */

/* Retains the primary context of the device. Returns 0 or -errno. */
int mrail_cuda_relay_init(mrail_cuda_relay_t *relay, const mrail_cuda_t *cuda,
                          int ordinal, const mrail_relay_memory_ops_t *ops);

/* As in mrail_relay_memory_ops_t. */
int mrail_cuda_copy_import(mrail_relay_memory_t *memory,
                           const mrail_relay_shape_t *shape, uint32_t me,
                           const void *const *handles);
void mrail_cuda_copy_release(mrail_relay_memory_t *memory);
int mrail_cuda_copy_start(mrail_relay_memory_t *memory, void *to,
                          const void *from, size_t length, void **copy_p);
int mrail_cuda_copy_test(mrail_relay_memory_t *memory, void *copy);

#endif
