/*
 * Endpoint operations.
 *
 * UCP sends the messages of an endpoint in order, and expects them to arrive in
 * that order. A message for which there are no resources waits in the pending
 * queue. Later operations on that endpoint must not overtake it, so each
 * operation calls must_wait() first. Operations on other endpoints need not
 * wait, and neither does the pending request itself when it is dispatched.
 */
#include "config.h"
#include "uct/mrail_ep.h"

#include "uct/mrail_mem.h"
#include "uct/mrail_status.h"

#include <errno.h>
#include <stdlib.h>

static int must_wait(uct_mrail_ep_t *ep)
{
    uct_mrail_iface_t *iface =
        ucs_derived_of(ep->super.super.iface, uct_mrail_iface_t);

    return ucs_unlikely(!ucs_arbiter_group_is_empty(&ep->pending)) &&
           iface->dispatched != &ep->pending;
}

/* Converts a negative error to a status, and returns a length unchanged. */
static ssize_t length_or_status(ptrdiff_t ret)
{
    return ucs_likely(ret >= 0) ? ret : (ssize_t)uct_mrail_status((int)ret);
}

/*
 * Converts a UCT iov to the engine's list. A UCT entry consists of `count`
 * blocks, whose starts are `stride` bytes apart. Adjacent blocks become one
 * entry; other blocks become one entry each. Empty entries are dropped. Returns
 * the number of entries, or -EINVAL if there are more than MRAIL_MAX_IOV.
 */
static int convert_iov(const uct_iov_t *iov, size_t iovcnt, mrail_iov_t *out)
{
    unsigned n = 0;

    for (size_t i = 0; i < iovcnt; ++i) {
        const uct_mrail_memh_t *memh = iov[i].memh;
        size_t blocks = iov[i].count;
        size_t length = iov[i].length;

        if (blocks > 1 && (iov[i].stride == 0 || iov[i].stride == length)) {
            length *= blocks;
            blocks = 1;
        }
        for (size_t b = 0; b < blocks && length > 0; ++b) {
            if (n == MRAIL_MAX_IOV) {
                return -EINVAL;
            }
            out[n].buffer =
                UCS_PTR_BYTE_OFFSET(iov[i].buffer, b * iov[i].stride);
            out[n].length = length;
            out[n].mem = (memh != NULL) ? memh->mem : NULL;
            ++n;
        }
    }
    return (int)n;
}

/* UCX's own macros for these checks contain a hidden return. */
#define CHECK_LENGTH(_length, _max, _name)                                     \
    UCT_CHECK_LENGTH((size_t)(_length), 0, _max, _name)
#define CHECK_IOV(_iovcnt, _name)                                              \
    UCT_CHECK_IOV_SIZE(_iovcnt, (size_t)MRAIL_MAX_IOV, _name)

static const mrail_engine_attr_t *attr_of(const uct_mrail_ep_t *ep)
{
    const uct_mrail_iface_t *iface =
        ucs_derived_of(ep->super.super.iface, uct_mrail_iface_t);

    return &iface->attr;
}

static const mrail_rkey_t *rkey_of(uct_rkey_t rkey)
{
    return (const mrail_rkey_t *)rkey;
}

/* ---- active messages ---- */

ucs_status_t uct_mrail_ep_am_short(uct_ep_h tl_ep, uint8_t id, uint64_t header,
                                   const void *payload, unsigned length)
{
    uct_mrail_ep_t *ep = ucs_derived_of(tl_ep, uct_mrail_ep_t);
    int ret;

    UCT_CHECK_AM_ID(id);
    CHECK_LENGTH(sizeof(header) + length, attr_of(ep)->max_am_short,
                 "am_short");
    if (must_wait(ep)) {
        return UCS_ERR_NO_RESOURCE;
    }
    ret =
        mrail_ep_am_short(ep->ep, id, &header, sizeof(header), payload, length);
    if (ucs_likely(ret == 0)) {
        UCT_TL_EP_STAT_OP(&ep->super, AM, SHORT, sizeof(header) + length);
    }
    return uct_mrail_status(ret);
}

