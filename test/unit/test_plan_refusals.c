/*
 * Tests src/orchestrator/plan.h: rejected input and its effects, generations,
 * and the failure of every allocation.
 */
#include "config.h"
#include "plan_machines.h"

#include "base/util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The test is linked with --wrap, so that only calls from the planner and from
 * this test are intercepted. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t num, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t num, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);

static unsigned countdown; /* countdown to the failing allocation; 0: none */

static int fails(void)
{
    return (countdown != 0) && (--countdown == 0);
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t num, size_t size)
{
    return fails() ? NULL : __real_calloc(num, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return fails() ? NULL : __real_realloc(p, size);
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(align, size);
}

/* ---- generations ---- */

static const mrail_plan_demand_t one[] = {{0, 4, 4000000000ull}};
static const mrail_plan_demand_t two[] = {{0, 5, 3000000000ull},
                                          {1, 4, 70000000}};

static void test_generation(void **state)
{
    static const mrail_plan_demand_t bad[] = {{0, 99, 5}};
    mrail_plan_t *plan = plan_of(bound(2, 4, 3 * G));
    uint64_t hash;

    assert_int_equal(mrail_plan_make(plan, one, 1, 7, NULL, 0), 0);
    hash = summary_of(plan).hash;
    assert_int_equal(mrail_plan_make(plan, two, 2, 7, NULL, 0), 0);
    assert_true(summary_of(plan).hash == hash);
    assert_int_equal(mrail_plan_make(plan, bad, 1, 7, NULL, 0), 0);
    assert_int_equal(mrail_plan_make(plan, bad, 1, 8, NULL, 0), -EINVAL);
    assert_true(summary_of(plan).hash == hash);
    assert_int_equal(mrail_plan_make(plan, two, 2, 7, NULL, 0), 0);
    assert_true(summary_of(plan).hash == hash); /* generation 8 has failed */
    assert_int_equal(mrail_plan_make(plan, two, 2, 8, NULL, 0), 0);
    assert_true(summary_of(plan).hash != hash);
    assert_int_equal(mrail_plan_make(plan, one, 1, 0, NULL, 0), 0);
    hash = summary_of(plan).hash;
    assert_int_equal(mrail_plan_make(plan, two, 2, 8, NULL, 0), 0);
    assert_true(summary_of(plan).hash != hash); /* the last generation was 0 */
    hash = summary_of(plan).hash;
    assert_int_equal(mrail_plan_make(plan, one, 1, 0, NULL, 0), 0);
    assert_int_equal(mrail_plan_make(plan, two, 2, 0, NULL, 0), 0);
    assert_int_equal(mrail_plan_make(plan, one, 1, 0, NULL, 0), 0);
    assert_true(summary_of(plan).hash != hash);
    mrail_plan_destroy(plan);
}

static void test_discard_warm_start(void **state)
{
    mrail_plan_t *plan = plan_of(bound(2, 4, 3 * G));
    uint64_t first;

    assert_int_equal(mrail_plan_make(plan, one, 1, 7, NULL, 0), 0);
    first = summary_of(plan).hash;
    assert_int_equal(mrail_plan_make(plan, two, 2, 8, NULL, 0), 0);
    mrail_plan_discard_warm_start(plan);
    assert_int_equal(mrail_plan_make(plan, one, 1, 8, NULL, 0), 0);
    assert_true(summary_of(plan).hash == first);
    mrail_plan_destroy(plan);
}

/* ---- rejected input ---- */

static void test_topo_refuses(void **state)
{
    static const double bad[] = {-1,       0.5,       1.1e18, 1e300,
                                 INFINITY, -INFINITY, NAN};
    static const double good = G, pair[] = {G, G};
    mrail_plan_topo_t *topo = bound(2, 4, 0), *none = (void *)&topo;

    assert_int_equal(mrail_plan_topo_create(4097, 1, &none), -ENOSPC);
    assert_int_equal(mrail_plan_topo_create(1, 17, &none), -ENOSPC);
    assert_ptr_equal(none, (void *)&topo);
    assert_int_equal(mrail_plan_topo_set_rail(topo, 2, 0, G, G), -EINVAL);
    assert_int_equal(mrail_plan_topo_set_rail(topo, 0, 4, G, G), -EINVAL);
    assert_int_equal(mrail_plan_topo_add_rank(topo, 2), -EINVAL);
    assert_int_equal(mrail_plan_topo_set_reach(topo, 8, 0, G, G), -EINVAL);
    assert_int_equal(mrail_plan_topo_set_reach(topo, 0, 4, G, G), -EINVAL);
    assert_int_equal(mrail_plan_topo_set_reach(topo, 0, 0, 0, G), -EINVAL);
    assert_int_equal(mrail_plan_topo_set_reach(topo, 0, 0, G, 0), -EINVAL);
    assert_int_equal(mrail_plan_topo_set_link(topo, 0, 8, G), -EINVAL);
    assert_int_equal(mrail_plan_topo_set_link(topo, 8, 0, G), -EINVAL);
    assert_int_equal(mrail_plan_topo_set_link(topo, 0, 4, G), -EINVAL);
    assert_int_equal(mrail_plan_topo_set_link(topo, 0, 0, G), -EINVAL);
    assert_int_equal(mrail_plan_topo_set_switch(topo, 8, G, G), -EINVAL);
    assert_int_equal(mrail_plan_topo_set_switch(topo, 0, 0, G), -EINVAL);
    assert_int_equal(mrail_plan_topo_set_switch(topo, 0, G, 0), -EINVAL);
    assert_int_equal(mrail_plan_topo_set_leaf_group(topo, 2, 0), -EINVAL);
    assert_int_equal(mrail_plan_topo_set_leaf_group(topo, 0, 4096), -EINVAL);
    assert_int_equal(mrail_plan_topo_set_uplink(topo, 0, 4, G, G), -EINVAL);
    assert_int_equal(mrail_plan_topo_set_uplink(topo, 4096, 0, G, G), -EINVAL);
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(bad); ++i) {
        double c = bad[i];

        assert_int_equal(mrail_plan_topo_set_rail(topo, 0, 0, c, G), -EINVAL);
        assert_int_equal(mrail_plan_topo_set_rail(topo, 0, 0, G, c), -EINVAL);
        assert_int_equal(mrail_plan_topo_set_link(topo, 0, 1, c), -EINVAL);
        if (c != MRAIL_PLAN_UNLIMITED) {
            assert_int_equal(mrail_plan_topo_set_reach(topo, 0, 0, c, G),
                             -EINVAL);
            assert_int_equal(mrail_plan_topo_set_reach(topo, 0, 0, G, c),
                             -EINVAL);
        }
        assert_int_equal(mrail_plan_topo_set_switch(topo, 0, c, G), -EINVAL);
        assert_int_equal(mrail_plan_topo_set_switch(topo, 0, G, c), -EINVAL);
        assert_int_equal(mrail_plan_topo_set_uplink(topo, 0, 0, c, G), -EINVAL);
        assert_int_equal(mrail_plan_topo_set_uplink(topo, 0, 0, G, c), -EINVAL);
        assert_int_equal(mrail_plan_topo_set_uplinks(topo, 0, 0, 1, &c, &good),
                         -EINVAL);
        assert_int_equal(mrail_plan_topo_set_uplinks(topo, 0, 0, 1, &good, &c),
                         -EINVAL);
    }
    assert_int_equal(mrail_plan_topo_set_uplinks(topo, 0, 0, 0, &good, &good),
                     -EINVAL);
    assert_int_equal(mrail_plan_topo_set_uplinks(topo, 0, 0, 65, &good, &good),
                     -EINVAL);
    assert_int_equal(mrail_plan_topo_set_uplinks(topo, 0, 4, 1, &good, &good),
                     -EINVAL);
    assert_int_equal(mrail_plan_topo_set_uplinks(topo, 0, 0, 1, &good, &good),
                     0);
    assert_int_equal(mrail_plan_topo_set_uplinks(topo, 1, 0, 2, pair, pair),
                     -ENOTSUP);
    assert_int_equal(mrail_plan_topo_num_nodes(topo), 2);
    assert_int_equal(mrail_plan_topo_num_rails(topo), 4);
    assert_int_equal(mrail_plan_topo_num_ranks(topo), 8);
    assert_int_equal(mrail_plan_topo_node_of(topo, 6), 1);
    assert_int_equal(mrail_plan_topo_rails_of(topo, 6), 1u << 2);
    mrail_plan_topo_destroy(topo);
}

