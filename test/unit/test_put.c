/*
 * Tests small PUTs, which complete by their position in the send queue of
 * their lane. PUTs must not be lost, be replayed after they complete, or keep
 * their buffers forever.
 */
#include "config.h"
#include "rail/conn/conn.h"
#include "rail/recovery/recovery.h"
#include "mock_peer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#define SIZE 8u
#define ADDRESS(_n) (0x100000ull + (_n)*SIZE)
#define MAX_WRITES 1024

typedef struct write {
    struct ibv_qp *qp;
    uint64_t wr_id;
    uint64_t address;
    uint32_t key;
    int is_signalled;
    uint8_t data[SIZE];
} write_t;

static uint8_t memory[4096];
static mrail_mem_t *mem;
static mrail_rkey_t *rkey;
static mrail_ep_t *ep;
static write_t writes[MAX_WRITES];
static unsigned num_writes;
static int refuse_writes;
static int (*post_mock)(struct ibv_qp *qp, struct ibv_send_wr *wr,
                        struct ibv_send_wr **bad);

static int post(struct ibv_qp *qp, struct ibv_send_wr *wr,
                struct ibv_send_wr **bad)
{
    if (wr->opcode == IBV_WR_RDMA_WRITE) {
        write_t *w = &writes[num_writes++];

        assert_true(num_writes <= MAX_WRITES);
        *w = (write_t){.qp = qp,
                       .wr_id = wr->wr_id,
                       .address = wr->wr.rdma.remote_addr,
                       .key = wr->wr.rdma.rkey,
                       .is_signalled =
                           (wr->send_flags & IBV_SEND_SIGNALED) != 0};
        memcpy(w->data, (const void *)(uintptr_t)wr->sg_list[0].addr,
               MRAIL_MIN(wr->sg_list[0].length, SIZE));
        if (refuse_writes) {
            *bad = wr;
            return ENOMEM;
        }
    }
    return post_mock(qp, wr, bad);
}

static int setup(void **state)
{
    uint8_t packed[4 + 4 * MRAIL_MAX_RAILS];

    start(64);
    num_writes = 0;
    refuse_writes = 0;
    post_mock = engine->rails[0].ctx->ops.post_send;
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        engine->rails[i].ctx->ops.post_send = post;
    }
    assert_int_equal(mrail_mem_reg(engine, memory, sizeof(memory), &mem), 0);
    mrail_rkey_pack(mem, packed);
    assert_int_equal(mrail_rkey_unpack(packed, &rkey), 0);
    connect_lanes(0, 2);
    ep = ep_to(0);
    return 0;
}

static int cleanup(void **state)
{
    unsigned used = engine->ops.num_used + engine->chunks.num_used +
                    engine->tx_small.num_used + engine->tx_big.num_used +
                    engine->groups.num_used + engine->flush_pool.num_used;

    if (rkey != NULL) {
        mrail_rkey_release(rkey);
    }
    mrail_mem_dereg(mem);
    teardown(state);
    assert_int_equal(used, 0);
    return 0;
}

static unsigned buffers(void)
{
    return engine->tx_small.num_used + engine->tx_big.num_used;
}

static mrail_lane_t *lane_of(unsigned slot)
{
    return peer_of(0)->lanes[slot];
}

static int try_put(unsigned n)
{
    uint8_t data[SIZE];

    memset(data, (int)n, sizeof(data));
    return mrail_ep_put_short(ep, data, SIZE, ADDRESS(n), rkey);
}

static void put(unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; ++i) {
        assert_int_equal(try_put(i), 0);
    }
}

/* Runs the engine while the device completes nothing. */
static void progress_engine(void)
{
    mrail_iface_progress(ifaces[0]);
    mrail_iface_progress(ifaces[0]);
}

static void tick(void)
{
    fake_now_ns += MRAIL_STALL_TICK;
    mrail_ctl_lock(engine);
    mrail_stall_tick(engine, fake_now_ns);
    mrail_ctl_unlock(engine);
}

static void flush(void)
{
    assert_int_equal(mrail_ep_flush(ep, &completions), -EINPROGRESS);
}

