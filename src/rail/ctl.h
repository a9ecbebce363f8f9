/*
 * Shared by the four files of the control protocol; engine.h declares the
 * interface for the rest of the engine. All functions: control lock held.
 */
#ifndef MRAIL_RAIL_CTL_H
#define MRAIL_RAIL_CTL_H

#include "rail/engine.h"

/*
 * ---- ctl_send.c ----
 *
 * Functions return 0 or -errno. -EAGAIN: no send buffer is free, and nothing
 * was sent.
 */

/* Sends to a known peer over pair `way`, counted from the base. Each repeat
 * passes another `way`, so that it does not depend on one rail. */
int mrail_ctl_send_by(mrail_peer_t *peer, unsigned way, mrail_ctl_msg_t *msg);
/* Does the same, but uses the next pair with a send buffer if the selected one
 * has none. */
int mrail_ctl_send(mrail_peer_t *peer, unsigned way, mrail_ctl_msg_t *msg);
/* Sends a message without a body. */
int mrail_ctl_send_plain(mrail_peer_t *peer, mrail_ctl_type_t type,
                         uint32_t seq, unsigned way);
/* Sends HELLO to the bootstrap rail of an unknown peer, or to a known peer over
 * all rails in rotation. */
int mrail_ctl_send_hello(mrail_peer_t *peer, unsigned way);
/* Sends a request for the lane. Repeats rotate over the rails. */
int mrail_ctl_send_lane(mrail_lane_t *lane, mrail_ctl_type_t type);
/* Sends a reply for the lane over the rails of the request. */
int mrail_ctl_reply_lane(mrail_lane_t *lane, mrail_ctl_type_t type);
int mrail_ctl_send_refuse(mrail_peer_t *peer, unsigned slot, uint32_t seq,
                          mrail_ctl_reason_t reason);
/* Reports that this end does not know this epoch of the lane. */
int mrail_ctl_send_fail(mrail_peer_t *peer, unsigned slot, uint16_t epoch);
/* Reports that this end has finished with that epoch of the lane. */
int mrail_ctl_send_confirm(mrail_peer_t *peer, unsigned slot, uint16_t epoch,
                           uint32_t seq, uint16_t received);
/* Sends PROBE, PROBE_REP or MOVE_BACK over the path of a slot, from the UDP
 * source port of its lanes (0: any). */
int mrail_ctl_send_path(mrail_peer_t *peer, mrail_ctl_type_t type, uint32_t seq,
                        unsigned slot);
/* Sends MOVE in the same way. like: a slot, or MRAIL_MOVE_RANDOM. */
int mrail_ctl_send_move(mrail_peer_t *peer, uint32_t seq, unsigned slot,
                        unsigned like);
/* Drops the address handles of the rail; NULL: of all rails. */
void mrail_ctl_drop_handles(mrail_peer_t *peer, const mrail_rail_t *rail);
void mrail_ctl_fill_hello(const mrail_engine_t *engine, mrail_ctl_msg_t *msg,
                          mrail_ctl_type_t type);

/* ---- paths.c ---- */

void mrail_paths_init(mrail_peer_t *peer);
void mrail_path_event(mrail_peer_t *peer, unsigned slot,
                      mrail_health_event_t event, mrail_ns_t now_ns);
/* Reports a port event to every path that uses the rail. */
void mrail_paths_port(mrail_engine_t *engine, mrail_rail_t *rail,
                      mrail_health_event_t event, mrail_ns_t now_ns);
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

/* ---- move_lane.c: moves of lanes to other source ports ---- */

/* Compares the peer's lanes, at every tick of stall_detect.c, and moves one
 * that shares its path with others. Both locks held. */
void mrail_move_tick(mrail_peer_t *peer, mrail_ns_t now_ns);
/* Handles MOVE: the peer has detected that this end's data on the lane shares
 * its path. like: see mrail_ctl_send_move(). */
void mrail_move_on_request(mrail_lane_t *lane, unsigned like, uint32_t seq,
                           mrail_ns_t now_ns);
/* Handles MOVE_BACK: the MOVE with this number brought no gain. */
void mrail_move_on_request_back(mrail_lane_t *lane, uint32_t seq,
                                mrail_ns_t now_ns);
/* Continues a move. Returns its next deadline. */
mrail_ns_t mrail_move_run(mrail_lane_t *lane, mrail_ns_t now_ns);
/* Sends requests that waited for a send buffer. Returns the time of the next
 * attempt. */
mrail_ns_t mrail_move_run_requests(mrail_peer_t *peer, mrail_ns_t now_ns);

