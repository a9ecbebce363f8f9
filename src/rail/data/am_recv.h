/* Handles received active messages: order, delivery and acknowledgement. */
#ifndef MRAIL_RAIL_DATA_AM_RECV_H
#define MRAIL_RAIL_DATA_AM_RECV_H

#include "rail/state/engine.h"

void mrail_am_recv(mrail_engine_t *engine, mrail_rx_t *rx,
                   const struct ibv_wc *wc) MRAIL_DATA MRAIL_NO_CTL;

#endif
