#include "config.h"
#include "rail/rail.h"
#include "rail/discovery.h"

#include "base/log.h"
#include "base/seq.h"
#include "orchestrator/ports.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define MRAIL_UD_SLOT (MRAIL_UD_GRH + MRAIL_CTL_MAX_SIZE)
/* Limit of READs of a QP in flight in one direction. */
#define MRAIL_READS_MAX 16
/* Time without a returned send buffer after which a datagram counts as lost. */
#define MRAIL_UD_STUCK (1 * MRAIL_NS_PER_SEC)

/* A handle whose owner has released it. A device may look up the handle when it
 * sends. */
typedef struct mrail_dead_ah {
    struct mrail_dead_ah *next;
    struct ibv_ah *ah;
    uint32_t sent; /* rail->ud_tx_sent when the handle was released */
} mrail_dead_ah_t;

/* Destroys released handles whose datagrams have completed. Datagrams complete
 * in order, so comparing counts suffices. */
static void mrail_rail_free_ahs(mrail_rail_t *rail)
{
    uint32_t done = rail->ud_tx_sent - rail->ud_tx_pending;

    while ((rail->first_dead_ah != NULL) &&
           !mrail_seq32_before(done, rail->first_dead_ah->sent)) {
        mrail_dead_ah_t *dead = rail->first_dead_ah;

        rail->first_dead_ah = dead->next;
        ibv_destroy_ah(dead->ah);
        free(dead);
    }
}

void mrail_rail_destroy_ah(mrail_rail_t *rail, struct ibv_ah *ah)
{
    mrail_dead_ah_t *dead = NULL;

    if (rail->ud_tx_pending != 0) {
        dead = malloc(sizeof(*dead));
    }
    if (dead == NULL) { /* not in use, or no memory to postpone this */
        ibv_destroy_ah(ah);
        return;
    }
    *dead = (mrail_dead_ah_t){.ah = ah, .sent = rail->ud_tx_sent};
    if (rail->first_dead_ah == NULL) {
        rail->first_dead_ah = dead;
    } else {
        rail->last_dead_ah->next = dead;
    }
    rail->last_dead_ah = dead;
}

static struct ibv_context *mrail_rail_open_device(const char *name)
{
    struct ibv_device **devices;
    struct ibv_context *ctx = NULL;
    int count;

    devices = ibv_get_device_list(&count);
    if (devices == NULL) {
        return NULL;
    }
    for (int i = 0; i < count; ++i) {
        if (strcmp(ibv_get_device_name(devices[i]), name) == 0) {
            ctx = ibv_open_device(devices[i]);
            break;
        }
    }
    ibv_free_device_list(devices);
    return ctx;
}

void mrail_rail_explain(const char *device, size_t length, int error)
{
    struct rlimit limit;

    if ((error == ENOMEM) && (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) &&
        (limit.rlim_cur != RLIM_INFINITY)) {
        mrail_error("%s: cannot register %zu bytes: the locked-memory limit is "
                    "%llu kB; raise it (ulimit -l unlimited)",
                    device, length, (unsigned long long)limit.rlim_cur / 1024);
    }
}

/* Allocates page-aligned, registered memory. The caller frees both. */
static struct ibv_mr *mrail_rail_alloc(mrail_rail_t *rail, size_t length,
                                       int access, void **buffer_p)
{
    struct ibv_mr *mr;
    int error;

    if (posix_memalign(buffer_p, 4096, length) != 0) {
        *buffer_p = NULL;
        errno = ENOMEM;
        return NULL;
    }
    memset(*buffer_p, 0, length);
    mr = ibv_reg_mr(rail->pd, *buffer_p, length, access);
    if (mr == NULL) {
        error = errno;
        mrail_rail_explain(rail->attr.device, length, error);
        free(*buffer_p);
        *buffer_p = NULL;
        errno = error;
    }
    return mr;
}

