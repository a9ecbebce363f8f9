/* The paths to a peer. Control lock held. */
#ifndef MRAIL_RAIL_CONN_PATHS_H
#define MRAIL_RAIL_CONN_PATHS_H

#include "rail/state/engine.h"

void mrail_paths_init(mrail_peer_t *peer);

void mrail_path_event(mrail_peer_t *peer, unsigned slot,
                      mrail_health_event_t event, mrail_ns_t now_ns);

/* Reports a port event to every path that uses the rail. */
void mrail_paths_port(mrail_engine_t *engine, mrail_rail_t *rail,
                      mrail_health_event_t event, mrail_ns_t now_ns);

/* Peers or lanes that hear of a rail's fate in one turn. */
#define MRAIL_RAIL_BATCH 64

/* Paths that probe a rail during an outage. */
#define MRAIL_RAIL_PROBERS 8

/* Something got through on the rail. This ends an outage. */
void mrail_paths_rail_alive(mrail_rail_t *rail, mrail_ns_t now_ns);

/* Reports the end of an outage to at most `max` paths that wait for the
 * rail. */
void mrail_paths_restore(mrail_rail_t *rail, unsigned max, mrail_ns_t now_ns);

/* Lets one of the paths that wait for the rail probe it, in place of paths that
 * are gone. */
void mrail_paths_add_prober(mrail_rail_t *rail, mrail_ns_t now_ns);

/* Takes the paths of a peer that is freed off the lists of the rails. */
void mrail_paths_forget(mrail_peer_t *peer);

/* Creates new address handles if the GID has moved in the table of the rail's
 * port. */
void mrail_paths_readdress(mrail_engine_t *engine, mrail_rail_t *rail);

/* Moves slot 0 to another pair of rails before any lane was up. The state of a
 * path stays with its rails. */
void mrail_paths_rebase(mrail_peer_t *peer, unsigned base);

/* Returns the base pair for which this slot is on these rails. */
unsigned mrail_paths_base(const mrail_peer_t *peer, unsigned slot,
                          unsigned local, unsigned remote);

/* Handles the answer to a PROBE. Returns 0 if the answer belongs to no
 * probe. */
int mrail_path_answer(mrail_peer_t *peer, uint32_t seq, mrail_ns_t now_ns);

/* Returns 1 if a lane may be requested on the path. */
int mrail_path_is_open(const mrail_peer_t *peer, unsigned slot);

/* Performs due work. Returns the next deadline. */
mrail_ns_t mrail_path_run(mrail_peer_t *peer, unsigned slot, mrail_ns_t now_ns);

#endif
