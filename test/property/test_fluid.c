/*
 * Tests src/fabric/fluid.c and route.c over seeds: max-min fair rates, and
 * routes. Rates are compared with the definition, and with a solver that raises
 * all rates in small exact steps. Routes are compared with the fabric.
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

#include "base/rng.h"
#include "base/util.h"
#include "fabric/fluid.h"
#include "fabric/route.h"
#include "orchestrator/ports.h"

#define MAX_FLOWS 12
#define MAX_LINKS 8

static uint64_t num_seeds(uint64_t otherwise)
{
    const char *text = getenv("MRAIL_TEST_SEEDS");

    return (text != NULL) ? strtoull(text, NULL, 10) : otherwise;
}

/* ---- Rates ---- */

typedef struct network {
    unsigned num_links, num_flows;
    double capacity[MAX_LINKS];
    unsigned num[MAX_FLOWS];
    uint32_t links[MAX_FLOWS][MRAIL_FLUID_MAX_HOPS];
    double bytes[MAX_FLOWS], start_s[MAX_FLOWS];
} network_t;

static void draw_network(network_t *net, mrail_rng_t *rng)
{
    net->num_links = 1 + mrail_rng_below(rng, MAX_LINKS);
    net->num_flows = 1 + mrail_rng_below(rng, MAX_FLOWS);
    for (unsigned l = 0; l < net->num_links; ++l) {
        net->capacity[l] = 1 + mrail_rng_below(rng, 20);
    }
    for (unsigned f = 0; f < net->num_flows; ++f) {
        uint32_t used = 0;

        net->num[f] = 1 + mrail_rng_below(rng, MRAIL_MIN(net->num_links, 5u));
        for (unsigned i = 0; i < net->num[f]; ++i) {
            uint32_t link;

            do {
                link = mrail_rng_below(rng, net->num_links);
            } while ((used >> link) & 1);
            used |= 1u << link;
            net->links[f][i] = link;
        }
        net->bytes[f] = 1 + mrail_rng_below(rng, 100);
        net->start_s[f] = 0;
    }
}

/* Generates start times, some of which are equal or 0. */
static void draw_starts(network_t *net, mrail_rng_t *rng)
{
    for (unsigned f = 0; f < net->num_flows; ++f) {
        net->start_s[f] = mrail_rng_below(rng, 20) / 2.;
    }
}

static mrail_fluid_t *build(const network_t *net)
{
    mrail_fluid_t *fluid = mrail_fluid_create(net->num_links, net->capacity);

    assert_non_null(fluid);
    for (unsigned f = 0; f < net->num_flows; ++f) {
        assert_int_equal(mrail_fluid_group_add(fluid, net->bytes[f]), f);
        mrail_fluid_group_start(fluid, net->start_s[f]);
        assert_int_equal(
            mrail_fluid_flow_add(fluid, net->links[f], net->num[f]), 0);
    }
    return fluid;
}

/* Raises the rates of all flows that are not fixed, in lockstep, until the next
 * link is full. The function uses neither an order of links nor a heap, so it
 * is independent of the code under test. */
static void solve(const network_t *net, const int *is_there, double *rate)
{
    int is_free[MAX_FLOWS];
    unsigned left = 0;

    for (unsigned f = 0; f < net->num_flows; ++f) {
        rate[f] = 0;
        is_free[f] = is_there[f];
        left += (unsigned)is_there[f];
    }
    while (left != 0) {
        double step = INFINITY, used[MAX_LINKS] = {0};
        unsigned free_on[MAX_LINKS] = {0};

        for (unsigned f = 0; f < net->num_flows; ++f) {
            for (unsigned i = 0; i < net->num[f]; ++i) {
                used[net->links[f][i]] += rate[f];
                free_on[net->links[f][i]] += (unsigned)is_free[f];
            }
        }
        for (unsigned l = 0; l < net->num_links; ++l) {
            if (free_on[l] != 0) {
                step = fmin(step, (net->capacity[l] - used[l]) / free_on[l]);
            }
        }
        for (unsigned f = 0; f < net->num_flows; ++f) {
            rate[f] += is_free[f] ? step : 0;
        }
        for (unsigned f = 0; f < net->num_flows; ++f) {
            for (unsigned i = 0; i < net->num[f] && is_free[f]; ++i) {
                uint32_t l = net->links[f][i];

                if (used[l] + step * free_on[l] >= net->capacity[l] - 1e-9) {
                    is_free[f] = 0;
                    --left;
                }
            }
        }
    }
}