/* The rejected calls must have changed nothing. */
static void test_refusals_leave_no_trace(void **state)
{
    mrail_plan_topo_t *topo = bound(2, 4, 3 * G);
    mrail_plan_t *plan = plan_of(bound(2, 4, 3 * G)), *other;

    assert_int_equal(mrail_plan_topo_set_rail(topo, 0, 0, -1, 5), -EINVAL);
    assert_int_equal(mrail_plan_topo_set_rail(topo, 0, 0, 5, -1), -EINVAL);
    assert_int_equal(mrail_plan_topo_set_link(topo, 0, 1, NAN), -EINVAL);
    assert_int_equal(mrail_plan_topo_set_switch(topo, 0, G, G), -EINVAL);
    assert_int_equal(mrail_plan_topo_set_uplink(topo, 0, 0, 5, -1), -EINVAL);
    other = plan_of(topo);
    make(plan, two, 2);
    make(other, two, 2);
    assert_true(summary_of(plan).hash == summary_of(other).hash);
    assert_int_equal(mrail_plan_num_links(plan), mrail_plan_num_links(other));
    mrail_plan_destroy(plan);
    mrail_plan_destroy(other);
}

/* A node has either pairwise links or a switch. The number of links is
 * limited. */
static void test_limits(void **state)
{
    mrail_plan_topo_t *topo = switched(1, 4, G);
    int ret = 0;

    assert_int_equal(mrail_plan_topo_set_link(topo, 0, 1, G), -EINVAL);
    mrail_plan_topo_destroy(topo);
    assert_int_equal(mrail_plan_topo_create(4096, 16, &topo), 0);
    for (unsigned i = 0; i < MRAIL_PLAN_MAX_RANKS; ++i) {
        assert_int_equal(mrail_plan_topo_add_rank(topo, i / 32), 0);
    }
    assert_int_equal(mrail_plan_topo_add_rank(topo, 0), -ENOSPC);
    assert_int_equal(mrail_plan_topo_num_ranks(topo), MRAIL_PLAN_MAX_RANKS);
    for (unsigned i = 1; i < MRAIL_PLAN_MAX_PAIRWISE; ++i) {
        assert_int_equal(mrail_plan_topo_set_link(topo, 0, i, G), 0);
    }
    assert_int_equal(mrail_plan_topo_set_link(topo, 0, 16, G), -ENOSPC);
    assert_int_equal(mrail_plan_topo_set_link(topo, 16, 0, G), -ENOSPC);
    assert_int_equal(mrail_plan_topo_set_link(topo, 15, 14, G), ret);
    mrail_plan_topo_destroy(topo);
}

