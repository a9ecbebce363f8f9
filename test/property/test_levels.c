/*
 * Tests plans in two levels (src/orchestrator/levels.c and water_fill.c). Every
 * piece must use an existing path, and the pieces of a demand must cover it.
 * Small demands use the fewest relays, and loads are as reported. The
 * congestion is within the gap of its bound, and relayed bytes are close to
 * those of an undivided plan.
 */
#include "config.h"
#include "orchestrator/water_fill.h"
#include "orchestrator/levels_internal.h"
#include "orchestrator/plan.h"

#include "base/rng.h"
#include "base/util.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MAX_NODES 24
#define MAX_RAILS 8
#define MAX_RANKS (MAX_NODES * MAX_RAILS)
#define SMALL 1000000u /* the default of relay_threshold */
#define ROUNDING 1e-5
/* Relayed bytes below this fraction of all bytes do not count. */
#define NOTHING 1e-4
#define GAP 0.02 /* the default */

static struct {
    unsigned nodes, rails, ranks,
        per; /* ranks per node: one per rail, or more */
    uint8_t is_up[MAX_NODES * MAX_RAILS];
    mrail_plan_demand_t demand[MAX_RANKS * MAX_RANKS];
    size_t num_demands;
    int is_paired;      /* pairwise GPU links within a node */
    int has_cross_rail; /* paths between rails through the spine */
    /* The bytes on each link, as computed by the test. */
    double link[MAX_RANKS * 4 + MAX_RAILS * MAX_NODES * 2];
    /* The bytes on each pairwise link, indexed by the sender and by the
     * receiver's place in its node. */
    double pair[MAX_RANKS][MRAIL_PLAN_MAX_PAIRWISE];
    mrail_rng_t rng;
} w;

static unsigned below(unsigned bound)
{
    return mrail_rng_below(&w.rng, bound);
}

static void set_size(unsigned nodes, unsigned rails, unsigned per)
{
    w.nodes = nodes;
    w.rails = rails;
    w.per = per;
    w.ranks = nodes * per;
    assert_true((w.ranks <= MAX_RANKS) && (nodes <= MAX_NODES));
}

static unsigned node_of(unsigned rank)
{
    return rank / w.per;
}

static unsigned rail_of(unsigned rank)
{
    return rank % w.per % w.rails;
}

static unsigned relay_of(unsigned node, unsigned rail)
{
    return node * w.per + rail;
}

/* ---- topologies ---- */

/* Links all ranks of a node pairwise, with `least` to `most` GB/s. */
static void link_pairs(mrail_plan_topo_t *topo, unsigned least, unsigned most)
{
    for (unsigned i = 0; i < w.ranks * w.per; ++i) {
        unsigned from = i / w.per, to = node_of(from) * w.per + i % w.per;
        double capacity = 1e9 * (least + below(most - least + 1));

        assert_true((from == to) ||
                    (mrail_plan_topo_set_link(topo, from, to, capacity) == 0));
    }
}

/* Binds the ranks of a node to its rails in rotation. GPU links go to a switch
 * unless they are pairwise. `is_multi_rail` adds a multi-rail rank without
 * demands, which makes the planner treat the topology as undivided. */
static mrail_plan_topo_t *make_topo(unsigned dead, unsigned leaf_groups,
                                    int is_multi_rail)
{
    double uplink = 0.6 * 50e9 * w.nodes / (leaf_groups ? leaf_groups : 1);
    mrail_plan_topo_t *topo;

    assert_int_equal(mrail_plan_topo_create(w.nodes, w.rails, &topo), 0);
    for (unsigned i = 0; i < w.nodes * w.rails; ++i) {
        w.is_up[i] = (below(100) >= dead);
        assert_int_equal(mrail_plan_topo_set_rail(
                             topo, i / w.rails, i % w.rails,
                             w.is_up[i] ? 50e9 : 0, w.is_up[i] ? 50e9 : 0),
                         0);
    }
    for (unsigned i = 0; i < w.ranks; ++i) {
        assert_int_equal(mrail_plan_topo_add_rank(topo, node_of(i)), 0);
        assert_int_equal(mrail_plan_topo_set_reach(topo, i, rail_of(i),
                                                   MRAIL_PLAN_UNLIMITED,
                                                   MRAIL_PLAN_UNLIMITED),
                         0);
        if (!w.is_paired) {
            assert_int_equal(mrail_plan_topo_set_switch(topo, i, 450e9, 450e9),
                             0);
        }
    }
    mrail_plan_topo_set_cross_rail(topo, w.has_cross_rail);
    for (unsigned i = 0; leaf_groups && (i < w.nodes); ++i) {
        assert_int_equal(
            mrail_plan_topo_set_leaf_group(topo, i, i * leaf_groups / w.nodes),
            0);
    }
    for (unsigned i = 0; i < leaf_groups * w.rails; ++i) {
        assert_int_equal(mrail_plan_topo_set_uplink(
                             topo, i / w.rails, i % w.rails, uplink, uplink),
                         0);
    }
    if (is_multi_rail) {
        assert_int_equal(mrail_plan_topo_add_rank(topo, 0), 0);
        assert_int_equal(mrail_plan_topo_set_reach(
                             topo, w.ranks, MRAIL_PLAN_ALL_RAILS,
                             MRAIL_PLAN_UNLIMITED, MRAIL_PLAN_UNLIMITED),
                         0);
    }
    return topo;
}

