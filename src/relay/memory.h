/*
 * Memory for the payloads of relay slots. Each kind of memory has a table of
 * functions, so the rest of src/relay does not depend on where payloads are.
 * For host memory, they are in the shared-memory pool.
 *
 * Every kind has a pool, because states, rings and headers are always in host
 * memory. A kind may extend this struct with fields of its own.
 *
 * All ranks of a node use the same kind. Each of them first calls alloc(). Then
 * they exchange handles, and each of them calls import(). After a failure of
 * either function on any rank, all ranks call release().
 */
#ifndef MRAIL_RELAY_MEMORY_H
#define MRAIL_RELAY_MEMORY_H

#include "relay/shm_pool.h"

#include <stddef.h>
#include <stdint.h>

/* Largest size in bytes of a handle, for all kinds of memory. */
#define MRAIL_RELAY_HANDLE_SIZE 192u

typedef struct mrail_relay_memory mrail_relay_memory_t;

/* Functions return 0 or -errno unless stated otherwise. */
typedef struct mrail_relay_memory_ops {
    size_t handle_size; /* bytes, at most MRAIL_RELAY_HANDLE_SIZE */
    /* Allocates the part of local rank `me`, and writes the handle by which the
     * ranks of the node import it. After a failure, the handle is invalid, so
     * import() refuses it. */
    int (*alloc)(mrail_relay_memory_t *memory, const mrail_relay_shape_t *shape,
                 uint32_t me, void *handle);
    /* Maps the parts of all ranks of the node. handles[i] is that of local rank
     * i. */
    int (*import)(mrail_relay_memory_t *memory,
                  const mrail_relay_shape_t *shape, uint32_t me,
                  const void *const *handles);
    /* Releases what alloc() and import() have allocated. Waits for the copies
     * in flight. */
    void (*release)(mrail_relay_memory_t *memory);
    /* Starts a copy between an area and user memory, and never waits.
     * Neither may change until copy_test() returns 1. If the copy is already
     * complete, *copy_p stays unchanged. */
    int (*copy_start)(mrail_relay_memory_t *memory, void *to, const void *from,
                      size_t length, void **copy_p);
    /* Frees the copy and returns 1 if it is complete. Returns 0 if it is in
     * flight, or if an older copy from or to the same area has not been
     * freed. */
    int (*copy_test)(mrail_relay_memory_t *memory, void *copy);
    /* Called after a NIC has written to this rank's area, before the bytes are
     * copied or passed on. May be NULL. */
    int (*received)(mrail_relay_memory_t *memory);
    /* Called after an exchange, when no copy is in flight. May be NULL. */
    void (*end)(mrail_relay_memory_t *memory);
} mrail_relay_memory_ops_t;

struct mrail_relay_memory {
    const mrail_relay_memory_ops_t *ops;
    mrail_relay_shm_pool_t shm_pool;           /* NULL base: not imported yet */
    char shm_pool_name[MRAIL_RELAY_NAME_SIZE]; /* creator: until unlinked */
    void *areas[MRAIL_RELAY_MAX_LOCAL];        /* by local rank (slot.h) */
};

extern const mrail_relay_memory_ops_t mrail_relay_host_memory_ops;

static inline void mrail_relay_memory_init(mrail_relay_memory_t *memory,
                                           const mrail_relay_memory_ops_t *ops)
{
    *memory = (mrail_relay_memory_t){.ops = ops};
}

/* Returns the slots of local rank 0 in the pool. The slots of rank i are
 * *size_p * i bytes further. The memory must have been imported, and its
 * payloads must be in the pool. */
void *mrail_relay_memory_slots(const mrail_relay_memory_t *memory,
                               size_t *size_p);

/* ---- the pool, for implementations of a kind ---- */

/* Creates the pool if `me` is 0. Writes its name of MRAIL_RELAY_NAME_SIZE
 * bytes, which is empty on other ranks. */
int mrail_relay_memory_create_pool(mrail_relay_memory_t *memory,
                                   const mrail_relay_shape_t *shape,
                                   uint32_t me, void *name);
int mrail_relay_memory_attach_pool(mrail_relay_memory_t *memory,
                                   const mrail_relay_shape_t *shape,
                                   const char *name);
void mrail_relay_memory_release_pool(mrail_relay_memory_t *memory);

/* Prevents further imports. Every rank calls it after all ranks have
 * imported. */
void mrail_relay_memory_seal(mrail_relay_memory_t *memory);

#endif
