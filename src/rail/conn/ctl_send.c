/*
 * Builds control messages, and chooses the rail and the address handle for
 * them. ctl_run.c decides when to repeat them.
 *
 * All sending functions return 0 or -errno. -EAGAIN means that no send buffer
 * is free, and that no message was sent. It does not count as an attempt, and
 * the caller retries later. Any other error counts as a lost datagram.
 */
#include "config.h"
#include "rail/conn/conn.h"

#include "orchestrator/ports.h"
#include "rail/proto/pairing.h"

#include <errno.h>
#include <string.h>

static MRAIL_CTL int mrail_ctl_post(mrail_engine_t *engine, mrail_rail_t *rail,
                                    struct ibv_ah *ah, uint32_t qpn,
                                    mrail_ctl_msg_t *msg)
{
    uint8_t buf[MRAIL_CTL_MAX_SIZE];
    int length, ret;

    msg->src_rail = (uint8_t)rail->index;
    msg->src_id = engine->id;
    msg->src_cookie = engine->cookie;
    length = mrail_ctl_encode(msg, buf, sizeof(buf));
    if (length < 0) {
        return length;
    }
    ret = mrail_rail_ud_send(rail, ah, qpn, buf, (size_t)length);
    mrail_trace("%s to qp 0x%x on rail %u seq %u: %d",
                mrail_ctl_type_name(msg->type), qpn, rail->index, msg->seq,
                ret);
    engine->counters.ctl_sent += (ret == 0);
    return ret;
}

static MRAIL_CTL void mrail_ctl_drop_handle(mrail_rail_t *rail,
                                            mrail_handle_t *handle)
{
    if (handle->ah != NULL) {
        mrail_rail_destroy_ah(rail, handle->ah);
        handle->ah = NULL;
    }
}

void mrail_ctl_drop_boot_handles(mrail_peer_t *peer, const mrail_rail_t *rail)
{
    mrail_rail_t *rails = peer->engine->rails, *other;

    if (peer->boots == NULL) {
        return;
    }
    for (unsigned i = 0; i < peer->num_boots * MRAIL_MAX_RAILS; ++i) {
        other = &rails[i % MRAIL_MAX_RAILS];
        if ((rail == NULL) || (rail == other)) {
            mrail_ctl_drop_handle(
                other,
                &peer->boots[i / MRAIL_MAX_RAILS].handles[i % MRAIL_MAX_RAILS]);
        }
    }
}

void mrail_ctl_drop_handles(mrail_peer_t *peer, const mrail_rail_t *rail)
{
    mrail_rail_t *rails = peer->engine->rails, *other;

    mrail_ctl_drop_boot_handles(peer, rail);
    for (unsigned i = 0; i < peer->num_pairs; ++i) {
        other = &rails[peer->pairs[i].local];
        if ((rail == NULL) || (rail == other)) {
            mrail_ctl_drop_handle(other, &peer->pair_handles[i]);
        }
    }
    for (unsigned i = 0; i < peer->slot_limit; ++i) {
        other = &rails[peer->pairs[peer->paths[i].handle_pair].local];
        if ((rail == NULL) || (rail == other)) {
            mrail_ctl_drop_handle(other, &peer->paths[i].handle);
        }
    }
}

/* Creates the address handle, unless it exists with this source port. Returns 0
 * or -errno. */
static MRAIL_CTL int mrail_ctl_need_handle(mrail_engine_t *engine,
                                           mrail_rail_t *rail,
                                           const uint8_t gid[16],
                                           uint16_t sport,
                                           mrail_handle_t *handle)
{
    if (handle->sport != sport) {
        mrail_ctl_drop_handle(rail, handle);
    }
    if (handle->ah == NULL) {
        handle->ah = mrail_rail_create_ah(rail, &engine->config, gid, sport);
        handle->sport = sport;
    }
    if (handle->ah == NULL) {
        mrail_debug("%s: no address handle: %s", rail->attr.device,
                    strerror(errno));
        return -EIO;
    }
    return 0;
}

/* Sends a message over a pair of rails, with the address handle of the pair or
 * of a path. */
static MRAIL_CTL int mrail_ctl_send_pair(mrail_peer_t *peer, unsigned index,
                                         mrail_handle_t *handle, uint16_t sport,
                                         mrail_ctl_msg_t *msg)
{
    mrail_engine_t *engine = peer->engine;
    const mrail_rail_pair_t *pair = &peer->pairs[index];
    mrail_rail_t *rail = &engine->rails[pair->local];

    int ret = mrail_ctl_need_handle(engine, rail, peer->rails[pair->remote].gid,
                                    sport, handle);

    if (ret != 0) {
        return ret;
    }
    msg->dst_cookie = peer->cookie;
    return mrail_ctl_post(engine, rail, handle->ah,
                          peer->rails[pair->remote].ud_qpn, msg);
}

