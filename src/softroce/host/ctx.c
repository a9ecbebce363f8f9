#include "config.h"
#include "softroce/host/egress.h"
#include "softroce/host/host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* When a slot is reused, its QPN range starts at a different number. Late
 * packets for the previous owner then find no QP. */
#define CTX_QPN_STRIDE 1021u
#define CTX_QPN_COUNT 65000u
#define CTX_EXPORT_NS (10 * MRAIL_NS_PER_MS)
#define CTX_PROBE_NS (10 * MRAIL_NS_PER_MS)

#define CTX_CORE_COUNTERS (sizeof(sroce_counters_t) / sizeof(uint64_t))
_Static_assert(CTX_CORE_COUNTERS <= SROCE_CORE_CNT_MAX, "too many counters");

static enum ibv_mtu sroce_ctx_mtu(const sroce_session_t *session)
{
    switch (session->mtu) {
    case 256:
        return IBV_MTU_256;
    case 512:
        return IBV_MTU_512;
    case 1024:
        return IBV_MTU_1024;
    case 2048:
        return IBV_MTU_2048;
    default:
        return IBV_MTU_4096;
    }
}

static void sroce_ctx_qp_active(void *arg, sroce_qp_t *qp, void *qp_user)
{
    sroce_tx_activate(qp_user);
}

static int sroce_ctx_core_create(sroce_host_ctx_t *ctx)
{
    const sroce_session_t *session = sroce_host.session;
    int icrc = (session->flags & SROCE_SESSION_F_ICRC) != 0;
    sroce_dev_params_t params = {
        .ip = ctx->sdev->addr,
        .qpn_base = (ctx->slot_index << SROCE_SESSION_QPN_BITS) + 2 +
                    ctx->slot->generation * CTX_QPN_STRIDE % 65536,
        .qpn_count = CTX_QPN_COUNT,
        .icrc_tx = icrc,
        .icrc_rx = icrc,
        .max_mtu = sroce_ctx_mtu(session),
        /* Longer than a time slice: if cores are scarce, the peer may not be
         * running. */
        .probe_ns = CTX_PROBE_NS,
        .ops = {.cq_event = sroce_event_cq,
                .async_event = sroce_event_async,
                .qp_active = sroce_ctx_qp_active,
                .arg = ctx}};

    if (getrandom(&params.key_secret, sizeof(params.key_secret), 0) !=
        (ssize_t)sizeof(params.key_secret)) {
        return -errno;
    }
    return -sroce_dev_create(&params, &ctx->core);
}

static void sroce_ctx_init(sroce_host_ctx_t *ctx, sroce_host_dev_t *dev)
{
    struct ibv_context *context = &ctx->verbs.context;

    ctx->dev = dev;
    ctx->sdev = dev->sdev;
    ctx->dev_index = sroce_session_dev_index(sroce_host.session, dev->sdev);
    ctx->pid = sroce_host.pid;
    pthread_mutex_init(&ctx->lock, NULL);
    pthread_cond_init(&ctx->acked, NULL);
    mrail_list_init(&ctx->list);
    mrail_list_init(&ctx->ready);
    mrail_list_init(&ctx->waiting);
    mrail_list_init(&ctx->delayed);
    mrail_list_init(&ctx->sport_lru);
    ctx->next_wake_ns = MRAIL_NS_NEVER;
    ctx->verbs.sz = sizeof(ctx->verbs);
    context->device = &dev->ibv;
    context->cmd_fd = -1;
    context->num_comp_vectors = 1;
    pthread_mutex_init(&context->mutex, NULL);
    context->abi_compat = __VERBS_ABI_IS_EXTENDED;
    sroce_host_ctx_set_ops(ctx);
}

/* Discards datagrams that were sent to the slot's previous owner. */
static void sroce_ctx_drain(int fd)
{
    char byte;

    while (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC) >= 0) {
    }
}

void sroce_host_ctx_seed(sroce_host_ctx_t *ctx)
{
    uint64_t seed;

    ctx->seeds = ctx->sdev->seeds;
    seed = ctx->sdev->seed;
    mrail_rng_init(&ctx->rng, ((seed != 0) ? seed : sroce_host.session->seed) ^
                                  ((uint64_t)ctx->dev_index << 32) ^
                                  ((uint64_t)ctx->slot_index << 16));
}

