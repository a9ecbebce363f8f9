/* Parses the lines about ranks and the rails that they reach: ranks, reach. */
#include "config.h"
#include "topology/topo_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- Ranks ---- */

/* The rails to which a line binds its ranks. */
typedef struct binding {
    enum { SINGLE_RAIL, MULTI_RAIL, LISTED } how;
    mrail_text_list_t rails;
} binding_t;

static int read_binding(mrail_topo_reader_t *reader, const char *word,
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
        return MRAIL_TOPO_FAIL(
            reader, "'%.40s' is not single-rail, multi-rail or a list of rails",
            word);
    }
    binding->how = LISTED;
    return mrail_text_sequence(reader->line, word, "rail", reader->num_rails,
                               &binding->rails);
}

static int add_rank(mrail_topo_reader_t *reader, unsigned node, unsigned rail)
{
    unsigned rank = reader->num_ranks, index = reader->nodes[node].num_ranks;
    int ret;

    if (rank == MRAIL_PLAN_MAX_RANKS) {
        return MRAIL_TOPO_FAIL(reader, "a topology can have at most %u ranks",
                               MRAIL_PLAN_MAX_RANKS);
    }
    ret = mrail_plan_topo_add_rank(reader->topo, node);
    if (ret == 0) {
        ret = mrail_plan_topo_set_reach(reader->topo, rank, rail,
                                        MRAIL_PLAN_UNLIMITED,
                                        MRAIL_PLAN_UNLIMITED);
    }
    if (ret != 0) {
        return mrail_topo_reader_result(reader, ret);
    }
    reader->ranks[rank].node = node;
    reader->ranks[rank].index = index;
    reader->ranks[rank].line = reader->line->number;
    if (index < MRAIL_PLAN_MAX_PAIRWISE) {
        reader->nodes[node].members[index] = rank;
    }
    ++reader->nodes[node].num_ranks;
    ++reader->num_ranks;
    return 0;
}

int mrail_topo_reader_ranks(mrail_topo_reader_t *reader)
{
    char *const *words = reader->line->words;
    mrail_text_list_t nodes;
    binding_t binding;
    unsigned count;
    int ret = 0;

    if (reader->gpu_line != 0) {
        return MRAIL_TOPO_FAIL(
            reader,
            "'ranks' must precede the first 'pairwise', 'link' or 'switch' "
            "(line %u)",
            reader->gpu_line);
    }
    if (mrail_topo_reader_nodes(reader, words[1], &nodes) != 0 ||
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

/* Reads the limit of a rank on a rail: a capacity, "full" or "none". */
static int read_limit(mrail_topo_reader_t *reader, const char *word,
                      double *limit_p)
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

static int read_limits(mrail_topo_reader_t *reader, char *const *words,
                       double *out_p, double *in_p)
{
    int ret = read_limit(reader, words[0], out_p);

    *in_p = *out_p;
    if (ret == 0 && words[1] != NULL) {
        ret = read_limit(reader, words[1], in_p);
    }
    if (ret == 0 && (*out_p == 0) != (*in_p == 0)) {
        return MRAIL_TOPO_FAIL(
            reader,
            "a rank reaches a rail in both directions or in neither; write "
            "none once, for both directions");
    }
    return ret;
}

static int begin_reach(mrail_topo_reader_t *reader)
{
    if (reader->num_ranks == 0) {
        return MRAIL_TOPO_FAIL(
            reader, "no ranks are defined yet; 'ranks' must come first");
    }
    if (reader->reach_lines == NULL) {
        reader->reach_lines =
            calloc((size_t)MRAIL_PLAN_MAX_RANKS * reader->num_rails,
                   sizeof(*reader->reach_lines));
        reader->reach_line = reader->line->number;
    }
    return (reader->reach_lines != NULL) ? 0 : -ENOMEM;
}

int mrail_topo_reader_reach(mrail_topo_reader_t *reader)
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
        mrail_topo_reader_rails(reader, words[2], &rails) != 0 ||
        read_limits(reader, words + 3, &out, &in) != 0) {
        return -EINVAL;
    }
    MRAIL_TEXT_LIST_EACH(&ranks, rank)
    {
        reader->ranks[rank].line = reader->line->number;
        MRAIL_TEXT_LIST_EACH(&rails, r)
        {
            if (ret == 0) {
                ret = mrail_plan_topo_set_reach(reader->topo, rank, r, out, in);
                mrail_topo_reader_claim(
                    reader, mrail_topo_reader_by_rail(
                                reader, reader->reach_lines, rank, r));
            }
        }
    }
    return mrail_topo_reader_result(reader, ret);
}

/* Returns the rail that the last `reach` line removed from a rank. */
static unsigned last_reach(const mrail_topo_reader_t *reader, unsigned rank)
{
    unsigned last = 0;

    for (unsigned rail = 1; rail < reader->num_rails; ++rail) {
        if (*mrail_topo_reader_by_rail(reader, reader->reach_lines, rank,
                                       rail) >
            *mrail_topo_reader_by_rail(reader, reader->reach_lines, rank,
                                       last)) {
            last = rail;
        }
    }
    return last;
}

/* Returns 1 if the node has GPU links and a rank that reaches a rail. */
static int has_relay(const mrail_topo_reader_t *reader, unsigned node)
{
    const mrail_topo_reader_node_t *n = &reader->nodes[node];

    for (unsigned rank = 0; rank < reader->num_ranks; ++rank) {
        if (reader->ranks[rank].node == node &&
            mrail_plan_topo_rails_of(reader->topo, rank) != 0) {
            return n->pairwise_line != 0 || n->switch_line != 0;
        }
    }
    return 0;
}

int mrail_topo_reader_check_reach(mrail_topo_reader_t *reader)
{
    for (unsigned rank = 0; reader->reach_line != 0 && rank < reader->num_ranks;
         ++rank) {
        unsigned node = reader->ranks[rank].node;

        if (mrail_plan_topo_rails_of(reader->topo, rank) == 0 &&
            !has_relay(reader, node)) {
            return MRAIL_TOPO_FAIL(
                reader,
                "rank %u reaches no rail since line %u, and no "
                "rank of node %u can relay for it",
                rank,
                *mrail_topo_reader_by_rail(reader, reader->reach_lines, rank,
                                           last_reach(reader, rank)),
                node);
        }
    }
    return 0;
}
