/*
 * Datatypes in two forms: as constructed by MPI, and as a list of their bytes.
 */
#include "config.h"
#include "planned.h"

#include "mpi_test.h"

#include <limits.h>
#include <string.h>

typedef struct record {
    char kind;
    double position[3];
    int id;
} record_t;

static void add(planned_type_t *type, long at, long length)
{
    planned_segment_t *last = NULL;

    if (type->num > 0) {
        last = &type->segments[type->num - 1];
    }
    type->first = MRAIL_MIN(type->first, at);
    type->last = MRAIL_MAX(type->last, at + length);
    type->size += length;
    if (last != NULL && last->at + last->length == at) {
        last->length += length;
        return;
    }
    /* The array is full whenever the number of segments is a power of two. */
    if ((type->num & (type->num - 1)) == 0) {
        size_t capacity = MRAIL_MAX(2 * type->num, 1);

        type->segments =
            realloc(type->segments, capacity * sizeof(*type->segments));
    }
    type->segments[type->num++] = (planned_segment_t){at, length};
}

/* Adds `count` items of `old`. The origin of the first item is at `at`. */
static void add_block(planned_type_t *type, const planned_type_t *old, long at,
                      unsigned count)
{
    for (unsigned i = 0; i < count; ++i) {
        for (unsigned s = 0; s < old->num; ++s) {
            add(type, at + (long)i * old->extent + old->segments[s].at,
                old->segments[s].length);
        }
    }
}

static planned_type_t empty(void)
{
    return (planned_type_t){.first = LONG_MAX, .last = LONG_MIN};
}

static void bounds(planned_type_t *type, long lb, long ub)
{
    type->lb = lb;
    type->extent = ub - lb;
}

/* Commits the type. If MPI reports a different size or extent, the test or MPI
 * is wrong. */
