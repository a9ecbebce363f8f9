/* Tests mrail_acl_check() with Linux routers: statements of nft and routing
 * rules that match packets before the rules of the uplinks do. */
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

/* ---- The chain of the marks ---- */

/* nft statements that match ports before the rules do, or change the mark
 * afterwards. */
static void test_exempt_ports_linux(void **state)
{
    static const char first[] = "        udp dport 4791 udp sport 49152";
    static const char last[] = "    }\n}\nEND\ntrap";
    static const acl_test_edit_t edits[] = {
        {MRAIL_ACL_LINUX, first,
         "        udp dport 4791 udp sport 60000-60010 drop\n"
         "        udp dport 4791 udp sport 49152",
         ": ports 60000 to 60010 are exempt: "},
        {MRAIL_ACL_LINUX, first,
         "        udp dport 4791 udp sport 60000-60010 return\n"
         "        udp dport 4791 udp sport 49152",
         ": ports 60000 to 60010 are exempt: "},
        {MRAIL_ACL_LINUX, first,
         "        udp sport { 53, 60000-60010, 60020 } accept\n"
         "        udp dport 4791 udp sport 49152",
         ": ports 60020 to 60020 are exempt: "},
        {MRAIL_ACL_LINUX, first,
         "        udp sport != 60000-60010 accept\n"
         "        udp dport 4791 udp sport 49152",
         ": ports 0 to 65535 are exempt: "},
        {MRAIL_ACL_LINUX, first,
         "        drop\n        udp dport 4791 udp sport 49152",
         ": ports 0 to 65535 are exempt: "},
        {MRAIL_ACL_LINUX, "dport != 4791 return", "dport 4791 return",
         ": ports 0 to 65535 are exempt: "},
        {MRAIL_ACL_LINUX, "dport != 4791 return", "dport { 53, 4791 } return",
         ": ports 0 to 65535 are exempt: "},
        {MRAIL_ACL_LINUX, "dport != 4791 return", "dport != 4790 return",
         ": ports 0 to 65535 are exempt: "},
        {MRAIL_ACL_LINUX, first,
         "        ip dscp 26 return\n        udp dport 4791 udp sport 49152",
         ": ports 0 to 65535 are exempt: "},
        {MRAIL_ACL_LINUX, first,
         "        meta l4proto { tcp, udp } return\n"
         "        udp dport 4791 udp sport 49152",
         ": ports 0 to 65535 are exempt: "},
        {MRAIL_ACL_LINUX, "policy accept", "policy drop",
         ": ports 0 to 65535 are exempt: "},
        {MRAIL_ACL_LINUX, "counter meta mark set 0x47910003",
         "limit rate 10/second meta mark set 0x47910003",
         ": ports 57344 to 61439 are exempt: "},
        {MRAIL_ACL_LINUX, "meta mark set 0x47910003",
         "meta mark set 0x47910003 drop",
         ": ports 57344 to 61439 are exempt: "},
        {MRAIL_ACL_LINUX, NULL,
         "nft insert rule ip mrail_acl prerouting udp sport 60000 drop\n",
         ": ports 60000 to 60000 are exempt: "},
        {MRAIL_ACL_LINUX, last,
         "        meta mark set 0x47910001\n    }\n}\nEND\ntrap",
         "also match line"},
        {MRAIL_ACL_LINUX, last,
         "        meta mark set 0x5\n    }\n}\nEND\ntrap",
         ": ports 0 to 65535 are exempt: "},
        {MRAIL_ACL_LINUX, last,
         "        meta mark set ct mark\n    }\n}\nEND\ntrap",
         ": ports 0 to 65535 are exempt: "},
        {MRAIL_ACL_LINUX, last,
         "        udp dport 4791 drop\n    }\n}\nEND\ntrap",
         ": ports 0 to 65535 are exempt: "},
        /* these match none of the packets */
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
    acl_test_edits(edits, MRAIL_ARRAY_SIZE(edits));
}

/* The rules are in a chain to which the chain with the hook jumps. */
static void test_exempt_ports_jump(void **state)
{
#define JUMP(_policy, _before, _after)                                         \
    "    chain first {\n        type filter hook prerouting priority 0; "      \
    "policy " _policy ";\n" _before "        jump marks\n" _after              \
    "    }\n    chain marks {\n"
    static const char from[] = "    chain prerouting {\n";
    static const acl_test_edit_t edits[] = {
        {MRAIL_ACL_LINUX, from,
         JUMP("accept", "        udp dport 4791 return\n", ""),
         ": ports 0 to 65535 are exempt: "},
        {MRAIL_ACL_LINUX, from,
         JUMP("accept", "", "        udp sport 60000 drop\n"),
         ": ports 60000 to 60000 are exempt: "},
        {MRAIL_ACL_LINUX, from, JUMP("accept", "", "        mark set 5\n"),
         ": ports 0 to 65535 are exempt: "},
        {MRAIL_ACL_LINUX, from, JUMP("drop", "", ""),
         ": ports 0 to 65535 are exempt: "},
        {MRAIL_ACL_LINUX, from, JUMP("accept", "", "        accept\n"), NULL},
    };

    (void)state;
    acl_test_edits(edits, MRAIL_ARRAY_SIZE(edits));
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
    static const acl_test_edit_t edits[] = {
        {MRAIL_ACL_LINUX, from, CHAINS("", "", "marks", ""), NULL},
        {MRAIL_ACL_LINUX, from,
         CHAINS("", "        udp dport 4791 accept\n", "marks", ""),
         ": ports 0 to 65535 are exempt: "},
        {MRAIL_ACL_LINUX, from,
         CHAINS("", "", "marks", "        udp sport 60000 drop\n"),
         ": ports 60000 to 60000 are exempt: "},
        {MRAIL_ACL_LINUX, from,
         CHAINS("udp sport 60000 accept", "        jump exempt\n", "marks", ""),
         ": ports 60000 to 60000 are exempt: "},
        {MRAIL_ACL_LINUX, from,
         CHAINS("udp sport 60000 drop", "", "marks", "        jump exempt\n"),
         ": ports 60000 to 60000 are exempt: "},
        /* These end only their own chain, or follow the rules. */
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
         "'ip mrail_acl marks' is not applied"},
    };

    (void)state;
    acl_test_edits(edits, MRAIL_ARRAY_SIZE(edits));
}

