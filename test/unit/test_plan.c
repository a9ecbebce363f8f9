/*
 * Tests of src/orchestrator/plan.h: small examples with known results, and
 * properties of the input that must not influence a plan.
 * test/property/test_plan_lp.c checks random topologies, and
 * test_plan_refusals.c checks that invalid input is refused.
 */
#include "config.h"
#include "plan_machines.h"

#include "base/util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* ---- known results ---- */

/* 4 GB over four rails of 1 GB/s. All bytes except those on the ranks' own rail
 * cross two relays. */
static void test_hot_pair(void **state)
{
    mrail_plan_t *plan = plan_one(bound(2, 4, 100 * G), 0, 4, 4000000000ull);
    mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];
    mrail_plan_summary_t s = assert_congestion(plan, 1);
    unsigned num = mrail_plan_pieces(plan, 0, pieces);

    assert_int_equal(num, 4);
    assert_int_equal(s.num_pieces, 4);
    for (unsigned i = 0; i < num; ++i) {
        unsigned rail = pieces[i].rail_out;

        assert_int_equal(pieces[i].rail_in, rail);
        assert_int_equal(pieces[i].relay_out, (rail == 0) ? NONE : rail);
        assert_int_equal(pieces[i].relay_in, (rail == 0) ? NONE : 4 + rail);
        /* Up to 3 x 2 % of the bytes may take other paths. */
        assert_near((double)pieces[i].bytes, G, 0.07);
    }
    assert_near(s.relayed, 6 * G, 0.03);
    assert_true(s.relayed_bound <= 6 * G);
    assert_near(s.congestion_before, 4, 1e-9);
    assert_near(s.bytes, 4 * G, 1e-12);
    assert_near(load_of(plan, MRAIL_PLAN_GPU_LINK, 0, 1), G, 0.07);
    mrail_plan_destroy(plan);
}

/* The example from docs/planner.md. */
static void test_page(void **state)
{
    const mrail_plan_demand_t demands[] = {{0, 2, 12000000}, {1, 3, 4000000}};
    mrail_plan_topo_t *topo = bound(2, 2, 4 * G);
    mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];
    mrail_plan_summary_t s;
    mrail_plan_t *plan;

    set_rails(topo, G);
    plan = plan_of(topo);
    make(plan, demands, 2);
    s = summary_of(plan);
    assert_near(s.congestion_bound, 16e6 / (2 * G), 1e-9);
    assert_near(s.limit, 8.152e6 / G, 1e-9);
    assert_near(s.congestion, 8.152e6 / G, 1e-6);
    assert_near(s.relayed_bound, 7.696e6, 1e-6);
    assert_near(s.relayed, 7.696e6, 1e-4);
    assert_int_equal(s.num_pieces, 3);
    assert_int_equal(mrail_plan_pieces(plan, 0, pieces), 2);
    assert_near((double)pieces[0].bytes, 8.152e6, 1e-4);
    assert_int_equal(pieces[1].relay_out, 1);
    assert_int_equal(pieces[1].relay_in, 3);
    mrail_plan_destroy(plan);
}

/* The links to relays have 1/4 GB/s each and limit the relayed bytes. */
static void test_slow_links(void **state)
{
    mrail_plan_t *plan = plan_one(bound(2, 4, G / 4), 0, 4, 4000000000ull);

    assert_congestion(plan, 4 / 1.75);
    mrail_plan_destroy(plan);
}

static void test_dead_rail(void **state)
{
    mrail_plan_topo_t *topo = bound(2, 4, 100 * G);
    mrail_plan_t *plan;

    assert_int_equal(mrail_plan_topo_set_rail(topo, 1, 2, G, 0), 0);
    plan = plan_one(topo, 0, 4, 4000000000ull);
    assert_congestion(plan, 4.0 / 3);
    assert_true(load_of(plan, MRAIL_PLAN_RAIL_OUT, 0, 2) <= 0);
    mrail_plan_destroy(plan);
}

/* The sender's own rail is down at the other end, so each path has one relay,
 * at one end or the other. */
static void test_own_rail_dead(void **state)
{
    mrail_plan_topo_t *topo = bound(2, 2, 100 * G);
    mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];
    mrail_plan_t *plan;

    assert_int_equal(mrail_plan_topo_set_rail(topo, 1, 0, G, 0), 0);
    plan = plan_one(topo, 0, 2, 10);
    assert_int_equal(mrail_plan_pieces(plan, 0, pieces), 1);
    assert_int_equal(pieces[0].relay_out, 1);
    assert_int_equal(pieces[0].relay_in, 3);
    assert_int_equal(pieces[0].rail_out, 1);
    assert_int_equal(pieces[0].rail_in, 1);
    assert_near(summary_of(plan).relayed, 20, 0);
    mrail_plan_destroy(plan);
}

