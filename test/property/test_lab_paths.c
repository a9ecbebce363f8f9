/*
 * Compares the paths of `mrail simulate` (src/fabric/route.c) with those of
 * `mrail lab`, over random fabrics with failed links. The test interprets the
 * routes and rules that the lab gives its switches (src/tools/lab_route.c), as
 * ip-rule(8), ip-route(8) and nft(8) describe them.
 */
#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/util.h"
#include "fabric/route.h"
#include "tools/lab_command.h"

#define MAX_ROUTES 1024
#define MAX_RULES 128
#define MAX_HOPS 32
#define MAX_WORDS 64
#define MAX_PATHS 4096
#define MAIN 254u
#define NUM_PORTS 16
#define NUM_HASHES 64
/* With at most this many paths, NUM_HASHES seeds use each of them. */
#define MAX_ALL_SEEN 4

static uint64_t num_seeds(uint64_t otherwise)
{
    const char *text = getenv("MRAIL_TEST_SEEDS");

    return (text != NULL) ? strtoull(text, NULL, 10) : otherwise;
}

/* ---- The tables of a switch ---- */

typedef enum route_type { UNICAST, DROPS, THROWS } route_type_t;

typedef struct kernel_route {
    route_type_t type;
    unsigned table, protocol, bits;
    uint32_t net;
    unsigned long metric;
    unsigned num_hops;
    uint32_t hops[MAX_HOPS]; /* directed links */
} kernel_route_t;

typedef struct kernel_rule {
    unsigned priority, table, protocol, bits;
    uint32_t net, mark;
    uint32_t iif; /* directed link; MRAIL_FABRIC_NONE: any */
    int has_mark;
} kernel_rule_t;

typedef struct mark {
    unsigned first, last;
    uint32_t mark;
} mark_t;

typedef struct kernel {
    kernel_route_t routes[MAX_ROUTES];
    kernel_rule_t rules[MAX_RULES];
    mark_t marks[MAX_RULES];
    unsigned num_routes, num_rules, num_marks;
    int is_leaf;
} kernel_t;

/* ---- Commands ---- */

/* Returns the directed link on which packets leave through an interface. */
static uint32_t link_of(const mrail_fabric_node_t *node, const char *interface)
{
    unsigned n;

    if (sscanf(interface, "up%u", &n) == 1 && n < node->num_up) {
        return MRAIL_ROUTE_UP(node->up[n]);
    }
    if (sscanf(interface, "down%u", &n) == 1 && n < node->num_down) {
        return MRAIL_ROUTE_DOWN(node->down[n]);
    }
    if (strcmp(interface, "hosts") == 0) {
        return MRAIL_FABRIC_NONE;
    }
    fail_msg("there is no interface '%s' on %s", interface, node->name);
    return MRAIL_FABRIC_NONE;
}

static void parse_net(const char *text, uint32_t *net_p, unsigned *bits_p)
{
    unsigned a, b, c, d;

    if (strcmp(text, "default") == 0) {
        *net_p = *bits_p = 0;
        return;
    }
    assert_int_equal(sscanf(text, "%u.%u.%u.%u/%u", &a, &b, &c, &d, bits_p), 5);
    *net_p = a << 24 | b << 16 | c << 8 | d;
}

static unsigned parse_table(const char *text)
{
    return (strcmp(text, "main") == 0) ? MAIN
                                       : (unsigned)strtoul(text, NULL, 10);
}

static void flush(kernel_t *kernel, unsigned protocol, int with_routes)
{
    unsigned num = 0;

    for (unsigned i = 0; i < kernel->num_rules; ++i) {
        if (kernel->rules[i].protocol != protocol) {
            kernel->rules[num++] = kernel->rules[i];
        }
    }
    kernel->num_rules = num;
    num = 0;
    for (unsigned i = 0; with_routes && i < kernel->num_routes; ++i) {
        if (kernel->routes[i].protocol != protocol) {
            kernel->routes[num++] = kernel->routes[i];
        }
    }
    kernel->num_routes = with_routes ? num : kernel->num_routes;
}

