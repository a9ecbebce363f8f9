/* Tests topologies and demands as text, accepted and rejected. */
#include "config.h"
#include "tools/plan_text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/util.h"
#include "orchestrator/topo.h"

static mrail_plan_topo_t *topo_of(const char *text)
{
    mrail_plan_topo_t *topo = NULL;
    char reason[PLAN_TEXT_REASON_MAX] = "";

    if (plan_text_topo("t", text, strlen(text), &topo, reason,
                       sizeof(reason)) != 0) {
        fail_msg("%s", reason);
    }
    return topo;
}

/* ---- Topologies ---- */

/* Returns a link, which must exist exactly once. */
static mrail_plan_link_t link_of(const mrail_plan_t *plan,
                                 mrail_plan_link_kind_t kind, unsigned a,
                                 unsigned b)
{
    mrail_plan_link_t found = {.capacity = -1};
    unsigned num = 0;

    for (unsigned i = 0; i < mrail_plan_num_links(plan); ++i) {
        mrail_plan_link_t link;

        mrail_plan_link(plan, i, &link);
        if (link.kind == kind && link.a == a && link.b == b) {
            found = link;
            ++num;
        }
    }
    if (num > 1) {
        fail_msg("%u links of kind %d, %u, %u", num, (int)kind, a, b);
    }
    return found;
}

/* Returns the capacity in bytes per second, which is 0 if the link is down or
 * absent. */
static double capacity_of(const mrail_plan_topo_t *topo,
                          mrail_plan_link_kind_t kind, unsigned a, unsigned b)
{
    mrail_plan_link_t link;
    mrail_plan_t *plan;

    assert_int_equal(mrail_plan_create(topo, NULL, &plan), 0);
    link = link_of(plan, kind, a, b);
    mrail_plan_destroy(plan);
    return MRAIL_MAX(link.capacity, 0.0);
}

#define ASSERT_CAPACITY(_topo, _kind, _a, _b, _capacity)                       \
    do {                                                                       \
        double _got = capacity_of(_topo, MRAIL_PLAN_##_kind, _a, _b);          \
                                                                               \
        if (_got != (_capacity)) {                                             \
            fail_msg("line %d: %s %u %u: %.17g, not %.17g", __LINE__, #_kind,  \
                     _a, _b, _got, (double)(_capacity));                       \
        }                                                                      \
    } while (0)

static void test_rails(void **state)
{
    mrail_plan_topo_t *topo = topo_of("# two nodes\r\n"
                                      "rails 4\n"
                                      "\n"
                                      "\tnodes 2 # of them\n"
                                      "rail * * 50GB\n"
                                      "rail 1 2 dead\n"
                                      "rail 0 0,2-3 400Gb 1.5MB\n"
                                      "rail 0 3 8.000001Mb\n"
                                      "ranks * 1 multi-rail");

    assert_int_equal(mrail_plan_topo_num_nodes(topo), 2);
    assert_int_equal(mrail_plan_topo_num_rails(topo), 4);
    assert_int_equal(mrail_plan_topo_num_ranks(topo), 2);
    ASSERT_CAPACITY(topo, RAIL_OUT, 1, 1, 50e9);
    ASSERT_CAPACITY(topo, RAIL_IN, 1, 1, 50e9);
    ASSERT_CAPACITY(topo, RAIL_OUT, 1, 2, 0);
    ASSERT_CAPACITY(topo, RAIL_IN, 1, 2, 0);
    ASSERT_CAPACITY(topo, RAIL_OUT, 0, 0, 50e9);
    ASSERT_CAPACITY(topo, RAIL_IN, 0, 0, 1.5e6);
    ASSERT_CAPACITY(topo, RAIL_OUT, 0, 1, 50e9);
    ASSERT_CAPACITY(topo, RAIL_IN, 0, 2, 1.5e6);
    ASSERT_CAPACITY(topo, RAIL_OUT, 0, 3, 1000000.125);
    ASSERT_CAPACITY(topo, RAIL_IN, 0, 3, 1000000.125);
    mrail_plan_topo_destroy(topo);
}

static void test_capacities(void **state)
{
    static const struct {
        const char *word;
        double bytes;
    } cases[] = {{"1kB", 1e3},        {"8kb", 1e3},
                 {"1000B", 1e3},      {"2.5GB", 2.5e9},
                 {"0.001MB", 1e3},    {"1000TB", 1e15},
                 {"8000Tb", 1e15},    {"12345b", 12345 / 8.0},
                 {"100Gb", 12.5e9},   {"0.000001GB", 1000},
                 {"1TB", 1e12},       {"007MB", 7e6},
                 {"1.000000TB", 1e12}};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(cases); ++i) {
        mrail_plan_topo_t *topo;
        char text[128];

        snprintf(text, sizeof(text),
                 "nodes 1\nrails 1\nrail 0 0 %s\nranks 0 1 multi-rail",
                 cases[i].word);
        topo = topo_of(text);
        ASSERT_CAPACITY(topo, RAIL_OUT, 0, 0, cases[i].bytes);
        mrail_plan_topo_destroy(topo);
    }
}

