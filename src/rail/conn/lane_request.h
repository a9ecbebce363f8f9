/* Lane requests. Control lock held. */
#ifndef MRAIL_RAIL_CONN_LANE_REQUEST_H
#define MRAIL_RAIL_CONN_LANE_REQUEST_H

#include "rail/state/engine.h"

/* Returns 1 if the peer has no other lane for messages, up or requested, and
 * therefore depends on this one. */
int mrail_ctl_is_first(const mrail_peer_t *peer, unsigned slot);

/* Sets the UDP source port of a lane whose QP exists, and the uplink that the
 * peer's port selects. The port depends on the local NIC; see
 * mrail_ports_own_lane(). */
void mrail_ctl_choose_port(mrail_lane_t *lane);

/* Returns the lane of a slot and creates it if needed. NULL: no budget or no
 * memory is left. */
mrail_lane_t *mrail_ctl_get_lane(mrail_peer_t *peer, unsigned slot) MRAIL_CTL;

/* Enters the lane in the lane table. Completions of its QP now refer to it, so
 * it may be released only under the data-path lock. */
void mrail_ctl_list_lane(mrail_lane_t *lane) MRAIL_CTL;

/* Connects the QP so that it can receive. Returns 0 or -errno. */
int mrail_ctl_connect(mrail_lane_t *lane,
                      const mrail_wire_lane_t *remote) MRAIL_CTL;

/* Connects a peer in this process, or the process to itself, without messages.
 * Returns -EAGAIN if there is no room for the lane yet. */
int mrail_ctl_connect_self(mrail_peer_t *peer) MRAIL_BOTH;

/* Returns the k-th slot in the order of requests. */
unsigned mrail_ctl_turn(const mrail_peer_t *peer, unsigned k);

/* Requests the lane of a slot if it is needed and missing. Returns the time of
 * the next call. */
mrail_ns_t mrail_ctl_poll_lane_request(mrail_peer_t *peer, unsigned slot,
                                       mrail_ns_t now_ns) MRAIL_CTL;

/* Allows a later large transfer to repeat requests for lanes that found no
 * room. Returns the earliest time for this. */
mrail_ns_t mrail_ctl_run_retry(mrail_peer_t *peer, mrail_ns_t now_ns) MRAIL_CTL;

/* Drops a request that produced no lane. */
void mrail_ctl_drop_request(mrail_lane_t *lane, const char *cause) MRAIL_BOTH;

/* Repeats a failed lane request with a new epoch. The peer's very first lane
 * also moves to the next pair of rails. */
void mrail_ctl_reconnect(mrail_lane_t *lane, const char *cause) MRAIL_BOTH;

/* Handles a failure to connect the QP, because its port is gone or the QP is in
 * the error state. Notifies the peer, whose end is already connected, that the
 * lane has failed. If it was the very first lane to the peer, requests it
 * again. */
void mrail_ctl_not_connected(mrail_lane_t *lane) MRAIL_BOTH;

/* Handles the peer's refusal to grant the lane, now or ever, for `reason`. */
void mrail_ctl_not_granted(mrail_lane_t *lane, unsigned reason,
                           const char *why) MRAIL_BOTH;

/* Handles a lack of QP budget: the peer does without the lane for a while. */
void mrail_ctl_no_room(mrail_peer_t *peer, unsigned slot) MRAIL_CTL;

/* Handles an impossible lane: the peer does without it, or fails if it is the
 * first one. */
void mrail_ctl_refused(mrail_peer_t *peer, unsigned slot,
                       const char *why) MRAIL_CTL;

#endif
