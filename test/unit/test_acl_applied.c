/* Tests of mrail_acl_check() with rules that do not apply to all packets: by
 * their sources, by entries before them, or by the ports of the switch. */
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

static const char *const ports[] = {"Ethernet1", "Ethernet2"};

/* The caller frees the text. `from`: is in the text. */
static char *edited(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    char *all = NULL;

    if (at == NULL) {
        fail_msg("no '%s' in:\n%s", from, text);
    }
    assert_true(asprintf(&all, "%.*s%s%s", (int)(at - text), text, to,
                         at + strlen(from)) > 0);
    return all;
}

typedef struct edit {
    mrail_acl_dialect_t dialect;
    const char *from, *to; /* from: NULL: append `to` */
    const char *part;      /* in the findings; NULL: there are none */
} edit_t;

/* Checks rules for four uplinks and two ports, after an edit. */
static void check_edit(const edit_t *edit)
{
    mrail_acl_t acl = acl_test_options(4);
    acl_test_check_t check;
    char *text, *other;

    acl.ingress = ports;
    acl.num_ingress = MRAIL_ARRAY_SIZE(ports);
    text = acl_test_text(&acl, edit->dialect);
    assert_int_equal(acl_test_check(edit->dialect, text, 4, 1).ret, 0);
    if (edit->from != NULL) {
        other = edited(text, edit->from, edit->to);
    } else {
        assert_true(asprintf(&other, "%s%s", text, edit->to) > 0);
    }
    check = acl_test_check(edit->dialect, other, 4, 1);
    if (edit->part == NULL) {
        assert_string_equal(check.found, "");
        assert_int_equal(check.ret, 0);
    } else {
        acl_test_has(check.found, edit->part);
        assert_int_equal(check.ret, -ERANGE);
    }
    free(other);
    free(text);
}

static void check_edits(const edit_t *edits, unsigned num)
{
    for (unsigned i = 0; i < num; ++i) {
        check_edit(&edits[i]);
    }
}