/* Fails the lane of slot 0. The device completes `signalled` requests first. */
static void break_lane(int signalled)
{
    mrail_failover_request(lane_of(0), "test");
    fake_complete_all(engine, signalled ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR);
    progress_engine();
    assert_int_equal(lane_of(0)->state, MRAIL_LANE_CLOSING);
    run_control(20 * MRAIL_NS_PER_MS);
    fake_complete_all(engine, IBV_WC_WR_FLUSH_ERR);
    progress_engine();
}

static void test_completes_by_position(void **state)
{
    unsigned every = lane_of(0)->sq_depth / 4;

    put(0, every - 1);
    assert_int_equal(num_writes, every - 1);
    for (unsigned i = 0; i < num_writes; ++i) {
        assert_false(writes[i].is_signalled);
        assert_int_equal(writes[i].address, ADDRESS(i));
        assert_int_equal(writes[i].key, rkey->rkey[lane_of(0)->remote_rail]);
        assert_int_equal(writes[i].data[SIZE - 1], i);
    }
    progress();
    assert_int_equal(buffers(), every - 1);
    assert_int_equal(engine->counters.put_bytes, 0);
    put(every - 1, 2);
    assert_true(writes[every - 1].is_signalled);
    assert_false(writes[every].is_signalled);
    progress();
    assert_int_equal(buffers(), 1);
    assert_int_equal(engine->counters.put_bytes, every * SIZE);
    assert_int_equal(lane_of(0)->rma_carried,
                     MRAIL_TELEMETRY ? every * SIZE : 0);
    assert_int_equal(engine->ops.num_used + engine->chunks.num_used, 0);
    flush();
    progress();
    assert_int_equal(engine->counters.put_bytes, (every + 1) * SIZE);
}

/* The completion of any later request completes the PUTs. */
static void test_message_completes_puts(void **state)
{
    unsigned every = lane_of(0)->sq_depth / 4;

    put(0, every - 1);
    assert_int_equal(mrail_ep_am_short(ep, 1, NULL, 0, memory, SIZE), 0);
    progress();
    assert_int_equal(buffers(), 1); /* the buffer of the message */
    message(0, 0, 0);               /* acknowledges the message */
    progress();
}

/* The READ of the flush follows the PUTs. */
static void test_flush(void **state)
{
    put(0, 5);
    flush();
    progress_engine();
    assert_int_equal(completions.count, 0);
    assert_int_equal(buffers(), 5);
    progress();
    assert_int_equal(sent.num_reads, 1);
    assert_int_equal(completions.count, 1);
    assert_int_equal(completions.status[0], 0);
    assert_int_equal(buffers(), 0);
    assert_int_equal(mrail_ep_flush(ep, &completions), 0);
}

/* A flush without a callback does not cover a PUT that is posted after it. */
static void test_polled_flush_covers_later_puts(void **state)
{
    put(0, 1);
    assert_int_equal(mrail_ep_flush(ep, NULL), -EINPROGRESS);
    put(1, 1);
    assert_int_equal(mrail_ep_flush(ep, NULL), -EINPROGRESS);
    assert_int_equal(sent.num_reads, 2);
    progress();
    assert_int_equal(mrail_ep_flush(ep, NULL), 0);
}

static void test_fence_waits(void **state)
{
    put(0, 3);
    assert_int_equal(mrail_ep_fence(ep), 0);
    assert_int_equal(try_put(3), -EAGAIN);
    progress();
    assert_int_equal(buffers(), 0);
    put(3, 1);
    flush();
    progress();
}

/* If no request follows the PUTs, stall detection posts a READ. */
static void test_idle_lane_keeps_no_buffers(void **state)
{
    put(0, 3);
    progress();
    assert_int_equal(buffers(), 3);
    tick();
    assert_int_equal(sent.num_reads, 1);
    assert_int_equal(lane_of(0)->idle_ns, 0);
    progress();
    assert_int_equal(buffers(), 0);
    assert_int_equal(engine->counters.put_bytes, 3 * SIZE);
    for (unsigned i = 0; i < 20; ++i) {
        tick();
    }
    assert_int_equal(sent.num_reads, 1);
    assert_int_equal(engine->stall_checking, 0);
}

