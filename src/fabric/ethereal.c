#include "config.h"
#include "fabric/ethereal.h"

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
    /* Pieces go to the uplinks in rotation, so each uplink receives r/g of
     * them. */
    piece.uplink = (uint32_t)(i % split->uplinks);
    return piece;
}

/* ---- Path states ---- */

void mrail_ethereal_paths_init(mrail_ethereal_paths_t *paths,
                               mrail_ns_t *bad_until_ns, uint32_t num)
{
    assert(num >= 1);
    for (uint32_t i = 0; i < num; ++i) {
        bad_until_ns[i] = 0;
    }
    *paths = (mrail_ethereal_paths_t){.num = num, .bad_until_ns = bad_until_ns};
}

void mrail_ethereal_path_fail(mrail_ethereal_paths_t *paths, uint32_t path,
                              mrail_ns_t now_ns, mrail_ns_t retry_ns)
{
    assert(path < paths->num);
    paths->bad_until_ns[path] = now_ns + retry_ns;
}

uint32_t mrail_ethereal_paths_usable(const mrail_ethereal_paths_t *paths,
                                     mrail_ns_t now_ns, uint32_t *usable)
{
    uint32_t num = 0;

    for (uint32_t i = 0; i < paths->num; ++i) {
        if (paths->bad_until_ns[i] <= now_ns) {
            usable[num++] = i;
        }
    }
    if (num == 0) {
        for (; num < paths->num; ++num) {
            usable[num] = num;
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
