/* The telemetry page of the process. */
#ifndef MRAIL_RAIL_ENGINE_TELEMETRY_EXPORT_H
#define MRAIL_RAIL_ENGINE_TELEMETRY_EXPORT_H

#include "rail/state/engine.h"

void mrail_telemetry_export_open(mrail_engine_t *engine);

void mrail_telemetry_export_close(mrail_engine_t *engine);

void mrail_telemetry_export(mrail_engine_t *engine);

#endif
