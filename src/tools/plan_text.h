/*
 * Topologies and demands of `mrail plan` as text. topology/topo_text.h
 * describes the lines of a topology.
 *
 * A demand is a line "FROM TO BYTES", with lists of ranks as in a topology, and
 * bytes with k, m or g as powers of 1024. If several lines name the same pair
 * of ranks, their bytes are added.
 *
 * The functions access no file and no clock. If the text has an error, there is
 * no result.
 */
#ifndef MRAIL_TOOLS_PLAN_TEXT_H
#define MRAIL_TOOLS_PLAN_TEXT_H

#include "topology/topo_text.h"

#include <stddef.h>
#include <stdint.h>

#define PLAN_TEXT_MAX_BYTES MRAIL_TOPO_TEXT_MAX_BYTES
#define PLAN_TEXT_MAX_DEMANDS ((size_t)1 << 24)
/* maximum bytes of all demands */
#define PLAN_TEXT_MAX_TOTAL ((uint64_t)1 << 62)
#define PLAN_TEXT_REASON_MAX 384

/* Like mrail_topo_text_read(), without the line numbers. The caller destroys
 * the topology. */
static inline int plan_text_topo(const char *name, const char *text,
                                 size_t length, mrail_plan_topo_t **topo_p,
                                 char *reason, size_t size)
{
    mrail_topo_text_t result = {.topo = NULL};
    int ret = mrail_topo_text_read(name, text, length, &result, reason, size);

    *topo_p = (ret == 0) ? result.topo : *topo_p;
    result.topo = NULL;
    mrail_topo_text_cleanup(&result);
    return ret;
}

/* Reads demands among `num_ranks` > 0 ranks. The result is sorted by sender and
 * receiver, with at most one demand per pair. Demands of 0 bytes, and demands
 * of a rank to itself, are omitted. Returns 0, and the caller frees the demands
 * (NULL if there are none); or an error as for mrail_topo_text_read(). */
int plan_text_demands(const char *name, const char *text, size_t length,
                      unsigned num_ranks, mrail_plan_demand_t **demands_p,
                      size_t *num_p, char *reason, size_t size);

/* Returns the number of the first line of a valid text that has bytes for this
 * pair of ranks, or 0 if there is none. */
unsigned plan_text_demand_line(const char *text, size_t length,
                               unsigned num_ranks, unsigned from, unsigned to);

#endif
