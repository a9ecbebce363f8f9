/* Choice of the lanes that carry the next bytes of operations. */
#include "config.h"
#include "rail/data/rma_pump.h"

#include "rail/conn/conn.h"
#include "rail/data/chunk.h"
#include "rail/data/peer_lanes.h"
#include "rail/data/throttle.h"
#include "rail/params.h"

#include <errno.h>

/* If no lane can accept work, the choice is repeated after a completion for the
 * peer, or after this time. The time limit covers completions for other peers,
 * which also free capacity on a rail, and lanes that mrail_sched_pick() keeps
 * waiting. */
#define MRAIL_RMA_PUMP_NS (20 * MRAIL_NS_PER_US)

static int mrail_lane_is_usable(const mrail_lane_t *lane)
{
    return !mrail_lane_is(lane, MRAIL_LANE_NO_WORK) && !lane->held &&
           !lane->uplink_down &&
           (mrail_lane_sq_free(lane) > lane->sq_depth / 4) &&
           (lane->rail->num_chunks < lane->rail->max_chunks) &&
           (lane->sched.inflight < (1ull << 30));
}

void mrail_rma_mark_usable(mrail_peer_t *peer)
{
    for (unsigned i = 0; i < peer->num_up; ++i) {
        peer->up[i]->sched.usable = mrail_lane_is_usable(peer->up[i]);
    }
}

/* Returns the lane for a whole operation, or NULL if no lane can accept it. An
 * operation stays on the primary lane, like a message of the same length, if
 * the rail carries it faster than this process can post it. */
static MRAIL_DATA mrail_lane_t *mrail_op_whole_lane(mrail_peer_t *peer,
                                                    size_t length)
{
    int index;

    if ((length < peer->am_spread) && mrail_lane_is_usable(peer->up[0])) {
        return peer->up[0];
    }
    mrail_rma_mark_usable(peer);
    index = mrail_sched_pick_whole(peer->sched, peer->num_up, length);
    return (index < 0) ? NULL : peer->up[index];
}

/* Posts the whole operation on one lane. Returns 1 if it was posted, otherwise
 * 0. */
static MRAIL_DATA int mrail_op_pump_whole(mrail_op_t *op, mrail_ns_t now_ns)
{
    mrail_peer_t *peer = op->peer;
    size_t length = op->left;
    mrail_lane_t *lane = mrail_op_whole_lane(peer, length);

    if ((lane == NULL) || (mrail_chunk_post(op, lane, length, now_ns) != 0)) {
        return 0;
    }
    peer->uncut_bytes -= length;
    return 1;
}

/* A remainder of a rail's quota below this size does not become a chunk of its
 * own. */
#define MRAIL_RMA_QUOTA_MIN (16u << 10)

/* Returns a mask of the rails that lead to the peer: rails with a lane in use
 * or on hold. A rail on which no lane has come up yet also counts, because its
 * lane may still be connecting. */
static MRAIL_DATA uint32_t mrail_peer_rails(const mrail_peer_t *peer)
{
    uint64_t held = __atomic_load_n(&peer->held_mask, __ATOMIC_RELAXED);
    uint32_t rails = ~peer->rails_used;

    for (unsigned i = 0; i < peer->num_up; ++i) {
        rails |= 1u << peer->up[i]->rail->index;
    }
    for (; held != 0; held &= held - 1) {
        unsigned slot = (unsigned)__builtin_ctzll(held);

        rails |= 1u << peer->pairs[(peer->base + slot) % peer->num_pairs].local;
    }
    return rails;
}

static int mrail_rail_is_down(const mrail_rail_t *rail)
{
    return __atomic_load_n(&rail->port_down, __ATOMIC_RELAXED) ||
           __atomic_load_n(&rail->fatal, __ATOMIC_RELAXED);
}

/* Returns the quota of the operation. Returns NULL if it has none or ignores it
 * (mrail.h). */
static MRAIL_DATA mrail_quota_t *mrail_op_quota(mrail_op_t *op,
                                                mrail_ns_t now_ns)
{
    const mrail_peer_t *peer = op->peer;
    const mrail_engine_t *engine = peer->engine;
    uint64_t left = 0;
    uint32_t rails;

    if ((op->quota == NULL) || op->ignores_quota) {
        return NULL;
    }
    rails = mrail_peer_rails(peer);
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        if ((rails & (1u << i)) && !mrail_rail_is_down(&engine->rails[i])) {
            left += op->quota->left[i];
        }
    }
    op->ignores_quota = (left < op->left) || (now_ns >= op->quota->until_ns);
    return op->ignores_quota ? NULL : op->quota;
}

/* Returns a chunk length that leaves no small remainder of the quota. */
static size_t mrail_quota_limit(uint64_t quota_left, size_t chunk, size_t left)
{
    if (quota_left < chunk + MRAIL_RMA_QUOTA_MIN) {
        chunk = quota_left;
    }
    return MRAIL_MIN(chunk, left);
}

/* Picks a lane of one rail, as if the peer had no other rails. The lanes of a
 * rail share its quota in the same way as lanes share an operation, so known
 * uplinks carry equal parts of it. */
