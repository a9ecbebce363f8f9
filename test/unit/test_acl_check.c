/* Tests mrail_acl_check() with correct rule sets, faulty ones, and texts
 * that it cannot read. */
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

/* ---- Faults in rule sets ---- */

/* Removes the line that contains `part`. */
static char *without_line(const char *text, const char *part)
{
    char *copy = strdup(text), *at = strstr(copy, part), *end;

    assert_non_null(at);
    while (at > copy && at[-1] != '\n') {
        --at;
    }
    end = strchr(at, '\n') + 1;
    memmove(at, end, strlen(end) + 1);
    return copy;
}

/* Replaces `from` with `to`, which has the same length. */
static char *replaced(const char *text, const char *from, const char *to)
{
    char *copy = strdup(text), *at = strstr(copy, from);

    assert_non_null(at);
    assert_int_equal(strlen(from), strlen(to));
    mrail_copy(at, to, strlen(to));
    return copy;
}

/* For each dialect, the line that contains the ports of the third of four
 * segments. */
static const char *const third[] = {
    [MRAIL_ACL_IOS] = "range 57344 61439",
    [MRAIL_ACL_EOS] = "range 57344 61439",
    [MRAIL_ACL_SONIC] = "\"57344-61439\"",
    [MRAIL_ACL_NVUE] = "source-port 57344-61439",
    [MRAIL_ACL_LINUX] = "sport 57344-61439",
};
static const char *const longer[] = {
    [MRAIL_ACL_IOS] = "range 57344 61449",
    [MRAIL_ACL_EOS] = "range 57344 61449",
    [MRAIL_ACL_SONIC] = "\"57344-61449\"",
    [MRAIL_ACL_NVUE] = "source-port 57344-61449",
    [MRAIL_ACL_LINUX] = "sport 57344-61449",
};
static const char *const shorter[] = {
    [MRAIL_ACL_IOS] = "range 57344 61429",
    [MRAIL_ACL_EOS] = "range 57344 61429",
    [MRAIL_ACL_SONIC] = "\"57344-61429\"",
    [MRAIL_ACL_NVUE] = "source-port 57344-61429",
    [MRAIL_ACL_LINUX] = "sport 57344-61429",
};
/* For each dialect, the line that sends the third segment to its uplink. In
 * SONiC, one line contains both the ports and the uplink, so there is no such
 * line. */
static const char *const way[] = {
    [MRAIL_ACL_IOS] = "set ip next-hop 10.9.2.1",
    [MRAIL_ACL_EOS] = "set nexthop 10.9.2.1",
    [MRAIL_ACL_SONIC] = NULL,
    [MRAIL_ACL_NVUE] = "via 10.9.2.1",
    [MRAIL_ACL_LINUX] = "via 10.9.2.1",
};

static unsigned lines_of(const char *text)
{
    unsigned lines = 0;

    for (; *text != '\0'; ++text) {
        lines += *text == '\n';
    }
    return lines;
}

static void test_holes(void **state)
{
    mrail_acl_t acl = acl_test_options(4);

    (void)state;
    for (unsigned d = 0; d < MRAIL_ACL_NUM_DIALECTS; ++d) {
        char *text = acl_test_text(&acl, (mrail_acl_dialect_t)d);
        char *bad = replaced(text, third[d], shorter[d]);
        acl_test_check_t check =
            acl_test_check((mrail_acl_dialect_t)d, bad, 4, 1);
        unsigned line;

        assert_int_equal(check.ret, -ERANGE);
        assert_int_equal(check.report.num_holes, 1);
        assert_int_equal(check.report.num_misplaced, 0);
        assert_int_equal(sscanf(check.found,
                                "ports 61430 to 61439: no rule; line %u ends "
                                "at port 61429\n",
                                &line),
                         1);
        assert_in_range(line, 1, lines_of(text));
        free(bad);
        free(text);
    }
}

