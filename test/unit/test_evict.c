/* Tests the eviction of lanes, step by step. */
#include "config.h"
#include "rail/conn/conn.h"
#include "rail/data/peer_lanes.h"
#include "mock_peer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void test_agreed(void **state)
{
    uint32_t seq;

    start(64);
    connect_lanes(0, 2);
    seq = start_eviction(0);
    deliver_lane(0, MRAIL_CTL_CONFIRM, 1, seq, 5);
    progress();
    assert_null(peer_of(0)->lanes[1]);
    assert_int_equal(engine->counters.lanes_evicted, 1);
}

/* The peer used the lane until it confirmed the eviction. A copy of its message
 * waits for an iface that does not poll. A copy must not keep the lane
 * alive. */
static void test_inbox_keeps_no_lane(void **state)
{
    uint32_t seq;

    start(64);
    connect_lanes(0, 2);
    seq = start_eviction(0);
    message(0, 1, 1);
    progress();
    assert_false(mrail_list_empty(&ifaces[1]->inbox));
    deliver_lane(0, MRAIL_CTL_CONFIRM, 1, seq, 5);
    progress();
    assert_null(peer_of(0)->lanes[1]);
    assert_false(mrail_list_empty(&ifaces[1]->inbox));
    mrail_iface_progress(ifaces[1]);
    assert_true(mrail_list_empty(&ifaces[1]->inbox));
    assert_int_equal(ifaces[1]->inbox_bytes, 0);
}

/* If the inbox is full, the message stays in its receive buffer, which keeps
 * the lane alive. */
static void test_full_inbox_keeps_lane(void **state)
{
    uint32_t seq;

    start(64);
    connect_lanes(0, 2);
    seq = start_eviction(0);
    ifaces[1]->inbox_bytes = MRAIL_INBOX_BYTES;
    message(0, 1, 1);
    progress();
    assert_false(mrail_list_empty(&ifaces[1]->inbox));
    deliver_lane(0, MRAIL_CTL_CONFIRM, 1, seq, 5);
    progress();
    assert_non_null(peer_of(0)->lanes[1]);
    mrail_iface_progress(ifaces[1]);
    assert_int_equal(ifaces[1]->inbox_bytes, MRAIL_INBOX_BYTES);
    ifaces[1]->inbox_bytes = 0;
    progress();
    assert_null(peer_of(0)->lanes[1]);
}

/* The receive buffer waits to be reposted in a batch. Until then, it keeps the
 * lane alive. */
static void test_batch_keeps_lane(void **state)
{
    uint32_t seq;

    start(64);
    connect_lanes(0, 2);
    connect_lanes(1, 2);
    seq = start_eviction(0);
    message(0, 1, 0);
    mrail_iface_progress(ifaces[0]);
    assert_int_equal(engine->num_repost[1], 1);
    deliver_lane(0, MRAIL_CTL_CONFIRM, 1, seq, 5);
    message(1, 1, 0);
    mrail_iface_progress(ifaces[0]);
    for (unsigned i = 0; i < engine->num_repost[1]; ++i) {
        mrail_lane_t *lane = engine->repost[1][i]->lane;

        assert_true((lane == peer_of(1)->lanes[1]) ||
                    (lane == peer_of(0)->lanes[1]));
    }
}

/* The peer keeps the lane, and requests its eviction before the progress thread
 * has run. Because the lane has been in use, it must stay. */
static void test_restored_and_requested(void **state)
{
    mrail_lane_t *lane;
    uint32_t seq;

    start(64);
    connect_lanes(0, 2);
    lane = peer_of(0)->lanes[1];
    seq = start_eviction(0);
    refuse(0, 1, seq, MRAIL_REASON_IN_USE);
    assert_int_equal(lane->state, MRAIL_LANE_RESTORING);
    assert_true(mrail_lane_is(lane, MRAIL_LANE_OUT));
    deliver_lane(0, MRAIL_CTL_EVICT, 1, 78, 5);
    peer_of(0)->ordered_lane = lane; /* in use */
    progress();
    assert_int_equal(lane->state, MRAIL_LANE_UP);
}

static int lane_is_there;

/* Stores the result instead of asserting it. A failed assertion would leave
 * this function while it holds the lock. */
