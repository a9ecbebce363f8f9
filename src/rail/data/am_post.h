/* Header and post of active messages. */
#ifndef MRAIL_RAIL_DATA_AM_POST_H
#define MRAIL_RAIL_DATA_AM_POST_H

#include "rail/conn/lane.h"
#include "rail/conn/lane_error.h"
#include "rail/state/engine.h"

static inline void mrail_am_fill_header(mrail_data_hdr_t *hdr,
                                        mrail_lane_t *lane, uint8_t type,
                                        uint8_t flags)
{
    hdr->version = MRAIL_WIRE_VERSION;
    hdr->type = type;
    hdr->flags = flags;
    hdr->tag = lane->tx_tag;
    hdr->ack = htobe32(lane->peer->rx_next);
    hdr->credit = htobe16(lane->am_granted);
    lane->am_advertised = lane->am_granted;
    hdr->returned = 0;
    hdr->reserved = 0;
}

/* Posts a message on the lane. Its header must be complete. */
static MRAIL_DATA MRAIL_INLINE void mrail_am_post(mrail_lane_t *lane,
                                                  mrail_tx_t *tx)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)tx->hdr,
        .length = tx->length,
        .lkey = tx->mem->mr[lane->rail->index]->lkey,
    };
    struct ibv_send_wr wr;

    wr.wr_id = mrail_lane_marker(lane);
    wr.next = NULL;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = (tx->length <= lane->max_inline) ? IBV_SEND_INLINE : 0;
    if (MRAIL_UNLIKELY(mrail_lane_post(lane, &wr) != 0)) {
        mrail_lane_error(lane, "post");
    }
}

#endif
