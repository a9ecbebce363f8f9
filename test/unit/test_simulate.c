/*
 * Tests exchanges in flow-level simulation (src/fabric/simulate.c, pattern.c
 * and bundle.c): known results, the figures of the papers at their scale, and
 * determinism.
 */
#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fabric/pattern.h"
#include "fabric/simulate.h"
#include "fabric/flowlets.h"

#define MB 1e6

static mrail_fabric_t *fabric_of(const char *text)
{
    mrail_fabric_t *fabric = NULL;
    char reason[512] = "";

    if (mrail_fabric_parse("t", text, strlen(text), &fabric, reason,
                           sizeof(reason)) != 0) {
        fail_msg("%s", reason);
    }
    return fabric;
}

/* Makes a fabric of leaves and spines. Hosts are assigned to leaves in blocks,
 * and each leaf has a 100 MB/s link to each spine. */
static mrail_fabric_t *leaf_spine(unsigned leaves, unsigned spines,
                                  unsigned hosts)
{
    char text[512];

    snprintf(text, sizeof(text),
             "host h[1-%u]\nleaf l[1-%u]\nspine s[1-%u]\n"
             "link h[1-%u] l[1-%u] 100MB block\n"
             "link l[1-%u] s[1-%u] 100MB\n",
             hosts, leaves, spines, hosts, leaves, leaves, spines);
    return fabric_of(text);
}

static mrail_sim_message_t *messages_of(const mrail_fabric_t *fabric,
                                        const char *pattern, double bytes,
                                        uint32_t *num_p)
{
    mrail_sim_message_t *messages = NULL;
    mrail_pattern_t parsed;
    char reason[256] = "";

    if (mrail_pattern_parse(pattern, fabric, &parsed, reason, sizeof(reason)) !=
        0) {
        fail_msg("%s", reason);
    }
    *num_p = 0;
    assert_int_equal(
        mrail_pattern_messages(&parsed, fabric, 0, bytes, &messages, num_p), 0);
    return messages;
}

typedef struct outcome {
    double time_s, bound_s;
    mrail_sim_load_t load, after;
    uint64_t num_flows;
    double sum_bytes; /* bytes that left hosts */
} outcome_t;

static outcome_t run(const mrail_fabric_t *fabric, const char *pattern,
                     double bytes, const mrail_sim_params_t *params)
{
    size_t links = 2 * (size_t)fabric->num_links;
    mrail_sim_result_t result = {.link_bytes = calloc(links, sizeof(double)),
                                 .after_bytes = calloc(links, sizeof(double))};
    mrail_sim_message_t *messages;
    outcome_t outcome = {.time_s = 0};
    uint32_t num;

    messages = messages_of(fabric, pattern, bytes, &num);
    assert_int_equal(mrail_sim_run(fabric, params, messages, num, &result), 0);
    assert_int_equal(mrail_sim_bound(fabric, messages, num, &outcome.bound_s),
                     0);
    outcome.time_s = result.time_s;
    outcome.num_flows = result.num_flows;
    outcome.load =
        mrail_sim_uplinks(fabric, MRAIL_FABRIC_NONE, result.link_bytes,
                          result.time_s, params->failed_link);
    if (params->failed_link != MRAIL_FABRIC_NONE) {
        uint32_t leaf = fabric->links[params->failed_link].lower;

        outcome.after = mrail_sim_uplinks(
            fabric, fabric->nodes[leaf].place, result.after_bytes,
            result.time_s - params->failure_s, params->failed_link);
    }
    for (uint32_t i = 0; i < fabric->num_links; ++i) {
        if (fabric->links[i].addr != 0) {
            outcome.sum_bytes += result.link_bytes[MRAIL_ROUTE_UP(i)];
        }
    }
    free(messages);
    free(result.link_bytes);
    free(result.after_bytes);
    return outcome;
}

