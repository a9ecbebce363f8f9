/*
 * Implements the interface: capabilities, addresses, progress, and the engine's
 * callbacks.
 *
 * All functions run under the UCX worker's lock. The engine calls back only
 * from mrail_iface_progress().
 */
#include "config.h"
#include "uct/mrail_iface.h"

#include "uct/mrail_ep.h"
#include "uct/mrail_shim.h"
#include "uct/mrail_status.h"

#include "base/util.h"

#include <errno.h>

#define CAP_FLAGS                                                              \
    (UCT_IFACE_FLAG_AM_SHORT | UCT_IFACE_FLAG_AM_BCOPY |                       \
     UCT_IFACE_FLAG_AM_ZCOPY | UCT_IFACE_FLAG_PUT_SHORT |                      \
     UCT_IFACE_FLAG_PUT_BCOPY | UCT_IFACE_FLAG_PUT_ZCOPY |                     \
     UCT_IFACE_FLAG_GET_SHORT | UCT_IFACE_FLAG_GET_BCOPY |                     \
     UCT_IFACE_FLAG_GET_ZCOPY | UCT_IFACE_FLAG_PENDING |                       \
     UCT_IFACE_FLAG_CB_SYNC | UCT_IFACE_FLAG_CONNECT_TO_IFACE |                \
     UCT_IFACE_FLAG_EP_CHECK | UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE)

/* Without this flag, UCP 1.18 and later mistakes the transport for shared
 * memory. */
#if HAVE_DECL_UCT_IFACE_FLAG_INTER_NODE
#define CAP_FLAGS_INTER_NODE UCT_IFACE_FLAG_INTER_NODE
#else
#define CAP_FLAGS_INTER_NODE 0
#endif

/* Packets should start at a cache line boundary, and at a multiple of the
 * largest PCIe payload. UCP sends the bytes before the first aligned address as
 * a separate fragment. */
#define ALIGN_BEST 512
#define MAX_MTU 4096

/* Fragment length in bytes with which the default overhead was measured. UCP
 * divides the overhead by the fragment length. It therefore underestimates the
 * cost of long fragments, whose bytes are all copied at both ends. */
#define OVERHEAD_FRAGMENT 8192.0

/* Cost in seconds of copying a fragment of this length at both ends. UCX 1.13
 * counts copies only if they are slower than the process's share of the rails.
 * With this addition to the reported overhead, the rendezvous threshold is
 * about 64 KB for any number of processes, instead of 55 to 174 KB
 * (docs/decisions/0014). */
#define FRAGMENT_COPY_S 600e-9

static double overhead_factor(const mrail_engine_attr_t *attr)
{
    double fragments = (double)attr->max_am_bcopy / OVERHEAD_FRAGMENT;

    return ucs_max(fragments, 1.0);
}

