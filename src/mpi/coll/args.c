#include "config.h"
#include "mpi/coll/args.h"

#include "base/util.h"

#include <mpi.h>

/* ---- size ---- */

/* Returns the size in bytes of the largest message to or from another rank. The
 * function runs in every call, so it multiplies only once. */
static uint64_t largest_v(const mca_coll_mrail_args_side_t *side, int ranks,
                          int self)
{
    size_t bytes;
    int largest = 0;

    for (int i = 0; i < ranks; ++i) {
        if (side->counts[i] > largest && i != self) {
            largest = side->counts[i];
        }
    }
    ompi_datatype_type_size(side->type, &bytes);
    return (uint64_t)largest * bytes;
}

static uint64_t largest_w(const mca_coll_mrail_args_side_t *side, int ranks,
                          int self)
{
    uint64_t largest = 0;

    for (int i = 0; i < ranks; ++i) {
        size_t bytes;

        if (side->counts[i] == 0 || i == self) {
            continue; /* an empty message may have an invalid datatype */
        }
        ompi_datatype_type_size(side->types[i], &bytes);
        largest = MRAIL_MAX(largest, (uint64_t)side->counts[i] * bytes);
    }
    return largest;
}

int mca_coll_mrail_args_is_large(const mca_coll_mrail_args_t *args, int ranks,
                                 int self, uint64_t threshold)
{
    const mca_coll_mrail_args_side_t *side =
        (args->send.buffer == MPI_IN_PLACE) ? &args->recv : &args->send;
    size_t bytes;

    switch (args->func) {
    case MCA_COLL_MRAIL_ALLTOALLV:
        return largest_v(side, ranks, self) > threshold;
    case MCA_COLL_MRAIL_ALLTOALLW:
        return largest_w(side, ranks, self) > threshold;
    default:
        ompi_datatype_type_size(side->type, &bytes);
        return (uint64_t)side->count * bytes > threshold;
    }
}

/* ---- segments ---- */

static void segments(const mca_coll_mrail_args_side_t *side, int ranks,
                     mca_coll_mrail_dt_segment_t *to)
{
    const char *buffer = side->buffer;
    ptrdiff_t extent;

    ompi_datatype_type_extent(side->type, &extent);
    for (int i = 0; i < ranks; ++i) {
        mca_coll_mrail_dt_segment_init(&to[i],
                                       buffer + i * extent * side->count,
                                       (size_t)side->count, side->type);
    }
}

static void segments_v(const mca_coll_mrail_args_side_t *side, int ranks,
                       mca_coll_mrail_dt_segment_t *to)
{
    const char *buffer = side->buffer;
    ptrdiff_t extent;

    ompi_datatype_type_extent(side->type, &extent);
    for (int i = 0; i < ranks; ++i) {
        mca_coll_mrail_dt_segment_init(&to[i], buffer + side->disps[i] * extent,
                                       (size_t)side->counts[i], side->type);
    }
}

static void segments_w(const mca_coll_mrail_args_side_t *side, int ranks,
                       mca_coll_mrail_dt_segment_t *to)
{
    const char *buffer = side->buffer;

    for (int i = 0; i < ranks; ++i) {
        int count = side->counts[i];

        mca_coll_mrail_dt_segment_init(
            &to[i], buffer + side->disps[i], (size_t)count,
            (count == 0) ? &ompi_mpi_byte.dt : side->types[i]);
    }
}

void mca_coll_mrail_args_segments(mca_coll_mrail_func_t func,
                                  const mca_coll_mrail_args_side_t *side,
                                  int ranks, mca_coll_mrail_dt_segment_t *to)
{
    switch (func) {
    case MCA_COLL_MRAIL_ALLTOALLV:
        segments_v(side, ranks, to);
        break;
    case MCA_COLL_MRAIL_ALLTOALLW:
        segments_w(side, ranks, to);
        break;
    default:
        segments(side, ranks, to);
    }
}
