/*
 * Rules for a Linux router, with or without FRR: nftables marks each segment,
 * and a routing rule sends packets with the mark to a table with one next hop.
 * Sources: [nft], [ip-rule].
 *
 * Marks are needed because `ip rule` refuses a port range that ends at 65535.
 * All rules and routes use a dedicated routing protocol number, so one command
 * can remove them all, including those of an earlier run with more uplinks.
 */
#include "config.h"
#include "fabric/acl_internal.h"

#include <errno.h>
#include <string.h>

#define PROTOCOL 147 /* marks our rules and routes; no routing daemon uses it */
/* of the first rule; uplink n, from 1, has 4790 + n */
#define PRIORITY 4790
#define MARK MRAIL_ACL_LINUX_MARK /* uplink n, from 1, has MARK + n */
#define TABLE 479100u             /* uplink n, from 1, has TABLE + n */
#define NFT_TABLE "mrail_acl"
#define VRF_TABLE 479500u /* VRF n has VRF_TABLE + n */

/* ---- Writer ---- */

/* Writes the commands that remove all rules. None of them fails if there is
 * nothing to remove. */
static void write_remove(const char *indent, FILE *stream)
{
    fprintf(stream,
            "%snft 'add table ip " NFT_TABLE "; delete table ip " NFT_TABLE
            "'\n"
            "%sip -4 rule flush protocol %d\n"
            "%sip -4 route flush table all protocol %d\n",
            indent, indent, PROTOCOL, indent, PROTOCOL);
}

static void write_routes(const mrail_acl_t *acl, FILE *stream)
{
    char buffer[ACL_TARGET_MAX];

    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        fprintf(stream, "route add default via %s",
                acl_next_hop(acl, u, buffer));
        if (acl->uplinks[u].port != NULL) {
            fprintf(stream, " dev %s", acl->uplinks[u].port);
        }
        fprintf(stream, " table %u protocol %d\n", TABLE + u + 1, PROTOCOL);
        if (acl->failure == MRAIL_ACL_DROP) {
            fprintf(stream,
                    "route add blackhole default metric 4294967295 table %u "
                    "protocol %d\n",
                    TABLE + u + 1, PROTOCOL);
        }
    }
}

/* Writes the rules. Those for local hosts precede those for uplinks. */
static void write_rules(const mrail_acl_t *acl, FILE *stream)
{
    for (unsigned i = 0; i < acl->num_local; ++i) {
        fprintf(stream, "rule add priority %d to %s lookup main protocol %d\n",
                PRIORITY, acl->local[i], PROTOCOL);
    }
    if (acl->num_local == 0) {
        fprintf(stream,
                "rule add priority %d fwmark 0x%x/0xffff0000 lookup main "
                "suppress_prefixlength 0 protocol %d\n",
                PRIORITY, MARK, PROTOCOL);
    }
    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        fprintf(stream,
                "rule add priority %u fwmark 0x%x lookup %u protocol %d\n",
                PRIORITY + u + 1, MARK + u + 1, TABLE + u + 1, PROTOCOL);
    }
}

static void write_marks(const mrail_acl_t *acl, FILE *stream)
{
    fprintf(stream,
            "table ip " NFT_TABLE " {\n"
            "    chain prerouting {\n"
            "        type filter hook prerouting priority mangle; policy "
            "accept;\n");
    for (unsigned i = 0; i < acl->num_ingress; ++i) {
        fprintf(stream, "%s\"%s\"%s", (i == 0) ? "        iifname != { " : ", ",
                acl->ingress[i],
                (i + 1 == acl->num_ingress) ? " } return\n" : "");
    }
    fprintf(stream, "        udp dport != %u return\n", ACL_ROCE_PORT);
    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        for (unsigned s = 0; s < acl->leaf_uplinks; ++s) {
            uint16_t first, last;

            mrail_acl_range(acl, u, s, &first, &last);
            fprintf(stream, "        udp dport %u udp sport %u-%u ",
                    ACL_ROCE_PORT, first, last);
            if (acl->dscp != MRAIL_ACL_NO_DSCP) {
                fprintf(stream, "ip dscp %u ", acl->dscp);
            }
            fprintf(stream, "counter meta mark set 0x%x\n", MARK + u + 1);
        }
    }
    fputs("    }\n}\n", stream);
}

