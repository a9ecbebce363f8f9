/*
 * Reads nft rules that mark packets, end a chain for packets, or drop packets.
 * Source: [nft].
 *
 * Only tables that IPv4 packets traverse count, and only conditions that
 * concern all ports of the switch. Named sets and maps are not followed.
 */
#include "config.h"
#include "fabric/acl_linux_internal.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* ---- Conditions ---- */

static int is_in(const char *word, const char *const *words, unsigned num)
{
    unsigned i = 0;

    while (i < num && strcmp(word, words[i]) != 0) {
        ++i;
    }
    return i < num;
}

/* Returns 1 if the line matches only packets in conntrack state invalid. The
 * packets of lanes are never in this state. */
static int is_invalid_state(const acl_line_t *line)
{
    return ACL_HAS(line, acl_find_word(line, "state"), "state", "invalid") &&
           !ACL_HAS_ANY(line, "new", "untracked", "established", "related");
}

/* Returns 1 if the line's protocol may be UDP over IPv4. */
static int is_udp(const acl_line_t *line)
{
    unsigned at = acl_find_word(line, "l4proto");

    at = (at < line->num) ? at : acl_find_word(line, "protocol");
    if (at + 1 >= line->num ||
        (at > 0 && ACL_HAS(line, at - 1, "meta", "protocol", "ip"))) {
        return !ACL_HAS_ANY(line, "tcp", "sctp", "icmp", "icmpv6", "ip6", "arp",
                            "ipv6");
    }
    if (strcmp(line->words[at + 1], "!=") == 0) {
        return !acl_linux_is_udp_word(line->words[at + 2]);
    }
    while (++at < line->num && !acl_linux_is_udp_word(line->words[at])) {
    }
    return at < line->num;
}

static int is_roce(acl_reader_t *reader, const acl_line_t *line, int *ret_p)
{
    *ret_p = 0;
    return is_udp(line) && !is_invalid_state(line) &&
           acl_linux_is_roce_port(reader, line, ret_p);
}

/* Returns 1 if the line matches only packets of some ports of the switch. */
static int has_interface(const acl_line_t *line)
{
    return ACL_HAS_ANY(line, "iifname", "iif", "iifgroup", "oifname", "oif",
                       "oifgroup");
}

/* Returns the index of the first word after "add rule [FAMILY] TABLE CHAIN", or
 * 0 if the line does not begin with this. */
static unsigned rule_start(const acl_line_t *line)
{
    unsigned at = acl_find_word(line, "rule");

    if (at == 0 || at >= line->num) {
        return 0;
    }
    at += 3;
    return at + (unsigned)(at < line->num && (ACL_HAS(line, at - 2, "ip") ||
                                              ACL_HAS(line, at - 2, "inet")));
}

/* Returns 1 if the line applies to every packet with its source ports. Unknown
 * words may be conditions. */
static int is_certain(const acl_line_t *line)
{
    static const char *const words[] = {
        "ip",      "meta",  "protocol", "l4proto", "udp",     "17",      "th",
        "dport",   "sport", "counter",  "packets", "bytes",   "iifname", "iif",
        "oifname", "oif",   "accept",   "return",  "position"};

    /* A rule for some ports counts if it is written for RoCE. */
    if (has_interface(line) && (acl_find_word(line, "dport") == line->num ||
                                ACL_HAS_ANY(line, "lo", "\"lo\""))) {
        return 0;
    }
    for (unsigned at = rule_start(line); at < line->num; ++at) {
        const char *word = line->words[at];

        if (strcmp(word, "comment") == 0 || word[0] == '#') {
            return 1;
        }
        if (acl_linux_is_number(word) || word[0] == '"' ||
            (at > 0 && ACL_HAS(line, at - 1, "dport", "!="))) {
            continue;
        }
        if (!is_in(word, words, MRAIL_ARRAY_SIZE(words))) {
            return 0;
        }
    }
    return 1;
}

/* Returns the index of "mark set VALUE", or line->num. Ignores connection
 * marks. */
static unsigned find_mark(const acl_line_t *line)
{
    for (unsigned at = 0; at + 2 < line->num; ++at) {
        if (ACL_HAS(line, at, "mark", "set") &&
            (at == 0 || strcmp(line->words[at - 1], "ct") != 0)) {
            return at;
        }
    }
    return line->num;
}

