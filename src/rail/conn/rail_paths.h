/* Events of a rail that concern the paths of all peers: its port, its address,
 * and the end of an outage. Control lock held. */
#ifndef MRAIL_RAIL_CONN_RAIL_PATHS_H
#define MRAIL_RAIL_CONN_RAIL_PATHS_H

#include "rail/state/engine.h"

/* Reports a port event to every path that uses the rail. */
void mrail_paths_port(mrail_engine_t *engine, mrail_rail_t *rail,
                      mrail_health_event_t event, mrail_ns_t now_ns) MRAIL_CTL;

/* Maximum number of peers or lanes that are notified of a rail event per
 * iteration of the control thread. */
#define MRAIL_RAIL_BATCH 64

/* Number of paths that probe a rail during an outage. */
#define MRAIL_RAIL_PROBERS 8

/* Reports the end of an outage to up to `max` paths that wait for the rail. */
void mrail_paths_restore(mrail_rail_t *rail, unsigned max,
                         mrail_ns_t now_ns) MRAIL_CTL;

/* Lets one of the paths that wait for the rail probe it, to replace probers
 * that are gone. */
void mrail_paths_add_prober(mrail_rail_t *rail, mrail_ns_t now_ns) MRAIL_CTL;

/* Creates new address handles if the GID has moved in the table of the rail's
 * port. */
void mrail_paths_readdress(mrail_engine_t *engine,
                           mrail_rail_t *rail) MRAIL_CTL;

#endif