ssize_t uct_mrail_ep_am_bcopy(uct_ep_h tl_ep, uint8_t id,
                              uct_pack_callback_t pack_cb, void *arg,
                              unsigned flags)
{
    uct_mrail_ep_t *ep = ucs_derived_of(tl_ep, uct_mrail_ep_t);
    ptrdiff_t ret;

    UCT_CHECK_AM_ID(id);
    if (must_wait(ep)) {
        return UCS_ERR_NO_RESOURCE;
    }
    ret = mrail_ep_am_bcopy(ep->ep, id, pack_cb, arg);
    UCT_TL_EP_STAT_OP_IF_SUCCESS(ret, &ep->super, AM, BCOPY, ret);
    return length_or_status(ret);
}

typedef struct zcopy_pack {
    const void *header;
    unsigned header_length;
    mrail_iov_t iov[MRAIL_MAX_IOV];
    int iov_count;
} zcopy_pack_t;

static size_t pack_zcopy(void *dest, void *arg)
{
    const zcopy_pack_t *pack = arg;
    char *p = dest;

    memcpy(p, pack->header, pack->header_length);
    p += pack->header_length;
    for (int i = 0; i < pack->iov_count; ++i) {
        memcpy(p, pack->iov[i].buffer, pack->iov[i].length);
        p += pack->iov[i].length;
    }
    return (size_t)(p - (char *)dest);
}

/* Returns 1 if any byte is in device memory, which the CPU cannot copy. */
static int any_device(const zcopy_pack_t *pack)
{
    for (int i = 0; i < pack->iov_count; ++i) {
        if (pack->iov[i].mem != NULL &&
            mrail_mem_buffer_id(pack->iov[i].mem) != 0) {
            return 1;
        }
    }
    return 0;
}

/* Copies the data and completes immediately (see docs/decisions/0007). */
ucs_status_t uct_mrail_ep_am_zcopy(uct_ep_h tl_ep, uint8_t id,
                                   const void *header, unsigned header_length,
                                   const uct_iov_t *iov, size_t iovcnt,
                                   unsigned flags, uct_completion_t *comp)
{
    zcopy_pack_t pack = {.header = header, .header_length = header_length};
    uct_mrail_ep_t *ep = ucs_derived_of(tl_ep, uct_mrail_ep_t);
    ptrdiff_t ret;

    UCT_CHECK_AM_ID(id);
    CHECK_IOV(iovcnt, "am_zcopy");
    CHECK_LENGTH(header_length + uct_iov_total_length(iov, iovcnt),
                 attr_of(ep)->max_am_bcopy, "am_zcopy");
    pack.iov_count = convert_iov(iov, iovcnt, pack.iov);
    if (pack.iov_count < 0) {
        return uct_mrail_status(pack.iov_count);
    }
    if (any_device(&pack)) {
        return UCS_ERR_UNSUPPORTED;
    }
    if (must_wait(ep)) {
        return UCS_ERR_NO_RESOURCE;
    }
    ret = mrail_ep_am_bcopy(ep->ep, id, pack_zcopy, &pack);
    UCT_TL_EP_STAT_OP_IF_SUCCESS(ret, &ep->super, AM, ZCOPY, ret);
    return (ret < 0) ? uct_mrail_status((int)ret) : UCS_OK;
}

/* ---- remote memory access ---- */

ucs_status_t uct_mrail_ep_put_short(uct_ep_h tl_ep, const void *buffer,
                                    unsigned length, uint64_t remote_addr,
                                    uct_rkey_t rkey)
{
    uct_mrail_ep_t *ep = ucs_derived_of(tl_ep, uct_mrail_ep_t);
    int ret;

    CHECK_LENGTH(length, attr_of(ep)->max_put_short, "put_short");
    if (must_wait(ep)) {
        return UCS_ERR_NO_RESOURCE;
    }
    ret =
        mrail_ep_put_short(ep->ep, buffer, length, remote_addr, rkey_of(rkey));
    if (ret == 0) {
        UCT_TL_EP_STAT_OP(&ep->super, PUT, SHORT, length);
    }
    return uct_mrail_status(ret);
}

