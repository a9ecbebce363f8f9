/*
 * Validates received control messages and carries them out. A message is
 * dropped and counted if it lacks this engine's cookie, or if its sender's
 * cookie is not the known one.
 */
#include "config.h"
#include "rail/conn/conn.h"

#include <errno.h>

typedef void (*mrail_ctl_handler_t)(mrail_peer_t *peer,
                                    const mrail_ctl_msg_t *msg);

static MRAIL_CTL void mrail_ctl_on_hello(mrail_peer_t *peer,
                                         const mrail_ctl_msg_t *msg)
{
    mrail_ctl_msg_t reply;

    mrail_ctl_fill_hello(peer->engine, &reply, MRAIL_CTL_HELLO_REP);
    reply.seq = msg->seq;
    /* Each answer uses the next pair of rails, because the rail of the HELLO
     * may work in one direction only. */
    mrail_ctl_send(peer, peer->reply_way + peer->hellos++, &reply);
}

/* Handles HELLO_REP. mrail_ctl_receive() has already stored the peer's
 * rails. */
static void mrail_ctl_on_hello_rep(mrail_peer_t *peer,
                                   const mrail_ctl_msg_t *msg)
{
}

static MRAIL_CTL void mrail_ctl_on_probe(mrail_peer_t *peer,
                                         const mrail_ctl_msg_t *msg)
{
    unsigned slot = msg->path.slot;

    /* The reply to a path probe takes the same path. A liveness check names no
     * path, and the path of a slot may use rails other than those of the
     * message. The reply then uses the message's rails, which are known to
     * work. */
    if ((slot < peer->slot_limit) && (peer->paths[slot].sport != 0) &&
        (slot % peer->num_pairs == peer->reply_way)) {
        mrail_ctl_send_path(peer, MRAIL_CTL_PROBE_REP, msg->seq, slot);
    } else {
        mrail_ctl_send_plain(peer, MRAIL_CTL_PROBE_REP, msg->seq,
                             mrail_ctl_reply_way(peer));
    }
}

static MRAIL_CTL void mrail_ctl_on_probe_rep(mrail_peer_t *peer,
                                             const mrail_ctl_msg_t *msg)
{
    if (msg->seq == peer->probe_request) {
        peer->probe_tries = 0;
    } else if ((peer->compare_request != 0) &&
               (msg->seq == peer->compare_request)) {
        peer->answer_ns = mrail_clock_now();
        peer->compare_request = 0;
    } else if (!mrail_path_answer(peer, msg->seq, mrail_clock_now())) {
        ++peer->engine->counters.ctl_unexpected;
    }
}

static MRAIL_CTL void mrail_ctl_on_bye(mrail_peer_t *peer,
                                       const mrail_ctl_msg_t *msg)
{
    mrail_ctl_peer_failed(peer, -ESHUTDOWN);
    mrail_ctl_work(peer);
}

/* Handles POLL. Only sets a flag: the control thread polls the lanes after it
 * has handled the datagrams and released the control lock. */
static void mrail_ctl_on_poll(mrail_peer_t *peer, const mrail_ctl_msg_t *msg)
{
    __atomic_store_n(&peer->engine->poll_requested, 1, __ATOMIC_RELEASE);
}

static MRAIL_CTL void mrail_ctl_on_move(mrail_peer_t *peer,
                                        const mrail_ctl_msg_t *msg)
{
    int is_back = (msg->type == MRAIL_CTL_MOVE_BACK);
    unsigned slot = is_back ? msg->path.slot : msg->move.slot;
    mrail_lane_t *lane = (slot < MRAIL_MAX_SLOTS) ? peer->lanes[slot] : NULL;

    if ((lane == NULL) || (msg->seq == 0)) {
        ++peer->engine->counters.ctl_unexpected;
    } else if (peer->engine->config.uplinks != MRAIL_SIZE_AUTO) {
        return; /* the port rules, which the peer does not know, apply */
    } else if (is_back) {
        mrail_move_back(lane, msg->seq, mrail_clock_now());
    } else {
        mrail_move_to(lane, msg->move.like, msg->seq, mrail_clock_now());
    }
}

/* Returns the peer that sent the message, or NULL if the message is not
 * valid. */
static MRAIL_CTL mrail_peer_t *mrail_ctl_find_peer(mrail_engine_t *engine,
                                                   const mrail_ctl_msg_t *msg)
{
    mrail_peer_t *peer;

    if (msg->dst_cookie != engine->cookie) {
        ++engine->counters.ctl_bad_cookie;
        return NULL;
    }
    if ((msg->src_id == engine->id) && ((msg->type == MRAIL_CTL_HELLO) ||
                                        (msg->type == MRAIL_CTL_HELLO_REP))) {
        ++engine->counters.ctl_unexpected; /* the process knows its own rails */
        return NULL;
    }
    peer = mrail_peer_find(engine, msg->src_id);
    if ((peer == NULL) && (mrail_peer_departed(engine, msg->src_id) != 0)) {
        ++engine->counters.ctl_unexpected; /* late */
        return NULL;
    }
    if ((peer == NULL) && (msg->type == MRAIL_CTL_HELLO)) {
        peer = mrail_peer_create(engine, msg->src_id);
        if (peer != NULL) {
            peer->cookie = msg->src_cookie;
        }
    }
    if ((peer != NULL) && (peer->cookie != msg->src_cookie)) {
        ++engine->counters.ctl_bad_cookie;
        return NULL;
    }
    return peer;
}

/* Returns 1 if the peer's rails must be stored from the message before a reply
 * needs them. */
