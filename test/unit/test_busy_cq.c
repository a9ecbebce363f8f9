/*
 * Lanes are closed while other peers keep the completion queues full. The
 * engine then never finds a queue empty. That must neither delay closing a lane
 * forever nor lose a completion of the lane.
 */
#include "config.h"
#include "rail/conn/conn.h"
#include "mock_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define CQ_DEPTH 8192u /* with the default UCX_MRAIL_RX_QUEUE_LEN */
#define BATCHES (CQ_DEPTH / MRAIL_POLL_BATCH)

static int (*poll_cq)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
static int busy;
/* number of completions of other QPs ahead of the lane's completions */
static unsigned num_before[2];

/* Fills the queue with completions of QPs that no longer exist, which the
 * engine ignores. */
static int poll_busy(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
    unsigned rail = (cq == engine->rails[1].cq);
    int filled = 0;

    if (!busy || (cq != engine->rails[rail].cq)) {
        return poll_cq(cq, n, wc);
    }
    if (num_before[rail] == 0) {
        filled = poll_cq(cq, n, wc);
    } else {
        num_before[rail] -= MRAIL_MIN(num_before[rail], (unsigned)n);
    }
    for (; filled < n; ++filled) {
        memset(&wc[filled], 0, sizeof(wc[filled]));
        wc[filled].wr_id =
            ((uint64_t)(engine->config.max_qps - 1) << 8) | MRAIL_WR_MARKER;
    }
    return n;
}

static int setup(void **state)
{
    busy = 0;
    num_before[0] = num_before[1] = 0;
    start(64);
    for (unsigned i = 0; i < 2; ++i) {
        poll_cq = (i == 0) ? engine->rails[0].ctx->ops.poll_cq : poll_cq;
        engine->rails[i].ctx->ops.poll_cq = poll_busy;
    }
    connect_lanes(0, 2);
    return 0;
}

/* Makes enough progress calls to poll every queue twice over: first up to the
 * last completion of a lane, and then as many completions as a queue holds.
 * Each call polls every queue at least once. */
static void progress_long(void)
{
    for (unsigned i = 0; i < 2 * BATCHES + 8; ++i) {
        fake_complete_all(engine, IBV_WC_WR_FLUSH_ERR);
        mrail_iface_progress(ifaces[0]);
    }
}

static void test_failed_lane_is_closed(void **state)
{
    busy = 1;
    mrail_failover_request(peer_of(0)->lanes[0], "test");
    progress();
    run_control(20 * MRAIL_NS_PER_MS);
    progress_long();
    assert_true((peer_of(0)->lanes[0]->state == MRAIL_LANE_CLOSED) ||
                (peer_of(0)->lanes[0]->state == MRAIL_LANE_BOTH_CLOSED));
}

/* The message arrived before the lane failed, so the reply to the peer must
 * count it. */
static void test_failed_lane_takes_all_messages(void **state)
{
    mrail_failover_request(peer_of(0)->lanes[0], "test");
    message(0, 0, 0);
    busy = 1;
    num_before[0] = CQ_DEPTH - MRAIL_POLL_BATCH;
    progress();
    run_control(20 * MRAIL_NS_PER_MS);
    progress_long();
    assert_true((peer_of(0)->lanes[0]->state == MRAIL_LANE_CLOSED) ||
                (peer_of(0)->lanes[0]->state == MRAIL_LANE_BOTH_CLOSED));
    assert_int_equal(peer_of(0)->lanes[0]->am.received, 1);
}

static void test_lost_device_is_closed(void **state)
{
    busy = 1;
    pthread_mutex_lock(&engine->ctl_lock);
    mrail_failover_rail(engine, &engine->rails[0], "test");
    pthread_mutex_unlock(&engine->ctl_lock);
    progress();
    run_control(20 * MRAIL_NS_PER_MS);
    progress_long();
    assert_true((peer_of(0)->lanes[0]->state == MRAIL_LANE_CLOSED) ||
                (peer_of(0)->lanes[0]->state == MRAIL_LANE_BOTH_CLOSED));
}

static void test_departed_peer_ends(void **state)
{
    (void)ep_to(0);
    busy = 1;
    deliver_only(0, 0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_BYE});
    progress_long();
    assert_int_equal(peer_of(0)->dead, 2);
    assert_int_equal(engine->num_qps, 0);
}

/* The peer has no lane on the other rail. Completions on the other rail must
 * not delay the peer's removal, although that rail's queue is never empty. */
static void test_departed_peer_with_one_rail(void **state)
{
    (void)ep_to(1);
    connect_lanes(1, 1);
    busy = 1;
    deliver_only(1, 0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_BYE});
    progress_long();
    assert_int_equal(peer_of(1)->dead, 2);
    assert_int_equal(engine->num_qps, 2);
}

static void test_evicted_lane_is_reaped(void **state)
{
    uint32_t seq = start_eviction(0);

    busy = 1;
    deliver_lane(0, MRAIL_CTL_CONFIRM, 1, seq, 5);
    progress_long();
    assert_null(peer_of(0)->lanes[1]);
}

/* The peer may send on the lane until it confirms the eviction, so this message
 * must still be delivered. */
static void test_evicted_lane_delivers(void **state)
{
    uint32_t seq = start_eviction(0);

    message(0, 1, 0);
    busy = 1;
    num_before[1] = CQ_DEPTH - MRAIL_POLL_BATCH;
    deliver_lane(0, MRAIL_CTL_CONFIRM, 1, seq, 5);
    progress_long();
    assert_null(peer_of(0)->lanes[1]);
    assert_int_equal(engine->counters.am_received, 1);
    assert_int_equal(engine->counters.rx_bad_header, 0);
}

int main(void)
{
#define TEST(_name) cmocka_unit_test_setup_teardown(_name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_failed_lane_is_closed),
        TEST(test_failed_lane_takes_all_messages),
        TEST(test_lost_device_is_closed),
        TEST(test_departed_peer_ends),
        TEST(test_departed_peer_with_one_rail),
        TEST(test_evicted_lane_is_reaped),
        TEST(test_evicted_lane_delivers),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
