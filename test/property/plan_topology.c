#include "config.h"
#include "plan_topology.h"

#include <stdio.h>
#include <stdlib.h>

static unsigned below(machine_t *w, unsigned bound)
{
    return mrail_rng_below(&w->rng, bound);
}

static int one_in(machine_t *w, unsigned many)
{
    return below(w, many) == 0;
}

static unsigned between(machine_t *w, unsigned least, unsigned most)
{
    return least + below(w, most - least + 1);
}

/* ---- the topology ---- */

static void make_size(machine_t *w)
{
    unsigned class = below(w, 100);

    if (w->many && one_in(w, 2)) { /* more than 141 ranks */
        w->num_nodes = 16;
        w->num_rails = between(w, 9, 10);
    } else if (class < 50) {
        w->num_nodes = between(w, 2, 4);
        w->num_rails = between(w, 1, 4);
    } else if (class < 90) {
        w->num_nodes = between(w, 2, 8);
        w->num_rails = between(w, 2, 8);
    } else if (class < 98) {
        w->num_nodes = between(w, 6, 16);
        w->num_rails = between(w, 4, 8);
    } else {
        w->num_nodes = between(w, 2, 3);
        w->num_rails = between(w, 9, 16);
    }
}

/* Returns a speed from 1 MB/s to 1 TB/s, uniform in the logarithm. */
static double any_speed(machine_t *w)
{
    double speed = 1e5 * (double)between(w, 10, 100);

    for (unsigned i = below(w, 6); i > 0; --i) {
        speed *= 10;
    }
    return speed;
}

/* Returns the capacity of a port: equal for all ports, equal per rail, similar
 * to others, or random. */
static double port(machine_t *w, unsigned kind, unsigned rail)
{
    static const double unequal[] = {25e9, 12.5e9, 6.25e9, 6.25e9};

    switch (kind) {
    case 0:
    case 1:
        return 25e9;
    case 2:
    case 3:
        return unequal[rail % 4];
    case 4:
    case 5:
        return 1e7 * (double)between(w, 100, 5000);
    default:
        return any_speed(w);
    }
}

static void make_rails(machine_t *w)
{
    unsigned kind = below(w, 7);
    unsigned dead = one_in(w, 2) ? 0 : between(w, 1, 20); /* percent */

    for (unsigned node = 0; node < w->num_nodes; ++node) {
        /* Takes down all ports of the node, in one or both directions. */
        int lost = one_in(w, 60);
        unsigned ways = between(w, 1, 3);

        for (unsigned rail = 0; rail < w->num_rails; ++rail) {
            double out = port(w, kind, rail);
            double in = (kind >= 4) ? port(w, kind, rail) : out;
            int dies = below(w, 100) < dead, both = one_in(w, 2);
            int end = both || one_in(w, 2), other = both || !end;

            out = ((dies && end) || (lost && (ways & 1))) ? 0 : out;
            in = ((dies && other) || (lost && (ways & 2))) ? 0 : in;
            w->out[node][rail] = out;
            w->in[node][rail] = in;
        }
    }
}

/* Makes the ranks of a node: one per rail, more or fewer, multi-rail ranks, or
 * a mixture. */
static unsigned make_node_ranks(machine_t *w, unsigned kind, uint32_t *rails)
{
    unsigned count = 0;

    if (kind == 0) {
        for (; count < w->num_rails; ++count) {
            rails[count] = 1u << count;
        }
        return count;
    }
    count = between(w, 1,
                    (w->num_rails < 4)
                        ? 4
                        : MRAIL_MIN(w->num_rails + 2, MACHINE_MAX_PER_NODE));
    for (unsigned i = 0; i < count; ++i) {
        int is_multi_rail = (kind == 1) || ((kind == 3) && one_in(w, 3));

        rails[i] = is_multi_rail ? (1u << w->num_rails) - 1
                                 : 1u << below(w, w->num_rails);
    }
    return count;
}