static ucs_status_t iface_query(uct_iface_h tl_iface, uct_iface_attr_t *attr)
{
    uct_mrail_iface_t *iface = ucs_derived_of(tl_iface, uct_mrail_iface_t);
    uct_mrail_md_t *md = ucs_derived_of(iface->super.md, uct_mrail_md_t);

    uct_base_iface_query(&iface->super, attr);
    attr->iface_addr_len = mrail_iface_addr_size(iface->iface);
    attr->device_addr_len = mrail_device_addr_size(md->engine);
    attr->ep_addr_len = 0;
    attr->max_conn_priv = 0;
    attr->cap.flags = CAP_FLAGS | CAP_FLAGS_INTER_NODE;
    if (md->reg_mem_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) {
        /* The CPU cannot copy device memory. UCP can use am_bcopy instead,
         * whose pack function copies device memory. */
        attr->cap.flags &= ~UCT_IFACE_FLAG_AM_ZCOPY;
    }
    attr->cap.event_flags = UCT_IFACE_FLAG_EVENT_SEND_COMP |
                            UCT_IFACE_FLAG_EVENT_RECV | UCT_IFACE_FLAG_EVENT_FD;

    attr->cap.am.max_short = iface->attr.max_am_short;
    attr->cap.am.max_bcopy = iface->attr.max_am_bcopy;
    attr->cap.am.min_zcopy = 0;
    attr->cap.am.max_zcopy = iface->attr.max_am_bcopy;
    attr->cap.am.max_hdr = iface->attr.max_am_bcopy;
    attr->cap.am.max_iov = MRAIL_MAX_IOV;
    attr->cap.am.opt_zcopy_align = 1;
    attr->cap.am.align_mtu = 1;

    attr->cap.put.max_short = iface->attr.max_put_short;
    attr->cap.put.max_bcopy = iface->attr.max_bcopy;
    attr->cap.put.min_zcopy = 0;
    attr->cap.put.max_zcopy = SIZE_MAX;
    attr->cap.put.max_iov = MRAIL_MAX_IOV;
    attr->cap.put.opt_zcopy_align = ALIGN_BEST;
    attr->cap.put.align_mtu = MAX_MTU;

    attr->cap.get.max_short = iface->attr.max_bcopy;
    attr->cap.get.max_bcopy = iface->attr.max_bcopy;
    attr->cap.get.min_zcopy = 0;
    attr->cap.get.max_zcopy = SIZE_MAX;
    attr->cap.get.max_iov = MRAIL_MAX_IOV;
    attr->cap.get.opt_zcopy_align = ALIGN_BEST;
    attr->cap.get.align_mtu = MAX_MTU;

    attr->latency = ucs_linear_func_make(iface->attr.latency_s, 0);
    attr->bandwidth.dedicated = 0;
    attr->bandwidth.shared = iface->attr.bandwidth;
    attr->overhead = iface->overhead_s + iface->copy_s;
    attr->priority = 0;
    return UCS_OK;
}

/* Measured fraction of the PUT and GET bandwidth that active messages reach
 * when all rails are busy. Each active message consumes a credit, and is
 * delivered in order (docs/decisions/0014). */
#define AM_BANDWIDTH_PART 0.9

/* Bytes per second of the copy in am_zcopy (docs/decisions/0007). am_bcopy
 * makes the same copy without a registration, so UCP must not prefer am_zcopy.
 * This value is therefore below UCX_BCOPY_BW, UCP's estimate for am_bcopy. */
#define AM_COPY_BANDWIDTH (5000.0 * (1 << 20))

static double op_bandwidth(double bandwidth, uct_ep_operation_t op)
{
    const double am_bandwidth = bandwidth * AM_BANDWIDTH_PART;

    switch (op) {
    case UCT_EP_OP_AM_SHORT:
    case UCT_EP_OP_AM_BCOPY:
        return am_bandwidth;
    case UCT_EP_OP_AM_ZCOPY:
        /* The cost of the copy is part of the bandwidth and not of the
         * overhead. UCP requests the overhead only once, for all lengths. */
        return 1 / (1 / am_bandwidth + 1 / AM_COPY_BANDWIDTH);
    default:
        return bandwidth;
    }
}

/* Removes the cost of the copies from the requested overheads. */
static void limit_overheads(uct_perf_attr_t *attr, double limit)
{
    if (attr->field_mask & UCT_PERF_ATTR_FIELD_SEND_PRE_OVERHEAD) {
        attr->send_pre_overhead = ucs_min(attr->send_pre_overhead, limit);
    }
    if (attr->field_mask & UCT_PERF_ATTR_FIELD_SEND_POST_OVERHEAD) {
        attr->send_post_overhead = ucs_min(attr->send_post_overhead, limit);
    }
    if (attr->field_mask & UCT_PERF_ATTR_FIELD_RECV_OVERHEAD) {
        attr->recv_overhead = ucs_min(attr->recv_overhead, limit);
    }
}

