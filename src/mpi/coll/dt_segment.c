#include "config.h"
#include "mpi/coll/dt_segment.h"

#include "mpi/coll/copy.h"

#include "base/grow.h"
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
    segment->is_device = 0;
    if (segment->bytes > 0 && opal_datatype_is_contiguous_memory_layout(
                                  &type->super, (int32_t)MRAIL_MIN(count, 2))) {
        segment->first = segment->buffer + type->super.true_lb;
    }
}

/* Upper bound on the size of an element of any datatype, in bytes. The largest
 * element consists of two long doubles. */
#define SCRATCH 64u
/* Bytes per step of a copy between two segments with gaps. */
#define MAX_PIECE (1u << 20)
#define MAX_CURSORS 256u

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

/* ---- cursors ---- */

/*
 * A position in a segment: convertors at the start of an element. A convertor
 * packs and unpacks only whole elements, and cannot advance from the middle of
 * one. If a call ends within an element, its cursor therefore stays at the
 * start of that element.
 */
struct mca_coll_mrail_dt_cursor {
    const mca_coll_mrail_dt_segment_t *segment;
    uint64_t at;   /* offset at which the last call stopped, or NOWHERE if
                    * unusable */
    uint64_t base; /* start of the element with offset `at` */
    int is_pack;   /* 1 if `writer` does not exist */
    opal_convertor_t reader, writer;
};
#define NOWHERE UINT64_MAX

/* Creates a convertor at the element that contains byte `offset`. *base_p
 * receives the offset of that element. */
static int open_at(const mca_coll_mrail_dt_segment_t *segment, int is_pack,
                   uint64_t offset, opal_convertor_t *convertor,
                   uint64_t *base_p)
{
    size_t position = offset;
    int ret = prepare(segment, is_pack, convertor);

    if (ret == 0 &&
        (opal_convertor_set_position(convertor, &position) != OPAL_SUCCESS ||
         position > offset || offset - position >= SCRATCH)) {
        ret = -EIO;
    }
    *base_p = position;
    return ret;
}

static int cursor_open(mca_coll_mrail_dt_cursor_t *cursor,
                       const mca_coll_mrail_dt_segment_t *segment,
                       uint64_t offset, int is_pack)
{
    uint64_t base;
    int ret = open_at(segment, 1, offset, &cursor->reader, &cursor->base);

    if (ret == 0 && cursor->base < offset) {
        OBJ_DESTRUCT(&cursor->reader);
        ret = open_at(segment, 1, cursor->base, &cursor->reader, &base);
        ret = (ret == 0 && base != cursor->base) ? -EIO : ret;
    }
    if (!is_pack) {
        int other = open_at(segment, 0, cursor->base, &cursor->writer, &base);

        ret = (other < 0 || base != cursor->base) ? -EIO : ret;
    }
    cursor->segment = segment;
    cursor->is_pack = is_pack;
    cursor->at = (ret == 0) ? offset : NOWHERE;
    return ret;
}

static void cursor_close(mca_coll_mrail_dt_cursor_t *cursor)
{
    OBJ_DESTRUCT(&cursor->reader);
    if (!cursor->is_pack) {
        OBJ_DESTRUCT(&cursor->writer);
    }
}

void mca_coll_mrail_dt_cursors_cleanup(mca_coll_mrail_dt_cursors_t *cursors)
{
    for (unsigned i = 0; i < cursors->num; ++i) {
        cursor_close(cursors->list[i]);
        free(cursors->list[i]);
    }
    free(cursors->list);
    *cursors = (mca_coll_mrail_dt_cursors_t){0};
}

/* Returns the index of the cursor that stopped at `offset`, or the number of
 * cursors. */
static unsigned cursors_find(const mca_coll_mrail_dt_cursors_t *cursors,
                             const mca_coll_mrail_dt_segment_t *segment,
                             uint64_t offset, int is_pack)
{
    unsigned i = 0;

    while (i < cursors->num && (cursors->list[i]->segment != segment ||
                                cursors->list[i]->at != offset ||
                                cursors->list[i]->is_pack != is_pack)) {
        ++i;
    }
    return i;
}

static mca_coll_mrail_dt_cursor_t *
cursors_add(mca_coll_mrail_dt_cursors_t *cursors)
{
    mca_coll_mrail_dt_cursor_t *cursor = NULL;

    if (cursors->num < MAX_CURSORS &&
        mrail_grow(&cursors->list, cursors->num + 1, sizeof(cursor))) {
        cursor = malloc(sizeof(*cursor));
    }
    if (cursor != NULL) {
        cursors->list[cursors->num++] = cursor;
    }
    return cursor;
}

/* Returns a cursor at `offset`. If the list cannot hold another cursor, returns
 * `own`. */
