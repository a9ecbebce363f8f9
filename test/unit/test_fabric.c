/* Tests fabrics as text (src/fabric/fabric*.c): accepted and rejected text, and
 * failing allocations. */
#include "config.h"
#include "fabric/fabric.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/util.h"

static const char ctccl[] = "host  h[1-8]\n"
                            "leaf  l[1-2]\n"
                            "spine s[1-2]\n"
                            "link  h[1-8] l1 400Gb   # rail 0\n"
                            "link  h[1-8] l2 400Gb   # rail 1\n"
                            "link  l[1-2] s[1-2] 400Gb x4\n";

static const char fat_tree[] = "host h[001-032]\n"
                               "leaf l[1-4],x[1-4]\n"
                               "spine s[1-4]\n"
                               "core c[1-2]\n"
                               "link h[001-032] l[1-4],x[1-4] 100MB block\n"
                               "link l[1-4] s[1-2] 100MB\n"
                               "link x[1-4] s[3-4] 100MB\n"
                               "link s[1-4] c[1-2] 100MB x2\n";

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

static const mrail_fabric_node_t *node_of(const mrail_fabric_t *fabric,
                                          const char *name)
{
    uint32_t node = mrail_fabric_node_find(fabric, name);

    assert_int_not_equal(node, MRAIL_FABRIC_NONE);
    return &fabric->nodes[node];
}

/* Checks that each link is in the lists of both of its nodes. */
static void check_ports(const mrail_fabric_t *fabric)
{
    for (uint32_t i = 0; i < fabric->num_links; ++i) {
        const mrail_fabric_link_t *link = &fabric->links[i];
        const mrail_fabric_node_t *lower = &fabric->nodes[link->lower];
        const mrail_fabric_node_t *upper = &fabric->nodes[link->upper];

        assert_int_equal(upper->tier, lower->tier + 1);
        assert_true(link->lower_port < lower->num_up);
        assert_true(link->upper_port < upper->num_down);
        assert_int_equal(lower->up[link->lower_port], i);
        assert_int_equal(upper->down[link->upper_port], i);
    }
}

/* [CTCCL] 4.1: two rails per host, and eight uplinks per leaf, four to each
 * spine. */
static void test_two_tiers(void **state)
{
    mrail_fabric_t *fabric = fabric_of(ctccl);
    const mrail_fabric_node_t *leaf = node_of(fabric, "l2");

    assert_int_equal(fabric->num_nodes, 12);
    assert_int_equal(fabric->num_links, 32);
    assert_int_equal(fabric->num_of[MRAIL_FABRIC_HOST], 8);
    assert_int_equal(fabric->num_of[MRAIL_FABRIC_CORE], 0);
    assert_int_equal(leaf->place, 1);
    assert_int_equal(leaf->num_down, 8);
    assert_int_equal(leaf->num_up, 8);
    for (unsigned n = 0; n < 8; ++n) {
        const mrail_fabric_link_t *link = &fabric->links[leaf->up[n]];

        assert_string_equal(fabric->nodes[link->upper].name,
                            (n < 4) ? "s1" : "s2");
        assert_true(link->bytes_per_s == UINT64_C(50000000000));
        assert_int_equal(link->addr, 0);
    }
    check_ports(fabric);
    mrail_fabric_destroy(fabric);
}

static void test_three_tiers(void **state)
{
    mrail_fabric_t *fabric = fabric_of(fat_tree);
    uint32_t core = mrail_fabric_node_find(fabric, "c2");
    uint32_t spine = mrail_fabric_node_find(fabric, "s1");
    uint32_t near = mrail_fabric_node_find(fabric, "l4");
    uint32_t far = mrail_fabric_node_find(fabric, "x1");
    const mrail_fabric_node_t *last = node_of(fabric, "h032");

    check_ports(fabric);
    assert_int_equal(fabric->nodes[spine].num_up, 4);
    assert_int_equal(fabric->nodes[core].num_down, 8);
    assert_true(mrail_fabric_is_above(fabric, core, far));
    assert_true(mrail_fabric_is_above(fabric, spine, near));
    assert_false(mrail_fabric_is_above(fabric, spine, far));
    assert_true(mrail_fabric_is_above(fabric, near, near));
    assert_false(mrail_fabric_is_above(fabric, near, far));
    /* With blocks of four hosts, the last four are on the last leaf. */
    assert_string_equal(fabric->nodes[fabric->links[last->up[0]].upper].name,
                        "x4");
    assert_int_equal(node_of(fabric, "x4")->num_down, 4);
    mrail_fabric_destroy(fabric);
}

