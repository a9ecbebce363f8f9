/*
 * Tests the cancellation of an endpoint. Its operations and flushes must
 * complete with -ECANCELED, but those of other endpoints to the same peer must
 * not. An operation must not complete while a device may still access its
 * memory.
 */
#include "config.h"
#include "rail/conn/conn.h"
#include "mock_peer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define LENGTH (4u << 20) /* more than a lane's window */
#define SMALL 256

static uint8_t memory[LENGTH];
static mrail_mem_t *mem;
static mrail_rkey_t *rkey;
static mrail_ep_t *ep, *other;

static size_t pack(void *dest, void *arg)
{
    memset(dest, 0, SMALL);
    return SMALL;
}

static size_t num_unpacked;

static void unpack(void *arg, const void *data, size_t length)
{
    num_unpacked += length;
}

static int setup(void **state)
{
    uint8_t packed[4 + 4 * MRAIL_MAX_RAILS];

    num_unpacked = 0;
    start(64);
    assert_int_equal(mrail_mem_reg(engine, memory, sizeof(memory), &mem), 0);
    mrail_rkey_pack(mem, packed);
    assert_int_equal(mrail_rkey_unpack(packed, &rkey), 0);
    connect_lanes(0, 1);
    ep = ep_to(0);
    other = ep_to(0);
    return 0;
}

static int cleanup(void **state)
{
    unsigned used = engine->ops.num_used + engine->chunks.num_used +
                    engine->groups.num_used + engine->flush_pool.num_used;

    mrail_rkey_release(rkey);
    mrail_mem_dereg(mem);
    teardown(state);
    assert_int_equal(used, 0);
    return 0;
}

static void send_message(mrail_ep_t *to)
{
    assert_int_equal(mrail_ep_am_bcopy(to, 1, pack, NULL), SMALL);
}

static void put(mrail_ep_t *to, size_t length)
{
    mrail_iov_t iov = {.buffer = memory, .length = length, .mem = mem};

    assert_int_equal(
        mrail_ep_put_zcopy(to, &iov, 1, 0x5000, rkey, &completions),
        -EINPROGRESS);
}

static void get(mrail_ep_t *from)
{
    mrail_iov_t iov = {.buffer = memory, .length = SMALL, .mem = mem};

    assert_int_equal(
        mrail_ep_get_zcopy(from, &iov, 1, 0x5000, rkey, &completions),
        -EINPROGRESS);
}

static void flush(mrail_ep_t *of)
{
    assert_int_equal(mrail_ep_flush(of, &completions), -EINPROGRESS);
}

/* UCT_FLUSH_FLAG_CANCEL */
static int cancel(void *comp)
{
    mrail_ep_cancel(ep);
    return mrail_ep_flush(ep, comp);
}

/* Runs the engine while the device completes nothing. */
static void progress_engine(void)
{
    mrail_iface_progress(ifaces[0]);
    mrail_iface_progress(ifaces[0]);
}

static void assert_completions(unsigned count, const int *status)
{
    assert_int_equal(completions.count, count);
    for (unsigned i = 0; i < count; ++i) {
        assert_int_equal(completions.status[i], status[i]);
    }
}

/* The peer does not acknowledge the message, so without the cancellation the
 * flush would not complete. */
static void test_flush_ends(void **state)
{
    send_message(ep);
    flush(ep);
    flush(other);
    assert_int_equal(cancel(&completions), -EINPROGRESS);
    /* the callback does not run inside the call */
    assert_int_equal(completions.count, 0);
    progress_engine();
    assert_completions(2, (int[]){-ECANCELED, 0});
    assert_int_equal(cancel(NULL), 0);
    message(0, 0, 0); /* acknowledges the message */
    progress();
    assert_completions(3, (int[]){-ECANCELED, 0, 0});
}

static void test_idle_endpoint_is_flushed(void **state)
{
    send_message(other);
    assert_int_equal(cancel(&completions), 0);
    assert_int_equal(mrail_ep_am_bcopy(ep, 1, pack, NULL), -ECANCELED);
    send_message(other);
    message(0, 0, 0);
    progress();
    assert_int_equal(completions.count, 0);
}

/* The device may read the memory until it has returned the request. */
static void test_memory_at_the_device(void **state)
{
    put(ep, SMALL);
    get(ep);
    put(other, SMALL);
    flush(ep);
    assert_int_equal(cancel(NULL), -EINPROGRESS);
    assert_int_equal(cancel(&completions), -EINPROGRESS);
    progress_engine();
    assert_int_equal(completions.count, 0);
    progress();
    assert_completions(5, (int[]){-ECANCELED, -ECANCELED, 0, -ECANCELED, 0});
    assert_int_equal(cancel(NULL), 0);
}

/* The lane's window is full, so the rest of the first operation and all of the
 * second one have not reached the device. After the cancellation, they must
 * never reach it. */
static void test_unposted_work_ends(void **state)
{
    unsigned pending;

    put(ep, LENGTH);
    put(ep, LENGTH);
    put(other, SMALL);
    pending = engine->chunks.num_used;
    assert_true(pending != 0);
    assert_false(mrail_list_empty(&peer_of(0)->uncut));
    mrail_ep_cancel(ep);
    progress_engine();
    assert_completions(1, (int[]){-ECANCELED});
    assert_int_equal(engine->chunks.num_used, pending + 1);
    assert_int_equal(peer_of(0)->uncut_bytes, 0);
    progress();
    assert_completions(3, (int[]){-ECANCELED, -ECANCELED, 0});
}

