/*
 * Moves of lanes to other source ports, for switches without port rules
 * (UCX_MRAIL_UPLINKS is "auto"). orchestrator/repath.h decides from the rates
 * of the lanes on a pair of rails. This file measures the rates and changes the
 * port.
 *
 * Each end controls the ports of the data that it sends. The end that sends
 * PUTs therefore moves its own lane. The end that reads with GETs sees the
 * rates as well, and requests a move from the other end (MOVE). Losing the
 * request is harmless: if the lane stays slow, the evidence recurs and the
 * request is sent again.
 *
 * If the path of a QP changes while it answers READs, the rest of the data
 * takes another path, and packets overtake each other. The reader therefore
 * holds the lane before a MOVE: it posts nothing until its READs have
 * completed, and for a moment afterwards. See
 * docs/decisions/0020-ports-by-evidence.md.
 *
 * A connected QP changes its port in one of two ways. mlx5 has a call for it.
 * For other devices, the send queue is drained (RTS -> SQD), and the QP takes a
 * new path and continues. Requests posted in the meantime wait. A device that
 * can do neither keeps its ports.
 */
#include "config.h"
#include "rail/conn/move_lane.h"

#include "orchestrator/ports.h"
#include "rail/conn/ctl_work.h"
#include "rail/conn/lane_error.h"
#include "rail/verbs/ah.h"
#include "rail/verbs/port_control.h"
#include "telemetry/page.h"
#include "rail/verbs/qp.h"

#include <string.h>

#define MOVE_POLL (1 * MRAIL_NS_PER_MS)

static void mrail_move_done(mrail_lane_t *lane)
{
    mrail_peer_t *peer = lane->peer;

    mrail_debug("peer %016llx lane %u moves from source port %u to %u",
                (unsigned long long)peer->id, lane->slot, lane->sport,
                lane->move_sport);
    mrail_page_event(peer->engine->page,
                     "lane %u to peer %016llx: source port %u -> %u (shares "
                     "its path)",
                     lane->slot, (unsigned long long)peer->id, lane->sport,
                     lane->move_sport);
    lane->sport = lane->move_sport;
    peer->paths[lane->slot].sport = lane->sport;
    lane->move_ns = 0;
    ++peer->engine->counters.lanes_moved;
}

static void mrail_move_impossible(mrail_lane_t *lane, int err)
{
    int is_draining;

    lane->move_ns = 0;
    if (mrail_qp_state(lane->qp, &is_draining) != IBV_QPS_RTS) {
        return; /* the lane fails for another reason */
    }
    if (!lane->rail->ports_fixed) {
        lane->rail->ports_fixed = 1;
        mrail_info(
            "%s: lanes that share an uplink keep their source ports: the "
            "device cannot change them: %s",
            lane->rail->attr.device, strerror(-err));
    }
}

/* Starts a move. Returns 1 if the lane moves now. */
static MRAIL_CTL int mrail_move_start(mrail_lane_t *lane, uint16_t sport,
                                      mrail_ns_t now_ns)
{
    int ret, is_draining;

    if (!mrail_lane_is(lane, MRAIL_LANE_CONNECTED) || (lane->move_ns != 0) ||
        lane->rail->ports_fixed ||
        (mrail_qp_state(lane->qp, &is_draining) != IBV_QPS_RTS)) {
        return 0;
    }
    lane->move_sport = sport;
    lane->moved_ns = now_ns;
    lane->move_ns = now_ns + MOVE_TIMEOUT;
    if (mrail_port_control_set(lane->qp, lane->rail->attr.device, sport) == 0) {
        mrail_move_done(lane);
        return 1;
    }
    ret = mrail_qp_stop_sending(lane->qp);
    if (ret != 0) {
        mrail_move_impossible(lane, ret);
        return 0;
    }
    mrail_ctl_work(lane->peer);
    return 1;
}

