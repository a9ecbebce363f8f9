/* Sends control messages that are due, for peers and lanes. Control lock
 * held. */
#ifndef MRAIL_RAIL_CONN_CTL_RUN_H
#define MRAIL_RAIL_CONN_CTL_RUN_H

#include "rail/state/engine.h"

/* Sends due messages. Returns the next deadline. */
mrail_ns_t mrail_ctl_run(mrail_engine_t *engine, mrail_ns_t now_ns) MRAIL_BOTH;

/* Postpones the deadlines of all peers by `suspended_ns`, the time for which
 * this process has been suspended. Both locks held. */
void mrail_ctl_suspended(mrail_engine_t *engine, mrail_ns_t suspended_ns,
                         mrail_ns_t now_ns) MRAIL_BOTH;

void mrail_ctl_bye(mrail_engine_t *engine);

#endif