static void add_route(kernel_t *kernel, const kernel_route_t *route, int adds)
{
    for (unsigned i = 0; i < kernel->num_routes; ++i) {
        kernel_route_t *other = &kernel->routes[i];

        if (other->table == route->table && other->net == route->net &&
            other->bits == route->bits && other->metric == route->metric) {
            assert_false(adds); /* the kernel rejects it: File exists */
            *other = *route;
            return;
        }
    }
    assert_true(kernel->num_routes < MAX_ROUTES);
    kernel->routes[kernel->num_routes++] = *route;
}

static void run_route(kernel_t *kernel, const mrail_fabric_node_t *node,
                      char **words)
{
    kernel_route_t route = {.table = MAIN};
    int adds = strcmp(words[1], "add") == 0;
    unsigned w = 2;

    assert_true(adds || strcmp(words[1], "replace") == 0);
    if (strcmp(words[w], "unreachable") == 0 ||
        strcmp(words[w], "blackhole") == 0) {
        route.type = DROPS;
        ++w;
    } else if (strcmp(words[w], "throw") == 0) {
        route.type = THROWS;
        ++w;
    }
    parse_net(words[w++], &route.net, &route.bits);
    for (; words[w] != NULL; ++w) {
        if (strcmp(words[w], "nexthop") == 0) {
            continue;
        }
        if (strcmp(words[w], "via") == 0) {
            ++w;
        } else if (strcmp(words[w], "dev") == 0) {
            assert_true(route.num_hops < MAX_HOPS);
            route.hops[route.num_hops++] = link_of(node, words[++w]);
        } else if (strcmp(words[w], "table") == 0) {
            route.table = parse_table(words[++w]);
        } else if (strcmp(words[w], "protocol") == 0) {
            route.protocol = (unsigned)strtoul(words[++w], NULL, 10);
        } else if (strcmp(words[w], "metric") == 0) {
            route.metric = strtoul(words[++w], NULL, 10);
        } else {
            fail_msg("route: unknown word '%s'", words[w]);
        }
    }
    assert_true(route.type == UNICAST ? route.num_hops > 0
                                      : route.num_hops == 0);
    add_route(kernel, &route, adds);
}

static void run_rule(kernel_t *kernel, const mrail_fabric_node_t *node,
                     char **words)
{
    kernel_rule_t rule = {.iif = MRAIL_FABRIC_NONE};
    unsigned at;

    if (strcmp(words[1], "flush") == 0) {
        flush(kernel, (unsigned)strtoul(words[3], NULL, 10), 0);
        return;
    }
    assert_string_equal(words[1], "add");
    for (unsigned w = 2; words[w] != NULL; ++w) {
        if (strcmp(words[w], "priority") == 0) {
            rule.priority = (unsigned)strtoul(words[++w], NULL, 10);
        } else if (strcmp(words[w], "iif") == 0) {
            rule.iif = link_of(node, words[++w]) ^ 1; /* the other direction */
        } else if (strcmp(words[w], "fwmark") == 0) {
            rule.mark = (uint32_t)strtoul(words[++w], NULL, 16);
            rule.has_mark = 1;
        } else if (strcmp(words[w], "to") == 0) {
            parse_net(words[++w], &rule.net, &rule.bits);
        } else if (strcmp(words[w], "lookup") == 0) {
            rule.table = parse_table(words[++w]);
        } else if (strcmp(words[w], "protocol") == 0) {
            rule.protocol = (unsigned)strtoul(words[++w], NULL, 10);
        } else {
            fail_msg("rule: unknown word '%s'", words[w]);
        }
    }
    assert_true(kernel->num_rules < MAX_RULES);
    for (at = kernel->num_rules++;
         at > 0 && kernel->rules[at - 1].priority > rule.priority; --at) {
        kernel->rules[at] = kernel->rules[at - 1];
    }
    kernel->rules[at] = rule;
}

