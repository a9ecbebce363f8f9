/* Tests switch rules: the texts that src/fabric/acl.h writes, and rejected
 * options. */
#include "config.h"
#include "acl_texts.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/util.h"
#include "orchestrator/ports.h"

/* ---- The paper ---- */

/* The listing of [CTCCL] 4.1. The paper prints the first two and the last of
 * its eight parts. Its next hops leave out four addresses, because the leaf's
 * ports 51 to 54 lead to one spine, and ports 59 to 62 to the other. */
static const char printed[] =
    "ip access-list extended udf1\n"
    "  10 permit udp any range 49152 51199 any eq 4791\n"
    "ip access-list extended udf2\n"
    "  10 permit udp any range 51200 53247 any eq 4791\n"
    "ip access-list extended udf3\n"
    "  10 permit udp any range 53248 55295 any eq 4791\n"
    "ip access-list extended udf4\n"
    "  10 permit udp any range 55296 57343 any eq 4791\n"
    "ip access-list extended udf5\n"
    "  10 permit udp any range 57344 59391 any eq 4791\n"
    "ip access-list extended udf6\n"
    "  10 permit udp any range 59392 61439 any eq 4791\n"
    "ip access-list extended udf7\n"
    "  10 permit udp any range 61440 63487 any eq 4791\n"
    "ip access-list extended udf8\n"
    "  10 permit udp any range 63488 65535 any eq 4791\n"
    "route-map udf permit 10\n"
    "  match ip address udf 1\n"
    "  set ip next-hop 100.98.0.10\n"
    "!\n"
    "route-map udf permit 20\n"
    "  match ip address udf 2\n"
    "  set ip next-hop 100.98.0.14\n"
    "!\n"
    "route-map udf permit 30\n"
    "  match ip address udf 3\n"
    "  set ip next-hop 100.98.0.18\n"
    "!\n"
    "route-map udf permit 40\n"
    "  match ip address udf 4\n"
    "  set ip next-hop 100.98.0.22\n"
    "!\n"
    "route-map udf permit 50\n"
    "  match ip address udf 5\n"
    "  set ip next-hop 100.98.0.42\n"
    "!\n"
    "route-map udf permit 60\n"
    "  match ip address udf 6\n"
    "  set ip next-hop 100.98.0.46\n"
    "!\n"
    "route-map udf permit 70\n"
    "  match ip address udf 7\n"
    "  set ip next-hop 100.98.0.50\n"
    "!\n"
    "route-map udf permit 80\n"
    "  match ip address udf 8\n"
    "  set ip next-hop 100.98.0.54\n"
    "!\n";

static mrail_acl_t paper_options(void)
{
    static const unsigned last_bytes[] = {10, 14, 18, 22, 42, 46, 50, 54};
    mrail_acl_t acl = acl_test_options(8);

    for (unsigned i = 0; i < 8; ++i) {
        snprintf(acl_test_next_hops[i], sizeof(acl_test_next_hops[i]),
                 "100.98.0.%u", last_bytes[i]);
    }
    return acl;
}

static void test_paper_as_printed(void **state)
{
    mrail_acl_t acl = paper_options();
    char *text;
    acl_test_check_t check;

    (void)state;
    acl.as_printed = 1;
    text = acl_test_text(&acl, MRAIL_ACL_IOS);
    assert_string_equal(text, printed);
    /* A switch would misread the printed form, because the names of its access
     * lists contain a blank. The check must report this. */
    check = acl_test_check(MRAIL_ACL_IOS, text, 8, 1);
    assert_int_equal(check.ret, -ERANGE);
    assert_int_equal(check.report.num_unmapped, 8);
    acl_test_has(check.found, "line 18: there is no access list 'udf';");
    free(text);
}

/* By default, the text has the same lines without the blank, with comments
 * between them. */
static void test_paper_by_default(void **state)
{
    mrail_acl_t acl = paper_options();
    char *text = acl_test_text(&acl, MRAIL_ACL_IOS), *want = strdup(printed);
    acl_test_check_t check;
    char *blank;

    (void)state;
    while ((blank = strstr(want, "address udf ")) != NULL) {
        memmove(blank + 11, blank + 12, strlen(blank + 12) + 1);
    }
    acl_test_has(text, want);
    acl_test_has(text, "match ip address udf1\n");
    check = acl_test_check(MRAIL_ACL_IOS, text, 8, 1);
    assert_int_equal(check.ret, 0);
    assert_int_equal(check.report.num_rules, 8);
    assert_int_equal(check.report.num_targets, 8);
    assert_string_equal(check.found, "");
    free(want);
    free(text);
}

