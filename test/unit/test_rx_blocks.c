/*
 * Tests the memory for receive buffers: few registrations for many lanes,
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

/* The first lane of a rail allocates no more memory than it needs. */
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

static void connect_all(void)
{
    start(4 * PEERS);
    for (unsigned peer = 0; peer < PEERS; ++peer) {
        connect_lanes(peer, 2);
    }
}

/* The fake device checks that each buffer is posted once. */
static void test_many_lanes_share_blocks(void **state)
{
    connect_all();
    for (unsigned i = 0; i < 2; ++i) {
        const mrail_rail_t *rail = rail_of(i);

        assert_true(rail->srq_used > PEERS);
        assert_int_equal(used_bytes(rail), rail->srq_used * engine->rx_stride);
        assert_true(rail->rx_bytes <=
                    used_bytes(rail) * 9 / 8 + engine->rx_stride);
        assert_in_range(num_blocks(rail), 2, PEERS / 2);
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

/* Uses the rest of the newest block. Returns the rail of add(). */
static mrail_rail_t *fill_block(void)
{
    mrail_rail_t *rail = peer_of(0)->lanes[0]->rail;
    const mrail_rx_block_t *block = rail->blocks;

    assert_int_equal(
        add((unsigned)((block->size - block->used) / engine->rx_stride)), 0);
    assert_ptr_equal(block, rail->blocks);
    return rail;
}

/* If the locked-memory limit is near, a block is as small as possible. */
static void test_memory_limit(void **state)
{
    mrail_rail_t *rail;
    size_t before;
    unsigned blocks;

    connect_all();
    rail = fill_block();
    rail->srq_depth += 4096;
    before = rail->rx_bytes;
    blocks = num_blocks(rail);
    fake_fail_in = 1;
    assert_int_equal(add(3), 0);
    assert_int_equal(rail->blocks->size, 3 * engine->rx_stride);
    assert_int_equal(rail->rx_bytes, before + 3 * engine->rx_stride);
    before = rail->rx_bytes;
    assert_int_equal(add(3), 0);
    assert_int_equal(rail->blocks->size,
                     MRAIL_MIN(before / 8, MRAIL_HUGE_PAGE));
    assert_int_equal(num_blocks(rail), blocks + 2);
    /* The rest of the block is used before a new one is allocated. */
    assert_int_equal(add((unsigned)(rail->blocks->size / engine->rx_stride)),
                     0);
    assert_int_equal(num_blocks(rail), blocks + 3);
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
    assert_int_equal(add(100), -ENOMEM);
    assert_int_equal(rail->srq_used, used);
    assert_int_equal(num_blocks(rail), 1);
}

/* No block is larger than the buffers that the shared receive queue can still
 * take. */
static void test_small_queue(void **state)
{
    mrail_rail_t *rail;

    connect_all();
    rail = fill_block();
    rail->srq_depth = rail->srq_used + 4;
    assert_int_equal(add(1), 0);
    assert_int_equal(rail->blocks->size, 4 * engine->rx_stride);
    assert_int_equal(add(4), -ENOBUFS);
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
