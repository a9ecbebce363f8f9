/*
 * What the service thread does, without its thread and descriptors: a
 * simulation does the same in virtual time.
 *
 * By one thread, which is in no callback and holds neither guard nor control
 * lock.
 */
#ifndef MRAIL_RAIL_DUTY_H
#define MRAIL_RAIL_DUTY_H

#include "rail/engine.h"

/* When what is done now and then is due next. */
typedef struct mrail_duty {
    mrail_ns_t watch_ns;
    mrail_ns_t publish_ns;
    mrail_ns_t keepalive_ns;
    mrail_ns_t due_ns; /* mrail_duty_run() is to be called again by then */
} mrail_duty_t;

void mrail_duty_init(mrail_duty_t *duty, const mrail_engine_t *engine);

/* Control messages and lanes, as far as due; the time of the next call.  Sooner
 * if something wakes the thread (mrail_service_wake()) or arrives. */
mrail_ns_t mrail_duty_run(mrail_engine_t *engine, mrail_duty_t *duty);

/* The rail's control CQ has an event: takes datagrams in, arms it again. */
void mrail_duty_ud(mrail_engine_t *engine, mrail_rail_t *rail,
                   mrail_duty_t *duty);

/* The rail's device has asynchronous events. */
void mrail_duty_async(mrail_engine_t *engine, mrail_rail_t *rail);

#endif
