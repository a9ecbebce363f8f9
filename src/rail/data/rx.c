/*
 * Returns receive buffers to the SRQ, and the credits for them to the peer.
 */
#include "config.h"
#include "rail/data/rx.h"

#include <stdlib.h>
#include <string.h>

void mrail_am_add_pending_ack(mrail_engine_t *engine, mrail_lane_t *lane)
{
    if (mrail_list_empty(&lane->ack_list) &&
        !mrail_lane_is(lane, MRAIL_LANE_OUT)) {
        mrail_list_add_tail(&engine->acks, &lane->ack_list);
    }
}

void mrail_am_grant(mrail_engine_t *engine, mrail_lane_t *lane)
{
    if (mrail_am_lane_grant(&lane->am)) {
        mrail_am_add_pending_ack(engine, lane);
    }
}

void mrail_rx_repost(mrail_engine_t *engine, unsigned rail)
{
    mrail_rx_t *const *batch = engine->repost[rail];
    unsigned count = engine->num_repost[rail];

    engine->num_repost[rail] = 0;
    batch[count - 1]->wr.next = NULL;
    if (mrail_rail_post_recv(&engine->rails[rail], &batch[0]->wr) != 0) {
        /* Not expected, because the SRQ is large enough for all buffers. */
        mrail_error("%s: the shared receive queue rejected a buffer",
                    engine->rails[rail].attr.device);
        return;
    }
    for (unsigned i = 0; i < count; ++i) {
        mrail_lane_t *lane = batch[i]->lane;

        if (MRAIL_LIKELY(lane != NULL)) {
            mrail_am_grant(engine, lane);
        } else if (MRAIL_UNLIKELY(batch[i]->orphan)) {
            batch[i]->orphan = 0;
            __atomic_fetch_add(&engine->rails[rail].srq_back, 1,
                               __ATOMIC_RELAXED);
        }
    }
}

void mrail_rx_free_copy(mrail_engine_t *engine, mrail_rx_t *rx)
{
    if (rx->lane != NULL) {
        mrail_am_grant(engine, rx->lane);
    }
    free(rx);
}

void mrail_rx_release(mrail_engine_t *engine, mrail_rx_t *rx)
{
    unsigned rail, count;

    if (MRAIL_UNLIKELY(rx->rail == NULL)) {
        mrail_rx_free_copy(engine, rx);
        return;
    }
    rail = rx->rail->index;
    count = engine->num_repost[rail];
    engine->repost[rail][count] = rx;
    if (count != 0) {
        engine->repost[rail][count - 1]->wr.next = &rx->wr;
    }
    engine->num_repost[rail] = ++count;
    if (count == MRAIL_REPOST_BATCH) {
        mrail_rx_repost(engine, rail);
    }
}

void mrail_rx_release_free(mrail_engine_t *engine, mrail_rx_t *rx)
{
    const mrail_rail_t *rail = rx->rail;

    rx->lane = NULL;
    mrail_rx_release(engine, rx);
    if (rail != NULL) {
        mrail_rx_flush(engine, rail->index);
    }
}

mrail_rx_t *mrail_rx_copy(const mrail_rx_t *rx)
{
    size_t length = sizeof(*rx->hdr) + rx->length;
    mrail_rx_t *copy = malloc(MRAIL_RX_HEADROOM + length);

    if (copy != NULL) {
        mrail_list_init(&copy->am.list);
        copy->rail = NULL;
        copy->lane = NULL;
        copy->orphan = 0;
        copy->hdr = (mrail_data_hdr_t *)((char *)copy + MRAIL_RX_HEADROOM);
        copy->length = rx->length;
        memcpy(copy->hdr, rx->hdr, length);
    }
    return copy;
}