/* Runs the exchange with that solver, and computes when each flow ends. */
static void simulate(const network_t *net, double *end_s)
{
    double left[MAX_FLOWS], rate[MAX_FLOWS], now_s = 0;
    int is_there[MAX_FLOWS];
    unsigned num = net->num_flows;

    for (unsigned f = 0; f < net->num_flows; ++f) {
        left[f] = net->bytes[f];
        is_there[f] = 0;
    }
    while (num != 0) {
        double dt_s = INFINITY;

        for (unsigned f = 0; f < net->num_flows; ++f) {
            double wait_s = net->start_s[f] - now_s;

            if (left[f] > 0 && wait_s <= 1e-12) {
                is_there[f] = 1;
            } else if (left[f] > 0) {
                dt_s = fmin(dt_s, wait_s);
            }
        }
        solve(net, is_there, rate);
        for (unsigned f = 0; f < net->num_flows; ++f) {
            dt_s = is_there[f] ? fmin(dt_s, left[f] / rate[f]) : dt_s;
        }
        now_s += dt_s;
        for (unsigned f = 0; f < net->num_flows; ++f) {
            left[f] -= is_there[f] ? rate[f] * dt_s : 0;
            if (is_there[f] && left[f] <= 1e-9 * net->bytes[f]) {
                is_there[f] = 0;
                left[f] = 0;
                end_s[f] = now_s;
                --num;
            }
        }
    }
}

static void check_near(uint64_t seed, const char *what, double got, double want)
{
    if (!(fabs(got - want) <= 1e-6 * fmax(fabs(want), 1e-3))) {
        fail_msg("seed %llu, %s: %.12g, not %.12g", (unsigned long long)seed,
                 what, got, want);
    }
}

static void test_rates_of_random_networks(void **state)
{
    for (uint64_t seed = 0; seed < num_seeds(3000); ++seed) {
        double rate[MAX_FLOWS];
        int is_there[MAX_FLOWS];
        network_t net;
        mrail_fluid_t *fluid;
        mrail_rng_t rng;

        mrail_rng_init(&rng, seed);
        draw_network(&net, &rng);
        for (unsigned f = 0; f < MAX_FLOWS; ++f) {
            is_there[f] = 1;
        }
        solve(&net, is_there, rate);
        fluid = build(&net);
        /* The run is shorter than any flow, so it shows the initial rates. */
        assert_int_equal(mrail_fluid_run(fluid, 1e-6, 0), 0);
        for (unsigned f = 0; f < net.num_flows; ++f) {
            check_near(seed, "rate", mrail_fluid_rate(fluid, f), rate[f]);
        }
        mrail_fluid_destroy(fluid);
    }
}

static void test_ends_of_random_networks(void **state)
{
    for (uint64_t seed = 0; seed < num_seeds(3000); ++seed) {
        double end_s[MAX_FLOWS], carried[MAX_LINKS] = {0};
        network_t net;
        mrail_fluid_t *fluid;
        mrail_rng_t rng;

        mrail_rng_init(&rng, seed);
        draw_network(&net, &rng);
        if (seed % 2 == 1) {
            draw_starts(&net, &rng);
        }
        simulate(&net, end_s);
        fluid = build(&net);
        assert_int_equal(mrail_fluid_run(fluid, INFINITY, 0), 0);
        assert_int_equal(mrail_fluid_num_left(fluid), 0);
        for (unsigned f = 0; f < net.num_flows; ++f) {
            check_near(seed, "end", mrail_fluid_end(fluid, f), end_s[f]);
            for (unsigned i = 0; i < net.num[f]; ++i) {
                carried[net.links[f][i]] += net.bytes[f];
            }
        }
        /* No byte is lost or duplicated, and no link exceeds its capacity. */
        for (unsigned l = 0; l < net.num_links; ++l) {
            check_near(seed, "bytes", mrail_fluid_link_bytes(fluid, l),
                       carried[l]);
            assert_true(carried[l] <= net.capacity[l] *
                                          mrail_fluid_makespan(fluid) *
                                          (1 + 1e-9));
        }
        mrail_fluid_destroy(fluid);
    }
}

