/*
 * Sends the direct messages of a planned exchange as RDMA READs over the
 * receiver's rails, each of which carries the bytes that the plan assigned to
 * it. Like a rendezvous of the pml, a READ takes two small messages:
 *
 *   sender                                   receiver
 *     offer: address, length, key  -------->
 *                                  <======   READ, with a quota for each rail
 *                                  <-------- answer
 *
 * Within a node, the sender exports device memory instead, and the copy engine
 * of the receiver copies from it over the links between GPUs (peer.h).
 *
 * If either side cannot register its memory, or a device rejects the READ, the
 * offer or the answer reports it, and the pml sends the bytes as a message. If
 * the peer is lost, the call fails.
 *
 * A slow rail must not delay the exchange: after twice the time that the plan
 * forecasts, plus 10 ms, any rail may carry the remaining bytes.
 */
#ifndef MRAIL_MPI_COLL_DIRECT_H
#define MRAIL_MPI_COLL_DIRECT_H

#include "mpi/coll/mrail_coll.h"

#include <stddef.h>

/* ---- process ---- */

/* Looks up the functions of the transport. `transport` is its dlopen(3)
 * handle. */
void mca_coll_mrail_direct_find(void *transport);
/* `is_threaded` is 1 if several threads may call MPI at the same time. */
void mca_coll_mrail_direct_init(int is_threaded);
/* Fills in the address and the lanes of this process. */
void mca_coll_mrail_direct_entry_fill(mca_coll_mrail_rank_entry_t *entry);
void mca_coll_mrail_direct_close(void);
/* Returns the functions of the transport, or NULL. */
const uct_mrail_direct_ops_t *mca_coll_mrail_direct_ops(void);
/* Returns the endpoint to a rank of the module's communicator, or NULL if it
 * cannot be created. */
uct_mrail_direct_ep_t *
mca_coll_mrail_direct_ep(const mca_coll_mrail_module_t *module, uint32_t rank);

/* ---- module ---- */

/* Allocates the memory for the READs of module->schedule. Returns 0 or
 * -ENOMEM. */
int mca_coll_mrail_direct_reserve(mca_coll_mrail_module_t *module);
void mca_coll_mrail_direct_destroy(mca_coll_mrail_direct_t *direct);

/* ---- exchange ---- */

/* Start one direct message of the schedule. */
void mca_coll_mrail_direct_send(mca_coll_mrail_op_t *op,
                                const mca_coll_mrail_schedule_entry_t *entry);
void mca_coll_mrail_direct_recv(mca_coll_mrail_op_t *op,
                                const mca_coll_mrail_schedule_entry_t *entry);
/* Returns the time at which the quotas expire if the exchange begins now, in
 * nanoseconds of mrail_clock_now(). */
uint64_t mca_coll_mrail_direct_until(const mca_coll_mrail_schedule_t *schedule);
/* Returns 1 while direct messages are in progress. Stores errors in op->ret. */
int mca_coll_mrail_direct_progress(mca_coll_mrail_op_t *op);

#endif
