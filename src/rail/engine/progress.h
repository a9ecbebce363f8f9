/* Progress: completions of the rails, and the work that peers wait for. */
#ifndef MRAIL_RAIL_ENGINE_PROGRESS_H
#define MRAIL_RAIL_ENGINE_PROGRESS_H

#include "rail/state/engine.h"

/* Polls all CQs once. Callbacks run only for `current`. */
unsigned mrail_engine_poll(mrail_engine_t *engine,
                           mrail_iface_t *current) MRAIL_DATA MRAIL_NO_CTL;

#endif
