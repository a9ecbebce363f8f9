/*
 * Tests src/orchestrator/plan.h: small examples with known results, and
 * properties of the input that must not influence a plan.
 * test/property/test_plan_lp.c checks random topologies, and
 * test_plan_refusals.c checks that invalid input is rejected.
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

/* ---- known results ---- */

/* 4 GB over four 1 GB/s rails. All bytes except those on the ranks' own rail
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
 * at either end. */
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

/* Between rail 0 and rail 1, the path has one relay, at either end. A path over
 * rail 2 or 3 has two relays. */
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
    /* a pair within one leaf group */
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

        assert_int_equal(add_rank(topo, 0, NONE), 0);
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

/* The rails run at 200, 100, 50 and 50 Gb/s. */
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

/* ---- input without influence ---- */

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
        assert_int_equal(add_rank(topo, i / 2, i % 2), 0);
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

/* ---- ranks that reach several rails ---- */

static void set_reach(mrail_plan_topo_t *topo, unsigned rank, unsigned rail,
                      double limit)
{
    assert_int_equal(mrail_plan_topo_set_reach(topo, rank, rail, limit, limit),
                     0);
}

/* Returns the relayed bytes of demand 0 that leave by this relay. */
static double bytes_by(const mrail_plan_t *plan, unsigned relay)
{
    mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];
    unsigned num = mrail_plan_pieces(plan, 0, pieces);
    double sum = 0;

    for (unsigned i = 0; i < num; ++i) {
        sum += (pieces[i].relay_out == relay) ? (double)pieces[i].bytes : 0;
    }
    return sum;
}

/* Makes two nodes with two rails and pairwise links: rank 0 on rail 0, and
 * ranks 1 and 2 on rail 1. Node 1 has one rank, which reaches both rails. */
static mrail_plan_topo_t *two_relays(double link)
{
    mrail_plan_topo_t *topo;

    assert_int_equal(mrail_plan_topo_create(2, 2, &topo), 0);
    set_rails(topo, G);
    for (unsigned rank = 0; rank < 3; ++rank) {
        assert_int_equal(add_rank(topo, 0, (rank == 0) ? 0 : 1), 0);
    }
    assert_int_equal(add_rank(topo, 1, MRAIL_PLAN_ALL_RAILS), 0);
    assert_int_equal(mrail_plan_topo_set_link(topo, 0, 1, link), 0);
    assert_int_equal(mrail_plan_topo_set_link(topo, 0, 2, link), 0);
    return topo;
}

/* Each relay is reached over a 0.5 GB/s GPU link, half the capacity of rail 1.
 * With one relay, 2 GB would take 1.33 s. */
static void test_several_relays(void **state)
{
    mrail_plan_t *plan = plan_one(two_relays(G / 2), 0, 3, 2000000000ull);

    (void)assert_congestion(plan, 1);
    assert_near(bytes_by(plan, 1), G / 2, 0.05);
    assert_near(bytes_by(plan, 2), G / 2, 0.05);
    assert_near(bytes_by(plan, NONE), G, 0.05);
    mrail_plan_destroy(plan);
}

/* The relays share the bytes even if one of them could carry them all. */
static void test_relays_are_spread(void **state)
{
    mrail_plan_t *plan = plan_one(two_relays(10 * G), 0, 3, 2000000000ull);

    (void)assert_congestion(plan, 1);
    assert_near(bytes_by(plan, 1), bytes_by(plan, 2), 0.1);
    mrail_plan_destroy(plan);
}

/* A rank that reaches both rails needs no relay. */
static void test_reaches_both(void **state)
{
    mrail_plan_topo_t *topo = two_relays(10 * G);
    mrail_plan_t *plan;

    set_reach(topo, 0, 1, MRAIL_PLAN_UNLIMITED);
    plan = plan_one(topo, 0, 3, 2000000000ull);
    assert_true(assert_congestion(plan, 1).relayed == 0);
    mrail_plan_destroy(plan);
}

