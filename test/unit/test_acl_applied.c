/* Tests mrail_acl_check() with rules that do not apply to all packets, because
 * of their sources, earlier entries, or the ports of the switch. */
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

/* Some hosts lack the rules of some ports. */
static void test_one_source(void **state)
{
    static const acl_test_edit_t edits[] = {
        {MRAIL_ACL_IOS, "udp any range 57344",
         "udp 10.0.0.0 0.0.0.255 range 57344",
         "the source is 10.0.0.0 0.0.0.255, but the rule in line"},
        {MRAIL_ACL_EOS, "udp any range 57344", "udp host 10.0.0.1 range 57344",
         "the source is host 10.0.0.1, but"},
        {MRAIL_ACL_SONIC, "\"L4_SRC_PORT_RANGE\": \"57344",
         "\"SRC_IP\": \"10.0.0.0/24\", \"L4_SRC_PORT_RANGE\": \"57344",
         "the source is 10.0.0.0/24, but"},
        {MRAIL_ACL_NVUE, "nv set acl udf rule 3 match ip protocol udp",
         "nv set acl udf rule 3 match ip protocol udp\n"
         "nv set acl udf rule 3 match ip source-ip 10.0.0.0/24",
         "the source is 10.0.0.0/24, but"},
        {MRAIL_ACL_LINUX, "udp sport 57344-61439",
         "ip saddr 10.0.0.0/24 udp sport 57344-61439",
         "the source is 10.0.0.0/24, but"},
        {MRAIL_ACL_LINUX, "udp sport 57344-61439",
         "ip saddr != 10.0.0.7 udp sport 57344-61439",
         "the source is not 10.0.0.7, but"},
        {MRAIL_ACL_LINUX, "rule add priority 4793 ",
         "rule add priority 4793 from 10.0.0.0/24 ",
         "ports 57344 to 61439 have no uplink"},
        /* equivalent to a rule without a source */
        {MRAIL_ACL_SONIC, "\"L4_SRC_PORT_RANGE\": \"57344",
         "\"SRC_IP\": \"0.0.0.0/0\", \"L4_SRC_PORT_RANGE\": \"57344", NULL},
        {MRAIL_ACL_NVUE, "nv set acl udf rule 3 match ip protocol udp",
         "nv set acl udf rule 3 match ip protocol udp\n"
         "nv set acl udf rule 3 match ip source-ip ANY",
         NULL},
        {MRAIL_ACL_LINUX, "rule add priority 4793 ",
         "rule add priority 4793 from all ", NULL},
        {MRAIL_ACL_LINUX, "rule add priority 4793 fwmark 0x47910003",
         "rule add priority 4793 sport 57344-61439 dport 4791",
         "also match line"},
    };

    acl_test_edits(edits, MRAIL_ARRAY_SIZE(edits));
}

/* All rules may have the same source, such as the prefix of the hosts. */
static void test_same_source(void **state)
{
    acl_test_check_t check =
        acl_test_check(MRAIL_ACL_IOS,
                       "ip access-list extended a\n"
                       " permit udp 10.0.0.0/24 range 49152 57343 any eq 4791\n"
                       "ip access-list extended b\n"
                       " permit udp 10.0.0.0/24 range 57344 65535 any eq 4791\n"
                       "route-map m permit 10\n match ip address a\n"
                       " set ip next-hop 10.9.0.1\n"
                       "route-map m permit 20\n match ip address b\n"
                       " set ip next-hop 10.9.1.1\n",
                       2, 1);

    assert_string_equal(check.found, "");
    assert_int_equal(check.ret, 0);
}

