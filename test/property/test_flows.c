/*
 * src/orchestrator/flows.c: what it divides adds up, what it proves holds for any
 * other division, and both come within what was wanted of each other; over nodes
 * with unequal and dead rails, with and without links between GPUs.  And the same
 * bits, however it was compiled.
 */
#include "config.h"
#include "orchestrator/flows.h"

#include "base/rng.h"
#include "base/util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MAX_NODES 6
#define MAX_RAILS 8
#define MAX_LINKS (MAX_NODES * MAX_RAILS * (2 + MAX_RAILS))
#define MAX_DEMANDS (MAX_NODES * MAX_NODES * 16)
#define MAX_PATHS (MAX_DEMANDS * MAX_RAILS)
#define GAP 0.01
#define ROUNDS 50000
/* Of what test_same_everywhere() divides: gcc, x86-64, -O2.  It changes when the
 * arithmetic does. */
#define GOLDEN 0xb8d026311b384db5ull

static struct {
    mrail_flows_problem_t problem;
    double capacity[MAX_LINKS];
    double demand[MAX_DEMANDS];
    unsigned first_path[MAX_DEMANDS + 1];
    unsigned first_link[MAX_PATHS + 1];
    unsigned link[MAX_PATHS * 4];
    mrail_rng_t rng;
} w;

static unsigned below(unsigned bound)
{
    return mrail_rng_below(&w.rng, bound);
}

/* ---- problems ------------------------------------------------------------ */

static void begin(unsigned num_links)
{
    assert_true(num_links <= MAX_LINKS);
    w.problem = (mrail_flows_problem_t){
        .num_links = num_links,
        .capacity = w.capacity,
        .demand = w.demand,
        .first_path = w.first_path,
        .first_link = w.first_link,
        .link = w.link,
    };
    w.first_path[0] = 0;
    w.first_link[0] = 0;
}

static unsigned num_paths(void)
{
    return w.first_path[w.problem.num_demands];
}

/* Of the demand that is being made. */
static void add_path(unsigned *count, const unsigned *links, unsigned num_links)
{
    unsigned path = num_paths() + (*count)++;

    assert_true(path < MAX_PATHS);
    memcpy(&w.link[w.first_link[path]], links, num_links * sizeof(*links));
    w.first_link[path + 1] = w.first_link[path] + num_links;
}

static void add_demand(double bytes, unsigned count)
{
    unsigned k = w.problem.num_demands;

    if (count == 0) {
        return; /* no way there: nothing that could be divided */
    }
    assert_true(k < MAX_DEMANDS);
    w.demand[k] = bytes;
    w.first_path[k + 1] = w.first_path[k] + count;
    ++w.problem.num_demands;
}

typedef struct shape {
    unsigned nodes, rails;
    int gpus;        /* as many per node as rails, each beside one */
    unsigned dead;   /* rails, of a hundred */
    int unequal;
} shape_t;

static unsigned out_link(const shape_t *s, unsigned node, unsigned rail)
{
    return node * s->rails + rail;
}

static unsigned in_link(const shape_t *s, unsigned node, unsigned rail)
{
    return (s->nodes + node) * s->rails + rail;
}

static unsigned gpu_link(const shape_t *s, unsigned node, unsigned from,
                         unsigned to)
{
    return (2 * s->nodes + node * s->rails + from) * s->rails + to;
}

static void add_pair(const shape_t *s, const uint8_t *dead, unsigned a,
                     unsigned b, unsigned from, unsigned to)
{
    double bytes = (double)(1 + below(1000)) * ((below(20) == 0) ? 3e7 : 1e6);
    unsigned count = 0;

    for (unsigned rail = 0; rail < s->rails; ++rail) {
        unsigned links[4] = {out_link(s, a, rail), in_link(s, b, rail)};
        unsigned num_links = 2;

        if (dead[a * s->rails + rail] || dead[b * s->rails + rail]) {
            continue;
        }
        if (s->gpus && (from != rail)) {
            links[num_links++] = gpu_link(s, a, from, rail);
        }
        if (s->gpus && (to != rail)) {
            links[num_links++] = gpu_link(s, b, rail, to);
        }
        add_path(&count, links, num_links);
    }
    add_demand(bytes, count);
}

/* Everybody sends to everybody on other nodes, over rails that match. */
static void make(uint64_t seed, const shape_t *s)
{
    uint8_t dead[MAX_NODES * MAX_RAILS];
    unsigned nics = 2 * s->nodes * s->rails, ranks = s->gpus ? s->rails : 1;

    mrail_rng_init(&w.rng, seed);
    begin(nics + (s->gpus ? s->nodes * s->rails * s->rails : 0));
    for (unsigned i = 0; i < s->nodes * s->rails; ++i) {
        dead[i] = (below(100) < s->dead);
    }
    for (unsigned e = 0; e < w.problem.num_links; ++e) {
        w.capacity[e] = 1e9 * ((e >= nics) ? 0.5 + below(6)
                               : s->unequal ? 1 + below(4)
                                            : 2);
    }
    for (unsigned pair = 0; pair < s->nodes * s->nodes; ++pair) {
        unsigned a = pair / s->nodes, b = pair % s->nodes;

        for (unsigned i = 0; (a != b) && (i < ranks * ranks); ++i) {
            add_pair(s, dead, a, b, i / ranks, i % ranks);
        }
    }
}