static mrail_sim_params_t params_of(mrail_sim_method_t method, unsigned lanes,
                                    uint64_t seed)
{
    return (mrail_sim_params_t){.method = method,
                                .lanes = lanes,
                                .seed = seed,
                                .failed_link = MRAIL_FABRIC_NONE};
}

#define ASSERT_NEAR(_got, _want, _relative)                                    \
    do {                                                                       \
        double got_ = (_got), want_ = (_want);                                 \
                                                                               \
        if (!(fabs(got_ - want_) <= (_relative)*fabs(want_))) {                \
            fail_msg("line %d: %.12g, not %.12g", __LINE__, got_, want_);      \
        }                                                                      \
    } while (0)

/* ---- Known results ---- */

/* Seven hosts send to one, so the receiver's link is the bottleneck. */
static void test_incast(void **state)
{
    mrail_fabric_t *fabric = leaf_spine(2, 2, 8);

    for (unsigned m = 0; m < MRAIL_SIM_NUM_METHODS; ++m) {
        mrail_sim_params_t params = params_of((mrail_sim_method_t)m, 4, 1);
        outcome_t outcome = run(fabric, "hotspot:1@0-7", 10 * MB, &params);

        assert_true(outcome.time_s >= outcome.bound_s * (1 - 1e-9));
        ASSERT_NEAR(outcome.bound_s, 0.7, 1e-9);
        ASSERT_NEAR(outcome.sum_bytes, 80 * MB, 1e-9);
    }
    mrail_fabric_destroy(fabric);
}

/* Inside a leaf, every method reaches the lower bound and uses no uplink. */
static void test_rack_local(void **state)
{
    mrail_fabric_t *fabric = leaf_spine(2, 4, 16);

    for (unsigned m = 0; m < MRAIL_SIM_NUM_METHODS; ++m) {
        mrail_sim_params_t params = params_of((mrail_sim_method_t)m, 4, 3);
        outcome_t outcome = run(fabric, "alltoall@0-7", 7 * MB, &params);

        ASSERT_NEAR(outcome.time_s, 0.07, 1e-9);
        ASSERT_NEAR(outcome.bound_s, 0.07, 1e-9);
        assert_true(outcome.load.most == 0);
    }
    mrail_fabric_destroy(fabric);
}

/* Two flows with the same source port take the same uplink, and share its rate
 * equally. */
static void test_stock_ports_collide(void **state)
{
    mrail_fabric_t *fabric =
        fabric_of("host a b c d\nleaf l m\nspine s\nlink a,b l 100MB\n"
                  "link c,d m 100MB\nlink l,m s 100MB\n");
    mrail_sim_params_t params = params_of(MRAIL_SIM_STOCK, 1, 1);
    outcome_t outcome = run(fabric, "shift:2", 10 * MB, &params);

    ASSERT_NEAR(outcome.time_s, 0.2, 1e-9);
    ASSERT_NEAR(outcome.load.mean, 1, 1e-9);
    mrail_fabric_destroy(fabric);
}

/* ---- The papers' scale ---- */

/* [Ethereal], 256 hosts: Ethereal takes as long as ideal spraying, and ECMP
 * takes longer. */
static void test_ethereal_is_spraying(void **state)
{
    static const char *const patterns[] = {"alltoall", "shift:16", "shift:100",
                                           "ring"};
    mrail_fabric_t *fabric = leaf_spine(16, 16, 256);

    for (unsigned p = 0; p < MRAIL_ARRAY_SIZE(patterns); ++p) {
        mrail_sim_params_t params = params_of(MRAIL_SIM_SPRAY, 1, 1);
        outcome_t spray = run(fabric, patterns[p], 256 * MB, &params);
        outcome_t ethereal;

        params.method = MRAIL_SIM_ETHEREAL;
        params.stagger_ns = 1000;
        ethereal = run(fabric, patterns[p], 256 * MB, &params);
        ASSERT_NEAR(spray.time_s, spray.bound_s, 1e-9);
        ASSERT_NEAR(ethereal.time_s, spray.time_s, 0.01);
        ASSERT_NEAR(ethereal.load.most, spray.load.most, 1e-6);
        assert_true(ethereal.load.cv < 1e-6);
    }
    mrail_fabric_destroy(fabric);
}

