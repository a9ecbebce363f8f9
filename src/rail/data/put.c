#include "config.h"
#include "rail/data/put.h"

#include "base/seq.h"

static void mrail_put_finish(mrail_lane_t *lane, mrail_tx_t *tx)
{
    mrail_list_del(&tx->am.list);
    lane->rma_carried += MRAIL_TELEMETRY ? tx->am.length : 0;
    lane->peer->engine->counters.put_bytes += tx->am.length;
    mrail_tx_put(tx);
}

void mrail_put_finish_done(mrail_lane_t *lane)
{
    while (!mrail_list_empty(&lane->puts)) {
        mrail_tx_t *tx = mrail_list_head(&lane->puts, mrail_tx_t, am.list);

        if (mrail_seq32_before(lane->sq_done, tx->put.sq_end)) {
            break;
        }
        mrail_put_finish(lane, tx);
    }
    lane->peer->pump_ns = 0; /* the lane can now accept operations */
}

mrail_tx_t *mrail_put_find(const mrail_lane_t *lane, uint32_t sq_end)
{
    mrail_tx_t *tx;

    mrail_list_for_each(tx, &lane->puts, mrail_tx_t, am.list) {
        if (tx->put.sq_end == sq_end) {
            return tx;
        }
    }
    return NULL;
}

int mrail_put_is_lost(const mrail_peer_t *peer)
{
    if (!mrail_list_empty(&peer->lost_puts)) {
        return 1;
    }
    mrail_for_each_slot(slot, peer->broken_mask) {
        if (!mrail_list_empty(&mrail_peer_lane(peer, slot)->puts)) {
            return 1;
        }
    }
    return 0;
}

static void mrail_put_discard(mrail_tx_t *tx)
{
    mrail_list_del(&tx->am.list);
    mrail_tx_put(tx);
}

/* A later message proves that a PUT has arrived; see mrail_rma_take_lost(). */
void mrail_put_take_lost(mrail_lane_t *lane)
{
    mrail_tx_t *tx, *tmp;

    mrail_list_for_each_safe(tx, tmp, &lane->puts, mrail_tx_t, am.list) {
        if (mrail_seq16_before(tx->am.number, lane->peer_has)) {
            mrail_put_finish(lane, tx);
        } else if (tx->put.ep_id == 0) {
            mrail_put_discard(tx);
        }
    }
    mrail_list_move_all(&lane->peer->lost_puts, &lane->puts);
}

void mrail_put_cancel(mrail_peer_t *peer, uint64_t ep_id)
{
    mrail_tx_t *tx, *tmp;

    mrail_list_for_each_safe(tx, tmp, &peer->lost_puts, mrail_tx_t, am.list) {
        if (tx->put.ep_id == ep_id) {
            mrail_put_discard(tx);
        }
    }
    mrail_for_each_lane(lane, peer) {
        mrail_list_for_each(tx, &lane->puts, mrail_tx_t, am.list) {
            tx->put.ep_id = (tx->put.ep_id == ep_id) ? 0 : tx->put.ep_id;
        }
    }
}

void mrail_put_drop(mrail_peer_t *peer)
{
    mrail_for_each_lane(lane, peer) {
        mrail_list_move_all(&peer->lost_puts, &lane->puts);
    }
    while (!mrail_list_empty(&peer->lost_puts)) {
        mrail_put_discard(
            mrail_list_head(&peer->lost_puts, mrail_tx_t, am.list));
    }
}
