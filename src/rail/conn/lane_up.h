/* Bringing lanes up. */
#ifndef MRAIL_RAIL_CONN_LANE_UP_H
#define MRAIL_RAIL_CONN_LANE_UP_H

#include "rail/state/engine.h"

/* Marks a connected lane as up. On a path that had failed, the lane must first
 * complete a READ (mrail_failover_validate()): datagrams may get through where
 * requests do not. */
void mrail_ctl_lane_up(mrail_lane_t *lane, const char *cause) MRAIL_CTL;

/* Sets the lane's bit, so that progress threads may use it. */
void mrail_ctl_lane_join(mrail_lane_t *lane) MRAIL_CTL;

#endif
