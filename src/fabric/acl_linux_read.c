/*
 * Reads the rules of a Linux router, from a script that `mrail acl` wrote or
 * from the output of nft(8) and ip-rule(8). nft rules set marks, and routing
 * rules map a mark or a range of ports to a table. Sources: [nft], [ip-rule].
 *
 * This file identifies the kind of each line, and contains the helpers that the
 * parsers of all kinds share.
 */
#include "config.h"
#include "fabric/acl_linux_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- Words ---- */

const char *acl_linux_value(const acl_line_t *line, const char *name)
{
    unsigned at = acl_find_word(line, name);

    return (at < line->num) ? line->words[at + 1] : NULL;
}

int acl_linux_is_number(const char *word)
{
    return word != NULL && word[0] >= '0' && word[0] <= '9';
}

int acl_linux_is_udp_word(const char *word)
{
    return word != NULL &&
           (strcmp(word, "udp") == 0 || strcmp(word, "17") == 0);
}

int acl_linux_has_any(const acl_line_t *line, const char *const *words,
                      unsigned num)
{
    for (unsigned i = 0; i < num; ++i) {
        if (acl_find_word(line, words[i]) < line->num) {
            return 1;
        }
    }
    return 0;
}

void acl_linux_join(const acl_line_t *line, unsigned at, char *text,
                    size_t size)
{
    static const char dots[] = "...";
    size_t length = 0;

    for (unsigned first = at; at < line->num; ++at) {
        const char *word = line->words[at];

        if (at > first && length + 1 < size) {
            text[length++] = ' ';
        }
        for (; *word != '\0' && length + 1 < size; ++word) {
            text[length++] = (*word >= ' ' && *word <= '~') ? *word : '?';
        }
        if (*word != '\0' || (at + 1 < line->num && length + 1 == size)) {
            mrail_copy(text + size - sizeof(dots), dots, sizeof(dots));
            return;
        }
    }
    text[length] = '\0';
}

/* ---- Conditions ---- */

int acl_linux_mark(acl_reader_t *reader, const char *word, uint32_t *mark_p,
                   uint32_t *mask_p)
{
    size_t length = strcspn(word, "/");
    unsigned long mark, mask = UINT32_MAX;
    char number[24];

    snprintf(number, sizeof(number), "%.*s", (int)length, word);
    if (acl_number(reader, number, "mark", UINT32_MAX, &mark) != 0 ||
        (word[length] == '/' && acl_number(reader, word + length + 1, "mask",
                                           UINT32_MAX, &mask) != 0)) {
        return -EINVAL;
    }
    *mark_p = (uint32_t)mark;
    *mask_p = (uint32_t)mask;
    return 0;
}

void acl_linux_mark_key(uint32_t mark, char key[ACL_KEY_MAX])
{
    snprintf(key, ACL_KEY_MAX, "mark:%lu", (unsigned long)mark);
}

int acl_linux_ranges(acl_reader_t *reader, const acl_line_t *line,
                     acl_match_t *match)
{
    unsigned at = acl_find_word(line, "sport") + 1;
    const char *dscp = acl_linux_value(line, "dscp");
    int ret = 0;

    if (at >= line->num || !acl_linux_is_number(line->words[at])) {
        return acl_fail(
            reader,
            "sport: '%.40s' is not a port; expected a rule with a port range "
            "for each segment",
            (at < line->num) ? line->words[at] : "");
    }
    if (dscp != NULL && acl_dscp(reader, dscp, &match->dscp) < 0) {
        return -EINVAL;
    }
    for (; ret == 0 && acl_linux_is_number(line->words[at]); ++at) {
        ret = acl_ports(reader, line->words[at], &match->first, &match->last);
        if (ret == 0) {
            ret = acl_add_match(reader, match);
        }
    }
    return ret;
}

int acl_linux_is_roce_port(acl_reader_t *reader, const acl_line_t *line,
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
    if (!acl_linux_is_number(line->words[at])) {
        return 0;
    }
    for (; acl_linux_is_number(line->words[at]); ++at) {
        *ret_p = acl_ports(reader, line->words[at], &first, &last);
        if (*ret_p != 0) {
            return 0;
        }
        is_within |= first <= ACL_ROCE_PORT && last >= ACL_ROCE_PORT;
    }
    return is_within != is_not;
}

void acl_linux_source(const acl_line_t *line, acl_match_t *match)
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

/* ---- Lines ---- */

/* Reads "ip route add|replace ... via A [dev D] table T". */
static int read_route(acl_reader_t *reader, const acl_line_t *line)
{
    const char *table = acl_linux_value(line, "table");
    const char *via = acl_linux_value(line, "via");
    char from[ACL_KEY_MAX];

    via = (via != NULL) ? via : acl_linux_value(line, "dev");
    if (table == NULL || via == NULL) {
        return 0;
    }
    if (acl_key(reader, from, "table", table, NULL) != 0) {
        return -EINVAL;
    }
    return acl_add_edge(reader, ACL_TARGET, 0, from, via);
}

/* Returns 1 if `ip rule` printed the line: "PRIORITY: from all fwmark M lookup
 * T". */
static int is_listed_rule(const acl_line_t *line)
{
    const char *word = line->words[0];

    return acl_linux_is_number(word) && word[strlen(word) - 1] == ':' &&
           (ACL_HAS(line, 1, "from") || ACL_HAS(line, 1, "not"));
}

static int read_listed_rule(acl_reader_t *reader, acl_line_t *line)
{
    char *priority = line->words[0];

    priority[strlen(priority) - 1] = '\0';
    return acl_linux_rule(reader, line, 1, priority);
}

static int read_added_rule(acl_reader_t *reader, const acl_line_t *line)
{
    const char *priority = acl_linux_value(line, "priority");

    return acl_linux_rule(reader, line, acl_find_word(line, "rule") + 2,
                          (priority != NULL) ? priority
                                             : acl_linux_value(line, "pref"));
}

static int linux_line(acl_reader_t *reader, acl_line_t *line)
{
    int is_adding = ACL_HAS_ANY(line, "add", "replace", "append");
    int is_rule, ret;

    if (line->words[0][0] == '#') {
        return 0;
    }
    ret = acl_linux_nft(reader, line, &is_rule);
    if (ret != 0 || is_rule) {
        return ret;
    }
    if (ACL_HAS(line, acl_find_word(line, "rule") + 1, "add")) {
        return read_added_rule(reader, line);
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
    acl_linux_state_t state = {.table = ""};
    int ret;

    reader->kind = "mark";
    reader->state = &state;
    ret = acl_each_line(reader, text, " \t\r{},;'", ';', linux_line);
    reader->state = NULL;
    if (ret == 0) {
        ret = acl_linux_resolve_rules(reader);
    }
    return (ret == 0) ? acl_linux_chains(reader) : ret;
}