static void test_ranks(void **state)
{
    static const struct {
        unsigned node, rail;
    } want[] = {{0, 0},
                {0, 1},
                {0, 2},
                {0, 0},
                {2, 0},
                {2, 1},
                {2, 2},
                {2, 0},
                {0, MRAIL_PLAN_ALL_RAILS},
                {1, MRAIL_PLAN_ALL_RAILS},
                {2, MRAIL_PLAN_ALL_RAILS},
                {1, 2},
                {1, 0},
                {1, 2},
                /* This is the fifth rank of its node, so rails repeat. */
                {1, 1},
                {1, 2}};
    mrail_plan_topo_t *topo = topo_of("nodes 3\nrails 3\n"
                                      "ranks 0,2 4 single-rail\n"
                                      "ranks * 1 multi-rail\n"
                                      "ranks 1 3 2,0,2\n"
                                      "ranks 1 2 single-rail\n");

    assert_int_equal(mrail_plan_topo_num_ranks(topo), MRAIL_ARRAY_SIZE(want));
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(want); ++i) {
        assert_int_equal(mrail_plan_topo_node_of(topo, i), want[i].node);
        assert_int_equal(
            mrail_plan_topo_rails_of(topo, i),
            (want[i].rail == MRAIL_PLAN_ALL_RAILS) ? 7 : 1u << want[i].rail);
    }
    mrail_plan_topo_destroy(topo);
}

static void test_links(void **state)
{
    mrail_plan_topo_t *topo =
        topo_of("nodes 3\nrails 1\nranks 0,1 3 multi-rail\n"
                "ranks 2 2 multi-rail\n"
                "pairwise 0-1 100GB\n"
                "link 0 1-2 none\n"
                "link 0-2 0 25GB\n"
                "switch 2 450GB 300GB\n");

    ASSERT_CAPACITY(topo, GPU_LINK, 0, 1, 0);
    ASSERT_CAPACITY(topo, GPU_LINK, 0, 2, 0);
    ASSERT_CAPACITY(topo, GPU_LINK, 1, 0, 25e9);
    ASSERT_CAPACITY(topo, GPU_LINK, 2, 0, 25e9);
    ASSERT_CAPACITY(topo, GPU_LINK, 1, 2, 100e9);
    ASSERT_CAPACITY(topo, GPU_LINK, 5, 3, 100e9);
    ASSERT_CAPACITY(topo, GPU_LINK, 2, 3, 0);
    ASSERT_CAPACITY(topo, SWITCH_UP, 6, 0, 450e9);
    ASSERT_CAPACITY(topo, SWITCH_DOWN, 7, 0, 300e9);
    ASSERT_CAPACITY(topo, SWITCH_UP, 0, 0, 0);
    mrail_plan_topo_destroy(topo);
}

static void test_leaf_groups(void **state)
{
    mrail_plan_topo_t *topo =
        topo_of("nodes 4\nrails 2\nrail * * 1GB\nranks * 1 multi-rail\n"
                "leaf_group 2-3 9\n"
                "uplink * * 400GB\n"
                "uplink 9 1 dead\n"
                "uplink 0 0 3GB 2GB\n");

    ASSERT_CAPACITY(topo, UPLINK_UP, 0, 0, 3e9);
    ASSERT_CAPACITY(topo, UPLINK_DOWN, 0, 0, 2e9);
    ASSERT_CAPACITY(topo, UPLINK_UP, 0, 1, 400e9);
    ASSERT_CAPACITY(topo, UPLINK_DOWN, 9, 0, 400e9);
    ASSERT_CAPACITY(topo, UPLINK_UP, 9, 1, 0);
    /* No such leaf group exists. */
    ASSERT_CAPACITY(topo, UPLINK_UP, 5, 0, 0);
    mrail_plan_topo_destroy(topo);
}

/* A path between leaves has the capacity of its slower link. */
static void test_lists_of_uplinks(void **state)
{
    mrail_plan_topo_t *topo =
        topo_of("nodes 2\nrails 2\nrail * * 1GB\nranks * 1 multi-rail\n"
                "leaf_group 1 1\n"
                "uplink * * 4GB,4GB,4GB\n"
                "uplink 0 0 4GB,dead,3GB 4GB,dead,1GB\n"
                "uplink 1 0 2GB,2GB,2GB\n"
                "uplink 1 1 12GB\n");
    double paths[MRAIL_PLAN_MAX_UPLINKS];

    ASSERT_CAPACITY(topo, UPLINK_UP, 0, 0, 7e9);
    ASSERT_CAPACITY(topo, UPLINK_DOWN, 0, 0, 5e9);
    ASSERT_CAPACITY(topo, UPLINK_UP, 1, 0, 6e9);
    ASSERT_CAPACITY(topo, UPLINK_UP, 0, 1, 12e9);
    assert_int_equal(mrail_topo_uplink_paths(topo, 0, 1, 0, paths), 3);
    assert_true(paths[0] == 2e9 && paths[1] == 0 && paths[2] == 2e9);
    assert_int_equal(mrail_topo_uplink_paths(topo, 1, 0, 0, paths), 3);
    assert_true(paths[0] == 2e9 && paths[1] == 0 && paths[2] == 1e9);
    assert_int_equal(mrail_topo_uplink_paths(topo, 0, 1, 1, paths), 3);
    assert_true(paths[0] == 4e9 && paths[1] == 4e9 && paths[2] == 4e9);
    assert_int_equal(mrail_topo_uplink_paths(topo, 1, 1, 1, paths), 0);
    assert_int_equal(mrail_topo_uplink_paths(topo, 5, 6, 0, paths), 0);
    mrail_plan_topo_destroy(topo);
}

/* Plans a demand from rank 0 to rank 1. Returns 0 or an error. bytes_p receives
 * the number of planned bytes. */
static int plan_one(const char *text, double *bytes_p)
{
    mrail_plan_demand_t demand = {0, 1, 1000};
    mrail_plan_topo_t *topo = topo_of(text);
    mrail_plan_summary_t summary;
    mrail_plan_t *plan;
    int ret;

    assert_int_equal(mrail_plan_create(topo, NULL, &plan), 0);
    ret = mrail_plan_make(plan, &demand, 1, 0, NULL, 0);
    mrail_plan_summary(plan, &summary);
    *bytes_p = summary.bytes;
    mrail_plan_destroy(plan);
    mrail_plan_topo_destroy(topo);
    return ret;
}

