/*
 * Tests lane windows: growth, credits that idle lanes return (RECALL,
 * RETURN), and shared receive queues that are too small for all lanes.
 */
#include "config.h"
#include "mock_peer.h"

#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* The last data header that the engine sent, and the QP of its lane. */
static mrail_data_hdr_t last_hdr;
static const struct ibv_qp *last_qp;
static unsigned num_recalls[64]; /* indexed by the lane's number */
static int (*next_post)(struct ibv_qp *qp, struct ibv_send_wr *wr,
                        struct ibv_send_wr **bad);

static int keep_header(struct ibv_qp *qp, struct ibv_send_wr *wr,
                       struct ibv_send_wr **bad)
{
    if ((wr->opcode == IBV_WR_SEND) && (wr->num_sge != 0) &&
        (qp->qp_type == IBV_QPT_RC)) {
        memcpy(&last_hdr, (const void *)(uintptr_t)wr->sg_list[0].addr,
               sizeof(last_hdr));
        last_qp = qp;
        for (unsigned i = 0; i < engine->num_lanes; ++i) {
            num_recalls[i] += (engine->lanes[i] != NULL) &&
                              (engine->lanes[i]->qp == qp) &&
                              (last_hdr.flags & MRAIL_DATA_RECALL);
        }
    }
    return next_post(qp, wr, bad);
}

static void start_with_queue(unsigned srq_depth)
{
    start(64);
    memset(&last_hdr, 0, sizeof(last_hdr));
    last_qp = NULL;
    memset(num_recalls, 0, sizeof(num_recalls));
    next_post = engine->rails[0].ctx->ops.post_send;
    for (unsigned i = 0; i < 2; ++i) {
        engine->rails[i].ctx->ops.post_send = keep_header;
        engine->rails[i].srq_depth = srq_depth;
    }
}

static mrail_lane_t *lane_of(unsigned peer)
{
    return peer_of(peer)->lanes[0];
}

/* Delivers a header without a message from the peer, on its first lane. */
static void header(unsigned peer, uint8_t flags, uint16_t returned)
{
    mrail_lane_t *lane = lane_of(peer);
    mrail_data_hdr_t hdr = {.version = MRAIL_WIRE_VERSION,
                            .type = MRAIL_DATA_ACK,
                            .flags = flags,
                            .tag = lane->rx_tag,
                            .ack = htobe32(peer_of(peer)->am.tx_next),
                            .credit = htobe16(lane->am.limit),
                            .returned = htobe16(returned)};

    assert_true(fake_deliver(lane->qp, &hdr, sizeof(hdr), IBV_WC_SUCCESS));
    progress();
}

/* Delivers a message whose sender had to wait for credits. */
static void blocked_message(unsigned peer)
{
    mrail_lane_t *lane = lane_of(peer);
    mrail_data_hdr_t hdr = {.version = MRAIL_WIRE_VERSION,
                            .type = MRAIL_DATA_AM,
                            .flags = MRAIL_DATA_CREDIT_BLOCKED,
                            .tag = lane->rx_tag,
                            .seq = htobe32(peer_of(peer)->am.rx_next),
                            .ack = htobe32(peer_of(peer)->am.tx_next),
                            .credit = htobe16(lane->am.limit),
                            .iface = htobe16(ifaces[0]->id)};

    assert_true(fake_deliver(lane->qp, &hdr, sizeof(hdr), IBV_WC_SUCCESS));
    progress();
}

/* Connects the peers' first lanes, all on one rail. */
static void connect_peers(unsigned count)
{
    for (unsigned i = 0; i < count; ++i) {
        connect_lanes(i, 1);
        assert_ptr_equal(lane_of(i)->rail, lane_of(0)->rail);
    }
}

/* Checks the three counters of the pool: buffers reserved for lanes, unreserved
 * buffers, and buffers that the lanes together lack. */
static void check_pool(unsigned count)
{
    mrail_rail_t *rail = lane_of(0)->rail;
    unsigned buffers = 0, unbacked = 0;

    for (unsigned i = 0; i < count; ++i) {
        const mrail_lane_t *lane = lane_of(i);

        buffers += lane->buffers;
        unbacked += lane->unbacked;
        assert_int_equal(lane->buffers + lane->unbacked,
                         lane->am.window + MRAIL_AM_LANE_RESERVE);
    }
    assert_int_equal(buffers + mrail_rail_spare(rail), rail->srq_used);
    assert_int_equal(unbacked, rail->srq_short);
    assert_true(rail->srq_used <= rail->srq_depth);
}