enum {
    RANDOM,
    HOT,
    EQUAL,
    ONE_RAIL,
    DEGRADED_SENDERS,
    DEGRADED_RECEIVERS,
    DEGRADED_BOTH,
    NUM_PATTERNS
};

/* Returns 1 if the rail of this rank is dead. */
static int is_degraded(unsigned rank)
{
    return !w.is_up[node_of(rank) * w.rails + rail_of(rank)];
}

/* Returns the bytes from one rank to another in the patterns in which ranks
 * with dead rails have demands. */
static uint64_t degraded_bytes(unsigned pattern, unsigned from, unsigned to,
                               int is_small)
{
    unsigned turn = (rail_of(to) + w.rails - rail_of(from)) % w.rails;
    int is_wanted = (pattern == DEGRADED_SENDERS)
                        ? is_degraded(from) && (turn == 1)
                    : (pattern == DEGRADED_RECEIVERS)
                        ? is_degraded(to) && (turn == 1)
                        : is_degraded(from) && is_degraded(to);

    if (node_of(from) == node_of(to)) {
        return (turn == 2) ? 200000 : 0;
    }
    if (to ==
        /* The receiver is the sender's counterpart on the last node, so no
         * relay is needed. */
        from + (w.nodes - 1) * w.per) {
        return 10000000000;
    }
    return is_wanted ? (is_small ? SMALL : 30000000) : 0;
}

/* Patterns: random sizes, some of them small; a hot receiver on another node;
 * equal sizes; one rail with many or few bytes; and demands of ranks with dead
 * rails. */
static void make_demands(unsigned pattern)
{
    int is_small = (int)below(2);

    w.num_demands = 0;
    for (unsigned from = 0; from < w.ranks; ++from) {
        for (unsigned to = 0; to < w.ranks; ++to) {
            unsigned turn = (rail_of(to) + w.rails - rail_of(from)) % w.rails;
            uint64_t bytes = 4000000;

            if (pattern == RANDOM) {
                bytes = (uint64_t)below(8000000);
            } else if (pattern == HOT) {
                bytes = (to == (from + w.ranks / 2) % w.ranks) ? 500000000
                                                               : 1500000;
            } else if (pattern == ONE_RAIL) {
                bytes = (turn != w.nodes % w.rails) ? 0
                        : (below(3) == 0)           ? below(400000000)
                                                    : below(SMALL);
            } else if (pattern >= DEGRADED_SENDERS) {
                bytes = degraded_bytes(pattern, from, to, is_small);
            }
            w.demand[w.num_demands++] =
                (mrail_plan_demand_t){.from = from, .to = to, .bytes = bytes};
        }
    }
}

/* ---- checks ---- */

static double *switch_bytes(unsigned rank, int is_down)
{
    return &w.link[2 * (w.nodes * w.rails + rank) + (is_down ? 1 : 0)];
}

static double *rail_bytes(unsigned node, unsigned rail, int is_in)
{
    return &w.link[2 * (node * w.rails + rail) + (is_in ? 1 : 0)];
}

static void hop(unsigned from, unsigned to, double bytes)
{
    w.pair[from][to % w.per] += bytes;
    *switch_bytes(from, 0) += bytes;
    *switch_bytes(to, 1) += bytes;
}

