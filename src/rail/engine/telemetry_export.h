/* The telemetry page of the process. */
#ifndef MRAIL_RAIL_ENGINE_TELEMETRY_EXPORT_H
#define MRAIL_RAIL_ENGINE_TELEMETRY_EXPORT_H

#include "rail/state/engine.h"

/* Creates the page and the trace ring if the configuration enables them. */
void mrail_telemetry_export_open(mrail_engine_t *engine);

void mrail_telemetry_export_close(mrail_engine_t *engine);

/* Copies rails, lanes and counters. Both locks held. */
void mrail_telemetry_export_copy(mrail_engine_t *engine);

/* Writes the copy to the page. Control lock held. */
void mrail_telemetry_export_write(mrail_engine_t *engine);

#endif
