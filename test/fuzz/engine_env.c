#include "config.h"
#include "rail/conn/conn.h"
#include "rail/data/rma.h"
#include "rail/engine/engine.h"
#include "rail/mrail.h"
#include "rail/params.h"
#include "rail/proto/pairing.h"
#include "rail/proto/wire.h"
#include "rail/state/engine.h"
#include "rail/verbs/rail.h"
#include "engine_env.h"

#include <errno.h>

engine_env_t env;

static uint8_t user_memory[8192];

/* ---- ids ---- */

static uint64_t peer_id(unsigned i)
{
    return (i == ENV_PEERS - 1) ? env.engine->id : 0x1000 + i;
}

static uint64_t peer_cookie(unsigned i)
{
    return (i == ENV_PEERS - 1) ? env.engine->cookie : 0xc00c1e00 + i;
}

/* ---- callbacks ---- */

static void on_am(void *arg, uint8_t am_id, void *data, size_t length)
{
    const volatile uint8_t *p = data;

    FUZZ_CHECK(length + sizeof(mrail_data_hdr_t) <= env.engine->config.seg_size,
               "%zu bytes", length);
    if (length != 0) {
        (void)p[0];
        (void)p[length - 1];
    }
    ++env.delivered;
}

static void on_complete(void *arg, void *comp, int status)
{
    unsigned *count = comp;

    FUZZ_CHECK(++*count == 1, "an operation completed twice");
}

static void on_ep_failed(void *arg, mrail_ep_t *ep, int status)
{
}

/* ---- creation and cleanup ---- */

static void env_open(void)
{
    static const mrail_iface_params_t params = {
        .am = on_am, .complete = on_complete, .ep_failed = on_ep_failed};
    mrail_config_t config;
    uint8_t packed[4 + 4 * MRAIL_MAX_RAILS] = {0};

    fake_engine_quiet();
    FUZZ_CHECK(mrail_config_from_env(&config) == 0, "config");
    config.telemetry = 0;
    config.seg_size = 512;
    config.max_qps = 64;
    config.am_credits = 4;
    config.tx_queue_len = 16;
    config.lanes_per_rail = 2;
    FUZZ_CHECK(mrail_engine_open(&config, &env.engine) == 0, "engine");
    mrail_config_cleanup(&config);
    /* Replaces random values, so that an input has the same effects in every
     * run. */
    env.engine->id = 0x5e1f;
    env.engine->cookie = 0x600dc00c1e;
    FUZZ_CHECK(mrail_iface_create(env.engine, &params, &env.iface) == 0,
               "iface");
    FUZZ_CHECK(mrail_mem_reg(env.engine, user_memory, sizeof(user_memory),
                             &env.mem) == 0,
               "mem");
    mrail_rkey_pack(env.mem, packed);
    FUZZ_CHECK(mrail_rkey_unpack(packed, &env.rkey) == 0, "rkey");
}

FUZZ_UNTRACED
void env_start(const uint8_t *data, size_t size)
{
    if (env.engine == NULL) {
        env_open();
    }
    env.in = (fuzz_in_t){data, data + size};
    fake_now_ns = MRAIL_NS_PER_SEC;
    env.authenticated = env.injected = env.delivered = env.num_comps = 0;
    memset(env.comps, 0, sizeof(env.comps));
    fake_fail_in = 0;
    mrail_rng_init(&env.engine->rng, 1);
    env.engine->ctl_seq = 0;
    env.engine->epoch = 0;
    env.engine->next_base = 0;
    memset(&env.engine->counters, 0, sizeof(env.engine->counters));
}

/* ---- invariants ---- */