/* The finding names the rule next to the gap. */
static void test_holes_at_the_ends(void **state)
{
    static const char rule[] =
        "ip rule add sport %s dport 4791 lookup 101\n"
        "ip route replace default via 10.9.0.1 table 101\n";
    static const char *const found[][2] = {
        {"49160-65535",
         "ports 49152 to 49159: no rule; line 1 begins at port 49160\n"},
        {"49152-65534",
         "ports 65535 to 65535: no rule; line 1 ends at port 65534\n"},
        {"4791", "ports 49152 to 65535: no rule\n"},
    };

    (void)state;
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(found); ++i) {
        acl_test_check_t check;
        char text[256];

        snprintf(text, sizeof(text), rule, found[i][0]);
        check = acl_test_check(MRAIL_ACL_LINUX, text, 1, 1);
        assert_int_equal(check.ret, -ERANGE);
        acl_test_has(check.found, found[i][1]);
    }
}

static void test_overlaps(void **state)
{
    mrail_acl_t acl = acl_test_options(4);

    (void)state;
    for (unsigned d = 0; d < MRAIL_ACL_NUM_DIALECTS; ++d) {
        char *text = acl_test_text(&acl, (mrail_acl_dialect_t)d);
        char *bad = replaced(text, third[d], longer[d]);
        acl_test_check_t check =
            acl_test_check((mrail_acl_dialect_t)d, bad, 4, 1);
        unsigned line, other;

        assert_int_equal(check.ret, -ERANGE);
        assert_int_equal(check.report.num_overlaps, 1);
        assert_int_equal(check.report.num_holes, 0);
        assert_int_equal(sscanf(check.found,
                                "line %u: ports 61440 to 61449 also match "
                                "line %u\n",
                                &line, &other),
                         2);
        assert_true(line > other);
        free(bad);
        free(text);
    }
}

static void test_no_uplink(void **state)
{
    mrail_acl_t acl = acl_test_options(4);

    (void)state;
    for (unsigned d = 0; d < MRAIL_ACL_NUM_DIALECTS; ++d) {
        char *text = acl_test_text(&acl, (mrail_acl_dialect_t)d), *bad;
        acl_test_check_t check;

        bad = (d == MRAIL_ACL_SONIC)
                  ? replaced(text, "REDIRECT:10.9.2.1", "DROP\", \"X\": \"    ")
                  : without_line(text, way[d]);
        check = acl_test_check((mrail_acl_dialect_t)d, bad, 4, 1);
        assert_int_equal(check.ret, -ERANGE);
        assert_int_equal(check.report.num_unmapped, 1);
        assert_int_equal(check.report.num_targets, 3);
        acl_test_has(check.found, "ports 57344 to 61439 ");
        free(bad);
        free(text);
    }
}

/* Two segments have the same next hop. */
static void test_shared_uplink(void **state)
{
    mrail_acl_t acl = acl_test_options(4);

    (void)state;
    snprintf(acl_test_next_hops[3], sizeof(acl_test_next_hops[3]), "10.9.1.1");
    for (unsigned d = 0; d < MRAIL_ACL_NUM_DIALECTS; ++d) {
        char *text = acl_test_text(&acl, (mrail_acl_dialect_t)d);
        acl_test_check_t check =
            acl_test_check((mrail_acl_dialect_t)d, text, 4, 1);

        assert_int_equal(check.ret, -ERANGE);
        assert_int_equal(check.report.num_misplaced, 1);
        acl_test_has(check.found, "segment 61440 to 65535 goes to 10.9.1.1");
        free(text);
    }
}

static void test_crlf(void **state)
{
    mrail_acl_t acl = acl_test_options(5);

    (void)state;
    for (unsigned d = 0; d < MRAIL_ACL_NUM_DIALECTS; ++d) {
        char *text = acl_test_text(&acl, (mrail_acl_dialect_t)d);
        char *crlf = malloc(2 * strlen(text) + 1), *to = crlf;

        assert_non_null(crlf);
        for (const char *from = text; *from != '\0'; ++from) {
            if (*from == '\n') {
                *to++ = '\r';
            }
            *to++ = *from;
        }
        *to = '\0';
        assert_int_equal(acl_test_check((mrail_acl_dialect_t)d, crlf, 5, 1).ret,
                         0);
        free(crlf);
        free(text);
    }
}

/* ---- Hand-written rule sets ---- */

static void is_valid(mrail_acl_dialect_t dialect, unsigned uplinks_num,
                     const char *text)
{
    acl_test_check_t check = acl_test_check(dialect, text, uplinks_num, 1);

    if (check.ret != 0) {
        fail_msg("%d %s\n%s\n%s", check.ret, check.reason, check.found, text);
    }
}

