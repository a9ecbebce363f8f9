/* The file of UCX_MRAIL_STATS_FILE. */
#ifndef MRAIL_RAIL_ENGINE_STATS_H
#define MRAIL_RAIL_ENGINE_STATS_H

#include "rail/state/engine.h"

void mrail_engine_write_stats(mrail_engine_t *engine);

#endif
