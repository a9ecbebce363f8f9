/*
 * The shared-memory pool of the ranks of a node: a file in /dev/shm, mode 0600,
 * with an unguessable name, unlinked as soon as all ranks have attached it. If
 * a creator was killed before that, the next creator of the user removes the
 * file.
 *
 * For each rank the pool holds a bank of slots (relay/slot.h), and for each
 * ordered pair of ranks a ring for handing buffers over.
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

/* Bytes of a pool; 0: the shape is out of range, or too large for a size_t. */
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

/* -EINVAL: an invalid name, or no pool of this shape, version and length;
 * -EPERM: another user owns it, or others may open it; -errno of open(2),
 * mmap(2). */
int mrail_relay_shm_pool_attach(const mrail_relay_shape_t *shape,
                                const char *name,
                                mrail_relay_shm_pool_t *shm_pool_p);

/* Prevents further attaches. Called once, by the creator. */
void mrail_relay_shm_pool_unlink(const char *name);

/* Unmaps; the others keep it. */
void mrail_relay_shm_pool_detach(mrail_relay_shm_pool_t *arena);

#endif
