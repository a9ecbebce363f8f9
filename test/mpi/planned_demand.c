/* Random demands, the same on all ranks that use the same seed. */
#include "config.h"
#include "planned.h"

#include <stdlib.h>
#include <string.h>

#define HOT 1600000u

/* Generates a size of any magnitude. Large sizes are rare. */
static uint64_t any_size(mrail_rng_t *rng)
{
    switch (mrail_rng_below(rng, 8)) {
    case 0:
    case 1:
        return 0;
    case 2:
        return 1 + mrail_rng_below(rng, 16);
    case 3:
    case 4:
        return mrail_rng_below(rng, 8000);
    case 5:
    case 6:
        return mrail_rng_below(rng, 120000);
    default:
        return mrail_rng_hit(rng, 200000) ? mrail_rng_below(rng, HOT)
                                          : mrail_rng_below(rng, 500000);
    }
}

static void fill_all(mrail_rng_t *rng, int ranks, uint32_t most,
                     uint64_t *bytes)
{
    for (int i = 0; i < ranks * ranks; ++i) {
        bytes[i] = (most == 0) ? any_size(rng) : mrail_rng_below(rng, most);
    }
}

/* Fills in equal sizes, with random differences of up to a half. */
static void fill_evenly(mrail_rng_t *rng, int ranks, uint64_t *bytes)
{
    uint32_t least = 1u << (4 + mrail_rng_below(rng, 13));

    for (int i = 0; i < ranks * ranks; ++i) {
        bytes[i] = least + mrail_rng_below(rng, least / 2);
    }
}

/* Empties some rows or columns. */
static void clear_some(mrail_rng_t *rng, int ranks, int columns,
                       uint64_t *bytes)
{
    uint64_t which = mrail_rng_next(rng) | (1u << mrail_rng_below(rng, 4));

    for (int i = 0; i < ranks * ranks; ++i) {
        int line = columns ? i % ranks : i / ranks;

        if (which >> (line % 64) & 1) {
            bytes[i] = 0;
        }
    }
}

/* Fills in small sizes, with a hot pair, a hot receiver or a hot sender. */
static void make_hot(mrail_rng_t *rng, int ranks, int kind, uint64_t *bytes)
{
    int hot = (int)mrail_rng_below(rng, (uint32_t)ranks);
    int away = (int)mrail_rng_below(rng, (uint32_t)ranks);
    uint32_t most = 20000 + mrail_rng_below(rng, HOT - 20000);

    for (int from = 0; from < ranks; ++from) {
        for (int to = 0; to < ranks; ++to) {
            int is_hot = (kind == 0)   ? to == (from + away) % ranks
                         : (kind == 1) ? to == hot
                         : (kind == 2) ? from == hot
                                       : from == hot && to == away;

            if (is_hot) {
                bytes[from * ranks + to] =
                    most / 2 + mrail_rng_below(rng, most / 2);
            }
        }
    }
}

static void limit(int ranks, uint64_t most, uint64_t *bytes)
{
    uint64_t sum = 0;

    for (int i = 0; i < ranks * ranks; ++i) {
        sum += bytes[i];
    }
    for (int i = 0; sum > most && i < ranks * ranks; ++i) {
        bytes[i] = bytes[i] * most / sum;
    }
}

void planned_demand_draw(mrail_rng_t *rng, int ranks, int symmetric, int even,
                         uint64_t most, uint64_t *bytes)
{
    unsigned kind = mrail_rng_below(rng, 18);

    memset(bytes, 0, (size_t)(ranks * ranks) * sizeof(*bytes));
    if (kind < 4) {
        fill_all(rng, ranks, 0, bytes);
    } else if (kind < 6) {
        fill_all(rng, ranks, 0, bytes);
        clear_some(rng, ranks, kind == 5, bytes);
    } else if (kind < 10) {
        fill_all(rng, ranks, mrail_rng_hit(rng, 500000) ? 1 : 4000, bytes);
        make_hot(rng, ranks, (int)kind - 6, bytes);
    } else if (kind < 12) {
        fill_all(rng, ranks, 1u << (4 + mrail_rng_below(rng, 15)), bytes);
    } else if (kind < 16) {
        fill_evenly(rng, ranks, bytes);
    } else if (kind < 17) { /* no demands between different ranks */
        for (int i = 0; i < ranks; ++i) {
            bytes[i * ranks + i] = any_size(rng);
        }
    } /* otherwise no demands at all */
    if (even) {
        bytes[0] = 1 + bytes[ranks * ranks - 1] % 40000;
    }
    for (int i = 0; i < ranks * ranks; ++i) {
        int back = i % ranks * ranks + i / ranks;

        bytes[i] = even                    ? bytes[0]
                   : symmetric && back < i ? bytes[back]
                                           : bytes[i];
    }
    limit(ranks, most, bytes);
}