/* The peer confirms the failed lane, and a new one replaces it. */
static void reconnect(void)
{
    run_control(20 * MRAIL_NS_PER_MS);
    progress_engine();
    confirm_broken(0, 0, 0);
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 0, 20, 7);
    deliver_lane(0, MRAIL_CTL_LANE_READY, 0, 20, 7);
    assert_int_equal(peer_of(0)->lanes[0]->state, MRAIL_LANE_UNVALIDATED);
    progress();
}

/* The lane has failed and its device has returned the requests, but the peer
 * has not yet reported which messages arrived. */
static void test_lost_work_ends(void **state)
{
    put(ep, SMALL);
    put(other, SMALL);
    mrail_failover_request(peer_of(0)->lanes[0], "test");
    fake_complete_all(engine, IBV_WC_WR_FLUSH_ERR);
    progress_engine();
    assert_int_equal(completions.count, 0);
    assert_int_equal(cancel(&completions), -EINPROGRESS);
    progress_engine();
    assert_completions(2, (int[]){-ECANCELED, 0});
    assert_int_equal(engine->chunks.num_used, 1); /* it is replayed later */
    reconnect();
    assert_int_equal(engine->counters.rma_replayed, 1);
    assert_completions(3, (int[]){-ECANCELED, 0, 0});
}

/* The lane fails after the cancellation. */
static void test_returned_work_ends(void **state)
{
    put(ep, SMALL);
    mrail_ep_cancel(ep);
    mrail_failover_request(peer_of(0)->lanes[0], "test");
    fake_complete_all(engine, IBV_WC_WR_FLUSH_ERR);
    progress_engine();
    assert_completions(1, (int[]){-ECANCELED});
    reconnect();
    assert_int_equal(engine->counters.rma_replayed, 0);
}

/* A lost device does not return its requests. The operation completes once the
 * QPs are destroyed, because the device can then no longer access the
 * memory. */
static void test_lost_device(void **state)
{
    put(ep, SMALL);
    mrail_ep_cancel(ep);
    pthread_mutex_lock(&engine->ctl_lock);
    mrail_failover_rail(engine, &engine->rails[0], "test");
    pthread_mutex_unlock(&engine->ctl_lock);
    progress_engine();
    assert_int_equal(completions.count, 0);
    run_control(20 * MRAIL_NS_PER_MS);
    progress_engine();
    assert_completions(1, (int[]){-ECANCELED});
}

/* A buffered PUT has already completed for the caller, because the engine owns
 * the copy. The flush therefore ends immediately. */
static void test_buffered(void **state)
{
    assert_int_equal(mrail_ep_put_bcopy(ep, pack, NULL, 0x5000, rkey), SMALL);
    assert_int_equal(cancel(NULL), 0);
    progress();
    assert_int_equal(completions.count, 0);
}

static void test_get_is_not_unpacked(void **state)
{
    assert_int_equal(
        mrail_ep_get_bcopy(ep, unpack, NULL, SMALL, 0x5000, rkey, &completions),
        -EINPROGRESS);
    mrail_ep_cancel(ep);
    progress();
    assert_completions(1, (int[]){-ECANCELED});
    assert_int_equal(num_unpacked, 0);
}

/* A visibility READ of the flush outlives it. */
static void test_flush_with_reads(void **state)
{
    put(ep, SMALL);
    progress();
    completions.count = 0;
    flush(ep);
    progress_engine();
    assert_int_equal(sent.num_reads, 1);
    assert_int_equal(cancel(NULL), -EINPROGRESS);
    progress_engine();
    assert_completions(1, (int[]){-ECANCELED});
    progress();
    assert_completions(1, (int[]){-ECANCELED});
}

static void cancel_in_callback(void)
{
    assert_int_equal(cancel(&completions), -EINPROGRESS);
}

static void test_callback_cancels(void **state)
{
    put(ep, SMALL);
    put(ep, SMALL);
    flush(ep);
    in_completion = cancel_in_callback;
    progress();
    assert_completions(4, (int[]){0, -ECANCELED, -ECANCELED, 0});
}

/* The peer fails while the device may access the memory. */
static void test_peer_fails(void **state)
{
    put(ep, SMALL);
    flush(ep);
    flush(other);
    assert_int_equal(cancel(&completions), -EINPROGRESS);
    mrail_ctl_peer_failed(peer_of(0), -ETIMEDOUT);
    progress_engine();
    assert_int_equal(completions.count, 0);
    fake_complete_all(engine, IBV_WC_WR_FLUSH_ERR);
    progress_engine();
    assert_completions(4, (int[]){-ECANCELED, -ECANCELED, -ETIMEDOUT, 0});
}

int main(void)
{
#define TEST(_name) cmocka_unit_test_setup_teardown(_name, setup, cleanup)
    const struct CMUnitTest tests[] = {
        TEST(test_flush_ends),           TEST(test_idle_endpoint_is_flushed),
        TEST(test_memory_at_the_device), TEST(test_unposted_work_ends),
        TEST(test_lost_work_ends),       TEST(test_returned_work_ends),
        TEST(test_lost_device),          TEST(test_buffered),
        TEST(test_get_is_not_unpacked),  TEST(test_flush_with_reads),
        TEST(test_callback_cancels),     TEST(test_peer_fails),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
