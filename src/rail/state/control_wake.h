/* The signal that wakes the control thread, in a file of its own so that tests
 * in virtual time can replace the thread. */
#ifndef MRAIL_RAIL_STATE_CONTROL_WAKE_H
#define MRAIL_RAIL_STATE_CONTROL_WAKE_H

#include "rail/state/engine.h"

/* Makes the control thread check its work at once. Any thread may call it. */
void mrail_control_thread_wake(mrail_engine_t *engine);

#endif
