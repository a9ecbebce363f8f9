/*
 * Direct messages of a planned exchange as RDMA READs over the receiver's
 * rails, each of which carries the bytes that the plan gave it. A READ takes
 * two small messages, like a rendezvous of the pml:
 *
 *   sender                                   receiver
 *     offer: address, length, key  -------->
 *                                  <======   READ, with a quota for each rail
 *                                  <-------- answer
 *
 * Either side may be unable to register its memory, and a device may refuse the
 * READ. The offer or the answer then says so, and the bytes follow as a message
 * of the pml. If the peer is lost, the call ends with an error.
 *
 * A rail that lags must not delay the exchange: after twice the time that the
 * plan forecasts, and 10 ms, any rail takes the bytes that are left.
 */
#ifndef MRAIL_MPI_COLL_DIRECT_H
#define MRAIL_MPI_COLL_DIRECT_H

#include "mpi/coll/mrail_coll.h"

#include <stddef.h>

/* ---- process ---- */

/* Looks up the functions of the transport, whose dlopen(3) handle this is. */
void mca_coll_mrail_direct_find(void *transport);
/* is_threaded: several threads may call MPI at the same time. */
void mca_coll_mrail_direct_init(int is_threaded);
/* Fills in the address and the lanes of this process. */
void mca_coll_mrail_direct_entry_fill(mca_coll_mrail_rank_entry_t *entry);
void mca_coll_mrail_direct_close(void);

/* ---- module ---- */

/* Allocates what the READs of module->schedule need. Returns 0 or -ENOMEM. */
int mca_coll_mrail_direct_reserve(mca_coll_mrail_module_t *module);
void mca_coll_mrail_direct_destroy(mca_coll_mrail_direct_t *direct);

/* ---- exchange ---- */

/* Start one READ of the schedule. */
void mca_coll_mrail_direct_send(mca_coll_mrail_op_t *op,
                                const mca_coll_mrail_schedule_entry_t *entry);
void mca_coll_mrail_direct_recv(mca_coll_mrail_op_t *op,
                                const mca_coll_mrail_schedule_entry_t *entry);
/* Returns 1 while READs are in progress. Errors go to op->ret. */
int mca_coll_mrail_direct_progress(mca_coll_mrail_op_t *op);

#endif