static void check_cross_rail(const mrail_plan_demand_t *d,
                             const mrail_plan_piece_t *piece)
{
    unsigned from = node_of(d->from), to = node_of(d->to);

    assert_true(w.has_cross_rail);
    assert_int_equal(piece->rail_out, rail_of(d->from));
    assert_int_equal(piece->rail_in, rail_of(d->to));
    assert_true(w.is_up[from * w.rails + piece->rail_out]);
    assert_true(w.is_up[to * w.rails + piece->rail_in]);
    assert_int_equal(piece->relay_out, MRAIL_PLAN_NONE);
    assert_int_equal(piece->relay_in, MRAIL_PLAN_NONE);
    *rail_bytes(from, piece->rail_out, 0) += (double)piece->bytes;
    *rail_bytes(to, piece->rail_in, 1) += (double)piece->bytes;
}

/* Returns the number of relays on the piece's path over this rail. The path
 * must exist. */
static unsigned check_piece(const mrail_plan_demand_t *d,
                            const mrail_plan_piece_t *piece)
{
    unsigned rail = piece->rail_out, from = node_of(d->from),
             to = node_of(d->to);
    unsigned relay_out = piece->relay_out, relay_in = piece->relay_in;
    int is_out = (rail_of(d->from) != rail), is_in = (rail_of(d->to) != rail);

    if (piece->rail_in != rail) {
        check_cross_rail(d, piece);
        return 0;
    }
    assert_true(rail < w.rails);
    assert_true(w.is_up[from * w.rails + rail] && w.is_up[to * w.rails + rail]);
    assert_true(is_out ? (node_of(relay_out) == from) &&
                             (rail_of(relay_out) == rail)
                       : relay_out == MRAIL_PLAN_NONE);
    assert_true(is_in ? (node_of(relay_in) == to) && (rail_of(relay_in) == rail)
                      : relay_in == MRAIL_PLAN_NONE);
    if (is_out) {
        hop(d->from, relay_out, (double)piece->bytes);
    }
    if (is_in) {
        hop(relay_in, d->to, (double)piece->bytes);
    }
    *rail_bytes(from, rail, 0) += (double)piece->bytes;
    *rail_bytes(to, rail, 1) += (double)piece->bytes;
    return (unsigned)is_out + (unsigned)is_in;
}

static unsigned fewest(const mrail_plan_demand_t *d)
{
    unsigned least = 2;

    for (unsigned rail = 0; rail < w.rails; ++rail) {
        if (w.is_up[node_of(d->from) * w.rails + rail] &&
            w.is_up[node_of(d->to) * w.rails + rail]) {
            least = MRAIL_MIN(least, (rail != rail_of(d->from)) +
                                         (unsigned)(rail != rail_of(d->to)));
        }
    }
    if (w.has_cross_rail &&
        w.is_up[node_of(d->from) * w.rails + rail_of(d->from)] &&
        w.is_up[node_of(d->to) * w.rails + rail_of(d->to)]) {
        return 0;
    }
    return least;
}

static double check_demand(const mrail_plan_t *plan, size_t i)
{
    const mrail_plan_demand_t *d = &w.demand[i];
    mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];
    unsigned count = mrail_plan_pieces(plan, i, pieces);
    uint64_t offset = 0;
    double relayed = 0;

    if ((d->from == d->to) || (d->bytes == 0)) {
        assert_int_equal(count, 0);
        return 0;
    }
    for (unsigned k = 0; k < count; ++k) {
        unsigned relays = 0;

        assert_true(pieces[k].offset == offset);
        assert_true(pieces[k].bytes > 0);
        offset += pieces[k].bytes;
        if (node_of(d->from) == node_of(d->to)) {
            unsigned relay = pieces[k].relay_out;

            assert_int_equal(pieces[k].rail_out, MRAIL_PLAN_NONE);
            relays = (relay != MRAIL_PLAN_NONE);
            assert_true((d->bytes > SMALL) || (relays == 0));
            hop(d->from, relays ? relay : d->to, (double)pieces[k].bytes);
            if (relays) {
                hop(relay, d->to, (double)pieces[k].bytes);
            }
        } else {
            relays = check_piece(d, &pieces[k]);
        }
        assert_true((d->bytes > SMALL) || (relays == 0) ||
                    (relays <= fewest(d)));
        relayed += (double)pieces[k].bytes * relays;
    }
    assert_true(offset == d->bytes);
    return relayed;
}