/* [CTCCL] 4.1: port rules load eight uplinks equally, even with one lane. */
static void test_dnlb_loads_equally(void **state)
{
    mrail_fabric_t *fabric = leaf_spine(2, 8, 16);

    for (unsigned lanes = 1; lanes <= 32; lanes *= 2) {
        mrail_sim_params_t params = params_of(MRAIL_SIM_DNLB, lanes, 1);
        outcome_t outcome = run(fabric, "shift:8", 64 * MB, &params);

        ASSERT_NEAR(outcome.time_s, outcome.bound_s, 1e-9);
        assert_true(outcome.load.cv < 0.003 && outcome.load.mean > 0.8);
    }
    mrail_fabric_destroy(fabric);
}

/* [CTCCL], Fig. 7: if an uplink fails, rules that drop packets keep the other
 * uplinks equal. */
static void test_failed_uplink(void **state)
{
    mrail_fabric_t *fabric = leaf_spine(2, 8, 16);
    mrail_sim_params_t params = params_of(MRAIL_SIM_DNLB, 8, 1);
    outcome_t drop, through;

    params.failed_link =
        fabric->nodes[mrail_fabric_node_find(fabric, "l1")].up[5];
    params.failure_s = 0.1;
    params.drop = 1;
    drop = run(fabric, "shift:8", 64 * MB, &params);
    params.drop = 0;
    through = run(fabric, "shift:8", 64 * MB, &params);
    assert_int_equal(drop.after.num, 7);
    assert_true(drop.after.most - drop.after.least < 0.005);
    assert_true(drop.after.mean > 0.8);
    ASSERT_NEAR(drop.sum_bytes, 16 * 64 * MB, 1e-9);
    ASSERT_NEAR(through.sum_bytes, 16 * 64 * MB, 1e-9);
    /* Both modes are slower than without the failure, but by no more than one
     * seventh. */
    assert_true(drop.time_s > drop.bound_s);
    assert_true(drop.time_s < drop.bound_s * 8 / 7. * 1.01);
    assert_true(through.time_s < through.bound_s * 8 / 7. * 1.05);
    mrail_fabric_destroy(fabric);
}

/* Three tiers, with four links from each spine to a leaf. Ethereal keeps the
 * link of the segment, so it is as fast as spraying. With the rules of DNLB,
 * the spines hash the flows from the cores. The links to a leaf together have
 * twice the rate of the core links. An exchange is then as fast as spraying
 * unless one link carries more than half of its spine's flows, and no exchange
 * may be much slower. */
static void test_parallel_links_below_cores(void **state)
{
    mrail_fabric_t *fabric =
        fabric_of("host h[1-8]\nleaf l[1-2]\nspine s[1-2]\ncore c[1-2]\n"
                  "link h[1-8] l[1-2] 100MB block\nlink l1 s1 10MB x4\n"
                  "link l2 s2 10MB x4\nlink s[1-2] c[1-2] 10MB\n");
    mrail_sim_params_t params = params_of(MRAIL_SIM_SPRAY, 8, 1);
    outcome_t spray = run(fabric, "alltoall", 8 * MB, &params);
    unsigned num_equal = 0;

    for (uint64_t seed = 1; seed <= 20; ++seed) {
        double time_s;

        params = params_of(MRAIL_SIM_ETHEREAL, 8, seed);
        ASSERT_NEAR(run(fabric, "alltoall", 8 * MB, &params).time_s,
                    spray.time_s, 1e-9);
        params.method = MRAIL_SIM_DNLB;
        time_s = run(fabric, "alltoall", 8 * MB, &params).time_s;
        assert_true(time_s < spray.time_s * 1.25);
        num_equal += (time_s < spray.time_s * (1 + 1e-9));
    }
    assert_true(num_equal >= 10);
    mrail_fabric_destroy(fabric);
}