/* Entries without ports match packets before the rules after them do. */
static void test_exempt_hosts(void **state)
{
    static const acl_test_edit_t edits[] = {
        {MRAIL_ACL_IOS, "  10 permit udp any range 57344",
         "  5 deny udp host 10.0.0.5 any eq 4791\n"
         "  10 permit udp any range 57344",
         ": ports 0 to 65535 are exempt, from host 10.0.0.5\n"},
        {MRAIL_ACL_EOS, "   10 permit udp any range 57344",
         "   5 deny ip any any\n   10 permit udp any range 57344",
         ": ports 0 to 65535 are exempt\n"},
        {MRAIL_ACL_IOS, NULL,
         "ip access-list extended some\n permit ip host 10.0.0.5 any\n"
         "route-map udf deny 5\n match ip address some\n",
         ": ports 0 to 65535 are exempt, from host 10.0.0.5\n"},
        {MRAIL_ACL_EOS, "   10 class udf1", "   5 class some\n   10 class udf1",
         NULL},
        {MRAIL_ACL_EOS, "policy-map type pbr udf",
         "ip access-list some\n   permit ip any any\n"
         "class-map type pbr match-any some\n   match ip access-group some\n"
         "policy-map type pbr udf\n   5 class some",
         ": ports 0 to 65535 are exempt\n"},
        {MRAIL_ACL_SONIC, "\"UDF|UPLINK_1\"",
         "\"UDF|A\": {\"PRIORITY\": \"200\", \"SRC_IP\": \"10.0.0.5/32\", "
         "\"PACKET_ACTION\": \"FORWARD\"}, \"UDF|UPLINK_1\"",
         ": ports 0 to 65535 are exempt, from 10.0.0.5/32\n"},
        {MRAIL_ACL_LINUX, "        udp dport 4791 udp sport 57344",
         "        ip saddr 10.0.0.5 return\n"
         "        udp dport 4791 udp sport 57344",
         ": ports 0 to 65535 are exempt, from 10.0.0.5: 'ip saddr 10.0.0.5 "
         "return' in 'ip mrail_acl prerouting'\n"},
        /* These entries do not matter, because they come after the rules or are
         * for other packets. */
        {MRAIL_ACL_IOS, "route-map udf permit 10",
         "  20 deny ip any any\nroute-map udf permit 10", NULL},
        {MRAIL_ACL_IOS, NULL,
         "ip access-list extended some\n permit ip any any\n"
         "route-map udf deny 500\n match ip address some\n",
         NULL},
        {MRAIL_ACL_SONIC, "\"UDF|UPLINK_1\"",
         "\"UDF|A\": {\"PRIORITY\": \"1\", \"PACKET_ACTION\": \"DROP\"}, "
         "\"UDF|UPLINK_1\"",
         NULL},
        {MRAIL_ACL_SONIC, "\"UDF|UPLINK_1\"",
         "\"T|A\": {\"PRIORITY\": \"200\", \"PACKET_ACTION\": \"DROP\"}, "
         "\"UDF|UPLINK_1\"",
         NULL},
        {MRAIL_ACL_LINUX, "        udp dport 4791 udp sport 57344",
         "        tcp dport 22 ip saddr 10.0.0.5 return\n"
         "        udp dport 4791 udp sport 57344",
         NULL},
    };

    acl_test_edits(edits, MRAIL_ARRAY_SIZE(edits));
}

/* ---- Rules with further conditions ---- */

#define LIST_END "57344 61439 any eq 4791"
#define LIST_PART(_dialect, _words)                                            \
    {                                                                          \
        _dialect, LIST_END, LIST_END " " _words,                               \
            ": ports 57344 to 61439 are exempt: the entry has the condition '" \
    }
#define LIST_FULL(_dialect, _words)                                            \
    {                                                                          \
        _dialect, LIST_END, LIST_END " " _words, NULL                          \
    }
#define MEMBER(_member)                                                        \
    MRAIL_ACL_SONIC, "\"L4_SRC_PORT_RANGE\": \"57344",                         \
        _member ", \"L4_SRC_PORT_RANGE\": \"57344"
#define SONIC_PART(_name, _value)                                                   \
    {                                                                               \
        MEMBER("\"" _name "\": " _value),                                           \
            ": ports 57344 to 61439 are exempt: the rule has the condition '" _name \
            "'"                                                                     \
    }
#define SONIC_FULL(_name, _value)                                              \
    {                                                                          \
        MEMBER("\"" _name "\": " _value), NULL                                 \
    }

/* A rule with a condition that the check does not know leaves some packets of
 * its ports to the ordinary routes. */