static int cursor_get(mca_coll_mrail_dt_cursors_t *cursors,
                      const mca_coll_mrail_dt_segment_t *segment,
                      uint64_t offset, int is_pack,
                      mca_coll_mrail_dt_cursor_t *own,
                      mca_coll_mrail_dt_cursor_t **cursor_p)
{
    mca_coll_mrail_dt_cursor_t *cursor = NULL;
    unsigned i;

    if (cursors != NULL) {
        i = cursors_find(cursors, segment, offset, is_pack);
        if (i < cursors->num) {
            *cursor_p = cursors->list[i];
            return 0;
        }
        cursor = cursors_add(cursors);
        if (cursor == NULL && cursors->num > 0) {
            cursor = cursors->list[cursors->next++ % cursors->num];
            cursor_close(cursor);
        }
    }
    *cursor_p = (cursor != NULL) ? cursor : own;
    return cursor_open(*cursor_p, segment, offset, is_pack);
}

static void cursor_put(mca_coll_mrail_dt_cursor_t *cursor,
                       mca_coll_mrail_dt_cursor_t *own, int ret)
{
    cursor->at = (ret == 0) ? cursor->at : NOWHERE;
    if (cursor == own) {
        cursor_close(own);
    }
}

/* ---- elements ---- */

/* A saved state of a convertor. Very deeply nested datatypes cannot be
 * saved. */
#define MAX_STACK 32u
typedef struct place {
    opal_convertor_t convertor;
    dt_stack_t stack[MAX_STACK];
} place_t;

static void place_save(const opal_convertor_t *convertor, place_t *place)
{
    place->convertor = *convertor;
    if (convertor->stack_size <= MAX_STACK) {
        memcpy(place->stack, convertor->pStack,
               convertor->stack_size * sizeof(*place->stack));
    }
}

/* Returns 0 if the state could not be saved or restored. */
static int place_restore(opal_convertor_t *convertor, const place_t *place)
{
    if (convertor->stack_size > MAX_STACK) {
        return 0;
    }
    *convertor = place->convertor;
    memcpy(convertor->pStack, place->stack,
           convertor->stack_size * sizeof(*place->stack));
    return 1;
}

/* Reads up to `length` bytes of whole elements. */
static int read_elements(mca_coll_mrail_dt_cursor_t *cursor, void *to,
                         size_t length, size_t *done_p)
{
    struct iovec iov = {.iov_base = to, .iov_len = length};
    uint32_t count = 1;

    *done_p = length;
    return (opal_convertor_pack(&cursor->reader, &iov, &count, done_p) >= 0)
               ? 0
               : -EIO;
}

/* Writes whole elements. */
static int write_elements(mca_coll_mrail_dt_cursor_t *cursor, const void *from,
                          size_t length)
{
    struct iovec iov = {.iov_base = (void *)from, .iov_len = length};
    size_t done = length;
    uint32_t count = 1;
    int ret = opal_convertor_unpack(&cursor->writer, &iov, &count, &done);

    return (ret >= 0 && done == length) ? 0 : -EIO;
}

/* Packs (to != NULL) or unpacks a part of the elements at the cursor: at most
 * `length` bytes from its offset on. To unpack, it reads whole elements,
 * modifies them, and writes them back. Unpacking only the part is unsafe: for
 * an element of more than 16 bytes, Open MPI 4.1's convertor writes beyond its
 * own temporary buffer. */
static int part_of_elements(mca_coll_mrail_dt_cursor_t *cursor, void *to,
                            const void *from, size_t length, size_t *done_p)
{
    size_t skip = cursor->at - cursor->base, whole;
    char scratch[SCRATCH];
    place_t reader, writer;
    int stays, ret;

    place_save(&cursor->reader, &reader);
    ret = read_elements(cursor, scratch, SCRATCH, &whole);
    if (ret < 0 || whole <= skip) {
        return -EIO;
    }
    *done_p = MRAIL_MIN(length, whole - skip);
    stays = skip + *done_p < whole;
    if (to != NULL) {
        memcpy(to, scratch + skip, *done_p);
    } else {
        place_save(&cursor->writer, &writer);
        memcpy(scratch + skip, from, *done_p);
        ret = write_elements(cursor, scratch, whole);
    }
    cursor->at += *done_p;
    cursor->base += stays ? 0 : whole;
    if (stays && (!place_restore(&cursor->reader, &reader) ||
                  (to == NULL && !place_restore(&cursor->writer, &writer)))) {
        cursor->at = NOWHERE; /* the call stops here */
    }
    return ret;
}

/* ---- pack ---- */

static int pack_gaps(mca_coll_mrail_dt_cursor_t *cursor, char *to,
                     size_t length)
{
    int ret = 0;

    while (ret == 0 && length > 0) {
        size_t done = 0;

        if (cursor->at == cursor->base) {
            ret = read_elements(cursor, to, length, &done);
            cursor->at += done;
            cursor->base += done;
        }
        if (ret == 0 && done == 0) {
            ret = part_of_elements(cursor, to, NULL, length, &done);
        }
        to += done;
        length -= done;
    }
    return ret;
}

