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
        return line < match->line;
    default:
        return line > match->line;
    }
}

int acl_is_before_rules(const acl_reader_t *reader, const acl_match_t *match)
{
    for (unsigned i = 0; i < reader->num_matches; ++i) {
        const acl_match_t *other = &reader->matches[i];

        if (!has_target(other)) {
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

/* ---- Ports ---- */

/* Returns 1 if a port uses the key. port: this port; NULL: any. */
static int is_bound(const acl_reader_t *reader, const char *key,
                    const char *port)
{
    for (unsigned i = 0; i < reader->num_edges; ++i) {
        const acl_edge_t *edge = &reader->edges[i];

        if (edge->kind == ACL_BINDING && strcmp(edge->from, key) == 0 &&
            (port == NULL || strcmp(edge->to, port) == 0)) {
            return 1;
        }
    }
    return 0;
}

static const char *name_in(const char *key)
{
    return strchr(key, ':') + 1;
}

static unsigned check_key(const acl_reader_t *reader, const char *key,
                          unsigned line, FILE *stream)
{
    if (key[0] == '\0' || is_bound(reader, key, NULL)) {
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
