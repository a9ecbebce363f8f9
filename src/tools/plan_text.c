/*
 * Parses topologies. All rules are checked here, so that each error names its
 * line. After that, the planner can refuse a topology only if memory runs out.
 */
#include "config.h"
#include "tools/plan_text.h"

#include "tools/plan_reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int plan_reader_result(plan_reader_t *reader, int ret)
{
    return (ret == 0 || ret == -ENOMEM)
               ? ret
               : PLAN_FAIL(reader, "the planner does not accept this (%s)",
                           (ret == -ENOSPC) ? "more than its limits"
                                            : "a value out of range");
}

void plan_reader_claim(plan_reader_t *reader, unsigned *owner_p)
{
    unsigned number = reader->line->number;

    if (*owner_p != 0 && --reader->left[*owner_p] == 0 && *owner_p != number) {
        reader->lost = *owner_p;
    }
    *owner_p = number;
    ++reader->left[number];
}

static unsigned *by_rail(const plan_reader_t *reader, unsigned *lines,
                         unsigned node_or_group, unsigned rail)
{
    return &lines[node_or_group * reader->num_rails + rail];
}

/* ---- Capacities ---- */

int plan_reader_capacities(plan_reader_t *reader, char *const *words,
                           const char *none, double *out_p, double *in_p)
{
    int ret = mrail_text_capacity(reader->line, words[0], none, out_p);

    *in_p = *out_p;
    if (ret == 0 && words[1] != NULL) {
        ret = mrail_text_capacity(reader->line, words[1], none, in_p);
    }
    if (ret == 0 && (*out_p == 0) != (*in_p == 0)) {
        return PLAN_FAIL(reader,
                         "dead in one direction only: write %s once, for "
                         "both",
                         none);
    }
    return ret;
}

/* ---- Size ---- */

/* Creates the topology, whose size is final from here on. */
static int begin(plan_reader_t *reader)
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
    return plan_reader_result(reader, mrail_plan_topo_create(reader->num_nodes,
                                                             reader->num_rails,
                                                             &reader->topo));
}

