/* Throttling of lanes when busy peers reach different rails. Data-path lock
 * held. */
#ifndef MRAIL_RAIL_DATA_THROTTLE_H
#define MRAIL_RAIL_DATA_THROTTLE_H

#include "rail/state/engine.h"

/* Recomputes the division of the rails among the busy peers. */
void mrail_throttle_poll(mrail_engine_t *engine, mrail_ns_t now_ns) MRAIL_DATA;

/* Marks lanes as unusable if other peers need their rails more. */
void mrail_throttle_mark(mrail_peer_t *peer,
                         const mrail_fair_share_t *fair_share) MRAIL_DATA;

/* Returns the fair shares of the peer's direction, or NULL if no rail is
 * throttled. */
static inline mrail_fair_share_t *mrail_throttle_fair_share(mrail_peer_t *peer)
{
    mrail_fair_share_t *fair_share =
        &peer->engine->fair_share[peer->fair_share_direction];

    return (MRAIL_UNLIKELY(fair_share->active) &&
            (peer->fair_share_period == fair_share->period))
               ? fair_share
               : NULL;
}

#endif
