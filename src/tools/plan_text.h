/*
 * Topologies and demands of `mrail plan` as text.
 *
 * A topology has these lines. Where two lines set the same value, the later one
 * holds; a line that overrides an earlier one completely is refused:
 *
 *     nodes N                        first these two
 *     rails N                        of each node
 *     rail NODES RAILS OUT [IN]      capacities, or dead (as without a line)
 *     ranks NODES COUNT HOW          ranks, numbered from 0 in this order,
 *                                    node by node: single-rail (the i-th of a
 *                                    node to rail i mod rails), multi-rail
 *                                    (reaches all rails), or a list as 0,0,1:
 *                                    the i-th of a node that the line adds to
 *                                    its i-th rail
 *     pairwise NODES CAPACITY        GPU links of all pairs of a node's ranks
 *     link RANKS RANKS CAPACITY      from, to; or none
 *     switch NODES UP [DOWN]         each rank's links to its node's switch
 *     leaf_group NODES GROUP         0 without a line
 *     uplink GROUPS RAILS UP [DOWN]  of a leaf switch, all together; or dead
 *     hairpin                        mrail_plan_topo_set_hairpin()
 *     cross_rail                     mrail_plan_topo_set_cross_rail()
 *
 * NODES, RAILS, RANKS, GROUPS: *, 3, 0-3 or 0,2. Capacities: 50GB (bytes per
 * second) or 400Gb (bits), k, M, G or T, powers of 1000, from 1kB to 1000TB.
 *
 * Demands: "FROM TO BYTES", ranks as above, bytes with k, m or g, powers of
 * 1024. The bytes of several lines for a pair of ranks add up.
 *
 * Pure: no file, no clock. A text with an error gives no result.
 */
#ifndef MRAIL_TOOLS_PLAN_TEXT_H
#define MRAIL_TOOLS_PLAN_TEXT_H

#include "orchestrator/plan.h"

#include <stddef.h>
#include <stdint.h>

#define PLAN_TEXT_MAX_BYTES ((size_t)1 << 26)
#define PLAN_TEXT_MAX_DEMANDS ((size_t)1 << 24)
#define PLAN_TEXT_MAX_TOTAL ((uint64_t)1 << 62) /* bytes of all demands */
#define PLAN_TEXT_WHY_MAX 384

/* Reads a topology; `name` is for messages. 0, and the caller destroys it;
 * -EINVAL, and "NAME:LINE: " with the error and the right form in `why`;
 * -ENOMEM with a sentence. */
int plan_text_topo(const char *name, const char *text, size_t length,
                   mrail_plan_topo_t **topo_p, char *why, size_t size);

/* Reads demands among `num_ranks` > 0 ranks, sorted by sender and receiver,
 * each pair once, without empty demands or demands of a rank to itself. 0, and
 * the caller frees them (NULL if there is none); or as above. */
int plan_text_demands(const char *name, const char *text, size_t length,
                      unsigned num_ranks, mrail_plan_demand_t **demands_p,
                      size_t *num_p, char *why, size_t size);

/* The first line of a valid text that has bytes from one rank to another one;
 * 0: there is none. */
unsigned plan_text_demand_line(const char *text, size_t length,
                               unsigned num_ranks, unsigned from, unsigned to);

#endif
