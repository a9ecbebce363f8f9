/*
 * The state of the topology reader, which the files topo_text*.c share.
 */
#ifndef MRAIL_TOPOLOGY_TOPO_READER_H
#define MRAIL_TOPOLOGY_TOPO_READER_H

#include "orchestrator/plan.h"
#include "base/text.h"

/* Each field *_line is the number of the line that set the value, or 0 if none
 * did. */
typedef struct mrail_topo_reader_node {
    unsigned group, group_line;
    unsigned pairwise_line, switch_line; /* pairwise_line: also set by link */
    unsigned num_ranks;
    unsigned members[MRAIL_PLAN_MAX_PAIRWISE]; /* the first ranks of the node */
} mrail_topo_reader_node_t;

typedef struct mrail_topo_reader_rank {
    unsigned node, index; /* index: among the ranks of its node */
    unsigned line;        /* last line that set the rank's rails */
} mrail_topo_reader_rank_t;

/* State of the reader. Arrays are allocated once their sizes are known. */
typedef struct mrail_topo_reader {
    /* NULL until the numbers of nodes and rails are known */
    mrail_plan_topo_t *topo;
    mrail_text_line_t *line; /* the line being read */
    unsigned num_nodes, num_rails, num_ranks;
    unsigned nodes_line, rails_line, hairpin_line, cross_rail_line;
    /* number of the first pairwise, link or switch line; 0 if none */
    unsigned gpu_line;
    unsigned uplink_line; /* number of the first uplink line; 0 if none */
    /* the first line that lists uplinks one by one (0 if none), and their
     * number */
    unsigned spread_line, num_uplinks;
    unsigned reach_line; /* number of the first reach line; 0 if none */
    mrail_topo_reader_node_t *nodes;
    mrail_topo_reader_rank_t *ranks; /* MRAIL_PLAN_MAX_RANKS */
    unsigned *rail_lines;            /* indexed by node and rail */
    unsigned *uplink_lines;          /* indexed by group and rail */
    unsigned *reach_lines;           /* indexed by rank and rail */
    unsigned *link_lines; /* indexed by sender and the receiver's index */
    /* by line: the number of its values that no later line has overridden */
    unsigned *left;
    /* a line whose values have all been overridden by the current line; 0 if
     * none */
    unsigned lost;
} mrail_topo_reader_t;

#define MRAIL_TOPO_FAIL(_reader, ...)                                          \
    mrail_text_fail((_reader)->line, __VA_ARGS__)

/* Writes a message for an error of the planner, which returns only an error
 * code. */
int mrail_topo_reader_result(mrail_topo_reader_t *reader, int ret);

/* Records that the current line overrides a value that line *owner_p has set.
 */
void mrail_topo_reader_claim(mrail_topo_reader_t *reader, unsigned *owner_p);

int mrail_topo_reader_nodes(mrail_topo_reader_t *reader, const char *word,
                            mrail_text_list_t *nodes);
int mrail_topo_reader_rails(mrail_topo_reader_t *reader, const char *word,
                            mrail_text_list_t *rails);

/* Returns the element for a rail of a node, leaf group or rank. */
unsigned *mrail_topo_reader_by_rail(const mrail_topo_reader_t *reader,
                                    unsigned *lines, unsigned owner,
                                    unsigned rail);

/* Reads words[0], the capacity of both directions, or words[0] and words[1],
 * one for each direction. */
int mrail_topo_reader_capacities(mrail_topo_reader_t *reader,
                                 char *const *words, const char *none,
                                 double *out_p, double *in_p);

/* Handlers for lines about ranks and GPU links. They return 0, -EINVAL with a
 * message, or -ENOMEM. */
int mrail_topo_reader_ranks(mrail_topo_reader_t *reader);
int mrail_topo_reader_reach(mrail_topo_reader_t *reader);
int mrail_topo_reader_pairwise(mrail_topo_reader_t *reader);
int mrail_topo_reader_link(mrail_topo_reader_t *reader);
int mrail_topo_reader_switch(mrail_topo_reader_t *reader);

/* Checks that each rank without a rail has a possible relay. Only `reach` lines
 * can remove a rank's rails. */
int mrail_topo_reader_check_reach(mrail_topo_reader_t *reader);

#endif
