/*
 * Registrations of memory on all rails, and a cache of them.
 *
 * Without a cache, a registration ends with its use. The cache keeps it for
 * later uses, until the pages are unmapped. If other memory is later mapped at
 * the same address, it is registered again. The cache is UCX's own
 * (ucs/memory/rcache.h), and follows UCX's memory events.
 *
 * Only UCX with CUDA support reports events of device memory. Each use of a
 * cached region therefore compares the buffer id, which changes when device
 * memory is freed and allocated again.
 */
#ifndef UCT_MRAIL_CACHE_H
#define UCT_MRAIL_CACHE_H

#include "uct/mrail_compat.h"

#include "rail/mrail.h"

/* The object that a uct_mem_h points to. */
typedef struct uct_mrail_memh {
    mrail_mem_t *mem;
} uct_mrail_memh_t;

/* Registers memory. Logs a failure as an error, or with is_silent only for
 * debugging. The caller deregisters memh->mem. */
ucs_status_t uct_mrail_memh_reg(mrail_engine_t *engine, void *address,
                                size_t length, int is_silent,
                                uct_mrail_memh_t *memh);

#if HAVE_UCX_RCACHE

/* Fills in parameters without limits, whose cache follows fork(2). */
void uct_mrail_cache_params(ucs_rcache_params_t *params);

/* Creates a cache of registrations on the engine. `params` come from
 * uct_mrail_cache_params(), or from UCX's configuration of a cache.
 * `mem_types` are the bits of ucs_memory_type_t that the md registers. Fails if
 * UCX has no memory events (UCX_MEM_EVENTS=n). */
ucs_status_t uct_mrail_cache_create(mrail_engine_t *engine, uint64_t mem_types,
                                    const ucs_rcache_params_t *params,
                                    ucs_rcache_t **cache_p);

/* Ends all registrations, none of which may be in use. */
void uct_mrail_cache_destroy(ucs_rcache_t *cache);

/* Takes a reference to a registration that covers the memory, or registers the
 * memory. uct_mrail_cache_put() releases the reference. Any thread may call
 * both functions. */
ucs_status_t uct_mrail_cache_get(ucs_rcache_t *cache, void *address,
                                 size_t length, int is_silent,
                                 uct_mrail_memh_t **memh_p);
void uct_mrail_cache_put(ucs_rcache_t *cache, uct_mrail_memh_t *memh);

#endif
#endif