/* The ranks of a node may have non-consecutive numbers. */
static void make_ranks(machine_t *w)
{
    unsigned kind = (w->many || (below(w, 10) < 6)) ? 0 : between(w, 1, 3);
    int shuffled = one_in(w, 3);

    w->num_ranks = 0;
    for (unsigned node = 0; node < w->num_nodes; ++node) {
        uint32_t rails[MACHINE_MAX_PER_NODE];
        unsigned count = make_node_ranks(w, kind, rails);

        for (unsigned i = 0; i < count; ++i) {
            w->node[w->num_ranks] = node;
            w->rails[w->num_ranks++] = rails[i];
        }
    }
    for (unsigned i = w->num_ranks; shuffled && (i > 1); --i) {
        unsigned k = below(w, i), node = w->node[k];
        uint32_t rails = w->rails[k];

        w->node[k] = w->node[i - 1];
        w->rails[k] = w->rails[i - 1];
        w->node[i - 1] = node;
        w->rails[i - 1] = rails;
    }
    for (unsigned i = 0; i < w->num_ranks; ++i) {
        w->place[i] = 0;
        for (unsigned k = 0; k < i; ++k) {
            w->place[i] += (w->node[k] == w->node[i]);
        }
    }
}

/* Connects ranks to further rails: the next one, any, or all. Some ranks reach
 * none. */
static void make_reach(machine_t *w)
{
    unsigned kind = between(w, 1, 3);

    for (unsigned i = 0; i < w->num_ranks; ++i) {
        unsigned own = (unsigned)__builtin_ctz(w->rails[i]);

        if (kind == 1) {
            w->rails[i] |= 1u << (own + 1) % w->num_rails;
        } else if ((kind == 2) || one_in(w, 4)) {
            w->rails[i] |= between(w, 0, (1u << w->num_rails) - 1);
        }
        if (one_in(w, 40)) {
            w->rails[i] = 0;
        }
    }
}

/* Limits some ranks on some rails, from a tenth to twice the port's rate. */
static void make_limits(machine_t *w, int is_any)
{
    for (unsigned i = 0; i < w->num_ranks; ++i) {
        for (unsigned rail = 0; rail < w->num_rails; ++rail) {
            double out = w->out[w->node[i]][rail];
            double in = w->in[w->node[i]][rail];

            w->reach_out[i][rail] = w->reach_in[i][rail] = MRAIL_PLAN_UNLIMITED;
            if (is_any && (out > 0) && one_in(w, 2)) {
                w->reach_out[i][rail] = out * 0.1 * between(w, 1, 20);
            }
            if (is_any && (in > 0) && one_in(w, 2)) {
                w->reach_in[i][rail] = in * 0.1 * between(w, 1, 20);
            }
        }
    }
}

static void make_pairwise(machine_t *w, unsigned node)
{
    unsigned missing = one_in(w, 2) ? 0 : between(w, 1, 40);
    int equal = one_in(w, 2), slow = one_in(w, 4), any = one_in(w, 8);

    for (unsigned from = 0; from < w->num_ranks; ++from) {
        for (unsigned to = 0; to < w->num_ranks; ++to) {
            if ((w->node[from] != node) || (w->node[to] != node) ||
                (from == to) || (below(w, 100) < missing)) {
                continue;
            }
            w->link[from][to] =
                any ? any_speed(w)
                    : (equal ? 150e9 : 1e9 * (double)between(w, 5, 200)) *
                          (slow ? 0.05 : 1);
        }
    }
}

static void make_switch(machine_t *w, unsigned node)
{
    int holes = !w->many && one_in(w, 4), slow = !w->many && one_in(w, 4);
    int equal = w->many ? !one_in(w, 20) : one_in(w, 2);

    for (unsigned rank = 0; rank < w->num_ranks; ++rank) {
        if ((w->node[rank] != node) || (holes && one_in(w, 4))) {
            continue;
        }
        w->up[rank] = (equal ? 450e9 : 1e9 * (double)between(w, 5, 500)) *
                      (slow ? 0.02 : 1);
        w->down[rank] = equal ? w->up[rank] : 1e9 * (double)between(w, 5, 500);
    }
}

static void make_gpus(machine_t *w)
{
    /* none, pairwise, a switch, or mixed */
    static const unsigned kinds[] = {0, 1, 1, 1, 1, 2, 2, 3, 3, 3};
    unsigned kind = (w->many && !one_in(w, 4))
                        ? 2
                        : kinds[below(w, MRAIL_ARRAY_SIZE(kinds))];

    memset(w->link, 0, sizeof(w->link));
    memset(w->up, 0, sizeof(w->up));
    memset(w->down, 0, sizeof(w->down));
    for (unsigned node = 0; node < w->num_nodes; ++node) {
        unsigned is = (kind == 3) ? below(w, 3) : kind;

        if (is == 1) {
            make_pairwise(w, node);
        } else if (is == 2) {
            make_switch(w, node);
        }
    }
}

