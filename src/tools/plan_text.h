/*
 * Topologies and demands of `mrail plan` as text.
 *
 * A topology consists of the following lines. If two lines set the same value,
 * the later one applies. A line that overrides an earlier one completely is
 * refused.
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
 *     pairwise NODES CAPACITY        GPU links of all pairs of a node's ranks
 *     link RANKS RANKS CAPACITY      sender, receiver; capacity, or none
 *     switch NODES UP [DOWN]         each rank's links to its node's switch
 *     leaf_group NODES GROUP         group 0 by default
 *     uplink GROUPS RAILS UP [DOWN]  total of a leaf switch's uplinks, or dead
 *     hairpin                        mrail_plan_topo_set_hairpin()
 *     cross_rail                     mrail_plan_topo_set_cross_rail()
 *
 * NODES, RAILS, RANKS and GROUPS are lists: *, 3, 0-3 or 0,2. Capacities are
 * given as 50GB (bytes per second) or 400Gb (bits per second), with k, M, G or
 * T as powers of 1000, from 1kB to 1000TB.
 *
 * Demands are lines "FROM TO BYTES": lists of ranks as above, and bytes with k,
 * m or g as powers of 1024. If several lines name the same pair of ranks, their
 * bytes add up.
 *
 * Pure: accesses no file or clock. A text with an error gives no result.
 */
#ifndef MRAIL_TOOLS_PLAN_TEXT_H
#define MRAIL_TOOLS_PLAN_TEXT_H

#include "orchestrator/plan.h"

#include <stddef.h>
#include <stdint.h>

#define PLAN_TEXT_MAX_BYTES ((size_t)1 << 26)
#define PLAN_TEXT_MAX_DEMANDS ((size_t)1 << 24)
/* maximum bytes of all demands */
#define PLAN_TEXT_MAX_TOTAL ((uint64_t)1 << 62)
#define PLAN_TEXT_WHY_MAX 384

/* Reads a topology. `name` is used in messages. Returns 0, and the caller
 * destroys the topology; -EINVAL, with "NAME:LINE: " followed by the error and
 * the correct form in `why`; or -ENOMEM, with a message. */
int plan_text_topo(const char *name, const char *text, size_t length,
                   mrail_plan_topo_t **topo_p, char *why, size_t size);

/* Reads demands among `num_ranks` > 0 ranks. The result is sorted by sender and
 * receiver, and has each pair once. Demands of 0 bytes and demands of a rank to
 * itself are omitted. Returns 0, and the caller frees the demands (NULL if
 * there are none); or an error as for plan_text_topo(). */
int plan_text_demands(const char *name, const char *text, size_t length,
                      unsigned num_ranks, mrail_plan_demand_t **demands_p,
                      size_t *num_p, char *why, size_t size);

/* Returns the first line of a valid text that has bytes for this pair of ranks,
 * or 0 if there is none. */
unsigned plan_text_demand_line(const char *text, size_t length,
                               unsigned num_ranks, unsigned from, unsigned to);

#endif