static void linux_write(const mrail_acl_t *acl, FILE *stream)
{
    fputs("#!/bin/sh\n", stream);
    acl_write_head(acl, MRAIL_ACL_LINUX, "#", stream);
    fputs("# The kernel removes routes of a link that is set down: run this "
          "again when\n"
          "# it is up. A lost carrier counts as down only with "
          "net.ipv4.conf.PORT.\n"
          "# ignore_routes_with_linkdown=1.\n"
          "set -e\n"
          "remove()\n"
          "{\n",
          stream);
    write_remove("    ", stream);
    fputs("}\n"
          "remove\n"
          "# If a step fails, remove everything.\n"
          "trap remove EXIT\n"
          "trap 'exit 1' HUP INT TERM\n"
          "ip -4 -batch - <<'END'\n",
          stream);
    write_routes(acl, stream);
    write_rules(acl, stream);
    fputs("END\n"
          "nft -f - <<'END'\n",
          stream);
    write_marks(acl, stream);
    fputs("END\n"
          "trap - EXIT HUP INT TERM\n",
          stream);
}

static void linux_undo(const mrail_acl_t *acl, FILE *stream)
{
    (void)acl; /* the commands that remove rules need no options */
    fputs("#!/bin/sh\nset -e\n", stream);
    write_remove("", stream);
}

static void linux_vrfs(const mrail_acl_t *acl, int undo, FILE *stream)
{
    fputs("#!/bin/sh\n", stream);
    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        fprintf(stream, "ip link delete %s%u 2>/dev/null || :\n", acl->name,
                u + 1);
    }
    if (undo) {
        return;
    }
    fputs("set -e\n", stream);
    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        fprintf(stream,
                "ip link add %s%u type vrf table %u\n"
                "ip link set %s%u up\n",
                acl->name, u + 1, VRF_TABLE + u + 1, acl->name, u + 1);
    }
    for (unsigned i = 0; i < acl->num_ingress; ++i) {
        fprintf(stream, "ip link set %s master %s%u\n", acl->ingress[i],
                acl->name, i % acl->num_uplinks + 1);
    }
}

/* ---- Reader ---- */

/* Returns the word after `name`, or NULL. */
static const char *value_of(const acl_line_t *line, const char *name)
{
    unsigned at = acl_find_word(line, name);

    return (at < line->num) ? line->words[at + 1] : NULL;
}

static int is_port_word(const char *word)
{
    return word != NULL && strchr("0123456789", word[0]) != NULL;
}

static int mark_key(acl_reader_t *reader, const char *word,
                    char key[ACL_KEY_MAX])
{
    char number[24];
    unsigned long mark;

    snprintf(number, sizeof(number), "%.*s", (int)strcspn(word, "/"), word);
    if (acl_number(reader, number, "mark", UINT32_MAX, &mark) != 0) {
        return -EINVAL;
    }
    snprintf(number, sizeof(number), "%lu", mark);
    return acl_key(reader, key, "mark", number, NULL);
}

/* Adds a match for each port range after the word "sport". */
static int add_ranges(acl_reader_t *reader, const acl_line_t *line,
                      acl_match_t *match)
{
    unsigned at = acl_find_word(line, "sport") + 1;
    const char *dscp = value_of(line, "dscp");
    unsigned long value;
    int ret = 0;

    if (!is_port_word(line->words[at])) {
        return acl_fail(reader,
                        "sport: '%.40s' is not a port; each segment has a "
                        "rule of its own here",
                        (at < line->num) ? line->words[at] : "");
    }
    if (is_port_word(dscp)) {
        if (acl_number(reader, dscp, "dscp", 63, &value) != 0) {
            return -EINVAL;
        }
        match->dscp = (unsigned)value;
    }
    for (; ret == 0 && is_port_word(line->words[at]); ++at) {
        ret = acl_ports(reader, line->words[at], &match->first, &match->last);
        if (ret == 0) {
            ret = acl_add_match(reader, match);
        }
    }
    return ret;
}

/* Returns 1 if the line's destination port may be RoCEv2's. */
static int is_roce_port(acl_reader_t *reader, const acl_line_t *line,
                        int *ret_p)
{
    unsigned at = acl_find_word(line, "dport") + 1, first, last;
    int is_not = at < line->num && strcmp(line->words[at], "!=") == 0;
    int is_within = 0;

    *ret_p = 0;
    if (at > line->num) {
        return 1;
    }
    at += (unsigned)is_not;
    if (!is_port_word(line->words[at])) {
        return 0;
    }
    for (; is_port_word(line->words[at]); ++at) {
        *ret_p = acl_ports(reader, line->words[at], &first, &last);
        if (*ret_p != 0) {
            return 0;
        }
        is_within |= first <= ACL_ROCE_PORT && last >= ACL_ROCE_PORT;
    }
    return is_within != is_not;
}

