#include "config.h"
#include "softroce/host/egress.h"

#include "softroce/core/pkt.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EGRESS_DELAY_MAX_BYTES (64u << 20)
/* Maximum time that a closing device waits for the packets in the delay line.
 * The remaining packets leave early. */
#define EGRESS_FINISH_NS (100 * MRAIL_NS_PER_MS)
#define EGRESS_FLIPS 4 /* maximum number of flipped bits in a packet */

/* The faults that apply to a packet, from both ends of its path. */
typedef struct egress_faults {
    uint32_t bits; /* SROCE_RAIL_* */
    uint32_t loss_ppm;
    uint32_t delay_us;
    uint32_t dup_ppm;
    uint32_t reorder_ppm;
    uint32_t reorder_us;
    uint32_t corrupt_ppm;
} egress_faults_t;

void sroce_egress_drop(sroce_host_ctx_t *ctx, const sroce_egress_load_t *load,
                       sroce_counter_t reason, int has_credit)
{
    sroce_host_count(ctx, reason, load->num_pkts);
    if (has_credit) {
        sroce_credit_return(load->dest_dev, load->dest_slot,
                            sroce_host_credit(load->length, load->num_pkts));
        sroce_credit_commit(ctx);
    }
}

/* Sends packets with the credit that the caller has reserved. Packets to
 * external hosts need no credit. */
static void egress_transmit(sroce_host_ctx_t *ctx,
                            const sroce_egress_load_t *load, int has_credit)
{
    if (sroce_net_send(ctx, load->dst_ip, load->sport, load->tos,
                       load->seg_bytes, load->num_pkts, load->iov,
                       load->iov_count) != 0) {
        sroce_egress_drop(ctx, load, SROCE_CNT_DROP_SEND, has_credit);
        return;
    }
    if (has_credit) {
        sroce_credit_commit(ctx);
    }
    sroce_host_count(ctx, SROCE_CNT_TX_PACKETS, load->num_pkts);
    sroce_host_count(ctx, SROCE_CNT_TX_BYTES, load->length);
}

sroce_host_batch_t *sroce_egress_batch_create(const sroce_egress_load_t *load)
{
    sroce_host_batch_t *batch = malloc(sizeof(*batch) + load->length);
    uint8_t *p;

    if (batch == NULL) {
        return NULL;
    }
    mrail_list_init(&batch->list);
    batch->due_ns = 0;
    batch->dst_ip = load->dst_ip;
    batch->dest_dev = load->dest_dev;
    batch->dest_slot = load->dest_slot;
    batch->sport = load->sport;
    batch->tos = load->tos;
    batch->num_pkts = load->num_pkts;
    batch->seg_bytes = load->seg_bytes;
    batch->length = load->length;
    p = batch->data;
    for (unsigned i = 0; i < load->iov_count; ++i) {
        memcpy(p, load->iov[i].iov_base, load->iov[i].iov_len);
        p += load->iov[i].iov_len;
    }
    return batch;
}

static void egress_batch_load(const sroce_host_batch_t *batch,
                              struct iovec *iov, sroce_egress_load_t *load)
{
    iov->iov_base = (void *)batch->data;
    iov->iov_len = batch->length;
    *load = (sroce_egress_load_t){.dst_ip = batch->dst_ip,
                                  .dest_dev = batch->dest_dev,
                                  .dest_slot = batch->dest_slot,
                                  .sport = batch->sport,
                                  .tos = batch->tos,
                                  .num_pkts = batch->num_pkts,
                                  .seg_bytes = batch->seg_bytes,
                                  .length = batch->length,
                                  .iov = iov,
                                  .iov_count = 1};
}

