#include "config.h"
#include "cuts.h"

#include "base/util.h"

#include <math.h>

#define GRANULARITY 64u
/* Smaller lanes are not rounded, because 64 bytes would be too coarse. */
#define MIN_LARGE 65536u

void mrail_cuts_make(uint64_t bytes, uint64_t large, unsigned num_lanes,
                     const double *part, uint64_t *end)
{
    double sum = 0, up_to = 0, least = INFINITY, per_part, units;
    int64_t unit, last = 0, all = (int64_t)bytes;
    unsigned last_lane = 0;

    for (unsigned lane = 0; lane < num_lanes; ++lane) {
        sum += part[lane];
        least = (part[lane] > 0) ? MRAIL_MIN(least, part[lane]) : least;
        last_lane = (part[lane] > 0) ? lane : last_lane;
    }
    per_part = (double)all / sum;
    unit = (least * per_part >= (double)MRAIL_MAX(large, MIN_LARGE))
               ? GRANULARITY
               : 1;
    units = per_part / (double)unit;
    for (unsigned lane = 0; lane < last_lane; ++lane) {
        up_to += part[lane];
        if (part[lane] > 0) {
            int64_t cut = (int64_t)(up_to * units + 0.5) * unit;

            last = MRAIL_MAX(last, MRAIL_MIN(cut, all));
        }
        end[lane] = (uint64_t)last;
    }
    for (unsigned lane = last_lane; lane < num_lanes; ++lane) {
        end[lane] = bytes;
    }
}

uint64_t mrail_cuts_bytes(const uint64_t *end, unsigned lane)
{
    return end[lane] - ((lane > 0) ? end[lane - 1] : 0);
}
