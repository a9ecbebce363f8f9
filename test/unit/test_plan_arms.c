/*
 * Tests src/tools/plan_arms.h: small exchanges whose times are computed by
 * hand, topologies that a method does not support, and allocations that fail.
 * test/property/test_plan_arms_random.c compares the methods with bounds.
 */
#include "config.h"
#include "plan_machines.h"
#include "tools/plan_arms_priv.h"

#include "base/util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MB 1000000ull
#define MS 1e-3

static plan_arm_t arms[PLAN_NUM_ARMS];

/* Computes the methods, and destroys the topology. */
static void compare(mrail_plan_topo_t *topo, const mrail_plan_demand_t *demands,
                    size_t num)
{
    mrail_plan_t *plan;

    assert_int_equal(mrail_plan_create(topo, NULL, &plan), 0);
    make(plan, demands, num);
    assert_int_equal(plan_arms_compare(topo, plan, demands, num, arms), 0);
    mrail_plan_destroy(plan);
    mrail_plan_topo_destroy(topo);
}

static void assert_arm(plan_arm_id_t id, double seconds, double relayed,
                       unsigned steps)
{
    const plan_arm_t *arm = &arms[id];

    if (arm->reason[0] != '\0') {
        fail_msg("%s: %s", plan_arm_name(id), arm->reason);
    }
    assert_near(arm->seconds, seconds, 1e-9);
    if (relayed < 0) {
        assert_true(arm->relayed < 0); /* the fraction is undefined */
    } else {
        assert_near(arm->relayed, relayed, 1e-9);
    }
    assert_int_equal(arm->steps, steps);
}

static void assert_not_served(plan_arm_id_t id, const char *words)
{
    const plan_arm_t *arm = &arms[id];

    if (strstr(arm->reason, words) == NULL) {
        fail_msg("%s: '%s' instead of '%s'", plan_arm_name(id), arm->reason,
                 words);
    }
    assert_true(arm->seconds <= 0 && arm->relayed <= 0 && arm->steps == 0);
}

/* ---- times by hand ---- */

/* The example from docs/planner.md, with 1 GB/s rails: rank 0 sends 12 MB to
 * rank 2, and rank 1 sends 4 MB to rank 3. */
static void test_page(void **state)
{
    const mrail_plan_demand_t demands[] = {{0, 2, 12 * MB}, {1, 3, 4 * MB}};

    compare(bound(2, 2, 4 * G), demands, 2);
    assert_arm(PLAN_ARM_DIRECT, 12 * MS, 0, 0);
    assert_arm(PLAN_ARM_PAIRWISE, 12 * MS, 0, 1);
    /* Half of each demand takes two relays. */
    assert_arm(PLAN_ARM_RAILS, 8 * MS, 16e6, 0);
    assert_arm(PLAN_ARM_SABRE, 8 * MS, -1, 0);
    /* Only the 4 MB that exceed the capacity of rail 0 take two relays. */
    assert_arm(PLAN_ARM_FAST, 8 * MS, 8e6, 1);
    assert_in_range((int)(arms[PLAN_ARM_NIMBLE].seconds / MS * 1000), 8000,
                    8800);
}

/* GPU links are slow: half of 12 MB takes 6 ms on a rail, but 60 ms on the link
 * to the relay. */
static void test_slow_links(void **state)
{
    const mrail_plan_demand_t demands[] = {{0, 2, 12 * MB}};

    compare(bound(2, 2, G / 10), demands, 1);
    assert_arm(PLAN_ARM_DIRECT, 12 * MS, 0, 0);
    assert_arm(PLAN_ARM_RAILS, 60 * MS, 12e6, 0);
    assert_arm(PLAN_ARM_SABRE, 6 * MS, -1, 0);
    assert_arm(PLAN_ARM_FAST, 60 * MS, 12e6, 1);
    assert_true(arms[PLAN_ARM_NIMBLE].seconds <= 12 * MS);
}

/* With a switch, the hop to a relay uses the links of both ranks. */
static void test_switch(void **state)
{
    const mrail_plan_demand_t demands[] = {{0, 2, 12 * MB}, {0, 1, 10 * MB}};

    compare(switched(2, 2, G / 2), demands, 2);
    /* Rank 0 sends 10 MB through the switch. */
    assert_arm(PLAN_ARM_DIRECT, 20 * MS, 0, 0);
    /* and another 6 MB to the relay */
    assert_arm(PLAN_ARM_RAILS, 32 * MS, 12e6, 0);
    assert_arm(PLAN_ARM_FAST, 32 * MS, 12e6, 1);
    assert_arm(PLAN_ARM_SABRE, 6 * MS, -1, 0);
}

