/*
 * Tests the handling of a failed lane's work. The completion callbacks of its
 * chunks run without a lock, so the peer may leave in between.
 */
#include "config.h"
#include "rail/conn/conn.h"
#include "rail/data/peer_lanes.h"
#include "rail/data/rx.h"
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
    assert_true((peer_of(0)->lanes[0]->state == MRAIL_LANE_CLOSED) ||
                (peer_of(0)->lanes[0]->state == MRAIL_LANE_BOTH_CLOSED));
}

static void create_endpoint(void)
{
    assert_non_null(ep_to(1));
}

/* The peer confirms the message. The PUT was sent earlier, so it has also
 * arrived. */
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

static void bye(unsigned peer_index)
{
    deliver_only(peer_index, 0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_BYE});
}

static void leave_and_progress(void)
{
    bye(0);
    progress();
}

/* The callback of the first completion closes the peer. The second completion
 * must still be reported, exactly once. */
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

/* ---- devices that fail a step of closing a QP ---- */

/* Connects two lanes, and starts two PUTs on each. */
static void start_puts(void)
{
    mrail_ep_t *ep;

    start(64);
    register_memory();
    connect_lanes(0, 2);
    ep = ep_to(0);
    assert_int_equal(mrail_peer_num_up(peer_of(0)), 2);
    peer_of(0)->am_spread = 0; /* short PUTs use both lanes */
    for (unsigned i = 0; i < 4; ++i) {
        put(ep);
    }
    assert_false(mrail_list_empty(&peer_of(0)->lanes[0]->flying));
    assert_false(mrail_list_empty(&peer_of(0)->lanes[1]->flying));
}

static unsigned num_flying(const mrail_lane_t *lane)
{
    unsigned count = 0;

    for (const mrail_list_t *pos = lane->flying.next; pos != &lane->flying;
         pos = pos->next) {
        ++count;
    }
    return count;
}

static void poll_only(void)
{
    run_control(20 * MRAIL_NS_PER_MS);
    for (unsigned i = 0; i < 3; ++i) {
        mrail_iface_progress(ifaces[0]);
    }
}

static void complete_all(enum ibv_wc_status status)
{
    fake_complete_all(engine, status);
    poll_only();
}

/* If the device cannot drain the QP, the device keeps the chunks until it
 * returns them one by one. */
static void test_refused_drain_waits_for_chunks(void **state)
{
    const mrail_lane_t *lane;

    start_puts();
    lane = peer_of(0)->lanes[0];
    fake_no_drain = 1;
    mrail_failover_request(peer_of(0)->lanes[0], "test");
    poll_only();
    assert_int_equal(lane->state, MRAIL_LANE_CLOSING);
    poll_only();
    assert_int_equal(lane->state, MRAIL_LANE_CLOSING);
    fake_complete_send(lane->rail->cq, IBV_WC_WR_FLUSH_ERR);
    poll_only();
    assert_int_equal(num_flying(lane), 1);
    assert_int_equal(lane->state, MRAIL_LANE_CLOSING);
    fake_complete_send(lane->rail->cq, IBV_WC_WR_FLUSH_ERR);
    poll_only();
    assert_true((lane->state == MRAIL_LANE_CLOSED) ||
                (lane->state == MRAIL_LANE_BOTH_CLOSED));
    confirm_broken(0, 0, 0);
    complete_all(IBV_WC_SUCCESS);
    assert_int_equal(completions.count, 4);
    assert_int_equal(engine->chunks.num_used, 0);
    release_memory();
}

/* The same applies when the peer has failed, because the device may still
 * access the user's memory of the operations. */
static void test_refused_drain_of_a_lost_peer(void **state)
{
    start_puts();
    fake_no_drain = 1;
    mrail_peer_error(peer_of(0), "test");
    poll_only();
    assert_int_equal(peer_of(0)->dead, 1);
    assert_int_equal(completions.count, 0);
    complete_all(IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(peer_of(0)->dead, 2);
    assert_int_equal(completions.count, 4);
    assert_int_equal(engine->chunks.num_used, 0);
    release_memory();
}

static unsigned num_sends;
static int (*post_before)(struct ibv_qp *qp, struct ibv_send_wr *wr,
                          struct ibv_send_wr **bad);

static int count_post(struct ibv_qp *qp, struct ibv_send_wr *wr,
                      struct ibv_send_wr **bad)
{
    num_sends += (qp->qp_type == IBV_QPT_RC);
    return post_before(qp, wr, bad);
}

static void count_posts(void)
{
    num_sends = 0;
    post_before = engine->rails[0].ctx->ops.post_send;
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        engine->rails[i].ctx->ops.post_send = count_post;
    }
}

/* If the QP cannot enter the error state, the drain request itself would reach
 * the peer, and the QP could still receive. The engine therefore destroys the
 * QP. Earlier completions still count. */
