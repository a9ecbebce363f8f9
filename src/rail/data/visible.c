/* Posts the READs that follow the WRITEs of a lane, and make the written data
 * visible. */
#include "config.h"
#include "rail/data/visible.h"

#include "rail/data/chunk.h"
#include "rail/data/peer_lanes.h"

#include <errno.h>

int mrail_rma_post_read(mrail_lane_t *lane, mrail_flush_t *flush,
                        mrail_ns_t now_ns)
{
    mrail_peer_t *peer = lane->peer;
    mrail_engine_t *engine = peer->engine;
    mrail_op_t *op;

    if (mrail_lane_sq_free(lane) == 0) {
        return -EAGAIN;
    }
    op = mrail_pool_get(&engine->ops);
    if (op == NULL) {
        return -EAGAIN;
    }
    mrail_op_init(op, peer, MRAIL_OP_VISIBLE);
    op->iov[0].buffer = lane->rail->flush_page + 1;
    op->iov[0].length = sizeof(uint64_t);
    op->iov[0].mem = &engine->flush_mem;
    op->iov_count = 1;
    op->remote_address = peer->rails[lane->remote_rail].flush_addr;
    op->rkey = &peer->flush_rkey;
    op->length = op->left = sizeof(uint64_t);
    if (mrail_chunk_post(op, lane, op->length, now_ns) != 0) {
        mrail_pool_put(&engine->ops, op);
        return -EAGAIN;
    }
    /* The operation does not belong to a caller, so it does not consume an id.
     * The flush that waits for it counts it. */
    op->id = peer->op_next;
    mrail_list_add_tail(&peer->ops, &op->list);
    if (flush != NULL) {
        op->flush = flush;
        ++flush->reads;
    }
    ++lane->reads;
    peer->dirty_mask &= ~(1ull << lane->slot);
    peer->reading_mask |= 1ull << lane->slot;
    return 0;
}

/* Returns 1 if the lane is neither in use nor ended: its path is suspect, or
 * the lane is closing. The flush waits until the lane is used again or has
 * ended. */
static int mrail_lane_is_away(const mrail_lane_t *lane)
{
    return (lane != NULL) &&
           (mrail_lane_is(lane, MRAIL_LANE_CLOSES) ||
            (mrail_lane_is(lane, MRAIL_LANE_CONNECTED) &&
             !(lane->peer->seen_mask & (1ull << lane->slot))));
}

int mrail_rma_post_visible(mrail_peer_t *peer, mrail_flush_t *flush,
                           mrail_ns_t now_ns)
{
    (void)mrail_peer_num_up(peer); /* update the lanes in use */
    if (!flush->last_stage) {
        flush->last_stage = 1;
        /* Include slots on which another flush has posted a READ, because only
         * the other flush is notified of its completion. */
        flush->unseen = peer->dirty_mask | peer->reading_mask;
    }
    mrail_for_each_slot(slot, flush->unseen) {
        mrail_lane_t *lane = mrail_peer_lane(peer, slot);

        if (mrail_lane_is_away(lane)) {
            continue;
        }
        if ((lane != NULL) && mrail_lane_is(lane, MRAIL_LANE_CONNECTED) &&
            (mrail_rma_post_read(lane, flush, now_ns) != 0)) {
            continue;
        }
        flush->unseen &=
            ~(1ull << slot); /* a lane that has ended was drained or closed */
    }
    return flush->unseen == 0;
}