/* A running configuration has a different order, different lists, and no
 * sequence numbers. */
static void test_hand_written_ios(void **state)
{
    (void)state;
    is_valid(MRAIL_ACL_IOS, 2,
             "hostname leaf1\n"
             "interface Ethernet1/1\n"
             " description 10 permit what\n"
             " ip policy route-map roce\n"
             "!\n"
             "route-map roce deny 5\n"
             " match ip address local\n"
             "route-map roce permit 20\n"
             " description the second\n"
             " match ip address upper\n"
             " set ip next-hop verify-availability 10.9.1.1 10 track 1\n"
             "route-map roce permit 10\n"
             " match ip address lower\n"
             " set ip next-hop 10.9.0.1 10.9.7.1\n"
             " set interface Null0\n"
             "ip access-list standard 7\n"
             " permit 10.0.0.0\n"
             "ip access-list extended upper\n"
             " remark the second half\n"
             " permit tcp any range 1 9 any eq 4791\n"
             " permit udp any gt 57343 any eq 4791\n"
             "ip access-list extended local\n"
             " permit ip any 10.0.0.0 0.0.0.255\n"
             "ip access-list extended lower\n"
             " permit udp any range 49152 53247 any eq 4791\n"
             " permit udp any range 53248 57343 any range 4790 4800\n"
             " permit udp any range 53248 57343 any eq 53\n"
             " permit udp any range 49152 65535 10.0.0.0 0.0.0.255 eq "
             "4791\n"
             " deny ip any any\n"
             "ip access-list extended qos\n"
             " permit udp any any eq 4791\n");
}

static void test_hand_written_eos(void **state)
{
    (void)state;
    is_valid(MRAIL_ACL_EOS, 2,
             "ip access-list A\n"
             "   counters per-entry\n"
             "   permit udp any range 49152 57343 any eq 4791\n"
             "!\n"
             "class-map type pbr match-any CA\n"
             "   10 match ip access-group A\n"
             "class-map type pbr match-any CB\n"
             "   match ip access-group B\n"
             "class-map type qos match-any Q\n"
             "   match ip access-group A\n"
             "policy-map type pbr P\n"
             "   20 class CB\n"
             "      set nexthop recursive 10.9.1.1\n"
             "   class CA\n"
             "      set nexthop-group up1\n"
             "   class class-default\n"
             "interface Ethernet1\n"
             "   service-policy type pbr input P\n"
             "ip access-list B\n"
             "   permit udp any range 57344 65535 any eq 4791\n");
}

static void test_hand_written_sonic(void **state)
{
    (void)state;
    is_valid(
        MRAIL_ACL_SONIC, 2,
        "{\"PORT\": {\"Ethernet0\": {\"lanes\": \"1,2\", \"mtu\": 9100}},\n"
        " \"ACL_RULE\": {\n"
        "  \"T|B\": {\"PACKET_ACTION\": \"redirect:10.9.1.1|Ethernet8\",\n"
        "    \"L4_SRC_PORT_RANGE\": \"57344-65535\",\n"
        "    \"L4_DST_PORT\": \"4791\", \"IP_PROTOCOL\": \"17\"},\n"
        "  \"T|DNS\": {\"L4_DST_PORT\": \"53\", \"PACKET_ACTION\": \"DROP\"},\n"
        "  \"T|A\": {\"REDIRECT_ACTION\": \"10.9.0.1\",\n"
        "    \"L4_SRC_PORT_RANGE\": \"49152-57343\",\n"
        "    \"L4_DST_PORT\": 4791, \"IP_PROTOCOL\": 17}},\n"
        " \"MORE\": [[{\"a\\\"b\": null}], true, -1.5e3]}\n");
}

