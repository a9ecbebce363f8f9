/*
 * Parses topologies. It checks all rules, so that each error message has a line
 * number. Afterwards, the planner can fail only if memory runs out.
 */
#include "config.h"
#include "topology/topo_text.h"

#include "topology/topo_reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int mrail_topo_reader_result(mrail_topo_reader_t *reader, int ret)
{
    return (ret == 0 || ret == -ENOMEM)
               ? ret
               : MRAIL_TOPO_FAIL(reader, "the planner rejects this line: %s",
                                 (ret == -ENOSPC) ? "a limit is exceeded"
                                                  : "a value is out of range");
}

void mrail_topo_reader_claim(mrail_topo_reader_t *reader, unsigned *owner_p)
{
    unsigned number = reader->line->number;

    if (*owner_p != 0 && --reader->left[*owner_p] == 0 && *owner_p != number) {
        reader->lost = *owner_p;
    }
    *owner_p = number;
    ++reader->left[number];
}

unsigned *mrail_topo_reader_by_rail(const mrail_topo_reader_t *reader,
                                    unsigned *lines, unsigned node_or_group,
                                    unsigned rail)
{
    return &lines[node_or_group * reader->num_rails + rail];
}

/* ---- Capacities ---- */

int mrail_topo_reader_capacities(mrail_topo_reader_t *reader,
                                 char *const *words, const char *none,
                                 double *out_p, double *in_p)
{
    int ret = mrail_text_capacity(reader->line, words[0], none, out_p);

    *in_p = *out_p;
    if (ret == 0 && words[1] != NULL) {
        ret = mrail_text_capacity(reader->line, words[1], none, in_p);
    }
    if (ret == 0 && (*out_p == 0) != (*in_p == 0)) {
        return MRAIL_TOPO_FAIL(
            reader,
            "only one direction is dead; write %s once, for both directions",
            none);
    }
    return ret;
}

/* ---- Size ---- */

/* Creates the topology. From then on, its size is fixed. */
static int begin(mrail_topo_reader_t *reader)
{
    size_t num_nodes = reader->num_nodes;

    reader->nodes = calloc(num_nodes, sizeof(*reader->nodes));
    reader->ranks = malloc(MRAIL_PLAN_MAX_RANKS * sizeof(*reader->ranks));
    reader->rail_lines =
        calloc(num_nodes * reader->num_rails, sizeof(*reader->rail_lines));
    if (reader->nodes == NULL || reader->ranks == NULL ||
        reader->rail_lines == NULL) {
        return -ENOMEM;
    }
    return mrail_topo_reader_result(
        reader, mrail_plan_topo_create(reader->num_nodes, reader->num_rails,
                                       &reader->topo));
}

static int read_size(mrail_topo_reader_t *reader, unsigned *line_p,
                     unsigned max, unsigned *value_p)
{
    mrail_text_line_t *line = reader->line;
    int ret;

    if (*line_p != 0) {
        return MRAIL_TOPO_FAIL(
            reader, "'%s' is already on line %u and may occur only once",
            line->words[0], *line_p);
    }
    ret =
        mrail_text_count(line, line->words[1], line->words[0], 1, max, value_p);
    if (ret != 0) {
        return ret;
    }
    *line_p = line->number;
    return (reader->num_nodes != 0 && reader->num_rails != 0) ? begin(reader)
                                                              : 0;
}

static int read_nodes(mrail_topo_reader_t *reader)
{
    return read_size(reader, &reader->nodes_line, MRAIL_PLAN_MAX_NODES,
                     &reader->num_nodes);
}

static int read_rails(mrail_topo_reader_t *reader)
{
    return read_size(reader, &reader->rails_line, MRAIL_PLAN_MAX_RAILS,
                     &reader->num_rails);
}

/* ---- Rails, groups, uplinks ---- */

int mrail_topo_reader_nodes(mrail_topo_reader_t *reader, const char *word,
                            mrail_text_list_t *nodes)
{
    return mrail_text_list(reader->line, word, "node", reader->num_nodes,
                           nodes);
}

