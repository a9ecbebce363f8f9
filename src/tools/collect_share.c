#include "config.h"
#include "tools/collect_share.h"

/* Meets the needs that are at most `level`. Returns their number. */
static unsigned share_meet(const uint64_t *needs, uint64_t *shares,
                           unsigned count, uint64_t level, uint64_t *left_p)
{
    unsigned met = 0;

    for (unsigned i = 0; i < count; ++i) {
        if ((shares[i] == UINT64_MAX) && (needs[i] <= level)) {
            shares[i] = needs[i];
            *left_p -= needs[i];
            ++met;
        }
    }
    return met;
}

void collect_share(const uint64_t *needs, uint64_t *shares, unsigned count,
                   uint64_t total)
{
    uint64_t left = total, level;
    unsigned open = count, met;

    for (unsigned i = 0; i < count; ++i) {
        shares[i] = UINT64_MAX; /* not met yet */
    }
    /* Each round meets at least one need, and raises the level for the rest. */
    do {
        level = (open > 0) ? left / open : 0;
        met = share_meet(needs, shares, count, level, &left);
        open -= met;
    } while ((open > 0) && (met > 0));
    for (unsigned i = 0; i < count; ++i) {
        if (shares[i] == UINT64_MAX) {
            shares[i] = level;
        } else if (open == 0) {
            shares[i] += left / count;
        }
    }
}
