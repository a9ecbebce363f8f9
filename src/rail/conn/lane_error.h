/* Reports errors of lanes and peers. The functions only set bits, on which
 * recovery/ acts. */
#ifndef MRAIL_RAIL_CONN_LANE_ERROR_H
#define MRAIL_RAIL_CONN_LANE_ERROR_H

#include "rail/state/engine.h"

/* Reports an error of the lane's QP, which starts a failover. Data-path lock
 * held. */
void mrail_lane_error(mrail_lane_t *lane, const char *cause);

/* Fails the peer, because it or its user has violated the protocol. Another
 * lane would not help. */
void mrail_peer_error(mrail_peer_t *peer, const char *cause);

/* Requests the failover of a lane that has failed or must be given up.
 * Data-path lock or control lock held. */
void mrail_failover_request(mrail_lane_t *lane, const char *cause);

#endif
