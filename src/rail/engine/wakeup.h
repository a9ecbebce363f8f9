/* Event file descriptors of ifaces. */
#ifndef MRAIL_RAIL_ENGINE_WAKEUP_H
#define MRAIL_RAIL_ENGINE_WAKEUP_H

#include "rail/state/engine.h"

void mrail_wakeup_close(mrail_iface_t *iface);

#endif
