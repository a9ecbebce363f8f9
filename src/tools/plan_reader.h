/*
 * The state of a topology while its text is being read. Shared by plan_text.c
 * and plan_text_gpu.c.
 */
#ifndef MRAIL_TOOLS_PLAN_READER_H
#define MRAIL_TOOLS_PLAN_READER_H

#include "orchestrator/plan.h"
#include "base/text.h"

/* Each _line field is the number of the line that set the value, or 0. */
typedef struct plan_reader_node {
    unsigned group, group_line;
    unsigned pairwise_line, switch_line; /* pairwise_line: also set by link */
    unsigned num_ranks;
    unsigned members[MRAIL_PLAN_MAX_PAIRWISE]; /* the first ranks of the node */
} plan_reader_node_t;

typedef struct plan_reader_rank {
    unsigned node, index; /* index: among the ranks of its node */
} plan_reader_rank_t;

/* The text read so far. Arrays are allocated once their sizes are known. */
typedef struct plan_reader {
    /* NULL until the numbers of nodes and rails are known */
    mrail_plan_topo_t *topo;
    mrail_text_line_t *line; /* the line being read */
    unsigned num_nodes, num_rails, num_ranks;
    unsigned nodes_line, rails_line, hairpin_line, cross_rail_line;
    /* line of the first pairwise, link or switch; 0: none */
    unsigned gpu_line;
    unsigned uplink_line; /* line of the first uplink; 0: none */
    unsigned reach_line;  /* line of the first reach; 0: none */
    plan_reader_node_t *nodes;
    plan_reader_rank_t *ranks; /* MRAIL_PLAN_MAX_RANKS */
    unsigned *rail_lines;      /* indexed by node and rail */
    unsigned *uplink_lines;    /* indexed by group and rail */
    unsigned *reach_lines;     /* indexed by rank and rail */
    unsigned *link_lines;      /* indexed by sender and the receiver's index */
    /* for each line, the number of values that it still determines */
    unsigned *left;
    /* a line all of whose values the current line has overridden; 0: none */
    unsigned lost;
} plan_reader_t;

#define PLAN_FAIL(_reader, ...) mrail_text_fail((_reader)->line, __VA_ARGS__)

/* Converts an error of the planner, which writes no messages, into a
 * message. */
int plan_reader_result(plan_reader_t *reader, int ret);

/* Records that the current line now determines one more value, and line
 * *owner_p one less. */
void plan_reader_claim(plan_reader_t *reader, unsigned *owner_p);

int plan_reader_nodes(plan_reader_t *reader, const char *word,
                      mrail_text_list_t *nodes);

/* Reads words[0], the capacity of both directions, or words[0] and words[1],
 * one for each direction. */
int plan_reader_capacities(plan_reader_t *reader, char *const *words,
                           const char *none, double *out_p, double *in_p);

/* Handlers for lines about GPU links. They return 0, -EINVAL with a message, or
 * -ENOMEM. */
int plan_reader_pairwise(plan_reader_t *reader);
int plan_reader_link(plan_reader_t *reader);
int plan_reader_switch(plan_reader_t *reader);

#endif
