/*
 * Moves of lanes to other source ports. Decision 0020 describes which end moves
 * a lane, and why the reader holds the lane during a move. proto/port_move.h
 * decides which requests are carried out.
 *
 * There are two ways to change the port of a connected QP. mlx5 has a call for
 * it. For other devices, the send queue is drained (RTS -> SQD), and the QP is
 * restarted with a new path. Requests that are posted during this time wait.
 * Lanes of a device that supports neither keep their ports.
 */
#include "config.h"
#include "rail/conn/conn.h"

#include "orchestrator/ports.h"
#include "rail/verbs/port_control.h"
#include "telemetry/page.h"

#include <string.h>

#define MOVE_POLL (1 * MRAIL_NS_PER_MS)

static void mrail_move_done(mrail_lane_t *lane)
{
    mrail_peer_t *peer = lane->peer;
    mrail_path_t *path = &peer->paths[lane->slot];
    uint16_t before = lane->sport;

    lane->sport = mrail_port_move_done(&lane->move, before);
    if (lane->sport == before) {
        return; /* the move was undone in progress */
    }
    mrail_debug("peer %016llx lane %u moves from source port %u to %u",
                (unsigned long long)peer->id, lane->slot, before, lane->sport);
    mrail_page_event(peer->engine->page,
                     "lane %u to peer %016llx: source port %u -> %u (%s)",
                     lane->slot, (unsigned long long)peer->id, before,
                     lane->sport,
                     (peer->engine->config.uplinks == MRAIL_SIZE_AUTO)
                         ? "shares its path"
                         : "its own uplink works again");
    path->sport = lane->sport;
    path->moves += (path->moves < UINT16_MAX);
    ++peer->engine->counters.lanes_moved;
}

static void mrail_move_impossible(mrail_lane_t *lane, int err)
{
    int is_draining;

    lane->move.end_ns = 0;
    if (mrail_qp_state(lane->qp, &is_draining) != IBV_QPS_RTS) {
        return; /* the lane fails for another reason */
    }
    if (!lane->rail->ports_fixed) {
        lane->rail->ports_fixed = 1;
        mrail_info(
            "%s: lanes that share an uplink keep their source ports, because "
            "the device cannot change them: %s",
            lane->rail->attr.device, strerror(-err));
    }
}

static int mrail_move_is_possible(const mrail_lane_t *lane)
{
    int is_draining;

    return mrail_lane_is(lane, MRAIL_LANE_IN_USE) && !lane->rail->ports_fixed &&
           (mrail_qp_state(lane->qp, &is_draining) == IBV_QPS_RTS);
}

static MRAIL_CTL void mrail_move_start(mrail_lane_t *lane, uint16_t sport,
                                       uint32_t seq, int is_back,
                                       mrail_ns_t now_ns)
{
    int ret;

    mrail_port_move_begin(&lane->move, sport, seq, is_back, now_ns);
    if (mrail_port_control_set(lane->qp, lane->rail->attr.device, sport) == 0) {
        mrail_move_done(lane);
        return;
    }
    ret = mrail_qp_stop_sending(lane->qp);
    if (ret != 0) {
        mrail_move_impossible(lane, ret);
        return;
    }
    mrail_ctl_work(lane->peer);
}

/* Sets the new path of a drained QP, and restarts the QP. */
static void mrail_move_finish(mrail_lane_t *lane)
{
    mrail_peer_t *peer = lane->peer;
    struct ibv_ah_attr path;
    int ret, failed;

    mrail_rail_fill_ah(lane->rail, &peer->engine->config,
                       peer->rails[lane->remote_rail].gid,
                       mrail_ports_flow_label(lane->move.to), &path);
    failed = mrail_qp_set_path(lane->qp, &path);
    ret = mrail_qp_continue_sending(lane->qp);
    if (ret != 0) {
        lane->move.end_ns = 0;
        mrail_failover_request(lane, "its QP cannot be restarted after a port "
                                     "change");
    } else if (failed != 0) {
        mrail_move_impossible(lane, failed);
    } else {
        mrail_move_done(lane);
    }
}

mrail_ns_t mrail_move_run(mrail_lane_t *lane, mrail_ns_t now_ns)
{
    int is_draining = 1;
    enum ibv_qp_state state = IBV_QPS_ERR;

    if (mrail_lane_is(lane, MRAIL_LANE_CONNECTED)) {
        state = mrail_qp_state(lane->qp, &is_draining);
    }
    if ((state != IBV_QPS_SQD) && (state != IBV_QPS_UNKNOWN)) {
        lane->move.end_ns = 0; /* the lane has failed or is being evicted */
        return MRAIL_NS_NEVER;
    }
    if ((state == IBV_QPS_SQD) && !is_draining) {
        mrail_move_finish(lane);
        return MRAIL_NS_NEVER;
    }
    if (now_ns < lane->move.end_ns) {
        return now_ns + MOVE_POLL;
    }
    lane->move.end_ns = 0;
    if (lane->peer->engine->config.uplinks != MRAIL_SIZE_AUTO) {
        /* The lane could not return to its own port; try again later. */
        mrail_port_return_left(&lane->peer->paths[lane->slot].port_return,
                               now_ns);
    }
    if (mrail_qp_continue_sending(lane->qp) != 0) {
        mrail_failover_request(lane, "its send queue does not drain");
    }
    return MRAIL_NS_NEVER;
}

/* Chooses the source port for a move, which differs from the current one.
 * `like` is the slot of a lane on the same pair of rails, or
 * MRAIL_MOVE_RANDOM. */
static uint16_t mrail_move_choose(const mrail_lane_t *lane, unsigned like)
{
    mrail_peer_t *peer = lane->peer;
    const mrail_lane_t *other =
        (like < MRAIL_MAX_SLOTS) ? peer->lanes[like] : NULL;
    unsigned distance;

    if ((other != NULL) && mrail_lane_is(other, MRAIL_LANE_CONNECTED) &&
        (other->rail == lane->rail) &&
        (other->remote_rail == lane->remote_rail) &&
        (other->sport != lane->sport)) {
        return other->sport;
    }
    distance = 1 + mrail_rng_below(&peer->engine->rng, MRAIL_PORTS_COUNT - 1);
    return (uint16_t)(MRAIL_PORTS_FIRST +
                      (lane->sport - MRAIL_PORTS_FIRST + distance) %
                          MRAIL_PORTS_COUNT);
}

void mrail_move_to(mrail_lane_t *lane, unsigned like, uint32_t seq,
                   mrail_ns_t now_ns)
{
    uint32_t *newest_p = &lane->peer->paths[lane->slot].move_seq;

    if (mrail_port_move_request(&lane->move, newest_p, seq, now_ns) &&
        mrail_move_is_possible(lane)) {
        mrail_move_start(lane, mrail_move_choose(lane, like), seq, 0, now_ns);
    }
}

void mrail_move_home(mrail_lane_t *lane, uint16_t sport, mrail_ns_t now_ns)
{
    if ((sport != lane->sport) && mrail_move_is_possible(lane) &&
        mrail_port_move_request(&lane->move, NULL, 0, now_ns)) {
        mrail_move_start(lane, sport, 0, 0, now_ns);
    }
}

void mrail_move_back(mrail_lane_t *lane, uint32_t seq, mrail_ns_t now_ns)
{
    uint32_t *newest_p = &lane->peer->paths[lane->slot].move_seq;
    uint16_t sport =
        mrail_port_move_back(&lane->move, newest_p, seq, lane->sport);

    if ((sport != 0) && mrail_move_is_possible(lane)) {
        mrail_move_start(lane, sport, seq, 1, now_ns);
    }
}
