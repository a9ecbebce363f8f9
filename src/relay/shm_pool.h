/*
 * The shared-memory pool through which the ranks of a node relay data for each
 * other. It is a file in /dev/shm with mode 0600 and an unpredictable name. Its
 * creator unlinks the file once all ranks have attached it. If the creator is
 * killed before that, the next pool that the same user creates removes the
 * file.
 *
 * The pool contains slots for each rank (relay/slot.h), and a ring for each
 * ordered pair of ranks (relay/ring.h). If payloads are in a different kind of
 * memory (relay/memory.h), the slots of the pool contain only their headers.
 */
#ifndef MRAIL_RELAY_SHM_POOL_H
#define MRAIL_RELAY_SHM_POOL_H

#include <stddef.h>
#include <stdint.h>

#define MRAIL_RELAY_MAX_LOCAL 256u /* ranks per node */
#define MRAIL_RELAY_MAX_SLOTS 1024u
#define MRAIL_RELAY_MAX_CHUNK (64u << 20)
#define MRAIL_RELAY_NAME_SIZE 48u
#define MRAIL_RELAY_HEADER 64u /* bytes per header; each payload has one */
#define MRAIL_RELAY_DIR "/dev/shm"

/* Dimensions, equal on all ranks of the node. */
typedef struct mrail_relay_shape {
    unsigned num_local; /* number of ranks, 1 to MRAIL_RELAY_MAX_LOCAL */
    unsigned out_slots; /* per rank, for its own bytes; >= 1 */
    unsigned in_slots;  /* per rank, for bytes from the network; >= 1 */
    size_t chunk;       /* payload bytes of a slot, a multiple of 4096, > 0 */
    int is_external;    /* 1 if payloads are in other memory (relay/memory.h) */
} mrail_relay_shape_t;

typedef struct mrail_relay_shm_pool {
    mrail_relay_shape_t shape;
    void *base; /* page-aligned */
    size_t size;
    int lock_fd; /* on the creator, holds the lock that marks the name as in
                  * use; -1 on other ranks */
} mrail_relay_shm_pool_t;

/* Returns the size of a pool in bytes, or 0 if the shape is out of range or too
 * large for a size_t. */
size_t mrail_relay_shm_pool_size(const mrail_relay_shape_t *shape);

/*
 * Creates a pool in which all slots are free. Writes its name to `name`; other
 * ranks pass the name to mrail_relay_shm_pool_attach(). The function allocates
 * all memory, so that a full /dev/shm causes -ENOSPC here, not SIGBUS later.
 * Returns 0, -EINVAL if the shape is out of range, or -errno of open(2) or
 * mmap(2).
 */
int mrail_relay_shm_pool_create(const mrail_relay_shape_t *shape,
                                char name[MRAIL_RELAY_NAME_SIZE],
                                mrail_relay_shm_pool_t *shm_pool_p);

/* Maps the pool of another rank. Returns 0; -EINVAL if the name is malformed,
 * or the file is not a pool of this shape, version and length; -EPERM if the
 * file belongs to another user, or other users may open it; or -errno of
 * open(2) or mmap(2). */
int mrail_relay_shm_pool_attach(const mrail_relay_shape_t *shape,
                                const char *name,
                                mrail_relay_shm_pool_t *shm_pool_p);

/* Prevents further attaches. The creator calls it once. */
void mrail_relay_shm_pool_unlink(const char *name);

/* A rank joins the pool once, before it uses memory of other ranks that belongs
 * to the exchanges of this pool. It closes the pool once, when it no longer
 * uses this memory. The last function returns 1 if each rank that has joined
 * the pool has also closed it. This is final once no rank can join any more:
 * after all ranks have agreed on the result of the import. */
void mrail_relay_shm_pool_join(const mrail_relay_shm_pool_t *shm_pool);
void mrail_relay_shm_pool_close(const mrail_relay_shm_pool_t *shm_pool);
int mrail_relay_shm_pool_is_closed(const mrail_relay_shm_pool_t *shm_pool);

/* Unmaps the pool in this process only. */
void mrail_relay_shm_pool_detach(mrail_relay_shm_pool_t *shm_pool);

#endif
