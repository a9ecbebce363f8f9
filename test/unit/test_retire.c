/*
 * Taking lanes back, step by step: an engine on fake verbs, and a peer that the
 * test plays.  The control messages and data headers that the engine sends are
 * caught at the device.
 */
#include "config.h"
#include "test/fuzz/fake_engine.h"

#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define PEER 0x1000ull /* id of the first */
#define COOKIE 0xc00c1eull
#define LANES 4 /* to a peer: two rails x two */
#define SENT_MAX 4096

typedef struct sent {
    mrail_ctl_msg_t msgs[SENT_MAX];
    unsigned num_msgs;
    uint16_t credit[64]; /* of the last header, by lane index */
    int (*post)(struct ibv_qp *qp, struct ibv_send_wr *wr,
                struct ibv_send_wr **bad);
} sent_t;

static mrail_engine_t *engine;
static mrail_iface_t *ifaces[2];
static sent_t sent;
static void (*in_callback)(void);

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                     struct ibv_send_wr **bad)
{
    const void *data = (wr->num_sge == 0)
                           ? NULL
                           : (const void *)(uintptr_t)wr->sg_list[0].addr;

    if (qp->qp_type == IBV_QPT_UD) {
        assert_true(sent.num_msgs < SENT_MAX);
        assert_int_equal(mrail_ctl_decode(&sent.msgs[sent.num_msgs++], data,
                                          wr->sg_list[0].length),
                         0);
    } else if ((wr->opcode == IBV_WR_SEND) && (data != NULL)) {
        for (unsigned i = 0; i < engine->num_lanes; ++i) {
            if ((engine->lanes[i] != NULL) && (engine->lanes[i]->qp == qp)) {
                sent.credit[i] =
                    be16toh(((const mrail_data_hdr_t *)data)->credit);
            }
        }
    }
    return sent.post(qp, wr, bad);
}

/* ---- the engine ---------------------------------------------------------- */

static void on_am(void *arg, uint8_t am_id, void *data, size_t length)
{
    if (in_callback != NULL) {
        void (*func)(void) = in_callback;

        in_callback = NULL;
        func();
    }
}

static void on_complete(void *arg, void *comp, int status)
{
}

static void progress(void)
{
    for (unsigned i = 0; i < 4; ++i) {
        fake_complete_all(engine, IBV_WC_SUCCESS);
        mrail_iface_progress(ifaces[0]);
    }
}

static void run_control(mrail_ns_t after_ns)
{
    fake_now_ns += after_ns;
    mrail_ctl_run(engine, fake_now_ns);
    fake_reap(engine);
}

static void start(unsigned max_qps)
{
    static const mrail_iface_params_t params = {.am = on_am,
                                                .complete = on_complete};
    mrail_config_t config;

    fake_engine_quiet();
    memset(&sent, 0, sizeof(sent));
    assert_int_equal(mrail_config_from_env(&config), 0);
    config.max_qps = max_qps;
    config.lanes_per_rail = 2;
    config.am_credits = 16;
    assert_int_equal(mrail_engine_open(&config, &engine), 0);
    mrail_config_cleanup(&config);
    engine->id = 0x5e1f;
    for (unsigned i = 0; i < 2; ++i) {
        assert_int_equal(mrail_iface_create(engine, &params, &ifaces[i]), 0);
        sent.post = (i == 0) ? engine->rails[0].ctx->ops.post_send : sent.post;
        engine->rails[i].ctx->ops.post_send = post_send;
    }
}

static int teardown(void **state)
{
    if (engine != NULL) {
        for (unsigned i = 0; i < 2; ++i) {
            mrail_iface_destroy(ifaces[i]);
        }
        mrail_engine_close(engine);
        engine = NULL;
    }
    in_callback = NULL;
    return 0;
}

/* ---- the peers ----------------------------------------------------------- */

static mrail_peer_t *peer_of(unsigned who)
{
    return mrail_peer_find(engine, PEER + who);
}

static void say(unsigned who, mrail_ctl_msg_t *msg)
{
    uint8_t buf[MRAIL_CTL_MAX_SIZE];
    size_t length = fake_encode(engine, msg, PEER + who, COOKIE + who, buf);

    mrail_ctl_receive(engine, &engine->rails[0], buf, length);
    run_control(0);
}

static void say_hello(unsigned who)
{
    mrail_ctl_msg_t msg;

    fake_hello(&msg, 2);
    say(who, &msg);
}

