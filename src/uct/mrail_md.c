/*
 * Implements the memory domain: opens the engine and reports its capabilities.
 */
#include "config.h"
#include "uct/mrail_md.h"

#include "uct/mrail_log.h"
#include "uct/mrail_mem.h"
#include "uct/mrail_status.h"

#include <limits.h>

static void md_close(uct_md_h tl_md)
{
    uct_mrail_md_t *md = ucs_derived_of(tl_md, uct_mrail_md_t);

    uct_mrail_direct_md_closes(md);
    uct_mrail_mem_cleanup(md);
    mrail_engine_close(md->engine);
    free(md);
}

#if HAVE_UCT_MD_ATTR_V2_T
static ucs_status_t md_query(uct_md_h tl_md, uct_md_attr_v2_t *attr)
{
    uct_mrail_md_t *md = ucs_derived_of(tl_md, uct_mrail_md_t);

#if HAVE_DECL_UCT_MD_BASE_MD_QUERY
    uct_md_base_md_query(attr);
#else
    attr->alloc_mem_types = 0;
    attr->detect_mem_types = 0;
    attr->max_alloc = 0;
    memset(&attr->local_cpus, 0xff, sizeof(attr->local_cpus));
#endif
    attr->flags =
        UCT_MD_FLAG_REG | UCT_MD_FLAG_NEED_MEMH | UCT_MD_FLAG_NEED_RKEY;
    attr->reg_mem_types = md->reg_mem_types;
#if UCT_MRAIL_HAVE_UCP_RCACHE
    attr->cache_mem_types = md->reg_mem_types;
#endif
    attr->access_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    attr->max_reg = ULONG_MAX;
    attr->rkey_packed_size = md->attr.rkey_size;
    attr->reg_cost = md->reg_cost;
    return UCS_OK;
}
#else
static ucs_status_t md_query(uct_md_h tl_md, uct_md_attr_t *attr)
{
    uct_mrail_md_t *md = ucs_derived_of(tl_md, uct_mrail_md_t);

    attr->cap.flags =
        UCT_MD_FLAG_REG | UCT_MD_FLAG_NEED_MEMH | UCT_MD_FLAG_NEED_RKEY;
    attr->cap.reg_mem_types = md->reg_mem_types;
    attr->cap.alloc_mem_types = 0;
    attr->cap.detect_mem_types = 0;
    attr->cap.access_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    attr->cap.max_alloc = 0;
    attr->cap.max_reg = ULONG_MAX;
    attr->rkey_packed_size = md->attr.rkey_size;
    attr->reg_cost = md->reg_cost;
    memset(&attr->local_cpus, 0xff, sizeof(attr->local_cpus));
    return UCS_OK;
}
#endif

static uct_md_ops_t md_ops = {
    .close = md_close,
    .query = md_query,
    .mem_alloc = UCT_MRAIL_UNSUPPORTED(uct_md_mem_alloc_func_t),
    .mem_free = UCT_MRAIL_UNSUPPORTED(uct_md_mem_free_func_t),
    .mem_advise = UCT_MRAIL_UNSUPPORTED(uct_md_mem_advise_func_t),
    .mem_reg = uct_mrail_mem_reg,
    .mem_dereg = uct_mrail_mem_dereg,
    .mem_query = UCT_MRAIL_UNSUPPORTED(uct_md_mem_query_func_t),
    .mkey_pack = uct_mrail_mkey_pack,
#if HAVE_STRUCT_UCT_MD_OPS_MEM_ATTACH
    .mem_attach = UCT_MRAIL_UNSUPPORTED(uct_md_mem_attach_func_t),
#endif
#if HAVE_STRUCT_UCT_MD_OPS_IS_SOCKADDR_ACCESSIBLE
    .is_sockaddr_accessible = (uct_md_is_sockaddr_accessible_func_t)(void (*)(
        void))ucs_empty_function_return_zero_int,
#endif
    .detect_memory_type =
        UCT_MRAIL_UNSUPPORTED(uct_md_detect_memory_type_func_t),
#if HAVE_STRUCT_UCT_MD_OPS_MEM_ELEM_PACK
    .mem_elem_pack = UCT_MRAIL_UNSUPPORTED(uct_md_mem_elem_pack_func_t),
#endif
};

ucs_status_t uct_mrail_md_open(uct_component_t *component, const char *name,
                               const uct_md_config_t *tl_config, uct_md_h *md_p)
{
    const uct_mrail_md_config_t *config =
        ucs_derived_of(tl_config, uct_mrail_md_config_t);
    mrail_config_t engine_config;
    uct_mrail_md_t *md;
    ucs_status_t status;

    md = calloc(1, sizeof(*md));
    if (md == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    md->super.ops = &md_ops;
    md->super.component = component;

    uct_mrail_log_attach();
    uct_mrail_config_engine(config, &engine_config);
    status = uct_mrail_status(mrail_engine_open(&engine_config, &md->engine));
    if (status != UCS_OK) {
        goto err_free;
    }
    mrail_engine_query(md->engine, &md->attr);
    /* A process can detect device memory only if it has loaded the CUDA driver
     * by now. UCX's own CUDA modules load it. */
    md->reg_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    if (mrail_engine_device_access(md->engine) != MRAIL_CUDA_ACCESS_NONE) {
        md->reg_mem_types |= UCS_BIT(UCS_MEMORY_TYPE_CUDA);
    }
    md->reg_cost =
        ucs_linear_func_make(config->reg_overhead_s * md->attr.num_rails,
                             config->reg_growth_s * md->attr.num_rails);

    uct_mrail_mem_init(md, config);
    uct_mrail_direct_md_opened(md);
    *md_p = &md->super;
    return UCS_OK;

err_free:
    free(md);
    return status;
}

ucs_status_t uct_mrail_query_devices(uct_md_h md,
                                     uct_tl_device_resource_t **devices_p,
                                     unsigned *num_devices_p)
{
    return uct_single_device_resource(md, UCT_MRAIL_DEVICE, UCT_DEVICE_TYPE_NET,
                                      UCS_SYS_DEVICE_ID_UNKNOWN, devices_p,
                                      num_devices_p);
}