static shape_t random_shape(uint64_t seed)
{
    shape_t s;

    mrail_rng_init(&w.rng, ~seed);
    s.gpus = (below(3) == 0);
    s.nodes = 2 + below(s.gpus ? 2 : MAX_NODES - 1);
    s.rails = 1 + below(s.gpus ? 4 : MAX_RAILS);
    s.dead = below(3) * 15;
    s.unequal = (int)below(2);
    return s;
}

/* ---- judges -------------------------------------------------------------- */

static double congestion_of(const double *bytes)
{
    double load[MAX_LINKS] = {0}, most = 0;

    for (unsigned p = 0; p < num_paths(); ++p) {
        for (unsigned i = w.first_link[p]; i < w.first_link[p + 1]; ++i) {
            load[w.link[i]] += bytes[p];
        }
    }
    for (unsigned e = 0; e < w.problem.num_links; ++e) {
        most = MRAIL_MAX(most, load[e] / w.capacity[e]);
    }
    return most;
}

static int is_near(double a, double b)
{
    double off = (a > b) ? a - b : b - a;

    return off <= 1e-9 * MRAIL_MAX(a, b);
}

/* What is divided is what there was, and as loaded as is said. */
static void check_division(const mrail_flows_t *flows)
{
    const double *bytes = mrail_flows_bytes(flows);

    for (unsigned k = 0; k < w.problem.num_demands; ++k) {
        double sum = 0;

        for (unsigned p = w.first_path[k]; p < w.first_path[k + 1]; ++p) {
            assert_true(bytes[p] >= 0);
            sum += bytes[p];
        }
        assert_true(is_near(sum, w.demand[k]));
    }
    assert_true(is_near(congestion_of(bytes), mrail_flows_congestion(flows)));
    assert_true(mrail_flows_bound(flows) <=
                mrail_flows_congestion(flows) * (1 + 1e-9));
}

/* Any other division, at random, and ever more of it where it was good. */
static void check_bound(double bound)
{
    static double best[MAX_PATHS], other[MAX_PATHS];
    double least = -1;

    for (unsigned i = 0; i < 60; ++i) {
        double congestion;

        for (unsigned k = 0; k < w.problem.num_demands; ++k) {
            unsigned begin = w.first_path[k], end = w.first_path[k + 1];
            double sum = 0;

            for (unsigned p = begin; p < end; ++p) {
                double part = (double)(1 + below(1000));

                other[p] = (i < 10) ? part : best[p] * (3000 + part);
                sum += other[p];
            }
            for (unsigned p = begin; p < end; ++p) {
                other[p] *= w.demand[k] / sum;
            }
        }
        congestion = congestion_of(other);
        assert_true(bound <= congestion * (1 + 1e-9));
        if ((least < 0) || (congestion < least)) {
            least = congestion;
            memcpy(best, other, num_paths() * sizeof(*best));
        }
    }
}

static mrail_flows_t *spread(void)
{
    mrail_flows_t *flows;

    assert_int_equal(mrail_flows_create(&w.problem, &flows), 0);
    (void)mrail_flows_spread(flows, GAP, ROUNDS);
    check_division(flows);
    return flows;
}

/* ---- tests --------------------------------------------------------------- */

static void test_one_demand(void **state)
{
    static const double capacity[] = {1e9, 2e9, 5e8};
    mrail_flows_t *flows;
    unsigned count = 0;

    begin(3);
    memcpy(w.capacity, capacity, sizeof(capacity));
    for (unsigned e = 0; e < 3; ++e) {
        add_path(&count, &e, 1);
    }
    add_demand(7e9, count);
    flows = spread();
    assert_true(is_near(mrail_flows_congestion(flows), 2));
    assert_true(is_near(mrail_flows_bound(flows), 2));
    mrail_flows_destroy(flows);
}

/* With all rails alike no node can be done before what it has to send, or to
 * receive, has gone over all of its rails; and all can be done by then. */
static void test_nodes_alike(void **state)
{
    for (uint64_t seed = 1; seed <= 40; ++seed) {
        shape_t s = {.nodes = 2 + seed % 5, .rails = 1 + seed % 8};
        double out[MAX_NODES] = {0}, in[MAX_NODES] = {0}, most = 0;
        mrail_flows_t *flows;
        unsigned k = 0;

        make(seed, &s);
        for (unsigned pair = 0; pair < s.nodes * s.nodes; ++pair) {
            if (pair / s.nodes != pair % s.nodes) {
                out[pair / s.nodes] += w.demand[k];
                in[pair % s.nodes] += w.demand[k++];
            }
        }
        for (unsigned i = 0; i < s.nodes; ++i) {
            most = MRAIL_MAX(most, MRAIL_MAX(out[i], in[i]) / (2e9 * s.rails));
        }
        flows = spread();
        assert_true(mrail_flows_bound(flows) <= most * (1 + 1e-9));
        assert_true(mrail_flows_congestion(flows) <= most * (1 + GAP));
        assert_true(mrail_flows_congestion(flows) >= most * (1 - 1e-9));
        mrail_flows_destroy(flows);
    }
}

