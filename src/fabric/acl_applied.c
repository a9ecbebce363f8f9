/* Checks to which packets a rule set applies, by their sources and by the ports
 * on which they arrive. */
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
            fprintf(stream,
                    "line %u: the source is %s, but that of the rule in line "
                    "%u is %s\n",
                    match->line, source_of(match), first->line,
                    source_of(first));
        }
    }
    return findings;
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
        return 1;
    case ACL_TAKES_EARLIER:
        return line < match->at;
    case ACL_TAKES_BY_ORDER:
        return 0;
    default:
        return line > match->at;
    }
}

int acl_is_before_rules(const acl_reader_t *reader, const acl_match_t *match)
{
    for (unsigned i = 0; i < reader->num_matches; ++i) {
        const acl_match_t *other = &reader->matches[i];

        if (!has_target(other)) {
            continue;
        }
        if (match->place == ACL_TAKES_BY_ORDER) {
            if (other->order >= match->order) {
                return 1;
            }
            continue;
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

/* ---- Jumps between chains ---- */

/* Adds the copy of a match unless it is known. */
static int add_copy(acl_reader_t *reader, const acl_match_t *copy)
{
    for (unsigned i = 0; i < reader->num_matches; ++i) {
        const acl_match_t *match = &reader->matches[i];

        if (match->line == copy->line && match->at == copy->at &&
            match->first == copy->first &&
            strcmp(match->list, copy->list) == 0) {
            return 0;
        }
    }
    return acl_add_match(reader, copy);
}

/* Adds copies of the match to other chains. If the match takes packets from its
 * chain, the chains to which this one jumps get a copy. If it also ends its
 * chain, the chains that jump to this one get a copy. */
static int follow_jumps(acl_reader_t *reader, acl_match_t match)
{
    int ret = 0;

    for (unsigned i = 0; i < reader->num_edges && ret == 0; ++i) {
        const acl_edge_t *edge = &reader->edges[i];
        acl_match_t copy = match;

        if (edge->kind != ACL_BINDING || strcmp(edge->to, edge->from) == 0) {
            continue;
        }
        copy.key[0] = '\0'; /* its mark replaces those of the chain */
        if (strcmp(edge->to, match.list) == 0 &&
            acl_takes_from(&match, edge->line)) {
            mrail_copy(copy.list, edge->from, sizeof(copy.list));
            copy.place = ACL_TAKES_ALL;
            copy.is_below = 1;
            ret = add_copy(reader, &copy);
        } else if (strcmp(edge->from, match.list) == 0 && edge->order == 0 &&
                   strncmp(edge->to, ACL_CHAIN ":", strlen(ACL_CHAIN ":")) ==
                       0 &&
                   !match.returns && !match.is_below) {
            mrail_copy(copy.list, edge->to, sizeof(copy.list));
            copy.at = edge->line;
            ret = add_copy(reader, &copy);
        }
    }
    return ret;
}

int acl_follow_jumps(acl_reader_t *reader)
{
    int ret = 0;

    /* Copies, which are added at the end, are followed as well. */
    for (unsigned i = 0; i < reader->num_matches && ret == 0; ++i) {
        if (reader->matches[i].is_any && reader->matches[i].list[0] != '\0') {
            ret = follow_jumps(reader, reader->matches[i]);
        }
    }
    return ret;
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
 * to each other. `is_seen` has the edges that were followed. */
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
