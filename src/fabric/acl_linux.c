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
static int is_roce(acl_reader_t *reader, const acl_line_t *line, int *ret_p)
{
    const char *dport = value_of(line, "dport");
    unsigned first, last;

    *ret_p = 0;
    if (!is_port_word(dport)) {
        return dport == NULL;
    }
    *ret_p = acl_ports(reader, dport, &first, &last);
    return *ret_p == 0 && first <= ACL_ROCE_PORT && last >= ACL_ROCE_PORT;
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

/* Reads "udp dport 4791 udp sport A-B ... meta mark set M" of nft. */
static int read_nft(acl_reader_t *reader, const acl_line_t *line)
{
    acl_match_t match = {.dscp = MRAIL_ACL_NO_DSCP};
    const char *mark = value_of(line, "set");
    int ret;

    if (!is_roce(reader, line, &ret)) {
        return ret;
    }
    if (mark == NULL) {
        return acl_fail(reader, "mark set: the mark is missing");
    }
    read_source(line, &match);
    if (acl_find_word(line, "add") == line->num) {
        snprintf(match.list, sizeof(match.list), "%s", reader->name);
    }
    if (mark_key(reader, mark, match.key) != 0) {
        return -EINVAL;
    }
    return add_ranges(reader, line, &match);
}

/* Reads "ip saddr A ... return" of nft, which exempts hosts from the rules
 * below. */
static int read_exemption(acl_reader_t *reader, const acl_line_t *line)
{
    acl_match_t match = {.is_any = 1,
                         .denies = 1,
                         .last = UINT16_MAX,
                         .dscp = MRAIL_ACL_NO_DSCP};
    int ret;

    if (!is_roce(reader, line, &ret)) {
        return ret;
    }
    read_source(line, &match);
    snprintf(match.list, sizeof(match.list), "%s", reader->name);
    return acl_add_match(reader, &match);
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
    return (ret == 0 && jump != NULL) ? acl_bind(reader, "chain", jump, "jump")
                                      : ret;
}

/* Returns 1 if the line ends the chain for some packets. */
static int is_exemption(const acl_line_t *line)
{
    static const char *const verdicts[] = {"return", "accept", "drop"};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(verdicts); ++i) {
        if (acl_find_word(line, verdicts[i]) < line->num) {
            return acl_find_word(line, "saddr") < line->num;
        }
    }
    return 0;
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
        return is_roce(reader, line, &ret) ? add_ranges(reader, line, &match)
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
    ret = read_chain(reader, line);
    if (ret != 0) {
        return ret;
    }
    if (is_exemption(line)) {
        return read_exemption(reader, line);
    }
    if (acl_find_word(line, "mark") < line->num &&
        acl_find_word(line, "set") < line->num &&
        acl_find_word(line, "sport") < line->num) {
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

static int linux_read(acl_reader_t *reader, char *text)
{
    reader->kind = "mark";
    return acl_each_line(reader, text, " \t\r{},;'", linux_line);
}

const acl_dialect_t acl_linux = {
    .name = "linux",
    .write = linux_write,
    .undo = linux_undo,
    .vrfs = linux_vrfs,
    .read = linux_read,
};