static void run_line(kernel_t *kernel, const mrail_fabric_node_t *node,
                     char *line)
{
    char *words[MAX_WORDS + 1] = {NULL};
    unsigned num = 0;
    mark_t mark;

    if (sscanf(line, " udp dport 4791 udp sport %u-%u counter meta mark set %x",
               &mark.first, &mark.last, &mark.mark) == 3) {
        assert_true(kernel->num_marks < MAX_RULES);
        kernel->marks[kernel->num_marks++] = mark;
        return;
    }
    for (char *word = strtok(line, " "); word != NULL;
         word = strtok(NULL, " ")) {
        assert_true(num < MAX_WORDS);
        words[num++] = word;
    }
    if (num > 0 && strcmp(words[0], "route") == 0) {
        run_route(kernel, node, words);
    } else if (num > 0 && strcmp(words[0], "rule") == 0) {
        run_rule(kernel, node, words);
    }
}

static void run_text(kernel_t *kernel, const mrail_fabric_node_t *node,
                     char *text)
{
    while (*text != '\0') {
        char *end = text + strcspn(text, "\n");
        char *next = (*end != '\0') ? end + 1 : end;

        *end = '\0';
        run_line(kernel, node, text);
        text = next;
    }
}

/* ---- The lab ---- */

typedef struct world {
    mrail_fabric_t *fabric;
    lab_t lab;
    kernel_t *kernels; /* by node */
} world_t;

static void apply(world_t *world, uint32_t node,
                  void (*write)(const lab_t *lab, uint32_t node, FILE *stream))
{
    char *text;
    size_t length;
    FILE *stream = open_memstream(&text, &length);

    assert_non_null(stream);
    write(&world->lab, node, stream);
    assert_int_equal(fclose(stream), 0);
    run_text(&world->kernels[node], &world->fabric->nodes[node], text);
    free(text);
}

static void apply_routes(world_t *world)
{
    for (uint32_t i = 0; i < world->fabric->num_nodes; ++i) {
        if (world->fabric->nodes[i].tier != MRAIL_FABRIC_HOST) {
            apply(world, i, lab_routes_write);
        }
    }
}

/* The script begins by removing its earlier rules and routes. */
static void apply_rules(world_t *world, uint32_t node)
{
    flush(&world->kernels[node], 147, 1);
    world->kernels[node].num_marks = 0;
    apply(world, node, lab_rules_write);
}

static void create_world(world_t *world, mrail_fabric_t *fabric,
                         mrail_route_mode_t mode)
{
    world->fabric = fabric;
    world->kernels = calloc(fabric->num_nodes, sizeof(*world->kernels));
    assert_non_null(world->kernels);
    world->lab = (lab_t){.routing = mode};
    lab_init(&world->lab, fabric);
    for (uint32_t i = 0; i < fabric->num_nodes; ++i) {
        world->kernels[i].is_leaf = fabric->nodes[i].tier == MRAIL_FABRIC_LEAF;
    }
    apply_routes(world);
    for (uint32_t i = 0; i < fabric->num_nodes; ++i) {
        apply_rules(world, i);
    }
}

/* The kernel removes the routes of an interface that goes down. */
static void remove_hops(kernel_t *kernel, uint32_t link)
{
    unsigned num = 0;

    for (unsigned i = 0; i < kernel->num_routes; ++i) {
        kernel_route_t *route = &kernel->routes[i];
        unsigned hops = 0;

        for (unsigned h = 0; h < route->num_hops; ++h) {
            if (route->hops[h] / 2 != link) {
                route->hops[hops++] = route->hops[h];
            }
        }
        route->num_hops = hops;
        if (hops > 0 || route->type != UNICAST) {
            kernel->routes[num++] = *route;
        }
    }
    kernel->num_routes = num;
}

/* Changes a link as `mrail lab ctl` does. */
static void change_link(world_t *world, uint32_t link, int is_up)
{
    const mrail_fabric_link_t *l = &world->fabric->links[link];

    mrail_router_link(world->lab.router, link, is_up);
    if (!is_up) {
        remove_hops(&world->kernels[l->lower], link);
        remove_hops(&world->kernels[l->upper], link);
    }
    apply_routes(world);
    if (is_up) {
        apply_rules(world, l->lower);
    }
}