/* Only some packets take the jump to the chain of the marks. */
static void test_conditional_jumps(void **state)
{
    static const char from[] =
        "    chain prerouting {\n"
        "        type filter hook prerouting priority mangle; policy accept;\n";
#define PARTLY "has a further condition"
#define JUMPS(_jumps)                                                          \
    "    chain first {\n" HOOK _jumps "    }\n    chain marks {\n"
    static const acl_test_edit_t edits[] = {
        {MRAIL_ACL_LINUX, from, JUMPS("        jump marks\n"), NULL},
        {MRAIL_ACL_LINUX, from, JUMPS("        udp dport 4791 jump marks\n"),
         NULL},
        {MRAIL_ACL_LINUX, from, JUMPS("        iifname swp1 jump marks\n"),
         NULL},
        {MRAIL_ACL_LINUX, from,
         JUMPS("        iifname { swp1, swp2 } counter packets 0 bytes 0 "
               "jump marks\n"),
         NULL},
        {MRAIL_ACL_LINUX, from,
         JUMPS("        ip saddr 10.9.0.0/16 jump marks\n"), PARTLY},
        {MRAIL_ACL_LINUX, from, JUMPS("        ip dscp 26 jump marks\n"),
         PARTLY},
        {MRAIL_ACL_LINUX, from,
         JUMPS("        udp sport 50000-60000 jump marks\n"), PARTLY},
        {MRAIL_ACL_LINUX, from,
         JUMPS("        limit rate 9/second goto marks\n"), PARTLY},
        {MRAIL_ACL_LINUX, from, JUMPS("        ip ttl 64 jump marks\n"),
         PARTLY},
        {MRAIL_ACL_LINUX, from, JUMPS("        udp dport 53 jump marks\n"),
         PARTLY},
        /* All packets take the second jump. */
        {MRAIL_ACL_LINUX, from,
         JUMPS("        ip ttl 64 jump marks\n        jump marks\n"), NULL},
        /* A chain between them. */
        {MRAIL_ACL_LINUX, from,
         JUMPS("        ip ttl 64 jump mid\n    }\n    chain mid {\n        "
               "jump marks\n"),
         PARTLY},
    };

    (void)state;
    acl_test_edits(edits, MRAIL_ARRAY_SIZE(edits));
}

