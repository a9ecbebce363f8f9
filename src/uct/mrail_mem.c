/*
 * Registration on all rails, the registration cache, and remote keys.
 *
 * A registration may outlive the call that created it, but never the mapping.
 * The cache handles UCX's memory events, and drops a region when its pages are
 * unmapped. If other memory is later mapped at the same address, it is
 * registered again. If UCP has its own cache (UCT_MRAIL_HAVE_UCP_RCACHE), that
 * cache handles the events, and this file registers memory at each call.
 *
 * Only a UCX with CUDA support reports events of device memory. Each lookup of
 * a cached region therefore compares the buffer id, which changes when device
 * memory is freed and allocated again.
 */
#include "config.h"
#include "uct/mrail_mem.h"

#include "uct/mrail_status.h"

#include "cuda/memory.h"

#if UCT_MRAIL_HAVE_MD_RCACHE
#include <ucm/api/ucm.h>

typedef struct uct_mrail_rcache_region {
    ucs_rcache_region_t super;
    uct_mrail_memh_t memh;
} uct_mrail_rcache_region_t;
#endif

static ucs_status_t memh_reg(uct_mrail_md_t *md, void *address, size_t length,
                             int silent, uct_mrail_memh_t *memh)
{
    ucs_log_level_t level = silent ? UCS_LOG_LEVEL_DEBUG : UCS_LOG_LEVEL_ERROR;
    int ret = mrail_mem_reg(md->engine, address, length, &memh->mem);

    if (ret != 0) {
        ucs_log(level, "mrail: cannot register %p..%p: %s", address,
                UCS_PTR_BYTE_OFFSET(address, length), strerror(-ret));
    }
    return uct_mrail_status(ret);
}

#if UCT_MRAIL_HAVE_MD_RCACHE
static ucs_status_t rcache_reg(void *context, ucs_rcache_t *rcache, void *arg,
                               ucs_rcache_region_t *rregion, uint16_t flags)
{
    uct_mrail_rcache_region_t *region =
        ucs_derived_of(rregion, uct_mrail_rcache_region_t);
    unsigned *reg_flags = arg;
    int silent = (flags & UCS_RCACHE_MEM_REG_HIDE_ERRORS) ||
                 (*reg_flags & UCT_MD_MEM_FLAG_HIDE_ERRORS);

    return memh_reg(context, (void *)rregion->super.start,
                    rregion->super.end - rregion->super.start, silent,
                    &region->memh);
}

static void rcache_dereg(void *context, ucs_rcache_t *rcache,
                         ucs_rcache_region_t *rregion)
{
    (void)mrail_mem_dereg(
        ucs_derived_of(rregion, uct_mrail_rcache_region_t)->memh.mem);
}

static void rcache_dump(void *context, ucs_rcache_t *rcache,
                        ucs_rcache_region_t *rregion, char *buf, size_t max)
{
    snprintf(
        buf, max, "mem %p",
        (void *)ucs_derived_of(rregion, uct_mrail_rcache_region_t)->memh.mem);
}

static ucs_rcache_ops_t rcache_ops = {
    .mem_reg = rcache_reg,
    .mem_dereg = rcache_dereg,
    .dump_region = rcache_dump,
};

ucs_status_t uct_mrail_mem_init(uct_mrail_md_t *md,
                                const uct_mrail_md_config_t *config)
{
    ucs_rcache_params_t params;
    ucs_status_t status;

    if (!config->rcache_enable) {
        return UCS_OK;
    }
    memset(&params, 0, sizeof(params));
    uct_md_set_rcache_params(&params, &config->rcache);
    params.region_struct_size = sizeof(uct_mrail_rcache_region_t);
    params.max_alignment = ucs_get_page_size();
    params.ucm_events = UCM_EVENT_VM_UNMAPPED;
    if (md->reg_mem_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) {
        params.ucm_events |= UCM_EVENT_MEM_TYPE_FREE;
    }
    params.context = md;
    params.ops = &rcache_ops;
    status = ucs_rcache_create(&params, UCT_MRAIL_NAME, NULL, &md->rcache);
    if (status != UCS_OK) {
        /* Without a cache, this md registers memory at each call, which is
         * always correct. */
        ucs_diag("mrail: cannot create a registration cache (%s), so memory is "
                 "registered at each use",
                 ucs_status_string(status));
        md->rcache = NULL;
        return UCS_OK;
    }
    md->reg_cost =
        ucs_linear_func_make(uct_md_rcache_overhead(&config->rcache), 0);
    return UCS_OK;
}