static int mrail_rail_ud_post_recv(mrail_rail_t *rail, unsigned slot)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)(rail->ud_buffers + slot * MRAIL_UD_SLOT),
        .length = MRAIL_UD_SLOT,
        .lkey = rail->ud_mr->lkey,
    };
    struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad;

    return ibv_post_recv(rail->ud_qp, &wr, &bad);
}

static int mrail_rail_ud_start(mrail_rail_t *rail)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .port_num = (uint8_t)rail->attr.port,
        .qkey = MRAIL_UD_QKEY,
    };
    int ret;

    ret = ibv_modify_qp(rail->ud_qp, &attr,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                            IBV_QP_QKEY);
    for (unsigned i = 0; (ret == 0) && (i < MRAIL_UD_RX); ++i) {
        ret = mrail_rail_ud_post_recv(rail, i);
    }
    if (ret == 0) {
        attr.qp_state = IBV_QPS_RTR;
        ret = ibv_modify_qp(rail->ud_qp, &attr, IBV_QP_STATE);
    }
    if (ret == 0) {
        attr.qp_state = IBV_QPS_RTS;
        ret = ibv_modify_qp(rail->ud_qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
    }
    if (ret == 0) {
        ret = ibv_req_notify_cq(rail->ud_cq, 0);
    }
    return -ret;
}

static int mrail_rail_ud_open(mrail_rail_t *rail)
{
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_UD,
        .cap = {.max_send_wr = MRAIL_UD_TX,
                .max_recv_wr = MRAIL_UD_RX,
                .max_send_sge = 1,
                .max_recv_sge = 1},
    };
    void *buffer;

    rail->ud_channel = ibv_create_comp_channel(rail->ctx);
    if (rail->ud_channel == NULL) {
        return -errno;
    }
    rail->ud_cq = ibv_create_cq(rail->ctx, MRAIL_UD_RX + MRAIL_UD_TX, rail,
                                rail->ud_channel, 0);
    if (rail->ud_cq == NULL) {
        return -errno;
    }
    rail->ud_mr = mrail_rail_alloc(
        rail, (size_t)(MRAIL_UD_RX + MRAIL_UD_TX) * MRAIL_UD_SLOT,
        IBV_ACCESS_LOCAL_WRITE, &buffer);
    rail->ud_buffers = buffer;
    if (rail->ud_mr == NULL) {
        return -errno;
    }
    init.send_cq = init.recv_cq = rail->ud_cq;
    rail->ud_qp = ibv_create_qp(rail->pd, &init);
    if (rail->ud_qp == NULL) {
        return -errno;
    }
    return mrail_rail_ud_start(rail);
}

static int mrail_rail_open_shared(mrail_rail_t *rail,
                                  const mrail_config_t *config)
{
    struct ibv_srq_init_attr srq_init = {.attr = {.max_sge = 1}};
    int cq_depth = (int)config->rx_queue_len * MRAIL_CQ_PER_RX;
    struct ibv_device_attr attr;
    void *page;

    if (ibv_query_device(rail->ctx, &attr) != 0) {
        return -EIO;
    }
    rail->max_rd_atomic =
        (unsigned)MRAIL_MIN(MRAIL_READS_MAX, attr.max_qp_init_rd_atom);
    rail->max_dest_rd_atomic =
        (unsigned)MRAIL_MIN(MRAIL_READS_MAX, attr.max_qp_rd_atom);
    rail->pd = ibv_alloc_pd(rail->ctx);
    if (rail->pd == NULL) {
        return -errno;
    }
    rail->channel = ibv_create_comp_channel(rail->ctx);
    if (rail->channel == NULL) {
        return -errno;
    }
    rail->cq = ibv_create_cq(rail->ctx, MRAIL_MIN(cq_depth, attr.max_cqe), rail,
                             rail->channel, 0);
    if (rail->cq == NULL) {
        return -errno;
    }
    srq_init.attr.max_wr =
        (uint32_t)MRAIL_MIN((int)config->rx_queue_len, attr.max_srq_wr);
    rail->srq = ibv_create_srq(rail->pd, &srq_init);
    if (rail->srq == NULL) {
        return -errno;
    }
    rail->srq_depth = srq_init.attr.max_wr; /* may be more than requested */
    /* The CQ must hold every receive. Half of the remaining entries are for
     * chunks, and the other half is for markers and flushed sends. */
    rail->max_chunks = MRAIL_CHUNKS_MIN;
    if ((unsigned)rail->cq->cqe > rail->srq_depth) {
        rail->max_chunks = MRAIL_MAX(
            ((unsigned)rail->cq->cqe - rail->srq_depth) / 2, rail->max_chunks);
    }
    rail->flush_mr = mrail_rail_alloc(
        rail, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, &page);
    rail->flush_page = page;
    return (rail->flush_mr == NULL) ? -errno : 0;
}

