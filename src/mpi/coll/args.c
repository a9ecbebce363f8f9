#include "config.h"
#include "mpi/coll/args.h"

#include "base/util.h"

#include <mpi.h>

/* Returns the rank of block i, which may be MPI_PROC_NULL. */
static int peer_of(const mca_coll_mrail_args_side_t *side, int i)
{
    return (side->peers == NULL) ? i : side->peers[i];
}

static int is_other(const mca_coll_mrail_args_side_t *side, int i, int self)
{
    int peer = peer_of(side, i);

    return peer != self && peer != MPI_PROC_NULL;
}

/* ---- size ---- */

static uint64_t largest_block(const mca_coll_mrail_args_side_t *side, int self)
{
    size_t bytes;

    for (int i = 0; i < side->num_peers; ++i) {
        if (is_other(side, i, self)) {
            ompi_datatype_type_size(side->type, &bytes);
            return (uint64_t)side->count * bytes;
        }
    }
    return 0;
}

/* The function runs in every call, so it multiplies only once. */
static uint64_t largest_variable(const mca_coll_mrail_args_side_t *side,
                                 int self)
{
    size_t bytes;
    int largest = 0;

    for (int i = 0; i < side->num_peers; ++i) {
        if (side->counts[i] > largest && is_other(side, i, self)) {
            largest = side->counts[i];
        }
    }
    ompi_datatype_type_size(side->type, &bytes);
    return (uint64_t)largest * bytes;
}

static uint64_t largest_typed(const mca_coll_mrail_args_side_t *side, int self)
{
    uint64_t largest = 0;

    for (int i = 0; i < side->num_peers; ++i) {
        size_t bytes;

        /* an empty message may have an invalid datatype */
        if (side->counts[i] > 0 && is_other(side, i, self)) {
            ompi_datatype_type_size(side->types[i], &bytes);
            largest = MRAIL_MAX(largest, (uint64_t)side->counts[i] * bytes);
        }
    }
    return largest;
}

int mca_coll_mrail_args_is_large(const mca_coll_mrail_args_t *args, int self,
                                 uint64_t threshold)
{
    const mca_coll_mrail_args_side_t *side =
        (args->send.buffer == MPI_IN_PLACE) ? &args->recv : &args->send;

    switch (side->layout) {
    case MCA_COLL_MRAIL_LAYOUT_V:
        return largest_variable(side, self) > threshold;
    case MCA_COLL_MRAIL_LAYOUT_W:
        return largest_typed(side, self) > threshold;
    default:
        return largest_block(side, self) > threshold;
    }
}

/* ---- segments ---- */

static void segment_w(const mca_coll_mrail_args_side_t *side, int i,
                      mca_coll_mrail_dt_segment_t *to)
{
    ptrdiff_t disp =
        (side->disps != NULL) ? side->disps[i] : side->wide_disps[i];
    int count = side->counts[i];

    /* the buffer may be MPI_BOTTOM */
    mca_coll_mrail_dt_segment_init(
        to, (const void *)((uintptr_t)side->buffer + (uintptr_t)disp),
        (size_t)count, (count == 0) ? &ompi_mpi_byte.dt : side->types[i]);
}

void mca_coll_mrail_args_block(const mca_coll_mrail_args_side_t *side, int i,
                               mca_coll_mrail_dt_segment_t *to)
{
    const char *buffer = side->buffer;
    int count = side->count;
    ptrdiff_t extent;

    if (peer_of(side, i) == MPI_PROC_NULL) {
        mca_coll_mrail_dt_segment_init(to, NULL, 0, &ompi_mpi_byte.dt);
        return;
    }
    if (side->layout == MCA_COLL_MRAIL_LAYOUT_W) {
        segment_w(side, i, to);
        return;
    }
    ompi_datatype_type_extent(side->type, &extent);
    if (side->layout == MCA_COLL_MRAIL_LAYOUT_V) {
        count = side->counts[i];
        buffer += side->disps[i] * extent;
    } else if (side->layout == MCA_COLL_MRAIL_LAYOUT_BLOCKS) {
        buffer += i * extent * count;
    }
    mca_coll_mrail_dt_segment_init(to, buffer, (size_t)count, side->type);
}

void mca_coll_mrail_args_segments(const mca_coll_mrail_args_side_t *side,
                                  int ranks, mca_coll_mrail_dt_segment_t *to)
{
    for (int i = 0; i < ranks && side->peers != NULL; ++i) {
        mca_coll_mrail_dt_segment_init(&to[i], NULL, 0, &ompi_mpi_byte.dt);
    }
    for (int i = 0; i < side->num_peers; ++i) {
        if (peer_of(side, i) != MPI_PROC_NULL) {
            mca_coll_mrail_args_block(side, i, &to[peer_of(side, i)]);
        }
    }
}