/* A demand that has one path only, and another one that shall keep out of it. */
static void test_makes_room(void **state)
{
    static const unsigned narrow[] = {0}, wide[] = {1};
    mrail_flows_t *flows;
    unsigned count = 0;

    begin(2);
    w.capacity[0] = w.capacity[1] = 1e9;
    add_path(&count, narrow, 1);
    add_demand(1e9, count);
    count = 0;
    add_path(&count, narrow, 1);
    add_path(&count, wide, 1);
    add_demand(1e9, count);
    flows = spread();
    assert_true(mrail_flows_congestion(flows) <= 1 + GAP);
    assert_true(mrail_flows_bound(flows) <= 1 + 1e-9);
    mrail_flows_destroy(flows);
}

static void test_random(void **state)
{
    uint64_t seeds = (getenv("MRAIL_TEST_FULL") != NULL) ? 20000 : 500;

    for (uint64_t seed = 1; seed <= seeds; ++seed) {
        shape_t s = random_shape(seed);
        mrail_flows_t *flows;

        make(seed, &s);
        if (w.problem.num_demands == 0) {
            continue;
        }
        flows = spread();
        check_bound(mrail_flows_bound(flows));
        if (mrail_flows_congestion(flows) >
            mrail_flows_bound(flows) * (1 + GAP)) {
            fail_msg("seed %llu: %u nodes x %u rails, %s: congestion %.6f, "
                     "proved %.6f", (unsigned long long)seed, s.nodes, s.rails,
                     s.gpus ? "GPUs" : "no GPUs", mrail_flows_congestion(flows),
                     mrail_flows_bound(flows));
        }
        mrail_flows_destroy(flows);
    }
}

/* What changes little is divided anew from the prices that were found. */
static void test_again(void **state)
{
    unsigned first = 0, again = 0;

    for (uint64_t seed = 1; seed <= 40; ++seed) {
        const shape_t s = {.nodes = 5, .rails = 6, .dead = 15, .unequal = 1};
        mrail_flows_t *flows;

        make(seed, &s);
        assert_int_equal(mrail_flows_create(&w.problem, &flows), 0);
        first += mrail_flows_spread(flows, GAP, ROUNDS);
        for (unsigned k = 0; k < w.problem.num_demands; ++k) {
            w.demand[k] *= 0.5 + (double)below(10) / 1000;
        }
        again += mrail_flows_spread(flows, GAP, ROUNDS);
        check_division(flows);
        check_bound(mrail_flows_bound(flows));
        mrail_flows_destroy(flows);
    }
    assert_true(again < first);
}

/* Another unit of bytes and capacities. */
static void test_scale(void **state)
{
    static double bytes[MAX_PATHS];

    for (uint64_t seed = 1; seed <= 20; ++seed) {
        shape_t s = random_shape(seed);
        mrail_flows_t *flows;

        make(seed, &s);
        if (w.problem.num_demands == 0) {
            continue;
        }
        flows = spread();
        memcpy(bytes, mrail_flows_bytes(flows), num_paths() * sizeof(*bytes));
        mrail_flows_destroy(flows);
        for (unsigned k = 0; k < w.problem.num_demands; ++k) {
            w.demand[k] *= 1024;
        }
        flows = spread();
        for (unsigned p = 0; p < num_paths(); ++p) {
            assert_true(mrail_flows_bytes(flows)[p] == bytes[p] * 1024);
        }
        mrail_flows_destroy(flows);
    }
}

/* FNV-1a, by value: the same whatever the order of bytes in memory is. */
static uint64_t digest(uint64_t sum, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    for (unsigned i = 0; i < 64; i += 8) {
        sum = (sum ^ ((bits >> i) & 0xff)) * 0x100000001b3ull;
    }
    return sum;
}

/* Ranks plan for themselves, and have to plan alike: so has every compiler, at any
 * level of optimisation. */
static void test_same_everywhere(void **state)
{
    uint64_t sum = 0xcbf29ce484222325ull;

    for (uint64_t seed = 1; seed <= 60; ++seed) {
        shape_t s = random_shape(seed);
        mrail_flows_t *flows;

        make(seed, &s);
        assert_int_equal(mrail_flows_create(&w.problem, &flows), 0);
        (void)mrail_flows_spread(flows, GAP, 500);
        for (unsigned p = 0; p < num_paths(); ++p) {
            sum = digest(sum, mrail_flows_bytes(flows)[p]);
        }
        sum = digest(sum, mrail_flows_bound(flows));
        mrail_flows_destroy(flows);
    }
    assert_int_equal(sum, GOLDEN);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_demand),
        cmocka_unit_test(test_nodes_alike),
        cmocka_unit_test(test_makes_room),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_scale),
        cmocka_unit_test(test_same_everywhere),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