/* Between rail 0 and rail 1, the path has one relay, at one end or the other. A
 * path over rail 2 or 3 has two relays. */
static void test_relay_at_an_end(void **state)
{
    mrail_plan_t *plan = plan_one(bound(2, 4, 100 * G), 0, 5, 4000000000ull);
    mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];
    mrail_plan_summary_t s = assert_congestion(plan, 1);

    assert_near(s.relayed, 6 * G, 0.03);
    assert_int_equal(mrail_plan_pieces(plan, 0, pieces), 4);
    for (unsigned i = 0; i < 4; ++i) {
        unsigned rail = pieces[i].rail_out;

        assert_int_equal(pieces[i].relay_out, (rail == 0) ? NONE : rail);
        assert_int_equal(pieces[i].relay_in, (rail == 1) ? NONE : 4 + rail);
    }
    mrail_plan_destroy(plan);
}

/* All relayed bytes share one upward link. */
static void test_switch(void **state)
{
    mrail_plan_t *plan = plan_one(switched(2, 4, 1.5 * G), 0, 4, 4000000000ull);
    mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];

    assert_congestion(plan, 4 / 2.5);
    assert_near(load_of(plan, MRAIL_PLAN_SWITCH_UP, 0, 0), 2.4 * G, 0.03);
    mrail_plan_destroy(plan);
    plan = plan_one(switched(1, 4, 2 * G), 0, 3, 4000000000ull);
    assert_int_equal(mrail_plan_pieces(plan, 0, pieces), 1);
    assert_int_equal(pieces[0].relay_out, NONE);
    assert_int_equal(pieces[0].rail_out, NONE);
    assert_near(summary_of(plan).congestion, 2, 1e-9);
    mrail_plan_destroy(plan);
}

/* Within a node, 1 GB/s takes the direct path, and 1 GB/s goes through each of
 * two other ranks. */
static void test_within_a_node(void **state)
{
    mrail_plan_t *plan = plan_one(bound(1, 4, G), 0, 1, 3000000000ull);
    mrail_plan_summary_t s = assert_congestion(plan, 1);
    mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];
    unsigned num = mrail_plan_pieces(plan, 0, pieces);

    assert_int_equal(num, 3);
    for (unsigned i = 0; i < num; ++i) {
        assert_int_equal(pieces[i].relay_in, NONE);
        assert_int_equal(pieces[i].rail_out, NONE);
        assert_int_equal(pieces[i].rail_in, NONE);
    }
    assert_near(s.relayed, 2 * G, 0.05);
    mrail_plan_destroy(plan);
}

static mrail_plan_topo_t *two_leaf_groups(double up_of_rail_0,
                                          double down_of_rail_3)
{
    mrail_plan_topo_t *topo = multi_rail_ranks(3, 4);

    assert_int_equal(mrail_plan_topo_set_leaf_group(topo, 1, 1), 0);
    for (unsigned r = 0; r < 4; ++r) {
        assert_int_equal(
            mrail_plan_topo_set_uplink(topo, 0, r, r ? G : up_of_rail_0, G), 0);
        assert_int_equal(mrail_plan_topo_set_uplink(
                             topo, 1, r, G, (r == 3) ? down_of_rail_3 : G),
                         0);
    }
    return topo;
}

static void test_uplinks(void **state)
{
    mrail_plan_t *plan =
        plan_one(two_leaf_groups(0.5 * G, G), 0, 1, 3500000000ull);

    assert_congestion(plan, 1);
    assert_near(load_of(plan, MRAIL_PLAN_UPLINK_UP, 0, 0), 0.5 * G, 0.03);
    mrail_plan_destroy(plan);
    plan = plan_one(two_leaf_groups(0.5 * G, 0), 0, 1, 2500000000ull);
    assert_congestion(plan, 1);
    mrail_plan_destroy(plan);
    /* In one leaf group. */
    plan = plan_one(two_leaf_groups(0, 0), 0, 2, 4000000000ull);
    assert_congestion(plan, 1);
    mrail_plan_destroy(plan);
}

/* The reverse direction uses the uplinks of the other leaf group. Their
 * capacity was not set, so they have no limit. */
