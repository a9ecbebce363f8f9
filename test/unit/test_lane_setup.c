/*
 * Tests lane requests that do not succeed immediately. They cover the rails
 * of requests and replies, a device that does not connect a QP, a peer that
 * rejects requests, and time limits. Two rails make two pairs; src_rail is the
 * rail of a message.
 */
#include "config.h"
#include "mock_peer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "rail/conn/conn.h"
#include "rail/data/peer_lanes.h"
#include "rail/engine/engine.h"
#include "rail/mrail.h"
#include "rail/proto/wire.h"
#include "rail/verbs/rail.h"

/* The calls that connect a QP: ibv_modify_qp() to RTR, then to RTS. */
#define FAIL_RTR 1
#define FAIL_RTS 2

/* Makes the peer known to the engine, and requests a first lane. */
static const mrail_ctl_msg_t *request_first(void)
{
    start(64);
    engine->next_base = 0;
    deliver_hello(0);
    want(0, 1);
    assert_non_null(last(MRAIL_CTL_LANE_REQ));
    assert_int_equal(last(MRAIL_CTL_LANE_REQ)->src_rail, 0);
    return last(MRAIL_CTL_LANE_REQ);
}

/* Connects the first lane, and requests the second one. */
static const mrail_ctl_msg_t *request_second(void)
{
    start(64);
    connect_lanes(0, 1);
    want(0, 2);
    assert_non_null(last(MRAIL_CTL_LANE_REQ));
    assert_int_equal(last(MRAIL_CTL_LANE_REQ)->lane.slot, 1);
    return last(MRAIL_CTL_LANE_REQ);
}

/* Returns the peer's reply to a LANE_REQ. */
static mrail_ctl_msg_t answer_to(const mrail_ctl_msg_t *req)
{
    mrail_ctl_msg_t msg;

    fake_lane_msg(&msg, MRAIL_CTL_LANE_REP, req->lane.slot, req->seq,
                  req->lane.epoch);
    msg.lane.src_rail = req->lane.dst_rail;
    msg.lane.dst_rail = req->lane.src_rail;
    return msg;
}

static void answer(const mrail_ctl_msg_t *req, unsigned rail)
{
    mrail_ctl_msg_t msg = answer_to(req);

    deliver_on(0, rail, &msg);
}

/* ---- rails of replies ---- */

static void test_ready_uses_pair_of_request(void **state)
{
    const mrail_ctl_msg_t *req = request_first();

    answer(req, 0);
    assert_int_equal(peer_of(0)->lanes[0]->state, MRAIL_LANE_UP);
    assert_int_equal(last(MRAIL_CTL_LANE_READY)->src_rail, 0);
    answer(req, 1); /* a repetition over the other rail */
    assert_int_equal(count_sent(MRAIL_CTL_LANE_READY), 2);
    assert_int_equal(last(MRAIL_CTL_LANE_READY)->src_rail, 1);
    answer(req, 0);
    assert_int_equal(last(MRAIL_CTL_LANE_READY)->src_rail, 0);
}

static void test_repeated_reply_uses_pair_of_request(void **state)
{
    mrail_ctl_msg_t msg;

    start(64);
    deliver_hello(0);
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 0, 10, 5);
    for (unsigned i = 0; i < 4; ++i) {
        unsigned rail = (i == 0) || (i == 3);

        sent.num_msgs = 0;
        fake_lane_msg(&msg, MRAIL_CTL_LANE_REQ, 0, 10, 5);
        deliver_on(0, rail, &msg);
        assert_int_equal(count_sent(MRAIL_CTL_LANE_REP), 1);
        assert_int_equal(last(MRAIL_CTL_LANE_REP)->src_rail, rail);
    }
}

/* The request must set the order of rails before it is rejected, no matter
 * which call fails on the device. */
static void test_refusal_uses_pair_of_request(void **state)
{
    unsigned refused = 0, rebased = 0, base;
    mrail_ctl_msg_t msg;

    start(64);
    deliver_hello(0);
    for (;;) {
        base = peer_of(0)->base;
        fake_lane_msg(&msg, MRAIL_CTL_LANE_REQ, 0, 10 + refused, 5);
        msg.lane.src_rail = msg.lane.dst_rail = (uint8_t)(1 - base);
        sent.num_msgs = 0;
        fake_fail_in = refused + 1;
        deliver_only(0, 1, &msg);
        fake_fail_in = 0;
        if (last(MRAIL_CTL_REFUSE) == NULL) {
            break;
        }
        assert_int_equal(last(MRAIL_CTL_REFUSE)->seq, 10 + refused);
        assert_int_equal(last(MRAIL_CTL_REFUSE)->refuse.reason,
                         MRAIL_REASON_RESOURCES);
        assert_int_equal(last(MRAIL_CTL_REFUSE)->src_rail, 1);
        ++refused;
        rebased += (peer_of(0)->base != base);
    }
    assert_int_equal(peer_of(0)->lanes[0]->state, MRAIL_LANE_ACCEPTING);
    assert_int_equal(rebased, 2); /* once in RTR and once in RTS */
    assert_true(refused >= 4);
}

/* The request may come over another rail, or before the port went down. */
static void test_down_port_accepts_no_lane(void **state)
{
    mrail_ctl_msg_t msg;

    start(64);
    deliver_hello(0);
    pthread_mutex_lock(&engine->ctl_lock);
    mrail_paths_port(engine, &engine->rails[1], MRAIL_HEALTH_PORT_DOWN,
                     fake_now_ns);
    pthread_mutex_unlock(&engine->ctl_lock);
    fake_lane_msg(&msg, MRAIL_CTL_LANE_REQ, 0, 10, 5);
    msg.lane.src_rail = msg.lane.dst_rail = 1;
    deliver_only(0, 0, &msg);
    assert_non_null(last(MRAIL_CTL_REFUSE));
    assert_int_equal(last(MRAIL_CTL_REFUSE)->refuse.reason,
                     MRAIL_REASON_RESOURCES);
    assert_null(peer_of(0)->lanes[0]);
    fake_ports[1].state = IBV_PORT_DOWN;
    msg.seq = 11;
    deliver_only(0, 1, &msg);
    assert_null(peer_of(0)->lanes[0]);
    fake_ports[1].state = IBV_PORT_ACTIVE; /* not reported yet */
    msg.seq = 12;
    deliver_only(0, 1, &msg);
    assert_int_equal(peer_of(0)->lanes[0]->state, MRAIL_LANE_ACCEPTING);
}

