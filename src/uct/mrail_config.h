/*
 * The UCX_MRAIL_* parameters, as `ucx_info -cf` shows them.
 */
#ifndef UCT_MRAIL_CONFIG_H
#define UCT_MRAIL_CONFIG_H

#include "uct/mrail_compat.h"

#include "rail/mrail.h"

#define UCT_MRAIL_CONFIG_PREFIX "MRAIL_"

typedef struct uct_mrail_md_config {
    uct_md_config_t super;
    mrail_config_t engine; /* every parameter of rail/params.h */
#if HAVE_UCX_RCACHE
    int rcache_enable;
#endif
#if UCT_MRAIL_HAVE_MD_RCACHE
    uct_md_rcache_config_t rcache;
#endif
    double reg_overhead_s; /* time to register memory on one rail */
    double reg_growth_s;   /* additional time per byte, on one rail */
} uct_mrail_md_config_t;

typedef struct uct_mrail_iface_config {
    uct_iface_config_t super;
    double overhead_s; /* CPU time to post a message */
} uct_mrail_iface_config_t;

extern ucs_config_field_t uct_mrail_md_config_table[];
extern ucs_config_field_t uct_mrail_iface_config_table[];

/* Copies the engine's part of `config` and converts UCX's "auto" and "inf". The
 * strings still belong to `config`. */
void uct_mrail_config_engine(const uct_mrail_md_config_t *config,
                             mrail_config_t *engine_p);

#endif
