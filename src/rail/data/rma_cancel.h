/* Operations that end early: refused by a device, or cancelled. */
#ifndef MRAIL_RAIL_DATA_RMA_CANCEL_H
#define MRAIL_RAIL_DATA_RMA_CANCEL_H

#include "rail/state/engine.h"

/* Fails an operation that a device has refused and would refuse on any lane.
 * The endpoints of its iface to the peer fail with it. Other operations
 * continue. */
void mrail_rma_reject(mrail_op_t *op, const char *cause) MRAIL_DATA;

/* Does the same for a small PUT. */
void mrail_rma_reject_put(mrail_peer_t *peer, mrail_tx_t *tx,
                          const char *cause) MRAIL_DATA;

/* Ends the operations of the endpoint with -ECANCELED, immediately or when the
 * devices have returned their chunks. Calls no callback. */
void mrail_rma_cancel(mrail_ep_t *ep) MRAIL_DATA;

/* Returns 1 if an operation of the endpoint has not ended. */
int mrail_rma_has_ep(const mrail_peer_t *peer, uint64_t ep_id);

/* Cancels one operation and drops its unposted bytes. It ends when the devices
 * have returned its chunks. */
void mrail_op_cancel(mrail_op_t *op) MRAIL_DATA;

#endif
