#include "config.h"
#include "rail/proto/am_lane.h"

#include <errno.h>

/* A window of this many bytes does not grow further. In a larger window, more
 * messages would be unacknowledged than a path can hold, so the sender could
 * not tell which lane is idle. */
#define WINDOW_BYTES (256u << 10)

/* Number of credit-only messages after which the window grows. */
#define UPDATES_GROW 8

void mrail_am_lane_start(mrail_am_lane_t *am, unsigned window)
{
    am->window = window;
    am->granted = am->advertised = (uint16_t)window;
    am->received = 0;
}

unsigned mrail_am_lane_window(const mrail_am_pool_t *pool, int is_first)
{
    unsigned part = (pool->depth - pool->leased) / 16;
    unsigned window =
        is_first ? pool->credits : MRAIL_MAX(pool->credits / 4, 4u);

    while ((window > 2) && (window + MRAIL_AM_LANE_RESERVE > part)) {
        window = MRAIL_MAX(window / 2, 2u);
    }
    return window;
}

int mrail_am_lane_is_narrow(mrail_am_lane_t *am)
{
    if (++am->updates < UPDATES_GROW) {
        return 0;
    }
    am->updates = 0;
    return 1;
}

int mrail_am_lane_may_grow(const mrail_am_lane_t *am, unsigned most)
{
    return (am->window < most) &&
           ((uint64_t)am->window * am->length < WINDOW_BYTES);
}

int mrail_am_lane_growth(const mrail_am_lane_t *am, const mrail_am_pool_t *pool,
                         unsigned most)
{
    unsigned part = pool->depth / 2 / MRAIL_MAX(pool->num_lanes, 1u);
    unsigned more;

    most = MRAIL_MIN(most, MRAIL_MAX(part, pool->credits));
    if (am->window >= most) {
        return 0;
    }
    more = MRAIL_MIN(am->window, most - am->window);
    return (pool->leased + more <= pool->depth / 2) ? (int)more : -ENOBUFS;
}

void mrail_am_lane_grow(mrail_am_lane_t *am, unsigned count)
{
    am->window += count;
    am->granted += (uint16_t)count;
}

int mrail_am_lane_is_idle(mrail_am_lane_t *am)
{
    if (am->window <= MRAIL_AM_CREDITS_FLOOR) {
        return 0;
    }
    if (am->received != am->recall_received) {
        am->recall_received = am->received;
        am->was_recalled = 0;
        return 0;
    }
    return !am->was_recalled;
}

void mrail_am_lane_recall(mrail_am_lane_t *am)
{
    am->recall_due = am->was_recalled = 1;
}

int mrail_am_lane_take_return(mrail_am_lane_t *am, unsigned count)
{
    if ((count > (uint16_t)(am->advertised - am->received)) ||
        (count >= am->window)) {
        return -EPROTO;
    }
    am->received += (uint16_t)count;
    am->window -= count;
    return 0;
}
