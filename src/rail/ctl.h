/*
 * Shared by the four files of the control protocol; engine.h has the interface
 * for the rest of the engine. All functions: control lock held.
 */
#ifndef MRAIL_RAIL_CTL_H
#define MRAIL_RAIL_CTL_H

#include "rail/engine.h"

/* ---- ctl_send.c: 0 or -errno; -EAGAIN: no free send buffer, nothing sent
 * ---- */

/* Sends to a known peer. `way` selects the pair of rails, so that repeats do
 * not depend on one rail. */
int mrail_ctl_send_by(mrail_peer_t *peer, unsigned way, mrail_ctl_msg_t *msg);
/* The same; if that pair has no send buffer, the next pair with one is used. */
int mrail_ctl_send(mrail_peer_t *peer, unsigned way, mrail_ctl_msg_t *msg);
/* A message without a body. */
int mrail_ctl_send_plain(mrail_peer_t *peer, mrail_ctl_type_t type,
                         uint32_t seq, unsigned way);
/* HELLO to the bootstrap rail of an unknown peer, or over all rails of a known
 * peer in rotation. */
int mrail_ctl_send_hello(mrail_peer_t *peer, unsigned way);
/* A request for the lane. Repeats rotate over the rails. */
int mrail_ctl_send_lane(mrail_lane_t *lane, mrail_ctl_type_t type);
/* A reply for the lane. It takes the rails of the request. */
int mrail_ctl_reply_lane(mrail_lane_t *lane, mrail_ctl_type_t type);
int mrail_ctl_send_refuse(mrail_peer_t *peer, unsigned slot, uint32_t seq,
                          mrail_ctl_reason_t reason);
/* This end has no such epoch of the lane. */
int mrail_ctl_send_fail(mrail_peer_t *peer, unsigned slot, uint16_t epoch);
/* This end is done with that epoch of the lane. */
int mrail_ctl_send_confirm(mrail_peer_t *peer, unsigned slot, uint16_t epoch,
                           uint32_t seq, uint16_t received);
/* PROBE, PROBE_REP or MOVE_BACK over the path of a slot, from the UDP source port
 * of its lanes (0: any). */
int mrail_ctl_send_path(mrail_peer_t *peer, mrail_ctl_type_t type, uint32_t seq,
                        unsigned slot);
/* MOVE, likewise. like: a slot, or MRAIL_MOVE_RANDOM. */
int mrail_ctl_send_move(mrail_peer_t *peer, uint32_t seq, unsigned slot,
                        unsigned like);
/* Drops the address handles of the rail, or all (NULL). */
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
/* The GID table of the rail's port has changed: makes new address handles if
 * the GID has moved. */
void mrail_paths_readdress(mrail_engine_t *engine, mrail_rail_t *rail);
/* Moves slot 0 to another pair of rails before any lane was up. The state of a
 * path stays with its rails. */
void mrail_paths_rebase(mrail_peer_t *peer, unsigned base);
/* The base pair for which this slot is on these rails. */
unsigned mrail_paths_base(const mrail_peer_t *peer, unsigned slot,
                          unsigned local, unsigned remote);
/* A PROBE was answered. 0: the answer belongs to no probe. */
int mrail_path_answer(mrail_peer_t *peer, uint32_t seq, mrail_ns_t now_ns);
/* 1 if a lane may be requested on the path. */
int mrail_path_is_open(const mrail_peer_t *peer, unsigned slot);
/* Performs due work; returns the next deadline. */
mrail_ns_t mrail_path_run(mrail_peer_t *peer, unsigned slot, mrail_ns_t now_ns);

/* ---- move_lane.c: source ports by evidence ---- */

/* Compares the peer's lanes, at every tick of stall_detect.c, and moves one that
 * shares its path with others. Both locks held. */
void mrail_move_tick(mrail_peer_t *peer, mrail_ns_t now_ns);
/* MOVE: the peer sees that this end's data on the lane shares its path. like: see
 * mrail_ctl_send_move(). */
void mrail_move_on_request(mrail_lane_t *lane, unsigned like, uint32_t seq,
                           mrail_ns_t now_ns);
/* MOVE_BACK: the MOVE with this number brought no gain. */
void mrail_move_on_request_back(mrail_lane_t *lane, uint32_t seq,
                                mrail_ns_t now_ns);
/* Continues a move; returns its next deadline. */
mrail_ns_t mrail_move_run(mrail_lane_t *lane, mrail_ns_t now_ns);
/* Sends requests that waited for a send buffer; returns the time of the next
 * try. */
