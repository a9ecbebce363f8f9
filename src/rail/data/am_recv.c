/* Handles received active messages: order, delivery and acknowledgement. */
#include "config.h"
#include "rail/data/am_recv.h"

#include "rail/conn/conn.h"
#include "rail/data/am_ack.h"
#include "rail/data/inbox.h"
#include "rail/data/rx.h"
#include "rail/state/signals.h"

static MRAIL_DATA void mrail_am_deliver(mrail_engine_t *engine, mrail_rx_t *rx)
{
    mrail_iface_t *iface = mrail_iface_find(engine, be16toh(rx->hdr->iface));

    /* Messages in the inbox come first. A get_short in a callback may have put
     * them there. */
    if (MRAIL_LIKELY((iface != NULL) && (iface == engine->current) &&
                     mrail_list_empty(&iface->inbox))) {
        ++iface->num_called;
        iface->params.am(iface->params.arg, rx->hdr->am_id, rx->hdr + 1,
                         rx->length);
        mrail_rx_release(engine, rx);
    } else if (iface != NULL) {
        rx = mrail_inbox_copy(iface, rx);
        mrail_list_add_tail(&iface->inbox, &rx->am.list);
        mrail_wakeup_signal(iface);
    } else {
        ++engine->counters.rx_no_iface;
        mrail_rx_release(engine, rx);
    }
}

/* Moves a held message to the heap if the rail has granted more credits than it
 * has buffers. Otherwise, held messages could occupy all buffers and leave none
 * for the missing message. The copy keeps its credit, which bounds the
 * memory. */
static MRAIL_DATA mrail_rx_t *mrail_am_give_back_buffer(mrail_engine_t *engine,
                                                        mrail_rx_t *rx)
{
    mrail_rx_t *copy;

    if (MRAIL_LIKELY(__atomic_load_n(&rx->rail->srq_short, __ATOMIC_RELAXED) ==
                     0)) {
        return rx;
    }
    copy = mrail_rx_copy(rx);
    if (copy == NULL) {
        return rx;
    }
    copy->lane = rx->lane;
    mrail_rx_release_free(engine, rx);
    return copy;
}

static MRAIL_DATA void mrail_am_hold(mrail_engine_t *engine, mrail_peer_t *peer,
                                     mrail_rx_t *rx, uint32_t seq)
{
    rx = mrail_am_give_back_buffer(engine, rx);
    rx->am.seq = seq;
    if (mrail_am_stream_hold(&peer->am, &rx->am)) {
        ++engine->counters.am_held;
        if (mrail_am_lane_update_due(&rx->lane->am)) {
            mrail_am_add_pending_ack(engine, rx->lane);
        }
    } else {
        ++engine->counters.am_duplicate;
        mrail_rx_release(engine, rx);
    }
}

static MRAIL_DATA void mrail_am_accept(mrail_engine_t *engine,
                                       mrail_peer_t *peer, mrail_rx_t *rx)
{
    uint32_t seq = be32toh(rx->hdr->seq);
    mrail_am_arrival_t *next;

    if (MRAIL_UNLIKELY(!mrail_am_stream_arrive(&peer->am, seq))) {
        mrail_am_hold(engine, peer, rx, seq);
        return;
    }
    mrail_am_deliver(engine, rx);
    while ((next = mrail_am_stream_take_next(&peer->am)) != NULL) {
        mrail_am_deliver(engine, mrail_list_entry(next, mrail_rx_t, am));
    }
}

/* Returns the lane of a received header, or NULL if the header does not name a
 * lane of this engine. */
