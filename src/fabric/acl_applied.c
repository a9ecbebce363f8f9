/* Checks to which packets a rule set applies, by their sources and by the ports
 * on which they arrive, and whether its maps and lists belong together. */
#include "config.h"
#include "fabric/acl_internal.h"

#include <string.h>

/* ---- Sources ---- */

static const char *source_of(const acl_match_t *match)
{
    return (match->source[0] != '\0') ? match->source : "any";
}

/* All rules must have the same source. Otherwise, rules for some source ports
 * are missing for some hosts. */
unsigned acl_check_sources(const acl_reader_t *reader, FILE *stream)
{
    const acl_match_t *first = NULL;
    unsigned findings = 0;

    for (unsigned i = 0; i < reader->num_matches; ++i) {
        const acl_match_t *match = &reader->matches[i];

        if (match->denies) {
            continue;
        }
        if (first == NULL) {
            first = match;
        } else if (strcmp(match->source, first->source) != 0) {
            ++findings;
            fprintf(
                stream,
                "line %u: the source is %s, but the rule in line %u has the "
                "source %s\n",
                match->line, source_of(match), first->line, source_of(first));
        }
    }
    return findings;
}

/* ---- Further conditions of maps ---- */

static int has_other_match(const acl_reader_t *reader, const char *entry)
{
    for (unsigned i = 0; i < reader->num_edges; ++i) {
        const acl_edge_t *edge = &reader->edges[i];

        if (edge->kind == ACL_DECLARATION && strcmp(edge->from, entry) == 0 &&
            strcmp(edge->to, ACL_OTHER_MATCH) == 0) {
            return 1;
        }
    }
    return 0;
}

void acl_find_conditions(acl_reader_t *reader)
{
    for (unsigned i = 0; i < reader->num_edges; ++i) {
        const acl_edge_t *edge = &reader->edges[i];

        if (edge->kind != ACL_REFERENCE || !has_other_match(reader, edge->to)) {
            continue;
        }
        for (unsigned j = 0; j < reader->num_matches; ++j) {
            acl_match_t *match = &reader->matches[j];

            if (!match->denies && strcmp(match->key, edge->from) == 0) {
                match->is_partial = 1;
                snprintf(match->text, sizeof(match->text),
                         "the entry of '%.64s' has a further match",
                         edge->to + strlen(ACL_MAP ":"));
            }
        }
    }
}

/* ---- Entries before the rules ---- */

static int has_target(const acl_match_t *match)
{
    return !match->denies && match->target[0] != '\0';
}

static int is_same(const char *a, const char *b)
{
    return a[0] != '\0' && strcmp(a, b) == 0;
}

int acl_takes_from(const acl_match_t *match, unsigned line)
{
    switch (match->place) {
    case ACL_TAKES_ALL:
    case ACL_TAKES_ALL_CHAINS:
        return 1;
    case ACL_TAKES_EARLIER:
        return line < match->at;
    case ACL_TAKES_BY_ORDER:
    case ACL_TAKES_NONE:
        return 0;
    default:
        return line > match->at;
    }
}

/* Returns 1 if `match` takes packets from `other`. */
static int takes_by_order(const acl_match_t *match, const acl_match_t *other)
{
    unsigned long mark = 0; /* mark of packets that no rule marks */

    (void)sscanf(other->key, "mark:%lu", &mark);
    return other->order >= match->order &&
           ((mark ^ match->mark) & match->mask) == 0 &&
           !(match->spares_mark && mark == match->mark);
}

int acl_is_before_rules(const acl_reader_t *reader, const acl_match_t *match)
{
    if (match->place == ACL_TAKES_NONE) {
        return 0;
    }
    for (unsigned i = 0; i < reader->num_matches; ++i) {
        const acl_match_t *other = &reader->matches[i];

        if (!has_target(other)) {
            continue;
        }
        if (match->place == ACL_TAKES_BY_ORDER) {
            if (takes_by_order(match, other)) {
                return 1;
            }
            continue;
        }
        if (match->place == ACL_TAKES_ALL_CHAINS) {
            return 1;
        }
        /* A deny entry ends only the search of its own list. */
        if (match->denies && match->key[0] != '\0') {
            if (is_same(match->key, other->key) && other->line > match->line) {
                return 1;
            }
        } else if (is_same(match->map, other->map) &&
                   other->order > match->order) {
            return 1;
        } else if (is_same(match->list, other->list) &&
                   acl_takes_from(match, other->line)) {
            return 1;
        }
    }
    return 0;
}

/* ---- Ports ---- */

/* Returns 1 if the port uses the key. */
static int is_bound(const acl_reader_t *reader, const char *key,
                    const char *port)
{
    for (unsigned i = 0; i < reader->num_edges; ++i) {
        const acl_edge_t *edge = &reader->edges[i];

        if (edge->kind == ACL_BINDING && strcmp(edge->from, key) == 0 &&
            strcmp(edge->to, port) == 0) {
            return 1;
        }
    }
    return 0;
}

static const char *name_in(const char *key)
{
    return strchr(key, ':') + 1;
}