static void test_options_refused(void **state)
{
    static const double bad[] = {-1, 0.0009, 1.001, NAN, INFINITY};
    mrail_plan_topo_t *topo = bound(2, 2, 0);
    mrail_plan_t *plan = (void *)&topo;

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(bad); ++i) {
        mrail_plan_options_t options = MRAIL_PLAN_DEFAULTS;

        options.gap = bad[i];
        assert_int_equal(mrail_plan_create(topo, &options, &plan), -EINVAL);
        options = MRAIL_PLAN_DEFAULTS;
        options.relayed_gap = bad[i];
        assert_int_equal(mrail_plan_create(topo, &options, &plan), -EINVAL);
        assert_ptr_equal(plan, (void *)&topo);
    }
    mrail_plan_topo_destroy(topo);
}

/* Options from a later version of the library. */
typedef struct later_options {
    mrail_plan_options_t known;
    uint64_t unknown;
} later_options_t;

static void test_options_of_other_versions(void **state)
{
    later_options_t later = {.known = MRAIL_PLAN_DEFAULTS};
    mrail_plan_topo_t *topo = bound(2, 2, 0);
    mrail_plan_t *plan = (void *)&topo;

    later.known.struct_size = 0;
    assert_int_equal(mrail_plan_create(topo, &later.known, &plan), -EINVAL);
    later.known.struct_size = sizeof(later.known) - 1;
    assert_int_equal(mrail_plan_create(topo, &later.known, &plan), -EINVAL);
    later.known.struct_size = sizeof(later);
    later.unknown = 1;
    assert_int_equal(mrail_plan_create(topo, &later.known, &plan), -EINVAL);
    assert_ptr_equal(plan, (void *)&topo);
    later.unknown = 0;
    assert_int_equal(mrail_plan_create(topo, &later.known, &plan), 0);
    mrail_plan_destroy(plan);
    mrail_plan_topo_destroy(topo);
}

