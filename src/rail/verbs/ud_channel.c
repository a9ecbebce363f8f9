/* Implements the control channel of a rail, which is a UD QP with its
 * buffers. */
#include "config.h"
#include "rail/verbs/rail.h"

#include "base/log.h"

#include <errno.h>
#include <string.h>

#define MRAIL_UD_QKEY 0x6d724c21

#define MRAIL_UD_SLOT (MRAIL_UD_GRH + MRAIL_CTL_MAX_SIZE)

/* Time without a returned send buffer after which a datagram counts as lost. */
#define MRAIL_UD_STUCK (1 * MRAIL_NS_PER_SEC)

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

int mrail_rail_ud_open(mrail_rail_t *rail)
{
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_UD,
        .cap = {.max_send_wr = MRAIL_UD_TX,
                .max_recv_wr = MRAIL_UD_RX,
                .max_send_sge = 1,
                .max_recv_sge = 1},
    };
    size_t size = (size_t)(MRAIL_UD_RX + MRAIL_UD_TX) * MRAIL_UD_SLOT;
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
    rail->ud_mr =
        mrail_rail_alloc(rail, size, MRAIL_PAGE, MRAIL_ACCESS_OWN, &buffer);
    rail->ud_buffers = buffer;
    if (rail->ud_mr == NULL) {
        return mrail_rail_explain(rail->attr.device, size, errno);
    }
    memset(buffer, 0, size);
    init.send_cq = init.recv_cq = rail->ud_cq;
    rail->ud_qp = ibv_create_qp(rail->pd, &init);
    if (rail->ud_qp == NULL) {
        return -errno;
    }
    return mrail_rail_ud_start(rail);
}

/* Polls one batch of completions. Holds datagrams for later, because their
 * answers need send buffers. Returns 0 if there are no completions. */
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

unsigned mrail_rail_ud_space(mrail_rail_t *rail)
{
    /* A datagram that counts as lost needs no buffer. */
    return mrail_rail_ud_is_full(rail)
               ? 0
               : MRAIL_MAX(MRAIL_UD_TX - rail->ud_tx_pending, 1u);
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
 * Resets a control QP that is in the error state. In this state, the QP would
 * return every posted receive immediately, in an endless loop. Some devices
 * treat a datagram longer than the buffer as a QP error, so an external host
 * may be the cause. Datagrams in flight are lost, as UD permits.
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
    mrail_debug("%s:%u: control qp 0x%x was in the error state: restart: %s",
                rail->attr.device, rail->attr.port, rail->ud_qp->qp_num,
                strerror(-ret));
}

/* Passes the oldest held datagram to `func`, unless `func` is NULL, and returns
 * its buffer to the device. Returns the number of calls of `func`. */
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