/* ---- Round trip ---- */

static void write_and_check(const mrail_acl_t *acl, mrail_acl_dialect_t dialect)
{
    char reason[256], *text;
    acl_test_check_t check;

    if (mrail_acl_validate_dialect(acl, dialect, reason, sizeof(reason)) != 0) {
        /* only NVUE has fewer marks than a switch can have uplinks */
        assert_int_equal(dialect, MRAIL_ACL_NVUE);
        assert_true(acl->num_uplinks > 31);
        acl_test_has(reason, "NVUE marks each uplink with its own DSCP");
        return;
    }
    text = acl_test_text(acl, dialect);
    check = acl_test_check(dialect, text, acl->num_uplinks, acl->leaf_uplinks);
    if (check.ret != 0) {
        fail_msg("%s, %u uplinks: %d %s\n%s\n%s",
                 mrail_acl_dialect_name(dialect), acl->num_uplinks, check.ret,
                 check.reason, check.found, text);
    }
    assert_int_equal(check.report.num_rules,
                     acl->num_uplinks * acl->leaf_uplinks);
    assert_int_equal(check.report.num_targets, acl->num_uplinks);
    /* With 0, the check counts the next hops itself. The result must be the
     * same. */
    assert_int_equal(acl_test_check(dialect, text, 0, acl->leaf_uplinks).ret,
                     0);
    free(text);
}

static void test_round_trip(void **state)
{
    static const char *const ports[] = {"Ethernet0", "Ethernet4"};
    static const char *const local[] = {"10.0.0.0/24", "10.1.0.0/16"};

    (void)state;
    for (unsigned d = 0; d < MRAIL_ACL_NUM_DIALECTS; ++d) {
        for (unsigned num = 1; num <= 64; ++num) {
            mrail_acl_t acl = acl_test_options(num);

            write_and_check(&acl, (mrail_acl_dialect_t)d);
            acl.dscp = num % 64;
            acl.failure = MRAIL_ACL_DROP;
            acl.ingress = ports;
            acl.num_ingress = MRAIL_ARRAY_SIZE(ports);
            acl.local = local;
            acl.num_local = MRAIL_ARRAY_SIZE(local);
            write_and_check(&acl, (mrail_acl_dialect_t)d);
        }
    }
}

static void test_largest(void **state)
{
    mrail_acl_t acl = acl_test_options(256);

    (void)state;
    for (unsigned d = 0; d < MRAIL_ACL_NUM_DIALECTS; ++d) {
        write_and_check(&acl, (mrail_acl_dialect_t)d);
    }
}

static void test_three_tiers(void **state)
{
    static const unsigned sizes[][2] = {{1, 2},   {4, 8},  {3, 7},
                                        {16, 16}, {64, 4}, {5, 31}};

    (void)state;
    for (unsigned d = 0; d < MRAIL_ACL_NUM_DIALECTS; ++d) {
        for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(sizes); ++i) {
            mrail_acl_t acl = acl_test_options(sizes[i][0]);

            acl.leaf_uplinks = sizes[i][1];
            write_and_check(&acl, (mrail_acl_dialect_t)d);
        }
    }
}

/* In both tiers, the source port of a lane must be in the range of the uplink
 * that the lane is meant to use. */
static void test_ranges_have_the_lanes(void **state)
{
    (void)state;
    for (unsigned leaf = 2; leaf <= 40; leaf += 3) {
        for (unsigned spine = 1; spine <= 20; spine += 3) {
            mrail_acl_t acl = acl_test_options(spine);

            acl.leaf_uplinks = leaf;
            for (unsigned lane = 0; lane < leaf * spine; ++lane) {
                uint16_t port =
                    mrail_ports_lane_nested(leaf, spine, 0, leaf * spine, lane);
                uint16_t first, last;

                mrail_acl_range(&acl, (lane / leaf) % spine, lane % leaf,
                                &first, &last);
                assert_in_range(port, first, last);
                assert_int_equal(port, first);
            }
        }
    }
}

/* The segments of the rules differ from those of the lanes, because the rules
 * were written for a fabric with a different number of uplinks. */