/* An end that has had a lane keeps its base pair. If it accepted a request that
 * counts its slots from another base pair, two slots would use the same pair of
 * rails. */
static void test_agreed_base_pair_stays(void **state)
{
    mrail_ctl_msg_t msg;
    unsigned base;

    start(64);
    connect_lanes(0, 1);
    base = peer_of(0)->base;
    fake_lane_msg(&msg, MRAIL_CTL_LANE_REQ, 1, 50, 7);
    /* The pair of slot 0. */
    msg.lane.src_rail = msg.lane.dst_rail = (uint8_t)base;
    deliver_only(0, 0, &msg);
    assert_int_equal(last(MRAIL_CTL_REFUSE)->refuse.reason,
                     MRAIL_REASON_RESOURCES);
    assert_int_equal(peer_of(0)->base, base);
    msg.seq = 51;
    msg.lane.src_rail = msg.lane.dst_rail = (uint8_t)(1 - base);
    deliver_only(0, 0, &msg);
    assert_int_equal(peer_of(0)->lanes[1]->state, MRAIL_LANE_ACCEPTING);
}

/* A peer requests further lanes only if it has had a first lane. The pending
 * first lane of this end is therefore abandoned, and its slot becomes free. */
static void test_further_request_replaces_first(void **state)
{
    mrail_ctl_msg_t msg;
    unsigned base;

    start(1);
    deliver_hello(0);
    want(0, 1);
    run_control(0);
    assert_int_equal(peer_of(0)->lanes[0]->state, MRAIL_LANE_CONNECTING);
    base = peer_of(0)->base;
    fake_lane_msg(&msg, MRAIL_CTL_LANE_REQ, 1, 50, 7);
    msg.lane.src_rail = msg.lane.dst_rail = (uint8_t)base;
    deliver_only(0, 0, &msg);
    assert_null(peer_of(0)->lanes[0]);
    assert_int_equal(peer_of(0)->lanes[1]->state, MRAIL_LANE_ACCEPTING);
    assert_int_equal(peer_of(0)->base, 1 - base);
}

static void test_hello_reply_uses_same_rail(void **state)
{
    mrail_ctl_msg_t msg;

    start(64);
    engine->next_base = 0;
    for (unsigned i = 0; i < 4; ++i) {
        fake_hello(&msg, 2, (uint32_t)engine->config.seg_size);
        deliver_on(0, 1, &msg);
        assert_int_equal(count_sent(MRAIL_CTL_HELLO_REP), i + 1);
        assert_int_equal(last(MRAIL_CTL_HELLO_REP)->src_rail, 1 - i % 2);
    }
}

/* The peer's receive buffers have a different size. The engine must not open a
 * lane, but must reply, so that the peer also detects the difference. */
static void test_hello_with_other_segment_size(void **state)
{
    start(64);
    for (unsigned peer_index = 0; peer_index < 3; ++peer_index) {
        mrail_ctl_msg_t msg;

        fake_hello(&msg, 2, (uint32_t)engine->config.seg_size + peer_index - 1);
        deliver(peer_index, &msg);
        assert_int_equal(count_sent(MRAIL_CTL_HELLO_REP), peer_index + 1);
        assert_int_equal(last(MRAIL_CTL_HELLO_REP)->hello.seg_size,
                         engine->config.seg_size);
        assert_int_equal(peer_of(peer_index)->failed,
                         (peer_index == 1) ? 0 : -EPROTO);
    }
}

/* ---- HELLO ---- */

/* If the reply to its HELLO was lost, the peer does not know this end. Each
 * repetition of LANE_REQ therefore carries a HELLO. */
static void test_hello_with_repeated_request(void **state)
{
    (void)request_first();
    assert_int_equal(count_sent(MRAIL_CTL_HELLO), 0);
    for (unsigned i = 1; i < 5; ++i) {
        run_control(500 * MRAIL_NS_PER_MS);
        assert_int_equal(count_sent(MRAIL_CTL_LANE_REQ), i + 1);
        assert_int_equal(count_sent(MRAIL_CTL_HELLO), i);
        assert_int_equal(last(MRAIL_CTL_LANE_REQ)->src_rail, i % 2);
        assert_int_equal(last(MRAIL_CTL_HELLO)->src_rail, i % 2);
        assert_int_equal(last(MRAIL_CTL_HELLO)->hello.num_rails, 2);
    }
}

static void test_no_hello_with_further_request(void **state)
{
    (void)request_second();
    run_control(500 * MRAIL_NS_PER_MS);
    assert_int_equal(count_sent(MRAIL_CTL_LANE_REQ), 2);
    assert_int_equal(count_sent(MRAIL_CTL_HELLO), 0);
}

/* The peer may be unreachable over the rail in the subnet of its address. From
 * the fifth attempt on, every other attempt therefore uses any rail. */
static void test_hello_tries_any_rail(void **state)
{
    unsigned seen = 0;

    start(64);
    (void)ep_to(0);
    want(0, 1);
    for (unsigned i = 0; i < 12; ++i) {
        const mrail_ctl_msg_t *hello = last(MRAIL_CTL_HELLO);

        assert_int_equal(count_sent(MRAIL_CTL_HELLO), i + 1);
        if ((i < 4) || (i % 2 == 0)) {
            assert_int_equal(hello->src_rail, 0);
        }
        seen |= 1u << hello->src_rail;
        run_control(500 * MRAIL_NS_PER_MS);
    }
    assert_int_equal(seen, 3);
}

/* The first rail in a peer's address may be down. The other rails are tried as
 * soon as a reply is late. */
static void test_hello_takes_each_rail_of_the_address(void **state)
{
    start(64);
    (void)ep_to_rails(0, 2);
    want(0, 1);
    assert_int_equal(last(MRAIL_CTL_HELLO)->src_rail, 0);
    run_control(20 * MRAIL_NS_PER_MS);
    assert_int_equal(count_sent(MRAIL_CTL_HELLO), 2);
    assert_int_equal(last(MRAIL_CTL_HELLO)->src_rail, 1);
    deliver_hello(0);
    assert_non_null(last(MRAIL_CTL_LANE_REQ));
}

/* ---- a device does not connect ---- */

