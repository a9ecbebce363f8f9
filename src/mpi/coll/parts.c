#include "config.h"
#include "mpi/coll/parts.h"

#include "base/util.h"

#include "opal/datatype/opal_convertor.h"
#include "ompi/constants.h"

#include <errno.h>

void mca_coll_mrail_part_init(mca_coll_mrail_part_t *part, const void *buffer,
                              size_t count, ompi_datatype_t *type)
{
    size_t size = 0;

    ompi_datatype_type_size(type, &size);
    part->buffer = (char *)buffer;
    part->count = count;
    part->type = type;
    part->bytes = (uint64_t)count * size;
    part->first = NULL;
    if (part->bytes > 0 && opal_datatype_is_contiguous_memory_layout(
                               &type->super, (int32_t)MRAIL_MIN(count, 2))) {
        part->first = part->buffer + type->super.true_lb;
    }
}

/* Larger than any element of a datatype: the largest is two long doubles. */
#define SCRATCH 64u

/* The next bytes at `offset`, at most `length`: how many is in *done_p.  A convertor
 * packs whole elements only, from the beginning of one, and says where that is; bytes
 * of elements that are cut take a way through `scratch`. */
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

int mca_coll_mrail_part_pack(const mca_coll_mrail_part_t *part, uint64_t offset,
                             void *to, size_t length)
{
    opal_convertor_t convertor;
    size_t done;
    int ret;

    if (part->first != NULL) {
        memcpy(to, part->first + offset, length);
        return 0;
    }
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    ret = opal_convertor_copy_and_prepare_for_send(
        ompi_mpi_local_convertor, &part->type->super, part->count, part->buffer,
        0, &convertor);
    ret = (ret != OPAL_SUCCESS) ? -EIO : 0;
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

/* Unlike packing, this takes any position and length. */
static int unpack_all(opal_convertor_t *convertor, uint64_t offset,
                      const void *from, size_t length)
{
    size_t position = offset, done = length;
    struct iovec iov = {.iov_base = (void *)from, .iov_len = length};
    uint32_t count = 1;
    int ret = opal_convertor_set_position(convertor, &position);

    if (ret != OPAL_SUCCESS || position != offset) {
        return -EIO;
    }
    ret = opal_convertor_unpack(convertor, &iov, &count, &done);
    return (ret < 0 || done != length) ? -EIO : 0;
}

int mca_coll_mrail_part_unpack(const mca_coll_mrail_part_t *part, uint64_t offset,
                               const void *from, size_t length)
{
    opal_convertor_t convertor;
    int ret;

    if (offset >= part->bytes) {
        return 0;
    }
    length = MRAIL_MIN(length, part->bytes - offset);
    if (part->first != NULL) {
        memcpy(part->first + offset, from, length);
        return 0;
    }
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    ret = opal_convertor_copy_and_prepare_for_recv(
        ompi_mpi_local_convertor, &part->type->super, part->count, part->buffer,
        0, &convertor);
    ret = (ret != OPAL_SUCCESS)
              ? -EIO
              : unpack_all(&convertor, offset, from, length);
    OBJ_DESTRUCT(&convertor);
    return ret;
}

int mca_coll_mrail_part_copy(const mca_coll_mrail_part_t *from,
                             const mca_coll_mrail_part_t *to)
{
    uint64_t bytes = MRAIL_MIN(from->bytes, to->bytes);
    char piece[8192];
    int ret = 0;

    if (bytes > 0 && to->first != NULL) {
        ret = mca_coll_mrail_part_pack(from, 0, to->first, bytes);
    } else if (bytes > 0 && from->first != NULL) {
        ret = mca_coll_mrail_part_unpack(to, 0, from->first, bytes);
    } else {
        for (uint64_t at = 0; at < bytes && ret == 0; at += sizeof(piece)) {
            size_t length = MRAIL_MIN(sizeof(piece), bytes - at);

            ret = mca_coll_mrail_part_pack(from, at, piece, length);
            if (ret == 0) {
                ret = mca_coll_mrail_part_unpack(to, at, piece, length);
            }
        }
    }
    if (ret == 0 && from->bytes > to->bytes) {
        ret = -EMSGSIZE;
    }
    return ret;
}
