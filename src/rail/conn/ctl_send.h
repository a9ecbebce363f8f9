/* Building and sending control messages. Control lock held. */
#ifndef MRAIL_RAIL_CONN_CTL_SEND_H
#define MRAIL_RAIL_CONN_CTL_SEND_H

#include "rail/state/engine.h"

/*
 * Functions that return an int return 0 or -errno. -EAGAIN: no send buffer is
 * free, and nothing was sent.
 */

/* Sends to a known peer over rail pair `way`, counted from the base. Each
 * repeat should pass another `way`, so that delivery does not depend on one
 * rail. */
int mrail_ctl_send_by(mrail_peer_t *peer, unsigned way,
                      mrail_ctl_msg_t *msg) MRAIL_CTL;

/* Like mrail_ctl_send_by(), but if the selected pair has no send buffer, uses
 * the next one that has. */
int mrail_ctl_send(mrail_peer_t *peer, unsigned way,
                   mrail_ctl_msg_t *msg) MRAIL_CTL;

/* Sends a message without a body. */
int mrail_ctl_send_plain(mrail_peer_t *peer, mrail_ctl_type_t type,
                         uint32_t seq, unsigned way) MRAIL_CTL;

/* Sends HELLO to the bootstrap rail of an unknown peer, or to a known peer over
 * all rails in rotation. */
int mrail_ctl_send_hello(mrail_peer_t *peer, unsigned way) MRAIL_CTL;

/* Sends a request for the lane. Repeats rotate over the rails. */
int mrail_ctl_send_lane(mrail_lane_t *lane, mrail_ctl_type_t type) MRAIL_CTL;

/* Sends a reply for the lane over the rails of the request. */
int mrail_ctl_reply_lane(mrail_lane_t *lane, mrail_ctl_type_t type) MRAIL_CTL;

int mrail_ctl_send_refuse(mrail_peer_t *peer, unsigned slot, uint32_t seq,
                          mrail_ctl_reason_t reason) MRAIL_CTL;

/* Reports to the peer that this end does not know this epoch of the lane. */
int mrail_ctl_send_fail(mrail_peer_t *peer, unsigned slot,
                        uint16_t epoch) MRAIL_CTL;

/* Reports to the peer that this end has finished with this epoch of the
 * lane. */
int mrail_ctl_send_confirm(mrail_peer_t *peer, unsigned slot, uint16_t epoch,
                           uint32_t seq, uint16_t received) MRAIL_CTL;

/* Sends PROBE, PROBE_REP or MOVE_BACK over the path of a slot, from the UDP
 * source port of its lanes (0: any). */
int mrail_ctl_send_path(mrail_peer_t *peer, mrail_ctl_type_t type, uint32_t seq,
                        unsigned slot) MRAIL_CTL;

/* Sends MOVE over the path of a slot, like mrail_ctl_send_path(). `like` is a
 * slot or MRAIL_MOVE_RANDOM. */
int mrail_ctl_send_move(mrail_peer_t *peer, uint32_t seq, unsigned slot,
                        unsigned like) MRAIL_CTL;

/* Drops the address handles of the rail; NULL: of all rails. */
void mrail_ctl_drop_handles(mrail_peer_t *peer,
                            const mrail_rail_t *rail) MRAIL_CTL;
/* Drops only the address handles for the rails in the peer's address. */
void mrail_ctl_drop_boot_handles(mrail_peer_t *peer,
                                 const mrail_rail_t *rail) MRAIL_CTL;

void mrail_ctl_fill_hello(const mrail_engine_t *engine, mrail_ctl_msg_t *msg,
                          mrail_ctl_type_t type);

#endif
