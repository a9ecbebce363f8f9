/* Received control messages. Control lock held. */
#ifndef MRAIL_RAIL_CONN_CTL_RECV_H
#define MRAIL_RAIL_CONN_CTL_RECV_H

#include "rail/state/engine.h"

void mrail_ctl_receive(void *arg, mrail_rail_t *rail, const void *data,
                       size_t length) MRAIL_CTL;

#endif
