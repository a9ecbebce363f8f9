/*
 * Rules for NVIDIA Cumulus Linux, as NVUE commands. Sources: [NVUE], [NVUE
 * PBR].
 *
 * Policy routing in Cumulus Linux can match addresses, DSCP and ECN, but not
 * ports. An access list therefore marks each segment with its own DSCP, and the
 * policy routes by DSCP. The values come from pools 2 and 3 of [RFC 2474] 6. No
 * standard traffic class uses them, except the last value, which [RFC 8622]
 * assigns to low-priority traffic. Packets keep the value beyond the switch.
 */
#include "config.h"
#include "fabric/acl_internal.h"

#include "base/grow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

unsigned acl_nvue_mark(const mrail_acl_t *acl, unsigned uplink)
{
    unsigned n = 0;

    for (unsigned i = 0; i < 32; ++i) {
        /* 3, 7, ..., 63; then 5, 9, ..., 61; then 1 */
        unsigned mark = (i < 16) ? 4 * i + 3 : (4 * (i - 16) + 5) % 64;

        if (mark != acl->dscp && n++ == uplink) {
            return mark;
        }
    }
    return MRAIL_ACL_NO_DSCP;
}

/* ---- Writer ---- */

static void write_acl(const mrail_acl_t *acl, FILE *stream)
{
    unsigned rule = 0;

    fprintf(stream, "nv set acl %s type ipv4\n", acl->name);
    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        for (unsigned s = 0; s < acl->leaf_uplinks; ++s) {
            uint16_t first, last;

            mrail_acl_range(acl, u, s, &first, &last);
            ++rule;
            fprintf(stream, "nv set acl %s rule %u match ip protocol udp\n",
                    acl->name, rule);
            fprintf(stream,
                    "nv set acl %s rule %u match ip udp source-port %u-%u\n",
                    acl->name, rule, first, last);
            fprintf(stream, "nv set acl %s rule %u match ip udp dest-port %u\n",
                    acl->name, rule, ACL_ROCE_PORT);
            if (acl->dscp != MRAIL_ACL_NO_DSCP) {
                fprintf(stream, "nv set acl %s rule %u match ip dscp %u\n",
                        acl->name, rule, acl->dscp);
            }
            fprintf(stream, "nv set acl %s rule %u action set dscp %u\n",
                    acl->name, rule, acl_nvue_mark(acl, u));
        }
    }
}

/* Rule numbers in the map, which FRR limits to 1..700. Local prefixes use 1 to
 * ACL_NVUE_MAX_LOCAL, and uplink n, from 1, uses UPLINK_RULE + n. In drop mode,
 * an uplink has a second rule, DROP_RULE + n, which applies when the next hop
 * of its first rule is down. */
#define UPLINK_RULE (ACL_NVUE_MAX_LOCAL + 1)
#define DROP_RULE (UPLINK_RULE + 100)

static void write_map(const mrail_acl_t *acl, FILE *stream)
{
    char buffer[ACL_TARGET_MAX];

    for (unsigned i = 0; i < acl->num_local; ++i) {
        fprintf(stream,
                "nv set router pbr map %s rule %u match destination-ip %s\n"
                "nv set router pbr map %s rule %u action vrf default\n",
                acl->name, i + 1, acl->local[i], acl->name, i + 1);
    }
    if (acl->failure == MRAIL_ACL_DROP) {
        fprintf(stream,
                "nv set vrf %s_drop router static 0.0.0.0/0 via blackhole\n",
                acl->name);
    }
    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        unsigned mark = acl_nvue_mark(acl, u);

        fprintf(stream,
                "nv set router nexthop group %s%u via %s\n"
                "nv set router pbr map %s rule %u match dscp %u\n"
                "nv set router pbr map %s rule %u action nexthop-group %s%u\n",
                acl->name, u + 1, acl_next_hop(acl, u, buffer), acl->name,
                UPLINK_RULE + u + 1, mark, acl->name, UPLINK_RULE + u + 1,
                acl->name, u + 1);
        if (acl->failure == MRAIL_ACL_DROP) {
            fprintf(stream,
                    "nv set router pbr map %s rule %u match dscp %u\n"
                    "nv set router pbr map %s rule %u action vrf %s_drop\n",
                    acl->name, DROP_RULE + u + 1, mark, acl->name,
                    DROP_RULE + u + 1, acl->name);
        }
    }
}