static void lane_goes(void)
{
    mrail_peer_t *peer = peer_of(0);

    pthread_mutex_lock(&engine->ctl_lock);
    mrail_lane_event(peer->lanes[1], MRAIL_LANE_EV_WANT, "test");
    pthread_mutex_unlock(&engine->ctl_lock);
    progress();
    run_control(0);
    if (last(MRAIL_CTL_EVICT) != NULL) {
        deliver_lane(0, MRAIL_CTL_CONFIRM, 1, last(MRAIL_CTL_EVICT)->seq, 5);
        progress();
    }
    lane_is_there = (peer->lanes[1] != NULL);
}

/* The callback of a message polls while the lane of that message is being
 * evicted. */
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

/* Credits that became free during the attempted eviction must be advertised
 * when the lane is restored. */
static void test_restored_lane_advertises_credits(void **state)
{
    mrail_lane_t *lane;
    uint32_t seq;

    start(64);
    connect_lanes(0, 2);
    lane = peer_of(0)->lanes[1];
    seq = start_eviction(0);
    for (unsigned i = 0; i < lane->am.window; ++i) {
        message(0, 1, 0);
        mrail_iface_progress(ifaces[0]);
    }
    refuse(0, 1, seq, MRAIL_REASON_IN_USE);
    assert_int_equal(lane->state, MRAIL_LANE_RESTORING);
    progress();
    assert_int_equal(lane->state, MRAIL_LANE_UP);
    progress();
    /* The peer has used all advertised credits. */
    assert_int_equal(sent.credit[lane->index], 2 * lane->am.window);
}

/* A lane that was used since the last search for idle lanes is not evicted. */
static void test_used_is_not_idle(void **state)
{
    mrail_peer_t *peer;

    start(64);
    connect_lanes(0, LANES);
    peer = peer_of(0);
    for (unsigned slot = 1; slot < LANES; ++slot) {
        peer->lanes[slot]->used_at_search = 5;
        peer->lanes[slot]->used = (slot == 1) ? 5 : 6;
    }
    fake_now_ns += MRAIL_NS_PER_SEC;
    mrail_evict_lanes(engine, 0);
    assert_int_equal(peer->evict_mask, 1u << 1);
}

/* A process that connects to itself can reuse an idle lane, as any other peer
 * can. */
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
        if (last(MRAIL_CTL_EVICT) != NULL) {
            deliver_lane(0, MRAIL_CTL_CONFIRM, 1, last(MRAIL_CTL_EVICT)->seq,
                         5);
            progress();
        }
    }
    assert_int_equal(ret, 0);
    mrail_ep_destroy(ep);
}

/* A departed peer's lanes become available to other peers. */
static void test_departed_peer_frees_lanes(void **state)
{
    start(4);
    connect_lanes(0, 3);
    (void)ep_to(0);
    deliver(0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_BYE});
    progress();
    progress();
    assert_int_equal(peer_of(0)->dead, 2);
    for (unsigned peer_index = 1; peer_index <= 3; ++peer_index) {
        deliver_hello(peer_index);
        for (unsigned i = 0; i < 10; ++i) {
            deliver_lane(peer_index, MRAIL_CTL_LANE_REQ, 0, 20, 7);
            progress();
            run_control(20 * MRAIL_NS_PER_MS);
        }
        assert_non_null(peer_of(peer_index)->lanes[0]);
    }
}

/* Lets time pass. If `lives` is set, the peer answers liveness checks. */
static void wait_for_peer(unsigned peer_index, mrail_ns_t how_long, int lives)
{
    mrail_ns_t end_ns = fake_now_ns + how_long;

    while (fake_now_ns < end_ns) {
        unsigned seen = sent.num_msgs;

        run_control(20 * MRAIL_NS_PER_MS);
        progress();
        for (; lives && (seen < sent.num_msgs); ++seen) {
            if (sent.msgs[seen].type == MRAIL_CTL_PROBE) {
                deliver(peer_index,
                        &(mrail_ctl_msg_t){.type = MRAIL_CTL_PROBE_REP,
                                           .seq = sent.msgs[seen].seq});
            }
        }
    }
}

/* The engine must not repeat its request to a silent peer forever. The peer
 * fails, and its QPs become available. */
