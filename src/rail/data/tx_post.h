/* Posts of send buffers, and the header of active messages. */
#ifndef MRAIL_RAIL_DATA_TX_POST_H
#define MRAIL_RAIL_DATA_TX_POST_H

#include "rail/conn/conn.h"
#include "rail/state/engine.h"

static inline void mrail_am_fill_header(mrail_data_hdr_t *hdr,
                                        mrail_lane_t *lane, uint8_t type,
                                        uint8_t flags)
{
    hdr->version = MRAIL_WIRE_VERSION;
    hdr->type = type;
    hdr->flags = flags;
    hdr->tag = lane->tx_tag;
    hdr->ack = htobe32(lane->peer->am.rx_next);
    hdr->credit = htobe16(mrail_am_lane_advertise(&lane->am));
    hdr->returned = 0;
    hdr->reserved = 0;
}

/* Posts the buffer on the lane. `wr` must contain the opcode and, for a WRITE,
 * the remote address and key. Returns the result of mrail_lane_post(). */
static MRAIL_DATA MRAIL_INLINE int
mrail_tx_post(mrail_lane_t *lane, const mrail_tx_t *tx, struct ibv_send_wr *wr)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)tx->hdr,
        .length = tx->am.length,
        .lkey = tx->mem->mr[lane->rail->index]->lkey,
    };

    wr->wr_id = mrail_lane_marker(lane);
    wr->next = NULL;
    wr->sg_list = &sge;
    wr->num_sge = 1;
    wr->send_flags = (tx->am.length <= lane->max_inline) ? IBV_SEND_INLINE : 0;
    return mrail_lane_post(lane, wr);
}

/* Posts a message on the lane. Its header must be complete. */
static MRAIL_DATA MRAIL_INLINE void mrail_am_post(mrail_lane_t *lane,
                                                  const mrail_tx_t *tx)
{
    struct ibv_send_wr wr;

    wr.opcode = IBV_WR_SEND;
    if (MRAIL_UNLIKELY(mrail_tx_post(lane, tx, &wr) != 0)) {
        mrail_lane_error(lane, "cannot post a message");
    }
}

#endif
