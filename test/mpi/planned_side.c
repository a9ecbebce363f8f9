/* The buffers of a rank: the location of each peer's data, with guard bytes
 * around it. */
#include "config.h"
#include "planned.h"

#include "mpi_test.h"
#include "tools/bench_device.h"

#include <limits.h>
#include <string.h>

enum { GUARD = 4096 };

static const planned_type_t *type_of(const planned_side_t *side, int i)
{
    return &side->types[side->each ? i : 0];
}

/* Fills the bytes as mt_fill() does, but a word at a time. */
static void fill(char *bytes, size_t length, uint64_t seed)
{
    for (size_t i = 0; i < length; i += 8) {
        uint64_t word = (seed + 1 + i / 8) * 0x9e3779b97f4a7c15ull;

        memcpy(bytes + i, &word, MRAIL_MIN(length - i, 8));
    }
}

static void shuffle(mrail_rng_t *rng, int num, int *order)
{
    for (int i = 0; i < num; ++i) {
        int other = (int)mrail_rng_below(rng, (uint32_t)i + 1);

        order[i] = order[other];
        order[other] = i;
    }
}

/* Generates the number of bytes between two peers' data. */
static long draw_gap(mrail_rng_t *rng)
{
    static const uint32_t most[] = {1, 8, 100, 5000};

    return (long)mrail_rng_below(rng, most[mrail_rng_below(rng, 4)]);
}

static long round_up(long value, long to)
{
    return (value + to - 1 + (value < 0 ? 1 - to : 0)) / to * to;
}

/* Places the items of all peers as columns of one matrix. */
static void place_columns(planned_side_t *side, mrail_rng_t *rng,
                          planned_base_t base, unsigned unit, const int *order)
{
    long column = 0;

    for (int i = 0; i < side->num; ++i) {
        column += (long)mrail_rng_below(rng, 3);
        side->starts[order[i]] = column;
        column += side->counts[order[i]];
    }
    side->types[0] = planned_type_column(base, unit, column + 1);
    for (int i = 0; i < side->num; ++i) {
        side->starts[i] *= side->types[0].extent;
    }
}

static void place(planned_side_t *side, mrail_rng_t *rng, planned_place_t place,
                  const int *order)
{
    long end = 0;

    for (int k = 0; k < side->num; ++k) {
        int i = (place == PLANNED_BLOCKS) ? k : order[k];
        const planned_type_t *type = type_of(side, i);
        long start = end + draw_gap(rng) - type->first;

        if (place == PLANNED_BLOCKS) {
            start = (long)i * side->counts[i] * type->extent;
        } else if (place == PLANNED_ITEMS) {
            start = round_up(start, type->extent);
        }
        side->starts[i] = start;
        if (side->counts[i] > 0) {
            end = start + (side->counts[i] - 1) * type->extent + type->last;
        }
    }
}

/* Makes displacements relative to the data of one peer, so that some are
 * negative. Peers without data have random displacements. */
static void set_displs(planned_side_t *side, mrail_rng_t *rng,
                       planned_place_t place)
{
    long zero = 0;

    if (place != PLANNED_BLOCKS && mrail_rng_hit(rng, 500000)) {
        zero = side->starts[mrail_rng_below(rng, (uint32_t)side->num)];
    }
    for (int i = 0; i < side->num; ++i) {
        long unit = (place == PLANNED_ITEMS) ? type_of(side, i)->extent : 1;

        side->starts[i] -= zero;
        side->displs[i] = (int)(side->starts[i] / unit);
        if (side->counts[i] == 0 && mrail_rng_hit(rng, 500000)) {
            side->displs[i] = (int)mrail_rng_below(rng, 100000) - 50000;
        }
    }
}

static void allocate(planned_side_t *side)
{
    long first = 0, last = 0;

    for (int i = 0; i < side->num; ++i) {
        const planned_type_t *type = type_of(side, i);

        if (side->counts[i] > 0) {
            first = MRAIL_MIN(first, side->starts[i] + type->first);
            last = MRAIL_MAX(last, side->starts[i] + type->last +
                                       (side->counts[i] - 1) * type->extent);
        }
    }
    first = round_up(first, 64) - 64;
    side->length = (size_t)(last - first) + 2 * GUARD;
    side->memory = mt_alloc(side->length);
    side->wanted = mt_alloc(side->length);
    side->base = side->memory + GUARD - first;
}

static void *numbers(int num, size_t size)
{
    return mt_alloc((size_t)num * size);
}

