/*
 * The state of a topology while its text is read: shared by plan_text.c and
 * plan_text_gpu.c.
 */
#ifndef MRAIL_TOOLS_PLAN_READER_H
#define MRAIL_TOOLS_PLAN_READER_H

#include "orchestrator/plan.h"
#include "base/text.h"

/* Line numbers are 0 until a line has set the value. */
typedef struct plan_reader_node {
    unsigned group, group_line;
    unsigned pairwise_line, switch_line; /* pairwise: or link */
    unsigned num_ranks;
    unsigned members[MRAIL_PLAN_MAX_PAIRWISE]; /* its first ranks */
} plan_reader_node_t;

typedef struct plan_reader_rank {
    unsigned node, index; /* index: within its node */
} plan_reader_rank_t;

/* The text read so far. Arrays are allocated when their sizes are known. */
typedef struct plan_reader {
    mrail_plan_topo_t *topo; /* once nodes and rails are known */
    mrail_text_line_t *line; /* being read */
    unsigned num_nodes, num_rails, num_ranks;
    unsigned nodes_line, rails_line, hairpin_line, cross_rail_line;
    unsigned gpu_line;    /* of the first pairwise, link or switch */
    unsigned uplink_line; /* of the first one */
    plan_reader_node_t *nodes;
    plan_reader_rank_t *ranks; /* MRAIL_PLAN_MAX_RANKS */
    unsigned *rail_lines;      /* by node and rail */
    unsigned *uplink_lines;    /* by group and rail */
    unsigned *link_lines;      /* by sender and the receiver's index */
    unsigned *left;            /* by line: number of values that the line still
                                * determines */
    unsigned lost; /* a line of which the present line has overridden
                    * everything */
} plan_reader_t;

#define PLAN_FAIL(_reader, ...) mrail_text_fail((_reader)->line, __VA_ARGS__)

/* Turns a result of the planner, which has no sentences, into one. */
int plan_reader_result(plan_reader_t *reader, int ret);

/* The present line now determines one more value, and line *owner_p one
 * less. */
void plan_reader_claim(plan_reader_t *reader, unsigned *owner_p);

int plan_reader_nodes(plan_reader_t *reader, const char *word,
                      mrail_text_list_t *nodes);

/* Reads one capacity for both directions, or two: words[0] and words[1]. */
int plan_reader_capacities(plan_reader_t *reader, char *const *words,
                           const char *none, double *out_p, double *in_p);

/* Lines of GPU links; -EINVAL with a sentence, or -ENOMEM. */
int plan_reader_pairwise(plan_reader_t *reader);
int plan_reader_link(plan_reader_t *reader);
int plan_reader_switch(plan_reader_t *reader);

#endif
