/*
 * Source ports of lanes, and of paths whose uplink fails. The port rules assign
 * a port to each path, and may drop all packets of a failed uplink. The path
 * then tries ports of other uplinks, and returns to its own port when the
 * uplink works again (proto/port_return.h). Control lock held.
 */
#include "config.h"
#include "rail/conn/conn.h"

#include "orchestrator/ports.h"

#include <errno.h>

/* Returns the port from which one end of the lane sends. */
static uint16_t mrail_ctl_port_of(const mrail_lane_t *lane, uint32_t nic,
                                  uint32_t other_nic)
{
    const mrail_peer_t *peer = lane->peer;
    const mrail_config_t *config = &peer->engine->config;
    unsigned uplinks = mrail_config_uplinks(config);
    unsigned lanes = mrail_config_lanes(config, peer->num_pairs);
    unsigned own =
        mrail_ports_own_lane(uplinks * config->spine_uplinks, lanes, nic,
                             other_nic, lane->slot / peer->num_pairs % lanes);

    return mrail_ports_lane_nested(uplinks, config->spine_uplinks, nic, lanes,
                                   own);
}

static uint16_t mrail_ctl_own_port(const mrail_lane_t *lane)
{
    return mrail_ctl_port_of(lane, lane->rail->attr.nic_index,
                             lane->peer->rails[lane->remote_rail].nic_index);
}

void mrail_ctl_choose_port(mrail_lane_t *lane)
{
    const mrail_peer_t *peer = lane->peer;
    const mrail_config_t *config = &peer->engine->config;
    const mrail_path_t *path = &peer->paths[lane->slot];
    uint32_t nic = lane->rail->attr.nic_index;
    uint32_t other_nic = peer->rails[lane->remote_rail].nic_index;
    unsigned spine;

    lane->sport = (path->turn != 0) ? path->sport : mrail_ctl_own_port(lane);
    mrail_ports_segment_of_nested(
        mrail_config_uplinks(config), config->spine_uplinks,
        mrail_ctl_port_of(lane, other_nic, nic), &lane->uplink, &spine);
}

void mrail_path_next_port(mrail_peer_t *peer, unsigned slot, mrail_ns_t now_ns)
{
    mrail_path_t *path = &peer->paths[slot];

    if ((path->health.state == MRAIL_HEALTH_PROBING) &&
        (path->num_probes != 0) && (slot < peer->num_pairs) &&
        (peer->unreachable_ns != 0)) {
        path->sport = mrail_rail_control_port(
            mrail_path_rail(peer, slot), &peer->engine->config, ++path->turn);
        /* Without port rules, the switches avoid a failed uplink, and
         * conn/move_decide.c balances the lanes. */
        if (peer->engine->config.uplinks != MRAIL_SIZE_AUTO) {
            mrail_port_return_left(&path->port_return, now_ns);
        }
    }
}

/* Sends a probe from the path's own port. An unanswered probe is repeated with
 * the same number, because the peer answers repeats over other uplinks. */
static MRAIL_CTL int mrail_own_port_probe(mrail_lane_t *lane,
                                          mrail_path_t *path)
{
    if (path->return_seq == 0) {
        path->return_seq = ++lane->peer->engine->ctl_seq;
    }
    return mrail_ctl_send_probe_from(lane->peer, path->return_seq, lane->slot,
                                     mrail_ctl_own_port(lane));
}

mrail_ns_t mrail_own_port_run(mrail_peer_t *peer, unsigned slot,
                              mrail_ns_t now_ns)
{
    mrail_path_t *path = &peer->paths[slot];
    mrail_lane_t *lane = peer->lanes[slot];

    if (now_ns < path->port_return.due_ns) {
        return path->port_return.due_ns;
    }
    if ((lane == NULL) || !mrail_lane_is(lane, MRAIL_LANE_IN_USE) ||
        (path->health.state != MRAIL_HEALTH_UP)) {
        mrail_port_return_postpone(&path->port_return, now_ns);
    } else if (mrail_port_return_probe(&path->port_return, now_ns) &&
               (mrail_own_port_probe(lane, path) == -EAGAIN)) {
        mrail_port_return_unsent(&path->port_return, now_ns);
    }
    return path->port_return.due_ns;
}

int mrail_own_port_answer(mrail_peer_t *peer, unsigned slot, uint32_t seq,
                          mrail_ns_t now_ns)
{
    mrail_path_t *path = &peer->paths[slot];

    if ((path->return_seq == 0) || (path->return_seq != seq)) {
        return 0;
    }
    path->return_seq = 0;
    if (mrail_port_return_answer(&path->port_return, now_ns)) {
        path->turn = 0; /* the next lane uses the own port as well */
        if (peer->lanes[slot] != NULL) {
            mrail_move_home(peer->lanes[slot],
                            mrail_ctl_own_port(peer->lanes[slot]), now_ns);
        }
    }
    return 1;
}