static void nvue_write(const mrail_acl_t *acl, FILE *stream)
{
    acl_write_head(acl, MRAIL_ACL_NVUE, "#", stream);
    fputs(
        "# Policy routing matches no ports here, so an access list marks each "
        "segment with\n"
        "# a DSCP. Check with the counters that marking comes first on this "
        "switch, and\n"
        "# keep the switch priority of RoCE for the marks on the next "
        "switch.\n"
        "# Cumulus Linux 5.9 or later. 'state enabled' is from 5.15 on.\n",
        stream);
    write_acl(acl, stream);
    fputs("nv set router pbr state enabled || nv set router pbr enable on\n",
          stream);
    write_map(acl, stream);
    for (unsigned i = 0; i < acl->num_ingress; ++i) {
        fprintf(stream,
                "nv set interface %s acl %s inbound\n"
                "nv set interface %s router pbr map %s\n",
                acl->ingress[i], acl->name, acl->ingress[i], acl->name);
    }
    if (acl->num_ingress == 0) {
        fprintf(stream,
                "# On each port to a host:\n"
                "# nv set interface PORT acl %s inbound\n"
                "# nv set interface PORT router pbr map %s\n",
                acl->name, acl->name);
    }
    fputs("# Look at 'nv config diff', then:\n"
          "# nv config apply\n",
          stream);
}

static void nvue_undo(const mrail_acl_t *acl, FILE *stream)
{
    for (unsigned i = 0; i < acl->num_ingress; ++i) {
        fprintf(stream,
                "nv unset interface %s acl %s\n"
                "nv unset interface %s router pbr map %s\n",
                acl->ingress[i], acl->name, acl->ingress[i], acl->name);
    }
    if (acl->num_ingress == 0) {
        fprintf(stream,
                "# First on each port to a host:\n"
                "# nv unset interface PORT acl %s\n"
                "# nv unset interface PORT router pbr map %s\n",
                acl->name, acl->name);
    }
    fprintf(stream,
            "nv unset router pbr map %s\n"
            "nv unset acl %s\n",
            acl->name, acl->name);
    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        fprintf(stream, "nv unset router nexthop group %s%u\n", acl->name,
                u + 1);
    }
    if (acl->failure == MRAIL_ACL_DROP) {
        fprintf(stream, "nv unset vrf %s_drop\n", acl->name);
    }
    fputs("# Look at 'nv config diff', then:\n"
          "# nv config apply\n",
          stream);
}

static void nvue_vrfs(const mrail_acl_t *acl, int undo, FILE *stream)
{
    const char *verb = undo ? "unset" : "set";

    for (unsigned i = 0; i < acl->num_ingress; ++i) {
        fprintf(stream, "nv %s interface %s ip vrf", verb, acl->ingress[i]);
        if (!undo) {
            fprintf(stream, " %s%u", acl->name, i % acl->num_uplinks + 1);
        }
        fputc('\n', stream);
    }
    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        fprintf(stream, "nv %s vrf %s%u\n", verb, acl->name, u + 1);
    }
    fputs("# Look at 'nv config diff', then:\n"
          "# nv config apply\n",
          stream);
}

/* ---- Reader ---- */

/* A rule of an access list, which spans several lines. */
typedef struct nvue_rule {
    char key[ACL_KEY_MAX];
    acl_match_t match;
    int is_other; /* the rule does not apply to RoCEv2 */
} nvue_rule_t;

typedef struct nvue_state {
    nvue_rule_t *rules;
    unsigned num, allocated;
} nvue_state_t;

/* Returns the rule with this key, adding it if it is new, or NULL if memory
 * runs out. */
static nvue_rule_t *rule_of(acl_reader_t *reader, const char *key)
{
    nvue_state_t *state = reader->state;
    nvue_rule_t *rule;

    /* The lines of a rule are usually consecutive. */
    for (unsigned i = state->num; i-- > 0;) {
        if (strcmp(state->rules[i].key, key) == 0) {
            return &state->rules[i];
        }
    }
    if (state->num == state->allocated) {
        unsigned allocated =
            (state->allocated == 0) ? 64 : 2 * state->allocated;

        if (!mrail_grow(&state->rules, allocated, sizeof(*rule))) {
            return NULL;
        }
        state->allocated = allocated;
    }
    rule = &state->rules[state->num++];
    *rule = (nvue_rule_t){.match = {.line = reader->number,
                                    .last = UINT16_MAX,
                                    .is_any = 1,
                                    .dscp = MRAIL_ACL_NO_DSCP}};
    snprintf(rule->key, sizeof(rule->key), "%s", key);
    return rule;
}

