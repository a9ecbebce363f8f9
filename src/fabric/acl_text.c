/* Implements what the readers of rule sets share: lines, numbers, matches, and
 * edges between names. */
#include "config.h"
#include "fabric/acl_internal.h"

#include "base/grow.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STEPS 4u /* maximum number of edges from a match to its target */

int acl_fail(acl_reader_t *reader, const char *fmt, ...)
{
    int length = snprintf(reader->reason, sizeof(reader->reason),
                          "line %u: ", reader->number);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(reader->reason + length, sizeof(reader->reason) - (size_t)length,
              fmt, ap);
    va_end(ap);
    return -EINVAL;
}

/* ---- Lines ---- */

static int cut_words(acl_reader_t *reader, acl_line_t *line, char *text,
                     const char *separators)
{
    char *save = NULL;

    line->num = 0;
    for (char *word = strtok_r(text, separators, &save); word != NULL;
         word = strtok_r(NULL, separators, &save)) {
        if (line->num == ACL_MAX_WORDS) {
            return acl_fail(reader, "a statement can have at most %d words",
                            ACL_MAX_WORDS);
        }
        line->words[line->num++] = word;
    }
    line->words[line->num] = NULL;
    return 0;
}

/* Ends the text at the first `stop`. Returns the text after it, or NULL. */
static char *cut(char *text, char stop)
{
    char *end = strchr(text, stop);

    if (end == NULL) {
        return NULL;
    }
    *end = '\0';
    return end + 1;
}

int acl_each_line(acl_reader_t *reader, char *text, const char *separators,
                  char end, acl_line_func_t func)
{
    acl_line_t line;

    for (reader->number = 1; text != NULL; ++reader->number) {
        char *next = cut(text, '\n');
        int is_comment = text[strspn(text, separators)] == '#';

        while (text != NULL) {
            char *rest = is_comment ? NULL : cut(text, end);
            int ret = cut_words(reader, &line, text, separators);

            if (ret == 0 && line.num > 0) {
                ret = func(reader, &line);
            }
            if (ret != 0) {
                return ret;
            }
            text = rest;
        }
        text = next;
    }
    return 0;
}

int acl_has_words(const acl_line_t *line, unsigned at, const char *const *words,
                  unsigned num)
{
    if (at + num > line->num) {
        return 0;
    }
    for (unsigned i = 0; i < num; ++i) {
        if (strcmp(line->words[at + i], words[i]) != 0) {
            return 0;
        }
    }
    return 1;
}

unsigned acl_find_word(const acl_line_t *line, const char *word)
{
    unsigned at = 0;

    while (at < line->num && strcmp(line->words[at], word) != 0) {
        ++at;
    }
    return at;
}

/* ---- Numbers ---- */

int acl_number(acl_reader_t *reader, const char *word, const char *what,
               unsigned long max, unsigned long *value_p)
{
    int is_hex = word[0] == '0' && (word[1] == 'x' || word[1] == 'X');
    unsigned long value;
    char *end;

    errno = 0;
    value = strtoul(word, &end, is_hex ? 16 : 10);
    if (!isdigit((unsigned char)word[0]) || *end != '\0' || errno != 0 ||
        value > max) {
        return acl_fail(reader, "%s: '%.40s' is not a number from 0 to %lu",
                        what, word, max);
    }
    *value_p = value;
    return 0;
}

int acl_ports(acl_reader_t *reader, const char *word, unsigned *first_p,
              unsigned *last_p)
{
    size_t length = strcspn(word, "-:");
    unsigned long first, last;
    char part[16];

    if (length >= sizeof(part)) {
        return acl_fail(reader, "'%.40s' is not a port range", word);
    }
    mrail_copy(part, word, length);
    part[length] = '\0';
    if (acl_number(reader, part, "port", UINT16_MAX, &first) != 0) {
        return -EINVAL;
    }
    last = first;
    if (word[length] != '\0' &&
        acl_number(reader, word + length + 1, "port", UINT16_MAX, &last) != 0) {
        return -EINVAL;
    }
    if (first > last) {
        return acl_fail(reader,
                        "ports %lu to %lu: the lower port must come first",
                        first, last);
    }
    *first_p = (unsigned)first;
    *last_p = (unsigned)last;
    return 0;
}

int acl_dscp_of(const char *name)
{
    unsigned class, drop;
    char end;

    /* Sources: [RFC 2474] 4.2.2, [RFC 2597] 6, [RFC 3246]. */
    if (strcasecmp(name, "default") == 0 || strcasecmp(name, "be") == 0) {
        return 0;
    }
    if (strcasecmp(name, "ef") == 0) {
        return 46;
    }
    if (strncasecmp(name, "cs", 2) == 0 &&
        sscanf(name + 2, "%1u%c", &class, &end) == 1 && class <= 7) {
        return (int)(8 * class);
    }
    if (strncasecmp(name, "af", 2) == 0 &&
        sscanf(name + 2, "%1u%1u%c", &class, &drop, &end) == 2 && class >= 1 &&
        class <= 4 && drop >= 1 && drop <= 3) {
        return (int)(8 * class + 2 * drop);
    }
    return -1;
}

int acl_dscp(acl_reader_t *reader, const char *word, unsigned *dscp_p)
{
    unsigned long value;
    int of_name = acl_dscp_of(word);

    if (of_name >= 0) {
        *dscp_p = (unsigned)of_name;
        return 1;
    }
    if (word[0] < '0' || word[0] > '9') {
        return 0;
    }
    if (acl_number(reader, word, "dscp", 63, &value) != 0) {
        return -EINVAL;
    }
    *dscp_p = (unsigned)value;
    return 1;
}

