#include "config.h"
#include "tools/trace_plans.h"

#include "orchestrator/plan.h"
#include "tools/trace_calls.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A longer predicted time is shown as this one. */
#define MAX_S 86400.0

void trace_plans_init(trace_plans_t *plans, perfetto_t *trace, uint64_t process,
                      uint64_t offset_ns, int has_past)
{
    *plans = (trace_plans_t){.trace = trace,
                             .process = process,
                             .offset_ns = offset_ns,
                             .has_past = has_past};
}

/* ---- forecasts ---- */

/* Adds the bytes that a node sends over a rail. Each of them also arrives at
 * another node, where it is not counted again. */
static void add_link(trace_forecast_t *forecast, const mrail_plans_link_t *link)
{
    unsigned rail = MRAIL_MIN(link->b, TRACE_PLAN_RAILS);

    if (link->kind == MRAIL_PLAN_RAIL_OUT) {
        forecast->num_rails = MRAIL_MAX(forecast->num_rails, rail + 1);
        forecast->planned[rail] += link->planned;
        forecast->unplanned[rail] += link->unplanned;
    }
}

static trace_forecast_t forecast_of(const mrail_plans_comm_t *comm)
{
    trace_forecast_t forecast = {.number = mrail_plans_number(comm),
                                 .time_ns = comm->time_ns,
                                 .unplanned_s = comm->unplanned_s,
                                 .planned_s = comm->planned_s,
                                 .ranks = comm->size,
                                 .is_planned = comm->is_planned != 0,
                                 .is_executed = (comm->is_planned != 0) &&
                                                (comm->is_executed != 0)};

    snprintf(forecast.name, sizeof(forecast.name), "%s", comm->name);
    for (unsigned i = 0; i < comm->num_links; ++i) {
        add_link(&forecast, &comm->links[i]);
    }
    return forecast;
}

/* ---- the collective ---- */

/* The collective that used a forecast. */
typedef struct use {
    const mrail_calls_record_t *record; /* NULL: unknown */
    uint64_t number;
    unsigned place; /* of its communicator */
} use_t;

/* Returns 1 if coll/mrail plans collectives of this kind. */
static int is_planned_kind(uint32_t kind)
{
    kind &= ~MRAIL_CALLS_NONBLOCKING;
    return (kind == MRAIL_CALLS_ALLTOALL) || (kind == MRAIL_CALLS_ALLTOALLV) ||
           (kind == MRAIL_CALLS_ALLTOALLW);
}

/* Returns 1 if the process has left the exchange, as far as the calls show. A
 * nonblocking call is left as soon as it has been started. */
static int has_left(const mrail_calls_record_t *record)
{
    return (record->left != 0) &&
           ((record->kind & MRAIL_CALLS_NONBLOCKING) == 0);
}

/* Finds the last collective of a communicator that began before the forecast,
 * if it had not ended then. */
static use_t find_in_comm(const trace_plans_t *plans,
                          const trace_forecast_t *forecast,
                          const mrail_calls_comm_t *comm)
{
    for (uint64_t n = comm->entered; n > comm->first; --n) {
        const mrail_calls_record_t *record = mrail_calls_record(comm, n - 1);

        if ((record == NULL) || !is_planned_kind(record->kind) ||
            (record->entered + plans->offset_ns > forecast->time_ns)) {
            continue;
        }
        if (has_left(record) &&
            (record->left + plans->offset_ns < forecast->time_ns)) {
            break;
        }
        return (use_t){.record = record, .number = n - 1};
    }
    return (use_t){.record = NULL};
}

static use_t find_use(const trace_plans_t *plans,
                      const trace_forecast_t *forecast,
                      const mrail_calls_t *calls)
{
    use_t use = {.record = NULL};

    for (unsigned i = 0; (calls != NULL) && (i < MRAIL_CALLS_COMMS); ++i) {
        const mrail_calls_comm_t *comm = &calls->comms[i];
        use_t found;

        /* The calls have a shorter copy of the name. */
        if ((comm->id == 0) || (strncmp(comm->name, forecast->name,
                                        sizeof(comm->name) - 1) != 0)) {
            continue;
        }
        found = find_in_comm(plans, forecast, comm);
        if ((found.record != NULL) &&
            ((use.record == NULL) ||
             (found.record->entered > use.record->entered))) {
            use = found;
            use.place = i;
        }
    }
    return use;
}

