/*
 * Topologies as text.  Everything that can be said is checked here, with the
 * line that says it; the planner then has nothing left to refuse but for want
 * of memory.
 */
#include "config.h"
#include "tools/plan_text.h"

#include "tools/plan_words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_NODES MRAIL_PLAN_MAX_NODES
#define MAX_RAILS MRAIL_PLAN_MAX_RAILS
#define MAX_RANKS MRAIL_PLAN_MAX_RANKS
#define MAX_MESH MRAIL_PLAN_MAX_MESH

/* Line numbers are 0 where no line has said it. */
typedef struct node {
    unsigned pod, pod_line;
    unsigned mesh_line, switch_line; /* mesh: or link */
    unsigned num_ranks;
    unsigned members[MAX_MESH]; /* its first ranks */
} node_t;

typedef struct rank {
    unsigned node, index; /* in its node */
} rank_t;

/* What has been read.  The arrays come when their sizes are known. */
typedef struct reader {
    mrail_plan_topo_t *topo; /* once nodes and rails are known */
    plan_line_t *line;       /* being read */
    unsigned num_nodes, num_rails, num_ranks;
    unsigned nodes_line, rails_line, loop_line, cross_line;
    unsigned gpu_line;       /* of the first mesh, link or switch */
    unsigned uplink_line;    /* of the first one */
    node_t *nodes;
    rank_t *ranks;           /* MAX_RANKS */
    unsigned *rail_lines;    /* by node and rail */
    unsigned *uplink_lines;  /* by pod and rail */
    unsigned *link_lines;    /* by sender and the receiver's index */
    unsigned *left;          /* by line: of how much it is still right */
    unsigned lost;           /* a line to which the present one left nothing */
} reader_t;

#define FAIL(_reader, ...) plan_words_fail((_reader)->line, __VA_ARGS__)

/* A result of the planner's, which has no sentences of its own. */
static int told(reader_t *reader, int ret)
{
    return (ret == 0 || ret == -ENOMEM)
               ? ret
               : FAIL(reader, "the planner does not take this (%s)",
                      (ret == -ENOSPC) ? "more than its limits"
                                       : "a value out of range");
}

/* The present line is right about one thing more, and *owner_p no longer. */
static void claim(reader_t *reader, unsigned *owner_p)
{
    unsigned number = reader->line->number;

    if (*owner_p != 0 && --reader->left[*owner_p] == 0 && *owner_p != number) {
        reader->lost = *owner_p;
    }
    *owner_p = number;
    ++reader->left[number];
}

static unsigned *by_rail(const reader_t *reader, unsigned *lines,
                         unsigned node_or_pod, unsigned rail)
{
    return &lines[node_or_pod * reader->num_rails + rail];
}

/* ---- Capacities ---- */

/* Bytes per second; 0 for the word `none`, if there is one. */
static int read_capacity(reader_t *reader, const char *word, const char *none,
                         double *capacity_p)
{
    return plan_words_capacity(reader->line, word, none, capacity_p);
}

/* One for both directions, or two: words[0] and perhaps words[1]. */
static int read_capacities(reader_t *reader, char *const *words,
                           const char *none, double *out_p, double *in_p)
{
    int ret = read_capacity(reader, words[0], none, out_p);

    *in_p = *out_p;
    if (ret == 0 && words[1] != NULL) {
        ret = read_capacity(reader, words[1], none, in_p);
    }
    if (ret == 0 && (*out_p == 0) != (*in_p == 0)) {
        return FAIL(reader, "dead in one direction only: write %s once, for "
                            "both", none);
    }
    return ret;
}

/* ---- Size ---- */

