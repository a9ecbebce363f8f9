/*
 * Implements a device: its tables, and the checks that a received packet must
 * pass before a QP processes it.
 */
#include "config.h"

#include "softroce/core/core.h"
#include "softroce/core/icrc.h"

#include <errno.h>
#include <stdlib.h>

#define DEFAULT_WINDOW_PKTS 256
#define DEFAULT_PROBE_NS (2 * MRAIL_NS_PER_MS)

int sroce_dev_create(const sroce_dev_params_t *params, sroce_dev_t **dev_p)
{
    sroce_dev_t *dev;

    if ((params->qpn_base < 2) || (params->qpn_count == 0) ||
        ((uint64_t)params->qpn_base + params->qpn_count > (1u << 24)) ||
        (params->max_mtu < IBV_MTU_256) || (params->max_mtu > IBV_MTU_4096) ||
        (params->ops.cq_event == NULL) || (params->ops.async_event == NULL) ||
        (params->ops.qp_active == NULL)) {
        return EINVAL;
    }
    dev = calloc(1, sizeof(*dev));
    if (dev == NULL) {
        return ENOMEM;
    }
    dev->params = *params;
    if (params->window_pkts == 0) {
        dev->params.window_pkts = DEFAULT_WINDOW_PKTS;
    }
    if (params->probe_ns == 0) {
        dev->params.probe_ns = DEFAULT_PROBE_NS;
    }
    dev->mr_free_head = dev->mr_free_tail = SROCE_MR_NONE;
    dev->key_mask = (uint32_t)(params->key_secret >> 32);
    dev->qps = calloc(params->qpn_count, sizeof(*dev->qps));
    if (dev->qps == NULL) {
        free(dev);
        return ENOMEM;
    }
    *dev_p = dev;
    return 0;
}

void sroce_dev_destroy(sroce_dev_t *dev)
{
    for (uint32_t i = 0; (dev->num_qps != 0) && (i < dev->params.qpn_count);
         ++i) {
        if (dev->qps[i] != NULL) {
            sroce_qp_destroy(dev->qps[i]);
        }
    }
    sroce_delayed_write_place_all(dev);
    free(dev->mrs);
    free(dev->timers);
    free(dev->qps);
    free(dev);
}

const sroce_counters_t *sroce_dev_counters(const sroce_dev_t *dev)
{
    return &dev->cnt;
}

sroce_qp_t *sroce_dev_qp(const sroce_dev_t *dev, uint32_t qpn)
{
    uint32_t idx = qpn - dev->params.qpn_base;

    return (idx < dev->params.qpn_count) ? dev->qps[idx] : NULL;
}

static int rx_parse(sroce_dev_t *dev, sroce_rx_t *rx)
{
    const sroce_rxpkt_t *pkt = rx->pkt;
    uint32_t min;

    if (pkt->length < SROCE_BTH_BYTES + SROCE_ICRC_BYTES) {
        ++dev->cnt.drop_length;
        return 0;
    }
    sroce_bth_get(pkt->data, &rx->bth);
    rx->op = &sroce_ops[rx->bth.opcode];
    if (!(rx->op->flags & SROCE_OPF_VALID)) {
        ++dev->cnt.drop_opcode;
        return 0;
    }
    /* The high bit of a P_Key means full membership. It is ignored, because
     * limited members may also send. */
    if ((rx->bth.tver != 0) || ((rx->bth.pkey & 0x7fff) != 0x7fff)) {
        ++dev->cnt.drop_header;
        return 0;
    }
    min = rx->op->hdr_bytes + rx->bth.pad + SROCE_ICRC_BYTES;
    if (pkt->length < min) {
        ++dev->cnt.drop_length;
        return 0;
    }
    rx->ext = pkt->data + SROCE_BTH_BYTES;
    rx->payload = pkt->data + rx->op->hdr_bytes;
    rx->payload_bytes = pkt->length - min;
    if ((sroce_pad(rx->payload_bytes) != rx->bth.pad) ||
        ((rx->payload_bytes != 0) && !(rx->op->flags & SROCE_OPF_PAYLOAD))) {
        ++dev->cnt.drop_length;
        return 0;
    }
    return 1;
}

static int rx_icrc_ok(sroce_dev_t *dev, const sroce_rxpkt_t *pkt)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)pkt->data,
                        .iov_len = pkt->length - SROCE_ICRC_BYTES};
    const uint8_t *p = pkt->data + iov.iov_len;
    uint32_t got = (uint32_t)p[0] | ((uint32_t)p[1] << 8) |
                   ((uint32_t)p[2] << 16) | ((uint32_t)p[3] << 24);

    uint32_t dst_ip = (pkt->dst_ip != 0) ? pkt->dst_ip : dev->params.ip;

    return (pkt->flags & SROCE_RX_ANY_ID)
               ? sroce_icrc_any_id(got, pkt->src_ip, dst_ip, pkt->sport,
                                   pkt->length, &iov, 1)
               : (got == sroce_icrc(pkt->src_ip, dst_ip, pkt->sport,
                                    pkt->length, &iov, 1));
}

/* Returns 1 if a QP in this state may receive a request or a response. */
static int rx_state_ok(const sroce_qp_t *qp, int response)
{
    switch (qp->state) {
    case IBV_QPS_RTR:
        return !response;
    case IBV_QPS_RTS:
    case IBV_QPS_SQD:
        return 1;
    case IBV_QPS_SQE:
        return !response;
    default:
        return 0;
    }
}

static int rx_rc(sroce_qp_t *qp, sroce_rx_t *rx)
{
    sroce_dev_t *dev = qp->dev;

    if (rx->pkt->src_ip != qp->av.ip) {
        ++dev->cnt.drop_source;
        return 0;
    }
    if (rx->payload_bytes > (1u << qp->mtu_shift)) {
        ++dev->cnt.drop_length;
        return 0;
    }
    return (rx->op->flags & SROCE_OPF_RESPONSE) ? sroce_comp_rx(qp, rx)
                                                : sroce_resp_rx(qp, rx);
}

int sroce_dev_rx(sroce_dev_t *dev, const sroce_rxpkt_t *pkt, mrail_ns_t now_ns)
{
    sroce_rx_t rx = {.pkt = pkt, .now_ns = now_ns};
    sroce_qp_t *qp;
    int ret, is_ud;

    ++dev->cnt.rx_pkts;
    dev->cnt.rx_bytes += pkt->length;
    if (!rx_parse(dev, &rx)) {
        return 0;
    }
    qp = sroce_dev_qp(dev, rx.bth.qpn);
    if (qp == NULL) {
        ++dev->cnt.drop_qpn;
        return 0;
    }
    if (dev->params.icrc_rx && !rx_icrc_ok(dev, pkt)) {
        ++dev->cnt.drop_icrc;
        return 0;
    }
    is_ud = (rx.op->flags & SROCE_OPF_UD) != 0;
    if (is_ud != (qp->type == IBV_QPT_UD)) {
        ++dev->cnt.drop_opcode;
        return 0;
    }
    if (!rx_state_ok(qp, rx.op->flags & SROCE_OPF_RESPONSE)) {
        ++dev->cnt.drop_state;
        return 0;
    }
    ret = is_ud ? sroce_ud_rx(qp, &rx) : rx_rc(qp, &rx);
    sroce_qp_notify(qp);
    return ret;
}
