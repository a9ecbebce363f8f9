/*
 * The md's registrations and remote keys, and the choice of its cache.
 */
#include "config.h"
#include "uct/mrail_mem.h"

#include "uct/mrail_status.h"
#include "uct/mrail_tls.h"

#include "cuda/memory.h"

/* ---- cache ---- */

#if HAVE_UCX_RCACHE
/* Creates the cache, and tries only once: if the cache cannot be created now,
 * it cannot be created later either. */
static void cache_create(uct_mrail_md_t *md, const ucs_rcache_params_t *params)
{
    ucs_status_t status = uct_mrail_cache_create(md->engine, md->reg_mem_types,
                                                 params, &md->cache);

    md->want_cache = 0;
    if (status != UCS_OK) {
        if (uct_mrail_may_log()) {
            ucs_warn("mrail: cannot create a registration cache (%s), so "
                     "planned exchanges use no RDMA READs",
                     ucs_status_string(status));
        }
        md->cache = NULL;
    }
}
#endif

void uct_mrail_mem_init(uct_mrail_md_t *md, const uct_mrail_md_config_t *config)
{
#if HAVE_UCX_RCACHE
    md->want_cache = config->rcache_enable;
#endif
#if UCT_MRAIL_HAVE_MD_RCACHE
    if (md->want_cache) {
        ucs_rcache_params_t params;

        uct_mrail_cache_params(&params);
        uct_md_set_rcache_params(&params, &config->rcache);
        cache_create(md, &params);
    }
    if (md->cache != NULL) {
        md->reg_cost =
            ucs_linear_func_make(uct_md_rcache_overhead(&config->rcache), 0);
    }
#endif
}

void uct_mrail_mem_cleanup(uct_mrail_md_t *md)
{
#if HAVE_UCX_RCACHE
    if (md->cache != NULL) {
        uct_mrail_cache_destroy(md->cache);
    }
#endif
}

ucs_rcache_t *uct_mrail_mem_cache(uct_mrail_md_t *md)
{
#if HAVE_UCX_RCACHE
    if (md->want_cache) {
        ucs_rcache_params_t params;

        uct_mrail_cache_params(&params);
        cache_create(md, &params);
    }
#endif
    return md->cache;
}

/* ---- registration ---- */

#if UCT_MRAIL_HAVE_MD_RCACHE
static ucs_status_t cached_reg(uct_mrail_md_t *md, void *address, size_t length,
                               int is_silent, uct_mem_h *memh_p)
{
    uct_mrail_memh_t *memh;
    ucs_status_t status =
        uct_mrail_cache_get(md->cache, address, length, is_silent, &memh);

    if (status == UCS_OK) {
        *memh_p = memh;
    }
    return status;
}
#endif