static int is_interface_word(const char *word)
{
    return strcmp(word, "iifname") == 0 || strcmp(word, "iif") == 0 ||
           strcmp(word, "iifgroup") == 0;
}

/* Returns the index of the last word of a text in quotation marks. */
static unsigned quoted_end(const acl_line_t *line, unsigned at)
{
    for (unsigned first = at; at < line->num; ++at) {
        size_t length = strlen(line->words[at]);

        if (line->words[at][length - 1] == '"' && (at > first || length > 1)) {
            break;
        }
    }
    return at;
}

/* Returns 1 if the word is a value: a number or address, a DSCP, a set, an
 * argument of log or counter, or one of the interfaces of a list. Names of
 * interfaces usually end with a digit. */
static int is_value(const acl_line_t *line, unsigned at, int is_in_list)
{
    static const char *const takers[] = {"level", "prefix", "name"};
    const char *word = line->words[at];
    const char *before = (at > 0) ? line->words[at - 1] : "";
    int is_not = strcmp(before, "!=") == 0;

    return acl_linux_is_number(word) || acl_dscp_of(word) >= 0 ||
           is_in(before, takers, MRAIL_ARRAY_SIZE(takers)) ||
           (word[0] == '@' && (is_not || strcmp(before, "saddr") == 0)) ||
           (is_in_list && (is_not || is_interface_word(before) ||
                           strchr("0123456789*", word[strlen(word) - 1])));
}

/* Returns 1 if the line has a condition that the check neither compares nor
 * ignores. Unknown words may be conditions, but words from index `end` on are
 * none. A destination after "!=" exempts local hosts. */
static int is_partial(const acl_line_t *line, unsigned end)
{
    static const char *const known[] = {
        "ip",     "version", "meta",    "protocol", "l4proto", "nfproto",
        "ipv4",   "udp",     "tcp",     "th",       "dport",   "sport",
        "dscp",   "saddr",   "counter", "packets",  "bytes",   "log",
        "prefix", "level",   "name",    "position", "index",   "handle",
        "iif",    "iifname", "iifgroup"};
    unsigned at = rule_start(line), chain = acl_find_word(line, "chain");
    int is_in_list = 0;

    for (at = (at == 0 && chain < end) ? chain + 2 : at; at < end; ++at) {
        const char *word = line->words[at];

        if (word[0] == '"') {
            at = quoted_end(line, at);
        } else if (is_in(word, known, MRAIL_ARRAY_SIZE(known))) {
            is_in_list = is_interface_word(word);
            if (is_in_list && (ACL_HAS(line, at + 1, "lo") ||
                               ACL_HAS(line, at + 1, "\"lo\""))) {
                return 1;
            }
        } else if (strcmp(word, "!=") != 0 &&
                   !ACL_HAS(line, at, "daddr", "!=") &&
                   !is_value(line, at, is_in_list)) {
            return 1;
        }
    }
    return 0;
}

/* ---- Rules ---- */

/* Returns the value after "mark set", or NULL. */
static const char *mark_of(const acl_line_t *line)
{
    unsigned at = find_mark(line);

    return (at < line->num) ? line->words[at + 2] : NULL;
}

/* Writes the key of a mark to match->key. Returns 0 or acl_fail(). */
static int set_mark_key(acl_reader_t *reader, const char *word,
                        acl_match_t *match)
{
    uint32_t mark, mask;

    if (acl_linux_mark(reader, word, &mark, &mask) != 0) {
        return -EINVAL;
    }
    acl_linux_mark_key(mark, match->key);
    return 0;
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
    if (at >= line->num || !acl_linux_is_number(line->words[at])) {
        return acl_add_match(reader, match);
    }
    for (; ret == 0 && acl_linux_is_number(line->words[at]); ++at) {
        ret = acl_ports(reader, line->words[at], &match->first, &match->last);
        if (ret == 0 && match->last >= MRAIL_PORTS_FIRST) {
            ret = acl_add_match(reader, match);
        }
    }
    return ret;
}

/* Adds the nft rule "udp dport 4791 udp sport A-B ... meta mark set M". Without
 * source ports, the rule marks all ports. */
static int add_mark(acl_reader_t *reader, const acl_line_t *line,
                    const char *mark, acl_match_t *match)
{
    if (acl_find_word(line, "sport") < line->num) {
        match->is_partial = is_partial(line, find_mark(line));
        return (set_mark_key(reader, mark, match) != 0)
                   ? -EINVAL
                   : acl_linux_ranges(reader, line, match);
    }
    /* The last mark of a packet counts. */
    match->is_any = 1;
    match->last = UINT16_MAX;
    match->place = ACL_TAKES_EARLIER;
    if (acl_linux_is_number(mark) && set_mark_key(reader, mark, match) != 0) {
        return -EINVAL;
    }
    return acl_add_match(reader, match);
}

