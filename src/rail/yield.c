/*
 * Where peers that have work reach different rails: who yields on which.
 *
 * What is queued for all peers is known here, and shared out by rail/shares.h.
 * A lane that has to yield is not usable for the moment.  Nothing is kept about
 * lanes: who takes part, and with what rails, is found anew every turn.
 */
#include "config.h"
#include "rail/engine.h"

_Static_assert(MRAIL_MAX_RAILS <= MRAIL_SHARES_RAILS, "rails of a share");

static uint32_t yield_rails(const mrail_peer_t *peer)
{
    uint32_t rails = 0;

    for (unsigned i = 0; i < peer->num_up; ++i) {
        rails |= 1u << peer->up[i]->rail->index;
    }
    return rails;
}

/* The operation that waits, if it is one that is cut. */
static const mrail_op_t *yield_op(const mrail_peer_t *peer)
{
    const mrail_op_t *op;

    if (mrail_list_empty(&peer->uncut) || peer->dead || (peer->num_up == 0)) {
        return NULL;
    }
    op = mrail_list_head(&peer->uncut, mrail_op_t, uncut);
    return op->whole ? NULL : op;
}

static void yield_add(mrail_engine_t *engine, mrail_peer_t *peer)
{
    const mrail_op_t *op = yield_op(peer);
    mrail_flow_t flow;

    if (op != NULL) {
        flow = (op->kind == MRAIL_OP_PUT) ? MRAIL_FLOW_OUT : MRAIL_FLOW_IN;
        peer->share_flow = (uint8_t)flow;
        peer->share_turn = engine->shares[flow].turn;
        peer->share = (uint8_t)mrail_shares_add(
            &engine->shares[flow], yield_rails(peer), peer->uncut_bytes);
    }
}

static void yield_settle(mrail_engine_t *engine, mrail_flow_t flow,
                         mrail_ns_t now_ns)
{
    mrail_shares_rail_t rails[MRAIL_MAX_RAILS];

    for (unsigned i = 0; i < engine->num_rails; ++i) {
        const mrail_tele_flow_t *seen = &engine->rails[i].flows[flow];

        rails[i].rate = mrail_tele_flow_live(seen, now_ns);
        rails[i].moved = seen->moved;
        rails[i].done = seen->done;
    }
    mrail_shares_settle(&engine->shares[flow], rails, engine->num_rails);
}

void mrail_yield_turn(mrail_engine_t *engine, mrail_ns_t now_ns)
{
    mrail_peer_t *peer;

    engine->shares_ns = now_ns + MRAIL_SHARES_TURN_NS;
    for (unsigned flow = 0; flow < MRAIL_FLOWS; ++flow) {
        mrail_shares_begin(&engine->shares[flow], now_ns);
    }
    mrail_list_for_each(peer, &engine->active, mrail_peer_t, active)
    {
        yield_add(engine, peer);
    }
    for (unsigned flow = 0; flow < MRAIL_FLOWS; ++flow) {
        yield_settle(engine, (mrail_flow_t)flow, now_ns);
    }
}

static int yield_has_under_way(const mrail_peer_t *peer)
{
    for (unsigned i = 0; i < peer->num_up; ++i) {
        if (peer->up[i]->sched.inflight != 0) {
            return 1;
        }
    }
    return 0;
}

/* But for one that has nothing under way: a process may sleep until something
 * completes, and nothing of others need come after this. */
void mrail_yield_mark(mrail_peer_t *peer, const mrail_shares_t *shares)
{
    if (!yield_has_under_way(peer)) {
        return;
    }
    for (unsigned i = 0; i < peer->num_up; ++i) {
        mrail_lane_t *lane = peer->up[i];

        if (!mrail_shares_may(shares, peer->share, lane->rail->index)) {
            lane->sched.usable = 0;
        }
    }
}