static void test_other_uplinks(void **state)
{
    mrail_acl_t acl = acl_test_options(6);

    (void)state;
    for (unsigned d = 0; d < MRAIL_ACL_NUM_DIALECTS; ++d) {
        char *text = acl_test_text(&acl, (mrail_acl_dialect_t)d);
        acl_test_check_t check =
            acl_test_check((mrail_acl_dialect_t)d, text, 8, 1);

        assert_int_equal(check.ret, -ERANGE);
        assert_true(check.report.num_misplaced > 0);
        assert_int_equal(check.report.num_holes, 0);
        assert_int_equal(check.report.num_overlaps, 0);
        free(text);
    }
}

/* ---- Content of the text ---- */

static void test_dscp(void **state)
{
    static const char *const words[] = {
        [MRAIL_ACL_IOS] = "any eq 4791 dscp 26\n",
        [MRAIL_ACL_EOS] = "any eq 4791 dscp 26\n",
        [MRAIL_ACL_SONIC] = "\"DSCP\": \"26\"",
        [MRAIL_ACL_NVUE] = "rule 2 match ip dscp 26\n",
        [MRAIL_ACL_LINUX] = "57344-65535 ip dscp 26 counter",
    };
    mrail_acl_t acl = acl_test_options(2);

    (void)state;
    acl.dscp = 26;
    for (unsigned d = 0; d < MRAIL_ACL_NUM_DIALECTS; ++d) {
        char *text = acl_test_text(&acl, (mrail_acl_dialect_t)d);

        acl_test_has(text, words[d]);
        free(text);
    }
}

/* Some lines implement drop mode, and must be absent in fall-through mode. */
static void test_failure_modes(void **state)
{
    static const char *const words[] = {
        [MRAIL_ACL_IOS] = "  set interface Null0\n",
        [MRAIL_ACL_EOS] = "ip policy unresolved-nexthop action drop\n",
        [MRAIL_ACL_NVUE] = "nv set router pbr map udf rule 203 action vrf "
                           "udf_drop\n",
        [MRAIL_ACL_LINUX] = "blackhole default metric 4294967295 table 479102",
    };

    (void)state;
    for (unsigned d = 0; d < MRAIL_ACL_NUM_DIALECTS; ++d) {
        mrail_acl_t acl = acl_test_options(2);
        char *without = acl_test_text(&acl, (mrail_acl_dialect_t)d), *with;

        acl.failure = MRAIL_ACL_DROP;
        with = acl_test_text(&acl, (mrail_acl_dialect_t)d);
        if (d == MRAIL_ACL_SONIC) {
            /* SONiC cannot fall through. The text of that mode must point this
             * out, unless it may contain only JSON. */
            acl_test_has(without, "SONiC keeps the rule");
            acl_test_lacks(with, "SONiC keeps the rule");
        } else {
            acl_test_has(with, words[d]);
            acl_test_lacks(without, words[d]);
        }
        free(with);
        free(without);
    }
}

static void test_ports_and_prefixes(void **state)
{
    static const char *const ports[] = {"Ethernet0", "Ethernet4"};
    static const char *const local[] = {"10.0.8.0/22"};
    static const char *const words[][2] = {
        [MRAIL_ACL_IOS] = {"interface Ethernet4\n  ip policy route-map udf\n",
                           "  10 permit ip any 10.0.8.0 0.0.3.255\n"},
        [MRAIL_ACL_EOS] = {"interface Ethernet4\n   service-policy type pbr "
                           "input udf\n",
                           "   10 permit ip any 10.0.8.0/22\n"},
        [MRAIL_ACL_SONIC] = {"\"ports\": [\"Ethernet0\", \"Ethernet4\"]",
                             "\"DST_IP\": \"10.0.8.0/22\", \"PACKET_ACTION\": "
                             "\"FORWARD\""},
        [MRAIL_ACL_NVUE] = {"nv set interface Ethernet4 router pbr map udf\n",
                            "rule 1 match destination-ip 10.0.8.0/22\n"},
        [MRAIL_ACL_LINUX] =
            {"iifname != { \"Ethernet0\", \"Ethernet4\" } return",
             "priority 4790 to 10.0.8.0/22 lookup main"},
    };
    mrail_acl_t acl = acl_test_options(2);

    (void)state;
    acl.ingress = ports;
    acl.num_ingress = MRAIL_ARRAY_SIZE(ports);
    acl.local = local;
    acl.num_local = MRAIL_ARRAY_SIZE(local);
    for (unsigned d = 0; d < MRAIL_ACL_NUM_DIALECTS; ++d) {
        char *text = acl_test_text(&acl, (mrail_acl_dialect_t)d);

        acl_test_has(text, words[d][0]);
        acl_test_has(text, words[d][1]);
        free(text);
    }
}