/* If rates change only once per quantum, a group may end later by at most one
 * quantum for each group, and may start half a quantum early or late. */
static void test_quantum(void **state)
{
    for (uint64_t seed = 0; seed < num_seeds(1000); ++seed) {
        mrail_fluid_t *exact, *coarse;
        network_t net;
        mrail_rng_t rng;
        double makespan_s, quantum_s;

        mrail_rng_init(&rng, seed);
        draw_network(&net, &rng);
        if (seed % 2 == 1) {
            draw_starts(&net, &rng);
        }
        exact = build(&net);
        coarse = build(&net);
        assert_int_equal(mrail_fluid_run(exact, INFINITY, 0), 0);
        makespan_s = mrail_fluid_makespan(exact);
        quantum_s = makespan_s / 500;
        assert_int_equal(mrail_fluid_run(coarse, INFINITY, quantum_s), 0);
        assert_true(mrail_fluid_makespan(coarse) <=
                    makespan_s + 1.5 * MAX_FLOWS * quantum_s);
        assert_true(mrail_fluid_makespan(coarse) >=
                    makespan_s - MAX_FLOWS * quantum_s);
        for (unsigned l = 0; l < net.num_links; ++l) {
            check_near(seed, "bytes", mrail_fluid_link_bytes(coarse, l),
                       mrail_fluid_link_bytes(exact, l));
        }
        mrail_fluid_destroy(exact);
        mrail_fluid_destroy(coarse);
    }
}

/* Both lanes of a message take bytes from the same supply, so the message ends
 * when together they have carried all of its bytes. */
static void test_lanes_pull(void **state)
{
    static const double capacity[3] = {10, 30, 100};
    static const uint32_t slow[2] = {2, 0}, fast[2] = {2, 1};
    mrail_fluid_t *fluid = mrail_fluid_create(3, capacity);

    assert_int_equal(mrail_fluid_group_add(fluid, 80), 0);
    assert_int_equal(mrail_fluid_flow_add(fluid, slow, 2), 0);
    assert_int_equal(mrail_fluid_flow_add(fluid, fast, 2), 0);
    assert_int_equal(mrail_fluid_run(fluid, INFINITY, 0), 0);
    check_near(0, "end", mrail_fluid_makespan(fluid), 2);
    check_near(0, "slow lane", mrail_fluid_link_bytes(fluid, 0), 20);
    check_near(0, "fast lane", mrail_fluid_link_bytes(fluid, 1), 60);
    mrail_fluid_destroy(fluid);
}

static void test_refused(void **state)
{
    static const double capacity[1] = {1};
    mrail_fluid_t *fluid = mrail_fluid_create(1, capacity);

    assert_int_equal(mrail_fluid_group_add(fluid, 1), 0);
    assert_int_equal(mrail_fluid_run(fluid, INFINITY, 0), -EDEADLK);
    mrail_fluid_destroy(fluid);
}

/* ---- Routes ---- */

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

static const char leaf_spine[] = "host h[1-8]\nleaf l[1-2]\nspine s[1-2]\n"
                                 "link h[1-8] l[1-2] 1MB block\n"
                                 "link l[1-2] s[1-2] 1MB x4\n";

static const char fat_tree[] = "host h[1-16]\nleaf l[1-2],x[1-2]\n"
                               "spine s[1-4]\ncore c[1-3]\n"
                               "link h[1-16] l[1-2],x[1-2] 1MB block\n"
                               "link l[1-2] s[1-2] 1MB x2\n"
                               "link x[1-2] s[3-4] 1MB x2\n"
                               "link s[1-4] c[1-3] 1MB\n";

/* Checks that consecutive links share a node, and that the path goes up, and
 * then down to the destination. */