static int is_near(double a, double b)
{
    double off = (a > b) ? a - b : b - a;

    return off <= 1e-9 * MRAIL_MAX(a, b) + 1e-9;
}

static void check_links(const mrail_plan_t *plan)
{
    for (unsigned i = 0; i < mrail_plan_num_links(plan); ++i) {
        mrail_plan_link_t link;

        mrail_plan_link(plan, i, &link);
        switch (link.kind) {
        case MRAIL_PLAN_RAIL_OUT:
        case MRAIL_PLAN_RAIL_IN:
            assert_true(is_near(
                *rail_bytes(link.a, link.b, link.kind == MRAIL_PLAN_RAIL_IN),
                link.bytes));
            break;
        case MRAIL_PLAN_SWITCH_UP:
        case MRAIL_PLAN_SWITCH_DOWN:
            assert_true(is_near(
                *switch_bytes(link.a, link.kind == MRAIL_PLAN_SWITCH_DOWN),
                link.bytes));
            break;
        case MRAIL_PLAN_GPU_LINK:
            assert_true(is_near(w.pair[link.a][link.b % w.per], link.bytes));
            break;
        default:
            break; /* uplinks are sums of rails, which have been checked */
        }
    }
}

/* Compares all pieces with the reported loads of rails and uplinks. Half of a
 * small demand may differ, because pieces are whole bytes. */
static void compare(mrail_plan_t *plan)
{
    unsigned count = mrail_plan_num_links(plan);
    double *before = calloc(count, sizeof(*before));
    mrail_plan_link_t link;

    assert_non_null(before);
    for (unsigned i = 0; i < count; ++i) {
        mrail_plan_link(plan, i, &link);
        before[i] = link.bytes;
    }
    mrail_plan_compare(plan);
    for (unsigned i = 0; i < count; ++i) {
        mrail_plan_link(plan, i, &link);
        if ((link.kind != MRAIL_PLAN_SWITCH_UP) &&
            (link.kind != MRAIL_PLAN_SWITCH_DOWN) &&
            (link.kind != MRAIL_PLAN_GPU_LINK)) {
            assert_true(before[i] <= link.bytes * (1 + ROUNDING));
            assert_true(before[i] >= link.bytes * (1 - ROUNDING));
        }
    }
    free(before);
}

/* Checks the whole plan and returns its summary. */
static mrail_plan_summary_t check_plan(mrail_plan_t *plan, double gap)
{
    mrail_plan_summary_t before, after;
    double relayed = 0;

    mrail_plan_summary(plan, &before);
    compare(plan);
    mrail_plan_summary(plan, &after);
    memset(w.link, 0, sizeof(w.link));
    memset(w.pair, 0, sizeof(w.pair));
    for (size_t i = 0; i < w.num_demands; ++i) {
        relayed += check_demand(plan, i);
    }
    check_links(plan);
    assert_true(is_near(relayed, after.relayed));
    assert_true(after.relayed <= before.relayed * (1 + 1e-9));
    assert_true(after.congestion <= before.congestion * (1 + ROUNDING));
    assert_true(after.congestion <= after.congestion_bound * (1 + gap));
    assert_true(after.congestion_bound <= after.congestion * (1 + 1e-9));
    assert_true(after.hash == before.hash);
    return after;
}

static mrail_plan_t *made(const mrail_plan_topo_t *topo,
                          const mrail_plan_options_t *options)
{
    mrail_plan_t *plan;
    char why[256] = "";

    assert_int_equal(mrail_plan_create(topo, options, &plan), 0);
    if (mrail_plan_make(plan, w.demand, w.num_demands, 0, why, sizeof(why)) !=
        0) {
        fail_msg("%s", why);
    }
    return plan;
}

/* ---- tests ---- */

/* Returns the relayed bytes of a plan in two levels, relative to an undivided
 * plan. */