/* Some hosts lack the rules of some ports. */
static void test_one_source(void **state)
{
    static const edit_t edits[] = {
        {MRAIL_ACL_IOS, "udp any range 57344",
         "udp 10.0.0.0 0.0.0.255 range 57344",
         "the source is 10.0.0.0 0.0.0.255, but that of the rule in line"},
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
        /* Equivalent to a rule without a source. */
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

    check_edits(edits, MRAIL_ARRAY_SIZE(edits));
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

/* Entries without ports take packets away from the rules after them. */
static void test_exempt_hosts(void **state)
{
    static const edit_t edits[] = {
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
         ": ports 0 to 65535 are exempt, from 10.0.0.5\n"},
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

    check_edits(edits, MRAIL_ARRAY_SIZE(edits));
}

/* Statements of nft that take ports away from the rules, or change their mark
 * afterwards. */
static void test_exempt_ports_linux(void **state)
{
    static const char first[] = "        udp dport 4791 udp sport 49152";
    static const char last[] = "    }\n}\nEND\ntrap";
    static const edit_t edits[] = {
        {MRAIL_ACL_LINUX, first,
         "        udp dport 4791 udp sport 60000-60010 drop\n"
         "        udp dport 4791 udp sport 49152",
         ": ports 60000 to 60010 are exempt\n"},
        {MRAIL_ACL_LINUX, first,
         "        udp dport 4791 udp sport 60000-60010 return\n"
         "        udp dport 4791 udp sport 49152",
         ": ports 60000 to 60010 are exempt\n"},
        {MRAIL_ACL_LINUX, first,
         "        udp sport { 53, 60000-60010, 60020 } accept\n"
         "        udp dport 4791 udp sport 49152",
         ": ports 60020 to 60020 are exempt\n"},
        {MRAIL_ACL_LINUX, first,
         "        udp sport != 60000-60010 accept\n"
         "        udp dport 4791 udp sport 49152",
         ": ports 0 to 65535 are exempt\n"},
        {MRAIL_ACL_LINUX, first,
         "        drop\n        udp dport 4791 udp sport 49152",
         ": ports 0 to 65535 are exempt\n"},
        {MRAIL_ACL_LINUX, "dport != 4791 return", "dport 4791 return",
         ": ports 0 to 65535 are exempt\n"},
        {MRAIL_ACL_LINUX, "dport != 4791 return", "dport { 53, 4791 } return",
         ": ports 0 to 65535 are exempt\n"},
        {MRAIL_ACL_LINUX, "dport != 4791 return", "dport != 4790 return",
         ": ports 0 to 65535 are exempt\n"},
        {MRAIL_ACL_LINUX, first,
         "        ip dscp 26 return\n        udp dport 4791 udp sport 49152",
         ": ports 0 to 65535 are exempt\n"},
        {MRAIL_ACL_LINUX, first,
         "        meta l4proto { tcp, udp } return\n"
         "        udp dport 4791 udp sport 49152",
         ": ports 0 to 65535 are exempt\n"},
        {MRAIL_ACL_LINUX, "policy accept", "policy drop",
         ": ports 0 to 65535 are exempt\n"},
        {MRAIL_ACL_LINUX, "counter meta mark set 0x47910003",
         "limit rate 10/second meta mark set 0x47910003",
         ": ports 57344 to 61439 are exempt\n"},
        {MRAIL_ACL_LINUX, "meta mark set 0x47910003",
         "meta mark set 0x47910003 drop",
         ": ports 57344 to 61439 are exempt\n"},
        {MRAIL_ACL_LINUX, NULL,
         "nft insert rule ip mrail_acl prerouting udp sport 60000 drop\n",
         ": ports 60000 to 60000 are exempt\n"},
        {MRAIL_ACL_LINUX, last,
         "        meta mark set 0x47910001\n    }\n}\nEND\ntrap",
         "also match line"},
        {MRAIL_ACL_LINUX, last,
         "        meta mark set 0x5\n    }\n}\nEND\ntrap",
         ": ports 0 to 65535 are exempt\n"},
        {MRAIL_ACL_LINUX, last,
         "        meta mark set ct mark\n    }\n}\nEND\ntrap",
         ": ports 0 to 65535 are exempt\n"},
        {MRAIL_ACL_LINUX, last,
         "        udp dport 4791 drop\n    }\n}\nEND\ntrap",
         ": ports 0 to 65535 are exempt\n"},
        /* These take nothing away. */
        {MRAIL_ACL_LINUX, first,
         "        meta mark set 0x5\n        udp dport 4791 udp sport 49152",
         NULL},
        {MRAIL_ACL_LINUX, last,
         "        ct mark set meta mark\n        accept\n    }\n}\nEND\ntrap",
         NULL},
        {MRAIL_ACL_LINUX, last,
         "    }\n    chain other {\n        udp sport 60000 drop\n"
         "    }\n}\nEND\ntrap",
         NULL},
        {MRAIL_ACL_LINUX, first,
         "        udp sport 53 accept\n        meta l4proto != udp return\n"
         "        ip protocol { tcp, icmp } drop\n"
         "        iifname \"swp9\" return\n"
         "        udp dport 4791 ip daddr 10.0.0.0/24 return\n"
         "        udp dport != { 4790, 4791 } return\n"
         "        udp dport 4791 udp sport 49152",
         NULL},
        {MRAIL_ACL_LINUX, "meta mark set 0x47910003",
         "meta mark set 0x47910003 accept", NULL},
    };

    (void)state;
    check_edits(edits, MRAIL_ARRAY_SIZE(edits));
}

/* The rules are in a chain to which the chain with the hook jumps. */
static void test_exempt_ports_jump(void **state)
{
#define JUMP(_policy, _before, _after)                                         \
    "    chain first {\n        type filter hook prerouting priority 0; "      \
    "policy " _policy ";\n" _before "        jump marks\n" _after              \
    "    }\n    chain marks {\n"
    static const char from[] = "    chain prerouting {\n";
    static const edit_t edits[] = {
        {MRAIL_ACL_LINUX, from,
         JUMP("accept", "        udp dport 4791 return\n", ""),
         ": ports 0 to 65535 are exempt\n"},
        {MRAIL_ACL_LINUX, from,
         JUMP("accept", "", "        udp sport 60000 drop\n"),
         ": ports 60000 to 60000 are exempt\n"},
        {MRAIL_ACL_LINUX, from, JUMP("accept", "", "        mark set 5\n"),
         ": ports 0 to 65535 are exempt\n"},
        {MRAIL_ACL_LINUX, from, JUMP("drop", "", ""),
         ": ports 0 to 65535 are exempt\n"},
        {MRAIL_ACL_LINUX, from, JUMP("accept", "", "        accept\n"), NULL},
    };

    (void)state;
    check_edits(edits, MRAIL_ARRAY_SIZE(edits));
}

/* Chains on the way to the rules, and chains to which a jump leads before or
 * after the rules. */
static void test_exempt_ports_jumps(void **state)
{
#define HOOK "        type filter hook prerouting priority 0; policy accept;\n"
#define CHAINS(_exempt, _first, _marks, _after)                                \
    "    chain exempt {\n        " _exempt "\n    }\n"                         \
    "    chain first {\n" HOOK _first "        jump second\n    }\n"           \
    "    chain second {\n        jump " _marks "\n" _after                     \
    "    }\n    chain marks {\n"
    static const char from[] =
        "    chain prerouting {\n"
        "        type filter hook prerouting priority mangle; policy accept;\n";
    static const edit_t edits[] = {
        {MRAIL_ACL_LINUX, from, CHAINS("", "", "marks", ""), NULL},
        {MRAIL_ACL_LINUX, from,
         CHAINS("", "        udp dport 4791 accept\n", "marks", ""),
         ": ports 0 to 65535 are exempt\n"},
        {MRAIL_ACL_LINUX, from,
         CHAINS("", "", "marks", "        udp sport 60000 drop\n"),
         ": ports 60000 to 60000 are exempt\n"},
        {MRAIL_ACL_LINUX, from,
         CHAINS("udp sport 60000 accept", "        jump exempt\n", "marks", ""),
         ": ports 60000 to 60000 are exempt\n"},
        {MRAIL_ACL_LINUX, from,
         CHAINS("udp sport 60000 drop", "", "marks", "        jump exempt\n"),
         ": ports 60000 to 60000 are exempt\n"},
        /* These end only their own chain, or come after the rules. */
        {MRAIL_ACL_LINUX, from,
         CHAINS("udp sport 60000 return", "        jump exempt\n", "marks", ""),
         NULL},
        {MRAIL_ACL_LINUX, from,
         CHAINS("udp sport 60000 accept", "", "marks", "        jump exempt\n"),
         NULL},
        {MRAIL_ACL_LINUX, from,
         CHAINS("udp sport 60000 accept", "", "marks", ""), NULL},
        /* No chain with a hook leads to the rules. */
        {MRAIL_ACL_LINUX, from, CHAINS("jump marks", "", "exempt2", ""),
         "'marks' is not applied"},
    };

    (void)state;
    check_edits(edits, MRAIL_ARRAY_SIZE(edits));
}

/* Jumps in a circle, which nft would refuse. */
static void test_jumps_in_a_circle(void **state)
{
    static const char text[] = "table ip t {\n    chain a {\n"
                               "        udp dport 4791 drop\n        jump b\n"
                               "    }\n    chain b {\n        jump a\n    }\n"
                               "}\n";
    acl_test_check_t check = acl_test_check(MRAIL_ACL_LINUX, text, 4, 1);

    (void)state;
    assert_int_equal(check.ret, -EINVAL);
    acl_test_has(check.why, "no rule for source ports");
}

/* A routing rule before those of the uplinks takes the packets first. */
static void test_exempt_ports_rules(void **state)
{
    static const char taken[] = ": ports 0 to 65535 are exempt";
    static const edit_t edits[] = {
        {MRAIL_ACL_LINUX, NULL, "ip rule add priority 100 lookup 200\n", taken},
        {MRAIL_ACL_LINUX, NULL, "100:\tfrom all lookup main\n", taken},
        {MRAIL_ACL_LINUX, NULL, "ip rule add table 200\n", taken},
        {MRAIL_ACL_LINUX, NULL, "ip rule add priority 100 blackhole\n", taken},
        {MRAIL_ACL_LINUX, NULL, "100: from all unreachable\n", taken},
        {MRAIL_ACL_LINUX, NULL, "100: from all iif swp1 lookup 200\n", taken},
        {MRAIL_ACL_LINUX, NULL, "100: from all ipproto udp lookup 200\n",
         taken},
        {MRAIL_ACL_LINUX, NULL, "ip rule add pref 100 dport 4791 lookup 200\n",
         taken},
        {MRAIL_ACL_LINUX, NULL, "100: from 10.0.0.0/24 lookup 200\n",
         ": ports 0 to 65535 are exempt, from 10.0.0.0/24\n"},
        {MRAIL_ACL_LINUX, NULL, "100: not from 10.0.0.0/24 lookup 200\n",
         taken},
        {MRAIL_ACL_LINUX, NULL,
         "100: from all fwmark 0x47910000/0xffff0000 lookup 200\n", taken},
        {MRAIL_ACL_LINUX, NULL, "100: from all fwmark 0/0x1 lookup 200\n",
         taken},
        /* Other packets, or later rules. */
        {MRAIL_ACL_LINUX, NULL,
         "0:\tfrom all lookup local\n"
         "1000:\tfrom all lookup [l3mdev-table]\n"
         "100: from all to 10.0.0.0/24 lookup main\n"
         "101: from all fwmark 0x7 lookup 200\n"
         "102: from all iif lo lookup 200\n"
         "103: from all ipproto tcp lookup 200\n"
         "104: from all dport 53 lookup 200\n"
         "105: from all oif swp1 lookup 200\n"
         "106: from all fwmark 0x7/0xff lookup 200\n"
         "107: from all lookup main suppress_prefixlength 0\n"
         "32766:\tfrom all lookup main\n32767:\tfrom all lookup default\n",
         NULL},
    };

    (void)state;
    check_edits(edits, MRAIL_ARRAY_SIZE(edits));
}

/* Lines of many words, and several statements on a line. */
static void test_long_lines(void **state)
{
#define FORTY(_word)                                                           \
    EIGHT(_word) EIGHT(_word) EIGHT(_word) EIGHT(_word) EIGHT(_word)
#define EIGHT(_word) _word _word _word _word _word _word _word _word
    static const edit_t edits[] = {
        {MRAIL_ACL_LINUX, "        udp dport != 4791 return\n",
         "        udp dport != 4791 return; ip ttl 1 counter; udp dport 4791 "
         "drop\n",
         ": ports 0 to 65535 are exempt"},
        {MRAIL_ACL_LINUX, "        udp dport != 4791 return\n",
         "        udp dport != 4791 return\n"
         "        ip protocol udp udp dport { " FORTY("7, ") "4791 } drop\n",
         ": ports 0 to 65535 are exempt"},
        {MRAIL_ACL_LINUX, "        udp dport != 4791 return\n",
         "        udp dport != 4791 return\n# udp dport 7; drop\n", NULL},
    };

    (void)state;
    check_edits(edits, MRAIL_ARRAY_SIZE(edits));
}

/* Commands that add the rules one by one, without a chain block. */
static void test_exempt_ports_commands(void **state)
{
    static const char rules[] =
        "ip route add default via 10.9.1.1 table 7\n"
        "ip rule add fwmark 7 table 7\n"
        "%snft add rule ip t c udp dport 4791 udp sport 49152-65535 meta mark "
        "set 7\n";
    static const char *const before[] = {
        "nft add rule ip t c udp dport 4791 return\n",
        "nft 'add chain ip t c { type filter hook prerouting priority 0; }'\n",
        "nft add rule t other udp dport 4791 return\n"};

    (void)state;
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(before); ++i) {
        acl_test_check_t check;
        char *text = NULL;

        assert_true(asprintf(&text, rules, before[i]) > 0);
        check = acl_test_check(MRAIL_ACL_LINUX, text, 1, 1);
        assert_string_equal(check.found,
                            (i == 0) ? "line 3: ports 0 to 65535 are exempt\n"
                                     : "");
        assert_int_equal(check.ret, (i == 0) ? -ERANGE : 0);
        free(text);
    }
}

/* Marking ends no search, so a rule that denies applies wherever it is. */
static void test_exempt_ports_nvue(void **state)
{
#define DENY(_acl) "nv set acl " _acl " rule 100 action deny\n"
#define MATCH(_acl, _what) "nv set acl " _acl " rule 100 match ip " _what "\n"
    static const edit_t edits[] = {
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
             "source-port 60000") "nv set acl udf rule 100 action police mode packet\n"
                                  "nv set acl udf rule 100 action police rate 100\n",
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
    check_edits(edits, MRAIL_ARRAY_SIZE(edits));
}

/* The rules are correct, but no port has them. */
static void test_not_applied(void **state)
{
    static const char message[] =
        "'udf' is not applied to packets that arrive on any port\n";
    static const edit_t edits[] = {
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
         "'prerouting' is not applied"},
        {MRAIL_ACL_LINUX, "        type filter hook prerouting",
         "        # type filter hook prerouting", "'prerouting' is not"},
        {MRAIL_ACL_LINUX, "    chain prerouting {\n",
         "    chain first {\n        type filter hook prerouting\n"
         "        jump marks\n    }\n    chain marks {\n",
         NULL},
    };
    mrail_acl_t acl = acl_test_options(4);

    check_edits(edits, MRAIL_ARRAY_SIZE(edits));
    acl.ingress = ports;
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
        bad = edited(text, applies[d], other[d]);
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
        cmocka_unit_test(test_exempt_ports_linux),
        cmocka_unit_test(test_exempt_ports_jump),
        cmocka_unit_test(test_exempt_ports_jumps),
        cmocka_unit_test(test_jumps_in_a_circle),
        cmocka_unit_test(test_exempt_ports_rules),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_exempt_ports_commands),
        cmocka_unit_test(test_exempt_ports_nvue),
        cmocka_unit_test(test_not_applied),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