static void test_queue_is_full(void **state)
{
    unsigned depth = lane_of(0)->sq_depth;

    put(0, depth - depth / 4);
    assert_int_equal(try_put(0), -EAGAIN);
    assert_int_equal(engine->ops.num_used, 0);
    progress();
    assert_int_equal(buffers(), 0);
    put(0, 1);
    flush();
    progress();
}

/* The lane fails with PUTs in flight, and the flush waits for the replay. */
static void test_replay(void **state)
{
    mrail_rkey_t copy = *rkey;

    put(0, 3);
    /* The caller may release its key while the PUT is in flight. */
    memset(rkey, 0xff, sizeof(*rkey));
    mrail_rkey_release(rkey);
    rkey = NULL;
    flush();
    break_lane(0);
    assert_int_equal(completions.count, 0);
    assert_int_equal(num_writes, 3);
    confirm_broken(0, 0, 0);
    assert_int_equal(num_writes, 6);
    for (unsigned i = 0; i < 3; ++i) {
        assert_ptr_equal(writes[3 + i].qp, lane_of(1)->qp);
        assert_int_equal(writes[3 + i].address, ADDRESS(i));
        assert_int_equal(writes[3 + i].key, copy.rkey[lane_of(1)->remote_rail]);
        assert_int_equal(writes[3 + i].data[0], i);
    }
    assert_int_equal(engine->counters.rma_replayed, 3);
    progress();
    assert_int_equal(completions.count, 1);
    assert_int_equal(completions.status[0], 0);
    assert_int_equal(engine->counters.put_bytes, 3 * SIZE);
}

/* Flushes must not complete between the lane's end and the replay, even if they
 * start in between. */
static void test_flush_during_failover(void **state)
{
    put(0, 3);
    progress();
    mrail_failover_request(lane_of(0), "test");
    progress_engine();
    flush();
    run_control(20 * MRAIL_NS_PER_MS);
    fake_complete_all(engine, IBV_WC_WR_FLUSH_ERR);
    progress_engine();
    lane_of(1)->held = 1; /* accepts no replay yet */
    confirm_broken(0, 0, 0);
    progress();
    assert_int_equal(completions.count, 0);
    assert_int_equal(num_writes, 3);
    assert_int_equal(try_put(9), -EAGAIN);
    lane_of(1)->held = 0;
    progress_engine();
    assert_int_equal(num_writes, 6);
    assert_int_equal(completions.count, 0);
    progress();
    assert_int_equal(completions.count, 1);
}

/* A PUT before a successful completion is not replayed, nor is a PUT that a
 * later message proves to have arrived. */
static void test_replays_no_more_than_lost(void **state)
{
    unsigned every = lane_of(0)->sq_depth / 4;

    put(0, every + 1);
    assert_int_equal(mrail_ep_am_short(ep, 1, NULL, 0, memory, SIZE), 0);
    put(every + 1, 1);
    break_lane(1);
    confirm_broken(0, 0, 1); /* the message has arrived */
    assert_int_equal(engine->counters.rma_replayed, 1);
    assert_int_equal(num_writes, every + 3);
    assert_int_equal(writes[num_writes - 1].address, ADDRESS(every + 1));
    message(0, 1, 0);
    flush();
    progress();
    assert_int_equal(engine->counters.put_bytes, (every + 2) * SIZE);
}

/* The second lane fails as well, before the replay is complete. */
static void test_replay_is_replayed(void **state)
{
    put(0, 2);
    break_lane(0);
    confirm_broken(0, 0, 0);
    assert_int_equal(num_writes, 4);
    mrail_failover_request(lane_of(1), "test");
    progress_engine();
    run_control(20 * MRAIL_NS_PER_MS);
    fake_complete_all(engine, IBV_WC_WR_FLUSH_ERR);
    progress_engine();
    confirm_broken(0, 1, 0);
    assert_int_equal(buffers(), 2);
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 0, 20, 7);
    deliver_lane(0, MRAIL_CTL_LANE_READY, 0, 20, 7);
    progress();
    assert_int_equal(num_writes, 6);
    assert_ptr_equal(writes[5].qp, lane_of(0)->qp);
    flush();
    progress();
}

