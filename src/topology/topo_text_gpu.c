/* Parses the lines about GPU links: pairwise, link and switch. */
#include "config.h"
#include "topology/topo_reader.h"

#include <errno.h>
#include <stdlib.h>

static unsigned *link_line(const mrail_topo_reader_t *reader, unsigned from,
                           unsigned to)
{
    return &reader->link_lines[from * MRAIL_PLAN_MAX_PAIRWISE +
                               reader->ranks[to].index];
}

/* Prepares a node for GPU links. A node has either pairwise links or a switch.
 * After the first line about GPU links, ranks can no longer be added. */
static int begin_gpu(mrail_topo_reader_t *reader, unsigned node, int is_switch)
{
    unsigned other = is_switch ? reader->nodes[node].pairwise_line
                               : reader->nodes[node].switch_line;

    if (other != 0) {
        return MRAIL_TOPO_FAIL(
            reader,
            "node %u has %s since line %u; a node can have pairwise links or a "
            "switch, but not both",
            node, is_switch ? "links" : "a switch", other);
    }
    if (reader->gpu_line == 0) {
        reader->gpu_line = reader->line->number;
        reader->link_lines =
            calloc((size_t)reader->num_ranks * MRAIL_PLAN_MAX_PAIRWISE,
                   sizeof(*reader->link_lines));
    }
    return (reader->link_lines != NULL) ? 0 : -ENOMEM;
}

static int set_link(mrail_topo_reader_t *reader, unsigned from, unsigned to,
                    double capacity)
{
    unsigned node = reader->ranks[from].node;
    int ret = begin_gpu(reader, node, 0);

    if (ret == 0) {
        ret = mrail_topo_reader_result(
            reader, mrail_plan_topo_set_link(reader->topo, from, to, capacity));
    }
    if (ret == 0) {
        mrail_topo_reader_claim(reader, link_line(reader, from, to));
        reader->nodes[node].pairwise_line = reader->line->number;
    }
    return ret;
}

static int pairwise_node(mrail_topo_reader_t *reader, unsigned node,
                         double capacity)
{
    unsigned count = reader->nodes[node].num_ranks;
    int ret = 0;

    if (count > MRAIL_PLAN_MAX_PAIRWISE) {
        return MRAIL_TOPO_FAIL(
            reader,
            "node %u has %u ranks; at most %u ranks of a node can have "
            "pairwise links",
            node, count, MRAIL_PLAN_MAX_PAIRWISE);
    }
    for (unsigned i = 0; i < count * count && ret == 0; ++i) {
        unsigned from = reader->nodes[node].members[i / count];
        unsigned to = reader->nodes[node].members[i % count];

        ret = (from != to) ? set_link(reader, from, to, capacity) : 0;
    }
    return ret;
}

int mrail_topo_reader_pairwise(mrail_topo_reader_t *reader)
{
    char *const *words = reader->line->words;
    unsigned most = 0;
    mrail_text_list_t nodes;
    double capacity;
    int ret = 0;

    if (mrail_topo_reader_nodes(reader, words[1], &nodes) != 0 ||
        mrail_text_capacity(reader->line, words[2], NULL, &capacity) != 0) {
        return -EINVAL;
    }
    MRAIL_TEXT_LIST_EACH(&nodes, n)
    {
        most = MRAIL_MAX(most, reader->nodes[n].num_ranks);
        ret = (ret == 0) ? pairwise_node(reader, n, capacity) : ret;
    }
    return (ret == 0 && most < 2)
               ? MRAIL_TOPO_FAIL(
                     reader,
                     "no node in '%.40s' has two ranks; 'ranks' must come "
                     "first",
                     words[1])
               : ret;
}

/* Checks whether there may be a link between two ranks. */
static int check_pair(mrail_topo_reader_t *reader, unsigned from, unsigned to,
                      int none)
{
    unsigned node = reader->ranks[from].node;

    if (node != reader->ranks[to].node) {
        return MRAIL_TOPO_FAIL(
            reader,
            "ranks %u and %u are on nodes %u and %u; a GPU link must be within "
            "a node",
            from, to, node, reader->ranks[to].node);
    }
    if (reader->ranks[from].index >= MRAIL_PLAN_MAX_PAIRWISE ||
        reader->ranks[to].index >= MRAIL_PLAN_MAX_PAIRWISE) {
        return MRAIL_TOPO_FAIL(
            reader,
            "ranks %u and %u cannot have a link; only the first %u ranks of a "
            "node can",
            from, to, MRAIL_PLAN_MAX_PAIRWISE);
    }
    if (none &&
        (reader->link_lines == NULL || *link_line(reader, from, to) == 0)) {
        return MRAIL_TOPO_FAIL(
            reader, "there is no link from rank %u to rank %u to remove", from,
            to);
    }
    return 0;
}

/* '*' and lists may include pairs of a rank with itself, but a line must name
 * at least one other pair. */
int mrail_topo_reader_link(mrail_topo_reader_t *reader)
{
    char *const *words = reader->line->words;
    mrail_text_list_t from, to;
    unsigned pairs = 0;
    double capacity;
    int ret = 0;

    if (reader->num_ranks == 0) {
        return MRAIL_TOPO_FAIL(
            reader, "no ranks are defined yet; 'ranks' must come first");
    }
    if (mrail_text_list(reader->line, words[1], "rank", reader->num_ranks,
                        &from) != 0 ||
        mrail_text_list(reader->line, words[2], "rank", reader->num_ranks,
                        &to) != 0 ||
        mrail_text_capacity(reader->line, words[3], "none", &capacity) != 0) {
        return -EINVAL;
    }
    MRAIL_TEXT_LIST_EACH(&from, a)
    {
        MRAIL_TEXT_LIST_EACH(&to, b)
        {
            if (ret == 0 && a != b) {
                ret = check_pair(reader, a, b, capacity == 0);
                ret = (ret == 0) ? set_link(reader, a, b, capacity) : ret;
                ++pairs;
            }
        }
    }
    return (pairs == 0)
               ? MRAIL_TOPO_FAIL(reader, "a rank cannot have a link to itself")
               : ret;
}

int mrail_topo_reader_switch(mrail_topo_reader_t *reader)
{
    char *const *words = reader->line->words;
    mrail_text_list_t nodes;
    double up, down;
    unsigned count = 0;
    int ret = 0;

    if (mrail_topo_reader_nodes(reader, words[1], &nodes) != 0 ||
        mrail_topo_reader_capacities(reader, words + 2, NULL, &up, &down) !=
            0) {
        return -EINVAL;
    }
    for (unsigned rank = 0; rank < reader->num_ranks && ret == 0; ++rank) {
        unsigned node = reader->ranks[rank].node;

        if (!mrail_text_list_has(&nodes, node)) {
            continue;
        }
        ret = begin_gpu(reader, node, 1);
        if (ret == 0) {
            ret = mrail_topo_reader_result(
                reader,
                mrail_plan_topo_set_switch(reader->topo, rank, up, down));
        }
        if (ret == 0 && reader->ranks[rank].index == 0) {
            mrail_topo_reader_claim(reader, &reader->nodes[node].switch_line);
        }
        ++count;
    }
    return (ret == 0 && count == 0)
               ? MRAIL_TOPO_FAIL(
                     reader,
                     "no node in '%.40s' has a rank; 'ranks' must come first",
                     words[1])
               : ret;
}
