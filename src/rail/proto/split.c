#include "config.h"
#include "rail/proto/split.h"

#include "base/clock.h"
#include "base/util.h"

static double split_bytes_s(size_t length, double rate,
                            const mrail_split_cost_t *cost)
{
    if ((cost->bytes_per_s != 0) && (rate > (double)cost->bytes_per_s)) {
        rate = (double)cost->bytes_per_s;
    }
    return (double)length / rate;
}

/* Moves the highest of rates[first..count) to rates[first]. */
static void split_select(double *rates, unsigned first, unsigned count)
{
    for (unsigned i = first + 1; i < count; ++i) {
        if (rates[i] > rates[first]) {
            double rate = rates[i];

            rates[i] = rates[first];
            rates[first] = rate;
        }
    }
}

/* The time is a convex function of the number of lanes, because each further
 * lane is no faster than the one before. The first minimum is thus the only
 * one. */
unsigned mrail_split_lanes(size_t length, double *rates, unsigned count,
                           const mrail_split_cost_t *cost)
{
    double chunk_s = (double)cost->chunk_ns / MRAIL_NS_PER_SEC;
    double rate, time_s;
    unsigned lanes = 1;

    split_select(rates, 0, count);
    rate = rates[0];
    time_s = split_bytes_s(length, rate, cost);
    for (; lanes < count; ++lanes) {
        double next_s;

        split_select(rates, lanes, count);
        rate += rates[lanes];
        next_s = split_bytes_s(length, rate, cost);
        if (next_s + chunk_s >= time_s) {
            break;
        }
        time_s = next_s;
    }
    return lanes;
}

uint32_t mrail_split_spread(double rate, const mrail_split_cost_t *cost)
{
    double gain = 1 / rate; /* seconds per byte */
    double bytes;

    if (cost->bytes_per_s != 0) {
        gain -= 1 / (double)cost->bytes_per_s;
    }
    if (gain <= 0) {
        return UINT32_MAX;
    }
    bytes = (double)cost->chunk_ns / MRAIL_NS_PER_SEC / gain;
    return (uint32_t)MRAIL_MIN(bytes, (double)UINT32_MAX);
}