static double compare_levels(unsigned seed, int is_paired,
                             unsigned *in_levels_p)
{
    double relayed[2];

    for (unsigned is_multi_rail = 0; is_multi_rail < 2; ++is_multi_rail) {
        mrail_plan_summary_t summary;
        mrail_plan_topo_t *topo;
        mrail_plan_t *plan;
        unsigned dead, leaf_groups;

        mrail_rng_init(&w.rng, seed);
        set_size(8 + below(MAX_NODES - 7), MAX_RAILS, MAX_RAILS);
        w.is_paired = is_paired;
        dead = below(3) * 4;
        leaf_groups = below(2) * 2;
        make_demands(seed % 3);
        mrail_rng_init(&w.rng, seed);
        topo = make_topo(dead, leaf_groups, (int)is_multi_rail);
        if (is_paired) {
            link_pairs(topo, 64, 64);
        }
        plan = made(topo, NULL);
        summary = check_plan(plan, GAP);
        relayed[is_multi_rail] = summary.relayed;
        *in_levels_p += (!is_multi_rail && (summary.relayed_bound == 0));
        mrail_plan_destroy(plan);
        mrail_plan_topo_destroy(topo);
    }
    w.is_paired = 0;
    return relayed[0] / relayed[1];
}

static void random_kind(int is_paired)
{
    unsigned seeds = (getenv("MRAIL_TEST_FULL") != NULL) ? 60 : 9,
             in_levels = 0;
    double most = 0;

    for (unsigned seed = 1; seed <= seeds; ++seed) {
        double ratio = compare_levels(seed, is_paired, &in_levels);

        most = MRAIL_MAX(most, ratio);
    }
    print_message("%u of %u in two levels; relayed at most %.3f of what a plan "
                  "at once relays\n",
                  in_levels, seeds, most);
    assert_true(in_levels * 10 >= seeds * 9);
    assert_true(most <= 1.1);
}

static void test_random(void **state)
{
    random_kind(0);
}

static void test_random_pairs(void **state)
{
    random_kind(1);
}

/* Gives each inner node one dead rail, with probability 1/2. */
static void kill_rails(mrail_plan_topo_t *topo)
{
    for (unsigned node = 1; node < w.nodes - 1; ++node) {
        unsigned rail = below(2 * w.rails);

        if (rail < w.rails) {
            w.is_up[node * w.rails + rail] = 0;
            assert_int_equal(mrail_plan_topo_set_rail(topo, node, rail, 0, 0),
                             0);
        }
    }
}

/* Divides only the contended demands, and keeps the others fixed. The result
 * must be within the gap, the reported loads must be right, and no more bytes
 * may be relayed than when all demands are divided. */
static double compare_contended(unsigned seed, unsigned *contended_p)
{
    mrail_plan_summary_t summary[2];

    for (unsigned is_multi_rail = 0; is_multi_rail < 2; ++is_multi_rail) {
        mrail_plan_summary_t after;
        mrail_plan_topo_t *topo;
        mrail_plan_t *plan;
        unsigned nodes, per, dead;

        mrail_rng_init(&w.rng, seed);
        nodes = 8 + below(MAX_NODES - 15);
        per = MAX_RAILS + (below(2) ? below(5) : 0);
        set_size(nodes, MAX_RAILS, per);
        w.is_paired = below(3) == 0;
        dead = below(3) * 2;
        topo = make_topo(dead, 0, (int)is_multi_rail);
        if (w.is_paired) {
            link_pairs(topo, 20 + below(60), 80);
        }
        for (unsigned i = 0; !w.is_paired && (seed % 2 == 0) && (i < w.ranks);
             ++i) {
            assert_int_equal(mrail_plan_topo_set_switch(topo, i, 30e9, 30e9),
                             0);
        }
        make_demands(seed % DEGRADED_SENDERS);
        plan = made(topo, NULL);
        mrail_plan_summary(plan, &summary[is_multi_rail]);
        after = check_plan(plan, GAP);
        assert_true(
            is_near(summary[is_multi_rail].congestion, after.congestion));
        assert_true(is_near(summary[is_multi_rail].relayed, after.relayed));
        mrail_plan_destroy(plan);
        mrail_plan_topo_destroy(topo);
    }
    *contended_p += (summary[0].iterations + summary[0].relay_iterations == 0);
    for (unsigned i = 0; i < 2; ++i) {
        assert_true(summary[i].congestion_bound <=
                    summary[1 - i].congestion * (1 + ROUNDING));
        assert_true(
            (summary[i].limit < summary[1 - i].limit * (1 - ROUNDING)) ||
            (summary[i].relayed_bound <=
             summary[1 - i].relayed * (1 + ROUNDING) +
                 NOTHING * summary[i].bytes));
    }
    return (summary[0].relayed + 1) / (summary[1].relayed + 1);
}