/* Applies random faults to a packet. Returns 0 if the packet is lost. */
static int egress_packet(sroce_host_ctx_t *ctx, const egress_faults_t *f,
                         uint8_t *data, uint32_t length)
{
    if ((f->bits & SROCE_RAIL_DROP_ACKS) &&
        (sroce_ops[data[0]].flags & SROCE_OPF_RESPONSE)) {
        sroce_host_count(ctx, SROCE_CNT_DROP_ACKS, 1);
        return 0;
    }
    if (mrail_rng_hit(&ctx->rng, f->loss_ppm)) {
        sroce_host_count(ctx, SROCE_CNT_DROP_LOSS, 1);
        return 0;
    }
    if (mrail_rng_hit(&ctx->rng, f->corrupt_ppm)) {
        uint32_t flips = 1 + mrail_rng_below(&ctx->rng, EGRESS_FLIPS);

        sroce_host_count(ctx, SROCE_CNT_FAULT_CORRUPT, 1);
        while (flips-- > 0) {
            /* Corruption spares the BTH, which names the destination. */
            uint32_t bit =
                8 * SROCE_BTH_BYTES +
                mrail_rng_below(&ctx->rng, 8 * (length - SROCE_BTH_BYTES));

            data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        }
    }
    return 1;
}

/* Applies faults to the packets of a batch. Those that remain keep their
 * order. */
static void egress_batch_filter(sroce_host_ctx_t *ctx,
                                sroce_host_batch_t *batch,
                                const egress_faults_t *f)
{
    uint32_t kept = 0;
    uint16_t num = 0;

    for (uint32_t pos = 0; pos < batch->length; pos += batch->seg_bytes) {
        uint32_t length = MRAIL_MIN(batch->seg_bytes, batch->length - pos);

        if (!egress_packet(ctx, f, batch->data + pos, length)) {
            continue;
        }
        memmove(batch->data + kept, batch->data + pos, length);
        kept += length;
        ++num;
    }
    batch->length = kept;
    batch->num_pkts = num;
}

static void egress_delay_add(sroce_host_ctx_t *ctx, sroce_host_batch_t *batch)
{
    mrail_list_t *pos = &ctx->delayed;

    /* The position is nearly always the end. It is earlier only if the delay
     * has been reduced or there are several destinations. */
    while ((pos->prev != &ctx->delayed) &&
           (mrail_list_entry(pos->prev, sroce_host_batch_t, list)->due_ns >
            batch->due_ns)) {
        pos = pos->prev;
    }
    mrail_list_insert_before(pos, &batch->list);
    ctx->delayed_bytes += batch->length;
}

/* Splits a batch whose packets may be duplicated or delayed into one batch per
 * packet. All batches go through the delay line, which preserves the order of
 * the other packets. */
static void egress_scatter(sroce_host_ctx_t *ctx,
                           const sroce_egress_load_t *rest,
                           const egress_faults_t *f, mrail_ns_t due_ns)
{
    const uint8_t *data = rest->iov[0].iov_base;

    for (uint32_t pos = 0; pos < rest->length; pos += rest->seg_bytes) {
        struct iovec iov = {(void *)(uintptr_t)(data + pos),
                            MRAIL_MIN(rest->seg_bytes, rest->length - pos)};
        unsigned copies = 1;

        if (mrail_rng_hit(&ctx->rng, f->dup_ppm)) {
            sroce_host_count(ctx, SROCE_CNT_FAULT_DUP, 1);
            ++copies;
        }
        while (copies-- > 0) {
            sroce_egress_load_t one = *rest;
            sroce_host_batch_t *batch;

            one.num_pkts = 1;
            one.length = (uint32_t)iov.iov_len;
            one.seg_bytes = (uint16_t)iov.iov_len;
            one.iov = &iov;
            batch = sroce_egress_batch_create(&one);
            if (batch == NULL) {
                sroce_host_count(ctx, SROCE_CNT_DROP_DELAY, 1);
                continue;
            }
            batch->due_ns = due_ns;
            if (mrail_rng_hit(&ctx->rng, f->reorder_ppm)) {
                sroce_host_count(ctx, SROCE_CNT_FAULT_REORDER, 1);
                batch->due_ns +=
                    (1 + mrail_rng_below(&ctx->rng, f->reorder_us)) *
                    MRAIL_NS_PER_US;
            }
            egress_delay_add(ctx, batch);
        }
    }
}