static mrail_lane_t *mrail_am_find_lane(mrail_engine_t *engine,
                                        const mrail_data_hdr_t *hdr,
                                        const struct ibv_wc *wc)
{
    unsigned index = be16toh(hdr->lane);
    mrail_lane_t *lane;

    if ((wc->byte_len < sizeof(*hdr)) || (hdr->version != MRAIL_WIRE_VERSION) ||
        (index >= engine->config.max_qps)) {
        return NULL;
    }
    lane = __atomic_load_n(&engine->lanes[index], __ATOMIC_ACQUIRE);
    /* Do not read lane->qp->qp_num, because a header may name any lane, even
     * one whose QP the control thread is destroying. */
    if ((lane == NULL) ||
        (__atomic_load_n(&lane->qpn, __ATOMIC_RELAXED) != wc->qp_num) ||
        (lane->rx_tag != hdr->tag)) {
        return NULL;
    }
    return lane;
}

static MRAIL_DATA void mrail_am_take_ack(mrail_engine_t *engine,
                                         mrail_lane_t *lane,
                                         const mrail_data_hdr_t *hdr)
{
    mrail_am_stream_t *stream = &lane->peer->am;
    uint32_t ack = be32toh(hdr->ack);
    mrail_am_msg_t *msg;

    mrail_am_lane_limit(&lane->am, be16toh(hdr->credit));
    if (mrail_am_stream_ack(stream, ack)) {
        while ((msg = mrail_am_stream_take_acked(stream, ack)) != NULL) {
            mrail_tx_put(mrail_list_entry(msg, mrail_tx_t, am));
        }
    }
    if (MRAIL_UNLIKELY(hdr->flags != 0) &&
        mrail_am_stream_take_flags(stream, &lane->am, hdr->flags,
                                   be32toh(hdr->seq))) {
        /* The lane may be out of use by now. Another lane then carries the
         * reply, possibly a lane that is up but not yet in use here. */
        if (mrail_lane_is(lane, MRAIL_LANE_OUT)) {
            mrail_peer_activate(lane->peer);
        } else {
            mrail_am_add_pending_ack(engine, lane);
        }
    }
}

void mrail_am_recv(mrail_engine_t *engine, mrail_rx_t *rx,
                   const struct ibv_wc *wc)
{
    mrail_lane_t *lane;

    rx->lane = NULL;
    if (MRAIL_UNLIKELY(wc->status != IBV_WC_SUCCESS)) {
        /* A QP in the error state has returned this buffer unused, so repost it
         * to the SRQ. */
        ++engine->counters.cqe_errors;
        mrail_rx_release_free(engine, rx);
        return;
    }
    lane = mrail_am_find_lane(engine, rx->hdr, wc);
    if (MRAIL_UNLIKELY(lane == NULL)) {
        ++engine->counters.rx_bad_header;
        mrail_rx_release_free(engine, rx);
        return;
    }
    mrail_am_take_ack(engine, lane, rx->hdr);
    if (MRAIL_LIKELY(rx->hdr->type == MRAIL_DATA_AM)) {
        rx->length = wc->byte_len - (uint32_t)sizeof(mrail_data_hdr_t);
        /* Without a credit, the message has used a buffer of another peer. */
        if (!mrail_am_lane_receive(&lane->am, rx->length)) {
            ++engine->counters.rx_no_credit;
            mrail_peer_error(lane->peer,
                             "sent more messages than it has credits for");
            mrail_rx_release_free(engine, rx);
            return;
        }
        rx->lane = lane;
        ++engine->counters.am_received;
        if (MRAIL_UNLIKELY(rx->hdr->flags & MRAIL_DATA_CREDIT_BLOCKED)) {
            mrail_am_grow(engine, lane, MRAIL_AM_CREDITS_MAX);
        }
        mrail_am_accept(engine, lane->peer, rx);
    } else {
        engine->counters.rx_bad_header += (rx->hdr->type != MRAIL_DATA_ACK);
        if (MRAIL_UNLIKELY(rx->hdr->flags & MRAIL_DATA_RETURN)) {
            mrail_am_take_return(engine, lane, be16toh(rx->hdr->returned));
        }
        mrail_rx_release_free(engine, rx);
    }
}
