/*
 * mrail trace -o writes the forecasts of one process to a Perfetto trace. Each
 * becomes a slice below the collective that used it. The slice begins with that
 * call and takes the predicted time, so that a reader sees both lengths. No I/O
 * other than through perfetto_t.
 */
#ifndef MRAIL_TOOLS_TRACE_PLANS_H
#define MRAIL_TOOLS_TRACE_PLANS_H

#include "telemetry/calls.h"
#include "telemetry/plans.h"
#include "tools/perfetto.h"

/* Rails whose bytes are shown one by one; the rest is summed up. */
#define TRACE_PLAN_RAILS 8u
/* Maximum number of overlapping forecasts per communicator. Further ones are
 * not shown. */
#define TRACE_PLAN_SLOTS 8u

/* A forecast, as far as the trace shows it. */
typedef struct trace_forecast {
    uint64_t number;  /* 1: the first one of its communicator */
    uint64_t time_ns; /* CLOCK_REALTIME */
    double unplanned_s, planned_s;
    uint32_t ranks;
    int is_planned, is_executed;
    unsigned num_rails; /* TRACE_PLAN_RAILS + 1: the last sums up the rest */
    double unplanned[TRACE_PLAN_RAILS + 1], planned[TRACE_PLAN_RAILS + 1];
    char name[64]; /* of the communicator */
} trace_forecast_t;

/* A slot of the file. */
typedef struct trace_plan {
    uint64_t begun;   /* of the last forecast that was read */
    uint32_t earlier; /* likewise; identifies the communicator */
    int is_waiting;   /* 1 if the collective of `forecast` is in progress */
    trace_forecast_t forecast;
    uint64_t tracks[TRACE_PLAN_SLOTS];
    uint64_t ends_ns[TRACE_PLAN_SLOTS];
    unsigned num_tracks;
} trace_plan_t;

typedef struct trace_plans {
    perfetto_t *trace;
    uint64_t process;   /* id of the process's track */
    uint64_t offset_ns; /* CLOCK_REALTIME minus the clock of the calls */
    int has_past, has_started;
    int had_file; /* there was a file at the first trace_plans_add() */
    uint64_t shown;
    uint64_t missed; /* replaced before they were read, or without a slot */
    trace_plan_t plans[MRAIL_PLANS_COMMS];
} trace_plans_t;

/* Starts. With has_past 0, only forecasts after the first trace_plans_add() are
 * shown. */
void trace_plans_init(trace_plans_t *plans, perfetto_t *trace, uint64_t process,
                      uint64_t offset_ns, int has_past);

/* Adds the forecasts that are new in `copy`, once their collectives have ended.
 * `calls` is a copy that was made after `copy`. Both may be NULL. */
void trace_plans_add(trace_plans_t *plans, const mrail_plans_t *copy,
                     const mrail_calls_t *calls);

/* Adds the forecasts whose collectives are in progress. */
void trace_plans_finish(trace_plans_t *plans, const mrail_calls_t *calls);

#endif
