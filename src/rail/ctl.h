/*
 * Shared by the four files of the control protocol; engine.h has the interface
 * for the rest of the engine. All functions: control lock held.
 */
#ifndef MRAIL_RAIL_CTL_H
#define MRAIL_RAIL_CTL_H

#include "rail/engine.h"

/* ---- ctl_send.c ----------------------------------------------------------
 * All return 0 or -errno.  -EAGAIN: no send buffer is free, nothing was sent.
 */

/* Sends to a known peer.  `way` varies the pair of rails, so that repeats do
 * not depend on one rail. */
int mrail_ctl_send_by(mrail_peer_t *peer, unsigned way, mrail_ctl_msg_t *msg);
/* The same; if that pair has no send buffer, over the next one that has. */
int mrail_ctl_send(mrail_peer_t *peer, unsigned way, mrail_ctl_msg_t *msg);
/* A message without a body. */
int mrail_ctl_send_plain(mrail_peer_t *peer, mrail_ctl_type_t type,
                         uint32_t seq, unsigned way);
/* HELLO to the bootstrap rail of a peer that is not known yet; to one that is,
 * over its rails in turn. */
int mrail_ctl_send_hello(mrail_peer_t *peer, unsigned way);
/* A question about the lane: repeats take other rails in turn. */
int mrail_ctl_send_lane(mrail_lane_t *lane, mrail_ctl_type_t type);
/* ... or an answer, which takes the way that the question came. */
int mrail_ctl_reply_lane(mrail_lane_t *lane, mrail_ctl_type_t type);
int mrail_ctl_send_refuse(mrail_peer_t *peer, unsigned slot, uint32_t seq,
                          mrail_ctl_reason_t reason);
/* That life of the lane has no end here. */
int mrail_ctl_send_fail(mrail_peer_t *peer, unsigned slot, uint16_t epoch);
/* Nothing of that life of the lane is left here. */
int mrail_ctl_send_confirm(mrail_peer_t *peer, unsigned slot, uint16_t epoch,
                           uint32_t seq, uint16_t received);
/* PROBE or PROBE_REP over the path of a slot, from the UDP source port that its
 * lanes have (0: any). */
int mrail_ctl_send_path(mrail_peer_t *peer, mrail_ctl_type_t type, uint32_t seq,
                        unsigned slot, uint16_t sport);
/* Forgets the address handles of the rail, or all (NULL). */
void mrail_ctl_drop_handles(mrail_peer_t *peer, const mrail_rail_t *rail);
void mrail_ctl_fill_hello(const mrail_engine_t *engine, mrail_ctl_msg_t *msg,
                          mrail_ctl_type_t type);

/* ---- paths.c ---- */

void mrail_paths_init(mrail_peer_t *peer);
void mrail_path_event(mrail_peer_t *peer, unsigned slot,
                      mrail_health_event_t event, mrail_ns_t now_ns);
/* ... on every path that uses the rail. */
void mrail_paths_port(mrail_engine_t *engine, mrail_rail_t *rail,
                      mrail_health_event_t event, mrail_ns_t now_ns);
/* The table of the rail's port has changed: new address handles, if the GID has
 * another index now. */
void mrail_paths_readdress(mrail_engine_t *engine, mrail_rail_t *rail);
/* Before any lane has been up, another pair of rails comes first: what is known
 * of paths goes with their rails. */
void mrail_paths_rebase(mrail_peer_t *peer, unsigned base);
/* The pair that slots are counted from, if this slot is on these rails. */
unsigned mrail_paths_base(const mrail_peer_t *peer, unsigned slot,
                          unsigned local, unsigned remote);
/* A PROBE has been answered: 0 if it is none of ours. */
int mrail_path_answer(mrail_peer_t *peer, uint32_t seq, mrail_ns_t now_ns);
/* Whether a lane may be asked for on the path. */
int mrail_path_is_open(const mrail_peer_t *peer, unsigned slot);
/* Performs due work; returns the next deadline. */
mrail_ns_t mrail_path_run(mrail_peer_t *peer, unsigned slot, mrail_ns_t now_ns);

