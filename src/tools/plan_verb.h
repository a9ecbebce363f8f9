/* mrail plan: what its outputs have in common. */
#ifndef MRAIL_TOOLS_PLAN_VERB_H
#define MRAIL_TOOLS_PLAN_VERB_H

#include "orchestrator/plan.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PLAN_VERB "plan"
#define PLAN_NAME_TEXT 64 /* room for the name of a link */
#define PLAN_SHORT_TEXT 32

/* A plan that has been made, and what was asked for. */
typedef struct plan_run {
    const char *topo_name, *demand_name; /* as they were typed */
    uint64_t seed;
    char *topo_text, *demand_text; /* NULL: made by a pattern */
    size_t demand_length;
    mrail_plan_topo_t *topo;
    mrail_plan_t *plan;
    mrail_plan_demand_t *demands;
    size_t num_demands;
    mrail_plan_summary_t summary;
    double wanted_gap;
    double bytes;  /* of all demands, also those that are not planned */
    double plan_s; /* median */
    unsigned repeat;
    int with_pieces, with_links;
} plan_run_t;

/* To stdout. */
void plan_show(const plan_run_t *run);
void plan_show_json(const plan_run_t *run);

/* A drawing of the links' loads before and after. */
void plan_show_svg(const plan_run_t *run, FILE *stream);

/* ---- shared ---- */

/* "rail 1 of node 0, out". */
void plan_link_name(const mrail_plan_link_t *link, char *text, size_t size);

/* Its load in seconds. */
double plan_link_load(const mrail_plan_link_t *link);
double plan_link_load_before(const mrail_plan_link_t *link);

/* "4.32 ms", "256.0 MiB". */
void plan_time_text(double seconds, char *text, size_t size);
void plan_bytes_text(double bytes, char *text, size_t size);

/* By how much a value is above a bound, 0 if the bound is 0. */
double plan_gap(double value, double bound);

/* ---- this machine ---- */

/* A topology of this node, as text that the caller frees. Its rails are the RDMA
 * devices that hwloc knows. It has a rank for each GPU (without GPUs for each
 * rail), bound to the nearest rail. 0; -ENOTSUP (built without hwloc), -ENODEV
 * (no RDMA device), -ENOMEM or another -errno, with a message. */
int plan_this_node(char **text_p, char *why, size_t size);

#endif