FUZZ_UNTRACED
static void check_lane(const mrail_lane_t *lane)
{
    const mrail_engine_t *engine = env.engine;

    FUZZ_CHECK(lane->index < engine->config.max_qps, "index");
    FUZZ_CHECK(lane->am.window <= MRAIL_AM_CREDITS_MAX, "credits");
    FUZZ_CHECK(lane->sq_posted - lane->sq_done <= lane->sq_depth,
               "lane %u: %u posted, %u done, depth %u", lane->index,
               lane->sq_posted, lane->sq_done, lane->sq_depth);
    FUZZ_CHECK((lane->sq_posted == 0) ||
                   ((lane->state != MRAIL_LANE_CONNECTING) &&
                    (lane->state != MRAIL_LANE_ACCEPTING)),
               "a request is posted on a lane in state %s",
               mrail_lane_state_name(lane->state));
    FUZZ_CHECK((lane->qp != NULL) ||
                   (!mrail_lane_is(lane, MRAIL_LANE_CONNECTED) &&
                    (lane->state != MRAIL_LANE_ACCEPTING)),
               "a lane without a QP is in state %s",
               mrail_lane_state_name(lane->state));
    FUZZ_CHECK(lane->remote_rail < MRAIL_MAX_RAILS, "remote rail");
}

FUZZ_UNTRACED
static void check_peer(mrail_peer_t *peer)
{
    mrail_rx_t *rx;
    unsigned held = 0, granted = 0;

    FUZZ_CHECK(!mrail_seq32_before(peer->am.tx_next, peer->am.tx_acked),
               "acked");
    FUZZ_CHECK((peer->num_pairs <= MRAIL_MAX_PAIRS) &&
                   (peer->num_slots <= MRAIL_MAX_SLOTS) &&
                   (peer->num_rails <= MRAIL_MAX_RAILS),
               "numbers");
    for (unsigned slot = 0; slot < MRAIL_MAX_SLOTS; ++slot) {
        if (peer->lanes[slot] != NULL) {
            check_lane(peer->lanes[slot]);
            granted += peer->lanes[slot]->am.window;
        }
        FUZZ_CHECK(!(peer->up_mask & (1ull << slot)) ||
                       (peer->lanes[slot]->qp != NULL),
                   "a lane without a QP is up");
    }
    mrail_list_for_each(rx, &peer->am.hold, mrail_rx_t, am.list) {
        held += (rx->lane != NULL); /* the other messages came over failed
                                     * lanes */
    }
    FUZZ_CHECK(held <= granted, "%u held, %u granted", held, granted);
}

FUZZ_UNTRACED
static void each_peer(void (*func)(mrail_peer_t *peer))
{
    mrail_peer_t *peer, *tmp;

    mrail_list_for_each_safe(peer, tmp, &env.engine->peers, mrail_peer_t,
                             list) {
        func(peer);
    }
}

FUZZ_UNTRACED
static void check_all(void)
{
    const mrail_engine_t *engine = env.engine;

    each_peer(check_peer);
    FUZZ_CHECK(engine->num_peers <= ENV_PEERS + env.authenticated, "%u peers",
               engine->num_peers);
    FUZZ_CHECK(env.delivered <= env.injected, "out of nothing");
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        FUZZ_CHECK(engine->rails[i].srq_used <= engine->rails[i].srq_depth,
                   "shared queue");
    }
}

/* ---- end of an input ---- */

static void peer_end(mrail_peer_t *peer)
{
    mrail_ctl_peer_failed(peer, -ESHUTDOWN);
}

/* A fuzz target has one thread, so the functions in this file take no locks. */
FUZZ_UNTRACED
static MRAIL_UNCHECKED void peer_drop(mrail_peer_t *peer)
{
    FUZZ_CHECK(mrail_list_empty(&peer->ops) &&
                   mrail_list_empty(&peer->flushes_pending) &&
                   mrail_list_empty(&peer->am.unacked),
               "a failed peer has work");
    mrail_list_del(&peer->work);
    mrail_heap_del(&env.engine->timers, &peer->timer);
    mrail_list_del(&peer->active);
    mrail_list_init(&peer->am.hold); /* the rails free its buffers */
    for (unsigned slot = 0; slot < MRAIL_MAX_SLOTS; ++slot) {
        mrail_lane_t *lane = peer->lanes[slot];

        if (lane != NULL) {
            mrail_list_del(&lane->ack_list);
            mrail_lane_destroy_qp(lane);
            free(lane);
        }
    }
    mrail_peer_free(peer);
}

