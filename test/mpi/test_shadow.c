/* The kind of memory of buffers: what the shadows of coll/mrail find, and how
 * many driver calls they make. The driver is a table of allocations. */
#include "config.h"
#include "mpi/coll/shadow.h"

#include "cuda/memory.h"

#include "ompi/constants.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/util.h"

enum { PEERS = 64, BLOCK = 100, BYTES = 2 * PEERS * BLOCK };

/* "Device memory" is readable, so that the test needs no driver. */
static char memory[BYTES];

static mrail_cuda_range_t allocations[4];
static unsigned num_allocations, num_calls;

int __wrap_mrail_cuda_recognise(const void *address, size_t length,
                                mrail_cuda_range_t *range_p);

static void find(uint64_t address, mrail_cuda_range_t *range_p)
{
    *range_p = (mrail_cuda_range_t){.memory = MRAIL_CUDA_HOST};
    for (unsigned i = 0; i < num_allocations; ++i) {
        if (address >= allocations[i].base &&
            address < allocations[i].base + allocations[i].size) {
            *range_p = allocations[i];
        }
    }
}

int __wrap_mrail_cuda_recognise(const void *address, size_t length,
                                mrail_cuda_range_t *range_p)
{
    uint64_t first = (uintptr_t)address;
    mrail_cuda_range_t end;

    ++num_calls;
    find(first, range_p);
    find(first + length - 1, &end);
    if ((range_p->memory == MRAIL_CUDA_HOST) !=
        (end.memory == MRAIL_CUDA_HOST)) {
        return -EFAULT;
    }
    return (range_p->base == end.base) ? 0 : -ERANGE;
}

/* Makes `blocks` blocks of `memory`, from number `first` on, an allocation. */
static void allocate(unsigned first, unsigned blocks, int device)
{
    allocations[num_allocations++] =
        (mrail_cuda_range_t){.memory = MRAIL_CUDA_DEVICE,
                             .device = device,
                             .base = (uintptr_t)memory + first * BLOCK,
                             .size = (size_t)blocks * BLOCK};
}

static int set_up(void **state)
{
    num_allocations = num_calls = 0;
    return 0;
}

/* Looks at one side with a block of one item for each peer. Block i is number
 * `stride` * i. Returns the number of driver calls. */
static unsigned look_at(unsigned stride, mca_coll_mrail_shadow_t *shadow)
{
    static int counts[PEERS], disps[PEERS];
    mca_coll_mrail_shadows_t shadows;
    mca_coll_mrail_args_t args = {.func = MCA_COLL_MRAIL_ALLTOALLV,
                                  .send = {.buffer = MPI_IN_PLACE},
                                  .recv = {.layout = MCA_COLL_MRAIL_LAYOUT_V,
                                           .buffer = memory,
                                           .counts = counts,
                                           .disps = disps,
                                           .type = &ompi_mpi_byte.dt,
                                           .num_peers = PEERS}};

    for (unsigned i = 0; i < PEERS; ++i) {
        counts[i] = BLOCK;
        /* not in the order of the addresses */
        disps[i] = (int)(stride * BLOCK * (i * 13 % PEERS));
    }
    num_calls = 0;
    assert_int_equal(mca_coll_mrail_shadows_init(&shadows, &args),
                     OMPI_SUCCESS);
    *shadow = shadows.recv;
    mca_coll_mrail_shadows_cleanup(&shadows);
    return num_calls;
}

static void test_host(void **state)
{
    mca_coll_mrail_shadow_t shadow;

    assert_int_equal(look_at(1, &shadow), 1);
    assert_false(shadow.is_device || shadow.is_mixed || shadow.has_gaps);
    /* Between the blocks, there may be anything. */
    assert_int_equal(look_at(2, &shadow), PEERS);
    assert_false(shadow.is_device);
}

static void test_device(void **state)
{
    mca_coll_mrail_shadow_t shadow;

    allocate(0, 2 * PEERS, 3);
    for (unsigned stride = 1; stride <= 2; ++stride) {
        assert_int_equal(look_at(stride, &shadow), 1);
        assert_true(shadow.is_device);
        assert_false(shadow.is_mixed);
        assert_int_equal(shadow.gpu, 3);
    }
}

/* Two allocations that touch, of one GPU or of two. */
static void test_two_allocations(void **state)
{
    mca_coll_mrail_shadow_t shadow;

    for (int other = 0; other < 2; ++other) {
        num_allocations = 0;
        allocate(0, 10, 0);
        allocate(10, 2 * PEERS - 10, other);
        assert_int_equal(look_at(1, &shadow), 2);
        assert_true(shadow.is_device);
        assert_false(shadow.is_mixed);
        assert_int_equal(shadow.gpu, other == 0 ? 0 : -1);
        assert_int_equal(shadow.num_regions, 2);
    }
}

static void test_mixed(void **state)
{
    mca_coll_mrail_shadow_t shadow;

    allocate(0, 10, 0);
    look_at(1, &shadow);
    assert_true(shadow.is_device && shadow.is_mixed);
    assert_int_equal(shadow.num_regions, 2);
}

/* A block that is half host memory and half device memory. */
static void test_half(void **state)
{
    int counts[2] = {BLOCK, BLOCK}, disps[2] = {0, BLOCK};
    mca_coll_mrail_shadows_t shadows;
    mca_coll_mrail_args_t args = {.func = MCA_COLL_MRAIL_ALLTOALLV,
                                  .send = {.buffer = MPI_IN_PLACE},
                                  .recv = {.layout = MCA_COLL_MRAIL_LAYOUT_V,
                                           .buffer = memory + BLOCK / 2,
                                           .counts = counts,
                                           .disps = disps,
                                           .type = &ompi_mpi_byte.dt,
                                           .num_peers = 2}};

    allocate(1, 10, 0);
    assert_int_equal(mca_coll_mrail_shadows_init(&shadows, &args),
                     MPI_ERR_BUFFER);
    mca_coll_mrail_shadows_cleanup(&shadows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_host, set_up),
        cmocka_unit_test_setup(test_device, set_up),
        cmocka_unit_test_setup(test_two_allocations, set_up),
        cmocka_unit_test_setup(test_mixed, set_up),
        cmocka_unit_test_setup(test_half, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