/* If a link from a spine to a leaf fails, rules that drop leave its segment
 * without a path. The lanes of other segments carry the bytes, and the uplink
 * of the segment stays idle. Rules that fall through keep using this uplink. */
static void test_failed_downlink(void **state)
{
    mrail_fabric_t *fabric = fabric_of("host h[1-16]\nleaf l[1-2]\nspine s\n"
                                       "link h[1-16] l[1-2] 100MB block\n"
                                       "link l[1-2] s 100MB x8\n");
    uint32_t uplink = fabric->nodes[mrail_fabric_node_find(fabric, "l1")].up[0];
    static const struct {
        mrail_sim_method_t method;
        int drop, is_idle;
    } cases[] = {{MRAIL_SIM_DNLB, 1, 1},
                 {MRAIL_SIM_DNLB, 0, 0},
                 {MRAIL_SIM_ETHEREAL, 0, 1}};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(cases); ++i) {
        mrail_sim_params_t params = params_of(cases[i].method, 8, 1);
        size_t links = 2 * (size_t)fabric->num_links;
        mrail_sim_result_t result = {
            .link_bytes = calloc(links, sizeof(double)),
            .after_bytes = calloc(links, sizeof(double))};
        mrail_sim_message_t messages[8];
        double sum = 0;

        params.drop = cases[i].drop;
        params.failed_link =
            fabric->nodes[mrail_fabric_node_find(fabric, "l2")].up[0];
        params.failure_s = 0.1;
        for (uint32_t m = 0; m < 8; ++m) {
            messages[m] =
                (mrail_sim_message_t){.from = m, .to = m + 8, .bytes = 64 * MB};
        }
        assert_int_equal(mrail_sim_run(fabric, &params, messages, 8, &result),
                         0);
        for (uint32_t m = 0; m < 8; ++m) {
            sum += result.link_bytes[MRAIL_ROUTE_DOWN(m + 8)];
        }
        ASSERT_NEAR(sum, 8 * 64 * MB, 1e-9);
        assert_int_equal(result.after_bytes[MRAIL_ROUTE_UP(uplink)] == 0,
                         cases[i].is_idle);
        assert_true(result.after_bytes[MRAIL_ROUTE_DOWN(params.failed_link)] ==
                    0);
        free(result.link_bytes);
        free(result.after_bytes);
    }
    mrail_fabric_destroy(fabric);
}

/* [Ethereal] 3.3: if an uplink fails, only its flows move, each to a random
 * good path. The exchange lasts at least as long as with an equal load on the
 * other uplinks, and at most as long as if all flows had moved to one
 * uplink. */
static void test_ethereal_failed_uplink(void **state)
{
    mrail_fabric_t *fabric = leaf_spine(2, 8, 16);
    mrail_sim_params_t params = params_of(MRAIL_SIM_ETHEREAL, 1, 0);
    double least_s = INFINITY, most_s = 0;

    params.failed_link =
        fabric->nodes[mrail_fabric_node_find(fabric, "l1")].up[5];
    params.failure_s = 0.1;
    for (params.seed = 1; params.seed <= 20; ++params.seed) {
        outcome_t outcome = run(fabric, "shift:8", 64 * MB, &params);
        outcome_t again = run(fabric, "shift:8", 64 * MB, &params);
        double rest_s = outcome.time_s - 0.1;

        ASSERT_NEAR(outcome.sum_bytes, 16 * 64 * MB, 1e-9);
        assert_int_equal(outcome.num_flows, 16 * 8);
        assert_int_equal(outcome.after.num, 7);
        /* Each of the 8 hosts of the leaf has 54 MB left. */
        ASSERT_NEAR(outcome.after.mean * 7 * rest_s, 8 * 0.54, 1e-9);
        assert_true(rest_s >= 0.54 * 8 / 7 && rest_s <= 0.54 * 2 * (1 + 1e-9));
        assert_true(outcome.after.least * rest_s >= 0.54 * (1 - 1e-9));
        assert_memory_equal(&outcome, &again, sizeof(outcome));
        least_s = MRAIL_MIN(least_s, outcome.time_s);
        most_s = MRAIL_MAX(most_s, outcome.time_s);
    }
    assert_true(most_s > least_s);
    mrail_fabric_destroy(fabric);
}

