/*
 * The work of the control thread. It does not depend on the thread and its
 * descriptors, so that a simulation can run it in virtual time.
 *
 * One thread calls these functions, outside callbacks and without the
 * data-path lock or the control lock.
 */
#ifndef MRAIL_RAIL_CONTROL_POLL_H
#define MRAIL_RAIL_CONTROL_POLL_H

#include "rail/state/engine.h"

/* Deadlines of the control thread's periodic work. */
typedef struct mrail_control_timers {
    mrail_ns_t stall_ns;
    mrail_ns_t export_ns;
    int export_due; /* the telemetry page was copied and must be written */
    mrail_ns_t keepalive_ns;
    mrail_ns_t due_ns; /* mrail_control_run() must be called by this time */
} mrail_control_timers_t;

void mrail_control_init(mrail_control_timers_t *timers,
                        const mrail_engine_t *engine);

/* Serves due control messages and lanes. Returns the time of the next call. The
 * thread calls this function sooner if mrail_control_thread_wake() or an event
 * wakes it. */
mrail_ns_t mrail_control_run(mrail_engine_t *engine,
                             mrail_control_timers_t *timers) MRAIL_DATA;

/* Handles an event of the rail's control CQ: takes datagrams and arms the CQ
 * again. */
void mrail_control_ud(mrail_engine_t *engine, mrail_rail_t *rail,
                      mrail_control_timers_t *timers) MRAIL_DATA;

/* Handles asynchronous events of the rail's device. */
void mrail_control_async(mrail_engine_t *engine, mrail_rail_t *rail);

#endif
