/* mrail plan --compare prints the comparison methods as a table and as JSON. */
#include "config.h"
#include "tools/plan_command.h"

#include "base/json.h"
#include "base/util.h"

#define ROW_FORMAT "%-16s %12s %15s %12s"

/* Returns the excess of a time over the bound of the plan, as a fraction. It is
 * negative if the time is below the bound. */
static double over_bound(const plan_run_t *run, double seconds)
{
    double bound = run->summary.congestion_bound;

    return (bound > 0) ? seconds / bound - 1 : 0;
}

static void print_row(const plan_run_t *run, const char *name,
                      const plan_arm_t *arm)
{
    char time[PLAN_SHORT_TEXT], over[PLAN_SHORT_TEXT];
    char relayed[PLAN_SHORT_TEXT] = "-";

    plan_time_text(arm->seconds, time, sizeof(time));
    snprintf(over, sizeof(over), "%.2f %%",
             100 * over_bound(run, arm->seconds));
    if (arm->relayed >= 0) {
        plan_bytes_text(arm->relayed, relayed, sizeof(relayed));
    }
    printf(ROW_FORMAT, name, time, over, relayed);
    if (arm->steps > 0) {
        printf(" %8u", arm->steps);
    }
    printf("\n");
}

void plan_arms_show(const plan_run_t *run)
{
    plan_arm_t plan = {.seconds = run->summary.congestion,
                       .relayed = run->summary.relayed};

    printf("\n" ROW_FORMAT " %8s\n", "comparison", "time", "over the bound",
           "relayed", "steps");
    print_row(run, "plan", &plan);
    for (unsigned id = 0; id < PLAN_NUM_ARMS; ++id) {
        const plan_arm_t *arm = &run->arms[id];
        char name[PLAN_SHORT_TEXT];

        snprintf(name, sizeof(name), "%s%s", plan_arm_name(id),
                 plan_arm_is_bound(id) ? " (bound)" : "");
        if (arm->reason[0] != '\0') {
            printf("%-16s %12s  %s\n", name, "not supported:", arm->reason);
        } else {
            print_row(run, name, arm);
        }
    }
}

static void print_arm(mrail_json_t *json, const plan_run_t *run,
                      plan_arm_id_t id)
{
    const plan_arm_t *arm = &run->arms[id];

    mrail_json_object(json, NULL);
    mrail_json_string(json, "method", plan_arm_name(id));
    mrail_json_string(json, "source", plan_arm_source(id));
    mrail_json_bool(json, "is_bound", plan_arm_is_bound(id));
    if (arm->reason[0] != '\0') {
        mrail_json_string(json, "not_served", arm->reason);
    } else {
        mrail_json_real(json, "time_s", arm->seconds, 17);
        mrail_json_real(json, "over_bound", over_bound(run, arm->seconds), 9);
        if (arm->relayed >= 0) {
            mrail_json_real(json, "relayed_bytes", arm->relayed, 17);
        } else {
            mrail_json_null(json, "relayed_bytes");
        }
        mrail_json_uint(json, "steps", arm->steps);
    }
    mrail_json_object_end(json);
}

void plan_arms_show_json(mrail_json_t *json, const plan_run_t *run)
{
    mrail_json_newline(json);
    mrail_json_array(json, "comparison");
    for (unsigned id = 0; id < PLAN_NUM_ARMS; ++id) {
        mrail_json_newline(json);
        print_arm(json, run, id);
    }
    mrail_json_array_end(json);
}