static void check_path(const mrail_fabric_t *fabric, uint32_t from, uint32_t to,
                       const mrail_route_t *route)
{
    uint32_t node = fabric->links[from].lower;
    int is_down = 0;

    for (unsigned i = 0; i < route->num; ++i) {
        const mrail_fabric_link_t *link = &fabric->links[route->links[i] / 2];

        if (route->links[i] & 1) {
            is_down = 1;
            assert_int_equal(link->upper, node);
            node = link->lower;
        } else {
            assert_false(is_down);
            assert_int_equal(link->lower, node);
            node = link->upper;
        }
    }
    assert_int_equal(node, fabric->links[to].lower);
    assert_int_equal(route->links[0], MRAIL_ROUTE_UP(from));
    assert_int_equal(route->links[route->num - 1], MRAIL_ROUTE_DOWN(to));
}

static void check_routes(const char *text, mrail_route_mode_t mode,
                         uint64_t seed)
{
    mrail_fabric_t *fabric = fabric_of(text);
    mrail_router_t *router = mrail_router_create(fabric, mode, seed);
    uint32_t hosts = fabric->num_of[MRAIL_FABRIC_HOST];
    mrail_rng_t rng;

    mrail_rng_init(&rng, seed);
    for (unsigned i = 0; i < 300; ++i) {
        uint32_t a = mrail_rng_below(&rng, hosts);
        uint32_t b = (a + 1 + mrail_rng_below(&rng, hosts - 1)) % hosts;
        uint32_t from = fabric->nodes[fabric->of[MRAIL_FABRIC_HOST][a]].up[0];
        uint32_t to = fabric->nodes[fabric->of[MRAIL_FABRIC_HOST][b]].up[0];
        uint16_t sport = (uint16_t)(0xC000 + mrail_rng_below(&rng, 0x4000));
        mrail_route_t route, again;

        assert_int_equal(mrail_route_find(router, from, to, sport, &route), 0);
        check_path(fabric, from, to, &route);
        assert_int_equal(mrail_route_find(router, from, to, sport, &again), 0);
        assert_memory_equal(&route, &again, sizeof(route.num));
        for (unsigned l = 0; l < route.num; ++l) {
            assert_int_equal(route.links[l], again.links[l]);
        }
        if (mode != MRAIL_ROUTE_ECMP && route.num > 2) {
            const mrail_fabric_link_t *up = &fabric->links[route.links[1] / 2];
            const mrail_fabric_node_t *leaf = &fabric->nodes[up->lower];
            unsigned segment, inner;

            assert_int_equal(up->lower_port,
                             mrail_ports_segment_of(leaf->num_up, sport));
            if (route.num == 6) {
                const mrail_fabric_link_t *core =
                    &fabric->links[route.links[2] / 2];

                mrail_ports_segment_of_nested(leaf->num_up,
                                              fabric->nodes[core->lower].num_up,
                                              sport, &segment, &inner);
                assert_int_equal(core->lower_port, inner);
            }
        }
    }
    mrail_router_destroy(router);
    mrail_fabric_destroy(fabric);
}

static void test_routes(void **state)
{
    for (uint64_t seed = 0; seed < 20; ++seed) {
        check_routes(leaf_spine, MRAIL_ROUTE_ECMP, seed);
        check_routes(leaf_spine, MRAIL_ROUTE_RULES, seed);
        check_routes(fat_tree, MRAIL_ROUTE_ECMP, seed);
        check_routes(fat_tree, MRAIL_ROUTE_RULES_DROP, seed);
    }
}

/* Traffic on uplink k comes down on parallel link k, as with spine VRFs. */
static void test_spine_pairs(void **state)
{
    mrail_fabric_t *fabric = fabric_of(leaf_spine);
    mrail_router_t *router = mrail_router_create(fabric, MRAIL_ROUTE_RULES, 1);

    for (unsigned n = 0; n < 8; ++n) {
        mrail_route_t route;
        uint16_t first, last;

        mrail_ports_segment(8, n, &first, &last);
        assert_int_equal(mrail_route_find(router, 0, 7, last, &route), 0);
        assert_int_equal(route.num, 4);
        assert_int_equal(fabric->links[route.links[1] / 2].lower_port, n);
        assert_int_equal(fabric->links[route.links[2] / 2].lower_port, n);
    }
    mrail_router_destroy(router);
    mrail_fabric_destroy(fabric);
}