/* Finds the largest inline size that the device accepts, up to the size
 * needed. */
static int mrail_rail_probe_inline(mrail_rail_t *rail,
                                   const mrail_config_t *config)
{
    static const unsigned sizes[] = {256, 220, 128, 96, 64, 32};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(sizes); ++i) {
        struct ibv_qp_init_attr init = {
            .qp_type = IBV_QPT_RC,
            .send_cq = rail->cq,
            .recv_cq = rail->cq,
            .srq = rail->srq,
            .cap = {.max_send_wr = config->tx_queue_len,
                    .max_send_sge = MRAIL_MAX_IOV,
                    .max_inline_data = sizes[i]},
        };
        struct ibv_qp *qp = ibv_create_qp(rail->pd, &init);

        if (qp != NULL) {
            ibv_destroy_qp(qp);
            rail->attr.max_inline = sizes[i];
            return 0;
        }
    }
    mrail_error("%s: cannot create an RC QP with %u send entries, %u "
                "scatter-gather entries and inline data: %s",
                rail->attr.device, config->tx_queue_len, 1 + MRAIL_MAX_IOV,
                strerror(errno));
    return -EOPNOTSUPP;
}

int mrail_rail_open(mrail_rail_t *rail, unsigned index,
                    const mrail_rail_attr_t *attr, const mrail_config_t *config)
{
    int ret;

    memset(rail, 0, sizeof(*rail));
    rail->index = index;
    rail->attr = *attr;
    rail->speed_bps = attr->speed_bps;
    rail->mtu = IBV_MTU_256;
    while ((128u << (rail->mtu + 1)) <= attr->mtu) {
        ++rail->mtu;
    }
    rail->ctx = mrail_rail_open_device(attr->device);
    if (rail->ctx == NULL) {
        mrail_error("%s: cannot open the device: %s", attr->device,
                    strerror(errno));
        return -EIO;
    }
    ret = mrail_rail_open_shared(rail, config);
    if (ret == 0) {
        ret = mrail_rail_probe_inline(rail, config);
    }
    if (ret == 0) {
        ret = mrail_rail_ud_open(rail);
    }
    if (ret != 0) {
        mrail_error("%s:%u: cannot set up the rail: %s", attr->device,
                    attr->port, strerror(-ret));
        mrail_rail_close(rail);
    }
    return ret;
}

int mrail_rail_fetch(mrail_rail_t *rail)
{
    if ((rail->next_wc == rail->num_wc) &&
        MRAIL_UNLIKELY(mrail_rail_poll(rail) < 0)) {
        __atomic_store_n(&rail->cq_failed, 1, __ATOMIC_RELAXED);
    }
    return rail->next_wc != rail->num_wc;
}

static int mrail_rail_passed(const mrail_rail_t *rail,
                             const mrail_cq_mark_t *mark)
{
    return (rail->num_emptied != mark->num_emptied) ||
           (rail->num_polled - mark->num_polled >= (uint64_t)rail->cq->cqe);
}