static int is_udp_word(const char *word)
{
    return word != NULL &&
           (strcmp(word, "udp") == 0 || strcmp(word, "17") == 0);
}

/* Returns 1 if one of the words is in the line. */
static int has_any(const acl_line_t *line, const char *const *words,
                   unsigned num)
{
    for (unsigned i = 0; i < num; ++i) {
        if (acl_find_word(line, words[i]) < line->num) {
            return 1;
        }
    }
    return 0;
}
#define HAS_ANY(_line, ...)                                                    \
    has_any((_line), (const char *const[]){__VA_ARGS__},                       \
            MRAIL_ARRAY_SIZE(((const char *const[]){__VA_ARGS__})))

/* Returns 1 if the line's protocol may be UDP over IPv4. */
static int is_udp(const acl_line_t *line)
{
    unsigned at = acl_find_word(line, "l4proto");

    at = (at < line->num) ? at : acl_find_word(line, "protocol");
    if (at + 1 >= line->num) {
        return !HAS_ANY(line, "tcp", "sctp", "icmp", "icmpv6", "ip6", "arp");
    }
    if (strcmp(line->words[at + 1], "!=") == 0) {
        return !is_udp_word(line->words[at + 2]);
    }
    while (++at < line->num && !is_udp_word(line->words[at])) {
    }
    return at < line->num;
}

static int is_roce(acl_reader_t *reader, const acl_line_t *line, int *ret_p)
{
    *ret_p = 0;
    return is_udp(line) && is_roce_port(reader, line, ret_p);
}

/* Reads "saddr A" of nft, or "from A" of `ip rule`. */
static void read_source(const acl_line_t *line, acl_match_t *match)
{
    unsigned at = acl_find_word(line, "saddr");

    at = (at < line->num) ? at : acl_find_word(line, "from");
    if (at + 1 < line->num && strcmp(line->words[at + 1], "all") != 0) {
        int is_not = strcmp(line->words[at + 1], "!=") == 0;

        snprintf(match->source, sizeof(match->source), "%s%.40s",
                 is_not ? "not " : "",
                 (is_not && at + 2 < line->num) ? line->words[at + 2]
                                                : line->words[at + 1]);
    }
}

/* Returns the value after "mark set", or NULL. The mark of a connection does not
 * count. */
static const char *mark_of(const acl_line_t *line)
{
    for (unsigned at = 0; at + 2 < line->num; ++at) {
        if (ACL_HAS(line, at, "mark", "set") &&
            (at == 0 || strcmp(line->words[at - 1], "ct") != 0)) {
            return line->words[at + 2];
        }
    }
    return NULL;
}

/* Adds a match that exempts the source ports of the line, or all ports if the
 * line does not list them. */
static int add_exemption(acl_reader_t *reader, const acl_line_t *line,
                         acl_match_t *match)
{
    unsigned at = acl_find_word(line, "sport") + 1;
    int ret = 0;

    match->is_any = 1; /* counts only if it takes packets from the rules */
    match->denies = 1;
    match->last = UINT16_MAX;
    if (at >= line->num || !is_port_word(line->words[at])) {
        return acl_add_match(reader, match);
    }
    for (; ret == 0 && is_port_word(line->words[at]); ++at) {
        ret = acl_ports(reader, line->words[at], &match->first, &match->last);
        if (ret == 0 && match->last >= MRAIL_PORTS_FIRST) {
            ret = acl_add_match(reader, match);
        }
    }
    return ret;
}

/* Adds the rule "udp dport 4791 udp sport A-B ... meta mark set M" of nft, or
 * one without source ports, which marks all ports. */
static int add_mark(acl_reader_t *reader, const acl_line_t *line,
                    const char *mark, acl_match_t *match)
{
    if (acl_find_word(line, "sport") < line->num) {
        /* With one of these conditions, some packets have no mark. */
        match->denies = HAS_ANY(line, "limit", "quota", "numgen", "jhash",
                                "symhash", "length", "state");
        return (mark_key(reader, mark, match->key) != 0)
                   ? -EINVAL
                   : add_ranges(reader, line, match);
    }
    /* The last mark of a packet counts. */
    match->is_any = 1;
    match->last = UINT16_MAX;
    match->place = ACL_TAKES_EARLIER;
    if (is_port_word(mark) && mark_key(reader, mark, match->key) != 0) {
        return -EINVAL;
    }
    return acl_add_match(reader, match);
}