/* Gives a drained QP its new path and restarts it. */
static void mrail_move_finish(mrail_lane_t *lane)
{
    mrail_peer_t *peer = lane->peer;
    struct ibv_ah_attr path;
    int ret, failed;

    mrail_rail_fill_ah(lane->rail, &peer->engine->config,
                       peer->rails[lane->remote_rail].gid,
                       mrail_ports_flow_label(lane->move_sport), &path);
    failed = mrail_qp_set_path(lane->qp, &path);
    ret = mrail_qp_continue_sending(lane->qp);
    if (ret != 0) {
        lane->move_ns = 0;
        mrail_failover_request(lane, "its source port cannot be changed");
    } else if (failed != 0) {
        mrail_move_impossible(lane, failed);
    } else {
        mrail_move_done(lane);
    }
}

mrail_ns_t mrail_move_run(mrail_lane_t *lane, mrail_ns_t now_ns)
{
    int is_draining;

    if (!mrail_lane_is(lane, MRAIL_LANE_CONNECTED) ||
        (mrail_qp_state(lane->qp, &is_draining) != IBV_QPS_SQD)) {
        lane->move_ns = 0; /* the lane has failed or is being evicted */
        return MRAIL_NS_NEVER;
    }
    if (!is_draining) {
        mrail_move_finish(lane);
        return MRAIL_NS_NEVER;
    }
    if (now_ns < lane->move_ns) {
        return now_ns + MOVE_POLL;
    }
    lane->move_ns = 0;
    if (mrail_qp_continue_sending(lane->qp) != 0) {
        mrail_failover_request(lane, "its send queue does not drain");
    }
    return MRAIL_NS_NEVER;
}

/* Chooses the source port for a move. like: a lane of the same pair of rails,
 * or MRAIL_MOVE_RANDOM. */
static uint16_t mrail_move_choose(const mrail_lane_t *lane, unsigned like)
{
    mrail_peer_t *peer = lane->peer;
    const mrail_lane_t *other =
        (like < MRAIL_MAX_SLOTS) ? peer->lanes[like] : NULL;

    if ((other != NULL) && mrail_lane_is(other, MRAIL_LANE_CONNECTED) &&
        (other->rail == lane->rail) &&
        (other->remote_rail == lane->remote_rail) &&
        (other->sport != lane->sport)) {
        return other->sport;
    }
    return (uint16_t)(MRAIL_PORTS_FIRST +
                      mrail_rng_below(&peer->engine->rng, MRAIL_PORTS_COUNT));
}

void mrail_move_to(mrail_lane_t *lane, unsigned like, uint32_t seq,
                   mrail_ns_t now_ns)
{
    uint16_t before = lane->sport;

    lane->undo_seq = seq;
    lane->undo_sport =
        mrail_move_start(lane, mrail_move_choose(lane, like), now_ns) ? before
                                                                      : 0;
}

void mrail_move_back(mrail_lane_t *lane, uint32_t seq, mrail_ns_t now_ns)
{
    uint16_t sport = lane->undo_sport;

    if ((sport != 0) && (lane->undo_seq == seq)) {
        lane->undo_sport = 0;
        (void)mrail_move_start(lane, sport, now_ns);
    }
}

/* Returns 1 if the lane may move. This requires switches without port rules,
 * and a minimum time since the last move. */
static int mrail_move_is_allowed(const mrail_lane_t *lane, mrail_ns_t now_ns)
{
    return (lane->peer->engine->config.uplinks == MRAIL_SIZE_AUTO) &&
           ((lane->moved_ns == 0) || (now_ns >= lane->moved_ns + MOVE_WINDOW));
}

void mrail_move_on_request(mrail_lane_t *lane, unsigned like, uint32_t seq,
                           mrail_ns_t now_ns)
{
    if (mrail_move_is_allowed(lane, now_ns)) {
        mrail_move_to(lane, like, seq, now_ns);
    }
}

void mrail_move_on_request_back(mrail_lane_t *lane, uint32_t seq,
                                mrail_ns_t now_ns)
{
    if ((seq != 0) && mrail_move_is_allowed(lane, now_ns)) {
        mrail_move_back(lane, seq, now_ns);
    }
}