static void first_not_connected(unsigned fail_in)
{
    const mrail_ctl_msg_t *req = request_first();
    mrail_ctl_msg_t old = answer_to(req);

    fake_fail_in = fail_in;
    deliver(0, &old);
    assert_int_equal(fake_fail_in, 0);
    assert_int_equal(peer_of(0)->failed, 0);
    assert_int_equal(count_sent(MRAIL_CTL_LANE_REQ), 2); /* repeated now */
    req = last(MRAIL_CTL_LANE_REQ);
    assert_int_not_equal(req->seq, old.seq);
    assert_int_not_equal(req->lane.epoch, old.lane.epoch);
    assert_int_equal(req->lane.src_rail, 1);
    assert_int_equal(req->src_rail, 1);

    deliver(0, &old); /* this reply is late */
    assert_int_equal(peer_of(0)->lanes[0]->state, MRAIL_LANE_CONNECTING);
    answer(req, 1);
    assert_int_equal(peer_of(0)->lanes[0]->state, MRAIL_LANE_UP);
    assert_int_equal(peer_of(0)->lanes[0]->rail->index, 1);
    assert_int_equal(peer_of(0)->failed, 0);
}

static void test_first_lane_not_connected(void **state)
{
    first_not_connected(FAIL_RTR);
}

static void test_first_lane_half_connected(void **state)
{
    first_not_connected(FAIL_RTS);
}

static void further_not_connected(unsigned fail_in)
{
    mrail_ctl_msg_t rep = answer_to(request_second());
    mrail_lane_t *lane = peer_of(0)->lanes[1];
    mrail_ctl_msg_t msg;

    fake_fail_in = fail_in;
    deliver(0, &rep);
    assert_int_equal(fake_fail_in, 0);
    assert_int_equal(lane->state, MRAIL_LANE_UNCONNECTED);
    /* Until the lane is closed, the peer's messages about it have no effect. */
    deliver(0, &rep);
    refuse(0, 1, rep.seq, MRAIL_REASON_RESOURCES);
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 1, 40, 9);
    deliver_lane(0, MRAIL_CTL_FAIL, 1, 39, rep.lane.epoch);
    /* Nothing has arrived. */
    assert_int_equal(last(MRAIL_CTL_CONFIRM)->seq, 39);
    assert_ptr_equal(peer_of(0)->lanes[1], lane);
    assert_int_equal(lane->state, MRAIL_LANE_UNCONNECTED);
    assert_int_equal(lane->epoch, rep.lane.epoch);

    progress();
    assert_int_equal(lane->state, MRAIL_LANE_CLOSING);
    run_control(20 * MRAIL_NS_PER_MS);
    assert_int_equal(last(MRAIL_CTL_FAIL)->lane.slot, 1);
    assert_int_equal(last(MRAIL_CTL_FAIL)->lane.epoch, rep.lane.epoch);
    progress();
    /* The peer again asks which messages have arrived. */
    fake_lane_msg(&msg, MRAIL_CTL_FAIL, 1, 41, rep.lane.epoch);
    deliver(0, &msg);
    assert_int_equal(last(MRAIL_CTL_CONFIRM)->seq, 41);
    confirm_broken(0, 1, 0);
    assert_int_equal(peer_of(0)->failed, 0);
    assert_int_equal(mrail_peer_num_up(peer_of(0)), 1);
}

static void test_further_lane_not_connected(void **state)
{
    further_not_connected(FAIL_RTR);
}

static void test_further_lane_half_connected(void **state)
{
    further_not_connected(FAIL_RTS);
}

/* ---- the peer rejects ---- */

static void test_refused_first_lane_is_requested_again(void **state)
{
    const mrail_ctl_msg_t *req = request_first();
    uint32_t seq = req->seq;

    refuse(0, 0, seq, MRAIL_REASON_RESOURCES);
    assert_int_equal(peer_of(0)->failed, 0);
    assert_int_equal(count_sent(MRAIL_CTL_LANE_REQ), 2); /* repeated now */
    req = last(MRAIL_CTL_LANE_REQ);
    assert_int_not_equal(req->seq, seq);
    assert_int_equal(req->src_rail, 1);
    assert_int_equal(req->lane.src_rail, 1);
    answer(req, 1);
    assert_int_equal(peer_of(0)->lanes[0]->state, MRAIL_LANE_UP);
}

/* Lets time pass, and answers requests with `reply`. Returns the number of
 * LANE_REQs. */
static unsigned pass_time(mrail_ns_t how_long,
                          void (*reply)(const mrail_ctl_msg_t *))
{
    mrail_ns_t end_ns = fake_now_ns + how_long;
    unsigned count = 0;

    while ((fake_now_ns < end_ns) && (peer_of(0)->failed == 0)) {
        const mrail_ctl_msg_t *req = last(MRAIL_CTL_LANE_REQ);

        if (req != NULL) {
            mrail_ctl_msg_t copy = *req;

            count += count_sent(MRAIL_CTL_LANE_REQ);
            sent.num_msgs = 0;
            reply(&copy);
        } else {
            sent.num_msgs = 0;
            run_control(10 * MRAIL_NS_PER_MS);
            progress();
        }
        assert_true(count < SENT_MAX);
    }
    return count;
}

static void reply_no_resources(const mrail_ctl_msg_t *req)
{
    refuse(0, req->lane.slot, req->seq, MRAIL_REASON_RESOURCES);
}

/* The peer rejects requests for half a minute, which must not cause a flood of
 * requests. */
static void test_first_lane_refused_for_long(void **state)
{
    unsigned count;

    (void)request_first();
    (void)ep_to(0);
    count = pass_time(29 * MRAIL_NS_PER_SEC, reply_no_resources);
    assert_int_equal(peer_of(0)->failed, 0);
    assert_in_range(count, 30, 100);
    pass_time(3 * MRAIL_NS_PER_SEC, reply_no_resources);
    assert_int_equal(peer_of(0)->failed, -ECONNREFUSED);
}

/* The peer reaps the lane that it had accepted, and reports this. The
 * connection then fails again at this end. */
static void reply_wait_and_fail(const mrail_ctl_msg_t *req)
{
    mrail_ctl_msg_t rep = answer_to(req);

    refuse(0, req->lane.slot, req->seq, MRAIL_REASON_WAIT);
    fake_fail_in = FAIL_RTR;
    deliver_only(0, 0, &rep);
    run_control(0);
}

