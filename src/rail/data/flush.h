/* Fences and flushes in progress. Data-path lock held. */
#ifndef MRAIL_RAIL_DATA_FLUSH_H
#define MRAIL_RAIL_DATA_FLUSH_H

#include "rail/state/engine.h"

/* Finishes all flushes and fences that are complete. */
void mrail_flush_check(mrail_peer_t *peer,
                       mrail_ns_t now_ns) MRAIL_DATA MRAIL_NO_CTL;

/* Finishes all flushes and fences of the peer with `status`. */
void mrail_flush_fail(mrail_peer_t *peer, int status) MRAIL_DATA MRAIL_NO_CTL;

/* Makes the flushes of the endpoint complete with -ECANCELED, after its
 * operations. */
void mrail_flush_cancel(mrail_ep_t *ep) MRAIL_DATA;

/* Decrements num_fences, the number of reasons for holding back posts. */
void mrail_flush_open(mrail_peer_t *peer) MRAIL_DATA;

/* Requests new visibility READs, because the data of a failed lane is being
 * written again. */
void mrail_flush_again(mrail_peer_t *peer) MRAIL_DATA;

/* Returns the first fence that holds back posts. Returns NULL if there is none,
 * or if an ordered lane preserves the order. */
const mrail_flush_t *mrail_flush_barrier(const mrail_peer_t *peer) MRAIL_DATA;

/* Returns 1 if no operation is in flight and every write has been followed by a
 * READ. READs in flight count as operations. */
int mrail_rma_idle(const mrail_peer_t *peer);

/* Adds a flush or fence that covers all earlier messages and operations.
 * `group` is NULL for a fence. Returns NULL if memory runs out. */
mrail_flush_t *mrail_flush_add(mrail_peer_t *peer, mrail_flush_kind_t kind,
                               mrail_flush_group_t *group) MRAIL_DATA;

#endif
