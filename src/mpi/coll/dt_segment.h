/*
 * What a rank sends to, or receives from, each other one: a piece of user memory and
 * its datatype, whichever collective it came with; and its bytes in the order of the
 * datatype's signature, from any position.
 */
#ifndef MRAIL_MPI_COLL_DT_SEGMENT_H
#define MRAIL_MPI_COLL_DT_SEGMENT_H

#include "ompi_config.h"

#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"

#include <stddef.h>
#include <stdint.h>

typedef struct mca_coll_mrail_part {
    char *buffer; /* as MPI has it: the type's lower bound may lie elsewhere */
    size_t count;
    ompi_datatype_t *type;
    uint64_t bytes;
    char *first; /* the bytes themselves, or NULL: they lie apart */
} mca_coll_mrail_dt_segment_t;

void mca_coll_mrail_dt_segment_init(mca_coll_mrail_dt_segment_t *part,
                                    const void *buffer, size_t count,
                                    ompi_datatype_t *type);

/* Bytes [offset, offset + length) of the part, which has them.  0 or -EIO. */
int mca_coll_mrail_dt_segment_pack(const mca_coll_mrail_dt_segment_t *part,
                                   uint64_t offset, void *to, size_t length);
/* The same the other way; what is beyond the part is dropped. */
int mca_coll_mrail_dt_segment_unpack(const mca_coll_mrail_dt_segment_t *part,
                                     uint64_t offset, const void *from,
                                     size_t length);

/* All of one into another one.  0, -EIO, or -EMSGSIZE: the rest was dropped.
 * (ompi_datatype_sndrcv() of 4.1.4 loses bytes between two types with gaps, where an
 * element lies across multiples of 64 KiB.) */
int mca_coll_mrail_dt_segment_copy(const mca_coll_mrail_dt_segment_t *from,
                                   const mca_coll_mrail_dt_segment_t *to);

#endif
