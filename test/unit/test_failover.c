/*
 * The end of a failed lane. The completions of its chunks run without a lock,
 * and the peer may leave at the same time.
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

#define LENGTH 256

static uint8_t memory[LENGTH];
static mrail_mem_t *mem;
static mrail_rkey_t *rkey;

static size_t pack(void *dest, void *arg)
{
    memset(dest, 0, LENGTH);
    return LENGTH;
}

static void register_memory(void)
{
    uint8_t packed[4 + 4 * MRAIL_MAX_RAILS];

    assert_int_equal(mrail_mem_reg(engine, memory, sizeof(memory), &mem), 0);
    mrail_rkey_pack(mem, packed);
    assert_int_equal(mrail_rkey_unpack(packed, &rkey), 0);
}

static void release_memory(void)
{
    mrail_rkey_release(rkey);
    mrail_mem_dereg(mem);
}

static void put(mrail_ep_t *ep)
{
    mrail_iov_t iov = {.buffer = memory, .length = LENGTH, .mem = mem};

    assert_int_equal(
        mrail_ep_put_zcopy(ep, &iov, 1, 0x5000, rkey, &completions),
        -EINPROGRESS);
}

/* ---- completions ---- */

/* Posts PUTs, and a message after them, on the only lane, which then fails. The
 * device flushes the PUTs. */
static void lose_puts(unsigned count)
{
    mrail_ep_t *ep;

    start(64);
    register_memory();
    connect_lanes(0, 1);
    ep = ep_to(0);
    for (unsigned i = 0; i < count; ++i) {
        put(ep);
    }
    assert_int_equal(mrail_ep_am_bcopy(ep, 1, pack, NULL), LENGTH);
    mrail_failover_request(peer_of(0)->lanes[0], "test");
    fake_complete_all(engine, IBV_WC_WR_FLUSH_ERR);
    progress();
    run_control(20 * MRAIL_NS_PER_MS);
    progress();
    assert_int_equal(completions.count, 0);
    assert_int_equal(peer_of(0)->lanes[0]->closed, 1);
}

static void create_endpoint(void)
{
    assert_non_null(ep_to(1));
}

/* The message has arrived, and so has the PUT before it. */
static void test_completion_creates_an_endpoint(void **state)
{
    lose_puts(1);
    in_completion = create_endpoint;
    confirm_broken(0, 0, 1);
    assert_int_equal(completions.count, 1);
    assert_int_equal(completions.status[0], 0);
    assert_non_null(peer_of(1));
    release_memory();
}

static void send_first_message(void)
{
    assert_int_equal(mrail_ep_am_bcopy(ep_to(1), 1, pack, NULL), -EAGAIN);
}

static void test_completion_sends_to_a_new_peer(void **state)
{
    lose_puts(1);
    in_completion = send_first_message;
    confirm_broken(0, 0, 1);
    assert_int_equal(completions.count, 1);
    assert_int_equal(completions.status[0], 0);
    assert_int_equal(peer_of(1)->requested_slots, 1);
    release_memory();
}

static void bye(unsigned who)
{
    hear(who, 0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_BYE});
}

static void leave_and_progress(void)
{
    bye(0);
    progress();
}

/* The callback of the first completion ends the peer. The second completion
 * must be reported once. */
static void test_completion_ends_the_peer(void **state)
{
    lose_puts(2);
    in_completion = leave_and_progress;
    confirm_broken(0, 0, 1);
    assert_int_equal(peer_of(0)->dead, 2);
    assert_int_equal(completions.count, 2);
    assert_int_equal(completions.status[0], 0);
    assert_int_equal(engine->ops.num_used, 0);
    assert_int_equal(engine->chunks.num_used, 0);
    release_memory();
}

/* ---- the peer leaves ---- */

/* The control thread has processed the peer's BYE, but the data path has not
 * run since, because it waited for the lock. */
static void leave_unseen(void)
{
    bye(0);
    run_control(0);
    engine->error_pending = 0;
    mrail_iface_progress(ifaces[0]);
}

static void end_peer(void)
{
    engine->error_pending = 1;
    progress();
    assert_int_equal(peer_of(0)->dead, 2);
    assert_int_equal(peer_of(0)->up_mask, 0);
}

static void test_leaves_when_lane_is_drained_at_both_ends(void **state)
{
    mrail_ctl_msg_t msg;
    const mrail_lane_t *lane;

    start(64);
    connect_lanes(0, 2);
    break_lanes(0, 1);
    lane = peer_of(0)->lanes[0];
    assert_int_equal(lane->closed, 1);
    fake_lane_msg(&msg, MRAIL_CTL_CONFIRM, 0, lane->request, lane->epoch);
    hear(0, 0, &msg);
    leave_unseen();
    end_peer();
}

static void let_go_of_slot_1(void)
{
    pthread_mutex_lock(&engine->ctl_lock);
    peer_of(0)->lanes[1]->evict_local = 1;
    mrail_evict_request(peer_of(0)->lanes[1]);
    pthread_mutex_unlock(&engine->ctl_lock);
    mrail_iface_progress(ifaces[0]);
    assert_int_equal(peer_of(0)->closing_mask, 2);
}

static void test_leaves_when_lane_is_drained(void **state)
{
    start(64);
    connect_lanes(0, 2);
    let_go_of_slot_1();
    leave_unseen();
    end_peer();
}

/* The fate of the failed lane's bytes is unknown, so a flush to a peer that
 * leaves must fail. */
static void test_leaves_when_flush_waits(void **state)
{
    mrail_ep_t *ep;

    start(64);
    register_memory();
    connect_lanes(0, 1);
    ep = ep_to(0);
    put(ep);
    fake_complete_all(engine, IBV_WC_SUCCESS);
    assert_int_equal(mrail_ep_flush(ep, &completions), -EINPROGRESS);
    leave_unseen();
    end_peer();
    assert_int_equal(completions.count, 2); /* the PUT and the flush */
    assert_int_equal(completions.status[0], 0);
    assert_int_not_equal(completions.status[1], 0);
    release_memory();
}

/* A callback ends the peer between two visits in one progress call. */
static void test_callback_ends_leaving_peer(void **state)
{
    mrail_ep_t *ep;

    start(64);
    connect_lanes(0, 2);
    ep = ep_to(0);
    assert_int_equal(mrail_ep_am_bcopy(ep, 1, pack, NULL), LENGTH);
    assert_int_equal(mrail_ep_flush(ep, &completions), -EINPROGRESS);
    let_go_of_slot_1();
    peer_of(0)->tx_acked = peer_of(0)->tx_next;
    in_completion = leave_and_progress;
    mrail_iface_progress(ifaces[0]);
    assert_int_equal(completions.count, 1);
    progress();
    assert_int_equal(peer_of(0)->dead, 2);
}

int main(int argc, char **argv)
{
#define TEST(_name) cmocka_unit_test_teardown(_name, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_completion_creates_an_endpoint),
        TEST(test_completion_sends_to_a_new_peer),
        TEST(test_completion_ends_the_peer),
        TEST(test_leaves_when_lane_is_drained_at_both_ends),
        TEST(test_leaves_when_lane_is_drained),
        TEST(test_leaves_when_flush_waits),
        TEST(test_callback_ends_leaving_peer),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
