/* Moves of lanes to other source ports. Control lock held. */
#ifndef MRAIL_RAIL_CONN_MOVE_LANE_H
#define MRAIL_RAIL_CONN_MOVE_LANE_H

#include "rail/state/engine.h"

#define MOVE_WINDOW (250 * MRAIL_NS_PER_MS)

/* Longest time for the send queue to drain. */
#define MOVE_TIMEOUT (500 * MRAIL_NS_PER_MS)

/* Handles MOVE: the peer has detected that this end's data on the lane shares
 * its path. like: see mrail_ctl_send_move(). */
void mrail_move_on_request(mrail_lane_t *lane, unsigned like, uint32_t seq,
                           mrail_ns_t now_ns) MRAIL_CTL;

/* Handles MOVE_BACK: the MOVE with this number brought no gain. */
void mrail_move_on_request_back(mrail_lane_t *lane, uint32_t seq,
                                mrail_ns_t now_ns) MRAIL_CTL;

/* Continues a move. Returns its next deadline. */
mrail_ns_t mrail_move_run(mrail_lane_t *lane, mrail_ns_t now_ns) MRAIL_CTL;

/* Undoes the move with this number. Only the last move can be undone, and only
 * by the end that decided on it. */
void mrail_move_back(mrail_lane_t *lane, uint32_t seq,
                     mrail_ns_t now_ns) MRAIL_CTL;

/* Starts a move of the lane. like: see mrail_ctl_send_move(). seq: number of
 * the peer's request; 0: a decision of this end. */
void mrail_move_to(mrail_lane_t *lane, unsigned like, uint32_t seq,
                   mrail_ns_t now_ns) MRAIL_CTL;

#endif
