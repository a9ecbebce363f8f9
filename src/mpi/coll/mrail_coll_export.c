/* Rank 0 of a communicator exports forecasts to a telemetry file, for reports
 * about the job. If the file cannot be created, the job continues without
 * it. */
#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "base/launch.h"
#include "mpi/telemetry_env.h"
#include "telemetry/plans.h"

#include <math.h>
#include <stdio.h>

/* Protects the file and its places. */
static pthread_mutex_t file_lock = PTHREAD_MUTEX_INITIALIZER;
static mrail_plans_file_t file;
static int has_tried;

static void open_file(void)
{
    mrail_launch_t launch = mrail_launch_read(getenv);
    const char *dir = mrail_telemetry_env_dir();

    has_tried = 1;
    if (dir != NULL) {
        (void)mrail_plans_create(&file, dir, mrail_clock_now(), launch.job,
                                 (int)launch.rank);
    }
}

/* Allocates a slot for the module's communicator, if one is free. Otherwise, a
 * later call may succeed, after another communicator has been freed. */
static void find_place(mca_coll_mrail_module_t *module)
{
    pthread_mutex_lock(&file_lock);
    if (!has_tried) {
        open_file();
    }
    module->plans = mrail_plans_comm_add(&file);
    if (file.plans != NULL) {
        int has_none = module->plans == NULL;

        file.plans->more_comms += (uint32_t)has_none;
        file.plans->more_comms -= (uint32_t)module->has_no_place;
        module->has_no_place = has_none;
    }
    pthread_mutex_unlock(&file_lock);
}

void mca_coll_mrail_export_free(const mca_coll_mrail_module_t *module)
{
    if (module->plans != NULL) {
        pthread_mutex_lock(&file_lock);
        mrail_plans_comm_remove(&file, module->plans);
        pthread_mutex_unlock(&file_lock);
    }
}

static void fill_links(const mca_coll_mrail_schedule_t *schedule,
                       mrail_plans_comm_t *place)
{
    mrail_plan_link_t link;

    place->num_links = place->more_links = 0;
    for (unsigned i = 0; i < mrail_plan_num_links(schedule->plan); ++i) {
        mrail_plans_link_t to = {.unplanned = mca_coll_mrail_unplanned_bytes(
                                     schedule->unplanned, i)};

        mrail_plan_link(schedule->plan, i, &link);
        to.planned = schedule->forecast.is_planned ? link.bytes : 0;
        if (to.planned > 0 || to.unplanned > 0) {
            to.kind = link.kind;
            to.a = link.a;
            to.b = link.b;
            to.capacity = link.capacity;
            mrail_plans_add(place, &to);
        }
    }
}

void mca_coll_mrail_export(mca_coll_mrail_module_t *module)
{
    const mca_coll_mrail_schedule_t *schedule = module->schedule;
    const mca_coll_mrail_forecast_t *forecast = &schedule->forecast;
    mrail_plans_comm_t *place;

    if (ompi_comm_rank(module->comm) != 0 || schedule->plan == NULL ||
        schedule->unplanned == NULL) {
        return;
    }
    if (module->plans == NULL) {
        find_place(module);
    }
    place = module->plans;
    if (place == NULL) {
        return;
    }
    mrail_plans_begin(place);
    place->time_ns = mrail_page_now();
    place->unplanned_s = forecast->unplanned;
    place->planned_s = forecast->planned;
    place->size = (uint32_t)ompi_comm_size(module->comm);
    place->is_planned = (uint32_t)forecast->is_planned;
    place->is_executed = forecast->is_gain || forecast->is_device;
    snprintf(place->name, sizeof(place->name), "%s", module->comm->c_name);
    fill_links(schedule, place);
    mrail_plans_end(place);
}

void mca_coll_mrail_export_close(void)
{
    pthread_mutex_lock(&file_lock);
    mrail_plans_remove(&file);
    pthread_mutex_unlock(&file_lock);
}