static void test_first_lane_never_connected(void **state)
{
    unsigned count;

    (void)request_first();
    count = pass_time(29 * MRAIL_NS_PER_SEC, reply_wait_and_fail);
    assert_int_equal(peer_of(0)->failed, 0);
    assert_in_range(count, 30, 200);
    pass_time(6 * MRAIL_NS_PER_SEC, reply_wait_and_fail);
    assert_int_equal(peer_of(0)->failed, -ECONNREFUSED);
}

/* As long as the peer defers a request, the requester keeps waiting. */
static void test_first_lane_deferred_for_long(void **state)
{
    mrail_ctl_msg_t req = *request_first();

    reply_no_resources(&req);
    req = *last(MRAIL_CTL_LANE_REQ);
    for (unsigned i = 0; i < 200; ++i) {
        refuse(0, 0, req.seq, MRAIL_REASON_WAIT);
        run_control(500 * MRAIL_NS_PER_MS);
    }
    assert_int_equal(peer_of(0)->failed, 0);
    answer(&req, 0);
    assert_int_equal(peer_of(0)->lanes[0]->state, MRAIL_LANE_UP);
}

static void test_refused_further_lane_is_requested_later(void **state)
{
    const mrail_ctl_msg_t *req = request_second();

    refuse(0, 1, req->seq, MRAIL_REASON_RESOURCES);
    assert_null(peer_of(0)->lanes[1]);
    sent.num_msgs = 0;
    run_control(500 * MRAIL_NS_PER_MS);
    assert_int_equal(count_sent(MRAIL_CTL_LANE_REQ), 0);
    want(0, 2); /* requested for the next large transfer */
    assert_int_equal(count_sent(MRAIL_CTL_LANE_REQ), 1);
    assert_int_equal(last(MRAIL_CTL_LANE_REQ)->lane.slot, 1);
}

/* ---- abandoned requests ---- */

static void assert_reported(uint16_t epoch, unsigned rail)
{
    assert_int_equal(count_sent(MRAIL_CTL_FAIL), 1);
    assert_int_equal(last(MRAIL_CTL_FAIL)->lane.slot, 1);
    assert_int_equal(last(MRAIL_CTL_FAIL)->lane.epoch, epoch);
    assert_int_equal(last(MRAIL_CTL_FAIL)->src_rail, rail);
    sent.num_msgs = 0;
}

/* The peer accepts a request that this end has abandoned. */
static void test_reply_to_abandoned_request(void **state)
{
    mrail_ctl_msg_t rep;

    start(64);
    connect_lanes(0, 1);
    sent.num_msgs = 0;
    fake_lane_msg(&rep, MRAIL_CTL_LANE_REP, 1, 99, 7);
    deliver_on(0, 1, &rep);
    assert_reported(7, 1);
    /* The peer also requests a lane in this slot. Unless the old one is
     * reported, both ends would wait. */
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 1, 21, 8);
    deliver_on(0, 0, &rep);
    assert_reported(7, 0);
    assert_int_equal(peer_of(0)->lanes[1]->state, MRAIL_LANE_ACCEPTING);
    assert_int_equal(peer_of(0)->lanes[1]->epoch, 8);
    /* A lane that is in use must not be reported as failed. */
    deliver_lane(0, MRAIL_CTL_LANE_READY, 1, 21, 8);
    assert_int_equal(peer_of(0)->lanes[1]->state, MRAIL_LANE_UP);
    sent.num_msgs = 0;
    deliver_on(0, 1, &rep);
    assert_int_equal(count_sent(MRAIL_CTL_FAIL), 0);
    assert_int_equal(peer_of(0)->lanes[1]->state, MRAIL_LANE_UP);
}

static int send_something(mrail_ep_t *ep)
{
    return mrail_ep_am_short(ep, 1, "", 1, NULL, 0);
}

static int put_something(mrail_ep_t *ep)
{
    static uint8_t memory[8];
    uint8_t packed[4 + 4 * MRAIL_MAX_RAILS];
    mrail_iov_t iov = {.buffer = memory, .length = sizeof(memory)};
    mrail_rkey_t *rkey;
    int ret;

    assert_int_equal(mrail_mem_reg(engine, memory, sizeof(memory), &iov.mem),
                     0);
    mrail_rkey_pack(iov.mem, packed);
    assert_int_equal(mrail_rkey_unpack(packed, &rkey), 0);
    ret = mrail_ep_put_zcopy(ep, &iov, 1, 0x5000, rkey, NULL);
    mrail_rkey_release(rkey);
    mrail_mem_dereg(iov.mem);
    return ret;
}

/* The failure is reported only after the peer's lanes are drained. Operations
 * that start in the meantime must not return an error, because an MPI library
 * would then abort the job. */
static void test_failure_is_reported_first(void **state)
{
    mrail_ep_t *ep;

    start(64);
    connect_lanes(0, 1);
    ep = ep_to(0);
    assert_int_equal(send_something(ep), 0);
    mrail_ctl_peer_failed(peer_of(0), -ETIMEDOUT);
    /* Earlier operations are still in flight. */
    mrail_iface_progress(ifaces[0]);
    assert_int_equal(peer_of(0)->dead, 1);
    assert_false(ep->failure_reported);
    assert_int_equal(send_something(ep), -EAGAIN);
    assert_int_equal(put_something(ep), -EAGAIN);
    progress();
    assert_true(ep->failure_reported);
    assert_int_equal(send_something(ep), -ETIMEDOUT);
    assert_int_equal(put_something(ep), -ETIMEDOUT);
}

/* The peer has accepted the lane, but its end of the lane has failed. */
static void peer_end_has_failed(const mrail_ctl_msg_t *request)
{
    mrail_ctl_msg_t first = *request, msg;
    const mrail_ctl_msg_t *req;

    fake_lane_msg(&msg, MRAIL_CTL_FAIL, first.lane.slot, 77,
                  (uint16_t)(first.lane.epoch + 2)); /* another epoch */
    deliver(0, &msg);
    assert_int_equal(count_sent(MRAIL_CTL_LANE_REQ), 1);
    fake_lane_msg(&msg, MRAIL_CTL_FAIL, first.lane.slot, 78, first.lane.epoch);
    deliver(0, &msg);
    assert_int_equal(last(MRAIL_CTL_CONFIRM)->seq, 78);
    assert_int_equal(last(MRAIL_CTL_CONFIRM)->lane.epoch, first.lane.epoch);
    assert_int_equal(last(MRAIL_CTL_CONFIRM)->lane.am_seq, 0);
    assert_int_equal(count_sent(MRAIL_CTL_LANE_REQ), 2);
    req = last(MRAIL_CTL_LANE_REQ);
    assert_int_equal(req->lane.slot, first.lane.slot);
    assert_int_not_equal(req->seq, first.seq);
    assert_int_not_equal(req->lane.epoch, first.lane.epoch);
    answer(req, 0);
    assert_int_equal(peer_of(0)->lanes[first.lane.slot]->state, MRAIL_LANE_UP);
}

