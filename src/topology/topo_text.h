/*
 * Parses topologies in the text format of mrail-topology(5), which `mrail plan`
 * and coll/mrail read.
 *
 * A topology consists of the following lines. If two lines set the same value,
 * the later one wins. A line that overrides an earlier one completely is an
 * error.
 *
 *     nodes N                        must be the first two lines
 *     rails N                        rails of each node
 *     rail NODES RAILS OUT [IN]      capacities, or dead (the default)
 *     ranks NODES COUNT HOW          ranks, numbered from 0 in this order,
 *                                    node by node. HOW: single-rail (the i-th
 *                                    rank of a node uses rail i mod rails),
 *                                    multi-rail (reaches all rails), or a list
 *                                    such as 0,0,1: the rails of the ranks that
 *                                    the line adds to a node
 *     pairwise NODES CAPACITY        GPU links between all ranks of a node
 *     link RANKS RANKS CAPACITY      sender, receiver; capacity, or none
 *     switch NODES UP [DOWN]         each rank's links to its node's switch
 *     leaf_group NODES GROUP         group 0 by default
 *     uplink GROUPS RAILS UP [DOWN]  total of a leaf switch's uplinks, or dead;
 *                                    or its uplinks one by one, as 50GB,25GB
 *     hairpin                        mrail_plan_topo_set_hairpin()
 *     cross_rail                     mrail_plan_topo_set_cross_rail()
 *
 * NODES, RAILS, RANKS and GROUPS are lists: *, 3, 0-3 or 0,2. Capacities are
 * given as 50GB (bytes per second) or 400Gb (bits per second), with k, M, G or
 * T as powers of 1000, from 1kB to 1000TB.
 *
 * The functions access no file and no clock. A text with an error has no
 * result.
 */
#ifndef MRAIL_TOPOLOGY_TOPO_TEXT_H
#define MRAIL_TOPOLOGY_TOPO_TEXT_H

#include "orchestrator/plan.h"

#include <stddef.h>

#define MRAIL_TOPO_TEXT_MAX_BYTES ((size_t)1 << 26)

/* A topology, and the numbers of the lines that describe it; 0 if there is
 * none. */
typedef struct mrail_topo_text {
    mrail_plan_topo_t *topo;
    unsigned *rank_lines;   /* by rank: the last line that set its rails */
    unsigned *group_lines;  /* by node */
    unsigned *port_lines;   /* by node and rail */
    unsigned *uplink_lines; /* by leaf group and rail; NULL if there are no
                             * uplinks */
} mrail_topo_text_t;

/* Reads a topology. Messages start with `name`. On success, returns 0, and the
 * caller must clean up the result. On failure, returns -EINVAL or -ENOMEM with
 * a message in `reason`: "NAME:LINE: ", the error and the correct form. */
int mrail_topo_text_read(const char *name, const char *text, size_t length,
                         mrail_topo_text_t *text_p, char *reason, size_t size);
void mrail_topo_text_cleanup(mrail_topo_text_t *text);

#endif