/* ---- Packets ---- */

typedef struct packet {
    uint32_t from, to; /* host links */
    uint32_t dst;
    uint16_t sport;
} packet_t;

static const kernel_route_t *find_route(const kernel_t *kernel, unsigned table,
                                        uint32_t dst)
{
    const kernel_route_t *best = NULL;

    for (unsigned i = 0; i < kernel->num_routes; ++i) {
        const kernel_route_t *route = &kernel->routes[i];

        if (route->table == table &&
            (route->bits == 0 ||
             (route->net ^ dst) >> (32 - route->bits) == 0) &&
            (best == NULL || route->bits > best->bits ||
             (route->bits == best->bits && route->metric < best->metric))) {
            best = route;
        }
    }
    return best;
}

static uint32_t mark_of(const kernel_t *kernel, uint32_t in, uint16_t sport)
{
    for (unsigned i = 0; (in & 1) == 0 && i < kernel->num_marks; ++i) {
        if (sport >= kernel->marks[i].first && sport <= kernel->marks[i].last) {
            return kernel->marks[i].mark;
        }
    }
    return 0;
}

/* Returns the route of a packet that arrives on a directed link, or NULL. */
static const kernel_route_t *look_up(const kernel_t *kernel, uint32_t in,
                                     const packet_t *packet)
{
    uint32_t mark = mark_of(kernel, in, packet->sport);

    for (unsigned i = 0; i <= kernel->num_rules; ++i) {
        static const kernel_rule_t last = {.iif = MRAIL_FABRIC_NONE,
                                           .table = MAIN};
        const kernel_rule_t *rule =
            (i < kernel->num_rules) ? &kernel->rules[i] : &last;
        const kernel_route_t *route;

        if ((rule->iif != MRAIL_FABRIC_NONE && rule->iif != in) ||
            (rule->has_mark && rule->mark != mark) ||
            (rule->bits != 0 &&
             (rule->net ^ packet->dst) >> (32 - rule->bits) != 0)) {
            continue;
        }
        route = find_route(kernel, rule->table, packet->dst);
        if (route != NULL && route->type != THROWS) {
            return (route->type == UNICAST) ? route : NULL;
        }
    }
    return NULL;
}

typedef struct paths {
    unsigned num, num_lost;
    mrail_route_t path[MAX_PATHS];
    uint8_t is_seen[MAX_PATHS];
} paths_t;

/* Finds all paths of a packet through the lab, from the last link of `path`. */
static void explore(const world_t *world, const packet_t *packet,
                    mrail_route_t *path, paths_t *paths)
{
    uint32_t in = path->links[path->num - 1];
    const mrail_fabric_link_t *link = &world->fabric->links[in / 2];
    uint32_t node = (in & 1) ? link->lower : link->upper;
    const kernel_route_t *route;

    if (node == world->fabric->links[packet->to].upper) {
        assert_true(paths->num < MAX_PATHS);
        path->links[path->num] = MRAIL_ROUTE_DOWN(packet->to);
        paths->path[paths->num] = *path;
        paths->path[paths->num++].num = path->num + 1;
        return;
    }
    route = look_up(&world->kernels[node], in, packet);
    if (route == NULL) {
        ++paths->num_lost;
        return;
    }
    for (unsigned h = 0; h < route->num_hops; ++h) {
        assert_true(path->num + 1 < MRAIL_ROUTE_MAX_HOPS);
        path->links[path->num++] = route->hops[h];
        explore(world, packet, path, paths);
        --path->num;
    }
}

static void describe(const world_t *world, const mrail_route_t *route,
                     char *text, size_t size)
{
    size_t length = 0;

    for (unsigned i = 0; i < route->num && length < size; ++i) {
        char name[LAB_LINK_NAME_MAX];

        lab_link_name(&world->lab, route->links[i] / 2, name);
        length += (size_t)snprintf(text + length, size - length, " %s", name);
    }
}