static void say_lane(unsigned who, mrail_ctl_type_t type, unsigned slot,
                     uint32_t seq, uint16_t epoch)
{
    mrail_ctl_msg_t msg;

    fake_lane_msg(&msg, type, slot, seq, epoch);
    say(who, &msg);
}

static void refuse(unsigned who, unsigned slot, uint32_t seq, unsigned reason)
{
    mrail_ctl_msg_t msg = {
        .type = MRAIL_CTL_REFUSE,
        .seq = seq,
        .refuse = {.slot = (uint16_t)slot, .reason = (uint16_t)reason}};

    say(who, &msg);
}

/* The last message of that type; NULL: none. */
static const mrail_ctl_msg_t *last(mrail_ctl_type_t type)
{
    for (unsigned i = sent.num_msgs; i-- != 0;) {
        if (sent.msgs[i].type == type) {
            return &sent.msgs[i];
        }
    }
    return NULL;
}

/* With its first `count` lanes up. */
static void connect_lanes(unsigned who, unsigned count)
{
    say_hello(who);
    for (unsigned slot = 0; slot < count; ++slot) {
        say_lane(who, MRAIL_CTL_LANE_REQ, slot, 10 + slot, 5);
        say_lane(who, MRAIL_CTL_LANE_READY, slot, 10 + slot, 5);
        assert_int_equal(peer_of(who)->lanes[slot]->state, MRAIL_LANE_UP);
    }
    progress();
}

/* The peer lets go of all that it was asked for. */
static void confirm_all(unsigned who)
{
    for (unsigned i = 0; i < sent.num_msgs; ++i) {
        if (sent.msgs[i].type == MRAIL_CTL_RETIRE) {
            say_lane(who, MRAIL_CTL_CONFIRM, sent.msgs[i].lane.slot,
                     sent.msgs[i].seq, sent.msgs[i].lane.epoch);
        }
    }
    progress();
}

static void message(unsigned who, unsigned slot, unsigned iface)
{
    mrail_peer_t *peer = peer_of(who);
    mrail_lane_t *lane = peer->lanes[slot];
    mrail_data_hdr_t hdr = {.version = MRAIL_WIRE_VERSION,
                            .type = MRAIL_DATA_AM,
                            .tag = lane->rx_tag,
                            .seq = htobe32(peer->rx_next),
                            .ack = htobe32(peer->tx_next),
                            .credit = htobe16(lane->am_limit),
                            .iface = htobe16(ifaces[iface]->id)};

    assert_true(fake_deliver(lane->qp, &hdr, sizeof(hdr), IBV_WC_SUCCESS));
}

/* Slot 1 is let go of here, and the peer has been asked: the request. */
static uint32_t let_go(unsigned who)
{
    pthread_mutex_lock(&engine->ctl_lock);
    peer_of(who)->lanes[1]->retire_own = 1;
    mrail_retire_ask(peer_of(who)->lanes[1]);
    pthread_mutex_unlock(&engine->ctl_lock);
    progress();
    run_control(0);
    assert_int_equal(peer_of(who)->lanes[1]->state, MRAIL_LANE_RETIRING);
    assert_non_null(last(MRAIL_CTL_RETIRE));
    return last(MRAIL_CTL_RETIRE)->seq;
}

/* ---- tests --------------------------------------------------------------- */

static void test_agreed(void **state)
{
    uint32_t seq;

    start(64);
    connect_lanes(0, 2);
    seq = let_go(0);
    say_lane(0, MRAIL_CTL_CONFIRM, 1, seq, 5);
    progress();
    assert_null(peer_of(0)->lanes[1]);
    assert_int_equal(engine->counters.lanes_retired, 1);
}

/* The peer used the lane until it confirmed; its message waits for an iface
 * that does not call. */
static void test_inbox_keeps_lane(void **state)
{
    uint32_t seq;

    start(64);
    connect_lanes(0, 2);
    seq = let_go(0);
    message(0, 1, 1);
    progress();
    assert_false(mrail_list_empty(&ifaces[1]->inbox));
    say_lane(0, MRAIL_CTL_CONFIRM, 1, seq, 5);
    progress();
    assert_non_null(peer_of(0)->lanes[1]);
    mrail_iface_progress(ifaces[1]);
    progress();
    assert_null(peer_of(0)->lanes[1]);
}