/* With two tiers, an index is the host part of the address, as the transport
 * itself derives it. Below core switches, the index counts the NICs of a
 * pod. */
static void test_indices(void **state)
{
    mrail_fabric_t *fabric = fabric_of(ctccl);
    unsigned uplinks, spine_uplinks;
    uint32_t link = node_of(fabric, "h3")->up[1];

    assert_int_equal(fabric->links[link].nic_index,
                     fabric->links[link].addr & 0xff);
    mrail_fabric_segments(fabric, link, &uplinks, &spine_uplinks);
    assert_int_equal(uplinks, 8);
    assert_int_equal(spine_uplinks, 1);
    mrail_fabric_destroy(fabric);

    fabric = fabric_of(fat_tree);
    mrail_fabric_segments(fabric, node_of(fabric, "h001")->up[0], &uplinks,
                          &spine_uplinks);
    assert_int_equal(uplinks, 2);
    assert_int_equal(spine_uplinks, 4);
    for (unsigned i = 0; i < 32; ++i) {
        char name[8];

        snprintf(name, sizeof(name), "h%03u", i + 1);
        link = node_of(fabric, name)->up[0];
        assert_int_equal(fabric->links[link].nic_index, i % 16);
    }
    mrail_fabric_destroy(fabric);
}

static void test_too_few_lanes(void **state)
{
    mrail_fabric_t *fabric = fabric_of(fat_tree);
    char reason[320] = "";

    assert_int_equal(
        mrail_fabric_check_lanes(fabric, 1, reason, sizeof(reason)), 0);
    mrail_fabric_destroy(fabric);

    fabric = fabric_of("host h[1-3]\nleaf l[1-2]\nspine s[1-2]\n"
                       "link h[1-2] l1 1MB\nlink h3 l2 1MB\n"
                       "link l[1-2] s[1-2] 1MB\n");
    assert_int_equal(
        mrail_fabric_check_lanes(fabric, 1, reason, sizeof(reason)), -ERANGE);
    assert_string_equal(reason,
                        "leaf l2: 1 NICs x 1 lanes = 1 source ports per leaf, "
                        "fewer than its 2 uplinks: 1 uplinks stay idle; 2 "
                        "lanes per rail would use all");
    assert_int_equal(
        mrail_fabric_check_lanes(fabric, 2, reason, sizeof(reason)), 0);
    assert_int_equal(
        mrail_fabric_check_lanes(fabric, 0, reason, sizeof(reason)), 0);
    mrail_fabric_destroy(fabric);
}

static void test_addresses(void **state)
{
    mrail_fabric_t *fabric = fabric_of("host a b c d\n"
                                       "leaf l m\n"
                                       "spine s\n"
                                       "link a,b,c l 1MB\n"
                                       "link d m 1MB\n"
                                       "link l,m s 1MB\n"
                                       "address b l 10.7.7.2\n"
                                       "address c l 10.7.7.200\n");
    static const struct {
        const char *host;
        uint32_t addr;
    } expected[] = {{"a", 0x0a070703},
                    {"b", 0x0a070702},
                    {"c", 0x0a0707c8},
                    {"d", 0x0a000102}};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(expected); ++i) {
        const mrail_fabric_node_t *host = node_of(fabric, expected[i].host);

        assert_int_equal(fabric->links[host->up[0]].addr, expected[i].addr);
        assert_int_equal(mrail_fabric_addr_find(fabric, expected[i].addr),
                         host->up[0]);
    }
    assert_int_equal(mrail_fabric_addr_find(fabric, 0), MRAIL_FABRIC_NONE);
    assert_int_equal(mrail_fabric_node_find(fabric, "e"), MRAIL_FABRIC_NONE);
    mrail_fabric_destroy(fabric);
}

