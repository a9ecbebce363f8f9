#include "config.h"
#include "mpi/coll/dt_segment.h"

#include "base/util.h"

#include "opal/datatype/opal_convertor.h"
#include "ompi/constants.h"

#include <errno.h>
#include <stdlib.h>

void mca_coll_mrail_dt_segment_init(mca_coll_mrail_dt_segment_t *segment,
                                    const void *buffer, size_t count,
                                    ompi_datatype_t *type)
{
    size_t size = 0;

    ompi_datatype_type_size(type, &size);
    segment->buffer = (char *)buffer;
    segment->count = count;
    segment->type = type;
    segment->bytes = (uint64_t)count * size;
    segment->first = NULL;
    if (segment->bytes > 0 && opal_datatype_is_contiguous_memory_layout(
                                  &type->super, (int32_t)MRAIL_MIN(count, 2))) {
        segment->first = segment->buffer + type->super.true_lb;
    }
}

/* Larger than any element of a datatype. The largest consists of two long
 * doubles. */
#define SCRATCH 64u
/* Bytes per step when copying between two segments with gaps. */
#define MAX_PIECE (16u << 20)

/* Creates a convertor for the segment. The caller destructs it. */
static int prepare(const mca_coll_mrail_dt_segment_t *segment, int is_pack,
                   opal_convertor_t *convertor)
{
    int ret;

    OBJ_CONSTRUCT(convertor, opal_convertor_t);
    ret = is_pack ? opal_convertor_copy_and_prepare_for_send(
                        ompi_mpi_local_convertor, &segment->type->super,
                        segment->count, segment->buffer, 0, convertor)
                  : opal_convertor_copy_and_prepare_for_recv(
                        ompi_mpi_local_convertor, &segment->type->super,
                        segment->count, segment->buffer, 0, convertor);
    return (ret == OPAL_SUCCESS) ? 0 : -EIO;
}

/* Packs up to `length` bytes from `offset` and writes their number to *done_p.
 * A convertor packs only whole elements, starting at an element, and reports
 * where that element is. Bytes of partial elements go through `scratch`. */
static int pack_some(opal_convertor_t *convertor, uint64_t offset, void *to,
                     size_t length, size_t *done_p)
{
    char scratch[SCRATCH];
    size_t position = offset, done = length, skip;
    struct iovec iov = {.iov_base = to, .iov_len = length};
    uint32_t count = 1;
    int ret = opal_convertor_set_position(convertor, &position);

    if (ret != OPAL_SUCCESS || position > offset ||
        offset - position >= SCRATCH) {
        return -EIO;
    }
    skip = offset - position;
    if (skip == 0) {
        ret = opal_convertor_pack(convertor, &iov, &count, &done);
        if (ret >= 0 && done > 0) {
            *done_p = done;
            return 0;
        }
    }
    iov = (struct iovec){.iov_base = scratch, .iov_len = SCRATCH};
    done = SCRATCH;
    count = 1;
    ret = opal_convertor_pack(convertor, &iov, &count, &done);
    if (ret < 0 || done <= skip) {
        return -EIO;
    }
    *done_p = MRAIL_MIN(done - skip, length);
    memcpy(to, scratch + skip, *done_p);
    return 0;
}

int mca_coll_mrail_dt_segment_pack(const mca_coll_mrail_dt_segment_t *segment,
                                   uint64_t offset, void *to, size_t length)
{
    opal_convertor_t convertor;
    size_t done;
    int ret;

    if (segment->first != NULL) {
        memcpy(to, segment->first + offset, length);
        return 0;
    }
    ret = prepare(segment, 1, &convertor);
    while (ret == 0 && length > 0) {
        ret = pack_some(&convertor, offset, to, length, &done);
        if (ret == 0) {
            offset += done;
            to = (char *)to + done;
            length -= done;
        }
    }
    OBJ_DESTRUCT(&convertor);
    return ret;
}

static int unpack_whole(const mca_coll_mrail_dt_segment_t *segment,
                        uint64_t offset, const void *from, size_t length)
{
    opal_convertor_t convertor;
    size_t position = offset, done = length;
    struct iovec iov = {.iov_base = (void *)from, .iov_len = length};
    uint32_t count = 1;
    int ret = prepare(segment, 0, &convertor);

    if (ret == 0 &&
        (opal_convertor_set_position(&convertor, &position) != OPAL_SUCCESS ||
         position != offset ||
         opal_convertor_unpack(&convertor, &iov, &count, &done) < 0 ||
         done != length)) {
        ret = -EIO;
    }
    OBJ_DESTRUCT(&convertor);
    return ret;
}

/* Finds the offset of the element that contains byte `offset`, using a packing
 * convertor. */