static void test_contended(void **state)
{
    unsigned seeds = (getenv("MRAIL_TEST_FULL") != NULL) ? 200 : 60,
             contended = 0;
    double most = 0;

    w.has_cross_rail = 1;
    for (unsigned seed = 1; seed <= seeds; ++seed) {
        double ratio = compare_contended(seed, &contended);

        most = MRAIL_MAX(most, ratio);
    }
    w.has_cross_rail = 0;
    w.is_paired = 0;
    print_message(
        "%u of %u of them alone; relayed at most %.3f of what a plan at once "
        "relays\n",
        contended, seeds, most);
    assert_true(contended * 12 >= seeds * 5);
    assert_true(most <= 1.04);
}

/* Pairwise links are the bottleneck. Their bounds must hold for every division
 * that level 2 can make. The gap is large enough to leave room for that. */
static void test_narrow_pairs(void **state)
{
    unsigned seeds = (getenv("MRAIL_TEST_FULL") != NULL) ? 400 : 40;
    unsigned in_levels = 0;

    for (unsigned seed = 1; seed <= seeds; ++seed) {
        const mrail_plan_options_t options = {.struct_size = sizeof(options),
                                              .gap = 1,
                                              .relay_threshold = SMALL,
                                              .min_piece = below(2) * 65536};
        mrail_plan_summary_t summary;
        mrail_plan_topo_t *topo;
        mrail_plan_t *plan;
        unsigned nodes, rails, per, narrow;

        mrail_rng_init(&w.rng, seed);
        rails = 3 + below(MAX_RAILS - 2);
        per = rails + (below(2) ? below(rails + 1) : 0);
        nodes = 56 / per + 1 + below(8);
        nodes = MRAIL_MIN(nodes, MAX_RANKS / per);
        set_size(MRAIL_MIN(nodes, (unsigned)MAX_NODES), rails, per);
        w.is_paired = 1;
        topo = make_topo(0, 0, 0);
        kill_rails(topo);
        narrow = 5 + below(20);
        link_pairs(topo, narrow, 30 + below(40));
        make_demands(seed % DEGRADED_SENDERS);
        plan = made(topo, &options);
        summary = check_plan(plan, options.gap);
        in_levels += (summary.relayed_bound == 0);
        mrail_plan_destroy(plan);
        mrail_plan_topo_destroy(topo);
    }
    w.is_paired = 0;
    print_message("%u of %u in two levels\n", in_levels, seeds);
    assert_true(in_levels * 4 >= seeds);
}

/* Computes the loads that level 2 puts on pairwise links. */
static void check_pairs(mrail_levels_t *levels)
{
    memset(w.pair, 0, sizeof(w.pair));
    for (size_t i = 0; i < w.num_demands; ++i) {
        const mrail_plan_demand_t *d = &w.demand[i];
        const uint64_t *end;
        uint64_t last = 0;

        if ((node_of(d->from) == node_of(d->to)) || (d->bytes == 0)) {
            w.pair[d->from][d->to % w.per] += (double)d->bytes;
            continue;
        }
        end = mrail_levels_ends(levels, i);
        for (unsigned rail = 0; rail < w.rails; last = end[rail], ++rail) {
            mrail_plan_piece_t piece = {.bytes = end[rail] - last,
                                        .rail_out = rail,
                                        .rail_in = rail,
                                        .relay_out = MRAIL_PLAN_NONE,
                                        .relay_in = MRAIL_PLAN_NONE};

            if (rail != rail_of(d->from)) {
                piece.relay_out = relay_of(node_of(d->from), rail);
            }
            if (rail != rail_of(d->to)) {
                piece.relay_in = relay_of(node_of(d->to), rail);
            }
            if (piece.bytes > 0) {
                check_piece(d, &piece);
            }
        }
        assert_true(last == d->bytes);
    }
}

/* Checks the bounds of level 1 by making each link in turn the only narrow one.
 * The actual load must never exceed the bound. Returns the largest ratio of
 * relayed load to bound. */