/* What is known of the size now is all of it. */
static int begin(reader_t *reader)
{
    size_t num_nodes = reader->num_nodes;

    reader->nodes = calloc(num_nodes, sizeof(*reader->nodes));
    reader->ranks = malloc(MAX_RANKS * sizeof(*reader->ranks));
    reader->rail_lines = calloc(num_nodes * reader->num_rails,
                                sizeof(*reader->rail_lines));
    if (reader->nodes == NULL || reader->ranks == NULL ||
        reader->rail_lines == NULL) {
        return -ENOMEM;
    }
    return told(reader, mrail_plan_topo_create(reader->num_nodes,
                                               reader->num_rails,
                                               &reader->topo));
}

static int read_size(reader_t *reader, unsigned *line_p, unsigned max,
                     unsigned *value_p)
{
    plan_line_t *line = reader->line;
    int ret;

    if (*line_p != 0) {
        return FAIL(reader, "'%s' was said in line %u: it goes once",
                    line->words[0], *line_p);
    }
    ret = plan_words_count(line, line->words[1], line->words[0], 1, max,
                           value_p);
    if (ret != 0) {
        return ret;
    }
    *line_p = line->number;
    return (reader->num_nodes != 0 && reader->num_rails != 0) ? begin(reader)
                                                               : 0;
}

static int read_nodes(reader_t *reader)
{
    return read_size(reader, &reader->nodes_line, MAX_NODES,
                     &reader->num_nodes);
}

static int read_rails(reader_t *reader)
{
    return read_size(reader, &reader->rails_line, MAX_RAILS,
                     &reader->num_rails);
}

/* ---- Rails, pods, uplinks ---- */

static int node_list(reader_t *reader, const char *word, plan_list_t *nodes)
{
    return plan_words_list(reader->line, word, "node", reader->num_nodes,
                           nodes);
}

static int rail_list(reader_t *reader, const char *word, plan_list_t *rails)
{
    return plan_words_list(reader->line, word, "rail", reader->num_rails,
                           rails);
}

#define FOR_EACH(_list, _n)                                                   \
    for (unsigned _n = plan_list_from((_list), 0); _n != PLAN_LIST_END;       \
         _n = plan_list_from((_list), _n + 1))

static int read_rail(reader_t *reader)
{
    char *const *words = reader->line->words;
    plan_list_t nodes, rails;
    double out, in;
    int ret = 0;

    if (node_list(reader, words[1], &nodes) != 0 ||
        rail_list(reader, words[2], &rails) != 0 ||
        read_capacities(reader, words + 3, "dead", &out, &in) != 0) {
        return -EINVAL;
    }
    FOR_EACH(&nodes, n) {
        FOR_EACH(&rails, r) {
            if (ret == 0) {
                ret = mrail_plan_topo_set_rail(reader->topo, n, r, out, in);
                claim(reader, by_rail(reader, reader->rail_lines, n, r));
            }
        }
    }
    return told(reader, ret);
}

static int read_pod(reader_t *reader)
{
    char *const *words = reader->line->words;
    plan_list_t nodes;
    unsigned pod;
    int ret = 0;

    if (reader->uplink_line != 0) {
        return FAIL(reader, "'pod' goes before the first 'uplink', line %u",
                    reader->uplink_line);
    }
    if (node_list(reader, words[1], &nodes) != 0 ||
        plan_words_count(reader->line, words[2], "pod", 0, MAX_NODES - 1,
                         &pod) != 0) {
        return -EINVAL;
    }
    FOR_EACH(&nodes, n) {
        if (ret == 0) {
            ret = mrail_plan_topo_set_pod(reader->topo, n, pod);
            claim(reader, &reader->nodes[n].pod_line);
            reader->nodes[n].pod = pod;
        }
    }
    return told(reader, ret);
}

/* Is there a node in it? */
static int has_pod(const reader_t *reader, unsigned pod)
{
    unsigned n = 0;

    while (n < reader->num_nodes && reader->nodes[n].pod != pod) {
        ++n;
    }
    return n < reader->num_nodes;
}

