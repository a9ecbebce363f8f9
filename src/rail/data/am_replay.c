/* Replay of the active messages of failed lanes. */
#include "config.h"
#include "rail/data/am_replay.h"

#include "base/seq.h"
#include "rail/data/am_post.h"
#include "rail/data/am_recv.h"
#include "rail/data/flush.h"
#include "rail/data/peer_lanes.h"
#include "rail/data/rx.h"
#include "rail/state/signals.h"

static void mrail_am_add_replay(mrail_peer_t *peer, mrail_tx_t *tx)
{
    mrail_list_t *pos = &peer->replay_am;

    while ((pos->prev != &peer->replay_am) &&
           mrail_seq32_before(
               tx->seq, mrail_list_entry(pos->prev, mrail_tx_t, replay)->seq)) {
        pos = pos->prev;
    }
    mrail_list_insert_before(pos, &tx->replay);
}

void mrail_am_take_lost(mrail_lane_t *lane)
{
    mrail_peer_t *peer = lane->peer;
    mrail_tx_t *tx;

    mrail_list_for_each(tx, &peer->unacked, mrail_tx_t, list) {
        if (tx->lane != lane) {
            continue;
        }
        if (!mrail_seq16_before(tx->number, lane->peer_has)) {
            mrail_am_add_replay(peer, tx);
        }
        lane->am_inflight -= tx->length;
        peer->engine->detached.am_inflight += tx->length;
        tx->lane = &peer->engine->detached;
    }
}

/* Returns 1 if all earlier messages that may still be missing are on this lane,
 * whose QP delivers them first. Messages of a failed lane that need no replay
 * have arrived. */
static int mrail_am_is_next_on(const mrail_lane_t *lane, const mrail_tx_t *tx)
{
    const mrail_peer_t *peer = lane->peer;
    const mrail_tx_t *before;

    mrail_list_for_each(before, &peer->unacked, mrail_tx_t, list) {
        if (before == tx) {
            return 1;
        }
        if ((before->lane != lane) &&
            (before->lane != &peer->engine->detached)) {
            return 0;
        }
    }
    return 1;
}

/* Returns a lane with a credit for a replayed message. The reserved credit may
 * be used only if the message is delivered on arrival, because delivery returns
 * the credit. Suppose that the message waited for earlier ones on another lane:
 * if that lane failed, this one would have no credit left to replay them. */
static mrail_lane_t *mrail_am_replay_lane(mrail_peer_t *peer,
                                          const mrail_tx_t *tx)
{
    for (unsigned i = 0; i < peer->num_am; ++i) {
        mrail_lane_t *lane = peer->up[i];
        unsigned credits = mrail_lane_credits(lane);

        if ((mrail_lane_sq_free(lane) != 0) &&
            ((credits > MRAIL_REPLAY_CREDITS) ||
             ((credits != 0) && mrail_am_is_next_on(lane, tx)))) {
            return lane;
        }
    }
    return NULL;
}

void mrail_am_replay(mrail_peer_t *peer)
{
    const mrail_flush_t *barrier = mrail_flush_barrier(peer);

    while (!mrail_list_empty(&peer->replay_am) &&
           (mrail_peer_num_up(peer) != 0)) {
        mrail_tx_t *tx = mrail_list_head(&peer->replay_am, mrail_tx_t, replay);
        mrail_lane_t *lane = mrail_am_replay_lane(peer, tx);

        if ((lane == NULL) || ((barrier != NULL) &&
                               !mrail_seq32_before(tx->seq, barrier->am_seq))) {
            return;
        }
        mrail_list_del(&tx->replay);
        peer->engine->detached.am_inflight -= tx->length;
        lane->am_inflight += tx->length;
        tx->lane = lane;
        tx->number = lane->am_sent++;
        mrail_am_fill_header(tx->hdr, lane, MRAIL_DATA_AM, 0);
        ++peer->engine->counters.am_replayed;
        mrail_stall_wake(peer);
        mrail_am_post(lane, tx);
    }
}

void mrail_am_fail(mrail_peer_t *peer)
{
    while (!mrail_list_empty(&peer->replay_am)) {
        mrail_list_del(peer->replay_am.next);
    }
    while (!mrail_list_empty(&peer->unacked)) {
        mrail_tx_t *tx = mrail_list_head(&peer->unacked, mrail_tx_t, list);

        mrail_am_invalidate(peer, tx);
    }
    while (!mrail_list_empty(&peer->hold)) {
        mrail_rx_t *rx = mrail_list_head(&peer->hold, mrail_rx_t, list);

        mrail_list_del(&rx->list);
        mrail_rx_release_free(peer->engine, rx);
    }
}
