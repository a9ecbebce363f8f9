#include "config.h"
#include "tools/collect_clock.h"

#include "base/util.h"

#include <errno.h>

typedef struct interval {
    int64_t low, high; /* low <= high */
} interval_t;

static int is_valid(const collect_stamp_t *stamp)
{
    return (stamp->sent <= stamp->received) &&
           (stamp->received <= COLLECT_CLOCK_MAX) &&
           (stamp->remote <= COLLECT_CLOCK_MAX);
}

static interval_t interval_of(const collect_stamp_t *stamp)
{
    return (interval_t){(int64_t)stamp->remote - (int64_t)stamp->received,
                        (int64_t)stamp->remote - (int64_t)stamp->sent};
}

static uint64_t length_of(const interval_t *interval)
{
    return (uint64_t)(interval->high - interval->low);
}

int collect_clock_estimate(const collect_stamp_t *stamps, unsigned count,
                           int64_t *offset_ns_p, uint64_t *bound_ns_p)
{
    interval_t common = {0}, shortest = {0};
    unsigned valid = 0;

    for (unsigned i = 0; i < count; ++i) {
        interval_t one;

        if (!is_valid(&stamps[i])) {
            continue;
        }
        one = interval_of(&stamps[i]);
        if (valid++ == 0) {
            common = shortest = one;
            continue;
        }
        common.low = MRAIL_MAX(common.low, one.low);
        common.high = MRAIL_MIN(common.high, one.high);
        if (length_of(&one) < length_of(&shortest)) {
            shortest = one;
        }
    }
    if (valid == 0) {
        return -EINVAL;
    }
    if (common.low > common.high) {
        common = shortest;
    }
    *bound_ns_p = (length_of(&common) + 1) / 2;
    *offset_ns_p = common.low + (int64_t)(length_of(&common) / 2);
    return 0;
}
