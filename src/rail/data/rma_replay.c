/* Replay of the chunks of failed lanes. */
#include "config.h"
#include "rail/data/rma_replay.h"

#include "base/seq.h"
#include "rail/data/chunk.h"
#include "rail/data/peer_lanes.h"
#include "rail/data/put.h"
#include "rail/data/rma_pump.h"

void mrail_rma_abandon(mrail_lane_t *lane, mrail_ns_t now_ns)
{
    while (!mrail_list_empty(&lane->flying)) {
        mrail_rma_chunk_done(
            mrail_list_head(&lane->flying, mrail_chunk_t, list), -EIO, now_ns);
    }
}

/* Inserts the chunk, sorted by operation, so that work after a fence comes
 * last. */
static void mrail_rma_add_replay(mrail_peer_t *peer, mrail_chunk_t *chunk)
{
    mrail_list_t *pos = &peer->replay_rma;

    while ((pos->prev != &peer->replay_rma) &&
           (mrail_list_entry(pos->prev, mrail_chunk_t, list)->op->id >
            chunk->op->id)) {
        pos = pos->prev;
    }
    mrail_list_insert_before(pos, &chunk->list);
}

/* Returns 1 if the chunk has arrived. A READ never counts as arrived: even if
 * the peer has seen the request, the data may be lost. */
static int mrail_chunk_has_arrived(const mrail_chunk_t *chunk)
{
    return (chunk->op->kind == MRAIL_OP_VISIBLE) ||
           ((chunk->op->kind == MRAIL_OP_PUT) &&
            mrail_seq16_before(chunk->am_number, chunk->lane->peer_has));
}

/*
 * The peer's QP accepts no more requests. WRITEs that completed are therefore
 * visible, and other WRITEs can be replayed. A WRITE that a later message
 * proves delivered must not be replayed, because the peer may have reused the
 * memory since.
 */
void mrail_rma_take_lost(mrail_lane_t *lane)
{
    while (!mrail_list_empty(&lane->lost)) {
        mrail_chunk_t *chunk =
            mrail_list_head(&lane->lost, mrail_chunk_t, list);

        mrail_list_del(&chunk->list);
        if (mrail_chunk_has_arrived(chunk) || (chunk->op->status != 0)) {
            mrail_list_add_tail(&lane->peer->arrived, &chunk->list);
        } else {
            mrail_rma_add_replay(lane->peer, chunk);
        }
    }
    mrail_put_take_lost(lane);
    lane->peer->dirty_mask &= ~(1ull << lane->slot);
}

/* The callback of a completion may cause the peer to fail; mrail_rma_fail()
 * then empties the list. */
void mrail_rma_finish_arrived(mrail_peer_t *peer)
{
    while (!mrail_list_empty(&peer->arrived)) {
        mrail_chunk_t *chunk =
            mrail_list_head(&peer->arrived, mrail_chunk_t, list);

        mrail_list_del(&chunk->list);
        mrail_chunk_finish(chunk);
    }
}

static mrail_cursor_t mrail_op_seek(const mrail_op_t *op, uint64_t offset)
{
    mrail_cursor_t cursor = {0, 0};

    while (offset >= op->iov[cursor.index].length) {
        offset -= op->iov[cursor.index++].length;
    }
    cursor.offset = offset;
    return cursor;
}

/* Returns a lane for a replay of `length` bytes, or NULL if no lane can accept
 * them. */
static MRAIL_DATA mrail_lane_t *mrail_rma_replay_lane(mrail_peer_t *peer,
                                                      size_t length)
{
    int index;

    if (mrail_peer_num_up(peer) == 0) {
        return NULL;
    }
    mrail_rma_mark_usable(peer);
    index = mrail_sched_pick_whole(peer->sched, peer->num_up, length);
    return (index < 0) ? NULL : peer->up[index];
}

static MRAIL_DATA void mrail_rma_replay_puts(mrail_peer_t *peer)
{
    while (!mrail_list_empty(&peer->lost_puts)) {
        mrail_tx_t *tx = mrail_list_head(&peer->lost_puts, mrail_tx_t, am.list);
        mrail_lane_t *lane = mrail_rma_replay_lane(peer, tx->am.length);

        if (lane == NULL) {
            return;
        }
        mrail_list_del(&tx->am.list);
        if (mrail_put_post(lane, tx) != 0) {
            return;
        }
        ++peer->engine->counters.rma_replayed;
    }
}

void mrail_rma_replay(mrail_peer_t *peer, mrail_ns_t now_ns)
{
    mrail_rma_replay_puts(peer);
    while (!mrail_list_empty(&peer->replay_rma)) {
        mrail_chunk_t *chunk =
            mrail_list_head(&peer->replay_rma, mrail_chunk_t, list);
        mrail_cursor_t cursor = mrail_op_seek(chunk->op, chunk->offset);
        mrail_lane_t *lane = mrail_rma_replay_lane(peer, chunk->length);

        if (lane == NULL) {
            return;
        }
        mrail_list_del(&chunk->list);
        if (mrail_chunk_send(chunk, lane, &cursor, now_ns) != 0) {
            mrail_rma_add_replay(peer, chunk);
            return;
        }
        ++peer->engine->counters.rma_replayed;
    }
}

static void mrail_rma_drop(mrail_engine_t *engine, mrail_list_t *chunks)
{
    while (!mrail_list_empty(chunks)) {
        mrail_chunk_t *chunk = mrail_list_head(chunks, mrail_chunk_t, list);

        mrail_list_del(&chunk->list);
        mrail_pool_put(&engine->chunks, chunk);
    }
}

void mrail_rma_fail(mrail_peer_t *peer, int status)
{
    peer->uncut_bytes = 0;
    peer->dirty_mask = peer->reading_mask = 0;
    mrail_for_each_lane(lane, peer) {
        mrail_rma_drop(peer->engine, &lane->flying);
        mrail_rma_drop(peer->engine, &lane->lost);
    }
    mrail_rma_drop(peer->engine, &peer->replay_rma);
    mrail_rma_drop(peer->engine, &peer->arrived);
    mrail_put_drop(peer);
    while (!mrail_list_empty(&peer->ops)) {
        mrail_op_t *op = mrail_list_head(&peer->ops, mrail_op_t, list);

        mrail_list_del(&op->uncut);
        op->left = 0;
        mrail_op_finish(op, status);
    }
}