static void test_hand_written_nvue(void **state)
{
    (void)state;
    is_valid(MRAIL_ACL_NVUE, 2,
             "nv set router pbr map M rule 20 match dscp 3\n"
             "nv set router pbr map M rule 20 action nexthop-group G2\n"
             "cumulus@leaf:~$ nv set router pbr map M rule 2 match dscp 7\n"
             "nv set router pbr map M rule 2 action nexthop-group G2\n"
             "nv set router nexthop-group G2 via 10.9.1.1\n"
             "nv set router nexthop group G1 via 10.9.0.1\n"
             "nv set router nexthop group G1 via 10.9.0.1 interface swp51\n"
             "nv set acl A rule 9 action set dscp 7\n"
             "nv set acl A rule 9 match ip source-port 57344:65535\n"
             "nv set acl A rule 9 match ip dest-port 4791\n"
             "nv set acl A rule 1 match ip protocol udp\n"
             "nv set acl A rule 1 match ip udp source-port 49152-57343\n"
             "nv set acl A rule 1 match ip udp dest-port 4791\n"
             "nv set acl A rule 1 action set dscp 3\n"
             "nv set acl A rule 2 match ip protocol tcp\n"
             "nv set acl A rule 2 match ip tcp dest-port 22\n"
             "nv set acl A rule 2 action permit\n"
             "nv set router pbr map M rule 1 match dscp 3\n"
             "nv set router pbr map M rule 1 action nexthop-group G1\n"
             "nv config apply\n");
}

/* The output of a Linux router's commands. */
static void test_listed_linux(void **state)
{
    (void)state;
    is_valid(MRAIL_ACL_LINUX, 2,
             "table ip mrail_acl {\n"
             "\tchain prerouting {\n"
             "\t\ttype filter hook prerouting priority mangle; policy accept;\n"
             "\t\tudp dport 4791 udp sport 49152-57343 counter packets 5 bytes "
             "9 meta mark set 0x47910001\n"
             "\t\tudp dport 4791 udp sport 57344-65535 ip dscp != 9 counter "
             "packets 5 bytes 9 meta mark set 0x47910002\n"
             "\t}\n"
             "}\n"
             "0:\tfrom all lookup local\n"
             "4790:\tfrom all fwmark 0x47910000/0xffff0000 lookup main "
             "suppress_prefixlength 0 proto 147\n"
             "4800:\tfrom all fwmark 0x47910001 lookup 479102 proto 147\n"
             "4791:\tfrom all fwmark 0x47910001 lookup 479101 proto 147\n"
             "4792:\tfrom all fwmark 0x47910002 lookup 479102 proto 147\n"
             "32766:\tfrom all lookup main\n"
             "default via 10.20.1.2 dev up1 table 479101 proto 147\n"
             "default via 10.20.2.2 dev up2 table 479102 proto 147\n"
             "blackhole default table 479102 proto 147 metric 4294967295\n"
             "default via 10.9.9.9 dev eth0\n"
             "local 10.20.1.1 dev up1 table local proto kernel\n");
}

/* Rules that set marks, and rules that match the ports themselves. */
static void test_hand_written_linux(void **state)
{
    (void)state;
    is_valid(MRAIL_ACL_LINUX, 3,
             "ip rule add pref 100 ipproto udp sport 49152-54612 dport 4791 "
             "lookup 101\n"
             "ip route replace 10.1.0.0/16 via 10.9.0.1 table 101\n"
             "ip route add default via 10.9.1.1 dev up2 table blue\n"
             "ip rule add fwmark 0x7 table blue\n"
             "nft add rule ip t c udp dport 4791 udp sport { 54613-60000, "
             "60001-60073 } meta mark set 7\n"
             "nft 'add rule ip t c ip dscp 0 tcp dport 80 tcp sport 1-9 meta "
             "mark set 9'\n"
             "nft add rule ip t c udp dport 4790-4799 udp sport 60074-65535 "
             "meta mark set 0x8\n"
             "ip rule add fwmark 8/0xff lookup 9\n"
             "ip route add default dev tun0 table 9\n"
             "ip rule del fwmark 9 lookup 10\n");
}

/* ---- Texts that cannot be read ---- */

static void malformed(mrail_acl_dialect_t dialect, const char *text,
                      const char *part)
{
    acl_test_check_t check = acl_test_check(dialect, text, 0, 1);

    if (check.ret != -EINVAL) {
        fail_msg("%d for:\n%s", check.ret, text);
    }
    acl_test_has(check.reason, part);
    assert_string_equal(check.found, "");
}

#define IOS_LIST "ip access-list extended a\n"