/* ---- slices ---- */

static uint64_t add_track(trace_plans_t *plans, const trace_plan_t *plan,
                          const use_t *use)
{
    const trace_forecast_t *forecast = &plan->forecast;
    unsigned place = (use->record != NULL) ? use->place : MRAIL_CALLS_COMMS - 1;
    char name[sizeof(forecast->name) + 32];
    uint64_t id = perfetto_id(plans->trace);

    snprintf(name, sizeof(name), "plans of %s",
             (forecast->name[0] != '\0') ? forecast->name : "a communicator");
    perfetto_track(plans->trace,
                   &(perfetto_track_t){.id = id,
                                       .parent = plans->process,
                                       .name = name,
                                       .order = trace_calls_order(place) + 1});
    return id;
}

/* Returns a slot whose last slice has ended at `begin_ns`, or NULL. */
static uint64_t *slot_of(trace_plans_t *plans, trace_plan_t *plan,
                         const use_t *use, uint64_t begin_ns, uint64_t *track_p)
{
    unsigned i = 0;

    while ((i < plan->num_tracks) && (plan->ends_ns[i] > begin_ns)) {
        ++i;
    }
    if (i == TRACE_PLAN_SLOTS) {
        return NULL;
    }
    if (i == plan->num_tracks) {
        plan->tracks[i] = add_track(plans, plan, use);
        ++plan->num_tracks;
    }
    *track_p = plan->tracks[i];
    return &plan->ends_ns[i];
}

/* The arguments of a slice, and the names of those that are about rails. */
typedef struct args {
    perfetto_arg_t items[PERFETTO_ARGS];
    unsigned count;
    char names[2 * (TRACE_PLAN_RAILS + 1)][48];
} args_t;

_Static_assert(7 + 2 * (TRACE_PLAN_RAILS + 1) <= PERFETTO_ARGS,
               "all arguments must fit");

static void add_value(args_t *args, const char *name, uint64_t value)
{
    args->items[args->count++] = (perfetto_arg_t){.name = name, .value = value};
}

static void add_time(args_t *args, const char *name, double time_s)
{
    if (isfinite(time_s) && (time_s >= 0)) {
        add_value(args, name, (uint64_t)(MRAIL_MIN(time_s, MAX_S) * 1e9));
    }
}

/* Adds the bytes of a rail with and without the plan. */
static void add_rail(args_t *args, const trace_forecast_t *forecast,
                     unsigned rail)
{
    char text[24];

    if (rail == TRACE_PLAN_RAILS) {
        snprintf(text, sizeof(text), "other rails");
    } else {
        snprintf(text, sizeof(text), "rail %u", rail);
    }
    if (forecast->is_planned) {
        char *name = args->names[2 * rail];

        snprintf(name, sizeof(args->names[0]), "%s: bytes with the plan", text);
        add_value(args, name,
                  (uint64_t)MRAIL_MIN(forecast->planned[rail], 1e18));
    }
    snprintf(args->names[2 * rail + 1], sizeof(args->names[0]),
             "%s: bytes without a plan", text);
    add_value(args, args->names[2 * rail + 1],
              (uint64_t)MRAIL_MIN(forecast->unplanned[rail], 1e18));
}

static void add_args(args_t *args, const trace_forecast_t *forecast,
                     const use_t *use)
{
    add_value(args, "forecast", forecast->number);
    add_value(args, "ranks", forecast->ranks);
    if (use->record != NULL) {
        add_value(args, "collective", use->number);
    }
    add_time(args, "predicted ns without a plan", forecast->unplanned_s);
    if (forecast->is_planned) {
        add_time(args, "predicted ns with the plan", forecast->planned_s);
    }
    if ((use->record != NULL) && has_left(use->record) &&
        (use->record->left >= use->record->entered)) {
        add_value(args, "measured ns",
                  use->record->left - use->record->entered);
    }
    for (unsigned i = 0; i < forecast->num_rails; ++i) {
        add_rail(args, forecast, i);
    }
}