/* Reports the estimates with which UCP compares operations. */
static ucs_status_t iface_estimate_perf(uct_iface_h tl_iface,
                                        uct_perf_attr_t *attr)
{
    const uint64_t needed =
        UCT_PERF_ATTR_FIELD_OPERATION | UCT_PERF_ATTR_FIELD_BANDWIDTH;
    const uint64_t newer = UCT_PERF_ATTR_FIELD_RECV_OVERHEAD |
                           UCT_PERF_ATTR_FIELD_BANDWIDTH |
                           UCT_PERF_ATTR_FIELD_LATENCY;
    uct_mrail_iface_t *iface = ucs_derived_of(tl_iface, uct_mrail_iface_t);
    ucs_status_t status = uct_base_iface_estimate_perf(tl_iface, attr);

    if (status != UCS_OK) {
        return status;
    }
    /* The older protocols of UCP request only the sender's overheads. The newer
     * protocols add the cost of copies themselves. */
    if (attr->field_mask & newer) {
        limit_overheads(attr, iface->overhead_s);
    }
    if ((attr->field_mask & needed) == needed) {
        attr->bandwidth.shared =
            op_bandwidth(attr->bandwidth.shared, attr->operation);
    }
    return UCS_OK;
}

static ucs_status_t iface_get_device_address(uct_iface_h tl_iface,
                                             uct_device_addr_t *addr)
{
    uct_mrail_iface_t *iface = ucs_derived_of(tl_iface, uct_mrail_iface_t);
    uct_mrail_md_t *md = ucs_derived_of(iface->super.md, uct_mrail_md_t);

    mrail_device_addr_pack(md->engine, addr);
    return UCS_OK;
}

static ucs_status_t iface_get_address(uct_iface_h tl_iface,
                                      uct_iface_addr_t *addr)
{
    uct_mrail_iface_t *iface = ucs_derived_of(tl_iface, uct_mrail_iface_t);

    mrail_iface_addr_pack(iface->iface, addr);
    return UCS_OK;
}

static int is_reachable(const uct_iface_h tl_iface,
                        const uct_device_addr_t *device_addr,
                        const uct_iface_addr_t *iface_addr)
{
    uct_mrail_iface_t *iface = ucs_derived_of(tl_iface, uct_mrail_iface_t);
    uct_mrail_md_t *md = ucs_derived_of(iface->super.md, uct_mrail_md_t);

    return device_addr != NULL &&
           mrail_addr_is_reachable(md->engine, device_addr, iface_addr);
}

#if HAVE_UCT_IFACE_INTERNAL_OPS_T_IFACE_IS_REACHABLE_V2
static int is_reachable_v2(const uct_iface_h tl_iface,
                           const uct_iface_is_reachable_params_t *params)
{
    const uct_device_addr_t *device_addr = UCS_PARAM_VALUE(
        UCT_IFACE_IS_REACHABLE_FIELD, params, device_addr, DEVICE_ADDR, NULL);
    const uct_iface_addr_t *iface_addr = UCS_PARAM_VALUE(
        UCT_IFACE_IS_REACHABLE_FIELD, params, iface_addr, IFACE_ADDR, NULL);

    if (!is_reachable(tl_iface, device_addr, iface_addr)) {
        return 0;
    }
#if HAVE_DECL_UCT_IFACE_SCOPE_IS_REACHABLE
    return uct_iface_scope_is_reachable(tl_iface, params);
#else
    return 1;
#endif
}
#endif

/* ---- callbacks of the engine ---- */

static void on_am(void *arg, uint8_t am_id, void *data, size_t length)
{
    uct_mrail_iface_t *iface = arg;

    /* The id comes from the network and may be invalid. */
    if (ucs_unlikely(am_id >= UCT_AM_ID_MAX)) {
        ucs_error("mrail: dropped a message with active message id %u, which "
                  "must be less than %d",
                  am_id, (int)UCT_AM_ID_MAX);
        return;
    }
    (void)uct_iface_invoke_am(&iface->super, am_id, data, (unsigned)length, 0);
}

static void on_complete(void *arg, void *comp, int ret)
{
    if (comp != NULL) {
        uct_invoke_completion(comp, uct_mrail_status(ret));
    }
}

/* Set by the version shim (see mrail_shim.h). */
MRAIL_EXPORT uct_mrail_loss_func_t uct_mrail_loss_func;