/* ---- Matches and edges ---- */

/* Enlarges the array for one more element. Returns 0 or -ENOMEM. */
static int reserve(void *array_p, unsigned num, unsigned *allocated_p,
                   size_t size)
{
    unsigned allocated = (*allocated_p == 0) ? 64 : 2 * *allocated_p;

    if (num < *allocated_p) {
        return 0;
    }
    if (!mrail_grow(array_p, allocated, size)) {
        return -ENOMEM;
    }
    *allocated_p = allocated;
    return 0;
}

int acl_add_match(acl_reader_t *reader, const acl_match_t *match)
{
    acl_match_t *added;

    if (reader->num_matches == MRAIL_ACL_MAX_RULES) {
        return acl_fail(reader, "a rule set can have at most %u rules",
                        MRAIL_ACL_MAX_RULES);
    }
    if (reserve(&reader->matches, reader->num_matches,
                &reader->matches_allocated, sizeof(*match)) != 0) {
        return -ENOMEM;
    }
    added = &reader->matches[reader->num_matches++];
    *added = *match;
    if (added->line == 0) {
        added->line = reader->number;
    }
    if (added->at == 0) {
        added->at = added->line;
    }
    return 0;
}

int acl_add_edge(acl_reader_t *reader, acl_edge_kind_t kind, unsigned order,
                 const char *from, const char *to)
{
    acl_edge_t *edge;

    if (reader->num_edges == ACL_MAX_EDGES) {
        return acl_fail(reader,
                        "a rule set can have at most %u names and next hops",
                        ACL_MAX_EDGES);
    }
    if (kind == ACL_TARGET && strlen(to) >= ACL_TARGET_MAX) {
        return acl_fail(reader, "'%.40s...' is too long for a next hop", to);
    }
    if (reserve(&reader->edges, reader->num_edges, &reader->edges_allocated,
                sizeof(*edge)) != 0) {
        return -ENOMEM;
    }
    edge = &reader->edges[reader->num_edges++];
    *edge = (acl_edge_t){.kind = kind, .line = reader->number, .order = order};
    snprintf(edge->from, sizeof(edge->from), "%s", from);
    snprintf(edge->to, sizeof(edge->to), "%s", to);
    return 0;
}

int acl_bind(acl_reader_t *reader, const char *kind, const char *name,
             const char *port)
{
    char key[ACL_KEY_MAX];

    snprintf(key, sizeof(key), "%s:%s", kind, name);
    return acl_add_edge(reader, ACL_BINDING, 0, key, port);
}

int acl_key(acl_reader_t *reader, char key[ACL_KEY_MAX], const char *prefix,
            const char *a, const char *b)
{
    if (strlen(a) > ACL_NAME_BYTES ||
        (b != NULL && strlen(b) > ACL_NAME_BYTES)) {
        return acl_fail(reader, "a name can have at most %d characters",
                        ACL_NAME_BYTES);
    }
    snprintf(key, ACL_KEY_MAX, "%s:%s%s%s", prefix, a, (b != NULL) ? ":" : "",
             (b != NULL) ? b : "");
    return 0;
}

/* Returns the edge from `key` with the lowest order, or NULL. */
static const acl_edge_t *edge_of(const acl_reader_t *reader, const char *key)
{
    const acl_edge_t *best = NULL;

    for (unsigned i = 0; i < reader->num_edges; ++i) {
        const acl_edge_t *edge = &reader->edges[i];

        if ((edge->kind == ACL_REFERENCE || edge->kind == ACL_TARGET) &&
            strcmp(edge->from, key) == 0 &&
            (best == NULL || edge->order < best->order)) {
            best = edge;
        }
    }
    return best;
}

/* Returns the length of ":NAME" in "map:NAME:ENTRY", or 0 if this is another
 * key. */
static size_t map_length(const char *key)
{
    const char *entry = strrchr(key, ':');

    return (strncmp(key, ACL_MAP ":", strlen(ACL_MAP ":")) == 0)
               ? (size_t)(entry - key) - strlen(ACL_MAP)
               : 0;
}

static void set_map(acl_match_t *match, const char *key)
{
    size_t length = map_length(key);

    if (length > 0) {
        snprintf(match->map, sizeof(match->map), "%.*s", (int)length - 1,
                 key + strlen(ACL_MAP ":"));
    }
}

void acl_resolve(acl_reader_t *reader)
{
    for (unsigned i = 0; i < reader->num_matches; ++i) {
        acl_match_t *match = &reader->matches[i];
        const char *key = match->key;
        const acl_edge_t *edge = NULL;

        for (unsigned step = 0; step < MAX_STEPS; ++step) {
            set_map(match, key);
            edge = edge_of(reader, key);
            if (edge == NULL || edge->kind == ACL_TARGET) {
                break;
            }
            key = edge->to;
            match->order = edge->order;
        }
        if (match->target[0] == '\0' && edge != NULL &&
            edge->kind == ACL_TARGET &&
            strncmp(edge->to, ACL_NEXT_HOP, strlen(ACL_NEXT_HOP)) != 0) {
            mrail_copy(match->target, edge->to, strlen(edge->to) + 1);
        }
    }
}
