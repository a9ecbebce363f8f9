/*
 * get_short waits for the data while it holds the data-path lock. The failover
 * of a lane needs that lock in other threads, and must not run inside a
 * callback. If the lane fails, the call therefore returns -EAGAIN, and the
 * caller retries.
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

#define POLLS_MAX 1000 /* limit for a single call */
#define POLL_NS (1 * MRAIL_NS_PER_MS)

static int (*poll_cq)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
static enum ibv_wc_status read_status;
static int completes;   /* 1 if READs complete, with the status read_status */
static int is_borrowed; /* 1 if the control thread waits for the lock */
static unsigned num_polls;
static mrail_mem_t *mem;
static mrail_rkey_t *rkey;
static mrail_ep_t *ep;
static uint64_t value;
static int result;

static int poll_reading(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
    if ((cq != engine->rails[0].cq) && (cq != engine->rails[1].cq)) {
        return poll_cq(cq, n, wc);
    }
    if (++num_polls > POLLS_MAX) {
        fail_msg("the call does not return");
    }
    fake_now_ns += POLL_NS;
    if (completes) {
        fake_complete_send(cq, read_status);
    }
    if (is_borrowed) {
        engine->data_lock.shared |= MRAIL_DATA_LOCK_BORROWED;
    }
    return poll_cq(cq, n, wc);
}

static int setup(void **state)
{
    uint8_t packed[4 + 4 * MRAIL_MAX_RAILS];

    completes = is_borrowed = 0;
    read_status = IBV_WC_SUCCESS;
    start(64);
    assert_int_equal(mrail_mem_reg(engine, &value, sizeof(value), &mem), 0);
    mrail_rkey_pack(mem, packed);
    assert_int_equal(mrail_rkey_unpack(packed, &rkey), 0);
    connect_lanes(0, 2);
    ep = ep_to(0);
    for (unsigned i = 0; i < 2; ++i) {
        poll_cq = (i == 0) ? engine->rails[0].ctx->ops.poll_cq : poll_cq;
        engine->rails[i].ctx->ops.poll_cq = poll_reading;
    }
    return 0;
}

static int cleanup(void **state)
{
    mrail_rkey_release(rkey);
    mrail_mem_dereg(mem);
    return teardown(state);
}

static void get(void)
{
    num_polls = 0;
    result = mrail_ep_get_short(ep, &value, sizeof(value), 0x5000, rkey);
    engine->data_lock.shared = 0;
}

static void get_in_callback(void)
{
    result = 1;
    in_callback = get;
    message(0, 0, 0);
    mrail_iface_progress(ifaces[0]);
    assert_int_not_equal(result, 1);
}

/* The failed lane is closed, and the next call succeeds on the other lane. */
static void assert_recovers(void)
{
    unsigned slot = (peer_of(0)->lanes[0]->state == MRAIL_LANE_UP);

    num_polls = 0;
    progress();
    assert_int_equal(peer_of(0)->lanes[slot]->state, MRAIL_LANE_CLOSING);
    completes = 0;
    run_control(20 * MRAIL_NS_PER_MS);
    progress();
    confirm_broken(0, slot, 0);
    progress();
    assert_int_equal(peer_of(0)->recovering, 0);
    assert_int_equal(engine->ops.num_used, 0);
    assert_int_equal(engine->chunks.num_used, 0);
    completes = 1;
    read_status = IBV_WC_SUCCESS;
    get();
    assert_int_equal(result, 0);
}

static void test_succeeds(void **state)
{
    completes = 1;
    get();
    assert_int_equal(result, 0);
    get_in_callback();
    assert_int_equal(result, 0);
}

static void test_lane_fails_in_callback(void **state)
{
    completes = 1;
    read_status = IBV_WC_RETRY_EXC_ERR;
    get_in_callback();
    assert_int_equal(result, -EAGAIN);
    assert_recovers();
}

/* Recovery needs the control thread, because it receives the peer's
 * confirmation. */
static void test_lane_fails(void **state)
{
    completes = 1;
    read_status = IBV_WC_RETRY_EXC_ERR;
    get();
    assert_int_equal(result, -EAGAIN);
    assert_recovers();
}

/* The device reports nothing. Only the control thread detects that the lane
 * stalls. */
static void test_lane_stalls(void **state)
{
    is_borrowed = 1;
    get();
    assert_int_equal(result, -EAGAIN);
    get_in_callback();
    assert_int_equal(result, -EAGAIN);
    is_borrowed = 0;
    num_polls = 0;
    progress();
    assert_int_equal(engine->ops.num_used, 0);
    assert_int_equal(engine->chunks.num_used, 0);
}

/* A READ of a flush is in flight, and has the id of the GET. The call ends only
 * the GET, which then must not write to the buffer of the caller. */
static void test_after_put(void **state)
{
    uint64_t data = 1;
    mrail_op_t *op;

    assert_int_equal(mrail_ep_put_short(ep, &data, sizeof(data), 0x5000, rkey),
                     0);
    assert_int_equal(mrail_ep_flush(ep, &completions), -EINPROGRESS);
    is_borrowed = 1;
    get();
    assert_int_equal(result, -EAGAIN);
    mrail_list_for_each(op, &peer_of(0)->ops, mrail_op_t, list) {
        assert_true((op->kind == MRAIL_OP_VISIBLE) || (op->unpack == NULL));
    }
    is_borrowed = 0;
    completes = 1;
    num_polls = 0;
    progress();
    progress();
    assert_int_equal(engine->ops.num_used, 0);
    assert_int_equal(completions.count, 1);
}

/* The control thread often waits for the lock. The call must not give up for
 * that reason, because the control thread can wait for one round trip. */
static void test_borrower_waits(void **state)
{
    is_borrowed = completes = 1;
    get();
    assert_int_equal(result, 0);
}

int main(void)
{
#define TEST(_name) cmocka_unit_test_setup_teardown(_name, setup, cleanup)
    const struct CMUnitTest tests[] = {
        TEST(test_succeeds),   TEST(test_lane_fails_in_callback),
        TEST(test_lane_fails), TEST(test_lane_stalls),
        TEST(test_after_put),  TEST(test_borrower_waits),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
