#include "config.h"
#include "rail/verbs/rail.h"

#include "base/log.h"
#include "rail/params.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MRAIL_CQ_PER_RX                                                        \
    2 /* entries of the CQ for each entry of the SRQ; half of them are for
       * signalled sends */

/* A CQ does not grow beyond this number of entries, 8 MiB on mlx5. Even with
 * thousands of lanes, so many requests are never in flight at the same time,
 * because credits and windows limit those of each lane. */
#define MRAIL_CQ_MAX (1u << 17)

#define MRAIL_CHUNKS_MIN 64 /* minimum limit of posted chunks on a rail */

/* Maximum number of READs of a QP in flight in one direction. */
#define MRAIL_READS_MAX 16

struct ibv_context *mrail_rail_open_device(const char *name)
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
    rail->max_cqe = MRAIL_MIN((unsigned)attr.max_cqe, MRAIL_CQ_MAX);
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
    rail->cq_depth = (unsigned)rail->cq->cqe;
    srq_init.attr.max_wr =
        (uint32_t)MRAIL_MIN((int)config->rx_queue_len, attr.max_srq_wr);
    rail->srq = ibv_create_srq(rail->pd, &srq_init);
    if (rail->srq == NULL) {
        return -errno;
    }
    rail->srq_depth = srq_init.attr.max_wr; /* may be more than requested */
    /* The CQ grows with the send queues; see mrail_rail_grow_cq(). If the device
     * cannot resize it, half of the entries beyond the receives are for chunks,
     * and the other half is for markers and flushed sends. */
    rail->max_chunks = MRAIL_CHUNKS_MIN;
    if (rail->cq_depth > rail->srq_depth) {
        rail->max_chunks =
            MRAIL_MAX((rail->cq_depth - rail->srq_depth) / 2, rail->max_chunks);
    }
    rail->flush_mr = mrail_rail_alloc(rail, MRAIL_PAGE, MRAIL_PAGE,
                                      MRAIL_ACCESS_READ, &page);
    rail->flush_page = page;
    if (rail->flush_mr == NULL) {
        return mrail_rail_explain(rail->attr.device, MRAIL_PAGE, errno);
    }
    memset(page, 0, MRAIL_PAGE);
    return 0;
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
    mrail_list_init(&rail->lanes);
    mrail_list_init(&rail->affected);
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

void mrail_rail_grow_cq(mrail_rail_t *rail, unsigned depth)
{
    unsigned needed = rail->srq_depth + rail->sq_entries + depth;
    unsigned before = rail->cq_depth;
    unsigned size = MRAIL_MIN(MRAIL_MAX(needed, 2 * before), rail->max_cqe);
    int ret = 0;

    if ((needed <= before) || rail->cq_limited) {
        return;
    }
    if (size > before) {
        /* Earlier than the CQ, because mrail_rail_is_drained() must not
         * underestimate it. */
        __atomic_store_n(&rail->cq_depth, size, __ATOMIC_RELAXED);
        ret = ibv_resize_cq(rail->cq, (int)size);
    }
    if ((ret != 0) || (size < needed)) {
        rail->cq_limited = 1;
        mrail_debug("%s: the completion queue has %d entries, although %u "
                    "completions are possible%s%s",
                    rail->attr.device, rail->cq->cqe, needed,
                    (ret != 0) ? ": " : "", (ret != 0) ? strerror(ret) : "");
    }
}

static int mrail_rail_passed(const mrail_rail_t *rail,
                             const mrail_cq_mark_t *mark)
{
    return (rail->num_emptied != mark->num_emptied) ||
           (rail->num_polled - mark->num_polled >=
            __atomic_load_n(&rail->cq_depth, __ATOMIC_RELAXED));
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

void mrail_rail_destroy_srq(mrail_rail_t *rail)
{
    ibv_destroy_srq(rail->srq);
    rail->srq = NULL;
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
        return 0; /* a GID change event may follow */
    }
    mrail_debug("%s:%u: the GID has moved from index %d to %d",
                rail->attr.device, rail->attr.port, rail->attr.gid_index,
                index);
    rail->attr.gid_index = index;
    return 1;
}

/* Copy-on-write after fork() must not replace pages that a device accesses.
 * Kernels before 5.12 need this call before any registration, and the
 * environment variable if huge pages are registered. Later kernels need
 * neither. Source: ibv_fork_init(3). */
void mrail_rail_allow_fork(void)
{
    int ret;

    (void)setenv("RDMAV_HUGEPAGES_SAFE", "1", 0);
    ret = ibv_fork_init();
    if (ret != 0) {
        mrail_debug("fork() is not safe in this process: %s", strerror(ret));
    }
}

const char *mrail_rail_status_text(enum ibv_wc_status status)
{
    return ibv_wc_status_str(status);
}
