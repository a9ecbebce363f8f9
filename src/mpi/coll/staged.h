/*
 * Messages of the pml between device memory. The CPU cannot access device
 * memory, so the copy engine moves the bytes through the shadow (shadow.h):
 *
 *   sender   device memory --copy--> shadow --message-->
 *   receiver --message--> shadow --copy--> device memory
 *
 * A message may be cut into chunks, so that copies and messages overlap. Both
 * ends must use the same chunks. One end may have its buffer in host memory.
 */
#ifndef MRAIL_MPI_COLL_STAGED_H
#define MRAIL_MPI_COLL_STAGED_H

#include "mpi/coll/mrail_coll.h"

/* Allocates memory for the messages of an op. Later calls have no effect.
 * Returns 0 or -ENOMEM. */
int mca_coll_mrail_staged_reserve(mca_coll_mrail_op_t *op);
void mca_coll_mrail_staged_destroy(mca_coll_mrail_staged_t *staged);

/* Returns 1 if this code handles the message of the entry. */
static inline int
mca_coll_mrail_is_staged(const mca_coll_mrail_dt_segment_t *segment,
                         const mca_coll_mrail_schedule_entry_t *entry)
{
    return segment->is_device || entry->is_chunked;
}

/* Start a message. Each pair of ranks has at most one message in each
 * direction. */
void mca_coll_mrail_staged_send(mca_coll_mrail_op_t *op,
                                const mca_coll_mrail_schedule_entry_t *entry);
void mca_coll_mrail_staged_recv(mca_coll_mrail_op_t *op,
                                const mca_coll_mrail_schedule_entry_t *entry);
/* Returns 1 while messages are in progress. Stores errors in op->ret. */
int mca_coll_mrail_staged_progress(mca_coll_mrail_op_t *op);

#endif
