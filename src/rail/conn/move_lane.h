/* Moves of lanes to other source ports. Control lock held. */
#ifndef MRAIL_RAIL_CONN_MOVE_LANE_H
#define MRAIL_RAIL_CONN_MOVE_LANE_H

#include "rail/state/engine.h"

/* Continues a move. Returns its next deadline. */
mrail_ns_t mrail_move_run(mrail_lane_t *lane, mrail_ns_t now_ns) MRAIL_CTL;

/* Starts a move of the lane, unless proto/port_move.h or the device forbids it.
 * `like`: see mrail_ctl_send_move(). `seq`: number of the peer's MOVE, or 0 if
 * this end decided to move. */
void mrail_move_to(mrail_lane_t *lane, unsigned like, uint32_t seq,
                   mrail_ns_t now_ns) MRAIL_CTL;

/* Undoes the move with this number. Only the last move can be undone, and only
 * by the end that decided on it. */
void mrail_move_back(mrail_lane_t *lane, uint32_t seq,
                     mrail_ns_t now_ns) MRAIL_CTL;

#endif
