/*
 * Reads routing rules. A rule sends packets with a mark, or with source ports
 * of a range, to a table. The kernel tries rules in the order of their
 * priorities, so a rule takes the packets that it matches from all later ones.
 * Source: [ip-rule].
 */
#include "config.h"
#include "fabric/acl_linux_internal.h"

#include <errno.h>
#include <string.h>

static const char *const actions[] = {"blackhole", "unreachable", "prohibit"};

/* Returns the table of a routing rule, the name of its action, or NULL. */
static const char *table_of(const acl_line_t *line)
{
    const char *table = acl_linux_value(line, "lookup");

    table = (table != NULL) ? table : acl_linux_value(line, "table");
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(actions) && table == NULL; ++i) {
        if (acl_find_word(line, actions[i]) < line->num) {
            table = actions[i];
        }
    }
    return table;
}

static int is_word(const char *word, const char *other)
{
    return word != NULL && strcmp(word, other) == 0;
}

/* Returns 1 if a routing rule is for other packets: packets to local hosts,
 * packets of the switch itself, or other protocols. */
static int is_other_rule(acl_reader_t *reader, const acl_line_t *line,
                         const char *table, int *ret_p)
{
    const char *protocol = acl_linux_value(line, "ipproto");

    return acl_linux_value(line, "suppress_prefixlength") != NULL ||
           acl_linux_value(line, "to") != NULL ||
           acl_linux_value(line, "oif") != NULL ||
           is_word(acl_linux_value(line, "iif"), "lo") ||
           is_word(table, "local") || is_word(table, "255") ||
           table[0] == '[' ||
           (protocol != NULL && !acl_linux_is_udp_word(protocol)) ||
           !acl_linux_is_roce_port(reader, line, ret_p);
}

/* Describes the rule in match->text. */
static void describe(const acl_line_t *line, unsigned at, const char *priority,
                     acl_match_t *match)
{
    char rule[ACL_RULE_MAX];

    acl_linux_join(line, at, rule, sizeof(rule));
    if (priority == NULL) {
        snprintf(match->text, sizeof(match->text),
                 "rule without a priority, '%s'", rule);
    } else {
        snprintf(match->text, sizeof(match->text), "rule %u, '%s'",
                 match->order, rule);
    }
}

/* Adds a rule that takes packets from later rules. */
static int add_taker(acl_reader_t *reader, const acl_line_t *line,
                     acl_match_t *match)
{
    match->is_any = 1;
    match->denies = 1;
    match->place = ACL_TAKES_BY_ORDER;
    match->key[0] = '\0';
    if (acl_linux_value(line, "sport") != NULL &&
        acl_find_word(line, "not") == line->num) {
        return acl_linux_ranges(reader, line, match);
    }
    match->last = UINT16_MAX;
    return acl_add_match(reader, match);
}

/* Adds a rule for a mark. If the rule takes only some packets with the mark,
 * acl_linux_resolve_rules() determines its meaning. */
static int add_marked(acl_reader_t *reader, const acl_line_t *line,
                      const char *mark, acl_match_t *match)
{
    char from[ACL_KEY_MAX], table[ACL_KEY_MAX];
    int is_part = match->source[0] != '\0' || match->is_partial ||
                  ACL_HAS_ANY(line, "sport", "iif", "dev");
    int ret = 0;

    if (acl_linux_mark(reader, mark, &match->mark, &match->mask) != 0) {
        return -EINVAL;
    }
    mrail_copy(table, match->key, sizeof(table));
    acl_linux_mark_key(match->mark, from);
    if (is_part) {
        mrail_copy(match->map, table, sizeof(match->map));
        return add_taker(reader, line, match);
    }
    if (match->mask != UINT32_MAX) {
        match->spares_mark = 1; /* the edge below is for this mark */
        ret = add_taker(reader, line, match);
    }
    return (ret == 0)
               ? acl_add_edge(reader, ACL_REFERENCE, match->order, from, table)
               : ret;
}

int acl_linux_rule(acl_reader_t *reader, const acl_line_t *line, unsigned at,
                   const char *priority)
{
    acl_match_t match = {.dscp = MRAIL_ACL_NO_DSCP};
    const char *table = table_of(line), *mark = acl_linux_value(line, "fwmark");
    int is_not = acl_find_word(line, "not") < line->num, ret = 0;
    unsigned long order = 0;

    if (table == NULL ||
        (is_other_rule(reader, line, table, &ret) && !is_not)) {
        return ret;
    }
    if ((priority != NULL &&
         acl_number(reader, priority, "priority", UINT32_MAX, &order) != 0) ||
        acl_key(reader, match.key, "table", table, NULL) != 0) {
        return -EINVAL;
    }
    match.order = (unsigned)order;
    describe(line, at, priority, &match);
    if (is_not) {
        return add_taker(reader, line, &match);
    }
    acl_linux_source(line, &match);
    match.is_partial =
        ACL_HAS_ANY(line, "tos", "dsfield", "dscp", "uidrange", "tun_id");
    if (mark != NULL) {
        return add_marked(reader, line, mark, &match);
    }
    return (acl_linux_value(line, "sport") != NULL)
               ? acl_linux_ranges(reader, line, &match)
               : add_taker(reader, line, &match);
}

/* ---- Rules for some packets with a mark ---- */

/* Returns the first rule, in the order of priorities, that takes all packets
 * with the mark. */
static const acl_edge_t *rule_of(const acl_reader_t *reader, uint32_t mark)
{
    const acl_edge_t *best = NULL;
    char key[ACL_KEY_MAX];

    acl_linux_mark_key(mark, key);
    for (unsigned i = 0; i < reader->num_edges; ++i) {
        const acl_edge_t *edge = &reader->edges[i];

        if (edge->kind == ACL_REFERENCE && strcmp(edge->from, key) == 0 &&
            (best == NULL || edge->order < best->order)) {
            best = edge;
        }
    }
    return best;
}

/* Uses the rule for its mark, which no other rule handles. */
static int use_rule(acl_reader_t *reader, acl_match_t *match, const char *table)
{
    char from[ACL_KEY_MAX];

    if (match->first > 0 || match->last < UINT16_MAX) {
        mrail_copy(match->key, table, sizeof(match->key));
        match->is_any = 0;
        match->denies = 0;
        match->place = ACL_TAKES_LATER;
        return 0;
    }
    match->place = ACL_TAKES_NONE;
    acl_linux_mark_key(match->mark, from);
    return acl_add_edge(reader, ACL_REFERENCE, match->order, from, table);
}

int acl_linux_resolve_rules(acl_reader_t *reader)
{
    int ret = 0;

    for (unsigned i = 0; i < reader->num_matches && ret == 0; ++i) {
        acl_match_t *match = &reader->matches[i];
        const acl_edge_t *rule;
        char table[ACL_KEY_MAX];

        if (match->place != ACL_TAKES_BY_ORDER || match->map[0] == '\0') {
            continue;
        }
        mrail_copy(table, match->map, sizeof(table));
        match->map[0] = '\0';
        rule = rule_of(reader, match->mark);
        if (rule == NULL) {
            /* A rule for some hosts or packets leaves all others without an
             * uplink. */
            ret = (match->source[0] == '\0' && !match->is_partial)
                      ? use_rule(reader, match, table)
                      : 0;
        } else if (match->mask == UINT32_MAX && (strcmp(rule->to, table) == 0 ||
                                                 (match->order == rule->order &&
                                                  match->line > rule->line))) {
            match->place = ACL_TAKES_NONE;
        }
    }
    return ret;
}
