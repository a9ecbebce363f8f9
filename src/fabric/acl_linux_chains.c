/*
 * Follows packets through nft chains. A packet traverses the base chains one
 * after the other. In each of them, it traverses the rules in order, until a
 * rule accepts it, drops it or, in its own chain only, returns it.
 */
#include "config.h"
#include "fabric/acl_linux_internal.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---- Copies ---- */

/* Adds the copy of a match, unless an equal copy exists. */
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

static int is_chain(const char *key)
{
    return strncmp(key, ACL_CHAIN ":", strlen(ACL_CHAIN ":")) == 0;
}

/* Adds copies of the match to other chains. If the match takes packets from its
 * chain, the chains to which this chain jumps receive a copy. If it also ends
 * its chain, the chains that jump to this chain receive a copy. */
static int copy_match(acl_reader_t *reader, acl_match_t match)
{
    int ret = 0;

    for (unsigned i = 0; i < reader->num_edges && ret == 0; ++i) {
        const acl_edge_t *edge = &reader->edges[i];
        acl_match_t copy = match;

        if (edge->kind != ACL_BINDING || strcmp(edge->to, edge->from) == 0) {
            continue;
        }
        copy.key[0] = '\0'; /* the mark of the copy replaces the chain's
                             * marks */
        if (strcmp(edge->to, match.list) == 0 &&
            acl_takes_from(&match, edge->line)) {
            mrail_copy(copy.list, edge->from, sizeof(copy.list));
            copy.place = ACL_TAKES_ALL;
            copy.is_below = 1;
            ret = add_copy(reader, &copy);
        } else if (strcmp(edge->from, match.list) == 0 && edge->order == 0 &&
                   is_chain(edge->to) && !match.returns && !match.is_below) {
            mrail_copy(copy.list, edge->to, sizeof(copy.list));
            copy.at = edge->line;
            ret = add_copy(reader, &copy);
        }
    }
    return ret;
}

/* Copies the matches that drop packets (`loses`), or all other matches. Since
 * copies are appended, the loop also processes them. */
static int copy_matches(acl_reader_t *reader, int loses)
{
    int ret = 0;

    for (unsigned i = 0; i < reader->num_matches && ret == 0; ++i) {
        const acl_match_t *match = &reader->matches[i];

        if (match->is_any && match->list[0] != '\0' && match->loses == loses &&
            match->place != ACL_TAKES_ALL_CHAINS) {
            ret = copy_match(reader, *match);
        }
    }
    return ret;
}

/* ---- Losses ---- */

/* Position of an entry in the chain `list`. */
typedef struct position {
    const char *list;
    unsigned at;   /* line in the chain; UINT_MAX for the policy */
    unsigned line; /* line of the entry, for entries at the same `at` */
} position_t;

/* Returns 1 if the entry lets all packets of the port pass before the
 * position. */
static int lets_pass(const acl_match_t *entry, const position_t *where,
                     unsigned port)
{
    return entry->is_certain && !entry->is_below && !entry->loses &&
           entry->first <= port && entry->last >= port &&
           entry->source[0] == '\0' &&
           (entry->at < where->at ||
            (entry->at == where->at && entry->line < where->line)) &&
           !(entry->returns && where->at == UINT_MAX) &&
           strcmp(entry->list, where->list) == 0;
}

/* Returns 1 if entries before the position let all packets with the match's
 * ports pass. */
static int is_shielded(const acl_reader_t *reader, const acl_match_t *match,
                       const position_t *where)
{
    unsigned port = MRAIL_MAX(match->first, MRAIL_PORTS_FIRST);

    while (port <= match->last) {
        unsigned next = port;

        for (unsigned i = 0; i < reader->num_matches; ++i) {
            if (lets_pass(&reader->matches[i], where, port)) {
                next = MRAIL_MAX(next, reader->matches[i].last + 1);
            }
        }
        if (next == port) {
            return 0;
        }
        port = next;
    }
    return 1;
}

typedef enum reach {
    REACH_UNKNOWN, /* no base chain that packets traverse leads here */
    REACH_NONE,    /* all packets leave the chain earlier */
    REACH_SOME
} reach_t;