/* Fills a struct of an earlier version, which ends before `size`, and one of a
 * later version, which ends after it. */
#define ASSERT_SIZED(_call, _struct, _last, _same)                             \
    do {                                                                       \
        struct {                                                               \
            _struct known;                                                     \
            uint64_t more;                                                     \
        } is;                                                                  \
        _struct *p = &is.known;                                                \
        size_t size = offsetof(_struct, _last);                                \
                                                                               \
        memset(&is, 0x55, sizeof(is));                                         \
        (void)(_call);                                                         \
        assert_true(_same);                                                    \
        for (size_t i = size; i < sizeof(is); ++i) {                           \
            assert_int_equal(((char *)&is)[i], 0x55);                          \
        }                                                                      \
        size = sizeof(is);                                                     \
        (void)(_call);                                                         \
        assert_true(_same);                                                    \
        assert_true(is.more == 0);                                             \
    } while (0)

static void test_structs_of_other_versions(void **state)
{
    mrail_plan_t *plan = plan_one(bound(2, 2, G), 0, 2, 1000000000ull);
    mrail_plan_summary_t s = summary_of(plan);

    ASSERT_SIZED(mrail_plan_summary_sized(plan, p, size), mrail_plan_summary_t,
                 iterations, p->hash == s.hash);
    ASSERT_SIZED(mrail_plan_link_sized(plan, 0, p, size), mrail_plan_link_t,
                 bytes, p->capacity == G);
    mrail_plan_destroy(plan);
}

/* Earlier versions of a piece lie closer together in the array, later ones
 * farther apart. */
static void test_pieces_of_other_versions(void **state)
{
    mrail_plan_t *plan = plan_one(bound(2, 2, G), 0, 2, 1000000000ull);
    mrail_plan_piece_t wanted[MRAIL_PLAN_MAX_PIECES];
    unsigned num = mrail_plan_pieces(plan, 0, wanted);
    char is[2 * sizeof(wanted)];

    assert_true(num > 1);
    for (size_t size = offsetof(mrail_plan_piece_t, rail_out);
         size <= sizeof(wanted[0]) + 8; size += 8) {
        assert_int_equal(mrail_plan_pieces_sized(
                             plan, 0, (mrail_plan_piece_t *)(void *)is, size),
                         num);
        for (unsigned i = 0; i < num; ++i) {
            assert_memory_equal(&is[i * size], &wanted[i],
                                MRAIL_MIN(size, sizeof(wanted[i])));
        }
    }
    mrail_plan_destroy(plan);
}

static void assert_refused(mrail_plan_t *plan, const mrail_plan_demand_t *d,
                           size_t count, int wanted, const char *named)
{
    const mrail_plan_summary_t before = summary_of(plan);
    mrail_plan_piece_t was[MRAIL_PLAN_MAX_PIECES], is[MRAIL_PLAN_MAX_PIECES];
    unsigned num = mrail_plan_pieces(plan, 0, was);
    mrail_plan_summary_t after;
    char reason[200] = "", cut[12];

    memset(cut, 'x', sizeof(cut));
    assert_int_equal(mrail_plan_make(plan, d, count, 9, reason, sizeof(reason)),
                     wanted);
    if ((strstr(reason, named) == NULL) || (strchr(reason, '\n') != NULL)) {
        fail_msg("'%s' does not name %s", reason, named);
    }
    assert_int_equal(mrail_plan_make(plan, d, count, 9, cut, 10), wanted);
    assert_int_equal(strlen(cut), 9);
    assert_true(cut[10] == 'x');
    assert_int_equal(mrail_plan_make(plan, d, count, 9, NULL, 0), wanted);
    after = summary_of(plan);
    assert_memory_equal(&before, &after, sizeof(before));
    assert_int_equal(mrail_plan_pieces(plan, 0, is), num);
    assert_memory_equal(was, is, num * sizeof(is[0]));
}