FUZZ_UNTRACED
MRAIL_UNCHECKED void env_end(void)
{
    mrail_engine_t *engine = env.engine;

    check_all();
    fake_fail_in = 0;
    each_peer(peer_end);
    for (unsigned i = 0; i < 8; ++i) {
        fake_complete_all(engine, IBV_WC_WR_FLUSH_ERR);
        mrail_iface_progress(env.iface);
        mrail_ctl_run(engine, fake_now_ns);
    }
    for (unsigned i = 0; i < env.num_comps; ++i) {
        FUZZ_CHECK(env.comps[i] == 1, "operation %u completed %u times", i,
                   env.comps[i]);
    }
    for (unsigned i = 0; i < ENV_PEERS; ++i) {
        if (env.eps[i] != NULL) {
            mrail_ep_destroy(env.eps[i]);
            env.eps[i] = NULL;
        }
    }
    FUZZ_CHECK(mrail_list_empty(&env.iface->inbox), "inbox");
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        fake_srq_clear(engine->rails[i].srq);
        fake_cq_clear(engine->rails[i].cq);
        engine->rails[i].num_wc = engine->rails[i].next_wc = 0;
        mrail_rail_ud_reap(&engine->rails[i]);
        engine->rails[i].srq_used = 0;
        engine->rails[i].has_lanes = 0;
        engine->num_repost[i] = 0;
        FUZZ_CHECK(engine->rails[i].num_chunks == 0, "segments");
    }
    each_peer(peer_drop);
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        mrail_rail_free_buffers(&engine->rails[i]);
        engine->rails[i].srq_spare = 0;
    }
    memset(engine->lanes, 0, engine->config.max_qps * sizeof(*engine->lanes));
    engine->num_peers = engine->num_lanes = engine->num_dead = 0;
    engine->check_first = NULL;
    engine->num_lane_free = 0;
    engine->num_departed = 0;
    engine->evict_search_ns = 0;
    engine->recall_next = 0;
    mrail_lane_free_dropped(engine);
    FUZZ_CHECK(engine->num_qps == 0, "QPs");
    FUZZ_CHECK((engine->ops.num_used == 0) && (engine->chunks.num_used == 0) &&
                   (engine->flush_pool.num_used == 0) &&
                   (engine->groups.num_used == 0) &&
                   (engine->tx_small.num_used == 0) &&
                   (engine->tx_big.num_used == 0),
               "some resources were not released");
}

/* ---- control messages ---- */

static MRAIL_UNCHECKED mrail_peer_t *known_peer(unsigned i)
{
    return mrail_peer_find(env.engine, peer_id(i));
}

static mrail_lane_t *any_lane(mrail_peer_t *peer, uint8_t choice)
{
    return (peer == NULL) ? NULL : peer->lanes[choice % MRAIL_MAX_SLOTS];
}

static void fill_rail(mrail_wire_rail_t *rail, unsigned i, uint8_t choice)
{
    fake_wire_rail(rail, i, (choice >> 1) & 3);
    rail->gid[12] = (choice & 1) ? 10 : choice;
    rail->rate_mbps = (choice & 8) ? 0 : 1000;
    rail->nic_index = choice * 0x01010101u;
    rail->mtu = 1 + (choice >> 4) % 5;
}