/* [Ethereal] 3.3: later flows avoid a bad path until its timer expires. A retry
 * while the uplink is still down marks the path as bad again. */
static void test_ethereal_path_states(void **state)
{
    static const struct {
        mrail_ns_t start_ns;
        uint32_t paths; /* over which each message is split */
    } phases[] = {{1000, 8}, {1001, 7}, {1999, 7}, {2000, 8}, {2999, 7}};
    mrail_fabric_t *fabric = leaf_spine(2, 8, 16);
    mrail_sim_params_t params = params_of(MRAIL_SIM_ETHEREAL, 1, 1);

    params.failed_link =
        fabric->nodes[mrail_fabric_node_find(fabric, "l1")].up[5];
    params.retry_ns = 1000;
    params.paths = mrail_sim_paths_create(fabric);
    assert_non_null(params.paths);
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(phases); ++i) {
        outcome_t outcome;

        params.start_ns = phases[i].start_ns;
        outcome = run(fabric, "shift:8", 64 * MB, &params);
        assert_int_equal(outcome.num_flows, 16 * phases[i].paths);
        ASSERT_NEAR(outcome.sum_bytes, 16 * 64 * MB, 1e-9);
        if (phases[i].paths == 7) {
            /* The other uplinks carry the same load. */
            ASSERT_NEAR(outcome.time_s, 0.64 * 8 / 7, 1e-9);
            assert_true(outcome.after.cv < 1e-6);
        } else {
            assert_true(outcome.after.cv > 0.01);
        }
    }
    mrail_sim_paths_destroy(params.paths);
    mrail_fabric_destroy(fabric);
}

/* Host a sends to b and c, one message on each uplink. The seed decides which
 * of them uses the first uplink, which fails before either message has ended.
 * The link of c is slower, so that uplink has then carried less for c. */
static void test_ethereal_order(void **state)
{
    mrail_fabric_t *fabric =
        fabric_of("host a b c\nleaf l m\nspine s[1-2]\nlink a l 200MB\n"
                  "link b m 100MB\nlink c m 50MB\nlink l,m s[1-2] 200MB\n");
    mrail_sim_message_t messages[] = {{.from = 0, .to = 1, .bytes = 10 * MB},
                                      {.from = 0, .to = 2, .bytes = 10 * MB}};
    mrail_sim_params_t params = params_of(MRAIL_SIM_ETHEREAL, 1, 0);
    unsigned num_b = 0, num_c = 0;

    params.failed_link =
        fabric->nodes[mrail_fabric_node_find(fabric, "l")].up[0];
    params.failure_s = 0.05;
    for (params.seed = 1; params.seed <= 40; ++params.seed) {
        double bytes[2];

        for (unsigned i = 0; i < 2; ++i) {
            mrail_sim_result_t result = {
                .link_bytes =
                    calloc(2 * (size_t)fabric->num_links, sizeof(double))};

            assert_int_equal(
                mrail_sim_run(fabric, &params, messages, 2, &result), 0);
            bytes[i] = result.link_bytes[MRAIL_ROUTE_UP(params.failed_link)];
            free(result.link_bytes);
        }
        assert_true(bytes[0] == bytes[1]);
        num_b += (fabs(bytes[0] - 5 * MB) < 1);
        num_c += (fabs(bytes[0] - 2.5 * MB) < 1);
    }
    assert_int_equal(num_b + num_c, 40);
    assert_true(num_b >= 10 && num_c >= 10);
    mrail_fabric_destroy(fabric);
}

