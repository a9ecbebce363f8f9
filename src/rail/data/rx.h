/*
 * Returns receive buffers to the SRQ, and the credits for them to the peer.
 */
#ifndef MRAIL_RAIL_DATA_RX_H
#define MRAIL_RAIL_DATA_RX_H

#include "rail/state/engine.h"

/* Returns a used receive buffer to its SRQ, and grants one credit to the lane's
 * peer. Buffers are posted in batches. */
void mrail_rx_release(mrail_engine_t *engine, mrail_rx_t *rx) MRAIL_DATA;

/* Posts the collected buffers of the rail, of which there must be at least
 * one. */
void mrail_rx_repost(mrail_engine_t *engine, unsigned rail) MRAIL_DATA;

/* Posts the collected buffers of the rail, if any. */
static inline MRAIL_DATA void mrail_rx_flush(mrail_engine_t *engine,
                                             unsigned rail)
{
    if (engine->num_repost[rail] != 0) {
        mrail_rx_repost(engine, rail);
    }
}

/* Grants the peer one more message on the lane. */
void mrail_am_grant(mrail_engine_t *engine, mrail_lane_t *lane) MRAIL_DATA;

/* Records that the lane owes its peer a reply. */
void mrail_am_add_pending_ack(mrail_engine_t *engine,
                              mrail_lane_t *lane) MRAIL_DATA;

/* Releases the buffer of a message that consumed no credit. These buffers are
 * few and reserved, so the buffer returns to the SRQ immediately. */
void mrail_rx_release_free(mrail_engine_t *engine, mrail_rx_t *rx) MRAIL_DATA;

void mrail_rx_free_copy(mrail_engine_t *engine, mrail_rx_t *rx) MRAIL_DATA;

/* Returns a copy of the message on the heap, or NULL. */
mrail_rx_t *mrail_rx_copy(const mrail_rx_t *rx);

#endif