/* One uplink has failed, with ECMP, fall-through and drop. */
static void test_failed_uplink(void **state)
{
    mrail_fabric_t *fabric = fabric_of(leaf_spine);
    uint32_t failed = fabric->nodes[mrail_fabric_node_find(fabric, "l1")].up[3];
    uint16_t first, last;

    mrail_ports_segment(8, 3, &first, &last);
    for (unsigned mode = MRAIL_ROUTE_ECMP; mode <= MRAIL_ROUTE_RULES_DROP;
         ++mode) {
        mrail_router_t *router =
            mrail_router_create(fabric, (mrail_route_mode_t)mode, 5);
        mrail_route_t route;
        int ret;

        mrail_router_link(router, failed, 0);
        ret = mrail_route_find(router, 0, 7, first, &route);
        assert_int_equal(ret,
                         (mode == MRAIL_ROUTE_RULES_DROP) ? -EHOSTUNREACH : 0);
        if (ret == 0) {
            check_path(fabric, 0, 7, &route);
            assert_int_not_equal(route.links[1] / 2, failed);
        }
        /* Other segments and the path inside the rack do not use the uplink, so
         * they are unchanged. */
        assert_int_equal(mrail_route_find(router, 0, 7, 0xC000, &route), 0);
        assert_int_equal(mrail_route_find(router, 0, 1, first, &route), 0);
        mrail_router_link(router, failed, 1);
        assert_int_equal(mrail_route_find(router, 0, 7, first, &route), 0);
        mrail_router_link(router, 7, 0);
        assert_int_equal(mrail_route_find(router, 0, 7, first, &route),
                         -EHOSTUNREACH);
        mrail_router_destroy(router);
    }
    mrail_fabric_destroy(fabric);
}

/* A downward link has failed on its parallel segment. Rules that drop leave the
 * segment without a path, as a blackhole in the VRF does. The others use one of
 * the links that are up. */
static void test_failed_downlink(void **state)
{
    mrail_fabric_t *fabric = fabric_of(leaf_spine);
    uint32_t failed = fabric->nodes[mrail_fabric_node_find(fabric, "l2")].up[3];

    for (unsigned mode = MRAIL_ROUTE_ECMP; mode <= MRAIL_ROUTE_RULES_DROP;
         ++mode) {
        mrail_router_t *router =
            mrail_router_create(fabric, (mrail_route_mode_t)mode, 5);

        mrail_router_link(router, failed, 0);
        for (unsigned n = 0; n < 8; ++n) {
            int is_lost = mode == MRAIL_ROUTE_RULES_DROP && n == 3;
            mrail_route_t route;
            uint16_t first, last;

            mrail_ports_segment(8, n, &first, &last);
            assert_int_equal(mrail_route_find(router, 0, 7, first, &route),
                             is_lost ? -EHOSTUNREACH : 0);
            if (!is_lost) {
                check_path(fabric, 0, 7, &route);
                assert_int_not_equal(route.links[2] / 2, failed);
            }
        }
        mrail_router_destroy(router);
    }
    mrail_fabric_destroy(fabric);
}

/* A spine has four links to one leaf and two to the other. A VRF without a link
 * to the destination drops nothing: the hash chooses. */
static void test_fewer_links_down(void **state)
{
    mrail_fabric_t *fabric =
        fabric_of("host h[1-2]\nleaf l[1-2]\nspine s\n"
                  "link h[1-2] l[1-2] 1MB\nlink l1 s 1MB x4\n"
                  "link l2 s 1MB x2\n");

    for (unsigned mode = MRAIL_ROUTE_RULES; mode <= MRAIL_ROUTE_RULES_DROP;
         ++mode) {
        mrail_router_t *router =
            mrail_router_create(fabric, (mrail_route_mode_t)mode, 5);
        unsigned count[2] = {0};

        for (unsigned i = 0; i < 4096; ++i) {
            uint16_t sport = (uint16_t)(0xC000 + 4 * i);
            unsigned segment = mrail_ports_segment_of(4, sport), place;
            mrail_route_t route;

            assert_int_equal(mrail_route_find(router, 0, 1, sport, &route), 0);
            place = fabric->links[route.links[2] / 2].lower_port;
            if (segment < 2) {
                assert_int_equal(place, segment);
            } else {
                ++count[place];
            }
        }
        assert_true(count[0] > 900 && count[1] > 900);
        mrail_router_destroy(router);
    }
    mrail_fabric_destroy(fabric);
}

