/* The forecasts of a report as JSON. */
#include "config.h"
#include "tools/report.h"

#include "base/json.h"
#include "orchestrator/link_name.h"

static void put_links(mrail_json_t *json, const mrail_plans_comm_t *plan)
{
    char name[MRAIL_LINK_NAME];

    mrail_json_array(json, "links");
    for (unsigned i = 0; i < plan->num_links; ++i) {
        const mrail_plans_link_t *link = &plan->links[i];

        mrail_json_newline(json);
        mrail_json_object(json, NULL);
        mrail_json_string(json, "link",
                          mrail_link_name(link->kind, link->a, link->b, name));
        mrail_json_fixed(json, "unplanned_bytes", link->unplanned, 0);
        mrail_json_fixed(json, "planned_bytes", link->planned, 0);
        mrail_json_fixed(json, "capacity_bytes_per_s", link->capacity, 0);
        mrail_json_object_end(json);
    }
    mrail_json_array_end(json);
    mrail_json_uint(json, "links_left_out", plan->more_links);
}

void report_json_plans(mrail_json_t *json, const report_model_t *model,
                       uint64_t start_ns)
{
    mrail_json_newline(json);
    mrail_json_array(json, "plans");
    for (unsigned i = 0; i < model->num_plans; ++i) {
        const mrail_plans_comm_t *plan = &model->plans[i];

        mrail_json_newline(json);
        mrail_json_object(json, NULL);
        mrail_json_string(json, "communicator", plan->name);
        mrail_json_uint(json, "ranks", plan->size);
        mrail_json_uint(json, "forecasts", mrail_plans_number(plan));
        mrail_json_fixed(json, "time_s",
                         ((double)plan->time_ns - (double)start_ns) / 1e9, 6);
        mrail_json_bool(json, "planned", plan->is_planned != 0);
        mrail_json_bool(json, "executed", plan->is_executed != 0);
        mrail_json_fixed(json, "unplanned_time_s", plan->unplanned_s, 9);
        mrail_json_fixed(json, "planned_time_s", plan->planned_s, 9);
        put_links(json, plan);
        mrail_json_object_end(json);
    }
    mrail_json_array_end(json);
    mrail_json_uint(json, "plans_left_out", model->more_plans);
}
