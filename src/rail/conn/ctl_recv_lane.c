#include "config.h"
#include "rail/conn/conn.h"

#include "rail/state/signals.h"

/* Returns the base pair of the initiator. */
static unsigned mrail_ctl_base_of(const mrail_peer_t *peer,
                                  const mrail_wire_lane_t *wire)
{
    return mrail_paths_base(peer, wire->slot, wire->dst_rail, wire->src_rail);
}

/* Accepts a lane request. Returns 0, or -1 if the QP cannot be created or
 * connected. */
static MRAIL_CTL int mrail_ctl_accept(mrail_lane_t *lane,
                                      const mrail_ctl_msg_t *msg)
{
    const mrail_wire_lane_t *wire = &msg->lane;
    mrail_rail_t *rail = &lane->peer->engine->rails[wire->dst_rail];

    if ((lane->qp != NULL) && (lane->rail != rail)) {
        mrail_lane_destroy_qp(lane);
    }
    if ((lane->qp == NULL) && (mrail_lane_create_qp(lane, rail) != 0)) {
        goto err;
    }
    lane->epoch = wire->epoch;
    lane->remote_rail = wire->src_rail;
    mrail_ctl_choose_port(lane);
    mrail_lane_event(lane, MRAIL_LANE_EV_ACCEPT, "requested");
    lane->request = msg->seq;
    if (!lane->peer->based) {
        mrail_paths_rebase(lane->peer, mrail_ctl_base_of(lane->peer, wire));
    }
    if (mrail_ctl_connect(lane, wire) == 0) {
        return 0;
    }

err:
    /* The slot then has neither a request nor a granted lane. */
    mrail_ctl_drop_request(lane, "no QP");
    return -1;
}

/* Returns 1 for a late repeat of a request that was already handled. This end
 * must refuse the repeat. If the request was refused, the peer does not expect
 * a lane. If its lane is gone, the peer would not know about a new lane. */
static int mrail_ctl_is_handled(const mrail_peer_t *peer,
                                const mrail_ctl_msg_t *msg)
{
    unsigned slot = msg->lane.slot;

    return ((peer->handled_mask >> slot) & 1) &&
           !mrail_seq32_before(peer->handled_seq[slot], msg->seq);
}

static void mrail_ctl_mark_handled(mrail_peer_t *peer,
                                   const mrail_ctl_msg_t *msg)
{
    if (!mrail_ctl_is_handled(peer, msg)) {
        peer->handled_mask |= 1ull << msg->lane.slot;
        peer->handled_seq[msg->lane.slot] = msg->seq;
    }
}

static MRAIL_CTL void mrail_ctl_refuse_request(mrail_peer_t *peer,
                                               const mrail_ctl_msg_t *msg,
                                               mrail_ctl_reason_t reason)
{
    if (reason != MRAIL_REASON_WAIT) {
        mrail_ctl_mark_handled(peer, msg);
    }
    mrail_ctl_send_refuse(peer, msg->lane.slot, msg->seq, reason);
}

/* Postpones the lane. For a first lane, the reply makes the peer wait. A
 * request for a further lane is refused, and the peer repeats it later. */
static MRAIL_CTL void mrail_ctl_put_off(mrail_peer_t *peer,
                                        const mrail_ctl_msg_t *msg)
{
    mrail_ctl_refuse_request(peer, msg,
                             mrail_ctl_is_first(peer, msg->lane.slot)
                                 ? MRAIL_REASON_WAIT
                                 : MRAIL_REASON_QP_BUDGET);
}

/* Refuses the lane for lack of QP budget. For a first lane, the reply makes the
 * peer wait if a QP can be freed. */
static MRAIL_CTL void mrail_ctl_refuse_lane(mrail_peer_t *peer,
                                            const mrail_ctl_msg_t *msg)
{
    if (mrail_ctl_is_first(peer, msg->lane.slot) &&
        !mrail_evict_lanes(peer->engine, 1)) {
        mrail_ctl_budget(peer->engine);
        mrail_ctl_refuse_request(peer, msg, MRAIL_REASON_QP_BUDGET);
    } else {
        mrail_ctl_put_off(peer, msg);
    }
}