/* Describes the rule and its chain in match->text. */
static void describe(const acl_reader_t *reader, const acl_line_t *line,
                     acl_match_t *match)
{
    char rule[ACL_RULE_MAX];
    const char *chain = reader->name;

    acl_linux_join(line, rule_start(line), rule, sizeof(rule));
    if (chain[0] == '\0') {
        snprintf(match->text, sizeof(match->text), "'%s'", rule);
    } else {
        snprintf(match->text, sizeof(match->text), "'%s' in '%s'", rule,
                 chain + strlen(ACL_CHAIN ":"));
    }
}

/* Reads a rule that ends the chain for packets. */
static int add_end(acl_reader_t *reader, const acl_line_t *line, int is_lost,
                   acl_match_t *match)
{
    match->loses = is_lost;
    match->returns = !is_lost && acl_find_word(line, "return") < line->num;
    match->is_certain = !is_lost && is_certain(line);
    /* A marked packet can still be dropped, but "return" and "accept" preserve
     * the mark. The command "insert" puts a rule before all others. */
    if (match->place != ACL_TAKES_NONE &&
        (is_lost || acl_find_word(line, "insert") < line->num)) {
        match->place = ACL_TAKES_ALL;
    }
    if (acl_find_word(line, "insert") < line->num) {
        match->at = 1;
    }
    if (acl_find_word(line, "policy") < line->num) {
        match->at = UINT_MAX; /* after all rules of the chain */
    }
    return add_exemption(reader, line, match);
}

/* Reads a rule of nft that marks packets, or that ends the chain for them. */
static int read_rule(acl_reader_t *reader, const acl_line_t *line)
{
    acl_match_t match = {.dscp = MRAIL_ACL_NO_DSCP};
    const char *mark = mark_of(line);
    int is_mark = mark != NULL && acl_find_word(line, "sport") < line->num;
    int is_lost = ACL_HAS_ANY(line, "drop", "reject", "queue"), ret;

    /* A rule for local hosts, or for some ports of the switch, takes no packets
     * from the rules, but it may let packets through. */
    if (!is_mark &&
        (has_interface(line) || acl_find_word(line, "daddr") < line->num)) {
        if (is_lost || mark != NULL || !is_certain(line)) {
            return 0;
        }
        match.place = ACL_TAKES_NONE;
    }
    if (!is_roce(reader, line, &ret)) {
        return ret;
    }
    acl_linux_source(line, &match);
    snprintf(match.list, sizeof(match.list), "%s", reader->name);
    describe(reader, line, &match);
    return (mark != NULL && !is_lost) ? add_mark(reader, line, mark, &match)
                                      : add_end(reader, line, is_lost, &match);
}

/* Returns 1 if the line is a rule that marks packets or ends the chain for
 * them, or the policy of a chain that drops them. */
static int is_rule(const acl_line_t *line)
{
    const char *policy = acl_linux_value(line, "policy");

    if (policy != NULL) {
        return strcmp(policy, "drop") == 0;
    }
    return mark_of(line) != NULL ||
           ACL_HAS_ANY(line, "return", "accept", "drop", "reject", "queue");
}

/* ---- Tables and chains ---- */

/* Makes "[FAMILY] TABLE" at index `at` of the line the current table. Returns
 * the index after it, or 0 with acl_fail(). */
static unsigned set_table(acl_reader_t *reader, const acl_line_t *line,
                          unsigned at)
{
    static const char *const families[] = {"ip",  "inet",   "ip6",
                                           "arp", "bridge", "netdev"};
    acl_linux_state_t *state = reader->state;
    const char *family = families[0];
    char key[ACL_KEY_MAX];

    state->is_other_family = 0;
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(families); ++i) {
        if (at + 1 < line->num && strcmp(line->words[at], families[i]) == 0) {
            family = families[i];
            state->is_other_family = i >= 2;
            ++at;
            break;
        }
    }
    if (at >= line->num) {
        state->table[0] = '\0';
        return at;
    }
    if (acl_key(reader, key, "table", line->words[at], NULL) != 0) {
        return 0;
    }
    snprintf(state->table, sizeof(state->table), "%s %.*s", family,
             ACL_NAME_BYTES, line->words[at]);
    return at + 1;
}

