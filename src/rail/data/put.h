/*
 * Posts small PUTs, which complete by position.
 *
 * A small PUT is a send buffer without an operation or a chunk, and usually
 * without a completion of its own. An RC QP completes its requests in order, so
 * the buffer stays in lane->puts until a later request of the lane completes
 * successfully. There is always a later request:
 *
 * - The lane requests a completion at least every sq_depth / 4 requests.
 * - A flush or fence posts a READ behind the PUTs.
 * - If neither happens, stall detection posts the READ, so that an idle lane
 *   keeps no buffers.
 *
 * When a lane fails, its remaining PUTs count as incomplete. They wait in
 * lane->puts until both ends have closed the lane, then in peer->lost_puts
 * until another lane carries them. A PUT that could not be posted goes directly
 * to peer->lost_puts. Flushes and fences wait for all of these PUTs. New PUTs
 * wait for the failover, so a flush need not distinguish earlier from later
 * PUTs.
 */
#ifndef MRAIL_RAIL_DATA_PUT_H
#define MRAIL_RAIL_DATA_PUT_H

#include "rail/data/tx_post.h"
#include "rail/state/signals.h"

/* Returns 1 if the send queue has a free entry for a small PUT besides the
 * reserve for messages and READs. */
static inline MRAIL_DATA int mrail_put_has_space(const mrail_lane_t *lane)
{
    return mrail_lane_sq_free(lane) > lane->sq_depth / 4;
}

/* Posts the PUT. Returns 0, or -EAGAIN if the lane has failed and the PUT waits
 * for another lane. */
static inline MRAIL_DATA int mrail_put_post(mrail_lane_t *lane, mrail_tx_t *tx)
{
    struct ibv_send_wr wr;

    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = tx->put.remote_address;
    wr.wr.rdma.rkey = tx->put.rkey.rkey[lane->remote_rail];
    tx->am.number = lane->am.sent;
    tx->put.sq_end = lane->sq_posted + 1;
    mrail_stall_wake(lane->peer);
    if (MRAIL_UNLIKELY(mrail_tx_post(lane, tx, &wr) != 0)) {
        --lane->sq_posted; /* no later completion includes this request */
        mrail_list_add_tail(&lane->peer->lost_puts, &tx->am.list);
        mrail_lane_error(lane, "cannot post a PUT");
        return -EAGAIN;
    }
    mrail_list_add_tail(&lane->puts, &tx->am.list);
    lane->peer->dirty_mask |= 1ull << lane->slot;
    return 0;
}

void mrail_put_finish_done(mrail_lane_t *lane) MRAIL_DATA;

/* Completes the PUTs up to lane->sq_done. Must not be called after an error,
 * because a request may have no completion if a later one fails. */
static inline MRAIL_DATA void mrail_put_reap(mrail_lane_t *lane)
{
    if (!mrail_list_empty(&lane->puts)) {
        mrail_put_finish_done(lane);
    }
}

/* Returns the PUT whose request is the last one before `sq_end`, or NULL if
 * that request is not a small PUT. */
mrail_tx_t *mrail_put_find(const mrail_lane_t *lane,
                           uint32_t sq_end) MRAIL_DATA;

/* Returns 1 if PUTs of failed lanes have not been replayed. */
int mrail_put_is_lost(const mrail_peer_t *peer) MRAIL_DATA;

/* Moves the undelivered PUTs of the lane to the peer, for the replay. */
void mrail_put_take_lost(mrail_lane_t *lane) MRAIL_DATA;

/* Excludes PUTs of the endpoint from replay. */
void mrail_put_cancel(mrail_peer_t *peer, uint64_t ep_id) MRAIL_DATA;

/* Drops all PUTs of a failed peer. */
void mrail_put_drop(mrail_peer_t *peer) MRAIL_DATA;

#endif