ssize_t uct_mrail_ep_put_bcopy(uct_ep_h tl_ep, uct_pack_callback_t pack_cb,
                               void *arg, uint64_t remote_addr, uct_rkey_t rkey)
{
    uct_mrail_ep_t *ep = ucs_derived_of(tl_ep, uct_mrail_ep_t);
    ptrdiff_t ret;

    if (must_wait(ep)) {
        return UCS_ERR_NO_RESOURCE;
    }
    ret = mrail_ep_put_bcopy(ep->ep, pack_cb, arg, remote_addr, rkey_of(rkey));
    UCT_TL_EP_STAT_OP_IF_SUCCESS(ret, &ep->super, PUT, BCOPY, ret);
    return length_or_status(ret);
}

ucs_status_t uct_mrail_ep_put_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov,
                                    size_t iovcnt, uint64_t remote_addr,
                                    uct_rkey_t rkey, uct_completion_t *comp)
{
    uct_mrail_ep_t *ep = ucs_derived_of(tl_ep, uct_mrail_ep_t);
    mrail_iov_t engine_iov[MRAIL_MAX_IOV];
    int count, ret;

    CHECK_IOV(iovcnt, "put_zcopy");
    count = convert_iov(iov, iovcnt, engine_iov);
    if (count <= 0) {
        return uct_mrail_status(count); /* zero bytes: already complete */
    }
    if (must_wait(ep)) {
        return UCS_ERR_NO_RESOURCE;
    }
    ret = mrail_ep_put_zcopy(ep->ep, engine_iov, (unsigned)count, remote_addr,
                             rkey_of(rkey), comp);
    if (ret == 0 || ret == -EINPROGRESS) {
        UCT_TL_EP_STAT_OP(&ep->super, PUT, ZCOPY,
                          uct_iov_total_length(iov, iovcnt));
    }
    return uct_mrail_status(ret);
}

ucs_status_t uct_mrail_ep_get_short(uct_ep_h tl_ep, void *buffer,
                                    unsigned length, uint64_t remote_addr,
                                    uct_rkey_t rkey)
{
    uct_mrail_ep_t *ep = ucs_derived_of(tl_ep, uct_mrail_ep_t);
    int ret;

    CHECK_LENGTH(length, attr_of(ep)->max_bcopy, "get_short");
    if (must_wait(ep)) {
        return UCS_ERR_NO_RESOURCE;
    }
    ret =
        mrail_ep_get_short(ep->ep, buffer, length, remote_addr, rkey_of(rkey));
    if (ret == 0) {
        UCT_TL_EP_STAT_OP(&ep->super, GET, SHORT, length);
    }
    return uct_mrail_status(ret);
}

ucs_status_t uct_mrail_ep_get_bcopy(uct_ep_h tl_ep,
                                    uct_unpack_callback_t unpack_cb, void *arg,
                                    size_t length, uint64_t remote_addr,
                                    uct_rkey_t rkey, uct_completion_t *comp)
{
    uct_mrail_ep_t *ep = ucs_derived_of(tl_ep, uct_mrail_ep_t);
    int ret;

    CHECK_LENGTH(length, attr_of(ep)->max_bcopy, "get_bcopy");
    if (must_wait(ep)) {
        return UCS_ERR_NO_RESOURCE;
    }
    ret = mrail_ep_get_bcopy(ep->ep, unpack_cb, arg, length, remote_addr,
                             rkey_of(rkey), comp);
    if (ret == 0 || ret == -EINPROGRESS) {
        UCT_TL_EP_STAT_OP(&ep->super, GET, BCOPY, length);
    }
    return uct_mrail_status(ret);
}

