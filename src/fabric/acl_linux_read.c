/*
 * Reads the rules of a Linux router: a script of `mrail acl`, or what nft(8)
 * and ip-rule(8) list. Rules of nft set marks, and routing rules send a mark or
 * a range of ports to a table. Sources: [nft], [ip-rule].
 */
#include "config.h"
#include "fabric/acl_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* Returns the value after "mark set", or NULL. The mark of a connection does
 * not count. */
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
    match.returns = !is_lost && acl_find_word(line, "return") < line->num;
    /* A packet with a mark can still be lost, but "return" and "accept" keep
     * the mark. The command "insert" puts a rule before all others. */
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
    return (at + 1 < line->num) ? acl_key(reader, reader->name, ACL_CHAIN,
                                          line->words[at + 1], NULL)
                                : 0;
}

/* Adds an edge from a chain to the one that jumps to it. Its order is 1 if the
 * jump is for other packets than those of the rules. */
static int add_jump(acl_reader_t *reader, const acl_line_t *line,
                    const char *jump)
{
    char key[ACL_KEY_MAX];
    int ret, is_other;

    is_other = !is_roce(reader, line, &ret) ||
               HAS_ANY(line, "daddr", "iifname", "iif", "iifgroup");
    if (ret != 0 || acl_key(reader, key, ACL_CHAIN, jump, NULL) != 0) {
        return -EINVAL;
    }
    return acl_add_edge(reader, ACL_BINDING, (unsigned)is_other, key,
                        reader->name);
}

/* Reads a line of a chain as printed by `nft list`. Rules of a chain without a
 * hook apply only after a jump. */
static int read_chain(acl_reader_t *reader, const acl_line_t *line)
{
    const char *jump = value_of(line, "jump"), *hook = value_of(line, "hook");
    int ret = 0;

    if (ACL_HAS(line, 0, "chain") && line->num > 1) {
        reader->has_ports = 1;
        if (acl_key(reader, reader->name, ACL_CHAIN, line->words[1], NULL) !=
            0) {
            return -EINVAL;
        }
    }
    if (hook != NULL && strcmp(hook, "prerouting") == 0 &&
        reader->name[0] != '\0') {
        ret = acl_bind(reader, ACL_CHAIN, reader->name + strlen(ACL_CHAIN ":"),
                       hook);
    }
    jump = (jump != NULL) ? jump : value_of(line, "goto");
    return (ret == 0 && jump != NULL) ? add_jump(reader, line, jump) : ret;
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

/* ---- ip rule ---- */

/* Prefix of the key of a mark with a mask, until all marks are known. */
#define MASKED "masked"

static const char *const rule_actions[] = {"blackhole", "unreachable",
                                           "prohibit"};

/* Returns the table of a routing rule, the name of its action, or NULL. */
static const char *table_of(const acl_line_t *line)
{
    const char *table = value_of(line, "lookup");

    table = (table != NULL) ? table : value_of(line, "table");
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(rule_actions) && table == NULL;
         ++i) {
        if (acl_find_word(line, rule_actions[i]) < line->num) {
            table = rule_actions[i];
        }
    }
    return table;
}

static int is_word(const char *word, const char *other)
{
    return word != NULL && strcmp(word, other) == 0;
}

/* Returns 1 if a routing rule is for other packets: those for local hosts,
 * those of the switch itself, or other protocols. */
static int is_other_rule(acl_reader_t *reader, const acl_line_t *line,
                         const char *table, int *ret_p)
{
    const char *protocol = value_of(line, "ipproto");

    return value_of(line, "suppress_prefixlength") != NULL ||
           value_of(line, "to") != NULL || value_of(line, "oif") != NULL ||
           is_word(value_of(line, "iif"), "lo") || is_word(table, "local") ||
           is_word(table, "255") || table[0] == '[' ||
           (protocol != NULL && !is_udp_word(protocol)) ||
           !is_roce_port(reader, line, ret_p);
}