/* A message to another leaf starts within the interval, at a time that depends
 * on the seed. A message below one leaf starts immediately. */
static void test_ethereal_starts(void **state)
{
    mrail_fabric_t *fabric = leaf_spine(2, 1, 4);
    mrail_sim_params_t params = params_of(MRAIL_SIM_ETHEREAL, 1, 0);
    double least_s = INFINITY, most_s = 0;

    params.stagger_ns = 1000000;
    for (params.seed = 1; params.seed <= 20; ++params.seed) {
        outcome_t far = run(fabric, "ring@1-2", 10 * MB, &params);

        least_s = MRAIL_MIN(least_s, far.time_s);
        most_s = MRAIL_MAX(most_s, far.time_s);
        ASSERT_NEAR(run(fabric, "ring@0-1", 10 * MB, &params).time_s, 0.1,
                    1e-12);
    }
    assert_true(least_s >= 0.1 && most_s <= 0.1011);
    assert_true(most_s - least_s > 1e-4);
    mrail_fabric_destroy(fabric);
}

/* [ParaLet] 4.1: n hosts of a leaf choose among n uplinks for each of m flows.
 * The load of the fullest uplink is that of the fullest bin when balls are
 * thrown into bins. One leaf sends to as many leaves as it has hosts, so no
 * other link is full. */
static void test_slowdown_is_balls_in_bins(void **state)
{
    enum { N = 16, SEEDS = 400 };
    static const unsigned lanes[] = {1, 4, 16};
    mrail_fabric_t *fabric = leaf_spine(N + 1, N, N * (N + 1));
    mrail_sim_message_t messages[N];

    for (unsigned i = 0; i < N; ++i) {
        messages[i] =
            (mrail_sim_message_t){.from = i, .to = (i + 1) * N, .bytes = MB};
    }
    for (unsigned l = 0; l < MRAIL_ARRAY_SIZE(lanes); ++l) {
        double sum = 0;

        for (unsigned seed = 0; seed < SEEDS; ++seed) {
            mrail_sim_params_t params =
                params_of(MRAIL_SIM_MPRDMA, lanes[l], seed);
            mrail_sim_result_t result = {
                .link_bytes =
                    calloc(2 * (size_t)fabric->num_links, sizeof(double))};

            assert_int_equal(
                mrail_sim_run(fabric, &params, messages, N, &result), 0);
            sum += mrail_sim_uplinks(fabric, 0, result.link_bytes, MB / 1e8,
                                     MRAIL_FABRIC_NONE)
                       .most;
            free(result.link_bytes);
        }
        ASSERT_NEAR(sum / SEEDS, mrail_flowlets_slowdown_exact(N, lanes[l]),
                    0.02);
    }
    mrail_fabric_destroy(fabric);
}

static void test_same_seed_same_result(void **state)
{
    mrail_fabric_t *fabric = leaf_spine(4, 4, 32);

    for (unsigned m = 0; m < MRAIL_SIM_NUM_METHODS; ++m) {
        mrail_sim_params_t params = params_of((mrail_sim_method_t)m, 3, 11);
        outcome_t first = run(fabric, "alltoall", 9 * MB, &params);
        outcome_t second = run(fabric, "alltoall", 9 * MB, &params);

        assert_memory_equal(&first.time_s, &second.time_s, sizeof(double));
        assert_memory_equal(&first.load.cv, &second.load.cv, sizeof(double));
        assert_true(first.time_s >= first.bound_s * (1 - 1e-9));
    }
    mrail_fabric_destroy(fabric);
}

/* ---- Patterns ---- */

