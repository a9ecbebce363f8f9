/*
 * Registered memory and remote keys.
 */
#ifndef UCT_MRAIL_MEM_H
#define UCT_MRAIL_MEM_H

#include "uct/mrail_cache.h"
#include "uct/mrail_md.h"

/* Creates the registration cache if this version of UCX expects the md to have
 * one. If that fails, the md registers memory at each call, which is always
 * correct. */
void uct_mrail_mem_init(uct_mrail_md_t *md,
                        const uct_mrail_md_config_t *config);
void uct_mrail_mem_cleanup(uct_mrail_md_t *md);

/* Returns the registration cache of the md for READs of collectives
 * (mrail_direct.c), or NULL if there is none. If UCP expects a cache of each
 * md, this is the same cache. Otherwise UCP has its own cache and asserts that
 * no md has one. The md then registers memory at each call, and the first call
 * of this function creates a cache that UCP does not see. The cache exists until
 * uct_mrail_mem_cleanup(). Only one thread at a time may call this function. */
ucs_rcache_t *uct_mrail_mem_cache(uct_mrail_md_t *md);

#if HAVE_UCT_MD_MEM_REG_PARAMS_T
ucs_status_t uct_mrail_mem_reg(uct_md_h tl_md, void *address, size_t length,
                               const uct_md_mem_reg_params_t *params,
                               uct_mem_h *memh_p);
#else
ucs_status_t uct_mrail_mem_reg(uct_md_h tl_md, void *address, size_t length,
                               unsigned flags, uct_mem_h *memh_p);
#endif
ucs_status_t uct_mrail_mem_dereg(uct_md_h tl_md,
                                 const uct_md_mem_dereg_params_t *params);

#if HAVE_UCX_MKEY_PACK_RANGE
ucs_status_t uct_mrail_mkey_pack(uct_md_h tl_md, uct_mem_h memh, void *address,
                                 size_t length,
                                 const uct_md_mkey_pack_params_t *params,
                                 void *buffer);
#else
ucs_status_t uct_mrail_mkey_pack(uct_md_h tl_md, uct_mem_h memh,
                                 const uct_md_mkey_pack_params_t *params,
                                 void *buffer);
#endif

#if HAVE_UCT_RKEY_UNPACK_PARAMS_T
ucs_status_t uct_mrail_rkey_unpack(uct_component_t *component,
                                   const void *buffer,
                                   const uct_rkey_unpack_params_t *params,
                                   uct_rkey_t *rkey_p, void **handle_p);
#else
ucs_status_t uct_mrail_rkey_unpack(uct_component_t *component,
                                   const void *buffer, uct_rkey_t *rkey_p,
                                   void **handle_p);
#endif
ucs_status_t uct_mrail_rkey_release(uct_component_t *component, uct_rkey_t rkey,
                                    void *handle);

#endif
