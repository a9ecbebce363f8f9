/*
 * Tests of the memory for receive buffers: few registrations for many lanes,
 * and little memory for few lanes.
 */
#include "config.h"
#include "mock_peer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "rail/conn/conn.h"
#include "rail/state/engine.h"

#define PEERS 100

static mrail_rail_t *rail_of(unsigned i)
{
    return &engine->rails[i];
}

static unsigned num_blocks(const mrail_rail_t *rail)
{
    unsigned count = 0;

    for (const mrail_rx_block_t *block = rail->blocks; block != NULL;
         block = block->next) {
        ++count;
        assert_true(block->used <= block->size);
        assert_true(block->used % engine->rx_stride == 0);
    }
    return count;
}

static size_t used_bytes(const mrail_rail_t *rail)
{
    size_t used = 0;

    for (const mrail_rx_block_t *block = rail->blocks; block != NULL;
         block = block->next) {
        used += block->used;
    }
    return used;
}

/* The first lane of a rail gets no more memory than it needs. */
static void test_first_block_is_small(void **state)
{
    start(64);
    connect_lanes(0, 2);
    for (unsigned i = 0; i < 2; ++i) {
        assert_int_equal(num_blocks(rail_of(i)), 1);
        assert_int_equal(rail_of(i)->rx_bytes,
                         rail_of(i)->srq_used * engine->rx_stride);
    }
}

/* The fake device checks that each buffer is posted once. */
static void test_many_lanes_share_blocks(void **state)
{
    mrail_rail_t *rail;

    start(4 * PEERS);
    for (unsigned peer = 0; peer < PEERS; ++peer) {
        connect_lanes(peer, 2);
    }
    for (unsigned i = 0; i < 2; ++i) {
        rail = rail_of(i);
        assert_true(rail->srq_used > PEERS);
        assert_int_equal(used_bytes(rail), rail->srq_used * engine->rx_stride);
        assert_true(rail->rx_bytes <= used_bytes(rail) + 2 * MRAIL_HUGE_PAGE);
        assert_in_range(num_blocks(rail), 2,
                        2 + used_bytes(rail) / (MRAIL_HUGE_PAGE * 9 / 10));
    }
}

/* Adds buffers for a lane. Returns the status. */
static int add(unsigned count)
{
    mrail_lane_t *lane = peer_of(0)->lanes[0];
    int ret;

    pthread_mutex_lock(&engine->ctl_lock);
    ret = mrail_lane_add_buffers(lane, mrail_rail_spare(lane->rail) + count);
    pthread_mutex_unlock(&engine->ctl_lock);
    return ret;
}

/* If the locked-memory limit is near, a block is as small as possible. */
static void test_memory_limit(void **state)
{
    mrail_rail_t *rail;

    start(64);
    connect_lanes(0, 2);
    rail = peer_of(0)->lanes[0]->rail;
    fake_fail_in = 1;
    assert_int_equal(add(10), 0);
    assert_int_equal(rail->blocks->size, 10 * engine->rx_stride);
    assert_int_equal(add(10), 0);
    assert_int_equal(rail->blocks->size, MRAIL_HUGE_PAGE);
    assert_int_equal(num_blocks(rail), 3);
    /* The rest of the block is used first, and then a new block. */
    assert_int_equal(add(200), 0);
    assert_int_equal(num_blocks(rail), 4);
    assert_int_equal(used_bytes(rail), rail->srq_used * engine->rx_stride);
}

static void test_no_memory(void **state)
{
    mrail_rail_t *rail;
    unsigned used;

    start(64);
    connect_lanes(0, 2);
    rail = peer_of(0)->lanes[0]->rail;
    used = rail->srq_used;
    fake_fail_in = 1;
    assert_int_equal(add(MRAIL_HUGE_PAGE / engine->rx_stride + 1), -ENOMEM);
    assert_int_equal(rail->srq_used, used);
    assert_int_equal(num_blocks(rail), 1);
}

/* No block is larger than the buffers that the shared receive queue can still
 * take. */
static void test_small_queue(void **state)
{
    mrail_rail_t *rail;

    start(64);
    connect_lanes(0, 2);
    rail = peer_of(0)->lanes[0]->rail;
    rail->srq_depth = rail->srq_used + 20;
    assert_int_equal(add(8), 0);
    assert_int_equal(rail->blocks->size, 20 * engine->rx_stride);
    assert_int_equal(add(13), -ENOBUFS);
}

int main(void)
{
#define TEST(_name) cmocka_unit_test_teardown(_name, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_first_block_is_small), TEST(test_many_lanes_share_blocks),
        TEST(test_memory_limit),         TEST(test_no_memory),
        TEST(test_small_queue),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