static void test_qp_without_error_state(void **state)
{
    const mrail_lane_t *lane;
    uint32_t qpn;

    start_puts();
    lane = peer_of(0)->lanes[0];
    qpn = lane->qpn;
    count_posts();
    fake_no_error_state = 1;
    fake_complete_send(lane->rail->cq, IBV_WC_SUCCESS);
    mrail_failover_request(peer_of(0)->lanes[0], "test");
    poll_only();
    assert_null(fake_find_qp(qpn));
    assert_int_equal(num_sends, 0);
    assert_int_equal(completions.count, 1);
    assert_true((lane->state == MRAIL_LANE_CLOSED) ||
                (lane->state == MRAIL_LANE_BOTH_CLOSED));
    confirm_broken(0, 0, 0);
    assert_int_equal(engine->counters.rma_replayed, 1);
    complete_all(IBV_WC_SUCCESS);
    assert_int_equal(completions.count, 4);
    for (unsigned i = 0; i < 4; ++i) {
        assert_int_equal(completions.status[i], 0);
    }
    assert_int_equal(engine->chunks.num_used, 0);
    engine->rails[0].ctx->ops.post_send = post_before;
    engine->rails[1].ctx->ops.post_send = post_before;
    release_memory();
}

/* A message that waits for an earlier one keeps its receive buffer, which must
 * return to the rail exactly once. */
static void test_qp_without_error_state_has_messages(void **state)
{
    mrail_rail_t *rail;
    unsigned receives;

    start(64);
    connect_lanes(0, 2);
    (void)mrail_peer_num_up(peer_of(0));
    rail = peer_of(0)->lanes[0]->rail;
    receives = fake_num_receives(rail->srq);
    ++peer_of(0)->am.rx_next; /* the preceding message is still in flight */
    message(0, 0, 0);
    --peer_of(0)->am.rx_next;
    poll_only();
    assert_false(mrail_list_empty(&peer_of(0)->am.hold));
    fake_no_error_state = 1;
    mrail_failover_request(peer_of(0)->lanes[0], "test");
    poll_only();
    assert_true((peer_of(0)->lanes[0]->state == MRAIL_LANE_CLOSED) ||
                (peer_of(0)->lanes[0]->state == MRAIL_LANE_BOTH_CLOSED));
    confirm_broken(0, 0, 0);
    message(0, 1, 0);
    poll_only();
    assert_true(mrail_list_empty(&peer_of(0)->am.hold));
    mrail_rx_flush(engine, rail->index);
    assert_int_equal(fake_num_receives(rail->srq), receives);
    assert_int_equal(mrail_rail_spare(rail), receives);
}

static void test_lost_peer_without_error_state(void **state)
{
    start_puts();
    count_posts();
    fake_no_error_state = 1;
    fake_complete_send(peer_of(0)->lanes[0]->rail->cq, IBV_WC_SUCCESS);
    mrail_peer_error(peer_of(0), "test");
    poll_only();
    assert_int_equal(peer_of(0)->dead, 2);
    assert_int_equal(num_sends, 0);
    assert_int_equal(completions.count, 4);
    assert_int_equal(completions.status[0], 0);
    assert_int_not_equal(completions.status[1], 0);
    assert_int_equal(engine->rails[0].num_chunks, 0);
    assert_int_equal(engine->rails[1].num_chunks, 0);
    assert_int_equal(engine->chunks.num_used, 0);
    engine->rails[0].ctx->ops.post_send = post_before;
    engine->rails[1].ctx->ops.post_send = post_before;
    release_memory();
}

/* ---- a device that does not return the requests of a QP ---- */

/* The QP is destroyed after a time limit, and its work takes another lane. */
static void test_requests_are_not_returned(void **state)
{
    const mrail_lane_t *lane;
    uint32_t qpn;

    start_puts();
    lane = peer_of(0)->lanes[0];
    qpn = lane->qpn;
    mrail_failover_request(peer_of(0)->lanes[0], "test");
    for (unsigned i = 0; i < 20; ++i) {
        poll_only();
    }
    assert_non_null(fake_find_qp(qpn));
    assert_int_equal(lane->state, MRAIL_LANE_CLOSING);
    for (unsigned i = 0; i < 40; ++i) {
        poll_only();
    }
    assert_null(fake_find_qp(qpn));
    assert_true((lane->state == MRAIL_LANE_CLOSED) ||
                (lane->state == MRAIL_LANE_BOTH_CLOSED));
    confirm_broken(0, 0, 0);
    assert_int_equal(engine->counters.rma_replayed, 2);
    complete_all(IBV_WC_SUCCESS);
    assert_int_equal(completions.count, 4);
    for (unsigned i = 0; i < 4; ++i) {
        assert_int_equal(completions.status[i], 0);
    }
    assert_int_equal(engine->chunks.num_used, 0);
    release_memory();
}

