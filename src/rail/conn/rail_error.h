/* Errors of whole rails, and outages. */
#ifndef MRAIL_RAIL_CONN_RAIL_ERROR_H
#define MRAIL_RAIL_CONN_RAIL_ERROR_H

#include "rail/state/engine.h"

/* Requests the failover of all lanes of the rail, whose device is gone. Control
 * lock held. */
void mrail_failover_rail(mrail_engine_t *engine, mrail_rail_t *rail,
                         const char *cause) MRAIL_CTL;

/* Begins and ends outages, one batch of lanes and paths per rail at a time.
 * Returns the time of the next call. Control lock held. */
mrail_ns_t mrail_rails_run(mrail_engine_t *engine, mrail_ns_t now_ns) MRAIL_CTL;

/* Requests the failover of all lanes of every rail whose completion queue has
 * failed. Control lock held. */
void mrail_failover_check_rails(mrail_engine_t *engine) MRAIL_CTL;

#endif