static void test_a_window_doubles(void **state)
{
    start_with_queue(512);
    connect_peers(2);
    assert_int_equal(lane_of(0)->am.window, 16);
    blocked_message(0);
    assert_int_equal(lane_of(0)->am.window, 32);
    /* The engine immediately advertises the new credits to the peer. */
    assert_ptr_equal(last_qp, lane_of(0)->qp);
    assert_int_equal(be16toh(last_hdr.credit), 33);
    assert_int_equal(lane_of(1)->am.window, 16);
    check_pool(2);
}

/* With four lanes, each window may grow to an eighth of the queue. */
static void test_windows_have_equal_limits(void **state)
{
    start_with_queue(512);
    connect_peers(4);
    for (unsigned i = 0; i < 8; ++i) {
        blocked_message(0);
    }
    assert_int_equal(lane_of(0)->am.window, 64);
    check_pool(4);
}

/* The engine returns the credits that it does not need. It must not use them
 * afterwards. */
static void test_recall_is_answered(void **state)
{
    mrail_lane_t *lane;
    mrail_ep_t *ep;
    uint16_t limit;
    unsigned credits;

    start_with_queue(512);
    connect_peers(1);
    lane = lane_of(0);
    credits = mrail_am_lane_credits(&lane->am);
    limit = lane->am.limit;
    assert_true(credits > 4);
    header(0, MRAIL_DATA_RECALL, 0);
    assert_int_equal(last_hdr.type, MRAIL_DATA_ACK);
    assert_int_equal(last_hdr.flags, MRAIL_DATA_RETURN);
    assert_int_equal(be16toh(last_hdr.returned),
                     credits - MRAIL_AM_CREDITS_FLOOR);
    assert_int_equal(mrail_am_lane_credits(&lane->am), MRAIL_AM_CREDITS_FLOOR);
    assert_int_equal(lane->am.limit, limit);

    /* The last credit is reserved for replays, unless all messages are on this
     * lane. */
    ep = ep_to(0);
    for (unsigned i = 0; i < MRAIL_AM_CREDITS_FLOOR; ++i) {
        assert_int_equal(mrail_ep_am_short(ep, 1, NULL, 0, NULL, 0), 0);
    }
    assert_int_equal(mrail_ep_am_short(ep, 1, NULL, 0, NULL, 0), -EAGAIN);

    /* No credits are left to return. */
    last_qp = NULL;
    header(0, MRAIL_DATA_RECALL, 0);
    assert_true((last_qp == NULL) || !(last_hdr.flags & MRAIL_DATA_RETURN));
}

/* Half of the queue is leased, most of it to a lane that is idle now. The idle
 * lane must return credits for a lane with work. */
static void test_idle_lane_returns_credits(void **state)
{
    unsigned tries = 0;

    start_with_queue(512);
    connect_peers(2);
    while (lane_of(0)->am.window < 128) {
        blocked_message(0);
    }
    for (unsigned i = 2; i < 9; ++i) {
        connect_lanes(i, 1);
    }
    check_pool(9);
    assert_true(lane_of(0)->rail->srq_used > 256);

    do {
        assert_int_equal(lane_of(2)->am.window, 16);
        blocked_message(2);
        assert_true(++tries < 4);
    } while (num_recalls[lane_of(0)->index] == 0);
    assert_int_equal(lane_of(0)->am.window, 128);

    header(0, MRAIL_DATA_RETURN, 126);
    assert_int_equal(lane_of(0)->am.window, MRAIL_AM_CREDITS_FLOOR);
    check_pool(9);
    blocked_message(2);
    assert_int_equal(lane_of(2)->am.window, 256 / 9);
    check_pool(9);

    /* The lane works with its remaining credits, and may grow again. */
    blocked_message(0);
    assert_int_equal(lane_of(0)->am.window, 2 * MRAIL_AM_CREDITS_FLOOR);
    assert_int_equal(peer_of(0)->failed, 0);
}

/* A lane that has received data since the last search keeps its credits. */
static void test_busy_lane_keeps_credits(void **state)
{
    start_with_queue(512);
    connect_peers(2);
    while (lane_of(0)->am.window < 128) {
        blocked_message(0);
    }
    for (unsigned i = 2; i < 9; ++i) {
        connect_lanes(i, 1);
    }
    for (unsigned i = 0; i < 6; ++i) {
        message(0, 0, 0);
        progress();
        blocked_message(2);
    }
    assert_int_equal(num_recalls[lane_of(0)->index], 0);
    assert_true(num_recalls[lane_of(1)->index] > 0);
    assert_int_equal(lane_of(0)->am.window, 128);
}

/* A peer returns more credits than it has, or all of them. Either is a protocol
 * violation that affects only the peer's own lanes, so only this peer must
 * fail. */
