/*
 * Tests the loss of a device (IBV_EVENT_DEVICE_FATAL), which then returns no
 * request. The other rails take over the work, and further calls must not use
 * the device. A rail whose completion queue or shared receive queue fails is
 * treated as lost.
 */
#include "config.h"
#include "rail/conn/conn.h"
#include "rail/engine/engine.h"
#include "rail/mrail.h"
#include "mock_peer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define PUTS 40 /* each of 64 kB */

static uint8_t memory[1 << 16];
static mrail_mem_t *mem;
static mrail_rkey_t *rkey;

/* The lost rail's device completes nothing, but the other devices do. */
static void work_without(const mrail_rail_t *gone)
{
    for (unsigned i = 0; i < 4; ++i) {
        for (unsigned k = 0; k < engine->num_rails; ++k) {
            while ((&engine->rails[k] != gone) &&
                   fake_complete_send(engine->rails[k].cq, IBV_WC_SUCCESS)) {
            }
        }
        mrail_iface_progress(ifaces[0]);
    }
}

static void lose(mrail_rail_t *rail)
{
    pthread_mutex_lock(&engine->ctl_lock);
    mrail_failover_rail(engine, rail, "test");
    pthread_mutex_unlock(&engine->ctl_lock);
}

/* Creates a peer with two lanes that have PUTs in flight. */
static mrail_peer_t *busy(void)
{
    uint8_t packed[4 + 4 * MRAIL_MAX_RAILS];
    mrail_peer_t *peer;

    start(64);
    assert_int_equal(mrail_mem_reg(engine, memory, sizeof(memory), &mem), 0);
    mrail_rkey_pack(mem, packed);
    assert_int_equal(mrail_rkey_unpack(packed, &rkey), 0);
    connect_lanes(0, 2);
    peer = peer_of(0);
    for (unsigned i = 0; i < PUTS; ++i) {
        mrail_iov_t iov = {
            .buffer = memory, .length = sizeof(memory), .mem = mem};

        assert_int_equal(
            mrail_ep_put_zcopy(
                (i == 0) ? ep_to(0)
                         : mrail_list_head(&peer->eps, mrail_ep_t, peer_list),
                &iov, 1, 0x5000, rkey, NULL),
            -EINPROGRESS);
    }
    for (unsigned slot = 0; slot < 2; ++slot) {
        assert_int_not_equal(peer->lanes[slot]->sched.inflight, 0);
    }
    return peer;
}

static void end(void)
{
    mrail_rkey_release(rkey);
    mrail_mem_dereg(mem);
}

/* Checks that the other lane completes the work after the loss. */
static void others_work(mrail_peer_t *peer)
{
    mrail_lane_t *lane = peer->lanes[1];
    mrail_rail_t *rail = lane->rail;
    uint16_t epoch = lane->epoch;

    work_without(rail);
    assert_int_equal(rail->fatal, 1);
    assert_int_equal(lane->state, MRAIL_LANE_CLOSING);
    assert_int_equal(lane->state,
                     MRAIL_LANE_CLOSING); /* earlier bytes may still arrive */
    assert_non_null(lane->qp);
    run_control(20 * MRAIL_NS_PER_MS);
    work_without(rail);
    assert_true((lane->state == MRAIL_LANE_CLOSED) ||
                (lane->state == MRAIL_LANE_BOTH_CLOSED));
    assert_null(lane->qp);
    deliver_lane(0, MRAIL_CTL_CONFIRM, 1, lane->request, epoch);
    for (unsigned i = 0; (i < 1000) && !mrail_list_empty(&peer->ops); ++i) {
        work_without(rail);
    }
    assert_true(mrail_list_empty(&peer->ops));
    assert_true(engine->counters.rma_replayed > 0);
    assert_int_equal(engine->counters.put_bytes, PUTS * sizeof(memory));
    assert_int_equal(peer->recovering, 0);
    end();
}

static void test_others_take_its_work(void **state)
{
    mrail_peer_t *peer = busy();

    lose(peer->lanes[1]->rail);
    others_work(peer);
}

/* Memory that is registered after the loss of a device works on the other rails.
 * Until the loss is known, a registration fails. */
static void test_registers_without_it(void **state)
{
    static uint8_t later[64];
    mrail_peer_t *peer = busy();
    mrail_rail_t *rail = peer->lanes[1]->rail;
    uint8_t packed[4 + 4 * MRAIL_MAX_RAILS];
    mrail_iov_t iov = {.buffer = later, .length = sizeof(later)};
    mrail_rkey_t *key;

    fake_removed = rail->ctx;
    assert_int_equal(mrail_mem_reg(engine, later, sizeof(later), &iov.mem),
                     -EIO);
    lose(rail);
    assert_int_equal(mrail_mem_reg(engine, later, sizeof(later), &iov.mem), 0);
    mrail_rkey_pack(iov.mem, packed);
    assert_int_equal(mrail_rkey_unpack(packed, &key), 0);
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        assert_int_equal(key->rkey[i] == 0, i == rail->index);
    }
    others_work(peer);
    assert_int_equal(
        mrail_ep_put_zcopy(mrail_list_head(&peer->eps, mrail_ep_t, peer_list),
                           &iov, 1, 0x5000, key, NULL),
        -EINPROGRESS);
    while (!mrail_list_empty(&peer->ops)) {
        work_without(rail);
    }
    mrail_rkey_release(key);
    assert_int_equal(mrail_mem_dereg(iov.mem), 0);
}

/* A negative result of ibv_poll_cq() must count as the loss of the device,
 * because no posted request will then complete. */
static void test_cq_cannot_be_polled(void **state)
{
    mrail_peer_t *peer = busy();

    fake_failing_cq = peer->lanes[1]->rail->cq;
    work_without(peer->lanes[1]->rail);
    others_work(peer);
}