static void test_lost_device(void **state)
{
    put(0, 2);
    mrail_ctl_lock(engine);
    engine->rails[lane_of(0)->rail->index].fatal = 1;
    mrail_ctl_unlock(engine);
    mrail_failover_request(lane_of(0), "test");
    progress_engine();
    fake_now_ns += 20 * MRAIL_NS_PER_MS;
    run_control(0);
    progress_engine();
    confirm_broken(0, 0, 0);
    assert_int_equal(engine->counters.rma_replayed, 2);
    flush();
    progress();
}

/* The device rejects a post, so the lane fails. If the device accepts a later
 * request, the completion of that request must not complete the PUT. */
static void test_post_fails(void **state)
{
    put(0, 1);
    refuse_writes = 1;
    put(1, 1);
    refuse_writes = 0;
    flush();
    assert_int_equal(sent.num_reads, 1);
    fake_complete_all(engine, IBV_WC_SUCCESS);
    progress_engine();
    assert_int_equal(completions.count, 0);
    assert_int_equal(lane_of(0)->state, MRAIL_LANE_CLOSING);
    assert_int_equal(num_writes, 3);
    assert_int_equal(writes[2].address, ADDRESS(1));
    assert_ptr_equal(writes[2].qp, lane_of(1)->qp);
    progress();
    assert_int_equal(completions.count, 1);
    run_control(20 * MRAIL_NS_PER_MS);
    progress();
    confirm_broken(0, 0, 0);
    assert_int_equal(num_writes, 3);
    assert_int_equal(engine->counters.put_bytes, 2 * SIZE);
}

/* An invalid key fails the endpoint and the flush, but not the peer. The engine
 * finds the request by its position. */
static void test_refused(void **state)
{
    put(0, 3);
    flush();
    fake_complete(writes[1].qp, writes[1].wr_id, IBV_WC_REM_ACCESS_ERR);
    fake_complete(writes[2].qp, writes[2].wr_id, IBV_WC_WR_FLUSH_ERR);
    fake_complete_all(engine, IBV_WC_WR_FLUSH_ERR);
    progress_engine();
    assert_int_equal(peer_of(0)->failed, 0);
    assert_int_equal(ep->failed, -EIO);
    run_control(20 * MRAIL_NS_PER_MS);
    fake_complete_all(engine, IBV_WC_WR_FLUSH_ERR);
    progress_engine();
    confirm_broken(0, 0, 0);
    assert_int_equal(num_writes, 5); /* all except the rejected one */
    assert_int_equal(writes[3].address, ADDRESS(0));
    assert_int_equal(writes[4].address, ADDRESS(2));
    progress();
    assert_int_equal(completions.count, 1);
    assert_int_equal(completions.status[0], -EIO);
}

/* PUTs of a cancelled endpoint are not replayed, whether they were lost before
 * or after the cancellation. PUTs of another endpoint are replayed. */
static void test_cancel(void **state)
{
    mrail_ep_t *other = ep_to(0), *first = ep;

    put(0, 2);
    ep = other;
    put(2, 1);
    ep = first;
    mrail_ep_cancel(ep);
    assert_int_equal(mrail_ep_flush(ep, NULL), 0);
    break_lane(0);
    confirm_broken(0, 0, 0);
    assert_int_equal(num_writes, 4);
    assert_int_equal(writes[3].address, ADDRESS(2));
    mrail_failover_request(lane_of(1), "test");
    progress_engine();
    run_control(20 * MRAIL_NS_PER_MS);
    fake_complete_all(engine, IBV_WC_WR_FLUSH_ERR);
    progress_engine();
    confirm_broken(0, 1, 0);
    assert_int_equal(buffers(), 1);
    mrail_ep_cancel(other);
    assert_int_equal(buffers(), 0);
    progress();
}

static void test_peer_fails(void **state)
{
    put(0, 3);
    flush();
    mrail_ctl_peer_failed(peer_of(0), -ETIMEDOUT);
    progress_engine();
    assert_int_equal(buffers(), 3); /* the device may still read them */
    fake_complete_all(engine, IBV_WC_WR_FLUSH_ERR);
    progress_engine();
    assert_int_equal(buffers(), 0);
    assert_int_equal(completions.count, 1);
    assert_int_equal(completions.status[0], -ETIMEDOUT);
}