static void test_make_refuses(void **state)
{
    static const mrail_plan_demand_t unknown_from[] = {{0, 4, 1}, {8, 4, 77}};
    static const mrail_plan_demand_t unknown_to[] = {{0, 4, 1}, {0, 4711, 77}};
    static const mrail_plan_demand_t too_much[] = {
        {0, 4, 1ull << 61}, {0, 5, 1ull << 61}, {1, 5, 1}};
    static const mrail_plan_demand_t wraps[] = {
        {0, 4, UINT64_MAX}, {0, 5, UINT64_MAX}, {1, 5, 3}};
    static const mrail_plan_demand_t no_path[] = {{0, 4, 1}, {1, 6, 5}};
    mrail_plan_topo_t *topo = bound(2, 4, 0);
    mrail_plan_t *plan;

    plan = plan_of(topo);
    make(plan, one, 1);
    assert_refused(plan, unknown_from, 2, -EINVAL, "8");
    assert_refused(plan, unknown_to, 2, -EINVAL, "4711");
    assert_refused(plan, no_path, 2, -EHOSTUNREACH, "6");
    mrail_plan_destroy(plan);
    plan = plan_of(bound(2, 4, G));
    make(plan, one, 1);
    assert_refused(plan, too_much, 3, -EOVERFLOW, "");
    assert_refused(plan, wraps, 3, -EOVERFLOW, "");
    make(plan, too_much, 2); /* 2^62 is allowed */
    assert_true(summary_of(plan).bytes == 0x1p62);
    mrail_plan_destroy(plan);
}

/* A demand from a rank to itself needs no path, but the rank must exist. */
static void test_self_needs_no_path(void **state)
{
    static const mrail_plan_demand_t self[] = {{1, 1, 5}, {1, 6, 0}};
    static const mrail_plan_demand_t unknown[] = {{9, 9, 0}};
    mrail_plan_t *plan = plan_of(bound(2, 4, 0));

    make(plan, self, 2);
    assert_int_equal(mrail_plan_make(plan, unknown, 1, 0, NULL, 0), -EINVAL);
    mrail_plan_destroy(plan);
}

/* ---- every allocation fails once ---- */

/* Repeats the call until it succeeds. Failures must change nothing. */
#define UNTIL(_call)                                                           \
    do {                                                                       \
        int _ret = (_call);                                                    \
                                                                               \
        if (_ret == 0) {                                                       \
            break;                                                             \
        }                                                                      \
        assert_int_equal(_ret, -ENOMEM);                                       \
        ++failed;                                                              \
    } while (1)

static mrail_plan_topo_t *create_topo(void)
{
    static const double good = G;
    mrail_plan_topo_t *topo;
    unsigned failed = 0;

    UNTIL(mrail_plan_topo_create(2, 4, &topo));
    for (unsigned i = 0; i < 8; ++i) {
        UNTIL(mrail_plan_topo_add_rank(topo, i / 4));
        UNTIL(mrail_plan_topo_set_reach(topo, i, i % 4, 3 * G, 2 * G));
        UNTIL(mrail_plan_topo_set_rail(topo, i / 4, i % 4, G, G));
        UNTIL(mrail_plan_topo_set_uplinks(topo, i / 4, i % 4, 1, &good, &good));
        UNTIL(mrail_plan_topo_set_uplink(topo, i / 4, i % 4, G, G));
    }
    for (unsigned i = 0; i < 8; ++i) {
        UNTIL(mrail_plan_topo_set_link(topo, i, i ^ 1, G));
        UNTIL(mrail_plan_topo_set_link(topo, i, i ^ 2, G));
    }
    UNTIL(mrail_plan_topo_set_leaf_group(topo, 1, 1));
    /* a second relay for rail 1, so some slots have branches */
    UNTIL(mrail_plan_topo_set_reach(topo, 0, 1, MRAIL_PLAN_UNLIMITED, G));
    return topo;
}

