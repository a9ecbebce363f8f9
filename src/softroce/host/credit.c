/*
 * Manages the credit for the socket buffers of receivers. It limits the data in
 * flight to a process so that the process's receive socket never overflows.
 * Each process has one counter in shared memory. Senders add their bytes before
 * they send. The receiver subtracts the bytes that it has read.
 */
#include "config.h"
#include "softroce/host/host.h"

#include "softroce/host/rate.h"

/* A sender that has waited this long for credit gets priority over the other
 * senders. It may have been killed or descheduled since, so it keeps the
 * priority only as long as it retries at least every CREDIT_HEARTBEAT_NS. */
#define CREDIT_PRIORITY_NS (50 * MRAIL_NS_PER_MS)
#define CREDIT_HEARTBEAT_NS (1 * MRAIL_NS_PER_MS)

/* Called once the packets are in the socket. The receiver will return their
 * credit, so the slot no longer records it as unsent. */
void sroce_credit_commit(sroce_host_ctx_t *ctx)
{
    atomic_store_explicit(&ctx->slot->pend_bytes, 0, memory_order_release);
}

/* Returns the number of packets of `seg_bytes` that fit in `remaining` bytes of
 * credit, at most `num`. A single packet costs more than a packet of a run, but
 * never more than two of them. */
static unsigned credit_num_packets(int64_t remaining, uint32_t seg_bytes,
                                   unsigned num)
{
    int64_t each = seg_bytes + SROCE_HOST_PKT_OVERHEAD;

    if ((num >= 2) && (remaining >= 2 * each)) {
        return (unsigned)MRAIL_MIN(remaining / each, num);
    }
    return remaining >= sroce_host_credit(seg_bytes, 1);
}

/* Reserves credit for up to `num` packets of `seg_bytes`, and returns the
 * number of packets that it covers. The slot records the credit, in case this
 * process is killed. */
unsigned sroce_credit_take(sroce_host_ctx_t *ctx, int dest_dev,
                           unsigned dest_slot, uint32_t seg_bytes, unsigned num)
{
    sroce_slot_t *slot = &sroce_host_session_dev(dest_dev)->slots[dest_slot];
    int64_t held = atomic_load_explicit(&slot->rx_held, memory_order_relaxed);
    int64_t limit = slot->rx_limit, credit;
    unsigned got;

    /* The last quarter is reserved for small packets. Otherwise, data from many
     * senders could block the acknowledgements for which these senders are
     * waiting. */
    if (seg_bytes > SROCE_RATE_SMALL_BYTES) {
        limit -= limit / 4;
    }

    do {
        got = credit_num_packets(limit - MRAIL_MAX(held, (int64_t)0), seg_bytes,
                                 num);
        if (got == 0) {
            sroce_credit_commit(ctx);
            return 0;
        }
        ctx->slot->pend_dev = (uint32_t)dest_dev;
        ctx->slot->pend_slot = dest_slot;
        credit = sroce_host_credit(got * seg_bytes, got);
        ctx->slot->pend_bytes = (uint32_t)credit;
    } while (
        !atomic_compare_exchange_weak(&slot->rx_held, &held, held + credit));
    return got;
}

/*
 * Gives priority to a sender that has waited for CREDIT_PRIORITY_NS; the other
 * senders hold back as long as it keeps retrying. Otherwise, the process that
 * happens to run when the receiver reads would reserve all the credit. With
 * more processes than cores, the other senders would starve.
 */
static uint64_t credit_waiter_id(const sroce_host_ctx_t *ctx)
{
    return ctx->dev_index * SROCE_SESSION_SLOTS + ctx->slot_index + 1;
}

static int credit_may_take(const sroce_host_qp_t *qp, sroce_slot_t *slot,
                           mrail_ns_t now_ns)
{
    uint64_t waiter = atomic_load_explicit(&slot->waiter, memory_order_relaxed);

    if (MRAIL_LIKELY(waiter == 0) ||
        ((waiter & 0xffff) == credit_waiter_id(qp->ctx))) {
        return 1;
    }
    if ((int64_t)(now_ns - slot->waiter_heartbeat_ns) >
        (int64_t)CREDIT_HEARTBEAT_NS) {
        atomic_compare_exchange_strong(&slot->waiter, &waiter, 0);
        return 1;
    }
    return now_ns < (waiter >> 16) * MRAIL_NS_PER_US + CREDIT_PRIORITY_NS;
}

static void credit_queue_request(sroce_host_qp_t *qp, sroce_slot_t *slot,
                                 mrail_ns_t now_ns)
{
    uint64_t waiter = slot->waiter, mine;

    if (qp->credit_since_ns == 0) {
        qp->credit_since_ns = now_ns;
    }
    mine = (qp->credit_since_ns / MRAIL_NS_PER_US) << 16 |
           credit_waiter_id(qp->ctx);
    if (((waiter == 0) || (waiter > mine)) &&
        atomic_compare_exchange_strong(&slot->waiter, &waiter, mine)) {
        waiter = mine;
    }
    if ((waiter & 0xffff) == credit_waiter_id(qp->ctx)) {
        slot->waiter_heartbeat_ns = now_ns;
    }
}

static void credit_dequeue_request(sroce_host_qp_t *qp, sroce_slot_t *slot)
{
    uint64_t mine = (qp->credit_since_ns / MRAIL_NS_PER_US) << 16 |
                    credit_waiter_id(qp->ctx);

    atomic_compare_exchange_strong(&slot->waiter, &mine, 0);
    qp->credit_since_ns = 0;
}

void sroce_credit_return(int dest_dev, unsigned dest_slot, int64_t bytes)
{
    atomic_fetch_sub(
        &sroce_host_session_dev(dest_dev)->slots[dest_slot].rx_held, bytes);
}

/* Small packets are not queued. */
unsigned sroce_credit_take_queued(sroce_host_qp_t *qp, unsigned dest_slot,
                                  uint32_t seg_bytes, unsigned num,
                                  mrail_ns_t now_ns)
{
    sroce_slot_t *slot =
        &sroce_host_session_dev(qp->dest_dev)->slots[dest_slot];

    if (seg_bytes <= SROCE_RATE_SMALL_BYTES) {
        return sroce_credit_take(qp->ctx, qp->dest_dev, dest_slot, seg_bytes,
                                 num);
    }
    num = credit_may_take(qp, slot, now_ns)
              ? sroce_credit_take(qp->ctx, qp->dest_dev, dest_slot, seg_bytes,
                                  num)
              : 0;
    if (num == 0) {
        credit_queue_request(qp, slot, now_ns);
    } else if (MRAIL_UNLIKELY(qp->credit_since_ns != 0)) {
        credit_dequeue_request(qp, slot);
    }
    return num;
}
