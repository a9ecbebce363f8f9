#include "config.h"
#include "rail/data/am_replay.h"

#include "rail/data/flush.h"
#include "rail/data/peer_lanes.h"
#include "rail/data/rx.h"
#include "rail/data/tx_post.h"
#include "rail/state/signals.h"

static mrail_lane_t *mrail_am_replay_lane(mrail_peer_t *peer,
                                          const mrail_am_msg_t *msg)
{
    for (unsigned i = 0; i < peer->num_am; ++i) {
        mrail_lane_t *lane = peer->up[i];

        if ((mrail_lane_sq_free(lane) != 0) &&
            mrail_am_stream_may_replay(&peer->am, &lane->am, msg)) {
            return lane;
        }
    }
    return NULL;
}

void mrail_am_replay(mrail_peer_t *peer)
{
    const mrail_flush_t *barrier = mrail_flush_barrier(peer);
    mrail_am_msg_t *msg;

    while ((mrail_peer_num_up(peer) != 0) &&
           ((msg = mrail_am_stream_lost(&peer->am)) != NULL)) {
        mrail_tx_t *tx = mrail_list_entry(msg, mrail_tx_t, am);
        mrail_lane_t *lane = mrail_am_replay_lane(peer, msg);

        if ((lane == NULL) ||
            ((barrier != NULL) &&
             !mrail_seq32_before(msg->seq, barrier->am_seq))) {
            return;
        }
        mrail_am_stream_replay(&peer->am, &lane->am, msg);
        mrail_am_fill_header(tx->hdr, lane, MRAIL_DATA_AM, 0);
        ++peer->engine->counters.am_replayed;
        mrail_stall_wake(peer);
        mrail_am_post(lane, tx);
    }
}

void mrail_am_fail(mrail_peer_t *peer)
{
    mrail_am_msg_t *msg;

    while ((msg = mrail_am_stream_take_any(&peer->am)) != NULL) {
        mrail_tx_put(mrail_list_entry(msg, mrail_tx_t, am));
    }
    while (!mrail_list_empty(&peer->am.hold)) {
        mrail_rx_t *rx = mrail_list_head(&peer->am.hold, mrail_rx_t, am.list);

        mrail_list_del(&rx->am.list);
        mrail_rx_release_free(peer->engine, rx);
    }
}