static int mark_key(acl_reader_t *reader, const char *word,
                    char key[ACL_KEY_MAX])
{
    char text[16];
    unsigned mark = MRAIL_ACL_NO_DSCP;

    if (acl_dscp(reader, word, &mark) < 0) {
        return -EINVAL;
    }
    snprintf(text, sizeof(text), "%u", mark);
    return acl_key(reader, key, "dscp",
                   (mark != MRAIL_ACL_NO_DSCP) ? text : word, NULL);
}

/* Adds a condition that the check does not know. */
static void set_partial(nvue_rule_t *rule, const char *condition)
{
    rule->match.is_partial = 1;
    snprintf(rule->match.text, sizeof(rule->match.text),
             "the rule has the condition '%.40s'", condition);
}

/* Reads a condition other than ports. */
static int read_condition(acl_reader_t *reader, const char *name,
                          const char *value, nvue_rule_t *rule)
{
    int is_any = strcmp(value, "ANY") == 0, ret;

    if (strcmp(name, "tcp") == 0 || strcmp(name, "icmp-type") == 0) {
        rule->is_other = 1;
    } else if (strcmp(name, "protocol") == 0) {
        rule->is_other |= strcmp(value, "udp") != 0 && strcmp(value, "17") != 0;
    } else if (is_any || strcmp(name, "udp") == 0) {
        return 0;
    } else if (strcmp(name, "dest-ip") == 0) {
        rule->is_other = 1;
    } else if (strcmp(name, "source-ip") == 0) {
        snprintf(rule->match.source, sizeof(rule->match.source), "%.*s",
                 ACL_TARGET_MAX - 1, value);
    } else if (strcmp(name, "dscp") == 0) {
        ret = acl_dscp(reader, value, &rule->match.dscp);
        if (ret == 0) {
            set_partial(rule, name);
        }
        return (ret < 0) ? ret : 0;
    } else {
        set_partial(rule, name);
    }
    return 0;
}

/* Reads the words after "match ip". */
static int read_acl_match(acl_reader_t *reader, const acl_line_t *line,
                          unsigned at, nvue_rule_t *rule)
{
    const char *value = line->words[line->num - 1];
    int is_source = acl_find_word(line, "source-port") < line->num;
    int is_dest = acl_find_word(line, "dest-port") < line->num;
    unsigned first, last;

    if (at >= line->num) {
        return 0;
    }
    if (ACL_HAS(line, at, "tcp") || (!is_source && !is_dest)) {
        int ret = read_condition(reader, line->words[at], value, rule);

        if (ret != 0) {
            return ret;
        }
    }
    if (strcmp(value, "ANY") == 0) {
        return 0;
    }
    if (is_source) {
        rule->match.is_any = 0;
        return acl_ports(reader, value, &rule->match.first, &rule->match.last);
    }
    if (is_dest) {
        if (acl_ports(reader, value, &first, &last) != 0) {
            return -EINVAL;
        }
        rule->is_other |= first > ACL_ROCE_PORT || last < ACL_ROCE_PORT;
    }
    return 0;
}

/* Reads "acl NAME rule N match ip ...", "acl NAME rule N action set dscp M" or
 * "acl NAME rule N action deny". */
static int read_acl(acl_reader_t *reader, const acl_line_t *line, unsigned at)
{
    char key[ACL_KEY_MAX];
    nvue_rule_t *rule;

    if (!ACL_HAS(line, at + 2, "rule") || at + 5 >= line->num) {
        return 0;
    }
    if (acl_key(reader, key, "acl", line->words[at + 1], line->words[at + 3]) !=
        0) {
        return -EINVAL;
    }
    rule = rule_of(reader, key);
    if (rule == NULL) {
        return -ENOMEM;
    }
    snprintf(rule->match.list, sizeof(rule->match.list), "acl:%s",
             line->words[at + 1]);
    if (ACL_HAS(line, at + 4, "match", "ip")) {
        return read_acl_match(reader, line, at + 6, rule);
    }
    if (ACL_HAS(line, at + 4, "action", "set", "dscp") && at + 7 < line->num) {
        return mark_key(reader, line->words[at + 7], rule->match.key);
    }
    if (ACL_HAS(line, at + 4, "match")) {
        set_partial(rule, line->words[at + 5]);
    }
    /* A policer drops the packets beyond its rate. */
    rule->match.denies |= ACL_HAS(line, at + 4, "action", "deny") ||
                          ACL_HAS(line, at + 4, "action", "police");
    return 0;
}

/* Reads "router pbr map NAME rule N match dscp M" or "... action nexthop-group
 * G". */