static void test_flags(void **state)
{
    double bytes;

    assert_int_equal(plan_one("nodes 1\nrails 1\nrail * * 1GB\n"
                              "ranks 0 2 single-rail",
                              &bytes),
                     0);
    assert_true(bytes == 0);
    assert_int_equal(plan_one("nodes 1\nrails 1\nrail * * 1GB\n"
                              "ranks 0 2 single-rail\nhairpin",
                              &bytes),
                     0);
    assert_true(bytes == 1000);
    assert_int_equal(plan_one("nodes 2\nrails 2\nrail * * 1GB\n"
                              "ranks 0 1 0\nranks 1 1 1",
                              &bytes),
                     -EHOSTUNREACH);
    assert_int_equal(plan_one("nodes 2\nrails 2\nrail * * 1GB\n"
                              "ranks 0 1 0\nranks 1 1 1\ncross_rail",
                              &bytes),
                     0);
    assert_true(bytes == 1000);
}

/* ---- Rejected topologies ---- */

#define SIZED "nodes 2\nrails 4\n"
#define RANKED SIZED "ranks * 3 single-rail\n"

static const struct {
    const char *text;
    const char *reason; /* start of the message */
} invalid_topos[] = {
    {"", "t:1: the line 'nodes N' is missing"},
    {"# nothing\n\n", "t:3: the line 'nodes N' is missing"},
    {"rails 2", "t:1: the line 'nodes N' is missing"},
    {"nodes 2\n", "t:2: the line 'rails N' is missing"},
    {SIZED, "t:3: the topology has no ranks; add a line 'ranks NODES COUNT"},
    {"node 2",
     "t:1: 'node' is not a statement; expected one of: nodes, rails, rail, "
     "ranks, reach, pairwise, link, switch, leaf_group, uplink, hairpin, "
     "cross_rail"},
    {SIZED "Rail * * 1GB", "t:3: 'Rail' is not a statement"},
    {"nodes", "t:1: too few words: nodes N"},
    {"nodes 1 2", "t:1: too many words: nodes N"},
    {"nodes 0", "t:1: nodes: '0' is not a number from 1 to 4096"},
    {"nodes 4097", "t:1: nodes: '4097' is not a number from 1 to 4096"},
    {"nodes -1", "t:1: nodes: '-1' is not a number"},
    {"nodes 99999999999999999999", "t:1: nodes: '99999999999999999999' is not"},
    {"nodes x", "t:1: nodes: 'x' is not a number"},
    {"rails 17", "t:1: rails: '17' is not a number from 1 to 16"},
    {"nodes 1\nnodes 1",
     "t:2: 'nodes' is already on line 1 and may occur only once"},
    {SIZED "rails 4", "t:3: 'rails' is already on line 2"},
    {"rail * * 1GB", "t:1: 'nodes N' and 'rails N' must precede 'rail'"},
    {"nodes 1\nhairpin", "t:2: 'nodes N' and 'rails N' must precede 'hairpin'"},
    {SIZED "rail 0 0", "t:3: too few words: rail NODES RAILS OUT [IN]"},
    {SIZED "rail 0 0 1GB 1GB 1GB", "t:3: too many words: rail NODES"},
    {SIZED "rail 2 0 1GB", "t:3: there is no node 2: valid numbers are 0 to 1"},
    {SIZED "rail 0-2 0 1GB",
     "t:3: there is no node 2: valid numbers are 0 to 1"},
    {SIZED "rail 0 4 1GB", "t:3: there is no rail 4: valid numbers are 0 to 3"},
    {SIZED "rail 0 99999999999999999999 1GB", "t:3: there is no rail 9999"},
    {SIZED "rail x 0 1GB",
     "t:3: 'x' is not a node number; expected a list such as 3"},
    {SIZED "rail 0, 0 1GB", "t:3: '' is not a node number"},
    {SIZED "rail ,0 0 1GB", "t:3: '' is not a node number"},
    {SIZED "rail 0 0-1-2 1GB", "t:3: '1-2' is not a rail number"},
    {SIZED "rail 0 - 1GB", "t:3: '' is not a rail number"},
    {SIZED "rail 0 -1 1GB", "t:3: '' is not a rail number"},
    {SIZED "rail 0 3-1 1GB",
     "t:3: rails 3 to 1: the smaller number must come first"},
    {SIZED "rail 0 0,0 1GB", "t:3: rail 0 appears twice in a list"},
    {SIZED "rail 0 0-2,1 1GB", "t:3: rail 1 appears twice in a list"},
    {SIZED "rail 0 3,1-3 1GB", "t:3: rail 3 appears twice in a list"},
    {SIZED "rail 0 *,1 1GB", "t:3: '*' is not a rail number"},
    {SIZED "rail 0 000000000000000000000000000000000000000000000000 1GB",
     "t:3: '00000000000000000000...' is not a rail number"},
    {SIZED "rail 0 0 50",
     "t:3: '50' is not a capacity; expected a number with a unit, such as 50GB "
     "(bytes per second) or 400Gb (bits per second), or dead"},
    {SIZED "rail 0 0 50G", "t:3: '50G' is not a capacity"},
    {SIZED "rail 0 0 50gb", "t:3: '50gb' is not a capacity"},
    {SIZED "rail 0 0 GB", "t:3: 'GB' is not a capacity"},
    {SIZED "rail 0 0 .GB", "t:3: '.GB' is not a capacity"},
    {SIZED "rail 0 0 5.GB", "t:3: '5.GB' is not a capacity"},
    {SIZED "rail 0 0 1.2.3GB", "t:3: '1.2.3GB' is not a capacity"},
    {SIZED "rail 0 0 -5GB", "t:3: '-5GB' is not a capacity"},
    {SIZED "rail 0 0 1e9GB", "t:3: '1e9GB' is not a capacity"},
    {SIZED "rail 0 0 inf", "t:3: 'inf' is not a capacity"},
    {SIZED "rail 0 0 infGB", "t:3: 'infGB' is not a capacity"},
    {SIZED "rail 0 0 nanGB", "t:3: 'nanGB' is not a capacity"},
    {SIZED "rail 0 0 none", "t:3: 'none' is not a capacity"},
    {SIZED "rail 0 0 0GB",
     "t:3: '0GB' is out of range; a capacity must be from 1kB to 1000TB per "
     "second, or dead"},
    {SIZED "rail 0 0 999B", "t:3: '999B' is out of range"},
    {SIZED "rail 0 0 7.999kb", "t:3: '7.999kb' is out of range"},
    {SIZED "rail 0 0 1000.000001TB", "t:3: '1000.000001TB' is out of range"},
    {SIZED "rail 0 0 1001TB", "t:3: '1001TB' is out of range"},
    {SIZED "rail 0 0 99999999999999999999999B", "t:3: '99999999999999999999999B"
                                                "' is out of range"},
    /* 2^64 bits and slightly more */
    {SIZED "rail 0 0 2305843010GB", "t:3: '2305843010GB' is out of range"},
    {SIZED "rail 0 0 18446744073709551616GB", "t:3: '18446744073709551616GB' "
                                              "is out of range"},
    {SIZED "rail 0 0 1.0000001GB", "t:3: '1.0000001GB' is too precise; a ca"},
    {SIZED "rail 0 0 1000.5b", "t:3: '1000.5b' is too precise"},
    {SIZED "rail 0 0 dead 1GB", "t:3: only one direction is dead; write dead"},
    {SIZED "rail 0 0 1GB dead", "t:3: only one direction is dead"},
    {SIZED "rail 0 0 1GB 0GB", "t:3: '0GB' is out of range"},
    {SIZED "rail 0 0 1GB\nrail 0 0 2GB",
     "t:4: this line overrides all of line 3; remove one of them"},
    {SIZED "rail 0-1 0 1GB\nrail 0 0 2GB\n# x\nrail 1 0 2GB",
     "t:6: this line overrides all of line 3"},
    {SIZED "rail 1 2 dead\nrail * * 1GB",
     "t:4: this line overrides all of line 3"},
    {SIZED "ranks 0 0 single-rail",
     "t:3: ranks of a node: '0' is not a number from"},
    {SIZED "ranks 0 16385 single-rail",
     "t:3: ranks of a node: '16385' is not a"},
    {SIZED "ranks * 8193 single-rail",
     "t:3: a topology can have at most 16384 ranks"},
    {SIZED "ranks 0 1 tied",
     "t:3: 'tied' is not single-rail, multi-rail or a list of "
     "rails"},
    {SIZED "ranks 0 1 4", "t:3: there is no rail 4: valid numbers are 0 to 3"},
    {SIZED "ranks 2 1 multi-rail", "t:3: there is no node 2"},
    {RANKED "pairwise 0 1GB\nranks 1 1 multi-rail",
     "t:5: 'ranks' must precede the first 'pairwise', 'link' or 'switch' (line "
     "4)"},
    {RANKED "pairwise 0 none",
     "t:4: 'none' is not a capacity; expected a number with a unit, such as "
     "50GB (bytes per second) or 400Gb (bits per second)"},
    {RANKED "pairwise 5 1GB", "t:4: there is no node 5"},
    {SIZED "pairwise * 1GB", "t:3: no node in '*' has two ranks; 'ranks' must"},
    {SIZED "ranks * 1 multi-rail\npairwise * 1GB",
     "t:4: no node in '*' has two ranks"},
    {SIZED "ranks * 17 multi-rail\npairwise * 1GB",
     "t:4: node 0 has 17 ranks; at most 16 ranks of a node can have pairwise "
     "links"},
    {RANKED "pairwise * 1GB\npairwise * 2GB",
     "t:5: this line overrides all of line 4"},
    {RANKED "pairwise * 1GB\nswitch 1 1GB",
     "t:5: node 1 has links since line 4; a node can have pairwise links or"},
    {RANKED "switch * 1GB\npairwise 1 1GB",
     "t:5: node 1 has a switch since line"},
    {RANKED "switch * 1GB\nlink 3 4 1GB", "t:5: node 1 has a switch since"},
    {RANKED "switch 1 1GB\nswitch 1 1GB",
     "t:5: this line overrides all of line 4"},
    {RANKED "switch 1 dead", "t:4: 'dead' is not a capacity"},
    {RANKED "switch 1 1GB 0GB",
     "t:4: '0GB' is out of range; a capacity must be from 1kB to 1000TB per "
     "second"},
    {SIZED "switch 1 1GB", "t:3: no node in '1' has a rank; 'ranks' must co"},
    {SIZED "link 0 1 1GB",
     "t:3: no ranks are defined yet; 'ranks' must come first"},
    {RANKED "link 0 6 1GB",
     "t:4: there is no rank 6: valid numbers are 0 to 5"},
    {RANKED "link 0 3 1GB",
     "t:4: ranks 0 and 3 are on nodes 0 and 1; a GPU link must be within a "
     "node"},
    {RANKED "link * * 1GB", "t:4: ranks 0 and 3 are on nodes 0 and 1"},
    {RANKED "link 2 2 1GB", "t:4: a rank cannot have a link to itself"},
    {RANKED "link 0 1 none",
     "t:4: there is no link from rank 0 to rank 1 to remove"},
    {RANKED "link 0 1 1GB\nlink 1 0 none", "t:5: there is no link from rank 1 "
                                           "to rank 0"},
    {RANKED "link 0 1 1GB\nlink 0 1 2GB",
     "t:5: this line overrides all of line 4"},
    {RANKED "link 0 1 dead",
     "t:4: 'dead' is not a capacity; expected a number with a unit, such as "
     "50GB (bytes per second) or 400Gb (bits per second), or none"},
    {SIZED "ranks 0 17 multi-rail\nlink 0 16 1GB",
     "t:4: ranks 0 and 16 cannot have a link; only the first 16 ranks of a "
     "node can"},
    {SIZED "leaf_group 0 4096",
     "t:3: leaf group: '4096' is not a number from 0 to 4095"},
    {SIZED "leaf_group 0 x", "t:3: leaf group: 'x' is not a number"},
    {SIZED "leaf_group 2 1", "t:3: there is no node 2"},
    {SIZED "leaf_group 0 1\nleaf_group 0 2",
     "t:4: this line overrides all of line 3"},
    {SIZED "uplink * * 1GB\nleaf_group 0 1",
     "t:4: 'leaf_group' must precede the first 'uplink' (line 3)"},
    {SIZED "uplink 1 * 1GB",
     "t:3: there is no leaf group 1: valid numbers are 0 to 0"},
    {SIZED "leaf_group 1 3\nuplink 2 * 1GB",
     "t:4: leaf group 2 has no nodes; 'leaf_group NODES 2' must come first"},
    {SIZED "uplink 0 4 1GB", "t:3: there is no rail 4"},
    {SIZED "uplink 0 0 1GB dead", "t:3: only one direction is dead"},
    {SIZED "uplink 0 0 1GB\nuplink * 0 2GB",
     "t:4: this line overrides all of line "
     "3"},
    {SIZED "uplink 0 0 1GB,2GB 1GB",
     "t:3: 2 upward capacities, but 1 downward"},
    {SIZED "uplink 0 0 1GB,,2GB", "t:3: '' is not a capacity"},
    {SIZED "uplink 0 0 1GB,2GB 1GB,dead", "t:3: only one direction is dead"},
    {SIZED "uplink 0 0 1GB,2GB\nuplink 0 1 1GB,1GB,1GB",
     "t:4: 3 uplinks, but line 3 lists 2; all leaves must have the same "
     "number"},
    {SIZED "uplink 0 0 900TB,900TB", "t:3: "},
    {SIZED "uplink 0 0 "
           "1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,"
           "1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,"
           "1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,"
           "1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,1GB,"
           "1GB",
     "t:3: a leaf can have at most 64 uplinks"},
    {SIZED "reach 0 0 1GB",
     "t:3: no ranks are defined yet; 'ranks' must come first"},
    {SIZED "ranks 0 1 0\nreach 0 0",
     "t:4: too few words: reach RANKS RAILS OUT|full|none [IN]"},
    {SIZED "ranks 0 1 0\nreach 1 0 1GB", "t:4: there is no rank 1"},
    {SIZED "ranks 0 1 0\nreach 0 4 1GB", "t:4: there is no rail 4"},
    {SIZED "ranks 0 1 0\nreach 0 0 fast",
     "t:4: 'fast' is not a capacity; expected a number with a unit, such as "
     "50GB (bytes per second) or 400Gb (bits per second), or full or none"},
    {SIZED "ranks 0 1 0\nreach 0 0 none 1GB",
     "t:4: a rank reaches a rail in both directions or in neither"},
    {SIZED "ranks 0 1 0\nreach 0 0 1GB\nreach * 0-1 2GB",
     "t:5: this line overrides all of line 4"},
    {SIZED "ranks 0 2 single-rail\nreach 1 1-2 none",
     "t:4: rank 1 reaches no rail since line 4, and no rank of node 0 can "
     "relay for it"},
    {SIZED "ranks 0 2 single-rail\nreach * * none\npairwise 0 1GB",
     "t:5: rank 0 reaches no rail since line 4"},
    {SIZED "hairpin 1", "t:3: too many words: hairpin"},
    {SIZED "hairpin\nhairpin",
     "t:4: 'hairpin' is already on line 3 and may occur only once"},
    {SIZED "cross_rail\ncross_rail", "t:4: 'cross_rail' is already on line 3"},
    {SIZED "hairpin\x01", "t:3: byte 0x1 is not text"},
    {SIZED "hairpin\x7f", "t:3: byte 0x7f is not text"},
    {"a b c d e f g h i j k l m", "t:1: a line can have at most 12 words"},
};