/* ... or its buffer for others, to go back together. */
static void test_batch_keeps_lane(void **state)
{
    uint32_t seq;

    start(64);
    connect_lanes(0, 2);
    connect_lanes(1, 2);
    seq = let_go(0);
    message(0, 1, 0);
    mrail_iface_progress(ifaces[0]);
    assert_int_equal(engine->num_repost[1], 1);
    say_lane(0, MRAIL_CTL_CONFIRM, 1, seq, 5);
    message(1, 1, 0);
    mrail_iface_progress(ifaces[0]);
    for (unsigned i = 0; i < engine->num_repost[1]; ++i) {
        mrail_lane_t *lane = engine->repost[1][i]->lane;

        assert_true((lane == peer_of(1)->lanes[1]) ||
                    (lane == peer_of(0)->lanes[1]));
    }
}

static int lane_is_there;

/* No assertion here: it would leave with the guard taken. */
static void lane_goes(void)
{
    mrail_peer_t *peer = peer_of(0);

    pthread_mutex_lock(&engine->ctl_lock);
    peer->lanes[1]->retire_own = 1;
    mrail_retire_ask(peer->lanes[1]);
    pthread_mutex_unlock(&engine->ctl_lock);
    progress();
    run_control(0);
    if (last(MRAIL_CTL_RETIRE) != NULL) {
        say_lane(0, MRAIL_CTL_CONFIRM, 1, last(MRAIL_CTL_RETIRE)->seq, 5);
        progress();
    }
    lane_is_there = (peer->lanes[1] != NULL);
}

/* A callback that polls, while its message's lane is taken back. */
static void test_callback_keeps_lane(void **state)
{
    start(64);
    connect_lanes(0, 2);
    message(0, 1, 0);
    in_callback = lane_goes;
    mrail_iface_progress(ifaces[0]);
    assert_null(in_callback);
    assert_true(lane_is_there);
    progress();
}

/* Credits that became free while the lane was out of use. */
static void test_restored_tells_credits(void **state)
{
    mrail_lane_t *lane;
    uint32_t seq;

    start(64);
    connect_lanes(0, 2);
    lane = peer_of(0)->lanes[1];
    seq = let_go(0);
    for (unsigned i = 0; i < lane->credits; ++i) {
        message(0, 1, 0);
        mrail_iface_progress(ifaces[0]);
    }
    refuse(0, 1, seq, MRAIL_REASON_IN_USE);
    assert_int_equal(lane->state, MRAIL_LANE_UP);
    progress();
    progress();
    /* The peer has used all that it knows of. */
    assert_int_equal(sent.credit[lane->index], 2 * lane->credits);
}

/* A request that was refused is repeated, and then there is room; the peer has
 * forgotten it and asks anew. */
static void test_late_repeat(void **state)
{
    start(4);
    connect_lanes(0, 3);
    say_hello(1);
    say_lane(1, MRAIL_CTL_LANE_REQ, 0, 20, 7);
    say_lane(1, MRAIL_CTL_LANE_READY, 0, 20, 7);
    assert_int_equal(peer_of(1)->lanes[0]->state, MRAIL_LANE_UP);
    say_lane(1, MRAIL_CTL_LANE_REQ, 1, 21, 8);
    assert_non_null(last(MRAIL_CTL_REFUSE));
    assert_int_equal(last(MRAIL_CTL_REFUSE)->seq, 21);
    (void)let_go(0);
    confirm_all(0);
    assert_null(peer_of(0)->lanes[2]);         /* it was asked for, too */
    say_lane(1, MRAIL_CTL_LANE_REQ, 1, 21, 8); /* late */
    assert_int_equal(peer_of(1)->lanes[1]->state, MRAIL_LANE_ACCEPTING);
    sent.num_msgs = 0;
    for (unsigned i = 0; i < 100; ++i) {
        const mrail_ctl_msg_t *reply = last(MRAIL_CTL_LANE_REP);

        if ((reply != NULL) && (reply->seq >= 22)) {
            break;
        }
        say_lane(1, MRAIL_CTL_LANE_REQ, 1, 22 + i / 10, (uint16_t)(9 + i / 10));
        progress();
        run_control(500 * MRAIL_NS_PER_MS);
    }
    assert_int_equal(peer_of(1)->failed, 0);
    assert_non_null(last(MRAIL_CTL_LANE_REP));
    assert_true(last(MRAIL_CTL_LANE_REP)->seq >= 22);
}