static int element_of(const mca_coll_mrail_dt_segment_t *segment,
                      uint64_t offset, uint64_t *first_p)
{
    opal_convertor_t convertor;
    size_t position = offset;
    int ret = prepare(segment, 1, &convertor);

    if (ret == 0 &&
        (opal_convertor_set_position(&convertor, &position) != OPAL_SUCCESS ||
         position > offset || offset - position >= SCRATCH)) {
        ret = -EIO;
    }
    OBJ_DESTRUCT(&convertor);
    *first_p = position;
    return ret;
}

/* Writes part of an element: reads the whole element, modifies it, and writes
 * it back. Unpacking only the part is not safe: for an element of more than 16
 * bytes, Open MPI 4.1's convertor writes beyond its own temporary. */
static int unpack_cut(const mca_coll_mrail_dt_segment_t *segment,
                      uint64_t first, uint64_t offset, const void *from,
                      size_t length, size_t *done_p)
{
    char scratch[SCRATCH];
    opal_convertor_t convertor;
    size_t position = first, whole = SCRATCH;
    struct iovec iov = {.iov_base = scratch, .iov_len = SCRATCH};
    uint32_t count = 1;
    int ret = prepare(segment, 1, &convertor);

    if (ret == 0 &&
        (opal_convertor_set_position(&convertor, &position) != OPAL_SUCCESS ||
         position != first ||
         opal_convertor_pack(&convertor, &iov, &count, &whole) < 0 ||
         whole <= offset - first)) {
        ret = -EIO;
    }
    OBJ_DESTRUCT(&convertor);
    if (ret < 0) {
        return ret;
    }
    *done_p = MRAIL_MIN(length, whole - (offset - first));
    memcpy(scratch + (offset - first), from, *done_p);
    return unpack_whole(segment, first, scratch, whole);
}

/* Unpacks, in this order, a partial element at the start, whole elements, and a
 * partial element at the end. */
static int unpack_gaps(const mca_coll_mrail_dt_segment_t *segment,
                       uint64_t offset, const char *from, size_t length)
{
    uint64_t end = offset + length, first;
    size_t done;
    int ret = element_of(segment, offset, &first);

    if (ret == 0 && first < offset) {
        ret = unpack_cut(segment, first, offset, from, length, &done);
        if (ret == 0) {
            from += done;
            offset += done;
        }
    }
    if (ret < 0 || offset == end) {
        return ret;
    }
    ret = element_of(segment, end, &first);
    if (ret == 0 && first > offset) {
        ret = unpack_whole(segment, offset, from, first - offset);
        from += first - offset;
        offset = first;
    }
    if (ret == 0 && offset < end) {
        ret = unpack_cut(segment, offset, offset, from, end - offset, &done);
    }
    return ret;
}

int mca_coll_mrail_dt_segment_unpack(const mca_coll_mrail_dt_segment_t *segment,
                                     uint64_t offset, const void *from,
                                     size_t length)
{
    if (offset >= segment->bytes) {
        return 0;
    }
    length = MRAIL_MIN(length, segment->bytes - offset);
    if (segment->first != NULL) {
        memcpy(segment->first + offset, from, length);
        return 0;
    }
    return unpack_gaps(segment, offset, from, length);
}

/* Copies between two segments with gaps. Each step searches both segments from
 * the start, so the steps are large. */
static int copy_in_pieces(const mca_coll_mrail_dt_segment_t *from,
                          const mca_coll_mrail_dt_segment_t *to, uint64_t bytes)
{
    char few[8192], *piece;
    size_t room = MRAIL_MIN(bytes, MAX_PIECE);
    int ret = 0;

    piece = (room > sizeof(few)) ? malloc(room) : NULL;
    room = (piece != NULL) ? room : sizeof(few);
    for (uint64_t at = 0; at < bytes && ret == 0; at += room) {
        size_t length = MRAIL_MIN(room, bytes - at);

        ret = mca_coll_mrail_dt_segment_pack(from, at, piece ? piece : few,
                                             length);
        if (ret == 0) {
            ret = mca_coll_mrail_dt_segment_unpack(to, at, piece ? piece : few,
                                                   length);
        }
    }
    free(piece);
    return ret;
}

int mca_coll_mrail_dt_segment_copy(const mca_coll_mrail_dt_segment_t *from,
                                   const mca_coll_mrail_dt_segment_t *to)
{
    uint64_t bytes = MRAIL_MIN(from->bytes, to->bytes);
    int ret = 0;

    if (bytes > 0 && to->first != NULL) {
        ret = mca_coll_mrail_dt_segment_pack(from, 0, to->first, bytes);
    } else if (bytes > 0 && from->first != NULL) {
        ret = mca_coll_mrail_dt_segment_unpack(to, 0, from->first, bytes);
    } else if (bytes > 0) {
        ret = copy_in_pieces(from, to, bytes);
    }
    if (ret == 0 && from->bytes > to->bytes) {
        ret = -EMSGSIZE;
    }
    return ret;
}