/* Handles a request for a lane that this end has not requested. */
static MRAIL_CTL void mrail_ctl_take_request(mrail_lane_t *lane,
                                             const mrail_ctl_msg_t *msg)
{
    mrail_peer_t *peer = lane->peer;

    if (mrail_ctl_accept(lane, msg) != 0) {
        mrail_ctl_send_refuse(peer, msg->lane.slot, msg->seq,
                              MRAIL_REASON_RESOURCES);
    }
    mrail_ctl_mark_handled(peer, msg);
}

/* Handles a request for an existing lane: a repeat, or a request for a new lane
 * that replaces it. */
static MRAIL_CTL void mrail_ctl_repeat_request(mrail_lane_t *lane,
                                               const mrail_ctl_msg_t *msg)
{
    if (lane->request == msg->seq) {
        mrail_ctl_reply_lane(lane, MRAIL_CTL_LANE_REP);
    } else if ((lane->state == MRAIL_LANE_ACCEPTING) &&
               mrail_seq32_before(lane->request, msg->seq)) {
        /* The peer has sent a newer request, so it has given up the request
         * that this end accepted. */
        mrail_lane_event(lane, MRAIL_LANE_EV_SUPERSEDED, "requested again");
        mrail_ctl_put_off(lane->peer, msg);
    } else {
        ++lane->peer->engine->counters.ctl_unexpected;
    }
}

/* Adopts the base pair from a request for a further lane. A peer sends one only
 * after its first lane has come up, so the base pair is agreed, even if
 * LANE_READY was lost. This end's own request for a first lane is dropped,
 * because the peer would refuse it, and because it may occupy resources that
 * the requested lane needs. A first lane that this end has granted remains,
 * because the peer may have requested it later. */
static MRAIL_CTL void mrail_ctl_take_base(mrail_peer_t *peer,
                                          const mrail_wire_lane_t *wire)
{
    mrail_lane_t *first = peer->lanes[0];

    if (peer->based) {
        return;
    }
    mrail_paths_rebase(peer, mrail_ctl_base_of(peer, wire));
    peer->based = 1;
    if ((first != NULL) && (first->state == MRAIL_LANE_CONNECTING)) {
        mrail_ctl_drop_request(first, "the peer requests other lanes");
    }
}

void mrail_ctl_on_lane_req(mrail_peer_t *peer, const mrail_ctl_msg_t *msg)
{
    const mrail_wire_lane_t *wire = &msg->lane;
    mrail_lane_t *lane;

    /* A peer that is configured for more lanes per rail must do without the
     * excess lanes. */
    if ((wire->dst_rail >= peer->engine->num_rails) ||
        (wire->src_rail >= peer->num_rails) ||
        (wire->slot >= peer->slot_limit)) {
        mrail_ctl_send_refuse(peer, wire->slot, msg->seq, MRAIL_REASON_NO_RAIL);
        return;
    }
    if (wire->slot != 0) {
        mrail_ctl_take_base(peer, wire);
    }
    lane = peer->lanes[wire->slot];
    if ((lane != NULL) && ((lane->state == MRAIL_LANE_ACCEPTING) ||
                           mrail_lane_is(lane, MRAIL_LANE_CONNECTED))) {
        mrail_ctl_repeat_request(lane, msg);
    } else if ((lane != NULL) && (lane->state >= MRAIL_LANE_EVICTING) &&
               (lane->state <= MRAIL_LANE_REAPING)) {
        /* Either the peer has reaped the lane, or this is a late request of an
         * earlier epoch and the peer uses the lane. The answer to EVICT shows
         * which, so EVICT is repeated immediately. */
        lane->deadline_ns = 0;
        mrail_ctl_put_off(peer, msg);
    } else if (mrail_ctl_is_handled(peer, msg) ||
               (peer->based && (mrail_ctl_base_of(peer, wire) != peer->base)) ||
               peer->engine->rails[wire->dst_rail].port_down) {
        mrail_ctl_refuse_request(peer, msg, MRAIL_REASON_RESOURCES);
    } else if ((lane = mrail_ctl_get_lane(peer, wire->slot)) == NULL) {
        mrail_ctl_refuse_lane(peer, msg);
    } else if (lane->state > MRAIL_LANE_CONNECTING) {
        ++peer->engine->counters.ctl_unexpected;
    } else if ((lane->state == MRAIL_LANE_IDLE) ||
               (peer->engine->id >= peer->id)) {
        /* If two requests have crossed, the request of the end with the lower
         * id wins, and the other end answers it. */
        mrail_ctl_take_request(lane, msg);
    }
}

