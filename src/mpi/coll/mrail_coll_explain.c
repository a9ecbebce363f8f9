/* Prints forecasts, from which users learn why a call was planned or not. */
#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include <math.h>
#include <stdio.h>

/* Writes the name of a link, which a user can compare with counters. Copies go
 * through shared memory or over the switch of the GPUs. */
static const char *link_name(const mrail_plan_link_t *link, char name[64])
{
    static const char *const formats[] = {
        [MRAIL_PLAN_RAIL_OUT] = "node %u, rail %u, out",
        [MRAIL_PLAN_RAIL_IN] = "node %u, rail %u, in",
        [MRAIL_PLAN_UPLINK_UP] = "leaf group %u, rail %u, up",
        [MRAIL_PLAN_UPLINK_DOWN] = "leaf group %u, rail %u, down",
        [MRAIL_PLAN_GPU_LINK] = "GPU of rank %u to GPU of rank %u",
        [MRAIL_PLAN_SWITCH_UP] = "rank %u, copies out",
        [MRAIL_PLAN_SWITCH_DOWN] = "rank %u, copies in",
        [MRAIL_PLAN_REACH_OUT] = "rank %u, rail %u, out",
        [MRAIL_PLAN_REACH_IN] = "rank %u, rail %u, in",
    };

    snprintf(name, 64, formats[link->kind], link->a, link->b);
    return name;
}

static void print_links(const mca_coll_mrail_module_t *module)
{
    const mca_coll_mrail_schedule_t *schedule = module->schedule;
    mrail_plan_link_t link;
    char name[64];

    for (unsigned i = 0; i < mrail_plan_num_links(schedule->plan); ++i) {
        double before = mca_coll_mrail_unplanned_bytes(schedule->unplanned, i);

        mrail_plan_link(schedule->plan, i, &link);
        link.bytes = schedule->forecast.is_planned ? link.bytes : 0;
        if (link.bytes > 0 || before > 0) {
            fprintf(stderr,
                    "mrail: coll: %s: %s: %.3f MB by the plan, %.3f MB without "
                    "it, at %.1f MB/s\n",
                    module->comm->c_name, link_name(&link, name),
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

/* Counts the uplinks of this process's rails. Every process does so. */
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
    char planned[32], unplanned[32], why[128];

    if (mca_coll_mrail_settings.verbose > 2) {
        count_uplinks(module);
    }
    if (mca_coll_mrail_settings.verbose < 2 ||
        ompi_comm_rank(module->comm) != 0) {
        return;
    }
    snprintf(why, sizeof(why), "%s%s, without a plan %s",
             forecast->is_planned ? "" : "at least ",
             time_text(forecast->planned, planned),
             time_text(forecast->unplanned, unplanned));
    mca_coll_mrail_log(module,
                       forecast->is_gain     ? "planned"
                       : forecast->is_device ? "device memory without a plan"
                       : forecast->is_deferred
                           ? "a plan does not pay for the time to make it yet"
                           : "a plan gains less than it costs",
                       why);
    if (mca_coll_mrail_settings.verbose > 2) {
        print_links(module);
    }
}
