#include "config.h"
#include "orchestrator/ethereal.h"

#include <assert.h>

static uint32_t gcd(uint32_t a, uint32_t b)
{
    while (b != 0) {
        uint32_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

mrail_ethereal_split_t mrail_ethereal_split(uint32_t flows, uint32_t uplinks)
{
    mrail_ethereal_split_t split = {.flows = flows, .uplinks = uplinks};
    uint32_t g;

    assert(uplinks >= 1);
    split.whole = flows / uplinks;
    split.split = flows % uplinks;
    g = gcd(split.split, uplinks); /* uplinks if nothing remains */
    split.pieces = uplinks / g;
    split.pieces_each = split.split / g;
    return split;
}

uint64_t mrail_ethereal_num_pieces(const mrail_ethereal_split_t *split)
{
    return (uint64_t)split->flows - split->split +
           (uint64_t)split->split * split->pieces;
}

mrail_ethereal_piece_t mrail_ethereal_piece(const mrail_ethereal_split_t *split,
                                            uint64_t i)
{
    uint32_t num_whole = split->flows - split->split;
    mrail_ethereal_piece_t piece = {.pieces = 1};

    assert(i < mrail_ethereal_num_pieces(split));
    if (i < num_whole) {
        piece.flow = (uint32_t)i;
        piece.uplink = (uint32_t)(i % split->uplinks);
        return piece;
    }
    i -= num_whole;
    piece.flow = num_whole + (uint32_t)(i / split->pieces);
    piece.piece = (uint32_t)(i % split->pieces);
    piece.pieces = split->pieces;
    /* The uplinks take turns, and each gets r/g pieces. */
    piece.uplink = (uint32_t)(i % split->uplinks);
    return piece;
}

/* Returns floor(size * part / parts) without overflow. */
static uint64_t cut(uint64_t size, uint32_t part, uint32_t parts)
{
    return size / parts * part + size % parts * part / parts;
}

void mrail_ethereal_bytes(const mrail_ethereal_piece_t *piece, uint64_t size,
                          uint64_t *offset_p, uint64_t *length_p)
{
    uint64_t offset = cut(size, piece->piece, piece->pieces);

    *length_p = cut(size, piece->piece + 1, piece->pieces) - offset;
    *offset_p = offset;
}

/* ---- Path states ---- */

void mrail_ethereal_paths_init(mrail_ethereal_paths_t *paths, uint32_t uplinks)
{
    assert(uplinks >= 1 && uplinks <= MRAIL_ETHEREAL_MAX_UPLINKS);
    *paths = (mrail_ethereal_paths_t){.uplinks = uplinks};
}

void mrail_ethereal_path_fail(mrail_ethereal_paths_t *paths, uint32_t uplink,
                              mrail_ns_t now_ns, mrail_ns_t retry_ns)
{
    assert(uplink < paths->uplinks);
    paths->failed_until_ns[uplink] = now_ns + retry_ns;
}

uint32_t mrail_ethereal_paths_usable(const mrail_ethereal_paths_t *paths,
                                     mrail_ns_t now_ns, uint32_t *uplinks)
{
    uint32_t num = 0;

    for (uint32_t i = 0; i < paths->uplinks; ++i) {
        if (paths->failed_until_ns[i] <= now_ns) {
            uplinks[num++] = i;
        }
    }
    if (num == 0) {
        for (; num < paths->uplinks; ++num) {
            uplinks[num] = num;
        }
    }
    return num;
}

/* ---- Start times and order ---- */

mrail_ns_t mrail_ethereal_stagger(mrail_rng_t *rng, mrail_ns_t max_ns)
{
    assert(max_ns < UINT32_MAX);
    return mrail_rng_below(rng, (uint32_t)max_ns + 1);
}

void mrail_ethereal_shuffle(mrail_rng_t *rng, uint32_t *order, uint32_t count)
{
    for (uint32_t i = 0; i < count; ++i) {
        uint32_t j = mrail_rng_below(rng, i + 1);

        order[i] = order[j];
        order[j] = i;
    }
}