int mrail_rail_is_drained(mrail_rail_t *rail, mrail_cq_mark_t *mark)
{
    if (!mark->is_set) {
        *mark = (mrail_cq_mark_t){.is_set = 1,
                                  .num_polled = rail->num_polled,
                                  .num_emptied = rail->num_emptied};
    }
    if (!mrail_rail_passed(rail, mark)) {
        (void)mrail_rail_fetch(rail);
    }
    return (rail->next_wc == rail->num_wc) && mrail_rail_passed(rail, mark);
}

static void mrail_rail_free_mr(struct ibv_mr *mr, void *buffer)
{
    if (mr != NULL) {
        ibv_dereg_mr(mr);
    }
    free(buffer);
}

void mrail_rail_free_buffers(mrail_rail_t *rail)
{
    mrail_rx_chunk_t *chunk;

    while ((chunk = rail->chunks) != NULL) {
        rail->chunks = chunk->next;
        ibv_dereg_mr(chunk->mr);
        free(chunk->base);
        free(chunk);
    }
}

void mrail_rail_close(mrail_rail_t *rail)
{
    if (rail->ud_qp != NULL) {
        ibv_destroy_qp(rail->ud_qp);
    }
    rail->ud_tx_pending = 0;
    mrail_rail_free_ahs(rail);
    mrail_rail_free_mr(rail->ud_mr, rail->ud_buffers);
    if (rail->ud_cq != NULL) {
        ibv_destroy_cq(rail->ud_cq);
    }
    if (rail->ud_channel != NULL) {
        ibv_destroy_comp_channel(rail->ud_channel);
    }
    mrail_rail_free_mr(rail->flush_mr, rail->flush_page);
    if (rail->srq != NULL) {
        ibv_destroy_srq(rail->srq);
    }
    if (rail->cq != NULL) {
        ibv_destroy_cq(rail->cq);
    }
    if (rail->channel != NULL) {
        ibv_destroy_comp_channel(rail->channel);
    }
    if (rail->pd != NULL) {
        ibv_dealloc_pd(rail->pd);
    }
    if (rail->ctx != NULL) {
        ibv_close_device(rail->ctx);
    }
    memset(rail, 0, sizeof(*rail));
}

void mrail_rail_describe(const mrail_rail_t *rail, mrail_wire_rail_t *wire)
{
    memcpy(wire->gid, rail->attr.gid, sizeof(wire->gid));
    wire->subnet = rail->attr.subnet;
    wire->flush_addr = (uintptr_t)rail->flush_page;
    wire->flush_rkey = rail->flush_mr->rkey;
    wire->ud_qpn = rail->ud_qp->qp_num;
    wire->rate_mbps = (uint32_t)(rail->attr.rate_bps / 1000000);
    wire->nic_index = rail->attr.nic_index;
    wire->mtu = (uint8_t)rail->mtu;
}

void mrail_rail_query_speed(mrail_rail_t *rail)
{
    uint64_t speed_bps = mrail_discovery_speed(rail->ctx, rail->attr.port);

    if (speed_bps != 0) {
        rail->speed_bps = speed_bps;
    }
}

int mrail_rail_is_up(const mrail_rail_t *rail)
{
    struct ibv_port_attr port;

    return (ibv_query_port(rail->ctx, (uint8_t)rail->attr.port, &port) == 0) &&
           (port.state == IBV_PORT_ACTIVE);
}

int mrail_rail_find_gid(mrail_rail_t *rail)
{
    struct ibv_port_attr port;
    int index;

    if (ibv_query_port(rail->ctx, (uint8_t)rail->attr.port, &port) != 0) {
        return 0;
    }
    index = mrail_discovery_find_gid(rail->ctx, rail->attr.port,
                                     port.gid_tbl_len, rail->attr.gid);
    if ((index < 0) || (index == rail->attr.gid_index)) {
        return 0; /* the event may be on its way */
    }
    mrail_debug("%s:%u: the GID has moved from index %d to %d",
                rail->attr.device, rail->attr.port, rail->attr.gid_index,
                index);
    rail->attr.gid_index = index;
    return 1;
}