/* A cycle of jumps, which nft would reject. */
static void test_jumps_in_a_circle(void **state)
{
    static const char text[] = "table ip t {\n    chain a {\n"
                               "        udp dport 4791 drop\n        jump b\n"
                               "    }\n    chain b {\n        jump a\n    }\n"
                               "}\n";
    acl_test_check_t check = acl_test_check(MRAIL_ACL_LINUX, text, 4, 1);

    (void)state;
    assert_int_equal(check.ret, -EINVAL);
    acl_test_has(check.reason, "no rule for source ports");
}

/* A routing rule before those of the uplinks matches the packets first. */
static void test_exempt_ports_rules(void **state)
{
    static const char taken[] = ": ports 0 to 65535 are exempt";
    static const acl_test_edit_t edits[] = {
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
         ": ports 0 to 65535 are exempt, from 10.0.0.0/24: rule 100, 'from "
         "10.0.0.0/24 lookup 200'\n"},
        {MRAIL_ACL_LINUX, NULL, "100: not from 10.0.0.0/24 lookup 200\n",
         taken},
        {MRAIL_ACL_LINUX, NULL,
         "100: from all fwmark 0x47910000/0xffff0000 lookup 200\n", taken},
        {MRAIL_ACL_LINUX, NULL, "100: from all fwmark 0/0x1 lookup 200\n",
         taken},
        /* rules for other packets, or after the rules of the uplinks */
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
    acl_test_edits(edits, MRAIL_ARRAY_SIZE(edits));
}

/* Lines with many words, and several statements on one line. */
static void test_long_lines(void **state)
{
#define FORTY(_word)                                                           \
    EIGHT(_word) EIGHT(_word) EIGHT(_word) EIGHT(_word) EIGHT(_word)
#define EIGHT(_word) _word _word _word _word _word _word _word _word
    static const acl_test_edit_t edits[] = {
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
    acl_test_edits(edits, MRAIL_ARRAY_SIZE(edits));
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
        assert_string_equal(
            check.found, (i == 0) ? "line 3: ports 0 to 65535 are exempt: 'udp "
                                    "dport 4791 return' in 'ip t c'\n"
                                  : "");
        assert_int_equal(check.ret, (i == 0) ? -ERANGE : 0);
        free(text);
    }
}

/* ---- Other base chains ---- */

/* A table with one base chain. Other tables may have a chain of the same
 * name. */
#define BASE(_table, _chain, _hook, _rules)                                    \
    "table " _table " {\n    chain " _chain                                    \
    " {\n        type filter hook " _hook "\n" _rules "    }\n}\n"
#define FORWARD(_policy, _rules)                                               \
    BASE("inet filter", "forward", "forward priority filter; policy " _policy, \
         _rules)
#define APPEND(_text, _part)                                                   \
    {                                                                          \
        MRAIL_ACL_LINUX, NULL, _text, _part                                    \
    }

