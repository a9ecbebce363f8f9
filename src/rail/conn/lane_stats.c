/* Statistics of lanes, kept beyond the end of their peers. */
#include "config.h"
#include "rail/conn/lane_stats.h"

#include "rail/conn/lane.h"

#include <stdlib.h>

mrail_stats_lane_t mrail_stats_of_lane(const mrail_lane_t *lane)
{
    return (mrail_stats_lane_t){
        .peer = lane->peer->id,
        .rail = lane->rail,
        .state = mrail_lane_state_name(lane->state),
        .qpn = lane->last_qpn,
        .slot = lane->slot,
        .sport = lane->sport,
    };
}

void mrail_stats_keep_lane(const mrail_lane_t *lane)
{
    mrail_engine_t *engine = lane->peer->engine;

    if ((engine->config.stats_file[0] == '\0') || (lane->last_qpn == 0)) {
        return;
    }
    if (engine->ended_lanes == NULL) {
        engine->ended_lanes =
            calloc(MRAIL_STATS_LANES, sizeof(*engine->ended_lanes));
    }
    if (engine->ended_lanes != NULL) {
        engine->ended_lanes[engine->num_ended_lanes++ % MRAIL_STATS_LANES] =
            mrail_stats_of_lane(lane);
    }
}