static ucs_status_t memh_get(uct_mrail_md_t *md, void *address, size_t length,
                             int is_silent, uct_mem_h *memh_p)
{
    uct_mrail_memh_t *memh;
    ucs_status_t status;

#if UCT_MRAIL_HAVE_MD_RCACHE
    if (md->cache != NULL) {
        return cached_reg(md, address, length, is_silent, memh_p);
    }
#endif
    memh = malloc(sizeof(*memh));
    if (memh == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    status = uct_mrail_memh_reg(md->engine, address, length, is_silent, memh);
    if (status != UCS_OK) {
        free(memh);
        return status;
    }
    *memh_p = memh;
    return UCS_OK;
}

static ucs_status_t memh_put(uct_mrail_md_t *md, uct_mrail_memh_t *memh)
{
    ucs_status_t status;

#if UCT_MRAIL_HAVE_MD_RCACHE
    if (md->cache != NULL) {
        uct_mrail_cache_put(md->cache, memh);
        return UCS_OK;
    }
#endif
    status = uct_mrail_status(mrail_mem_dereg(memh->mem));
    free(memh);
    return status;
}

/* Rejects device memory that this md does not register. UCX would otherwise
 * treat it as host memory, and let the CPU copy parts of it. */
static ucs_status_t md_reg(uct_mrail_md_t *md, void *address, size_t length,
                           uint64_t flags, uct_mem_h *memh_p)
{
    int is_silent = (flags & UCT_MD_MEM_FLAG_HIDE_ERRORS) != 0;

    if (!(md->reg_mem_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) &&
        mrail_cuda_is_device(address)) {
        ucs_log(is_silent ? UCS_LOG_LEVEL_DEBUG : UCS_LOG_LEVEL_ERROR,
                "mrail: %p is GPU memory, which this UCX mistakes for host "
                "memory; UCX needs CUDA support, and cuda_copy in UCX_TLS",
                address);
        return UCS_ERR_UNSUPPORTED;
    }
    return memh_get(md, address, length, is_silent, memh_p);
}

#if HAVE_UCT_MD_MEM_REG_PARAMS_T
ucs_status_t uct_mrail_mem_reg(uct_md_h tl_md, void *address, size_t length,
                               const uct_md_mem_reg_params_t *params,
                               uct_mem_h *memh_p)
{
    return md_reg(
        ucs_derived_of(tl_md, uct_mrail_md_t), address, length,
        UCS_PARAM_VALUE(UCT_MD_MEM_REG_FIELD, params, flags, FLAGS, 0), memh_p);
}
#else
ucs_status_t uct_mrail_mem_reg(uct_md_h tl_md, void *address, size_t length,
                               unsigned flags, uct_mem_h *memh_p)
{
    return md_reg(ucs_derived_of(tl_md, uct_mrail_md_t), address, length, flags,
                  memh_p);
}
#endif

ucs_status_t uct_mrail_mem_dereg(uct_md_h tl_md,
                                 const uct_md_mem_dereg_params_t *params)
{
    uct_mrail_memh_t *memh =
        UCS_PARAM_VALUE(UCT_MD_MEM_DEREG_FIELD, params, memh, MEMH, NULL);

    if (memh == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    if (UCS_PARAM_VALUE(UCT_MD_MEM_DEREG_FIELD, params, flags, FLAGS, 0) &
        UCT_MD_MEM_DEREG_FLAG_INVALIDATE) {
        return UCS_ERR_UNSUPPORTED; /* UCT_MD_FLAG_INVALIDATE is not set */
    }
    return memh_put(ucs_derived_of(tl_md, uct_mrail_md_t), memh);
}

/* ---- keys ---- */

static ucs_status_t mkey_pack(uct_mem_h tl_memh, void *buffer)
{
    const uct_mrail_memh_t *memh = tl_memh;

    mrail_rkey_pack(memh->mem, buffer);
    return UCS_OK;
}

#if HAVE_UCX_MKEY_PACK_RANGE
ucs_status_t uct_mrail_mkey_pack(uct_md_h tl_md, uct_mem_h memh, void *address,
                                 size_t length,
                                 const uct_md_mkey_pack_params_t *params,
                                 void *buffer)
{
    return mkey_pack(memh, buffer);
}
#else
ucs_status_t uct_mrail_mkey_pack(uct_md_h tl_md, uct_mem_h memh,
                                 const uct_md_mkey_pack_params_t *params,
                                 void *buffer)
{
    return mkey_pack(memh, buffer);
}
#endif

static ucs_status_t rkey_unpack(const void *buffer, uct_rkey_t *rkey_p,
                                void **handle_p)
{
    mrail_rkey_t *rkey;
    int ret = mrail_rkey_unpack(buffer, &rkey);

    if (ret != 0) {
        ucs_error("mrail: a remote key is not from this version of mrail");
        return uct_mrail_status(ret);
    }
    *rkey_p = (uct_rkey_t)rkey;
    *handle_p = NULL;
    return UCS_OK;
}

#if HAVE_UCT_RKEY_UNPACK_PARAMS_T
ucs_status_t uct_mrail_rkey_unpack(uct_component_t *component,
                                   const void *buffer,
                                   const uct_rkey_unpack_params_t *params,
                                   uct_rkey_t *rkey_p, void **handle_p)
{
    return rkey_unpack(buffer, rkey_p, handle_p);
}
#else
ucs_status_t uct_mrail_rkey_unpack(uct_component_t *component,
                                   const void *buffer, uct_rkey_t *rkey_p,
                                   void **handle_p)
{
    return rkey_unpack(buffer, rkey_p, handle_p);
}
#endif

ucs_status_t uct_mrail_rkey_release(uct_component_t *component, uct_rkey_t rkey,
                                    void *handle)
{
    mrail_rkey_release((mrail_rkey_t *)rkey);
    return UCS_OK;
}