/* Forwarded packets pass other base chains, which can lose them. */
static void test_other_chains(void **state)
{
    static const acl_test_edit_t edits[] = {
        APPEND(FORWARD("drop", ""),
               ": ports 0 to 65535 are exempt: 'policy drop' in 'inet filter "
               "forward'\n"),
        APPEND(FORWARD("accept", "        udp dport 4791 reject\n"),
               "'udp dport 4791 reject' in 'inet filter forward'\n"),
        APPEND(BASE("ip early", "c", "prerouting priority raw; policy accept",
                    "        udp sport 60000-60010 drop\n"),
               ": ports 60000 to 60010 are exempt: 'udp sport 60000-60010 "
               "drop' in 'ip early c'\n"),
        APPEND(BASE("ip late", "c", "postrouting priority 300",
                    "        ip saddr 10.0.0.7 drop\n"),
               ": ports 0 to 65535 are exempt, from 10.0.0.7: 'ip saddr"),
        /* the chain has the same name as the chain with the marks */
        APPEND(BASE("ip early", "prerouting", "prerouting priority raw",
                    "        udp dport 4791 drop\n"),
               "'udp dport 4791 drop' in 'ip early prerouting'\n"),
        {MRAIL_ACL_LINUX, "table ip mrail_acl {",
         BASE("ip nat", "prerouting", "prerouting priority dstnat",
              "        udp dport 4791 accept\n") "table ip mrail_acl {",
         NULL},
        APPEND("nft 'add chain inet f fwd { type filter hook forward priority "
               "0; policy drop; }'\n",
               "'policy drop' in 'inet f fwd'\n"),
        APPEND("nft 'add chain f fwd { type filter hook forward priority 0; }'"
               "\nnft add rule ip f fwd udp dport 4791 drop\n",
               "'udp dport 4791 drop' in 'ip f fwd'\n"),
        /* These chains are for other packets. */
        APPEND(BASE("inet filter", "input", "input priority 0; policy drop",
                    "        udp dport 4791 drop\n"),
               NULL),
        APPEND(
            BASE("inet filter", "output", "output priority 0; policy drop", ""),
            NULL),
        APPEND(BASE("ip6 filter", "forward", "forward priority 0; policy drop",
                    ""),
               NULL),
        APPEND(BASE("bridge filter", "c", "prerouting priority 0; policy drop",
                    "        udp dport 4791 drop\n"),
               NULL),
        APPEND("nft add rule ip6 filter forward drop\n"
               "nft add rule ip6 mrail_acl prerouting drop\n",
               NULL),
        APPEND("table inet filter {\n    chain forward {\n        udp dport "
               "4791 drop\n    }\n}\n",
               NULL),
    };

    (void)state;
    acl_test_edits(edits, MRAIL_ARRAY_SIZE(edits));
}

/* Firewall rules that accept the packets, and others that drop them. */
static void test_other_chains_accept(void **state)
{
    static const char lost[] = "'policy drop' in 'inet filter forward'\n";
    static const acl_test_edit_t edits[] = {
        APPEND(FORWARD("drop", "        udp dport 4791 accept\n"), NULL),
        APPEND(FORWARD("drop", "        meta l4proto udp th dport { 53, 4791 } "
                               "counter packets 1 bytes 2 accept comment \"a "
                               "b\"\n"),
               NULL),
        APPEND(FORWARD("drop", "        udp sport 49152-60000 accept\n"
                               "        udp sport 60001-65535 accept\n"),
               NULL),
        APPEND(FORWARD("drop", "        iifname { \"swp1\", \"swp2\" } udp "
                               "dport 4791 accept\n"),
               NULL),
        APPEND(FORWARD("accept", "        udp dport 4791 accept\n"
                                 "        drop\n"),
               NULL),
        APPEND(FORWARD("accept",
                       "        ct state invalid drop\n"
                       "        iifname \"eth9\" drop\n"
                       "        oifname \"eth9\" drop\n"
                       "        ip daddr 10.9.9.0/24 drop\n"
                       "        meta nfproto ipv6 drop\n"
                       "        udp sport 53 drop\n"
                       "        meta protocol ip tcp dport 22 drop\n"),
               NULL),
        APPEND(FORWARD("accept", "        udp dport 4791 return\n"
                                 "        drop\n"),
               NULL),
        APPEND("nft 'add chain inet filter forward { type filter hook forward "
               "priority 0; policy drop; }'\n"
               "nft add rule inet filter forward udp dport 4791 accept\n",
               NULL),
        /* Some packets are lost. */
        APPEND(FORWARD("drop", "        udp dport 4791 return\n"), lost),
        APPEND(FORWARD("drop", "        udp sport 49152-60000 accept\n"), lost),
        APPEND(FORWARD("drop", "        udp sport != 60000 accept\n"), lost),
        APPEND(FORWARD("drop", "        ip saddr 10.0.0.0/8 accept\n"), lost),
        APPEND(FORWARD("drop", "        ct state established accept\n"), lost),
        APPEND(FORWARD("drop", "        limit rate 9/second accept\n"), lost),
        APPEND(FORWARD("drop", "        iifname \"swp1\" accept\n"), lost),
        APPEND(
            FORWARD("drop", "        iifname \"lo\" udp dport 4791 accept\n"),
            lost),
        APPEND(FORWARD("drop", "        tcp dport 22 accept\n"), lost),
        APPEND(FORWARD("accept", "        drop\n"
                                 "        udp dport 4791 accept\n"),
               "'drop' in 'inet filter forward'\n"),
        APPEND(FORWARD("accept", "        ct state new,invalid drop\n"),
               "'ct state new invalid drop' in"),
        APPEND(FORWARD("accept", "        meta protocol ip drop\n"),
               "'meta protocol ip drop' in"),
        /* An accept ends only its base chain. */
        APPEND(BASE("ip early", "c", "prerouting priority raw",
                    "        accept\n") FORWARD("drop", ""),
               lost),
    };

    (void)state;
    acl_test_edits(edits, MRAIL_ARRAY_SIZE(edits));
}

