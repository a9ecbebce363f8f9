#include "config.h"
#include "tools/demand.h"

#define PPM 1000000u

/* Spreads `total` evenly over all ranks except `rank` and `hot`. If there is no
 * hot rank, hot == rank. */
static void spread(unsigned ranks, unsigned rank, unsigned hot, uint64_t total,
                   uint64_t *bytes)
{
    unsigned others = ranks - ((hot == rank) ? 1 : 2);
    unsigned odd = (unsigned)(total % others);

    for (unsigned i = 1; i < ranks; ++i) {
        unsigned to = (rank + i) % ranks;

        if (to != hot) {
            bytes[to] = total / others + ((odd > 0) ? 1 : 0);
            odd -= (odd > 0) ? 1 : 0;
        }
    }
}

void mrail_demand_row(unsigned ranks, unsigned rank, uint64_t size,
                      uint32_t hotspot_ppm, mrail_demand_pattern_t pattern,
                      uint64_t *bytes)
{
    unsigned hot = rank;
    uint64_t hot_bytes = 0;

    if (hotspot_ppm != MRAIL_DEMAND_UNIFORM) {
        hot = (pattern == MRAIL_DEMAND_SINGLE) ? 0 : (rank + ranks / 2) % ranks;
        hot_bytes = size * hotspot_ppm / PPM;
    }
    bytes[rank] = 0;
    if (ranks == 1) {
        return;
    }
    if (hot == rank) {
        spread(ranks, rank, rank, size, bytes);
    } else if (ranks == 2) {
        bytes[hot] = size;
    } else {
        bytes[hot] = hot_bytes;
        spread(ranks, rank, hot, size - hot_bytes, bytes);
    }
}
