/* Prints forecasts, which show users why a call was planned or not. */
#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "orchestrator/link_name.h"

#include <math.h>
#include <stdio.h>

static void print_links(const mca_coll_mrail_module_t *module)
{
    const mca_coll_mrail_schedule_t *schedule = module->schedule;
    mrail_plan_link_t link;
    char name[MRAIL_LINK_NAME];

    for (unsigned i = 0; i < mrail_plan_num_links(schedule->plan); ++i) {
        double before = mca_coll_mrail_unplanned_bytes(schedule->unplanned, i);

        mrail_plan_link(schedule->plan, i, &link);
        link.bytes = schedule->forecast.is_planned ? link.bytes : 0;
        if (link.bytes > 0 || before > 0) {
            fprintf(stderr,
                    "mrail: coll: %s: %s: %.3f MB with the plan, %.3f MB "
                    "without, capacity %.1f MB/s\n",
                    module->comm->c_name,
                    mrail_link_name(link.kind, link.a, link.b, name),
                    link.bytes / 1e6, before / 1e6, link.capacity / 1e6);
        }
    }
}

/* Writes a time. An infinite time means that a demand has no path. */
static const char *time_text(double seconds, char text[32])
{
    if (isinf(seconds)) {
        return "no path";
    }
    snprintf(text, 32, "%.3f ms", seconds * 1e3);
    return text;
}

static const uct_mrail_direct_lanes_t *lanes_of(void *arg, uint32_t rank)
{
    const mca_coll_mrail_rank_entry_t *entry =
        mca_coll_mrail_modex_entry(arg, (int)rank);

    return (entry != NULL) ? &entry->lanes : NULL;
}

/* Counts the uplinks of this process's rails. Every process counts its own. */
static void count_uplinks(const mca_coll_mrail_module_t *module)
{
    const mca_coll_mrail_forecast_t *forecast = &module->schedule->forecast;

    if (forecast->is_planned && forecast->is_gain) {
        mca_coll_mrail_uplinks_add(&mca_coll_mrail_counters.uplinks,
                                   module->schedule, lanes_of, module->comm);
    }
}

void mca_coll_mrail_explain(const mca_coll_mrail_module_t *module)
{
    const mca_coll_mrail_forecast_t *forecast = &module->schedule->forecast;
    char planned[32], unplanned[32], reason[128];

    if (mca_coll_mrail_settings.verbose > 2) {
        count_uplinks(module);
    }
    if (mca_coll_mrail_settings.verbose < 2 ||
        ompi_comm_rank(module->comm) != 0) {
        return;
    }
    snprintf(reason, sizeof(reason), "%s%s, without a plan %s",
             forecast->is_planned ? "" : "at least ",
             time_text(forecast->planned, planned),
             time_text(forecast->unplanned, unplanned));
    mca_coll_mrail_log(module,
                       forecast->is_gain     ? "planned"
                       : forecast->refusal   ? forecast->refusal
                       : forecast->is_device ? "device memory without a plan"
                       : forecast->is_deferred
                           ? "plans have not yet repaid the time to make one"
                           : "a plan would save less than it costs",
                       reason);
    if (mca_coll_mrail_settings.verbose > 2) {
        print_links(module);
    }
}
