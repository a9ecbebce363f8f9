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
        cmocka_unit_test(test_exempt_ports_nvue),
        cmocka_unit_test(test_not_applied),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