static MRAIL_DATA int mrail_quota_pick_lane(const mrail_op_t *op, unsigned rail,
                                            const mrail_sched_params_t *params,
                                            mrail_ns_t now_ns, size_t *length_p)
{
    const mrail_peer_t *peer = op->peer;
    uint64_t left = op->quota->left[rail];
    mrail_sched_lane_t *lanes[MRAIL_MAX_SLOTS];
    unsigned count = 0, index[MRAIL_MAX_SLOTS];
    int picked;

    for (unsigned i = 0; i < peer->num_up; ++i) {
        if (peer->up[i]->rail->index == rail) {
            index[count] = i;
            lanes[count++] = peer->sched[i];
        }
    }
    if ((count == 0) || (left == 0)) {
        return -1;
    }
    picked = mrail_sched_pick(lanes, count, MRAIL_MIN(op->left, left), left,
                              params, now_ns, length_p);
    if (picked < 0) {
        return -1;
    }
    *length_p = mrail_quota_limit(left, *length_p, op->left);
    return (int)index[picked];
}

/* Picks a lane whose rail has quota left. */
static MRAIL_DATA int mrail_quota_pick(const mrail_op_t *op,
                                       const mrail_sched_params_t *params,
                                       mrail_ns_t now_ns, size_t *length_p)
{
    int index = -1;

    for (unsigned i = 0; (i < op->peer->engine->num_rails) && (index < 0);
         ++i) {
        index = mrail_quota_pick_lane(op, i, params, now_ns, length_p);
    }
    return index;
}

/* Posts as many chunks as the lanes can accept. Returns 1 if the operation is
 * completely posted, 0 if no lane can accept more, or -EAGAIN if a chunk cannot
 * be posted. */
static MRAIL_DATA int mrail_op_pump_cut(mrail_op_t *op, mrail_ns_t now_ns)
{
    mrail_peer_t *peer = op->peer;
    const mrail_config_t *config = &peer->engine->config;
    mrail_sched_params_t params = {
        .chunk = (config->rma_chunk_size == MRAIL_SIZE_AUTO)
                     ? 0
                     : config->rma_chunk_size,
        .window = (config->window == MRAIL_SIZE_AUTO) ? 0 : config->window,
        .equal_split = mrail_sched_equal_split(op->length, peer->num_up),
        .alone = (peer->num_slots == 1),
        .has_rules = (config->uplinks != MRAIL_SIZE_AUTO),
    };
    mrail_quota_t *quota = mrail_op_quota(op, now_ns);
    mrail_fair_share_t *fair_share;

    if (quota != NULL) {
        params.has_quota = 1;
        params.equal_split = 0; /* the rails carry unequal parts */
    }
    if (MRAIL_TELEMETRY && (now_ns >= peer->engine->fair_share_ns)) {
        mrail_throttle_poll(peer->engine, now_ns);
    }
    fair_share = mrail_throttle_fair_share(peer);
    while (op->left != 0) {
        size_t length = op->left;
        int index;

        mrail_rma_mark_usable(peer);
        if (quota != NULL) { /* a plan has already divided the rails */
            index = mrail_quota_pick(op, &params, now_ns, &length);
        } else {
            if (fair_share != NULL) {
                mrail_throttle_mark(peer, fair_share);
            }
            index =
                mrail_sched_pick(peer->sched, peer->num_up, op->left,
                                 peer->uncut_bytes, &params, now_ns, &length);
        }
        if (index < 0) {
            return 0;
        }
        if (mrail_chunk_post(op, peer->up[index], length, now_ns) != 0) {
            return -EAGAIN;
        }
        peer->uncut_bytes -= length;
        if (quota != NULL) {
            quota->left[peer->up[index]->rail->index] -= length;
            peer->sched[index]->quota_taken += length;
        } else {
            peer->sched[index]->taken += length;
        }
        if (fair_share != NULL) {
            mrail_fair_share_post(fair_share, peer->fair_share_class,
                                  peer->up[index]->rail->index, length);
        }
    }
    return 1;
}

/* Later operations may pass an operation whose quota waits for its rails,
 * because they may use other rails. Operations that share its quota wait for
 * the same rails. */
void mrail_rma_pump(mrail_peer_t *peer, mrail_ns_t now_ns)
{
    const mrail_quota_t *waiting = NULL;
    mrail_op_t *op, *next;

    if (mrail_peer_num_up(peer) == 0) {
        return;
    }
    mrail_list_for_each_safe(op, next, &peer->uncut, mrail_op_t, uncut) {
        int ret;

        if ((waiting != NULL) && (op->quota == waiting) && !op->ignores_quota) {
            continue;
        }
        ret = op->whole ? mrail_op_pump_whole(op, now_ns)
                        : mrail_op_pump_cut(op, now_ns);
        if (ret > 0) {
            mrail_list_del(&op->uncut);
            continue;
        }
        peer->pump_ns = now_ns + MRAIL_RMA_PUMP_NS;
        mrail_peer_activate(peer);
        if ((ret < 0) || (op->quota == NULL) || op->ignores_quota) {
            return;
        }
        waiting = op->quota;
    }
}

void mrail_rma_poll(mrail_peer_t *peer, mrail_ns_t now_ns)
{
    if (now_ns >= peer->pump_ns) {
        mrail_rma_pump(peer, now_ns);
    }
}