static void commit(planned_type_t *type)
{
    MPI_Aint lb, extent;
    int size;

    MPI_Type_commit(&type->mpi);
    MPI_Type_size(type->mpi, &size);
    MPI_Type_get_extent(type->mpi, &lb, &extent);
    if (size != type->size || lb != type->lb || extent != type->extent) {
        fprintf(stderr,
                "a datatype of size %d, lower bound %ld, extent %ld; it "
                "should be %ld, %ld, %ld\n",
                size, (long)lb, (long)extent, type->size, type->lb,
                type->extent);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void resize(planned_type_t *type, long lb, long extent)
{
    MPI_Datatype old = type->mpi;

    MPI_Type_create_resized(old, lb, extent, &type->mpi);
    MPI_Type_free(&old);
    bounds(type, lb, lb + extent);
}

planned_type_t planned_type_base(planned_base_t base)
{
    static const long sizes[] = {1, sizeof(int), sizeof(double)};
    MPI_Datatype plain[] = {MPI_BYTE, MPI_INT, MPI_DOUBLE};
    int lengths[] = {1, 3, 1};
    MPI_Aint at[] = {offsetof(record_t, kind), offsetof(record_t, position),
                     offsetof(record_t, id)};
    MPI_Datatype of[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
    planned_type_t type = empty();

    if (base != PLANNED_RECORD) {
        MPI_Type_dup(plain[base], &type.mpi);
        add(&type, 0, sizes[base]);
        bounds(&type, 0, sizes[base]);
        return type;
    }
    MPI_Type_create_struct(3, lengths, at, of, &type.mpi);
    add(&type, (long)at[0], 1);
    add(&type, (long)at[1], 3 * (long)sizeof(double));
    add(&type, (long)at[2], (long)sizeof(int));
    resize(&type, 0, sizeof(record_t));
    return type;
}

long planned_type_base_size(planned_base_t base)
{
    planned_type_t type = planned_type_base(base);
    long size = type.size;

    planned_type_cleanup(&type);
    return size;
}

static planned_type_t vector(mrail_rng_t *rng, const planned_type_t *base,
                             unsigned num)
{
    unsigned block = (num % 3 == 0) ? 3 : 1, blocks = num / block;
    unsigned stride = block + 1 + mrail_rng_below(rng, 4);
    planned_type_t type = empty();

    MPI_Type_vector((int)blocks, (int)block, (int)stride, base->mpi, &type.mpi);
    for (unsigned i = 0; i < blocks; ++i) {
        add_block(&type, base, (long)i * stride * base->extent, block);
    }
    bounds(&type, 0, ((blocks - 1L) * stride + block) * base->extent);
    return type;
}

/* Makes blocks of 1 to 5 elements. Their order in memory differs from their
 * order in the data. */
static planned_type_t indexed(mrail_rng_t *rng, const planned_type_t *base,
                              unsigned num)
{
    int lengths[960], at[960];
    unsigned blocks = 0;
    long place = -(long)mrail_rng_below(rng, 9), lb = LONG_MAX, ub = LONG_MIN;
    planned_type_t type = empty();

    for (unsigned left = num; left > 0; ++blocks) {
        unsigned length = 1 + mrail_rng_below(rng, 5);

        length = MRAIL_MIN(length, left);
        lengths[blocks] = (int)length;
        at[blocks] = (int)place;
        place += (long)(length + mrail_rng_below(rng, 3));
        left -= length;
    }
    for (unsigned i = blocks; i > 1; --i) { /* Fisher-Yates shuffle */
        unsigned other = mrail_rng_below(rng, i);
        int length = lengths[other], where = at[other];

        lengths[other] = lengths[i - 1];
        at[other] = at[i - 1];
        lengths[i - 1] = length;
        at[i - 1] = where;
    }
    for (unsigned i = 0; i < blocks; ++i) {
        add_block(&type, base, at[i] * base->extent, (unsigned)lengths[i]);
        lb = MRAIL_MIN(lb, at[i] * base->extent);
        ub = MRAIL_MAX(ub, (at[i] + (long)lengths[i]) * base->extent);
    }
    MPI_Type_indexed((int)blocks, lengths, at, base->mpi, &type.mpi);
    bounds(&type, lb, ub);
    return type;
}

/* The second field lies before the origin, and before the first field. */
static planned_type_t structure(mrail_rng_t *rng, const planned_type_t *base,
                                unsigned num)
{
    unsigned part = (num > 1) ? 1 + mrail_rng_below(rng, num - 1) : 0;
    int lengths[] = {(int)(num - part), (int)part};
    MPI_Aint at[] = {base->extent * (MPI_Aint)mrail_rng_below(rng, 3),
                     -base->extent *
                         (MPI_Aint)(part + mrail_rng_below(rng, 3))};
    MPI_Datatype of[] = {base->mpi, base->mpi};
    planned_type_t type = empty();

    MPI_Type_create_struct((part > 0) ? 2 : 1, lengths, at, of, &type.mpi);
    add_block(&type, base, (long)at[0], num - part);
    add_block(&type, base, (long)at[1], part);
    resize(&type, (long)at[1],
           (long)(at[0] - at[1]) + (long)num * base->extent);
    return type;
}

static planned_type_t subarray(mrail_rng_t *rng, const planned_type_t *base,
                               unsigned num)
{
    int rows = (num % 12 == 0) ? 4 : 1;
    int part[] = {rows, (int)num / rows};
    int start[] = {(int)mrail_rng_below(rng, 3), (int)mrail_rng_below(rng, 3)};
    int whole[] = {part[0] + start[0] + (int)mrail_rng_below(rng, 2),
                   part[1] + start[1] + (int)mrail_rng_below(rng, 3)};
    planned_type_t type = empty();

    MPI_Type_create_subarray(2, whole, part, start, MPI_ORDER_C, base->mpi,
                             &type.mpi);
    for (int row = 0; row < part[0]; ++row) {
        add_block(&type, base,
                  ((long)(start[0] + row) * whole[1] + start[1]) * base->extent,
                  (unsigned)part[1]);
    }
    bounds(&type, 0, (long)whole[0] * whole[1] * base->extent);
    return type;
}

static planned_type_t contiguous(mrail_rng_t *rng, const planned_type_t *base,
                                 unsigned num)
{
    planned_type_t type = empty();

    (void)rng;
    MPI_Type_contiguous((int)num, base->mpi, &type.mpi);
    add_block(&type, base, 0, num);
    bounds(&type, 0, (long)num * base->extent);
    return type;
}

planned_type_t planned_type_draw(mrail_rng_t *rng, planned_base_t base,
                                 unsigned unit)
{
    static planned_type_t (*const shapes[])(
        mrail_rng_t *, const planned_type_t *, unsigned) = {
        contiguous, contiguous, vector, indexed, structure, subarray};
    static const unsigned parts[] = {1, 2, 4, 12};
    planned_type_t element = planned_type_base(base), type;
    unsigned shape = mrail_rng_below(rng, MRAIL_ARRAY_SIZE(shapes));
    unsigned num = unit;

    if (unit > 1 && mrail_rng_hit(rng, 500000)) {
        num = unit / parts[mrail_rng_below(rng, MRAIL_ARRAY_SIZE(parts))];
    }
    type = shapes[shape](rng, &element, num);
    if (mrail_rng_hit(rng, 300000)) {
        long more = element.extent * (long)mrail_rng_below(rng, 4);

        resize(&type, type.lb - more,
               type.extent + more +
                   element.extent * (long)mrail_rng_below(rng, 4));
    }
    planned_type_cleanup(&element);
    commit(&type);
    return type;
}

planned_type_t planned_type_column(planned_base_t base, unsigned rows,
                                   long columns)
{
    planned_type_t element = planned_type_base(base), type = empty();

    MPI_Type_create_hvector((int)rows, 1, columns * element.extent, element.mpi,
                            &type.mpi);
    for (unsigned row = 0; row < rows; ++row) {
        add_block(&type, &element, row * columns * element.extent, 1);
    }
    resize(&type, 0, element.extent);
    planned_type_cleanup(&element);
    commit(&type);
    return type;
}

void planned_type_cleanup(planned_type_t *type)
{
    MPI_Type_free(&type->mpi);
    free(type->segments);
}

void planned_type_unpack(const planned_type_t *type, long count,
                         const char *data, char *memory)
{
    if (type->num == 1 && type->extent == type->size) {
        mrail_copy(memory + type->first, data, (size_t)(count * type->size));
        return;
    }
    for (long i = 0; i < count; ++i) {
        for (unsigned s = 0; s < type->num; ++s) {
            const planned_segment_t *segment = &type->segments[s];

            memcpy(memory + i * type->extent + segment->at, data,
                   (size_t)segment->length);
            data += segment->length;
        }
    }
}