void uct_mrail_mem_cleanup(uct_mrail_md_t *md)
{
    if (md->rcache != NULL) {
        ucs_rcache_destroy(md->rcache);
    }
}

static void region_dropped(void *arg)
{
}

static ucs_status_t cached_reg(uct_mrail_md_t *md, void *address, size_t length,
                               uint64_t flags, uct_mem_h *memh_p)
{
    unsigned reg_flags = (unsigned)flags;
    ucs_rcache_region_t *rregion;
    mrail_cuda_range_t range;
    uct_mrail_memh_t *memh;
    ucs_status_t status;

    (void)mrail_cuda_recognise(address, length, &range);
    for (;;) {
        status = ucs_rcache_get(md->rcache, address, length,
                                PROT_READ | PROT_WRITE, &reg_flags, &rregion);
        if (status != UCS_OK) {
            return status;
        }
        memh = &ucs_derived_of(rregion, uct_mrail_rcache_region_t)->memh;
        if (ucs_likely(mrail_mem_buffer_id(memh->mem) == range.buffer_id)) {
            *memh_p = memh;
            return UCS_OK;
        }
        ucs_rcache_region_invalidate(md->rcache, rregion, region_dropped, NULL);
        ucs_rcache_region_put(md->rcache, rregion);
    }
}
#else
ucs_status_t uct_mrail_mem_init(uct_mrail_md_t *md,
                                const uct_mrail_md_config_t *config)
{
    return UCS_OK;
}

void uct_mrail_mem_cleanup(uct_mrail_md_t *md)
{
}
#endif

ucs_status_t uct_mrail_memh_get(uct_mrail_md_t *md, void *address,
                                size_t length, uint64_t flags,
                                uct_mem_h *memh_p)
{
    uct_mrail_memh_t *memh;
    ucs_status_t status;

#if UCT_MRAIL_HAVE_MD_RCACHE
    if (md->rcache != NULL) {
        return cached_reg(md, address, length, flags, memh_p);
    }
#endif
    memh = malloc(sizeof(*memh));
    if (memh == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    status = memh_reg(md, address, length,
                      (flags & UCT_MD_MEM_FLAG_HIDE_ERRORS) != 0, memh);
    if (status != UCS_OK) {
        free(memh);
        return status;
    }
    *memh_p = memh;
    return UCS_OK;
}

ucs_status_t uct_mrail_memh_put(uct_mrail_md_t *md, uct_mrail_memh_t *memh)
{
    ucs_status_t status;

#if UCT_MRAIL_HAVE_MD_RCACHE
    if (md->rcache != NULL) {
        ucs_rcache_region_put(
            md->rcache,
            &ucs_container_of(memh, uct_mrail_rcache_region_t, memh)->super);
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
    if (!(md->reg_mem_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) &&
        mrail_cuda_is_device(address)) {
        ucs_log((flags & UCT_MD_MEM_FLAG_HIDE_ERRORS) ? UCS_LOG_LEVEL_DEBUG
                                                      : UCS_LOG_LEVEL_ERROR,
                "mrail: %p is GPU memory, which this UCX mistakes for host "
                "memory; UCX needs CUDA support, and cuda_copy in UCX_TLS",
                address);
        return UCS_ERR_UNSUPPORTED;
    }
    return uct_mrail_memh_get(md, address, length, flags, memh_p);
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
    return uct_mrail_memh_put(ucs_derived_of(tl_md, uct_mrail_md_t), memh);
}

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