/* Returns the lane if the message is about its current epoch, or NULL. */
static mrail_lane_t *mrail_ctl_lane_of_epoch(mrail_peer_t *peer,
                                             const mrail_ctl_msg_t *msg)
{
    mrail_lane_t *lane = peer->lanes[msg->lane.slot];

    return ((lane != NULL) && (lane->epoch == msg->lane.epoch)) ? lane : NULL;
}

static int mrail_ctl_is_prev_epoch(const mrail_peer_t *peer,
                                   const mrail_ctl_msg_t *msg)
{
    const mrail_prev_epoch_t *past = &peer->prev_epochs[msg->lane.slot];

    return past->known && (past->epoch == msg->lane.epoch);
}

void mrail_ctl_on_lane_rep(mrail_peer_t *peer, const mrail_ctl_msg_t *msg)
{
    mrail_lane_t *lane = peer->lanes[msg->lane.slot];

    if (mrail_ctl_is_prev_epoch(peer, msg)) {
        ++peer->engine->counters.ctl_unexpected; /* late: that epoch is over */
        return;
    }
    if ((lane == NULL) || (lane->state == MRAIL_LANE_IDLE) ||
        ((lane->state == MRAIL_LANE_ACCEPTING) &&
         (lane->epoch != msg->lane.epoch))) {
        /* This end has given up the request, but the peer waits for LANE_READY,
         * so notify the peer. Otherwise, if this end has since accepted a
         * request of the peer, the two ends would wait for each other. */
        mrail_ctl_send_fail(peer, msg->lane.slot, msg->lane.epoch);
        return;
    }
    if ((lane->request != msg->seq) || (lane->epoch != msg->lane.epoch) ||
        (msg->lane.src_rail >= peer->num_rails)) {
        ++peer->engine->counters.ctl_unexpected;
        return;
    }
    if (lane->state == MRAIL_LANE_CONNECTING) {
        if (mrail_ctl_connect(lane, &msg->lane) != 0) {
            mrail_ctl_not_connected(lane);
            return;
        }
        mrail_ctl_lane_up(lane, "answered");
    }
    if (mrail_lane_is(lane, MRAIL_LANE_CONNECTED)) {
        mrail_ctl_reply_lane(lane, MRAIL_CTL_LANE_READY);
    }
}

void mrail_ctl_on_lane_ready(mrail_peer_t *peer, const mrail_ctl_msg_t *msg)
{
    mrail_lane_t *lane = mrail_ctl_lane_of_epoch(peer, msg);

    if ((lane != NULL) && (lane->state == MRAIL_LANE_ACCEPTING) &&
        (lane->request == msg->seq)) {
        mrail_ctl_lane_up(lane, "ready");
    }
}

void mrail_ctl_on_refuse(mrail_peer_t *peer, const mrail_ctl_msg_t *msg)
{
    static const char *const reasons[] = {
        [MRAIL_REASON_NONE] = "refused",
        [MRAIL_REASON_QP_BUDGET] = "the peer's UCX_MRAIL_MAX_QPS is used up",
        [MRAIL_REASON_RESOURCES] = "the peer's device has no QP or buffer left",
        [MRAIL_REASON_NO_RAIL] = "the peer has no rail with this number",
        [MRAIL_REASON_IN_USE] = "in use",
    };
    unsigned reason = msg->refuse.reason, slot = msg->refuse.slot;
    mrail_lane_t *lane = (slot < MRAIL_MAX_SLOTS) ? peer->lanes[slot] : NULL;

    if ((lane == NULL) || (lane->request != msg->seq)) {
        ++peer->engine->counters.ctl_unexpected;
    } else if ((lane->state == MRAIL_LANE_CONNECTING) &&
               (reason == MRAIL_REASON_WAIT)) {
        lane->tries = 1; /* the peer is alive, so keep trying */
        peer->unreachable_ns = peer->based ? peer->unreachable_ns : 0;
    } else if (lane->state == MRAIL_LANE_CONNECTING) {
        mrail_ctl_not_granted(
            lane, reason,
            (reason < MRAIL_ARRAY_SIZE(reasons)) ? reasons[reason] : "refused");
    } else {
        mrail_lane_event(lane, MRAIL_LANE_EV_REFUSE, "in use by the peer");
    }
}