/* Returns 1 if a binding leads to a port, directly or through chains that jump
 * to each other. `is_seen` marks the edges that were followed. */
static int is_applied(const acl_reader_t *reader, const char *key,
                      uint8_t is_seen[ACL_MAX_EDGES])
{
    for (unsigned i = 0; i < reader->num_edges; ++i) {
        const acl_edge_t *edge = &reader->edges[i];

        if (is_seen[i] || edge->kind != ACL_BINDING ||
            strcmp(edge->from, key) != 0) {
            continue;
        }
        is_seen[i] = 1;
        if (strncmp(edge->to, ACL_CHAIN ":", strlen(ACL_CHAIN ":")) != 0 ||
            is_applied(reader, edge->to, is_seen)) {
            return 1;
        }
    }
    return 0;
}

static unsigned check_key(const acl_reader_t *reader, const char *key,
                          unsigned line, FILE *stream)
{
    uint8_t is_seen[ACL_MAX_EDGES] = {0};

    if (key[0] == '\0' || is_applied(reader, key, is_seen)) {
        return 0;
    }
    fprintf(stream,
            "line %u: '%s' is not applied to packets that arrive on any "
            "port\n",
            line, name_in(key));
    return 1;
}

/* Finds ports that use one of the two keys, but not the other. */
static unsigned check_pair(const acl_reader_t *reader, const char *key,
                           const char *other, FILE *stream)
{
    unsigned findings = 0;

    for (unsigned i = 0; i < reader->num_edges; ++i) {
        const acl_edge_t *edge = &reader->edges[i];

        if (edge->kind == ACL_BINDING && strcmp(edge->from, key) == 0 &&
            !is_bound(reader, other, edge->to)) {
            ++findings;
            fprintf(stream, "line %u: port %s has only one of '%s' and '%s'\n",
                    edge->line, edge->to, name_in(key), name_in(other));
        }
    }
    return findings;
}

static int is_first(const acl_reader_t *reader, unsigned index)
{
    const acl_match_t *match = &reader->matches[index];

    for (unsigned i = 0; i < index; ++i) {
        if (strcmp(reader->matches[i].map, match->map) == 0 &&
            strcmp(reader->matches[i].list, match->list) == 0 &&
            has_target(&reader->matches[i])) {
            return 0;
        }
    }
    return 1;
}

unsigned acl_check_ports(const acl_reader_t *reader, FILE *stream)
{
    unsigned findings = 0;

    for (unsigned i = 0; i < reader->num_matches && reader->has_ports; ++i) {
        const acl_match_t *match = &reader->matches[i];
        char map[ACL_KEY_MAX + sizeof(ACL_MAP)] = "";
        unsigned missing;

        if (!has_target(match) || !is_first(reader, i)) {
            continue;
        }
        if (match->map[0] != '\0') {
            snprintf(map, sizeof(map), ACL_MAP ":%s", match->map);
        }
        missing = check_key(reader, map, match->line, stream) +
                  check_key(reader, match->list, match->line, stream);
        if (missing == 0 && map[0] != '\0' && match->list[0] != '\0') {
            missing = check_pair(reader, map, match->list, stream) +
                      check_pair(reader, match->list, map, stream);
        }
        findings += missing;
    }
    return findings;
}

/* ---- Names ---- */

/* Finds rules in different maps. A port can have only one map, so one of the
 * maps would not apply. */
static unsigned check_maps(const acl_reader_t *reader, FILE *stream)
{
    const acl_match_t *first = NULL;
    unsigned findings = 0;

    for (unsigned i = 0; i < reader->num_matches; ++i) {
        const acl_match_t *match = &reader->matches[i];

        if (match->target[0] == '\0' || match->map[0] == '\0') {
            continue;
        }
        if (first == NULL) {
            first = match;
        } else if (strcmp(match->map, first->map) != 0) {
            ++findings;
            fprintf(
                stream,
                "line %u: this rule is in '%s', but the rule in line %u is in "
                "'%s'; a port can have only one map\n",
                match->line, match->map, first->line, first->map);
        }
    }
    return findings;
}

/* Finds references in route maps and class maps to lists that do not exist. */
static unsigned check_lists(const acl_reader_t *reader, FILE *stream)
{
    static const char prefix[] = "list:";
    unsigned findings = 0;

    for (unsigned i = 0; i < reader->num_edges; ++i) {
        const acl_edge_t *edge = &reader->edges[i];
        unsigned j = 0;

        if (edge->kind != ACL_REFERENCE ||
            strncmp(edge->from, prefix, strlen(prefix)) != 0) {
            continue;
        }
        while (j < reader->num_edges &&
               (reader->edges[j].kind != ACL_DECLARATION ||
                strcmp(reader->edges[j].from, edge->from) != 0)) {
            ++j;
        }
        if (j == reader->num_edges) {
            ++findings;
            fprintf(stream,
                    "line %u: there is no access list '%s'; a switch may "
                    "match every packet here\n",
                    edge->line, edge->from + strlen(prefix));
        }
    }
    return findings;
}

unsigned acl_check_names(const acl_reader_t *reader, FILE *stream)
{
    return check_maps(reader, stream) + check_lists(reader, stream);
}