/* As above, and the peer does not ask again: no reason to give it up. */
static void test_lane_not_wanted(void **state)
{
    start(64);
    connect_lanes(0, 1);
    say_lane(0, MRAIL_CTL_LANE_REQ, 1, 21, 8);
    assert_int_equal(peer_of(0)->lanes[1]->state, MRAIL_LANE_ACCEPTING);
    for (unsigned i = 0; i < 100; ++i) {
        run_control(500 * MRAIL_NS_PER_MS);
        progress();
        if (last(MRAIL_CTL_RETIRE) != NULL) {
            say_lane(0, MRAIL_CTL_CONFIRM, 1, last(MRAIL_CTL_RETIRE)->seq, 8);
            progress();
        }
    }
    assert_int_equal(peer_of(0)->failed, 0);
}

/* Lanes used since the last look are not asked for. */
static void test_used_is_not_idle(void **state)
{
    mrail_peer_t *peer;

    start(64);
    connect_lanes(0, LANES);
    peer = peer_of(0);
    for (unsigned slot = 1; slot < LANES; ++slot) {
        peer->lanes[slot]->scanned = 5;
        peer->lanes[slot]->used = (slot == 1) ? 5 : 6;
    }
    fake_now_ns += MRAIL_NS_PER_SEC;
    mrail_retire_make_room(engine, 0);
    assert_int_equal(peer->retire_mask, 1u << 1);
}

/* The process itself, as any other peer, gets a lane that is idle. */
static void test_self(void **state)
{
    uint8_t device[MRAIL_DEVICE_ADDR_SIZE], iface[MRAIL_IFACE_ADDR_SIZE];
    mrail_ep_t *ep;
    int ret = -EAGAIN, byte = 1;

    start(2);
    connect_lanes(0, 2);
    mrail_device_addr_pack(engine, device);
    mrail_iface_addr_pack(ifaces[0], iface);
    assert_int_equal(mrail_ep_create(ifaces[0], device, iface, NULL, &ep), 0);
    for (unsigned i = 0; (i < 100) && (ret == -EAGAIN); ++i) {
        ret = mrail_ep_am_short(ep, 1, NULL, 0, &byte, sizeof(byte));
        run_control(20 * MRAIL_NS_PER_MS);
        progress();
        if (last(MRAIL_CTL_RETIRE) != NULL) {
            say_lane(0, MRAIL_CTL_CONFIRM, 1, last(MRAIL_CTL_RETIRE)->seq, 5);
            progress();
        }
    }
    assert_int_equal(ret, 0);
    mrail_ep_destroy(ep);
}

/* Who has gone leaves its lanes to others. */
static void test_gone_gives_room(void **state)
{
    start(4);
    connect_lanes(0, 3);
    say(0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_BYE});
    progress();
    progress();
    assert_int_equal(peer_of(0)->dead, 2);
    for (unsigned who = 1; who <= 3; ++who) {
        say_hello(who);
        for (unsigned i = 0; i < 10; ++i) {
            say_lane(who, MRAIL_CTL_LANE_REQ, 0, 20, 7);
            progress();
            run_control(20 * MRAIL_NS_PER_MS);
        }
        assert_non_null(peer_of(who)->lanes[0]);
    }
}

/* Time passes; who has been asked for a sign of life gives one, or not. */
static void wait_for_peer(unsigned who, mrail_ns_t how_long, int lives)
{
    mrail_ns_t end_ns = fake_now_ns + how_long;

    while (fake_now_ns < end_ns) {
        unsigned seen = sent.num_msgs;

        run_control(20 * MRAIL_NS_PER_MS);
        progress();
        for (; lives && (seen < sent.num_msgs); ++seen) {
            if (sent.msgs[seen].type == MRAIL_CTL_PROBE) {
                say(who, &(mrail_ctl_msg_t){.type = MRAIL_CTL_PROBE_REP,
                                            .seq = sent.msgs[seen].seq});
            }
        }
    }
}

static unsigned count_sent(mrail_ctl_type_t type)
{
    unsigned count = 0;

    for (unsigned i = 0; i < sent.num_msgs; ++i) {
        count += (sent.msgs[i].type == type);
    }
    return count;
}

/* A peer that died without a word is not asked for a lane for ever, and its QPs
 * are others' then. */