static void make_leaf_groups(machine_t *w)
{
    int equal = one_in(w, 2);

    w->num_leaf_groups =
        one_in(w, 2) ? 1 : between(w, 1, MACHINE_MAX_LEAF_GROUPS);
    for (unsigned node = 0; node < w->num_nodes; ++node) {
        w->leaf_group[node] = equal ? node * w->num_leaf_groups / w->num_nodes
                                    : below(w, w->num_leaf_groups);
    }
    for (unsigned leaf_group = 0; leaf_group < w->num_leaf_groups;
         ++leaf_group) {
        unsigned dead = one_in(w, 2) ? 0 : 10;

        int set = !one_in(w, 3), some = one_in(w, 4);

        for (unsigned rail = 0; rail < w->num_rails; ++rail) {
            w->has_uplinks[leaf_group][rail] = set && (!some || one_in(w, 2));
            w->uplink_up[leaf_group][rail] =
                (below(w, 100) < dead) ? 0 : 1e9 * between(w, 5, 100);
            w->uplink_down[leaf_group][rail] =
                (below(w, 100) < dead) ? 0 : 1e9 * between(w, 5, 100);
        }
    }
}

/* ---- the exchange ---- */

static void add(machine_t *w, unsigned from, unsigned to, double bytes)
{
    if (w->num_demands < MACHINE_MAX_DEMANDS) {
        w->demands[w->num_demands++] = (mrail_plan_demand_t){
            .from = from, .to = to, .bytes = (uint64_t)bytes};
    }
}

/* Generates one random number per statement, because the order of argument
 * evaluation is unspecified. */
static void add_any(machine_t *w, double bytes)
{
    unsigned from = below(w, w->num_ranks);
    unsigned to = below(w, w->num_ranks);

    add(w, from, to, bytes);
}

/* Returns a base size. Most demands of this size are large enough to justify a
 * relay. */
static double any_size(machine_t *w)
{
    switch (below(w, 12)) {
    case 0:
        return between(w, 1, 4);
    case 1:
        return between(w, 1, 100000);
    case 2:
        return between(w, 999999, 1000001);
    case 3:
        return 1e6 * between(w, 1000, 100000);
    default:
        return 1e4 * between(w, 50, 50000);
    }
}

/* All ranks send to all. Some of the bytes go to one rank: either rank 0 or the
 * rank half the job size ahead. */
static void want_hotspot(machine_t *w)
{
    double part = 0.1 * between(w, 1, 9), bytes = any_size(w);
    unsigned n = w->num_ranks, step = (n > 40) ? between(w, 2, n / 8) : 1;
    int one = one_in(w, 2);

    w->pattern = one ? "hotspot on rank 0" : "hotspot half the job size ahead";
    for (unsigned from = 0; from < n; ++from) {
        unsigned receiver = one ? 0 : (from + n / 2) % n;

        add(w, from, receiver, bytes * part);
        for (unsigned to = from % step; to < n; to += step) {
            if (to != receiver) {
                add(w, from, to, bytes * (1 - part) * step / n);
            }
        }
    }
}

static void want_zipf(machine_t *w)
{
    unsigned count = between(w, 1, (w->many ? 1 : 4) * w->num_ranks);
    double bytes = any_size(w) * 10;
    int steep = one_in(w, 3);

    w->pattern = "zipf";
    for (unsigned k = 1; k <= count; ++k) {
        add_any(w, bytes / k / (steep ? k : 1));
    }
}

/* Each rank has tokens for k of the experts. There is one expert per rank, and
 * some are popular. */
static void want_moe(machine_t *w)
{
    unsigned n = w->num_ranks, top = between(w, 1, 4);
    unsigned liked = between(w, 1, 1 + n / 4), groups = between(w, 1, 6);
    double bytes = any_size(w);

    w->pattern = "mixture of experts";
    for (unsigned from = 0; from < n; ++from) {
        for (unsigned i = 0; i < groups * top; ++i) {
            unsigned to = one_in(w, 2) ? below(w, liked) : below(w, n);

            add(w, from, to, bytes * between(w, 1, 20) / 10);
        }
    }
}

/* Adds demands between neighbours in a ring of rows. Those at the seam are many
 * times larger. */