/* '/' separates the names in a JSON pointer. */
static void test_sonic_undo_escapes(void **state)
{
    static const char *const ports[] = {"Ethernet1/1", "a~b/c"};
    mrail_acl_t acl = acl_test_options(2);
    char *undo;

    acl.ingress = ports;
    acl.num_ingress = 2;
    undo = acl_test_vrfs(&acl, MRAIL_ACL_SONIC, 1);
    acl_test_has(undo, "\"/INTERFACE/Ethernet1~11/vrf_name\"");
    acl_test_has(undo, "\"/INTERFACE/a~0b~1c/vrf_name\"");
    acl_test_has(undo, "\"/VRF/Vrfudf1\"");
    free(undo);
}

/* The undo text must remove everything that the rules create. */
static void test_undo(void **state)
{
    static const char *const local[] = {"10.0.8.0/22"};
    static const char *const words[][3] = {
        [MRAIL_ACL_IOS] = {"no route-map udf\n",
                           "no ip access-list extended udf2\n",
                           "no ip access-list extended udf_local\n"},
        [MRAIL_ACL_EOS] = {"no policy-map type pbr udf\n",
                           "no class-map type pbr match-any udf2\n",
                           "no ip policy unresolved-nexthop action drop\n"},
        [MRAIL_ACL_SONIC] =
            {"{\"op\": \"remove\", \"path\": \"/ACL_TABLE/UDF\"}",
             "/ACL_RULE/UDF|UPLINK_2\"", "/ACL_TABLE_TYPE/UDF_TYPE\""},
        [MRAIL_ACL_NVUE] = {"nv unset router pbr map udf\n",
                            "nv unset router nexthop group udf2\n",
                            "nv unset vrf udf_drop\n"},
        [MRAIL_ACL_LINUX] = {"delete table ip mrail_acl'", "ip -4 rule flush ",
                             "ip -4 route flush "},
    };
    mrail_acl_t acl = acl_test_options(2);

    (void)state;
    acl.failure = MRAIL_ACL_DROP;
    acl.dscp = 26;
    acl.local = local;
    acl.num_local = 1;
    for (unsigned d = 0; d < MRAIL_ACL_NUM_DIALECTS; ++d) {
        char *text = acl_test_undo(&acl, (mrail_acl_dialect_t)d);

        for (unsigned i = 0; i < 3; ++i) {
            acl_test_has(text, words[d][i]);
        }
        free(text);
    }
}

/* Two leaves have two links each. The first links of both leaves share a VRF,
 * and so do the second links. */
static void test_vrfs(void **state)
{
    static const char *const ports[] = {"p1", "p2", "p3", "p4"};
    static const char *const words[][2] = {
        [MRAIL_ACL_IOS] = {"interface p4\n  vrf forwarding udf2\n",
                           "no vrf definition udf2\n"},
        [MRAIL_ACL_EOS] = {"interface p4\n   vrf udf2\n",
                           "no vrf instance udf2\n"},
        [MRAIL_ACL_SONIC] = {"\"p4\": {\"vrf_name\": \"Vrfudf2\"}",
                             "\"/VRF/Vrfudf2\""},
        [MRAIL_ACL_NVUE] = {"nv set interface p4 ip vrf udf2\n",
                            "nv unset vrf udf2\n"},
        [MRAIL_ACL_LINUX] = {"ip link set p4 master udf2\n",
                             "ip link delete udf2 "},
    };
    mrail_acl_t acl = acl_test_options(2);
    char reason[256];

    (void)state;
    acl.ingress = ports;
    acl.num_ingress = MRAIL_ARRAY_SIZE(ports);
    for (unsigned d = 0; d < MRAIL_ACL_NUM_DIALECTS; ++d) {
        char *with = acl_test_vrfs(&acl, (mrail_acl_dialect_t)d, 0);
        char *undo = acl_test_vrfs(&acl, (mrail_acl_dialect_t)d, 1);

        acl_test_has(with, words[d][0]);
        acl_test_has(undo, words[d][1]);
        free(undo);
        free(with);
    }
    assert_int_equal(mrail_acl_validate_vrfs(&acl, reason, sizeof(reason)), 0);
    acl.num_ingress = 3;
    assert_int_equal(mrail_acl_validate_vrfs(&acl, reason, sizeof(reason)),
                     -EINVAL);
    acl_test_has(reason, "the number of ports (3)");
}

/* A switch rejects the placeholder, so the check must treat it as a missing
 * uplink. */