/* Counts the links of the last two hops down, by their ports at the lower end,
 * of 4096 source ports that cross a core. The core has links in pairs. */
typedef struct core_counts {
    unsigned spine[2], leaf[4];
} core_counts_t;

static core_counts_t count_core(const mrail_fabric_t *fabric,
                                const mrail_router_t *router)
{
    core_counts_t counts = {.spine = {0}};

    for (unsigned i = 0; i < 4096; ++i) {
        mrail_route_t route;

        assert_int_equal(
            mrail_route_find(router, 0, 1, (uint16_t)(0xC000 + 4 * i), &route),
            0);
        check_path(fabric, 0, 1, &route);
        assert_int_equal(route.num, 6);
        /* The core pairs its links. */
        assert_int_equal(fabric->links[route.links[2] / 2].lower_port,
                         fabric->links[route.links[3] / 2].lower_port);
        ++counts.spine[fabric->links[route.links[3] / 2].lower_port];
        ++counts.leaf[fabric->links[route.links[4] / 2].lower_port];
    }
    return counts;
}

/* Only the switch where a packet turns around pairs links. A spine below a core
 * has no VRF for packets from above, so it hashes them over its parallel links
 * to the leaf, except those that are down. */
static void test_hash_below_core(void **state)
{
    mrail_fabric_t *fabric =
        fabric_of("host h[1-2]\nleaf l[1-2]\nspine s[1-2]\ncore c\n"
                  "link h[1-2] l[1-2] 1MB\nlink l1 s1 1MB x4\n"
                  "link l2 s2 1MB x4\nlink s[1-2] c 1MB x2\n");
    uint32_t failed = fabric->nodes[mrail_fabric_node_find(fabric, "l2")].up[2];

    for (unsigned mode = MRAIL_ROUTE_RULES; mode <= MRAIL_ROUTE_RULES_DROP;
         ++mode) {
        mrail_router_t *router =
            mrail_router_create(fabric, (mrail_route_mode_t)mode, 5);
        core_counts_t counts = count_core(fabric, router);

        assert_int_equal(counts.spine[0], 2048);
        for (unsigned n = 0; n < 4; ++n) {
            /* within 5 standard deviations of equal numbers */
            assert_true(counts.leaf[n] > 1024 - 5 * 28 &&
                        counts.leaf[n] < 1024 + 5 * 28);
        }
        mrail_router_link(router, failed, 0);
        counts = count_core(fabric, router);
        assert_int_equal(counts.leaf[2], 0);
        assert_true(counts.leaf[0] > 1200 && counts.leaf[3] > 1200);
        mrail_router_destroy(router);
    }
    mrail_fabric_destroy(fabric);
}

/* With the source routes of Ethereal, a spine below a core keeps the position
 * of the leaf's uplink among parallel links, in any order of the uplinks. If
 * this link is down, the flow has no path. */
