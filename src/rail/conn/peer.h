/* Peers: creation, search and requests. */
#ifndef MRAIL_RAIL_CONN_PEER_H
#define MRAIL_RAIL_CONN_PEER_H

#include "rail/state/engine.h"

/* Finds a peer by id; NULL: there is none. Control lock held. */
mrail_peer_t *mrail_peer_find(mrail_engine_t *engine, uint64_t id) MRAIL_CTL;

/* Creates a peer with this id. Returns NULL if memory runs out. Control lock
 * held. */
mrail_peer_t *mrail_peer_create(mrail_engine_t *engine, uint64_t id) MRAIL_CTL;

/* Frees the peer, but not its lanes. Both locks held, or the engine is
 * closing. */
void mrail_peer_free(mrail_peer_t *peer) MRAIL_BOTH;

/* Returns the status with which the peer with this id was freed, or 0 if it was
 * not freed, or too long ago. Control lock held. */
int mrail_peer_departed(const mrail_engine_t *engine, uint64_t id);

/* Marks a new peer as failed, because a peer with its id was freed earlier.
 * Both locks held. */
void mrail_peer_set_departed(mrail_peer_t *peer, int status) MRAIL_BOTH;

/* Requests the first lane, or all lanes, from the control thread. Data-path
 * lock held. */
void mrail_peer_request_lanes(mrail_peer_t *peer,
                              int all) MRAIL_DATA MRAIL_NO_CTL;

/* Returns the time of a peer's next keepalive. */
mrail_ns_t mrail_peer_next_keepalive(const mrail_engine_t *engine,
                                     mrail_ns_t now_ns);

/* Puts the peer on the list that progress visits, until it has nothing left to
 * wait for. */
void mrail_peer_activate(mrail_peer_t *peer) MRAIL_DATA;

/* Stores the peer's rails and pairs them with the local ones. */
void mrail_ctl_learn(mrail_peer_t *peer, const mrail_ctl_msg_t *msg) MRAIL_CTL;

#endif
