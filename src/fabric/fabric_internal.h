/* Declares a fabric that is being parsed: growing arrays, and the steps that
 * complete it. */
#ifndef MRAIL_FABRIC_FABRIC_INTERNAL_H
#define MRAIL_FABRIC_FABRIC_INTERNAL_H

#include "base/text.h"
#include "fabric/fabric.h"

typedef struct fabric_builder {
    mrail_text_line_t *line;
    mrail_fabric_node_t *nodes;
    mrail_fabric_link_t *links;
    unsigned *node_lines; /* line on which each node is declared */
    unsigned *link_lines; /* line on which each link is declared */
    uint32_t num_nodes, num_links, nodes_allocated, links_allocated;
    mrail_fabric_t *fabric; /* complete after all text has been read */
} fabric_builder_t;

/* Writes a message about line `number`. Returns -EINVAL. */
#define FABRIC_FAIL(_builder, _number, ...)                                    \
    ((_builder)->line->number = (_number),                                     \
     mrail_text_fail((_builder)->line, __VA_ARGS__))

/* Builds the adjacency lists, assigns addresses to NICs without one, and checks
 * that the network is complete. Returns 0, -ENOMEM, or -EINVAL with a
 * message. */
int fabric_finish(fabric_builder_t *builder);

#endif
