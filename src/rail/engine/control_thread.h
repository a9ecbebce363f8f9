/* Start and stop of the control thread. */
#ifndef MRAIL_RAIL_ENGINE_CONTROL_THREAD_H
#define MRAIL_RAIL_ENGINE_CONTROL_THREAD_H

#include "rail/state/engine.h"

int mrail_control_thread_start(mrail_engine_t *engine);

void mrail_control_thread_stop(mrail_engine_t *engine);

#endif