static void test_silent_peer(void **state)
{
    start(64);
    connect_lanes(0, 2);
    (void)ep_to(0);
    (void)start_eviction(0);
    wait_for_peer(0, 60 * MRAIL_NS_PER_SEC, 0);
    assert_int_equal(peer_of(0)->failed, -ETIMEDOUT);
    assert_int_equal(peer_of(0)->dead, 2);
    assert_int_equal(engine->num_qps, 0);
    sent.num_msgs = 0;
    wait_for_peer(0, 60 * MRAIL_NS_PER_SEC, 0);
    assert_int_equal(sent.num_msgs, 0);
}

/* A peer that computes for minutes stays connected and keeps its lanes. The
 * engine does not repeat its request twice a second. */
static void test_slow_peer(void **state)
{
    mrail_lane_t *lane;
    uint32_t seq;

    start(64);
    connect_lanes(0, 2);
    lane = peer_of(0)->lanes[1];
    seq = start_eviction(0);
    wait_for_peer(0, 60 * MRAIL_NS_PER_SEC, 1);
    sent.num_msgs = 0;
    wait_for_peer(0, 300 * MRAIL_NS_PER_SEC, 1);
    assert_int_equal(peer_of(0)->failed, 0);
    assert_ptr_equal(peer_of(0)->lanes[1], lane);
    assert_int_equal(lane->state, MRAIL_LANE_EVICTING);
    assert_non_null(lane->qp);
    assert_in_range(count_sent(MRAIL_CTL_EVICT), 30, 100);
    refuse(0, 1, seq, MRAIL_REASON_IN_USE);
    progress();
    assert_int_equal(lane->state, MRAIL_LANE_UP);
    wait_for_peer(0, 60 * MRAIL_NS_PER_SEC, 0); /* no request is pending now */
    assert_int_equal(peer_of(0)->failed, 0);
}

/* ---- the only lane is evicted ---- */

static uint8_t memory[8 << 20];
static mrail_mem_t *mem;
static mrail_rkey_t *rkey;

static void make_key(void)
{
    uint8_t packed[256];

    assert_int_equal(mrail_mem_reg(engine, memory, sizeof(memory), &mem), 0);
    mrail_rkey_pack(mem, packed); /* the peer's memory has the same layout */
    assert_int_equal(mrail_rkey_unpack(packed, &rkey), 0);
}

static void drop_key(void)
{
    mrail_rkey_release(rkey);
    mrail_mem_dereg(mem);
}

static void put(mrail_ep_t *ep, size_t length)
{
    mrail_iov_t iov = {.buffer = memory, .length = length, .mem = mem};

    assert_int_equal(mrail_ep_put_zcopy(ep, &iov, 1, 0x5000, rkey, NULL),
                     -EINPROGRESS);
}

/* Leaves only the lane of slot 2, which carries no messages. */
static void leave_lane_2(void)
{
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 2, 12, 5);
    deliver_lane(0, MRAIL_CTL_LANE_READY, 2, 12, 5);
    assert_int_equal(peer_of(0)->lanes[2]->state, MRAIL_LANE_UP);
    break_lanes(0, 2);
    confirm_broken(0, 0, 0);
    confirm_broken(0, 1, 0);
    assert_int_equal(peer_of(0)->up_mask, 1u << 2);
}

/* Forces the eviction of a lane in favour of another peer's first lane. */
static mrail_lane_t *must_go(unsigned slot)
{
    mrail_lane_t *lane = peer_of(0)->lanes[slot];

    pthread_mutex_lock(&engine->ctl_lock);
    lane->evict_forced = 1;
    mrail_lane_event(lane, MRAIL_LANE_EV_WANT, "test");
    pthread_mutex_unlock(&engine->ctl_lock);
    mrail_iface_progress(ifaces[0]);
    return lane;
}

static void test_only_lane_takes_unsplit_work(void **state)
{
    mrail_peer_t *peer;
    mrail_lane_t *lane;

    start(64);
    make_key();
    connect_lanes(0, 2);
    leave_lane_2();
    peer = peer_of(0);
    put(ep_to(0), sizeof(memory));
    assert_false(mrail_list_empty(&peer->uncut));
    lane = must_go(2);
    assert_int_not_equal(lane->sched.inflight, 0);
    assert_int_equal(lane->state, MRAIL_LANE_EVICT_WANTED);
    for (unsigned i = 0; (i < 1000) && !mrail_list_empty(&peer->ops); ++i) {
        progress();
    }
    assert_true(mrail_list_empty(&peer->ops));
    drop_key();
}