static void test_peer_fails_a_first_request(void **state)
{
    peer_end_has_failed(request_first());
}

static void test_peer_fails_a_further_request(void **state)
{
    peer_end_has_failed(request_second());
}

/* ---- no reply ---- */

static void reply_nothing(const mrail_ctl_msg_t *req)
{
}

static void test_never_connected(void **state)
{
    start(64);
    deliver_hello(0);
    (void)ep_to(0);
    for (unsigned i = 0; i < 2; ++i) {
        mrail_paths_port(engine, &engine->rails[i], MRAIL_HEALTH_PORT_DOWN,
                         fake_now_ns);
    }
    want(0, 1);
    assert_int_equal(pass_time(29 * MRAIL_NS_PER_SEC, reply_nothing), 0);
    assert_int_equal(peer_of(0)->failed, 0);
    pass_time(2 * MRAIL_NS_PER_SEC, reply_nothing);
    assert_int_equal(peer_of(0)->failed, -ETIMEDOUT);
}

/* The peer never replies about a further lane, so other lanes carry the
 * work. */
static void test_further_never_answered(void **state)
{
    (void)request_second();
    pass_time(100 * MRAIL_NS_PER_SEC, reply_nothing);
    assert_int_equal(peer_of(0)->failed, 0);
    assert_int_equal(peer_of(0)->up_mask, 1);
}

/* A liveness check gives the peer the full time limit to reply. */
static void test_liveness_check_has_full_timeout(void **state)
{
    mrail_ep_t *ep;

    start(64);
    connect_lanes(0, 1);
    ep = ep_to(0);
    assert_int_equal(mrail_ep_check(ep), 0);
    pass_time(9 * MRAIL_NS_PER_SEC, reply_nothing); /* the time limit is 10 s */
    assert_int_equal(peer_of(0)->failed, 0);
    deliver(0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_PROBE_REP,
                                  .seq = peer_of(0)->probe_request});
    pass_time(100 * MRAIL_NS_PER_SEC, reply_nothing);
    assert_int_equal(peer_of(0)->failed, 0);
    assert_int_equal(mrail_ep_check(ep), 0);
    pass_time(13 * MRAIL_NS_PER_SEC, reply_nothing);
    assert_int_equal(peer_of(0)->failed, -ETIMEDOUT);
}

/* A device answers only a limited number of READs at a time, and moves the QP
 * to the error state if there are more. Each end therefore respects the other
 * end's limit. This device can have four READs in flight, and answers up to
 * six. */
static void check_reads(unsigned remote, unsigned expected)
{
    mrail_ctl_msg_t rep = answer_to(request_second()), req;
    const mrail_lane_t *lane;

    /* this is the peer's request, */
    fake_lane_msg(&req, MRAIL_CTL_LANE_REQ, 2, 70, 9);
    req.lane.max_dest_rd_atomic = (uint8_t)remote;
    deliver(0, &req);
    lane = peer_of(0)->lanes[2];
    assert_int_equal(lane->state, MRAIL_LANE_ACCEPTING);
    assert_int_equal(fake_qp_rd_atomic(lane->qp), expected);
    assert_int_equal(fake_qp_dest_rd_atomic(lane->qp), 6);
    assert_int_equal(last(MRAIL_CTL_LANE_REP)->lane.max_dest_rd_atomic, 6);
    /* and this is the engine's own request */
    assert_int_equal(last(MRAIL_CTL_LANE_REQ)->lane.max_dest_rd_atomic, 6);
    rep.lane.max_dest_rd_atomic = (uint8_t)remote;
    deliver(0, &rep);
    lane = peer_of(0)->lanes[1];
    assert_int_equal(lane->state, MRAIL_LANE_UP);
    assert_int_equal(fake_qp_rd_atomic(lane->qp), expected);
    assert_int_equal(fake_qp_dest_rd_atomic(lane->qp), 6);
    teardown(NULL);
}

static void test_reads_fit_both_devices(void **state)
{
    check_reads(1, 1);
    check_reads(3, 3);
    check_reads(4, 4);
    check_reads(255, 4);
    check_reads(0, 1); /* a device that supports READs answers at least one */
    start(64);
}

/* ---- many requests at the same time ---- */

#define REQUESTS 6

/* number of threads that waited for the lock at a yield */
static int wanted_at_yield;
static unsigned lanes_at_yield; /* number of lanes accepted by then */

static unsigned num_accepted(void)
{
    unsigned count = 0;

    for (unsigned peer_index = 0; peer_index < REQUESTS; ++peer_index) {
        count += (peer_of(peer_index)->lanes[0] != NULL);
    }
    return count;
}

/* The waiting thread acquires the lock here. */
int sched_yield(void)
{
    assert_int_equal(pthread_mutex_trylock(&engine->ctl_lock), 0);
    wanted_at_yield += engine->ctl_wanted;
    lanes_at_yield = num_accepted();
    engine->ctl_wanted = 0;
    pthread_mutex_unlock(&engine->ctl_lock);
    return 0;
}

/* The device takes some time for each QP. A thread that wants the control lock
 * must wait for at most one QP, not for the QPs of all peers. */