static int mrail_ctl_teaches(const mrail_peer_t *peer,
                             const mrail_ctl_msg_t *msg)
{
    return (msg->type == MRAIL_CTL_HELLO) ||
           ((msg->type == MRAIL_CTL_HELLO_REP) &&
            (peer->state == MRAIL_PEER_HELLO));
}

/* Finds the rails of the request. Replies use the same rails. */
static void mrail_ctl_find_way(mrail_peer_t *peer, const mrail_rail_t *rail,
                               unsigned src_rail)
{
    peer->reply_way = 0;
    for (unsigned i = 0; i < peer->num_pairs; ++i) {
        unsigned index = mrail_peer_pair(peer, i);

        if ((peer->pairs[index].local == rail->index) &&
            (peer->pairs[index].remote == src_rail)) {
            peer->reply_way = i;
            return;
        }
    }
}

/* Notes whether the peer repeats a request. */
static MRAIL_CTL void mrail_ctl_note_request(mrail_peer_t *peer,
                                             const mrail_ctl_msg_t *msg)
{
    uint32_t *newest = &peer->newest_seq[msg->type == MRAIL_CTL_LANE_REP];

    if (mrail_seq32_before(*newest, msg->seq)) {
        *newest = msg->seq;
    } else {
        ++peer->reply_turn;
    }
}

static const struct {
    mrail_ctl_handler_t handler;
    int is_request; /* repeated until it is answered */
    int any_peer;   /* also accepted if the peer's rails are unknown */
    int lane_body;  /* the slot must be in range; LANE_REQ checks that itself */
} ctl_handlers[MRAIL_CTL_LAST] = {
    [MRAIL_CTL_HELLO] = {mrail_ctl_on_hello, 1, 1, 0},
    [MRAIL_CTL_HELLO_REP] = {mrail_ctl_on_hello_rep, 0, 1, 0},
    [MRAIL_CTL_LANE_REQ] = {mrail_ctl_on_lane_req, 1, 0, 1},
    [MRAIL_CTL_LANE_REP] = {mrail_ctl_on_lane_rep, 1, 0, 1},
    [MRAIL_CTL_LANE_READY] = {mrail_ctl_on_lane_ready, 0, 0, 1},
    [MRAIL_CTL_PROBE] = {mrail_ctl_on_probe, 1, 0, 0},
    [MRAIL_CTL_PROBE_REP] = {mrail_ctl_on_probe_rep, 0, 0, 0},
    [MRAIL_CTL_EVICT] = {mrail_ctl_on_evict, 1, 0, 1},
    [MRAIL_CTL_CONFIRM] = {mrail_ctl_on_confirm, 0, 0, 1},
    [MRAIL_CTL_FAIL] = {mrail_ctl_on_fail, 1, 0, 1},
    [MRAIL_CTL_REFUSE] = {mrail_ctl_on_refuse, 0, 0, 0},
    [MRAIL_CTL_BYE] = {mrail_ctl_on_bye, 0, 0, 0},
    [MRAIL_CTL_POLL] = {mrail_ctl_on_poll, 0, 0, 0},
    [MRAIL_CTL_MOVE] = {mrail_ctl_on_move, 0, 0, 0},
    [MRAIL_CTL_MOVE_BACK] = {mrail_ctl_on_move, 0, 0, 0},
};

void mrail_ctl_receive(void *arg, mrail_rail_t *rail, const void *data,
                       size_t length)
{
    mrail_engine_t *engine = arg;
    mrail_ctl_msg_t msg;
    mrail_peer_t *peer;
    int ret;

    ++engine->counters.ctl_received;
    ret = mrail_ctl_decode(&msg, data, length);
    if (ret != 0) {
        if (ret == -EPROTONOSUPPORT) {
            ++engine->counters.ctl_bad_version;
        } else {
            ++engine->counters.ctl_bad_format;
        }
        return;
    }
    peer = mrail_ctl_find_peer(engine, &msg);
    if (peer == NULL) {
        return;
    }
    if ((ctl_handlers[msg.type].handler == NULL) ||
        mrail_peer_has_failed(peer) ||
        (!ctl_handlers[msg.type].any_peer &&
         (peer->state != MRAIL_PEER_KNOWN)) ||
        (ctl_handlers[msg.type].lane_body &&
         (msg.lane.slot >= peer->slot_limit) &&
         (msg.type != MRAIL_CTL_LANE_REQ))) {
        ++engine->counters.ctl_unexpected;
        return;
    }
    if (mrail_ctl_teaches(peer, &msg)) {
        mrail_ctl_learn(peer, &msg);
    }
    mrail_ctl_find_way(peer, rail, msg.src_rail);
    if (ctl_handlers[msg.type].is_request) {
        mrail_ctl_note_request(peer, &msg);
    }
    if (rail->port_down) { /* the message suggests that the port is up, but may
                            * be older than its failure */
        __atomic_store_n(&rail->port_down, !mrail_rail_is_up(rail),
                         __ATOMIC_RELAXED);
    }
    mrail_trace("%s from peer %016llx on rail %u",
                mrail_ctl_type_name(msg.type), (unsigned long long)peer->id,
                rail->index);
    ctl_handlers[msg.type].handler(peer, &msg);
    mrail_ctl_work(peer); /* the message may have made other messages due */
    /* These messages create or connect a QP, which takes a long time. Let other
     * threads take the control lock before the next message. */
    rail->ud_pause |=
        (msg.type == MRAIL_CTL_LANE_REQ) || (msg.type == MRAIL_CTL_LANE_REP);
}
