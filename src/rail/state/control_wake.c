/* The signal that wakes the control thread. */
#include "config.h"
#include "rail/state/signals.h"

#include <unistd.h>

void mrail_control_thread_wake(mrail_engine_t *engine)
{
    const uint64_t one = 1;

    (void)!write(engine->event_fd, &one, sizeof(one));
}
