/*
 * The end of a failed peer: its QPs stop, the devices return all requests, and
 * only then do its operations fail.
 */
#ifndef MRAIL_RAIL_RECOVERY_PEER_END_H
#define MRAIL_RAIL_RECOVERY_PEER_END_H

#include "rail/state/engine.h"

/* Frees a failed peer in the next progress call if its last endpoint is gone.
 * Data-path lock held. */
void mrail_peer_release(mrail_peer_t *peer) MRAIL_DATA;

/* Frees failed peers that are unused. Data-path lock held. It must be called
 * outside all callbacks and iterations over peers, so that no caller refers to
 * a freed peer. */
void mrail_peer_reap(mrail_engine_t *engine) MRAIL_DATA;

/* Fails the peer: nothing more is sent to it. Calls no callback, so the control
 * lock may be held. Data-path lock held. */
void mrail_peer_start_fail(mrail_peer_t *peer, int status) MRAIL_BOTH;

/* Tries to end a failed peer. Must be called until peer->dead is 2. Returns 1
 * once, when the devices have returned all requests. */
int mrail_peer_try_end(mrail_peer_t *peer) MRAIL_DATA;

/* Fails all pending operations with `status`, after mrail_peer_try_end() has
 * returned 1. Callbacks run: the control lock must not be held. */
void mrail_peer_fail(mrail_peer_t *peer, int status) MRAIL_DATA MRAIL_NO_CTL;

#endif