/* Reads a rule of nft that marks packets, or that ends the chain for them. */
static int read_nft(acl_reader_t *reader, const acl_line_t *line)
{
    acl_match_t match = {.dscp = MRAIL_ACL_NO_DSCP};
    const char *mark = mark_of(line);
    int is_rule = mark != NULL && acl_find_word(line, "sport") < line->num;
    int is_lost = HAS_ANY(line, "drop", "reject", "queue"), ret;

    /* Such a line is for local hosts, or for some ports of the switch. */
    if (!is_rule && HAS_ANY(line, "daddr", "iifname", "iif", "iifgroup")) {
        return 0;
    }
    if (!is_roce(reader, line, &ret)) {
        return ret;
    }
    read_source(line, &match);
    snprintf(match.list, sizeof(match.list), "%s", reader->name);
    if (mark != NULL && !is_lost) {
        return add_mark(reader, line, mark, &match);
    }
    /* A packet with a mark can still be lost, but "return" and "accept" keep the
     * mark. The command "insert" puts a rule before all others. */
    if (is_lost || acl_find_word(line, "insert") < line->num) {
        match.place = ACL_TAKES_ALL;
    }
    return add_exemption(reader, line, &match);
}

/* Reads the chain of the command "nft add rule|chain [FAMILY] TABLE CHAIN
 * ...". */
static int read_command(acl_reader_t *reader, const acl_line_t *line)
{
    unsigned at = acl_find_word(line, "rule");

    at = (at < line->num) ? at : acl_find_word(line, "chain");
    if (at == 0 || at >= line->num ||
        (strcmp(line->words[at - 1], "add") != 0 &&
         strcmp(line->words[at - 1], "insert") != 0)) {
        return 0;
    }
    at += 1 + (unsigned)(ACL_HAS(line, at + 1, "ip") ||
                         ACL_HAS(line, at + 1, "inet"));
    return (at + 1 < line->num) ? acl_key(reader, reader->name, "chain",
                                          line->words[at + 1], NULL)
                                : 0;
}

/* Reads a line of a chain as printed by `nft list`. Rules of a chain without a
 * hook apply only after a jump. */
static int read_chain(acl_reader_t *reader, const acl_line_t *line)
{
    const char *jump = value_of(line, "jump"), *hook = value_of(line, "hook");
    int ret = 0;

    if (ACL_HAS(line, 0, "chain") && line->num > 1) {
        reader->has_ports = 1;
        if (acl_key(reader, reader->name, "chain", line->words[1], NULL) != 0) {
            return -EINVAL;
        }
    }
    if (hook != NULL && strcmp(hook, "prerouting") == 0 &&
        reader->name[0] != '\0') {
        ret = acl_bind(reader, "chain", reader->name + strlen("chain:"), hook);
    }
    jump = (jump != NULL) ? jump : value_of(line, "goto");
    return (ret == 0 && jump != NULL)
               ? acl_bind(reader, "chain", jump, reader->name)
               : ret;
}

/* Returns 1 if the line is a rule that marks packets or ends the chain for
 * them, or the policy of a chain that loses them. */
static int is_nft_rule(const acl_line_t *line)
{
    const char *policy = value_of(line, "policy");

    if (policy != NULL) {
        return strcmp(policy, "drop") == 0;
    }
    return mark_of(line) != NULL ||
           HAS_ANY(line, "return", "accept", "drop", "reject", "queue");
}

/* Reads "ip rule add [fwmark M] [sport A-B dport 4791] lookup|table T". */
static int read_rule(acl_reader_t *reader, const acl_line_t *line)
{
    acl_match_t match = {.dscp = MRAIL_ACL_NO_DSCP};
    const char *table = value_of(line, "lookup");
    const char *mark = value_of(line, "fwmark");
    const char *order = value_of(line, "priority");
    unsigned long priority = reader->order;
    char from[ACL_KEY_MAX];
    int ret;

    table = (table != NULL) ? table : value_of(line, "table");
    order = (order != NULL) ? order : value_of(line, "pref");
    if (table == NULL || value_of(line, "suppress_prefixlength") != NULL ||
        value_of(line, "to") != NULL) {
        return 0; /* a rule for local hosts */
    }
    if ((order != NULL &&
         acl_number(reader, order, "priority", UINT32_MAX, &priority) != 0) ||
        acl_key(reader, match.key, "table", table, NULL) != 0) {
        return -EINVAL;
    }
    read_source(line, &match);
    if (value_of(line, "sport") != NULL) {
        return is_roce_port(reader, line, &ret)
                   ? add_ranges(reader, line, &match)
                   : ret;
    }
    if (mark == NULL || match.source[0] != '\0') {
        return 0; /* other packets with this mark have no uplink */
    }
    if (mark_key(reader, mark, from) != 0) {
        return -EINVAL;
    }
    return acl_add_edge(reader, ACL_REFERENCE, (unsigned)priority, from,
                        match.key);
}