#define HEAD "host h1 h2\nleaf l1 l2\nspine s1 s2\n"
#define EDGE "link h1 l1 1MB\nlink h2 l2 1MB\n"

/* All rejections, each with its line and reason. */
static void test_refusals(void **state)
{
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"",
         "t:1: a fabric needs at least one host, one leaf and a link between "
         "them"},
        {"router r1\n",
         "t:1: 'router' is not a statement; expected host, leaf, spine, core, "
         "link or address"},
        {"host\n", "t:1: too few words: host NAMES"},
        {"host 1h\n", "t:1: '1h' is not a name; "},
        {"host h[1-2\n", "t:1: 'h[1-2' is not a list; "},
        {"host h[2-1]\n", "t:1: '2-1' in brackets is not a range; "},
        {"host h[1-9000]\n", "t:1: '1-9000' in brackets is not a range; "},
        {"host h[]\n", "t:1: 'h[]' is not a list; "},
        {"host h[1]x\n", "t:1: 'h[1]x' is not a list; "},
        {"host h[1-8000]\nhost i[1-8000]\n",
         "t:2: a fabric can have at most 8192 nodes"},
        {"host a234567890123456789012345678901x\n",
         "t:1: 'a234567890123456789012345678901x' is too long: "},
        {"host h\n\nleaf h\n", "t:3: 'h' is already a host, by line 1"},
        {HEAD "link h1 l9 1MB\n", "t:4: there is no node 'l9'; "},
        {HEAD "link h1 l1 1\n", "t:4: '1' is not a link rate; "},
        {HEAD "link h1 l1 1MB x0\n", "t:4: 'x0' is not a link option; "},
        {HEAD "link h1 l1 1MB twice\n", "t:4: 'twice' is not a link option; "},
        {HEAD "link h[1-2] l[1-2],s1 1MB block\n",
         "t:4: cannot divide 2 nodes into blocks over 3 nodes; "},
        /* Loops */
        {HEAD EDGE "link l1 l2 1MB\n",
         "t:6: a link cannot lead from leaf 'l1' to leaf 'l2'; links go one "
         "tier up"},
        {HEAD EDGE "link s1 s2 1MB\n",
         "t:6: a link cannot lead from spine 's1' to spine 's2'; "},
        {HEAD EDGE "link h1 s1 1MB\n",
         "t:6: a link cannot lead from host 'h1' to spine 's1'; "},
        {HEAD "link l1 h1 1MB\n",
         "t:4: a link cannot lead from leaf 'l1' to host 'h1'; "},
        /* missing links */
        {HEAD "link h1 l1 1MB\nlink l1,l2 s1,s2 1MB\n",
         "t:1: host 'h2' has no link to a leaf"},
        {HEAD EDGE "link l1,l2 s1 1MB\n",
         "t:3: spine 's2' has no link to a node below"},
        {HEAD EDGE "link l1 s1 1MB\nlink l2 s2 1MB\n",
         "t:2: leaf 'l1' does not reach leaf 'l2', "},
        {HEAD EDGE "link l1 s1,s2 1MB\nlink l2 s2 1MB\n",
         "t:6: 's1' does not reach leaf 'l2', which leaf 'l1' reaches by "
         "other uplinks: a link is missing"},
        /* Addresses */
        {HEAD "address h1 l1 10.0.0.2\n",
         "t:4: there is no link from 'h1' to 'l1': the 'link' line must "
         "precede"},
        {HEAD EDGE "address h1 l1 10.0.0\n",
         "t:6: '10.0.0' is not an IPv4 address"},
        {HEAD EDGE "address h1 l1 127.0.0.2\n",
         "t:6: 127.0.0.2 is not a host address"},
        {HEAD EDGE "address h1 l1 10.0.0.1\n",
         "t:6: an address must end in .2 to .254"},
        {HEAD EDGE "address h1 l1 10.0.0.2\naddress h1 l1 10.0.0.3\n",
         "t:7: 'h1' already has an address on 'l1'"},
        {HEAD EDGE "address h1 l1 10.5.0.2\naddress h2 l2 10.5.0.2\n",
         "t:7: 'h1' and 'h2' have the same address, 10.5.0.2"},
        {HEAD EDGE "address h1 l1 10.5.0.2\naddress h2 l2 10.5.0.3\n",
         "t:7: leaf 'l1' also has this /24 subnet"},
        {HEAD "link h1,h2 l1 1MB\naddress h1 l1 10.5.0.2\n"
              "address h2 l1 10.6.0.2\n",
         "t:6: leaf 'l1' has addresses in two subnets; "},
        {HEAD EDGE "address h2 l2 10.0.0.9\n",
         "t:2: the default subnet of leaf 'l1' is already used by 'l2'; "},
        {"host h[1-251]\nleaf l\nlink h[1-251] l 1MB\n",
         "t:2: leaf 'l' has 251 NICs; at most 250"},
        {HEAD EDGE "link l1 s1 1MB x200\nlink l1 s1 1MB x57\n",
         "t:7: 'l1' has more than 256 links to the tier above"},
    };

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(cases); ++i) {
        mrail_fabric_t *fabric = (mrail_fabric_t *)&cases;
        char reason[512] = "";

        assert_int_equal(mrail_fabric_parse("t", cases[i].text,
                                            strlen(cases[i].text), &fabric,
                                            reason, sizeof(reason)),
                         -EINVAL);
        assert_ptr_equal(fabric, (const void *)&cases);
        if (strncmp(reason, cases[i].reason, strlen(cases[i].reason)) != 0) {
            fail_msg("case %u: '%s', not '%s'", i, reason, cases[i].reason);
        }
    }
}

