/*
 * Component "mrail", through which UCX finds the transport. The version shim
 * checks the UCX version and then loads this file, which registers the
 * component. The component reports whether there are rails. It logs one line if
 * the user selected the transport but UCX will not use it.
 */
#include "config.h"
#include "uct/mrail_md.h"

#include "uct/mrail_iface.h"
#include "uct/mrail_log.h"
#include "uct/mrail_mem.h"
#include "uct/mrail_tls.h"

/* Logs once if UCX_NET_DEVICES excludes mrail:1. A site-wide setting may
 * exclude it without the user's knowledge. */
static void warn_if_excluded(void)
{
    static int warned;

    if (!warned && uct_mrail_tls_names() && uct_mrail_may_log() &&
        uct_mrail_net_devices_exclude(UCT_MRAIL_DEVICE)) {
        warned = 1;
        ucs_warn("mrail: UCX_TLS names mrail, but UCX_NET_DEVICES=%s excludes "
                 "its device; add " UCT_MRAIL_DEVICE " to the list, or unset "
                 "the variable (UCX_MRAIL_DEVICES selects the rails)",
                 getenv("UCX_NET_DEVICES"));
    }
}

static void warn_if_no_rail(int ret, const mrail_rejected_ports_t *rejected)
{
    static int warned;

    /* If a device name is wrong, device discovery has already logged an error
     * and returned -EINVAL. */
    if (ret == 0 && !warned && uct_mrail_tls_names() && uct_mrail_may_log()) {
        warned = 1;
        ucs_warn("mrail: UCX_TLS names mrail, but this node has no rail: %s; "
                 "mrail is disabled ('mrail info' lists the ports)",
                 mrail_rejected_ports_text(rejected));
    }
}

static ucs_status_t query_md_resources(uct_component_t *component,
                                       uct_md_resource_desc_t **resources_p,
                                       unsigned *num_resources_p)
{
    mrail_rejected_ports_t rejected = {.length = 0};
    uct_md_config_t *config;
    mrail_config_t engine_config;
    ucs_status_t status;
    int ret;

    uct_mrail_log_attach();
    status = uct_md_config_read(component, NULL, NULL, &config);
    if (status != UCS_OK) {
        return status;
    }
    uct_mrail_config_engine(ucs_derived_of(config, uct_mrail_md_config_t),
                            &engine_config);
    ret = mrail_rail_discover(&engine_config, mrail_rejected_ports_add,
                              &rejected);
    uct_config_release(config);
    if (ret <= 0) {
        warn_if_no_rail(ret, &rejected);
        return uct_md_query_empty_md_resource(resources_p, num_resources_p);
    }
    warn_if_excluded();
    return uct_md_query_single_md_resource(component, resources_p,
                                           num_resources_p);
}

uct_component_t uct_mrail_component = {
    .query_md_resources = query_md_resources,
    .md_open = uct_mrail_md_open,
    .cm_open = UCT_MRAIL_UNSUPPORTED(uct_component_cm_open_func_t),
    .rkey_unpack = uct_mrail_rkey_unpack,
    .rkey_ptr = UCT_MRAIL_UNSUPPORTED(uct_component_rkey_ptr_func_t),
    .rkey_release = uct_mrail_rkey_release,
#if HAVE_STRUCT_UCT_COMPONENT_RKEY_COMPARE
    .rkey_compare = uct_base_rkey_compare,
#endif
    .name = UCT_MRAIL_NAME,
    .md_config =
        {
            .name = "Multi-rail memory domain",
            .prefix = UCT_MRAIL_CONFIG_PREFIX,
            .table = uct_mrail_md_config_table,
            .size = sizeof(uct_mrail_md_config_t),
        },
    .cm_config = UCS_CONFIG_EMPTY_GLOBAL_LIST_ENTRY,
    .tl_list = UCT_COMPONENT_TL_LIST_INITIALIZER(&uct_mrail_component),
    .flags = 0,
    .md_vfs_init = UCT_MRAIL_NOTHING(uct_component_md_vfs_init_func_t),
};

static int registered;

/* Returns 1 if another copy of the transport is registered. A process may load
 * two copies, one from a build tree and one from an installation. Only the
 * first copy registers itself. */
static int another_is_registered(void)
{
    uct_component_t *component;

    ucs_list_for_each(component, &uct_components_list, list) {
        if (strcmp(component->name, UCT_MRAIL_NAME) == 0) {
            return 1;
        }
    }
    return 0;
}

__attribute__((constructor)) static void component_register(void)
{
    if (!another_is_registered()) {
        registered = 1;
        uct_component_register(&uct_mrail_component);
        uct_tl_register(&uct_mrail_component, &UCT_TL_NAME(mrail));
    }
}

__attribute__((destructor)) static void component_unregister(void)
{
    if (registered) {
        uct_tl_unregister(&UCT_TL_NAME(mrail));
        uct_component_unregister(&uct_mrail_component);
    }
}
