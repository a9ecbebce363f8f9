/* The paths to a peer. Control lock held. */
#ifndef MRAIL_RAIL_CONN_PATHS_H
#define MRAIL_RAIL_CONN_PATHS_H

#include "rail/state/engine.h"

/* Grace period before lanes of a failed port are closed, because the port may
 * come back at once. */
#define MRAIL_PATH_GRACE (2 * MRAIL_NS_PER_MS)

/* Returns the local rail of a path. */
static inline mrail_rail_t *mrail_path_rail(const mrail_peer_t *peer,
                                            unsigned slot)
{
    unsigned pair = (peer->base + slot) % peer->num_pairs;

    return &peer->engine->rails[peer->pairs[pair].local];
}

void mrail_paths_init(mrail_peer_t *peer);

/* Applies an event to a path, and performs the resulting action. */
void mrail_path_event(mrail_peer_t *peer, unsigned slot,
                      mrail_health_event_t event, mrail_ns_t now_ns) MRAIL_CTL;

/* Records that something got through on the rail, which ends an outage. */
void mrail_paths_rail_alive(mrail_rail_t *rail, mrail_ns_t now_ns);

/* Removes the paths of a peer that is being freed from the lists of the
 * rails. */
void mrail_paths_remove(mrail_peer_t *peer);

/* Moves slot 0 to another rail pair before any lane has come up. The state of
 * each path stays with its rails. */
void mrail_paths_rebase(mrail_peer_t *peer, unsigned base) MRAIL_CTL;

/* Returns the base pair that puts the slot on these rails. */
unsigned mrail_paths_base(const mrail_peer_t *peer, unsigned slot,
                          unsigned local, unsigned remote);

/* Handles the answer to a PROBE. Returns 0 if no pending probe matches. */
int mrail_path_answer(mrail_peer_t *peer, uint32_t seq,
                      mrail_ns_t now_ns) MRAIL_CTL;

/* Returns 1 if a lane may be requested on the path. */
int mrail_path_is_open(const mrail_peer_t *peer, unsigned slot);

/* Performs the work that is due. Returns the next deadline. */
mrail_ns_t mrail_path_run(mrail_peer_t *peer, unsigned slot,
                          mrail_ns_t now_ns) MRAIL_CTL;

#endif
