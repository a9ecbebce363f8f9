/* Tests src/relay/memory.c: host memory behind the table of functions. */
#include "config.h"
#include "relay/memory.h"

#include "relay/slot.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS 3u
#define CHUNK 8192u

static const mrail_relay_shape_t shape = {
    .num_local = RANKS, .out_slots = 2, .in_slots = 3, .chunk = CHUNK};
static mrail_relay_memory_t memories[RANKS];
static char handles[RANKS][MRAIL_RELAY_NAME_SIZE];

static int alloc_rank(uint32_t rank)
{
    return memories[rank].ops->alloc(&memories[rank], &shape, rank,
                                     handles[rank]);
}

static int import_rank(uint32_t rank)
{
    const void *all[RANKS] = {handles[0], handles[1], handles[2]};

    return memories[rank].ops->import(&memories[rank], &shape, rank, all);
}

static int setup(void **state)
{
    for (uint32_t i = 0; i < RANKS; ++i) {
        mrail_relay_memory_init(&memories[i], &mrail_relay_host_memory_ops);
        memset(handles[i], 0xff, sizeof(handles[i]));
    }
    return 0;
}

static int teardown(void **state)
{
    for (uint32_t i = 0; i < RANKS; ++i) {
        memories[i].ops->release(&memories[i]);
    }
    return 0;
}

/* All ranks see the same payloads. */
static void test_shared(void **state)
{
    static char bytes[CHUNK], again[CHUNK];
    mrail_relay_layout_t layout;
    void *copy = NULL;

    assert_int_equal(mrail_relay_layout(&shape, &layout), 0);
    for (uint32_t i = 0; i < RANKS; ++i) {
        assert_int_equal(alloc_rank(i), 0);
    }
    for (uint32_t i = 0; i < RANKS; ++i) {
        assert_int_equal(import_rank(i), 0);
    }
    for (uint32_t i = 0; i < RANKS; ++i) {
        memset(bytes, (int)i + 1, CHUNK);
        assert_int_equal(
            memories[i].ops->copy_start(
                &memories[i],
                mrail_relay_payload(&layout, memories[i].areas[i], i, 4), bytes,
                CHUNK, &copy),
            0);
        assert_null(copy);
    }
    for (uint32_t i = 0; i < RANKS; ++i) {
        uint32_t owner = (i + 1) % RANKS;

        memset(bytes, (int)owner + 1, CHUNK);
        assert_int_equal(memories[i].ops->copy_start(
                             &memories[i], again,
                             mrail_relay_payload(
                                 &layout, memories[i].areas[owner], owner, 4),
                             CHUNK, &copy),
                         0);
        assert_memory_equal(bytes, again, CHUNK);
    }
}

/* A sealed memory cannot be imported, but ranks that have imported it can use
 * it. */
static void test_sealed(void **state)
{
    for (uint32_t i = 0; i < RANKS; ++i) {
        assert_int_equal(alloc_rank(i), 0);
    }
    assert_int_equal(import_rank(0), 0);
    assert_int_equal(import_rank(1), 0);
    mrail_relay_memory_seal(&memories[0]);
    mrail_relay_memory_seal(&memories[1]);
    assert_int_equal(import_rank(2), -ENOENT);
    memset(memories[1].areas[2], 1, CHUNK);
}

/* If the first rank fails, so do the others. */
static void test_failed(void **state)
{
    mrail_relay_shape_t wrong = shape;

    wrong.chunk = 1;
    assert_int_equal(
        memories[0].ops->alloc(&memories[0], &wrong, 0, handles[0]), -EINVAL);
    assert_int_equal(handles[0][0], '\0');
    for (uint32_t i = 1; i < RANKS; ++i) {
        assert_int_equal(alloc_rank(i), 0);
        assert_int_equal(import_rank(i), -EINVAL);
    }
    assert_int_equal(import_rank(0), -EINVAL);
}

/* A memory can be allocated again after it was released. */
static void test_again(void **state)
{
    char path[sizeof(MRAIL_RELAY_DIR) + MRAIL_RELAY_NAME_SIZE];

    for (unsigned i = 0; i < 3; ++i) {
        assert_int_equal(alloc_rank(0), 0);
        assert_int_equal(import_rank(0), 0);
        snprintf(path, sizeof(path), "%s/%s", MRAIL_RELAY_DIR, handles[0]);
        assert_int_equal(access(path, F_OK), 0);
        memories[0].ops->release(&memories[0]);
        assert_int_not_equal(access(path, F_OK), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_shared, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sealed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_again, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