static void test_lock_is_free_between_requests(void **state)
{
    mrail_control_timers_t timers;
    mrail_rail_t *rail;

    start(64);
    mrail_control_init(&timers, engine);
    rail = &engine->rails[0];
    for (unsigned peer_index = 0; peer_index < REQUESTS; ++peer_index) {
        deliver_hello(peer_index);
    }
    for (unsigned peer_index = 0; peer_index < REQUESTS; ++peer_index) {
        uint8_t *slot =
            rail->ud_buffers +
            (size_t)peer_index * (MRAIL_UD_GRH + MRAIL_CTL_MAX_SIZE);
        mrail_ctl_msg_t msg;
        size_t length;

        fake_lane_msg(&msg, MRAIL_CTL_LANE_REQ, 0, 10, 5);
        length = fake_encode(engine, &msg, PEER + peer_index,
                             COOKIE + peer_index, slot + MRAIL_UD_GRH);
        fake_receive(rail->ud_cq, peer_index,
                     (uint32_t)(MRAIL_UD_GRH + length));
    }
    wanted_at_yield = 0;
    lanes_at_yield = 0;
    engine->ctl_wanted = 1;
    mrail_control_ud(engine, rail, &timers);
    assert_int_equal(num_accepted(), REQUESTS);
    assert_int_equal(wanted_at_yield, 1);
    assert_int_equal(lanes_at_yield, 1);
}

/* ---- a rail without QPs ---- */

/* Other processes' lanes use all QPs of the device. */
static void use_up(unsigned rail)
{
    fake_full_pds[rail] = engine->rails[rail].pd;
}

static void free_up(unsigned rail)
{
    fake_full_pds[rail] = NULL;
}

/* The device has no QP for a further lane at present. The lane uses up no QP
 * budget meanwhile, and is requested again when there may be a QP. */
static void test_further_lane_waits_for_a_qp(void **state)
{
    start(64);
    engine->next_base = 0;
    connect_lanes(0, 1);
    use_up(1);
    want(0, 2);
    assert_null(peer_of(0)->lanes[1]);
    assert_int_equal(engine->num_lanes - engine->num_lane_free, 1);
    assert_int_equal(peer_of(0)->refused_mask, 0);
    free_up(1);
    run_control(500 * MRAIL_NS_PER_MS);
    sent.num_msgs = 0;
    want(0, 2);
    assert_non_null(last(MRAIL_CTL_LANE_REQ));
    assert_int_equal(last(MRAIL_CTL_LANE_REQ)->lane.slot, 1);
    answer(last(MRAIL_CTL_LANE_REQ), 1);
    assert_int_equal(peer_of(0)->lanes[1]->state, MRAIL_LANE_UP);
}

/* If the QPs of all lanes fail at the same time, the CQ must hold a completion
 * for each entry of their send queues, besides all receives. */
static void test_cq_grows_with_the_lanes(void **state)
{
    start(64);
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        engine->rails[i].cq_depth = engine->rails[i].srq_depth;
        engine->rails[i].cq->cqe = (int)engine->rails[i].srq_depth;
    }
    connect_lanes(0, LANES);
    for (unsigned i = 0; i < 2; ++i) {
        const mrail_rail_t *rail = &engine->rails[i];

        assert_true(rail->sq_entries > 0);
        assert_true((unsigned)rail->cq->cqe >=
                    rail->srq_depth + rail->sq_entries);
        assert_int_equal(rail->cq_limited, 0);
    }
}

/* A device that cannot resize its CQ still gets lanes. */
static void test_cq_cannot_grow(void **state)
{
    start(64);
    fake_resize_result = ENOSYS;
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        engine->rails[i].cq_depth = engine->rails[i].srq_depth;
        engine->rails[i].cq->cqe = (int)engine->rails[i].srq_depth;
    }
    connect_lanes(0, LANES);
    assert_int_equal(peer_of(0)->up_mask, (1 << LANES) - 1);
    for (unsigned i = 0; i < 2; ++i) {
        assert_int_equal(engine->rails[i].cq->cqe, engine->rails[i].srq_depth);
        assert_int_equal(engine->rails[i].cq_limited, 1);
    }
}

static unsigned calloc_fails_in; /* 1: the next call fails; 0: none */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
    if ((calloc_fails_in != 0) && (--calloc_fails_in == 0)) {
        errno = ENOMEM;
        return NULL;
    }
    return __real_calloc(count, size);
}

/* There is no memory for a peer that says HELLO, or for its tables. */
static void test_no_memory_for_a_peer(void **state)
{
    for (unsigned k = 1; k < 3; ++k) {
        start(64);
        calloc_fails_in = k;
        deliver_hello(0);
        assert_int_equal(calloc_fails_in, 0);
        assert_int_equal(count_sent(MRAIL_CTL_HELLO_REP), 0);
        progress();
        deliver_hello(1);
        assert_int_equal(count_sent(MRAIL_CTL_HELLO_REP), 1);
        teardown(NULL);
    }
    start(64);
}

/* Returns this end's messages from `first` on, as the process receives them from
 * itself. Returns the number of messages sent so far. */
static unsigned return_messages(unsigned first)
{
    uint8_t buf[MRAIL_CTL_MAX_SIZE];

    for (; first < sent.num_msgs; ++first) {
        mrail_ctl_msg_t msg = sent.msgs[first];
        size_t length =
            fake_encode(engine, &msg, engine->id, engine->cookie, buf);

        mrail_ctl_receive(engine, &engine->rails[0], buf, length);
    }
    return first;
}

/* The lane of a process to itself fails. Both of its ends are in this process,
 * so it is replaced without a request. */
static void test_own_lane_returns(void **state)
{
    uint8_t device[MRAIL_DEVICE_ADDR_SIZE], iface[MRAIL_IFACE_ADDR_SIZE];
    const mrail_rail_t *rail;
    mrail_peer_t *peer;
    unsigned seen = 0;
    mrail_ep_t *ep;

    start(64);
    mrail_device_addr_pack(engine, device);
    mrail_iface_addr_pack(ifaces[0], iface);
    assert_int_equal(mrail_ep_create(ifaces[0], device, iface, NULL, &ep), 0);
    peer = ep->peer;
    mrail_iface_enter(ifaces[0]);
    mrail_peer_request_lanes(peer, 0);
    mrail_iface_leave(ifaces[0]);
    run_control(0);
    assert_int_equal(peer->lanes[0]->state, MRAIL_LANE_UP);
    progress();
    rail = peer->lanes[0]->rail;
    mrail_failover_request(peer->lanes[0], "test");
    for (unsigned i = 0; i < 20; ++i) {
        progress();
        run_control(20 * MRAIL_NS_PER_MS);
        seen = return_messages(seen);
    }
    assert_int_equal(peer->failed, 0);
    assert_int_equal(engine->counters.lanes_failed, 1);
    assert_non_null(peer->lanes[0]);
    assert_int_equal(peer->lanes[0]->state, MRAIL_LANE_UP);
    assert_ptr_not_equal(peer->lanes[0]->rail, rail);
    assert_int_equal(peer->recovering, 0);
    mrail_ep_destroy(ep);
}