void planned_side_init(planned_side_t *side, mrail_rng_t *rng, int num,
                       planned_place_t where, planned_base_t base,
                       unsigned unit, const long *units)
{
    int columns =
        (where == PLANNED_ITEMS) && unit > 1 && mrail_rng_hit(rng, 150000);
    int *order = numbers(num, sizeof(int));
    long element = planned_type_base_size(base);

    *side = (planned_side_t){.num = num, .each = (where == PLANNED_BYTES)};
    side->types = numbers(num, sizeof(*side->types));
    side->mpi_types = numbers(num, sizeof(*side->mpi_types));
    side->counts = numbers(num, sizeof(int));
    side->displs = numbers(num, sizeof(int));
    side->starts = numbers(num, sizeof(long));
    for (int i = 0; !columns && i < (side->each ? num : 1); ++i) {
        side->types[i] = planned_type_draw(rng, base, unit);
    }
    for (int i = 0; i < num; ++i) {
        side->counts[i] = (int)units[i];
        if (!columns) {
            side->counts[i] =
                (int)(units[i] * (long)unit * element / type_of(side, i)->size);
        }
    }
    shuffle(rng, num, order);
    if (columns) {
        place_columns(side, rng, base, unit, order);
    } else {
        place(side, rng, where, order);
    }
    set_displs(side, rng, where);
    for (int i = 0; i < num; ++i) {
        side->mpi_types[i] = type_of(side, i)->mpi;
    }
    allocate(side);
    free(order);
}

void planned_side_use_device(planned_side_t *side, mrail_bench_memory_t memory)
{
    side->device = mrail_bench_device_allocate(side->length, memory);
}

void planned_side_upload(const planned_side_t *side)
{
    if (side->device != NULL) {
        mrail_bench_device_copy(side->device, side->memory, side->length);
    }
}

void planned_side_download(planned_side_t *side)
{
    if (side->device != NULL) {
        mrail_bench_device_copy(side->memory, side->device, side->length);
    }
}

char *planned_side_buffer(const planned_side_t *side)
{
    return (side->device != NULL) ? side->device + (side->base - side->memory)
                                  : side->base;
}

void planned_side_cleanup(planned_side_t *side)
{
    if (side->device != NULL) {
        mrail_bench_device_free(side->device);
    }
    for (int i = 0; i < (side->each ? side->num : 1); ++i) {
        planned_type_cleanup(&side->types[i]);
    }
    free(side->types);
    free(side->mpi_types);
    free(side->counts);
    free(side->displs);
    free(side->starts);
    free(side->memory);
    free(side->wanted);
}

void planned_side_clear(planned_side_t *side)
{
    fill(side->memory, side->length, 77);
    memcpy(side->wanted, side->memory, side->length);
}

void planned_side_put(planned_side_t *side, int i, uint64_t seed, int now)
{
    const planned_type_t *type = type_of(side, i);
    size_t length = (size_t)(side->counts[i] * type->size);
    char *data = mt_alloc(length);
    long at = side->base - side->memory + side->starts[i];

    fill(data, length, seed);
    planned_type_unpack(type, side->counts[i], data, side->wanted + at);
    if (now) {
        planned_type_unpack(type, side->counts[i], data, side->memory + at);
    }
    free(data);
}

/* Returns the peer that owns the byte, or -1 if no peer does. */
static int owner(const planned_side_t *side, long at)
{
    for (int i = 0; i < side->num; ++i) {
        const planned_type_t *type = type_of(side, i);
        long from = side->base - side->memory + side->starts[i];

        for (long k = 0; k < side->counts[i]; ++k) {
            for (unsigned s = 0; s < type->num; ++s) {
                long first = from + k * type->extent + type->segments[s].at;

                if (at >= first && at < first + type->segments[s].length) {
                    return i;
                }
            }
        }
    }
    return -1;
}

int planned_side_check(const planned_side_t *side, const char *what)
{
    size_t i = 0;
    int peer;

    if (memcmp(side->memory, side->wanted, side->length) == 0) {
        return 1;
    }
    while (side->memory[i] == side->wanted[i]) {
        ++i;
    }
    peer = owner(side, (long)i);
    fprintf(stderr, "rank %d, %s: byte %ld is 0x%02x, not 0x%02x; it is ",
            mt_rank(MPI_COMM_WORLD), what,
            (long)i - (long)(side->base - side->memory),
            (unsigned char)side->memory[i], (unsigned char)side->wanted[i]);
    if (peer >= 0) {
        fprintf(stderr, "of peer %d, %d items at %ld\n", peer,
                side->counts[peer], side->starts[peer]);
    } else {
        fprintf(stderr, "in a gap, or outside the data\n");
    }
    return 0;
}

long planned_side_data_at(const planned_side_t *side, int i)
{
    const planned_type_t *type = type_of(side, i);

    if (side->counts[i] == 0) {
        return -1;
    }
    return side->base - side->memory + side->starts[i] +
           type->segments[type->num - 1].at +
           (side->counts[i] - 1) * type->extent;
}

long planned_side_gap_at(const planned_side_t *side)
{
    for (long at = GUARD; at < (long)side->length - GUARD; ++at) {
        if (owner(side, at) < 0) {
            return at;
        }
    }
    return -1;
}
