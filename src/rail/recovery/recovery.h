/*
 * Declares failover, eviction, stall detection and the end of a peer. Calls
 * data/, conn/ and lower layers.
 */
#ifndef MRAIL_RAIL_RECOVERY_RECOVERY_H
#define MRAIL_RAIL_RECOVERY_RECOVERY_H

#include "rail/state/engine.h"

/* ---- Failover: closes a failed lane and replays the work that it did not
 * deliver (failover.c) ---- */

/* Starts the failover of requested lanes. */
void mrail_failover_start(mrail_peer_t *peer) MRAIL_BOTH;

/* Continues the failover while the peer is recovering. */
void mrail_failover_run(mrail_peer_t *peer, mrail_ns_t now_ns) MRAIL_DATA;

/* Detaches undelivered messages from the lane. They return no credits, and
 * their buffers are no longer reserved for a lane. */
void mrail_failover_disown(mrail_lane_t *lane) MRAIL_BOTH;

/* Continues the lane's path validation. */
void mrail_failover_validate(mrail_lane_t *lane, mrail_ns_t now_ns) MRAIL_BOTH;

/* Ends the recovery, because the replay is complete or the peer has failed. */
void mrail_failover_end(mrail_peer_t *peer) MRAIL_DATA;

/* Moves the QP to the error state, in which it neither sends nor receives. If
 * this fails, destroys the QP; completions that are already in the CQ
 * remain. */
void mrail_lane_stop(mrail_lane_t *lane) MRAIL_BOTH;

/* Returns 1 if the device has not returned all requests of a QP in the error
 * state in time, and no completion is left to handle. */
int mrail_lane_is_overdue(const mrail_lane_t *lane,
                          mrail_ns_t now_ns) MRAIL_DATA;

/* Destroys the QP of an overdue lane. Afterwards, the device no longer accesses
 * the memory of its requests. */
void mrail_lane_give_up_qp(mrail_lane_t *lane) MRAIL_BOTH;

/* ---- Eviction of lanes that conn/qp_budget.c has chosen (evict.c) ---- */

/* Continues evictions that are in progress. */
void mrail_evict_check(mrail_peer_t *peer, mrail_ns_t now_ns) MRAIL_DATA;

/* Returns 1 if the peer has no eviction to continue. */
static inline int mrail_evict_is_idle(const mrail_peer_t *peer)
{
    return __atomic_load_n(&peer->evict_mask, __ATOMIC_ACQUIRE) == 0;
}

/* ---- Stall detection, for lanes whose packets are lost silently, and
 * keepalive (stall_detect.c) ---- */

#define MRAIL_STALL_TICK (25 * MRAIL_NS_PER_MS)

/* Checks the lanes of all peers in engine->stalling. */
void mrail_stall_tick(mrail_engine_t *engine, mrail_ns_t now_ns) MRAIL_BOTH;

/* Checks some of the peers whose keepalive is due. Returns the time of the next
 * call. */
mrail_ns_t mrail_stall_keepalive(mrail_engine_t *engine,
                                 mrail_ns_t now_ns) MRAIL_BOTH;

/* ---- The end of a failed peer (peer_end.c) ---- */

/* Frees a failed peer in the next progress call if its last endpoint has been
 * destroyed. */
void mrail_peer_release(mrail_peer_t *peer) MRAIL_DATA;

/* Frees failed peers that are unused. Must be called outside all callbacks and
 * iterations over peers, so that callers do not refer to a freed peer. */
void mrail_peer_reap(mrail_engine_t *engine) MRAIL_DATA;

/* Starts the failure of the peer: stops its QPs, and marks its endpoints as
 * failed. Calls no callbacks, so the control lock may be held. */
void mrail_peer_start_fail(mrail_peer_t *peer, int status) MRAIL_BOTH;

/* Tries to end a failed peer. Must be called until peer->dead is 2. Returns 1
 * once, when the devices have returned all requests. */
int mrail_peer_try_end(mrail_peer_t *peer) MRAIL_DATA;

/* Fails all pending operations with `status`, after mrail_peer_try_end() has
 * returned 1. Calls callbacks, so the control lock must not be held. */
void mrail_peer_fail(mrail_peer_t *peer, int status) MRAIL_DATA MRAIL_NO_CTL;

#endif