static int read_pbr(acl_reader_t *reader, const acl_line_t *line, unsigned at)
{
    char key[ACL_KEY_MAX], other[ACL_KEY_MAX];
    unsigned long order;

    if (!ACL_HAS(line, at + 1, "rule") || at + 5 >= line->num) {
        return 0;
    }
    if (acl_number(reader, line->words[at + 2], "rule", 65535, &order) != 0 ||
        acl_key(reader, key, ACL_MAP, line->words[at], line->words[at + 2]) !=
            0) {
        return -EINVAL;
    }
    if (ACL_HAS(line, at + 3, "match", "dscp")) {
        return mark_key(reader, line->words[at + 5], other) != 0
                   ? -EINVAL
                   : acl_add_edge(reader, ACL_REFERENCE, (unsigned)order, other,
                                  key);
    }
    if (ACL_HAS(line, at + 3, "match")) {
        return acl_add_edge(reader, ACL_DECLARATION, 0, key, ACL_OTHER_MATCH);
    }
    if (ACL_HAS(line, at + 3, "action", "nexthop-group")) {
        return acl_key(reader, other, "group", line->words[at + 5], NULL) != 0
                   ? -EINVAL
                   : acl_add_edge(reader, ACL_REFERENCE, 0, key, other);
    }
    return 0;
}

/* Reads "router nexthop group G via A", or "router nexthop-group G via A"
 * before version 5.4. */
static int read_group(acl_reader_t *reader, const acl_line_t *line, unsigned at)
{
    char key[ACL_KEY_MAX];

    if (!ACL_HAS(line, at + 1, "via") || at + 2 >= line->num) {
        return 0;
    }
    if (acl_key(reader, key, "group", line->words[at], NULL) != 0) {
        return -EINVAL;
    }
    return acl_add_edge(reader, ACL_TARGET, 0, key, line->words[at + 2]);
}

/* Reads "interface PORT acl NAME inbound" or "interface PORT router pbr map
 * NAME". */
static int read_port(acl_reader_t *reader, const acl_line_t *line, unsigned at)
{
    const char *port = line->words[at];

    reader->has_ports = 1;
    if (ACL_HAS(line, at + 1, "acl") && ACL_HAS(line, at + 3, "inbound")) {
        return acl_bind(reader, "acl", line->words[at + 2], port);
    }
    if (ACL_HAS(line, at + 1, "router", "pbr", "map") && at + 4 < line->num) {
        return acl_bind(reader, ACL_MAP, line->words[at + 4], port);
    }
    return 0;
}

static int nvue_line(acl_reader_t *reader, acl_line_t *line)
{
    unsigned at = acl_find_word(line, "nv");

    if (line->words[0][0] == '#' || !ACL_HAS(line, at, "nv", "set")) {
        return 0;
    }
    at += 2;
    if (ACL_HAS(line, at, "acl")) {
        return read_acl(reader, line, at);
    }
    if (ACL_HAS(line, at, "interface") && at + 1 < line->num) {
        return read_port(reader, line, at + 1);
    }
    if (ACL_HAS(line, at, "router", "pbr", "map") && at + 3 < line->num) {
        return read_pbr(reader, line, at + 3);
    }
    if (ACL_HAS(line, at, "router", "nexthop", "group") && at + 3 < line->num) {
        return read_group(reader, line, at + 3);
    }
    if (ACL_HAS(line, at, "router", "nexthop-group") && at + 2 < line->num) {
        return read_group(reader, line, at + 2);
    }
    return 0;
}

/* Adds the match of a rule that marks or denies packets of the lanes. Marking
 * does not end the search, so a rule that denies applies to the packets of all
 * rules of its list. */
static int add_rule(acl_reader_t *reader, nvue_rule_t *rule)
{
    acl_match_t *match = &rule->match;

    if (rule->is_other || (!match->denies && match->key[0] == '\0') ||
        (match->denies && match->last < MRAIL_PORTS_FIRST)) {
        return 0;
    }
    if (match->denies) {
        match->is_any = 1;
        match->place = ACL_TAKES_ALL;
        match->key[0] = '\0';
    }
    return acl_add_match(reader, match);
}

static int nvue_read(acl_reader_t *reader, char *text)
{
    nvue_state_t state = {.rules = NULL};
    int ret;

    reader->state = &state;
    reader->kind = "mark";
    ret = acl_each_line(reader, text, " \t\r", '\n', nvue_line);
    for (unsigned i = 0; i < state.num && ret == 0; ++i) {
        ret = add_rule(reader, &state.rules[i]);
    }
    free(state.rules);
    acl_find_conditions(reader);
    return ret;
}

const acl_dialect_t acl_nvue = {
    .name = "nvue",
    .write = nvue_write,
    .undo = nvue_undo,
    .vrfs = nvue_vrfs,
    .read = nvue_read,
};
