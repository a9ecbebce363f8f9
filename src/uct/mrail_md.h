/*
 * The component "mrail" and its memory domain, which represents all rails of
 * this process.
 */
#ifndef UCT_MRAIL_MD_H
#define UCT_MRAIL_MD_H

#include "uct/mrail_config.h"

#include "rail/mrail.h"

#define UCT_MRAIL_NAME "mrail"
#define UCT_MRAIL_DEVICE "mrail:1"

typedef struct uct_mrail_md {
    uct_md_t super;
    mrail_engine_t *engine; /* shared by all mds of this process */
    mrail_engine_attr_t attr;
    ucs_rcache_t *cache; /* NULL if there is none; see uct_mrail_mem_cache() */
    int want_cache;      /* uct_mrail_mem_cache() should create one */
    ucs_linear_func_t reg_cost;
    uint64_t reg_mem_types;    /* bits of ucs_memory_type_t */
    struct uct_mrail_md *next; /* open mds; see mrail_direct.c */
} uct_mrail_md_t;

extern uct_component_t uct_mrail_component;
extern uct_tl_t UCT_TL_NAME(mrail);

ucs_status_t uct_mrail_md_open(uct_component_t *component, const char *name,
                               const uct_md_config_t *config, uct_md_h *md_p);

/* Reports the only device, UCT_MRAIL_DEVICE. */
ucs_status_t uct_mrail_query_devices(uct_md_h md,
                                     uct_tl_device_resource_t **devices_p,
                                     unsigned *num_devices_p);

/* Defined in mrail_direct.c, whose engine interface uses the oldest md. */
void uct_mrail_direct_md_opened(uct_mrail_md_t *md);
void uct_mrail_direct_md_closes(uct_mrail_md_t *md);

#endif