static void refuse_topo(const char *text, size_t length, const char *reason)
{
    mrail_plan_topo_t *topo = (void *)&topo;
    char got[PLAN_TEXT_REASON_MAX] = "";

    assert_int_equal(plan_text_topo("t", text, length, &topo, got, sizeof(got)),
                     -EINVAL);
    assert_ptr_equal(topo, &topo); /* the pointer was not changed */
    if (strncmp(got, reason, strlen(reason)) != 0) {
        fail_msg("'%s': says '%s', not '%s'", text, got, reason);
    }
}

static void test_topos_refused(void **state)
{
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(invalid_topos); ++i) {
        refuse_topo(invalid_topos[i].text, strlen(invalid_topos[i].text),
                    invalid_topos[i].reason);
    }
    refuse_topo("nodes 1\nra\0ils 1", 16, "t:2: byte 0 is not text");
}

static void test_long_lists(void **state)
{
    char text[1024] = "nodes 4096\nrails 1\nrail 0";

    for (unsigned i = 2; i <= 64; i += 2) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), ",%u", i);
    }
    strcat(text, " 0 1GB\nranks 0 1 multi-rail");
    refuse_topo(
        text, strlen(text),
        "t:3: a list of nodes can have at most 32 items; use several lines");
}

/* Messages show only the end of a long name, so that the text fits. */
static void test_long_name(void **state)
{
    char name[600], reason[PLAN_TEXT_REASON_MAX];
    mrail_plan_demand_t *demands;
    mrail_plan_topo_t *topo;
    size_t num;

    memset(name, 'x', sizeof(name));
    strcpy(name + sizeof(name) - sizeof("/topo"), "/topo");
    assert_int_equal(
        plan_text_topo(name, "nodes 0", 7, &topo, reason, sizeof(reason)),
        -EINVAL);
    assert_int_equal(strspn(reason, "x"), 95);
    assert_string_equal(reason + 95,
                        "/topo:1: nodes: '0' is not a number from 1 "
                        "to 4096");
    assert_int_equal(plan_text_demands(name, "0 1", 3, 2, &demands, &num,
                                       reason, sizeof(reason)),
                     -EINVAL);
    assert_string_equal(reason + 95, "/topo:1: too few words: FROM TO BYTES");
}

