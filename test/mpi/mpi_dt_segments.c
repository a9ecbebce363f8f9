/*
 * Tests access to the bytes of datatypes from any offset. Packing and unpacking
 * in pieces must give the same result as a single call. The test runs in one
 * process. Open MPI's convertor has limits that dt_segment.c works around.
 */
#include "config.h"
#include "mpi/coll/dt_segment.h"

#include "base/rng.h"
#include "mpi_test.h"

#include <string.h>

enum { COUNT = 50, PAD = 4096, MAX_TYPES = 5 };

static void make_types(MPI_Datatype types[MAX_TYPES])
{
    int lengths[] = {1, 1, 3};
    MPI_Aint places[] = {0, 8, 24};
    MPI_Datatype members[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};

    MPI_Type_create_struct(3, lengths, places, members, &types[0]);
    MPI_Type_vector(5, 3, 7, MPI_DOUBLE, &types[1]);
    MPI_Type_create_resized(MPI_INT, -4, 12, &types[2]);
    MPI_Type_vector(3, 2, 3, types[0], &types[3]);
    /* Each element has 32 bytes. */
    MPI_Type_vector(4, 1, 3, MPI_C_LONG_DOUBLE_COMPLEX, &types[4]);
    for (int i = 0; i < MAX_TYPES; ++i) {
        MPI_Type_commit(&types[i]);
    }
}

/* Returns 1 if the bytes are equal. The first byte is byte `at` of the data.
 * With `padded`, ignores the padding of a long double (ABI of x86-64), which
 * Open MPI 5.0 does not pack. */
static int is_same(const char *left, const char *right, size_t at,
                   size_t length, int padded)
{
    for (size_t i = 0; i < length; ++i) {
        if (left[i] != right[i] && (!padded || (at + i) % 16 < 10)) {
            return 0;
        }
    }
    return 1;
}

/* Returns 1 if all packed pieces match `whole`, the data packed in one call. */
static int check_pack(const mca_coll_mrail_dt_segment_t *segment,
                      mca_coll_mrail_dt_cursors_t *cursors, const char *whole,
                      int padded, mrail_rng_t *rng)
{
    char piece[200];
    int ok = 1;

    for (uint64_t at = 0; at < segment->bytes;
         at += 1 + mrail_rng_below(rng, 5)) {
        size_t length = 1 + mrail_rng_below(rng, sizeof(piece));

        length = MRAIL_MIN(length, segment->bytes - at);
        ok &= mca_coll_mrail_dt_segment_pack(segment, cursors, at, piece,
                                             length) == 0;
        ok &= is_same(piece, whole + at, at, length, padded);
    }
    return ok;
}

/* Unpacks the pieces in a random order. */
static int check_unpack(mca_coll_mrail_dt_segment_t *segment,
                        mca_coll_mrail_dt_cursors_t *cursors, const char *whole,
                        const char *wanted, char *memory, size_t size,
                        int padded, mrail_rng_t *rng)
{
    uint64_t cut = mrail_rng_below(rng, (uint32_t)segment->bytes);
    int ok = 1;

    memset(memory, 0x55, size);
    for (int half = 0; half < 2; ++half) {
        uint64_t at = half ? 0 : cut, end = half ? cut : segment->bytes;

        while (at < end) {
            size_t length = 1 + mrail_rng_below(rng, 97);

            length = MRAIL_MIN(length, end - at);
            ok &= mca_coll_mrail_dt_segment_unpack(segment, cursors, at,
                                                   whole + at, length) == 0;
            at += length;
        }
    }
    /* Bytes beyond the end of the segment are dropped. */
    ok &= mca_coll_mrail_dt_segment_unpack(segment, cursors, segment->bytes,
                                           whole, 1) == 0;
    return ok && is_same(memory, wanted, 0, size, padded);
}

static int check_type(MPI_Datatype type, int padded, mrail_rng_t *rng)
{
    MPI_Aint lb, extent;
    mca_coll_mrail_dt_cursors_t cursors = {0};
    mca_coll_mrail_dt_segment_t segment;
    size_t size;
    char *from, *to, *wanted, *whole;
    int ok;

    MPI_Type_get_extent(type, &lb, &extent);
    size = COUNT * (size_t)extent + 2 * PAD;
    from = mt_alloc(size);
    to = mt_alloc(size);
    wanted = mt_alloc(size);
    mt_fill(from, size, 1);
    mca_coll_mrail_dt_segment_init(&segment, from + PAD, COUNT, type);
    whole = mt_alloc(segment.bytes);
    ok = segment.first == NULL &&
         mca_coll_mrail_dt_segment_pack(&segment, NULL, 0, whole,
                                        segment.bytes) == 0 &&
         check_pack(&segment, NULL, whole, padded, rng) &&
         check_pack(&segment, &cursors, whole, padded, rng);
    mca_coll_mrail_dt_cursors_cleanup(&cursors);
    memset(wanted, 0x55, size);
    mca_coll_mrail_dt_segment_init(&segment, wanted + PAD, COUNT, type);
    ok &= mca_coll_mrail_dt_segment_unpack(&segment, NULL, 0, whole,
                                           segment.bytes) == 0;
    mca_coll_mrail_dt_segment_init(&segment, to + PAD, COUNT, type);
    for (int i = 0; i < 200; ++i) {
        ok &= check_unpack(&segment, (i % 2) ? &cursors : NULL, whole, wanted,
                           to, size, padded, rng);
        if (i % 6 == 5) { /* earlier calls have left cursors */
            mca_coll_mrail_dt_cursors_cleanup(&cursors);
        }
    }
    mca_coll_mrail_dt_cursors_cleanup(&cursors);
    free(from);
    free(to);
    free(wanted);
    free(whole);
    return ok;
}