/* The rank itself can send 0.25 GB/s over rail 1, so 1.25 GB take 1 s. */
static void test_limited_reach(void **state)
{
    mrail_plan_topo_t *topo = two_relays(10 * G);
    mrail_plan_t *plan;

    set_reach(topo, 0, 1, G / 4);
    plan = plan_one(topo, 0, 3, 1250000000ull);
    assert_true(assert_congestion(plan, 1).relayed == 0);
    assert_near(load_of(plan, MRAIL_PLAN_REACH_OUT, 0, 1), G / 4, 0.03);
    mrail_plan_destroy(plan);
}

/* The limit of a relay applies to relayed bytes. */
static void test_limited_relay(void **state)
{
    mrail_plan_topo_t *topo = two_relays(10 * G);
    mrail_plan_t *plan;

    set_reach(topo, 1, 1, G / 10);
    set_reach(topo, 2, 1, G / 5);
    plan = plan_one(topo, 0, 3, 1300000000ull);
    (void)assert_congestion(plan, 1);
    assert_near(bytes_by(plan, 1), G / 10, 0.05);
    assert_near(bytes_by(plan, 2), G / 5, 0.05);
    mrail_plan_destroy(plan);
}

/* A rank without a rail uses the relays of both rails. Without GPU links, it
 * has no path. */
static void test_no_rail(void **state)
{
    const mrail_plan_demand_t demand = {0, 3, 2000000000ull};
    mrail_plan_topo_t *topo = two_relays(10 * G);
    mrail_plan_t *plan;
    char reason[200] = "";

    set_reach(topo, 0, 0, 0);
    set_reach(topo, 1, 0, MRAIL_PLAN_UNLIMITED);
    plan = plan_one(topo, 0, 3, demand.bytes);
    assert_near(assert_congestion(plan, 1).relayed, 2 * G, 1e-9);
    mrail_plan_destroy(plan);
    topo = two_relays(0);
    set_reach(topo, 0, 0, 0);
    plan = plan_of(topo);
    assert_int_equal(
        mrail_plan_make(plan, &demand, 1, 0, reason, sizeof(reason)),
        -EHOSTUNREACH);
    mrail_plan_destroy(plan);
}

/* Through the spine, a rank with two rails uses both of them, at the expense of
 * their uplinks. Rails 0 and 1 send, rail 2 receives. */
static void test_cross_rail_of_several(void **state)
{
    mrail_plan_topo_t *topo;
    mrail_plan_t *plan;

    assert_int_equal(mrail_plan_topo_create(2, 3, &topo), 0);
    set_rails(topo, G);
    assert_int_equal(mrail_plan_topo_set_rail(topo, 1, 2, 4 * G, 4 * G), 0);
    assert_int_equal(add_rank(topo, 0, 0), 0);
    set_reach(topo, 0, 1, MRAIL_PLAN_UNLIMITED);
    assert_int_equal(add_rank(topo, 1, 2), 0);
    assert_int_equal(mrail_plan_topo_set_uplink(topo, 0, 0, G / 2, G / 2), 0);
    mrail_plan_topo_set_cross_rail(topo, 1);
    plan = plan_one(topo, 0, 1, 1500000000ull);
    assert_true(assert_congestion(plan, 1).relayed == 0);
    assert_near(load_of(plan, MRAIL_PLAN_UPLINK_UP, 0, 0), G / 2, 0.03);
    mrail_plan_destroy(plan);
}

/* There are more ranks on a rail than a rank has relays. The ranks that need a
 * relay use different ones. */