/* ---- Topologies: round trip ---- */

/* The links of a topology are written as text with the same meaning. */
static void test_reach(void **state)
{
    mrail_plan_topo_t *topo = topo_of("nodes 1\nrails 3\n"
                                      "ranks 0 3 single-rail\n"
                                      "reach 0-1 2 25GB full\n"
                                      "reach 0 1 full\n"
                                      "reach 2 * none\n"
                                      "pairwise 0 1GB\n");
    double out, in;

    assert_int_equal(mrail_plan_topo_rails_of(topo, 0), 7);
    assert_int_equal(mrail_plan_topo_rails_of(topo, 1), 6);
    assert_int_equal(mrail_plan_topo_rails_of(topo, 2), 0);
    mrail_plan_topo_reach(topo, 1, 2, &out, &in);
    assert_true((out == 25e9) && (in == MRAIL_PLAN_UNLIMITED));
    mrail_plan_topo_reach(topo, 1, 0, &out, &in);
    assert_true((out == 0) && (in == 0));
    mrail_plan_topo_destroy(topo);
}

static void write_topo(const mrail_plan_topo_t *topo, FILE *stream)
{
    static const char *const forms[] = {[MRAIL_PLAN_RAIL_OUT] = "rail",
                                        [MRAIL_PLAN_UPLINK_UP] = "uplink",
                                        [MRAIL_PLAN_GPU_LINK] = "link"};
    mrail_plan_t *plan;

    fprintf(stream, "nodes %u\nrails %u\n", mrail_plan_topo_num_nodes(topo),
            mrail_plan_topo_num_rails(topo));
    for (unsigned i = 0; i < mrail_plan_topo_num_ranks(topo); ++i) {
        fprintf(stream, "ranks %u 1 multi-rail\n",
                mrail_plan_topo_node_of(topo, i));
    }
    for (unsigned i = 0; i < mrail_plan_topo_num_ranks(topo); ++i) {
        for (unsigned r = 0; r < mrail_plan_topo_num_rails(topo); ++r) {
            double out, in;

            mrail_plan_topo_reach(topo, i, r, &out, &in);
            fprintf(stream, "reach %u %u %s", i, r,
                    (out == 0)  ? "none"
                    : (out < 0) ? "full"
                                : "");
            if (out > 0) {
                fprintf(stream, "%.0fB", out);
            }
            fprintf(stream, (in == 0) ? "\n" : (in < 0) ? " full\n" : " ");
            if (in > 0) {
                fprintf(stream, "%.0fB\n", in);
            }
        }
    }
    assert_int_equal(mrail_plan_create(topo, NULL, &plan), 0);
    for (unsigned i = 0; i < mrail_plan_num_links(plan); ++i) {
        mrail_plan_link_t link;

        mrail_plan_link(plan, i, &link);
        if (link.capacity > 0 && link.kind < MRAIL_ARRAY_SIZE(forms) &&
            forms[link.kind] != NULL) {
            fprintf(stream, "%s %u %u %.0fb", forms[link.kind], link.a, link.b,
                    8 * link.capacity);
            if (link.kind != MRAIL_PLAN_GPU_LINK) {
                fprintf(stream, " %.0fb",
                        8 * link_of(plan,
                                    (mrail_plan_link_kind_t)(link.kind + 1),
                                    link.a, link.b)
                                .capacity);
            }
            fprintf(stream, "\n");
        }
    }
    mrail_plan_destroy(plan);
}