void mrail_rail_fill_ah(const mrail_rail_t *rail, const mrail_config_t *config,
                        const uint8_t gid[16], uint32_t flow_label,
                        struct ibv_ah_attr *ah)
{
    memset(ah, 0, sizeof(*ah));
    ah->is_global = 1;
    ah->port_num = (uint8_t)rail->attr.port;
    ah->sl = (uint8_t)config->sl;
    ah->grh.sgid_index = (uint8_t)rail->attr.gid_index;
    ah->grh.hop_limit = 64;
    ah->grh.traffic_class = (uint8_t)config->traffic_class;
    ah->grh.flow_label = flow_label;
    memcpy(ah->grh.dgid.raw, gid, 16);
}

struct ibv_ah *mrail_rail_create_ah(mrail_rail_t *rail,
                                    const mrail_config_t *config,
                                    const uint8_t gid[16], uint16_t sport)
{
    struct ibv_ah_attr attr;

    if (sport == 0) {
        sport = mrail_ports_lane_nested(mrail_config_uplinks(config),
                                        config->spine_uplinks,
                                        rail->attr.nic_index, 1, 0);
    }
    mrail_rail_fill_ah(rail, config, gid, mrail_ports_flow_label(sport), &attr);
    return ibv_create_ah(rail->pd, &attr);
}

/* Polls one batch of completions. Keeps datagrams, because their answers need
 * send buffers. Returns 0 if there are no completions. */
static int mrail_rail_ud_fetch(mrail_rail_t *rail)
{
    struct ibv_wc wc[MRAIL_UD_BATCH];
    int n;

    if (rail->ud_num_held > MRAIL_UD_RX) {
        return 0; /* the device has no receive buffers left */
    }
    n = ibv_poll_cq(rail->ud_cq, MRAIL_UD_BATCH, wc);
    if (MRAIL_UNLIKELY(n < 0)) {
        __atomic_store_n(&rail->cq_failed, 1, __ATOMIC_RELAXED);
    }
    for (int i = 0; i < n; ++i) {
        unsigned slot = (unsigned)wc[i].wr_id;

        rail->ud_failed |= (wc[i].status != IBV_WC_SUCCESS);
        if (slot >= MRAIL_UD_RX) {
            --rail->ud_tx_pending;
            rail->ud_full_ns = 0;
            mrail_rail_free_ahs(rail);
        } else if (wc[i].status == IBV_WC_SUCCESS) {
            unsigned last = (rail->ud_held_first + rail->ud_num_held++) %
                            MRAIL_ARRAY_SIZE(rail->ud_held);

            rail->ud_held[last] = (mrail_ud_recv_t){slot, wc[i].byte_len};
        }
    }
    return n > 0;
}

/* Returns 1 if no send buffer is free and the device may still return one. */
static int mrail_rail_ud_is_full(mrail_rail_t *rail)
{
    mrail_ns_t now_ns;

    while ((rail->ud_tx_pending == MRAIL_UD_TX) && mrail_rail_ud_fetch(rail)) {
    }
    if (rail->ud_tx_pending < MRAIL_UD_TX) {
        return 0;
    }
    now_ns = mrail_clock_now();
    if (rail->ud_full_ns == 0) {
        rail->ud_full_ns = now_ns;
    }
    return !rail->fatal && (now_ns < rail->ud_full_ns + MRAIL_UD_STUCK);
}

