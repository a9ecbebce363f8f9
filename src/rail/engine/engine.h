/* The engine of the process. */
#ifndef MRAIL_RAIL_ENGINE_ENGINE_H
#define MRAIL_RAIL_ENGINE_ENGINE_H

#include "rail/params.h"
#include "rail/state/engine.h"

/* Creates an engine that is not shared; mrail_engine_open() shares one. */
int mrail_engine_create(const mrail_config_t *config,
                        mrail_engine_t **engine_p);

void mrail_engine_destroy(mrail_engine_t *engine);

#endif