static void same_links(const mrail_plan_topo_t *a, const mrail_plan_topo_t *b)
{
    mrail_plan_t *plan_a, *plan_b;

    assert_int_equal(mrail_plan_create(a, NULL, &plan_a), 0);
    assert_int_equal(mrail_plan_create(b, NULL, &plan_b), 0);
    assert_int_equal(mrail_plan_num_links(plan_a),
                     mrail_plan_num_links(plan_b));
    assert_true(mrail_plan_num_links(plan_a) > 0);
    for (unsigned i = 0; i < mrail_plan_num_links(plan_a); ++i) {
        mrail_plan_link_t x, y;

        mrail_plan_link(plan_a, i, &x);
        mrail_plan_link(plan_b, i, &y);
        assert_int_equal(x.kind, y.kind);
        assert_int_equal(x.a, y.a);
        assert_int_equal(x.b, y.b);
        assert_true(x.capacity == y.capacity);
    }
    mrail_plan_destroy(plan_a);
    mrail_plan_destroy(plan_b);
}

/* Random topologies of one leaf group are read, written and reread. */
static void test_there_and_back(void **state)
{
    mrail_rng_t rng;

    mrail_rng_init(&rng, 2026);
    for (unsigned i = 0; i < 200; ++i) {
        unsigned nodes = 1 + mrail_rng_below(&rng, 5);
        mrail_plan_topo_t *first, *second;
        char text[512], *written = NULL;
        size_t length;
        FILE *stream;

        snprintf(
            text, sizeof(text),
            "nodes %u\nrails 3\nrail * * %u.%03uMB %ukb\nrail %u 1 dead\n"
            "ranks * 3 single-rail\nranks %u 1 multi-rail\npairwise * %uGB\n"
            "link 0-1 2 %u.5Gb\n",
            nodes, 1 + mrail_rng_below(&rng, 5000), mrail_rng_below(&rng, 1000),
            8 + mrail_rng_below(&rng, 9999), mrail_rng_below(&rng, nodes),
            mrail_rng_below(&rng, nodes), 1 + mrail_rng_below(&rng, 900),
            mrail_rng_below(&rng, 900));
        first = topo_of(text);
        stream = open_memstream(&written, &length);
        assert_non_null(stream);
        write_topo(first, stream);
        fclose(stream);
        second = topo_of(written);
        assert_int_equal(mrail_plan_topo_num_ranks(second), 3 * nodes + 1);
        same_links(first, second);
        mrail_plan_topo_destroy(first);
        mrail_plan_topo_destroy(second);
        free(written);
    }
}