static void test_many_relays(void **state)
{
    enum { RANKS = 2 * MRAIL_PLAN_MAX_RELAYS };
    static mrail_plan_demand_t demands[RANKS];
    uint8_t is_relay[2 * RANKS] = {0};
    mrail_plan_topo_t *topo;
    mrail_plan_t *plan;

    assert_int_equal(mrail_plan_topo_create(2, 2, &topo), 0);
    set_rails(topo, G);
    assert_int_equal(mrail_plan_topo_set_rail(topo, 0, 1, 0, 0), 0);
    for (unsigned i = 0; i < 2 * RANKS; ++i) {
        assert_int_equal(add_rank(topo, 0, (i < RANKS) ? 1 : 0), 0);
        assert_int_equal(mrail_plan_topo_set_switch(topo, i, G, G), 0);
    }
    assert_int_equal(add_rank(topo, 1, MRAIL_PLAN_ALL_RAILS), 0);
    plan = plan_of(topo);
    for (unsigned i = 0; i < RANKS; ++i) {
        demands[i] = (mrail_plan_demand_t){i, 2 * RANKS, 8000000};
    }
    make(plan, demands, RANKS);
    for (unsigned i = 0; i < RANKS; ++i) {
        mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];
        unsigned num = mrail_plan_pieces(plan, i, pieces);

        assert_true((num > 0) && (num <= MRAIL_PLAN_MAX_RELAYS));
        for (unsigned k = 0; k < num; ++k) {
            is_relay[pieces[k].relay_out] = 1;
        }
    }
    for (unsigned i = RANKS; i < 2 * RANKS; ++i) {
        assert_true(is_relay[i]);
    }
    mrail_plan_destroy(plan);
}

/* Returns the index of a link. */
static unsigned link_number(const mrail_plan_t *plan,
                            mrail_plan_link_kind_t kind, unsigned a, unsigned b)
{
    for (unsigned i = 0; i < mrail_plan_num_links(plan); ++i) {
        mrail_plan_link_t link;

        mrail_plan_link(plan, i, &link);
        if ((link.kind == kind) && (link.a == a) && (link.b == b)) {
            return i;
        }
    }
    fail();
    return 0;
}

/* Bytes that the plan cannot move displace the demand to the other rail. */
static void test_background(void **state)
{
    const mrail_plan_demand_t demand = {0, 2, 3000000000u};
    mrail_plan_t *plan = plan_of(bound(2, 2, 100 * G));
    unsigned out = link_number(plan, MRAIL_PLAN_RAIL_OUT, 0, 0);
    unsigned in = link_number(plan, MRAIL_PLAN_RAIL_IN, 1, 1);
    uint64_t hash;

    make(plan, &demand, 1);
    hash = assert_congestion(plan, 1.5).hash;
    assert_int_equal(mrail_plan_set_background(plan, out, 1000000000), 0);
    make(plan, &demand, 1);
    assert_near(assert_congestion(plan, 2).bytes, 3 * G, 1e-12);
    assert_near(load_of(plan, MRAIL_PLAN_RAIL_OUT, 0, 0), 2 * G, GAP);
    assert_near(load_of(plan, MRAIL_PLAN_RAIL_IN, 1, 0), G, 3 * GAP);
    assert_int_not_equal(summary_of(plan).hash, hash);
    /* this link is saturated even without the demand */
    assert_int_equal(mrail_plan_set_background(plan, in, 5000000000), 0);
    make(plan, &demand, 1);
    assert_near(assert_congestion(plan, 5).congestion_before, 5, 1e-9);
    make(plan, NULL, 0);
    assert_near(summary_of(plan).congestion_bound, 5, 1e-9);
    assert_int_equal(mrail_plan_set_background(plan, in, 0), 0);
    assert_int_equal(mrail_plan_set_background(plan, out, 0), 0);
    mrail_plan_discard_warm_start(plan);
    make(plan, &demand, 1);
    assert_int_equal(assert_congestion(plan, 1.5).hash, hash);
    assert_int_equal(
        mrail_plan_set_background(plan, mrail_plan_num_links(plan), 1),
        -EINVAL);
    assert_int_equal(
        mrail_plan_set_background(plan, in, MRAIL_PLAN_MAX_BACKGROUND + 1),
        -ENOSPC);
    mrail_plan_destroy(plan);
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
        cmocka_unit_test(test_several_relays),
        cmocka_unit_test(test_relays_are_spread),
        cmocka_unit_test(test_reaches_both),
        cmocka_unit_test(test_limited_reach),
        cmocka_unit_test(test_limited_relay),
        cmocka_unit_test(test_no_rail),
        cmocka_unit_test(test_cross_rail_of_several),
        cmocka_unit_test(test_many_relays),
        cmocka_unit_test(test_order_of_calls),
        cmocka_unit_test(test_background),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
