/*
 * Describes the engine of the process, the threads that enter it, and its
 * locks. Calls all other layers.
 */
#ifndef MRAIL_RAIL_ENGINE_ENGINE_H
#define MRAIL_RAIL_ENGINE_ENGINE_H

#include "rail/state/engine.h"

/* ---- The engine of the process (engine.c) ---- */

/* Creates an engine that is not shared; mrail_engine_open() shares its
 * engine. */
int mrail_engine_create(const mrail_config_t *config,
                        mrail_engine_t **engine_p);

void mrail_engine_destroy(mrail_engine_t *engine);

/* ---- Attributes, rails and memory of an engine (engine_query.c) ---- */

/* Implements mrail_rails_now() for one engine. The caller serialises calls. */
unsigned mrail_engine_rails(mrail_engine_t *engine, mrail_rail_now_t *rails);

/* ---- Registrations of the engine's own memory (mem.c) ---- */

/* Like mrail_mem_reg(), but without remote access. The engine's own memory
 * contains pointers, so no peer may access it, even with a guessed key. */
int mrail_mem_reg_own(mrail_engine_t *engine, void *address, size_t length,
                      mrail_mem_t **mem_p);

/* ---- Progress (progress.c) ---- */

/* Polls all CQs once. Callbacks run only for `current`. */
unsigned mrail_engine_poll(mrail_engine_t *engine,
                           mrail_iface_t *current) MRAIL_DATA MRAIL_NO_CTL;

/* ---- The work of the control thread (control_poll.c) ---- */

/* The work is separated from the thread and its descriptors, so that a
 * simulation can run it in virtual time. Only one thread may call these
 * functions. It must not hold the data-path lock or the control lock, and must
 * not run a callback. */

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

/* Handles the control messages and lanes that are due. Returns the time of the
 * next call, which comes earlier if mrail_control_thread_wake() or an event
 * wakes the thread. */
mrail_ns_t mrail_control_run(mrail_engine_t *engine,
                             mrail_control_timers_t *timers);

/* Handles an event of the rail's control CQ: receives datagrams and rearms the
 * CQ. */
void mrail_control_ud(mrail_engine_t *engine, mrail_rail_t *rail,
                      mrail_control_timers_t *timers);

/* Handles asynchronous events of the rail's device. */
void mrail_control_async(mrail_engine_t *engine, mrail_rail_t *rail);

/* ---- The control thread (control_thread.c) ---- */

int mrail_control_thread_start(mrail_engine_t *engine);

void mrail_control_thread_stop(mrail_engine_t *engine);

/* ---- Event file descriptors of ifaces (wakeup.c) ---- */

void mrail_wakeup_close(mrail_iface_t *iface);

/* ---- The file of UCX_MRAIL_STATS_FILE (stats.c) ---- */

void mrail_engine_write_stats(mrail_engine_t *engine);

/* ---- The telemetry page of the process (telemetry_export.c) ---- */

/* Creates the page and the trace ring if the configuration enables them. */
void mrail_telemetry_export_open(mrail_engine_t *engine);

void mrail_telemetry_export_close(mrail_engine_t *engine);

/* Copies rails, lanes and counters. Both locks held. */
void mrail_telemetry_export_copy(mrail_engine_t *engine);

/* Writes the copy to the page. Control lock held. */
void mrail_telemetry_export_write(mrail_engine_t *engine);

#endif