/* Returns the hash of the last plan, which an earlier failure must not
 * influence. */
static uint64_t plan_all(unsigned fail_at)
{
    mrail_plan_demand_t many[56];
    unsigned failed = 0, count = 0;
    mrail_plan_topo_t *topo;
    mrail_plan_t *plan;
    uint64_t hash;

    countdown = fail_at;
    topo = create_topo();
    UNTIL(mrail_plan_create(topo, NULL, &plan));
    mrail_plan_topo_destroy(topo);
    UNTIL(mrail_plan_make(plan, one, 1, 1, NULL, 0));
    hash = summary_of(plan).hash;
    for (uint32_t i = 0; i < 64; ++i) {
        if ((i / 8 != i % 8) && (((i / 8) ^ (i % 8)) != 3)) {
            many[count++] =
                (mrail_plan_demand_t){i / 8, i % 8, 900000 + 7000 * i};
        }
    }
    for (int ret = -1; ret != 0;) {
        ret = mrail_plan_make(plan, many, count, 2, NULL, 0);
        assert_true((ret == 0) || (ret == -ENOMEM));
        assert_true((ret == 0) || (summary_of(plan).hash == hash));
    }
    mrail_plan_compare(plan);
    hash = summary_of(plan).hash;
    mrail_plan_destroy(plan);
    return hash;
}

static void test_every_allocation(void **state)
{
    uint64_t hash = plan_all(0);
    unsigned n = 0;

    do {
        assert_true(plan_all(++n) == hash);
    } while (countdown == 0);
    countdown = 0;
    assert_true(n > 5);
}

/* Returns a weighted sum of the bytes on all links, which changes if bytes move
 * from one link to another. */
static double sum_links(const mrail_plan_t *plan)
{
    double sum = 0;

    for (unsigned i = 0; i < mrail_plan_num_links(plan); ++i) {
        mrail_plan_link_t link;

        mrail_plan_link(plan, i, &link);
        sum += (i + 1) * link.bytes;
    }
    return sum;
}

/* Plans many demands with a contended link by incremental repair. If memory
 * runs out, the links must still show the previous plan. */
static void test_links_without_memory(void **state)
{
    enum { RANKS = 64 };
    static mrail_plan_demand_t many[RANKS * RANKS];
    mrail_plan_topo_t *topo = switched(8, 8, 100 * G);
    mrail_plan_t *plan;
    unsigned n = 0;
    double before;

    mrail_plan_topo_set_cross_rail(topo, 1);
    plan = plan_of(topo);
    make(plan, one, 1);
    before = sum_links(plan);
    for (uint32_t i = 0; i < RANKS * RANKS; ++i) {
        many[i] = (mrail_plan_demand_t){i / RANKS, i % RANKS,
                                        (i % RANKS == 0) ? 20000000 : 2000000};
    }
    for (int ret = -ENOMEM; ret != 0;) {
        assert_true(sum_links(plan) == before);
        countdown = ++n;
        ret = mrail_plan_make(plan, many, RANKS * RANKS, 2, NULL, 0);
        countdown = 0;
        assert_true((ret == 0) || (ret == -ENOMEM));
    }
    assert_true(n > 5);
    assert_true(sum_links(plan) != before);
    mrail_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generation),
        cmocka_unit_test(test_discard_warm_start),
        cmocka_unit_test(test_topo_refuses),
        cmocka_unit_test(test_refusals_leave_no_trace),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_options_refused),
        cmocka_unit_test(test_options_of_other_versions),
        cmocka_unit_test(test_structs_of_other_versions),
        cmocka_unit_test(test_pieces_of_other_versions),
        cmocka_unit_test(test_make_refuses),
        cmocka_unit_test(test_self_needs_no_path),
        cmocka_unit_test(test_every_allocation),
        cmocka_unit_test(test_links_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