/* ---- ctl.c: due messages ---- */

#define MRAIL_CTL_RTO_MIN (20 * MRAIL_NS_PER_MS)
#define MRAIL_CTL_TRIES 60 /* about 30 s */
/* Interval at which a message that found no send buffer is tried again. */
#define MRAIL_CTL_NO_BUFFER (1 * MRAIL_NS_PER_MS)

/* Returns the time until the next repeat, after `tries` repeats. */
mrail_ns_t mrail_ctl_rto(unsigned tries);
/* Returns the time without any path after which the peer fails. */
mrail_ns_t mrail_ctl_peer_timeout(const mrail_peer_t *peer);
/* Fails the peer, because no path has led to it for that time. */
void mrail_ctl_give_up(mrail_peer_t *peer);
/* Learns the peer's rails and pairs them with the local ones. */
void mrail_ctl_learn(mrail_peer_t *peer, const mrail_ctl_msg_t *msg);
/* Fixes the base pair, on which both ends now agree. */
void mrail_ctl_agree_base(mrail_peer_t *peer, unsigned base);
/* Marks a connected lane as up. On a path that had failed, the lane must first
 * complete a READ (mrail_failover_validate()): datagrams may get through where
 * requests do not. */
void mrail_ctl_lane_up(mrail_lane_t *lane, const char *cause);
/* Sets the lane's bit, so that progress threads may use it. */
void mrail_ctl_lane_join(mrail_lane_t *lane);
/* Requests that a progress thread reap the lane. */
void mrail_ctl_reap_lane(mrail_lane_t *lane);

/* ---- ctl_request.c: lane requests ---- */

/* Returns 1 if the peer has no other lane for messages, up or requested, and
 * therefore depends on this one. */
int mrail_ctl_is_first(const mrail_peer_t *peer, unsigned slot);
/* Returns the UDP source port of a lane whose QP exists. The port depends on
 * the local NIC; see mrail_ports_own_lane(). */
uint16_t mrail_ctl_lane_port(const mrail_lane_t *lane);
/* Returns the lane of a slot and creates it if needed. NULL: no budget or no
 * memory is left. */
mrail_lane_t *mrail_ctl_get_lane(mrail_peer_t *peer, unsigned slot);
/* Enters the lane in the lane table. Completions of its QP now find it, so it
 * may be released only under the data-path lock. */
void mrail_ctl_list_lane(mrail_lane_t *lane);
/* Connects the QP, which can then receive. Returns 0 or -errno. */
int mrail_ctl_connect(mrail_lane_t *lane, const mrail_wire_lane_t *remote);
/* Connects a peer in this process, or the process itself, without messages.
 * Returns -EAGAIN if there is no room for its lane yet. */
int mrail_ctl_connect_self(mrail_peer_t *peer);
/* Returns the k-th slot in the order of requests. */
unsigned mrail_ctl_turn(const mrail_peer_t *peer, unsigned k);
/* Requests the lane of a slot if it is needed and missing. Returns the time of
 * the next call. */
mrail_ns_t mrail_ctl_poll_lane_request(mrail_peer_t *peer, unsigned slot,
                                       mrail_ns_t now_ns);
/* Lets a later large transfer request the lanes again for which there was no
 * room. Returns the time from which it may. */
mrail_ns_t mrail_ctl_run_retry(mrail_peer_t *peer, mrail_ns_t now_ns);
/* Drops a request that produced no lane. */
void mrail_ctl_drop_request(mrail_lane_t *lane, const char *cause);
/* Repeats a failed lane request with a new epoch. The peer's very first lane
 * also moves to the next pair of rails. */
void mrail_ctl_reconnect(mrail_lane_t *lane, const char *cause);
/* Handles failure to connect the QP: its port is gone, or the QP is in error.
 * Tells the peer, whose end is already connected, that the lane failed. If it
 * was the peer's very first lane, requests it again. */
void mrail_ctl_not_connected(mrail_lane_t *lane);
/* Handles the peer's refusal to grant the lane, now or ever. `reason` and the
 * text say why. */
void mrail_ctl_not_granted(mrail_lane_t *lane, unsigned reason,
                           const char *why);
/* Handles a lack of budget: the peer does without the lane for a while. */
void mrail_ctl_no_room(mrail_peer_t *peer, unsigned slot);
/* Handles an impossible lane: the peer does without it, or fails if it is the
 * first one. */
void mrail_ctl_refused(mrail_peer_t *peer, unsigned slot, const char *why);

#endif