/* Copies data in several pieces from one type to another. */
static int check_copy(MPI_Datatype from_type, MPI_Datatype to_type)
{
    enum { ITEMS = 77 * 120 };
    size_t size = 64 * ITEMS + 2 * PAD;
    char *from = mt_alloc(size), *to = mt_alloc(size);
    char *sent = mt_alloc(size), *got = mt_alloc(size);
    mca_coll_mrail_dt_segment_t a, b;
    int ok;

    mt_fill(from, size, 2);
    mca_coll_mrail_dt_segment_init(&a, from + PAD, 77, from_type);
    mca_coll_mrail_dt_segment_init(&b, to + PAD, a.bytes / 4, to_type);
    ok = a.bytes == b.bytes && mca_coll_mrail_dt_segment_copy(&a, &b) == 0 &&
         mca_coll_mrail_dt_segment_pack(&a, NULL, 0, sent, a.bytes) == 0 &&
         mca_coll_mrail_dt_segment_pack(&b, NULL, 0, got, b.bytes) == 0 &&
         memcmp(sent, got, a.bytes) == 0;
    --b.count;
    b.bytes -= 4;
    ok &= mca_coll_mrail_dt_segment_copy(&a, &b) < 0;
    free(from);
    free(to);
    free(sent);
    free(got);
    return ok;
}

/* ---- work ---- */

static uint64_t walked; /* bytes that convertors skipped without copying */

int32_t __real_opal_convertor_set_position_nocheck(opal_convertor_t *convertor,
                                                   size_t *position);
int32_t __wrap_opal_convertor_set_position_nocheck(opal_convertor_t *convertor,
                                                   size_t *position);

int32_t __wrap_opal_convertor_set_position_nocheck(opal_convertor_t *convertor,
                                                   size_t *position)
{
    size_t from = convertor->bConverted, to = *position;

    walked += (to >= from) ? to - from : to; /* moving back restarts from 0 */
    return __real_opal_convertor_set_position_nocheck(convertor, position);
}

/* Packs and unpacks the data of several flows, chunk by chunk, alternating
 * between the flows. Returns 1 if the data is correct and the convertors
 * skipped few bytes. */
static int check_work(MPI_Datatype type, size_t chunk)
{
    enum { FLOWS = 3, ITEMS = 5000 };
    mca_coll_mrail_dt_cursors_t cursors = {0};
    mca_coll_mrail_dt_segment_t from, to;
    MPI_Aint lb, extent;
    uint64_t flow;
    size_t size;
    char *memory[2], *slot = mt_alloc(chunk);
    int ok = 1;

    MPI_Type_get_extent(type, &lb, &extent);
    size = ITEMS * (size_t)extent + 2 * PAD;
    memory[0] = mt_alloc(size);
    memory[1] = mt_alloc(size);
    mt_fill(memory[0], size, 4);
    memcpy(memory[1], memory[0], size);
    mca_coll_mrail_dt_segment_init(&from, memory[0] + PAD, ITEMS, type);
    mca_coll_mrail_dt_segment_init(&to, memory[1] + PAD, ITEMS, type);
    for (uint64_t at = 0; at < to.bytes; at += 1000) {
        char wrong = 0x55;

        ok &= mca_coll_mrail_dt_segment_unpack(&to, NULL, at, &wrong, 1) == 0;
    }
    flow = from.bytes / FLOWS + 1;
    walked = 0;
    for (uint64_t at = 0; at < flow; at += chunk) {
        for (uint64_t i = 0; i < FLOWS; ++i) {
            uint64_t offset = i * flow + at;
            uint64_t end = MRAIL_MIN((i + 1) * flow, from.bytes);
            size_t length = MRAIL_MIN(chunk, end - MRAIL_MIN(offset, end));

            ok &= mca_coll_mrail_dt_segment_pack(&from, &cursors, offset, slot,
                                                 length) == 0;
            ok &= mca_coll_mrail_dt_segment_unpack(&to, &cursors, offset, slot,
                                                   length) == 0;
        }
    }
    mca_coll_mrail_dt_cursors_cleanup(&cursors);
    ok &= memcmp(memory[0], memory[1], size) == 0;
    /* Three cursors are opened once each, to pack and to unpack. */
    if (walked > 6 * from.bytes) {
        fprintf(stderr, "convertors skipped %llu bytes to copy %llu\n",
                (unsigned long long)walked, (unsigned long long)from.bytes);
        ok = 0;
    }
    free(memory[0]);
    free(memory[1]);
    free(slot);
    return ok;
}

int main(void)
{
    MPI_Datatype types[MAX_TYPES];
    mrail_rng_t rng;

    MPI_Init(NULL, NULL);
    make_types(types);
    mrail_rng_init(&rng, 1);
    mt_result("a struct with holes", check_type(types[0], 0, &rng));
    mt_result("a vector", check_type(types[1], 0, &rng));
    mt_result("a negative lower bound", check_type(types[2], 0, &rng));
    mt_result("a vector of structs", check_type(types[3], 0, &rng));
    mt_result("32-byte elements", check_type(types[4], 1, &rng));
    mt_result("from one type to another", check_copy(types[1], types[2]));
    mt_result("many chunks of a vector", check_work(types[1], 4096));
    mt_result("many chunks that cut elements", check_work(types[1], 4093));
    mt_result("many chunks of structs", check_work(types[3], 4093));
    MPI_Finalize();
    return mt_failures != 0;
}