int mrail_ctl_send_by(mrail_peer_t *peer, unsigned way, mrail_ctl_msg_t *msg)
{
    mrail_engine_t *engine = peer->engine;
    unsigned index = mrail_peer_pair(peer, way);
    uint16_t sport =
        mrail_rail_control_port(&engine->rails[peer->pairs[index].local],
                                &engine->config, way / peer->num_pairs);

    return mrail_ctl_send_pair(peer, index, &peer->pair_handles[index], sport,
                               msg);
}

/* A repeated request is answered from the next source port, because the uplink
 * of the last port may drop replies. */
unsigned mrail_ctl_reply_way(const mrail_peer_t *peer)
{
    return peer->reply_way +
           peer->reply_turn % MRAIL_PORTS_MAX_UPLINKS * peer->num_pairs;
}

/* Tries rails with an outage last. */
int mrail_ctl_send(mrail_peer_t *peer, unsigned way, mrail_ctl_msg_t *msg)
{
    int ret = -EAGAIN, tried = 0;

    for (unsigned k = 0; (ret == -EAGAIN) && (k < peer->num_pairs); ++k) {
        if (!mrail_path_rail(peer, way + k)->outage) {
            ret = mrail_ctl_send_by(peer, way + k, msg);
            tried = 1;
        }
    }
    return tried ? ret : mrail_ctl_send_by(peer, way, msg);
}

void mrail_ctl_fill_hello(const mrail_engine_t *engine, mrail_ctl_msg_t *msg,
                          mrail_ctl_type_t type)
{
    memset(msg, 0, sizeof(*msg));
    msg->type = type;
    msg->hello.num_rails = engine->num_rails;
    msg->hello.seg_size = (uint32_t)engine->config.seg_size;
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        mrail_rail_describe(&engine->rails[i], &msg->hello.rails[i]);
    }
}

/* Sends to a peer for which only the address is known. */
static MRAIL_CTL int mrail_ctl_send_first(mrail_peer_t *peer, unsigned way,
                                          mrail_ctl_msg_t *msg)
{
    mrail_engine_t *engine = peer->engine;
    uint64_t local[MRAIL_MAX_RAILS], remote[MRAIL_BOOTS];
    mrail_rail_pair_t pair;
    mrail_rail_t *rail;
    mrail_boot_t *boot;
    int ret;

    for (unsigned i = 0; i < engine->num_rails; ++i) {
        local[i] = engine->rails[i].attr.subnet;
    }
    for (unsigned i = 0; i < peer->num_boots; ++i) {
        remote[i] = peer->boots[i].subnet;
    }
    pair =
        mrail_rails_try(local, engine->num_rails, remote, peer->num_boots, way);
    rail = &engine->rails[pair.local];
    boot = &peer->boots[pair.remote];
    ret = mrail_ctl_need_handle(
        engine, rail, boot->to.gid,
        mrail_rail_control_port(rail, &engine->config,
                                way / (engine->num_rails * peer->num_boots)),
        &boot->handles[rail->index]);
    if (ret != 0) {
        return ret;
    }
    msg->dst_cookie = peer->cookie;
    return mrail_ctl_post(engine, rail, boot->handles[rail->index].ah,
                          boot->to.ud_qpn, msg);
}

int mrail_ctl_send_hello(mrail_peer_t *peer, unsigned way)
{
    mrail_ctl_msg_t msg;
    int ret = -EAGAIN;

    mrail_ctl_fill_hello(peer->engine, &msg, MRAIL_CTL_HELLO);
    msg.seq = peer->request;
    if (peer->num_pairs != 0) { /* this end knows the peer's rails, but not vice
                                 * versa */
        return mrail_ctl_send(peer, way, &msg);
    }
    for (unsigned k = 0; (ret == -EAGAIN) && (k < peer->engine->num_rails);
         ++k) {
        ret = mrail_ctl_send_first(peer, way + k, &msg);
    }
    return ret;
}

static MRAIL_CTL int mrail_ctl_send_lane_by(mrail_lane_t *lane,
                                            mrail_ctl_type_t type, unsigned way)
{
    mrail_ctl_msg_t msg = {
        .type = type,
        .seq = lane->request,
        .lane = {.slot = lane->slot,
                 .index = lane->index,
                 .epoch = lane->epoch,
                 .credits = (type == MRAIL_CTL_EVICT)
                                ? lane->evict_forced
                                : (uint16_t)lane->am.window,
                 .src_rail = (uint8_t)lane->rail->index,
                 .dst_rail = lane->remote_rail,
                 .max_dest_rd_atomic = (uint8_t)lane->rail->max_dest_rd_atomic,
                 .qpn = lane->last_qpn,
                 .psn = lane->psn},
    };

    return mrail_ctl_send(lane->peer, way, &msg);
}