static void test_silent_peer(void **state)
{
    start(64);
    connect_lanes(0, 2);
    (void)let_go(0);
    wait_for_peer(0, 60 * MRAIL_NS_PER_SEC, 0);
    assert_int_equal(peer_of(0)->failed, -ETIMEDOUT);
    assert_int_equal(peer_of(0)->dead, 2);
    assert_int_equal(engine->num_qps, 0);
    sent.num_msgs = 0;
    wait_for_peer(0, 60 * MRAIL_NS_PER_SEC, 0);
    assert_int_equal(sent.num_msgs, 0);
}

/* One that computes for minutes lives, keeps what it may use, and is not asked
 * twice a second all the time. */
static void test_slow_peer(void **state)
{
    mrail_lane_t *lane;
    uint32_t seq;

    start(64);
    connect_lanes(0, 2);
    lane = peer_of(0)->lanes[1];
    seq = let_go(0);
    wait_for_peer(0, 60 * MRAIL_NS_PER_SEC, 1);
    sent.num_msgs = 0;
    wait_for_peer(0, 300 * MRAIL_NS_PER_SEC, 1);
    assert_int_equal(peer_of(0)->failed, 0);
    assert_ptr_equal(peer_of(0)->lanes[1], lane);
    assert_int_equal(lane->state, MRAIL_LANE_RETIRING);
    assert_non_null(lane->qp);
    assert_in_range(count_sent(MRAIL_CTL_RETIRE), 30, 100);
    refuse(0, 1, seq, MRAIL_REASON_IN_USE);
    progress();
    assert_int_equal(lane->state, MRAIL_LANE_UP);
    wait_for_peer(0, 60 * MRAIL_NS_PER_SEC, 0); /* nothing is asked now */
    assert_int_equal(peer_of(0)->failed, 0);
}

/* A late request of an earlier life of the lane: the peer uses this one. */
static void test_earlier_life(void **state)
{
    mrail_lane_t *lane;
    uint32_t seq;

    start(64);
    connect_lanes(0, 2); /* slot 1: request 11, epoch 5 */
    say_lane(0, MRAIL_CTL_CONFIRM, 1, let_go(0), 5);
    progress();
    assert_null(peer_of(0)->lanes[1]);
    say_lane(0, MRAIL_CTL_LANE_REQ, 1, 30, 6);
    say_lane(0, MRAIL_CTL_LANE_READY, 1, 30, 6);
    progress();
    lane = peer_of(0)->lanes[1];
    seq = let_go(0);
    say_lane(0, MRAIL_CTL_LANE_REQ, 1, 11, 5); /* late */
    progress();
    assert_ptr_equal(peer_of(0)->lanes[1], lane);
    refuse(0, 1, seq, MRAIL_REASON_IN_USE);
    progress();
    assert_int_equal(lane->state, MRAIL_LANE_UP);
}

/* Who really has buried the lane says so at once, and gets a new one. */
static void test_next_life(void **state)
{
    uint32_t seq;

    start(64);
    connect_lanes(0, 2);
    seq = let_go(0);
    sent.num_msgs = 0;
    say_lane(0, MRAIL_CTL_LANE_REQ, 1, 30, 6);
    assert_non_null(last(MRAIL_CTL_REFUSE));
    assert_non_null(last(MRAIL_CTL_RETIRE)); /* asked again, not later */
    assert_int_equal(last(MRAIL_CTL_RETIRE)->seq, seq);
    say_lane(0, MRAIL_CTL_CONFIRM, 1, seq, 5);
    progress();
    assert_null(peer_of(0)->lanes[1]);
    say_lane(0, MRAIL_CTL_LANE_REQ, 1, 31, 7);
    say_lane(0, MRAIL_CTL_LANE_READY, 1, 31, 7);
    progress();
    assert_int_equal(peer_of(0)->lanes[1]->state, MRAIL_LANE_UP);
}

int main(int argc, char **argv)
{
#define TEST(_name) cmocka_unit_test_teardown(_name, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_agreed),
        TEST(test_used_is_not_idle),
        TEST(test_restored_tells_credits),
        TEST(test_late_repeat),
        TEST(test_lane_not_wanted),
        TEST(test_self),
        TEST(test_gone_gives_room),
        TEST(test_inbox_keeps_lane),
        TEST(test_batch_keeps_lane),
        TEST(test_callback_keeps_lane),
        TEST(test_silent_peer),
        TEST(test_slow_peer),
        TEST(test_earlier_life),
        TEST(test_next_life),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