static int same_path(const mrail_route_t *a, const mrail_route_t *b)
{
    return a->num == b->num &&
           memcmp(a->links, b->links, a->num * sizeof(a->links[0])) == 0;
}

static void check_route(const world_t *world, const packet_t *packet,
                        const mrail_route_t *route, paths_t *paths)
{
    char text[512] = "";

    for (unsigned p = 0; p < paths->num; ++p) {
        if (same_path(route, &paths->path[p])) {
            paths->is_seen[p] = 1;
            return;
        }
    }
    describe(world, route, text, sizeof(text));
    fail_msg("port %u: the lab has no path%s", packet->sport, text);
}

/* Compares the lab's paths of a packet with those of the simulation. */
static void check_packet(const world_t *world, mrail_router_t *const *routers,
                         const packet_t *packet)
{
    mrail_route_t start = {.num = 1, .links = {MRAIL_ROUTE_UP(packet->from)}};
    unsigned num_lost = 0;
    paths_t *paths = calloc(1, sizeof(*paths));
    char text[512] = "";

    assert_non_null(paths);
    explore(world, packet, &start, paths);
    for (unsigned i = 0; i < NUM_HASHES; ++i) {
        mrail_route_t route;
        int ret = mrail_route_find(routers[i], packet->from, packet->to,
                                   packet->sport, &route);

        if (ret == 0) {
            check_route(world, packet, &route, paths);
        } else {
            assert_int_equal(ret, -EHOSTUNREACH);
            ++num_lost;
        }
    }
    if (paths->num + paths->num_lost <= MAX_ALL_SEEN) {
        for (unsigned p = 0; p < paths->num; ++p) {
            if (!paths->is_seen[p]) {
                describe(world, &paths->path[p], text, sizeof(text));
                fail_msg("port %u: only the lab has the path%s", packet->sport,
                         text);
            }
        }
        if ((num_lost > 0) != (paths->num_lost > 0)) {
            fail_msg("port %u, h%u to h%u: the lab loses %u of %u paths, the "
                     "simulation %u of %d",
                     packet->sport, packet->from + 1, packet->to + 1,
                     paths->num_lost, paths->num + paths->num_lost, num_lost,
                     NUM_HASHES);
        }
    }
    free(paths);
}

/* ---- Random fabrics ---- */

typedef struct tier {
    const char *name;
    unsigned first, num; /* numbers of the nodes */
} tier_t;

/* Links each lower node to each upper node by up to `parallel` links, which
 * are consecutive or interleaved. */
static void print_links(FILE *stream, tier_t lower, tier_t upper,
                        unsigned parallel, mrail_rng_t *rng)
{
    unsigned turns = (mrail_rng_below(rng, 2) == 0) ? 1 : parallel;
    int is_uneven = mrail_rng_below(rng, 4) == 0;

    for (unsigned t = 0; t < turns; ++t) {
        for (unsigned u = 0; u < upper.num; ++u) {
            for (unsigned l = 0; l < lower.num; ++l) {
                unsigned fewer = is_uneven ? mrail_rng_below(rng, parallel) : 0;

                if (turns == 1 || t == 0 || fewer == 0) {
                    fprintf(stream, "link %s%u %s%u 1MB x%u\n", lower.name,
                            lower.first + l, upper.name, upper.first + u,
                            (turns == 1) ? parallel - fewer : 1);
                }
            }
        }
    }
}

/* Generates a fabric of one pod, or of two pods with cores. Each leaf has a
 * host. */