int mca_coll_mrail_dt_segment_pack(const mca_coll_mrail_dt_segment_t *segment,
                                   mca_coll_mrail_dt_cursors_t *cursors,
                                   uint64_t offset, void *to, size_t length)
{
    mca_coll_mrail_dt_cursor_t own, *cursor;
    int ret;

    if (segment->is_device) {
        return mca_coll_mrail_copy_now(to, segment->first + offset, length);
    }
    if (segment->first != NULL) {
        memcpy(to, segment->first + offset, length);
        return 0;
    }
    if (length == 0) {
        return 0;
    }
    ret = cursor_get(cursors, segment, offset, 1, &own, &cursor);
    if (ret == 0) {
        ret = pack_gaps(cursor, to, length);
    }
    cursor_put(cursor, &own, ret);
    return ret;
}

/* ---- unpack ---- */

/* Unpacks the whole elements among the next `length` bytes. Reading them shows
 * where the last one ends. */
static int unpack_whole(mca_coll_mrail_dt_cursor_t *cursor, const char *from,
                        size_t length, size_t *done_p)
{
    char former[4096];
    size_t done = 1;
    int ret = 0;

    *done_p = 0;
    while (ret == 0 && done > 0 && *done_p < length) {
        ret = read_elements(cursor, former,
                            MRAIL_MIN(sizeof(former), length - *done_p), &done);
        if (ret == 0 && done > 0) {
            ret = write_elements(cursor, from + *done_p, done);
            *done_p += done;
        }
    }
    cursor->at += *done_p;
    cursor->base += *done_p;
    return ret;
}

static int unpack_gaps(mca_coll_mrail_dt_cursor_t *cursor, const char *from,
                       size_t length)
{
    int ret = 0;

    while (ret == 0 && length > 0) {
        size_t done = 0;

        if (cursor->at == cursor->base) {
            ret = unpack_whole(cursor, from, length, &done);
        }
        if (ret == 0 && done == 0) {
            ret = part_of_elements(cursor, NULL, from, length, &done);
        }
        from += done;
        length -= done;
    }
    return ret;
}

int mca_coll_mrail_dt_segment_unpack(const mca_coll_mrail_dt_segment_t *segment,
                                     mca_coll_mrail_dt_cursors_t *cursors,
                                     uint64_t offset, const void *from,
                                     size_t length)
{
    mca_coll_mrail_dt_cursor_t own, *cursor;
    int ret;

    if (offset >= segment->bytes || length == 0) {
        return 0;
    }
    length = MRAIL_MIN(length, segment->bytes - offset);
    if (segment->is_device) {
        return mca_coll_mrail_copy_now(segment->first + offset, from, length);
    }
    if (segment->first != NULL) {
        memcpy(segment->first + offset, from, length);
        return 0;
    }
    ret = cursor_get(cursors, segment, offset, 0, &own, &cursor);
    if (ret == 0) {
        ret = unpack_gaps(cursor, from, length);
    }
    cursor_put(cursor, &own, ret);
    return ret;
}

/* ---- copy ---- */

/* Copies between two segments with gaps. */
static int copy_in_pieces(const mca_coll_mrail_dt_segment_t *from,
                          const mca_coll_mrail_dt_segment_t *to, uint64_t bytes)
{
    mca_coll_mrail_dt_cursors_t cursors = {0};
    char few[8192], *piece;
    size_t piece_bytes = MRAIL_MIN(bytes, MAX_PIECE);
    int ret = 0;

    piece = (piece_bytes > sizeof(few)) ? malloc(piece_bytes) : NULL;
    piece_bytes = (piece != NULL) ? piece_bytes : sizeof(few);
    for (uint64_t at = 0; at < bytes && ret == 0; at += piece_bytes) {
        size_t length = MRAIL_MIN(piece_bytes, bytes - at);

        ret = mca_coll_mrail_dt_segment_pack(from, &cursors, at,
                                             piece ? piece : few, length);
        if (ret == 0) {
            ret = mca_coll_mrail_dt_segment_unpack(to, &cursors, at,
                                                   piece ? piece : few, length);
        }
    }
    mca_coll_mrail_dt_cursors_cleanup(&cursors);
    free(piece);
    return ret;
}

int mca_coll_mrail_dt_segment_copy(const mca_coll_mrail_dt_segment_t *from,
                                   const mca_coll_mrail_dt_segment_t *to)
{
    uint64_t bytes = MRAIL_MIN(from->bytes, to->bytes);
    int ret = 0;

    if (bytes > 0 && from->first != NULL && to->is_device) {
        ret = mca_coll_mrail_copy_now(to->first, from->first, bytes);
    } else if (bytes > 0 && to->first != NULL && !to->is_device) {
        ret = mca_coll_mrail_dt_segment_pack(from, NULL, 0, to->first, bytes);
    } else if (bytes > 0 && from->first != NULL && !from->is_device) {
        ret = mca_coll_mrail_dt_segment_unpack(to, NULL, 0, from->first, bytes);
    } else if (bytes > 0) {
        ret = copy_in_pieces(from, to, bytes);
    }
    if (ret == 0 && from->bytes > to->bytes) {
        ret = -EMSGSIZE;
    }
    return ret;
}
