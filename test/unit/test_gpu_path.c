/* Tests the paths of copies between software GPUs: the links that they take,
 * and when bytes have crossed them. */
#include "config.h"
#include "softgpu/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/util.h"

#define NOW (1000 * MRAIL_NS_PER_SEC)
#define RATE UINT64_C(100000000) /* 10 ns per byte */

static sgpu_gpu_t gpus[3];

static int set_up(void **state)
{
    memset(gpus, 0, sizeof(gpus));
    for (unsigned i = 0; i < 3; ++i) {
        gpus[i].index = i;
        gpus[i].pcie_in.rate_bytes_per_s = RATE;
        gpus[i].pcie_out.rate_bytes_per_s = RATE;
        gpus[i].up.rate_bytes_per_s = RATE;
        gpus[i].down.rate_bytes_per_s = RATE;
        for (unsigned k = 0; k < 3; ++k) {
            gpus[i].mesh[k].rate_bytes_per_s = RATE;
        }
    }
    return 0;
}

static void expect_path(sgpu_path_t path, const sgpu_link_t *first,
                        const sgpu_link_t *second)
{
    assert_int_equal(path.num, (first != NULL) + (second != NULL));
    assert_ptr_equal(path.links[0], first);
    assert_ptr_equal(path.links[1], second);
}

static void test_links(void **state)
{
    sgpu_gpu_t *a = &gpus[0], *b = &gpus[2];

    expect_path(sgpu_path_find(SGPU_LINK_MESH, NULL, a, 1), &a->pcie_in, NULL);
    expect_path(sgpu_path_find(SGPU_LINK_MESH, a, NULL, 1), &a->pcie_out, NULL);
    expect_path(sgpu_path_find(SGPU_LINK_MESH, a, a, 1), NULL, NULL);
    expect_path(sgpu_path_find(SGPU_LINK_MESH, NULL, NULL, 1), NULL, NULL);
    expect_path(sgpu_path_find(SGPU_LINK_MESH, a, b, 1), &a->mesh[2], NULL);
    expect_path(sgpu_path_find(SGPU_LINK_MESH, b, a, 1), &b->mesh[0], NULL);
    expect_path(sgpu_path_find(SGPU_LINK_SWITCH, a, b, 1), &a->up, &b->down);
    /* two GPUs without peer access, and without links */
    expect_path(sgpu_path_find(SGPU_LINK_MESH, a, b, 0), &a->pcie_out,
                &b->pcie_in);
    expect_path(sgpu_path_find(SGPU_LINK_NONE, a, b, 1), &a->pcie_out,
                &b->pcie_in);
}

static void test_chunk(void **state)
{
    sgpu_path_t path = sgpu_path_find(SGPU_LINK_MESH, &gpus[0], &gpus[1], 1);
    sgpu_path_t local = {.num = 0};

    assert_int_equal(sgpu_path_chunk(&path, 1000000), 50000); /* 500 us */
    assert_int_equal(sgpu_path_chunk(&path, 7), 7);
    gpus[0].mesh[1].rate_bytes_per_s = 1000;
    assert_int_equal(sgpu_path_chunk(&path, 1000000), SGPU_PATH_MIN_BYTES);
    gpus[0].mesh[1].rate_bytes_per_s = 0;
    assert_int_equal(sgpu_path_chunk(&path, UINT64_MAX), SGPU_PATH_CHUNK_BYTES);
    assert_int_equal(sgpu_path_chunk(&local, UINT64_MAX),
                     SGPU_PATH_CHUNK_BYTES);
}

/* Two copies share a link, so together they reach its rate. */
static void test_shared_link(void **state)
{
    sgpu_path_t first = sgpu_path_find(SGPU_LINK_SWITCH, &gpus[0], &gpus[1], 1);
    sgpu_path_t second =
        sgpu_path_find(SGPU_LINK_SWITCH, &gpus[0], &gpus[2], 1);

    assert_int_equal(sgpu_path_reserve(&first, 1000, NOW, NOW), NOW + 10000);
    assert_int_equal(sgpu_path_reserve(&second, 1000, NOW, NOW), NOW + 20000);
    assert_int_equal(sgpu_path_reserve(&first, 1000, NOW, NOW), NOW + 30000);
    assert_int_equal(gpus[0].up.bytes, 3000);
    assert_int_equal(gpus[1].down.bytes, 2000);
    /* The other direction is free. */
    first = sgpu_path_find(SGPU_LINK_SWITCH, &gpus[1], &gpus[0], 1);
    assert_int_equal(sgpu_path_reserve(&first, 1000, NOW, NOW), NOW + 10000);
}

/* A late thread makes up for its own delay, up to SGPU_PATH_LATE_NS. It does
 * not make up for idle time before the bytes were ready. */
static void test_late(void **state)
{
    sgpu_path_t path = sgpu_path_find(SGPU_LINK_MESH, &gpus[0], &gpus[1], 1);
    mrail_ns_t late_ns = NOW + 3 * MRAIL_NS_PER_MS;

    assert_int_equal(sgpu_path_reserve(&path, 1000, NOW, late_ns), NOW + 10000);
    assert_int_equal(sgpu_path_reserve(&path, 1000, late_ns, late_ns),
                     late_ns + 10000);
    late_ns = NOW + MRAIL_NS_PER_SEC;
    assert_int_equal(sgpu_path_reserve(&path, 1000, NOW, late_ns),
                     late_ns - SGPU_PATH_LATE_NS + 10000);
}

static void test_no_limit(void **state)
{
    sgpu_path_t path = sgpu_path_find(SGPU_LINK_MESH, &gpus[0], &gpus[1], 1);

    gpus[0].mesh[1].rate_bytes_per_s = 0;
    assert_int_equal(sgpu_path_reserve(&path, 1000, NOW, NOW), 0);
    assert_int_equal(gpus[0].mesh[1].bytes, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_links, set_up),
        cmocka_unit_test_setup(test_chunk, set_up),
        cmocka_unit_test_setup(test_shared_link, set_up),
        cmocka_unit_test_setup(test_late, set_up),
        cmocka_unit_test_setup(test_no_limit, set_up)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