static void on_ep_failed(void *arg, mrail_ep_t *engine_ep, int ret)
{
    uct_mrail_iface_t *iface = arg;
    uct_mrail_ep_t *ep = mrail_ep_user(engine_ep);
    ucs_status_t status = uct_mrail_status(ret);
    ucs_status_t handled;
    uct_mrail_loss_func_t loss_func = uct_mrail_loss_func;
    char peer[512];

    if (ret == -ESHUTDOWN) {
        loss_func = NULL; /* a regular exit does not end the job */
    }
    if (loss_func != NULL) { /* before the user destroys the endpoint below */
        mrail_ep_describe(engine_ep, peer, sizeof(peer));
    }
    handled =
        uct_iface_handle_ep_err(&iface->super.super, &ep->super.super, status);
    if (handled != UCS_OK) {
        ucs_log(iface->super.config.failure_level,
                (ret == -EIO) ? "mrail: a device rejected a PUT or GET: %s"
                              : "mrail: a peer can no longer be reached: %s",
                ucs_status_string(status));
    }
    if (loss_func != NULL) {
        loss_func(peer, strerror(-ret));
    }
}

/* Number of polls without activity after which a pending request is retried.
 * The request is also retried after activity that may have freed resources. The
 * polls are necessary because a lane may wait only for a deadline. */
#define MRAIL_PENDING_POLLS 16

/* Retries the pending operations if there has been activity since the last
 * attempt, or after many polls. */
static UCS_F_NOINLINE void dispatch_pending(uct_mrail_iface_t *iface,
                                            unsigned *count)
{
    uint64_t activity = mrail_iface_activity(iface->iface);

    if (iface->is_dispatching ||
        ((activity == iface->activity) &&
         (++iface->empty_polls < MRAIL_PENDING_POLLS))) {
        return;
    }
    iface->activity = activity;
    iface->empty_polls = 0;
    iface->is_dispatching = 1;
    ucs_arbiter_dispatch(&iface->arbiter, 1, uct_mrail_ep_dispatch, count);
    iface->is_dispatching = 0;
}

static unsigned iface_progress(uct_iface_h tl_iface)
{
    uct_mrail_iface_t *iface = ucs_derived_of(tl_iface, uct_mrail_iface_t);
    unsigned count = mrail_iface_progress(iface->iface);

    if (ucs_unlikely(!ucs_arbiter_is_empty(&iface->arbiter))) {
        dispatch_pending(iface, &count);
    }
    return count;
}

static ucs_status_t iface_flush(uct_iface_h tl_iface, unsigned flags,
                                uct_completion_t *comp)
{
    uct_mrail_iface_t *iface = ucs_derived_of(tl_iface, uct_mrail_iface_t);
    ucs_status_t status =
        uct_mrail_status(mrail_iface_flush(iface->iface, comp));

    if (status == UCS_INPROGRESS) {
        UCT_TL_IFACE_STAT_FLUSH_WAIT(&iface->super);
    } else if (status == UCS_OK) {
        UCT_TL_IFACE_STAT_FLUSH(&iface->super);
    }
    return status;
}

static ucs_status_t iface_fence(uct_iface_h tl_iface, unsigned flags)
{
    uct_mrail_iface_t *iface = ucs_derived_of(tl_iface, uct_mrail_iface_t);
    ucs_status_t status;
    uct_mrail_ep_t *ep;

    ucs_list_for_each(ep, &iface->waiting, waiting) {
        status = uct_mrail_ep_fence_pending(ep);
        if (status != UCS_OK) {
            return status;
        }
    }
    UCT_TL_IFACE_STAT_FENCE(&iface->super);
    return uct_mrail_status(mrail_iface_fence(iface->iface));
}

static ucs_status_t iface_event_fd_get(uct_iface_h tl_iface, int *fd_p)
{
    uct_mrail_iface_t *iface = ucs_derived_of(tl_iface, uct_mrail_iface_t);

    return uct_mrail_status(mrail_iface_event_fd(iface->iface, fd_p));
}