static void test_malformed_lists(void **state)
{
    (void)state;
    malformed(MRAIL_ACL_IOS, IOS_LIST " 10 permti udp any any\n",
              "line 2: 'permti' is neither permit nor deny");
    malformed(MRAIL_ACL_IOS, IOS_LIST " permit\n", "line 2: a protocol");
    malformed(MRAIL_ACL_IOS, IOS_LIST " permit udp\n", "line 2: an address");
    malformed(MRAIL_ACL_IOS, IOS_LIST " permit udp all any\n",
              "'all' is not an address");
    malformed(MRAIL_ACL_IOS, IOS_LIST " permit udp any range 1\n",
              "a port is missing");
    malformed(MRAIL_ACL_IOS, IOS_LIST " permit udp any range 9 8 any eq 4791\n",
              "line 2: range 9 8: the lower port must come first");
    malformed(MRAIL_ACL_IOS,
              IOS_LIST " permit udp any range 49152 65536 any eq 4791\n",
              "port: '65536' is not a number from 0 to 65535");
    malformed(MRAIL_ACL_IOS, IOS_LIST " permit udp any any eq 4791 dscp 64\n",
              "dscp: '64'");
    malformed(MRAIL_ACL_IOS, "route-map\n", "line 1: route-map");
    malformed(MRAIL_ACL_IOS,
              "route-map m permit 10\n match ip address a\n"
              " set ip next-hop peer-address\n",
              "line 3: set ip next-hop");
    malformed(MRAIL_ACL_EOS,
              "policy-map type pbr p\n   class a\n      set nexthop\n",
              "line 3: set nexthop: there is no address");
}

static void test_malformed_others(void **state)
{
    (void)state;
    malformed(MRAIL_ACL_SONIC, "", "line 1: '{' is missing");
    malformed(MRAIL_ACL_SONIC, "{\n\"a\" 1}", "line 2: ':' is missing");
    malformed(MRAIL_ACL_SONIC, "{\"a\": [1 2]}", "',' or ']' is missing");
    malformed(MRAIL_ACL_SONIC, "{\"a\": \"b\n\"}", "unterminated string");
    malformed(MRAIL_ACL_SONIC, "{} {}", "text after the last '}'");
    malformed(MRAIL_ACL_SONIC,
              "{\"ACL_RULE\":{\"a|b\":{\n\"L4_SRC_PORT_RANGE\": \"9-8\"}}}",
              "line 2: ports 9 to 8: the lower port must come first");
    malformed(MRAIL_ACL_NVUE,
              "nv set acl a rule 1 match ip udp source-port 1-x\n",
              "line 1: port: 'x'");
    malformed(MRAIL_ACL_LINUX,
              "udp dport 4791 udp sport map { 1-9 : 1 } meta mark set 1\n",
              "line 1: sport: 'map' is not a port");
    malformed(MRAIL_ACL_LINUX, "udp sport 1-70000 meta mark set 1\n",
              "'70000'");
    malformed(MRAIL_ACL_LINUX, "udp sport 1-2 meta mark set $m\n",
              "mark: '$m' is not a number");
}

/* Rules in one dialect must not be valid in another. */
static void test_wrong_dialect(void **state)
{
    mrail_acl_t acl = acl_test_options(4);

    (void)state;
    for (unsigned d = 0; d < MRAIL_ACL_NUM_DIALECTS; ++d) {
        char *text = acl_test_text(&acl, (mrail_acl_dialect_t)d);

        for (unsigned e = 0; e < MRAIL_ACL_NUM_DIALECTS; ++e) {
            acl_test_check_t check =
                acl_test_check((mrail_acl_dialect_t)e, text, 4, 1);

            /* The lists of IOS and EOS are the same, but without a map there is
             * no uplink. */
            if (d == e) {
                assert_int_equal(check.ret, 0);
            } else if (d <= MRAIL_ACL_EOS && e <= MRAIL_ACL_EOS) {
                assert_int_equal(check.ret, -ERANGE);
                assert_int_equal(check.report.num_unmapped, 4);
            } else {
                assert_int_equal(check.ret, -EINVAL);
                assert_true(check.reason[0] != '\0');
            }
        }
        free(text);
    }
}