void mrail_ctl_on_evict(mrail_peer_t *peer, const mrail_ctl_msg_t *msg)
{
    unsigned slot = msg->lane.slot, actions = MRAIL_LANE_DO_CONFIRM;
    mrail_lane_t *lane = mrail_ctl_lane_of_epoch(peer, msg);

    if ((lane != NULL) &&
        (((slot == 0) && mrail_lane_is(lane, MRAIL_LANE_CONNECTED)) ||
         ((lane->peer_refused != 0) &&
          !mrail_seq32_before(lane->peer_refused, msg->seq)))) {
        mrail_ctl_send_refuse(peer, slot, msg->seq, MRAIL_REASON_IN_USE);
        return;
    }
    if (lane != NULL) {
        if (lane->state == MRAIL_LANE_ACCEPTING) {
            mrail_ctl_lane_up(lane, "used by the peer");
        }
        actions = mrail_lane_event(lane, MRAIL_LANE_EV_EVICT, "EVICT received");
    }
    if (actions & MRAIL_LANE_DO_CHECK) {
        lane->peer_request = msg->seq;
        lane->evict_forced |= (msg->lane.credits != 0);
    }
    if (actions & MRAIL_LANE_DO_CONFIRM) {
        mrail_ctl_send_confirm(peer, slot, msg->lane.epoch, msg->seq, 0);
    }
    if (actions & MRAIL_LANE_DO_RECONNECT) {
        mrail_ctl_reconnect(lane, "the peer has given up the request");
    }
}

void mrail_ctl_on_confirm(mrail_peer_t *peer, const mrail_ctl_msg_t *msg)
{
    mrail_lane_t *lane = mrail_ctl_lane_of_epoch(peer, msg);

    if ((lane == NULL) || (lane->request != msg->seq)) {
        ++peer->engine->counters.ctl_unexpected;
        return;
    }
    mrail_lane_event(lane, MRAIL_LANE_EV_CONFIRM, "the peer confirms");
    if (mrail_lane_is(lane, MRAIL_LANE_CLOSES)) {
        lane->peer_has = (uint16_t)msg->lane.am_seq;
        mrail_wakeup_all(peer->engine, MRAIL_ARMED_OWN);
    }
}

void mrail_ctl_on_fail(mrail_peer_t *peer, const mrail_ctl_msg_t *msg)
{
    mrail_lane_t *lane = mrail_ctl_lane_of_epoch(peer, msg);
    unsigned slot = msg->lane.slot, actions = MRAIL_LANE_DO_CONFIRM;
    uint16_t received = mrail_ctl_is_prev_epoch(peer, msg)
                            ? peer->prev_epochs[slot].received
                            : 0;

    if (lane != NULL) {
        actions = mrail_lane_event(lane, MRAIL_LANE_EV_FAIL, "closed");
    }
    if ((lane != NULL) && (lane->state >= MRAIL_LANE_ACCEPTING)) {
        lane->confirm_wanted = 1;
        lane->peer_request = msg->seq;
        received = lane->am.received;
    }
    if (actions & MRAIL_LANE_DO_CONFIRM) {
        mrail_ctl_send_confirm(peer, slot, msg->lane.epoch, msg->seq, received);
    }
    if (actions & MRAIL_LANE_DO_RECONNECT) {
        mrail_ctl_reconnect(lane, "the peer's end has failed");
    } else if (actions & MRAIL_LANE_DO_FAIL_OVER) {
        mrail_path_event(peer, slot, MRAIL_HEALTH_CLOSED, mrail_clock_now());
        mrail_failover_request(lane, "closed by the peer");
    }
}