/* Writes the key of a chain in the current table: "chain:FAMILY TABLE NAME",
 * with the names as in nft's commands. Returns 0 or acl_fail(). */
static int chain_key(acl_reader_t *reader, const char *name,
                     char key[ACL_KEY_MAX])
{
    const acl_linux_state_t *state = reader->state;

    if (acl_key(reader, key, ACL_CHAIN, name, NULL) != 0) {
        return -EINVAL;
    }
    snprintf(key, ACL_KEY_MAX, ACL_CHAIN ":%.*s%s%.*s", ACL_NAME_BYTES + 8,
             state->table, (state->table[0] != '\0') ? " " : "", ACL_NAME_BYTES,
             name);
    return 0;
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
    at = set_table(reader, line, at + 1);
    if (at == 0) {
        return -EINVAL;
    }
    return (at < line->num) ? chain_key(reader, line->words[at], reader->name)
                            : 0;
}

/* Adds an edge from a chain to the chain that jumps to it. The edge has order 1
 * if the jump concerns packets that the rules do not match. A declaration with
 * the same line reports that only some packets of the lanes take the jump. */
static int add_jump(acl_reader_t *reader, const acl_line_t *line,
                    const char *jump)
{
    unsigned end =
        MRAIL_MIN(acl_find_word(line, "jump"), acl_find_word(line, "goto"));
    int ret, is_for_roce = is_roce(reader, line, &ret);
    int is_other = !is_for_roce || has_interface(line) ||
                   acl_find_word(line, "daddr") < line->num;
    char key[ACL_KEY_MAX];

    if (ret != 0 || chain_key(reader, jump, key) != 0) {
        return -EINVAL;
    }
    if ((!is_for_roce || is_partial(line, end) ||
         ACL_HAS_ANY(line, "saddr", "dscp", "sport")) &&
        acl_add_edge(reader, ACL_DECLARATION, 0, key, ACL_OTHER_MATCH) != 0) {
        return -EINVAL;
    }
    return acl_add_edge(reader, ACL_BINDING, (unsigned)is_other, key,
                        reader->name);
}

/* Adds an edge for the hook of the current chain. Rules of a chain without a
 * hook apply only after a jump. Forwarded packets traverse the hooks "forward"
 * and "postrouting" after routing, so marks have no effect there, but packets
 * can be dropped. */
static int add_hook(acl_reader_t *reader, const char *hook)
{
    if (reader->name[0] == '\0') {
        return 0;
    }
    if (strcmp(hook, "prerouting") == 0) {
        return acl_add_edge(reader, ACL_BINDING, 0, reader->name, hook);
    }
    if (strcmp(hook, "forward") == 0 || strcmp(hook, "postrouting") == 0) {
        return acl_add_edge(reader, ACL_PASSAGE, 0, reader->name, hook);
    }
    return 0;
}

/* Reads a line of a table or chain as printed by `nft list`. */
static int read_block(acl_reader_t *reader, const acl_line_t *line)
{
    const char *jump = acl_linux_value(line, "jump");
    const char *hook = acl_linux_value(line, "hook");
    int ret = 0;

    if (ACL_HAS(line, 0, "table")) {
        reader->name[0] = '\0';
        return (set_table(reader, line, 1) == 0) ? -EINVAL : 0;
    }
    if (ACL_HAS(line, 0, "chain") && line->num > 1) {
        reader->has_ports = 1;
        if (chain_key(reader, line->words[1], reader->name) != 0) {
            return -EINVAL;
        }
    }
    if (hook != NULL) {
        ret = add_hook(reader, hook);
    }
    jump = (jump != NULL) ? jump : acl_linux_value(line, "goto");
    return (ret == 0 && jump != NULL) ? add_jump(reader, line, jump) : ret;
}

int acl_linux_nft(acl_reader_t *reader, const acl_line_t *line, int *is_rule_p)
{
    const acl_linux_state_t *state = reader->state;
    int ret = read_command(reader, line);

    *is_rule_p = is_rule(line);
    if (ret != 0 || (state->is_other_family && line->num > 0 &&
                     strcmp(line->words[0], "table") != 0)) {
        return ret;
    }
    ret = read_block(reader, line);
    return (ret == 0 && *is_rule_p) ? read_rule(reader, line) : ret;
}