/* Three nodes have one rail each. Both rounds of the pairwise exchange wait for
 * a demand of 3 MB. The sums of the rows and columns are 4, 4 and 2 MB. */
static void test_rounds(void **state)
{
    const mrail_plan_demand_t demands[] = {{0, 1, 3 * MB}, {1, 2, MB},
                                           {2, 0, MB},     {0, 2, MB},
                                           {1, 0, 3 * MB}, {2, 1, MB}};

    compare(multi_rail_ranks(3, 1), demands, 6);
    assert_arm(PLAN_ARM_DIRECT, 4 * MS, 0, 0);
    assert_arm(PLAN_ARM_PAIRWISE, 6 * MS, 0, 2);
    assert_arm(PLAN_ARM_RAILS, 4 * MS, 0, 0);
    assert_arm(PLAN_ARM_SABRE, 4 * MS, -1, 0);
    assert_near(arms[PLAN_ARM_FAST].seconds, 4 * MS, 1e-9);
    assert_in_range(arms[PLAN_ARM_FAST].steps, 2, 5);
    assert_arm(PLAN_ARM_NIMBLE, 4 * MS, 0, 0);
}

/* The rails run at 2 and 1 GB/s. An even split waits for the slow rail. */
static void test_unequal_rails(void **state)
{
    const mrail_plan_demand_t demands[] = {{0, 1, 3000 * MB}};
    mrail_plan_topo_t *topo = multi_rail_ranks(2, 2);

    for (unsigned node = 0; node < 2; ++node) {
        assert_int_equal(mrail_plan_topo_set_rail(topo, node, 0, 2 * G, 2 * G),
                         0);
    }
    compare(topo, demands, 1);
    assert_arm(PLAN_ARM_RAILS, 1.5, 0, 0);
    assert_arm(PLAN_ARM_FAST, 1.5, 0, 1);
    assert_arm(PLAN_ARM_SABRE, 1, -1, 0);
    assert_near(arms[PLAN_ARM_NIMBLE].seconds, 1, 0.05);
}

/* Rail 2 cannot receive at node 1. The others carry a third each, and the bytes
 * of rails 1 and 3 take two relays. */
static void test_dead_rail(void **state)
{
    const mrail_plan_demand_t demands[] = {{0, 4, 6000 * MB}};
    mrail_plan_topo_t *topo = bound(2, 4, 100 * G);

    assert_int_equal(mrail_plan_topo_set_rail(topo, 1, 2, G, 0), 0);
    compare(topo, demands, 1);
    assert_arm(PLAN_ARM_RAILS, 2, 8e9, 0);
    assert_arm(PLAN_ARM_FAST, 2, 8e9, 1);
    assert_arm(PLAN_ARM_SABRE, 2, -1, 0);
    assert_near(arms[PLAN_ARM_NIMBLE].seconds, 2, 0.05);
}

/* Two ranks on rail 1 relay half of the bytes each. */
static void test_several_relays(void **state)
{
    const mrail_plan_demand_t demands[] = {{0, 3, 8 * MB}};
    mrail_plan_topo_t *topo;

    assert_int_equal(mrail_plan_topo_create(2, 2, &topo), 0);
    set_rails(topo, G);
    for (unsigned i = 0; i < 6; ++i) {
        assert_int_equal(add_rank(topo, i / 3, i % 3 > 0), 0);
    }
    for (unsigned i = 0; i < 36; ++i) {
        unsigned from = i / 6, to = i % 6;

        if (from != to && from / 3 == to / 3) {
            assert_int_equal(mrail_plan_topo_set_link(topo, from, to, G / 4),
                             0);
        }
    }
    compare(topo, demands, 1);
    /* 4 MB on each rail, and 2 MB on each 250 MB/s link */
    assert_arm(PLAN_ARM_RAILS, 8 * MS, 8e6, 0);
}

/* A limit of a rank on its rail counts as a link. */
static void test_reach(void **state)
{
    const mrail_plan_demand_t demands[] = {{0, 1, 8 * MB}};
    mrail_plan_topo_t *topo = multi_rail_ranks(2, 2);

    assert_int_equal(mrail_plan_topo_set_reach(topo, 1, 1, G, G / 4), 0);
    compare(topo, demands, 1);
    assert_arm(PLAN_ARM_RAILS, 16 * MS, 0, 0);
    assert_arm(PLAN_ARM_FAST, 16 * MS, 0, 1);
    assert_arm(PLAN_ARM_SABRE, 4 * MS, -1, 0);
}

/* Demands of at most 1 MB take no relay that they do not need. */
static void test_nimble_small(void **state)
{
    const mrail_plan_demand_t demands[] = {{0, 4, MB}, {0, 4, MB}};

    compare(bound(2, 4, 100 * G), demands, 2);
    assert_arm(PLAN_ARM_NIMBLE, 2 * MS, 0, 0);
}