int mrail_ctl_send_lane(mrail_lane_t *lane, mrail_ctl_type_t type)
{
    return mrail_ctl_send_lane_by(lane, type, lane->tries);
}

int mrail_ctl_reply_lane(mrail_lane_t *lane, mrail_ctl_type_t type)
{
    return mrail_ctl_send_lane_by(lane, type, mrail_ctl_reply_way(lane->peer));
}

int mrail_ctl_send_refuse(mrail_peer_t *peer, unsigned slot, uint32_t seq,
                          mrail_ctl_reason_t reason)
{
    mrail_ctl_msg_t msg = {
        .type = MRAIL_CTL_REFUSE,
        .seq = seq,
        .refuse = {.slot = (uint16_t)slot, .reason = (uint16_t)reason},
    };

    return mrail_ctl_send(peer, mrail_ctl_reply_way(peer), &msg);
}

int mrail_ctl_send_fail(mrail_peer_t *peer, unsigned slot, uint16_t epoch)
{
    mrail_ctl_msg_t msg = {
        .type = MRAIL_CTL_FAIL,
        .seq = ++peer->engine->ctl_seq,
        .lane = {.slot = (uint16_t)slot, .epoch = epoch},
    };

    return mrail_ctl_send(peer, mrail_ctl_reply_way(peer), &msg);
}

int mrail_ctl_send_confirm(mrail_peer_t *peer, unsigned slot, uint16_t epoch,
                           uint32_t seq, uint16_t received)
{
    mrail_ctl_msg_t msg = {
        .type = MRAIL_CTL_CONFIRM,
        .seq = seq,
        .lane = {.slot = (uint16_t)slot, .epoch = epoch, .am_seq = received},
    };

    return mrail_ctl_send(peer, mrail_ctl_reply_way(peer), &msg);
}

/* Sends over the path of a slot, from source port `sport`, or from any port if
 * it is 0. */
static MRAIL_CTL int mrail_ctl_send_from(mrail_peer_t *peer, unsigned slot,
                                         uint16_t sport, mrail_ctl_msg_t *msg)
{
    mrail_path_t *path = &peer->paths[slot];
    unsigned pair = mrail_peer_pair(peer, slot);

    if (path->handle_pair != pair) {
        mrail_ctl_drop_handle(
            &peer->engine->rails[peer->pairs[path->handle_pair].local],
            &path->handle);
    }
    path->handle_pair = pair;
    if (sport == 0) { /* the path has not had a lane yet */
        sport = mrail_rail_control_port(
            &peer->engine->rails[peer->pairs[pair].local],
            &peer->engine->config, path->num_probes);
    }
    return mrail_ctl_send_pair(peer, pair, &path->handle, sport, msg);
}

static MRAIL_CTL int mrail_ctl_send_on_path(mrail_peer_t *peer, unsigned slot,
                                            mrail_ctl_msg_t *msg)
{
    return mrail_ctl_send_from(peer, slot, peer->paths[slot].sport, msg);
}

int mrail_ctl_send_path(mrail_peer_t *peer, mrail_ctl_type_t type, uint32_t seq,
                        unsigned slot)
{
    mrail_ctl_msg_t msg = {
        .type = type,
        .seq = seq,
        .path = {.slot = (uint16_t)slot},
    };

    return mrail_ctl_send_on_path(peer, slot, &msg);
}

int mrail_ctl_send_probe_from(mrail_peer_t *peer, uint32_t seq, unsigned slot,
                              uint16_t sport)
{
    mrail_ctl_msg_t msg = {
        .type = MRAIL_CTL_PROBE, .seq = seq, .path = {.slot = UINT16_MAX}};

    return mrail_ctl_send_from(peer, slot, sport, &msg);
}

int mrail_ctl_send_move(mrail_peer_t *peer, uint32_t seq, unsigned slot,
                        unsigned like)
{
    mrail_ctl_msg_t msg = {
        .type = MRAIL_CTL_MOVE,
        .seq = seq,
        .move = {.slot = (uint16_t)slot, .like = (uint16_t)like},
    };

    return mrail_ctl_send_on_path(peer, slot, &msg);
}

int mrail_ctl_send_plain(mrail_peer_t *peer, mrail_ctl_type_t type,
                         uint32_t seq, unsigned way)
{
    mrail_ctl_msg_t msg = {
        .type = type, .seq = seq, .path = {.slot = UINT16_MAX}};

    return mrail_ctl_send(peer, way, &msg);
}