int mrail_rail_ud_send(mrail_rail_t *rail, struct ibv_ah *ah, uint32_t qpn,
                       const void *data, size_t length)
{
    unsigned slot = MRAIL_UD_RX + rail->ud_tx_next;
    uint8_t *buffer = rail->ud_buffers + (size_t)slot * MRAIL_UD_SLOT;
    struct ibv_sge sge = {.addr = (uintptr_t)buffer,
                          .length = (uint32_t)length,
                          .lkey = rail->ud_mr->lkey};
    struct ibv_send_wr wr = {
        .wr_id = slot,
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = MRAIL_UD_QKEY},
    };
    struct ibv_send_wr *bad;
    int ret;

    if (mrail_rail_ud_is_full(rail)) {
        return -EAGAIN;
    }
    /* Completions arrive in order, so the slots also become free in order, and
     * the next slot is free unless all are in use. */
    if (rail->ud_tx_pending == MRAIL_UD_TX) {
        return -EIO;
    }
    memcpy(buffer, data, length);
    ret = ibv_post_send(rail->ud_qp, &wr, &bad);
    if (ret == 0) {
        rail->ud_tx_next = (rail->ud_tx_next + 1) % MRAIL_UD_TX;
        ++rail->ud_tx_pending;
        ++rail->ud_tx_sent;
    }
    return -ret;
}

/*
 * Resets a control QP that is in the error state. In this state it returns
 * every receive at once, so posting again would loop forever. Some devices
 * treat a datagram longer than the buffer as an error of the QP, so an external
 * host may be the cause. Datagrams in transit are lost, as UD permits.
 */
static void mrail_rail_ud_restart(mrail_rail_t *rail)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    struct ibv_wc wc;
    int ret;

    ret = -ibv_modify_qp(rail->ud_qp, &attr, IBV_QP_STATE);
    while (ibv_poll_cq(rail->ud_cq, 1, &wc) > 0) {
    }
    rail->ud_tx_pending = rail->ud_tx_next = 0;
    rail->ud_num_held = 0;
    rail->ud_full_ns = 0;
    rail->ud_failed = 0;
    mrail_rail_free_ahs(rail);
    if (ret == 0) {
        ret = mrail_rail_ud_start(rail);
    }
    mrail_debug("%s:%u: control qp 0x%x was in error: restart: %s",
                rail->attr.device, rail->attr.port, rail->ud_qp->qp_num,
                strerror(-ret));
}

/* Passes the oldest kept datagram to `func`, unless it is NULL, and its buffer
 * to the device. Returns the number of calls. */
static unsigned mrail_rail_ud_take(mrail_rail_t *rail, mrail_ud_func_t func,
                                   void *arg)
{
    mrail_ud_recv_t recv = rail->ud_held[rail->ud_held_first];
    unsigned count = (func != NULL) && (recv.length > MRAIL_UD_GRH);

    rail->ud_held_first =
        (rail->ud_held_first + 1) % MRAIL_ARRAY_SIZE(rail->ud_held);
    --rail->ud_num_held;
    if (count != 0) {
        func(arg, rail,
             rail->ud_buffers + (size_t)recv.slot * MRAIL_UD_SLOT +
                 MRAIL_UD_GRH,
             recv.length - MRAIL_UD_GRH);
    }
    mrail_rail_ud_post_recv(rail, recv.slot);
    return count;
}

unsigned mrail_rail_ud_poll(mrail_rail_t *rail, mrail_ud_func_t func, void *arg)
{
    unsigned count = 0;

    rail->ud_pause = 0;
    while ((func == NULL) || ((count < MRAIL_UD_RECV_MAX) && !rail->ud_pause &&
                              !mrail_rail_ud_is_full(rail))) {
        if (rail->ud_num_held != 0) {
            count += mrail_rail_ud_take(rail, func, arg);
        } else if (!mrail_rail_ud_fetch(rail)) {
            break;
        }
    }
    if (MRAIL_UNLIKELY(rail->ud_failed) && (func != NULL)) {
        mrail_rail_ud_restart(rail);
    }
    return count;
}

void mrail_rail_ud_reap(mrail_rail_t *rail)
{
    mrail_rail_ud_poll(rail, NULL, NULL);
}
