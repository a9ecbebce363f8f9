/*
 * Memory for the payloads of relay slots. A table serves each kind of memory,
 * so that src/relay need not know where payloads lie. Host memory is the first
 * kind: its payloads lie in the shared-memory pool.
 *
 * Every kind has a pool, because states, rings and headers are always in host
 * memory. A kind may extend this struct with fields of its own.
 *
 * All ranks of a node use the same kind. First each of them calls alloc(). Then
 * they exchange handles, and each of them calls import(). After a failure of
 * either function on any rank, all ranks call release().
 */
#ifndef MRAIL_RELAY_MEMORY_H
#define MRAIL_RELAY_MEMORY_H

#include "relay/shm_pool.h"

#include <stddef.h>
#include <stdint.h>

/* The largest handle of all kinds. */
#define MRAIL_RELAY_HANDLE_SIZE 192u

typedef struct mrail_relay_memory mrail_relay_memory_t;

/* Functions return 0 or -errno unless stated otherwise. */
typedef struct mrail_relay_memory_ops {
    size_t handle_size; /* <= MRAIL_RELAY_HANDLE_SIZE */
    /* Allocates the part of local rank `me`, and writes the handle by which
     * the ranks of the node import it. After a failure the handle is invalid:
     * import() refuses it. */
    int (*alloc)(mrail_relay_memory_t *memory, const mrail_relay_shape_t *shape,
                 uint32_t me, void *handle);
    /* Maps the parts of all ranks of the node. handles[i] is that of local rank
     * i. */
    int (*import)(mrail_relay_memory_t *memory,
                  const mrail_relay_shape_t *shape, uint32_t me,
                  const void *const *handles);
    /* Releases what alloc() and import() took. Copies in flight end first. */
    void (*release)(mrail_relay_memory_t *memory);
    /* Starts a copy between an area and memory of the user, and never waits.
     * Both must not change until copy_test() returns 1. A copy that is already
     * complete leaves *copy_p unchanged. */
    int (*copy_start)(mrail_relay_memory_t *memory, void *to, const void *from,
                      size_t length, void **copy_p);
    /* Returns 1 if the copy is complete and has been freed. Returns 0 if it is
     * in flight, or if an older copy from or to the same area is left. */
    int (*copy_test)(mrail_relay_memory_t *memory, void *copy);
} mrail_relay_memory_ops_t;

struct mrail_relay_memory {
    const mrail_relay_memory_ops_t *ops;
    mrail_relay_shm_pool_t shm_pool; /* base is NULL before import() */
    char shm_pool_name[MRAIL_RELAY_NAME_SIZE]; /* creator: until unlinked */
    void *areas[MRAIL_RELAY_MAX_LOCAL];        /* by local rank (slot.h) */
};

extern const mrail_relay_memory_ops_t mrail_relay_host_memory_ops;

static inline void mrail_relay_memory_init(mrail_relay_memory_t *memory,
                                           const mrail_relay_memory_ops_t *ops)
{
    *memory = (mrail_relay_memory_t){.ops = ops};
}

/* Returns the slots of local rank 0 in the pool. Those of rank i are *size_p * i
 * bytes behind. Only for memory that has been imported, and whose payloads lie in
 * the pool. */
void *mrail_relay_memory_slots(const mrail_relay_memory_t *memory,
                               size_t *size_p);

/* ---- for tables: the pool ---- */

/* Creates the pool if `me` is 0. Writes its name of MRAIL_RELAY_NAME_SIZE
 * bytes, which is empty on other ranks. */
int mrail_relay_memory_create_pool(mrail_relay_memory_t *memory,
                                   const mrail_relay_shape_t *shape,
                                   uint32_t me, void *name);
int mrail_relay_memory_attach_pool(mrail_relay_memory_t *memory,
                                   const mrail_relay_shape_t *shape,
                                   const char *name);
void mrail_relay_memory_release_pool(mrail_relay_memory_t *memory);

/* Prevents further imports. Ranks call it when all have imported. */
void mrail_relay_memory_seal(mrail_relay_memory_t *memory);

#endif