static int read_size(plan_reader_t *reader, unsigned *line_p, unsigned max,
                     unsigned *value_p)
{
    mrail_text_line_t *line = reader->line;
    int ret;

    if (*line_p != 0) {
        return PLAN_FAIL(reader,
                         "'%s' is already on line %u and may occur only once",
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

static int read_nodes(plan_reader_t *reader)
{
    return read_size(reader, &reader->nodes_line, MRAIL_PLAN_MAX_NODES,
                     &reader->num_nodes);
}

static int read_rails(plan_reader_t *reader)
{
    return read_size(reader, &reader->rails_line, MRAIL_PLAN_MAX_RAILS,
                     &reader->num_rails);
}

/* ---- Rails, groups, uplinks ---- */

int plan_reader_nodes(plan_reader_t *reader, const char *word,
                      mrail_text_list_t *nodes)
{
    return mrail_text_list(reader->line, word, "node", reader->num_nodes,
                           nodes);
}

static int rail_list(plan_reader_t *reader, const char *word,
                     mrail_text_list_t *rails)
{
    return mrail_text_list(reader->line, word, "rail", reader->num_rails,
                           rails);
}

static int read_rail(plan_reader_t *reader)
{
    char *const *words = reader->line->words;
    mrail_text_list_t nodes, rails;
    double out, in;
    int ret = 0;

    if (plan_reader_nodes(reader, words[1], &nodes) != 0 ||
        rail_list(reader, words[2], &rails) != 0 ||
        plan_reader_capacities(reader, words + 3, "dead", &out, &in) != 0) {
        return -EINVAL;
    }
    MRAIL_TEXT_LIST_EACH(&nodes, n)
    {
        MRAIL_TEXT_LIST_EACH(&rails, r)
        {
            if (ret == 0) {
                ret = mrail_plan_topo_set_rail(reader->topo, n, r, out, in);
                plan_reader_claim(reader,
                                  by_rail(reader, reader->rail_lines, n, r));
            }
        }
    }
    return plan_reader_result(reader, ret);
}

static int read_group(plan_reader_t *reader)
{
    char *const *words = reader->line->words;
    mrail_text_list_t nodes;
    unsigned group;
    int ret = 0;

    if (reader->uplink_line != 0) {
        return PLAN_FAIL(
            reader, "'leaf_group' must precede the first 'uplink', line %u",
            reader->uplink_line);
    }
    if (plan_reader_nodes(reader, words[1], &nodes) != 0 ||
        mrail_text_count(reader->line, words[2], "leaf group", 0,
                         MRAIL_PLAN_MAX_NODES - 1, &group) != 0) {
        return -EINVAL;
    }
    MRAIL_TEXT_LIST_EACH(&nodes, n)
    {
        if (ret == 0) {
            ret = mrail_plan_topo_set_leaf_group(reader->topo, n, group);
            plan_reader_claim(reader, &reader->nodes[n].group_line);
            reader->nodes[n].group = group;
        }
    }
    return plan_reader_result(reader, ret);
}

/* Returns 1 if the group has a node. */
static int has_group(const plan_reader_t *reader, unsigned group)
{
    unsigned n = 0;

    while (n < reader->num_nodes && reader->nodes[n].group != group) {
        ++n;
    }
    return n < reader->num_nodes;
}

/* Parses a list of leaf groups. '*' means all groups that have nodes. A named
 * group without nodes is refused. */
static int group_list(plan_reader_t *reader, const char *word,
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
            return PLAN_FAIL(
                reader,
                "there is no node in leaf group %u: 'leaf_group NODES %u' "
                "must come first",
                group, group);
        }
    }
    return 0;
}

static int set_uplinks(plan_reader_t *reader, unsigned group,
                       const mrail_text_list_t *rails, double up, double down)
{
    MRAIL_TEXT_LIST_EACH(rails, r)
    {
        int ret = mrail_plan_topo_set_uplink(reader->topo, group, r, up, down);

        if (ret != 0) {
            return ret;
        }
        plan_reader_claim(reader,
                          by_rail(reader, reader->uplink_lines, group, r));
    }
    return 0;
}

static int read_uplink(plan_reader_t *reader)
{
    char *const *words = reader->line->words;
    mrail_text_list_t groups, rails;
    double up, down;
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
        rail_list(reader, words[2], &rails) != 0 ||
        plan_reader_capacities(reader, words + 3, "dead", &up, &down) != 0) {
        return -EINVAL;
    }
    /* Iterate over the nodes, because not every number below the largest is a
     * group. */
    for (unsigned n = 0; n < reader->num_nodes && ret == 0; ++n) {
        unsigned group = reader->nodes[n].group;

        if (mrail_text_list_has(&groups, group) &&
            *by_rail(reader, reader->uplink_lines, group, rails.first[0]) !=
                reader->line->number) {
            ret = set_uplinks(reader, group, &rails, up, down);
        }
    }
    reader->uplink_line += (reader->uplink_line == 0) * reader->line->number;
    return plan_reader_result(reader, ret);
}

/* ---- Ranks ---- */

/* How a line binds the ranks that it adds to rails. */
typedef struct binding {
    enum { SINGLE_RAIL, MULTI_RAIL, LISTED } how;
    mrail_text_list_t rails;
} binding_t;

static int read_binding(plan_reader_t *reader, const char *word,
                        binding_t *binding)
{
    if (strcmp(word, "single-rail") == 0) {
        binding->how = SINGLE_RAIL;
        return 0;
    }
    if (strcmp(word, "multi-rail") == 0) {
        binding->how = MULTI_RAIL;
        return 0;
    }
    if (*word != '*' && (*word < '0' || *word > '9')) {
        return PLAN_FAIL(
            reader, "'%.40s' is not single-rail, multi-rail or a list of rails",
            word);
    }
    binding->how = LISTED;
    return mrail_text_sequence(reader->line, word, "rail", reader->num_rails,
                               &binding->rails);
}

