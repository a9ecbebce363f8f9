/* Received active messages: order, delivery and acknowledgement. */
#include "config.h"
#include "rail/data/am_recv.h"

#include "base/seq.h"
#include "rail/conn/lane_error.h"
#include "rail/conn/peer.h"
#include "rail/data/am_ack.h"
#include "rail/data/inbox.h"
#include "rail/data/rx.h"
#include "rail/state/signals.h"

void mrail_am_invalidate(mrail_peer_t *peer, mrail_tx_t *tx)
{
    mrail_list_del(&tx->list);
    tx->lane->am_inflight -= tx->length;
    peer->am_inflight -= MRAIL_FAILOVER ? tx->length : 0;
    mrail_tx_put(tx);
}

static MRAIL_DATA void mrail_am_acked(mrail_peer_t *peer, uint32_t ack)
{
    /* Ignores numbers before tx_acked and numbers that were never sent. */
    if ((ack == peer->tx_acked) || mrail_seq32_before(ack, peer->tx_acked) ||
        mrail_seq32_before(peer->tx_next, ack)) {
        return;
    }
    /* Ignores an acknowledgement that covers a message in the replay queue:
     * that message has not arrived, so the number is wrong. */
    if (MRAIL_UNLIKELY(!mrail_list_empty(&peer->replay_am)) &&
        mrail_seq32_before(
            mrail_list_head(&peer->replay_am, mrail_tx_t, replay)->seq, ack)) {
        return;
    }
    peer->tx_acked = ack;
    if (mrail_seq32_before(peer->ack_wanted, ack)) {
        peer->ack_wanted = ack; /* a stale value would look new after the
                                 * numbers wrap */
    }
    while (!mrail_list_empty(&peer->unacked)) {
        mrail_tx_t *tx = mrail_list_head(&peer->unacked, mrail_tx_t, list);

        if (!mrail_seq32_before(tx->seq, ack)) {
            break;
        }
        mrail_am_invalidate(peer, tx);
    }
}

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
        mrail_list_add_tail(&iface->inbox, &rx->list);
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

/* Keeps a message that is ahead of its turn, sorted by sequence number. The
 * message keeps its credit, so the sender's credits bound the held messages of
 * a peer. */
static MRAIL_DATA void mrail_am_hold(mrail_engine_t *engine, mrail_peer_t *peer,
                                     mrail_rx_t *rx, uint32_t seq)
{
    mrail_rx_t *pos;

    mrail_list_for_each(pos, &peer->hold, mrail_rx_t, list) {
        uint32_t other = be32toh(pos->hdr->seq);

        if (other == seq) {
            ++engine->counters.am_duplicate;
            mrail_rx_release(engine, rx);
            return;
        }
        if (mrail_seq32_before(seq, other)) {
            break;
        }
    }
    rx = mrail_am_give_back_buffer(engine, rx);
    mrail_list_insert_before(&pos->list, &rx->list);
    ++engine->counters.am_held;
}

static MRAIL_DATA void mrail_am_accept(mrail_engine_t *engine,
                                       mrail_peer_t *peer, mrail_rx_t *rx)
{
    uint32_t seq = be32toh(rx->hdr->seq);

    if (MRAIL_UNLIKELY(seq != peer->rx_next)) {
        if (mrail_seq32_before(seq, peer->rx_next)) {
            ++engine->counters.am_duplicate;
            mrail_rx_release(engine, rx);
        } else {
            mrail_am_hold(engine, peer, rx, seq);
        }
        return;
    }
    ++peer->rx_next;
    mrail_am_deliver(engine, rx);
    while (MRAIL_UNLIKELY(!mrail_list_empty(&peer->hold))) {
        rx = mrail_list_head(&peer->hold, mrail_rx_t, list);
        if (be32toh(rx->hdr->seq) != peer->rx_next) {
            break;
        }
        mrail_list_del(&rx->list);
        ++peer->rx_next;
        mrail_am_deliver(engine, rx);
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

/* Takes one of the lane's credits. Returns 0 if the peer has none left, because
 * its message would take a buffer from other peers. */
static int mrail_am_take_credit(mrail_engine_t *engine, mrail_lane_t *lane)
{
    if (MRAIL_UNLIKELY(lane->am_received == lane->am_granted)) {
        ++engine->counters.rx_no_credit;
        mrail_peer_error(lane->peer, "it sends more than it has credits for");
        return 0;
    }
    ++lane->am_received;
    return 1;
}

static MRAIL_DATA void mrail_am_take_ack(mrail_engine_t *engine,
                                         mrail_lane_t *lane,
                                         const mrail_data_hdr_t *hdr)
{
    uint16_t credit = be16toh(hdr->credit);

    if (mrail_seq16_before(lane->am_limit, credit)) {
        lane->am_limit = credit;
    }
    mrail_am_acked(lane->peer, be32toh(hdr->ack));
    if (MRAIL_UNLIKELY(hdr->flags & MRAIL_DATA_ACK_REP)) {
        lane->peer->ack_requested = 0;
        mrail_am_add_pending_ack(engine, lane); /* another request may be
                                                 * waiting */
    }
    if (MRAIL_UNLIKELY(hdr->flags & MRAIL_DATA_RECALL)) {
        lane->return_due = 1;
        mrail_am_add_pending_ack(engine, lane);
    }
    if (hdr->flags & MRAIL_DATA_ACK_REQ) {
        lane->peer->ack_due = 1;
        lane->peer->ack_due_seq = be32toh(hdr->seq);
        /* If the lane is already out of use, the answer takes another lane,
         * possibly one that is up but not yet in use here. */
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
        if (!mrail_am_take_credit(engine, lane)) {
            mrail_rx_release_free(engine, rx);
            return;
        }
        rx->lane = lane;
        rx->length = wc->byte_len - (uint32_t)sizeof(mrail_data_hdr_t);
        lane->am_length = rx->length;
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
