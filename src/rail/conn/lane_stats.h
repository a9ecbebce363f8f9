/* Statistics of lanes, kept beyond the end of their peers. */
#ifndef MRAIL_RAIL_CONN_LANE_STATS_H
#define MRAIL_RAIL_CONN_LANE_STATS_H

#include "rail/state/engine.h"

/* A lane that has, or had, a QP. */
typedef struct mrail_stats_lane {
    uint64_t peer;
    const mrail_rail_t *rail;
    const char *state;
    uint32_t qpn;
    uint16_t slot;
    uint16_t sport;
} mrail_stats_lane_t;

/* Maximum number of lanes of freed peers in the statistics, so that the file
 * does not grow without bound. */
#define MRAIL_STATS_LANES 1024

/* Keeps the lane's data for the statistics, because its peer is being freed.
 * Control lock held. */
void mrail_stats_keep_lane(const mrail_lane_t *lane) MRAIL_CTL;

mrail_stats_lane_t mrail_stats_of_lane(const mrail_lane_t *lane);

#endif