static void test_conditions(void **state)
{
    static const acl_test_edit_t edits[] = {
        LIST_PART(MRAIL_ACL_IOS, "fragments"),
        LIST_PART(MRAIL_ACL_IOS, "time-range NIGHT"),
        LIST_PART(MRAIL_ACL_IOS, "precedence critical log"),
        LIST_PART(MRAIL_ACL_IOS, "dscp unknown"),
        LIST_PART(MRAIL_ACL_EOS, "ttl eq 64"),
        LIST_PART(MRAIL_ACL_EOS, "log tos 4"),
        {MRAIL_ACL_IOS, LIST_END, LIST_END " dscp cs3",
         ": the DSCP differs from the rule in line"},
        {MRAIL_ACL_EOS, LIST_END, LIST_END " dscp af31",
         ": the DSCP differs from the rule in line"},
        LIST_FULL(MRAIL_ACL_IOS, "log"),
        LIST_FULL(MRAIL_ACL_IOS, "log-input (25 matches)"),
        LIST_FULL(MRAIL_ACL_EOS, "log [match 25 packets]"),
        {MRAIL_ACL_IOS, "route-map udf permit 30\n",
         "route-map udf permit 30\n  match length 64 128\n",
         ": ports 57344 to 61439 are exempt: the entry of 'udf:30' has a "
         "further match\n"},
        SONIC_PART("IN_PORTS", "\"Ethernet0\""),
        SONIC_PART("IN_PORTS", "[\"Ethernet0\"]"),
        SONIC_PART("ETHER_TYPE", "\"0x86DD\""),
        SONIC_PART("IP_TYPE", "\"IPV6ANY\""),
        SONIC_PART("TCP_FLAGS", "\"0x02/0x02\""),
        SONIC_PART("VLAN_ID", "\"100\""),
        SONIC_FULL("ETHER_TYPE", "\"0x0800\""),
        SONIC_FULL("IP_TYPE", "\"IPV4ANY\""),
        SONIC_FULL("IP_TYPE", "\"any\""),
        SONIC_FULL("MIRROR_INGRESS_ACTION", "\"session\""),
        {MRAIL_ACL_NVUE, NULL, "nv set acl udf rule 3 match ip ecn ect0\n",
         ": ports 57344 to 61439 are exempt: the rule has the condition "
         "'ecn'\n"},
        {MRAIL_ACL_NVUE, NULL,
         "nv set acl udf rule 3 match mac protocol ipv4\n",
         "the rule has the condition 'mac'\n"},
        {MRAIL_ACL_NVUE, NULL, "nv set acl udf rule 3 match ip dscp cs3\n",
         ": the DSCP differs from the rule in line"},
        {MRAIL_ACL_NVUE, NULL,
         "nv set router pbr map udf rule 104 match source-ip 10.0.0.0/24\n",
         "the entry of 'udf:104' has a further match\n"},
        {MRAIL_ACL_NVUE, NULL,
         "nv set acl udf rule 3 match ip ecn ANY\n"
         "nv set acl udf rule 3 match ip dscp ANY\n",
         NULL},
    };

    acl_test_edits(edits, MRAIL_ARRAY_SIZE(edits));
}