ucs_status_t uct_mrail_ep_get_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov,
                                    size_t iovcnt, uint64_t remote_addr,
                                    uct_rkey_t rkey, uct_completion_t *comp)
{
    uct_mrail_ep_t *ep = ucs_derived_of(tl_ep, uct_mrail_ep_t);
    mrail_iov_t engine_iov[MRAIL_MAX_IOV];
    int count, ret;

    CHECK_IOV(iovcnt, "get_zcopy");
    count = convert_iov(iov, iovcnt, engine_iov);
    if (count <= 0) {
        return uct_mrail_status(count); /* zero bytes: already complete */
    }
    if (must_wait(ep)) {
        return UCS_ERR_NO_RESOURCE;
    }
    ret = mrail_ep_get_zcopy(ep->ep, engine_iov, (unsigned)count, remote_addr,
                             rkey_of(rkey), comp);
    if (ret == 0 || ret == -EINPROGRESS) {
        UCT_TL_EP_STAT_OP(&ep->super, GET, ZCOPY,
                          uct_iov_total_length(iov, iovcnt));
    }
    return uct_mrail_status(ret);
}

/* ---- flush, fence and completions ---- */

ucs_status_t uct_mrail_ep_flush(uct_ep_h tl_ep, unsigned flags,
                                uct_completion_t *comp)
{
    uct_mrail_ep_t *ep = ucs_derived_of(tl_ep, uct_mrail_ep_t);
    ucs_status_t status;

    if (flags & UCT_FLUSH_FLAG_CANCEL) {
        mrail_ep_cancel(ep->ep);
    } else if (must_wait(ep)) {
        return UCS_ERR_NO_RESOURCE;
    }
    status = uct_mrail_status(mrail_ep_flush(ep->ep, comp));
    if (status == UCS_INPROGRESS) {
        UCT_TL_EP_STAT_FLUSH_WAIT(&ep->super);
    } else if (status == UCS_OK) {
        UCT_TL_EP_STAT_FLUSH(&ep->super);
    }
    return status;
}

ucs_status_t uct_mrail_ep_fence(uct_ep_h tl_ep, unsigned flags)
{
    uct_mrail_ep_t *ep = ucs_derived_of(tl_ep, uct_mrail_ep_t);

    ucs_status_t status = uct_mrail_ep_fence_pending(ep);

    if (status != UCS_OK) {
        return status;
    }
    UCT_TL_EP_STAT_FENCE(&ep->super);
    return uct_mrail_status(mrail_ep_fence(ep->ep));
}

ucs_status_t uct_mrail_ep_check(uct_ep_h tl_ep, unsigned flags,
                                uct_completion_t *comp)
{
    uct_mrail_ep_t *ep = ucs_derived_of(tl_ep, uct_mrail_ep_t);

    if (comp != NULL || flags != 0) {
        return UCS_ERR_UNSUPPORTED;
    }
    return uct_mrail_status(mrail_ep_check(ep->ep));
}

/* ---- pending requests ---- */

/* A fence in the pending queue. */
typedef struct queued_fence {
    uct_pending_req_t super;
    uct_mrail_ep_t *ep;
} queued_fence_t;

static ucs_status_t progress_fence(uct_pending_req_t *req)
{
    queued_fence_t *fence = ucs_container_of(req, queued_fence_t, super);

    if (mrail_ep_fence(fence->ep->ep) == -EAGAIN) {
        return UCS_ERR_NO_RESOURCE;
    }
    free(fence);
    return UCS_OK;
}

static void push_pending(uct_mrail_ep_t *ep, uct_pending_req_t *req,
                         int is_fence)
{
    uct_mrail_iface_t *iface =
        ucs_derived_of(ep->super.super.iface, uct_mrail_iface_t);

    uct_pending_req_arb_group_push(&ep->pending, req);
    ucs_arbiter_group_schedule(&iface->arbiter, &ep->pending);
    if (ep->num_pending++ == 0) {
        ucs_list_add_tail(&iface->waiting, &ep->waiting);
    }
    ep->is_fenced = is_fence;
}