/* Follows jumps from the position to base chains. `is_seen` marks the edges
 * that were followed. */
static reach_t reach_of(const acl_reader_t *reader, const acl_match_t *match,
                        position_t where, uint8_t is_seen[ACL_MAX_EDGES])
{
    reach_t reach = REACH_UNKNOWN;

    if (is_shielded(reader, match, &where)) {
        return REACH_NONE;
    }
    for (unsigned i = 0; i < reader->num_edges && reach != REACH_SOME; ++i) {
        const acl_edge_t *edge = &reader->edges[i];
        position_t above = {
            .list = edge->to, .at = edge->line, .line = match->line};
        reach_t there;

        if (is_seen[i] || edge->order != 0 ||
            (edge->kind != ACL_BINDING && edge->kind != ACL_PASSAGE) ||
            strcmp(edge->from, where.list) != 0) {
            continue;
        }
        is_seen[i] = 1;
        there = is_chain(edge->to) ? reach_of(reader, match, above, is_seen)
                                   : REACH_SOME;
        reach = MRAIL_MAX(reach, there);
    }
    return reach;
}

/* Determines which entries drop packets that the switch forwards. */
static void place_losses(acl_reader_t *reader)
{
    for (unsigned i = 0; i < reader->num_matches; ++i) {
        acl_match_t *match = &reader->matches[i];
        uint8_t is_seen[ACL_MAX_EDGES] = {0};
        position_t where = {
            .list = match->list, .at = match->at, .line = match->line};

        if (!match->loses || match->list[0] == '\0') {
            continue;
        }
        switch (reach_of(reader, match, where, is_seen)) {
        case REACH_SOME:
            match->place = ACL_TAKES_ALL_CHAINS;
            break;
        case REACH_NONE:
            match->place = ACL_TAKES_NONE;
            break;
        default:
            break;
        }
    }
}

/* ---- Conditional jumps ---- */

static int is_conditional(const acl_reader_t *reader, const acl_edge_t *jump)
{
    for (unsigned i = 0; i < reader->num_edges; ++i) {
        const acl_edge_t *edge = &reader->edges[i];

        if (edge->kind == ACL_DECLARATION && edge->line == jump->line &&
            strcmp(edge->from, jump->from) == 0 &&
            strcmp(edge->to, ACL_OTHER_MATCH) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Returns 1 if only jumps with further conditions lead from base chains to the
 * chain. `is_seen` marks the edges that were followed. */
static int is_partly_reached(const acl_reader_t *reader, const char *key,
                             uint8_t is_seen[ACL_MAX_EDGES])
{
    int is_reached = 0;

    for (unsigned i = 0; i < reader->num_edges; ++i) {
        const acl_edge_t *edge = &reader->edges[i];

        if (is_seen[i] || edge->kind != ACL_BINDING ||
            strcmp(edge->from, key) != 0) {
            continue;
        }
        is_seen[i] = 1;
        is_reached = 1;
        if (!is_conditional(reader, edge) &&
            (!is_chain(edge->to) ||
             !is_partly_reached(reader, edge->to, is_seen))) {
            return 0;
        }
    }
    return is_reached;
}

/* Finds marks that only some packets of their ports receive. */
static void find_partial_marks(acl_reader_t *reader)
{
    for (unsigned i = 0; i < reader->num_matches; ++i) {
        acl_match_t *match = &reader->matches[i];
        uint8_t is_seen[ACL_MAX_EDGES] = {0};

        if (!match->is_any && !match->denies && match->list[0] != '\0' &&
            is_partly_reached(reader, match->list, is_seen)) {
            match->is_partial = 1;
            snprintf(match->text, sizeof(match->text),
                     "the jump to '%.64s' has a further condition",
                     match->list + strlen(ACL_CHAIN ":"));
        }
    }
}

int acl_linux_chains(acl_reader_t *reader)
{
    int ret;

    find_partial_marks(reader);
    ret = copy_matches(reader, 0);
    if (ret != 0) {
        return ret;
    }
    place_losses(reader);
    return copy_matches(reader, 1);
}