static void fill_body(fuzz_in_t *in, mrail_ctl_msg_t *msg, mrail_peer_t *peer)
{
    uint8_t choice = fuzz_u8(in);
    mrail_lane_t *lane;

    if ((msg->type == MRAIL_CTL_HELLO) || (msg->type == MRAIL_CTL_HELLO_REP)) {
        msg->hello.num_rails = (choice & 0xf) + 1;
        msg->hello.seg_size = (choice & 0x40) ? 512 : fuzz_u8(in) * 4u;
        for (unsigned i = 0; i < msg->hello.num_rails; ++i) {
            fill_rail(&msg->hello.rails[i], i, (i < 4) ? fuzz_u8(in) : 0x51);
        }
        return;
    }
    lane = any_lane(peer, choice & 0x83);
    msg->lane.slot = (choice & 0x40) ? fuzz_u8(in) : (choice & 3);
    msg->lane.src_rail = (choice >> 2) & 3;
    msg->lane.dst_rail = (choice >> 4) & 3;
    choice = fuzz_u8(in);
    if ((lane != NULL) && (choice & 1)) {
        msg->seq = lane->request;
        msg->lane.epoch = lane->epoch;
    } else {
        msg->lane.epoch = choice;
    }
    if (msg->type == MRAIL_CTL_REFUSE) {
        msg->refuse.slot = choice >> 2;
        msg->refuse.reason = choice;
        return;
    }
    msg->lane.index = choice;
    msg->lane.credits = (choice & 2) ? 8 : (uint16_t)(choice << 8);
    msg->lane.qpn = 0x200 + choice;
    msg->lane.psn = choice;
}

static unsigned count_lanes(void)
{
    return env.engine->num_lanes + env.engine->num_qps * 1000;
}

/* Offset of the receiver's cookie in a message. Source: docs/wire.md. */
#define COOKIE_AT 8

static MRAIL_UNCHECKED void receive(const void *data, size_t length)
{
    unsigned peers = env.engine->num_peers, lanes = count_lanes();
    uint64_t cookie = htobe64(env.engine->cookie);
    int authenticated = (length >= COOKIE_AT + sizeof(cookie)) &&
                        (memcmp((const uint8_t *)data + COOKIE_AT, &cookie,
                                sizeof(cookie)) == 0);
    uint8_t *alone = calloc(1, MRAIL_MAX(length, (size_t)1));

    FUZZ_CHECK(alone != NULL, "out of memory");
    mrail_copy(alone, data, length);
    env.authenticated += (unsigned)authenticated;
    mrail_ctl_receive(env.engine, &env.engine->rails[0], alone, length);
    free(alone);
    FUZZ_CHECK(authenticated || ((peers == env.engine->num_peers) &&
                                 (lanes == count_lanes())),
               "a message without the cookie was accepted");
    fake_reap(env.engine);
}

void env_ctl_message(void)
{
    fuzz_in_t *in = &env.in;
    uint8_t selector = fuzz_u8(in), buf[MRAIL_CTL_MAX_SIZE];
    unsigned i = selector % ENV_PEERS;
    mrail_peer_t *peer = known_peer(i);
    mrail_ctl_msg_t msg;
    int length;

    memset(&msg, 0, sizeof(msg));
    msg.type = fuzz_u8(in) % (MRAIL_CTL_LAST + 1);
    msg.src_id = peer_id(i);
    msg.src_cookie = peer_cookie(i) ^ ((selector & 0x10) ? 1 : 0);
    msg.dst_cookie = env.engine->cookie ^ ((selector & 0x20) ? 1 : 0);
    msg.src_rail = (selector & 0x40) ? fuzz_u8(in) & 0xf : 0;
    msg.seq =
        ((selector & 4) && (peer != NULL)) ? peer->probe_request : selector & 8;
    fill_body(in, &msg, peer);
    length = mrail_ctl_encode(&msg, buf, sizeof(buf));
    if (length < 0) {
        return;
    }
    if (selector & 0x80) { /* truncated, or with one byte changed */
        uint8_t how = fuzz_u8(in);

        if (how & 1) {
            length -= MRAIL_MIN(length, how);
        } else {
            buf[(how >> 1) % length] ^= fuzz_u8(in);
        }
    }
    receive(buf, (size_t)length);
    check_all();
}

