/* Received control messages about lanes. */
#ifndef MRAIL_RAIL_CONN_CTL_RECV_LANE_H
#define MRAIL_RAIL_CONN_CTL_RECV_LANE_H

#include "rail/state/engine.h"

void mrail_ctl_on_lane_req(mrail_engine_t *engine, mrail_peer_t *peer,
                           const mrail_ctl_msg_t *msg) MRAIL_BOTH;

void mrail_ctl_on_lane_ready(mrail_engine_t *engine, mrail_peer_t *peer,
                             const mrail_ctl_msg_t *msg) MRAIL_CTL;

void mrail_ctl_on_lane_rep(mrail_engine_t *engine, mrail_peer_t *peer,
                           const mrail_ctl_msg_t *msg) MRAIL_BOTH;

/* Handles FAIL: the peer's end of a lane has failed. This end closes before it
 * replies, because only then is the number of arrived messages final. If the
 * epoch in FAIL is over, the reply is repeated. */
void mrail_ctl_on_fail(mrail_engine_t *engine, mrail_peer_t *peer,
                       const mrail_ctl_msg_t *msg) MRAIL_BOTH;

/* Handles EVICT: the peer has released a lane. Once refused, an EVICT is always
 * refused, because a late repeat must not evict a lane that the peer uses
 * again. The first lane is never evicted. */
void mrail_ctl_on_evict(mrail_engine_t *engine, mrail_peer_t *peer,
                        const mrail_ctl_msg_t *msg) MRAIL_BOTH;

void mrail_ctl_on_confirm(mrail_engine_t *engine, mrail_peer_t *peer,
                          const mrail_ctl_msg_t *msg) MRAIL_CTL;

void mrail_ctl_on_refuse(mrail_engine_t *engine, mrail_peer_t *peer,
                         const mrail_ctl_msg_t *msg) MRAIL_BOTH;

#endif