static void ud_poll(mrail_rail_t *rail)
{
    mrail_control_timers_t timers;

    mrail_control_init(&timers, engine);
    mrail_control_ud(engine, rail, &timers);
    (void)mrail_control_run(engine, &timers);
}

static void test_ud_cq_cannot_be_polled(void **state)
{
    mrail_peer_t *peer = busy();

    fake_failing_cq = peer->lanes[1]->rail->ud_cq;
    ud_poll(peer->lanes[1]->rail);
    others_work(peer);
}

static void deliver_event(mrail_rail_t *rail, struct ibv_async_event event)
{
    fake_async_event = &event;
    mrail_control_async(engine, rail);
    assert_null(fake_async_event);
}

static void test_cq_error(void **state)
{
    mrail_peer_t *peer = busy();
    mrail_rail_t *rail = peer->lanes[1]->rail;

    deliver_event(rail, (struct ibv_async_event){.event_type = IBV_EVENT_CQ_ERR,
                                                 .element = {.cq = rail->cq}});
    others_work(peer);
}

static void test_srq_error(void **state)
{
    mrail_peer_t *peer = busy();
    mrail_rail_t *rail = peer->lanes[1]->rail;

    deliver_event(rail,
                  (struct ibv_async_event){.event_type = IBV_EVENT_SRQ_ERR,
                                           .element = {.srq = rail->srq}});
    others_work(peer);
}

/* The peer's reply to LANE_REQ arrives after the lane's rail was lost. The
 * device may still connect the QP, but nothing would complete on it. */
static void test_no_lane_joins(void **state)
{
    mrail_rail_t *rail;

    start(64);
    connect_lanes(0, 1);
    want(0, 2);
    assert_non_null(last(MRAIL_CTL_LANE_REQ));
    rail = peer_of(0)->lanes[1]->rail;
    lose(rail);
    deliver_lane(0, MRAIL_CTL_LANE_REP, 1, last(MRAIL_CTL_LANE_REQ)->seq,
                 last(MRAIL_CTL_LANE_REQ)->lane.epoch);
    assert_int_equal(peer_of(0)->up_mask, 1);
    assert_int_not_equal(peer_of(0)->lanes[1]->state, MRAIL_LANE_UP);
}

static void test_not_requested_again(void **state)
{
    mrail_peer_t *peer = busy();
    mrail_lane_t *lane = peer->lanes[1];
    mrail_rail_t *rail = lane->rail;

    lose(rail);
    work_without(rail);
    run_control(20 * MRAIL_NS_PER_MS);
    work_without(rail);
    deliver_lane(0, MRAIL_CTL_CONFIRM, 1, lane->request, lane->epoch);
    work_without(rail);
    want(0, 2);
    for (unsigned i = 0; i < 600; ++i) {
        sent.num_msgs = 0;
        run_control(100 * MRAIL_NS_PER_MS);
        work_without(rail);
        for (unsigned k = 0; k < sent.num_msgs; ++k) {
            if (sent.msgs[k].type == MRAIL_CTL_PROBE) {
                deliver(0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_PROBE_REP,
                                              .seq = sent.msgs[k].seq});
            }
            assert_false((sent.msgs[k].type == MRAIL_CTL_LANE_REQ) &&
                         (sent.msgs[k].lane.src_rail == rail->index));
        }
    }
    assert_int_equal(peer->failed, 0);
    assert_int_equal(peer->up_mask & 3, 1);
    end();
}

/* When the last lane is lost, operations in flight must fail immediately. */
static void test_last_one(void **state)
{
    mrail_peer_t *peer = busy();

    for (unsigned i = 0; i < engine->num_rails; ++i) {
        lose(&engine->rails[i]);
    }
    for (unsigned i = 0; (i < 1000) && (peer->dead != 2); ++i) {
        run_control(100 * MRAIL_NS_PER_MS);
        mrail_iface_progress(ifaces[0]);
    }
    assert_int_equal(peer->failed, -ETIMEDOUT);
    assert_int_equal(peer->dead, 2);
    mrail_iface_progress(ifaces[0]);
    assert_true(mrail_list_empty(&peer->ops));
    end();
}

static void leave(int before)
{
    mrail_peer_t *peer = busy();
    mrail_rail_t *rail = peer->lanes[1]->rail;

    if (before) {
        lose(rail);
    }
    deliver(0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_BYE});
    work_without(rail);
    if (!before) {
        assert_int_equal(peer->dead, 1);
        lose(rail);
    }
    for (unsigned i = 0; (i < 100) && (peer->dead != 2); ++i) {
        run_control(MRAIL_NS_PER_MS);
        work_without(rail);
    }
    assert_int_equal(peer->dead, 2);
    assert_true(mrail_list_empty(&peer->ops));
    for (unsigned slot = 0; slot < 2; ++slot) {
        assert_true(mrail_list_empty(&peer->lanes[slot]->flying));
    }
    end();
}

/* The peer leaves while the lost device still has its requests. */
static void test_peer_leaves(void **state)
{
    leave(1);
}

/* As in the previous test, but the peer leaves before the device is lost. */
static void test_peer_has_left(void **state)
{
    leave(0);
}

int main(int argc, char **argv)
{
#define TEST(_name) cmocka_unit_test_teardown(_name, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_others_take_its_work),
        TEST(test_registers_without_it),
        TEST(test_cq_cannot_be_polled),
        TEST(test_ud_cq_cannot_be_polled),
        TEST(test_cq_error),
        TEST(test_srq_error),
        TEST(test_no_lane_joins),
        TEST(test_not_requested_again),
        TEST(test_last_one),
        TEST(test_peer_leaves),
        TEST(test_peer_has_left),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
