/*
 * The work of the control thread, without its thread and descriptors: a
 * simulation runs it in virtual time.
 *
 * Called by one thread that is in no callback and holds neither the data-path
 * lock nor the control lock.
 */
#ifndef MRAIL_RAIL_CONTROL_POLL_H
#define MRAIL_RAIL_CONTROL_POLL_H

#include "rail/engine.h"

/* When what is done now and then is due next. */
typedef struct mrail_control_timers {
    mrail_ns_t stall_ns;
    mrail_ns_t export_ns;
    mrail_ns_t keepalive_ns;
    mrail_ns_t due_ns; /* mrail_control_run() must be called by then */
} mrail_control_timers_t;

void mrail_control_init(mrail_control_timers_t *timers,
                        const mrail_engine_t *engine);

/* Control messages and lanes, as far as due; the time of the next call.  Sooner
 * if something wakes the thread (mrail_control_thread_wake()) or arrives. */
mrail_ns_t mrail_control_run(mrail_engine_t *engine,
                             mrail_control_timers_t *timers);

/* The rail's control CQ has an event: takes datagrams in, arms it again. */
void mrail_control_ud(mrail_engine_t *engine, mrail_rail_t *rail,
                      mrail_control_timers_t *timers);

/* The rail's device has asynchronous events. */
void mrail_control_async(mrail_engine_t *engine, mrail_rail_t *rail);

#endif
