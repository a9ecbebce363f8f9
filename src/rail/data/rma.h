/* Declares PUT and GET. */
#ifndef MRAIL_RAIL_DATA_RMA_H
#define MRAIL_RAIL_DATA_RMA_H

#include "rail/state/engine.h"

/* Returns the operation with this id, or NULL if it is complete. */
mrail_op_t *mrail_rma_find(const mrail_peer_t *peer, uint64_t id) MRAIL_DATA;

/* Prepares an operation that uses a registered buffer of the engine. Returns
 * NULL, with the error in *ret_p, on failure. */
mrail_op_t *mrail_rma_bounce(mrail_ep_t *ep, mrail_op_kind_t kind,
                             mrail_pool_t *pool, void *comp,
                             int *ret_p) MRAIL_DATA;

/* Submits the operation that mrail_rma_bounce() has prepared. Cannot fail. */
void mrail_rma_submit_bounce(mrail_op_t *op, size_t length,
                             uint64_t remote_address,
                             const mrail_rkey_t *rkey) MRAIL_DATA;

#endif
