/*
 * Work that the control thread has for a peer: its schedule, its time limits,
 * and the failure of the peer.
 */
#ifndef MRAIL_RAIL_CONN_CTL_WORK_H
#define MRAIL_RAIL_CONN_CTL_WORK_H

#include "rail/state/engine.h"

#define MRAIL_CTL_RTO_MAX (500 * MRAIL_NS_PER_MS)

/* Requests that the control thread visit the peer when it next wakes up.
 * Control lock held. */
void mrail_ctl_work(mrail_peer_t *peer) MRAIL_CTL;

/* Returns 1 if the peer may connect now. If not, returns 0, and the control
 * thread visits the peer again when another one has connected. Control lock
 * held. */
int mrail_ctl_may_connect(mrail_peer_t *peer);

/* Lets another peer connect, because this one has connected or failed, or is
 * silent. Control lock held. */
void mrail_ctl_connected(mrail_peer_t *peer) MRAIL_CTL;

/* Starts a liveness check of the peer's control thread. The peer fails if no
 * answer arrives. Control lock held. */
void mrail_ctl_probe(mrail_peer_t *peer) MRAIL_CTL;

/* Marks the peer as failed with `status`, unless it already is. */
void mrail_ctl_peer_failed(mrail_peer_t *peer, int status);

#define MRAIL_CTL_RTO_MIN (20 * MRAIL_NS_PER_MS)

#define MRAIL_CTL_TRIES 60 /* about 30 s */

/* Maximum number of peers that connect at the same time. With more, answers
 * would overflow the receive queues of the control channel, and each lost
 * answer costs a retransmission. */
#define MRAIL_CTL_CONNECTING 256

/* Repeats after which a silent peer lets others connect. */
#define MRAIL_CTL_SILENT 3

/* Schedules a visit to the peer for when a send buffer may be free. Returns
 * MRAIL_NS_NEVER, which callers return as their deadline. Control lock held. */
mrail_ns_t mrail_ctl_await_buffer(mrail_peer_t *peer);

/* Retry interval of a message that found no send buffer. */
#define MRAIL_CTL_NO_BUFFER (1 * MRAIL_NS_PER_MS)

/* Returns the retransmission timeout after `tries` repeats. */
mrail_ns_t mrail_ctl_rto(unsigned tries);

/* Returns the time without any path after which the peer fails. */
mrail_ns_t mrail_ctl_peer_timeout(const mrail_peer_t *peer);

/* Fails the peer, because it has been unreachable for the peer timeout. */
void mrail_ctl_give_up(mrail_peer_t *peer) MRAIL_CTL;

#endif
