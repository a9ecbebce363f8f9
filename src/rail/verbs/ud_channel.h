/* The control channel of a rail: a UD QP with its buffers. */
#ifndef MRAIL_RAIL_VERBS_UD_CHANNEL_H
#define MRAIL_RAIL_VERBS_UD_CHANNEL_H

#include "rail/verbs/rail.h"

/* Sends a datagram on the control channel. If no send buffer is free, sends
 * nothing and returns -EAGAIN; the channel gets an event when a buffer returns.
 * If no buffer has returned for a second, returns -EIO, and the datagram counts
 * as lost. Control lock held. */
int mrail_rail_ud_send(mrail_rail_t *rail, struct ibv_ah *ah, uint32_t qpn,
                       const void *data, size_t length) MRAIL_CTL;

/* Returns the number of datagrams that mrail_rail_ud_send() can accept now.
 * Control lock held. */
unsigned mrail_rail_ud_room(mrail_rail_t *rail);

/* Calls `func` for each received datagram, up to about MRAIL_UD_RECV_MAX, but
 * only while a send buffer is free for an answer. Ends early if `func` sets
 * rail->ud_pause. Returns the number of datagrams. */
#define MRAIL_UD_RECV_MAX 64

typedef void (*mrail_ud_func_t)(void *arg, mrail_rail_t *rail, const void *data,
                                size_t length);

unsigned mrail_rail_ud_poll(mrail_rail_t *rail, mrail_ud_func_t func,
                            void *arg) MRAIL_CTL;

/* Discards received datagrams, while the engine is closing. */
void mrail_rail_ud_reap(mrail_rail_t *rail) MRAIL_CTL;

int mrail_rail_ud_open(mrail_rail_t *rail);

#endif