static int sroce_ctx_go_live(sroce_host_ctx_t *ctx)
{
    sroce_slot_t *slot = ctx->slot;

    /* Ignore changes made before the device was opened. */
    ctx->settings_gen = ctx->sdev->settings_gen;
    ctx->error_qp = ctx->sdev->error_qp;
    sroce_host_ctx_seed(ctx);
    for (unsigned i = 0; i < CTX_CORE_COUNTERS; ++i) {
        ctx->core_base[i] = slot->core[i];
    }
    ctx->kernel_drops = sroce_net_drops(ctx); /* counted for previous owners */
    sroce_ctx_drain(ctx->rx_fd);
    slot->rx_limit = sroce_net_rx_limit(ctx->rx_fd);
    slot->rx_held = 0;
    slot->state = SROCE_SLOT_LIVE;
    return sroce_control_add(ctx);
}

void sroce_host_ctx_export(sroce_host_ctx_t *ctx, mrail_ns_t now_ns)
{
    const uint64_t *now = (const uint64_t *)sroce_dev_counters(ctx->core);
    uint32_t drops;

    if (now_ns - ctx->exported_ns < CTX_EXPORT_NS) {
        return;
    }
    ctx->exported_ns = now_ns;
    drops = sroce_net_drops(ctx);
    sroce_host_count(ctx, SROCE_CNT_DROP_KERNEL, drops - ctx->kernel_drops);
    ctx->kernel_drops = drops;
    for (unsigned i = 0; i < CTX_CORE_COUNTERS; ++i) {
        atomic_store_explicit(&ctx->slot->core[i], ctx->core_base[i] + now[i],
                              memory_order_relaxed);
    }
}

struct ibv_context *sroce_host_ctx_open(sroce_host_dev_t *dev)
{
    sroce_host_ctx_t *ctx = NULL;
    int ret;

    if (posix_memalign((void **)&ctx, 64, sizeof(*ctx)) != 0) {
        errno = ENOMEM;
        return NULL;
    }
    memset(ctx, 0, sizeof(*ctx));
    sroce_ctx_init(ctx, dev);
    ret = -ENOMEM;
    ctx->rx_buf = malloc(SROCE_HOST_RX_BYTES);
    if (ctx->rx_buf == NULL) {
        goto err_free;
    }
    ret = sroce_event_pipe(&ctx->verbs.context.async_fd, &ctx->async_write_fd);
    if (ret != 0) {
        goto err_free;
    }
    ret = sroce_host_join(ctx->dev_index, &ctx->slot_index, &ctx->rx_fd);
    if (ret != 0) {
        goto err_pipe;
    }
    ctx->slot = &ctx->sdev->slots[ctx->slot_index];
    ctx->port_down = (ctx->sdev->down != 0);
    ret = sroce_ctx_core_create(ctx);
    if (ret != 0) {
        goto err_leave;
    }
    ret = sroce_ctx_go_live(ctx);
    if (ret != 0) {
        goto err_core;
    }
    return &ctx->verbs.context;

err_core:
    sroce_dev_destroy(ctx->core);
err_leave:
    close(ctx->rx_fd);
    sroce_host_leave(ctx->dev_index, ctx->slot_index);
err_pipe:
    close(ctx->verbs.context.async_fd);
    close(ctx->async_write_fd);
err_free:
    free(ctx->rx_buf);
    free(ctx);
    errno = -ret;
    return NULL;
}

void sroce_host_ctx_close(sroce_host_ctx_t *ctx)
{
    sroce_control_remove(ctx);
    sroce_egress_finish(ctx);
    /* Senders see this state and stop. The slot is then returned to the session
     * daemon. */
    ctx->slot->state = SROCE_SLOT_JOINING;
    ctx->exported_ns = 0;
    sroce_host_ctx_export(ctx, mrail_clock_now());
    close(ctx->rx_fd);
    sroce_host_leave(ctx->dev_index, ctx->slot_index);
    sroce_tx_cleanup(ctx);
    sroce_net_cleanup(ctx);
    sroce_dev_destroy(ctx->core);
    close(ctx->verbs.context.async_fd);
    close(ctx->async_write_fd);
    pthread_mutex_destroy(&ctx->lock);
    pthread_cond_destroy(&ctx->acked);
    free(ctx->rx_buf);
    free(ctx);
}

sroce_host_ctx_t *sroce_host_lock(struct ibv_context *context)
{
    sroce_host_ctx_t *ctx = sroce_host_ctx(context);

    if (!sroce_host_is_mine(ctx)) {
        errno = EPERM;
        return NULL;
    }
    pthread_mutex_lock(&ctx->lock);
    return ctx;
}

void sroce_host_unlock(sroce_host_ctx_t *ctx)
{
    pthread_mutex_unlock(&ctx->lock);
}