/* A first lane may start on any rail. The search must find the rail with free
 * QPs, regardless of the rail at which it starts. */
static void test_first_lane_takes_rail_with_space(void **state)
{
    for (unsigned base = 0; base < 2; ++base) {
        for (unsigned full = 0; full < 2; ++full) {
            start(64);
            engine->next_base = base;
            use_up(full);
            deliver_hello(0);
            want(0, 1);
            assert_int_equal(peer_of(0)->failed, 0);
            assert_int_equal(count_sent(MRAIL_CTL_LANE_REQ), 1);
            assert_int_equal(last(MRAIL_CTL_LANE_REQ)->lane.src_rail, 1 - full);
            answer(last(MRAIL_CTL_LANE_REQ), 1 - full);
            assert_int_equal(peer_of(0)->lanes[0]->state, MRAIL_LANE_UP);
            free_up(full);
            teardown(NULL);
        }
    }
    start(64);
}

/* The same applies to a lane between the process and itself. */
static void test_own_lane_takes_rail_with_space(void **state)
{
    uint8_t device[MRAIL_DEVICE_ADDR_SIZE], iface[MRAIL_IFACE_ADDR_SIZE];
    mrail_ep_t *ep;

    for (unsigned full = 0; full < 2; ++full) {
        mrail_peer_t *self;

        start(64);
        use_up(full);
        mrail_device_addr_pack(engine, device);
        mrail_iface_addr_pack(ifaces[0], iface);
        assert_int_equal(mrail_ep_create(ifaces[0], device, iface, NULL, &ep),
                         0);
        self = mrail_peer_find(engine, engine->id);
        pthread_mutex_lock(&engine->ctl_lock);
        self->requested_slots = 1;
        mrail_ctl_work(self);
        pthread_mutex_unlock(&engine->ctl_lock);
        run_control(0);
        assert_int_equal(self->failed, 0);
        assert_int_equal(self->lanes[0]->state, MRAIL_LANE_UP);
        assert_int_equal(self->lanes[0]->rail->index, 1 - full);
        mrail_ep_destroy(ep);
        free_up(full);
        teardown(NULL);
    }
    start(64);
}

static void test_no_rail_has_space(void **state)
{
    start(64);
    use_up(0);
    use_up(1);
    deliver_hello(0);
    want(0, 1);
    assert_int_equal(peer_of(0)->failed, -ECONNREFUSED);
    assert_int_equal(count_sent(MRAIL_CTL_LANE_REQ), 0);
    free_up(0);
    free_up(1);
}

/* The link of the rail with free QPs is down at the moment. */
static void test_rail_with_space_is_down(void **state)
{
    start(64);
    engine->next_base = 0;
    use_up(0);
    deliver_hello(0);
    pthread_mutex_lock(&engine->ctl_lock);
    mrail_paths_port(engine, &engine->rails[1], MRAIL_HEALTH_PORT_DOWN,
                     fake_now_ns);
    pthread_mutex_unlock(&engine->ctl_lock);
    want(0, 1);
    run_control(MRAIL_NS_PER_SEC);
    assert_int_equal(peer_of(0)->failed, 0);
    assert_int_equal(count_sent(MRAIL_CTL_LANE_REQ), 0);
    pthread_mutex_lock(&engine->ctl_lock);
    mrail_paths_port(engine, &engine->rails[1], MRAIL_HEALTH_PORT_UP,
                     fake_now_ns);
    pthread_mutex_unlock(&engine->ctl_lock);
    for (unsigned i = 0; (i < 100) && (last(MRAIL_CTL_LANE_REQ) == NULL); ++i) {
        const mrail_ctl_msg_t *probe = last(MRAIL_CTL_PROBE);

        if (probe != NULL) {
            deliver_on(0, 1,
                       &(mrail_ctl_msg_t){.type = MRAIL_CTL_PROBE_REP,
                                          .seq = probe->seq});
        }
        run_control(20 * MRAIL_NS_PER_MS);
    }
    assert_int_equal(peer_of(0)->failed, 0);
    assert_non_null(last(MRAIL_CTL_LANE_REQ));
    assert_int_equal(last(MRAIL_CTL_LANE_REQ)->lane.src_rail, 1);
    free_up(0);
}

/* The rail with free QPs stays down, so the wait must be limited. */
static void test_rail_with_space_stays_down(void **state)
{
    start(64);
    engine->next_base = 0;
    use_up(0);
    (void)ep_to(0);
    deliver_hello(0);
    pthread_mutex_lock(&engine->ctl_lock);
    mrail_paths_port(engine, &engine->rails[1], MRAIL_HEALTH_PORT_DOWN,
                     fake_now_ns);
    pthread_mutex_unlock(&engine->ctl_lock);
    want(0, 1);
    pass_time(40 * MRAIL_NS_PER_SEC, reply_nothing);
    assert_int_not_equal(peer_of(0)->failed, 0);
    free_up(0);
}

/* BYE has no reply and any rail may be down, so BYE must be sent over every
 * pair of rails. */
static void test_bye_uses_every_pair(void **state)
{
    unsigned rails = 0;

    start(64);
    connect_lanes(0, 1);
    sent.num_msgs = 0;
    mrail_ctl_bye(engine);
    assert_int_equal(count_sent(MRAIL_CTL_BYE), 2);
    for (unsigned i = 0; i < sent.num_msgs; ++i) {
        rails |= (sent.msgs[i].type == MRAIL_CTL_BYE)
                     ? 1u << sent.msgs[i].src_rail
                     : 0;
    }
    assert_int_equal(rails, 3);
}

/* If the reply had no epoch, the peer would fail a lane that was closed
 * properly, and suspect its path. */
static void test_late_reply_of_earlier_epoch(void **state)
{
    mrail_ctl_msg_t rep = answer_to(request_second());

    deliver_on(0, 0, &rep);
    progress();
    assert_int_equal(peer_of(0)->lanes[1]->state, MRAIL_LANE_UP);
    deliver_lane(0, MRAIL_CTL_CONFIRM, 1, start_eviction(0), rep.lane.epoch);
    progress();
    assert_null(peer_of(0)->lanes[1]);
    sent.num_msgs = 0;
    deliver_on(0, 0, &rep);
    assert_int_equal(count_sent(MRAIL_CTL_FAIL), 0);
    rep.lane.epoch += 2; /* the epoch of an abandoned request */
    deliver_on(0, 0, &rep);
    assert_int_equal(count_sent(MRAIL_CTL_FAIL), 1);
}