static ucs_status_t iface_event_arm(uct_iface_h tl_iface, unsigned events)
{
    uct_mrail_iface_t *iface = ucs_derived_of(tl_iface, uct_mrail_iface_t);

    return uct_mrail_status(
        mrail_iface_arm(iface->iface, !ucs_arbiter_is_empty(&iface->arbiter)));
}

/* ---- tables ---- */

static uct_iface_ops_t iface_ops;

static uct_iface_internal_ops_t internal_ops = {
#if HAVE_UCT_IFACE_INTERNAL_OPS_T_IFACE_QUERY_V2
    .iface_query_v2 = uct_iface_base_query_v2,
#endif
    .iface_estimate_perf = iface_estimate_perf,
    .iface_vfs_refresh = UCT_MRAIL_NOTHING(uct_iface_vfs_refresh_func_t),
#if HAVE_UCT_IFACE_INTERNAL_OPS_T_IFACE_MEM_ELEMENT_PACK
    .iface_mem_element_pack =
        UCT_MRAIL_UNSUPPORTED(uct_iface_mem_element_pack_func_t),
#endif
    .ep_query = UCT_MRAIL_UNSUPPORTED(uct_ep_query_func_t),
    .ep_invalidate = UCT_MRAIL_UNSUPPORTED(uct_ep_invalidate_func_t),
#if HAVE_UCT_IFACE_INTERNAL_OPS_T_EP_CONNECT_TO_EP_V2
    .ep_connect_to_ep_v2 =
        UCT_MRAIL_UNSUPPORTED(uct_ep_connect_to_ep_v2_func_t),
#endif
#if HAVE_UCT_IFACE_INTERNAL_OPS_T_IFACE_IS_REACHABLE_V2
    .iface_is_reachable_v2 = is_reachable_v2,
#endif
#if HAVE_UCT_IFACE_INTERNAL_OPS_T_EP_IS_CONNECTED
    .ep_is_connected = uct_mrail_ep_is_connected,
#endif
#if HAVE_UCT_IFACE_INTERNAL_OPS_T_EP_GET_DEVICE_EP
    .ep_get_device_ep = UCT_MRAIL_UNSUPPORTED(uct_ep_get_device_ep_func_t),
#endif
#if HAVE_UCT_IFACE_INTERNAL_OPS_T_EP_PUT_SGL_ZCOPY
    .ep_put_sgl_zcopy = UCT_MRAIL_UNSUPPORTED(uct_ep_put_sgl_zcopy_func_t),
#endif
};

static UCS_CLASS_INIT_FUNC(uct_mrail_iface_t, uct_md_h tl_md,
                           uct_worker_h worker,
                           const uct_iface_params_t *params,
                           const uct_iface_config_t *tl_config)
{
    uct_mrail_md_t *md = ucs_derived_of(tl_md, uct_mrail_md_t);
    const uct_mrail_iface_config_t *config =
        ucs_derived_of(tl_config, uct_mrail_iface_config_t);
    mrail_iface_params_t engine_params = {
        .arg = self,
        .am = on_am,
        .complete = on_complete,
        .ep_failed = on_ep_failed,
    };
    ucs_status_t status;

    UCS_CLASS_CALL_SUPER_INIT(
        uct_base_iface_t, &iface_ops, &internal_ops, tl_md, worker, params,
        tl_config UCS_STATS_ARG(NULL) UCS_STATS_ARG(UCT_MRAIL_NAME));

    self->attr = md->attr;
    self->overhead_s = config->overhead_s * overhead_factor(&self->attr);
    self->copy_s = FRAGMENT_COPY_S * overhead_factor(&self->attr);
    self->is_dispatching = 0;
    self->empty_polls = 0;
    self->activity = 0;
    self->dispatched = NULL;
    ucs_arbiter_init(&self->arbiter);
    ucs_list_head_init(&self->waiting);
    status = uct_mrail_status(
        mrail_iface_create(md->engine, &engine_params, &self->iface));
    if (status != UCS_OK) {
        ucs_arbiter_cleanup(&self->arbiter);
    }
    return status;
}

