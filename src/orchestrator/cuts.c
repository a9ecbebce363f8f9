#include "config.h"
#include "cuts.h"

#include "base/util.h"

#define GRAIN 64u

void mrail_cuts_make(uint64_t bytes, uint64_t large, unsigned num_lanes,
                     const double *part, uint64_t *end)
{
    uint64_t grain = (bytes / GRAIN >= large) ? GRAIN : 1, last = 0;
    double sum = 0, up_to = 0;
    unsigned last_lane = 0;

    for (unsigned lane = 0; lane < num_lanes; ++lane) {
        sum += part[lane];
        last_lane = (part[lane] > 0) ? lane : last_lane;
    }
    for (unsigned lane = 0; lane < num_lanes; ++lane) {
        up_to += part[lane];
        if (part[lane] > 0) {
            uint64_t cut = (uint64_t)((double)bytes * (up_to / sum) /
                                          (double)grain + 0.5) * grain;

            last = MRAIL_MAX(last, MRAIL_MIN(cut, bytes));
        }
        end[lane] = (lane >= last_lane) ? bytes : last;
    }
}

uint64_t mrail_cuts_bytes(const uint64_t *end, unsigned lane)
{
    return end[lane] - ((lane > 0) ? end[lane - 1] : 0);
}
