/*
 * A datatype segment: the user memory, with its datatype, that a rank sends to
 * or receives from one other rank in a collective. Bytes are addressed in the
 * order of the type signature, and any offset is allowed.
 */
#ifndef MRAIL_MPI_COLL_DT_SEGMENT_H
#define MRAIL_MPI_COLL_DT_SEGMENT_H

#include "ompi_config.h"

#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"

#include <stddef.h>
#include <stdint.h>

typedef struct mca_coll_mrail_dt_segment {
    char *buffer; /* as passed to MPI; the type's lower bound may differ */
    size_t count;
    ompi_datatype_t *type;
    uint64_t bytes;
    char *first; /* first byte, or NULL if there are gaps */
    /* 1 if the caller states that this is device memory; it has no gaps */
    int is_device;
} mca_coll_mrail_dt_segment_t;

void mca_coll_mrail_dt_segment_init(mca_coll_mrail_dt_segment_t *segment,
                                    const void *buffer, size_t count,
                                    ompi_datatype_t *type);

/*
 * Positions at which earlier calls stopped in segments with gaps. Without them,
 * each call would walk through the datatype from its start. A zeroed object is
 * empty. It must be cleaned up before a segment that was used with it changes.
 */
typedef struct mca_coll_mrail_dt_cursor mca_coll_mrail_dt_cursor_t;
typedef struct mca_coll_mrail_dt_cursors {
    mca_coll_mrail_dt_cursor_t **list;
    unsigned num;
    unsigned next; /* index of the cursor to replace when the list is full */
} mca_coll_mrail_dt_cursors_t;

void mca_coll_mrail_dt_cursors_cleanup(mca_coll_mrail_dt_cursors_t *cursors);

/* Packs bytes [offset, offset + length), which must be within the segment.
 * `cursors` may be NULL. Returns 0 or -EIO. */
int mca_coll_mrail_dt_segment_pack(const mca_coll_mrail_dt_segment_t *segment,
                                   mca_coll_mrail_dt_cursors_t *cursors,
                                   uint64_t offset, void *to, size_t length);
/* Unpacks bytes [offset, offset + length). Bytes beyond the segment are
 * dropped. */
int mca_coll_mrail_dt_segment_unpack(const mca_coll_mrail_dt_segment_t *segment,
                                     mca_coll_mrail_dt_cursors_t *cursors,
                                     uint64_t offset, const void *from,
                                     size_t length);

/* Copies one segment into another. Returns 0, -EIO, or -EMSGSIZE if bytes that
 * did not fit were dropped. (ompi_datatype_sndrcv() of Open MPI 4.1.4 loses
 * bytes between two types with gaps where an element crosses a multiple of 64
 * KiB.) */
int mca_coll_mrail_dt_segment_copy(const mca_coll_mrail_dt_segment_t *from,
                                   const mca_coll_mrail_dt_segment_t *to);

#endif