/* The lane is drained before its eviction ends. */
static void test_eviction(void **state)
{
    put(0, 1);
    flush();
    progress();
    /* The PUTs take the other lane. */
    mrail_lane_event(lane_of(0), MRAIL_LANE_EV_WANT, "test");
    mrail_lane_event(lane_of(0), MRAIL_LANE_EV_LEAVE, "test");
    peer_of(0)->seen_mask = 0;
    put(1, 2);
    assert_ptr_equal(writes[2].qp, lane_of(1)->qp);
    mrail_lane_event(lane_of(0), MRAIL_LANE_EV_KEEP, "test");
    peer_of(0)->seen_mask = 0;
    start_eviction(0);
    assert_int_equal(buffers(), 0);
    confirm_all(0);
    assert_null(lane_of(1));
    assert_int_equal(engine->counters.put_bytes, 3 * SIZE);
}

static size_t pack(void *dest, void *arg)
{
    size_t length = *(const size_t *)arg;

    memset(dest, 0x5a, length);
    return length;
}

/* Longer PUTs are operations, so that rails share the work and their rates are
 * measured. */
static void test_buffered(void **state)
{
    size_t length = SIZE;

    assert_int_equal(mrail_ep_put_bcopy(ep, pack, &length, 0x5000, rkey),
                     length);
    assert_false(writes[0].is_signalled);
    assert_int_equal(engine->ops.num_used, 0);
    length = peer_of(0)->am_spread;
    assert_int_equal(mrail_ep_put_bcopy(ep, pack, &length, 0x5000, rkey),
                     length);
    assert_true(writes[1].is_signalled);
    length = 0;
    assert_int_equal(mrail_ep_put_bcopy(ep, pack, &length, 0x5000, rkey), 0);
    assert_int_equal(mrail_ep_put_short(ep, memory, 0, 0x5000, rkey), 0);
    assert_int_equal(num_writes, 2);
    flush();
    progress();
}

/* The caller may release its key while a longer PUT is in flight, too. */
static void test_replay_of_buffered(void **state)
{
    size_t length;
    mrail_rkey_t copy = *rkey;
    unsigned slot;

    put(0, 1);
    length = peer_of(0)->am_spread;
    assert_int_equal(mrail_ep_put_bcopy(ep, pack, &length, 0x5000, rkey),
                     length);
    memset(rkey, 0xff, sizeof(*rkey));
    mrail_rkey_release(rkey);
    rkey = NULL;
    assert_int_equal(num_writes, 2);
    assert_true(writes[1].is_signalled);
    slot = (writes[1].qp == lane_of(1)->qp);
    mrail_failover_request(lane_of(slot), "test");
    fake_complete_all(engine, IBV_WC_WR_FLUSH_ERR);
    progress_engine();
    run_control(20 * MRAIL_NS_PER_MS);
    progress_engine();
    confirm_broken(0, slot, 0);
    assert_true(num_writes > 2);
    for (unsigned i = 2; i < num_writes; ++i) {
        assert_ptr_equal(writes[i].qp, lane_of(!slot)->qp);
        assert_int_equal(writes[i].key, copy.rkey[lane_of(!slot)->remote_rail]);
    }
    progress();
}

int main(void)
{
#define TEST(_name) cmocka_unit_test_setup_teardown(_name, setup, cleanup)
    const struct CMUnitTest tests[] = {
        TEST(test_completes_by_position),
        TEST(test_message_completes_puts),
        TEST(test_flush),
        TEST(test_polled_flush_covers_later_puts),
        TEST(test_fence_waits),
        TEST(test_idle_lane_keeps_no_buffers),
        TEST(test_queue_is_full),
        TEST(test_replay),
        TEST(test_flush_during_failover),
        TEST(test_replays_no_more_than_lost),
        TEST(test_replay_is_replayed),
        TEST(test_lost_device),
        TEST(test_post_fails),
        TEST(test_refused),
        TEST(test_cancel),
        TEST(test_peer_fails),
        TEST(test_eviction),
        TEST(test_buffered),
        TEST(test_replay_of_buffered),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
