/*
 * Throttling of lanes when busy peers reach different rails.
 *
 * This file collects the bytes queued for all peers, and
 * rail/proto/fair_share.h divides them. A throttled lane is temporarily
 * unusable. There is no per-lane state, because every period collects the busy
 * peers and their rails again.
 */
#include "config.h"
#include "rail/data/throttle.h"

_Static_assert(MRAIL_MAX_RAILS <= MRAIL_FAIR_SHARE_RAILS,
               "a fair share must cover all rails");

static uint32_t throttle_rails(const mrail_peer_t *peer)
{
    uint32_t rails = 0;

    for (unsigned i = 0; i < peer->num_up; ++i) {
        rails |= 1u << peer->up[i]->rail->index;
    }
    return rails;
}

/* Returns the first waiting operation, if it is split into chunks. */
static const mrail_op_t *throttle_op(const mrail_peer_t *peer)
{
    const mrail_op_t *op;

    if (mrail_list_empty(&peer->uncut) || peer->dead || (peer->num_up == 0)) {
        return NULL;
    }
    op = mrail_list_head(&peer->uncut, mrail_op_t, uncut);
    return op->whole ? NULL : op;
}

static void throttle_add(mrail_engine_t *engine, mrail_peer_t *peer)
{
    const mrail_op_t *op = throttle_op(peer);
    mrail_flow_t flow;

    if (op != NULL) {
        flow = (op->kind == MRAIL_OP_PUT) ? MRAIL_FLOW_OUT : MRAIL_FLOW_IN;
        peer->fair_share_direction = (uint8_t)flow;
        peer->fair_share_period = engine->fair_share[flow].period;
        peer->fair_share_class = (uint8_t)mrail_fair_share_add(
            &engine->fair_share[flow], throttle_rails(peer), peer->uncut_bytes);
    }
}

static void throttle_end_period(mrail_engine_t *engine, mrail_flow_t flow,
                                mrail_ns_t now_ns)
{
    mrail_fair_share_rail_t rails[MRAIL_MAX_RAILS];

    for (unsigned i = 0; i < engine->num_rails; ++i) {
        const mrail_tele_flow_t *seen = &engine->rails[i].flows[flow];

        rails[i].rate = mrail_tele_flow_live(seen, now_ns);
        rails[i].moved = seen->moved;
        rails[i].done = seen->done;
    }
    mrail_fair_share_end(&engine->fair_share[flow], rails, engine->num_rails);
}

void mrail_throttle_poll(mrail_engine_t *engine, mrail_ns_t now_ns)
{
    mrail_peer_t *peer;

    engine->fair_share_ns = now_ns + MRAIL_FAIR_SHARE_PERIOD_NS;
    for (unsigned flow = 0; flow < MRAIL_FLOWS; ++flow) {
        mrail_fair_share_begin(&engine->fair_share[flow], now_ns);
    }
    mrail_list_for_each(peer, &engine->active, mrail_peer_t, active) {
        throttle_add(engine, peer);
    }
    for (unsigned flow = 0; flow < MRAIL_FLOWS; ++flow) {
        throttle_end_period(engine, (mrail_flow_t)flow, now_ns);
    }
}

static int throttle_has_under_way(const mrail_peer_t *peer)
{
    for (unsigned i = 0; i < peer->num_up; ++i) {
        if (peer->up[i]->sched.inflight != 0) {
            return 1;
        }
    }
    return 0;
}

/* A peer without work in flight is not throttled, because this process may
 * sleep until the next completion, and there may be no other work to
 * complete. */
void mrail_throttle_mark(mrail_peer_t *peer,
                         const mrail_fair_share_t *fair_share)
{
    if (!throttle_has_under_way(peer)) {
        return;
    }
    for (unsigned i = 0; i < peer->num_up; ++i) {
        mrail_lane_t *lane = peer->up[i];

        if (!mrail_fair_share_may(fair_share, peer->fair_share_class,
                                  lane->rail->index)) {
            lane->sched.usable = 0;
        }
    }
}