static mrail_fabric_t *draw_fabric(mrail_rng_t *rng)
{
    unsigned cores = mrail_rng_below(rng, 3), pods = (cores > 0) ? 2 : 1;
    unsigned leaves = 1 + mrail_rng_below(rng, 2) + (pods == 1);
    unsigned spines = 1 + mrail_rng_below(rng, 2);
    unsigned below = 1 + mrail_rng_below(rng, 4);
    unsigned above = 1 + mrail_rng_below(rng, 3);
    mrail_fabric_t *fabric = NULL;
    char *text, reason[256] = "";
    size_t length;
    FILE *stream = open_memstream(&text, &length);

    assert_non_null(stream);
    fprintf(stream, "host h[1-%u]\nleaf l[1-%u]\nspine s[1-%u]\n",
            pods * leaves, pods * leaves, pods * spines);
    fprintf(stream, "link h[1-%u] l[1-%u] 1MB block\n", pods * leaves,
            pods * leaves);
    for (unsigned p = 0; p < pods; ++p) {
        print_links(stream, (tier_t){"l", p * leaves + 1, leaves},
                    (tier_t){"s", p * spines + 1, spines}, below, rng);
    }
    if (cores > 0) {
        fprintf(stream, "core c[1-%u]\n", cores);
        print_links(stream, (tier_t){"s", 1, pods * spines},
                    (tier_t){"c", 1, cores}, above, rng);
    }
    assert_int_equal(fclose(stream), 0);
    if (mrail_fabric_parse("t", text, length, &fabric, reason,
                           sizeof(reason)) != 0) {
        fail_msg("%s\n%s", reason, text);
    }
    free(text);
    return fabric;
}

static void check_all(const world_t *world, mrail_router_t *const *routers,
                      mrail_rng_t *rng)
{
    uint32_t hosts = world->fabric->num_of[MRAIL_FABRIC_HOST];

    for (uint32_t from = 0; from < hosts; ++from) {
        for (uint32_t to = 0; to < hosts; ++to) {
            for (unsigned p = 0; p < NUM_PORTS && from != to; ++p) {
                packet_t packet = {
                    .from = from,
                    .to = to,
                    .dst = world->fabric->links[to].addr,
                    .sport =
                        (uint16_t)(0xC000 + 0x4000 / NUM_PORTS * p +
                                   mrail_rng_below(rng, 0x4000 / NUM_PORTS))};

                check_packet(world, routers, &packet);
            }
        }
    }
}

static void check_fabric(mrail_fabric_t *fabric, mrail_route_mode_t mode,
                         uint64_t seed)
{
    mrail_router_t *routers[NUM_HASHES];
    uint32_t failed[2], links = fabric->num_links;
    uint32_t hosts = fabric->num_of[MRAIL_FABRIC_HOST];
    mrail_rng_t rng;
    world_t world;

    mrail_rng_init(&rng, seed);
    create_world(&world, fabric, mode);
    for (unsigned i = 0; i < NUM_HASHES; ++i) {
        routers[i] = mrail_router_create(fabric, mode, i);
        assert_non_null(routers[i]);
    }
    check_all(&world, routers, &rng);
    for (unsigned f = 0; f < 4; ++f) {
        int is_up = f >= 2;

        /* Links of hosts come first. */
        failed[f % 2] = is_up ? failed[f % 2]
                              : hosts + mrail_rng_below(&rng, links - hosts);
        change_link(&world, failed[f % 2], is_up);
        for (unsigned i = 0; i < NUM_HASHES; ++i) {
            mrail_router_link(routers[i], failed[f % 2], is_up);
        }
        check_all(&world, routers, &rng);
    }
    for (unsigned i = 0; i < NUM_HASHES; ++i) {
        mrail_router_destroy(routers[i]);
    }
    free(world.kernels);
    lab_destroy(&world.lab);
}

static void test_same_paths(void **state)
{
    uint64_t seeds = num_seeds(24);

    for (uint64_t seed = 0; seed < seeds; ++seed) {
        for (unsigned mode = MRAIL_ROUTE_ECMP; mode <= MRAIL_ROUTE_RULES_DROP;
             ++mode) {
            mrail_rng_t rng;

            print_message("MRAIL_TEST_SEEDS=%llu: seed %llu, mode %u\n",
                          (unsigned long long)seed + 1,
                          (unsigned long long)seed, mode);
            mrail_rng_init(&rng, seed);
            check_fabric(draw_fabric(&rng), (mrail_route_mode_t)mode, seed);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_paths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