static void test_ethereal_below_core(void **state)
{
    static const char *const links[] = {
        "link l1 s[1-2] 1MB x3\nlink l2 s[3-4] 1MB x3\n",
        "link l1 s[1-2] 1MB\nlink l1 s[1-2] 1MB\nlink l1 s[1-2] 1MB\n"
        "link l2 s[3-4] 1MB\nlink l2 s[3-4] 1MB\nlink l2 s[3-4] 1MB\n"};

    for (unsigned n = 0; n < MRAIL_ARRAY_SIZE(links); ++n) {
        char text[512];
        mrail_fabric_t *fabric;
        mrail_router_t *router;
        uint32_t failed;
        unsigned num_lost = 0;

        snprintf(text, sizeof(text),
                 "host h[1-2]\nleaf l[1-2]\nspine s[1-4]\ncore c[1-2]\n"
                 "link h[1-2] l[1-2] 1MB\n%slink s[1,3] c1 1MB x2\n"
                 "link s[2,4] c2 1MB x2\n",
                 links[n]);
        fabric = fabric_of(text);
        router = mrail_router_create(fabric, MRAIL_ROUTE_ETHEREAL, 5);
        failed = fabric->nodes[mrail_fabric_node_find(fabric, "l2")].up[4];
        for (unsigned i = 0; i < 4096; ++i) {
            uint16_t sport = (uint16_t)(0xC000 + 4 * i);
            mrail_route_t route;
            uint32_t up, down;

            assert_int_equal(mrail_route_find(router, 0, 1, sport, &route), 0);
            check_path(fabric, 0, 1, &route);
            assert_int_equal(route.num, 6);
            up = route.links[1] / 2;
            down = route.links[4] / 2;
            assert_int_equal(fabric->links[up].lower_port,
                             mrail_ports_segment_of(6, sport));
            assert_int_equal(fabric->links[down].lower_port,
                             fabric->links[up].lower_port);
            mrail_router_link(router, failed, 0);
            assert_int_equal(mrail_route_find(router, 0, 1, sport, &route),
                             (down == failed) ? -EHOSTUNREACH : 0);
            num_lost += (down == failed);
            mrail_router_link(router, failed, 1);
        }
        assert_in_range(num_lost, 4096 / 6, 4096 / 6 + 1);
        mrail_router_destroy(router);
        mrail_fabric_destroy(fabric);
    }
}

/* Without parallel links, the hash chooses among the spines of a pod. */
static void test_hash_over_spines(void **state)
{
    mrail_fabric_t *fabric = fabric_of(
        "host h[1-2]\nleaf l[1-2]\nspine s[1-4]\ncore c\n"
        "link h[1-2] l[1-2] 1MB\nlink l1 s[1-2] 1MB\nlink l2 s[3-4] 1MB\n"
        "link s[1-4] c 1MB\n");
    mrail_router_t *router = mrail_router_create(fabric, MRAIL_ROUTE_RULES, 5);
    unsigned count[2] = {0};

    for (unsigned i = 0; i < 4096; ++i) {
        mrail_route_t route;

        assert_int_equal(
            mrail_route_find(router, 0, 1, (uint16_t)(0xC000 + 4 * i), &route),
            0);
        check_path(fabric, 0, 1, &route);
        ++count[fabric->links[route.links[4] / 2].lower_port];
    }
    assert_true(count[0] > 1850 && count[1] > 1850);
    mrail_router_destroy(router);
    mrail_fabric_destroy(fabric);
}

/* ECMP spreads random ports over all uplinks. 8000 ports over 8 uplinks are
 * within 5 standard deviations of equal numbers. */
static void test_hash_spreads(void **state)
{
    mrail_fabric_t *fabric = fabric_of(leaf_spine);
    mrail_router_t *router = mrail_router_create(fabric, MRAIL_ROUTE_ECMP, 9);
    unsigned count[8] = {0};

    for (unsigned i = 0; i < 8000; ++i) {
        mrail_route_t route;

        assert_int_equal(
            mrail_route_find(router, 0, 7, (uint16_t)(0xC000 + 2 * i), &route),
            0);
        ++count[fabric->links[route.links[1] / 2].lower_port];
    }
    for (unsigned n = 0; n < 8; ++n) {
        assert_true(count[n] > 1000 - 5 * 30 && count[n] < 1000 + 5 * 30);
    }
    mrail_router_destroy(router);
    mrail_fabric_destroy(fabric);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates_of_random_networks),
        cmocka_unit_test(test_ends_of_random_networks),
        cmocka_unit_test(test_quantum),
        cmocka_unit_test(test_lanes_pull),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_spine_pairs),
        cmocka_unit_test(test_failed_uplink),
        cmocka_unit_test(test_failed_downlink),
        cmocka_unit_test(test_fewer_links_down),
        cmocka_unit_test(test_hash_below_core),
        cmocka_unit_test(test_ethereal_below_core),
        cmocka_unit_test(test_hash_over_spines),
        cmocka_unit_test(test_hash_spreads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