/* Pods with nodes; '*' means those, a number without a node is refused. */
static int pod_list(reader_t *reader, const char *word, plan_list_t *pods)
{
    unsigned most = 0;

    for (unsigned n = 0; n < reader->num_nodes; ++n) {
        most = MRAIL_MAX(most, reader->nodes[n].pod);
    }
    if (plan_words_list(reader->line, word, "pod", most + 1, pods) != 0) {
        return -EINVAL;
    }
    if (strcmp(word, "*") == 0) {
        return 0;
    }
    FOR_EACH(pods, pod) {
        if (!has_pod(reader, pod)) {
            return FAIL(reader, "there is no node in pod %u: 'pod NODES %u' "
                                "goes first", pod, pod);
        }
    }
    return 0;
}

static int set_uplinks(reader_t *reader, unsigned pod, const plan_list_t *rails,
                       double up, double down)
{
    FOR_EACH(rails, r) {
        int ret = mrail_plan_topo_set_uplink(reader->topo, pod, r, up, down);

        if (ret != 0) {
            return ret;
        }
        claim(reader, by_rail(reader, reader->uplink_lines, pod, r));
    }
    return 0;
}

static int read_uplink(reader_t *reader)
{
    char *const *words = reader->line->words;
    plan_list_t pods, rails;
    double up, down;
    int ret = 0;

    if (reader->uplink_lines == NULL) {
        reader->uplink_lines = calloc((size_t)MAX_NODES * reader->num_rails,
                                      sizeof(*reader->uplink_lines));
    }
    if (reader->uplink_lines == NULL) {
        return -ENOMEM;
    }
    if (pod_list(reader, words[1], &pods) != 0 ||
        rail_list(reader, words[2], &rails) != 0 ||
        read_capacities(reader, words + 3, "dead", &up, &down) != 0) {
        return -EINVAL;
    }
    /* By nodes: not every number below the largest needs to be a pod. */
    for (unsigned n = 0; n < reader->num_nodes && ret == 0; ++n) {
        unsigned pod = reader->nodes[n].pod;

        if (plan_list_has(&pods, pod) &&
            *by_rail(reader, reader->uplink_lines, pod, rails.first[0]) !=
                reader->line->number) {
            ret = set_uplinks(reader, pod, &rails, up, down);
        }
    }
    reader->uplink_line += (reader->uplink_line == 0) * reader->line->number;
    return told(reader, ret);
}

/* ---- Ranks ---- */

/* Rails of the ranks that a line adds: how the i-th of a node is bound. */
typedef struct binding {
    enum { BOUND, FREE, LISTED } how;
    plan_list_t rails;
} binding_t;

static int read_binding(reader_t *reader, const char *word, binding_t *binding)
{
    if (strcmp(word, "bound") == 0) {
        binding->how = BOUND;
        return 0;
    }
    if (strcmp(word, "free") == 0) {
        binding->how = FREE;
        return 0;
    }
    if (*word != '*' && (*word < '0' || *word > '9')) {
        return FAIL(reader, "'%.40s' is not bound, free or a list of rails",
                    word);
    }
    binding->how = LISTED;
    return plan_words_sequence(reader->line, word, "rail", reader->num_rails,
                               &binding->rails);
}

static int add_rank(reader_t *reader, unsigned node, unsigned rail)
{
    unsigned rank = reader->num_ranks, index = reader->nodes[node].num_ranks;
    int ret;

    if (rank == MAX_RANKS) {
        return FAIL(reader, "more than %u ranks in all", MAX_RANKS);
    }
    ret = mrail_plan_topo_add_rank(reader->topo, node, rail);
    if (ret != 0) {
        return told(reader, ret);
    }
    reader->ranks[rank].node = node;
    reader->ranks[rank].index = index;
    if (index < MAX_MESH) {
        reader->nodes[node].members[index] = rank;
    }
    ++reader->nodes[node].num_ranks;
    ++reader->num_ranks;
    return 0;
}