static void want_stencil(machine_t *w)
{
    unsigned n = w->num_ranks, row = between(w, 1, 1 + n / 2);
    double bytes = any_size(w), boundary = between(w, 2, 20);

    w->pattern = "stencil";
    for (unsigned rank = 0; rank < n; ++rank) {
        double some =
            ((rank < row) || (rank + row >= n)) ? bytes * boundary : bytes;

        add(w, rank, (rank + 1) % n, bytes);
        add(w, rank, (rank + n - 1) % n, bytes);
        add(w, rank, (rank + row) % n, some);
        add(w, rank, (rank + n - row) % n, some);
    }
}

static void want_incast(machine_t *w)
{
    unsigned n = w->num_ranks, few = between(w, 1, 1 + n / 6);
    double bytes = any_size(w);

    w->pattern = "incast";
    for (unsigned from = 0; from < n; ++from) {
        for (unsigned i = 0; i < few; ++i) {
            add(w, from, (i * 7) % n, bytes * between(w, 5, 15) / 10);
        }
    }
}

static void want_any(machine_t *w)
{
    unsigned count = between(w, 1, (w->many ? 1 : 3) * w->num_ranks);

    w->pattern = "sparse";
    for (unsigned i = 0; i < count; ++i) {
        add_any(w, any_size(w));
    }
}

/* Adds unusual demands: empty ones, demands of a rank to itself, repeated ones,
 * one byte, and the largest demand that may not be relayed. */
static void want_odd(machine_t *w)
{
    static const double odd[] = {0, 1, 2, 999999, 1e6, 1000001, 65536};

    for (unsigned i = below(w, 8); i > 0; --i) {
        unsigned from = below(w, w->num_ranks);
        unsigned to = one_in(w, 4) ? from : below(w, w->num_ranks);

        add(w, from, to, odd[below(w, MRAIL_ARRAY_SIZE(odd))]);
    }
    if ((w->num_demands > 0) && one_in(w, 4)) {
        mrail_plan_demand_t d = w->demands[below(w, w->num_demands)];

        add(w, d.from, d.to, (double)d.bytes);
    }
}

/* Repeats each demand many times, at full size or split. */
static void multiply_demands(machine_t *w)
{
    unsigned count = w->num_demands, copies;
    int in_parts = one_in(w, 2);

    copies = (count == 0) ? 0 : MACHINE_MAX_DEMANDS / count;
    for (unsigned i = 0; i < count; ++i) {
        double bytes = (double)w->demands[i].bytes / (in_parts ? copies : 1);

        for (unsigned k = 1; k < copies; ++k) {
            add(w, w->demands[i].from, w->demands[i].to,
                bytes * between(w, 5, 15) / 10);
        }
    }
}

static void make_demands(machine_t *w)
{
    static void (*const want[])(machine_t *) = {
        want_any, want_zipf, want_hotspot, want_moe, want_stencil, want_incast};

    w->num_demands = 0;
    want[below(
        w, (w->many && (w->num_ranks > 100)) ? 2 : MRAIL_ARRAY_SIZE(want))](w);
    want_odd(w);
    if (w->many) {
        multiply_demands(w);
    }
    for (unsigned i = w->num_demands; one_in(w, 2) && (i > 1); --i) {
        unsigned k = below(w, i);
        mrail_plan_demand_t d = w->demands[k];

        w->demands[k] = w->demands[i - 1];
        w->demands[i - 1] = d;
    }
}

static void make_options(machine_t *w)
{
    w->options = MRAIL_PLAN_DEFAULTS;
    if (one_in(w, 6)) {
        w->options.gap = one_in(w, 2) ? 0.01 : 0.1;
    }
    if (one_in(w, 6)) {
        w->options.relay_threshold = one_in(w, 2) ? 0 : UINT64_MAX - 1;
    }
    if (one_in(w, 6)) {
        w->options.min_piece = one_in(w, 2) ? 0 : 1 << 20;
    }
}

void machine_make(machine_t *w, uint64_t seed)
{
    w->seed = seed;
    mrail_rng_init(&w->rng, seed);
    w->many = one_in(w, 12);
    make_size(w);
    make_rails(w);
    make_ranks(w);
    make_gpus(w);
    make_leaf_groups(w);
    w->hairpin = one_in(w, 2);
    w->cross_rail = one_in(w, 3);
    make_options(w);
    w->demands = w->spare_demands[0];
    make_demands(w);
    if (!w->many && one_in(w, 3)) {
        make_reach(w);
    }
    make_limits(w, !w->many && one_in(w, 3));
}