/* The only lane may be evicted if all work is already in flight, because no
 * remaining work needs a lane. */
static void test_only_lane_leaves(void **state)
{
    mrail_lane_t *lane;

    start(64);
    make_key();
    connect_lanes(0, 2);
    leave_lane_2();
    put(ep_to(0), 64);
    assert_true(mrail_list_empty(&peer_of(0)->uncut));
    lane = must_go(2);
    assert_int_not_equal(lane->sched.inflight, 0);
    assert_int_equal(lane->state, MRAIL_LANE_LEAVING);
    progress();
    run_control(0);
    assert_int_equal(lane->state, MRAIL_LANE_EVICTING);
    drop_key();
}

/* The only lane's window is full, and failed lanes left work for replay. */
static void test_only_lane_takes_replayed_work(void **state)
{
    mrail_peer_t *peer;
    mrail_lane_t *lane;
    mrail_ep_t *ep;

    start(64);
    make_key();
    connect_lanes(0, 2);
    peer = peer_of(0);
    ep = ep_to(0);
    for (unsigned i = 0; i < 150; ++i) {
        put(ep, 64);
    }
    assert_true(mrail_list_empty(&peer->uncut));
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 2, 12, 5);
    deliver_lane(0, MRAIL_CTL_LANE_READY, 2, 12, 5);
    for (unsigned slot = 0; slot < 2; ++slot) {
        mrail_failover_request(peer->lanes[slot], "test");
    }
    fake_complete_all(engine, IBV_WC_WR_FLUSH_ERR);
    mrail_iface_progress(ifaces[0]);
    run_control(20 * MRAIL_NS_PER_MS);
    progress();
    deliver_lane(0, MRAIL_CTL_CONFIRM, 0, peer->lanes[0]->request,
                 peer->lanes[0]->epoch);
    deliver_lane(0, MRAIL_CTL_CONFIRM, 1, peer->lanes[1]->request,
                 peer->lanes[1]->epoch);
    for (unsigned i = 0; i < 10; ++i) {
        mrail_iface_progress(ifaces[0]);
    }
    assert_int_equal(peer->up_mask, 1u << 2);
    assert_int_equal(peer->broken_mask, 0);
    assert_false(mrail_list_empty(&peer->replay_rma));
    assert_true(mrail_list_empty(&peer->uncut));
    lane = must_go(2);
    assert_int_not_equal(lane->sched.inflight, 0);
    assert_int_equal(lane->state, MRAIL_LANE_EVICT_WANTED);
    for (unsigned i = 0; (i < 100) && !mrail_list_empty(&peer->ops); ++i) {
        progress();
    }
    assert_true(mrail_list_empty(&peer->ops));
    assert_int_equal(peer->recovering, 0);
    drop_key();
}

/* The other lane takes the rest of the work, so this lane may be evicted. */
static void test_one_of_two_leaves(void **state)
{
    mrail_lane_t *lane;

    start(64);
    make_key();
    connect_lanes(0, 3);
    put(ep_to(0), sizeof(memory));
    assert_false(mrail_list_empty(&peer_of(0)->uncut));
    lane = must_go(2);
    assert_int_not_equal(lane->sched.inflight, 0);
    assert_int_equal(lane->state, MRAIL_LANE_LEAVING);
    progress();
    drop_key();
}

/* The eviction of both lanes is requested, but one of them must stay for the
 * rest of the work. */
static void test_one_of_two_evicted_stays(void **state)
{
    mrail_peer_t *peer;

    start(64);
    make_key();
    connect_lanes(0, 2);
    leave_lane_2();
    peer = peer_of(0);
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 3, 13, 5);
    deliver_lane(0, MRAIL_CTL_LANE_READY, 3, 13, 5);
    assert_int_equal(peer->up_mask, (1u << 2) | (1u << 3));
    put(ep_to(0), sizeof(memory));
    assert_false(mrail_list_empty(&peer->uncut));
    assert_int_equal(must_go(2)->state, MRAIL_LANE_LEAVING);
    assert_int_equal(must_go(3)->state, MRAIL_LANE_EVICT_WANTED);
    for (unsigned i = 0; (i < 1000) && !mrail_list_empty(&peer->ops); ++i) {
        progress();
    }
    assert_true(mrail_list_empty(&peer->ops));
    progress();
    assert_int_equal(peer->lanes[2]->state, MRAIL_LANE_EVICTING);
    assert_int_equal(peer->lanes[3]->state, MRAIL_LANE_EVICTING);
    drop_key();
}