static double check_bounds(mrail_levels_t *levels)
{
    enum { SIDE = MRAIL_PLAN_MAX_PAIRWISE };
    double *capacity = levels->pairs->capacity, most = 0;

    for (unsigned i = 0; i < w.ranks * SIDE; ++i) {
        capacity[i] = 1e30;
    }
    for (unsigned i = 0; i < w.ranks * w.per; ++i) {
        unsigned from = i / w.per, place = i % w.per;
        unsigned to = node_of(from) * w.per + place;
        double inside = (double)w.demand[(size_t)from * w.ranks + to].bytes;
        double bound, bytes = w.pair[from][place];

        if (from == to) {
            continue;
        }
        capacity[from * SIDE + place] = 1e-6;
        bound = mrail_levels_most_on_gpus(levels) * 1e-6;
        capacity[from * SIDE + place] = 1e30;
        assert_true(bound >= bytes * (1 - ROUNDING));
        if (bound > inside) {
            most = MRAIL_MAX(most, (bytes - inside) / (bound - inside));
        }
    }
    return most;
}

static void test_bounds(void **state)
{
    double best[NUM_PATTERNS] = {0};
    const mrail_plan_options_t options = {
        .gap = 1, .relay_threshold = SMALL, .min_piece = 65536};

    w.is_paired = 1;
    for (unsigned seed = 1; seed <= 12 * NUM_PATTERNS; ++seed) {
        mrail_plan_summary_t summary;
        mrail_levels_t *levels;
        mrail_plan_topo_t *topo;
        double *most = &best[seed % NUM_PATTERNS], part;
        unsigned nodes, rails;
        int ret;

        mrail_rng_init(&w.rng, seed);
        rails = 3 + below(MAX_RAILS - 2);
        nodes = 4 + below(6);
        set_size(nodes, rails, rails);
        topo = make_topo(0, 0, 0);
        kill_rails(topo);
        link_pairs(topo, 1, 1);
        make_demands(seed % NUM_PATTERNS);
        assert_int_equal(mrail_levels_create(topo, &options, &levels), 0);
        /* The bounds must not depend on links that are full. If they do, all
         * demands are divided together, which another test covers. */
        ret = mrail_levels_divide(levels, w.demand, w.num_demands, NULL,
                                  &summary);
        assert_true((ret == 0) || (levels->expanded != MRAIL_PLAN_NONE));
        check_pairs(levels);
        part = check_bounds(levels);
        *most = MRAIL_MAX(*most, part);
        mrail_levels_destroy(levels);
        mrail_plan_topo_destroy(topo);
    }
    w.is_paired = 0;
    /* The bound is exact where only one rank uses the link. */
    for (unsigned pattern = DEGRADED_SENDERS; pattern < NUM_PATTERNS;
         ++pattern) {
        assert_true(best[pattern] > 0.95);
    }
}

/* If a pairwise link is missing, the demands are planned in one level. */
static void test_missing_pair(void **state)
{
    mrail_plan_topo_t *topo;
    mrail_plan_t *plan;

    mrail_rng_init(&w.rng, 1);
    set_size(8, MAX_RAILS, MAX_RAILS);
    w.is_paired = 1;
    make_demands(EQUAL);
    topo = make_topo(0, 0, 0);
    link_pairs(topo, 64, 64);
    assert_int_equal(mrail_plan_topo_set_link(topo, 8, 9, 0), 0);
    for (size_t i = 0; i < w.num_demands; ++i) {
        w.demand[i].bytes *= (w.demand[i].from / 8 != w.demand[i].to / 8);
    }
    plan = made(topo, NULL);
    assert_true(check_plan(plan, GAP).relayed_bound > 0);
    mrail_plan_destroy(plan);
    mrail_plan_topo_destroy(topo);
    w.is_paired = 0;
}

/* If the links to the switch are too slow, the plan must have one level and be
 * within the gap. */
static void test_full_switch(void **state)
{
    mrail_plan_topo_t *topo;
    mrail_plan_t *plan;

    mrail_rng_init(&w.rng, 1);
    set_size(20, MAX_RAILS, MAX_RAILS);
    make_demands(EQUAL);
    topo = make_topo(0, 0, 0);
    for (unsigned i = 0; i < w.ranks; ++i) {
        assert_int_equal(mrail_plan_topo_set_switch(topo, i, 60e9, 60e9), 0);
    }
    plan = made(topo, NULL);
    assert_true(check_plan(plan, GAP).relayed_bound > 0);
    mrail_plan_destroy(plan);
    mrail_plan_topo_destroy(topo);
}