/* The peer still ends, and its operations fail. */
static void test_requests_of_a_lost_peer_are_not_returned(void **state)
{
    start_puts();
    mrail_peer_error(peer_of(0), "test");
    poll_only();
    assert_int_equal(peer_of(0)->dead, 1);
    for (unsigned i = 0; i < 60; ++i) {
        poll_only();
    }
    assert_int_equal(peer_of(0)->dead, 2);
    assert_int_equal(completions.count, 4);
    for (unsigned i = 0; i < 4; ++i) {
        assert_int_not_equal(completions.status[i], 0);
    }
    assert_int_equal(engine->chunks.num_used, 0);
    release_memory();
}

/* The endpoint's failure, which states the reason, is reported before the first
 * failed operation. */

static mrail_ep_t *failing_ep; /* an endpoint of ifaces[0] */
static mrail_ep_t *working_ep; /* an endpoint of ifaces[1] to the same peer */
static unsigned num_ep_failures;

static void on_ep_failed(void *arg, mrail_ep_t *ep, int status)
{
    assert_ptr_equal(ep, failing_ep);
    assert_int_equal(status, -EIO);
    /* the reason comes before the first failed operation */
    assert_int_equal(completions.count, num_ep_failures);
    ++num_ep_failures;
}

/* Requests of both endpoints are on one lane. The request of failing_ep comes
 * first. */
static void start_failing(unsigned lanes)
{
    mrail_iface_t *first;

    start(64);
    register_memory();
    connect_lanes(0, lanes);
    (void)mrail_peer_num_up(peer_of(0));
    num_ep_failures = 0;
    for (unsigned i = 0; i < 2; ++i) {
        ifaces[i]->params.ep_failed = on_ep_failed;
    }
    failing_ep = own_ep_to(0);
    first = ifaces[0];
    ifaces[0] = ifaces[1];
    working_ep = own_ep_to(0);
    ifaces[0] = first;
}

static void end_failing(void)
{
    mrail_ep_destroy(failing_ep);
    mrail_ep_destroy(working_ep);
    assert_int_equal(engine->chunks.num_used, 0);
    assert_int_equal(engine->ops.num_used, 0);
    release_memory();
}

static void progress_both(void)
{
    for (unsigned i = 0; i < 4; ++i) {
        run_control(20 * MRAIL_NS_PER_MS);
        mrail_iface_progress(ifaces[0]);
        mrail_iface_progress(ifaces[1]);
    }
}

/* An rkey that is no longer valid is a fault of one endpoint. It fails the
 * lane, but not the peer, so the endpoint of the other iface continues. */
static void test_invalid_key_fails_one_endpoint(void **state)
{
    start_failing(1);
    put(failing_ep);
    assert_int_equal(mrail_ep_am_bcopy(working_ep, 1, pack, NULL), LENGTH);
    put(working_ep);
    /* another lane, which takes over the work */
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 1, 11, 5);
    deliver_lane(0, MRAIL_CTL_LANE_READY, 1, 11, 5);
    fake_complete_send(peer_of(0)->lanes[0]->rail->cq, IBV_WC_REM_ACCESS_ERR);
    fake_complete_all(engine, IBV_WC_WR_FLUSH_ERR);
    mrail_iface_progress(ifaces[1]);
    assert_int_equal(num_ep_failures, 0);
    mrail_iface_progress(ifaces[0]);
    assert_int_equal(peer_of(0)->failed, 0);
    assert_int_equal(num_ep_failures, 1);
    assert_int_equal(mrail_ep_am_bcopy(failing_ep, 1, pack, NULL), -EIO);
    progress_both();
    confirm_broken(0, 0, 0);
    fake_complete_all(engine, IBV_WC_SUCCESS);
    progress_both();
    assert_int_equal(peer_of(0)->failed, 0);
    assert_int_equal(num_ep_failures, 1);
    assert_int_equal(engine->counters.rma_replayed, 1);
    assert_int_equal(engine->counters.am_replayed, 1);
    assert_int_equal(completions.count, 2);
    assert_int_equal(completions.status[0], -EIO);
    assert_int_equal(completions.status[1], 0);
    assert_int_equal(mrail_ep_am_bcopy(working_ep, 1, pack, NULL), LENGTH);
    end_failing();
}

/* The parts that were on other lanes must not be replayed, and the rest must
 * not be sent. A flush of the iface must also fail, because a PUT may have no
 * completion of its own. */