/* Packets reach other chains by jumps. */
static void test_other_chains_jumps(void **state)
{
#define SUB(_policy, _sub, _rules)                                             \
    "table inet filter {\n    chain sub {\n" _sub                              \
    "    }\n    chain forward {\n        type filter hook forward priority "   \
    "0; policy " _policy ";\n" _rules "    }\n}\n"
#define JUMP_SUB "        jump sub\n"
#define ACCEPT "        udp dport 4791 accept\n"
    static const char lost[] = "'drop' in 'inet filter sub'\n";
    static const acl_test_edit_t edits[] = {
        APPEND(SUB("accept", "        drop\n", JUMP_SUB), lost),
        APPEND(SUB("accept", "        drop\n", "        goto sub\n"), lost),
        APPEND(SUB("drop", ACCEPT, JUMP_SUB), NULL),
        APPEND(SUB("accept", ACCEPT "        drop\n", JUMP_SUB), NULL),
        APPEND(SUB("accept", "        udp dport 4791 return\n        drop\n",
                   JUMP_SUB),
               NULL),
        APPEND(SUB("accept", "        drop\n", ACCEPT JUMP_SUB), NULL),
        APPEND(SUB("accept", "        drop\n", JUMP_SUB ACCEPT), lost),
        APPEND(
            SUB("accept", "        drop\n", "        tcp dport 1 jump sub\n"),
            NULL),
        APPEND(SUB("accept", "        drop\n",
                   "        iifname \"eth9\" jump sub\n"),
               NULL),
        APPEND(SUB("drop", "        udp dport 4791 return\n", JUMP_SUB),
               "'policy drop' in 'inet filter forward'\n"),
        APPEND(SUB("accept", "        drop\n", ""), NULL),
        /* A jump leads to a chain of the same table. */
        APPEND(SUB("accept", "        drop\n", "")
                   BASE("ip other", "forward", "forward priority 0", JUMP_SUB),
               NULL),
    };

    (void)state;
    acl_test_edits(edits, MRAIL_ARRAY_SIZE(edits));
}

/* A chain after the marks accepts packets before it drops the rest. */
static void test_drop_after_accept(void **state)
{
    static const acl_test_edit_t edits[] = {
        {MRAIL_ACL_LINUX, "    }\n}\nEND\ntrap",
         "        udp dport 4791 accept\n        drop\n    }\n}\nEND\ntrap",
         NULL},
        {MRAIL_ACL_LINUX, "    }\n}\nEND\ntrap",
         "        udp dport 4791 udp sport 60000 accept\n        drop\n"
         "    }\n}\nEND\ntrap",
         ": ports 0 to 65535 are exempt: 'drop' in"},
    };

    (void)state;
    acl_test_edits(edits, MRAIL_ARRAY_SIZE(edits));
}

/* ---- Routing rules for some packets with a mark ---- */

