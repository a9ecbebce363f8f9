/* Queries: attributes, rails and memory of an engine. */
#ifndef MRAIL_RAIL_ENGINE_ENGINE_QUERY_H
#define MRAIL_RAIL_ENGINE_ENGINE_QUERY_H

#include "rail/state/engine.h"

/* Implements mrail_rails_now() for one engine. The caller serialises calls. */
unsigned mrail_engine_rails(mrail_engine_t *engine, mrail_rail_now_t *rails);

#endif