int mrail_topo_reader_rails(mrail_topo_reader_t *reader, const char *word,
                            mrail_text_list_t *rails)
{
    return mrail_text_list(reader->line, word, "rail", reader->num_rails,
                           rails);
}

static int read_rail(mrail_topo_reader_t *reader)
{
    char *const *words = reader->line->words;
    mrail_text_list_t nodes, rails;
    double out, in;
    int ret = 0;

    if (mrail_topo_reader_nodes(reader, words[1], &nodes) != 0 ||
        mrail_topo_reader_rails(reader, words[2], &rails) != 0 ||
        mrail_topo_reader_capacities(reader, words + 3, "dead", &out, &in) !=
            0) {
        return -EINVAL;
    }
    MRAIL_TEXT_LIST_EACH(&nodes, n)
    {
        MRAIL_TEXT_LIST_EACH(&rails, r)
        {
            if (ret == 0) {
                ret = mrail_plan_topo_set_rail(reader->topo, n, r, out, in);
                mrail_topo_reader_claim(reader,
                                        mrail_topo_reader_by_rail(
                                            reader, reader->rail_lines, n, r));
            }
        }
    }
    return mrail_topo_reader_result(reader, ret);
}

static int read_group(mrail_topo_reader_t *reader)
{
    char *const *words = reader->line->words;
    mrail_text_list_t nodes;
    unsigned group;
    int ret = 0;

    if (reader->uplink_line != 0) {
        return MRAIL_TOPO_FAIL(
            reader, "'leaf_group' must precede the first 'uplink' (line %u)",
            reader->uplink_line);
    }
    if (mrail_topo_reader_nodes(reader, words[1], &nodes) != 0 ||
        mrail_text_count(reader->line, words[2], "leaf group", 0,
                         MRAIL_PLAN_MAX_NODES - 1, &group) != 0) {
        return -EINVAL;
    }
    MRAIL_TEXT_LIST_EACH(&nodes, n)
    {
        if (ret == 0) {
            ret = mrail_plan_topo_set_leaf_group(reader->topo, n, group);
            mrail_topo_reader_claim(reader, &reader->nodes[n].group_line);
            reader->nodes[n].group = group;
        }
    }
    return mrail_topo_reader_result(reader, ret);
}

/* Returns 1 if the group has a node. */
static int has_group(const mrail_topo_reader_t *reader, unsigned group)
{
    unsigned n = 0;

    while (n < reader->num_nodes && reader->nodes[n].group != group) {
        ++n;
    }
    return n < reader->num_nodes;
}

/* Parses a list of leaf groups. '*' means all groups that have nodes. Rejects a
 * named group that has no nodes. */
static int group_list(mrail_topo_reader_t *reader, const char *word,
                      mrail_text_list_t *groups)
{
    unsigned most = 0;

    for (unsigned n = 0; n < reader->num_nodes; ++n) {
        most = MRAIL_MAX(most, reader->nodes[n].group);
    }
    if (mrail_text_list(reader->line, word, "leaf group", most + 1, groups) !=
        0) {
        return -EINVAL;
    }
    if (strcmp(word, "*") == 0) {
        return 0;
    }
    MRAIL_TEXT_LIST_EACH(groups, group)
    {
        if (!has_group(reader, group)) {
            return MRAIL_TOPO_FAIL(
                reader,
                "leaf group %u has no nodes; 'leaf_group NODES %u' must come "
                "first",
                group, group);
        }
    }
    return 0;
}

/* The capacities in an uplink line: the total of a leaf, or one capacity for
 * each of its uplinks. */
typedef struct uplinks {
    unsigned count; /* 0 if `up` and `down` are totals */
    double up[MRAIL_PLAN_MAX_UPLINKS], down[MRAIL_PLAN_MAX_UPLINKS];
} uplinks_t;

/* Splits a list of capacities in place. Returns their number, which may be
 * MRAIL_PLAN_MAX_UPLINKS plus 1. */
