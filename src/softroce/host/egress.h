/*
 * The egress of a device, behind the rate and credit checks of tx.c. It applies
 * the port state and faults such as loss and delay. The caller holds ctx->lock.
 *
 * Without faults, this costs a test of one word at each end. With faults,
 * packets are copied, because that path is for tests, not for speed.
 */
#ifndef MRAIL_SROCE_EGRESS_H
#define MRAIL_SROCE_EGRESS_H

#include "softroce/host/host.h"

/* The data to send: a run from the core, or a batch. */
typedef struct sroce_egress_load {
    uint32_t dst_ip;
    int dest_dev;
    unsigned dest_slot;
    uint16_t sport;
    uint8_t tos;
    uint16_t num_pkts;
    uint16_t seg_bytes;
    uint32_t length;
    const struct iovec *iov;
    unsigned iov_count;
} sroce_egress_load_t;

static inline int sroce_egress_dest_is_alive(int dest_dev, unsigned dest_slot)
{
    return sroce_host_session_dev(dest_dev)->slots[dest_slot].state ==
           SROCE_SLOT_LIVE;
}

/* Sends packets, unless a fault intervenes. The caller has reserved credit for
 * them; packets to external hosts need none. */
void sroce_egress_send(sroce_host_ctx_t *ctx, const sroce_egress_load_t *load,
                       int has_credit, mrail_ns_t now_ns);
void sroce_egress_drop(sroce_host_ctx_t *ctx, const sroce_egress_load_t *load,
                       sroce_counter_t reason, int has_credit);
/* Copies the packets. Returns NULL if memory runs out. */
sroce_host_batch_t *sroce_egress_batch_create(const sroce_egress_load_t *load);
/* Sends the batch if credit for all of it is available. Returns 0 if the caller
 * must retry later. The caller keeps ownership of the batch in either case. */
int sroce_egress_batch_send(sroce_host_ctx_t *ctx, sroce_host_batch_t *batch,
                            mrail_ns_t now_ns);
/* Sends the packets in the delay line that are due. */
void sroce_egress_delayed(sroce_host_ctx_t *ctx, mrail_ns_t now_ns);
/* Sends everything in the delay line before the device closes. */
void sroce_egress_finish(sroce_host_ctx_t *ctx);

#endif