/* 1,024 hosts, 64 leaves and 64 spines make up the papers' largest fabric. */
static void test_large(void **state)
{
    mrail_fabric_t *fabric =
        fabric_of("host h[1-1024]\nleaf l[1-64]\nspine s[1-64]\n"
                  "link h[1-1024] l[1-64] 100Gb block\n"
                  "link l[1-64] s[1-64] 100Gb\n");

    assert_int_equal(fabric->num_links, 1024 + 64 * 64);
    assert_int_equal(fabric->links[1023].addr, 0x0a003f11);
    check_ports(fabric);
    mrail_fabric_destroy(fabric);
}

/* ---- Out of memory ---- */

static int allocations_left = -1; /* < 0: no limit */

static int fails_now(void)
{
    return allocations_left >= 0 && allocations_left-- == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails_now() ? NULL : __real_realloc(old, size);
}

/* Every n-th allocation fails once, and nothing may leak (checked by ASan). */
static void test_out_of_memory(void **state)
{
    int n = 0, ret;

    do {
        mrail_fabric_t *fabric = NULL;
        char reason[512] = "";

        allocations_left = n++;
        ret = mrail_fabric_parse("t", fat_tree, strlen(fat_tree), &fabric,
                                 reason, sizeof(reason));
        allocations_left = -1;
        if (ret == 0) {
            mrail_fabric_destroy(fabric);
        } else {
            assert_int_equal(ret, -ENOMEM);
            assert_null(fabric);
            assert_non_null(strstr(reason, "out of memory"));
        }
    } while (ret != 0);
    assert_true(n > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_tiers), cmocka_unit_test(test_three_tiers),
        cmocka_unit_test(test_indices),   cmocka_unit_test(test_too_few_lanes),
        cmocka_unit_test(test_addresses), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_large),     cmocka_unit_test(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