/* Within a node, only NIMBLE uses a third GPU as a relay. */
static void test_inside(void **state)
{
    const mrail_plan_demand_t demands[] = {{0, 1, 3000 * MB}};

    compare(bound(1, 3, G), demands, 1);
    assert_arm(PLAN_ARM_DIRECT, 3, 0, 0);
    assert_arm(PLAN_ARM_RAILS, 3, 0, 0);
    assert_arm(PLAN_ARM_FAST, 3, 0, 0);
    assert_arm(PLAN_ARM_SABRE, 0, -1, 0);
    assert_near(arms[PLAN_ARM_NIMBLE].seconds, 1.5, 0.05);
    assert_near(arms[PLAN_ARM_NIMBLE].relayed, 1.5 * G, 0.1);
}

/* There is no link from rank 0 to rank 1, so rank 2 relays for all methods. */
static void test_inside_relayed(void **state)
{
    const mrail_plan_demand_t demands[] = {{0, 1, 3 * MB}};
    mrail_plan_topo_t *topo = bound(1, 3, G);

    assert_int_equal(mrail_plan_topo_set_link(topo, 0, 1, 0), 0);
    compare(topo, demands, 1);
    for (plan_arm_id_t id = 0; id < PLAN_NUM_ARMS; ++id) {
        if (!plan_arm_is_bound(id)) {
            assert_arm(id, 3 * MS, 3e6, id == PLAN_ARM_PAIRWISE);
        }
    }
}

/* Bytes between ranks of a node without links are not planned, so no method
 * counts them. */
static void test_not_planned(void **state)
{
    const mrail_plan_demand_t demands[] = {{0, 1, 3 * MB}, {2, 2, MB}};

    compare(bound(2, 2, 0), demands, 2);
    for (plan_arm_id_t id = 0; id < PLAN_NUM_ARMS; ++id) {
        assert_arm(id, 0, plan_arm_is_bound(id) ? -1 : 0, 0);
    }
}

static void test_no_demands(void **state)
{
    compare(bound(2, 2, G), NULL, 0);
    for (plan_arm_id_t id = 0; id < PLAN_NUM_ARMS; ++id) {
        assert_arm(id, 0, plan_arm_is_bound(id) ? -1 : 0, 0);
    }
}

/* ---- stages ---- */

static void test_stages(void **state)
{
    enum { N = 4 };
    uint64_t bytes[N * N] = {0, 9, 1, 0, 0, 0, 9, 1, 1, 0, 0, 9, 9, 1, 0, 0};
    double costs[N * N], seconds;
    unsigned num;

    for (unsigned i = 0; i < N * N; ++i) {
        costs[i] = 1;
    }
    assert_int_equal(plan_arms_stages(bytes, costs, N, &seconds, &num), 0);
    /* two permutations, of 9 and 1 */
    assert_near(seconds, 10, 1e-12);
    assert_int_equal(num, 2);
    for (unsigned i = 0; i < N * N; ++i) {
        assert_int_equal(bytes[i], 0);
    }
}

/* The slowest pair of a stage determines its time. */
static void test_stage_costs(void **state)
{
    uint64_t bytes[] = {0, 5, 5, 0};
    const double costs[] = {1, 2, 3, 1};
    double seconds;
    unsigned num;

    assert_int_equal(plan_arms_stages(bytes, costs, 2, &seconds, &num), 0);
    assert_near(seconds, 15, 1e-12);
    assert_int_equal(num, 1);
}