static void egress_apply_faults(sroce_host_ctx_t *ctx,
                                const sroce_egress_load_t *load,
                                const egress_faults_t *f, int has_credit,
                                mrail_ns_t now_ns)
{
    int per_packet = (f->dup_ppm | f->reorder_ppm) != 0;
    int waits = per_packet || (f->delay_us != 0);
    sroce_host_batch_t *batch = sroce_egress_batch_create(load);
    mrail_ns_t due_ns = now_ns + f->delay_us * MRAIL_NS_PER_US;
    sroce_egress_load_t rest;
    struct iovec iov;
    int64_t lost;

    if ((batch == NULL) ||
        (ctx->delayed_bytes + load->length > EGRESS_DELAY_MAX_BYTES)) {
        sroce_egress_drop(ctx, load, SROCE_CNT_DROP_DELAY, has_credit);
        free(batch);
        return;
    }
    egress_batch_filter(ctx, batch, f);
    egress_batch_load(batch, &iov, &rest);
    /* A batch returns its credit when it enters the delay line, and reserves
     * credit again when it leaves. Otherwise a long delay would tie up the
     * receiver's whole buffer. */
    lost = sroce_host_credit(load->length, load->num_pkts);
    if (!waits && (rest.num_pkts != 0)) {
        lost -= sroce_host_credit(rest.length, rest.num_pkts);
    }
    if (has_credit) {
        sroce_credit_return(load->dest_dev, load->dest_slot, lost);
    }
    if (!waits && (rest.num_pkts != 0)) {
        egress_transmit(ctx, &rest, has_credit);
    } else if (has_credit) {
        sroce_credit_commit(ctx);
    }
    if (waits && !per_packet && (rest.num_pkts != 0)) {
        batch->due_ns = due_ns;
        egress_delay_add(ctx, batch);
        return;
    }
    if (per_packet) {
        egress_scatter(ctx, &rest, f, due_ns);
    }
    free(batch);
    if (per_packet) {
        sroce_egress_delayed(ctx, now_ns);
    }
}

/* Adds the faults at one end of the path. */
static void egress_gather(egress_faults_t *f, const sroce_session_dev_t *dev,
                          uint32_t mask)
{
    uint32_t bits = dev->faults & mask;

    f->bits |= bits;
    f->loss_ppm += dev->loss_ppm;
    f->delay_us += dev->delay_us;
    f->dup_ppm += (bits & SROCE_RAIL_DUPLICATE) ? dev->dup_ppm : 0;
    f->corrupt_ppm += (bits & SROCE_RAIL_CORRUPT) ? dev->corrupt_ppm : 0;
    if (bits & SROCE_RAIL_REORDER) {
        f->reorder_ppm += dev->reorder_ppm;
        f->reorder_us = MRAIL_MAX(f->reorder_us, dev->reorder_us);
        f->reorder_us = MRAIL_MAX(f->reorder_us, 1u);
    }
}

/* Implements sroce_egress_send() for a path with faults. */
static void egress_send_faulty(sroce_host_ctx_t *ctx,
                               const sroce_egress_load_t *load, int has_credit,
                               mrail_ns_t now_ns)
{
    const sroce_session_dev_t *dest = sroce_host_session_dev(load->dest_dev);
    egress_faults_t f = {0};

    egress_gather(&f, ctx->sdev, UINT32_MAX);
    if (f.bits & SROCE_RAIL_BLACKHOLE_TX) {
        sroce_egress_drop(ctx, load, SROCE_CNT_DROP_BLACKHOLE, has_credit);
        return;
    }
    if (dest != NULL) {
        egress_gather(&f, dest, SROCE_RAIL_BOTH_ENDS);
    }
    egress_apply_faults(ctx, load, &f, has_credit, now_ns);
}