/* ---- Demands ---- */

static size_t demands_of(const char *text, unsigned num_ranks,
                         mrail_plan_demand_t **demands_p)
{
    char reason[PLAN_TEXT_REASON_MAX] = "";
    size_t num = 0;

    if (plan_text_demands("d", text, strlen(text), num_ranks, demands_p, &num,
                          reason, sizeof(reason)) != 0) {
        fail_msg("%s", reason);
    }
    return num;
}

static void test_demands(void **state)
{
    static const mrail_plan_demand_t want[] = {
        {0, 1, 10}, {0, 2, 1034}, {1, 0, 7},        {1, 2, 1027},
        {2, 0, 7},  {2, 1, 5},    {3, 0, 1u << 31}, {3, 1, 5}};
    mrail_plan_demand_t *demands = NULL;
    size_t num = demands_of("2 0 3 # the order of lines is nothing\n"
                            "1-2 0 3\n"
                            "0 1-2 10\n"
                            "\n"
                            "3 0 2g\n"
                            "0,1 2 1k\n"
                            "1 * 3\n"
                            "0 3 0\n"
                            "1 0 1\n"
                            "2 0 1\n"
                            "2-3 1 5\n"
                            "1 3 0m\n",
                            4, &demands);

    /* '1 * 3' includes rank 3. */
    assert_int_equal(num, MRAIL_ARRAY_SIZE(want) + 1);
    for (unsigned i = 0, w = 0; i < num; ++i) {
        if (demands[i].from == 1 && demands[i].to == 3) {
            assert_int_equal(demands[i].bytes, 3);
            continue;
        }
        assert_int_equal(demands[i].from, want[w].from);
        assert_int_equal(demands[i].to, want[w].to);
        assert_true(demands[i].bytes == want[w].bytes);
        ++w;
    }
    free(demands);
}

static void test_no_demands(void **state)
{
    mrail_plan_demand_t *demands = NULL;

    assert_int_equal(demands_of("", 2, &demands), 0);
    assert_null(demands);
    assert_int_equal(demands_of("# none\n0 1 0\n", 2, &demands), 0);
    assert_null(demands);
    /* A single rank has no receiver. */
    assert_int_equal(demands_of("* * 5\n0 0 5", 1, &demands), 0);
    assert_null(demands);
}

static const struct {
    const char *text, *reason;
} invalid_demands[] = {
    {"0 1", "d:1: too few words: FROM TO BYTES"},
    {"0 1 2 3", "d:1: too many words: FROM TO BYTES"},
    {"\n\n4 0 1", "d:3: there is no rank 4: valid numbers are 0 to 3"},
    {"0 1-4 1", "d:1: there is no rank 4: valid numbers are 0 to 3"},
    {"a 1 1",
     "d:1: 'a' is not a rank number; expected a list such as 3, 0-3 or 0,2, or "
     "*"},
    {"0 1 x", "d:1: 'x' is not a number of bytes: digits, then k, m or g"},
    {"0 1 -1", "d:1: '-1' is not a number of bytes"},
    {"0 1 1.5k", "d:1: '1.5k' is not a number of bytes"},
    {"0 1 1kB", "d:1: '1kB' is not a number of bytes"},
    {"0 1 inf", "d:1: 'inf' is not a number of bytes"},
    {"0 1 4611686018427387905", "d:1: '4611686018427387905' is too large: at "
                                "most 2^62 bytes"},
    {"0 1 99999999999g", "d:1: '99999999999g' is too large"},
    {"2 2 5", "d:1: rank 2 does not send to itself"},
    {"0 1 4611686018427387904\n# x\n0 1 1",
     "d:3: with this line, the total exceeds 2^62 bytes"},
    {"0 1 1\n2 3 4611686018427387904\n",
     "d:2: with this line, the total exceeds 2^62 bytes"},
    {"3 1 4611686018427387904\n0 2 1\n",
     "d:2: with this line, the total exceeds 2^62 bytes"},
    {"* * 1152921504606846976", "d:1: with this line, the total exceeds"},
    {"* * 384307168202282326", "d:1: with this line, the total exceeds"},
    {"0-1 1-2 1537228672809129302", "d:1: with this line, the total"},
    {"* 3 1537228672809129302", "d:1: with this line, the total"},
    {"0-2 3 1537228672809129301\n1 0 2\n", "d:2: with this"},
    {"0 1 \x1b", "d:1: byte 0x1b is not text"},
};