/* One sender has three receivers, and one of these also sends to the first. */
static void test_stages_padding(void **state)
{
    uint64_t bytes[] = {0, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    double costs[16], seconds;
    unsigned num;

    for (unsigned i = 0; i < 16; ++i) {
        costs[i] = 1;
    }
    assert_int_equal(plan_arms_stages(bytes, costs, 4, &seconds, &num), 0);
    assert_near(seconds, 9, 1e-12);
}

/* ---- topologies that a method does not support ---- */

static void test_leaf_groups(void **state)
{
    const mrail_plan_demand_t demands[] = {{0, 2, 12 * MB}};
    mrail_plan_topo_t *topo = bound(2, 2, G);

    assert_int_equal(mrail_plan_topo_set_leaf_group(topo, 1, 1), 0);
    assert_int_equal(mrail_plan_topo_leaf_group_of(topo, 1), 1);
    assert_int_equal(mrail_plan_topo_set_uplink(topo, 0, 0, G / 2, G), 0);
    compare(topo, demands, 1);
    assert_arm(PLAN_ARM_DIRECT, 24 * MS, 0, 0);
    assert_arm(PLAN_ARM_PAIRWISE, 24 * MS, 0, 1);
    assert_arm(PLAN_ARM_SABRE, 6 * MS, -1, 0);
    assert_not_served(PLAN_ARM_RAILS, "does not model uplinks");
    assert_not_served(PLAN_ARM_FAST, "does not model uplinks");
    assert_not_served(PLAN_ARM_NIMBLE, "does not model uplinks");
}

static void test_no_common_rail(void **state)
{
    const mrail_plan_demand_t demands[] = {{0, 3, 12 * MB}};
    mrail_plan_topo_t *topo = bound(2, 2, 0);

    mrail_plan_topo_set_cross_rail(topo, 1);
    compare(topo, demands, 1);
    assert_arm(PLAN_ARM_DIRECT, 12 * MS, 0, 0);
    assert_arm(PLAN_ARM_PAIRWISE, 12 * MS, 0, 1);
    assert_not_served(PLAN_ARM_RAILS, "rank 0 and rank 3 have no common rail");
    assert_not_served(PLAN_ARM_FAST, "rank 0 and rank 3 have no common rail");
    assert_not_served(PLAN_ARM_NIMBLE, "rank 0 and rank 3 have no common rail");
}

static void test_hairpin(void **state)
{
    const mrail_plan_demand_t demands[] = {{0, 1, 12 * MB}};
    mrail_plan_topo_t *topo = multi_rail_ranks(1, 2);

    assert_int_equal(add_rank(topo, 0, NONE), 0);
    mrail_plan_topo_set_hairpin(topo, 1);
    compare(topo, demands, 1);
    assert_arm(PLAN_ARM_RAILS, 6 * MS, 0, 0);
    assert_not_served(PLAN_ARM_FAST,
                      "rank 0 and rank 1 are on one node and use rails");
}

static void test_many_nodes(void **state)
{
    const mrail_plan_demand_t demands[] = {{0, 1, 12 * MB}};

    compare(multi_rail_ranks(PLAN_ARMS_MAX_STAGE_NODES, 1), demands, 1);
    assert_arm(PLAN_ARM_FAST, 12 * MS, 0, 1);
    compare(multi_rail_ranks(PLAN_ARMS_MAX_STAGE_NODES + 1, 1), demands, 1);
    assert_not_served(PLAN_ARM_FAST, "129 nodes");
}

/* ---- allocations that fail ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t num, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t num, size_t size);
void *__wrap_realloc(void *p, size_t size);

static unsigned countdown; /* countdown to the failing allocation; 0: none */

static int fails(void)
{
    return countdown != 0 && --countdown == 0;
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

static void test_every_allocation(void **state)
{
    const mrail_plan_demand_t demands[] = {{0, 2, 12 * MB}, {1, 2, 4 * MB}};
    mrail_plan_topo_t *topo = bound(2, 2, 4 * G);
    mrail_plan_t *plan;
    int ret = -ENOMEM;
    unsigned n = 1;

    assert_int_equal(mrail_plan_create(topo, NULL, &plan), 0);
    make(plan, demands, 2);
    for (; ret != 0; ++n) {
        memset(arms, 0x5a, sizeof(arms));
        countdown = n;
        ret = plan_arms_compare(topo, plan, demands, 2, arms);
        countdown = 0;
        assert_true(ret == 0 || ret == -ENOMEM);
        if (ret != 0) {
            assert_int_equal(arms[0].steps, 0x5a5a5a5a);
        }
    }
    assert_true(n > 10);
    assert_arm(PLAN_ARM_DIRECT, 12 * MS, 4e6, 0);
    mrail_plan_destroy(plan);
    mrail_plan_topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_page),
                                       cmocka_unit_test(test_slow_links),
                                       cmocka_unit_test(test_switch),
                                       cmocka_unit_test(test_rounds),
                                       cmocka_unit_test(test_unequal_rails),
                                       cmocka_unit_test(test_dead_rail),
                                       cmocka_unit_test(test_several_relays),
                                       cmocka_unit_test(test_reach),
                                       cmocka_unit_test(test_nimble_small),
                                       cmocka_unit_test(test_inside),
                                       cmocka_unit_test(test_inside_relayed),
                                       cmocka_unit_test(test_not_planned),
                                       cmocka_unit_test(test_no_demands),
                                       cmocka_unit_test(test_stages),
                                       cmocka_unit_test(test_stage_costs),
                                       cmocka_unit_test(test_stages_padding),
                                       cmocka_unit_test(test_leaf_groups),
                                       cmocka_unit_test(test_no_common_rail),
                                       cmocka_unit_test(test_hairpin),
                                       cmocka_unit_test(test_many_nodes),
                                       cmocka_unit_test(test_every_allocation)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
