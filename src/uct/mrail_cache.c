#include "config.h"
#include "uct/mrail_cache.h"

#include "uct/mrail_status.h"

#include "cuda/memory.h"

ucs_status_t uct_mrail_memh_reg(mrail_engine_t *engine, void *address,
                                size_t length, int is_silent,
                                uct_mrail_memh_t *memh)
{
    ucs_log_level_t level =
        is_silent ? UCS_LOG_LEVEL_DEBUG : UCS_LOG_LEVEL_ERROR;
    int ret = mrail_mem_reg(engine, address, length, &memh->mem);

    if (ret != 0) {
        ucs_log(level, "mrail: cannot register %p..%p: %s", address,
                UCS_PTR_BYTE_OFFSET(address, length), strerror(-ret));
    }
    return uct_mrail_status(ret);
}

#if HAVE_UCX_RCACHE

#include <ucm/api/ucm.h>
#include <ucs/sys/string.h>

/* Regions begin and end at multiples of this many bytes, unless the user
 * configures another number. mrail_mem_reg() accepts regions that extend beyond
 * the end of device memory by less than this. */
#define CACHE_ALIGN 64

/* Priority of memory events. All caches of UCT have this one. */
#define EVENT_PRIORITY 1000

typedef struct cache_region {
    ucs_rcache_region_t super;
    uct_mrail_memh_t memh;
} cache_region_t;

static uct_mrail_memh_t *memh_of(ucs_rcache_region_t *rregion)
{
    return &ucs_derived_of(rregion, cache_region_t)->memh;
}

/* ---- callbacks of the cache ---- */

static ucs_status_t region_reg(void *context, ucs_rcache_t *cache, void *arg,
                               ucs_rcache_region_t *rregion, uint16_t flags)
{
    const int *is_silent = arg;

    return uct_mrail_memh_reg(context, (void *)rregion->super.start,
                              rregion->super.end - rregion->super.start,
                              *is_silent ||
                                  (flags & UCS_RCACHE_MEM_REG_HIDE_ERRORS),
                              memh_of(rregion));
}

static void region_dereg(void *context, ucs_rcache_t *cache,
                         ucs_rcache_region_t *rregion)
{
    (void)mrail_mem_dereg(memh_of(rregion)->mem);
}

static void region_dump(void *context, ucs_rcache_t *cache,
                        ucs_rcache_region_t *rregion, char *buf, size_t max)
{
    snprintf(buf, max, "mem %p", (void *)memh_of(rregion)->mem);
}

#if HAVE_UCS_RCACHE_OPS_T_MERGE
/* Does nothing, because the registration of the merged region needs nothing
 * from the earlier ones. */
static void region_merge(void *context, ucs_rcache_t *cache, void *arg,
                         ucs_rcache_region_t *rregion)
{
}
#endif

static ucs_rcache_ops_t cache_ops = {
    .mem_reg = region_reg,
    .mem_dereg = region_dereg,
    .dump_region = region_dump,
#if HAVE_UCS_RCACHE_OPS_T_MERGE
    .merge = region_merge,
#endif
};

/* ---- life cycle ---- */

/* Sets the parameters of the cache. With a limit for max_unreleased, a thread
 * of UCX would clean all caches of the process, including that of UCP, which
 * UCP reads without the cache's lock. Unmapped memory therefore stays pinned
 * until the next registration. Without limits for regions and sizes, UCX keeps
 * no list of unused regions. Since 1.21, that list would need
 * UCS_RCACHE_FLAG_NEED_LRU_LOCK, because threads use this cache without a lock
 * of mrail. */
void uct_mrail_cache_params(ucs_rcache_params_t *params)
{
    memset(params, 0, sizeof(*params));
#if HAVE_UCS_RCACHE_PARAMS_T_ALIGNMENT
    params->alignment = CACHE_ALIGN;
#endif
    params->ucm_event_priority = EVENT_PRIORITY;
    params->flags = UCS_RCACHE_FLAG_PURGE_ON_FORK;
    params->max_regions = UCS_MEMUNITS_INF;
    params->max_size = UCS_MEMUNITS_INF;
    params->max_unreleased = UCS_MEMUNITS_INF;
}

ucs_status_t uct_mrail_cache_create(mrail_engine_t *engine, uint64_t mem_types,
                                    const ucs_rcache_params_t *params,
                                    ucs_rcache_t **cache_p)
{
    ucs_rcache_params_t own = *params;

    own.region_struct_size = sizeof(cache_region_t);
#if HAVE_UCS_RCACHE_PARAMS_T_MAX_ALIGNMENT
    own.max_alignment = ucs_get_page_size();
#endif
    own.ucm_events = UCM_EVENT_VM_UNMAPPED;
    if (mem_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) {
        own.ucm_events |= UCM_EVENT_MEM_TYPE_FREE;
    }
    own.context = engine;
    own.ops = &cache_ops;
    return ucs_rcache_create(&own, "mrail", NULL, cache_p);
}

void uct_mrail_cache_destroy(ucs_rcache_t *cache)
{
    ucs_rcache_destroy(cache);
}

/* ---- use ---- */

static ucs_status_t find(ucs_rcache_t *cache, void *address, size_t length,
                         int *is_silent, ucs_rcache_region_t **rregion_p)
{
#if HAVE_UCX_RCACHE_GET_ALIGNMENT
    return ucs_rcache_get(cache, address, length, CACHE_ALIGN,
                          PROT_READ | PROT_WRITE, is_silent, rregion_p);
#else
    return ucs_rcache_get(cache, address, length, PROT_READ | PROT_WRITE,
                          is_silent, rregion_p);
#endif
}

static void region_dropped(void *arg)
{
}

ucs_status_t uct_mrail_cache_get(ucs_rcache_t *cache, void *address,
                                 size_t length, int is_silent,
                                 uct_mrail_memh_t **memh_p)
{
    ucs_rcache_region_t *rregion;
    mrail_cuda_range_t range;
    uct_mrail_memh_t *memh;
    ucs_status_t status;

    (void)mrail_cuda_recognise(address, length, &range);
    for (;;) {
        status = find(cache, address, length, &is_silent, &rregion);
        if (status != UCS_OK) {
            return status;
        }
        memh = memh_of(rregion);
        if (ucs_likely(mrail_mem_buffer_id(memh->mem) == range.buffer_id)) {
            *memh_p = memh;
            return UCS_OK;
        }
        ucs_rcache_region_invalidate(cache, rregion, region_dropped, NULL);
        ucs_rcache_region_put(cache, rregion);
    }
}

void uct_mrail_cache_put(ucs_rcache_t *cache, uct_mrail_memh_t *memh)
{
    ucs_rcache_region_put(cache,
                          &ucs_container_of(memh, cache_region_t, memh)->super);
}

#endif