static int add_rank(plan_reader_t *reader, unsigned node, unsigned rail)
{
    unsigned rank = reader->num_ranks, index = reader->nodes[node].num_ranks;
    int ret;

    if (rank == MRAIL_PLAN_MAX_RANKS) {
        return PLAN_FAIL(reader, "more than %u ranks in all",
                         MRAIL_PLAN_MAX_RANKS);
    }
    ret = mrail_plan_topo_add_rank(reader->topo, node);
    if (ret == 0) {
        ret = mrail_plan_topo_set_reach(reader->topo, rank, rail,
                                        MRAIL_PLAN_UNLIMITED,
                                        MRAIL_PLAN_UNLIMITED);
    }
    if (ret != 0) {
        return plan_reader_result(reader, ret);
    }
    reader->ranks[rank].node = node;
    reader->ranks[rank].index = index;
    if (index < MRAIL_PLAN_MAX_PAIRWISE) {
        reader->nodes[node].members[index] = rank;
    }
    ++reader->nodes[node].num_ranks;
    ++reader->num_ranks;
    return 0;
}

static int read_ranks(plan_reader_t *reader)
{
    char *const *words = reader->line->words;
    mrail_text_list_t nodes;
    binding_t binding;
    unsigned count;
    int ret = 0;

    if (reader->gpu_line != 0) {
        return PLAN_FAIL(reader,
                         "'ranks' must precede the first 'pairwise', 'link' or "
                         "'switch', line %u",
                         reader->gpu_line);
    }
    if (plan_reader_nodes(reader, words[1], &nodes) != 0 ||
        mrail_text_count(reader->line, words[2], "ranks of a node", 1,
                         MRAIL_PLAN_MAX_RANKS, &count) != 0 ||
        read_binding(reader, words[3], &binding) != 0) {
        return -EINVAL;
    }
    MRAIL_TEXT_LIST_EACH(&nodes, n)
    {
        for (unsigned i = 0; i < count && ret == 0; ++i) {
            unsigned rail = reader->nodes[n].num_ranks % reader->num_rails;

            if (binding.how == MULTI_RAIL) {
                rail = MRAIL_PLAN_ALL_RAILS;
            } else if (binding.how == LISTED) {
                rail = mrail_text_list_at(
                    &binding.rails, i % mrail_text_list_count(&binding.rails));
            }
            ret = add_rank(reader, n, rail);
        }
    }
    return ret;
}

/* ---- Reach ---- */

/* Reads the limit of a rank on a rail: a capacity, or full or none. */
static int read_limit(plan_reader_t *reader, const char *word, double *limit_p)
{
    if (strcmp(word, "full") == 0) {
        *limit_p = MRAIL_PLAN_UNLIMITED;
        return 0;
    }
    if (strcmp(word, "none") == 0) {
        *limit_p = 0;
        return 0;
    }
    return mrail_text_capacity(reader->line, word, "full or none", limit_p);
}

static int read_limits(plan_reader_t *reader, char *const *words, double *out_p,
                       double *in_p)
{
    int ret = read_limit(reader, words[0], out_p);

    *in_p = *out_p;
    if (ret == 0 && words[1] != NULL) {
        ret = read_limit(reader, words[1], in_p);
    }
    if (ret == 0 && (*out_p == 0) != (*in_p == 0)) {
        return PLAN_FAIL(reader, "a rank reaches a rail in both directions or "
                                 "in none: write none once, for both");
    }
    return ret;
}

static int begin_reach(plan_reader_t *reader)
{
    if (reader->num_ranks == 0) {
        return PLAN_FAIL(reader,
                         "there are no ranks yet: 'ranks' must come first");
    }
    if (reader->reach_lines == NULL) {
        reader->reach_lines =
            calloc((size_t)MRAIL_PLAN_MAX_RANKS * reader->num_rails,
                   sizeof(*reader->reach_lines));
        reader->reach_line = reader->line->number;
    }
    return (reader->reach_lines != NULL) ? 0 : -ENOMEM;
}

