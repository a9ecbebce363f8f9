/*
 * Tests which lane an active message takes: during a fence, and while the first
 * lane is being evicted.
 */
#include "config.h"
#include "rail/conn/conn.h"
#include "rail/data/peer_lanes.h"
#include "mock_peer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define LENGTH 64

static uint8_t memory[LENGTH];

static size_t pack(void *dest, void *arg)
{
    memset(dest, 0, LENGTH);
    return LENGTH;
}

static void put(mrail_ep_t *ep, mrail_mem_t *mem, const mrail_rkey_t *rkey)
{
    mrail_iov_t iov = {.buffer = memory, .length = LENGTH, .mem = mem};

    assert_int_equal(
        mrail_ep_put_zcopy(ep, &iov, 1, 0x5000, rkey, &completions),
        -EINPROGRESS);
}

/* ---- fence ---- */

/* During a fence, messages may follow the PUTs if only one lane has PUTs,
 * unless the path of that lane is suspect. */
static void test_fence_on_a_suspect_path(void **state)
{
    uint8_t packed[4 + 4 * MRAIL_MAX_RAILS];
    mrail_rkey_t *rkey;
    mrail_mem_t *mem;
    mrail_ep_t *ep;

    start(64);
    assert_int_equal(mrail_mem_reg(engine, memory, sizeof(memory), &mem), 0);
    mrail_rkey_pack(mem, packed);
    assert_int_equal(mrail_rkey_unpack(packed, &rkey), 0);
    connect_lanes(0, 2);
    ep = ep_to(0);
    assert_int_equal(mrail_peer_num_up(peer_of(0)), 2);
    put(ep, mem, rkey);
    assert_int_equal(mrail_ep_fence(ep), 0);
    assert_non_null(peer_of(0)->ordered_lane);
    assert_int_equal(mrail_ep_am_bcopy(ep, 1, pack, NULL), LENGTH);
    mrail_path_event(peer_of(0), peer_of(0)->ordered_lane->slot,
                     MRAIL_HEALTH_STALLED, fake_now_ns);
    assert_int_equal(mrail_ep_am_bcopy(ep, 1, pack, NULL), -EAGAIN);
    mrail_path_event(peer_of(0), peer_of(0)->ordered_lane->slot,
                     MRAIL_HEALTH_PROGRESS, fake_now_ns);
    assert_int_equal(mrail_ep_am_bcopy(ep, 1, pack, NULL), LENGTH);
    /* If the path is still suspect when the fence ends, the other lane takes
     * the message. */
    mrail_path_event(peer_of(0), peer_of(0)->ordered_lane->slot,
                     MRAIL_HEALTH_STALLED, fake_now_ns);
    progress();
    assert_int_equal(peer_of(0)->num_fences, 0);
    assert_int_equal(mrail_ep_am_bcopy(ep, 1, pack, NULL), LENGTH);
    mrail_rkey_release(rkey);
    mrail_mem_dereg(mem);
}

/* ---- eviction ---- */

/* Slot 0 is down, and the first of the remaining lanes is being evicted for
 * another peer's first lane. Small messages must therefore take the last
 * lane. */
static void test_first_lane_leaves(void **state)
{
    mrail_ctl_msg_t hello;
    mrail_lane_t *lane;
    mrail_ep_t *ep;

    fake_num_devices = 3;
    start(64);
    fake_hello(&hello, 3, (uint32_t)engine->config.seg_size);
    deliver(0, &hello);
    for (unsigned slot = 0; slot < 3; ++slot) {
        mrail_ctl_msg_t msg;

        fake_lane_msg(&msg, MRAIL_CTL_LANE_REQ, slot, 10 + slot, 5);
        msg.lane.src_rail = msg.lane.dst_rail = (uint8_t)slot;
        deliver(0, &msg);
        msg.type = MRAIL_CTL_LANE_READY;
        deliver(0, &msg);
        assert_int_equal(peer_of(0)->lanes[slot]->state, MRAIL_LANE_UP);
    }
    ep = ep_to(0);
    break_lanes(0, 1);
    confirm_broken(0, 0, 0);
    assert_int_equal(mrail_peer_num_up(peer_of(0)), 2);
    lane = peer_of(0)->up[0];
    assert_int_equal(mrail_ep_am_bcopy(ep, 1, pack, NULL), LENGTH);
    assert_int_equal(lane->am.inflight != 0, 1);
    pthread_mutex_lock(&engine->ctl_lock);
    lane->evict_forced = 1;
    mrail_lane_event(lane, MRAIL_LANE_EV_WANT, "test");
    pthread_mutex_unlock(&engine->ctl_lock);
    progress();
    assert_int_equal(lane->state, MRAIL_LANE_LEAVING);
    for (unsigned i = 0; i < 3; ++i) {
        uint16_t before = lane->am.sent;

        assert_int_equal((i == 0) ? mrail_ep_am_short(ep, 1, NULL, 0, NULL, 0)
                                  : (mrail_ep_am_bcopy(ep, 1, pack, NULL) < 0),
                         0);
        assert_int_equal(lane->am.sent, before);
    }
    fake_num_devices = 2;
}

int main(int argc, char **argv)
{
#define TEST(_name) cmocka_unit_test_teardown(_name, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_fence_on_a_suspect_path),
        TEST(test_first_lane_leaves),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