static void test_uplinks_not_set(void **state)
{
    mrail_plan_topo_t *topo = multi_rail_ranks(2, 4);
    mrail_plan_t *plan;

    assert_int_equal(mrail_plan_topo_set_leaf_group(topo, 1, 4095), 0);
    plan = plan_one(topo, 0, 1, 4000000000ull);
    assert_congestion(plan, 1);
    mrail_plan_destroy(plan);
}

/* Two multi-rail ranks of a node without GPU links. */
static void test_hairpin(void **state)
{
    for (int hairpin = 0; hairpin < 2; ++hairpin) {
        mrail_plan_topo_t *topo = multi_rail_ranks(1, 2);
        mrail_plan_t *plan;

        assert_int_equal(mrail_plan_topo_add_rank(topo, 0, NONE), 0);
        mrail_plan_topo_set_hairpin(topo, hairpin);
        plan = plan_one(topo, 0, 1, 2000000000ull);
        assert_near(summary_of(plan).bytes, hairpin ? 2 * G : 0, 0);
        if (hairpin) {
            assert_congestion(plan, 1);
        } else {
            assert_near(summary_of(plan).congestion, 0, 0);
        }
        mrail_plan_destroy(plan);
    }
}

/* The ranks are on different rails, and no rank can relay. */
static void test_cross_rail(void **state)
{
    mrail_plan_topo_t *topo = bound(2, 2, 0);
    mrail_plan_piece_t piece[MRAIL_PLAN_MAX_PIECES];
    mrail_plan_t *plan;

    mrail_plan_topo_set_cross_rail(topo, 1);
    plan = plan_one(topo, 0, 3, 2000000000ull);
    assert_congestion(plan, 2);
    assert_int_equal(mrail_plan_pieces(plan, 0, piece), 1);
    assert_int_equal(piece[0].rail_out, 0);
    assert_int_equal(piece[0].rail_in, 1);
    assert_int_equal(piece[0].relay_out, NONE);
    assert_int_equal(piece[0].relay_in, NONE);
    assert_near(summary_of(plan).relayed, 0, 0);
    mrail_plan_destroy(plan);
}

/* Within a node, a path can also leave by one rail and return by another. */
static void test_cross_rail_hairpin(void **state)
{
    mrail_plan_topo_t *topo = bound(1, 2, 0);
    mrail_plan_t *plan;

    mrail_plan_topo_set_cross_rail(topo, 1);
    mrail_plan_topo_set_hairpin(topo, 1);
    plan = plan_one(topo, 0, 1, 2000000000ull);
    assert_congestion(plan, 2);
    mrail_plan_destroy(plan);
}

/* The rails have 200, 100, 50 and 50 Gb/s. */
static void test_unequal_rails(void **state)
{
    static const double capacity[] = {25 * G, 12.5 * G, 6.25 * G, 6.25 * G};
    mrail_plan_topo_t *topo = multi_rail_ranks(2, 4);
    mrail_plan_t *plan;

    for (unsigned i = 0; i < 8; ++i) {
        double c = capacity[i % 4];

        assert_int_equal(mrail_plan_topo_set_rail(topo, i / 4, i % 4, c, c), 0);
    }
    plan = plan_one(topo, 0, 1, 50000000000ull);
    assert_congestion(plan, 1);
    for (unsigned r = 0; r < 4; ++r) {
        double load = load_of(plan, MRAIL_PLAN_RAIL_OUT, 0, r);

        assert_true(load <= capacity[r] * (1 + GAP));
        assert_near(load, capacity[r], 0.2);
    }
    mrail_plan_destroy(plan);
}

/* A demand of 1 MB stays on the direct path. One byte more is split. */
static void test_small_demand(void **state)
{
    mrail_plan_t *plan = plan_one(bound(2, 4, 100 * G), 0, 4, 1000000);
    mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];

    assert_int_equal(mrail_plan_pieces(plan, 0, pieces), 1);
    assert_int_equal(pieces[0].rail_out, 0);
    assert_near(summary_of(plan).congestion, 1e-3, 1e-9);
    assert_near(summary_of(plan).relayed, 0, 0);
    mrail_plan_destroy(plan);
    plan = plan_one(bound(2, 4, 100 * G), 0, 4, 1000001);
    assert_congestion(plan, 1000001e-9 / 4);
    mrail_plan_destroy(plan);
    plan = plan_one(bound(2, 4, 100 * G), 0, 5, 1000000);
    assert_congestion(plan, 0.5e-3);
    assert_near(summary_of(plan).relayed, 1e6, 0);
    mrail_plan_destroy(plan);
}

