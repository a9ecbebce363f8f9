/*
 * The end of a failed lane: the completions of its segments run without a lock.
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

/* PUTs and a message behind them on the only lane, which fails.  The device
 * gives the PUTs back undone. */
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

/* The message has arrived, so the PUT before it has, too. */
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

/* The callback of the first ends the peer: the second completes once. */
static void test_completion_ends_the_peer(void **state)
{
    lose_puts(2);
    in_completion = leave_and_progress;
    confirm_broken(0, 0, 1);
    assert_int_equal(peer_of(0)->dead, 2);
    assert_int_equal(completions.count, 2);
    assert_int_equal(completions.status[0], 0);
    assert_int_equal(engine->ops.num_used, 0);
    assert_int_equal(engine->segs.num_used, 0);
    release_memory();
}

int main(int argc, char **argv)
{
#define TEST(_name) cmocka_unit_test_teardown(_name, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_completion_creates_an_endpoint),
        TEST(test_completion_sends_to_a_new_peer),
        TEST(test_completion_ends_the_peer),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