static void refuse_demands(const char *text, unsigned num_ranks,
                           const char *reason)
{
    mrail_plan_demand_t *demands = (void *)&demands;
    char got[PLAN_TEXT_REASON_MAX] = "";
    size_t num = 77;

    assert_int_equal(plan_text_demands("d", text, strlen(text), num_ranks,
                                       &demands, &num, got, sizeof(got)),
                     -EINVAL);
    assert_ptr_equal(demands, &demands);
    assert_int_equal(num, 77);
    if (strncmp(got, reason, strlen(reason)) != 0) {
        fail_msg("'%s': says '%s', not '%s'", text, got, reason);
    }
}

static void test_demands_refused(void **state)
{
    mrail_plan_demand_t *demands = NULL;

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(invalid_demands); ++i) {
        refuse_demands(invalid_demands[i].text, 4, invalid_demands[i].reason);
    }
    /* The largest sum that is allowed. */
    assert_int_equal(demands_of("0 1 4611686018427387903\n1 0 1", 2, &demands),
                     2);
    free(demands);
    refuse_demands("* * 1", 4098,
                   "d:1: the demands have more than 16777216 pairs of ranks");
}

/* A pair of ranks may occur on several lines and in any order. The parser adds
 * the bytes, and sorts the pairs. */
static void test_sums(void **state)
{
    mrail_rng_t rng;

    mrail_rng_init(&rng, 7);
    for (unsigned i = 0; i < 300; ++i) {
        unsigned ranks = 2 + mrail_rng_below(&rng, 9);
        uint64_t want[11][11] = {{0}};
        mrail_plan_demand_t *demands = NULL;
        char text[4096] = "";
        size_t used = 0, num, seen = 0;

        for (unsigned n = mrail_rng_below(&rng, 100); n > 0; --n) {
            unsigned from = mrail_rng_below(&rng, ranks);
            unsigned to = (from + 1 + mrail_rng_below(&rng, ranks - 1)) % ranks;
            unsigned bytes = mrail_rng_below(&rng, 5000);

            used += (size_t)snprintf(text + used, sizeof(text) - used,
                                     "%u %u %u\n", from, to, bytes);
            want[from][to] += bytes;
        }
        num = demands_of(text, ranks, &demands);
        for (unsigned from = 0; from < ranks; ++from) {
            for (unsigned to = 0; to < ranks; ++to) {
                if (want[from][to] > 0) {
                    assert_true(seen < num);
                    assert_int_equal(demands[seen].from, from);
                    assert_int_equal(demands[seen].to, to);
                    assert_true(demands[seen].bytes == want[from][to]);
                    ++seen;
                }
            }
        }
        assert_int_equal(seen, num);
        free(demands);
    }
}

/* ---- Out of memory ---- */

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

/* Every allocation fails once. The reader must report it, return nothing and
 * leak nothing. */
static void test_every_allocation(void **state)
{
    static const char topo_text[] = RANKED "rail * * 1GB\nleaf_group 1 1\n"
                                           "uplink * * 1GB,2GB\n"
                                           "uplink 0 1 3GB\n"
                                           "pairwise 0 1GB\n";
    static const char demand_text[] = "* * 5\n0 1 5\n1-2 3 7\n";
    char reason[PLAN_TEXT_REASON_MAX];
    unsigned n = 1, demand_n = 1;
    int ret = -ENOMEM;

    for (; ret != 0; ++n) {
        mrail_plan_topo_t *topo = NULL;

        countdown = n;
        ret = plan_text_topo("t", topo_text, strlen(topo_text), &topo, reason,
                             sizeof(reason));
        countdown = 0;
        assert_int_equal(ret == 0, topo != NULL);
        if (ret != 0) {
            assert_int_equal(ret, -ENOMEM);
            assert_non_null(strstr(reason, ": out of memory"));
            assert_true(strncmp(reason, "t:", 2) == 0);
        } else {
            mrail_plan_topo_destroy(topo);
        }
    }
    assert_true(n > 7);
    for (ret = -ENOMEM; ret != 0; ++demand_n) {
        mrail_plan_demand_t *demands = NULL;
        size_t num = 0;

        countdown = demand_n;
        ret = plan_text_demands("t", demand_text, strlen(demand_text), 20,
                                &demands, &num, reason, sizeof(reason));
        countdown = 0;
        assert_int_equal(ret == 0, demands != NULL);
        if (ret != 0) {
            assert_int_equal(ret, -ENOMEM);
            assert_non_null(strstr(reason, ": out of memory"));
        } else {
            assert_int_equal(num, 20 * 19);
            free(demands);
        }
    }
    assert_true(demand_n > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reach),
        cmocka_unit_test(test_rails),
        cmocka_unit_test(test_capacities),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_leaf_groups),
        cmocka_unit_test(test_lists_of_uplinks),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_topos_refused),
        cmocka_unit_test(test_long_lists),
        cmocka_unit_test(test_long_name),
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_demands),
        cmocka_unit_test(test_no_demands),
        cmocka_unit_test(test_demands_refused),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_every_allocation),
    };

    return cmocka_run_group_tests_name("plan_text", tests, NULL, NULL);
}
