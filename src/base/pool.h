/*
 * A pool of fixed-size elements. It grows in chunks up to a limit, and frees
 * memory only when it is destroyed. A callback allows the owner to register
 * each chunk with a device. Not thread-safe: the caller must serialise all
 * calls.
 */
#ifndef MRAIL_BASE_POOL_H
#define MRAIL_BASE_POOL_H

#include "base/util.h"

typedef struct mrail_pool_chunk mrail_pool_chunk_t;
typedef struct mrail_pool_elem {
    struct mrail_pool_elem *next;
} mrail_pool_elem_t;

typedef struct mrail_pool_params {
    size_t elem_size;         /* bytes, >= sizeof(void *) */
    size_t align;             /* power of two; 0: 64 */
    unsigned elems_per_chunk; /* >= 1 */
    unsigned max_elems;       /* 0 for no limit */
    /* Called with the memory of a new chunk before its first use. Returns 0 or
     * -errno; after an error, mrail_pool_get() returns NULL. May be NULL. */
    int (*chunk_init)(void *arg, void *base, size_t length, void **priv_p);
    void (*chunk_cleanup)(void *arg, void *priv);
    void *arg;
} mrail_pool_params_t;

typedef struct mrail_pool {
    mrail_pool_params_t params;
    mrail_pool_elem_t *free_list;
    mrail_pool_chunk_t *chunks;
    unsigned num_elems; /* elements allocated */
    unsigned num_used;  /* elements in use */
} mrail_pool_t;

void mrail_pool_init(mrail_pool_t *pool, const mrail_pool_params_t *params);

/* Frees all chunks, even those with elements in use. */
void mrail_pool_cleanup(mrail_pool_t *pool);

/* Adds one chunk. Returns 0, -ENOMEM, -ENOBUFS (limit reached), or the error
 * from chunk_init. */
int mrail_pool_grow(mrail_pool_t *pool);

/* Returns the total size of all chunks in bytes. */
size_t mrail_pool_bytes(const mrail_pool_t *pool);

/* Returns an element, or NULL if the limit is reached or memory runs out. */
static inline void *mrail_pool_get(mrail_pool_t *pool)
{
    mrail_pool_elem_t *elem;

    if (MRAIL_UNLIKELY(pool->free_list == NULL) &&
        (mrail_pool_grow(pool) != 0)) {
        return NULL;
    }
    elem = pool->free_list;
    pool->free_list = elem->next;
    ++pool->num_used;
    return elem;
}

static inline void mrail_pool_put(mrail_pool_t *pool, void *ptr)
{
    mrail_pool_elem_t *elem = ptr;

    elem->next = pool->free_list;
    pool->free_list = elem;
    --pool->num_used;
}

#endif