static int read_reach(plan_reader_t *reader)
{
    char *const *words = reader->line->words;
    mrail_text_list_t ranks, rails;
    double out, in;
    int ret = begin_reach(reader);

    if (ret != 0) {
        return ret;
    }
    if (mrail_text_list(reader->line, words[1], "rank", reader->num_ranks,
                        &ranks) != 0 ||
        rail_list(reader, words[2], &rails) != 0 ||
        read_limits(reader, words + 3, &out, &in) != 0) {
        return -EINVAL;
    }
    MRAIL_TEXT_LIST_EACH(&ranks, rank)
    {
        MRAIL_TEXT_LIST_EACH(&rails, r)
        {
            if (ret == 0) {
                ret = mrail_plan_topo_set_reach(reader->topo, rank, r, out, in);
                plan_reader_claim(
                    reader, by_rail(reader, reader->reach_lines, rank, r));
            }
        }
    }
    return plan_reader_result(reader, ret);
}

/* Returns the rail that the last of all reach lines took from a rank. */
static unsigned last_reach(const plan_reader_t *reader, unsigned rank)
{
    unsigned last = 0;

    for (unsigned rail = 1; rail < reader->num_rails; ++rail) {
        if (*by_rail(reader, reader->reach_lines, rank, rail) >
            *by_rail(reader, reader->reach_lines, rank, last)) {
            last = rail;
        }
    }
    return last;
}

/* Returns 1 if the node has GPU links and a rank that reaches a rail. */
static int has_relay(const plan_reader_t *reader, unsigned node)
{
    const plan_reader_node_t *n = &reader->nodes[node];

    for (unsigned rank = 0; rank < reader->num_ranks; ++rank) {
        if (reader->ranks[rank].node == node &&
            mrail_plan_topo_rails_of(reader->topo, rank) != 0) {
            return n->pairwise_line != 0 || n->switch_line != 0;
        }
    }
    return 0;
}

/* Checks that each rank without a rail may have a relay. Only reach takes the
 * rails of a rank away. */
static int check_reach(plan_reader_t *reader)
{
    for (unsigned rank = 0; reader->reach_line != 0 && rank < reader->num_ranks;
         ++rank) {
        unsigned node = reader->ranks[rank].node;

        if (mrail_plan_topo_rails_of(reader->topo, rank) == 0 &&
            !has_relay(reader, node)) {
            return PLAN_FAIL(reader,
                             "rank %u reaches no rail since line %u, and no "
                             "rank of node %u can relay for it",
                             rank,
                             *by_rail(reader, reader->reach_lines, rank,
                                      last_reach(reader, rank)),
                             node);
        }
    }
    return 0;
}

/* ---- Lines of one word ---- */

static int read_flag(plan_reader_t *reader, unsigned *line_p)
{
    if (*line_p != 0) {
        return PLAN_FAIL(reader,
                         "'%s' is already on line %u and may occur only once",
                         reader->line->words[0], *line_p);
    }
    *line_p = reader->line->number;
    return 0;
}

static int read_hairpin(plan_reader_t *reader)
{
    mrail_plan_topo_set_hairpin(reader->topo, 1);
    return read_flag(reader, &reader->hairpin_line);
}

static int read_cross_rail(plan_reader_t *reader)
{
    mrail_plan_topo_set_cross_rail(reader->topo, 1);
    return read_flag(reader, &reader->cross_rail_line);
}

/* ---- Lines ---- */