static void test_invalid_key_of_a_large_put(void **state)
{
    mrail_iov_t iov = {.buffer = memory, .length = LENGTH};
    mrail_op_t *op;

    start_failing(2);
    engine->config.stripe_thresh = 64;
    engine->config.rma_chunk_size = 64;
    iov.mem = mem;
    assert_int_equal(
        mrail_ep_put_zcopy(failing_ep, &iov, 1, 0x5000, rkey, NULL),
        -EINPROGRESS);
    op = mrail_list_head(&peer_of(0)->ops, mrail_op_t, list);
    assert_true(op->pending > 1);
    assert_int_equal(mrail_ep_flush(failing_ep, &completions), -EINPROGRESS);
    assert_int_equal(mrail_ep_am_bcopy(working_ep, 1, pack, NULL), LENGTH);
    /* A chunk that was sent earlier has already failed with its lane and waits
     * for its replay. */
    mrail_failover_request(peer_of(0)->lanes[1], "test");
    mrail_iface_progress(ifaces[0]);
    fake_complete_send(peer_of(0)->lanes[0]->rail->cq, IBV_WC_REM_ACCESS_ERR);
    fake_complete_all(engine, IBV_WC_WR_FLUSH_ERR);
    progress_both();
    fake_complete_all(engine, IBV_WC_WR_FLUSH_ERR);
    progress_both();
    assert_int_equal(peer_of(0)->failed, 0);
    confirm_broken(0, 0, 0);
    confirm_broken(0, 1, 0);
    assert_true(mrail_list_empty(&peer_of(0)->ops));
    assert_int_equal(peer_of(0)->uncut_bytes, 0);
    assert_int_equal(engine->counters.rma_replayed, 0);
    peer_of(0)->am.tx_acked = peer_of(0)->am.tx_next; /* of working_ep */
    progress_both();
    assert_int_equal(completions.count, 1);
    assert_int_equal(completions.status[0], -EIO);
    assert_int_equal(num_ep_failures, 1);
    end_failing();
}

/* If the peer's device rejects a message, the whole peer fails: the message
 * cannot be replayed, and the receiver must not skip it. */
static void test_refused_message_fails_the_peer(void **state)
{
    mrail_lane_t *lane;

    start(64);
    connect_lanes(0, 1);
    lane = peer_of(0)->lanes[0];
    assert_int_equal(mrail_ep_am_bcopy(ep_to(0), 1, pack, NULL), LENGTH);
    fake_complete(lane->qp,
                  ((uint64_t)(lane->sq_posted - 1) << 24) |
                      ((uint64_t)lane->index << 8) | MRAIL_WR_MARKER,
                  IBV_WC_REM_INV_REQ_ERR);
    mrail_iface_progress(ifaces[0]);
    assert_int_equal(peer_of(0)->failed, -ECONNRESET);
}

/* ---- the peer leaves ---- */

/* The control thread has processed the peer's BYE. The progress thread has not
 * run since, because it was waiting for the lock. */
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
    (void)ep_to(0);
    break_lanes(0, 1);
    lane = peer_of(0)->lanes[0];
    assert_true((lane->state == MRAIL_LANE_CLOSED) ||
                (lane->state == MRAIL_LANE_BOTH_CLOSED));
    fake_lane_msg(&msg, MRAIL_CTL_CONFIRM, 0, lane->request, lane->epoch);
    deliver_only(0, 0, &msg);
    leave_unseen();
    end_peer();
}

static void evict_slot_1(void)
{
    pthread_mutex_lock(&engine->ctl_lock);
    mrail_lane_event(peer_of(0)->lanes[1], MRAIL_LANE_EV_WANT, "test");
    pthread_mutex_unlock(&engine->ctl_lock);
    mrail_iface_progress(ifaces[0]);
    assert_int_equal(peer_of(0)->lanes[1]->state, MRAIL_LANE_DRAINING);
}

static void test_leaves_when_lane_is_drained(void **state)
{
    start(64);
    connect_lanes(0, 2);
    (void)ep_to(0);
    evict_slot_1();
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

/* A callback closes the peer while a progress call iterates over the peers,
 * between two visits to this one. */
static void test_callback_ends_leaving_peer(void **state)
{
    mrail_ep_t *ep;

    start(64);
    connect_lanes(0, 2);
    ep = ep_to(0);
    assert_int_equal(mrail_ep_am_bcopy(ep, 1, pack, NULL), LENGTH);
    assert_int_equal(mrail_ep_flush(ep, &completions), -EINPROGRESS);
    evict_slot_1();
    peer_of(0)->am.tx_acked = peer_of(0)->am.tx_next;
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
        TEST(test_refused_drain_waits_for_chunks),
        TEST(test_refused_drain_of_a_lost_peer),
        TEST(test_qp_without_error_state),
        TEST(test_qp_without_error_state_has_messages),
        TEST(test_lost_peer_without_error_state),
        TEST(test_requests_are_not_returned),
        TEST(test_requests_of_a_lost_peer_are_not_returned),
        TEST(test_invalid_key_fails_one_endpoint),
        TEST(test_invalid_key_of_a_large_put),
        TEST(test_refused_message_fails_the_peer),
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