static void test_zero_byte_and_length(void **state)
{
    static char large[MRAIL_ACL_MAX_TEXT + 2];
    mrail_acl_report_t report;
    char reason[256];

    (void)state;
    assert_int_equal(mrail_acl_check(MRAIL_ACL_IOS, "a\nb\0c", 5, 0, 1, stderr,
                                     &report, reason, sizeof(reason)),
                     -EINVAL);
    acl_test_has(reason, "line 2: byte 0 is not text");
    memset(large, ' ', sizeof(large));
    assert_int_equal(mrail_acl_check(MRAIL_ACL_IOS, large, sizeof(large), 0, 1,
                                     stderr, &report, reason, sizeof(reason)),
                     -EINVAL);
    acl_test_has(reason, "the text exceeds");
}

/* Findings other than gaps and overlaps. */
static void test_other_findings(void **state)
{
    acl_test_check_t check;

    (void)state;
    check =
        acl_test_check(MRAIL_ACL_IOS,
                       "route-map m permit 10\n"
                       " match ip address a\n"
                       " set ip next-hop 10.9.0.1\n" IOS_LIST
                       " permit udp any range 49000 60000 any eq 4791\n"
                       " permit udp any range 60001 65535 any eq 4791 dscp 9\n"
                       " deny udp any range 50000 50001 any eq 4791\n",
                       1, 1);
    assert_int_equal(check.ret, -ERANGE);
    assert_int_equal(check.report.num_outside, 1);
    assert_int_equal(check.report.num_conflicts, 1);
    assert_int_equal(check.report.num_unmapped, 1);
    assert_int_equal(check.report.num_holes, 0);
    acl_test_has(check.found, "line 5: ports 49000 to 60000: RoCEv2 lanes use "
                              "49152 to 65535 only");
    acl_test_has(check.found,
                 "line 6: the DSCP differs from the rule in line 5");
    acl_test_has(check.found, "line 7: ports 50000 to 50001 are exempt");
}

/* ---- Entries that match packets before the rules ---- */

/* Returns `first`, `text` and `last` as one text. */
static char *joined(const char *first, const char *text, const char *last)
{
    char *all = NULL;

    assert_true(asprintf(&all, "%s%s%s", first, text, last) > 0);
    return all;
}

/* Checks `first`, correct rules and `last`. The findings must contain `part`;
 * NULL: there must be none. */
static void check_around(mrail_acl_dialect_t dialect, const char *first,
                         const char *last, const char *part)
{
    mrail_acl_t acl = acl_test_options(4);
    char *text = acl_test_text(&acl, dialect);
    char *all = joined(first, text, last);
    acl_test_check_t check = acl_test_check(dialect, all, 4, 1);

    if (part == NULL) {
        assert_string_equal(check.found, "");
        assert_int_equal(check.ret, 0);
    } else {
        acl_test_has(check.found, part);
        assert_int_equal(check.ret, -ERANGE);
    }
    free(all);
    free(text);
}

/* An entry of a route map without a match applies to all packets. */
static void test_entry_without_match(void **state)
{
    (void)state;
    check_around(MRAIL_ACL_IOS,
                 "route-map udf permit 5\n set ip next-hop 10.9.9.9\n", "",
                 "ports 49152 to 53247 also match line 1\n");
    check_around(MRAIL_ACL_IOS, "route-map udf deny 5\n", "",
                 "line 1: ports 49152 to 65535 are exempt\n");
    check_around(MRAIL_ACL_IOS, "", "route-map udf permit 15\n",
                 ": ports 49152 to 65535 are exempt\n");
    /* At the end, such an entry applies only to packets that match no other
     * entry. */
    check_around(MRAIL_ACL_IOS, "", "route-map udf deny 100\n", NULL);
    /* these are unrelated to the rules */
    check_around(MRAIL_ACL_IOS, "route-map bgp permit 5\n", "", NULL);
    check_around(MRAIL_ACL_IOS,
                 "route-map udf permit 5\n match length 0 64\n"
                 " set ip next-hop 10.9.9.9\n",
                 "", NULL);
}

/* A default next hop applies only if there is no other route. */
static void test_default_next_hop(void **state)
{
    mrail_acl_t acl = acl_test_options(4);
    char *text = acl_test_text(&acl, MRAIL_ACL_IOS);
    char *rest = without_line(text, "set ip next-hop 10.9.2.1");
    char *bad = joined(rest, "route-map udf permit 30\n",
                       " set ip default next-hop 10.9.2.1\n");
    acl_test_check_t check = acl_test_check(MRAIL_ACL_IOS, bad, 4, 1);

    (void)state;
    assert_int_equal(check.ret, -ERANGE);
    assert_int_equal(check.report.num_unmapped, 1);
    acl_test_has(check.found, "ports 57344 to 61439 have no uplink");
    free(bad);
    free(rest);
    free(text);
}