static UCS_CLASS_CLEANUP_FUNC(uct_mrail_iface_t)
{
    uct_base_iface_progress_disable(&self->super.super,
                                    UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    mrail_iface_destroy(self->iface);
    ucs_arbiter_cleanup(&self->arbiter);
}

UCS_CLASS_DEFINE(uct_mrail_iface_t, uct_base_iface_t);
static UCS_CLASS_DEFINE_NEW_FUNC(uct_mrail_iface_t, uct_iface_t, uct_md_h,
                                 uct_worker_h, const uct_iface_params_t *,
                                 const uct_iface_config_t *);
static UCS_CLASS_DEFINE_DELETE_FUNC(uct_mrail_iface_t, uct_iface_t);

static uct_iface_ops_t iface_ops = {
    .ep_put_short = uct_mrail_ep_put_short,
    .ep_put_bcopy = uct_mrail_ep_put_bcopy,
    .ep_put_zcopy = uct_mrail_ep_put_zcopy,
    .ep_get_short = uct_mrail_ep_get_short,
    .ep_get_bcopy = uct_mrail_ep_get_bcopy,
    .ep_get_zcopy = uct_mrail_ep_get_zcopy,
    .ep_am_short = uct_mrail_ep_am_short,
    .ep_am_short_iov = uct_base_ep_am_short_iov,
    .ep_am_bcopy = uct_mrail_ep_am_bcopy,
    .ep_am_zcopy = uct_mrail_ep_am_zcopy,
    .ep_atomic_cswap64 = UCT_MRAIL_UNSUPPORTED(uct_ep_atomic_cswap64_func_t),
    .ep_atomic_cswap32 = UCT_MRAIL_UNSUPPORTED(uct_ep_atomic_cswap32_func_t),
    .ep_atomic32_post = UCT_MRAIL_UNSUPPORTED(uct_ep_atomic32_post_func_t),
    .ep_atomic64_post = UCT_MRAIL_UNSUPPORTED(uct_ep_atomic64_post_func_t),
    .ep_atomic32_fetch = UCT_MRAIL_UNSUPPORTED(uct_ep_atomic32_fetch_func_t),
    .ep_atomic64_fetch = UCT_MRAIL_UNSUPPORTED(uct_ep_atomic64_fetch_func_t),
    .ep_pending_add = uct_mrail_ep_pending_add,
    .ep_pending_purge = uct_mrail_ep_pending_purge,
    .ep_flush = uct_mrail_ep_flush,
    .ep_fence = uct_mrail_ep_fence,
    .ep_check = uct_mrail_ep_check,
    .ep_create = UCS_CLASS_NEW_FUNC_NAME(uct_mrail_ep_t),
    .ep_destroy = UCS_CLASS_DELETE_FUNC_NAME(uct_mrail_ep_t),
    .ep_get_address = UCT_MRAIL_UNSUPPORTED(uct_ep_get_address_func_t),
    .ep_connect_to_ep = UCT_MRAIL_UNSUPPORTED(uct_ep_connect_to_ep_func_t),
    .iface_flush = iface_flush,
    .iface_fence = iface_fence,
    .iface_progress_enable = uct_base_iface_progress_enable,
    .iface_progress_disable = uct_base_iface_progress_disable,
    .iface_progress = iface_progress,
    .iface_event_fd_get = iface_event_fd_get,
    .iface_event_arm = iface_event_arm,
    .iface_close = UCS_CLASS_DELETE_FUNC_NAME(uct_mrail_iface_t),
    .iface_query = iface_query,
    .iface_get_device_address = iface_get_device_address,
    .iface_get_address = iface_get_address,
#if HAVE_DECL_UCT_BASE_IFACE_IS_REACHABLE
    .iface_is_reachable = uct_base_iface_is_reachable,
#else
    .iface_is_reachable = is_reachable,
#endif
};

UCT_TL_DEFINE_ENTRY(&uct_mrail_component, mrail, uct_mrail_query_devices,
                    uct_mrail_iface_t, UCT_MRAIL_CONFIG_PREFIX,
                    uct_mrail_iface_config_table, uct_mrail_iface_config_t)