static unsigned split(char *word, char *parts[MRAIL_PLAN_MAX_UPLINKS + 1])
{
    unsigned count = 0;

    while (word != NULL && count <= MRAIL_PLAN_MAX_UPLINKS) {
        parts[count++] = strsep(&word, ",");
    }
    return count;
}

static int read_capacities(mrail_topo_reader_t *reader, uplinks_t *uplinks)
{
    char *const *words = reader->line->words;
    char *up[MRAIL_PLAN_MAX_UPLINKS + 1], *down[MRAIL_PLAN_MAX_UPLINKS + 1];
    unsigned count = split(words[3], up);
    unsigned count_down = (words[4] != NULL) ? split(words[4], down) : count;
    int ret = 0;

    if (count_down != count) {
        return MRAIL_TOPO_FAIL(
            reader,
            "%u upward capacities, but %u downward; both lists must have the "
            "same length",
            count, count_down);
    }
    if (count > MRAIL_PLAN_MAX_UPLINKS) {
        return MRAIL_TOPO_FAIL(reader, "a leaf can have at most %u uplinks",
                               MRAIL_PLAN_MAX_UPLINKS);
    }
    for (unsigned i = 0; i < count && ret == 0; ++i) {
        char *both[] = {up[i], (words[4] != NULL) ? down[i] : NULL};

        ret = mrail_topo_reader_capacities(reader, both, "dead",
                                           &uplinks->up[i], &uplinks->down[i]);
    }
    uplinks->count = (count > 1) ? count : 0;
    return ret;
}

/* Checks that all leaves list the same number of uplinks. */
static int check_count(mrail_topo_reader_t *reader, const uplinks_t *uplinks)
{
    if (uplinks->count == 0) {
        return 0;
    }
    if (reader->spread_line == 0) {
        reader->spread_line = reader->line->number;
        reader->num_uplinks = uplinks->count;
    }
    return (uplinks->count != reader->num_uplinks)
               ? MRAIL_TOPO_FAIL(
                     reader,
                     "%u uplinks, but line %u lists %u; all leaves must have "
                     "the same number",
                     uplinks->count, reader->spread_line, reader->num_uplinks)
               : 0;
}

static int set_leaf(mrail_plan_topo_t *topo, unsigned group, unsigned rail,
                    const uplinks_t *uplinks)
{
    return (uplinks->count > 0)
               ? mrail_plan_topo_set_uplinks(topo, group, rail, uplinks->count,
                                             uplinks->up, uplinks->down)
               : mrail_plan_topo_set_uplink(topo, group, rail, uplinks->up[0],
                                            uplinks->down[0]);
}

static int set_uplinks(mrail_topo_reader_t *reader, unsigned group,
                       const mrail_text_list_t *rails, const uplinks_t *uplinks)
{
    MRAIL_TEXT_LIST_EACH(rails, r)
    {
        int ret = set_leaf(reader->topo, group, r, uplinks);

        if (ret != 0) {
            return ret;
        }
        mrail_topo_reader_claim(
            reader,
            mrail_topo_reader_by_rail(reader, reader->uplink_lines, group, r));
    }
    return 0;
}

static int read_uplink(mrail_topo_reader_t *reader)
{
    char *const *words = reader->line->words;
    mrail_text_list_t groups, rails;
    uplinks_t uplinks;
    int ret = 0;

    if (reader->uplink_lines == NULL) {
        reader->uplink_lines =
            calloc((size_t)MRAIL_PLAN_MAX_NODES * reader->num_rails,
                   sizeof(*reader->uplink_lines));
    }
    if (reader->uplink_lines == NULL) {
        return -ENOMEM;
    }
    if (group_list(reader, words[1], &groups) != 0 ||
        mrail_topo_reader_rails(reader, words[2], &rails) != 0 ||
        read_capacities(reader, &uplinks) != 0 ||
        check_count(reader, &uplinks) != 0) {
        return -EINVAL;
    }
    /* Iterate over the nodes, because group numbers need not be consecutive. */
    for (unsigned n = 0; n < reader->num_nodes && ret == 0; ++n) {
        unsigned group = reader->nodes[n].group;

        if (mrail_text_list_has(&groups, group) &&
            *mrail_topo_reader_by_rail(reader, reader->uplink_lines, group,
                                       rails.first[0]) !=
                reader->line->number) {
            ret = set_uplinks(reader, group, &rails, &uplinks);
        }
    }
    reader->uplink_line += (reader->uplink_line == 0) * reader->line->number;
    return mrail_topo_reader_result(reader, ret);
}