void env_ctl_raw(void)
{
    uint8_t buf[256] = {0};
    size_t length = fuzz_bytes(&env.in, buf, fuzz_u8(&env.in));

    receive(buf, length);
}

/* ---- messages on lanes ---- */

void env_am_message(void)
{
    fuzz_in_t *in = &env.in;
    uint8_t which = fuzz_u8(in), how = fuzz_u8(in);
    mrail_peer_t *peer = known_peer(which % 2);
    mrail_lane_t *lane = any_lane(peer, (which >> 1) & 3), *other;
    struct {
        mrail_data_hdr_t hdr;
        uint8_t data[600];
    } msg;
    uint32_t length = sizeof(msg.hdr) + ((how & 0x80) ? fuzz_u8(in) * 3u : 8);

    if ((lane == NULL) || (lane->qp == NULL) || (lane->qp->state < 2)) {
        return;
    }
    memset(&msg, 0, sizeof(msg));
    other = any_lane(known_peer((which >> 3) & 1), (which >> 4) & 3);
    other = ((how & 0x20) && (other != NULL)) ? other : lane;
    msg.hdr.version = MRAIL_WIRE_VERSION;
    msg.hdr.type = (how & 1) ? MRAIL_DATA_ACK : MRAIL_DATA_AM;
    msg.hdr.flags = (how >> 1) & 7;
    msg.hdr.am_id = which;
    msg.hdr.lane = htobe16((how == 0x24) ? fuzz_u16(in) : other->index);
    msg.hdr.epoch = htobe16(other->epoch);
    msg.hdr.seq = htobe32(peer->am.rx_next + ((how & 0x10) ? fuzz_u8(in) : 0u));
    msg.hdr.ack = htobe32((how & 0x40) ? peer->am.tx_acked + fuzz_u8(in) - 2u
                                       : peer->am.tx_next);
    msg.hdr.credit = htobe16((uint16_t)(lane->am.limit + (which >> 6)));
    if (which == 0xff) { /* random bytes */
        length = (uint32_t)fuzz_bytes(in, &msg, fuzz_u8(in));
    }
    env.injected += (unsigned)fake_deliver(
        lane->qp, &msg, MRAIL_MIN(length, sizeof(msg)),
        (which == 0xfe) ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS);
    if (how & 8) {
        mrail_iface_progress(env.iface);
        check_all();
    }
}

/* ---- operations of the program ---- */

static void make_ep(unsigned i, uint8_t choice)
{
    uint8_t device[MRAIL_DEVICE_ADDR_SIZE], iface[MRAIL_IFACE_ADDR_SIZE];
    mrail_wire_device_addr_t d = {.num_rails = 2,
                                  .subnet = (0xffffull << 32) | (10u << 24)};
    mrail_wire_iface_addr_t a = {.iface = env.iface->id,
                                 .ud_qpn = 0x88,
                                 .id = peer_id(i),
                                 .cookie = peer_cookie(i)};

    if (env.eps[i] != NULL) {
        return;
    }
    d.gid[10] = d.gid[11] = 0xff;
    d.gid[12] = (choice & 0x80) ? 230 : 10;
    d.gid[15] = 2;
    mrail_device_addr_encode(&d, device);
    mrail_iface_addr_encode(&a, iface);
    if (choice == 0x7f) {
        fuzz_bytes(&env.in, device, 4);
        fuzz_bytes(&env.in, iface, 8);
    }
    if (mrail_addr_is_reachable(env.engine, device, iface)) {
        mrail_ep_create(env.iface, device, iface, NULL, &env.eps[i]);
    }
}

static unsigned *next_comp(void)
{
    return &env.comps[env.num_comps];
}