/* A refused plan must leave the previous one in place. */
static void test_refused(void **state)
{
    mrail_plan_summary_t before, after;
    mrail_plan_piece_t one[MRAIL_PLAN_MAX_PIECES], two[MRAIL_PLAN_MAX_PIECES];
    static mrail_plan_demand_t bad[MAX_RANKS * MAX_RANKS];
    mrail_plan_topo_t *topo;
    mrail_plan_t *plan;
    char why[256] = "";

    mrail_rng_init(&w.rng, 1);
    set_size(20, MAX_RAILS, MAX_RAILS);
    make_demands(RANDOM);
    topo = make_topo(4, 0, 0);
    plan = made(topo, NULL);
    mrail_plan_summary(plan, &before);
    assert_true(mrail_plan_pieces(plan, 9, one) > 0);
    memcpy(bad, w.demand, sizeof(bad));
    bad[w.num_demands - 1].to = w.ranks;
    assert_int_equal(
        mrail_plan_make(plan, bad, w.num_demands, 0, why, sizeof(why)),
        -EINVAL);
    assert_non_null(strstr(why, "no such rank"));
    mrail_plan_summary(plan, &after);
    assert_memory_equal(&before, &after, sizeof(before));
    assert_true(mrail_plan_pieces(plan, 9, two) > 0);
    assert_memory_equal(one, two, sizeof(one[0]));
    mrail_plan_destroy(plan);
    mrail_plan_topo_destroy(topo);
}

static const mrail_water_fill_demand_t fillers[] = {
    {.from_rail = 0, .to_rail = 1, .bytes = 120},
    {.from_rail = 0, .to_rail = 0, .bytes = 60},
    {.from_rail = 2, .to_rail = 2, .bytes = 40},
    {.from_rail = 1, .to_rail = 2, .bytes = 9, .is_small = 1},
};

static void check_water_fill(const uint64_t *room, int is_bounded,
                             const uint64_t expected[3][3])
{
    uint64_t end[4 * 3];

    mrail_water_fill_make(fillers, 4, 3, 7, room, is_bounded, end);
    for (unsigned i = 0; i < 3; ++i) {
        for (unsigned rail = 0, sum = 0; rail < 3; ++rail) {
            sum += (unsigned)expected[i][rail];
            assert_int_equal(end[3 * i + rail], sum);
        }
    }
    assert_int_equal(end[9], 0);
    assert_int_equal(end[11], 9);
    assert_true((end[10] == 4) || (end[10] == 5));
}

/* A result computed by hand. Matching rails are filled first, then own rails,
 * then the rest. */
static void test_water_fill(void **state)
{
    /* 60 bytes on rail 0 and 30 on rail 2 are on matching rails. The first
     * demand then finds more room on rail 1, and puts its rest on rail 0. That
     * leaves 10 bytes of room on rail 0 for the third demand, a quarter of its
     * bytes. */
    static const uint64_t room[3] = {100, 90, 30};
    static const uint64_t all[3][3] = {{30, 90, 0}, {60, 0, 0}, {10, 0, 30}};
    /* Here, 20 of 40 bytes would find no room. Half of the bytes are therefore
     * placed first, 38 and 60 on rails 0 and 1, and the other 22 afterwards. */
    static const uint64_t less[3] = {98, 92, 30};
    static const uint64_t halves[3][3] = {{38, 82, 0}, {60, 0, 0}, {0, 10, 30}};

    static const uint64_t greedy[3][3] = {{28, 92, 0}, {60, 0, 0}, {10, 0, 30}};

    check_water_fill(room, 0, all);
    check_water_fill(room, 1, all);
    check_water_fill(less, 0, greedy);
    check_water_fill(less, 1, halves);
    assert_int_equal(mrail_water_fill_fewest(7, 0, 2), 5);
    assert_int_equal(mrail_water_fill_fewest(6, 0, 2), 4);
    assert_int_equal(mrail_water_fill_fewest(2, 0, 2), 2);
    assert_true(mrail_water_fill_third_party(100, 60) == 95);
    assert_true(mrail_water_fill_third_party(100, 300) == 25);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),      cmocka_unit_test(test_random_pairs),
        cmocka_unit_test(test_contended),   cmocka_unit_test(test_narrow_pairs),
        cmocka_unit_test(test_bounds),      cmocka_unit_test(test_missing_pair),
        cmocka_unit_test(test_full_switch), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_water_fill),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