static int read_ranks(reader_t *reader)
{
    char *const *words = reader->line->words;
    plan_list_t nodes;
    binding_t binding;
    unsigned count;
    int ret = 0;

    if (reader->gpu_line != 0) {
        return FAIL(reader, "'ranks' goes before the first 'mesh', 'link' or "
                            "'switch', line %u", reader->gpu_line);
    }
    if (node_list(reader, words[1], &nodes) != 0 ||
        plan_words_count(reader->line, words[2], "ranks of a node", 1,
                         MAX_RANKS, &count) != 0 ||
        read_binding(reader, words[3], &binding) != 0) {
        return -EINVAL;
    }
    FOR_EACH(&nodes, n) {
        for (unsigned i = 0; i < count && ret == 0; ++i) {
            unsigned rail = reader->nodes[n].num_ranks % reader->num_rails;

            if (binding.how == FREE) {
                rail = MRAIL_PLAN_NONE;
            } else if (binding.how == LISTED) {
                rail = plan_list_at(&binding.rails,
                                    i % plan_list_count(&binding.rails));
            }
            ret = add_rank(reader, n, rail);
        }
    }
    return ret;
}

/* ---- Links of a node ---- */

static unsigned *link_line(const reader_t *reader, unsigned from, unsigned to)
{
    return &reader->link_lines[from * MAX_MESH + reader->ranks[to].index];
}

/* A node has links in pairs or a switch, and the first of it ends the ranks. */
static int begin_gpu(reader_t *reader, unsigned node, int is_switch)
{
    unsigned other = is_switch ? reader->nodes[node].mesh_line
                               : reader->nodes[node].switch_line;

    if (other != 0) {
        return FAIL(reader, "node %u has %s since line %u: links in pairs or a "
                            "switch, not both",
                    node, is_switch ? "links" : "a switch", other);
    }
    if (reader->gpu_line == 0) {
        reader->gpu_line = reader->line->number;
        reader->link_lines = calloc((size_t)reader->num_ranks * MAX_MESH,
                                    sizeof(*reader->link_lines));
    }
    return (reader->link_lines != NULL) ? 0 : -ENOMEM;
}

static int set_link(reader_t *reader, unsigned from, unsigned to,
                    double capacity)
{
    unsigned node = reader->ranks[from].node;
    int ret = begin_gpu(reader, node, 0);

    if (ret == 0) {
        ret = told(reader, mrail_plan_topo_set_link(reader->topo, from, to,
                                                    capacity));
    }
    if (ret == 0) {
        claim(reader, link_line(reader, from, to));
        reader->nodes[node].mesh_line = reader->line->number;
    }
    return ret;
}

static int mesh_node(reader_t *reader, unsigned node, double capacity)
{
    unsigned count = reader->nodes[node].num_ranks;
    int ret = 0;

    if (count > MAX_MESH) {
        return FAIL(reader, "node %u has %u ranks: at most %u have links in "
                            "pairs", node, count, MAX_MESH);
    }
    for (unsigned i = 0; i < count * count && ret == 0; ++i) {
        unsigned from = reader->nodes[node].members[i / count];
        unsigned to = reader->nodes[node].members[i % count];

        ret = (from != to) ? set_link(reader, from, to, capacity) : 0;
    }
    return ret;
}

static int read_mesh(reader_t *reader)
{
    char *const *words = reader->line->words;
    unsigned most = 0;
    plan_list_t nodes;
    double capacity;
    int ret = 0;

    if (node_list(reader, words[1], &nodes) != 0 ||
        read_capacity(reader, words[2], NULL, &capacity) != 0) {
        return -EINVAL;
    }
    FOR_EACH(&nodes, n) {
        most = MRAIL_MAX(most, reader->nodes[n].num_ranks);
        ret = (ret == 0) ? mesh_node(reader, n, capacity) : ret;
    }
    return (ret == 0 && most < 2)
               ? FAIL(reader, "no node of '%.40s' has two ranks: 'ranks' goes "
                              "first", words[1])
               : ret;
}