void machine_copy_demands(machine_t *w)
{
    mrail_plan_demand_t *copy =
        w->spare_demands[w->demands == w->spare_demands[0]];

    mrail_copy(copy, w->demands, w->num_demands * sizeof(*copy));
    w->demands = copy;
}

void machine_other_demands(machine_t *w)
{
    w->demands = w->spare_demands[w->demands == w->spare_demands[0]];
    make_demands(w);
}

void machine_keep(machine_t *w, const uint8_t *keep)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < w->num_demands; ++i) {
        if (keep[i]) {
            w->demands[kept++] = w->demands[i];
        }
    }
    w->num_demands = kept;
}

/* ---- the planner's topology ---- */

static void must(const machine_t *w, int ret, const char *what)
{
    if (ret != 0) {
        printf("not ok - plan: seed %llu: %s is rejected: %d\n",
               (unsigned long long)w->seed, what, ret);
        fflush(stdout);
        _Exit(1);
    }
}

static void set_node(const machine_t *w, mrail_plan_topo_t *topo, unsigned node)
{
    must(w, mrail_plan_topo_set_leaf_group(topo, node, w->leaf_group[node]),
         "a pod");
    for (unsigned rail = 0; rail < w->num_rails; ++rail) {
        must(w,
             mrail_plan_topo_set_rail(topo, node, rail, w->out[node][rail],
                                      w->in[node][rail]),
             "a rail");
    }
}

static void set_uplinks(const machine_t *w, mrail_plan_topo_t *topo,
                        unsigned leaf_group)
{
    for (unsigned rail = 0; rail < w->num_rails; ++rail) {
        if (!w->has_uplinks[leaf_group][rail]) {
            continue;
        }
        must(w,
             mrail_plan_topo_set_uplink(topo, leaf_group, rail,
                                        w->uplink_up[leaf_group][rail],
                                        w->uplink_down[leaf_group][rail]),
             "an uplink");
    }
}

static void set_gpu(const machine_t *w, mrail_plan_topo_t *topo, unsigned rank)
{
    if (w->up[rank] > 0) {
        must(w,
             mrail_plan_topo_set_switch(topo, rank, w->up[rank], w->down[rank]),
             "a link to a switch");
    }
    for (unsigned to = 0; to < w->num_ranks; ++to) {
        if (w->link[rank][to] > 0) {
            must(w, mrail_plan_topo_set_link(topo, rank, to, w->link[rank][to]),
                 "a GPU link");
        }
    }
}

static void set_reach(const machine_t *w, mrail_plan_topo_t *topo,
                      unsigned rank)
{
    for (unsigned rail = 0; rail < w->num_rails; ++rail) {
        if ((w->rails[rank] >> rail) & 1) {
            must(w,
                 mrail_plan_topo_set_reach(topo, rank, rail,
                                           w->reach_out[rank][rail],
                                           w->reach_in[rank][rail]),
                 "a reach");
        }
    }
}

static unsigned nth(unsigned i, unsigned count, int backwards)
{
    return backwards ? count - 1 - i : i;
}

mrail_plan_topo_t *machine_build(const machine_t *w, int backwards)
{
    mrail_plan_topo_t *topo;

    must(w, mrail_plan_topo_create(w->num_nodes, w->num_rails, &topo),
         "a topology");
    for (unsigned i = 0; i < w->num_ranks; ++i) {
        must(w, mrail_plan_topo_add_rank(topo, w->node[i]), "a rank");
    }
    for (unsigned i = 0; i < w->num_ranks; ++i) {
        set_reach(w, topo, nth(i, w->num_ranks, backwards));
    }
    for (unsigned i = 0; i < w->num_nodes; ++i) {
        set_node(w, topo, nth(i, w->num_nodes, backwards));
    }
    for (unsigned i = 0; i < w->num_leaf_groups; ++i) {
        set_uplinks(w, topo, nth(i, w->num_leaf_groups, backwards));
    }
    for (unsigned i = 0; i < w->num_ranks; ++i) {
        set_gpu(w, topo, nth(i, w->num_ranks, backwards));
    }
    mrail_plan_topo_set_hairpin(topo, w->hairpin);
    mrail_plan_topo_set_cross_rail(topo, w->cross_rail);
    return topo;
}