/* ---- the last lane that carries messages ---- */

static void assert_stays(unsigned slot)
{
    mrail_peer_t *peer = peer_of(0);

    for (unsigned i = 0; i < 10; ++i) {
        progress();
        run_control(20 * MRAIL_NS_PER_MS);
    }
    assert_non_null(peer->lanes[slot]);
    assert_int_equal(peer->lanes[slot]->state, MRAIL_LANE_UP);
    assert_int_equal(peer->lanes[slot]->evict_forced, 0);
    assert_true(peer->up_mask & (1u << slot));
    assert_int_equal(peer->evict_mask, 0);
    assert_int_equal(peer->num_am, 1);
}

/* Leaves lanes 1 and 2 up. Only lane 1 carries messages, although lane 2 could
 * take all other work. */
static void leave_lanes_1_and_2(void)
{
    start(64);
    connect_lanes(0, 3);
    break_lanes(0, 1);
    confirm_broken(0, 0, 0);
    assert_int_equal(peer_of(0)->up_mask, (1u << 1) | (1u << 2));
    assert_int_equal(mrail_peer_num_up(peer_of(0)), 2);
    assert_int_equal(peer_of(0)->num_am, 1);
}

static void test_last_for_messages_stays(void **state)
{
    leave_lanes_1_and_2();
    (void)must_go(1);
    assert_stays(1);
    assert_int_equal(count_sent(MRAIL_CTL_EVICT), 0);
    assert_int_equal(engine->counters.lanes_kept, 1);
}

/* The last lane for messages stays even if the peer requests the eviction. */
static void test_last_for_messages_is_refused(void **state)
{
    leave_lanes_1_and_2();
    deliver_lane(0, MRAIL_CTL_EVICT, 1, 77, 5);
    assert_stays(1);
    assert_int_equal(count_sent(MRAIL_CTL_REFUSE), 1);
    assert_int_equal(last(MRAIL_CTL_REFUSE)->refuse.reason,
                     MRAIL_REASON_IN_USE);
}

/* The eviction of both lanes is requested at the same time. Once the first lane
 * has been evicted, the second is the last that carries messages, and must
 * stay. */
static void test_one_of_two_for_messages_stays(void **state)
{
    mrail_peer_t *peer;

    start(64);
    connect_lanes(0, 3);
    peer = peer_of(0);
    assert_int_equal(mrail_peer_num_up(peer), 3);
    assert_int_equal(peer->num_am, 2);
    pthread_mutex_lock(&engine->ctl_lock);
    for (unsigned slot = 0; slot < 2; ++slot) {
        peer->lanes[slot]->evict_forced = 1;
        mrail_lane_event(peer->lanes[slot], MRAIL_LANE_EV_WANT, "test");
    }
    pthread_mutex_unlock(&engine->ctl_lock);
    assert_stays(1);
    assert_int_equal(peer->lanes[0]->state, MRAIL_LANE_EVICTING);
}

int main(int argc, char **argv)
{
#define TEST(_name) cmocka_unit_test_teardown(_name, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_agreed),
        TEST(test_used_is_not_idle),
        TEST(test_restored_lane_advertises_credits),
        TEST(test_restored_and_requested),
        TEST(test_self),
        TEST(test_departed_peer_frees_lanes),
        TEST(test_inbox_keeps_no_lane),
        TEST(test_full_inbox_keeps_lane),
        TEST(test_batch_keeps_lane),
        TEST(test_callback_keeps_lane),
        TEST(test_silent_peer),
        TEST(test_slow_peer),
        TEST(test_only_lane_takes_unsplit_work),
        TEST(test_only_lane_takes_replayed_work),
        TEST(test_only_lane_leaves),
        TEST(test_one_of_two_leaves),
        TEST(test_one_of_two_evicted_stays),
        TEST(test_last_for_messages_stays),
        TEST(test_last_for_messages_is_refused),
        TEST(test_one_of_two_for_messages_stays),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
