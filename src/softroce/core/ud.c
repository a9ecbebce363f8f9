/*
 * Handles received datagrams: the Q_Key check, the 40-byte GRH area, the
 * receive WQE.
 *
 * A datagram that is too long for its receive buffer is dropped and counted,
 * and the buffer stays posted. Otherwise, an external host could stop a UD QP.
 * Source: IBA 9.6.1.4 (Q_Key), 11.4.2.1; annex A17.4.5.2 (IPv4 header in the
 * last 20 bytes of the GRH area).
 */
#include "config.h"

#include "softroce/core/core.h"

/* Fills the GRH area with the known IPv4 fields: version, TOS, length,
 * protocol, addresses. */
static void ud_grh(const sroce_qp_t *qp, const sroce_rx_t *rx, uint8_t *grh)
{
    uint32_t dst =
        (rx->pkt->dst_ip != 0) ? rx->pkt->dst_ip : qp->dev->params.ip;
    uint32_t total = rx->pkt->length + 28;
    uint8_t *ip = grh + SROCE_GRH_BYTES - 20;

    memset(grh, 0, SROCE_GRH_BYTES);
    ip[0] = 0x45;
    ip[1] = rx->pkt->tos;
    ip[2] = (uint8_t)(total >> 8);
    ip[3] = (uint8_t)total;
    ip[6] = 0x40; /* DF */
    ip[8] = 64;
    ip[9] = 17;
    memcpy(ip + 12, &rx->pkt->src_ip, 4);
    memcpy(ip + 16, &dst, 4);
}

/* Writes the length of the next receive buffer to *length_p. Returns 0 if the
 * queue is empty. */
static int ud_peek_length(const sroce_qp_t *qp, uint32_t *length_p)
{
    const sroce_rq_t *rq = (qp->srq != NULL) ? &qp->srq->rq : &qp->rq;
    const sroce_rwqe_t *wqe;

    if (rq->head == rq->tail) {
        return 0;
    }
    wqe =
        (const sroce_rwqe_t *)(rq->ring + (size_t)(rq->tail & (rq->size - 1)) *
                                              rq->stride);
    *length_p = wqe->length;
    return 1;
}

int sroce_ud_rx(sroce_qp_t *qp, sroce_rx_t *rx)
{
    sroce_counters_t *cnt = &qp->dev->cnt;
    uint32_t buffer_bytes, byte_len = SROCE_GRH_BYTES + rx->payload_bytes;
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    uint8_t grh[SROCE_GRH_BYTES];

    if (sroce_get32(rx->ext) != qp->attr.qkey) {
        ++cnt->drop_qkey;
        return 0;
    }
    if (rx->payload_bytes > sroce_mtu_bytes(qp->dev->params.max_mtu)) {
        ++cnt->drop_length;
        return 0;
    }
    if (!ud_peek_length(qp, &buffer_bytes)) {
        ++cnt->drop_no_wqe;
        return 0;
    }
    if (byte_len > buffer_bytes) {
        ++cnt->drop_too_long;
        return 0;
    }
    sroce_resp_take_wqe(qp);
    ud_grh(qp, rx, grh);
    if ((sroce_resp_scatter(qp, grh, sizeof(grh)) != 0) ||
        (sroce_resp_scatter(qp, rx->payload, rx->payload_bytes) != 0)) {
        status = IBV_WC_LOC_PROT_ERR;
    }
    sroce_resp_recv_done(qp, rx, IBV_WC_RECV, status, byte_len);
    if (status != IBV_WC_SUCCESS) {
        sroce_qp_error(qp);
        return 0;
    }
    return 1;
}