/* The same for marks and routing rules of Linux. */
static void test_conditions_linux(void **state)
{
#define MARKS "udp dport 4791 udp sport 57344-61439 "
#define MARK_PART(_words)                                                      \
    {                                                                          \
        MRAIL_ACL_LINUX, MARKS, MARKS _words " ",                              \
            ": ports 57344 to 61439 are exempt: 'udp dport 4791 udp sport "    \
            "57344-61439 " _words                                              \
    }
#define MARK_FULL(_words)                                                      \
    {                                                                          \
        MRAIL_ACL_LINUX, MARKS, MARKS _words " ", NULL                         \
    }
    static const char rule[] = "rule add priority 4793 fwmark 0x47910003 ";
    static const acl_test_edit_t edits[] = {
        MARK_PART("ip daddr 10.1.0.0/16"),
        MARK_PART("ip ttl 64"),
        MARK_PART("ip ecn ect0"),
        MARK_PART("ether saddr 0a:00:00:00:00:01"),
        MARK_PART("vlan id 7"),
        MARK_PART("meta mark 0x5"),
        MARK_PART("ct state new"),
        MARK_PART("iifname \"lo\""),
        {MRAIL_ACL_LINUX, MARKS, MARKS "ip dscp cs3 ",
         ": the DSCP differs from the rule in line"},
        MARK_FULL("ip daddr != { 10.0.0.0/24, 10.0.1.0/24 }"),
        MARK_FULL("iifname { \"swp1\", \"swp2\" }"),
        MARK_FULL("iifname != { swp1, swp2 } meta nfproto ipv4"),
        MARK_FULL("iifname uplink ip version 4 counter"),
        MARK_FULL("ip dscp != { cs1, 26 } meta l4proto { tcp, udp }"),
        MARK_FULL("log prefix \"a long text\" level debug"),
        {MRAIL_ACL_LINUX, "meta mark set 0x47910003",
         "meta mark set 0x47910003 ct state new log", NULL},
        {MRAIL_ACL_LINUX, rule,
         "rule add priority 4793 tos 0x68 fwmark 0x47910003 ",
         "ports 57344 to 61439 have no uplink"},
        {MRAIL_ACL_LINUX, rule,
         "rule add priority 4793 uidrange 0-9 fwmark 0x47910003 ",
         "ports 57344 to 61439 have no uplink"},
    };
    acl_test_check_t check = acl_test_check(
        MRAIL_ACL_LINUX,
        "ip rule add pref 9 sport 49152-65535 dport 4791 tos 0x68 lookup 1\n"
        "default via 10.9.0.1 table 1\n",
        1, 1);

    acl_test_has(check.found,
                 "line 1: ports 49152 to 65535 are exempt: rule 9, ");
    assert_int_equal(check.report.num_unmapped, 1);
    acl_test_edits(edits, MRAIL_ARRAY_SIZE(edits));
}

/* A DSCP may be a number or a name. */
static void test_dscp_names(void **state)
{
#define TWO(_lower, _upper)                                                    \
    "ip access-list extended a\n"                                              \
    " permit udp any range 49152 57343 any eq 4791 dscp " _lower "\n"          \
    "ip access-list extended b\n"                                              \
    " permit udp any range 57344 65535 any eq 4791 dscp " _upper "\n"          \
    "route-map m permit 10\n match ip address a\n set ip next-hop 10.9.0.1\n"  \
    "route-map m permit 20\n match ip address b\n set ip next-hop 10.9.1.1\n"
    static const struct {
        const char *text;
        unsigned num_conflicts;
    } cases[] = {{TWO("26", "af31"), 0}, {TWO("46", "EF"), 0},
                 {TWO("24", "cs3"), 0},  {TWO("0", "default"), 0},
                 {TWO("26", "cs3"), 1},  {TWO("af31", "af32"), 1}};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(cases); ++i) {
        acl_test_check_t check =
            acl_test_check(MRAIL_ACL_IOS, cases[i].text, 2, 1);

        assert_int_equal(check.report.num_conflicts, cases[i].num_conflicts);
        assert_int_equal(check.report.num_unmapped, 0);
        assert_int_equal(check.ret, (cases[i].num_conflicts > 0) ? -ERANGE : 0);
    }
}

/* Marking does not end the search, so a deny rule applies wherever it
 * stands. */
static void test_exempt_ports_nvue(void **state)
{
#define DENY(_acl) "nv set acl " _acl " rule 100 action deny\n"
#define MATCH(_acl, _what) "nv set acl " _acl " rule 100 match ip " _what "\n"
    static const acl_test_edit_t edits[] = {
        {MRAIL_ACL_NVUE, NULL,
         MATCH("udf", "source-port 60000-60010") MATCH("udf", "dest-port 4791")
             DENY("udf"),
         ": ports 60000 to 60010 are exempt\n"},
        {MRAIL_ACL_NVUE, NULL, DENY("udf"), ": ports 0 to 65535 are exempt\n"},
        {MRAIL_ACL_NVUE, NULL, "nv set acl udf rule 3 action deny\n",
         ": ports 57344 to 61439 are exempt\n"},
        {MRAIL_ACL_NVUE, NULL, "nv set acl udf rule 3 action police\n",
         ": ports 57344 to 61439 are exempt\n"},
        {MRAIL_ACL_NVUE, NULL,
         MATCH(
             "udf",
             "source-port 60000") "nv set acl udf rule 100 action police mode "
                                  "packet\n"
                                  "nv set acl udf rule 100 action police rate "
                                  "100\n",
         ": ports 60000 to 60000 are exempt\n"},
        {MRAIL_ACL_NVUE, NULL, MATCH("udf", "dest-port 22") DENY("udf"), NULL},
        {MRAIL_ACL_NVUE, NULL,
         MATCH("udf", "tcp source-port 60000") DENY("udf"), NULL},
        {MRAIL_ACL_NVUE, NULL, MATCH("udf", "source-port 53") DENY("udf"),
         NULL},
        {MRAIL_ACL_NVUE, NULL,
         MATCH("other", "source-port 60000") DENY("other"), NULL},
    };

    (void)state;
    acl_test_edits(edits, MRAIL_ARRAY_SIZE(edits));
}