void sroce_egress_send(sroce_host_ctx_t *ctx, const sroce_egress_load_t *load,
                       int has_credit, mrail_ns_t now_ns)
{
    const sroce_session_dev_t *dest = sroce_host_session_dev(load->dest_dev);
    const sroce_session_dev_t *own = ctx->sdev;
    uint32_t any = own->faults | own->loss_ppm | own->delay_us;

    if (own->down || ((dest != NULL) && dest->down)) {
        sroce_egress_drop(ctx, load, SROCE_CNT_DROP_DOWN, has_credit);
        return;
    }
    if (dest != NULL) {
        any |= (dest->faults & SROCE_RAIL_BOTH_ENDS) | dest->loss_ppm |
               dest->delay_us;
    }
    if (MRAIL_UNLIKELY(any != 0)) {
        egress_send_faulty(ctx, load, has_credit, now_ns);
        return;
    }
    egress_transmit(ctx, load, has_credit);
}

/* Reserves credit for a batch. Returns 1 with *load_p set, 0 if credit is
 * short, or -1 if there is no receiver. */
static int egress_batch_take(sroce_host_ctx_t *ctx,
                             const sroce_host_batch_t *batch, struct iovec *iov,
                             sroce_egress_load_t *load_p)
{
    int64_t credit;
    unsigned got;

    egress_batch_load(batch, iov, load_p);
    if (batch->dest_dev < 0) {
        return 1;
    }
    if (!sroce_egress_dest_is_alive(batch->dest_dev, batch->dest_slot)) {
        sroce_egress_drop(ctx, load_p, SROCE_CNT_DROP_NO_PEER, 0);
        return -1;
    }
    got = sroce_credit_take(ctx, batch->dest_dev, batch->dest_slot,
                            batch->seg_bytes, batch->num_pkts);
    credit = sroce_host_credit(got * batch->seg_bytes, got);
    if (got < batch->num_pkts) {
        sroce_credit_return(batch->dest_dev, batch->dest_slot, credit);
        sroce_credit_commit(ctx);
        return 0;
    }
    /* Credit was reserved for full packets, so return the part that the last
     * packet does not need. */
    sroce_credit_return(batch->dest_dev, batch->dest_slot,
                        credit -
                            sroce_host_credit(batch->length, batch->num_pkts));
    return 1;
}

int sroce_egress_batch_send(sroce_host_ctx_t *ctx, sroce_host_batch_t *batch,
                            mrail_ns_t now_ns)
{
    struct iovec iov;
    sroce_egress_load_t load;
    int got = egress_batch_take(ctx, batch, &iov, &load);

    if (got > 0) {
        sroce_egress_send(ctx, &load, batch->dest_dev >= 0, now_ns);
    }
    return got != 0;
}

void sroce_egress_delayed(sroce_host_ctx_t *ctx, mrail_ns_t now_ns)
{
    while (!mrail_list_empty(&ctx->delayed)) {
        sroce_host_batch_t *batch =
            mrail_list_head(&ctx->delayed, sroce_host_batch_t, list);
        sroce_egress_load_t load;
        struct iovec iov;
        int got;

        if (batch->due_ns > now_ns) {
            return;
        }
        got = egress_batch_take(ctx, batch, &iov, &load);
        if (got == 0) {
            return;
        }
        if (got > 0) {
            egress_transmit(ctx, &load, batch->dest_dev >= 0);
        }
        mrail_list_del(&batch->list);
        ctx->delayed_bytes -= MRAIL_MIN(ctx->delayed_bytes, batch->length);
        free(batch);
    }
}

void sroce_egress_finish(sroce_host_ctx_t *ctx)
{
    const struct timespec pause = {.tv_nsec = 50 * MRAIL_NS_PER_US};
    mrail_ns_t until_ns = mrail_clock_now() + EGRESS_FINISH_NS;
    mrail_ns_t now_ns;

    while (!mrail_list_empty(&ctx->delayed) && !sroce_host_is_paused(ctx) &&
           ((now_ns = mrail_clock_now()) < until_ns)) {
        sroce_egress_delayed(ctx, now_ns);
        nanosleep(&pause, NULL);
    }
    if (!sroce_host_is_paused(ctx)) {
        sroce_egress_delayed(ctx, MRAIL_NS_NEVER);
    }
}