static const struct {
    const char *name, *syntax; /* syntax: the words after the name */
    unsigned min_words, max_words;
    int (*read)(plan_reader_t *reader);
} verbs[] = {
    {"nodes", " N", 1, 1, read_nodes},
    {"rails", " N", 1, 1, read_rails},
    {"rail", " NODES RAILS OUT [IN]", 3, 4, read_rail},
    {"ranks", " NODES COUNT single-rail|multi-rail|RAILS", 3, 3, read_ranks},
    {"reach", " RANKS RAILS OUT|full|none [IN]", 3, 4, read_reach},
    {"pairwise", " NODES CAPACITY", 2, 2, plan_reader_pairwise},
    {"link", " RANKS RANKS CAPACITY|none", 3, 3, plan_reader_link},
    {"switch", " NODES UP [DOWN]", 2, 3, plan_reader_switch},
    {"leaf_group", " NODES GROUP", 2, 2, read_group},
    {"uplink", " GROUPS RAILS UP [DOWN]", 3, 4, read_uplink},
    {"hairpin", "", 0, 0, read_hairpin},
    {"cross_rail", "", 0, 0, read_cross_rail},
};

/* Checks the topology after the last line. */
static int check_end(plan_reader_t *reader)
{
    if (reader->topo == NULL) {
        return PLAN_FAIL(reader, "the text ends without a line '%s N'",
                         (reader->num_nodes == 0) ? "nodes" : "rails");
    }
    return (reader->num_ranks == 0)
               ? PLAN_FAIL(reader,
                           "the text ends without a line 'ranks NODES COUNT "
                           "single-rail|multi-rail|RAILS': no rank could send")
               : check_reach(reader);
}

static int unknown(plan_reader_t *reader)
{
    char known[200] = "";
    size_t used = 0;

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(verbs); ++i) {
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
                                 (i > 0) ? ", " : "", verbs[i].name);
    }
    return PLAN_FAIL(reader, "'%.40s' is not a statement: %s",
                     reader->line->words[0], known);
}

/* Finds the verb of a line, and checks its number of words and its position. */
static int find_verb(plan_reader_t *reader, unsigned *verb_p)
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
        return PLAN_FAIL(reader, "too %s words: %s%s",
                         (line->num - 1 < verbs[v].min_words) ? "few" : "many",
                         verbs[v].name, verbs[v].syntax);
    }
    if (v > 1 && reader->topo == NULL) {
        return PLAN_FAIL(reader, "'nodes N' and 'rails N' must precede '%s'",
                         verbs[v].name);
    }
    *verb_p = v;
    return 0;
}

static int read_line(mrail_text_line_t *line, void *arg)
{
    plan_reader_t *reader = arg;
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
        return PLAN_FAIL(reader,
                         "this overrides all of line %u: remove one of the two",
                         reader->lost);
    }
    return ret;
}

static void reader_cleanup(plan_reader_t *reader)
{
    if (reader->topo != NULL) {
        mrail_plan_topo_destroy(reader->topo);
    }
    free(reader->nodes);
    free(reader->ranks);
    free(reader->rail_lines);
    free(reader->uplink_lines);
    free(reader->reach_lines);
    free(reader->link_lines);
    free(reader->left);
}

int plan_text_topo(const char *name, const char *text, size_t length,
                   mrail_plan_topo_t **topo_p, char *why, size_t size)
{
    plan_reader_t reader = {.topo = NULL};
    size_t lines = 2;
    int ret = -ENOMEM;

    /* Counts lines only up to the limit, because a longer text will be
     * refused. */
    for (size_t i = 0; i < MRAIL_MIN(length, PLAN_TEXT_MAX_BYTES); ++i) {
        lines += (text[i] == '\n');
    }
    reader.left = calloc(lines, sizeof(*reader.left));
    if (reader.left == NULL) {
        snprintf(why, size, "%.*s:1: out of memory", MRAIL_TEXT_MAX_NAME, name);
        return ret;
    }
    ret = mrail_text_each(name, text, length, PLAN_TEXT_MAX_BYTES, read_line,
                          &reader, why, size);
    if (ret == 0) {
        *topo_p = reader.topo;
        reader.topo = NULL;
    }
    reader_cleanup(&reader);
    return ret;
}