static size_t pack(void *dest, void *arg)
{
    size_t most = env.engine->config.seg_size - sizeof(mrail_data_hdr_t);
    size_t length = MRAIL_MIN(*(uint8_t *)arg * 2u, most);

    memset(dest, 0x77, length);
    return length;
}

/* Counts an operation that returned -EINPROGRESS, and so must complete. */
static void count_comp(int ret)
{
    env.num_comps += (ret == -EINPROGRESS);
}

static void use_ep(mrail_ep_t *ep, uint8_t choice)
{
    mrail_iov_t iov = {user_memory, choice * 32u, env.mem};

    if (env.num_comps + 1 >= MRAIL_ARRAY_SIZE(env.comps)) {
        return;
    }
    switch (choice & 7) {
    case 0:
        mrail_ep_am_short(ep, 3, NULL, 0, user_memory, choice);
        break;
    case 1:
        mrail_ep_am_bcopy(ep, 4, pack, &choice);
        break;
    case 2:
        count_comp(
            mrail_ep_put_zcopy(ep, &iov, 1, 0x5000, env.rkey, next_comp()));
        break;
    case 3:
        count_comp(
            mrail_ep_get_zcopy(ep, &iov, 1, 0x5000, env.rkey, next_comp()));
        break;
    case 4:
        mrail_ep_put_short(ep, user_memory, choice, 0x5000, env.rkey);
        break;
    case 5:
        count_comp(mrail_ep_flush(ep, next_comp()));
        break;
    case 6:
        mrail_ep_fence(ep);
        break;
    default:
        mrail_ep_check(ep);
    }
}

MRAIL_UNCHECKED void env_do_something(void)
{
    fuzz_in_t *in = &env.in;
    uint8_t what = fuzz_u8(in), choice = fuzz_u8(in);
    mrail_engine_t *engine = env.engine;

    switch (what % 8) {
    case 0:
        make_ep((what >> 3) % ENV_PEERS, choice);
        break;
    case 1:
    case 2:
        if (env.eps[(what >> 3) % ENV_PEERS] != NULL) {
            use_ep(env.eps[(what >> 3) % ENV_PEERS], choice);
        }
        break;
    case 3:
        fake_now_ns += (mrail_ns_t)choice * 10 * MRAIL_NS_PER_MS;
        mrail_ctl_run(engine, fake_now_ns);
        fake_reap(engine);
        break;
    case 4:
        fake_fail_in = choice % 16;
        break;
    case 5:
        fake_complete_send(engine->rails[choice & 1].cq,
                           (choice > 0xf8) ? IBV_WC_RETRY_EXC_ERR
                                           : IBV_WC_SUCCESS);
        break;
    default:
        mrail_iface_progress(env.iface);
        check_all();
    }
}

/* ---- a valid start ---- */

static void say(mrail_ctl_msg_t *msg, unsigned peer)
{
    uint8_t buf[MRAIL_CTL_MAX_SIZE];

    receive(buf, fake_encode(env.engine, msg, peer_id(peer), peer_cookie(peer),
                             buf));
}

static void connect_peer(unsigned peer)
{
    mrail_ctl_msg_t msg;

    fake_hello(&msg, 2, 512);
    fill_rail(&msg.hello.rails[0], 0, 0x31);
    fill_rail(&msg.hello.rails[1], 1, 0x33);
    say(&msg, peer);
    for (uint16_t slot = 0; slot < 2; ++slot) {
        fake_lane_msg(&msg, MRAIL_CTL_LANE_REQ, slot, 10 + slot, 5);
        msg.lane.qpn = 0x300;
        say(&msg, peer);
        msg.type = MRAIL_CTL_LANE_READY;
        say(&msg, peer);
        FUZZ_CHECK(known_peer(peer)->lanes[slot]->state == MRAIL_LANE_UP,
                   "not up");
    }
    make_ep(peer, 0);
}

void env_connect(void)
{
    connect_peer(0);
    connect_peer(1);
}
