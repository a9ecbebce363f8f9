/*
 * The work of the control thread, separated from the thread and its descriptors
 * so that a simulation can run it in virtual time.
 *
 * Only one thread may call these functions, outside callbacks, and holding
 * neither the data-path lock nor the control lock.
 */
#ifndef MRAIL_RAIL_CONTROL_POLL_H
#define MRAIL_RAIL_CONTROL_POLL_H

#include "rail/state/engine.h"

/* Deadlines of the control thread's periodic work. */
typedef struct mrail_control_timers {
    mrail_ns_t stall_ns;
    mrail_ns_t export_ns;
    int export_due; /* 1: the telemetry page was copied and must be written */
    mrail_ns_t keepalive_ns;
    mrail_ns_t due_ns; /* mrail_control_run() must be called by this time */
} mrail_control_timers_t;

void mrail_control_init(mrail_control_timers_t *timers,
                        const mrail_engine_t *engine);

/* Handles the control messages and lanes that are due. Returns the time of the
 * next call, which comes earlier if mrail_control_thread_wake() or an event
 * wakes the thread. */
mrail_ns_t mrail_control_run(mrail_engine_t *engine,
                             mrail_control_timers_t *timers) MRAIL_DATA;

/* Handles an event of the rail's control CQ: receives datagrams and rearms the
 * CQ. */
void mrail_control_ud(mrail_engine_t *engine, mrail_rail_t *rail,
                      mrail_control_timers_t *timers) MRAIL_DATA;

/* Handles asynchronous events of the rail's device. */
void mrail_control_async(mrail_engine_t *engine, mrail_rail_t *rail);

#endif