/* The rules are correct, but are not applied to any port. */
static void test_not_applied(void **state)
{
    static const char message[] =
        "'udf' is not applied to packets that arrive on any port\n";
    static const acl_test_edit_t edits[] = {
        {MRAIL_ACL_IOS, "  ip policy route-map udf\n", "", NULL},
        {MRAIL_ACL_EOS, "   service-policy type pbr input udf\n", "", NULL},
        {MRAIL_ACL_SONIC, "\"Ethernet1\", ", "", NULL},
        {MRAIL_ACL_SONIC, "\"ingress\"", "\"egress\"", "'UDF' is not applied"},
        {MRAIL_ACL_SONIC, "\"UDF\": {\"policy_desc\"",
         "\"OTHER\": {\"policy_desc\"", "'UDF' is not applied"},
        {MRAIL_ACL_NVUE, "interface Ethernet1 acl udf inbound",
         "interface Ethernet1 acl udf outbound",
         "port Ethernet1 has only one of 'udf' and 'udf'"},
        {MRAIL_ACL_NVUE, "interface Ethernet2 router pbr map udf",
         "interface Ethernet2 router pbr map old",
         "port Ethernet2 has only one of"},
        {MRAIL_ACL_LINUX, "hook prerouting", "hook postrouting",
         "'ip mrail_acl prerouting' is not applied"},
        {MRAIL_ACL_LINUX, "        type filter hook prerouting",
         "        # type filter hook prerouting",
         "'ip mrail_acl prerouting' is not"},
        {MRAIL_ACL_LINUX, "    chain prerouting {\n",
         "    chain first {\n        type filter hook prerouting\n"
         "        jump marks\n    }\n    chain marks {\n",
         NULL},
    };
    mrail_acl_t acl = acl_test_options(4);

    acl_test_edits(edits, MRAIL_ARRAY_SIZE(edits));
    acl.ingress = acl_test_ports;
    acl.num_ingress = 1;
    for (unsigned d = 0; d < MRAIL_ACL_NUM_DIALECTS; ++d) {
        static const char *const applies[] = {
            [MRAIL_ACL_IOS] = "ip policy route-map udf",
            [MRAIL_ACL_EOS] = "input udf",
            [MRAIL_ACL_SONIC] = "\"ports\"",
            [MRAIL_ACL_NVUE] = "interface Ethernet1 router pbr map udf",
            [MRAIL_ACL_LINUX] = NULL,
        };
        static const char *const other[] = {
            [MRAIL_ACL_IOS] = "ip policy route-map old",
            [MRAIL_ACL_EOS] = "input old",
            [MRAIL_ACL_SONIC] = "\"services\"",
            [MRAIL_ACL_NVUE] = "interface Ethernet1 router pbr map old",
            [MRAIL_ACL_LINUX] = NULL,
        };
        acl_test_check_t check;
        char *text, *bad;

        if (applies[d] == NULL) {
            continue;
        }
        text = acl_test_text(&acl, (mrail_acl_dialect_t)d);
        bad = acl_test_edited(text, applies[d], other[d]);
        check = acl_test_check((mrail_acl_dialect_t)d, bad, 4, 1);
        acl_test_has(check.found,
                     (d == MRAIL_ACL_SONIC) ? "'UDF' is not applied" : message);
        assert_int_equal(check.report.num_unapplied, 1);
        assert_int_equal(check.ret, -ERANGE);
        free(bad);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_source),
        cmocka_unit_test(test_same_source),
        cmocka_unit_test(test_exempt_hosts),
        cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_conditions_linux),
        cmocka_unit_test(test_dscp_names),
        cmocka_unit_test(test_exempt_ports_nvue),
        cmocka_unit_test(test_not_applied),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
