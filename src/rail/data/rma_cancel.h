/* Handles operations that end early because a device rejected them or the user
 * cancelled them. */
#ifndef MRAIL_RAIL_DATA_RMA_CANCEL_H
#define MRAIL_RAIL_DATA_RMA_CANCEL_H

#include "rail/state/engine.h"

/* Fails an operation that a device has rejected and would reject on any lane.
 * The endpoints of its iface to the peer fail as well. Other operations
 * continue. */
void mrail_rma_reject(mrail_op_t *op, const char *cause) MRAIL_DATA;

/* Like mrail_rma_reject(), for a small PUT. */
void mrail_rma_reject_put(mrail_peer_t *peer, mrail_tx_t *tx,
                          const char *cause) MRAIL_DATA;

/* Completes the operations of the endpoint with -ECANCELED, immediately or when
 * the devices have returned their chunks. Calls no callbacks. */
void mrail_rma_cancel(mrail_ep_t *ep) MRAIL_DATA;

/* Returns 1 if the endpoint has an incomplete operation. */
int mrail_rma_has_ep(const mrail_peer_t *peer, uint64_t ep_id);

/* Cancels one operation and drops its unposted bytes. It completes when the
 * devices have returned its chunks. */
void mrail_op_cancel(mrail_op_t *op) MRAIL_DATA;

#endif