/* ---- Lines that consist of one word ---- */

static int read_flag(mrail_topo_reader_t *reader, unsigned *line_p)
{
    if (*line_p != 0) {
        return MRAIL_TOPO_FAIL(
            reader, "'%s' is already on line %u and may occur only once",
            reader->line->words[0], *line_p);
    }
    *line_p = reader->line->number;
    return 0;
}

static int read_hairpin(mrail_topo_reader_t *reader)
{
    mrail_plan_topo_set_hairpin(reader->topo, 1);
    return read_flag(reader, &reader->hairpin_line);
}

static int read_cross_rail(mrail_topo_reader_t *reader)
{
    mrail_plan_topo_set_cross_rail(reader->topo, 1);
    return read_flag(reader, &reader->cross_rail_line);
}

/* ---- Lines ---- */

static const struct {
    const char *name, *syntax; /* syntax: the words after the name */
    unsigned min_words, max_words;
    int (*read)(mrail_topo_reader_t *reader);
} verbs[] = {
    {"nodes", " N", 1, 1, read_nodes},
    {"rails", " N", 1, 1, read_rails},
    {"rail", " NODES RAILS OUT [IN]", 3, 4, read_rail},
    {"ranks", " NODES COUNT single-rail|multi-rail|RAILS", 3, 3,
     mrail_topo_reader_ranks},
    {"reach", " RANKS RAILS OUT|full|none [IN]", 3, 4, mrail_topo_reader_reach},
    {"pairwise", " NODES CAPACITY", 2, 2, mrail_topo_reader_pairwise},
    {"link", " RANKS RANKS CAPACITY|none", 3, 3, mrail_topo_reader_link},
    {"switch", " NODES UP [DOWN]", 2, 3, mrail_topo_reader_switch},
    {"leaf_group", " NODES GROUP", 2, 2, read_group},
    {"uplink", " GROUPS RAILS UP [DOWN]", 3, 4, read_uplink},
    {"hairpin", "", 0, 0, read_hairpin},
    {"cross_rail", "", 0, 0, read_cross_rail},
};

/* Checks the topology after the last line. */
static int check_end(mrail_topo_reader_t *reader)
{
    if (reader->topo == NULL) {
        return MRAIL_TOPO_FAIL(reader, "the line '%s N' is missing",
                               (reader->num_nodes == 0) ? "nodes" : "rails");
    }
    return (reader->num_ranks == 0)
               ? MRAIL_TOPO_FAIL(
                     reader,
                     "the topology has no ranks; add a line 'ranks NODES COUNT "
                     "single-rail|multi-rail|RAILS'")
               : mrail_topo_reader_check_reach(reader);
}

static int unknown(mrail_topo_reader_t *reader)
{
    char known[200] = "";
    size_t used = 0;

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(verbs); ++i) {
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
                                 (i > 0) ? ", " : "", verbs[i].name);
    }
    return MRAIL_TOPO_FAIL(reader,
                           "'%.40s' is not a statement; expected one of: %s",
                           reader->line->words[0], known);
}

/* Finds the verb of a line, and checks its number of words and its position. */
static int find_verb(mrail_topo_reader_t *reader, unsigned *verb_p)
{
    const mrail_text_line_t *line = reader->line;
    unsigned v = 0;

    while (strcmp(verbs[v].name, line->words[0]) != 0) {
        if (++v == MRAIL_ARRAY_SIZE(verbs)) {
            return unknown(reader);
        }
    }
    if (line->num - 1 < verbs[v].min_words ||
        line->num - 1 > verbs[v].max_words) {
        return MRAIL_TOPO_FAIL(reader, "too %s words: %s%s",
                               (line->num - 1 < verbs[v].min_words) ? "few"
                                                                    : "many",
                               verbs[v].name, verbs[v].syntax);
    }
    if (v > 1 && reader->topo == NULL) {
        return MRAIL_TOPO_FAIL(
            reader, "'nodes N' and 'rails N' must precede '%s'", verbs[v].name);
    }
    *verb_p = v;
    return 0;
}