/* Adds the slice of a forecast, or an instant event if its time is unknown. */
static void show(trace_plans_t *plans, trace_plan_t *plan, const use_t *use)
{
    const trace_forecast_t *forecast = &plan->forecast;
    double time_s =
        forecast->is_executed ? forecast->planned_s : forecast->unplanned_s;
    int has_time = isfinite(time_s) && (time_s >= 0);
    args_t args = {.count = 0};
    perfetto_event_t event = {
        .kind = has_time ? PERFETTO_BEGIN : PERFETTO_INSTANT,
        .category = "forecast",
        .name = forecast->is_executed  ? "forecast: by the plan"
                : forecast->is_planned ? "forecast: the plan is not used"
                                       : "forecast: without a plan"};
    uint64_t *end_ns;

    event.time_ns = (use->record != NULL)
                        ? use->record->entered + plans->offset_ns
                        : forecast->time_ns;
    end_ns = slot_of(plans, plan, use, event.time_ns, &event.track);
    plan->is_waiting = 0;
    if (end_ns == NULL) {
        ++plans->missed;
        return;
    }
    add_args(&args, forecast, use);
    event.args = args.items;
    event.num_args = args.count;
    perfetto_event(plans->trace, &event);
    ++plans->shown;
    if (has_time) {
        *end_ns = event.time_ns + (uint64_t)(MRAIL_MIN(time_s, MAX_S) * 1e9);
        perfetto_event(plans->trace, &(perfetto_event_t){.kind = PERFETTO_END,
                                                         .time_ns = *end_ns,
                                                         .track = event.track});
    }
}

/* Shows the forecast in a slot, unless its collective may still end. */
static void settle(trace_plans_t *plans, trace_plan_t *plan,
                   const mrail_calls_t *calls, int is_end)
{
    use_t use;

    if (!plan->is_waiting) {
        return;
    }
    use = find_use(plans, &plan->forecast, calls);
    if (is_end || (use.record == NULL) || (use.record->left != 0)) {
        show(plans, plan, &use);
    }
}

/* ---- entry points ---- */

/* Counts the forecasts of a communicator that were replaced before this one was
 * read. */
static uint64_t count_missed(const trace_plans_t *plans,
                             const trace_plan_t *plan,
                             const mrail_plans_comm_t *comm)
{
    if ((plan->begun != 0) && (plan->earlier == comm->earlier)) {
        return comm->begun - plan->begun - 1;
    }
    return ((plan->begun != 0) || (plans->has_started && !plans->had_file))
               ? mrail_plans_number(comm) - 1
               : 0;
}

static void add_comm(trace_plans_t *plans, trace_plan_t *plan,
                     const mrail_plans_comm_t *comm, const mrail_calls_t *calls)
{
    if (comm->begun <= plan->begun) {
        return; /* it is not new, or it is changing */
    }
    if (!plans->has_started && !plans->has_past) {
        plan->begun = comm->begun;
        plan->earlier = comm->earlier;
        return;
    }
    settle(plans, plan, calls, 1);
    plans->missed += count_missed(plans, plan, comm);
    if (comm->earlier != plan->earlier) {
        plan->num_tracks = 0; /* another communicator uses the slot */
    }
    plan->begun = comm->begun;
    plan->earlier = comm->earlier;
    plan->forecast = forecast_of(comm);
    plan->is_waiting = 1;
}

void trace_plans_add(trace_plans_t *plans, const mrail_plans_t *copy,
                     const mrail_calls_t *calls)
{
    for (unsigned i = 0; i < MRAIL_PLANS_COMMS; ++i) {
        if (copy != NULL) {
            add_comm(plans, &plans->plans[i], &copy->comms[i], calls);
        }
        settle(plans, &plans->plans[i], calls, 0);
    }
    if (!plans->has_started) {
        plans->had_file = copy != NULL;
        plans->has_started = 1;
    }
}

void trace_plans_finish(trace_plans_t *plans, const mrail_calls_t *calls)
{
    for (unsigned i = 0; i < MRAIL_PLANS_COMMS; ++i) {
        settle(plans, &plans->plans[i], calls, 1);
    }
}
