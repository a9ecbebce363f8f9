/*
 * The memory that the ranks of a node share while they relay for each other: a
 * file in /dev/shm, mode 0600, of a name that nobody can guess, unlinked as soon as
 * all have it.  What a creator that was killed before leaves there, the next one of
 * that user removes.
 *
 * It holds, for each rank, a bank of slots (relay/slot.h) and, for each ordered pair
 * of ranks, a ring of what is handed over.
 */
#ifndef MRAIL_RELAY_SHM_POOL_H
#define MRAIL_RELAY_SHM_POOL_H

#include <stddef.h>
#include <stdint.h>

#define MRAIL_RELAY_MAX_LOCAL 256u /* ranks of a node */
#define MRAIL_RELAY_MAX_SLOTS 1024u
#define MRAIL_RELAY_MAX_CHUNK (64u << 20)
#define MRAIL_RELAY_NAME_SIZE 48u
#define MRAIL_RELAY_DIR "/dev/shm"

/* The same at all ranks of the node. */
typedef struct mrail_relay_shape {
    unsigned num_local; /* ranks, 1 to MRAIL_RELAY_MAX_LOCAL */
    unsigned out_slots; /* of each rank: its own bytes on their way out; >= 1 */
    unsigned in_slots;  /* of each rank: what came over the network; >= 1 */
    size_t chunk;       /* payload bytes of a slot, a multiple of 4096, > 0 */
} mrail_relay_shape_t;

typedef struct mrail_relay_shm_pool {
    mrail_relay_shape_t shape;
    void *base; /* page-aligned */
    size_t size;
    int lock_fd; /* the creator's: says that the name is in use; or -1 */
} mrail_relay_shm_pool_t;

/* Bytes of an arena; 0: the shape is out of range, or too large for a size_t. */
size_t mrail_relay_shm_pool_size(const mrail_relay_shape_t *shape);

/*
 * Makes one, all slots free, and writes its name to `name`, for
 * mrail_relay_shm_pool_attach() in the other ranks.  All of its memory is taken now:
 * a full /dev/shm is -ENOSPC here, not a SIGBUS later.  -EINVAL: shape; -errno of
 * open(2), mmap(2).
 */
int mrail_relay_shm_pool_create(const mrail_relay_shape_t *shape,
                                char name[MRAIL_RELAY_NAME_SIZE],
                                mrail_relay_shm_pool_t *shm_pool_p);

/* -EINVAL: not such a name, or not an arena of this shape, version and length;
 * -EPERM: another user's, or others may open it; -errno of open(2), mmap(2). */
int mrail_relay_shm_pool_attach(const mrail_relay_shape_t *shape,
                                const char *name,
                                mrail_relay_shm_pool_t *shm_pool_p);

/* No new rank attaches.  Once, by whoever created it. */
void mrail_relay_shm_pool_unlink(const char *name);

/* Unmaps; the others keep it. */
void mrail_relay_shm_pool_detach(mrail_relay_shm_pool_t *arena);

#endif