/* An interface has only one map, so all rules must be in the same one. */
static void test_two_maps(void **state)
{
    static const struct {
        mrail_acl_dialect_t dialect;
        const char *from, *to;
    } cases[] = {
        {MRAIL_ACL_IOS, "route-map udf permit 30", "route-map old permit 30"},
        {MRAIL_ACL_EOS, "   30 class udf3",
         "policy-map type pbr old\n"
         "   30 class udf3"},
        {MRAIL_ACL_NVUE,
         "map udf rule 104 match dscp 11\nnv set router pbr map udf rule 104",
         "map old rule 104 match dscp 11\nnv set router pbr map old rule 104"},
    };

    (void)state;
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(cases); ++i) {
        mrail_acl_t acl = acl_test_options(4);
        char *text = acl_test_text(&acl, cases[i].dialect);
        char *at = strstr(text, cases[i].from), *bad;
        acl_test_check_t check;

        assert_non_null(at);
        *at = '\0';
        bad = joined(text, cases[i].to, at + strlen(cases[i].from));
        check = acl_test_check(cases[i].dialect, bad, 4, 1);
        assert_int_equal(check.ret, -ERANGE);
        acl_test_has(check.found, "'old'");
        free(bad);
        free(text);
    }
}

/* ---- Allocations ---- */

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

/* Every allocation fails once. The check must report the failure and leak
 * nothing. 80 uplinks make each array grow a second time, but NVUE has only 32
 * marks, so its test uses 30 uplinks. */
static void test_every_allocation(void **state)
{
    (void)state;
    for (unsigned d = 0; d < MRAIL_ACL_NUM_DIALECTS; ++d) {
        mrail_acl_t acl = acl_test_options((d == MRAIL_ACL_NVUE) ? 30 : 80);
        char *text = acl_test_text(&acl, (mrail_acl_dialect_t)d);
        char reason[256] = "", found[256];
        FILE *stream = fmemopen(found, sizeof(found), "w");
        mrail_acl_report_t report = {.num_rules = 12345};
        int ret = -ENOMEM;
        unsigned n;

        assert_non_null(stream);
        for (n = 1; ret == -ENOMEM; ++n) {
            assert_int_equal(report.num_rules, 12345);
            countdown = n;
            ret = mrail_acl_check((mrail_acl_dialect_t)d, text, strlen(text), 0,
                                  1, stream, &report, reason, sizeof(reason));
            countdown = 0;
            if (ret == -ENOMEM) {
                assert_string_equal(reason, "out of memory");
            }
        }
        assert_int_equal(ret, 0);
        /* The copy of the text, the matches, the owners and the targets need at
         * least one allocation each. So do the edges, except in SONiC. */
        assert_true(n - 1 > ((d == MRAIL_ACL_SONIC) ? 5u : 6u));
        fclose(stream);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holes),
        cmocka_unit_test(test_holes_at_the_ends),
        cmocka_unit_test(test_overlaps),
        cmocka_unit_test(test_no_uplink),
        cmocka_unit_test(test_shared_uplink),
        cmocka_unit_test(test_crlf),
        cmocka_unit_test(test_hand_written_ios),
        cmocka_unit_test(test_hand_written_eos),
        cmocka_unit_test(test_hand_written_sonic),
        cmocka_unit_test(test_hand_written_nvue),
        cmocka_unit_test(test_hand_written_linux),
        cmocka_unit_test(test_listed_linux),
        cmocka_unit_test(test_malformed_lists),
        cmocka_unit_test(test_malformed_others),
        cmocka_unit_test(test_wrong_dialect),
        cmocka_unit_test(test_zero_byte_and_length),
        cmocka_unit_test(test_other_findings),
        cmocka_unit_test(test_entry_without_match),
        cmocka_unit_test(test_default_next_hop),
        cmocka_unit_test(test_two_maps),
        cmocka_unit_test(test_every_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
