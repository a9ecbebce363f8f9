/* Errors of whole rails. */
#ifndef MRAIL_RAIL_CONN_RAIL_ERROR_H
#define MRAIL_RAIL_CONN_RAIL_ERROR_H

#include "rail/state/engine.h"

/* Requests the failover of all lanes of the rail, whose device is gone. Control
 * lock held. */
void mrail_failover_rail(mrail_engine_t *engine, mrail_rail_t *rail,
                         const char *cause);

/* Does the same for every rail whose completion queue has failed. */
void mrail_failover_check_rails(mrail_engine_t *engine);

#endif