/* What a pair of different ranks needs to have a link. */
static int check_pair(reader_t *reader, unsigned from, unsigned to, int none)
{
    unsigned node = reader->ranks[from].node;

    if (node != reader->ranks[to].node) {
        return FAIL(reader, "ranks %u and %u are of nodes %u and %u: links are "
                            "within a node", from, to, node,
                    reader->ranks[to].node);
    }
    if (reader->ranks[from].index >= MAX_MESH ||
        reader->ranks[to].index >= MAX_MESH) {
        return FAIL(reader, "ranks %u and %u: only the first %u ranks of a "
                            "node have links", from, to, MAX_MESH);
    }
    if (none && (reader->link_lines == NULL ||
                 *link_line(reader, from, to) == 0)) {
        return FAIL(reader, "there is no link from rank %u to rank %u that "
                            "could be taken away", from, to);
    }
    return 0;
}

/* '*' and lists may hold the rank itself; a line of nothing else is wrong. */
static int read_link(reader_t *reader)
{
    char *const *words = reader->line->words;
    plan_list_t from, to;
    unsigned pairs = 0;
    double capacity;
    int ret = 0;

    if (reader->num_ranks == 0) {
        return FAIL(reader, "there are no ranks yet: 'ranks' goes first");
    }
    if (plan_words_list(reader->line, words[1], "rank", reader->num_ranks,
                        &from) != 0 ||
        plan_words_list(reader->line, words[2], "rank", reader->num_ranks,
                        &to) != 0 ||
        read_capacity(reader, words[3], "none", &capacity) != 0) {
        return -EINVAL;
    }
    FOR_EACH(&from, a) {
        FOR_EACH(&to, b) {
            if (ret == 0 && a != b) {
                ret = check_pair(reader, a, b, capacity == 0);
                ret = (ret == 0) ? set_link(reader, a, b, capacity) : ret;
                ++pairs;
            }
        }
    }
    return (pairs == 0) ? FAIL(reader, "a rank has no link to itself") : ret;
}

static int read_switch(reader_t *reader)
{
    char *const *words = reader->line->words;
    plan_list_t nodes;
    double up, down;
    unsigned count = 0;
    int ret = 0;

    if (node_list(reader, words[1], &nodes) != 0 ||
        read_capacities(reader, words + 2, NULL, &up, &down) != 0) {
        return -EINVAL;
    }
    for (unsigned rank = 0; rank < reader->num_ranks && ret == 0; ++rank) {
        unsigned node = reader->ranks[rank].node;

        if (!plan_list_has(&nodes, node)) {
            continue;
        }
        ret = begin_gpu(reader, node, 1);
        if (ret == 0) {
            ret = told(reader, mrail_plan_topo_set_switch(reader->topo, rank,
                                                          up, down));
        }
        if (ret == 0 && reader->ranks[rank].index == 0) {
            claim(reader, &reader->nodes[node].switch_line);
        }
        ++count;
    }
    return (ret == 0 && count == 0)
               ? FAIL(reader, "no node of '%.40s' has a rank: 'ranks' goes "
                              "first", words[1])
               : ret;
}

/* ---- Words that stand alone ---- */

static int read_flag(reader_t *reader, unsigned *line_p)
{
    if (*line_p != 0) {
        return FAIL(reader, "'%s' was said in line %u: it goes once",
                    reader->line->words[0], *line_p);
    }
    *line_p = reader->line->number;
    return 0;
}

static int read_loop(reader_t *reader)
{
    mrail_plan_topo_set_loop(reader->topo, 1);
    return read_flag(reader, &reader->loop_line);
}

static int read_cross(reader_t *reader)
{
    mrail_plan_topo_set_cross(reader->topo, 1);
    return read_flag(reader, &reader->cross_line);
}

/* ---- Lines ---- */