mrail_ns_t mrail_move_run_requests(mrail_peer_t *peer, mrail_ns_t now_ns);

/* ---- ctl.c: what is due ---- */

#define MRAIL_CTL_RTO_MIN (20 * MRAIL_NS_PER_MS)
#define MRAIL_CTL_TRIES 60 /* about 30 s */
/* Interval at which a message without a send buffer is tried again. */
#define MRAIL_CTL_NO_BUFFER (1 * MRAIL_NS_PER_MS)

/* Time until the next repeat, after `tries` repeats. */
mrail_ns_t mrail_ctl_rto(unsigned tries);
/* Time without any path after which the peer fails. */
mrail_ns_t mrail_ctl_peer_timeout(const mrail_peer_t *peer);
/* No path has led to the peer for that time: fails it. */
void mrail_ctl_give_up(mrail_peer_t *peer);
/* Learns the peer's rails and pairs them with ours. */
void mrail_ctl_learn(mrail_peer_t *peer, const mrail_ctl_msg_t *msg);
/* Both ends agree on the base pair from now on. */
void mrail_ctl_agree_base(mrail_peer_t *peer, unsigned base);
/* The lane is connected. On a path that had failed, it must first complete a
 * READ (mrail_failover_validate()): datagrams may get through where requests do
 * not. */
void mrail_ctl_lane_up(mrail_lane_t *lane, const char *cause);
/* Sets the lane's bit: the data path may use it. */
void mrail_ctl_lane_join(mrail_lane_t *lane);
/* Asks the data path to reap the lane. */
void mrail_ctl_reap_lane(mrail_lane_t *lane);

/* ---- ctl_request.c: lane requests ---- */

/* 1 if the peer has no other lane for messages, up or requested: the peer
 * depends on this lane. */
int mrail_ctl_is_first(const mrail_peer_t *peer, unsigned slot);
/* The UDP source port of a lane with a QP: that of the local NIC's lane; see
 * mrail_ports_own_lane(). */
uint16_t mrail_ctl_lane_port(const mrail_lane_t *lane);
/* The lane of a slot, created if needed. NULL: no budget or memory. */
mrail_lane_t *mrail_ctl_get_lane(mrail_peer_t *peer, unsigned slot);
/* Lists the lane: completions of its QP now find it, so it may be released only
 * under the data-path lock. */
void mrail_ctl_list_lane(mrail_lane_t *lane);
/* Connects the QP, which can then receive: 0 or -errno. */
int mrail_ctl_connect(mrail_lane_t *lane, const mrail_wire_lane_t *remote);
/* Connects a peer in this process, or the process itself, without messages.
 * -EAGAIN: there is no room for its lane yet. */
int mrail_ctl_connect_self(mrail_peer_t *peer);
/* The k-th slot in the order of requests. */
unsigned mrail_ctl_turn(const mrail_peer_t *peer, unsigned k);
/* Requests the lane of a slot if it is wanted and missing. Returns the time of
 * the next call. */
mrail_ns_t mrail_ctl_poll_lane_request(mrail_peer_t *peer, unsigned slot,
                                       mrail_ns_t now_ns);
/* Lets a later large transfer request refused lanes again. Returns that
 * time. */
mrail_ns_t mrail_ctl_run_retry(mrail_peer_t *peer, mrail_ns_t now_ns);
/* Drops a request that no lane followed. */
void mrail_ctl_drop_request(mrail_lane_t *lane, const char *cause);
/* The lane request failed. It is repeated with a new epoch; the first lane of
 * all moves to the next pair of rails. */
void mrail_ctl_reconnect(mrail_lane_t *lane, const char *cause);
/* The device cannot connect the QP: its port has gone, or the QP has failed.
 * The peer, which has its end, learns of a failed lane. The first lane of all
 * is requested anew. */
void mrail_ctl_not_connected(mrail_lane_t *lane);
/* The peer grants no lane, now or ever; `reason` and the text say why. */
void mrail_ctl_not_granted(mrail_lane_t *lane, unsigned reason,
                           const char *why);
/* There is no budget for the lane now: the peer does without it for a while. */
void mrail_ctl_no_room(mrail_peer_t *peer, unsigned slot);
/* The lane is impossible: the peer does without it, or fails if it is the first
 * one. */
void mrail_ctl_refused(mrail_peer_t *peer, unsigned slot, const char *why);

#endif