/* ---- ctl.c: what is due ---- */

#define MRAIL_CTL_RTO_MIN (20 * MRAIL_NS_PER_MS)
#define MRAIL_CTL_TRIES 60 /* about 30 s */
/* A message without a send buffer is sent at the next event or after this. */
#define MRAIL_CTL_NO_BUFFER (1 * MRAIL_NS_PER_MS)

/* Until the next repeat, after so many. */
mrail_ns_t mrail_ctl_rto(unsigned tries);
/* How long nothing may lead to the peer. */
mrail_ns_t mrail_ctl_peer_timeout(const mrail_peer_t *peer);
/* Nothing leads to the peer, and did not for that long. */
void mrail_ctl_give_up(mrail_peer_t *peer);
/* The peer's rails are known: which of ours meets which of its. */
void mrail_ctl_learn(mrail_peer_t *peer, const mrail_ctl_msg_t *msg);
/* Both ends count slots from this pair, from now on. */
void mrail_ctl_agree_base(mrail_peer_t *peer, unsigned base);
/* The lane is connected.  On a path that had failed it has to carry a READ first
 * (mrail_failover_validate()): datagrams may get through where requests do not. */
void mrail_ctl_lane_up(mrail_lane_t *lane, const char *cause);
/* The lane's bit tells the data path that it may use it. */
void mrail_ctl_lane_join(mrail_lane_t *lane);
/* The data path buries the lane. */
void mrail_ctl_reap_lane(mrail_lane_t *lane);

/* ---- ctl_request.c: asking for lanes ---- */

/* Whether the peer has no other lane for messages, nor one that is on its way:
 * it cannot go without this one. */
int mrail_ctl_is_first(const mrail_peer_t *peer, unsigned slot);
/* The lane of a slot, made if there is none; NULL: no budget or memory. */
mrail_lane_t *mrail_ctl_get_lane(mrail_peer_t *peer, unsigned slot);
/* From here on completions of its QP find the lane, so it may be released only
 * under the data-path lock. */
void mrail_ctl_list_lane(mrail_lane_t *lane);
/* Makes the QP a lane that can be received on: 0 or -errno. */
int mrail_ctl_connect(mrail_lane_t *lane, const mrail_wire_lane_t *remote);
/* A peer in this very process, or the process itself: no messages needed.
 * -EAGAIN: there is no room for its lane yet. */
int mrail_ctl_connect_self(mrail_peer_t *peer);
/* The slot whose turn to be asked for is the k-th. */
unsigned mrail_ctl_turn(const mrail_peer_t *peer, unsigned k);
/* Asks for the lane of a slot, if it is wanted and not there: the time to look
 * again. */
mrail_ns_t mrail_ctl_poll_lane_request(mrail_peer_t *peer, unsigned slot,
                                       mrail_ns_t now_ns);
/* After a while the next large transfer may ask again: the time of that. */
mrail_ns_t mrail_ctl_run_retry(mrail_peer_t *peer, mrail_ns_t now_ns);
/* A request that was never answered with a lane that connects: it is over. */
void mrail_ctl_drop_request(mrail_lane_t *lane, const char *cause);
/* Nothing came of the request for a lane: it is asked for again, with a new
 * number, and the first one of all over the next pair of rails. */
void mrail_ctl_reconnect(mrail_lane_t *lane, const char *cause);
/* The device does not connect the QP: its port has just gone, or the QP has
 * failed.  The peer has its end, and is told like of any lane that fails; the
 * first one of all is asked for anew. */
void mrail_ctl_not_connected(mrail_lane_t *lane);
/* The peer has no lane for us, now or ever, by its reason and in words. */
void mrail_ctl_not_granted(mrail_lane_t *lane, unsigned reason,
                           const char *why);
/* There is no budget for the lane now: the peer goes without it for a while. */
void mrail_ctl_no_room(mrail_peer_t *peer, unsigned slot);
/* A lane that cannot be: the peer goes without it, or fails if it is the
 * first one. */
void mrail_ctl_refused(mrail_peer_t *peer, unsigned slot, const char *why);

#endif