/* Adds a routing rule that takes packets of all ports before later rules. */
static int add_taker(acl_reader_t *reader, const acl_line_t *line,
                     acl_match_t match)
{
    const char *mark = value_of(line, "fwmark");

    match.is_any = 1;
    match.denies = 1;
    match.last = UINT16_MAX;
    match.place = ACL_TAKES_BY_ORDER;
    match.key[0] = '\0';
    if (acl_find_word(line, "not") < line->num) {
        match.source[0] = '\0';
    } else if (mark != NULL &&
               acl_key(reader, match.key, MASKED, mark, NULL) != 0) {
        return -EINVAL;
    }
    return acl_add_match(reader, &match);
}

/* Reads "ip rule add [fwmark M] [sport A-B dport 4791] lookup|table T". Without
 * a priority, the kernel puts a rule before all others. */
static int read_rule(acl_reader_t *reader, const acl_line_t *line)
{
    acl_match_t match = {.dscp = MRAIL_ACL_NO_DSCP};
    const char *table = table_of(line);
    const char *mark = value_of(line, "fwmark");
    const char *order = value_of(line, "priority");
    unsigned long priority = reader->order;
    int is_not = acl_find_word(line, "not") < line->num, ret = 0;
    char from[ACL_KEY_MAX];

    order = (order != NULL) ? order : value_of(line, "pref");
    if (table == NULL ||
        (is_other_rule(reader, line, table, &ret) && !is_not)) {
        return ret;
    }
    if ((order != NULL &&
         acl_number(reader, order, "priority", UINT32_MAX, &priority) != 0) ||
        acl_key(reader, match.key, "table", table, NULL) != 0) {
        return -EINVAL;
    }
    match.order = (unsigned)priority;
    read_source(line, &match);
    if (value_of(line, "sport") != NULL && !is_not) {
        return add_ranges(reader, line, &match);
    }
    if (mark == NULL || is_not || strchr(mark, '/') != NULL) {
        ret = add_taker(reader, line, match);
    }
    if (ret != 0 || mark == NULL || is_not || match.source[0] != '\0') {
        return ret; /* other packets with this mark have no uplink */
    }
    if (mark_key(reader, mark, from) != 0) {
        return -EINVAL;
    }
    return acl_add_edge(reader, ACL_REFERENCE, (unsigned)priority, from,
                        match.key);
}

/* Returns 1 if the mask lets through a mark of the rules other than its own,
 * for which read_rule() has added an edge. */
static int is_masked_mark(const acl_reader_t *reader, const char *text)
{
    unsigned long mark, mask, other;
    char *end;

    mark = strtoul(text, &end, 0);
    mask = (*end == '/') ? strtoul(end + 1, NULL, 0) : UINT32_MAX;
    for (unsigned i = 0; i < reader->num_matches; ++i) {
        if (sscanf(reader->matches[i].key, "mark:%lu", &other) == 1 &&
            other != mark && (other & mask) == (mark & mask)) {
            return 1;
        }
    }
    return 0;
}

/* Lets rules for other marks take no packets. */
static void resolve_masks(acl_reader_t *reader)
{
    for (unsigned i = 0; i < reader->num_matches; ++i) {
        acl_match_t *match = &reader->matches[i];

        if (match->place == ACL_TAKES_BY_ORDER && match->key[0] != '\0') {
            if (!is_masked_mark(reader, match->key + strlen(MASKED ":"))) {
                match->order = UINT32_MAX;
            }
            match->key[0] = '\0';
        }
    }
}

/* ---- Lines ---- */

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
           (ACL_HAS(line, 1, "from") || ACL_HAS(line, 1, "not"));
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
    if (ACL_HAS(line, acl_find_word(line, "rule") + 1, "add")) {
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

int acl_linux_read(acl_reader_t *reader, char *text)
{
    int ret;

    reader->kind = "mark";
    ret = acl_each_line(reader, text, " \t\r{},;'", ';', linux_line);
    resolve_masks(reader);
    return (ret == 0) ? acl_follow_jumps(reader) : ret;
}