static void test_wrong_return(void **state)
{
    start_with_queue(512);
    (void)ep_to(0);
    (void)ep_to(1);
    connect_peers(2);
    header(0, MRAIL_DATA_RETURN, 17);
    assert_int_equal(peer_of(0)->failed, -ECONNRESET);
    header(1, MRAIL_DATA_RETURN, 16);
    assert_int_equal(peer_of(1)->failed, -ECONNRESET);
}

/* The queue has too few buffers for all lanes, but the lanes are connected
 * anyway. */
static void test_more_lanes_than_buffers(void **state)
{
    mrail_rail_t *rail;

    start_with_queue(32);
    connect_peers(12);
    rail = lane_of(0)->rail;
    assert_int_equal(rail->srq_used, rail->srq_depth);
    assert_true(rail->srq_short > 0);
    check_pool(12);
    for (unsigned i = 0; i < 12; ++i) {
        assert_true(lane_of(i)->am.window >= MRAIL_AM_CREDITS_FLOOR);
        message(i, 0, 0);
        progress();
    }
    assert_int_equal(engine->counters.am_received, 12);
    assert_int_equal(engine->counters.rx_no_credit, 0);
    check_pool(12);
    for (unsigned i = 1; i < 12; ++i) {
        break_lanes(i, 1);
        confirm_broken(i, 0, 0);
    }
    assert_int_equal(rail->srq_short, lane_of(0)->unbacked);
    assert_int_equal(rail->num_am_lanes, 1);
    assert_int_equal(lane_of(0)->buffers + mrail_rail_spare(rail),
                     rail->srq_used);
}

static void early_message(unsigned peer, uint32_t ahead)
{
    mrail_lane_t *lane = lane_of(peer);
    mrail_data_hdr_t hdr = {.version = MRAIL_WIRE_VERSION,
                            .type = MRAIL_DATA_AM,
                            .tag = lane->rx_tag,
                            .seq = htobe32(peer_of(peer)->am.rx_next + ahead),
                            .ack = htobe32(peer_of(peer)->am.tx_next),
                            .credit = htobe16(lane->am.limit),
                            .iface = htobe16(ifaces[0]->id)};

    assert_true(fake_deliver(lane->qp, &hdr, sizeof(hdr), IBV_WC_SUCCESS));
    progress();
}

/* A message that arrives ahead of its turn is copied, because its buffer may be
 * needed for the missing message. Its credits return when it is delivered. */
static void test_held_messages_leave_the_queue(void **state)
{
    uint16_t granted;
    mrail_rail_t *rail;

    start_with_queue(32);
    connect_peers(12);
    rail = lane_of(0)->rail;
    granted = lane_of(11)->am.granted;
    early_message(11, 1);
    assert_int_equal(engine->counters.am_held, 1);
    assert_int_equal(fake_num_receives(rail->srq), rail->srq_used);
    assert_int_equal(lane_of(11)->am.granted, granted);
    early_message(11, 0);
    assert_int_equal(peer_of(11)->am.rx_next, 2);
    assert_true(mrail_list_empty(&peer_of(11)->am.hold));
    assert_int_equal((uint16_t)(lane_of(11)->am.granted - granted), 2);
    assert_int_equal(fake_num_receives(rail->srq), rail->srq_used);
    check_pool(12);
}

/* The sender has only its reserved credit left, and a message is missing whose
 * lane may have failed. It may use this credit for the replay only if it knows
 * that all earlier messages have arrived. */
static void test_reserved_credit_is_enough_to_learn(void **state)
{
    start_with_queue(512);
    connect_peers(1);
    assert_int_equal(lane_of(0)->am.window, 16);
    early_message(0, 0);
    for (unsigned i = 1; i < 15; ++i) {
        last_qp = NULL;
        early_message(0, i);
    }
    assert_ptr_equal(last_qp, lane_of(0)->qp);
    assert_int_equal(last_hdr.type, MRAIL_DATA_ACK);
    assert_int_equal(be32toh(last_hdr.ack), 1);
    assert_int_equal(be16toh(last_hdr.credit), 17);
}

int main(int argc, char **argv)
{
#define TEST(_name) cmocka_unit_test_teardown(_name, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_window_doubles),
        TEST(test_windows_have_equal_limits),
        TEST(test_recall_is_answered),
        TEST(test_idle_lane_returns_credits),
        TEST(test_busy_lane_keeps_credits),
        TEST(test_wrong_return),
        TEST(test_more_lanes_than_buffers),
        TEST(test_held_messages_leave_the_queue),
        TEST(test_reserved_credit_is_enough_to_learn),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
