/*
 * Implements an endpoint, which consists of an engine endpoint and its pending
 * requests.
 */
#ifndef UCT_MRAIL_EP_H
#define UCT_MRAIL_EP_H

#include "uct/mrail_iface.h"

typedef struct uct_mrail_ep {
    uct_base_ep_t super;
    mrail_ep_t *ep;
    /* oldest request first; later operations wait behind them */
    ucs_arbiter_group_t pending;
    unsigned num_pending;    /* requests in `pending`, including fences */
    int is_fenced;           /* the newest of them is a fence */
    ucs_list_link_t waiting; /* entry in iface->waiting if there are any */
#if HAVE_UCT_IFACE_INTERNAL_OPS_T_EP_IS_CONNECTED
    uint8_t device_addr[MRAIL_DEVICE_ADDR_MAX]; /* the peer's device address */
    uint8_t iface_addr[MRAIL_IFACE_ADDR_MAX];
#endif
} uct_mrail_ep_t;

UCS_CLASS_DECLARE_NEW_FUNC(uct_mrail_ep_t, uct_ep_t, const uct_ep_params_t *);
UCS_CLASS_DECLARE_DELETE_FUNC(uct_mrail_ep_t, uct_ep_t);

#if HAVE_UCT_IFACE_INTERNAL_OPS_T_EP_IS_CONNECTED
/* Returns 1 if the endpoint was created for these addresses. */
int uct_mrail_ep_is_connected(const uct_ep_h tl_ep,
                              const uct_ep_is_connected_params_t *params);
#endif

/* The operations of uct_iface_ops_t. Their contracts are in uct/api/uct.h. */
ucs_status_t uct_mrail_ep_am_short(uct_ep_h tl_ep, uint8_t id, uint64_t header,
                                   const void *payload, unsigned length);
ssize_t uct_mrail_ep_am_bcopy(uct_ep_h tl_ep, uint8_t id,
                              uct_pack_callback_t pack_cb, void *arg,
                              unsigned flags);
ucs_status_t uct_mrail_ep_am_zcopy(uct_ep_h tl_ep, uint8_t id,
                                   const void *header, unsigned header_length,
                                   const uct_iov_t *iov, size_t iovcnt,
                                   unsigned flags, uct_completion_t *comp);
ucs_status_t uct_mrail_ep_put_short(uct_ep_h tl_ep, const void *buffer,
                                    unsigned length, uint64_t remote_addr,
                                    uct_rkey_t rkey);
ssize_t uct_mrail_ep_put_bcopy(uct_ep_h tl_ep, uct_pack_callback_t pack_cb,
                               void *arg, uint64_t remote_addr,
                               uct_rkey_t rkey);
ucs_status_t uct_mrail_ep_put_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov,
                                    size_t iovcnt, uint64_t remote_addr,
                                    uct_rkey_t rkey, uct_completion_t *comp);
ucs_status_t uct_mrail_ep_get_short(uct_ep_h tl_ep, void *buffer,
                                    unsigned length, uint64_t remote_addr,
                                    uct_rkey_t rkey);
ucs_status_t uct_mrail_ep_get_bcopy(uct_ep_h tl_ep,
                                    uct_unpack_callback_t unpack_cb, void *arg,
                                    size_t length, uint64_t remote_addr,
                                    uct_rkey_t rkey, uct_completion_t *comp);
ucs_status_t uct_mrail_ep_get_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov,
                                    size_t iovcnt, uint64_t remote_addr,
                                    uct_rkey_t rkey, uct_completion_t *comp);

ucs_status_t uct_mrail_ep_flush(uct_ep_h tl_ep, unsigned flags,
                                uct_completion_t *comp);
ucs_status_t uct_mrail_ep_fence(uct_ep_h tl_ep, unsigned flags);
/* Puts a fence behind the pending requests of the endpoint, if there are any.
 * The engine does not know these requests yet. Returns UCS_OK or
 * UCS_ERR_NO_MEMORY. */
ucs_status_t uct_mrail_ep_fence_pending(uct_mrail_ep_t *ep);
ucs_status_t uct_mrail_ep_check(uct_ep_h tl_ep, unsigned flags,
                                uct_completion_t *comp);

ucs_status_t uct_mrail_ep_pending_add(uct_ep_h tl_ep, uct_pending_req_t *req,
                                      unsigned flags);
void uct_mrail_ep_pending_purge(uct_ep_h tl_ep, uct_pending_purge_callback_t cb,
                                void *arg);

/* Callback for the arbiter. `arg` points to an unsigned that counts the sent
 * requests. */
ucs_arbiter_cb_result_t uct_mrail_ep_dispatch(ucs_arbiter_t *arbiter,
                                              ucs_arbiter_group_t *group,
                                              ucs_arbiter_elem_t *elem,
                                              void *arg);

#endif
