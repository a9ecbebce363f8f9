/* Shared by the outputs of mrail plan. */
#ifndef MRAIL_TOOLS_PLAN_COMMAND_H
#define MRAIL_TOOLS_PLAN_COMMAND_H

#include "base/json.h"
#include "orchestrator/plan.h"
#include "tools/plan_arms.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PLAN_COMMAND "plan"
#define PLAN_NAME_TEXT 64 /* buffer size for the name of a link */
#define PLAN_SHORT_TEXT 32

/* A computed plan and its inputs. */
typedef struct plan_run {
    const char *topo_name, *demand_name; /* names given on the command line */
    uint64_t seed;
    char *topo_text, *demand_text; /* demand_text is NULL for a pattern */
    size_t demand_length;
    mrail_plan_topo_t *topo;
    mrail_plan_t *plan;
    mrail_plan_demand_t *demands;
    size_t num_demands;
    mrail_plan_summary_t summary;
    double wanted_gap;
    /* bytes of all demands, including those that are not planned */
    double bytes;
    double plan_s; /* median planning time */
    unsigned repeat;
    int with_pieces, with_links, with_arms;
    plan_arm_t arms[PLAN_NUM_ARMS]; /* valid if with_arms is 1 */
} plan_run_t;

/* Print to stdout. */
void plan_show(const plan_run_t *run);
void plan_show_json(const plan_run_t *run);

/* Print the comparison methods: as a table, and as a member of the JSON
 * object. */
void plan_arms_show(const plan_run_t *run);
void plan_arms_show_json(mrail_json_t *json, const plan_run_t *run);

/* Draws the loads of the links before and after planning. */
void plan_show_svg(const plan_run_t *run, FILE *stream);

/* ---- Shared functions ---- */

/* Writes a name such as "rail 1 of node 0, out". */
void plan_link_name(const mrail_plan_link_t *link, char *text, size_t size);

/* Return a link's load in seconds, with and without the plan. */
double plan_link_load(const mrail_plan_link_t *link);
double plan_link_load_before(const mrail_plan_link_t *link);

/* Write a value with its unit, such as "4.32 ms" or "256.0 MiB". */
void plan_time_text(double seconds, char *text, size_t size);
void plan_bytes_text(double bytes, char *text, size_t size);

/* Returns the relative excess of a value over a bound, or 0 if the bound is
 * 0. */
double plan_gap(double value, double bound);

/* ---- This machine ---- */

/* Describes this node as a topology text, which the caller frees. The rails are
 * the RDMA devices that hwloc reports. There is one rank per GPU, bound to the
 * nearest rail, or one rank per rail if there are no GPUs. Returns 0; or
 * -ENOTSUP (built without hwloc), -ENODEV (no RDMA device), -ENOMEM or another
 * -errno, with a message. */
int plan_this_node(char **text_p, char *reason, size_t size);

#endif