/* ---- no influence ---- */

static void test_scale(void **state)
{
    static const mrail_plan_demand_t demands[] = {
        {0, 4, 4000000000ull}, {1, 6, 300000000}, {5, 2, 700000000},
        {0, 7, 50000000},      {0, 1, 900000000}, {3, 4, 2000000000}};
    mrail_plan_t *plan = plan_of(bound(2, 4, 3 * G));
    mrail_plan_demand_t more[MRAIL_ARRAY_SIZE(demands)];
    double congestion;

    make(plan, demands, MRAIL_ARRAY_SIZE(demands));
    congestion = summary_of(plan).congestion;
    mrail_plan_destroy(plan);
    plan = plan_of(bound(2, 4, 3 * G));
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(demands); ++i) {
        more[i] = demands[i];
        more[i].bytes *= 1024;
    }
    make(plan, more, MRAIL_ARRAY_SIZE(more));
    assert_near(summary_of(plan).congestion, 1024 * congestion, GAP);
    mrail_plan_destroy(plan);
}

static void test_nothing_to_plan(void **state)
{
    static const mrail_plan_demand_t demands[] = {
        {2, 2, 5000}, {0, 4, 0}, {0, 1, 0}};
    mrail_plan_t *plan = plan_of(bound(2, 4, G));
    mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];

    assert_near(summary_of(plan).congestion, 0, 0);
    make(plan, NULL, 0);
    assert_true(summary_of(plan).num_pieces == 0);
    make(plan, demands, MRAIL_ARRAY_SIZE(demands));
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(demands); ++i) {
        assert_int_equal(mrail_plan_pieces(plan, i, pieces), 0);
    }
    assert_near(summary_of(plan).congestion, 0, 0);
    assert_near(summary_of(plan).congestion_bound, 0, 0);
    assert_near(summary_of(plan).relayed, 0, 0);
    assert_near(summary_of(plan).bytes, 0, 0);
    mrail_plan_destroy(plan);
}

/* The same topology is built in two orders. */
static void test_order_of_calls(void **state)
{
    static const mrail_plan_demand_t demands[] = {{0, 3, 500000000},
                                                  {1, 2, 123456789}};
    mrail_plan_topo_t *topo;
    mrail_plan_t *plan = plan_of(bound(2, 2, 3 * G)), *other;

    assert_int_equal(mrail_plan_topo_create(2, 2, &topo), 0);
    for (unsigned i = 0; i < 4; ++i) {
        assert_int_equal(mrail_plan_topo_add_rank(topo, i / 2, i % 2), 0);
    }
    assert_int_equal(mrail_plan_topo_set_link(topo, 3, 2, 3 * G), 0);
    assert_int_equal(mrail_plan_topo_set_link(topo, 2, 3, 7 * G), 0);
    assert_int_equal(mrail_plan_topo_set_link(topo, 1, 0, 3 * G), 0);
    assert_int_equal(mrail_plan_topo_set_link(topo, 0, 1, 3 * G), 0);
    assert_int_equal(mrail_plan_topo_set_link(topo, 2, 3, 3 * G), 0);
    set_rails(topo, 2 * G);
    set_rails(topo, G);
    other = plan_of(topo);
    make(plan, demands, 2);
    make(other, demands, 2);
    assert_true(summary_of(plan).hash == summary_of(other).hash);
    mrail_plan_destroy(plan);
    mrail_plan_destroy(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hot_pair),
        cmocka_unit_test(test_page),
        cmocka_unit_test(test_slow_links),
        cmocka_unit_test(test_dead_rail),
        cmocka_unit_test(test_own_rail_dead),
        cmocka_unit_test(test_relay_at_an_end),
        cmocka_unit_test(test_switch),
        cmocka_unit_test(test_within_a_node),
        cmocka_unit_test(test_uplinks),
        cmocka_unit_test(test_uplinks_not_set),
        cmocka_unit_test(test_hairpin),
        cmocka_unit_test(test_cross_rail),
        cmocka_unit_test(test_cross_rail_hairpin),
        cmocka_unit_test(test_unequal_rails),
        cmocka_unit_test(test_small_demand),
        cmocka_unit_test(test_scale),
        cmocka_unit_test(test_nothing_to_plan),
        cmocka_unit_test(test_order_of_calls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