static const struct {
    const char *name, *syntax; /* what follows the name */
    unsigned min_words, max_words;
    int (*read)(reader_t *reader);
} verbs[] = {
    {"nodes", " N", 1, 1, read_nodes},
    {"rails", " N", 1, 1, read_rails},
    {"rail", " NODES RAILS OUT [IN]", 3, 4, read_rail},
    {"ranks", " NODES COUNT bound|free|RAILS", 3, 3, read_ranks},
    {"mesh", " NODES CAPACITY", 2, 2, read_mesh},
    {"link", " RANKS RANKS CAPACITY|none", 3, 3, read_link},
    {"switch", " NODES UP [DOWN]", 2, 3, read_switch},
    {"pod", " NODES POD", 2, 2, read_pod},
    {"uplink", " PODS RAILS UP [DOWN]", 3, 4, read_uplink},
    {"loop", "", 0, 0, read_loop},
    {"cross", "", 0, 0, read_cross},
};

/* Behind the last line. */
static int check_end(reader_t *reader)
{
    if (reader->topo == NULL) {
        return FAIL(reader, "the text ends without a line '%s N'",
                    (reader->num_nodes == 0) ? "nodes" : "rails");
    }
    return (reader->num_ranks == 0)
               ? FAIL(reader, "the text ends without a line 'ranks NODES COUNT "
                              "bound|free|RAILS': nobody could send")
               : 0;
}

static int unknown(reader_t *reader)
{
    char known[160] = "";
    size_t used = 0;

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(verbs); ++i) {
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
                                 (i > 0) ? ", " : "", verbs[i].name);
    }
    return FAIL(reader, "'%.40s' begins no line: %s", reader->line->words[0],
                known);
}

/* The number and order of words; which verb it is. */
static int find_verb(reader_t *reader, unsigned *verb_p)
{
    const plan_line_t *line = reader->line;
    unsigned v = 0;

    while (strcmp(verbs[v].name, line->words[0]) != 0) {
        if (++v == MRAIL_ARRAY_SIZE(verbs)) {
            return unknown(reader);
        }
    }
    if (line->num - 1 < verbs[v].min_words ||
        line->num - 1 > verbs[v].max_words) {
        return FAIL(reader, "too %s words: %s%s",
                    (line->num - 1 < verbs[v].min_words) ? "few" : "many",
                    verbs[v].name, verbs[v].syntax);
    }
    if (v > 1 && reader->topo == NULL) {
        return FAIL(reader, "'nodes N' and 'rails N' go before '%s'",
                    verbs[v].name);
    }
    *verb_p = v;
    return 0;
}

static int read_line(plan_line_t *line, void *arg)
{
    reader_t *reader = arg;
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
        return FAIL(reader, "this leaves nothing of line %u: one of the two is "
                            "too much", reader->lost);
    }
    return ret;
}

static void reader_cleanup(reader_t *reader)
{
    if (reader->topo != NULL) {
        mrail_plan_topo_destroy(reader->topo);
    }
    free(reader->nodes);
    free(reader->ranks);
    free(reader->rail_lines);
    free(reader->uplink_lines);
    free(reader->link_lines);
    free(reader->left);
}

int plan_text_topo(const char *name, const char *text, size_t length,
                   mrail_plan_topo_t **topo_p, char *why, size_t size)
{
    reader_t reader = {.topo = NULL};
    size_t lines = 2;
    int ret = -ENOMEM;

    /* A longer text is refused before a line counts. */
    for (size_t i = 0; i < MRAIL_MIN(length, PLAN_TEXT_MAX_BYTES); ++i) {
        lines += (text[i] == '\n');
    }
    reader.left = calloc(lines, sizeof(*reader.left));
    if (reader.left == NULL) {
        snprintf(why, size, "%.*s:1: out of memory", PLAN_NAME_MAX, name);
        return ret;
    }
    ret = plan_words_each(name, text, length, PLAN_TEXT_MAX_BYTES, read_line,
                          &reader, why, size);
    if (ret == 0) {
        *topo_p = reader.topo;
        reader.topo = NULL;
    }
    reader_cleanup(&reader);
    return ret;
}