/* A silent peer must not fail if this end needs no lane to it. */
static void test_not_wanted(void **state)
{
    start(64);
    deliver_hello(0);
    pthread_mutex_lock(&engine->ctl_lock);
    mrail_ctl_work(peer_of(0));
    pthread_mutex_unlock(&engine->ctl_lock);
    pass_time(100 * MRAIL_NS_PER_SEC, reply_nothing);
    assert_int_equal(peer_of(0)->failed, 0);
}

/* Leaves only the lane of slot 2, which carries no messages. */
static void only_without_messages(void)
{
    start(64);
    connect_lanes(0, 3);
    break_lanes(0, 2);
    confirm_broken(0, 0, 0);
    confirm_broken(0, 1, 0);
    assert_int_equal(mrail_peer_num_up(peer_of(0)), 1);
    assert_int_equal(peer_of(0)->num_am, 0);
    sent.num_msgs = 0;
}

static void test_peer_without_message_lane_times_out(void **state)
{
    only_without_messages();
    (void)ep_to(0);
    pass_time(9 * MRAIL_NS_PER_SEC, reply_nothing);
    assert_int_equal(peer_of(0)->failed, 0);
    assert_int_equal(peer_of(0)->lanes[2]->state, MRAIL_LANE_UP);
    assert_int_equal(peer_of(0)->paths[2].health.state, MRAIL_HEALTH_UP);
    pass_time(2 * MRAIL_NS_PER_SEC, reply_nothing);
    assert_int_equal(peer_of(0)->failed, -ETIMEDOUT);
}

static void test_peer_without_message_lane_requests_others(void **state)
{
    unsigned seen = 0, slots = 0;

    only_without_messages();
    for (unsigned i = 0; i < 100; ++i) {
        run_control(10 * MRAIL_NS_PER_MS);
        progress();
        for (; seen < sent.num_msgs; ++seen) {
            mrail_ctl_msg_t msg = sent.msgs[seen];

            if (msg.type == MRAIL_CTL_PROBE) {
                deliver(0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_PROBE_REP,
                                              .seq = msg.seq});
            } else if (msg.type == MRAIL_CTL_LANE_REQ) {
                slots |= 1u << msg.lane.slot;
            }
        }
    }
    assert_int_equal(slots, 3);
}

/* The peer has accepted a request, but received no LANE_READY, so it evicts its
 * end. Its late reply must not connect a lane that has no other end. */
static void test_late_answer_after_evict(void **state)
{
    mrail_ctl_msg_t rep = answer_to(request_second());

    deliver_lane(0, MRAIL_CTL_EVICT, 1, 40, rep.lane.epoch);
    assert_int_equal(last(MRAIL_CTL_CONFIRM)->seq, 40);
    deliver(0, &rep);
    assert_int_equal(peer_of(0)->lanes[1]->state, MRAIL_LANE_CONNECTING);
    assert_int_not_equal(peer_of(0)->lanes[1]->epoch, rep.lane.epoch);
}

/* The peer evicts the first lane, for which it received no LANE_READY. This end
 * uses the lane, and must inform the peer, which would otherwise repeat EVICT
 * forever. */
static void test_first_lane_is_kept(void **state)
{
    start(64);
    connect_lanes(0, 2);
    deliver_lane(0, MRAIL_CTL_EVICT, 0, 40, peer_of(0)->lanes[0]->epoch);
    assert_int_equal(peer_of(0)->lanes[0]->state, MRAIL_LANE_UP);
    assert_non_null(last(MRAIL_CTL_REFUSE));
    assert_int_equal(last(MRAIL_CTL_REFUSE)->seq, 40);
    assert_int_equal(last(MRAIL_CTL_REFUSE)->refuse.reason,
                     MRAIL_REASON_IN_USE);
}

int main(int argc, char **argv)
{
#define TEST(_name) cmocka_unit_test_teardown(_name, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_ready_uses_pair_of_request),
        TEST(test_repeated_reply_uses_pair_of_request),
        TEST(test_refusal_uses_pair_of_request),
        TEST(test_down_port_accepts_no_lane),
        TEST(test_agreed_base_pair_stays),
        TEST(test_further_request_replaces_first),
        TEST(test_hello_reply_uses_same_rail),
        TEST(test_hello_with_other_segment_size),
        TEST(test_hello_with_repeated_request),
        TEST(test_no_hello_with_further_request),
        TEST(test_hello_tries_any_rail),
        TEST(test_hello_takes_each_rail_of_the_address),
        TEST(test_first_lane_not_connected),
        TEST(test_first_lane_half_connected),
        TEST(test_further_lane_not_connected),
        TEST(test_further_lane_half_connected),
        TEST(test_refused_first_lane_is_requested_again),
        TEST(test_first_lane_refused_for_long),
        TEST(test_first_lane_never_connected),
        TEST(test_first_lane_deferred_for_long),
        TEST(test_refused_further_lane_is_requested_later),
        TEST(test_failure_is_reported_first),
        TEST(test_reply_to_abandoned_request),
        TEST(test_peer_fails_a_first_request),
        TEST(test_peer_fails_a_further_request),
        TEST(test_never_connected),
        TEST(test_further_never_answered),
        TEST(test_liveness_check_has_full_timeout),
        TEST(test_reads_fit_both_devices),
        TEST(test_lock_is_free_between_requests),
        TEST(test_own_lane_returns),
        TEST(test_further_lane_waits_for_a_qp),
        TEST(test_cq_grows_with_the_lanes),
        TEST(test_cq_cannot_grow),
        TEST(test_no_memory_for_a_peer),
        TEST(test_first_lane_takes_rail_with_space),
        TEST(test_own_lane_takes_rail_with_space),
        TEST(test_no_rail_has_space),
        TEST(test_rail_with_space_is_down),
        TEST(test_rail_with_space_stays_down),
        TEST(test_bye_uses_every_pair),
        TEST(test_late_reply_of_earlier_epoch),
        TEST(test_not_wanted),
        TEST(test_peer_without_message_lane_times_out),
        TEST(test_peer_without_message_lane_requests_others),
        TEST(test_late_answer_after_evict),
        TEST(test_first_lane_is_kept),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