static void test_patterns(void **state)
{
    static const struct {
        const char *text;
        uint32_t num;
        uint32_t from, to; /* ends of the first message, as host indices */
    } cases[] = {{"ring", 8, 0, 1},        {"shift:3", 8, 0, 3},
                 {"alltoall", 56, 0, 1},   {"doubling", 8, 0, 1},
                 {"ring@odd", 4, 1, 3},    {"alltoall@4-6", 6, 4, 5},
                 {"hotspot:0.5", 56, 0, 1}};
    mrail_fabric_t *fabric = leaf_spine(2, 2, 8);

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(cases); ++i) {
        uint32_t num;
        mrail_sim_message_t *messages =
            messages_of(fabric, cases[i].text, 7000, &num);
        double sent[8] = {0};

        assert_int_equal(num, cases[i].num);
        assert_int_equal(messages[0].from, cases[i].from);
        assert_int_equal(messages[0].to, cases[i].to);
        for (uint32_t m = 0; m < num; ++m) {
            assert_int_not_equal(messages[m].from, messages[m].to);
            sent[messages[m].from] += messages[m].bytes;
        }
        for (unsigned h = 0; h < 8; ++h) {
            if (sent[h] != 0) {
                ASSERT_NEAR(sent[h], 7000, 1e-9);
            }
        }
        free(messages);
    }
    mrail_fabric_destroy(fabric);
}

/* Each of the two rails carries half of each message. */
static void test_rails(void **state)
{
    mrail_fabric_t *fabric = fabric_of("host h[1-4]\nleaf l[1-2]\n"
                                       "link h[1-4] l1 100MB\n"
                                       "link h[1-4] l2 100MB\n");
    uint32_t num;
    mrail_sim_message_t *messages = messages_of(fabric, "ring", 10, &num);

    assert_int_equal(num, 8);
    for (uint32_t m = 0; m < num; ++m) {
        assert_true(messages[m].bytes == 5);
        assert_int_equal(fabric->links[messages[m].from].upper,
                         fabric->links[messages[m].to].upper);
    }
    free(messages);
    mrail_fabric_destroy(fabric);
}

static void test_wrong_patterns(void **state)
{
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"broadcast", "'broadcast' is not a pattern; expected "},
        {"", "'' is not a pattern; expected "},
        {"ring:2", "ring takes no argument"},
        {"shift", "shift needs an argument: "},
        {"shift:0", "shift:0: expected a number of hosts"},
        {"shift:12", "shift:12 with 12 hosts: each host would send to itself"},
        {"hotspot:2", "hotspot:2: expected a fraction"},
        {"doubling",
         "doubling with 12 hosts: the number must be a power of two"},
        {"ring@3-3", "ring with 1 hosts: an exchange needs at least two"},
        {"ring@5-20", "'@5-20' selects no hosts; "},
        {"ring@x", "'@x' selects no hosts; "},
    };
    mrail_fabric_t *fabric = leaf_spine(2, 2, 12);

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(cases); ++i) {
        mrail_pattern_t pattern;
        char reason[256] = "";

        assert_int_equal(mrail_pattern_parse(cases[i].text, fabric, &pattern,
                                             reason, sizeof(reason)),
                         -EINVAL);
        if (strncmp(reason, cases[i].reason, strlen(cases[i].reason)) != 0) {
            fail_msg("'%s': '%s'", cases[i].text, reason);
        }
    }
    mrail_fabric_destroy(fabric);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_incast),
        cmocka_unit_test(test_rack_local),
        cmocka_unit_test(test_stock_ports_collide),
        cmocka_unit_test(test_ethereal_is_spraying),
        cmocka_unit_test(test_dnlb_loads_equally),
        cmocka_unit_test(test_failed_uplink),
        cmocka_unit_test(test_failed_downlink),
        cmocka_unit_test(test_parallel_links_below_cores),
        cmocka_unit_test(test_ethereal_failed_uplink),
        cmocka_unit_test(test_ethereal_path_states),
        cmocka_unit_test(test_ethereal_order),
        cmocka_unit_test(test_ethereal_starts),
        cmocka_unit_test(test_slowdown_is_balls_in_bins),
        cmocka_unit_test(test_same_seed_same_result),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_rails),
        cmocka_unit_test(test_wrong_patterns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
