/* Manages the shared-memory pool of every kind of memory, and host memory,
 * whose payloads are in this pool. */
#include "config.h"
#include "relay/memory.h"

#include "relay/slot.h"

#include <string.h>

/* ---- the pool ---- */

int mrail_relay_memory_create_pool(mrail_relay_memory_t *memory,
                                   const mrail_relay_shape_t *shape,
                                   uint32_t me, void *name)
{
    int ret = 0;

    memset(name, 0, MRAIL_RELAY_NAME_SIZE);
    if (me == 0) {
        ret = mrail_relay_shm_pool_create(shape, memory->shm_pool_name,
                                          &memory->shm_pool);
    }
    if (ret == 0) {
        memcpy(name, memory->shm_pool_name, MRAIL_RELAY_NAME_SIZE);
    }
    return ret;
}

int mrail_relay_memory_attach_pool(mrail_relay_memory_t *memory,
                                   const mrail_relay_shape_t *shape,
                                   const char *name)
{
    if (memory->shm_pool.base != NULL) {
        return 0; /* this rank created and mapped the pool */
    }
    return mrail_relay_shm_pool_attach(shape, name, &memory->shm_pool);
}

void mrail_relay_memory_release_pool(mrail_relay_memory_t *memory)
{
    mrail_relay_memory_seal(memory);
    if (memory->shm_pool.base != NULL) {
        mrail_relay_shm_pool_detach(&memory->shm_pool);
    }
}

void mrail_relay_memory_seal(mrail_relay_memory_t *memory)
{
    if (memory->shm_pool_name[0] != '\0') {
        mrail_relay_shm_pool_unlink(memory->shm_pool_name);
        memory->shm_pool_name[0] = '\0';
    }
}

void *mrail_relay_memory_slots(const mrail_relay_memory_t *memory,
                               size_t *size_p)
{
    mrail_relay_layout_t layout;

    /* Not expected to fail, because the pool was created with this shape. */
    (void)mrail_relay_layout(&memory->shm_pool.shape, &layout);
    *size_p = layout.slots * layout.header_stride;
    /* A slot consists of a page, at whose end the header is, and the
     * payload. */
    return (char *)memory->shm_pool.base + layout.headers + MRAIL_RELAY_HEADER -
           MRAIL_RELAY_PAGE;
}

/* ---- host memory ---- */

static int host_import(mrail_relay_memory_t *memory,
                       const mrail_relay_shape_t *shape, uint32_t me,
                       const void *const *handles)
{
    mrail_relay_layout_t layout;
    int ret = mrail_relay_layout(shape, &layout);

    if (ret == 0) {
        ret = mrail_relay_memory_attach_pool(memory, shape, handles[0]);
    }
    for (uint32_t i = 0; (ret == 0) && (i < shape->num_local); ++i) {
        memory->areas[i] =
            mrail_relay_pool_area(&layout, memory->shm_pool.base, i);
    }
    return ret;
}

static int host_copy_start(mrail_relay_memory_t *memory, void *to,
                           const void *from, size_t length, void **copy_p)
{
    memcpy(to, from, length);
    return 0;
}

static int host_copy_test(mrail_relay_memory_t *memory, void *copy)
{
    return 1; /* copies complete when they start */
}

const mrail_relay_memory_ops_t mrail_relay_host_memory_ops = {
    .handle_size = MRAIL_RELAY_NAME_SIZE,
    .alloc = mrail_relay_memory_create_pool,
    .import = host_import,
    .release = mrail_relay_memory_release_pool,
    .copy_start = host_copy_start,
    .copy_test = host_copy_test,
};