/* Called when a request leaves the queue. */
static void pop_pending(uct_mrail_ep_t *ep)
{
    if (--ep->num_pending == 0) {
        ucs_list_del(&ep->waiting);
        ep->is_fenced = 0;
    }
}

ucs_status_t uct_mrail_ep_fence_pending(uct_mrail_ep_t *ep)
{
    uct_mrail_iface_t *iface =
        ucs_derived_of(ep->super.super.iface, uct_mrail_iface_t);
    /* A request that is being dispatched has already passed its operations to
     * the engine. */
    unsigned num_sent = (iface->dispatched == &ep->pending);
    queued_fence_t *fence;

    if (ucs_likely(ep->num_pending == num_sent) || ep->is_fenced) {
        return UCS_OK;
    }
    fence = malloc(sizeof(*fence));
    if (fence == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    fence->super.func = progress_fence;
    fence->ep = ep;
    push_pending(ep, &fence->super, 1);
    return UCS_OK;
}

ucs_status_t uct_mrail_ep_pending_add(uct_ep_h tl_ep, uct_pending_req_t *req,
                                      unsigned flags)
{
    uct_mrail_ep_t *ep = ucs_derived_of(tl_ep, uct_mrail_ep_t);

    UCS_STATIC_ASSERT(sizeof(uct_pending_req_priv_arb_t) <=
                      UCT_PENDING_REQ_PRIV_LEN);
    push_pending(ep, req, 0);
    UCT_TL_EP_STAT_PEND(&ep->super);
    return UCS_OK;
}

ucs_arbiter_cb_result_t uct_mrail_ep_dispatch(ucs_arbiter_t *arbiter,
                                              ucs_arbiter_group_t *group,
                                              ucs_arbiter_elem_t *elem,
                                              void *arg)
{
    uct_pending_req_t *req = ucs_container_of(elem, uct_pending_req_t, priv);
    uct_mrail_iface_t *iface =
        ucs_container_of(arbiter, uct_mrail_iface_t, arbiter);
    uct_mrail_ep_t *ep = ucs_container_of(group, uct_mrail_ep_t, pending);
    unsigned *count = arg;
    ucs_status_t status;

    iface->dispatched = group;
    status = req->func(req);
    iface->dispatched = NULL;
    switch (status) {
    case UCS_OK:
        ++*count;
        pop_pending(ep);
        return UCS_ARBITER_CB_RESULT_REMOVE_ELEM;
    case UCS_INPROGRESS: /* partially sent: dispatch other endpoints next */
        ++*count;
        return UCS_ARBITER_CB_RESULT_NEXT_GROUP;
    default: /* no resources: dispatch this endpoint again on the next progress
              * call */
        return UCS_ARBITER_CB_RESULT_RESCHED_GROUP;
    }
}

typedef struct {
    uct_mrail_ep_t *ep;
    uct_pending_purge_callback_t cb;
    void *arg;
} purge_args_t;

static ucs_arbiter_cb_result_t purge_one(ucs_arbiter_t *arbiter,
                                         ucs_arbiter_group_t *group,
                                         ucs_arbiter_elem_t *elem, void *arg)
{
    uct_pending_req_t *req = ucs_container_of(elem, uct_pending_req_t, priv);
    purge_args_t *args = arg;

    pop_pending(args->ep);
    if (req->func == progress_fence) {
        free(ucs_container_of(req, queued_fence_t, super));
    } else if (args->cb != NULL) {
        args->cb(req, args->arg);
    }
    return UCS_ARBITER_CB_RESULT_REMOVE_ELEM;
}

void uct_mrail_ep_pending_purge(uct_ep_h tl_ep, uct_pending_purge_callback_t cb,
                                void *arg)
{
    uct_mrail_ep_t *ep = ucs_derived_of(tl_ep, uct_mrail_ep_t);
    uct_mrail_iface_t *iface = ucs_derived_of(tl_ep->iface, uct_mrail_iface_t);
    purge_args_t args = {ep, cb, arg};

    ucs_arbiter_group_purge(&iface->arbiter, &ep->pending, purge_one, &args);
}

/* ---- addresses ---- */

#if HAVE_UCT_IFACE_INTERNAL_OPS_T_EP_IS_CONNECTED
static void keep_addresses(uct_mrail_ep_t *ep, uct_mrail_iface_t *iface,
                           const uct_ep_params_t *params)
{
    uct_mrail_md_t *md = ucs_derived_of(iface->super.md, uct_mrail_md_t);

    memcpy(ep->device_addr, params->dev_addr,
           mrail_device_addr_size(md->engine));
    memcpy(ep->iface_addr, params->iface_addr,
           mrail_iface_addr_size(iface->iface));
}

int uct_mrail_ep_is_connected(const uct_ep_h tl_ep,
                              const uct_ep_is_connected_params_t *params)
{
    uct_mrail_ep_t *ep = ucs_derived_of(tl_ep, uct_mrail_ep_t);
    uct_mrail_iface_t *iface = ucs_derived_of(tl_ep->iface, uct_mrail_iface_t);
    uct_mrail_md_t *md = ucs_derived_of(iface->super.md, uct_mrail_md_t);
    const void *device_addr = UCS_PARAM_VALUE(UCT_EP_IS_CONNECTED_FIELD, params,
                                              device_addr, DEVICE_ADDR, NULL);
    const void *iface_addr = UCS_PARAM_VALUE(UCT_EP_IS_CONNECTED_FIELD, params,
                                             iface_addr, IFACE_ADDR, NULL);

    return device_addr != NULL && iface_addr != NULL &&
           memcmp(device_addr, ep->device_addr,
                  mrail_device_addr_size(md->engine)) == 0 &&
           memcmp(iface_addr, ep->iface_addr,
                  mrail_iface_addr_size(iface->iface)) == 0;
}
#else
static void keep_addresses(uct_mrail_ep_t *ep, uct_mrail_iface_t *iface,
                           const uct_ep_params_t *params)
{
}
#endif

/* ---- class ---- */

static void warn_not_purged(uct_pending_req_t *req, void *arg)
{
    ucs_warn("mrail: endpoint %p is destroyed with a pending request %p", arg,
             req);
}

static UCS_CLASS_INIT_FUNC(uct_mrail_ep_t, const uct_ep_params_t *params)
{
    uct_mrail_iface_t *iface = ucs_derived_of(params->iface, uct_mrail_iface_t);
    ucs_status_t status;

    UCT_EP_PARAMS_CHECK_DEV_IFACE_ADDRS(params);
    UCS_CLASS_CALL_SUPER_INIT(uct_base_ep_t, &iface->super);

    ucs_arbiter_group_init(&self->pending);
    self->num_pending = 0;
    self->is_fenced = 0;
    status = uct_mrail_status(mrail_ep_create(
        iface->iface, params->dev_addr, params->iface_addr, self, &self->ep));
    if (status != UCS_OK) {
        ucs_arbiter_group_cleanup(&self->pending);
        return status;
    }
    keep_addresses(self, iface, params);
    return UCS_OK;
}

static UCS_CLASS_CLEANUP_FUNC(uct_mrail_ep_t)
{
    uct_mrail_ep_pending_purge(&self->super.super, warn_not_purged, self);
    ucs_arbiter_group_cleanup(&self->pending);
    mrail_ep_destroy(self->ep);
}

UCS_CLASS_DEFINE(uct_mrail_ep_t, uct_base_ep_t);
UCS_CLASS_DEFINE_NEW_FUNC(uct_mrail_ep_t, uct_ep_t, const uct_ep_params_t *);
UCS_CLASS_DEFINE_DELETE_FUNC(uct_mrail_ep_t, uct_ep_t);