static void test_placeholders(void **state)
{
    mrail_acl_t acl = acl_test_options(3);

    (void)state;
    acl_test_uplinks[1].next_hop = NULL;
    for (unsigned d = 0; d < MRAIL_ACL_NUM_DIALECTS; ++d) {
        char *text = acl_test_text(&acl, (mrail_acl_dialect_t)d);
        acl_test_check_t check =
            acl_test_check((mrail_acl_dialect_t)d, text, 3, 1);

        acl_test_has(text, "NEXT_HOP_2");
        assert_int_equal(check.ret, -ERANGE);
        assert_int_equal(check.report.num_unmapped, 1);
        assert_int_equal(check.report.num_holes, 0);
        free(text);
    }
}

/* ---- Rejected options ---- */

static void refused(const mrail_acl_t *acl, const char *part)
{
    char reason[256] = "";

    assert_int_equal(mrail_acl_validate(acl, reason, sizeof(reason)), -EINVAL);
    acl_test_has(reason, part);
}

static void test_refused_numbers(void **state)
{
    mrail_acl_t acl = acl_test_options(0);

    (void)state;
    refused(&acl, "0 uplinks: a switch can have 1 to 256");
    acl.num_uplinks = 257;
    refused(&acl, "257 uplinks");
    acl = acl_test_options(8);
    acl.leaf_uplinks = 0;
    refused(&acl, "0 leaf uplinks");
    acl = acl_test_options(200);
    acl.leaf_uplinks = 100;
    refused(&acl, "a leaf segment has only 163 ports");
    acl = acl_test_options(8);
    acl.dscp = 64;
    refused(&acl, "DSCP 64 is not a number from 0 to 63");
}

static void test_refused_names(void **state)
{
    static const char *const names[] = {"",    "1a",         "a b",
                                        "a-b", "ten_letter", "a;b"};
    static const char *const ports[] = {"", "a b", "-a", "a\"b", "a;b", "a\nb"};
    static const char *const prefixes[] = {
        "10.0.0.0",   "10.0.0.1/24", "10.0.0.0/33",
        "10.0.0.0/0", "x/8",         "1000.0000.0000.0000/8"};
    mrail_acl_t acl = acl_test_options(8);

    (void)state;
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(names); ++i) {
        acl = acl_test_options(8);
        acl.name = names[i];
        refused(&acl, "1 to 9 letters");
    }
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(ports); ++i) {
        acl = acl_test_options(8);
        acl.ingress = &ports[i];
        acl.num_ingress = 1;
        refused(&acl, "is not a port name");
        acl = acl_test_options(8);
        acl_test_uplinks[3].port = ports[i];
        refused(&acl, "of uplink 4 is not a port name");
    }
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(prefixes); ++i) {
        acl = acl_test_options(8);
        acl.local = &prefixes[i];
        acl.num_local = 1;
        refused(&acl, "is not an IPv4 prefix");
    }
}

static void test_refused_lists(void **state)
{
    static const char *const twice[] = {"a", "b", "a"};
    mrail_acl_t acl = acl_test_options(8);
    char reason[256];

    (void)state;
    acl_test_uplinks[2].next_hop = "10.9.0.256";
    refused(&acl, "next hop '10.9.0.256' of uplink 3 is not an IPv4 address");
    acl_test_uplinks[2].next_hop = acl_test_uplinks[0].next_hop;
    refused(&acl, "uplinks 1 and 3 have the same next hop");
    acl = acl_test_options(8);
    acl.ingress = twice;
    acl.num_ingress = 3;
    refused(&acl, "port a appears twice");
    acl = acl_test_options(8);
    acl.as_printed = 1;
    assert_int_equal(
        mrail_acl_validate_dialect(&acl, MRAIL_ACL_EOS, reason, sizeof(reason)),
        -EINVAL);
    acl_test_has(reason, "ios dialect");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paper_as_printed),
        cmocka_unit_test(test_paper_by_default),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_largest),
        cmocka_unit_test(test_three_tiers),
        cmocka_unit_test(test_ranges_have_the_lanes),
        cmocka_unit_test(test_other_uplinks),
        cmocka_unit_test(test_dscp),
        cmocka_unit_test(test_failure_modes),
        cmocka_unit_test(test_ports_and_prefixes),
        cmocka_unit_test(test_undo),
        cmocka_unit_test(test_sonic_undo_escapes),
        cmocka_unit_test(test_vrfs),
        cmocka_unit_test(test_placeholders),
        cmocka_unit_test(test_refused_numbers),
        cmocka_unit_test(test_refused_names),
        cmocka_unit_test(test_refused_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