static void test_marked_rules(void **state)
{
    static const acl_test_edit_t edits[] = {
        APPEND("100:\tfrom 10.0.0.0/24 fwmark 0x47910003 lookup 200\n",
               ": ports 0 to 65535 are exempt, from 10.0.0.0/24: rule 100, "
               "'from 10.0.0.0/24 fwmark 0x47910003 lookup 200'\n"),
        APPEND("ip rule add from 10.0.0.0/24 fwmark 0x47910003 table 200\n",
               ": rule without a priority, 'from 10.0.0.0/24 fwmark 0x47910003 "
               "table 200'\n"),
        APPEND("100: from all fwmark 0x47910003 iif swp1 lookup 200\n",
               ": rule 100, 'from all fwmark 0x47910003 iif swp1 lookup 200'"),
        APPEND("ip rule add pref 100 fwmark 0x47910003 dev swp1 table 200\n",
               ": rule 100, 'pref 100 fwmark 0x47910003 dev swp1 table 200'"),
        APPEND("100: from all tos 0x68 fwmark 0x47910003 lookup 200\n",
               ": rule 100, 'from all tos 0x68 fwmark"),
        APPEND("100: from all fwmark 0x47910003 sport 60000-60010 lookup 200\n",
               ": ports 60000 to 60010 are exempt: rule 100, "),
        APPEND("100: from 10.0.0.0/24 fwmark 0x47910000/0xffff0000 lookup 9\n",
               ", from 10.0.0.0/24: rule 100, "),
        APPEND("4793: from 10.0.0.0/24 fwmark 0x47910004 lookup 200\n",
               ", from 10.0.0.0/24: rule 4793, "),
        /* later rules, other marks, and the same table */
        APPEND("4794: from 10.0.0.0/24 fwmark 0x47910003 lookup 200\n"
               "4793: from 10.0.0.0/24 fwmark 0x47910003 lookup 200\n"
               "5000: from all fwmark 0x47910003 iif swp1 lookup 200\n"
               "5001: from all fwmark 0x47910003 sport 60000 lookup 200\n",
               NULL),
        APPEND("100: from 10.0.0.0/24 fwmark 0x7 lookup 200\n"
               "101: from 10.0.0.0/24 fwmark 0x70000/0xff0000 lookup 200\n"
               "102: from all fwmark 0x47910003 iif lo lookup 200\n"
               "103: from 10.0.0.0/24 fwmark 0x47910003 to 10.0.1.0/24 lookup "
               "main\n",
               NULL),
        APPEND("100: from 10.0.0.0/24 fwmark 0x47910003 lookup 479103\n"
               "101: from all fwmark 0x47910002 iif swp1 lookup 479102\n",
               NULL),
        /* The only rule for its mark. */
        {MRAIL_ACL_LINUX, "rule add priority 4793 ",
         "rule add priority 4793 iif swp1 ", NULL},
        {MRAIL_ACL_LINUX, "rule add priority 4793 ",
         "rule add priority 4793 from 10.0.0.0/24 ",
         "ports 57344 to 61439 have no uplink"},
    };

    (void)state;
    acl_test_edits(edits, MRAIL_ARRAY_SIZE(edits));
}

/* A router may set the same mark on all lanes' packets, and choose by port. */
static void test_marked_ranges(void **state)
{
    static const char text[] =
        "udp dport 4791 udp sport 49152-65535 meta mark set 7\n"
        "100: from all fwmark 0x7 sport 49152-57343 lookup 1\n"
        "100: from all fwmark 0x7 sport 57344-65535 lookup 2\n"
        "default via 10.9.0.1 table 1\ndefault via 10.9.1.1 table 2\n";
    acl_test_check_t check = acl_test_check(MRAIL_ACL_LINUX, text, 2, 1);

    (void)state;
    /* The check does not combine marks and ports. */
    acl_test_has(check.found, "line 1: ports 49152 to 65535 have no uplink");
    acl_test_lacks(check.found, "exempt");
}

/* The text of a long rule is shortened, ends with dots, and is printable. */
static void test_rule_text(void **state)
{
    static const acl_test_edit_t edits[] = {
        APPEND(FORWARD("accept", "        udp dport { " FORTY("7, ") "4791 } "
                                                                     "drop\n"),
               "7 7 7 47...' in 'inet filter forward'\n"),
        APPEND("100: from all iif \x1b[1m\xff lookup 200\n",
               ": rule 100, 'from all iif ?[1m? lookup 200'\n"),
    };

    (void)state;
    acl_test_edits(edits, MRAIL_ARRAY_SIZE(edits));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exempt_ports_linux),
        cmocka_unit_test(test_exempt_ports_jump),
        cmocka_unit_test(test_exempt_ports_jumps),
        cmocka_unit_test(test_conditional_jumps),
        cmocka_unit_test(test_jumps_in_a_circle),
        cmocka_unit_test(test_exempt_ports_rules),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_exempt_ports_commands),
        cmocka_unit_test(test_other_chains),
        cmocka_unit_test(test_other_chains_accept),
        cmocka_unit_test(test_other_chains_jumps),
        cmocka_unit_test(test_drop_after_accept),
        cmocka_unit_test(test_marked_rules),
        cmocka_unit_test(test_marked_ranges),
        cmocka_unit_test(test_rule_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
