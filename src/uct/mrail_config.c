/* The UCX configuration tables, derived from the table in rail/params.h. */
#include "config.h"
#include "uct/mrail_config.h"

#include <ucs/sys/string.h>

#define CONFIG_TYPE_STRING UCS_CONFIG_TYPE_STRING
#define CONFIG_TYPE_UINT UCS_CONFIG_TYPE_UINT
#define CONFIG_TYPE_INT UCS_CONFIG_TYPE_INT
#define CONFIG_TYPE_SIZE UCS_CONFIG_TYPE_MEMUNITS
#define CONFIG_TYPE_COUNT UCS_CONFIG_TYPE_ULUNITS
#define CONFIG_TYPE_BOOL UCS_CONFIG_TYPE_BOOL
#define CONFIG_TYPE_TIME UCS_CONFIG_TYPE_TIME

#define CONFIG_FIELD(_name, _default, _type, _field, _help)                    \
    {#_name, _default, _help,                                                  \
     ucs_offsetof(uct_mrail_md_config_t, engine._field), CONFIG_TYPE_##_type},

ucs_config_field_t uct_mrail_md_config_table[] = {
    {"", "", NULL, ucs_offsetof(uct_mrail_md_config_t, super),
     UCS_CONFIG_TYPE_TABLE(uct_md_config_table)},

    MRAIL_PARAMS(CONFIG_FIELD)

#if HAVE_UCX_RCACHE
        {"RCACHE", "y",
         "Keep memory registered after use, and reuse the registration when the\n"
         "same buffer is used again. Unmapped memory is not used again, but may\n"
         "stay pinned until the next registration. Without the cache, planned\n"
         "exchanges use no RDMA READs; with UCX 1.13, every large transfer registers its buffers on all\n"
         "rails. For messages, UCX 1.14 and later have a cache of their own\n"
         "(UCX_RCACHE_ENABLE).",
         ucs_offsetof(uct_mrail_md_config_t, rcache_enable),
         UCS_CONFIG_TYPE_BOOL},
#endif

#if UCT_MRAIL_HAVE_MD_RCACHE
    {"", "", NULL, ucs_offsetof(uct_mrail_md_config_t, rcache),
     UCS_CONFIG_TYPE_TABLE(uct_md_config_rcache_table)},
#endif

    {"MEM_REG_OVERHEAD", "16us",
     "Estimated cost of registering memory on one rail. UCX compares it with\n"
     "the cost of a copy when it chooses a protocol.",
     ucs_offsetof(uct_mrail_md_config_t, reg_overhead_s), UCS_CONFIG_TYPE_TIME},

    {"MEM_REG_GROWTH", "0.06ns",
     "Estimated cost of registering one byte on one rail.",
     ucs_offsetof(uct_mrail_md_config_t, reg_growth_s), UCS_CONFIG_TYPE_TIME},

    {.name = NULL}};

ucs_config_field_t uct_mrail_iface_config_table[] = {
    {"", "", NULL, ucs_offsetof(uct_mrail_iface_config_t, super),
     UCS_CONFIG_TYPE_TABLE(uct_iface_config_table)},

    {"OVERHEAD", "200ns",
     "Estimated CPU time to post a message, without copies. UCX uses it to\n"
     "choose protocols.",
     ucs_offsetof(uct_mrail_iface_config_t, overhead_s), UCS_CONFIG_TYPE_TIME},

    {.name = NULL}};

static size_t size_of_memunits(size_t size)
{
    if (size == UCS_MEMUNITS_AUTO) {
        return MRAIL_SIZE_AUTO;
    }
    /* UCX's "inf" is the same value as the engine's "auto", so use the next
     * lower value. */
    return (size == UCS_MEMUNITS_INF) ? SIZE_MAX - 1 : size;
}

#define FIX_STRING(_field)
#define FIX_UINT(_field)
#define FIX_INT(_field)
#define FIX_BOOL(_field)
#define FIX_TIME(_field)
#define FIX_SIZE(_field) engine_p->_field = size_of_memunits(engine_p->_field);
/* UCX uses the same special values in counts as in sizes. */
#define FIX_COUNT(_field) FIX_SIZE(_field)
#define FIX_FIELD(_name, _default, _type, _field, _help) FIX_##_type(_field)

void uct_mrail_config_engine(const uct_mrail_md_config_t *config,
                             mrail_config_t *engine_p)
{
    *engine_p = config->engine;
    MRAIL_PARAMS(FIX_FIELD)
}