static int read_line(mrail_text_line_t *line, void *arg)
{
    mrail_topo_reader_t *reader = arg;
    unsigned verb = 0;
    int ret;

    reader->line = line;
    reader->lost = 0;
    if (line->num == 0) {
        return check_end(reader);
    }
    ret = find_verb(reader, &verb);
    if (ret == 0) {
        ret = verbs[verb].read(reader);
    }
    if (ret == 0 && reader->lost != 0) {
        return MRAIL_TOPO_FAIL(
            reader, "this line overrides all of line %u; remove one of them",
            reader->lost);
    }
    return ret;
}

static void reader_cleanup(mrail_topo_reader_t *reader)
{
    mrail_plan_topo_destroy(reader->topo);
    free(reader->nodes);
    free(reader->ranks);
    free(reader->rail_lines);
    free(reader->uplink_lines);
    free(reader->reach_lines);
    free(reader->link_lines);
    free(reader->left);
}

/* Moves the topology and the numbers of its lines to the result. */
static int take_result(mrail_topo_reader_t *reader, mrail_topo_text_t *text_p)
{
    unsigned *rank_lines = malloc(reader->num_ranks * sizeof(*rank_lines));
    unsigned *group_lines = malloc(reader->num_nodes * sizeof(*group_lines));

    if (rank_lines == NULL || group_lines == NULL) {
        free(rank_lines);
        free(group_lines);
        return -ENOMEM;
    }
    for (unsigned i = 0; i < reader->num_ranks; ++i) {
        rank_lines[i] = reader->ranks[i].line;
    }
    for (unsigned i = 0; i < reader->num_nodes; ++i) {
        group_lines[i] = reader->nodes[i].group_line;
    }
    *text_p = (mrail_topo_text_t){.topo = reader->topo,
                                  .rank_lines = rank_lines,
                                  .group_lines = group_lines,
                                  .port_lines = reader->rail_lines,
                                  .uplink_lines = reader->uplink_lines};
    reader->topo = NULL;
    reader->rail_lines = reader->uplink_lines = NULL;
    return 0;
}

void mrail_topo_text_cleanup(mrail_topo_text_t *text)
{
    mrail_plan_topo_destroy(text->topo);
    free(text->rank_lines);
    free(text->group_lines);
    free(text->port_lines);
    free(text->uplink_lines);
}

int mrail_topo_text_read(const char *name, const char *text, size_t length,
                         mrail_topo_text_t *text_p, char *reason, size_t size)
{
    mrail_topo_reader_t reader = {.topo = NULL};
    size_t lines = 2;
    int ret = -ENOMEM;

    /* Counts lines only up to the limit, because a longer text is rejected
     * later. */
    for (size_t i = 0; i < MRAIL_MIN(length, MRAIL_TOPO_TEXT_MAX_BYTES); ++i) {
        lines += (text[i] == '\n');
    }
    reader.left = calloc(lines, sizeof(*reader.left));
    if (reader.left == NULL) {
        goto err_memory;
    }
    ret = mrail_text_each(name, text, length, MRAIL_TOPO_TEXT_MAX_BYTES,
                          read_line, &reader, reason, size);
    if (ret < 0) {
        goto err_reader;
    }
    ret = take_result(&reader, text_p);
    if (ret < 0) {
        goto err_memory;
    }
    reader_cleanup(&reader);
    return 0;

err_memory:
    snprintf(reason, size, "%.*s:1: out of memory", MRAIL_TEXT_MAX_NAME, name);
err_reader:
    reader_cleanup(&reader);
    return ret;
}