/* Reads "ip route add|replace ... via A [dev D] table T". */
static int read_route(acl_reader_t *reader, const acl_line_t *line)
{
    const char *table = value_of(line, "table");
    const char *via = value_of(line, "via");
    char from[ACL_KEY_MAX];

    via = (via != NULL) ? via : value_of(line, "dev");
    if (table == NULL || via == NULL) {
        return 0;
    }
    if (acl_key(reader, from, "table", table, NULL) != 0) {
        return -EINVAL;
    }
    return acl_add_edge(reader, ACL_TARGET, 0, from, via);
}

/* Reads a line that `ip rule` printed: "PRIORITY: from all fwmark M lookup
 * T". */
static int read_listed_rule(acl_reader_t *reader, acl_line_t *line)
{
    char *priority = line->words[0];
    unsigned long order;

    priority[strlen(priority) - 1] = '\0';
    if (acl_number(reader, priority, "priority", UINT32_MAX, &order) != 0) {
        return -EINVAL;
    }
    reader->order = (unsigned)order;
    return read_rule(reader, line);
}

static int is_listed_rule(const acl_line_t *line)
{
    const char *word = line->words[0];

    return is_port_word(word) && word[strlen(word) - 1] == ':' &&
           value_of(line, "lookup") != NULL;
}

static int linux_line(acl_reader_t *reader, acl_line_t *line)
{
    int is_adding = acl_find_word(line, "add") < line->num ||
                    acl_find_word(line, "replace") < line->num ||
                    acl_find_word(line, "append") < line->num;

    int ret;

    if (line->words[0][0] == '#') {
        return 0;
    }
    ret = read_command(reader, line);
    if (ret == 0) {
        ret = read_chain(reader, line);
    }
    if (ret != 0) {
        return ret;
    }
    if (is_nft_rule(line)) {
        return read_nft(reader, line);
    }
    reader->order = 0;
    if (is_adding && acl_find_word(line, "rule") < line->num) {
        return read_rule(reader, line);
    }
    if (is_adding && acl_find_word(line, "route") < line->num) {
        return read_route(reader, line);
    }
    if (is_listed_rule(line)) {
        return read_listed_rule(reader, line);
    }
    /* A line of `ip route show table all`, which may list many other routes. */
    if (strcmp(line->words[0], "default") == 0) {
        return read_route(reader, line);
    }
    return 0;
}

/* Adds a copy of the match to each chain to which its own chain jumps, if it
 * takes packets from that chain. */
static int follow_jumps(acl_reader_t *reader, acl_match_t match)
{
    char from[ACL_KEY_MAX];
    int ret = 0;

    mrail_copy(from, match.list, sizeof(from));
    for (unsigned i = 0; i < reader->num_edges && ret == 0; ++i) {
        const acl_edge_t *edge = &reader->edges[i];
        acl_match_t copy = match;

        if (edge->kind == ACL_BINDING && strcmp(edge->to, from) == 0 &&
            strcmp(edge->from, from) != 0 &&
            acl_takes_from(&match, edge->line)) {
            mrail_copy(copy.list, edge->from, sizeof(copy.list));
            copy.place = ACL_TAKES_ALL;
            copy.key[0] = '\0'; /* its mark replaces those of the chain */
            ret = acl_add_match(reader, &copy);
        }
    }
    return ret;
}

/* A jump from a chain to which another chain jumps is not followed. */
static int follow_all_jumps(acl_reader_t *reader)
{
    unsigned num = reader->num_matches;
    int ret = 0;

    for (unsigned i = 0; i < num && ret == 0; ++i) {
        if (reader->matches[i].is_any && reader->matches[i].list[0] != '\0') {
            ret = follow_jumps(reader, reader->matches[i]);
        }
    }
    return ret;
}

static int linux_read(acl_reader_t *reader, char *text)
{
    int ret;

    reader->kind = "mark";
    ret = acl_each_line(reader, text, " \t\r{},;'", linux_line);
    return (ret == 0) ? follow_all_jumps(reader) : ret;
}

const acl_dialect_t acl_linux = {
    .name = "linux",
    .write = linux_write,
    .undo = linux_undo,
    .vrfs = linux_vrfs,
    .read = linux_read,
};
